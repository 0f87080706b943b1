# bench_evals.sh: the eval harness's calls beside bare INSERTs, and its queries
# at size
#
# A run of 50,000 cases is started; eight clients report its cases, and in
# turns insert the same rows into a bare table; so with scores of a stream.

EVALS_CLIENTS=8

bench_evals()
{
	local rounds=5 seconds=3

	[ -z "$quick" ] || { rounds=3; seconds=2; }
	evals_start
	evals_sizes
	evals_turns report 0.5 $rounds $seconds
	evals_turns observe 0.7 $rounds $seconds
	[ -z "$(bench_sql -c 'SELECT * FROM gpucredit_eval.verify()')" ] ||
		gc_die "the harness's verify() is not empty"
}

evals_start()
{
	GC_RUN_IN=$GC_SOURCE gc_guard make -s -C evals install \
		PG_CONFIG="$GC_PG_CONFIG" DESTDIR="$GC_WORK/pg" >"$GC_WORK/setup.log" 2>&1 ||
		gc_die "the build of the eval harness failed"
	bench_database evals -v orgs=1 -v projects=1
	bench_sql -c 'CREATE EXTENSION gpucredit_eval' -f "$BENCH_SQL/evals.sql" \
		>"$GC_WORK/setup.log"
}

# Milliseconds of a statement, the median of five.
evals_ms()
{
	local i

	for ((i = 0; i < 5; i++)); do
		bench_sql -c '\timing on' -c "$1" | sed -n 's/^Time: \([0-9.]*\) ms.*/\1/p'
	done | bench_median
}

evals_sizes()
{
	bench_row "evals: start_run, 50,000 cases" "$(evals_ms "SELECT gpucredit_eval.start_run('0', '',
		gen_random_uuid()::text, 'large', 'model', 'development', 5)")" ms "<" 1000
	bench_row "evals: gate of a finished run, 5,000 cases" \
		"$(evals_ms "SELECT gpucredit_eval.gate('0', 2)")" ms "<" 50
	bench_row "evals: gate of a run that is not finished, 5,000 cases" \
		"$(evals_ms "SELECT gpucredit_eval.gate('0', 3)")" ms "<" 50
}

# CALL TARGET ROUNDS SECONDS
evals_turns()
{
	local call=$1 i rates=$GC_WORK/evals.$1.rates before=0

	: >"$rates"
	for ((i = 0; i <= $3; i++)); do
		echo "$(evals_rate "$call" $before "$4") $(evals_rate "bare_$call" $before "$4")" >>"$rates"
		before=$((before + 100000))
		[ $i != 0 ] || : >"$rates"		# once unmeasured
	done
	bench_row "evals: $call, 8 clients" "$(cut -d ' ' -f 1 "$rates" | bench_median)" /s
	bench_row "evals: bare INSERTs of the same rows" "$(cut -d ' ' -f 2 "$rates" | bench_median)" /s
	bench_row "evals: $call / bare INSERT" "$(bench_ratio <"$rates" | bench_median)" x ">=" "$2"
}

# SCRIPT FIRST-ROW SECONDS
evals_rate()
{
	bench_pgbench -f "$BENCH_SQL/evals_$1.sql" -c $EVALS_CLIENTS -j 2 -T "$3" \
		-D i="$2" -D clients=$EVALS_CLIENTS
}
