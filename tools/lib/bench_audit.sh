# bench_audit.sh: what the audit row costs a reserve
#
# Two servers, one of a build whose keyed calls leave no row in the trail.  A
# session in each submits a hundred jobs, one after another, in turns: as a
# caller has it, each a durable transaction, and without waiting for commits,
# where there is nothing but the processor's time.  All on one core: whether
# the kernel has a session on its client's core or on another is a third of
# such a call, and would be told for a difference between the servers.

bench_audit()
{
	local rounds=300 silent=$GC_WORK/silent commit took core dir

	[ -z "$quick" ] || rounds=40
	mkdir "$silent"
	cc -fPIC -c -o "$silent/no_audit.o" "$BENCH_SQL/no_audit.c" ||
		gc_die "no_audit.c does not compile"
	gc_build "$silent" \
		SHLIB_LINK="-Wl,--wrap=AuditDecision $silent/no_audit.o"
	gc_use_build "$silent"
	calls_server "$GC_WORK/without"
	gc_use_build "$GC_WORK"
	calls_server "$GC_WORK/with"
	core=$(sed -n 's/^Cpus_allowed_list:[^0-9]*\([0-9]*\).*/\1/p' /proc/self/status)
	for dir in "$GC_WORK/without" "$GC_WORK/with"; do
		taskset -cp "$core" "$(head -n 1 "$dir/data/postmaster.pid")" >/dev/null
	done
	for commit in on off; do
		took=$(PGOPTIONS="-c synchronous_commit=$commit" gc_guard \
			taskset -c "$core" perl "$BENCH_SQL/calls.pl" submit $rounds \
			$CALLS_JOBS "$GC_WORK/without" "$GC_WORK/with")
		bench_row "audit: reserve, synchronous_commit $commit" \
			"$(echo "$took" | cut -d ' ' -f 2)" us
		bench_row "audit: reserve, without / with its row, synchronous_commit $commit" \
			"$(echo "$took" | bench_ratio)" x $([ $commit = off ] || echo ">= 0.95")
	done
	[ "$(PGHOST=$GC_WORK/without/socket PGPORT=$(cat "$GC_WORK/without/port") \
		bench_sql -c "SELECT count(*) FROM gpucredit.audit
			WHERE operation = 'reserve'")" = 0 ] ||
		gc_die "the server without audit rows has some"
	gc_server_stop "$GC_WORK/without"
	gc_server_stop "$GC_WORK/with"
	gc_server_env "$GC_WORK/server"
}
