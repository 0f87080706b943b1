/*-------------------------------------------------------------------------
 *
 * fetch.h
 *		Makes one request to an identity provider.
 *-------------------------------------------------------------------------
 */
#ifndef HTTP_FETCH_H
#define HTTP_FETCH_H

#include <jansson.h>
#include <stdbool.h>

typedef struct Fetch
{
	const char *url;
	const char *form;			/* body of a POST; NULL for a GET */
	const char *user;			/* user of Basic authentication, escaped like
								 * the password; NULL for none */
	const char *password;
	long		status;			/* HTTP status of the answer, or 0 if there was
								 * none */
} Fetch;

/* Initialises libcurl. Called before threads are started. */
extern bool fetch_init(void);

/*
 * Returns the JSON object of the provider's answer, whatever the status.
 * Returns NULL after a log line on failure.
 */
extern json_t *fetch_object(Fetch *fetch);

#endif							/* HTTP_FETCH_H */
