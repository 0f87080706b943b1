/*-------------------------------------------------------------------------
 *
 * fetch.c
 *		Makes one request to an identity provider.
 *
 * An administrator names a provider, and the provider's own documents name the
 * addresses of its keys and tokens. Therefore each address is checked when its
 * socket is created, as a webhook's is (post.c): it must be an address of the
 * public internet, with TLS, or one that the operator allows. No redirect is
 * followed, and the time and size of an answer are limited.
 *-------------------------------------------------------------------------
 */
#include "fetch.h"

#include <curl/curl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "log.h"
#include "network.h"
#include "options.h"
#include "outgoing.h"

#define CONNECT_MS	3000
#define ANSWER_MS	8000
#define ANSWER_MOST (256 * 1024)

typedef struct FetchTransfer
{
	const char *url;
	char	   *body;
	size_t		size;
}			FetchTransfer;

bool
fetch_init(void)
{
	return curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
}

/* Creates the socket of a connection, unless its address is not allowed. */
static curl_socket_t
open_socket(void *cls, curlsocktype purpose, struct curl_sockaddr *address)
{
	const		FetchTransfer *transfer = cls;
	bool		is_plain = strncasecmp(transfer->url, "http:", 5) == 0;

	if (purpose != CURLSOCKTYPE_IPCXN)
		return CURL_SOCKET_BAD;
	if (!network_is_allowed(&options.identity_networks, &address->addr) &&
		(is_plain || !network_is_public(&address->addr)))
	{
		LogLine("identity: \"%.200s\" leads to an address that --identity-networks does not allow,"
				" or to a public one without TLS", transfer->url);
		return CURL_SOCKET_BAD;
	}
	return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

/* Appends a piece of the answer. Returning 0 ends the transfer. */
static size_t
keep_piece(char *data, size_t size, size_t n, void *cls)
{
	FetchTransfer *transfer = cls;
	size_t		more = size * n;
	char	   *body;

	if (transfer->size + more > ANSWER_MOST)
		return 0;
	body = realloc(transfer->body, transfer->size + more + 1);
	if (body == NULL)
		return 0;
	memcpy(body + transfer->size, data, more);
	transfer->body = body;
	transfer->size += more;
	return more;
}

/* Sets libcurl's options for a request. */
static bool
set_options(CURL * curl, const Fetch * fetch, FetchTransfer * transfer, struct curl_slist *headers)
{
	Outgoing	request = {
		.url = fetch->url, .open_socket = open_socket, .context = transfer,
		.connect_ms = CONNECT_MS, .timeout_ms = ANSWER_MS, .ca = options.identity_ca
	};
	bool		good = outgoing_restrict(curl, &request);

#define SET(option, value) (good = curl_easy_setopt(curl, option, value) == CURLE_OK && good)
	SET(CURLOPT_HTTPHEADER, headers);
	SET(CURLOPT_WRITEFUNCTION, keep_piece);
	SET(CURLOPT_WRITEDATA, transfer);
	if (fetch->form != NULL)
		SET(CURLOPT_POSTFIELDS, fetch->form);
	if (fetch->user != NULL)
	{
		SET(CURLOPT_HTTPAUTH, (long) CURLAUTH_BASIC);
		SET(CURLOPT_USERNAME, fetch->user);
		SET(CURLOPT_PASSWORD, fetch->password);
	}
#undef SET
	return good;
}

json_t *
fetch_object(Fetch * fetch)
{
	FetchTransfer transfer = {.url = fetch->url};
	CURL	   *curl = curl_easy_init();
	struct curl_slist *headers = curl_slist_append(NULL, "Accept: application/json");
	CURLcode	code = CURLE_FAILED_INIT;
	json_t	   *object = NULL;

	fetch->status = 0;
	if (curl != NULL && headers != NULL && set_options(curl, fetch, &transfer, headers))
		code = curl_easy_perform(curl);
	if (code == CURLE_OK)
	{
		curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &fetch->status);
		if (transfer.body != NULL)
			object = json_loadb(transfer.body, transfer.size, JSON_REJECT_DUPLICATES, NULL);
	}
	if (code != CURLE_OK)
		LogLine("identity: \"%.200s\": %s", fetch->url, curl_easy_strerror(code));
	else if (!json_is_object(object))
	{
		LogLine("identity: \"%.200s\" answers status %ld and no object of JSON", fetch->url,
				fetch->status);
		json_decref(object);
		object = NULL;
	}
	free(transfer.body);
	curl_slist_free_all(headers);
	if (curl != NULL)
		curl_easy_cleanup(curl);
	return object;
}
