/*-------------------------------------------------------------------------
 *
 * store_s3.c
 *		Packs as objects of a bucket.
 *
 * An object cannot grow. Therefore a pack is written to an unnamed file, and
 * uploaded with each batch of chunks, before the daemon reports the batch to
 * the database. A daemon that is killed only leaves objects that are collected
 * like any other unused pack.
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "log.h"
#include "s3.h"
#include "store.h"

#define LIST_MAX	(4 * 1024 * 1024)	/* a page of 1,000 objects is shorter */
#define MD5_SIZE	16

/*
 * Opens an unnamed file for a pack. A new pack's number may have an object
 * already; see new_pack().
 */
static int
s3_create(int64_t number)
{
	char		path[STORE_PATH];
	S3Request	request = {.method = "HEAD", .key = path};
	const char *folder = getenv("TMPDIR");
	long		status;

	store_path(number, path);
	status = s3_request(&request);
	if (status != 404)
	{
		errno = status == 200 ? EEXIST : EIO;
		return -1;
	}
	return open(folder != NULL ? folder : "/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
}

/*
 * Uploads an object. The service verifies the MD5 in the request, and the
 * daemon the one in the answer.
 */
static bool
put_bytes(const char *path, const char *bytes, size_t size)
{
	unsigned char md5[MD5_SIZE];
	char		hex[2 * MD5_SIZE + 3];
	char		header[64] = "Content-MD5: ";
	S3Request	request = {
		.method = "PUT", .key = path, .header = header, .body = bytes,
		.body_size = size
	};

	if (EVP_Digest(bytes, size, md5, NULL, EVP_md5(), NULL) != 1)
		return false;
	EVP_EncodeBlock((unsigned char *) header + strlen(header), md5, MD5_SIZE);
	if (s3_request(&request) != 200)
		return false;
	if (s3_encryption() != NULL && strcmp(request.encryption, s3_encryption()) != 0)
	{
		LogLine("S3: PUT %s: the service does not say that it encrypted it by %s", path,
				s3_encryption());
		return false;
	}
	hex[0] = '"';
	for (int i = 0; i < MD5_SIZE; i++)
		sprintf(hex + 1 + 2 * i, "%02x", md5[i]);
	hex[2 * MD5_SIZE + 1] = '"';
	hex[2 * MD5_SIZE + 2] = '\0';
	if (strcmp(request.etag, hex) == 0 || strncmp(request.encryption, "aws:kms", 7) == 0)
		return true;
	LogLine("S3: PUT %s: the ETag is %s, not %s", path, request.etag, hex);
	return false;
}

/* Uploads the object of a pack with the bytes that were written. */
static bool
s3_put(int64_t number, int fd, size_t size)
{
	char		path[STORE_PATH];
	char	   *bytes = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
	bool		good;

	if (bytes == MAP_FAILED)
	{
		LogLine("could not read pack %" PRId64 ": %s", number, strerror(errno));
		return false;
	}
	store_path(number, path);
	good = put_bytes(path, bytes, size);
	munmap(bytes, size);
	return good;
}

/*
 * Reads bytes of an object. The answer must contain the requested bytes, or
 * all up to the end.
 */
static ssize_t
s3_read(int64_t number, int64_t at, void *buffer, size_t size)
{
	char		path[STORE_PATH];
	char		header[80];
	S3Request	request = {
		.method = "GET", .key = path, .header = header, .into = buffer, .room = size
	};
	int64_t		first;
	int64_t		last;
	int64_t		all;
	long		status;

	store_path(number, path);
	snprintf(header, sizeof(header), "Range: bytes=%" PRId64 "-%" PRId64, at,
			 at + (int64_t) size - 1);
	status = s3_request(&request);
	if (status == 206 && sscanf(request.range, "bytes %" SCNd64 "-%" SCNd64
								"/%" SCNd64, &first, &last, &all) == 3 &&
		first == at && last - first + 1 == (int64_t) request.got &&
		(request.got == size || last + 1 == all))
		return request.got;
	LogLine("S3: GET %s: %zu bytes from byte %" PRId64 ": %ld, %zu bytes, \"%s\"", path,
			size, at, status, request.got, request.range);
	errno = status == 206 || status == 416 ||
		(status == 404 && strcmp(request.refusal, "NoSuchBucket") != 0) ? EIO : ENOTCONN;
	return -1;
}

static bool
s3_delete(int64_t number)
{
	char		path[STORE_PATH];
	S3Request	request = {.method = "DELETE", .key = path};
	long		status;

	store_path(number, path);
	status = s3_request(&request);
	return status == 404 || (status >= 200 && status < 300);
}

/*
 * Returns the text of an XML element without children, or NULL if there is no
 * such element.
 */
static char *
element(const char *from, const char *end, const char *name, char *value, size_t max)
{
	const char *at = strstr(from, name);
	size_t		n;

	if (at == NULL || at >= end)
		return NULL;
	at += strlen(name);
	n = strcspn(at, "<");
	if (n >= max)
		return NULL;
	memcpy(value, at, n);
	value[n] = '\0';
	return value;
}

/* Handles the objects on a page of the list. */
static void
list_page(const char *page, StoredPackCallback callback, void *arg)
{
	const char *end;

	for (const char *at = page; (at = strstr(at, "<Contents>")) != NULL; at = end)
	{
		char		key[256];
		char		size[32];
		char		changed[64];
		char		path[STORE_PATH];
		const char *name;
		struct tm	tm = {0};
		StoredPack	pack;

		end = strstr(at, "</Contents>");
		if (end == NULL)
			return;
		if (element(at, end, "<Key>", key, sizeof(key)) == NULL ||
			element(at, end, "<Size>", size, sizeof(size)) == NULL ||
			element(at, end, "<LastModified>", changed, sizeof(changed)) == NULL ||
			strptime(changed, "%Y-%m-%dT%H:%M:%S", &tm) == NULL)
			continue;
		name = strrchr(key, '/');
		if (name == NULL || !store_number(name + 1, &pack.number))
			continue;
		store_path(pack.number, path);
		if (strlen(key) < strlen(path) ||
			strcmp(key + strlen(key) - strlen(path), path) != 0)
			continue;			/* it is not one of the daemon's packs */
		pack.size = strtoll(size, NULL, 10);
		pack.changed = timegm(&tm);
		callback(arg, &pack);
	}
}

/*
 * Lists one page. "token" becomes the token of the next page, or "" after the
 * last. Returns false if the page cannot be read.
 */
static bool
list_from(char *token, size_t max, char *page, StoredPackCallback callback, void *arg)
{
	char		query[4096];
	char		prefix[1024];
	char	   *from = s3_encode(token);
	S3Request	request = {
		.method = "GET", .key = "", .query = query, .into = page, .room = LIST_MAX - 1
	};
	char	   *encoded;
	char		more[8];

	snprintf(prefix, sizeof(prefix), "%s%s", s3_prefix(),
			 *s3_prefix() != '\0' ? "/" : "");
	encoded = s3_encode(prefix);
	if (from == NULL || encoded == NULL)
	{
		free(from);
		free(encoded);
		return false;
	}
	snprintf(query, sizeof(query), "%s%s%slist-type=2&prefix=%s",
			 *token != '\0' ? "continuation-token=" : "", from,
			 *token != '\0' ? "&" : "", encoded);
	free(from);
	free(encoded);
	if (s3_request(&request) != 200)
		return false;
	page[request.got] = '\0';
	list_page(page, callback, arg);
	if (element(page, page + request.got, "<IsTruncated>", more, sizeof(more)) == NULL ||
		strcmp(more, "true") != 0)
		*token = '\0';
	else if (element(page, page + request.got, "<NextContinuationToken>", token,
					 max) == NULL)
		return false;
	return true;
}

/* Lists all packs, page by page. */
static bool
s3_list(StoredPackCallback callback, void *arg)
{
	char		token[2048] = "";
	char	   *page = malloc(LIST_MAX);
	bool		good = page != NULL;

	while (good)
	{
		good = list_from(token, sizeof(token), page, callback, arg);
		if (*token == '\0')
			break;
	}
	free(page);
	return good;
}

const StoreDriver store_s3 = {
	.remote = true, .open = s3_open, .create = s3_create, .put = s3_put,
	.read = s3_read, .delete = s3_delete, .list = s3_list
};
