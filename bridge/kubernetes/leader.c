/*-------------------------------------------------------------------------
 *
 * leader.c
 *		Leader election: of several bridges, only the holder of a lease acts.
 *
 * The lease is a coordination.k8s.io/v1 Lease. Each change of it names the
 * version that was read, so if two bridges want the lease, one is refused
 * (409). A bridge acquires a lease that is free, or that was not renewed for
 * its duration by this bridge's monotonic clock. The holder acts for two
 * thirds of the duration after its last renewal, so it pauses before another
 * bridge can acquire the lease. A bridge that lost the lease ends, and its
 * service starts it again as a standby.
 *-------------------------------------------------------------------------
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "api.h"
#include "clock.h"
#include "config.h"
#include "document.h"
#include "leader.h"
#include "log.h"
#include "memory.h"

#define LEASES "/apis/coordination.k8s.io/v1/namespaces/"

static bool held;				/* the last answer showed this bridge as the
								 * holder */
static int64_t renewed_ns;		/* when the call that last renewed the lease
								 * was sent */
static int64_t sent_ns;			/* when the call under way was sent */
static int64_t next_ns;
static bool under_way;
static json_t * seen;			/* the lease's spec as it was last read */
static int64_t seen_ns;			/* since when the spec has not changed */

static char *lease_path(bool of_all);
static void read_lease(long status, json_t * body, void *context);
static json_t * filled(json_t * lease);
static void wrote_lease(long status, json_t * body, void *context);
static bool is_free(json_t * lease);

/* Whether this bridge holds the lease and may act. */
bool
LeaderNow(void)
{
	return held && MonotonicNs() < renewed_ns +
		kube.lease_s * NS_PER_S * 2 / 3;
}

/* Returns when the API server was last known to answer. */
int64_t
LeaderHeardNs(void)
{
	return renewed_ns;
}

/*
 * Reads the lease, if that is due.
 */
void
LeaderWork(void)
{
	char	   *path;

	if (under_way || MonotonicNs() < next_ns)
		return;
	under_way = true;
	sent_ns = MonotonicNs();
	next_ns = sent_ns + kube.lease_s * NS_PER_S / 6;
	path = lease_path(false);
	ApiCall("GET", path, API_JSON, NULL, read_lease, NULL);
	free(path);
}

static char *
lease_path(bool of_all)
{
	int			n = strcspn(kube.lease, "/");

	return Format(LEASES "%.*s/leases%s%s", n, kube.lease, of_all ? "" : "/",
				  of_all ? "" : kube.lease + n + 1);
}

/*
 * Handles the lease that was read: renews it, or acquires it if it is free.
 */
static void
read_lease(long status, json_t * body, void *context)
{
	char	   *path;

	(void) context;
	under_way = false;
	if (status != 200 && status != 404)
	{
		if (status != 0)
			LogLine("event=lease_failed status=%ld error=\"%.200s\"", status,
					ApiProblem(body));
		return;
	}
	if (status == 200)
	{
		json_t	   *spec = json_object_get(body, "spec");

		if (seen == NULL || !json_equal(seen, spec))
		{
			json_decref(seen);
			seen = json_deep_copy(spec);
			seen_ns = sent_ns;
		}
		if (!is_free(body))
		{
			if (held)
				Die("event=lease_lost holder=%s",
					DocumentText(spec, "holderIdentity"));
			return;
		}
	}
	under_way = true;
	path = lease_path(status == 404);
	sent_ns = MonotonicNs();
	ApiCall(status == 404 ? "POST" : "PUT", path, API_JSON,
			filled(status == 404 ? NULL : body), wrote_lease, NULL);
	free(path);
}

/*
 * Whether this bridge may acquire the lease, or holds it already.
 */
static bool
is_free(json_t * lease)
{
	const char *holder = DocumentText(lease, "spec", "holderIdentity");
	long		seconds = json_integer_value(
											 DocumentGet(lease, "spec", "leaseDurationSeconds"));

	return holder == NULL || *holder == '\0' ||
		strcmp(holder, kube.identity) == 0 ||
		MonotonicNs() > seen_ns + (seconds < 1 ? 1 : seconds) * NS_PER_S;
}

/*
 * Builds the lease with this bridge as its holder from now on.
 */
static json_t *
filled(json_t * lease)
{
	const char *before = DocumentText(lease, "spec", "holderIdentity");
	bool		ours = before != NULL && strcmp(before, kube.identity) == 0;
	json_int_t	turns = json_integer_value(
										   DocumentGet(lease, "spec", "leaseTransitions"));
	char		now[64];
	char		stamp[96];
	struct timespec wall;
	struct tm	tm;
	json_t	   *metadata;
	json_t	   *spec;

	clock_gettime(CLOCK_REALTIME, &wall);
	gmtime_r(&wall.tv_sec, &tm);
	strftime(now, sizeof(now), "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(stamp, sizeof(stamp), "%s.%06ldZ", now, wall.tv_nsec / 1000);
	if (lease == NULL)
		metadata = json_pack("{s:s}", "name", strchr(kube.lease, '/') + 1);
	else
		metadata = json_incref(json_object_get(lease, "metadata"));
	spec = json_pack("{s:s,s:i,s:s,s:I}", "holderIdentity", kube.identity,
					 "leaseDurationSeconds", (int) kube.lease_s, "renewTime",
					 stamp, "leaseTransitions", ours ? turns : turns + 1);
	json_object_set_new(spec, "acquireTime", ours ?
						json_incref(DocumentGet(lease, "spec", "acquireTime")) : json_string(stamp));
	return json_pack("{s:s,s:s,s:o,s:o}", "apiVersion",
					 "coordination.k8s.io/v1", "kind", "Lease", "metadata",
					 metadata, "spec", spec);
}

/*
 * Handles the answer to the call that renews or acquires the lease.
 */
static void
wrote_lease(long status, json_t * body, void *context)
{
	(void) context;
	under_way = false;
	if (status != 200 && status != 201)
	{
		/*
		 * 409: another bridge was faster, or an earlier call of this one
		 * arrived late.
		 */
		if (status != 0 && status != 409)
			LogLine("event=lease_failed status=%ld error=\"%.200s\"", status,
					ApiProblem(body));
		return;
	}
	renewed_ns = sent_ns;
	next_ns = sent_ns + kube.lease_s * NS_PER_S / 3;
	if (!held)
		LogLine("event=lease_taken identity=%s", kube.identity);
	held = true;
}
