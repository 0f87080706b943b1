# s3.pl: packs in a bucket of Swift, which speaks S3, and faults on the way
#
# Packages: libcurl4-openssl-dev libmicrohttpd-dev libssl-dev libjansson-dev libpq-dev python3-swift
use strict;
use warnings;
use Digest::SHA 'sha256_hex';
use FindBin;
use JSON::PP;
use lib "$FindBin::RealBin/lib";
use GpuCreditRegistry;
use GpuCreditS3;
use GpuCredit;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes 'sleep';

my $node     = registry_node('s3');
my $endpoint = s3_start(PostgreSQL::Test::Utils::tempdir() . '/s3');
my @bucket   = ('--store', 's3://models/eu/packs', '--s3-endpoint', $endpoint);
$ENV{AWS_ACCESS_KEY_ID}     = 'acme:registry';
$ENV{AWS_SECRET_ACCESS_KEY} = 'secret-of-registry';
$ENV{AWS_SESSION_TOKEN}     = 'token+of/registry=';
keep_packs_in(@bucket);
daemon_start($node);
my $token = registry_token($node, 'acme');

# Content that does not repeat: its seed makes it.
sub content
{
	my ($seed, $size) = @_;
	my $text = '';

	srand($seed);
	$text .= pack('L', rand(2**32)) for 1 .. $size / 4;
	return $text;
}

# The actions that a client must take to send content, by its named transfers.
sub actions
{
	my ($content, @transfers) = @_;

	return json_request('POST', '/acme/m.git/info/lfs/objects/batch', $token,
		{   operation => 'upload', transfers => \@transfers,
			objects => [ { oid => sha256_hex($content), size => length($content) } ] }
	)->{json}{objects}[0]{actions};
}

sub put
{
	my ($content) = @_;
	my $actions = actions($content, 'basic');

	return $actions ? request('PUT', $actions->{upload}{href}, content => $content)->{status} : 200;
}

sub commit
{
	my ($path, $content) = @_;

	return request('POST', '/api/models/acme/m/commit/main', token => $token,
		headers => { 'idempotency-key' => $path },
		content => join("\n", map { encode_json($_) } { key => 'header', value => { summary => $path } },
			{ key => 'lfsFile', value => { path => $path, oid => sha256_hex($content),
				size => length($content), algo => 'sha256' } }))->{status};
}

sub get
{
	my ($path, %headers) = @_;

	return request('GET', "/acme/m/resolve/main/$path", token => $token, headers => \%headers);
}

# A test: the file is what was sent.
sub is_file
{
	my ($path, $content, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	return is(sha256_hex(get($path)->{content}), sha256_hex($content), $name);
}

sub bytes_kept
{
	my $bytes = 0;

	$bytes += -s foreach s3_files();
	return $bytes;
}

sub sql { return $node->safe_psql('reg', $_[0]) }

# A file of two batches, and so of two packs.
my $base = content(1, 20_000_000);
is(json_request('POST', '/api/repos/create', $token, { name => 'm' })->{status}, 200, 'a repository');
is(put($base), 200, 'a file is sent');
is(commit('base', $base), 200, 'and committed');
is(scalar(s3_files()), 2, 'each batch is an object');
is(bytes_kept(), length $base, 'of its bytes, no more');
ok(!-e daemon_store(), 'nothing is kept here');
my $requests = s3_requests('GET');
is_file('base', $base, 'it comes back');
cmp_ok(s3_requests('GET') - $requests, '<=', 4, 'in few requests');
my $part = get('base', range => 'bytes=16700000-16900000');
is($part->{status}, 206, 'a range over the edge of two packs');
ok($part->{content} eq substr($base, 16700000, 200001), 'is what it was');

# A fine-tune in two requests of tus: what came is read again for the digest.
my $tuned = substr($base, 0, 9_000_000) . content(2, 400_000) . substr($base, 9_000_000);
my $href  = actions($tuned, 'tus')->{upload}{href};
foreach my $at (0, 10_000_000)
{
	is(request('PATCH', $href, headers => { 'upload-offset' => $at },
			content => substr($tuned, $at, $at ? length $tuned : 10_000_000))->{status}, 204, "from byte $at");
}
is(commit('tuned', $tuned), 200, 'is committed');
cmp_ok(bytes_kept() - length $base, '<', 800_000, 'little more than the change is stored');
is_file('tuned', $tuned, 'it comes back, too');

# Faults that pass.
my $small = content(3, 4_000_000);
s3_fault('503', 'PUT', 2);
is(put($small), 200, 'the service is busy for a while: the file is sent');
is(commit('small', $small), 200, 'and committed');
s3_fault('cut', 'GET', 2);
is_file('small', $small, 'an answer is cut off: it is asked for again');
s3_fault('lost', 'PUT', 1);
my $other = content(4, 4_000_000);
is(put($other), 200, 'a connection breaks while a pack is sent: it is sent again');

# Faults that stay.
my $wrong = content(5, 4_000_000);
my $known = sql('SELECT max(pack) FROM gpucredit_registry.pack');
s3_fault('etag', 'PUT', 1);
is(put($wrong), 503, 'the service has other bytes than were sent');
is(sql("SELECT count(*) FROM gpucredit_registry.chunk WHERE pack > $known"), '0', 'then no chunk is there');
is(put($wrong), 200, 'the client sends it again');
s3_fault('short', 'GET', 2);	# HTTP::Tiny asks twice
is(get('small')->{status}, 599, 'fewer bytes than were asked for: the download breaks');
is_file('small', $small, 'the next one does not');
s3_fault('503', 'PUT', 100);
is(put(content(6, 4_000_000)), 503, 'a service that is down: the upload is refused');
s3_fault('none', 'PUT', 0);
is(put(content(6, 4_000_000)), 200, 'until it is up');

# A number that a restored database gives out again has its object already.
s3_fault('etag', 'PUT', 1);
is(put(content(7, 4_000_000)), 503, 'a pack of no chunks');
my $last   = sql('SELECT max(pack) FROM gpucredit_registry.pack');
my $forget = "DELETE FROM gpucredit_registry.pack WHERE pack = $last";
sql("$forget; ALTER TABLE gpucredit_registry.pack ALTER pack RESTART WITH $last");
is(put($wrong = content(8, 4_000_000)), 200, 'the daemon passes its number');
is(commit('late', $wrong), 200, 'and goes on');
is(sql('SELECT max(pack) FROM gpucredit_registry.chunk'), $last + 1, 'with the next one');
is_file('late', $wrong, 'nothing was overwritten');

# Unused chunks are deleted; used ones of a pack move.
my $half = substr $base, 0, 4_000_000;
is(put($half), 200, 'the begin of a file');
is(commit('half', $half), 200, 'is a file, too');
daemon_kill();
my $objects = s3_files();
sql($forget);
s3_fault('old', 'GET', 100);
upkeep($node, 0);
s3_fault('none', 'GET', 0);
is(scalar(s3_files()), $objects - 1, 'an old object goes that the database does not know, no other');
sql(drop_paths(q{path IN ('base', 'tuned', 'late')}));
upkeep($node, $_) foreach 2, 4, 6;
is(bytes_kept(), sql('SELECT sum(size) FROM gpucredit_registry.chunk'),
	'what nobody uses goes, and with it the rest of its packs');
daemon_start($node);
is_file($_->[0], $_->[1], "$_->[0] is what it was") foreach [ 'half', $half ], [ 'small', $small ];

# Killed in the middle of a pack.
foreach my $round (1, 2)
{
	my $content  = $round == 1 ? $base : $tuned;
	my $requests = s3_requests('PUT');
	my @pids     = in_parallel(1, sub { put($content) });

	for (1 .. 6000)
	{
		last if s3_requests('PUT') > $requests;
		sleep 0.01;
	}
	kill_server($node) if $round == 2;
	daemon_kill('KILL');
	wait_for_children(@pids);
	$node->start if $round == 2;
	daemon_start($node);
	is($node->safe_psql('reg', 'SELECT * FROM gpucredit_registry.verify()'), '',
		"killed in the middle, round $round: the books hold");
	is(put($content), 200, 'the client sends again');
	is(commit("again$round", $content), 200, 'and commits');
	is_file("again$round", $content, 'what it sent');
}
registry_verify($node);

# Messages name the fault, and no secret.
my @registryd = ("$FindBin::RealBin/../registryd", '--database',
	sprintf('host=%s port=%s dbname=reg user=registryd', $node->host, $node->port));
foreach my $file (s3_files())
{
	open(my $damaged, '+<', $file) or die;
	seek $damaged, 1000, 0;
	print $damaged 'damaged';
	close $damaged;
}
command_checks_all([ @registryd, 'verify', @bucket ], 1, [ qr/^(chunk \d+ in pack \d+ is not what it was\n)+$/ ],
	[qr/^$/], 'verify finds damaged objects');
s3_fault('503', 'GET', 100);
$requests = s3_requests('GET');
command_checks_all([ @registryd, 'verify', @bucket ], 1, [qr/^$/], [qr/the store cannot be asked/],
	'a service that is down ends verify at once');
cmp_ok(s3_requests('GET') - $requests, '<', 10, 'not after each chunk');
s3_fault('none', 'GET', 0);
command_checks_all([ @registryd, 'verify', @bucket, '--store', 's3://nowhere' ], 1, [qr/^$/],
	[qr/the store cannot be asked/], 'a bucket that is not there');
command_fails_like([ @registryd, 'upkeep', @bucket, '--s3-endpoint', $_ ], qr/is no http/, "endpoint \"$_\"")
  foreach '', 'localhost', 'http://', 'http://u:p@localhost', "$endpoint/x";
command_fails_like([ @registryd, 'upkeep', @bucket, '--store', $_ ], qr/is no s3:/, "store \"$_\"")
  foreach 's3://', 's3:///x', 's3://models/', 's3://models/a b';
{
	local $ENV{AWS_SECRET_ACCESS_KEY} = 'guessed';
	command_fails_like([ @registryd, 'upkeep', @bucket ], qr/403 .*SignatureDoesNotMatch/, 'a wrong key');
	delete local $ENV{AWS_ACCESS_KEY_ID};
	command_fails_like([ @registryd, 'upkeep', @bucket ], qr/needs AWS_ACCESS_KEY_ID/, 'no key');
}
unlike(slurp_file($node->logfile =~ s/\.log$/-registryd.log/r), qr/secret-of|token\+of|Signature=/,
	'the log has neither keys nor URLs');
done_testing();
