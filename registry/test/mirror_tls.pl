# mirror_tls.pl: a mirror over TLS: whose certificates are trusted, and which addresses are connected to
#
# Packages: libcurl4-openssl-dev libmicrohttpd-dev libssl-dev libjansson-dev libpq-dev libhttp-tiny-perl libio-socket-ssl-perl python3-cryptography python3-psycopg
use strict;
use warnings;
use FindBin;
use IO::Socket::SSL;
use IPC::Run;
use JSON::PP;
use lib "$FindBin::RealBin/lib";
use GpuCreditRegistry;
use GpuCreditFederation;
use GpuCredit;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes 'sleep';

my $node = registry_node('mirrortls');
my $dir = PostgreSQL::Test::Utils::tempdir();

system('/usr/bin/python3', "$FindBin::RealBin/lib/certificates.py", $dir) == 0 or die 'no certificates';
present('good');
daemon_start($node);
far_start($node, '--tls-certificate', "$dir/pem", '--tls-key', "$dir/key");
here_sql(q{CREATE ROLE worker LOGIN IN ROLE gpucredit_registry_mirror;
	SELECT gpucredit_registry.create_model('acme', 'vision', 'm', 'k1')});
my $token = registry_token($node, 'acme', 'vision');
my $far_token = query($node, 'far', q{SELECT gpucredit_registry.issue_token('acme', 'lab', 'write')});
write_file("$dir/far.token", "$far_token\n", 0600);
my ($port) = far_url('') =~ /:(\d+)$/;
my @hub = ('--hub', daemon_url(''));

# The far daemon's certificate and key.
sub present
{
	my ($name) = @_;

	foreach my $end ('key', 'pem')
	{
		write_file("$dir/new.$end", slurp_file("$dir/$name.$end"));
		rename "$dir/new.$end", "$dir/$end" or die;
	}
	return;
}

# The serial number of the certificate that a new connection to the far daemon gets.
sub serial
{
	my $socket = IO::Socket::SSL->new(PeerAddr => '127.0.0.1', PeerPort => $port, SSL_verify_mode => SSL_VERIFY_NONE, Timeout => 20)
	  or return '';

	return Net::SSLeay::P_ASN1_INTEGER_get_hex(Net::SSLeay::X509_get_serialNumber($socket->peer_certificate));
}

# The far daemon has another certificate from now on.
sub use_certificate
{
	my ($name) = @_;
	my $was = serial();

	present($name);
	far_signal('HUP');
	for (1 .. 600)
	{
		return if serial() !~ /^(?:\Q$was\E|)$/;
		sleep 0.1;
	}
	die 'the certificate is not renewed';
}

# The repository follows the far one by a remote; what the worker said.
sub mirror_by
{
	my (%remote) = @_;
	my $out = '';

	write_file("$dir/remotes", encode_json({ far => { url => "https://localhost:$port", token_file => "$dir/far.token",
				organisations => ['acme'], networks => [ '127.0.0.0/8', '::1/128' ], ca => "$dir/ca.pem", %remote } }));
	here_sql(q{SELECT gpucredit_registry.set_mirror('acme', 1, 'far', 'acme/m')});
	IPC::Run::run([ '/usr/bin/python3', "$FindBin::RealBin/../mirror/registry-mirror", @hub, 'work', '--once',
			'--database', database_of('reg', 'worker'), '--remotes', "$dir/remotes" ], '>&', \$out, IPC::Run::timeout(300));
	return $out;
}

my $weights = content_of(1, 3 << 20);
my $first = push_version($far_token, 'm', 'main', lfs => { w => $weights }, text => { 'README.md' => "# M\n" });
like(mirror_by(), qr/^acme\/m: synced/m, 'a repository comes over TLS, by a certificate of the operator\'s authority');
ok(read_here('/acme/m/resolve/main/w', $token) eq $weights, 'with all its bytes');
like(mirror_by(url => "https://127.0.0.1:$port"), qr/: synced/, 'an address is a name, too');

# What is refused, and by which name.
my $text = sub { return here_sql(q{SELECT state, last_error FROM gpucredit_registry.mirrors('acme')}) };
write_file("$dir/none.pem", slurp_file("$dir/self.pem"));
push_version($far_token, 'm', 'main', lfs => { w => content_of(2, 3 << 20) });
my $far_downloads = q{SELECT count(*), coalesce(sum(requests), 0) FROM gpucredit_registry.download};
query($node, 'far', 'SELECT 1');
$node->poll_query_until('far', q{SELECT count(*) = 2 FROM gpucredit_registry.download}) or die 'the downloads are not counted';
my $before = query($node, 'far', $far_downloads);
foreach (
	[ 'good', "$dir/none.pem", qr/certificate of localhost is not trusted: .*issuer/, 'an authority that the operator does not trust' ],
	[ 'expired', "$dir/ca.pem", qr/certificate of localhost is not trusted: certificate has expired/, 'a certificate that has expired' ],
	[ 'early', "$dir/ca.pem", qr/certificate of localhost is not trusted: .*not yet valid/, 'one that is not valid yet' ],
	[ 'other', "$dir/ca.pem", qr/certificate of localhost is not trusted: Hostname mismatch/, 'one of another host' ],
	[ 'self', "$dir/ca.pem", qr/certificate of localhost is not trusted: self.signed/, 'one that nobody signed' ])
{
	my ($certificate, $ca, $pattern, $what) = @$_;

	use_certificate($certificate) if $certificate ne 'good';
	like(mirror_by(ca => $ca), $pattern, "$what is refused");
	like($text->(), qr/^failing\|.*certificate of localhost/, 'and its owner is told');
	ok(read_here('/acme/m/resolve/main/w', $token) eq $weights, 'nothing came');
}
is(query($node, 'far', $far_downloads), $before, 'nothing was asked for, so no token was sent');
{
	my ($plain) = daemon_url('') =~ /:(\d+)$/;

	like(mirror_by(url => "https://localhost:$plain"), qr/localhost does not speak TLS/, 'one that speaks no TLS');
	like(mirror_by(networks => []), qr/no address that may be connected to/, 'TLS does not open what the operator does not name');
}
use_certificate('good');
like(mirror_by(ca => "$dir/missing"), qr/missing|No such file/, 'a file of certificates that is missing is said');
like(mirror_by(), qr/: synced/, 'a good certificate is taken again');

# This registry's own daemon over TLS.
daemon_kill();
daemon_start($node, '--tls-certificate', "$dir/good.pem", '--tls-key', "$dir/good.key");
@hub = ('--hub', daemon_url('') =~ s/^http:/https:/r);
push_version($far_token, 'm', 'main', lfs => { w => content_of(3, 3 << 20) });
like(mirror_by(), qr/this registry's registryd: the certificate of 127.0.0.1 is not trusted/, 'its own daemon has to be trusted as well');
push @hub, '--hub-ca', "$dir/ca.pem";
like(mirror_by(), qr/: synced/, 'as the operator says by --hub-ca');

# Each spelling of an address that a remote may redirect to leads where its socket does.
my $judge = <<'END';
import socket, sys
import registry_remote as r
def let(self, where): print("connected to", where)
socket.socket.connect = let
for host in sys.argv[2:]:
    try:
        r.Judge().connect(host, 443, sys.argv[1] == "tls")
    except (r.RemoteError, OSError, UnicodeError):
        print(host, "refused")
END
foreach my $kind ('tls', 'plain')
{
	my @hosts = (qw(127.0.0.1 127.1 2130706433 0x7f000001 0177.0.0.1 0 0.0.0.0 localhost 10.0.0.1 172.16.3.4 192.168.1.1
		169.254.169.254 169.254.170.2 100.100.100.200 168.63.129.16 192.0.0.192 198.18.0.1 224.0.0.1 255.255.255.255
		::1 :: ::ffff:127.0.0.1 ::ffff:169.254.169.254 ::127.0.0.1 64:ff9b::7f00:1 64:ff9b:1::1 2002:7f00:1:: fe80::1 fe80::1%lo
		fd00::1 fd00:ec2::254 fec0::1 ff02::1 2001:db8::1), $kind eq 'plain' ? '93.184.216.34' : ());
	my $out = '';

	IPC::Run::run([ '/usr/bin/python3', '-c', $judge, $kind, @hosts ], '>&', \$out,
		init => sub { $ENV{PYTHONPATH} = "$FindBin::RealBin/../mirror"; $ENV{PYTHONDONTWRITEBYTECODE} = 1 });
	is($out, join('', map { "$_ refused\n" } @hosts), "$kind: none of " . @hosts . ' spellings leads inside');
	$out = '';
	IPC::Run::run([ '/usr/bin/python3', '-c', $judge, 'tls', '93.184.216.34', '2606:4700::1111' ], '>&', \$out,
		init => sub { $ENV{PYTHONPATH} = "$FindBin::RealBin/../mirror"; $ENV{PYTHONDONTWRITEBYTECODE} = 1 });
	like($out, qr/^connected to .*93\.184\.216\.34/, 'public ones are connected to, with TLS');
}

$node->safe_psql('reg', q{SELECT gpucredit_registry.delete_mirror('acme', 1)});
is($node->safe_psql('reg', 'SELECT count(*) FROM gpucredit_registry.verify()'), '0', 'verify() of the registry finds nothing');
is($node->safe_psql('far', 'SELECT count(*) FROM gpucredit_registry.verify()'), '0', 'nor that of the far one');
registry_verify($node);
done_testing();
