# isolation.pl: what only root can give a job: its account's user, and a filter
# on device files
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
	wrap => [ 'choom', '-n', '500', '--' ]);
my $key = "$n1->{folder}/key";
my $site = PostgreSQL::Test::Utils::tempdir_short();
my @users = ('first_uid = 700000', 'uids = 4', 'user.acme/vision = daemon', "node_key = $key",
	"log_folder = $site");

append_to_file($key, "secret of n1\n");
chmod 0600, $key;
chmod 0711, $n1->{folder};
chmod 0755, $site;
query(
	$server, 'credit', q{
	SELECT gpucredit.create_account('acme', 'alice'), gpucredit.create_account('acme', 'vision'),
		gpucredit.create_account('acme', 'vision/bob'), gpucredit.create_account('rival'),
		gpucredit.issue('rival', '', 'paid', 1000), gpucredit.set_node_key('n1', sha256('secret of n1'))});

# An agent of root that knows no users ends: jobs would be root.
foreach my $bad ([], [ 'first_uid = 700000', 'user.acme = root' ], [ 'first_uid = 700000', 'user.acme = nobody-of-that-name' ])
{
	$n1->{conf} = $bad;
	start_agent($n1);
	waitpid($n1->{pid}, 0);
	is($? >> 8, 1, "it ends: @$bad");
}
like(agent_log($n1), qr/jobs would run as root: set first_uid.*"root" is no user.*"nobody-of-that-name" is no user/s, 'and says why');

# Nor does it start with a secret that jobs could read: its key, or a password.
$n1->{conf} = [@users];
chmod 0644, $key;
start_agent($n1);
waitpid($n1->{pid}, 0);
is($? >> 8, 1, 'it ends: others can read its key');
chmod 0600, $key;
$n1->{database} = sprintf('host=%s port=%s dbname=credit user=postgres password=secret', $server->host, $server->port);
start_agent($n1);
waitpid($n1->{pid}, 0);
is($? >> 8, 1, 'it ends: others can read its password');
delete $n1->{database};
like(agent_log($n1), qr/key has a secret, and others can read it.*agent.conf has a secret/s, 'and says which file');

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
foreach my $isolation (qw(plain bwrap))
{
  SKIP:
	{
		skip 'no bwrap, or no namespaces on this machine', 10
		  if $isolation eq 'bwrap' && system('bwrap --ro-bind / / --unshare-pid true >/dev/null 2>&1') != 0;
		end_agent($n1);
		$n1->{conf} = [ @users, "isolation = $isolation" ];
		start_agent($n1);
		apart($isolation);
	}
}

# Each account has a user; those below a mapped one have its user.
my %uid;
my %owner;
foreach my $account (qw(alice vision vision/bob))
{
	my $job = submit($cluster, '0', 'id -u', no_lock => 1, account => $account);

	wait_for_state($cluster, $job, 'completed');
	$uid{$account} = slurp_file(attempt_dir($n1, $job, 1) . '/stdout');
	wait_for('its output is kept', 60, sub { -e attempt_dir($n1, $job, 1) . '/output_kept' });
	($owner{$account}) = map { join(' ', (stat)[ 4, 2 ]) } glob("$site/*-$job-1/n1.stdout");
}
is($uid{alice}, "700002\n", 'another account has another user');
is($uid{$_}, getpwnam('daemon') . "\n", "$_ has that of its line") foreach qw(vision vision/bob);
is($owner{$_}, getpwnam('daemon') . ' ' . 0100600, "... who alone may read the output of $_") foreach qw(vision vision/bob);
is($owner{alice}, '0 ' . 0100600, 'a user whose number is another account\'s elsewhere owns no output');

# Such a job has its user's HOME, and saves where it is told, also under bwrap.
my $save = PostgreSQL::Test::Utils::tempdir_short();
chmod 0777, $save;
my $saves = submit($cluster, '0', q{echo "home $HOME"; mkdir -p $GPUCREDIT_SAVE_TO && echo weights > $GPUCREDIT_SAVE_TO/ck; echo "checkpoint 4 $GPUCREDIT_SAVE_TO/ck" >&3; sleep 2},
	no_lock => 1, account => 'vision', checkpoint_to => "$save/runs", output => 'said.txt');
wait_for_state($cluster, $saves, 'completed');
my $saved = attempt_dir($n1, $saves, 1);
is(slurp_file("$saved/work/said.txt"), 'home ' . (getpwnam('daemon'))[7] . "\n", 'its output is in its folder, and its HOME is its user\'s');
is(slurp_file("$save/runs/acme/$saves/1/ck"), "weights\n", 'it saved where it was told');
is(query($server, 'credit', "SELECT step FROM gpucredit.checkpoint WHERE job = $saves"), 4, 'and the database knows');

# No user is left: not started, and not as another's.
query($server, 'credit', "SELECT gpucredit.create_account('acme', '$_')") foreach qw(carol dave);
my @jobs = map { submit($cluster, '0', 'id -u', no_lock => 1, account => $_) } qw(carol dave);
wait_for_state($cluster, $jobs[0], 'completed');
wait_for('no user is left', 20, sub { place($cluster); job_row($cluster, $jobs[1], 'attempt') > 1 });
is(query($server, 'credit', "SELECT outcome || ' ' || message FROM gpucredit.attempt WHERE job = $jobs[1] AND attempt = 1"),
	'not_started no user is left for its account: raise uids', 'it is said');
query($server, 'credit', "SELECT gpucredit.cancel('acme', $jobs[1], 'c')");
wait_for_state($cluster, $jobs[1], 'cancelled');
# A lost folder of the agent: forget ends what is left, and the next agent is
# heard again.
my $lost = submit($cluster, '0', 'exec sleep 1000', no_lock => 1, account => 'alice', args => ', max_retries => 0');
wait_for('it runs', 20, sub { my $d = attempt_dir($n1, $lost, 1); $d && -e "$d/main" });
my @bin = ($ENV{GC_AGENT_BIN} . '/gpucredit-agent', 'forget', 'n1', "$n1->{folder}/agent.conf");
isnt(system(@bin), 0, 'a node that still has its folder is not forgotten');
kill_agent($n1);
system('rm', '-rf', "$n1->{folder}/state") == 0 or die 'rm';
start_agent($n1);
waitpid($n1->{pid}, 0);
like(agent_log($n1), qr/event=superseded node=n1/, 'an agent without its folder is refused');
system('rm', '-rf', "$n1->{folder}/state") == 0 or die 'rm';
is(system(@bin), 0, 'the node is forgotten');
is(scalar(processes_of_attempt($lost)), 0, 'nothing is left of what ran');
start_agent($n1);
wait_for('its job is over', 30, sub { place($cluster); query($server, 'credit', "SELECT outcome FROM gpucredit.attempt WHERE job = $lost AND attempt = 1") ne '' });
query($server, 'credit', "SELECT gpucredit.cancel('acme', $lost, 'lost')");
wait_for_state($cluster, $lost, 'cancelled');
my $next = submit($cluster, '1xT4', 'true', no_lock => 1, account => 'alice');
wait_for_state($cluster, $next, 'completed');

unlink '/dev/gpu-a', '/dev/gpu-b';
end_cluster($cluster);
done_testing();

# A job of one organisation tries what is another's, and the node's.
sub apart
{
	my ($isolation) = @_;
	my $mine = submit($cluster, '1xT4', q{id -u; umask 077; echo secret > secret; sleep 4},
		no_lock => 1);

	wait_for('it runs', 20, sub { my $d = attempt_dir($n1, $mine, 1); $d && -e "$d/work/secret" });
	my $dir = attempt_dir($n1, $mine, 1);
	my ($pid) = processes_of_attempt($mine, 1);
	my $theirs = submit($cluster, '1xT4', qq{
		id -u
		cat $dir/work/secret && echo READ
		cat $dir/intent && echo READ
		cat $dir/stdout && echo READ
		cat $key && echo READ
		cat /proc/$pid/environ && echo READ
		kill -TERM $pid && echo KILLED
		for d in \$GPUCREDIT_DEVICES; do head -c 0 < \$d && echo mine; done
		for d in /dev/gpu-a /dev/gpu-b; do [ \$d = \$GPUCREDIT_DEVICES ] || { head -c 0 < \$d && echo OPENED; }; done
		cat /proc/self/oom_score_adj
	}, org => 'rival', no_lock => 1);
	wait_for_state($cluster, $theirs, 'completed', 30, 'rival');
	wait_for_state($cluster, $mine,   'completed');
	my @said = split /\n/, slurp_file(attempt_dir($n1, $theirs, 1) . '/stdout');
	my ($uid) = split /\n/, slurp_file("$dir/stdout");

	cmp_ok($uid, '>=', 700000, "$isolation: it runs as a user of its account");
	isnt($said[0], $uid, 'the other organisation has another');
	is(scalar(grep { /READ|KILLED/ } @said), 0,
		'it neither reads nor ends what is not its own');
	is($said[-1], 0, 'nor has it what the agent is to the memory killer');
	bill_is_fair($cluster, $mine, 1, 4);
  SKIP:
	{
		skip 'no cgroup, or no device files here', 2 unless $filtered;
		is(scalar(grep { /^mine/ } @said), 1, 'it opens its own device');
		is(scalar(grep { /OPENED/ } @said), 0, 'and opens no device but its own');
	}
	return;
}
