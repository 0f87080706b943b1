/*-------------------------------------------------------------------------
 *
 * row_check.c
 *		Checks of the values in rows of busy tables.
 *
 * PostgreSQL parses the expression of a CHECK constraint again in every
 * statement that writes to the table, so a long expression costs more time than
 * its evaluation.  For the tables that every hold writes, a trigger calls these
 * functions instead (row_check_trigger.c, with measurements).  Other tables
 * have a CHECK constraint that consists of one call.  Both forms also apply to
 * an UPDATE by a superuser.  Rows of jobs and quotas are not money, so only
 * verify() checks them.
 *
 * SQL functions here: job_is_sound, slice_is_sound, quota_is_sound.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/compat.h"
#include "util/row_check.h"
#include "types/credits.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

PG_FUNCTION_INFO_V1(gpucredit_job_is_sound);
PG_FUNCTION_INFO_V1(gpucredit_slice_is_sound);
PG_FUNCTION_INFO_V1(gpucredit_quota_is_sound);

/* The pairs of compartments between which an entry may move credit. */
static const char *const moves[][2] = {
	{"issued", "available"}, {"available", "held"}, {"held", "spent"},
	{"held", "available"}, {"held", "expired"}, {"held", "revoked"},
	{"spent", "available"}, {"spent", "expired"}, {"spent", "revoked"},
	{"available", "expired"}, {"available", "revoked"},
	{"available", "moved"}
};

static const char *const kinds[] = {"promo", "grant", "paid"};
static const char *const waiting_states[] = {"queued", "unfunded", "active"};
static const char *const final_states[] = {
	"completed", "failed", "cancelled", "timeout"
};

static bool adds_up(FunctionCallInfo fcinfo, int whole, int first, int last,
					Credits more);
static bool is_one_of(text *value, const char *const *words, int n);
static bool equals(text *value, const char *word);

/*
 * Whether argument `whole` equals the sum of arguments `first` to `last` plus
 * `more`.  False if one of the arguments is negative.
 */
static bool
adds_up(FunctionCallInfo fcinfo, int whole, int first, int last, Credits more)
{
	Credits		sum = more;

	for (int i = first; i <= last; i++)
	{
		Credits		part = PG_GETARG_CREDITS(i);

		if (part < 0 || !CreditsTryAdd(sum, part, &sum))
			return false;
	}
	return sum == PG_GETARG_CREDITS(whole);
}

static bool
equals(text *value, const char *word)
{
	Size		size = strlen(word);

	return VARSIZE_ANY_EXHDR(value) == size &&
		memcmp(VARDATA_ANY(value), word, size) == 0;
}

static bool
is_one_of(text *value, const char *const *words, int n)
{
	for (int i = 0; i < n; i++)
	{
		if (equals(value, words[i]))
			return true;
	}
	return false;
}

/*
 * Whether a bucket's row is sound.  Arguments: kind, effective_at, expires_at
 * or NULL, issued, available, held, spent, expired, revoked, moved, lent to
 * slices.  Only the amount lent may be negative: slices may return more to the
 * bucket than they got from it, as credit that was held before comes back
 * through them.
 */
Datum
gpucredit_bucket_is_sound(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(!PG_ARGISNULL(0) && !PG_ARGISNULL(1) &&
				   is_one_of(PG_GETARG_TEXT_PP(0), kinds, lengthof(kinds)) &&
				   (PG_ARGISNULL(2) ||
					PG_GETARG_TIMESTAMPTZ(2) > PG_GETARG_TIMESTAMPTZ(1)) &&
				   adds_up(fcinfo, 3, 4, 9,
						   PG_GETARG_CREDITS(10)));
}

/*
 * Whether a hold part's row is sound.  Arguments: the amount drawn, and the
 * five amounts whose sum it must be.
 */
Datum
gpucredit_parts_are_sound(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(adds_up(fcinfo, 0, 1, 5, 0));
}

/*
 * Whether a hold's row is sound.  Arguments: the amount drawn and the five
 * amounts whose sum it must be, job or NULL, expires_at or NULL, closed_at or
 * NULL.  A hold has either a job, and lives as long as the job, or an instant
 * of expiry.  A closed hold has no credit held any more.
 */
Datum
gpucredit_hold_is_sound(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(adds_up(fcinfo, 0, 1, 5, 0) &&
				   PG_ARGISNULL(6) != PG_ARGISNULL(7) &&
				   (PG_ARGISNULL(8) || PG_GETARG_CREDITS(1) == 0));
}

/* Whether a budget counter's row is sound.  Arguments: reserved, spent. */
Datum
gpucredit_counts_are_sound(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(PG_GETARG_CREDITS(0) >= 0 && PG_GETARG_CREDITS(1) >= 0);
}

/*
 * Whether a quota's row is sound.  Arguments: max_gpus, max_running,
 * max_queued, spare, max_cpu_milli, max_memory_mib, max_nonpreemptible_gpus;
 * all but spare may be NULL.
 */
Datum
gpucredit_quota_is_sound(PG_FUNCTION_ARGS)
{
	for (int i = 0; i < 4; i++)
	{
		if (!PG_ARGISNULL(i) && PG_GETARG_INT32(i) < 0)
			PG_RETURN_BOOL(false);
	}
	for (int i = 4; i < 6; i++)
	{
		if (!PG_ARGISNULL(i) && PG_GETARG_INT64(i) < 0)
			PG_RETURN_BOOL(false);
	}
	PG_RETURN_BOOL(PG_ARGISNULL(6) || PG_GETARG_INT32(6) >= 0);
}

/*
 * Whether a slice's row is sound.  Arguments: lent, available, held, spent,
 * expired.  The amount available must not be negative.  The other amounts are
 * changes to the bucket's own figures and may have either sign.
 */
Datum
gpucredit_slice_is_sound(PG_FUNCTION_ARGS)
{
	Credits		sum = 0;

	for (int i = 1; i <= 4; i++)
	{
		if (!CreditsTryAdd(sum, PG_GETARG_CREDITS(i), &sum))
			PG_RETURN_BOOL(false);
	}
	PG_RETURN_BOOL(PG_GETARG_CREDITS(1) >= 0 && sum == PG_GETARG_CREDITS(0));
}

/* Whether an entry's row is sound.  Arguments: source, target, amount. */
Datum
gpucredit_entry_is_sound(PG_FUNCTION_ARGS)
{
	text	   *source = PG_GETARG_TEXT_PP(0);
	text	   *target = PG_GETARG_TEXT_PP(1);

	for (int i = 0; i < (int) lengthof(moves); i++)
	{
		if (equals(source, moves[i][0]) && equals(target, moves[i][1]))
			PG_RETURN_BOOL(PG_GETARG_CREDITS(2) > 0);
	}
	PG_RETURN_BOOL(false);
}

/* Whether a job's row is sound.  Arguments: state, ended_at or NULL. */
Datum
gpucredit_job_is_sound(PG_FUNCTION_ARGS)
{
	text	   *state;

	if (PG_ARGISNULL(0))
		PG_RETURN_BOOL(false);
	state = PG_GETARG_TEXT_PP(0);
	PG_RETURN_BOOL(PG_ARGISNULL(1) ?
				   is_one_of(state, waiting_states,
							 lengthof(waiting_states)) :
				   is_one_of(state, final_states, lengthof(final_states)));
}
