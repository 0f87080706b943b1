# GpuCreditAssets.pm: etcd and kube-apiserver of $KUBEBUILDER_ASSETS, for the
# tests of the Kubernetes bridge
#
#   start_assets($k);          # its URL, tokens and certificate go into $k
#   play_assets($k, 'ran');    # what of the play's words it can do
#   stop_assets($k);
#
# Scheduler and kubelets are the play's.  The bridge has the rights that
# docs/kubernetes.md gives it, and no others.
package GpuCreditAssets;

use strict;
use warnings;

use Exporter 'import';
use GpuCredit;
use GpuCreditAgent 'wait_for';
use IO::Socket::INET;
use POSIX ();
use PostgreSQL::Test::Utils;
use Time::HiRes 'sleep';

our @EXPORT = qw(start_assets start_kubelets ask_kubelets play_assets stop_assets);

sub start_assets
{
	my ($k, $home) = @_;
	my $folder = $k->{assets} = PostgreSQL::Test::Utils::tempdir();

	@$k{qw(etcd_port api_port)} = (free_port(), free_port());
	$k->{url} = "https://127.0.0.1:$k->{api_port}";
	$k->{token} = 'administrator';
	append_to_file("$folder/tokens.csv",
		"administrator,admin,1,system:masters\nbridge,bridge,2\n");
	append_to_file("$folder/token", 'bridge');
	run_openssl('req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-days', '2', '-subj', '/CN=127.0.0.1',
		'-addext', 'subjectAltName=IP:127.0.0.1', '-keyout', "$folder/tls.key", '-out', "$folder/tls.crt", '-batch');
	run_openssl('genrsa', '-out', "$folder/accounts.key", '2048');
	run_openssl('rsa', '-in', "$folder/accounts.key", '-pubout', '-out', "$folder/accounts.pub");
	my $peer = free_port();

	$k->{etcd_pid} = start($folder, 'etcd', "--data-dir=$folder/etcd",
		"--listen-client-urls=http://127.0.0.1:$k->{etcd_port}",
		"--advertise-client-urls=http://127.0.0.1:$k->{etcd_port}",
		"--listen-peer-urls=http://127.0.0.1:$peer",
		"--initial-advertise-peer-urls=http://127.0.0.1:$peer",
		"--initial-cluster=default=http://127.0.0.1:$peer");
	start_server($k);
	GpuCreditKubernetes::api($k, 'POST', '/api/v1/namespaces', { metadata => { name => 'gpucredit' } });
	grant_rights($k);
	start_kubelets($k, $home);
	@{ $k->{settings} }{qw(ca_file token_file)} = ("$folder/tls.crt", "$folder/token");
	return;
}

sub free_port
{
	my $socket = IO::Socket::INET->new(LocalAddr => '127.0.0.1', Listen => 1)
	  or die "no free port: $!\n";

	return $socket->sockport;
}

sub run_openssl
{
	my @words = @_;
	my $out;

	IPC::Run::run([ 'openssl', @words ], '>', \$out, '2>&1') or die "openssl: $out\n";
	return;
}

# A program of the assets, with its log in the folder.
sub start
{
	my ($folder, $name, @arguments) = @_;
	my $pid = fork();

	die "fork: $!" unless defined $pid;
	if ($pid == 0)
	{
		open(STDOUT, '>>', "$folder/$name.log");
		open(STDERR, '>&', \*STDOUT);
		exec("$ENV{KUBEBUILDER_ASSETS}/$name", @arguments) or POSIX::_exit(127);
	}
	return GpuCreditKubernetes::ends_with_us($pid);
}

sub start_server
{
	my ($k) = @_;
	my $folder = $k->{assets};

	$k->{api_pid} = start($folder, 'kube-apiserver',
		"--etcd-servers=http://127.0.0.1:$k->{etcd_port}",
		'--bind-address=127.0.0.1', '--advertise-address=127.0.0.1', "--secure-port=$k->{api_port}",
		"--cert-dir=$folder", "--tls-cert-file=$folder/tls.crt", "--tls-private-key-file=$folder/tls.key",
		"--token-auth-file=$folder/tokens.csv", '--authorization-mode=RBAC',
		"--service-account-issuer=$k->{url}", "--service-account-key-file=$folder/accounts.pub",
		"--service-account-signing-key-file=$folder/accounts.key", '--service-cluster-ip-range=10.0.0.0/24',
		'--disable-admission-plugins=ServiceAccount', '--allow-privileged=true');
	wait_for('the API server is ready', 120, sub {
		GpuCreditKubernetes::api($k, 'GET', '/readyz');
		return $k->{status} == 200;
	}) or die slurp_file("$folder/kube-apiserver.log");
	return;
}

# The rules of docs/kubernetes.md, for the bridge's token.
sub grant_rights
{
	my ($k) = @_;
	my $group = 'rbac.authorization.k8s.io';
	my @rules;

	foreach (slurp_checkout('docs/kubernetes.md') =~ /^\s*- (\{apiGroups:.*\})$/mg)
	{
		my %rule;

		$rule{$1} = [ map { s/^"(.*)"$/$1/r } split /,\s*/, $2 ]
		  while /(\w+): \[([^]]*)\]/g;
		push @rules, \%rule;
	}
	GpuCreditKubernetes::api($k, 'POST', "/apis/$group/v1/clusterroles",
		{ metadata => { name => 'gpucredit-bridge' }, rules => \@rules });
	GpuCreditKubernetes::api($k, 'POST', "/apis/$group/v1/clusterrolebindings", {
		metadata => { name => 'gpucredit-bridge' },
		roleRef  => { apiGroup => $group, kind => 'ClusterRole', name => 'gpucredit-bridge' },
		subjects => [ { apiGroup => $group, kind => 'User', name => 'bridge' } ] });
	return;
}

# The play's scheduler and kubelets, apart from the API server.
sub start_kubelets
{
	my ($k, $home) = @_;
	my $pid = open(my $out, '-|', $^X, "$home/play/kubelets", '--server', $k->{url}, '--token', $k->{token} // '')
	  or die "could not start the kubelets: $!";

	$k->{play_pid} = GpuCreditKubernetes::ends_with_us($pid);
	chomp($k->{play_url} = readline($out) // die "the kubelets did not start\n");
	$k->{play_out} = $out;
	return;
}

# A word of the play.  The server cuts its watches and is away by being killed,
# and forgets by etcd's compaction; it has no faults to order.
sub play_assets
{
	my ($k, $what) = @_;

	if ($what =~ /^(?:cut|forget|away\?s=([\d.]+))$/)
	{
		compact($k) if $what eq 'forget';
		GpuCreditKubernetes::end_process($k->{api_pid}, 'KILL');
		sleep $1 if defined $1;
		start_server($k);
		return {};
	}
	return {} if $what =~ /^(?:fault|events|page|many)/;
	return ask_kubelets($k, $what);
}

sub ask_kubelets
{
	my ($k, $what) = @_;

	return GpuCreditKubernetes::api({ %$k, url => $k->{play_url} }, 'GET', "/play/$what");
}

sub compact
{
	my ($k) = @_;
	my $list = GpuCreditKubernetes::api($k, 'GET', '/api/v1/pods?limit=1');
	my $to   = { revision => $list->{metadata}{resourceVersion}, physical => \1 };

	GpuCreditKubernetes::api({ %$k, url => "http://127.0.0.1:$k->{etcd_port}" },
		'POST', '/v3/kv/compaction', $to);
	return;
}

sub stop_assets
{
	my ($k) = @_;

	GpuCreditKubernetes::end_process($k->{$_}) foreach qw(play_pid api_pid etcd_pid);
	close($k->{play_out});
	return;
}

1;
