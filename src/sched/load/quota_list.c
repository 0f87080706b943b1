/*-------------------------------------------------------------------------
 *
 * quota_list.c
 *		The loaded quotas that count an account.
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
 * An account's data; empty for a new one.
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
 * The quotas that count an account, its own first, then those of the accounts
 * above.
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

/*
 * Add an account's own quotas to a list.
 */
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
 * The least that a job uses of a quota on this GPU type ('': any), over the
 * types that it accepts.
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

/* What messages call that which a quota limits. */
const char *const SchedLimitedNames[DECIDE_LIMITED] = {
	"devices", "running jobs", "cpu", "memory"
};

/*
 * One limit of a quota in explain's words: what is wanted, in use, about to be
 * used (soon; NULL: not told), and allowed.
 */
void
SchedQuotaText(StringInfo text, int limited, const DecideUse *more,
			   const DecideUse *used, const DecideUse *soon,
			   const DecideUse *most)
{
	static const char *const units[DECIDE_LIMITED] = {
		"thousandths of GPUs", "jobs", "thousandths of cores", "MiB of memory"
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
 * Does a quota count a device of this type (NULL: of none, or whatever it
 * is)?
 */
bool
SchedQuotaConcerns(const SchedQuota *limit, const char *gpu_type)
{
	return *limit->gpu_type == '\0' ||
		(gpu_type != NULL && strcmp(limit->gpu_type, gpu_type) == 0);
}
