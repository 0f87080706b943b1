/*-------------------------------------------------------------------------
 *
 * definer.h
 *		Act as a function's owner without the catalogue's SECURITY DEFINER.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_DEFINER_H
#define GPUCREDIT_DEFINER_H

#include "access/htup.h"
#include "fmgr.h"

/* What DefinerLeave() restores. */
typedef struct Definer
{
	Oid			caller;
	int			security;
	int			path;			/* level of the GUC stack, or of search paths,
								 * that has the fixed path */
} Definer;

extern Definer DefinerEnter(FunctionCallInfo fcinfo);
extern void DefinerLeave(Definer definer);
extern HeapTuple FunctionRow(Oid function);

#endif							/* GPUCREDIT_DEFINER_H */
