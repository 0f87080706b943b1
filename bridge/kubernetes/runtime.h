/*-------------------------------------------------------------------------
 *
 * runtime.h
 *		Determines how long a job ran, by clocks that may differ.
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_KUBERNETES_RUNTIME_H
#define GPUCREDIT_KUBERNETES_RUNTIME_H

#include "job.h"

extern int64_t JobRuntimeAtLeastNs(const KubeJob *job);
extern long JobRuntimeAtMostSeconds(const KubeJob *job);
extern int64_t JobRuntimeNowNs(const KubeJob *job);
extern int64_t JobRuntimeMeteredNs(const KubeJob *job);
extern long JobRuntimeSeconds(const KubeJob *job);

#endif							/* GPUCREDIT_KUBERNETES_RUNTIME_H */
