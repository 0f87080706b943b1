/*-------------------------------------------------------------------------
 *
 * job_log.c
 *		A log of a job's output: the first bytes, then a ring of the newest.
 *
 * The keeper reads as fast as the job writes, so the job never blocks on its
 * log. Bytes that do not fit on the disk are dropped and counted.
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
 * Reads only a few chunks from the pipe, so that one stream does not keep the
 * keeper from its other duties.
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

/* Returns the offset in the file of a byte of the stream. */
static int64_t
place_of(uint64_t position)
{
	if (position < LOG_HEAD)
		return position;
	return LOG_HEAD + (position - LOG_HEAD) % LOG_RING;
}

/* Returns how many bytes from this position on are contiguous in the file. */
static size_t
run_at(uint64_t position, size_t len)
{
	uint64_t	room = position < LOG_HEAD ? LOG_HEAD - position :
		LOG_RING - (position - LOG_HEAD) % LOG_RING;

	return len < room ? len : room;
}

/*
 * Returns the first position at or after "from" that the log still contains.
 * While the job runs, the keeper may be writing one chunk that it has not
 * counted yet.
 */
uint64_t
JobLogOldest(uint64_t total, uint64_t from, bool written)
{
	uint64_t	kept = LOG_RING - (written ? CHUNK : 0);

	return from >= LOG_HEAD && total > kept && from < total - kept ?
		total - kept : from;
}

/*
 * Reads the stream from a position. Returns 0 if the ring has overwritten that
 * position.
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

/* Reads the last bytes of the stream. */
size_t
JobLogTail(int file, uint64_t total, char *to, size_t len)
{
	return JobLogRead(file, total, total > len ? total - len : 0, to, len);
}
