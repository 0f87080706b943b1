/*-------------------------------------------------------------------------
 *
 * placement.h
 *		Which nodes a job may use, and how many of its GPUs each has.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_PLACEMENT_H
#define GPUCREDIT_PLACEMENT_H

#include "inventory/inventory.h"

/* Labels of which a node must have at least one. */
typedef struct LabelChoice
{
	int			n;
	const char **labels;		/* each as "key=value" or "key" */
} LabelChoice;

typedef struct Placement
{
	int			n_nodes;		/* 0 if it may use all nodes */
	const char **nodes;
	int			n_excluded;
	const char **excluded;
	int			n_choices;
	LabelChoice *choices;		/* a node must satisfy all of them */
	int32		gpus_per_node;	/* 0 if the scheduler chooses */
	bool		whole_nodes;	/* its part of a node must be all of it */
} Placement;

extern Placement *PlacementParse(const JsonbValue *value);	/* NULL if malformed */
extern uint64 *PlacementFilter(const Placement *placement, const NodeSet *set,
							   const DecideRequestClass *request);

#endif							/* GPUCREDIT_PLACEMENT_H */
