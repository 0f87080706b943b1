-- Accounts, credits, holds: what an account can spend, from which bucket it is
-- spent, and where the rest goes.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS gpucredit CASCADE;
RESET client_min_messages;
SET timezone = 'UTC';
SET datestyle = 'ISO';
SET intervalstyle = 'postgres';
SET gpucredit.clock = '2027-01-01 00:00+00';
\set VERBOSITY sqlstate
\pset null '-'

-- Buckets by the memo they were issued with: ids depend on other tests.
CREATE FUNCTION pg_temp.parts(tenant text, hold_key text)
RETURNS TABLE (part int, bucket text, drawn numeric, held numeric,
	spent numeric, returned numeric, lapsed numeric)
LANGUAGE sql AS $$
	SELECT p.part, b.memo, p.drawn::numeric, p.held::numeric,
		p.spent::numeric, p.returned::numeric, p.lapsed::numeric
	FROM gpucredit.request r
		JOIN gpucredit.hold_part p ON p.org = r.org
			AND p.hold = r.result[1]::bigint
		JOIN gpucredit.bucket b ON b.org = p.org AND b.bucket = p.bucket
	WHERE r.org = tenant AND r.key = hold_key
	ORDER BY p.part
$$;
CREATE FUNCTION pg_temp.hold(tenant text, hold_key text) RETURNS bigint
LANGUAGE sql AS $$
	SELECT r.result[1]::bigint FROM gpucredit.request r
	WHERE r.org = tenant AND r.key = hold_key
$$;
CREATE FUNCTION pg_temp.buckets(tenant text, leaf text DEFAULT '')
RETURNS TABLE (memo text, kind text, priority int, issued numeric,
	available numeric, held numeric, spent numeric, expired numeric,
	usable boolean)
LANGUAGE sql AS $$
	SELECT b.memo, u.kind, u.priority, u.issued, u.available, u.held, u.spent,
		u.expired, u.usable
	FROM gpucredit.buckets(tenant, leaf) WITH ORDINALITY u
		JOIN gpucredit.bucket b ON b.org = tenant AND b.bucket = u.bucket
	ORDER BY u.ordinality
$$;

-- Accounts are paths: an organisation, then up to 8 levels, parents first.
SELECT gpucredit.create_account('le');
SELECT gpucredit.create_account('le', 'vision/alice');
SELECT gpucredit.create_account('le', 'vision');
SELECT gpucredit.create_account('le', 'vision/alice', 2.5);
SELECT gpucredit.create_account('le-unborn', 'vision');
DO $$
BEGIN
	FOR level IN 1 .. 8 LOOP
		PERFORM gpucredit.create_account('le',
			array_to_string(array_fill('d'::text, ARRAY[level]), '/'));
	END LOOP;
END $$;
SELECT gpucredit.create_account('le', 'd/d/d/d/d/d/d/d/d');
SELECT gpucredit.create_account('le', '/vision');
SELECT gpucredit.create_account('le', 'vision/');
SELECT gpucredit.create_account('le', 'vision//alice');
SELECT gpucredit.create_account('');
SELECT gpucredit.create_account('le', 'Vision', 3);	-- case matters
-- the same call again changes the weight, and nothing else
SELECT gpucredit.suspend_account('le', 'vision', true);
SELECT gpucredit.create_account('le', 'vision', 7);
SELECT gpucredit.suspend_account('le', 'd/x', true);
SELECT account, weight, suspended FROM gpucredit.account
WHERE org = 'le' ORDER BY account;
SELECT gpucredit.suspend_account('le', 'vision', false);

-- Issuing: kinds, starts and ends.
SELECT replayed FROM gpucredit.issue('le', '', 'i1', 100, memo => 'forever');
SELECT replayed FROM gpucredit.issue('le', 'vision', 'i2', 10, 'promo',
	valid_for => '1 day', memo => 'promo');
SELECT replayed FROM gpucredit.issue('le', '', 'i3', 20, 'grant',
	expires_at => '2027-01-03 00:00+00',
	effective_at => '2027-01-02 00:00+00', memo => 'tomorrow');
SELECT replayed FROM gpucredit.issue('le', 'vision/alice', 'i4', 5, 'grant',
	effective_at => '2027-01-02 00:00+00', valid_for => '12 h',
	memo => 'half a day');
SELECT * FROM gpucredit.issue('le', '', 'x', 1, 'loan');
SELECT * FROM gpucredit.issue('le', '', 'x', 1,
	expires_at => '2027-01-01 00:00+00');				-- not in the future
SELECT * FROM gpucredit.issue('le', '', 'x', 1,
	expires_at => '2027-02-01', valid_for => '1 day');
SELECT * FROM gpucredit.issue('le', '', 'x', 1,
	expires_at => '2027-02-01', effective_at => '2027-02-01');
SELECT * FROM gpucredit.issue('le', '', 'x', 1,
	effective_at => '2026-01-01', valid_for => '1 day');	-- over already
SELECT * FROM gpucredit.issue('le', '', 'x', 1, policy => '{"color": "red"}');
SELECT * FROM gpucredit.issue('le', 'no such', 'x', 1);
-- an account spends its own buckets and its ancestors', not its descendants'
SELECT a.account, b.*
FROM (VALUES (''), ('vision'), ('vision/alice'), ('d')) a (account),
	gpucredit.balance('le', a.account) b;
SELECT b.account, b.kind, b.effective_at, b.expires_at, b.available, b.usable
FROM gpucredit.buckets('le', 'vision/alice') b;
SET gpucredit.clock = '2027-01-02 00:00+00';
SELECT available, promo, granted, paid, next_expiry_at, next_expiry_amount
FROM gpucredit.balance('le', 'vision/alice');
SELECT * FROM gpucredit.verify('le');

-- The burn order; each criterion decides where those before it tie:
-- priority, expiry, kind, depth, effective, bucket.
SET gpucredit.clock = '2027-01-01 00:00+00';
DO $$
BEGIN
	PERFORM gpucredit.create_account('le-burn');
	PERFORM gpucredit.create_account('le-burn', 'p');
	PERFORM gpucredit.create_account('le-burn', 'p/u');
	-- the last to burn first
	PERFORM gpucredit.issue('le-burn', 'p/u', '9', 1, 'promo', priority => 101,
		valid_for => '1 h', memo => '9: priority');
	PERFORM gpucredit.issue('le-burn', 'p/u', '8', 1, 'promo',
		memo => '8: never expires');
	PERFORM gpucredit.issue('le-burn', '', '7', 1, 'promo',
		valid_for => '3 days', memo => '7: expires later');
	PERFORM gpucredit.issue('le-burn', 'p/u', '6', 1, 'paid',
		expires_at => '2027-01-03', memo => '6: paid');
	PERFORM gpucredit.issue('le-burn', 'p/u', '5', 1, 'grant',
		expires_at => '2027-01-03', memo => '5: grant');
	PERFORM gpucredit.issue('le-burn', '', '4', 1, 'promo',
		expires_at => '2027-01-03', memo => '4: of the organisation');
	PERFORM gpucredit.issue('le-burn', 'p', '3', 1, 'promo',
		expires_at => '2027-01-03', memo => '3: of the project');
	PERFORM gpucredit.issue('le-burn', 'p/u', '2', 1, 'promo',
		expires_at => '2027-01-03', memo => '2: later bucket');
	PERFORM gpucredit.issue('le-burn', 'p/u', '2b', 1, 'promo',
		expires_at => '2027-01-03', memo => '2: later bucket still');
	PERFORM gpucredit.issue('le-burn', 'p/u', '1', 1, 'promo',
		expires_at => '2027-01-03', effective_at => '2026-12-01',
		memo => '1: active for longer');
	PERFORM gpucredit.issue('le-burn', 'p/u', '0', 1, 'paid', priority => -1,
		memo => '0: negative priority');
	PERFORM gpucredit.issue('le-burn', 'p/u', 'n', 1, 'promo', priority => -2,
		effective_at => '2027-02-01', memo => 'not yet active');
END $$;
SELECT memo, usable FROM pg_temp.buckets('le-burn', 'p/u');
SELECT status, held FROM gpucredit.hold('le-burn', 'p/u', 'all', 10.5, '1 h');
SELECT part, bucket, drawn FROM pg_temp.parts('le-burn', 'all');
-- captures spend first drawn first; releases give back last drawn first
SELECT captured, released FROM gpucredit.capture('le-burn',
	pg_temp.hold('le-burn', 'all'), 'c1', 2.25, false);
SELECT captured, released, lapsed FROM gpucredit.capture('le-burn',
	pg_temp.hold('le-burn', 'all'), 'c2', 1);
SELECT part, bucket, spent, returned FROM pg_temp.parts('le-burn', 'all');
SELECT * FROM gpucredit.verify('le-burn');

-- Holds: to the last micro-credit, and not one more.
DO $$
BEGIN
	PERFORM gpucredit.create_account('le-hold');
	PERFORM gpucredit.create_account('le-hold', 'u');
	PERFORM gpucredit.create_account('le-hold', 'u/v');
	PERFORM gpucredit.issue('le-hold', '', 'i', 10, memo => 'only');
END $$;
SELECT status, reason, held, expires_at, replayed
FROM gpucredit.hold('le-hold', 'u', 'h1', 10.000001, '1 h');
SELECT status, reason, held, expires_at, replayed
FROM gpucredit.hold('le-hold', 'u', 'h2', 10, '1 h');
SELECT status, reason, held FROM gpucredit.hold('le-hold', '', 'h3', 0.000001, '1 h');
SELECT available, held, spent FROM gpucredit.balance('le-hold');
SELECT available, held, spent FROM gpucredit.balance('le-hold', 'u');
-- capture in pieces; more than is left is refused, exactly what is left is not
SELECT * FROM gpucredit.capture('le-hold', pg_temp.hold('le-hold', 'h2'), 'c1', 4, false);
SELECT * FROM gpucredit.capture('le-hold', pg_temp.hold('le-hold', 'h2'), 'c2', 0, false);
SELECT * FROM gpucredit.capture('le-hold', pg_temp.hold('le-hold', 'h2'), 'c3', 6.000001);
SELECT * FROM gpucredit.capture('le-hold', pg_temp.hold('le-hold', 'h2'), 'c4', 6);
-- a closed hold gives nothing more, but replays the same call
SELECT * FROM gpucredit.capture('le-hold', pg_temp.hold('le-hold', 'h2'), 'c5', 0);
SELECT * FROM gpucredit.release('le-hold', pg_temp.hold('le-hold', 'h2'), 'r1');
SELECT * FROM gpucredit.capture('le-hold', pg_temp.hold('le-hold', 'h2'), 'c4', 6);
SELECT available, held, spent FROM gpucredit.balance('le-hold');
-- release gives everything back, once
SELECT replayed FROM gpucredit.issue('le-hold', '', 'i2', 5, memo => 'more');
SELECT status FROM gpucredit.hold('le-hold', 'u', 'h4', 3, '1 h');
SELECT * FROM gpucredit.release('le-hold', pg_temp.hold('le-hold', 'h4'), 'r2');
SELECT * FROM gpucredit.release('le-hold', pg_temp.hold('le-hold', 'h4'), 'r2');
SELECT * FROM gpucredit.release('le-hold', pg_temp.hold('le-hold', 'h4'), 'r3');
-- an account suspended at any level takes no new holds; its open holds stay
SELECT status FROM gpucredit.hold('le-hold', 'u/v', 'h5', 1, '1 h');
SELECT gpucredit.suspend_account('le-hold', 'u', true);
SELECT status, reason, hold, held FROM gpucredit.hold('le-hold', 'u/v', 'h6', 1, '1 h');
SELECT status, reason FROM gpucredit.hold('le-hold', 'u', 'h7', 1, '1 h');
SELECT status, reason FROM gpucredit.hold('le-hold', '', 'h8', 1, '1 h');
SELECT captured FROM gpucredit.capture('le-hold', pg_temp.hold('le-hold', 'h5'), 'c6', 1);
SELECT gpucredit.suspend_account('le-hold', 'u', false);
SELECT status, reason FROM gpucredit.hold('le-hold', 'u/v', 'h9', 1, '1 h');
SELECT available, held, spent FROM gpucredit.balance('le-hold');
SELECT * FROM gpucredit.verify('le-hold');

-- A hold lives until its ttl, exactly.
DO $$
BEGIN
	PERFORM gpucredit.create_account('le-ttl');
	PERFORM gpucredit.issue('le-ttl', '', 'i', 10, memo => 'ten');
END $$;
SET gpucredit.clock = '2027-01-01 00:00+00';
SELECT status, expires_at FROM gpucredit.hold('le-ttl', '', 'h1', 4, '1 h');
SELECT status, expires_at FROM gpucredit.hold('le-ttl', '', 'h2', 4, '1 h');
SET gpucredit.clock = '2027-01-01 00:59:59.999999+00';
SELECT * FROM gpucredit.capture('le-ttl', pg_temp.hold('le-ttl', 'h1'), 'c1', 1, false);
SET gpucredit.clock = '2027-01-01 01:00+00';
SELECT * FROM gpucredit.capture('le-ttl', pg_temp.hold('le-ttl', 'h1'), 'c2', 1, false);
SELECT * FROM gpucredit.capture('le-ttl', pg_temp.hold('le-ttl', 'h1'), 'c2', 0);
-- its credit is available from that instant, released or not
SELECT available, held, spent FROM gpucredit.balance('le-ttl');
SELECT memo, available, held, spent FROM pg_temp.buckets('le-ttl');
SELECT status, held FROM gpucredit.hold('le-ttl', '', 'h3', 9, '1 h');
SELECT part, drawn, held, spent, returned FROM pg_temp.parts('le-ttl', 'h1');
SELECT part, drawn, held, spent, returned FROM pg_temp.parts('le-ttl', 'h2');
-- another call released it: release reports what was released then
SELECT * FROM gpucredit.release('le-ttl', pg_temp.hold('le-ttl', 'h1'), 'r1');
SELECT * FROM gpucredit.release('le-ttl', pg_temp.hold('le-ttl', 'h2'), 'r2');
SELECT * FROM gpucredit.release('le-ttl', pg_temp.hold('le-ttl', 'h2'), 'r3');
-- nobody released it yet: release does
SET gpucredit.clock = '2027-01-01 03:00+00';
SELECT * FROM gpucredit.release('le-ttl', pg_temp.hold('le-ttl', 'h3'), 'r4');
SELECT * FROM gpucredit.release('le-ttl', pg_temp.hold('le-ttl', 'h3'), 'r5');
SELECT available, held, spent FROM gpucredit.balance('le-ttl');
SELECT * FROM gpucredit.verify('le-ttl');

-- A bucket is active in [effective_at, expires_at). A hold made before its end
-- stays good; what returns after it lapses.
SET gpucredit.clock = '2027-01-01 00:00+00';
DO $$
BEGIN
	PERFORM gpucredit.create_account('le-exp');
	PERFORM gpucredit.issue('le-exp', '', 'i1', 10,
		effective_at => '2027-01-01 01:00', expires_at => '2027-01-01 02:00',
		memo => 'one hour');
	PERFORM gpucredit.issue('le-exp', '', 'i2', 1, memo => 'forever');
END $$;
SET gpucredit.clock = '2027-01-01 00:59:59.999999+00';
SELECT status, reason FROM gpucredit.hold('le-exp', '', 'early', 2, '1 day');
SET gpucredit.clock = '2027-01-01 01:00+00';
SELECT status FROM gpucredit.hold('le-exp', '', 'h1', 3, '1 day');
SELECT available, next_expiry_at, next_expiry_amount FROM gpucredit.balance('le-exp');
SET gpucredit.clock = '2027-01-01 01:59:59.999999+00';
SELECT status FROM gpucredit.hold('le-exp', '', 'h2', 4, '1 day');
SET gpucredit.clock = '2027-01-01 02:00+00';
SELECT status, reason FROM gpucredit.hold('le-exp', '', 'late', 2, '1 day');
SELECT available, held, spent, next_expiry_at FROM gpucredit.balance('le-exp');
SELECT * FROM gpucredit.capture('le-exp', pg_temp.hold('le-exp', 'h1'), 'c1', 2);
SELECT * FROM gpucredit.release('le-exp', pg_temp.hold('le-exp', 'h2'), 'r1');
SELECT * FROM pg_temp.buckets('le-exp');
-- a hold draws from both kinds: one part is released, the other lapses
SET gpucredit.clock = '2027-01-01 03:00+00';
SELECT replayed FROM gpucredit.issue('le-exp', '', 'i3', 2, 'promo',
	valid_for => '1 h', memo => 'another hour');
SELECT status FROM gpucredit.hold('le-exp', '', 'h3', 3, '1 day');
SET gpucredit.clock = '2027-01-01 05:00+00';
SELECT * FROM gpucredit.capture('le-exp', pg_temp.hold('le-exp', 'h3'), 'c2', 0.5);
SELECT * FROM pg_temp.parts('le-exp', 'h3');
SELECT * FROM pg_temp.buckets('le-exp');
SELECT * FROM gpucredit.verify('le-exp');

-- Policies: plain holds draw only from buckets without conditions.
SET gpucredit.clock = '2027-01-01 00:00+00';
DO $$
BEGIN
	PERFORM gpucredit.create_account('le-pol');
	PERFORM gpucredit.create_pool('le-pol');
	PERFORM gpucredit.create_pool('le-pol-2');
	PERFORM gpucredit.register_node(p, p || '-' || t, t, 8, 40960)
		FROM unnest(ARRAY['le-pol', 'le-pol-2']) p,
			unnest(ARRAY['LE-A', 'LE-B']) t;
	PERFORM gpucredit.set_price(t, 1, p)
		FROM unnest(ARRAY['le-pol', 'le-pol-2']) p,
			unnest(ARRAY['LE-A', 'LE-B']) t;
	PERFORM gpucredit.issue('le-pol', '', 'i1', 10, priority => 1,
		policy => '{"gpu_types": ["LE-A"]}', memo => 'only LE-A');
	PERFORM gpucredit.issue('le-pol', '', 'i2', 10, priority => 2,
		policy => '{"tiers": ["interactive"]}', memo => 'only interactive');
	PERFORM gpucredit.issue('le-pol', '', 'i3', 10, priority => 3,
		policy => '{"pools": ["le-pol-2"]}', memo => 'only pool 2');
END $$;
SELECT status, reason FROM gpucredit.hold('le-pol', '', 'h1', 1, '1 h');
CREATE FUNCTION pg_temp.drawn(tenant text, job_key text)
RETURNS TABLE (bucket text, drawn numeric)
LANGUAGE sql AS $$
	SELECT b.memo, p.drawn::numeric
	FROM gpucredit.request r
		JOIN gpucredit.hold h ON h.org = r.org
			AND h.job = r.result[1]::bigint
		JOIN gpucredit.hold_part p ON p.org = h.org AND p.hold = h.hold
		JOIN gpucredit.bucket b ON b.org = p.org AND b.bucket = p.bucket
	WHERE r.org = tenant AND r.key = job_key
	ORDER BY p.part
$$;
CREATE FUNCTION pg_temp.pays(key text, request text, tier text, pool text,
	wall interval DEFAULT '1 h', OUT status text, OUT reason text,
	OUT held numeric, OUT drawn text)
LANGUAGE plpgsql AS $$
BEGIN
	SELECT r.status, r.reason, r.held INTO status, reason, held
	FROM gpucredit.reserve('le-pol', '', key, request, wall, tier, pool) r;
	SELECT string_agg(d.drawn || ' of ' || d.bucket, ', ') INTO drawn
	FROM pg_temp.drawn('le-pol', key) d;
END $$;
SELECT * FROM pg_temp.pays('r1', '1xLE-A', 'standard_training', 'le-pol');
SELECT * FROM pg_temp.pays('r2', '1xLE-B', 'standard_training', 'le-pol');
-- a policy must allow every type that the request accepts
SELECT * FROM pg_temp.pays('r3', '1xLE-A|LE-B', 'standard_training', 'le-pol');
SELECT * FROM pg_temp.pays('r4', '1x*', 'standard_training', 'le-pol');
SELECT * FROM pg_temp.pays('r5', '1xLE-B', 'interactive', 'le-pol');
SELECT * FROM pg_temp.pays('r6', '1xLE-B', 'standard_training', 'le-pol-2');
-- drawn in burn order, from all buckets that allow it
SELECT * FROM pg_temp.pays('r7', '8xLE-A', 'interactive', 'le-pol-2', '3 h');
-- a policy allows only words of a request: an empty list allows nothing
SELECT replayed FROM gpucredit.issue('le-pol', '', 'i4', 10, priority => -1,
	policy => '{"tiers": []}', memo => 'for no tier');
SELECT * FROM pg_temp.pays('r8', '1xLE-A', 'standard_training', 'le-pol');
SELECT * FROM gpucredit.verify('le-pol');

-- max_per_job and max_share cap what one bucket gives.
DO $$
BEGIN
	PERFORM gpucredit.create_account('le-cap');
	PERFORM gpucredit.issue('le-cap', '', 'i1', 100, priority => 1,
		policy => '{"max_share": 0.5}', memo => 'half');
	PERFORM gpucredit.issue('le-cap', '', 'i2', 100, priority => 2,
		policy => '{"max_share": 0.333333}', memo => 'a third');
	PERFORM gpucredit.issue('le-cap', '', 'i3', 100, priority => 3,
		policy => '{"max_per_job": 2}', memo => 'two a job');
	PERFORM gpucredit.issue('le-cap', '', 'i4', 1, priority => 4,
		memo => 'one');
END $$;
-- shares are rounded down; a cap per job gives a plain hold nothing
SELECT status FROM gpucredit.hold('le-cap', '', 'h1', 1.000001, '1 h');
SELECT part, bucket, drawn FROM pg_temp.parts('le-cap', 'h1');
SELECT released FROM gpucredit.release('le-cap', pg_temp.hold('le-cap', 'h1'), 'r1');
SELECT status, reason, held FROM gpucredit.reserve('le-cap', '', 'j1', '8xLE-A', '3 h', pool => 'le-pol');
SELECT status, reason, held FROM gpucredit.reserve('le-cap', '', 'j2', '5xLE-A', '3 h', pool => 'le-pol');
SELECT * FROM pg_temp.drawn('le-cap', 'j2');
SELECT * FROM gpucredit.verify('le-cap');

-- A dead hold's credit is also free for a call that may not use other credit.
SET gpucredit.clock = '2027-01-01 00:00+00';
DO $$
BEGIN
	PERFORM gpucredit.create_account('le-dead');
	PERFORM gpucredit.issue('le-dead', '', 'i1', 100,
		policy => '{"tiers": ["interactive"]}', memo => 'only interactive');
	PERFORM gpucredit.issue('le-dead', '', 'i2', 10, memo => 'any');
	PERFORM gpucredit.hold('le-dead', '', 'h1', 10, '1 h');
END $$;
SET gpucredit.clock = '2027-01-01 01:00+00';
SELECT status, reason, held FROM gpucredit.hold('le-dead', '', 'h2', 5, '1 h');
SELECT memo, available, held FROM pg_temp.buckets('le-dead');

-- An account without any bucket is short of credit as well.
DO $$
BEGIN
	PERFORM gpucredit.create_account('le-dead', 'poor');
	PERFORM gpucredit.hold('le-dead', '', 'h3', 4, '1 h');
END $$;
SET gpucredit.clock = '2027-01-01 02:00+00';
SELECT moved, status, reason
FROM gpucredit.transfer('le-dead', 'poor', '', 't1', 1);
SELECT account, held, closed_at FROM gpucredit.hold
WHERE org = 'le-dead' ORDER BY hold;
SELECT * FROM gpucredit.verify('le-dead');
-- A call releases the oldest dead holds, and only as many as it needs.
DO $$
BEGIN
	PERFORM gpucredit.create_account('le-dead-some');
	PERFORM gpucredit.issue('le-dead-some', '', 'i', 40);
	PERFORM gpucredit.hold('le-dead-some', '', 'h' || i, 10, i * interval '1 h')
	FROM unnest('{3,1,2,4}'::int[]) i;
END $$;
SET gpucredit.clock = '2027-01-01 12:00+00';
SELECT status, held FROM gpucredit.hold('le-dead-some', '', 'needs two', 12, '1 h');
SELECT expires_at, held, closed_at IS NOT NULL AS released FROM gpucredit.hold
WHERE org = 'le-dead-some' ORDER BY expires_at;
SELECT available, held FROM gpucredit.balance('le-dead-some');
SELECT * FROM gpucredit.verify('le-dead-some');

-- Compartments: issued = available + held + spent + expired + revoked + moved,
-- in the tables and in every answer.
SET gpucredit.clock = '2027-01-01 05:00+00';
SELECT count(*) AS unbalanced FROM gpucredit.bucket b
WHERE b.org LIKE 'le%' AND b.issued::numeric <> b.available::numeric
	+ b.held::numeric + b.spent::numeric + b.expired::numeric
	+ b.revoked::numeric + b.moved::numeric;
SELECT a.org, b.issued = b.available + b.held + b.spent + b.expired
	+ b.revoked + b.moved AS balanced, count(*)
FROM gpucredit.account a, gpucredit.buckets(a.org, a.account) b
WHERE a.org LIKE 'le%' GROUP BY 1, 2 ORDER BY 1;
-- and all buckets together hold as much as all holds
SELECT a.org, sum(b.held) AS buckets, (SELECT held FROM gpucredit.balance(a.org)) AS holds
FROM gpucredit.account a, gpucredit.buckets(a.org, a.account) b
WHERE a.org IN ('le-exp', 'le-ttl', 'le-pol', 'le-cap') GROUP BY a.org ORDER BY 1;

-- The balance at any instant, from the entries.
SELECT i.at, b.available, b.held, b.spent, b.promo, b.next_expiry_at,
	b.next_expiry_amount
FROM (VALUES ('2026-12-31 23:59+00'::timestamptz), ('2027-01-01 00:00+00'),
	('2027-01-01 00:59:59.999999+00'), ('2027-01-01 01:00+00'),
	('2027-01-01 01:59:59.999999+00'), ('2027-01-01 02:00+00'),
	('2027-01-01 03:00+00'), ('2027-01-01 04:00+00'),
	('2027-01-01 05:00+00'), ('2030-01-01 00:00+00')) i (at),
	gpucredit.balance('le-exp', '', i.at) b;

-- The statement: what happened, and what was available after each entry.
SELECT s.at, b.memo, s.operation, s.source, s.target, s.amount, s.available
FROM (SELECT row_number() OVER () AS n, * FROM gpucredit.statement('le-exp')) s
	JOIN gpucredit.bucket b ON b.org = 'le-exp' AND b.bucket = s.bucket
ORDER BY s.n;
SELECT s.at, s.operation, s.amount, s.available
FROM gpucredit.statement('le-ttl', '', '2027-01-01 00:30+00',
	'2027-01-01 03:00+00') s;
-- its last line is the balance, for every account
SELECT count(*) AS accounts, count(*) FILTER (WHERE s.available
	IS DISTINCT FROM b.available) AS differ
FROM gpucredit.account a
	CROSS JOIN LATERAL gpucredit.balance(a.org, a.account) b
	LEFT JOIN LATERAL (SELECT s.available FROM gpucredit.statement(a.org,
			a.account) WITH ORDINALITY s
		ORDER BY s.ordinality DESC LIMIT 1) s ON true
WHERE a.org LIKE 'le%' AND (s.available IS NOT NULL OR b.available <> 0);

-- Entries, audit and usage are append-only, for the owner and a superuser,
-- too.
UPDATE gpucredit.entry SET amount = amount WHERE org = 'le';
UPDATE gpucredit.entry SET amount = amount WHERE false;
DELETE FROM gpucredit.entry WHERE org = 'le';
TRUNCATE gpucredit.entry;
UPDATE gpucredit.audit SET at = at WHERE org = 'le';
DELETE FROM gpucredit.audit WHERE org = 'le';
TRUNCATE gpucredit.audit CASCADE;
UPDATE gpucredit.usage SET at = at;
DELETE FROM gpucredit.usage;
TRUNCATE gpucredit.usage;
SET session_replication_role = replica;
DELETE FROM gpucredit.entry WHERE org = 'le';
DELETE FROM gpucredit.audit WHERE org = 'le';
TRUNCATE gpucredit.usage;
RESET session_replication_role;

-- No role can write an impossible row of money: more credit than exists, a
-- negative amount, a closed hold with credit.
CREATE FUNCTION pg_temp.refused(deed text) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
	relation text;
	name text;
BEGIN
	EXECUTE deed;
	RETURN 'was done';
EXCEPTION WHEN check_violation THEN
	GET STACKED DIAGNOSTICS relation = TABLE_NAME, name = CONSTRAINT_NAME;
	RETURN format('%s of %s: %s', name, relation, SQLERRM);
END
$$;
SET session_replication_role = replica;
SELECT pg_temp.refused(format('UPDATE gpucredit.bucket SET %s
	WHERE org = ''le'' AND bucket = (SELECT min(bucket)
		FROM gpucredit.bucket WHERE org = ''le'')', change))
FROM unnest(ARRAY['available = available + ''1''', 'available = ''-1'',
	issued = issued - available - ''1''', 'kind = ''gift''',
	'expires_at = effective_at', 'lent = ''1''', 'memo = memo']) AS change;
SELECT pg_temp.refused(format('UPDATE gpucredit.hold SET %s
	WHERE org = ''le-ttl'' AND hold = (SELECT min(hold) FROM gpucredit.hold
		WHERE org = ''le-ttl'')', change))
FROM unnest(ARRAY['drawn = drawn + ''1''', 'released = ''-1'',
	drawn = drawn - released - ''1''', 'job = 1, expires_at = ''infinity''',
	'held = held + ''1'', drawn = drawn + ''1'', closed_at = ''2027-01-01''',
	'sliced = sliced']) AS change;
SELECT pg_temp.refused(format('UPDATE gpucredit.hold_part SET %s
	WHERE org = ''le-ttl'' AND hold = (SELECT min(hold) FROM gpucredit.hold_part
		WHERE org = ''le-ttl'')', change))
FROM unnest(ARRAY['drawn = drawn + ''1''', 'lapsed = ''-1'',
	drawn = drawn - lapsed - ''1''', 'part = part']) AS change;
BEGIN;
SELECT pg_temp.refused(format('INSERT INTO gpucredit.bucket (org, bucket,
	account, kind, priority, effective_at, policy, created_at, issued,
	available) VALUES (''le'', 0, '''', ''paid'', 1, ''2027-01-01'', ''{}'',
	''2027-01-01'', ''9'', %L)', available))
FROM unnest(ARRAY['8', '9']) AS available;
SELECT pg_temp.refused(format('INSERT INTO gpucredit.hold (org, hold, account,
	drawn, held, expires_at, created_at) VALUES (''le'', 0, '''', ''9'', %L,
	''2027-01-02'', ''2027-01-01'')', held))
FROM unnest(ARRAY['8', '9']) AS held;
SELECT pg_temp.refused(format('INSERT INTO gpucredit.hold_part (org, hold,
	part, bucket, drawn, held) VALUES (''le'', 0, 1, 1, ''9'', %L)', held))
FROM unnest(ARRAY['8', '9']) AS held;
SELECT pg_temp.refused(format('INSERT INTO gpucredit.entry (org, entry, at,
	account, bucket, source, target, amount, operation) VALUES (''le'', 0,
	''2027-01-01'', '''', 1, %s, ''hold'')', move))
FROM unnest(ARRAY['''spent'', ''held'', ''1''', '''held'', ''nowhere'', ''1''',
	'''available'', ''held'', ''0''', '''available'', ''held'', ''1''']) AS move;
SELECT pg_temp.refused(format('INSERT INTO gpucredit.budget_counter (org,
	account, period, period_start, reserved) VALUES (''le'', '''', ''day'',
	''2027-01-01'', %L)', reserved))
FROM unnest(ARRAY['-1', '1']) AS reserved;
SELECT pg_temp.refused(format('UPDATE gpucredit.budget_counter SET %s
	WHERE org = ''le''', change))
FROM unnest(ARRAY['spent = ''-1''', 'reserved = ''0''']) AS change;
SELECT pg_temp.refused(format('INSERT INTO gpucredit.hold_budget (org, hold,
	account, period, period_start, reserved) VALUES (''le'', 0, '''', ''day'',
	''2027-01-01'', %L)', reserved))
FROM unnest(ARRAY['-1', '1']) AS reserved;
SELECT pg_temp.refused(format('UPDATE gpucredit.hold_budget SET %s
	WHERE org = ''le'' AND hold = 0', change))
FROM unnest(ARRAY['spent = ''-1''', 'reserved = ''0''']) AS change;
ROLLBACK;
RESET session_replication_role;
-- a missing row is refused as missing
INSERT INTO gpucredit.bucket (org, bucket, account, priority, effective_at,
	policy, created_at)
VALUES ('le', 0, '', 1, '2027-01-01', '{}', '2027-01-01');
SELECT gpucredit_internal.row_check();

-- Many holds in one transaction: each is written before its locks, in a
-- subtransaction. After some dozens they lock first, and are granted as well.
BEGIN;
SELECT gpucredit.create_account('le-many'),
	gpucredit.issue('le-many', '', 'i', 100) \g /dev/null
SELECT status, count(*), sum(held) FROM generate_series(1, 100) n,
	LATERAL gpucredit.hold('le-many', '', 'h' || n, 0.5, '1 h')
GROUP BY status;
COMMIT;
SELECT count(*) AS holds, count(DISTINCT h.xmin::text) AS transactions,
	count(*) FILTER (WHERE h.created_at = e.at) AS told_alike
FROM gpucredit.hold h JOIN gpucredit.entry e ON e.org = h.org
	AND e.hold = h.hold
WHERE h.org = 'le-many';
SELECT available, held FROM gpucredit.balance('le-many');

-- After a hold that locked first, as it drew from two buckets, the
-- transaction's holds all lock first: otherwise they would make multixacts.
SELECT gpucredit.create_account('le-multi'),
	gpucredit.issue('le-multi', '', 'i1', 1, priority => 1),
	gpucredit.issue('le-multi', '', 'i2', 100) \g /dev/null
CHECKPOINT;
SELECT next_multixact_id AS next FROM pg_catalog.pg_control_checkpoint() \gset
BEGIN;
SELECT status FROM gpucredit.hold('le-multi', '', 'both', 2, '1 h');
SELECT status, count(*) FROM generate_series(1, 3) n,
	LATERAL gpucredit.hold('le-multi', '', 'h' || n, 1, '1 h')
GROUP BY status;
COMMIT;
CHECKPOINT;
SELECT next_multixact_id = :'next' AS none_made
FROM pg_catalog.pg_control_checkpoint();

-- The audit log has every decision on credit, denials included.
SELECT operation, decision, reason, account, detail - 'key' AS detail
FROM gpucredit.audit WHERE org = 'le-ttl' ORDER BY audit;
SELECT operation, decision, reason, count(*)
FROM gpucredit.audit WHERE org = 'le-hold'
GROUP BY 1, 2, 3 ORDER BY 1, 2, 3;

SELECT * FROM gpucredit.verify();
