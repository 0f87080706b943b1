/*-------------------------------------------------------------------------
 *
 * metadata.c
 *		Makes one request to the metadata service of a cloud.
 *
 * The service answers plain HTTP at an address of the link, so anybody who
 * controls the network could answer instead. A request therefore has limits of
 * time and size, follows no redirect and uses no proxy.
 *-------------------------------------------------------------------------
 */
#include <curl/curl.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "memory.h"
#include "metadata.h"

#define ANSWER_MS	2000		/* longest time of a request */

static CURL * curl;

static bool set_options(const char *method, const char *url,
						struct curl_slist *headers, MetadataAnswer *answer);
static size_t keep_piece(char *data, size_t size, size_t n, void *context);
static time_t answer_date(void);

/* Sets up the library. Returns false if there is no memory. */
bool
MetadataOpen(void)
{
	return curl_global_init(CURL_GLOBAL_NOTHING) == CURLE_OK &&
		(curl = curl_easy_init()) != NULL;
}

/*
 * Requests a path of the service. Returns NULL if there is an answer, whatever
 * its status, and otherwise why there is none.
 */
const char *
MetadataRequest(const char *method, const char *path,
				const char *const headers[METADATA_HEADERS],
				MetadataAnswer *answer)
{
	struct curl_slist *list = NULL;
	char	   *url = Format("%s%s", config.spot_url, path);
	CURLcode	code = CURLE_OUT_OF_MEMORY;

	for (int i = 0; i < METADATA_HEADERS && headers[i] != NULL; i++)
	{
		struct curl_slist *longer = curl_slist_append(list, headers[i]);

		if (longer == NULL)
			break;
		list = longer;
	}
	memset(answer, 0, offsetof(MetadataAnswer, body));
	curl_easy_reset(curl);
	if (list != NULL && set_options(method, url, list, answer))
		code = curl_easy_perform(curl);
	answer->body[answer->size] = '\0';
	if (code == CURLE_OK)
	{
		(void) curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE,
								 &answer->status);
		answer->date = answer_date();
	}
	curl_slist_free_all(list);
	free(url);
	return code == CURLE_OK ? NULL : curl_easy_strerror(code);
}

/* Sets the options of a request. Returns false if the library refuses one. */
static bool
set_options(const char *method, const char *url, struct curl_slist *headers,
			MetadataAnswer *answer)
{
	bool		good = true;

#define SET(option, value) \
	(good = curl_easy_setopt(curl, option, value) == CURLE_OK && good)
	SET(CURLOPT_URL, url);
	SET(CURLOPT_CUSTOMREQUEST, method);
	SET(CURLOPT_HTTPHEADER, headers);
	SET(CURLOPT_PROTOCOLS_STR, "http");
	SET(CURLOPT_PROXY, "");
	SET(CURLOPT_NOSIGNAL, 1L);
	SET(CURLOPT_TIMEOUT_MS, (long) ANSWER_MS);
	SET(CURLOPT_WRITEFUNCTION, keep_piece);
	SET(CURLOPT_WRITEDATA, answer);
#undef SET
	return good;
}

/* Appends a piece of the body. Returning 0 ends a request that is too long. */
static size_t
keep_piece(char *data, size_t size, size_t n, void *context)
{
	MetadataAnswer *answer = context;
	size_t		more = size * n;

	if (more > METADATA_MOST - answer->size)
		return 0;
	memcpy(answer->body + answer->size, data, more);
	answer->size += more;
	return more;
}

/*
 * Returns when the service sent its answer. A deadline minus this instant is
 * right even if this machine's clock is wrong.
 */
static time_t
answer_date(void)
{
	struct curl_header *header;
	time_t		date = -1;

	if (curl_easy_header(curl, "Date", 0, CURLH_HEADER, -1, &header) ==
		CURLHE_OK)
		date = curl_getdate(header->value, NULL);
	return date > 0 ? date : time(NULL);
}
