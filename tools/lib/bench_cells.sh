# bench_cells.sh: what a router and leases cost, what a second cell brings, how
# long a move freezes
#
# Processor time is the kernel's count for the backends that serve one client:
# one straight at the cell; or a router's and the cell's that it uses.  Both run
# the same statements in turns.

bench_cells()
{
	local server what measured

	gc_provision build "postgresql-$GC_MAJOR-plproxy"
	cp -a "/usr/lib/postgresql/$GC_MAJOR/lib/plproxy.so" \
		"$("$GC_BIN/pg_config" --pkglibdir)/"
	cp -a "/usr/share/postgresql/$GC_MAJOR/extension"/plproxy* \
		"$("$GC_BIN/pg_config" --sharedir)/extension/"
	GC_RUN_IN=$GC_SOURCE gc_guard make -s -C cells install \
		PG_CONFIG="$GC_PG_CONFIG" DESTDIR="$GC_WORK/pg" >"$GC_WORK/setup.log" 2>&1 ||
		gc_die "the build of cells failed"
	for server in cell0 cell1 router; do
		gc_server_start "$GC_WORK/$server" "shared_buffers = 128MB" \
			"max_wal_size = 4GB" "gpucredit.node_suspect = 0"
	done
	gc_guard perl "$BENCH_SQL/cells.pl" "${quick:-0}" "$GC_WORK" >"$GC_WORK/cells.rows" ||
		gc_die "the cells case failed"
	while read -r what measured; do
		case $what in
			*frozen*) bench_row "cells: ${what//_/ }" "$measured" s "<" 2 ;;
			second*) bench_row "cells: ${what//_/ }" "$measured" "" ">=" 1.9 ;;
			*topped*) bench_row "cells: ${what//_/ }" "$measured" "" "<" 1.05 ;;
			*meanwhile | *lent*) bench_row "cells: ${what//_/ }" "$measured" " " ;;
			*carried) bench_row "cells: ${what//_/ }" "$measured" /s ;;
			*ms) bench_row "cells: ${what//_/ }" "$measured" ms ;;
			*) bench_row "cells: ${what//_/ }" "$measured" "" "<" 1.35 ;;
		esac
	done <"$GC_WORK/cells.rows"
	gc_server_stop "$GC_WORK/router"
	gc_server_stop "$GC_WORK/cell0"
	gc_server_stop "$GC_WORK/cell1"
	gc_server_env "$GC_WORK/server"
}
