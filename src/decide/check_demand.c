/*
 * check_demand.c
 *	  What jobs have a use for, when it is checked what accounts are entitled to.
 *	  By code that shares nothing with what worked that out.
 *
 * A job of a range has a use for the most it may have, where the pool lets jobs
 * grow.
 */
#include "decide/core.h"

typedef __int128 Wide;

/*
 * Devices as they count in use.
 */
int64_t
DecideCheckWorth(const DecideInput *input, int32_t type, int64_t gpus,
				 int64_t share)
{
	int64_t		weight = type >= 0 && type < input->n_types ?
		input->types[type].weight : 1000;

	return (int64_t) ((Wide) gpus * share * weight / 1000);
}

/*
 * As many devices as a job of a range could grow to, if it may at all, by what
 * quotas allow where nothing else runs.
 */
int32_t
DecideCheckRange(const CheckDemand *wants, int32_t account, int32_t type,
				 int32_t has,
				 int32_t most)
{
	const DecideInput *input = wants->input;
	int32_t		q;

	if (input->policy.elastic_idle_delay == DECIDE_NEVER || most <= has)
		return has;
	for (; account >= 0; account = input->accounts[account].parent)
	{
		for (q = wants->first_quota[account]; q >= 0;
			 q = wants->next_quota[q])
		{
			const DecideQuota *quota = &input->quotas[q];

			if (quota->max_milli >= 0 && (quota->type == type ||
										  quota->type == DECIDE_ANY_TYPE) &&
				most > quota->max_milli / 1000)
				most = (int32_t) (quota->max_milli / 1000);
		}
	}
	return most > has ? most : has;
}

/*
 * What a job that waits has a use for.
 */
int64_t
DecideCheckAsked(const CheckDemand *wants, int32_t job)
{
	const DecideInput *input = wants->input;
	const DecideRequestClass *request = &input->requests[input->jobs[job].request];

	return request->n_offers == 0 ? 0 :
		DecideCheckWorth(input, request->offers[0].type,
						 DecideCheckRange(wants, input->jobs[job].account,
										  request->offers[0].type,
										  request->min_gpus,
										  request->max_gpus),
						 request->share);
}

/*
 * What a job that runs has a use for: more than it has, unless it is over, or
 * could not be paid for.
 */
int64_t
DecideCheckUseful(const CheckDemand *wants, const DecideRunning *r)
{
	bool		grows = !r->over && (r->request >= 0 || r->leaving) &&
		r->type != DECIDE_NO_TYPE;

	return DecideCheckWorth(wants->input, r->type, grows ?
							DecideCheckRange(wants, r->account, r->type,
											 r->gpus,
											 r->max_gpus) : r->gpus, r->share);
}

/*
 * Get ready to say so: list the quotas of each account.  False: out of memory.
 */
bool
DecideCheckDemand(const DecideInput *input, const DecideArena *arena,
				  CheckDemand *wants)
{
	int32_t		i;

	wants->input = input;
	wants->first_quota = DecideAlloc(arena, input->n_accounts,
									 sizeof(int32_t));
	wants->next_quota = DecideAlloc(arena, input->n_quotas, sizeof(int32_t));
	if (wants->first_quota == NULL || wants->next_quota == NULL)
		return false;
	for (i = 0; i < input->n_accounts; i++)
		wants->first_quota[i] = -1;
	for (i = 0; i < input->n_quotas; i++)
	{
		int32_t    *first = &wants->first_quota[input->quotas[i].account];

		wants->next_quota[i] = *first;
		*first = i;
	}
	return true;
}
