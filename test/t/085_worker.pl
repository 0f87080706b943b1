# 085_worker.pl: the background worker that runs scheduling cycles
#
# The interval is ten minutes, so a job that starts within it was started
# because a commit or a sweep woke the worker, even on a slow machine.  Tests
# of the interval itself use a short one.
#
# Alone: it measures how soon the worker wakes

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use GpuCredit;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my $node = PostgreSQL::Test::Cluster->new('primary');

# Without preload the setting says that it does nothing.
init_node($node, allows_streaming => 1);
$node->append_conf('postgresql.conf', "max_connections = 50\n");
$node->start;
new_database($node, 'credit');
my ($status, $out, $err) = $node->psql('credit',
	q{SELECT gpucredit.now(); ALTER SYSTEM SET gpucredit.database = 'credit'});
like($err, qr/WARNING:  gpucredit.database has no effect.*shared_preload/s,
	'without preload the setting says what is missing');
$node->safe_psql('postgres', 'DROP DATABASE credit');
$node->safe_psql('postgres', 'ALTER SYSTEM RESET ALL');

$node->append_conf(
	'postgresql.conf', q{
shared_preload_libraries = 'gpucredit'
gpucredit.database = 'credit, "Other Db", ghost'
gpucredit.scheduler_interval = '10min'
gpucredit.node_suspect = 0
gpucredit.node_lost = 0
gpucredit.heartbeat_timeout = '1h'
autovacuum = off
max_prepared_transactions = 2
});
$node->restart;
ok(poll(q{SELECT count(*) = 1 FROM pg_stat_activity
	WHERE backend_type = 'gpucredit launcher'}), 'the launcher is there');
is(workers(), 0, 'the launcher waits for databases in silence');

# A new database is found, and scheduled as soon as it has a job.
$node->safe_psql('postgres', 'CREATE DATABASE credit');
ok(poll(q{SELECT count(*) = 1 FROM pg_stat_activity
	WHERE backend_type = 'gpucredit scheduler' AND datname = 'credit'
		AND application_name = 'gpucredit scheduler'}),
	'a database that is created gets its worker');
set_up('credit');
my $dbh = connect_to($node, 'credit');

# From the call of reserve, which ends with its commit, to starting.
my @took;
foreach my $n (1 .. 30)
{
	my $since = time;
	my $job   = reserve($dbh, "quick $n");

	sleep(0.0005) until attempts($dbh, $job) > 0 || time - $since > 60;
	push @took, 1000 * (time - $since);
	last if $took[-1] > 60_000;
	$dbh->do(q{SELECT gpucredit.settle('acme', ?, 1, 'completed', '0')},
		undef, $job);
	sleep(0.02);
}
@took = sort { $a <=> $b } @took;
diag(sprintf('from the call of reserve to starting: median %.1f ms, worst %.1f ms',
		$took[@took / 2], $took[-1]));
cmp_ok($took[-1], '<', 60_000, 'a job starts soon after its reserve committed');

# A rollback wakes nobody; an end makes room for the next job.
$dbh->do(q{SELECT gpucredit.drain('n2', 'test')});
my $before = quiet_cycles();
$dbh->begin_work;
my $never = reserve($dbh, 'rolled back');
$dbh->rollback;
$dbh->begin_work;
$dbh->do('SAVEPOINT here');
$never = reserve($dbh, 'rolled back');
$dbh->do('ROLLBACK TO here');
$dbh->commit;
sleep(0.3);
is(cycles(), $before, 'what is rolled back, also to a savepoint, wakes nobody');
my $prepared = reserve_prepared('prepared');
sleep(0.3);
is(cycles(), $before, 'the commit of a prepared transaction wakes nobody');
$dbh->do(q{SELECT gpucredit.cancel('acme', ?, 'prepared no more')},
	undef, $prepared);
my $first  = reserve($dbh, 'first',  '4xT4');
my $second = reserve($dbh, 'second', '4xT4');
ok(soon(sub { attempts($dbh, $first) == 1 }), 'the first of two jobs has the node');
sleep(0.3);
is(attempts($dbh, $second), 0, 'the second of two jobs waits');
$dbh->do(q{SELECT gpucredit.settle('acme', ?, 1, 'completed', '0')},
	undef, $first);
ok(soon(sub { attempts($dbh, $second) == 1 }), 'the second of two jobs starts when the first one ends');
my $third = reserve($dbh, 'third', '4xT4');
sleep(0.2);
$dbh->do(q{SELECT gpucredit.resume('n2')});
ok(soon(sub { attempts($dbh, $third) == 1 }), 'a job starts when a node comes back');
finish_all($dbh);
ok($node->poll_query_until('credit', 'SELECT count(*) > 0 FROM gpucredit.seals'),
	'the upkeep worker seals, as nobody else does');

# Other callers run cycles too, at any isolation level: no device is given
# twice.
my @pids = in_parallel(6, \&crowd);
is(wait_for_children(@pids), 0, 'six clients reserve, place and settle');
is( query(
		$node, 'credit',
		q{SELECT max(attempt) FROM gpucredit.attempt}),
	'1', 'every job of the six clients started once');
verify_empty($node, 'credit', 'on devices of its own');

# A cycle that missed another session's settle left waiting jobs.
ok( soon(
		sub {
			finish_all($dbh);
			$dbh->selectrow_array(
				q{SELECT count(*) = 0 FROM gpucredit.job WHERE ended_at IS NULL});
		}),
	'what they left is finished');

# The worker ends attempts that nobody else ends: a provider takes a node back.
{
	my $gone = reserve($dbh, 'gone');

	ok(soon(sub { attempts($dbh, $gone) == 1 }), 'a job runs');
	my ($on) = $dbh->selectrow_array(
		'SELECT node FROM gpucredit.attempt_gpu WHERE job = ? AND NOT free',
		undef, $gone);

	$dbh->do(q{SELECT gpucredit.reclaim(?, '1 s')}, undef, $on);
	ok( soon(
			sub {
				$dbh->selectrow_array(q{SELECT count(*) FROM gpucredit.attempt
					WHERE job = ? AND attempt = 2 AND ended_at IS NULL},
					undef, $gone);
			}),
		'a job whose node is taken back runs elsewhere');
	is( $dbh->selectrow_array(
			q{SELECT outcome FROM gpucredit.attempt
				WHERE job = ? AND attempt = 1}, undef, $gone),
		'preempted', 'the attempt on the node that was taken back is preempted by the worker\'s sweep');
	cmp_ok(
		$dbh->selectrow_array(
			q{SELECT EXTRACT(epoch FROM b.started_at - a.ended_at)
			FROM gpucredit.attempt a JOIN gpucredit.attempt b USING (org, job)
			WHERE a.job = ? AND a.attempt = 1 AND b.attempt = 2},
			undef, $gone),
		'<', 60, 'the next attempt starts at once when the sweep has ended the first one');
	finish_all($dbh);
	$dbh->do('SELECT gpucredit.resume(?)', undef, $on);
}

# Nobody reports the end of a hold's time; the sweep finds it.
{
	$dbh->do(q{SELECT gpucredit.create_account('poor'),
		gpucredit.issue('poor', '', 'paid', 3)});
	my ($job) = $dbh->selectrow_array(
		q{SELECT job FROM gpucredit.reserve('poor', '', 'job', '1xT4', '1 h')});

	ok(soon(sub { attempts($dbh, $job) == 1 }), 'a job runs, and is preempted');
	# all in one instant, before the hold's time is up
	$dbh->begin_work;
	$dbh->do(q{SELECT set_config('gpucredit.clock', clock_timestamp()::text, true)});
	$dbh->do(q{SELECT gpucredit.hold('poor', '', 'hold', 2, '1 s'),
		gpucredit.set_price('T4', 2),
		gpucredit.settle('poor', ?, 1, 'preempted', '0')}, undef, $job);
	is( $dbh->selectrow_array(
			'SELECT state FROM gpucredit.job WHERE job = ?', undef, $job),
		'unfunded', 'when others have its credit');
	$dbh->commit;
	ok(soon(sub { attempts($dbh, $job) == 1 }),
		'the job without credit gets what a hold past its ttl held, and runs');
	$dbh->do(q{SELECT gpucredit.set_price('T4', 1)});
	finish_all($dbh);
}

# The next sweep continues at once where one ran out of time: a sweep ends
# before half of deadlock_timeout has passed.
{
	$node->safe_psql('postgres',
		q{ALTER SYSTEM SET deadlock_timeout = '20ms'});
	$node->reload;
	$dbh->do(q{SELECT gpucredit.create_account('many'),
		gpucredit.issue('many', '', 'paid', 1000)});
	$dbh->do(q{SELECT count(gpucredit.hold('many', '', 'hold ' || n, 1, '1 ms'))
		FROM generate_series(1, 1000) n});
	ok( soon(
			sub {
				$dbh->selectrow_array(q{SELECT count(*) = 0 FROM gpucredit.hold
					WHERE org = 'many' AND closed_at IS NULL});
			}),
		'a thousand holds past their ttl are released');
	cmp_ok(
		$dbh->selectrow_array(
			q{SELECT EXTRACT(epoch FROM max(closed_at) - min(closed_at))
			FROM gpucredit.hold WHERE org = 'many'}),
		'<', 60, 'many dead holds are released by one sweep after the other');
	$node->safe_psql('postgres', 'ALTER SYSTEM RESET deadlock_timeout');
	$node->reload;
}

# Devices that return go to a waiting job.
$dbh->do(q{SELECT gpucredit.heartbeat('n' || n, '{}')
	FROM generate_series(1, 2) n});
my $broken = reserve($dbh, 'broken');
sleep(0.3);
is(attempts($dbh, $broken), 0, 'a job waits while no device works');
$dbh->do(q{SELECT gpucredit.heartbeat('n1')});
ok(soon(sub { attempts($dbh, $broken) == 1 }), 'a job starts when a device works again');
$dbh->do(q{SELECT gpucredit.heartbeat('n2')});
finish_all($dbh);

# Conflicts with concurrent calls do not cost an interval.
query(
	$node, 'credit', q{
	CREATE SEQUENCE public.times;
	CREATE FUNCTION public.once() RETURNS trigger LANGUAGE plpgsql AS
		$$ BEGIN
			IF nextval('public.times') = 1 THEN
				RAISE SQLSTATE '40001';
			END IF;
			RETURN new;
		END $$;
	CREATE TRIGGER once BEFORE UPDATE ON gpucredit.pool
		FOR EACH ROW EXECUTE FUNCTION public.once()});
starts('disturbed', 'a cycle that meets others is tried again');
query($node, 'credit', q{
	ALTER SEQUENCE public.times RESTART;
	CREATE OR REPLACE FUNCTION public.once() RETURNS trigger LANGUAGE plpgsql AS
		$$ BEGIN
			IF nextval('public.times') = 1 THEN
				RAISE 'not this time';
			END IF;
			RETURN new;
		END $$});
starts('failed', 'one that fails is tried again long before the interval');
query($node, 'credit', 'DROP TRIGGER once ON gpucredit.pool');

# Even with a short interval, a pool rests between cycles for as long as they
# take.  Here each cycle starts one job and takes a while.
query(
	$node, 'credit', q{
	CREATE TABLE public.cycle (began timestamptz, ended timestamptz);
	CREATE FUNCTION public.dawdle() RETURNS trigger LANGUAGE plpgsql
		SECURITY DEFINER AS $$
		DECLARE
			began timestamptz := clock_timestamp();
		BEGIN
			PERFORM pg_sleep(0.4);
			INSERT INTO public.cycle VALUES (began, clock_timestamp());
			RETURN new;
		END $$;
	CREATE TRIGGER dawdle BEFORE INSERT ON gpucredit.attempt
		FOR EACH ROW EXECUTE FUNCTION public.dawdle()});
$node->safe_psql('postgres', $_) foreach (
	q{ALTER SYSTEM SET gpucredit.scheduler_interval = '10ms'},
	q{ALTER SYSTEM SET gpucredit.max_starts = 1});
$node->reload;
my @slow = map { reserve($dbh, "slow $_") } 1 .. 4;
ok(soon(sub { !grep { attempts($dbh, $_) == 0 } @slow }),
	'slow cycles start a job each');
is( query(
		$node, 'credit', q{
		SELECT count(free) || ' pauses, ' || count(*) FILTER (WHERE free < 0.9 * took) || ' too short'
		FROM (SELECT began - lag(ended) OVER w AS free,
				lag(ended - began) OVER w AS took
			FROM public.cycle WINDOW w AS (ORDER BY began)) c}),
	'3 pauses, 0 too short', 'a pool is locked at most half of the time');
finish_all($dbh);
query($node, 'credit', 'DROP TRIGGER dawdle ON gpucredit.attempt');
$node->safe_psql('postgres', 'ALTER SYSTEM RESET ALL');
$node->reload;

# A session's settings do not affect the worker.
$node->safe_psql('postgres',
	"ALTER DATABASE credit SET default_transaction_isolation = serializable;
	ALTER DATABASE credit SET default_transaction_read_only = on;
	ALTER DATABASE credit SET statement_timeout = '1ms';
	ALTER DATABASE credit SET search_path = nowhere");
my $worker = worker_pid();
$node->safe_psql('postgres', "SELECT pg_terminate_backend($worker)");
ok(poll("SELECT count(*) = 1 FROM pg_stat_activity
	WHERE backend_type = 'gpucredit scheduler' AND pid <> $worker"),
	'a worker that is terminated comes back');
starts('settings', 'whatever a database sets for its sessions');
$node->safe_psql('postgres', 'ALTER DATABASE credit RESET ALL');

# A pool whose cycle fails is tried ever more rarely; others go on.
query(
	$node, 'credit', q{
	SELECT gpucredit.create_pool('bad');
	SELECT gpucredit.register_node('bad', 'b1', 'T4', 4, 16384);
	CREATE FUNCTION public.fail() RETURNS trigger LANGUAGE plpgsql AS
		$$ BEGIN RAISE 'no cycle today'; END $$;
	CREATE TRIGGER fail BEFORE UPDATE ON gpucredit.pool
		FOR EACH ROW WHEN (old.pool = 'bad') EXECUTE FUNCTION public.fail()});
$node->append_conf('postgresql.conf', 'gpucredit.scheduler_interval = 100');
$node->reload;
my $log = -s $node->logfile;
my $bad = $dbh->selectrow_array(
	q{SELECT job FROM gpucredit.reserve('acme', '', 'bad', '1xT4', '1 h',
		pool => 'bad')});
ok(soon(sub { slurp_file($node->logfile, $log) =~ /retry_ms=2000/ }),
	'a cycle that fails is tried again, later each time');
starts('beside', 'and does not hold up other pools');
$prepared = reserve_prepared('prepared, too');
ok(soon(sub { attempts($dbh, $prepared) == 1 }),
	'the cycle at the interval starts what a prepared transaction submitted');
finish_all($dbh);
my @tries = slurp_file($node->logfile, $log) =~ /event=cycle_failed pool="bad" retry_ms=(\d+)/g;
is("@tries", join(' ', map { $_ > 6 ? 60000 : 1000 * 2**($_ - 1) } 1 .. @tries),
	'a cycle that fails is tried again twice as late each time, so the log is not flooded');
query($node, 'credit', 'DROP TRIGGER fail ON gpucredit.pool');
ok(soon(sub { attempts($dbh, $bad) == 1 }, 180), 'the pool whose cycles failed recovers by itself');
finish_all($dbh);

is(query($node, 'credit', q{SELECT count(*) FROM (SELECT s.sealed_at - lag(s.sealed_at)
			OVER (ORDER BY s.batch) AS pause FROM gpucredit.seals s) s
		WHERE s.pause BETWEEN '1 s' AND '50 s'}), '0', 'the worker has sealed once a minute');

# The extension goes and comes back.
$dbh->disconnect;
$log = -s $node->logfile;
query($node, 'credit', 'DROP EXTENSION gpucredit CASCADE');
sleep(0.5);
$node->safe_psql('postgres', 'CREATE ROLE boss SUPERUSER');
set_up('credit', 'boss');
query(
	$node, 'credit', q{
	CREATE TABLE public.acted (who text);
	CREATE FUNCTION public.note() RETURNS trigger LANGUAGE plpgsql AS
		$$ BEGIN
			INSERT INTO public.acted VALUES (current_user);
			RETURN new;
		END $$;
	CREATE CONSTRAINT TRIGGER note AFTER INSERT ON gpucredit.attempt
		DEFERRABLE INITIALLY DEFERRED
		FOR EACH ROW EXECUTE FUNCTION public.note()});
starts('again', 'after DROP and CREATE EXTENSION');
is(query($node, 'credit', 'SELECT DISTINCT who FROM public.acted'),
	'boss', 'the worker acts as the owner to the end of its commit');
query($node, 'credit', 'DROP TRIGGER note ON gpucredit.attempt');
is(join('', grep { /ERROR|FATAL/ } split /^/, slurp_file($node->logfile, $log)), '',
	'DROP and CREATE EXTENSION leave no error in the log');

# A user's schema of the same name is not mistaken for the extension.
$node->safe_psql('postgres', 'CREATE DATABASE "Other Db"');
query(
	$node, 'Other Db', q{
	CREATE SCHEMA gpucredit;
	CREATE TABLE gpucredit.pool AS SELECT 'default' AS pool;
	CREATE TABLE public.caught (who text);
	CREATE FUNCTION gpucredit.place(p text) RETURNS TABLE (action text,
		org text, job bigint) LANGUAGE sql AS
		$$ INSERT INTO public.caught VALUES (current_user);
		SELECT 'start', '', 1 $$});
ok(poll(q{SELECT count(*) = 1 FROM pg_stat_activity
	WHERE backend_type = 'gpucredit scheduler' AND datname = 'Other Db'}),
	'a database without the extension has its worker, too');
sleep(0.5);
is(query($node, 'Other Db', 'SELECT count(*) FROM public.caught'),
	'0', 'the worker of a database without the extension runs nothing there');

# The worker leaves a database that somebody wants exclusively.
$node->append_conf('postgresql.conf', 'gpucredit.scheduler_interval = 10min');
$node->reload;
my $since = time;
ok(soon(sub { done_alone('DROP DATABASE "Other Db"') }),
	'the worker is not in the way of DROP DATABASE');
diag(sprintf('DROP DATABASE took %.1f s', time - $since));
ok(soon(sub { done_alone('CREATE DATABASE twin TEMPLATE credit') }),
	'the worker is not in the way of a copy of its database');
ok(soon(sub { done_alone('ALTER DATABASE twin RENAME TO "Other Db"') }),
	'the copy may be given the name of a dropped database');
ok(poll(q{SELECT count(DISTINCT datname) = 2 AND count(*) = 2
	FROM pg_stat_activity WHERE backend_type = 'gpucredit scheduler'}),
	'the database and its copy have a worker each');
starts('copied', 'and schedules');

# The launcher ends, and is back with one worker a database.
my $launcher = $node->safe_psql('postgres',
	q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'gpucredit launcher'}
);
$node->safe_psql('postgres', "SELECT pg_terminate_backend($launcher)");
ok(poll("SELECT count(*) FILTER (WHERE backend_type = 'gpucredit launcher'
		AND pid <> $launcher) = 1 AND count(*) = 5
	FROM pg_stat_activity WHERE backend_type LIKE 'gpucredit %'"),
	'the launcher comes back, with two workers a database');
starts('relaunched', 'which schedule');

# The server crashes.
kill_server($node);
$node->start;
starts('crashed', 'after a crash');

# After a start it works before anybody connects.
$node->stop;
$log = -s $node->logfile;
$node->start;
ok( soon(
		sub {
			slurp_file($node->logfile, $log) =~
			  /event=scheduler_started database="credit"/;
		}),
	'after a start nobody has to connect first');
unlike(slurp_file($node->logfile, $log), qr/FATAL/, 'after a start no connection of the worker fails');

# A standby has no worker; promoted, it places again.
$node->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->start;
my $waiting = query(
	$node, 'credit', q{
	SELECT gpucredit.drain('n1', 'test'), gpucredit.drain('n2', 'test')
	\g /dev/null
	SELECT job FROM gpucredit.reserve('acme', '', 'handed over', '1xT4', '1 h')});
query($node, 'credit', q{
	SELECT gpucredit.register_node('default', 'n3', 'T4', 1, 16384, leaf => 'x');
	SELECT gpucredit.drain('n3', 'test')});
$node->wait_for_catchup($standby);
is( $standby->safe_psql('postgres',
		q{SELECT count(*) FROM pg_stat_activity WHERE backend_type LIKE 'gpucredit %'}
	),
	'0', 'a standby has no worker');
kill_server($node);
$since = time;
$standby->promote;
query($standby, 'credit', q{SELECT gpucredit.resume('n1')});
ok( $standby->poll_query_until('credit',
		"SELECT count(*) = 1 FROM gpucredit.attempt WHERE job = $waiting"),
	'a standby that is promoted places');
diag(sprintf('%.1f s after its promotion', time - $since));
verify_empty($standby, 'credit');

# Taken off the list, a database is left alone.
$standby->append_conf('postgresql.conf', q{gpucredit.database = ''});
$standby->reload;
ok( $standby->poll_query_until('postgres',
		q{SELECT count(*) = 1 FROM pg_stat_activity
		WHERE backend_type LIKE 'gpucredit %'}),
	'no database, no worker');
$standby->stop;
done_testing();

# An organisation with credit, and eight devices on two nodes; the extension's
# owner is an ordinary superuser.
sub set_up
{
	my ($db, $owner) = @_;

	query(
		$node, $db, 'SET ROLE ' . ($owner || 'NONE') . q{;
		CREATE EXTENSION gpucredit;
		RESET ROLE;
		SELECT gpucredit.create_account('acme');
		SELECT gpucredit.issue('acme', '', 'paid', 1000000);
		SELECT gpucredit.set_price('T4', 1);
		SELECT gpucredit.register_node('default', 'n' || n, 'T4', 4, 16384)
		FROM generate_series(1, 2) n});
	return;
}

# How many cycles there were, once no more come: a woken worker may be slow.
sub cycles
{
	return query($node, 'credit',
		q{SELECT value FROM gpucredit.metrics WHERE name = 'gpucredit_scheduler_cycles_total'});
}

sub quiet_cycles
{
	my $last = -1;

	while ((my $now = cycles()) != $last)
	{
		$last = $now;
		sleep(1);
	}
	return $last;
}

sub reserve
{
	my ($db, $key, $request) = @_;

	return $db->selectrow_array(
		q{SELECT job FROM gpucredit.reserve('acme', '', ?, ?, '1 h')},
		undef, $key, $request || '1xT4');
}

# A job of a transaction that was prepared, and then committed.
sub reserve_prepared
{
	my ($key) = @_;

	$dbh->begin_work;
	my $job = reserve($dbh, $key);
	$dbh->do(q{PREPARE TRANSACTION 'reserve'});
	$dbh->{AutoCommit} = 1;
	$dbh->do(q{COMMIT PREPARED 'reserve'});
	return $job;
}

sub attempts
{
	my ($db, $job) = @_;

	return $db->selectrow_array(
		q{SELECT count(*) FROM gpucredit.attempt
			WHERE job = ? AND ended_at IS NULL}, undef, $job);
}

# A test: a job reserved now starts soon, and is ended.  The session ignores
# settings of the database from its first statement on.
sub starts
{
	my ($key, $name) = @_;
	local $ENV{PGOPTIONS} = '-c statement_timeout=0 -c default_transaction_read_only=off';
	my $db  = connect_to($node, 'credit');
	my $job = reserve($db, $key);
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	ok(soon(sub { attempts($db, $job) == 1 }), $name);
	finish_all($db);
	$db->disconnect;
	return;
}

sub finish_all
{
	my ($db) = @_;

	$db->do(q{SELECT gpucredit.settle(org, job, attempt, 'completed', '0')
		FROM gpucredit.attempt WHERE ended_at IS NULL});
	return;
}

# Six of these at once: reserve, place and settle, at each isolation level.
sub crowd
{
	my ($number) = @_;
	my @levels = ('READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE');
	my $db = connect_to($node, 'credit');

	foreach my $n (1 .. 25)
	{
		try($db, $levels[ ($number + $n) % 3 ],
			sub { reserve($db, "crowd $number $n") });
		try($db, $levels[ $n % 3 ],
			sub { $db->selectall_arrayref('SELECT * FROM gpucredit.place()') });
		try(
			$db,
			$levels[ $number % 3 ],
			sub {
				$db->do(
					q{SELECT gpucredit.settle(org, job, attempt, 'completed', '0')
					FROM gpucredit.attempt WHERE ended_at IS NULL
					ORDER BY random() LIMIT 1});
			});
	}
	$db->disconnect;
	return;
}

# A transaction at an isolation level, repeated after serialization errors.
sub try
{
	my ($db, $level, $function) = @_;

	my $until = time + 180;

	while (time < $until)
	{
		$db->begin_work;
		$db->do("SET TRANSACTION ISOLATION LEVEL $level");
		return if eval { $function->(); $db->commit; 1 };
		my $state = $db->state;
		$db->rollback;
		die "SQLSTATE $state: $@" unless $state =~ /^40/;
		sleep(rand(0.01));
	}
	die "never got through\n";
}

sub workers
{
	return $node->safe_psql('postgres',
		q{SELECT count(*) FROM pg_stat_activity
		WHERE backend_type = 'gpucredit scheduler'});
}

sub worker_pid
{
	return $node->safe_psql('postgres',
		q{SELECT pid FROM pg_stat_activity
		WHERE backend_type = 'gpucredit scheduler' AND datname = 'credit'});
}

sub poll
{
	my ($sql) = @_;

	return $node->poll_query_until('postgres', $sql);
}

# Is this done, or does another session in the database block it?
sub done_alone
{
	my ($sql) = @_;
	my $state = sqlstate_of($node, 'postgres', $sql);

	die "$sql: $state\n" unless $state =~ /^(?:55006)?$/;
	return $state eq '';
}

# Does this become true within so many seconds, by default a tenth of the
# interval?
sub soon
{
	my ($function, $seconds) = @_;
	my $until = time + ($seconds || 60);

	until ($function->())
	{
		return 0 if time > $until;
		sleep(0.01);
	}
	return 1;
}
