/*-------------------------------------------------------------------------
 *
 * place.h
 *		Registers nodes in the database, and chooses device numbers for pods.
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
extern const char *PlaceUnknownNode(const KubeJob *job);
extern bool PlaceStands(const KubeJob *job);

#endif							/* GPUCREDIT_KUBERNETES_PLACE_H */
