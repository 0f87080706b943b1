/*-------------------------------------------------------------------------
 *
 * s3.c
 *		Sends requests to a bucket of any service with an S3 interface.
 *
 * Each request is a URL that is signed for a limited time: the URL contains
 * the bucket in its path, and a signature of version 4 in its query. No
 * message shows a URL or a key. A request that failed on the network, or
 * because of a fault of the service, is repeated.
 *-------------------------------------------------------------------------
 */
#include "s3.h"

#include <ctype.h>
#include <curl/curl.h>
#include <openssl/hmac.h>
#include <openssl/sha.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "log.h"

#define TRIES		6			/* takes 3 seconds in all if each attempt
								 * fails at once */
#define FIRST_WAIT	100000		/* microseconds; doubles after each attempt */
#define URL_LIFE	900			/* seconds for which a URL is valid */
#define ENCRYPTION	"x-amz-server-side-encryption"
#define KMS_KEY		ENCRYPTION "-aws-kms-key-id"
#define URL_MAX		8192

typedef struct Handle
{
	CURL	   *curl;			/* keeps its connection open */
	struct Handle *next;
} Handle;

/* A request that is under way. */
typedef struct S3Attempt
{
	CURL	   *curl;
	S3Request  *request;
	size_t		given;			/* bytes of the body that were sent */
	char		refusal[512];	/* the first bytes of the body of a refusal */
	size_t		refusal_size;
} S3Attempt;

static char *encryption = NULL; /* of packs by the service, or NULL for as the
								 * bucket says */
static const char *kms_key = NULL;	/* the key of aws:kms, or NULL */
static const char *access_key;
static const char *secret_key;
static char *session_token;		/* escaped for a query, or NULL */
static const char *region;
static char bucket[64];
static const char *prefix = "";
static const char *host;		/* host and port of the service */
static Handle *idle = NULL;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Whether a text needs no escapes in a path. */
static bool
is_plain(const char *word)
{
	return strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				  "0123456789-._/") == strlen(word);
}

static const char *
environment(const char *name, const char *otherwise)
{
	const char *value = getenv(name);

	return value != NULL && *value != '\0' ? value : otherwise;
}

/* Parses the bucket, the prefix and the service from the options. */
static bool
parse_place(void)
{
	const char *name = options.store + strlen("s3://");
	const char *slash = name + strcspn(name, "/");

	if (slash == name || slash - name >= (ptrdiff_t) sizeof(bucket) ||
		!is_plain(name) || name[strlen(name) - 1] == '/')
	{
		LogLine("\"%s\" is no s3://BUCKET[/PREFIX]", options.store);
		return false;
	}
	memcpy(bucket, name, slash - name);
	bucket[slash - name] = '\0';
	prefix = *slash == '/' ? slash + 1 : "";
	host = strstr(options.s3_endpoint, "://");
	host = host != NULL ? host + strlen("://") : "";
	if ((strncmp(options.s3_endpoint, "http://", 7) != 0 &&
		 strncmp(options.s3_endpoint, "https://", 8) != 0) ||
		*host == '\0' || strpbrk(host, "/?#@") != NULL)
	{
		LogLine("--s3-endpoint=\"%s\" is no http(s)://HOST[:PORT]", options.s3_endpoint);
		return false;
	}
	return true;
}

/*
 * Parses how the service is to encrypt packs. Its headers are part of each PUT
 * and of its signature.
 */
static bool
parse_encryption(void)
{
	const char *key;

	if (options.s3_encryption == NULL)
		return true;
	key = strchr(options.s3_encryption, ',');
	encryption = strndup(options.s3_encryption, strcspn(options.s3_encryption, ","));
	kms_key = key != NULL ? key + 1 : NULL;
	if (encryption == NULL)
		return false;
	if ((strcmp(encryption, "aws:kms") == 0 &&
		 (kms_key == NULL || (*kms_key != '\0' && strlen(kms_key) <= 200 &&
							  kms_key[strcspn(kms_key, " \t\r\n")] == '\0'))) ||
		strcmp(options.s3_encryption, "AES256") == 0)
		return true;
	LogLine("--s3-encryption=\"%s\" is neither AES256 nor aws:kms[,KEY]",
			options.s3_encryption);
	return false;
}

/* Returns how the service has to encrypt packs, or NULL for as the bucket says. */
const char *
s3_encryption(void)
{
	return encryption;
}

bool
s3_open(void)
{
	const char *token = environment("AWS_SESSION_TOKEN", NULL);

	access_key = environment("AWS_ACCESS_KEY_ID", NULL);
	secret_key = environment("AWS_SECRET_ACCESS_KEY", NULL);
	region = environment("AWS_REGION", environment("AWS_DEFAULT_REGION", "us-east-1"));
	if (!parse_place() || !parse_encryption())
		return false;
	if (access_key == NULL || secret_key == NULL || strlen(secret_key) > 200)
	{
		LogLine("a store in S3 needs AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY");
		return false;
	}
	if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
		return false;
	session_token = token != NULL ? s3_encode(token) : NULL;
	return true;
}

/*
 * Returns the prefix of the names of objects, without the slash that follows
 * it.
 */
const char *
s3_prefix(void)
{
	return prefix;
}

/*
 * Escapes a text for a query. The caller frees it. Returns NULL only if memory
 * runs out.
 */
char *
s3_encode(const char *word)
{
	char	   *encoded = curl_easy_escape(NULL, word, 0);
	char	   *copy = encoded != NULL ? strdup(encoded) : NULL;

	curl_free(encoded);
	return copy;
}

static void
to_hex(const unsigned char *bytes, char *hex)
{
	for (int i = 0; i < SHA256_DIGEST_LENGTH; i++)
		sprintf(hex + 2 * i, "%02x", bytes[i]);
}

/*
 * Computes an HMAC with a key of "size" bytes. The result may serve as the key
 * of the next one.
 */
static void
sign_word(unsigned char *result, const void *key, int size, const char *word)
{
	HMAC(EVP_sha256(), key, size, (const unsigned char *) word, strlen(word),
		 result, NULL);
}

/*
 * Computes the signature of a request's canonical form, with a key that is
 * valid for a day, a region and a service.
 */
static void
signature_of(const char *canonical, const char *instant, const char *scope, char *hex)
{
	char		text[512];
	char		digest[2 * SHA256_DIGEST_LENGTH + 1];
	char		first[256];
	unsigned char key[SHA256_DIGEST_LENGTH];
	unsigned char next[SHA256_DIGEST_LENGTH];
	char		day[9] = "";

	SHA256((const unsigned char *) canonical, strlen(canonical), key);
	to_hex(key, digest);
	snprintf(text, sizeof(text), "AWS4-HMAC-SHA256\n%s\n%s\n%s", instant, scope,
			 digest);
	memcpy(day, instant, 8);
	snprintf(first, sizeof(first), "AWS4%s", secret_key);
	sign_word(key, first, strlen(first), day);
	sign_word(next, key, sizeof(key), region);
	sign_word(key, next, sizeof(next), "s3");
	sign_word(next, key, sizeof(key), "aws4_request");
	sign_word(key, next, sizeof(next), text);
	to_hex(key, hex);
}

/* Whether a request asks the service to encrypt what it sends. */
static bool
is_encrypted(const S3Request *request)
{
	return encryption != NULL && strcmp(request->method, "PUT") == 0;
}

/*
 * Writes the canonical form of the headers that are signed, and their names in
 * order. The service refuses headers of its own that are not signed.
 */
static void
canonical_headers(const S3Request *request, char *headers, size_t max, char *names,
				  size_t names_max)
{
	bool		encrypts = is_encrypted(request);
	bool		has_key = encrypts && kms_key != NULL;

	snprintf(headers, max, "host:%s\n%s%s%s%s%s%s", host,
			 encrypts ? ENCRYPTION ":" : "", encrypts ? encryption : "",
			 encrypts ? "\n" : "", has_key ? KMS_KEY ":" : "",
			 has_key ? kms_key : "", has_key ? "\n" : "");
	snprintf(names, names_max, "host%s%s", encrypts ? ";" ENCRYPTION : "",
			 has_key ? ";" KMS_KEY : "");
}

/*
 * Builds the URL of a request, signed from now on. Returns false if it is too
 * long.
 */
static bool
sign_url(const S3Request *request, char *url)
{
	char		instant[32];
	char		scope[128];
	char		credential[256];
	char		query[URL_MAX];
	char		path[1024];
	char		headers[1024];
	char		names[128];
	char		canonical[URL_MAX + 4096];
	char		signature[2 * SHA256_DIGEST_LENGTH + 1];
	char	   *encoded;
	char	   *encoded_names;
	struct tm	tm;
	time_t		now = time(NULL);

	strftime(instant, sizeof(instant), "%Y%m%dT%H%M%SZ", gmtime_r(&now, &tm));
	snprintf(scope, sizeof(scope), "%.8s/%s/s3/aws4_request", instant, region);
	snprintf(credential, sizeof(credential), "%s/%s", access_key, scope);
	canonical_headers(request, headers, sizeof(headers), names, sizeof(names));
	encoded = s3_encode(credential);
	encoded_names = s3_encode(names);
	if (encoded == NULL || encoded_names == NULL)
	{
		free(encoded);
		free(encoded_names);
		return false;
	}
	snprintf(query, sizeof(query), "X-Amz-Algorithm=AWS4-HMAC-SHA256"
			 "&X-Amz-Credential=%s&X-Amz-Date=%s&X-Amz-Expires=%d%s%s"
			 "&X-Amz-SignedHeaders=%s%s%s", encoded, instant, URL_LIFE,
			 session_token != NULL ? "&X-Amz-Security-Token=" : "",
			 session_token != NULL ? session_token : "", encoded_names,
			 request->query != NULL ? "&" : "",
			 request->query != NULL ? request->query : "");
	free(encoded);
	free(encoded_names);
	snprintf(path, sizeof(path), "/%s%s%s%s%s", bucket,
			 *request->key != '\0' ? "/" : "",
			 *request->key != '\0' ? prefix : "",
			 *request->key != '\0' && *prefix != '\0' ? "/" : "", request->key);
	snprintf(canonical, sizeof(canonical), "%s\n%s\n%s\n%s\n%s\n"
			 "UNSIGNED-PAYLOAD", request->method, path, query, headers, names);
	signature_of(canonical, instant, scope, signature);
	return snprintf(url, URL_MAX, "%s%s?%s&X-Amz-Signature=%s", options.s3_endpoint,
					path, query, signature) < URL_MAX;
}

/*
 * Receives a part of the answer's body. Of a refusal, only the beginning is
 * kept.
 */
static size_t
receive_body(char *data, size_t one, size_t size, void *arg)
{
	S3Attempt  *attempt = arg;
	S3Request  *request = attempt->request;
	size_t		room = sizeof(attempt->refusal) - 1 - attempt->refusal_size;
	long		status = 0;

	(void) one;
	curl_easy_getinfo(attempt->curl, CURLINFO_RESPONSE_CODE, &status);
	if (status >= 300)
	{
		room = size < room ? size : room;
		memcpy(attempt->refusal + attempt->refusal_size, data, room);
		attempt->refusal_size += room;
		return size;
	}
	if (request->into == NULL)
		return size;
	if (size > request->room - request->got)
		return 0;				/* more than was requested */
	memcpy(request->into + request->got, data, size);
	request->got += size;
	return size;
}

/* Copies the value of a header line, if it has this name. */
static void
keep_header(const char *line, size_t size, const char *name, char *value, size_t max)
{
	size_t		n = strlen(name);

	if (size < n || strncasecmp(line, name, n) != 0)
		return;
	while (n < size && line[n] == ' ')
		n++;
	while (size > n && isspace((unsigned char) line[size - 1]))
		size--;
	snprintf(value, max, "%.*s", (int) (size - n), line + n);
}

static size_t
receive_header(char *line, size_t one, size_t size, void *arg)
{
	S3Request  *request = ((S3Attempt *) arg)->request;

	(void) one;
	keep_header(line, size, "ETag:", request->etag, sizeof(request->etag));
	keep_header(line, size, "Content-Range:", request->range, sizeof(request->range));
	keep_header(line, size, ENCRYPTION ":", request->encryption,
				sizeof(request->encryption));
	return size;
}

static size_t
send_body(char *buffer, size_t one, size_t max, void *arg)
{
	S3Attempt  *attempt = arg;
	size_t		n = attempt->request->body_size - attempt->given;

	(void) one;
	n = n < max ? n : max;
	memcpy(buffer, attempt->request->body + attempt->given, n);
	attempt->given += n;
	return n;
}

/* Sets libcurl's options for one attempt. */
static void
set_options(S3Attempt *attempt, const char *url, struct curl_slist *headers)
{
	CURL	   *curl = attempt->curl;
	S3Request  *request = attempt->request;

	curl_easy_reset(curl);
	curl_easy_setopt(curl, CURLOPT_URL, url);
	curl_easy_setopt(curl, CURLOPT_PATH_AS_IS, 1L);
	curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
	curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, 10L);
	curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
	curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, (long) options.idle);
	curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, receive_body);
	curl_easy_setopt(curl, CURLOPT_WRITEDATA, attempt);
	curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, receive_header);
	curl_easy_setopt(curl, CURLOPT_HEADERDATA, attempt);
	if (strcmp(request->method, "HEAD") == 0)
		curl_easy_setopt(curl, CURLOPT_NOBODY, 1L);
	else if (strcmp(request->method, "PUT") == 0)
	{
		curl_easy_setopt(curl, CURLOPT_UPLOAD, 1L);
		curl_easy_setopt(curl, CURLOPT_INFILESIZE_LARGE, (curl_off_t) request->body_size);
		curl_easy_setopt(curl, CURLOPT_READFUNCTION, send_body);
		curl_easy_setopt(curl, CURLOPT_READDATA, attempt);
	}
	else
		curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, request->method);
}

/* Makes one attempt. Returns the HTTP status, or 0 and the reason. */
static long
try_once(CURL * curl, S3Request *request, char *why, size_t max)
{
	S3Attempt	attempt = {.curl = curl, .request = request};
	char		url[URL_MAX];
	char		host_header[300];
	char		encryption_header[300];
	char		key_header[300];
	struct curl_slist *headers = NULL;
	CURLcode	code;
	long		status = 0;
	const char *word;

	if (!sign_url(request, url))
	{
		snprintf(why, max, "its URL is too long");
		return 0;
	}
	snprintf(host_header, sizeof(host_header), "Host: %s", host);
	headers = curl_slist_append(headers, host_header);
	headers = curl_slist_append(headers, "Expect:");
	if (request->header != NULL)
		headers = curl_slist_append(headers, request->header);
	if (is_encrypted(request))
	{
		snprintf(encryption_header, sizeof(encryption_header), ENCRYPTION ": %s", encryption);
		headers = curl_slist_append(headers, encryption_header);
		if (kms_key != NULL)
		{
			snprintf(key_header, sizeof(key_header), KMS_KEY ": %s", kms_key);
			headers = curl_slist_append(headers, key_header);
		}
	}
	request->got = 0;
	request->etag[0] = request->range[0] = request->encryption[0] = '\0';
	set_options(&attempt, url, headers);
	code = curl_easy_perform(curl);
	curl_slist_free_all(headers);
	if (code == CURLE_OK)
		curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
	word = strstr(attempt.refusal, "<Code>");
	snprintf(request->refusal, sizeof(request->refusal), "%.*s",
			 word != NULL ? (int) strcspn(word + 6, "<") : 0, word != NULL ? word + 6 : "");
	snprintf(why, max, "%s %s", code != CURLE_OK ? curl_easy_strerror(code) :
			 "the service refuses", request->refusal);
	return status;
}

/* Returns an idle handle with its connection, or a new one. */
static Handle *
acquire_handle(void)
{
	Handle	   *handle;

	pthread_mutex_lock(&lock);
	handle = idle;
	if (handle != NULL)
		idle = handle->next;
	pthread_mutex_unlock(&lock);
	if (handle == NULL)
	{
		handle = calloc(1, sizeof(Handle));
		if (handle != NULL)
			handle->curl = curl_easy_init();
	}
	return handle;
}

static void
release_handle(Handle *handle)
{
	pthread_mutex_lock(&lock);
	handle->next = idle;
	idle = handle;
	pthread_mutex_unlock(&lock);
}

/*
 * Sends a request. Returns the HTTP status of the answer, or 0 if there was
 * none. A status of 300 or more is logged, unless the object does not exist.
 */
long
s3_request(S3Request *request)
{
	Handle	   *handle = acquire_handle();
	unsigned int wait = FIRST_WAIT;
	char		why[256] = "out of memory";
	long		status = 0;

	if (handle != NULL && handle->curl != NULL)
	{
		for (int i = 0; i < TRIES; i++)
		{
			if (i > 0)
			{
				usleep(wait);
				wait *= 2;
			}
			status = try_once(handle->curl, request, why, sizeof(why));
			if (status != 0 && status != 429 && status < 500)
				break;
		}
	}
	if (handle != NULL)
		release_handle(handle);
	if (status != 404 && (status < 200 || status >= 300))
		LogLine("S3: %s %s: %ld %s", request->method,
				*request->key != '\0' ? request->key : "of a list", status, why);
	return status;
}
