/*-------------------------------------------------------------------------
 *
 * job_log.h
 *		A log of a job's output: the first bytes, then a ring of the newest.
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_AGENT_JOB_LOG_H
#define GPUCREDIT_AGENT_JOB_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * One stream of output: its pipe, its file, and its counters in the keeper's
 * state.
 */
typedef struct JobLog
{
	int			pipe;			/* read end of the pipe, or -1 once the stream
								 * has ended */
	int			file;
	uint64_t   *bytes;
	uint64_t   *dropped;
} JobLog;

extern void JobLogPump(JobLog *log);
extern uint64_t JobLogOldest(uint64_t total, uint64_t from, bool written);
extern size_t JobLogRead(int file, uint64_t total, uint64_t from, char *to,
						 size_t len);
extern size_t JobLogTail(int file, uint64_t total, char *to, size_t len);

#endif							/* GPUCREDIT_AGENT_JOB_LOG_H */
