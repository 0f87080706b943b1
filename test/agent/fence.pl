# fence.pl: an agent without answers stops its jobs before others get their
# devices; if the database returns in time, nothing is lost
#
# GC_OUTAGE_SECONDS=600 has the database away for ten minutes.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use GpuCredit;
use GpuCreditAgent;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);

my $cluster = cluster('fence', "gpucredit.node_lost = '60s'",
	"gpucredit.node_suspect = '3s'", "gpucredit.heartbeat_timeout = '60s'");
my $server = $cluster->{server};
my @nodes  = my ($n1, $n2) = map { add_node($cluster, $_, 1) } qw(n1 n2);

# The server is away for ten seconds, a third of the fence: no job notices, and
# what ends meanwhile is billed as what ends later.
my %length = map { submit($cluster, '1xT4', "echo up > \$OUT/up; sleep $_") => $_ } 4, 12;
wait_for('both run', 20,
	sub { 2 == grep { -e "$cluster->{submitted}{$_}/up" } keys %length });
$server->stop('immediate');
sleep(10);
$server->start;
foreach my $job (sort { $a <=> $b } keys %length)
{
	wait_for_state($cluster, $job, 'completed', 60);
	is(job_row($cluster, $job, 'attempt'), '1', 'a job completes in its first attempt, beyond ten seconds without a database');
	bill_is_fair($cluster, $job, 1, $length{$job});
}
unlike(agent_log($_), qr/event=fenced/, 'ten seconds without a database stop no job') foreach @nodes;

# From here on the fence is two seconds.
query($server, 'credit', q{ALTER DATABASE credit SET gpucredit.node_lost = '4s'});
foreach my $n (@nodes)
{
	end_agent($n);
	start_agent($n);
}
wait_for('they serve', 20, sub { query($server, 'credit', q{SELECT bool_and(about ->> 'incarnation' = '2') FROM gpucredit.node}) eq 't' });

# The server is away for longer: a gang is frozen on all its nodes, goes on, and
# does not pay for the pause or twice.
my $count = q{for i in $(seq 1 40); do date +%s.%N >> $OUT/ticks$RANK; sleep 0.1; done};
my $job   = submit($cluster, '2xT4', $count, wall => '1 hour');
my @ticks = map { "$cluster->{submitted}{$job}/ticks$_" } 0, 1;

wait_for('it runs', 20, sub { 2 == grep { -e && -s > 10 } @ticks });
$server->stop('immediate');
wait_for("it is frozen on $_->{name}",
	20, sub { agent_log($_) =~ m{event=fenced attempt=acme/$job/1} })
  foreach @nodes;
sleep(0.5);
my @before = map { -s } @ticks;
my @last   = map { (stat)[9] } @ticks;
cmp_ok(abs($last[0] - $last[1]), '<=', 2, 'the gang is frozen on both nodes at about the same time');
sleep($ENV{GC_OUTAGE_SECONDS} || 1.5);
is_deeply([ map { -s } @ticks ], \@before, 'while the database is away the frozen gang stands still');
$server->start;
wait_for_state($cluster, $job, 'completed', 60);
like(agent_log($_), qr{event=thawed attempt=acme/$job/1}, 'the gang went on when the database was back') foreach @nodes;
is(job_row($cluster, $job, 'attempt'), '1', 'the gang went on in the same attempt');
is(scalar(split /\n/, slurp_file($_)), 40, 'each part of the frozen gang did all its work once') foreach @ticks;
bill_is_fair($cluster, $job, 2, ran_without_pause($ticks[0]), 1.5);

# The agent is dead or stopped: its keepers enforce the fence.
query($server, 'credit', q{SELECT gpucredit.drain('n2', 'test')});
foreach my $how (qw(KILL STOP))
{
	$job = submit($cluster, '1xT4', $count);
	my $ticks = "$cluster->{submitted}{$job}/ticks0";
	wait_for('it runs', 20, sub { -e $ticks });
	$how eq 'KILL' ? kill_agent($n1) : kill('STOP', $n1->{pid});
	wait_for("SIG$how of the agent: its job is frozen",
		20, sub { agent_log($n1) =~ m{event=fenced attempt=acme/$job/1} });
	$how eq 'KILL' ? start_agent($n1) : kill('CONT', $n1->{pid});
	wait_for_state($cluster, $job, 'completed', 60);
	is(scalar(split /\n/, slurp_file($ticks)), 40, 'the frozen job does all its work once');
}

# The node counts as lost meanwhile: its job runs elsewhere, and its processes
# here end as soon as the agent learns of it.
query($server, 'credit', q{SELECT gpucredit.resume('n2')});
$job   = submit($cluster, '1xT4',
	q{echo $CUDA_VISIBLE_DEVICES >> $OUT/on; for i in $(seq 1 30); do sleep 0.1; done});
my $on = "$cluster->{submitted}{$job}/on";
wait_for('it runs', 20, sub { -e $on });
my ($there) = slurp_file($on) =~ /^GPU-(n\d)/;
my $other = $there eq 'n1' ? $n2 : $n1;
my $lost  = $there eq 'n1' ? $n1 : $n2;

kill_agent($lost);
wait_for(
	'its node is given up', 30,
	sub {
		query($server, 'credit', 'SELECT count(*) FROM gpucredit.check_nodes()');
		return job_row($cluster, $job, 'attempt') > 1
		  || job_state($cluster, $job) eq 'queued';
	});
wait_for_state($cluster, $job, 'completed', 60);
like(slurp_file($on), qr/\nGPU-\Q$other->{name}\E-0\n$/, 'the job of the lost node ran elsewhere');
start_agent($lost);
wait_for('what was left of it is ended',
	20, sub { !processes_of_attempt($job, 1) });
end_cluster($cluster);
done_testing();

# How long a program ran, by the times that it wrote; the longest gap is the
# pause.
sub ran_without_pause
{
	my @at = split /\n/, slurp_file($_[0]);
	my @gaps = sort { $a <=> $b } map { $at[$_] - $at[ $_ - 1 ] } 1 .. $#at;

	return $at[-1] - $at[0] - $gaps[-1];
}
