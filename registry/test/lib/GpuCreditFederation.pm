# GpuCreditFederation.pm: two registries, each with a daemon, and registry-mirror
package GpuCreditFederation;

use strict;
use warnings;

use Digest::SHA 'sha256_hex';
use Exporter 'import';
use FindBin;
use HTTP::Tiny;
use IPC::Run;
use JSON::PP;
use MIME::Base64;
use Time::HiRes 'sleep';

use GpuCredit;
use GpuCreditRegistry;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;

our @EXPORT = qw(far_start far_signal far_url far_sql here_sql push_version content_of
  registry_mirror mirror_program write_file database_of read_here);

my ($far, $far_port, $node);
my $far_scheme = 'http';

# A second registry, "far", of the same server: a database and a daemon of its
# own, with options. Its organisation is "acme", too, with repositories 1, "m", and 2, "n".
sub far_start
{
	($node, my @options) = @_;
	$far_scheme = 'https' if grep { $_ eq '--tls-certificate' } @options;
	$far_port = PostgreSQL::Test::Cluster::get_free_port();
	$node->safe_psql('postgres', 'CREATE DATABASE far');
	$node->safe_psql('far', 'CREATE EXTENSION gpucredit_registry CASCADE');
	$node->safe_psql('far', q{
		SELECT gpucredit.create_account('acme'), gpucredit.create_account('acme', 'lab');
		SELECT gpucredit.issue('acme', '', 'i', 1000);
		SELECT gpucredit_registry.create_model('acme', 'lab', 'm', 'k1', 'public', 'mit'),
			gpucredit_registry.create_model('acme', 'lab', 'n', 'k2', 'private')});
	$far = IPC::Run::start([ "$FindBin::RealBin/../registryd", '--store',
			PostgreSQL::Test::Utils::tempdir() . '/../store-far', '--port', $far_port,
			'--database', database_of('far', 'registryd'), @options ], '>&', '/dev/null');
	for (1 .. 600)
	{
		return if HTTP::Tiny->new(timeout => 5, verify_SSL => 0)->get(far_url('/'))->{status} != 599;
		sleep 0.1;
	}
	die "the far registryd does not answer\n";
}

END
{
	my $status = $?;

	$far->kill_kill(grace => 0) if $far;
	$? = $status;
}

sub far_url { return "$far_scheme://127.0.0.1:$far_port$_[0]" }
sub far_signal { return $far->signal($_[0]) }
sub far_sql { return query($node, 'far', $_[0]) }
sub here_sql { return query($node, 'reg', $_[0]) }

sub database_of
{
	my ($database, $user) = @_;

	return sprintf('host=%s port=%s dbname=%s%s', $node->host, $node->port, $database,
		$user ? " user=$user" : '');
}

# Bytes that do not repeat: the seed makes them.
sub content_of
{
	my ($seed, $size) = @_;
	my $text = '';

	srand($seed);
	$text .= pack('L', rand(2**32)) for 1 .. $size / 4;
	return $text;
}

# Commits files to a ref of a repository of the far registry: "lfs" of path to
# bytes, "text" of path to text, and "delete", a list. The oid of the commit.
sub push_version
{
	my ($token, $name, $ref, %files) = @_;
	my %lfs = %{ $files{lfs} // {} };
	my @lines = ({ key => 'header', value => { summary => $files{title} // 'a change',
				parents => $files{parents} // [] } });

	foreach my $path (sort keys %lfs)
	{
		my $oid = sha256_hex($lfs{$path});
		my $object = json_request('POST', far_url("/acme/$name.git/info/lfs/objects/batch"), $token,
			{   operation => 'upload', transfers => ['basic'],
				objects => [ { oid => $oid, size => length $lfs{$path} } ] })->{json}{objects}[0];

		if ($object->{actions})
		{
			my $sent = request('PUT', $object->{actions}{upload}{href}, content => $lfs{$path});
			die "PUT: $sent->{status}\n" if $sent->{status} >= 300;
		}
		push @lines, { key => 'lfsFile', value => { path => $path, algo => 'sha256', oid => $oid,
				size => length $lfs{$path} } };
	}
	push @lines, { key => 'file', value => { path => $_, encoding => 'base64',
			content => encode_base64($files{text}{$_}, '') } } foreach sort keys %{ $files{text} // {} };
	push @lines, { key => 'deletedFile', value => { path => $_ } } foreach @{ $files{delete} // [] };
	my $answer = json_request('POST', far_url("/api/models/acme/$name/commit/$ref"), $token,
		join("\n", map { encode_json($_) } @lines));

	die "commit: $answer->{status} $answer->{content}\n" if $answer->{status} != 200;
	return $answer->{json}{commitOid};
}

sub write_file
{
	my ($path, $content, $mode) = @_;

	open(my $file, '>:raw', $path) or die "$path: $!";
	print $file $content;
	close $file or die "$path: $!";
	chmod $mode // 0644, $path;
	return $path;
}

sub mirror_program
{
	return ('/usr/bin/python3', "$FindBin::RealBin/../mirror/registry-mirror", '--hub', @_);
}

# Runs registry-mirror; its exit status and all that it printed.
sub registry_mirror
{
	my ($hub, @arguments) = @_;
	my $out = '';

	IPC::Run::run([ mirror_program($hub, @arguments) ], '>&', \$out, IPC::Run::timeout(300));
	return ($? >> 8, $out);
}

# What a client of this registry reads.
sub read_here
{
	my ($path, $token) = @_;
	my $answer = request('GET', $path, token => $token);

	return $answer->{status} == 200 ? $answer->{content} : "status $answer->{status}";
}

1;
