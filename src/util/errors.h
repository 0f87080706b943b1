/*-------------------------------------------------------------------------
 *
 * errors.h
 *		The SQLSTATEs of gpucredit: class UC, in hundreds by topic.
 *
 * Where one of PostgreSQL's own codes fits (22023, 22003, 42501, 40001), the
 * code raises that one instead.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_ERRORS_H
#define GPUCREDIT_ERRORS_H

#include "util/compat.h"
#include "utils/elog.h"

/* UC0xx: ledger */
#define ERRCODE_GPUCREDIT_NO_ACCOUNT	MAKE_SQLSTATE('U','C','0','0','1')
#define ERRCODE_GPUCREDIT_NO_BUCKET		MAKE_SQLSTATE('U','C','0','0','2')
#define ERRCODE_GPUCREDIT_NO_HOLD		MAKE_SQLSTATE('U','C','0','0','3')
/* UC1xx: budgets and quotas */
#define ERRCODE_GPUCREDIT_BAD_BUDGET	MAKE_SQLSTATE('U','C','1','0','1')
/* UC2xx: requests */
#define ERRCODE_GPUCREDIT_KEY_REUSED	MAKE_SQLSTATE('U','C','2','0','1')
#define ERRCODE_GPUCREDIT_RATE_LIMITED	MAKE_SQLSTATE('U','C','2','0','2')
#define ERRCODE_GPUCREDIT_STORE_FULL	MAKE_SQLSTATE('U','C','2','0','3')
/* UC3xx: jobs */
#define ERRCODE_GPUCREDIT_NO_JOB		MAKE_SQLSTATE('U','C','3','0','1')
#define ERRCODE_GPUCREDIT_NO_ATTEMPT	MAKE_SQLSTATE('U','C','3','0','2')
#define ERRCODE_GPUCREDIT_BAD_STATE		MAKE_SQLSTATE('U','C','3','0','3')
/* UC4xx: inventory */
#define ERRCODE_GPUCREDIT_NO_POOL		MAKE_SQLSTATE('U','C','4','0','1')
#define ERRCODE_GPUCREDIT_NO_TYPE		MAKE_SQLSTATE('U','C','4','0','2')
/* UC9xx: corruption */
#define ERRCODE_GPUCREDIT_APPEND_ONLY	MAKE_SQLSTATE('U','C','9','0','1')

/*
 * Checks a condition on stored data that no caller can break.  With assertions
 * on, a failure is an assertion failure; without, it is an error that rolls
 * everything back.  The condition is evaluated once, so it may run a statement
 * and check how many rows it changed.
 */
#define Ensure(condition, message) \
	do { \
		bool		ensured = (condition); \
		Assert(ensured); \
		EnsureStored(ensured, message); \
	} while (0)

/*
 * As Ensure(), for data that a superuser can change by hand.  A failure is
 * always an error: a row that somebody edited must not end a server, even one
 * with assertions.
 */
#define EnsureStored(condition, message) \
	do { \
		if (unlikely(!(condition))) \
			ereport(ERROR, \
					(errcode(ERRCODE_DATA_CORRUPTED), \
					 errmsg("gpucredit found its own data inconsistent"), \
					 errdetail("%s", (message)), \
					 errhint("Run gpucredit.verify() to see what is wrong."))); \
	} while (0)

#endif							/* GPUCREDIT_ERRORS_H */
