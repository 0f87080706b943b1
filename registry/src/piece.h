/*-------------------------------------------------------------------------
 *
 * piece.h
 *		Reads stored bytes in the order of a plan.
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
	json_t	   *list;			/* the plan's list of pieces */
	size_t		at;				/* index of the piece that is being read */
	int64_t		done;			/* bytes of that piece that were read */
	StoreReader reader;
	unsigned char *body;		/* decoded bytes of a piece that was in the
								 * plan */
	size_t		body_size;
} Pieces;

extern void pieces_init(Pieces *pieces, json_t * list);
extern ssize_t pieces_read(Pieces *pieces, void *buffer, size_t max);
extern void pieces_end(Pieces *pieces);

#endif							/* REGISTRYD_PIECE_H */
