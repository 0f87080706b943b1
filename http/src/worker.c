/*-------------------------------------------------------------------------
 *
 * worker.c
 *		Threads that have requests answered, and the queue before them.
 *
 * The threads that read and write sockets never wait for the database: a
 * request that needs it suspends its connection and waits here for one of a few
 * workers.  Each worker has one connection to the database.  The queue is
 * bounded, since a request that waits long is repeated by its client and then
 * waits twice.
 *
 *-------------------------------------------------------------------------
 */
#include "worker.h"

#include <pthread.h>
#include <stdlib.h>

#include "database.h"
#include "options.h"
#include "problem.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t arrived = PTHREAD_COND_INITIALIZER;
static WebRequest *first = NULL;
static WebRequest **last = &first;
static int	waiting = 0;
static bool stopping = false;
static bool reachable = false;	/* as the last request found it */
static pthread_t *threads = NULL;
static int	nthreads = 0;

/* The next request; NULL once all are answered and the daemon stops. */
static WebRequest *
worker_dequeue(void)
{
	WebRequest    *request;

	pthread_mutex_lock(&lock);
	while (first == NULL && !stopping)
		pthread_cond_wait(&arrived, &lock);
	request = first;
	if (request != NULL)
	{
		first = request->next;
		if (first == NULL)
			last = &first;
		request->next = NULL;
		waiting--;
	}
	pthread_mutex_unlock(&lock);
	return request;
}

static void
note_reachable(bool is)
{
	pthread_mutex_lock(&lock);
	reachable = is;
	pthread_mutex_unlock(&lock);
}

/* A worker: answers one request after another, on its own connection. */
static void *
worker_main(void *unused)
{
	PGconn	   *connection = NULL;
	WebRequest    *request;

	(void) unused;
	note_reachable(database_ready(&connection));
	while ((request = worker_dequeue()) != NULL)
	{
		if (request->step == REQUEST_CHECKING)
			request->step = database_check_token(&connection, request) ?
				REQUEST_CHECKED : REQUEST_ANSWERED;
		else
		{
			database_answer(&connection, request);
			request->step = REQUEST_ANSWERED;
		}
		note_reachable(connection != NULL);
		MHD_resume_connection(request->connection);
	}
	PQfinish(connection);
	return NULL;
}

bool
workers_start(void)
{
	threads = calloc((size_t) options.workers, sizeof(pthread_t));
	while (threads != NULL && nthreads < options.workers &&
		   pthread_create(&threads[nthreads], NULL, worker_main, NULL) == 0)
		nthreads++;
	return nthreads == options.workers;
}

bool
worker_enqueue(WebRequest *request)
{
	bool		accepted;

	pthread_mutex_lock(&lock);
	accepted = waiting < options.waiting && !stopping;
	if (accepted)
	{
		/* before a worker can resume it */
		MHD_suspend_connection(request->connection);
		*last = request;
		last = &request->next;
		waiting++;
		pthread_cond_signal(&arrived);
	}
	pthread_mutex_unlock(&lock);
	if (!accepted)
	{
		problem_answer(request, 503, "too many requests wait", NULL, "Repeat the request later.");
		request->step = REQUEST_ANSWERED;
	}
	return accepted;
}

void
workers_stop(void)
{
	pthread_mutex_lock(&lock);
	stopping = true;
	pthread_cond_broadcast(&arrived);
	pthread_mutex_unlock(&lock);
	for (int i = 0; i < nthreads; i++)
		pthread_join(threads[i], NULL);
	free(threads);
}

bool
workers_ready(void)
{
	bool		is;

	pthread_mutex_lock(&lock);
	is = reachable;
	pthread_mutex_unlock(&lock);
	return is;
}

int
workers_waiting(void)
{
	int			n;

	pthread_mutex_lock(&lock);
	n = waiting;
	pthread_mutex_unlock(&lock);
	return n;
}
