/*-------------------------------------------------------------------------
 *
 * wait.h
 *		Waits for jobs to end.
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_CLI_WAIT_H
#define GPUCREDIT_CLI_WAIT_H

#include <stdint.h>

/* How jobs that have ended are printed. */
typedef enum WaitOutput
{
	WAIT_SILENT, WAIT_TEXT, WAIT_JSON
} WaitOutput;

extern int	WaitForJobs(const int64_t *jobs, int n, WaitOutput output);

#endif							/* GPUCREDIT_CLI_WAIT_H */
