# bench_sched.sh: how well the scheduler packs and orders, on published traces
#
# Runs the decision core alone, without a server, in a build of its own.  It
# measures what of a full cluster stays unused on openb, and how long jobs wait
# on msr, which is looked for beside it. docs/scheduling.md has the tables and
# their meaning.

# sched_run NAME ARG...: the runner's output to sched.NAME.txt; false: it was
# not there to be run, or went wrong.  A missed target (1) is no error.
sched_run()
{
	local name=$1 status=0

	shift
	nice -n 5 "$GC_WORK/sched/runner" "$@" >"$GC_WORK/sched.$name.txt" 2>&1 ||
		status=$?
	bench_keep "$GC_WORK/sched.$name.txt"
	[ $status -lt 2 ] || gc_die "$(tail -n 3 "$GC_WORK/sched.$name.txt")"
}

sched_openb()
{
	local name left target

	if [ -z "$trace" ]; then
		bench_row "sched: no openb trace given" - ""
		return
	fi
	sched_run openb openb "$trace" ${quick:+2}
	while read -r name left target; do
		bench_row "sched: openb $name, unallocated" "$left" % "<" "$target"
	done < <(awk '$3 == "%" { print $1, $6, $8 }' "$GC_WORK/sched.openb.txt")
}

# Quick: the cluster of one type only.
sched_msr()
{
	local folder=${trace:+$(dirname "$trace")/msr} what figure relation target

	if [ -z "$folder" ] || [ ! -r "$folder/jobs.csv" ]; then
		bench_row "sched: no msr trace beside openb" - ""
		return
	fi
	sched_run msr msr "$folder" ${quick:+1}
	while IFS='|' read -r what figure relation target; do
		bench_row "sched: msr $what" "$figure" x "$relation" "$target"
	done < <(awk -F ' [|] ' '$1 == "target" { split($4, want, " ")
		print $2 "|" $3 "|" (want[1] == "<=" ? "<" : want[1]) "|" want[2] }' \
		"$GC_WORK/sched.msr.txt")
}

bench_sched()
{
	make -s -C "$GC_SOURCE/test/decide" BUILD="$GC_WORK/sched" \
		"$GC_WORK/sched/runner" >"$GC_WORK/sched.build.txt" 2>&1 ||
		gc_die "$(tail -n 5 "$GC_WORK/sched.build.txt")"
	sched_openb
	sched_msr
}
