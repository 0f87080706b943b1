/*-------------------------------------------------------------------------
 *
 * table.h
 *		A table of structures by name.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_KUBERNETES_TABLE_H
#define GPUCREDIT_KUBERNETES_TABLE_H

#include <stddef.h>

/* each begins with its name, a char *; begins zeroed */
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
