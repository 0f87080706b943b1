/*-------------------------------------------------------------------------
 *
 * console.c
 *		Serves the console's files.
 *
 * The files are read once, when the daemon starts, and an address is compared
 * with their names without decoding, so that no address reaches a file that is
 * not in the list. An address below /console/ that names no file is a page of
 * the console, for which index.html is sent. A file X.gz is sent in place of X
 * to clients that accept gzip.
 *-------------------------------------------------------------------------
 */
#include "console.h"

#include <sys/types.h>
#include <sys/stat.h>
#include <fts.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "etag.h"
#include "log.h"
#include "options.h"
#include "problem.h"

#define PREFIX		"/console/"
#define HASHED		"assets/"	/* names of files in this folder contain their
								 * digest */
#define FILE_MAX	(8 * 1024 * 1024)

/*
 * Allows scripts, styles and pictures only from the daemon itself, and forbids
 * frames.
 */
#define POLICY	"default-src 'none'; script-src 'self'; style-src 'self'; " \
	"img-src 'self' data:; connect-src 'self'; base-uri 'none'; " \
	"form-action 'none'; frame-ancestors 'none'"

typedef struct ConsoleFile
{
	char	   *name;			/* relative to the folder */
	const char *type;
	char		etag[ETAG_SIZE];
	char	   *content;
	size_t		size;
	struct ConsoleFile *packed; /* the same file compressed by gzip, or NULL */
	struct ConsoleFile *next;
}			ConsoleFile;

static ConsoleFile * files = NULL;

static ConsoleFile *
find_file(const char *name, size_t length)
{
	for (ConsoleFile * file = files; file != NULL; file = file->next)
		if (strlen(file->name) == length && memcmp(file->name, name, length) == 0)
			return file;
	return NULL;
}

/*
 * Returns the media type of a file by its suffix, or NULL if such files are
 * not served.
 */
static const char *
type_of(const char *name)
{
	static const struct
	{
		const char *ending;
		const char *type;
	}			table[] = {
		{".html", "text/html; charset=utf-8"},
		{".js", "text/javascript; charset=utf-8"},
		{".css", "text/css; charset=utf-8"},
		{".svg", "image/svg+xml"},
		{".png", "image/png"},
		{".webmanifest", "application/manifest+json"},
		{".gz", "application/gzip"}
	};
	const char *ending = strrchr(name, '.');

	for (size_t i = 0; ending != NULL && i < sizeof(table) / sizeof(table[0]); i++)
		if (strcmp(ending, table[i].ending) == 0)
			return table[i].type;
	return NULL;
}

/* Reads one file into the list. Returns false if it cannot be read. */
static bool
read_file(const char *path, const char *name, size_t size)
{
	ConsoleFile *file = calloc(1, sizeof(ConsoleFile));
	FILE	   *stream = fopen(path, "rb");
	bool		good = file != NULL && stream != NULL && size <= FILE_MAX &&
		(file->name = strdup(name)) != NULL && (file->content = malloc(size + 1)) != NULL &&
		fread(file->content, 1, size, stream) == size;

	if (stream != NULL)
		fclose(stream);
	if (!good)
	{
		LogLine("could not read \"%s\"", path);
		if (file != NULL)
		{
			free(file->name);
			free(file->content);
		}
		free(file);
		return false;
	}
	file->size = size;
	file->type = type_of(name);
	etag_make(file->etag, file->content, size);
	file->next = files;
	files = file;
	return true;
}

/* Links each file to its compressed version, if it has one. */
static void
find_packed(void)
{
	for (ConsoleFile * file = files; file != NULL; file = file->next)
	{
		size_t		length = strlen(file->name);

		if (length > 3 && strcmp(file->name + length - 3, ".gz") == 0)
		{
			ConsoleFile *plain = find_file(file->name, length - 3);

			if (plain != NULL)
				plain->packed = file;
		}
	}
}

bool
console_load(const char *folder)
{
	char	   *copy = strdup(folder);
	char	   *roots[] = {copy, NULL};
	FTS		   *walk = copy != NULL ? fts_open(roots, FTS_PHYSICAL | FTS_COMFOLLOW | FTS_NOCHDIR, NULL) : NULL;
	FTSENT	   *entry;
	bool		good = walk != NULL;

	while (good && (entry = fts_read(walk)) != NULL)
		if (entry->fts_info == FTS_F && type_of(entry->fts_name) != NULL)
			good = read_file(entry->fts_path,
							 entry->fts_path + strlen(folder) +
							 strspn(entry->fts_path + strlen(folder), "/"),
							 (size_t) entry->fts_statp->st_size);
	if (walk != NULL)
		fts_close(walk);
	free(copy);
	find_packed();
	return good && find_file("index.html", strlen("index.html")) != NULL;
}

static void
add_headers(struct MHD_Response *response)
{
	MHD_add_response_header(response, "Content-Security-Policy", POLICY);
	MHD_add_response_header(response, "Referrer-Policy", "no-referrer");
	MHD_add_response_header(response, "Cross-Origin-Opener-Policy", "same-origin");
	MHD_add_response_header(response, "Cross-Origin-Resource-Policy", "same-origin");
	MHD_add_response_header(response, "Permissions-Policy", "camera=(), geolocation=(), microphone=()");
}

static void
answer_redirect(WebRequest * request)
{
	request->status = 303;
	request->response = MHD_create_response_from_buffer(0, "", MHD_RESPMEM_PERSISTENT);
	MHD_add_response_header(request->response, "Location", PREFIX);
	add_headers(request->response);
}

/* Whether the client accepts gzip. */
static bool
unpacks(struct MHD_Connection *connection)
{
	const char *accepted = MHD_lookup_connection_value(connection, MHD_HEADER_KIND,
													   "Accept-Encoding");

	return accepted != NULL && strstr(accepted, "gzip") != NULL &&
		strstr(accepted, "gzip;q=0") == NULL;
}

/* Answers with a file, or with 304 if the client has it already. */
static void
answer_file(WebRequest * request, const ConsoleFile * file)
{
	const char *known = MHD_lookup_connection_value(request->connection, MHD_HEADER_KIND,
													"If-None-Match");
	const		ConsoleFile *sent = file->packed != NULL && unpacks(request->connection) ?
		file->packed : file;
	bool		has_it = known != NULL && strstr(known, sent->etag) != NULL;

	request->status = has_it ? 304 : 200;
	request->response = MHD_create_response_from_buffer(has_it ? 0 : sent->size, sent->content,
														MHD_RESPMEM_PERSISTENT);
	MHD_add_response_header(request->response, "Content-Type", file->type);
	MHD_add_response_header(request->response, "ETag", sent->etag);
	MHD_add_response_header(request->response, "Cache-Control",
							strncmp(file->name, HASHED, strlen(HASHED)) == 0 ?
							"public, max-age=31536000, immutable" : "no-cache");
	if (file->packed != NULL)
		MHD_add_response_header(request->response, "Vary", "Accept-Encoding");
	if (sent != file)
		MHD_add_response_header(request->response, "Content-Encoding", "gzip");
	add_headers(request->response);
}

bool
console_answer(WebRequest * request)
{
	size_t		length = strcspn(request->target, "?");
	const char *name = request->target + strlen(PREFIX);
	const		ConsoleFile *file;

	if (files == NULL)
		return false;
	if ((length == 1 && request->target[0] == '/') ||
		(length == strlen(PREFIX) - 1 && strncmp(request->target, PREFIX, length) == 0))
	{
		answer_redirect(request);
		return true;
	}
	if (strncmp(request->target, PREFIX, strlen(PREFIX)) != 0)
		return false;
	length -= strlen(PREFIX);
	file = find_file(name, length);
	if (file == NULL && strncmp(name, HASHED, strlen(HASHED)) != 0)
		file = find_file("index.html", strlen("index.html"));
	if (strcmp(request->method, "GET") != 0 && strcmp(request->method, "HEAD") != 0)
	{
		problem_answer(request, 405, "this address has other methods", "GET, HEAD", NULL);
		MHD_add_response_header(request->response, "Allow", "GET, HEAD");
	}
	else if (file == NULL)
		problem_answer(request, 404, "there is no such file", NULL, "Load the page again.");
	else
		answer_file(request, file);
	return true;
}
