/*-------------------------------------------------------------------------
 *
 * request_row.c
 *		Reads a job's request from a row, and keeps it until the job
 *		starts.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/args.h"
#include "util/errors.h"
#include "util/sql.h"
#include "sched/sched.h"

static const Placement *read_placement(Jsonb *stored);

/* Reads the request of row i into job. */
void
RequestRead(SqlResult rows, uint64 i, Job *job)
{
	bool		isnull;

	memset(job, 0, sizeof(Job));
	job->request = (GpuReq *)
		PG_DETOAST_DATUM_COPY(SqlDatum(rows, i, 10, &isnull));
	job->topology = (DecideTopology) ArgWord(SqlText(rows, i, 11), "topology",
											 TopologyNames,
											 lengthof(TopologyNames));
	if (!SqlIsNull(rows, i, 21))
		job->prefer = (DecideTopology) ArgWord(SqlText(rows, i, 21), "prefer",
											   TopologyNames,
											   lengthof(TopologyNames));
	job->preemptible = (Preemptible) ArgWord(SqlText(rows, i, 12),
											 "preemptible", PreemptibleNames,
											 lengthof(PreemptibleNames));
	job->cpu_milli = SqlInt8(rows, i, 13);
	job->memory_mib = SqlInt8(rows, i, 14);
	job->wall_limit = SqlIsNull(rows, i, 15) ? -1 : SqlDuration(rows, i, 15);
	job->hold_window = SqlIsNull(rows, i, 16) ? -1 :
		SqlDuration(rows, i, 16);
	JobReadOffers(rows, i, 17, 19, 18, 20, &job->offers);
	job->price_factor = SqlInt4(rows, i, 22);
	job->resources = SqlCredits(rows, i, 23);
	if (!SqlIsNull(rows, i, 24))
		job->placement = read_placement(DatumGetJsonbP(SqlDatum(rows, i, 24,
																&isnull)));
}

/* Parses a placement that reserve() has accepted. */
static const Placement *
read_placement(Jsonb *stored)
{
	JsonbValue	value = {.type = jbvBinary};
	Placement  *placement;

	value.val.binary.data = &stored->root;
	value.val.binary.len = VARSIZE_ANY_EXHDR(stored);
	placement = PlacementParse(&value);
	Ensure(placement != NULL, "A stored placement is malformed.");
	return placement;
}

/* Fills in what all jobs of a request class have in common. */
void
QueuedRequestOf(QueuedRequest *asked, const Job *job)
{
	*asked = (QueuedRequest)
	{
		.wall_limit = job->wall_limit,
			.hold_window = job->hold_window,
			.request = GpuReqToCString(job->request),
			.min_gpus = job->request->min_gpus,
			.max_gpus = job->request->max_gpus,
			.resources = job->resources,
			.offers = job->offers
	};
}
