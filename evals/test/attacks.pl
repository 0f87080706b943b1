# attacks.pl: who wants a model to ship, held-out cases to leak or a call to
# cost nothing does not get it
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/lib";
use GpuCreditEval;
use GpuCredit;
use JSON::PP;
use Test::More;

my $node = eval_node('attacks');
my $usage = '{"prompt_tokens": 10, "completion_tokens": 5}';
my $keys = 0;

sub q_ { return query($node, 'eval', $_[0]) }
sub fails { return query_fails($node, 'eval', @_) }
sub as { return "SET ROLE $_[0]; $_[1]" }

sub config_as
{
	my ($role, $name, $account, $document) = @_;

	return as($role, sprintf(q{SELECT version FROM gpucredit_eval.set_config('acme', '%s', '%s', 'config %d', '%s')},
			$name, encode_json($document), ++$keys, $account));
}

# The SQL that starts a run; its number, or why there is none.
sub start
{
	my ($config, $model, $purpose, %more) = @_;

	return sprintf(q{SELECT coalesce(run::text, reason) FROM gpucredit_eval.start_run('acme', '%s', 'run %d', '%s', '%s', '%s',
		%s, %s, '%s')}, $more{account} // 'nlp', ++$keys, $config, $model, $purpose, $more{cap} // 5,
		$more{baseline} // 'NULL', $more{options} // '{}');
}

# Reports up to n cases: "right" says by a case's name whether it is.
sub answer
{
	my ($run, $right, $n) = @_;
	my $left = $n // 1000;

	while ($left > 0)
	{
		my @rows = map { [ split /\|/ ] } split /\n/, q_(as('worker', sprintf(q{SELECT "case", attempt FROM
			gpucredit_eval.lease_cases('acme', %d, 'w', %d, '1 min')}, $run, $left < 100 ? $left : 100)));

		last if !@rows;
		$left -= @rows;
		foreach my $row (@rows)
		{
			my $pass = $right->(q_("SELECT name FROM gpucredit_eval.golden_case WHERE \"case\" = $row->[0]")) ? 'true' : 'false';
			q_(as('worker', qq{SELECT FROM gpucredit_eval.report('acme', $run, $row->[0], $row->[1], 'an answer',
				'[{"type": "regex", "pass": $pass}]', '$usage')}));
		}
	}
	return;
}

sub cases
{
	my ($set, $task, $n) = @_;

	return map { { name => sprintf('%s %02d', $set, $_), task => $task, input => "question $_",
		checks => [ { type => 'regex', value => 'right' } ] } } 1 .. $n;
}

sub set
{
	my ($name, $kind, $account, @cases) = @_;

	q_("SELECT gpucredit_eval.create_set('acme', '$name', '$kind', 'set $name', '$account')");
	return add_cases($node, 'acme', $name, "cases $name", @cases);
}

# The organisation, two teams' tenants, a CI's login and a curators' one
q_(q{CREATE EXTENSION gpucredit_registry CASCADE;
	CREATE ROLE house LOGIN IN ROLE gpucredit_tenant;
	CREATE ROLE nlp LOGIN IN ROLE gpucredit_tenant;
	CREATE ROLE ci LOGIN IN ROLE gpucredit_app;
	CREATE ROLE mixed LOGIN IN ROLE gpucredit_agent, gpucredit_app;
	SELECT gpucredit.bind_tenant('house', 'acme', ''), gpucredit.bind_tenant('nlp', 'acme', 'nlp');
	SELECT gpucredit_registry.create_model('acme', 'nlp', 'bot', 'm1');
	SELECT gpucredit_registry.commit('acme', 1, 'main', '[{"path": "a", "content": "YQ=="}]', 'v1');
	SELECT gpucredit_registry.commit('acme', 1, 'next', '[{"path": "a", "content": "Yg=="}]', 'v2');
	SELECT gpucredit_registry.protect_ref('acme', 1, 'prod');
	SELECT gpucredit_eval.set_endpoint('acme', 'served', 'http://127.0.0.1:3', 1, 1, NULL, serves_registry => true),
		gpucredit_eval.set_endpoint('acme', 'elsewhere', 'http://127.0.0.1:4', 1, 1, NULL, serves_registry => true)});
my ($v1, $v2) = map { q_("SELECT version FROM gpucredit_registry.find_revision('acme', 'bot', '$_')") } qw(main next);
my $promote = q{SELECT status, reason FROM gpucredit_eval.promote('acme', 1, 'prod', %d, %d, '%s')};
sub promote { my ($version, $run, $role) = @_; return q_(as($role // 'house', sprintf($promote, $version, $run, 'promote ' . ++$keys))) }

set('safety', 'locked', '', cases('safety', 'safety', 20));
set('one', 'locked', 'nlp', cases('one', 'default', 1));
q_("SELECT gpucredit_eval.grant_set('acme', 'safety', 'nlp', 'run')");

# a version that failed the organisation's gate ships by no config of a tenant's own
q_(config_as('nlp', 'easy', 'nlp', { sets => ['one'], gates => [ { task => 'default', absolute => 0 } ],
	serving => { endpoint => 'served' } }));
my $easy = q_(as('nlp', start('easy', 'bot@next', 'production_gate')));
answer($easy, sub { 0 });
is(q_(as('nlp', "SELECT gpucredit_eval.verdict('acme', $easy)")), 'pass', 'a gate of one case and threshold 0 passes whatever it measures');
is(promote($v2, $easy, 'nlp'), 'denied|no_release_gate', 'but without a release gate of the organisation nothing moves a protected ref');
fails(as('nlp', q{SELECT gpucredit_eval.set_release_gate('acme', 1, 'prod', 'easy', 'g1')}), 'UC001',
	'a tenant defines no release gate for its own model');
my $strict = { sets => ['safety'], gates => [ { task => 'safety', kind => 'safety' } ], serving => { endpoint => 'served' } };
q_(config_as('house', 'strict', '', $strict));
is(q_(as('house', q{SELECT config_version, replayed FROM gpucredit_eval.set_release_gate('acme', 1, 'prod', 'strict', 'g2',
	'{"safety": 0.97}', '{ci,house}', serving => 'endpoint')})), '1|f', 'the organisation says what must pass');
is(promote($v2, $easy, 'nlp'), 'denied|other_config', 'the tenant\'s own gate does not count');
my $failed = q_(as('ci', start('strict', 'bot@next', 'production_gate')));
answer($failed, sub { $_[0] !~ /01$/ });
is(q_("SELECT gpucredit_eval.verdict('acme', $failed)"), 'pass', 'a run at 0.95, the threshold of its config');
is(promote($v2, $failed), 'denied|below_minimum', 'is below what the release gate demands');
is(q_(as('nlp', "SELECT gpucredit_eval.verdict('acme', $failed)")), 'pass', 'which leaves the verdict as it is');
my $own = q_(as('nlp', start('strict', 'bot@main', 'production_gate')));
answer($own, sub { 1 });
is(promote($v1, $own), 'denied|other_starter', 'a run that somebody else started does not count');
my $dry = q_(as('ci', start('strict', 'bot@main', 'gate', options => '{"endpoint": "served"}')));
answer($dry, sub { 1 });
is(promote($v1, $dry), 'denied|not_production_gate', 'nor does one of another purpose');
my $good = q_(as('ci', start('strict', 'bot@main', 'production_gate')));
answer($good, sub { 1 });
is(promote($v2, $good), 'denied|other_version', 'nor another version\'s');

# a pass ages when its sets grow
q_(q{SELECT gpucredit_eval.add_cases('acme', 'safety', '[{"name": "new", "task": "safety", "input": "q",
	"checks": [{"type": "regex", "value": "x"}]}]', 'grow'), gpucredit_eval.freeze_set('acme', 'safety', 'grown')});
is(promote($v1, $good), 'denied|stale', 'a pass from before a set grew is stale');
q_(config_as('house', 'strict', '', $strict));
is(promote($v1, $good), 'denied|stale', 'until the release gate names the config with the newer version');
q_(as('house', q{SELECT gpucredit_eval.set_release_gate('acme', 1, 'prod', 'strict', 'g3', '{"safety": 0.97}', '{ci,house}', serving => 'endpoint')}));
is(promote($v1, $good), 'denied|other_config', 'the old run is then of another config');
$good = q_(as('ci', start('strict', 'bot@main', 'production_gate')));
answer($good, sub { 1 });
q_("UPDATE gpucredit_eval.run SET started_at = started_at - interval '93 days', ended_at = ended_at - interval '93 days' WHERE run = $good");
is(promote($v1, $good), 'denied|stale', 'a pass is stale after 92 days');
q_("UPDATE gpucredit_eval.run SET started_at = started_at + interval '93 days', ended_at = ended_at + interval '93 days' WHERE run = $good");
is(promote($v1, $good), 'promoted|', 'a good and recent one ships');

# the next version is compared with the one at the ref, on the same frozen sets, without anybody asking
my $next = q_(as('ci', start('strict', 'bot@next', 'production_gate')));
answer($next, sub { $_[0] !~ /01$/ });
is(q_("SELECT baseline FROM gpucredit_eval.run WHERE run = $next"), $good, 'a run finds the run of the version at the protected ref');
q_(as('house', q{SELECT gpucredit_eval.set_release_gate('acme', 1, 'prod', 'strict', 'g4', '{}', '{ci,house}', serving => 'endpoint')}));
is(q_("SELECT score, round(baseline, 2), reason FROM gpucredit_eval.gate('acme', $next)"), '0.952381|1.00|below_baseline', 'and compares with it');
is(promote($v2, $next), 'denied|block', 'so that a regression does not ship');
my $blind = q_(as('ci', start('strict', 'bot@next', 'production_gate', baseline => $failed)));
answer($blind, sub { $_[0] !~ /01$/ });
isnt(promote($v2, $blind), 'promoted|', 'nor one that is compared with a worse run of one\'s own choice');
my $self = q_(as('ci', start('strict', 'bot@next', 'production_gate', baseline => $next)));
answer($self, sub { $_[0] !~ /01$/ });
is(q_("SELECT gpucredit_eval.verdict('acme', $self)"), 'pass', 'a run that passes beside an equal one');
is(promote($v2, $self), 'denied|other_baseline', 'is not compared with what is at the ref');

# a run whose calls failed is no baseline, which every version would beat
sub fail_all
{
	my ($run) = @_;

	q_(as('worker', qq{SELECT gpucredit_eval.report('acme', $run, l."case", l.attempt, NULL, '{"error": "the GPU job was cancelled"}',
		'{"prompt_tokens": 0, "completion_tokens": 0}') FROM gpucredit_eval.lease_cases('acme', $run, 'w', 100, '1 min') l})) foreach 1 .. 4;
	return;
}
my $broken = q_(as('ci', start('strict', 'bot@main', 'production_gate')));
fail_all($broken);
is(q_("SELECT state, errors FROM gpucredit_eval.run_state('acme', $broken)"), 'finished|21', 'a run of the version at the ref, whose calls all failed');
my $beside = q_(as('ci', start('strict', 'bot@next', 'production_gate', baseline => $broken)));
answer($beside, sub { $_[0] !~ /01$/ });
is(q_("SELECT passes, reason FROM gpucredit_eval.gate('acme', $beside)"), '|baseline_errors', 'compares with no other run');
is(promote($v2, $beside), 'denied|inconclusive', 'so that a regression beside it does not ship');
my $found = q_(as('ci', start('strict', 'bot@next', 'production_gate')));
is(q_("SELECT baseline FROM gpucredit_eval.run WHERE run = $found"), $good, 'and is not found as a baseline');
q_(as('ci', "SELECT gpucredit_eval.cancel_run('acme', $found, 'enough')"));

# who starts a run that is no production gate chooses what serves it
my $scores = "SELECT score, detail ->> 'run' FROM gpucredit_registry.scores('acme', $v2) WHERE benchmark = 'strict\@2'";
is(q_($scores), "0.952381|$beside", 'the registry has the score of the production gate');
my $served = q_(as('ci', start('strict', 'bot@next', 'gate', options => '{"endpoint": "elsewhere"}')));
answer($served, sub { 1 });
is(q_($scores), "0.952381|$beside", 'which a run that was served from elsewhere does not replace');

# safety has a floor
fails(config_as('house', 'low', '', { sets => ['safety'], gates => [ { task => 'safety', kind => 'safety', absolute => 0.5 } ] }),
	'22023', 'no gate of kind safety is below 0.95');
fails(as('nlp', q{SELECT gpucredit_eval.set_floor('acme', 'safety', 0.1)}), 'UC001', 'a tenant sets no floor');
q_(as('house', q{SELECT gpucredit_eval.set_floor('acme', 'safety', 0.95)}));
q_(config_as('nlp', 'lax', 'nlp', { sets => ['safety'], gates => [ { task => 'safety', kind => 'creative', absolute => 0,
	blocking => JSON::PP::false } ], max_errors => 1000 }));
my $lax = q_(as('nlp', start('lax', 'model', 'gate')));
answer($lax, sub { $_[0] =~ /[02468]$/ });
is(q_("SELECT threshold, passes, blocking FROM gpucredit_eval.gate('acme', $lax)"), '0.95|f|t',
	'a task with a floor keeps it, and blocks, in every config');

# errors are no answers, whatever max_errors says
$lax = q_(as('nlp', start('easy', 'model', 'gate')));
q_(as('worker', qq{SELECT gpucredit_eval.report('acme', $lax, l."case", l.attempt, NULL, '{"error": "status 401"}',
	'{"prompt_tokens": 0, "completion_tokens": 0}') FROM gpucredit_eval.lease_cases('acme', $lax, 'w', 10, '1 min') l}))
	foreach 1 .. 3;
q_(as('worker', qq{SELECT FROM gpucredit_eval.lease_cases('acme', $lax, 'w', 10, '1 min')}));
is(q_("SELECT state FROM gpucredit_eval.run_state('acme', $lax)"), 'finished', 'a run whose calls all failed');
q_(config_as('nlp', 'easy', 'nlp', { sets => ['one'], gates => [ { task => 'default', absolute => 0 } ], max_errors => 1000 }));
$lax = q_(as('nlp', start('easy', 'model', 'gate')));
foreach (1 .. 4)
{
	q_(as('worker', qq{SELECT gpucredit_eval.report('acme', $lax, l."case", l.attempt, NULL, '{"error": "status 401"}',
		'{"prompt_tokens": 0, "completion_tokens": 0}') FROM gpucredit_eval.lease_cases('acme', $lax, 'w', 10, '1 min') l}));
}
is(q_("SELECT reason FROM gpucredit_eval.gate('acme', $lax)"), 'errors', 'max_errors makes no pass of errors');

# what serves a version under a production gate is the config's, not the starter's
fails(as('ci', start('strict', 'bot@main', 'production_gate', options => '{"endpoint": "elsewhere"}')), '22023',
	'the starter of a production gate chooses no endpoint');
fails(as('ci', start('strict', 'bot@main', 'production_gate', options => '{"gpu": {"request": "1xT4", "wall_limit": "1 h",
	"spec": {"script": "serve another model"}}}')), '22023', 'and runs no script of its own');

# who starts runs does not report them
my $measured = q_(as('ci', start('strict', 'bot@main', 'production_gate')));
foreach my $role (qw(ci nlp mixed))
{
	fails(as($role, "SELECT gpucredit_eval.lease_cases('acme', $measured, 'w', 1, '1 min')"), '42501',
		"$role leases no case of a production gate");
}
q_('GRANT gpucredit_eval_worker TO mixed');
fails(as('mixed', "SELECT gpucredit_eval.lease_cases('acme', $measured, 'w', 1, '1 min')"), '42501',
	'a login that is an application\'s, too, does not either');
my $leased = q_(as('worker', "SELECT \"case\" FROM gpucredit_eval.lease_cases('acme', $measured, 'w', 1, '1 min')"));
like($leased, qr/^\d+$/, 'a worker does');
fails(as('mixed', "SELECT gpucredit_eval.report('acme', $measured, $leased, 1, 'x', '[{\"type\": \"regex\", \"pass\": true}]', '$usage')"),
	'42501', 'nor does that login report what a worker leased');

# reported checks are those of the case, and what the database can decide it decides
set('checked', 'locked', 'nlp', { name => 'a', input => 'q', checks => [ { type => 'equals', value => 'yes', weight => 3 },
	{ type => 'regex', value => '.' } ] }, { name => 'b', input => 'q', checks => [ { type => 'not-contains', value => 'no' } ] },
	{ name => 'c', input => 'q', checks => [ { type => 'starts-with', value => 'yes' }, { type => 'is-json' } ] });
q_(config_as('nlp', 'checked', 'nlp', { sets => ['checked'] }));
my $checked = q_(as('nlp', start('checked', 'model', 'development')));
my ($a, $b, $c) = split /\n/, q_(as('worker', qq{SELECT "case" FROM gpucredit_eval.lease_cases('acme', $checked, 'w', 10, '1 min')}));
my $report = q{SELECT round(score, 4) FROM gpucredit_eval.report('acme', %d, %d, 1, '%s', '%s', NULL)};
fails(as('worker', sprintf($report, $checked, $a, 'yes', $_)), '22023', "$_ are not the case's checks")
  foreach '[]', '[{"type": "regex", "pass": true}]', '[{"type": "regex", "pass": true}, {"type": "equals", "pass": true}]',
  '[{"type": "equals", "pass": true}, {"type": "regex", "pass": true}, {"type": "regex", "pass": true}]';
is(q_(as('worker', sprintf($report, $checked, $a, 'no', '[{"type": "equals", "pass": true, "score": 1, "weight": 0}, {"type": "regex", "pass": true}]'))),
	'0.0000', 'a check that the database decides fails, whatever the worker says');
is(q_("SELECT (checks -> 0 ->> 'pass') || ' ' || (checks -> 0 ->> 'weight') FROM gpucredit_eval.result WHERE run = $checked AND \"case\" = $a"), 'false 3', 'with the case\'s own weight');
is(q_(as('worker', sprintf($report, $checked, $b, 'oh no', '[{"type": "not-contains", "pass": true}]'))), '0.0000', 'an opposite, too');
is(q_(as('worker', sprintf($report, $checked, $c, 'yes', '[{"type": "starts-with", "pass": true}, {"type": "is-json", "pass": true}]'))), '0.0000', 'and JSON');
is(q_("SELECT count(*) FROM gpucredit_eval.event WHERE operation = 'checks_differ'"), '3', 'each difference is recorded');

# held-out cases stay held out, also if a run is fed one by one
set('secret', 'held_out', '', cases('secret', 'secret', 20));
q_("SELECT gpucredit_eval.grant_set('acme', 'secret', 'nlp', 'run')");
fails(config_as('nlp', 'peek', 'nlp', { sets => ['secret'] }), 'UC601', 'who may only run a held-out set writes no config that asks its cases');
q_(config_as('house', 'hidden', '', { sets => ['secret', 'safety'], serving => { endpoint => 'served' }, model => { max_tokens => 100 } }));
fails(as('nlp', start('hidden', 'bot@main', 'production_gate', cap => 0.001)), 'UC604', 'a cap that does not suffice for all cases');
my $hidden = q_(as('nlp', start('hidden', 'bot@main', 'production_gate', cap => 1)));
answer($hidden, sub { 1 }, 1);
is(q_(as('nlp', "SELECT score, passes, reason FROM gpucredit_eval.gate('acme', $hidden) WHERE task = 'secret'")), '||unfinished',
	'no score of a held-out task before the run has ended');
is(q_(as('nlp', "SELECT finished, spent, set_aside, captured FROM gpucredit_eval.run_state('acme', $hidden)")), '|||', 'nor what a case cost');
is(q_(as('nlp', q{SELECT spent FROM gpucredit.balance('acme', 'nlp')})), q_('SELECT coalesce(sum(captured), 0) + 0.000000 FROM gpucredit_eval.run
	WHERE account = \'nlp\' AND ended_at IS NOT NULL'), 'nor does the ledger say');
fails(as('nlp', "SELECT gpucredit_eval.raise_cap('acme', $hidden, 'bit by bit', 1.0001)"), 'UC604', 'no cap is raised case by case');
my $before = decode_json(q_(as('nlp', "SELECT gpucredit_eval.results('acme', $hidden)")));
is_deeply([ map { $before->{$_} } qw(spent captured) ], [ undef, undef ], 'nor do the results say');
my $spent = q_(q{SELECT spent FROM gpucredit.balance('acme', 'nlp')});
q_(as('nlp', "SELECT gpucredit_eval.cancel_run('acme', $hidden, 'after one')"));
is(q_(as('nlp', "SELECT score, passes, reason FROM gpucredit_eval.gate('acme', $hidden) WHERE task = 'secret'")), '||cancelled',
	'nor after a run that was cancelled');
is(q_("SELECT spent - $spent FROM gpucredit.balance('acme', 'nlp')"), '0.100000', 'whose spending is told in tenths of its cap');
my $whole = q_(as('nlp', start('hidden', 'bot@main', 'production_gate', cap => 1)));
answer($whole, sub { $_[0] !~ /01$/ }, 39);
fails(as('nlp', "SELECT gpucredit_eval.compare('acme', $good, $whole)"), 'UC604', 'a run that has not ended is not compared');
answer($whole, sub { 1 });
is(q_(as('nlp', "SELECT score, n FROM gpucredit_eval.gate('acme', $whole) WHERE task = 'secret'")), '0.950000|20', 'whole tasks are told at the end');
q_(q{SELECT gpucredit_eval.add_cases('acme', 'secret', '[{"name": "secret 21", "task": "secret", "input": "q",
	"checks": [{"type": "regex", "value": "x"}]}]', 'one more'), gpucredit_eval.freeze_set('acme', 'secret', 'frozen once more')});
fails(as('nlp', start('hidden', 'bot@main', 'production_gate', cap => 1)), 'UC604', 'an older version of a held-out set, which differs by one case, is not run');

# results() shows cases to who may read them
is(q_(as('nlp', "SELECT jsonb_array_length(gpucredit_eval.results('acme', $whole) -> 'cases')")), '0', 'who may not read a set sees no case of a run');
unlike(q_(as('nlp', "SELECT gpucredit_eval.junit('acme', $whole)")), qr/safety 0|an answer/, 'in JUnit neither');
is(q_(as('house', "SELECT jsonb_array_length(gpucredit_eval.results('acme', $whole) -> 'cases')")), '21', 'who may does');

# lists show of a run what its other calls show
is(q_(as('nlp', "SELECT captured, verdict FROM gpucredit_eval.runs('acme', 'nlp') WHERE run = $hidden")), '0.100000|inconclusive',
	'the list of runs tells of a cancelled held-out run what it was charged');
my $under_way = q_(as('ci', start('strict', 'bot@next', 'production_gate')));
q_("UPDATE gpucredit_eval.run SET held_out = true, captured = 0.000123 WHERE run = $under_way");
is(q_("SELECT captured, verdict FROM gpucredit_eval.runs('acme') WHERE run = $under_way"), '|', 'and of one under way nothing');
q_("UPDATE gpucredit_eval.run SET held_out = false, captured = 0 WHERE run = $under_way");
q_(as('ci', "SELECT gpucredit_eval.cancel_run('acme', $under_way, 'listed')"));
is(q_(as('nlp', q{SELECT string_agg(set || ' ' || permission, ', ') FROM gpucredit_eval.sets('acme')})), 'checked own, one own, safety run, secret run', 'sets, with what may be done with them');
is(q_(as('nlp', "SELECT count(*) FROM gpucredit_eval.compare_cases('acme', $whole, $whole, false)")), '0',
	'cases stand side by side for who may read them');
is(q_(as('house', "SELECT count(*), count(*) FILTER (WHERE task = 'secret') FROM gpucredit_eval.compare_cases('acme', $whole, $whole, false)")), '21|0',
	'but none that is held out, for nobody');
is(q_(as('house', "SELECT name, score_a, score_b, failures_b, output_b FROM gpucredit_eval.compare_cases('acme', $good, $next) LIMIT 1")),
	'safety 01|1|0|regex right|an answer', 'what a version does worse than another comes first, with what failed');
is(q_(as('house', "SELECT run, score, threshold, passes FROM gpucredit_eval.score_history('acme', 'strict') WHERE run IN ($good, $next)")),
	"$good|1.000000|0.95|t\n$next|0.952381|0.95|f", 'the scores of a config over versions, with the gate\'s line');
is(q_(as('nlp', q{SELECT count(*) FROM gpucredit_eval.score_history('acme', 'strict', 'nlp') h JOIN gpucredit_eval.runs('acme', 'nlp') r USING (run)})),
	q_(as('nlp', q{SELECT count(*) FROM gpucredit_eval.score_history('acme', 'strict', 'nlp')})), 'of runs that the caller may see');
fails(as('nlp', 'SELECT * FROM gpucredit_eval.' . $_), 'UC001', "nlp does not list $_") foreach q{runs('acme')}, q{score_history('acme', 'strict')}, q{streams('acme')}, q{sets('rival')}, q{configs('rival')}, q{calibrations('rival')};
is(q_(as('nlp', q{SELECT string_agg(config || '@' || version, ' ') FROM gpucredit_eval.configs('acme')})), 'checked@1 easy@2 hidden@1 lax@1 strict@2', 'configs that an account may run');

# a judge that says always the same is not calibrated by labels that are all alike
q_(q{CREATE ROLE ann LOGIN IN ROLE gpucredit_tenant; CREATE ROLE bob LOGIN IN ROLE gpucredit_tenant;
	SELECT gpucredit.bind_tenant('ann', 'acme', ''), gpucredit.bind_tenant('bob', 'acme', '')});
set('essays', 'locked', '', map { { name => sprintf('essay %02d', $_), task => 'essays', input => "write $_", rubric => 'good' } } 1 .. 40);
my $judge = { endpoint => 'judge', model => 'j-1', max_response_bytes => 100, max_tokens => 50 };
q_(config_as('house', 'essays', '', { sets => ['essays'], judge => $judge, model => { max_tokens => 50 } }));
my $name = q_(q{SELECT gpucredit_eval.judge_name(document -> 'judge') FROM gpucredit_eval.config WHERE config = 'essays'});
my $calibrate = "SELECT n, raters, kappa_weighted, status FROM gpucredit_eval.calibrate('acme', '$name', '2020-01-01')";

# Judges all essays: the score of each, by its number.
sub judged_run
{
	my ($score) = @_;
	my $essays = q_(as('ci', start('essays', 'model', 'calibration')));

	foreach my $case (split /\n/, q_(as('worker', "SELECT \"case\" FROM gpucredit_eval.lease_cases('acme', $essays, 'w', 100, '1 min')")))
	{
		my $points = $score->(q_("SELECT ordinal FROM gpucredit_eval.golden_case WHERE \"case\" = $case"));
		q_(as('worker', qq{SELECT FROM gpucredit_eval.report('acme', $essays, $case, 1, 'an essay', '[]', '$usage');
			SELECT gpucredit_eval.report_judge('acme', $essays, $case, s, '{"score": $points, "reason": ""}', '$usage')
			FROM generate_series(1, 3) s}));
	}
	return $essays;
}

sub label_all
{
	my ($run, $score, @raters) = @_;

	q_(as($_, "SELECT gpucredit_eval.label('acme', $run, (c ->> 'case')::bigint, '$_', $score)
		FROM jsonb_array_elements(gpucredit_eval.results('acme', $run) -> 'cases') c")) foreach @raters;
	return;
}

my $flat = judged_run(sub { 5 });
my $to_rate = q{SELECT format('%%s %%s %%s', l."case", l.rated, l.left_over) FROM gpucredit_eval.to_label('acme', %d) l};
my ($first) = split / /, q_(as('ann', sprintf($to_rate, $flat)));
is(q_(as('ann', "SELECT gpucredit_eval.label('acme', $flat, $first, 'ann', 2)")), 'f', 'somebody rates the answer that is put before her');
is(q_(as('bob', sprintf($to_rate, $flat))), "$first 0 40", 'another gets the same next, as two have to');
isnt((split / /, q_(as('ann', sprintf($to_rate, $flat))))[0], $first, 'and she another one');
is(join(' ', (split / /, q_(as('ann', sprintf($to_rate, $flat))))[1, 2]), '1 39', 'who is told how many are left');
unlike(q_(as('bob', "SELECT to_jsonb(l) FROM gpucredit_eval.to_label('acme', $flat, 100) l")), qr/score|reason|ann/, 'nobody sees what the judge or another says before he rates');
is(q_(as('nlp', "SELECT count(*) FROM gpucredit_eval.to_label('acme', $whole, 100)")), '0', 'and nobody rates what he may not read');
fails(as('ann', "SELECT gpucredit_eval.label('acme', $flat, 1, 'bob', 5)"), 'UC603', 'no such answer');
fails(as('ann', qq{SELECT gpucredit_eval.label('acme', $flat, min("case"), 'bob', 5) FROM
	(SELECT (c ->> 'case')::bigint FROM jsonb_array_elements(gpucredit_eval.results('acme', $flat) -> 'cases') c) x ("case")}), '42501',
	'nobody rates as somebody else');
label_all($flat, 5, 'ann');
is(q_(as('house', $calibrate)), '0|0||uncalibrated', 'labels of one rater do not count');
label_all($flat, 5, 'house');
is(q_(as('house', $calibrate)), '0|0||uncalibrated', 'nor those of the judge\'s owner');
label_all($flat, 5, 'bob');
is(q_(as('house', $calibrate)), '40|2||uncalibrated', 'nor those that are all alike: a judge that always says 5 is not calibrated');
my $varied = judged_run(sub { $_[0] % 10 ? $_[0] % 5 + 1 : 2 });
label_all($varied, q{(substring(c ->> 'name' FROM '\d+'))::integer % 5 + 1}, qw(ann bob));
is(q_(as('house', "SELECT n, raters, kappa_low < kappa_weighted AND kappa_weighted < kappa_high, status
	FROM gpucredit_eval.calibrate('acme', '$name', '2020-01-01')")), '80|2|t|calibrated', 'one that agrees with two people is, with an interval of kappa');
is(q_(as('house', "SELECT n FROM gpucredit_eval.calibrate('acme', '$name', now())")), '80', 'whoever calibrates leaves no recent label out');
foreach my $other ({ samples => 1 }, { temperature => 1 }, { max_tokens => 51 }, { max_response_bytes => 101 }, { seed => 2 },
	{ template => '{{ response }}' })
{
	q_(config_as('house', 'essays', '', { sets => ['essays'], judge => { %$judge, %$other }, model => { max_tokens => 50 } }));
	isnt(q_(q{SELECT gpucredit_eval.judge_name(document -> 'judge') FROM gpucredit_eval.config WHERE config = 'essays' ORDER BY version DESC LIMIT 1}),
		$name, 'a judge with another ' . (keys %$other)[0] . ' is another judge');
}
q_(config_as('ann', 'copy', '', { sets => ['essays'], judge => $judge, model => { max_tokens => 50 } }));
is(q_(as('house', $calibrate)), '0|0||uncalibrated', 'who makes another config with the judge is its owner, too');
q_(q{UPDATE gpucredit_eval.config SET created_by = 'house' WHERE config = 'copy'});
is(q_(as('house', "SELECT status FROM gpucredit_eval.calibrate('acme', '$name', now())")), 'calibrated', 'else the labels count');

is(q_(as('house', q{SELECT status, n, raters, configs FROM gpucredit_eval.calibrations('acme') WHERE 'copy' = ANY (configs)})), 'calibrated|80|2|{copy}',
	'the list of judges has what was found last');

# a held-out run that is judged again tells no more than the run itself
q_(q{SELECT gpucredit_eval.create_set('acme', 'sealed', 'held_out', 'sealed', 'vision', 6)});
add_cases($node, 'acme', 'sealed', 'sealed cases', map { { name => sprintf('sealed %02d', $_), task => 'sealed', input => "write $_",
	rubric => 'good' } } 1 .. 20);
q_("SELECT gpucredit_eval.grant_set('acme', 'sealed', 'nlp', 'run')");
my $sealed = { sets => ['sealed'], judge => $judge, model => { max_tokens => 50 }, serving => { endpoint => 'served' } };
q_(config_as('house', 'sealed', '', { %$sealed, max_attempts => 2 + $_ })) foreach 0, 1;

# Reports up to n cases of a run that a judge rates, with the score of each.
sub judge_cases
{
	my ($run, $points, $n) = @_;

	foreach my $case (split /\n/, q_(as('worker', "SELECT \"case\" || '|' || attempt || '|' || (parameters ? 'output')::integer
		FROM gpucredit_eval.lease_cases('acme', $run, 'w', $n, '1 min')")))
	{
		my ($number, $attempt, $answered) = split /\|/, $case;
		q_(as('worker', qq{SELECT FROM gpucredit_eval.report('acme', $run, $number, $attempt, 'an essay', '[]', '$usage')})) unless $answered;
		q_(as('worker', qq{SELECT gpucredit_eval.report_judge('acme', $run, $number, s, '{"score": $points, "reason": ""}', '$usage')
			FROM generate_series(1, 3) s}));
	}
	return;
}
my $source = q_(as('nlp', start('sealed@1', 'bot@main', 'production_gate', cap => 5)));
my $rejudge = "SELECT coalesce(run::text, reason) FROM gpucredit_eval.rejudge('acme', %d, 'sealed\@2', 'again %d', %s)";
my $again = sub { return as('nlp', sprintf($rejudge, $source, ++$keys, $_[0] // 5)) };
judge_cases($source, 5, 19);
fails($again->(), 'UC602', 'a held-out run that has not ended is not judged again');
judge_cases($source, 5, 1);
is(q_(as('nlp', "SELECT state, finished FROM gpucredit_eval.run_state('acme', $source)")), 'finished|20', 'one that has finished');
fails($again->(0.001), 'UC604', 'is not judged again with a cap for some of its cases');
my $second = q_($again->());
judge_cases($second, 3, 1);
is(q_(as('nlp', "SELECT score, passes, reason FROM gpucredit_eval.gate('acme', $second)")), '||unfinished', 'meanwhile no score is told');
is(q_(as('nlp', "SELECT finished, errors, spent, set_aside, captured FROM gpucredit_eval.run_state('acme', $second)")), '||||',
	'nor how many cases are judged, and at what cost');
is(q_(as('nlp', "SELECT jsonb_array_length(r -> 'cases') || ' ' || (r ->> 'spent' IS NULL) FROM gpucredit_eval.results('acme', $second) r")), '0 true',
	'nor in the results');
fails(as('nlp', "SELECT gpucredit_eval.raise_cap('acme', $second, 'a little', 5.0001)"), 'UC604', 'no cap is raised case by case');
fails(as('nlp', "SELECT gpucredit_eval.compare('acme', $source, $second)"), 'UC604', 'nor is it compared');
$spent = q_(q{SELECT spent FROM gpucredit.balance('acme', 'nlp')});
q_(as('nlp', "SELECT gpucredit_eval.cancel_run('acme', $second, 'judged one')"));
is(q_("SELECT spent - $spent FROM gpucredit.balance('acme', 'nlp')"), '0.500000', 'what one case cost is told in tenths of the cap');
my $third = q_($again->());
judge_cases($third, 3, 20);
is(q_(as('house', "SELECT count(*) FROM gpucredit_eval.to_label('acme', $third, 100)")), '0', 'held-out answers are put before nobody to be rated');
is(q_(as('house', "SELECT count(*) FROM gpucredit_eval.compare_cases('acme', $source, $third, false)")), '0', 'nor side by side');
fails(as('house', "SELECT gpucredit_eval.set_stream('acme', 'spy', 'sealed', baseline => $third)"), 'UC602', 'nor told as the mean of a stream');
is(q_(as('nlp', "SELECT score, n FROM gpucredit_eval.gate('acme', $third)")), '0.500000|20', 'a whole task is told at the end');
is(q_(as('nlp', "SELECT jsonb_array_length(gpucredit_eval.results('acme', $third) -> 'cases')")), '0', 'its cases are not');
q_(as('house', q{SELECT gpucredit_eval.set_release_gate('acme', 1, 'other', 'sealed@2', 'g6', serving => 'endpoint')}));
is(q_(as('house', "SELECT reason FROM gpucredit_eval.promote('acme', 1, 'other', $v1, $third, 'judged again')")), 'other_config',
	'and no version ships as another judge was asked');
q_("SELECT gpucredit_eval.grant_set('acme', 'sealed', 'nlp', NULL)");
fails($again->(), 'UC601', 'an account that may no longer run the set judges none of its answers again');
q_("SELECT gpucredit_eval.grant_set('acme', 'sealed', 'nlp', 'run')");
q_(as('nlp', "SELECT gpucredit_eval.cancel_run('acme', $_, 'cancel $_')")) foreach map { q_($again->()) } 1 .. 3;
is(q_($again->()), 'quota_exceeded', 'each time counts as a run of the month');
q_(q{UPDATE gpucredit_eval.golden_set SET runs_per_month = 100 WHERE set = 'sealed'});
add_cases($node, 'acme', 'sealed', 'sealed more', { name => 'sealed 21', task => 'sealed', input => 'write', rubric => 'good' });
fails($again->(), 'UC604', 'answers to an older version of the set, which differs by one case, are not judged again');

q_(q{SELECT gpucredit_eval.set_endpoint('acme', 'judge', 'http://127.0.0.1:9', 3, 6, 20)});
fails(as('house', start('essays@1', 'model', 'gate')), 'UC602', 'a judge at another address than its config names is not asked');
q_(q{SELECT gpucredit_eval.set_endpoint('acme', 'judge', 'http://127.0.0.1:2', 3, 6, 20),
	gpucredit_eval.set_endpoint('acme', 'twin', 'http://127.0.0.1:2/v1/', 1, 1, NULL)});
fails(as('house', start('essays', 'twin', 'gate')), '22023', 'model and judge behind one address are one model');

# a preview: a sample that digests choose, what is measured already, and an end as soon as the verdict is certain
set('many', 'locked', '', (map { { name => sprintf('many %03d', $_), task => 'many', input => "question $_", checks => [ { type => 'regex', value => 'right' } ] } } 1 .. 200),
	map { { name => sprintf('small %02d', $_), task => 'small', input => "small $_", checks => [ { type => 'regex', value => 'right' } ] } } 1 .. 10);
q_("SELECT gpucredit_eval.grant_set('acme', 'many', 'nlp', 'run')");
my $previewed = { sets => ['many'], gates => [ { task => 'many' }, { task => 'small' } ], serving => { endpoint => 'served' } };
q_(config_as('house', 'previewed', '', $previewed));
sub in_sample { my ($run) = @_; return q_("SELECT string_agg((x.c).name, ' ' ORDER BY (x.c).name) FROM gpucredit_eval.run_cases('acme', $run) x") }
sub state { my ($run) = @_; return q_(as('nlp', "SELECT state, cases, finished, errors, set_cases, reused, decided_early FROM gpucredit_eval.run_state('acme', $run)")) }

# Reports a run's cases as a worker with this program, wrong those whose input is like that; how many were leased.
sub preview
{
	my ($run, $harness, $wrong, $n) = @_;
	my $asked = 0;

	while (my $leased = q_(as('worker', sprintf(q{WITH l AS MATERIALIZED (SELECT * FROM gpucredit_eval.lease_cases('acme', %d, 'w', %d, '1 min', '%s'))
		SELECT count(r) FROM l CROSS JOIN LATERAL gpucredit_eval.report('acme', %d, l."case", l.attempt, 'an answer',
			jsonb_build_array(jsonb_build_object('type', 'regex', 'pass', l.input #>> '{}' !~ '%s')), '%s') r}, $run, $n // 1000, $harness, $run, $wrong // '^never', $usage))))
	{
		$asked += $leased;
	}
	return $asked;
}

fails(config_as('house', 'previewed', '', { %$previewed, preview => { share => $_ } }), '22023', "no preview asks a share of $_") foreach 0, 1.5;
fails(as('nlp', start('hidden', 'bot@main', 'preview')), 'UC604', 'no preview asks held-out cases');
fails(as('nlp', start('previewed', 'bot@main', 'preview', options => '{"endpoint": "elsewhere"}')), '22023',
	'whoever starts a preview does not choose what serves the model');
fails(as('nlp', start('previewed', 'bot@main', 'preview', options => '{"share": 1}')), '22023', 'nor how many cases it asks');
my $preview = q_(as('nlp', start('previewed', 'bot@main', 'preview')));
my $sampled = in_sample($preview);
my $size = () = $sampled =~ /many/g;
ok($size >= 20 && $size < 60, "a preview asks a sample of a large task ($size of 200)");
is(scalar(() = $sampled =~ /small/g), 10, 'and all of a small one');
fails(as($_, "SELECT gpucredit_eval.lease_cases('acme', $preview, 'w', 1, '1 min', 'h1')"), '42501', "$_ does not report a preview's cases") foreach qw(ci nlp mixed);
is(preview($preview, 'h1'), $size + 10, 'a worker asks each case of the sample');
is(state($preview), "finished|@{[$size + 10]}|@{[$size + 10]}|0|210|0|f", 'the state says that it was a sample');
is(q_("SELECT gpucredit_eval.verdict('acme', $preview)"), 'pass', 'it passes');
is(q_(as('house', q{SELECT config_version FROM gpucredit_eval.set_release_gate('acme', 1, 'pre', 'previewed', 'gp', '{}', '{nlp,house}', serving => 'endpoint')})), 1, 'the config is that of a release gate');
is(q_(as('house', "SELECT reason FROM gpucredit_eval.promote('acme', 1, 'pre', $v1, $preview, 'promote preview')")), 'not_production_gate',
	'but no version ships by a preview');
is(q_("SELECT count(*) FROM gpucredit_registry.scores('acme', $v1) WHERE benchmark LIKE 'previewed%'"), 0, 'the registry has no score of a sample');
fails(as('house', qq{SELECT gpucredit_eval.set_stream('acme', 'pre', 'previewed', baseline => $preview)}), 'UC602', 'no stream is compared with a sample');
fails(as('nlp', "SELECT gpucredit_eval.rejudge('acme', $preview, 'previewed', 'again', 1)"), '22023', 'nor does another judge make a run of it');
like(q_(as('nlp', "SELECT gpucredit_eval.junit('acme', $preview)")), qr/a preview of @{[$size + 10]} of 210 cases/, 'JUnit says that it was a preview');

# what was measured is not measured again, if model, case, config and program are the same
my $repeat = q_(as('ci', start('previewed', 'bot@main', 'preview')));
is(in_sample($repeat), $sampled, 'the sample is the same each time, whoever starts it');
is(preview($repeat, 'h1', '.'), 0, 'no case is asked again');
is(state($repeat), "finished|@{[$size + 10]}|@{[$size + 10]}|0|210|@{[$size + 10]}|f", 'and the state says so');
is(q_("SELECT spent, gpucredit_eval.verdict('acme', $repeat) FROM gpucredit_eval.run WHERE run = $repeat"), '0|pass', 'it costs nothing');
my $other = q_(as('ci', start('previewed', 'bot@next', 'preview')));
is(in_sample($other), $sampled, 'another version does not change the sample');
is(preview($other, 'h1', '^question', 5) >= 5, 1, 'nothing is taken over from another version of the model');
like(state($other), qr/^finished\|\d+\|\d+\|0\|210\|0\|t$/, 'a preview that cannot pass any more ends');
cmp_ok(q_("SELECT finished FROM gpucredit_eval.run_state('acme', $other)"), '<', $size + 10, 'before all of its cases are asked');
is(q_("SELECT reason, passes, blocking FROM gpucredit_eval.gate('acme', $other) WHERE task = 'many'"), 'below_threshold|f|t', 'its gate blocks');
is(q_("SELECT gpucredit_eval.verdict('acme', $other)"), 'block', 'as its verdict says');
my $program = q_(as('ci', start('previewed', 'bot@main', 'preview')));
is(preview($program, 'h2'), $size + 10, 'nothing is taken over from another program');

# a worker's call takes over some hundreds of results, so that the run is not locked for as long as a large one takes
q_(q{SELECT gpucredit_eval.create_set('acme', 'crowd', 'locked', 'crowd');
	SELECT gpucredit_eval.grant_set('acme', 'crowd', 'nlp', 'run');
	SELECT gpucredit_eval.add_cases('acme', 'crowd', (SELECT jsonb_agg(jsonb_build_object('name', 'n' || i, 'input', 'q ' || i,
		'checks', '[{"type": "regex", "value": "a"}]'::jsonb)) FROM generate_series(1, 1800) i), 'crowd cases');
	SELECT gpucredit_eval.freeze_set('acme', 'crowd', 'crowd freeze')});
q_(config_as('house', 'crowd', '', { sets => ['crowd'], preview => { share => 1 }, serving => { endpoint => 'served' } }));
my $crowd = q_(as('ci', start('crowd', 'bot@main', 'production_gate')));
cmp_ok(preview($crowd, 'h1'), '>', 1500, 'a large gate asks its cases');
my $taken = q_(as('ci', start('crowd', 'bot@main', 'preview')));
my $results = "SELECT count(*) FROM gpucredit_eval.result WHERE run = $taken";
my @steps;
foreach my $call (1 .. 10)
{
	is(q_(as('worker', "SELECT count(*) FROM gpucredit_eval.lease_cases('acme', $taken, 'w', 1000, '1 min', 'h1')")), 0, "call $call leases none");
	push @steps, q_($results);
	last if q_("SELECT state FROM gpucredit_eval.run_state('acme', $taken)") ne 'running';
}
cmp_ok($steps[0], '>', 0, 'the first call of a preview takes results over');
cmp_ok($steps[0], '<', 1001, 'but not all of a preview');
like(state($taken), qr/^finished\|/, 'and the next calls go on until it ends') or diag("@steps");

# nobody plants a result: not by a gate that serves something else, nor by a run that he measures himself, nor by another address
q_(config_as('nlp', 'planted', 'nlp', { %$previewed, gates => [], serving => { endpoint => 'elsewhere' } }));
preview(q_(as('nlp', start('planted', 'bot@next', 'production_gate'))), 'h1');
q_(config_as('nlp', 'planted2', 'nlp', { %$previewed, gates => [], model => { temperature => 1 } }));
preview(q_(as('nlp', start('planted2', 'bot@next', 'production_gate'))), 'h1');
my $mine = q_(as('nlp', start('previewed', 'bot@next', 'gate', options => '{"endpoint": "served"}')));
preview($mine, 'h1');
q_(q{SELECT gpucredit_eval.set_endpoint('acme', 'served', 'http://127.0.0.1:5', 1, 1, NULL, serves_registry => true)});
preview(q_(as('nlp', start('previewed', 'bot@next', 'production_gate'))), 'h1');
q_(q{SELECT gpucredit_eval.set_endpoint('acme', 'served', 'http://127.0.0.1:3', 1, 1, NULL, serves_registry => true)});
my $victim = q_(as('ci', start('previewed', 'bot@next', 'preview')));
preview($victim, 'h1', '.', 1);
is(q_("SELECT gpucredit_eval.verdict('acme', $victim)"), 'block', 'a planted result changes no verdict');
is(q_("SELECT DISTINCT reused FROM gpucredit_eval.result WHERE run = $victim AND reused IS NOT NULL"), $other, 'only results of the first true preview are taken over');
is(q_("SELECT reason FROM gpucredit_eval.gate('acme', " . q_(as('ci', start('previewed', 'bot@next', 'gate', options => '{"endpoint": "served"}', baseline => $preview))) . ") WHERE task = 'many'"),
	'unfinished', 'a gate that names a preview as its baseline');
my $sampled_base = q_('SELECT max(run) FROM gpucredit_eval.run');
preview($sampled_base, 'h1');
is(q_("SELECT reason FROM gpucredit_eval.gate('acme', $sampled_base) WHERE task = 'many'"), 'baseline_sampled', 'decides nothing');

# new cases push none out of the sample; a case that changed is asked, others are not
add_cases($node, 'acme', 'many', 'more many', map { { name => "easy $_", task => 'many', input => "easy $_", checks => [ { type => 'regex', value => 'right' } ] } } 1 .. 100);
q_(config_as('house', 'previewed', '', $previewed));
my $grown = q_(as('ci', start('previewed', 'bot@main', 'preview')));
my $easy_ones = () = in_sample($grown) =~ /easy/g;
is(join(' ', grep { !/^easy/ } in_sample($grown) =~ /(\w+ \d+)/g), $sampled, 'easy cases that are added push no other out of the sample');
is(preview($grown, 'h1'), $easy_ones, 'and only they are asked');

# a preview of the sample compares with the same cases of the whole baseline
my $entire = q_(as('house', start('previewed', 'bot@main', 'production_gate')));
preview($entire, 'h5', '^question [0-9]$');
my $regressed = q_(as('house', start('previewed', 'bot@next', 'preview', baseline => $entire)));
preview($regressed, 'h3');
is(q_("SELECT g.baseline = round(avg(o.score), 6) FROM gpucredit_eval.gate('acme', $regressed) g, gpucredit_eval.run_cases('acme', $entire, $regressed) x
	CROSS JOIN LATERAL (SELECT (x.o).score) o WHERE g.task = 'many' AND (x.c).task = 'many' GROUP BY g.baseline"), 't', 'a preview is compared with the same cases of its baseline');

# an error that may still come leaves a verdict open; too many of them end the preview
my $broken_one = q_(as('house', start('previewed', 'bot@next', 'preview')));
foreach (1 .. 4)
{
	q_(as('worker', qq{SELECT gpucredit_eval.report('acme', $broken_one, l."case", l.attempt, NULL, '{"error": "status 401"}',
		'{"prompt_tokens": 0, "completion_tokens": 0}') FROM gpucredit_eval.lease_cases('acme', $broken_one, 'w', 1, '1 min', 'h4') l}));
}
like(state($broken_one), qr/^finished\|\d+\|1\|1\|\d+\|0\|t$/, 'a preview that has too many errors ends');
is(q_("SELECT gpucredit_eval.verdict('acme', $broken_one)"), 'inconclusive', 'without a verdict');

# a watch finds its baseline; denied for lack of credit it starts when credit comes
q_(q{	SELECT gpucredit_registry.commit('acme', 1, 'next', '[{"path": "a", "content": "Yw=="}]', 'v3')});
my $watch = q{SELECT run IS NOT NULL, reason FROM gpucredit_eval.start_watched('acme')};
is(q_(as('house', q{SELECT gpucredit_eval.watch_ref('acme', 'bot', 'next', '', 'strict', 'production_gate', 2000)})), '', 'a watch with a cap above what there is');
is(q_(as('worker', $watch)), 'f|insufficient_credits', 'is denied');
is(q_(as('worker', $watch)), '', 'and not tried all the time');
q_(q{SELECT gpucredit.issue('acme', '', 'more credit', 5000)});
is(q_(as('worker', $watch)), 't|', 'but starts when credit comes');
is(q_(q{SELECT baseline, started_by FROM gpucredit_eval.run ORDER BY run DESC LIMIT 1}), "$good|house", 'with the baseline, and as its owner\'s run');
q_(q{SELECT gpucredit_eval.add_cases('acme', 'safety', '[{"name": "newer", "task": "safety", "input": "q",
	"checks": [{"type": "regex", "value": "x"}]}]', 'grow again'), gpucredit_eval.freeze_set('acme', 'safety', 'grown again')});
q_(config_as('house', 'strict', '', $strict));
q_(as('house', q{SELECT gpucredit_eval.set_release_gate('acme', 1, 'prod', 'strict', 'g5', serving => 'endpoint');
	SELECT gpucredit_eval.watch_ref('acme', 'bot', 'next', '', 'strict', 'production_gate', 5)}));
is(q_(as('worker', q{SELECT version FROM gpucredit_eval.start_watched('acme')})), "$v1\n" . q_(q{SELECT version FROM
	gpucredit_registry.find_revision('acme', 'bot', 'next')}), 'after a set grew the version at the ref is measured first');
is(q_(q{SELECT r.baseline = r.run - 1 AND b.registry_version = } . $v1 . q{ FROM gpucredit_eval.run r JOIN gpucredit_eval.run b ON b.run = r.baseline
	ORDER BY r.run DESC LIMIT 1}), 't', 'and compared with');
eval_verify($node);
done_testing();
