/*-------------------------------------------------------------------------
 *
 * sql_credits.c
 *		Credits in statements and in results (util/sql.h).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/sql.h"

/*
 * Returns the OID of the type credits, which is looked up once per generation
 * of the schemas.
 */
static Oid
credits_type(void)
{
	static Oid	oid = InvalidOid;
	static uint64 as_of = 0;

	if (as_of != SqlGeneration())
	{
		uint64		now = SqlGeneration();	/* the lookup may change it */

		oid = SqlTypeOid("gpucredit.credits");
		as_of = now;
	}
	return oid;
}

/* Credits as a numeric, the type that result rows have. */
NullableDatum
NumericValue(Credits value)
{
	return DatumValue(NumericGetDatum(CreditsToNumeric(value)));
}

NullableDatum
CreditsArrayValue(const Credits *values, int n)
{
	Datum	   *elems = palloc(sizeof(Datum) * Max(n, 1));

	for (int i = 0; i < n; i++)
		elems[i] = CreditsGetDatum(values[i]);
	return ArrayValue(elems, NULL, n, credits_type());
}

/* Returns a column of type credits; a null is an error. */
Credits
SqlCredits(SqlResult result, uint64 row, int column)
{
	return DatumGetCredits(SqlNotNull(result, row, column));
}
