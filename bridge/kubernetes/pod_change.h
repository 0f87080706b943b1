/*-------------------------------------------------------------------------
 *
 * pod_change.h
 *		Changes pods: removes gates, annotates, deletes and removes
 *		finalizers.
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_KUBERNETES_POD_CHANGE_H
#define GPUCREDIT_KUBERNETES_POD_CHANGE_H

#include "pod.h"

extern bool PodMayChange(const KubePod *pod);
extern void PodRemoveGate(KubePod *pod, const char *job, const char *held,
						  const char *type, long wall_s);
extern void PodReportUnpaid(KubePod *pod, const char *status);
extern void PodReportReason(KubePod *pod, const char *reason, const char *status);
extern void PodDelete(KubePod *pod, long grace_s);
extern void PodRemoveFinalizer(KubePod *pod, const char *billed);

#endif							/* GPUCREDIT_KUBERNETES_POD_CHANGE_H */
