/*-------------------------------------------------------------------------
 *
 * quota_list.c
 *		Finds the loaded quotas that count an account.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "sched/load/sched_quota.h"
#include "utils/hsearch.h"

static void add_own(const SchedCycle *cycle, const char *org,
					const char *account,
					SchedQuotaEntry *entry);

/*
 * Returns an account's entry in the table of quotas. A new account gets an
 * empty entry.
 */
SchedQuotaEntry *
SchedQuotaEntryOf(const SchedCycle *cycle, const char *org, const char *account)
{
	AccountName key = {org, account};
	bool		found;
	SchedQuotaEntry *entry = hash_search(cycle->quota_ids, &key, HASH_FIND,
										 NULL);

	if (entry != NULL)
		return entry;
	key = (AccountName)
	{
		pstrdup(org), pstrdup(account)
	};
	entry = hash_search(cycle->quota_ids, &key, HASH_ENTER, &found);
	entry->first = entry->n_own = entry->n_over = 0;
	entry->over = NULL;
	return entry;
}

/*
 * Returns the quotas that count an account: its own first, then those of the
 * accounts above it.
 */
SchedQuotaList
SchedQuotasOver(const SchedCycle *cycle, const char *org, const char *account)
{
	SchedQuotaEntry *entry = SchedQuotaEntryOf(cycle, org, account);

	if (entry->over == NULL)
	{
		char	   *path = pstrdup(account);

		entry->over = palloc(sizeof(SchedQuota *) * Max(entry->n_own, 1));
		add_own(cycle, org, path, entry);
		while (*path != '\0')
		{
			char	   *slash = strrchr(path, '/');

			*(slash != NULL ? slash : path) = '\0';
			add_own(cycle, org, path, entry);
		}
		pfree(path);
	}
	return (SchedQuotaList)
	{
		entry->n_over, entry->over
	};
}

/* Adds an account's own quotas to the list of an entry. */
static void
add_own(const SchedCycle *cycle, const char *org, const char *account,
		SchedQuotaEntry *entry)
{
	AccountName key = {org, account};
	const SchedQuotaEntry *own = hash_search(cycle->quota_ids, &key, HASH_FIND,
											 NULL);

	if (own == NULL || own->n_own == 0)
		return;
	entry->over = repalloc(entry->over, sizeof(SchedQuota *) *
						   (entry->n_over + own->n_own));
	for (int32 l = 0; l < own->n_own; l++)
		entry->over[entry->n_over++] = &cycle->quotas[own->first + l];
}

/*
 * Returns the least that a job can use of a quota for this GPU type ('' for
 * all types), over the types that the job accepts.
 */
DecideUse
SchedQuotaLeast(const NodeSet *set, const char *gpu_type,
				const DecideRequestClass *request)
{
	DecideUse	least = DecideJobUse(request, DECIDE_NO_TYPE,
									 request->min_gpus);
	bool		found = false;

	for (int o = 0; o < request->n_offers; o++)
	{
		int32		type = request->offers[o].type;
		DecideUse	use = DecideJobUse(request, type, request->min_gpus);

		if (*gpu_type != '\0' &&
			strcmp(gpu_type, set->types.names[type]) != 0)
			continue;
		if (!found || use.of[DECIDE_LIMITED_DEVICES] <
			least.of[DECIDE_LIMITED_DEVICES])
			least = use;
		found = true;
	}
	return least;
}

/* The names of the limited quantities, as messages call them. */
const char *const SchedLimitedNames[DECIDE_LIMITED] = {
	"devices", "running jobs", "cpu", "memory", "non-preemptible devices"
};

/*
 * Appends one limit of a quota in the words of explain(): how much the job
 * wants, how much is in use, how much is about to be used (left out if soon is
 * NULL), and how much is allowed.
 */
void
SchedQuotaText(StringInfo text, int limited, const DecideUse *more,
			   const DecideUse *used, const DecideUse *soon,
			   const DecideUse *most)
{
	static const char *const units[DECIDE_LIMITED] = {
		"thousandths of GPUs", "jobs", "thousandths of cores", "MiB of memory",
		"thousandths of non-preemptible GPUs"
	};

	if (text->len > 0 && text->data[text->len - 1] != ':')
		appendStringInfoChar(text, ';');
	if (limited == DECIDE_LIMITED_JOBS)
		appendStringInfo(text, " %lld jobs run", (long long) used->of[limited]);
	else
		appendStringInfo(text, " %lld %s wanted, %lld in use",
						 (long long) more->of[limited], units[limited],
						 (long long) used->of[limited]);
	if (soon != NULL)
		appendStringInfo(text, limited == DECIDE_LIMITED_JOBS ?
						 " and %lld are about to," : " and %lld about to be,",
						 (long long) soon->of[limited]);
	appendStringInfo(text, " of %lld", (long long) most->of[limited]);
}

/*
 * Whether a quota counts a device of this type. A type of NULL means no type
 * in particular, which only a quota for all types counts.
 */
bool
SchedQuotaConcerns(const SchedQuota *limit, const char *gpu_type)
{
	return *limit->gpu_type == '\0' ||
		(gpu_type != NULL && strcmp(limit->gpu_type, gpu_type) == 0);
}
