# bench_growth.sh: what a call costs with years of history in the tables
#
# One client makes the same calls in two databases, in turns.  It does not wait
# for commits, which would hide the cost of the call.  Database "small" has 100
# accounts and 10,000 entries, "large" 100,000 accounts and 10 million entries,
# or a twentieth of these with --quick.  A round submits jobs of random accounts,
# starts them, meters each once, and settles each.  The result is the latency of
# the calls by pgbench.

GROWTH_EACH=800

bench_growth()
{
	local rounds=7 i db call log=$GC_WORK/growth started
	local orgs=1000 entries=10,000,000

	if [ -n "$quick" ]; then
		rounds=2
		orgs=50
		entries=500,000
	fi
	started=$SECONDS
	growth_checkpoints '1h'
	growth_prepare small 10 10 10 97
	growth_prepare large $orgs 100 100 970
	bench_row "growth: accounts and entries written, verified in part" \
		$((SECONDS - started)) s
	# once unmeasured: pages that no call has touched since they were written
	for ((i = 0; i <= rounds; i++)); do
		[ $i != 1 ] || rm -f "$log".*
		for db in small large; do
			growth_round $db $i
		done
	done
	growth_checkpoints '5min'
	for call in reserve meter settle; do
		bench_row "growth: $call at $entries entries" \
			"$(bench_median <"$log.$call.large")" ms
		bench_row "growth: $call, $entries / 10,000 entries" \
			"$(paste "$log.$call.large" "$log.$call.small" | bench_ratio |
				bench_median)" "" "<" 1.3
	done
	for db in small large; do
		export PGDATABASE=$db
		[ -z "$(bench_sql -c "SELECT * FROM gpucredit.verify('7')")" ] ||
			gc_die "verify() is not empty after the growth case"
	done
}

# A database: NAME ORGS PROJECTS JOBS HOLDS (the last two an organisation).
growth_prepare()
{
	local wrong

	bench_database "$1" -v orgs="$2" -v projects="$3"
	bench_sql -v orgs="$2" -v projects="$3" -v jobs="$4" -v holds="$5" \
		-f "$BENCH_SQL/growth.sql" >"$GC_WORK/setup.log"
	bench_sql -c "SELECT count(gpucredit.register_node('default', 'n' || n,
		'H100', 64, 81920)) FROM generate_series(1, $GROWTH_EACH / 64 + 1) n" \
		>"$GC_WORK/setup.log"
	wrong=$(bench_sql -c "SELECT * FROM gpucredit.verify('7') LIMIT 3")
	[ -z "$wrong" ] || gc_die "the history that was written is not right: $wrong"
}

# The distance of checkpoints.  After a checkpoint, each page's first change
# writes the whole page to the log, which is much for calls in many
# organisations.
growth_checkpoints()
{
	bench_sql -d postgres -c "ALTER SYSTEM SET checkpoint_timeout = '$1'" \
		-c "SELECT pg_reload_conf()" >"$GC_WORK/setup.log"
}

# One round in a database: its latencies go to files.
growth_round()
{
	local orgs projects

	export PGDATABASE=$1
	orgs=$(bench_sql -c "SELECT count(*) FROM gpucredit.account WHERE account = ''")
	projects=$(bench_sql -c "SELECT count(*) FROM gpucredit.account
		WHERE org = '0' AND account <> ''")
	growth_call reserve $(($2 * GROWTH_EACH)) "$orgs" "$projects"
	bench_sql -c "CALL bench.place_all($GROWTH_EACH)"
	bench_sql -c "TRUNCATE bench.live" -c "INSERT INTO bench.live
		SELECT row_number() OVER (ORDER BY random()), org, job
		FROM gpucredit.attempt WHERE ended_at IS NULL"
	growth_call meter 0 "$orgs" "$projects"
	growth_call settle 0 "$orgs" "$projects"
}

# One call, so many times; its mean latency in ms.
growth_call()
{
	PGOPTIONS='-c synchronous_commit=off' bench_pgbench -r \
		-f "$BENCH_SQL/growth_$1.sql" -c 1 -t $GROWTH_EACH -D n="$2" \
		-D orgs="$3" -D projects="$4" >"$GC_WORK/rate"
	awk -v call="gpucredit.$1(" 'index($0, call) && $1 ~ /^[0-9.]+$/ {
		print $1 }' "$GC_WORK/pgbench.out" >>"$GC_WORK/growth.$1.$PGDATABASE"
}
