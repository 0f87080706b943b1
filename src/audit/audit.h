/*-------------------------------------------------------------------------
 *
 * audit.h
 *		The audit log of decisions.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_AUDIT_H
#define GPUCREDIT_AUDIT_H

#include "util/trace.h"
#include "datatype/timestamp.h"
#include "fmgr.h"
#include "utils/jsonb.h"

typedef struct AuditDetail AuditDetail;

/* A row of the audit log.  A field that does not apply is 0 or NULL. */
typedef struct AuditRow
{
	const char *org;			/* NULL if the decision concerns no
								 * organisation */
	const char *account;
	const char *operation;
	const char *decision;
	const char *reason;
	int64		bucket;
	int64		hold;
	int64		job;
	int32		attempt;
	TimestampTz at;				/* 0 for the instant of AuditWrite() */
	Trace		trace;			/* the subject's trace; if empty, the
								 * session's */
	AuditDetail *detail;		/* NULL if the row has no detail */
} AuditRow;

extern void AuditWrite(AuditRow *row);
extern void AuditDecision(AuditRow *row, const char *key);
extern void AuditWriteMany(AuditRow *rows, int n);

/*
 * Functions that add a member to the row's detail.  The first call creates the
 * object.
 */
extern void AuditText(AuditRow *row, const char *name, const char *value);
extern void AuditTime(AuditRow *row, const char *name, TimestampTz at);
extern void AuditNumber(AuditRow *row, const char *name, const char *value);
extern void AuditInt8(AuditRow *row, const char *name, int64 value);
extern void AuditCredits(AuditRow *row, const char *name, int64 value);

extern Jsonb *AuditDetailJson(const AuditRow *row);
extern void AuditMembers(AuditRow *row, Jsonb *object);

/* defined in arguments.c */
extern void AuditArgs(AuditRow *row, FunctionCallInfo fcinfo);
extern void AuditArg(AuditRow *row, FunctionCallInfo fcinfo, int n);

#endif							/* GPUCREDIT_AUDIT_H */
