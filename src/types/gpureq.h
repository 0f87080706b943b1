/*-------------------------------------------------------------------------
 *
 * gpureq.h
 *		The type gpureq: how many GPUs, of which types, with how much
 *		memory.
 *
 * A value is a varlena aligned to 8 bytes.  Every byte after the length word
 * is determined by the value (names are padded with zero bytes), so equal
 * requests are equal byte by byte.  gpureq_parse.h describes the text form.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_GPUREQ_H
#define GPUCREDIT_GPUREQ_H

#include "fmgr.h"
#include "types/gpureq_parse.h"

typedef struct GpuReq
{
	int32		vl_len_;		/* varlena header, do not touch directly */
	int32		min_gpus;		/* 0 if the job needs no GPU */
	int32		max_gpus;		/* equals min_gpus unless the request is
								 * elastic */
	int32		share_milli;	/* thousandths of each GPU; 1000 means whole
								 * GPUs */
	int32		nalternatives;	/* 0 only if the job needs no GPU */
	int32		padding;		/* always zero */
	GpuReqAlternative alternatives[FLEXIBLE_ARRAY_MEMBER];	/* in order of
															 * preference */
} GpuReq;

#define DatumGetGpuReqP(d)		((GpuReq *) PG_DETOAST_DATUM(d))
#define GpuReqPGetDatum(r)		PointerGetDatum(r)
#define PG_GETARG_GPUREQ_P(n)	DatumGetGpuReqP(PG_GETARG_DATUM(n))
#define PG_RETURN_GPUREQ_P(r)	PG_RETURN_POINTER(r)

#define GpuReqIsCpuOnly(r)		((r)->max_gpus == 0)
#define GpuReqAlternativeIsAny(a) \
	((a)->name[0] == '*' && (a)->name[1] == '\0')

/*
 * Raises 22P02 for a text that does not parse, and 22023 for a value that is
 * out of bounds.
 */
extern GpuReq *GpuReqParse(const char *text);
extern char *GpuReqToCString(const GpuReq *req);
extern int	GpuReqCompare(const GpuReq *a, const GpuReq *b);

#endif							/* GPUCREDIT_GPUREQ_H */
