/*
 * 98_columns.sql: what columns mean that stand in many tables and views.
 *
 * A column of one of these names has this comment, unless its table or view
 * says something else of it: then the COMMENT ON COLUMN stands beside that.
 */
DO $columns$
DECLARE
	uncommented record;
BEGIN
	FOR uncommented IN
		SELECT a.attrelid::regclass AS relation, d.name, d.meaning
		FROM (VALUES
			('account', 'A path below the organisation; '''' is the organisation itself.'),
			('advice', 'Advice for the job''s owner; NULL: none.'),
			('ages_to', 'Its jobs past max_wait go before all of this rank and higher; NULL: they pass no tier that can preempt.'),
			('attempt', 'Which run of the job, from 1.'),
			('available', 'Credits that may be held.'),
			('batch', 'The batch of the chain, from 1.'),
			('bill_lost_work', 'True: work that the platform lost is billed.'),
			('bucket', 'The bucket''s number.'),
			('can_preempt', 'True: its jobs may preempt others.'),
			('class', 'transient: the job is retried; permanent: it ends.'),
			('created_at', 'When it was made.'),
			('exit_code', 'The exit code of the job''s program; NULL: not reported.'),
			('exit_codes', 'The exit codes it matches; NULL: any, or none reported.'),
			('expired', 'Credits unused when it expired.'),
			('gpu_type', 'The GPU type.'),
			('gpus', 'How many devices it has.'),
			('grace', 'How long a preempted job has to save.'),
			('heard_at', 'Its last heartbeat.'),
			('held', 'Credits that holds have set aside.'),
			('hold', 'The hold''s number.'),
			('hold_window', 'The time that a hold covers; NULL: the whole wall_limit.'),
			('job', 'The job''s number.'),
			('lapsed', 'Credits that returned to a bucket that had expired or was revoked.'),
			('log_uri', 'Where the agent keeps the log; NULL: not reported.'),
			('max_wait', 'Jobs that have waited longer go before the others of their rank.'),
			('max_wall', 'The longest wall limit, also for jobs that name none.'),
			('message', 'What was reported of the end, such as the last lines of the output; NULL: nothing.'),
			('min_run', 'How long a job runs before it may be preempted.'),
			('node', 'The node''s name.'),
			('open', 'True: every account may use it; false: those that grant_tier names, and all below them.'),
			('org', 'The organisation.'),
			('outcome', 'failed or out_of_memory; NULL: either.'),
			('period', 'none, day, week, month, quarter or year (UTC).'),
			('period_start', 'When the period began; -infinity where it is none.'),
			('pool', 'The pool''s name.'),
			('preemptible', 'What its jobs may be preempted for: never, reclaim or capacity.'),
			('price_factor', 'Its jobs pay list prices times this.'),
			('priority', 'Of the rules that match, the lowest applies.'),
			('rank', 'Low goes first.'),
			('reason', 'Why; NULL: no reason given.'),
			('refunded', 'Credits spent and refunded.'),
			('reserved', 'Credits of open holds that count here.'),
			('rule', 'The rule''s name.'),
			('share', 'Thousandths of each device.'),
			('spent', 'Credits spent, less refunds.'),
			('spot', 'True: a spot node, which its provider may take back.'),
			('tier', 'The tier''s name.'),
			('trace', 'The W3C trace it belongs to; NULL: none.')
		) AS d (name, meaning)
			JOIN pg_catalog.pg_attribute a ON a.attname = d.name
			JOIN pg_catalog.pg_class c ON c.oid = a.attrelid
		WHERE c.relnamespace IN ('gpucredit'::regnamespace,
				'gpucredit_internal'::regnamespace)
			AND c.relkind IN ('r', 'v', 'p')
			AND NOT a.attisdropped AND a.attnum > 0
			AND pg_catalog.col_description(a.attrelid, a.attnum) IS NULL
	LOOP
		EXECUTE format('COMMENT ON COLUMN %s.%I IS %L', uncommented.relation,
			uncommented.name, uncommented.meaning);
	END LOOP;
END
$columns$;

/*
 * A column of gpucredit_views means what the column of the same name means
 * where the view reads it; a column of a function's result is explained by the
 * comment of the function alone.
 */
DO $plain$
DECLARE
	uncommented record;
BEGIN
	FOR uncommented IN
		SELECT a.attrelid::regclass AS relation, a.attname AS name, d.meaning
		FROM pg_catalog.pg_class c
			JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid
				AND a.attnum > 0 AND NOT a.attisdropped
			JOIN LATERAL (
				SELECT min(pg_catalog.col_description(s.attrelid, s.attnum)) AS meaning
				FROM pg_catalog.pg_rewrite r
					JOIN pg_catalog.pg_depend d ON d.objid = r.oid
						AND d.classid = 'pg_catalog.pg_rewrite'::regclass
						AND d.refclassid = 'pg_catalog.pg_class'::regclass
					JOIN pg_catalog.pg_attribute s ON s.attrelid = d.refobjid
						AND s.attnum = d.refobjsubid
				WHERE r.ev_class = c.oid AND d.refobjid <> c.oid
					AND s.attname = a.attname) AS d ON d.meaning IS NOT NULL
		WHERE c.relnamespace = 'gpucredit_views'::regnamespace
			AND c.relkind = 'v'
			AND pg_catalog.col_description(c.oid, a.attnum) IS NULL
	LOOP
		EXECUTE format('COMMENT ON COLUMN %s.%I IS %L', uncommented.relation,
			uncommented.name, uncommented.meaning);
	END LOOP;
END
$plain$;
