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
daemon_start($node);
my $token = registry_token($node, 'acme');
my $dir   = PostgreSQL::Test::Utils::tempdir();
my $port  = PostgreSQL::Test::Cluster::get_free_port();
my $url   = "https://127.0.0.1:$port";

# As it stands, but for names, ports and paths.
my $conf = slurp_checkout('packaging/registry.nginx.conf');
my ($daemon) = daemon_url('') =~ m{//(.*)};
$conf =~ s{127\.0\.0\.1:8085}{$daemon} or die;
$conf =~ s{listen 443}{listen 127.0.0.1:$port} or die;
$conf =~ s{/var/cache/nginx/registry}{$dir/cache} or die;
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
is($node->safe_psql('reg', 'SELECT sum(bytes) FROM gpucredit_registry.egress'), '4000000',
	'egress is what registryd sent');

# A branch moves, a private file is somebody's: neither is cached.
curl("$url/acme/m/resolve/main/w") for 1, 2;
is($node->safe_psql('reg', 'SELECT sum(bytes) FROM gpucredit_registry.egress'), '12000000',
	'a branch is fetched each time');
$node->safe_psql('reg', q{UPDATE gpucredit_registry.model SET visibility = 'private'});
my @as = ('-H', "Authorization: Bearer $token");
like(curl(@as, $pinned)->{head}, qr/X-Cache-Status: MISS/i, 'a private file is fetched') for 1, 2;
is(curl('-H', 'Authorization: Bearer hf_other', $pinned)->{status}, 401, 'for nobody else');
registry_verify($node);
done_testing();
