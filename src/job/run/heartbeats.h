/*-------------------------------------------------------------------------
 *
 * heartbeats.h
 *		The heartbeats that one call of meter_batch reports.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_HEARTBEATS_H
#define GPUCREDIT_HEARTBEATS_H

#include "util/args.h"
#include "job/run/meter.h"

/* one heartbeat of a call, and what becomes of it */
typedef struct AttemptBeat
{
	struct AttemptBeat *counts; /* the heartbeat that counts for the same
								 * attempt */
	Datum		org_datum;
	char	   *org;
	int64		job;
	int32		attempt;
	int64		elapsed;
	Datum		elapsed_datum;
	Datum		progress;
	bool		progress_null;
	Datum		utilization;
	bool		utilization_null;
	bool		ordinary;		/* whether it was accepted with nothing to cut */
	Attempt    *taken;			/* state of its attempt after it was accepted,
								 * or NULL */
	bool		answered;
	MeterAnswer answer;
} AttemptBeat;

typedef struct Beats
{
	int			n;
	AttemptBeat *all;			/* in the order of the arguments */
	int			n_counting;
	AttemptBeat **counting;		/* one for each attempt, sorted by key */
	bool		reported;		/* whether any has progress or utilization */
} Beats;

typedef bool (*BeatTest) (const AttemptBeat *beat);

extern Beats ParseHeartbeats(FunctionCallInfo fcinfo);
extern int	BeatsPick(const Beats *beats, BeatTest test, AttemptBeat **picked);
extern void BeatsArgKeys(Values *args, AttemptBeat *const *beats, int n);
extern void BeatsArgElapsed(Values *args, AttemptBeat *const *beats, int n);
extern void HeartbeatsArgReported(Values *args, AttemptBeat *const *beats,
								  int n);
extern AttemptBeat *BeatsFind(const Beats *beats, const Attempt *attempt);

#endif							/* GPUCREDIT_HEARTBEATS_H */
