# 011_claims_crash.pl: the server is killed between a claim and the start
#
# In each round a pool is full of small jobs, and a gang of a more important
# tier waits.  The server is killed while a cycle claims half of the pool's
# devices for the gang, and again while the victims leave.  After the first
# restart the claim exists with all its devices, victims and directives, or not
# at all.  After the second one the gang starts on the claimed devices, and
# every victim is back in the queue.
#
# GC_SEED replays a run's random choices, GC_CRASHES is the number of rounds.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use GpuCredit;
use POSIX ':sys_wait_h';
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my $rounds = $ENV{GC_CRASHES} || 6;
my $seed   = $ENV{GC_SEED}    || time % 1000000;
my $dir    = PostgreSQL::Test::Utils::tempdir();
my $node   = new_node('claims', 'gpucredit.node_suspect = 0',
	'gpucredit.node_lost = 0', 'gpucredit.retry_backoff = 0');
my (@wrong, %seen);
my $took = 0.05;

diag("GC_SEED=$seed");
srand($seed);
new_database($node, 'credit');
at('00:00');
query($node, 'credit', q{
	SELECT gpucredit.set_price('T4', 1);
	SELECT gpucredit.create_account(org),
		gpucredit.grant_tier(org, '', 'premium_training'), gpucredit.issue(org, '', 'i', 100000)
	FROM unnest('{acme,bell}'::text[]) org});

# Sets the instant that later sessions see.
sub at
{
	my ($time) = @_;

	query($node, 'credit', 'ALTER DATABASE credit SET gpucredit.clock = '
		  . "'2030-01-01 $time+00'");
	return;
}

# Runs statements one after another in another process, each in a transaction
# of its own, and kills the server after that time.  Returns how many were
# answered.
sub kill_during
{
	my ($seconds, @statements) = @_;
	my $log = "$dir/answered";
	my ($pid, $answered);

	unlink $log;
	($pid) = in_parallel(
		1,
		sub {
			my $dbh = connect_to($node, 'credit');

			open(my $fh, '>', $log) or die "$log: $!";
			$fh->autoflush(1);
			print $fh "ready\n";
			foreach my $sql (@statements)
			{
				eval { $dbh->selectall_arrayref($sql); 1 } or last;
				print $fh "done\n";
			}
		});
	sleep(0.001) until -s $log || waitpid($pid, WNOHANG) == $pid;
	sleep($seconds);
	kill_server($node);
	wait_for_children($pid);
	$answered = () = slurp_file($log) =~ /^done$/mg;
	$node->start;
	return $answered;
}

# What exists of the claim: claims, devices, victims, and directives.
sub promise
{
	my ($pool) = @_;

	return query($node, 'credit', qq{
		SELECT (SELECT count(*) FROM gpucredit.claim WHERE pool = '$pool'),
			(SELECT coalesce(sum(gpucredit.gpu_count(gpus)), 0)
				FROM gpucredit.claim_gpu WHERE pool = '$pool'),
			(SELECT count(*) FROM gpucredit.eviction WHERE pool = '$pool'),
			(SELECT count(*) FROM gpucredit.directive d
				JOIN gpucredit.attempt a USING (org, job, attempt)
				WHERE a.pool = '$pool' AND d.cause = 'claim'
				AND a.ended_at IS NULL)});
}

sub devices
{
	my ($pool, $table, $condition) = @_;

	return query($node, 'credit', qq{
		SELECT node, gpus FROM gpucredit.$table
		WHERE pool = '$pool' AND org = 'bell' $condition ORDER BY node});
}

sub expect
{
	my ($round, $what, $is, $expected) = @_;

	push @wrong, "round $round: $what: $is, not $expected"
	  unless $is =~ /^(?:$expected)$/;
	return;
}

foreach my $round (1 .. $rounds)
{
	my $pool  = "p$round";
	my $place = "SELECT * FROM gpucredit.place('$pool')";
	my ($began, $answered, $promised, @leave);

	at('00:00');
	query($node, 'credit', qq{
		SELECT gpucredit.create_pool('$pool', '{}');
		SELECT gpucredit.register_node('$pool', '$pool-n' || n, 'T4', 8, 16384)
		FROM generate_series(1, 16) n;
		SELECT gpucredit.reserve('acme', '', '$pool-' || i, '1xT4', '2 hours',
			'standard_training', '$pool') FROM generate_series(1, 128) i;
		$place});
	at('00:10');
	query($node, 'credit', qq{
		SELECT gpucredit.reserve('bell', '', '$pool', '64xT4', '1 hour',
			'premium_training', '$pool')});

	# every third kill hits a cycle that has decided but not committed
	$answered = $round % 3 == 0
	  ? kill_during(1, qq{
		WITH p AS MATERIALIZED ($place)
		SELECT pg_sleep(60) FROM (SELECT count(*) FROM p) q WHERE count > 0})
	  : kill_during(rand($took), $place);
	expect($round, 'the promise', promise($pool),
		$answered ? '1\|64\|64\|64' :
		  $round % 3 == 0 ? '0\|0\|0\|0' : '0\|0\|0\|0|1\|64\|64\|64');
	$seen{ $answered ? 'answered' : promise($pool) =~ /^1/ ? 'kept' : 'lost' }++;
	$began = time;
	query($node, 'credit', $place);
	$took = time - $began;
	expect($round, 'the promise', promise($pool), '1\|64\|64\|64');
	$promised = devices($pool, 'claim_gpu', '');

	# the server is killed while the victims leave
	@leave = split /\n/, query($node, 'credit', qq{
		SELECT format('SELECT gpucredit.settle(%L, %s, %s, %L)', org, job,
			attempt, 'preempted')
		FROM gpucredit.eviction WHERE pool = '$pool' ORDER BY job});
	$answered = kill_during(rand(0.15), @leave, $place);
	$seen{ $answered > 64 ? 'started' : 'leaving' }++;
	expect($round, 'the promise',
		query($node, 'credit', qq{
			SELECT count(*) FROM gpucredit.claim_gpu WHERE pool = '$pool'
			HAVING count(*) = 0 OR sum(gpucredit.gpu_count(gpus)) = 64}) ne '',
		1);
	query($node, 'credit', join(';', @leave));
	query($node, 'credit', $place);
	expect($round, 'what is promised', promise($pool), '0\|0\|0\|0');
	expect($round, 'where the gang runs',
		devices($pool, 'attempt_gpu', 'AND NOT free'), quotemeta($promised));
	expect($round, 'jobs of the victims',
		query($node, 'credit', qq{
			SELECT string_agg(n || ' ' || state, ', ' ORDER BY state)
			FROM (SELECT state, count(*) AS n FROM gpucredit.job
				WHERE org = 'acme' AND pool = '$pool' GROUP BY state) s}),
		'64 active, 64 queued');
	expect($round, 'verify()',
		query($node, 'credit', 'SELECT * FROM gpucredit.verify() LIMIT 5'), '');
}

note(join(', ', map { "$_: $seen{$_}" } sort keys %seen));
is_deeply(\@wrong, [],
	'a promise survives whole or not at all, and is kept');
verify_empty($node, 'credit');
$node->stop;
done_testing();
