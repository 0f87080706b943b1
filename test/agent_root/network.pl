# network.pl: what a job reaches by network, and who reaches it
#
# The node is a network namespace, and so is everything outside it: another
# node, the database's host, the cloud's metadata, the internet.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use GpuCredit;
use GpuCreditAgent;
use IO::Socket::INET;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);

plan skip_all => 'only root can make networks' if $> != 0;
plan skip_all => "no $_ on this machine"
  foreach grep { system("command -v $_ >/dev/null") != 0 } qw(ip nsenter slirp4netns);

my ($inside, $outside) = ("gc-in-$$", "gc-out-$$");
my @servers;

$SIG{$_} = sub { exit 1 } foreach qw(INT TERM HUP);

END
{
	local $?;

	kill('KILL', @servers) if @servers;
	system("ip netns del $_ 2>/dev/null") foreach grep { defined } $inside, $outside;
}
plan skip_all => 'no network namespaces on this machine' unless make_networks();

my $cluster = cluster('network');
my $server  = $cluster->{server};
my $socket  = $server->host;
my $n1      = add_node($cluster, 'n1', 4, stopped => 1,
	wrap => [ 'nsenter', "--net=/run/netns/$inside" ],
	database => "host=$socket,203.0.113.5 port=" . $server->port . ' dbname=credit user=postgres');
plan skip_all => 'the server has no socket' unless $socket =~ m{^/};
chmod 0711, $n1->{folder};
query(
	$server, 'credit', q{
	SELECT gpucredit.create_account('rival'), gpucredit.issue('rival', '', 'paid', 1000)});

# What the node itself reaches: else the rest would prove nothing.
my %hosts = (node => '192.0.2.10', neighbour => '192.0.2.20', metadata => '169.254.169.254', azure => '168.63.129.16',
	database => '203.0.113.5', other => '10.9.9.9', exempt => '10.8.8.8', internet => '198.51.100.7',
	anycast => '203.0.113.77');
my $reach = "for h in " . join(' ', map { "$_:$hosts{$_}" } sort keys %hosts) . q{; do
	timeout 5 bash -c "exec 3<>/dev/tcp/${h#*:}/8080 && head -c 5 <&3" 2>/dev/null | grep -q HELLO && echo "reached ${h%%:*}"
done};
like(`nsenter --net=/run/netns/$inside bash -c '$reach'`, qr/(reached \w+\s+){9}/, 'the node reaches all of them');

my @kinds = ('plain');
push @kinds, 'bwrap' if system('bwrap --ro-bind / / --unshare-pid true >/dev/null 2>&1') == 0;
foreach my $isolation (@kinds)
{
	foreach my $network (qw(private outbound))
	{
		end_agent($n1);
		$n1->{conf} = [ 'first_uid = 700000', "isolation = $isolation",
			($network eq 'private' ? () : ("network = $network", 'network_allow = 10.8.0.0/16')) ];
		start_agent($n1);
		apart("$isolation, $network", $network eq 'private' ? [] : [ 'exempt', 'internet' ]);
	}
}

# slirp4netns dies: the job goes on, and soon reaches what it did before.
my $job = submit($cluster, '1xT4', qq{echo up > up; while [ ! -e go ]; do sleep 0.1; done
	for i in \$(seq 100); do s=\$($reach); case \$s in *internet*) break ;; esac; sleep 0.3; done; echo "\$s"}, no_lock => 1);
wait_for('it runs', 60, sub { my $d = attempt_dir($n1, $job, 1); $d && -e "$d/work/up" });
my ($slirp) = grep { slurp_file("/proc/$_/cmdline") =~ /^slirp4netns/ } processes_of('/proc/' . keeper_pid($n1, $job, 1) . '/ns/net');
ok($slirp && kill('KILL', $slirp), 'what connects it is killed');
append_to_file(attempt_dir($n1, $job, 1) . '/work/go', '');
wait_for_state($cluster, $job, 'completed', 90);
is(slurp_file(attempt_dir($n1, $job, 1) . '/stdout'), "reached exempt\nreached internet\n", 'the job is connected again, and not to more');
bill_is_fair($cluster, $job, 1);

# On a node that cannot connect it, a job does not start.
end_agent($n1);
push @{ $n1->{conf} }, 'slirp4netns = /no/such/slirp4netns';
start_agent($n1);
$job = submit($cluster, '1xT4', 'true', no_lock => 1);
wait_for('it is not started', 60, sub { (job_row($cluster, $job, 'outcome') || '') eq 'not_started' });
is(job_row($cluster, $job, 'message'), 'network: slirp4netns does not run', 'and it is said why');
query($server, 'credit', "SELECT gpucredit.cancel('acme', $job, 'c')");
wait_for_state($cluster, $job, 'cancelled');
end_agent($n1);

# Mistakes in the configuration end the agent.
foreach my $bad ('network = open', "network = outbound\nnetwork_allow = 10.0.0.0/40", "network = outbound\nnetwork_allow = all")
{
	$n1->{conf} = [ 'first_uid = 700000', $bad ];
	start_agent($n1);
	waitpid($n1->{pid}, 0);
	is($? >> 8, 1, "it ends: $bad");
}
delete $n1->{pid};
end_cluster($cluster);
done_testing();

# One organisation's job listens, another's looks for it and for the rest.
sub apart
{
	my ($name, $reached) = @_;
	my $listens = q{perl -MIO::Socket::INET -e '$s = IO::Socket::INET->new(Listen => 5, LocalPort => 8081, ReuseAddr => 1) or die;
		$c = IO::Socket::INET->new("127.0.0.1:8081"); open($f, ">", "up"); close($f); sleep 1 while ! -e "end"; print $c ? "heard" : "deaf"'};
	my $mine = submit($cluster, '1xT4', $listens, no_lock => 1);

	wait_for("$name: it listens", 60, sub { my $d = attempt_dir($n1, $mine, 1); $d && -e "$d/work/up" });
	my $theirs = submit($cluster, '1xT4', $reach . q{
		for h in 127.0.0.1 192.0.2.10 10.0.2.2 10.0.2.100; do timeout 5 bash -c "exec 3<>/dev/tcp/$h/8081" 2>/dev/null && echo "found $h"; done
		ip link set lo down 2>/dev/null && echo "changed"; ip route add 10.0.0.0/9 via 10.0.2.2 2>/dev/null && echo "changed"
		nsenter --net=/proc/1/ns/net true 2>/dev/null && echo "left"
		perl -MIO::Socket::INET -e '$s = IO::Socket::INET->new(Listen => 5, LocalAddr => $ENV{MASTER_ADDR}, LocalPort => $ENV{MASTER_PORT}) && IO::Socket::INET->new("$ENV{MASTER_ADDR}:$ENV{MASTER_PORT}") && print "met itself\n"'
		cat /etc/resolv.conf | head -1; true}, org => 'rival', no_lock => 1);
	wait_for_state($cluster, $theirs, 'completed', 90, 'rival');
	my $said = slurp_file(attempt_dir($n1, $theirs, 1) . '/stdout');
	is(join(' ', $said =~ /^reached (\w+)$/mg), join(' ', @$reached), 'another tenant\'s job reaches what its node allows');
	unlike($said, qr/^found/m, 'and finds no job');
	unlike($said, qr/^changed|^left/m, 'nor changes its network, nor leaves it');
	like($said, qr/^met itself$/m, 'its own processes meet at MASTER_ADDR');
	like($said, qr/^nameserver 10\.0\.2\.3$/m, 'it asks a resolver that it reaches') if @$reached;
	append_to_file(attempt_dir($n1, $mine, 1) . '/work/end', '');
	wait_for_state($cluster, $mine, 'completed', 60);
	is(slurp_file(attempt_dir($n1, $mine, 1) . '/stdout'), 'heard', 'the job has a loopback of its own');
	bill_is_fair($cluster, $mine, 1);
	return;
}

# Two namespaces with a cable; everything outside answers at port 8080.
sub make_networks
{
	foreach ("ip netns add $inside", "ip netns add $outside",
		"ip -n $inside link add gc0 type veth peer name gc1 netns $outside",
		"ip -n $inside link set lo up", "ip -n $inside addr add 203.0.113.77/32 dev lo", "ip -n $outside link set lo up",
		"ip -n $inside addr add 192.0.2.10/24 dev gc0", "ip -n $inside link set gc0 up",
		(map { "ip -n $outside addr add $_ dev gc1" } '192.0.2.20/24', map { "$_/32" }
			qw(169.254.169.254 168.63.129.16 203.0.113.5 10.9.9.9 10.8.8.8 198.51.100.7)),
		"ip -n $outside link set gc1 up", "ip -n $inside route add default via 192.0.2.20")
	{
		return 0 if system("$_ 2>/dev/null") != 0;
	}
	foreach my $ns ($inside, $outside)
	{
		my $pid = fork();

		die "fork: $!" unless defined $pid;
		if ($pid == 0)
		{
			exec('nsenter', "--net=/run/netns/$ns", 'perl', '-MIO::Socket::INET', '-e',
				q{$SIG{PIPE} = 'IGNORE'; $s = IO::Socket::INET->new(Listen => 50, LocalPort => 8080, ReuseAddr => 1) or die; while (1) { $c = $s->accept or next; print $c "HELLO\n"; close $c }});
		}
		push @servers, $pid;
	}
	sleep(0.05) while grep { system("nsenter --net=/run/netns/$_ bash -c 'exec 3<>/dev/tcp/127.0.0.1/8080' 2>/dev/null") != 0 } $inside, $outside;
	return 1;
}
