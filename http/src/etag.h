/*-------------------------------------------------------------------------
 *
 * etag.h
 *		Entity tags, by which a client finds out whether content has changed.
 *-------------------------------------------------------------------------
 */
#ifndef HTTP_ETAG_H
#define HTTP_ETAG_H

#include <stddef.h>

#define ETAG_SIZE	40

/* Writes the tag of some content, in quotes, into ETAG_SIZE bytes. */
extern void etag_make(char *etag, const char *content, size_t size);

#endif							/* HTTP_ETAG_H */
