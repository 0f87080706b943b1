# backup.pl: a copy of the database and then of the packs is a registry
#
# Packages: libcurl4-openssl-dev libmicrohttpd-dev libssl-dev libjansson-dev libpq-dev
use strict;
use warnings;
use Digest::SHA 'sha256_hex';
use FindBin;
use JSON::PP;
use lib "$FindBin::RealBin/lib";
use GpuCreditRegistry;
use GpuCredit;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = registry_node('backup');
daemon_start($node);
my $token = registry_token($node, 'acme');
my $dir   = PostgreSQL::Test::Utils::tempdir();

# Sends content and commits it; the last answer.
sub push_file
{
	my ($path, $content) = @_;
	my $o = json_request('POST', '/acme/m.git/info/lfs/objects/batch', $token,
		{ operation => 'upload', objects => [ { oid => sha256_hex($content), size => length($content) } ] }
	)->{json}{objects}[0];

	request('PUT', $o->{actions}{upload}{href}, content => $content) if $o->{actions};
	return request('POST', '/api/models/acme/m/commit/main', token => $token,
		content => join("\n", map { encode_json($_) } { key => 'header', value => {} },
			{ key => 'lfsFile', value => { path => $path, oid => sha256_hex($content),
				size => length($content), algo => 'sha256' } }));
}

sub content
{
	my ($seed) = @_;
	my $text = '';

	srand($seed);
	$text .= pack('L', rand(2**32)) for 1 .. 500_000;
	return $text;
}

json_request('POST', '/api/repos/create', $token, { name => 'm' });
is(push_file("f$_", content($_))->{status}, 200, "file $_ is there") foreach 1, 2;

# The database first; then work goes on: a file comes, one goes, packs are condemned.
$node->command_ok([ 'pg_dump', '-Fc', '-f', "$dir/reg.dump", $node->connstr('reg') ], 'a dump');
daemon_kill();
daemon_start($node);		# it begins a new pack
is(push_file('f3', content(3))->{status}, 200, 'a file comes after the dump');
$node->safe_psql('reg', drop_paths(q{path = 'f1'}));
daemon_kill();
upkeep($node, 2);
cmp_ok($node->safe_psql('reg', q{SELECT count(*) FROM gpucredit_registry.chunk}), '<', 130,
	'what was deleted meanwhile is collected');

# Then the packs; the files of what was collected stay for their grace.
my $store = daemon_store();
system('cp', '-a', $store, "$dir/store") == 0 or die;
$node->safe_psql('postgres', 'CREATE DATABASE copy');
$node->command_ok([ 'pg_restore', '-e', '-d', $node->connstr('copy'), "$dir/reg.dump" ], 'is restored');
is($node->safe_psql('copy', 'SELECT * FROM gpucredit_registry.verify()'), '', 'the books hold');
my @copy = ('--store', "$dir/store", '--database',
	sprintf('host=%s port=%s dbname=copy user=registryd', $node->host, $node->port));
is(system("$FindBin::RealBin/../registryd", 'verify', @copy), 0, 'each chunk that it names is in the copy');

# It goes on: the next pack has a number whose file is in the copy already.
daemon_start($node, @copy);
is(push_file('f4', content(4))->{status}, 200, 'a file comes to the copy');
foreach (1, 2, 4)
{
	is(sha256_hex(request('GET', "/acme/m/resolve/main/f$_", token => $token)->{content}),
		sha256_hex(content($_)), "file $_ is what was sent");
}
is(request('GET', '/acme/m/resolve/main/f3', token => $token)->{status}, 404, 'what came later is not there');
is(system("$FindBin::RealBin/../registryd", 'verify', @copy), 0, 'each chunk is still there');
is($node->safe_psql('copy', 'SELECT * FROM gpucredit_registry.verify()'), '', 'and the books hold');
daemon_kill();
registry_verify($node);
done_testing();
