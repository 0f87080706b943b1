/*-------------------------------------------------------------------------
 *
 * queue.c
 *		The queue of requests that wait for a worker.
 *
 * A role that sends many slow calls must not make all others wait. Therefore
 * the requests of one role may use at most half of the workers at once, and at
 * most a quarter of the queue; requests of other roles overtake those of a
 * role that has used its share. Otherwise requests are handled in the order of
 * arrival.
 *
 * Only the database knows which role a token belongs to. The queue remembers
 * it from earlier requests. All tokens whose role is not known yet share one
 * group, which may use a quarter of the workers: otherwise a role could use
 * all workers by means of many new tokens. This only decides which requests
 * wait, never what a request may do.
 *
 * The queue is bounded: a request that waits long is repeated by its client,
 * and then waits twice.
 *-------------------------------------------------------------------------
 */
#include "queue.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/random.h>

#include "options.h"

#define UNKNOWN		2			/* the group of tokens whose role is not
								 * known; hashes are odd */

/*
 * The tokens whose role is remembered, in sets. A token's hash selects its
 * set; in a full set a new token replaces the one whose last request is the
 * longest ago.
 */
#define SETS		1024
#define SET_SIZE	8

typedef struct Known
{
	uint64_t	token;			/* hash of the secret, or 0 for an unused
								 * entry */
	uint64_t	role;			/* hash of the role's name */
	uint64_t	request;		/* number of the last request with this token */
}			Known;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static WebRequest * first = NULL;
static WebRequest * *last = &first;
static int	length = 0;
static bool stopping = false;
static uint64_t *at_work = NULL;	/* the group that each worker works for,
									 * or 0 */
static int	nworkers = 0;
static Known known[SETS][SET_SIZE];
static uint64_t nrequests = 0;
static uint64_t secret_start;

/*
 * Computes an FNV-1a hash that is never 0. It starts from a secret random
 * number: otherwise a client could send as its token a text whose hash is that
 * of another role, and use up that role's share.
 */
static uint64_t
hash_text(const char *text)
{
	uint64_t	hash = secret_start;

	for (; *text != '\0'; text++)
		hash = (hash ^ (unsigned char) *text) * UINT64_C(1099511628211);
	return hash | 1;
}

/* Returns the group of a request: its role, or UNKNOWN. */
static uint64_t
group_of(const char *token)
{
	uint64_t	hash = hash_text(token);
	const		Known *set = known[hash / 2 % SETS];

	for (int i = 0; i < SET_SIZE; i++)
		if (set[i].token == hash)
			return set[i].role;
	return UNKNOWN;
}

/* Remembers the role of a token. */
static void
remember(const char *token, const char *role)
{
	uint64_t	hash = hash_text(token);
	Known	   *set = known[hash / 2 % SETS];
	Known	   *entry = set;

	for (int i = 0; i < SET_SIZE; i++)
	{
		if (set[i].token == hash)
		{
			entry = &set[i];
			break;
		}
		if (set[i].request < entry->request)
			entry = &set[i];
	}
	*entry = (Known)
	{
		hash, hash_text(role), ++nrequests
	};
}

/* Returns how many workers a group may use at once. */
static int
share_of(uint64_t group)
{
	return group == UNKNOWN ? (nworkers + 3) / 4 : (nworkers + 1) / 2;
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
queue_add(WebRequest * request, bool is_suspended)
{
	bool		accepted;

	pthread_mutex_lock(&lock);
	accepted = !stopping && length < options.waiting &&
		(length < options.waiting / 4 ||
		 waiting_of(group_of(request->token)) < options.waiting / 4);
	if (accepted)
	{
		/* suspend it before a worker can resume it */
		if (!is_suspended)
			MHD_suspend_connection(request->connection);
		*last = request;
		last = &request->next;
		length++;
		pthread_cond_signal(&changed);
	}
	pthread_mutex_unlock(&lock);
	return accepted;
}

/*
 * Removes the first request whose group has workers left to use. Returns NULL
 * if there is none.
 */
static WebRequest *
remove_first(uint64_t *group)
{
	for (WebRequest * *link = &first; *link != NULL; link = &(*link)->next)
	{
		WebRequest *request = *link;

		*group = group_of(request->token);
		if (nworkers > 1 && workers_of(*group) >= share_of(*group))
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
	pthread_mutex_lock(&lock);
	at_work[worker] = 0;
	if (role != NULL)
		remember(token, role);
	/* Requests that waited for a worker of their group may now be handled. */
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
