/*
 * 40_state.sql: the sections of report_html() on balance, use of the devices,
 * and fairness.
 */
/*
 * How many organisations are younger than 7 days, and the age of the youngest.
 * A rate is computed from the last 7 days, or from an organisation's age if
 * that is less.
 */
CREATE FUNCTION gpucredit_report.report_known(scope gpucredit.report_scope,
	owners gpucredit.report_owner[], OUT young bigint, OUT span interval)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT count(*), min(k.span)
	FROM (SELECT (scope).at - min(a.created_at) AS span
		FROM unnest(report_known.owners) o
			JOIN gpucredit.account a ON a.org = o.org
				AND CASE WHEN (scope).narrow
					THEN (a.org::text, a.account::text) IN (SELECT *
						FROM unnest((scope).orgs, (scope).accounts))
					ELSE a.account = '' END
		WHERE o.account IS NULL
		GROUP BY o.org) k
	WHERE k.span < interval '7 days';
END;
COMMENT ON FUNCTION gpucredit_report.report_known(gpucredit.report_scope,
	gpucredit.report_owner[]) IS
'report_html: for how many organisations less than a week of spend is known, and the shortest of these times.';

/*
 * Shows the next 14, 30 or 90 days: the shortest of these in whose first nine
 * tenths every organisation's credit runs out, or 90 if there is none.
 */
CREATE FUNCTION gpucredit_report.report_outlook(scope gpucredit.report_scope,
	owners gpucredit.report_owner[]) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	WITH o AS MATERIALIZED (
		SELECT row_number() OVER () AS id, o.org,
			o.available::float8 AS available,
			greatest(o.per_day, 0)::float8 AS per_day, o.expiries, o.amounts,
			o.runs_out
		FROM unnest(report_outlook.owners) o WHERE o.account IS NULL),
	span AS MATERIALIZED (
		SELECT min(d.days) AS days
		FROM unnest(ARRAY[14, 30, 90]) AS d (days)
		WHERE d.days = 90 OR NOT EXISTS (SELECT FROM o
			WHERE coalesce(o.runs_out >= (scope).at
				+ 0.9 * d.days * interval '1 day', true))),
	/*
	 * From one expiry to the next, the credit falls in a straight line from
	 * high at a rate of per_day, both seen from the report's instant, until it
	 * is used up.  What has gone by an instant is the most that any expiry
	 * until then accounts for: the credit that has expired by it, and what is
	 * spent after it.  Instants are days from the report's.
	 */
	part AS (
		SELECT g.since, g.until, g.per_day, g.available
			- max(g.gone - g.per_day * g.since)
				OVER (PARTITION BY g.id ORDER BY g.since) AS high
		FROM (SELECT e.id, e.available, e.per_day, e.since,
				coalesce(lead(e.since) OVER w, 'infinity') AS until,
				(sum(e.amount) OVER w)::float8 AS gone
			FROM (SELECT o.id, o.available, o.per_day,
					coalesce(date_part('epoch', x.t - (scope).at) / 86400, 0)
					AS since, coalesce(sum(x.amount), 0) AS amount
				FROM o
					CROSS JOIN LATERAL (
						SELECT NULL::timestamptz AS t, NULL::numeric AS amount
						UNION ALL
						SELECT e.t, e.amount
						FROM unnest(o.expiries, o.amounts) AS e (t, amount)
						WHERE e.t IS NOT NULL) x
				GROUP BY o.id, o.available, o.per_day, 4) e
			WINDOW w AS (PARTITION BY e.id ORDER BY e.since)) g),
	/*
	 * The chart has 91 points.  A part adds its line at the first point that
	 * it covers, and takes it away after the last.
	 */
	change AS (
		SELECT v.n, sum(v.high) AS high, sum(v.per_day) AS per_day
		FROM span s
			CROSS JOIN part p
			CROSS JOIN LATERAL (SELECT ceil(90 * p.since / s.days) AS first,
				least(91, ceil(90 * least(p.until,
					CASE WHEN p.high <= 0 THEN 0 WHEN p.per_day > 0
					THEN p.high / p.per_day ELSE 'infinity' END) / s.days))
				AS past) c
			CROSS JOIN LATERAL (VALUES (c.first, p.high, p.per_day),
				(c.past, - p.high, - p.per_day)) v (n, high, per_day)
		WHERE c.first < c.past
		GROUP BY v.n),
	point AS MATERIALIZED (
		SELECT d.n, greatest(0, sum(coalesce(c.high, 0)) OVER w
			- sum(coalesce(c.per_day, 0)) OVER w * d.n * s.days / 90)::numeric
			AS rest
		FROM span s
			CROSS JOIN generate_series(0, 90) AS d (n)
			LEFT JOIN change c ON c.n = d.n
		WHERE EXISTS (SELECT FROM o)
		WINDOW w AS (ORDER BY d.n)),
	axis AS (
		SELECT k.tick, greatest(ceil(m.most / k.tick), 1) * k.tick AS high,
			m.most
		FROM (SELECT max(p.rest) AS most FROM point p) m
			CROSS JOIN LATERAL gpucredit_report.report_tick(m.most) AS k (tick)),
	line AS (
		SELECT string_agg(trim_scale(round(1000.0 * p.n / 90, 1)) || ','
			|| trim_scale(round(100 - 100 * p.rest / a.high, 2)), ' '
			ORDER BY p.n) AS points
		FROM point p, axis a),
	mark AS (
		SELECT string_agg(format('<line class="expiry" x1="%s"'
				' x2="%s" y1="0" y2="100"/>', x.x, x.x), '' ORDER BY x.x) AS lines
		FROM (SELECT DISTINCT round(1000 * date_part('epoch', e.t - (scope).at)
					/ (86400 * s.days)) AS x
				FROM span s, o CROSS JOIN LATERAL unnest(o.expiries) AS e (t)) x
		WHERE x.x <= 1000),
	/*
	 * The first lines have labels, one below the other so that no label hides
	 * another.
	 */
	out AS MATERIALIZED (
		SELECT o.org, o.runs_out AS t, count(*) OVER () AS of, row_number()
			OVER (ORDER BY o.runs_out, o.org COLLATE "C") AS n
		FROM o, span s
		WHERE o.available > 0
			AND o.runs_out < (scope).at + s.days * interval '1 day'
		ORDER BY n LIMIT 4),
	expiry AS (
		SELECT e.t, row_number() OVER (ORDER BY e.t) AS n
		FROM (SELECT DISTINCT e.t FROM o, span s,
				LATERAL unnest(o.expiries) AS e (t)
			WHERE e.t <= (scope).at + s.days * interval '1 day') e
		ORDER BY n LIMIT 4),
	word AS (
		SELECT string_agg(format('<span class="mark%s%s"'
				' style="left:%s%%;top:%srem">%s</span>', w.class,
			CASE WHEN x.x > 50 THEN ' left' ELSE '' END, x.x, 1.375 * w.row,
			w.words), '' ORDER BY w.row) AS words
		FROM (SELECT u.n - 1 AS row, u.t, '' AS class,
				CASE WHEN (SELECT count(*) FROM o) > 1
					THEN gpucredit_report.report_name(scope, u.org, NULL) || ' '
					ELSE '' END || 'runs out '
				|| gpucredit_report.report_day(gpucredit_internal.utc_day(u.t)) AS words
			FROM out u
			UNION ALL
			SELECT (SELECT count(*) FROM out) + e.n - 1, e.t, ' soon',
				'expires ' || gpucredit_report.report_day(gpucredit_internal.utc_day(e.t))
			FROM expiry e) w
			CROSS JOIN LATERAL (SELECT trim_scale(round(100 * extract(epoch
				FROM w.t - (scope).at) / (86400 * s.days), 1)) AS x
				FROM span s) x)
	SELECT gpucredit_report.report_chart('wide', format('Credit available in the next'
			' %s days, spent as in the last %s; dashed: something expires',
			s.days, CASE WHEN k.young = (SELECT count(*) FROM o)
				THEN gpucredit_report.report_time(k.span) ELSE '7' END),
		gpucredit_report.report_svg('outlook-svg', 'area', 1000, 100,
			format('Credit available in the next %s days', s.days), format(
				'Now %s, after a third of it %s, after two thirds %s, at its'
				' end %s.', round(p.a[1], 2), round(p.a[31], 2),
				round(p.a[61], 2), round(p.a[91], 2)),
			gpucredit_report.report_grid(0, a.high, a.tick, 1000)
			|| format('<polygon class="soft" points="0,100 %s 1000,100"/>',
				l.points)
			|| coalesce(m.lines, '')
			|| format('<polyline class="line" points="%s"/>', l.points)
			|| coalesce((SELECT string_agg(format('<line class="out" x1="%s"'
				' x2="%s" y1="0" y2="100"/>', x.x, x.x), '' ORDER BY u.n)
				FROM out u CROSS JOIN LATERAL (SELECT trim_scale(round(1000
					* extract(epoch FROM u.t - (scope).at)
					/ (86400 * s.days), 1)) AS x) x), '')),
		0, a.high, a.tick,
		ARRAY(SELECT to_char(((scope).at + n * s.days / 3.0 * interval '1 day')
			AT TIME ZONE 'UTC', 'FMDD Mon')
			FROM generate_series(0, 3) AS n ORDER BY n),
		coalesce(w.words, ''))
	FROM axis a, line l, mark m, span s, word w,
		gpucredit_report.report_known(scope, report_outlook.owners) k,
		(SELECT array_agg(point.rest ORDER BY point.n) AS a FROM point) p
	WHERE a.most > 0;
END;
COMMENT ON FUNCTION gpucredit_report.report_outlook(gpucredit.report_scope,
	gpucredit.report_owner[]) IS
'report_html: the chart of future credit.';

CREATE FUNCTION gpucredit_report.report_owner_row(scope gpucredit.report_scope,
	owner gpucredit.report_owner, name text, class text, held boolean,
	spends boolean) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT format('<tr role="row"%s data-org="%s" data-account="%s">',
			report_owner_row.class, gpucredit_report.html(coalesce((owner).org, '')),
			gpucredit_report.html(coalesce((owner).account, '')))
		|| gpucredit_report.report_head(report_owner_row.name)
		|| gpucredit_report.report_cell('Runs out', CASE
			WHEN (owner).account IS NOT NULL OR (owner).org IS NULL
				THEN '&ndash;'
			WHEN (owner).available <= 0 THEN '<b class="warn">now</b>'
			WHEN (owner).runs_out < (scope).at + interval '30 days'
				THEN '<b class="warn">' || gpucredit_report.report_day(
					gpucredit_internal.utc_day((owner).runs_out)) || ', '
					|| gpucredit_report.report_ahead((owner).runs_out - (scope).at)
					|| '</b>'
			ELSE coalesce(gpucredit_report.report_day(
				gpucredit_internal.utc_day((owner).runs_out)), 'not within 10 years')
			END, 'runs-out', gpucredit_report.report_stamp((owner).runs_out))
		|| gpucredit_report.report_money_cell('Available', 'available',
			(owner).available)
		|| CASE WHEN NOT report_owner_row.held THEN ''
			WHEN (owner).held IS NULL
			THEN gpucredit_report.report_cell('Held', '&ndash;')
			ELSE gpucredit_report.report_money_cell('Held', 'held', (owner).held) END
		|| CASE WHEN NOT report_owner_row.spends THEN ''
			WHEN (owner).per_day IS NULL
			THEN gpucredit_report.report_cell('Spent a day', '&ndash;')
			ELSE gpucredit_report.report_money_cell('Spent a day', 'per-day',
				(owner).per_day) END
		|| '</tr>';
END;
COMMENT ON FUNCTION gpucredit_report.report_owner_row(gpucredit.report_scope,
	gpucredit.report_owner, text, text, boolean, boolean) IS
'report_html: the line of an account with credit; held and spent are shown if any account has them.';

CREATE FUNCTION gpucredit_report.report_balance(scope gpucredit.report_scope,
	owners gpucredit.report_owner[]) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	WITH o AS MATERIALIZED (
		SELECT o.*, row_number() OVER (PARTITION BY o.account IS NULL
			ORDER BY o.runs_out, o.available DESC, o.org COLLATE "C",
				o.account COLLATE "C") AS n
		FROM unnest(report_balance.owners) o),
	total AS (
		SELECT coalesce(sum(o.available), 0) AS available,
			coalesce(sum(o.held), 0) AS held,
			coalesce(sum(o.per_day), 0) AS per_day, count(*) AS owners,
			min(o.runs_out) AS runs_out, count(*) FILTER (
				WHERE o.runs_out < (scope).at + interval '30 days') AS soon
		FROM o WHERE o.account IS NULL),
	shown AS (
		SELECT o.* FROM o
		WHERE ((scope).org IS NULL) = (o.account IS NULL) AND o.n <= 15),
	rows AS (
		SELECT string_agg(gpucredit_report.report_owner_row(scope,
			ROW(s.org, s.account, s.available, s.held, s.per_day, s.expiries,
				s.amounts, s.runs_out)::gpucredit.report_owner,
			gpucredit_report.report_name(scope, s.org, s.account), '',
			t.held <> 0, t.per_day <> 0), '' ORDER BY s.n) AS rows
		FROM shown s, total t),
	ahead AS (
		SELECT x.t, o.org, o.account, sum(x.amount) AS amount
		FROM o CROSS JOIN LATERAL unnest(o.expiries, o.amounts)
				AS x (t, amount)
		WHERE ((scope).org IS NULL) = (o.account IS NULL) AND x.t IS NOT NULL
		GROUP BY x.t, o.org, o.account
		ORDER BY x.t, o.org COLLATE "C", o.account COLLATE "C" LIMIT 12)
	SELECT gpucredit_report.report_section('balance', 'Balance, and what lies ahead',
		CASE WHEN t.available = 0 THEN 'There is no credit to spend.'
		WHEN (scope).org IS NULL AND t.owners > 1 THEN format('%s of %s'
			' organisations run out of credit within 30 days.', t.soon,
			t.owners)
		WHEN t.runs_out IS NULL THEN 'At what was spent a day lately, the'
			' credit lasts for more than ten years.'
		ELSE format('At what was spent a day lately, the credit is used up or'
			' expired on %s.', gpucredit_report.report_day(
				gpucredit_internal.utc_day(t.runs_out))) END
		|| CASE WHEN k.young = 0 OR t.available = 0 OR t.per_day = 0 THEN ''
			WHEN k.young = t.owners THEN format(' The forecast is from less'
				' than a week: %s.', gpucredit_report.report_time(k.span))
			ELSE format(' The forecast for %s of them is from less than a'
				' week.', k.young) END
		|| format(' As of %s UTC.', gpucredit_report.report_instant((scope).at)),
		coalesce(gpucredit_report.report_outlook(scope, report_balance.owners), '')
		|| gpucredit_report.report_table('balances',
			'Credit in active buckets, credit in open holds, and spend a day'
			' over the last 7 days, or since there is an account',
			ARRAY['Whose', '>Runs out', '>Available',
				CASE WHEN t.held <> 0 THEN '>Held' END,
				CASE WHEN t.per_day <> 0 THEN '>Spent a day' END],
			coalesce(r.rows, '')
			|| CASE WHEN (scope).org IS NULL AND t.owners > 15
				THEN '<tr role="row">' || gpucredit_report.report_head((t.owners - 15)
					|| ' others') || (SELECT
					gpucredit_report.report_cell('Runs out', 'later')
					|| gpucredit_report.report_money_cell('Available', 'available',
						sum(o.available))
					|| CASE WHEN t.held <> 0 THEN gpucredit_report.report_money_cell(
						'Held', 'held', sum(o.held)) ELSE '' END
					|| CASE WHEN t.per_day <> 0
						THEN gpucredit_report.report_money_cell('Spent a day',
						'per-day', sum(o.per_day)) ELSE '' END
					FROM o WHERE o.n > 15 AND o.account IS NULL) || '</tr>'
				ELSE '' END
			|| gpucredit_report.report_owner_row(scope, ROW(CASE
				WHEN t.owners = 1 THEN (scope).org END, NULL, t.available,
				t.held, t.per_day, NULL, NULL,
				t.runs_out)::gpucredit.report_owner, 'In all',
				' class="sum"', t.held <> 0, t.per_day <> 0))
		|| coalesce((SELECT gpucredit_report.report_table('expiries',
			'Credit that expires, the next 12',
			ARRAY['On (UTC)', 'Whose', '>When', '>Available now'],
			string_agg(format('<tr role="row" data-org="%s" data-account="%s"'
				' data-at="%s">', gpucredit_report.html(a.org),
				gpucredit_report.html(coalesce(a.account, '')),
				gpucredit_report.report_stamp(a.t))
			|| gpucredit_report.report_head(gpucredit_report.report_instant(a.t))
			|| '<td role="cell" data-label="Whose">'
			|| gpucredit_report.report_name(scope, a.org, a.account) || '</td>'
			|| gpucredit_report.report_cell('When',
				gpucredit_report.report_ahead(a.t - (scope).at))
			|| gpucredit_report.report_money_cell('Available now', 'available',
				a.amount) || '</tr>', '' ORDER BY a.t, a.org COLLATE "C",
				a.account COLLATE "C"))
			FROM ahead a HAVING count(*) > 0),
			'<p class="none">Nothing of it expires.</p>'))
	FROM total t, rows r,
		gpucredit_report.report_known(scope, report_balance.owners) k;
END;
COMMENT ON FUNCTION gpucredit_report.report_balance(gpucredit.report_scope,
	gpucredit.report_owner[]) IS
'report_html: balances, what expires, and when credit runs out.';

/*
 * One row per day, or per weekday if there are too many days.  The darkest
 * colour means that all devices are busy or, if the scope is only some
 * tenants, that as many are busy as in the busiest hour.
 */
CREATE FUNCTION gpucredit_report.report_use(scope gpucredit.report_scope,
	slots gpucredit_report.report_slot[]) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	WITH slot AS MATERIALIZED (
		SELECT CASE WHEN (scope).until - (scope).since <= interval '35 days'
				THEN to_char(s.hour AT TIME ZONE 'UTC', 'YYYY-MM-DD')
				ELSE to_char(s.hour AT TIME ZONE 'UTC', 'ID') END AS key,
			CASE WHEN (scope).until - (scope).since <= interval '35 days'
				THEN to_char(s.hour AT TIME ZONE 'UTC', 'FMDD Mon')
				ELSE to_char(s.hour AT TIME ZONE 'UTC', 'Dy') END AS label,
			to_char(s.hour AT TIME ZONE 'UTC', 'HH24')::int AS hour,
			s.length, s.busy, s.supply
		FROM unnest(report_use.slots) s),
	total AS (
		SELECT coalesce(sum(s.busy), 0) AS busy, sum(s.supply) AS supply,
			sum(s.length) AS length, sum(s.supply) > 0 AS known
		FROM slot s),
	cell AS MATERIALIZED (
		SELECT c.*, c.busy / nullif(CASE WHEN t.known THEN c.supply
				ELSE c.length * max(c.busy / c.length) OVER () END, 0) AS part,
			dense_rank() OVER (ORDER BY c.key) - 1 AS row
		FROM (SELECT s.key, s.label, s.hour, sum(s.length) AS length,
				sum(s.busy) AS busy, sum(s.supply) AS supply
			FROM slot s GROUP BY s.key, s.label, s.hour) c, total t),
	row AS MATERIALIZED (
		SELECT c.row, c.key, c.label, sum(c.busy) AS busy,
			sum(c.supply) AS supply, sum(c.length) AS length,
			min(c.busy / c.length) AS least, max(c.busy / c.length) AS most
		FROM cell c GROUP BY c.row, c.key, c.label),
	drawn AS (
		SELECT string_agg(gpucredit_report.report_rect('h' || CASE
				WHEN c.part IS NULL THEN 'x' WHEN c.part = 0 THEN '0'
				ELSE least(5, 1 + floor(c.part * 5))::text END,
			c.hour + 0.04, c.row + 0.05, 0.92, 0.9, format(
				' data-row="%s" data-hour="%s" data-busy="%s" data-supply="%s"',
				c.key, c.hour, round(c.busy, 6), round(c.supply, 6)),
			format('%s, %s:00: %s devices', c.label, lpad(c.hour::text, 2, '0'),
				round(c.busy / c.length, 2))
			|| CASE WHEN c.supply > 0 THEN ', '
				|| round(100 * c.part, 1) || ' %' ELSE '' END), ''
			ORDER BY c.row, c.hour) AS cells,
			(SELECT max(r.least) >= 0.005 FROM row r) AS quiet
		FROM cell c)
	SELECT gpucredit_report.report_section('use', 'Use of the devices',
		CASE WHEN t.busy = 0 THEN 'No device was in use in this time.'
		WHEN t.known THEN format('Of the devices there were, %s were given to'
			' jobs: %s of %s devices on average.', gpucredit_report.report_percent(
				t.busy, t.supply), round(t.busy / t.length, 1),
			trim_scale(round(t.supply / t.length, 1)))
		ELSE format('On average %s devices were given to jobs.',
			round(t.busy / t.length, 2)) END,
		CASE WHEN t.busy > 0 THEN format('<figure class="heat"><figcaption>'
			'Devices in use by hour of the day (UTC)%s</figcaption>'
			'<div class="rows" aria-hidden="true">%s</div>'
			'<div class="plot" style="height:%srem">%s</div>'
			'<div class="rows r" aria-hidden="true">%s</div>'
			'<div class="x" aria-hidden="true"><span>0</span><span>6</span>'
			'<span>12</span><span>18</span><span>24</span></div>'
			'<ul class="key">%s</ul></figure>',
			CASE WHEN t.known THEN ', of all there were; right, the mean'
				ELSE ', of the busiest hour; right, the mean number' END,
			(SELECT string_agg('<span>' || r.label || '</span>', ''
				ORDER BY r.row) FROM row r),
			(SELECT 1.25 * count(*) FROM row r),
			gpucredit_report.report_svg('use-svg', 'map', 24,
				(SELECT count(*)::int FROM row r), 'Devices in use by hour',
				(SELECT format('Busiest: %s, %s:00, with %s devices.', c.label,
						lpad(c.hour::text, 2, '0'),
						round(c.busy / c.length, 2))
					FROM cell c ORDER BY c.busy / c.length DESC, c.row, c.hour
					LIMIT 1), d.cells),
			(SELECT string_agg('<span>' || CASE WHEN t.known
				THEN gpucredit_report.report_percent(r.busy, r.supply)
				ELSE round(r.busy / r.length, 1)::text END || '</span>', ''
				ORDER BY r.row) FROM row r),
			'<li><i class="h0"></i>none</li><li><i class="h1"></i>to 20&nbsp;%'
			'</li><li><i class="h2"></i>to 40&nbsp;%</li><li><i class="h3"></i>'
			'to 60&nbsp;%</li><li><i class="h4"></i>to 80&nbsp;%</li><li>'
			'<i class="h5"></i>more</li>')
		|| gpucredit_report.report_more('The same in numbers', gpucredit_report.report_table(
			'use-rows', 'Devices in use; device-hours in all',
			ARRAY[CASE WHEN (scope).until - (scope).since
				<= interval '35 days' THEN 'Day' ELSE 'Weekday' END,
				'>Mean', CASE WHEN d.quiet THEN '>Quietest hour' END,
				'>Busiest hour', '>Device-hours',
				CASE WHEN t.known THEN '>Of all' END],
			(SELECT string_agg(format('<tr role="row" data-row="%s">', r.key)
				|| gpucredit_report.report_head(r.label)
				|| gpucredit_report.report_cell('Mean',
					round(r.busy / r.length, 2)::text)
				|| CASE WHEN d.quiet THEN gpucredit_report.report_cell('Quietest hour',
					round(r.least, 2)::text) ELSE '' END
				|| gpucredit_report.report_cell('Busiest hour', round(r.most, 2)::text)
				|| gpucredit_report.report_cell('Device-hours', to_char(r.busy,
					'FM999,999,999,990.0'), 'busy', round(r.busy, 6)::text)
				|| CASE WHEN t.known THEN gpucredit_report.report_cell('Of all',
					gpucredit_report.report_percent(r.busy, r.supply)) ELSE '' END
				|| '</tr>', '' ORDER BY r.row) FROM row r))) END)
	FROM total t, drawn d;
END;
COMMENT ON FUNCTION gpucredit_report.report_use(gpucredit.report_scope,
	gpucredit_report.report_slot[]) IS
'report_html: the map of the devices'' use.';

/*
 * A bar for the fraction that was used, with a mark at the fraction that is
 * due.
 */
CREATE FUNCTION gpucredit_report.report_fairness(scope gpucredit.report_scope)
RETURNS text
LANGUAGE sql STABLE PARALLEL RESTRICTED
BEGIN ATOMIC
	WITH s AS MATERIALIZED (
		SELECT s.*, row_number() OVER (PARTITION BY s.pool ORDER BY s.due DESC,
				s.org COLLATE "C", s.account COLLATE "C") AS n,
			dense_rank() OVER (ORDER BY s.pool COLLATE "C") AS nth,
			max(greatest(s.due, s.used)) OVER (PARTITION BY s.pool) AS most
		FROM gpucredit_report.report_shares(scope) s),
	page AS (
		SELECT s.pool, s.nth, gpucredit_report.report_table('shares-' || s.nth,
			'Pool <bdi>' || gpucredit_report.html(s.pool) || '</bdi>: bar, what was'
			' used; mark, what is due; over or under in percentage points (pp)',
			ARRAY['Whose', '~Used and due', '>Weight', '>Due', '>Used',
				'>Over or under'],
			string_agg(format('<tr role="row" data-pool="%s" data-org="%s"'
				' data-account="%s" data-due="%s" data-used="%s">',
				gpucredit_report.html(s.pool), gpucredit_report.html(s.org),
				gpucredit_report.html(s.account), round(s.due, 6), round(s.used, 6))
			|| gpucredit_report.report_head(gpucredit_report.report_name(scope, s.org,
				CASE WHEN (scope).org IS NOT NULL OR s.account <> ''
					THEN s.account END))
			|| gpucredit_report.report_graph_cell(gpucredit_report.report_svg('share-' || s.nth
				|| '-' || s.n, 'rule', 1000, 100, 'Used and due',
				'As in this row.',
				gpucredit_report.report_rect('bar', 0, 25, coalesce(1000 * s.used
					/ nullif(s.most, 0), 0), 50)
				|| gpucredit_report.report_rect('tick', least(994, coalesce(1000
					* s.due / nullif(s.most, 0), 0)), 0, 6, 100)))
			|| gpucredit_report.report_cell('Weight', trim_scale(s.weight)::text)
			|| gpucredit_report.report_cell('Due', gpucredit_report.report_percent(s.due, 1))
			|| gpucredit_report.report_cell('Used', gpucredit_report.report_percent(s.used,
				1))
			|| gpucredit_report.report_cell('Over or under',
				gpucredit_report.report_points(s.used - s.due))
			|| '</tr>', '' ORDER BY s.n)) AS part
		FROM s WHERE s.n <= 12 GROUP BY s.pool, s.nth)
	SELECT gpucredit_report.report_section('fairness', 'Fairness', CASE
		WHEN count(*) = 0 THEN 'Nobody has used a pool or waits for one.'
		ELSE 'What was used of each pool, lately more than long ago, beside'
			' what is due by weights. Who is under goes first.' END,
		string_agg(p.part, '' ORDER BY p.nth))
	FROM page p;
END;
COMMENT ON FUNCTION gpucredit_report.report_fairness(gpucredit.report_scope) IS
'report_html: fair share: what is due to accounts and what they used.';
