/*-------------------------------------------------------------------------
 *
 * etag.h
 *		Tags of content, by which a client asks whether it has changed.
 *
 *-------------------------------------------------------------------------
 */
#ifndef HTTP_ETAG_H
#define HTTP_ETAG_H

#include <stddef.h>

#define ETAG_SIZE	40

/* Write the tag of some content, in quotes, into ETAG_SIZE bytes. */
extern void etag_make(char *etag, const char *content, size_t size);

#endif							/* HTTP_ETAG_H */
