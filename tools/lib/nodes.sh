# nodes.sh: nodes on this machine, with agents and real programs, for tools that
# show a cluster (tools/cluster, tools/console).
#
# After lib/server.sh.  The database is named "cluster", the GPUs are made up.

AGENTS=()

# Ends agents first: their jobs end with the cgroup, or with their keeper.
nodes_finish()
{
	local status=$1 pid

	set +e
	for pid in ${AGENTS[@]+"${AGENTS[@]}"}; do
		kill "$pid" 2>/dev/null
	done
	wait 2>/dev/null
	end_keepers
	gc_cgroup_leave
	(exit "$status")
	gc_cleanup
}

# Ends keepers that still run, after a failure, and with each its job.
end_keepers()
{
	local pid

	for pid in $(gc_run find /proc/[0-9]*/fd -lname "$GC_WORK/n*/state/run/*/lock" 2>/dev/null |
		sed 's,^/proc/,,; s,/fd/.*,,' | sort -u); do
		kill -9 "$pid" 2>/dev/null
	done
}

sql()
{
	gc_run psql -X -q -v ON_ERROR_STOP=1 -d cluster "$@"
}

# A command of ours, as a tenant: tenant ORG COMMAND...
tenant()
{
	local org=$1
	shift
	gc_run env GPUCREDIT_DATABASE="host=$PGHOST port=$PGPORT dbname=cluster user=$org" \
		GPUCREDIT_ORG="$org" XDG_STATE_HOME="$GC_WORK/state-$org" \
		TIMES="$GC_WORK/times" "$GC_SOURCE/cli/gpucredit" "$@"
}

# A node with so many GPUs of a type, and its agent.
node()
{
	local name=$1 type=$2 gpus=$3 folder=$GC_WORK/$1 i

	gc_run mkdir "$folder"
	for ((i = 0; i < gpus; i++)); do
		echo "GPU-$name-$i 16384 ok"
	done | gc_run tee "$folder/devices" >/dev/null
	gc_run tee "$folder/agent.conf" >/dev/null <<END
node = $name
database = host=$PGHOST port=$PGPORT dbname=cluster user=$GC_USER
state = $folder/state
devices = file:$folder/devices
cgroup = ${GC_CGROUP:+$GC_CGROUP/$name}
keeper = $GC_SOURCE/agent/gpucredit-keeper
steps = $GC_SOURCE/agent/steps
listen = yes
address = 127.0.0.1
heartbeat_ms = 500
meter_ms = 1000
stop_grace_ms = 3000
END
	sql -c "SELECT gpucredit.register_node('default', '$name', '$type', $gpus, 16384)" >/dev/null
	agent "$folder" &
	AGENTS+=($!)
}

# Becomes the agent, so that a signal to this process reaches it: gc_run alone
# runs it as a child of a shell.
agent()
{
	cd "$GC_WORK"
	if [ "$(id -u)" = 0 ]; then
		export HOME=$GC_WORK USER=$GC_USER LOGNAME=$GC_USER
		exec setpriv --reuid "$GC_USER" --regid "$GC_USER" --init-groups \
			"$GC_SOURCE/agent/gpucredit-agent" "$1/agent.conf" 2>"$1/agent.log"
	fi
	exec "$GC_SOURCE/agent/gpucredit-agent" "$1/agent.conf" 2>"$1/agent.log"
}

# Submits a script, which records when it began and ended.
script()
{
	gc_run tee "$GC_WORK/$1" >/dev/null
	gc_run chmod 755 "$GC_WORK/$1"
}

submit()
{
	local org=$1
	shift
	tenant "$org" submit --parsable --export=TIMES "$@"
}
