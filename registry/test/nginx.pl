# nginx.pl: the configuration of nginx that is there to copy, with Debian's nginx
#
# Packages: libcurl4-openssl-dev libmicrohttpd-dev libssl-dev libjansson-dev libpq-dev nginx-light curl openssl
use strict;
use warnings;
use Digest::SHA 'sha256_hex';
use FindBin;
use IPC::Run;
use JSON::PP;
use lib "$FindBin::RealBin/lib";
use GpuCreditRegistry;
use GpuCredit;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = registry_node('nginx');
my $secret = '0123456789abcdef0123456789abcdef';
my $dir    = PostgreSQL::Test::Utils::tempdir();
append_to_file("$dir/secret", "$secret\n");
daemon_start($node, '--proxy-secret', "$dir/secret");
my $token = registry_token($node, 'acme');
my $port  = PostgreSQL::Test::Cluster::get_free_port();
my $url   = "https://127.0.0.1:$port";

# As it stands, but for names, ports and paths.
my $conf = slurp_checkout('packaging/registry.nginx.conf');
my ($daemon) = daemon_url('') =~ m{//(.*)};
$conf =~ s{127\.0\.0\.1:8085}{$daemon} or die;
$conf =~ s{listen 443}{listen 127.0.0.1:$port} or die;
$conf =~ s{/var/cache/nginx/registry}{$dir/cache} or die;
append_to_file("$dir/secret.conf", "set \$registry_secret \"$secret\";\n");
$conf =~ s{/etc/nginx/registry-secret.conf}{$dir/secret.conf} or die;
$conf =~ s{/etc/ssl/\w+/models\.example\.(pem|key)}{$dir/$1}g;
my @temp = map { "${_}_temp_path $dir/$_;" } qw(client_body proxy fastcgi uwsgi scgi);
append_to_file("$dir/nginx.conf", "daemon off; pid $dir/pid; events {}
http { access_log off; @temp\n$conf}\n");
system("openssl req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=models.example -keyout $dir/key -out $dir/pem 2>$dir/openssl.log") == 0
  or die;
my $nginx = IPC::Run::start([ '/usr/sbin/nginx', '-e', "$dir/error.log", '-c', "$dir/nginx.conf" ],
	'<', \undef, '>&', "$dir/out.log");
END { my $status = $?; $nginx->kill_kill if $nginx; $? = $status }

# curl's answer: status, headers, body.
sub curl
{
	my (@arguments) = @_;
	my ($head, $body) = ('', '');

	unlink "$dir/head", "$dir/body";
	IPC::Run::run([ 'curl', '-s', '-k', '--retry', 30, '--retry-delay', 1, '--retry-connrefused', '-D', "$dir/head",
			'-o', "$dir/body", @arguments ], '<', \undef)
	  or die "curl: @arguments\n" . slurp_file("$dir/error.log");
	$head = slurp_file("$dir/head");
	$body = slurp_file("$dir/body") if -e "$dir/body";
	my ($status) = $head =~ /^HTTP\S+ (\d+)/m;
	return { status => $status, head => $head, content => $body };
}

sub json { return ('-H', "Authorization: Bearer $token", '-H', 'Content-Type: application/json', '-d', $_[0]) }

my $content = '';
srand(1);
$content .= pack('L', rand(2**32)) for 1 .. 1_000_000;
append_to_file("$dir/file", $content);
is(curl(json('{"name": "m", "private": false}'), "$url/api/repos/create")->{status}, 200, 'a public repository');
my $batch = curl(json(encode_json({ operation => 'upload', objects => [ { oid => sha256_hex($content), size => 4000000 } ] })),
	"$url/acme/m.git/info/lfs/objects/batch");
my $href = decode_json($batch->{content})->{objects}[0]{actions}{upload}{href};
like($href, qr/^\Q$url\E/, 'URLs are nginx\'s');
is(curl('-T', "$dir/file", $href)->{status}, 200, 'bytes go through');
my $commit = curl(json(join "\n", '{"key": "header", "value": {}}', encode_json({ key => 'lfsFile',
				value => { path => 'w', algo => 'sha256', oid => sha256_hex($content), size => 4000000 } })),
	"$url/api/models/acme/m/commit/main");
my $oid = decode_json($commit->{content})->{commitOid};

# A pinned public file is sent by registryd once.
my $pinned = "$url/acme/m/resolve/$oid/w";
like(curl($pinned)->{head}, qr/X-Cache-Status: MISS/i, 'the first time it is fetched');
my $got = curl($pinned);
like($got->{head}, qr/X-Cache-Status: HIT/i, 'then it is in the cache');
ok($got->{content} eq $content, 'with all its bytes');
like($got->{head}, qr/^etag: "@{[ sha256_hex($content) ]}"/mi, 'and its digest');
$got = curl('-r', '1000000-1000099', $pinned);
is($got->{status}, 206, 'a range of it');
ok($got->{content} eq substr($content, 1000000, 100), 'is cut from what is cached');
# What was sent so far, once all answers are over: a client may have its last byte before the daemon has written that down.
sub egress
{
	$node->poll_query_until('reg', 'SELECT NOT EXISTS (SELECT FROM gpucredit_registry.sending)')
	  or die 'an answer does not end';
	return query($node, 'reg', 'SELECT sum(bytes) FROM gpucredit_registry.egress');
}
is(egress(), '8000100', 'egress is what clients got, from the cache or not');
is(curl('-I', $pinned)->{status}, 200, 'HEAD is answered');
is(egress(), '8000100', 'and is no egress');
is(curl('-H', 'If-None-Match: "' . sha256_hex($content) . '"', $pinned)->{status}, 304, 'who has the file gets none');
is(egress(), '8000100', 'which is no egress either');

# Nobody but nginx speaks for it.
foreach my $wish ('check GET', 'fetch', "fetch $secret", 'fetch 00000000000000000000000000000000')
{
	is(curl('-H', "X-Registry-Proxy: $wish", "$url/acme/m/resolve/$oid/w?")->{status}, 200, "a client that says \"$wish\" gets the file");
}
is(egress(), '24000100', 'and each time it counts');
is(request('GET', "/acme/m/resolve/$oid/w", headers => { 'X-Registry-Proxy' => 'fetch ' . ('0' x 32) })->{status}, 200,
	'a wrong secret at the daemon itself');
is(egress(), '28000100', 'is none');

# What is blocked, over a quota, or deleted is gone from the cache, too.
$node->safe_psql('reg', q{SELECT gpucredit_registry.quarantine('acme', 1, 'backdoor', 'q1')});
$got = curl($pinned);
is($got->{status}, 403, 'a quarantined file is not served from the cache');
like($got->{content}, qr/quarantine/, 'and the client learns why');
is(egress(), '28000100', 'nor counted');
$node->safe_psql('reg', q{SELECT gpucredit_registry.release_quarantine('acme', 1, 'clean', 'q2')});
$node->safe_psql('reg', q{SELECT gpucredit_registry.set_storage_quota('acme', NULL, 30000000)});
is(curl($pinned)->{status}, 429, 'an egress quota holds for the cache');
is(curl('-r', '0-99', $pinned)->{status}, 206, 'what fits is sent');
$node->safe_psql('reg', q{SELECT gpucredit_registry.set_storage_quota('acme', NULL, NULL)});
like(curl($pinned)->{head}, qr/X-Cache-Status: HIT/i, 'and it is still in the cache');

# A branch moves, a private file is somebody's: neither is cached.
curl("$url/acme/m/resolve/main/w") for 1, 2;
is(egress(), '40000200', 'a branch is fetched each time');

# Downloads count by the address that nginx sees, and by no other that a client names.
curl('--interface', "127.0.0.$_", '-r', '0-9', $pinned) for 7, 8, 8;
curl('-H', 'X-Real-IP: 10.0.0.1', '-H', 'X-Registry-Proxy: pass x', '-r', '0-9', $pinned);
curl('--interface', '127.0.0.7', '-H', 'X-Real-IP: 10.0.0.1', "$url/acme/m/resolve/main/w");
is(query($node, 'reg', q{SELECT string_agg(client, ' ' ORDER BY client) FROM gpucredit_registry.downloads('acme')}),
	'address:127.0.0.1 address:127.0.0.7 address:127.0.0.8', 'each address is a client');

$node->safe_psql('reg', q{UPDATE gpucredit_registry.model SET visibility = 'private'});
my @as = ('-H', "Authorization: Bearer $token");
is(curl(@as, $pinned)->{status}, 200, 'a file that was public, and is private now, is read by its owner') for 1, 2;
is(curl('-H', 'Authorization: Bearer hf_other', $pinned)->{status}, 401, 'and by nobody else');
is(curl($pinned)->{status}, 401, 'without a token either');
$node->safe_psql('reg', q{SELECT gpucredit_registry.delete_model('acme', 1, 'd')});
is(curl(@as, $pinned)->{status}, 404, 'a deleted file is gone from the cache');
registry_verify($node);
done_testing();
