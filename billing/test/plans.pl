# plans.pl: credit by the month, automatic top-up, requests for credit and quota:
# nothing is granted twice, whatever runs twice, and nobody grants himself anything
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../test/perl";
use GpuCredit;
use POSIX ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('plans', 'gpucredit.node_suspect = 0', 'gpucredit.node_lost = 0');

$node->safe_psql('postgres', 'CREATE DATABASE plans');
$node->safe_psql('plans', q{
	CREATE EXTENSION gpucredit_billing CASCADE;
	CREATE ROLE fin LOGIN IN ROLE gpucredit_admin;
	CREATE ROLE ops LOGIN IN ROLE gpucredit_operator;
	CREATE ROLE aud LOGIN IN ROLE gpucredit_auditor;
	CREATE ROLE chief LOGIN IN ROLE gpucredit_tenant;
	CREATE ROLE lead LOGIN IN ROLE gpucredit_tenant;
	CREATE ROLE ann LOGIN IN ROLE gpucredit_tenant;
	CREATE ROLE twin LOGIN IN ROLE ann;
	CREATE ROLE eve LOGIN IN ROLE gpucredit_tenant;
	CREATE ROLE team IN ROLE gpucredit_tenant;
	CREATE ROLE heads IN ROLE gpucredit_tenant;
	CREATE ROLE dual LOGIN IN ROLE team, heads;
	CREATE ROLE head LOGIN IN ROLE heads;
	CREATE ROLE pool LOGIN NOINHERIT IN ROLE ann, head;
	SET gpucredit.clock = '2030-01-20 08:00+00';
	SELECT gpucredit.create_account('acme'), gpucredit.create_account('acme', 'nlp'), gpucredit.create_account('acme', 'nlp/ann'),
		gpucredit.create_account('acme', 'vision'), gpucredit.create_account('rival');
	SELECT gpucredit.bind_tenant('chief', 'acme'), gpucredit.bind_tenant('lead', 'acme', 'nlp'), gpucredit.bind_tenant('ann', 'acme', 'nlp/ann'),
		gpucredit.bind_tenant('eve', 'rival'), gpucredit.bind_tenant('team', 'acme', 'nlp/ann'), gpucredit.bind_tenant('heads', 'acme', 'nlp')});

sub as
{
	my ($role, $sql, $clock) = @_;
	my ($out, $error);
	my $rc = $node->psql('plans', sprintf("SET gpucredit.clock = '%s';\nSET SESSION AUTHORIZATION %s;\n%s", $clock // '2030-01-20 12:00+00',
			$role, $sql), stdout => \$out, stderr => \$error);

	return $rc == 0 ? $out : "ERROR $error";
}

# The same statements by several sessions at once, in the server's own time.
sub at_once
{
	my ($n, $sql) = @_;
	my @pids = map {
		my $pid = fork() // die;

		if ($pid == 0)
		{
			open(STDOUT, '>', '/dev/null') && open(STDERR, '>&', \*STDOUT);
			exec 'psql', '-X', '-h', $node->host, '-p', $node->port, '-d', 'plans', '-c', $sql or POSIX::_exit(127);
		}
		$pid
	} 1 .. $n;

	waitpid $_, 0 foreach @pids;
}

my $spendable = q{SELECT spendable FROM gpucredit.balance('acme', 'vision')};

# Plans
foreach my $role (qw(ops aud chief ann eve))
{
	like(as($role, q{SELECT gpucredit_billing.set_plan('acme', 'vision', 'p', 100)}), qr/permission denied/, "$role sets no plan");
}
foreach my $bad ("0", "-1", "'NaN'", "1.0000001", "NULL", "1, '2029-12-31'", "1, '2030-04-01'", "1, 'infinity'", "1, months_valid => 0",
	"1, kind => 'gift'", "1, policy => '{\"x\": 1}'", "1, last_month => '2029-12-01'", "1, label => E'a\\nb'", "9223372036854.775808")
{
	like(as('fin', "SELECT gpucredit_billing.set_plan('acme', 'vision', 'bad', $bad)"), qr/ERROR/, "no plan of $bad");
}
is(as('aud', q{SELECT count(*) FROM gpucredit_billing.plan}), 0, 'and nothing is left of them');
like(as('fin', q{SELECT * FROM gpucredit_billing.set_plan('acme', 'vision', 'team', 100)}), qr/^\d+\|f$/, 'a plan is set');
my $plan = as('fin', q{SELECT plan FROM gpucredit_billing.plans('acme')});
is(as('fin', q{SELECT * FROM gpucredit_billing.set_plan('acme', 'vision', 'team', 100.0)}), "$plan|t", 'once');
is(as('chief', $spendable), '100.000000', 'this month\'s credit is there at once, for half a month as well');
is(as('chief', $spendable, '2030-02-01 00:00+00'), '100.000000', 'next month\'s in its first instant, though nothing ran');
is(as('chief', $spendable, '2030-01-31 23:59:59.999999+00'), '100.000000', 'and this month\'s until its last');
is(as('chief', $spendable, '2030-03-31 23:00+00'), '100.000000', 'so for two months');
is(as('chief', $spendable, '2030-04-01 00:00+00'), '0.000000', 'what nobody used expires');
is(as('ops', q{SELECT gpucredit_billing.grant_plans()}, '2030-01-31 12:00+00'), 0, 'nothing is due before the month is over');
at_once(6, q{SET gpucredit.clock = '2030-04-10 12:00+00'; SELECT gpucredit_billing.grant_plans(); SELECT * FROM gpucredit_billing.upkeep()});
is(as('chief', q{SELECT count(*), sum(issued::numeric), count(DISTINCT effective_at) FROM gpucredit.buckets('acme', 'vision')}, '2030-04-10 12:00+00'),
	'6|600.000000|6', 'six at once grant each month once');
is(as('chief', $spendable, '2030-04-10 12:00+00'), '100.000000', 'of which one is active');
is(as('chief', $spendable, '2030-06-30 12:00+00'), '100.000000', 'a late grant reaches two months ahead as well');
$node->stop('immediate');
$node->start;
is(as('ops', q{SELECT gpucredit_billing.grant_plans()}, '2030-04-10 12:00+00'), 0, 'after a crash none is granted again');
like(as('fin', "SELECT gpucredit_billing.end_plan($plan, '2030-01-01')", '2030-04-11 12:00+00'), qr/ends with the last month/, 'a plan does not end long ago');
is(as('fin', "SELECT gpucredit_billing.end_plan($plan)", '2030-04-11 12:00+00'), '200.000000', 'who ends it revokes the months to come');
is(as('fin', "SELECT gpucredit_billing.end_plan($plan)", '2030-04-11 12:00+00'), '0', 'once');
is(as('chief', $spendable, '2030-04-11 12:00+00'), '100.000000', 'and leaves the present one');
is(as('chief', $spendable, '2030-05-11 12:00+00'), '0.000000', 'after which there is none');
is(as('ops', q{SELECT gpucredit_billing.grant_plans()}, '2030-08-10 12:00+00'), 0, 'and none follows');
is(as('chief', q{SELECT label, credits FROM gpucredit_billing.plans('acme')}), '|100', 'a tenant reads the plans of his accounts');
is(as('lead', q{SELECT count(*) FROM gpucredit_billing.plans('acme', 'nlp')}), 0, 'and of no other');
like(as('eve', q{SELECT * FROM gpucredit_billing.plans('acme')}), qr/does not exist/, 'nor of another organisation');
like(as('chief', "SELECT gpucredit_billing.end_plan($plan)"), qr/permission denied/, 'and ends none');
as('fin', q{SELECT gpucredit_billing.set_plan('acme', 'vision', 'rollover', 10, months_valid => NULL, kind => 'promo')}, '2030-04-11 12:00+00');
is(as('ops', q{SELECT gpucredit_billing.grant_plans()}, '2031-04-10 12:00+00'), 12, 'credit that never expires is made up after a year in which nobody called');
is(as('chief', $spendable, '2031-04-10 12:00+00'), '130.000000', 'in full');
is(as('fin', q{SELECT a.status, b.status FROM gpucredit.transfer('acme', 'vision', 'nlp', 'away', 15) a, gpucredit.transfer('acme', 'nlp', 'vision', 'back', 15) b}, '2031-04-10 12:00+00'),
	'granted|granted', 'credit of a plan is moved, which verify() below has nothing against');

# Top-up
as('fin', q{SELECT gpucredit.issue('acme', 'nlp', 'start', 100)});
like(as('fin', "SELECT gpucredit_billing.set_top_up('acme', 'nlp', $_)"), qr/ERROR/, "no top-up of $_") foreach '0, 5', '5, 0', "'NaN', 5", '5', '5, 5, 0', '5, 5, 99';
like(as('chief', q{SELECT gpucredit_billing.set_top_up('acme', 'nlp', 50, 500)}), qr/permission denied/, 'a tenant does not set what is paid for');
is(as('fin', q{SELECT gpucredit_billing.set_top_up('acme', 'nlp', 50, 40, 2)}), '', 'a top-up is set');
my $orders = q{SELECT string_agg(concat_ws(' ', top_up_order, state, credits), ',' ORDER BY top_up_order) FROM gpucredit_billing.top_up_orders('acme')};
is(as('fin', $orders), '', 'nothing is ordered above the line');
is(as('lead', q{BEGIN; SELECT held FROM gpucredit.hold('acme', 'nlp', 'h0', 60, '1 day'); ROLLBACK}), '60.000000', 'a spender who rolls back');
is(as('fin', $orders), '', 'orders nothing');
$node->safe_psql('plans', 'ALTER TABLE gpucredit_billing.top_up_order ALTER top_up_order RESTART');
as('lead', q{SELECT gpucredit.hold('acme', 'nlp', 'h1', 60, '10 days')});
is(as('fin', $orders), '1 open 40', 'the transaction that crosses the line orders');
is(as('fin', q{SELECT account, detail FROM gpucredit.event_pending WHERE kind = 'balance.top_up'}),
	'nlp|{"below": "50.000000", "order": 1, "credits": "40.000000", "available": "40.000000"}', 'and writes the event');
as('lead', q{SELECT gpucredit.hold('acme', 'nlp', 'h2', 1, '10 days')}, '2030-01-20 12:05+00');
is(as('fin', $orders), '1 open 40', 'an open order is the only one');
like(as('lead', q{SELECT gpucredit_billing.complete_top_up(1, 'x')}), qr/permission denied/, 'nobody pays himself');
like(as('fin', "SELECT gpucredit_billing.complete_top_up($_)"), qr/ERROR/, "nor by $_") foreach "1, ''", '1, NULL', "99, 'x'";
is(as('fin', q{SELECT credits, replayed FROM gpucredit_billing.complete_top_up(1, 'pi_1')}), '40.000000|f', 'a payment is credited');
is(as('fin', q{SELECT credits, replayed FROM gpucredit_billing.complete_top_up(1, 'pi_1')}), '40.000000|t', 'once');
is(as('fin', q{SELECT gpucredit_billing.fail_top_up(1, 'declined')}), 'f', 'a failure that is told late changes nothing');
like(as('fin', q{SELECT gpucredit_billing.complete_top_up(1, 'pi_2')}), qr/another payment/, 'and a second payment is not swallowed');
is(as('lead', q{SELECT available FROM gpucredit.balance('acme', 'nlp')}), '79.000000', 'the account has it');
as('lead', q{SELECT gpucredit.hold('acme', 'nlp', 'h3', 40, '10 days')}, '2030-01-20 13:00+00');
is(as('fin', $orders), '1 paid 40,2 open 40', 'the line is crossed again');
like(as('fin', q{SELECT gpucredit_billing.complete_top_up(2, 'pi_1')}), qr/another order/, 'one payment does not pay two orders');
is(as('fin', q{SELECT gpucredit_billing.fail_top_up(2, 'card declined')}), 't', 'a payment fails');
is(as('ops', q{SELECT affected FROM gpucredit_billing.upkeep() WHERE task = 'top_ups'}, '2030-01-20 14:00+00'), 0, 'two orders are the most of a day');
as('fin', q{SELECT gpucredit.issue('acme', 'nlp', 'more', 30)}, '2030-01-20 15:00+00');
as('lead', q{SELECT gpucredit.hold('acme', 'nlp', 'h4', 30, '10 days')}, '2030-01-20 16:00+00');
is(as('fin', $orders), '1 paid 40,2 failed 40', 'whoever crosses the line');
at_once(4, q{SET gpucredit.clock = '2030-01-21 00:01+00'; SELECT * FROM gpucredit_billing.upkeep()});
is(as('fin', $orders), '1 paid 40,2 failed 40,3 open 40', 'upkeep orders the next day, once');
as('fin', q{SELECT gpucredit_billing.fail_top_up(3, 'no more')}, '2030-01-21 00:02+00');
is(as('ops', sprintf(q{BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 0;
\! psql -X -q -h %s -p %s -d plans -c "SET gpucredit.clock = '2030-01-22 00:01+00'" -c "SELECT gpucredit_billing.upkeep()" > /dev/null
SELECT affected FROM gpucredit_billing.upkeep() WHERE task = 'top_ups'; COMMIT}, $node->host, $node->port), '2030-01-22 00:01+00'),
	"0\n0", 'at REPEATABLE READ an order that the snapshot lacks is no error');
is(as('fin', $orders), '1 paid 40,2 failed 40,3 failed 40,4 open 40', 'and stays the only one');
is(as('fin', q{SELECT replayed FROM gpucredit_billing.complete_top_up(2, 'pi_late')}), 'f', 'a payment that succeeds after all is credited');
is(as('chief', q{SELECT count(*) FROM gpucredit_billing.top_ups('acme')}) . as('eve', q{SELECT count(*) FROM gpucredit_billing.top_ups('rival')}), '10',
	'each reads his own');
is(as('fin', q{SELECT gpucredit_billing.set_top_up('acme', 'nlp', NULL)}), '', 'a top-up ends');
as('fin', q{SELECT gpucredit_billing.fail_top_up(3, 'no more')});
is(as('ops', q{SELECT affected FROM gpucredit_billing.upkeep() WHERE task = 'top_ups'}, '2030-01-25 14:00+00'), 0, 'and nothing is ordered');
# Payments
like(as('chief', q{SELECT gpucredit_billing.book_payment('acme', '', 'pi_x', 5)}), qr/permission denied/, 'a tenant books no payment');
like(as('fin', "SELECT gpucredit_billing.book_payment('acme', '', $_)"), qr/ERROR/, "nor is this one: $_") foreach "'', 5", "NULL, 5", "E'a\\nb', 5", "'pi_x', 0", "'pi_x', 'NaN'", "'pi_x', 'Infinity'", "'pi_x', 1.0000001";
is(as('fin', q{SELECT credits, refunded, replayed FROM gpucredit_billing.book_payment('acme', 'vision', 'pi_x', 5)}), '5.000000|f|f', 'a payment is booked');
is(as('fin', q{SELECT credits, refunded, replayed FROM gpucredit_billing.book_payment('acme', 'vision', 'pi_x', 5.0)}), '5.000000|f|t', 'once');
like(as('fin', "SELECT gpucredit_billing.book_payment($_)"), qr/booked otherwise/, "not as another: $_") foreach "'acme', 'vision', 'pi_x', 6", "'acme', '', 'pi_x', 5", "'rival', '', 'pi_x', 5";
is(as('fin', q{SELECT gpucredit_billing.refund_payment('pi_x'), gpucredit_billing.refund_payment('pi_x'), gpucredit_billing.refund_payment('pi_y')}), '5.000000|5.000000|0.000000',
	'a refund takes back what is left');
is(as('fin', q{SELECT bucket IS NULL, refunded, replayed FROM gpucredit_billing.book_payment('acme', 'vision', 'pi_y', 5)}), 't|t|f', 'one that comes first leaves nothing to credit');
like(as('fin', q{SELECT gpucredit_billing.complete_top_up(3, 'pi_y')}), qr/another order|refunded|booked otherwise/, 'and completes no order');
is(as('chief', q{SELECT string_agg(payment, ',') FROM gpucredit_billing.payments('acme')}), 'pi_y,pi_x,pi_late,pi_1', 'the organisation sees its payments');
is(as('chief', q{SELECT q.payment FROM gpucredit_billing.payments('acme', "limit" => 2) p, gpucredit_billing.payments('acme', p.number, 1) q WHERE p.payment = 'pi_x'}), 'pi_late', 'page by page');
# a dump restores the alerts of the past
my $dump = PostgreSQL::Test::Utils::tempdir() . '/plans.sql';
as('fin', q{SELECT gpucredit_billing.set_top_up('acme', 'nlp', 5, 40)});
$node->command_ok(['pg_dump', '-h', $node->host, '-p', $node->port, '-f', $dump, 'plans'], 'a dump');
$node->safe_psql('postgres', 'CREATE DATABASE again');
$node->command_ok(['psql', '-X', '-q', '-h', $node->host, '-p', $node->port, '-d', 'again', '-v', 'ON_ERROR_STOP=1', '-f', $dump], 'is restored');
is($node->safe_psql('again', q{SELECT count(*), (SELECT count(*) FROM gpucredit_billing.verify()) FROM gpucredit_billing.top_up_order}), '4|0',
	'and orders nothing anew');
$node->safe_psql('again', q{DROP EXTENSION gpucredit_billing; SELECT gpucredit.set_alert('acme', 'vision', 1000)});
is($node->safe_psql('again', q{SELECT count(*) FROM gpucredit.alert WHERE account = 'vision' AND kind = 'balance'}), '1',
	'and without the extension alerts are as before');

# Requests
my $ask = q{SELECT state FROM gpucredit_billing.request_allocation('acme', 'nlp/ann', '%s', '%s', %s)};
like(as('ann', sprintf($ask, 'bad', 'x', $_)), qr/ERROR/, "no request for $_")
  foreach 'NULL', '0', '-1', "'NaN'", '1, max_gpus => 2', "NULL, 'H100'", 'NULL, max_gpus => -1', "NULL, 'a b', 1", '1.0000001';
like(as('ann', sprintf($ask, 'bad', '', 5)), qr/needs a reason/, 'nor without a reason');
like(as('eve', sprintf($ask, 'bad', 'x', 5)), qr/does not exist/, 'nor for another organisation');
like(as('ann', q{SELECT gpucredit_billing.request_allocation('acme', 'vision', 'k', 'x', 5)}), qr/does not exist/, 'nor for another account');
is(as('ann', sprintf($ask, 'a', 'the paper is due', 30)), 'open', 'an account asks');
is(as('ann', sprintf($ask, 'a', 'the paper is due', '30.0')), 'open', 'once');
is(as('lead', q{SELECT request, account, credits, reason, may_decide FROM gpucredit_billing.allocation_requests('acme', 'nlp')}),
	'1|nlp/ann|30|the paper is due|f', 'those above it see that');
my $grant = q{SELECT state, reason, credits FROM gpucredit_billing.decide_allocation(1, '%s', 'grant')};
like(as($_, sprintf($grant, 'g')), qr/not yours to decide/, "$_ decides nothing") foreach qw(chief lead ann);
like(as('eve', sprintf($grant, 'g')), qr/does not exist/, 'for others it is not there');
like(as('lead', q{SELECT gpucredit_billing.set_approver('acme', 'nlp', 'lead')}), qr/permission denied/, 'nobody appoints himself');
as('fin', q{SELECT gpucredit_billing.set_approver('acme', 'nlp', 'lead'), gpucredit_billing.set_approver('acme', 'nlp', 'twin'),
	gpucredit_billing.set_approver('acme', 'nlp', 'ann'), gpucredit_billing.set_approver('acme', '', 'eve')});
like(as('ann', sprintf($grant, 'g')), qr/not yours|does not decide/, 'whoever asks does not decide, appointed or not');
like(as('twin', sprintf($grant, 'g')), qr/not yours|does not decide/, 'nor does who can act as him');
like(as('eve', sprintf($grant, 'g')), qr/does not exist/, 'an approver who is bound to nothing there sees nothing');
like(as('lead', "SELECT gpucredit_billing.decide_allocation(1, 'g', 'grant', credits => $_)"), qr/not more than/, "not $_") foreach '31', '0', "'NaN'";
as('fin', q{SELECT gpucredit.suspend_account('acme', 'nlp', true)});
is(as('lead', sprintf($grant, 'early')), 'open|account_suspended|', 'what cannot be granted stays open');
as('fin', q{SELECT gpucredit.suspend_account('acme', 'nlp', false)});
is(as('lead', sprintf($grant, 'early')), 'open|account_suspended|', 'under its key');
my $before = as('fin', q{SELECT available FROM gpucredit.balance('acme', 'nlp')});
at_once(4, q{SET gpucredit.clock = '2030-01-20 12:00+00'; SET SESSION AUTHORIZATION lead;
	SELECT * FROM gpucredit_billing.decide_allocation(1, gen_random_uuid()::text, 'grant', 'well earned', 20)});
is(as('ann', q{SELECT state, granted, note, decided_by, from_account FROM gpucredit_billing.allocation_requests('acme', 'nlp/ann')}),
	'granted|20.000000|well earned|lead|', 'of four at once one grants a part');
is(as('ann', q{SELECT sum(available::numeric) FROM gpucredit.buckets('acme', 'nlp/ann') WHERE account = 'nlp/ann'}), '20.000000', 'the asker has it');
is(as('fin', q{SELECT available FROM gpucredit.balance('acme', 'nlp')}) + 20, $before + 0, 'out of what was there');
like(as('lead', sprintf($grant, 'again')), qr/is decided/, 'and it is decided');
like(as('ann', q{SELECT gpucredit_billing.withdraw_allocation(1)}), qr/is decided/, 'nor taken back');
is($node->safe_psql('plans', q{SELECT count(*) FROM gpucredit.audit WHERE operation = 'transfer' AND account = 'nlp' AND caller LIKE '%lead%'}), '1',
	'the ledger names who granted it') if $node->safe_psql('plans', q{SELECT count(*) FROM pg_attribute WHERE attrelid = 'gpucredit.audit'::regclass AND attname = 'caller'});
is(as('fin', q{SELECT string_agg(operation || ' ' || caller, ', ' ORDER BY event) FROM gpucredit_billing.event WHERE operation LIKE '%allocation'}),
	'request_allocation ann, decide_allocation lead, decide_allocation lead', 'as does the log of requests');
# quota
as('fin', q{SELECT gpucredit.set_quota('acme', 'nlp/ann', 'H100', 2, 5, max_nonpreemptible_gpus => 1)});
as('ann', q{SELECT gpucredit_billing.request_allocation('acme', 'nlp/ann', 'q', 'eight for a week', NULL, 'H100', 8)});
my $quota = q{SELECT state FROM gpucredit_billing.decide_allocation(2, '%s', 'grant')};
like(as('lead', sprintf($quota, 'q')), qr/not yours/, 'an approver for credit does not raise limits');
as('fin', q{SELECT gpucredit_billing.set_approver('acme', 'nlp', 'lead', true)});
is(as('lead', sprintf($quota, 'q')), 'granted', 'one for quota does');
is($node->safe_psql('plans', q{SELECT max_gpus, max_running, max_nonpreemptible_gpus FROM gpucredit.quota WHERE account = 'nlp/ann'}), '8|5|1', 'and leaves the limits that nobody asked about');
# without an approver
as('lead', q{SELECT gpucredit_billing.request_allocation('acme', 'nlp', 'n', 'a larger model', 70)});
like(as('lead', q{SELECT gpucredit_billing.decide_allocation(3, 'own', 'grant')}), qr/not yours/, 'an approver of an account is none for itself');
is(as('fin', q{SELECT state, credits FROM gpucredit_billing.decide_allocation(3, 'n', 'grant')}), 'granted|70.000000', 'an administrator issues what no account has');
as('ann', sprintf($ask, "s$_", 'x', 5)) foreach 1 .. 20;
like(as('ann', sprintf($ask, 's21', 'x', 5)), qr/20 open/, 'nobody floods the one who decides');
is(as('ann', q{SELECT gpucredit_billing.withdraw_allocation(4), gpucredit_billing.withdraw_allocation(4)}), 't|f', 'what is open is taken back, once');
is(as('lead', q{SELECT state FROM gpucredit_billing.decide_allocation(5, 'd', 'deny', 'not now')}), 'denied', 'or denied');
as('fin', q{SELECT gpucredit.unbind_tenant('lead', 'acme', 'nlp')});
like(as('lead', q{SELECT gpucredit_billing.decide_allocation(6, 'd', 'grant')}), qr/ERROR/, 'an approver whose binding is gone decides no more');
# a login with two roles
as('fin', q{SELECT gpucredit_billing.set_approver('acme', 'nlp', 'heads')});
my $own = as('dual', q{SET ROLE team; SELECT request FROM gpucredit_billing.request_allocation('acme', 'nlp/ann', 'own', 'for us', 5)});
like(as('dual', "SET ROLE heads; SELECT gpucredit_billing.decide_allocation($own, 'own', 'grant')"), qr/does not decide/, 'nobody asks as one of his roles and decides as another');
like(as('dual', "SELECT gpucredit_billing.decide_allocation($own, 'own', 'grant')"), qr/does not decide/, 'or as himself');
is(as('dual', "SET ROLE heads; SELECT may_decide FROM gpucredit_billing.allocation_requests('acme', 'nlp') WHERE request = $own"), 'f', 'nor is it offered to him');
is(as('head', "SELECT state FROM gpucredit_billing.decide_allocation($own, 'h', 'grant')"), 'granted', 'another person with that role does');
$own = as('pool', q{SET ROLE ann; SELECT request FROM gpucredit_billing.request_allocation('acme', 'nlp/ann', 'own2', 'for us', 5)});
is(as('pool', "SET ROLE head; SELECT state FROM gpucredit_billing.decide_allocation($own, 'p', 'grant')"), 'granted', 'a login that inherits nothing acts for others');
# how many
my $twenty = q{SELECT count(r) FROM generate_series(1, 20) i, gpucredit_billing.request_allocation('acme', 'vision', '%s' || i, 'x', 5) r};
my $psql = sprintf('psql -X -q -A -t -h %s -p %s -d plans', $node->host, $node->port);
my $ended = PostgreSQL::Test::Utils::tempdir() . '/ended';
is(as('chief', 'BEGIN; ' . sprintf($twenty, 'a') . ";\n\\! ($psql -c \"SET gpucredit.clock = '2030-01-20 12:00+00'; SET SESSION AUTHORIZATION chief; " . sprintf($twenty, 'b')
		. qq{" ; touch $ended) > /dev/null 2>&1 &
\\! for i in `seq 600`; do test -e $ended && break; $psql -c "SELECT 'waits' FROM pg_locks WHERE NOT granted" | grep -q waits && break; sleep 0.1; done
COMMIT}), 20, 'an account makes twenty requests, while another session makes as many');
for (1 .. 600) { last if -e $ended; select(undef, undef, undef, 0.1) }
is(as('chief', q{SELECT count(*), sum(gpucredit_billing.withdraw_allocation(request)::int) FROM gpucredit_billing.allocation_requests('acme', 'vision', 'open')}), '20|20',
	'which waits, and finds that there are enough');
my $again = q{SELECT count(gpucredit_billing.withdraw_allocation((gpucredit_billing.request_allocation('acme', 'vision', 'again' || i, 'x', 5)).request)) FROM generate_series(%s) i};
is(as('chief', sprintf($again, '1, 80')), 80, 'what is taken back makes room');
like(as('chief', sprintf($again, '81, 81')), qr/100 requests today/, 'but not for more than a hundred a day');
is(as('chief', sprintf($again, '81, 81'), '2030-01-21 12:00+00'), 1, 'the next day has another hundred');

is(as('fin', q{SELECT string_agg(v::text, E'\n') FROM gpucredit_billing.verify() v}, '2031-04-10 12:00+00'), '', 'nothing breaks an invariant');
is($node->safe_psql('plans', 'SELECT count(*) FROM gpucredit.verify()'), 0, 'the books balance');
$node->stop;
done_testing();
