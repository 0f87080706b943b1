/*-------------------------------------------------------------------------
 *
 * log.c
 *		Lines of the server log that an operator must see.
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
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "util/log.h"
#include "util/commit_queue.h"
#include "types/clip.h"
#include "utils/json.h"

static Pending *lines = NULL;

static void at_transaction_end(XactEvent event, void *arg);
static void at_subtransaction_end(SubXactEvent event, SubTransactionId self,
								  SubTransactionId parent, void *arg);
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
	PendingAdd(&lines, NULL, line->data);
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
 * Log what has committed, forget what has not.
 */
static void
at_transaction_end(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_COMMIT:
		case XACT_EVENT_PREPARE:
			for (Pending *line = PendingInOrder(lines); line != NULL;
				 line = line->next)
				emit(line->text);
			lines = NULL;
			break;
		case XACT_EVENT_ABORT:
			lines = NULL;
			break;
		default:
			break;
	}
}

static void
at_subtransaction_end(SubXactEvent event, SubTransactionId self,
					  SubTransactionId parent, void *arg)
{
	PendingEndSub(&lines, event);
}

static void
emit(const char *text)
{
	ereport(LOG_SERVER_ONLY,
			(errmsg_internal("%s", text),
			 errhidestmt(true),
			 errhidecontext(true)));
}
