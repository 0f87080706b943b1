/*-------------------------------------------------------------------------
 *
 * request_digest.c
 *		Computes the digest of a job's request class.
 *
 * A scheduling cycle treats all jobs of one request class alike, and reads the
 * request of only one of them. reserve and new offers write the digest
 * together with the columns it is computed from, and verify() checks it. The
 * digest is cryptographic: a tenant who made two requests collide could start
 * a job with another job's request.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/compat.h"
#include "util/digest.h"
#include "fmgr.h"
#include "utils/array.h"
#include "utils/timestamp.h"

#define ASK_ARGS		14
#define PLACEMENT_ARG	13
#define ASK_DIGEST_SIZE 16

/* how an argument of the SQL function is stored */
typedef enum Kind
{
	KIND_VARLENA,
	KIND_ARRAY,
	KIND_INT8,
	KIND_INTERVAL
} Kind;

static const Kind kinds[ASK_ARGS] = {
	KIND_VARLENA, KIND_VARLENA, KIND_VARLENA, KIND_VARLENA, KIND_INT8,
	KIND_INT8, KIND_INTERVAL, KIND_INTERVAL, KIND_ARRAY, KIND_ARRAY,
	KIND_ARRAY, KIND_ARRAY, KIND_INT8, KIND_VARLENA
};

PG_FUNCTION_INFO_V1(gpucredit_request_digest);

static void add_arg(FunctionCallInfo fcinfo, int n, StringInfo data);

Datum
gpucredit_request_digest(PG_FUNCTION_ARGS)
{
	StringInfoData data;
	uint8		digest[DIGEST_SIZE];
	bytea	   *result = palloc(VARHDRSZ + ASK_DIGEST_SIZE);

	initStringInfo(&data);
	for (int n = 0; n < ASK_ARGS; n++)
	{
		/* A job without a placement has the digest that it always had. */
		if (n < PLACEMENT_ARG || !PG_ARGISNULL(n))
			add_arg(fcinfo, n, &data);
	}
	DigestOf(&data, digest);
	SET_VARSIZE(result, VARHDRSZ + ASK_DIGEST_SIZE);
	memcpy(VARDATA(result), digest, ASK_DIGEST_SIZE);
	PG_RETURN_BYTEA_P(result);
}

/*
 * Appends an argument's length (-1 for null) and its bytes, so that different
 * lists of arguments result in different data.
 */
static void
add_arg(FunctionCallInfo fcinfo, int n, StringInfo data)
{
	const char *bytes = NULL;
	int32		size = -1;
	int64		number;

	if (!PG_ARGISNULL(n))
	{
		switch (kinds[n])
		{
			case KIND_VARLENA:
				{
					struct varlena *value = PG_GETARG_VARLENA_PP(n);

					bytes = VARDATA_ANY(value);
					size = VARSIZE_ANY_EXHDR(value);
					break;
				}
			case KIND_ARRAY:
				{
					/*
					 * The OID of the element type is cleared, as it differs
					 * between installations.
					 */
					ArrayType  *array = PG_GETARG_ARRAYTYPE_P_COPY(n);

					array->elemtype = InvalidOid;
					bytes = VARDATA(array);
					size = VARSIZE(array) - VARHDRSZ;
					break;
				}
			case KIND_INT8:
				number = PG_GETARG_INT64(n);
				bytes = (const char *) &number;
				size = sizeof(number);
				break;
			case KIND_INTERVAL:
				bytes = (const char *) PG_GETARG_INTERVAL_P(n);
				size = sizeof(Interval);
				break;
		}
	}
	appendBinaryStringInfo(data, (const char *) &size, sizeof(size));
	if (size > 0)
		appendBinaryStringInfo(data, bytes, size);
}
