/*-------------------------------------------------------------------------
 *
 * session_frame.h
 *		The protocol of a session between the command line and the job.
 *-------------------------------------------------------------------------
 */
#ifndef LIB_SESSION_FRAME_H
#define LIB_SESSION_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FRAME_DATA		(32 * 1024) /* most bytes of a frame's data */
#define FRAME_RESERVE	(16 * 1024) /* room that data leaves for other frames */

/* The kinds of frames.  A channel is a forwarded connection, or 0. */
typedef enum FrameKind
{
	FRAME_START = 'S',			/* to the job: the terminal and its command,
								 * texts "key=value" */
	FRAME_SIZE = 'W',			/* to the job: "COLUMNS ROWS" */
	FRAME_BYTES = 'D',			/* bytes of a terminal or a connection */
	FRAME_EXIT = 'X',			/* from the job: the exit code, as text */
	FRAME_REFUSED = 'R',		/* from the job: why nothing was started */
	FRAME_OPEN = 'O',			/* to the job: a new connection */
	FRAME_WINDOW = 'C',			/* more bytes may be sent, a number as text */
	FRAME_END = 'F',			/* no more bytes come on the channel */
	FRAME_CLOSE = 'K'			/* the channel is closed; why, or empty */
} FrameKind;

/* A received frame. Its data stay valid until more is read. */
typedef struct Frame
{
	FrameKind	kind;
	uint32_t	channel;
	size_t		len;
	char	   *data;
} Frame;

/* One side of a session. The descriptor does not block. */
typedef struct FrameStream
{
	int			fd;
	bool		ended;			/* nothing more can be read or written */
	char	   *in;
	size_t		in_at;
	size_t		in_used;
	char	   *out;
	size_t		out_at;
	size_t		out_used;
} FrameStream;

extern void FrameBegin(FrameStream *stream, int fd);
extern short FrameEvents(const FrameStream *stream);
extern void FrameRead(FrameStream *stream);
extern bool FrameNext(FrameStream *stream, Frame *frame);
extern bool FrameHasRoom(const FrameStream *stream);
extern void FramePut(FrameStream *stream, FrameKind kind, uint32_t channel,
					 const void *data, size_t len);
extern void FramePutText(FrameStream *stream, FrameKind kind,
						 uint32_t channel, const char *text);
extern void FrameWrite(FrameStream *stream);
extern void FrameFinish(FrameStream *stream, int limit_ms);

#endif							/* LIB_SESSION_FRAME_H */
