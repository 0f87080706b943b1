/*-------------------------------------------------------------------------
 *
 * outgoing.h
 *		Restricts requests that the daemon makes on behalf of others.
 *-------------------------------------------------------------------------
 */
#ifndef HTTP_OUTGOING_H
#define HTTP_OUTGOING_H

#include <curl/curl.h>
#include <stdbool.h>

/* A request to an address that somebody else chose. */
typedef struct Outgoing
{
	const char *url;
	curl_opensocket_callback open_socket;	/* refuses addresses that are not
											 * allowed */
	void	   *context;		/* argument of open_socket */
	long		connect_ms;		/* time limit of the connection */
	long		timeout_ms;		/* time limit of the whole request */
	const char *ca;				/* file of certificate authorities; NULL for
								 * the system's */
} Outgoing;

/* Restricts libcurl to such a request. Returns false on failure. */
extern bool outgoing_restrict(CURL *curl, const Outgoing *request);

#endif							/* HTTP_OUTGOING_H */
