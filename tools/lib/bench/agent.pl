# agent.pl: how fast agents are, and what they cost; a line a figure:
# name, value, unit, goal.  bench_agent.sh runs it.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../../test/perl";
use GpuCredit;
use GpuCreditAgent;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my $quick   = $ENV{BENCH_QUICK};
my $rounds  = $quick ? 10 : 40;
my $cluster = cluster('bench', 'fsync = on', "shared_preload_libraries = 'gpucredit'", "gpucredit.database = 'credit'");
my $server  = $cluster->{server};
my @nodes;

foreach my $name (qw(n1 n2))
{
	my $port = PostgreSQL::Test::Cluster::get_free_port();

	push @nodes, add_node($cluster, $name, 4, heartbeat_ms => 5000, meter_ms => 60000,
		conf => [ 'address = 127.0.0.1', "poke = 127.0.0.1:$port" ]);
}
wait_for('agents are there', 20, sub { query($server, 'credit', q{SELECT count(*) FROM gpucredit.poke_addresses()}) == 2 });
my $poke = fork();
if ($poke == 0)
{
	open(STDERR, '>>', "$nodes[0]{folder}/poke.log");
	exec("$ENV{GC_AGENT_BIN}/gpucredit-agent", 'poke', "$nodes[0]{folder}/agent.conf") or POSIX::_exit(127);
}
query(
	$server, 'credit', q{
	SELECT gpucredit.set_price('A100', 1);
	SELECT count(gpucredit.register_node('default', 'm' || i, 'A100', 8, 40960)) FROM generate_series(1, 498) i});
sleep(2);

# From reserve's commit to exec, one job at a time.
my $session = connect_to($server, 'credit');
my @exec;
my $out = tempdir_short();
chmod 0777, $out;
for my $i (1 .. $rounds)
{
	query($server, 'credit', q{SELECT count(h) FROM generate_series(1, 498) i LEFT JOIN LATERAL gpucredit.heartbeat('m' || i) h ON true}) if $i % 20 == 1;
	my ($job) = $session->selectrow_array(
		qq{SELECT job FROM gpucredit.reserve('acme', '', 'exec-$i', '1xT4', '10 min', spec => '{"argv": ["date", "+%s.%N"], "output": "$out/%j"}')});
	my $began = time();

	for (1 .. 600)
	{
		sleep(0.02);
		last if -s "$out/$job";
	}
	push @exec, slurp_file("$out/$job") - $began;
	sleep(0.15);
}
@exec = sort { $a <=> $b } @exec;
figure('reserve\'s commit to exec, 500 nodes, p50', 1000 * $exec[ @exec / 2 ], 'ms', '<', 50);
figure('reserve\'s commit to exec, 500 nodes, p99', 1000 * $exec[ @exec * 0.99 ], 'ms', '<', 100);

# From a job's last instruction to its GPU being free.
my @free;
for my $i (1 .. ($quick ? 4 : 12))
{
	my $job = submit($cluster, '1xT4', 'trap "date +%s.%N > $OUT/end; exit 0" TERM; touch $OUT/up; while :; do sleep 0.02; done', no_lock => 1);
	my $folder = $cluster->{submitted}{$job};

	wait_for('it runs', 20, sub { -e "$folder/up" });
	query($server, 'credit', "SELECT gpucredit.cancel('acme', $job, 'c$job')");
	wait_for_state($cluster, $job, 'cancelled');
	push @free, query($server, 'credit', "SELECT date_part('epoch', ended_at) FROM gpucredit.attempt WHERE org = 'acme' AND job = $job") - slurp_file("$folder/end");
}
@free = sort { $a <=> $b } @free;
figure('stop to GPU free, after the last process, p50', 1000 * $free[ @free / 2 ], 'ms', '<', 200);

# Memory, and the CPU of an agent that has nothing to do.
my $job = submit($cluster, '1xT4', 'sleep 30', no_lock => 1);
wait_for_state($cluster, $job, 'running');
my $n = (glob("$nodes[0]{folder}/state/run/*-$job-1"))[0] ? $nodes[0] : $nodes[1];
my $keeper = keeper_pid($n, $job, 1);
figure('memory of a keeper (resident, its own)', anonymous($keeper), 'MiB', '<', 2);
figure('memory of an agent (resident, its own)', anonymous($n->{pid}), 'MiB', '<', 20);
query($server, 'credit', "SELECT gpucredit.cancel('acme', $job, 'c$job')");
wait_for_state($cluster, $job, 'cancelled');
my $seconds = $quick ? 6 : 20;
my $cpu = ran($n->{pid});
sleep($seconds);
figure('CPU of an idle agent', (ran($n->{pid}) - $cpu) / $seconds / 1e7, '%', '<', 0.5);

# A process in namespaces of its own.
if (system('bwrap --ro-bind / / --unshare-pid true >/dev/null 2>&1') == 0)
{
	my $bwrap = started('bwrap', '--ro-bind', '/', '/', '--dev', '/dev', '--proc', '/proc', '--unshare-pid', '--unshare-ipc', 'true');

	figure('start by bwrap, beyond the program\'s own', 1000 * ($bwrap - started('true')), 'ms', '<', 10);
}

# Many agents by few connections.
query($server, 'credit', q{SELECT count(gpucredit.register_node('default', 'm' || i, 'A100', 8, 40960)) FROM generate_series(499, 5000) i});
my $script = "$out/beat.sql";
append_to_file($script, "\\set n random(1, 5000)\nSELECT * FROM gpucredit.heartbeat('m' || :n, NULL, '{}');\n");
my $bench = `pgbench -n -M prepared -f $script -c 8 -j 2 -T @{[ $quick ? 3 : 10 ]} -h @{[ $server->host ]} -p @{[ $server->port ]} credit 2>&1`;
figure('heartbeats by 8 connections', rate($bench), '/s', '>=', 1000);

# The same 5,000 agents, each connected to pgbouncer, which has 50 connections.
my $port = PostgreSQL::Test::Cluster::get_free_port();
append_to_file("$out/ini", <<"END");
[databases]
credit = host=@{[ $server->host ]} port=@{[ $server->port ]} dbname=credit user=@{[ scalar getpwuid($>) ]} pool_size=50
[pgbouncer]
pool_mode = transaction
auth_type = any
listen_addr =
listen_port = $port
unix_socket_dir = $out
max_client_conn = 6000
pidfile = $out/pid
logfile = $out/log
END
die 'pgbouncer' if system('sh', '-c', "ulimit -n 8192; exec pgbouncer -q -d $out/ini") != 0;
wait_for('it listens', 20, sub { -S "$out/.s.PGSQL.$port" });
$bench = `ulimit -n 8192; pgbench -n -M extended -f $script -c 5000 -j 2 -T @{[ $quick ? 5 : 20 ]} -h $out -p $port credit 2>&1`;
figure('heartbeats of 5,000 agents by 50 connections', rate($bench), '/s', '>=', 1000);
kill('TERM', slurp_file("$out/pid") + 0);

kill('TERM', $poke);
waitpid($poke, 0);
end_cluster($cluster);
done_testing();

sub figure
{
	my ($name, $value, $unit, $relation, $goal) = @_;

	note(sprintf("figure\t%s\t%.3g\t%s\t%s\t%s", $name, $value, $unit, $relation, $goal));
	return;
}

# What pgbench says; 0: it failed.
sub rate
{
	my ($rate) = $_[0] =~ /tps = ([0-9.]+)/;

	print STDERR $_[0] unless $rate;
	return $rate || 0;
}

sub tempdir_short { return PostgreSQL::Test::Utils::tempdir_short() }

sub anonymous
{
	my ($pid) = @_;
	my ($kib) = slurp_file("/proc/$pid/status") =~ /^RssAnon:\s+(\d+)/m;

	return $kib / 1024;
}

# Nanoseconds on a CPU.
sub ran
{
	my ($pid) = @_;

	return (split / /, slurp_file("/proc/$pid/schedstat"))[0];
}

# Seconds that a command takes, the median of 21.
sub started
{
	my (@command) = @_;
	my @took;

	for (1 .. 21)
	{
		my $began = time();

		system(@command);
		push @took, time() - $began;
	}
	return (sort { $a <=> $b } @took)[10];
}
