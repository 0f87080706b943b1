/*-------------------------------------------------------------------------
 *
 * proxy.c
 *		What the proxy before the daemon asks on its own behalf.
 *
 * A proxy with a cache asks about each request that the cache may answer
 * whether it is allowed, and what it counts for ("check GET"), and it fetches
 * what the cache lacks without having it counted again ("fetch").  It proves
 * that it is the proxy by a secret that it shares with the daemon, in the
 * header X-Registry-Proxy, after the action.  From anybody else the header is
 * ignored.
 *
 *-------------------------------------------------------------------------
 */
#include "proxy.h"

#include <openssl/crypto.h>
#include <stdio.h>
#include <string.h>

#define SECRET_MIN	16

static char secret[256];		/* empty: no proxy has one */

/* Read the secret, the first line of a file; false without a good one. */
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

/* The action of a header's value, "ACTION SECRET"; false if the secret is wrong. */
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
