-- Tenants: a member of gpucredit_tenant sees and spends the accounts it is
-- bound to and those below. Others do not exist for it, in the same words.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS gpucredit CASCADE;
RESET client_min_messages;
SET timezone = 'UTC';
SET datestyle = 'ISO';
SET gpucredit.clock = '2027-07-01 00:00+00';
\set VERBOSITY sqlstate
\pset null '-'

DO $$
BEGIN
	PERFORM gpucredit.create_pool('te');
	PERFORM gpucredit.set_price('TE', 1, 'te');
	PERFORM gpucredit.register_node('te', 'te-1', 'TE', 8, 40960);
	PERFORM gpucredit.create_account(o), gpucredit.issue(o, '', 'paid', 1000) FROM unnest(ARRAY['te', 'te-other']) o;
	PERFORM gpucredit.create_account('te', a) FROM unnest(ARRAY['vision', 'vision/alice', 'vision2', 'speech']) a;
	PERFORM gpucredit.issue('te', 'vision', 'own', 50);
	PERFORM gpucredit.set_alert('te', a, 5000) FROM unnest(ARRAY['vision', 'speech']) a;
END $$;
CREATE ROLE te_vision IN ROLE gpucredit_tenant;
CREATE ROLE te_all IN ROLE gpucredit_tenant;
CREATE ROLE te_nobody IN ROLE gpucredit_tenant;
CREATE ROLE te_person IN ROLE te_vision;	-- of the team, so of its bindings
CREATE ROLE te_both IN ROLE gpucredit_tenant, gpucredit_app, gpucredit_auditor;
SELECT gpucredit.bind_tenant('te_vision', 'te', 'vision');
SELECT gpucredit.bind_tenant('te_both', 'te', 'vision');
SELECT gpucredit.bind_tenant('te_all', 'te');
SELECT gpucredit.bind_tenant('te_all', 'te');	-- once is enough
SELECT org, account, role FROM gpucredit.tenant WHERE org LIKE 'te%' ORDER BY 1, 2, 3;
-- what other tenants have
SELECT job AS other_job FROM gpucredit.reserve('te-other', '', 'j', '1xTE', '1 h', pool => 'te') \gset
SELECT job AS speech_job FROM gpucredit.reserve('te', 'speech', 'sj', '1xTE', '1 h', pool => 'te') \gset
SELECT hold AS speech_hold FROM gpucredit.hold('te', 'speech', 'sh', 5, '1 h') \gset
SELECT account, kind FROM gpucredit.alert WHERE org = 'te' ORDER BY 1;

-- Bound to a project: that account, and those below.
SET ROLE te_vision;
SELECT available, held FROM gpucredit.balance('te', 'vision');
SELECT available FROM gpucredit.balance('te', 'vision/alice');
SELECT job AS own_job, status FROM gpucredit.reserve('te', 'vision/alice', 'mine', '1xTE', '1 h', pool => 'te') \gset
SELECT gpucredit.hold('te', 'vision', 'of nothing', 0, '1 h');
SELECT hold AS own_hold, status FROM gpucredit.hold('te', 'vision', 'held', 2, '1 h') \gset
SELECT captured, replayed FROM gpucredit.capture('te', :own_hold, 'cap', 1);
SELECT count(*) FROM gpucredit.history('te', :own_job);
SELECT check_name, passes FROM gpucredit.explain('te', :own_job);
-- it hears of its own turn only
SELECT detail FROM gpucredit.explain('te', :own_job) WHERE check_name = 'order';
SELECT account, state FROM gpucredit.jobs WHERE org LIKE 'te%';
-- the queue: its own jobs and when they are expected to start; others' jobs
-- are not shown
RESET ROLE;
BEGIN;
SELECT count(*) FROM gpucredit.heartbeat('te-1');
SELECT count(*) FROM gpucredit.place('te');
SELECT job AS others FROM gpucredit.reserve('te-other', '', 'q1', '8xTE', '1 h', pool => 'te') \gset
SELECT job AS speech FROM gpucredit.reserve('te', 'speech', 'q2', '8xTE', '1 h', pool => 'te') \gset
SET LOCAL ROLE te_vision;
SELECT job AS mine FROM gpucredit.reserve('te', 'vision', 'q3', '8xTE', '1 h', pool => 'te') \gset
SELECT org, account, job = :mine AS its_own, tier, request, waits, reason, expected_at FROM gpucredit.queue('te');
SELECT count(*) FROM gpucredit.queue('te', 1);
SET LOCAL ROLE te_all;
SELECT org, account, expected_at FROM gpucredit.queue('te');
SET LOCAL ROLE gpucredit_operator;
SELECT org, account, expected_at FROM gpucredit.queue('te');
SET LOCAL ROLE te_vision;
\set VERBOSITY terse
SAVEPOINT s;
SELECT * FROM gpucredit.queue('no such pool');
ROLLBACK TO s;
SELECT * FROM gpucredit.queue_reasons('te');
ROLLBACK TO s;
\set VERBOSITY sqlstate
-- a job's progress as its agent reported it, and where its log is
RESET ROLE;
SELECT action FROM gpucredit.meter('te', :own_job, 1, '1 s', 41, 0.75);
SET LOCAL ROLE te_vision;
SELECT account, state, progress, utilization, log FROM gpucredit.jobs WHERE job = :own_job;
RESET ROLE;
SELECT outcome FROM gpucredit.settle('te', :own_job, 1, 'completed', log_uri => 's3://logs/1');
SET LOCAL ROLE te_vision;
SELECT account, state, progress, utilization, log FROM gpucredit.jobs WHERE job = :own_job;
ROLLBACK;
SET ROLE te_vision;
SELECT org, account, count(*) FROM gpucredit.entry GROUP BY 1, 2 ORDER BY 1, 2;
-- the same from the views for programs, in numbers
SELECT org, account, count(*), sum(amount), pg_typeof(sum(amount)) FROM gpucredit.entries GROUP BY 1, 2 ORDER BY 1, 2;
SELECT account, count(*), sum(held) FROM gpucredit.holds GROUP BY 1 ORDER BY 1;
SELECT org, account, balance_low FROM gpucredit.accounts ORDER BY 1, 2;
SELECT count(*) FROM gpucredit.attempts WHERE account <> 'vision' AND account <> 'vision/alice';
SELECT 2 * per_gpu_hour AS twice FROM gpucredit.prices WHERE pool = 'te';
SELECT org, account FROM gpucredit.account ORDER BY 1, 2;
SELECT count(*) FROM gpucredit.hold WHERE account <> 'vision' AND account <> 'vision/alice';
SELECT count(*) FROM gpucredit.audit;
SELECT org, account, kind FROM gpucredit.alert ORDER BY 1, 2;
-- the schema for tools that reflect one shows each reader the same rows as the
-- tables, also for a role that is bound to nothing
RESET ROLE;
CREATE FUNCTION pg_temp.seen(view text) RETURNS TABLE (org text, account text, n bigint) LANGUAGE plpgsql AS $$
BEGIN
	RETURN QUERY EXECUTE format('SELECT v.org, v.account, count(*) FROM gpucredit_views.%I v WHERE v.org LIKE %L GROUP BY 1, 2', view, 'te%');
EXCEPTION WHEN insufficient_privilege THEN
	RETURN QUERY SELECT NULL::text, 'refused', NULL::bigint;
END $$;
SET ROLE te_vision;
SELECT view, s.org, s.account, s.n > 0 AS some
FROM unnest('{accounts,alerts,attempts,balances,entries,events,holds,jobs}'::text[]) AS view
	LEFT JOIN LATERAL pg_temp.seen(view) s ON true
ORDER BY 1, 2, 3;
SELECT org, account, available, held FROM gpucredit_views.balances ORDER BY 1, 2;
SELECT b.available = f.available AND b.held = f.held AS same
FROM gpucredit_views.balances b, gpucredit.balance(b.org, b.account) f;
SELECT count(*) FROM gpucredit_views.nodes;
SELECT count(*) FROM gpucredit_views.pools;
SET ROLE te_nobody;
SELECT view, s.account FROM unnest('{accounts,alerts,attempts,balances,entries,events,holds,jobs}'::text[]) AS view
	JOIN LATERAL pg_temp.seen(view) s ON true;
SET ROLE gpucredit_app;
SELECT view, s.org, s.account, s.n > 0 AS some
FROM unnest('{accounts,alerts,attempts,balances,entries,events,holds,jobs}'::text[]) AS view
	LEFT JOIN LATERAL pg_temp.seen(view) s ON true
WHERE s.account IN ('refused', 'speech') ORDER BY 1, 2, 3;
SET ROLE gpucredit_agent;
SELECT count(*) FROM gpucredit_views.jobs;
RESET ROLE;
-- a condition that notes what it is asked about is asked about no others' rows
CREATE TEMP TABLE noted (account text);
GRANT INSERT ON noted TO PUBLIC;
CREATE FUNCTION pg_temp.note(text) RETURNS boolean LANGUAGE plpgsql COST 0.0001 AS $$
BEGIN
	INSERT INTO pg_temp.noted VALUES ($1);
	RETURN true;
END $$;
SET ROLE te_vision;
SELECT count(*) FROM gpucredit_views.accounts WHERE pg_temp.note('accounts: ' || account);
SELECT count(*) FROM gpucredit_views.balances WHERE pg_temp.note('balances: ' || account);
SELECT count(*) FROM gpucredit_views.jobs WHERE pg_temp.note('jobs: ' || account);
SELECT count(*) > 0 AS some FROM gpucredit_views.alerts WHERE pg_temp.note('alerts: ' || account);
RESET ROLE;
SELECT DISTINCT account FROM noted ORDER BY 1;
SET ROLE te_vision;
SELECT job_state FROM gpucredit.cancel('te', :own_job, 'c');
-- functions without an account answer for its own
SELECT account, net FROM gpucredit.top_spenders('te', 5, NULL);
-- its siblings, its parent and other organisations are not found, in the words
-- for what does not exist
SELECT * FROM gpucredit.balance('te', 'speech');
SELECT * FROM gpucredit.balance('te', 'gone');
SELECT * FROM gpucredit.balance('te', 'vision2');
SELECT * FROM gpucredit.balance('te');
SELECT * FROM gpucredit.balance('te-other');
SELECT * FROM gpucredit.balance('no-such');
SELECT * FROM gpucredit.top_spenders('te-other', 5, NULL);
SELECT * FROM gpucredit.top_jobs('te-other', 5, NULL);
SELECT * FROM gpucredit.invoice('te-other', '2027-07-01');
SELECT * FROM gpucredit.reserve('te', 'speech', 'k1', '1xTE', '1 h', pool => 'te');
SELECT * FROM gpucredit.reserve('te-other', '', 'k2', '1xTE', '1 h', pool => 'te');
SELECT * FROM gpucredit.cancel('te', :speech_job, 'k3');
SELECT * FROM gpucredit.history('te', :speech_job);
SELECT * FROM gpucredit.explain('te', :speech_job);
SELECT * FROM gpucredit.explain('te-other', :other_job);
SELECT * FROM gpucredit.settle('te', :speech_job, 1, 'completed');
SELECT * FROM gpucredit.settle('te-other', :other_job, 1, 'completed');
SELECT * FROM gpucredit.release('te', :speech_hold, 'k4');
SELECT * FROM gpucredit.release('te-other', 1, 'k5');
SELECT * FROM gpucredit.job_buckets('te', :speech_job);
RESET ROLE;

-- in exactly the same words
CREATE FUNCTION pg_temp.words(call text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	message text;
	detail text;
	hint text;
BEGIN
	EXECUTE call;
	RETURN 'no error';
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
	RETURN concat_ws('; ', SQLSTATE, message, detail, hint);
END $$;
SET ROLE te_vision;
SELECT f.call, regexp_replace(pg_temp.words(format(f.call, f.theirs)), '\m' || f.theirs || '\M', 'X', 'g') = regexp_replace(pg_temp.words(format(f.call, f.nobodys)), '\m' || f.nobodys || '\M', 'X', 'g') AS same
FROM (VALUES ($$SELECT gpucredit.cancel('te', %s, 'k6')$$, :'speech_job', '987654321'),
	($$SELECT gpucredit.settle('te', %s, 1, 'failed')$$, :'speech_job', '987654321'),
	($$SELECT gpucredit.history('te', %s)$$, :'speech_job', '987654321'),
	($$SELECT gpucredit.explain('te', %s)$$, :'speech_job', '987654321'),
	($$SELECT gpucredit.capture('te', %s, 'k7', 1)$$, :'speech_hold', '987654321'),
	($$SELECT gpucredit.release('te', %s, 'k8')$$, :'speech_hold', '987654321'),
	($$SELECT gpucredit.balance('te', '%s')$$, 'speech', 'nowhere'),
	($$SELECT gpucredit.hold('te', '%s', 'k9', 1, '1 h')$$, 'speech', 'nowhere'),
	($$SELECT gpucredit.balance('%s', '')$$, 'te-other', 'te-nobodys'),
	($$SELECT gpucredit.top_jobs('%s', 5, NULL)$$, 'te-other', 'te-nobodys'),
	($$SELECT gpucredit.invoice('%s', '2027-07-01')$$, 'te-other', 'te-nobodys'),
	($$SELECT gpucredit.cancel('%s', 1, 'k10')$$, 'te-other', 'te-nobodys')) f (call, theirs, nobodys);
RESET ROLE;
-- A key belongs to the role that uses it: a sibling's call under the same key
-- is another call, and an error tells only of the role's own.
BEGIN;
SET LOCAL ROLE te_vision;
SELECT pg_temp.words($$SELECT gpucredit.reserve('te', 'vision', 'sh', '1xTE', '1 h', pool => 'te')$$);
SELECT pg_temp.words($$SELECT gpucredit.reserve('te', 'vision', 'sh', '2xTE', '1 h', pool => 'te')$$);
ROLLBACK;

-- A member of a bound role has its bindings; after SET ROLE the new role's
-- count.
SET ROLE te_person;
SELECT available FROM gpucredit.balance('te', 'vision');
SELECT * FROM gpucredit.balance('te', 'speech');
RESET ROLE;
-- also inside another user's SECURITY DEFINER function
CREATE FUNCTION pg_temp.borrowed(account text) RETURNS numeric LANGUAGE sql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS 'SELECT available FROM gpucredit.balance(''te'', account)';
SET ROLE te_vision;
SELECT pg_temp.borrowed('vision');
SELECT pg_temp.borrowed('speech');
RESET ROLE;
-- or through another user's view of a table
CREATE ROLE te_owner IN ROLE gpucredit_auditor;
GRANT CREATE ON SCHEMA public TO te_owner;
SET ROLE te_owner;
CREATE VIEW public.te_accounts AS SELECT org, account FROM gpucredit.account;
CREATE FUNCTION public.te_jobs() RETURNS bigint LANGUAGE sql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS 'SELECT count(*) FROM gpucredit.job WHERE account !~ ''^vision(/|$)''';
GRANT SELECT ON public.te_accounts TO PUBLIC;
SELECT count(*) > 4 AS more, public.te_jobs() > 0 AS others FROM public.te_accounts;
SET ROLE te_vision;
SELECT * FROM public.te_accounts ORDER BY 1, 2;
SELECT public.te_jobs();
RESET ROLE;
DROP OWNED BY te_owner;
DROP ROLE te_owner;
-- other grants give it no more
SET ROLE te_both;
SELECT org, account FROM gpucredit.account ORDER BY 1, 2;
SELECT org, account, kind FROM gpucredit.alert ORDER BY 1, 2;
SELECT * FROM gpucredit.balance('te', 'speech');
SELECT * FROM gpucredit.balance('te-other');
SELECT * FROM gpucredit.verify('te-other');
SELECT * FROM gpucredit.place('te');
SELECT * FROM gpucredit.issue('te', 'vision', 'own2', 1);
-- but an auditor reads the tables as an auditor
SELECT count(*) > 0 AS all_of_it FROM gpucredit.audit WHERE org = 'te-other';
RESET ROLE;
-- and a role that may act as an application is no tenant while it does
SET SESSION AUTHORIZATION te_both;
SELECT available FROM gpucredit.balance('te-other');
SET ROLE gpucredit_app;
SELECT available > 0 AS of_others FROM gpucredit.balance('te-other');
RESET SESSION AUTHORIZATION;
-- a role with rights on the functions alone misses none
BEGIN;
REVOKE SELECT ON gpucredit.account, gpucredit.attempt, gpucredit.entry, gpucredit.hold, gpucredit.job, gpucredit.jobs FROM gpucredit_tenant;
SET LOCAL ROLE te_vision;
SELECT status FROM gpucredit.reserve('te', 'vision', 'rv', '1xTE', '1 h', pool => 'te') \g /dev/null
SELECT count(*) FROM gpucredit.statement('te', 'vision') \g /dev/null
SELECT count(*) FROM gpucredit.top_spenders('te', 1, NULL);
SELECT account FROM gpucredit.jobs;
ROLLBACK;
-- no policy limits a role with BYPASSRLS; calls and the view do
BEGIN;
ALTER ROLE te_vision BYPASSRLS;
SET LOCAL ROLE te_vision;
SELECT count(*) FILTER (WHERE account !~ '^vision(/|$)') FROM gpucredit.jobs;
SELECT available FROM gpucredit.balance('te', 'speech');
ROLLBACK;
-- prepared statements and cursors follow the current role
PREPARE own AS SELECT count(*) FROM gpucredit.account WHERE org LIKE 'te%';
EXECUTE own;
SET ROLE te_vision;
EXECUTE own;
RESET ROLE;
EXECUTE own;
BEGIN;
DECLARE mine CURSOR FOR SELECT account FROM gpucredit.account WHERE org LIKE 'te%' ORDER BY account;
FETCH 1 FROM mine;
ROLLBACK;

-- Bound to a whole organisation, to nothing, or no longer.
SET ROLE te_all;
SELECT available FROM gpucredit.balance('te');
SELECT count(*) FROM gpucredit.account;
SELECT job_state FROM gpucredit.cancel('te', :speech_job, 'c2');
SELECT * FROM gpucredit.cancel('te', 987654321, 'c3');
SELECT * FROM gpucredit.balance('te-other');
RESET ROLE;
SET ROLE te_nobody;
SELECT * FROM gpucredit.balance('te');
SELECT * FROM gpucredit.hold('te', '', 'k', 1, '1 h');
SELECT * FROM gpucredit.top_jobs('te', 5, NULL);
SELECT count(*) FROM gpucredit.account;
RESET ROLE;
BEGIN;
SELECT gpucredit.unbind_tenant('te_vision', 'te', 'vision');
SET LOCAL ROLE te_vision;
SELECT * FROM gpucredit.balance('te', 'vision');	-- at once in the same transaction
ROLLBACK;
SET ROLE te_vision;
SELECT available FROM gpucredit.balance('te', 'vision');	-- not taken back after all
RESET ROLE;
SELECT gpucredit.unbind_tenant('te_vision', 'te', 'vision');
SELECT gpucredit.unbind_tenant('te_vision', 'te', 'vision');
SET ROLE te_person;
SELECT * FROM gpucredit.balance('te', 'vision');
RESET ROLE;
SELECT operation, decision, account, detail ->> 'role' AS role FROM gpucredit.audit WHERE org = 'te' AND operation LIKE '%bind%' ORDER BY audit;

-- If bindings cannot be read, every caller is refused, not only tenants.
BEGIN;
ALTER ROLE gpucredit_tenant RENAME TO te_renamed;
SET LOCAL ROLE te_vision;
SAVEPOINT a;
SELECT available FROM gpucredit.balance('te-other');
ROLLBACK TO a;
SELECT count(*) FROM gpucredit.job;
ROLLBACK TO a;
SELECT * FROM gpucredit.hold('te-other', '', 'stolen', 1, '1 h');
ROLLBACK TO a;
SET LOCAL ROLE gpucredit_app;
SELECT available FROM gpucredit.balance('te-other');
ROLLBACK;

-- Timeouts of logins that are only tenants: its own login's, and members'.
-- What is set for a login or for all stays; unbinding keeps them, too.
CREATE ROLE te_login LOGIN IN ROLE gpucredit_tenant;
CREATE ROLE te_team IN ROLE gpucredit_tenant;
CREATE ROLE te_set LOGIN IN ROLE te_team;
CREATE ROLE te_service LOGIN IN ROLE te_team, gpucredit_app;
CREATE ROLE te_gateway LOGIN NOINHERIT IN ROLE te_team;
CREATE ROLE te_super LOGIN SUPERUSER IN ROLE te_team;
CREATE ROLE te_later LOGIN;
ALTER ROLE te_set SET statement_timeout = '7s';
CREATE FUNCTION pg_temp.timeouts() RETURNS TABLE (login name, setting text) LANGUAGE sql AS $$
	SELECT r.rolname, v FROM pg_db_role_setting d JOIN pg_roles r ON r.oid = d.setrole, unnest(d.setconfig) v
	WHERE r.rolname LIKE 'te%' AND v NOT LIKE 'transaction_timeout=%' ORDER BY 1, 2 $$;
BEGIN;
SET LOCAL gpucredit.tenant_idle_timeout = 0;
SET LOCAL gpucredit.tenant_transaction_max = 0;
SELECT gpucredit.bind_tenant('te_login', 'te');
SELECT * FROM pg_temp.timeouts();	-- both switched off
COMMIT;
SELECT gpucredit.bind_tenant(r, 'te') FROM unnest(ARRAY['te_login', 'te_team', 'te_service', 'te_gateway', 'te_super', 'te_later']) r;
SELECT * FROM pg_temp.timeouts();
SELECT count(*) FILTER (WHERE v = 'transaction_timeout=5min') = CASE WHEN current_setting('server_version_num')::int < 170000 THEN 0 ELSE 2 END AS from_17_on
FROM pg_db_role_setting d JOIN pg_roles r ON r.oid = d.setrole, unnest(d.setconfig) v WHERE r.rolname LIKE 'te%';
ALTER ROLE te_login IN DATABASE :"DBNAME" SET statement_timeout = 0;
GRANT gpucredit_tenant TO te_later;	-- after it was bound: bound again
SET gpucredit.tenant_transaction_max = '1 h';
SELECT gpucredit.bind_tenant(r, 'te') FROM unnest(ARRAY['te_login', 'te_later']) r;
RESET gpucredit.tenant_transaction_max;
SELECT gpucredit.unbind_tenant('te_login', 'te');
SELECT * FROM pg_temp.timeouts();
-- what an administrator without superuser rights may do
GRANT gpucredit_admin TO te_later;
REVOKE gpucredit_tenant FROM te_later;
ALTER ROLE te_set RESET statement_timeout;
SET ROLE te_later;
SELECT gpucredit.bind_tenant('te_team', 'te', 'vision');
SELECT task, affected FROM gpucredit.end_tenant_transactions();
ALTER ROLE te_set SET statement_timeout = 0;
RESET ROLE;
SET ROLE te_login;
SELECT * FROM gpucredit.end_tenant_transactions();
SELECT gpucredit_internal.limit_tenant_logins('te_set');
RESET ROLE;
SELECT * FROM pg_temp.timeouts() WHERE login = 'te_set';
DROP ROLE te_login, te_set, te_service, te_gateway, te_super, te_later, te_team;

-- Nobody is a tenant by accident: no superuser, and no role that is not a
-- member.
GRANT gpucredit_tenant TO CURRENT_USER;
SELECT available FROM gpucredit.balance('te');
REVOKE gpucredit_tenant FROM CURRENT_USER;
-- verify reports a binding to a missing account
BEGIN;
INSERT INTO gpucredit.tenant VALUES ('te', 'gone', 'te_all');
ALTER TABLE gpucredit.tenant DISABLE TRIGGER tenant_changed;
SELECT invariant, subject FROM gpucredit.verify();
ROLLBACK;
-- a role's name that is used again keeps its bindings
DROP ROLE te_all;
CREATE ROLE te_all IN ROLE gpucredit_tenant;
SET ROLE te_all;
SELECT available > 0 AS still FROM gpucredit.balance('te');
RESET ROLE;
DROP ROLE te_all;
SELECT gpucredit.unbind_tenant('te_all', 'te');
DROP ROLE te_vision, te_nobody, te_person, te_both;
SELECT * FROM gpucredit.verify();
