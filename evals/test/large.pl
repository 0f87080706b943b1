# large.pl: thousands of cases are added, and read as results and as JUnit, in
# a time that is proportional to their number: 50,000 (GC_CASES) in 2 seconds
#
# Alone: it measures time
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/lib";
use GpuCreditEval;
use GpuCredit;
use Test::More;
use Time::HiRes 'time';

my $node = eval_node('large');
my $n = $ENV{GC_CASES} || 10000;
my $part = $n / 50000;

# What a machine of this speed takes for a fixed piece of work, in seconds: the
# bounds below are for one that takes 0.35.
my $unit = measure(q{SELECT count(md5(i::text || md5(i::text))) FROM generate_series(1, 400000) i}) / 0.35;
$unit = 1 if $unit < 1;

sub q_ { return query($node, 'eval', $_[0]) }

sub measure
{
	my ($sql) = @_;
	my $dbh = connect_to($node, 'eval');
	my $start = time;

	$dbh->selectall_arrayref($sql);
	my $took = time - $start;
	$dbh->disconnect;
	return $took;
}

sub within
{
	my ($seconds, $what, $sql) = @_;
	my $took  = measure($sql);
	my $bound = ($seconds * $part + 0.2) * $unit;	# 0.2: to connect and to plan

	note(sprintf('%s: %.2f s, bound %.2f s', $what, $took, $bound));
	return cmp_ok($took, '<', $bound, $what);
}

q_(q{SELECT gpucredit_eval.create_set('acme', 'large', 'locked', 'k1')});
within(2, "add_cases() of $n cases", qq{SELECT * FROM gpucredit_eval.add_cases('acme', 'large', (SELECT jsonb_agg(jsonb_build_object(
	'name', 'case ' || i, 'task', 'task ' || i % 20, 'input', 'question ' || i, 'expected', 'answer ' || i,
	'checks', jsonb_build_array(jsonb_build_object('type', 'regex', 'value', '^answer ' || i || '\$'), jsonb_build_object('type', 'contains', 'value', 'a'))))
	FROM generate_series(1, $n) i), 'k2')});
q_(q{SELECT gpucredit_eval.freeze_set('acme', 'large', 'k3');
	SELECT gpucredit_eval.set_config('acme', 'large', '{"sets": ["large"], "model": {"max_tokens": 10}}', 'k4');
	SELECT gpucredit_eval.start_run('acme', 'nlp', 'k5', 'large', 'model', 'development', 500)});
q_(q{VACUUM ANALYZE gpucredit_eval.golden_case});
my $left = $n;
while ($left > 0)
{
	q_(q{SELECT count(gpucredit_eval.report('acme', 1, l."case", 1, convert_to('an & <answer> ' || l."case", 'UTF8'),
		format('[{"type": "regex", "pass": %s, "reason": "no match"}, {"type": "contains", "pass": true}]', CASE l."case" % 2 WHEN 0 THEN 'true' ELSE 'false' END)::jsonb, NULL))
		FROM gpucredit_eval.lease_cases('acme', 1, 'w', 1000, '1 hour') l});
	$left -= 1000;
}
q_(q{SELECT count(*) FROM gpucredit_eval.lease_cases('acme', 1, 'w', 1, '1 hour'); ANALYZE});
is(q_(q{SELECT state, finished FROM gpucredit_eval.run_state('acme', 1)}), "finished|$n", 'a large run');
within(2, "results() of $n cases", q{SELECT gpucredit_eval.results('acme', 1)});
within(2, "junit() of $n cases", q{SELECT gpucredit_eval.junit('acme', 1)});
is(q_(q{SELECT jsonb_array_length(gpucredit_eval.results('acme', 1) -> 'cases')}), $n, 'the results have all cases');
is(q_(q{SELECT (xpath('count(//testsuite[@name != "gates"]/testcase)', gpucredit_eval.junit('acme', 1)))[1]}), $n, 'and so has JUnit');
my $failure = q_(q{SELECT (xpath('string(//testcase[@name = "case 1"]/failure)', gpucredit_eval.junit('acme', 1)))[1]});
is($failure, "failed: regex ^answer 1\$ no match\nexpected: answer 1\noutput: an &amp; &lt;answer&gt; 1",
	'a failure shows pattern, expectation and output');
eval_verify($node);
done_testing();
