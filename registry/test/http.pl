# http.pl: requests as clients send them, and malformed ones
#
# Packages: libcurl4-openssl-dev libmicrohttpd-dev libssl-dev libjansson-dev libpq-dev libhttp-tiny-perl aria2
use strict;
use warnings;
use Digest::SHA 'sha256_hex';
use FindBin;
use IO::Socket::INET;
use JSON::PP;
use MIME::Base64;
use lib "$FindBin::RealBin/lib";
use GpuCreditRegistry;
use GpuCredit;
use PostgreSQL::Test::Utils;
use Socket qw(SOL_SOCKET SO_LINGER SO_RCVBUF inet_aton sockaddr_in);
use Test::More;
use Time::HiRes 'sleep';

my $node = registry_node('http', "shared_preload_libraries = 'gpucredit'");
daemon_start($node);
my $acme  = registry_token($node, 'acme', 'nlp');
my $read  = registry_token($node, 'acme', 'nlp', 'read');
my $rival = registry_token($node, 'rival');

sub q_ { return query($node, 'reg', $_[0]) }

# A test: the request has this status.
sub status_is
{
	my ($answer, $status, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	return is($answer->{status}, $status, $name)
	  || diag(($answer->{content} // '') =~ s/[^ -~]+/ /gr =~ s/^(.{500}).*/$1/sr);
}

# Content that does not compress or repeat: its seed makes it.
sub content
{
	my ($seed, $size) = @_;
	my $text = '';

	srand($seed);
	$text .= pack('L', rand(2**32)) while length($text) < $size;
	return substr($text, 0, $size);
}

sub batch
{
	my ($token, $repo, $operation, @contents) = @_;

	return json_request('POST', "/$repo.git/info/lfs/objects/batch", $token,
		{   operation => $operation,
			objects => [ map { { oid => sha256_hex($_), size => length($_) } } @contents ] });
}

# Sends content to a repository; the last answer.
sub upload
{
	my ($token, $repo, $content) = @_;
	my $action = batch($token, $repo, 'upload', $content)->{json}{objects}[0];

	return { status => 200, present => 1 } unless $action->{actions};
	return request('PUT', $action->{actions}{upload}{href}, content => $content);
}

sub commit
{
	my ($token, $repo, $files, %header) = @_;

	return json_request('POST', "/api/models/$repo/commit/main", $token, join("\n",
			encode_json({ key => 'header', value => { summary => 'x', %header } }),
			map { encode_json($_) } @$files));
}

sub lfs_file
{
	my ($path, $content) = @_;

	return { key => 'lfsFile', value =>
		  { path => $path, algo => 'sha256', oid => sha256_hex($content), size => length($content) } };
}

# who is there
status_is(json_request('GET', '/api/whoami-v2'), 401, 'nobody known');
status_is(json_request('GET', '/api/whoami-v2', 'hf_wrong'), 401, 'a token that is none');
is(json_request('GET', '/api/whoami-v2', $acme)->{json}{fullname}, 'acme/nlp', 'a token names its account');
status_is(json_request('POST', '/api/repos/create', $acme, { name => 'base', organization => 'acme' }),
	200, 'a repository is made');
status_is(json_request('POST', '/api/repos/create', $acme, { name => 'base', organization => 'acme' }),
	409, 'once');
status_is(json_request('POST', '/api/repos/create', $rival, { name => 'x', organization => 'acme' }),
	403, 'not by another organisation');
status_is(json_request('POST', '/api/repos/create', $read, { name => 'x', organization => 'acme' }),
	403, 'nor with a token that may only read');

# bytes in, bytes out
my $weights = content(1, 3_000_001);
status_is(upload($acme, 'acme/base', $weights), 200, 'a file is sent');
ok(upload($acme, 'acme/base', $weights)->{present}, 'what is there is not asked for');
my $done = commit($acme, 'acme/base', [ lfs_file('w.bin', $weights),
		{ key => 'file', value => { path => 'a b/c.json', encoding => 'base64', content => 'e30=' } } ]);
status_is($done, 200, 'and committed');
my $oid = $done->{json}{commitOid};
my $url = '/acme/base/resolve/main/w.bin';
my $got = request('GET', $url, token => $acme);
ok($got->{content} eq $weights, 'the same bytes come back');
is($got->{headers}{etag}, '"' . sha256_hex($weights) . '"', 'with their digest');
is($got->{headers}{'x-repo-commit'}, $oid, 'and their commit');
foreach (
	[ '0-0', 0, 0 ], [ '1000000-1000099', 1000000, 1000099 ], [ '2999999-', 2999999, 3000000 ],
	[ '-5', 2999996, 3000000 ], [ '65000-9999999', 65000, 3000000 ])
{
	my ($range, $first, $last) = @$_;
	my $part = request('GET', $url, token => $acme, headers => { range => "bytes=$range" });

	is($part->{status}, 206, "range $range");
	is($part->{headers}{'content-range'}, "bytes $first-$last/3000001", 'is named');
	ok($part->{content} eq substr($weights, $first, $last - $first + 1), 'and sent');
}
status_is(request('GET', $url, token => $acme, headers => { range => 'bytes=3000001-' }), 416,
	'a range behind the end');
status_is(request('GET', $url, token => $acme, headers => { 'if-none-match' => $got->{headers}{etag} }),
	304, 'what the client has is not sent');
status_is(request('GET', $url, token => $acme,
		headers => { range => 'bytes=0-0', 'if-range' => $got->{headers}{etag} }), 206, 'a range of the same file');
is(request('GET', $url, token => $acme, headers => { range => 'bytes=0-0', 'if-range' => '"other"' })->{content},
	$weights, 'of another file all is sent');
my $folder = PostgreSQL::Test::Utils::tempdir();
is(system('aria2c', '-q', '-x4', '-s4', '-k1M', '--header', "Authorization: Bearer $acme", '-d',
		$folder, '-o', 'w.bin', daemon_url($url)), 0, 'aria2c pulls by four connections');
ok(slurp_file("$folder/w.bin") eq $weights, 'the same bytes');
is($got->{headers}{'cache-control'}, 'private, no-store', 'what is private is not cached');
my $head = request('HEAD', $url, token => $acme);
is($head->{headers}{'content-length'}, 3000001, 'HEAD has the length');
is(request('GET', "/acme/base/resolve/$oid/a%20b/c.json", token => $acme)->{content}, '{}',
	'a small file, by oid');
my $down = batch($acme, 'acme/base', 'download', $weights)->{json}{objects}[0]{actions}{download}{href};
ok(request('GET', $down)->{content} eq $weights, 'git-lfs gets it by a signed URL');

# refused
foreach (
	[ 'GET', $url, undef, 401, 'a private file, by nobody' ],
	[ 'GET', $url, $rival, 404, 'a private file, by another: it does not exist' ],
	[ 'GET', '/acme/none/resolve/main/w.bin', $rival, 404, 'in the same words as none' ],
	[ 'GET', '/acme/base/resolve/main/none', $acme, 404, 'no such file' ],
	[ 'GET', '/acme/base/resolve/none/w.bin', $acme, 404, 'no such revision' ],
	[ 'GET', '/acme/base/resolve/main/../../etc/passwd', $acme, 404, 'a path that climbs' ],
	[ 'GET', '/acme/base/resolve/main/%2e%2e%2fx', $acme, 404, 'one that climbs by escapes' ],
	[ 'GET', '/acme/base/resolve/main/%00', $acme, 400, 'a zero byte' ],
	[ 'GET', '/acme/base/resolve/main/%zz', $acme, 400, 'no escape' ],
	[ 'GET', '/acme/base/resolve/main/%ff', $acme, 400, 'no UTF-8' ],
	[ 'GET', '/a/b/c', $acme, 404, 'no endpoint' ],
	[ 'DELETE', '/api/models/acme/base', $acme, 404, 'no endpoint either' ],
	[ 'GET', '/api/models/acme/base/tree/main?cursor=%ff', $acme, 400, 'a broken query' ],
	[ 'OPTIONS', $url, $acme, 404, 'another method' ])
{
	my ($method, $target, $token, $status, $name) = @$_;

	status_is(request($method, $target, token => $token), $status, $name);
}
is(request('GET', $url, token => $rival)->{content} =~ s/base/none/gr,
	request('GET', '/acme/none/resolve/main/w.bin', token => $rival)->{content},
	'hidden and missing get the same answer');
status_is(batch($read, 'acme/base', 'upload', 'x'), 403, 'a token that may only read gets no URL to send to');
status_is(request('GET', $down =~ s/signature=../signature=00/r), 403, 'a forged signature');
status_is(request('GET', $down =~ s/expires=\d/expires=9/r), 403, 'a longer life');
status_is(request('GET', $down =~ s{/lfs/acme/}{/lfs/rival/}r), 403, 'another\'s path');
status_is(request('PUT', $down, content => 'x'), 403, 'another method');
{
	my $href = batch($acme, 'acme/base', 'upload', 'late')->{json}{objects}[0]{actions}{upload}{href};

	$node->safe_psql('reg', "ALTER SYSTEM SET gpucredit.clock = '2099-01-01 00:00+00'");
	$node->reload;
	$node->poll_query_until('reg', q{SELECT gpucredit.now() > '2098-01-01'});
	status_is(request('PUT', $href, content => 'late'), 403, 'a URL of an hour ago');
	$node->safe_psql('reg', 'ALTER SYSTEM RESET gpucredit.clock');
	$node->reload;
	$node->poll_query_until('reg', q{SELECT gpucredit.now() < '2098-01-01'});
}
foreach (
	[ 'no JSON', 400 ], [ '[' x 100000, 400 ], [ '{"operation": "upload"}', 422 ],
	[ '"\ud800"', 400 ], [ '{"operation": "upload", "objects": [{"oid": "\u0000"}]}', 400 ],
	[ encode_json({ operation => 'upload', objects => [ ({}) x 1001 ] }), 422 ])
{
	my ($body, $status) = @$_;

	status_is(json_request('POST', '/acme/base.git/info/lfs/objects/batch', $acme, $body), $status,
		'a batch of ' . substr($body, 0, 30));
}
is(json_request('POST', '/acme/base.git/info/lfs/objects/batch', $acme,
		{ operation => 'upload', objects => [ { oid => '../x', size => 1 }, { oid => 'a' x 64, size => -1 } ] }
	)->{json}{objects}[$_]{error}{code}, 422, 'a malformed object') foreach 0, 1;
status_is(commit($acme, 'acme/base', [ { key => 'file', value => { path => '../x', encoding => 'base64', content => '' } } ]),
	400, 'a commit with a path that climbs');
status_is(commit($acme, 'acme/base', [ { key => 'file', value => { path => 'x', encoding => 'base64', content => '!' } } ]),
	400, 'with broken base64');
status_is(commit($acme, 'acme/base', [ { key => 'submodule', value => {} } ]), 422, 'with what is unknown');
status_is(commit($acme, 'acme/base', [ lfs_file('y', 'never sent') ]), 422, 'of bytes that were not sent');
status_is(commit($acme, 'acme/base', [], parentCommit => '0' x 40), 412, 'on top of what is not there');
status_is(commit($rival, 'acme/base', []), 404, 'into another\'s repository');
status_is(json_request('POST', '/api/models/acme/base/commit/main', $acme,
		qq({"key": "header", "value": {}}\n) . qq({"key": "deletedFile", "value": {"path": "n"}}\n) x 100001),
	400, 'of more operations than there may be');
status_is(request('POST', '/api/models/acme/base/commit/main', token => $acme,
		content => ' ' x (64 * 1024 * 1024 + 1)), 413, 'a body that is too large');

# scores: readers get them, writers set them
status_is(json_request('POST', '/api/models/acme/base/scores/main', $acme,
		{ benchmark => 'mmlu', metric => 'acc', score => 0.5 }), 200, 'a score is set');
is(json_request('GET', '/api/models/acme/base/scores/main', $read)->{json}[0]{score}, 0.5, 'and read');
status_is(json_request('POST', '/api/models/acme/base/scores/main', $read,
		{ benchmark => 'mmlu', metric => 'acc', score => 1 }), 403, 'a token that may only read sets none');
status_is(json_request('POST', '/api/models/acme/base/scores/main', $acme,
		{ benchmark => 'mmlu', metric => 'acc', score => 'good' }), 400, 'no number');
status_is(json_request('GET', '/api/models/acme/base/scores/none', $acme), 404, 'no such revision');

# knowing a digest grants nothing
json_request('POST', '/api/repos/create', $rival, { name => 'own', organization => 'rival' });
my $asked = batch($rival, 'rival/own', 'upload', $weights)->{json}{objects}[0];
ok($asked->{actions}{upload}, 'who has not sent the bytes is asked for them, whoever has');
status_is(commit($rival, 'rival/own', [ lfs_file('w', $weights) ]), 422, 'nor may it commit their digest');
is(batch($rival, 'rival/own', 'download', $weights)->{json}{objects}[0]{error}{code}, 404,
	'nor read them');
status_is(upload($rival, 'rival/own', $weights), 200, 'it sends them');
is(q_('SELECT count(*) - count(DISTINCT sha256) FROM gpucredit_registry.chunk'), 0, 'they are stored once');
is(q_(qq{SELECT "unique" FROM gpucredit_registry.storage('$_')}), $_ eq 'acme' ? 3000003 : 3000001,
	"$_ pays as if alone") foreach qw(acme rival);

# wrong bytes
my $other = content(2, 300_000);
foreach ([ substr($other, 1) . 'x', 'other bytes' ])
{
	my ($sent, $name) = @$_;
	my $href = batch($acme, 'acme/base', 'upload', $other)->{json}{objects}[0]{actions}{upload}{href};

	status_is(request('PUT', $href, content => $sent), 422, $name);
	status_is(request('PUT', $href, content => $other), 404, 'and the upload is over');
}
foreach ([ substr($other, 1), 422, 'too few bytes' ], [ $other . 'x', 400, 'too many bytes' ])
{
	my ($sent, $status, $name) = @$_;
	my $href = batch($acme, 'acme/base', 'upload', $other)->{json}{objects}[0]{actions}{upload}{href};

	status_is(request('PUT', $href, content => $sent), $status, $name);
}
status_is(upload($acme, 'acme/base', $other), 200, 'the right bytes are taken then');
status_is(upload($acme, 'acme/base', ''), 200, 'an empty file');

# tus: a client goes on where it was cut off, at any byte.
my $long = content(4, 3_000_000);
my $tus = json_request('POST', '/acme/base.git/info/lfs/objects/batch', $acme,
	{   operation => 'upload', transfers => [qw(basic tus)],
		objects => [ { oid => sha256_hex($long), size => length($long) } ] })->{json};
is($tus->{transfer}, 'tus', 'tus is spoken');
my $href = $tus->{objects}[0]{actions}{upload}{href};
is(request('HEAD', $href)->{headers}{'upload-offset'}, 0, 'nothing is there yet');
{
	my ($port, $target) = $href =~ m{:(\d+)(/.*)};
	my $socket = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port);

	$socket->print("PATCH $target HTTP/1.1\r\nHost: x\r\nUpload-Offset: 0\r\nContent-Length: 3000000\r\n\r\n",
		substr($long, 0, 2_027_520));
	close $socket;
}
my $offset = 0;
for (1 .. 300)
{
	last if $offset = request('HEAD', $href)->{headers}{'upload-offset'};
	sleep 0.1;
}
cmp_ok($offset, '>', 1_800_000, 'what came whole before the cut is there');
cmp_ok($offset, '<=', 2_027_520, 'and no more');
status_is(request('PATCH', $href, content => 'x', headers => { 'upload-offset' => $offset + 1 }), 409,
	'a client that continues at another byte is refused');
status_is(request('PATCH', $href, content => substr($long, $offset, 500_000),
		headers => { 'upload-offset' => $offset }), 204, 'it goes on');
status_is(request('PATCH', $href, content => substr($long, $offset + 500_000),
		headers => { 'upload-offset' => $offset + 500_000 }), 204, 'to the end');
status_is(request('HEAD', $href), 404, 'then the upload is over');
status_is(commit($acme, 'acme/base', [ lfs_file('long', $long) ]), 200, 'its digest was right');

# A client that hangs is cut off, and others are served meanwhile.
my $slow = batch($acme, 'acme/base', 'upload', content(3, 100_000))->{json}{objects}[0]{actions}{upload}{href};
my ($port, $target) = $slow =~ m{:(\d+)(/.*)};
my @hanging = map { IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port) } 1 .. 50;
$_->print("PUT $target HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\nabc") foreach @hanging;
status_is(request('GET', $url, token => $acme), 200, 'fifty clients hang, and one more is served');
close $_ foreach @hanging;

# What is public and asked for by commit never changes.
status_is(json_request('POST', '/api/repos/create', $acme, { name => 'open', private => JSON::PP::false }),
	200, 'a public repository');
my $open = commit($acme, 'acme/open', [ lfs_file('w', $weights) ])->{json}{commitOid};
is(request('GET', "/acme/open/resolve/$open/w")->{headers}{'cache-control'},
	'public, max-age=2592000, immutable', 'by commit it is kept for 30 days');
is(request('GET', '/acme/open/resolve/main/w')->{headers}{'cache-control'}, 'public, max-age=60',
	'by a ref for a minute');

# Downloads are what people did: one file, one client, one hour.
my $whole = join '', map { content(100 + $_, 1_000_000) . $_ } 1 .. 24;
my $size  = length $whole;
upload($acme, 'acme/open', $whole);
status_is(commit($acme, 'acme/open', [ lfs_file('whole', $whole) ]), 200, 'a file of 24 MB');
# What is in the log of a file: downloads, and clients; once all answers are over.
sub logged
{
	my ($content) = @_;

	$node->poll_query_until('reg', 'SELECT NOT EXISTS (SELECT FROM gpucredit_registry.sending)')
	  or die 'an answer does not end';
	return q_(sprintf(q{SELECT count(*), string_agg(client, ' ' ORDER BY download)
		FROM gpucredit_registry.downloads('acme', '', 0, 1000) WHERE sha256 = '%s'}, sha256_hex($content)));
}
my $egress = q{SELECT sum(e.bytes), sum(e.downloads) FROM gpucredit_registry.egress e
	JOIN gpucredit_registry.model m USING (org, model) WHERE m.name = 'open'};
logged($whole);
my ($bytes, $count) = split /\|/, q_($egress);
is(system('aria2c', '-q', '-x16', '-s24', '-k1M', '-d', $folder, '-o', 'whole',
		daemon_url('/acme/open/resolve/main/whole')), 0, 'aria2c pulls it by many ranges');
ok(slurp_file("$folder/whole") eq $whole, 'all bytes');
is(logged($whole), '1|address:127.0.0.1', 'which is one download by one client');
my ($more, $then) = split /\|/, q_($egress);
is($then, $count + 1, 'and counts once');
cmp_ok($more - $bytes, '>=', $size, 'all that was sent is billed');
is(q_(sprintf(q{SELECT bytes FROM gpucredit_registry.downloads('acme', '', 0, 1000) WHERE sha256 = '%s'}, sha256_hex($whole))),
	$more - $bytes, 'which the log says, too');
cmp_ok(q_(q{SELECT max(requests) FROM gpucredit_registry.downloads('acme', '', 0, 1000)}), '>', 10,
	'the log says by how many requests');

# What a client says about itself changes nothing; what it does not read neither.
my @open = ('GET', '/acme/open/resolve/main/whole');
foreach my $say ({ 'user-agent' => 'a' }, { 'x-real-ip' => '10.0.0.1' }, { 'x-forwarded-for' => '10.0.0.2' },
	{ 'x-registry-proxy' => 'pass x', 'x-real-ip' => '10.0.0.3' }, { 'client-address' => '10.0.0.4' })
{
	status_is(request(@open, headers => { range => 'bytes=0-9', %$say }), 206, join ' ', %$say);
}
logged($whole);
($bytes) = split /\|/, q_($egress);
status_is(request('HEAD', $open[1]), 200, 'HEAD');
status_is(request(@open, headers => { range => "bytes=$size-" }), 416, 'a range behind the end');
status_is(request(@open, headers => { 'if-none-match' => '*' }), 304, 'what the client has');
logged($whole);
is((split /\|/, q_($egress))[0], $bytes, 'cost nothing');
request(@open, headers => { range => 'bytes=5-14' }) for 1 .. 3;
request(@open, headers => { range => 'bytes=0-99,50-149,3-4' });
logged($whole);
is((split /\|/, q_($egress))[0] - $bytes, 30 + $size, 'each answer is billed for what it had, once: of many ranges the whole file');
is(logged($whole), '1|address:127.0.0.1', 'all of this is the same download');
request(@open, token => $rival, headers => { range => 'bytes=0-0' });
is(logged($whole), '2|address:127.0.0.1 account:rival/', 'an account is another client');
my $far = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port, LocalAddr => '127.0.0.9');
$far->print("GET $open[1] HTTP/1.1\r\nHost: x\r\nRange: bytes=0-0\r\nConnection: close\r\n\r\n");
1 while defined $far->getline;
is(logged($whole), '3|address:127.0.0.1 account:rival/ address:127.0.0.9', 'and so is an address');

# A client that breaks off is billed for what it received.
my $left = IO::Socket::INET->new(Proto => 'tcp');
setsockopt($left, SOL_SOCKET, SO_RCVBUF, 4096);
connect($left, sockaddr_in($port, inet_aton('127.0.0.1'))) or die $!;
($bytes) = split /\|/, q_($egress);
$left->autoflush(1);
$left->print("GET $open[1] HTTP/1.1\r\nHost: x\r\n\r\n");
$left->getline;
setsockopt($left, SOL_SOCKET, SO_LINGER, pack('ii', 1, 0));
close $left;
logged($whole);
cmp_ok((split /\|/, q_($egress))[0] - $bytes, '<', 300_000, 'after the headers, less than the kernel would keep');

# What does not wait for the disk: that a download or a part of an upload began or ended, and nothing else.
sub commits
{
	my ($method, $path, $body, $headers) = @_;
	my $db = connect_to($node, 'reg');

	$db->begin_work;
	$db->selectall_arrayref('SELECT * FROM gpucredit_registry.http(?, ?, ?, ?::bytea)', undef, $method, $path,
		encode_json({ host => 'h', authorization => "Bearer $acme", writer => 7, %{ $headers // {} } }), $body);
	my ($how) = $db->selectrow_array('SHOW synchronous_commit');
	$db->commit;
	my ($after) = $db->selectrow_array('SHOW synchronous_commit');
	return "$how $after";
}
is(commits('GET', '/acme/open/resolve/main/w', ''), 'off on', 'that a download began is on disk later, and no other transaction of its connection');
is(commits('GET', $_, ''), 'on on', "GET $_ waits") foreach '/', '/acme/open', '/api/models/acme/open', '/acme/open/resolve/main/none', '/api/whoami-v2', '/v2/';
is(commits('POST', '/api/models/acme/open/commit/main', qq({"key": "header", "value": {"summary": "s"}}\n{"key": "file", "value": {"path": "sync", "content": ""}})),
	'on on', 'a commit waits');
is(commits('POST', '/api/repos/create', '{"name": "sync"}'), 'on on', 'a new repository does');
is(commits('PUT', '/v2/acme/syncimage/manifests/v1', undef), 'on on', 'an image that makes its repository does');
q_(q{SELECT gpucredit_registry.set_storage_quota('acme', NULL, 10)});
is(commits('GET', '/acme/open/resolve/main/w', ''), 'on on', 'and so does a download that is denied, of which its owner hears');
q_(q{SELECT gpucredit_registry.set_storage_quota('acme', NULL, NULL)});

# Aliases and immutable tags.
my $api = '/api/models/acme/open';
status_is(json_request('POST', "$api/alias/champion", $acme, { revision => $open }), 200, 'an alias names a version');
status_is(commit($acme, 'acme/open', [ { key => 'file', value => { path => 'w', encoding => 'base64', content => 'e30=' } } ]),
	200, 'while the branch goes on');
ok(request('GET', '/acme/open/resolve/%40champion/w')->{content} eq $weights, 'the alias stays, and clients read by it');
is(json_request('GET', "$api/revision/%40champion")->{json}{sha}, $open, 'as a revision');
is_deeply(json_request('GET', "$api/refs")->{json}{aliases}, [ { name => '@champion', targetCommit => $open } ], 'it is listed');
is(json_request('GET', "$api/refs")->{json}{branches}[0]{name}, 'main', 'and is no branch');
is(@{ json_request('GET', "$api/refs")->{json}{branches} }, 1, 'of which there is one');
status_is(json_request('POST', "$api/commit/%40champion", $acme, '{"key": "header", "value": {}}'), 400, 'nobody commits to it');
status_is(json_request('POST', "$api/branch/%40champion", $acme, {}), 400, 'nor makes a branch of its name');
status_is(json_request('POST', "$api/alias/champion", $rival, { revision => 'main' }), 403, 'who may only read moves none');
status_is(json_request('POST', "$api/alias/a.b", $acme, {}), 400, 'no name of one');
status_is(json_request('POST', "$api/alias/next", $acme, { revision => 'none' }), 404, 'no revision');
status_is(json_request('POST', "$api/alias/champion", $acme), 200, 'it moves');
is(request('GET', '/acme/open/resolve/%40champion/w')->{content}, '{}', 'to main');
status_is(json_request('DELETE', "$api/alias/champion", $acme), 200, 'and goes');
status_is(json_request('DELETE', "$api/alias/champion", $acme), 404, 'once');
status_is(request('GET', '/acme/open/resolve/%40champion/w'), 404, 'nothing is read by it');
q_(q{SELECT gpucredit_registry.set_immutable_tags('acme', model, '{v*}') FROM gpucredit_registry.model WHERE name = 'open'});
status_is(json_request('POST', "$api/tag/$open", $acme, { tag => 'v1' }), 201, 'an immutable tag is made');
status_is(json_request('POST', "$api/tag/$open", $acme, { tag => 'beta' }), 201, 'and another');
status_is(json_request('DELETE', "$api/tag/v1", $acme), 403, 'it is not deleted');
status_is(json_request('POST', "$api/tag/main", $acme, { tag => 'v1' }), 403, 'nor moved');
status_is(json_request('DELETE', '/api/repos/delete', $acme, { name => 'open', organization => 'acme' }), 403, 'nor its repository deleted');
status_is(json_request('DELETE', "$api/tag/beta", $acme), 200, 'the other is');

# Refusals that pass.
q_(q{SELECT gpucredit_registry.set_storage_quota('acme', NULL, 10)});
my $over = request('GET', $url, token => $acme);
status_is($over, 429, 'over the egress quota');
like($over->{content}, qr/egress_quota/, 'the reader is told why');
q_(q{SELECT gpucredit_registry.set_storage_quota('acme', NULL, NULL)});
q_(q{SELECT gpucredit.suspend_account('acme', 'nlp', true)});
my $suspended = batch($acme, 'acme/base', 'upload', content(9, 1000))->{json}{objects}[0]{error};
is_deeply($suspended, { code => 402, message => 'account_suspended' }, 'a suspended account stores nothing');
q_(q{SELECT gpucredit.suspend_account('acme', 'nlp', false)});
q_(q{SELECT gpucredit.revoke('acme', bucket, 'r' || bucket, 'x') FROM gpucredit.buckets('acme')});
is(batch($acme, 'acme/base', 'upload', content(9, 1000))->{json}{objects}[0]{error}{code}, 402,
	'without credit nothing is stored');
status_is(request('GET', $url, token => $acme), 200, 'and all is read');

# Quarantine: nobody reads, by any way.
q_(q{SELECT gpucredit_registry.quarantine('acme', version, 'backdoor', 'q' || version)
	FROM gpucredit_registry.version WHERE org = 'acme'});
$got = request('GET', $url, token => $acme);
status_is($got, 403, 'what is in quarantine is not read');
like($got->{content}, qr/backdoor/, 'and the reader sees the reason');
status_is(request('GET', $down), 403, 'nor by a URL that was signed before');
q_(q{SELECT gpucredit.issue('acme', '', 'for pages', 1000)});

# a browser: the list and a repository's page; who may not read one learns nothing
{
	my $script = '<script>alert(1)</script>';

	json_request('POST', '/api/repos/create', $acme, { name => $_, organization => 'acme' })
	  foreach 'page', 'hidden';
	status_is(commit($acme, 'acme/page', [ { key => 'file', value => { path => 'README.md',
			content => "---\nlicense: mit\ntags: ['\"><b>']\n---\n$script & 'more'\n" } } ]), 200, 'a card');
	q_(q{UPDATE gpucredit_registry.model SET visibility = 'public' WHERE org = 'acme' AND name = 'page'});
	my $list = request('GET', '/');
	status_is($list, 200, 'a browser is shown what is public');
	like($list->{headers}{'content-type'}, qr{^text/html}, 'as a page');
	like($list->{content}, qr{<a href="/acme/page">acme/page</a>}, 'with a link');
	unlike($list->{content}, qr/hidden/, 'and nothing private');
	like(request('GET', '/', token => $acme)->{content}, qr{acme/hidden}, 'but to whoever may read it');
	unlike(request('GET', '/', token => $rival)->{content}, qr{acme/hidden}, 'and not to others');
	unlike(request('GET', '/?search=nothing%3Cb%3E')->{content}, qr/<b>|acme/, 'words are a search, and text');
	my $page = request('GET', '/acme/page');
	status_is($page, 200, 'a repository has a page');
	like($page->{content}, qr/&lt;script&gt;alert\(1\)&lt;\/script&gt; &amp; &#39;more&#39;/, 'with its card as text');
	unlike($page->{content}, qr/<script|<b>/, 'in which no HTML of its author is');
	like($page->{headers}{'content-security-policy'}, qr/default-src 'none'/, 'and no script would run');
	like($page->{content}, qr/<dt>licence<\/dt><dd>mit<\/dd>/, 'and what the card states');
	my $head = request('HEAD', '/acme/page');
	is($head->{headers}{'content-length'}, length($page->{content}), 'HEAD answers its length');
	foreach ([ undef, 401 ], [ $rival, 404 ])
	{
		my ($token, $status) = @$_;
		my ($there, $absent) = map { request('GET', "/acme/$_", token => $token) } 'hidden', 'absent';

		is($there->{status}, $status, 'a private repository is ' . ($token ? 'absent' : 'asked a token for'));
		$there->{content} =~ s/hidden/absent/g;
		is_deeply([ @$there{qw(status content)}, $there->{headers}{'www-authenticate'} ],
			[ @$absent{qw(status content)}, $absent->{headers}{'www-authenticate'} ], 'exactly as one that is none');
	}
	status_is(request('GET', '/acme/hidden', headers => {
				authorization => 'Basic ' . encode_base64("me:$acme", '') }), 200, 'a browser sends a token as a password');
	q_(q{SELECT gpucredit_registry.quarantine('acme', v.version, 'bad', 'page', files => '{README.md}')
		FROM gpucredit_registry.version v JOIN gpucredit_registry.model m USING (org, model) WHERE m.name = 'page'});
	my $held = request('GET', '/acme/page');
	status_is($held, 200, 'a page of what is in quarantine');
	unlike($held->{content}, qr/alert/, 'withholds the card');
	like($held->{content}, qr/withheld: quarantined/, 'and says so');
	status_is(request('GET', '/images/acme/page'), 401, 'a model is no image');
	status_is(request('POST', '/acme/page'), 404, 'pages are read');
}

# the objects of a batch stay within the quota together
{
	my $used = q_(q{SELECT gpucredit_registry.unique_bytes('acme') + coalesce(sum(u.size -
			(SELECT sum(p.received) FROM gpucredit_registry.upload_part p WHERE p.upload = u.upload)), 0)
		FROM gpucredit_registry.upload u WHERE u.org = 'acme'});
	my @contents = map { content(700 + $_, 10_000) } 1 .. 3;

	q_(q{SELECT gpucredit_registry.set_storage_quota('acme', } . ($used + 25_000) . ')');
	my $answer = batch($acme, 'acme/base', 'upload', @contents);
	is_deeply([ map { $_->{error} ? $_->{error}{message} : 'sent' } @{ $answer->{json}{objects} } ],
		[ 'sent', 'sent', 'storage_quota' ], 'the third of a batch does not fit');
	$answer = batch($acme, 'acme/base', 'upload', reverse @contents);
	is_deeply([ map { $_->{error} ? $_->{error}{message} : 'sent' } @{ $answer->{json}{objects} } ],
		[ 'storage_quota', 'sent', 'sent' ], 'uploads that are open already count once');
	q_(q{SELECT gpucredit_registry.set_storage_quota('acme', NULL)});
	is(upload($acme, 'acme/base', $_)->{status}, 200, 'without a quota each is sent') foreach @contents;
}

registry_verify($node);

# Those who watch the daemon need no token.
foreach my $path ('/healthz', '/readyz', '/readyz?a=b')
{
	my $answer = request('GET', $path);

	status_is($answer, 200, "$path is answered");
	is($answer->{content}, "ok\n", 'with a word');
}
status_is(request('HEAD', '/healthz'), 200, 'also a request for its headers alone');
status_is(request('POST', '/healthz'), 404, 'but no other method');
status_is(request('GET', '/healthz/'), 404, 'nor another path');
my $metrics = request('GET', '/metrics');
status_is($metrics, 200, 'counters are there');
like($metrics->{content}, qr/^registryd_requests_total\{status="$_"\} [1-9]/m, "they count $_") foreach qw(2xx 4xx);
like($metrics->{content}, qr/^registryd_${_}_bytes_total [1-9]\d{5}/m, "and bytes that were $_") foreach qw(received sent);
like($metrics->{content}, qr/^registryd_connections [1-9]/m, 'and connections');
unlike($metrics->{content}, qr/acme|rival|nlp/, 'but name nobody');
$node->stop('immediate');
status_is(request('GET', '/readyz'), 503, 'without a database the daemon is not ready');
status_is(request('GET', '/healthz'), 200, 'but lives');
$node->start;
status_is(request('GET', '/readyz'), 200, 'and is ready again by itself');
for my $way ('fast', 'immediate')
{
	$node->stop($way);
	$node->start;
	status_is(request('GET', '/api/whoami-v2', token => $acme), 200, "no client fails because the server has restarted ($way)");
}
done_testing();
