/*-------------------------------------------------------------------------
 *
 * options.h
 *		The daemon's options.
 *
 *-------------------------------------------------------------------------
 */
#ifndef REGISTRYD_OPTIONS_H
#define REGISTRYD_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

/* The compiler warns where a result with this mark is ignored. */
#define MUST_USE __attribute__((warn_unused_result))

typedef struct Options
{
	const char *database;		/* connection string */
	const char *store;			/* folder of the packs, or s3://BUCKET/PREFIX */
	const char *s3_endpoint;	/* URL of the bucket's service */
	const char *address;		/* what to listen on */
	uint16_t	port;
	int			connections;	/* to the database, at most */
	const char *grace;			/* how long condemned packs stay */
	int			idle;			/* seconds until a silent client is cut off */
	int			per_address;	/* connections of one */
} Options;

extern Options options;
extern bool options_parse(int argc, char **argv, const char **command);
extern void usage(bool wrong);

#endif							/* REGISTRYD_OPTIONS_H */
