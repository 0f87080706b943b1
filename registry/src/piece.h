/*-------------------------------------------------------------------------
 *
 * piece.h
 *		Reads stored bytes in the order of a plan.
 *
 *-------------------------------------------------------------------------
 */
#ifndef REGISTRYD_PIECE_H
#define REGISTRYD_PIECE_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "store.h"

typedef struct Pieces
{
	json_t	   *list;			/* of a plan */
	size_t		at;				/* the piece that is read */
	int64_t		done;			/* of it */
	StoreReader reader;
	unsigned char *body;		/* of a piece that came with the plan */
	size_t		body_size;
} Pieces;

extern void pieces_init(Pieces *pieces, json_t * list);
extern ssize_t pieces_read(Pieces *pieces, void *buffer, size_t max);
extern void pieces_end(Pieces *pieces);

#endif							/* REGISTRYD_PIECE_H */
