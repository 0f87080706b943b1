/*-------------------------------------------------------------------------
 *
 * contain.h
 *		Finds, signals and freezes all processes of an attempt.
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_AGENT_CONTAIN_H
#define GPUCREDIT_AGENT_CONTAIN_H

#include <stdbool.h>
#include <sys/types.h>

typedef struct Contain
{
	int			cgroup;			/* descriptor of the cgroup's folder, or -1 */
	bool		nested;			/* the job has its own pid namespace */
	/* The following fields are used on a machine without cgroups. */
	pid_t		keeper;			/* the ancestor of all processes; 0 to find
								 * them by the mark */
	pid_t		but[2];			/* children of the keeper that do not belong
								 * to the job, or 0 */
	const char *mark;			/* value of GPUCREDIT_MARK in the processes'
								 * environment */
	uid_t		uid;			/* the user of the processes */
} Contain;

extern bool ContainMake(const char *path);
extern bool ContainDelegate(const char *path);
extern bool ContainRemove(const char *path);
extern Contain ContainOpen(const char *path);
extern void ContainClose(Contain *contain);
extern bool ContainEnter(const Contain *contain);
extern void ContainLimit(const char *path, const char *file,
						 const char *value);
extern bool ContainPopulated(const Contain *contain);
extern void ContainSignal(const Contain *contain, int signal);
extern void ContainSignalJob(const Contain *contain, int signal);
extern void ContainSignalNamed(const Contain *contain, const char *name,
							   int signal);
extern void ContainSignalMain(const Contain *contain, pid_t main, int signal);
extern bool ContainFreeze(const Contain *contain, bool frozen);
extern bool ContainFrozen(const Contain *contain);
extern bool ContainKillNode(const char *cgroup, const char *keepers,
							const char *marks);
extern long ContainOomKills(const Contain *contain);

#endif							/* GPUCREDIT_AGENT_CONTAIN_H */
