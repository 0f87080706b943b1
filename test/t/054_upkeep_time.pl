# 054_upkeep_time.pl: calls of upkeep end after gpucredit.upkeep_time
#
# Each task finds more than it can do in the shortest time that can be set.  Its
# call does a part, upkeep_lag says that there is more, and the next calls do the
# rest.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use GpuCredit;
use Test::More;
use Time::HiRes 'time';

my $node = new_node('upkeep_time', 'autovacuum = off',
	q{gpucredit.upkeep_time = '10ms'}, q{gpucredit.usage_retention = '1d'},
	q{gpucredit.usage_interval = '1min'}, q{gpucredit.node_lost = 0});
my $dbh;

new_database($node, 'credit');
$dbh = connect_to($node, 'credit');
$dbh->do($_) foreach (
	q{SET gpucredit.clock = '2030-01-01 00:00+00'},
	q{SELECT gpucredit.create_account('acme'), gpucredit.create_account('poor'), gpucredit.grant_tier('acme', '', 'production_inference'),
		gpucredit.set_price('T4', 1), gpucredit.register_node('default', 'n', 'T4', 1, 16384)},
	q{SELECT count(gpucredit.issue('acme', '', 'promo ' || i, 1, 'promo', expires_at => '2030-02-01'))
		FROM generate_series(1, 6000) i},
	q{SELECT gpucredit.issue('acme', '', 'paid', 10000)},
	q{SELECT count(gpucredit.hold('poor', '', 'none ' || i, 1, '1 h')) FROM generate_series(1, 6000) i},
	q{SELECT gpucredit.reserve('acme', '', 'long', '1xT4', '6000 min', 'production_inference')},
	q{SELECT count(*) FROM gpucredit.place()},
	# an attempt's row has as many dead versions as one transaction has heartbeats
	(map { qq{SELECT count(gpucredit.meter('acme', 1, 1, (100 * $_ + i) * interval '1 min'))
		FROM generate_series(1, 100) i, LATERAL (SELECT set_config('gpucredit.clock', (timestamptz
			'2030-01-01 00:00+00' + (100 * $_ + i) * interval '1 min')::text, false) OFFSET 0) c} } 0 .. 59),
	q{SELECT gpucredit.settle('acme', 1, 1, 'completed', '6000 min')},
	q{SET gpucredit.clock = '2030-02-28 23:59+00'});

one(q{SELECT affected FROM gpucredit.upkeep('number_events')}) while lag('number_events') > 0;
$dbh->do(q{SELECT gpucredit_internal.write_event('model.kept', 'acme') FROM generate_series(1, 20000)});
$dbh->do(q{SET gpucredit.clock = '2030-03-01 00:00+00'});

my $removed = sub { return one(q{SELECT count(*) FROM gpucredit.usage}) };

is($removed->() > 5000, 1, 'thousands of usage rows are past their retention');
foreach my $task (
	[ 'number_events', q{SELECT affected FROM gpucredit.upkeep('number_events')}, 20000, 'number_events' ],
	[ 'expire_credits', 'SELECT affected FROM gpucredit.expire_credits()', 6000, 'expire_credits' ],
	[ 'seal_audit', 'SELECT sum(affected) FROM gpucredit.seal_audit()', undef, 'seal_audit' ],
	[ 'fold_denials', q{SELECT affected FROM gpucredit.upkeep('fold_denials')}, 6000, 'fold_denials' ],
	# of one instant; those of payments stay
	[ 'forget_requests', q{SELECT affected FROM gpucredit.upkeep('forget') WHERE task = 'forget_requests'},
		6001, 'forget_requests' ],
	[ 'forget_usage', q{SELECT affected FROM gpucredit.upkeep('forget_usage')}, $removed->(), 'forget_usage' ])
{
	my ($name, $call, $all, $lag) = @$task;
	my $first;
	my $done = 0;
	my $calls = 0;

	cmp_ok(lag($lag), '>', 0, "$name is late") if $name ne 'seal_audit';
	my $began = time;
	$done = $first = one($call);
	my $took = time - $began;
	cmp_ok($first, '>', 0, "$name: the shortest call does something");
	while (my $n = one($call))
	{
		$done += $n;
		$calls++;
	}
	ok($calls > 0 || $took < 0.1, "$name: ... and leaves to the next one what it has no time for") or diag("it took $took s");
	is($done, $all, "$name: calls one after the other do all") if defined $all;
	is(lag($lag), 0, "$name: then it is not late") if $name ne 'seal_audit';
}

# when all organisations were looked at
is(lag('raise_alerts'), 0, 'raise_alerts was not called, and has no position');
one(q{SELECT affected FROM gpucredit.upkeep('raise_alerts')}) foreach 1 .. 3;
$dbh->do(q{SET gpucredit.clock = '2030-03-31 00:00+00'});
$dbh->do(q{SET DateStyle = 'SQL, DMY'});
one(q{SELECT affected FROM gpucredit.upkeep('raise_alerts')}) foreach 1 .. 3;
$dbh->do(q{RESET DateStyle});
is(lag('raise_alerts'), 0, 'a position reads the same in a session with another DateStyle');
$dbh->do(q{SET gpucredit.clock = '2030-03-31 00:10+00'});
is(lag('raise_alerts'), 600, 'raise_alerts is late by what passed since its last pass began');
one(q{SELECT affected FROM gpucredit.upkeep('raise_alerts')}) foreach 1 .. 3;
is(lag('raise_alerts'), 0, '... until the next pass');

# a node that its provider took, with a job on it
$dbh->do(q{SELECT gpucredit.reserve('acme', '', 'left', '1xT4', '1 h')});
$dbh->do(q{SELECT gpucredit.heartbeat('n')});
$dbh->do(q{SELECT count(*) FROM gpucredit.place()});
is(lag('check_nodes'), 0, 'no node is gone');
$dbh->do(q{SELECT gpucredit.reclaim('n', '1 min')});
$dbh->do(q{SET gpucredit.clock = '2030-03-31 00:21+00'});
is(lag('check_nodes'), 600, 'check_nodes is late by what passed since the node is gone');
$dbh->do(q{SELECT gpucredit.check_nodes()});
is(lag('check_nodes'), 0, '... until it has settled the job there');

$dbh->disconnect;
verify_empty($node, 'credit');
$node->stop;
done_testing();

sub one
{
	my ($sql) = @_;

	return ($dbh->selectrow_array($sql))[0];
}

sub lag
{
	my ($task) = @_;

	return one(qq{SELECT extract(epoch FROM lag)::int FROM gpucredit.upkeep_lag WHERE task = '$task'});
}
