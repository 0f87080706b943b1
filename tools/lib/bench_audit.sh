# bench_audit.sh: what the audit row costs a reserve
#
# There are two servers; the build of one writes no audit row in keyed calls.
# A session in each submits a hundred jobs, one after another, in turns.  It
# does so with durable transactions, as callers do, and without waiting for
# commits, which shows the processor's time alone.  All processes run on one
# core, because the choice of cores changes a call's time by a third.  Two
# equal servers differ by half a percent, so there are three pairs.

bench_audit()
{
	local pairs=3 silent=$GC_WORK/silent commit

	[ -z "$quick" ] || pairs=1
	mkdir "$silent"
	cc -fPIC -c -o "$silent/no_audit.o" "$BENCH_SQL/no_audit.c" ||
		gc_die "no_audit.c does not compile"
	gc_build "$silent" \
		SHLIB_LINK="-Wl,--wrap=AuditDecision $silent/no_audit.o"
	while [ $((pairs--)) != 0 ]; do
		audit_pair "$pairs"
	done
	for commit in on off; do
		bench_row "audit: reserve, synchronous_commit $commit" \
			"$(cut -d ' ' -f 2 <"$GC_WORK/audit.$commit" | bench_median)" us
		bench_row "audit: reserve, without / with its row, synchronous_commit $commit" \
			"$(bench_ratio <"$GC_WORK/audit.$commit" | bench_median)" x \
			$([ $commit = off ] || echo ">= 0.95")
	done
	gc_server_env "$GC_WORK/server"
}

# Adds to audit.on and audit.off what a call took without and with its row.
audit_pair()
{
	local rounds=200 commit core dir
	local without=$GC_WORK/without.$1 with=$GC_WORK/with.$1

	[ -z "$quick" ] || rounds=40
	gc_use_build "$GC_WORK/silent"
	calls_server "$without"
	gc_use_build "$GC_WORK"
	calls_server "$with"
	core=$(sed -n 's/^Cpus_allowed_list:[^0-9]*\([0-9]*\).*/\1/p' /proc/self/status)
	for dir in "$without" "$with"; do
		taskset -cp "$core" "$(head -n 1 "$dir/data/postmaster.pid")" >/dev/null
	done
	for commit in on off; do
		PGOPTIONS="-c synchronous_commit=$commit" gc_guard \
			taskset -c "$core" perl "$BENCH_SQL/calls.pl" submit $rounds \
			$CALLS_JOBS "$without" "$with" >>"$GC_WORK/audit.$commit"
	done
	[ "$(PGHOST=$without/socket PGPORT=$(cat "$without/port") \
		bench_sql -c "SELECT count(*) FROM gpucredit.audit
			WHERE operation = 'reserve'")" = 0 ] ||
		gc_die "the server without audit rows has some"
	gc_server_stop "$without"
	gc_server_stop "$with"
}
