/*-------------------------------------------------------------------------
 *
 * config.h
 *		The agent's configuration.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_AGENT_CONFIG_H
#define GPUCREDIT_AGENT_CONFIG_H

#include <stdbool.h>
#include <sys/types.h>

typedef struct Config
{
	char	   *node;			/* the node's name in the database */
	char	   *database;		/* the libpq connection string */
	char	   *state;			/* folder that persists across restarts of the
								 * agent */
	char	   *devices;		/* "file:PATH", "nvml", or empty for a node
								 * without GPUs */
	char	   *nvml_library;
	char	   *cgroup;			/* cgroup under which each attempt gets its
								 * own */
	char	   *keeper;			/* path of gpucredit-keeper */
	char	   *steps;			/* folder of srun and the program that serves
								 * it */
	char	   *isolation;		/* "plain" or "bwrap" */
	char	   *seccomp;		/* whether to filter jobs' system calls, "yes"
								 * or "no" */
	char	   *node_key;		/* file with the node's key; empty for none */
	char	   *key;			/* content of that file */
	char	   *address;		/* the address at which other nodes reach this
								 * node */
	char	   *poke;			/* HOST:PORT for incoming datagrams */
	char	   *podman;			/* path of podman */
	char	   *network;		/* jobs' network: "private", "outbound" or
								 * "node" */
	char	   *network_deny;	/* hosts and networks that no job reaches */
	char	   *network_allow;	/* private networks that jobs may reach */
	char	   *slirp4netns;	/* path of slirp4netns */
	char	   *image_mounts;	/* host folders mounted into containers */
	char	   *spot;			/* whose notice to watch: "no", "aws", "gcp"
								 * or "azure" */
	char	   *spot_url;		/* where the metadata service answers */
	char	   *topology;		/* "conf:PATH", "yaml:PATH" or
								 * "ibnetdiscover:PATH": the file that has the
								 * node's place; "none"; or empty */
	char	   *infiniband;		/* folder of the node's InfiniBand adapters */
	char	   *foreign_stop;	/* program that ends a job of another
								 * scheduler */
	char	   *log_folder;		/* folder for the output of ended jobs; empty
								 * if the database keeps it */
	char	   *listen;			/* whether to LISTEN in the database, "yes" or
								 * "no" */
	char	   *probe;			/* what tests a device before its first job:
								 * "no", "builtin", "dcgm" or the path of a
								 * program */
	char	   *probe_program;	/* path of gpucredit-gpu-probe */
	char	   *dcgmi;			/* path of NVIDIA's dcgmi */
	long		probe_timeout_s;	/* a test that takes longer has failed */
	long		probe_bandwidth_gb_s;	/* least speed of copies in "builtin" */
	long		probe_nvlink_mbps;	/* least that a device's NVLinks carry */
	char	   *metrics_file;	/* file for Prometheus' textfile collector;
								 * empty for none */
	char	   *metrics_labels; /* the jobs' labels that become labels of
								 * metrics, separated by commas */
	long		spot_poll_ms;	/* interval of asking for a notice */
	long		topology_poll_ms;	/* interval of reading that file */
	long		heartbeat_ms;
	long		meter_ms;
	long		device_poll_ms; /* interval of checking each GPU */
	long		nvml_timeout_ms;	/* a call of NVML that takes longer counts
									 * as hanging */
	long		leftover_mib;	/* memory that a free GPU may still have in
								 * use */
	long		stop_grace_ms;	/* time between SIGTERM and SIGKILL */
	long		log_folder_kib; /* size of a stream's head, and of its tail,
								 * in that folder */
	uid_t		first_uid;		/* the first uid of job users; 0 for none */
	long		most_processes; /* limit of processes per job, where cgroups
								 * limit them */
	long		image_pull_s;	/* time limit of an image pull */
	long		uids;			/* number of uids that the node can assign to
								 * jobs */
} Config;

extern Config config;

extern void ConfigRead(const char *path, bool of_node);

#endif							/* GPUCREDIT_AGENT_CONFIG_H */
