# bench_bridge.sh: how long sbatch waits for the Slurm bridge
#
# Debian's slurmctld takes a burst of submissions, and the copy of
# job_submit.lua notes how long each question takes.  The database, slurmctld,
# the clients and a sweep that reserves and releases are on this machine.

bench_bridge()
{
	local figures=$GC_WORK/bridge.figures name value jobs=1000

	if [ "$(id -u)" != 0 ]; then
		gc_report "bridge is left out: slurmd runs jobs as their users, so it needs root"
		return 0
	fi
	[ -z "$quick" ] || jobs=200
	gc_provision build libpq-dev libjansson-dev libcurl4-openssl-dev slurmctld \
		slurmd slurm-client munge lua-posix
	make -s -C "$GC_SOURCE/agent" PG_CONFIG="$GC_PG_CONFIG"
	make -s -C "$GC_SOURCE/bridge" PG_CONFIG="$GC_PG_CONFIG"
	# a shell of its own ends the cluster, whatever happens
	(
		set +e
		# shellcheck source=../../bridge/slurm/cluster.sh
		source "$GC_SOURCE/bridge/slurm/cluster.sh"
		GC_SERVERS=()
		SLURM_SERVER=$GC_WORK/slurm-server
		trap 'slurm_end; gc_server_stop "$SLURM_SERVER"' EXIT
		slurm_database "fsync = on" && slurm_cluster && slurm_time_asks &&
			bench_burst "$jobs"
	) >"$figures" 2>"$GC_WORK/bridge.log" ||
		gc_die "the bridge case failed: $(tail -n 5 "$GC_WORK/bridge.log")"
	while read -r name value; do
		case $name in
			p99) bench_row "bridge: delay at sbatch, p99" "$value" ms "<" 20 ;;
			rate) bench_row "bridge: submissions" "$value" "/s" ;;
			*) bench_row "bridge: delay at sbatch, $name" "$value" ms ;;
		esac
	done <"$figures"
}

# So many submissions at once; prints the delays' figures.
bench_burst()
{
	local jobs=$1 began asked=$SLURM_DIR/asked

	printf '#!/bin/sh\nsleep 1\n' >"$SLURM_DIR/job.sh"
	began=$(date +%s.%N)
	seq "$jobs" | xargs -P 32 -I{} sbatch --quiet --account=acme --chdir=/ \
		--output=/dev/null --gpus-per-node=h100:1 --time=5 "$SLURM_DIR/job.sh"
	echo "rate $(awk -v a="$began" -v b="$(date +%s.%N)" -v n="$jobs" \
		'BEGIN { printf "%.0f", n / (b - a) }')"
	[ "$(wc -l <"$asked")" = "$jobs" ] || return 1
	sort -n "$asked" | awk '{ us[NR] = $1 } END {
		printf "p50 %.2f\np99 %.2f\nmost %.2f\n", us[int((NR + 1) / 2)] / 1000,
			us[int(NR * 0.99 + 0.5)] / 1000, us[NR] / 1000 }'
}
