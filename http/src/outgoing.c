/*-------------------------------------------------------------------------
 *
 * outgoing.c
 *		Restricts requests that the daemon makes on behalf of others.
 *
 * Tenants choose the addresses of webhooks, and identity providers those of
 * their keys. Such a request uses only HTTP, uses no proxy, follows no
 * redirect, connects only to addresses that open_socket allows, accepts a
 * certificate only for the right name, and has a time limit.
 *-------------------------------------------------------------------------
 */
#include "outgoing.h"

bool
outgoing_restrict(CURL * curl, const Outgoing * request)
{
	bool		good = true;

#define SET(option, value) (good = curl_easy_setopt(curl, option, value) == CURLE_OK && good)
	SET(CURLOPT_URL, request->url);
#if LIBCURL_VERSION_NUM >= 0x075500
	SET(CURLOPT_PROTOCOLS_STR, "http,https");
#else
	SET(CURLOPT_PROTOCOLS, (long) (CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
	SET(CURLOPT_PROXY, "");
	SET(CURLOPT_NETRC, (long) CURL_NETRC_IGNORED);
	SET(CURLOPT_FOLLOWLOCATION, 0L);
	SET(CURLOPT_OPENSOCKETFUNCTION, request->open_socket);
	SET(CURLOPT_OPENSOCKETDATA, request->context);
	SET(CURLOPT_NOSIGNAL, 1L);
	/* Do not wait for the thread of a name resolution that gets no answer. */
	SET(CURLOPT_QUICK_EXIT, 1L);
	SET(CURLOPT_CONNECTTIMEOUT_MS, request->connect_ms);
	SET(CURLOPT_TIMEOUT_MS, request->timeout_ms);
	SET(CURLOPT_SSL_VERIFYPEER, 1L);
	SET(CURLOPT_SSL_VERIFYHOST, 2L);
	if (request->ca != NULL)
		SET(CURLOPT_CAINFO, request->ca);
#undef SET
	return good;
}
