# 022_policies.pl: leases that come and go by themselves
# Long: it takes minutes
# Packages: postgresql-N-cron
#
# First the clock stands still, and the test carries.  Then a real pg_cron does.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../test/perl", "$FindBin::RealBin/lib";
use GpuCredit;
use GpuCreditLeases;
use Test::More;

set_up(q{shared_preload_libraries = 'gpucredit, pg_cron'}, q{cron.database_name = 'cell'},
	q{gpucredit.database = ''});

sub clock
{
	my ($time) = @_;

	at($_, 'ALTER DATABASE cell ' . ($time ? "SET gpucredit.clock = '2030-01-01 $time+00'" : 'RESET gpucredit.clock'))
	  foreach qw(eu us);
	return;
}

# What can be spent in the other region, and what home holds for it.
sub there_and_held
{
	carry_all();
	return (split(/\|/, balance('us', 'vision')))[0] . ' ' . (split(/\|/, balance('eu')))[1];
}

# An account that is idle is drained

at('eu', q{SELECT gpucredit.issue('acme', '', 'more', 500, priority => 1)});
clock('09:00');
at('eu', q{SELECT gpucredit_cells.set_lease_policy('acme', 'vision', 'us', 20, 60, '1 hour')});
is(there_and_held(), '60 60', 'a policy leases up to its target');
at('us', q{SELECT gpucredit.release('acme', hold, 'back') FROM gpucredit.hold('acme', 'vision', 'alerts', 1, '1 min'); SELECT * FROM gpucredit.maintain()});
is(at('us', q{SELECT string_agg(kind || ' ' || detail, ', ') FROM gpucredit.alert}), '', 'no alert says that it expires soon');
clock('09:50');
is(there_and_held(), '120 120', 'before the lease ends there is another one');
clock('10:05');
is(there_and_held(), '60 60', 'the first one ended, and came home');
clock('10:40');
is(there_and_held(), '80 80', 'an account that used nothing for an hour keeps the least');
clock('10:55');
is(there_and_held(), '20 20', 'the rest drained home');
is(spend(15), 'spent', 'it is used again');
is(there_and_held(), '60 60', 'and topped up to the target before it runs dry');
is(at('eu', q{SELECT trim_scale(sum(spent)) FROM gpucredit_cells.lease_out}), '15', 'home knows what was spent');
at('eu', q{SELECT gpucredit_cells.set_lease_policy('acme', 'vision', 'us', 2000, 3000, '1 hour')});
is(there_and_held(), '1485 1485', 'a policy leases what there is, if that is less');
is(spend(1516), 'insufficient_credits', 'and no more can be spent');
at('eu', q{SELECT gpucredit_cells.set_lease_policy('acme', 'vision', 'us', NULL)});
is(there_and_held(), '0 0', 'without it all comes home');
books_agree('drained');

# Leased credit moves to a user's own account, and its lease with it

my $lease = lease(50);

carry_all();
at('us', q{SELECT gpucredit.create_account('acme', 'vision/alice'), gpucredit.transfer('acme', 'vision', 'vision/alice', 'hers', 30)});
is(at('us', q{SELECT status FROM gpucredit.transfer('acme', 'vision', 'vision/alice', 'too much', 21)}), 'denied', 'a transfer takes no more than there is');
is(spend(45, 'vision/alice'), 'spent', 'a user spends what was transferred, and what is above');
my $hold = at('us', 'SELECT max(hold) FROM gpucredit.hold');

carry_all();
is(at('eu', "SELECT trim_scale(spent), trim_scale(available) FROM gpucredit_cells.lease_out WHERE lease = '$lease'"), '45|5', 'home knows of both');
at('eu', "SELECT gpucredit_cells.recall('acme', '$lease')");
carry_all();
is(balance('us', 'vision/alice'), '0|0|45', 'a recall takes what is left of either');
at('us', "SELECT gpucredit.refund_hold('acme', $hold, 'refund', 40, 'bad node')");
carry_all();
is(at('eu', "SELECT trim_scale(spent), trim_scale(returned), closed_at IS NOT NULL FROM gpucredit_cells.lease_out WHERE lease = '$lease'"),
	'5|45|t', 'a refund of transferred credit after the last report comes home');
is(balance('eu'), '1480|0|20', 'to where it came from');
books_agree('transferred');

# pg_cron carries

clock();
foreach my $name (qw(eu us))
{
	at($name, q{CREATE EXTENSION pg_cron;
		SELECT cron.schedule('carry', '@reboot', $$CALL gpucredit_cells.carry_for('10 min', '0.2 s')$$);
		UPDATE cron.job SET nodename = '} . $node{$name}->host . q{'});
	$node{$name}->restart;
}
fails('us', "CALL gpucredit_cells.carry_for($_)", '22023', "carry_for($_)")
  foreach "'0'", 'NULL', "'1 year'", "every => '0'", "every => '1 day'";
lease(10);
ok($node{us}->poll_query_until('cell', q{SELECT available = 10 FROM gpucredit.balance('acme', 'vision')}), 'a lease arrives by pg_cron');
is(spend(4), 'spent', 'it is spent');
ok($node{eu}->poll_query_until('cell', q{SELECT spent = 24 FROM gpucredit.balance('acme')}), 'home knows it by pg_cron');
kill_server($node{us});
is(spend_at_home(), 'granted', 'home works without the other cell');
$node{us}->start;
is(spend(3), 'spent', 'after kill -9 more is spent');
ok($node{eu}->poll_query_until('cell', q{SELECT spent = 27 FROM gpucredit.balance('acme')}), 'and pg_cron carries again');
at('eu', q{SELECT gpucredit_cells.recall('acme', lease) FROM gpucredit_cells.lease_out WHERE closed_at IS NULL});
ok($node{eu}->poll_query_until('cell', q{SELECT bool_and(closed_at IS NOT NULL) FROM gpucredit_cells.lease_out}), 'and brings the rest home');
is(at($_, q{SELECT string_agg(return_message, ' ') FROM cron.job_run_details WHERE return_message LIKE 'ERROR%'}), '', "no run of pg_cron failed in $_")
  foreach qw(eu us);
books_agree('pg_cron');
done_testing();

sub spend_at_home
{
	return at('eu', q{SELECT status FROM gpucredit.hold('acme', 'vision', 'at home', 5, '1 h')});
}
