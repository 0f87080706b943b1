# bench_metrics.sh: what counting costs, rate limits included
#
# There are two servers of the same build.  One has the library preloaded: its
# calls are counted and timed, and each checks a rate limit that never refuses.
# A session in each makes the same calls, a hundred at a time, in turns.

CALLS_JOBS=2000

# The server of DIR, with what to call; SETTINGS...
calls_server()
{
	local dir=$1
	shift

	gc_server_start "$dir" "shared_buffers = 256MB" "max_wal_size = 4GB" \
		"synchronous_commit = off" "autovacuum = off" \
		"gpucredit.node_suspect = 0" "$@"
	bench_database calls -v orgs=100 -v projects=10
	bench_sql -v jobs=$CALLS_JOBS -f "$BENCH_SQL/running.sql" \
		>"$GC_WORK/setup.log"
}

bench_metrics()
{
	local rounds=600 what took

	[ -z "$quick" ] || rounds=100
	calls_server "$GC_WORK/plain"
	calls_server "$GC_WORK/counted" \
		"shared_preload_libraries = 'gpucredit'"
	bench_sql -c "SELECT count(gpucredit.set_rate_limit(n::text, '', '*',
		1e9, 1000000000)) FROM generate_series(0, 99) n" >/dev/null
	for what in meter reserve; do
		took=$(gc_guard perl "$BENCH_SQL/calls.pl" $what $rounds \
			$CALLS_JOBS "$GC_WORK/plain" "$GC_WORK/counted")
		bench_row "metrics: $what, counted" "$(echo "$took" | cut -d ' ' -f 2)" us
		bench_row "metrics: $what, not counted / counted" \
			"$(echo "$took" | bench_ratio)" x ">=" 0.95
	done
	gc_server_stop "$GC_WORK/plain"
	gc_server_stop "$GC_WORK/counted"
	gc_server_env "$GC_WORK/server"
}
