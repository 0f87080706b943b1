/*-------------------------------------------------------------------------
 *
 * framing.h
 *		Checks that the headers of an HTTP request define its end without
 *		doubt.
 *-------------------------------------------------------------------------
 */
#ifndef LIB_FRAMING_H
#define LIB_FRAMING_H

#include <microhttpd.h>
#include <stdbool.h>
#include <stdint.h>

#define BODY_CHUNKED	(-1)

extern bool framing_is_certain(struct MHD_Connection *connection, int64_t *body_size);

#endif							/* LIB_FRAMING_H */
