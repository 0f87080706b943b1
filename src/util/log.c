/*-------------------------------------------------------------------------
 *
 * log.c
 *		Server log lines for the operator.
 *
 * Each is one message of level LOG, "gpucredit event=... key=value ...", for
 * people and programs.  Words and numbers are bare, all other values JSON
 * strings, so that no tenant's text looks like another line or key.  Ordinary
 * calls log nothing.
 *
 * A line is logged once its transaction has committed (or is prepared), and
 * dropped with a rolled back (sub)transaction.  No client receives a line,
 * under any client_min_messages: a character missing in its encoding would be
 * an error after the commit, which ends the whole server.
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
 * Any text as a value; NULL is left out.
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
 * The trace, if any: its own, else the session's.
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
 * Log it now.
 */
void
LogNow(StringInfo line)
{
	emit(line->data);
}

/*
 * Log the lines of a commit; drop those of a rollback.
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
