/*-------------------------------------------------------------------------
 *
 * db.h
 *		The program's one connection to the database, with one call at a time.
 *-------------------------------------------------------------------------
 */
#ifndef LIB_DB_H
#define LIB_DB_H

#include <libpq-fe.h>
#include <stdbool.h>

/*
 * Receives the result of a call. It is NULL if no answer came; the call may
 * have taken effect nevertheless.
 */
typedef void (*DbAnswer) (PGresult * result, void *context);

extern void DbUse(const char *conninfo, const char *listen,
				  const char *payload);
extern bool DbIdle(void);
extern int	DbConnects(void);
extern void DbCall(const char *sql, int n, const char *const *values,
				   DbAnswer answer, void *context);
extern bool DbNotified(void);
extern int	DbFd(short *events);
extern void DbWork(void);
extern int	DbWaitMs(void);
extern const char *DbField(const PGresult * result, int row,
						   const char *name);
extern const char *DbState(const PGresult * result);

#endif							/* LIB_DB_H */
