# server.sh: packages, build and private servers, for every tool here
#
# A tool starts like this:
#
#   set -euo pipefail
#   source "$(dirname "$0")/lib/server.sh"
#   gc_workdir demo               # a private folder, gone at exit: $GC_WORK
#   gc_provision build            # Debian packages, only what is missing
#   gc_build "$GC_WORK"           # compiles a copy of the checkout
#   gc_server_start "$GC_WORK/server" "shared_buffers = 256MB"
#   gc_run psql -X -c 'SELECT 1'  # PGHOST, PGPORT, PGUSER ... are exported
#   gc_server_stop "$GC_WORK/server"      # or leave it to the exit
#
# Nothing is installed into the machine's own PostgreSQL. gc_build copies its
# files and installs into the copy, so that servers with another build of the
# extension are not disturbed.  Servers listen on a socket in their own folder,
# never on the network unless a tool asks for it.  Called by root, everything
# after gc_provision runs as the user postgres; called by anyone else, as the
# caller.
#
# Functions (details above each):
#   gc_workdir NAME                 private folder, removed at exit
#   gc_provision build|test|indent|lint|check|server [PACKAGE...]
#                                   install what is missing
#   gc_copy DIR                     a copy of the checkout
#   gc_build DIR [MAKE ARG...]      build and install a copy of the checkout
#   gc_build_kept DIR [MAKE ARG...] the same in a folder that is kept, so that
#                                   only what changed is compiled again
#   gc_use_build DIR                use what gc_build left in DIR earlier
#   gc_server_start DIR [LINE...]   initdb if new, start, export PG*
#   gc_server_env DIR               export PG* of a server started earlier
#   gc_server_stop DIR              stop and wait
#   gc_server_keep DIR              leave it running at exit (and $GC_WORK)
#   gc_cgroup_enter, gc_cgroup_leave    a cgroup of ours: $GC_CGROUP
#   gc_run COMMAND...               run as the servers' user
#   gc_guard COMMAND...             gc_run, dying with us at Ctrl-C or TERM
#   gc_child COMMAND...             the same without changing the user
#   gc_report, gc_die TEXT...
#
# Environment: PG_MAJOR (15), TMPDIR, GC_KEEP=1 keeps $GC_WORK.

GC_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
GC_MAJOR=${PG_MAJOR:-15}
GC_SYSTEM_BIN=/usr/lib/postgresql/$GC_MAJOR/bin
GC_PG_CONFIG=$GC_SYSTEM_BIN/pg_config
GC_BIN=$GC_SYSTEM_BIN
GC_TREES="/usr/lib/postgresql/$GC_MAJOR /usr/share/postgresql/$GC_MAJOR"
GC_WORK=
GC_SERVERS=()
GC_CHILD=
GC_STAY=${GC_KEEP:-}

if [ "$(id -u)" = 0 ]; then
	GC_USER=postgres
else
	GC_USER=$(id -un)
fi

# Whoever installs gpucredit may have a compiler that warns of more than ours;
# here a warning ends the build.  PGXS and our Makefiles add COPT to the flags.
export COPT=-Werror

# The servers' user must be able to read what root writes here.
umask 022

# Ignore the caller's connection settings.
unset PGHOST PGHOSTADDR PGPORT PGUSER PGDATABASE PGPASSWORD PGPASSFILE \
	PGSERVICE PGSERVICEFILE PGOPTIONS PGDATA PGSSLMODE PGAPPNAME \
	PGCLIENTENCODING PGTZ PGDATESTYLE MAKEFLAGS MFLAGS MAKELEVEL

gc_report()
{
	printf '%s\n' "== $*" >&2
}

gc_die()
{
	printf '%s\n' "${0##*/}: $*" >&2
	exit 1
}

# Runs a command as the user the servers run as, in a folder it can enter.
gc_run()
(
	cd "${GC_RUN_IN:-${GC_WORK:-/}}"
	export PATH="$GC_BIN:$PATH"
	if [ "$(id -u)" = 0 ]; then
		export HOME=${GC_WORK:-/} USER=$GC_USER LOGNAME=$GC_USER
		exec setpriv --reuid "$GC_USER" --regid "$GC_USER" --init-groups "$@"
	else
		exec "$@"
	fi
)

gc_guard()
{
	gc_child gc_run "$@"
}

# A command in a process group of its own, which gc_cleanup ends.  With a plain
# child, bash would handle a signal only after the child's end.
gc_child()
{
	local status=0

	set -m
	"$@" </dev/null &
	GC_CHILD=$!
	set +m
	wait "$GC_CHILD" || status=$?
	GC_CHILD=
	return $status
}

# Makes $GC_WORK, a folder that belongs to the servers' user.
gc_workdir()
{
	local parent=${TMPDIR:-/tmp}

	# a socket's path must stay below 108 bytes
	[ ${#parent} -le 40 ] || parent=/tmp
	GC_WORK=$(mktemp -d "$parent/gpucredit-$1.XXXXXX")
	mkdir "$GC_WORK/tmp"
	[ "$(id -u)" != 0 ] || ! id "$GC_USER" >/dev/null 2>&1 ||
		chown -R "$GC_USER" "$GC_WORK"
	chmod 755 "$GC_WORK"
	export TMPDIR=$GC_WORK/tmp
	trap gc_cleanup EXIT
	trap 'exit 130' INT
	trap 'exit 143' TERM HUP
}

# At any exit: leaves no process and no file behind.
gc_cleanup()
{
	local status=$? dir pidfile

	trap - EXIT
	trap '' INT TERM HUP
	if [ -n "$GC_CHILD" ]; then
		kill -TERM -- "-$GC_CHILD" 2>/dev/null || true
		wait "$GC_CHILD" 2>/dev/null || true
	fi
	for dir in ${GC_SERVERS[@]+"${GC_SERVERS[@]}"}; do
		gc_server_stop "$dir" || true
	done
	if [ -n "$GC_WORK" ] && [ -z "$GC_STAY" ]; then
		# servers that a test started for itself and could not stop
		find "$GC_WORK" -name postmaster.pid -type f 2>/dev/null |
			while read -r pidfile; do
				gc_run "$GC_BIN/pg_ctl" -D "${pidfile%/*}" -m immediate \
					-w -t 20 stop >/dev/null 2>&1 || true
			done
		rm -rf "$GC_WORK"
	elif [ -n "$GC_WORK" ]; then
		gc_report "kept: $GC_WORK"
	fi
	exit $status
}

# Installs the Debian packages that are missing, and those named after:
#   build   the server, what compiles the extension, Perl's database driver
#   test    build, and the test frameworks
#   indent  what tools/indent runs
#   lint    test and indent, and what tools/lint --quick runs
#   check   lint, and the slow checkers of the code
#   server  build, and what a server of our own is compiled with
gc_provision()
{
	local wanted=(postgresql-$GC_MAJOR postgresql-server-dev-$GC_MAJOR gcc
		make libc6-dev perl libdbi-perl libdbd-pg-perl)
	local frameworks=(postgresql-$GC_MAJOR-pgtap postgresql-$GC_MAJOR-cron
		libipc-run-perl libtap-parser-sourcehandler-pgtap-perl tzdata)
	local indent=(pg-bsd-indent diffutils)
	local lint=(cppcheck libpq-dev libjansson-dev)
	local missing=() package

	# test/t/055_space.pl skips where it is missing
	[ "$GC_MAJOR" != 15 ] || frameworks+=(postgresql-15-repack)
	case $1 in
		build) ;;
		test) wanted+=("${frameworks[@]}") ;;
		indent) wanted+=("${indent[@]}") ;;
		lint) wanted+=("${frameworks[@]}" "${indent[@]}" "${lint[@]}") ;;
		check)
			wanted+=("${frameworks[@]}" "${indent[@]}" "${lint[@]}" clang
				libclang-rt-dev clang-tidy valgrind)
			;;
		server) wanted+=(bzip2 libipc-run-perl libxml2-dev pkg-config tzdata) ;;
		*) gc_die "gc_provision: what is \"$1\"?" ;;
	esac
	shift
	wanted+=("$@")

	if ! command -v dpkg-query >/dev/null; then
		[ -x "$GC_PG_CONFIG" ] ||
			gc_die "not a Debian system, and no PostgreSQL $GC_MAJOR at $GC_SYSTEM_BIN"
		return 0
	fi
	for package in "${wanted[@]}"; do
		dpkg-query -W -f '${Status}\n' "$package" 2>/dev/null |
			grep -qx 'install ok installed' || missing+=("$package")
	done
	if [ ${#missing[@]} -gt 0 ]; then
		gc_install "${missing[@]}"
	fi
	if [ "$(id -u)" = 0 ] && [ -n "$GC_WORK" ]; then
		chown -R "$GC_USER" "$GC_WORK"
	fi
}

# Installs packages, without the "main" cluster that a new PostgreSQL server
# package would create and start, and without starting any service.
gc_install()
{
	local apt=(env DEBIAN_FRONTEND=noninteractive apt-get -q -y
		-o DPkg::Lock::Timeout=600)
	local conf=/etc/postgresql-common/createcluster.conf
	local policy=/usr/sbin/policy-rc.d ours=
	local log=${GC_WORK:-/tmp}/apt.log status=0

	if [ "$(id -u)" != 0 ]; then
		sudo -n true 2>/dev/null ||
			gc_die "missing packages; run: sudo apt-get install $*"
		apt=(sudo -n "${apt[@]}")
	fi
	gc_report "installing $*"
	if [ ! -e "$policy" ]; then
		ours=1
		printf '#!/bin/sh\nexit 101\n' | gc_as_root tee "$policy" >/dev/null
		gc_as_root chmod 755 "$policy"
	fi
	{
		"${apt[@]}" update || true
		if [ ! -x "$GC_SYSTEM_BIN/postgres" ]; then
			"${apt[@]}" install --no-install-recommends \
				postgresql-common || status=$?
			gc_as_root cp -p "$conf" "$conf.gpucredit" || status=$?
			printf '\ncreate_main_cluster = false\n' |
				gc_as_root tee -a "$conf" >/dev/null || status=$?
		fi
		[ $status != 0 ] || "${apt[@]}" install --no-install-recommends "$@" ||
			status=$?
		[ ! -f "$conf.gpucredit" ] || gc_as_root mv "$conf.gpucredit" "$conf"
	} >"$log" 2>&1
	[ -z "$ours" ] || gc_as_root rm -f "$policy"
	if [ $status != 0 ]; then
		tail -20 "$log" >&2
		gc_die "could not install $*"
	fi
}

gc_as_root()
{
	if [ "$(id -u)" = 0 ]; then
		"$@"
	else
		sudo -n "$@"
	fi
}

# Copies the checkout to DIR, without what was built in it.
gc_copy()
{
	mkdir -p "$1"
	tar -C "$GC_ROOT" --exclude=./.git --exclude=./.build --exclude='*.o' --exclude='*.d' \
		--exclude='*.so' --exclude='./.build-flags' \
		--exclude='./gpucredit--*.sql' --exclude='./gpucredit_report--*.sql' \
		--exclude=./results \
		--exclude=./log --exclude='./test/*/build' --exclude='./tmp_check*' -cf - . |
		tar -C "$1" --no-same-owner -xf -
	chmod -R a+rX "$1"
}

# Copies the checkout to DIR/src, compiles it there, and installs it into
# DIR/pg, a copy of PostgreSQL ($GC_TREES).  It only reads the checkout, so
# anyone who may read it can build it.
gc_build()
{
	local dir=$1
	shift

	[ -x "$GC_PG_CONFIG" ] || gc_die "no PostgreSQL: $GC_PG_CONFIG"
	gc_copy "$dir/src"
	[ "$(id -u)" != 0 ] || chown -R "$GC_USER" "$dir"

	if ! GC_RUN_IN=$dir/src gc_guard sh -c '
		set -e
		for tree in $2; do
			mkdir -p "$1/pg${tree%/*}"
			cp -a "$tree" "$1/pg${tree%/*}/"
		done
		dir=$1 pg_config=$3
		shift 3
		make -s -j "$(nproc)" PG_CONFIG="$pg_config" "$@"
		make -s PG_CONFIG="$pg_config" DESTDIR="$dir/pg" "$@" install
		' build "$dir" "$GC_TREES" "$GC_PG_CONFIG" "$@" >"$dir/build.log" 2>&1
	then
		tail -40 "$dir/build.log" >&2
		gc_die "the build failed"
	fi
	gc_use_build "$dir"
}

# As gc_build, in a folder that is kept.  Files that did not change keep their
# times there, so that make compiles only what changed; a file that is gone from
# the checkout is removed from the copy, too.
gc_build_kept()
{
	local dir=$1
	shift

	[ -x "$GC_PG_CONFIG" ] || gc_die "no PostgreSQL: $GC_PG_CONFIG"
	command -v rsync >/dev/null || gc_install rsync
	mkdir -p "$dir/src"
	rsync -rlptE --delete --exclude=/.git --exclude=/.build --exclude='*.o' \
		--exclude='*.d' --exclude='*.so' --exclude=/.build-flags \
		--exclude='/gpucredit--*.sql' --exclude='/gpucredit_report--*.sql' \
		--exclude=/results --exclude=/log --exclude='/test/*/build' \
		--exclude='/tmp_check*' --exclude=node_modules --exclude=/evals/core \
		--filter=':- .gitignore' "$GC_ROOT/" "$dir/src/"
	chmod -R a+rX "$dir"
	[ "$(id -u)" != 0 ] || chown -R "$GC_USER" "$dir"

	if ! GC_RUN_IN=$dir/src gc_guard sh -c '
		set -e
		for tree in $2; do
			mkdir -p "$1/pg${tree%/*}"
			cp -an "$tree" "$1/pg${tree%/*}/"	# packages come later
		done
		dir=$1 pg_config=$3
		shift 3
		make -s -j "$(nproc)" PG_CONFIG="$pg_config" "$@"
		make -s PG_CONFIG="$pg_config" DESTDIR="$dir/pg" "$@" install
		' build "$dir" "$GC_TREES" "$GC_PG_CONFIG" "$@" >"$dir/build.log" 2>&1
	then
		tail -40 "$dir/build.log" >&2
		gc_die "the build failed"
	fi
	gc_use_build "$dir"
}

# Uses the server and the extension that gc_build left in DIR.
gc_use_build()
{
	GC_BIN=$1/pg$("$GC_PG_CONFIG" --bindir)
	GC_SOURCE=$1/src
	[ -x "$GC_BIN/postgres" ] || gc_die "no build in $1"
	export GC_BIN GC_SOURCE
}

# Exports how to reach the server of DIR as its superuser.
gc_server_env()
{
	export PGHOST=$1/socket PGPORT PGUSER=postgres PGDATABASE=postgres
	PGPORT=$(cat "$1/port")
}

# A TCP port nobody listens on: only the socket's name needs it, unless the
# tool sets listen_addresses.
gc_free_port()
{
	local port

	while :; do
		port=$((20000 + RANDOM % 12000))
		(: <"/dev/tcp/127.0.0.1/$port") 2>/dev/null || break
	done
	echo "$port"
}

# Starts the server of DIR, initialised if it is new.  Further arguments are
# lines of postgresql.conf, of which later ones win: fsync = off for speed,
# shared_preload_libraries for a worker.
gc_server_start()
{
	local dir=$1
	shift

	if [ ! -f "$dir/data/PG_VERSION" ]; then
		mkdir -p "$dir"
		[ "$(id -u)" != 0 ] || chown "$GC_USER" "$dir"
		gc_run mkdir -p -m 700 "$dir/socket"
		gc_run "$GC_BIN/initdb" -D "$dir/data" -U postgres -A trust \
			-E UTF8 --no-locale --no-instructions >"$dir/initdb.log" 2>&1 || {
			tail -20 "$dir/initdb.log" >&2
			gc_die "initdb failed"
		}
		gc_free_port >"$dir/port"
	fi
	{
		echo "listen_addresses = ''"
		echo "port = $(cat "$dir/port")"
		echo "unix_socket_directories = '$dir/socket'"
		echo "logging_collector = off"
		echo "log_line_prefix = '%m [%p] %q%u@%d '"
		[ $# = 0 ] || printf '%s\n' "$@"
	} >"$dir/extra.conf"
	gc_run sh -c 'grep -q extra.conf "$1/data/postgresql.conf" ||
		echo "include '"'../extra.conf'"'" >>"$1/data/postgresql.conf"' sh "$dir"

	GC_SERVERS+=("$dir")
	gc_run "$GC_BIN/pg_ctl" -D "$dir/data" -l "$dir/server.log" -w -t 120 \
		start >/dev/null 2>&1 </dev/null || {
		tail -20 "$dir/server.log" >&2
		gc_die "the server did not start"
	}
	gc_server_env "$dir"
}

# Stops the server of DIR, and waits for it.
gc_server_stop()
{
	local dir=$1 other rest=()

	for other in ${GC_SERVERS[@]+"${GC_SERVERS[@]}"}; do
		[ "$other" = "$dir" ] || rest+=("$other")
	done
	GC_SERVERS=(${rest[@]+"${rest[@]}"})
	[ -f "$dir/data/postmaster.pid" ] || return 0
	gc_run "$GC_BIN/pg_ctl" -D "$dir/data" -m fast -w -t 120 stop \
		>/dev/null 2>&1 ||
		gc_run "$GC_BIN/pg_ctl" -D "$dir/data" -m immediate -w -t 30 stop \
			>/dev/null 2>&1
}

# Leaves the server of DIR, and the folder it lives in, to the user.
gc_server_keep()
{
	local dir=$1 other rest=()

	for other in ${GC_SERVERS[@]+"${GC_SERVERS[@]}"}; do
		[ "$other" = "$dir" ] || rest+=("$other")
	done
	GC_SERVERS=(${rest[@]+"${rest[@]}"})
	GC_STAY=1
}

# Enters a cgroup that belongs to the servers' user, so that agents can make
# others below it for their jobs.  Moving a process needs rights on both
# cgroups, so root moves this shell first. $GC_CGROUP is empty if the machine
# has none.
gc_cgroup_enter()
{
	local mount name=gpucredit.$$

	mount=$(findmnt -n -t cgroup2 -o TARGET | head -n 1)
	GC_CGROUP_BEFORE=$mount$(sed -n 's/^0:://p' /proc/self/cgroup)
	GC_CGROUP=${GC_CGROUP_BEFORE%/}/$name
	if [ "$(id -u)" != 0 ] || [ -z "$mount" ] ||
		! mkdir "$GC_CGROUP" "$GC_CGROUP/init" 2>/dev/null ||
		! chown -R "$GC_USER" "$GC_CGROUP" ||
		! echo $BASHPID 2>/dev/null >"$GC_CGROUP/init/cgroup.procs"; then
		gc_report "no cgroup on this machine: agents mark processes instead"
		rmdir "$GC_CGROUP/init" "$GC_CGROUP" 2>/dev/null || true
		GC_CGROUP=
	fi
	export GC_CGROUP
}

# Ends whatever is left in it.
gc_cgroup_leave()
{
	local i

	[ -n "${GC_CGROUP:-}" ] || return 0
	echo $BASHPID >"$GC_CGROUP_BEFORE/cgroup.procs"
	[ ! -e "$GC_CGROUP/cgroup.kill" ] || echo 1 >"$GC_CGROUP/cgroup.kill"
	for i in 1 2 3 4 5; do
		find "$GC_CGROUP" -depth -type d -exec rmdir {} + 2>/dev/null && break
		sleep 0.2
	done
	GC_CGROUP=
}
