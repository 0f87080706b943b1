# gpu.pl: on a machine with an NVIDIA GPU: the agent finds what the driver has, a
# job gets one by its UUID, and it is free again
#
# GC_NVML_LIBRARY names another library than the driver's.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use GpuCredit;
use GpuCreditAgent;
use PostgreSQL::Test::Utils;
use Test::More;

my $bin     = $ENV{GC_AGENT_BIN}    || "$FindBin::RealBin/../../agent";
my $library = $ENV{GC_NVML_LIBRARY} || 'libnvidia-ml.so.1';
my @conf    = ('devices = nvml', "nvml_library = $library", 'device_poll_ms = 1000');
my $file    = PostgreSQL::Test::Utils::tempdir() . '/nvml.conf';

append_to_file($file, join("\n", 'node = n1', @conf, ''));
my %memory = reverse `timeout 30 $bin/gpucredit-agent nvml $file </dev/null 2>/dev/null` =~ /^gpu \d+ -?\d+ (\d+) \d+ (\S+)/mg;
plan skip_all => 'no NVIDIA GPU on this machine' unless %memory;

my $cluster = cluster('gpu');
my $server  = $cluster->{server};
my $n1      = add_node($cluster, 'n1', scalar(keys %memory), stopped => 1, conf => \@conf);

start_agent($n1);
wait_for('the database knows each GPU by its UUID', 30,
	sub { query($server, 'credit', q{SELECT string_agg(d, ' ' ORDER BY d) FROM gpucredit.node, jsonb_array_elements_text(about -> 'devices') d}) eq join(' ', sort keys %memory) });
is(query($server, 'credit', q{SELECT gpucredit.gpu_count(healthy) FROM gpucredit.node}), scalar(keys %memory), 'and each works');
foreach my $round (1, 2)
{
	my $job = submit($cluster, '1xT4', 'echo $CUDA_VISIBLE_DEVICES; command -v nvidia-smi >/dev/null && nvidia-smi -L; sleep 2', no_lock => 1);

	wait_for_state($cluster, $job, 'completed');
	my ($uuid, @listed) = split /\n/, slurp_file(attempt_dir($n1, $job, 1) . '/stdout');

	ok(exists $memory{$uuid}, "job $job has a GPU of the driver's");
	ok(!@listed || grep({ index($_, $uuid) >= 0 } @listed), 'which its tools see, too');
	bill_is_fair($cluster, $job, 1, 2);
}
my $all = submit($cluster, scalar(keys %memory) . 'xT4', 'echo $CUDA_VISIBLE_DEVICES', no_lock => 1);
wait_for_state($cluster, $all, 'completed');
is(join(' ', sort split /[,\n]/, slurp_file(attempt_dir($n1, $all, 1) . '/stdout')), join(' ', sort keys %memory), 'all are free afterwards');
end_cluster($cluster);
done_testing();
