# failover.pl: the primary dies while jobs start, run and end; its standby takes
# over, the agents find it, and nothing runs or is billed twice

use strict;
use warnings;
use FindBin;
use IO::Socket::UNIX;
use lib "$FindBin::RealBin/../perl";
use GpuCredit;
use GpuCreditAgent;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $cluster = cluster('failover', 'wal_level = replica', 'max_wal_senders = 4');
my $primary = $cluster->{server};
my $standby = PostgreSQL::Test::Cluster->new('standby');

$primary->backup('base');
$standby->init_from_backup($primary, 'base', has_streaming => 1);
$standby->start;
$primary->append_conf('postgresql.conf',
	"synchronous_commit = remote_apply\nsynchronous_standby_names = 'standby'\n");
$primary->reload;
$primary->poll_query_until('postgres',
	q{SELECT sync_state = 'sync' FROM pg_stat_replication})
  or die 'the standby confirms no commit';

# Each knows both servers, and asks the one that takes writes.
my $both = sprintf('host=%s,%s port=%s,%s', $primary->host, $standby->host,
	$primary->port, $standby->port);
my ($n1, $n2) = map {
	add_node($cluster, $_, 4, database =>
		  "$both target_session_attrs=read-write connect_timeout=1 dbname=credit user=" . getpwuid($>))
} qw(n1 n2);
my $count = q{echo x >> $OUT/runs$RANK; };
my $runs  = submit($cluster, '1xT4', $count . 'sleep 8');
my $gang  = submit($cluster, '5xT4', $count . 'sleep 7');
my $ends  = submit($cluster, '1xT4', $count . 'while [ ! -e $OUT/end ]; do sleep 0.1; done');
wait_for('they run', 20,
	sub { 4 == grep { -e } map { glob("$cluster->{submitted}{$_}/runs*") } $runs, $gang, $ends });
my $starts = submit($cluster, '1xT4', $count . 'sleep 1');
kill_server($primary);
append_to_file("$cluster->{submitted}{$ends}/end", '');
wait_for('one ends without a primary', 20,
	sub { my ($n) = grep { attempt_dir($_, $ends, 1) } $n1, $n2; -e attempt_dir($n, $ends, 1) . '/gone' });
$standby->promote;
$standby->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()')
  or die 'the standby is not promoted';
$standby->safe_psql('postgres', q{ALTER SYSTEM SET synchronous_standby_names = ''});
$standby->reload;
$cluster->{server} = $standby;
my %ran = ($runs => 1, $gang => 5, $starts => 1);	# GPUs
foreach my $job ($ends, $starts, $runs, $gang)
{
	wait_for_state($cluster, $job, 'completed', 60);
	is(job_row($cluster, $job, 'attempt'), 1, 'the job completes in its first attempt, beyond the failover');
	is(slurp_file($_), "x\n", 'each part of the job ran once, beyond the failover')
	  foreach glob("$cluster->{submitted}{$job}/runs*");
	is( query($standby, 'credit',
			"SELECT count(DISTINCT hold) FROM gpucredit.entry WHERE org = 'acme' AND job = $job AND target = 'spent'"),
		1, 'the job was billed once, beyond the failover');
	bill_is_fair($cluster, $job, $ran{$job}) if $ran{$job};
}

# What stands where the primary was answers nobody: an agent that starts now
# comes to the next server all the same.
end_agent($n1);
my $path = $primary->host . '/.s.PGSQL.' . $primary->port;
unlink $path;
my $silent = IO::Socket::UNIX->new(Local => $path, Listen => 8) or die "$path: $!";
start_agent($n1);
my $job = submit($cluster, '4xT4', 'sleep 1', args => q{, topology => 'node'});
query($standby, 'credit', q{SELECT gpucredit.drain('n2', 'test')});
wait_for_state($cluster, $job, 'completed');
like(agent_log($n1), qr/event=connect_timeout/, 'the agent waited for the first host of its list in vain');
close($silent);
unlink $path;

# A primary that takes no writes any more is left for one that does.
query($standby, 'credit', 'ALTER SYSTEM SET default_transaction_read_only = on; SELECT pg_reload_conf()');
wait_for('it looks for another', 10, sub { agent_log($n1) =~ /event=server_refuses.*event=connect_failed.*read-only/s });
query($standby, 'credit', 'SET default_transaction_read_only = off; ALTER SYSTEM RESET default_transaction_read_only; SELECT pg_reload_conf()');
query($standby, 'credit', q{SELECT gpucredit.resume('n2')});
$job = submit($cluster, '1xT4', 'sleep 1');
wait_for_state($cluster, $job, 'completed');
bill_is_fair($cluster, $job, 1, 1);

# Lists that do not fit together end the agent: it could connect to a server
# that nobody meant.
end_agent($n1);
foreach my $bad ([ 'host=a,b port=1,2,3', '2 hosts and 3 ports' ], [ 'host=a,b hostaddr=127.0.0.1', '2 hosts and 1 addresses' ])
{
	$n1->{database} = "$bad->[0] dbname=credit";
	start_agent($n1);
	waitpid($n1->{pid}, 0);
	is($? >> 8, 1, "the agent ends: $bad->[0]");
	like(agent_log($n1), qr/\Q$bad->[1]\E/, '... and the reason is logged');
}
delete $n1->{pid};
end_cluster($cluster);
done_testing();
