/*-------------------------------------------------------------------------
 *
 * options.h
 *		The daemon's options.
 *-------------------------------------------------------------------------
 */
#ifndef REGISTRYD_OPTIONS_H
#define REGISTRYD_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

/* Makes the compiler warn if a function's result is ignored. */
#define MUST_USE __attribute__((warn_unused_result))

typedef struct Options
{
	const char *database;		/* the libpq connection string */
	const char *store;			/* folder of the packs, or s3://BUCKET/PREFIX */
	const char *s3_endpoint;	/* URL of the bucket's service */
	const char *s3_encryption;	/* AES256 or aws:kms[,KEY], by which the
								 * service encrypts packs; NULL: as the bucket
								 * says */
	const char *address;		/* the address to listen on */
	uint16_t	port;
	int			connections;	/* most connections to the database */
	const char *grace;			/* how long condemned packs are kept */
	int			idle;			/* seconds after which a silent client is
								 * disconnected */
	int			per_address;	/* most connections from one address */
	const char *tls_certificate;	/* file of the daemon's certificate, or
									 * NULL to speak plain HTTP */
	const char *tls_key;		/* file of its private key */
} Options;

extern Options options;
extern bool options_parse(int argc, char **argv, const char **command);
extern void usage(bool wrong);

#endif							/* REGISTRYD_OPTIONS_H */
