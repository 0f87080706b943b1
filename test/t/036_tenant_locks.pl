# 036_tenant_locks.pl: a tenant that leaves a transaction open does not keep its
# agent, or an application, waiting
#
# A tenant settles, cancels or holds in a transaction that it leaves open, and so
# keeps the rows that the settlement of its jobs needs.  The worker ends its
# session after gpucredit.tenant_block_max.  A tenant that keeps nobody waiting is
# left alone.
#
# Alone: it measures waits of seconds

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use GpuCredit;
use DBD::Pg qw(:async);
use Test::More;
use Time::HiRes qw(sleep time);

my $node = new_node('locks', "shared_preload_libraries = 'gpucredit'",
	"gpucredit.database = 'credit'", 'max_prepared_transactions = 5',
	'gpucredit.tenant_block_max = 1', 'gpucredit.node_suspect = 0', 'gpucredit.node_lost = 0',
	'gpucredit.heartbeat_timeout = 0', 'gpucredit.hold_least = 0');

new_database($node, 'credit');
query($node, 'credit', q{
	CREATE ROLE tenant LOGIN IN ROLE gpucredit_tenant;
	CREATE ROLE agent LOGIN IN ROLE gpucredit_agent;
	CREATE ROLE app LOGIN IN ROLE gpucredit_app;
	SELECT gpucredit.create_account('acme'), gpucredit.issue('acme', '', 'i', 1000),
		gpucredit.set_price('T4', 1), gpucredit.register_node('default', 'n1', 'T4', 4, 16384);
	SELECT gpucredit.bind_tenant('tenant', 'acme')});
my $agent = connect_to($node, 'credit', user => 'agent');
my $app   = connect_to($node, 'credit', user => 'app');

# What the tenant does in a transaction that it leaves open, with a running job;
# its agent then reports the end.
foreach my $case (
	[ 'settles', q{SELECT gpucredit.settle('acme', ?, 1, 'failed')}, 1 ],
	[ 'cancels', q{SELECT gpucredit.cancel('acme', ?, 'c' || ?)}, 2 ],
	[ 'holds',   q{SELECT gpucredit.hold('acme', '', 'h' || ?, 1, '1 h')}, 1 ])
{
	my ($name, $call, $n) = @$case;
	my $job    = start($name);
	my $tenant = leave_open($call, ($job) x $n);
	my $begun  = time;

	my ($over) = $agent->selectrow_array(
		q{SELECT over FROM gpucredit.part_ended('acme', ?, 1, 'n1', 'completed', elapsed => '1 s')},
		undef, $job);
	my $waited = time - $begun;

	cmp_ok($waited, '<', 30, "$name: the agent's report waits for seconds only");
	is($over, 1, "$name: the agent's report settles the attempt");

	# four devices at 1 an hour each, which nobody else could have until then
	my ($paid) = query($node, 'credit', qq{SELECT billed * 900 FROM gpucredit.attempt WHERE job = $job});
	cmp_ok($paid, '>', .5 + ($waited < 6 ? $waited : 6), "$name: the seconds for which the report waited are billed");
	is(query($node, 'credit', 'SELECT count(*) FROM gpucredit.allocated_devices'), 0,
		"$name: the GPUs of the attempt are free");
	ok(!eval { $tenant->do('SELECT 1'); 1 }, "$name: the tenant's session has ended");
}

# An application waits no longer.
my $tenant = leave_open(q{SELECT gpucredit.hold('acme', '', 'again', 1, '1 h')});
my $begun  = time;
is($app->selectrow_array(q{SELECT status FROM gpucredit.hold('acme', '', 'app', 1, '1 h')}),
	'granted', 'an application gets its hold');
cmp_ok(time - $begun, '<', 30, 'an application gets its hold within seconds');
is(query($node, 'credit', q{SELECT count(*) FROM gpucredit.audit
		WHERE operation = 'end_tenant_transactions' AND detail ->> 'role' = 'tenant'}),
	4, 'the end of each tenant\'s transaction is audited');

# Nobody waits: the transaction stays open, also past two looks of the worker.
$tenant = leave_open(q{SELECT gpucredit.hold('acme', '', 'alone', 1, '1 h')});
sleep(11);
ok(eval { $tenant->commit; 1 }, 'a tenant whom nobody waits for commits');

# A report that has waited settles as any other: it locks all that it needs at
# once.  Here it waits for the job's row while somebody has the bucket that comes
# first in burn order; he then wants the one that the job's hold came from.
{
	my $job   = start('waits');
	my $other = connect_to($node, 'credit');
	my $row   = connect_to($node, 'credit');
	my $error = '';

	query($node, 'credit', q{SELECT gpucredit.issue('acme', '', 'first', 10, expires_at => now() + interval '1 day')});
	$row->begin_work;
	$row->do('SELECT FROM gpucredit.job WHERE job = ? FOR UPDATE', undef, $job);
	$other->begin_work;
	$other->do(q{SELECT gpucredit.hold('acme', '', 'of the first', 1, '1 h')});
	$agent->do(q{SET statement_timeout = '60 s'});
	my $report = $agent->prepare(
		q{SELECT over FROM gpucredit.part_ended('acme', ?, 1, 'n1', 'completed', elapsed => '1 s')},
		{ pg_async => PG_ASYNC });
	$report->execute($job);
	sleep(1.5);
	$row->rollback;
	$node->poll_query_until('credit', q{SELECT NOT EXISTS (SELECT FROM pg_stat_activity
			WHERE usename = 'agent' AND state = 'active' AND wait_event_type IS NULL)});
	eval { $other->do(q{SELECT gpucredit.hold('acme', '', 'of both', 20, '1 h')}); $other->commit; 1 }
	  or $error .= $@;
	eval { $report->pg_result; 1 } or $error .= $@;
	is($error, '', 'a report that waited and a hold of several buckets do not lock each other out');
	is(query($node, 'credit', qq{SELECT count(*) FROM gpucredit.attempt
			WHERE job = $job AND outcome = 'completed' AND billed * 900 > 1}),
		1, 'what a report waited for a tenant\'s lock is billed');
	is(query($node, 'credit', qq{SELECT count(*) FROM gpucredit.audit
			WHERE job = $job AND operation = 'settle' AND (detail ->> 'waited_us')::bigint > 1000000}),
		1, 'the audit log says for how long it waited');
}

# What a report waited may cost more than the job's hold has: the rest is drawn.
{
	my $job    = start('beyond', '3 s');
	my $row    = connect_to($node, 'credit');
	my $report = $agent->prepare(
		q{SELECT over FROM gpucredit.part_ended('acme', ?, 1, 'n1', 'completed', elapsed => '1 s')},
		{ pg_async => PG_ASYNC });

	$row->begin_work;
	$row->do('SELECT FROM gpucredit.job WHERE job = ? FOR UPDATE', undef, $job);
	$report->execute($job);
	sleep(3);
	$row->rollback;
	$report->pg_result;
	is(query($node, 'credit', qq{SELECT count(*) FROM gpucredit.attempt a JOIN gpucredit.hold h USING (org, hold)
			WHERE a.job = $job AND a.billed * 900 > 3 AND a.uncollected = '0' AND h.drawn = h.captured}),
		1, 'what a report waited is billed beyond what the job held');
}

# What no session holds cannot be ended, so a tenant prepares nothing.
$tenant = leave_open(q{SELECT gpucredit.hold('acme', '', 'prepared', 1, '1 h')});
ok(!eval { $tenant->do(q{PREPARE TRANSACTION 'for ever'}); 1 }, 'a tenant prepares no call');
is($tenant->state, '0A000', 'a tenant that prepares a transaction learns why it may not');
is(query($node, 'credit', 'SELECT count(*) FROM pg_prepared_xacts'), 0, 'nothing is left of it');

verify_empty($node, 'credit');
$node->stop;
done_testing();

# A job that runs on the node.
sub start
{
	my ($key, $limit) = (@_, '1 h');
	my $job = query($node, 'credit',
		qq{SELECT job FROM gpucredit.reserve('acme', '', '$key', '4xT4', '$limit')});

	$node->poll_query_until('credit',
		qq{SELECT state = 'active' FROM gpucredit.job WHERE job = $job});
	$agent->do(q{SELECT gpucredit.meter('acme', ?, 1, '0')}, undef, $job);
	return $job;
}

# A session of the tenant that has made a call, without its timeouts.
sub leave_open
{
	my ($call, @args) = @_;
	my $dbh = connect_to($node, 'credit', user => 'tenant');

	$dbh->do('SET idle_in_transaction_session_timeout = 0');
	$dbh->do('SET statement_timeout = 0');
	$dbh->begin_work;
	$dbh->do($call, undef, @args);
	return $dbh;
}
