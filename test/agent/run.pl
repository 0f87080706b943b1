# run.pl: real programs run, end in every way, and are billed for their seconds

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use GpuCredit;
use GpuCreditAgent;
use POSIX ();
use PostgreSQL::Test::Utils;
use Test::More;

my $cluster = cluster('run');
my $n1      = add_node($cluster, 'n1', 4);

# ends well
my $trace = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
my $job = do {
	local $ENV{PGOPTIONS} = "-c gpucredit.traceparent=$trace";

	submit($cluster, '1xT4', q{echo "on $CUDA_VISIBLE_DEVICES of $TRACEPARENT"; sleep 2});
};
wait_for_state($cluster, $job, 'completed');
is(job_row($cluster, $job, 'exit_code'), '0', 'the job that completes has exit code 0');
bill_is_fair($cluster, $job, 1, 2);
like(slurp_file(attempt_dir($n1, $job, 1) . '/stdout'),
	qr/^on GPU-n1-0 of \Q$trace\E$/, 'the job was told its device by name, and the trace that it was submitted with');

is(query($cluster->{server}, 'credit', q{SELECT about ->> 'version' = (SELECT extversion FROM pg_extension WHERE extname = 'gpucredit') FROM gpucredit.node WHERE node = 'n1'}),
	't', 'the database knows the version of the node\'s agent');

# fails: the code and the last words of stderr
$job = submit($cluster, '2xT4',
	q{sleep 1; echo "no such layer$TRACEPARENT" >&2; exit 2});
wait_for_state($cluster, $job, 'failed');
is(job_row($cluster, $job, 'exit_code || message'),
	"2no such layer", 'a job that fails has its exit code and its last words');
bill_is_fair($cluster, $job, 2, 1);

# killed by a signal
$job = submit($cluster, '1xT4', q{kill -KILL $$});
wait_for_state($cluster, $job, 'failed');
is(job_row($cluster, $job, 'exit_code'), '137', 'a signal is 128 and it');

# a program that is not there
$job = submit($cluster, '1xT4', '', argv => ['/nowhere/train']);
wait_for_state($cluster, $job, 'failed');
is(job_row($cluster, $job, "exit_code || ' ' || message"),
	'127 /nowhere/train: No such file or directory', 'a program that is not there is its fault');

# leftover processes are ended, also those that fled twice
$job = submit($cluster, '1xT4',
	q{(setsid sh -c 'sleep 1000 & exec sleep 1001' &) ; sleep 1});
wait_for_state($cluster, $job, 'completed');
is(join(' ', processes_of("OUT=$cluster->{submitted}{$job}", 'environ')), '',
	'nothing that it started is left');

# cancelled: SIGTERM lets the program clean up
$job = submit($cluster, '1xT4',
	q{trap 'echo bye > $OUT/bye; exit 0' TERM; echo up > $OUT/up; while :; do sleep 0.1; done});
wait_for('it runs', 20, sub { -e "$cluster->{submitted}{$job}/up" });
query($cluster->{server}, 'credit',
	"SELECT gpucredit.cancel('acme', $job, 'c$job')");
wait_for_state($cluster, $job, 'cancelled');
ok(-e "$cluster->{submitted}{$job}/bye", 'a cancelled job could clean up');

# a program that ignores it is killed
$job = submit($cluster, '1xT4',
	q{trap '' TERM; echo up > $OUT/up; while :; do sleep 0.1; done});
wait_for('it runs', 20, sub { -e "$cluster->{submitted}{$job}/up" });
query($cluster->{server}, 'credit',
	"SELECT gpucredit.cancel('acme', $job, 'c$job')");
wait_for_state($cluster, $job, 'cancelled');

# output without end does not stop it
$job = submit($cluster, '1xT4', q{timeout 2 yes; echo end >&2});
wait_for_state($cluster, $job, 'completed');
bill_is_fair($cluster, $job, 1, 2);
cmp_ok(-s attempt_dir($n1, $job, 1) . '/stdout',
	'<=', 65 << 20, 'the kept output of a job is bounded');

# eight at once on four devices
my @jobs = map { submit($cluster, '1xT4', 'sleep 1') } 1 .. 8;
wait_for_state($cluster, $_, 'completed', 60) foreach @jobs;
bill_is_fair($cluster, $_, 1, 1) foreach @jobs;

# a node with a key: only its own agent settles there
end_agent($n1);
append_to_file("$n1->{folder}/key", "secret of n1\n");
chmod 0600, "$n1->{folder}/key";
query($cluster->{server}, 'credit', q{
	CREATE ROLE agents LOGIN IN ROLE gpucredit_agent;
	SELECT gpucredit.set_node_key('n1', sha256('secret of n1'))});
$n1->{database} = sprintf('dbname=credit user=agents host=%s port=%s',
	$cluster->{server}->host, $cluster->{server}->port);
start_agent($n1);
wait_for('without its key it is refused', 20,
	sub { agent_log($n1) =~ /event=heartbeat_refused state=42501/ });
end_agent($n1);
$n1->{conf} = ["node_key = $n1->{folder}/key"];
start_agent($n1);
$job = submit($cluster, '1xT4', 'sleep 1');
wait_for_state($cluster, $job, 'completed');
bill_is_fair($cluster, $job, 1, 1);

# in both kinds of isolation a job has no capabilities, and may not mount, make
# namespaces, load BPF programs or kernels, or trace others
my $forbidden = q{
perl -e 'my ($dir, $type) = ("/tmp", "tmpfs"); my %call = (mount => [165, $type, $dir, $type, 0, 0],
	unshare => [272, 0x10000000], bpf => [321, 0, 0, 0], kexec => [246, 0, 0, 0, 0],
	keyctl => [250, 0, 0, 0], ptrace => [101, 16, getppid, 0, 0]);
	for (sort keys %call) { my ($n, @args) = @{$call{$_}}; my $r = syscall($n, @args); print "$_ ", $r < 0 ? $!+0 : "done", "\n" }'
grep -E '^(Cap(Prm|Eff|Bnd)|NoNewPrivs|Seccomp):' /proc/self/status};
my $amd64 = (POSIX::uname())[4] eq 'x86_64';
my $refused = join("\n", map { "$_ 1" } qw(bpf kexec keyctl mount ptrace unshare));

$job = submit($cluster, '1xT4', $forbidden);
wait_for_state($cluster, $job, 'completed');
my $said = slurp_file(attempt_dir($n1, $job, 1) . '/stdout');
like($said, $amd64 ? qr/^\Q$refused\E$/m : qr/^Seccomp:\s2$/m, 'a job is refused what changes the machine');
like($said, qr/^CapPrm:\s0+\nCapEff:\s0+\n(?s:.*)^NoNewPrivs:\s1\nSeccomp:\s2$/m,
	'a job has no capability, nor gets one');

# in its own namespaces a job sees neither others' processes nor their files
SKIP:
{
	skip 'no bwrap, or no namespaces on this machine', 8
	  if system('bwrap --ro-bind / / --unshare-pid true >/dev/null 2>&1') != 0;
	push @{ $n1->{conf} }, 'isolation = bwrap';
	end_agent($n1);
	start_agent($n1);
	$job = submit($cluster, '1xT4',
		q{ls /proc | grep -c '^[0-9]' ; ls -A /tmp | grep -v -c nothing; ls } . "$n1->{folder}/state");
	wait_for_state($cluster, $job, 'completed');
	my ($processes, $files, @state) =
	  split /\n/, slurp_file(attempt_dir($n1, $job, 1) . '/stdout');
	cmp_ok($processes, '<', 10, 'a job in its own namespaces sees its own processes alone');
	is("@state", 'run', 'a job in its own namespaces sees nothing of the agent');
	$job = submit($cluster, '1xT4',
		q{trap 'echo bye > bye; exit 0' TERM; echo up > up; while :; do sleep 0.1; done});
	wait_for('it runs', 20, sub { -e attempt_dir($n1, $job, 1) . '/work/up' });
	query($cluster->{server}, 'credit',
		"SELECT gpucredit.cancel('acme', $job, 'c$job')");
	wait_for_state($cluster, $job, 'cancelled');
	ok(-e attempt_dir($n1, $job, 1) . '/work/bye', 'a cancelled job in its own namespaces could clean up');
	$job = submit($cluster, '1xT4', $forbidden);
	wait_for_state($cluster, $job, 'completed');
	like(slurp_file(attempt_dir($n1, $job, 1) . '/stdout'),
		qr/^@{[ $amd64 ? "\Q$refused\E\n" : '' ]}CapPrm:\s0+\nCapEff:\s0+\n(?s:.*)^NoNewPrivs:\s1\nSeccomp:\s2$/m,
		'there, too, it is refused what changes the machine');
}

# an agent hears of new work at once, even with a long heartbeat interval
my $n2 = add_node($cluster, 'n2', 1, heartbeat_ms => 20000, conf => ['listen = yes']);
wait_for('it has asked once', 20,
	sub { query($cluster->{server}, 'credit', q{SELECT about IS NOT NULL FROM gpucredit.node WHERE node = 'n2'}) eq 't' });
query($cluster->{server}, 'credit', q{SELECT gpucredit.drain('n1', 'test')});
$job = submit($cluster, '1xT4', q{echo up > $OUT/up; while :; do sleep 0.1; done});
wait_for('a start, long before its next heartbeat', 3, sub { -e "$cluster->{submitted}{$job}/up" });
query($cluster->{server}, 'credit',
	"SELECT gpucredit.cancel('acme', $job, 'c$job')");
wait_for_state($cluster, $job, 'cancelled', 8);

end_cluster($cluster);
done_testing();
