/*-------------------------------------------------------------------------
 *
 * event.h
 *		The feed of events.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_EVENT_H
#define GPUCREDIT_EVENT_H

#include "audit/audit.h"

extern const char *EventKind(const char *operation, const char *decision,
							 const char *job_state);
extern void EventWrite(const char *kind, const AuditRow *row);

#endif							/* GPUCREDIT_EVENT_H */
