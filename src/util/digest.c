/*-------------------------------------------------------------------------
 *
 * digest.c
 *		SHA-256, by core's own implementation.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/cryptohash.h"
#include "util/digest.h"

void
DigestOf(const StringInfoData *data, uint8 digest[DIGEST_SIZE])
{
	pg_cryptohash_ctx *context = pg_cryptohash_create(PG_SHA256);

	if (context == NULL || pg_cryptohash_init(context) < 0 ||
		pg_cryptohash_update(context, (const uint8 *) data->data,
							 data->len) < 0 ||
		pg_cryptohash_final(context, digest, DIGEST_SIZE) < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("could not compute a digest"),
				 errdetail_internal("%s", context ?
									pg_cryptohash_error(context) :
									"out of memory"),
				 errhint("Retry the call.")));
	pg_cryptohash_free(context);
}
