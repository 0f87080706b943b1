/*-------------------------------------------------------------------------
 *
 * kubernetes.c
 *		gpucredit-bridge kubernetes: the main loop of the Kubernetes bridge.
 *
 * The bridge has a single thread. Pods wait behind a scheduling gate, or
 * Kueue's workloads for a check. The bridge reserves their credit, removes the
 * gates, and reports to the database where the pods started. It meters them,
 * ends them when their credit ends, and settles by the times that kubelet
 * reports. The database has the authoritative state of money, the API server
 * that of pods, and the bridge may be killed between any two steps.
 *-------------------------------------------------------------------------
 */
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "../bridge.h"
#include "admit.h"
#include "api.h"
#include "clock.h"
#include "config.h"
#include "database.h"
#include "db.h"
#include "job.h"
#include "leader.h"
#include "log.h"
#include "workload.h"

#define TURN_MS		100
#define ALIVE_NS	(5 * NS_PER_S)

static volatile sig_atomic_t ends;

static void turn(void);
static void show_alive(void);

static void
note_signal(int number)
{
	(void) number;
	ends = 1;
}

int
KubernetesMain(int argc, char **argv)
{
	struct sigaction act = {.sa_handler = note_signal};

	if (argc != 1)
		Die("usage: gpucredit-bridge kubernetes CONFIG");
	KubeConfigRead(argv[0]);
	if (*kube.kueue != '\0')
		WorkloadsUse(kube.kueue);
	DbUse(kube.database, NULL, NULL);
	sigaction(SIGTERM, &act, NULL);
	sigaction(SIGINT, &act, NULL);
	LogLine("event=bridge_start api=%s pool=%s identity=%s", kube.api, kube.pool,
			kube.identity);
	while (!ends)
		turn();
	LogLine("event=bridge_end");
	return 0;
}

/*
 * Waits for the API server, the database or the clock, then acts. Only the
 * holder of the lease acts.
 */
static void
turn(void)
{
	short		events;
	int			fd = DbFd(&events);
	int			wait = DbWaitMs();
	bool		kueue = *kube.kueue != '\0';

	show_alive();
	ApiTurn(fd, events, wait < TURN_MS ? wait : TURN_MS);
	DbWork();
	LeaderWork();
	if (!LeaderNow())
		return;
	WatchWork(&space_watch);
	WatchWork(&node_watch);
	WatchWork(&pod_watch);
	if (kueue)
	{
		WatchWork(&flavor_watch);
		WatchWork(&check_watch);
		WatchWork(&workload_watch);
	}
	if (!ClusterKnown() || (kueue && !WorkloadsKnown()))
		return;
	DatabaseReconcile();
	if (!DatabaseLoaded())
		return;
	JobsTurn();
	AdmitTurn();
}

/*
 * Writes the file whose age shows a liveness probe that the loop is running.
 */
static void
show_alive(void)
{
	static int64_t next_ns;
	int			fd;

	if (*kube.alive_file == '\0' || MonotonicNs() < next_ns)
		return;
	next_ns = MonotonicNs() + ALIVE_NS;
	fd = open(kube.alive_file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (fd < 0 || write(fd, "\n", 1) != 1)
		LogLine("event=not_shown_alive file=%s", kube.alive_file);
	if (fd >= 0)
		close(fd);
}
