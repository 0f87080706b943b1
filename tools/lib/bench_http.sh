# bench_http.sh: what an answer of gpucreditd takes more than the same call in SQL
#
# A tenant asks for his balance: by pgbench, as a prepared statement on a
# connection of his own, and by ab (of apache2-utils), which keeps its
# connections, at a gpucreditd beside the server. Both take turns.

bench_http()
{
	local rounds=5 n=4000 i

	[ -z "$quick" ] || { rounds=1; n=500; }
	gc_provision build apache2-utils curl libpq-dev libcurl4-openssl-dev libmicrohttpd-dev \
		libjansson-dev libcjose-dev libssl-dev libgnutls28-dev
	http_start
	rm -f "$GC_WORK"/http.*
	for ((i = 1; i <= rounds; i++)); do
		http_by_sql "$n"
		http_by_ab "$n"
	done
	kill "$HTTP_PID"
	wait "$HTTP_PID" 2>/dev/null || true
	bench_row "http: balance by SQL, median" "$(bench_median <"$GC_WORK/http.sql")" ms
	bench_row "http: balance by HTTP, median" "$(bench_median <"$GC_WORK/http.one")" ms
	bench_row "http: balance, HTTP less SQL" "$(awk -v a="$(bench_median <"$GC_WORK/http.one")" \
		-v b="$(bench_median <"$GC_WORK/http.sql")" 'BEGIN { print a - b }')" ms "<" 1
	bench_row "http: balances a second, 8 clients" "$(bench_median <"$GC_WORK/http.eight")" 1/s ">=" 2000
}

# A database with a tenant, and gpucreditd.
http_start()
{
	local port name

	for name in registry billing evals http; do
		GC_RUN_IN=$GC_SOURCE gc_guard make -s -C "$name" install PG_CONFIG="$GC_PG_CONFIG" \
			DESTDIR="$GC_WORK/pg" >"$GC_WORK/setup.log" 2>&1 || gc_die "the build of $name failed"
	done
	bench_database http -v orgs=100 -v projects=10
	bench_sql -c 'CREATE EXTENSION gpucredit_http CASCADE' \
		-c 'CREATE ROLE tenant LOGIN IN ROLE gpucredit_tenant' \
		-c "SELECT gpucredit.bind_tenant('tenant', '0', '')" >"$GC_WORK/setup.log"
	HTTP_TOKEN=$(bench_sql -c "SELECT secret FROM gpucredit_http.issue_token('tenant', 'read')")
	port=$(gc_free_port)
	HTTP_URL=http://127.0.0.1:$port
	"$GC_SOURCE/http/gpucreditd" --port "$port" \
		--database "host=$PGHOST port=$PGPORT dbname=http user=gpucredit_gateway" >"$GC_WORK/http.log" 2>&1 &
	HTTP_PID=$!
	curl -sf -o "$GC_WORK/setup.log" --retry 20 --retry-delay 1 --retry-connrefused \
		-H "Authorization: Bearer $HTTP_TOKEN" "$HTTP_URL/v1/balance" ||
		http_die "gpucreditd does not answer: $(tail -n 3 "$GC_WORK/http.log")"
}

# Ends the daemon, and then the benchmark.
http_die()
{
	kill "$HTTP_PID" || true
	gc_die "$1"
}

# The median of so many calls in SQL.
http_by_sql()
{
	echo "SELECT * FROM gpucredit.balance('0', '')" >"$GC_WORK/balance.sql"
	rm -f "$GC_WORK"/calls.*
	bench_pgbench -U tenant -t "$1" -f "$GC_WORK/balance.sql" -l --log-prefix "$GC_WORK/calls" >"$GC_WORK/setup.log"
	cat "$GC_WORK"/calls.* | awk '{ print $3 / 1000 }' | bench_median >>"$GC_WORK/http.sql"
}

# The median of so many requests of one client, and how many eight clients have
# answered in a second.
http_by_ab()
{
	http_ab 1 "$1" -e "$GC_WORK/percentiles.csv"
	awk -F , '$1 == 50 { print $2 }' "$GC_WORK/percentiles.csv" >>"$GC_WORK/http.one"
	http_ab 8 $((4 * $1))
	awk '/^Requests per second/ { print $4 }' "$GC_WORK/ab.out" >>"$GC_WORK/http.eight"
}

http_ab()
{
	local clients=$1 n=$2

	shift 2
	ab -q -k -c "$clients" -n "$n" -H "Authorization: Bearer $HTTP_TOKEN" "$@" \
		"$HTTP_URL/v1/balance" >"$GC_WORK/ab.out" 2>&1 || http_die "ab failed"
	! grep -q '^Non-2xx' "$GC_WORK/ab.out" || http_die "gpucreditd refused requests"
}
