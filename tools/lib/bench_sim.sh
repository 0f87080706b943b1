# bench_sim.sh: how long people wait over days, beside EASY backfill
#
# tools/sim replays each trace of a folder "swf" beside openb with the decision
# core, without a server.  docs/scheduling.md has the table and its meaning.

# sim_trace FILE: as installed, on the cluster that the trace was made for.
sim_trace()
{
	local file=$1 name nodes=32 easy mean p95 longest used

	name=$(basename "$file" .csv)
	[[ $name != hpc2n* ]] || nodes=30
	nice -n 5 "$GC_SOURCE/tools/sim" "$file" --nodes $nodes --values \
		--policy easy --policy installed ${quick:+--first 1000} \
		>"$GC_WORK/sim.$name.txt" 2>&1 ||
		gc_die "$(tail -n 3 "$GC_WORK/sim.$name.txt")"
	bench_keep "$GC_WORK/sim.$name.txt"
	read -r easy mean p95 longest used < <(sed 's/[a-z_0-9]*=//g' \
		"$GC_WORK/sim.$name.txt" | awk 'NR == 1 { easy = $2 }
		NR == 2 { print easy, $2, $3, $4, $6 }')
	bench_row "sim: $name, mean wait, less than by EASY" "$mean" h "<" "$easy"
	bench_row "sim: $name, 95th percentile of waits" "$p95" h
	bench_row "sim: $name, longest wait" "$longest" h
	bench_row "sim: $name, part of the GPUs used" "$used" ""
}

bench_sim()
{
	local folder=${trace:+$(dirname "$trace")/swf} file

	if [ -z "$folder" ] || [ ! -d "$folder" ]; then
		bench_row "sim: no folder swf beside openb" - ""
		return
	fi
	for file in "$folder"/*.csv; do
		sim_trace "$file"
	done
}
