-- A key belongs to whoever uses it, and a payment's key never expires.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS gpucredit CASCADE;
RESET client_min_messages;
SET timezone = 'UTC';
SET datestyle = 'ISO';
SET gpucredit.clock = '2027-01-01 00:00+00';
\set VERBOSITY sqlstate
\pset null '-'

CREATE ROLE ks_vision LOGIN IN ROLE gpucredit_tenant;
CREATE ROLE ks_speech LOGIN IN ROLE gpucredit_tenant;
CREATE ROLE ks_both LOGIN IN ROLE gpucredit_tenant, gpucredit_app;
CREATE ROLE ks_web1 LOGIN IN ROLE gpucredit_app;
CREATE ROLE ks_web2 LOGIN IN ROLE gpucredit_app;
CREATE ROLE ks_admin LOGIN IN ROLE gpucredit_admin, gpucredit_app;
CREATE ROLE ks_operator LOGIN IN ROLE gpucredit_operator, gpucredit_agent, gpucredit_app;
CREATE ROLE ks_agent LOGIN IN ROLE gpucredit_agent, gpucredit_app;
CREATE ROLE ks_taker LOGIN NOINHERIT IN ROLE gpucredit_admin, ks_web1, ks_vision;
CREATE ROLE ks_granted LOGIN;
GRANT USAGE ON SCHEMA gpucredit TO ks_granted;
GRANT EXECUTE ON FUNCTION gpucredit.hold, gpucredit.release, gpucredit.key_space TO ks_granted;
DO $$
BEGIN
	PERFORM gpucredit.create_account('ks'), gpucredit.create_account('ks', 'vision'),
		gpucredit.create_account('ks', 'speech');
	PERFORM gpucredit.bind_tenant('ks_vision', 'ks', 'vision'),
		gpucredit.bind_tenant('ks_both', 'ks', 'vision'),
		gpucredit.bind_tenant('ks_speech', 'ks', 'speech');
	PERFORM gpucredit.create_pool('ks'), gpucredit.set_price('KS', 1, 'ks'),
		gpucredit.register_node('ks', 'ks-1', 'KS', 8, 40960);
END $$;
-- What a caller of a role gets: new, replayed or the error's code.
CREATE FUNCTION pg_temp.as_role(role name, call text) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
	replayed boolean;
	answer text;
BEGIN
	EXECUTE format('SET LOCAL ROLE %I', role);
	BEGIN
		EXECUTE 'SELECT replayed FROM gpucredit.' || call INTO replayed;
		answer := CASE WHEN replayed THEN 'replayed' ELSE 'new' END;
	EXCEPTION WHEN others THEN
		answer := SQLSTATE;
	END;
	RESET ROLE;
	RETURN answer;
END $$;
CREATE FUNCTION pg_temp.space_of(role name) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
	space text;
BEGIN
	EXECUTE format('SET LOCAL ROLE %I', role);
	space := gpucredit.key_space();
	RESET ROLE;
	RETURN space;
END $$;

-- Which space each role has; more memberships do not widen a tenant's.
SELECT r.role, pg_temp.space_of(r.role::name) AS space
FROM unnest(ARRAY['ks_vision', 'ks_speech', 'ks_both', 'ks_web1', 'ks_web2', 'ks_admin',
	'ks_operator', 'ks_agent', 'ks_granted', 'gpucredit_app', 'gpucredit_admin']) r (role);
SELECT gpucredit.key_space() AS superuser;
-- SET ROLE decides: a login that inherits nothing has no role's space, and none
-- of the functions
SELECT pg_temp.as_role('ks_taker', $$hold('ks', 'vision', 'no rights', 1, '1 h')$$);

-- Tenants take the keys that others will use: nobody else notices.
SELECT issue.replayed FROM gpucredit.issue('ks', '', 'first', 1000);
SELECT k.key, pg_temp.as_role('ks_vision', format($$hold('ks', 'vision', %L, 1, '1 h')$$, k.key)) AS takes,
	pg_temp.as_role('ks_speech', format($$hold('ks', 'speech', %L, 2, '1 h')$$, k.key)) AS sibling,
	pg_temp.as_role('ks_web1', format($$hold('ks', '', %L, 3, '1 h')$$, k.key)) AS application,
	pg_temp.as_role('ks_agent', format($$hold('ks', '', %L, 4, '1 h')$$, k.key)) AS bridge,
	pg_temp.as_role('ks_admin', format($$issue('ks', '', %L, 5)$$, k.key)) AS administrator,
	pg_temp.as_role('ks_granted', format($$hold('ks', '', %L, 6, '1 h')$$, k.key)) AS granted
FROM unnest(ARRAY['invoice-4711', 'registry/storage/2030-01-01',
	'550e8400-e29b-41d4-a716-446655440000']) k (key);
-- each of them finds its own key again, an application also over another login
SELECT pg_temp.as_role('ks_vision', $$hold('ks', 'vision', 'invoice-4711', 1, '1 h')$$) AS tenant,
	pg_temp.as_role('ks_web2', $$hold('ks', '', 'invoice-4711', 3, '1 h')$$) AS application,
	pg_temp.as_role('gpucredit_app', $$hold('ks', '', 'invoice-4711', 3, '1 h')$$) AS its_role,
	pg_temp.as_role('gpucredit_admin', $$issue('ks', '', 'invoice-4711', 5)$$) AS administrator;
SELECT replayed AS superuser FROM gpucredit.issue('ks', '', 'invoice-4711', 5);
-- and is told of its own calls only
SELECT pg_temp.as_role('ks_vision', $$hold('ks', 'vision', 'invoice-4711', 7, '1 h')$$) AS own,
	pg_temp.as_role('ks_speech', $$hold('ks', 'vision', 'invoice-4711', 1, '1 h')$$) AS siblings,
	pg_temp.as_role('ks_both', $$hold('ks', 'vision', 'invoice-4711', 7, '1 h')$$) AS other_login_of_the_account;
\set VERBOSITY default
SET ROLE ks_vision;
SELECT replayed FROM gpucredit.hold('ks', 'vision', 'invoice-4711', 7, '1 h');
RESET ROLE;
\set VERBOSITY sqlstate
-- credit and jobs of each call are its own
SELECT t.role, pg_temp.as_role(t.role, format($$reserve('ks', %L, 'train-1', '1xKS', '1 h', pool => 'ks')$$,
	t.account)) AS state
FROM (VALUES ('ks_vision', 'vision'), ('ks_speech', 'speech'), ('ks_web1', 'vision')) t (role, account);
SELECT count(DISTINCT j.job) AS jobs
FROM gpucredit.job j JOIN gpucredit.request r ON r.org = j.org AND r.result[1] = j.job::text
WHERE j.org = 'ks' AND r.key = 'train-1' AND r.operation = 'reserve';
SELECT pg_temp.as_role('ks_vision', format($$cancel('ks', %s, 'train-1 over')$$, r.result[1])) AS cancels,
	pg_temp.as_role('ks_operator', format($$cancel('ks', %s, 'train-1 over')$$, r.result[1])) AS operator_too
FROM gpucredit.request r WHERE r.org = 'ks' AND r.space = 'tenant/ks_vision' AND r.key = 'train-1';

-- No caller chooses its space.
SET ROLE ks_vision;
SET gpucredit.key_space = 'gpucredit_registry';
SELECT set_config('gpucredit.key_space', 'gpucredit_registry', false);
RESET ROLE;
SET ROLE ks_admin;
SET gpucredit.key_space = 'gpucredit_registry';
RESET ROLE;
-- and a companion's is no caller's
SET gpucredit.key_space = 'tenant/ks_vision';
SET gpucredit.key_space = 'admin';
-- a companion's function uses the companion's keys for whoever calls it, and
-- sees the caller's space
CREATE FUNCTION pg_temp.companion(key text, OUT replayed boolean, OUT caller text)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET gpucredit.key_space = 'gpucredit_companion'
AS $$
BEGIN
	SELECT h.replayed, gpucredit.key_space() INTO replayed, caller
	FROM gpucredit.hold('ks', 'vision', key, 1, '1 h') h;
END $$;
SET ROLE ks_vision;
SELECT * FROM pg_temp.companion('registry/storage/2030-01-01');
SELECT gpucredit.key_space() AS afterwards;
SET ROLE ks_web1;
SELECT * FROM pg_temp.companion('registry/storage/2030-01-01');
RESET ROLE;
SELECT r.space, count(*) FROM gpucredit.request r
WHERE r.org = 'ks' AND r.key = 'registry/storage/2030-01-01' GROUP BY 1 ORDER BY 1;

-- Without one of the roles nobody can say whose a key is.
ALTER ROLE gpucredit_operator RENAME TO ks_renamed;
SELECT pg_temp.as_role('ks_web1', $$hold('ks', '', 'renamed', 1, '1 h')$$);
ALTER ROLE ks_renamed RENAME TO gpucredit_operator;
-- A role's name that is used again has the keys of the name, as it has its bindings.
DROP OWNED BY ks_speech;
DROP ROLE ks_speech;
CREATE ROLE ks_speech LOGIN IN ROLE gpucredit_tenant;
SELECT pg_temp.as_role('ks_speech', $$hold('ks', 'speech', 'invoice-4711', 2, '1 h')$$);

-- A year later: payments are replayed, in each way that money comes or goes.
SELECT hold AS paid FROM gpucredit.hold('ks', '', 'to refund', 10, '1 h') \gset
SELECT captured FROM gpucredit.capture('ks', :paid, 'captured', 10);
SELECT job FROM gpucredit.reserve('ks', '', 'refunded', '1xKS', '1 h', pool => 'ks') \gset
SELECT count(*) FROM gpucredit.place('ks') p WHERE p.job = :job;
SET gpucredit.clock = '2027-01-01 00:30+00';
SELECT billed FROM gpucredit.settle('ks', :job, 1, 'completed', '30 min');
SELECT bucket AS bucket FROM gpucredit.issue('ks', '', 'to revoke', 20) \gset
CREATE TEMP TABLE payment (n serial, call text);
INSERT INTO payment (call) VALUES
	($$issue('ks', '', 'stripe:evt_1', 100)$$),
	(format($$refund('ks', %s, 'stripe:re_1', 0.25, 'slow')$$, :job)),
	(format($$refund_hold('ks', %s, 'stripe:re_2', 4, 'sorry')$$, :paid)),
	($$transfer('ks', '', 'vision', 'move-1', 30)$$),
	(format($$revoke('ks', %s, 'stripe:dispute_1', 'fraud')$$, :bucket));
SELECT split_part(p.call, '(', 1) AS operation, pg_temp.as_role('ks_admin', p.call) AS at_once FROM payment p ORDER BY p.n;
SELECT pg_temp.as_role('ks_web1', $$hold('ks', '', 'held', 1, '1 h')$$) AS at_once;
SELECT available, spent FROM gpucredit.balance('ks');
SET gpucredit.clock = '2028-01-01 00:30+00';
SELECT pg_temp.as_role('ks_admin', p.call) AS before_upkeep FROM payment p ORDER BY p.n;
SELECT count(*) > 0 AS swept FROM gpucredit.reap_holds();
SELECT affected > 0 AS forgot FROM gpucredit.maintain() WHERE task = 'forget_requests';
SELECT affected FROM gpucredit.maintain() WHERE task = 'forget_requests';
SELECT pg_temp.as_role('ks_admin', p.call) AS after_upkeep FROM payment p ORDER BY p.n;
SELECT pg_temp.as_role('ks_admin', replace(p.call, '30)', '31)')) AS other_amount
FROM payment p WHERE p.call LIKE 'transfer%';
SELECT pg_temp.as_role('ks_admin', $$hold('ks', '', 'stripe:evt_1', 1, '1 h')$$) AS other_function;
SELECT pg_temp.as_role('ks_web1', $$hold('ks', '', 'held', 2, '1 h')$$) AS a_hold_is_new;
-- what is left of all keys is what never expires
SELECT r.operation, r.lasting, count(*) FROM gpucredit.request r
WHERE r.org = 'ks' GROUP BY 1, 2 ORDER BY 1;
-- a payment under a key that a hold had long ago is a new call, and stays
SELECT pg_temp.as_role('ks_admin', $$hold('ks', '', 'reused', 1, '1 h')$$);
SET gpucredit.clock = '2028-02-01 00:00+00';
SELECT pg_temp.as_role('ks_admin', $$issue('ks', '', 'reused', 1)$$) AS new,
	pg_temp.as_role('ks_admin', $$issue('ks', '', 'reused', 1)$$) AS again;
SET gpucredit.clock = '2029-02-01 00:00+00';
SELECT pg_temp.as_role('ks_admin', $$issue('ks', '', 'reused', 1)$$) AS a_year_later;
-- a companion's payments do not expire either
SET gpucredit.key_space = 'gpucredit_companion';
SELECT replayed FROM gpucredit.issue('ks', '', 'of a companion', 1);
SET gpucredit.clock = '2029-03-01 00:00+00';
SELECT replayed FROM gpucredit.issue('ks', '', 'of a companion', 1);
RESET gpucredit.key_space;
-- nobody makes a payment's key expire by hand
UPDATE gpucredit.request r SET lasting = false WHERE r.org = 'ks';

SELECT * FROM gpucredit.verify();
SET gpucredit.clock = '2029-06-01 00:00+00';
SELECT count(*) FROM gpucredit.maintain() \g /dev/null
DROP OWNED BY ks_granted;
DROP ROLE ks_vision, ks_speech, ks_both, ks_web1, ks_web2, ks_admin, ks_operator, ks_agent,
	ks_taker, ks_granted;
