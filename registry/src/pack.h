/*-------------------------------------------------------------------------
 *
 * pack.h
 *		The files of the store.
 *
 *-------------------------------------------------------------------------
 */
#ifndef REGISTRYD_PACK_H
#define REGISTRYD_PACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "options.h"

#define PACK_MAX	(64 * 1024 * 1024)

typedef struct Pack
{
	int64_t		number;
	int			fd;
	int32_t		size;
	struct Pack *next;
} Pack;

extern bool pack_store_open(void) MUST_USE;
extern Pack *pack_take(size_t size) MUST_USE;
extern bool pack_append(Pack *pack, const void *data, size_t size,
						int32_t *first_byte) MUST_USE;
extern bool pack_sync(Pack *pack) MUST_USE;
extern void pack_give_back(Pack *pack);
extern void pack_abandon(Pack *pack);
extern int	pack_open(int64_t number);
extern bool pack_unlink(int64_t number) MUST_USE;
extern void pack_sweep(void);

#endif							/* REGISTRYD_PACK_H */
