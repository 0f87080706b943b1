/*-------------------------------------------------------------------------
 *
 * unpaid.c
 *		Handles pods that have devices and no credit.
 *
 * Such pods are deleted with the shortest grace period. Their run is billed to
 * the account of their namespace: its credit pays as far as it suffices, and
 * the account owes the difference. The finalizer keeps such a pod until it is
 * billed, so no bill is lost if the bridge is killed.
 *-------------------------------------------------------------------------
 */
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "clock.h"
#include "config.h"
#include "database.h"
#include "db.h"
#include "document.h"
#include "log.h"
#include "pod_change.h"
#include "unpaid.h"

static bool is_due(const KubePod *pod);
static bool has_ended(const KubePod *pod);
static long seconds_of(const KubePod *pod);
static void charged(PGresult * result, void *context);

/*
 * Deletes a pod that runs, or would run, without credit.
 */
void
UnpaidDelete(KubePod *pod, const char *why)
{
	if (strcmp(kube.enforce, "yes") != 0)
		return;
	if (PodMayChange(pod) && !pod->stopped)
		PodReportUnpaid(pod, why);
	PodDelete(pod, 1);
}

/*
 * Whether a pod has or had devices that no credit pays for and that are not
 * billed yet. A pod that had ended when a bridge first saw it does not count,
 * as it may be older than the tenant's account.
 */
bool
UnpaidOwes(const KubePod *pod)
{
	return strcmp(kube.enforce, "yes") == 0 && pod->request.devices &&
		pod->started != 0 && !pod->paid && !pod->charged &&
		SpacePaying(pod) != NULL &&
		(pod->kept || pod->unpaid_ns != 0 || pod->idle_ns != 0);
}

/* Whether the bridge must bill the pod's unpaid run now. */
static bool
is_due(const KubePod *pod)
{
	return pod->job == NULL && pod->looked_up && !pod->charging &&
		has_ended(pod) && UnpaidOwes(pod);
}

/*
 * Whether the pod has ended, or counts as ended because no report can come any
 * more. If a node is lost, its kubelet never reports the end, and the bridge's
 * finalizer would keep the pod forever.
 */
static bool
has_ended(const KubePod *pod)
{
	if (pod->over)
		return pod->finished != 0 || MonotonicNs() >= pod->ends_ns;
	return PodEnded(pod) || (pod->deleting && MonotonicNs() - pod->ends_ns >
							 kube.node_lost_s * NS_PER_S);
}

/*
 * Returns how many seconds an unpaid pod has run: by its node's clock or, if
 * the node did not report its end, by the bridge's clock until kubelet must
 * have ended it.
 */
static long
seconds_of(const KubePod *pod)
{
	time_t		end = pod->finished != 0 ? pod->finished : time(NULL) +
		(pod->ends_ns - MonotonicNs()) / NS_PER_S;

	return end > pod->started ? end - pod->started : 0;
}

/*
 * Bills a pod that ran without credit, by its price and seconds. The price is
 * that of its node's type, or the highest one. The account owes what its
 * credit does not cover (table uncollected). A pod with an annotation that
 * names a job that this bridge does not know is billed only if it is not among
 * the pods of that job.
 */
#define CHARGE \
	"WITH price AS (SELECT p.per_gpu_hour FROM (SELECT DISTINCT ON" \
	"   (q.gpu_type) q.gpu_type, q.per_gpu_hour" \
	"  FROM gpucredit.prices q WHERE q.pool IN ($5, '') AND NOT q.spot" \
	"   AND q.effective_at <= gpucredit.now() AND q.gpu_type NOT IN" \
	"   ('cpu core', 'memory GiB')" \
	"  ORDER BY q.gpu_type, q.pool DESC, q.effective_at DESC," \
	"   q.revision DESC) p" \
	"  ORDER BY p.gpu_type = $6 DESC NULLS LAST, p.per_gpu_hour DESC LIMIT 1)," \
	" h AS (SELECT t.hold FROM price, LATERAL gpucredit.hold($1, $2," \
	"   $3 || '/unpaid', 0, '1 h') t WHERE NOT EXISTS (SELECT" \
	"   FROM gpucredit.job j WHERE j.org = $1 AND j.job = $8::pg_catalog.int8" \
	"    AND j.attempt > 0 AND j.spec->'kubernetes'->>'workload' = $9))" \
	"SELECT c.captured, c.uncollected FROM h, price," \
	" LATERAL gpucredit.capture($1, h.hold, $3 || '/unpaid bill'," \
	"  round(price.per_gpu_hour * $4::pg_catalog.numeric" \
	"   * $7::pg_catalog.numeric / 3600, 6), overrun => true) c"

bool
UnpaidCharge(void)
{
	for (int i = 0; i < PodCount(); i++)
	{
		KubePod    *pod = PodAt(i);
		KubeSpace  *space = SpaceFind(pod->space);
		KubeNode   *node = NodeFind(pod->node);
		char		gpus[32];
		char		seconds[32];
		const char *values[9];

		if (!is_due(pod))
			continue;
		snprintf(gpus, sizeof(gpus), "%ld", pod->request.gpus);
		snprintf(seconds, sizeof(seconds), "%ld", seconds_of(pod));
		values[0] = space->org;
		values[1] = space->account == NULL ? "" : space->account;
		values[2] = pod->uid;
		values[3] = gpus;
		values[4] = kube.pool;
		values[5] = node == NULL ? NULL : node->type;
		values[6] = seconds;
		values[7] = pod->paid_by != NULL && pod->workload != NULL &&
			DocumentCount(pod->paid_by, LONG_MAX / 100) > 0 ?
			pod->paid_by : NULL;
		values[8] = pod->workload;
		pod->charging = true;
		DbCall(CHARGE, 9, values, charged, pod);
		return true;
	}
	return false;
}

/*
 * Handles the answer to UnpaidCharge(). A key that was used with other
 * arguments belongs to the bill of an earlier bridge.
 */
static void
charged(PGresult * result, void *context)
{
	KubePod    *pod = context;

	pod->charging = false;
	if (DatabasePauses(result))
		return;
	pod->charged = true;
	if (*DbState(result) == '\0' && PQntuples(result) == 0)
		return;
	LogLine("event=unpaid pod=%s/%s gpus=%ld seconds=%ld billed=%s"
			" uncollected=%s%s%s", pod->space, pod->name, pod->request.gpus,
			seconds_of(pod),
			*DbState(result) == '\0' ? DbField(result, 0, "captured") : "",
			*DbState(result) == '\0' ? DbField(result, 0, "uncollected") : "",
			*DbState(result) == '\0' ? "" : " error=", *DbState(result) == '\0' ? "" :
			PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY));
}
