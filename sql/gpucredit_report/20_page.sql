/*
 * 20_page.sql: how report_html() writes numbers, names, charts and tables.
 *
 * A chart is a stretched SVG of bare shapes.  Its labels are text of the page
 * beside the SVG, so that they keep their size on a phone.  Every drawn figure
 * has a data-* attribute with its exact value, and also appears as text.
 * Colour only repeats what is expressed by length, position or words.
 */
CREATE FUNCTION gpucredit_report.html(given text) RETURNS text
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_html';
COMMENT ON FUNCTION gpucredit_report.html(text) IS
'Internal: a text escaped for a page or a quoted attribute, in ASCII. Control characters and marks of writing direction are shown, not obeyed.';

/* An exact amount; digits after the hundredths are shown dimmed. */
CREATE FUNCTION gpucredit_report.report_money(amount numeric) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT coalesce(CASE WHEN report_money.amount < 0 THEN '&minus;' ELSE ''
		END || left(m.text, -4) || '<small>' || right(m.text, 4)
		|| '</small>', '&ndash;')
	FROM (SELECT to_char(abs(report_money.amount),
		'FM999,999,999,999,999,999,990.000000') AS text) m;
END;
COMMENT ON FUNCTION gpucredit_report.report_money(numeric) IS
'Internal: credits as a report writes them.';

/* A number for an axis, rounded to three digits. */
CREATE FUNCTION gpucredit_report.report_short(value numeric) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT CASE WHEN report_short.value < 0 THEN '&minus;' ELSE '' END
		|| CASE WHEN v.v >= 1e12 THEN trim_scale(round(v.v / 1e12, 2)) || 'T'
		WHEN v.v >= 1e9 THEN trim_scale(round(v.v / 1e9, 2)) || 'G'
		WHEN v.v >= 1e6 THEN trim_scale(round(v.v / 1e6, 2)) || 'M'
		WHEN v.v >= 1e4 THEN trim_scale(round(v.v / 1e3, 2)) || 'k'
		ELSE trim_scale(round(v.v, 6))::text END
	FROM (SELECT abs(report_short.value) AS v) v;
END;
COMMENT ON FUNCTION gpucredit_report.report_short(numeric) IS
'Internal: a number as a report''s axes write it.';

CREATE FUNCTION gpucredit_report.report_percent(part numeric, whole numeric)
RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT coalesce(replace(to_char(100 * report_percent.part
		/ nullif(report_percent.whole, 0), 'FM999999990.0'), '-', '&minus;')
		|| '&nbsp;%', '&ndash;');
END;
COMMENT ON FUNCTION gpucredit_report.report_percent(numeric, numeric) IS
'Internal: a fraction as a report writes it.';

CREATE FUNCTION gpucredit_report.report_points(more numeric) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT coalesce(CASE WHEN round(100 * report_points.more, 1) < 0
		THEN '&minus;' ELSE '+' END
		|| to_char(abs(100 * report_points.more), 'FM999999990.0')
		|| '&nbsp;pp', '&ndash;');
END;
COMMENT ON FUNCTION gpucredit_report.report_points(numeric) IS
'Internal: the difference of two fractions as a report writes it, in percentage points.';

CREATE FUNCTION gpucredit_report.report_time(span interval) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT coalesce(CASE WHEN s.s < 60 THEN trim_scale(round(s.s, 1))
			|| '&nbsp;s'
		WHEN s.s < 3600 THEN floor(s.s / 60) || '&nbsp;min'
			|| coalesce('&nbsp;' || nullif(floor(s.s % 60), 0) || '&nbsp;s', '')
		WHEN s.s < 86400 THEN floor(s.s / 3600) || '&nbsp;h'
			|| coalesce('&nbsp;' || nullif(floor(s.s % 3600 / 60), 0)
				|| '&nbsp;min', '')
		ELSE floor(s.s / 86400) || '&nbsp;d' || coalesce('&nbsp;'
			|| nullif(floor(s.s % 86400 / 3600), 0) || '&nbsp;h', '') END,
		'&ndash;')
	FROM (SELECT extract(epoch FROM report_time.span) AS s) s;
END;
COMMENT ON FUNCTION gpucredit_report.report_time(interval) IS
'Internal: a length of time as a report writes it.';

CREATE FUNCTION gpucredit_report.report_day(day date) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT to_char(report_day.day, 'FMDD Mon YYYY');
END;
COMMENT ON FUNCTION gpucredit_report.report_day(date) IS
'Internal: a day as a report writes it.';

CREATE FUNCTION gpucredit_report.report_instant(at timestamptz) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT to_char(report_instant.at AT TIME ZONE 'UTC',
		'FMDD Mon YYYY HH24:MI');
END;
COMMENT ON FUNCTION gpucredit_report.report_instant(timestamptz) IS
'Internal: an instant as a report writes it, in UTC.';

CREATE FUNCTION gpucredit_report.report_ahead(span interval) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT CASE d.days WHEN 0 THEN 'within a day' WHEN 1 THEN 'in 1 day'
		ELSE 'in ' || d.days || ' days' END
	FROM (SELECT floor(extract(epoch FROM report_ahead.span) / 86400) AS days)
		AS d;
END;
COMMENT ON FUNCTION gpucredit_report.report_ahead(interval) IS
'Internal: a time until a coming instant, as a report writes it.';

/*
 * The name of an owner: an organisation, an account of a single organisation,
 * or both.
 */
CREATE FUNCTION gpucredit_report.report_name(scope gpucredit.report_scope, org text,
	account text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT '<bdi>' || CASE
		WHEN (scope).org IS NULL AND report_name.account <> ''
			THEN gpucredit_report.html(report_name.org || ' / ' || report_name.account)
		WHEN (scope).org IS NULL OR report_name.account = ''
			THEN gpucredit_report.html(report_name.org)
		ELSE gpucredit_report.html(report_name.account) END || '</bdi>'
		|| CASE WHEN report_name.account = '' THEN ' <i>itself</i>' ELSE '' END;
END;
COMMENT ON FUNCTION gpucredit_report.report_name(gpucredit.report_scope, text, text) IS
'Internal: an account''s name in a report.';

/*
 * A row's first cell, and its other cells.  On a phone a cell is a line with
 * its column's label and its content.
 */
CREATE FUNCTION gpucredit_report.report_head(content text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT '<th scope="row" role="rowheader">' || report_head.content
		|| '</th>';
END;
COMMENT ON FUNCTION gpucredit_report.report_head(text) IS
'Internal: the cell that names a row.';

CREATE FUNCTION gpucredit_report.report_cell(label text, content text,
	name text DEFAULT NULL, value text DEFAULT NULL) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT format('<td role="cell" class="n" data-label="%s"%s><span>%s</span>'
		'</td>',
		report_cell.label, coalesce(format(' data-%s="%s"', report_cell.name,
			gpucredit_report.html(coalesce(report_cell.value, ''))), ''),
		report_cell.content);
END;
COMMENT ON FUNCTION gpucredit_report.report_cell(text, text, text, text) IS
'Internal: a cell of numbers, with its exact value as data.';

CREATE FUNCTION gpucredit_report.report_money_cell(label text, name text,
	amount numeric) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT gpucredit_report.report_cell(report_money_cell.label,
		gpucredit_report.report_money(report_money_cell.amount),
		report_money_cell.name, report_money_cell.amount::numeric(50, 6)::text);
END;
COMMENT ON FUNCTION gpucredit_report.report_money_cell(text, text, numeric) IS
'Internal: a cell of credits.';

CREATE FUNCTION gpucredit_report.report_graph_cell(content text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT '<td role="cell" class="g">' || report_graph_cell.content || '</td>';
END;
COMMENT ON FUNCTION gpucredit_report.report_graph_cell(text) IS
'Internal: a cell with a picture.';

/*
 * A table.  An element of columns is "Name" for a text, ">Name" for a number,
 * or "~Name" for a picture.  It is NULL if the column is omitted because each
 * row would have 0.
 */
CREATE FUNCTION gpucredit_report.report_table(name text, caption text,
	columns text[], rows text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT format('<table role="table" id="%s"><caption>%s</caption>'
		'<thead role="rowgroup"><tr role="row">%s</tr></thead>'
		'<tbody role="rowgroup">%s</tbody></table>', report_table.name,
		report_table.caption, (SELECT string_agg(format(
			'<th scope="col" role="columnheader"%s>%s</th>',
			CASE left(c.c, 1) WHEN '>' THEN ' class="n"'
				WHEN '~' THEN ' class="g"' ELSE '' END,
			ltrim(c.c, '>~')), '' ORDER BY c.n)
		FROM unnest(report_table.columns) WITH ORDINALITY AS c (c, n)
		WHERE c.c IS NOT NULL),
		report_table.rows);
END;
COMMENT ON FUNCTION gpucredit_report.report_table(text, text, text[], text) IS
'Internal: a table.';

CREATE FUNCTION gpucredit_report.report_svg(name text, class text, width int,
	height int, title text, about text, shapes text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT format('<svg class="%s" viewBox="0 0 %s %s"'
		' preserveAspectRatio="none" role="img" aria-labelledby="%s-t %s-d">'
		'<title id="%s-t">%s</title><desc id="%s-d">%s</desc>%s</svg>',
		report_svg.class, report_svg.width, report_svg.height, report_svg.name,
		report_svg.name, report_svg.name, report_svg.title, report_svg.name,
		report_svg.about, report_svg.shapes);
END;
COMMENT ON FUNCTION gpucredit_report.report_svg(text, text, int, int, text, text,
	text) IS
'Internal: a picture, with its title and what it shows in words.';

CREATE FUNCTION gpucredit_report.report_rect(class text, x numeric, y numeric,
	width numeric, height numeric, data text DEFAULT '',
	title text DEFAULT NULL) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT format('<rect class="%s" x="%s" y="%s" width="%s" height="%s"%s>%s'
		'</rect>', report_rect.class, trim_scale(round(report_rect.x, 2)),
		trim_scale(round(report_rect.y, 2)),
		trim_scale(round(greatest(report_rect.width, 0), 2)),
		trim_scale(round(greatest(report_rect.height, 0), 2)),
		report_rect.data,
		coalesce('<title>' || report_rect.title || '</title>', ''));
END;
COMMENT ON FUNCTION gpucredit_report.report_rect(text, numeric, numeric, numeric,
	numeric, text, text) IS
'Internal: a bar of a picture.';

/*
 * The step of an axis, chosen so that two to five steps reach the highest
 * value.
 */
CREATE FUNCTION gpucredit_report.report_tick(most numeric) RETURNS numeric
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT CASE WHEN coalesce(report_tick.most, 0) <= 0 THEN 1 ELSE
		(SELECT min(s.m * t.ten) FROM (SELECT power(10::numeric,
				floor(log(report_tick.most / 4)))::numeric AS ten) t
			CROSS JOIN unnest(ARRAY[1, 2, 2.5, 5, 10]) AS s (m)
			WHERE s.m * t.ten >= report_tick.most / 4) END;
END;
COMMENT ON FUNCTION gpucredit_report.report_tick(numeric) IS
'Internal: the distance between an axis'' ticks.';

/* A chart.  Its labels on the left and below are text. */
CREATE FUNCTION gpucredit_report.report_chart(class text, caption text, svg text,
	lowest numeric, highest numeric, tick numeric, below text[],
	marks text DEFAULT '') RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT format('<figure class="chart %s"><figcaption>%s</figcaption>'
		'<div class="y" aria-hidden="true">%s</div>'
		'<div class="plot">%s%s</div><div class="x" aria-hidden="true">%s</div>'
		'</figure>', report_chart.class, report_chart.caption,
		(SELECT string_agg(format('<span style="bottom:%s%%">%s</span>',
			trim_scale(round(100 * (t.t - report_chart.lowest)
				/ (report_chart.highest - report_chart.lowest), 2)),
			gpucredit_report.report_short(t.t)), '' ORDER BY t.t)
		FROM generate_series(report_chart.lowest, report_chart.highest,
			report_chart.tick) AS t (t)), report_chart.svg, report_chart.marks,
		(SELECT string_agg('<span>' || b.b || '</span>', '' ORDER BY b.n)
		FROM unnest(report_chart.below) WITH ORDINALITY AS b (b, n)));
END;
COMMENT ON FUNCTION gpucredit_report.report_chart(text, text, text, numeric, numeric,
	numeric, text[], text) IS
'Internal: a picture between its axes.';

/*
 * Lines across a picture at the ticks of an axis; the picture is 100 units
 * high.
 */
CREATE FUNCTION gpucredit_report.report_grid(lowest numeric, highest numeric,
	tick numeric, width int) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT string_agg(format('<line class="%s" x1="0" x2="%s" y1="%s" y2="%s"'
		'/>', CASE WHEN t.t = 0 THEN 'zero' ELSE 'grid' END,
		report_grid.width, y.y, y.y), '' ORDER BY t.t)
	FROM generate_series(report_grid.lowest, report_grid.highest,
			report_grid.tick) AS t (t)
		CROSS JOIN LATERAL (SELECT trim_scale(round(100
			- 100 * (t.t - report_grid.lowest)
			/ (report_grid.highest - report_grid.lowest), 2)) AS y) y;
END;
COMMENT ON FUNCTION gpucredit_report.report_grid(numeric, numeric, numeric, int) IS
'Internal: the lines of a picture''s axis.';

/* A long part of the page, which is folded until a click opens it. */
CREATE FUNCTION gpucredit_report.report_more(summary text, content text)
RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT format('<details><summary>%s</summary>%s</details>',
		report_more.summary, report_more.content);
END;
COMMENT ON FUNCTION gpucredit_report.report_more(text, text) IS
'Internal: a part of the page that is folded.';

CREATE FUNCTION gpucredit_report.report_section(name text, title text, lead text,
	content text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT format('<section id="%s" aria-labelledby="%s-h"><h2 id="%s-h">%s'
		'</h2><p class="lead">%s</p>%s</section>' || chr(10),
		report_section.name, report_section.name, report_section.name,
		report_section.title, report_section.lead,
		coalesce(report_section.content, ''));
END;
COMMENT ON FUNCTION gpucredit_report.report_section(text, text, text, text) IS
'Internal: a section of the page.';
