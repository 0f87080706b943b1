# isolation.pl: what only root can give a job: its organisation's user, and a
# filter on device files
#
# Two character devices that every machine has stand for GPUs.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use GpuCredit;
use GpuCreditAgent;
use PostgreSQL::Test::Utils;
use Test::More;

plan skip_all => 'only root can give jobs users of their own' if $> != 0;

my $cluster = cluster('isolation');
my $server  = $cluster->{server};
my $n1      = add_node($cluster, 'n1', 2, stopped => 1,
	wrap => [ 'choom', '-n', '500', '--' ],
	conf => [ 'first_uid = 700000', 'uids = 100' ]);

chmod 0711, $n1->{folder};
query(
	$server, 'credit', q{
	SELECT gpucredit.create_account('rival'), gpucredit.issue('rival', '', 'paid', 1000)});
my $filtered = cgroup_root();
if ($filtered)
{
	unlink "$n1->{folder}/devices";
	append_to_file("$n1->{folder}/devices",
		"GPU-a 16384 ok /dev/gpu-a\nGPU-b 16384 ok /dev/gpu-b\n");
	system('mknod', '-m', '666', '/dev/gpu-a', 'c', '10', '229') == 0
	  && system('mknod', '-m', '666', '/dev/gpu-b', 'c', '10', '237') == 0
	  or $filtered = undef;
}
start_agent($n1);

my $mine = submit($cluster, '1xT4', q{id -u; umask 077; echo secret > secret; sleep 4},
	no_lock => 1);
wait_for('it runs', 20, sub { my $d = attempt_dir($n1, $mine, 1); $d && -e "$d/work/secret" });
my $dir = attempt_dir($n1, $mine, 1);
my ($pid) = processes_of("GPUCREDIT_ATTEMPT=acme/$mine/1", 'environ');
my $theirs = submit($cluster, '1xT4', qq{
	id -u
	cat $dir/work/secret && echo READ
	cat $dir/intent && echo READ
	kill -TERM $pid && echo KILLED
	for d in \$GPUCREDIT_DEVICES; do head -c 0 < \$d && echo mine; done
	for d in /dev/gpu-a /dev/gpu-b; do [ \$d = \$GPUCREDIT_DEVICES ] || { head -c 0 < \$d && echo OPENED; }; done
	cat /proc/self/oom_score_adj
}, org => 'rival', no_lock => 1);
wait_for_state($cluster, $theirs, 'completed', 30, 'rival');
wait_for_state($cluster, $mine,   'completed');
my @said = split /\n/, slurp_file(attempt_dir($n1, $theirs, 1) . '/stdout');
my ($uid) = split /\n/, slurp_file("$dir/stdout");

cmp_ok($uid, '>=', 700000, 'it runs as a user of its organisation');
isnt($said[0], $uid, 'the other organisation has another');
is(scalar(grep { /READ|KILLED/ } @said), 0,
	'it neither reads nor ends what is not its own');
is($said[-1], 0, 'nor has it what the agent is to the memory killer');
SKIP:
{
	skip 'no cgroup, or no device files here', 2 unless $filtered;
	is(scalar(grep { /^mine/ } @said), 1, 'it opens its own device');
	is(scalar(grep { /OPENED/ } @said), 0, 'and opens no device but its own');
}
unlink '/dev/gpu-a', '/dev/gpu-b';
end_cluster($cluster);
done_testing();
