/*-------------------------------------------------------------------------
 *
 * session_frame.c
 *		The protocol of a session between the command line and the job.
 *
 * A frame is its kind (a byte), its channel and the length of its data (four
 * bytes each, the most significant first), and its data. Buffers have a fixed
 * size. Who produces bytes first asks whether there is room for them, so a
 * slow reader stops the producer. Other frames are small and few, and find
 * room in a reserve; a side that exhausts it has broken the protocol.
 *-------------------------------------------------------------------------
 */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "clock.h"
#include "memory.h"
#include "session_frame.h"

#define HEAD	9
#define BUFFER	(256 * 1024)

void
FrameBegin(FrameStream *stream, int fd)
{
	*stream = (FrameStream)
	{
		.fd = fd, .in = Alloc(BUFFER), .out = Alloc(BUFFER)
	};
}

/* Returns the events to poll for. */
short
FrameEvents(const FrameStream *stream)
{
	short		events = stream->out_used > stream->out_at ? POLLOUT : 0;

	/* Bytes that were consumed make room with the next read. */
	return stream->in_used - stream->in_at < BUFFER ? events | POLLIN :
		events;
}

/* Reads what has come, as far as it fits into the buffer. */
void
FrameRead(FrameStream *stream)
{
	if (stream->in_at > 0)
	{
		stream->in_used -= stream->in_at;
		memmove(stream->in, stream->in + stream->in_at, stream->in_used);
		stream->in_at = 0;
	}
	while (!stream->ended && stream->in_used < BUFFER)
	{
		ssize_t		n = read(stream->fd, stream->in + stream->in_used,
							 BUFFER - stream->in_used);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			break;
		if (n <= 0)
			stream->ended = true;
		else
			stream->in_used += n;
	}
}

/*
 * Returns the next complete frame. A frame that is too long ends the stream.
 */
bool
FrameNext(FrameStream *stream, Frame *frame)
{
	static char none;
	const char *head = stream->in + stream->in_at;
	uint32_t	numbers[2];

	if (stream->in_used - stream->in_at < HEAD)
		return false;
	memcpy(numbers, head + 1, sizeof(numbers));
	frame->kind = (unsigned char) *head;
	frame->channel = ntohl(numbers[0]);
	frame->len = ntohl(numbers[1]);
	if (frame->len > FRAME_DATA)
	{
		stream->ended = true;
		stream->in_used = stream->in_at;
		return false;
	}
	if (stream->in_used - stream->in_at < HEAD + frame->len)
		return false;
	frame->data = frame->len == 0 ? &none :
		stream->in + stream->in_at + HEAD;
	stream->in_at += HEAD + frame->len;
	return true;
}

/* Whether there is room for a frame of FRAME_DATA bytes. */
bool
FrameHasRoom(const FrameStream *stream)
{
	return !stream->ended && stream->out_used - stream->out_at +
		HEAD + FRAME_DATA + FRAME_RESERVE <= BUFFER;
}

void
FramePut(FrameStream *stream, FrameKind kind, uint32_t channel,
		 const void *data, size_t len)
{
	uint32_t	numbers[2] = {htonl(channel), htonl(len)};
	char	   *at;

	if (stream->out_at > 0 && stream->out_used + HEAD + len > BUFFER)
	{
		stream->out_used -= stream->out_at;
		memmove(stream->out, stream->out + stream->out_at, stream->out_used);
		stream->out_at = 0;
	}
	if (stream->ended || len > FRAME_DATA ||
		stream->out_used + HEAD + len > BUFFER)
	{
		stream->ended = true;
		return;
	}
	at = stream->out + stream->out_used;
	*at = kind;
	memcpy(at + 1, numbers, sizeof(numbers));
	if (len > 0)
		memcpy(at + HEAD, data, len);
	stream->out_used += HEAD + len;
}

void
FramePutText(FrameStream *stream, FrameKind kind, uint32_t channel,
			 const char *text)
{
	FramePut(stream, kind, channel, text, strlen(text));
}

/* Writes what the other side accepts. */
void
FrameWrite(FrameStream *stream)
{
	while (stream->out_at < stream->out_used)
	{
		ssize_t		n = send(stream->fd, stream->out + stream->out_at,
							 stream->out_used - stream->out_at, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return;
		if (n <= 0)
		{
			stream->ended = true;
			return;
		}
		stream->out_at += n;
	}
	stream->out_at = stream->out_used = 0;
}

/* Writes what is left, within a limited time. */
void
FrameFinish(FrameStream *stream, int limit_ms)
{
	int64_t		until = MonotonicNs() + limit_ms * NS_PER_MS;

	for (;;)
	{
		struct pollfd fd = {stream->fd, POLLOUT, 0};

		FrameWrite(stream);
		if (stream->out_at >= stream->out_used || stream->ended ||
			MonotonicNs() > until)
			return;
		(void) poll(&fd, 1, 100);
	}
}
