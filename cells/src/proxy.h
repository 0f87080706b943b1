/*-------------------------------------------------------------------------
 *
 * proxy.h
 *		Calls the functions that PL/Proxy runs.
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_CELLS_PROXY_H
#define GPUCREDIT_CELLS_PROXY_H

/* Prefix that PL/Proxy puts before the text of an error or notice. */
#define PROXY_SCHEMA	"gpucredit_proxy"

extern void ProxyFind(const char *name, int nargs, const Oid *types,
					  MemoryContext context, FmgrInfo *found);
extern Datum ProxyCall(FunctionCallInfo remote, int number,
					   FunctionCallInfo from);

#endif							/* GPUCREDIT_CELLS_PROXY_H */
