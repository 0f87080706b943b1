# 051_plans.pl: sessions keep plans, and make them again as tables grow
#
# A plan made for empty tables scans them whole, and only autovacuum, which is
# off here, would invalidate it.  A plan is kept for all values, and is made
# again each time its number of uses has doubled.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use GpuCredit;
use Test::More;

my $node = new_node('plans', 'autovacuum = off');

new_database($node, 'plans');
query($node, 'plans', q{
	SELECT gpucredit.create_account('acme'), gpucredit.create_account('bell');
	SELECT gpucredit.issue('acme', '', 'i', 100000), gpucredit.issue('bell', '', 'i', 100000);});
query($node, 'plans', 'VACUUM (ANALYZE)');

my $dbh = connect_to($node, 'plans');
my $key = 0;

# Takes and releases so many holds; returns how often tables of some size were
# scanned whole.
sub calls
{
	my ($n) = @_;
	my $before = scans();

	foreach (1 .. $n)
	{
		$key++;
		$dbh->do("SELECT gpucredit.release('acme', h.hold, 'r$key')"
			  . " FROM gpucredit.hold('acme', '', 'h$key', 1, '1 hour') h");
	}
	return scans() - $before;
}

sub scans
{
	alone();
	$dbh->do('SELECT pg_stat_force_next_flush()');
	return $dbh->selectrow_array(
		q{SELECT sum(seq_scan) FROM pg_stat_user_tables
			WHERE relname IN ('hold', 'hold_part', 'request', 'entry')});
}

# Waits until no other session is left: a session reports its counts at its
# very end, after psql has returned.
sub alone
{
	$node->poll_query_until('postgres', q{SELECT count(*) = 1
		FROM pg_stat_activity WHERE datname = 'plans'})
	  or die 'a session does not end';
	return;
}

calls(5);
# other sessions make the table grow
query($node, 'plans', q{
	SELECT count(gpucredit.release('bell', h.hold, 'r' || n))
	FROM generate_series(1, 2000) n, gpucredit.hold('bell', '', 'h' || n, 1, '1 hour') h});
cmp_ok(calls(2), '>=', 2, 'the plans of the empty tables are kept, and scan them whole');
calls(10);
is(calls(50), 0, 'used twice as often they were made again, for the tables as they are');

# they do not depend on the values of the call: a key, an amount, an organisation
$dbh->do("SELECT gpucredit.hold('bell', '', 'other', 0.000001, '10 days')");
is(calls(1), 0, 'whatever the values');

# and outlive what changes under them: an index, an ANALYZE
query($node, 'plans', 'ANALYZE');
is(calls(10), 0, 'with statistics the plans are no worse');

# Searches by time or job use the BRIN index.
query($node, 'plans', q{
	SELECT gpucredit.set_price('T4', 1), gpucredit.register_node('default', 'n', 'T4', 1, 16384);
	SELECT gpucredit.reserve('bell', '', 'job', '1xT4', '1 hour');
	SELECT count(gpucredit.release('bell', h.hold, 's' || n))
	FROM generate_series(1, 8000) n, gpucredit.hold('bell', '', 'i' || n, 1, '1 hour') h;
	SELECT gpucredit.cancel('bell', job, 'cancel') FROM gpucredit.job;});
query($node, 'plans', 'VACUUM (ANALYZE)');
is( query($node, 'plans', q{
	SELECT count(*) FROM gpucredit.job j, gpucredit.history('bell', j.job) h
		WHERE h.what IN ('available to held', 'held to available')}),
	'2', "a job's entries are found");
query($node, 'plans', 'SELECT count(*) FROM gpucredit.maintain()');
# Recent decisions are found by number, as far back as is sealed.
query($node, 'plans', "SELECT gpucredit.seal_audit() FROM generate_series(1, 2)") foreach 1 .. 2;
query($node, 'plans', 'SELECT pg_sleep(1.1)');
query($node, 'plans', q{SELECT gpucredit.reserve('bell', '', 'late', '1xT4', '1 hour')});
query($node, 'plans', 'ANALYZE gpucredit.audit');
alone();
is( query($node, 'plans', q{SELECT count(*) FROM gpucredit.audit
		WHERE audit > gpucredit.audit_before(clock_timestamp() - interval '1 s')}),
	'1', 'rows sealed before the instant are not looked at');
my $audit_read = q{SELECT seq_scan FROM pg_stat_user_tables
	WHERE relid = 'gpucredit.audit'::regclass};
my $reads = query($node, 'plans', $audit_read);
query($node, 'plans', q{SELECT count(*) FROM gpucredit.recent_events('1 s')});
alone();
is(query($node, 'plans', $audit_read), $reads, 'the screen of the last minute does not scan the audit log');
foreach my $index ('entry_pages', 'request_created', 'seal_sealed_at')
{
	is( query($node, 'plans', "SELECT idx_scan > 0 FROM pg_stat_user_indexes"
			  . " WHERE indexrelname = '$index'"),
		't', "by $index");
}

# Live attempts, work left with ended ones, and the sample of completed ones
# are found without reading all ended attempts.
query($node, 'plans', q{
	SELECT gpucredit.create_pool('live');
	SELECT gpucredit.set_price('A10', 1), gpucredit.register_node('live', 'm', 'A10', 64, 24576);
	SELECT gpucredit.set_quota('bell', '', max_running => 1000);
	DO $$
	BEGIN
		FOR round IN 1 .. 6 LOOP
			PERFORM gpucredit.reserve('bell', '', format('live-%s-%s', round, n),
				'1xA10', '1 hour', pool => 'live') FROM generate_series(1, 50) n;
			PERFORM gpucredit.place('live');
			EXIT WHEN round = 6;
			PERFORM gpucredit.settle(a.org, a.job, a.attempt, 'completed')
			FROM gpucredit.attempt a WHERE a.pool = 'live' AND a.ended_at IS NULL;
		END LOOP;
		PERFORM gpucredit.settle(a.org, a.job, a.attempt, 'completed')
		FROM gpucredit.attempt a WHERE a.pool = 'live' AND a.ended_at IS NULL
		ORDER BY a.job LIMIT 47;
		PERFORM gpucredit.reserve('bell', '', 'live', '1xA10', '1 hour', pool => 'live');
	END $$});
query($node, 'plans', 'VACUUM (ANALYZE)');

my $scanned = q{SELECT sum(t.seq_scan) FROM pg_stat_user_tables t
	WHERE t.relid IN ('gpucredit.job'::regclass, 'gpucredit.attempt'::regclass)};

alone();
$dbh->do('SET seq_page_cost = 10');	# as if the tables were ten times as long
$dbh->do('SET gpucredit.stop_grace = 0');	# the server has just come up
foreach my $call (
	[ 'job_active', q{SELECT used > 0 OR held > 0 FROM gpucredit.balance('bell')} ],
	[ 'attempt_watch_due', 'SELECT count(*) FROM gpucredit.reap_holds()' ],
	[ 'job_active', q{SELECT count(*) FROM gpucredit.explain('bell', (SELECT max(job)
		FROM gpucredit.job))} ],
	[ 'job_active', q{SELECT count(*) FROM gpucredit.queue('live')} ],
	[ 'job_completed', q{SELECT count(*) FROM gpucredit.plan('live')} ],
	[ 'attempt_needs_cycle', q{SELECT count(*) FROM gpucredit.place('live')} ])
{
	my ($index, $sql) = @$call;
	my $was = used($index);
	my $before;

	$dbh->selectall_arrayref($sql);	# plans are made
	$before = $dbh->selectrow_array($scanned);
	$dbh->selectall_arrayref($sql);
	$dbh->do('SELECT pg_stat_force_next_flush()');
	is($dbh->selectrow_array($scanned) - $before, 0, "attempts that live, and few others, are read: $sql");
	cmp_ok(used($index), '>', $was, "... by $index");
}

# An organisation without budgets does not read those of all others, although
# such a plan looks cheap.
query($node, 'plans', q{
	CREATE TEMP TABLE a AS SELECT format('o%s', o) AS org, format('a%s', n) AS account
	FROM generate_series(1, 40) o, generate_series(1, 50) n;
	SELECT count(gpucredit.create_account(o.org)) FROM (SELECT DISTINCT org FROM a) o;
	SELECT count(gpucredit.create_account(org, account)) FROM a;
	SELECT count(gpucredit.set_budget(org, account, 1))
	FROM (SELECT * FROM a ORDER BY md5(org || account)) a;
	ANALYZE gpucredit.budget});
alone();
$dbh->do('RESET seq_page_cost');
$scanned = q{SELECT seq_scan FROM pg_stat_user_tables
	WHERE relid = 'gpucredit.budget'::regclass};
$dbh->do('SELECT pg_stat_force_next_flush()');
my $whole = $dbh->selectrow_array($scanned);
$dbh->do(q{SELECT gpucredit.hold('acme', '', 'without', 1, '1 hour'),
	gpucredit.reserve('acme', '', 'without job', '1xT4', '1 hour')});
$dbh->do('SELECT pg_stat_force_next_flush()');
is($dbh->selectrow_array($scanned), $whole, 'budgets of others are not read');

sub used
{
	my ($index) = @_;

	$dbh->do('SELECT pg_stat_force_next_flush()');
	return scalar $dbh->selectrow_array(
		'SELECT idx_scan FROM pg_stat_user_indexes WHERE indexrelname = ?', undef, $index);
}
# After a restore there are no statistics. rebuild still computes differences
# once, not once per row.
new_database($node, 'restored');
query($node, 'restored', q{
	SELECT gpucredit.create_account('acme');
	SELECT gpucredit.create_account('acme', 'a' || i) FROM generate_series(1, 8000) i;
	SELECT gpucredit.issue('acme', '', 'i', 100000)});
query($node, 'restored', qq{
	SELECT count(c.captured) FROM generate_series(1000 * $_ + 1, 1000 * ($_ + 1)) i,
		LATERAL gpucredit.hold('acme', 'a' || i, 'h' || i, 1, '1 hour') h,
		LATERAL gpucredit.capture('acme', h.hold, 'c' || i, 1) c})
  foreach 0 .. 7;
# each call of upkeep takes a moment only, and goes on where the last one stopped
for (1 .. 50)
{
	query($node, 'restored', 'SELECT gpucredit.maintain()');
	last if query($node, 'restored', 'SELECT count(*) FROM gpucredit.account_delta') == 0;
}
is(query($node, 'restored', q{SELECT count(*) FROM gpucredit.spend_day}), 8001, 'spend of many accounts');
is(query($node, 'restored', q{
		SET statement_timeout = '30s'; SELECT count(*) FROM gpucredit.rebuild('acme')}),
	0, 'rebuild looks for what differs once');
verify_empty($node, 'restored');
verify_empty($node, 'plans');
$dbh->disconnect;
$node->stop;
done_testing();
