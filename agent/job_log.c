/*-------------------------------------------------------------------------
 *
 * job_log.c
 *		What a job writes: the head is kept, then a ring of the newest.
 *
 * The keeper reads as fast as the job writes, so the job never blocks on its
 * log.  What the disk has no room for is dropped and counted.
 *
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "attempt_dir.h"
#include "job_log.h"

#define CHUNK	(64 * 1024)

static int64_t place_of(uint64_t position);
static size_t run_at(uint64_t position, size_t len);

/*
 * Moves what the pipe has, a few chunks at most, so that one stream does not
 * keep the keeper from its other duties.
 */
void
JobLogPump(JobLog *log)
{
	char		chunk[CHUNK];

	for (int i = 0; i < 16 && log->pipe >= 0; i++)
	{
		ssize_t		n = read(log->pipe, chunk, sizeof(chunk));
		size_t		done = 0;

		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (n <= 0)
		{
			close(log->pipe);
			log->pipe = -1;
			return;
		}
		while (done < (size_t) n)
		{
			size_t		run = run_at(*log->bytes, n - done);
			ssize_t		put = log->file < 0 ? -1 :
				pwrite(log->file, chunk + done, run, place_of(*log->bytes));

			if (put < (ssize_t) run)
				*log->dropped += run - (put > 0 ? put : 0);
			*log->bytes += run;
			done += run;
		}
	}
}

/* where in the file a byte of the stream stands */
static int64_t
place_of(uint64_t position)
{
	if (position < LOG_HEAD)
		return position;
	return LOG_HEAD + (position - LOG_HEAD) % LOG_RING;
}

/* how many bytes from there stand one behind the other */
static size_t
run_at(uint64_t position, size_t len)
{
	uint64_t	room = position < LOG_HEAD ? LOG_HEAD - position :
		LOG_RING - (position - LOG_HEAD) % LOG_RING;

	return len < room ? len : room;
}

/*
 * The first position from one on that is still to be had.  While the job runs
 * the keeper may be writing one chunk more than it has counted.
 */
uint64_t
JobLogOldest(uint64_t total, uint64_t from, bool written)
{
	uint64_t	kept = LOG_RING - (written ? CHUNK : 0);

	return from >= LOG_HEAD && total > kept && from < total - kept ?
		total - kept : from;
}

/*
 * Reads of the stream from a position; what the ring has overwritten since is
 * not to be had: then it returns 0.
 */
size_t
JobLogRead(int file, uint64_t total, uint64_t from, char *to, size_t len)
{
	size_t		done = 0;

	while (done < len && from < total &&
		   JobLogOldest(total, from, false) == from)
	{
		uint64_t	rest = total - from;
		size_t		run = run_at(from, rest < len - done ? rest : len - done);
		ssize_t		n = pread(file, to + done, run, place_of(from));

		if (n <= 0)
			break;
		done += n;
		from += n;
	}
	return done;
}

/* the last bytes */
size_t
JobLogTail(int file, uint64_t total, char *to, size_t len)
{
	return JobLogRead(file, total, total > len ? total - len : 0, to, len);
}
