/*-------------------------------------------------------------------------
 *
 * options.h
 *		The daemon's options.
 *
 *-------------------------------------------------------------------------
 */
#ifndef HTTP_OPTIONS_H
#define HTTP_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

#include "network.h"

typedef struct WebOptions
{
	const char *database;		/* the libpq connection string */
	const char *address;		/* the address to listen on */
	int			port;
	int			workers;		/* number of worker threads, each with a
								 * connection to the database */
	int			waiting;		/* most requests that may wait for a worker */
	int			connections;	/* most connections of clients */
	int			per_address;	/* most connections from one address */
	int			streams;		/* most streams of events */
	int			receive_s;		/* time within which a request must have
								 * arrived */
	int			send_s;			/* time within which an answer must have been
								 * read */
	int			statement_s;	/* time limit of a call of the database */
	size_t		body_max;		/* most bytes of a request's body */
	const char *tls_certificate;	/* file of the daemon's certificate, or
									 * NULL to speak plain HTTP */
	const char *tls_key;		/* file of its private key */
	int			webhooks;		/* most webhook messages sent at once; 0 if
								 * this daemon sends none */
	int			webhook_s;		/* time within which a message must be
								 * answered */
	const char *webhook_ca;		/* file of certificate authorities for
								 * receivers; NULL for the system's */
	NetworkList webhook_networks;	/* networks that are not public but may
									 * receive webhooks */
	NetworkList identity_networks;	/* networks that are not public but may
									 * have identity providers */
	const char *identity_ca;	/* file of certificate authorities for identity
								 * providers; NULL for the system's */
	const char *otlp_endpoint;	/* address of a collector of OpenTelemetry, or
								 * NULL for none */
	const char *otlp_headers;	/* file of headers for it, or NULL */
	const char *otlp_ca;		/* file of certificate authorities for it; NULL
								 * for the system's */
	const char *console;		/* folder of the console's files, or NULL for
								 * none */
} WebOptions;

extern WebOptions options;

extern bool options_parse(int argc, char **argv);
extern void options_usage(bool wrong);

#endif							/* HTTP_OPTIONS_H */
