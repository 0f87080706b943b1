# bench_size.sh: ten times the size, with the server's defaults
#
# 200,000 accounts of 200 organisations, 5,000 nodes with 20,000 running jobs
# and 10,000 that wait.  JIT is on, as it is by default, and statistics are
# stale: those of empty tables, none at all, or (for comparison) right ones.
# Each figure is the least of some, the statements' own time.

# A database of that name; the second word says which statistics it has.
size_prepare()
{
	local waiting=10000 nodes=5000 projects=999

	[ -z "$quick" ] || { nodes=500 waiting=1000 projects=99; }
	bench_database "$1" -v orgs=200 -v projects=$projects -v analyze="$2"
	bench_sql -v nodes=$nodes -v waiting=$waiting \
		-f "$BENCH_SQL/size.sql" >"$GC_WORK/setup.log"
	[ "$2" != right ] || bench_sql -c ANALYZE
}

# The seconds of a statement that is rolled back.
size_once()
{
	bench_sql -c 'BEGIN' -c '\timing on' -c "$1" -c '\timing off' -c 'ROLLBACK' |
		awk '/^Time:/ { print $2 / 1000 }'
}

# Jobs FIRST to LAST, which each need another one moved.
size_moves()
{
	bench_sql -c "SELECT 1 / (count(*) = $2 - $1 + 1)::int
		FROM generate_series($1, $2) n, gpucredit.reserve('1', '1',
			'mover' || n, '8xH100', '4 hours', 'standard_training', 'moves',
			topology => 'node') r
		WHERE r.status = 'granted'" >"$GC_WORK/setup.log"
}

bench_size()
{
	local known nodes=1000 what target

	[ -z "$quick" ] || nodes=100
	for known in empty none right; do
		size_prepare "size_$known" $known
		bench_row "size: reclaim() of $nodes nodes at once ($known statistics)" \
			"$(size_once "SELECT gpucredit.reclaim(ARRAY(SELECT 'node-' || n
				FROM generate_series(1, $nodes) n), '2 min')")" s "<" 5
		bench_row "size: $nodes reclaim() of a node ($known statistics)" \
			"$(size_once "SELECT count(gpucredit.reclaim('node-' || n, '2 min'))
				FROM generate_series(1, $nodes) n")" s "<" 5
		while read -r target what; do
			bench_row "size: $what ($known statistics)" "$(report_seconds 3 \
				"SELECT count(*) FROM gpucredit.$what")" s "<" "$target"
		done <<'END'
5 report_html()
1 capacity_advice()
1 fair_share()
0.1 place()
0.1 balance('7','7')
END
		bench_sql -f "$BENCH_SQL/moves.sql" >"$GC_WORK/setup.log"
		size_moves 1 20
		bench_row "size: plan() with 20 moves ($known statistics)" \
			"$(size_once "SELECT 1 / (count(DISTINCT job) = 20)::int
				FROM gpucredit.plan('moves') WHERE action = 'move'")" s "<" 1
		size_moves 21 50
		bench_row "size: place() with 50 moves ($known statistics)" \
			"$(size_once "SELECT 1 / (count(DISTINCT job) = 50)::int
				FROM gpucredit.place('moves') WHERE action = 'move'")" s "<" 1
	done
}
