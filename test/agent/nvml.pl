# nvml.pl: GPUs of a library like NVIDIA's: each error takes exactly the right
# GPUs out of service, and a hanging driver stops no heartbeat

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use GpuCredit;
use GpuCreditAgent;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my $lib = PostgreSQL::Test::Utils::tempdir_short();
my $bin = $ENV{GC_AGENT_BIN} || "$FindBin::RealBin/../../agent";

compile('libnvidia-ml.so.1');
compile('old.so', '-DOLD');
my $cluster = cluster('nvml');
my $server  = $cluster->{server};
my $n1      = add_node(
	$cluster, 'n1', 4,
	stopped => 1,
	conf    => [
		'devices = nvml',         'device_poll_ms = 300',
		'nvml_timeout_ms = 300', "nvml_library = $lib/libnvidia-ml.so.1",
		'xid.7 = application', ]);
$ENV{GPUCREDIT_FAKE_NVML} = "$lib/gpus";

# a missing library, or one without a driver: a clear error
my %gpu = map { $_ => { used => 1, processes => 0, ecc => 0, how => 'ok' } } 0 .. 3;
my @events;
my $init = 18;
write_gpus();
is(fails_with('nvml_library = libnowhere.so.1'), 1, 'without the library the agent ends');
like(agent_log($n1), qr/^devices = nvml: no NVIDIA library: libnowhere\.so\.1: cannot open/m, 'the agent says which library is missing');
is(fails_with(), 1, 'without the driver the agent ends');
like(agent_log($n1), qr/^devices = nvml: NVML: Driver\/library version mismatch$/m, 'the agent says what is wrong with the driver');
$init = 0;
write_gpus();
is(fails_with('xid.74 = sometimes'), 1, 'an unknown action for an Xid ends the agent');
like(agent_log($n1), qr/agent\.conf:\d+: an Xid is xid\.N = hardware, after_job, application or log/, 'the agent says which actions there are for an Xid');

# without a GPU, the programs that test one say so
is(system("GC_AGENT_BIN=$bin GC_NVML_LIBRARY=libnowhere.so.1 $FindBin::RealBin/../gpu/check >/dev/null 2>&1") >> 8, 77, 'test/gpu/check finds no GPU');
is(system("GPUCREDIT_CUDA_LIBRARY=libnowhere.so.1 $bin/gpucredit-gpu-probe check >/dev/null") >> 8, 2, 'without the CUDA library the probe cannot begin');
is(system("$bin/gpucredit-gpu-probe check all of it 2>/dev/null") >> 8, 2, 'the probe refuses arguments that it does not know');

# the inventory
start_agent($n1);
wait_for('it has told its GPUs', 10,
	sub { query($server, 'credit', q{SELECT about ->> 'devices' FROM gpucredit.node WHERE node = 'n1'}) eq join(', ', map { qq("$_") } uuids()) =~ s/^(.*)$/[$1]/r });
my $steady = job('1xT4', q{echo $CUDA_VISIBLE_DEVICES $NVIDIA_VISIBLE_DEVICES > $OUT/up; trap 'exit 0' TERM; while :; do sleep 0.1; done});
my $began  = time();
my $at     = device_of($steady);
is(slurp_file("$cluster->{submitted}{$steady}/up"), "GPU-n1-$at GPU-n1-$at\n", 'a job is told its GPU by UUID');
$gpu{$at}{utilization} = 50;
write_gpus();
wait_for('it tells how busy its GPU is', 10,
	sub { query($server, 'credit', "SELECT utilization FROM gpucredit.attempt WHERE job = $steady") eq '0.5' });

# an Xid caused by the program: only its message
my $job = job('1xT4', q{echo up > $OUT/up; while [ ! -e $OUT/end ]; do sleep 0.05; done; echo illegal >&2; exit 1}, '', 0);
my $d   = device_of($job);
xid($d, 31);
xid($d, 7);
xid($d, 12345);
append_to_file("$cluster->{submitted}{$job}/end", '');
wait_for_state($cluster, $job, 'failed');
is(job_row($cluster, $job, 'message'), "Xid 31 on GPU-n1-$d: GPU memory page fault; Xid 7 on GPU-n1-$d\nillegal", 'the message of the failed job has the Xids');
like(agent_log($n1), qr/event=xid device=$d uuid=GPU-n1-$d code=12345 action=log/, 'an unknown one is logged');
is(healthy(), '{0-3}', 'all devices serve');

# an Xid of the hardware: the GPU goes out of service, the job runs again
# elsewhere
$job = job('1xT4', q{echo up > $OUT/up; sleep 1}, ', max_retries => 0', 0);
$d = device_of($job);
xid($d, 79);
wait_for('it is out of service', 10, sub { !serves($d) });
wait_for_state($cluster, $job, 'completed');
is(job_row($cluster, $job, q{attempt || ' ' || outcome}), '2 completed', 'the job of a failed GPU ran elsewhere');
is(query($server, 'credit', "SELECT outcome || ' ' || message FROM gpucredit.attempt WHERE job = $job AND attempt = 1"),
	"node_lost device {$d} of node n1 is not healthy", 'the first attempt ended as lost, with the failed GPU');
my $broken = $d;

# an Xid that takes effect at its job's end: the job goes on
$job = job('1xT4', q{echo up > $OUT/up; while [ ! -e $OUT/end ]; do sleep 0.05; done}, '', 0);
$d = device_of($job);
my $ran = time();
xid($d, 94);
sleep(1);
ok(serves($d), 'a GPU that is to be held after its job serves while the job runs');
restart();
ok(serves($d), 'a GPU that is to be held after its job serves after a restart of the agent');
append_to_file("$cluster->{submitted}{$job}/end", '');
$ran = time() - $ran;
wait_for_state($cluster, $job, 'completed');
bill_is_fair($cluster, $job, 1, $ran);
wait_for('then it does not', 10, sub { !serves($d) });
my $worn = $d;

# leftover processes of a job keep its GPU out of service
$job = job('1xT4', q{echo up > $OUT/up; while [ ! -e $OUT/end ]; do sleep 0.05; done}, '', 0);
$d = device_of($job);
$gpu{$d}{used} = 5000;
write_gpus();
append_to_file("$cluster->{submitted}{$job}/end", '');
wait_for_state($cluster, $job, 'completed');
wait_for('memory is left', 10, sub { !serves($d) });
is(job_row($cluster, $job, 'attempt'), 1, 'the job whose memory was left on the GPU completes in its first attempt');
like(agent_log($n1), qr/event=device_held device=$d uuid=GPU-n1-$d hold=leftover/, 'the log has the GPU on which memory was left');
restart();
sleep(1);
is(healthy(), "{$at}", 'a restart forgets none of them, and takes no other');
$gpu{$d}{used} = 1;
$gpu{$d}{processes} = 1;
write_gpus();
sleep(0.7);
ok(!serves($d), 'a GPU on which a process was left does not serve');
$gpu{$d}{processes} = 0;
write_gpus();
wait_for('once it is gone it serves', 10, sub { serves($d) });

# a GPU whose calls hang: heartbeats and the other GPUs go on
$gpu{$d}{how} = 'hang';
write_gpus();
wait_for('a call hangs', 10, sub { agent_log($n1) =~ /event=nvml_hung index=$d/ });
wait_for('the GPU goes', 10, sub { !serves($d) });
wait_for('heartbeats go on', 15, sub { silence() < 2 });
ok(serves($at), 'beside a call that hangs the other GPU serves');
$gpu{$d}{how} = 'ok';
write_gpus();
wait_for('it answers again', 15, sub { serves($d) });

# a driver that hangs as a whole: no new jobs, running ones go on
$init = 'hang';
write_gpus();
restart();
wait_for('a call hangs', 15, sub { agent_log($n1) =~ /event=nvml_hung index=-1/ });
wait_for('what is free goes', 10, sub { healthy() eq "{$at}" });
wait_for('heartbeats go on', 15, sub { silence() < 2 });
$init = 0;
write_gpus();
wait_for('it answers again', 15, sub { serves($d) });

# a GPU lost and back was reset; the others need the operator
$gpu{$d}{how} = 'lost';
write_gpus();
wait_for('lost', 10, sub { !serves($d) });
ok(serves($at), 'a GPU that is lost blocks no other');
$gpu{$d}{how} = 'ok';
write_gpus();
wait_for('and back', 15, sub { serves($d) });
is(system("$bin/gpucredit-agent reset $n1->{folder}/agent.conf GPU-n1-$broken >/dev/null"), 0, 'the operator has reset one');
wait_for('it serves', 10, sub { serves($broken) });

# the machine's next boot resets the rest; an old library without events counts
# errors, with the same effect as Xid 48
query($server, 'credit', "SELECT gpucredit.cancel('acme', $steady, 'c')");
wait_for_state($cluster, $steady, 'cancelled');
bill_is_fair($cluster, $steady, 1, time() - $began);
$gpu{$broken}{how} = 'noevents';
write_gpus();
restart(GPUCREDIT_BOOT_ID => '00000000-0000-4000-8000-000000000002');
wait_for('all serve', 10, sub { healthy() eq '{0-3}' });
$gpu{$broken}{ecc} = 1;
write_gpus();
wait_for('an error that was counted', 10, sub { !serves($broken) });
ok(serves($d), 'a GPU is held for its own memory errors only');
push @{ $n1->{conf} }, "nvml_library = $lib/old.so";
restart(GPUCREDIT_BOOT_ID => '00000000-0000-4000-8000-000000000003');
wait_for('a library without most functions', 10, sub { healthy() eq '{0-3}' });
$job = submit($cluster, '4xT4', 'sleep 0.2', no_lock => 1);
wait_for_state($cluster, $job, 'completed');

# the same rules apply to devices of a file
query($server, 'credit', q{SELECT gpucredit.drain('n1', 'test')});
my $n2 = add_node($cluster, 'n2', 2);
$job = job('1xT4', q{echo up > $OUT/up; while [ ! -e $OUT/end ]; do sleep 0.05; done}, '', 0);
write_file('xid=31,63', '');
wait_for('its Xids', 10, sub { agent_log($n2) =~ /hold=after_job xid=63/ });
append_to_file("$cluster->{submitted}{$job}/end", '');
wait_for_state($cluster, $job, 'completed');
is(job_row($cluster, $job, 'message'), 'Xid 31 on GPU-n2-0: GPU memory page fault; Xid 63 on GPU-n2-0: row remapping or page retirement', 'the message of a job that completes has the Xids');
wait_for('and its device goes', 10, sub { healthy('n2') eq '{1}' });
write_devices($n2, 'broken', 'ok');
sleep(0.5);
write_devices($n2, 'ok', 'ok');
wait_for('until it is reset', 10, sub { healthy('n2') eq '{0-1}' });
write_file('', 'xid=79');
wait_for('one of the hardware', 10, sub { healthy('n2') eq '{0}' });

kill_agent($n1);
wait_for('what asks the library goes with its agent', 5, sub { !processes_of($n1->{folder}) });
end_cluster($cluster);
done_testing();

sub compile
{
	my ($name, @flags) = @_;

	system('cc', '-shared', '-fPIC', @flags, '-o', "$lib/$name", "$FindBin::RealBin/nvml_fake.c") == 0
	  or die "could not compile $name";
	return;
}

sub uuids { return map { "GPU-n1-$_" } 0 .. 3 }

# The library's state, written at once.
sub write_gpus
{
	my $lines = "init $init\n";

	foreach my $i (sort keys %gpu)
	{
		my $g = $gpu{$i};

		$lines .= sprintf("gpu %d GPU-n1-%d 16384 %d %d %d %d %s\n", $i, $i, $g->{used}, $g->{processes}, $g->{utilization} || 0, $g->{ecc}, $g->{how});
	}
	$lines .= join('', map { "xid $_->[0] $_->[1]\n" } @events);
	unlink "$lib/gpus.new";
	append_to_file("$lib/gpus.new", $lines);
	rename("$lib/gpus.new", "$lib/gpus") or die;
	return;
}

sub xid
{
	my ($device, $code) = @_;

	push @events, [ $device, $code ];
	write_gpus();
	return;
}

# Submits a job and waits until its program runs.
sub job
{
	my ($request, $command, $args, $retries) = @_;
	my $id = submit($cluster, $request, $command, no_lock => 1, args => ($args || '') . (defined $retries && ($args || '') !~ /max_retries/ ? ", max_retries => $retries" : ''));

	wait_for("job $id runs", 20, sub { -s "$cluster->{submitted}{$id}/up" });
	return $id;
}

sub device_of
{
	my ($id) = @_;

	return query($server, 'credit', "SELECT gpus::text FROM gpucredit.attempt_gpu WHERE job = $id AND ended_at IS NULL") =~ s/[{}]//gr;
}

sub healthy
{
	my ($node) = @_;

	return query($server, 'credit', sprintf(q{SELECT healthy::text FROM gpucredit.node WHERE node = '%s'}, $node || 'n1'));
}

sub serves
{
	my ($device) = @_;

	return query($server, 'credit', "SELECT healthy OPERATOR(gpucredit.\@>) '{$device}' FROM gpucredit.node WHERE node = 'n1'") eq 't';
}

# The inventory of n2, with more about each device.
sub write_file
{
	my (@words) = @_;
	my $lines = join('', map { "GPU-n2-$_ 16384 ok $n2->{folder}/gpu$_ $words[$_]\n" } 0, 1);

	append_to_file("$n2->{folder}/devices.new", $lines);
	rename("$n2->{folder}/devices.new", "$n2->{folder}/devices") or die;
	return;
}

# Seconds since the node was last heard of.
sub silence
{
	return query($server, 'credit', q{SELECT extract(epoch FROM clock_timestamp() - heard_at) FROM gpucredit.nodes WHERE node = 'n1'});
}

sub restart
{
	my (%env) = @_;

	end_agent($n1);
	start_agent($n1, %env);
	return;
}

# The exit code of an agent with one more line in its configuration.
sub fails_with
{
	my (@line) = @_;
	my $code;

	push @{ $n1->{conf} }, @line;
	start_agent($n1);
	waitpid($n1->{pid}, 0);
	$code = $? >> 8;
	delete $n1->{pid};
	splice(@{ $n1->{conf} }, -@line) if @line;
	return $code;
}
