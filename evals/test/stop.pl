# stop.pl: no set hangs a worker, and a worker that is asked to end gives its
# leases back
#
# Long: calls under way are waited for
# Packages: npm:npm
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/lib";
use GpuCreditEval;
use GpuCredit;
use GpuCreditEvalCommand;
use Test::More;
use Time::HiRes 'time';

my $node = eval_node('stop');

sub q_ { return query($node, 'eval', $_[0]) }
q_('GRANT gpucredit_app TO worker');

sub measured_set
{
	my ($set, $config, @cases) = @_;

	q_("SELECT gpucredit_eval.create_set('acme', '$set', 'locked', 'set $set')");
	add_cases($node, 'acme', $set, "cases $set", @cases);
	q_(qq{SELECT gpucredit_eval.set_config('acme', '$set', '{"sets": ["$set"], "max_attempts": 1$config}', 'config $set')});
	my ($code, $out) = command_result($node, 'run', '--account', 'nlp', '--config', $set, '--model', 'model',
		'--purpose', 'development', '--no-work');
	return $out =~ /^run (\d+): / ? $1 : die "no run: $out\n";
}

stub_start('model');
q_(sprintf(q{SELECT gpucredit_eval.set_endpoint('acme', 'model', '%s', 1, 2, NULL)}, stub_url('model')));

# checks and templates that never end fail, and the others of the run are decided
my $letters = 'a' x 40;
my $run = measured_set('hangs', '',
	{ name => 'linear', input => "$letters!", checks => [ { type => 'not-regex', value => '^(\\w+\\s?)+$' } ] },
	{ name => 'lookahead', input => "$letters!", checks => [ { type => 'regex', value => '^(?=(a+)+$)' } ] },
	{ name => 'plain', input => 'hello', checks => [ { type => 'regex', value => '^hel+o$' } ] });
is((command_result($node, 'work', '--run', $run))[0], 0, 'a worker ends a run whose checks would not');
is(q_(qq{SELECT string_agg(c.name || ' ' || round(r.score), ', ' ORDER BY c.name) FROM gpucredit_eval.result r JOIN gpucredit_eval.golden_case c
	USING (org, "case") WHERE run = $run}), 'linear 1, lookahead 0, plain 1',
	'a pattern that backtracks is decided, one that no linear engine has fails alone');
$run = measured_set('loops', q{, "template": "{% for a in range(100000) %}{% for b in range(100000) %}{% set c = a %}{% endfor %}{% endfor %}"},
	{ name => 'x', input => { text => 'hello' }, checks => [ { type => 'regex', value => 'x' } ] });
is((command_result($node, 'work', '--run', $run))[0], 0, 'so does one whose template loops');
is(q_("SELECT errors, trim_scale(spent) FROM gpucredit_eval.run_state('acme', $run)"), '1|0', 'whose case failed and cost nothing');

# SIGTERM, while calls have no answer and others wait for their turn
stub_stop('model');
stub_start('model', faults => [ 'none', ('silent') x 200 ]);
q_(sprintf(q{SELECT gpucredit_eval.set_endpoint('acme', 'model', '%s', 1, 2, 1)}, stub_url('model')));
$run = measured_set('silent', '', map { { name => "s$_", input => "say $_", checks => [ { type => 'regex', value => 'say' } ] } } 1 .. 20);
my $worker = start_command($node, 'work', '--run', $run, '--ttl', '60');
$node->poll_query_until('eval', "SELECT count(*) > 0 FROM gpucredit_eval.result WHERE run = $run") or die;
sleep 2;
my $start = time;
kill 'TERM', $worker;
ends_with($worker, 2, 'SIGTERM ends a worker');
cmp_ok(time - $start, '<', 25, 'though nobody answers it');
is(q_("SELECT count(*) FROM gpucredit_eval.lease WHERE run = $run AND state = 'open'"), '0', 'it gives all leases back');
is(q_("SELECT count(*) FROM gpucredit_eval.lease WHERE run = $run AND released AND cost NOT IN (0, max_cost)"), '0',
	'calls that were sent count in full, the others nothing');
cmp_ok(q_("SELECT count(*) FROM gpucredit_eval.lease WHERE run = $run AND released AND cost = 0"), '>', 0, 'some were not sent');
stub_stop('model');
stub_start('model');
q_(sprintf(q{SELECT gpucredit_eval.set_endpoint('acme', 'model', '%s', 1, 2, NULL)}, stub_url('model')));
q_(sprintf(q{UPDATE gpucredit_eval.run SET model_terms = model_terms || '{"url": "%s", "max_rps": null}' WHERE run = %d}, stub_url('model'), $run));
is((command_result($node, 'work', '--run', $run))[0], 0, 'another worker goes on at once');
is(q_("SELECT finished, errors FROM gpucredit_eval.run_state('acme', $run)"), '20|0', 'and a lease that was given back was no attempt');

# a dead database is reported at once
my $begun = time;
my ($out, $err);
IPC::Run::run([ 'timeout', '-s', 'TERM', '5', 'node', command_folder() . '/cli/gpucredit-eval.mjs', 'work', '--run', '1', '--org', 'acme',
	'--database', 'postgres://worker@127.0.0.1:1/eval' ], '<', \undef, '>', \$out, '2>', \$err);
like($err, qr/the database does not answer .*trying again/, 'a dead database is reported at once');
eval_verify($node);
done_testing();
