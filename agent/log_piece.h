/*-------------------------------------------------------------------------
 *
 * log_piece.h
 *		Reads a piece of a job's output from the attempt's folder.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_AGENT_LOG_PIECE_H
#define GPUCREDIT_AGENT_LOG_PIECE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "attempts.h"

#define LOG_PIECE	(64 * 1024)

typedef struct LogPiece
{
	uint64_t	first;			/* position in the stream of the body's first
								 * byte */
	uint64_t	written;		/* number of bytes that the job has written */
	uint64_t	dropped;		/* how many of them the disk had no room for */
	bool		over;			/* nothing follows the body */
	char	   *message;		/* why there is no body, or NULL */
	size_t		len;			/* length of the body */
	char		body[LOG_PIECE];
} LogPiece;

extern const char *const LogStreams[2];

extern void LogPieceRead(const LocalAttempt *attempt, int stream,
						 uint64_t from, LogPiece *piece);
extern char *LogPieceHex(const LogPiece *piece);

#endif							/* GPUCREDIT_AGENT_LOG_PIECE_H */
