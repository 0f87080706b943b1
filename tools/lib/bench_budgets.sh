# bench_budgets.sh: what budgets and quotas cost a reserve
#
# Eight clients reserve for random users of 100 organisations of 50 projects.
# Half of the organisations have no limit.  The others have a budget and a
# quota (devices, running and queued jobs) at each level of the path: user,
# project, organisation.  Both kinds take turns.

BUDGETS_CLIENTS=8

bench_budgets()
{
	local rounds=7 seconds=4 i none=$GC_WORK/budgets.none
	local three=$GC_WORK/budgets.three

	[ -z "$quick" ] || rounds=3 seconds=3
	bench_database budgets -v orgs=200 -v projects=50
	bench_sql -f "$BENCH_SQL/budgets_setup.sql" >"$GC_WORK/setup.log"
	: >"$none"
	: >"$three"
	for ((i = 0; i < rounds; i++)); do
		budgets_run 0 $seconds >>"$none"
		budgets_run 100 $seconds >>"$three"
	done
	[ "$(bench_sql -c "SELECT count(*) FROM gpucredit.audit
		WHERE operation = 'reserve' AND decision = 'denied'")" = 0 ] ||
		gc_die "a reserve was denied"
	bench_row "budgets: reserve without limits" "$(bench_median <"$none")" /s
	bench_row "budgets: reserve under 3 budgets and quotas" \
		"$(bench_median <"$three")" /s
	bench_row "budgets: under 3 budgets and quotas / without" \
		"$(paste "$three" "$none" | bench_ratio | bench_median)" "" ">=" 0.7
}

# One run; prints its rate.  Keys are new in every run.
budgets_run()
{
	bench_pgbench -f "$BENCH_SQL/budgets.sql" -c $BUDGETS_CLIENTS -j 2 -T "$2" \
		-D n=0 -D run="$(date +%s)" -D base="$1"
}
