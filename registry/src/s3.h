/*-------------------------------------------------------------------------
 *
 * s3.h
 *		Sends requests to a bucket.
 *-------------------------------------------------------------------------
 */
#ifndef REGISTRYD_S3_H
#define REGISTRYD_S3_H

#include <stdbool.h>
#include <stddef.h>

#include "options.h"

typedef struct S3Request
{
	const char *method;
	const char *key;			/* name of an object, or "" for the bucket
								 * itself */
	const char *query;			/* parameters, escaped and sorted, or NULL */
	const char *header;			/* an additional header, or NULL */
	const char *body;			/* body of a PUT */
	size_t		body_size;
	char	   *into;			/* buffer for the answer's body, or NULL */
	size_t		room;
	/* The answer */
	size_t		got;			/* number of bytes of its body */
	char		etag[80];
	char		range[80];		/* its header Content-Range */
	char		encryption[32]; /* its header about server-side encryption; ""
								 * without one */
	char		refusal[40];	/* the error code of a refusal; "" without one */
} S3Request;

extern bool s3_open(void) MUST_USE;
extern const char *s3_prefix(void);
extern const char *s3_encryption(void);
extern char *s3_encode(const char *word);
extern long s3_request(S3Request *request) MUST_USE;

#endif							/* REGISTRYD_S3_H */
