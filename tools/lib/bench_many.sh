# bench_many.sh: many jobs submitted by one statement
#
# One statement submits 1,000, 10,000 or 100,000 jobs of an organisation with
# one bucket, in a fresh database, without limits and under two budgets and two
# quotas.  The results are the cost of a job, and the last cost relative to the
# first.

many_prepare()
{
	bench_database many -v orgs=1 -v projects=10
	bench_sql -c "SELECT gpucredit.set_price('A100', 2)" \
		-c "SELECT gpucredit.register_node('default', 'node', 'A100', 8, 81920)" \
		>"$GC_WORK/setup.log"
}

# A budget and a quota for the organisation and for each of its projects.
many_limit()
{
	bench_sql -c "SELECT gpucredit.set_budget('0', account, 100000000),
			gpucredit.set_quota('0', account, NULL, NULL, NULL, 100000000)
		FROM gpucredit.account" >"$GC_WORK/setup.log"
}

# HOW: how a job is submitted, in a case's name; limit or nothing.
many_run()
{
	local n most=100000 ms first=

	[ -z "$quick" ] || most=10000
	for ((n = 1000; n <= most; n *= 10)); do
		many_prepare
		[ -z "${2-}" ] || many_limit
		ms=$(bench_sql -c '\timing on' -c "SELECT count(*)
			FROM generate_series(1, $n) i, gpucredit.reserve('0', (i % 10)::text,
				'many' || i, '1xA100', '1 hour') r WHERE r.status = 'granted'" |
			awk -v n=$n '/^Time:/ { print $2 / n }')
		bench_row "many: a job of $n $1" "$ms" ms
		first=${first:-$ms}
	done
	bench_row "many: the last of these for the first, $1" \
		"$(echo "$ms $first" | bench_ratio)" x "<" 2
	[ -z "$(bench_sql -c "SELECT * FROM gpucredit.verify('0')")" ] ||
		gc_die "the books are not right"
}

bench_many()
{
	many_run "submitted by one statement"
	many_run "under budgets and quotas" limit
}
