/*-------------------------------------------------------------------------
 *
 * step_wire.c
 *		The protocol between srun and the nodes of its job.
 *
 * A frame is a letter, the length of the data, and the data. Before the first
 * frame, each side proves to the other that it knows the job's secret, without
 * sending the secret: both send random bytes, and answer the other's bytes by
 * their HMAC. The ports on which a node listens are derived from the secret
 * too, so nobody else can predict and occupy them.
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "clock.h"
#include "file.h"
#include "log.h"
#include "memory.h"
#include "sha256.h"
#include "step_wire.h"

#define NONCE		16
#define HEADER		5
#define FIRST_PORT	10000
#define PORTS		10000
#define PROOF_MS	5000

static bool read_all(int fd, void *data, size_t len);
static void prove(const char *key, const char *who, const uint8_t *theirs,
				  const uint8_t *ours, uint8_t out[SHA256_BYTES]);
static bool same(const uint8_t *a, const uint8_t *b);

/*
 * Reads the available bytes, once.
 */
void
StepReadMore(StepReader *reader, int fd)
{
	ssize_t		n;

	if (reader->from > 0)
	{
		reader->used -= reader->from;
		memmove(reader->buffer, reader->buffer + reader->from, reader->used);
		reader->from = 0;
	}
	if (reader->size - reader->used < STEP_PIECE)
	{
		reader->size = reader->used + 4 * STEP_PIECE;
		reader->buffer = realloc(reader->buffer, reader->size);
		if (reader->buffer == NULL)
			Die("out of memory");
	}
	n = recv(fd, reader->buffer + reader->used, reader->size - reader->used,
			 MSG_DONTWAIT);
	if (n > 0)
		reader->used += (size_t) n;
	else if (n == 0 || (errno != EAGAIN && errno != EINTR))
		reader->ended = true;
}

/*
 * Removes the next frame from the buffer. The caller frees its data. Returns
 * false if the buffer has no complete frame.
 */
bool
StepNextFrame(StepReader *reader, StepFrame *frame)
{
	const uint8_t *head = (const uint8_t *) reader->buffer + reader->from;
	size_t		len;

	if (reader->used - reader->from < HEADER)
		return false;
	len = (size_t) head[1] << 24 | (size_t) head[2] << 16 |
		(size_t) head[3] << 8 | head[4];
	if (len > STEP_REQUEST_MOST)
	{
		reader->ended = true;
		reader->from = reader->used = 0;
		return false;
	}
	if (reader->used - reader->from < HEADER + len)
		return false;
	frame->kind = (StepFrameKind) head[0];
	frame->len = len;
	frame->data = Alloc(len + 1);
	memcpy(frame->data, head + HEADER, len);
	reader->from += HEADER + len;
	return true;
}

/*
 * Sends a frame, and waits until it is sent. A task of -1 means that the frame
 * is not about a task.
 */
bool
StepSend(int fd, StepFrameKind kind, int task, const void *data, size_t len)
{
	size_t		whole = len + (task < 0 ? 0 : 4);
	uint8_t    *frame = Alloc(HEADER + whole);
	uint8_t    *at = frame + HEADER;
	bool		sent;

	frame[0] = (uint8_t) kind;
	for (int i = 0; i < 4; i++)
		frame[1 + i] = (uint8_t) (whole >> (24 - 8 * i));
	for (int i = 0; task >= 0 && i < 4; i++)
		*at++ = (uint8_t) (task >> (24 - 8 * i));
	if (len > 0)
		memcpy(at, data, len);
	sent = WriteAll(fd, frame, HEADER + whole);
	free(frame);
	return sent;
}

/*
 * Removes the task's number from a frame's data and returns it, or -1 if the
 * frame has none.
 */
int
StepTaskOf(StepFrame *frame)
{
	const uint8_t *at = (const uint8_t *) frame->data;
	int			task;

	if (frame->len < 4)
		return -1;
	task = (int) ((uint32_t) at[0] << 24 | (uint32_t) at[1] << 16 |
				  (uint32_t) at[2] << 8 | at[3]);
	frame->len -= 4;
	memmove(frame->data, frame->data + 4, frame->len);
	frame->data[frame->len] = '\0';
	return task;
}

/*
 * Returns the i-th port on which a node of the job may listen.
 */
int
StepPort(const char *key, int rank, int i)
{
	char	   *text = Format("port/%d/%d", rank, i);
	uint8_t		mac[SHA256_BYTES];

	HmacSha256(key, text, strlen(text), mac);
	free(text);
	return FIRST_PORT + (mac[0] << 16 | mac[1] << 8 | mac[2]) % PORTS;
}

/*
 * The node's side of the proof: whether the other side is srun of this job.
 */
bool
StepAccept(int fd, const char *key)
{
	uint8_t		theirs[NONCE];
	uint8_t		answer[NONCE + SHA256_BYTES];
	uint8_t		expected[SHA256_BYTES];
	uint8_t		proof[SHA256_BYTES];

	if (!read_all(fd, theirs, NONCE) ||
		getrandom(answer, NONCE, 0) != NONCE)
		return false;
	prove(key, "node", theirs, answer, answer + NONCE);
	if (!WriteAll(fd, answer, sizeof(answer)) ||
		!read_all(fd, proof, SHA256_BYTES))
		return false;
	prove(key, "srun", answer, theirs, expected);
	return same(proof, expected);
}

/*
 * srun's side of the proof: whether the other side is a node of this job.
 */
bool
StepIntroduce(int fd, const char *key)
{
	uint8_t		ours[NONCE];
	uint8_t		answer[NONCE + SHA256_BYTES];
	uint8_t		expected[SHA256_BYTES];
	uint8_t		proof[SHA256_BYTES];

	if (getrandom(ours, NONCE, 0) != NONCE || !WriteAll(fd, ours, NONCE) ||
		!read_all(fd, answer, sizeof(answer)))
		return false;
	prove(key, "node", ours, answer, expected);
	if (!same(answer + NONCE, expected))
		return false;
	prove(key, "srun", answer, ours, proof);
	return WriteAll(fd, proof, SHA256_BYTES);
}

static void
prove(const char *key, const char *who, const uint8_t *theirs,
	  const uint8_t *ours, uint8_t out[SHA256_BYTES])
{
	uint8_t		text[4 + 2 * NONCE];

	memcpy(text, who, 4);
	memcpy(text + 4, theirs, NONCE);
	memcpy(text + 4 + NONCE, ours, NONCE);
	HmacSha256(key, text, sizeof(text), out);
}

/* Compares two codes in a time that does not depend on where they differ. */
static bool
same(const uint8_t *a, const uint8_t *b)
{
	uint8_t		differs = 0;

	for (int i = 0; i < SHA256_BYTES; i++)
		differs |= a[i] ^ b[i];
	return differs == 0;
}

/*
 * Reads exactly this number of bytes. Returns false if they do not arrive in
 * time.
 */
static bool
read_all(int fd, void *data, size_t len)
{
	int64_t		until = MonotonicNs() + PROOF_MS * NS_PER_MS;

	for (size_t got = 0; got < len;)
	{
		struct pollfd wait = {fd, POLLIN, 0};
		int64_t		left = (until - MonotonicNs()) / NS_PER_MS;
		ssize_t		n;

		if (left <= 0 || poll(&wait, 1, (int) left) <= 0)
			return false;
		n = read(fd, (char *) data + got, len - got);
		if (n <= 0)
			return false;
		got += (size_t) n;
	}
	return true;
}
