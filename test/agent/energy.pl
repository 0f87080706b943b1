# energy.pl: what GPUs use is counted for the jobs that have them, and shown in
# Prometheus' form, whatever tenants call their jobs

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use GpuCredit;
use GpuCreditAgent;
use JSON::PP;
use PostgreSQL::Test::Utils;
use Test::More;

my $lib     = PostgreSQL::Test::Utils::tempdir_short();
my $metrics = "$lib/gpucredit.prom";

system('cc', '-shared', '-fPIC', '-o', "$lib/libnvidia-ml.so.1", "$FindBin::RealBin/nvml_fake.c") == 0
  or die 'could not compile the library';
my $cluster = cluster('energy');
my $server  = $cluster->{server};
my $n1      = add_node(
	$cluster, 'n1', 4,
	stopped => 1,
	conf    => [
		'devices = nvml', 'device_poll_ms = 300', "nvml_library = $lib/libnvidia-ml.so.1",
		"metrics_file = $metrics", 'metrics_labels = model, team/group' ]);
$ENV{GPUCREDIT_FAKE_NVML} = "$lib/gpus";

# The first three GPUs count their energy, the last one has no sensors.
my %gpu = map { $_ => { how => 'ok', celsius => 40, milliwatts => -1, millijoules => 1_000_000 } } 0 .. 2;
$gpu{3} = { how => 'ok' };
write_gpus();

# mistakes in the settings
foreach (
	[ 'metrics_file = gpus.prom' => 'metrics_file is the path of a file \*\.prom, not "gpus\.prom"' ],
	[ "metrics_file = $lib/gpus.txt" => 'metrics_file is the path of a file \*\.prom' ],
	[ 'metrics_labels = a.b a/b' => 'metrics_labels: "a\.b" and "a/b" would both be label_a_b' ],
	[ 'metrics_labels = 1 2 3 4 5 6 7 8 9' => 'metrics_labels names 8 labels at most' ],
	[ 'metrics_labels = ' . 'x' x 65 => 'is longer than 64 bytes' ])
{
	my ($line, $error) = @$_;

	push @{ $n1->{conf} }, $line;
	start_agent($n1);
	waitpid($n1->{pid}, 0);
	is($? >> 8, 1, substr($line, 0, 40) . ' ends the agent');
	delete $n1->{pid};
	pop @{ $n1->{conf} };
	like(agent_log($n1), qr/$error/, 'and it says why');
}

# A job has a whole GPU. Its labels are hostile: the words of a spec are not
# checked as those of options are.
start_agent($n1);
my $job = job('1xT4',
	'spec', {
		model        => qq(a"b\\c\nd\x{1}{} ) . 'e' x 100,
		'team/group' => "\x{3c0}" x 40,
		secret       => 'not shown' });
my $d = device_of($job);
my $name = metric("gpucredit_job_gpu_share{node=\"n1\",org=\"acme\",account=\"\",job=\"$job\"");
is($name->{value}, 1, 'the metrics have the job\'s share');
is( $name->{labels},
	qq(node="n1",org="acme",account="",job="$job",attempt="1",label_model="a\\"b\\\\c?d?{} ) . 'e' x 53
	  . qq(",label_team_group=") . "\xcf\x80" x 32 . qq(",gpu="$d"),
	'labels that the site allows are escaped and cut, others are left out');
is((stat($metrics))[2] & 07777, 0640, 'others may not read the file');
is(metric("gpucredit_gpu_temperature_celsius{node=\"n1\",gpu=\"$d\"")->{value}, 40, 'the metrics have a GPU\'s temperature');
uses($d, 50_000);
wait_for('the job has what its GPU used', 20, sub { joules($job) == 50 });
check_form();
finish($job);
is(energy($job), 50, 'its bill has the energy');

# Two jobs share a GPU.
my @half = map { job('0.5xT4', labels => { model => "llama-$_" }) } 1, 2;
$d = device_of($half[0]);
is(device_of($half[1]), $d, 'two jobs share a GPU');
like(metric("gpucredit_job_gpu_utilization_ratio{node=\"n1\",org=\"acme\",account=\"\",job=\"$half[1]\"")->{labels}, qr/,label_model="llama-2",gpu="$d"$/, 'the labels of options are labels of metrics');
is(value("gpucredit_job_gpu_utilization_ratio{node=\"n1\",org=\"acme\",account=\"\",job=\"$half[1]\""), 0.25, 'half of a GPU that is half busy');
uses($d, 80_000);
wait_for('each has half of what the GPU used', 20, sub { joules($half[0]) == 40 && joules($half[1]) == 40 });
finish($half[0]);
uses($d, 10_000);
wait_for('the other has half of what the GPU used later', 20, sub { joules($half[1]) == 45 });
finish($half[1]);
is(join(' ', map { energy($_) } @half), '40 45', 'what nobody has of a GPU is nobody\'s');

# The counter begins again, and jumps further than a GPU can.
$job = job('1xT4');
$d   = device_of($job);
uses($d, 20_000);
wait_for('the counter goes on', 20, sub { joules($job) == 20 });
$gpu{$d}{millijoules} = 3_000;
read_gpu($d);
is(joules($job), 23, 'a counter that went backwards has what was used since');
$gpu{$d}{millijoules} = 10**15;
read_gpu($d);
is(joules($job), 23, 'a counter that jumps is not believed');
uses($d, 7_000);
wait_for('then it counts on', 20, sub { joules($job) == 30 });

# The agent is killed, and the GPU goes on.
kill_agent($n1);
uses($d, 100_000);
start_agent($n1);
wait_for('another agent goes on with the sum', 20, sub { joules($job) > 30 });
cmp_ok(joules($job), '<=', 130, 'nothing is counted twice');
finish($job);
cmp_ok(energy($job), '>', 30, 'the bill has what was used before and after');
cmp_ok(energy($job), '<=', 130, 'and no more');

# without a counter, power is integrated; without sensors nothing is known
delete $gpu{$_}{millijoules} foreach 0 .. 2;
$gpu{$_}{milliwatts} = 100_000 foreach 0 .. 2;
write_gpus();
my @all = map { job('1xT4') } 0 .. 3;
my ($blind) = grep { device_of($_) == 3 } @all;
my ($lost)  = grep { device_of($_) == 0 } @all;
ok(defined $blind && defined $lost, 'each GPU has a job');
wait_for('power is integrated', 20, sub { joules($_) > 0 or return 0 foreach grep { $_ != $blind } @all; 1 });
is(joules($blind), -1, 'without sensors nothing is known');
is(metric("gpucredit_job_gpu_share{node=\"n1\",org=\"acme\",account=\"\",job=\"$blind\"")->{value}, 1, 'but the job is shown');

# a GPU is lost in the middle: what it used before stays
$gpu{0}{how} = 'lost';
write_gpus();
wait_for('the attempt ends with what its GPU used before', 20,
	sub { query($server, 'credit', "SELECT energy_j > 0 FROM gpucredit.attempt WHERE job = $lost AND attempt = 1 AND ended_at IS NOT NULL") eq 't' });
wait_for('the metrics say that the GPU is out of service', 20,
	sub { value("gpucredit_gpu_in_service{node=\"n1\",gpu=\"0\"") == 0 });
is(value('gpucredit_gpu_power_watts{node="n1",gpu="0"'), -1, 'nothing else is said of a GPU that is lost');
query($server, 'credit', "SELECT gpucredit.cancel('acme', $lost, 'lost')");
finish($_) foreach grep { $_ != $lost } @all;
is(energy($blind), '', 'a bill without sensors says nothing of energy');

end_agent($n1);
ok(!-e $metrics, 'an agent that ends removes the file');
end_cluster($cluster);
done_testing();

# The library's state, written at once.
sub write_gpus
{
	my $lines = "init 0\n";

	foreach my $i (sort keys %gpu)
	{
		my $g = $gpu{$i};

		$lines .= sprintf("gpu %d GPU-n1-%d 16384 1 0 50 0 %s\n", $i, $i, $g->{how});
		$lines .= sprintf("sensors %d %d %d %d 0\n", $i, $g->{celsius}, $g->{milliwatts}, $g->{millijoules} // -1) if defined $g->{celsius};
	}
	unlink "$lib/gpus.new";
	append_to_file("$lib/gpus.new", $lines);
	rename("$lib/gpus.new", "$lib/gpus") or die;
	return;
}

# A GPU uses some millijoules.
sub uses
{
	my ($device, $millijoules) = @_;

	$gpu{$device}{millijoules} += $millijoules;
	write_gpus();
	return;
}

# Waits until the metrics have a reading of a GPU's present state.
sub read_gpu
{
	my ($device) = @_;

	$gpu{$device}{celsius}++;
	write_gpus();
	wait_for('its state is read', 20, sub { value("gpucredit_gpu_temperature_celsius{node=\"n1\",gpu=\"$device\"") == $gpu{$device}{celsius} });
	return;
}

# Submits a job, and waits until its program runs and a reading of its GPU was
# counted for it.
sub job
{
	my ($request, %options) = @_;
	my $labels = JSON::PP->new->ascii->encode($options{labels} // {}) =~ s/'/''/gr;
	my %spec = defined $options{spec} ? (labels => $options{spec}) : ();
	my $id = submit($cluster, $request, 'echo up > $OUT/up; while [ ! -e $OUT/end ]; do sleep 0.05; done',
		no_lock => 1, %spec,
		args => ', max_retries => 0' . (defined $options{labels} ? qq(, options => '{"labels": $labels}') : ''));

	wait_for("job $id runs", 20, sub { -s "$cluster->{submitted}{$id}/up" });
	wait_for("job $id is in the metrics", 20, sub { metric("gpucredit_job_gpu_share{node=\"n1\",org=\"acme\",account=\"\",job=\"$id\"") });
	wait_for("the energy of job $id is counted", 20, sub { joules($id) >= 0 }) if device_of($id) != 3;
	return $id;
}

# Says what there was, if the test failed.
END
{
	diag(-e $metrics ? slurp_file($metrics) : 'no metrics', substr(agent_log($n1), -4000))
	  if defined $n1 && !Test::More->builder->is_passing;
}

sub finish
{
	my ($id) = @_;

	append_to_file("$cluster->{submitted}{$id}/end", '');
	wait_for_state($cluster, $id, 'completed');
	return;
}

sub device_of
{
	my ($id) = @_;

	return query($server, 'credit', "SELECT gpus::text FROM gpucredit.attempt_gpu WHERE job = $id AND ended_at IS NULL") =~ s/[{}]//gr;
}

sub energy
{
	my ($id) = @_;

	return query($server, 'credit', "SELECT energy_j FROM gpucredit.jobs WHERE job = $id");
}

# The first line of the metrics that begins so.
sub metric
{
	my ($begin) = @_;

	foreach my $line (split /\n/, -e $metrics ? slurp_file($metrics) : '')
	{
		next if index($line, $begin) != 0;
		$line =~ /\{(.*)\} (\S+)$/ or die "not a metric: $line";
		return { labels => $1, value => $2 };
	}
	return;
}

sub value
{
	my ($begin) = @_;
	my $found = metric($begin);

	return defined $found ? $found->{value} : -1;
}

# What the metrics say that a job has used, or -1.
sub joules { return value("gpucredit_job_energy_joules_total{node=\"n1\",org=\"acme\",account=\"\",job=\"$_[0]\"") }

# Each line of the file is one that Prometheus can read.
sub check_form
{
	my $label = qr/[a-z_]+="(?:[^"\\\x00-\x1f]|\\["\\n])*"/;
	my @bad = grep { !/^# (?:HELP|TYPE) gpucredit_[a-z_]+ .+$/ && !/^gpucredit_[a-z_]+\{$label(?:,$label)*\} [0-9.e+-]+$/ } split /\n/, slurp_file($metrics);

	is("@bad", '', 'each line has the form that Prometheus reads');
	return;
}
