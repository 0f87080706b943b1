/*-------------------------------------------------------------------------
 *
 * framing.c
 *		Checks that the headers of an HTTP request define its end without
 *		doubt.
 *
 * If two servers disagree where a request ends, an attacker can hide a second
 * request in the body of the first (request smuggling).
 *-------------------------------------------------------------------------
 */
#include "framing.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

/*
 * What the headers state about the end of the body and about the host. The
 * integers count headers of each kind.
 */
typedef struct Framing
{
	int			lengths;
	int			encodings;
	int			hosts;
	bool		chunked;		/* the encoding is "chunked", the only one
								 * that is supported */
	const char *length;
	bool		malformed;		/* a Content-Length is not a number */
} Framing;

/* Records a header if it defines the end of the body or the host. */
static enum MHD_Result
add_framing(void *cls, enum MHD_ValueKind kind, const char *name, const char *value)
{
	Framing    *framing = cls;

	(void) kind;
	if (strcasecmp(name, "Content-Length") == 0)
	{
		framing->malformed = framing->malformed || value == NULL || value[0] == '\0' ||
			strlen(value) > 18 || value[strspn(value, "0123456789")] != '\0';
		framing->length = value;
		framing->lengths++;
	}
	else if (strcasecmp(name, "Transfer-Encoding") == 0)
	{
		framing->encodings++;
		framing->chunked = value != NULL && strcasecmp(value, "chunked") == 0;
	}
	else if (strcasecmp(name, "Host") == 0)
		framing->hosts++;
	return MHD_YES;
}

/*
 * Whether the headers define without doubt where the request ends, and name
 * exactly one host. If so, *body_size becomes the length of the body, or
 * BODY_CHUNKED.
 */
bool
framing_is_certain(struct MHD_Connection *connection, int64_t *body_size)
{
	Framing		framing = {0};

	MHD_get_connection_values(connection, MHD_HEADER_KIND, add_framing, &framing);
	if (framing.malformed || framing.lengths + framing.encodings > 1 ||
		(framing.encodings == 1 && !framing.chunked) || framing.hosts != 1)
		return false;
	*body_size = framing.encodings > 0 ? BODY_CHUNKED :
		framing.length != NULL ? atoll(framing.length) : 0;
	return true;
}
