# poke.pl: one listener pokes agents that do not listen: a start comes at once,
# a flood of datagrams costs ten heartbeats a second, a lost datagram one
# interval
#
# Alone: it measures how soon a program starts

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use GpuCredit;
use GpuCreditAgent;
use IO::Socket::INET;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my $cluster = cluster('poke', "track_functions = 'all'");
my $server  = $cluster->{server};
my %port    = map { $_ => PostgreSQL::Test::Cluster::get_free_port() } qw(n1 n2);
my $n1      = add_node($cluster, 'n1', 4, options('n1'));
my $poke    = start_poke($n1);

is(agents_that_listen(), 0, 'no agent listens');

# A start, from its commit to the program's first instruction.
my @took = sort { $a <=> $b } map { seconds_to_start() } 1 .. 5;
cmp_ok($took[3], '<', 4, 'four of five starts come long before the next heartbeat');
diag(sprintf('commit to exec, poked: p50 %.0f ms, worst of 5 %.0f ms', 1000 * $took[2], 1000 * $took[4]));

# A node registered later is found.
my $n2 = add_node($cluster, 'n2', 4, options('n2'));
wait_for('it has asked', 10, sub { query($server, 'credit', q{SELECT about ->> 'poke' FROM gpucredit.node WHERE node = 'n2'}) eq "127.0.0.1:$port{n2}" });
query($server, 'credit', q{SELECT gpucredit.drain('n1', 'test')});
seconds_to_start();
cmp_ok(seconds_to_start(), '<', 8, 'an agent that came later is poked as well');
query($server, 'credit', q{SELECT gpucredit.resume('n1')});

# A flood.  A session reports its calls at a commit, at most once a second, so
# earlier calls are counted first.
my $socket = IO::Socket::INET->new(Proto => 'udp', PeerAddr => "127.0.0.1:$port{n1}") or die;
sleep(1.2);
IO::Socket::INET->new(Proto => 'udp', PeerAddr => "127.0.0.1:$port{$_}")->send('x') foreach qw(n1 n2);
sleep(0.5);
my $before = heartbeats();
my $sent   = 0;
my $began  = time();
while (time() < $began + 3)
{
	$sent += defined $socket->send('x' x (1 + $sent % 1400)) for 1 .. 50;
	sleep(0.001);
}
my $made    = heartbeats() - $before;
my $flooded = time() - $began;
cmp_ok($sent, '>', 10000, 'many datagrams are sent');
cmp_ok($made, '<=', 15 + 10 * $flooded, "of $sent, ten a second are obeyed: $made");
cmp_ok($made, '>=', 15, 'the datagrams that are due are obeyed');
my $job = submit($cluster, '1xT4', 'date +%s.%N > $OUT/began');
wait_for_state($cluster, $job, 'completed', 10);
pass('the agent serves beside a flood of datagrams');

# Without a poke, the next heartbeat brings the start.
kill('TERM', $poke);
waitpid($poke, 0);
cmp_ok(seconds_to_start(), '<', 25, 'a datagram that is lost costs an interval');

# After a restart of the listener, and of the server.
$poke = start_poke($n1);
$server->restart;
wait_for('it listens again', 20, sub { listeners() == 1 });
wait_for('the agents are back', 40, sub { query($server, 'credit', q{SELECT count(*) FROM gpucredit.nodes WHERE heard_at > now() - interval '15 s'}) == 2 });
seconds_to_start();
cmp_ok(seconds_to_start(), '<', 8, 'after a restart the agent is poked again');

kill('TERM', $poke);
waitpid($poke, 0);
end_cluster($cluster);
done_testing();

sub options
{
	my ($node) = @_;

	return (
		heartbeat_ms => 15000,
		conf         => [ 'address = 127.0.0.1', "poke = 0.0.0.0:$port{$node}" ]);
}

sub start_poke
{
	my ($n) = @_;
	my $bin = $ENV{GC_AGENT_BIN} || "$FindBin::RealBin/../../agent";
	my $pid = fork();

	if ($pid == 0)
	{
		open(STDERR, '>>', "$n->{folder}/poke.log");
		exec("$bin/gpucredit-agent", 'poke', "$n->{folder}/agent.conf") or POSIX::_exit(127);
	}
	wait_for('one listens', 10, sub { listeners() == 1 });
	return $pid;
}

# Seconds from the commit of a cycle that starts a job to its program.
sub seconds_to_start
{
	my $job = submit($cluster, '1xT4', 'date +%s.%N > $OUT/began.new; mv $OUT/began.new $OUT/began');
	my $committed = time();
	my $file      = "$cluster->{submitted}{$job}/began";

	wait_for_state($cluster, $job, 'completed', 15);
	return slurp_file($file) - $committed;
}

sub sessions
{
	my ($query) = @_;

	return query($server, 'credit', "SELECT count(*) FROM pg_stat_activity WHERE datname = 'credit' AND query LIKE '$query'");
}

sub listeners { return sessions('%FROM gpucredit.poke_addresses()') }
sub agents_that_listen { return sessions('LISTEN%') }

sub heartbeats
{
	sleep(1.2);    # until sessions have reported
	return query($server, 'credit', q{SELECT coalesce(sum(calls), 0) FROM pg_stat_user_functions WHERE funcname = 'heartbeat'});
}
