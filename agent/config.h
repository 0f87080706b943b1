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
	char	   *node;			/* its name in the database */
	char	   *database;		/* a libpq connection string */
	char	   *state;			/* the folder that outlives the agent */
	char	   *devices;		/* "file:PATH", "nvml", or empty: no GPUs */
	char	   *nvml_library;
	char	   *cgroup;			/* the folder of the attempts' cgroups */
	char	   *keeper;			/* gpucredit-keeper */
	char	   *steps;			/* the folder of srun and what serves it */
	char	   *isolation;		/* plain or bwrap */
	char	   *seccomp;		/* filter jobs' system calls: yes or no */
	char	   *node_key;		/* a file with the node's key; empty: none */
	char	   *key;			/* that file's content */
	char	   *address;		/* the address where other nodes reach this
								 * one */
	char	   *poke;			/* HOST:PORT for incoming datagrams */
	char	   *podman;			/* the command */
	char	   *image_mounts;	/* host folders mounted into containers */
	char	   *foreign_stop;	/* a program that ends a foreign job */
	char	   *listen;			/* LISTEN in the database: yes or no */
	long		heartbeat_ms;
	long		meter_ms;
	long		device_poll_ms; /* between two checks of each GPU */
	long		nvml_timeout_ms;	/* a call of NVML that takes longer hangs */
	long		leftover_mib;	/* used memory of a GPU that is free */
	long		stop_grace_ms;	/* between SIGTERM and SIGKILL */
	uid_t		first_uid;		/* the first uid of job users; 0: none */
	long		most_processes; /* per job, where cgroups limit them */
	long		image_pull_s;	/* the most that a pull may take */
	long		uids;			/* the node's total to give out */
} Config;

extern Config config;

extern void ConfigRead(const char *path, bool of_node);

#endif							/* GPUCREDIT_AGENT_CONFIG_H */
