/*-------------------------------------------------------------------------
 *
 * post.c
 *		Sends messages of webhooks, many at once.
 *
 * Where a message goes, a tenant chooses.  So each connection's address is
 * judged when its socket is about to be made (network.c), after names were
 * resolved; no proxy of the environment stands between; no redirect is
 * followed; only http and https are spoken; and an answer has a time and a
 * size, of which nothing but the status is kept.  What the daemon says of a
 * failure tells nothing of networks that the tenant may not reach: an address
 * that is not allowed is not tried, and a name that leads to one fails as one
 * that leads nowhere.
 *
 * A status that has come decides, even where the rest of the answer does not
 * come in time or is too long: the receiver has the message.
 *
 *-------------------------------------------------------------------------
 */
#include "post.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "network.h"
#include "options.h"

#define CONNECT_MS		5000
#define ANSWER_MOST		(64 * 1024)		/* bytes of headers and body */
#define IDLE_MOST		32		/* connections that stay open for the next message */

static CURLM *multi = NULL;
static atomic_int underway = 0;
static WebhookPost *ended = NULL;

bool
posts_init(void)
{
	if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
		return false;
	multi = curl_multi_init();
	if (multi == NULL)
		return false;
	curl_multi_setopt(multi, CURLMOPT_MAXCONNECTS, (long) IDLE_MOST);
	curl_multi_setopt(multi, CURLMOPT_MAX_TOTAL_CONNECTIONS, (long) options.webhooks);
	return true;
}

bool
post_add_header(WebhookPost * post, const char *name, const char *value)
{
	char	   *line = NULL;
	struct curl_slist *more;

	if (asprintf(&line, "%s: %s", name, value) < 0)
		return false;
	more = curl_slist_append(post->headers, line);
	free(line);
	if (more == NULL)
		return false;
	post->headers = more;
	return true;
}

/* Make the socket of a connection, unless its address is not allowed. */
static curl_socket_t
open_socket(void *cls, curlsocktype purpose, struct curl_sockaddr *address)
{
	WebhookPost *post = cls;
	bool		is_allowed = network_is_allowed(&address->addr);

	if (purpose != CURLSOCKTYPE_IPCXN)
		return CURL_SOCKET_BAD;
	if (!is_allowed && !network_is_public(&address->addr))
	{
		post->is_refused = true;
		return CURL_SOCKET_BAD;
	}
	if (!is_allowed && post->is_plain)
	{
		post->needs_tls = true;
		return CURL_SOCKET_BAD;
	}
	return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

/* Count bytes of the answer and drop them; 0 ends it. */
static size_t
drop_bytes(char *data, size_t size, size_t n, void *cls)
{
	WebhookPost *post = cls;

	(void) data;
	post->received += size * n;
	return post->received > ANSWER_MOST ? 0 : size * n;
}

/* What a message needs of libcurl, and what it may not do. */
static bool
set_options(WebhookPost * post)
{
	CURL	   *curl = post->curl;
	bool		good = true;

#define SET(option, value) (good = curl_easy_setopt(curl, option, value) == CURLE_OK && good)
	SET(CURLOPT_URL, post->url);
	SET(CURLOPT_PATH_AS_IS, 1L);
#if LIBCURL_VERSION_NUM >= 0x075500
	SET(CURLOPT_PROTOCOLS_STR, "http,https");
#else
	SET(CURLOPT_PROTOCOLS, (long) (CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
	SET(CURLOPT_PROXY, "");
	SET(CURLOPT_NETRC, (long) CURL_NETRC_IGNORED);
	SET(CURLOPT_FOLLOWLOCATION, 0L);
	/* one connection a message: none of others stands in a message's way */
	SET(CURLOPT_HTTP_VERSION, (long) CURL_HTTP_VERSION_1_1);
	SET(CURLOPT_OPENSOCKETFUNCTION, open_socket);
	SET(CURLOPT_OPENSOCKETDATA, post);
	SET(CURLOPT_NOSIGNAL, 1L);
	/* a name server that does not answer keeps a thread, but not this one */
	SET(CURLOPT_QUICK_EXIT, 1L);
	SET(CURLOPT_CONNECTTIMEOUT_MS, (long) CONNECT_MS);
	SET(CURLOPT_TIMEOUT_MS, 1000L * options.webhook_s);
	SET(CURLOPT_POST, 1L);
	SET(CURLOPT_POSTFIELDS, post->body);
	SET(CURLOPT_POSTFIELDSIZE, (long) strlen(post->body));
	SET(CURLOPT_HTTPHEADER, post->headers);
	SET(CURLOPT_WRITEFUNCTION, drop_bytes);
	SET(CURLOPT_WRITEDATA, post);
	SET(CURLOPT_HEADERFUNCTION, drop_bytes);
	SET(CURLOPT_HEADERDATA, post);
	SET(CURLOPT_SSL_VERIFYPEER, 1L);
	SET(CURLOPT_SSL_VERIFYHOST, 2L);
	if (options.webhook_ca != NULL)
		SET(CURLOPT_CAINFO, options.webhook_ca);
	SET(CURLOPT_PRIVATE, post);
#undef SET
	return good;
}

static void
end_post(WebhookPost * post)
{
	if (post->curl != NULL)
		curl_easy_cleanup(post->curl);
	post->curl = NULL;
	post->next = ended;
	ended = post;
}

void
post_send(WebhookPost * post)
{
	post->is_plain = strncasecmp(post->url, "http:", 5) == 0;
	post->curl = curl_easy_init();
	if (post->curl == NULL || !post_add_header(post, "Content-Type", "application/json") ||
		!post_add_header(post, "User-Agent", "gpucreditd") ||
		!post_add_header(post, "Expect", "") || !set_options(post) ||
		curl_multi_add_handle(multi, post->curl) != CURLM_OK)
	{
		snprintf(post->problem, sizeof(post->problem), "the daemon could not send it");
		end_post(post);
		return;
	}
	atomic_fetch_add(&underway, 1);
}

/* Say why a message without a status, or with one of failure, has failed. */
static void
describe_failure(WebhookPost * post, CURLcode code)
{
	char	   *to = post->problem;
	size_t		size = sizeof(post->problem);

	if (post->status >= 200 && post->status < 300)
		*to = '\0';
	else if (post->status >= 300 && post->status < 400)
		snprintf(to, size, "status %ld: it redirects, which is not followed; set its final address",
				 post->status);
	else if (post->status > 0)
		snprintf(to, size, "status %ld", post->status);
	else if (post->is_refused || code == CURLE_COULDNT_RESOLVE_HOST)
		snprintf(to, size, "it has no address, or one that is private, link-local or reserved,"
				 " or this machine's, and not allowed here");
	else if (post->needs_tls)
		snprintf(to, size, "http:// is for networks that the operator allows; use https://");
	else if (code == CURLE_OPERATION_TIMEDOUT)
		snprintf(to, size, "it did not answer in time");
	else
		snprintf(to, size, "%s", curl_easy_strerror(code));
}

/* A transfer has ended. */
static void
end_transfer(CURL * curl, CURLcode code)
{
	WebhookPost *post = NULL;
	char	   *private = NULL;
	curl_off_t	wait = 0;

	curl_easy_getinfo(curl, CURLINFO_PRIVATE, &private);
	post = (WebhookPost *) (void *) private;
	curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &post->status);
	if (post->status < 200)		/* "100 Continue" is no answer */
		post->status = 0;
	curl_easy_getinfo(curl, CURLINFO_RETRY_AFTER, &wait);
	post->retry_after = wait > 0 ? (long) (wait < 86400 ? wait : 86400) : 0;
	describe_failure(post, code);
	curl_multi_remove_handle(multi, curl);
	atomic_fetch_sub(&underway, 1);
	end_post(post);
}

WebhookPost *
posts_next_ended(void)
{
	WebhookPost *post;

	if (ended == NULL)
	{
		CURLMsg    *message;
		int			n;

		curl_multi_perform(multi, &n);
		while ((message = curl_multi_info_read(multi, &n)) != NULL)
			if (message->msg == CURLMSG_DONE)
				end_transfer(message->easy_handle, message->data.result);
	}
	post = ended;
	if (post != NULL)
		ended = post->next;
	return post;
}

void
posts_wait(int ms)
{
	curl_multi_poll(multi, NULL, 0, ms, NULL);
}

void
posts_wake(void)
{
	curl_multi_wakeup(multi);
}

int
posts_underway(void)
{
	return atomic_load(&underway);
}

void
post_free(WebhookPost * post)
{
	free(post->org);
	free(post->webhook);
	free(post->event);
	free(post->attempt);
	free(post->url);
	free(post->body);
	curl_slist_free_all(post->headers);
	free(post);
}

void
posts_end(void)
{
	curl_multi_cleanup(multi);
	curl_global_cleanup();
}
