# 060_cron.pl: pg_cron does the upkeep; the test calls no sweep
#
# A real pg_cron works over the socket.  Its jobs run at full minutes, so the
# test takes one or two.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use GpuCredit;
use Test::More;

my $node = new_node('main');

# Without pg_cron the jobs cannot be set up, and the error says what to do.
new_database($node, 'credit');
query_fails($node, 'credit', 'SELECT gpucredit.install_jobs()',
	'55000', 'refused where pg_cron is not loaded');
like(hint_of('credit', 'SELECT gpucredit.install_jobs()'),
	qr/Add pg_cron to shared_preload_libraries.*cron\.database_name = 'credit' and cron\.host = '\Q@{[$node->host]}\E'/s,
	'the hint says how to load pg_cron');
is(query($node, 'credit', 'SELECT count(*) FROM gpucredit.cron_status'),
	'0', 'cron_status is there, and empty');

$node->append_conf(
	'postgresql.conf', qq{
shared_preload_libraries = 'pg_cron'
cron.database_name = 'credit'
cron.host = '@{[$node->host]}'
listen_addresses = ''
gpucredit.heartbeat_timeout = '5s'
gpucredit.node_suspect = 0
gpucredit.node_lost = 0
});
$node->restart;
query_fails($node, 'credit', 'SELECT gpucredit.install_jobs()',
	'55000', 'refused where pg_cron is not created');
query($node, 'credit', hint_of('credit', 'SELECT gpucredit.install_jobs()')
	  =~ /(CREATE EXTENSION .*)$/);

# Something to sweep: a dead hold, an expired bucket and a silent job.
query(
	$node, 'credit', q{
	SELECT gpucredit.create_account('acme');
	SELECT gpucredit.issue('acme', '', 'paid', 100);
	SELECT gpucredit.issue('acme', '', 'promo', 7, 'promo',
		valid_for => '3 s', priority => 200);
	SELECT gpucredit.set_price('T4', 1);
	SELECT gpucredit.register_node('default', 'n1', 'T4', 1, 16384);
	SELECT gpucredit.reserve('acme', '', 'job', '1xT4', '1 h');
	SELECT count(*) FROM gpucredit.place();
	SELECT gpucredit.meter('acme', job, 1, '1 s') FROM gpucredit.job;
	SELECT gpucredit.hold('acme', '', 'hold', 20, '1 s')});
is( query(
		$node, 'credit', q{
	SELECT held FROM gpucredit.hold WHERE job IS NULL}),
	'20.000000', 'a hold holds');

# A second install_jobs changes nothing, and restores jobs that were changed by
# hand or by a move.  One transaction keeps cron from running the changed jobs.
my $jobs = query($node, 'credit', 'SELECT gpucredit.install_jobs()');
cmp_ok($jobs, '>=', 4, "$jobs jobs are set up");
my $as_set_up = all_jobs();
query($node, 'credit', q{
	CREATE ROLE boss SUPERUSER;
	CREATE DATABASE passing});
my $put_back = query(
	$node, 'credit', q{
	BEGIN;
	UPDATE cron.job SET schedule = '0 0 1 1 *', active = false
	WHERE jobname LIKE 'gpucredit reap_holds %';
	UPDATE cron.job SET command = 'SELECT 1'
	WHERE jobname LIKE 'gpucredit fold_spend %';
	UPDATE cron.job SET nodename = 'elsewhere', nodeport = 1
	WHERE jobname LIKE 'gpucredit check_nodes %';
	UPDATE cron.job SET database = 'postgres'
	WHERE jobname LIKE 'gpucredit expire_credits %';
	UPDATE cron.job SET username = 'boss'
	WHERE jobname LIKE 'gpucredit seal_audit %';
	SELECT cron.schedule_in_database('gpucredit fold_spend passing',
		'* * * * *', 'SELECT 1', 'passing') \g /dev/null
	SELECT cron.schedule('gpucredit gone credit', '* * * * *', 'SELECT 1')
	\g /dev/null
	SELECT gpucredit.install_jobs();
	COMMIT});
is($put_back, $jobs, 'install_jobs() counts all jobs again after some were changed or added');
is(all_jobs(), "$as_set_up\n" .
	join('|', 'gpucredit fold_spend passing', '* * * * *', 'SELECT 1',
		$node->host, $node->port, qw(passing postgres t)),
	'all are back as they were, no more and no fewer');
query($node, 'credit', 'DROP DATABASE passing');
query($node, 'credit', 'SELECT gpucredit.install_jobs()');
is(all_jobs(), $as_set_up, 'jobs of a database that is gone are removed');

# The metrics show a run that could not connect, one that hangs, and a job that
# never ran.
is( query(
		$node, 'credit', q{
	BEGIN;
	DELETE FROM cron.job_run_details;
	INSERT INTO cron.job_run_details (jobid, runid, command, status,
		return_message, start_time, end_time)
	SELECT j.jobid, 100000 + r.n, j.command, r.status, NULL, r.at,
		CASE r.status WHEN 'succeeded' THEN r.at END
	FROM cron.job j,
		(VALUES (1, 'reap_holds', 'failed', NULL),
			(2, 'fold_spend', 'succeeded', now() - interval '1 h'),
			(3, 'fold_spend', 'running', now() - interval '30 min'),
			(4, 'check_books', 'failed', NULL)) AS r (n, task, status, at)
	WHERE j.jobname = 'gpucredit ' || r.task || ' credit';
	SELECT split_part(m.labels ->> 'cron_job', ' ', 2),
		CASE substring(m.name FROM 'ok|age') WHEN 'ok' THEN m.value::text
			WHEN 'age' THEN (m.value >= 3600)::text END
	FROM gpucredit.metrics m WHERE m.name LIKE 'gpucredit_cron_job_%'
		AND m.labels ->> 'cron_job' ~ 'reap|fold_spend|seal|books'
	ORDER BY 1, m.name;
	ROLLBACK}),
	"check_books|0\nfold_spend|true\nfold_spend|1\nreap_holds|false\nreap_holds|0\nseal_audit|false",
	'what fails, hangs or never ran is seen in the metrics');

# The SQL in the hint sets up another database's jobs as it is, whatever they
# were before.  Neither database touches the other's.
new_database($node, 'other');
query_fails($node, 'other', 'SELECT gpucredit.install_jobs()',
	'55000', "refused outside pg_cron's own database");
my $elsewhere = hint_of('other', 'SELECT gpucredit.install_jobs()');
$elsewhere =~ s/^[^:]*: //;
query($node, 'credit', $elsewhere);
is(query($node, 'credit', 'SELECT count(*) FROM cron.job'),
	2 * $jobs, 'the hint sets up the same jobs for it');
my $of_both = all_jobs();
query(
	$node, 'credit', qq{
	BEGIN;
	UPDATE cron.job SET nodename = 'elsewhere', active = false,
		username = 'boss', command = 'SELECT 1'
	WHERE jobname LIKE 'gpucredit % other';
	$elsewhere
	;COMMIT});
query($node, 'credit', 'SELECT gpucredit.install_jobs()');
is(all_jobs(), $of_both,
	"which puts back what was changed, and this database's own leave alone");

# The log of runs is pruned and the books are checked, under a clock at which
# both are due.  Upkeep works at whatever default isolation level.
query($node, 'credit', q{ALTER DATABASE credit SET default_transaction_isolation = 'repeatable read'});
query(
	$node, 'credit', q{
	SELECT cron.schedule(jobname, '* * * * *', command) FROM cron.job
	WHERE jobname IN ('gpucredit prune_log credit',
		'gpucredit check_books credit');
	INSERT INTO cron.job_run_details (jobid, runid, command, status, end_time)
	VALUES (1, -1, 'SELECT * FROM gpucredit.maintain()', 'succeeded',
			now() - interval '4 days'),
		(1, -2, 'SELECT * FROM gpucredit.maintain()', 'succeeded',
			now() - interval '2 days'),
		(1, -4, 'SELECT * FROM gpucredit.maintain()', 'failed', NULL),
		(1000, -3, 'SELECT 1', 'succeeded', now() - interval '4 days')});

# A job of somebody else that does not end holds up no other.
query($node, 'credit', q{SELECT cron.schedule('slow', '* * * * *', 'SELECT pg_sleep(1000)')});

ok( $node->poll_query_until(
		'credit', q{
	SELECT (SELECT count(*) FILTER (WHERE last_status = 'succeeded') >= }
		  . (2 * $jobs - 2) . q{ FROM gpucredit.cron_status)
		AND EXISTS (SELECT FROM gpucredit.attempt WHERE outcome = 'failed')
		AND EXISTS (SELECT FROM gpucredit.bucket WHERE expired > '0')
		AND NOT EXISTS (SELECT FROM cron.job_run_details WHERE runid = -1)}),
	'cron has run all of them');
is( query(
		$node, 'credit', q{
	SELECT d.status, count(*) FROM cron.job_run_details d
	WHERE d.command = 'SELECT pg_sleep(1000)' GROUP BY 1}),
	'running|1', 'while a slow job runs all the time');
query($node, 'credit', q{
	SELECT cron.unschedule('slow');
	SELECT pg_terminate_backend(pid) FROM pg_stat_activity
	WHERE query = 'SELECT pg_sleep(1000)'});
is( query(
		$node, 'credit', q{
	SELECT job, last_status, last_message FROM gpucredit.cron_status
	WHERE failures > 0}),
	'', 'no job of pg_cron failed');
is( query(
		$node, 'credit', q{
	SELECT held, released, closed_at IS NOT NULL FROM gpucredit.hold
	WHERE job IS NULL}),
	'0.000000|20.000000|t', 'the dead hold is released');
is( query(
		$node, 'credit', q{
	SELECT expired, available FROM gpucredit.bucket WHERE kind = 'promo'}),
	'7.000000|0.000000', 'the expired bucket is swept');
is( query(
		$node, 'credit', q{
	SELECT a.outcome, a.elapsed, a.billed, a.message LIKE 'not heard from%',
		j.state, j.failures
	FROM gpucredit.attempt a JOIN gpucredit.job j USING (org, job)}),
	'failed|00:00:01|0.000278|t|queued|1', 'the silent job is settled');
is( query(
		$node, 'credit',
		'SELECT runid FROM cron.job_run_details WHERE runid < 0 ORDER BY 1'),
	"-3\n-2", 'old runs are pruned, ours alone');

# remove_jobs removes each database's own jobs.
is(query($node, 'credit', 'SELECT gpucredit.remove_jobs()'),
	$jobs, 'the jobs are removed');
is(query($node, 'credit', 'SELECT gpucredit.remove_jobs()'),
	'0', 'remove_jobs() finds nothing to remove the second time');
is(query($node, 'credit', 'SELECT count(*) FROM cron.job'),
	$jobs, 'remove_jobs() leaves the jobs of the other database');
my $away = hint_of('other', 'SELECT gpucredit.remove_jobs()');
$away =~ s/^[^:]*: //;
query($node, 'credit', $away);
is(query($node, 'credit', 'SELECT count(*) FROM cron.job'),
	'0', 'the hint removes the jobs of the other database');

# The setting under which a slow job would hold up all others.
$node->append_conf('postgresql.conf', 'cron.use_background_workers = on');
$node->restart;
{
	my ($status, $out, $err) = $node->psql('credit', 'SELECT gpucredit.install_jobs()');

	is($out, $jobs, 'jobs can be set up with background workers of pg_cron, too');
	like($err, qr/WARNING:  one slow job will hold up all other jobs.*HINT:  Set cron\.use_background_workers = off and cron\.host = '\Q@{[$node->host]}\E'/s,
		'install_jobs() warns of background workers and says what to set instead');
}

verify_empty($node, 'credit');
$node->stop;
done_testing();

# All rows of cron_status.
sub all_jobs
{
	return query(
		$node, 'credit', q{
		SELECT jobname, schedule, command, nodename, nodeport, database,
			username, active
		FROM cron.job
		ORDER BY jobname LIKE '% passing', jobname COLLATE "C", username});
}

# The hint of a statement's error.
sub hint_of
{
	my ($db, $sql) = @_;
	my ($status, $out, $err) = $node->psql($db, $sql);

	return $err =~ /^HINT:  (.*)$/m ? $1 : "no hint in: $err";
}
