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
	local status=0

	if [ -z "$trace" ]; then
		bench_row "replay: no trace given" - ""
		return
	fi
	mkdir "$folder"
	chmod 755 "$folder"
	# in a process group of its own, so that Ctrl-C ends it, too
	set -m
	TMPDIR=$folder "$GC_ROOT/tools/demo" --trace "$trace" \
		${quick:+--jobs 1000} </dev/null >"$GC_WORK/replay.txt" 2>&1 &
	GC_CHILD=$!
	set +m
	: >"$samples"
	while kill -0 $GC_CHILD 2>/dev/null; do
		replay_memory "$folder" >>"$samples"
		sleep 1
	done
	wait $GC_CHILD || status=$?
	GC_CHILD=
	bench_keep "$GC_WORK/replay.txt"
	bench_keep "$samples"
	[ $status = 0 ] || {
		tail -n 20 "$GC_WORK/replay.txt" >&2
		bench_row "replay: tools/demo ended with status" $status "" "<" 1
	}
	bench_row "replay: all of tools/demo --trace" $((SECONDS - start)) s "<" 300
	bench_row "replay: backend's memory, last quarter / second" "$(
		replay_growth <"$samples")" x "<" 1.25
}

# The median of the last quarter of the samples over that of the second
# quarter.  It shows the replay itself, not the short peaks of the report's
# checks.
replay_growth()
{
	awk '$1 > 0' | awk '{ a[NR] = $1 }
		function median(from, to,   i, j, n, x, b) {
			for (i = from; i <= to; i++)
				b[++n] = a[i]
			for (i = 2; i <= n; i++)
				for (j = i; j > 1 && b[j] < b[j - 1]; j--) {
					x = b[j]; b[j] = b[j - 1]; b[j - 1] = x
				}
			return b[int((n + 1) / 2)]
		}
		END {
			q = int(NR / 4)
			print q < 1 ? "none" : median(NR - q + 1, NR) / median(q + 1, 2 * q)
		}'
}
