-- The energy of attempts, as agents report it with the ends of their parts:
-- once for each part, whenever it comes, never money, and never more than GPUs
-- can use.
\set ECHO none
\getenv folder PG_ABS_SRCDIR
\set check :folder '/sql/include/check.sql'
\set scenario :folder '/sql/include/scenario.sql'
\i :check
\i :scenario
SET scenario.org = 'en';

CALL pg_temp.open_account();
CALL pg_temp.open_pool('en', 3);

CREATE FUNCTION pg_temp.ended(job_key text, of_node text, joules bigint, outcome text DEFAULT 'completed')
RETURNS TABLE (over boolean, billed numeric, replayed boolean) LANGUAGE sql AS $$
	SELECT r.over, r.billed, r.replayed FROM gpucredit.part_ended('en', pg_temp.job(job_key), 1, of_node, outcome,
		elapsed => '1 h', energy_j => joules) r $$;
CREATE FUNCTION pg_temp.energy(job_key text) RETURNS TABLE (energy bigint, nodes text) LANGUAGE sql AS $$
	SELECT a.energy_j, (SELECT string_agg(g.node || ' ' || coalesce(g.energy_j::text, '-'), ', ' ORDER BY g.node)
		FROM gpucredit.attempt_gpu g WHERE (g.org, g.job, g.attempt) = (a.org, a.job, a.attempt))
	FROM gpucredit.attempt a WHERE a.org = 'en' AND a.job = pg_temp.job(job_key) AND a.attempt = 1 $$;

\echo
\echo # A gang of two nodes, a job of two GPUs, and a job that its operator ends
CALL pg_temp.submit('gang', '8xSC-A');
CALL pg_temp.submit('two', '2xSC-A');
CALL pg_temp.submit('gone', '1xSC-A');
SELECT pg_temp.check_value('all start', count(*)::text, '4') FROM pg_temp.place();
SELECT pg_temp.check_value('all are metered', string_agg(m.action, ' '), 'continue continue continue')
FROM unnest('{gang,two,gone}'::text[]) k, gpucredit.meter('en', pg_temp.job(k), 1, '0') m;
CALL pg_temp.later('1 h');
SELECT pg_temp.check_rows('the first part of the gang reports its energy', $$ SELECT * FROM pg_temp.ended('gang', 'en-1', 5000000) $$, $$
	over  | billed | replayed
	false | -      | false
$$);
SELECT pg_temp.check_rows('a repeated report with another energy changes nothing', $$ SELECT * FROM pg_temp.ended('gang', 'en-1', 6000000) $$, $$
	over  | billed | replayed
	false | -      | true
$$);
SELECT pg_temp.check_rows('the attempt has the energy of the first part', $$ SELECT * FROM pg_temp.energy('gang') $$, $$
	energy  | nodes
	5000000 | en-1 5000000, en-2 -
$$);
SELECT pg_temp.check_rows('the other part settles it', $$ SELECT * FROM pg_temp.ended('gang', 'en-2', 4000000) $$, $$
	over | billed   | replayed
	true | 8.000000 | false
$$);
SELECT pg_temp.check_rows('the parts are added up', $$ SELECT * FROM pg_temp.energy('gang') $$, $$
	energy  | nodes
	9000000 | en-1 5000000, en-2 4000000
$$);

\echo
\echo # An agent that lies, or repeats itself late
SELECT pg_temp.check_error(format('%s joules are refused', j), format('SELECT * FROM pg_temp.ended(''two'', ''en-3'', %s)', j), '22023')
FROM unnest('{-1,1000000000000001,9223372036854775807}'::bigint[]) j;
SELECT pg_temp.check_rows('more than 2 kW a GPU settles the attempt as ever', $$ SELECT * FROM pg_temp.ended('two', 'en-3', 14500000) $$, $$
	over | billed   | replayed
	true | 2.000000 | false
$$);
SELECT pg_temp.check_rows('but is not believed', $$ SELECT * FROM pg_temp.energy('two') $$, $$
	energy | nodes
	-      | en-3 -
$$);
SELECT pg_temp.check_rows('a late report of what GPUs can use is stored', $$ SELECT * FROM pg_temp.ended('two', 'en-3', 14400000) $$, $$
	over | billed   | replayed
	true | 2.000000 | false
$$);
SELECT pg_temp.check_rows('and stands', $$ SELECT e.*, r.replayed FROM pg_temp.ended('two', 'en-3', 7) r, pg_temp.energy('two') e $$, $$
	energy   | nodes         | replayed
	14400000 | en-3 14400000 | true
$$);
SELECT pg_temp.check_value('an operator settles a job whose agent is silent', (SELECT s.outcome FROM gpucredit.settle('en', pg_temp.job('gone'), 1, 'cancelled', '1 h') s), 'cancelled');
CALL pg_temp.later('1 h');
SELECT pg_temp.check_rows('its agent reports an hour later', $$ SELECT e.* FROM pg_temp.ended('gone', 'en-3', 1000000, 'cancelled') r, pg_temp.energy('gone') e $$, $$
	energy  | nodes
	1000000 | en-3 1000000
$$);

\echo
\echo # Where people look
SELECT pg_temp.check_rows('jobs has the energy of all attempts, beside the bill', $$ SELECT pg_temp.key(job) AS job, energy_j FROM gpucredit.jobs WHERE org = 'en' ORDER BY jobs.job $$, $$
	job  | energy_j
	gang | 9000000
	two  | 14400000
	gone | 1000000
$$);
SELECT pg_temp.check_rows('usage_by has it in kilowatt-hours, by job', $$ SELECT (keys ->> 'job')::bigint = pg_temp.job(k) AS found, energy_kwh
	FROM unnest('{gang,two,gone}'::text[]) WITH ORDINALITY AS j (k, n), gpucredit.usage_by('en', by => 'job') u WHERE u.item = pg_temp.job(k)::text ORDER BY n $$, $$
	found | energy_kwh
	true  | 2.500000
	true  | 4.000000
	true  | 0.277778
$$);
SELECT pg_temp.check_value('usage_by has it by account', (SELECT energy_kwh::text FROM gpucredit.usage_by('en')), '6.777778');
SELECT pg_temp.check_value('a time in which nothing ended has none', (SELECT string_agg(energy_kwh::text, ' ') FROM gpucredit.usage_by('en', until => gpucredit.now() - '3 h'::interval)), NULL);
SELECT pg_temp.check_value('history has it with each part and with the settlement',
	(SELECT string_agg(what || ' ' || substring(detail FROM 'energy_j \d+'), ', ' ORDER BY ordinality)
		FROM gpucredit.history('en', pg_temp.job('gang')) WITH ORDINALITY WHERE detail ~ 'energy_j'),
	'part_ended completed energy_j 5000000, part_ended completed energy_j 4000000, settle completed energy_j 9000000');

\echo
\echo # verify() compares the sum with the parts
BEGIN;
UPDATE gpucredit.attempt SET energy_j = energy_j + 1 WHERE org = 'en' AND job = pg_temp.job('gang');
UPDATE gpucredit.attempt_gpu SET energy_j = 7 WHERE org = 'en' AND job = pg_temp.job('two');
SELECT pg_temp.check_rows('both are found', $$ SELECT invariant, detail FROM gpucredit.verify('en') ORDER BY detail $$, $$
	invariant          | detail
	energy_is_of_parts | used 14400000 J, and its nodes reported 7 J
	energy_is_of_parts | used 9000001 J, and its nodes reported 9000000 J
$$);
ROLLBACK;
SELECT pg_temp.check_none('verify() finds nothing wrong', $$ SELECT * FROM gpucredit.verify() $$);
