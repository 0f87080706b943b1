# 035_notify.pl: a full NOTIFY queue, a full lock table or an old snapshot
# fails no call
#
# A login without rights fills the NOTIFY queue, and a listening session with
# an open transaction keeps it full.  Another session commits a notification
# and waits for a standby that does not exist.  Calls that raise alerts, and
# seals, commit at once nevertheless, and listeners are notified again once
# there is room.  Then the login fills the lock table: pending commits succeed,
# and the background worker and its launcher survive.  Last, a tenant removes
# its timeouts and keeps a snapshot, and the worker ends its session.
#
# Alone: it measures waits of 100 ms

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use GpuCredit;
use JSON::PP;
use Test::More;
use Time::HiRes qw(sleep time);

my $dropped = 0;			# notifications, when last counted
my $node = new_node('notify', "shared_preload_libraries = 'gpucredit'",
	"gpucredit.database = 'credit, later'", 'wal_level = replica', 'max_wal_senders = 2', 'log_statement = none');
my $keys = 0;

# From 17 on the queue's size can be set.  Before, it is 8 GB, so the limit is
# set to its first pages.
my ($version) = $node->safe_psql('postgres', 'SHOW server_version_num');
$node->append_conf('postgresql.conf', $version >= 170000
	? 'max_notify_queue_pages = 64'
	: 'gpucredit.notify_queue_limit = 0.00006');
$node->restart;

new_database($node, 'credit');
query($node, 'credit', q{
	CREATE ROLE nobody LOGIN;
	SELECT gpucredit.create_account('acme');
	SELECT gpucredit.issue('acme', '', 'i', 1000);
	SELECT gpucredit.set_price('T4', 1);
	SELECT gpucredit.register_node('default', n, 'T4', 1, 16384), gpucredit.heartbeat(n) FROM unnest('{n1,n2}'::text[]) n;
	SELECT gpucredit.seal_audit()});

my $listener = connect_to($node, 'credit');
$listener->do("LISTEN $_") foreach qw(gpucredit_alert gpucredit_node gpucredit_seal);
is_deeply([ raise_all(), sort map { $_->[0] } notifications() ],
	[ qw(granted 1 t), qw(gpucredit_alert gpucredit_seal) ],
	'listeners are told of an alert and of a seal');
is_deeply([ start_and_cancel('gang', '2xT4'), sort map { "$_->[0] $_->[2]" } notifications() ],
	[ 'stopping', ('gpucredit_node n1') x 2, ('gpucredit_node n2') x 2 ],
	'each node hears of a start and of a cancellation');
is_deeply([ start_and_cancel('none', '1xT4', 'ROLLBACK'), notifications() ], ['stopping'],
	'no node hears of a start that is rolled back');
is(newly_dropped(), 0, 'nothing was dropped');

# The worker numbers events each second, and notifies of them.  While
# notifications are counted, it is kept from that.
my $numbers = connect_to($node, 'credit');
keep_unnumbered();

# The queue is filled and kept full.
my $holder = connect_to($node, 'credit');
$holder->do('SET SESSION AUTHORIZATION nobody');
$holder->do('LISTEN anything');
$holder->begin_work;
$holder->do('SELECT 1');
my $filler = connect_to($node, 'postgres');
$filler->do('SET SESSION AUTHORIZATION nobody');
$filler->{PrintWarn} = 0;
1 while eval {
	$filler->do(q{SELECT pg_notify('anything', repeat('x', 7900) || n)
		FROM generate_series(1, 8) n});
	query($node, 'credit', 'SELECT pg_notification_queue_usage()
		< current_setting(\'gpucredit.notify_queue_limit\')::float8') eq 't';
};
is_deeply([ raise_all() ], [qw(granted 1 t)],
	'an alert and a seal are written, though the queue is full');
is(newly_dropped(), 2, 'the notifications of the alert and of the seal were dropped, and counted');
is_deeply([ start_and_cancel('full', '1xT4') ], ['stopping'],
	'a cancellation works, though the queue is full');
is(newly_dropped(), 2, 'the notifications of a start and a cancellation were dropped, and counted');
is(query($node, 'credit', q{SELECT value > 0 FROM gpucredit.metrics
		WHERE name = 'gpucredit_notify_queue_ratio'}), 't', 'how full it is can be seen');
is(log_lines('queue_full'), 4, 'the log has each notification that was dropped for a full queue');
$numbers->commit;
is(query($node, 'credit', q{BEGIN; SELECT status FROM gpucredit.hold('acme', '', 'with others', 1, '1 h');
		SAVEPOINT s; SELECT gpucredit.set_budget('acme', '', 2); ROLLBACK TO s;
		SELECT count(*) FROM gpucredit.maintain(); COMMIT; SELECT count(*) > 0 FROM gpucredit.request WHERE key = 'with others'})
		=~ /\Agranted\n.*\nt\z/s, 1, 'calls of one transaction, with a savepoint rolled back, commit though the queue is full');

keep_unnumbered();
cmp_ok(newly_dropped(), '>=', 1, 'events are numbered, and the notification of the last one is dropped');

# Room again.
$holder->commit;
$holder->do('UNLISTEN *');
notifications();
is_deeply([ raise_all(), sort map { $_->[0] } notifications() ],
	[ qw(granted 1 t), qw(gpucredit_alert gpucredit_seal) ],
	'when the queue has room listeners are told');
is(newly_dropped(), 0, 'when the queue has room nothing is dropped');

# With notifications off, nobody is notified and nothing counted.
query($node, 'credit', 'ALTER DATABASE credit SET gpucredit.notify_queue_limit = 0');
is_deeply([ raise_all(), notifications() ], [qw(granted 1 t)], 'with a limit of 0 nobody is told');
is(newly_dropped(), 0, 'with a limit of 0 nothing counts as dropped');
query($node, 'credit', 'ALTER DATABASE credit RESET gpucredit.notify_queue_limit');

# A commit locks the queue and does not end.
query($node, 'credit', 'CREATE TABLE public.written (n int)');
$node->append_conf('postgresql.conf',
	"synchronous_standby_names = 'nobody'\nsynchronous_commit = local");
$node->reload;
my ($stuck) = in_parallel(1, sub {
	my $dbh = connect_to($node, 'credit', name => 'stuck');

	# a transaction without writes does not wait for a standby
	$dbh->{PrintWarn} = 0;
	$dbh->do('SET synchronous_commit = on');
	foreach my $n (1 .. 1000)
	{
		my $began = time;

		$dbh->begin_work;
		$dbh->do('INSERT INTO public.written VALUES (1)');
		$dbh->do('NOTIFY anything');
		$dbh->commit;
		last if time - $began > 1;
		sleep(0.05);
	}
	$dbh->disconnect;
});
wait_for_stuck();
my $began = time;
is_deeply([ raise_all() ], [qw(granted 1 t)],
	'an alert and a seal are written, though another has the queue');
cmp_ok(time - $began, '<', 30, 'an alert and a seal do not wait for the queue');
is(newly_dropped(), 2, 'the notifications of an alert and a seal beside a locked queue were dropped');
is(log_lines('queue_busy'), 2, 'the log has that the queue was busy');
$numbers->commit;
sleep(1);
query($node, 'credit', q{SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'});
is(wait_for_children($stuck), 0, 'the session that had the queue ends');
notifications();
is_deeply([ raise_all(), sort map { $_->[0] } notifications() ],
	[ qw(granted 1 t), qw(gpucredit_alert gpucredit_seal) ],
	'when the queue is not locked listeners are told');

# The lock table.  The launcher looks for a database that does not exist yet.
query($node, 'credit', q{
	SELECT gpucredit.set_price('T4', 1), gpucredit.register_node('default', 'n1', 'T4', 1, 15360);
	SELECT gpucredit.create_account('acme', 'l'), gpucredit.set_budget('acme', 'l', 10, alert_at => '{0.5}')});
my $workers = workers();
like($workers, qr/\A\d+ \d+ \d+\z/, 'two workers and their launcher are there');
my $owner = connect_to($node, 'credit');
$owner->begin_work;
$owner->do(q{SELECT gpucredit.hold('acme', 'l', 'hl', 6, '1 h')});
$filler->do(q{DO $$ BEGIN FOR i IN 1 .. 1000000 LOOP
	BEGIN PERFORM pg_advisory_lock(i); EXCEPTION WHEN out_of_memory THEN EXIT; END;
END LOOP; END $$});
sleep(2.5);
ok(eval { $owner->commit }, 'with the lock table full a hold that raised an alert commits')
  or diag($@);
$filler->do('SELECT pg_advisory_unlock_all()');
like(PostgreSQL::Test::Utils::slurp_file($node->logfile), qr/ERROR:  out of shared memory/,
	'cycles failed meanwhile');
is(workers(), $workers, 'the workers and their launcher have outlived it');
is(query($node, 'credit', q{SELECT count(*) FROM gpucredit.alert WHERE account = 'l'}), 1,
	'the alert of the hold is there');
# that of an event may be dropped as well
cmp_ok(newly_dropped(), '>=', 1, 'the notification of the alert was dropped, and counted');
query($node, 'credit', q{SELECT gpucredit.reserve('acme', '', 'j', '1xT4', '1 h')});
ok($node->poll_query_until('credit', 'SELECT count(*) = 1 FROM gpucredit.attempt WHERE ended_at IS NULL'),
	'the worker starts a job that comes afterwards');

# Snapshots of a tenant, of a tenant that is also an application, and of
# another login.
query($node, 'credit', q{
	CREATE ROLE tenant LOGIN IN ROLE gpucredit_tenant;
	CREATE ROLE service LOGIN IN ROLE gpucredit_tenant, gpucredit_app;
	SELECT gpucredit.bind_tenant(r, 'acme') FROM unnest(ARRAY['tenant', 'service']) r});
my %keeps = map { $_ => connect_to($node, 'credit', user => $_) } qw(tenant service nobody);
is(join(' ', map { $keeps{tenant}->selectrow_array("SHOW $_") }
		qw(idle_in_transaction_session_timeout statement_timeout)), '1min 5min',
	'a tenant has timeouts');
foreach my $dbh (values %keeps)
{
	$dbh->do('SET idle_in_transaction_session_timeout = 0');
	$dbh->do('BEGIN ISOLATION LEVEL REPEATABLE READ');
	$dbh->do('SELECT 1');
}
my $fresh = connect_to($node, 'credit', user => 'tenant');
$node->append_conf('postgresql.conf', "gpucredit.tenant_transaction_max = '1s'");
$node->reload;
ok($node->poll_query_until('credit', q{SELECT count(*) = 1 FROM pg_stat_activity
		WHERE usename = 'tenant'}), 'a transaction of a tenant that is too long ends with its session');
is_deeply([ map { eval { $keeps{$_}->do('SELECT 1') } ? 1 : 0 } qw(tenant service nobody) ],
	[ 0, 1, 1 ], 'transactions of others end not');
ok($fresh->do('SELECT 1'), 'a tenant\'s session without a transaction does not end');
is(query($node, 'credit', q{SELECT decision, org, detail ->> 'role', detail ->> 'state'
		FROM gpucredit.audit WHERE operation = 'end_tenant_transactions'}),
	'ended||tenant|idle in transaction', 'the end of the tenant\'s transaction is audited');
like(PostgreSQL::Test::Utils::slurp_file($node->logfile),
	qr/gpucredit event=tenant_transaction_ended role="tenant" pid=\d+ state="idle in transaction" open_s=\d+$/m,
	'the end of the tenant\'s transaction is logged');

# A login that changes its own settings in an open transaction does not block
# bind_tenant().
$node->append_conf('postgresql.conf', "gpucredit.tenant_transaction_max = '5min'");
$node->reload;
query($node, 'credit', 'ALTER ROLE tenant IN DATABASE credit RESET ALL');
$fresh->begin_work;
$fresh->do('ALTER ROLE tenant IN DATABASE credit SET work_mem = 64');
$fresh->do('ALTER ROLE tenant IN DATABASE credit SET lock_timeout = 1');
is(query($node, 'credit', q{SELECT gpucredit.bind_tenant('tenant', 'acme', 'l') \g /dev/null
	SELECT count(*) FROM gpucredit.tenant WHERE account = 'l'}), 1, 'a tenant that changes its own settings meanwhile is bound');
$fresh->rollback;
query($node, 'credit', q{SELECT gpucredit.bind_tenant('tenant', 'acme', 'l')});
is(connect_to($node, 'credit', user => 'tenant')->selectrow_array('SHOW statement_timeout'), '5min',
	'a tenant has its timeouts when it is bound again');

verify_empty($node, 'credit');
$node->stop;
done_testing();

# The processes of the launcher and its workers.
sub workers
{
	return query($node, 'credit', q{SELECT string_agg(pid::text, ' ' ORDER BY pid)
		FROM pg_stat_activity WHERE backend_type LIKE 'gpucredit %'});
}

# A hold that passes a budget's threshold, the alerts it left, and whether a
# seal came to be.
sub raise_all
{
	my $n = ++$keys;
	my $seals = query($node, 'credit', 'SELECT count(*) FROM gpucredit.seal');
	my @said = split /\n/, query($node, 'credit', qq{
		SELECT gpucredit.create_account('acme', 'a$n') \\g /dev/null
		SELECT gpucredit.set_budget('acme', 'a$n', 10, alert_at => '{0.5}') \\g /dev/null
		SELECT status FROM gpucredit.hold('acme', 'a$n', 'h$n', 6, '1 h');
		SELECT count(*) FROM gpucredit.alert WHERE account = 'a$n';
		SELECT count(*) FROM gpucredit.seal_audit() \\g /dev/null
		SELECT count(*) > $seals FROM gpucredit.seal});

	return @said;
}

# A job starts and is cancelled: the answers.
sub start_and_cancel
{
	my ($key, $request, $end) = @_;
	my ($first, $last) = $end ? ('BEGIN;', "$end;") : ('', '');

	return split /\n/, query($node, 'credit', qq{$first
		SELECT count(*) FROM unnest('{n1,n2}'::text[]) n, gpucredit.heartbeat(n) \\g /dev/null
		SELECT job FROM gpucredit.reserve('acme', '', '$key', '$request', '1 h') \\gset
		DO \$\$ BEGIN		-- the worker's cycle, or ours
			WHILE NOT EXISTS (SELECT FROM gpucredit.attempt a
				WHERE a.job = (SELECT max(j.job) FROM gpucredit.job j)) LOOP
				PERFORM gpucredit.place(), pg_sleep(0.05);
			END LOOP;
		END \$\$;
		SELECT job_state FROM gpucredit.cancel('acme', :job, 'c $key');
		SELECT gpucredit.settle('acme', :job, 1, 'cancelled') \\g /dev/null
		$last});
}

# The other commit waits, with its notification.
sub wait_for_stuck
{
	foreach my $turn (1 .. 600)
	{
		return if query($node, 'credit', q{SELECT count(*) FROM pg_stat_activity
			WHERE application_name = 'stuck' AND query ILIKE 'commit' AND wait_event = 'SyncRep'}) == 1;
		sleep(0.05);
	}
	die 'it does not wait';
}

# What the listener has received since.
sub notifications
{
	my @all;

	foreach my $turn (1 .. 5)
	{
		while (my $one = $listener->pg_notifies) { push @all, $one; }
		sleep(0.1);
	}
	return @all;
}

sub dropped
{
	return query($node, 'credit', q{SELECT value FROM gpucredit.metrics
		WHERE name = 'gpucredit_notifications_dropped_total'});
}

# Keeps events from being numbered, and so from being notified of, until the
# transaction of $numbers ends.
sub keep_unnumbered
{
	$numbers->begin_work;
	sleep(0.05) until $numbers->selectrow_array('SELECT gpucredit_internal.lock_events()');
	return;
}

# How many more are dropped than when this was called before.
sub newly_dropped
{
	my $before = $dropped;

	$dropped = dropped();
	return $dropped - $before;
}

# How many lines of the log say that one notification was dropped, and why.
sub log_lines
{
	my ($reason) = @_;
	my $log = PostgreSQL::Test::Utils::slurp_file($node->logfile);

	return scalar(() = $log =~ /gpucredit event=notify_dropped reason="$reason" notifications=1$/mg);
}
