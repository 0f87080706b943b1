# 073_occupied.pl: what runs keep from others is what they cost
#
# Random runs of one tenant, with every argument that it may choose and extreme
# values of it: share, memory floor, wall limit, hold window, tier, retries,
# cpu and memory; it cancels or settles at random instants, and its programs
# end, trap SIGTERM and claim outcomes as they like.  An agent that keeps the
# protocol heartbeats every ten seconds.  Beside the database this test keeps
# its own account: from the instant at which place() gave devices until the
# instant at which others may have them, list price x the larger of share and
# memory floor.  What was billed and not collected is at least that, but for
# attempts that the platform lost.
#
# GC_RUNS runs (400); GC_SEED=n, which a failure prints, repeats them.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use GpuCredit;
use List::Util qw(max min);
use PostgreSQL::Test::Utils;
use Test::More;

use constant { MEMORY => 80_000, BEAT => 10, GRACE => 30 };

my $runs = $ENV{GC_RUNS} || 400;
my $seed = $ENV{GC_SEED} || 1 + int(rand(1_000_000));
my $node = new_node('main', 'synchronous_commit = off',
	'jit = off');
my $now = 1_924_992_000;		# 2031-01-01
my (%price, $agent);

srand($seed);
note("GC_SEED=$seed");
new_database($node, 'occupied');
$agent = connect_to($node, 'occupied');
set_up();
subtest 'no run costs less than what it keeps from others' => sub {
	my %seen;

	run_one($_, \%seen) foreach 1 .. $runs;
	cmp_ok($seen{started} // 0, '>', $runs / 4, 'many runs had devices');
	cmp_ok(scalar(grep { /^end/ } keys %seen), '>=', 7,
		'they ended in all ways: ' . join(', ', sort keys %seen));
};
is_deeply($agent->selectall_arrayref('SELECT * FROM gpucredit.verify()'),
	[], 'the books agree with themselves');
done_testing();

sub pick { return $_[ int(rand(@_)) ]; }

# Time passes.
sub at
{
	my ($later) = @_;

	$now += $later;
	$agent->do('SELECT set_config(?, to_timestamp(?)::text, false)', undef,
		'gpucredit.clock', sprintf('%.6f', $now));
	return;
}

sub set_up
{
	at(0);
	$agent->do('SET TIME ZONE UTC');
	$agent->do("SELECT gpucredit.create_account('t'),"
		  . " gpucredit.issue('t', '', 'i', 1000000),"
		  . ' gpucredit.create_pool(\'p\'),'
		  . " gpucredit.register_node('p', 'n', 'H', 1, " . MEMORY
		  . ', 64000, 524288),'
		  . " gpucredit.set_tier('free', 4, 'capacity', false,"
		  . ' bill_lost_work => false),'
		  . " gpucredit.set_tier('dear', 4, 'capacity', false,"
		  . ' price_factor => 2.5)');
	$agent->do('CREATE ROLE occupied_app IN ROLE gpucredit_app');
	return;
}

# A call of the tenant's.
sub tenant
{
	my ($sql, @args) = @_;

	$agent->do('SET ROLE occupied_app');
	my @row = $agent->selectrow_array($sql, undef, @args);

	$agent->do('RESET ROLE');
	return @row;
}

# A heartbeat of the node; running: the attempt that runs there, if any.
sub beat
{
	my ($running) = @_;

	return $agent->selectall_arrayref(
		"SELECT job, attempt, action FROM gpucredit.heartbeat('n',"
		  . ' running => ?::text[])',
		undef, $running ? "{$running}" : '{}');
}

# May others have the device?
sub is_free
{
	my ($job) = @_;

	return !$agent->selectrow_array(
		'SELECT 1 FROM gpucredit.attempt_gpu WHERE job = ? AND NOT free',
		undef, $job);
}

sub new_prices
{
	%price = (gpu => pick(0.000001, 3.6, 40, 4321.098765),
		cpu => pick(0, 0, 0.02), memory => pick(0, 0, 0.001));
	$agent->do('SELECT gpucredit.set_price(?, ?, ?)', undef, 'H', $price{gpu},
		'p');
	$agent->do('SELECT gpucredit.set_resource_price(?, ?)', undef, $_,
		$price{$_}) foreach qw(cpu memory);
	return;
}

# What an hour of a request keeps from others.
sub per_hour
{
	my ($ask) = @_;
	my $kept = max($ask->{share}, $ask->{floor} / MEMORY);

	return ($price{gpu} * $kept
		  + $price{cpu} * $ask->{cpu} / 1000
		  + $price{memory} * $ask->{memory} / 1024)
	  * ($ask->{tier} eq 'dear' ? 2.5 : 1);
}

# One job: submitted, started, made to end in some way, or left alone.
sub run_one
{
	my ($n, $seen) = @_;
	my %ask = (
		share  => pick(1, 1, 0.001, 0.25, 0.999),
		floor  => pick(0, 0, 1, 20_000, MEMORY / 2 + 1, MEMORY),
		wall   => pick('1 us', '1 us', '5 s', '60 s', '1 h'),
		window => pick(undef, undef, '1 us', '60 s'),
		tier   => pick(qw(standard_training free dear interactive)),
		cpu    => pick(0, 0, 1, 64_000),
		memory => pick(0, 0, 1, 524_288));

	$ask{floor} = 0 if $ask{share} == 1;
	new_prices();
	my ($job) = tenant(
		"SELECT job FROM gpucredit.reserve('t', '', ?, ?, ?::interval, ?, 'p',"
		  . ' cpu_milli => ?, memory_mib => ?, hold_window => CASE WHEN'
		  . ' ?::interval < ?::interval AND ?::interval >= ?::interval THEN'
		  . ' ?::interval END, max_retries => ?)',
		"k$n",
		"$ask{share}xH" . ($ask{floor} ? "\@$ask{floor}MiB" : ''),
		@ask{qw(wall tier cpu memory)},
		$ask{window}, $ask{wall}, $ask{window}, '60 s', $ask{window},
		pick(0, 1, 3));
	return unless defined $job;
	beat();
	my ($attempt) = $agent->selectrow_array(
		"SELECT attempt FROM gpucredit.place('p') WHERE job = ?", undef, $job);

	if (!defined $attempt)
	{
		tenant("SELECT gpucredit.cancel('t', ?, ?)", $job, "x$n");
		return;
	}
	$seen->{started}++;
	occupy($n, $job, $attempt, \%ask, $seen);
	tenant("SELECT gpucredit.cancel('t', ?, ?)", $job, "z$n");
	return;
}

# The run, and the comparison.
sub occupy
{
	my ($n, $job, $attempt, $ask, $seen) = @_;
	my $taken = $now;
	my $how   = pick(qw(exits fails traps cancel owner owner owner_early
		  cancel_early lost preempted image));
	my $state = { job => $job, attempt => $attempt, taken => $taken };

	# the agent hears of it with its next heartbeat
	at(rand(BEAT));
	tenant_ends($how, $n, $state) if $how =~ /_early$/;
	at(rand(BEAT));
	agent_hears($state, $how);
	tenant_runs($how, $n, $state) unless $state->{over};
	my ($elapsed, $billed, $uncollected, $outcome) = $agent->selectrow_array(
		'SELECT extract(epoch FROM elapsed), billed::numeric,'
		  . ' uncollected::numeric, outcome FROM gpucredit.attempt'
		  . " WHERE org = 't' AND job = ? AND attempt = ?",
		undef, $job, $attempt);

	$seen->{"end $how"}++;
	if (!defined $billed || !is_free($job))
	{
		fail("run $n ($how) is over and its device is free, GC_SEED=$seed");
		return;
	}
	return if $how eq 'lost';
	my $kept = $state->{free_at} - $taken;
	my $due  = per_hour($ask) * $kept / 3600;
	my ($refunded) = $agent->selectrow_array('SELECT refunded::numeric FROM'
		  . " gpucredit.attempt WHERE org = 't' AND job = ? AND attempt = ?",
		undef, $job, $attempt);
	my $paid = $billed + $uncollected - $refunded;

	fail("run $n ($how, $outcome) kept $kept s: paid $paid of $due,"
		  . " GC_SEED=$seed: " . arguments($ask))
	  if $paid < $due * 0.999999 - 0.000002;
	return;
}

# The agent starts what it is told to, or learns that it must not.
sub agent_hears
{
	my ($state, $how) = @_;
	my @told = grep { $_->[0] == $state->{job} } @{ beat() };

	if (!@told)
	{
		# the tenant ended it: the heartbeat without it freed the device
		@$state{qw(over free_at)} = (1, $now);
	}
	elsif ($told[0][2] eq 'stop')
	{
		ends($state, 'cancelled', 0);
	}
	elsif ($how eq 'image')
	{
		at(rand(200));
		ends($state, 'not_started', 0, 'image: cannot be pulled');
	}
	elsif ($how ne 'lost')
	{
		$state->{began} = $now;
		$agent->do("SELECT gpucredit.meter('t', ?, ?, '0')", undef,
			@$state{qw(job attempt)});
	}
	return;
}

# The agent's word that the processes are gone, and a heartbeat without them.
sub ends
{
	my ($state, $outcome, $ran, $message) = @_;

	$agent->do("SELECT gpucredit.settle('t', ?, ?, ?,"
		  . ' make_interval(secs => ?), ?, ?)',
		undef, @$state{qw(job attempt)}, $outcome, sprintf('%.6f', $ran),
		$outcome eq 'failed' ? pick(1, 75, 143) : undef, $message);
	beat();
	@$state{qw(over free_at)} = (1, $now);
	return;
}

# The tenant cancels or settles.
sub tenant_ends
{
	my ($how, $n, $state) = @_;

	if ($how =~ /^cancel/)
	{
		tenant("SELECT gpucredit.cancel('t', ?, ?)", $state->{job},
			"c$n");
		return;
	}
	tenant("SELECT gpucredit.settle('t', ?, ?, ?)",
		@$state{qw(job attempt)},
		pick(qw(completed failed preempted node_lost not_started resized)));
	$state->{settled} = 1;
	return;
}

# The program runs, and its agent makes it end where it must.
sub tenant_runs
{
	my ($how, $n, $state) = @_;
	my $long = pick(0, 0.000001, rand(3), rand(40));

	if ($how eq 'lost')
	{
		at(600);
		$agent->do('SELECT gpucredit.check_nodes()');
		at(1);
		beat();
		$state->{free_at} = $now;
		return;
	}
	at($long);
	tenant_ends($how, $n, $state) if $how =~ /^(cancel|owner)$/;
	if ($how =~ /^(cancel|owner|traps)$/)
	{
		# told with a heartbeat, killed when its grace is over
		at(rand(BEAT));
		beat("t/$state->{job}/$state->{attempt}");
		$agent->do("SELECT gpucredit.meter('t', ?, ?,"
			  . ' make_interval(secs => ?))',
			undef, @$state{qw(job attempt)},
			sprintf('%.6f', $now - $state->{began}));
		at(rand(GRACE));
	}
	ends($state, {
			exits => 'completed', fails => 'failed', traps => 'timeout',
			cancel => 'cancelled', owner => 'completed',
			preempted => 'preempted' }->{$how},
		$now - $state->{began});
	return;
}

# A run's arguments in words.
sub arguments
{
	my ($ask) = @_;

	return join(', ', map { "$_ " . ($ask->{$_} // '-') } sort keys %$ask);
}
