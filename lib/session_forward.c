/*-------------------------------------------------------------------------
 *
 * session_forward.c
 *		Connections to a forwarded port, over one session.
 *
 * The side of the user listens; each connection that it accepts becomes a
 * channel, for which the side of the job opens a connection to the port. A
 * channel has a window in each direction: a side sends at most WINDOW bytes
 * that the other one has not written to its connection yet. So a connection
 * whose reader is slow neither stops the others nor costs more memory than its
 * window.
 *
 * The numbers of channels grow, and frames of a channel that is closed already
 * are ignored.
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "memory.h"
#include "session_forward.h"

#define WINDOW		(1024 * 1024)
#define CHANNELS	64			/* most connections at once */

/* A connection. */
typedef struct Channel
{
	uint32_t	number;
	int			fd;				/* -1 if the slot is free */
	bool		connecting;
	bool		read_ended;		/* the connection has sent everything */
	bool		write_ended;	/* the other side sends nothing more */
	bool		shut;			/* the connection was told so */
	char	   *buffer;			/* ring of WINDOW bytes on their way to the
								 * connection */
	size_t		at;
	size_t		len;
	size_t		written;		/* bytes that left the ring and that the other
								 * side does not know of yet */
	size_t		may_send;
} Channel;

typedef struct Forward
{
	FrameStream *stream;
	Channel		channels[CHANNELS];
	int			listener;		/* -1 on the side of the job */
	uint32_t	next;
	ForwardOpen open;
	void	   *context;
	ForwardReport report;
} Forward;

static void run(Forward *forward);
static int	poll_all(Forward *forward, struct pollfd *fds);
static void accept_one(Forward *forward);
static void obey(Forward *forward, const Frame *frame);
static void open_channel(Forward *forward, uint32_t number);
static Channel *channel_begin(Forward *forward, uint32_t number, int fd);
static void channel_close(Forward *forward, Channel *channel,
						  const char *why);
static void channel_free(Channel *channel);
static bool store(Channel *channel, const Frame *frame);
static void read_channel(Forward *forward, Channel *channel);
static void write_channel(Forward *forward, Channel *channel);

/*
 * Serves the user's side: accepts connections until the session ends.
 */
void
ForwardConnections(FrameStream *stream, int listener, ForwardReport report)
{
	Forward    *forward = Alloc(sizeof(Forward));

	forward->stream = stream;
	forward->listener = listener;
	forward->report = report;
	run(forward);
	free(forward);
}

/*
 * Serves the job's side: opens a connection for each of the user's.
 */
void
ForwardPort(FrameStream *stream, ForwardOpen open, void *context)
{
	Forward    *forward = Alloc(sizeof(Forward));

	forward->stream = stream;
	forward->listener = -1;
	forward->open = open;
	forward->context = context;
	run(forward);
	free(forward);
}

/* Passes on bytes of all channels until the session ends. */
static void
run(Forward *forward)
{
	FrameStream *stream = forward->stream;

	for (int i = 0; i < CHANNELS; i++)
		forward->channels[i].fd = -1;
	while (!stream->ended)
	{
		struct pollfd fds[CHANNELS + 2];
		Frame		frame;

		if (poll_all(forward, fds) < 0 && errno != EINTR)
			break;
		FrameRead(stream);
		while (FrameNext(stream, &frame))
			obey(forward, &frame);
		if (fds[1].revents != 0)
			accept_one(forward);
		for (int i = 0; i < CHANNELS; i++)
		{
			Channel    *channel = &forward->channels[i];

			if (channel->fd >= 0)
				write_channel(forward, channel);
			if (channel->fd >= 0 && fds[i + 2].fd == channel->fd &&
				fds[i + 2].revents != 0)
				read_channel(forward, channel);
		}
		FrameWrite(stream);
	}
	for (int i = 0; i < CHANNELS; i++)
	{
		if (forward->channels[i].fd >= 0)
			channel_free(&forward->channels[i]);
	}
}

/* Waits until something can be done. */
static int
poll_all(Forward *forward, struct pollfd *fds)
{
	bool		slot = false;

	fds[0] = (struct pollfd)
	{
		forward->stream->fd, FrameEvents(forward->stream), 0
	};
	for (int i = 0; i < CHANNELS; i++)
	{
		const Channel *channel = &forward->channels[i];
		short		events = 0;

		slot |= channel->fd < 0;
		if (channel->connecting || channel->len > 0)
			events |= POLLOUT;
		if (!channel->connecting && !channel->read_ended &&
			channel->may_send > 0 && FrameHasRoom(forward->stream))
			events |= POLLIN;

		/*
		 * An event that nobody waits for, such as a hangup, would make poll()
		 * return at once again and again.
		 */
		fds[i + 2] = (struct pollfd)
		{
			events == 0 ? -1 : channel->fd, events, 0
		};
	}
	fds[1] = (struct pollfd)
	{
		slot && FrameHasRoom(forward->stream) ? forward->listener : -1,
			POLLIN, 0
	};
	return poll(fds, CHANNELS + 2, -1);
}

/* Accepts a connection of the user's, and asks for the one to the job. */
static void
accept_one(Forward *forward)
{
	int			fd = accept4(forward->listener, NULL, NULL,
							 SOCK_NONBLOCK | SOCK_CLOEXEC);

	if (fd < 0)
		return;
	if (channel_begin(forward, ++forward->next, fd) == NULL)
	{
		close(fd);
		return;
	}
	FramePut(forward->stream, FRAME_OPEN, forward->next, NULL, 0);
}

/* Adds a channel for a connection. Returns NULL if there are too many. */
static Channel *
channel_begin(Forward *forward, uint32_t number, int fd)
{
	for (int i = 0; i < CHANNELS; i++)
	{
		Channel    *channel = &forward->channels[i];

		if (channel->fd >= 0)
			continue;
		*channel = (Channel)
		{
			.number = number, .fd = fd, .may_send = WINDOW
		};
		channel->buffer = Alloc(WINDOW);
		return channel;
	}
	return NULL;
}

/* Does what a frame says. */
static void
obey(Forward *forward, const Frame *frame)
{
	Channel    *channel = NULL;
	char		text[32];

	for (int i = 0; i < CHANNELS; i++)
	{
		if (forward->channels[i].fd >= 0 &&
			forward->channels[i].number == frame->channel)
			channel = &forward->channels[i];
	}
	switch (frame->kind)
	{
		case FRAME_OPEN:
			if (forward->open != NULL && channel == NULL)
				open_channel(forward, frame->channel);
			break;
		case FRAME_BYTES:
			if (channel != NULL && !store(channel, frame))
				forward->stream->ended = true;
			break;
		case FRAME_WINDOW:
			snprintf(text, sizeof(text), "%.*s", (int) frame->len,
					 frame->data);
			if (channel != NULL)
				channel->may_send += strtoul(text, NULL, 10);
			if (channel != NULL && channel->may_send > WINDOW)
				forward->stream->ended = true;
			break;
		case FRAME_END:
			if (channel != NULL)
				channel->write_ended = true;
			break;
		case FRAME_REFUSED:
		case FRAME_CLOSE:
			if (frame->len > 0 && forward->report != NULL)
				forward->report(frame->data, frame->len);
			if (channel != NULL)
				channel_free(channel);
			if (frame->kind == FRAME_REFUSED)
				forward->stream->ended = true;
			break;
		default:
			break;
	}
}

/* Opens the connection to the job's port. */
static void
open_channel(Forward *forward, uint32_t number)
{
	const char *why = "too many connections";
	int			fd = forward->open(forward->context, &why);
	Channel    *channel = fd < 0 ? NULL : channel_begin(forward, number, fd);

	if (channel == NULL)
	{
		if (fd >= 0)
			close(fd);
		FramePutText(forward->stream, FRAME_CLOSE, number, why);
		return;
	}
	channel->connecting = true;
}

/* Keeps bytes for the connection. Returns false if they exceed the window. */
static bool
store(Channel *channel, const Frame *frame)
{
	size_t		end = (channel->at + channel->len) % WINDOW;
	size_t		first = frame->len;

	if (channel->len + channel->written + frame->len > WINDOW)
		return false;
	if (first > WINDOW - end)
		first = WINDOW - end;
	memcpy(channel->buffer + end, frame->data, first);
	memcpy(channel->buffer, frame->data + first, frame->len - first);
	channel->len += frame->len;
	return true;
}

/* Sends what the connection has written. */
static void
read_channel(Forward *forward, Channel *channel)
{
	char		piece[FRAME_DATA];

	while (!channel->connecting && !channel->read_ended &&
		   channel->may_send > 0 && FrameHasRoom(forward->stream))
	{
		ssize_t		n = read(channel->fd, piece, channel->may_send <
							 sizeof(piece) ? channel->may_send :
							 sizeof(piece));

		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (n < 0)
		{
			channel_close(forward, channel, "");
			return;
		}
		if (n == 0)
		{
			channel->read_ended = true;
			FramePut(forward->stream, FRAME_END, channel->number, NULL, 0);
			write_channel(forward, channel);
			return;
		}
		channel->may_send -= n;
		FramePut(forward->stream, FRAME_BYTES, channel->number, piece, n);
	}
}

/*
 * Writes kept bytes to the connection, and lets the other side send as many
 * more. Closes the channel once both directions have ended.
 */
static void
write_channel(Forward *forward, Channel *channel)
{
	char		text[32];

	if (channel->connecting)
	{
		struct pollfd ready = {channel->fd, POLLOUT, 0};
		int			error = 0;
		socklen_t	len = sizeof(error);

		if (poll(&ready, 1, 0) != 1)
			return;
		(void) getsockopt(channel->fd, SOL_SOCKET, SO_ERROR, &error, &len);
		if (error != 0)
		{
			channel_close(forward, channel, strerror(error));
			return;
		}
		channel->connecting = false;
	}
	while (channel->len > 0)
	{
		size_t		run = channel->len < WINDOW - channel->at ?
			channel->len : WINDOW - channel->at;
		ssize_t		n = send(channel->fd, channel->buffer + channel->at, run,
							 MSG_NOSIGNAL);

		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			break;
		if (n <= 0)
		{
			channel_close(forward, channel, "");
			return;
		}
		channel->at = (channel->at + n) % WINDOW;
		channel->len -= n;
		channel->written += n;
	}
	if (channel->written >= WINDOW / 2)
	{
		snprintf(text, sizeof(text), "%zu", channel->written);
		FramePutText(forward->stream, FRAME_WINDOW, channel->number, text);
		channel->written = 0;
	}
	if (channel->write_ended && channel->len == 0 && !channel->shut)
	{
		channel->shut = true;
		(void) shutdown(channel->fd, SHUT_WR);
	}
	if (channel->shut && channel->read_ended)
		channel_free(channel);
}

/* Closes a channel on both sides. */
static void
channel_close(Forward *forward, Channel *channel, const char *why)
{
	FramePutText(forward->stream, FRAME_CLOSE, channel->number, why);
	channel_free(channel);
}

static void
channel_free(Channel *channel)
{
	close(channel->fd);
	free(channel->buffer);
	channel->buffer = NULL;
	channel->fd = -1;
}
