/*
 * 40_budget.sql: how much an account may spend in a period.
 *
 * A budget limits the holds of an account and of all below it.  An open hold
 * counts as reserved, captured credit as spent. A hold remembers which budgets
 * and periods it was counted in, and its credit returns to these only. Periods
 * follow the UTC calendar; the first call in a period makes its counter.
 */
CREATE TABLE gpucredit.budget (
	org text COLLATE "C" NOT NULL,
	account text COLLATE "C" NOT NULL,
	period text NOT NULL,
	amount gpucredit.credits NOT NULL,
	hard boolean NOT NULL,		/* true if it refuses holds, false if it only alerts */
	alert_at numeric[] NOT NULL,	/* thresholds, as fractions of the amount */
	set_at timestamptz NOT NULL,
	slices int NOT NULL DEFAULT 1,	/* number of slices it may have */
	CONSTRAINT budget_pkey PRIMARY KEY (org, account, period),
	CONSTRAINT budget_period CHECK (period IN ('none', 'day', 'week', 'month',
		'quarter', 'year')),
	CONSTRAINT budget_not_negative CHECK (amount >= '0')
);
COMMENT ON TABLE gpucredit.budget IS
'Limits on what an account and all below it may reserve and spend in a period';
COMMENT ON COLUMN gpucredit.budget.amount IS 'Credits that may be held and spent in a period.';
COMMENT ON COLUMN gpucredit.budget.hard IS 'True: the budget refuses; false: it only alerts.';
COMMENT ON COLUMN gpucredit.budget.alert_at IS 'Shares of the amount that raise an alert.';
COMMENT ON COLUMN gpucredit.budget.set_at IS 'Since when it counts.';
COMMENT ON COLUMN gpucredit.budget.slices IS 'Over how many slices its counter may be spread.';

CREATE TABLE gpucredit.budget_counter (
	org text COLLATE "C" NOT NULL,
	account text COLLATE "C" NOT NULL,
	period text NOT NULL,
	period_start timestamptz NOT NULL,	/* -infinity for period "none" */
	reserved gpucredit.credits NOT NULL DEFAULT '0',
	spent gpucredit.credits NOT NULL DEFAULT '0',
	spread int NOT NULL DEFAULT 0,	/* number of rows in budget_slice */
	made_at timestamptz NOT NULL DEFAULT '-infinity',	/* when its budget was set */
	CONSTRAINT budget_counter_pkey
		PRIMARY KEY (org, account, period, period_start)
) WITH (fillfactor = 10);		/* each row is updated very often */
COMMENT ON TABLE gpucredit.budget_counter IS
'What was reserved and spent against a budget in one period: the sums of hold_budget';
COMMENT ON COLUMN gpucredit.budget_counter.spent IS 'Credits spent in the period, less refunds.';
COMMENT ON COLUMN gpucredit.budget_counter.spread IS 'Over how many slices it is spread; 0: none.';
COMMENT ON COLUMN gpucredit.budget_counter.made_at IS 'Since when it counts for its present budget.';

CREATE TRIGGER budget_counter_sound_new BEFORE INSERT ON gpucredit.budget_counter
	FOR EACH ROW EXECUTE FUNCTION gpucredit_internal.row_check();
CREATE TRIGGER budget_counter_sound AFTER UPDATE ON gpucredit.budget_counter
	FOR EACH ROW EXECUTE FUNCTION gpucredit_internal.row_check();
ALTER TABLE gpucredit.budget_counter
	ENABLE ALWAYS TRIGGER budget_counter_sound_new,
	ENABLE ALWAYS TRIGGER budget_counter_sound;

CREATE TABLE gpucredit.hold_budget (
	org text COLLATE "C" NOT NULL,
	hold bigint NOT NULL,
	account text COLLATE "C" NOT NULL,
	period text NOT NULL,
	period_start timestamptz NOT NULL,
	reserved gpucredit.credits NOT NULL,
	spent gpucredit.credits NOT NULL DEFAULT '0',
	CONSTRAINT hold_budget_pkey
		PRIMARY KEY (org, hold, account, period, period_start)
) WITH (fillfactor = 70);
COMMENT ON TABLE gpucredit.hold_budget IS
'Which budgets and periods a hold was counted in, and with how much';
COMMENT ON COLUMN gpucredit.hold_budget.reserved IS 'Credits of the hold that count in the budget.';
COMMENT ON COLUMN gpucredit.hold_budget.spent IS 'Credits of the hold that were spent, less refunds.';

CREATE TRIGGER hold_budget_sound_new BEFORE INSERT ON gpucredit.hold_budget
	FOR EACH ROW EXECUTE FUNCTION gpucredit_internal.row_check();
CREATE TRIGGER hold_budget_sound AFTER UPDATE ON gpucredit.hold_budget
	FOR EACH ROW EXECUTE FUNCTION gpucredit_internal.row_check();
ALTER TABLE gpucredit.hold_budget
	ENABLE ALWAYS TRIGGER hold_budget_sound_new,
	ENABLE ALWAYS TRIGGER hold_budget_sound;

/* One row for each set_budget(), from which past balances are computed. */
CREATE TABLE gpucredit.budget_log (
	org text COLLATE "C" NOT NULL,
	account text COLLATE "C" NOT NULL,
	period text NOT NULL,
	at timestamptz NOT NULL,	/* of several changes at one instant the last is kept */
	amount gpucredit.credits,	/* NULL if the budget was removed */
	hard boolean NOT NULL,
	is_new boolean NOT NULL,		/* there was no budget before, so it counts from here */
	entry bigint NOT NULL,		/* the last entry before the change */
	CONSTRAINT budget_log_pkey PRIMARY KEY (org, account, period, at)
);
COMMENT ON TABLE gpucredit.budget_log IS
'Every change of a budget';
COMMENT ON COLUMN gpucredit.budget_log.at IS 'When the budget was set or removed.';
COMMENT ON COLUMN gpucredit.budget_log.amount IS 'Credits; NULL: the budget was removed.';
COMMENT ON COLUMN gpucredit.budget_log.hard IS 'True: it refused; false: it only alerted.';
COMMENT ON COLUMN gpucredit.budget_log.is_new IS 'True: there was no budget before, so it counts from here.';
COMMENT ON COLUMN gpucredit.budget_log.entry IS 'The highest entry number at that time; 0: none.';

CREATE TABLE gpucredit.alert (
	org text COLLATE "C" NOT NULL,
	alert bigint GENERATED BY DEFAULT AS IDENTITY,
	at timestamptz NOT NULL,
	account text COLLATE "C" NOT NULL,
	kind text NOT NULL,
	period text NOT NULL,
	period_start timestamptz NOT NULL,
	threshold numeric NOT NULL,
	detail jsonb NOT NULL,
	bucket bigint NOT NULL DEFAULT 0,	/* 0 if the alert is about no bucket */
	recovered_at timestamptz,
	CONSTRAINT alert_pkey PRIMARY KEY (org, alert),
	CONSTRAINT alert_once UNIQUE (org, account, kind, period, period_start,
		threshold, bucket)
);
/* A balance alert is not raised again while a row of this index exists. */
CREATE INDEX alert_low ON gpucredit.alert (org, account)
	WHERE kind = 'balance' AND recovered_at IS NULL;
COMMENT ON TABLE gpucredit.alert IS
'What an account''s owner should know, raised once per period and threshold, a low balance once until it has recovered, an expiry once per bucket. Of jobs, at most gpucredit.job_alerts an hour are raised. Each is also sent as NOTIFY gpucredit_alert: with its detail, or with its number alone once bind_tenant has bound a role';
COMMENT ON COLUMN gpucredit.alert.alert IS 'Its number.';
COMMENT ON COLUMN gpucredit.alert.at IS 'When it was raised.';
COMMENT ON COLUMN gpucredit.alert.account IS 'Whose alert it is; '''' is the organisation itself.';
COMMENT ON COLUMN gpucredit.alert.kind IS 'budget, balance, expiry, spend, uncollected, job, or webhook: one was disabled (gpucredit_http).';
COMMENT ON COLUMN gpucredit.alert.period IS 'The budget''s period; of other kinds how often it is raised at most: minute, hour, day, or none for once.';
COMMENT ON COLUMN gpucredit.alert.threshold IS 'budget: a share of the amount; balance: credits; expiry: days; spend: times the average; job: its number within the hour; webhook: its number.';
COMMENT ON COLUMN gpucredit.alert.detail IS 'The text that listeners receive.';
COMMENT ON COLUMN gpucredit.alert.bucket IS 'The bucket that expires; 0: none.';
COMMENT ON COLUMN gpucredit.alert.recovered_at IS 'balance: when the balance was seen to have recovered, or set_alert was called again; NULL: not yet, so the alert is not raised again.';

DO $dump$
DECLARE
	name text;
BEGIN
	FOREACH name IN ARRAY ARRAY['budget', 'budget_counter', 'hold_budget',
		'budget_log', 'alert', 'alert_alert_seq']
	LOOP
		PERFORM pg_catalog.pg_extension_config_dump(
			('gpucredit.' || name)::regclass, '');
	END LOOP;
END
$dump$;

CREATE FUNCTION gpucredit.set_budget(org text, account text, amount numeric,
	period text DEFAULT 'month', hard boolean DEFAULT true,
	alert_at numeric[] DEFAULT '{0.5,0.8,1}') RETURNS void
LANGUAGE c VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'gpucredit_set_budget';
COMMENT ON FUNCTION gpucredit.set_budget(text, text, numeric, text, boolean,
	numeric[]) IS
'Setup: limits what an account and all below it may reserve and spend in a period. An account has one budget per period. A budget counts the holds that begin after it is set.
amount: credits, 0 or more; NULL removes the budget. period: none, day, week, month, quarter, year (UTC calendar). hard: the budget refuses (reason budget_exceeded), else it only alerts. alert_at: at most 16 shares of the amount, each above 0 and at most 10.
Errors: UC001 no such account; UC101 bad budget: a negative amount, an unknown period, or a bad threshold; 22003, 22023.';

CREATE TYPE gpucredit.budgets_row AS (account text, period text,
	period_start timestamptz, amount numeric, reserved numeric,
	spent numeric, remaining numeric, hard boolean);
COMMENT ON TYPE gpucredit.budgets_row IS
'A budget on an account''s path, in the period of this instant.';

/* Returns the start of the period that contains an instant. */
CREATE FUNCTION gpucredit_internal.period_start(period text, at timestamptz)
RETURNS timestamptz
LANGUAGE c STABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_period_start';
COMMENT ON FUNCTION gpucredit_internal.period_start(text, timestamptz) IS
'Internal: when the budget period of an instant began, by the UTC calendar';
