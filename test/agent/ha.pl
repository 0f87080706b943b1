# ha.pl: a short play of tools/ha
# Packages: patroni etcd-server etcd-client python3-etcd iproute2
#
# Three machines with etcd, Patroni and PostgreSQL, an agent and clients.  The
# primary's machine dies, and its successor is cut off where this machine has
# network namespaces.  No acknowledged call may be lost, every job runs once,
# and the books balance.  How long it takes is for tools/ha to measure.

use strict;
use warnings;
use FindBin;
use IPC::Run;
use Test::More;

my $root = "$FindBin::RealBin/../..";

plan skip_all => 'postgres does not run as root' if $> == 0;

sub ha
{
	my (@options) = @_;
	my ($out, $err) = ('', '');

	local $ENV{GC_HA_BUILD} = $ENV{GC_SOURCE} ? "$ENV{GC_SOURCE}/.." : '';
	IPC::Run::run([ "$root/tools/ha", @options ], '<', \undef, '>', \$out, '2>', \$err, IPC::Run::timeout(900));
	return ($? >> 8, $out, $err);
}

my ($status, $out, $err) = ha('--kills', '-1');
is($status, 2, 'a mistake in the options');
like($err, qr/--kills takes a number/, '... is named');

my $namespaces = system('unshare --user --map-current-user --keep-caps --net ip link set lo up >/dev/null 2>&1') == 0;

($status, $out, $err) = ha('--kills', 1, '--partitions', $namespaces ? 1 : 0);
is($status, 0, 'three machines fail over') or diag($out, $err);
like($out, qr/the primary's machine is killed +next start after +\d+\.\d s$/m, 'jobs start after a machine died');
SKIP:
{
	skip 'no network namespaces', 1 unless $namespaces;
	like($out, qr/the primary is cut off +next start after +\d+\.\d s$/m, 'jobs start while a primary is cut off');
}
like($out, qr/^[1-9]\d* issues and [1-9]\d* jobs were acknowledged/m, 'clients worked meanwhile');
like($out, qr/^Nothing that was acknowledged is lost, every job ran once, and the books balance\.$/m, 'nothing is lost');
done_testing();
