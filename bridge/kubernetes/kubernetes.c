/*-------------------------------------------------------------------------
 *
 * kubernetes.c
 *		gpucredit-bridge kubernetes: one thread, one loop.
 *
 * Pods wait behind a scheduling gate, or Kueue's workloads for a check.  The
 * bridge reserves their credit, ungates them, and reports to the database
 * where they started.  It meters them, ends them when their credit ends, and
 * settles by the instants that kubelet reports.  The database decides about
 * money, the API server about pods, and the bridge may be killed between any
 * two steps.
 *
 *-------------------------------------------------------------------------
 */
#include <signal.h>
#include <string.h>

#include "../bridge.h"
#include "admit.h"
#include "api.h"
#include "database.h"
#include "config.h"
#include "db.h"
#include "job.h"
#include "leader.h"
#include "util.h"
#include "workload.h"

#define TURN_MS		100

static volatile sig_atomic_t ends;

static void turn(void);

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
 * Wait for the API server, the database or the clock, then act.  Only the
 * holder of the lease acts.
 */
static void
turn(void)
{
	short		events;
	int			fd = DbFd(&events);
	int			wait = DbWaitMs();
	bool		kueue = *kube.kueue != '\0';

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
