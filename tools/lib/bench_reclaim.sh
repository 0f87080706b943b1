# bench_reclaim.sh: a cycle that claims devices for a large gang
#
# N nodes of 8 devices are full of one-GPU jobs of a tenant over its share.
# One gang of N/10 x 8 devices of a tenant under its share waits.  One call of
# place() chooses the victims, tells them and commits.  That call is timed, in
# a session that has run a cycle of another pool before.  Each round has a
# fresh copy of the database.  A row shows how the time grows with N: a
# quotient of 2 is linear, 2.2 is n log n.

# A database of that name with so many nodes.
reclaim_prepare()
{
	bench_database "$1" -v orgs=2 -v projects=10
	bench_sql -v nodes="$2" -f "$BENCH_SQL/reclaim.sql" >"$GC_WORK/setup.log"
}

bench_reclaim()
{
	local rounds=3 nodes i

	[ -z "$quick" ] || rounds=1
	for nodes in 250 500 1000; do
		reclaim_prepare "reclaim_$nodes" "$nodes"
		: >"$GC_WORK/reclaim_$nodes.seconds"
	done
	for ((i = 0; i < rounds; i++)); do
		for nodes in 250 500 1000; do
			place_copy "reclaim_$nodes"
			gc_guard perl "$GC_SOURCE/tools/lib/bench/place.pl" reclaim \
				$((nodes / 10 * 8)) >>"$GC_WORK/reclaim_$nodes.seconds"
		done
	done
	for nodes in 250 500 1000; do
		bench_row "reclaim: call to claim committed, $nodes nodes" \
			"$(bench_median <"$GC_WORK/reclaim_$nodes.seconds")" s "<" 2
	done
	for nodes in 500 1000; do
		bench_row "reclaim: growth from $((nodes / 2)) to $nodes nodes" \
			"$(paste "$GC_WORK/reclaim_$nodes.seconds" \
				"$GC_WORK/reclaim_$((nodes / 2)).seconds" |
				bench_ratio | bench_median)" x "<" 2.5
	done
}
