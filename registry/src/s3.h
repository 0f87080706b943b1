/*-------------------------------------------------------------------------
 *
 * s3.h
 *		Requests to a bucket.
 *
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
	const char *key;			/* of an object; "" for the bucket */
	const char *query;			/* its words encoded and sorted; or NULL */
	const char *header;			/* one more; or NULL */
	const char *body;			/* of a PUT */
	size_t		body_size;
	char	   *into;			/* room for the answer's body; or NULL */
	size_t		room;
	/* the answer */
	size_t		got;			/* bytes of its body */
	char		etag[80];
	char		range[80];		/* its Content-Range */
	char		encryption[32]; /* by whose key, if any */
	char		refusal[40];	/* its code; "" without any */
} S3Request;

extern bool s3_open(void) MUST_USE;
extern const char *s3_prefix(void);
extern char *s3_encode(const char *word);
extern long s3_request(S3Request *request) MUST_USE;

#endif							/* REGISTRYD_S3_H */
