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

my $cluster = cluster('fence', "gpucredit.node_lost = '4s'",
	"gpucredit.node_suspect = '3s'", "gpucredit.heartbeat_timeout = '60s'");
my $server = $cluster->{server};
my $n1     = add_node($cluster, 'n1', 1);
my $count  = q{for i in $(seq 1 40); do echo $i >> $OUT/ticks; sleep 0.1; done};

# The server is away for longer than the fence: the job is frozen, goes on, and
# does not pay for the pause or twice.
my $job   = submit($cluster, '1xT4', $count, wall => '1 hour');
my $ticks = "$cluster->{submitted}{$job}/ticks";

wait_for('it runs', 20, sub { -e $ticks && -s $ticks > 10 });
$server->stop('immediate');
wait_for('it is frozen', 20,
	sub { agent_log($n1) =~ m{event=fenced attempt=acme/$job/1} });
sleep(0.5);
my $before = -s $ticks;
sleep($ENV{GC_OUTAGE_SECONDS} || 1.5);
is(-s $ticks, $before, 'while the database is away it stands still');
$server->start;
wait_for_state($cluster, $job, 'completed', 60);
like(agent_log($n1), qr{event=thawed attempt=acme/$job/1}, 'it went on');
is(job_row($cluster, $job, 'attempt'), '1', 'in the same attempt');
is(scalar(split /\n/, slurp_file($ticks)), 40, 'and did all its work once');
bill_is_fair($cluster, $job, 1, 4, 1.5);

# A short outage is not noticed by the job.
$job   = submit($cluster, '1xT4', $count);
$ticks = "$cluster->{submitted}{$job}/ticks";
wait_for('it runs', 20, sub { -e $ticks });
$server->restart('immediate');
wait_for_state($cluster, $job, 'completed', 60);
unlike(agent_log($n1), qr{event=fenced attempt=acme/$job/1},
	'a short outage stops nothing');

# The agent is dead or stopped: its keepers enforce the fence.
foreach my $how (qw(KILL STOP))
{
	$job   = submit($cluster, '1xT4', $count);
	$ticks = "$cluster->{submitted}{$job}/ticks";
	wait_for('it runs', 20, sub { -e $ticks });
	$how eq 'KILL' ? kill_agent($n1) : kill('STOP', $n1->{pid});
	wait_for("SIG$how of the agent: its job is frozen",
		20, sub { agent_log($n1) =~ m{event=fenced attempt=acme/$job/1} });
	$how eq 'KILL' ? start_agent($n1) : kill('CONT', $n1->{pid});
	wait_for_state($cluster, $job, 'completed', 60);
	is(scalar(split /\n/, slurp_file($ticks)), 40, 'and does all its work once');
}

# The node counts as lost meanwhile: its job runs elsewhere, and its processes
# here end as soon as the agent learns of it.
my $n2 = add_node($cluster, 'n2', 1);
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
like(slurp_file($on), qr/\nGPU-\Q$other->{name}\E-0\n$/, 'it ran elsewhere');
start_agent($lost);
wait_for('what was left of it is ended',
	20, sub { !processes_of("GPUCREDIT_ATTEMPT=acme/$job/1", 'environ') });
end_cluster($cluster);
done_testing();
