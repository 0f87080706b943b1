# hostile.pl: clients that mean harm: requests that two servers would read
# differently, slow ones, huge ones, many at once; memory stays, others are served
#
# Packages: libmicrohttpd-dev libjansson-dev libcurl4-openssl-dev libcjose-dev libssl-dev libpq-dev libhttp-tiny-perl
use strict;
use warnings;
use FindBin;
use IO::Socket::INET;
use lib "$FindBin::RealBin/lib";
use GpuCreditHttp;
use GpuCredit;
use Test::More;
use Time::HiRes qw(sleep time);

my $node = http_node('hostile');
my $token = token($node, 'ann');
my $entries = query($node, 'web', 'SELECT count(*) FROM gpucredit.entry');
my $count = $ENV{GC_HTTP_REQUESTS} || 20_000;

daemon_start($node, '--receive', 3, '--connections', 300, '--per-address', 250);
call($token, 'GET', '/v1/me') for 1 .. 50;
my $memory = memory_of(daemon_pid());

# Requests whose end is not certain
my $get = "GET /v1/me HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer $token\r\n";
my $post = "POST /v1/call/balance HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer $token\r\n";
my %smuggled = (
	'two lengths that differ' => $post . "Content-Length: 2\r\nContent-Length: 40\r\n\r\n{}",
	'two equal lengths' => $post . "Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}",
	'a length and an encoding' => $post . "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	'an unknown encoding' => $post . "Transfer-Encoding: gzip\r\n\r\n{}",
	'two encodings' => $post . "Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	'a length that is no number' => $post . "Content-Length: 2x\r\n\r\n{}",
	'a negative length' => $post . "Content-Length: -2\r\n\r\n{}",
	'no host' => "GET /v1/me HTTP/1.1\r\nAuthorization: Bearer $token\r\n\r\n",
	'two hosts' => "GET /v1/me HTTP/1.1\r\nHost: x\r\nHost: y\r\nAuthorization: Bearer $token\r\n\r\n");

foreach my $name (sort keys %smuggled)
{
	my $answer = raw($smuggled{$name} . $get . "\r\n");

	like($answer, qr{^(HTTP/1\.1 400 |$)}, "$name: refused");
	unlike($answer, qr{HTTP/1\.1 200 }, "$name: what follows is no request");
}
like(raw($get . "Connection: close\r\n\r\n"), qr{^HTTP/1\.1 200 }, 'a plain request is answered');
like(raw("GET /v1/%00 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer $token\r\nConnection: close\r\n\r\n"),
	qr{^HTTP/1\.1 400 }, 'a NUL in the path is refused');
like(raw("GET /v1/%ff HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer $token\r\nConnection: close\r\n\r\n"),
	qr{^HTTP/1\.1 400 }, 'a path that is no UTF-8 is refused');
like(raw("GET /v1/jobs?org=%ff HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer $token\r\nConnection: close\r\n\r\n"),
	qr{^HTTP/1\.1 400 }, 'and so is such a query');

# Large ones
like(raw($post . "Content-Length: 999999999999\r\n\r\n"), qr{^HTTP/1\.1 413 }, 'a body of a terabyte is refused by its length');
like(raw("POST /v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Length: 4000000\r\n\r\n"), qr{^HTTP/1\.1 401 },
	'without a token no body is read');
like(raw($get . 'X: ' . 'x' x 200_000 . "\r\n\r\n"), qr{^(HTTP/1\.1 4\d\d |$)}, 'headers of 200 kB are refused');
like(raw("POST /v1/jobs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer gpc_bad\r\nContent-Length: 3000000\r\n\r\n"),
	qr{^HTTP/1\.1 401 }, 'a long body with a bad token is refused before it is sent');
is(call($token, 'POST', '/v1/call/balance', '{"org":"' . 'x' x 3_000_000 . '"}')->{status}, 422,
	'a name of three megabytes is refused');
is(call($token, 'POST', '/v1/call/balance', '[' x 1_000_000)->{status}, 400,
	'a million brackets are no JSON');
is(call($token, 'POST', '/v1/call/balance', "{\"org\":\"a\0b\"}")->{status}, 400, 'a NUL in the body is refused');
is(call($token, 'POST', '/v1/call/balance', '{"org":"a\u0000b"}')->{status}, 400, 'also an escaped one');

# Slow ones: they are cut off, and others are served meanwhile
my @slow = map {
	my $socket = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => daemon_port());
	$socket->syswrite($_ % 2 ? 'GET /v1/me HTTP/1.1' : $post . "Content-Length: 100\r\n\r\n{");
	$socket;
} 1 .. 200;
my $begun = time;
my $served = 0;
my $cut = 0;
local $SIG{PIPE} = 'IGNORE';
while (time - $begun < 6)
{
	$served++ if call($token, 'GET', '/v1/me')->{status} == 200;
	for my $socket (grep { defined } @slow)
	{
		$socket->syswrite('x');		# a byte now and then
	}
	sleep 0.5;
}
for my $socket (@slow)
{
	$socket->blocking(0);
	my $n = $socket->sysread(my $answer, 4096);
	$n = $socket->sysread($answer, 4096) while $n;
	$cut++ if defined $n;		# closed
}
cmp_ok($served, '>=', 5, 'while 200 clients send a byte now and then, others are served');
is($cut, 200, 'clients whose request does not come are cut off');

# Slow calls of one role: others overtake them
my $other = token($node, 'eve');
my @tokens = map { token($node, 'ann', 'read') } 1 .. 12;
call($_, 'GET', '/v1/me') for $other, @tokens[0 .. 5];	# the others are new to the daemon
my $locker = connect_to($node, 'web');
$locker->do('BEGIN');
$locker->do('LOCK TABLE gpucredit.account IN ACCESS EXCLUSIVE MODE');
my @blocked = map {
	my $socket = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => daemon_port());
	$socket->syswrite("GET /v1/balance?org=acme&account=nlp HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer $_\r\n\r\n");
	$socket;
} (@tokens) x 4;
sleep 1;
is(call($other, 'GET', '/v1/me')->{status}, 200,
	'while 48 calls of one role wait for a lock, half of them with new tokens, another role is served');
cmp_ok($locker->selectrow_array(q{SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND application_name <> 'test'}),
	'<=', 6, 'because they have no more than six of the eight workers');
$locker->do('ROLLBACK');
my $answered = 0;
foreach my $socket (@blocked)
{
	my $answer;

	$answered++ if $socket->sysread($answer, 4096) && $answer =~ /^HTTP\/1\.1 200 /;
}
is($answered, 48,
	'and all 48 are answered when the lock is gone');

# Many: random pieces of requests, most of them wrong
srand(38);
my @pieces = ('GET ', 'POST ', '/v1/jobs', '/v1/me', '/v1/call/', 'reserve', '%', '%00', '../', '?', '&', '=', 'org=acme',
	' HTTP/1.1', "\r\n", "Host: x\r\n", "Authorization: Bearer $token\r\n", "Content-Length: 5\r\n", '{"a":', '}', "\0", "\xff",
	"Transfer-Encoding: chunked\r\n", "0\r\n\r\n", 'A' x 300, "\r\n\r\n");
$begun = time;
for my $n (1 .. $count / 10)
{
	my $socket = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => daemon_port()) or next;
	my $bytes = '';

	for (1 .. 10)
	{
		$bytes .= $_ % 2 ? join('', map { $pieces[ rand @pieces ] } 1 .. 8) . "\r\n\r\n"
		  : $get . join('', map { "X-$_: $pieces[rand @pieces]\r\n" } 1 .. 2) . "\r\n";
	}
	$socket->syswrite($bytes);
	$socket->close;
}
note(sprintf('%d hostile requests in %.1f s', $count, time - $begun));
is(call($token, 'GET', '/v1/me')->{status}, 200, 'after all of them the daemon answers');
sleep 4;
cmp_ok(memory_of(daemon_pid()), '<', $memory + 40, 'its memory has not grown');
is(query($node, 'web', 'SELECT count(*) FROM gpucredit.entry'), $entries, 'no entry was written');
is(daemon_stop(), 0, 'it ends when it is asked to');
verify_empty($node, 'web');
done_testing();
