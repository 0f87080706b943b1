/*-------------------------------------------------------------------------
 *
 * queue.c
 *		Requests that wait for a worker.
 *
 * A role that sends many slow calls must not keep all others waiting.  So the
 * requests of one role have at most half of the workers at once, and at most a
 * quarter of the queue; the requests of others overtake those of a role that
 * has its share.  The order of arrival decides among the rest.
 *
 * Which role a token belongs to is known to the database alone.  The queue
 * remembers it from earlier requests; until then a token counts as a role of its
 * own.  What it remembers decides only who waits, never what
 * a request may do.
 *
 * The queue is bounded, since a request that waits long is repeated by its
 * client and then waits twice.
 *
 *-------------------------------------------------------------------------
 */
#include "queue.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/random.h>

#include "options.h"

#define REMEMBERED	4096		/* tokens whose role is known */

typedef struct Known
{
	uint64_t	token;			/* hash of the secret; 0: none */
	uint64_t	role;			/* hash of the role's name */
}			Known;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static WebRequest * first = NULL;
static WebRequest * *last = &first;
static int	length = 0;
static bool stopping = false;
static uint64_t *at_work = NULL;	/* the group that each worker works for;
									 * 0: none */
static int	nworkers = 0;
static Known known[REMEMBERED];
static uint64_t secret_start;

/*
 * FNV-1a, and never 0.  It begins at a number that nobody outside knows:
 * otherwise a client could send, as its token, a text whose hash is that of
 * another role, and use up that role's share.
 */
static uint64_t
hash_text(const char *text)
{
	uint64_t	hash = secret_start;

	for (; *text != '\0'; text++)
		hash = (hash ^ (unsigned char) *text) * UINT64_C(1099511628211);
	return hash | 1;
}

/* Whose request it is: the role's, or its token's while that is not known. */
static uint64_t
group_of(const char *token)
{
	uint64_t	hash = hash_text(token);
	const		Known *entry = &known[hash / 2 % REMEMBERED];

	return entry->token == hash ? entry->role : hash;
}

static int
workers_of(uint64_t group)
{
	int			n = 0;

	for (int i = 0; i < nworkers; i++)
		n += at_work[i] == group;
	return n;
}

static int
waiting_of(uint64_t group)
{
	int			n = 0;

	for (const WebRequest * request = first; request != NULL; request = request->next)
		n += group_of(request->token) == group;
	return n;
}

bool
queue_init(int workers)
{
	if (getrandom(&secret_start, sizeof(secret_start), 0) != sizeof(secret_start))
		return false;
	nworkers = workers;
	at_work = calloc((size_t) workers, sizeof(uint64_t));
	return at_work != NULL;
}

bool
queue_add(WebRequest * request)
{
	bool		accepted;

	pthread_mutex_lock(&lock);
	accepted = !stopping && length < options.waiting &&
		(length < options.waiting / 4 ||
		 waiting_of(group_of(request->token)) < options.waiting / 4);
	if (accepted)
	{
		/* before a worker can resume it */
		MHD_suspend_connection(request->connection);
		*last = request;
		last = &request->next;
		length++;
		pthread_cond_signal(&changed);
	}
	pthread_mutex_unlock(&lock);
	return accepted;
}

/* The first request whose group has not its share of the workers; or NULL. */
static WebRequest *
remove_first(uint64_t *group)
{
	for (WebRequest * *link = &first; *link != NULL; link = &(*link)->next)
	{
		WebRequest *request = *link;

		*group = group_of(request->token);
		if (nworkers > 1 && workers_of(*group) >= (nworkers + 1) / 2)
			continue;
		*link = request->next;
		if (last == &request->next)
			last = link;
		request->next = NULL;
		length--;
		return request;
	}
	return NULL;
}

WebRequest *
queue_next(int worker)
{
	WebRequest *request;
	uint64_t	group;

	pthread_mutex_lock(&lock);
	while ((request = remove_first(&group)) == NULL && !(stopping && first == NULL))
		pthread_cond_wait(&changed, &lock);
	if (request != NULL)
		at_work[worker] = group;
	pthread_mutex_unlock(&lock);
	return request;
}

void
queue_done(int worker, const char *token, const char *role)
{
	uint64_t	hash = hash_text(token);

	pthread_mutex_lock(&lock);
	at_work[worker] = 0;
	if (role != NULL)
		known[hash / 2 % REMEMBERED] = (Known)
	{
		hash, hash_text(role)
	};
	/* requests that waited for their group's share may go on */
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
}

void
queue_stop(void)
{
	pthread_mutex_lock(&lock);
	stopping = true;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
}

int
queue_length(void)
{
	int			n;

	pthread_mutex_lock(&lock);
	n = length;
	pthread_mutex_unlock(&lock);
	return n;
}
