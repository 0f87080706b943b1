/*-------------------------------------------------------------------------
 *
 * srun.h
 *		Declarations that the files of srun share.
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_AGENT_SRUN_H
#define GPUCREDIT_AGENT_SRUN_H

#include "step_layout.h"

/* The parsed command line. */
typedef struct Srun
{
	StepAsk		ask;
	const char *output;			/* pattern of a file name; NULL for srun's own
								 * standard output */
	const char *error;
	const char *input;			/* a file, "none", or NULL for srun's own
								 * standard input */
	const char *folder;			/* working folder of the tasks; NULL for
								 * srun's own */
	const char *exported;		/* value of --export, as for sbatch; NULL for
								 * all */
	const char *name;
	bool		labels;			/* each line starts with its task's number */
	bool		quiet;
	bool		ends_all;		/* a task that fails ends all tasks */
	char	  **argv;
	int			argc;
} Srun;

extern int	SrunMain(int argc, char **argv);
extern int	SrunRun(Srun *srun, StepLayout *layout, const char *steps);
extern char *SrunRequest(const Srun *srun, const StepLayout *layout, int node,
						 size_t *len);
extern char *SrunFile(const Srun *srun, const StepLayout *layout,
					  const char *pattern, int node, int task);
extern bool SrunFileOfTask(const char *pattern);
extern int	SrunHostnames(const char *list);
extern int	SrunRequeue(const char *name);
extern int	SbcastMain(int argc, char **argv);

#endif							/* GPUCREDIT_AGENT_SRUN_H */
