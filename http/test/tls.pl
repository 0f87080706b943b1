# tls.pl: gpucreditd speaks TLS itself: to clients that check its certificate, in
# no version that is broken, with a new certificate while streams stay open, and
# with the old one where the new one cannot be used
#
# Packages: libmicrohttpd-dev libjansson-dev libcurl4-openssl-dev libcjose-dev libssl-dev libpq-dev libhttp-tiny-perl libio-socket-ssl-perl openssl
use strict;
use warnings;
use FindBin;
use IO::Socket::INET;
use IO::Select;
use IO::Socket::SSL;
use JSON::PP;
use Time::HiRes qw(sleep time);
use lib "$FindBin::RealBin/lib";
use GpuCreditHttp;
use GpuCredit;
use PostgreSQL::Test::Utils;
use Test::More;

my $dir  = PostgreSQL::Test::Utils::tempdir();
my $node = http_node('tls');
my $ann  = token($node, 'ann');
my $log  = $node->logfile =~ s/\.log$/-gpucreditd.log/r;
my $program = "$FindBin::RealBin/../gpucreditd";

# Runs openssl, which says nothing unless it fails.
sub openssl
{
	system("cd '$dir' && openssl @_ >openssl.log 2>&1") == 0 or die slurp_file("$dir/openssl.log");
	return;
}

# A certificate of the name localhost, signed by the intermediate authority, in
# FILE.pem with that authority's, and its key in FILE.key.
sub certificate
{
	my ($file, $days, $serial) = @_;

	openssl("req -newkey rsa:2048 -nodes -keyout $file.key -subj /CN=localhost -out $file.csr");
	openssl("x509 -req -in $file.csr -CA middle.pem -CAkey middle.key -set_serial $serial -days $days -extfile names -out $file.crt");
	append_to_file("$dir/$file.pem", slurp_file("$dir/$file.crt") . slurp_file("$dir/middle.pem"));
	chmod 0600, "$dir/$file.key";
	return;
}

append_to_file("$dir/names", "subjectAltName=DNS:localhost,IP:127.0.0.1\n");
append_to_file("$dir/signs", "basicConstraints=critical,CA:TRUE\n");
openssl('req -x509 -newkey rsa:2048 -nodes -keyout root.key -subj /CN=root -days 30 -out root.pem');
openssl('req -x509 -newkey rsa:2048 -nodes -keyout other.key -subj /CN=other -days 30 -out other.pem');
openssl('req -newkey rsa:2048 -nodes -keyout middle.key -subj /CN=middle -out middle.csr');
openssl('x509 -req -in middle.csr -CA root.pem -CAkey root.key -set_serial 7 -days 30 -extfile signs -out middle.pem');
certificate('first', 10, 100);
certificate('second', 20, 200);

# The files that the daemon is told of; what is in them changes.
sub install_certificate
{
	my ($certificate, $key) = @_;

	foreach my $pair ([ "$dir/$certificate.pem", 'pem' ], [ "$dir/$key.key", 'key' ])
	{
		my ($from, $to) = @$pair;

		unlink "$dir/new";
		append_to_file("$dir/new", slurp_file($from));
		chmod 0600, "$dir/new";
		rename "$dir/new", "$dir/daemon.$to" or die;
	}
	return;
}

# A connection that checks the daemon's certificate by the root's.
sub connect_tls
{
	my (%more) = @_;

	return IO::Socket::SSL->new(PeerAddr => '127.0.0.1', PeerPort => daemon_port(), SSL_verifycn_name => 'localhost',
		SSL_hostname => 'localhost', SSL_ca_file => "$dir/root.pem", SSL_verifycn_scheme => 'http', Timeout => 20, %more);
}

# The serial number of the certificate that a new connection gets.
sub serial
{
	my $socket = connect_tls() or return "none: $IO::Socket::SSL::SSL_ERROR";

	return Net::SSLeay::P_ASN1_INTEGER_get_dec(Net::SSLeay::X509_get_serialNumber($socket->peer_certificate));
}

# A request over TLS; its answer whole, as HTTP::Tiny has it.
sub request
{
	my ($method, $path, %headers) = @_;
	my $http = HTTP::Tiny->new(timeout => 30, verify_SSL => 1, SSL_options => { SSL_ca_file => "$dir/root.pem" });

	return $http->request($method, 'https://localhost:' . daemon_port() . $path, { headers => \%headers });
}

# Waits until the log has so many lines of a kind.
sub wait_for_log
{
	my ($pattern, $count) = @_;

	for (1 .. 600)
	{
		return 1 if (() = slurp_file($log) =~ /$pattern/g) >= $count;
		sleep 0.1;
	}
	return 0;
}

# What does not begin
install_certificate('first', 'first');
my @files = ('--tls-certificate', "$dir/daemon.pem", '--tls-key', "$dir/daemon.key");

foreach my $part ([ @files[ 0, 1 ] ], [ @files[ 2, 3 ] ])
{
	is(system("$program @$part 2>$dir/refused") >> 8, 2, "$part->[0] without the other option is a mistake in the options");
}
foreach my $case ([ "$dir/first.pem", "$dir/second.key", 'a key that is not that of the certificate' ],
	[ "$dir/none.pem", "$dir/first.key", 'a file that is not there' ],
	[ "$dir/first.key", "$dir/first.key", 'a file that is no certificate' ])
{
	my ($certificate, $key, $what) = @$case;

	is(system("$program --tls-certificate=$certificate --tls-key=$key 2>$dir/refused") >> 8, 1, "the daemon does not begin with $what");
	like(slurp_file("$dir/refused"), qr/^[^\n]*could not use the certificate "\Q$certificate\E" with the private key "\Q$key\E": [^\n]+\n\z/,
		'and its log names the files and the cause in one line');
}

# Requests
daemon_start($node, @files, '--per-address', 40, '--receive', 3);
my $balance = request('GET', '/v1/balance', authorization => "Bearer $ann");
is($balance->{status}, 200, 'a client that checks the certificate by its root is answered')
  || diag($balance->{content});
like($balance->{content}, qr/"available"/, 'with what its token may read') || diag($balance->{content});
ok(!connect_tls(SSL_ca_file => "$dir/other.pem"), 'a client that does not trust the root does not talk to the daemon');
unlike(raw("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"), qr/ok/, 'plain HTTP is not answered on that port');
ok(!connect_tls(SSL_version => 'TLSv1_1', SSL_cipher_list => 'ALL:@SECLEVEL=0'), 'TLS 1.1 is refused');
foreach my $version (qw(TLSv1_2 TLSv1_3))
{
	ok(connect_tls(SSL_version => $version), "$version is spoken");
}
my $session = request('POST', '/v1/session', authorization => "Bearer $ann", origin => 'https://localhost:' . daemon_port());
is($session->{status}, 200, 'a browser signs in over TLS') || diag($session->{content});
like($session->{headers}{'set-cookie'}, qr/^__Host-gpucredit=[^;]+;.*; Secure/, 'and its cookie goes over TLS alone');

# Another certificate, while a stream is open
my $stream = connect_tls();
print $stream "GET /v1/events HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\nAuthorization: Bearer $ann\r\n\r\n";
my $got = '';
$stream->sysread(my $head, 65536);
like($head, qr{^HTTP/1.1 200 }, 'a stream of events begins over TLS');
is(serial(), 100, 'new connections get the first certificate');
my ($expiry) = request('GET', '/metrics/gpucreditd')->{content} =~
  /^gpucreditd_certificate_expires_seconds (\d+)$/m;
cmp_ok(abs(($expiry // 0) - time() - 10 * 86400), '<', 3600, 'the metrics say when it expires');
install_certificate('second', 'second');
kill 'HUP', daemon_pid();
ok(wait_for_log(qr/uses the certificate .* from now on/, 1), 'SIGHUP has the daemon read its certificate again');
is(serial(), 200, 'and new connections get the new one');
$node->safe_psql('web', q{SET ROLE ann; SELECT gpucredit.reserve('acme', 'nlp', 'k1', '1xH100', '1 minute')});
my $until = time() + 60;
while (time() < $until && $got !~ /event: job\.queued/)
{
	$stream->pending || IO::Select->new($stream)->can_read(1) or next;
	$stream->sysread(my $piece, 65536) or last;
	$got .= $piece;
}
like($got, qr/event: job\.queued/, 'while the stream that began with the old one goes on');

# A renewal that went wrong
install_certificate('second', 'first');
kill 'HUP', daemon_pid();
ok(wait_for_log(qr/could not use the certificate/, 1), 'a key that does not fit is written to the log');
is(serial(), 200, 'and the certificate before stays in use');
install_certificate('first', 'first');
chmod 0644, "$dir/daemon.key";
kill 'HUP', daemon_pid();
ok(wait_for_log(qr/everybody on this machine can read the private key/, 1), 'a key that everybody can read is warned of');
is(serial(), 100, 'and used');

# Renewals and connections at once
my %seen;
foreach my $round (1 .. 60)
{
	my $which = $round % 2 ? 'second' : 'first';

	install_certificate($which, $which);
	kill 'HUP', daemon_pid();
	$seen{ serial() }++ for 1 .. 2;
}
is(join(' ', sort keys %seen), '100 200', 'each of many connections during many renewals gets one of the two certificates');

# Clients that begin and never go on
my @silent = grep { defined } map { IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => daemon_port()) } 1 .. 60;
ok(connect_tls(LocalAddr => '127.0.0.2'), 'connections that say nothing keep no client of another address waiting');
$until = time() + 60;
my $again;
sleep 0.2 while time() < $until && !($again = connect_tls());
ok($again, 'and they are closed, so their own address is served again');
close $_ for @silent;

is(daemon_stop(), 0, 'SIGTERM ends a daemon with TLS as it ends one without');
is($node->safe_psql('web', 'SELECT count(*) FROM gpucredit.verify()'), '0', 'verify() finds nothing');
done_testing();
