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

/* The user to return to. */
typedef struct Definer
{
	Oid			caller;
	int			security;
	int			path;			/* level of settings that pins the path */
} Definer;

extern Definer DefinerEnter(FunctionCallInfo fcinfo);
extern void DefinerLeave(Definer definer);
extern HeapTuple FunctionRow(Oid function);

#endif							/* GPUCREDIT_DEFINER_H */
