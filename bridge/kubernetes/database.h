/*-------------------------------------------------------------------------
 *
 * database.h
 *		Calls the database.
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_KUBERNETES_DATABASE_H
#define GPUCREDIT_KUBERNETES_DATABASE_H

#include <libpq-fe.h>
#include <stdbool.h>

extern bool DatabaseLoaded(void);
extern bool DatabasePauses(PGresult * result);
extern void DatabaseReconcile(void);

#endif							/* GPUCREDIT_KUBERNETES_DATABASE_H */
