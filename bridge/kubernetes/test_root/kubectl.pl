# kubectl.pl: Debian 13's kubectl 1.32 drives the play API server, and through
# it the bridge, as a user would
#
# Packages: libcurl4-openssl-dev libjansson-dev libpq-dev libjson-xs-perl

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../test", "$FindBin::RealBin/../../../test/perl";
use GpuCredit;
use GpuCreditKubernetes;
use PostgreSQL::Test::Utils;
use Test::More;

plan skip_all => 'kubectl drives the play' if $ENV{KUBEBUILDER_ASSETS};

my $root = "$FindBin::RealBin/../../..";
my $dir  = `bash -c 'set -e; cd "$root/tools"; source lib/server.sh; source lib/root.sh
	! test -e /etc/gpucredit-root || { gc_install kubernetes-client >&2; echo /; exit; }
	gc_workdir kubectl; gc_root 17 >&2
	gc_in_root 17 sh -c "test -x /usr/bin/kubectl || { apt-get -q update
		apt-get -q -y install kubernetes-client; }" >&2
	gc_root_dir 17'`;
chomp $dir;
ok(-x "$dir/usr/bin/kubectl", 'a Debian 13 with kubectl');

my $k = kubernetes('kubectl');
my $said;

sub kubectl
{
	my (@words) = @_;
	my @command = ('chroot', $dir, 'env', 'HOME=/root', 'kubectl', "--server=$k->{url}", @words);

	IPC::Run::run(\@command, '<', \undef, '>', \$said, '2>&1');
	return $said;
}

sub apply
{
	my ($document) = @_;
	my @command = ('chroot', $dir, 'env', 'HOME=/root', 'kubectl', "--server=$k->{url}",
		'create', '--validate=false', '-f', '-');

	IPC::Run::run(\@command, '<', \$document, '>', \$said, '2>&1');
	return $said;
}

start_bridge($k, undef, stop_grace_s => 30);
like(kubectl('version'), qr/Server Version: v1\.32/, 'it finds the server');
like(kubectl('api-resources'), qr/^pods\s+po\s+v1\s+true\s+Pod$/m, 'and its resources');
sql($k, q{SELECT gpucredit.create_account('vision')});
apply("apiVersion: v1\nkind: Namespace\nmetadata: {name: vision}\n");
like(kubectl(qw(annotate namespace vision gpucredit.io/org=vision)), qr/annotated/, 'a namespace is a tenant\'s');

# what docs/kubernetes.md has to copy: set-up, Kueue's check
my $page = slurp_checkout('docs/kubernetes.md');
my ($sql)    = $page =~ /^   ```sql\n(.*?)^   ```/ms;
my ($set_up) = $page =~ /^   ```yaml\n(.*?)^   ```/ms;
my ($check)  = $page =~ /^## Kueue\n.*?^```yaml\n(.*?)^```/ms;

$set_up =~ s/^   //mg;
is(sql($k, "BEGIN; $sql; SELECT 'set up'; ROLLBACK") =~ /(set up)$/m && $1, 'set up', 'the page\'s SQL runs');
is(scalar(() = apply($set_up) =~ / created$/mg), 7, 'its set-up is accepted, but for the namespace, which is there') or diag($said);
is(scalar(() = apply($check) =~ / created$/mg), 2, 'and its check') or diag($said);

# its pod, but for the type
my ($pod) = $page =~ /^## Pods\n```yaml\n(.*?)^```/ms;
$pod =~ s/NVIDIA-H100-80GB-HBM3/T4/;
$pod =~ s/^\s+gpucredit.io\/account:.*\n//m;
$pod =~ s/^(\s+)image: .*/$&\n$1command: [sh, -c, "sleep 2"]/m;
like(apply($pod), qr{pod/train created}, 'a pod is made from the page\'s example');
wait_for('it is refused', 30, sub { kubectl(qw(-n vision get pods)) =~ /SchedulingGated.*refused: insufficient_credits/ })
  or diag($said, bridge_log($k));
like(kubectl(qw(-n vision describe pod train)), qr/Warning\s+CreditRefused.*refused: insufficient_credits/,
	'kubectl describe shows the event');
like(kubectl(qw(-n vision patch pod train --type=json -p),
	'[{"op": "test", "path": "/metadata/resourceVersion", "value": "1"}]'),
	qr/testing path .* failed/, 'a JSON patch that tests for another version fails');
like(kubectl(qw(-n vision patch pod train --type=merge -p), '{"spec": {"schedulingGates": [{"name": "mine"}]}}'),
	qr/only deletion is allowed/, 'a gate cannot be added');
sql($k, q{SELECT gpucredit.issue('vision', '', 'paid', 100000)});
kubectl(qw(-n vision wait --for=jsonpath={.status.phase}=Succeeded pod/train --timeout=40s));
like($said, qr/condition met/, 'it runs as credit comes') or diag(bridge_log($k));
wait_for('and shows its bill', 20, sub {
	kubectl(qw(-n vision get pod train -o), 'jsonpath={.metadata.annotations.gpucredit\.io/billed}') =~ /^\d+\.\d{6}$/ });
like(kubectl(qw(-n vision get pod train -o), 'jsonpath={.spec.nodeSelector.nvidia\.com/gpu\.product}'), qr/^T4$/,
	'it was bound to the type that was priced');

$pod =~ s/name: train$/name: long/m;
$pod =~ s/sleep 2/sleep 1000/;
apply($pod);
wait_for('another runs', 30, sub { kubectl(qw(-n vision get pod long)) =~ /Running/ });
like(kubectl(qw(-n vision delete pod long --timeout=40s)), qr/pod "long" deleted/, 'and is deleted');
end_kubernetes($k);
done_testing();
