/*-------------------------------------------------------------------------
 *
 * request_digest.c
 *		The digest of a job's request class.
 *
 * A scheduling cycle treats jobs with the same request alike, and reads the
 * request of one. reserve and new offers write the digest with its parts, and
 * verify() checks it. It is cryptographic: a tenant who made two requests
 * collide could start a job as something else.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/compat.h"
#include "util/digest.h"
#include "fmgr.h"
#include "utils/array.h"
#include "utils/timestamp.h"

#define ASK_ARGS		13
#define ASK_DIGEST_SIZE 16

/* How the arguments are passed. */
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
	KIND_ARRAY, KIND_ARRAY, KIND_INT8
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
		add_arg(fcinfo, n, &data);
	DigestOf(&data, digest);
	SET_VARSIZE(result, VARHDRSZ + ASK_DIGEST_SIZE);
	memcpy(VARDATA(result), digest, ASK_DIGEST_SIZE);
	PG_RETURN_BYTEA_P(result);
}

/*
 * Add an argument's length (-1 for null) and bytes, so that different lists
 * have different data.
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
					/* its type's number differs between installations */
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
