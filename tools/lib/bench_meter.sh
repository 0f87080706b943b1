# bench_meter.sh: heartbeats, one a transaction and a thousand a call
#
# Both cases meter the same 10,000 live attempts.  Each client has its own
# share of them, and its elapsed grows with every call so that an attempt
# advances by 30 seconds a heartbeat on average: every heartbeat is news, and
# one in ten appends a usage row, as with agents that meter each 30 s.

METER_JOBS=10000
METER_ORGS=100
METER_BEAT=30
METER_CLIENTS=8

# The database both cases use, made once.
meter_prepare()
{
	if [ -n "${METER_READY-}" ]; then
		export PGDATABASE=meter
		return
	fi
	bench_database meter -v orgs=$METER_ORGS -v projects=10
	bench_sql -v jobs=$METER_JOBS -f "$BENCH_SQL/running.sql" >"$GC_WORK/setup.log"
	METER_READY=1
}

# The greatest elapsed so far, in seconds: where the next run goes on.
meter_reached()
{
	bench_sql -c "SELECT extract(epoch FROM max(elapsed))
		FROM $1 WHERE org BETWEEN '0' AND '9~'"
}

# One run of single heartbeats, or of bare updates; prints the rate.  COMMIT is
# on, off, slow (on, and 2 ms of waiting), or durable: on, for heartbeats, too.
# SCRIPT TABLE COMMIT CLIENTS SECONDS
meter_single()
{
	local each=$((METER_JOBS / $4)) options="-c synchronous_commit=$3" reached

	case $3 in
		slow) options=$BENCH_SLOW ;;
		durable) options='-c gpucredit.meter_durable=on' ;;
	esac
	reached=$(meter_reached "$2")
	PGOPTIONS=$options bench_pgbench \
		-f "$BENCH_SQL/$1.sql" -c "$4" -j 2 -T "$5" -D each=$each \
		-D orgs=$METER_ORGS -D elapsed="$reached" \
		-D step="$(awk "BEGIN { print $METER_BEAT / $each }")"
}

# Updates and HOT updates of the attempts so far.
meter_updates()
{
	bench_sql -F ' ' -c "SELECT pg_sleep(1.5)" -c "SELECT n_tup_upd, n_tup_hot_upd
		FROM pg_stat_user_tables WHERE relid = 'gpucredit.attempt'::regclass" | tail -n 1
}

# The share of HOT ones among the updates between two counts, in percent.
meter_hot()
{
	echo "$1 $2" | awk '{ print 100 * ($4 - $2) / ($3 - $1) }'
}

# Switches autovacuum on or off, and waits until none is at work.  While an
# ANALYZE has its snapshot, old row versions cannot be removed.  At a few
# heartbeats a second per attempt, half a page fills up in that time, and the
# next update goes to another page.
meter_autovacuum()
{
	bench_sql -c "ALTER SYSTEM SET autovacuum = $1" \
		-c "SELECT pg_reload_conf()" >"$GC_WORK/setup.log"
	while [ "$1" = off ] && [ "$(bench_sql -c "SELECT count(*)
		FROM pg_stat_activity WHERE backend_type = 'autovacuum worker'")" != 0 ]; do
		sleep 0.5
	done
}

bench_meter()
{
	local commit how rounds=9 seconds=4 i rates=$GC_WORK/meter.rates
	local before after single plain

	[ -z "$quick" ] || rounds=3 seconds=2
	meter_prepare
	before=$(meter_updates)
	for commit in on off slow; do
		: >"$rates"
		# once unmeasured: caches, plans, and room in the pages
		meter_single meter gpucredit.attempt $commit $METER_CLIENTS 2 >/dev/null
		meter_single plain bench.plain $commit $METER_CLIENTS 2 >/dev/null
		for ((i = 0; i < rounds; i++)); do
			single=$(meter_single meter gpucredit.attempt $commit \
				$METER_CLIENTS $seconds)
			plain=$(meter_single plain bench.plain $commit \
				$METER_CLIENTS $seconds)
			echo "$single $plain" >>"$rates"
		done
		cat "$rates" >>"$GC_WORK/meter.all"
		how="synchronous_commit $commit"
		[ $commit != slow ] || how="commits of 2 ms"
		bench_row "meter: heartbeats, $how" \
			"$(cut -d ' ' -f 1 "$rates" | bench_median)" /s
		bench_row "meter: bare updates, $how" \
			"$(cut -d ' ' -f 2 "$rates" | bench_median)" /s
		# the figure of a slower disk is for information
		bench_row "meter: heartbeat / bare update, $how" \
			"$(bench_ratio <"$rates" | bench_median)" x \
			$(case $commit in on) echo ">= 1.6" ;; off) echo ">= 0.6" ;; esac)
	done
	after=$(meter_updates)
	bench_row "meter: HOT among these, autovacuum at work" \
		"$(meter_hot "$before" "$after")" %
	meter_autovacuum off
	before=$(meter_updates)
	meter_single meter gpucredit.attempt off $METER_CLIENTS $seconds >/dev/null
	after=$(meter_updates)
	meter_autovacuum on
	bench_row "meter: HOT among heartbeat updates" \
		"$(meter_hot "$before" "$after")" % ">=" 100
}

# The script of CLIENTS clients with BATCHES batches of 1,000 each.  The
# arrays travel with every call as text, as from any driver; a client fetches
# its own once.  elapsed is one value for the batch.
batch_script()
{
	local batches=$1 b

	printf '%s\n' '\if :first'
	for ((b = 0; b < batches; b++)); do
		cat <<-END
			SELECT array_agg((n % :orgs)::text ORDER BY n) AS orgs$b,
			 array_agg(n ORDER BY n) AS jobs$b, array_fill(1, '{1000}') AS ones
			 FROM generate_series((:client_id * $batches + $b) * 1000 + 1,
			  (:client_id * $batches + $b + 1) * 1000) n \\gset
		END
	done
	printf '%s\n' '\set first 0' '\endif' \
		"\\set turn (:turn + 1) % $batches" '\set elapsed :elapsed + :step'
	for ((b = 0; b < batches; b++)); do
		printf '%s\n' "\\$([ $b = 0 ] || echo el)if :turn = $b"
		cat <<-END
			SELECT * FROM gpucredit.meter_batch(:orgs$b, :jobs$b, :ones,
			 array_fill(:elapsed::interval, '{1000}'));
		END
	done
	printf '%s\n' '\endif'
}

# One run of batches; prints heartbeats per second.  CLIENTS SECONDS
batch_run()
{
	local clients=$1 batches=5 reached

	reached=$(meter_reached gpucredit.attempt)
	batch_script $batches >"$GC_WORK/batch.sql"
	chmod a+r "$GC_WORK/batch.sql"
	bench_pgbench -f "$GC_WORK/batch.sql" -c "$clients" -j "$clients" -T "$2" \
		-D first=1 -D turn=0 -D orgs=$METER_ORGS -D elapsed="$reached" \
		-D step="$(awk "BEGIN { print $METER_BEAT / $batches }")" |
		awk '{ print $1 * 1000 }'
}

bench_batch()
{
	local rounds=5 seconds=4 i alone crowd one two rates=$GC_WORK/batch.rates

	[ -z "$quick" ] || rounds=3 seconds=2
	meter_prepare
	: >"$rates"
	batch_run 2 2 >/dev/null
	for ((i = 0; i < rounds; i++)); do
		alone=$(meter_single meter gpucredit.attempt durable 1 $seconds)
		one=$(batch_run 1 $seconds)
		two=$(batch_run 2 $seconds)
		crowd=$(meter_single meter gpucredit.attempt durable \
			$METER_CLIENTS $seconds)
		echo "$alone $one $two $crowd" >>"$rates"
	done
	bench_row "batch: single durable heartbeats, 1 client" \
		"$(cut -d ' ' -f 1 "$rates" | bench_median)" /s
	bench_row "batch: single durable heartbeats, 8 clients" \
		"$(cut -d ' ' -f 4 "$rates" | bench_median)" /s
	bench_row "batch: heartbeats in batches of 1,000, 1 client" \
		"$(cut -d ' ' -f 2 "$rates" | bench_median)" /s
	bench_row "batch: heartbeats in batches of 1,000, 2 clients" \
		"$(cut -d ' ' -f 3 "$rates" | bench_median)" /s ">=" 250000
	bench_row "batch: batches / single durable heartbeats, 1 client each" \
		"$(awk '{ print $2, $1 }' "$rates" | bench_ratio | bench_median)" x ">=" 20
	bench_row "batch: 2 clients with batches / 8 with single ones" \
		"$(awk '{ print $3, $4 }' "$rates" | bench_ratio | bench_median)" x
}
