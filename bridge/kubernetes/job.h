/*-------------------------------------------------------------------------
 *
 * job.h
 *		A pod, a gang of pods, or a workload, that is one job of gpucredit.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_KUBERNETES_JOB_H
#define GPUCREDIT_KUBERNETES_JOB_H

#include "pod.h"
#include "workload.h"

typedef enum KubeStage
{
	KUBE_GATHERS,				/* a gang that is not complete */
	KUBE_ASKS,					/* credit is to be reserved */
	KUBE_REFUSED,				/* until again_ns */
	KUBE_FUNDED,				/* gates are to be removed */
	KUBE_STARTS,				/* scheduler and kubelet are at work */
	KUBE_RUNS,					/* the database has an attempt */
	KUBE_DROPS,					/* to be cancelled in the database */
	KUBE_OVER					/* settled; finalizers are to be removed */
} KubeStage;

/* devices of one node */
typedef struct KubeShare
{
	char	   *node;
	uint64_t	gpus;
} KubeShare;

typedef struct KubeJob
{
	KubeStage	stage;
	KubePod   **pods;
	int			n;
	int			size;			/* how many there are, once complete */
	KubeWorkload *workload;		/* whose credit it is; NULL: its pods' */
	char	   *org;
	char	   *account;
	char	   *tier;
	char	   *type;			/* as asked for; NULL: any */
	char	   *chosen;			/* what its pods are bound to */
	long		gpus;			/* of all its pods */
	long		wall_s;
	long		window_s;
	char	   *key;			/* in the database, with tries behind it */
	int64_t		tries;
	char	   *id;				/* the job's number; NULL: none */
	char	   *attempt;
	char	   *held;			/* credits */
	char	   *billed;
	bool		calling;		/* the database is at work on it */
	bool		ends_pods;		/* they have no credit and are deleted */
	int64_t		again_ns;
	int			refusals;		/* in a row */
	char	   *refusal;		/* the reason last given to its pods; or NULL */
	bool		for_good;		/* asking again would not help */
	/* while it runs */
	KubeShare  *shares;
	int			n_shares;
	long		settled_s;		/* of its earlier attempts, which the server
								 * ended */
	int64_t		seen_ns;		/* when its start was first seen; 0: not yet */
	int64_t		base_ns;		/* how long it had run by since_ns */
	int64_t		since_ns;
	int64_t		metered_ns;		/* when */
	int64_t		ended_ns;		/* when its pods were seen to be over; 0: no */
	int64_t		stop_ns;		/* when its pods are deleted; 0: never */
	long		grace_s;		/* with this grace period */
	char	   *stop_reason;
	bool		stopped;
	bool		lost;			/* with a node */
} KubeJob;

extern void JobsTurn(void);
extern int	JobCount(void);
extern KubeJob *JobAt(int i);
extern KubeJob *JobFind(const char *org, const char *id);
extern void JobName(KubeJob *job, const char *id);
extern void JobAdmit(KubeWorkload *workload, const char *org);
extern bool JobAdmitted(const KubeJob *job);
extern bool JobFollows(const KubeWorkload *workload);
extern KubeJob *JobAdopt(KubePod **pods, int n, KubeWorkload *workload);
extern void JobFunded(KubeJob *job);
extern void JobRefuse(KubeJob *job, const char *why, bool at_once);
extern void JobBegin(KubeJob *job, int64_t ran_ns);
extern void JobObey(KubeJob *job, const char *action, const char *reason,
					double left_s);
extern void JobEndPods(KubeJob *job, const char *why);
extern bool JobReady(KubeJob *job);
extern bool JobEnded(KubeJob *job);

#endif							/* GPUCREDIT_KUBERNETES_JOB_H */
