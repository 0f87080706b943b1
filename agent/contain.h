/*-------------------------------------------------------------------------
 *
 * contain.h
 *		All processes of an attempt, held together.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_AGENT_CONTAIN_H
#define GPUCREDIT_AGENT_CONTAIN_H

#include <stdbool.h>
#include <sys/types.h>

typedef struct Contain
{
	int			cgroup;			/* its folder; -1: none */
	bool		nested;			/* the job has a pid namespace of its own */
	/* the rest is for a machine without cgroups */
	pid_t		keeper;			/* all are its descendants; 0: found by mark */
	pid_t		but;			/* a child of the keeper that is not the
								 * job's; 0: none */
	const char *mark;			/* GPUCREDIT_MARK in their environment */
	uid_t		uid;			/* their user */
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
extern bool ContainFreeze(const Contain *contain, bool frozen);
extern bool ContainFrozen(const Contain *contain);
extern bool ContainKillNode(const char *cgroup, const char *keepers,
							const char *node);
extern long ContainOomKills(const Contain *contain);

#endif							/* GPUCREDIT_AGENT_CONTAIN_H */
