/*-------------------------------------------------------------------------
 *
 * finish.c
 *		Completes an upload whose bytes are all stored: checks its digest.
 *-------------------------------------------------------------------------
 */
#include "finish.h"

#include <inttypes.h>
#include <openssl/evp.h>
#include <stdio.h>

#include "chunk.h"
#include "piece.h"

/*
 * Completes an upload whose bytes are all stored. Returns false with UC503 if
 * they are not the announced bytes.
 */
bool
finish_upload(json_t * plan, const unsigned char *digest, DbError *error)
{
	char		upload[32];
	char		hex[2 * DIGEST_SIZE + 3] = "\\x";
	const char *values[] = {
		json_string_value(json_object_get(plan, "org")), upload, hex
	};
	PGresult   *result;
	bool		good;

	sprintf(upload, "%" PRId64,
			(int64_t) json_integer_value(json_object_get(plan, "upload")));
	for (int i = 0; i < DIGEST_SIZE; i++)
		sprintf(hex + 2 + 2 * i, "%02x", digest[i]);
	result = db_call(error, "SELECT gpucredit_registry.finish_upload($1::text,"
					 " $2::bigint, $3::bytea)", 3, values, NULL, NULL);
	if (result == NULL)
		return false;
	good = PQgetvalue(result, 0, 0)[0] == 't';
	PQclear(result);
	if (!good)
		db_error(error, "UC503", "the bytes do not match their SHA-256");
	return good;
}

/*
 * Reads all stored bytes of an upload to compute its digest, and completes the
 * upload.
 */
bool
verify_upload(json_t * plan, DbError *error)
{
	Pieces		pieces;
	EVP_MD_CTX *whole = EVP_MD_CTX_new();
	unsigned char digest[DIGEST_SIZE];
	unsigned char buffer[64 * 1024];
	ssize_t		n;

	EVP_DigestInit_ex(whole, EVP_sha256(), NULL);
	pieces_init(&pieces, json_object_get(plan, "pieces"));
	while ((n = pieces_read(&pieces, buffer, sizeof(buffer))) > 0)
		EVP_DigestUpdate(whole, buffer, n);
	pieces_end(&pieces);
	EVP_DigestFinal_ex(whole, digest, NULL);
	EVP_MD_CTX_free(whole);
	if (n < 0)
	{
		db_error(error, "58030", "the store cannot be read");
		return false;
	}
	return finish_upload(plan, digest, error);
}

/*
 * Completes an upload whose last part arrived in pieces, so that its digest
 * must be computed from the stored bytes.
 */
bool
verify_stored(json_t * plan, DbError *error)
{
	char		upload[32];
	const char *values[] = {
		json_string_value(json_object_get(plan, "org")), upload
	};
	PGresult   *result;
	json_t	   *pieces;
	bool		good;

	sprintf(upload, "%" PRId64,
			(int64_t) json_integer_value(json_object_get(plan, "upload")));
	result = db_call(error, "SELECT gpucredit_registry.upload_pieces($1::text,"
					 " $2::bigint)", 2, values, NULL, NULL);
	if (result == NULL)
		return false;
	pieces = json_loads(PQgetvalue(result, 0, 0), 0, NULL);
	PQclear(result);
	good = verify_upload(pieces, error);
	json_decref(pieces);
	return good;
}
