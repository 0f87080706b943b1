# logs.pl: users read the output of jobs that they may see, from the job's
# node: while it runs, after its end, with the middle overwritten, and from the
# database or the site's folder when the node is gone

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use GpuCredit;
use GpuCreditAgent;
use IPC::Run qw(run start);
use POSIX ();
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my $cluster = cluster('logs', "gpucredit.node_suspect = '3s'");
my $server  = $cluster->{server};
my $n1      = add_node($cluster, 'n1', 4);

query(
	$server, 'credit', q{
	CREATE ROLE alice LOGIN IN ROLE gpucredit_tenant;
	CREATE ROLE mallory LOGIN IN ROLE gpucredit_tenant;
	SELECT gpucredit.create_account('rival');
	SELECT gpucredit.bind_tenant('alice', 'acme'),
		gpucredit.bind_tenant('mallory', 'rival')});
$ENV{GPUCREDIT_ORG}      = 'acme';
$ENV{GPUCREDIT_DATABASE} = connection('alice');

# A job that has not run has no output.
my $waits = submit($cluster, '4xT4', 'sleep 60', no_lock => 1);
my $later = submit($cluster, '4xT4', 'true');
wait_for_state($cluster, $waits, 'running');
my ($status, $out, $err) = logs($later);
is($status, 1, 'what has not started has no output');
like($err, qr/job $later has not started/, 'logs of a job that has not started says so');
query($server, 'credit', "SELECT gpucredit.cancel('acme', $_, 'c$_')") foreach $later, $waits;
wait_for_state($cluster, $waits, 'cancelled');

# Following a running job: each line as it comes, then the end.
my $job = submit($cluster, '1xT4',
	'echo one; echo oops >&2; touch $OUT/one; while [ ! -e $OUT/go ]; do sleep 0.05; done; printf "two\0\377\n"; sleep 0.2; echo three');
my $folder = $cluster->{submitted}{$job};
wait_for('it wrote', 10, sub { -e "$folder/one" });
my ($followed, $errors) = ('', '');
my $follow = start [ cli(), 'logs', '-f', $job ], '<', \'', '>', \$followed, '2>', \$errors;
wait_for('what it wrote so far', 10,
	sub { $follow->pump_nb; $followed eq "one\n" && $errors eq "oops\n" });
($status, $out, $err) = logs($job);
is("$status $out$err", "0 one\noops\n", 'logs without -f ends with what there is');
($status, $out) = logs('--stdout', '--from', 2, $job);
is($out, "e\n", 'from a byte on');
append_to_file("$folder/go", '');
my $written = time();
wait_for('the next line', 10, sub { $follow->pump_nb; $followed =~ /two/ });
diag(sprintf('a line is seen after %.0f ms', 1000 * (time() - $written)));
wait_for_state($cluster, $job, 'completed');
$follow->finish;
is($follow->result(0), 0, 'logs -f ends with the job');
is($followed, "one\ntwo\0\377\nthree\n", 'logs -f has every byte of stdout once');
is($errors, "oops\n", 'logs -f has stderr, too');

# After the job's end and a restart of the agent, the node still has the
# output.
kill_agent($n1);
start_agent($n1);
($status, $out, $err) = logs('--tail', 6, '--stdout', $job);
is("$status $out", "0 three\n", 'logs --tail has the end of a job that is over, after a restart of the agent') or diag($err);
($status, $out, $err) = logs('--attempt', 2, $job);
is($status, 1, 'an attempt that is not');
like($err, qr/UC302/, 'there is none');

# More output than the node keeps: the beginning, the last part, and how much
# is lost.
my $big = submit($cluster, '1xT4', 'seq -f "%015.0f" 4600000');
wait_for_state($cluster, $big, 'completed', 60);
($status, $out) = capture("--stdout $big", 1200000);
is(substr($out, 0, 1 << 20), join('', map { sprintf("%015d\n", $_) } 1 .. 65536), 'the head is whole');
like($cluster->{err}, qr/^gpucredit: \d+ bytes of stdout are gone/m, 'what is overwritten is counted');
my ($gone) = $cluster->{err} =~ /(\d+) bytes/;
is($gone, 4600000 * 16 - (1 << 20) - (64 << 20), 'what is overwritten is counted to the byte');
is(substr($out, 1 << 20, 16), sprintf("%015d\n", $gone / 16 + 65537), 'the output goes on behind what is overwritten');
my $began = time();
($status, $out) = logs('--stdout', '--tail', 4 << 20, $big);
ok($out eq join('', map { sprintf("%015d\n", $_) } 4600000 - (4 << 16) + 1 .. 4600000), 'the tail is whole');
diag(sprintf('4 MiB are read in %.1f s', time() - $began));
cmp_ok(query($server, 'credit', 'SELECT count(*) FROM gpucredit.log_wish'), '<=', 32, 'little of it is in the database');

# Output written elsewhere, because the job asked for it.
my $elsewhere = submit($cluster, '1xT4', 'echo hidden; echo seen >&2', output => "$folder/elsewhere", error => "$folder/%j.err");
wait_for_state($cluster, $elsewhere, 'completed');
($status, $out, $err) = logs($elsewhere);
is("$status$out", '1', 'logs of a job whose output goes to a file is refused');
like($err, qr{stdout is written to \Q$folder\E/elsewhere on node n1}, 'logs names the file and the node of the output');

# Its next attempt is followed as well.
my $again = submit($cluster, '1xT4', 'if [ -e $OUT/again ]; then echo second; else touch $OUT/again; echo first; while [ ! -e $OUT/go ]; do sleep 0.05; done; echo CUDA error >&2; exit 1; fi',
	args => ', max_retries => 1');
($followed, $errors) = ('', '');
$follow = start [ cli(), 'logs', '-f', $again ], '<', \'', '>', \$followed, '2>', \$errors;
wait_for('the first attempt', 20, sub { $follow->pump_nb; $followed eq "first\n" });
append_to_file("$cluster->{submitted}{$again}/go", '');
wait_for_state($cluster, $again, 'completed');
$follow->finish;
is($followed, "first\nsecond\n", 'logs -f has the output of both attempts');
like($errors, qr/attempt 2/, 'logs -f says where the second attempt begins');
($status, $out) = logs('--attempt', 1, $again);
is($out, "first\n", 'the output of the first attempt is still there');

# A gang: the output of the first node, or of a named one.
my $n2 = add_node($cluster, 'n2', 4);
my $wide = submit($cluster, '8xT4', 'echo node $NODE_RANK');
wait_for_state($cluster, $wide, 'completed');
($status, $out) = logs($wide);
is($out, "node 0\n", 'logs has the output of a gang\'s first node');
($status, $out) = logs('--node', 'n2', $wide);
is($out, "node 1\n", 'logs --node has the output of another node');
($status, $out) = logs('--all', $wide);
is(join('', sort split /^/, $out), "$wide n1: node 0\n$wide n2: node 1\n", 'logs --all has all nodes, each line with its node');

# An array, followed while its tasks start and end: lines are whole.
my @tasks = split /\n/, query(
	$server, 'credit', q{
	SELECT r.job FROM generate_series(0, 2) i, gpucredit.reserve('acme', '', 'task-' || i, '4xT4', '10 min',
		spec => jsonb_build_object('script', E'#!/bin/bash\nprintf "task %s " ' || i || E'; sleep 0.2; echo says; printf "no end"\n'),
		options => jsonb_build_object('array', 'sweep', 'task', i)) r});
($followed, $errors) = ('', '');
$follow = start [ cli(), 'logs', '-f', '--all', $tasks[0] ], '<', \'', '>', \$followed, '2>', \$errors;
wait_for_state($cluster, $_, 'completed') foreach @tasks;
$follow->finish;
$followed =~ s/ n[12]: /: /g;
is(join('', sort split /^/, $followed), join('', sort map { ("$tasks[$_]: no end\n", "$tasks[$_]: task $_ says\n") } 0 .. 2),
	'an array is followed, each line with its job');
($status, $out) = logs('--stdout', "$tasks[0]_1", $tasks[2]);
is($out, "$tasks[1]: task 1 says\n$tasks[1]: no end\n$tasks[2]: task 2 says\n$tasks[2]: no end\n", 'several jobs by their numbers');

# Another tenant's job does not exist, and another node may not answer for it.
$ENV{GPUCREDIT_DATABASE} = connection('mallory');
($status, $out, $err) = logs($job);
is($status, 1, 'logs of another tenant\'s job is refused');
like($err, qr/UC001|UC301/, 'another tenant\'s job does not exist');
is($out, '', 'logs of another tenant\'s job prints nothing');
$ENV{GPUCREDIT_DATABASE} = connection('alice');

# What is over is read from the database, also while the node is away.
my $running = submit($cluster, '1xT4', 'echo begun; touch $OUT/begun; while [ ! -e $OUT/go ]; do sleep 0.05; done', no_lock => 1);
wait_for('it wrote', 20, sub { -e "$cluster->{submitted}{$running}/begun" });
my $its = query($server, 'credit', "SELECT node FROM gpucredit.attempt_gpu WHERE org = 'acme' AND job = $running");
wait_for('all that ended is handed over', 30, sub { !grep { !-e "$_/output_kept" } grep { -e "$_/settled" } glob("$n1->{folder}/state/run/*-*-*") });
end_agent($_) foreach $n1, $n2;
wait_for('both are silent', 20,
	sub { query($server, 'credit', "SELECT count(*) FROM gpucredit.nodes WHERE state = 'ready'") eq '0' });
($status, $out, $err) = logs($job);
is("$status $out$err", "0 one\ntwo\0\377\nthree\noops\n", 'the database has both streams of a job on a silent node, to the byte');
($status, $out) = logs('-f', '--stdout', '--from', 1, $job);
is($out, "ne\ntwo\0\377\nthree\n", 'the database has stdout from a byte on, with -f');
($status, $out) = logs('--stdout', '--tail', 6, $job);
is($out, "three\n", 'the database has the end of stdout');
($status, $out) = logs('--node', 'n2', $wide);
is($out, "node 1\n", 'a node of a gang');
($status, $out) = logs('--attempt', 1, $again);
is($out, "first\n", 'the database has the output of an earlier attempt');
($status, $out, $err) = logs($elsewhere);
like($err, qr{stdout is written to \Q$folder\E/elsewhere on node n1}, 'the database has to which file a stream went');
($status, $out, $err) = logs('--stdout', $big);
my $tail = int((4600000 * 16 - (1 << 20)) / 65536) * 65536;
ok($out eq join('', map { sprintf("%015d\n", $_) } 1 .. 65536, $tail / 16 + 1 .. 4600000), 'the database has the head and the tail of a large output');
($gone) = $err =~ /(\d+) bytes of stdout are gone/;
is($gone, $tail - (1 << 20), 'what the database lacks of a large output is counted');
$ENV{GPUCREDIT_DATABASE} = connection('mallory');
($status, $out, $err) = logs($job);
is("$status$out", '1', 'another tenant reads nothing of what the database keeps');
$ENV{GPUCREDIT_DATABASE} = connection('alice');

# A silent node is reported while its job runs, and read once it is back.
($followed, $errors) = ('', '');
$follow = start [ cli(), 'logs', '-f', '--stdout', $running ], '<', \'', '>', \$followed, '2>', \$errors;
wait_for('it is said', 30, sub { $follow->pump_nb; $errors =~ /node $its has not been heard of/ });
append_to_file("$cluster->{submitted}{$running}/go", '');
start_agent($_) foreach $n1, $n2;
$follow->finish;
is($followed, "begun\n", 'output of a job on a silent node comes once the node is back');

# Output that the node no longer has, and the site does not keep.
wait_for_state($cluster, $running, 'completed');
my $dir = attempt_dir($n1, $job, 1);
end_agent($n1);
system('rm', '-rf', $dir);
start_agent($n1);
($status, $out) = logs('--stdout', $job);
is("$status $out", "0 one\ntwo\0\377\nthree\n", 'the database has the output that the node has lost');
query($server, 'credit', $_)
  foreach "UPDATE gpucredit.kept_log SET kept_at = kept_at - interval '31 days' WHERE job = $job",
  "SELECT gpucredit.upkeep('forget')", 'DELETE FROM gpucredit.log_wish';
($status, $out, $err) = logs('--stdout', $job);
is($status, 1, 'output that node and database have forgotten is refused');
like($err, qr/node n1 keeps nothing of it any more/, 'logs says that the node keeps nothing of the job any more');

# A site's folder keeps it instead; the agent dies at the worst moment.
my $site = PostgreSQL::Test::Utils::tempdir_short();
chmod 0755, $site;
push @{ $n1->{conf} }, "log_folder = $site", 'log_folder_kib = 1';
query($server, 'credit', "SELECT gpucredit.drain('n2', 'the test uses n1')");
end_agent($n1);
start_agent($n1, GPUCREDIT_CRASH_AT => 'keep_log');
my $filed = submit($cluster, '1xT4', 'seq 1 1000; echo aside >&2', no_lock => 1);
wait_for_state($cluster, $filed, 'completed');
wait_for('the agent was killed', 60, sub { waitpid($n1->{pid}, POSIX::WNOHANG()) > 0 });
start_agent($n1);
wait_for('it is handed over after the agent was killed', 30, sub { -e attempt_dir($n1, $filed, 1) . '/output_kept' });
my ($kept) = glob("$site/*-$filed-1/n1.stdout");
is((stat($kept))[2] & 07777, 0600, 'nobody else may read it');
my $all = join('', map { "$_\n" } 1 .. 1000);
my $mid = length($all) - 2048;
is(slurp_file($kept), substr($all, 0, 1024) . "\n[$mid bytes are not kept]\n" . substr($all, -1024), 'the kept file has the head and the tail, and how much is between');

# A folder in which others could replace files is not written to, and the output
# of other jobs does not wait for it.
my $blocked = submit($cluster, '1xT4', 'touch $OUT/begun; while [ ! -e $OUT/go ]; do sleep 0.05; done; echo secret', no_lock => 1);
wait_for('it runs', 60, sub { -e "$cluster->{submitted}{$blocked}/begun" });
my ($open) = map { "$site/" . s{.*/}{}r } attempt_dir($n1, $blocked, 1);
mkdir $open;
chmod 0777, $open;
append_to_file("$cluster->{submitted}{$blocked}/go", '');
wait_for_state($cluster, $blocked, 'completed');
wait_for('it is refused', 60, sub { agent_log($n1) =~ m{log_folder_not_written attempt=acme/$blocked/1 .*Operation not permitted} });
my $after = submit($cluster, '1xT4', 'echo next', no_lock => 1);
wait_for_state($cluster, $after, 'completed');
wait_for('another job\'s output is kept', 60, sub { -e attempt_dir($n1, $after, 1) . '/output_kept' });
is(join(' ', glob("$open/*")), '', 'nothing is in the folder that others may write to');
end_agent($n1);
wait_for('it is silent', 20,
	sub { query($server, 'credit', "SELECT state FROM gpucredit.nodes WHERE node = 'n1'") ne 'ready' });
($status, $out, $err) = logs($filed);
is("$status $out$err", '0 ' . slurp_file($kept) . "aside\n", 'output of a silent node is read from the kept file');
unlink $kept;
($status, $out, $err) = logs('--stdout', $filed);
like($err, qr/stdout is kept in \Q$kept\E, which cannot be read here/, 'a file that is gone is named');
is($status, 1, 'a kept file that is gone is a failure');
start_agent($n1);

end_cluster($cluster);
done_testing();

sub connection
{
	my ($user) = @_;

	return sprintf('host=%s port=%s dbname=credit user=%s',
		$server->host, $server->port, $user);
}

sub cli
{
	return ($ENV{GC_AGENT_BIN} || "$FindBin::RealBin/../../agent")
	  . '/../cli/gpucredit';
}

sub logs
{
	my (@arguments) = @_;
	my ($out, $err) = ('', '');

	run [ cli(), 'logs', @arguments ], '<', \'', '>', \$out, '2>', \$err;
	return ($? >> 8, $out, $err);
}

# A limited number of bytes.
sub capture
{
	my ($arguments, $bytes) = @_;
	my $file = "$folder/errors";
	my $cli  = cli();
	my $text = `$cli logs $arguments 2>$file | head -c $bytes`;

	$cluster->{err} = slurp_file($file);
	return ($?, $text);
}
