/*
 * 50_html.sql: report_html(), the page.
 */

/*
 * Colours are variables, so that light and dark mode differ only in their
 * values.  Each text has a contrast of at least 4.5, which a test measures.
 * On pages narrower than 40rem, a table's row is shown as a block of labelled
 * lines.
 */
CREATE FUNCTION gpucredit_report.report_style() RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $style$
SELECT $css$
:root{color-scheme:light dark;--page:#eeece6;--paper:#fffefb;--ink:#1b2024;--muted:#5a6167;--rule:#d9d6cd;--fill:#f4f2ec;--bar:#1f5d86;--soft:#c4dbe9;--warn:#a1380a;--h0:#edebe4;--h1:#cadde9;--h2:#93bcd6;--h3:#5995bd;--h4:#27709f;--h5:#0d4469}
@media screen and (prefers-color-scheme:dark){:root{--page:#0d1013;--paper:#161a1e;--ink:#e9e7e1;--muted:#a6adb3;--rule:#363c42;--fill:#20252a;--bar:#6fb3e0;--soft:#284a62;--warn:#f3a672;--h0:#22272c;--h1:#23445c;--h2:#2c6288;--h3:#3f86b6;--h4:#69b1e1;--h5:#bfe2fb}}
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%;text-size-adjust:100%}
body{margin:0;background:var(--page);color:var(--ink);font:1rem/1.5 "Source Sans 3","Source Sans Pro","Segoe UI",system-ui,-apple-system,Roboto,"Helvetica Neue","Liberation Sans",Arial,sans-serif;overflow-wrap:anywhere}
main{max-width:62rem;margin:0 auto;background:var(--paper);padding:clamp(1rem,5vw,4rem)}
h1,h2{font-family:"Source Serif 4","Source Serif Pro",Charter,Georgia,"Liberation Serif","Times New Roman",serif;font-weight:600;line-height:1.2;text-wrap:balance}
h1{font-size:clamp(1.75rem,6vw,2.75rem);margin:.25rem 0 .5rem}
h2{font-size:1.5rem;margin:0 0 .5rem}
h3{font-size:1rem;margin:2rem 0 0}
p{margin:0 0 1rem}
.over{color:var(--muted);font-size:.8125rem;letter-spacing:.08em;text-transform:uppercase;margin:0}
.span,.lead,footer{color:var(--muted)}
.lead{max-width:44rem}
i{font-style:italic;color:var(--muted)}
small{font-size:1em;color:var(--muted)}
section,footer{border-top:2px solid var(--ink);margin-top:3rem;padding-top:1rem}
footer{border-top-width:1px;font-size:.875rem}
dl{display:grid;grid-template-columns:repeat(auto-fit,minmax(9rem,1fr));gap:1rem 1.5rem;margin:2rem 0 0;padding:1rem 0;border:solid var(--rule);border-width:1px 0}
dt{color:var(--muted);font-size:.875rem}
dd{margin:0;font-size:1.1875rem;font-variant-numeric:tabular-nums}
dd.unit{font-size:.8125rem;color:var(--muted)}
table{width:100%;border-collapse:collapse;margin:1.5rem 0 0;font-size:.9375rem}
caption,figcaption{text-align:left;color:var(--muted);font-size:.875rem;padding-bottom:.375rem}
th,td{text-align:left;padding:.375rem .75rem .375rem 0;border-bottom:1px solid var(--rule);vertical-align:middle;font-weight:400}
thead th{color:var(--muted);font-size:.8125rem;border-bottom-color:var(--ink);vertical-align:bottom}
th:last-child,td:last-child{padding-right:0}
tbody th{font-weight:600;white-space:nowrap}
tbody th bdi{display:inline-block;width:max-content;max-width:min(18rem,24vw);white-space:normal;vertical-align:top}
.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
figcaption{padding-bottom:.75rem}
.none{color:var(--muted);margin-top:1rem}
.g{width:34%;min-width:7rem}
.scale{display:block;position:relative;height:1.125rem}
.scale span{position:absolute;transform:translateX(-50%);font-size:.75rem;white-space:nowrap}
.sum th,.sum td{border-bottom:0;border-top:1px solid var(--ink);font-weight:600}
.rank{display:inline-block;min-width:1.25rem;color:var(--muted);font-weight:400;font-variant-numeric:tabular-nums}
.warn{color:var(--warn);font-weight:600}
svg{display:block;width:100%;overflow:visible}
.bars,.area{height:13rem}
.spark{height:1.75rem}
.rule{height:.625rem}
.map{height:100%}
.bar{fill:var(--bar)}
.soft{fill:var(--soft)}
.tick{fill:var(--ink)}
line,polyline{fill:none;stroke-width:1;vector-effect:non-scaling-stroke}
.grid{stroke:var(--rule)}
.zero{stroke:var(--muted)}
.line{stroke:var(--bar);stroke-width:2}
.expiry{stroke:var(--muted);stroke-dasharray:3 3}
.out{stroke:var(--warn);stroke-width:2}
.h0{fill:var(--h0);background:var(--h0)}.h1{fill:var(--h1);background:var(--h1)}.h2{fill:var(--h2);background:var(--h2)}.h3{fill:var(--h3);background:var(--h3)}.h4{fill:var(--h4);background:var(--h4)}.h5{fill:var(--h5);background:var(--h5)}
.hx{fill:none;stroke:var(--rule);stroke-width:1;vector-effect:non-scaling-stroke}
figure{margin:1.5rem 0 0}
.chart,.heat{display:grid;grid-template-columns:3.25rem minmax(0,1fr);column-gap:.5rem}
.heat{grid-template-columns:3.25rem minmax(0,1fr) 3.5rem}
figcaption,.key{grid-column:1/-1}
.y,.plot{position:relative}
.y span{position:absolute;right:0;transform:translateY(50%);font-size:.75rem;line-height:1;color:var(--muted);font-variant-numeric:tabular-nums}
.x{grid-column:2;display:flex;justify-content:space-between;font-size:.75rem;color:var(--muted);padding-top:.375rem}
.mark{position:absolute;max-width:70%;margin:0 2px;padding:0 .375rem;font-size:.8125rem;font-weight:600;white-space:nowrap;overflow:hidden;text-overflow:ellipsis;color:var(--warn);background:var(--paper)}
.mark.soon{font-weight:400;color:var(--muted)}
.mark.left{transform:translateX(-100%)}
.rows span{display:block;height:1.25rem;line-height:1.25rem;font-size:.75rem;color:var(--muted);text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}
.key{display:flex;flex-wrap:wrap;gap:.25rem 1rem;list-style:none;margin:.5rem 0 0;padding:0 0 0 3.75rem;font-size:.75rem;color:var(--muted)}
.key i{display:inline-block;width:.875rem;height:.875rem;margin-right:.375rem;vertical-align:-.125rem;border:1px solid var(--rule)}
details{margin-top:.75rem;font-size:.9375rem}
summary{color:var(--bar);cursor:pointer;padding:.25rem 0}
summary:focus-visible{outline:2px solid var(--bar);outline-offset:2px}
@media (max-width:52rem){
table,tbody,tr,th,td,caption{display:block}
thead{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%)}
table tr{border-bottom:1px solid var(--rule);padding:.5rem 0}
th,td{border:0;padding:.0625rem 0}
tbody th,tbody th bdi{max-width:100%}
tbody th .rank+bdi{max-width:calc(100% - 2rem)}
td{display:flex;justify-content:space-between;align-items:baseline;gap:1rem}
td[data-label]::before{content:attr(data-label);color:var(--muted);font-size:.875rem;font-weight:400;flex:none}
.n{white-space:normal;text-align:right}
.g{width:auto;padding:.25rem 0}
.g:empty{display:none}
.sum th,.sum td{border:0}
table tr.sum{border-top:1px solid var(--ink);border-bottom:0}
.key{padding-left:0}
.bars,.area{height:10rem}
.mark{font-size:.75rem}
}
@page{margin:18mm 15mm}
@media print{
:root{color-scheme:light}
body,main{background:#fff}
main{padding:0;max-width:none}
body{font-size:10pt}
table{font-size:9pt}
tbody th bdi{max-width:11rem}
.g{width:20%;min-width:5rem}
thead{break-after:avoid}
tbody tr:first-child{break-before:avoid}
section{margin-top:1.5rem}
figure,tr,h2,dl,.lead{break-inside:avoid}
h2,.lead,figcaption,caption{break-after:avoid}
details{display:none}
svg *,i,.key i{print-color-adjust:exact;-webkit-print-color-adjust:exact}
}
$css$
$style$;
COMMENT ON FUNCTION gpucredit_report.report_style() IS
'report_html: the style of the page.';

CREATE FUNCTION gpucredit_report.report_tile(label text, content text, name text,
	value text, unit text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT format('<div><dt>%s</dt><dd data-%s="%s">%s</dd>'
		'<dd class="unit">%s</dd></div>', report_tile.label, report_tile.name,
		coalesce(report_tile.value, ''), report_tile.content,
		report_tile.unit);
END;
COMMENT ON FUNCTION gpucredit_report.report_tile(text, text, text, text, text) IS
'report_html: one of the headline figures.';

CREATE FUNCTION gpucredit_report.report_tiles(scope gpucredit.report_scope,
	lines gpucredit_report.report_line[], hours gpucredit_report.report_hours_line[],
	slots gpucredit_report.report_slot[], owners gpucredit.report_owner[])
RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT '<dl>' || gpucredit_report.report_tile('Days until empty', coalesce(
			to_char(o.days, 'FM999,990.0'), '&ndash;'), 'days',
			round(o.days, 6)::text, CASE
			WHEN o.runs_out IS NULL THEN 'not within 10 years, as spent lately'
			ELSE CASE WHEN o.owners > 1 THEN gpucredit_report.report_name(scope,
					o.first, NULL) || ' first, ' ELSE '' END
				|| gpucredit_report.report_day(gpucredit_internal.utc_day(o.runs_out)) END
			|| CASE WHEN o.empty > 0 AND o.empty < o.owners THEN '; '
				|| o.empty || ' without credit' ELSE '' END)
		|| gpucredit_report.report_tile('Net spend',
			gpucredit_report.report_money(s.net), 'net', s.net::text, 'credits'
				|| CASE WHEN s.refunded <> 0 THEN ', less '
				|| gpucredit_report.report_money(s.refunded) || ' refunded'
				ELSE '' END || CASE WHEN h.uncollected <> 0 THEN '; '
				|| gpucredit_report.report_money(h.uncollected)
				|| ' more not collected' ELSE '' END)
		|| gpucredit_report.report_tile('Available now',
			gpucredit_report.report_money(o.available), 'available',
			o.available::text, 'credits' || CASE WHEN o.held <> 0
				THEN ', and ' || gpucredit_report.report_money(o.held) || ' held'
				ELSE '' END)
		|| gpucredit_report.report_tile('GPU-hours', to_char(h.hours,
			'FM999,999,999,990.0'), 'hours', h.hours::text,
			to_char(h.attempts, 'FM999,999,999,990') || CASE h.attempts WHEN 1
				THEN ' run' ELSE ' runs' END
			|| CASE WHEN h.going > 0 THEN ', ' || to_char(h.going,
				'FM999,999,999,990') || ' of them not over' ELSE '' END
			|| CASE WHEN h.without > 0 THEN ', and '
				|| to_char(h.without, 'FM999,999,999,990') || ' without GPUs'
				ELSE '' END)
		|| CASE WHEN u.supply > 0 THEN gpucredit_report.report_tile('Devices in use',
			gpucredit_report.report_percent(u.busy, u.supply), 'use',
			round(u.busy / u.supply, 6)::text, 'on average, of '
				|| trim_scale(round(u.supply / u.length, 1)) || ' devices')
		ELSE gpucredit_report.report_tile('Devices in use',
			coalesce(round(u.busy / u.length, 2), 0)::text, 'use',
			coalesce(round(u.busy / u.length, 6), 0)::text, 'on average') END
		|| '</dl>'
	FROM (SELECT coalesce(sum(l.spent - l.refunded), 0.000000) AS net,
			coalesce(sum(l.refunded), 0.000000) AS refunded
		FROM unnest(report_tiles.lines) l WHERE l.kind = 'time') s,
	(SELECT w.*, extract(epoch FROM w.runs_out - (scope).at) / 86400 AS days
		FROM (SELECT
				coalesce(sum(w.available), 0)::numeric(50, 6) AS available,
				coalesce(sum(w.held), 0)::numeric(50, 6) AS held,
				count(*) AS owners,
				count(*) FILTER (WHERE w.available <= 0) AS empty,
				coalesce(min(w.runs_out) FILTER (WHERE w.available > 0),
					min(w.runs_out) FILTER (WHERE NOT EXISTS (SELECT
						FROM unnest(report_tiles.owners) v
						WHERE v.account IS NULL AND v.available > 0)))
					AS runs_out,
				(array_agg(w.org ORDER BY w.available <= 0, w.runs_out,
					w.org COLLATE "C"))[1] AS first
			FROM unnest(report_tiles.owners) w WHERE w.account IS NULL) w) o,
	(SELECT coalesce(sum(x.hours), 0.000000) AS hours,
			coalesce(sum(x.uncollected), 0.000000) AS uncollected,
			coalesce(sum(x.attempts) FILTER (WHERE x.with_gpus), 0)
				AS attempts,
			coalesce(sum(x.going) FILTER (WHERE x.with_gpus), 0)
				AS going,
			coalesce(sum(x.attempts) FILTER (WHERE NOT x.with_gpus), 0)
				AS without
		FROM unnest(report_tiles.hours) x) h,
	(SELECT sum(x.busy) AS busy, sum(x.supply) AS supply,
			sum(x.length) AS length
		FROM unnest(report_tiles.slots) x) u;
END;
COMMENT ON FUNCTION gpucredit_report.report_tiles(gpucredit.report_scope,
	gpucredit_report.report_line[], gpucredit_report.report_hours_line[],
	gpucredit_report.report_slot[], gpucredit.report_owner[]) IS
'report_html: the headline figures.';

CREATE FUNCTION gpucredit_report.report_page(scope gpucredit.report_scope,
	content text) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT format('<!DOCTYPE html>' || chr(10)
		|| '<html lang="en"><head><meta charset="utf-8">'
		'<meta name="viewport" content="width=device-width,initial-scale=1">'
		'<meta name="generator" content="gpucredit">'
		'<title>GPU credit report: %s</title><style>%s</style></head>' || chr(10)
		|| '<body><main data-org="%s" data-since="%s" data-until="%s"'
		' data-at="%s"><header><p class="over">GPU credit report</p>'
		'<h1><bdi>%s</bdi></h1><p class="span">%s to %s UTC%s</p></header>'
		|| chr(10) || '%s<footer><p>Made from the ledger on %s UTC. Credits are'
		' exact, with all their 6 decimals. Spent is what was used in this time:'
		' settled or captured, and by runs that go on as far as they were'
		' metered; net is that less what was refunded in it. GPU-hours count'
		' alike. All days and hours are UTC.</p></footer></main></body>'
		'</html>' || chr(10),
		n.name, gpucredit_report.report_style(), gpucredit_report.html(coalesce((scope).org,
			'')), t.since, t.until, t.at, n.name,
		gpucredit_report.report_instant((scope).since),
		gpucredit_report.report_instant((scope).until), CASE WHEN (scope).narrow
			THEN '; the accounts that you may see' ELSE '' END,
		report_page.content, gpucredit_report.report_instant((scope).at))
	FROM (SELECT coalesce(gpucredit_report.html((scope).org), 'All organisations')
			AS name) n,
	(SELECT to_char((scope).since AT TIME ZONE 'UTC', f.f) AS since,
			to_char((scope).until AT TIME ZONE 'UTC', f.f) AS until,
			to_char((scope).at AT TIME ZONE 'UTC', f.f) AS at
		FROM (VALUES ('YYYY-MM-DD"T"HH24:MI:SS.US"Z"')) AS f (f)) t;
END;
COMMENT ON FUNCTION gpucredit_report.report_page(gpucredit.report_scope, text) IS
'report_html: the page around its sections.';

CREATE FUNCTION gpucredit.report_html(org text DEFAULT NULL,
	since timestamptz DEFAULT NULL, until timestamptz DEFAULT NULL)
RETURNS text
LANGUAGE plpgsql STABLE SECURITY DEFINER PARALLEL RESTRICTED
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_custom_plan
SET work_mem = '128MB'
SET parallel_tuple_cost = 0.01
SET jit = off
SET datestyle = 'ISO'
AS $$
DECLARE
	scope gpucredit.report_scope := gpucredit_report.report_about(report_html.org,
		report_html.since, report_html.until);
	lines gpucredit_report.report_line[] := ARRAY(
		SELECT l FROM gpucredit_report.report_lines(scope) l);
	hours gpucredit_report.report_hours_line[] := ARRAY(
		SELECT h FROM gpucredit_report.report_hours(scope, lines) h);
	slots gpucredit_report.report_slot[] := ARRAY(
		SELECT s FROM gpucredit_report.report_slots(scope) s);
	waits gpucredit_report.report_wait[] := ARRAY(
		SELECT w FROM gpucredit_report.report_waits(scope) w);
	owners gpucredit.report_owner[] := ARRAY(
		SELECT o FROM gpucredit_internal.report_owners(scope) o);
BEGIN
	RETURN gpucredit_report.report_page(scope,
		gpucredit_report.report_tiles(scope, lines, hours, slots, owners)
		|| gpucredit_report.report_spend(scope, lines,
			coalesce(gpucredit_report.report_series(scope, lines, 'series',
				'spend-by-account', CASE WHEN report_html.org IS NULL
					THEN 'By organisation, in credits; bars to one scale, the'
						' others'' to their own'
				ELSE 'By account, each without those below it, in credits;'
					' bars to one scale, the others'' to their own' END), '')
			|| coalesce(gpucredit_report.report_series(scope, lines, 'type',
				'spend-by-type', 'By GPU type, in credits; bars to one scale'),
				''))
		|| gpucredit_report.report_balance(scope, owners)
		|| gpucredit_report.report_use(scope, slots)
		|| gpucredit_report.report_waiting(scope, waits)
		|| gpucredit_report.report_fairness(scope)
		|| gpucredit_report.report_spenders(scope, lines, hours));
END
$$;
COMMENT ON FUNCTION gpucredit.report_html(text, timestamptz, timestamptz) IS
'Reports: a self-contained page for a browser or a printer, of extension gpucredit_report: spend over time, balance and forecast, use of the devices, waiting, fairness, top spenders.
org: NULL for all organisations. [since, until): until NULL is now, since NULL is thirty UTC days including that of until; at most 3660 days. A tenant''s page covers only the accounts it is bound to and all below.
Result: HTML in ASCII, with each figure''s exact value in a data-* attribute. Balances, fairness and waiting jobs are of the moment of the call.
Errors: UC001 no such account; 42501 a tenant bound to nothing; 22023.';
