# 021_budgets.pl: budgets at home count credit that is leased and spent
# elsewhere
#
# Hard budgets count what is leased as held, soft ones what was spent: of the
# organisation, a project and a user.
#
# Long: it takes minutes
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../test/perl", "$FindBin::RealBin/lib";
use GpuCredit;
use GpuCreditLeases;
use Test::More;

set_up();
at('eu', q{SELECT gpucredit.create_account('acme', 'vision/alice'), gpucredit.create_account('acme', 'vision/bob')});

sub set_budget
{
	my ($account, $amount, $period, $hard) = @_;

	return at('eu', "SELECT gpucredit.set_budget('acme', '$account', $amount, '$period', $hard, '{0.5}')");
}

# What budgets on alice's path count, held + spent: hard ones, then soft ones.
sub counts
{
	return at('eu', q{
		SELECT string_agg(trim_scale(reserved) || '+' || trim_scale(spent), ' '
			ORDER BY hard DESC, length(account))
		FROM gpucredit.budgets('acme', 'vision/alice')});
}

sub alerts
{
	return at('eu', q{
		SELECT string_agg(account || ' ' || period || ' ' || trim_scale((detail ->> 'taken')::numeric), ', '
			ORDER BY account, period)
		FROM gpucredit.alert WHERE kind = 'budget'});
}

my @path = ('', 'vision', 'vision/alice');

foreach my $account (@path)
{
	set_budget($account, 100, 'none',  'true');
	set_budget($account, 100, 'month', 'false');
}

# In all nesting

my $lease = lease(60, '1 hour', 'vision/alice');

is(counts(), '60+0 60+0 60+0 0+0 0+0 0+0', 'hard budgets count what is leased as held, soft ones do not');
is(alerts(), join(', ', map { "$_ none 60" } @path), 'and only hard ones have alerts');
is(at('eu', q{SELECT trim_scale(spendable) FROM gpucredit.balance('acme', 'vision/alice')}), '40', 'less is spendable at home');
is(at('eu', q{SELECT reason FROM gpucredit.hold('acme', 'vision/alice', 'over', 41, '1 h')}), 'budget_exceeded', 'and no more');
carry_all();
is(spend(30, 'vision/alice'), 'spent', 'some of it is spent');
is(counts(), '60+0 60+0 60+0 0+0 0+0 0+0', 'home does not know');
carry_all();
is(counts(), '30+30 30+30 30+30 0+30 0+30 0+30', 'all budgets count what was spent');
is(spend(25, 'vision/alice'), 'spent', 'more is');
carry_all();
is(counts(), '5+55 5+55 5+55 0+55 0+55 0+55', 'again');
is(alerts(), join(', ', map { ("$_ month 55", "$_ none 60") } @path), 'soft ones have their alerts when it is spent');
my $hold = at('us', q{SELECT max(hold) FROM gpucredit.hold WHERE captured = '25'});

at('us', "SELECT gpucredit.refund_hold('acme', $hold, 'refund', 10, 'bad node')");
at('eu', "SELECT gpucredit_cells.recall('acme', '$lease')");
carry_all();
is(counts(), '0+45 0+45 0+45 0+45 0+45 0+45', 'refunds and what is recalled lower both');
books_agree('nested');

# Of a project, not of its user

$lease = lease(20);
carry_all();
is(spend(8), 'spent', 'a project spends');
carry_all();
is(counts(), '12+53 12+53 0+45 0+53 0+53 0+45', 'its budgets and those above count it');

# An ordinary hold counts in both, as ever

my $here = at('eu', q{SELECT hold FROM gpucredit.hold('acme', 'vision/alice', 'here', 7, '1 h')});

is(counts(), '19+53 19+53 7+45 7+53 7+53 7+45', 'a hold at home counts as held in both');
at('eu', "SELECT gpucredit.capture('acme', $here, 'done', 4)");
is(counts(), '12+57 12+57 0+49 0+57 0+57 0+49', 'and then as spent');

# A budget that changes meanwhile counts nothing twice

set_budget('vision', 100, 'none',  'false');
set_budget('vision', 100, 'month', 'true');
is(spend(2), 'spent', 'some is spent after a hard budget is soft, and a soft one hard');
carry_all();
is(at('eu', q{SELECT string_agg(period || ' ' || trim_scale(reserved) || '+' || trim_scale(spent), ', ' ORDER BY period)
		FROM gpucredit.budgets('acme', 'vision') WHERE account = 'vision'}),
	'month 0+59, none 10+59', 'each counts it once');
at('eu', q{SELECT gpucredit.set_budget('acme', '', NULL, 'month'), gpucredit.set_budget('acme', '', 30, 'month', false)});
is(spend(3), 'spent', 'some is spent after a budget was removed and set again');
carry_all();
is(at('eu', q{SELECT trim_scale(reserved) || '+' || trim_scale(spent) FROM gpucredit.budgets('acme') WHERE period = 'month'}),
	'0+3', 'which counts from then on');
at('eu', "SELECT gpucredit_cells.recall('acme', '$lease')");
carry_all();
is(at('eu', q{SELECT bool_and(reserved = 0) FROM gpucredit.budgets('acme', 'vision/alice')}), 't', 'at the end nothing is held');
books_agree('changed');
done_testing();
