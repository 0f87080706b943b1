/*-------------------------------------------------------------------------
 *
 * pack.h
 *		Packs that are open for writing.
 *
 *-------------------------------------------------------------------------
 */
#ifndef REGISTRYD_PACK_H
#define REGISTRYD_PACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "options.h"

#define PACK_MAX	(64 * 1024 * 1024)

typedef struct Pack
{
	int64_t		number;
	int			fd;
	int32_t		size;
	time_t		made;
	struct Pack *next;
} Pack;

extern Pack *pack_acquire(size_t size) MUST_USE;
extern bool pack_append(Pack *pack, const void *data, size_t size,
						int32_t *first_byte) MUST_USE;
extern bool pack_finish(Pack *pack) MUST_USE;
extern void pack_abandon(Pack *pack);

#endif							/* REGISTRYD_PACK_H */
