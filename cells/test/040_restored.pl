# 040_restored.pl: one of two cells is what it was before
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

lease(20);
carry_all();
is(spend(10), 'spent', 'a lease before');
carry_all();
# A cell as it was an hour ago

my ($free, $held, $total) = split(/\|/, balance('eu'));

is("$held", '10', 'the lease has 10 left');
keep('us');
is(spend(4), 'spent', 'what is spent after the backup');
my $lost = lease(50);
carry_all();
is(spend(7), 'spent', 'also of a lease that the backup does not know');
carry_all();
is(balance('eu'), join('|', $free - 50, 49, $total + 11), 'home knows all of it');
restore('us');
carry_all();
is(spend('0.1'), 'insufficient_credits', 'nothing is spent twice: the restored cell has no leased credit');
is(balance('eu'), join('|', $free + $held - 11, 0, $total + 11), 'home keeps what was spent, and has the rest back');
is(at('us', "SELECT what, sum(amount) FROM gpucredit_cells.finding GROUP BY 1"), 'forgotten|11.000000',
	'what the restored cell has forgotten is named');
books_agree('the region restored');

keep('eu');
($free, $held, $total) = split(/\|/, balance('eu'));
my $unknown = lease(50);
carry_all();
is(spend(6), 'spent', 'a lease of which home forgets');
carry_all();
restore('eu');
is(balance('eu'), "$free|$held|$total", 'home has forgotten it');
carry_all();
is(balance('eu'), join('|', $free - 50, 44, $total + 6), 'and holds and captures what the other cell reports');
is(at('eu', "SELECT what, amount FROM gpucredit_cells.finding WHERE lease = '$unknown'"), 'adopted|50.000000', 'which is named');
is(spend(1), 'spent', 'the lease goes on');
carry_all();
books_agree('home restored');

keep('eu');
my $owed = lease(20);
carry_all();
is(spend(60), 'spent', 'more of it');
carry_all();
restore('eu');
is(at('eu', q{WITH half (one, two) AS (
			SELECT trunc(available::numeric / 2), available::numeric - trunc(available::numeric / 2)
			FROM gpucredit.balance('acme'))
		SELECT string_agg(h.status, ' ') FROM half, unnest(ARRAY[one, two]) WITH ORDINALITY p (a, i),
			LATERAL gpucredit.hold('acme', '', format('all %s of %s', i, a), a, '1 day') h}),
	'granted granted', 'home holds all of its credit itself, in two parts: one bucket gives at most 900 to a hold');
is(at('eu', "SELECT available::numeric = 0 FROM gpucredit.balance('acme')"), 't', 'so nothing is available');
carry_all();
like(at('eu', 'SELECT string_agg(problem, $$,$$) FROM gpucredit_cells.verify_cells()'), qr/spent_without_credit/,
	'what was spent and no credit covers at home is named');
is(spend(1), 'insufficient_credits', 'and stops the region');
at('eu', "SELECT gpucredit.issue('acme', '', 'debt', 100)");
carry_all();
books_agree('credit came');

done_testing();
