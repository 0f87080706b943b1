# rights.pl: roles, tenants, grants on sets, and forbidden calls
#
# Packages: libcurl4-openssl-dev libmicrohttpd-dev libssl-dev libjansson-dev libpq-dev
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/lib";
use GpuCreditEval;
use GpuCredit;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = eval_node('rights');

sub q_ { return query($node, 'eval', $_[0]) }
sub fails { return query_fails($node, 'eval', @_) }
sub as { return "SET ROLE $_[0]; $_[1]" }

q_(q{CREATE ROLE nlp LOGIN IN ROLE gpucredit_tenant;
	CREATE ROLE ann LOGIN IN ROLE gpucredit_tenant;
	CREATE ROLE seer LOGIN IN ROLE gpucredit_tenant;
	CREATE ROLE rival LOGIN IN ROLE gpucredit_tenant;
	CREATE ROLE web LOGIN IN ROLE gpucredit_app;
	CREATE ROLE ops LOGIN IN ROLE gpucredit_operator;
	CREATE ROLE audit LOGIN IN ROLE gpucredit_auditor;
	CREATE ROLE node LOGIN IN ROLE gpucredit_agent;
	CREATE ROLE stranger LOGIN;
	SELECT gpucredit.bind_tenant('nlp', 'acme', 'nlp'), gpucredit.bind_tenant('ann', 'acme', 'nlp/ann'),
		gpucredit.bind_tenant('seer', 'acme', 'vision'), gpucredit.bind_tenant('rival', 'rival')});
q_(as('nlp', q{SELECT gpucredit_eval.create_set('acme', 'ours', 'locked', 'k1', 'nlp')}));
q_(as('nlp', q{SELECT gpucredit_eval.add_cases('acme', 'ours',
	'[{"name": "a", "input": "q", "expected": "e", "checks": [{"type": "equals"}]}]', 'k2');
	SELECT gpucredit_eval.freeze_set('acme', 'ours', 'k3');
	SELECT gpucredit_eval.set_config('acme', 'ours', '{"sets": ["ours"]}', 'k4', 'nlp')}));

# a tenant runs what is its account's, or above
my $start = q{SELECT status FROM gpucredit_eval.start_run('%s', '%s', '%s', 'ours', 'model', 'development', 1)};
q_(as('nlp', q{SELECT gpucredit_eval.set_stream('acme', 's', 'ours', 1, 0.5, 0.1, keep => '1 day');
	SELECT gpucredit_eval.add_feedback('acme', 's', 'r', 0, 'bad', false, '"secret"')}));
q_(as('nlp', qq{SELECT gpucredit_eval.observe('acme', 's', 'bad $_', 0)})) foreach 1 .. 3;
is(q_(q{SELECT gpucredit_internal.number_events(1000);
	SELECT kind, account FROM gpucredit.events(0, 1000, 'acme') WHERE kind LIKE 'eval%'}) =~ s/^\d+\n//r,
	'eval_stream.drifted|nlp', 'the feed has its drift as an event of its account');
is(q_(as('nlp', q{SELECT input FROM gpucredit_eval.kept_answers('acme', 's')})), '"secret"', 'its owner sees what production was asked');
is(q_(as('ann', sprintf($start, 'acme', 'nlp/ann', 'r1'))), 'granted', 'a user runs its team\'s set');
fails(as('ann', sprintf($start, 'acme', 'nlp', 'r2')), 'UC001', 'but not on the team\'s credit');
fails(as('ann', q{SELECT gpucredit_eval.cases('acme', 'ours')}), 'UC601', 'nor sees its cases');
fails(as('ann', q{SELECT gpucredit_eval.freeze_set('acme', 'ours', 'k5')}), 'UC601', 'nor freezes it');
fails(as('seer', sprintf($start, 'acme', 'vision', 'r3')), 'UC601', 'another team does not run it');
fails(as('rival', sprintf($start, 'acme', 'nlp', 'r4')), 'UC001', 'another organisation does not');
fails(as('rival', sprintf($start, 'rival', '', 'r4')), 'UC601', 'by its own name neither');
fails(as('rival', q{SELECT gpucredit_eval.run_state('acme', 1)}), 'UC601', 'nor sees a run');
fails(as('seer', "SELECT gpucredit_eval.$_"), 'UC601', "another team may not call $_")
  foreach q{run_state('acme', 1)}, q{gate('acme', 1)}, q{verdict('acme', 1)}, q{results('acme', 1)}, q{junit('acme', 1)},
  q{compare('acme', 1, 1)}, q{overruns('acme', 1)}, q{cancel_run('acme', 1, 'x')}, q{raise_cap('acme', 1, 'x', 2)},
  q{rejudge('acme', 1, 'ours', 'x', 1)}, q{label('acme', 1, 1, 'x', 1)}, q{promote('acme', 1, 'prod', 1, 1, 'x')},
  q{set_rate('acme', 's', 'refusal')}, q{start_observation('acme', 's', 'r', '1', '', 'x')}, q{add_feedback('acme', 's', 'r', 1)},
  q{kept_answers('acme', 's')}, q{add_case_from('acme', 's', 'r', 'ours', 'x')}, q{stream_state('acme', 's')},
  q{observations('acme', 's')}, q{to_label('acme', 1)}, q{compare_cases('acme', 1, 1)},
  q{add_cases('acme', 'ours', '[]', 'x')}, q{retire_cases('acme', 'ours', '{}', 'x')},
  q{grant_set('acme', 'ours', 'vision', 'curate')}, q{watch_ref('acme', 'm', 'main', 'vision', 'ours')}, q{set_stream('acme', 's', 'ours', 1, 0.5, 0.1)};
is(q_(as('nlp', q{SELECT verdict FROM gpucredit_eval.verdict('acme', 1)})), 'inconclusive', 'the team sees its user\'s run');

# grants
q_(as('nlp', q{SELECT gpucredit_eval.grant_set('acme', 'ours', 'vision', 'read')}));
is(q_(as('seer', q{SELECT name FROM gpucredit_eval.cases('acme', 'ours')})), 'a', 'who may read sees the cases');
fails(as('seer', q{SELECT gpucredit_eval.add_cases('acme', 'ours', '[]', 'x')}), 'UC601', 'but adds none');
q_(as('nlp', q{SELECT gpucredit_eval.grant_set('acme', 'ours', 'vision', 'curate')}));
is(q_(as('seer', q{SELECT added FROM gpucredit_eval.add_cases('acme', 'ours', '[{"name": "b", "input": "q", "rubric": "r"}]', 'x')})),
	'1', 'a curator does');
fails(as('seer', q{SELECT gpucredit_eval.grant_set('acme', 'ours', 'vision', 'curate')}), 'UC601', 'but gives no grants');
q_(as('nlp', q{SELECT gpucredit_eval.grant_set('acme', 'ours', 'vision', NULL)}));
fails(as('seer', q{SELECT gpucredit_eval.cases('acme', 'ours')}), 'UC601', 'until it is taken back');
fails(as('nlp', q{SELECT gpucredit_eval.grant_set('acme', 'ours', 'none', 'run')}), '22023', 'no such account');
fails(as('nlp', q{SELECT gpucredit_eval.grant_set('acme', 'ours', 'vision', 'own')}), '22023', 'no such permission');

# held-out cases: curators and agents alone
q_(q{SELECT gpucredit_eval.create_set('acme', 'hidden', 'held_out', 'h1', 'nlp');
	SELECT gpucredit_eval.add_cases('acme', 'hidden', '[{"name": "a", "input": "hush", "rubric": "r"}]', 'h2');
	SELECT gpucredit_eval.freeze_set('acme', 'hidden', 'h3');
	SELECT gpucredit_eval.grant_set('acme', 'hidden', 'vision', 'read')});
is(q_(as('nlp', q{SELECT input FROM gpucredit_eval.cases('acme', 'hidden')})), '"hush"', 'its owner sees them');
fails(as('seer', q{SELECT gpucredit_eval.cases('acme', 'hidden')}), 'UC601', 'a reader does not');
fails(as('web', q{SELECT gpucredit_eval.cases('acme', 'hidden')}), 'UC604', 'nor does an application');

# roles
my %calls = (
	"lease_cases('acme', 1, 'w', 1, '1 min')"       => 'worker',
	"run_spec('acme', 1)"                           => 'worker',
	qq{report('acme', 1, 1, 1, '', '[{"type": "equals", "pass": false}]', NULL)} => 'worker',
	"report_judge('acme', 1, 1, 1, '', NULL)"       => 'worker',
	"pace('acme', 'model')"                         => 'worker',
	"start_watched('acme')"                         => 'worker',
	"open_runs('acme')"                             => 'worker',
	"finish_observation('acme', 's', 'r', NULL, NULL)" => 'worker',
	"set_endpoint('acme', 'x', 'http://x', 1, 1, 1)" => 'ops',
	"set_release_gate('acme', 1, 'prod', 'ours', 'x')" => 'nlp ann',
	"set_floor('acme', 'task', 1)"                  => 'nlp ann',
	"overruns('acme', 1)"                           => 'web audit nlp ann',
	"release_gates('acme')"                         => 'web audit nlp ann',
	"upkeep('acme')"                                => 'ops worker',
	"kept_answers('acme', 's')"                     => 'web nlp ann',
	"add_feedback('acme', 's', 'r', 1)"             => 'web nlp ann',
	"add_case_from('acme', 's', 'r', 'ours', 'x')"  => 'web nlp ann',
	"set_rate('acme', 's', 'refusal')"              => 'web nlp ann',
	"to_label('acme', 1)"                           => 'web nlp ann',
	(map { ("$_" => 'web audit nlp ann') } "sets('acme')", "configs('acme')", "runs('acme')", "score_history('acme', 'c')",
		"compare_cases('acme', 1, 1)", "calibrations('acme')", "streams('acme')", "observations('acme', 's')"),
	"verify()"                                      => 'ops audit',
	"gate('acme', 1)"                               => 'web audit nlp ann',
	"run_state('acme', 1)"                          => 'web audit nlp ann worker',
	"create_set('acme', 'n', 'live', 'n', 'nlp')"   => 'web nlp');
foreach my $call (sort keys %calls)
{
	foreach my $role (qw(web ops audit worker node nlp ann stranger))
	{
		my $may = grep { $_ eq $role } split / /, $calls{$call};
		my $state = sqlstate_of($node, 'eval', as($role, "SELECT gpucredit_eval.$call"));

		next if $call =~ /create_set/ && $role eq 'ann';		# may call it, but not for this account
		is($state eq '42501' ? 'no' : 'yes', $may ? 'yes' : 'no', "$role: " . ($may ? '' : 'not ') . $call);
	}
}
fails(as($_, 'SELECT FROM gpucredit_eval.golden_case'), '42501', "$_ reads no table") foreach qw(web worker nlp ops stranger);
fails(as('stranger', 'SELECT gpucredit_eval.parse_verdict($$x$$)'), '42501', 'a stranger calls nothing');

# a tenant that uses the keys under which the harness will settle its run pays all the same
my $before = q_(q{SELECT spent FROM gpucredit.balance('acme', 'nlp/ann')});
is(q_(as('ann', sprintf($start, 'acme', 'nlp/ann', 'r5'))), 'granted', 'a user runs its team\'s set again');
my ($run, $hold) = split /\|/, q_(q{SELECT run, hold FROM gpucredit_eval.run WHERE org = 'acme' ORDER BY run DESC LIMIT 1});
my $costs = q_(as('worker', qq{SELECT round(max_cost, 6) FROM gpucredit_eval.lease_cases('acme', $run, 'w', 1, '1 min')}));
cmp_ok($costs, '>', 0, 'a worker has its case');
is(q_(as('ann', qq{SELECT status FROM gpucredit.hold('acme', 'nlp/ann', '$_', 0.5, '1 hour')})), 'granted', "the user takes the key $_")
  foreach "eval/run/$run/$costs", "eval/hold/$hold/release", "eval/run/$run/cancel";
is(q_(as('ann', qq{SELECT state FROM gpucredit_eval.cancel_run('acme', $run, 'over')})), 'cancelled', 'its run ends');
is(q_(qq{SELECT round(spent, 6), captured FROM gpucredit_eval.run_state('acme', $run)}), "$costs|$costs", 'what it cost is captured');
is(q_(qq{SELECT held, spent - $before FROM gpucredit.balance('acme', 'nlp/ann')}), "1.500000|$costs",
	'and the user holds only what it held itself');

# a tenant that frees the hold of its run pays for what the run costs all the same
$before = q_(q{SELECT spent FROM gpucredit.balance('acme', 'nlp/ann')});
q_(as('ann', sprintf($start, 'acme', 'nlp/ann', 'r6')));
($run, $hold) = split /\|/, q_(q{SELECT run, hold FROM gpucredit_eval.run WHERE org = 'acme' ORDER BY run DESC LIMIT 1});
q_(as('worker', qq{SELECT FROM gpucredit_eval.lease_cases('acme', $run, 'w', 1, '1 min')}));
is(q_(as('ann', qq{SELECT released FROM gpucredit.release('acme', $hold, 'mine')})), '1.000000', 'a user frees its run\'s hold');
is(q_(as('ann', qq{SELECT state FROM gpucredit_eval.cancel_run('acme', $run, 'over too')})), 'cancelled', 'the run ends nevertheless');
is(q_(qq{SELECT captured - $costs FROM gpucredit_eval.run_state('acme', $run)}), '0.000000', 'and what it cost is captured');
is(q_(qq{SELECT spent - $before FROM gpucredit.balance('acme', 'nlp/ann')}), $costs, 'by the user');
q_(as('ann', sprintf($start, 'acme', 'nlp/ann', 'r7')));
($run, $hold) = split /\|/, q_(q{SELECT run, hold FROM gpucredit_eval.run WHERE org = 'acme' ORDER BY run DESC LIMIT 1});
q_(as('ann', qq{SELECT released FROM gpucredit.release('acme', $hold, 'mine too')}));
is(q_(as('ann', qq{SELECT state FROM gpucredit_eval.cancel_run('acme', $run, 'at once')})), 'cancelled', 'a run that cost nothing ends, too');

# who rates answers by hand sees no scores, by right
q_(q{CREATE ROLE rita LOGIN IN ROLE gpucredit_tenant, gpucredit_eval_rater;
	SELECT gpucredit.bind_tenant('rita', 'acme', 'nlp')});
my %scores = ("results('acme', 1)" => 1, "junit('acme', 1)" => 1, "gate('acme', 1)" => 1, "verdict('acme', 1)" => 1, "compare('acme', 1, 1)" => 1,
	"compare_cases('acme', 1, 1)" => 1, "score_history('acme', 'ours', 'nlp')" => 1, "calibrations('acme')" => 1);
foreach my $call (sort keys %scores)
{
	fails(as('rita', "SELECT gpucredit_eval.$call"), '42501', "a rater may not call $call");
	is(sqlstate_of($node, 'eval', as('nlp', "SELECT gpucredit_eval.$call")), '', 'another tenant may');
}
fails(as('rita', q{SELECT gpucredit_eval.results('acme', 999999)}), '42501', 'nor of a run that is not there');
is(q_(as('rita', q{SELECT count(*) FROM gpucredit_eval.to_label('acme', 1)})), '0', 'a rater may ask what to rate');
is(q_(as('rita', q{SELECT count(*) > 0, count(verdict), bool_or(cases > 0) FROM gpucredit_eval.runs('acme', 'nlp')})), 't|0|t', 'and sees runs, without verdicts');
cmp_ok(q_(as('nlp', q{SELECT count(verdict) FROM gpucredit_eval.runs('acme', 'nlp')})), '>', 0, 'which others see');
is(q_(q{SELECT string_agg(p.proname, ' ' ORDER BY p.proname) FROM pg_proc p CROSS JOIN LATERAL aclexplode(p.proacl) a
	JOIN pg_roles r ON r.oid = a.grantee AND r.rolname = 'gpucredit_eval_rater' WHERE p.pronamespace = 'gpucredit_eval'::regnamespace}), '',
	'membership of the raters gives nothing');
q_(q{GRANT gpucredit_admin TO rita});
is(sqlstate_of($node, 'eval', as('rita', q{SELECT gpucredit_eval.results('acme', 1)})), '', 'an administrator is not blind');
q_(q{REVOKE gpucredit_admin FROM rita});

# form
is(q_(q{SELECT count(*) FROM pg_proc p
	CROSS JOIN LATERAL aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a
	WHERE p.pronamespace = 'gpucredit_eval'::regnamespace AND a.grantee = 0}), '0', 'PUBLIC may call nothing');
is(q_(q{SELECT string_agg(p.proname, ' ') FROM pg_proc p
	WHERE p.pronamespace = 'gpucredit_eval'::regnamespace
		AND (obj_description(p.oid, 'pg_proc') IS NULL
			OR p.prosecdef AND NOT p.proconfig @> '{"search_path=pg_catalog, pg_temp"}')}), '',
	'each function has a comment, and those with rights a search_path');
is(q_(q{SELECT string_agg(c.relname, ' ') FROM pg_class c
	WHERE c.relnamespace = 'gpucredit_eval'::regnamespace AND c.relkind = 'r' AND NOT EXISTS (
		SELECT FROM pg_attribute a JOIN pg_index i ON i.indrelid = c.oid AND i.indisprimary
		WHERE a.attrelid = c.oid AND a.attname = 'org' AND a.attnum = ANY (i.indkey))}), 'event',
	'each table but the log is keyed by organisation');
is(q_(q{SELECT string_agg(c.relname, ' ') FROM pg_class c
	WHERE c.relnamespace = 'gpucredit_eval'::regnamespace AND c.relkind = 'r'
		AND obj_description(c.oid, 'pg_class') IS NULL}), '', 'each table has a comment');
fails(q{DELETE FROM gpucredit_eval.event}, 'UC901', 'events stay');
# the same key, used by two tenants: two runs, each held for by itself
q_(q{SELECT gpucredit.bind_tenant('seer', 'acme', 'nlp')});
my $once = q{SELECT status, replayed FROM gpucredit_eval.start_run('acme', 'nlp', 'both', 'ours', 'model', 'development', %s)};
is(q_(as('nlp', sprintf($once, 1))), 'granted|f', 'a run under a key');
is(q_(as('seer', sprintf($once, 2))), 'granted|f', 'another tenant\'s run under the same key');
is(q_(as('nlp', sprintf($once, 1))), 'granted|t', 'each finds its own');
fails(as('nlp', sprintf($once, 2)), 'UC201', 'and is refused other arguments');
is(q_(q{SELECT count(*), count(DISTINCT key) FROM gpucredit.request WHERE org = 'acme' AND space = 'gpucredit_eval'
	AND operation = 'hold'
	AND result[1]::bigint IN (SELECT hold FROM gpucredit_eval.run ORDER BY run DESC LIMIT 2)}), '2|2',
	'both are held in the ledger, under the harness\'s own keys');
is(q_(q{
	SELECT string_agg(p.proname, ' ') FROM pg_proc p
	WHERE p.pronamespace = 'gpucredit_eval'::regnamespace
		AND coalesce(nullif(p.prosrc, ''), pg_get_functiondef(p.oid))
			~ '\mgpucredit\.(hold|extend_hold|capture|release|reserve|cancel|issue|revoke|transfer|refund|refund_hold|placed)\('
		AND NOT coalesce(p.proconfig @> '{gpucredit.key_space=gpucredit_eval}', false)}),
	'', 'every function that calls the ledger has the harness\'s keys');

# it calls what the core and the registry let their callers call, and nothing else
my $body = q{coalesce(nullif(p.prosrc, ''), pg_get_functiondef(p.oid))};
is(q_(qq{SELECT string_agg(p.proname, ' ') FROM pg_proc p
	WHERE p.pronamespace = 'gpucredit_eval'::regnamespace AND $body ~ 'gpucredit(_registry)?_internal'}), '',
	'no function calls an internal function');
is(q_(qq{WITH named AS (
		SELECT DISTINCT m[1] AS schema, m[2] AS name
		FROM pg_proc p CROSS JOIN LATERAL regexp_matches($body, '\\m(gpucredit|gpucredit_registry)\\.([a-z_]+)\\M(?!\\s*[,=])', 'g') m
		WHERE p.pronamespace = 'gpucredit_eval'::regnamespace)
	SELECT string_agg(n.schema || '.' || n.name, ' ')
	FROM named n JOIN pg_namespace s ON s.nspname = n.schema
	WHERE NOT EXISTS (SELECT FROM pg_settings o WHERE o.name = n.schema || '.' || n.name)
		AND NOT EXISTS (SELECT FROM pg_proc f CROSS JOIN LATERAL aclexplode(f.proacl) a
			WHERE f.pronamespace = s.oid AND f.proname = n.name AND a.grantee <> f.proowner)
		AND NOT EXISTS (SELECT FROM pg_class v CROSS JOIN LATERAL aclexplode(v.relacl) a
			WHERE v.relnamespace = s.oid AND v.relname = n.name AND v.relkind = 'v' AND a.grantee <> v.relowner)}), '',
	'and what it calls of gpucredit and the registry is granted to roles');
my $libraries = q_(q{SELECT setting FROM pg_config WHERE name = 'PKGLIBDIR'});
my @wanted = symbols('gpucredit_eval', 'U');
my %core = map { $_ => 1 } symbols('gpucredit', '[A-TV-Z]');

# The symbols of a library that it has, or wants.
sub symbols
{
	my ($library, $kind) = @_;

	return map { (split)[-1] } grep { /^\S*\s+$kind / } `nm -D $libraries/$library.so`;
}
cmp_ok(scalar(@wanted), '>', 20, 'its library calls the server');
cmp_ok(scalar(keys %core), '>', 100, 'the core\'s has functions');
is(join(' ', grep { $core{$_} } @wanted), '', 'and nothing of the core\'s library');
unlike(slurp_file("$libraries/gpucredit_eval.so"), qr/gpucredit_internal/, 'nor names an internal function in a statement');
eval_verify($node);
done_testing();
