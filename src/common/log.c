/*-------------------------------------------------------------------------
 *
 * log.c
 *		Lines of the server log that an operator must see, and what listeners
 *		are told.
 *
 * Each is one message of level LOG, "gpucredit event=... key=value ...", for
 * people and for programs: words and numbers are bare, all other values are
 * JSON strings, so that nothing a tenant named can look like another line or
 * another key.  Ordinary calls log nothing.
 *
 * What a transaction did is logged once it has committed (or is prepared);
 * what it took back, in whole or in a subtransaction, is not.  No client is
 * sent a line, whatever its client_min_messages: what its encoding does not
 * have would be an error after the commit, which ends the whole server.
 *
 * What listeners are told waits here, too, and is sent when the transaction is
 * about to commit.  Sent at once, as pg_notify() does, it would keep the
 * transaction from being prepared, that and each retry.  One that is prepared
 * tells nobody: it commits elsewhere.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "commands/async.h"
#include "common/log.h"
#include "types/clip.h"
#include "utils/json.h"
#include "utils/memutils.h"

/* What waits for its transaction's end. */
typedef struct Waiting
{
	struct Waiting *next;
	int			level;			/* of the subtransaction it belongs to */
	const char *channel;		/* NULL: a line of the log */
	char	   *text;
} Waiting;

static Waiting *waiting = NULL; /* in TopTransactionContext, last first */

static void at_transaction_end(XactEvent event, void *arg);
static void at_subtransaction_end(SubXactEvent event, SubTransactionId self,
								  SubTransactionId parent, void *arg);
static void wait_for_end(const char *channel, const char *text);
static Waiting *in_order(Waiting *lines);
static void emit(const char *text);

void
LogInit(void)
{
	RegisterXactCallback(at_transaction_end, NULL);
	RegisterSubXactCallback(at_subtransaction_end, NULL);
}

StringInfo
LogBegin(const char *event)
{
	StringInfo	line = makeStringInfo();

	appendStringInfo(line, "gpucredit event=%s", event);
	return line;
}

/*
 * A value that may be anything; NULL is left out.
 */
void
LogText(StringInfo line, const char *name, const char *value)
{
	if (value == NULL)
		return;
	appendStringInfo(line, " %s=", name);
	escape_json(line, ClipForMessage(value));
}

void
LogNumber(StringInfo line, const char *name, int64 value)
{
	appendStringInfo(line, " %s=" INT64_FORMAT, name, value);
}

/*
 * The trace it belongs to, if any: its own, else the session's.
 */
void
LogTrace(StringInfo line, const Trace *trace)
{
	Trace		whose = TraceOr(*trace);

	if (whose.known)
		appendStringInfo(line, " trace=%s", TraceText(&whose));
}

/*
 * Log it once the present (sub)transaction has committed.
 */
void
LogAtCommit(StringInfo line)
{
	wait_for_end(NULL, line->data);
}

/*
 * Tell who listens on a channel once the present (sub)transaction has
 * committed.
 */
void
NotifyAtCommit(const char *channel, const char *payload)
{
	wait_for_end(channel, payload);
}

static void
wait_for_end(const char *channel, const char *text)
{
	MemoryContext old = MemoryContextSwitchTo(TopTransactionContext);
	Waiting    *last = palloc(sizeof(Waiting));

	last->next = waiting;
	last->level = GetCurrentTransactionNestLevel();
	last->channel = channel;
	last->text = pstrdup(text);
	waiting = last;
	MemoryContextSwitchTo(old);
}

/*
 * Log it whatever comes.
 */
void
LogNow(StringInfo line)
{
	emit(line->data);
}

/*
 * Tell what is about to commit, log what has, forget what has not.
 */
static void
at_transaction_end(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_PRE_COMMIT:
			waiting = in_order(waiting);
			for (Waiting *line = waiting; line != NULL; line = line->next)
			{
				if (line->channel != NULL)
					Async_Notify(line->channel, line->text);
			}
			waiting = in_order(waiting);
			break;
		case XACT_EVENT_COMMIT:
		case XACT_EVENT_PREPARE:
			for (Waiting *line = in_order(waiting); line != NULL;
				 line = line->next)
			{
				if (line->channel == NULL)
					emit(line->text);
			}
			waiting = NULL;
			break;
		case XACT_EVENT_ABORT:
			waiting = NULL;
			break;
		default:
			break;
	}
}

/*
 * Lines of a subtransaction become its parent's, or are forgotten.
 */
static void
at_subtransaction_end(SubXactEvent event, SubTransactionId self,
					  SubTransactionId parent, void *arg)
{
	int			level = GetCurrentTransactionNestLevel();

	if (event == SUBXACT_EVENT_ABORT_SUB)
	{
		while (waiting != NULL && waiting->level >= level)
			waiting = waiting->next;
	}
	else if (event == SUBXACT_EVENT_COMMIT_SUB)
	{
		for (Waiting *line = waiting; line != NULL && line->level >= level;
			 line = line->next)
			line->level = level - 1;
	}
}

/*
 * The other way round: they stand last first.
 */
static Waiting *
in_order(Waiting *lines)
{
	Waiting    *ordered = NULL;

	while (lines != NULL)
	{
		Waiting    *next = lines->next;

		lines->next = ordered;
		ordered = lines;
		lines = next;
	}
	return ordered;
}

static void
emit(const char *text)
{
	ereport(LOG_SERVER_ONLY,
			(errmsg_internal("%s", text),
			 errhidestmt(true),
			 errhidecontext(true)));
}
