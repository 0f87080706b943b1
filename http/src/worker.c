/*-------------------------------------------------------------------------
 *
 * worker.c
 *		Threads that answer requests from the database.
 *
 * The threads that read and write sockets never wait for the database: a
 * request that needs the database suspends its connection and waits in the
 * queue for one of a few workers. Each worker has one connection to the
 * database.
 *-------------------------------------------------------------------------
 */
#include "worker.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "database.h"
#include "options.h"
#include "problem.h"
#include "queue.h"

static atomic_bool reachable = false;	/* whether the last request reached the
										 * database */
static pthread_t * threads = NULL;
static int	nthreads = 0;

/* Thread that answers one request after another, on its own connection. */
static void *
worker_main(void *number)
{
	int			worker = (int) (intptr_t) number;
	PGconn	   *connection = NULL;
	WebRequest *request;

	atomic_store(&reachable, database_ready(&connection));
	while ((request = queue_next(worker)) != NULL)
	{
		if (request->step == REQUEST_CHECKING)
			request->step = database_check_token(&connection, request) ?
				REQUEST_CHECKED : REQUEST_ANSWERED;
		else
		{
			database_answer(&connection, request);
			request->step = REQUEST_ANSWERED;
		}
		atomic_store(&reachable, connection != NULL);
		/* Once its connection is resumed, the request may be freed. */
		queue_done(worker, request->token, request->role);
		MHD_resume_connection(request->connection);
	}
	PQfinish(connection);
	return NULL;
}

bool
workers_start(void)
{
	threads = calloc((size_t) options.workers, sizeof(pthread_t));
	if (threads == NULL || !queue_init(options.workers))
		return false;
	while (nthreads < options.workers &&
		   pthread_create(&threads[nthreads], NULL, worker_main, (void *) (intptr_t) nthreads) == 0)
		nthreads++;
	return nthreads == options.workers;
}

/* Answers a request with 503, because too many requests wait. */
static bool
refuse(WebRequest * request)
{
	problem_answer(request, 503, "too many requests wait", NULL, "Repeat the request later.");
	request->step = REQUEST_ANSWERED;
	return false;
}

bool
worker_enqueue(WebRequest * request)
{
	if (queue_add(request, false))
		return true;
	return refuse(request);
}

bool
worker_enqueue_suspended(WebRequest * request)
{
	return queue_add(request, true) || refuse(request);
}

void
workers_stop(void)
{
	queue_stop();
	for (int i = 0; i < nthreads; i++)
		pthread_join(threads[i], NULL);
	free(threads);
}

bool
workers_ready(void)
{
	return atomic_load(&reachable);
}
