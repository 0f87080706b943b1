/*
 * console.sql: what tools/console shows before its first program runs: three
 * tenants, people, prices, and two weeks of jobs, replayed by setting the clock.
 */
CREATE EXTENSION gpucredit;
CREATE EXTENSION gpucredit_http CASCADE;
CREATE EXTENSION gpucredit_billing;
CREATE EXTENSION gpucredit_registry CASCADE;

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

/*
 * Models: a base that everybody reads, what two teams made of it, the datasets
 * they used, downloads of two weeks, and a version whose weights turned out bad.
 */
DO $$
DECLARE
	began timestamptz := date_trunc('day', clock_timestamp()) - interval '13 days';
	m record;
	made bigint;
	number bigint;
	parents jsonb;
	versions jsonb := '{}';
BEGIN
	FOR m IN
		SELECT * FROM (VALUES
			(1, 'heliolab', '', 'sunflower-7b', 'public', 'model', NULL, NULL, 'apache-2.0', 'A base model of seven billion parameters, trained on text of the public domain.'),
			(2, 'acme', 'nlp', 'support-calls', 'private', 'dataset', NULL, NULL, 'cc-by-4.0', 'Calls of customers, without their names.'),
			(3, 'acme', 'nlp', 'support-7b', 'private', 'model', 'sunflower-7b', 'fine_tune', 'apache-2.0', 'Answers customers. It was tuned on the calls of May.'),
			(4, 'acme', 'nlp', 'support-7b-awq', 'private', 'model', 'support-7b', 'quantized', 'apache-2.0', 'Four bits, for smaller devices.'),
			(5, 'acme', 'nlp', 'support-7b-fr', 'private', 'model', 'support-7b', 'adapter', 'apache-2.0', 'An adapter for French.'),
			(6, 'acme', 'research', 'support-judge', 'private', 'model', 'sunflower-7b', 'fine_tune', 'apache-2.0', 'Rates answers from 1 to 5.'),
			(7, 'tinybird', '', 'labels', 'public', 'model', NULL, NULL, 'mit', 'Free weights for everybody.'),
			(8, 'acme', 'vision', 'defects', 'private', 'model', 'labels', 'fine_tune', 'mit', 'Finds scratches on panels.'))
			AS v (n, org, account, name, visibility, kind, base, how, license, about)
	LOOP
		PERFORM set_config('gpucredit.clock', (began + make_interval(days => m.n))::text, true);
		SELECT c.model INTO number FROM gpucredit_registry.create_model(m.org, m.account, m.name, 'demo-' || m.n, m.visibility, kind => m.kind) c;
		parents := CASE WHEN m.base IS NULL THEN '[]' ELSE jsonb_build_array(versions -> m.base || jsonb_build_object('kind', m.how)) END;
		SELECT c.version INTO made FROM gpucredit_registry.commit(m.org, number, 'main', jsonb_build_array(
			jsonb_build_object('path', 'README.md', 'content', translate(encode(convert_to(concat(
				E'---\nlicense: ', m.license, E'\nlanguage: en\ntags: [demo]\n',
				CASE WHEN m.kind = 'model' THEN E'library_name: transformers\npipeline_tag: text-generation\n' END,
				CASE WHEN m.name = 'support-7b' THEN E'datasets: [acme/support-calls, public/letters]\n' END,
				E'---\n# ', m.name, E'\n\n', m.about, E'\n\n## Use\n\n```python\nmodel = AutoModel.from_pretrained("', m.org, '/', m.name, E'")\n```\n'), 'UTF8'), 'base64'), E'\n', '')),
			jsonb_build_object('path', 'config.json', 'content', encode(convert_to('{"layers": 32, "of": ' || m.n || '}', 'UTF8'), 'base64')),
			jsonb_build_object('path', 'weights/part-1.safetensors', 'content', translate(encode(decode(repeat(md5(m.name), 5000), 'hex'), 'base64'), E'\n', ''))),
			'demo-commit-' || m.n, parents => parents, title => CASE WHEN m.base IS NULL THEN 'first version' ELSE 'made from ' || m.base END) c;
		versions := versions || jsonb_build_object(m.name, jsonb_build_object('org', m.org, 'version', made));
		IF m.name IN ('support-7b', 'sunflower-7b') THEN
			PERFORM gpucredit_registry.set_alias(m.org, number, 'production', made, 'demo-alias-' || m.n);
			FOR day IN m.n + 1 .. 12 LOOP
				PERFORM set_config('gpucredit.clock', (began + make_interval(days => day, hours => 9))::text, true);
				PERFORM gpucredit_registry.close_download(m.org, d.download, f.size)
				FROM (SELECT o.path, o.size FROM gpucredit_registry.file o
					WHERE o.org = m.org AND o.version = made ORDER BY o.path DESC LIMIT 1 + day % 3) f,
					gpucredit_registry.open_download(m.org, made, f.path, 'account:' || m.org || '/', f.size) d;
			END LOOP;
		END IF;
	END LOOP;
	PERFORM set_config('gpucredit.clock', '', true);
	PERFORM gpucredit_registry.bill(b.org, (began + make_interval(days => d))::date)
	FROM unnest('{acme,heliolab,tinybird}'::text[]) AS b (org), generate_series(9, 12) d;
	PERFORM gpucredit_registry.quarantine('tinybird', (versions -> 'labels' ->> 'version')::bigint,
		'A pickle in its weights opens a shell.', 'demo-quarantine', true);
END
$$;
