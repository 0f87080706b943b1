# bench_pairs.sh: reserve and settle
#
# A pair is two transactions of one client: a reserve for a random one of 1,000
# accounts, and the settlement of a job that has been started.  The jobs to
# settle are submitted and placed beforehand, so that only the two calls are
# measured, and every settlement is a first one.
#
# A pair has two durable commits, so the table also shows what the disk takes
# for one: the time of a bare update by one client, between the runs.

PAIR_CLIENTS=8
PAIR_ORGS=100
PAIR_PROJECTS=10

bench_pairs()
{
	local each=600 rounds=5 i rates=$GC_WORK/pairs.rates jobs
	local commits=$GC_WORK/pairs.commits

	[ -z "$quick" ] || each=300 rounds=2
	jobs=$((PAIR_CLIENTS * each * rounds))
	bench_database pairs -v orgs=$PAIR_ORGS -v projects=$PAIR_PROJECTS
	bench_sql -v jobs=$jobs -f "$BENCH_SQL/running.sql" >"$GC_WORK/setup.log"
	: >"$rates"
	: >"$commits"
	for ((i = 0; i < rounds; i++)); do
		bench_pgbench -f "$BENCH_SQL/pair.sql" -c $PAIR_CLIENTS -j 2 -t $each \
			-D each=$((each * rounds)) -D n=$((each * i)) \
			-D orgs=$PAIR_ORGS -D projects=$PAIR_PROJECTS >>"$rates"
		bench_pgbench -f "$BENCH_SQL/plain.sql" -c 1 -T 2 -D each=$jobs \
			-D orgs=$PAIR_ORGS -D elapsed=$((i * 100000)) -D step=1 |
			awk '{ print 1000 / $1 }' >>"$commits"
	done
	[ "$(bench_sql -c "SELECT count(*) FROM gpucredit.attempt
		WHERE outcome = 'completed'")" = "$jobs" ] ||
		gc_die "not every pair settled a job"
	[ "$(bench_sql -c 'SELECT count(*) FROM gpucredit.job')" = $((2 * jobs)) ] ||
		gc_die "not every pair reserved"
	bench_row "pairs: reserve + settle, 8 clients, 1,000 accounts" \
		"$(bench_median <"$rates")" /s ">=" 1500
	bench_row "pairs: one commit of a bare update meanwhile" \
		"$(bench_median <"$commits")" ms
}
