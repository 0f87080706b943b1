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
	const char *tag;			/* for the environment, without a cgroup */
	bool		nested;			/* the job has a pid namespace of its own */
} Contain;

extern bool ContainMake(const char *path);
extern bool ContainDelegate(const char *path);
extern bool ContainRemove(const char *path);
extern Contain ContainOpen(const char *path, const char *tag);
extern void ContainClose(Contain *contain);
extern bool ContainEnter(const Contain *contain);
extern void ContainLimit(const char *path, const char *file,
						 const char *value);
extern bool ContainPopulated(const Contain *contain);
extern void ContainSignal(const Contain *contain, int signal);
extern bool ContainFreeze(const Contain *contain, bool frozen);
extern bool ContainFrozen(const Contain *contain);
extern long ContainOomKills(const Contain *contain);

#endif							/* GPUCREDIT_AGENT_CONTAIN_H */
