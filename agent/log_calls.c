/*-------------------------------------------------------------------------
 *
 * log_calls.c
 *		Answer requests for a job's output.
 *
 * Each heartbeat lists all open requests on this node.  So the agent makes its
 * list again with each, and keeps nothing.  A caller that follows a job gets
 * an answer once the job has written more, or is over.
 *
 *-------------------------------------------------------------------------
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "config.h"
#include "db.h"
#include "job_log.h"
#include "log_calls.h"
#include "util.h"

#define PIECE	(64 * 1024)

/* A piece of output that a caller wants. */
typedef struct LogWish
{
	char	   *org;
	int64_t		job;
	int			number;
	int			stream;			/* 0: stdout, 1: stderr */
	uint64_t	from;
	bool		waits;
	struct LogWish *next;
} LogWish;

/* An answer. */
typedef struct LogPiece
{
	uint64_t	first;
	uint64_t	written;
	uint64_t	dropped;
	bool		over;
	char	   *message;		/* NULL: none */
	size_t		len;
	char		body[PIECE];
} LogPiece;

static const char *const streams[] = {"stdout", "stderr"};
static LogWish *wishes;

static bool read_piece(const LogWish *wish, LogPiece *piece);
static void read_folder(const LocalAttempt *attempt, int dir,
						const LogWish *wish, LogPiece *piece);
static void read_log(int dir, bool lives, const KeeperState *state,
					 const LogWish *wish, LogPiece *piece);
static char *file_of(int dir, int stream);
static void put_piece(const LogWish *wish, const LogPiece *piece);
static void put_answered(PGresult * result, void *context);
static void wish_free(LogWish *wish);

void
LogWishesForget(void)
{
	while (wishes != NULL)
	{
		LogWish    *next = wishes->next;

		wish_free(wishes);
		wishes = next;
	}
}

/*
 * A heartbeat's row; log: {"stream": "stdout", "from": 0, "wait": false}.
 */
void
LogWishAdd(const Order *order, const char *log)
{
	json_t	   *json = log == NULL ? NULL : json_loads(log, 0, NULL);
	const char *stream = json_string_value(json_object_get(json, "stream"));
	json_int_t	from = json_integer_value(json_object_get(json, "from"));
	LogWish    *wish;

	if (stream != NULL && from >= 0)
	{
		wish = Alloc(sizeof(LogWish));
		wish->org = Dup(order->org);
		wish->job = order->job;
		wish->number = order->number;
		wish->stream = strcmp(stream, streams[1]) == 0;
		wish->from = from;
		wish->waits = json_is_true(json_object_get(json, "wait"));
		wish->next = wishes;
		wishes = wish;
	}
	json_decref(json);
}

/* does a caller wait for more output of a job? */
bool
LogWishesWait(void)
{
	return wishes != NULL;
}

/*
 * Answer one request that can be answered; true: we made a call.
 */
bool
LogAnswer(void)
{
	static LogPiece piece;

	for (LogWish **link = &wishes; *link != NULL; link = &(*link)->next)
	{
		LogWish    *wish = *link;

		if (!read_piece(wish, &piece))
			continue;
		*link = wish->next;
		put_piece(wish, &piece);
		free(piece.message);
		wish_free(wish);
		return true;
	}
	return false;
}

/*
 * Read a piece; false: the caller waits for more.
 */
static bool
read_piece(const LogWish *wish, LogPiece *piece)
{
	const LocalAttempt *attempt = AttemptFind(wish->org, wish->job,
											  wish->number);
	int			dir;

	memset(piece, 0, offsetof(LogPiece, body));
	piece->first = wish->from;
	piece->over = attempt == NULL || attempt->phase != PHASE_RUNS;
	if (attempt == NULL)
	{
		piece->message = Format("node %s keeps nothing of it any more",
								config.node);
		return true;
	}
	dir = AttemptFolder(attempt);
	read_folder(attempt, dir, wish, piece);
	if (dir >= 0)
		close(dir);
	return piece->len > 0 || piece->over || !wish->waits;
}

/*
 * Read what the attempt's folder has; dir is a descriptor of it, or -1.
 */
static void
read_folder(const LocalAttempt *attempt, int dir, const LogWish *wish,
			LogPiece *piece)
{
	KeeperState *state;

	if (dir < 0)
		return;
	piece->message = file_of(dir, wish->stream);
	if (piece->message != NULL)
	{
		piece->over = true;
		return;
	}
	state = FileMap(dir, "state", sizeof(KeeperState), false);
	if (state != NULL)
	{
		read_log(dir, attempt->phase == PHASE_RUNS, state, wish, piece);
		munmap(state, sizeof(KeeperState));
	}
}

/*
 * Read while the keeper may overwrite.  Bytes that it has passed in the
 * meantime are read again from the ring's new start.
 */
static void
read_log(int dir, bool lives, const KeeperState *state, const LogWish *wish,
		 LogPiece *piece)
{
	int			file = openat(dir, streams[wish->stream],
							  O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	const volatile uint64_t *total = &state->log_bytes[wish->stream];
	size_t		most;			/* read the head and the ring apart */

	do
	{
		piece->written = *total;
		piece->first = JobLogOldest(piece->written, wish->from, lives);
		most = piece->first < LOG_HEAD && piece->first + PIECE > LOG_HEAD ?
			LOG_HEAD - piece->first : PIECE;
		piece->len = file < 0 ? 0 : JobLogRead(file, piece->written,
											   piece->first, piece->body,
											   most);
	} while (lives && JobLogOldest(*total, piece->first, false) >
			 piece->first);
	if (file >= 0)
		close(file);
	piece->dropped = state->log_dropped[wish->stream];
	piece->over &= piece->first + piece->len >= piece->written;
}

/*
 * The stream's file, from "start".  NULL: the log has it.
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
						   streams[stream], at + strlen(key), config.node);
	}
	free(start);
	return found;
}

/*
 * Send an answer; the body in bytea's hexadecimal form.
 */
static void
put_piece(const LogWish *wish, const LogPiece *piece)
{
	static const char digits[] = "0123456789abcdef";
	char	   *body = Alloc(2 * piece->len + 3);
	char	   *numbers[6] = {
		Format("%lld", (long long) wish->job),
		Format("%d", wish->number),
		Format("%llu", (unsigned long long) wish->from),
		Format("%llu", (unsigned long long) piece->first),
		Format("%llu", (unsigned long long) piece->written),
		Format("%llu", (unsigned long long) piece->dropped),
	};
	const char *values[13] = {
		config.key, wish->org, numbers[0], numbers[1], config.node,
		streams[wish->stream], numbers[2], numbers[3], body, numbers[4],
		numbers[5], piece->over ? "t" : "f", piece->message
	};

	memcpy(body, "\\x", 2);
	for (size_t i = 0; i < piece->len; i++)
	{
		body[2 + 2 * i] = digits[(unsigned char) piece->body[i] >> 4];
		body[3 + 2 * i] = digits[(unsigned char) piece->body[i] & 15];
	}
	DbCall("SELECT 1" FROM_PROVEN("log_put", "$2::pg_catalog.text")
		   ", $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)", 13, values,
		   put_answered, NULL);
	for (int i = 0; i < 6; i++)
		free(numbers[i]);
	free(body);
}

/*
 * Ignore the result: the database repeats a request that it still has.
 */
static void
put_answered(PGresult * result, void *context)
{
	(void) context;
	if (result != NULL && PQresultStatus(result) != PGRES_TUPLES_OK)
		LogLine("event=log_refused state=%s error=\"%s\"", DbState(result),
				PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY));
}

static void
wish_free(LogWish *wish)
{
	free(wish->org);
	free(wish);
}
