/*-------------------------------------------------------------------------
 *
 * db.h
 *		The agent's one connection to the database: one call at a time.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_AGENT_DB_H
#define GPUCREDIT_AGENT_DB_H

#include <libpq-fe.h>
#include <stdbool.h>

/* result: NULL where no answer came, so nobody knows whether it was done */
typedef void (*DbAnswer) (PGresult * result, void *context);

extern bool DbIdle(void);
extern void DbCall(const char *sql, int n, const char *const *values,
				   DbAnswer answer, void *context);
extern int	DbFd(short *events);
extern void DbWork(void);
extern int	DbWaitMs(void);
extern const char *DbState(const PGresult * result);

#endif							/* GPUCREDIT_AGENT_DB_H */
