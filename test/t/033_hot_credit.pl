# 033_hot_credit.pl: a job that waits for credit beside clients that never
# pause
#
# Their bucket's row is locked nearly all the time, so cycles, which do not
# wait, may find it locked every time.  A sweep waits for it for a moment.
# Calls that draw from a bucket queue for it.
#
# Alone: it measures that a sweep gets a row that is busy nearly all the time

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use GpuCredit;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

use constant {
	CLIENTS => 4,
	KEEPS   => 0.005,	# seconds for which each keeps the row locked
	MOST    => 300,		# seconds until the test gives up
};

# autovacuum may truncate a table under a lock that looks like a busy row to a
# sweep
my $node = new_node('main', 'autovacuum = off');
my $db   = 'credit';
my $stop = PostgreSQL::Test::Utils::tempdir() . '/stop';

new_database($node, $db);

# The job has spent the only credit, and then asks for another.
query($node, $db, $_) foreach (
	q{SELECT gpucredit.set_price('T4', 1)},
	q{SELECT gpucredit.register_node('default', 'n1', 'T4', 8, 16384)},
	q{SELECT gpucredit.create_account('hot'), gpucredit.create_account('calm')},
	q{SELECT gpucredit.issue(o, '', 'i1', 1) FROM unnest('{hot,calm}'::text[]) o},
	q{SELECT gpucredit.reserve(o, '', 'j', '1xT4', '1 h')
		FROM unnest('{hot,calm}'::text[]) o},
	q{SELECT count(*) FROM gpucredit.place()},
	q{SET gpucredit.clock_skew = '2 h';
		SELECT gpucredit.settle(j.org, j.job, 1, 'preempted', '1 h')
		FROM gpucredit.job j});
is(states(), 'unfunded unfunded', 'both jobs wait for credit');
query($node, $db, q{SELECT gpucredit.issue('hot', '', 'i2', 1000000)});

my @children = in_parallel(CLIENTS, \&draw);
my $dbh      = connect_to($node, $db);
my $end      = time() + MOST;
my ($sweeps, $funded) = (0, 0);

# until all of them are at work
sleep 0.05 while time() < $end && held() < 20;
while ($funded == 0 && time() < $end)
{
	($funded) = map { $_->[1] } grep { $_->[0] eq 'fund_jobs' }
	  @{ $dbh->selectall_arrayref('SELECT * FROM gpucredit.reap_holds()') };
	$sweeps++;
}
is($funded, 1, 'a sweep queues the job beside clients that never pause');
note("with the sweep number $sweeps");
append_to_file($stop, '');
is(wait_for_children(@children), 0, 'no client that draws met an error');
is(states(), 'unfunded queued', 'the job of the organisation without credit goes on waiting');

# A sweep does not wait for a row that is locked for long, of whatever
# organisation.
query($node, $db, q{SELECT gpucredit.issue('calm', '', 'i2', 10);
	SELECT gpucredit.cancel('hot', j.job, 'x') FROM gpucredit.job j
	WHERE j.org = 'hot'});
$dbh->begin_work;
$dbh->do(q{SELECT FROM gpucredit.bucket b WHERE b.org = 'calm' FOR UPDATE});
is(swept(), '0|1', 'a sweep gives up where the row is kept');
is(states(), 'unfunded cancelled', 'a job whose bucket is locked goes on waiting for credit');
$dbh->rollback;
is(swept(), '1|0', 'a sweep funds the job when its bucket is free');
is(states(), 'queued cancelled', 'the job that was funded is queued');

# While one keeps the bucket locked, the others wait in the queue, none for the
# row.
$dbh->begin_work;
$dbh->do(q{SELECT gpucredit.hold('hot', '', 'keeps', 1, '1 h')});
@children = in_parallel(CLIENTS, sub {
	my ($worker) = @_;
	my $own = connect_to($node, $db);
	$own->do(q{SELECT gpucredit.hold('hot', '', ?, 1, '1 h')}, undef,
		"late-$worker");
	return;
});
$end = time() + MOST;
sleep 0.05 while time() < $end && waiting() ne CLIENTS . '|' . CLIENTS;
is(waiting(), CLIENTS . '|' . CLIENTS, 'who waits for a bucket stands in line');
$dbh->commit;
is(wait_for_children(@children), 0, 'who waited for a bucket meets no error');
is(query($node, $db, q{SELECT count(*) FROM gpucredit.hold h
	JOIN gpucredit.request r ON r.result[1] = h.hold::text
	WHERE r.key LIKE 'late-%'}), CLIENTS, 'each hold that waited for the bucket is granted');
verify_empty($node, $db);

done_testing();

# Takes credit, keeps the row locked for a moment, and begins again.
sub draw
{
	my ($worker) = @_;
	my $own = connect_to($node, $db);

	for (my $n = 0; !-e $stop; $n++)
	{
		$own->begin_work;
		$own->do(q{SELECT gpucredit.hold('hot', '', ?, 0.000001, '1 h')},
			undef, "$worker-$n");
		sleep KEEPS;
		$own->commit;
	}
	return;
}

sub states
{
	return query($node, $db,
		q{SELECT string_agg(state, ' ' ORDER BY org) FROM gpucredit.job});
}

sub held
{
	return query($node, $db,
		q{SELECT count(*) FROM gpucredit.hold WHERE job IS NULL});
}

# How many jobs a sweep queued, and how many it skipped.
sub swept
{
	return query($node, $db, q{SET statement_timeout = '2min';
		SELECT string_agg(affected::text, '|' ORDER BY task)
		FROM gpucredit.reap_holds() WHERE task IN ('fund_jobs', 'skipped')});
}

# How many wait in the queue, and how many for any lock.
sub waiting
{
	return query($node, $db, q{SELECT count(*) FILTER (WHERE
			l.locktype = 'advisory' AND l.objsubid = 26467), count(*)
		FROM pg_locks l WHERE NOT l.granted});
}
