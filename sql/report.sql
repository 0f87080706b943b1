-- report_html: the page says what the ledger says.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS gpucredit_report CASCADE;
RESET client_min_messages;
SET timezone = 'UTC';
SET datestyle = 'ISO';
SET intervalstyle = 'postgres';
SET gpucredit.node_suspect = 0;
SET gpucredit.node_lost = 0;
\set VERBOSITY sqlstate
\pset null '-'
\pset format unaligned
\pset tuples_only on

-- The rows of a table of the page, as text; and its numbers as data.
CREATE FUNCTION pg_temp.rows(page text, name text) RETURNS SETOF text
LANGUAGE sql AS $$
	SELECT trim(replace(replace(replace(replace(regexp_replace(regexp_replace(
			regexp_replace(r[1], '<(title|desc)[^>]*>[^<]*</\1>', '', 'g'),
			'</t[hd]>', ' | ', 'g'), '<[^>]*>', '', 'g'), '&nbsp;', ' '),
			'&minus;', '-'), '&ndash;', '-'), ' |  | ', ' | '), ' |')
	FROM regexp_matches(substring(page FROM '<table role="table" id="' || name
			|| '">.*?</table>'), '<tr role="row".*?</tr>', 'g') AS r (r)
$$;
CREATE FUNCTION pg_temp.data(page text, element text, name text)
RETURNS SETOF text LANGUAGE sql AS $$
	SELECT (regexp_match(m[1], ' data-' || name || '="([^"]*)"'))[1]
	FROM regexp_matches(page, '(<' || element || '( [^>]*)? data-' || name
		|| '="[^"]*"[^>]*>)', 'g') AS m (m)
$$;

-- Two organisations, one with hostile names.
SET gpucredit.clock = '2027-08-01 00:00+00';
\set evil '<script>alert("&'')'
SELECT gpucredit.create_pool('rp');
SELECT gpucredit.set_price('RP-A', 1, 'rp'), gpucredit.set_price('RP-B', 2.5, 'rp');
SELECT gpucredit.register_node('rp', 'rp-a', 'RP-A', 4, 40960),
	gpucredit.register_node('rp', 'rp-b', 'RP-B', 4, 40960);
SELECT gpucredit.create_account('rp'), gpucredit.create_account('rp', 'vision'),
	gpucredit.create_account('rp', 'vision/alice'),
	gpucredit.create_account('rp', :'evil'),
	gpucredit.create_account('rp', 'tab  & "line" <br>over'),
	gpucredit.create_account('rp <b>&amp;');
SELECT replayed FROM gpucredit.issue('rp', '', 'paid', 1000);
SELECT replayed FROM gpucredit.issue('rp', 'vision', 'promo', 50.000001, 'promo',
	'2027-08-20 12:00+00');
SELECT replayed FROM gpucredit.issue('rp <b>&amp;', '', 'paid', 10);

-- Nothing has happened yet.
SELECT pg_temp.rows(gpucredit.report_html('rp'), 'top');
SELECT regexp_replace(m[1], '<[^>]*>', '', 'g')
FROM regexp_matches(gpucredit.report_html('rp'), '<h2.*?</p>', 'g') AS m (m);
SELECT pg_temp.rows(gpucredit.report_html('rp'), 'balances');

-- Jobs on both types, a plain hold, a refund a day later.
CREATE FUNCTION pg_temp.run(account text, key text, request text,
	elapsed interval, tier text DEFAULT 'standard_training') RETURNS numeric
LANGUAGE plpgsql AS $$
DECLARE
	was timestamptz := current_setting('gpucredit.clock');
	id bigint;
	bill numeric;
BEGIN
	SELECT r.job INTO id FROM gpucredit.reserve('rp', account, key, request, '10 h', tier, 'rp') r;
	PERFORM set_config('gpucredit.clock', (was + interval '90 s')::text, false);
	PERFORM gpucredit.place('rp');
	PERFORM set_config('gpucredit.clock', (was + interval '90 s' + elapsed)::text, false);
	SELECT s.billed INTO bill FROM gpucredit.settle('rp', id, 1, 'completed', elapsed) s;
	RETURN bill;
END $$;
SELECT pg_temp.run('vision/alice', 'one', '2xRP-A', '1 h 30 min');
SET gpucredit.clock = '2027-08-02 06:00+00';
SELECT pg_temp.run('vision', 'two', '1xRP-B', '2:00:00.007', 'interactive');
SET gpucredit.clock = '2027-08-03 00:00+00';
SELECT pg_temp.run(:'evil', 'three', '4xRP-A', '7 min');
SELECT pg_temp.run('tab  & "line" <br>over', 'four', '1xRP-A', '1 min');
SELECT hold FROM gpucredit.hold('rp', '', 'hold', 7.25, '1 h') \gset
SELECT captured, released FROM gpucredit.capture('rp', :hold, 'capture', 3.000001);
SET gpucredit.clock = '2027-08-04 12:00+00';
SELECT r.refunded FROM gpucredit.job j, gpucredit.refund('rp', j.job, 'refund', 1.25, 'slow') r
WHERE j.org = 'rp' AND j.account = 'vision/alice';
SELECT status FROM gpucredit.reserve('rp', 'vision', 'waits', '4xRP-B', '1 h', pool => 'rp');
SET gpucredit.clock = '2027-08-05 00:00+00';

SELECT gpucredit.report_html('rp', '2027-08-01 00:00+00') AS page \gset
-- the first figures, and the labels of lines
SELECT trim(regexp_replace(m[1], '<[^>]*>', ' ', 'g'))
FROM regexp_matches(:'page', '<div><dt>(.*?)</div>', 'g') AS m (m);
SELECT m[1] FROM regexp_matches(:'page', '<span class="mark[^>]*?>(.*?)</span>', 'g') AS m (m);
SELECT pg_temp.rows(:'page', 'spend-days');
SELECT pg_temp.rows(:'page', 'spend-by-account');
SELECT pg_temp.rows(:'page', 'spend-by-type');
SELECT pg_temp.rows(:'page', 'balances');
SELECT pg_temp.rows(:'page', 'expiries');
SELECT pg_temp.rows(:'page', 'use-rows');
SELECT pg_temp.rows(:'page', 'waits-table');
SELECT pg_temp.rows(:'page', 'shares-1');
SELECT pg_temp.rows(:'page', 'top');
SELECT regexp_replace(m[1], '<[^>]*>', '', 'g')
FROM regexp_matches(:'page', '<h2.*?</p>', 'g') AS m (m);

-- Read back, and compared with the functions.
SELECT sum(d::numeric) = (SELECT sum(u.net) FROM gpucredit.usage_by('rp', '', NULL, NULL, 'account') u)
FROM pg_temp.data(substring(:'page' FROM '<table role="table" id="top">.*?</table>'), 'td', 'net') d;
SELECT count(*) FROM (SELECT pg_temp.data(substring(:'page' FROM '<svg class="bars".*?</svg>'), 'rect', 'net')::numeric
	EXCEPT SELECT u.net FROM gpucredit.usage_by('rp', '', NULL, NULL, 'day') u) d;
SELECT d::numeric = (SELECT sum(b.available) FROM (SELECT DISTINCT ON (b.bucket) b.available
	FROM gpucredit.account a, gpucredit.buckets(a.org, a.account) b WHERE a.org = 'rp') b)
FROM pg_temp.data(:'page', 'dd', 'available') d;
SELECT sum(d::numeric) = (SELECT round(sum(extract(epoch FROM elapsed) * gpus * share) / 3600000, 6)
	FROM gpucredit.attempt WHERE org = 'rp')
FROM pg_temp.data(:'page', 'rect', 'busy') d;
-- GPU-hours, as usage_by counts them
SELECT d::numeric = (SELECT sum(u.gpu_hours) FROM gpucredit.usage_by('rp', '', NULL, NULL, 'account') u)
FROM pg_temp.data(:'page', 'dd', 'hours') d;
-- it may be spent until the tenth; the promo lapses on the twentieth
SELECT r.* FROM gpucredit_internal.runs_out('{lapses,is spent,unused,never,nothing}', '{10,10,0,0.001,1}',
	'{lapses,lapses,is spent,is spent,unused,never}',
	'{2027-08-20 12:00+00,NULL,2027-08-10 00:00+00,NULL,2027-08-10 00:00+00,NULL}',
	'{50,100,100,100,100,100}', '2027-08-05 00:00+00') r ORDER BY r.org COLLATE "C";

-- the whole installation
SELECT d::numeric = (SELECT sum(u.net) FROM gpucredit.account a,
	gpucredit.usage_by(a.org, '', '2027-08-01 00:00+00', '2027-08-05 00:00:00.000001+00', 'account') u WHERE a.account = '')
FROM pg_temp.data(gpucredit.report_html(NULL, '2027-08-01 00:00+00'), 'dd', 'net') d;

-- Bars: hours, days, weeks, two months; their sums are always the same
SELECT count(*), sum(d::numeric) FROM gpucredit.report_html('rp', '2027-08-02 00:00+00', '2027-08-04 00:00+00') p,
	pg_temp.data(substring(p FROM '<svg class="bars".*?</svg>'), 'rect', 'net') d;
SELECT days, count(*), sum(d::numeric) FROM unnest('{5,60,400,3660}'::int[]) days,
	gpucredit.report_html('rp', '2027-08-05 00:00+00'::timestamptz - days * interval '1 day') p,
	pg_temp.data(substring(p FROM '<svg class="bars".*?</svg>'), 'rect', 'net') d
GROUP BY days ORDER BY days;
-- a refund of earlier spend stands below the line
SELECT pg_temp.rows(gpucredit.report_html('rp', '2027-08-03 12:00+00'), 'spend-by-account');

-- a span to come: nothing yet
SELECT regexp_replace(m[1], '<[^>]*>', '', 'g')
FROM regexp_matches(gpucredit.report_html('rp', '2027-08-05 00:30+00', '2027-08-09 00:00+00'), '<h2.*?</p>', 'g') AS m (m);
SELECT pg_temp.data(gpucredit.report_html('rp', '2027-08-05 00:30+00', '2027-08-09 00:00+00'), 'dd', 'use');

-- After a week the forecast is one of a week. A column without values is left
-- out, and runs without GPUs do not count as runs on them.
BEGIN;
SET LOCAL gpucredit.clock = '2027-08-09 00:00+00';
SELECT pg_temp.run('vision', 'cpu', '0', '5 min');
SELECT hold FROM gpucredit.hold('rp', '', 'big', 900, '1 h') \gset
SELECT captured FROM gpucredit.capture('rp', :hold, 'big spent', 900);
SET LOCAL gpucredit.clock = '2027-08-09 01:00+00';
SELECT gpucredit.report_html('rp', '2027-08-08 00:00+00') AS later,
	gpucredit.report_html(NULL, '2027-08-08 00:00+00') AS of_all \gset
SELECT trim(regexp_replace(m[1], '<[^>]*>', ' ', 'g'))
FROM regexp_matches(:'later', '<div><dt>(.*?)</div>', 'g') AS m (m);
SELECT regexp_replace(m[1], '<[^>]*>', '', 'g')
FROM regexp_matches(:'later', '<h2.*?</p>', 'g') AS m (m) WHERE m[1] LIKE '%Balance%';
SELECT pg_temp.rows(:'later', 'waits-table');
SELECT m[1] FROM regexp_matches(:'later', '<span class="mark[^>]*?>(.*?)</span>', 'g') AS m (m);
SELECT m[1] FROM regexp_matches(:'of_all', '<span class="mark[^>]*?>(.*?)</span>', 'g') AS m (m)
WHERE m[1] LIKE '<bdi>rp%';
ROLLBACK;

-- A hostile name is plain text, and the page is ASCII without control
-- characters.
SELECT :'page' LIKE '%<script%', :'page' ~ '[^\x20-\x7e\n]', :'page' LIKE '%data-account="&lt;script&gt;alert(&quot;&amp;&#39;)"%',
	:'page' LIKE '%tab  &amp; &quot;line&quot; &lt;br&gt;over%';
SELECT gpucredit.report_html('rp <b>&amp;') LIKE '%<h1><bdi>rp &lt;b&gt;&amp;amp;</bdi></h1>%';
SELECT gpucredit_report.html(E'<>&"''\x01\x7f\u00e9\u0085\u200f\U0001F600');
-- no page may contain code points that are no characters
SELECT gpucredit_report.html(E'a\uFFFE\uFDD0\U0001FFFFb\uFFFD\u2060');
-- a text that ends within a character, which only a fault elsewhere can leave:
-- no byte behind its end is read
CREATE CAST (bytea AS text) WITHOUT FUNCTION;
SELECT gpucredit_report.html('\x61e698'::bytea::text);
DROP CAST (bytea AS text);
-- well formed: XML apart from the doctype and the meta
SELECT (xpath('count(//*[local-name()=''svg''][@role=''img''][*[1][local-name()=''title'']][*[2][local-name()=''desc'']])',
		x))[1]::text = (xpath('count(//*[local-name()=''svg''])', x))[1]::text
FROM (SELECT replace(replace(regexp_replace(regexp_replace(:'page', '^<!DOCTYPE html>', ''), '(<meta [^>]*)>', '\1/>', 'g'),
	'&nbsp;', ' '), '&ndash;', '-')) p (p), xmlparse(DOCUMENT replace(p.p, '&minus;', '-')) x;

-- A tenant's page shows its own accounts.
CREATE ROLE rp_vision IN ROLE gpucredit_tenant;
CREATE ROLE rp_nobody IN ROLE gpucredit_tenant;
SELECT gpucredit.bind_tenant('rp_vision', 'rp', 'vision');
SET ROLE rp_vision;
SELECT gpucredit.report_html('rp', '2027-08-01 00:00+00') AS page \gset
SELECT pg_temp.rows(:'page', 'spend-by-account');
SELECT pg_temp.rows(:'page', 'balances');
SELECT pg_temp.rows(:'page', 'shares-1');
SELECT :'page' LIKE '%script&gt;%';
SELECT pg_temp.rows(gpucredit.report_html(NULL, '2027-08-01 00:00+00'), 'top');
SELECT gpucredit.report_html('rp <b>&amp;');
SELECT gpucredit.report_html('no-such');
SET ROLE rp_nobody;
SELECT gpucredit.report_html('rp');
SELECT gpucredit.report_html();
RESET ROLE;
SELECT gpucredit.unbind_tenant('rp_vision', 'rp', 'vision');
DROP ROLE rp_vision, rp_nobody;

-- No such report
SELECT gpucredit.report_html('no-such');
SELECT gpucredit.report_html('rp', '2027-08-05 00:00+00', '2027-08-05 00:00+00');
SELECT gpucredit.report_html('rp', '-infinity');
SELECT gpucredit.report_html('rp', '4714-11-24 00:00+00 BC', '294276-12-31 23:59:59+00');
SELECT gpucredit.report_html('rp', NULL, 'infinity');
SELECT gpucredit.report_html('rp', '294276-12-01 00:00+00', '294276-12-31 23:59:59.999999+00');
SELECT gpucredit.report_html('rp', NULL, '4714-11-26 00:00+00 BC');
SELECT length(gpucredit.report_html('rp', l - interval '3650 days', l)) > 1000 FROM unnest('{4700-01-01 00:00+00 BC,294275-12-31 23:59:59.999999+00}'::timestamptz[]) l;
SELECT gpucredit.report_html('rp', '2000-01-01', '2027-01-01');

-- Of forty thousand accounts that spent, each a millionth more than the one before, those that spent least are one row.
BEGIN;
SET LOCAL statement_timeout = '90s';
INSERT INTO gpucredit.entry (org, at, account, bucket, source, target, amount, operation)
SELECT 'rp', '2027-08-02 00:00+00', 'many/' || i, (SELECT min(b.bucket) FROM gpucredit.bucket b WHERE b.org = 'rp'),
	'held', 'spent', (100 + i / 1000000.0)::text::gpucredit.credits, 'capture'
FROM generate_series(1, 40000) i;
SELECT l.kind, l.row, l.items, CASE WHEN l.items = 1 THEN l.account END AS account, l.spent, l.refunded
FROM gpucredit_report.report_about('rp', '2027-08-02 00:00+00', '2027-08-03 00:00+00') s,
	gpucredit_report.report_lines(s) l
WHERE l.kind IN ('account', 'series') AND l.row IN (1, 8, 9, 10, 11) AND l.bin IS NOT DISTINCT FROM
	CASE l.kind WHEN 'series' THEN '2027-08-02 00:00+00'::timestamptz END
ORDER BY l.kind, l.row;
SELECT substring(gpucredit.report_html('rp', '2027-08-02 00:00+00', '2027-08-03 00:00+00') FROM '>[0-9]+ others<') AS others;
ROLLBACK;
SELECT * FROM gpucredit.verify('rp');
