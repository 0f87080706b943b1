/*-------------------------------------------------------------------------
 *
 * ran.h
 *		How long a job ran, by clocks that may differ.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_KUBERNETES_RAN_H
#define GPUCREDIT_KUBERNETES_RAN_H

#include "job.h"

extern int64_t RanAtLeastNs(const KubeJob *job);
extern long RanAtMostS(const KubeJob *job);
extern int64_t RanNowNs(const KubeJob *job);
extern int64_t RanMeteredNs(const KubeJob *job);
extern long RanS(const KubeJob *job);

#endif							/* GPUCREDIT_KUBERNETES_RAN_H */
