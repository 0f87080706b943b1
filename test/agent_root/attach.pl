# attach.pl: on a node whose agent is root, a terminal has the job's user,
# namespaces and network, and no right of root's

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use GpuCredit;
use GpuCreditAgent;
use IO::Socket::INET;
use IPC::Run qw(run start);
use POSIX ();
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

plan skip_all => 'only root can give jobs users of their own' if $> != 0;

my $cluster = cluster('attach');
my $server  = $cluster->{server};
my $n1      = add_node($cluster, 'n1', 2, stopped => 1);
my $folder  = PostgreSQL::Test::Utils::tempdir_short();
my $bin     = $ENV{GC_AGENT_BIN} || "$FindBin::RealBin/../../agent";
# a service of the node, on the node's loopback address
my $service = IO::Socket::INET->new(Listen => 5, LocalAddr => '127.0.0.1');
my $free    = IO::Socket::INET->new(Listen => 1, LocalAddr => '127.0.0.1');
my $port    = $free->sockport;
my $relay;

END { local $?; kill('KILL', $relay) if $relay }

close($free);
chmod 0711, $n1->{folder};
$relay = fork();
if ($relay == 0)
{
	open(STDERR, '>', "$folder/relay.log");
	exec("$bin/gpucredit-agent", 'relay', "127.0.0.1:$port", "$folder/relay.pem") or POSIX::_exit(127);
}
wait_for('the relay starts', 60, sub { -e "$folder/relay.log" && slurp_file("$folder/relay.log") =~ /digest=/ });
my ($digest) = slurp_file("$folder/relay.log") =~ /digest=([0-9a-f]{64})/;
query($server, 'credit', "ALTER DATABASE credit SET gpucredit.relay = '127.0.0.1:$port $digest'");
$ENV{GPUCREDIT_ORG} = 'acme';
$ENV{GPUCREDIT_DATABASE} = sprintf('host=%s port=%s dbname=credit user=postgres', $server->host, $server->port);

foreach my $isolation (qw(plain bwrap))
{
  SKIP:
	{
		skip 'no bwrap, or no namespaces on this machine', 1
		  if $isolation eq 'bwrap' && system('bwrap --ro-bind / / --unshare-pid true >/dev/null 2>&1') != 0;
		attached($isolation);
	}
}
end_cluster($cluster);
done_testing();

sub attached
{
	my ($isolation) = @_;

	end_agent($n1);
	$n1->{conf} = [ 'first_uid = 700000', "isolation = $isolation", 'listen = yes' ];
	start_agent($n1);
	my $job = submit($cluster, '1xT4', q{exec perl -MIO::Socket::INET -e '
		my $s = IO::Socket::INET->new(Listen => 5, LocalAddr => "127.0.0.1", LocalPort => 8888, ReuseAddr => 1) or die;
		open(my $f, ">", "up"); close($f);
		while (my $c = $s->accept) { print $c "of the job\n"; close $c }'}, no_lock => 1);
	wait_for("$isolation: it runs", 60, sub { my $d = attempt_dir($n1, $job, 1); $d && -e "$d/work/up" });
	wait_for_state($cluster, $job, 'running');
	my ($status, $out, $err) = gpucredit('attach', $job, 'sh', '-c', <<~'SH');
		echo "uid $(id -u) gid $(id -g) groups $(id -G)"
		tr '\0' '\n' < /proc/$(pgrep -f 'perl -MIO' | head -1)/environ | grep ^GPUCREDIT_ATTEMPT
		for ns in mnt pid net ipc uts user; do
			[ $(readlink /proc/self/ns/$ns) = $(readlink /proc/$(pgrep -f 'perl -MIO' | head -1)/ns/$ns) ] || echo "another $ns"
		done
		grep -E '^(CapPrm|CapEff|CapBnd|NoNewPrivs|Seccomp):' /proc/self/status
		pwd; ls up; touch attached && echo wrote
		unshare -m true 2>&1
		exit 7
		SH
	my $user = (stat(attempt_dir($n1, $job, 1) . '/work'))[4];

	$out =~ s/\r//g;
	is($status, 7, "$isolation: a terminal") or diag("$out$err");
	like($out, qr/^uid $user gid \d+ groups (\d+)$/m, 'as the job\'s user');
	like($out, qr{^GPUCREDIT_ATTEMPT=acme/$job/1$}m, 'it sees the job\'s program');
	unlike($out, qr/^another/m, 'in the same namespaces') or diag($out);
	like($out, qr/^CapPrm:\s0+\nCapEff:\s0+\nCapBnd:\s0+\nNoNewPrivs:\s1\nSeccomp:\s2$/m, 'without a right of root\'s') or diag($out);
	like($out, qr/^up\nwrote$/m, 'in the job\'s folder');
	like($out, qr/unshare failed: Operation not permitted/, 'what the filter refuses the job it refuses here');
	is((stat(attempt_dir($n1, $job, 1) . '/work/attached'))[4], $user, 'what it writes is the job\'s user\'s');

	is(through($job, 8888), "of the job\n", "$isolation: the job's port is forwarded");
	is(through($job, $service->sockport), '', 'a service of the node is not');
	($status, $out) = gpucredit('attach', $job, 'sh', '-c', 'setsid sh -c "touch left; exec env -i sleep 86398" & until [ -e left ]; do sleep 0.1; done');
	wait_for('it leaves a process', 60, sub { scalar(processes_of("sleep\0" . '86398')) });
	query($server, 'credit', "SELECT gpucredit.cancel('acme', $job, 'c$job')");
	wait_for_state($cluster, $job, 'cancelled');
	is(scalar(processes_of("sleep\0" . '86398')), 0, 'which ends with the job');
	my ($carrier) = grep { slurp_file("/proc/$_/cmdline") =~ /^gpucredit-agent\0session/ } processes_of('session');
	is($carrier, undef, 'nothing carries a session any more');
	return;
}

sub gpucredit
{
	my ($out, $err) = ('', '');

	run([ "$bin/../cli/gpucredit", @_ ], '<', \'', '>', \$out, '2>', \$err);
	return ($? >> 8, $out, $err);
}

# What a port of the job answers.
sub through
{
	my ($job, $port) = @_;
	my $said = '';
	my $run = start([ "$bin/../cli/gpucredit", 'forward', $job, "0:$port" ], '<', \'', '>', '/dev/null', '2>', \$said);

	wait_for('forwarding', 60, sub { $run->pump_nb; $said =~ /127\.0\.0\.1:\d+/ });
	my ($local) = $said =~ /127\.0\.0\.1:(\d+)/;
	my $socket = IO::Socket::INET->new(PeerAddr => "127.0.0.1:$local", Timeout => 60) or die "$!";
	my $answer = readline($socket) // '';

	$run->kill_kill;
	return $answer;
}
