# GpuCreditRegistry.pm: a server with the registry in it, and its daemon
package GpuCreditRegistry;

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
  registry_node registry_token daemon_start daemon_kill daemon_url
  request json_request registry_verify upkeep daemon_packs daemon_store daemon_pid
  keep_packs_in store_body drop_paths
);

my %daemon;
my @place;					# options that say where packs are kept

# A server, a database "reg", organisations "acme" and "rival" with credit.
sub registry_node
{
	my ($name, @conf) = @_;
	my $node = new_node($name, @conf);

	$node->safe_psql('postgres', 'CREATE DATABASE reg');
	$node->safe_psql('reg', 'CREATE EXTENSION gpucredit_registry CASCADE');
	$node->safe_psql('reg', q{
		CREATE ROLE registryd LOGIN IN ROLE gpucredit_registry_daemon;
		SELECT gpucredit.create_account('acme'), gpucredit.create_account('rival');
		SELECT gpucredit.create_account('acme', 'nlp'), gpucredit.create_account('acme', 'nlp/ann'),
			gpucredit.create_account('acme', 'vision');
		SELECT gpucredit.issue(org, '', 'i', 1000) FROM unnest('{acme,rival}'::text[]) org});
	return $node;
}

sub registry_token
{
	my ($node, $org, $account, $scope) = @_;

	return $node->safe_psql('reg', sprintf(
			q{SELECT gpucredit_registry.issue_token('%s', '%s', '%s')},
			$org, $account // '', $scope // 'write'));
}

# Daemons that start from now on keep packs elsewhere.
sub keep_packs_in
{
	@place = @_;
	return;
}

# Starts registryd on a free port, with TLS if the options say so and with the store that the server's name says.
sub daemon_start
{
	my ($node, @options) = @_;
	my $port = $daemon{port} || PostgreSQL::Test::Cluster::get_free_port();
	my $store = PostgreSQL::Test::Utils::tempdir() . '/../store-' . $node->name;
	my $log = $node->logfile =~ s/\.log$/-registryd.log/r;
	my @store = @place ? @place : ('--store', $store);
	my $pid = fork() // die "could not fork: $!";

	if ($pid == 0)
	{
		open(STDERR, '>>', $log) && open(STDOUT, '>&', \*STDERR) or POSIX::_exit(1);
		exec "$FindBin::RealBin/../registryd", @store, '--port', $port,
		  '--database', sprintf('host=%s port=%s dbname=reg user=registryd',
			$node->host, $node->port), @options
		  or POSIX::_exit(127);
	}
	%daemon = (pid => $pid, port => $port, store => $store, place => \@store, node => $node);
	my $address = daemon_url('/');
	$address =~ s/^http:/https:/ if grep { $_ eq '--tls-certificate' } @options;
	for (1 .. 600)
	{
		return if HTTP::Tiny->new(timeout => 5, verify_SSL => 0)->get($address)->{status} != 599;
		sleep 0.1;
	}
	die "registryd does not answer; see $log\n";
}

sub daemon_kill
{
	my ($signal) = @_;

	kill $signal || 'TERM', $daemon{pid} if $daemon{pid};
	waitpid $daemon{pid}, 0 if $daemon{pid};
	delete $daemon{pid};
	return;
}

END
{
	my $status = $?;

	daemon_kill('KILL');
	$? = $status;
}

sub daemon_url
{
	my ($path) = @_;

	return "http://127.0.0.1:$daemon{port}$path";
}

sub daemon_store { return $daemon{store} }

sub daemon_pid { return $daemon{pid} }

# The bytes of all packs.
sub daemon_packs
{
	my $bytes = 0;

	$bytes += -s foreach glob("$daemon{store}/*/*.pack");
	return $bytes;
}

# SQL by which an organisation has sent a small file; the body has no quotes.
sub store_body
{
	my ($org, $body) = @_;

	return qq{SELECT gpucredit_registry.store_bodies(ARRAY['$body'::bytea]),
		gpucredit_registry.use_objects('$org',
			gpucredit_registry.hold_objects('$org', ARRAY[sha256('$body')]));
		INSERT INTO gpucredit_registry.sender VALUES ('$org', sha256('$body'), 'account:$org/', gpucredit.now())
		ON CONFLICT DO NOTHING};
}

# SQL by which no version has certain files any more, so that their bytes go.
sub drop_paths
{
	my ($where) = @_;

	return qq{DELETE FROM gpucredit_registry.entry WHERE $where;
		UPDATE gpucredit_registry.version v SET files = (SELECT count(*)
			FROM gpucredit_registry.file f WHERE f.org = v.org AND f.version = v.version)};
}

# A round of upkeep, so many days from now.
sub upkeep
{
	my ($node, $days) = @_;

	$node->safe_psql('postgres', sprintf(q{ALTER DATABASE reg SET gpucredit.clock = '%s'},
			POSIX::strftime('%Y-%m-%d %H:%M:%S+00', gmtime(time + $days * 86400))));
	is(system("$FindBin::RealBin/../registryd", 'upkeep', @{ $daemon{place} },
			'--database', sprintf('host=%s port=%s dbname=reg user=registryd',
				$node->host, $node->port)), 0, "upkeep in $days days");
	$node->safe_psql('postgres', 'ALTER DATABASE reg RESET gpucredit.clock');
	return;
}

# An HTTP request: method, path or URL, and what HTTP::Tiny takes; "token" is
# sent, too.
sub request
{
	my ($method, $url, %options) = @_;

	$url = daemon_url($url) unless $url =~ /^https?:/;
	$options{headers}{authorization} = 'Bearer ' . delete $options{token}
	  if defined $options{token};
	delete $options{token};
	return HTTP::Tiny->new(timeout => 120, verify_SSL => 0)->request($method, $url, \%options);
}

sub json_request
{
	my ($method, $url, $token, $body) = @_;
	my $answer = request($method, $url, token => $token,
		defined $body ? (content => ref $body ? encode_json($body) : $body,
			headers => { 'content-type' => 'application/json' }) : ());

	$answer->{json} = eval { decode_json($answer->{content}) };
	return $answer;
}

# Tests: both extensions' books, and each stored byte.
sub registry_verify
{
	my ($node) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	is($node->safe_psql('reg', 'SELECT * FROM gpucredit_registry.verify() LIMIT 10'),
		'', 'the registry\'s verify() is empty');
	verify_empty($node, 'reg');
	is(system("$FindBin::RealBin/../registryd", 'verify', @{ $daemon{place} },
			'--database', sprintf('host=%s port=%s dbname=reg user=registryd',
				$node->host, $node->port)),
		0, 'each stored chunk has its digest')
	  if $daemon{store};
	return;
}

1;
