/*-------------------------------------------------------------------------
 *
 * etag.c
 *		Entity tags, by which a client finds out whether content has changed.
 *-------------------------------------------------------------------------
 */
#include "etag.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>

void
etag_make(char *etag, const char *content, size_t size)
{
	uint64_t	a = UINT64_C(14695981039346656037);
	uint64_t	b = UINT64_C(0x9E3779B97F4A7C15);

	for (size_t i = 0; i < size; i++)
	{
		a = (a ^ (unsigned char) content[i]) * UINT64_C(1099511628211);
		b = (b ^ a) * UINT64_C(0xFF51AFD7ED558CCD);
		b ^= b >> 29;
	}
	snprintf(etag, ETAG_SIZE, "\"%016" PRIx64 "%016" PRIx64 "\"", a, b);
}
