/*-------------------------------------------------------------------------
 *
 * quota_of_account.c
 *		The quotas that an account stands under, of those that a cycle has loaded.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "sched/sched_quota.h"
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
 * The quotas that an account stands under, its own first, then those of the
 * ones above it.
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
 * Add an account's own quotas to what another stands under.
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
 * Does a quota count a device of this type (NULL: of none, or whatever it
 * is)?
 */
bool
SchedQuotaConcerns(const SchedQuota *limit, const char *gpu_type)
{
	return *limit->gpu_type == '\0' ||
		(gpu_type != NULL && strcmp(limit->gpu_type, gpu_type) == 0);
}
