/*-------------------------------------------------------------------------
 *
 * sha256.c
 *		SHA-256 (FIPS 180-4) and HMAC (RFC 2104) of data in memory.
 *
 * The programs of steps run in every job, so they link only the C library.
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "memory.h"
#include "sha256.h"

#define BLOCK	64

static const uint32_t constants[64] = {
	0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1,
	0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3,
	0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786,
	0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
	0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147,
	0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13,
	0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
	0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
	0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a,
	0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208,
	0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2
};

static void add_block(uint32_t h[8], const uint8_t block[BLOCK]);
static uint32_t rotate(uint32_t x, int n);

void
Sha256(const void *data, size_t len, uint8_t out[SHA256_BYTES])
{
	uint32_t	h[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
	0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
	const uint8_t *at = data;
	uint8_t		last[2 * BLOCK] = {0};
	size_t		rest = len % BLOCK;
	size_t		size = rest + 9 > BLOCK ? 2 * BLOCK : BLOCK;

	for (size_t i = 0; i + BLOCK <= len; i += BLOCK)
		add_block(h, at + i);
	memcpy(last, at + len - rest, rest);
	last[rest] = 0x80;
	for (int i = 0; i < 8; i++)
		last[size - 1 - i] = (uint8_t) ((uint64_t) len * 8 >> 8 * i);
	add_block(h, last);
	if (size > BLOCK)
		add_block(h, last + BLOCK);
	for (int i = 0; i < SHA256_BYTES; i++)
		out[i] = (uint8_t) (h[i / 4] >> (24 - 8 * (i % 4)));
}

static uint32_t
rotate(uint32_t x, int n)
{
	return x >> n | x << (32 - n);
}

/*
 * Adds a block to the hash.
 */
static void
add_block(uint32_t h[8], const uint8_t block[BLOCK])
{
	uint32_t	w[64];
	uint32_t	v[8];

	for (int i = 0; i < 16; i++)
		w[i] = (uint32_t) block[4 * i] << 24 |
			(uint32_t) block[4 * i + 1] << 16 |
			(uint32_t) block[4 * i + 2] << 8 | block[4 * i + 3];
	for (int i = 16; i < 64; i++)
		w[i] = w[i - 16] + w[i - 7] +
			(rotate(w[i - 15], 7) ^ rotate(w[i - 15], 18) ^ w[i - 15] >> 3) +
			(rotate(w[i - 2], 17) ^ rotate(w[i - 2], 19) ^ w[i - 2] >> 10);
	memcpy(v, h, sizeof(v));
	for (int i = 0; i < 64; i++)
	{
		uint32_t	one = v[7] + constants[i] + w[i] +
			(rotate(v[4], 6) ^ rotate(v[4], 11) ^ rotate(v[4], 25)) +
			((v[4] & v[5]) ^ (~v[4] & v[6]));
		uint32_t	two = (rotate(v[0], 2) ^ rotate(v[0], 13) ^
						   rotate(v[0], 22)) +
			((v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]));

		memmove(v + 1, v, 7 * sizeof(v[0]));
		v[4] += one;
		v[0] = one + two;
	}
	for (int i = 0; i < 8; i++)
		h[i] += v[i];
}

/*
 * Computes an HMAC. The key is a text of at most one block.
 */
void
HmacSha256(const char *key, const void *data, size_t len,
		   uint8_t out[SHA256_BYTES])
{
	uint8_t    *inner = Alloc(BLOCK + len + 1);
	uint8_t		outer[BLOCK + SHA256_BYTES];
	size_t		n = strlen(key);

	if (n > BLOCK)
		Die("a key of steps is too long");
	memset(inner, 0x36, BLOCK);
	memset(outer, 0x5c, BLOCK);
	for (size_t i = 0; i < n; i++)
	{
		inner[i] ^= (uint8_t) key[i];
		outer[i] ^= (uint8_t) key[i];
	}
	memcpy(inner + BLOCK, data, len);
	Sha256(inner, BLOCK + len, outer + BLOCK);
	Sha256(outer, sizeof(outer), out);
	free(inner);
}
