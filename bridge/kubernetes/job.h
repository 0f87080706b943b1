/*-------------------------------------------------------------------------
 *
 * job.h
 *		A pod, a gang of pods, or a workload, which is one job of gpucredit.
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_KUBERNETES_JOB_H
#define GPUCREDIT_KUBERNETES_JOB_H

#include "pod.h"
#include "workload.h"

typedef enum KubeStage
{
	KUBE_GATHERS,				/* a gang that is not complete */
	KUBE_ASKS,					/* its credit is to be reserved */
	KUBE_REFUSED,				/* the reservation was refused; it is repeated
								 * at again_ns */
	KUBE_FUNDED,				/* its credit is held; the pods' gates are to
								 * be removed */
	KUBE_STARTS,				/* kube-scheduler and kubelet are starting the
								 * pods */
	KUBE_RUNS,					/* the database has an attempt */
	KUBE_DROPS,					/* the job is to be cancelled in the database */
	KUBE_OVER					/* the job has ended; the pods' finalizers are
								 * to be removed */
} KubeStage;

/* The devices of a job on one node. */
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
	int			size;			/* number of its pods once the job is complete */
	KubeWorkload *workload;		/* the workload whose credit it is; NULL if
								 * the pods are not Kueue's */
	char	   *org;
	char	   *account;
	char	   *tier;
	char	   *type;			/* the requested GPU type, or NULL for any */
	char	   *chosen;			/* the GPU type that its pods are restricted
								 * to */
	long		gpus;			/* number of GPUs of all its pods */
	long		wall_s;
	long		end_s;			/* how long its pods may take to end after
								 * wall_s */
	long		window_s;
	char	   *key;			/* its idempotency key; "tries" is appended to
								 * it */
	int64_t		tries;
	char	   *id;				/* the job's number in the database, or NULL
								 * if it has none */
	char	   *attempt;
	char	   *held;			/* the held amount in credits */
	char	   *billed;
	bool		calling;		/* a call of the database about it is under
								 * way */
	bool		ends_pods;		/* its pods have no credit and are deleted */
	int64_t		again_ns;
	int			refusals;		/* number of refusals in a row */
	char	   *refusal;		/* the reason that its pods were last given,
								 * or NULL */
	bool		for_good;		/* another attempt to reserve cannot succeed */
	/* State while the job runs */
	KubeShare  *shares;
	int			n_shares;
	long		settled_s;		/* run time of its earlier attempts, which the
								 * server ended */
	int64_t		funded_ns;		/* when the bridge learned that its credit is
								 * held */
	bool		late;			/* the bridge has reported that the job is
								 * funded and does not run */
	int64_t		unknown_ns;		/* since when it has been on a node of unknown
								 * GPU type, or 0 */
	int64_t		seen_ns;		/* when the bridge saw its first pod start, or
								 * 0 */
	int64_t		base_ns;		/* how long the job had run at since_ns */
	int64_t		since_ns;
	int64_t		metered_ns;		/* when the job was last metered */
	int64_t		ended_ns;		/* when its pods were seen to have ended, or 0 */
	int64_t		stop_ns;		/* when its pods are to be deleted, or 0 */
	long		grace_s;		/* grace period of that deletion */
	char	   *stop_reason;
	bool		stopped;
	bool		lost;			/* one of its nodes is lost */
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
