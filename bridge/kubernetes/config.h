/*-------------------------------------------------------------------------
 *
 * config.h
 *		The configuration of the Kubernetes bridge.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_KUBERNETES_CONFIG_H
#define GPUCREDIT_KUBERNETES_CONFIG_H

typedef struct KubeConfig
{
	char	   *database;		/* the libpq connection string */
	char	   *pool;			/* the database's pool of nodes that
								 * Kubernetes schedules */
	char	   *api;			/* URL of the API server; empty for that of
								 * the pod's own cluster */
	char	   *token_file;		/* path of the token's file; empty for no
								 * token */
	char	   *ca_file;		/* path of the certificate authorities; empty
								 * for those of the machine */
	char	   *cert_file;		/* path of a client certificate; empty for
								 * none */
	char	   *key_file;
	char	   *resource;		/* name of the GPU resource that pods request */
	char	   *type_label;		/* label of a node that names its GPU type */
	char	   *memory_label;	/* label of a node that has the memory of one
								 * of its GPUs, in MiB */
	char	   *tier;			/* tier of pods that name none */
	char	   *kueue;			/* version of Kueue's API; empty if the
								 * cluster has no Kueue */
	char	   *enforce;		/* "yes" to delete pods that run unpaid, or
								 * "no" */
	char	   *lease;			/* NAMESPACE/NAME of the lease for leader
								 * election */
	char	   *alive_file;		/* file that is written every few seconds to
								 * show that the bridge works; empty for none */
	char	   *identity;		/* this bridge's name as holder of the lease;
								 * empty for the host's name */
	long		wall_s;			/* wall limit of pods that name none */
	long		lease_s;		/* how long the lease lasts if it is not
								 * renewed */
	long		meter_ms;
	long		retry_ms;		/* shortest time between two attempts to
								 * reserve a job's credit */
	long		node_lost_s;	/* a node that is not ready for so long counts
								 * as lost */
	long		gang_wait_s;	/* time in which all pods of a gang must
								 * start, from its first start */
	long		held_alert_s;	/* how long credit may be held for a pod that
								 * does not run before the bridge reports it */
	long		stop_grace_s;	/* how long a pod that must stop has to end */
	long		report_late_s;	/* how late kubelet may report the end of a
								 * container */
} KubeConfig;

extern KubeConfig kube;

extern void KubeConfigRead(const char *path);
extern long KubeStopGrace(void);

#endif							/* GPUCREDIT_KUBERNETES_CONFIG_H */
