# nginx.pl: the configuration of nginx that is there to copy, with Debian's nginx
#
# Packages: libmicrohttpd-dev libjansson-dev libcurl4-openssl-dev libcjose-dev libssl-dev libpq-dev libhttp-tiny-perl nginx-light curl openssl
use strict;
use warnings;
use FindBin;
use IPC::Run;
use JSON::PP;
use lib "$FindBin::RealBin/lib";
use GpuCreditHttp;
use GpuCredit;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = http_node('nginx');
my $token = token($node, 'ann');
my $dir = PostgreSQL::Test::Utils::tempdir();

daemon_start($node, '--per-address=2000');

# As it stands, but for names, ports and paths.
my $conf = slurp_checkout('packaging/gpucreditd.nginx.conf');
my $port = PostgreSQL::Test::Cluster::get_free_port();
my $daemon = '127.0.0.1:' . daemon_port();
my $url = "https://127.0.0.1:$port";
$conf =~ s{127\.0\.0\.1:8086}{$daemon} or die;
$conf =~ s{listen 443}{listen 127.0.0.1:$port} or die;
$conf =~ s{/etc/ssl/\w+/credit\.example\.(pem|key)}{$dir/$1}g;
my @temp = map { "${_}_temp_path $dir/$_;" } qw(client_body proxy fastcgi uwsgi scgi);
append_to_file("$dir/nginx.conf", "daemon off; pid $dir/pid; events {}
http { access_log off; @temp\n$conf}\n");
system("openssl req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=credit.example -keyout $dir/key -out $dir/pem 2>$dir/openssl.log") == 0
  or die;
my $nginx = IPC::Run::start([ '/usr/sbin/nginx', '-e', "$dir/error.log", '-c', "$dir/nginx.conf" ],
	'<', \undef, '>&', "$dir/out.log");
END { my $status = $?; $nginx->kill_kill if $nginx; $? = $status }

# curl's answer: status, headers, body.
sub curl
{
	my (@arguments) = @_;

	unlink "$dir/head", "$dir/body";
	IPC::Run::run([ 'curl', '-s', '-k', '--retry', 30, '--retry-delay', 1, '--retry-connrefused', '-D', "$dir/head",
			'-o', "$dir/body", @arguments ], '<', \undef)
	  or die "curl: @arguments\n" . slurp_file("$dir/error.log");
	my $head = slurp_file("$dir/head");
	my ($status) = $head =~ /^HTTP\S+ (\d+)/m;
	return { status => $status, head => $head, content => -e "$dir/body" ? slurp_file("$dir/body") : '' };
}

my @bearer = ('-H', "Authorization: Bearer $token");
my $answer = curl("$url/readyz");
is($answer->{content}, "ok\n", 'nginx passes requests on');
like($answer->{head}, qr/^strict-transport-security: /mi, 'and browsers come by TLS alone');
is(curl(@bearer, "$url/v1/balance")->{status}, 200, 'with their token');
is(curl(@bearer, '-H', 'Idempotency-Key: one', '-d', '{"request": "1xH100", "wall_limit": "PT1H"}', "$url/v1/jobs")->{status},
	200, 'and their body');

# Larger bodies than nginx passes on by itself, up to what the daemon reads.
append_to_file("$dir/large", '{"request": "' . ('x' x 2_000_000) . '"}');
isnt(curl(@bearer, '-d', "\@$dir/large", "$url/v1/quote")->{status}, 413, 'a body of 2 MB reaches the daemon');
append_to_file("$dir/larger", 'x' x 5_000_000);
is(curl(@bearer, '-d', "\@$dir/larger", "$url/v1/quote")->{status}, 413, 'one of 5 MB is too large');

# A session by TLS: its cookie is for this host, and its origin is nginx's.
$answer = curl('-X', 'POST', @bearer, '-H', "Origin: $url", "$url/v1/session");
is($answer->{status}, 200, 'a browser signs in') || diag($answer->{content});
my ($cookie) = $answer->{head} =~ /^set-cookie: (__Host-gpucredit=[^;]+);.*\bSecure\b/mi;
ok($cookie, 'and its cookie is sent by TLS alone') || diag($answer->{head});
my @session = ('-H', "Cookie: $cookie");
$answer = curl(@session, "$url/v1/session");
is($answer->{status}, 200, 'it is signed in');
my $csrf = decode_json($answer->{content})->{csrf};
my @quote = (@session, '-H', "X-CSRF-Token: $csrf", '-d', '{"request": "1xH100", "wall_limit": "PT1H"}', "$url/v1/quote");
is(curl('-H', "Origin: $url", @quote)->{status}, 200, 'a page of this address may ask');
is(curl('-H', 'Origin: https://elsewhere.example', @quote)->{status}, 403, 'one of another address may not');

# Events come as they happen: nginx keeps none back.
my $events = '';
my $stream = IPC::Run::start([ 'curl', '-s', '-k', '-N', @bearer, '-H', 'Accept: text/event-stream', "$url/v1/events?after=0" ],
	'<', \undef, '>', \$events, IPC::Run::timeout(60));
$stream->pump until $events =~ /^event: job\.queued$/m;
pass('a stream has what has happened');
curl(@bearer, '-H', 'Idempotency-Key: two', '-d', '{"request": "1xH100", "wall_limit": "PT1H"}', "$url/v1/jobs");
$stream->pump until (() = $events =~ /^event: job\.queued$/mg) == 2;
pass('and what happens while it is open');
$stream->kill_kill;

# A hundred streams of one client, and no more.
my @many = map {
	IPC::Run::start([ 'curl', '-s', '-k', '--http1.1', '-N', '-o', '/dev/null', @bearer, '-H', 'Accept: text/event-stream', "$url/v1/events" ],
		'<', \undef)
} 1 .. 100;
$answer = undef;
foreach (1 .. 300)
{
	$answer = curl("$url/healthz", '--retry', 0);
	last if $answer->{status} == 503;
	select undef, undef, undef, 0.1;
}
is($answer->{status}, 503, 'a client has 100 connections at most');
is(call(undef, 'GET', '/healthz')->{status}, 200, 'while the daemon has room for others');
$_->signal('KILL') foreach @many;
$_->finish foreach @many;
verify_empty($node, 'web');
done_testing();
