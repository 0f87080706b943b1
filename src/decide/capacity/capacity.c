/*
 * capacity.c
 *	  Computes how many devices a queue needs, as the README of this directory
 *	  describes.
 */
#include <string.h>

#include "decide/capacity/capacity.h"
#include "decide/core/core.h"

#define MILLION		INT64_C(1000000)
#define SLOTS		8			/* number of parts of the period that are
								 * compared */
#define WIDTH		1895		/* thousandths: nine in ten values of a t
								 * distribution with SLOTS - 1 degrees of
								 * freedom are within so many standard errors */
#define SHORTEST	INT64_C(1000000)	/* microseconds that a run counts at
										 * least */

typedef DeviceTime Wide;

typedef struct AccountWork
{
	Wide		ran;			/* device time of all its attempts */
	Wide		resolved_ran;	/* device time of attempts that have ended,
								 * including cancelled ones */
	Wide		resolved_asked; /* device time that their wall limits allowed */
	Wide		expected;		/* device time that is still to run, estimated
								 * by the two sums above */
} AccountWork;

typedef struct Estimate
{
	const CapacityQuestion *question;
	AccountWork *accounts;
	AccountWork all;
} Estimate;

static bool
counts(const CapacityQuestion *question, const CapacityWork *work)
{
	return work->arrived >= question->since &&
		work->arrived < question->until && work->devices > 0;
}

/*
 * How long a work has run by the end of the period.
 */
static int64_t
ran(const CapacityQuestion *question, const CapacityWork *work)
{
	int64_t		until = work->ended < question->until ? work->ended :
		question->until;

	if (work->started == DECIDE_NEVER || until <= work->started)
		return 0;
	return until - work->started;
}

static Wide
device_time(const CapacityWork *work, int64_t run)
{
	return DecideDeviceTime(work->devices, run);
}

/*
 * How much longer a work is expected to run: its wall limit times the part of
 * their wall limits for which its account's works have run.  For an account
 * without such works, those of all accounts count.
 */
static int64_t
expected_run(const Estimate *e, const CapacityWork *work)
{
	const AccountWork *account = &e->accounts[work->account];
	int64_t		elapsed = ran(e->question, work);
	int64_t		run;

	if (work->ended != DECIDE_NEVER || work->limit == DECIDE_NEVER)
		return 0;
	if (account->resolved_asked == 0)
		account = &e->all;
	if (account->resolved_asked == 0)
		return 0;
	/* in millionths, because no sum of device time exceeds 2^100 */
	run = (int64_t) ((Wide) work->limit / MILLION *
					 (account->resolved_ran * MILLION /
					  account->resolved_asked));
	run = run < work->limit ? run : work->limit;
	return run > elapsed ? run - elapsed : 0;
}

/*
 * Adds up what each account has run, and what is still to run.
 */
static void
accounts_add(Estimate *e, CapacityAnswer *answer)
{
	const CapacityQuestion *question = e->question;
	int32_t		i;

	for (i = 0; i < question->n_works; i++)
	{
		const CapacityWork *work = &question->works[i];
		AccountWork *account = &e->accounts[work->account];
		Wide		run = device_time(work, ran(question, work));

		if (!counts(question, work))
			continue;
		account->ran += run;
		e->all.ran += run;
		if (work->ended == DECIDE_NEVER)
			continue;
		answer->runs += work->started != DECIDE_NEVER;
		if (work->limit == DECIDE_NEVER)
			continue;
		account->resolved_ran += run;
		account->resolved_asked += device_time(work, work->limit);
		e->all.resolved_ran += run;
		e->all.resolved_asked += device_time(work, work->limit);
	}
	for (i = 0; i < question->n_works; i++)
	{
		const CapacityWork *work = &question->works[i];

		if (counts(question, work))
			e->accounts[work->account].expected +=
				device_time(work, expected_run(e, work));
	}
}

/*
 * How long a work runs in total, as far as its account's past runs support
 * that.
 */
static int64_t
proven_run(const Estimate *e, const CapacityWork *work)
{
	const AccountWork *account = &e->accounts[work->account];
	int64_t		more = expected_run(e, work);

	if (account->expected > account->ran)
		more = (int64_t) ((Wide) more * (account->ran / 1000) /
						  (account->expected / 1000 + 1));
	return ran(e->question, work) + more;
}

static int
compare_arrived(const void *context, int32_t a, int32_t b)
{
	const CapacityWork *works = context;

	if (works[a].arrived != works[b].arrived)
		return works[a].arrived < works[b].arrived ? -1 : 1;
	return a < b ? -1 : a > b;
}

static Wide
square_root(Wide square)
{
	Wide		root = 0;
	Wide		bit = (Wide) 1 << 63;

	for (; bit > 0; bit >>= 1)
	{
		if ((root + bit) * (root + bit) <= square)
			root += bit;
	}
	return root;
}

/*
 * Lists the arrivals that count, in order of time.  Returns false if memory
 * runs out.
 */
static bool
arrivals_make(const Estimate *e, const DecideArena *arena,
			  DecideArrival **arrivals, int32_t *n)
{
	const CapacityQuestion *question = e->question;
	int32_t    *order = DecideAlloc(arena, question->n_works, sizeof(int32_t));
	int32_t		i;

	*n = 0;
	*arrivals = DecideAlloc(arena, question->n_works, sizeof(DecideArrival));
	if (order == NULL || *arrivals == NULL)
		return false;
	for (i = 0; i < question->n_works; i++)
		order[i] = i;
	if (!DecideSort(arena, order, question->n_works, compare_arrived,
					question->works))
		return false;
	for (i = 0; i < question->n_works; i++)
	{
		const CapacityWork *work = &question->works[order[i]];
		int64_t		run = proven_run(e, work);

		if (counts(question, work) && run > 0)
			(*arrivals)[(*n)++] = (DecideArrival){
													.at = work->arrived, .devices = work->devices,
													.run = run > SHORTEST ? run : SHORTEST
				};
	}
	return true;
}

/*
 * Device time divided by the length of the period, in thousandths of a device.
 */
static int64_t
mean_devices(const CapacityQuestion *question, Wide time)
{
	Wide		mean = time / ((Wide) (question->until - question->since) /
							   1000);

	return mean < INT64_MAX / 4000 ? (int64_t) mean : INT64_MAX / 4000;
}

/*
 * Computes the load and its interval.
 */
static void
load_measure(const Estimate *e, const DecideArrival *arrivals, int32_t n,
			 CapacityAnswer *answer)
{
	const CapacityQuestion *question = e->question;
	int64_t		length = question->until - question->since;
	Wide		slots[SLOTS] = {0};
	Wide		sum = 0;
	Wide		squares = 0;
	Wide		spread = 0;
	int64_t		half;
	int32_t		i;

	for (i = 0; i < n; i++)
	{
		/* in seconds of whole devices, so that squares do not overflow */
		Wide		time = (Wide) arrivals[i].devices *
			(Wide) (arrivals[i].run / 1000);
		Wide		coarse = time / MILLION;

		slots[(Wide) (arrivals[i].at - question->since) * SLOTS /
			  (Wide) length] += coarse;
		sum += time;
		squares += coarse * coarse;
	}
	for (i = 0; i < SLOTS; i++)
	{
		Wide		mean = sum / MILLION / SLOTS;
		Wide		off = slots[i] > mean ? slots[i] - mean : mean - slots[i];

		spread += off * off;
	}
	/* the sum of SLOTS parts varies by SLOTS times the variance of one */
	spread = spread / (SLOTS - 1) * SLOTS;
	answer->load = mean_devices(question, sum);
	half = mean_devices(question, square_root(spread > squares ? spread :
											  squares) * MILLION) *
		WIDTH / 1000;
	answer->load_low = answer->load > half ? answer->load - half : 0;
	answer->load_high = answer->load + half + answer->unproven;
	answer->enough = answer->runs >= CAPACITY_RUNS && half <= answer->load;
}

/* How long a work waited, and the device time by which it counts. */
typedef struct WeighedWait
{
	int64_t		wait;
	Wide		time;
} WeighedWait;

static int
compare_waits(const void *context, int32_t a, int32_t b)
{
	const WeighedWait *waits = context;

	if (waits[a].wait != waits[b].wait)
		return waits[a].wait < waits[b].wait ? -1 : 1;
	return a < b ? -1 : a > b;
}

/*
 * Computes the wait that 95 of 100 parts of the device time did not exceed, of
 * works that started or still wait.  Returns false if memory runs out.
 */
static bool
waits_measure(const Estimate *e, const DecideArena *arena, int64_t *p95)
{
	const CapacityQuestion *question = e->question;
	WeighedWait *waits = DecideAlloc(arena, question->n_works,
									 sizeof(WeighedWait));
	int32_t    *order = DecideAlloc(arena, question->n_works, sizeof(int32_t));
	Wide		longer = 0;
	Wide		most_longer;
	int32_t		n = 0;
	int32_t		i;

	*p95 = 0;
	if (waits == NULL || order == NULL)
		return false;
	for (i = 0; i < question->n_works; i++)
	{
		const CapacityWork *work = &question->works[i];
		int64_t		until = work->started < question->until ? work->started :
			question->until;

		if (!counts(question, work) ||
			(work->started == DECIDE_NEVER && work->ended != DECIDE_NEVER))
			continue;
		waits[n].wait = until > work->arrived ? until - work->arrived : 0;
		waits[n].time = device_time(work, proven_run(e, work));
		longer += waits[n].time;
		order[n] = n;
		n++;
	}
	if (!DecideSort(arena, order, n, compare_waits, waits))
		return false;
	most_longer = longer / 20;
	for (i = 0; i < n && longer > most_longer; i++)
	{
		longer -= waits[order[i]].time;
		*p95 = waits[order[i]].wait;
	}
	return true;
}

static int64_t
whole_devices(int64_t load, int32_t utilisation)
{
	return (int64_t) (((Wide) load + (Wide) utilisation - 1) /
					  (Wide) utilisation);
}

/*
 * Whether arrivals with 95 of 100 parts of the device time wait no longer than
 * the bound.
 */
static bool
waits_hold(const DecideReplay *replay, int64_t devices, Wide most_late)
{
	return DecideReplayRun(replay, devices * DECIDE_WHOLE, 0, most_late);
}

/*
 * Finds the least number of devices, not below from, with which waits keep the
 * bound, with an error of at most a hundredth.
 */
static int64_t
devices_search(const DecideReplay *replay, int64_t from)
{
	int64_t		low = from > 1 ? from : 1;
	int64_t		high = low;
	Wide		most_late = 0;
	int32_t		i;

	for (i = 0; i < replay->n; i++)
		most_late += DecideDeviceTime(replay->arrivals[i].devices,
									  replay->arrivals[i].run);
	most_late /= 20;
	while (!waits_hold(replay, high, most_late))
	{
		low = high + 1;
		high *= 2;
	}
	while (high - low > high / 100)
	{
		int64_t		middle = low + (high - low) / 2;

		if (waits_hold(replay, middle, most_late))
			high = middle;
		else
			low = middle + 1;
	}
	return high;
}

/*
 * Computes the devices that are needed for the load and for the bound of
 * waits.  Returns false if memory runs out.
 */
static bool
needed_find(const CapacityQuestion *question, const DecideArena *arena,
			const DecideArrival *arrivals, int32_t n, CapacityAnswer *answer)
{
	DecideReplay replay = {.arrivals = arrivals, .n = n,
		.wait = question->wait, .arena = arena};
	int64_t		high = answer->load_high;
	int64_t		largest = 0;
	int64_t		devices;
	int32_t		i;

	answer->needed = whole_devices(answer->load, question->utilisation);
	answer->needed_low = whole_devices(answer->load_low,
									   question->utilisation);
	answer->needed_high = whole_devices(high, question->utilisation);
	if (question->wait == DECIDE_NEVER || n == 0 || answer->load == 0)
		return true;
	replay.running = DecideAlloc(arena, n, sizeof(DecideArrival));
	replay.queue = DecideAlloc(arena, n, sizeof(int32_t));
	if (replay.running == NULL || replay.queue == NULL)
		return false;
	for (i = 0; i < n; i++)
		largest = arrivals[i].devices > largest ? arrivals[i].devices : largest;
	largest = whole_devices(largest, DECIDE_WHOLE);
	devices = devices_search(&replay, largest);
	if (devices <= answer->needed)
		return true;
	answer->needed = devices;

	/*
	 * a load that is larger by some factor needs more devices by that factor
	 */
	devices = (int64_t) ((Wide) answer->needed * (Wide) answer->load_low /
						 (Wide) answer->load);
	answer->needed_low = devices > largest ? devices : largest;
	answer->needed_high = (int64_t) (((Wide) answer->needed * (Wide) high +
									  (Wide) answer->load - 1) /
									 (Wide) answer->load);
	return true;
}

const char *
DecideCapacity(const CapacityQuestion *question, const DecideArena *arena,
			   CapacityAnswer *answer)
{
	Estimate	e = {.question = question};
	DecideArrival *arrivals;
	Wide		unproven = 0;
	int32_t		n;
	int32_t		i;

	DecideAssert(question != NULL && arena != NULL && answer != NULL);
	memset(answer, 0, sizeof(*answer));
	if (question->until - question->since < SHORTEST)
		return "the period is shorter than a second";
	if (question->utilisation <= 0)
		return "no devices are to be in use";
	e.accounts = DecideAlloc(arena, question->n_accounts, sizeof(AccountWork));
	if (e.accounts == NULL)
		return "out of memory";
	memset(e.accounts, 0, (size_t) question->n_accounts * sizeof(AccountWork));
	accounts_add(&e, answer);
	for (i = 0; i < question->n_accounts; i++)
	{
		if (e.accounts[i].expected > e.accounts[i].ran)
			unproven += e.accounts[i].expected - e.accounts[i].ran;
	}
	answer->unproven = mean_devices(question, unproven);
	if (!arrivals_make(&e, arena, &arrivals, &n))
		return "out of memory";
	load_measure(&e, arrivals, n, answer);
	if (!needed_find(question, arena, arrivals, n, answer) ||
		!waits_measure(&e, arena, &answer->wait_p95))
		return "out of memory";
	return NULL;
}
