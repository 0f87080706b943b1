/*-------------------------------------------------------------------------
 *
 * chunk.c
 *		Cuts content into chunks by its bytes, not by their position.
 *
 * A rolling hash (Gearhash) covers the last 64 bytes. A chunk ends where the
 * upper 16 bits of the hash are zero, after at least 8 KiB and at most 128
 * KiB; the average over a random file is 64 KiB. So an insertion changes only
 * the chunks around it, and all other chunks keep their digests.
 *
 * The table, the mask and both limits are those of Hugging Face's Xet, so that
 * a file has the chunks here that it has there. Xet's chunker starts the hash
 * one byte earlier and disregards a match before 8 KiB. This makes no
 * difference, because a byte has left the hash after 64 further ones.
 *-------------------------------------------------------------------------
 */
#include "chunk.h"

#include "gear.h"

#define CUT_MASK	UINT64_C(0xFFFF000000000000)

/*
 * Returns how many of the next bytes belong to the chunk; *cut becomes whether
 * the chunk ends after them. The first bytes of a chunk are skipped: no cut
 * can be there, and the hash does not depend on them.
 */
size_t
chunk_scan(Chunker *chunker, const unsigned char *data, size_t size, bool *cut)
{
	size_t		i = 0;
	size_t		end = CHUNK_MAX - 1 - chunker->size;
	uint64_t	hash = chunker->hash;

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
