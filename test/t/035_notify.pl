# 035_notify.pl: a NOTIFY queue that anybody can fill or hold fails no call
#
# A login without rights fills the queue, which a session that listens and
# stays in a transaction keeps full; another commits a notification and waits
# for a standby that is not there.  Calls that raise alerts, and seals, commit
# all the same, at once; listeners are told again when there is room.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use GpuCredit;
use JSON::PP;
use Test::More;
use Time::HiRes qw(sleep time);

my $node = new_node('notify', "shared_preload_libraries = 'gpucredit'",
	'wal_level = replica', 'max_wal_senders = 2', 'log_statement = none');
my $keys = 0;

# From 17 on the whole queue can be small; before, it is 8 GB, and we add to
# the first pages of it only.
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
	SELECT gpucredit.seal_audit()});

my $listener = connect_to($node, 'credit');
$listener->do("LISTEN $_") foreach qw(gpucredit_alert gpucredit_seal);
is_deeply([ raise_all(), sort map { $_->[0] } told() ],
	[ qw(granted 1 t), qw(gpucredit_alert gpucredit_seal) ],
	'listeners are told of an alert and of a seal');
is(dropped(), 0, 'nothing was dropped');

# Filled, and kept full.
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
is(dropped(), 2, 'both notifications were dropped, and counted');
is(query($node, 'credit', q{SELECT value > 0 FROM gpucredit.metrics
		WHERE name = 'gpucredit_notify_queue_ratio'}), 't', 'how full it is can be seen');
is(log_lines('queue_full'), 2, 'the log says so');
is(query($node, 'credit', q{BEGIN; SELECT status FROM gpucredit.hold('acme', '', 'with others', 1, '1 h');
		SAVEPOINT s; SELECT gpucredit.set_budget('acme', '', 2); ROLLBACK TO s;
		SELECT count(*) FROM gpucredit.maintain(); COMMIT; SELECT count(*) > 0 FROM gpucredit.request WHERE key = 'with others'})
		=~ /\Agranted\n.*\nt\z/s, 1, 'so are calls of one transaction');

# Room again.
$holder->commit;
$holder->do('UNLISTEN *');
told();
is_deeply([ raise_all(), sort map { $_->[0] } told() ],
	[ qw(granted 1 t), qw(gpucredit_alert gpucredit_seal) ],
	'when there is room listeners are told');
is(dropped(), 2, 'and nothing is dropped');

# One that is switched off tells nobody and counts nothing.
query($node, 'credit', 'ALTER DATABASE credit SET gpucredit.notify_queue_limit = 0');
is_deeply([ raise_all(), told() ], [qw(granted 1 t)], 'with a limit of 0 nobody is told');
is(dropped(), 2, 'which is no loss');
query($node, 'credit', 'ALTER DATABASE credit RESET gpucredit.notify_queue_limit');

# A commit that has the queue and does not end.
query($node, 'credit', 'CREATE TABLE public.written (n int)');
$node->append_conf('postgresql.conf',
	"synchronous_standby_names = 'nobody'\nsynchronous_commit = local");
$node->reload;
my ($stuck) = in_parallel(1, sub {
	my $dbh = connect_to($node, 'credit', name => 'stuck');

	# what has written nothing waits for no standby
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
cmp_ok(time - $began, '<', 30, 'without waiting for it');
is(dropped(), 4, 'their notifications were dropped');
is(log_lines('queue_busy'), 2, 'the log says why');
sleep(1);
query($node, 'credit', q{SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'});
is(wait_for_children($stuck), 0, 'the other ends');
told();
is_deeply([ raise_all(), sort map { $_->[0] } told() ],
	[ qw(granted 1 t), qw(gpucredit_alert gpucredit_seal) ],
	'then listeners are told');

verify_empty($node, 'credit');
$node->stop;
done_testing();

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

# What the listener has heard since.
sub told
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

# How many lines of the log say that one notification was dropped, and why.
sub log_lines
{
	my ($reason) = @_;
	my $log = PostgreSQL::Test::Utils::slurp_file($node->logfile);

	return scalar(() = $log =~ /gpucredit event=notify_dropped reason="$reason" notifications=1$/mg);
}
