# bench_report.sh: the report of a month of a million attempts, and screens
#
# The history is written straight into the tables: 1,000,000 attempts of 1,000
# accounts over 30 days, 3,000,000 entries, or a fiftieth of that with --quick.
# report_html() of all of it, and of one of its 100 organisations; the fastest of
# some calls, as the first fills the cache.  Then what \watch 1 would call, with
# 1,213 nodes and 10,000 jobs that wait.

REPORT_JOBS=1000000

bench_report()
{
	local rounds=5 jobs=$REPORT_JOBS screen wrong

	if [ -n "$quick" ]; then
		rounds=2
		jobs=$((REPORT_JOBS / 50))
	fi
	bench_database report -v orgs=100 -v projects=10
	bench_sql -v orgs=100 -v projects=10 -v jobs=$jobs \
		-f "$BENCH_SQL/report.sql" >"$GC_WORK/setup.log"
	wrong=$(bench_sql -c "SELECT * FROM gpucredit.verify('7') LIMIT 3")
	[ -z "$wrong" ] || gc_die "the history that was written is not right: $wrong"
	bench_row "report: report_html(), $jobs attempts of 100 organisations" \
		"$(report_seconds $rounds "SELECT length(gpucredit.report_html())")" \
		s "<" 5
	bench_row "report: report_html('7'), $((jobs / 100)) of them" \
		"$(report_seconds $rounds "SELECT length(gpucredit.report_html('7'))")" \
		s "<" 1
	bench_database screens -v orgs=40 -v projects=1
	bench_sql -f "$BENCH_SQL/screens.sql" >"$GC_WORK/setup.log"
	for screen in cluster_map queue queue_reasons burn_rate recent_events; do
		bench_row "report: $screen(), 1,213 nodes, 10,000 jobs that wait" \
			"$(report_seconds $rounds "SELECT count(*) FROM gpucredit.$screen()")" \
			s "<" 0.5
	done
}

# The least of ROUNDS times of a statement, in seconds.
report_seconds()
{
	local i args=()

	for ((i = 0; i < $1; i++)); do
		args+=(-c "$2")
	done
	bench_sql -c '\timing on' "${args[@]}" |
		awk '/^Time:/ { if (!n++ || $2 < least) least = $2 }
			END { print least / 1000 }'
}
