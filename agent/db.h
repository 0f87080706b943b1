/*-------------------------------------------------------------------------
 *
 * db.h
 *		A program's one connection to the database: one call at a time.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_AGENT_DB_H
#define GPUCREDIT_AGENT_DB_H

#include <libpq-fe.h>
#include <stdbool.h>

/*
 * A call, and the proof of this node's identity ($1), in one statement, so
 * that it needs no transaction block.  The call's first argument depends on
 * the proof, so the proof runs first.
 */
#define FROM_PROVEN(function, first) \
	" FROM (SELECT pg_catalog.set_config('gpucredit.node_key', $1, true)" \
	" AS key OFFSET 0) p CROSS JOIN LATERAL gpucredit." function \
	"(CASE WHEN p.key IS NOT NULL THEN " first " END"

/* result: NULL without an answer: the call may have taken effect */
typedef void (*DbAnswer) (PGresult * result, void *context);

extern void DbUse(const char *conninfo, const char *listen,
				  const char *payload);
extern bool DbIdle(void);
extern int	DbConnects(void);
extern void DbCall(const char *sql, int n, const char *const *values,
				   DbAnswer answer, void *context);
extern void DbReadOnly(void);
extern bool DbNotified(void);
extern int	DbFd(short *events);
extern void DbWork(void);
extern int	DbWaitMs(void);
extern const char *DbField(const PGresult * result, int row,
						   const char *name);
extern const char *DbState(const PGresult * result);

#endif							/* GPUCREDIT_AGENT_DB_H */
