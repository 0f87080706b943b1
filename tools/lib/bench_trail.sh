# bench_trail.sh: verify() and sealing over years of history
#
# The "large" database of the growth case (1,000 organisations, 10 million
# entries).  verify() recomputes all of it in one session with the settings a
# server ships with.  Sealing takes what there is, call by call, as pg_cron
# would; what counts is how many rows a second of sealing.  Reading all of that
# again (verify_audit) and leaving are for information.

bench_trail()
{
	local seconds rows calls=8

	[ -z "$quick" ] || calls=2
	if bench_sql -d postgres -c "SELECT datname FROM pg_database
		WHERE datname = 'large'" | grep -q .
	then
		export PGDATABASE=large
	else
		growth_prepare large 1000 100 100 970
	fi
	bench_row "audit log: entries" \
		"$(bench_sql -c 'SELECT count(*) FROM gpucredit.entry')" ""
	seconds=$(trail_seconds "DO \$\$ BEGIN
		IF EXISTS (SELECT FROM gpucredit.verify()) THEN
			RAISE 'verify() is not empty';
		END IF; END \$\$")
	bench_row "audit log: verify() of all" "$seconds" s "<" 60

	seconds=$(trail_seconds "$(for ((i = 0; i < calls; i++)); do
		echo 'SELECT * FROM gpucredit.seal_audit();'
	done)")
	rows=$(bench_sql -c 'SELECT sum(entries + audits) FROM gpucredit.seals')
	bench_row "audit log: sealing" "$(trail_rate "$rows" "$seconds")" rows/s \
		">=" 50000
	seconds=$(trail_seconds "DO \$\$ BEGIN
		IF EXISTS (SELECT FROM gpucredit.verify_audit()) THEN
			RAISE 'verify_audit() is not empty';
		END IF; END \$\$")
	bench_row "audit log: verify_audit() of that" "$(trail_rate "$rows" "$seconds")" \
		rows/s
	seconds=$(trail_seconds "SET gpucredit.entry_retention = '40 d';
		SELECT set_config('gpucredit.clock',
			(now() + '50 days'::interval)::text, false);
		SELECT gpucredit_internal.archive('entry', 16)")
	rows=$(bench_sql -c 'SELECT sum(rows) FROM gpucredit.archive_batch')
	bench_row "audit log: entries leaving" "$(trail_rate "$rows" "$seconds")" rows/s
	[ -z "$(bench_sql -c "SELECT * FROM gpucredit.verify('7')")" ] ||
		gc_die "verify() is not empty after the audit log case"
}

# How long statements take, in one session.
trail_seconds()
{
	local started=$EPOCHREALTIME

	bench_sql -c "$1" >/dev/null
	awk -v a="$started" -v b="$EPOCHREALTIME" 'BEGIN { print b - a }'
}

trail_rate()
{
	awk -v rows="$1" -v seconds="$2" 'BEGIN { print rows / seconds }'
}
