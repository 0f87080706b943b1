# bench_registry.sh: the model registry beside Debian's docker-registry, and its
# queries at size
#
# Each round pushes 1 GiB of new random bytes to both registries and pulls it
# from both and from nginx, which sends a plain file; curl is the client.  A
# number above 1 means that registryd is faster.  Then files of 10 kB to 100 MB,
# by 1 to 16 clients, many files in a commit, and many repositories.

REGISTRY_PIDS=()

bench_registry()
{
	local rounds=3 mib=1024 i

	[ -z "$quick" ] || { rounds=1; mib=128; }
	gc_provision build libpq-dev libcurl4-openssl-dev libmicrohttpd-dev libssl-dev libjansson-dev \
		docker-registry nginx-light curl
	registry_start
	rm -f "$GC_WORK"/registry.*.rate
	for ((i = 1; i <= rounds; i++)); do
		registry_round $i $mib
	done
	registry_row "push 1 GiB" push docker.push 1
	registry_row "pull, docker-registry = 1" pull docker.pull 0.8
	registry_row "pull, nginx = 1" pull nginx.pull 0.5
	registry_metadata "of new bytes stored"
	registry_change $rounds
	registry_metadata "after the change"
	registry_variants
	registry_clients 10000 96 1 $rounds
	registry_clients 10000 96 16 $rounds
	registry_clients 1000000 64 16 $rounds
	[ -n "$quick" ] || registry_clients 100000000 8 8 $rounds
	registry_files
	registry_stop
	registry_lineage
	registry_search
	[ -z "$(bench_sql -c 'SELECT * FROM gpucredit_registry.verify()')" ] ||
		gc_die "the registry's verify() is not empty"
}

# A database with the registry, registryd, docker-registry and nginx.
registry_start()
{
	local store=$GC_WORK/registry

	GC_RUN_IN=$GC_SOURCE gc_guard make -s -C registry install \
		PG_CONFIG="$GC_PG_CONFIG" DESTDIR="$GC_WORK/pg" >"$GC_WORK/setup.log" 2>&1 ||
		gc_die "the build of the registry failed"
	bench_database registry -v orgs=1 -v projects=1
	bench_sql -c 'CREATE EXTENSION gpucredit_registry CASCADE' \
		-c 'CREATE ROLE registryd LOGIN IN ROLE gpucredit_registry_daemon' \
		-c "SELECT gpucredit_registry.create_model('0', '', 'm', 'm')" >"$GC_WORK/setup.log"
	REGISTRY_TOKEN=$(bench_sql -c "SELECT gpucredit_registry.issue_token('0', '')")
	REGISTRY_URL=http://127.0.0.1:$(gc_free_port)
	DOCKER_URL=http://127.0.0.1:$(gc_free_port)
	NGINX_URL=http://127.0.0.1:$(gc_free_port)
	gc_run mkdir "$store" "$store/docker" "$store/www"
	printf '%s\n' 'version: 0.1' 'log: {level: error, accesslog: {disabled: true}}' \
		"storage: {filesystem: {rootdirectory: $store/docker}}" \
		"http: {addr: '${DOCKER_URL#http://}'}" >"$store/docker.yml"
	printf '%s\n' "pid $store/nginx.pid; error_log $store/nginx.log; daemon off;" \
		'events {}' "http { access_log off; sendfile on;
			client_body_temp_path $store/n1; proxy_temp_path $store/n2;
			fastcgi_temp_path $store/n3; uwsgi_temp_path $store/n4;
			scgi_temp_path $store/n5; server { listen ${NGINX_URL#http://}; root $store/www; } }" >"$store/nginx.conf"
	registry_run registryd "$GC_SOURCE/registry/registryd" --store "$store/packs" \
		--port "${REGISTRY_URL##*:}" \
		--database "host=$PGHOST port=$PGPORT dbname=registry user=registryd"
	registry_run docker docker-registry serve "$store/docker.yml"
	registry_run nginx /usr/sbin/nginx -e "$store/nginx.log" -c "$store/nginx.conf"
	for i in "$REGISTRY_URL" "$DOCKER_URL" "$NGINX_URL"; do
		curl -s -o "$GC_WORK/setup.log" --retry 20 --retry-delay 1 --retry-connrefused "$i" ||
			gc_die "nothing answers at $i"
	done
}

# Starts a program in a process group of its own; its log has the name.
registry_run()
{
	local name=$1
	shift

	set -m
	gc_run "$@" >"$GC_WORK/$name.log" 2>&1 &
	set +m
	REGISTRY_PIDS+=($!)
	trap registry_end EXIT
}

registry_stop()
{
	local pid

	for pid in ${REGISTRY_PIDS[@]+"${REGISTRY_PIDS[@]}"}; do
		kill -TERM -- "-$pid" 2>/dev/null || true
		wait "$pid" 2>/dev/null || true
	done
	REGISTRY_PIDS=()
}

registry_end()
{
	local status=$?

	registry_stop
	set +e			# or the next line would end us without gc_cleanup
	(exit $status)
	gc_cleanup
}

# A request; its seconds go to the file of NAME.
registry_time()
{
	local name=$1
	shift

	curl -s -f -o /dev/null -w '%{time_total}\n' "$@" >>"$GC_WORK/registry.$name.rate" ||
		gc_die "a request failed: $name"
}

# Where a file is to be sent: its digest and size are announced.
registry_href()
{
	curl -s -f -H "Authorization: Bearer $REGISTRY_TOKEN" -H 'Content-Type: application/json' \
		-d "{\"operation\": \"upload\", \"objects\": [{\"oid\": \"$1\", \"size\": $2}]}" \
		"$REGISTRY_URL/0/m.git/info/lfs/objects/batch" |
		sed -n 's/.*"href": *"\([^"]*\)".*/\1/p'
}

registry_commit()
{
	curl -s -f -o "$GC_WORK/setup.log" -H "Authorization: Bearer $REGISTRY_TOKEN" \
		-H 'Content-Type: application/x-ndjson' --data-binary "{\"key\": \"header\", \"value\": {}}
{\"key\": \"lfsFile\", \"value\": {\"path\": \"w$1\", \"oid\": \"$2\"}}" \
		"$REGISTRY_URL/api/models/0/m/commit/main" || gc_die "a commit failed"
}

# One round: new bytes are pushed to both, and pulled from all three.
registry_round()
{
	local file=$GC_WORK/registry/www/f$1 digest href name turn=(registryd docker)

	gc_run sh -c 'head -c "$1" /dev/urandom >"$2"' sh $(($2 * 1048576)) "$file"
	digest=$(sha256sum "$file" | cut -d ' ' -f 1)
	sync
	[ $(($1 % 2)) = 1 ] || turn=(docker registryd)
	for name in "${turn[@]}"; do
		if [ $name = docker ]; then
			href=$(curl -s -f -X POST -D - -o /dev/null "$DOCKER_URL/v2/m/blobs/uploads/" |
				tr -d '\r' | sed -n 's/^Location: //p')
			registry_time docker.push -X PUT -T "$file" -H 'Expect:' \
				-H 'Content-Type: application/octet-stream' "$href&digest=sha256:$digest"
		else
			href=$(registry_href "$digest" $(($2 * 1048576)))
			registry_time push -T "$file" -H 'Expect:' "$href"
			registry_commit "$1" "$digest"
		fi
		sync
	done
	for name in 1 2 3; do
		registry_time pull -H "Authorization: Bearer $REGISTRY_TOKEN" \
			"$REGISTRY_URL/0/m/resolve/main/w$1"
		registry_time docker.pull "$DOCKER_URL/v2/m/blobs/sha256:$digest"
		registry_time nginx.pull "$NGINX_URL/f$1"
	done
}

# The quotient of what another took and what registryd took.
registry_row()
{
	bench_row "registry: $1" "$(paste "$GC_WORK/registry.$3.rate" "$GC_WORK/registry.$2.rate" |
		bench_ratio | bench_median)" "" ">=" "$4"
	bench_row "registry: ${1%%,*}, seconds" "$(bench_median <"$GC_WORK/registry.$2.rate")" s
}

# The last file again, with 1 % inserted at ten places.
registry_change()
{
	local file=$GC_WORK/registry/www/f$1 changed=$GC_WORK/registry/changed before after size digest

	gc_run perl -e 'my $size = -s $ARGV[0]; open(my $in, "<", $ARGV[0]) or die;
		open(my $random, "<", "/dev/urandom") or die;
		local $/ = \int($size / 10 + 1);
		while (<$in>) { read($random, my $new, int($size / 1000)); print $new, $_ }' \
		"$file" >"$changed"
	size=$(stat -c %s "$changed")
	digest=$(sha256sum "$changed" | cut -d ' ' -f 1)
	before=$(registry_packs)
	registry_time again -T "$changed" -H 'Expect:' "$(registry_href "$digest" "$size")"
	registry_commit changed "$digest"
	after=$(registry_packs)
	bench_row "registry: 1 % inserted, bytes stored / bytes new" \
		"$(echo "$((after - before)) $((size - $(stat -c %s "$file")))" | bench_ratio)" "" "<" 1.2
}

# Variants of a file of 14 MB, in each of which 200 kB are overwritten.
registry_variants()
{
	local count=100 before

	[ -z "$quick" ] || count=20
	gc_run mkfifo "$GC_WORK/registry/go"
	gc_run perl "$BENCH_SQL/registry.pl" variants "$REGISTRY_URL" "$REGISTRY_TOKEN" $count \
		14000000 200000 <"$GC_WORK/registry/go" >"$GC_WORK/registry/variants" &
	exec 7>"$GC_WORK/registry/go"
	until grep -q base "$GC_WORK/registry/variants"; do
		kill -0 $! 2>/dev/null || gc_die "the variants were not pushed"
		sleep 0.2
	done
	before=$(registry_packs)
	exec 7>&-
	wait $! || gc_die "the variants were not pushed"
	bench_row "registry: $count variants, 200 kB of 14 MB new, bytes stored / bytes new" \
		"$(echo "$(($(registry_packs) - before)) $((count * 200000))" | bench_ratio)" "" "<" 1.3
}

# Files of one size, pushed by clients side by side and pulled, each client with
# a repository of its own.
registry_clients()
{
	local size=$1 files=$2 clients=$3 rounds=$4 i name turn
	local list=$GC_WORK/registry/list what="$2 files of $(($1 / 1000)) kB, $3 clients"

	bench_sql -c "SELECT gpucredit_registry.create_model('0', '', 'r' || n, 'r' || n)
		FROM generate_series(0, $clients - 1) n" >"$GC_WORK/setup.log"
	rm -f "$GC_WORK"/registry.clients.*
	gc_run sh -c 'head -c "$1" /dev/urandom >"$2"' sh "$size" "$GC_WORK/registry/www/small"
	for ((i = 1; i <= rounds; i++)); do
		turn=(registryd docker)
		[ $((i % 2)) = 1 ] || turn=(docker registryd)
		for name in "${turn[@]}"; do
			registry_run_clients push "$name" "$clients" "$files" "$size" "$list"
			sync
		done
		cp "$list.0.registryd" "$list.0.nginx"
		for ((name = 1; name < clients; name++)); do
			cp "$list.$name.registryd" "$list.$name.nginx"
		done
		for name in "${turn[@]}" nginx; do
			registry_run_clients pull "$name" "$clients" "$files" "$size" "$list"
		done
	done
	bench_row "registry: push $what, docker-registry = 1" "$(registry_quotient push docker)" "" ">=" 1
	bench_row "registry: pull $what, docker-registry = 1" "$(registry_quotient pull docker)" "" ">=" 0.8
	bench_row "registry: pull $what, nginx = 1" "$(registry_quotient pull nginx)" ""
}

registry_run_clients()
{
	local url=$REGISTRY_URL

	[ "$2" != docker ] || url=$DOCKER_URL
	[ "$2" != nginx ] || url=$NGINX_URL
	perl "$BENCH_SQL/registry.pl" "$1" "$2" "$url" "$REGISTRY_TOKEN" "$3" "$4" "$5" "$6" \
		>>"$GC_WORK/registry.clients.$1.$2" || gc_die "clients of $2 failed"
}

registry_quotient()
{
	paste "$GC_WORK/registry.clients.$1.$2" "$GC_WORK/registry.clients.$1.registryd" |
		bench_ratio | bench_median
}

# Many small files in one commit, one file on top of them, and one file each in
# many repositories.
registry_files()
{
	local n=10000 models=2000 i

	[ -z "$quick" ] || { n=2000 models=200; }
	rm -f "$GC_WORK"/lineage.*
	bench_sql -c "SELECT gpucredit_registry.create_model('0', '', 'files', 'files')" >"$GC_WORK/setup.log"
	registry_call "$(registry_commit_of files "SELECT jsonb_agg(jsonb_build_object('path', n || '/f',
		'content', encode(n::text::bytea, 'base64'))) FROM generate_series(1, $n) n" all)" files
	for ((i = 0; i < 5; i++)); do
		registry_call "$(registry_commit_of files "SELECT '[{\"path\": \"x$i\", \"content\": \"eA==\"}]'::jsonb" "x$i")" onto
	done
	bench_row "registry: $n small files in one commit" "$(bench_median <"$GC_WORK/lineage.files")" ms "<" 5000
	bench_row "registry: one file onto $n, a new connection" "$(bench_median <"$GC_WORK/lineage.onto")" ms
	registry_call "SELECT count(gpucredit_registry.create_model('0', '', 'many' || n, 'many' || n))
		FROM generate_series(1, $models) n" models
	registry_call "SELECT count(gpucredit_registry.commit('0', m.model, 'main', '[{\"path\": \"a\", \"content\": \"eA==\"}]',
		'c' || m.name)) FROM gpucredit_registry.model m WHERE m.name LIKE 'many%'" commits
	bench_row "registry: a new repository, of $models" "$(awk -v n=$models '{ print $1 / n }' "$GC_WORK/lineage.models")" ms
	bench_row "registry: its first commit" "$(awk -v n=$models '{ print $1 / n }' "$GC_WORK/lineage.commits")" ms
}

# A statement that commits, to a repository, what a query gives.
registry_commit_of()
{
	printf "SELECT status FROM gpucredit_registry.commit('0', (SELECT model FROM gpucredit_registry.model
		WHERE name = '%s'), 'main', (%s), '%s')" "$1" "$2" "$3"
}

# What the database takes for the bytes that are stored.
registry_metadata()
{
	bench_sql -c "VACUUM gpucredit_registry.$(bench_sql -c "SELECT string_agg(relname,
		', gpucredit_registry.') FROM pg_class WHERE relkind = 'r'
		AND relnamespace = 'gpucredit_registry'::regnamespace")"
	bench_row "registry: metadata with indexes, $1" "$(bench_sql -c "
		SELECT 100.0 * sum(pg_total_relation_size(oid)) / $(registry_packs) FROM pg_class
		WHERE relkind = 'r' AND relnamespace = 'gpucredit_registry'::regnamespace")" % "<" 0.5
}

# The bytes of all packs.
registry_packs()
{
	find "$GC_WORK/registry/packs" -name '*.pack' -printf '%s\n' | awk '{ n += $1 } END { print n }'
}

# Lineage: one base with 10,000 descendants and one with 50,000, of 200,000.
registry_lineage()
{
	local i

	bench_sql -f "$BENCH_SQL/registry_lineage.sql" >"$GC_WORK/setup.log"
	rm -f "$GC_WORK"/lineage.*
	for ((i = 0; i < 5; i++)); do
		registry_call "SELECT count(*) FROM gpucredit_registry.descendants('0', bench.base(10000))" ten
		registry_call "SELECT count(*) FROM gpucredit_registry.descendants('0', bench.base(50000))" fifty
		registry_call "SELECT count(*) FROM bench.plain('0', bench.base(50000))" plain
	done
	bench_row "registry: 10,000 descendants" "$(bench_median <"$GC_WORK/lineage.ten")" ms "<" 100
	bench_row "registry: 50,000 descendants" "$(bench_median <"$GC_WORK/lineage.fifty")" ms
	bench_row "registry: 50,000 descendants, plain recursive query = 1" \
		"$(paste "$GC_WORK/lineage.fifty" "$GC_WORK/lineage.plain" | bench_ratio | bench_median)" \
		"" "<" 0.5
}

# The milliseconds of a statement.
registry_call()
{
	bench_sql -c '\timing on' -c "$1" | sed -n 's/^Time: \([0-9.]*\) ms.*/\1/p' \
		>>"$GC_WORK/lineage.$2"
}

# Search over 1,000,000 models, by words and tags that are in many of them or few.
registry_search()
{
	bench_sql -v models=$([ -z "$quick" ] && echo 1000000 || echo 100000) \
		-f "$BENCH_SQL/registry_models.sql" >"$GC_WORK/setup.log"
	bench_sql -f "$BENCH_SQL/registry_search.sql" >"$GC_WORK/search"
	bench_row "registry: search by two tags and text, 1,000,000 models, p95" \
		"$(tail -n 1 "$GC_WORK/search")" ms "<" 50
}
