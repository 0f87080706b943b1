/*-------------------------------------------------------------------------
 *
 * log_piece.c
 *		Reads a piece of a job's output from the attempt's folder.
 *
 *-------------------------------------------------------------------------
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "config.h"
#include "file.h"
#include "job_log.h"
#include "log_piece.h"
#include "memory.h"

const char *const LogStreams[2] = {"stdout", "stderr"};

static void read_folder(const LocalAttempt *attempt, int dir, int stream,
						uint64_t from, LogPiece *piece);
static void read_log(int dir, bool lives, const KeeperState *state,
					 int stream, uint64_t from, LogPiece *piece);
static char *file_of(int dir, int stream);

/*
 * Reads a stream from a byte on.  The attempt is NULL if its folder has been
 * removed.  The caller frees the piece's message.
 */
void
LogPieceRead(const LocalAttempt *attempt, int stream, uint64_t from,
			 LogPiece *piece)
{
	int			dir;

	memset(piece, 0, offsetof(LogPiece, body));
	piece->first = from;
	piece->over = attempt == NULL || attempt->phase != PHASE_RUNS;
	if (attempt == NULL)
	{
		piece->message = Format("node %s keeps nothing of it any more",
								config.node);
		return;
	}
	dir = AttemptFolder(attempt);
	read_folder(attempt, dir, stream, from, piece);
	if (dir >= 0)
		close(dir);
}

/*
 * Reads from the attempt's folder, of which dir is a descriptor, or -1 if there
 * is none.
 */
static void
read_folder(const LocalAttempt *attempt, int dir, int stream,
			uint64_t from, LogPiece *piece)
{
	KeeperState *state;

	if (dir < 0)
		return;
	piece->message = file_of(dir, stream);
	if (piece->message != NULL)
	{
		piece->over = true;
		return;
	}
	state = FileMap(dir, "state", sizeof(KeeperState), false);
	if (state != NULL)
	{
		read_log(dir, attempt->phase == PHASE_RUNS, state, stream, from, piece);
		munmap(state, sizeof(KeeperState));
	}
}

/*
 * Reads a stream's log, which the keeper may be overwriting.  If it has
 * overwritten what was read, this reads again from the oldest byte left.
 */
static void
read_log(int dir, bool lives, const KeeperState *state, int stream,
		 uint64_t from, LogPiece *piece)
{
	int			file = openat(dir, LogStreams[stream],
							  O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	const volatile uint64_t *total = &state->log_bytes[stream];
	size_t		most;			/* a piece does not extend from the head into
								 * the ring */

	do
	{
		piece->written = *total;
		piece->first = JobLogOldest(piece->written, from, lives);
		most = piece->first < LOG_HEAD && piece->first + LOG_PIECE > LOG_HEAD ?
			LOG_HEAD - piece->first : LOG_PIECE;
		piece->len = file < 0 ? 0 : JobLogRead(file, piece->written,
											   piece->first, piece->body,
											   most);
	} while (lives && JobLogOldest(*total, piece->first, false) >
			 piece->first);
	if (file >= 0)
		close(file);
	piece->dropped = state->log_dropped[stream];
	piece->over &= piece->first + piece->len >= piece->written;
}

/*
 * Returns a message that names the file to which the job's stream goes, from
 * "start", or NULL if the stream goes to the log.
 */
static char *
file_of(int dir, int stream)
{
	const char *const key = stream == 0 ? "output=" : "error=";
	size_t		len = 0;
	char	   *start = FileGet(dir, "start", &len);
	char	   *found = NULL;

	for (char *at = start; at != NULL && at < start + len;
		 at += strlen(at) + 1)
	{
		if (strncmp(at, key, strlen(key)) == 0)
			found = Format("%s is written to %s on node %s",
						   LogStreams[stream], at + strlen(key), config.node);
	}
	free(start);
	return found;
}

/*
 * Returns a piece's body in the hexadecimal form of a bytea, allocated.
 */
char *
LogPieceHex(const LogPiece *piece)
{
	static const char digits[] = "0123456789abcdef";
	char	   *text = Alloc(2 * piece->len + 3);

	memcpy(text, "\\x", 2);
	for (size_t i = 0; i < piece->len; i++)
	{
		text[2 + 2 * i] = digits[(unsigned char) piece->body[i] >> 4];
		text[3 + 2 * i] = digits[(unsigned char) piece->body[i] & 15];
	}
	return text;
}
