# interactive.pl: salloc and srun outside of a job: a job for as long as
# somebody is there, and no longer

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use GpuCredit;
use GpuCreditAgent;
use IO::Pty;
use IO::Socket::INET;
use IPC::Run qw(run start);
use POSIX ();
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

# a command that never ends fails the test
$SIG{ALRM} = sub { die 'something took ten minutes' };
alarm($ENV{GC_ALARM} || 600);

my $cluster = cluster('interactive');
my $server  = $cluster->{server};
my $folder  = PostgreSQL::Test::Utils::tempdir_short();
my @nodes   = map {
	add_node($cluster, "n$_", 2, conf => [ "address = 127.0.0.$_", 'listen = yes' ])
} 1 .. 2;
wait_for_addresses($cluster, 2);
my $relay = add_relay();

END { local $?; kill('KILL', $relay) if $relay }

query($server, 'credit', q{
	CREATE ROLE alice LOGIN IN ROLE gpucredit_tenant;
	SELECT gpucredit.bind_tenant('alice', 'acme')});
$ENV{GPUCREDIT_ORG}      = 'acme';
$ENV{GPUCREDIT_DATABASE} = sprintf('host=%s port=%s dbname=credit user=alice', $server->host, $server->port);
my @small = ('--gpus=T4:1', '--time=10', '--chdir=/tmp');

# srun: the command is a step, with its output, its code and its tasks
my ($status, $out, $err, $job) = serve('srun', @small, 'bash', '-c', 'echo "out $SLURM_PROCID"; echo err >&2; exit 7');
is($out, "out 0\n", 'what a command prints is printed');
like($err, qr/^err$/m, 'on both descriptors');
is($status, 7, 'its exit code is srun\'s');
is(job_row($cluster, $job, "outcome || ' ' || attempt"), 'failed 1', 'and the job\'s, which ran once');
is(query($server, 'credit', "SELECT name FROM gpucredit.jobs WHERE org = 'acme' AND job = $job"), 'bash', 'it has the command\'s name');
($status, $out, $err) = serve('srun', '--gpus=T4:4', '-N', '2', '--ntasks-per-node=2', '-l', '--time=10', '--chdir=/tmp', '-J', 'tasks',
	'sh', '-c', 'echo "$SLURMD_NODENAME $1"', 'sh', q{a 'quoted' "word"});
is(join('', sort split /^/, $out), join('', map { "$_: n" . ($_ < 2 ? 1 : 2) . qq{ a 'quoted' "word"\n} } 0 .. 3),
	'tasks run on all nodes, their lines have their numbers, and arguments arrive as they were');
is($status, 0, 'and all succeeded');
($status, $out, $err) = serve('srun', @small, "-o$folder/it's \$(id) %t.out", 'echo', 'kept');
is(slurp_file("$folder/it's \$(id) 0.out"), "kept\n", 'an option is no text of a shell');

# Standard input that is a file goes to all tasks, whatever its bytes are; a pipe does not.
my $warned;
my $bytes = join('', map { chr($_ % 256) } 0 .. 70_000) . "INPUT\n\$(id)'\"";
append_to_file("$folder/input", $bytes);
append_to_file("$folder/empty", '');
is(serve_file("$folder/input", '-n', '2', '--gpus=T4:2', "-o$folder/%t.got", 'cat'), '0', 'srun COMMAND < FILE');
ok(slurp_file("$folder/$_.got") eq $bytes, "task $_ has read the file") foreach 0, 1;
is(serve_file("$folder/input", '--gpus=T4:1', 'sh', '-c', 'exit 4'), '4', 'a command need not read it');
is(serve_file("$folder/empty", '--gpus=T4:1', 'sh', '-c', '! read -r line'), '0', 'an empty file is empty');
is(serve_file("$folder/empty", '--gpus=T4:1', "--input=$folder/input", "-o$folder/named.got", 'cat'), '0', '--input prevails');
ok(slurp_file("$folder/named.got") eq $bytes, 'and is what the task reads');
pipe(my $reads, my $writes) or die $!;
syswrite($writes, "ignored\n");
is(serve_file($reads, '--gpus=T4:1', "-o$folder/pipe.got", 'cat'), '0', 'srun does not wait for the end of a pipe');
is(slurp_file("$folder/pipe.got"), '', 'and its command does not read it');
like($warned, qr/^srun: warning: standard input is a pipe, which the command does not get; /m, 'and srun says so');

# srun is interrupted: the job is cancelled
my $run = begin('srun', @small, 'sh', '-c', 'echo ready; sleep 600');
wait_for('it runs', 60, sub { step($run); $run->{out} =~ /ready/ });
$run->{run}->signal('INT');
wait_for('an interrupted srun ends', 60, sub { step($run); !$run->{run}->pumpable });
eval { $run->{run}->finish };
is($run->{run}->full_result(0) >> 8, 130, '... as interrupted');
wait_for_state($cluster, last_job(), 'cancelled');

# srun is interrupted before its job could start
query($server, 'credit', "SELECT gpucredit.drain('n$_', 'full') FROM generate_series(1, 1)") foreach 1, 2;
$run = begin('srun', @small, 'true');
wait_for('it says that the job waits', 60, sub { step($run); $run->{err} =~ /job \d+ queued and waiting for resources/ });
$run->{run}->signal('TERM');
wait_for('it ends', 60, sub { step($run); !$run->{run}->pumpable });
eval { $run->{run}->finish };
wait_for_state($cluster, last_job(), 'cancelled');
query($server, 'credit', "SELECT gpucredit.resume('n$_')") foreach 1, 2;

# srun --pty: a terminal, and the command's exit code
($status, $out, $err, $job) = serve('srun', @small, '--pty', 'sh', '-c', 'tty >/dev/null && echo "at a terminal of $SLURM_JOB_ID"; exit 5');
is($out, "at a terminal of $job\r\n", 'srun --pty has a terminal within its job');
is($status, 5, 'and the command\'s exit code');
wait_for_state($cluster, $job, 'completed');
bill_is_fair($cluster, $job, 1);

# salloc: a shell on the first node, in which srun starts steps on all
$run = begin('salloc', '--gpus=T4:2', '-N', '2', '--time=10', '--chdir=/tmp');
wait_for('a shell asks', 60, sub { step($run); $run->{out} =~ /[\$#] $/ });
$run->{in} .= "srun -n 2 sh -c 'echo task of \$SLURMD_NODENAME' < /dev/null\nexit 3\n";
wait_for('the session ends with its shell', 60, sub { step($run); !$run->{run}->pumpable }) or diag($run->{out}, $run->{err});
eval { $run->{run}->finish };
is(join(' ', sort $run->{out} =~ /task of (n\d)\r/g), 'n1 n2', 'a shell of salloc starts steps on all nodes of its job');
is($run->{run}->full_result(0) >> 8, 3, 'the shell\'s exit code is salloc\'s');
like($run->{err}, qr/^salloc: Granted job allocation \d+\n.*^salloc: Relinquishing job allocation \d+\n/ms, 'which says what it got and gave back');
is(job_state($cluster, last_job()), 'completed', 'the job is over when salloc is');

# Who is gone pays no more: a client that is killed, and a process that hides
$run = begin('salloc', @small, 'sh', '-c', '(setsid sleep 86397 &); echo ready; exec sleep 600');
wait_for('a session begins', 60, sub { step($run); $run->{out} =~ /ready/ });
kill('KILL', $run->{run}{KIDS}[0]{PID}, processes_of("--database=$ENV{GPUCREDIT_DATABASE}"));
wait_for_state($cluster, last_job(), 'completed', 60);
wait_for('nothing of it is left', 60, sub { !processes_of("sleep\0" . '86397') });
eval { $run->{run}->kill_kill };

# --no-shell: the job stays until it is cancelled
($status, $out, $err, $job) = serve('salloc', @small, '--no-shell');
is($status, 0, 'salloc --no-shell ends once the job runs');
is(job_state($cluster, $job), 'running', 'and leaves it');
query($server, 'credit', "SELECT gpucredit.cancel('acme', $job, 'c$job')");
wait_for_state($cluster, $job, 'cancelled');

# What cannot be is refused before anything is submitted.
my $jobs = query($server, 'credit', 'SELECT count(*) FROM gpucredit.job');
foreach my $bad ([ 'srun', [], 'no command' ], [ 'srun', [ '-a', '1-2', 'true' ], 'array' ], [ 'srun', [ '--multi-prog', 'x' ], 'multi-prog' ],
	[ 'salloc', [ '--array=1-2' ], 'array' ], [ 'srun', [ '--exclusive', 'true' ], 'exclusive' ], [ 'salloc', [ '-t' ], 'takes a value' ])
{
	my ($command, $arguments, $says) = @$bad;

	($out, $err) = ('', '');
	run([ cli($command), @$arguments ], '<', \'', '>', \$out, '2>', \$err);
	is($? >> 8, 2, "$command @$arguments is refused");
	like($err, qr/\Q$says\E/, '... which says why');
}
truncate_to("$folder/input", 700 * 1024 + 1);
($out, $err) = ('', '');
run([ cli('srun'), 'cat' ], '<', "$folder/input", '>', \$out, '2>', \$err);
is($? >> 8, 2, 'a file that is too large is refused');
like($err, qr/^srun: standard input has more than 716800 bytes: copy the file .* name it by --input$/, 'with what to do instead');
is(query($server, 'credit', 'SELECT count(*) FROM gpucredit.job'), $jobs, 'and nothing was submitted');

end_cluster($cluster);
done_testing();

# Starts a command; step() has cycles run and reads what it says.
sub begin
{
	my ($command, @arguments) = @_;
	my $self = { in => '', out => '', err => '' };

	$self->{run} = start([ cli($command), @arguments ], '<', \$self->{in}, '>', \$self->{out}, '2>', \$self->{err});
	return $self;
}

sub step
{
	my ($self) = @_;

	place($cluster);
	$self->{run}->pump_nb if $self->{run}->pumpable;
	return;
}

# Runs a command to its end: its exit status, what it printed, and its job
sub serve
{
	my $self = begin(@_);

	wait_for("$_[0] ends", 60, sub { step($self); !$self->{run}->pumpable }) or diag($self->{err});
	eval { $self->{run}->finish };
	return ($self->{run}->full_result(0) >> 8, $self->{out}, $self->{err}, last_job());
}

# Runs srun with a file as its standard input: its exit status; $warned is then what it said
sub serve_file
{
	my ($file, @arguments) = @_;
	my $self = { out => '', err => '' };

	$self->{run} = start([ cli('srun'), '--time=10', '--chdir=/tmp', @arguments ], '<', $file, '>', \$self->{out}, '2>', \$self->{err});
	wait_for('srun ends', 60, sub { step($self); !$self->{run}->pumpable }) or diag($self->{err});
	eval { $self->{run}->finish };
	$warned = $self->{err};
	return $self->{run}->full_result(0) >> 8;
}

sub truncate_to
{
	my ($file, $size) = @_;

	truncate($file, $size) or die $!;
	return;
}

sub last_job { return query($server, 'credit', 'SELECT max(job) FROM gpucredit.job') }

sub cli
{
	return ($ENV{GC_AGENT_BIN} || "$FindBin::RealBin/../../agent") . "/../cli/$_[0]";
}

# Starts a relay, names it to the database, and returns its process.
sub add_relay
{
	my $port = PostgreSQL::Test::Cluster::get_free_port();
	my $log  = "$folder/relay.log";
	my $pid  = fork();

	if ($pid == 0)
	{
		open(STDERR, '>', $log);
		exec(cli('../agent/gpucredit-agent'), 'relay', "127.0.0.1:$port", "$folder/relay.pem") or POSIX::_exit(127);
	}
	wait_for('the relay is there', 60, sub { -e $log && slurp_file($log) =~ /digest=/ && IO::Socket::INET->new("127.0.0.1:$port") });
	my ($digest) = slurp_file($log) =~ /digest=([0-9a-f]{64})/;
	query($server, 'credit', "ALTER DATABASE credit SET gpucredit.relay = '127.0.0.1:$port $digest'");
	return $pid;
}
