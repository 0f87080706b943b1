/*
 * stream.h
 *	  Runs a cluster, cycle after cycle, through a stream of jobs.
 */
#ifndef STREAM_H
#define STREAM_H

#include "world.h"

#define MOST_JOBS	160
#define MOST_PARTS	16
#define NOT_RESERVED	(-1)

typedef enum State
{
	STATE_COMES,
	STATE_WAITS,
	STATE_RUNS,
	STATE_OVER
} State;

typedef struct StreamJob
{
	State		state;
	int			gpus;
	int			share;
	DecideTopology topology;
	int64_t		cpu_milli;
	int64_t		comes;
	int64_t		wall;
	int64_t		expected;		/* <= wall */
	int64_t		runs;			/* <= wall */
	int64_t		started;
	int64_t		previous;		/* its start by the last cycle */
	int64_t		first_previous;
	int64_t		previous_since; /* time since which it has had a reservation
								 * in each cycle */
	int			n_parts;		/* number of parts of its run or its
								 * reservation */
	DecidePart	parts[MOST_PARTS];
} StreamJob;

typedef struct Stream
{
	int			n_nodes;
	int			gpus[MOST_PARTS];
	int			domain[MOST_PARTS];
	int64_t		cpu_milli;
	int			depth;
	int64_t		now;
	bool		unexpected;		/* something unexpected happened since the
								 * last cycle */
	int			n;
	StreamJob	jobs[MOST_JOBS];
	long		kept;			/* number of reservations that the next cycle
								 * made again */
	long		backfilled;		/* number of starts behind a reservation */
	long		refused;		/* number of requests that were kept from
								 * reserved devices */
	long		moved;			/* number of moved reservations behind which a
								 * job was allowed to start */
} Stream;

/* stream.c */
extern int64_t stream_turn(const Stream *stream, int job);
extern void stream_world(const Stream *stream, World *world);
extern void stream_previous(const Stream *stream, DecideInput *input,
							DecidePreviousReservation *previous,
							DecidePart *parts);

/* stream_promise.c */
extern char *stream_outlives(const World *world, const DecideResult *result);
extern char *stream_harmless(const World *world, const DecideInput *input,
							 const DecideResult *result, long *refused);
extern char *stream_in_the_way(const Stream *stream, const World *world,
							   const DecideResult *result, long *moved);

#endif							/* STREAM_H */
