# tls.pl: registryd speaks TLS itself: the addresses that it gives are its own,
# files arrive whole in both directions, and a renewed certificate cuts nobody
#
# Packages: libcurl4-openssl-dev libmicrohttpd-dev libssl-dev libjansson-dev libpq-dev libhttp-tiny-perl libio-socket-ssl-perl openssl
use strict;
use warnings;
use Digest::SHA 'sha256_hex';
use FindBin;
use HTTP::Tiny;
use IO::Socket::SSL;
use JSON::PP;
use Time::HiRes 'sleep';
use lib "$FindBin::RealBin/lib";
use GpuCreditRegistry;
use GpuCredit;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $dir  = PostgreSQL::Test::Utils::tempdir();
my $node = registry_node('tls');
my $log  = $node->logfile =~ s/\.log$/-registryd.log/r;

# A self-signed certificate of 127.0.0.1 in the daemon's files.
sub renew
{
	my ($serial) = @_;

	system("openssl req -x509 -newkey rsa:2048 -nodes -days 3 -set_serial $serial -subj /CN=models -addext subjectAltName=IP:127.0.0.1 "
		  . "-keyout $dir/new.key -out $dir/new.pem 2>$dir/openssl.log") == 0
	  or die slurp_file("$dir/openssl.log");
	rename "$dir/new.key", "$dir/key" or die;
	rename "$dir/new.pem", "$dir/pem" or die;
	return;
}

# The serial number of the certificate that a new connection gets.
sub serial
{
	my ($port) = daemon_url('') =~ /:(\d+)$/;
	my $socket = IO::Socket::SSL->new(PeerAddr => '127.0.0.1', PeerPort => $port, SSL_ca_file => "$dir/pem", Timeout => 20)
	  or return "none: $IO::Socket::SSL::SSL_ERROR";

	return Net::SSLeay::P_ASN1_INTEGER_get_dec(Net::SSLeay::X509_get_serialNumber($socket->peer_certificate));
}

my $token;

sub ask
{
	my ($method, $url, $body, $type) = @_;

	return HTTP::Tiny->new(timeout => 60, verify_SSL => 1, SSL_options => { SSL_ca_file => "$dir/pem" })->request($method, $url,
		{ headers => { authorization => "Bearer $token", 'content-type' => $type // 'application/json' },
			defined $body ? (content => $body) : () });
}

renew(11);
is(system("$FindBin::RealBin/../registryd --tls-key=$dir/key 2>$dir/refused") >> 8, 2, 'a key without a certificate is a mistake in the options');
daemon_start($node, '--tls-certificate', "$dir/pem", '--tls-key', "$dir/key");
$token = registry_token($node, 'acme');
my $url = daemon_url('') =~ s/^http:/https:/r;

# Files
my $content = '';
srand(3);
$content .= pack('L', rand(2**32)) for 1 .. 1_000_000;
my $oid = sha256_hex($content);
is(ask('POST', "$url/api/repos/create", '{"name": "m"}')->{status}, 200, 'a repository is made over TLS');
my $batch = ask('POST', "$url/acme/m.git/info/lfs/objects/batch",
	encode_json({ operation => 'upload', objects => [ { oid => $oid, size => length $content } ] }));
my $href = decode_json($batch->{content})->{objects}[0]{actions}{upload}{href};
like($href, qr/^\Q$url\E/, 'the address for an upload is the daemon\'s, over TLS');
is(ask('PUT', $href, $content, 'application/octet-stream')->{status}, 200, 'the upload is taken');
my $commit = ask('POST', "$url/api/models/acme/m/commit/main", join "\n", '{"key": "header", "value": {"summary": "one"}}',
	encode_json({ key => 'lfsFile', value => { path => 'w', algo => 'sha256', oid => $oid, size => length $content } }));
is($commit->{status}, 200, 'and committed') || diag($commit->{content});
my $got = ask('GET', "$url/acme/m/resolve/main/w");
is(sha256_hex($got->{content}), $oid, 'what is downloaded over TLS is what was sent');

# A renewed certificate, during a download
my ($port) = $url =~ /:(\d+)$/;
my $slow = IO::Socket::SSL->new(PeerAddr => '127.0.0.1', PeerPort => $port, SSL_ca_file => "$dir/pem") or die $SSL_ERROR;
print $slow "GET /acme/m/resolve/main/w HTTP/1.1\r\nHost: 127.0.0.1:$port\r\nAuthorization: Bearer $token\r\nConnection: close\r\n\r\n";
$slow->sysread(my $answer, 1000) or die;
is(serial(), 11, 'new connections get the first certificate');
renew(22);
kill 'HUP', daemon_pid();
for (1 .. 600)
{
	last if slurp_file($log) =~ /uses the certificate .* from now on/;
	sleep 0.1;
}
is(serial(), 22, 'after SIGHUP they get the renewed one');
while ($slow->sysread(my $piece, 65536)) { $answer .= $piece }
is(sha256_hex($answer =~ s/^.*?\r\n\r\n//sr), $oid, 'and the download that began before arrives whole');

is($node->safe_psql('reg', 'SELECT count(*) FROM gpucredit_registry.verify()'), '0', 'verify() of the registry finds nothing');
is($node->safe_psql('reg', 'SELECT count(*) FROM gpucredit.verify()'), '0', 'verify() of the core finds nothing');
done_testing();
