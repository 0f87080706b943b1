/*-------------------------------------------------------------------------
 *
 * relay_stream.h
 *		One end of a stream of bytes, and TLS connections to a relay.
 *-------------------------------------------------------------------------
 */
#ifndef LIB_RELAY_STREAM_H
#define LIB_RELAY_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RELAY_LINE	160			/* most bytes of a line, with its zero byte */

struct ssl_st;

/*
 * One end of a stream.  The descriptor does not block.  Without TLS, "ssl" is
 * NULL.
 */
typedef struct RelayEnd
{
	int			fd;
	struct ssl_st *ssl;
} RelayEnd;

extern const char *RelayConnect(const char *relay, int64_t until_ns,
								RelayEnd *end);
extern bool RelayHandshake(RelayEnd *end, bool accepts, int64_t until_ns);
extern bool RelayWriteLine(RelayEnd *end, const char *line,
						   int64_t until_ns);
extern bool RelayReadLine(RelayEnd *end, char line[RELAY_LINE],
						  int64_t until_ns);
extern void RelayPump(RelayEnd *first, RelayEnd *second, void (*came) (void));
extern void RelayClose(RelayEnd *end);
extern void RelayPrepareSocket(int fd);
extern void RelayDigest(const void *data, size_t len, char hex[65]);

#endif							/* LIB_RELAY_STREAM_H */
