/*-------------------------------------------------------------------------
 *
 * post.c
 *		Sends messages of webhooks, many at once.
 *
 * A tenant chooses where a message goes. Therefore each connection's address
 * is checked when its socket is created (network.c), after names were
 * resolved; no proxy of the environment is used; no redirect is followed; only
 * http and https are allowed; and the time and size of an answer are limited,
 * and only its status is kept. The description of a failure reveals nothing
 * about networks that the tenant may not reach: an address that is not allowed
 * is not tried, and a name that leads to one fails like a name that does not
 * exist.
 *
 * A status that has arrived is decisive, even if the rest of the answer does
 * not arrive in time or is too long: the receiver has the message.
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
#include "outgoing.h"

#define CONNECT_MS		5000
#define ANSWER_MOST		(64 * 1024) /* most bytes of headers and body */
#define IDLE_MOST		32		/* most idle connections that stay open for
								 * later messages */

static CURLM * multi = NULL;
static atomic_int underway = 0;
static WebhookPost * ended = NULL;

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

/* Creates the socket of a connection, unless its address is not allowed. */
static curl_socket_t
open_socket(void *cls, curlsocktype purpose, struct curl_sockaddr *address)
{
	WebhookPost *post = cls;
	bool		is_allowed = network_is_allowed(&options.webhook_networks, &address->addr);

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

/*
 * Counts bytes of the answer and discards them. Returning 0 ends the transfer.
 */
static size_t
drop_bytes(char *data, size_t size, size_t n, void *cls)
{
	WebhookPost *post = cls;

	(void) data;
	post->received += size * n;
	return post->received > ANSWER_MOST ? 0 : size * n;
}

/* Sets libcurl's options for a message. */
static bool
set_options(WebhookPost * post)
{
	CURL	   *curl = post->curl;
	Outgoing	request = {
		.url = post->url, .open_socket = open_socket, .context = post,
		.connect_ms = CONNECT_MS, .timeout_ms = 1000L * options.webhook_s, .ca = options.webhook_ca
	};
	bool		good = outgoing_restrict(curl, &request);

#define SET(option, value) (good = curl_easy_setopt(curl, option, value) == CURLE_OK && good)
	SET(CURLOPT_PATH_AS_IS, 1L);
	/*
	 * HTTP/1.1 uses one connection per message, so no message delays another.
	 */
	SET(CURLOPT_HTTP_VERSION, (long) CURL_HTTP_VERSION_1_1);
	SET(CURLOPT_POST, 1L);
	SET(CURLOPT_POSTFIELDS, post->body);
	SET(CURLOPT_POSTFIELDSIZE, (long) strlen(post->body));
	SET(CURLOPT_HTTPHEADER, post->headers);
	SET(CURLOPT_WRITEFUNCTION, drop_bytes);
	SET(CURLOPT_WRITEDATA, post);
	SET(CURLOPT_HEADERFUNCTION, drop_bytes);
	SET(CURLOPT_HEADERDATA, post);
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

/*
 * Describes why a message failed that got no status, or the status of a
 * failure.
 */
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

/* Handles the end of a transfer. */
static void
end_transfer(CURL * curl, CURLcode code)
{
	WebhookPost *post = NULL;
	char	   *private = NULL;
	curl_off_t	wait = 0;

	curl_easy_getinfo(curl, CURLINFO_PRIVATE, &private);
	post = (WebhookPost *) (void *) private;
	curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &post->status);
	if (post->status < 200)		/* "100 Continue" is not a final answer */
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
