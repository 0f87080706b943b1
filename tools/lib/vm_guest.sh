# vm_guest.sh: what tools/vm runs in the machine, as root: bash vm_guest.sh TEST...
#
# It stands in the copy of the checkout; the packages are in the folder above.
# One test prints its TAP, several print a summary.  The last line says how it
# ended.

run_tests()
{
	case $1 in
		test/vm/*) perl_or_prove "$@" ;;
		*) run_in_cgroup "$@" ;;
	esac
}

perl_or_prove()
{
	if [ $# = 1 ]; then
		perl "$1"
	else
		prove --timer --failures "$@"
	fi
}

# As tools/test does, with the programs of the packages.  Of all cgroups only
# the root may have processes beside controllers.
run_in_cgroup()
{
	source tools/lib/server.sh
	echo $BASHPID >/sys/fs/cgroup/cgroup.procs
	echo '+cpu +memory +pids' >/sys/fs/cgroup/cgroup.subtree_control
	gc_workdir vm
	gc_cgroup_enter
	export GC_BIN TESTDIR=$GC_WORK/tap
	if [[ $1 = test/agent_root/* ]]; then
		gc_server_start "$GC_WORK/server"
		export GC_SERVER_HOST=$PGHOST GC_SERVER_PORT=$PGPORT PATH=$GC_BIN:$PATH
		mkdir "$TESTDIR"
		perl_or_prove "$@"
	else
		gc_run mkdir "$TESTDIR"
		export -f perl_or_prove
		GC_RUN_IN=$PWD gc_run bash -c 'perl_or_prove "$@"' run "$@"
	fi
}

exec >/dev/ttyS1 2>&1 </dev/null
stty -F /dev/ttyS1 raw
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C
export GC_AGENT_BIN=$PWD/agent HOME=/root
ln -sf /usr/sbin/gpucredit-agent /usr/lib/gpucredit/gpucredit-keeper /usr/lib/gpucredit/steps agent
ln -sf /usr/bin/gpucredit cli
dpkg -i ../postgresql-15-*.deb ../gpucredit-agent_*.deb ../gpucredit-client_*.deb \
	../gpucredit-slurm-commands_*.deb >/tmp/dpkg.log 2>&1 || cat /tmp/dpkg.log
(run_tests "$@")
echo "vm: exit $?"
sync
