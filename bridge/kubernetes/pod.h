/*-------------------------------------------------------------------------
 *
 * pod.h
 *		The bridge's copy of the cluster's state: pods, nodes and namespaces.
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
#define REQUIRED		"requiredDuringSchedulingIgnoredDuringExecution"

struct KubeJob;

typedef struct KubeSpace
{
	char	   *name;			/* key of the table, so the first field */
	bool		seen;
	char	   *org;			/* the organisation that pays, or NULL if
								 * there is none */
	char	   *account;		/* account of the organisation */
} KubeSpace;

typedef struct KubeNode
{
	char	   *name;			/* key of the table, so the first field */
	bool		seen;
	char	   *type;
	long		gpus;
	long		numbers;		/* number of devices that the database has for
								 * the node */
	long		gpu_mib;
	bool		ready;
	bool		gone;			/* the API server no longer has the node */
	bool		registered;		/* the database has the node's present state */
	bool		removing;		/* the call under way removes the node */
	bool		changed;		/* the node has changed since the call under
								 * way was made */
	int64_t		unready_ns;		/* since when the node has not been ready, or
								 * 0 if it is */
	int64_t		again_ns;		/* earliest time of the next call about the
								 * node */
} KubeNode;

/* The newest version of a pod, and what the bridge did about it. */
typedef struct KubePod
{
	char	   *uid;			/* key of the table, so the first field */
	bool		seen;
	char	   *space;
	char	   *name;
	char	   *version;
	char	   *owner;			/* uid of its controller, or NULL */
	json_t	   *gates;			/* its scheduling gates, or NULL */
	json_t	   *finalizers;
	json_t	   *terms;			/* its required node selector terms, or NULL */
	bool		gated;			/* it has the bridge's gate */
	bool		kept;			/* it has the bridge's finalizer */
	bool		deleting;
	long		grace_s;		/* grace period of its deletion */
	int64_t		ends_ns;		/* when its containers must have ended, if it
								 * is being deleted, is gone, or ended without
								 * a reported time */
	bool		gone;			/* the API server no longer has the pod */
	bool		over;			/* its phase is Succeeded or Failed */
	bool		failed;
	bool		oom;
	bool		late;			/* it exceeded its activeDeadlineSeconds */
	bool		coded;			/* exit_code is known */
	int			exit_code;
	time_t		started;		/* when its first container started, or 0 */
	time_t		finished;		/* when its last container ended, once all
								 * have */
	char	   *node;			/* the node that it is bound to, or NULL */
	char	   *workload;		/* uid of its workload, from an annotation */
	char	   *paid_by;		/* number of its job, from the bridge's
								 * annotation */
	PodRequest	request;
	char	   *status;			/* the bridge's status annotation */
	char	   *written_status; /* the status that the bridge last wrote, or
								 * NULL */
	int64_t		idle_ns;		/* when it was last seen not started; 0 if
								 * unknown */
	int64_t		began_ns;		/* when the bridge saw it start; 0 if it did
								 * not */
	/* What the bridge did about the pod */
	struct KubeJob *job;
	bool		fresh;			/* this version has not been considered yet */
	bool		refused;		/* the API server refuses to change it */
	int			calls;			/* number of calls without an answer */
	int64_t		again_ns;		/* earliest time of the next call about the
								 * pod */
	bool		stopped;		/* the bridge has deleted it */
	long		stop_grace_s;	/* grace period of that deletion */
	int64_t		unpaid_ns;		/* since when it has been seen running unpaid */
	bool		paid;			/* an attempt pays for its run */
	bool		looked_up;		/* its job was looked up in the database */
	bool		looking_up;		/* its job is being looked up */
	bool		charged;		/* its unpaid run is billed */
	bool		charging;		/* the call that bills it is under way */
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
extern void PodLose(KubePod *pod);
extern bool PodEnded(const KubePod *pod);
extern KubeSpace *SpacePaying(const KubePod *pod);
extern void PodForget(KubePod *pod);

#endif							/* GPUCREDIT_KUBERNETES_POD_H */
