/*-------------------------------------------------------------------------
 *
 * log.c
 *		Server log lines for the operator.
 *
 * A line is one message of level LOG, "gpucredit event=... key=value ...",
 * that people and programs can read.  Words and numbers are written bare.  All
 * other values are JSON strings, so that no text of a tenant can look like
 * another line or key.  Ordinary calls log nothing.
 *
 * A line is logged after its transaction has committed (or is prepared), and
 * is dropped if its (sub)transaction rolls back.  Lines never go to a client,
 * whatever its client_min_messages: a character that is missing in the
 * client's encoding would raise an error after the commit, and that would end
 * the whole server.
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

/* Adds any text as a value.  If the value is NULL, the key is omitted. */
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
 * Adds the given trace or, if it has none, the session's; adds nothing if
 * neither exists.
 */
void
LogTrace(StringInfo line, const Trace *trace)
{
	Trace		whose = TraceOr(*trace);

	if (whose.known)
		appendStringInfo(line, " trace=%s", TraceText(&whose));
}

/* Logs the line after the present (sub)transaction has committed. */
void
LogAtCommit(StringInfo line)
{
	PendingAdd(&lines, NULL, line->data);
}

/* Logs the line at once, whatever becomes of the transaction. */
void
LogNow(StringInfo line)
{
	emit(line->data);
}

/*
 * Logs the lines of a committed transaction, and drops those of one that was
 * rolled back.
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
