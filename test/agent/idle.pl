# idle.pl: a job whose GPUs are idle warns those who sit at its terminal, goes on
# while they type or use it, and ends by the ordinary stop

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use GpuCredit;
use GpuCreditAgent;
use IO::Socket::INET;
use IPC::Run qw(start);
use POSIX ();
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

# a command that never ends fails the test
$SIG{ALRM} = sub { die 'something took ten minutes' };
alarm($ENV{GC_ALARM} || 600);

my $cluster = cluster('idle');
my $server  = $cluster->{server};
my $folder  = PostgreSQL::Test::Utils::tempdir_short();
my $n1      = add_node($cluster, 'n1', 2, conf => ['listen = yes']);
my $relay   = add_relay();

END { local $?; kill('KILL', $relay) if $relay }

query($server, 'credit', q{
	SELECT gpucredit.set_idle_limit('interactive', '1 h', '30 min');
	CREATE ROLE alice LOGIN IN ROLE gpucredit_tenant;
	SELECT gpucredit.bind_tenant('alice', 'acme')});
$ENV{GPUCREDIT_ORG}      = 'acme';
$ENV{GPUCREDIT_DATABASE} = sprintf('host=%s port=%s dbname=credit user=alice', $server->host, $server->port);
my $notice = qr/gpucredit: the GPUs of this job are idle\. It ends at \d\d:\d\d UTC unless they are used, or somebody types here\./;

use_gpus(0);
my $run = { in => '', out => '', err => '' };
$run->{run} = start([ cli('salloc'), '--gpus=T4:1', '--qos=interactive', '--time=60', '--chdir=/tmp' ], '<', \$run->{in}, '>', \$run->{out}, '2>', \$run->{err});
wait_for('a shell asks', 60, sub { step(); $run->{out} =~ /[\$#] $/ }) or diag($run->{out}, $run->{err});
my $job = query($server, 'credit', 'SELECT max(job) FROM gpucredit.job');
is(attempt("idle_limit || ' ' || idle_warning"), '01:00:00 00:30:00', 'the attempt has the limit of its tier');
wait_for('its idle time grows', 120, sub { step(); attempt(q{idle_for >= '3 s'}) eq 't' });
unlike($run->{out}, $notice, 'nobody is warned so far');

# The limit is far away, and the warning due.
limit('1 h', '59 min 59 s');
wait_for('the user is warned', 120, sub { step(); $run->{out} =~ $notice }) or diag($run->{out});
like(query($server, 'credit', q{SELECT string_agg(detail ->> 'reason', ' ') FROM gpucredit.alert WHERE org = 'acme' AND kind = 'job'}),
	qr/^idle_warning$/, 'and alerted once');
my $idle = attempt('extract(epoch FROM idle_for)');
wait_for('it is idle for longer', 120, sub { step(); attempt("extract(epoch FROM idle_for) > $idle + 3") eq 't' });
is(scalar(() = $run->{out} =~ /$notice/g), 1, 'one notice is enough');
$run->{in} .= "echo 'typed'\n";
wait_for('a key press starts the time again', 120, sub { step(); attempt("extract(epoch FROM idle_for) < $idle + 3") eq 't' });
wait_for('the shell answers', 60, sub { step(); $run->{out} =~ /typed\r\n/ });

# Use does the same; what is not reported does nothing.
limit('1 h', '1 s');
use_gpus(50);
wait_for('a job that uses its GPUs is not idle', 120, sub { step(); attempt(q{utilization = 0.5 AND idle_for = '0'}) eq 't' });
use_gpus(undef);
wait_for('the figures are gone', 120, sub { step(); attempt(q{clock_timestamp() - idle_at > '3 s' AND clock_timestamp() - heard_at < '3 s'}) eq 't' });
is(attempt(q{idle_for = '0'}), 't', 'a job of which nothing is known is not idle');

# Nobody is there any more.
use_gpus(0);
limit('5 s', '0');
wait_for('the session ends with its job', 120, sub { step(); !$run->{run}->pumpable }) or diag($run->{out}, $run->{err});
eval { $run->{run}->finish };
wait_for_state($cluster, $job, 'timeout');
like(attempt('message'), qr/^its GPUs were idle for \d+ s, and nobody typed in a terminal of it/, 'its message says why');
is(attempt("outcome || ' ' || attempt"), 'timeout 1', 'it is not tried again');
like(agent_log($n1), qr{event=told attempt=acme/$job/1 reason=idle}, 'the agent was told');
wait_for('its owner is alerted', 60, sub { query($server, 'credit', q{SELECT string_agg(detail ->> 'reason', ' ' ORDER BY alert) FROM gpucredit.alert WHERE org = 'acme' AND kind = 'job'}) =~ /idle_limit$/ });
bill_is_fair($cluster, $job, 1);
is(query($server, 'credit', "SELECT gpu_hours > 0 AND unused_hours > 0 AND used_hours + unused_hours + unreported_hours <= gpu_hours + 0.000003 FROM gpucredit.waste_by('acme', '', by => 'job') WHERE item = '$job'"),
	't', 'its waste is reported');

end_cluster($cluster);
done_testing();

# Has cycles run, and reads what the session says.
sub step
{
	place($cluster);
	$run->{run}->pump_nb if $run->{run}->pumpable;
	return;
}

sub attempt
{
	my ($expression) = @_;

	return query($server, 'credit', "SELECT $expression FROM gpucredit.attempt WHERE org = 'acme' AND job = $job");
}

# Replaces the running attempt's copy of the limit, which is at least a minute.
sub limit
{
	my ($limit, $warning) = @_;

	query($server, 'credit', "UPDATE gpucredit.attempt SET idle_limit = '$limit', idle_warning = '$warning' WHERE org = 'acme' AND job = $job");
	return;
}

# Says how busy the node's devices are, in percent; undef for unknown.
sub use_gpus
{
	my ($percent) = @_;
	my $word = defined $percent ? " utilization=$percent" : '';

	append_to_file("$n1->{folder}/devices.new", join('', map { "GPU-n1-$_ 16384 ok $n1->{folder}/gpu$_$word\n" } 0, 1));
	rename("$n1->{folder}/devices.new", "$n1->{folder}/devices") or die;
	return;
}

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
