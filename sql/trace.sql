-- Traces and callers: every decision records who made it and for which W3C
-- trace; a job keeps its trace from submission to settlement.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS gpucredit CASCADE;
RESET client_min_messages;
SET timezone = 'UTC';
SET datestyle = 'ISO';
SET intervalstyle = 'postgres';
SET gpucredit.clock = '2028-01-01 00:00+00';
SET application_name = 'trace test';
\set VERBOSITY default
\pset null '-'

SELECT gpucredit.now();
-- A bad traceparent is refused, and nothing of it is kept.
SHOW gpucredit.traceparent;
CREATE FUNCTION pg_temp.refused(value text) RETURNS TABLE (state text, detail text, plain boolean)
LANGUAGE plpgsql AS $$
DECLARE
	message text;
BEGIN
	PERFORM set_config('gpucredit.traceparent', value, false);
	RETURN QUERY SELECT 'taken', NULL, NULL::boolean;
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, detail = PG_EXCEPTION_DETAIL, message = MESSAGE_TEXT;
	-- it goes to logs and terminals
	plain := message !~ '[[:cntrl:]]' AND length(message) < 200;
	RETURN NEXT;
END $$;
SELECT n, r.state, r.plain, r.detail FROM (VALUES
	(1, '00'), (2, 'x'),
	(3, '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0'),
	(4, '00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01'),
	(5, '00_4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'),
	(6, '00-4bf92f3577b34da6a3ce929d0e0e4736_00f067aa0ba902b7-01'),
	(7, '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7_01'),
	(8, '00-4bf92f3577b34da6a3ce929d0e0e473g-00f067aa0ba902b7-01'),
	(9, '00-00000000000000000000000000000000-00f067aa0ba902b7-01'),
	(10, '00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01'),
	(11, 'ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'),
	(12, '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-x'),
	(13, '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01 '),
	(14, ' 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'),
	(15, E'01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-\n'),
	(16, '01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01' || repeat('-a', 37)),
	(17, '01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-a'),
	(18, '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00'),
	(19, ''),
	(20, E'\x1b[2J\x1b]0;x\x07' || repeat('x', 100000)))
	v (n, value), pg_temp.refused(v.value) r ORDER BY n;
SET gpucredit.traceparent = 'nonsense';
-- any role may set its trace
SET ROLE gpucredit_tenant;
SET gpucredit.traceparent = '00-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-bbbbbbbbbbbbbbbb-01';
RESET gpucredit.traceparent;
RESET ROLE;

DO $$
BEGIN
	PERFORM gpucredit.create_account('tr'), gpucredit.create_account('tr', 'a');
	PERFORM gpucredit.create_pool('tr');
	PERFORM gpucredit.register_node('tr', 'tr-1', 'TR-A', 4, 40960);
	PERFORM gpucredit.set_price('TR-A', 1, 'tr');
	PERFORM gpucredit.issue('tr', '', 'i', 100);
END $$;
CREATE FUNCTION pg_temp.at(instant timestamptz) RETURNS void
LANGUAGE sql AS $$ SELECT set_config('gpucredit.clock', instant::text, false) $$;
-- the trace of a row, as its digit
CREATE FUNCTION pg_temp.of(trace uuid) RETURNS text
LANGUAGE sql AS $$ SELECT CASE WHEN replace(trace::text, '-', '') = repeat(left(trace::text, 1), 32) THEN left(trace::text, 1) ELSE trace::text END $$;

--
-- One trace from submission to settlement, whoever acts
--
SET ROLE gpucredit_app;
SET gpucredit.traceparent = '00-11111111111111111111111111111111-2222222222222222-01';
SELECT job, status FROM gpucredit.reserve('tr', 'a', 'one', '2xTR-A', '2 h', pool => 'tr',
	hold_window => '30 min', spec => '{"image": "x"}') \gset
SET gpucredit.traceparent = '00-33333333333333333333333333333333-4444444444444444-01';
-- a replay from another trace keeps the first one's
SELECT job = :job AS same, replayed FROM gpucredit.reserve('tr', 'a', 'one', '2xTR-A', '2 h', pool => 'tr',
	hold_window => '30 min', spec => '{"image": "x"}');
RESET ROLE;
-- a session with a trace of its own places the job
SET ROLE gpucredit_operator;
SELECT action, node FROM gpucredit.place('tr');
RESET ROLE;
-- the agent gets the submission's trace, and has none itself
RESET gpucredit.traceparent;
SET ROLE gpucredit_agent;
SELECT action, traceparent FROM gpucredit.heartbeat('tr-1');
SELECT action FROM gpucredit.meter('tr', :job, 1, '0');
RESET ROLE;
SELECT pg_temp.at('2028-01-01 00:28+00') \g /dev/null
SET ROLE gpucredit_agent;
SELECT action, held FROM gpucredit.meter('tr', :job, 1, '28 min');
-- its claim is too long: it is cut, and audited once
SELECT action FROM gpucredit.meter('tr', :job, 1, '29 min');
SELECT gpucredit.checkpoint('tr', :job, 1, 5, 's3://x', sha256('x'), 1);
SELECT outcome, job_state FROM gpucredit.settle('tr', :job, 1, 'failed', '28 min', 1);
RESET ROLE;
SELECT pg_temp.at('2028-01-01 01:00+00') \g /dev/null
SELECT * FROM gpucredit.heartbeat('tr-1', running => '{}');
SELECT action FROM gpucredit.place('tr');
SELECT action, traceparent, spec -> 'checkpoint' ->> 'step' AS step FROM gpucredit.heartbeat('tr-1');
-- cancelled in another trace: the row has the job's
SET gpucredit.traceparent = '00-55555555555555555555555555555555-6666666666666666-01';
SELECT job_state FROM gpucredit.cancel('tr', :job, 'c', 'not wanted');
RESET gpucredit.traceparent;
SELECT outcome, job_state FROM gpucredit.settle('tr', :job, 2, 'cancelled', '1 min');
-- evidence that comes late
SELECT pg_temp.at('2028-01-01 02:00+00') \g /dev/null
SELECT outcome FROM gpucredit.settle('tr', :job, 1, 'completed', '28 min');
SELECT gpucredit.refund('tr', :job, 'r', 0.5, 'late') IS NOT NULL AS refunded;

SELECT a.operation, a.decision, a.reason, pg_temp.of(a.trace) AS trace, a.actor, a.application_name, a.client_addr
FROM gpucredit.audit a WHERE a.org = 'tr' AND a.job = :job ORDER BY a.audit;
SELECT e.operation, e.source, e.target, pg_temp.of(e.trace) AS trace
FROM gpucredit.entry e WHERE e.org = 'tr' AND e.job = :job ORDER BY e.entry;
SELECT count(*), min(pg_temp.of(h.trace)), max(pg_temp.of(h.trace)) FROM gpucredit.hold h WHERE h.org = 'tr' AND h.job = :job AND h.trace IS NOT NULL;
SELECT a.attempt, pg_temp.of(a.trace) AS trace FROM gpucredit.attempt a WHERE a.org = 'tr' AND a.job = :job ORDER BY a.attempt;
SELECT trace FROM gpucredit.jobs WHERE org = 'tr' AND job = :job;
-- the whole story, in order
SELECT at, what, attempt, left(trace, 4) AS trace FROM gpucredit.history('tr', :job);
-- its trace alone finds it
SELECT count(*) > 5 AS found, min(job) = :job AND max(job) = :job AS it FROM gpucredit.audit
WHERE trace = '11111111111111111111111111111111';
-- the columns that find audit rows, which every call pays for
SELECT substring(pg_get_indexdef(indexrelid), 'INDEX (\w+) ON gpucredit') AS index,
	substring(pg_get_indexdef(indexrelid), 'USING (.*)') AS keys
FROM pg_index WHERE indrelid = 'gpucredit.audit'::regclass ORDER BY 1;

--
-- A caller's hold keeps the trace it was taken in; without one, a row has the
-- trace of the session that writes it
--
SET gpucredit.traceparent = '00-77777777777777777777777777777777-8888888888888888-01';
SELECT hold FROM gpucredit.hold('tr', '', 'h1', 2, '1 h') \gset
SET gpucredit.traceparent = '00-99999999999999999999999999999999-8888888888888888-01';
SELECT captured FROM gpucredit.capture('tr', :hold, 'c1', 1, final => false);
RESET gpucredit.traceparent;
SELECT pg_temp.at('2028-01-01 04:00+00') \g /dev/null
SELECT task, affected > 0 AS some FROM gpucredit.reap_holds() WHERE task = 'release_holds';
SELECT status FROM gpucredit.reserve('tr', 'a', 'two', '1xTR-A', '1 h', pool => 'tr');
SELECT status, reason FROM gpucredit.reserve('tr', 'a', 'three', '4xTR-A', '20 h', pool => 'tr');
SELECT * FROM gpucredit.heartbeat('tr-1', running => '{}');
SET gpucredit.traceparent = '00-99999999999999999999999999999999-8888888888888888-01';
SELECT action FROM gpucredit.place('tr');
SELECT status, reason FROM gpucredit.reserve('tr', 'a', 'four', '4xTR-A', '23 h', pool => 'tr');
SELECT moved FROM gpucredit.transfer('tr', '', 'a', 't', 3);
SELECT gpucredit.set_alert('tr', '', 1);
RESET gpucredit.traceparent;
SELECT operation, decision, reason, attempt, hold IS NOT NULL AS hold, pg_temp.of(trace) AS trace FROM gpucredit.audit
WHERE org = 'tr' AND coalesce(job, 0) <> :job ORDER BY audit;
SELECT operation, source, target, pg_temp.of(trace) AS trace FROM gpucredit.entry
WHERE org = 'tr' AND coalesce(job, 0) <> :job ORDER BY entry;

--
-- An error names the trace it belongs to; without one it names none
--
SET gpucredit.traceparent = '00-77777777777777777777777777777777-8888888888888888-01';
DO $$
DECLARE
	context text;
BEGIN
	PERFORM gpucredit.release('tr', -1, 'none');
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS context = PG_EXCEPTION_CONTEXT;
	RAISE NOTICE '%', split_part(context, E'\n', 1);
END $$;
RESET gpucredit.traceparent;
DO $$
DECLARE
	context text;
BEGIN
	PERFORM gpucredit.release('tr', -1, 'none');
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS context = PG_EXCEPTION_CONTEXT;
	RAISE NOTICE '%', context LIKE '%gpucredit call%';
END $$;
\set VERBOSITY sqlstate

--
-- Sealed with the rest: no change of it goes unseen
--
SELECT task, affected > 0 AS some FROM gpucredit.seal_audit();
SELECT * FROM gpucredit.verify_audit();
SELECT max(entry) FILTER (WHERE trace IS NOT NULL) AS entry FROM gpucredit.entry WHERE org = 'tr' \gset
SELECT max(audit) FILTER (WHERE trace IS NOT NULL) AS audit FROM gpucredit.audit WHERE org = 'tr' \gset
SELECT line FROM regexp_split_to_table((gpucredit.audit_proof(:entry)).leaf, E'\n') line WHERE line LIKE 'trace %';
SELECT line FROM regexp_split_to_table((gpucredit.audit_proof(:audit, 'audit')).leaf, E'\n') line
WHERE line LIKE 'trace %' OR line LIKE 'application_name %';
SET session_replication_role = replica;
ALTER TABLE gpucredit.entry DISABLE TRIGGER entry_append_only;
ALTER TABLE gpucredit.audit DISABLE TRIGGER audit_append_only;
CREATE FUNCTION pg_temp.seen(deed text) RETURNS TABLE (problem text, it boolean)
LANGUAGE plpgsql AS $$
BEGIN
	BEGIN
		EXECUTE deed;
		SELECT v.problem, v.row_name ~ '^(entry|audit) [0-9]+$' INTO problem, it FROM gpucredit.verify_audit() v;
		RAISE EXCEPTION USING ERRCODE = 'XX999';
	EXCEPTION WHEN SQLSTATE 'XX999' THEN
		RETURN NEXT;
	END;
END $$;
SELECT * FROM pg_temp.seen(format('UPDATE gpucredit.entry SET trace = NULL WHERE org = %L AND entry = %s', 'tr', :entry));
SELECT * FROM pg_temp.seen(format('UPDATE gpucredit.audit SET trace = gen_random_uuid() WHERE org = %L AND audit = %s', 'tr', :audit));
SELECT * FROM pg_temp.seen(format('UPDATE gpucredit.audit SET application_name = %L WHERE org = %L AND audit = %s', 'another', 'tr', :audit));
SELECT * FROM pg_temp.seen(format('UPDATE gpucredit.audit SET client_addr = %L WHERE org = %L AND audit = %s', '10.0.0.1', 'tr', :audit));

-- verify() finds rows whose traces differ
CREATE FUNCTION pg_temp.found(deed text) RETURNS TABLE (invariant text, n bigint)
LANGUAGE plpgsql AS $$
BEGIN
	BEGIN
		EXECUTE deed;
		SELECT min(v.invariant), count(*) INTO invariant, n FROM gpucredit.verify('tr') v
		WHERE v.invariant <> 'append_only_is_guarded';
		RAISE EXCEPTION USING ERRCODE = 'XX999';
	EXCEPTION WHEN SQLSTATE 'XX999' THEN
		RETURN NEXT;
	END;
END $$;
SELECT * FROM pg_temp.found('SELECT 1');
SELECT * FROM pg_temp.found(format('UPDATE gpucredit.attempt SET trace = NULL WHERE org = %L AND job = %s AND attempt = 1', 'tr', :job));
SELECT * FROM pg_temp.found(format('UPDATE gpucredit.audit SET trace = gen_random_uuid() WHERE org = %L AND job = %s AND operation = %L', 'tr', :job, 'reserve'));
SELECT * FROM pg_temp.found(format('UPDATE gpucredit.entry SET trace = NULL WHERE org = %L AND entry = %s AND hold IS NOT NULL', 'tr',
	(SELECT min(entry) FROM gpucredit.entry WHERE org = 'tr' AND trace IS NOT NULL)));
SELECT * FROM pg_temp.found(format('UPDATE gpucredit.job SET traceparent = %L WHERE org = %L AND job = %s', 'x', 'tr', :job));
SELECT * FROM pg_temp.found(format('UPDATE gpucredit.hold SET trace = NULL WHERE org = %L AND job = %s', 'tr', :job));
ALTER TABLE gpucredit.entry ENABLE ALWAYS TRIGGER entry_append_only;
ALTER TABLE gpucredit.audit ENABLE ALWAYS TRIGGER audit_append_only;
RESET session_replication_role;
SELECT * FROM gpucredit.verify();
SELECT * FROM gpucredit.verify_audit();
