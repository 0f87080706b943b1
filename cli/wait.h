/*-------------------------------------------------------------------------
 *
 * wait.h
 *		Waiting for jobs to end.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_CLI_WAIT_H
#define GPUCREDIT_CLI_WAIT_H

#include <stdbool.h>
#include <stdint.h>

extern int	WaitForJobs(const int64_t *jobs, int n, bool prints);

#endif							/* GPUCREDIT_CLI_WAIT_H */
