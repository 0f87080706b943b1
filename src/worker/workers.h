/*-------------------------------------------------------------------------
 *
 * workers.h
 *		The background workers that run scheduling cycles and upkeep.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_WORKERS_H
#define GPUCREDIT_WORKERS_H

#include "fmgr.h"
#include "nodes/pg_list.h"

#define WORKER_LOOK_MS	1000	/* longest time between two checks, in
								 * milliseconds */

extern void WorkersInit(void);
extern List *WorkersDatabases(void);
extern int	WorkersIntervalMs(void);
extern void WorkersLogLife(void);
extern void WorkersConnect(Oid database, const char *name);
extern bool WorkersAbort(List *failing, const char *name);

extern PGDLLEXPORT void WorkerLauncherMain(Datum arg);
extern PGDLLEXPORT void WorkerMain(Datum arg);
extern PGDLLEXPORT void UpkeepWorkerMain(Datum arg);

#endif							/* GPUCREDIT_WORKERS_H */
