/*-------------------------------------------------------------------------
 *
 * table.h
 *		A table of structures that are found by name.
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_KUBERNETES_TABLE_H
#define GPUCREDIT_KUBERNETES_TABLE_H

#include <stddef.h>

/* Each structure begins with its name, a char *. A new table is zeroed. */
typedef struct KubeTable
{
	void	   *tree;
	void	  **all;
	int			n;
	int			room;
} KubeTable;

extern void *TableFind(const KubeTable *table, const char *name);
extern void *TableAdd(KubeTable *table, const char *name, size_t size);
extern void TableForget(KubeTable *table, void *one);

#endif							/* GPUCREDIT_KUBERNETES_TABLE_H */
