# GpuCreditAgent.pm: what the tests of gpucredit-agent share
#
# Agents, keepers and processes are real; a node's GPUs are lines of a file.
# Each GPU has a device file, which every program of a test locks.
#
#   my $cluster = cluster('agent');             # a server, an account, credit
#   my $n1 = add_node($cluster, 'n1', 4);       # registered; its agent runs
#   my $job = submit($cluster, '1xT4', 'sleep 1');
#   wait_for_state($cluster, $job, 'completed');
#   kill_agent($n1); start_agent($n1);
#   end_cluster($cluster);                      # nothing is left, books hold
package GpuCreditAgent;

use strict;
use warnings;

use Exporter 'import';
use Fcntl qw(:flock);
use File::Path 'make_path';
use FindBin;
use GpuCredit;
use IPC::Run ();
use JSON::PP;
use POSIX ();
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

our @EXPORT = qw(
  cluster add_node start_agent kill_agent end_agent place submit job_state
  wait_for_state wait_for wait_for_addresses attempt_dir keeper_pid job_row end_cluster
  bill_is_fair cgroup_root agent_log processes_of processes_of_attempt
  write_devices
);

my $build = $ENV{GC_AGENT_BIN}
  || File::Spec->rel2abs("$FindBin::RealBin/../../agent");
my $serial = 0;

# Who runs tests in the background may ignore SIGINT, which programs inherit.
$SIG{INT} = $SIG{QUIT} = 'DEFAULT';
my @marks;	# what the environment of the nodes' processes has

# Every program locks its devices first, so two programs on one device are
# noticed.
my $LOCK = q{i=10
for d in ${GPUCREDIT_DEVICES//,/ }; do
	eval "exec $i<>$d" && flock -n $i || { echo "$d is taken" >&2; exit 99; }
	i=$((i + 1))
done
};

# The cgroup that tests may use; undef if this machine has none.
sub cgroup_root
{
	return $ENV{GC_CGROUP} || undef;
}

# A server with one account that has credit.  Root cannot start a server, and
# uses that of its environment.
sub cluster
{
	my ($name, @conf) = @_;
	my $node = $> == 0
	  ? bless({}, 'GpuCreditAgent::Server')
	  : new_node($name, "gpucredit.retry_backoff = '1s'", @conf);

	# root's tests share one server
	$node->safe_psql('postgres', 'DROP DATABASE IF EXISTS credit WITH (FORCE)')
	  if $> == 0;
	new_database($node, 'credit');
	$node->safe_psql('credit',
		q{ALTER DATABASE credit SET gpucredit.retry_backoff = '1s'})
	  if $> == 0;
	query(
		$node, 'credit', q{
		SELECT gpucredit.create_account('acme'),
			gpucredit.issue('acme', '', 'paid', 100000),
			gpucredit.set_price('T4', 3600)});
	return { server => $node, nodes => {}, jobs => [], submitted => {} };
}

# Registers a node of so many GPUs and starts its agent.
sub add_node
{
	my ($cluster, $name, $gpus, %options) = @_;
	my $folder = PostgreSQL::Test::Utils::tempdir_short();
	my $n = {
		cluster => $cluster,
		name    => $name,
		gpus    => $gpus,
		folder  => $folder,
		%options };

	$cluster->{nodes}{$name} = $n;
	write_devices($n, map { 'ok' } 1 .. $gpus);
	query($cluster->{server}, 'credit',
		"SELECT gpucredit.register_node('default', '$name', 'T4', $gpus, 16384)"
	);
	start_agent($n) unless $options{stopped};
	return $n;
}

# The fake inventory; the test breaks a GPU by writing it again.
sub write_devices
{
	my ($n, @states) = @_;
	my $lines = '';

	for my $i (0 .. $#states)
	{
		my $device = "$n->{folder}/gpu$i";

		unless (-e $device)
		{
			open(my $file, '>', $device) or die "$device: $!";
			chmod 0666, $device;
		}
		$lines .= "GPU-$n->{name}-$i 16384 $states[$i] $device\n";
	}
	append_to_file("$n->{folder}/devices.new", $lines);
	rename("$n->{folder}/devices.new", "$n->{folder}/devices") or die;
	return;
}

# Starts a node's agent; further environment as a hash.
sub start_agent
{
	my ($n, %env) = @_;
	my $server = $n->{cluster}{server};
	my $conf   = "$n->{folder}/agent.conf";
	my $cgroup = cgroup_root() && !$n->{no_cgroup}
	  ? cgroup_root() . "/$n->{name}-$$"
	  : '';

	$n->{cgroup} = $cgroup;
	push @marks, "GPUCREDIT_MARK=$n->{name}:$n->{folder}/state/";
	unlink $conf;
	append_to_file(
		$conf,
		join("\n",
			"node = $n->{name}",
			"database = "
			  . ($n->{database}
				|| 'dbname=credit user='
				. ($> == 0 ? 'postgres' : (getpwuid($>))[0])
				. ' host='
				. $server->host
				. ' port='
				. $server->port),
			"state = $n->{folder}/state",
			"devices = file:$n->{folder}/devices",
			"cgroup = $cgroup",
			'keeper = ' . ($n->{keeper} || "$build/gpucredit-keeper"),
			"steps = $build/steps",
			"heartbeat_ms = " . ($n->{heartbeat_ms} || 200),
			"meter_ms = " . ($n->{meter_ms} || 500),
			"stop_grace_ms = " . ($n->{stop_grace_ms} || 1000),
			@{ $n->{conf} || [] },
			''));
	my $pid = fork();

	die "fork: $!" unless defined $pid;
	if ($pid == 0)
	{
		local %ENV = (%ENV, %env);

		open(STDERR, '>>', "$n->{folder}/agent.log");
		exec_other($n, $conf) if $ENV{GC_AGENT_COMMAND};
		exec(@{ $n->{wrap} || [] }, "$build/gpucredit-agent", $conf) or POSIX::_exit(127);
	}
	$n->{pid} = $pid;
	return;
}

# Another agent's command, with the same in its environment (conformance.pl).
sub exec_other
{
	my ($n, $conf) = @_;

	$ENV{GPUCREDIT_CONFIG} = $conf;
	$ENV{GPUCREDIT_NODE} = $n->{name};
	$ENV{GPUCREDIT_STATE} = "$n->{folder}/state";
	$ENV{GPUCREDIT_DEVICES} = "$n->{folder}/devices";
	foreach my $line (split /\n/, slurp_file($conf))
	{
		$ENV{GPUCREDIT_DATABASE} = $1 if $line =~ /^database = (.*)/;
		$ENV{GPUCREDIT_NODE_KEY} = $1 if $line =~ /^node_key = (.*)/;
	}
	exec('/bin/sh', '-c', $ENV{GC_AGENT_COMMAND}) or POSIX::_exit(127);
}

# kill -9, as a machine's memory killer would.
sub kill_agent
{
	my ($n) = @_;

	kill('KILL', $n->{pid});
	waitpid($n->{pid}, 0);
	delete $n->{pid};
	return;
}

# SIGTERM: its jobs go on.
sub end_agent
{
	my ($n) = @_;

	return unless $n->{pid};
	kill('TERM', $n->{pid});
	waitpid($n->{pid}, 0);
	delete $n->{pid};
	return;
}

sub place
{
	my ($cluster) = @_;

	return query($cluster->{server}, 'credit',
		q{SELECT count(*) FROM gpucredit.place() WHERE action = 'start'});
}

# A job that runs a shell command on its GPUs, which it locks meanwhile.
sub submit
{
	my ($cluster, $request, $command, %options) = @_;
	my $key  = 'job-' . ++$serial;
	my $wall = delete $options{wall} || '10 min';
	my $args = delete $options{args} || '';
	my $org  = delete $options{org}  || 'acme';
	my $account = delete $options{account} || '';
	my $lock = delete $options{no_lock} ? '' : $LOCK;
	my $log  = PostgreSQL::Test::Utils::tempdir_short();
	my %spec = (
		$options{argv} ? () : (script => "#!/bin/bash\n$lock$command\n"),
		env => { OUT => $log },
		%options);
	my $json = JSON::PP->new->canonical->encode(\%spec);

	chmod 0777, $log;
	$json =~ s/'/''/g;
	my $job = query($cluster->{server}, 'credit',
		"SELECT job FROM gpucredit.reserve('$org', '$account', '$key', '$request', '$wall', spec => '$json' $args)"
	);

	die "not granted" if $job eq '';
	$cluster->{submitted}{$job} = $log;
	place($cluster);
	return $job;
}

sub job_row
{
	my ($cluster, $job, $columns) = @_;

	return query($cluster->{server}, 'credit',
		"SELECT $columns FROM gpucredit.attempt WHERE org = 'acme' AND job = $job ORDER BY attempt DESC LIMIT 1"
	);
}

sub job_state
{
	my ($cluster, $job, $org) = @_;

	$org ||= 'acme';
	return query($cluster->{server}, 'credit',
		"SELECT state FROM gpucredit.jobs WHERE org = '$org' AND job = $job");
}

# Waits until something is true; the caller names the test.  The seconds are
# those that a machine with nothing else to do needs at most.  A busy one gets
# four times as long.
sub wait_for
{
	my ($name, $seconds, $code) = @_;
	my $until = time() + $seconds * ($ENV{GC_EMULATED} ? 10 : 4);
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	while (time() < $until)
	{
		return pass($name) if $code->();
		sleep(0.05);
	}
	return fail($name);
}

# Waits until a job is in a state; cycles run meanwhile.
sub wait_for_state
{
	my ($cluster, $job, $state, $seconds, $org) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $was = '';

	wait_for(
		"job $job: $state",
		$seconds || 30,
		sub {
			place($cluster);
			$was = job_state($cluster, $job, $org);
			return $was eq $state;
		}) or diag("it is $was");
	return;
}

# Waits until the agents of so many nodes have reported their addresses. A gang
# that starts before is told the names of its nodes instead, which no server
# resolves here.
sub wait_for_addresses
{
	my ($cluster, $nodes) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	return wait_for(
		"$nodes agents have reported their addresses",
		60,
		sub {
			query($cluster->{server}, 'credit',
				q{SELECT count(*) FROM gpucredit.node WHERE about ->> 'address' IS NOT NULL}) == $nodes;
		});
}

sub attempt_dir
{
	my ($n, $job, $attempt) = @_;
	my ($dir) = glob("$n->{folder}/state/run/*-$job-$attempt");

	return $dir;
}

# The process that has the attempt's lock.
sub keeper_pid
{
	my ($n, $job, $attempt) = @_;

	return (processes_of(attempt_dir($n, $job, $attempt)))[0];
}

# The processes whose command line, or environment, has a text in it.
sub processes_of
{
	my ($text, $where) = @_;
	my @found;

	$where ||= 'cmdline';
	foreach my $file (glob("/proc/[0-9]*/$where"))
	{
		open(my $in, '<', $file) or next;
		my $line = do { local $/; <$in> } // '';

		push @found, $file =~ m{/(\d+)/} if index($line, $text) >= 0;
	}
	return @found;
}

# The processes of an attempt that a node of this test runs.  Tests beside it on
# this machine have attempts of the same names.
sub processes_of_attempt
{
	my ($job, $attempt) = @_;

	return grep {
		my $environment = eval { slurp_file("/proc/$_/environ") } // '';

		grep { index($environment, $_) >= 0 } @marks;
	} processes_of("GPUCREDIT_ATTEMPT=acme/$job/" . ($attempt // ''), 'environ');
}

sub agent_log
{
	my ($n) = @_;

	return slurp_file("$n->{folder}/agent.log");
}

# A test: the bill is the seconds that ran, and those for which its devices
# waited for their agent, at 1 credit per second and GPU.  It had its devices at
# most from its placement to its end.  Without seconds, and on an emulated
# machine, where a program takes far longer than it sleeps, these are what the
# attempt's files say.
sub bill_is_fair
{
	my ($cluster, $job, $gpus, $seconds, $within) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my ($billed, $waited, $had) = split /\|/, query($cluster->{server}, 'credit', qq{
		SELECT sum(billed), sum(extract(epoch FROM overhead)),
			sum(extract(epoch FROM greatest(ended_at, late_at) - started_at))
		FROM gpucredit.attempt WHERE org = 'acme' AND job = $job});

	$within = 1 unless defined $within;
	$seconds = ran_for($cluster, $job) if !defined $seconds || $ENV{GC_EMULATED};
	cmp_ok(abs($billed / $gpus - $waited - $seconds),
		'<=', $within, "job $job: billed $billed for $gpus x ($seconds s + $waited s before its start)");
	cmp_ok($billed / $gpus, '<=', $had + $within, "job $job: no more than it had its devices");
	return;
}

# From before the program's first instruction to its end, by the wall clock.
sub ran_for
{
	my ($cluster, $job) = @_;
	my $attempt = job_row($cluster, $job, 'attempt');
	my ($dir) = grep { defined } map { attempt_dir($_, $job, $attempt) } values %{ $cluster->{nodes} };
	my ($began, $ended) = map { (Time::HiRes::stat("$dir/$_"))[9] } qw(main exit);

	return sprintf('%.3f', $ended - $began);
}

# Ends agents, and tests that nothing is left.
sub end_cluster
{
	my ($cluster) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	foreach my $n (values %{ $cluster->{nodes} })
	{
		end_agent($n);
		my @left = processes_of("$n->{folder}/state");

		is(scalar(@left), 0, "no process is left of $n->{name}")
		  or diag(`ps -o pid,args -p @left`);
		kill('KILL', @left) if @left;
		for my $i (0 .. $n->{gpus} - 1)
		{
			open(my $device, '<', "$n->{folder}/gpu$i") or die;
			ok(flock($device, LOCK_EX | LOCK_NB), "its GPU $i is free");
		}
		rmdir foreach map { ("$_/keepers", $_) } $n->{cgroup} || ();
	}
	verify_empty($cluster->{server}, 'credit');
	return;
}

# The methods of PostgreSQL::Test::Cluster that tests need, for the server of
# GC_SERVER_HOST and GC_SERVER_PORT; the module itself would overwrite PGHOST.
package GpuCreditAgent::Server;

sub name { return 'shared by root\'s tests' }
sub host { return $ENV{GC_SERVER_HOST} }
sub port { return $ENV{GC_SERVER_PORT} }

sub safe_psql
{
	my ($self, $db, $sql) = @_;
	my ($out, $err) = ('', '');

	return GpuCreditSession::answer(@_) unless GpuCreditSession::needs_own_psql($sql);
	IPC::Run::run(
		[   'psql', '-XAtq', '-h', $self->host, '-p', $self->port,
			'-U', 'postgres', '-v', 'ON_ERROR_STOP=1', '-d',
			$db, '-f', '-' ],
		'<', \$sql, '>', \$out, '2>', \$err)
	  or die "$sql: $err";
	chomp $out;
	return $out;
}

1;
