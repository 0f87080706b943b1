# 097_logs.pl: the server log has one machine-readable line per event that an
# operator must know, and none for ordinary calls

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use GpuCredit;
use JSON::PP;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node(
	'logs',
	"shared_preload_libraries = 'gpucredit'",
	"gpucredit.database = 'worked'",
	'gpucredit.scheduler_interval = 50',
	'gpucredit.node_suspect = 0',
	'gpucredit.node_lost = 0',
	'autovacuum = off',
	"log_destination = 'stderr,jsonlog'",
	'logging_collector = on',
	"log_directory = 'log'",
	"log_filename = 'server.log'",
	"listen_addresses = '127.0.0.1'",
	'log_statement = none',
	'log_min_messages = warning',
	'log_min_error_statement = error');
my $folder = $node->data_dir . '/log';
my $seen   = 0;
my $marks  = 0;
my $trace  = '4bf92f3577b34da6a3ce929d0e0e4736';

new_database($node, 'credit');
my $dbh = connect_to($node, 'credit');
clock('2028-03-01 00:00+00');
$dbh->do($_) foreach (
	q{SELECT gpucredit.create_account('acme'),
		gpucredit.create_account('acme', 'lab')},
	q{SELECT gpucredit.issue('acme', '', 'i', 8)},
	q{SELECT gpucredit.set_price('T4', 1)},
	q{SELECT gpucredit.register_node('default', n, 'T4', 4, 16384)
		FROM unnest(ARRAY['n1', 'n2']) n});

# Ordinary calls log nothing.
$dbh->do(q{SET gpucredit.traceparent = '00-} . $trace . q{-00f067aa0ba902b7-01'});
my $job = one(q{SELECT job FROM gpucredit.reserve('acme', 'lab', 'j', '4xT4',
	'2 h', hold_window => '1 h')});
$dbh->do(q{RESET gpucredit.traceparent});
is(one(q{SELECT node FROM gpucredit.place()}), 'n1', 'a job runs');
$dbh->do(q{SELECT gpucredit.heartbeat('n1')});
$dbh->do(qq{SELECT gpucredit.meter('acme', $job, 1, '0')});
one(q{SELECT status FROM gpucredit.reserve('acme', '', 'too much', '4xT4', '9 h')});
one(q{SELECT hold FROM gpucredit.hold('acme', '', 'h', 1, '1 min')});
$dbh->do(qq{SELECT gpucredit.$_()})
  foreach qw(maintain reap_holds check_nodes expire_credits seal_audit check_books);
is_deeply([ lines() ], [], 'ordinary calls leave no line');

# A denied extension is logged once, with the trace of the job.
one(q{SELECT status FROM gpucredit.hold('acme', '', 'rest', 3, '1 d')});
clock('2028-03-01 00:57+00');
one(qq{SELECT action FROM gpucredit.meter('acme', $job, 1, '57 min')}) foreach 1 .. 2;
like(join("\n", lines()),
	qr/^gpucredit event=extension_denied org="acme" account="lab" job=$job attempt=1 reason="insufficient_credits" amount="4\.000000" trace=$trace$/,
	'an attempt that will have to stop for want of credit is logged once, though it was metered twice');

# Use that nobody paid.
one(q{SELECT captured FROM gpucredit.capture('acme', (SELECT max(hold) FROM gpucredit.hold
	WHERE job IS NULL), 'over', 5.5, overrun => true)});
like(join("\n", lines()),
	qr/^gpucredit event=credit_uncollected org="acme" account="" hold=\d+ reason="insufficient_credits" amount="1\.500000"$/,
	'a capture that no credit covers is logged');

# An error is logged with the trace it belongs to.
$dbh->do(q{SET gpucredit.traceparent = '00-} . $trace . q{-00f067aa0ba902b7-01'});
{
	local $dbh->{PrintError} = 0;
	eval { one(q{SELECT gpucredit.release('acme', -1, 'none')}) };
}
$dbh->do(q{RESET gpucredit.traceparent});
like(whole_log(),
	qr/CONTEXT:  gpucredit call=release traceparent=00-$trace-00f067aa0ba902b7-01/,
	'an error in a trace says so');

# The line names the caller and its address.
my $far = DBI->connect(
	'dbi:Pg:dbname=credit;host=127.0.0.1;application_name=far;port=' . $node->port,
	undef, undef, { RaiseError => 1, PrintError => 0 });
$far->do(q{SELECT gpucredit.set_alert('acme', 'lab', 1)}) foreach 1 .. 2;
$far->disconnect;
is(join(' ', map { "@$_" } @{ $dbh->selectall_arrayref(
	q{SELECT application_name, client_addr FROM gpucredit.audit WHERE operation = 'set_alert'}) }),
	'far 127.0.0.1 far 127.0.0.1', 'an audit row tells from where');

# Nothing is logged of a rolled back transaction or savepoint.
$dbh->do(q{SELECT gpucredit.heartbeat('n2')});
$dbh->begin_work;
$dbh->do(q{SELECT gpucredit.heartbeat('n2', '{0-2}')});
$dbh->rollback;
$dbh->begin_work;
$dbh->do('SAVEPOINT a');
$dbh->do(q{SELECT gpucredit.heartbeat('n2', '{0-1}')});
$dbh->do('ROLLBACK TO a');
$dbh->do('SAVEPOINT b');
$dbh->do(q{SELECT gpucredit.heartbeat('n2', '{0-2}')});
$dbh->do('RELEASE b');
is_deeply([ lines() ], [], 'nothing is logged before the commit');
$dbh->commit;
is_deeply([ lines() ],
	[ 'gpucredit event=device_failed node="n2" pool="default" was="{0-3}" healthy="{0-2}"' ],
	'a device that failed is logged once its transaction has committed');
$dbh->do(q{SELECT gpucredit.heartbeat('n2')});
like(join("\n", lines()), qr/^gpucredit event=device_back node="n2" /, 'a device that came back is logged');

# A lost node is logged with its attempts.
clock('2028-03-01 01:03+00');
$dbh->do(q{SET gpucredit.node_lost = '60s'});
$dbh->do(q{SELECT gpucredit.heartbeat('n2')});
is(one(q{SELECT affected FROM gpucredit.check_nodes() WHERE task = 'settle_node_lost'}),
	1, 'a node is lost');
is_deeply([ lines() ],
	[ 'gpucredit event=node_lost node="n1" pool="default" silent_s=3780 attempts=1' ],
	'the lost node is logged with its silence and its attempts');
$dbh->do(q{SELECT gpucredit.check_nodes()});
is_deeply([ lines() ], [], 'a lost node is not logged by the next sweep again');

# A tenant's names cannot look like a line or a key of the log.
my $evil = q{x" event=fake LOG:  gpucredit event=node_lost \\};
$dbh->do(q{SELECT gpucredit.create_pool(?)}, undef, 'p');
$dbh->do(q{SELECT gpucredit.register_node('p', ?, 'T4', 2, 16384)}, undef, $evil);
$dbh->do(q{SELECT gpucredit.heartbeat(?, '{0}')}, undef, $evil);
my @told = lines();
is(scalar(@told), 1, 'a hostile name is one line');
like($told[0], qr/^gpucredit event=device_failed node="x\\" event=fake LOG:  gpucredit event=node_lost \\\\" pool="p" /,
	'a hostile name is one value of its line');

# Lines go to the operator only.  A client that asks for log messages, in an
# encoding without a node's letters, gets neither lines nor an error after its
# commit.
$dbh->do(q{SELECT gpucredit.register_node('p', U&'n\65E5', 'T4', 2, 16384)});
$dbh->do(q{SET client_encoding = latin1});
$dbh->do(q{SET client_min_messages = log});
{
	my $sent = '';

	local $SIG{__WARN__} = sub { $sent .= $_[0] };
	$dbh->do(q{SELECT gpucredit.heartbeat(U&'n\65E5', '{0}')});
	is($sent, '', 'a client is sent no line of the log');
}
$dbh->do(q{RESET client_min_messages});
$dbh->do(q{RESET client_encoding});
like(join("\n", lines()), qr/event=device_failed node="n\xE6\x97\xA5" pool="p" /,
	'the log has the node whose name the client\'s encoding lacks');

# More attempts must leave a pool than can save in time.
$dbh->do(q{SELECT gpucredit.issue('acme', '', 'more', 100)});
$dbh->do(q{SELECT gpucredit.create_pool('spot')});
$dbh->do(q{SELECT gpucredit.register_node('spot', 's' || n, 'T4', 1, 16384)
	FROM generate_series(1, 3) n});
one(qq{SELECT status FROM gpucredit.reserve('acme', '', 's$_', '1xT4', '1 h',
	pool => 'spot', spec => '{"checkpoint_bytes": 60000000000}')}) foreach 1 .. 3;
$dbh->do(q{SELECT count(*) FROM gpucredit.place('spot')});
$dbh->do(qq{SELECT gpucredit.meter('acme', job, 1, '0') FROM gpucredit.attempt WHERE pool = 'spot'});
lines();
$dbh->do(q{SET gpucredit.checkpoint_bandwidth = '1GB'});
$dbh->do(qq{SELECT gpucredit.reclaim('s$_', '2 min')}) foreach 1 .. 3;
like(join("\n", lines()), qr/^gpucredit event=reclaim_storm pool="spot" leaving=3 unsaved=\d+$/m,
	'more attempts than can save in time are logged as a storm of reclaims');

# Victims that did not leave claimed devices are logged once, with the trace of
# the waiting job.
$dbh->do(q{SELECT gpucredit.create_pool('full')});
$dbh->do(q{SELECT gpucredit.register_node('full', 'f1', 'T4', 4, 16384)});
$dbh->do(q{SELECT gpucredit.grant_tier('acme', '', 'premium_training')});
one(q{SELECT status FROM gpucredit.reserve('acme', '', 'stays', '4xT4', '2 h',
	'standard_training', 'full')});
is(one(q{SELECT node FROM gpucredit.place('full')}), 'f1', 'a job has a whole node');
clock('2028-03-01 01:13+00');
$dbh->do(q{SELECT gpucredit.heartbeat('f1')});
$dbh->do(q{SET gpucredit.traceparent = '00-} . $trace . q{-00f067aa0ba902b7-01'});
my $promised = one(q{SELECT job FROM gpucredit.reserve('acme', 'lab', 'comes before it',
	'4xT4', '1 h', 'premium_training', 'full')});
$dbh->do(q{RESET gpucredit.traceparent});
$dbh->do(q{SELECT count(*) FROM gpucredit.place('full')});
is(one('SELECT count(*) FROM gpucredit.claim'), 1, 'the node of the job is promised to another job');
clock('2028-03-01 01:27+00');
$dbh->do(q{SELECT gpucredit.heartbeat('f1')});
$dbh->do(q{SELECT count(*) FROM gpucredit.place('full')});
is_deeply([ lines() ], [], 'nothing is logged while the promised devices may still be left');
clock('2028-03-01 01:29+00');
$dbh->do(q{SELECT gpucredit.heartbeat('f1')});
$dbh->do(q{SELECT count(*) FROM gpucredit.place('full')});
is_deeply([ lines() ],
	[ qq{gpucredit event=claim_timed_out pool="full" org="acme" account="lab" job=$promised trace=$trace} ],
	'devices that were not left in time are logged as a claim that timed out');

# A sweep that fails for an organisation is logged.
one(q{SELECT hold FROM gpucredit.hold('acme', '', 'broken', 1, '1 min')});
$dbh->do(q{CREATE FUNCTION public.fail() RETURNS trigger LANGUAGE plpgsql AS
	$$ BEGIN RAISE 'no release today'; END $$});
$dbh->do(q{CREATE TRIGGER fail BEFORE UPDATE ON gpucredit.hold
	FOR EACH ROW EXECUTE FUNCTION public.fail()});
clock('2028-03-01 02:00+00');
{
	local $dbh->{PrintWarn} = 0;
	$dbh->do(q{SELECT gpucredit.reap_holds()});
}
$dbh->do(q{DROP TRIGGER fail ON gpucredit.hold});
whole_log();
like(json_field('detail'), qr/^gpucredit event=sweep_failed org="acme" id=\d+ sqlstate="P0001"$/m,
	'a sweep that fails for one organisation is logged');

# A long wait of sealing for an open transaction is logged.
my $open = connect_to($node, 'credit');
$open->begin_work;
$open->do(q{SELECT gpucredit.hold('acme', '', 'open', 1, '1 h')});
$dbh->do(q{SELECT gpucredit.seal_audit()});
lines();
$dbh->do(q{SELECT gpucredit.seal_audit()});
is_deeply([ lines() ], [], 'sealing waits in silence');
$dbh->do(q{UPDATE gpucredit.seal_pending SET since = since - interval '11 min'});
$dbh->do(q{SELECT gpucredit.seal_audit()});
like(join("\n", lines()), qr/^gpucredit event=seal_stalled waited_s=\d{3,} transactions=1 first="\d+\/\d+"$/,
	'sealing that waits for eleven minutes is logged');
$open->rollback;
$dbh->do(q{SELECT gpucredit.seal_audit()});

# Findings of the daily check are logged.
$dbh->do(q{ALTER TABLE gpucredit.audit DISABLE TRIGGER audit_append_only});
$dbh->do(q{UPDATE gpucredit.bucket SET issued = issued + '1', available = available + '1'
	WHERE org = 'acme' AND memo IS NULL AND bucket = (SELECT min(bucket) FROM gpucredit.bucket)});
$dbh->do(q{UPDATE gpucredit.audit SET reason = 'another' WHERE audit = (SELECT min(audit) FROM gpucredit.audit)});
my $found = one(q{SELECT affected FROM gpucredit.check_books() WHERE task = 'verify'});
cmp_ok($found, '>=', 2, 'the check of the books finds what is wrong');
@told = lines();
is(scalar(grep { /^gpucredit event=verify_failed invariant="/ } @told), $found + 1,
	'the check of the books logs each finding, and one line for all');
like(join("\n", @told), qr/invariant="sealed_row_changed" subject="audit \d+"/,
	'the check of the books logs a sealed row that was changed');
like(join("\n", @told), qr/invariant="append_only_is_guarded"/, 'the check of the books logs a guard that is gone');
# The job of pg_cron checks range after range, and commits after each.
my $checks = one(q{SELECT command FROM gpucredit_internal.cron_tasks() WHERE task = 'check_books'});
my $commits = one(q{SELECT pg_catalog.txid_snapshot_xmax(pg_catalog.txid_current_snapshot())});
$dbh->do($checks =~ s/PERFORM gpucredit_internal\.check_book_range/PERFORM pg_catalog.txid_current(); $&/r);
cmp_ok(one(q{SELECT pg_catalog.txid_snapshot_xmax(pg_catalog.txid_current_snapshot())}) - $commits, '>=',
	one(q{SELECT count(*) FROM gpucredit_internal.book_ranges()}), 'each range is a transaction');
is_deeply([ sort grep { /verify_failed/ } lines() ], [ sort grep { /verify_failed/ } @told ],
	'the job of pg_cron logs the same findings');
is(one(q{SELECT sum(gpucredit_internal.check_book_range(r.after, r.upto)) FROM gpucredit.verify_ranges(3) r})
		- (one(q{SELECT count(*) FROM gpucredit.verify_ranges(3)}) - 1)
		* one(q{SELECT count(*) FROM gpucredit.verify() WHERE invariant = 'append_only_is_guarded'}),
	$found, 'ranges together find the same, but for a missing guard, which each range finds');
$dbh->disconnect;

# The worker comes, goes, and fails.
new_database($node, 'worked');
ok(appears(qr/event=scheduler_started database="worked"/), 'the start of the worker is logged');
query(
	$node, 'worked', q{
	SELECT gpucredit.create_account('acme'), gpucredit.grant_tier('acme', '', 'premium_training'),
		gpucredit.issue('acme', '', 'i', 100),
		gpucredit.set_price('T4', 1), gpucredit.create_pool('bad'),
		gpucredit.register_node('bad', 'b1', 'T4', 4, 16384);
	CREATE FUNCTION public.fail() RETURNS trigger LANGUAGE plpgsql AS
		$$ BEGIN RAISE 'no cycle today'; END $$;
	CREATE TRIGGER fail BEFORE UPDATE ON gpucredit.pool
		FOR EACH ROW EXECUTE FUNCTION public.fail();
	SET gpucredit.traceparent = '00-} . $trace . q{-00f067aa0ba902b7-01';
	SELECT gpucredit.reserve('acme', '', 'j', '1xT4', '1 h', pool => 'bad')});
ok(appears(qr/event=cycle_failed pool="bad" retry_ms=\d+/), 'a cycle that fails is logged');
query($node, 'worked', 'DROP TRIGGER fail ON gpucredit.pool');
ok($node->poll_query_until('worked',
	qq{SELECT count(*) > 0 FROM gpucredit.audit WHERE decision = 'start'
		AND trace = '$trace' AND application_name = 'gpucredit scheduler'}),
	'what it places is of the trace of the job, not of the worker');

# A cycle that meets only 40001 has failed as well, and the repeated failure is
# logged.
query(
	$node, 'worked', q{
	SELECT gpucredit.create_pool('late'), gpucredit.register_node('late', 'l1', 'T4', 4, 16384);
	CREATE FUNCTION public.conflict() RETURNS trigger LANGUAGE plpgsql AS
		$$ BEGIN RAISE 'always late' USING ERRCODE = 'serialization_failure'; END $$;
	CREATE TRIGGER fail BEFORE UPDATE ON gpucredit.pool
		FOR EACH ROW EXECUTE FUNCTION public.conflict()});
query($node, 'worked', q{SELECT gpucredit.reserve('acme', '', 'k', '1xT4', '1 h', pool => 'late')});
ok(appears(qr/event=cycle_failed pool="late" retry_ms=1000$/m), 'a cycle that conflicts each time is logged as failed');
ok(appears(qr/always late/), 'the log has the message of the conflict');
ok(appears(qr/event=cycle_failed pool="late" retry_ms=2000$/m), 'the cycle that fails again is put off for longer');
query($node, 'worked', 'DROP TRIGGER fail ON gpucredit.pool');

# A sweep that meets a failing machine is put off as a whole, and logged.
my $short = query(
	$node, 'worked', q{
	CREATE FUNCTION public.full() RETURNS trigger LANGUAGE plpgsql AS
		$$ BEGIN RAISE 'no room today' USING ERRCODE = 'disk_full'; END $$;
	CREATE TRIGGER fail BEFORE UPDATE ON gpucredit.hold
		FOR EACH ROW EXECUTE FUNCTION public.full();
	SELECT hold FROM gpucredit.hold('acme', '', 'short', 1, '1 s')});
ok(appears(qr/event=sweep_failed sweep="reap_holds" retry_ms=1000$/m), 'a sweep on a full disk is logged as failed');
query($node, 'worked', 'DROP TRIGGER fail ON gpucredit.hold');
ok($node->poll_query_until('worked',
	qq{SELECT closed_at IS NOT NULL FROM gpucredit.hold WHERE hold = $short}),
	'the sweep after the failed one releases the hold');
unlike(slurp_file("$folder/server.log"), qr/event=sweep_failed sweep="check_nodes"/,
	'the sweep of nodes never failed');

$node->append_conf('postgresql.conf', "gpucredit.database = ''");
$node->reload;
ok(appears(qr/event=scheduler_stopped database="worked"/), 'the stop of the worker is logged');

# If no process is left for another database's worker, a line says which
# setting to raise.
new_database($node, 'second');
$node->append_conf('postgresql.conf',
	"gpucredit.database = 'worked, second'\nmax_worker_processes = 3");
$node->restart;
ok(appears(qr/event=scheduler_no_slot database="(?:worked|second)" increase="max_worker_processes" retry_ms=2000$/m),
	'a worker for which there is no process is logged');

# Every line is one object of the JSON log as well.
my $text = slurp_file("$folder/server.json");
my @objects = map { decode_json($_) } grep { /gpucredit event=/ } split /\n/, $text;
cmp_ok(scalar(grep { $_->{message} =~ /^gpucredit event=[a-z_]+ / } @objects), '>=', 10,
	'the JSON log has the lines, too');
is(scalar(grep { exists $_->{statement} && $_->{error_severity} eq 'LOG' } @objects), 0,
	'lines in the JSON log are without the statement, which may be long');
$node->stop;
done_testing();

# The server log, with all that this session has logged so far: the collector
# writes with a delay.
sub whole_log
{
	my $mark = 'mark ' . ++$marks;

	$dbh->do("DO 'BEGIN RAISE LOG ''$mark''; END'");
	appears(qr/LOG:  $mark$/m);
	return slurp_file("$folder/server.log");
}

# Our lines of the log since the last look.
sub lines
{
	my $text = substr(whole_log(), $seen);

	$seen += length $text;
	return map { /LOG:  (gpucredit event=.*)/ ? $1 : () } split /\n/, $text;
}

# Does a line like that appear?
sub appears
{
	my ($pattern) = @_;

	foreach (1 .. 1800)
	{
		return 1 if slurp_file("$folder/server.log") =~ $pattern;
		select undef, undef, undef, 0.1;
	}
	return 0;
}

# A field of all that the JSON log has, a line each.
sub json_field
{
	my ($field) = @_;

	return join "\n", map { decode_json($_)->{$field} // () }
	  split /\n/, slurp_file("$folder/server.json");
}

sub clock
{
	$dbh->do('SELECT set_config(?, ?, false)', undef, 'gpucredit.clock', $_[0]);
}

sub one
{
	return $dbh->selectrow_array($_[0]);
}
