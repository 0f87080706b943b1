# assets.pl: the way of the tests to a kube-apiserver of $KUBEBUILDER_ASSETS,
# tried on a stand-in for it: the play's API server, without its kubelets
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

plan skip_all => 'the other tests use the real one' if $ENV{KUBEBUILDER_ASSETS};

my $folder = PostgreSQL::Test::Utils::tempdir_short();

append_to_file("$folder/etcd", "#!/bin/sh\nexec sleep 600\n");
append_to_file("$folder/kube-apiserver", <<"END");
#!/bin/sh
for word; do
	case \$word in
		--secure-port=*) set -- "\$@" --port "\${word#*=}" ;;
		--tls-cert-file=*) set -- "\$@" --cert "\${word#*=}" ;;
		--tls-private-key-file=*) set -- "\$@" --key "\${word#*=}" ;;
		--token-auth-file=*) set -- "\$@" --token "\${word#*=}" ;;
	esac
	shift
done
exec $^X $FindBin::RealBin/../play/apiserver --bare "\$@"
END
chmod 0755, "$folder/etcd", "$folder/kube-apiserver";
$ENV{KUBEBUILDER_ASSETS} = $folder;

my $k = kubernetes('assets');

start_bridge($k);
is_deeply([ map { scalar @{ $_->{rules} } } @{ api($k, 'GET', '/apis/rbac.authorization.k8s.io/v1/clusterroles')->{items} } ],
	[7], 'the bridge has the rights that the page gives it');
my $bridge = { %$k, token => 'bridge' };

foreach my $what ('pods/none', 'nodes/n1', 'namespaces/acme')
{
	api($bridge, 'GET', '/api/v1/' . ($what =~ /^pods/ ? 'namespaces/acme/' : '') . $what);
	is($bridge->{status}, 403, "it need not get one of $what");
}
api($bridge, 'GET', '/apis/coordination.k8s.io/v1/namespaces/gpucredit/leases/other');
is($bridge->{status}, 403, 'nor another lease');

api($bridge, 'GET', '/api/v1/secrets');
is($bridge->{status}, 403, 'and no others');
make_pod($k, 'acme', 'runs', gpus => 2, sleep => 2);
make_pod($k, 'acme', 'fails', sleep => 1, exit => 3);
make_pod($k, 'acme', 'deleted', sleep => 1000);
wait_for('pods run, bound and run by kubelets of another process', 40, sub { phase($k, 'acme', 'deleted') eq 'Running' })
  or diag(bridge_log($k));
verify_midway($k, 'they run');
api($k, 'DELETE', '/api/v1/namespaces/acme/pods/deleted');
wait_for('and are settled', 40, sub { annotation($k, 'acme', 'runs', 'billed') && annotation($k, 'acme', 'fails', 'billed') })
  or diag(bridge_log($k));
wait_for('one that is deleted goes', 20, sub { phase($k, 'acme', 'deleted') eq 'Gone' });
end_kubernetes($k);
done_testing();
