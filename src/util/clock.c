/*-------------------------------------------------------------------------
 *
 * clock.c
 *		The instant of a call.
 *
 * The check hook of gpucredit.clock converts the text to an instant, once, not
 * at each reading.  The server reads postgresql.conf before it loads time
 * zones, so the check hook only accepts a text with a numeric time zone, or
 * one for which the session's time zone suffices.
 *
 * A parallel worker also runs the check hook.  At that moment it has neither
 * the session's time zone nor its date order, and its table of time zone
 * abbreviations has been freed.  So the setting's value carries the converted
 * instant: '@', the instant in microseconds, and the given text.  SHOW prints
 * the text only.
 *
 * SQL functions here: now.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/parallel.h"
#include "util/clock.h"
#include "util/compat.h"
#include "common/int.h"
#include "miscadmin.h"
#include "portability/instr_time.h"
#include "utils/datetime.h"
#include "utils/guc.h"
#include "utils/timestamp.h"

PG_FUNCTION_INFO_V1(gpucredit_now);

static char *clock_text = NULL;
static bool clock_frozen = false;
static TimestampTz clock_instant = 0;

/* What the check hook passes to the assign hook. */
typedef struct ClockSetting
{
	bool		frozen;
	TimestampTz instant;
} ClockSetting;

static bool check_clock(char **newval, void **extra, GucSource source);
static bool parse_kept(const char *kept, TimestampTz *instant);
static bool keep_instant(char **newval, TimestampTz instant);
static void assign_clock(const char *newval, void *extra);
static const char *show_clock(void);
static bool parse_instant(const char *text, TimestampTz *instant);

void
ClockInit(void)
{
	DefineCustomStringVariable("gpucredit.clock",
							   "Freezes gpucredit.now() at this instant.",
							   "A timestamp with time zone, for tests and "
							   "simulation; empty means the wall clock.",
							   &clock_text, "", PGC_SUSET, 0,
							   check_clock, assign_clock, show_clock);
}

TimestampTz
ClockNow(void)
{
	return clock_frozen ? clock_instant : GetCurrentTimestamp();
}

/*
 * Returns the instant to use after a wait for a lock.  It is never before the
 * call's first instant, even if the server's clock was set back meanwhile:
 * otherwise credit that was active before the wait might not be active after
 * it.
 */
TimestampTz
ClockAfter(TimestampTz begun)
{
	return Max(begun, ClockNow());
}

/*
 * Returns an instant of a monotonic clock that no setting changes.  It is no
 * date: it only serves to measure the time between two calls in one process.
 */
TimestampTz
ClockSteady(void)
{
	instr_time	now;

	INSTR_TIME_SET_CURRENT(now);
	return (TimestampTz) INSTR_TIME_GET_MICROSEC(now);
}

/*
 * Whether gpucredit.clock sets the instant, as simulations and tests do.  Such
 * an instant cannot be compared with the server's own clock.
 */
bool
ClockFrozen(void)
{
	return clock_frozen;
}

/*
 * Returns the instant moved by a number of microseconds, which may be
 * negative, and clipped to the bounds of a timestamp.
 */
TimestampTz
ClockAdd(TimestampTz instant, int64 microseconds)
{
	int64		sum;

	if (TIMESTAMP_NOT_FINITE(instant))
		return instant;
	if (pg_add_s64_overflow(instant, microseconds, &sum))
		sum = microseconds > 0 ? PG_INT64_MAX : PG_INT64_MIN;
	return Min(Max(sum, MIN_TIMESTAMP), END_TIMESTAMP - 1);
}

Datum
gpucredit_now(PG_FUNCTION_ARGS)
{
	PG_RETURN_TIMESTAMPTZ(ClockNow());
}

/*
 * The check hook: accepts an empty text or a finite instant, and converts it.
 */
static bool
check_clock(char **newval, void **extra, GucSource source)
{
	ClockSetting setting = {false, 0};

	setting.frozen = *newval != NULL && **newval != '\0';
	if (setting.frozen && !parse_kept(*newval, &setting.instant))
	{
		if (!parse_instant(*newval, &setting.instant))
		{
			GUC_check_errdetail("It must be empty or a finite timestamp "
								"with time zone.");
			GUC_check_errhint("Set it as '2026-01-31 12:00:00+00', or to '' "
							  "for the wall clock.");
			return false;
		}
		if (!keep_instant(newval, setting.instant))
			return false;
	}
	*extra = guc_malloc(LOG, sizeof(ClockSetting));
	if (*extra == NULL)
		return false;
	memcpy(*extra, &setting, sizeof(ClockSetting));
	return true;
}

/*
 * In a parallel worker, reads the instant from the value that keep_instant()
 * made.  Returns false if the value is a text as somebody typed it.
 */
static bool
parse_kept(const char *kept, TimestampTz *instant)
{
	char	   *end;

	if (!InitializingParallelWorker || *kept != '@')
		return false;
	*instant = strtoi64(kept + 1, &end, 10);
	return *end == ' ';
}

/*
 * Puts the converted instant before the given text.  Returns false if memory
 * runs out.
 */
static bool
keep_instant(char **newval, TimestampTz instant)
{
	size_t		size = strlen(*newval) + 32;	/* an instant, '@' and ' ' */
	char	   *kept = guc_malloc(LOG, size);

	if (kept == NULL)
		return false;
	snprintf(kept, size, "@" INT64_FORMAT " %s", instant, *newval);
	guc_free(*newval);
	*newval = kept;
	return true;
}

static void
assign_clock(const char *newval, void *extra)
{
	ClockSetting *setting = (ClockSetting *) extra;

	clock_frozen = setting != NULL && setting->frozen;
	clock_instant = clock_frozen ? setting->instant : 0;
}

/* The show hook: returns the text as it was given, without the instant. */
static const char *
show_clock(void)
{
	return *clock_text == '@' ? strchr(clock_text, ' ') + 1 : clock_text;
}

/*
 * Parses a timestamp with time zone without raising an error.  Words such as
 * "now" and "infinity" are refused, because a clock cannot be frozen at them.
 */
static bool
parse_instant(const char *text, TimestampTz *instant)
{
	char		work[MAXDATELEN + MAXDATEFIELDS];
	char	   *field[MAXDATEFIELDS];
	int			ftype[MAXDATEFIELDS];
	int			nf;
	int			dtype;
	int			tz;
	fsec_t		fsec;
	struct pg_tm tm;

	if (strlen(text) > MAXDATELEN ||
		ParseDateTime(text, work, sizeof(work), field, ftype, MAXDATEFIELDS,
					  &nf) != 0 ||
		CompatDecodeDateTime(field, ftype, nf, &dtype, &tm, &fsec, &tz) != 0 ||
		dtype != DTK_DATE)
		return false;
	for (int i = 0; i < nf; i++)
	{
		int			value;

		if (ftype[i] == DTK_STRING &&
			DecodeSpecial(i, field[i], &value) == RESERV &&
			(value == DTK_NOW || value == DTK_TODAY ||
			 value == DTK_TOMORROW || value == DTK_YESTERDAY))
			return false;
	}
	return tm2timestamp(&tm, fsec, &tz, instant) == 0;
}
