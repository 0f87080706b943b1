# bench_expire.sh: the sweep that books expired credit
#
# 100,000 buckets of 100 organisations have expired.  One client calls
# expire_credits() until nothing is left: 10,000 buckets a call, each call a
# durable transaction.  Median of the rates of several sweeps.

EXPIRE_BUCKETS=100000

bench_expire()
{
	local rounds=3 i rates=$GC_WORK/expire.rates ms

	[ -z "$quick" ] || rounds=1
	bench_database expire -v orgs=100 -v projects=10
	: >"$rates"
	for ((i = 0; i < rounds; i++)); do
		bench_sql -v orgs=100 -v projects=10 -v buckets=$EXPIRE_BUCKETS \
			-f "$BENCH_SQL/expire.sql" >"$GC_WORK/setup.log"
		ms=$(gc_guard perl "$BENCH_SQL/expire.pl" $EXPIRE_BUCKETS)
		awk -v n=$EXPIRE_BUCKETS -v ms="$ms" 'BEGIN { print n / ms * 1000 }' \
			>>"$rates"
	done
	[ -z "$(bench_sql -c "SELECT * FROM gpucredit.verify('7')")" ] ||
		gc_die "verify() is not empty after the expire case"
	bench_row "expire: buckets booked by expire_credits" \
		"$(bench_median <"$rates")" /s ">=" 50000
}
