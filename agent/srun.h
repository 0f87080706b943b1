/*-------------------------------------------------------------------------
 *
 * srun.h
 *		What the files of srun share.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_AGENT_SRUN_H
#define GPUCREDIT_AGENT_SRUN_H

#include "step_layout.h"

/* What the command line says. */
typedef struct Srun
{
	StepAsk		ask;
	const char *output;			/* a pattern; NULL: ours */
	const char *error;
	const char *input;			/* a file, "none", or NULL: ours */
	const char *folder;			/* of the tasks; NULL: ours */
	const char *exported;		/* as sbatch's; NULL: all */
	const char *name;
	bool		labels;			/* each line has its task's number */
	bool		quiet;
	bool		ends_all;		/* one task that fails ends all */
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
extern int	SrunHostnames(int argc, char **argv);

#endif							/* GPUCREDIT_AGENT_SRUN_H */
