# cluster.sh: a Slurm cluster with a gpucredit database, below $GC_WORK
#
# For the demo and the tests, which run as root:
#
#   slurm_database [LINE...]  a server with database "slurm", three tenants, a foreign pool
#   slurm_cluster [LINE...]   munged, slurmctld, nodes n1 and n2, agents, bridge
#   slurm_start NAME, slurm_kill NAME     one of them: ctld, n1, agent-n1, bridge
#                             or server, the database's; killed by SIGKILL
#   slurm_cloud               another controller, of nodes that never start;
#   slurm_cloud_empty         without its jobs
#   slurm_end, slurm_stop STATUS  ends them; and what gc_cleanup ends
#   submit ACCOUNT SCRIPT ... sbatch; prints the job's number
#   wait_for JOB STATE, wait_over JOB, is_held JOB, wait_settled
#   bills, check_books        compare bills with what the nodes saw; verify()
#   slurm_skew NODE SECONDS   another clock for an agent, from its next start
#   slurm_time_asks           each question at sbatch: its us go to $SLURM_DIR/asked
#
# Each GPU costs 36 credits an hour, so 0.01 a second.

sql()
{
	gc_run psql -X -q -A -t -v ON_ERROR_STOP=1 -d slurm "$@"
}

slurm_server()
{
	gc_server_start "$SLURM_SERVER" \
		"shared_preload_libraries = 'gpucredit'" \
		"gpucredit.database = 'slurm'" "fsync = off" \
		"gpucredit.exhaust_grace = '5s'" "gpucredit.hold_window_min = '10s'" "gpucredit.hold_least = '10s'" "gpucredit.usage_interval = '1s'" "$@"
}

slurm_database()
{
	SLURM_SERVER=${SLURM_SERVER:-$GC_WORK/server}
	slurm_server "$@"
	gc_run createdb slurm
	sql >/dev/null <<END
CREATE EXTENSION gpucredit;
CREATE ROLE bridge LOGIN IN ROLE gpucredit_app, gpucredit_operator, gpucredit_auditor;
CREATE ROLE node LOGIN IN ROLE gpucredit_agent;
SELECT gpucredit.create_pool('slurm', '{"placed_by": "foreign"}'),
	gpucredit.set_price('h100', 36),
	gpucredit.register_node('slurm', 'n1', 'h100', 2, 81559),
	gpucredit.register_node('slurm', 'n2', 'h100', 2, 81559),
	gpucredit.create_account('acme'), gpucredit.create_account('beta'),
	gpucredit.create_account('poor'), gpucredit.issue('acme', '', 'first', 1000),
	gpucredit.set_budget('beta', '', 0.25);
END
}

slurm_config()
{
	local n1 n2 ctld
	ctld=$(gc_free_port) n1=$(gc_free_port) n2=$(gc_free_port)

	cat >"$SLURM_DIR/slurm.conf" <<END
ClusterName=demo
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort=$ctld
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$SLURM_DIR/munge.socket,cred_expire=5
StateSaveLocation=$SLURM_DIR/ctld
SlurmdSpoolDir=$SLURM_DIR/%n
SlurmctldPidFile=$SLURM_DIR/ctld.pid
SlurmdPidFile=$SLURM_DIR/%n.pid
SlurmctldLogFile=$SLURM_DIR/ctld.log
SlurmdLogFile=$SLURM_DIR/%n.log
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=sched_interval=1,sched_min_interval=100000
GresTypes=gpu
ReturnToService=2
JobSubmitPlugins=lua
Prolog=$SLURM_DIR/prolog
Epilog=$SLURM_DIR/epilog
PrologFlags=Alloc
JobCompType=jobcomp/script
JobCompLoc=$SLURM_DIR/record
PrologSlurmctld=$SLURM_DIR/record
MinJobAge=300
KillWait=2
BatchStartTimeout=4
SwitchType=switch/none
MpiDefault=none
NodeName=n1 NodeAddr=127.0.0.1 NodeHostname=localhost Port=$n1 CPUs=16 RealMemory=1000 Gres=gpu:h100:2
NodeName=n2 NodeAddr=127.0.0.1 NodeHostname=localhost Port=$n2 CPUs=16 RealMemory=1000 Gres=gpu:h100:2
PartitionName=main Nodes=ALL Default=YES State=UP MaxTime=INFINITE
END
	for node in n1 n2; do
		echo "NodeName=$node Name=gpu Type=h100 File=$SLURM_DIR/dev/$node-[0-1]"
		for gpu in 0 1; do
			mknod "$SLURM_DIR/dev/$node-$gpu" c 1 3
		done
	done >"$SLURM_DIR/gres.conf"
	# later versions want cgroups, or to hear that there are none
	[[ $(slurmd -V) =~ \ 2[0-2]\. ]] ||
		echo CgroupPlugin=disabled >"$SLURM_DIR/cgroup.conf"
	for script in prolog epilog; do
		cat >"$SLURM_DIR/$script" <<END
#!/bin/sh
skew=$SLURM_DIR/skew-\$SLURMD_NODENAME
[ ! -e "\$skew" ] || . "\$skew"
export GPUCREDIT_AGENT=$GC_SOURCE/agent/gpucredit-agent
export GPUCREDIT_AGENT_CONFIG=$SLURM_DIR/agent-\$SLURMD_NODENAME.conf
export PATH=/usr/bin:/bin
exec $GC_SOURCE/bridge/slurm/$script
END
		chmod 755 "$SLURM_DIR/$script"
	done
	cat >"$SLURM_DIR/record" <<END
#!/bin/sh
export GPUCREDIT_RECORDS=$SLURM_DIR/records SLURM_CONF=$SLURM_CONF
exec $GC_SOURCE/bridge/slurm/record
END
	chmod 755 "$SLURM_DIR/record"
	sed "s#/run/gpucredit/slurm.socket#$SLURM_DIR/bridge.socket#" \
		"$GC_SOURCE/bridge/slurm/job_submit.lua" >"$SLURM_DIR/job_submit.lua"
	cat >"$SLURM_DIR/bridge.conf" <<END
database = host=$PGHOST port=$PGPORT dbname=slurm user=bridge
socket = $SLURM_DIR/bridge.socket
accounts = $SLURM_DIR/accounts
hold_window = 10 s
refuse = budget_exceeded
records = $SLURM_DIR/records
interval_ms = 500
END
	printf '%s %s\n' acme acme beta beta poor poor >"$SLURM_DIR/accounts"
}

# An agent for each node: its GPUs are lines of a file.
slurm_agent_config()
{
	local node=$1

	printf 'GPU-%s-%s 81559 ok\n' "$node" 0 "$node" 1 >"$SLURM_DIR/devices-$node"
	cat >"$SLURM_DIR/agent-$node.conf" <<END
node = $node
database = host=$PGHOST port=$PGPORT dbname=slurm user=node
state = $SLURM_DIR/agent-$node
devices = file:$SLURM_DIR/devices-$node
keeper = $GC_SOURCE/agent/gpucredit-keeper
foreign_stop = $GC_SOURCE/bridge/slurm/stop
heartbeat_ms = 500
meter_ms = 500
END
}

slurm_start()
{
	case $1 in
		ctld) slurmctld ;;
		n?) slurmd -N "$1" ;;
		server) slurm_server ;;
		agent-*)
			(
				[ ! -e "$SLURM_DIR/skew-${1#agent-}" ] ||
					. "$SLURM_DIR/skew-${1#agent-}"
				export GPUCREDIT_AGENT=$GC_SOURCE/agent/gpucredit-agent
				export GPUCREDIT_AGENT_CONFIG=$SLURM_DIR/$1.conf
				exec "$GPUCREDIT_AGENT" "$GPUCREDIT_AGENT_CONFIG" \
					2>>"$SLURM_DIR/$1.log"
			) &
			echo $! >"$SLURM_DIR/$1.pid"
			;;
		bridge)
			"$GC_SOURCE/bridge/gpucredit-bridge" slurm "$SLURM_DIR/bridge.conf" \
				2>>"$SLURM_DIR/bridge.log" &
			echo $! >"$SLURM_DIR/bridge.pid"
			;;
	esac
}

slurm_skew()
{
	local library

	library=$(dpkg -L libfaketime | grep '/libfaketime\.so\.1$')
	printf 'export %s\n' "LD_PRELOAD=$library" "FAKETIME=$2" \
		FAKETIME_DONT_FAKE_MONOTONIC=1 >"$SLURM_DIR/skew-$1"
}

slurm_time_asks()
{
	sed -i -e 's/^local function ask(/local function untimed(/' \
		-e "/^local function submit/i\\
local function ask(question)\\
	local time = require 'posix.time'\\
	local from = time.clock_gettime(time.CLOCK_MONOTONIC)\\
	local answer = untimed(question)\\
	local to = time.clock_gettime(time.CLOCK_MONOTONIC)\\
	local file = io.open('$SLURM_DIR/asked', 'a')\\
	file:write(string.format('%.0f\\\\n', (to.tv_sec - from.tv_sec) * 1e6 +\\
		(to.tv_nsec - from.tv_nsec) / 1e3))\\
	file:close()\\
	return answer\\
end\\
" "$SLURM_DIR/job_submit.lua"
	# slurmctld reads a script again that is newer than its last look
	touch -d '5 seconds' "$SLURM_DIR/job_submit.lua"
}

# A process whose parent does not wait for it stays as a zombie.
wait_for_end()
{
	while [ -d "/proc/$1" ] &&
		! grep -q '^State:.*Z' "/proc/$1/status" 2>/dev/null; do
		sleep 0.05
	done
}

# A postmaster that is killed leaves its processes, and a file that says it
# lives.
slurm_kill()
{
	local pidfile=$SLURM_DIR/$1.pid pids pid

	[ "$1" != server ] || pidfile=$SLURM_SERVER/data/postmaster.pid
	pids=$(head -n 1 "$pidfile")
	[ "$1" != server ] || pids="$pids $(pgrep -P "$pids" | tr '\n' ' ')"
	kill -KILL $pids 2>/dev/null
	for pid in $pids; do
		wait_for_end "$pid"
	done
	wait $pids 2>/dev/null
	rm -f "$pidfile"
	[ "$1" != server ] || rm -f "$SLURM_SERVER"/socket/.s.PGSQL.*
}

slurm_cluster()
{
	SLURM_DIR=$GC_WORK/slurm
	SLURM_MUNGED=
	mkdir "$SLURM_DIR" "$SLURM_DIR/dev" "$SLURM_DIR/ctld"
	export SLURM_DIR SLURM_CONF=$SLURM_DIR/slurm.conf
	slurm_config
	[ $# = 0 ] || printf '%s\n' "$@" >>"$SLURM_CONF"
	dd if=/dev/urandom of="$SLURM_DIR/munge.key" bs=128 count=1 2>/dev/null
	chmod 600 "$SLURM_DIR/munge.key"
	munged --force --foreground --key-file="$SLURM_DIR/munge.key" \
		--socket="$SLURM_DIR/munge.socket" --pid-file="$SLURM_DIR/munged.pid" \
		--log-file="$SLURM_DIR/munged.log" --seed-file="$SLURM_DIR/munge.seed" \
		2>/dev/null &
	SLURM_MUNGED=$!
	until [ -S "$SLURM_DIR/munge.socket" ]; do sleep 0.1; done
	slurm_agent_config n1
	slurm_agent_config n2
	slurm_start agent-n1
	slurm_start agent-n2
	slurm_start bridge
	until [ -S "$SLURM_DIR/bridge.socket" ]; do sleep 0.1; done
	slurmctld -i
	slurm_start n1
	slurm_start n2
	wait_until nodes_idle
}

# A controller that allocates at once nodes which never start, and the pool
# "default": what sbatch asks for can be read from an allocation.
# Commands find it by SLURM_CONF=$SLURM_CLOUD.
slurm_cloud()
{
	local dir=$SLURM_DIR/cloud gpu

	SLURM_CLOUD=$dir/slurm.conf
	mkdir "$dir" "$dir/state"
	cat >"$SLURM_CLOUD" <<END
ClusterName=cloud
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort=$(gc_free_port)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$SLURM_DIR/munge.socket
StateSaveLocation=$dir/state
SlurmctldPidFile=$SLURM_DIR/cloud.pid
SlurmctldLogFile=$SLURM_DIR/cloud.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=1
GresTypes=gpu
SwitchType=switch/none
MpiDefault=none
ResumeProgram=/bin/true
SuspendProgram=/bin/true
SuspendTime=60000
ResumeTimeout=60000
MessageTimeout=60
SchedulerParameters=defer,sched_interval=1,default_queue_depth=1000,bf_interval=1
NodeName=c[1-500] State=CLOUD CPUs=256 RealMemory=10000000 Gres=gpu:a100:8 Feature=a100,a100-80,nvme
PartitionName=main Nodes=ALL Default=YES State=UP MaxTime=INFINITE
PartitionName=gpu Nodes=ALL State=UP MaxTime=INFINITE
END
	for gpu in 0 1 2 3 4 5 6 7; do
		mknod "$dir/gpu$gpu" c 1 3
	done
	echo "Name=gpu Type=a100 File=$dir/gpu[0-7]" >"$dir/gres.conf"
	SLURM_CONF=$SLURM_CLOUD slurmctld -i
	sql >/dev/null <<END
SELECT gpucredit.create_pool('default', '{"placed_by": "foreign"}'),
	gpucredit.create_pool('gpu', '{"placed_by": "foreign"}'),
	gpucredit.set_price('a100', 1), gpucredit.create_account('cloud'),
	gpucredit.create_account('cloud', 'ml-lab'),
	gpucredit.issue('cloud', '', 'first', 1000000000);
SELECT gpucredit.register_node(pool, node || i, 'a100', 8, 81559,
		labels => '{"a100-80": true, "nvme": true}')
	FROM generate_series(1, 8) i, (VALUES ('default', 'c'), ('gpu', 'gpu')) v (pool, node);
SELECT gpucredit.set_tier(tier, rank, preemptible, can_preempt, grace, min_run, '1000 days')
	FROM gpucredit.tier WHERE tier = 'standard_training';
END
}

# The same without jobs.
slurm_cloud_empty()
{
	local pid

	pid=$(cat "$SLURM_DIR/cloud.pid")
	kill "$pid"
	wait_for_end "$pid"
	SLURM_CONF=$SLURM_CLOUD slurmctld -c -i
}

slurm_end()
{
	local file pids=

	[ -z "${SLURM_DIR:-}" ] || timeout 10 scancel --state=RUNNING 2>/dev/null
	for file in "${SLURM_DIR:-/nowhere}"/{n1,n2,ctld,cloud,bridge,agent-n1,agent-n2}.pid; do
		[ ! -s "$file" ] || pids="$pids $(cat "$file")"
	done
	kill $pids 2>/dev/null
	# a slurmd whose job is just starting does not heed it
	for file in $(seq 50); do
		kill -0 $pids 2>/dev/null || break
		sleep 0.1
	done
	kill -KILL $pids 2>/dev/null
	[ -z "${SLURM_MUNGED:-}" ] || kill "$SLURM_MUNGED" 2>/dev/null
	wait 2>/dev/null
}

slurm_stop()
{
	set +e
	slurm_end
	(exit "$1")
	gc_cleanup
}

submit()
{
	local account=$1 script=$2
	shift 2
	sbatch --parsable --account="$account" --output="$SLURM_DIR/%A_%a.out" \
		--chdir=/ "$@" "$SLURM_DIR/$script.sh"
}

state_of()
{
	scontrol show job --oneliner "$1" 2>/dev/null |
		sed -n '1s/.* JobState=\([A-Z_]*\).*/\1/p'
}

wait_until()
{
	local tries

	for tries in $(seq 600); do
		! "$@" || return 0
		sleep 0.2
	done
	tail -n 20 "$SLURM_DIR"/{bridge,ctld,n1}.log "$SLURM_DIR"/agent-n?.log >&2
	squeue >&2
	gc_die "waited too long: $*"
}

nodes_idle() { [ "$(sinfo -h -N -t idle -o %N 2>/dev/null | wc -l)" = 2 ]; }
has_state() { [ "$(state_of "$1")" = "$2" ]; }
is_over() { [[ "$(state_of "$1")" =~ COMPLETED|FAILED|CANCELLED|TIMEOUT ]]; }
is_held() { scontrol show job --oneliner "$1" | grep -q 'Reason=JobHeld'; }
no_open_job()
{
	[ "$(sql -c 'SELECT count(*) FROM gpucredit.job WHERE ended_at IS NULL')" = 0 ]
}
wait_for() { wait_until has_state "$1" "$2"; }
wait_over() { wait_until is_over "$1"; }
wait_settled() { wait_until no_open_job; }

# What the nodes saw: a line "NAME SECONDS" of each run, the longest of a gang.
# What slurmctld forgot before it told the name is called by its folder.
run_times()
{
	perl -e '
		my %seen;
		foreach my $dir (glob "$ENV{SLURM_DIR}/agent-n?/foreign/*")
		{
			my $run = -e "$dir/name" ? slurp("$dir/name") : $dir;
			my %at = map { $_ => (split " ", slurp("$dir/$_"))[1] } qw(begin end);
			my $s = ($at{end} - $at{begin}) / 1e9;
			$seen{$run} = $s if !defined $seen{$run} || $seen{$run} < $s;
		}
		printf "%s %.6f\n", $_, $seen{$_} foreach sort keys %seen;
		sub slurp { local (@ARGV, $/) = (shift); my $t = <>; chomp $t; return $t }'
}

# Each bill against that, with what no credit covered; fails where one is more
# than a second off.
bills()
{
	run_times >"$GC_WORK/seen"
	sql -c "SELECT j.spec ->> 'foreign', j.org, a.gpus,
		sum(a.billed::numeric + coalesce(a.uncollected::numeric, 0)),
		j.spec ->> 'foreign_job'
		FROM gpucredit.job j JOIN gpucredit.attempt a USING (org, job)
		GROUP BY 1, 2, 3, 5 ORDER BY min(a.started_at)" -F ' ' |
		perl -e '
			my %seen = map { split } split /\n/, do { local (@ARGV, $/) = shift; <> };
			my $wrong = 0;
			while (<STDIN>)
			{
				my ($run, $org, $gpus, $billed, $job) = split;
				my $s = delete $seen{$run} // 0;
				my $off = abs($billed / 0.01 - $s * $gpus) > ($gpus || 1);
				printf "%-8s job %-5s %d GPUs, %7.3f s seen, %9.6f billed%s\n", $org,
				  $job, $gpus, $s, $billed, $off ? "  WRONG" : "";
				$wrong += $off;
			}
			foreach my $run (sort keys %seen)
			{
				printf "%s ran %.3f s, and nobody paid\n", $run, $seen{$run};
				# slurmctld, killed as it began, ends such a run as it is back
				$wrong += $run !~ m{^/} || $seen{$run} > 5;
			}
			exit($wrong > 0);' "$GC_WORK/seen"
}

check_books()
{
	local wrong

	wrong=$(sql -c 'SELECT * FROM gpucredit.verify()')
	[ -z "$wrong" ] || gc_die "verify(): $wrong"
}
