/*
 * console.sql: what tools/console shows before its first program runs: three
 * tenants, people, prices, and two weeks of jobs, replayed by setting the clock.
 */
CREATE EXTENSION gpucredit;
CREATE EXTENSION gpucredit_http CASCADE;
CREATE EXTENSION gpucredit_billing;

CREATE ROLE otto LOGIN IN ROLE gpucredit_operator;
CREATE ROLE fiona LOGIN IN ROLE gpucredit_admin;
CREATE ROLE audrey LOGIN IN ROLE gpucredit_auditor;
SELECT format('CREATE ROLE %I LOGIN IN ROLE gpucredit_agent', :'agent')
WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = :'agent') \gexec

DO $$
DECLARE
	o text;
	team text;
BEGIN
	PERFORM set_config('gpucredit.clock', (date_trunc('day', clock_timestamp()) - interval '14 days')::text, true);
	PERFORM gpucredit.set_price('T4', 0.35), gpucredit.set_price('A100', 2.10),
		gpucredit.set_tier('standard_training', 2, 'capacity', false,
			grace => '10 s', min_run => '1 s');
	FOREACH o IN ARRAY '{acme,heliolab,tinybird}'::text[] LOOP
		PERFORM gpucredit.create_account(o);
		FOREACH team IN ARRAY '{vision,nlp,research}'::text[] LOOP
			PERFORM gpucredit.create_account(o, team);
		END LOOP;
		PERFORM gpucredit.grant_tier(o, '', 'premium_training'),
			gpucredit.issue(o, '', 'welcome', 25, 'promo', valid_for => interval '21 days',
				memo => 'welcome credit'),
			gpucredit.issue(o, '', 'invoice-1001', CASE o WHEN 'tinybird' THEN 160 ELSE 900 END,
				memo => 'invoice 1001'),
			gpucredit.issue(o, 'research', 'grant', 120, 'grant', valid_for => interval '90 days',
				memo => 'research grant');
		PERFORM gpucredit.set_budget(o, 'vision', 250), gpucredit.set_budget(o, 'nlp', 120, hard => false),
			gpucredit.set_budget(o, '', 1200);
		EXECUTE format('CREATE ROLE %I LOGIN IN ROLE gpucredit_tenant', o);
		PERFORM gpucredit.bind_tenant(o, o);
	END LOOP;
END
$$;

/* Two weeks of jobs: each day some of each tenant, which end before the next. */
DO $$
DECLARE
	began timestamptz := date_trunc('day', clock_timestamp()) - interval '14 days';
	at timestamptz;
	j record;
	o text;
	n integer := 0;
	of_day integer;
BEGIN
	PERFORM setseed(0.42), set_config('gpucredit.clock', began::text, true),
		gpucredit.register_node('default', 'replayed', 'T4', 64, 16384),
		gpucredit.register_node('default', 'replayed-a', 'A100', 32, 40960);
	FOR day IN 0 .. 13 LOOP
		at := began + make_interval(days => day, hours => 1);
		PERFORM set_config('gpucredit.clock', at::text, true),
			gpucredit.heartbeat('replayed'), gpucredit.heartbeat('replayed-a');
		of_day := 4 + (random() * 4)::integer - CASE WHEN extract(isodow FROM at) > 5 THEN 3 ELSE 0 END;
		FOREACH o IN ARRAY '{acme,heliolab,tinybird}'::text[] LOOP
			FOR i IN 1 .. greatest(of_day, 1) LOOP
				n := n + 1;
				PERFORM gpucredit.reserve(o, (ARRAY['vision', 'nlp', 'research'])[1 + n % 3],
					'replayed-' || n, CASE WHEN n % 4 = 0 THEN '2xA100' ELSE (1 + n % 4) || 'xT4' END,
					interval '12 hours',
					CASE WHEN n % 5 = 0 THEN 'interactive' ELSE 'standard_training' END);
			END LOOP;
		END LOOP;
		PERFORM gpucredit.place();
		FOR j IN
			SELECT a.org, a.job, a.attempt, interval '40 minutes' + random() * interval '9 hours' AS ran
			FROM gpucredit.attempt a WHERE a.ended_at IS NULL
		LOOP
			PERFORM gpucredit.meter(j.org, j.job, j.attempt, interval '0');
		END LOOP;
		PERFORM set_config('gpucredit.clock', (at + interval '11 hours')::text, true),
			gpucredit.heartbeat('replayed'), gpucredit.heartbeat('replayed-a');
		FOR j IN
			SELECT a.org, a.job, a.attempt, interval '40 minutes' + random() * interval '9 hours' AS ran,
				random() < 0.12 AS fails
			FROM gpucredit.attempt a WHERE a.ended_at IS NULL
		LOOP
			PERFORM gpucredit.settle(j.org, j.job, j.attempt,
				CASE WHEN j.fails THEN 'failed' ELSE 'completed' END, j.ran,
				CASE WHEN j.fails THEN 1 ELSE 0 END,
				CASE WHEN j.fails THEN 'RuntimeError: expected 3 channels, got 4' END);
		END LOOP;
		FOR j IN SELECT q.org, q.job FROM gpucredit.job q WHERE q.ended_at IS NULL LOOP
			PERFORM gpucredit.cancel(j.org, j.job, 'end-of-day-' || j.job, 'the day is over');
		END LOOP;
	END LOOP;
	PERFORM gpucredit.remove_node('replayed'), gpucredit.remove_node('replayed-a');
END
$$;

SELECT gpucredit.issue(o, '', 'campaign', 40, 'promo', valid_for => '10 days', memo => 'autumn campaign'),
	gpucredit.set_quota(o, '', 'T4', max_gpus => 6),
	gpucredit.set_quota(o, 'nlp', max_running => 3, max_queued => 20)
FROM unnest('{acme,heliolab,tinybird}'::text[]) o;
