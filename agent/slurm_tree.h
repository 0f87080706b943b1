/*-------------------------------------------------------------------------
 *
 * slurm_tree.h
 *		Switches and blocks as Slurm's topology files list them.
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_AGENT_SLURM_TREE_H
#define GPUCREDIT_AGENT_SLURM_TREE_H

#include <stdbool.h>

#include "topology.h"

/* A part of the file's text. */
typedef struct Span
{
	const char *at;				/* NULL if the file does not have it */
	size_t		size;
} Span;

/* A switch or a block. */
typedef struct SlurmEntry
{
	bool		block;
	int			topology;		/* number of the topology that it belongs to,
								 * from 0 */
	Span		name;
	Span		children;
	Span		nodes;
} SlurmEntry;

/* All of a file. */
typedef struct SlurmTree
{
	SlurmEntry *entries;
	int			n;
	int			size;
	int			preferred;		/* number of the cluster's default topology */
} SlurmTree;

extern SlurmEntry *SlurmTreeAdd(SlurmTree *tree);
extern const char *SlurmTreeFind(SlurmTree *tree, const char *node,
								 Topology *found);
extern void SlurmTreeFree(SlurmTree *tree);

#endif							/* GPUCREDIT_AGENT_SLURM_TREE_H */
