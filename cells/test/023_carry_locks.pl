# 023_carry_locks.pl: carry(), receive() and tenants' calls lock in one order,
# and carry() keeps to its patience
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../test/perl", "$FindBin::RealBin/lib";
use GpuCredit;
use GpuCreditLeases;
use Test::More;
use Time::HiRes qw(time);

my $ROUNDS = 60;

set_up('log_lock_waits = on', 'deadlock_timeout = 200ms');

# A tenant's open transaction has the row that a report is booked in.

lease(50);
carry_all();
is(spend(5), 'spent', 'leased credit is spent');
at('us', 'SELECT * FROM gpucredit_cells.carry()');

my $other = connect_to($node{us}, 'cell');
$other->begin_work;
$other->do('SELECT FROM gpucredit_cells.lease_in FOR UPDATE');
is(at('us', q{SELECT sent, waiting, error FROM gpucredit_cells.carry(patience => '1 s')}), '0|1|',
	'the answer about a lease that somebody has locked is left to the next call');
$other->rollback;

my $tenant = connect_to($node{eu}, 'cell');
$tenant->begin_work;
$tenant->do(q{SELECT gpucredit.hold('acme', '', 'open', 1, '1 hour')});
my $began = time;
is(spend(5), 'spent', 'more is spent');
at('us', q{SELECT FROM gpucredit_cells.carry(patience => '1 s')}) foreach 1, 2;
is(at('us', q{SELECT sent, waiting, error ~ 'has not answered' FROM gpucredit_cells.carry(patience => '1 s')}), '0|1|t',
	'a report that home cannot book in time waits');
is(at('eu', q{SELECT count(*) FROM gpucredit_cells.carry(patience => '1 s')}), '1', 'home carries on meanwhile');
cmp_ok(time - $began, '<', 60, 'nobody waited for the tenant');
$tenant->commit;
carry_all();
is(balance('eu'), '979|41|10', 'it is booked as soon as the tenant has ended');
is(at('eu', q{SELECT current_setting('lock_timeout') FROM gpucredit_cells.carry()}), '0', 'the caller keeps his own lock_timeout');

# Many leases of one organisation are reported and topped up from both ends
# while tenants spend.

at('eu', sprintf q{SELECT gpucredit.create_account('acme', 'u%1$s'), gpucredit_cells.set_lease_policy('acme', 'u%1$s', 'us', 5, 20)}, $_)
  foreach 1 .. 6;
carry_all();
lease(1, '1 hour', "u$_") foreach map { (1 .. 6) } 1 .. 3;
carry_all();
my @children = in_parallel(8, sub {
	my ($i) = @_;
	my $cell = $i % 2 ? 'eu' : 'us';
	my $dbh = connect_to($node{$cell}, 'cell');

	foreach my $round (1 .. $ROUNDS)
	{
		my $key = "$i $round";

		if ($i < 4)
		{
			$dbh->do('SELECT * FROM gpucredit_cells.carry()');
		}
		elsif ($i < 6)
		{
			# messages that another cell sends again, as after a restart
			my $other = connect_to($node{ $cell eq 'eu' ? 'us' : 'eu' }, 'cell');

			foreach my $message (@{ $other->selectcol_arrayref('SELECT body FROM gpucredit_cells.outbox ORDER BY random()') })
			{
				$dbh->do('SELECT gpucredit_cells.receive(?)', undef, $message);
			}
			$other->disconnect;
		}
		else
		{
			foreach my $account (map { "u$_" } 1 .. 6)
			{
				my ($hold) = $dbh->selectrow_array('SELECT hold FROM gpucredit.hold(?, ?, ?, 0.01, ?)', undef, 'acme', $account, "$key $account", '1 hour');
				$dbh->do('SELECT gpucredit.capture(?, ?, ?, 0.01)', undef, 'acme', $hold, "$key $account c") if $hold;
			}
		}
	}
});
is(wait_for_children(@children), 0, 'no call failed');
is(at($_, 'SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()'), '0', "no deadlock in $_")
  foreach qw(eu us);
carry_all();
books_agree('at the end');
done_testing();
