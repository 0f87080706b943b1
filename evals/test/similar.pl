# similar.pl: answers are compared by an embedding model, as promptfoo compares
# them, and what that costs is bounded and paid for
#
# Packages: npm:npm
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/lib";
use GpuCreditEval;
use GpuCreditEvalCommand;
use GpuCredit;
use JSON::PP;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = eval_node('similar');
sub q_ { return query($node, 'eval', $_[0]) }
sub fails { return query_fails($node, 'eval', @_) }
q_('GRANT gpucredit_app TO worker');
my $keys = 0;

sub endpoint
{
	my ($name, $stub, $in, $out) = @_;

	return q_(sprintf(q{SELECT gpucredit_eval.set_endpoint('acme', '%s', '%s', %s, %s, NULL)}, $name, stub_url($stub), $in, $out));
}

sub config
{
	my ($name, $set, %more) = @_;

	return q_(sprintf(q{SELECT version FROM gpucredit_eval.set_config('acme', '%s', '%s', 'config %d')}, $name,
			encode_json({ sets => [$set], gates => [ { task => 'default' } ], max_attempts => 1, %more }), ++$keys));
}

# Runs a config, and returns the number of the run.
sub measure
{
	my ($config, @options) = @_;
	my ($code, $out, $err) = command_result($node, 'run', '--account', 'nlp', '--config', $config, '--model', 'model',
		'--purpose', 'development', @options);

	return $out =~ /^run (\d+): / ? $1 : die "no run: $out$err\n";
}

stub_start('model');
stub_start('embed');
endpoint('model', 'model', 1, 2);
endpoint('embed', 'embed', 4, 8);

# promptfoo's verdicts and scores
my ($code, $out, $err) = command_result($node, 'import', 'promptfoo', "$FindBin::RealBin/data/similar.yaml", '--set', 'similar', '--kind', 'locked', '--freeze');
like("$code $out", qr/^0 similar: 17 cases added/, 'promptfoo\'s tests are imported') or diag($err);
config('bare', 'similar');
fails(q{SELECT gpucredit_eval.start_run('acme', 'nlp', 'bare', 'bare', 'model', 'development')}, '22023', 'a config without embedding model asks none of them');
my $embedding = { endpoint => 'embed', model => 'e-1' };
config('similar', 'similar', embedding => $embedding);
my $run = measure('similar');
my @expected = map { [split] } split /\n/, slurp_file("$FindBin::RealBin/data/similar.verdicts");
my $results = decode_json((command_result($node, 'results', '--run', $run))[1])->{results}{results};
is_deeply([ map { $_->{success} ? 'pass' : 'fail' } @$results ], [ map { $_->[0] } @expected ], 'the verdicts are promptfoo\'s');
my @scores = map { my ($sum, $weights) = (0, 0); $sum += $_->{score} foreach @{ $_->{gradingResult}{componentResults} };
	@{ $_->{gradingResult}{componentResults} } == 1 ? sprintf('%.4f', $sum) : '' } @$results;
is_deeply([ grep { $_ ne '' } @scores ], [ map { $expected[$_][1] } grep { $scores[$_] ne '' } 0 .. $#scores ], 'and so are the scores');
if (my $promptfoo = $ENV{GC_PROMPTFOO})
{
	is(`node @{[command_folder()]}/test/lib/promptfoo.mjs $promptfoo $FindBin::RealBin/data/similar.yaml @{[stub_url('model')]} 2>/dev/null` =~ s/-0\.0000/0.0000/gr =~ s/NaN/0.0000/gr,
		slurp_file("$FindBin::RealBin/data/similar.verdicts"), 'they are those of the real promptfoo');
}

# each call of the embedding model is paid for, within what was set aside
is(q_(qq{SELECT bool_and((o).cost * 1000000 = 10 * 1 + 5 * 2 + ((o).usage #>> '{embedding,prompt_tokens}')::numeric * 4),
		bool_and(((o).usage #>> '{embedding,prompt_tokens}')::numeric = 3 * (1 + CASE jsonb_typeof((c).checks #> '{0,value}')
			WHEN 'array' THEN jsonb_array_length((c).checks #> '{0,value}') ELSE 1 END))
	FROM gpucredit_eval.run_cases('acme', $run)}), 't|t', 'a case costs what both models report');
is(q_(qq{SELECT spent = (SELECT sum((o).cost) FROM gpucredit_eval.run_cases('acme', $run)), captured = round(spent, 6)
	FROM gpucredit_eval.run_state('acme', $run)}), 't|t', 'and so does the run');
is(q_(qq{SELECT bool_and(l.call_max * 1000000 = octet_length(c.input::text) + 256 + 2 * 256 + 4 * (8192 + octet_length(c.checks::text) + 256))
	FROM gpucredit_eval.lease l JOIN gpucredit_eval.golden_case c USING (org, "case") WHERE l.run = $run}), 't',
	'each byte of the texts and of the longest answer is set aside for');
is(q_(q{SELECT count(*) FROM gpucredit_eval.overrun}), '0', 'no call costs more');
is(stub_stats('embed')->{requests}, 17, 'one request has all texts of a case');
my $asked = stub_stats('model')->{requests};
$run = measure('similar', '--cap', '0.01');
is(q_("SELECT state, spent FROM gpucredit_eval.run_state('acme', $run)") . ' ' . (stub_stats('model')->{requests} - $asked), 'paused|0 0',
	'a case that does not fit into the cap with its embedding is not asked');
q_("SELECT gpucredit_eval.cancel_run('acme', $run, 'small')");

# what has no price, no independence, or no form, is refused
q_(sprintf(q{SELECT gpucredit_eval.set_endpoint('acme', 'free', '%s', NULL, NULL, NULL)}, stub_url('embed')));
config('free', 'similar', embedding => { endpoint => 'free', model => 'e-1' });
is(q_(q{SELECT reason FROM gpucredit_eval.start_run('acme', 'nlp', 'free', 'free', 'model', 'development')}), 'no_price', 'an embedding model has a price');
config('self', 'similar', embedding => { endpoint => 'model', model => 'e-1' });
fails(q{SELECT gpucredit_eval.start_run('acme', 'nlp', 'self', 'self', 'model', 'development')}, '22023', 'the model under test does not compare its own answers');
fails(sprintf(q{SELECT gpucredit_eval.set_config('acme', 'x', '{"sets": ["similar"], "embedding": %s}', 'x')}, $_), '22023', "no embedding model: $_")
	foreach '{"endpoint": "embed"}', '{"endpoint": "embed", "model": ""}', '{"endpoint": "embed", "model": "e", "n": 2}',
	'{"endpoint": "embed", "model": "e", "max_response_bytes": 0}', '[]';
q_(q{SELECT gpucredit_eval.create_set('acme', 'own', 'locked', 'own')});
fails(sprintf(q{SELECT gpucredit_eval.add_cases('acme', 'own', '[{"input": "a", "checks": [%s]}]', 'refused')}, $_), '22023', "no check of similarity: $_")
	foreach '{"type": "similar"}', '{"type": "similar", "value": ""}', '{"type": "similar", "value": []}', '{"type": "similar", "value": ["a", 1]}',
	'{"type": "similar", "value": "a", "threshold": 2}', '{"type": "similar", "value": "a", "transform": "output"}',
	'{"type": "assert-set", "assert": [{"type": "similar", "value": "a"}]}',
	'{"type": "similar", "value": [' . join(', ', ('"a"') x 101) . ']}', '{"type": "not-similar", "value": [["a"]]}';

# another model, or another address of it, finds other texts similar
config('other', 'similar', embedding => { endpoint => 'embed', model => 'e-2' });
is(q_(q{SELECT count(DISTINCT measure) FROM gpucredit_eval.config WHERE config IN ('similar', 'other')}), '2', 'another embedding model is another measure');
q_(q{SELECT gpucredit_eval.set_endpoint('acme', 'embed', 'http://127.0.0.1:9', 4, 8, NULL)});
fails(q{SELECT gpucredit_eval.start_run('acme', 'nlp', 'moved', 'similar', 'model', 'development')}, 'UC602', 'one that has moved is refused');
endpoint('embed', 'embed', 4, 8);

# what goes wrong fails the case, and costs what it may have cost
add_cases($node, 'acme', 'own', 'own cases', { name => 'a', input => { messages => [ { role => 'user', content => 'Say listen' } ] },
	checks => [ { type => 'similar', value => 'silent' } ] });
foreach my $fault ([ '500', 'status 500', 'full' ], [ 'garbage', 'cut or no JSON', 'full' ], [ 'novector', 'no vector for each text', 3 * 1 * 4 + 20 ],
	[ '401', 'status 401', 20 ], [ 'nousage', '', 'full' ])
{
	my ($what, $error, $cost) = @$fault;

	stub_start('faulty', faults => [$what]);
	endpoint('faulty', 'faulty', 4, 8);
	config("own $keys" =~ s/ /-/r, 'own', embedding => { endpoint => 'faulty', model => 'e-1' });
	$run = measure('own-' . ($keys - 1));
	is(q_(qq{SELECT coalesce(r.error, '') ~ '$error' AND (r.error IS NULL) = ('$error' = ''), (CASE '$cost' WHEN 'full' THEN l.cost = l.max_cost
			ELSE l.cost * 1000000 = nullif('$cost', 'full')::numeric END)
		FROM gpucredit_eval.result r JOIN gpucredit_eval.lease l USING (org, run, "case") WHERE run = $run}), 't|t',
		"an embedding model with fault $what: costs $cost") or diag(q_("SELECT r.error, l.cost, max_cost FROM gpucredit_eval.result r
			JOIN gpucredit_eval.lease l USING (org, run, \"case\") WHERE run = $run"));
	stub_stop('faulty');
}
config('short', 'own', embedding => { %$embedding, max_response_bytes => 5 });
$asked = stub_stats('embed')->{requests};
$run = measure('short');
is(q_("SELECT error, cost FROM gpucredit_eval.result WHERE run = $run") =~ /^the answer has more than 5 bytes/ && stub_stats('embed')->{requests} - $asked, 0,
	'a longer answer than the config allows is not embedded');

# an endpoint that reports more than its texts can have stops the run
fails(q{SELECT gpucredit_eval.check_usage('{"prompt_tokens": 1, "completion_tokens": 1, "embedding": 5}')}, '22023', 'no usage');
$run = q_(q{SELECT run FROM gpucredit_eval.start_run('acme', 'nlp', 'much', 'short', 'model', 'development')});
q_(qq{SET ROLE worker; SELECT gpucredit_eval.report('acme', $run, l."case", l.attempt, 'silent', '[{"type": "similar", "pass": true, "score": 1}]',
	'{"prompt_tokens": 1, "completion_tokens": 1, "embedding": {"prompt_tokens": 100000}}') FROM gpucredit_eval.lease_cases('acme', $run, 'w', 1, '1 min') l});
is(q_(qq{SELECT state, problem, spent = (SELECT max_cost FROM gpucredit_eval.lease WHERE run = $run) FROM gpucredit_eval.run WHERE run = $run}),
	'cancelled|over_bound|t', 'one that reports more than a call could cost stops the run, which costs no more than was set aside');
eval_verify($node);
done_testing();
