/*
 * timeline.h
 *	  What will be given back, what is promised, and what a job sees of it.
 */
#ifndef DECIDE_TIMELINE_H
#define DECIDE_TIMELINE_H

#include "decide/core.h"

/* Something that has part of a host now gives it back. */
typedef struct End
{
	int64_t		at;				/* as expected */
	int64_t		limit;			/* at the latest */
	int32_t		start;			/* the cycle's start it is of, -1: it runs */
	int32_t		host;
	int32_t		share;
	int32_t		next;			/* of the same host, -1: none */
	DecidePart	part;			/* of it, what is usable */
} End;

/* Part of a host is promised to a job that waits. */
typedef struct Reservation
{
	int64_t		from;
	int64_t		until;			/* as expected */
	int64_t		limit;			/* if it starts at from */
	int64_t		limit_until;	/* if all runs as long as it may */
	int32_t		after;			/* so many starts came before it */
	int32_t		host;
	int32_t		share;
	int32_t		yields;			/* to what is due to jobs of ranks up to this;
								 * INT32_MIN: to nobody */
	int32_t		next;			/* of the same host, -1: none */
	DecidePart	part;
} Reservation;

/* So much is left on a host. */
typedef struct Remaining
{
	int64_t		cpu;
	int64_t		memory;
	uint16_t	devices[DECIDE_MAX_DEVICES];
	int64_t		gpu_memory_used[DECIDE_MAX_DEVICES];
} Remaining;

/* What a host has left beside one of its holds, when that starts. */
typedef struct RemainingAt
{
	int64_t		from;
	Remaining	left;
	Remaining	least;			/* from now until then */
} RemainingAt;

/* What is worked out of a host with holds until it changes. */
typedef struct HostView
{
	RemainingAt *besides;		/* of its holds, by time */
	int32_t    *order;			/* its holds by time */
	int32_t		n;
	int32_t		capacity;
	int32_t		order_capacity;
	bool		fresh;
} HostView;

/* Scratch of a search, by host; scopes go by their lowest host. */
typedef struct TimeSearch
{
	int32_t    *scope;			/* -1: no host of this search */
	int32_t    *bound;			/* no more than so many devices */
	int32_t    *capacity;		/* of the last look */
	int32_t    *stale;			/* next of the scope to look at again */
	bool	   *is_stale;
	int64_t    *scope_bound;
	int64_t    *scope_capacity;
	int32_t    *scope_stale;	/* first to look at again, -1: none */
	int32_t    *touched;		/* scopes that may have grown */
	bool	   *is_touched;
} TimeSearch;

/* What will be given back and what is promised. */
typedef struct Timeline
{
	End		   *ends;
	int32_t		n_ends;
	int32_t		ends_capacity;
	int32_t    *by_time;		/* those that end at all */
	int32_t		n_by_time;
	int32_t		by_time_capacity;
	int32_t    *first_end;		/* by host, -1: none */
	Reservation *holds;			/* in the order they were made */
	int32_t		n_holds;
	int32_t		holds_capacity;
	int32_t    *by_from;		/* all holds by when they start */
	int32_t		by_from_capacity;
	int32_t    *by_until;		/* and by when they are over */
	int32_t		by_until_capacity;
	int32_t    *first_hold;		/* by host, -1: none */
	int32_t    *held;			/* hosts with holds */
	int32_t		n_held;
	HostView   *views;			/* by host */
	Host	   *truth;			/* by host: all that is free on a held one */
	Host	   *future;			/* the hosts at another time */
	int64_t		shown;			/* hosts are as a job of this limit sees them */
	int32_t    *node_host;		/* host of each node */
	TimeSearch	search;
	int32_t		n_promises;		/* so many of the promises are among the holds */
} Timeline;

/* timeline.c */
extern bool DecideTimelineOpen(Cycle *cycle, int64_t wall_limit);
extern bool DecideTimelineClaims(Cycle *cycle);
extern bool DecideTimelineStart(Cycle *cycle, int32_t start,
								const DecidePart *part);
extern bool DecideTimelineHold(Cycle *cycle, const Reservation *hold);
extern int64_t DecideTimeAdd(int64_t at, int64_t run);
extern int64_t DecideJobRun(const DecideInput *input, int32_t job);

extern const Host *DecideAvailabilityNow(const Cycle *cycle, int32_t index);
extern void DecideAvailabilityShow(Cycle *cycle, int64_t wall_limit);
extern bool DecideAvailabilityAlike(const Cycle *cycle, int64_t a, int64_t b);
extern void DecideAvailabilityAt(const Cycle *cycle, int32_t host, int64_t at,
								 int64_t wall_limit, Host *seen);
extern uint64_t DecideAvailabilityReserved(const Cycle *cycle, int32_t host);

/* search.c */
#define DECIDE_OUT_OF_MEMORY	INT64_MIN

extern int64_t DecideSearch(Cycle *cycle, const DecideRequestClass *request,
							const DecideOffer *offer, int64_t floor,
							int64_t before);

#endif							/* DECIDE_TIMELINE_H */
