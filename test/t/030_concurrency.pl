# 030_concurrency.pl: many clients at once
#
# A thousand reservations want the last credits.  Clients make all kinds of
# calls at once, also while their connections are cut.  Scheduling cycles race.
#
# GC_SEED replays the clients' random choices, GC_STRESS is how many seconds
# they work.
#
# Long: it takes minutes

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use GpuCredit;
use GpuCreditLoad;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my $seconds = $ENV{GC_STRESS} || 60;
my $seed    = $ENV{GC_SEED}   || time % 1000000;
my $logs    = PostgreSQL::Test::Utils::tempdir();
my $node    = new_node('busy', world_conf(), 'log_statement = none');

diag("GC_SEED=$seed");

# 1,000 reservations of 0.10 against 5 credits, 20 connections in a burst
foreach my $isolation ('read committed', 'repeatable read', 'serializable')
{
	my $db = "last_$isolation" =~ tr/ /_/r;

	new_database($node, $db);
	query(
		$node, $db, q{
		SELECT gpucredit.set_price('T4', 0.10);
		SELECT gpucredit.register_node('default', 'n1', 'T4', 8, 16384);
		SELECT gpucredit.create_account('acme'),
			gpucredit.create_account('acme', 'u' || n)
		FROM generate_series(1, 4) n;
		SELECT gpucredit.issue('acme', '', 'i' || n, 0.5)
		FROM generate_series(1, 10) n;});
	is_deeply(burst($db, $isolation),
		{ granted => 50, 'denied insufficient_credits' => 950 },
		"$isolation: of 1,000 reservations of 0.10, 5 credits pay for 50");
	is( query($node, $db, q{SELECT available, held, spent
			FROM gpucredit.balance('acme')}),
		'0.000000|5.000000|0.000000', "$isolation: all 5 credits are held");
	is( query($node, $db, q{SELECT count(*), count(*) FILTER (WHERE hold IN
			(SELECT hold FROM gpucredit.hold WHERE held::numeric = 0.10))
			FROM gpucredit.job}),
		'50|50', "$isolation: 50 jobs, each with its 0.10");
	verify_empty($node, $db, "$isolation: verify() is empty");
}

# Sends 1,000 reservations over 20 connections; counts the answers.
sub burst
{
	my ($db, $isolation) = @_;
	my $start = time + 2;
	my %count;
	my @pids = in_parallel(20, sub { reserve_repeatedly($db, $isolation, $start,
				$_[0], 50) });

	is(wait_for_children(@pids), 0, "$isolation: every client went on to its end");
	foreach my $file (glob("$logs/$db-*"))
	{
		$count{$_}++ foreach split /\n/, slurp_file($file);
	}
	return \%count;
}

# One client makes so many reservations, and repeats each after 40001.  No lock
# waits are involved.
sub reserve_repeatedly
{
	my ($db, $isolation, $start, $number, $n) = @_;
	my $dbh = connect_to($node, $db);
	my $words = '';

	$dbh->do("SET default_transaction_isolation = '$isolation'");
	sleep($start - time) if $start > time;
	foreach my $i (1 .. $n)
	{
		while (1)
		{
			my $row = eval {
				$dbh->selectrow_hashref(
					q{SELECT * FROM gpucredit.reserve('acme', ?, ?, '1xT4',
						'1 hour')},
					undef, 'u' . (1 + $i % 4), "$number/$i");
			};

			if (!$row && $dbh->state eq '40001' && $isolation ne 'read committed')
			{
				next;
			}
			$words .= $row
			  ? join(' ', $row->{status}, $row->{reason} || ()) . "\n"
			  : $dbh->state . "\n";
			last;
		}
	}
	append_to_file("$logs/$db-$number", $words);
	return;
}

# Everything at once.  Options: isolation, reconnect.
sub stress
{
	my ($db, $name, $n, %options) = @_;
	my @files = map { "$logs/$db-$_.log" } 0 .. $n - 1;
	my ($account, @pids);

	new_database($node, $db);
	setup_world($node, $db);
	@pids = in_parallel(
		$n,
		sub {
			run_client(
				$node, $db, %options,
				number  => $_[0],
				seed    => $seed,
				log     => $files[ $_[0] ],
				least   => 21,
				seconds => $seconds);
		});
	cut_connections($db, time + $seconds - 1) if $options{reconnect};
	is(wait_for_children(@pids), 0, "$name: every client went on to its end");
	is( query($node, $db, q{SELECT deadlocks FROM pg_stat_database
			WHERE datname = current_database()}),
		0, "$name: no deadlock");
	verify_empty($node, $db, "$name: verify() is empty");

	$account = settle_accounts($node, $db, @files);
	note(sprintf('%s: %d keyed calls and settlements, %d cut off, %d starts, '
			  . '%d heartbeats; %s',
			$name, @{$account}{qw(acknowledged pending places meters)},
			join(' ', map { "$account->{states}{$_} x $_" }
				  sort keys %{ $account->{states} })));
	is_deeply($account->{unexpected}, [], "$name: no error that should not be");
	is_deeply($account->{lost}, [], "$name: every call is there, as answered");
	is(effects($db), '', "$name: no call took effect twice");
	cmp_ok($account->{acknowledged}, '>', 20 * $n, "$name: work was done");
	verify_empty($node, $db, "$name: verify() is still empty");
	return;
}

# Effects that exist more or less often than they were granted.
sub effects
{
	my ($db) = @_;

	return query($node, $db, q{
		SELECT w.what, w.found, r.n
		FROM (SELECT 'hold' AS what, count(*) AS found FROM gpucredit.hold
				WHERE job IS NULL
			UNION ALL SELECT 'reserve', count(*) FROM gpucredit.job
			UNION ALL SELECT 'issue', count(*) FROM gpucredit.entry
				WHERE operation = 'issue') w
		JOIN (SELECT operation, count(*) AS n FROM gpucredit.request
			WHERE operation = 'issue' OR 'granted' = ANY (result)
			GROUP BY operation) r ON r.operation = w.what
		WHERE w.found <> r.n
		UNION ALL
		SELECT 'captured', sum(captured)::text::numeric * 1000000, 0
		FROM gpucredit.hold WHERE closed_at IS NOT NULL AND held > '0'
		HAVING count(*) > 0});
}

# Ends connections of clients at random.
sub cut_connections
{
	my ($db, $until) = @_;
	my $dbh = connect_to($node, 'postgres', name => 'cutter');
	my $cut = 0;

	while (time < $until)
	{
		sleep(0.02 + rand(0.15));
		$cut += $dbh->selectrow_array(
			q{SELECT count(pg_terminate_backend(pid)) FROM (SELECT pid
				FROM pg_stat_activity WHERE datname = ?
				AND application_name = 'load' ORDER BY random() LIMIT 1) p},
			undef, $db);
	}
	$dbh->disconnect;
	cmp_ok($cut, '>', 5, 'connections were cut');
	return;
}

stress('busy', 'everything at once', 16);
$seconds = int($seconds / 3) || 1;
stress('cut', 'with connections cut', 16, reconnect => 1);
$seconds = int($seconds / 2) || 1;
stress('repeatable', 'at repeatable read', 6, isolation => 'repeatable read');
stress('serializable', 'at serializable', 6, isolation => 'serializable');

# Two sessions in a loop never start a job twice or give a device twice
{
	my (@pids, %started, $twice);

	new_database($node, 'race');
	query(
		$node, 'race', q{
		SELECT gpucredit.set_price('T4', 0.10);
		SELECT gpucredit.register_node('default', 'n' || n, 'T4', 8, 16384)
		FROM generate_series(1, 25) n;
		SELECT gpucredit.create_account('acme');
		SELECT gpucredit.issue('acme', '', 'i', 1000);
		SELECT count(gpucredit.reserve('acme', '', 'j' || n, '1xT4', '1 hour'))
		FROM generate_series(1, 300) n;});
	@pids = in_parallel(
		4,
		sub {
			my $dbh = connect_to($node, 'race');
			my $words = '';
			my $until = time + 120;

			# two of them may decide on old snapshots
			$dbh->do("SET default_transaction_isolation = 'repeatable read'")
			  if $_[0] > 1;
			while (time < $until)
			{
				my $rows = eval {
					$dbh->selectall_arrayref(
						"SELECT action, job FROM gpucredit.place('default', 3)");
				};

				last if $rows && !@$rows;
				$words .= "$_->[0] " . ($_->[1] || '') . "\n"
				  foreach @{ $rows || [ [ 'error', $dbh->state ] ] };
			}
			append_to_file("$logs/race-$_[0]", $words);
		});
	is(wait_for_children(@pids), 0, 'racing cycles: every client went on');
	$started{$_}++ foreach map { split /\n/, slurp_file($_) } glob("$logs/race-*");
	is( join(' ', grep { /^start/ && $started{$_} > 1 } keys %started),
		'', 'racing cycles: no job was started twice');
	is(scalar(grep { /^start/ } keys %started),
		200, 'racing cycles: every device of 200 got a job');
	is( join(' ', grep { !/^start|^busy|^error 40001$/ } keys %started),
		'', 'racing cycles: who was late was told busy, or 40001');
	is( query($node, 'race', q{SELECT count(*), count(DISTINCT (node, gpus::text))
			FROM gpucredit.attempt_gpu}),
		'200|200', 'racing cycles: no device was given twice');
	verify_empty($node, 'race', 'racing cycles: verify() is empty');
}

is( query($node, 'postgres', q{SELECT sum(deadlocks) FROM pg_stat_database}),
	0, 'no deadlock anywhere');
$node->stop;
done_testing();
