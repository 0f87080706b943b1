/*-------------------------------------------------------------------------
 *
 * table.c
 *		A table of structures that are found by name.
 *-------------------------------------------------------------------------
 */
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "memory.h"
#include "table.h"

static int
by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *) a, *(char *const *) b);
}

/* Returns the structure of a name, or NULL if there is none. */
void *
TableFind(const KubeTable *table, const char *name)
{
	void	  **found = name == NULL ? NULL :
		tfind(&name, (void *const *) &table->tree, by_name);

	return found == NULL ? NULL : *found;
}

/*
 * Adds a structure that is zeroed except for its name.
 */
void *
TableAdd(KubeTable *table, const char *name, size_t size)
{
	char	  **one = Alloc(size);

	*one = Dup(name);
	if (tsearch(one, &table->tree, by_name) == NULL)
		Die("out of memory");
	if (table->n == table->room)
	{
		table->room = table->room == 0 ? 64 : 2 * table->room;
		table->all = realloc(table->all, table->room * sizeof(void *));
		if (table->all == NULL)
			Die("out of memory");
	}
	return table->all[table->n++] = one;
}

/*
 * Removes a structure from its table. The caller frees it.
 */
void
TableForget(KubeTable *table, void *one)
{
	tdelete(one, &table->tree, by_name);
	for (int i = 0; i < table->n; i++)
		if (table->all[i] == one)
		{
			table->all[i] = table->all[--table->n];
			break;
		}
}
