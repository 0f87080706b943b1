/*-------------------------------------------------------------------------
 *
 * counts.c
 *		Derives the number of nodes, tasks, GPUs and CPUs, and the memory,
 *		from options.
 *
 * As in Slurm, counts that are not given are derived from those that are:
 * --gpus=8 --gpus-per-node=4 are two nodes, --gpus=8 --gpus-per-task=2 are
 * four tasks. By default a job has one node, a task per node, and a CPU per
 * task. Counts that contradict each other end the command.
 *-------------------------------------------------------------------------
 */
#include <stdio.h>

#include "cli.h"
#include "submission.h"

static void refuse_pairs(const StoredSubmission *s);
static void exclude(bool both, const char *one, const char *other);
static int64_t quotient(int64_t whole, int64_t part, const char *whole_option,
						const char *part_option);
static void count_whole_nodes(const StoredSubmission *s, JobCounts *counts);
static void agree(int64_t *count, int64_t follows, const char *option,
				  const char *of);
static int64_t multiply(int64_t a, int64_t b);

/*
 * Derives the counts of a submission. Ends the command if they contradict each
 * other.
 */
JobCounts
SubmissionCounts(const StoredSubmission *s)
{
	int64_t		nodes = s->nodes;
	int64_t		tasks = s->tasks;
	int64_t		tasks_per_node = s->tasks_per_node;
	int64_t		gpus_per_node = s->gpus_per_node;
	JobCounts	counts = {0};

	/* As in Slurm, --gres=none takes nothing from what tasks ask for. */
	if (gpus_per_node == 0 && s->gpus_per_task > 0)
		gpus_per_node = -1;

	refuse_pairs(s);
	if (s->gpus > 0 && gpus_per_node > 0)
		agree(&nodes, quotient(s->gpus, gpus_per_node, "--gpus",
							   "--gpus-per-node"), "--nodes",
			  "--gpus and --gpus-per-node");
	if (s->gpus > 0 && s->gpus_per_task > 0)
		agree(&tasks, quotient(s->gpus, s->gpus_per_task, "--gpus",
							   "--gpus-per-task"), "--ntasks",
			  "--gpus and --gpus-per-task");
	if (gpus_per_node > 0 && s->gpus_per_task > 0)
		agree(&tasks_per_node, quotient(gpus_per_node, s->gpus_per_task,
										"--gpus-per-node", "--gpus-per-task"),
			  "--ntasks-per-node", "--gpus-per-node and --gpus-per-task");
	if (s->tasks_per_gpu > 0 && s->gpus > 0)
		agree(&tasks, multiply(s->gpus, s->tasks_per_gpu), "--ntasks",
			  "--gpus and --ntasks-per-gpu");
	if (nodes == 0 && tasks > 0 && tasks_per_node > 0)
		nodes = (tasks + tasks_per_node - 1) / tasks_per_node;
	counts.counts_nodes = nodes > 0 || gpus_per_node > 0;
	counts.nodes = nodes > 0 ? nodes : 1;
	/* A node without a task would have nothing to do. */
	if (tasks > 0 && counts.nodes > tasks)
		counts.nodes = tasks;

	if (s->gpus >= 0)
		counts.gpus = s->gpus;
	else if (gpus_per_node >= 0)
		counts.gpus = multiply(gpus_per_node, counts.nodes);
	counts.counts_tasks = tasks > 0 || counts.counts_nodes;
	counts.tasks = tasks > 0 ? tasks :
		multiply(counts.nodes, tasks_per_node > 0 ? tasks_per_node : 1);
	if (s->gpus < 0 && gpus_per_node < 0)
		counts.gpus = multiply(s->gpus_per_task, counts.tasks);

	/*
	 * If only --ntasks-per-node says that one node is enough, the GPUs may
	 * nevertheless be on several.
	 */
	if (s->nodes == 0 && gpus_per_node <= 0 && counts.nodes == 1 &&
		counts.gpus > 1)
		counts.counts_nodes = false;

	counts.counts_cpus = s->cpus_per_gpu > 0 || s->cpus_per_task > 0 ||
		tasks > 0 || tasks_per_node > 0 || s->memory_per_cpu_mib > 0;
	counts.cpus = multiply(counts.tasks,
						   s->cpus_per_task > 0 ? s->cpus_per_task : 1);
	if (s->cpus_per_gpu > 0 &&
		multiply(s->cpus_per_gpu, counts.gpus) > counts.cpus)
		counts.cpus = multiply(s->cpus_per_gpu, counts.gpus);

	counts.memory_mib = s->memory_mib > 0 ?
		multiply(s->memory_mib, counts.nodes) : s->memory_per_gpu_mib > 0 ?
		multiply(s->memory_per_gpu_mib, counts.gpus) :
		multiply(s->memory_per_cpu_mib, counts.cpus);
	/* The GPUs of --gpus alone may be on any nodes. */
	counts.one_node = counts.nodes == 1 && counts.gpus > 1 &&
		(s->nodes == 1 || gpus_per_node > 0);
	if (s->whole.nodes > 0)
		count_whole_nodes(s, &counts);
	return counts;
}

/*
 * Replaces the counts of a job that gets whole nodes by all that these have.
 */
static void
count_whole_nodes(const StoredSubmission *s, JobCounts *counts)
{
	const WholeNode *whole = &s->whole;

	counts->nodes = whole->nodes;
	counts->counts_nodes = true;
	counts->gpus = multiply(whole->gpus, whole->nodes);
	if (whole->cpus > 0)
	{
		counts->cpus = multiply(whole->cpus, whole->nodes);
		counts->counts_cpus = true;
	}
	if (whole->memory_mib > 0)
		counts->memory_mib = multiply(whole->memory_mib, whole->nodes);
	counts->one_node = whole->nodes == 1 && counts->gpus > 1;
}

/*
 * Refuses pairs of options that Slurm refuses, or interprets in unexpected
 * ways.
 */
static void
refuse_pairs(const StoredSubmission *s)
{
	exclude(s->gres && s->per_node, "--gres", "--gpus-per-node");
	exclude(s->cpus_per_gpu > 0 && s->cpus_per_task > 0, "--cpus-per-gpu",
			"--cpus-per-task");
	exclude(s->tasks_per_gpu > 0 && s->gpus_per_task > 0, "--ntasks-per-gpu",
			"--gpus-per-task");
	exclude(s->tasks_per_gpu > 0 && s->tasks_per_node > 0,
			"--ntasks-per-gpu", "--ntasks-per-node");
	if (s->tasks_per_gpu > 0 && s->gpus <= 0)
		Fail(CLI_USAGE, "--ntasks-per-gpu needs --gpus; add it, or use"
			 " --ntasks");
	if (s->memory_per_gpu_mib > 0 && s->gpus <= 0 && s->gpus_per_node <= 0 &&
		s->gpus_per_task == 0 && s->request == NULL)
		Fail(CLI_USAGE, "--mem-per-gpu needs GPUs; add --gpus, or use --mem");
}

static void
exclude(bool both, const char *one, const char *other)
{
	if (both)
		Fail(CLI_USAGE, "%s and %s exclude each other; keep one of them", one,
			 other);
}

static int64_t
quotient(int64_t whole, int64_t part, const char *whole_option,
		 const char *part_option)
{
	if (whole % part != 0)
		Fail(CLI_USAGE, "%s=%lld is no multiple of %s=%lld; change one of"
			 " them", whole_option, (long long) whole, part_option,
			 (long long) part);
	return whole / part;
}

/*
 * Sets a count that follows from other options. If the count's own option is
 * given, it must have the same value.
 */
static void
agree(int64_t *count, int64_t follows, const char *option, const char *of)
{
	if (*count != 0 && *count != follows)
		Fail(CLI_USAGE, "%s=%lld contradicts %s, which make %lld; remove one"
			 " of them", option, (long long) *count, of, (long long) follows);
	*count = follows;
}

static int64_t
multiply(int64_t a, int64_t b)
{
	int64_t		product;

	if (__builtin_mul_overflow(a, b, &product) || product > INT64_C(1000000000000))
		Fail(CLI_USAGE, "a job of %lld times %lld is too large",
			 (long long) a, (long long) b);
	return product;
}
