/*
 * 30_sections.sql: the sections of report_html().
 *
 * Each section receives its figures, and begins with a sentence that sums them
 * up.
 */

/* The bars of the report's time, including those without spend. */
CREATE FUNCTION gpucredit_report.report_bins(scope gpucredit.report_scope)
RETURNS TABLE (n int, bin timestamptz, of int)
LANGUAGE sql IMMUTABLE PARALLEL SAFE ROWS 60
BEGIN ATOMIC
	SELECT b.n::int - 1, b.bin, count(*) OVER ()::int
	FROM generate_series(gpucredit_report.report_first(scope),
			(scope).until - interval '1 us', gpucredit_report.report_step(scope))
		WITH ORDINALITY AS b (bin, n);
END;
COMMENT ON FUNCTION gpucredit_report.report_bins(gpucredit.report_scope) IS
'report_html: the instants at which bars begin.';

CREATE FUNCTION gpucredit_report.report_bin_name(scope gpucredit.report_scope,
	bin timestamptz) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT CASE WHEN s.step < interval '1 day'
			THEN gpucredit_report.report_instant(report_bin_name.bin)
		WHEN s.step = interval '1 day'
			THEN gpucredit_report.report_day(gpucredit_internal.utc_day(report_bin_name.bin))
		ELSE gpucredit_report.report_day(gpucredit_internal.utc_day(report_bin_name.bin))
			|| ' to ' || gpucredit_report.report_day(gpucredit_internal.utc_day(least(
				report_bin_name.bin + s.step, (scope).until)
				- interval '1 us')) END
	FROM (SELECT gpucredit_report.report_step(scope) AS step) s;
END;
COMMENT ON FUNCTION gpucredit_report.report_bin_name(gpucredit.report_scope,
	timestamptz) IS
'report_html: a bar''s time.';

/*
 * The cells of spend and refunds of a row.  A table without refunds has no
 * such cells, because net then equals what was spent.
 */
CREATE FUNCTION gpucredit_report.report_refunds(any_refund boolean, spent numeric,
	refunded numeric) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT CASE WHEN report_refunds.any_refund THEN
		gpucredit_report.report_money_cell('Spent', 'spent', report_refunds.spent)
		|| gpucredit_report.report_money_cell('Refunded', 'refunded',
			report_refunds.refunded) ELSE '' END;
END;
COMMENT ON FUNCTION gpucredit_report.report_refunds(boolean, numeric, numeric) IS
'report_html: the cells of spend and refunds of a row, in a table that has any refund.';

/* An instant in a form that programs can parse. */
CREATE FUNCTION gpucredit_report.report_stamp(at timestamptz) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT to_char(report_stamp.at AT TIME ZONE 'UTC',
		'YYYY-MM-DD"T"HH24:MI:SS"Z"');
END;
COMMENT ON FUNCTION gpucredit_report.report_stamp(timestamptz) IS
'report_html: an instant in a data-* attribute.';

CREATE FUNCTION gpucredit_report.report_spend(scope gpucredit.report_scope,
	lines gpucredit_report.report_line[], more text) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	WITH b AS MATERIALIZED (
		SELECT b.n, b.bin, b.of, coalesce(l.spent, 0.000000) AS spent,
			coalesce(l.refunded, 0.000000) AS refunded,
			coalesce(l.spent - l.refunded, 0.000000) AS net,
			gpucredit_report.report_bin_name(scope, b.bin) AS name
		FROM gpucredit_report.report_bins(scope) b
			LEFT JOIN unnest(report_spend.lines) l
				ON l.kind = 'time' AND l.bin = b.bin),
	total AS (
		SELECT sum(b.spent) AS spent, sum(b.refunded) AS refunded,
			sum(b.net) AS net, max(b.net) AS most, min(b.net) AS least,
			max(b.of) AS of, (array_agg(b.name ORDER BY b.net DESC, b.n))[1]
				AS peak
		FROM b),
	axis AS (
		SELECT t.*, k.tick, floor(least(t.least, 0) / k.tick) * k.tick AS low,
			greatest(ceil(greatest(t.most, 0) / k.tick), 1) * k.tick AS high
		FROM total t
			CROSS JOIN LATERAL gpucredit_report.report_tick(
				greatest(t.most, - t.least)) AS k (tick)),
	bar AS (
		SELECT string_agg(gpucredit_report.report_rect('bar', 1000.0 * b.n / b.of
				+ 160.0 / b.of, 100 - 100 * (greatest(b.net, 0) - a.low)
				/ (a.high - a.low), 680.0 / b.of,
			100 * abs(b.net) / (a.high - a.low),
			format(' data-bin="%s" data-net="%s"',
				gpucredit_report.report_stamp(b.bin), b.net),
			b.name || ': ' || b.net), '' ORDER BY b.n) AS bars
		FROM b, axis a)
	SELECT gpucredit_report.report_section('spend', 'Spend over time', CASE
		WHEN a.spent = 0 AND a.refunded = 0
			THEN 'Nothing was spent or refunded in this time.'
		WHEN a.refunded = 0 THEN format('%s credits were spent, and nothing was'
			' refunded. Most spend: %s.', gpucredit_report.report_money(a.spent),
			a.peak)
		ELSE format('%s credits were spent and %s refunded, %s net. Most net'
			' spend: %s.', gpucredit_report.report_money(a.spent),
			gpucredit_report.report_money(a.refunded), gpucredit_report.report_money(a.net),
			a.peak) END, CASE WHEN a.spent <> 0 OR a.refunded <> 0 THEN
		gpucredit_report.report_chart('wide', 'Net spend, credits per '
			|| CASE extract(day FROM gpucredit_report.report_step(scope))
			WHEN 0 THEN 'hour' WHEN 1 THEN 'day' WHEN 7 THEN 'week'
			ELSE '61 days' END || ' (UTC)',
		gpucredit_report.report_svg('spend-svg', 'bars', 1000, 100,
			'Net spend over time', format('%s credits in all; most on %s, %s.',
				a.net, a.peak, a.most),
			gpucredit_report.report_grid(a.low, a.high, a.tick, 1000) || bar.bars),
		a.low, a.high, a.tick,
		ARRAY(SELECT to_char(b.bin AT TIME ZONE 'UTC', CASE
			WHEN gpucredit_report.report_step(scope) < interval '1 day'
			THEN 'FMDD Mon HH24:MI' WHEN gpucredit_report.report_step(scope)
				> interval '7 days' THEN 'Mon YYYY' ELSE 'FMDD Mon' END) FROM b
			WHERE b.n IN (0, (b.of - 1) / 2, b.of - 1) ORDER BY b.n))
		|| gpucredit_report.report_more('The same in numbers', gpucredit_report.report_table(
			'spend-days', CASE WHEN a.refunded = 0 THEN 'Net spend, in credits'
				ELSE 'Spent, refunded and net, in credits' END,
			ARRAY['Time', CASE WHEN a.refunded <> 0 THEN '>Spent' END,
				CASE WHEN a.refunded <> 0 THEN '>Refunded' END, '>Net'],
			(SELECT string_agg(format('<tr role="row" data-bin="%s">',
					gpucredit_report.report_stamp(b.bin))
				|| gpucredit_report.report_head(b.name)
				|| gpucredit_report.report_refunds(a.refunded <> 0, b.spent,
					b.refunded)
				|| gpucredit_report.report_money_cell('Net', 'net', b.net)
				|| '</tr>', '' ORDER BY b.n) FROM b)
			|| '<tr role="row" class="sum">' || gpucredit_report.report_head('In all')
			|| gpucredit_report.report_refunds(a.refunded <> 0, a.spent, a.refunded)
			|| gpucredit_report.report_money_cell('Net', 'net', a.net) || '</tr>'))
		|| report_spend.more END)
	FROM axis a, bar;
END;
COMMENT ON FUNCTION gpucredit_report.report_spend(gpucredit.report_scope,
	gpucredit_report.report_line[], text) IS
'report_html: spend over time, by account and by GPU type.';

/*
 * The spend of each of the eight highest spenders as a row of bars.  All
 * others are one more row, with a scale of its own.
 */
CREATE FUNCTION gpucredit_report.report_series(scope gpucredit.report_scope,
	lines gpucredit_report.report_line[], kind text, name text, title text)
RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	WITH filled AS MATERIALIZED (
		SELECT l.*, l.spent - l.refunded AS net
		FROM unnest(report_series.lines) l
		WHERE l.kind = report_series.kind),
	row AS MATERIALIZED (
		SELECT f.row, sum(f.net) AS net, sum(sum(f.net)) OVER () AS total,
			max(f.items) AS items, max(f.org) AS org,
			max(f.account) AS account, max(f.gpu_type) AS gpu_type,
			CASE WHEN max(f.items) > 1 THEN max(f.items) || ' others'
				WHEN report_series.kind = 'type' THEN coalesce('<bdi>'
					|| gpucredit_report.html(max(f.gpu_type)) || '</bdi>',
					'<i>Holds without a job</i>')
				ELSE gpucredit_report.report_name(scope, max(f.org),
					max(f.account)) END AS label
		FROM filled f GROUP BY f.row),
	cell AS MATERIALIZED (
		SELECT r.row, b.n, b.bin, b.of, coalesce(f.net, 0.000000) AS net
		FROM row r
			CROSS JOIN gpucredit_report.report_bins(scope) b
			LEFT JOIN filled f ON f.row = r.row AND f.bin = b.bin),
	high AS (
		SELECT c.row = 9 AS others, greatest(max(abs(c.net)), 0.000001) AS high
		FROM cell c GROUP BY 1),
	graph AS (
		SELECT c.row, string_agg(gpucredit_report.report_rect('bar',
			1000.0 * c.n / c.of + 160.0 / c.of,
			CASE WHEN c.net < 0 THEN 100 - least(100, 100 * - c.net / h.high)
				ELSE 100 - 100 * c.net / h.high END,
			680.0 / c.of, 100 * abs(c.net) / h.high,
			format(' data-bin="%s" data-net="%s"',
				gpucredit_report.report_stamp(c.bin), c.net),
			gpucredit_report.report_bin_name(scope, c.bin) || ': ' || c.net), ''
			ORDER BY c.n) FILTER (WHERE c.net <> 0) AS bars,
			max(c.net) AS most, (array_agg(c.bin ORDER BY c.net DESC, c.n))[1]
				AS peak
		FROM cell c JOIN high h ON h.others = (c.row = 9) GROUP BY c.row)
	SELECT gpucredit_report.report_table(report_series.name, report_series.title,
		ARRAY['Name', '~Over time', '>Net', '>Share'],
		(SELECT string_agg(format('<tr role="row"%s%s%s>',
				' data-org="' || gpucredit_report.html(CASE WHEN r.items = 1
					THEN r.org END) || '"',
				' data-account="' || gpucredit_report.html(CASE WHEN r.items = 1
					THEN r.account END) || '"',
				' data-type="' || gpucredit_report.html(CASE WHEN r.items = 1
					THEN r.gpu_type END) || '"')
			|| gpucredit_report.report_head(r.label)
			|| gpucredit_report.report_graph_cell(gpucredit_report.report_svg(
				report_series.name || '-' || r.row, 'spark', 1000, 100,
				'Net spend over time', format('Most: %s, %s credits.',
					gpucredit_report.report_bin_name(scope, g.peak), g.most),
				'<line class="zero" x1="0" x2="1000" y1="100" y2="100"/>'
				|| coalesce(g.bars, '')))
			|| gpucredit_report.report_money_cell('Net', 'net', r.net)
			|| gpucredit_report.report_cell('Share', gpucredit_report.report_percent(r.net,
				r.total))
			|| '</tr>', '' ORDER BY r.row)
		FROM row r JOIN graph g ON g.row = r.row)
		|| (SELECT '<tr role="row" class="sum">'
			|| gpucredit_report.report_head('In all')
			|| gpucredit_report.report_graph_cell('')
			|| gpucredit_report.report_money_cell('Net', 'net', sum(r.net))
			|| gpucredit_report.report_cell('Share', gpucredit_report.report_percent(
				sum(r.net), sum(r.net))) || '</tr>' FROM row r))
		|| gpucredit_report.report_more('The bars in numbers',
			gpucredit_report.report_table(report_series.name || '-bars',
				report_series.title, ARRAY['Time', 'Name', '>Net'],
				(SELECT string_agg('<tr role="row">'
					|| gpucredit_report.report_head(gpucredit_report.report_bin_name(scope,
						c.bin))
					|| '<td role="cell" data-label="Name">' || r.label
					|| '</td>' || gpucredit_report.report_money_cell('Net', 'net',
						c.net) || '</tr>', '' ORDER BY c.n, c.row)
				FROM cell c JOIN row r ON r.row = c.row
				WHERE c.net <> 0)))
	WHERE EXISTS (SELECT FROM row);
END;
COMMENT ON FUNCTION gpucredit_report.report_series(gpucredit.report_scope,
	gpucredit_report.report_line[], text, text, text) IS
'report_html: a small chart of spend over time for each of the highest spenders.';

CREATE FUNCTION gpucredit_report.report_spenders(scope gpucredit.report_scope,
	lines gpucredit_report.report_line[], hours gpucredit_report.report_hours_line[])
RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	WITH top AS MATERIALIZED (
		SELECT l.row AS rank, l.org, l.account, l.spent, l.refunded,
			l.spent - l.refunded AS net,
			sum(l.spent - l.refunded) OVER () AS total,
			max(l.spent - l.refunded) FILTER (WHERE l.row <= 10) OVER () AS most,
			sum(l.items) OVER () AS all
		FROM unnest(report_spenders.lines) l WHERE l.kind = 'account'),
	row AS (
		SELECT t.*, coalesce(h.hours, 0) AS hours,
			sum(t.refunded) OVER () <> 0 AS refunds,
			sum(h.hours) OVER () > 0 AS ran
		FROM top t
			LEFT JOIN LATERAL (SELECT sum(h.hours) AS hours
				FROM unnest(report_spenders.hours) h
				WHERE h.org = t.org AND h.account = t.account) h ON true
		WHERE t.rank <= 10 AND t.net > 0)
	SELECT gpucredit_report.report_section('spenders', 'Top spenders', CASE
		WHEN count(*) = 0 THEN 'Nobody spent anything in this time.'
		ELSE format('%s of %s accounts that spent, each without those below it;'
			' together %s of net spend.', count(*), max(r.all),
			gpucredit_report.report_percent(sum(r.net), max(r.total))) END,
		CASE WHEN count(*) > 0 THEN gpucredit_report.report_table('top',
			'Accounts that spent most, in credits', ARRAY['Account', '~Net',
				'>Net', CASE WHEN bool_or(r.refunds) THEN '>Spent' END,
				CASE WHEN bool_or(r.refunds) THEN '>Refunded' END,
				CASE WHEN bool_or(r.ran) THEN '>GPU-hours' END],
			string_agg(format('<tr role="row" data-rank="%s" data-org="%s"'
					' data-account="%s">', r.rank, gpucredit_report.html(r.org),
					gpucredit_report.html(r.account))
				|| gpucredit_report.report_head('<span class="rank">' || r.rank
					|| '</span> ' || gpucredit_report.report_name(scope, r.org,
						r.account))
				|| gpucredit_report.report_graph_cell(gpucredit_report.report_svg('top-'
					|| r.rank, 'rule', 1000, 10, 'Net spend',
					gpucredit_report.report_percent(r.net, r.most)
					|| ' of the largest', gpucredit_report.report_rect('bar', 0, 0,
						1000 * r.net / r.most, 10)))
				|| gpucredit_report.report_money_cell('Net', 'net', r.net)
				|| gpucredit_report.report_refunds(r.refunds, r.spent, r.refunded)
				|| CASE WHEN r.ran THEN gpucredit_report.report_cell('GPU-hours',
					to_char(r.hours, 'FM999,999,999,990.0'), 'hours',
					r.hours::text) ELSE '' END
				|| '</tr>', '' ORDER BY r.rank)) END)
	FROM row r;
END;
COMMENT ON FUNCTION gpucredit_report.report_spenders(gpucredit.report_scope,
	gpucredit_report.report_line[], gpucredit_report.report_hours_line[]) IS
'report_html: the accounts that spent most.';

/*
 * Waits on a logarithmic axis: a thick bar up to the median, a thin one up to
 * the 95th percentile, and a tick at the longest wait.
 */
CREATE FUNCTION gpucredit_report.report_waiting(scope gpucredit.report_scope,
	waits gpucredit_report.report_wait[]) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	WITH w AS (
		SELECT w.*, sum(w.waiting) OVER () > 0 AS any_waiting,
			1000 * ln(1 + extract(epoch FROM w.median))
				/ m.most AS m, 1000 * ln(1 + extract(epoch FROM w.p95)) / m.most
				AS p, 1000 * ln(1 + extract(epoch FROM w.longest)) / m.most
				AS l, m.most
		FROM unnest(report_waiting.waits) WITH ORDINALITY AS w (tier, rank,
				started, median, p95, longest, waiting, waiting_longest, n)
			CROSS JOIN (SELECT greatest(ln(61::numeric), ln(1 + max(
				extract(epoch FROM x.longest)))) AS most
				FROM unnest(report_waiting.waits) x) m),
	mark AS (
		SELECT string_agg(format('<line class="grid" x1="%s" x2="%s" y1="0"'
				' y2="100"/>', t.x, t.x), '' ORDER BY t.x) AS lines,
			string_agg(format('<span style="left:%s%%">%s</span>',
				trim_scale(round(t.x / 10, 2)), t.name), '' ORDER BY t.x) AS names
		FROM (SELECT s.name, trim_scale(round(1000 * ln(1 + s.s)
				/ max(w.most), 1)) AS x
			FROM (VALUES (60::numeric, '1&nbsp;min'), (3600, '1&nbsp;h'),
				(86400, '1&nbsp;d'), (604800, '1&nbsp;w')) AS s (s, name), w
			GROUP BY s.s, s.name HAVING ln(1 + s.s) <= max(w.most)) t)
	SELECT gpucredit_report.report_section('waits', 'Waiting, by tier', CASE
		WHEN coalesce(sum(w.started + w.waiting), 0) = 0
			THEN 'No job was submitted in this time.'
		ELSE format('Of the jobs submitted in this time, started: %s; still'
			' waiting: %s. Counted is the time in the queue, over all attempts;'
			' not what a job waited for credit, or after a failure.',
			to_char(sum(w.started), 'FM999,999,999,990'), to_char(sum(w.waiting), 'FM999,999,999,990')) END,
		CASE WHEN sum(w.started + w.waiting) > 0 THEN
			gpucredit_report.report_table('waits-table',
			'Thick bar: median. Thin bar: 95 in 100 jobs. Mark: the longest.'
			' Lines at 1 minute, 1 hour, 1 day and 1 week, logarithmic.',
			ARRAY['Tier', '~Wait<span class="scale" aria-hidden="true">'
				|| (SELECT coalesce(m.names, '') FROM mark m) || '</span>',
				'>Started', '>Median', '>95 in 100', '>Longest',
				CASE WHEN bool_or(w.any_waiting) THEN '>Waiting now' END],
			string_agg(format('<tr role="row" data-tier="%s">',
				gpucredit_report.html(w.tier))
			|| gpucredit_report.report_head('<bdi>' || gpucredit_report.html(
				replace(w.tier, '_', ' ')) || '</bdi>')
			|| gpucredit_report.report_graph_cell(gpucredit_report.report_svg('waits-' || w.n,
				'spark', 1000, 100, 'Wait', 'As in this row.',
				(SELECT coalesce(m.lines, '') FROM mark m)
				|| '<line class="zero" x1="0" x2="0" y1="0" y2="100"/>'
				|| CASE WHEN w.started > 0 THEN
				gpucredit_report.report_rect('soft', 0, 38, w.p, 24)
				|| gpucredit_report.report_rect('bar', 0, 22, w.m, 56)
				|| gpucredit_report.report_rect('tick', w.l - 4, 14, 6, 72)
				ELSE '' END))
			|| gpucredit_report.report_cell('Started', to_char(w.started, 'FM999,999,999,990'),
				'started', w.started::text)
			|| gpucredit_report.report_cell('Median', gpucredit_report.report_time(w.median),
				'median', extract(epoch FROM w.median)::text)
			|| gpucredit_report.report_cell('95 in 100',
				gpucredit_report.report_time(w.p95), 'p95',
				extract(epoch FROM w.p95)::text)
			|| gpucredit_report.report_cell('Longest',
				gpucredit_report.report_time(w.longest), 'longest',
				extract(epoch FROM w.longest)::text)
			|| CASE WHEN w.any_waiting THEN gpucredit_report.report_cell('Waiting now',
				to_char(w.waiting, 'FM999,999,999,990') || CASE
				WHEN w.waiting > 0 THEN ', up to '
				|| gpucredit_report.report_time(w.waiting_longest) ELSE '' END,
				'waiting', w.waiting::text) ELSE '' END
			|| '</tr>', '' ORDER BY w.n)) END)
	FROM w;
END;
COMMENT ON FUNCTION gpucredit_report.report_waiting(gpucredit.report_scope,
	gpucredit_report.report_wait[]) IS
'report_html: how long jobs waited, by tier.';
