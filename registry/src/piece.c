/*-------------------------------------------------------------------------
 *
 * piece.c
 *		Stored bytes, in the order in which a plan names them.
 *
 * A piece is [pack, first byte, length], or a small file's bytes in base64.
 *
 *-------------------------------------------------------------------------
 */
#include "piece.h"

#include <errno.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pack.h"

void
pieces_init(Pieces *pieces, json_t * list)
{
	*pieces = (Pieces)
	{
		.list = json_incref(list), .pack = -1, .fd = -1
	};
}

static void
close_body(Pieces *pieces)
{
	free(pieces->body);
	pieces->body = NULL;
}

/* Decodes a piece that came with the plan, once. */
static bool
open_body(Pieces *pieces, const char *base64)
{
	size_t		n = strlen(base64);

	if (pieces->body != NULL)
		return true;
	pieces->body = malloc(n / 4 * 3 + 1);
	if (pieces->body == NULL ||
		EVP_DecodeBlock(pieces->body, (const unsigned char *) base64, n) < 0)
		return false;
	pieces->body_size = n / 4 * 3;
	while (n > 0 && base64[n - 1] == '=')
	{
		pieces->body_size--;
		n--;
	}
	return true;
}

/* From the piece that is being read; 0 at its end, -1 after an error. */
static ssize_t
read_piece(Pieces *pieces, json_t * piece, void *buffer, size_t max)
{
	int64_t		length;
	ssize_t		n;

	if (json_is_string(piece))
	{
		if (!open_body(pieces, json_string_value(piece)))
			return -1;
		n = pieces->body_size - pieces->done;
		if ((size_t) n > max)
			n = max;
		memcpy(buffer, pieces->body + pieces->done, n);
		return n;
	}
	if (json_integer_value(json_array_get(piece, 0)) != pieces->pack)
	{
		if (pieces->fd >= 0)
			close(pieces->fd);
		pieces->pack = json_integer_value(json_array_get(piece, 0));
		pieces->fd = pack_open(pieces->pack);
	}
	length = json_integer_value(json_array_get(piece, 2)) - pieces->done;
	if ((size_t) length > max)
		length = max;
	if (pieces->fd < 0 || length == 0)
		return pieces->fd < 0 ? -1 : 0;
	do
	{
		n = pread(pieces->fd, buffer, length,
				  json_integer_value(json_array_get(piece, 1)) + pieces->done);
	} while (n < 0 && errno == EINTR);
	return n > 0 ? n : -1;		/* a pack that is too short is an error */
}

/*
 * The next bytes: 0 at the end, -1 if they cannot be read.
 */
ssize_t
pieces_read(Pieces *pieces, void *buffer, size_t max)
{
	for (;;)
	{
		json_t	   *piece = json_array_get(pieces->list, pieces->at);
		ssize_t		n;

		if (piece == NULL)
			return 0;
		n = read_piece(pieces, piece, buffer, max);
		if (n != 0)
		{
			pieces->done += n;
			return n;
		}
		pieces->at++;
		pieces->done = 0;
		close_body(pieces);
	}
}

void
pieces_end(Pieces *pieces)
{
	close_body(pieces);
	if (pieces->fd >= 0)
		close(pieces->fd);
	json_decref(pieces->list);
}
