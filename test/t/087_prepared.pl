# 087_prepared.pl: prepared transactions that another session commits or rolls
# back

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use GpuCredit;
use Test::More;

my $node = new_node('main', 'max_prepared_transactions = 5',
	'gpucredit.node_suspect = 0',
	q{shared_preload_libraries = 'gpucredit'});
my $hold = q{(SELECT max(h.hold) FROM gpucredit.hold h WHERE h.org = 'acme' AND h.job IS NULL)};
my $job = q{(SELECT max(j.job) FROM gpucredit.job j WHERE j.org = 'acme')};

new_database($node, 'credit');

# Every call works in two phases; a rolled back one leaves nothing that blocks
# the same call.
foreach my $call (
	q{create_account('acme')},
	q{create_account('acme', 'vision')},
	q{set_price('T4', 1)},
	q{register_node('default', 'n1', 'T4', 4, 16384)},
	q{issue('acme', '', 'i', 100)},
	q{set_slices('acme', 'vision', 4)},
	q{set_budget('acme', 'vision', 10, alert_at => '{0.5}')},
	q{set_quota('acme', 'vision', max_queued => 100, max_running => 10)},
	q{set_alert('acme', '', 95)},
	q{set_rate_limit('acme', '', 'hold', 100, 100)},
	q{hold('acme', 'vision', 'h1', 6, '1 hour')},
	qq{capture('acme', $hold, 'c1', 1)},
	q{hold('acme', '', 'h2', 1, '1 hour')},
	qq{release('acme', $hold, 'r2')},
	q{transfer('acme', '', 'vision', 't1', 1)},
	q{reserve('acme', 'vision', 'j1', '1xT4', '1 hour', hold_window => '10 min')},
	q{place('default')},
	qq{meter('acme', $job, 1, '0')},
	qq{checkpoint('acme', $job, 1, 1, 'u', sha256('1'), 1)},
	q{heartbeat('n1', '{0-3}')},
	q{drain('n1', 'repair', gpucredit.now() + '1 hour')},
	q{resume('n1')},
	qq{settle('acme', $job, 1, 'completed', '0')},
	q{reserve('acme', 'vision', 'j2', '1xT4', '1 hour')},
	qq{cancel('acme', $job, 'x2')},
	q{maintain()},
	q{reap_holds()},
	q{check_nodes()},
	q{expire_credits()},
	q{rebuild('acme')},
	q{seal_audit()},
	q{suspend_account('acme', 'vision', true)})
{
	my ($name) = $call =~ /^(\w+)/;

	prepare($call);
	query($node, 'credit', q{ROLLBACK PREPARED 'p'});
	prepare($call);
	query($node, 'credit', q{COMMIT PREPARED 'p'});
	is(query($node, 'credit', 'SELECT count(*) FROM gpucredit.verify()'),
		'0', "$name, prepared twice");
}
is( query(
		$node, 'credit', 'SELECT kind, account FROM gpucredit.alert ORDER BY 1, 2'),
	"balance|\nbudget|vision",
	'an alert is raised by what was prepared');

# The committing session notifies listeners, after it has logged.
my $dbh = connect_to($node, 'credit');
$dbh->do('LISTEN gpucredit_alert');
$dbh->do('SAVEPOINT here') if $dbh->begin_work;
$dbh->do(q{SELECT gpucredit.set_budget('acme', '', 200, alert_at => '{0.01}')});
$dbh->do(q{SELECT gpucredit.hold('acme', '', 'h3', 1, '1 hour')});
$dbh->do('ROLLBACK TO here');
$dbh->commit;
is($dbh->pg_notifies, undef, 'what was rolled back to a savepoint is not told');
$dbh->do(q{SELECT gpucredit.set_budget('acme', '', 200, alert_at => '{0.01}')});
$dbh->do(q{SELECT gpucredit.hold('acme', '', 'h3', 3, '1 hour')});
like((next_notification($dbh))[2], qr/"kind": ?"budget"/, 'what was committed is');
$dbh->disconnect;
verify_empty($node, 'credit');
$node->stop;
done_testing();

# Makes a call in a transaction and prepares it.
sub prepare
{
	my ($call) = @_;

	query($node, 'credit',
		"BEGIN; SELECT * FROM gpucredit.$call; PREPARE TRANSACTION 'p'");
	return;
}
