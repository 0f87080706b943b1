# bench_agent.sh: what agents cost, and how soon they act
#
# Real agents, keepers and processes on made-up GPUs, in a server of their own
# with the background worker (bench/agent.pl).  A program starts when the
# worker's cycle after reserve's commit has notified, poke has sent its datagram,
# and the agent has asked.

bench_agent()
{
	local figures=$GC_WORK/agent.figures name value unit relation goal

	gc_provision build libpq-dev libjansson-dev libcurl4-openssl-dev bubblewrap pgbouncer \
		libipc-run-perl
	make -s -C "$GC_WORK/src/agent" PG_CONFIG="$GC_PG_CONFIG"
	mkdir -p "$GC_WORK/tap"
	[ "$(id -u)" != 0 ] || chown "$GC_USER" "$GC_WORK/tap"
	BENCH_QUICK=$quick GC_PG_CONFIG=$GC_PG_CONFIG TESTDIR=$GC_WORK/tap \
		GC_AGENT_BIN=$GC_WORK/src/agent GC_RUN_IN=$GC_WORK/src \
		gc_run env -u PGHOST perl "$GC_WORK/src/tools/lib/bench/agent.pl" \
		>"$figures"
	while IFS=$'\t' read -r _ name value unit relation goal; do
		bench_row "$name" "$value" "$unit" "$relation" "$goal"
	done < <(grep '^# figure' "$figures")
}
