/*-------------------------------------------------------------------------
 *
 * memory.h
 *		Allocates memory and strings. The program ends if memory runs out.
 *-------------------------------------------------------------------------
 */
#ifndef LIB_MEMORY_H
#define LIB_MEMORY_H

#include <stddef.h>

extern void *Alloc(size_t size);
extern char *Dup(const char *text);
extern char *Format(const char *format,...)
			__attribute__((format(printf, 1, 2)));

#endif							/* LIB_MEMORY_H */
