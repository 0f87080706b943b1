# pod_gpus.pl: the bridge counts the GPUs of a pod as Kubernetes' scheduler
# reserves them, sidecars included
#
# Packages: gcc libjansson-dev

use strict;
use warnings;
use FindBin;
use IPC::Run 'run';
use JSON::PP;
use List::Util qw(max sum0);
use Test::More;
use File::Temp 'tempdir';

my $home    = "$FindBin::RealBin/..";
my $program = tempdir(CLEANUP => 1) . '/pod_gpus';
my @sources = ("$FindBin::RealBin/pod_gpus.c", map({ "$home/$_.c" } qw(config document pod_request texts)),
	map { "$home/../../lib/$_.c" } qw(clock file log memory settings));
my ($out, $said);

run([ 'cc', qw(-std=gnu11 -D_GNU_SOURCE -iquote), "$home/../../lib", '-o', $program, @sources, '-ljansson' ],
	'>', \$said, '2>&1') or die "cc: $said\n";

# KEP-753, as PodRequests() of Kubernetes has it: while init container i runs, the
# pod needs that and the sidecars before it; later all sidecars and containers.
sub reserved
{
	my ($init, $containers) = @_;
	my @needs = map {
		my $i = $_;

		$init->[$i]{gpus} + sum0(map { $_->{gpus} } grep { $_->{stays} } @$init[ 0 .. $i - 1 ]);
	} keys @$init;

	return max(@needs, sum0(map { $_->{gpus} } @$containers, grep { $_->{stays} } @$init));
}

sub container
{
	my ($one) = @_;
	my %resources = $one->{gpus} == 0 ? () : (resources => { limits => { 'nvidia.com/gpu' => "$one->{gpus}" } });

	return { name => 'c', %resources, defined $one->{stays} ? (restartPolicy => $one->{stays} ? 'Always' : 'Never') : () };
}

srand(3);
my (@pods, @expected);

foreach (1 .. 500)
{
	my @init       = map { { gpus => int rand 5, stays => int rand 2 } } 1 .. int rand 6;
	my @containers = map { { gpus => int rand 4 } } 1 .. 1 + int rand 4;

	push @expected, reserved(\@init, \@containers);
	push @pods, JSON::PP->new->canonical->encode({ spec => {
		containers => [ map { container($_) } @containers ], initContainers => [ map { container($_) } @init ] } });
}
my $in = join '', map { "$_\n" } @pods;

run([$program], '<', \$in, '>', \$out) or die 'pod_gpus failed';
my @got = split /\n/, $out;
my @wrong = grep { $got[$_] ne $expected[$_] } keys @expected;

is(join("\n", map { "$got[$_] instead of $expected[$_]: $pods[$_]" } @wrong), '', '500 pods have the GPUs that the scheduler reserves');
cmp_ok(scalar(grep { $_ > 0 } @expected), '>', 400, 'nearly all of them have some');

# three of a sidecar and three of the init container after it
$in = '{"spec": {"containers": [{"name": "c"}], "initContainers": [{"restartPolicy": "Always", "resources": {"limits": {"nvidia.com/gpu": "3"}}},'
  . '{"resources": {"limits": {"nvidia.com/gpu": "3"}}}]}}' . "\n";
run([$program], '<', \$in, '>', \$out) or die 'pod_gpus failed';
is($out, "6\n", 'an init container runs beside the sidecars before it');

# without a gate, a pod whose number cannot be read is deleted as others are
$in = '{"spec": {"containers": [{"name": "c", "resources": {"limits": {"nvidia.com/gpu": "1k"}}}]}}' . "\n";
run([$program], '<', \$in, '>', \$out) or die 'pod_gpus failed';
is($out, "0 and devices\n", 'a number that cannot be read asks for devices all the same');
done_testing();
