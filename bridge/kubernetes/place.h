/*-------------------------------------------------------------------------
 *
 * place.h
 *		Nodes in the database, and devices within them.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_KUBERNETES_PLACE_H
#define GPUCREDIT_KUBERNETES_PLACE_H

#include "job.h"
#include "texts.h"

extern bool NodesCall(void);
extern void PlaceRead(KubeJob *job, const char *shares);
extern bool PlaceChoose(KubeJob *job, TextArray *nodes, TextArray *gpus,
						const char **type);
extern void PlaceForget(KubeJob *job);
extern bool PlaceStands(const KubeJob *job);

#endif							/* GPUCREDIT_KUBERNETES_PLACE_H */
