/*-------------------------------------------------------------------------
 *
 * chunk.c
 *		Cuts content into chunks by its bytes, not by their position.
 *
 * A rolling hash (Gearhash) sees the last 64 bytes.  A chunk ends where its
 * upper 16 bits are zero, after 8 KiB at least and 128 KiB at most: 64 KiB on
 * average over a random file.  So an insertion changes the chunks around it,
 * and the rest keep their digests.
 *
 *-------------------------------------------------------------------------
 */
#include "chunk.h"

#include <pthread.h>

#define CUT_MASK	UINT64_C(0xFFFF000000000000)

static uint64_t gear[256];
static pthread_once_t once = PTHREAD_ONCE_INIT;

/*
 * The table is part of the format: with another one the same content would get
 * other chunks.  It is SplitMix64's first 256 numbers from the seed 0.
 */
static void
make_gear(void)
{
	uint64_t	state = 0;

	for (int i = 0; i < 256; i++)
	{
		uint64_t	z;

		state += UINT64_C(0x9E3779B97F4A7C15);
		z = state;
		z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
		z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
		gear[i] = z ^ (z >> 31);
	}
}

/*
 * How many of the next bytes belong to the chunk; *cut says whether it ends
 * there.  The first bytes of a chunk are skipped: no cut can be there, and the
 * hash does not depend on them.
 */
size_t
chunk_scan(Chunker *chunker, const unsigned char *data, size_t size, bool *cut)
{
	size_t		i = 0;
	size_t		end = CHUNK_MAX - 1 - chunker->size;
	uint64_t	hash = chunker->hash;

	pthread_once(&once, make_gear);
	if (chunker->size < CHUNK_MIN - 64)
	{
		size_t		skip = CHUNK_MIN - 64 - chunker->size;

		i = skip < size ? skip : size;
	}
	for (; i < size && chunker->size + i < CHUNK_MIN - 1; i++)
		hash = (hash << 1) + gear[data[i]];
	for (end = end < size ? end : size; i < end; i++)
	{
		hash = (hash << 1) + gear[data[i]];
		if ((hash & CUT_MASK) == 0)
			break;
	}
	*cut = i < size;
	if (*cut)
	{
		*chunker = (Chunker)
		{
			0
		};
		return i + 1;
	}
	chunker->hash = hash;
	chunker->size += size;
	return size;
}
