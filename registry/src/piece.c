/*-------------------------------------------------------------------------
 *
 * piece.c
 *		Reads stored bytes in the order of a plan.
 *
 * A piece is [pack, first byte, length], or the bytes of a small file in
 * base64.
 *-------------------------------------------------------------------------
 */
#include "piece.h"

#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

void
pieces_init(Pieces *pieces, json_t * list)
{
	*pieces = (Pieces)
	{
		.list = json_incref(list)
	};
}

/* Returns the pack, the first byte or the length of a piece. */
static int64_t
piece_number(json_t * piece, size_t i)
{
	return json_integer_value(json_array_get(piece, i));
}

static void
close_body(Pieces *pieces)
{
	free(pieces->body);
	pieces->body = NULL;
}

/* Decodes a piece whose bytes are in the plan, once. */
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

/*
 * Returns how many bytes can be read contiguously: the remaining bytes of the
 * piece, plus the pieces that follow it in the same pack.
 */
static int64_t
bytes_ahead(const Pieces *pieces, int64_t length)
{
	json_t	   *piece = json_array_get(pieces->list, pieces->at);
	json_t	   *next;

	for (size_t i = pieces->at + 1; length < STORE_AHEAD; i++, piece = next)
	{
		next = json_array_get(pieces->list, i);
		if (!json_is_array(next) ||
			piece_number(next, 0) != piece_number(piece, 0) ||
			piece_number(next, 1) != piece_number(piece, 1) + piece_number(piece, 2))
			break;
		length += piece_number(next, 2);
	}
	return length;
}

/* Reads from the present piece. Returns 0 at its end, -1 after an error. */
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
	length = piece_number(piece, 2) - pieces->done;
	if (max > STORE_AHEAD)
		max = STORE_AHEAD;
	n = (size_t) length > max ? (ssize_t) max : length;
	if (n == 0)
		return 0;
	return store_read(&pieces->reader, piece_number(piece, 0),
					  piece_number(piece, 1) + pieces->done, buffer, n,
					  bytes_ahead(pieces, length)) ? n : -1;
}

/*
 * Reads the next bytes. Returns 0 at the end, -1 if they cannot be read.
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
	store_read_end(&pieces->reader);
	json_decref(pieces->list);
}
