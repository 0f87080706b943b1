# bench_replay.sh: a real cluster's trace, through tools/demo
#
# The whole of tools/demo --trace is timed, the build and the server's start
# included.  Meanwhile the private memory of the demo's busiest backend is
# sampled each second: it must not grow with the number of calls.

# Prints RssAnon in kB of the largest backend of the servers below a folder.
replay_memory()
{
	local pid folder most=0 memory

	for pid in $(pgrep -x postgres); do
		folder=$(readlink "/proc/$pid/cwd" 2>/dev/null) || continue
		[[ $folder = "$1"/* ]] || continue
		grep -qa 'postgres: postgres' "/proc/$pid/cmdline" 2>/dev/null || continue
		memory=$(sed -n 's/^RssAnon:[^0-9]*\([0-9]*\).*/\1/p' \
			"/proc/$pid/status" 2>/dev/null) || continue
		[ "${memory:-0}" -le "$most" ] || most=$memory
	done
	echo "$most"
}

bench_replay()
{
	local start=$SECONDS folder=$GC_WORK/r samples=$GC_WORK/replay.memory
	local demo status=0

	if [ -z "$trace" ]; then
		bench_row "replay: no trace given" - ""
		return
	fi
	mkdir "$folder"
	chmod 755 "$folder"
	TMPDIR=$folder "$here/demo" --trace "$trace" ${quick:+--jobs 1000} \
		>"$GC_WORK/replay.txt" 2>&1 &
	demo=$!
	: >"$samples"
	while kill -0 $demo 2>/dev/null; do
		replay_memory "$folder" >>"$samples"
		sleep 1
	done
	wait $demo || status=$?
	bench_keep "$GC_WORK/replay.txt"
	bench_keep "$samples"
	[ $status = 0 ] || {
		tail -n 20 "$GC_WORK/replay.txt" >&2
		bench_row "replay: tools/demo ended with status" $status "" "<" 1
	}
	bench_row "replay: all of tools/demo --trace" $((SECONDS - start)) s "<" 300
	bench_row "replay: backend's memory, end / a quarter in" "$(awk '
		$1 > 0 { a[n++] = $1 }
		END { q = a[int(n / 4)]; print q ? a[n - 1] / q : 0 }' "$samples")" \
		x "<" 1.25
}
