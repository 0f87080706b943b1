/*-------------------------------------------------------------------------
 *
 * framing.c
 *		Where an HTTP request ends, as its headers say.
 *
 * A request whose end two servers could find at different places is dangerous:
 * what one takes for a body would be another one's next request.
 *
 *-------------------------------------------------------------------------
 */
#include "framing.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Headers that say where a body ends. */
typedef struct Framing
{
	int			lengths;
	int			encodings;
	int			hosts;
	bool		chunked;		/* the only encoding that is known here */
	const char *length;
	bool		malformed;		/* a length that is no number */
} Framing;

/* Note a header that says where the body ends, or to whom the request goes. */
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
 * Is it certain where the request ends, and to whom it goes?  Then *body_size
 * is how long its body is, or BODY_CHUNKED.
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
