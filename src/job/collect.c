/*-------------------------------------------------------------------------
 *
 * collect.c
 *		What an attempt has cost when it ends, and the credit for it.
 *
 * Its cost is price x GPUs x share x elapsed, rounded once.  What its hold
 * does not cover is drawn into the hold first, as meter would have drawn it:
 * from the same buckets, within the same budgets and the wall limit, but as
 * much as there is.  The bill is what the hold then covers; the rest of the
 * cost is uncollected, and recorded as such.
 *
 * Locks: the hold is locked; budgets and buckets are those that
 * HoldsLockForNext() locked.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/clock.h"
#include "util/settings.h"
#include "job/collect.h"
#include "job/hold_extension.h"
#include "ledger/uncollected.h"

/*
 * What an attempt has cost, and how much of that its job can be billed: no
 * more than its wall limit costs.
 */
void
CollectLook(const Attempt *attempt, Settlement *settlement)
{
	settlement->cost = CreditsBillWithin(attempt->per_gpu_hour, attempt->gpus,
										 attempt->share, attempt->elapsed,
										 PG_INT64_MAX);
	settlement->payable = Min(settlement->cost, ExtendMost(attempt));
	settlement->unpaid = PAST_WALL_LIMIT;
}

/*
 * Draw the missing amount into a locked, open hold, as much as there is;
 * return it.
 */
Credits
CollectMissing(const Job *job, Hold *hold, const LockedBuckets *locked,
			   const Cause *cause, Credits missing, Settlement *settlement)
{
	AccountPath path = AccountParse(hold->org, hold->account);
	Purpose		purpose = JobPurpose(job);
	LedgerStatus status;
	Credits		drawn;

	purpose.locked = locked;
	if (AccountSuspended(&path))
	{
		settlement->unpaid = "account_suspended";
		return 0;
	}
	drawn = HoldExtendMost(hold, &path, &purpose, cause, missing, &status);
	if (drawn < missing)
		settlement->unpaid = LedgerReason(status);
	return drawn;
}

/*
 * Report uncollected use.  An agent has gpucredit.stop_grace to stop an
 * attempt past its wall limit; only longer overruns are reported.
 */
void
CollectTell(const Job *job, const Attempt *attempt,
			const Settlement *settlement, Credits uncollected)
{
	Uncollected owed = {job->org, job->account, attempt->job,
		attempt->attempt, attempt->hold, settlement->unpaid, uncollected,
		settlement->at, job->trace};

	if (uncollected > 0)
		UncollectedTell(&owed, strcmp(owed.reason, PAST_WALL_LIMIT) != 0 ||
						attempt->elapsed - attempt->wall_limit >
						SettingStopGrace());
}
