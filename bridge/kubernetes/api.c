/*-------------------------------------------------------------------------
 *
 * api.c
 *		Calls the Kubernetes API, with many calls at once.
 *
 * At most MOST_AT_ONCE calls are under way; further calls wait in a queue.
 * Streams are not counted. The token's file is checked before each call, as
 * kubelet replaces the token within the hour.
 *-------------------------------------------------------------------------
 */
#include <curl/curl.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api.h"
#include "config.h"
#include "log.h"
#include "memory.h"

#define MOST_AT_ONCE	16
#define CALL_LIMIT_S	15L
#define CONNECT_LIMIT_S 5L
#define MOST_BYTES		(256 * 1024 * 1024)

typedef struct ApiTransfer
{
	struct ApiTransfer *next;	/* next call in the queue */
	CURL	   *easy;
	struct curl_slist *headers;
	char	   *payload;
	char	   *reply;
	size_t		len;
	size_t		room;
	ApiPiece	piece;			/* receives the data, if the call is a stream */
	ApiAnswer	answer;
	void	   *context;
} ApiTransfer;

static CURLM * multi;
static ApiTransfer *first;
static ApiTransfer **last = &first;
static int	waiting;
static int	under_way;
static char *token_header;
static struct timespec token_time;

static ApiTransfer *prepare(const char *method, const char *path,
							ApiAnswer answer, void *context);
static void read_token(void);
static size_t receive_data(char *data, size_t size, size_t n, void *context);
static void launch(ApiTransfer *transfer);
static void finish(ApiTransfer *transfer, CURLcode result);

/*
 * Queues a call. The function takes ownership of "body", which may be NULL.
 */
void
ApiCall(const char *method, const char *path, const char *type, json_t * body,
		ApiAnswer answer, void *context)
{
	ApiTransfer *transfer = prepare(method, path, answer, context);
	char	   *header = Format("Content-Type: %s", type);

	curl_easy_setopt(transfer->easy, CURLOPT_TIMEOUT, CALL_LIMIT_S);
	if (body != NULL)
	{
		transfer->payload = json_dumps(body, JSON_COMPACT);
		transfer->headers = curl_slist_append(transfer->headers, header);
		curl_easy_setopt(transfer->easy, CURLOPT_POSTFIELDS,
						 transfer->payload);
		json_decref(body);
	}
	free(header);
	waiting++;
	*last = transfer;
	last = &transfer->next;
}

/*
 * Opens a stream, which lasts for limit_s seconds at most.
 */
void
ApiStream(const char *path, long limit_s, ApiPiece piece, ApiAnswer end,
		  void *context)
{
	ApiTransfer *transfer = prepare("GET", path, end, context);

	transfer->piece = piece;
	curl_easy_setopt(transfer->easy, CURLOPT_TIMEOUT, limit_s);
	under_way++;
	launch(transfer);
}

/* Returns the number of calls that have no answer yet, streams included. */
int
ApiWaiting(void)
{
	return waiting + under_way;
}

/*
 * Prepares a call without sending it.
 */
static ApiTransfer *
prepare(const char *method, const char *path, ApiAnswer answer, void *context)
{
	ApiTransfer *transfer = Alloc(sizeof(*transfer));
	char	   *url = Format("%s%s", kube.api, path);

	transfer->easy = curl_easy_init();
	if (transfer->easy == NULL)
		Die("out of memory");
	transfer->answer = answer;
	transfer->context = context;
	curl_easy_setopt(transfer->easy, CURLOPT_URL, url);
	curl_easy_setopt(transfer->easy, CURLOPT_CUSTOMREQUEST, method);
	curl_easy_setopt(transfer->easy, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(transfer->easy, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(transfer->easy, CURLOPT_CONNECTTIMEOUT, CONNECT_LIMIT_S);
	curl_easy_setopt(transfer->easy, CURLOPT_TCP_KEEPALIVE, 1L);
	curl_easy_setopt(transfer->easy, CURLOPT_USERAGENT,
					 "gpucredit-bridge/" BRIDGE_VERSION);
	curl_easy_setopt(transfer->easy, CURLOPT_WRITEFUNCTION, receive_data);
	curl_easy_setopt(transfer->easy, CURLOPT_WRITEDATA, transfer);
	curl_easy_setopt(transfer->easy, CURLOPT_PRIVATE, transfer);
	if (*kube.ca_file != '\0')
		curl_easy_setopt(transfer->easy, CURLOPT_CAINFO, kube.ca_file);
	if (*kube.cert_file != '\0')
	{
		curl_easy_setopt(transfer->easy, CURLOPT_SSLCERT, kube.cert_file);
		curl_easy_setopt(transfer->easy, CURLOPT_SSLKEY, kube.key_file);
	}
	free(url);
	return transfer;
}

/*
 * Reads the token if its file has changed. If the file cannot be read, the
 * previous token stays in use, as it may still be valid.
 */
static void
read_token(void)
{
	struct stat st;
	char	   *token;
	int			fd;
	ssize_t		n;

	if (*kube.token_file == '\0' || stat(kube.token_file, &st) != 0 ||
		(st.st_mtim.tv_sec == token_time.tv_sec &&
		 st.st_mtim.tv_nsec == token_time.tv_nsec && token_header != NULL))
		return;
	/* FileGet() cannot be used: kubelet's file is a symbolic link. */
	fd = open(kube.token_file, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	token = Alloc(65536);
	n = read(fd, token, 65535);
	close(fd);
	if (n > 0)
	{
		token[strcspn(token, " \t\r\n")] = '\0';
		free(token_header);
		token_header = Format("Authorization: Bearer %s", token);
		token_time = st.st_mtim;
	}
	free(token);
}

/*
 * Receives data: passes them to the stream's function, or collects the reply.
 */
static size_t
receive_data(char *data, size_t size, size_t n, void *context)
{
	ApiTransfer *transfer = context;
	size_t		len = size * n;
	long		status = 0;

	curl_easy_getinfo(transfer->easy, CURLINFO_RESPONSE_CODE, &status);
	if (transfer->piece != NULL && status == 200)
		return transfer->piece(data, len, transfer->context) ? len : 0;
	if (transfer->len + len > MOST_BYTES)
		return 0;
	if (transfer->len + len + 1 > transfer->room)
	{
		transfer->room = 2 * (transfer->len + len + 1);
		transfer->reply = realloc(transfer->reply, transfer->room);
		if (transfer->reply == NULL)
			Die("out of memory");
	}
	memcpy(transfer->reply + transfer->len, data, len);
	transfer->len += len;
	return len;
}

/*
 * Sends a call.
 */
static void
launch(ApiTransfer *transfer)
{
	if (multi == NULL)
	{
		curl_global_init(CURL_GLOBAL_DEFAULT);
		multi = curl_multi_init();
		if (multi == NULL)
			Die("out of memory");
	}
	read_token();
	if (token_header != NULL)
		transfer->headers = curl_slist_append(transfer->headers, token_header);
	transfer->headers = curl_slist_append(transfer->headers,
										  "Accept: application/json");
	/* Keeps curl from waiting for "100 Continue". */
	transfer->headers = curl_slist_append(transfer->headers, "Expect:");
	curl_easy_setopt(transfer->easy, CURLOPT_HTTPHEADER, transfer->headers);
	curl_multi_add_handle(multi, transfer->easy);
}

/*
 * Starts queued calls, waits for events on all connections and on one more
 * descriptor, and delivers answers.
 */
void
ApiTurn(int fd, short events, int timeout_ms)
{
	struct curl_waitfd other = {.fd = fd};
	int			running;
	int			left;
	CURLMsg    *message;

	while (first != NULL && under_way < MOST_AT_ONCE)
	{
		ApiTransfer *transfer = first;

		first = transfer->next;
		if (first == NULL)
			last = &first;
		waiting--;
		under_way++;
		launch(transfer);
	}
	other.events = (events & POLLIN ? CURL_WAIT_POLLIN : 0) |
		(events & POLLOUT ? CURL_WAIT_POLLOUT : 0);
	if (multi == NULL)
	{
		struct pollfd plain = {.fd = fd, .events = events};

		poll(&plain, fd >= 0 ? 1 : 0, timeout_ms);
		return;
	}
	curl_multi_perform(multi, &running);
	curl_multi_poll(multi, &other, fd >= 0 ? 1 : 0, timeout_ms, NULL);
	curl_multi_perform(multi, &running);
	while ((message = curl_multi_info_read(multi, &left)) != NULL)
	{
		ApiTransfer *transfer;
		CURLcode	result = message->data.result;

		if (message->msg != CURLMSG_DONE)
			continue;
		curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE,
						  (char **) &transfer);
		finish(transfer, result);
	}
}

/*
 * Delivers the answer of a call.
 */
static void
finish(ApiTransfer *transfer, CURLcode result)
{
	long		status = 0;
	json_t	   *body = NULL;

	if (result == CURLE_OK)
		curl_easy_getinfo(transfer->easy, CURLINFO_RESPONSE_CODE, &status);
	else if (transfer->piece == NULL)
		LogLine("event=api_unreachable error=\"%s\"", curl_easy_strerror(result));
	if (transfer->len > 0)
		body = json_loadb(transfer->reply, transfer->len, 0, NULL);
	curl_multi_remove_handle(multi, transfer->easy);
	under_way--;
	transfer->answer(status, body, transfer->context);
	json_decref(body);
	curl_easy_cleanup(transfer->easy);
	curl_slist_free_all(transfer->headers);
	free(transfer->payload);
	free(transfer->reply);
	free(transfer);
}

/* Returns the API server's reason for a refusal, or an empty string. */
const char *
ApiProblem(json_t * body)
{
	const char *message = json_string_value(json_object_get(body, "message"));

	return message == NULL ? "" : message;
}
