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
	char	   *database;		/* a libpq connection string */
	char	   *pool;			/* the foreign pool in the database */
	char	   *api;			/* URL of the API server; empty: of this pod */
	char	   *token_file;		/* empty: no token */
	char	   *ca_file;		/* empty: the machine's own authorities */
	char	   *cert_file;		/* a client certificate; empty: none */
	char	   *key_file;
	char	   *resource;		/* the resource that pods ask for */
	char	   *type_label;		/* the nodes' label that names the GPU type */
	char	   *memory_label;	/* the nodes' label with a GPU's MiB */
	char	   *tier;			/* of pods that name none */
	char	   *kueue;			/* version of its API; empty: there is none */
	char	   *enforce;		/* delete pods that run unpaid: yes or no */
	char	   *lease;			/* NAMESPACE/NAME of the lease */
	char	   *identity;		/* holder of the lease; empty: the host's name */
	long		wall_s;			/* wall limit of pods that name none */
	long		lease_s;		/* after which a lease that is not renewed
								 * ends */
	long		meter_ms;
	long		retry_ms;		/* between two requests for credit, at least */
	long		node_lost_s;	/* a node not ready for so long is lost */
	long		gang_wait_s;	/* within which all pods of a gang must start */
	long		stop_grace_s;	/* how long a pod that must stop has to end */
	long		report_late_s;	/* how late kubelet may report an end */
} KubeConfig;

extern KubeConfig kube;

extern void KubeConfigRead(const char *path);

#endif							/* GPUCREDIT_KUBERNETES_CONFIG_H */
