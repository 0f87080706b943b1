# 020_leases.pl: leases: spent elsewhere, returned, refused, topped up
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

# A lease, and back

my $call = "gpucredit_cells.lease('acme', 'vision', 'us', 'one', 100, '1 hour')";
my $first = at('eu', "SELECT lease FROM $call");	# the session's first call

is(at('eu', "SELECT lease = '$first', status, amount, replayed FROM $call"), 't|granted|100.000000|t',
	'a lease is granted once');
is(balance('eu'), '930|100|0', 'home holds what is leased');
fails('eu', "SELECT gpucredit_cells.lease('acme', 'vision', 'us', 'one', 101, '1 hour')", 'UC201', 'another amount under its key');
fails('eu', "SELECT gpucredit.release('acme', (holds)[1], 'r') FROM gpucredit_cells.lease_out", 'UC711', 'its hold is not released by a caller');
fails('eu', "SELECT gpucredit.capture('acme', (holds)[1], 'c', 1) FROM gpucredit_cells.lease_out", 'UC711', 'nor captured');
at('eu', 'SELECT * FROM gpucredit_cells.carry()') foreach 1, 2;
is(at('us', "SELECT string_agg(concat_ws(' ', kind, trim_scale(available), policy), ', ' ORDER BY kind) FROM gpucredit.buckets('acme', 'vision')"),
	'paid 70 {"max_per_job": 900}, promo 30 {}', 'each bucket has its like in the other cell');
is(at('us', "SELECT bool_and(b.expires_at = l.expires_at) FROM gpucredit.bucket b, gpucredit_cells.lease_in l"), 't',
	'the buckets end with the lease');
is(spend(40), 'spent', 'it is spent there');
is(spend(61), 'insufficient_credits', 'and no more than is leased');
my ($out, $notice) = ('', '');

$node{us}->psql('cell', "SELECT gpucredit.hold('acme', 'vision', 'big', 500, '1 hour')", stdout => \$out, stderr => \$notice);
like($notice, qr/account "vision" had 930\.000000 credits at home/, 'a denial reports what home still has');
my $job = at('us', "SELECT hold FROM gpucredit.hold('acme', 'vision', 'job', 10, '1 day')");

carry_all();
is(balance('eu'), '930|60|40', 'home has captured what was spent');
books_agree('spent');
at('eu', "SELECT gpucredit_cells.recall('acme', '$first')");
carry_all();
is(balance('eu'), '980|10|40', 'what is unused comes back when it is recalled, what is held there does not');
is(spend(1), 'insufficient_credits', 'and cannot be spent there any more');
at('us', "SELECT gpucredit.capture('acme', $job, 'settled', 4)");
carry_all();
is(balance('eu'), '986|0|44', 'what was held comes when it is settled');
is(at('eu', "SELECT string_agg(concat_ws(' ', kind, trim_scale(available), trim_scale(spent)), ', ' ORDER BY kind) FROM gpucredit.buckets('acme')"),
	'paid 986 14, promo 0 30', 'to the very buckets');
at('us', "SELECT gpucredit.refund_hold('acme', $job, 'refund', 3, 'bad node')");
carry_all();
is(balance('eu'), '989|0|41', 'a refund there after the last report comes home, too');
books_agree('returned');

# Refusals

is(at('eu', "SELECT status, reason, amount FROM gpucredit_cells.lease('acme', 'vision', 'us', 'much', 5000, '1 h')"),
	'denied|insufficient_credits|0', 'more than there is is denied');
is(at('eu', "SELECT status, replayed FROM gpucredit_cells.lease('acme', 'vision', 'us', 'much', 5000, '1 h')"),
	'denied|t', 'and stays denied under its key');
at('eu', "SELECT gpucredit.set_budget('acme', 'vision', 50)");
my $in_budget = lease(30);

is(at('eu', "SELECT status, reason FROM gpucredit_cells.lease('acme', 'vision', 'us', 'over', 30, '1 h')"),
	'denied|budget_exceeded', 'a hard budget counts what is leased as held');
at('eu', "SELECT gpucredit_cells.recall('acme', '$in_budget'); SELECT gpucredit.set_budget('acme', 'vision', NULL)");
fails('eu', "SELECT gpucredit_cells.lease('acme', 'vision', 'mars', 'k', 1, '1 h')", 'UC712', 'no such cell');
fails('eu', "SELECT gpucredit_cells.lease('acme', 'vision', 'eu', 'k', 1, '1 h')", 'UC712', 'home itself');
fails('eu', "SELECT gpucredit_cells.lease('acme', 'nobody', 'us', 'k', 1, '1 h')", 'UC001', 'no such account');
fails('eu', "SELECT gpucredit_cells.lease('acme', 'vision', 'us', 'k', $_, '1 h')", '22023', "amount $_") foreach -1, 'NULL';
fails('eu', "SELECT gpucredit_cells.lease('acme', 'vision', 'us', 'k', 1, $_)", '22023', "ttl $_")
  foreach "'0'", "'-1 s'", "'1 month'", "'9999 days'", 'NULL';
fails('us', "SELECT gpucredit_cells.lease('acme', 'vision', 'eu', 'k', 1, '1 h')", 'UC715', 'a guest leases nothing on');
fails('eu', "SELECT gpucredit_cells.recall('acme', gen_random_uuid())", 'UC712', 'no such lease');
fails('eu', "SELECT gpucredit_cells.write_off('acme', '$in_budget', 0, 'lost')", 'UC714', 'a lease that may still be spent is not written off');
fails('eu', "SELECT gpucredit_cells.carry($_)", '22023', "carry($_)") foreach 0, 'NULL';
carry_all();
books_agree('refused');

# What verify_cells() finds: the books as they are, with one figure changed

my %books = map { $_ => at($_, 'SELECT gpucredit_cells.books()') } qw(eu us);

# leases come in any order; one was spent
my $spent = at('eu', "SELECT ordinality - 1 FROM jsonb_array_elements('$books{eu}'::jsonb->'out') WITH ORDINALITY WHERE (value->>'spent')::numeric > 0 LIMIT 1");

foreach my $forged (
	[ 'sum',                  eu => '{orgs,0,spent}',      '1' ],
	[ 'sum',                  eu => '{orgs,0,available}',  '0.5' ],
	[ 'guest_credit',         us => '{orgs,0,issued}',     '0' ],
	[ 'two_homes',            us => '{orgs,0,state}',      '"home"' ],
	[ 'lease_not_there',      us => '{in}',                '[]' ],
	[ 'lease_not_at_home',    eu => '{out}',               '[]' ],
	[ 'lease_amounts_differ', us => '{in,0,amount}',       '99999' ],
	[ 'reports_differ',         us => '{in,0,report}',         '99' ],
	[ 'reports_differ',         eu => "{out,$spent,spent}",    '0.5' ],
	[ 'spent_without_credit', eu => "{out,$spent,captured}", '0' ],
	[ 'hold_differs',         eu => '{out,0,home_held}',   '77' ],
	[ 'more_than_leased',     us => '{in,0,available}',    '99999' ])
{
	my ($problem, $cell, $path, $value) = @$forged;
	my $all = join ', ', map { "'$books{$_}'::jsonb" } grep { $_ ne $cell } qw(eu us);

	is(at('eu', "WITH b AS (SELECT ARRAY[$all, jsonb_set('$books{$cell}', '$path', '$value')] AS b)
		SELECT count(*) > 0 FROM b, LATERAL (SELECT problem FROM gpucredit_cells.compare_organisations(b)
			UNION ALL SELECT problem FROM gpucredit_cells.compare_leases(b)) f WHERE problem = '$problem'"),
		't', "verify_cells() finds $problem");
}
is(at('eu', "SELECT count(*) FROM gpucredit_cells.compare_leases(ARRAY['$books{eu}', '$books{us}']::jsonb[])"), '0',
	'and nothing in the books as they are');

# From a router, which is no cell

new_database($node{eu}, 'router', 'dblink', 'gpucredit_cells');
query($node{eu}, 'router', "INSERT INTO gpucredit_cells.cell VALUES ('eu', 0, 'eu', '"
	  . at('eu', q{SELECT dsn FROM gpucredit_cells.cell WHERE cell = 'eu'}) . "'), ('us', 1, 'us', '"
	  . at('eu', q{SELECT dsn FROM gpucredit_cells.cell WHERE cell = 'us'}) . "')");
is(query($node{eu}, 'router', 'SELECT * FROM gpucredit_cells.verify_cells()'), '', 'a router finds that the books agree');
is(query($node{eu}, 'router', 'SELECT cell, organisations, trim_scale(issued), error FROM gpucredit_cells.cell_sums()'),
	"eu|1|1030|\nus|0||", 'and what each cell has');
query_fails($node{eu}, 'router', 'SELECT gpucredit_cells.carry()', 'UC710', 'it carries nothing');

# Messages of nobody

my $message = q({"kind":"report","from":"us","to":"eu","org":"acme","lease":"%s",)
  . q("account":"vision","amount":%s,"expires_at":"2030-01-01","n":%s,"spent":%s,"returned":0,"available":0,"held":0});

fails('eu', "SELECT gpucredit_cells.receive('$_')", '22023', "receive('$_')")
  foreach 'null', '[]', '{}', '{"kind":"report"}', sprintf($message, $first, 100, 99, '-1'),
  sprintf($message, $first, 100, '0', '1'), sprintf($message, $first, 100, 9, '1e300');
fails('eu', sprintf("SELECT gpucredit_cells.receive('$message')", $first, 5, 99, 1), 'UC713', 'another amount');
fails('us', sprintf("SELECT gpucredit_cells.receive('$message')", $first, 5, 99, 1), 'UC712', 'for another cell');
at('eu', 'CREATE ROLE tess LOGIN IN ROLE gpucredit_tenant; CREATE ROLE app LOGIN IN ROLE gpucredit_app');
foreach my $sql ("receive('{}')", 'books()', 'carry()', "recall('acme', '$first')", $call =~ s/.*?\.//r, 'verify_cells()',
	"write_off('acme', '$first', 0, 'x')", "set_lease_policy('acme', 'vision', 'us', 1, 2)")
{
	my $who = $sql =~ /^(carry|recall|lease)/ ? 'tess' : 'app';

	fails('eu', "SET ROLE $who; SELECT gpucredit_cells.$sql", '42501', "$who may not call $sql");
}
is(at('eu', "SET ROLE app; SELECT replayed FROM $call"), 't', 'an application may lease');

# A policy keeps the account able to spend

at('eu', "SELECT gpucredit_cells.set_lease_policy('acme', 'vision', 'us', 20, 60)");
carry_all();
is(balance('us', 'vision') =~ s/\|.*//r, '60', 'it is topped up to the target');
is(spend(45), 'spent', 'it is spent');
carry_all();
is(balance('us', 'vision') =~ s/\|.*//r, '60', 'and topped up before it runs dry');
at('eu', "SELECT gpucredit_cells.set_lease_policy('acme', 'vision', 'us', NULL)");
carry_all();
is(balance('eu', 'vision'), '944|0|86', 'without the policy the rest comes home');
books_agree('policy');

done_testing();
