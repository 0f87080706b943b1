/*-------------------------------------------------------------------------
 *
 * log.h
 *		Server log lines for the operator.
 *
 * Usage:
 *		StringInfo	line = LogBegin("node_lost");
 *
 *		LogText(line, "node", name);
 *		LogNumber(line, "attempts", n);
 *		LogAtCommit(line);
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_LOG_H
#define GPUCREDIT_LOG_H

#include "util/trace.h"
#include "lib/stringinfo.h"

extern void LogInit(void);
extern StringInfo LogBegin(const char *event);
extern void LogText(StringInfo line, const char *name, const char *value);
extern void LogNumber(StringInfo line, const char *name, int64 value);
extern void LogTrace(StringInfo line, const Trace *trace);
extern void LogAtCommit(StringInfo line);
extern void LogNow(StringInfo line);

#endif							/* GPUCREDIT_LOG_H */
