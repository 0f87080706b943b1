# GpuCreditHttp.pm: a server with the HTTP interface in it, and its daemon
package GpuCreditHttp;

use strict;
use warnings;

use Exporter 'import';
use FindBin;
use HTTP::Tiny;
use JSON::PP;
use POSIX ();
use Test::More;
use Time::HiRes 'sleep';

use lib "$FindBin::RealBin/../../test/perl";
use GpuCredit;				# finds PostgreSQL's modules
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;

our @EXPORT = qw(
  http_node token daemon_start daemon_stop daemon_pid daemon_port call raw
  memory_of
);

my %daemon;

# A server, and a database "web": organisations "acme" and "rival" with credit,
# a pool of eight GPUs, tenants "ann" (acme/nlp), "bob" (acme/vision), "eve"
# (rival), an operator "ops", an administrator "root_admin", an auditor "aud".
sub http_node
{
	my ($name, @conf) = @_;
	my $node = new_node($name, "shared_preload_libraries = 'gpucredit'", @conf);

	$node->safe_psql('postgres', q{CREATE DATABASE web ENCODING 'UTF8' TEMPLATE template0});
	$node->safe_psql('web', 'CREATE EXTENSION gpucredit_http CASCADE');
	$node->safe_psql('web', q{
		CREATE ROLE ann LOGIN IN ROLE gpucredit_tenant;
		CREATE ROLE bob LOGIN IN ROLE gpucredit_tenant;
		CREATE ROLE eve LOGIN IN ROLE gpucredit_tenant;
		CREATE ROLE ops LOGIN IN ROLE gpucredit_operator;
		CREATE ROLE aud LOGIN IN ROLE gpucredit_auditor;
		CREATE ROLE root_admin LOGIN IN ROLE gpucredit_admin;
		SELECT gpucredit.create_account('acme'), gpucredit.create_account('rival');
		SELECT gpucredit.create_account('acme', 'nlp'), gpucredit.create_account('acme', 'vision');
		SELECT gpucredit.bind_tenant('ann', 'acme', 'nlp'), gpucredit.bind_tenant('bob', 'acme', 'vision'),
			gpucredit.bind_tenant('eve', 'rival');
		SELECT gpucredit.issue(org, '', 'i', 100) FROM unnest('{acme,rival}'::text[]) org;
		SELECT gpucredit.set_price('H100', 2);
		SELECT gpucredit.register_node('default', 'n1', 'H100', 8, 80000)});
	return $node;
}

# The secret of a new token.
sub token
{
	my ($node, $role, $scope, $ttl) = @_;

	return $node->safe_psql('web', sprintf(
			q{SELECT secret FROM gpucredit_http.issue_token('%s', '%s', '%s')},
			$role, $scope // 'admin', $ttl // '1 hour'));
}

# Starts gpucreditd on a free port, with TLS if the options say so.
sub daemon_start
{
	my ($node, @options) = @_;
	my $port = $daemon{port} || PostgreSQL::Test::Cluster::get_free_port();
	my $log = $node->logfile =~ s/\.log$/-gpucreditd.log/r;
	my $pid = fork() // die "could not fork: $!";

	if ($pid == 0)
	{
		open(STDERR, '>>', $log) && open(STDOUT, '>&', \*STDERR) or POSIX::_exit(1);
		exec "$FindBin::RealBin/../gpucreditd", '--port', $port,
		  '--database', sprintf('host=%s port=%s dbname=web user=gpucredit_gateway',
			$node->host, $node->port), @options
		  or POSIX::_exit(127);
	}
	%daemon = (pid => $pid, port => $port);
	my $scheme = (grep { $_ eq '--tls-certificate' } @options) ? 'https' : 'http';
	for (1 .. 600)
	{
		return if HTTP::Tiny->new(timeout => 5, verify_SSL => 0)->get("$scheme://127.0.0.1:$port/healthz")->{success};
		sleep 0.1;
	}
	die "gpucreditd does not answer; see $log\n";
}

# Ends the daemon; its exit status.
sub daemon_stop
{
	my ($signal) = @_;
	my $pid = delete $daemon{pid} or return;

	kill $signal || 'TERM', $pid;
	waitpid $pid, 0;
	return $?;
}

END
{
	my $status = $?;

	daemon_stop('KILL');
	$? = $status;
}

sub daemon_pid { return $daemon{pid} }
sub daemon_port { return $daemon{port} }

# A request with a token; its answer, with the JSON of its body in "json".
sub call
{
	my ($token, $method, $path, $body, %headers) = @_;

	$headers{authorization} = "Bearer $token" if defined $token;
	$headers{'content-type'} = 'application/json' if defined $body;
	my $answer = HTTP::Tiny->new(timeout => 60)->request($method,
		"http://127.0.0.1:$daemon{port}$path",
		{ headers => \%headers, defined $body ?
			  (content => ref $body ? encode_json($body) : $body) : () });

	$answer->{json} = eval { JSON::PP->new->allow_nonref->decode($answer->{content}) };
	return $answer;
}

# Bytes as they are, on a connection of their own; what comes back until it is
# closed, or for so many seconds.
sub raw
{
	my ($bytes, $seconds) = @_;
	my $answer = '';
	my $socket = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $daemon{port})
	  or die "could not connect: $!";

	local $SIG{PIPE} = 'IGNORE';
	$socket->syswrite($bytes);
	eval {
		local $SIG{ALRM} = sub { die "late\n" };
		alarm($seconds || 5);
		while ($socket->sysread(my $piece, 65536)) { $answer .= $piece }
		alarm 0;
	};
	alarm 0;
	return $answer;
}

# The resident memory of the daemon, in MiB.
sub memory_of
{
	open(my $file, '<', "/proc/$_[0]/status") or die;
	my ($kib) = join('', <$file>) =~ /^VmRSS:\s+(\d+)/m;
	return $kib / 1024;
}

1;
