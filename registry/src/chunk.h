/*-------------------------------------------------------------------------
 *
 * chunk.h
 *		Cuts content into chunks.
 *-------------------------------------------------------------------------
 */
#ifndef REGISTRYD_CHUNK_H
#define REGISTRYD_CHUNK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CHUNK_MIN	(8 * 1024)
#define CHUNK_MAX	(128 * 1024)
#define DIGEST_SIZE 32			/* bytes of a SHA-256 digest */

typedef struct Chunker
{
	uint64_t	hash;
	size_t		size;			/* bytes of the chunk so far */
} Chunker;

extern size_t chunk_scan(Chunker *chunker, const unsigned char *data,
						 size_t size, bool *cut);

#endif							/* REGISTRYD_CHUNK_H */
