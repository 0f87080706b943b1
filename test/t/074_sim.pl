# 074_sim.pl: the simulator (tools/sim) tells what the scheduler does over days
#
# Its yardsticks are compared with waits computed by hand. A trace of 500 jobs
# that this test makes up is replayed by the simulator, and through SQL with a
# frozen clock: all of the jobs start at the same instants. What people wait on
# this trace has bounds beside EASY backfill, and what capacity_advice says is
# compared with what the simulated cluster needs.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use GpuCredit;
use Test::More;
use File::Temp qw(tempdir);

my $folder = tempdir(CLEANUP => 1);
my $sim    = "$FindBin::RealBin/../../tools/sim";
$ENV{GC_SIM_BUILD} = "$folder/build";

# What the simulator prints for a policy, as a hash.
sub simulated
{
	my ($trace, $policy, @options) = @_;

	open(my $pipe, '-|', $sim, $trace, '--values', '--policy', $policy, @options)
	  or die "could not run $sim: $!";
	my $line = <$pipe>;
	close($pipe) or die "$sim $trace --policy $policy failed";
	return map { split /=/ } split ' ', $line;
}

# A file of lines.
sub written
{
	my ($name, @lines) = @_;

	open(my $out, '>', "$folder/$name") or die $!;
	print {$out} map { "$_\n" } @lines;
	close($out) or die $!;
	return "$folder/$name";
}

# Two GPUs. a runs for 2 h on one of them, b needs both, c and d need one.
# c ends within a's limit, d does not.
my $small = written('small.csv', 'job,tenant,submit,gpus,run,wall',
	'a,t,0,1,7200,10800', 'b,t,0,2,3600,3600', 'c,t,0,1,3600,7200', 'd,t,0,1,3600,14400');
my %fifo = simulated($small, 'fifo', qw(--nodes 1 --gpus 2));
my %easy = simulated($small, 'easy', qw(--nodes 1 --gpus 2));
my %sjf  = simulated($small, 'sjf', qw(--nodes 1 --gpus 2));

is($fifo{mean}, '2.0000', 'FIFO: a waits 0 h, b 2 h, c and d 3 h');
is($easy{mean}, '1.2500', 'EASY: c passes b beside a, since it ends in time; d waits behind b');
is($sjf{mean}, '1.0000', 'SJF: b first, then c and a beside each other, then d');

my $swf = written('small.swf', '; Version: 2.2', '; Computer: made up',
	'1 0 -1 7200 1 -1 -1 1 10800 -1 1 7 1 -1 -1 -1 -1 -1',
	'2 0 -1 3600 2 -1 -1 2 3600 -1 1 7 1 -1 -1 -1 -1 -1',
	'3 0 -1 3600 1 -1 -1 -1 7200 -1 1 8 1 -1 -1 -1 -1 -1',
	'4 0 -1 3600 1 -1 -1 1 14400 -1 1 8 1 -1 -1 -1 -1 -1',
	'5 0 -1 -1 1 -1 -1 1 14400 -1 5 8 1 -1 -1 -1 -1 -1');
my %same = simulated($swf, 'easy', qw(--nodes 1 --gpus 2));

is($same{mean}, $easy{mean}, 'Standard Workload Format is read: the same jobs wait as long, and one that was cancelled does not count');

# 500 jobs of four tenants on 32 GPUs, more than fit: a linear congruential
# generator makes the same trace everywhere.
my $state = 7;

sub below
{
	my ($n) = @_;

	$state = ($state * 1103515245 + 12345) % 2147483648;
	return int($state / 65536) % $n;
}

my ($at, @jobs) = (0);

foreach my $n (1 .. 500)
{
	my $run = 60 + below(10) * below(10) * 120 + below(600);

	$at += below(900) if $n > 1;
	push @jobs, {name => "j$n", tenant => ('a', 'a', 'b', 'c', 'd')[below(5)], submit => $at,
		gpus => (1, 1, 2, 4, 8, 16)[below(6)], run => $run, wall => int($run * (10 + below(50)) / 10)};
}

my $trace = written('made.csv', 'job,tenant,submit,gpus,run,wall',
	map { join ',', @{$_}{qw(name tenant submit gpus run wall)} } @jobs);
my %installed = simulated($trace, 'installed', qw(--nodes 4 --gpus 8 --verify --every-cycle),
	'--starts', "$folder/starts.csv", '--plot', "$folder/plot.svg");
my %started = map { chomp; split /,/ } split /\n/, slurp_file("$folder/starts.csv");

cmp_ok($installed{mean}, '>', 0.1, 'jobs of the made-up trace wait');

my @cluster = qw(--nodes 4 --gpus 8);
my %yardstick = simulated($trace, 'easy', @cluster);
my %learnt    = simulated($trace, 'backfill', @cluster);
my %unlearnt  = simulated($trace, 'backfill', @cluster, '--no-learning');

cmp_ok($installed{mean}, '<=', 1.1 * $yardstick{mean}, 'as installed jobs wait at most a tenth longer than by EASY, though fair share is on');
cmp_ok($installed{slowdown}, '<=', 0.2 * $yardstick{slowdown}, '... and short ones much less: a fifth of its mean slowdown');
cmp_ok($installed{fair_days}, '>=', 0.9, '... and tenants have their share on nine of ten days');
is($learnt{mean}, $unlearnt{mean}, 'what is learnt of run times keeps nobody waiting: reservations and those who pass them go by wall limits');
cmp_ok($installed{promised}, '>', 0, '... some are guaranteed a latest start');
is("$installed{broken} $installed{unnamed}", '0 0', '... and all of them start by then');
cmp_ok($installed{expected}, '>', 0, '... each job that waits is expected to start at some time');
cmp_ok($installed{expected_median}, '<=', 0.5 * $installed{mean} + 1, '... and half of these times are wrong by at most an hour and half the mean wait');
like(slurp_file("$folder/plot.svg"), qr{<svg.*polyline.*</svg>}s, '--plot draws the replay');

# Sixteen days at 95 % and at 105 % load: eight tenants, quiet and busy days,
# jobs of 1 to 32 GPUs, a tier that may preempt others.  An operator who wants few
# evictions gives them a price, and accounts then wait longer for what is due.
foreach my $load ('0.95', '1.05')
{
	my %without = simulated("made:16:$load", 'installed', qw(--nodes 16 --no-reclaim));
	my %with    = simulated("made:16:$load", 'installed', qw(--nodes 16 --reclaim --restart-cost 60));

	cmp_ok($with{reclaims}, '<=', 0.1, "reclaim at load $load: at most one job in ten is evicted for an entitlement");
	cmp_ok($with{most_reclaims}, '<=', 3, '... none of them more than three times');
	cmp_ok($with{lost}, '<=', $without{lost} + 0.005, '... at most 0.5 % of all work is lost by that');
	cmp_ok($with{unfairness}, '<', $without{unfairness}, '... tenants are nearer to their shares than without reclaim');
	is($with{unnamed} + $without{unnamed}, 0, '... no guaranteed start is missed unless what broke it is named');
	cmp_ok($with{gangs}, '<=', 1.15 * $without{gangs}, '... and gangs wait at most 15 % longer than without');

	my %at_once = simulated("made:16:$load", 'installed', qw(--nodes 16 --reclaim));

	cmp_ok($at_once{most_reclaims}, '<=', 3, '... and where evictions have no price, no job is evicted for it more than three times, either');
	cmp_ok($at_once{reclaims}, '<=', 0.3, '... and at most three jobs in ten');
}

# What capacity_advice says at the last submission, of which it knows what has
# run by then, is compared with what the cluster needs, found by replays on
# other numbers of nodes: too few, enough, and too many.
foreach my $nodes (12, 16, 24)
{
	foreach my $load ('0.9', '1.1')
	{
		open(my $pipe, '-|', $sim, "made:14:$load:3", qw(--policy easy --advise 1 --values --nodes), $nodes) or die $!;
		my %advice = map { split /=/ } split ' ', (grep { /^supply=/ } <$pipe>)[0];

		close($pipe) or die "$sim --advise failed";
		cmp_ok(abs($advice{said90} / $advice{need90} - 1), '<=', 0.15,
			"advice on $advice{supply} GPUs that get $advice{load} of work: within 15 % of what is needed for nine in ten in use");
		cmp_ok(abs($advice{said_wait} / $advice{need_wait} - 1), '<=', 0.15, '... and of what is needed for waits of an hour');
		cmp_ok($advice{low}, '<=', $advice{load}, '... the load is in its interval: not below it');
		cmp_ok($advice{high}, '>=', $advice{load}, '... not above it');
	}
}

my $node = new_node('sim', 'jit = off');

new_database($node, 'credit');
my %in_sql = replay_in_sql(connect_to($node, 'credit'));
my @differ = grep { !defined $in_sql{$_} || abs($in_sql{$_} - $started{$_}) > 0.001 }
  map { $_->{name} } @jobs;

is(scalar(@differ), 0, 'through SQL all 500 jobs start at the very instants that the simulator says');
diag(scalar(@differ) . ' jobs start at another instant in SQL, the first: ' .
	join(', ', map { "$_ ($started{$_}; $in_sql{$_})" } grep { defined } @differ[0 .. 2])) if @differ;
verify_empty($node, 'credit');
done_testing();

sub slurp_file
{
	my ($name) = @_;

	open(my $in, '<', $name) or die "$name: $!";
	local $/ = undef;
	return scalar <$in>;
}

# Replays the jobs by the public functions: reserve() at each submission,
# settle() at each end, and place() at each of both and where a job ages.
# Returns when each started, in seconds.
sub replay_in_sql
{
	my ($dbh) = @_;
	my $start = q{timestamptz '2030-01-01 00:00+00'};
	my @waiting = @jobs;
	my (%by_id, %started, %queued, @running);
	my $now = -1;

	$dbh->do(q{SET timezone = 'UTC'; SET gpucredit.clock = '2030-01-01 00:00+00';
		SELECT gpucredit.set_price('G', 1);
		SELECT gpucredit.register_node('default', 'node-0000' || i, 'G', 8, 81920) FROM generate_series(1, 4) i;
		SELECT gpucredit.create_account(o), gpucredit.issue(o, '', 'credit', 1000000)
		FROM unnest('{a,b,c,d}'::text[]) o;});
	while (@waiting || @running)
	{
		# as the simulator: a job ages only while it waits, and a cycle more would
		# make reservations anew
		($now) = sort { $a <=> $b } (@waiting ? $waiting[0]{submit} : ()),
		  (map { $_->{ends} } @running),
		  (grep { $_ > $now } map { $_->{submit} + 86400 } values %queued);
		my $instant = qq{$start + $now * interval '1 second'};

		$dbh->do("SELECT set_config('gpucredit.clock', ($instant)::text, false)");
		# what an agent settles frees the devices at once
		$dbh->do('SET ROLE gpucredit_agent');
		foreach my $job (grep { $_->{ends} <= $now } @running)
		{
			$dbh->do(q{SELECT gpucredit.settle(?, ?, 1, 'completed', make_interval(secs => ?))},
				undef, @{$job}{qw(tenant id run)});
		}
		$dbh->do('RESET ROLE');
		@running = grep { $_->{ends} > $now } @running;
		# the nodes' agents are heard, so that no node looks silent
		$dbh->do(q{UPDATE gpucredit.node SET heard_at = gpucredit.now()});
		while (@waiting && $waiting[0]{submit} <= $now)
		{
			my $job = shift @waiting;

			($job->{id}) = $dbh->selectrow_array(q{SELECT job FROM gpucredit.reserve(?, '', ?, ?,
				wall_limit => make_interval(secs => ?))}, undef,
				$job->{tenant}, $job->{name}, "$job->{gpus}xG", $job->{wall});
			$by_id{"$job->{tenant} $job->{id}"} = $job;
			$queued{$job->{name}} = $job;
		}
		foreach my $row (@{$dbh->selectall_arrayref(
				q{SELECT DISTINCT org, job FROM gpucredit.place() WHERE action = 'start'})})
		{
			my $job = $by_id{"@$row"};

			$started{$job->{name}} = $now;
			delete $queued{$job->{name}};
			$job->{ends} = $now + $job->{run};
			push @running, $job;
		}
	}
	return %started;
}
