/*
 * check_entitle.c
 *	  Checks that no account gets more than its entitlement from others, and
 *	  none loses devices below its own, without sharing code with what decided.
 *
 * Entitlements are computed again, by repeatedly giving accounts that ask for
 * at most their part what they ask for, until there are no more such accounts.
 * Each eviction for an entitlement is then checked: the taker's side, below
 * the account where the paths join, stays within its entitlement, and the
 * giver's side would have more than its own if its largest victim had stayed.
 * Alternatively the taker's side exceeds its entitlement, and the giver's side
 * is below its own, together by less than a device of the cheapest type.  This
 * must hold for the entitlements by what accounts ask for, or for those that
 * result if the taker asks for everything.
 *
 * A result does not tell whether a start came before a claim, or which victim
 * came first.  So starts count for the giver and not against the taker.  All
 * victims of a claim count for the taker, and those that leave for a tier
 * count against the giver.  So a result that is rejected would be wrong in
 * every order.
 *
 * Entitlements depend on demand, and jobs that started before entitlements
 * were computed demand what they got; each promise contains the number of
 * these starts.
 *
 * If the pool lets jobs grow, an elastic job demands the most devices that it
 * may have.
 */
#include <string.h>

#include "decide/check/check.h"

typedef __int128 Wide;

/* Tables for computing the demand of jobs. */
typedef struct CheckDemand
{
	const DecideInput *input;
	int32_t    *first_quota;	/* first quota of each account, or -1 */
	int32_t    *next_quota;		/* next quota of the same account, or -1 */
} CheckDemand;

/*
 * The value of devices in the unit of usage.
 */
static int64_t
check_worth(const DecideInput *input, int32_t type, int64_t gpus,
			int64_t share)
{
	int64_t		weight = type >= 0 && type < input->n_types ?
		input->types[type].weight : 1000;

	return (int64_t) ((Wide) gpus * share * weight / 1000);
}

/*
 * The thousandths of a device that a job's share counts as using, including
 * its memory floor.
 */
int64_t
DecideCheckCounted(const DecideRequestClass *request, int32_t type)
{
	int32_t		i;

	for (i = 0; i < request->n_offers; i++)
	{
		if (request->offers[i].type == type && request->share < 1000)
			return request->offers[i].counted > request->share ?
				request->offers[i].counted : request->share;
	}
	return request->share;
}

static int64_t
check_running_counted(const DecideRunning *r)
{
	return r->counted > r->share ? r->counted : r->share;
}

static int64_t
promised_counted(const DecideInput *input, const DecidePromise *p)
{
	return p->job < 0 ? check_running_counted(&input->running[p->running]) :
		DecideCheckCounted(&input->requests[input->jobs[p->job].request], p->type);
}

/*
 * The most devices to which an elastic job could grow, if it may grow, within
 * quotas that nothing else uses.
 */
static int32_t
check_range(const CheckDemand *wants, int32_t account, int32_t type,
			bool stays, int32_t has, int32_t most)
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
			int64_t		limit = quota->most.of[DECIDE_LIMITED_DEVICES];
			int64_t		staying = quota->most.of[DECIDE_LIMITED_STAYING];

			if (stays && staying >= 0 && (limit < 0 || staying < limit))
				limit = staying;
			if (limit >= 0 && (quota->type == type ||
							   quota->type == DECIDE_ANY_TYPE) &&
				most > limit / 1000)
				most = (int32_t) (limit / 1000);
		}
	}
	return most > has ? most : has;
}

/*
 * A waiting job's demand.
 */
static int64_t
check_asked(const CheckDemand *wants, int32_t job)
{
	const DecideInput *input = wants->input;
	const DecideRequestClass *request = &input->requests[input->jobs[job].request];

	return request->n_offers == 0 ? 0 :
		check_worth(input, request->offers[0].type,
					check_range(wants, input->jobs[job].account,
								request->offers[0].type, request->stays,
								request->min_gpus,
								request->max_gpus),
					DecideCheckCounted(request, request->offers[0].type));
}

/*
 * A running job's demand: more than it has, unless it has ended or its growth
 * could not be paid.
 */
static int64_t
check_useful(const CheckDemand *wants, const DecideRunning *r)
{
	bool		grows = !r->over && (r->request >= 0 || r->leaving) &&
		r->type != DECIDE_NO_TYPE;

	return check_worth(wants->input, r->type, grows ?
					   check_range(wants, r->account, r->type,
								   r->stays, r->gpus,
								   r->max_gpus) : r->gpus,
					   check_running_counted(r));
}

/*
 * Lists the quotas of each account.  Returns false if memory runs out.
 */
static bool
check_demand(const DecideInput *input, const DecideArena *arena,
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

/*
 * Sums for each account: of its own jobs, and including all accounts below it.
 */
typedef struct EntitleSums
{
	int64_t    *own;
	int64_t    *all;
} EntitleSums;

typedef struct Books
{
	const DecideInput *input;
	EntitleSums demand;
	EntitleSums due;
	EntitleSums taker;			/* use that counts against a taker */
	EntitleSums giver;			/* use that counts for a giver */
	int64_t		capacity;
	int32_t    *first;			/* first child of each account + 1, or -1 */
	int32_t    *next;			/* next child of the same parent, or -1 */
	int32_t		after;			/* number of starts that demand what they got */
	int32_t    *held;			/* jobs that quotas hold back, in the order in
								 * which that began */
	int32_t		n_held;
	int32_t		next_held;		/* the jobs before this one demand nothing */
	bool	   *filled;			/* whether each account asks for no more than
								 * its part */
	bool	   *dealt;			/* by account + 1: whether its part was
								 * divided */
	CheckDemand wants;
} Books;

static void
book(const Books *books, const EntitleSums *sums, int32_t account,
	 int64_t amount)
{
	sums->own[account] += amount;
	while (account >= 0)
	{
		sums->all[account] += amount;
		account = books->input->accounts[account].parent;
	}
}

/*
 * Adds up running jobs, waiting jobs and claims.
 */
static void
book_all(const Books *books, const DecideResult *result)
{
	const DecideInput *input = books->input;
	int32_t		i;

	for (i = 0; i < input->n_running; i++)
	{
		const DecideRunning *r = &input->running[i];
		int64_t		amount = check_worth(input, r->type, r->gpus,
										 check_running_counted(r));

		book(books, &books->demand, r->account,
			 check_useful(&books->wants, r));
		if (r->leaving)
			continue;
		book(books, &books->taker, r->account, amount);
		book(books, &books->giver, r->account, amount);
	}
	for (i = 0; i < input->n_jobs; i++)
		book(books, &books->demand, input->jobs[i].account,
			 check_asked(&books->wants, i));
	for (i = 0; i < input->n_claims; i++)
	{
		const DecideClaim *c = &input->claims[i];
		int64_t		amount = check_worth(input, c->type, c->gpus,
										 c->counted > 0 ? c->counted : c->share);

		if (c->job < 0 && !c->running)
			book(books, &books->demand, c->account, amount);
		book(books, &books->taker, c->account, amount);
		book(books, &books->giver, c->account, amount);
	}
	for (i = 0; i < result->n_starts; i++)
	{
		const DecideStart *s = &result->starts[i];

		book(books, &books->giver, input->jobs[s->job].account,
			 check_worth(input, s->type, s->gpus,
						 DecideCheckCounted(&input->requests[input->jobs[s->job].request],
											s->type)));
	}
	for (i = 0; i < result->n_promises; i++)
	{
		const DecidePromise *p = &result->promises[i];

		if (p->job >= 0)
			book(books, &books->giver, input->jobs[p->job].account,
				 check_worth(input, p->type, p->gpus,
							 promised_counted(input, p)));
	}
}

/*
 * The pool's devices in the unit of usage.
 */
static int64_t
all_there_is(const DecideInput *input)
{
	int64_t		sum = 0;
	int32_t		i;
	int			d;

	for (i = 0; i < input->n_nodes; i++)
	{
		const DecideNode *node = &input->nodes[i];

		for (d = 0; d < node->gpus && node->schedulable; d++)
		{
			if ((node->usable >> d) & 1)
				sum += check_worth(input, node->type, 1, DECIDE_WHOLE);
		}
	}
	return sum;
}

/*
 * Lists the children of each account, and the organisations.
 */
static bool
list_children(Books *books, const DecideArena *arena)
{
	const DecideInput *input = books->input;
	int32_t		n = input->n_accounts;
	int32_t		i;

	books->first = DecideAlloc(arena, (int64_t) n + 1, sizeof(int32_t));
	books->next = DecideAlloc(arena, n, sizeof(int32_t));
	books->filled = DecideAlloc(arena, n, sizeof(bool));
	books->dealt = DecideAlloc(arena, (int64_t) n + 1, sizeof(bool));
	if (books->first == NULL || books->next == NULL ||
		books->filled == NULL || books->dealt == NULL)
		return false;
	for (i = 0; i <= n; i++)
	{
		books->first[i] = -1;
		books->dealt[i] = false;
	}
	for (i = 0; i < n; i++)
	{
		int32_t    *first = &books->first[input->accounts[i].parent + 1];

		books->filled[i] = false;
		books->next[i] = *first;
		*first = i;
	}
	return true;
}

/*
 * Gives children that ask for no more than their part of what is left what
 * they ask for, until there are no more such children.  The account's own jobs
 * are treated like a child.
 */
static void
fill(Books *books, int32_t parent, int64_t *amount, Wide *weights,
	 bool *own_filled)
{
	const DecideInput *input = books->input;
	bool		again = true;
	int32_t		i;

	while (again)
	{
		again = false;
		for (i = books->first[parent + 1]; i >= 0; i = books->next[i])
		{
			int64_t		demand = books->demand.all[i];
			int64_t		weight = input->accounts[i].weight;

			if (books->filled[i] ||
				(Wide) demand * *weights > (Wide) *amount * weight)
				continue;
			books->due.all[i] = demand;
			*amount -= demand;
			*weights -= weight;
			books->filled[i] = again = true;
		}
		if (!*own_filled && (Wide) books->demand.own[parent] * *weights <=
			(Wide) *amount * DECIDE_WEIGHT_ONE)
		{
			books->due.own[parent] = books->demand.own[parent];
			*amount -= books->demand.own[parent];
			*weights -= DECIDE_WEIGHT_ONE;
			*own_filled = again = true;
		}
	}
}

/*
 * Divides an amount, once, among the accounts below an account (-1 for the
 * organisations) and its own jobs.
 */
static void
deal_below(Books *books, int32_t parent, int64_t amount)
{
	const DecideInput *input = books->input;
	bool		own_filled = parent < 0;
	Wide		weights = parent < 0 ? 0 : DECIDE_WEIGHT_ONE;
	int32_t		i;

	if (books->dealt[parent + 1])
		return;
	books->dealt[parent + 1] = true;
	if (parent >= 0 && books->first[parent + 1] < 0)
	{
		books->due.own[parent] = amount;
		return;
	}
	for (i = books->first[parent + 1]; i >= 0; i = books->next[i])
		weights += input->accounts[i].weight;
	fill(books, parent, &amount, &weights, &own_filled);
	for (i = books->first[parent + 1]; i >= 0; i = books->next[i])
	{
		if (!books->filled[i])
			books->due.all[i] = (int64_t)
				((Wide) amount * input->accounts[i].weight / weights);
	}
	if (!own_filled)
		books->due.own[parent] = (int64_t)
			((Wide) amount * DECIDE_WEIGHT_ONE / weights);
}

/*
 * Divides the amounts on the path down to an account, and below it.
 */
static void
deal_to(Books *books, int32_t account)
{
	int32_t		parent = books->input->accounts[account].parent;

	if (parent >= 0)
		deal_to(books, parent);
	else
		deal_below(books, -1, books->capacity);
	deal_below(books, account, books->due.all[account]);
}

/*----------
 * The order in which quotas began to hold jobs back:
 *
 * 1. moment at which a quota first refused the job;
 * 2. number of the job in the input.
 *----------
 */
static int
compare_held(const void *context, int32_t a, int32_t b)
{
	const int32_t *held = context;

	if (held[a] != held[b])
		return held[a] < held[b] ? -1 : 1;
	return a < b ? -1 : a > b;
}

/*
 * Lists the jobs that quotas hold back.  Returns false if memory runs out.
 */
static bool
list_held(Books *books, const DecideResult *result, const DecideArena *arena)
{
	int32_t		i;

	if (result->held == NULL)
		return true;
	books->held = DecideAlloc(arena, books->input->n_jobs, sizeof(int32_t));
	if (books->held == NULL)
		return false;
	for (i = 0; i < books->input->n_jobs; i++)
	{
		if (result->held[i] != DECIDE_NOT_HELD)
			books->held[books->n_held++] = i;
	}
	return DecideSort(arena, books->held, books->n_held, compare_held,
					  result->held);
}

/*
 * Marks that all entitlements must be divided again.
 */
static void
divide_again(Books *books)
{
	int32_t		n = books->input->n_accounts;
	int32_t		i;

	for (i = 0; i < n; i++)
		books->filled[i] = books->dealt[i] = false;
	books->dealt[n] = false;
}

/*
 * Divides again, with so many starts that demand what they got, and with the
 * jobs that quotas hold back after so many promises.
 */
static void
deal_after(Books *books, const DecideResult *result, int32_t after,
		   int32_t promise)
{
	const DecideInput *input = books->input;
	bool		same = after == books->after;

	for (; books->next_held < books->n_held &&
		 result->held[books->held[books->next_held]] <= promise;
		 books->next_held++)
	{
		int32_t		job = books->held[books->next_held];

		book(books, &books->demand, input->jobs[job].account,
			 -check_asked(&books->wants, job));
		same = false;
	}
	if (same)
		return;
	for (; books->after < after; books->after++)
	{
		const DecideStart *s = &result->starts[books->after];
		const DecideJob *job = &input->jobs[s->job];

		if (input->requests[job->request].n_offers > 0)
			book(books, &books->demand, job->account,
				 check_worth(input, s->type,
							 check_range(&books->wants,
										 job->account, s->type,
										 input->requests[job->request].stays,
										 s->gpus,
										 input->requests[job->request].max_gpus),
							 DecideCheckCounted(&input->requests[job->request], s->type)) -
				 check_asked(&books->wants, s->job));
	}
	divide_again(books);
}

/*
 * Whether an account is the other one, or above it.
 */
static bool
is_within(const DecideInput *input, int32_t account, int32_t other)
{
	while (account >= 0 && account != other)
		account = input->accounts[account].parent;
	return account == other;
}

/*
 * The largest victim of an account and all accounts below it (with own true,
 * of its own jobs) that leaves for the entitlement of a promise.
 */
static int64_t
largest_victim(const DecideInput *input, const DecideResult *result,
			   const DecidePromise *promise, int32_t account, bool own)
{
	int64_t		largest = 0;
	int32_t		e;

	for (e = promise->first_eviction;
		 e < promise->first_eviction + promise->n_evictions; e++)
	{
		const DecideRunning *r = &input->running[result->evictions[e].running];
		int64_t		given = check_worth(input, r->type, r->gpus,
										check_running_counted(r));

		if (result->evictions[e].why == DECIDE_WHY_ENTITLEMENT &&
			given > largest && (own ? r->account == account :
								is_within(input, r->account, account)))
			largest = given;
	}
	return largest;
}

/*
 * Whether an account keeps its entitlement, or had more before its largest
 * victim left.  If the taker rounds its entitlement up, the account may lack
 * less than rounds; otherwise rounds is 0.
 */
static bool
keeps_entitlement(const Books *books, const DecideResult *result,
				  const DecidePromise *promise, int32_t account, bool own,
				  int64_t rounds)
{
	int64_t		lacks = own ?
		books->due.own[account] - books->giver.own[account] :
		books->due.all[account] - books->giver.all[account];

	return lacks <= 0 ||
		((rounds == 0 || lacks < rounds) &&
		 lacks < largest_victim(books->input, result, promise, account, own));
}

/*
 * The account of a promise's job.
 */
static int32_t
account_of(const DecideInput *input, const DecidePromise *promise)
{
	return promise->job >= 0 ? input->jobs[promise->job].account :
		input->running[promise->running].account;
}

/*
 * Returns a message that says what is wrong with one eviction after all
 * victims of its promise left, or NULL if nothing is wrong.
 */
static const char *
eviction_error(Books *books, const DecideResult *result,
			   const DecidePromise *promise, int64_t taken, int32_t giver)
{
	const DecideInput *input = books->input;
	int32_t		taker = account_of(input, promise);
	int32_t		account;
	int64_t		device = taken < DECIDE_WHOLE ? taken : DECIDE_WHOLE;
	int64_t		over;

	if (taker == giver)
		return "an account takes from itself what it is entitled to";
	deal_to(books, taker);
	over = books->taker.own[taker] + taken - books->due.own[taker];
	for (account = taker; account >= 0 && !is_within(input, giver, account);
		 account = input->accounts[account].parent)
	{
		if (books->taker.all[account] + taken - books->due.all[account] > over)
			over = books->taker.all[account] + taken - books->due.all[account];
	}
	if (over < 0)
		over = 0;
	if (over > 0 && (promise->job < 0 || over >= device))
		return "an account takes more than it is entitled to";
	device = over > 0 ? device - over : 0;
	deal_to(books, giver);
	if (!keeps_entitlement(books, result, promise, giver, true, device))
		return "an account is left less than it is entitled to";
	for (account = giver; account >= 0 && !is_within(input, taker, account);
		 account = input->accounts[account].parent)
	{
		if (!keeps_entitlement(books, result, promise, account, false, device))
			return "an account is left less than it is entitled to";
	}
	return NULL;
}

/*
 * Returns a message that says what is wrong with the evictions of one promise,
 * or NULL if nothing is wrong.
 */
static const char *
evictions_error(Books *books, const DecideResult *result,
				const DecidePromise *promise, int64_t taken)
{
	const char *error = NULL;
	int32_t		e;

	for (e = promise->first_eviction; error == NULL &&
		 e < promise->first_eviction + promise->n_evictions; e++)
	{
		DecideWhy	why = result->evictions[e].why;

		if (why == DECIDE_WHY_ENTITLEMENT ||
			(why == DECIDE_WHY_SHRINK && promise->job < 0))
			error = eviction_error(books, result, promise, taken,
								   books->input->running
								   [result->evictions[e].running].account);
	}
	return error;
}

/*
 * Allocates the sums of all accounts.  Returns false if memory runs out.
 */
static bool
sums_open(const DecideArena *arena, int32_t n, EntitleSums *sums)
{
	sums->own = DecideAlloc(arena, n, sizeof(int64_t));
	sums->all = DecideAlloc(arena, n, sizeof(int64_t));
	if (sums->own == NULL || sums->all == NULL)
		return false;
	memset(sums->own, 0, (size_t) n * sizeof(int64_t));
	memset(sums->all, 0, (size_t) n * sizeof(int64_t));
	return true;
}

/*
 * What a running job that leaves for a promise will have afterwards: what it
 * is promised itself to continue with.
 */
static int64_t
devices_kept(const Books *books, const DecideResult *result, int32_t leader,
			 int32_t running)
{
	int32_t		i;

	for (i = leader; i < result->n_promises &&
		 result->promises[i].leader == leader; i++)
	{
		const DecidePromise *p = &result->promises[i];

		if (p->job < 0 && p->running == running)
			return check_worth(books->input, p->type, p->gpus,
							   promised_counted(books->input, p));
	}
	return 0;
}

/*
 * Subtracts the victims of a promise from use.
 */
static void
book_leaving(Books *books, const DecideResult *result, int32_t index)
{
	const DecidePromise *p = &result->promises[index];
	int32_t		e;

	for (e = p->first_eviction; e < p->first_eviction + p->n_evictions; e++)
	{
		int32_t		running = result->evictions[e].running;
		const DecideRunning *r = &books->input->running[running];
		int64_t		given = check_worth(books->input, r->type, r->gpus,
										check_running_counted(r));

		book(books, &books->taker, r->account, -given);
		if (result->evictions[e].why != DECIDE_WHY_MOVE)
			book(books, &books->giver, r->account,
				 devices_kept(books, result, index, running) - given);
	}
}

/*
 * Checks the promises in order.
 */
static const char *
walk(Books *books, const DecideResult *result)
{
	const DecideInput *input = books->input;
	int32_t		i;

	for (i = 0; i < result->n_promises; i++)
	{
		const DecidePromise *p = &result->promises[i];
		int64_t		taken = check_worth(input, p->type, p->gpus,
										promised_counted(input, p));
		const char *error;

		if (p->after < books->after || p->after > result->n_starts)
			return "a promise came after starts that were not there";
		deal_after(books, result, p->after, i);
		book_leaving(books, result, i);
		error = evictions_error(books, result, p, taken);
		if (error != NULL && p->job >= 0)
		{
			int32_t		account = input->jobs[p->job].account;

			/* check whether it is right if the account asks for everything */
			book(books, &books->demand, account, books->capacity);
			divide_again(books);
			error = evictions_error(books, result, p, taken);
			book(books, &books->demand, account, -books->capacity);
			divide_again(books);
		}
		if (error != NULL)
			return error;
		book(books, &books->taker, account_of(input, p), taken);
	}
	return NULL;
}

/*
 * Verifies evictions for entitlements, in a result whose claims are right.
 */
const char *
DecideCheckEntitled(const DecideInput *input, const DecideResult *result,
					const DecideArena *arena)
{
	Books		books = {.input = input};
	int32_t		n = input->n_accounts;
	int32_t		i = 0;

	DecideAssert(result->n_promises >= 0);
	DecideAssert(arena != NULL);
	while (i < result->n_evictions &&
		   result->evictions[i].why != DECIDE_WHY_ENTITLEMENT &&
		   result->evictions[i].why != DECIDE_WHY_SHRINK)
		i++;
	if (i == result->n_evictions)
		return NULL;
	if (!list_children(&books, arena) || !check_demand(input, arena,
													   &books.wants) ||
		!list_held(&books, result, arena) ||
		!sums_open(arena, n, &books.demand) ||
		!sums_open(arena, n, &books.due) ||
		!sums_open(arena, n, &books.taker) ||
		!sums_open(arena, n, &books.giver))
		return "out of memory";
	books.capacity = all_there_is(input);
	book_all(&books, result);
	return walk(&books, result);
}
