# 010_crash.pl: the whole server is killed, again and again
#
# Clients make all kinds of calls at once.  At a random moment after some
# answers, the postmaster and all its processes get SIGKILL.  After each
# restart every acknowledged call has taken effect once, with exactly the
# answered result.  A call that was cut off takes effect once when it is sent
# again.  The books balance.  Heartbeats of the last second may be lost, others
# never.
#
# GC_SEED replays a run's random choices, GC_CRASHES is the number of crashes.
# Each round has its own seed, because a client's keys begin with it.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use GpuCredit;
use GpuCreditLoad;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my $crashes = $ENV{GC_CRASHES} || 20;
my $clients = 5;
my $seed    = $ENV{GC_SEED} || time % 1000000;
my $logs    = PostgreSQL::Test::Utils::tempdir();
my $node    = new_node('crash', world_conf());
my $began   = time;
my %sum     = (acknowledged => 0, pending => 0, places => 0, meters => 0,
	forgotten => 0);
my (@lost, @unexpected, @broken, @unbalanced, @twice);

# Money is conserved: the compartments add up to what was issued, and all
# issues were requested.
my $balance = q{
	SELECT e.issued::text, b.issued::text, b.all_of_it::text
	FROM (SELECT gpucredit.sum(amount) AS issued FROM gpucredit.entry
			WHERE source = 'issued') e,
		(SELECT gpucredit.sum(issued) AS issued, gpucredit.sum(available + held
			+ spent + expired + revoked + moved) AS all_of_it
		FROM gpucredit.bucket_whole) b};

# A key that took effect twice.
my $twice = q{
	SELECT 'issues ' || e.n || ' of ' || r.n
	FROM (SELECT count(*) AS n FROM gpucredit.entry
			WHERE operation = 'issue') e,
		(SELECT count(*) AS n FROM gpucredit.request
			WHERE operation = 'issue') r
	WHERE e.n <> r.n
	UNION ALL
	SELECT 'job ' || (spec ->> 'key') FROM gpucredit.job
	GROUP BY spec ->> 'key' HAVING count(*) > 1
	UNION ALL
	SELECT 'holds ' || h.n || ' of ' || r.n
	FROM (SELECT count(*) AS n FROM gpucredit.hold WHERE job IS NULL) h,
		(SELECT count(*) AS n FROM gpucredit.request
			WHERE operation = 'hold' AND result[2] = 'granted') r
	WHERE h.n <> r.n};

diag("GC_SEED=$seed");
new_database($node, 'credit');
setup_world($node, 'credit');
srand($seed);

foreach my $round (1 .. $crashes)
{
	my $moment = 0.3 + rand(1.2);
	my $choice = int(rand(100000)) * ($crashes + 1) + $round;
	my @files  = map { "$logs/$round-$_.log" } 0 .. $clients - 1;
	my $since  = time;
	my (@pids, $account, @sums, $killed);

	@pids = in_parallel(
		$clients,
		sub {
			run_client(
				$node, 'credit',
				number  => $_[0],
				seed    => $choice,
				log     => $files[ $_[0] ],
				seconds => 60);
		});
	sleep($moment);
	sleep(0.05) until answered(@files) >= 10 || time - $since > 50;
	$killed = time;
	kill_server($node);
	push @broken, "round $round: a client died" if wait_for_children(@pids);
	$node->start;

	$account = settle_crash($node, 'credit', $killed, @files);
	$sum{$_} += $account->{$_} foreach keys %sum;
	push @lost,       map { "round $round: $_" } @{ $account->{lost} };
	push @unexpected, map { "round $round: $_" } @{ $account->{unexpected} };
	push @broken, map { "round $round: $_" } split /\n/,
	  query($node, 'credit', 'SELECT * FROM gpucredit.verify() LIMIT 10');
	push @twice, map { "round $round: $_" } split /\n/,
	  query($node, 'credit', $twice);
	@sums = split /\|/, query($node, 'credit', "SET search_path = gpucredit, pg_catalog; $balance");
	push @unbalanced, "round $round: @sums"
	  if grep { $_ ne $sums[0] } @sums;
}

note(sprintf('%d crashes in %d s: %d keyed calls and settlements acknowledged, '
		  . '%d cut off, %d starts, %d heartbeats, %d of them forgotten',
		$crashes, time - $began,
		@sum{qw(acknowledged pending places meters forgotten)}));
cmp_ok($sum{acknowledged}, '>=', 10 * $crashes,
	'the clients got work done between the crashes');
cmp_ok($sum{pending}, '>', 0, 'crashes cut calls off');
cmp_ok($sum{places},  '>', 0, 'jobs were started between the crashes');
is_deeply(\@lost, [], 'what was acknowledged is there, as it was answered');
is_deeply(\@twice, [], 'nothing took effect twice');
is_deeply(\@unbalanced, [], 'what was issued is what the buckets have');
is_deeply(\@broken, [], 'verify() is empty after every crash');
is_deeply(\@unexpected, [], 'no client saw an error it should not');

# A last check of everything, with the calls of all rounds.
my $all = settle_accounts($node, 'credit', glob("$logs/*.log"));
is_deeply($all->{lost}, [], 'and all of it is still there in the end');
verify_empty($node, 'credit');

$node->stop;
done_testing();
