# runs.pl: sets, configs, runs, leases, reports and what they cost, in SQL
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/lib";
use GpuCreditEval;
use GpuCredit;
use Test::More;

my $node = eval_node('runs');

sub q_ { return query($node, 'eval', $_[0]) }
sub fails { return query_fails($node, 'eval', @_) }

# sets
is(q_(q{SELECT gpucredit_eval.create_set('acme', 'support', 'locked', 'k1')}), 'f', 'a set is made');
is(q_(q{SELECT gpucredit_eval.create_set('acme', 'support', 'locked', 'k1')}), 't', 'once');
fails(q{SELECT gpucredit_eval.create_set('acme', 'other', 'locked', 'k1')}, 'UC201',
	'the key with other arguments is refused');
fails(q{SELECT gpucredit_eval.create_set('acme', 'support', 'live', 'k2')}, 'UC602',
	'a name stands for one set');
fails(q{SELECT gpucredit_eval.create_set('acme', 'x', 'odd', 'k2')}, '22023', 'no such kind');
fails(q{SELECT gpucredit_eval.freeze_set('acme', 'support', 'k2')}, 'UC602', 'nothing to freeze');
is(add_cases($node, 'acme', 'support', 'c1',
		{ name => 'a', task => 'json', input => 'give json', checks => [ { type => 'is-json' } ] },
		{ name => 'b', task => 'json', input => 'give more', checks => [ { type => 'is-json' } ] },
		{ name => 'c', task => 'open', input => 'why?', rubric => 'names a reason' },
		{ name => 'c', task => 'open', input => 'why?', rubric => 'names a reason' }),
	"3|1\n1|3", 'cases are added, those that are the same are counted');
is(add_cases($node, 'acme', 'support', 'c2',
		{ name => 'a', task => 'json', input => 'give json', checks => [ { type => 'is-json' } ] }),
	"0|1\n1|3", 'nothing new is no new version');
fails(q{SELECT gpucredit_eval.add_cases('acme', 'support', '[{"name": "a", "input": "x", "rubric": "y"}]', 'c3')},
	'22023', 'a case never changes');
fails(qq{SELECT gpucredit_eval.add_cases('acme', 'support', '[$_]', 'c3')}, '22023', "$_ is no case")
  foreach '1', '{}', '{"input": "x"}', '{"input": "x", "rubric": "y", "odd": 1}',
  '{"input": "x", "rubric": "y", "weight": -1}', '{"input": null, "rubric": "y"}',
  '{"input": "x", "checks": {}}', '{"input": "x", "checks": [{}]}', '{"input": "x", "checks": [{"type": "equal", "value": "y"}]}',
  '{"input": "x", "checks": [{"type": "not-not-equals"}]}', '{"input": "x", "checks": ["equals"]}',
  '{"input": "x", "checks": [{"type": "equals", "weight": -1}]}', '{"input": "x", "checks": [{"type": "equals", "weight": "1"}]}', '{"input": "x", "checks": [[{"type": "equals"}]]}',
  '{"input": "x", "checks": [[{"type": "equals"}, {"type": "regex"}], []]}', '{"input": "x", "rubric": "y", "tags": "z"}';
is(q_(q{SELECT gpucredit_eval.retire_cases('acme', 'support', '{b}', 'r1')}), '1', 'a case is retired');
is(q_(q{SELECT version, cases FROM gpucredit_eval.freeze_set('acme', 'support', 'f2')}), '2|2',
	'the next version is without it');
is(q_(q{SELECT string_agg(name, ' ') FROM gpucredit_eval.cases('acme', 'support', 1)}), 'a b c',
	'the old one has it still');

# configs
my $config = q{{"sets": ["support@1"], "model": {"max_tokens": 100},
	"judge": {"endpoint": "judge", "model": "j-1", "max_tokens": 50, "max_response_bytes": 1000},
	"gates": [{"task": "json"}, {"task": "open", "blocking": false}]}};
is(q_(qq{SELECT version, replayed FROM gpucredit_eval.set_config('acme', 'main', '$config', 'g1')}),
	'1|f', 'a config is made');
is(q_(qq{SELECT version, replayed FROM gpucredit_eval.set_config('acme', 'main', '$config', 'g1')}),
	'1|t', 'once');
is(q_(qq{SELECT version, replayed FROM gpucredit_eval.set_config('acme', 'main', '$config', 'g2')}),
	'1|f', 'an equal one is the same version');
fails(qq{SELECT gpucredit_eval.set_config('acme', 'x', '$_', 'g3')}, '22023', "$_ is no config")
  foreach '[]', '{}', '{"sets": []}', '{"sets": [1]}', '{"sets": ["support"], "odd": 1}',
  '{"sets": ["support", "support"]}', '{"sets": ["support"], "judge": {"endpoint": "judge"}}',
  '{"sets": ["support"], "judge": {"endpoint": "judge", "model": "j", "samples": 2}}',
  '{"sets": ["support"], "gates": [{"task": "a", "kind": "safety", "blocking": false}]}',
  '{"sets": ["support"], "gates": [{"task": "a"}, {"task": "a"}]}',
  '{"sets": ["support"], "model": {"max_tokens": 0}}',
  '{"sets": ["support"], "max_attempts": 11}';
fails(q{SELECT gpucredit_eval.set_config('acme', 'x', '{"sets": ["none"]}', 'g3')}, 'UC601',
	'no such set');

# a run
my $start = q{SELECT run, status, held, cases, replayed FROM gpucredit_eval.start_run('acme', 'nlp',
	's1', 'main', 'model', 'development', 1)};
is(q_($start), '1|granted|1.000000|3|f', 'a run is started, and its cap held');
is(q_($start), '1|granted|1.000000|3|t', 'once');
is(q_(q{SELECT held FROM gpucredit.balance('acme', 'nlp')}), '1.000000', 'in the ledger');
fails(q{SELECT gpucredit_eval.start_run('acme', 'nlp', 's2', 'none', 'model')}, 'UC601', 'no such config');
fails(q{SELECT gpucredit_eval.start_run('acme', 'nlp', 's2', 'main', 'none')}, 'UC601', 'no such endpoint');
fails(q{SELECT gpucredit_eval.start_run('acme', 'nlp', 's2', 'main', 'judge')}, '22023',
	'the judge does not judge itself');
fails(q{SELECT gpucredit_eval.start_run('acme', 'nlp', 's2', 'main', 'x@main')}, 'UC601',
	'no endpoint of that name');
is(q_(q{SELECT status, reason FROM gpucredit_eval.start_run('acme', 'nlp', 's3', 'main', 'model',
	cap => 5000)}), 'denied|insufficient_credits', 'a run without credit is denied');
is(q_(q{SELECT status, reason FROM gpucredit_eval.start_run('acme', 'nlp', 's4', 'main', 'model',
	'production_gate')}), 'denied|not_calibrated', 'a judge that was not calibrated gates nothing');

# Bounds: 100 tokens of output at 2, at most 11 + 256 of input at 1, a million.
is(q_(q{SELECT "case", attempt, trim_scale(max_cost) FROM gpucredit_eval.lease_cases('acme', 1, 'w1', 2, '1 min')}),
	"1|1|0.000467\n2|1|0.000467", 'cases are leased, and what they may cost is set aside');
my $report = q{SELECT action, score, trim_scale(cost), replayed FROM gpucredit_eval.report('acme', 1,
	%d, %d, '%s', '%s', '%s')};
my $usage = '{"prompt_tokens": 10, "completion_tokens": 5}';
is(q_(sprintf($report, 1, 1, '{}', '[{"type": "is-json", "pass": true}]', $usage)), 'done|1|0.00002|f', 'a case is reported');
is(q_(sprintf($report, 1, 1, '{}', '[{"type": "is-json", "pass": true}]', $usage)), 'done|1|0.00002|t', 'once');
is(q_(sprintf($report, 1, 1, '{x}', '[{"type": "is-json", "pass": false}]', $usage)), 'done|1|0.00002|t',
	'a different second report changes nothing');
is(q_(q{SELECT count(*) FROM gpucredit_eval.event WHERE operation = 'second_report'}), '1', 'and is recorded');
is(q_(q{SELECT trim_scale(spent), trim_scale(captured) FROM gpucredit_eval.run_state('acme', 1)}), '0.00002|0.00002',
	'what it cost is captured');
fails(sprintf($report, 3, 1, '{}', '[]', $usage), 'UC603', 'a case that nobody leased');
fails(sprintf($report, 2, 1, '{}', $_, $usage), '22023', "$_ are no checks")
  foreach '{}', '[1]', '[{}]', '[{"pass": 1}]', '[{"type": "is-json", "pass": true, "score": 2}]',
  '[{"type": "is-json", "pass": true, "weight": -1}]', '[{"pass": true}]', '[]',
  '[{"type": "is-json", "pass": true}, {"type": "is-json", "pass": true}]';
fails(sprintf($report, 2, 1, '{}', '[{"type": "is-json", "pass": true}]', $_), '22023', "$_ is no usage")
  foreach '{}', '[]', '{"prompt_tokens": 1}', '{"prompt_tokens": -1, "completion_tokens": 0}',
  '{"prompt_tokens": 1.5, "completion_tokens": 0}', '{"prompt_tokens": "1", "completion_tokens": 0}',
  '{"prompt_tokens": 1e400, "completion_tokens": 0}';
is(q_(sprintf($report, 2, 1, 'no JSON', '[{"type": "is-json", "pass": false}]', $usage)), 'done|0|0.00002|f',
	'a failed check scores 0');

# the judge
is(q_(q{SELECT "case", parameters -> 'samples', parameters ->> 'rubric' FROM
	gpucredit_eval.lease_cases('acme', 1, 'w1', 5, '1 min')}), '3|[1, 2, 3]|names a reason', 'a case for the judge');
is(q_(sprintf($report, 3, 1, 'because', '[]', $usage)), 'judge||0.00002|f', 'the judge is to be asked');
my $judge = q{SELECT score, parsed, replayed FROM gpucredit_eval.report_judge('acme', 1, 3, %d, '%s', '%s')};
is(q_(sprintf($judge, 1, '{"score": 5, "reason": "good"}', $usage)), '5|t|f', 'a sample');
is(q_(sprintf($judge, 1, '{"score": 1, "reason": "bad"}', $usage)), '5|t|t', 'the first stands');
is(q_(sprintf($judge, 2, 'I give it a 5', $usage)), '1|f|f', 'prose is the score 1');
fails(sprintf($judge, 4, '{}', $usage), 'UC603', 'no fourth sample');
is(q_(q{SELECT state FROM gpucredit_eval.run_state('acme', 1)}), 'running', 'the run goes on');
is(q_(sprintf($judge, 3, '{"score": 4, "reason": "fair"}', $usage)), '4|t|f', 'the last sample');
is(q_(q{SELECT state, finished, errors, trim_scale(spent), set_aside = 0, captured FROM gpucredit_eval.run_state('acme', 1)}),
	'finished|3|0|0.00024|t|0.000240', 'the run has ended, and is paid');
is(q_(q{SELECT held, spent FROM gpucredit.balance('acme', 'nlp')}), '0.000000|0.000240',
	'what was not spent is free again');
is(q_(q{SELECT task, score, n, passes, blocking, reason FROM gpucredit_eval.gate('acme', 1)}),
	"json|0.500000|2|f|t|below_threshold\nopen|0.750000|1|f|f|below_threshold", 'the gate');
is(q_(q{SELECT gpucredit_eval.verdict('acme', 1)}), 'block', 'the verdict');
# An endpoint's turns: gates come before others, and both together keep max_rps
q_(q{SELECT gpucredit_eval.set_endpoint('acme', 'slow', 'http://127.0.0.1:5', 1, 2, 10);
	SELECT gpucredit_eval.set_config('acme', 'turns', '{"sets": ["support@1"], "judge": {"endpoint": "judge", "model": "j-1"}}', 'turns')});
my ($nightly, $gate) = map { q_("SELECT run FROM gpucredit_eval.start_run('acme', 'nlp', 'turns $_', 'turns', 'slow', '$_', 1)") } qw(nightly gate);
fails(q{SELECT gpucredit_eval.set_endpoint('acme', 'slow', 'http://127.0.0.1:5', 1, 2, 10, gate_share => 1)}, '22023', 'other runs have a share, too');

# Asks for turns at a second; returns when the first begins, the time between two, and how many there are.
sub turns
{
	my ($second, $run, $n) = @_;

	return q_(sprintf(q{SET gpucredit.clock = '2030-01-01 00:00:%09.6fZ';
		SELECT %s + extract(epoch FROM wait), extract(epoch FROM every), granted FROM gpucredit_eval.pace('acme', 'slow', %d, %s)},
			$second, $second, $n, $run));
}
my @assigned;

# The same, and keeps the turns.
sub assign
{
	my ($second, $run, $n) = @_;
	my ($first, $every, $granted) = split /\|/, turns($second, $run, $n);

	push @assigned, map { [ $first + $every * $_, $run ] } 0 .. $granted - 1;
	return ($first, $every, $granted);
}
is(join(' ', map { $_ + 0 } assign(0, $nightly, 10000)), '0 0.1 10', 'a nightly run alone has all of max_rps, for a second ahead');
is((assign(0.1, $nightly, 10000))[2] + 0, 1, 'and no more, however many of its workers wait');
is(join(' ', map { sprintf '%.3f', $_ } assign(0.2, $gate, 8)), '1.100 0.133 1.000', 'a gate that comes has the next turn after these');
is(join(' ', map { sprintf '%.3f', $_ } assign(1, $nightly, 10000)), '1.100 0.400 3.000', 'from then on the nightly run has a quarter');
is(join(' ', map { sprintf '%.3f', $_ } assign(1.1, $gate, 100)), '1.233 0.133 7.000', 'and the gate three quarters');
is(join(' ', map { sprintf '%.3f', $_ } assign(4, $gate, 100)), '4.000 0.100 10.000', 'until the other asks no more');
my ($seed, $second) = ($ENV{GC_SEED} || time, 10);
note("GC_SEED=$seed");
srand $seed;
@assigned = ();
while ($second < 40)
{
	$second += rand() < 0.1 ? 3 * rand() : 0.3 * rand();
	assign($second, rand() < 0.5 ? $nightly : $gate, 1 + int rand 20);
}
my @at = sort { $a <=> $b } map { $_->[0] } @assigned;
is(scalar(grep { $at[ $_ + 12 ] - $at[$_] < 0.999 } 0 .. $#at - 12), 0, 'no second has more than 10 turns, and one more of each line');
cmp_ok(scalar(@at), '>', 100, 'of ' . @at);
is(scalar(grep { my $line = $_; my @own = map { $_->[0] } grep { $_->[1] == $line } @assigned;
	grep { $own[ $_ + 1 ] - $own[$_] < 0.0999 } 0 .. $#own - 1 } $nightly, $gate), 0, 'a line never goes faster than the endpoint');

# Who calls all of his runs gates has one in the line of gates
my @gates = map { q_("SELECT run FROM gpucredit_eval.start_run('acme', '$_', 'more gates $_', 'turns', 'slow', 'gate', 1)") } qw(nlp nlp/ann vision);
assign(50, $gate, 1);
assign(50, $nightly, 1);
is((assign(50, $gate, 1))[1] + 0, 0.133333, 'a gate has the share of gates');
is((assign(50, $_, 1))[1] + 0, 0.4, 'another one of its account, or of one below it, has that of other runs') foreach @gates[ 0, 1 ];
is((assign(50, $gates[2], 1))[1] + 0, 0.133333, 'and one of another account that of gates');
is((assign(50.9, $gates[0], 1))[1] + 0, 0.4, 'as long as the first one asks');
assign(52, $nightly, 1);
is((assign(53.1, $gates[0], 1))[1] + 0, 0.133333, 'then the next has its place');
is((assign(53.2, $gate, 1))[1] + 0, 0.4, 'which is taken until that asks no more');
my @extra = map { q_("SELECT run FROM gpucredit_eval.start_run('acme', '$_->[0]', 'extra $_->[1]', 'turns', 'model', '$_->[2]', 1)") }
	[ 'nlp', 1, 'gate' ], [ 'nlp', 2, 'nightly' ], [ 'vision', 3, 'nightly' ];
is(q_(q{SELECT string_agg(run || CASE WHEN first THEN ' first' ELSE '' END, ', ') FROM gpucredit_eval.open_runs('acme')}),
	join(', ', "$gate first", "$gates[2] first", $gates[0], $extra[2], $gates[1], $extra[0], $nightly, $extra[1]),
	'workers take one gate of each account first, and then each account\'s next run');
q_("SELECT gpucredit_eval.cancel_run('acme', $_, 'turns end $_')") foreach $nightly, $gate, @gates, @extra;
eval_verify($node);
done_testing();
