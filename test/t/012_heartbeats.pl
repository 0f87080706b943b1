# 012_heartbeats.pl: which heartbeats wait for the disk, and what a crash costs
#
# The WAL writer is stopped, so the log of an asynchronous commit is not on
# disk when its call is answered.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use GpuCredit;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('heartbeats', 'autovacuum = off', 'wal_level = minimal',
	'max_wal_senders = 0', 'bgwriter_lru_maxpages = 0', 'gpucredit.clock_skew = 1000000',
	'gpucredit.usage_interval = 1000', 'log_statement = none');
my $dbh;
my $elapsed = 10;

new_database($node, 'credit');
query($node, 'credit', q{
	CREATE TABLE public.other (n int);
	CREATE FUNCTION public.beat(t interval) RETURNS text LANGUAGE plpgsql AS
		$$ BEGIN RETURN (gpucredit.meter('acme', 1, 1, t)).action; END $$;
	CREATE FUNCTION public.beats(t interval) RETURNS text LANGUAGE plpgsql AS
		$$ DECLARE r record; BEGIN
		FOR r IN SELECT * FROM gpucredit.meter('acme', 1, 1, t) LOOP
			RETURN r.action; END LOOP; END $$;
	SELECT gpucredit.set_price('T4', 36);
	SELECT gpucredit.register_node('default', 'n1', 'T4', 4, 16384);
	SELECT gpucredit.create_account('acme');
	SELECT gpucredit.issue('acme', '', 'i', 10000);
	SELECT gpucredit.reserve('acme', '', 'a', '1xT4', '1 day', hold_window => '1 hour');
	SELECT gpucredit.reserve('acme', '', 'b', '1xT4', '1 day');
	SELECT gpucredit.heartbeat('n1');
	SELECT gpucredit.place();
	SELECT gpucredit.heartbeat('n1', running => '{}');
	SELECT gpucredit.meter('acme', 1, 1, '1 s')});
# The first read of a page may remove rows of the catalogue that CREATE EXTENSION
# left dead, and logs that; a call that does so waits, as autovacuum is off here.
query($node, 'credit', 'VACUUM');
$dbh = connect_to($node, 'credit', name => 'beats');
$dbh->selectrow_array(beat());
kill('STOP', query($node, 'credit', q{SELECT pid FROM pg_stat_activity
	WHERE backend_type = 'walwriter'}));

# Only heartbeats with news wait.
ok(!waits(beat()), 'a heartbeat does not wait for the disk');
ok(!waits(beat(q{, 7, 0.5})), 'a heartbeat that tells progress does not wait');
ok(!waits(q{SELECT (gpucredit.meter('acme', 1, 1, '} . ++$elapsed . q{ s')).action}),
	'a heartbeat in a list of columns does not wait');
$elapsed += 1000;
ok(!waits(beat()), 'a heartbeat that leaves a usage row does not wait');
is(query($node, 'credit', 'SELECT count(*) FROM gpucredit.usage'), 1, 'the usage row of a heartbeat is there');
ok(!waits(batch()), 'a batch of heartbeats does not wait');
ok(!waits(batch() . ' UNION ALL ' . batch()), 'two batches of heartbeats in one statement do not wait');
ok(!waits(q{SELECT * FROM gpucredit.heartbeat('n1')}), 'a heartbeat of a node does not wait');
ok(!waits(q{SELECT * FROM gpucredit.heartbeat('n1', running => '{acme/1/1}')}),
	'a heartbeat of a node that tells what runs does not wait');

# Other writes in the transaction make it wait.
ok(waits('BEGIN', beat(), 'COMMIT'), 'a heartbeat in a transaction block waits');
ok(waits(beat() . ';' . beat()), 'two heartbeats in one query string wait');
ok(waits("SELECT public.beat('" . ++$elapsed . " s')"), 'a heartbeat in a function waits');
ok(waits("SELECT public.beats('" . ++$elapsed . " s')"), 'a heartbeat in a function\'s cursor waits');
ok(waits(q{DO $$ BEGIN PERFORM gpucredit.meter('acme', 1, 1, '} . ++$elapsed
		  . q{ s'); END $$}), 'a heartbeat in DO waits');
ok(waits('INSERT INTO public.other SELECT 1 FROM (' . beat() . ') m'),
	'a heartbeat in a statement that writes waits');
ok(waits('WITH w AS (INSERT INTO public.other VALUES (1) RETURNING n)'
	  . ' SELECT * FROM w, (' . beat() . ') m'), 'a heartbeat after the write of its statement waits');
ok(waits('SELECT * FROM (' . beat() . q{) m, gpucredit.hold('acme', '', 'h', 1, '1 h')}),
	'a heartbeat beside a call that has to last waits');
ok(!waits_pipeline(beat()), 'a heartbeat alone between two Syncs does not wait');
ok(waits_pipeline(beat(), 'INSERT INTO public.other VALUES (1)'),
	'a heartbeat before another statement of a pipeline waits');
ok(waits_pipeline('INSERT INTO public.other VALUES (1)', beat()), 'a heartbeat after another statement of a pipeline waits');
ok(waits_pipeline(beat(), q{SELECT gpucredit.settle('acme', 2, 1, 'completed', '1 ms')}),
	'a heartbeat before a settlement in a pipeline waits');

# What else a heartbeat may write.
$elapsed += 3600;
ok(waits(beat()), 'a heartbeat that extends a hold waits');
is(query($node, 'credit', q{SELECT held > 36 FROM gpucredit.attempt WHERE job = 1}), 't', 'the heartbeat extended the hold by an hour');
query($node, 'credit', q{SELECT gpucredit.reserve('acme', '', 'c', '1xT4', '1 day'); SELECT gpucredit.place()});
ok(waits(q{SELECT * FROM gpucredit.meter('acme', 3, 1, '1 s')}), 'the first heartbeat of an attempt waits');
ok(waits(q{SELECT * FROM gpucredit.meter('acme', 3, 1, '30 days')}), 'a heartbeat whose time is cut waits');
ok(waits(q{SELECT * FROM gpucredit.meter('acme', 2, 1, '1 hour')}), 'a heartbeat that comes too late waits');
ok(waits(q{SELECT * FROM gpucredit.heartbeat('n1', '{0-2}')}), 'a heartbeat that tells of a failed device waits');
ok(waits(q{SELECT * FROM gpucredit.heartbeat('n1', '{0-2}', about => '{"version":"2"}')}), 'a heartbeat that tells something new of the node waits');
ok(!waits(q{SELECT * FROM gpucredit.heartbeat('n1', '{0-2}', about => '{"version":"2"}')}),
	'a heartbeat that tells what is known of the node does not wait');

query($node, 'credit', q{SELECT gpucredit.reclaim('n1', '1 hour')});
ok(waits(beat()), 'a heartbeat that is told to save for the first time waits');
ok(!waits(beat()), 'a heartbeat that is told to save again does not wait');
query($node, 'credit', q{SELECT gpucredit.resume('n1')});

# Settings.
$dbh->do('SET gpucredit.meter_durable = on');
ok(waits(beat()), 'with gpucredit.meter_durable on a heartbeat waits');
ok(waits(batch()), 'with gpucredit.meter_durable on a batch of heartbeats waits');
ok(waits(q{SELECT * FROM gpucredit.heartbeat('n1', '{0-2}')}), 'with gpucredit.meter_durable on a heartbeat of a node waits');
$dbh->do('RESET gpucredit.meter_durable');
is($dbh->selectrow_array(beat()) && $dbh->selectrow_array('SHOW synchronous_commit'), 'on',
	'after a heartbeat synchronous_commit is what it was');

# After a crash, what waited is there, and the agent reports the rest again.
my $held = query($node, 'credit', q{SELECT held FROM gpucredit.attempt WHERE job = 1});
$elapsed += 7200;
$dbh->do(beat());
$dbh->do(beat()) for 1 .. 3;
kill_server($node);
$node->start;
is(query($node, 'credit', "SELECT held > '$held' FROM gpucredit.attempt WHERE job = 1"), 't',
	'the heartbeat that extended the hold is there');
isnt(query($node, 'credit', q{SELECT elapsed FROM gpucredit.attempt WHERE job = 1}),
	query($node, 'credit', "SELECT '$elapsed s'::interval"), 'heartbeats that did not wait are lost in a crash');
verify_empty($node, 'credit');
is(query($node, 'credit', q{SELECT action FROM gpucredit.meter('acme', 1, 1, '} . "$elapsed s')"),
	'continue', 'the agent reports again the time that was lost');
is(query($node, 'credit', q{SELECT billed FROM gpucredit.settle('acme', 1, 1, 'completed', '} . "$elapsed s')"),
	query($node, 'credit', "SELECT gpucredit_internal.bill('36', 1, 1000, '$elapsed s')"),
	'all time that ran is billed, also what was lost in the crash');
verify_empty($node, 'credit');

$node->stop;
done_testing();

# A heartbeat with news, and a batch with one.
sub beat { return q{SELECT * FROM gpucredit.meter('acme', 1, 1, '} . ++$elapsed . " s'" . ($_[0] // '') . ')'; }

sub batch { return q{SELECT * FROM gpucredit.meter_batch('{acme}', '{1}', '{1}', ARRAY['} . ++$elapsed . q{ s'::interval])}; }

# Was the log of these statements on disk when they were answered?
sub waits
{
	my @statements = @_;

	return flushed(sub {
		foreach my $sql (@statements)
		{
			my $statement = $dbh->prepare($sql, { pg_server_prepare => 0 });

			$statement->execute;
			$statement->finish;
		}
	});
}

# The same for a pipeline in the extended protocol.
sub waits_pipeline
{
	my $script = PostgreSQL::Test::Utils::tempdir() . '/pipeline.sql';

	append_to_file($script, join("\n", '\startpipeline', (map { "$_;" } @_), '\endpipeline', ''));
	return flushed(sub {
		my ($out, $err);

		run_log([ 'pgbench', '-n', '-t', 1, '-M', 'extended', '-f', $script, $node->connstr('credit') ],
			'>', \$out, '2>', \$err) or die "pgbench: $err";
	});
}

sub flushed
{
	my ($do) = @_;
	my ($before) = $dbh->selectrow_array('SELECT pg_current_wal_insert_lsn()');

	$do->();
	return $dbh->selectrow_array('SELECT pg_current_wal_flush_lsn() > ?::pg_lsn', undef, $before);
}
