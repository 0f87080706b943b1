/*-------------------------------------------------------------------------
 *
 * trace.h
 *		The distributed trace (W3C Trace Context) that a job or a call
 *		belongs to.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_TRACE_H
#define GPUCREDIT_TRACE_H

#include "util/sql.h"
#include "utils/uuid.h"

/*
 * A trace's id, 16 bytes.  Ids of spans are not kept, as they concern the
 * caller only.
 */
typedef struct Trace
{
	bool		known;
	pg_uuid_t	id;
} Trace;

/* the trace of what has none of its own */
#define NO_TRACE	((Trace) {.known = false})

extern void TraceInit(void);
extern const char *TraceParent(void);
extern Trace TraceOr(Trace trace);
extern Trace TraceOfParent(const char *traceparent);
extern char *TraceText(const Trace *trace);
extern NullableDatum TraceValue(Trace trace);
extern NullableDatum TraceArrayValue(const Trace *traces, int n);
extern Trace TraceFrom(Datum value, bool isnull);

#endif							/* GPUCREDIT_TRACE_H */
