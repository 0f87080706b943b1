/*-------------------------------------------------------------------------
 *
 * hypothetical.c
 *		Adds the hypothetical nodes and jobs of plan_with() to a cycle.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/clock.h"
#include "util/errors.h"
#include "util/sql.h"
#include "job/submit/submission.h"
#include "miscadmin.h"
#include "sched/sched.h"
#include "sched/load/hypothetical.h"
#include "types/clip.h"

SQL_STATEMENT(node_known, SPI_OK_SELECT, "text[]",
			  "SELECT n.node FROM gpucredit.node n WHERE n.node = ANY ($1)"
			  " LIMIT 1");

static bool set_aside(SchedCycle *cycle, const Submission *submission,
					  int32 ordinal, bool is_copy);
static pg_attribute_noreturn() void refuse_node(const char *node);

/*
 * Adds an array of the organisations of the hypothetical jobs to the arguments
 * of a statement.
 */
void
HypotheticalOrgs(const SchedCycle *cycle, Values *args)
{
	const Hypothetical *hypothetical = cycle->hypothetical;
	int			n = hypothetical != NULL ? hypothetical->n_jobs : 0;
	const char **orgs = palloc(sizeof(char *) * (n + 1));

	for (int i = 0; i < n; i++)
		orgs[i] = hypothetical->jobs[i].job.org;
	ValuesAdd(args, TextArrayValue(orgs, n));
}

/*
 * Add the hypothetical nodes to the cycle.
 */
void
HypotheticalNodes(SchedCycle *cycle)
{
	const Hypothetical *hypothetical = cycle->hypothetical;
	const char **names;
	SqlResult	known;

	if (hypothetical == NULL || hypothetical->n_nodes == 0)
		return;
	names = palloc(sizeof(char *) * hypothetical->n_nodes);
	for (int i = 0; i < hypothetical->n_nodes; i++)
		names[i] = hypothetical->nodes[i].node;
	known = SqlRead(&node_known,
					VALUES(TextArrayValue(names, hypothetical->n_nodes)));
	if (known.n > 0)
		refuse_node(SqlText(known, 0, 1));
	NodesSuppose(cycle->set, hypothetical->nodes, hypothetical->n_nodes);
	for (int32 i = 1; i < cycle->set->n; i++)
	{
		if (strcmp(cycle->set->nodes[i - 1].name,
				   cycle->set->nodes[i].name) == 0)
			refuse_node(cycle->set->nodes[i].name);
	}
}

/* Adds the queue entry of a hypothetical job. */
static void
add_job(SchedCycle *cycle, const Submission *submission, int32 request,
		const QueuedRequest *asked, int32 ordinal)
{
	const Job  *from = &submission->job;
	int32		n = cycle->input.n_jobs++;
	DecideJob  *job = &cycle->jobs[n];
	Queued	   *queued = &cycle->queued[n];

	*job = (DecideJob)
	{
		.request = request,
			.org = from->org,
			.id = -ordinal,
			.account = AccountIndex(cycle, from->org, from->account),
			.tier = TierIndex(cycle, from->tier),
			.priority = from->priority,

		/*
		 * The ordinal keeps hypothetical jobs in the order in which they were
		 * given.
		 */
			.submitted = cycle->now + ordinal
	};
	job->aged_at = CycleAgedAt(cycle, job->tier, job->submitted);
	job->waits_from = job->submitted;
	if (submission->cache != NULL)
		job->cache = CacheIndex(cycle, from->org, submission->cache);
	*queued = (Queued)
	{
		.account = from->account,
			.cache = submission->cache,
			.array = submission->wishes.at_most > 0 ?
			submission->wishes.array : NULL,
			.at_most = submission->wishes.at_most,
			.deadline = submission->wishes.deadline,
			.asked = asked
	};
}

/*
 * Adds the hypothetical jobs to the queue, except those that reserve() would
 * deny. Jobs made by one "count" are equal, so the first of them is examined
 * for all.
 */
void
HypotheticalJobs(SchedCycle *cycle)
{
	Hypothetical *hypothetical = cycle->hypothetical;
	QueuedRequest *asked = NULL;
	int32		request = -1;

	if (hypothetical == NULL || hypothetical->n_jobs == 0)
		return;
	cycle->jobs = repalloc_huge(cycle->jobs, sizeof(DecideJob) *
								(cycle->input.n_jobs + hypothetical->n_jobs +
								 1));
	cycle->queued = repalloc_huge(cycle->queued, sizeof(Queued) *
								  (cycle->input.n_jobs + hypothetical->n_jobs +
								   1));
	cycle->input.jobs = cycle->jobs;
	for (int i = 0; i < hypothetical->n_jobs; i++)
	{
		Submission *submission = &hypothetical->jobs[i];
		bool		copied = i > 0 &&
			submission->job.request == hypothetical->jobs[i - 1].job.request;

		CHECK_FOR_INTERRUPTS();
		if (copied)
		{
			*submission = hypothetical->jobs[i - 1];
			hypothetical->denied[i] = hypothetical->denied[i - 1];
		}
		else
		{
			SubmissionResolve(submission);
			hypothetical->denied[i] = SubmissionCheck(submission, cycle->set,
													  false);
			if (hypothetical->denied[i] == NULL)
			{
				DecideRequestClass decided = OffersRequest(&submission->job,
														   cycle->set);

				request = CycleAddRequest(cycle, &decided);
				asked = palloc(sizeof(QueuedRequest));
				QueuedRequestOf(asked, &submission->job);
			}
		}
		if (hypothetical->denied[i] == NULL &&
			!set_aside(cycle, submission, i + 1, copied))
			add_job(cycle, submission, request, asked, i + 1);
	}
}

/*
 * Sets a hypothetical job aside that would not be eligible, and returns
 * whether it did. A copy of the job before it gets the same result as that
 * job.
 */
static bool
set_aside(SchedCycle *cycle, const Submission *submission, int32 ordinal,
		  bool is_copy)
{
	const JobOptions *wishes = &submission->wishes;
	SetAsideReason reason;
	DependentJob one = {.org = submission->job.org,
		.account = submission->job.account, .name = wishes->name,

		/*
		 * A hypothetical job has the highest number, so all existing jobs
		 * come before it.
		 */
		.job = PG_INT64_MAX, .deadline = DT_NOEND, .state = DEPENDENCY_HOLDS};

	if (is_copy)
	{
		const SetAside *before = SetAsideLast(cycle, -(ordinal - 1));

		if (before != NULL)
			SetAsideAdd(cycle, submission->job.org, -ordinal, before->reason,
						false);
		return before != NULL;
	}
	if (wishes->after != NULL)
	{
		one.after = DependencyToCString(wishes->after);
		DependencyJudge(cycle, &one, 1);
	}
	if (wishes->hold)
		reason = SET_ASIDE_HELD;
	else if (wishes->begin > ClockNow())
		reason = SET_ASIDE_BEGIN;
	else if (one.state == DEPENDENCY_HOLDS)
		return false;
	else
		reason = one.state == DEPENDENCY_NEVER ? SET_ASIDE_NEVER :
			SET_ASIDE_DEPENDENCY;
	SetAsideAdd(cycle, submission->job.org, -ordinal, reason, false);
	return true;
}

/*
 * Marks all devices of hypothetical nodes as not idle, because the nodes are
 * new and no job may grow into their devices yet.
 */
void
HypotheticalAreNew(SchedCycle *cycle)
{
	const Hypothetical *hypothetical = cycle->hypothetical;

	for (int i = 0; hypothetical != NULL && i < hypothetical->n_nodes; i++)
		cycle->set->nodes[NodeIndex(cycle->set,
									hypothetical->nodes[i].node)].idle = 0;
}

static void
refuse_node(const char *node)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("node \"%s\" exists already", ClipForMessage(node)),
			 errdetail("The node is registered, or \"what\" names it twice."),
			 errhint("Use another name.")));
}
