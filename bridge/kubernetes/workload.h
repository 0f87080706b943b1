/*-------------------------------------------------------------------------
 *
 * workload.h
 *		The bridge's copy of Kueue's state: workloads, checks and flavors.
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_KUBERNETES_WORKLOAD_H
#define GPUCREDIT_KUBERNETES_WORKLOAD_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "watch.h"
#include "pod_request.h"

#define CONTROLLER		WORD("credit")	/* controller of the bridge's
										 * AdmissionChecks */
#define KUEUE_GROUP		"/apis/kueue.x-k8s.io/"

struct KubeJob;

/* Pods that Kueue admits together. */
typedef struct KubeWorkload
{
	char	   *uid;			/* key of the table, so the first field */
	bool		seen;
	char	   *space;
	char	   *name;
	json_t	   *object;			/* the newest version from the API server */
	char	   *admission;		/* since when it has quota, or NULL if it has
								 * none */
	bool		over;			/* it is finished, evicted, deactivated or
								 * deleted */
	bool		gone;			/* the API server no longer has it */
	struct KubeJob *job;		/* the job that holds the credit of this
								 * admission */
	char	   *stop;			/* why it lost its credit, or NULL if it did
								 * not */
	bool		for_good;		/* it must not be queued again after that */
	int			calls;			/* number of calls without an answer */
	int64_t		again_ns;		/* earliest time of the next call about the
								 * workload */
} KubeWorkload;

typedef struct KubeCheck
{
	char	   *name;			/* key of the table, so the first field */
	bool		seen;
	bool		ours;
	bool		active;
	json_t	   *object;
	int			calls;
	int64_t		again_ns;
} KubeCheck;

extern KubeWatch workload_watch;
extern KubeWatch check_watch;
extern KubeWatch flavor_watch;

extern void WorkloadsUse(const char *version);
extern bool WorkloadsKnown(void);
extern int	WorkloadCount(void);
extern KubeWorkload *WorkloadAt(int i);
extern KubeWorkload *WorkloadFind(const char *uid);
extern void WorkloadForget(KubeWorkload *workload);
extern int	CheckCount(void);
extern KubeCheck *CheckAt(int i);
extern json_t * WorkloadCheck(const KubeWorkload *workload);
extern bool WorkloadIn(const KubeWorkload *workload, const char *state);
extern char *WorkloadKey(const KubeWorkload *workload);
extern int	WorkloadWish(const KubeWorkload *workload, PodRequest *request,
						 json_t * names);

#endif							/* GPUCREDIT_KUBERNETES_WORKLOAD_H */
