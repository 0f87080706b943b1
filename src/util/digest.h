/*-------------------------------------------------------------------------
 *
 * digest.h
 *		SHA-256, by core's own implementation.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_DIGEST_H
#define GPUCREDIT_DIGEST_H

#include "common/sha2.h"
#include "lib/stringinfo.h"

#define DIGEST_SIZE PG_SHA256_DIGEST_LENGTH

extern void DigestOf(const StringInfoData *data, uint8 digest[DIGEST_SIZE]);

#endif							/* GPUCREDIT_DIGEST_H */
