# oci.pl: images, with skopeo and with requests that no client sends
#
# Packages: libcurl4-openssl-dev libmicrohttpd-dev libssl-dev libjansson-dev libpq-dev skopeo
use strict;
use warnings;
use Digest::SHA 'sha256_hex';
use File::Basename;
use FindBin;
use IO::Socket::INET;
use IPC::Run;
use JSON::PP;
use MIME::Base64;
use lib "$FindBin::RealBin/lib";
use GpuCreditRegistry;
use GpuCredit;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes 'sleep';

my $node = registry_node('oci');
daemon_start($node);
my $dir = PostgreSQL::Test::Utils::tempdir();
# skopeo knows no tokens but those it is given
$ENV{REGISTRY_AUTH_FILE} = "$dir/auth.json";
append_to_file($ENV{REGISTRY_AUTH_FILE}, '{}');
my $acme = registry_token($node, 'acme', 'nlp');
my $read = registry_token($node, 'acme', 'nlp', 'read');
my $rival = registry_token($node, 'rival');
my $host = daemon_url('') =~ s{^http://}{}r;

sub q_ { return query($node, 'reg', $_[0]) }

sub status_is
{
	my ($answer, $status, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	return is($answer->{status}, $status, $name)
	  || diag(($answer->{content} // '') =~ s/[^ -~]+/ /gr =~ s/^(.{500}).*/$1/sr);
}

sub content
{
	my ($seed, $size) = @_;
	my $text = '';

	srand($seed);
	$text .= pack('L', rand(2**32)) while length($text) < $size;
	return substr($text, 0, $size);
}

sub digest { return 'sha256:' . sha256_hex($_[0]) }

# A manifest of these layers, and its config.
sub manifest
{
	my (@layers) = @_;
	my $config = '{"architecture":"amd64","os":"linux","rootfs":{"type":"layers","diff_ids":['
	  . join(',', map { '"' . digest($_) . '"' } @layers) . ']}}';
	my $entry = sub {
		return sprintf('{"mediaType":"application/vnd.oci.image.%s","digest":"%s","size":%d}',
			$_[0], digest($_[1]), length $_[1]) };

	return (sprintf('{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json",'
				. '"config":%s,"layers":[%s]}', $entry->('config.v1+json', $config),
			join(',', map { $entry->('layer.v1.tar', $_) } @layers)), $config);
}

# An image in a folder, as "oci:" names it.
sub write_layout
{
	my ($folder, @layers) = @_;
	my ($manifest, $config) = manifest(@layers);

	mkdir $_ foreach $folder, "$folder/blobs", "$folder/blobs/sha256";
	append_to_file("$folder/blobs/sha256/" . sha256_hex($_), $_) foreach @layers, $config, $manifest;
	append_to_file("$folder/oci-layout", '{"imageLayoutVersion":"1.0.0"}');
	append_to_file("$folder/index.json", sprintf('{"schemaVersion":2,"manifests":[{"mediaType":'
				. '"application/vnd.oci.image.manifest.v1+json","digest":"%s","size":%d}]}',
			digest($manifest), length $manifest));
	return $manifest;
}

# A test: skopeo succeeds, or fails as expected; returns its output.
sub skopeo
{
	my ($good, $name, @arguments) = @_;
	my $out = '';
	my $done = IPC::Run::run([ 'skopeo', '--insecure-policy', @arguments ], '<', \undef, '>&', \$out,
		init => sub { $ENV{HOME} = $dir }, IPC::Run::timeout(180));
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	is($done ? 1 : 0, $good, $name) || diag($out);
	return $out;
}

# All blobs of an image in a folder: name and content.
sub blobs { return join("\n", map { basename($_) . ' ' . sha256_hex(slurp_file($_)) } sort glob("$_[0]/blobs/sha256/*")) }

my @layers = (content(1, 3_000_000), content(2, 500_000));
my $manifest = write_layout("$dir/image", @layers);
skopeo(1, 'skopeo pushes an image', 'copy', '--preserve-digests', '--dest-tls-verify=false', '--dest-creds', "x:$acme",
	"oci:$dir/image", "docker://$host/acme/trainer:v1");
skopeo(1, 'and pulls it', 'copy', '--preserve-digests', '--src-tls-verify=false', '--src-creds', "x:$read",
	"docker://$host/acme/trainer:v1", "oci:$dir/back:v1");
is(blobs("$dir/back"), blobs("$dir/image"), 'byte for byte');
my $stored = q_(q{SELECT "unique" FROM gpucredit_registry.storage('acme')});
write_layout("$dir/next", substr($layers[0], 0, 1_500_000) . 'changed' . substr($layers[0], 1_500_000), $layers[1]);
skopeo(1, 'a later image', 'copy', '--preserve-digests', '--dest-tls-verify=false', '--dest-creds', "x:$acme", "oci:$dir/next",
	"docker://$host/acme/trainer:v2");
cmp_ok(q_(q{SELECT "unique" FROM gpucredit_registry.storage('acme')}) - $stored, '<', 400_000,
	'stores little more than its change');
like(skopeo(1, 'tags', 'list-tags', '--tls-verify=false', '--creds', "x:$acme", "docker://$host/acme/trainer"),
	qr/"v1",\s+"v2"/, 'are listed');
skopeo(0, 'another organisation gets nothing', 'inspect', '--tls-verify=false', '--creds', "x:$rival",
	"docker://$host/acme/trainer:v1");
skopeo(0, 'nor does nobody', 'inspect', '--tls-verify=false', "docker://$host/acme/trainer:v1");
skopeo(0, 'a token that may only read pushes nothing', 'copy', '--preserve-digests', '--dest-tls-verify=false', '--dest-creds',
	"x:$read", "oci:$dir/image", "docker://$host/acme/trainer:v3");
skopeo(0, 'a wrong token', 'inspect', '--tls-verify=false', '--creds', 'x:hf_wrong',
	"docker://$host/acme/trainer:v1");
q_(q{UPDATE gpucredit_registry.model SET visibility = 'public' WHERE name = 'trainer'});
skopeo(1, 'what is public anybody pulls', 'copy', '--preserve-digests', '--src-tls-verify=false', "docker://$host/acme/trainer:v1",
	"oci:$dir/public:v1");
is(blobs("$dir/public"), blobs("$dir/image"), 'the same');
skopeo(1, 'and copies to a repository of its own', 'copy', '--preserve-digests', '--src-tls-verify=false', '--dest-tls-verify=false',
	'--src-creds', "x:$rival", '--dest-creds', "x:$rival", "docker://$host/acme/trainer:v1",
	"docker://$host/rival/copy:v1");
is(q_(q{SELECT "unique" > 3500000 FROM gpucredit_registry.storage('rival')}), 't', 'for which it pays');
q_(q{UPDATE gpucredit_registry.model SET visibility = 'private' WHERE name = 'trainer'});

# Requests, one by one.
my $r = request('GET', '/v2/');
status_is($r, 401, 'a request without a token gets the challenge');
is($r->{headers}{'www-authenticate'}, sprintf('Bearer realm="%s/v2/token",service="registry"', daemon_url('')),
	'where to get one');
is(decode_json(request('GET', '/v2/token', headers => { authorization => 'Basic ' . encode_base64("x:$acme", '') })
		->{content})->{token}, $acme, 'there it gets one for its name and token');
status_is(request('GET', '/v2/token', headers => { authorization => 'Basic ' . encode_base64('x:wrong', '') }), 401,
	'not for a wrong one');
status_is(request('GET', '/v2/', token => $acme), 200, 'with it the API is there');
sub oci { my ($method, $path, $token, %more) = @_; return request($method, "/v2/$path", token => $token, %more) }
sub code { return eval { decode_json($_[0]{content})->{errors}[0]{code} } // '' }

# Sends a blob in pieces; the last answer.
sub push_blob
{
	my ($repo, $token, $digest, @pieces) = @_;
	my $answer = oci('POST', "$repo/blobs/uploads/", $token);
	my $at = 0;

	return $answer unless $answer->{status} == 202;
	my $location = $answer->{headers}{location};
	my $last = pop @pieces;
	foreach (@pieces)
	{
		$answer = request('PATCH', $location, token => $token, content => $_,
			headers => { 'content-range' => sprintf('%d-%d', $at, $at + length($_) - 1) });
		return $answer unless $answer->{status} == 202;
		$at += length;
		is($answer->{headers}{range}, sprintf('0-%d', $at - 1), 'the answer has how much is stored');
		$location = $answer->{headers}{location};
	}
	return request('PUT', "$location?digest=$digest", token => $token, content => $last);
}

my $blob = content(5, 700_000);
$r = push_blob('acme/raw', $acme, digest($blob), $blob);
status_is($r, 201, 'a blob, sent whole');
is($r->{headers}{'docker-content-digest'}, digest($blob), 'has its digest');
my $parts = content(6, 900_000);
status_is(push_blob('acme/raw', $acme, digest($parts), substr($parts, 0, 1), substr($parts, 1, 500_000),
		substr($parts, 500_001)), 201, 'one in pieces');
status_is(push_blob('acme/raw', $acme, digest($parts . 'x'), $parts . 'x', ''), 201, 'one whose end is empty');
status_is(push_blob('acme/raw', $acme, digest(''), ''), 201, 'an empty one');
foreach ([ $blob, 'whole' ], [ $parts, 'in pieces' ])
{
	my ($b, $how) = @$_;

	ok(oci('GET', 'acme/raw/blobs/' . digest($b), $acme)->{content} eq $b, "what was sent $how comes back");
}
is(oci('HEAD', 'acme/raw/blobs/' . digest($blob), $acme)->{headers}{'content-length'}, 700_000, 'HEAD has its size');
$r = oci('GET', 'acme/raw/blobs/' . digest($blob), $acme, headers => { range => 'bytes=100-199' });
ok($r->{status} == 206 && $r->{content} eq substr($blob, 100, 100), 'a range of it');
status_is(push_blob('acme/raw', $acme, digest('x'), 'y'), 422, 'bytes of another digest');
status_is(push_blob('acme/raw', $acme, 'sha256:xyz', 'y'), 400, 'what is no digest');
status_is(push_blob('acme/raw', $acme, 'md5:00', 'y'), 400, 'nor a digest we know');

# An upload goes on where it was cut off.
my $location = oci('POST', 'acme/raw/blobs/uploads/', $acme)->{headers}{location};
my $long = content(7, 3_000_000);
{
	my ($port, $target) = $location =~ m{:(\d+)(/.*)};
	my $socket = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port);

	$socket->print("PATCH $target HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer $acme\r\nContent-Length: 3000000\r\n\r\n",
		substr($long, 0, 2_000_000));
	close $socket;
}
my $range = '';
for (1 .. 300)
{
	last if ($range = request('GET', $location, token => $acme)->{headers}{range}) ne '0-0';
	sleep 0.1;
}
my $at = ($range =~ /-(\d+)$/)[0] + 1;
cmp_ok($at, '>', 1_800_000, 'what came whole before the cut is there');
$r = request('PATCH', $location, token => $acme, content => 'x',
	headers => { 'content-range' => ($at + 5) . '-' . ($at + 5) });
status_is($r, 416, 'a client that continues at another byte is refused');
is($r->{headers}{range}, $range, 'where to go on');
status_is(request('GET', $location, token => $rival), 404, 'another organisation sees no upload');
status_is(request('GET', $location =~ s{acme/raw}{acme/trainer}r, token => $acme), 404, 'nor does another repository');
status_is(request('PATCH', $location, token => $acme, content => substr($long, $at, 100_000)), 202, 'it goes on');
daemon_kill('KILL');
daemon_start($node);
is(request('GET', $location, token => $acme)->{headers}{range}, '0-' . ($at + 99_999),
	'a daemon that was killed has lost nothing that it acknowledged');
status_is(request('PUT', "$location?digest=" . digest($long), token => $acme, content => substr($long, $at + 100_000)),
	201, 'to the end');
$location = oci('POST', 'acme/raw/blobs/uploads/', $acme)->{headers}{location};
status_is(request('DELETE', $location, token => $acme), 204, 'an upload is given up');
status_is(request('PATCH', $location, token => $acme, content => 'x'), 404, 'then it is over');

# Knowing a digest grants nothing.
my $mount = 'blobs/uploads/?mount=' . digest($blob) . '&from=acme/raw';
status_is(oci('POST', "acme/other/$mount", $acme), 201, 'who may read a blob mounts it');
status_is(oci('HEAD', 'acme/other/blobs/' . digest($blob), $acme), 200, 'and has it');
status_is(oci('POST', "rival/mine/$mount", $rival), 202, 'who may not is asked for the bytes');
status_is(oci('POST', 'rival/mine/blobs/uploads/?mount=' . digest($blob) . '&from=rival/none', $rival), 202,
	'as for what is nowhere');
status_is(oci('HEAD', 'rival/mine/blobs/' . digest($blob), $rival), 404, 'and has it not');
status_is(oci('HEAD', 'acme/trainer/blobs/' . digest($blob), $acme), 404, 'a blob is in the repositories that have it alone');
my ($stolen, $config) = manifest($blob);
push_blob('rival/mine', $rival, digest($config), $config);
$r = oci('PUT', 'rival/mine/manifests/v1', $rival, content => $stolen);
status_is($r, 404, 'a manifest names no bytes that were not sent');
status_is(oci('GET', 'acme/raw/blobs/' . digest($blob), $rival), 404, 'nor is it read');
q_(q{SELECT gpucredit_registry.grant_access('acme', (SELECT model FROM gpucredit_registry.model
	WHERE name = 'raw'), 'org:rival', 'read')});
status_is(oci('GET', 'acme/raw/blobs/' . digest($blob), $rival), 404,
	'nor by who may read the repository, while no manifest names it');
push_blob('acme/raw', $acme, digest($config), $config);
status_is(oci('PUT', 'acme/raw/manifests/v1', $acme, content => $stolen,
		headers => { 'content-type' => 'application/vnd.oci.image.manifest.v1+json' }), 201, 'one does now');
status_is(oci('POST', "rival/mine/$mount", $rival), 201, 'then it is mounted there, too');

# Manifests.
$r = oci('GET', 'acme/raw/manifests/v1', $acme);
is($r->{content}, $stolen, 'a manifest comes back as it was sent');
is($r->{headers}{'content-type'}, 'application/vnd.oci.image.manifest.v1+json', 'with its type');
is($r->{headers}{'docker-content-digest'}, digest($stolen), 'and its digest');
is(oci('GET', 'acme/raw/manifests/' . digest($stolen), $acme)->{content}, $stolen, 'by digest, too');
my $versions = q_('SELECT count(*) FROM gpucredit_registry.version');
status_is(oci('PUT', 'acme/raw/manifests/latest', $acme, content => $stolen), 201, 'the same again is a tag');
is(q_('SELECT count(*) FROM gpucredit_registry.version'), $versions, 'and no other version');
my $index = sprintf('{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":'
	  . '[{"mediaType":"application/vnd.oci.image.manifest.v1+json","digest":"%s","size":%d}]}',
	digest($stolen), length $stolen);
status_is(oci('PUT', 'acme/raw/manifests/multi', $acme, content => $index), 201, 'an index of manifests');
status_is(oci('PUT', 'acme/raw/manifests/multi', $acme, content => $index =~ s/sha256:../sha256:00/r), 404,
	'not of one that is not there');
foreach (
	[ 'no JSON', 400 ], [ '{}', 400 ], [ '[]', 400 ], [ '{"schemaVersion":1}', 400 ], [ '[' x 100_000, 400 ],
	[ '{"schemaVersion":2,"layers":[]}', 400 ], [ '{"schemaVersion":2,"config":1,"layers":{}}', 400 ],
	[ '{"schemaVersion":2,"config":{"digest":"../x"},"layers":[]}', 400 ], [ ' ' x 1_048_577, 413 ],
	[ '{"schemaVersion":2,"config":{"digest":"' . digest($config) . '"},"mediaType":"a\r\nb"}', 400 ])
{
	my ($body, $status) = @$_;

	status_is(oci('PUT', 'acme/raw/manifests/bad', $acme, content => $body), $status, 'a manifest of ' . substr($body, 0, 50));
}
status_is(oci('PUT', 'acme/raw/manifests/' . digest('x'), $acme, content => $stolen), 400, 'of another digest');
foreach (
	[ 'GET', 'acme/raw/manifests/none', 404, 'MANIFEST_UNKNOWN' ], [ 'GET', 'acme/raw/blobs/' . digest('no'), 404, 'BLOB_UNKNOWN' ],
	[ 'GET', 'acme/none/tags/list', 404, 'NAME_UNKNOWN' ], [ 'GET', 'acme/raw', 404, 'NAME_UNKNOWN' ],
	[ 'GET', 'acme/raw/../x', 404, 'NAME_UNKNOWN' ], [ 'POST', 'acme/a..b/blobs/uploads/', 400, undef ],
	[ 'PATCH', 'acme/raw/blobs/uploads/999999999999999999', 404, 'BLOB_UPLOAD_UNKNOWN' ])
{
	my ($method, $path, $status, $code) = @$_;
	my $answer = oci($method, $path, $acme);

	status_is($answer, $status, "$method $path");
	is(code($answer), $code, "is $code") if $code && $method eq 'GET';
}
is(oci('GET', 'acme/raw/tags/list?n=2', $acme)->{content} =~ s/\s//gr, '{"name":"acme/raw","tags":["latest","multi"]}', 'a page of tags');
is(oci('GET', 'acme/raw/tags/list?n=2&last=multi', $acme)->{content} =~ s/\s//gr, '{"name":"acme/raw","tags":["v1"]}', 'the next');

# An immutable tag stays, with all that its index names.
my $raw = q_(q{SELECT model FROM gpucredit_registry.model WHERE name = 'raw'});
q_("SELECT gpucredit_registry.set_immutable_tags('acme', $raw, '{mul?i}')");
status_is(oci('PUT', 'acme/raw/manifests/multi', $acme, content => $index), 201, 'the same is pushed again');
status_is(oci('PUT', 'acme/raw/manifests/multi', $acme, content => $index . ' '), 403, 'another is not');
status_is(oci('DELETE', 'acme/raw/manifests/multi', $acme), 403, 'nor is the tag deleted');
status_is(oci('DELETE', 'acme/raw/manifests/' . digest($index), $acme), 403, 'nor what it names');
my ($part) = $index =~ /(sha256:[0-9a-f]{64})/;
status_is(oci('DELETE', "acme/raw/manifests/$part", $acme), 403, 'nor an image of it');
q_("SELECT gpucredit_registry.set_retention('acme', $raw, 0, keep_read => '0', prune_tags => '{latest,v1}')");
is(q_("SELECT string_agg(kept_by, ' ' ORDER BY version) FROM gpucredit_registry.retention('acme', $raw) r
	WHERE kept_by LIKE '%immutable%'"), 'immutable_tag, tag immutable_tag, tag', 'retention keeps both');
q_("SELECT gpucredit_registry.set_immutable_tags('acme', $raw, '{}'), gpucredit_registry.delete_retention('acme', $raw)");

# Scans, quotas and credit are those of models.
q_(q{SELECT gpucredit_registry.set_storage_quota('acme', "unique" + 100000, NULL) FROM gpucredit_registry.storage('acme')});
status_is(push_blob('acme/raw', $acme, digest(content(8, 300_000)), content(8, 300_000)), 403, 'more than the quota');
status_is(push_blob('acme/raw', $acme, digest(content(8, 50_000)), content(8, 50_000)), 201, 'less');
q_(q{SELECT gpucredit_registry.set_storage_quota('acme', 1, NULL)});
is(code(oci('POST', 'acme/raw/blobs/uploads/', $acme)), 'DENIED', 'no upload is begun above it');
q_(q{SELECT gpucredit_registry.set_storage_quota('acme', NULL, NULL)});
cmp_ok(q_(q{SELECT sum(bytes) FROM gpucredit_registry.egress WHERE org = 'acme'}), '>', 7_000_000, 'what was pulled is counted');
q_(q{SELECT gpucredit_registry.quarantine('acme', version, 'backdoor', 'q1') FROM gpucredit_registry.ref
	JOIN gpucredit_registry.model USING (org, model) WHERE name = 'trainer' AND ref = 'v1'});
status_is(oci('GET', 'acme/trainer/manifests/v1', $acme), 403, 'an image in quarantine is not pulled');
status_is(oci('GET', 'acme/trainer/blobs/' . digest($layers[0]), $acme), 403, 'nor its layers');
status_is(oci('GET', 'acme/trainer/blobs/' . digest($layers[1]), $acme), 200, 'but those that another image has');
status_is(oci('POST', 'acme/other/blobs/uploads/?from=acme/trainer&mount=' . digest($layers[0]), $acme), 202, 'nor are they mounted');

# Deleting.
status_is(oci('DELETE', 'acme/raw/blobs/' . digest($blob), $acme), 405, 'a blob that a manifest names stays');
status_is(oci('DELETE', 'acme/raw/manifests/latest', $read), 403, 'who may only read deletes nothing');
status_is(oci('DELETE', 'acme/raw/manifests/latest', $acme), 202, 'a tag goes');
status_is(oci('GET', 'acme/raw/manifests/v1', $acme), 200, 'alone');
status_is(oci('DELETE', 'acme/raw/manifests/' . digest($stolen), $acme), 202, 'a manifest goes');
status_is(oci('GET', 'acme/raw/manifests/v1', $acme), 404, 'with its tags');
status_is(oci('DELETE', 'acme/raw/blobs/' . digest($blob), $acme), 202, 'then the blob may');
status_is(oci('DELETE', 'acme/raw/blobs/' . digest($blob), $acme), 404, 'once');
status_is(oci('PUT', 'acme/raw/manifests/v1', $acme, content => $stolen), 404, 'and is missed');
skopeo(1, 'skopeo deletes', 'delete', '--tls-verify=false', '--creds', "x:$acme", "docker://$host/acme/trainer:v2");
my $before = daemon_packs();
daemon_kill();
upkeep($node, 2);
upkeep($node, 4);
is(q_(sprintf(q{SELECT count(*) FROM gpucredit_registry.object WHERE sha256 = '\x%s'}, sha256_hex($parts))), '0',
	'what no manifest names goes');
daemon_start($node);
ok(oci('GET', 'rival/copy/blobs/' . digest($layers[0]), $rival)->{content} eq $layers[0], 'what another has stays');
registry_verify($node);
done_testing();
