/*-------------------------------------------------------------------------
 *
 * workers.h
 *		The background workers that run scheduling cycles.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_WORKERS_H
#define GPUCREDIT_WORKERS_H

#include "fmgr.h"
#include "nodes/pg_list.h"

#define WORKER_LOOK_MS	1000	/* the longest interval between two checks */

extern void WorkersInit(void);
extern List *WorkersDatabases(void);
extern int	WorkersIntervalMs(void);
extern void WorkersLogLife(void);

extern PGDLLEXPORT void WorkerLauncherMain(Datum arg);
extern PGDLLEXPORT void WorkerMain(Datum arg);

#endif							/* GPUCREDIT_WORKERS_H */
