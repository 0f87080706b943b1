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

#define SCORE_DECIMALS		12	/* decimals of scores, of z and of its limits */

typedef struct ScoreStream
{
	NullableDatum org;			/* text */
	NullableDatum name;			/* text */
	Datum		mu;				/* mean of the calibration; numeric, like the
								 * other Datums */
	Datum		lambda;			/* weight of the newest score */
	Datum		one_minus_lambda;
	Datum		spread;			/* the limits' width times sigma */
	int64		t;				/* number of scores so far */
	Datum		z;				/* weighted mean of the scores */
	bool		signal;			/* z was outside of its limits when it was
								 * last stored */
	TimestampTz fold_after;		/* scores wait at least until then */
	bool		is_rate;		/* its limits are constant */
} ScoreStream;

typedef enum ScoreStreamLock
{
	STREAM_UNLOCKED,
	STREAM_LOCKED,				/* wait for the row's lock */
	STREAM_TRY_LOCK				/* find nothing if the row is locked */
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
