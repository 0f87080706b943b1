# many.pl: an agent runs hundreds of attempts (GC_MANY: so many), one after the
# other, with few descriptors, and keeps none of them, no watch and no cgroup
# once they are over

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use GpuCredit;
use GpuCreditAgent;
use PostgreSQL::Test::Utils;
use Test::More;

# GC_MANY=3000 runs about a day of a busy node.  A leak of one descriptor an
# attempt ends the agent after 200.
my $attempts = $ENV{GC_MANY} || 400;
my $at_once  = 60;
my $cluster  = cluster('many');
my $server   = $cluster->{server};
my $n1       = add_node($cluster, 'n1', 1, heartbeat_ms => 50, meter_ms => 60000,
	wrap => [ 'sh', '-c', 'ulimit -n 256; exec "$@"', 'sh' ]);

# what the agent has open, and its watches
sub open_files
{
	my @fds = glob("/proc/$n1->{pid}/fd/*");
	my $watches = 0;

	foreach my $info (glob("/proc/$n1->{pid}/fdinfo/*"))
	{
		open(my $in, '<', $info) or next;
		$watches += grep { /^inotify / } <$in>;
	}
	return (scalar(@fds), $watches);
}

sub run_jobs
{
	my ($from, $n) = @_;

	query($server, 'credit', qq{
		SELECT count(r) FROM generate_series($from, $from + $n - 1) i,
			gpucredit.reserve('acme', '', 'many-' || i, '0', '1 min',
				spec => '{"argv": ["true"]}') r});
	place($cluster);
	for (1 .. 3000)
	{
		return 1
		  if query($server, 'credit',
			'SELECT count(*) FROM gpucredit.job WHERE ended_at IS NULL') eq '0';
		place($cluster) if $_ % 20 == 0;
		select(undef, undef, undef, 0.02);
	}
	return 0;
}

wait_for('the agent runs', 20, sub { -e "$n1->{folder}/state/run" });
ok(run_jobs(1, 2), 'two attempts run');
my ($files, $watches) = open_files();
my $done = 2;
while ($done < $attempts)
{
	run_jobs($done + 1, $at_once) or last;
	$done += $at_once;
}
cmp_ok($done, '>=', $attempts, "$done attempts ran");
is(query($server, 'credit', "SELECT count(*) FROM gpucredit.attempt WHERE outcome = 'completed'"),
	$done, 'all of them completed at their first try');
my ($files_after, $watches_after) = open_files();
cmp_ok($files_after, '<=', $files + 2, "the agent has $files_after files open, as before");
cmp_ok($watches_after, '<=', $watches, 'the agent watches no folder of an attempt that is over');
is(scalar(() = agent_log($n1) =~ /event=agent_start/g), 1, 'the agent was never restarted');
is(scalar(grep { -d } glob("$n1->{cgroup}/*-*-*")), 0, 'no cgroup is left') if $n1->{cgroup};

# What a killed agent left of a cgroup, its successor removes.
SKIP:
{
	skip 'no cgroup on this machine', 1 unless $n1->{cgroup};
	my $job = submit($cluster, '1xT4', 'sleep 2');
	wait_for('it runs', 20, sub { my $d = attempt_dir($n1, $job, 1); $d && -e "$d/main" });
	my $dir = attempt_dir($n1, $job, 1);
	my ($name) = $dir =~ m{([^/]+)$};

	wait_for_state($cluster, $job, 'completed');
	end_agent($n1);
	mkdir "$n1->{cgroup}/$name";
	mkdir "$n1->{cgroup}/$name/below";
	start_agent($n1);
	wait_for('a cgroup that was left behind is removed, with what is below it', 20,
		sub { !-d "$n1->{cgroup}/$name" });
}
end_cluster($cluster);
done_testing();
