/*-------------------------------------------------------------------------
 *
 * request_row.c
 *		A job's request, read from a row and kept for its start.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/args.h"
#include "util/sql.h"
#include "sched/sched.h"

/*
 * Read the request of a row's job.
 */
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
}

/*
 * What all jobs of a request share.
 */
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
