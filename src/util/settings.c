/*-------------------------------------------------------------------------
 *
 * settings.c
 *		The settings that several modules read.
 *
 * Settings that could falsify bills or endanger the hardware can only be
 * changed by superusers (PGC_SUSET).  For instance, a tenant must not be able
 * to widen the clock skew that is allowed to it.
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
static int	hold_least;
static int	startup_max;
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
static int	unpaid_queued_max;
static int	claim_timeout;
static int	elastic_idle_delay;
static int	restart_cost;
static int	usage_halflife;
static int	fair_horizon;
static int	backfill_depth;
static int	job_alerts;
static int	usage_retention;
static int	event_retention;
static int	entry_retention;
static int	audit_retention;
static int	log_retention;
static int	log_head;			/* kept bytes of a stream's beginning, in kB */
static int	log_tail;
static int	log_org_max;		/* kept output of an organisation, in MB */
static int	file_org_max;		/* stored texts of an organisation, in MB */
static bool meter_durable;
static int	tenant_idle_timeout;
static int	tenant_transaction_max;
static int	tenant_block_max;
static int	uncollected_max;
static int	upkeep_time;

static void
define_seconds(const char *name, const char *what, const char *more,
			   int *variable, int value, int least)
{
	DefineCustomIntVariable(name, what, more, variable, value, least,
							INT_MAX / 1000, PGC_SUSET, GUC_UNIT_S,
							NULL, NULL, NULL);
}

/*
 * Defines a setting for how long rows are kept.  Its unit is a minute, so that
 * a span of years fits an int.
 */
static void
define_retention(const char *name, const char *what, const char *more,
				 int *variable)
{
	DefineCustomIntVariable(name, what, more, variable, 0, 0,
							INT_MAX / 1000, PGC_SUSET, GUC_UNIT_MIN,
							NULL, NULL, NULL);
}

static void define_log_store(void);

/* Defines how long usage rows, entries, audit rows and events are kept. */
static void
define_retentions(void)
{
	DefineCustomIntVariable("gpucredit.event_retention",
							"How long events of the feed are kept.",
							"upkeep() then removes them. 0: for ever.",
							&event_retention, 30 * 24 * 60, 0, INT_MAX / 1000,
							PGC_SUSET, GUC_UNIT_MIN, NULL, NULL, NULL);
	define_retention("gpucredit.usage_retention",
					 "How long usage rows are kept.",
					 "maintain() then removes those of ended attempts. 0: "
					 "for ever.", &usage_retention);
	define_retention("gpucredit.entry_retention",
					 "How long entries are kept.",
					 "maintain() then writes closings of sealed batches and "
					 "removes them, but not before 40 days. 0: for ever.", &entry_retention);
	define_retention("gpucredit.audit_retention",
					 "How long audit rows are kept.",
					 "maintain() then removes sealed batches, but not before "
					 "gpucredit.key_retention and a day. 0: for ever.",
					 &audit_retention);
	define_log_store();
}

/*
 * Defines how much of a job's output is kept after its node is gone, and for
 * how long.
 */
static void
define_log_store(void)
{
	DefineCustomIntVariable("gpucredit.log_retention",
							"How long the output of ended jobs is kept.",
							"upkeep() then removes it. 0: for ever.",
							&log_retention, 30 * 24 * 60, 0, INT_MAX / 1000,
							PGC_SUSET, GUC_UNIT_MIN, NULL, NULL, NULL);
	DefineCustomIntVariable("gpucredit.log_head",
							"How much of the beginning of each stream of a "
							"job's output is kept once it is over.",
							"In steps of 64 kB.",
							&log_head, 1024, 0, 1024,
							PGC_SUSET, GUC_UNIT_KB, NULL, NULL, NULL);
	DefineCustomIntVariable("gpucredit.log_tail",
							"How much of the end of each stream of a job's "
							"output is kept once it is over.",
							"In steps of 64 kB. 0 here and in "
							"gpucredit.log_head: nothing is kept.",
							&log_tail, 1024, 0, 32 * 1024,
							PGC_SUSET, GUC_UNIT_KB, NULL, NULL, NULL);
	DefineCustomIntVariable("gpucredit.log_org_max",
							"How much output of ended jobs is kept of an "
							"organisation.",
							"upkeep() removes the oldest above it. 0: no limit.",
							&log_org_max, 10 * 1024, 0, INT_MAX,
							PGC_SUSET, GUC_UNIT_MB, NULL, NULL, NULL);
	DefineCustomIntVariable("gpucredit.file_org_max",
							"How much an organisation may store of scripts "
							"and environments of its unfinished jobs.",
							"store_file() refuses more. 0: no limit.",
							&file_org_max, 1024, 0, INT_MAX,
							PGC_SUSET, GUC_UNIT_MB, NULL, NULL, NULL);
}

/* Defines how long transactions of tenants may stay open. */
static void
define_tenant_limits(void)
{
	define_seconds("gpucredit.tenant_idle_timeout",
				   "The idle_in_transaction_session_timeout that "
				   "bind_tenant() gives a tenant's login.",
				   "A login that has one keeps it. 0: it gives none.",
				   &tenant_idle_timeout, 60, 0);
	define_seconds("gpucredit.tenant_transaction_max",
				   "How long a tenant's transaction may be open before its "
				   "session is ended.",
				   "The background worker and maintain() end it. "
				   "bind_tenant() also makes it the login's "
				   "statement_timeout and, from PostgreSQL 17 on, "
				   "transaction_timeout, unless the login has one. 0 "
				   "switches all of this off.",
				   &tenant_transaction_max, 300, 0);
	define_seconds("gpucredit.tenant_block_max",
				   "How long a tenant's transaction may keep others waiting "
				   "before its session is ended.",
				   "Others are agents, applications and all that are no "
				   "tenants. The background worker and maintain() end it. 0 "
				   "switches this off.", &tenant_block_max, 2, 0);
}

/* Defines how long one call of upkeep may work. */
static void
define_upkeep(void)
{
	DefineCustomIntVariable("gpucredit.upkeep_time",
							"How long a call of a task of upkeep works before "
							"it leaves the rest to the next call.",
							"So no transaction of upkeep is open for much "
							"longer. Sweeps also end after half of "
							"deadlock_timeout.", &upkeep_time, 500, 10, 60000,
							PGC_SUSET, GUC_UNIT_MS, NULL, NULL, NULL);
}

static void
define_backoff(void)
{
	define_seconds("gpucredit.retry_backoff",
				   "How long a job waits after its first failure.",
				   "The time doubles with each further failure.", &retry_backoff, 30, 0);
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
							"Other jobs may use the devices meanwhile only "
							"if their wall limit ends first. Jobs that have "
							"waited longer than their tier's max_wait do not "
							"count, and always have reservations.", &backfill_depth, 32,
							0, 1000, PGC_SUSET, 0, NULL, NULL, NULL);
}

/*
 * Defines what a hold has to cover, and what is billed in addition to the run.
 */
static void
define_holds(void)
{
	define_seconds("gpucredit.hold_window_min",
				   "The shortest hold_window a job may be submitted with.",
				   "A shorter one is refused unless it is the whole wall "
				   "limit. 0 allows any.", &hold_window_min, 60, 0);
	define_seconds("gpucredit.hold_least",
				   "The shortest time that a job's hold covers.",
				   "A job with a shorter wall limit keeps devices while it "
				   "starts and while it is made to stop, and must be able to "
				   "pay for that. What it does not use returns. 0: the wall "
				   "limit alone counts.", &hold_least, 60, 0);
	define_seconds("gpucredit.startup_max",
				   "The longest time from an attempt's start to its agent's "
				   "that is billed.",
				   "Nobody else can use the devices meanwhile. A longer "
				   "delay is the platform's. An attempt that never starts "
				   "is not billed.", &startup_max, 300, 0);
}

/* Defines how many jobs may wait without holding credit. */
static void
define_unpaid(void)
{
	DefineCustomIntVariable("gpucredit.unpaid_queued_max",
							"The most jobs of an organisation that wait and "
							"hold no credit.",
							"Such jobs ask for no GPUs, or for GPUs of price "
							"0. More are denied as quota_exceeded. A quota's "
							"max_queued counts all jobs that wait.",
							&unpaid_queued_max, 200, 0, 1000000, PGC_SUSET, 0,
							NULL, NULL, NULL);
}

/* Defines how much an organisation may owe. */
static void
define_uncollected(void)
{
	DefineCustomIntVariable("gpucredit.uncollected_max",
							"How many credits an organisation may owe for use "
							"that no credit covered.",
							"If it owes more, it holds no more credit until "
							"its credit covers that debt as well, or "
							"write_off() forgives it. -1: any amount.",
							&uncollected_max, 0, -1, INT_MAX, PGC_SUSET, 0,
							NULL, NULL, NULL);
}

/* Defines when attempts are ordered to save a checkpoint. */
static void
define_saving(void)
{
	define_seconds("gpucredit.save_ahead",
				   "How long before its wall limit an attempt is told to "
				   "save.",
				   "It applies to attempts that save and have a longer "
				   "limit. 0 switches this off.", &save_ahead, 90, 0);
	define_seconds("gpucredit.checkpoint_every",
				   "How often preemptible attempts are told to save, unless "
				   "their spec says it.",
				   "0: never.", &checkpoint_every, 1800, 0);
	DefineCustomRealVariable("gpucredit.checkpoint_bandwidth",
							 "How many bytes a second the attempts of a pool "
							 "can write together if many must save at once.",
							 "What is promised to attempts on reclaimed nodes "
							 "keeps within it. 0 means not limited.",
							 &checkpoint_bandwidth, 0, 0, 1e15, PGC_SUSET,
							 GUC_UNIT_BYTE, NULL, NULL, NULL);
}

/*
 * Defines how many alerts about jobs are raised, and how many heartbeats may
 * wait.
 */
static void
define_telling(void)
{
	DefineCustomIntVariable("gpucredit.job_alerts",
							"The most alerts about its jobs that an account "
							"gets in an hour.",
							"Alerts are of out_of_memory, timeout, stuck, "
							"node_lost, a last failure and idle devices. "
							"Hours are of UTC. 0: none is raised.", &job_alerts, 20, 0, 1000, PGC_SUSET, 0,
							NULL, NULL, NULL);
	DefineCustomBoolVariable("gpucredit.meter_durable",
							 "Whether a heartbeat that changes nothing else "
							 "waits until it is on disk.",
							 "Off: a crash may lose the last heartbeats, "
							 "which the next ones repeat.", &meter_durable,
							 false, PGC_SUSET, 0, NULL, NULL, NULL);
}

void
SettingsInit(void)
{
	define_seconds("gpucredit.key_retention",
				   "How long an idempotency key is remembered.",
				   "An older key counts as new. Keys of payments (issue, "
				   "refund, refund_hold, transfer, revoke) never expire.",
				   &key_retention, 7 * 24 * 3600, 60);
	define_seconds("gpucredit.clock_skew",
				   "How much longer an attempt may claim to have run than "
				   "the server saw pass.",
				   "Longer claims are cut and audited.", &clock_skew, 5, 0);
	define_seconds("gpucredit.usage_interval",
				   "The least time between two usage rows of an attempt.",
				   "Settlement always logs one.", &usage_interval, 300, 0);
	define_seconds("gpucredit.exhaust_grace",
				   "How long before its held credit is used up an attempt "
				   "gets more credit, or is told to checkpoint.",
				   NULL, &exhaust_grace, 300, 0);
	define_holds();
	define_seconds("gpucredit.node_suspect",
				   "How long a node may be silent before it gets no new work.",
				   "0 switches this off.", &node_suspect, 20, 0);
	define_seconds("gpucredit.node_lost",
				   "How long a node may be silent before its attempts are "
				   "lost and its fenced devices are given out again.",
				   "An agent stops all work after half of this time without "
				   "a heartbeat. 0 switches this off.", &node_lost, 60, 0);
	define_seconds("gpucredit.heartbeat_timeout",
				   "How long an attempt may be silent before it is settled "
				   "at what was last metered.",
				   "reap_holds() settles it. 0 switches this off.",
				   &heartbeat_timeout, 300,
				   0);
	define_seconds("gpucredit.stop_grace",
				   "How long an attempt that is told to stop has to end by "
				   "itself.",
				   "Then reap_holds() settles it at what was last metered.",
				   &stop_grace, 60, 0);
	define_seconds("gpucredit.progress_timeout",
				   "How long progress may stand still before the attempt is "
				   "told to save, and to stop gpucredit.stop_grace later.",
				   "It applies to attempts that have reported progress. A "
				   "utilization below 0.01 for this long raises an alert. 0 "
				   "switches both off.",
				   &progress_timeout, 2 * 3600, 0);
	define_saving();
	define_seconds("gpucredit.claim_timeout",
				   "How long devices stay promised to a job.",
				   "If the victims have not left by then, the job waits its "
				   "turn again.", &claim_timeout, 15 * 60, 1);
	define_seconds("gpucredit.elastic_idle_delay",
				   "How long devices must be idle before an elastic job grows "
				   "into them.",
				   "0 switches growing off.", &elastic_idle_delay, 5 * 60, 0);
	define_seconds("gpucredit.restart_cost",
				   "How much device-time an eviction for an account's "
				   "entitlement counts as costing.",
				   "Earlier evictions of a job add to it. A waiting job has "
				   "others evicted once it has waited ten times that, or a "
				   "hundred times where its account has half of its "
				   "entitlement. 0: nothing, and at once.", &restart_cost, 0, 0);
	define_backoff();
	DefineCustomIntVariable("gpucredit.usage_halflife",
							"How long until past use counts half in fair "
							"share.", NULL, &usage_halflife,
							7 * 24 * 3600, 60, INT_MAX, PGC_SUSET,
							GUC_UNIT_S, NULL, NULL, NULL);
	define_seconds("gpucredit.fair_horizon",
				   "How much future use a device in use counts for in fair "
				   "share.",
				   "It is added to what the device has been used so far.", &fair_horizon, 3600,
				   1);
	define_seconds("gpucredit.denial_window",
				   "How long repeated denials are counted instead of audited "
				   "one by one.",
				   "maintain() enters their number. 0 switches this off.",
				   &denial_window, 60, 0);
	DefineCustomIntVariable("gpucredit.max_starts",
							"The most jobs one scheduling cycle starts, and "
							"after how many evictions it begins no other.",
							"A cycle is one transaction; more jobs start, or "
							"are evicted, in the next. The jobs that leave "
							"for one gang are evicted together.", &max_starts, 1000, 1, 100000,
							PGC_SUSET, 0, NULL, NULL, NULL);
	define_telling();
	define_depth();
	define_unpaid();
	define_uncollected();
	define_retentions();
	define_tenant_limits();
	define_upkeep();
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
SettingHoldLeast(void)
{
	return (int64) hold_least * USECS_PER_SEC;
}

int64
SettingStartupMax(void)
{
	return (int64) startup_max * USECS_PER_SEC;
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

/* In bytes a second; 0 means unlimited. */
int64
SettingCheckpointBandwidth(void)
{
	return (int64) checkpoint_bandwidth;
}

/* In micro-credits; a negative value means any amount. */
int64
SettingUncollectedMax(void)
{
	return (int64) uncollected_max * INT64CONST(1000000);
}

int32
SettingUnpaidQueuedMax(void)
{
	return unpaid_queued_max;
}

int64
SettingTenantBlockMax(void)
{
	return (int64) tenant_block_max * USECS_PER_SEC;
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

int64
SettingRestartCost(void)
{
	return (int64) restart_cost * USECS_PER_SEC;
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

/* In seconds, because the decision core counts in seconds. */
int64
SettingFairHorizon(void)
{
	return fair_horizon;
}

/* For these four retentions, 0 means for ever. */
int64
SettingEventRetention(void)
{
	return event_retention * USECS_PER_MINUTE;
}

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

/*
 * The number of bytes that are kept of the beginning of a stream, and of its
 * end.
 */
int64
SettingLogHead(void)
{
	return log_head * INT64CONST(1024);
}

int64
SettingLogTail(void)
{
	return log_tail * INT64CONST(1024);
}

/* In bytes. */
int64
SettingFileOrgMax(void)
{
	return file_org_max * INT64CONST(1048576);
}

bool
SettingMeterDurable(void)
{
	return meter_durable;
}

/* In milliseconds. */
int
SettingUpkeepTime(void)
{
	return upkeep_time;
}
