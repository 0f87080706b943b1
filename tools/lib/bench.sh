# bench.sh: what every case of tools/bench uses
#
#   bench_server                    start the server to be measured
#   bench_machine                   note what it runs on
#   bench_database NAME [PSQL ARG...]   a database with gpucredit and accounts
#   bench_sql [PSQL ARG...]         psql in that database, tuples only
#   bench_pgbench OPTION...         one pgbench run; prints its rate
#   bench_median, bench_ratio       statistics, from standard input
#   bench_row CASE MEASURED UNIT [COMPARISON TARGET]   a row of the table
#   bench_table                     print the table; false: a target missed
#
# Scripts for psql and pgbench are in tools/lib/bench.  $quick is set where runs
# are to be short.

BENCH_ROWS=()
BENCH_MISSED=0
BENCH_ABOUT=()

# Sessions whose commits take 2 ms more, as on a slower disk.
BENCH_SLOW='-c commit_delay=2000 -c commit_siblings=0'

# Durability as PostgreSQL ships it.  Nodes of a benchmark send no heartbeats,
# so node_suspect is off.
bench_server()
{
	gc_server_start "$GC_WORK/server" \
		"shared_buffers = 512MB" \
		"max_wal_size = 4GB" \
		"gpucredit.node_suspect = 0" "$@"
	BENCH_SQL=$GC_SOURCE/tools/lib/bench
}

bench_machine()
{
	local cpu

	cpu=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)
	BENCH_ABOUT+=(
		"date      $(date -u '+%Y-%m-%d %H:%M UTC')"
		"machine   $(nproc) x ${cpu:-$(uname -m)}, $(awk '/^MemTotal/ {
			printf "%.0f GiB", $2 / 1048576 }' /proc/meminfo)"
		"server    PostgreSQL $(bench_sql -d postgres -c 'SHOW server_version'), fsync $(
			bench_sql -d postgres -c 'SHOW fsync'), shared_buffers $(
			bench_sql -d postgres -c 'SHOW shared_buffers')"
		"load      $(cut -d ' ' -f 1 /proc/loadavg) before the first case")
}

# A fresh database NAME, the one to work in from here on; further arguments
# are variables of setup.sql.
bench_database()
{
	export PGDATABASE=$1
	shift
	gc_run dropdb --if-exists --force --maintenance-db postgres "$PGDATABASE" 2>/dev/null
	gc_run createdb --maintenance-db postgres "$PGDATABASE"
	bench_sql -f "$BENCH_SQL/setup.sql" "$@" >"$GC_WORK/setup.log"
}

bench_sql()
{
	gc_guard psql -X -q -A -t -v ON_ERROR_STOP=1 "$@"
}

# One run; prints transactions per second.  A failed transaction ends the
# benchmark, because a rate with errors means nothing.
bench_pgbench()
{
	gc_guard pgbench -n -M prepared "$@" >"$GC_WORK/pgbench.out" 2>&1 ||
		bench_broken
	! grep -q 'aborted' "$GC_WORK/pgbench.out" || bench_broken
	awk '/^tps = / { print $3; found = 1 } END { exit !found }' \
		"$GC_WORK/pgbench.out" || bench_broken
}

bench_broken()
{
	tail -n 20 "$GC_WORK/pgbench.out" >&2
	gc_die "pgbench failed"
}

# The median of the numbers read, one a line.
bench_median()
{
	sort -g | awk '{ a[NR] = $1 } END {
		print NR % 2 ? a[(NR + 1) / 2] : (a[NR / 2] + a[NR / 2 + 1]) / 2 }'
}

# The quotients of lines of two numbers.
bench_ratio()
{
	awk '{ printf "%.4f\n", $1 / $2 }'
}

# Records a result.  COMPARISON is >= or <, the direction that meets the
# target; without it the row is for information.
bench_row()
{
	local what=$1 measured=$2 unit=$3 comparison=${4-} target=${5-}
	local verdict=

	if [ -n "$comparison" ]; then
		verdict=met
		awk -v a="$measured" -v b="$target" -v c="$comparison" 'BEGIN {
			exit !(c == "<" ? a + 0 < b + 0 : a + 0 >= b + 0) }' || {
			verdict='NOT MET'
			BENCH_MISSED=$((BENCH_MISSED + 1))
		}
	fi
	BENCH_ROWS+=("$(awk -v what="$what" -v a="$measured" -v unit="$unit" \
		-v c="$comparison" -v b="$target" -v verdict="$verdict" '
		function short(x) {
			if (x !~ /[0-9]/)
				return x
			if (unit == "%")
				return sprintf("%.3f", x)
			return sprintf(x < 10 ? "%.2f" : x < 1000 ? "%.1f" : "%.0f", x)
		}
		BEGIN {
			printf "%-52s %9s %-6s %11s %s", what, short(a), unit,
				c == "" ? "" : c " " b, verdict
		}')")
	printf '   %s\n' "${BENCH_ROWS[-1]}" >&2
}

bench_table()
{
	{
		printf '%s\n' "${BENCH_ABOUT[@]}" ''
		printf '%-52s %9s %-6s %11s %s\n' case measured '' target ''
		printf '%s\n' "${BENCH_ROWS[@]}" ''
		if [ $BENCH_MISSED = 0 ]; then
			echo "every target met"
		else
			echo "$BENCH_MISSED missed"
		fi
	} >"$GC_WORK/results.txt"
	bench_keep "$GC_WORK/results.txt"
	echo
	cat "$GC_WORK/results.txt"
	[ $BENCH_MISSED = 0 ]
}

# Copies a file to where --output says.
bench_keep()
{
	[ -z "$output" ] || cp "$1" "$output/"
}
