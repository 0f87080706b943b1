# sanitized.sh: a PostgreSQL compiled with sanitizers
#
#   source "$(dirname "$0")/lib/sanitized.sh"     # after server.sh
#   gc_sanitized_server            # compiles it; GC_PG_CONFIG is its own
#   gc_build DIR ASSERTS=1 PROFILE="$GC_SANITIZE"
#
# AddressSanitizer cannot be loaded into Debian's server, because constructors
# of its libraries run before it and abort.  So this compiles Debian's source
# package with assertions, AddressSanitizer and UBSan, and without those
# libraries.  The server marks freed memory of its contexts and buffers
# (test/sanitize/valgrind/memcheck.h).  So an access past palloc()'s memory, or
# to freed or reset memory, is reported as with malloc().
#
# Environment: GC_SANITIZED, a folder to keep the server in: compiling it takes
# longer than all that is run in it.

# Flags of all that is compiled so.  Both sanitizers end the process at a
# fault, so that pg_regress, or a test, fails.
GC_SANITIZE="-fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer"

# The tests need libxml to read pages.
GC_SANITIZED_OPTIONS="--enable-cassert --enable-debug --enable-tap-tests
	--without-readline --without-zlib --with-libxml
	--with-system-tzdata=/usr/share/zoneinfo"

# Everything that a test starts, in the order of dependence.
GC_SANITIZED_PARTS="config src/include src/makefiles src/common src/port
	src/backend src/backend/utils/mb/conversion_procs src/backend/snowball
	src/interfaces/libpq src/backend/replication/libpqwalreceiver
	src/backend/replication/pgoutput src/pl/plpgsql/src src/bin/initdb
	src/bin/pg_ctl src/bin/pg_config src/bin/psql src/bin/pg_dump
	src/bin/pg_basebackup src/bin/pgbench src/bin/pg_controldata
	src/test/perl src/test/regress src/test/isolation"

# The sanitizers' options.  AddressSanitizer's reports are files in that
# folder, UBSan's are in the server's log.  Memory that lives until its process
# ends is no leak.
gc_sanitizer_options()
{
	export ASAN_OPTIONS=detect_leaks=0:detect_stack_use_after_return=0
	ASAN_OPTIONS+=:abort_on_error=1:log_path=$1/report
	export UBSAN_OPTIONS=print_stacktrace=1:abort_on_error=1
}

# Compiles the server, unless GC_SANITIZED has it, and uses it.
gc_sanitized_server()
{
	local dir=${GC_SANITIZED:-$GC_WORK/server-source}

	gc_provision server
	mkdir -p "$dir/stubs"
	cp -r "$GC_ROOT/test/sanitize/valgrind" "$dir/stubs"
	[ "$(id -u)" != 0 ] || chown -R "$GC_USER" "$dir"
	if ! cmp -s "$dir/made" <(gc_sanitized_recipe); then
		gc_report "compiling a server with AddressSanitizer"
		gc_sanitized_source "$dir"
		gc_sanitized_make "$dir"
		gc_sanitized_recipe | gc_run tee "$dir/made" >/dev/null
	fi
	GC_TREES=$dir/postgresql
	GC_PG_CONFIG=$dir/postgresql/bin/pg_config
	export GC_PG_CONFIG
}

# The inputs of a kept server, to see whether it is current.
gc_sanitized_recipe()
{
	echo "$GC_MAJOR $GC_SANITIZE" $GC_SANITIZED_OPTIONS $GC_SANITIZED_PARTS
	cat "$GC_ROOT"/test/sanitize/valgrind/*
}

# Unpacks Debian's source package into DIR/source.  The machine's own lists
# have binary packages only, so the same mirrors are asked for sources, with
# lists in DIR.  A listed version may be gone; then an older one will do.
gc_sanitized_source()
{
	local dir=$1

	GC_RUN_IN=$dir gc_guard bash -c '
		set -euo pipefail
		mkdir -p parts lists/partial cache/archives/partial
		cat /etc/apt/sources.list.d/*.sources 2>/dev/null |
			sed "s/^Types:.*/Types: deb-src/" >parts/source.sources
		cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list 2>/dev/null |
			sed -n "s/^deb /deb-src /p" >parts/source.list || true
		apt="-q -o Dir::Etc::sourcelist=/dev/null
			-o Dir::Etc::sourceparts=$PWD/parts -o Dir::State::lists=$PWD/lists
			-o Dir::Cache=$PWD/cache"
		apt-get $apt update
		for version in $(apt-cache $apt showsrc "postgresql-$1" |
			sed -n "s/^Version: //p" | sort -u -V -r); do
			apt-get $apt source --download-only "postgresql-$1=$version" && break
		done
		rm -rf source postgresql
		mkdir source
		tar -C source --strip-components=1 -xf postgresql-"$1"_*.orig.tar.*
	' source "$GC_MAJOR" >"$dir/source.log" 2>&1 || {
		tail -n 20 "$dir/source.log" >&2
		gc_die "there is no source of postgresql-$GC_MAJOR"
	}
}

# Compiles DIR/source into DIR/postgresql.
gc_sanitized_make()
{
	local dir=$1

	ASAN_OPTIONS=detect_leaks=0 GC_RUN_IN=$dir/source gc_guard bash -c '
		set -e
		dir=$1 flags=$2
		./configure -q --prefix="$dir/postgresql" $3 \
			CFLAGS="-O1 -fno-omit-frame-pointer -pipe"
		shift 3
		make -s -C src/backend generated-headers
		for part in "$@"; do
			make -s -j "$(nproc)" -C "$part" COPT="$flags"
			make -s -C "$part" COPT="$flags" install
		done
		make -s -C src install-local
	' make "$dir" "$GC_SANITIZE -DUSE_VALGRIND -I$dir/stubs" \
		"$GC_SANITIZED_OPTIONS" $GC_SANITIZED_PARTS >"$dir/make.log" 2>&1 || {
		tail -n 20 "$dir/make.log" >&2
		gc_die "the server could not be compiled"
	}
}

# Prints the reports of FOLDER, and those in the logs that follow; fails where
# there are any.
gc_sanitizer_reports()
{
	local folder=$1 found=0
	shift

	! find "$folder" -type f -exec head -n 60 {} + | grep . || found=1
	! grep -hs -A 12 'runtime error: ' "$@" || found=1
	return $found
}

# Does the server started last, whose log this is, report the faults of
# test/sanitize/faults.c?  One ends the server for a moment, so the next may
# have to be made again.
gc_sanitized_awake()
{
	local folder=$1 log=$2 faults=$GC_WORK/faults fault said turn

	gc_run gcc $GC_SANITIZE -O0 -g -shared -fPIC -o "$faults.so" \
		-I"$("$GC_PG_CONFIG" --includedir-server)" \
		"$GC_SOURCE/test/sanitize/faults.c" || return 1
	for fault in past_the_end after_pfree overflow; do
		said=" in $fault "
		[ $fault != overflow ] || said="faults.c:.* signed integer overflow"
		for turn in $(seq 100); do
			gc_run psql -X -q -c "CREATE FUNCTION pg_temp.fault(int)
				RETURNS int LANGUAGE c AS '$faults', '$fault'" \
				-c 'SELECT pg_temp.fault(5)' >/dev/null 2>&1 || true
			! grep -qs "$said" "$folder"/* "$log" || continue 2
			sleep 0.3
		done
		echo "the sanitizers do not see $fault()"
		return 1
	done
}
