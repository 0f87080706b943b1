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

/* 0 and NULL mean: does not apply. */
typedef struct AuditRow
{
	const char *org;			/* NULL: no organisation's */
	const char *account;
	const char *operation;
	const char *decision;
	const char *reason;
	int64		bucket;
	int64		hold;
	int64		job;
	int32		attempt;
	TimestampTz at;				/* 0: when AuditWrite() writes it */
	Trace		trace;			/* its subject's trace; none: the session's */
	AuditDetail *detail;		/* NULL: none */
} AuditRow;

extern void AuditWrite(AuditRow *row);
extern void AuditDecision(AuditRow *row, const char *key);
extern void AuditWriteMany(AuditRow *rows, int n);

/*
 * Add a member to its JSON object; the first call creates the
 * object.
 */
extern void AuditText(AuditRow *row, const char *name, const char *value);
extern void AuditTime(AuditRow *row, const char *name, TimestampTz at);
extern void AuditNumber(AuditRow *row, const char *name, const char *value);
extern void AuditInt8(AuditRow *row, const char *name, int64 value);
extern void AuditCredits(AuditRow *row, const char *name, int64 value);

extern Jsonb *AuditDetailJson(const AuditRow *row);
extern void AuditMembers(AuditRow *row, Jsonb *object);

/* arguments.c */
extern void AuditArgs(AuditRow *row, FunctionCallInfo fcinfo);
extern void AuditArg(AuditRow *row, FunctionCallInfo fcinfo, int n);

#endif							/* GPUCREDIT_AUDIT_H */
