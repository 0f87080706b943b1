/*-------------------------------------------------------------------------
 *
 * options.h
 *		The daemon's options, and its log.
 *
 *-------------------------------------------------------------------------
 */
#ifndef HTTP_OPTIONS_H
#define HTTP_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

typedef struct WebOptions
{
	const char *database;		/* libpq's connection string */
	const char *address;		/* to listen on */
	int			port;
	int			workers;		/* requests at once, each with a connection to the database */
	int			waiting;		/* requests that may wait for a worker */
	int			connections;	/* of clients */
	int			per_address;	/* of those, from one address */
	int			streams;		/* of events, at once */
	int			receive_s;		/* a request has come within that time */
	int			send_s;			/* an answer has been read within that time */
	int			statement_s;	/* a call to the database may last that long */
	size_t		body_max;		/* bytes of a request's body */
	int			webhooks;		/* sent at once; 0: this daemon sends none */
	int			webhook_s;		/* a message is answered within that time */
	const char *webhook_ca;		/* a file of certificates that sign receivers'; NULL: the
								 * system's */
	const char *console;		/* the folder of the console's files; NULL: none */
} WebOptions;

extern WebOptions options;

extern bool options_parse(int argc, char **argv);
extern void options_usage(bool wrong);
extern void log_line(const char *format,...) __attribute__((format(printf, 1, 2)));

#endif							/* HTTP_OPTIONS_H */
