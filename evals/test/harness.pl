# harness.pl: the command over the extension and a stub: the same verdicts as
# promptfoo, exit codes, faults, killed workers, and what all of it costs
#
# Long: it runs sets of several tools
# Packages: npm:npm junitparser
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/lib";
use GpuCreditEval;
use GpuCredit;
use GpuCreditEvalCommand;
use JSON::PP;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes 'sleep';

my $node = eval_node('harness');
my $dir = PostgreSQL::Test::Utils::tempdir();
my $runs = 0;

sub q_ { return query($node, 'eval', $_[0]) }
q_('GRANT gpucredit_app TO worker');

# Points an endpoint of acme to a stub.
sub endpoint
{
	my ($name, $stub, $rps, $secret) = @_;

	return q_(sprintf(q{SELECT gpucredit_eval.set_endpoint('acme', '%s', '%s', 1, 2, %s, %s)}, $name,
			stub_url($stub), $rps // 'NULL', $secret ? "'$secret'" : 'NULL'));
}

# A set of n echoes, each judged as its text says, and a config of one gate.
sub echoes
{
	my ($set, $n, %more) = @_;
	my @cases = map { { name => "e$_", task => 'echo', input => { messages => [ { role => 'user',
		content => "say $_ quality:5" } ] }, checks => [ { type => 'contains', value => "say $_ " } ],
		$more{judge} ? (rubric => 'good?') : () } } 1 .. $n;
	my $judge = $more{judge} ? ', "judge": {"endpoint": "judge", "model": "j-1"}' : '';

	q_("SELECT gpucredit_eval.create_set('acme', '$set', 'locked', 'set $set')");
	add_cases($node, 'acme', $set, "cases $set", @cases);
	q_(sprintf(q{SELECT gpucredit_eval.set_config('acme', '%s',
		'{"sets": ["%s"]%s, "gates": [{"task": "echo"}], "max_attempts": 10}', 'config %s')}, $set, $set, $judge, $set));
	return;
}

# Starts a run without working on it; returns its number.
sub start_run
{
	my ($config, @options) = @_;
	my ($code, $out) = command_result($node, 'run', '--account', 'nlp', '--config', $config,
		'--model', 'model', '--purpose', 'development', '--no-work', @options);

	$runs++;
	return $out =~ /^run (\d+): / ? $1 : die "no run: $out\n";
}

stub_start('model');
stub_start('judge');
endpoint('model', 'model');
endpoint('judge', 'judge');

# the same set and stub as promptfoo: the same verdicts
my ($code, $out, $err) = command_result($node, 'import', 'promptfoo', "$FindBin::RealBin/data/parity.yaml",
	'--set', 'parity', '--kind', 'locked', '--freeze');
is("$code $out" =~ s/ sha256.*//sr, "0 parity: 67 cases added, 0 were there\nparity\@1: 67 cases,", 'promptfoo\'s tests are imported');
is((command_result($node, 'import', 'promptfoo', "$FindBin::RealBin/data/parity.yaml", '--set', 'parity'))[1],
	"parity: 67 cases added, 0 were there\n", 'once');
q_(q{SELECT gpucredit_eval.set_config('acme', 'parity', '{"sets": ["parity"],
	"judge": {"endpoint": "judge", "model": "j-1"}, "gates": [{"task": "default", "absolute": 0.75}]}', 'c1')});
($code, $out, $err) = command_result($node, 'run', '--account', 'nlp', '--config', 'parity', '--model', 'model',
	'--purpose', 'development');
is($code, 1, 'a task below its threshold blocks: exit code 1') or diag("$out$err");
like($out, qr/^default [^\n]* no +blocking +below_threshold\n.*^verdict: block; 67 of 67 cases, 0 failed/ms, 'and the table says so');
my ($run) = $out =~ /^run (\d+): /;
my $results = decode_json((command_result($node, 'results', '--run', $run))[1])->{results}{results};
open(my $file, '<', "$FindBin::RealBin/data/parity.verdicts") or die;
is_deeply([ map { $_->{success} ? 'pass' : 'fail' } @$results ], [ map { (split)[0] } <$file> ],
	'promptfoo\'s verdicts, the judge\'s included');
if (my $promptfoo = $ENV{GC_PROMPTFOO})
{
	my ($version) = slurp_file("$promptfoo/node_modules/promptfoo/package.json") =~ /"version": "([^"]+)"/;
	my @verdicts = split /^/, slurp_file("$FindBin::RealBin/data/parity.verdicts");
	my @said = grep { /^(?:pass|fail) / } `node @{[command_folder()]}/test/lib/promptfoo.mjs $promptfoo $FindBin::RealBin/data/parity.yaml @{[stub_url('model')]} 2>/dev/null`;

	# 0.123.1 decides these otherwise: what is no JSON differs from an object, a text with a 0
	# contains the number 0, and what is no JSON does not fit a schema
	@verdicts[ 8, 15, 46 ] = ("pass 1.0000\n") x 3 if $version !~ /^0\.118\./;
	is(join('', @said), join('', @verdicts), "they are those of the real promptfoo, $version");
}
is((command_result($node, 'results', '--run', $run, '--format', 'lm-eval'))[1] =~ /"acc,none": ([0-9.]+)/ && $1 + 0,
	q_("SELECT score FROM gpucredit_eval.gate('acme', $run)") + 0, 'lm-eval\'s results have the score');
append_to_file("$dir/junit.xml", (command_result($node, 'junit', '--run', $run))[1]);
is(system('/usr/bin/python3', '-c', <<'PY', "$dir/junit.xml"), 0, 'JUnit XML, as junitparser reads it');
import sys, junitparser
suites = {s.name: s for s in junitparser.JUnitXml.fromfile(sys.argv[1])}
assert suites["gates"].tests == 1 and suites["gates"].failures == 1, suites["gates"]
assert suites["default"].tests == 67 and suites["default"].errors == 0, suites["default"]
PY

# exit codes
echoes('plain', 12);
($code, $out) = command_result($node, 'run', '--account', 'nlp', '--config', 'plain', '--model', 'model');
is("$code " . ($out =~ /verdict: (\w+)/)[0], '0 pass', 'a pass is 0');
$run = start_run('plain');
is((command_result($node, 'gate', '--run', $run))[0], 2, 'an unfinished run is inconclusive: 2');
is((command_result($node, 'work', '--run', $run))[0], 0, 'work ends with the run');
is((command_result($node, 'gate', '--run', $run))[0], 0, 'and it passes');
is((command_result($node, 'run', '--account', 'nlp', '--config', 'plain', '--model', 'model', '--cap', '100000'))[0],
	2, 'a denied run is 2');
is((command_result($node, 'run', '--account', 'nlp'))[0], 64, 'a mistake is 64');
($code, undef, $err) = command_result($node, 'gate', '--run', '999');
is($code, 70, 'an error is 70');
like($err, qr/run 999 of "acme"/, 'and names the run');

# an answer that was cut off fails, unless a check is about that
q_("SELECT gpucredit_eval.create_set('acme', 'cut', 'locked', 'set cut')");
add_cases($node, 'acme', 'cut', 'cases cut', map { { name => $_->[0], task => 'cut', input => { messages => [
	{ role => 'user', content => 'Say yes quality:5 (cut off)' } ] }, checks => $_->[1], @$_[2 .. $#$_] } }
	[ 'checked', [ { type => 'contains', value => 'yes' } ] ],
	[ 'about it', [ { type => 'finish-reason', value => 'length' } ] ],
	[ 'judged', [], rubric => 'good?' ]);
q_(q{SELECT gpucredit_eval.set_config('acme', 'cut', '{"sets": ["cut"],
	"judge": {"endpoint": "judge", "model": "j-1"}, "gates": [{"task": "cut"}]}', 'config cut')});
$run = start_run('cut');
my $asked = stub_stats('judge')->{requests};
command_result($node, 'work', '--run', $run);
is(q_("SELECT string_agg((c).name || ' ' || round((o).score, 2), ', ' ORDER BY (c).name) FROM gpucredit_eval.run_cases('acme', $run)"),
	'about it 1.00, checked 0.00, judged 0.00', 'an answer that was cut off fails, unless a check is about that');
is(stub_stats('judge')->{requests}, $asked, 'and no judge is asked about it');

# a model that is given functions answers with the call that it would make; a
# conversation may have calls and what came of them
q_("SELECT gpucredit_eval.create_set('acme', 'tools', 'locked', 'set tools')");
add_cases($node, 'acme', 'tools', 'cases tools',
	{ name => 'one turn', task => 'tools', input => { messages => [ { role => 'user', content => 'Say Oslo' } ] },
		checks => [ { type => 'is-json' }, { type => 'contains', value => '"name":"weather"' }, { type => 'contains', value => 'Oslo' } ] },
	{ name => 'turns', task => 'tools', input => { messages => [ { role => 'user', content => 'What is the weather?' },
		{ role => 'assistant', content => undef, tool_calls => [ { id => 'a', type => 'function', function => { name => 'place', arguments => '{}' } } ] },
		{ role => 'tool', tool_call_id => 'a', content => 'Say Bergen' } ] },
		checks => [ { type => 'contains', value => 'Bergen' } ] });
q_(q{SELECT gpucredit_eval.set_config('acme', 'tools', '{"sets": ["tools"], "gates": [{"task": "tools"}],
	"model": {"parameters": {"tool_choice": "required", "tools": [{"type": "function",
		"function": {"name": "weather", "parameters": {"type": "object", "properties": {"text": {"type": "string"}}}}}]}}}', 'config tools')});
($code, $out) = command_result($node, 'run', '--account', 'nlp', '--config', 'tools', '--model', 'model');
is("$code " . ($out =~ /verdict: (\w+)/)[0], '0 pass', 'calls of functions are answers that checks read');
is(join(' ', @{ stub_stats('model')->{last}{body} }{qw(tool_choice)}), 'required', 'and the parameters are sent as they are');

# lm-eval's multiple_choice: one call for each text, which the run pays for
q_("SELECT gpucredit_eval.create_set('acme', 'choices', 'locked', 'set choices')");
sub choice
{
	my ($name, $metric, $value, @choices) = @_;

	return { name => $name, task => 'choice', input => { requests => [ map { { context => "Q $name\nA:", continuation => " $_" } } @choices ] },
		checks => [ { type => 'multiple_choice', metric => $metric, choices => \@choices, value => $value } ] };
}
# each character costs a logprob of -0.5, but for spaces: "aa b" -1.5 for 4 characters, "cc" -1 for 2
add_cases($node, 'acme', 'choices', 'cases choices', choice('acc', 'acc', 1, 'aa b', 'cc'), choice('acc wrong', 'acc', 0, 'aa b', 'cc'),
	choice('norm', 'acc_norm', 0, 'aa b', 'cc'), choice('exact', 'exact_match', 2, 'aa', 'b', 'good'),
	{ name => 'll', task => 'choice', input => { requests => [ { context => 'so', continuation => ' good' } ] },
		checks => [ { type => 'loglikelihood', metric => 'acc' } ] });
q_(q{SELECT gpucredit_eval.set_config('acme', 'choices', '{"sets": ["choices"], "gates": [{"task": "choice"}]}', 'config choices')});
foreach my $refused ([ { %{ choice('x', 'acc', 0, 'a') }, rubric => 'good?' }, 'other checks or a rubric' ], [ choice('x', 'brier_score', 0, 'a'), 'malformed check of texts' ],
	[ { %{ choice('x', 'acc', 0, 'a') }, input => { requests => [ { context => 'a', continuation => '' } ] } }, 'no list of texts' ],
	[ { %{ choice('x', 'acc', 0, 'a') }, input => 'why?' }, 'no list of texts' ], [ choice('x', 'acc', 0, (' ') x 101), 'no list of texts' ],
	[ { input => 'a', checks => [ { type => 'assert-set', assert => [ { type => 'loglikelihood', metric => 'acc' } ] } ] }, 'malformed set of checks' ])
{
	my $json = encode_json([ $refused->[0] ]);
	my ($rc, undef, $said) = $node->psql('eval', "SELECT * FROM gpucredit_eval.add_cases('acme', 'choices', '$json', 'refused')");
	like($said, qr/$refused->[1]/, "a case that scores texts is refused: $refused->[1]");
}
my $before = stub_stats('model')->{requests};
($code, undef, $err) = command_result($node, 'run', '--account', 'nlp', '--config', 'choices', '--model', 'model', '--purpose', 'development');
like("$code $err", qr/^70 .*5 cases ask how likely texts are, and endpoint "model" has no logprobs.*set_endpoint/s, 'an endpoint without logprobs is refused');
is(stub_stats('model')->{requests} - $before, 0, 'before a call is made');
q_(sprintf(q{SELECT gpucredit_eval.set_endpoint('acme', 'model', '%s', 1, 2, NULL, logprobs => true)}, stub_url('model')));
($code, $out, $err) = command_result($node, 'run', '--account', 'nlp', '--config', 'choices', '--model', 'model', '--purpose', 'development');
($run) = $out =~ /^run (\d+): / or diag($out . $err);
is(q_("SELECT string_agg((c).name || ' ' || round((o).score, 2), ', ' ORDER BY (c).name) FROM gpucredit_eval.run_cases('acme', $run)"),
	'acc 1.00, acc wrong 0.00, exact 1.00, ll 1.00, norm 1.00', 'lm-eval\'s metrics, as computed by hand');
is(stub_stats('model')->{requests} - $before, 10, 'with a call for each text');
is(q_(qq{SELECT usage ->> 'completion_tokens', (usage ->> 'prompt_tokens')::numeric + 2 * (usage ->> 'completion_tokens')::numeric = cost * 1000000
	FROM gpucredit_eval.run_cases('acme', $run) x, LATERAL (SELECT (x.o).usage, (x.o).cost) r WHERE (x.c).name = 'exact'}), '3|t', 'all of which are paid for');
is(q_(qq{SELECT bool_and(l.call_max >= l.cost AND l.call_max * 1000000 = octet_length(c.input::text) + 256 + 2 * jsonb_array_length(c.input -> 'requests'))
	FROM gpucredit_eval.lease l JOIN gpucredit_eval.golden_case c USING (org, "case") WHERE run = $run}), 't', 'within what was set aside for all of them');
# a task whose score is a perplexity: -1.5 and -2 for the two texts
q_("SELECT gpucredit_eval.create_set('acme', 'texts', 'locked', 'set texts')");
add_cases($node, 'acme', 'texts', 'cases texts', map { { name => $_, task => 'ppl', input => { requests => [ { context => 'so', continuation => " $_" } ] },
	checks => [ { type => 'loglikelihood', metric => 'perplexity' } ] } } 'aa b', 'good');
q_(q{SELECT gpucredit_eval.set_config('acme', 'texts', '{"sets": ["texts"], "gates": [{"task": "ppl", "absolute": 0.15}]}', 'config texts')});
($code, $out, $err) = command_result($node, 'run', '--account', 'nlp', '--config', 'texts', '--model', 'model', '--purpose', 'gate');
like("$code $out", qr/^0 .*^ppl +0\.173774 \(perplexity 5\.754603\) .*yes/ms, 'a gate of a perplexity passes') or diag($err);
($run) = $out =~ /^run (\d+): /;
like((command_result($node, 'results', '--run', $run, '--format', 'lm-eval'))[1], qr/"perplexity,none": 5\.754603/, 'lm-eval\'s results have the perplexity itself');
$before = stub_stats('model')->{requests} - 10;
$run = start_run('choices', '--cap', '0.0003');
command_result($node, 'work', '--run', $run);
is(q_("SELECT state, spent FROM gpucredit_eval.run_state('acme', $run)") . ' ' . (stub_stats('model')->{requests} - $before), 'paused|0 10',
	'a case whose texts do not fit into the cap is not asked');
endpoint('model', 'model');

# a cap that does not suffice pauses the run: no call beyond it
$run = start_run('plain', '--cap', '0.0009');
is((command_result($node, 'work', '--run', $run))[0], 2, 'a paused run ends its workers');
my ($state, $spent) = split /\|/, q_("SELECT state, spent <= 0.0009 FROM gpucredit_eval.run_state('acme', $run)");
is("$state $spent", 'paused t', 'it spent no more');
q_("SELECT gpucredit_eval.raise_cap('acme', $run, 'more', 1)");
is((command_result($node, 'work', '--run', $run))[0], 0, 'with a higher cap it goes on');

# a worker of all open runs outlasts an error with one of them
my ($failing, $other) = map { start_run('plain') } 1 .. 2;
q_(qq{CREATE FUNCTION broken() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION \$\$it is broken\$\$; END';
	CREATE TRIGGER broken BEFORE INSERT ON gpucredit_eval.result FOR EACH ROW WHEN (new.run = $failing) EXECUTE FUNCTION broken()});
($code, undef, $err) = command_result($node, 'work', '--every', '0');
is("$code " . ($err =~ /(it is broken)/)[0], '70 it is broken', 'an error with a run is reported');
is(q_("SELECT string_agg(run || ' ' || state, ', ' ORDER BY run) FROM gpucredit_eval.run WHERE run IN ($failing, $other)"),
	"$failing running, $other finished", 'and the run behind it is measured');
q_("DROP TRIGGER broken ON gpucredit_eval.result; SELECT gpucredit_eval.cancel_run('acme', $failing, 'broken')");
is((command_result($node, 'work', '--every', '1000001'))[0], 64, 'no timer is longer than Node has');

# faults: a call that may have been billed counts, and is not repeated
stub_stop('model');
stub_start('model', faults => [ qw(429:1 cut 500 garbage nousage redirect:http://127.0.0.2:1/ none 503) ]);
endpoint('model', 'model', undef, 'EVAL_KEY');
$ENV{EVAL_KEY} = 's3cret-of-the-endpoint';
echoes('faulty', 10);
($code, $out, $err) = command_result($node, 'run', '--account', 'nlp', '--config', 'faulty', '--model', 'model',
	'--purpose', 'development');
is($code, 0, 'a faulty endpoint is worked around') or diag("$out$err");
my $stats = stub_stats('model');
is($stats->{authorization}, 'Bearer s3cret-of-the-endpoint', 'the key comes from the environment');
($run) = $out =~ /^run (\d+): /;
is(q_(qq{SELECT count(*) FROM gpucredit_eval.lease WHERE run = $run AND error IS NOT NULL}), '4',
	'cut, 500, garbage and the redirect took a further attempt; 429 and 503 did not');
is(q_(qq{SELECT count(*) FROM gpucredit_eval.lease WHERE run = $run AND error IS NOT NULL AND cost = max_cost}), '3',
	'lost calls cost what was set aside, the refused redirect nothing');
is(q_(qq{SELECT count(*) FROM gpucredit_eval.result r JOIN gpucredit_eval.lease l USING (org, run, "case", attempt)
	WHERE run = $run AND r.usage IS NULL AND r.cost = l.call_max}), '1', 'without usage a call costs its set-aside');
is(q_(q{SELECT count(*) FROM gpucredit_eval.event WHERE strpos(detail::text, 's3' || 'cret') > 0}), '0', 'the key is nowhere');
unlike($out . $err . slurp_file($node->logfile), qr/s3cret/, 'nor in output and logs');

# killed workers: the same results, and no reported case is asked again
stub_stop('model');
stub_start('model', latency => 40);
endpoint('model', 'model');
stub_stop('judge');
stub_start('judge', latency => 20);
endpoint('judge', 'judge');
echoes('killed', 60, judge => 1);
$run = start_run('killed');
foreach my $round (1 .. 2)
{
	my @workers = map { start_command($node, 'work', '--run', $run, '--ttl', '5', '--concurrency', '4') } 1 .. 2;
	my $before = q_("SELECT count(*) FROM gpucredit_eval.judgement WHERE run = $run");
	$node->poll_query_until('eval', "SELECT count(*) > $before + 10 FROM gpucredit_eval.judgement WHERE run = $run")
	  or die "no worker works\n";
	kill 'KILL', @workers;
	waitpid $_, 0 foreach @workers;
}
my ($reported) = q_("SELECT count(*) FROM gpucredit_eval.result WHERE run = $run");
my @worker = map { start_command($node, 'work', '--run', $run) } 1 .. 2;
ends_with($_, 0, 'a worker goes on to the end') foreach @worker;
is(q_("SELECT finished, errors, state FROM gpucredit_eval.run_state('acme', $run)"), '60|0|finished', 'all cases are done');
is(q_("SELECT count(*), min(score), max(score) FROM gpucredit_eval.result WHERE run = $run"), '60|1.00000000000000000000|1.00000000000000000000',
	'with the same results');
my $prompts = stub_stats('model')->{prompts};
is(scalar(grep { $_ > 3 } values %$prompts), 0, 'no case was asked more often than it was leased');
cmp_ok(stub_stats('model')->{requests}, '<=', 60 + q_(qq{SELECT count(*) FROM gpucredit_eval.lease l WHERE run = $run
	AND state IN ('lost', 'closed') AND call_max > 0 AND NOT EXISTS (SELECT FROM gpucredit_eval.result r
	WHERE r.run = l.run AND r."case" = l."case" AND r.attempt = l.attempt)}), 'nothing reported was asked again');
is(q_("SELECT count(*) FROM gpucredit_eval.judgement WHERE run = $run"), '180', 'three samples of each');

# the server dies in the middle: workers wait for it
$run = start_run('killed', '--key', 'again');
my $worker = start_command($node, 'work', '--run', $run, '--ttl', '5');
$node->poll_query_until('eval', "SELECT count(*) > 5 FROM gpucredit_eval.result WHERE run = $run") or die;
$node->stop('immediate');
$node->start;
ends_with($worker, 0, 'a worker outlives the server\'s crash');
is(q_("SELECT finished, errors, state FROM gpucredit_eval.run_state('acme', $run)"), '60|0|finished', 'and all is done');

# two workers share an endpoint's rate limit
stub_stop('model');
stub_start('model', rps => 25);
endpoint('model', 'model', 20);
$run = start_run('killed' => '--key', 'paced');
@worker = map { start_command($node, 'work', '--run', $run) } 1 .. 2;
ends_with($_, 0, 'a paced worker ends') foreach @worker;
is(stub_stats('model')->{limited}, 0, 'a limit of 25 a second is not met at 20');

# a watch works on a gate while a nightly run goes on, and at their endpoint the gate comes first
q_(sprintf(q{CREATE EXTENSION gpucredit_registry CASCADE;
	SELECT gpucredit_registry.create_model('acme', 'nlp', 'bot', 'm1');
	SELECT gpucredit_registry.commit('acme', 1, 'main', '[{"path": "a", "content": "YQ=="}]', 'v1');
	SELECT gpucredit_eval.set_endpoint('acme', 'served', '%s', 1, 2, 10, serves_registry => true)}, stub_url('model')));
echoes('night', 600);
my $options = '{"endpoint": "served"}';
q_("SELECT gpucredit_eval.watch_ref('acme', 'bot', 'main', 'nlp', 'night', 'nightly', options => '$options'),
	gpucredit_eval.watch_ref('acme', 'bot', 'next', 'nlp', 'plain', 'gate', options => '$options')");
my $watch = start_command($node, 'watch', '--every', '1');
$node->poll_query_until('eval', q{SELECT count(*) > 5 FROM gpucredit_eval.result JOIN gpucredit_eval.run USING (org, run)
	WHERE purpose = 'nightly'}) or die "no nightly run\n";
q_(q{SELECT gpucredit_registry.commit('acme', 1, 'next', '[{"path": "a", "content": "Yg=="}]', 'v2')});
$node->poll_query_until('eval', q{SELECT state = 'finished' FROM gpucredit_eval.run WHERE config = 'plain' AND purpose = 'gate'
	AND registry_version IS NOT NULL}) or die "no gate\n";
is(q_(q{SELECT state FROM gpucredit_eval.run WHERE purpose = 'nightly'}), 'running', 'a gate is measured while a nightly run goes on');
cmp_ok(q_(q{SELECT extract(epoch FROM ended_at - started_at) FROM gpucredit_eval.run WHERE config = 'plain' AND purpose = 'gate'
	AND registry_version IS NOT NULL}), '<', 20, 'and waits for none of its 600 requests, which take a minute');
kill 'TERM', $watch;
ends_with($watch, 0, 'a watch that is stopped ends');
is(q_(q{SELECT count(*) FROM gpucredit_eval.lease JOIN gpucredit_eval.run USING (org, run) WHERE purpose = 'nightly' AND lease.state = 'open'}),
	'0', 'and gives its leases back');
q_(q{SELECT gpucredit_eval.cancel_run('acme', run, 'night') FROM gpucredit_eval.run WHERE purpose = 'nightly';
	SELECT gpucredit_eval.watch_ref('acme', 'bot', r, 'nlp', NULL) FROM unnest('{main,next}'::text[]) r});

# requests of production
q_(q{SELECT gpucredit_eval.set_stream('acme', 'chat', 'parity', 1, 0.9, 0.05)});
foreach my $n (1 .. 2)
{
	foreach my $file ([ 'asked', 'why?' ], [ 'answered', 'quality:' . ($n == 1 ? 5 : 1) ])
	{
		open(my $out, '>', "$dir/$file->[0]") or die;
		print $out $file->[1];
		close $out;
	}
	($code, $out, $err) = command_result($node, 'observe', '--stream', 'chat', '--request', "r$n", '--input', "$dir/asked",
		'--output', "$dir/answered", '--rubric', 'helps');
	like("$code $out$err", $n == 1 ? qr/^0 score 1\.?0*, mean 0\.91/ : qr/^1 score 0[.0]*, mean 0\.819.*drift$/m,
		$n == 1 ? 'a good answer of production' : 'a bad one drifts: exit code 1');
}
is(join(' ', (command_result($node, 'observe', '--stream', 'chat', '--request', 'r1', '--input', "$dir/asked", '--output', "$dir/x",
	'--rubric', 'helps'))[0]), 70, 'no such file');
is_deeply([ command_result($node, 'watch', '--every', '0') ], [ 0, '', '' ], 'nothing is watched');

is(q_(q{SELECT bool_and(captured = round(spent, 6)) FROM gpucredit_eval.run WHERE ended_at IS NOT NULL}), 't', 'all is paid, to the micro-credit');
eval_verify($node);
done_testing();
