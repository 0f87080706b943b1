#!/bin/bash
# serve.sh: a server of another version, for a test of several versions at once
#
#   tools/lib/serve.sh 17         prints "port N" when it listens on 127.0.0.1,
#                                 and runs until a signal ends it
#
# It has gpucredit and gpucredit_cells.  GC_BUILT_17 names a copy of the
# checkout in the root of that version, built there before (tools/test).
set -euo pipefail
unset GC_RUN_IN			# our caller's folder
source "$(dirname "$0")/server.sh"
source "$(dirname "$0")/root.sh"

# The copy that is ours goes when nothing runs in it any more.
end()
{
	trap '' INT TERM HUP
	[ -z "$GC_CHILD" ] || kill -TERM -- "-$GC_CHILD" 2>/dev/null || true
	[ -z "$GC_CHILD" ] || wait "$GC_CHILD" 2>/dev/null || true
	GC_CHILD=
	gc_as_root rm -rf --one-file-system "$GC_COPY"
	gc_cleanup
}

major=$1
gc_workdir serve
if [ "$major" != "$GC_MAJOR" ]; then
	built=GC_BUILT_$major
	GC_COPY=${!built:-}
	if [ -z "$GC_COPY" ]; then
		gc_root_copy "$major"
		trap end EXIT
	fi
	copy=${GC_COPY#"$(gc_root_dir "$major")"}
	gc_in_root "$major" PG_MAJOR="$major" "$copy/tools/lib/serve.sh" "$major"
	exit
fi

dir=$GC_ROOT/build
if [ -d "$dir" ]; then
	gc_use_build "$dir"
else
	dir=$GC_WORK
	gc_provision build
	gc_build "$dir"
fi
GC_RUN_IN=$GC_SOURCE gc_guard make -s -C cells install PG_CONFIG="$GC_PG_CONFIG" \
	DESTDIR="$dir/pg"
gc_server_start "$GC_WORK/server" "fsync = off" "wal_level = logical" \
	"listen_addresses = '127.0.0.1'"
echo "port $PGPORT"
gc_child sleep infinity
