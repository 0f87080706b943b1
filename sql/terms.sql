-- What verify() finds of terms that no entry has: buckets', closures',
-- slices', reservations'; each is broken once behind the functions' back.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS gpucredit CASCADE;
RESET client_min_messages;
SET timezone = 'America/New_York';	-- days of 23, 24 and 25 hours
SET datestyle = 'SQL, DMY';
SET intervalstyle = 'sql_standard';
SET search_path = public, gpucredit;
SET gpucredit.clock = '2042-03-01 00:00+00';
\set SHOW_CONTEXT never
\pset format unaligned
\pset tuples_only on

-- What verify() finds in these organisations after a change, which is undone.
CREATE FUNCTION pg_temp.after(deed text) RETURNS SETOF text
LANGUAGE plpgsql AS $$
DECLARE
	found text[];
BEGIN
	BEGIN
		EXECUTE deed;
		found := ARRAY(SELECT v.invariant || coalesce(' ' || b.memo, '')
			COLLATE "C"
			FROM gpucredit.verify() v LEFT JOIN gpucredit.bucket b
				ON v.subject = 'bucket ' || b.bucket AND b.org = v.org
			ORDER BY 1);
		RAISE EXCEPTION USING ERRCODE = 'XX999';
	EXCEPTION WHEN SQLSTATE 'XX999' THEN
		NULL;					/* undone */
	END;
	RETURN QUERY SELECT unnest(found);
END
$$;

\echo === buckets as they were issued
SELECT count(create_account('told', a)) FROM unnest('{"",a,b}'::text[]) a;
-- one bucket with only an amount, one with every term; at both ends of time
SELECT count(issue('told', '', 'plain', 10, memo => 'plain'));
SELECT count(issue('told', 'a', 'all', 10, 'promo', effective_at => '2042-03-02 12:00:00.000001+05:30',
	expires_at => '2042-12-31 23:59:59.999999+00', priority => -7, memo => 'all',
	policy => '{"tiers": ["standard_training"], "max_per_job": 2.50, "max_share": 0.5, "gpu_types": ["T4"], "pools": ["default"]}'));
SELECT count(issue('told', 'a', 'for', 10, 'grant', valid_for => '30 days 1 us', memo => 'for'));
SELECT count(issue('told', 'a', 'past', 10, effective_at => '4000-06-01 12:34:56.789+00 BC',
	expires_at => '99999-01-01 00:00+00', memo => 'past'));
SELECT count(issue('told', '', 'ever', 10, effective_at => '4000-06-01 00:00+00 BC', valid_for => '100000000 days',
	memo => 'ever'));
SELECT count(issue('told', '', 'late', 10, valid_for => '106751991 days', memo => 'late'));
SELECT count(issue('told', '', 'long', 10, memo => repeat('é', 300)));
SELECT count(issue('told', '', 'none', 10));
SELECT * FROM verify();

SELECT d.deed, pg_temp.after(format('UPDATE gpucredit.bucket SET %s WHERE org = ''told'' AND memo = ''%s''', d.deed, d.memo))
FROM (VALUES
	('plain', $$expires_at = '2043-01-01'$$),
	('plain', $$effective_at = effective_at - interval '1 us'$$),
	('plain', $$created_at = created_at + interval '1 us'$$),
	('plain', $$kind = 'promo'$$),
	('plain', $$priority = 99$$),
	('plain', $$account = 'a'$$),
	('plain', $$policy = '{"tiers": ["standard_training"]}', tiers = '{standard_training}'$$),
	('all', $$expires_at = expires_at + interval '1 us'$$),
	('all', $$expires_at = NULL$$),
	('all', $$policy = policy || '{"max_per_job": 2.51}', max_per_job = '2.51'$$),
	('all', $$policy = '{}', gpu_types = NULL, tiers = NULL, pools = NULL, max_per_job = NULL, max_share = NULL$$),
	('for', $$expires_at = expires_at + interval '1 us'$$),
	('for', $$expires_at = NULL$$),
	('past', $$effective_at = effective_at + interval '1 s'$$),
	('ever', $$expires_at = '294000-01-01'$$),
	('late', $$expires_at = NULL$$)) AS d (memo, deed);
SELECT pg_temp.after($$UPDATE gpucredit.bucket SET memo = 'other' WHERE org = 'told' AND memo = 'plain'$$);
SELECT pg_temp.after($$UPDATE gpucredit.bucket SET memo = 'other' WHERE org = 'told' AND memo IS NULL$$);
SELECT pg_temp.after($$UPDATE gpucredit.bucket SET memo = NULL WHERE org = 'told' AND memo = 'all'$$);
SELECT left(a, 25) FROM pg_temp.after($$UPDATE gpucredit.bucket SET memo = repeat('é', 299) || 'e'
	WHERE org = 'told' AND memo LIKE 'é%'$$) a;

\echo === buckets as what they came from
SET gpucredit.clock = '2042-03-10 00:00+00';
SELECT status FROM transfer('told', 'a', 'b', 'move', 25);
SELECT memo, kind, priority, available FROM bucket WHERE org = 'told' AND account = 'b' ORDER BY memo;
SELECT * FROM verify();
SELECT d.deed, pg_temp.after(format('UPDATE gpucredit.bucket SET %s WHERE org = ''told'' AND account = ''b'' AND memo = ''all''', d.deed))
FROM (VALUES
	($$expires_at = '2043-06-01'$$),
	($$effective_at = effective_at + interval '1 us'$$),
	($$created_at = created_at + interval '1 us'$$),
	($$kind = 'grant'$$),
	($$priority = 1$$),
	($$account = ''$$),
	($$policy = '{}', gpu_types = NULL, tiers = NULL, pools = NULL, max_per_job = NULL, max_share = NULL$$),
	($$memo = 'other'$$)) AS d (deed);

\echo === buckets as they were closed
SELECT r.revoked FROM bucket b, revoke('told', b.bucket, 'r1', 'why not') r WHERE b.org = 'told' AND memo = 'plain';
SET gpucredit.clock = '2042-03-10 01:00+00';
SELECT r.revoked FROM bucket b, revoke('told', b.bucket, 'r2', 'again') r WHERE b.org = 'told' AND memo = 'plain';
SET gpucredit.clock = '2042-03-10 00:30+00';
SELECT r.revoked FROM bucket b, revoke('told', b.bucket, 'r3', 'a clock set back') r WHERE b.org = 'told' AND memo = 'plain';
SELECT * FROM verify();
SELECT pg_temp.after($$UPDATE gpucredit.bucket SET closed_at = closed_at + interval '1 h' WHERE org = 'told' AND memo = 'plain'$$);
SELECT pg_temp.after($$UPDATE gpucredit.bucket SET closed_at = NULL WHERE org = 'told' AND memo = 'plain'$$);
SELECT pg_temp.after($$UPDATE gpucredit.bucket SET closed_at = '2042-03-11' WHERE org = 'told' AND memo = 'late'$$);

\echo === holds that give back to slices
SELECT count(create_account('told-s', a)) FROM unnest('{"",a,a/b,c}'::text[]) a;
SELECT count(issue('told-s', a, 'i' || a, 100)) FROM unnest('{a,c}'::text[]) a;
SELECT count(hold('told-s', a, 'plain' || a, 1, '1 day')) FROM unnest('{a,a/b,c}'::text[]) a;
SELECT count(set_slices('told-s', 'a', 4));
SELECT count(hold('told-s', a, 'sliced' || a, 1, '1 day')) FROM unnest('{a,a/b,c}'::text[]) a;
SELECT account, sliced FROM hold WHERE org = 'told-s' ORDER BY hold;
SELECT * FROM verify();
-- any of these holds may have begun before the slices; none of "c" has slices
SELECT pg_temp.after($$UPDATE gpucredit.hold SET sliced = NOT sliced WHERE org = 'told-s' AND account <> 'c'$$);
SELECT pg_temp.after($$UPDATE gpucredit.hold SET sliced = true WHERE org = 'told-s' AND account = 'c'$$);
-- that an account once had slices is known after they are gone
SELECT count(set_slices('told-s', 'a', 1));
SELECT * FROM verify();
BEGIN;
UPDATE hold SET sliced = true WHERE org = 'told-s';
SELECT invariant, subject, regexp_replace(detail, 'hold \d+', 'hold n') FROM verify();
ROLLBACK;

\echo === reservations
SELECT count(*) FROM (SELECT create_pool('told'), set_price('TOLD', 1, 'told'), set_price('TOLD-B', 2, 'told')) s;
SELECT count(register_node('told', 'told-' || n, 'TOLD', 4, 16384)) FROM generate_series(1, 2) n;
SELECT count(register_node('told', 'told-b', 'TOLD-B', 4, 16384));
SELECT count(create_account('told-r')), count(issue('told-r', '', 'i', 1000));
SELECT count(reserve('told-r', '', 'r' || n, '4xTOLD', '1 h', pool => 'told')) FROM generate_series(1, 2) n;
SELECT count(*) FROM place('told') WHERE action = 'start';
SELECT count(reserve('told-r', '', 'both', '8xTOLD', '1 h', pool => 'told'));
SELECT count(reserve('told-r', '', 'b', '4xTOLD-B', '1 h', pool => 'told'));
SELECT count(*) FROM place('told') WHERE action = 'start';
SELECT count(reserve('told-r', '', 'half', '0.5xTOLD-B', '1 h', pool => 'told'));
SELECT count(*) FROM place('told');
SELECT nodes, gpu_type FROM reservation WHERE pool = 'told' ORDER BY job;
SELECT * FROM verify();
SELECT d.deed, pg_temp.after(format('UPDATE gpucredit.reservation SET %s WHERE gpu_type = ''TOLD''', d.deed))
FROM (VALUES
	($$at = at - interval '1 us'$$),
	($$nodes = replace(nodes, '0', '1')$$),
	($$gpus = ARRAY[gpus[2], '{0}']$$),
	($$nodes = 'told-1{0-3}', on_nodes = '{told-1}', gpus = gpus[1:1]$$),
	($$gpu_type = 'TOLD-B'$$),
	($$gpu_type = NULL$$),
	($$told_at = told_at + interval '1 s'$$),
	($$limit_at = limit_at - interval '1 us'$$),
	($$limit_at = NULL$$),
	($$latest_at = latest_at + interval '1 us'$$),
	($$latest_at = NULL$$),
	($$pool = 'default'$$),
	($$job = 0$$)) AS d (deed);
-- one cycle made the reservation, and it is no longer true for the next
SELECT state FROM job j, cancel('told-r', j.job, 'x') WHERE j.org = 'told-r' AND j.request::text = '8xTOLD';
SELECT * FROM verify();
SELECT count(*) FROM place('told') WHERE action = 'start';
SELECT * FROM verify();

\echo === of one organisation
SELECT pg_temp.after($$UPDATE gpucredit.bucket SET priority = 3 WHERE org IN ('told', 'told-s') AND memo IS NULL$$);
BEGIN;
UPDATE bucket SET priority = 3, effective_at = '2042-01-01 00:00+00' WHERE org IN ('told', 'told-s') AND memo IS NULL;
SET LOCAL timezone = 'UTC';
SET LOCAL datestyle = 'ISO';
SELECT invariant, org, detail FROM verify('told');
ROLLBACK;
SELECT * FROM verify();
