# bench_plans.sh: the plan of every statement the hot calls run
#
# Each hot call is made once in a database with big tables, with auto_explain
# on nested statements.  The plans go to plans.txt.  A sequential scan of a
# tenant's table of 8 pages or more is a failure. seq_page_cost is ten times
# its default, as if the tables had ten times the history.

bench_plans()
{
	local found

	bench_database plans -v orgs=20 -v projects=100
	bench_sql -f "$BENCH_SQL/limits.sql" >"$GC_WORK/setup.log"
	bench_sql -v jobs=10000 -f "$BENCH_SQL/running.sql" >"$GC_WORK/setup.log"
	bench_sql -f "$BENCH_SQL/busy.sql" >"$GC_WORK/setup.log"
	PGOPTIONS="-c seq_page_cost=10 -c session_preload_libraries=auto_explain
		-c auto_explain.log_min_duration=0
		-c auto_explain.log_nested_statements=on
		-c auto_explain.log_level=notice" \
		bench_sql -f "$BENCH_SQL/hot.sql" >"$GC_WORK/hot.log" 2>&1 || {
		tail -n 20 "$GC_WORK/hot.log" >&2
		gc_die "a hot call failed"
	}
	found=$(perl "$GC_SOURCE/tools/lib/bench/plans.pl" "$GC_WORK/hot.log" \
		"$GC_WORK/plans.txt" "$(bench_sql -F ' ' -c "SELECT string_agg(relname, ' ')
		FROM pg_class c WHERE relnamespace = 'gpucredit'::regnamespace
		AND relkind = 'r' AND relpages >= 8 AND EXISTS (SELECT FROM pg_attribute a
			WHERE a.attrelid = c.oid AND a.attname = 'org')")")
	bench_keep "$GC_WORK/plans.txt"
	[ -z "$found" ] || printf '%s\n' "$found" >&2
	bench_row "plans: sequential scans of tenant tables" \
		"$(printf '%s' "$found" | grep -c . || true)" "" "<" 1
}
