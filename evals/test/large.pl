# large.pl: thousands of cases are added, and read as results and as JUnit, in
# a time that is proportional to their number
#
# Each call is measured with GC_CASES cases (10,000) and with a tenth of them,
# the quickest of three tries each.  Ten times the cases may take twenty times as
# long; what grows with their square takes a hundred times as long.
#
# Alone: it measures time
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/lib";
use GpuCreditEval;
use GpuCredit;
use List::Util 'min';
use Test::More;
use Time::HiRes 'time';

my $node = eval_node('large');
my $n    = $ENV{GC_CASES} || 10000;
my %cases = (small => $n / 10, large => $n);
my $dbh = connect_to($node, 'eval');

sub q_ { return query($node, 'eval', $_[0]) }

# The seconds of a statement.
sub seconds
{
	my ($sql) = @_;
	my $start = time;

	$dbh->selectall_arrayref($sql);
	return time - $start;
}

# A test: what SQL of a size ("small", "large") makes grows with its cases only.
sub proportional
{
	my ($what, $sql) = @_;
	my %took = (small => [], large => []);

	foreach my $try (1 .. 3)
	{
		push @{ $took{$_} }, seconds($sql->($_, $try)) foreach qw(small large);
	}
	my ($small, $large) = map { min @{ $took{$_} } } qw(small large);

	note(sprintf('%s: %.3f s of %d cases, %.3f s of %d', $what, $small, $cases{small}, $large, $cases{large}));
	cmp_ok($large, '<', 20 * $small, "$what takes a time that is proportional to the cases");
	return;
}

# The first set of each size is the one that is run.
proportional('add_cases()', sub {
	my ($size, $try) = @_;

	q_("SELECT gpucredit_eval.create_set('acme', '$size-$try', 'locked', 'k1-$size-$try')");
	return qq{SELECT * FROM gpucredit_eval.add_cases('acme', '$size-$try', (SELECT jsonb_agg(jsonb_build_object(
	'name', 'case ' || i, 'task', 'task ' || i % 20, 'input', 'question ' || i, 'expected', 'answer ' || i,
	'checks', jsonb_build_array(jsonb_build_object('type', 'regex', 'value', '^answer ' || i || '\$'), jsonb_build_object('type', 'contains', 'value', 'a'))))
	FROM generate_series(1, $cases{$size}) i), 'k2-$size-$try')};
});
my %run = (small => 1, large => 2);

foreach my $size (qw(small large))
{
	my $run  = $run{$size};
	my $left = $cases{$size};

	q_(qq{SELECT gpucredit_eval.freeze_set('acme', '$size-1', 'k3-$size');
		SELECT gpucredit_eval.set_config('acme', '$size', '{"sets": ["$size-1"], "model": {"max_tokens": 10}}', 'k4-$size');
		SELECT gpucredit_eval.start_run('acme', 'nlp', 'k5-$size', '$size', 'model', 'development', 100)});
	q_(q{VACUUM ANALYZE gpucredit_eval.golden_case});
	while ($left > 0)
	{
		q_(qq{SELECT count(gpucredit_eval.report('acme', $run, l."case", 1, convert_to('an & <answer> ' || l."case", 'UTF8'),
			format('[{"type": "regex", "pass": %s, "reason": "no match"}, {"type": "contains", "pass": true}]', CASE l."case" % 2 WHEN 0 THEN 'true' ELSE 'false' END)::jsonb, NULL))
			FROM gpucredit_eval.lease_cases('acme', $run, 'w', 1000, '1 hour') l});
		$left -= 1000;
	}
	q_(qq{SELECT count(*) FROM gpucredit_eval.lease_cases('acme', $run, 'w', 1, '1 hour'); ANALYZE});
	is(q_(qq{SELECT state, finished FROM gpucredit_eval.run_state('acme', $run)}),
		"finished|$cases{$size}", "a run of $cases{$size} cases finishes");
}
proportional("$_()", do { my $f = $_; sub { "SELECT gpucredit_eval.$f('acme', $run{$_[0]})" } })
  foreach qw(results junit);
is(q_(q{SELECT jsonb_array_length(gpucredit_eval.results('acme', 2) -> 'cases')}), $n, 'the results have all cases');
is(q_(q{SELECT (xpath('count(//testsuite[@name != "gates"]/testcase)', gpucredit_eval.junit('acme', 2)))[1]}), $n, 'and so has JUnit');
my $failure = q_(q{SELECT (xpath('string(//testcase[@name = "case 1"]/failure)', gpucredit_eval.junit('acme', 2)))[1]});
my $first = $cases{small} + 1;		# the number of the large set's first case
is($failure, "failed: regex ^answer 1\$ no match\nexpected: answer 1\noutput: an &amp; &lt;answer&gt; $first",
	'a failure shows pattern, expectation and output');
$dbh->disconnect;
eval_verify($node);
done_testing();
