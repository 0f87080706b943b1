/*-------------------------------------------------------------------------
 *
 * gpuset.h
 *		The type gpuset: the devices of one node, passed by value.
 *
 * The macros of gpuset_parse.h build sets and read them.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_GPUSET_H
#define GPUCREDIT_GPUSET_H

#include "fmgr.h"
#include "types/gpuset_parse.h"

#ifndef USE_FLOAT8_BYVAL
#error "gpucredit needs a server that passes 8-byte values by value"
#endif

#define DatumGetGpuSet(d)		((GpuSet) DatumGetUInt64(d))
#define GpuSetGetDatum(s)		UInt64GetDatum((uint64) (s))
#define PG_GETARG_GPUSET(n)		DatumGetGpuSet(PG_GETARG_DATUM(n))
#define PG_RETURN_GPUSET(s)		return GpuSetGetDatum(s)

extern char *GpuSetToCString(GpuSet set);

#endif							/* GPUCREDIT_GPUSET_H */
