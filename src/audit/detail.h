/*-------------------------------------------------------------------------
 *
 * detail.h
 *		The detail of an audit row.
 *
 * audit.h has the functions that add to it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_AUDIT_DETAIL_H
#define GPUCREDIT_AUDIT_DETAIL_H

#include "audit/audit.h"
#include "util/sql.h"

extern void AuditMembers(AuditRow *row, Jsonb *object);
extern Jsonb *DetailJson(const AuditDetail *detail);
extern void DetailArgArray(SqlArgs *args, const AuditRow *rows, int n);

#endif							/* GPUCREDIT_AUDIT_DETAIL_H */
