/*-------------------------------------------------------------------------
 *
 * settings.c
 *		The settings that several modules read.
 *
 * Settings that could falsify bills or safety are for superusers (SUSET): a
 * tenant must not widen its own clock skew.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <limits.h>

#include "util/settings.h"
#include "utils/guc.h"
#include "utils/timestamp.h"

static int	key_retention;
static int	clock_skew;
static int	usage_interval;
static int	exhaust_grace;
static int	hold_window_min;
static int	node_suspect;
static int	node_lost;
static int	heartbeat_timeout;
static int	stop_grace;
static int	progress_timeout;
static int	checkpoint_every;
static int	save_ahead;
static double checkpoint_bandwidth;
static int	retry_backoff;
static int	retry_backoff_max;
static int	denial_window;
static int	max_starts;
static int	claim_timeout;
static int	elastic_idle_delay;
static int	usage_halflife;
static int	fair_horizon;
static int	backfill_depth;
static int	job_alerts;
static int	usage_retention;
static int	entry_retention;
static int	audit_retention;
static bool meter_durable;
static int	tenant_idle_timeout;
static int	tenant_transaction_max;

static void
define_seconds(const char *name, const char *what, const char *more,
			   int *variable, int value, int least)
{
	DefineCustomIntVariable(name, what, more, variable, value, least,
							INT_MAX / 1000, PGC_SUSET, GUC_UNIT_S,
							NULL, NULL, NULL);
}

/* How long rows stay, in minutes, so that years fit. */
static void
define_retention(const char *name, const char *what, const char *more,
				 int *variable)
{
	DefineCustomIntVariable(name, what, more, variable, 0, 0,
							INT_MAX / 1000, PGC_SUSET, GUC_UNIT_MIN,
							NULL, NULL, NULL);
}

/* When old rows leave: usage, entries, the audit log. */
static void
define_retentions(void)
{
	define_retention("gpucredit.usage_retention",
					 "How long usage rows are kept.",
					 "Those of attempts that are over then leave by "
					 "maintain(). 0: for ever.", &usage_retention);
	define_retention("gpucredit.entry_retention",
					 "How long entries are kept.",
					 "Sealed batches then leave by maintain(), at 40 days at "
					 "the earliest, after their closing balances were "
					 "written. 0: for ever.", &entry_retention);
	define_retention("gpucredit.audit_retention",
					 "How long audit rows are kept.",
					 "Sealed batches then leave by maintain(), not before "
					 "gpucredit.key_retention and a day. 0: for ever.",
					 &audit_retention);
}

/* How long tenants' transactions may be open. */
static void
define_tenant_limits(void)
{
	define_seconds("gpucredit.tenant_idle_timeout",
				   "The idle_in_transaction_session_timeout that "
				   "bind_tenant() gives a tenant's login.",
				   "Where none is set for it. 0: it gives none.",
				   &tenant_idle_timeout, 60, 0);
	define_seconds("gpucredit.tenant_transaction_max",
				   "A tenant's transaction that is open for longer is ended, "
				   "with its session.",
				   "By the background worker and maintain(). bind_tenant() "
				   "makes it the login's statement_timeout and, from "
				   "PostgreSQL 17 on, transaction_timeout as well, where none "
				   "is set for it. 0 switches all of this off.",
				   &tenant_transaction_max, 300, 0);
}

static void
define_backoff(void)
{
	define_seconds("gpucredit.retry_backoff",
				   "How long a job waits after its first failure.",
				   "Doubled with each further one.", &retry_backoff, 30, 0);
	define_seconds("gpucredit.retry_backoff_max",
				   "The longest a job waits after a failure.", NULL,
				   &retry_backoff_max, 3600, 0);
}

static void
define_depth(void)
{
	DefineCustomIntVariable("gpucredit.backfill_depth",
							"For how many jobs that cannot start a cycle "
							"reserves devices.",
							"Others may use them meanwhile only if their wall "
							"limit ends first. Jobs that have waited longer "
							"than their tier's max_wait do not count, and have "
							"reservations in any case.", &backfill_depth, 32,
							0, 1000, PGC_SUSET, 0, NULL, NULL, NULL);
}

/* When attempts must save. */
static void
define_saving(void)
{
	define_seconds("gpucredit.save_ahead",
				   "How long before its wall limit an attempt is told to "
				   "save.",
				   "One that saves at all, and has a longer limit. 0 switches "
				   "this off.", &save_ahead, 90, 0);
	define_seconds("gpucredit.checkpoint_every",
				   "How often attempts that may be preempted are due to "
				   "save, where their spec does not say.",
				   "0: never.", &checkpoint_every, 1800, 0);
	DefineCustomRealVariable("gpucredit.checkpoint_bandwidth",
							 "How many bytes a second all attempts of a pool "
							 "that must save at once can write together.",
							 "What is promised to attempts on reclaimed nodes "
							 "keeps within it. 0 means not limited.",
							 &checkpoint_bandwidth, 0, 0, 1e15, PGC_SUSET,
							 GUC_UNIT_BYTE, NULL, NULL, NULL);
}

/* Limits for jobs: how many alerts, and waiting heartbeats. */
static void
define_telling(void)
{
	DefineCustomIntVariable("gpucredit.job_alerts",
							"The most alerts about its jobs an account gets "
							"in an hour.",
							"Of out_of_memory, timeout, stuck, node_lost, a last "
							"failure, idle devices. An hour of UTC. 0: none is "
							"raised.", &job_alerts, 20, 0, 1000, PGC_SUSET, 0,
							NULL, NULL, NULL);
	DefineCustomBoolVariable("gpucredit.meter_durable",
							 "Whether a heartbeat that changes nothing else "
							 "waits until it is on disk.",
							 "Off: a crash may lose the last of them, which "
							 "the next ones tell again.", &meter_durable,
							 false, PGC_SUSET, 0, NULL, NULL, NULL);
}

void
SettingsInit(void)
{
	define_seconds("gpucredit.key_retention",
				   "How long an idempotency key is remembered.",
				   "A key older than this is as good as new.",
				   &key_retention, 7 * 24 * 3600, 60);
	define_seconds("gpucredit.clock_skew",
				   "How much longer an attempt may claim to have run than "
				   "the server saw pass.",
				   "More is cut, and audited.", &clock_skew, 5, 0);
	define_seconds("gpucredit.usage_interval",
				   "The least time between two usage rows of an attempt.",
				   "Settlement always logs one.", &usage_interval, 300, 0);
	define_seconds("gpucredit.exhaust_grace",
				   "How long before its held credit is used up an attempt "
				   "gets more, or is told to checkpoint.",
				   NULL, &exhaust_grace, 300, 0);
	define_seconds("gpucredit.hold_window_min",
				   "The shortest hold_window a job may be submitted with.",
				   "Less is refused, but where it is the whole wall limit. 0 "
				   "allows any.", &hold_window_min, 60, 0);
	define_seconds("gpucredit.node_suspect",
				   "A node not heard from for so long gets no new work.",
				   "0 switches this off.", &node_suspect, 20, 0);
	define_seconds("gpucredit.node_lost",
				   "Attempts on a node not heard from for so long are lost, "
				   "and devices not reported gone are given out again.",
				   "An agent stops all work after half of it without a "
				   "heartbeat. 0 switches this off.", &node_lost, 60, 0);
	define_seconds("gpucredit.heartbeat_timeout",
				   "An attempt not heard from for so long is settled at what "
				   "was last metered.",
				   "By reap_holds(). 0 switches this off.",
				   &heartbeat_timeout, 300,
				   0);
	define_seconds("gpucredit.stop_grace",
				   "How long an attempt told to stop has to end by itself.",
				   "Then reap_holds() ends it, at what was last metered.",
				   &stop_grace, 60, 0);
	define_seconds("gpucredit.progress_timeout",
				   "An attempt whose progress has not grown for so long is "
				   "told to save, and to stop gpucredit.stop_grace later.",
				   "Only where progress was ever reported. A utilization below "
				   "0.01 for so long raises an alert. 0 switches both off.",
				   &progress_timeout, 2 * 3600, 0);
	define_saving();
	define_seconds("gpucredit.claim_timeout",
				   "How long devices stay promised to a job.",
				   "Should those who have them not have left by then, the job "
				   "waits its turn again.", &claim_timeout, 15 * 60, 1);
	define_seconds("gpucredit.elastic_idle_delay",
				   "How long devices must be idle before an elastic job grows "
				   "into them.",
				   "0 switches growing off.", &elastic_idle_delay, 5 * 60, 0);
	define_backoff();
	DefineCustomIntVariable("gpucredit.usage_halflife",
							"How long until what was used counts half in "
							"fair share.", NULL, &usage_halflife,
							7 * 24 * 3600, 60, INT_MAX, PGC_SUSET,
							GUC_UNIT_S, NULL, NULL, NULL);
	define_seconds("gpucredit.fair_horizon",
				   "How much use a device that is running or just started "
				   "counts for in fair share.",
				   "Beside what it has used so far.", &fair_horizon, 3600,
				   1);
	define_seconds("gpucredit.denial_window",
				   "How long denials like one that was audited are counted, "
				   "not audited one by one.",
				   "maintain() enters their number. 0 switches this off.",
				   &denial_window, 60, 0);
	DefineCustomIntVariable("gpucredit.max_starts",
							"The most jobs one scheduling cycle starts.",
							"A cycle is one transaction; more jobs start in "
							"the next.", &max_starts, 1000, 1, 100000,
							PGC_SUSET, 0, NULL, NULL, NULL);
	define_telling();
	define_depth();
	define_retentions();
	define_tenant_limits();
}

int64
SettingKeyRetention(void)
{
	return (int64) key_retention * USECS_PER_SEC;
}

int64
SettingClockSkew(void)
{
	return (int64) clock_skew * USECS_PER_SEC;
}

int64
SettingUsageInterval(void)
{
	return (int64) usage_interval * USECS_PER_SEC;
}

int64
SettingExhaustGrace(void)
{
	return (int64) exhaust_grace * USECS_PER_SEC;
}

int64
SettingHoldWindowMin(void)
{
	return (int64) hold_window_min * USECS_PER_SEC;
}

int64
SettingNodeSuspect(void)
{
	return (int64) node_suspect * USECS_PER_SEC;
}

int64
SettingNodeLost(void)
{
	return (int64) node_lost * USECS_PER_SEC;
}

int64
SettingHeartbeatTimeout(void)
{
	return (int64) heartbeat_timeout * USECS_PER_SEC;
}

int64
SettingStopGrace(void)
{
	return (int64) stop_grace * USECS_PER_SEC;
}

int64
SettingProgressTimeout(void)
{
	return (int64) progress_timeout * USECS_PER_SEC;
}

int64
SettingSaveAhead(void)
{
	return (int64) save_ahead * USECS_PER_SEC;
}

int64
SettingCheckpointEvery(void)
{
	return (int64) checkpoint_every * USECS_PER_SEC;
}

/* Bytes a second; 0: not limited. */
int64
SettingCheckpointBandwidth(void)
{
	return (int64) checkpoint_bandwidth;
}

int64
SettingTenantTransactionMax(void)
{
	return (int64) tenant_transaction_max * USECS_PER_SEC;
}

int64
SettingRetryBackoff(void)
{
	return (int64) retry_backoff * USECS_PER_SEC;
}

int64
SettingRetryBackoffMax(void)
{
	return (int64) retry_backoff_max * USECS_PER_SEC;
}

int64
SettingDenialWindow(void)
{
	return (int64) denial_window * USECS_PER_SEC;
}

int64
SettingClaimTimeout(void)
{
	return (int64) claim_timeout * USECS_PER_SEC;
}

int64
SettingElasticIdleDelay(void)
{
	return (int64) elastic_idle_delay * USECS_PER_SEC;
}

int
SettingMaxStarts(void)
{
	return max_starts;
}

int64
SettingUsageHalflife(void)
{
	return (int64) usage_halflife * USECS_PER_SEC;
}

int
SettingBackfillDepth(void)
{
	return backfill_depth;
}

int
SettingJobAlerts(void)
{
	return job_alerts;
}

/*
 * In seconds, as the decision core wants it.
 */
int64
SettingFairHorizon(void)
{
	return fair_horizon;
}

/*
 * In these three, 0 means for ever.
 */
int64
SettingUsageRetention(void)
{
	return usage_retention * USECS_PER_MINUTE;
}

int64
SettingEntryRetention(void)
{
	return entry_retention * USECS_PER_MINUTE;
}

int64
SettingAuditRetention(void)
{
	return audit_retention * USECS_PER_MINUTE;
}

bool
SettingMeterDurable(void)
{
	return meter_durable;
}
