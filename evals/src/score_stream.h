/*-------------------------------------------------------------------------
 *
 * score_stream.h
 *		The stream of production scores that observe() watches for drift.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_EVAL_SCORE_STREAM_H
#define GPUCREDIT_EVAL_SCORE_STREAM_H

#include "util/sql.h"

#define SCORE_DECIMALS		12	/* of scores, of z and of its limits */

typedef struct ScoreStream
{
	NullableDatum org;			/* text */
	NullableDatum name;			/* text */
	Datum		mu;				/* mean of the calibration; numeric, as the
								 * rest of them */
	Datum		lambda;			/* weight of the newest score */
	Datum		one_minus_lambda;
	Datum		spread;			/* width of the limits times sigma */
	int64		t;				/* scores so far */
	Datum		z;				/* weighted mean of these */
	bool		signal;			/* z was outside when it was last stored */
	TimestampTz fold_after;		/* until then scores are left to wait */
} ScoreStream;

typedef enum ScoreStreamLock
{
	STREAM_UNLOCKED,
	STREAM_LOCKED,				/* waits for the row's lock */
	STREAM_TRY_LOCK				/* finds nothing if the row is locked */
} ScoreStreamLock;

extern bool ScoreStreamFind(NullableDatum org, NullableDatum name,
							ScoreStreamLock lock, ScoreStream *stream);
extern void ScoreStreamRefuseUnknown(NullableDatum org, NullableDatum name);
extern bool ScoreStreamFoldIsDue(const ScoreStream *stream);
extern void ScoreStreamAdd(ScoreStream *stream, Datum score);
extern void ScoreStreamFoldWaiting(ScoreStream *stream);
extern void ScoreStreamStore(const ScoreStream *before, ScoreStream *stream);
extern Datum ScoreStreamHalfWidth(const ScoreStream *stream);
extern bool ScoreStreamIsOutside(const ScoreStream *stream, Datum half_width);

#endif							/* GPUCREDIT_EVAL_SCORE_STREAM_H */
