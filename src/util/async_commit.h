/*-------------------------------------------------------------------------
 *
 * async_commit.h
 *		Transactions whose commit need not wait for the disk.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_ASYNC_COMMIT_H
#define GPUCREDIT_ASYNC_COMMIT_H

#include "fmgr.h"

extern void AsyncCommitInit(void);
extern bool AsyncCommitMay(FunctionCallInfo fcinfo);
extern void AsyncCommitAllow(bool may);

#endif							/* GPUCREDIT_ASYNC_COMMIT_H */
