/*-------------------------------------------------------------------------
 *
 * database.h
 *		The calls of the database.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_KUBERNETES_DATABASE_H
#define GPUCREDIT_KUBERNETES_DATABASE_H

#include <stdbool.h>

extern bool DatabaseLoaded(void);
extern void DatabaseReconcile(void);

#endif							/* GPUCREDIT_KUBERNETES_DATABASE_H */
