# s3_encryption.pl: packs that the bucket's service encrypts, by a header that is signed and has to be confirmed
#
# Packages: libcurl4-openssl-dev libmicrohttpd-dev libssl-dev libjansson-dev libpq-dev python3-swift python3-cryptography
use strict;
use warnings;
use Digest::SHA qw(hmac_sha256 hmac_sha256_hex sha256_hex);
use FindBin;
use JSON::PP;
use lib "$FindBin::RealBin/lib";
use GpuCreditRegistry;
use GpuCreditS3;
use GpuCredit;
use PostgreSQL::Test::Utils;
use Test::More;

my $node     = registry_node('s3encryption');
my $endpoint = s3_start(PostgreSQL::Test::Utils::tempdir() . '/s3', 'encrypt');
my @bucket   = ('--store', 's3://models/eu', '--s3-endpoint', $endpoint);
$ENV{AWS_ACCESS_KEY_ID}     = 'acme:registry';
$ENV{AWS_SECRET_ACCESS_KEY} = 'secret-of-registry';
keep_packs_in(@bucket, '--s3-encryption', 'AES256');
daemon_start($node);
my $token = registry_token($node, 'acme');

# Text that a disk without encryption would show, and that does not repeat.
sub content
{
	my ($seed) = @_;

	return join '', map { sprintf "weight %d of %d is %s\n", $_, $seed, sha256_hex("$seed $_") } 1 .. 20_000;
}

sub put
{
	my ($content) = @_;
	my $object = json_request('POST', '/acme/m.git/info/lfs/objects/batch', $token,
		{ operation => 'upload', transfers => ['basic'], objects => [ { oid => sha256_hex($content), size => length $content } ] })->{json}{objects}[0];

	return $object->{actions} ? request('PUT', $object->{actions}{upload}{href}, content => $content)->{status} : 200;
}

sub commit
{
	my ($path, $content) = @_;

	return request('POST', '/api/models/acme/m/commit/main', token => $token,
		content => join("\n", map { encode_json($_) } { key => 'header', value => { summary => $path } },
			{ key => 'lfsFile', value => { path => $path, oid => sha256_hex($content), size => length $content, algo => 'sha256' } }))->{status};
}

# Signature Version 4 of a request, computed from what was sent, by the secret key.
sub signature
{
	my ($head) = @_;
	my ($method, $path, $query) = $head =~ /^(\S+) ([^ ?]+)\?(\S+)/;
	my %query = map { split /=/, $_, 2 } split /&/, $query;
	my @names = split /;/, $query{'X-Amz-SignedHeaders'} =~ s/%3B/;/gr;
	my $canonical = join("\n", $method, $path, join('&', grep { !/^X-Amz-Signature=/ } split /&/, $query),
		(map { my $name = $_; $head =~ /^\Q$name\E: *(.*?)\r$/mi; "$name:" . ($1 // 'missing') } @names), '', join(';', @names), 'UNSIGNED-PAYLOAD');
	my ($day, $region) = $query{'X-Amz-Credential'} =~ /%2F(\d{8})%2F([^%]+)%2F/;
	my $key = 'AWS4' . $ENV{AWS_SECRET_ACCESS_KEY};

	$key = hmac_sha256($_, $key) foreach $day, $region, 's3', 'aws4_request';
	return (hmac_sha256_hex(join("\n", 'AWS4-HMAC-SHA256', $query{'X-Amz-Date'}, "$day/$region/s3/aws4_request", sha256_hex($canonical)), $key),
		$query{'X-Amz-Signature'}, \@names);
}

is(json_request('POST', '/api/repos/create', $token, { name => 'm' })->{status}, 200, 'a repository');
my $one = content(1);
is(put($one), 200, 'a file is sent');
like(s3_head('PUT'), qr/^x-amz-server-side-encryption: AES256\r$/m, 'the service is asked to encrypt it');
my ($expected, $sent, $names) = signature(s3_head('PUT'));
is($sent, $expected, 'and the header is signed');
is("@$names", 'host x-amz-server-side-encryption', 'by its name');
is(commit('one', $one), 200, 'it is committed');
is(sha256_hex(request('GET', '/acme/m/resolve/main/one', token => $token)->{content}), sha256_hex($one), 'and comes back');
unlike(s3_head('GET'), qr/encryption/, 'for which nothing is asked');
cmp_ok(scalar(s3_files()), '>', 0, 'there are objects');
is(scalar(grep { slurp_file($_) =~ /weight \d+ of/ } s3_files()), 0, 'none of which shows what it is');

# A service that does not say that it encrypts.
my $two = content(2);
s3_fault('plain', 'PUT', 100);
my $chunks = $node->safe_psql('reg', 'SELECT count(*) FROM gpucredit_registry.chunk');
is(put($two), 503, 'what the service does not encrypt is not taken');
is($node->safe_psql('reg', 'SELECT count(*) FROM gpucredit_registry.chunk'), $chunks, 'and the database names none of it');
like(slurp_file($node->logfile =~ s/\.log$/-registryd.log/r), qr/does not say that it encrypted it by AES256/, 'the log says why');
s3_fault('none', 'PUT', 0);
is(put($two), 200, 'until it does');
is(commit('two', $two), 200, 'then it is committed');
registry_verify($node);

# A key of the operator's. Swift has none: it refuses the header, and nothing is stored.
daemon_kill();
my $arn = 'arn:aws:kms:eu-central-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab';
daemon_start($node, '--s3-encryption', "aws:kms,$arn");
is(put(content(3)), 503, 'a service that knows no such key stores nothing');
like(s3_head("PUT"), qr/^x-amz-server-side-encryption: aws:kms\r\n(?:.*\n)?x-amz-server-side-encryption-aws-kms-key-id: \Q$arn\E\r\n/m, 'it was asked for it');
($expected, $sent, $names) = signature(s3_head('PUT'));
is($sent, $expected, 'and both headers are signed');
is("@$names", 'host x-amz-server-side-encryption x-amz-server-side-encryption-aws-kms-key-id', 'in order');
is(sha256_hex(request('GET', '/acme/m/resolve/main/one', token => $token)->{content}), sha256_hex($one), 'what is there is read as before');
my @registryd = ("$FindBin::RealBin/../registryd", '--database', 'dbname=none', 'upkeep', @bucket);
command_fails_like([ @registryd, '--s3-encryption', $_ ], qr/is neither AES256 nor aws:kms/, "encryption \"$_\"")
  foreach '', 'aes256', 'AES256,key', 'aws:kms,', 'aws:kms,a b', "aws:kms,a\nb", 'aws:kms,' . 'k' x 201, 'none';
is(system("$FindBin::RealBin/../registryd upkeep --store=/tmp/none --s3-encryption=AES256 2>/dev/null") >> 8, 2, 'a folder is not encrypted, and does not seem to be');
done_testing();
