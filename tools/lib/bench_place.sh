# bench_place.sh: scheduling cycles
#
# 10,000 one-GPU jobs wait for 1,213 nodes with 6,212 GPUs: those of the openb
# trace, or as many of the same shapes.  A client calls place() until nothing
# starts; each call is a durable transaction of at most 1,000 starts.  Then
# the queue is filled up to 10,000 again, and cycles that find nothing to do
# are timed.
#
# Three queues, each of jobs that accept any type:
#   one class     all ask the same, and every type has one price
#   100 classes   they differ in the memory they ask
#   surplus       as the first, but types have different prices: what a job
#                 holds too much is given back as it starts

PLACE_JOBS=10000
PLACE_GPUS=6212

# The nodes, as sn,cpu_milli,memory_mib,gpu,model.
place_nodes()
{
	if [ -n "$trace" ]; then
		cat "$trace/openb_node_list_gpu_node.csv"
		return
	fi
	echo sn,cpu_milli,memory_mib,gpu,model
	awk '{
		for (i = 0; i < $1; i++)
			printf "node-%04d,%d,%d,%d,%s\n", n++, $4, $5, $3, $2
	}' <<-'END'
		549 G2 8 96000 393216
		387 T4 2 104000 524288
		107 P100 2 16000 122880
		39 G3 8 128000 786432
		28 V100M16 4 32000 131072
		22 P100 2 64000 262144
		21 V100M32 8 96000 786432
		19 V100M16 1 8000 32768
		17 T4 4 96000 393216
		9 V100M32 4 48000 376832
		7 V100M16 8 64000 262144
		3 P100 1 8000 61440
		2 P100 2 8000 61440
		2 A10 1 128000 1048576
		1 V100M16 8 82000 344064
	END
}

# A database of that name with a full queue and an empty pool.
# NAME CLASSES SPREAD, the last by how much prices differ
place_prepare()
{
	bench_database "$1" -v orgs=100 -v projects=10
	place_nodes >"$GC_WORK/nodes.csv"
	chmod a+r "$GC_WORK/nodes.csv"
	bench_sql -v nodes="$GC_WORK/nodes.csv" -v classes="$2" -v spread="$3" \
		-v jobs=$PLACE_JOBS -f "$BENCH_SQL/queue.sql" >"$GC_WORK/setup.log"
}

# A fresh copy of that database, to work in from here on.
place_copy()
{
	gc_run dropdb --if-exists --maintenance-db postgres "$1.copy" 2>/dev/null
	gc_run createdb --maintenance-db postgres -T "$1" "$1.copy"
	export PGDATABASE=$1.copy
	bench_sql -c CHECKPOINT
}

# Fills the pool of copies of the database, each afresh; prints the rates.
place_fill()
{
	local template=$1 rounds=$2 i

	for ((i = 0; i < rounds; i++)); do
		place_copy "$template"
		gc_guard perl "$GC_SOURCE/tools/lib/bench/place.pl" fill $PLACE_GPUS
	done
}

bench_place()
{
	local rounds=3 cycles=11 name classes spread label kind

	[ -z "$quick" ] || rounds=1 cycles=5
	for kind in "place_one 1 0 one class" "place_many 100 0 100 classes" \
		"place_surplus 1 1 surplus"; do
		read -r name classes spread label <<<"$kind"
		place_prepare "$name" "$classes" "$spread"
		place_fill "$name" $rounds >"$GC_WORK/$name.rates"
		bench_row "place: durable starts, $label" \
			"$(bench_median <"$GC_WORK/$name.rates")" /s ">=" 5000
		[ "$spread" = 0 ] || continue
		bench_sql -v jobs=$PLACE_JOBS -v started=$PLACE_GPUS \
			-v classes="$classes" -f "$BENCH_SQL/refill.sql" >"$GC_WORK/setup.log"
		gc_guard perl "$GC_SOURCE/tools/lib/bench/place.pl" idle $cycles \
			>"$GC_WORK/$name.idle"
		bench_row "place: idle cycle over 10,000 blocked jobs, $label" \
			"$(bench_median <"$GC_WORK/$name.idle")" ms "<" 50
	done
}
