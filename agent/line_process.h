/*-------------------------------------------------------------------------
 *
 * line_process.h
 *		A process of the agent's own program that writes lines.
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_AGENT_LINE_PROCESS_H
#define GPUCREDIT_AGENT_LINE_PROCESS_H

#include <stdbool.h>
#include <sys/types.h>

typedef struct LineProcess
{
	const char *command;		/* the first argument of gpucredit-agent */
	void		(*parse) (const char *line);	/* called for each line */
	pid_t		pid;			/* 0 if it does not run */
	int			fd;				/* pipe from it, or -1 */
	char		line[4096];		/* incomplete line */
	size_t		length;
} LineProcess;

extern void LineProcessStart(LineProcess *process, const char *configuration);
extern void LineProcessRead(LineProcess *process);
extern bool LineProcessGone(LineProcess *process, pid_t pid);

#endif							/* GPUCREDIT_AGENT_LINE_PROCESS_H */
