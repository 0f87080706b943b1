# 053_size.pl: a call reads as much in a large organisation as in a small one
#
# One organisation has thousands of accounts, each with a budget and a bucket,
# and many running jobs; another has ten accounts.  Each call is made in both,
# and EXPLAIN counts the buffers that it and all statements within it use.  The
# counts must not differ by more than half, whatever the planner knows of the
# tables: statistics of a time when the large organisation was small, none at
# all (as after a restore), or those of now.  A kept plan is made for an average
# organisation, so a statement that leaves the planner a choice is found here.
#
# GC_SIZE=10 tests 50,000 accounts and 10,000 running jobs.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use GpuCredit;
use JSON::PP;
use Test::More;

my $SIZE     = $ENV{GC_SIZE} || 1;
my $PROJECTS = 50;
my $USERS    = 100 * $SIZE;		# of each project
my $RUNNING  = 1000 * $SIZE;
my $SMALL    = 200;				# organisations of ten accounts
my $MOST     = 1.5;				# times the buffers
my $SLACK    = 8;				# buffers that a page split or a deeper index adds

my $node = new_node('size', 'autovacuum = off', 'work_mem = 64MB',
	'checkpoint_timeout = 1h', 'max_wal_size = 8GB',
	'gpucredit.node_suspect = 0',	# no agent speaks for the nodes
	split /;/, $ENV{GC_SIZE_CONF} || '');
my $keys = 0;

new_database($node, 'size');
query($node, 'size', q{
	SELECT gpucredit.set_price('T4', 1), gpucredit.create_pool('waiting'),
		gpucredit.register_node('waiting', 'w', 'T4', 1, 16384)});
fill('small', $SMALL, 1, 8);
query($node, 'size', 'ANALYZE');
fill('large', 1, $PROJECTS, $USERS);
run('large1', $RUNNING);
run('small1', 80);
query($node, 'size', "SELECT gpucredit.upkeep('fold_spend')");
# the organisation's bucket has as many dead versions as jobs began in one
# transaction
query($node, 'size', 'VACUUM gpucredit.bucket');

in_one_transaction();
compare('statistics of when it was small');
query($node, 'size', q{
	SET allow_system_table_mods = on;
	DELETE FROM pg_statistic WHERE starelid IN (SELECT oid FROM pg_class
		WHERE relnamespace = 'gpucredit'::regnamespace);
	UPDATE pg_class SET reltuples = -1, relpages = 0
	WHERE relnamespace = 'gpucredit'::regnamespace AND relkind IN ('r', 'i')});
compare('no statistics');
query($node, 'size', 'VACUUM (ANALYZE)');
compare('statistics of now');

verify_empty($node, 'size');
after_years();
$node->stop;
done_testing();

# Organisations with so many projects and users, each with a bucket and a hard
# budget, and a budget for all of it.
sub fill
{
	my ($name, $n, $projects, $users) = @_;
	my $each = "FROM generate_series(1, $n) o, generate_series(1, $projects) p";
	my $user = "$each, generate_series(1, $users) u";

	query($node, 'size', $_) foreach (
		"SELECT count(gpucredit.create_account('$name' || o)) FROM generate_series(1, $n) o",
		"SELECT count(gpucredit.create_account('$name' || o, 'p' || p)) $each",
		"SELECT count(gpucredit.create_account('$name' || o, 'p' || p || '/u' || u)) $user",
		"SELECT count(gpucredit.issue('$name' || o, '', 'start', 1000000000))
			FROM generate_series(1, $n) o",
		"SELECT count(gpucredit.issue('$name' || o, 'p' || p || '/u' || u,
			'promo ' || p || ' ' || u, 0.01, 'promo')) $user",
		"SELECT count(gpucredit.set_alert('$name' || o, 'p' || p || '/u' || u, 0.005)) $user",
		"SELECT count(gpucredit.set_budget('$name' || o, '', 1000000000))
			FROM generate_series(1, $n) o",
		"SELECT count(gpucredit.set_budget('$name' || o, 'p' || p, 100000000)) $each",
		"SELECT count(gpucredit.set_budget('$name' || o, 'p' || p || '/u' || u, 10000000)) $user");
	return;
}

# Starts so many jobs of an organisation, each of another account, on nodes of
# eight in a pool of its own, and meters them.
sub run
{
	my ($org, $n) = @_;
	my $users = $org =~ /large/ ? $USERS : 8;
	my $projects = $org =~ /large/ ? $PROJECTS : 1;

	query($node, 'size', qq{
		SELECT gpucredit.create_pool('$org');
		SELECT count(gpucredit.register_node('$org', '$org-' || n, 'T4', 8, 16384))
		FROM generate_series(1, $n / 8) n;
		SELECT count(gpucredit.reserve('$org', 'p' || 1 + n % $projects || '/u' || 1 + n / $projects % $users,
			'run ' || n, '1xT4', '1 day', pool => '$org', hold_window => '1 h')) FROM generate_series(1, $n) n});
	# a cycle ends after some time, on a busy machine with fewer starts
	foreach (1 .. 1000)
	{
		last if query($node, 'size', "SELECT count(*) FROM gpucredit.place('$org')") == 0;
	}
	query($node, 'size', qq{
		SELECT count(gpucredit.meter(org, job, attempt, '1 s'))
		FROM gpucredit.attempt WHERE org = '$org'});
	return;
}

# What a call that sets something costs does not grow with the calls that its
# transaction has made before.
sub in_one_transaction
{
	my $dbh = connect_to($node, 'size');
	my %set = (
		create_account => "gpucredit.create_account('large1', 'p2/new' || u)",
		set_alert => "gpucredit.set_alert('large1', 'p2/u' || u, 0.004)",
		set_budget => "gpucredit.set_budget('large1', 'p2/u' || u, 77, 'year')",
		set_quota => "gpucredit.set_quota('large1', 'p2/u' || u, NULL, 8)",
		issue => "gpucredit.issue('large1', 'p2/u' || u, 'more ' || u, 1)");

	foreach my $call (sort keys %set)
	{
		my $of = sub { "SELECT count($set{$call}) FROM generate_series($_[0], $_[1]) u" };
		my $others = $of->(1, $USERS) =~ s/'p2/'p' || p || '/r;
		my $tenth = $USERS / 10;
		my ($first, $last);

		$others =~ s/'more '/'more ' || p || ' '/;
		$dbh->begin_work;
		$dbh->do($of->(1, $tenth));		# plans what it needs
		$first = buffers($dbh, $of->($tenth + 1, 2 * $tenth));
		$dbh->do("$others, generate_series(3, $PROJECTS) p");
		$last = buffers($dbh, $of->(2 * $tenth + 1, 3 * $tenth));
		$dbh->rollback;
		cmp_ok($last, '<=', $MOST * $first,
			"$call: $tenth calls after as many as there are accounts use at most $MOST times the $first buffers of the first");
	}
	$dbh->disconnect;
	query($node, 'size', 'VACUUM');	# what was rolled back
	return;
}

# Compares all calls.
sub compare
{
	my ($known) = @_;
	my $small = measure('small1', 1, 8);
	my $large = measure('large1', $PROJECTS, $USERS);

	foreach my $call (sort keys %$small)
	{
		cmp_ok($large->{$call}, '<=', $SLACK + $MOST * $small->{$call},
			"$call, with $known: at most $MOST times the $small->{$call} buffers of a small organisation");
	}
	return;
}

# What operators watch reads the jobs that wait and run, not those that are
# over.  The history is copies of one job, which the books cannot be right with.
sub after_years
{
	my %calls = (
		'metrics of jobs' => "SELECT * FROM gpucredit.metric_samples('{jobs_open,queue_oldest_seconds}')",
		queue => "SELECT * FROM gpucredit.queue('waiting')",
		queue_reasons => "SELECT * FROM gpucredit.queue_reasons('waiting')");
	my %before;

	# As on a busy server, no page of jobs is known to be visible to all, before
	# and after: an index alone does not say that an entry counts.
	query($node, 'size', q{
		CREATE EXTENSION pg_visibility;
		SELECT pg_truncate_visibility_map('gpucredit.job')});
	%before = screens(%calls);
	query($node, 'size', q{
		INSERT INTO gpucredit.job
		SELECT (j.copy).*
		FROM (SELECT jsonb_populate_record(j, jsonb_build_object('job', 1000000 + n)) AS copy
			FROM gpucredit.job j, generate_series(1, 20000) n
			WHERE j.job = (SELECT max(o.job) FROM gpucredit.job o
				WHERE o.pool = 'waiting' AND o.ended_at IS NOT NULL) OFFSET 0) j});
	foreach my $known ('as they were', 'of now')
	{
		my %after;

		query($node, 'size', 'VACUUM (ANALYZE) gpucredit.job') if $known eq 'of now';
		%after = screens(%calls);
		cmp_ok($after{$_}, '<=', $SLACK + $MOST * $before{$_},
			"$_, statistics $known: 20,000 jobs that are over add nothing to its $before{$_} buffers")
			foreach sort keys %calls;
	}
	return;
}

sub screens
{
	my %calls = @_;
	my $dbh = connect_to($node, 'size');
	my %buffers;

	foreach my $call (keys %calls)
	{
		buffers($dbh, $calls{$call});	# plans what it needs
		$buffers{$call} = buffers($dbh, $calls{$call});
	}
	$dbh->disconnect;
	return %buffers;
}

# How many buffers each call uses in an organisation, in a session of its own.
sub measure
{
	my ($org, $projects, $users) = @_;
	my $dbh = connect_to($node, 'size');
	my %buffers;
	my $n = 0;

	my ($turn) = $dbh->selectrow_array(
		'SELECT count(*) FROM gpucredit.job WHERE org = ? AND pool = ?', undef, $org, 'waiting');
	foreach my $round (1 .. 6)
	{
		my $account = sprintf('p%d/u%d', 1 + ($turn + $round) % $projects,
			1 + (7 * $turn + 3 * $round) % $users);
		my $key = "$org " . ++$keys;
		my %job = attempts_of($dbh, $org);
		my $count = sub {
			my ($call, $sql) = @_;
			push @{ $buffers{$call} }, buffers($dbh, $sql);
		};
		my ($job, $hold);

		$dbh->do("SELECT gpucredit.create_account('$org', 'p1/$key')");
		$count->('set_budget', "SELECT gpucredit.set_budget('$org', 'p1/$key', 1000)");
		$count->('set_budget, passed at once', "SELECT gpucredit.set_budget('$org', '', 1, 'year', false)");
		$count->('reserve, first of its account', "SELECT gpucredit.reserve('$org', 'p1/$key', '$key a',
			'1xT4', '1 hour', pool => 'waiting')");
		$dbh->do("SELECT gpucredit.reserve('$org', '$account', '$key b', '1xT4', '1 hour', pool => 'waiting')");
		$count->('reserve', "SELECT gpucredit.reserve('$org', '$account', '$key',
			'1xT4', '1 hour', pool => 'waiting')");
		$count->('quote', "SELECT gpucredit.quote('$org', '$account', '1xT4', '1 hour',
			pool => 'waiting', plan => false)");
		($job) = $dbh->selectrow_array("SELECT max(job) FROM gpucredit.job WHERE org = '$org' AND state = 'queued'");
		$count->('explain', "SELECT * FROM gpucredit.explain('$org', $job)") if $round <= 4;
		$count->('cancel, waiting', "SELECT gpucredit.cancel('$org', $job, '$key c')");
		$count->('cancel, running', "SELECT gpucredit.cancel('$org', $job{cancel}[0], '$key d')");
		$count->('meter', "SELECT gpucredit.meter('$org', $job{running}[0], 1, '$round s 1 ms')");
		$count->('meter with an extension', "SELECT gpucredit.meter('$org', $job{running}[0], 1, '$round h')");
		$count->('settle', "SELECT gpucredit.settle('$org', $job{completed}[0], 1, 'completed', '2 s')");
		$count->('settle with a requeue', "SELECT gpucredit.settle('$org', $job{failed}[0], 1, 'failed', '2 s', 1)");
		$count->('heartbeat', "SELECT gpucredit.heartbeat('$job{running}[1]')");
		$count->('hold', "SELECT gpucredit.hold('$org', '$account', '$key h', 1, '1 hour')");
		($hold) = $dbh->selectrow_array("SELECT max(hold) FROM gpucredit.hold WHERE org = '$org' AND job IS NULL");
		$count->('extend_hold', "SELECT gpucredit.extend_hold('$org', $hold, '$key x', 1)");
		$count->('capture', "SELECT gpucredit.capture('$org', $hold, '$key t', 0.5)");
		$count->('refund', "SELECT gpucredit.refund_hold('$org', $hold, '$key r', 0.25, 'test')");
		$dbh->do("SELECT gpucredit.hold('$org', '$account', '$key l', 1, '1 hour')");
		($hold) = $dbh->selectrow_array("SELECT max(hold) FROM gpucredit.hold WHERE org = '$org' AND job IS NULL");
		$count->('release', "SELECT gpucredit.release('$org', $hold, '$key y')");
		$dbh->do("SELECT gpucredit.upkeep('fold_spend')");
		$count->('balance', "SELECT gpucredit.balance('$org', '')");
		$count->('balance of a user', "SELECT gpucredit.balance('$org', '$account')");
		$count->('budgets', "SELECT gpucredit.budgets('$org', '$account')");
		$count->('buckets', "SELECT gpucredit.buckets('$org', '$account')");
	}
	$dbh->disconnect;
	return { map { $_ => median(@{ $buffers{$_} }) } keys %buffers };
}

# Four running attempts of an organisation, [job, node], each for a purpose.
sub attempts_of
{
	my ($dbh, $org) = @_;
	my $rows = $dbh->selectall_arrayref(q{SELECT a.job, min(g.node)
		FROM gpucredit.attempt a JOIN gpucredit.job j USING (org, job)
			JOIN gpucredit.attempt_gpu g ON g.org = a.org AND g.job = a.job AND g.attempt = a.attempt
		WHERE a.org = ? AND a.ended_at IS NULL AND a.attempt = 1 AND NOT j.cancelled
		GROUP BY a.job ORDER BY md5(a.job || ?) LIMIT 4}, undef, $org, ++$keys);

	return map { ([qw(completed failed running cancel)]->[$_] => $rows->[$_]) } 0 .. 3;
}

sub buffers
{
	my ($dbh, $sql) = @_;
	my ($plan) = $dbh->selectrow_array("EXPLAIN (ANALYZE, BUFFERS, TIMING off, FORMAT json) $sql");
	my $top = decode_json($plan)->[0]{Plan};

	return $top->{'Shared Hit Blocks'} + $top->{'Shared Read Blocks'};
}

sub median
{
	my @sorted = sort { $a <=> $b } @_;

	return $sorted[ @sorted / 2 ];
}
