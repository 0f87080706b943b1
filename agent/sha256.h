/*-------------------------------------------------------------------------
 *
 * sha256.h
 *		SHA-256, and the message authentication code that proves the knowledge
 *		of a secret (HMAC).
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_AGENT_SHA256_H
#define GPUCREDIT_AGENT_SHA256_H

#include <stddef.h>
#include <stdint.h>

#define SHA256_BYTES	32

extern void Sha256(const void *data, size_t len, uint8_t out[SHA256_BYTES]);
extern void HmacSha256(const char *key, const void *data, size_t len,
					   uint8_t out[SHA256_BYTES]);

#endif							/* GPUCREDIT_AGENT_SHA256_H */
