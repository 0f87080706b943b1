# soak.pl: real agents for a while, with a failure about every second: each job
# ends, runs once in each attempt, and the bills are right
#
# GC_SOAK_SECONDS (10) is how long new jobs come, GC_SEED (1) chooses what
# happens; tools/month --agents runs it for longer.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use GpuCredit;
use GpuCreditAgent;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my $seconds = $ENV{GC_SOAK_SECONDS} || 10;
my $seed    = $ENV{GC_SEED}         || 1;

srand($seed);
my $cluster = cluster('soak', "gpucredit.node_lost = '6s'",
	"gpucredit.node_suspect = '4s'", "gpucredit.heartbeat_timeout = '60s'");
my $server = $cluster->{server};
my @nodes = map { add_node($cluster, "n$_", 2) } 1 .. 2;
my %length;		# of each job, in seconds
my %gpus;
my %happened;
my %fault = (
	'agent killed' => sub { kill_agent($_[0]); start_agent($_[0]) },
	'agent stopped' => sub {
		kill('STOP', $_[0]{pid});
		sleep(rand(1));
		kill('CONT', $_[0]{pid});
	},
	'keeper killed' => \&kill_a_keeper,
	'both killed'   => sub {
		kill_agent($_[0]);
		kill_a_keeper($_[0]);
		start_agent($_[0]);
	},
	'server restarted' => sub { $server->restart('immediate') });

my $until = time() + $seconds;
my $next  = time() + 1;
while (time() < $until)
{
	my $gpus = (1, 1, 1, 2, 4)[ int(rand(5)) ];
	my $length = sprintf('%.1f', 0.2 + rand(1.5));
	my $job = submit($cluster, "${gpus}xT4", qq{echo x >> \$OUT/runs\$RANK; sleep $length});

	($length{$job}, $gpus{$job}) = ($length, $gpus);
	if (time() > $next)
	{
		my $what = (sort keys %fault)[ int(rand(keys %fault)) ];

		$fault{$what}->($nodes[ int(rand(@nodes)) ]);
		$happened{$what}++;
		$next = time() + 0.5 + rand(1.5);
	}
	sleep(0.5);
}
diag("seed $seed: " . keys(%length) . ' jobs; ' . join(', ', map { "$_ $happened{$_}" } sort keys %happened));

my $ended = q{SELECT count(*) FROM gpucredit.jobs WHERE state IN ('completed', 'failed')};
wait_for('each job comes to its end', 60 + $seconds / 2,
	sub { place($cluster); query($server, 'credit', $ended) == keys %length });
is(query($server, 'credit', $ended =~ s/, 'failed'//r),
	scalar(keys %length), 'and completes, whatever failed')
  or diag(query($server, 'credit', q{SELECT * FROM gpucredit.jobs WHERE state <> 'completed'}));

my (@twice, @unfair);
foreach my $job (sort { $a <=> $b } keys %length)
{
	my ($attempts, $billed, $waited) = split /\|/, query($server, 'credit', qq{
		SELECT count(*), sum(billed) FILTER (WHERE outcome = 'completed'),
			sum(extract(epoch FROM overhead)) FILTER (WHERE outcome = 'completed')
		FROM gpucredit.attempt WHERE job = $job});
	my $ran = $billed / $gpus{$job} - $waited;

	foreach my $runs (glob("$cluster->{submitted}{$job}/runs*"))
	{
		push @twice, "$job: $runs" if slurp_file($runs) =~ tr/\n// > $attempts;
	}
	push @unfair, "$job: $billed for $gpus{$job} x ($length{$job} + $waited before its start)"
	  if $ran < $length{$job} * 0.99 || $ran > $length{$job} + 2.5;
}
is("@twice",  '', 'no attempt ran twice');
is("@unfair", '', 'what completed is billed for what it ran, and for its wait for the agent');
end_cluster($cluster);
done_testing();

# One of those that the node has, if any.
sub kill_a_keeper
{
	my ($n) = @_;
	my @keepers = processes_of("$n->{folder}/state/run/");

	kill('KILL', $keepers[0]) if @keepers;
	return;
}
