/*-------------------------------------------------------------------------
 *
 * act.h
 *		What the bridge does to pods: ungate, annotate, delete, release.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_KUBERNETES_ACT_H
#define GPUCREDIT_KUBERNETES_ACT_H

#include "pod.h"

extern bool ActMay(const KubePod *pod);
extern void ActUngate(KubePod *pod, const char *job, const char *held,
					  const char *type, long wall_s);
extern void ActTell(KubePod *pod, const char *reason, const char *status);
extern void ActDelete(KubePod *pod, long grace_s);
extern void ActLetGo(KubePod *pod, const char *billed);

#endif							/* GPUCREDIT_KUBERNETES_ACT_H */
