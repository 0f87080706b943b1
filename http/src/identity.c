/*-------------------------------------------------------------------------
 *
 * identity.c
 *		Threads that check requests against identity providers.
 *
 * If a request carries a provider's token, the signature of the token is
 * checked here. The request then goes to a worker with the token's claims, as
 * any request does with its token. Requests to the addresses below /v1/sign_in
 * (signin.c) are answered here.
 *
 * A provider may be slow or silent. It never blocks the threads that answer
 * requests from the database, and all providers together leave two of these
 * threads free: at most three threads redeem codes of one provider and six
 * those of all, and REFRESHES_MOST threads read what providers publish
 * (provider.c). So a token whose keys are known is checked at once, whatever
 * the providers do.
 *-------------------------------------------------------------------------
 */
#include "identity.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "options.h"
#include "problem.h"
#include "provider.h"
#include "signin.h"
#include "worker.h"

#define SLOW_MOST		6
#define THREADS			(SLOW_MOST + REFRESHES_MOST + 2)
#define SLOW_PER_PROVIDER	3
#define WAITING_SLOW_MOST	100

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static WebRequest * first = NULL;
static int	length = 0;
static bool stopping = false;
static pthread_t threads[THREADS];
static long long slow_for[THREADS]; /* the provider that each thread may wait
									 * for, or 0 */
static int	nthreads = 0;

/*
 * Whether a secret is a provider's token, which consists of three parts in
 * base64url.
 */
static bool
is_provider_token(const char *secret)
{
	const char *dot = strchr(secret, '.');

	return strncmp(secret, "eyJ", 3) == 0 && dot != NULL && strchr(dot + 1, '.') != NULL;
}

bool
identity_is_needed(const WebRequest * request)
{
	return request->claims == NULL && (request->sign_in.step != SIGN_IN_NONE ||
									   (request->token != NULL && request->csrf == NULL &&
										is_provider_token(request->token)));
}

/* Returns the provider that a request may have to wait for, or 0. */
static long long
slow_provider(const WebRequest * request)
{
	return request->sign_in.step == SIGN_IN_CALLBACK ? request->sign_in.provider : 0;
}

/*
 * Removes the first request whose provider has threads left to use. Returns
 * NULL if there is none.
 */
static WebRequest *
remove_first(void)
{
	int			slow = 0;

	for (int i = 0; i < nthreads; i++)
		slow += slow_for[i] != 0;
	for (WebRequest * *link = &first; *link != NULL; link = &(*link)->next)
	{
		WebRequest *request = *link;
		long long	provider = slow_provider(request);
		int			n = 0;

		for (int i = 0; i < nthreads; i++)
			n += provider != 0 && slow_for[i] == provider;
		if (provider != 0 && !stopping && (n >= SLOW_PER_PROVIDER || slow >= SLOW_MOST))
			continue;
		*link = request->next;
		request->next = NULL;
		length--;
		return request;
	}
	return NULL;
}

bool
identity_enqueue(WebRequest * request)
{
	WebRequest **link = &first;
	int			slow = 0;
	bool		accepted;

	pthread_mutex_lock(&lock);
	for (; *link != NULL; link = &(*link)->next)
		slow += slow_provider(*link) != 0;
	accepted = !stopping && length < options.waiting &&
		(slow_provider(request) == 0 || slow < WAITING_SLOW_MOST);
	if (accepted)
	{
		/* suspend it before a thread can resume it */
		MHD_suspend_connection(request->connection);
		request->next = NULL;
		*link = request;
		length++;
		pthread_cond_signal(&changed);
	}
	pthread_mutex_unlock(&lock);
	if (accepted)
		return true;
	problem_answer(request, 503, "too many requests wait", NULL, "Repeat the request later.");
	request->step = REQUEST_ANSWERED;
	return false;
}

/*
 * Checks the provider's token of a request. Returns false, with an answer, if
 * it is not valid.
 */
static bool
check_token(WebRequest * request)
{
	char	   *issuer = token_issuer(request->token);
	Provider   *provider = issuer != NULL ? provider_by_issuer(issuer) : NULL;
	TokenVerdict verdict = TOKEN_BAD;
	json_t	   *claims = NULL;

	free(issuer);
	if (provider != NULL && provider_is_bearer(provider))
		verdict = provider_verify(provider, request->token, &claims);
	if (verdict == TOKEN_SIGNED)
	{
		request->provider = provider_number(provider);
		request->claims = json_dumps(claims, JSON_COMPACT);
		if (request->is_stream || request->is_session || request->claims == NULL)
			problem_answer(request, 403, "a provider's token begins no stream and no session",
						   "It ends soon, and they would outlive it.",
						   "Issue a token with it by POST /v1/tokens, and use that one.");
	}
	else if (verdict == TOKEN_UNKNOWN)
		problem_answer(request, 503, "the identity provider does not answer",
					   "Its keys are not known now.", "Repeat the request later.");
	else
		problem_answer(request, 401, "the token is not good",
					   "No identity provider that is set here for tokens of requests signed it.",
					   "Get another one from the provider.");
	json_decref(claims);
	if (provider != NULL)
		provider_release(provider);
	return request->response == NULL;
}

/* Thread that checks or answers one request after another. */
static void *
identity_main(void *number)
{
	int			self = (int) (intptr_t) number;

	for (;;)
	{
		WebRequest *request;
		bool		goes_on = false;
		bool		is_late;

		pthread_mutex_lock(&lock);
		slow_for[self] = 0;
		pthread_cond_broadcast(&changed);
		while ((request = remove_first()) == NULL && !(stopping && first == NULL))
			pthread_cond_wait(&changed, &lock);
		if (request != NULL)
			slow_for[self] = slow_provider(request);
		is_late = stopping;
		pthread_mutex_unlock(&lock);
		if (request == NULL)
			return NULL;

		if (is_late)			/* a slow provider must not delay the daemon's
								 * end */
			problem_answer(request, 503, "the daemon ends", NULL, "Repeat the request.");
		else
			goes_on = request->sign_in.step != SIGN_IN_NONE ? signin_answer(request) :
				check_token(request);
		if (goes_on && worker_enqueue_suspended(request))
			continue;
		request->step = REQUEST_ANSWERED;
		MHD_resume_connection(request->connection);
	}
}

bool
identity_start(void)
{
	while (nthreads < THREADS &&
		   pthread_create(&threads[nthreads], NULL, identity_main, (void *) (intptr_t) nthreads) == 0)
		nthreads++;
	return nthreads == THREADS;
}

void
identity_stop(void)
{
	pthread_mutex_lock(&lock);
	stopping = true;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
	for (int i = 0; i < nthreads; i++)
		pthread_join(threads[i], NULL);
}
