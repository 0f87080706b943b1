/*-------------------------------------------------------------------------
 *
 * json_value.c
 *		Numbers and intervals in JSON that a caller passes.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/int.h"
#include "datatype/timestamp.h"
#include "util/json_value.h"
#include "utils/datetime.h"
#include "utils/numeric.h"

/*
 * Parses an interval.  Returns false instead of raising an error, so that the
 * caller can raise its own.
 */
bool
JsonDuration(const JsonbValue *value, int64 *us)
{
	char		work[256];
	char	   *text;
	char	   *field[MAXDATEFIELDS];
	int			ftype[MAXDATEFIELDS];
	int			nf;
	int			dtype;
	struct pg_itm_in parts;
	int64		days;

	if (value->type != jbvString || value->val.string.len > MAXDATELEN)
		return false;
	text = pnstrdup(value->val.string.val, value->val.string.len);
	return ParseDateTime(text, work, sizeof(work), field, ftype,
						 MAXDATEFIELDS, &nf) == 0 &&
		DecodeInterval(field, ftype, nf, INTERVAL_FULL_RANGE, &dtype,
					   &parts) == 0 &&
		dtype == DTK_DELTA && parts.tm_year == 0 && parts.tm_mon == 0 &&
		!pg_mul_s64_overflow(parts.tm_mday, USECS_PER_DAY, &days) &&
		!pg_add_s64_overflow(days, parts.tm_usec, us) && *us >= 0;
}

/*
 * Parses a whole number of at least 0.  Returns false if the value is no
 * number, has a fraction, is negative, or does not fit an int64.
 */
bool
JsonWhole(const JsonbValue *value, int64 *number)
{
	char	   *text;
	char	   *end;

	if (value->type != jbvNumeric)
		return false;
	text = numeric_normalize(value->val.numeric);
	errno = 0;
	*number = strtoi64(text, &end, 10);
	return errno == 0 && end != text && *end == '\0' && *number >= 0;
}
