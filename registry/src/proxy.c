/*-------------------------------------------------------------------------
 *
 * proxy.c
 *		Requests that a caching proxy in front of the daemon makes on its own
 *		behalf.
 *
 * For each request that its cache can answer, the proxy asks whether the
 * request is allowed, and has it counted ("check GET"). It fetches content
 * that the cache lacks without having it counted again ("fetch"). All other
 * requests it passes on ("pass"). The proxy proves its identity by a secret
 * that it shares with the daemon, which follows the action in the header
 * X-Registry-Proxy; only then the daemon believes the address of the client
 * that X-Real-IP names. From any other client, both headers are ignored.
 *-------------------------------------------------------------------------
 */
#include "proxy.h"

#include <openssl/crypto.h>
#include <stdio.h>
#include <string.h>

#define SECRET_MIN	16

static char secret[256];		/* empty if no proxy has a secret */

/*
 * Reads the secret, which is the first line of a file. Returns false if it is
 * missing or too short.
 */
bool
proxy_load_secret(const char *path)
{
	FILE	   *file = fopen(path, "r");
	bool		good = file != NULL && fgets(secret, sizeof(secret), file) != NULL;

	if (file != NULL)
		fclose(file);
	secret[strcspn(secret, "\r\n")] = '\0';
	return good && strlen(secret) >= SECRET_MIN;
}

/*
 * Parses the header's value, "ACTION SECRET". Returns false if the secret is
 * wrong.
 */
bool
proxy_parse(const char *value, char *action, size_t size)
{
	const char *end = strrchr(value, ' ');
	size_t		length = strlen(secret);

	if (length == 0 || end == NULL || (size_t) (end - value) >= size ||
		strlen(end + 1) != length || CRYPTO_memcmp(end + 1, secret, length) != 0)
		return false;
	memcpy(action, value, end - value);
	action[end - value] = '\0';
	return true;
}
