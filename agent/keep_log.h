/*-------------------------------------------------------------------------
 *
 * keep_log.h
 *		Hand over the output of ended attempts, so that it outlives the node.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_AGENT_KEEP_LOG_H
#define GPUCREDIT_AGENT_KEEP_LOG_H

#include <stdbool.h>
#include <stdint.h>

extern bool KeepLog(void);
extern int64_t KeepLogDue(void);

#endif							/* GPUCREDIT_AGENT_KEEP_LOG_H */
