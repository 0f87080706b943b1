# bench_hot.sh: many clients of one organisation
#
# 16 clients call hold() for one organisation with one bucket, each call a
# transaction.  It is compared with a bare update of one row by all clients.
# Then a commit takes 2 ms, so that the bucket's row allows one commit after
# the other.  There hold() with one row and with 16 slices take turns.

HOT_CLIENTS=16

bench_hot()
{
	local rounds=7 seconds=4 i hold=$GC_WORK/hot.hold row=$GC_WORK/hot.row
	local one=$GC_WORK/hot.one many=$GC_WORK/hot.many

	[ -z "$quick" ] || rounds=3 seconds=3
	bench_database hot -v orgs=1 -v projects=1
	bench_sql -f "$BENCH_SQL/hot_setup.sql" >"$GC_WORK/setup.log"
	: >"$hold"
	: >"$row"
	: >"$one"
	: >"$many"
	for ((i = 0; i < rounds; i++)); do
		hot_run hold $seconds >>"$hold"
		hot_run row $seconds >>"$row"
	done
	for ((i = 0; i < rounds; i++)); do
		hot_slices 1
		PGOPTIONS=$BENCH_SLOW hot_run hold $seconds >>"$one"
		hot_slices 16
		PGOPTIONS=$BENCH_SLOW hot_run hold $seconds >>"$many"
	done
	[ -z "$(bench_sql -c 'SELECT * FROM gpucredit.verify()')" ] ||
		gc_die "verify() is not empty after the hot case"
	bench_row "hot: hold, 1 bucket, 16 clients" "$(bench_median <"$hold")" /s
	bench_row "hot: bare update of 1 row, 16 clients" \
		"$(bench_median <"$row")" /s
	bench_row "hot: hold / bare update" \
		"$(paste "$hold" "$row" | bench_ratio | bench_median)" "" ">=" 0.6
	bench_row "hot: hold, commits of 2 ms, 1 slice" \
		"$(bench_median <"$one")" /s
	bench_row "hot: hold, commits of 2 ms, 16 slices" \
		"$(bench_median <"$many")" /s
	bench_row "hot: 16 slices / 1 slice, commits of 2 ms" \
		"$(paste "$many" "$one" | bench_ratio | bench_median)" "" ">=" 8
}

# One run of a script; prints its rate.  Keys are new in every run.
hot_run()
{
	bench_pgbench -f "$BENCH_SQL/hot_$1.sql" -c $HOT_CLIENTS -j 2 -T "$2" \
		-D n=0 -D run="$(date +%s)"
}

hot_slices()
{
	bench_sql -c "SELECT gpucredit.set_slices('hot', '', $1)" >"$GC_WORK/setup.log"
}
