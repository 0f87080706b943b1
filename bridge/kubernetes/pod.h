/*-------------------------------------------------------------------------
 *
 * pod.h
 *		What the bridge knows of the cluster: pods, nodes, namespaces.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_KUBERNETES_POD_H
#define GPUCREDIT_KUBERNETES_POD_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "watch.h"
#include "pod_request.h"

#define GATE			"gpucredit.io/credit"
#define FINALIZER		"gpucredit.io/settle"

struct KubeJob;

typedef struct KubeSpace
{
	char	   *name;			/* first: the key */
	bool		seen;
	char	   *org;			/* NULL: no tenant's */
	char	   *account;		/* below the organisation */
} KubeSpace;

typedef struct KubeNode
{
	char	   *name;			/* first: the key */
	bool		seen;
	char	   *type;
	long		gpus;
	long		gpu_mib;
	bool		ready;
	bool		gone;			/* the API server has it no more */
	bool		registered;		/* the database knows it as it is */
	bool		removing;		/* what the call under way does */
	bool		changed;		/* since that call was made */
	int64_t		unready_ns;		/* since when; 0: it is ready */
	int64_t		again_ns;		/* make no call about it before */
} KubeNode;

/* The newest version of a pod, and what was done about it. */
typedef struct KubePod
{
	char	   *uid;			/* first: the key */
	bool		seen;
	char	   *space;
	char	   *name;
	char	   *version;
	char	   *owner;			/* uid of its controller; NULL: none */
	json_t	   *gates;			/* as the API server has them; or NULL */
	json_t	   *finalizers;
	bool		gated;			/* by us */
	bool		kept;			/* our finalizer is there */
	bool		deleting;
	bool		gone;			/* the API server has it no more */
	bool		over;			/* Succeeded or Failed */
	bool		failed;
	bool		oom;
	bool		late;			/* it ran into its activeDeadlineSeconds */
	bool		coded;			/* exit_code is known */
	int			exit_code;
	time_t		started;		/* the first container; 0: none yet */
	time_t		finished;		/* the last container, once over */
	char	   *node;			/* NULL: not bound */
	char	   *workload;		/* its workload's uid, from an annotation */
	char	   *paid_by;		/* its job, from our annotation */
	PodRequest	request;
	char	   *status;			/* our annotation */
	char	   *written_status; /* the state that we last wrote there; or NULL */
	int64_t		idle_ns;		/* the last time it had not started; 0:
								 * unknown */
	int64_t		began_ns;		/* when we saw it start; 0: we saw no start */
	/* the call under way */
	struct KubeJob *job;
	bool		fresh;			/* this version was not considered yet */
	bool		refused;		/* the API server takes no change of it */
	int			calls;			/* no answer yet */
	int64_t		again_ns;		/* do nothing about it before */
	bool		stopped;		/* it was deleted by us */
	int64_t		unpaid_ns;		/* since when it is seen to run unpaid */
} KubePod;

extern KubeWatch pod_watch;
extern KubeWatch node_watch;
extern KubeWatch space_watch;

extern bool ClusterKnown(void);
extern KubeSpace *SpaceFind(const char *name);
extern KubeNode *NodeFind(const char *name);
extern KubePod *PodFind(const char *uid);
extern int	PodCount(void);
extern KubePod *PodAt(int i);
extern int	NodeCount(void);
extern KubeNode *NodeAt(int i);
extern void PodForget(KubePod *pod);

#endif							/* GPUCREDIT_KUBERNETES_POD_H */
