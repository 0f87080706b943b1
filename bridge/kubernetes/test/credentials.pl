# credentials.pl: the bridge proves who it is, and looks whom it talks to
#
# Packages: libcurl4-openssl-dev libjansson-dev libpq-dev libjson-xs-perl libio-socket-ssl-perl openssl

use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin, "$FindBin::RealBin/../../../test/perl";
use GpuCredit;
use GpuCreditKubernetes;
use PostgreSQL::Test::Utils;
use Test::More;

plan skip_all => 'the real one has its own tokens' if $ENV{KUBEBUILDER_ASSETS};

my $folder = PostgreSQL::Test::Utils::tempdir_short();

foreach my $name (qw(ours other))
{
	system('openssl', 'req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-days', '2',
		'-subj', '/CN=127.0.0.1', '-addext', 'subjectAltName=IP:127.0.0.1',
		'-keyout', "$folder/$name.key", '-out', "$folder/$name.crt", '-batch') == 0
	  or die 'openssl failed';
}

sub write_token
{
	my ($file, $token) = @_;

	append_to_file("$folder/$file.new", "$token\n");
	rename("$folder/$file.new", "$folder/$file") or die;
	return;
}

write_token('server', 'first');
write_token('bridge', 'first');
my $k = kubernetes('credentials', token => 'first',
	apiserver => [ '--cert', "$folder/ours.crt", '--key', "$folder/ours.key", '--token', "$folder/server" ]);

start_bridge($k, 'fooled', ca_file => "$folder/other.crt", token_file => "$folder/bridge");
wait_for('a server that our authority did not sign gets no token', 20,
	sub { bridge_log($k, 'fooled') =~ /event=api_unreachable error=".*(?:certificate|SSL)/ })
  or diag(bridge_log($k, 'fooled'));
end_bridge($k, 'fooled');
unlike(bridge_log($k, 'fooled'), qr/lease_taken/, 'and nothing is done there');

start_bridge($k, 'bridge', ca_file => "$folder/ours.crt", token_file => "$folder/bridge");
make_pod($k, 'acme', 'one', sleep => 1);
wait_for('with the right one pods run', 40, sub { annotation($k, 'acme', 'one', 'billed') })
  or diag(bridge_log($k));

# the server takes another token from now on, and kubelet writes it
write_token('server', 'second');
$k->{token} = 'second';
wait_for('the old token is refused', 20, sub { bridge_log($k) =~ /status=401/ });
verify_midway($k, 'the bridge is refused');
write_token('bridge', 'second');
make_pod($k, 'acme', 'two', sleep => 1);
wait_for('the new one is read, and pods run', 40, sub { annotation($k, 'acme', 'two', 'billed') })
  or diag(bridge_log($k));
end_kubernetes($k);
done_testing();
