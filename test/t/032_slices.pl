# 032_slices.pl: many clients on one organisation that is spread over slices
#
# With money spread over slices, many clients' holds come to exactly what is
# available, and to exactly what a hard budget allows.  The same is true while
# the number of slices changes, credit returns, moves and is refunded, and at
# every isolation level.  No call meets a deadlock.
#
# GC_SEED replays the clients' random choices, GC_STRESS is how many seconds
# the last part works.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use GpuCredit;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my $seconds = $ENV{GC_STRESS} || 15;
my $seed    = $ENV{GC_SEED}   || time % 1000000;
my $logs    = PostgreSQL::Test::Utils::tempdir();
my $node    = new_node('sliced', 'log_statement = none');

# creating its database takes a round half as long again
my $round_seconds = 2;
my $rounds        = int($seconds / $round_seconds / 1.5) || 1;

diag("GC_SEED=$seed");

# Repeats a call after a serialization error (above READ COMMITTED only);
# returns its result or SQLSTATE.
sub call
{
	my ($dbh, $sql, @args) = @_;

	while (1)
	{
		my $row = eval { $dbh->selectrow_hashref($sql, undef, @args) };

		return $row if $row;
		return { error => $dbh->state }
		  unless $dbh->state eq '40001' && !$dbh->{private_committed};
	}
}

sub client
{
	my ($db, $isolation) = @_;
	my $dbh = connect_to($node, $db);

	$dbh->do("SET default_transaction_isolation = '$isolation'");
	$dbh->{private_committed} = $isolation eq 'read committed';
	return $dbh;
}

# Takes holds until no micro-credit is left: each size until it is denied.
sub hold_all
{
	my ($db, $isolation, $number, @sizes) = @_;
	my $dbh  = client($db, $isolation);
	my $n    = 0;
	my $said = '';

	foreach my $size (@sizes)
	{
		while (1)
		{
			my $row = call($dbh, q{SELECT * FROM gpucredit.hold('hot', 'a', ?, ?,
				'1 day')}, "$number/" . $n++, $size);

			$said .= "$row->{error}\n" if $row->{error};
			last if $row->{error} || $row->{status} eq 'denied';
		}
	}
	append_to_file("$logs/$db-$number", $said);
	return;
}

# Changes the number of slices until told to stop.
sub keep_slicing
{
	my ($db, $isolation) = @_;
	my $dbh  = client($db, $isolation);
	my $said = '';

	for (my $n = 0; !-e "$logs/$db.stop"; $n++)
	{
		foreach my $account ('', 'a')
		{
			my $row = call($dbh, 'SELECT gpucredit.set_slices(?, ?, ?)', 'hot',
				$account, (1, 4, 16, 64, 2, 7)[ $n % 6 ]);

			$said .= "$row->{error}\n" if $row->{error};
		}
		sleep 0.02;
	}
	append_to_file("$logs/$db-slicing", $said);
	return;
}

sub errors_of
{
	my ($db) = @_;

	return join('', map { slurp_file($_) } glob("$logs/$db-*"));
}

sub setup
{
	my ($db, $sql) = @_;

	new_database($node, $db);
	query($node, $db, qq{
		SELECT gpucredit.create_account('hot'),
			gpucredit.create_account('hot', 'a');
		SELECT gpucredit.set_slices('hot', '', 16);
		$sql});
	return;
}

sub no_deadlocks
{
	my ($db, $name) = @_;

	is( query($node, 'postgres', qq{SELECT pg_stat_force_next_flush();
			SELECT deadlocks FROM pg_stat_database WHERE datname = '$db'}),
		"\n0", "$name: no deadlocks");
	return;
}

# Holds come to exactly the total, and to exactly the budget
foreach my $isolation ('read committed', 'repeatable read', 'serializable')
{
	my $clients = $isolation eq 'read committed' ? 16 : 6;

	foreach my $limit ('credit', 'budget')
	{
		my $db   = "${limit}_$isolation" =~ tr/ /_/r;
		my $name = "$isolation, $limit";

		setup($db, $limit eq 'credit' ? q{
			SELECT gpucredit.issue('hot', '', 'i1', 60, 'promo');
			SELECT gpucredit.issue('hot', 'a', 'i2', 25.000001);
			SELECT gpucredit.issue('hot', '', 'i3', 315)}
			: q{
			SELECT gpucredit.set_slices('hot', 'a', 3);
			SELECT gpucredit.issue('hot', '', 'i1', 1000000);
			SELECT gpucredit.set_budget('hot', '', 400.000001, 'none'),
				gpucredit.set_budget('hot', 'a', 900, 'day', hard => false)});
		my @pids = in_parallel($clients,
			sub { hold_all($db, $isolation, $_[0], 1, 0.03, 0.000001) });
		my @slicer = in_parallel(1, sub { keep_slicing($db, $isolation) });

		is(wait_for_children(@pids), 0, "$name: every client went on to its end");
		append_to_file("$logs/$db.stop", '');
		is(wait_for_children(@slicer), 0, "$name: slices were changed meanwhile");
		is(errors_of($db), '', "$name: no errors");
		is( query($node, $db, q{SELECT held, spendable
				FROM gpucredit.balance('hot', 'a')}),
			'400.000001|0.000000', "$name: all of it is held, and no more");
		is( query($node, $db, q{SELECT string_agg(account || ' ' || threshold,
				', ' ORDER BY account, threshold) FROM gpucredit.alert}),
			$limit eq 'credit' ? '' : ' 0.5,  0.8,  1',
			"$name: each threshold was told once");
		no_deadlocks($db, $name);
		verify_empty($node, $db, "$name: verify() is empty");
	}
}

# Everything that moves credit, at random.
sub do_everything
{
	my ($db, $round, $number) = @_;
	my $dbh  = client($db, 'read committed');
	my $end  = time() + $round_seconds;
	my $said = '';
	my (@open, @captured);

	srand($seed + 100 * $round + $number);
	for (my $n = 0; time() < $end; $n++)
	{
		my $key     = "$number/$n";
		my $account = rand() < 0.5 ? '' : 'a';
		my $dice    = rand();
		my $row;

		if ($dice < 0.5 || !@open)
		{
			$row = call($dbh, 'SELECT * FROM gpucredit.hold(?, ?, ?, ?, ?)',
				'hot', $account, $key,
				rand() < 0.9 ? 0.01 + int(rand(300)) / 100 : 50 + int(rand(200)),
				rand() < 0.95 ? '1 h' : '1 s');
			push @open, $row->{hold} if defined $row->{hold};
		}
		elsif ($dice < 0.8)
		{
			my $hold = splice(@open, int(rand(@open)), 1);

			$row = call($dbh, 'SELECT * FROM gpucredit.capture(?, ?, ?, ?)',
				'hot', $hold, $key, '0.01');
			push @captured, $hold unless $row->{error};
			delete $row->{error} if ($row->{error} // '') eq 'UC003';
		}
		elsif ($dice < 0.9)
		{
			my $hold = splice(@open, int(rand(@open)), 1);

			$row = call($dbh, 'SELECT * FROM gpucredit.release(?, ?, ?)',
				'hot', $hold, $key);
		}
		elsif ($dice < 0.96 && @captured)
		{
			$row = call($dbh, q{SELECT * FROM gpucredit.refund_hold(?, ?, ?, ?,
				'test')}, 'hot', splice(@captured, int(rand(@captured)), 1), $key,
				'0.01');
		}
		elsif ($dice < 0.97)
		{
			$row = call($dbh, q{SELECT gpucredit.set_budget('hot', '', ?)},
				1400 + int(rand(200)));
		}
		elsif ($dice < 0.98)
		{
			$row = call($dbh, 'SELECT * FROM gpucredit.expire_credits()');
		}
		elsif ($dice < 0.983)
		{
			$row = call($dbh, q{SELECT count(*) FROM gpucredit.rebuild('hot')});
			$said .= "rebuild found $row->{count}\n" if $row->{count};
		}
		else
		{
			$row = call($dbh, 'SELECT * FROM gpucredit.transfer(?, ?, ?, ?, ?)',
				'hot', (rand() < 0.5 ? ('', 'a') : ('a', '')), $key, '3.5');
		}
		$said .= "$row->{error}\n" if $row->{error};
	}
	append_to_file("$logs/$db-$number", $said);
	return;
}

# Each round has a new database, because slices change most while accounts,
# buckets and budgets are new.
foreach my $round (1 .. $rounds)
{
	my $db    = "mix$round";
	my $name  = "everything at once, $round";
	my $wrong = '';
	my $until = time() + $round_seconds - 0.5;

	setup($db, q{
		SELECT gpucredit.set_slices('hot', 'a', 4);
		SELECT gpucredit.issue('hot', '', 'b' || n, 400, valid_for => '1 day')
		FROM generate_series(1, 3) n;
		SELECT gpucredit.issue('hot', 'a', 'c', 500, 'promo');
		SELECT gpucredit.set_budget('hot', '', 1500),
			gpucredit.set_budget('hot', 'a', 800, 'day')});
	my @pids   = in_parallel(16, sub { do_everything($db, $round, @_) });
	my @slicer = in_parallel(1, sub { keep_slicing($db, 'read committed') });

	while (time() < $until)
	{
		$wrong .= query($node, $db, 'SELECT * FROM gpucredit.verify()');
		sleep 0.5;
	}
	is(wait_for_children(@pids), 0, "$name: every client went on");
	append_to_file("$logs/$db.stop", '');
	is(wait_for_children(@slicer), 0, "$name: slices were changed");
	is(errors_of($db), '', "$name: no errors");
	is($wrong, '', "$name: verify() is empty all the time");
	no_deadlocks($db, $name);
	query($node, $db, q{SELECT gpucredit.set_slices('hot', '', 1),
		gpucredit.set_slices('hot', 'a', 1)});
	is( query($node, $db, q{SELECT (SELECT count(*) FROM gpucredit.bucket
			WHERE spread > 0 AND closed_at IS NULL),
			(SELECT count(*) FROM gpucredit.budget_slice)}),
		'0|0', "$name: one slice is the plain form");
	verify_empty($node, $db);
}

done_testing();
