/*-------------------------------------------------------------------------
 *
 * heartbeats.h
 *		The heartbeats of one call.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_HEARTBEATS_H
#define GPUCREDIT_HEARTBEATS_H

#include "util/args.h"
#include "job/run/meter.h"

/* One input, and what becomes of it. */
typedef struct AttemptBeat
{
	struct AttemptBeat *counts; /* the one of its attempt that does */
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
	bool		ordinary;		/* accepted, with nothing to cut */
	Attempt    *taken;			/* accepted: its attempt as it now is */
	bool		answered;
	MeterAnswer answer;
} AttemptBeat;

typedef struct Beats
{
	int			n;
	AttemptBeat *all;			/* in the order given */
	int			n_counting;
	AttemptBeat **counting;		/* one an attempt, by key */
	bool		reported;		/* any has progress or utilization */
} Beats;

typedef bool (*BeatTest) (const AttemptBeat *beat);

extern Beats BeatsTake(FunctionCallInfo fcinfo);
extern int	BeatsPick(const Beats *beats, BeatTest test, AttemptBeat **picked);
extern void BeatsArgKeys(Values *args, AttemptBeat *const *beats, int n);
extern void BeatsArgElapsed(Values *args, AttemptBeat *const *beats, int n);
extern void HeartbeatsArgReported(Values *args, AttemptBeat *const *beats,
								  int n);
extern AttemptBeat *BeatsFind(const Beats *beats, const Attempt *attempt);

#endif							/* GPUCREDIT_HEARTBEATS_H */
