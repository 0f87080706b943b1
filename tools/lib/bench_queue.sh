# bench_queue.sh: cycles over a very long queue
#
# Nodes of 8 devices are full of one-GPU jobs, and many more jobs of 100
# organisations, in 200 classes, wait; cycles that start nothing are timed.
# First 40,000 jobs wait and nodes come: 250, 500, 1,000.  Then jobs come:
# 80,000, 160,000, 320,000.  How the time grows is a row, too: a quotient of 2
# is linear, 2.2 is n log n.

QUEUE_CLASSES=200

# Nodes come until there are so many, those that wait start on them, and jobs
# come until so many wait; prints the median of cycles, in ms.  NODES JOBS
queue_cycles()
{
	bench_sql -v nodes="$1" -v jobs="$2" -v classes=$QUEUE_CLASSES \
		-f "$BENCH_SQL/queue_more.sql" >"$GC_WORK/setup.log"
	gc_guard perl "$GC_SOURCE/tools/lib/bench/place.pl" idle 8 |
		bench_median
}

bench_queue()
{
	local jobs=40000 most=320000 nodes before='' ms

	[ -z "$quick" ] || jobs=5000 most=40000
	bench_database queue -v orgs=100 -v projects=10
	for nodes in 250 500 1000; do
		ms=$(queue_cycles $nodes $jobs)
		bench_row "queue: cycle over $((jobs / 1000)),000 jobs, $nodes full nodes" "$ms" ms
		[ -z "$before" ] || bench_row "queue: growth from $((nodes / 2)) to $nodes nodes" \
			"$(echo "$ms $before" | bench_ratio)" x "<" 2.5
		before=$ms
	done
	while [ $jobs -lt $most ]; do
		jobs=$((jobs * 2))
		ms=$(queue_cycles 1000 $jobs)
		bench_row "queue: cycle over $((jobs / 1000)),000 jobs, 1000 full nodes" "$ms" ms \
			"<" 2000
		bench_row "queue: growth from $((jobs / 2000)),000 to $((jobs / 1000)),000 jobs" \
			"$(echo "$ms $before" | bench_ratio)" x "<" 2.5
		before=$ms
	done
}
