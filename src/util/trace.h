/*-------------------------------------------------------------------------
 *
 * trace.h
 *		Whose distributed trace (W3C Trace Context) a thing belongs to.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_TRACE_H
#define GPUCREDIT_TRACE_H

#include "util/sql.h"
#include "utils/uuid.h"

/* A trace's id, 16 bytes; a span of it is the caller's own business. */
typedef struct Trace
{
	bool		known;
	pg_uuid_t	id;
} Trace;

/* of what belongs to no trace of its own */
#define NO_TRACE	((Trace) {.known = false})

extern void TraceInit(void);
extern const char *TraceParent(void);
extern Trace TraceOr(Trace trace);
extern Trace TraceOfParent(const char *traceparent);
extern char *TraceText(const Trace *trace);
extern void TraceArg(SqlArgs *args, Trace trace);
extern void TraceArgArray(SqlArgs *args, const Trace *traces, int n);
extern Trace TraceFrom(Datum value, bool isnull);

#endif							/* GPUCREDIT_TRACE_H */
