/*-------------------------------------------------------------------------
 *
 * log_calls.c
 *		Answers requests for a job's output.
 *
 * Each heartbeat's answer lists all open requests to this node. So the agent
 * builds its list anew with each heartbeat, and stores nothing on disk. A
 * caller that follows a job gets an answer once the job has written more, or
 * has ended.
 *-------------------------------------------------------------------------
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "db.h"
#include "log.h"
#include "log_calls.h"
#include "log_piece.h"
#include "memory.h"
#include "node_proof.h"

/* A request for a piece of output. */
typedef struct LogWish
{
	char	   *org;
	int64_t		job;
	int			number;
	int			stream;			/* 0 for stdout, 1 for stderr */
	uint64_t	from;
	bool		waits;
	struct LogWish *next;
} LogWish;

static LogWish *wishes;

static bool read_piece(const LogWish *wish, LogPiece *piece);
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
 * Adds the request of a heartbeat's row, such as {"stream": "stdout", "from":
 * 0, "wait": false}.
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
		wish->stream = strcmp(stream, LogStreams[1]) == 0;
		wish->from = from;
		wish->waits = json_is_true(json_object_get(json, "wait"));
		wish->next = wishes;
		wishes = wish;
	}
	json_decref(json);
}

/* Whether a caller waits for more output of a job. */
bool
LogWishesWait(void)
{
	return wishes != NULL;
}

/*
 * Answers one request that can be answered. Returns whether a call was made.
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
 * Reads the piece for a request. Returns false if the caller waits for more
 * output.
 */
static bool
read_piece(const LogWish *wish, LogPiece *piece)
{
	const LocalAttempt *attempt = AttemptFind(wish->org, wish->job,
											  wish->number);

	LogPieceRead(attempt, wish->stream, wish->from, piece);
	return piece->len > 0 || piece->over || !wish->waits;
}

/*
 * Sends an answer. The body is in the hexadecimal format of bytea.
 */
static void
put_piece(const LogWish *wish, const LogPiece *piece)
{
	char	   *body = LogPieceHex(piece);
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
		LogStreams[wish->stream], numbers[2], numbers[3], body, numbers[4],
		numbers[5], piece->over ? "t" : "f", piece->message
	};

	DbCall("SELECT 1" FROM_PROVEN("log_put", "$2::pg_catalog.text")
		   ", $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)", 13, values,
		   put_answered, NULL);
	for (int i = 0; i < 6; i++)
		free(numbers[i]);
	free(body);
}

/*
 * Only logs a refusal: the database repeats a request that is still open.
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
