# systemd.pl: from an empty Debian with gpucredit's packages to a job that is
# billed; then what only systemd and all cgroup controllers can show
#
# tools/vm runs it as root in a machine of its own.

use strict;
use warnings;
use Test::More;
use Time::HiRes qw(sleep time);

my $conf = '/etc/gpucredit';
my $out  = '/srv/out';

# Install.  tools/vm has installed the packages; PostgreSQL runs.
is(run(q{dpkg-query -W -f '${Status}\n' postgresql-15-gpucredit gpucredit-agent gpucredit-client | sort -u}),
	'install ok installed', 'the packages are installed');
is(run('systemctl is-enabled gpucredit-agent gpucredit-poke || true'),
	"disabled\ndisabled", 'nothing starts before it is configured');
run('useradd -m acme');
as_postgres('createdb credit');
sql(q{
	CREATE EXTENSION gpucredit;
	CREATE ROLE root LOGIN IN ROLE gpucredit_agent;
	CREATE ROLE poke LOGIN PASSWORD 'secret' IN ROLE gpucredit_agent;
	CREATE ROLE acme LOGIN IN ROLE gpucredit_tenant;
	SELECT gpucredit.create_account('acme'), gpucredit.issue('acme', '', 'paid', 100000),
		gpucredit.bind_tenant('acme', 'acme'), gpucredit.set_price('T4', 3600),
		gpucredit.register_node('default', 'n1', 'T4', 2, 16384)});
mkdir $_ foreach $conf, $out;
chmod 0777, $out;
put("$conf/devices", "GPU-0 16384 ok\nGPU-1 16384 ok\n");
put("$conf/agent.conf", <<END);
node = n1
database = dbname=credit
devices = file:$conf/devices
cgroup = /sys/fs/cgroup/gpucredit.slice/gpucredit-jobs.service/jobs
isolation = bwrap
first_uid = 200000
heartbeat_ms = 500
meter_ms = 1000
stop_grace_ms = 2000
most_processes = 64
address = 127.0.0.1
poke = 127.0.0.1:6819
END
put("$conf/poke.conf", "database = host=127.0.0.1 dbname=credit user=poke password=secret\n");
chmod 0600, "$conf/poke.conf";

# The first job.
is(run('systemctl enable --now gpucredit-agent gpucredit-poke 2>/dev/null; systemctl is-active gpucredit-agent gpucredit-jobs gpucredit-poke'),
	"active\nactive\nactive", 'the units run')
  or print_units_and_exit();
my $first = submit('', 'echo began; sleep 2');
ends($first, 'completed');
my ($billed, $elapsed) = split / /, row($first, q{billed || ' ' || date_part('epoch', elapsed)});
cmp_ok(abs($billed - $elapsed), '<', 0.01, "it is billed: $billed credits for $elapsed s");
cmp_ok($elapsed, '>=', 2, 'for the seconds that it ran');
is(run("runuser -u acme -- env GPUCREDIT_DATABASE=dbname=credit GPUCREDIT_ORG=acme gpucredit logs $first"),
	'began', 'and its output can be read');

# Limits.
my $job = submit('--mem=64M', q{cat /proc/self/oom_score_adj > } . "$out/adj" . q{; perl -e '$a = "x" x (512 << 20); sleep 60'});
ends($job, 'failed');
is(row($job, 'outcome'), 'out_of_memory', 'over its memory.max the kernel ends it');
is(slurp("$out/adj"), "0\n", 'it has not the protection that the agent has');
is(run('systemctl is-active gpucredit-jobs'), 'active', 'that stops no unit');
$job = submit('', q{perl -e 'fork or exec "bash", "-c", ":(){ :|:& };:; sleep 600"; sleep 3; exit 3'});
ends($job, 'failed');
is(row($job, 'exit_code'), 3, 'a fork bomb ends like any job');
$job = submit('', q{perl -e 'for (1 .. 200) { my $pid = fork; $refused++ if !defined $pid; sleep 600 if defined $pid && !$pid } exit($refused > 130 ? 4 : 5)'});
ends($job, 'failed');
is(row($job, 'exit_code'), 4, 'and has no more processes than pids.max');
is(row($job, q{(SELECT count(*) FROM gpucredit.node_strike)}), 0, 'and it is no strike of the node');

# The agent is restarted, killed, and installed anew while a job runs.
my %end = (
	restart => 'systemctl restart gpucredit-agent',
	kill    => 'systemctl kill -s KILL gpucredit-agent',
	upgrade => 'dpkg -i /srv/gpucredit-agent_*.deb',
	reload  => 'systemctl daemon-reexec');
$job = submit('', "echo begun >> $out/begun; while [ ! -e $out/enough ]; do sleep 0.1; done");
wait_for('it runs', sub { -e "$out/begun" });
foreach my $how (qw(restart kill upgrade reload))
{
	my $before = incarnation();

	run("$end{$how} >/dev/null 2>&1");
	wait_for("$how: the next agent speaks",
		sub { incarnation() > $before })
	  if $how ne 'reload';
	sleep(1);
	is(row($job, q{attempt || ' ' || coalesce(outcome, 'runs')}), '1 runs', "$how: the job goes on");
}
my $limited = submit('--mem=64M', q{perl -e '$a = "x" x (512 << 20); sleep 60'});
ends($limited, 'failed');
is(row($limited, 'outcome'), 'out_of_memory', 'the new agent sets limits, too');
put("$out/enough", '');
ends($job, 'completed');
is(slurp("$out/begun"), "begun\n", 'it ran once');
is(sql(qq{SELECT count(*) FROM gpucredit.entry WHERE job = $job AND target = 'spent'}), 1, 'and was billed once');

# The database is away: the job stands still, goes on, and can be killed.
sql(q{ALTER DATABASE credit SET gpucredit.node_suspect = '3s'; ALTER DATABASE credit SET gpucredit.node_lost = '6s'});
run('systemctl restart gpucredit-agent');
$job = submit('', "trap '' TERM; while :; do echo x >> $out/ticks; sleep 0.1; done");
wait_for('it runs', sub { -e "$out/ticks" });
my ($cgroup) = glob("/sys/fs/cgroup/gpucredit.slice/gpucredit-jobs.service/jobs/*-$job-1");
run('systemctl stop postgresql');
wait_for('without the database it is frozen', sub { slurp("$cgroup/cgroup.events") =~ /^frozen 1/m });
my $ticks = -s "$out/ticks";
sleep(1);
is(-s "$out/ticks", $ticks, 'and stands still');
run('systemctl start postgresql');
wait_for('it goes on', sub { -s "$out/ticks" > $ticks });
wait_for('the poke listens again',
	sub { sql(q{SELECT count(*) FROM pg_stat_activity WHERE usename = 'poke'}) >= 1 });
sql("SELECT gpucredit.cancel('acme', $job, 'c$job')");
ends($job, 'cancelled');
ok(!-e $cgroup, 'nothing of it is left');

# A stop of the unit that holds the jobs ends them, and the agent.
$job = submit('', "echo > $out/last; sleep 600");
wait_for('it runs', sub { -e "$out/last" });
run('systemctl stop gpucredit-jobs');
is(run("pgrep -f 'sleep [6]00' || true"), '', 'a stop of gpucredit-jobs ends what runs');
is(run('systemctl is-active gpucredit-agent || true'), 'inactive', 'and stops the agent');
run('systemctl start gpucredit-agent');
ends($job, 'failed');
is(row($job, 'exit_code'), 143, 'which then tells how it ended');

is(sql('SELECT count(*) FROM gpucredit.verify()'), 0, 'the books balance');
is(run('systemctl --failed --plain --no-legend | grep gpucredit || true'), '', 'no unit failed');
is(run(q{journalctl -b -o cat | grep -iE 'left-?over process|remains running' || true}), '', 'no process is left in the agent\'s unit');
diag(run('journalctl -b -u "gpucredit*" -o short-monotonic | tail -n 60'))
  unless Test::More->builder->is_passing;
done_testing();

# Nothing else can hold: say what the units said.
sub print_units_and_exit
{
	diag(run('journalctl -b -u "gpucredit-[ajp]*" -o cat; find /sys/fs/cgroup/gpucredit.slice -maxdepth 2 -type d'));
	done_testing();
	exit 1;
}

# What a command prints.
sub run
{
	my ($command) = @_;
	my $said = `$command`;

	chomp $said;
	return $said;
}

sub as_postgres
{
	my ($command) = @_;

	return run("cd /tmp && runuser -u postgres -- $command");
}

sub sql
{
	my ($sql) = @_;

	put('/tmp/sql', $sql);
	chmod 0644, '/tmp/sql';
	return as_postgres('psql -XAtq -v ON_ERROR_STOP=1 -d credit -f /tmp/sql');
}

sub put
{
	my ($path, $text) = @_;

	open(my $file, '>', $path) or die "$path: $!";
	print $file $text;
	close($file);
	return;
}

sub slurp
{
	my ($path) = @_;

	open(my $file, '<', $path) or return '';
	local $/;
	return scalar <$file>;
}

# A script with #SBATCH lines, as a tenant submits it.
sub submit
{
	my ($options, $command) = @_;

	put('/tmp/job.sh', "#!/bin/bash\n#SBATCH --gpus=T4:1 --time=10 --no-requeue --chdir=$out $options\n$command\n");
	chmod 0644, '/tmp/job.sh';
	my $job = run('cd /tmp && runuser -u acme -- env GPUCREDIT_DATABASE=dbname=credit GPUCREDIT_ORG=acme gpucredit submit --parsable /tmp/job.sh');
	die 'not submitted' unless $job =~ /^\d+$/;
	sql('SELECT count(*) FROM gpucredit.place()');
	return $job;
}

sub row
{
	my ($job, $columns) = @_;

	return sql("SELECT $columns FROM gpucredit.attempt WHERE org = 'acme' AND job = $job ORDER BY attempt DESC LIMIT 1");
}

sub incarnation
{
	return sql(q{SELECT about ->> 'incarnation' FROM gpucredit.node}) || 0;
}

sub wait_for
{
	my ($what, $code) = @_;
	my $until = time() + 300;	# an emulated machine is slow
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	while (time() < $until)
	{
		return pass($what) if $code->();
		sleep(0.2);
	}
	return fail($what);
}

sub ends
{
	my ($job, $state) = @_;
	my $was = '';
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	wait_for("job $job: $state", sub {
		sql('SELECT count(*) FROM gpucredit.place()');
		$was = sql("SELECT state FROM gpucredit.jobs WHERE org = 'acme' AND job = $job");
		return $was eq $state; }) or diag("it is $was");
	return;
}
