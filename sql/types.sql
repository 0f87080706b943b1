-- credits, gpureq and gpuset: text and binary form, operators, indexes,
-- aggregates, casts, bills, and every kind of input they refuse.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS gpucredit CASCADE;
RESET client_min_messages;
SET client_encoding = 'UTF8';
SET search_path = public, gpucredit, gpucredit_internal;

-- The result of an expression as text, or its error.
CREATE FUNCTION pg_temp.try(expression text) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
	result text;
	detail text;
	hint text;
BEGIN
	EXECUTE 'SELECT (' || expression || ')::text' INTO result;
	RETURN result;
EXCEPTION WHEN others THEN
	GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL,
		hint = PG_EXCEPTION_HINT;
	RETURN concat_ws(E'\n   ', SQLSTATE || ' ' || SQLERRM,
					 nullif(detail, ''), nullif(hint, ''));
END $$;

-- A text as a value of a type, or the error.
CREATE FUNCTION pg_temp.parse(type regtype, input text) RETURNS text
LANGUAGE sql AS $$
	SELECT pg_temp.try(format('%L::%s', input, type))
$$;

-- Bytes as a value of a type in binary COPY, or the error.
CREATE FUNCTION pg_temp.receive(type regtype, bytes bytea) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
	result text;
	detail text;
	stream bytea := '\x5047434f50590aff0d0a0000000000000000000001'::bytea ||
		int4send(length(bytes)) || bytes || '\xffff'::bytea;
BEGIN
	EXECUTE format('CREATE TEMP TABLE received (v %s) ON COMMIT DROP', type);
	EXECUTE format('COPY received FROM PROGRAM %L (FORMAT binary)',
		(SELECT 'printf ''' || string_agg(
			'\' || lpad((b / 64 * 100 + b / 8 % 8 * 10 + b % 8)::text, 3, '0'),
			'' ORDER BY i) || ''''
		 FROM (SELECT i, get_byte(stream, i) AS b
			   FROM generate_series(0, length(stream) - 1) i) octets));
	SELECT v::text INTO result FROM received;
	DROP TABLE received;
	RETURN result;
EXCEPTION WHEN others THEN
	GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL;
	RETURN concat_ws(E'\n   ', SQLSTATE || ' ' || SQLERRM,
					 nullif(detail, ''));
END $$;

-- An error as a client sees it.
SELECT '12,5'::credits;
SELECT '8xH100||A100'::gpureq;
SELECT '{0-3'::gpuset;

--
-- credits: text
--
SELECT input, pg_temp.parse('credits', input)
FROM unnest(ARRAY['0', '-0', '12.5', '+12.500000', '-12.5', '.5', '5.',
	'  7.25  ', E'\t1\n', '0.000001', '-0.000001', '1.50000000',
	'00000000000000000000000001.0', '9223372036854.775807',
	'-9223372036854.775808', '9223372036854.77580700']) input;
SELECT input, pg_temp.parse('credits', input)
FROM unnest(ARRAY['', ' ', '.', '+', '-', '--1', '+-1', '1 2', '1.2.3', '1e3',
	'0x10', '1_000', '1,5', '12.5 EUR', 'abc', 'nano', 'infinit', '١']) input;
SELECT input, pg_temp.parse('credits', input)
FROM unnest(ARRAY['9223372036854.775808', '-9223372036854.775809',
	'9223372036855', '18446744073709.551616', '1' || repeat('0', 40),
	'0.0000001', '1.0000001', '-1.00000000000000000001',
	'NaN', 'Infinity', '-Infinity', '+inf', ' nan ']) input;

-- Ten million characters give a short answer each time, and a value where
-- valid.
SELECT left(answer, 120) AS answer, length(answer) < 400 AS short
FROM (VALUES (repeat('9', 10000000)), (repeat('x', 10000000)),
	('1.' || repeat('0', 10000000)), ('1.' || repeat('1', 10000000)),
	(repeat('0', 10000000) || '5'), (repeat(' ', 10000000))) AS t(input),
	LATERAL pg_temp.parse('credits', input) AS answer;
-- Messages cut texts between characters, never inside one.
SELECT pg_temp.parse('credits', repeat('é', 100));
SELECT pg_temp.parse('credits', 'a' || repeat('é', 100));

-- A value written is the value read.
SELECT count(*) AS values, bool_and(v::text::credits = v) AS same
FROM (SELECT (i::numeric * i * i * i / 1000000)::credits AS v
	  FROM generate_series(-50000, 50000, 7) i) t;

--
-- credits: binary
--
SELECT encode(credits_send(v::credits), 'hex') AS sent,
	pg_temp.receive('credits', credits_send(v::credits)) AS received
FROM unnest(ARRAY['0', '1', '-0.000001', '9223372036854.775807',
	'-9223372036854.775808']) v;
SELECT bytes, pg_temp.receive('credits', bytes)
FROM unnest(ARRAY['\x', '\x00', '\x00000000000f42', '\x00000000000f424000']
	::bytea[]) bytes;

--
-- credits: arithmetic
--
SELECT '1.5'::credits + '2.25'::credits AS sum,
	'1.5'::credits - '2.25'::credits AS difference,
	- '1.5'::credits AS opposite,
	'1.5'::credits * 3 AS multiple,
	(-3)::bigint * '1.5'::credits AS multiple_too,
	pg_typeof('1.5'::credits * 3) AS type;
-- An integer beside credits means whole credits, of any integer type; a
-- fraction makes the result numeric; a double, which rounds, is refused.
SELECT v, coalesce(NULL::credits, v) AS whole, v + '1.5'::credits AS sum
FROM generate_series(2, 3) v;
SELECT pg_typeof(coalesce('1'::credits, 0::smallint)),
	pg_typeof(coalesce(0, '1'::credits)),
	pg_typeof(coalesce('1'::credits, 0::bigint)),
	pg_typeof(coalesce('1'::credits, 0.5)),
	pg_typeof('1'::credits + 1), pg_typeof('1'::credits + 0.5),
	'1'::credits = 1 AS same, '1'::credits > 0 AS more,
	'1'::credits = ANY (ARRAY[1, 2]) AS one_of;
SELECT '1'::credits + 9223372036855;
SELECT coalesce('1'::credits, 0.5::float8);
SELECT '1'::credits = 1::float8;
SELECT e AS expression, pg_temp.try(e)
FROM unnest(ARRAY[
	$$'9223372036854.775807'::credits + '0'$$,
	$$'9223372036854.775807'::credits + '0.000001'$$,
	$$'-9223372036854.775808'::credits + '-0.000001'$$,
	$$'-9223372036854.775808'::credits - '0.000001'$$,
	$$'0'::credits - '-9223372036854.775808'::credits$$,
	$$'-0.000001'::credits - '-9223372036854.775808'::credits$$,
	$$- '-9223372036854.775808'::credits$$,
	$$- '9223372036854.775807'::credits$$,
	$$'-9223372036854.775808'::credits * -1$$,
	$$'4611686018427.387904'::credits * 2$$,
	$$'4611686018427.387904'::credits * -2$$,
	$$'0.000001'::credits * 9223372036854775807$$,
	$$9223372036854775807 * '0.000002'::credits$$]) e;

-- Fractions and numeric operands are numeric arithmetic.
SELECT v, pg_typeof(v) FROM (SELECT '1.5'::credits * 1.5 AS v) t;
SELECT v, pg_typeof(v) FROM (SELECT '1.5'::credits / 4 AS v) t;
SELECT '1.5'::credits > 1, '1.5'::credits = 1.50, round('1.55'::credits, 1);

-- So is all arithmetic where the schema is not on the path: it is exact, and a
-- result that does not fit is refused when it becomes credits.
BEGIN;
SET LOCAL search_path = pg_catalog;
SELECT v, pg_typeof(v) FROM (SELECT '9223372036854.775807'::gpucredit.credits
	+ '0.000001'::gpucredit.credits AS v) t;
SELECT ('9223372036854.775807'::gpucredit.credits
	+ '0.000001'::gpucredit.credits)::gpucredit.credits;
ROLLBACK;

--
-- credits: comparison
--
SELECT a, b, a < b AS lt, a <= b AS le, a = b AS eq, a <> b AS ne,
	a >= b AS ge, a > b AS gt, credits_cmp(a, b)
FROM (VALUES ('-1'::credits, '1'::credits), ('1', '1.000000'), ('2', '1'))
	AS t(a, b);
SELECT count(DISTINCT credits_hash(v)) AS hashes,
	count(DISTINCT credits_hash_extended(v, 42)) AS extended
FROM unnest(ARRAY['1', '1.0', '+1.000000', '01']::credits[]) v;

--
-- credits: casts
--
SELECT e AS expression, pg_temp.try(e)
FROM unnest(ARRAY[
	'12.5::numeric::credits', '(-1.50000000)::credits',
	'9223372036854.775807::credits', '9223372036854.775808::credits',
	'-9223372036854.775808::numeric::credits',
	'(-9223372036854.775808)::credits', '(-9223372036854.775809)::credits',
	'0.0000001::credits', '1e12::numeric::credits', '1e13::numeric::credits',
	'1e100000::numeric::credits', '1e-7::numeric::credits',
	$$'NaN'::numeric::credits$$, $$'Infinity'::numeric::credits$$,
	$$'-Infinity'::numeric::credits$$,
	'5::credits', '(-2147483648)::integer::credits',
	'9223372036854::bigint::credits', '9223372036855::bigint::credits',
	'(-9223372036854)::bigint::credits', '(-9223372036855)::bigint::credits',
	'1.5::float8::credits']) e;
SELECT v::numeric, scale(v::numeric), v::numeric::credits = v AS same
FROM unnest(ARRAY['0', '1', '-0.000001', '9223372036854.775807',
	'-9223372036854.775808']::credits[]) v;
-- Assignment accepts numbers, but no fractions past the sixth decimal.
CREATE TEMP TABLE purse (n int, c credits);
INSERT INTO purse VALUES (1, 5), (2, 2.5), (3, 10::bigint), (4, '7.125'),
	(5, NULL);
INSERT INTO purse VALUES (6, 0.0000001);
INSERT INTO purse VALUES (6, 1.5::float8);
SELECT * FROM purse ORDER BY c NULLS LAST;
SELECT sum(c * 0.5) AS by_numeric, coalesce(NULL::credits, 1.5) FROM purse;

--
-- credits: aggregates
--
SELECT sum(c), avg(c), min(c), max(c), pg_typeof(sum(c)) AS sum_type,
	pg_typeof(avg(c)) AS avg_type FROM purse;
SELECT sum(c), avg(c), min(c), max(c) FROM purse WHERE n > 4;
SELECT sum(c), avg(c), min(c), max(c) FROM purse WHERE false;
-- Partial sums may pass the bounds, the result may not.
SELECT sum(v), avg(v) FROM unnest(ARRAY['9223372036854.775807',
	'9223372036854.775807', '-9223372036854.775807']::credits[]) v;
SELECT avg(v) FROM unnest(ARRAY['9223372036854.775807',
	'9223372036854.775807', '9223372036854.775807']::credits[]) v;
SELECT sum(v) FROM unnest(ARRAY['9223372036854.775807',
	'0.000001']::credits[]) v;
SELECT sum(v) FROM unnest(ARRAY['-9223372036854.775808',
	'-0.000001']::credits[]) v;
-- The sum as numeric may pass the bounds, too.
SELECT gpucredit_internal.sum_numeric(v), gpucredit_internal.sum_numeric(-v)
FROM unnest(ARRAY['9223372036854.775807', '9223372036854.775807',
	'0.000001']::credits[]) v;
SELECT gpucredit_internal.sum_numeric(v) AS small,
	gpucredit_internal.sum_numeric(v) FILTER (WHERE false) AS none
FROM unnest(ARRAY['-1.5', '0.000001', NULL]::credits[]) v;
SELECT gpucredit_internal.sum_numeric('9000000000000'::credits) AS million
FROM generate_series(1, 1000000);
-- An average is rounded half away from zero.
SELECT avg(v) AS up, avg(-v) AS down
FROM unnest(ARRAY['0.000001', '0.000002']::credits[]) v;
SELECT avg(v) AS nearest, avg(-v) AS mirrored
FROM unnest(ARRAY['0.000001', '0.000001', '0.000002']::credits[]) v;
-- A moving window removes what leaves it, past the bounds and back.
SELECT n, v, sum(v) OVER w, avg(v) OVER w, min(v) OVER w
FROM (VALUES (1, '9223372036854.775807'::credits),
	(2, '-9223372036854.775807'), (3, NULL), (4, '2.5'), (5, '0.5'))
	AS t(n, v)
WINDOW w AS (ORDER BY n ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)
ORDER BY n;
SELECT n, sum(v) OVER (ORDER BY n ROWS BETWEEN 1 PRECEDING AND 1 PRECEDING)
FROM (VALUES (1, '1'::credits), (2, '2'), (3, '3')) AS t(n, v) ORDER BY n;
-- Parallel plans give the same.
CREATE TABLE types_parallel AS
	SELECT (i - 20000)::credits AS c, gpuset_from_array(ARRAY[i % 64]) AS g
	FROM generate_series(1, 60000) i;
ALTER TABLE types_parallel SET (parallel_workers = 2);
ANALYZE types_parallel;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
EXPLAIN (COSTS OFF) SELECT sum(c), avg(c), min(c), max(c), union_agg(g)
	FROM types_parallel;
SELECT sum(c), avg(c), min(c), max(c), union_agg(g) FROM types_parallel;
SET max_parallel_workers_per_gather = 0;
SELECT sum(c), avg(c), min(c), max(c), union_agg(g) FROM types_parallel;
RESET max_parallel_workers_per_gather;
RESET parallel_setup_cost;
RESET parallel_tuple_cost;
RESET min_parallel_table_scan_size;
DROP TABLE types_parallel;

--
-- bill
--
SELECT bill('2.5', 8, 1000, '1 hour') AS hour,
	bill('2.5', 8, 1000, '1 day') AS day,
	bill('2.5', 8, 1000, '1 day 01:30') AS day_and_more,
	bill('2.5', 1, 460, '1 hour') AS share,
	bill('2.5', 0, 1000, '1 hour') AS no_gpu,
	bill('0', 8, 1000, '1 hour') AS free,
	bill('2.5', 8, 1000, '0') AS no_time,
	bill(2.5::credits, 8, 1000, NULL) AS unknown;
-- Half a millionth is rounded up, less is not.
SELECT bill('0.000001', 1, 1000, '00:29:59.999999') AS below,
	bill('0.000001', 1, 1000, '00:30') AS half,
	bill('0.000001', 1, 1000, '01:29:59.999999') AS below_next,
	bill('0.000001', 1, 1000, '01:30') AS next_half;
-- A thousandth of a GPU at the smallest price, rounded once: 1000 hours.
SELECT bill('0.000001', 1, 1, '499:59:59.999999') AS below,
	bill('0.000001', 1, 1, '500:00') AS half,
	bill('0.000001', 1, 1, '1000:00') AS one;
-- The product may pass 64 bits, the bill must not.
SELECT bill('9223372036854.775807', 1, 1000, '1 hour') AS largest,
	bill('9223372036.854775', 1000, 1000, '1 hour') AS wide;
SELECT e AS expression, pg_temp.try(e)
FROM unnest(ARRAY[
	$$bill('9223372036854.775807', 1, 1000, '01:00:00.000001')$$,
	$$bill('9223372036854.775807', 2147483647, 1000, '2000000000 days')$$,
	$$bill('1', 1, 1000, '1 month')$$,
	$$bill('1', 1, 1000, '1 year')$$,
	$$bill('1', 1, 1000, '1 month -30 days')$$,
	$$bill('1', 1, 1000, '2000000000 days')$$,
	$$bill('1', 1, 1000, '106751991 days 04:00:54.775807')$$,
	$$bill('1', 1, 1000, '106751991 days 04:00:54.775808')$$,
	$$bill('1', 1, 1000, '-00:00:00.000001')$$,
	$$bill('1', 1, 1000, '1 day -24:00:01')$$,
	$$bill('-1', 1, 1000, '1 hour')$$,
	$$bill('1', -1, 1000, '1 hour')$$,
	$$bill('1', 1, 0, '1 hour')$$,
	$$bill('1', 1, 1001, '1 hour')$$,
	$$bill('1', 1, 1000, '1 day -24:00:00')$$]) e;
-- Many heartbeats in any rhythm come to one bill.
SELECT bill('1.234567', 3, 1000, make_interval(secs => 86399.5)) AS bill,
	round(1.234567 * 3 * 86399.5 / 3600, 6) AS by_numeric;

--
-- gpureq: text
--
SELECT input, pg_temp.parse('gpureq', input)
FROM unnest(ARRAY['0', '8xH100|A100@40GB', '0.46xT4', '0.4600xT4',
	'0.001x*', '0.999xT4', '4x*', '4x*@40GB', '4-16xH100', '4-4xH100',
	'  8xH100 ', E'\n1xT4\t', '008xT4', '100000x*', '1x4090', '2xx',
	'2xA100-SXM4-80GB|V100M32', '1x*@80GB|A100', '1xh100|H100',
	'1xH100-昇腾', '8xH100;DROP', '1x' || repeat('N', 63), '00']) input;
-- Floors are printed in the largest unit that is exact; all units mean the
-- same.
SELECT input, pg_temp.parse('gpureq', input),
	gpureq_min_memory(input::gpureq) AS bytes
FROM unnest(ARRAY['1xA@1B', '1xA@1000B', '1xA@1024B', '1xA@40GB',
	'1xA@40000MB', '1xA@40GiB', '1xA@40960MiB', '1xA@1024GiB', '1xA@1000GB',
	'1xA@123456789B', '1xA@9223372036854775807B', '1xA@8388607TiB',
	'1xA@16KB|B@16KiB|C@16MB|D@16MiB|E@16TB|F@16TiB|G']) input;
-- 22P02: not a request. A character without width is shown as a tilde, as psql
-- aligns it in more than one way.
SELECT translate(input, U&'\200B\FEFF', '~~') AS input,
	pg_temp.parse('gpureq', input)
FROM unnest(ARRAY['', ' ', 'x', 'H100', '8', '8x', '0.5', '0.5x', '.5xT4',
	'0.xT4', '-1xT4', '+1xT4', '4-xT4', '-4xT4', '4--8xT4', '0.1-0.5xT4',
	'8 xH100', '8xH100 |A100', '8xH100| A100', '8XH100', '8xH100|',
	'8x|H100', '8xH100||A100', '8x*H100', '8xH*', '8x@40GB', '8xH100@',
	'8xH100@40', '8xH100@GB', '8xH100@40gb', '8xH100@40 GB', '8xH100@1.5GB',
	'8xH100@-1GB', '8xH100@40GBx', '8xH100@40GB@80GB', '8xH100@40GB,A100',
	E'8xH\u0007', E'8xH\u0085', E'8xH\u00a0X', E'8xH\u200b', E'8x\ufeffH',
	'0H100', '0|H100']) input;
-- 22023: a request out of bounds.
SELECT input, pg_temp.parse('gpureq', input)
FROM unnest(ARRAY['100001xT4', '1-100001xT4', '99999999999999999999999xT4',
	'16-4xT4', '0xT4', '0-4xT4', '0.0xT4', '0.000xT4', '1.0xT4', '1.5xT4',
	'0.0001xT4', '0.4601xT4', '1x' || repeat('N', 64), '1xA|B|A',
	'1xA@40GB|A@80GB', '1x*|*@1GB', '1xA@0GB', '1xA@8388608TiB',
	'1xA@9223372036854775808B', '1xA@99999999999999999999999GB',
	'1xA|' || repeat('B', 64)]) input;
-- 64 alternatives are a request, 65 are not; the longest request can be read
-- back.
SELECT length(v::text), v::text::gpureq = v AS same,
	cardinality(gpureq_types(v)) AS types
FROM (SELECT ('100000x' || string_agg(rpad(i::text, 63, 'N') ||
	'@' || 9223372036854775807 - i || 'B', '|'))::gpureq AS v
	FROM generate_series(1, 64) i) t;
SELECT pg_temp.parse('gpureq', '1x' || string_agg('T' || i, '|'))
FROM generate_series(1, 65) i;
SELECT left(answer, 300) AS answer, length(answer) < 400 AS short
FROM (VALUES ('1x' || repeat('N', 10000000)), (repeat('1', 10000000)),
	('1x' || repeat('A|', 5000000)), (repeat(' ', 10000000)),
	('1xA' || repeat(' ', 8190))) AS t(input),
	LATERAL pg_temp.parse('gpureq', input) AS answer;
SELECT pg_temp.parse('gpureq', '1x' || repeat('N', 8000)) AS clipped;
SELECT pg_temp.parse('gpureq', '1x' || repeat('昇', 8000)) AS clipped_between;
-- where the limit is within a character
SELECT pg_temp.parse('gpureq', '1xN' || repeat('昇', 8000)) AS limit_within;

--
-- gpureq: parts, order, hash
--
SELECT v, gpureq_min_gpus(v) AS least, gpureq_max_gpus(v) AS most,
	gpureq_share(v) AS share, gpureq_types(v) AS types,
	gpureq_min_memory(v) AS min_memory
FROM unnest(ARRAY['0', '8xH100|A100@40GB', '0.46xT4', '4x*@1KiB',
	'4-16xH100']::gpureq[]) v;
SELECT array_agg(v ORDER BY v)
FROM unnest(ARRAY['8xH100', '0', '4-16xH100', '1xT4', '0.46xT4', '4xH100',
	'1xA|B', '1xA', '1xA@1GB', '1xA@1GB|B', '0.5xA']::gpureq[]) v;
SELECT a < b AS lt, a <= b AS le, a = b AS eq, a <> b AS ne, a >= b AS ge,
	a > b AS gt, gpureq_cmp(a, b)
FROM (VALUES ('1xA'::gpureq, '2xA'::gpureq), ('1xA@1000MB', '1xA@1GB'),
	('1xB', '1xA')) AS t(a, b);
-- Preference is part of the value.
SELECT '1xA|B'::gpureq = '1xB|A'::gpureq AS same;
SELECT count(DISTINCT gpureq_hash(v)) AS hashes,
	count(DISTINCT gpureq_hash_extended(v, 7)) AS extended,
	count(DISTINCT gpureq_send(v)) AS bytes
FROM unnest(ARRAY['2xA@1GB', ' 2xA@1000MB', '02-2xA@1000000KB']::gpureq[]) v;

--
-- gpureq: binary
--
SELECT gpureq_send('8xH100|A100@40GB') AS sent,
	pg_temp.receive('gpureq', gpureq_send('8xH100|A100@40GB')) AS received,
	pg_temp.receive('gpureq', gpureq_send('0')) AS cpu_only;
SELECT bytes, pg_temp.receive('gpureq', bytes)
FROM (VALUES (''::bytea), ('\x01'), ('\x0231'), ('\x0131'), ('\x01317841'),
	('\x0131784100'), ('\x01317841ff'), ('\x013178417c'), ('\x0130784100'),
	('\x01'::bytea || convert_to('1.0xT4', 'UTF8')),
	('\x01'::bytea || convert_to('1xT4 x', 'UTF8'))) AS t(bytes);
SELECT left(pg_temp.receive('gpureq',
	'\x01'::bytea || convert_to('1x' || repeat('N', 9000), 'UTF8')), 260);
CREATE TEMP TABLE received (v gpureq);
COPY received FROM PROGRAM 'printf ''PGCOPY\n\377\r\n\0\0\0\0\0\0\0\0\0\0\001\0\230\226\201\001''; head -c 10000000 /dev/zero | tr ''\0'' N; printf ''\377\377''' (FORMAT binary);
DROP TABLE received;

--
-- gpuset: text
--
SELECT input, pg_temp.parse('gpuset', input)
FROM unnest(ARRAY['{}', '{ }', '{0}', '{0-3,6}', '{0,1,2,3,6}',
	'{6,0-3}', '{0,1}', '{0,0,0}', '{0-3,2-5}', ' { 5 , 0 - 2 } ', '{0-63}',
	'{63}', '{62-63,0}', '{007}', '{0,2,4,6}', '{5-5}']) input;
SELECT input, pg_temp.parse('gpuset', input)
FROM unnest(ARRAY['', ' ', '{', '}', '{0', '0}', '0', '{,}', '{0,}', '{,0}',
	'{0,,1}', '{0 1}', '{-1}', '{1-}', '{-}', '{1--2}', '{1-2-3}', '{a}',
	'{0.5}', '{0}}', '{0} x', '{{0}}', '[0]', '{0;1}', '{3-0}', '{64}',
	'{0-64}', '{64-0}', '{99999999999999999999}']) input;
SELECT left(answer, 160) AS answer, length(answer) < 300 AS short
FROM (VALUES ('{' || repeat('0,', 5000000) || '63}'),
	('{' || repeat('0,', 5000000)), (repeat('{', 10000000)),
	('{' || repeat('9', 10000000) || '}')) AS t(input),
	LATERAL pg_temp.parse('gpuset', input) AS answer;
SELECT count(*) AS values, bool_and(v::text::gpuset = v) AS same
FROM (SELECT union_agg(gpuset_from_array(ARRAY[i * 7 % 64, i * i % 64]))
		OVER (ORDER BY i) AS v FROM generate_series(1, 100) i) t;

--
-- gpuset: operators
--
SELECT a, b, a | b AS union, a & b AS both, a - b AS less, a @> b AS contains,
	a <@ b AS within, a && b AS overlaps, gpu_count(a) AS count
FROM (VALUES ('{0-3,6}'::gpuset, '{2-4}'::gpuset), ('{0-3}', '{1,2}'),
	('{1,2}', '{0-3}'), ('{}', '{}'), ('{0-63}', '{63}'), ('{0}', '{63}'),
	('{5}', '{}')) AS t(a, b);
SELECT d, '{0-3,63}'::gpuset @> d AS has, d <@ '{0-3,63}'::gpuset AS in_set
FROM unnest(ARRAY[0, 3, 4, 63, 64, -1, 2147483647, -2147483648]) d;
SELECT a < b AS lt, a <= b AS le, a = b AS eq, a <> b AS ne, a >= b AS ge,
	a > b AS gt, gpuset_cmp(a, b)
FROM (VALUES ('{0}'::gpuset, '{1}'::gpuset), ('{0,1}', '{0-1}'),
	('{63}', '{0-62}'), ('{}', '{63}')) AS t(a, b);
SELECT count(DISTINCT gpuset_hash(v)) AS hashes,
	count(DISTINCT gpuset_hash_extended(v, 7)) AS extended
FROM unnest(ARRAY['{0-2}', '{2,1,0}', ' {0,1-2} ']::gpuset[]) v;
SELECT gpuset_to_array('{0-2,63}'), gpuset_to_array('{}'),
	gpuset_from_array('{5,0,5}'), gpuset_from_array('{}'),
	gpuset_from_array('{{1,2},{3,4}}');
SELECT e AS expression, pg_temp.try(e)
FROM unnest(ARRAY[
	$$gpucredit.gpuset_from_array('{64}')$$,
	$$gpucredit.gpuset_from_array('{-1}')$$,
	$$gpucredit.gpuset_from_array('{1,NULL}')$$]) e;
SELECT union_agg(v) FROM unnest(ARRAY['{0}', '{5-7}', NULL]::gpuset[]) v;
SELECT union_agg(v) FROM unnest(ARRAY[]::gpuset[]) v;

--
-- gpuset: binary
--
SELECT gpuset_send(v::gpuset) AS sent,
	pg_temp.receive('gpuset', gpuset_send(v::gpuset)) AS received
FROM unnest(ARRAY['{}', '{0}', '{63}', '{0-63}']) v;
SELECT bytes, pg_temp.receive('gpuset', bytes)
FROM unnest(ARRAY['\x', '\x00000000000001', '\x000000000000000100']
	::bytea[]) bytes;

--
-- Indexes, hash joins, arrays of the types, keys, and storage
--
CREATE TABLE types_indexed (
	c credits PRIMARY KEY,
	r gpureq NOT NULL,
	g gpuset NOT NULL
);
INSERT INTO types_indexed
	SELECT i, (i % 1000 + 1 || 'xH100|A100@40GB')::gpureq,
		gpuset_from_array(ARRAY[i % 64, i / 64 % 64])
	FROM generate_series(1, 5000) i;
INSERT INTO types_indexed VALUES ('7.500000', '0', '{}');
CREATE INDEX ON types_indexed (r);
CREATE INDEX ON types_indexed (g);
CREATE INDEX ON types_indexed USING hash (c);
CREATE INDEX ON types_indexed USING hash (r);
CREATE INDEX ON types_indexed USING hash (g);
ANALYZE types_indexed;
CREATE FUNCTION pg_temp.index_of(query text) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
	plan json;
BEGIN
	EXECUTE 'EXPLAIN (COSTS OFF, FORMAT json) ' || query INTO plan;
	RETURN (regexp_match(plan::text, '"Index Name": "([^"]*)"'))[1];
END $$;
SET enable_seqscan = off;
SELECT query, pg_temp.index_of('SELECT * FROM types_indexed ' || query)
FROM unnest(ARRAY[
	$$WHERE c BETWEEN '7' AND '9'$$,
	$$ORDER BY c LIMIT 1$$,
	$$WHERE r > '999xA' AND r < '999xZ'$$,
	$$ORDER BY r LIMIT 1$$,
	$$WHERE g < '{3}'$$,
	$$ORDER BY g LIMIT 1$$]) query;
SELECT * FROM types_indexed WHERE c BETWEEN '7' AND '9' ORDER BY c;
SELECT count(*) FROM types_indexed
	WHERE r > '999xA' AND r < '999xZ';
SELECT count(*), min(c), max(c) FROM types_indexed WHERE g < '{2}';
DROP INDEX types_indexed_r_idx, types_indexed_g_idx;
ALTER TABLE types_indexed DROP CONSTRAINT types_indexed_pkey;
SELECT query, pg_temp.index_of('SELECT * FROM types_indexed ' || query)
FROM unnest(ARRAY[
	$$WHERE c = '4000'$$,
	$$WHERE r = '5xH100|A100@40000MB'$$,
	$$WHERE g = '{0-1}'$$]) query;
SELECT * FROM types_indexed WHERE c = '4000';
SELECT count(*) FROM types_indexed WHERE r = '5xH100|A100@40000MB';
SELECT c FROM types_indexed WHERE g = '{1,0}' ORDER BY c LIMIT 2;
RESET enable_seqscan;
-- Joined by hash and by merge, grouped by hash, the same rows.
SET enable_mergejoin = off;
SET enable_nestloop = off;
EXPLAIN (COSTS OFF) SELECT count(*) FROM types_indexed a
	JOIN types_indexed b USING (c, r, g);
SELECT count(*) FROM types_indexed a JOIN types_indexed b USING (c, r, g);
RESET enable_mergejoin;
SET enable_hashjoin = off;
SELECT count(*) FROM types_indexed a JOIN types_indexed b USING (c, r, g);
RESET enable_hashjoin;
RESET enable_nestloop;
SELECT count(*) FROM (SELECT r FROM types_indexed GROUP BY r) t;
SELECT count(*) FROM (SELECT g FROM types_indexed GROUP BY g) t;
DROP TABLE types_indexed;
-- A request survives compression, toasting and an array.
CREATE TEMP TABLE stored (r gpureq, a gpureq[], s gpuset[], c credits[]);
INSERT INTO stored SELECT v::gpureq, ARRAY[v, '0']::gpureq[],
	'{"{0-3}","{}"}', '{1,2.5}'
	FROM (SELECT '1x' || string_agg(md5(i::text), '|') AS v
		  FROM generate_series(1, 64) i) t;
SELECT md5(r::text) = md5(a[1]::text) AS same, a[2], s, c,
	cardinality(gpureq_types(r)) FROM stored;

-- Every function is immutable and parallel safe, and strict unless it takes an
-- aggregate's state.
SELECT p.oid::regprocedure FROM pg_proc p
JOIN pg_depend d ON d.objid = p.oid AND d.deptype = 'e'
	AND d.classid = 'pg_proc'::regclass
JOIN pg_extension e ON e.oid = d.refobjid AND e.extname = 'gpucredit'
WHERE p.prokind = 'f'
	AND p.proname ~ '(^(credits|gpureq|gpuset)_|_to_credits$|^(gpu_count|bill|mul_credits)$)'
	AND p.prorettype <> 'trigger'::regtype
	AND (p.provolatile <> 'i' OR p.proparallel <> 's' OR NOT p.proisstrict)
ORDER BY 1;

RESET search_path;
RESET client_encoding;
