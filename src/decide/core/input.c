/*
 * input.c
 *	  Checks that the input is one that the core can work on.
 *
 * The database's constraints rule out most of the errors.  This file checks
 * what the other files rely on, so that a faulty loader gets an error instead
 * of devices being allocated twice.  Names of nodes are checked for duplicates
 * where they are sorted (hosts.c), and so are jobs (queue.c).
 */
#include "decide/core/core.h"

#define MOST_LEVELS	64			/* most levels in a tree of accounts */

/*
 * Returns a message that says what is wrong with one node, or NULL if nothing
 * is wrong.  The functions below follow the same rule.
 */
static const char *
node_error(const DecideNode *node)
{
	int			i;

	if (node->name == NULL)
		return "a node has no name";
	if (node->gpus < 0 || node->gpus > DECIDE_MAX_DEVICES)
		return "a node has less than 0 or more than 64 devices";
	if (node->gpus > 0 && node->type < 0)
		return "a node has devices of no type";
	if (node->gpu_memory_mib < 0 || node->cpu_milli < 0 ||
		node->memory_mib < 0)
		return "a node has a negative capacity";
	if (node->domain < DECIDE_OWN_GROUP || node->leaf < DECIDE_OWN_GROUP)
		return "a node has a negative domain or leaf";
	if (node->spine < DECIDE_NO_SPINE)
		return "a node has a negative spine";
	for (i = 0; i < DECIDE_LEVELS; i++)
	{
		if (node->mbps[i] < 0)
			return "a node has a negative bandwidth";
	}
	for (i = 0; i < node->gpus; i++)
	{
		if (node->device_left[i] > DECIDE_WHOLE)
			return "a device has more than 1000 thousandths left";
	}
	return NULL;
}

/*
 * Returns a message that says what is wrong with one request, or NULL.
 */
static const char *
request_error(const DecideRequestClass *request)
{
	int32_t		i;

	if (request->min_gpus < 0 || request->max_gpus < request->min_gpus)
		return "an ask has a range of GPUs that is empty";
	if (request->min_gpus == 0 && request->max_gpus != 0)
		return "an ask has a range of GPUs that starts at 0";
	if (request->share < 1 || request->share > DECIDE_WHOLE)
		return "an ask has a share outside 1 to 1000 thousandths";
	if (request->share < DECIDE_WHOLE && (request->min_gpus != 1 ||
										  request->max_gpus != 1))
		return "an ask has a share of more or less than one GPU";
	if (request->n_offers < 0 || (request->n_offers > 0 &&
								  request->offers == NULL))
		return "an ask has no list of offers";
	for (i = 0; i < request->n_offers; i++)
	{
		if (request->offers[i].type < 0 || request->offers[i].min_memory < 0)
			return "an ask has a negative type or memory floor";
	}
	if ((int) request->topology < DECIDE_TOPOLOGY_ANY ||
		(int) request->topology > DECIDE_TOPOLOGY_LEAF)
		return "an ask has an unknown topology";
	if ((int) request->prefer < DECIDE_TOPOLOGY_ANY ||
		(int) request->prefer > DECIDE_TOPOLOGY_LEAF)
		return "an ask prefers an unknown topology";
	if (request->cpu_milli < 0 || request->memory_mib < 0)
		return "an ask has a negative amount of cpu or memory";
	if (request->per_node < 0 ||
		(request->per_node > 0 && (request->min_gpus != request->max_gpus ||
								   request->share != DECIDE_WHOLE ||
								   request->min_gpus == 0 ||
								   request->min_gpus % request->per_node != 0)))
		return "an ask wants another number of GPUs on each node than it has";
	if (request->wall_limit <= 0)
		return "an ask has a wall limit that is not above 0";
	return NULL;
}

/*
 * Returns a message that says what is wrong with one running attempt, or NULL.
 */
static const char *
running_error(const DecideInput *input, const DecideRunning *running)
{
	int32_t		i;

	if (running->org == NULL)
		return "a running attempt has no organisation";
	if (running->tier < 0 || running->tier >= input->n_tiers ||
		running->account < 0 || running->account >= input->n_accounts)
		return "a running attempt's tier or account is not there";
	if (running->stays && running->preemptible == DECIDE_PREEMPT_CAPACITY)
		return "a running attempt stays and may be evicted";
	if (running->expected_end > running->limit_end)
		return "a running attempt is expected to pass its limit";
	if (running->n_parts < 1 || running->first_part < 0 ||
		running->first_part > input->n_running_parts - running->n_parts)
		return "a running attempt has no parts";
	if (running->share < 1 || running->share > DECIDE_WHOLE)
		return "a running attempt has a share outside 1 to 1000 thousandths";
	if (running->request < -1 || running->request >= input->n_requests)
		return "a running attempt's ask is not there";
	for (i = 0; i < running->n_parts; i++)
	{
		const DecidePart *part =
		&input->running_parts[running->first_part + i];

		if (part->node < 0 || part->node >= input->n_nodes)
			return "a running attempt is on a node that is not there";
		if (part->cpu_milli < 0 || part->memory_mib < 0)
			return "a running attempt has a negative amount of cpu or memory";
		if (input->nodes[part->node].gpus < DECIDE_MAX_DEVICES &&
			part->devices >> input->nodes[part->node].gpus != 0)
			return "a running attempt has a device its node has not";
	}
	return NULL;
}

/*
 * Returns a message that says what is wrong with one reservation of the
 * previous cycle, or NULL.
 */
static const char *
previous_error(const DecideInput *input,
			   const DecidePreviousReservation *previous)
{
	int32_t		i;

	if (previous->job < 0 || previous->job >= input->n_jobs)
		return "a reservation made before is of a job that is not there";
	if (previous->n_parts < 0 || previous->first_part < 0 ||
		previous->first_part > input->n_previous_parts - previous->n_parts)
		return "a reservation made before has no parts";
	for (i = 0; i < previous->n_parts; i++)
	{
		const DecidePart *part = &input->previous_parts[previous->first_part +
														i];

		if (part->node < 0 || part->node >= input->n_nodes)
			return "a reservation made before is on a node that is not there";
		if (part->gpus != __builtin_popcountll(part->devices))
			return "a reservation made before has not the devices it says";
	}
	return NULL;
}

/*
 * Returns a message that says what is wrong with one claim, or NULL.
 */
static const char *
claim_error(const DecideInput *input, const DecideClaim *claim)
{
	int32_t		i;

	if (claim->org == NULL)
		return "a claim has no organisation";
	if (claim->job < -1 || claim->job >= input->n_jobs ||
		claim->account < 0 || claim->account >= input->n_accounts)
		return "a claim's job or account is not there";
	if (claim->n_parts < 1 || claim->first_part < 0 ||
		claim->first_part > input->n_claim_parts - claim->n_parts)
		return "a claim has no parts";
	if (claim->share < 1 || claim->share > DECIDE_WHOLE)
		return "a claim has a share outside 1 to 1000 thousandths";
	for (i = 0; i < claim->n_parts; i++)
	{
		const DecidePart *part = &input->claim_parts[claim->first_part + i];

		if (part->node < 0 || part->node >= input->n_nodes)
			return "a claim is on a node that is not there";
		if (part->cpu_milli < 0 || part->memory_mib < 0)
			return "a claim has a negative amount of cpu or memory";
		if (input->nodes[part->node].gpus < DECIDE_MAX_DEVICES &&
			part->devices >> input->nodes[part->node].gpus != 0)
			return "a claim has a device its node has not";
	}
	return NULL;
}

/*
 * Returns a message that says what is wrong with one tier, or NULL.
 */
static const char *
tier_error(const DecideTier *tier)
{
	if (tier->grace < 0 || tier->min_run < 0 || tier->max_wait < 0)
		return "a tier has a negative duration";
	if (tier->share_ppm < 0 || tier->share_ppm > 1000000)
		return "a tier has a share outside 0 to 1000000 millionths";
	if (tier->live < 0)
		return "a tier has less than nothing running";
	return NULL;
}

/*
 * Returns a message that says what is wrong with one account, or NULL.
 */
static const char *
account_error(const DecideInput *input, int32_t index)
{
	const DecideAccount *account = &input->accounts[index];
	int32_t		above = account->parent;
	int			depth;

	if (account->name == NULL)
		return "an account has no name";
	if (account->weight <= 0)
		return "an account has no weight";
	if (account->usage < 0 || account->live < 0)
		return "an account has used less than nothing";
	for (depth = 0; above != -1; depth++)
	{
		if (above < 0 || above >= input->n_accounts || depth == MOST_LEVELS)
			return "an account is not below an organisation";
		above = input->accounts[above].parent;
	}
	return NULL;
}

/*
 * Returns a message that says what is wrong with the tiers, accounts and
 * types, or NULL.
 */
static const char *
shares_error(const DecideInput *input)
{
	const char *error;
	int32_t		i;

	for (i = 0; i < input->n_tiers; i++)
	{
		error = tier_error(&input->tiers[i]);
		if (error != NULL)
			return error;
	}
	for (i = 0; i < input->n_accounts; i++)
	{
		error = account_error(input, i);
		if (error != NULL)
			return error;
	}
	for (i = 0; i < input->n_types; i++)
	{
		if (input->types[i].weight < 0)
			return "a type has a negative weight";
	}
	return NULL;
}

/*
 * Returns a message that says what is wrong with one job, or NULL.
 */
static const char *
job_error(const DecideInput *input, const DecideJob *job)
{
	if (job->request < 0 || job->request >= input->n_requests)
		return "a job names an ask that is not there";
	if (job->tier < 0 || job->tier >= input->n_tiers)
		return "a job names a tier that is not there";
	if (job->account < 0 || job->account >= input->n_accounts)
		return "a job names an account that is not there";
	if (job->org == NULL)
		return "a job has no organisation";
	if (job->expected_run < 0)
		return "a job is expected to run for less than nothing";
	if (job->cache < 0)
		return "a job wants a cache of a negative number";
	return NULL;
}

/*
 * Returns a message that says what is wrong with one quota, or NULL.
 */
static const char *
quota_error(const DecideInput *input, const DecideQuota *quota)
{
	int			i;

	if (quota->account < 0 || quota->account >= input->n_accounts)
		return "a quota names an account that is not there";
	if (quota->type < 0 && quota->type != DECIDE_ANY_TYPE)
		return "a quota is of no type";
	for (i = 0; i < DECIDE_LIMITED; i++)
	{
		if (quota->most.of[i] < -1 || quota->used.of[i] < 0)
			return "a quota allows or counts less than nothing";
	}
	return NULL;
}

/*
 * Returns a message that says what is wrong with the packing policy, the
 * typical jobs and the caches, or NULL.
 */
static const char *
knowledge_error(const DecideInput *input)
{
	const char *error;
	int32_t		i;

	if ((int) input->policy.packing < DECIDE_PACKING_PACK ||
		(int) input->policy.packing > DECIDE_PACKING_FGD)
		return "the pool's packing is unknown";
	for (i = 0; i < input->n_workloads; i++)
	{
		error = request_error(&input->workloads[i].request);
		if (error != NULL)
			return error;
		if (input->workloads[i].jobs < 1)
			return "there is no job of a typical ask";
	}
	for (i = 0; i < input->n_cached; i++)
	{
		if (input->cached[i].cache < 1 || input->cached[i].node < 0 ||
			input->cached[i].node >= input->n_nodes)
			return "a cache is on a node that is not there, or has no number";
	}
	return NULL;
}

/*
 * Returns a message that says what is wrong with the input, or NULL if nothing
 * is wrong.
 */
const char *
DecideInputError(const DecideInput *input)
{
	const char *error;
	int32_t		i;

	if (input->n_nodes < 0 || input->n_requests < 0 || input->n_jobs < 0 ||
		input->n_types < 0 || input->n_tiers < 0 || input->n_accounts < 0 ||
		input->max_starts < 0 || input->max_evictions < 0 ||
		input->policy.fair_horizon < 0 ||
		input->policy.backfill_depth < 0 ||
		input->n_running < 0 || input->n_running_parts < 0 ||
		input->n_quotas < 0 || input->n_workloads < 0 || input->n_cached < 0)
		return "a number of nodes, asks, jobs or starts is negative";
	for (i = 0; i < input->n_nodes; i++)
	{
		error = node_error(&input->nodes[i]);
		if (error != NULL)
			return error;
	}
	for (i = 0; i < input->n_requests; i++)
	{
		error = request_error(&input->requests[i]);
		if (error != NULL)
			return error;
	}
	error = shares_error(input);
	if (error == NULL)
		error = knowledge_error(input);
	for (i = 0; i < input->n_quotas && error == NULL; i++)
		error = quota_error(input, &input->quotas[i]);
	for (i = 0; i < input->n_jobs && error == NULL; i++)
		error = job_error(input, &input->jobs[i]);
	for (i = 0; i < input->n_running && error == NULL; i++)
		error = running_error(input, &input->running[i]);
	for (i = 0; i < input->n_claims && error == NULL; i++)
		error = claim_error(input, &input->claims[i]);
	for (i = 0; i < input->n_previous && error == NULL; i++)
		error = previous_error(input, &input->previous[i]);
	return error;
}
