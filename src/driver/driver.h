/*-------------------------------------------------------------------------
 *
 * driver.h
 *		The background workers that run scheduling cycles.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_DRIVER_H
#define GPUCREDIT_DRIVER_H

#include "fmgr.h"
#include "nodes/pg_list.h"

#define DRIVER_LOOK_MS	1000	/* how often a worker looks around at least */

extern void DriverInit(void);
extern List *DriverDatabases(void);
extern int	DriverIntervalMs(void);
extern void DriverLogLife(void);

extern PGDLLEXPORT void DriverLauncherMain(Datum arg);
extern PGDLLEXPORT void DriverWorkerMain(Datum arg);

#endif							/* GPUCREDIT_DRIVER_H */
