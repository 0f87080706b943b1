/*-------------------------------------------------------------------------
 *
 * gpuset.c
 *		The type gpuset: text and binary form, operators, arrays.
 *
 * The server's own functions for bigint test sets for equality, hash them and
 * send them (see 10_types.sql).  Sets are ordered as unsigned masks: of two
 * sets, the greater is the one with the highest device that the other does not
 * have. The binary form is the mask in network order.
 *
 * SQL functions here: gpu_count.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "libpq/pqformat.h"
#include "utils/array.h"

#include "types/entry.h"
#include "types/clip.h"
#include "types/gpuset.h"

PG_FUNCTION_INFO_V1(gpucredit_gpuset_in);
PG_FUNCTION_INFO_V1(gpucredit_gpuset_out);
PG_FUNCTION_INFO_V1(gpucredit_gpuset_recv);
PG_FUNCTION_INFO_V1(gpucredit_gpuset_lt);
PG_FUNCTION_INFO_V1(gpucredit_gpuset_le);
PG_FUNCTION_INFO_V1(gpucredit_gpuset_gt);
PG_FUNCTION_INFO_V1(gpucredit_gpuset_ge);
PG_FUNCTION_INFO_V1(gpucredit_gpuset_cmp);
PG_FUNCTION_INFO_V1(gpucredit_gpuset_union);
PG_FUNCTION_INFO_V1(gpucredit_gpuset_intersection);
PG_FUNCTION_INFO_V1(gpucredit_gpuset_difference);
PG_FUNCTION_INFO_V1(gpucredit_gpuset_contains);
PG_FUNCTION_INFO_V1(gpucredit_gpuset_contained);
PG_FUNCTION_INFO_V1(gpucredit_gpuset_overlaps);
PG_FUNCTION_INFO_V1(gpucredit_gpuset_contains_device);
PG_FUNCTION_INFO_V1(gpucredit_gpuset_device_contained);
PG_FUNCTION_INFO_V1(gpucredit_gpu_count);
PG_FUNCTION_INFO_V1(gpucredit_gpuset_from_array);
PG_FUNCTION_INFO_V1(gpucredit_gpuset_to_array);

static bool has_device(GpuSet set, int32 device);

Datum
gpucredit_gpuset_in(PG_FUNCTION_ARGS)
{
	const char *text = PG_GETARG_CSTRING(0);
	GpuSet		result = GPUSET_EMPTY;
	size_t		errpos;

	switch (GpuSetParse(text, strlen(text), &result, &errpos))
	{
		case GPUSET_PARSE_OK:
			break;
		case GPUSET_PARSE_SYNTAX:
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_TEXT_REPRESENTATION),
					 errmsg("invalid input syntax for type gpuset: \"%s\"",
							ClipForMessage(text)),
					 errhint("Write devices and ranges in braces, for "
							 "example \"{0-3,6}\".")));
			break;
		case GPUSET_PARSE_DEVICE:
			ereport(ERROR,
					(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
					 errmsg("device out of range for type gpuset: \"%s\"",
							ClipForMessage(text)),
					 errdetail("A node has devices 0 to %d.",
							   GPUSET_MAX_DEVICES - 1),
					 errhint("Number a node's devices from 0.")));
			break;
		case GPUSET_PARSE_RANGE:
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_TEXT_REPRESENTATION),
					 errmsg("invalid input syntax for type gpuset: \"%s\"",
							ClipForMessage(text)),
					 errdetail("A range of devices ends below its start."),
					 errhint("Write the lower device first.")));
			break;
	}
	PG_RETURN_GPUSET(result);
}

Datum
gpucredit_gpuset_out(PG_FUNCTION_ARGS)
{
	PG_RETURN_CSTRING(GpuSetToCString(PG_GETARG_GPUSET(0)));
}

/*
 * Binary input function: accepts exactly eight bytes.  Every mask is a valid
 * set.
 */
Datum
gpucredit_gpuset_recv(PG_FUNCTION_ARGS)
{
	StringInfo	buf = (StringInfo) PG_GETARG_POINTER(0);
	int			len = buf->len - buf->cursor;

	if (len != sizeof(GpuSet))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_BINARY_REPRESENTATION),
				 errmsg("invalid binary value of type gpuset"),
				 errdetail("It has %d bytes, not %d.",
						   len, (int) sizeof(GpuSet))));
	PG_RETURN_GPUSET(pq_getmsgint64(buf));
}

Datum
gpucredit_gpuset_lt(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(PG_GETARG_GPUSET(0) < PG_GETARG_GPUSET(1));
}

Datum
gpucredit_gpuset_le(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(PG_GETARG_GPUSET(0) <= PG_GETARG_GPUSET(1));
}

Datum
gpucredit_gpuset_gt(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(PG_GETARG_GPUSET(0) > PG_GETARG_GPUSET(1));
}

Datum
gpucredit_gpuset_ge(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(PG_GETARG_GPUSET(0) >= PG_GETARG_GPUSET(1));
}

/* Compares two masks, for btree indexes. */
Datum
gpucredit_gpuset_cmp(PG_FUNCTION_ARGS)
{
	GpuSet		a = PG_GETARG_GPUSET(0);
	GpuSet		b = PG_GETARG_GPUSET(1);

	PG_RETURN_INT32((a > b) - (a < b));
}

Datum
gpucredit_gpuset_union(PG_FUNCTION_ARGS)
{
	PG_RETURN_GPUSET(GpuSetUnion(PG_GETARG_GPUSET(0), PG_GETARG_GPUSET(1)));
}

Datum
gpucredit_gpuset_intersection(PG_FUNCTION_ARGS)
{
	PG_RETURN_GPUSET(GpuSetIntersection(PG_GETARG_GPUSET(0),
										PG_GETARG_GPUSET(1)));
}

Datum
gpucredit_gpuset_difference(PG_FUNCTION_ARGS)
{
	PG_RETURN_GPUSET(GpuSetDifference(PG_GETARG_GPUSET(0),
									  PG_GETARG_GPUSET(1)));
}

Datum
gpucredit_gpuset_contains(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(GpuSetContains(PG_GETARG_GPUSET(0), PG_GETARG_GPUSET(1)));
}

Datum
gpucredit_gpuset_contained(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(GpuSetContains(PG_GETARG_GPUSET(1), PG_GETARG_GPUSET(0)));
}

Datum
gpucredit_gpuset_overlaps(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(GpuSetOverlaps(PG_GETARG_GPUSET(0), PG_GETARG_GPUSET(1)));
}

Datum
gpucredit_gpuset_contains_device(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(has_device(PG_GETARG_GPUSET(0), PG_GETARG_INT32(1)));
}

/* The operator "device <@ set": whether the set has the device. */
Datum
gpucredit_gpuset_device_contained(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(has_device(PG_GETARG_GPUSET(1), PG_GETARG_INT32(0)));
}

Datum
gpucredit_gpu_count(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT32(GpuSetCount(PG_GETARG_GPUSET(0)));
}

Datum
gpucredit_gpuset_from_array(PG_FUNCTION_ARGS)
{
	ArrayType  *array = PG_GETARG_ARRAYTYPE_P(0);
	Datum	   *devices;
	bool	   *nulls;
	int			n;
	GpuSet		result = GPUSET_EMPTY;

	deconstruct_array(array, INT4OID, sizeof(int32), true, TYPALIGN_INT,
					  &devices, &nulls, &n);
	for (int i = 0; i < n; i++)
	{
		int32		device = DatumGetInt32(devices[i]);

		if (nulls[i])
			ereport(ERROR,
					(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
					 errmsg("array of devices must not contain nulls"),
					 errdetail("Each element is the number of a device."),
					 errhint("Leave nulls out.")));
		if (device < 0 || device >= GPUSET_MAX_DEVICES)
			ereport(ERROR,
					(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
					 errmsg("device %d is out of range for type gpuset",
							device),
					 errdetail("A node has devices 0 to %d.",
							   GPUSET_MAX_DEVICES - 1),
					 errhint("Number a node's devices from 0.")));
		result |= GpuSetSingle(device);
	}
	PG_RETURN_GPUSET(result);
}

/* Returns the devices in ascending order. */
Datum
gpucredit_gpuset_to_array(PG_FUNCTION_ARGS)
{
	GpuSet		set = PG_GETARG_GPUSET(0);
	Datum		devices[GPUSET_MAX_DEVICES];
	int			n = 0;

	for (; !GpuSetIsEmpty(set); set = GpuSetWithoutFirst(set))
		devices[n++] = Int32GetDatum(GpuSetFirst(set));
	PG_RETURN_ARRAYTYPE_P(construct_array(devices, n, INT4OID, sizeof(int32),
										  true, TYPALIGN_INT));
}

char *
GpuSetToCString(GpuSet set)
{
	char	   *result = palloc(GPUSET_TEXT_SIZE);

	GpuSetPrint(set, result);
	return result;
}

/* Whether the set has the device.  A number outside 0 to 63 is in no set. */
static bool
has_device(GpuSet set, int32 device)
{
	return device >= 0 && device < GPUSET_MAX_DEVICES &&
		GpuSetHas(set, device);
}
