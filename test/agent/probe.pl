# probe.pl: devices are tested before their first job and after a failure: one
# that fails its test never gets a job, and the reason is told
#
# The GPUs are those of a library like NVIDIA's, and the built-in test runs its
# programs through another that is like libcuda.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use GpuCredit;
use GpuCreditAgent;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);

my $lib = PostgreSQL::Test::Utils::tempdir_short();
my $bin = $ENV{GC_AGENT_BIN} || "$FindBin::RealBin/../../agent";

foreach my $library (qw(nvml cuda))
{
	system('cc', '-shared', '-fPIC', '-o', "$lib/lib$library.so", "$FindBin::RealBin/${library}_fake.c") == 0
	  or die "could not compile $library";
}
$ENV{GPUCREDIT_FAKE_NVML}    = "$lib/gpus";
$ENV{GPUCREDIT_FAKE_CUDA}    = "$lib/cuda";
$ENV{GPUCREDIT_CUDA_LIBRARY} = "$lib/libcuda.so";

my %gpu  = map { $_ => { ecc => 0, pending => 0, failed => 0 } } 0 .. 3;
my %cuda = (0 => 'good', 1 => 'wrong', 2 => 'slow', 3 => 'good');
my @events;
my $boot    = 1;
my $cluster = cluster('probe');
my $server  = $cluster->{server};
my @conf    = (
	'devices = nvml', 'device_poll_ms = 300', 'nvml_timeout_ms = 5000', "nvml_library = $lib/libnvml.so",
	"probe_program = $bin/gpucredit-gpu-probe");
my $n1 = add_node($cluster, 'n1', 4, stopped => 1, conf => [@conf]);

write_gpus();
write_cuda();

# a setting that is no test ends the agent
is(fails_with('probe = sometimes'), 1, 'an unknown test ends the agent');
like(agent_log($n1), qr/probe is no, builtin, dcgm or the path of a program, not "sometimes"/, 'the agent says which tests there are');
is(fails_with('probe = dcgm', 'devices = file:/nowhere'), 1, 'dcgm cannot test devices that NVML does not list');

# before the first job: a job that was placed meanwhile starts on a device that
# was tested
my $early = submit($cluster, '4xT4', 'echo $CUDA_VISIBLE_DEVICES', no_lock => 1);
is(query($server, 'credit', "SELECT count(*) FROM gpucredit.attempt WHERE job = $early"), 1, 'before the agent starts, a job is placed on devices that nobody tested');
begin('probe = builtin', 'probe_bandwidth_gb_s = 35');
wait_for('two of four pass', 60, sub { healthy() eq '{0,3}' && reason(1) =~ /failed/ && reason(2) =~ /failed/ });
is(reason(1), 'its test failed: memory does not keep what is written to it', 'of a device with wrong memory the database has the reason');
like(reason(2), qr/^its test failed: copies run at [\d.]+ GB\/s, and are to run at 35\.0$/, 'and of one whose copies are slow');
is(reason(0), '', 'a device that passed has no reason');
is(query($server, 'credit', q{SELECT string_agg(concat_ws(' ', labels ->> 'node', labels ->> 'device', labels ->> 'reason'), '; ' ORDER BY labels ->> 'device')
	FROM gpucredit.metric_samples('{device_out_of_service}') WHERE labels ->> 'device' = '1'}),
	'n1 1 its test failed: memory does not keep what is written to it', 'the metric of the alert names the device and its reason');
is(query($server, 'credit', q{SELECT bool_and(coalesce(detail -> 'out_of_service' ->> '1', '') <> '') FROM gpucredit.audit
	WHERE operation = 'heartbeat' AND decision IN ('device_failed', 'device_back') AND NOT (detail ->> 'healthy')::gpucredit.gpuset OPERATOR(gpucredit.@>) 1}),
	't', 'each audit row without that device says why it is out of service');
wait_for('the early job has lost its untested devices', 30, sub { job_row($cluster, $early, 'outcome') eq 'node_lost' });
ok(!attempt_dir($n1, $early, 1) || !-s attempt_dir($n1, $early, 1) . '/stdout', 'and its program never ran there');
query($server, 'credit', "SELECT gpucredit.cancel('acme', $early, 'c')");
run_on('{0,3}', 'tested devices', 4);

# a restart of the agent repeats no test and forgets no failure
my $started     = probes();
my $incarnation = query($server, 'credit', q{SELECT about ->> 'incarnation' FROM gpucredit.node});
restart();
wait_for('the agent is back', 60, sub { query($server, 'credit', q{SELECT about ->> 'incarnation' FROM gpucredit.node}) > $incarnation });
is(healthy(), '{0,3}', 'the same devices serve after a restart');
is(probes(), $started, 'a restart repeats no test');
is(reason(1), 'its test failed: memory does not keep what is written to it', 'and forgets no reason');

# the operator has mended one
$cuda{1} = 'good';
write_cuda();
is(system("$bin/gpucredit-agent reset $n1->{folder}/agent.conf GPU-n1-1 >/dev/null"), 0, 'the operator has mended a device');
wait_for('it is tested again and serves', 60, sub { healthy() eq '{0-1,3}' });
like(agent_log($n1), qr/event=probe_start device=1 uuid=GPU-n1-1 why=operator/, 'the log has why it was tested');
is(system("$bin/gpucredit-agent reset $n1->{folder}/agent.conf GPU-n1-1 >/dev/null"), 0, 'a reset of a device that serves is a new test');
wait_for('it serves after that as well', 60, sub { agent_log($n1) =~ /(?:why=operator.*){2}/s && healthy() eq '{0-1,3}' });

# after a failure: a test that hangs is ended, and keeps nobody waiting
push @events, [ 3, 79 ];
write_gpus();
wait_for('an Xid of the hardware takes a device', 30, sub { healthy() eq '{0-1}' });
is(reason(3), 'Xid 79: GPU has fallen off the bus: it needs a reset', 'the reason is the Xid');
$cuda{3} = 'hang';
write_cuda();
restart('probe = builtin', 'probe_timeout_s = 1');
is(system("$bin/gpucredit-agent reset $n1->{folder}/agent.conf GPU-n1-3 >/dev/null"), 0, 'the operator has reset it');
wait_for('its test is begun', 60, sub { agent_log($n1) =~ /event=probe_start device=3/ });
wait_for('its test took too long', 60, sub { reason(3) eq 'its test failed: it did not end within 1 s' });
wait_for('nothing is left of it', 30, sub { !grep { $_ eq 'gpucredit-gpu-probe' } map { slurp("/proc/$_/comm") =~ s/\n//r } children($n1->{pid}) });
run_on('{0-1}', 'the others meanwhile', 2);

# what the driver counts after a test
restart('probe = builtin', 'probe_timeout_s = 300');
$cuda{3} = 'good';
$gpu{3}{ecc} = 2;
again('uncorrected memory errors', 'its test failed: the driver counts 2 uncorrected memory errors');
$gpu{3}{ecc} = 0;
$gpu{3}{pending} = 1;
again('a row to be remapped', 'its test failed: a row of memory is to be remapped: reset the device');
@{ $gpu{3} }{qw(pending failed)} = (0, 1);
again('a row that was not remapped', 'its test failed: the driver could not remap a row of memory');
$gpu{3}{failed} = 0;
$gpu{3}{used} = 9000;
again('memory is left', 'memory or processes were left on it');
$gpu{3}{used} = 0;
write_gpus();
wait_for('it serves once that is free', 60, sub { healthy() eq '{0-1,3}' });
$cuda{3} = 'absent';
write_cuda();
is(system("$bin/gpucredit-agent reset $n1->{folder}/agent.conf GPU-n1-3 >/dev/null"), 0, 'a test is asked for of a device that CUDA does not find');
wait_for('a test that cannot begin has failed', 60, sub { reason(3) eq 'its test failed: error init 100 CUDA_ERROR_NO_DEVICE' });

# a program of the operator's, after a boot: each device is tested again; what it
# writes can be anything
append_to_file("$lib/own", <<'END');
#!/bin/bash
echo "$1 $CUDA_VISIBLE_DEVICES $GPUCREDIT_DEVICE_INDEX $GPUCREDIT_PROBE_REASON" >>"$0.log"
case $1 in
	*-0) echo fine ;;
	*-1) for i in {1..100000}; do echo "line $i of very many"; done; exit 3 ;;
	*-2) printf 'bad "\001\xff\xc2\x85 \\ \xe2\x80\xae%0300d\n\n' 7; exit 1 ;;
	*-3) kill -9 $$ ;;
esac
END
chmod 0755, "$lib/own";
$boot++;
restart("probe = $lib/own", 'probe_timeout_s = 600');
wait_for('one of four passes', 60, sub { healthy() eq '{0}' && 3 == grep { reason($_) =~ /^its test failed/ } 1 .. 3 });
is(reason(1), 'its test failed: line 100000 of very many', 'the reason is the last line');
like(reason(2), qr/^its test failed: bad '\?+ ' \?+0+$/, 'of a line that the database would refuse, the rest is the reason');
is(reason(3), 'its test failed: signal 9 ended it', 'a program that a signal ended has failed');
is(join("\n", sort split /\n/, slurp("$lib/own.log")), join("\n", map { "GPU-n1-$_ GPU-n1-$_ $_ boot" } 0 .. 3), 'each device was tested once, alone, and as after a boot');
run_on('{0}', 'the operator\'s program let it', 1);
$boot++;
restart("probe = $lib/nowhere");
wait_for('a program that is not there has failed', 60, sub { healthy() eq '{}' && reason(0) eq "its test failed: could not run $lib/nowhere: No such file or directory" });

# dcgmi refuses to run twice at once
append_to_file("$lib/dcgmi", <<'END');
#!/bin/bash
echo "$*" >>"$0.log"
mkdir "$0.runs" || { echo "another diagnostic runs"; exit 9; }
sleep 0.3
rmdir "$0.runs"
END
chmod 0755, "$lib/dcgmi";
$boot++;
restart('probe = dcgm', "dcgmi = $lib/dcgmi");
wait_for('all pass, one after the other', 60, sub { healthy() eq '{0-3}' });
is(join("\n", sort split /\n/, slurp("$lib/dcgmi.log")), join("\n", map { "diag -r 1 -i $_" } 0 .. 3), 'dcgmi was asked about each');
is(query($server, 'credit', q{SELECT out_of_service IS NULL FROM gpucredit.nodes WHERE node = 'n1'}), 't', 'nothing is out of service');
end_cluster($cluster);
done_testing();

# The state of both libraries, written at once.
sub write_gpus
{
	my $lines = "init 0\n";

	foreach my $i (sort keys %gpu)
	{
		my $g = $gpu{$i};

		$lines .= sprintf("gpu %d GPU-n1-%d 16384 %d 0 0 %d ok\n", $i, $i, $g->{used} || 0, $g->{ecc});
		$lines .= "rows $i $g->{pending} $g->{failed}\n";
	}
	write_at_once("$lib/gpus", $lines . join('', map { "xid $_->[0] $_->[1]\n" } @events));
	return;
}

sub write_cuda
{
	write_at_once("$lib/cuda", join('', map { "GPU-n1-$_ $cuda{$_}\n" } sort keys %cuda));
	return;
}

sub write_at_once
{
	my ($path, $text) = @_;

	unlink "$path.new";
	append_to_file("$path.new", $text);
	rename("$path.new", $path) or die;
	return;
}

sub begin
{
	my (@more) = @_;

	$n1->{conf} = [ @conf, @more ] if @more;
	start_agent($n1, GPUCREDIT_BOOT_ID => sprintf('00000000-0000-4000-8000-%012d', $boot));
	return;
}

sub restart
{
	my (@more) = @_;

	end_agent($n1);
	begin(@more);
	return;
}

# The exit code of an agent with more lines in its configuration.
sub fails_with
{
	my (@more) = @_;
	my $code;

	begin(@more);
	waitpid($n1->{pid}, 0);
	$code = $? >> 8;
	delete $n1->{pid};
	return $code;
}

# Device 3 is tested again, and is out of service for this reason.
sub again
{
	my ($name, $why) = @_;

	write_gpus();
	write_cuda();
	system("$bin/gpucredit-agent reset $n1->{folder}/agent.conf GPU-n1-3 >/dev/null");
	wait_for($name, 60, sub { reason(3) eq $why });
	return;
}

# So many jobs run, on these devices alone.
sub run_on
{
	my ($devices, $name, $n) = @_;
	my @jobs = map { submit($cluster, '1xT4', 'sleep 0.1; echo $CUDA_VISIBLE_DEVICES', no_lock => 1) } 1 .. $n;

	foreach my $job (@jobs)
	{
		wait_for_state($cluster, $job, 'completed', 60);
		my ($device) = slurp(attempt_dir($n1, $job, job_row($cluster, $job, 'attempt')) . '/stdout') =~ /GPU-n1-(\d)/;
		is(query($server, 'credit', sprintf(q{SELECT '%s'::gpucredit.gpuset OPERATOR(gpucredit.@>) %d}, $devices, $device // -1)), 't', "job $job had one of $name");
	}
	return;
}

sub healthy { return query($server, 'credit', q{SELECT healthy::text FROM gpucredit.node WHERE node = 'n1'}) }

sub reason
{
	my ($device) = @_;

	return query($server, 'credit', "SELECT coalesce(out_of_service ->> '$device', '') FROM gpucredit.nodes WHERE node = 'n1'");
}

sub probes { my @all = agent_log($n1) =~ /event=probe_start/g; return scalar @all }

sub slurp
{
	my ($path) = @_;

	open(my $file, '<', $path) or return '';
	local $/ = undef;
	return <$file> // '';
}

sub children
{
	my ($pid) = @_;

	return split ' ', slurp("/proc/$pid/task/$pid/children");
}
