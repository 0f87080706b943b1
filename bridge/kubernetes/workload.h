/*-------------------------------------------------------------------------
 *
 * workload.h
 *		What the bridge knows of Kueue: workloads, checks, flavors.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_KUBERNETES_WORKLOAD_H
#define GPUCREDIT_KUBERNETES_WORKLOAD_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "watch.h"
#include "pod_request.h"

#define CONTROLLER		WORD("credit")	/* of our AdmissionChecks */
#define KUEUE_GROUP		"/apis/kueue.x-k8s.io/"

struct KubeJob;

/* Pods that Kueue admits together. */
typedef struct KubeWorkload
{
	char	   *uid;			/* first: the key */
	bool		seen;
	char	   *space;
	char	   *name;
	json_t	   *object;			/* as the API server has it */
	char	   *admission;		/* since when it has quota; NULL: it has none */
	bool		over;			/* finished, evicted, switched off or deleted */
	bool		gone;			/* the API server no longer has it */
	struct KubeJob *job;		/* its credit in this admission */
	char	   *stop;			/* why it lost that; NULL: it did not */
	bool		for_good;		/* and must not try again */
	int			calls;			/* no answer yet */
	int64_t		again_ns;		/* do nothing about it before */
} KubeWorkload;

typedef struct KubeCheck
{
	char	   *name;			/* first: the key */
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
