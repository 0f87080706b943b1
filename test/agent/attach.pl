# attach.pl: people open terminals in their running jobs and forward ports of
# them, through a relay, and have there what the job has and nothing more
#
# Long: it moves a few hundred MB through TLS

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use GpuCredit;
use GpuCreditAgent;
use IO::Pty;
use IO::Select;
use IO::Socket::INET;
use IPC::Run qw(run start);
use POSIX ();
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

# a read that never ends fails the test
$SIG{ALRM} = sub { die 'something took five minutes' };
alarm($ENV{GC_ALARM} || 300);

my $cluster = cluster('attach');
my $server  = $cluster->{server};
my $folder  = PostgreSQL::Test::Utils::tempdir_short();
my $n1      = add_node($cluster, 'n1', 4, conf => ['listen = yes']);
my $relay;
my $relay_port = free_port();

END { local $?; kill('KILL', $relay) if $relay }

query(
	$server, 'credit', q{
	CREATE ROLE alice LOGIN IN ROLE gpucredit_tenant;
	CREATE ROLE mallory LOGIN IN ROLE gpucredit_tenant;
	SELECT gpucredit.create_account('rival'), gpucredit.issue('rival', '', 'paid', 1000);
	SELECT gpucredit.bind_tenant('alice', 'acme'),
		gpucredit.bind_tenant('mallory', 'rival')});
$ENV{GPUCREDIT_ORG}      = 'acme';
$ENV{GPUCREDIT_DATABASE} = connection('alice');

# A job that serves a port, and writes which of its own it is.
my $serve = q{exec perl -MIO::Socket::INET -e '
	my $s = IO::Socket::INET->new(Listen => 64, LocalAddr => "127.0.0.1", ReuseAddr => 1) or die;
	open(my $f, ">", "$ENV{OUT}/port.new"); print $f $s->sockport; close $f;
	rename("$ENV{OUT}/port.new", "$ENV{OUT}/port");
	$SIG{CHLD} = "IGNORE";
	while (my $c = $s->accept) {
		if (fork) { close $c; next }
		my $line = <$c>;
		if ($line =~ /^send (\d+)/) { my $block = "x" x 65536; for (1 .. $1) { print $c $block or last } }
		elsif ($line =~ /^count/) { my $n = 0; while (read($c, my $b, 65536)) { $n += length $b } print $c "$n\n" }
		else { print $c "job $ENV{GPUCREDIT_ATTEMPT}: $line" }
		exit;
	}'};
my $job = submit($cluster, '1xT4', $serve);
wait_for('the job serves a port', 60, sub { -e "$cluster->{submitted}{$job}/port" });
wait_for_state($cluster, $job, 'running');
my $port = slurp_file("$cluster->{submitted}{$job}/port");

# Without a relay.
my ($status, $out, $err) = gpucredit('shell', $job);
is($status, 1, 'without a relay there is no terminal');
like($err, qr/no relay.*gpucredit-agent relay/s, 'without a relay the refusal says what the operator has to do');

# The relay makes its certificate itself; who connects knows it by its digest.
my $digest = start_relay();
wait_for('the relay is there', 30, sub { IO::Socket::INET->new("127.0.0.1:$relay_port") });
is((stat "$folder/relay.pem")[2] & 0777, 0600, 'nobody else reads the key of the relay');
set_relay("127.0.0.1:$relay_port " . ('0' x 64));
($status, $out, $err) = gpucredit('attach', $job, 'echo', 'wrong');
is($status, 1, 'another certificate than the named one is refused');
like($err, qr/certificate is not the one/, 'the refusal says that the certificate is not the named one');
set_relay("127.0.0.1:$relay_port");
($status, $out, $err) = gpucredit('attach', $job, 'echo', 'wrong');
like($err, qr/certificate is not trusted/, 'a certificate that no authority signed is refused');
set_relay("127.0.0.1:$relay_port " . ('0' x 64) . " $digest");

# A command in the job, its environment, and its exit status.
($status, $out, $err) = gpucredit('attach', $job, 'sh', '-c', 'echo "in $GPUCREDIT_ATTEMPT on $CUDA_VISIBLE_DEVICES, $TERM"; exit 3');
is($status, 3, 'the exit status is that of the command') or diag($err);
like($out, qr{^in acme/$job/1 on GPU-n1-\d, \S+\r\n\z}, 'the command has the environment of the job, and its devices');
($status, $out) = gpucredit('attach', $job, 'sh', '-c', 'kill -9 $$');
is($status, 137, 'the exit status is that of a command that was killed');
($status, $out) = gpucredit('attach', $job, 'no-such-program');
is($status, 127, 'the exit status is that of a command that does not exist');
($status, $out) = shell("echo \$((6*7))\nexit 5\n", 'shell', $job);
is($status, 5, 'a shell ends with the status of its exit command');
like($out, qr/42\r\n/, 'a shell executes the commands that it reads');
($status, $out) = gpucredit('attach', $job, 'sh', '-c', 'grep -E "^(CapEff|CapPrm|CapBnd|NoNewPrivs|Seccomp):" /proc/self/status');
like($out, qr/^CapPrm:\s0+\r\nCapEff:\s0+\r\n(?s:.*)NoNewPrivs:\s1\r\nSeccomp:\s2/m, 'the command has no capability, and the filter of the job');
($status, $out) = gpucredit('attach', $job, 'head', '-c', '3000000', '/dev/zero');
is(length $out, 3000000, 'all output arrives before the end');
is(query($server, 'credit', q{SELECT count(*), min(login), min(detail ->> 'kind'), min(detail ->> 'node')
	FROM gpucredit.audit WHERE operation = 'open_session' AND job = } . $job), '8|alice|terminal|n1',
	'the audit log has who opened each session, and where');

# Other people, and jobs that do not run.
$ENV{GPUCREDIT_DATABASE} = connection('mallory');
($status, $out, $err) = gpucredit('attach', $job, 'true');
like($err, qr/UC001/, 'another organisation does not exist');
like(refusal('mallory', "'rival', $job"), qr/UC301/, 'another organisation\'s job does not exist under one\'s own name');
$ENV{GPUCREDIT_DATABASE} = connection('alice');
my $waits = submit($cluster, '4xT4', 'true');
($status, $out, $err) = gpucredit('shell', $waits);
is($status, 1, 'a job that waits has no terminal');
like($err, qr/UC303.*not started/s, 'the refusal says that the job has not started');
query($server, 'credit', "SELECT gpucredit.cancel('acme', $waits, 'c$waits')");
($status, $out, $err) = gpucredit('attach', '--node', "n\e[2J", $job);
like($err, qr/22023/, 'a node that the job does not have is refused');
unlike($err, qr/\e/, 'the name of a refused node reaches no terminal as it is');

# Secrets.
my $secret = open_session($job);
my $first = meet("caller $secret");
is($first->{line}, 'joined', 'the secret of a session joins it');
is(meet("caller $secret")->{line}, 'refused this secret has been used', 'the secret of a session joins only once');
$first->{run}->kill_kill;
is(meet($_)->{line}, 'refused this is a relay of gpucredit', "\"$_\" is refused")
  foreach 'caller ' . 'g' x 64, 'caller ' . '0' x 63, 'agent', "root $secret", "caller $secret" . '0' x 200;
my $stored = query($server, 'credit', q{SELECT string_agg(s::text, ' ') FROM gpucredit.job_session s});
unlike($stored, qr/$secret/, 'the database does not have the secret');
# the digest, which a thief of the table would have, opens nothing as a caller
my $watched = start([ 'openssl', 's_client', '-quiet', '-connect', "127.0.0.1:$relay_port" ],
	'<', \"GPUCREDIT 1 caller @{[ '12' x 32 ]}\n", '>', \my $guessed, '2>', '/dev/null');

# A session that was opened in time but used when its attempt has ended, and one
# of which the agent hears only then.
my $unheard = submit($cluster, '1xT4', 'while [ ! -e $OUT/go ]; do sleep 0.05; done');
wait_for_state($cluster, $unheard, 'running');
kill_agent($n1);
$secret = open_session($unheard);
append_to_file("$cluster->{submitted}{$unheard}/go", '');
wait_for('its keeper ends', 60, sub { -e attempt_dir($n1, $unheard, 1) . '/gone' });
start_agent($n1);
my $deaf = meet("caller $secret");
wait_for('an agent that hears of a session when its attempt has ended refuses it', 60, sub { $deaf->{run}->pump_nb if $deaf->{run}->pumpable; $deaf->{out} =~ /the job has ended/ })
  or diag($deaf->{out});
$deaf->{run}->kill_kill;
wait_for_state($cluster, $unheard, 'completed');
my $short = submit($cluster, '1xT4', 'while [ ! -e $OUT/go ]; do sleep 0.05; done');
wait_for_state($cluster, $short, 'running');
$secret = open_session($short);
append_to_file("$cluster->{submitted}{$short}/go", '');
wait_for_state($cluster, $short, 'completed');
my $late = meet("caller $secret");
wait_for('a session of an ended attempt is refused', 60,
	sub { $late->{run}->pump_nb if $late->{run}->pumpable; $late->{out} =~ /the job has ended/ });
unlike($late->{out}, qr/\$/, 'no shell answers in a session of an ended attempt');
like(refusal('alice', "'acme', $short"), qr/UC303/, 'no session of an ended attempt can be opened');

# What a terminal starts is part of the job: it ends with it.
my $outliving = submit($cluster, '1xT4', 'while [ ! -e $OUT/go ]; do sleep 0.05; done');
wait_for_state($cluster, $outliving, 'running');
my ($typed, $seen) = ('', '');
my $left = start([ cli(), 'attach', $outliving, 'bash', '-c', '(setsid env -i sleep 86399 &) ; echo started; exec cat' ],
	'<', \$typed, '>', \$seen, '2>', \my $said);
wait_for('it started something that hides', 60, sub { $left->pump_nb; $seen =~ /started/ });
is(scalar(processes_of("sleep\0" . '86399')), 1, 'the hidden process of the terminal runs');
append_to_file("$cluster->{submitted}{$outliving}/go", '');
wait_for('nothing outlives the job', 60, sub { !processes_of("sleep\0" . '86399') });
wait_for_state($cluster, $outliving, 'completed');
$left->finish;
is($left->result(0), 255, 'the terminal ends with the job');
like($said, qr/the job is over/, 'the terminal that ends with the job says so');
bill_is_fair($cluster, $outliving, 1);

# The agent ends: so do its sessions; the job goes on.
$seen = '';
$left = start([ cli(), 'attach', $job, 'sh', '-c', 'echo started; exec cat' ], '<', \$typed, '>', \$seen, '2>', \$said);
wait_for('another one', 60, sub { $left->pump_nb; $seen =~ /started/ });
kill_agent($n1);
wait_for('the agent\'s end ends it', 60, sub { $left->pump_nb if $left->pumpable; !$left->pumpable });
$left->finish;
is($left->result(0), 255, 'a terminal ends with its agent as a lost connection');
start_agent($n1);
wait_for('the next agent serves the job', 60, sub { ($status, $out) = gpucredit('attach', $job, 'echo', 'again'); $out eq "again\r\n" });
wait_for('no session counts as open that is not', 20,
	sub { query($server, 'credit', 'SELECT count(*) FROM gpucredit.job_session WHERE accepted_at IS NOT NULL AND ended_at IS NULL') eq '0' });

# A real terminal: its size, the keys, the way out.
my $pty = IO::Pty->new;
$pty->slave->set_winsize(33, 101);
my $pid = fork();
if ($pid == 0)
{
	$pty->make_slave_controlling_terminal;
	my $slave = $pty->slave;
	open(STDIN, '<&', $slave); open(STDOUT, '>&', $slave); open(STDERR, '>&', $slave);
	exec(cli(), 'attach', $job, 'sh', '-c', 'stty size; stty -echo; echo ready; exec cat') or POSIX::_exit(127);
}
$seen = '';
wait_for('the terminal has the user\'s size', 60, sub { read_pty() =~ /33 101\r\n.*ready/s });
$pty->slave->set_winsize(20, 60);
my @ms;
for my $i (1 .. 60)
{
	my $began = time();
	my $text = "key $i";

	print $pty "$text\r";
	$pty->flush;
	$seen = '';
	sleep(0.0005) until read_pty() =~ /\Q$text\E\r/ || time() - $began > 60;
	push @ms, 1000 * (time() - $began);
}
@ms = sort { $a <=> $b } @ms;
diag(sprintf('a key is echoed after %.1f ms (median), %.1f ms at most', $ms[30], $ms[-1]));
cmp_ok($ms[30], '<', 1000, 'keys are echoed');
print $pty "~.";
$pty->flush;
wait_for('"~." closes the terminal', 60, sub { read_pty(); waitpid($pid, POSIX::WNOHANG()) == $pid });
is($? >> 8, 0, 'a terminal that the user closes is no failure');
is(job_state($cluster, $job), 'running', 'the job goes on when a terminal is closed');

# Forwarding: each connection by itself.
my ($forward, $local) = forward($job, $port);
is(ask($local, "hello\n"), "job acme/$job/1: hello\n", 'a port of the job is at the user\'s machine');
my @connections = map { reach($local) } 1 .. 40;
print { $connections[$_] } "number $_\n" foreach 0 .. $#connections;
is(join('', map { scalar readline($_) } @connections), join('', map { "job acme/$job/1: number $_\n" } 0 .. $#connections),
	'forty connections at once reach the job, each its own');
# one that nobody reads holds up no other
my $stuck = reach($local);
print $stuck "send 100000\n";
sleep(0.5);
is(ask($local, "beside\n"), "job acme/$job/1: beside\n", 'a reader that does not read holds up no other');
my $rss = resident($forward->{KIDS}[0]{PID});
cmp_ok($rss, '<', 80 * 1024, "a reader that does not read costs the command no memory ($rss kB)");
is(query($server, 'credit', q{SELECT state FROM gpucredit.nodes WHERE node = 'n1'}), 'ready', 'a reader that does not read holds up no heartbeats of the node');
close($stuck);
my $megabytes = $ENV{GC_FORWARD_MB} || 128;
my $began = time();
my $bulk = reach($local);
print $bulk 'send ', $megabytes * 16, "\n";
my $bytes = 0;
while (my $n = sysread($bulk, my $block, 1 << 20)) { $bytes += $n }
diag(sprintf('%.0f MB/s through a forward', $bytes / 1e6 / (time() - $began)));
is($bytes, $megabytes << 20, 'every byte of a large answer arrives');
$bulk = reach($local);
print $bulk "count\n", 'y' x (8 << 20);
$bulk->shutdown(1);
is(scalar readline($bulk), (8 << 20) . "\n", 'every byte of a large request arrives, and its end');
$forward->kill_kill;

# Ports that are not the job's, on the address that all jobs of this node share.
my $other = submit($cluster, '1xT4', $serve, org => 'acme');
wait_for('another job serves a port', 60, sub { -e "$cluster->{submitted}{$other}/port" });
foreach ([ 'another job', slurp_file("$cluster->{submitted}{$other}/port") ], [ 'the database', $server->port ], [ 'the relay', $relay_port ])
{
	my ($whose, $number) = @$_;

	($forward, $local) = forward($job, $number);
	is(ask($local, "hello\n"), '', "the port of $whose is not forwarded");
	wait_for('the refusal of a port says that no program of the job listens', 60, sub { $forward->pump_nb; $cluster->{said} =~ /no program of the job listens/ });
	$forward->kill_kill;
}

# How many there may be.
query($server, 'credit', qq{INSERT INTO gpucredit.job_session (digest, org, job, attempt, node, kind, relay, opened_at, accepted_at)
	SELECT sha256(convert_to(n::text, 'UTF8')), 'acme', $job, 1, 'gone', 'terminal', 'r', gpucredit.now(), gpucredit.now()
	FROM generate_series(1, 64) n});
like(refusal('alice', "'acme', $job"), qr/53400/, 'an organisation has so many sessions and no more');
query($server, 'credit', q{UPDATE gpucredit.job_session SET ended_at = gpucredit.now() WHERE node = 'gone'});
($status, $out) = gpucredit('attach', $job, 'echo', 'room');
is($out, "room\r\n", 'once sessions have ended there is room for others');
cmp_ok(query($server, 'credit', 'SELECT count(*) FROM gpucredit.job_session'), '<', 10, 'the rows of ended sessions are removed');

# A notebook: jupyter-notebook as it is called, in a few lines.
mkdir "$folder/bin";
write_program('jupyter-notebook', <<'END');
#!/usr/bin/perl
use IO::Socket::INET;
my ($port) = map { /^--port=(\d+)/ ? $1 : () } @ARGV;
my $s = IO::Socket::INET->new(Listen => 8, LocalAddr => '127.0.0.1', LocalPort => $port, ReuseAddr => 1) or die;
while (my $c = $s->accept) {
	my ($token) = <$c> =~ /token=(\w+)/;
	print $c 'HTTP/1.0 ', $token eq $ENV{JUPYTER_TOKEN} ? "200 OK\r\n\r\nyour notebook" : "403 Forbidden\r\n\r\n";
	close $c;
}
END
my %notebook = (url => '', said => '');
{
	local $ENV{PATH} = "$folder/bin:$ENV{PATH}";
	$notebook{run} = start([ cli(), 'notebook', '--gpus=T4:1', '--time=10', '--chdir=/tmp', '--output=/dev/null' ],
		'<', \'', '>', \$notebook{url}, '2>', \$notebook{said});
	wait_for('the notebook has an address', 60, sub { place($cluster); $notebook{run}->pump_nb; $notebook{url} =~ /\n/ }) or diag($notebook{said});
}
my ($notebook_job) = $notebook{said} =~ /job (\d+)/;
my ($at, $token) = $notebook{url} =~ m{^http://127\.0\.0\.1:(\d+)/\?token=(\w{32})\n$};
is(query($server, 'credit', "SELECT tier || ' ' || request FROM gpucredit.jobs WHERE org = 'acme' AND job = $notebook_job"),
	'interactive 1xT4', 'a notebook is a job in tier interactive, with the options of its user');
my $page = '';
wait_for('the notebook answers', 60, sub { $page = eval { ask($at, "GET /?token=$token\n") } // '' }) or diag("$notebook{url}$notebook{said}");
like($page, qr/200 OK/, 'the address with its token opens it');
like(ask($at, "GET /?token=" . ('0' x 32) . "\n"), qr/403/, 'another token does not');
$notebook{run}->signal('INT');
finish_quietly($notebook{run});
is(job_state($cluster, $notebook_job), 'running', 'interrupting the command leaves the notebook');
query($server, 'credit', "SELECT gpucredit.cancel('acme', $notebook_job, 'notebook')");
wait_for_state($cluster, $notebook_job, 'cancelled');
$notebook{run} = start([ cli(), 'notebook', '--gpus=T4:1', '--time=10', '--chdir=/tmp', '--output=/dev/null', "--error=$folder/notebook.err" ],
	'<', \'', '>', '/dev/null', '2>', \$notebook{said});
wait_for('a notebook on a node without the program ends', 180, sub { place($cluster); $notebook{run}->pump_nb if $notebook{run}->pumpable; !$notebook{run}->pumpable });
$notebook{run}->finish;
is($notebook{run}->result(0), 1, 'a notebook on a node without the program has no address');
# Which of these it says depends on how far the command had come.
like($notebook{said}, qr/ended before it could be reached|UC303|the job has ended|the job is over/, 'the notebook command says that the job is over');
like(slurp_file("$folder/notebook.err"), qr/package jupyter-notebook/, 'the job says what is missing');

$watched->kill_kill;
ok(!$guessed, 'a guessed secret meets nobody');
query($server, 'credit', "SELECT gpucredit.cancel('acme', $_, 'c$_')") foreach $job, $other;
wait_for_state($cluster, $_, 'cancelled') foreach $job, $other;
end_cluster($cluster);
done_testing();

sub write_program
{
	my ($name, $text) = @_;

	open(my $file, '>', "$folder/bin/$name") or die "could not write $name: $!\n";
	print $file $text;
	close($file);
	chmod(0755, "$folder/bin/$name");
	return;
}

sub finish_quietly
{
	my ($run) = @_;

	eval { $run->finish };
	return;
}

sub free_port
{
	my $socket = IO::Socket::INET->new(Listen => 1, LocalAddr => '127.0.0.1');

	return $socket->sockport;
}

sub start_relay
{
	my $program = ($ENV{GC_AGENT_BIN} || "$FindBin::RealBin/../../agent") . '/gpucredit-agent';

	$relay = fork();
	if ($relay == 0)
	{
		open(STDERR, '>', "$folder/relay.log");
		exec($program, 'relay', "127.0.0.1:$relay_port", "$folder/relay.pem") or POSIX::_exit(127);
	}
	wait_for('the relay starts', 60, sub { -e "$folder/relay.log" && slurp_file("$folder/relay.log") =~ /digest=/ });
	return slurp_file("$folder/relay.log") =~ /digest=([0-9a-f]{64})/ ? $1 : '';
}

sub set_relay
{
	my ($text) = @_;

	query($server, 'credit', "ALTER DATABASE credit SET gpucredit.relay = '$text'");
	return;
}

sub connection
{
	my ($user) = @_;

	return sprintf('host=%s port=%s dbname=credit user=%s', $server->host, $server->port, $user);
}

sub cli
{
	return ($ENV{GC_AGENT_BIN} || "$FindBin::RealBin/../../agent") . '/../cli/gpucredit';
}

sub shell
{
	my ($input, @arguments) = @_;
	my ($out, $err) = ('', '');

	run([ cli(), @arguments ], '<', \$input, '>', \$out, '2>', \$err);
	return ($? >> 8, $out, $err);
}

sub gpucredit { return shell('', @_) }

sub psql
{
	my ($user, $sql) = @_;
	my ($out, $err) = ('', '');

	run([ 'psql', '-XAtq', '-v', 'VERBOSITY=verbose', '-d', connection($user), '-c', $sql ], '<', \'', '>', \$out, '2>', \$err);
	chomp $out;
	return ($out, $err);
}

sub refusal
{
	my ($user, $arguments) = @_;

	return (psql($user, "SELECT gpucredit.open_session($arguments)"))[1];
}

sub open_session
{
	my ($job) = @_;

	return (psql('alice', "SELECT secret FROM gpucredit.open_session('acme', $job)"))[0];
}

# Speaks to the relay as somebody with a tool of his own.
sub meet
{
	my ($line) = @_;
	my $self = { out => '', in => "GPUCREDIT 1 $line\n" };

	$self->{run} = start([ 'openssl', 's_client', '-quiet', '-connect', "127.0.0.1:$relay_port" ],
		'<', \$self->{in}, '>', \$self->{out}, '2>', '/dev/null');
	my $until = time() + 90;
	while (time() < $until && $self->{out} !~ /\n/ && $self->{run}->pumpable)
	{
		$self->{run}->pump_nb;
		sleep(0.02);
	}
	($self->{line}) = $self->{out} =~ /^(.*)\n/;
	$self->{line} //= '(nothing)';
	return $self;
}

sub read_pty
{
	my $select = IO::Select->new($pty);

	while ($select->can_read(0))
	{
		sysread($pty, my $more, 65536) or last;
		$seen .= $more;
	}
	return $seen;
}

sub forward
{
	my ($job, $port) = @_;

	$cluster->{said} = '';
	my $run = start([ cli(), 'forward', $job, "0:$port" ], '<', \'', '>', '/dev/null', '2>', \$cluster->{said});
	wait_for('forwarding', 60, sub { $run->pump_nb; $cluster->{said} =~ /127\.0\.0\.1:\d+/ });
	return ($run, $cluster->{said} =~ /127\.0\.0\.1:(\d+)/);
}

sub reach
{
	my ($port) = @_;
	my $socket = IO::Socket::INET->new(PeerAddr => "127.0.0.1:$port", Timeout => 60) or die "port $port: $!";

	$socket->autoflush(1);
	return $socket;
}

sub ask
{
	my ($port, $line) = @_;
	my $socket = reach($port);

	print $socket $line;
	return readline($socket) // '';
}

sub resident
{
	my ($pid) = @_;

	return slurp_file("/proc/$pid/status") =~ /VmRSS:\s+(\d+)/ ? $1 : 0;
}
