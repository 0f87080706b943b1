# aggregates.pl: tasks whose score is a perplexity, Matthews' correlation
# coefficient or F1: computed in the database from the stored answers, and alike
# in gates, baselines, previews, documents and the registry
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/lib";
use GpuCreditEval;
use GpuCredit;
use JSON::PP;
use Test::More;

my $node = eval_node('aggregates');
my $dbh = connect_to($node, 'eval');
my $json = JSON::PP->new->canonical->allow_nonref->utf8;
my $usage = '{"prompt_tokens": 1, "completion_tokens": 1}';
my $keys = 0;

sub q_ { return query($node, 'eval', $_[0]) }
sub fails { return query_fails($node, 'eval', @_) }
q_(q{CREATE EXTENSION gpucredit_registry CASCADE;
	SELECT gpucredit_registry.create_model('acme', 'nlp', 'bot', 'm1');
	SELECT gpucredit_registry.commit('acme', 1, 'main', '[{"path": "w", "content": "YQ=="}]', 'v1');
	SELECT gpucredit_eval.set_endpoint('acme', 'texts', 'http://127.0.0.1:1', 1, 2, NULL, logprobs => true, serves_registry => true)});

# A case of a metric: the number of its choices and of the right one, or one text.
sub case_of
{
	my ($name, $metric, $choices, $right, %more) = @_;
	my @texts = map { "choice $_" } 1 .. $choices;

	return { name => $name, task => $more{task} // $metric, weight => $more{weight} // 1,
		input => { requests => [ map { { context => 'q', continuation => $_ } } @texts ] },
		checks => [ $metric eq 'perplexity' ? { type => 'loglikelihood', metric => $metric }
			: { type => 'multiple_choice', metric => $metric, choices => \@texts, value => $right }, @{ $more{checks} // [] } ] };
}

sub set
{
	my ($name, $kind, @cases) = @_;

	q_("SELECT gpucredit_eval.create_set('acme', '$name', '$kind', 'set $name')");
	return add_cases($node, 'acme', $name, "cases $name", @cases);
}

sub config
{
	my ($name, %document) = @_;

	return q_(sprintf(q{SELECT version FROM gpucredit_eval.set_config('acme', '%s', '%s', 'config %d')}, $name, $json->encode(\%document), ++$keys));
}

# Starts a run; answers its cases as %$said says: the number of the likeliest choice,
# the logarithm of a text's probability, undef for a call that fails, or "open" for
# a case that nobody reports.
sub run
{
	my ($config, $said, %more) = @_;
	my $run = q_(sprintf(q{SELECT run FROM gpucredit_eval.start_run('acme', 'nlp', 'run %d', '%s', '%s', '%s', 50, baseline => %s, options => '%s')}, ++$keys,
			$config, $more{model} // 'texts', $more{purpose} // 'gate', $more{baseline} // 'NULL', $more{options} // '{}'));

	answer($run, $said);
	return $run;
}

sub answer
{
	my ($run, $said) = @_;
	my %open;

	while (my @leased = grep { !$open{ $_->[2] } } map { [ split /\|/ ] } split /\n/, q_(qq{SELECT l."case", l.attempt, c.name, l.checks -> 0 ->> 'type',
		jsonb_array_length(l.input -> 'requests') FROM gpucredit_eval.lease_cases('acme', $run, 'w', 1000, '10 min') l
		JOIN gpucredit_eval.golden_case c ON c.org = 'acme' AND c."case" = l."case" ORDER BY c.name}))
	{
		foreach my $one (@leased)
		{
			my ($case, $attempt, $name, $type, $n) = @$one;
			my $answer = ref $said eq 'HASH' ? $said->{$name} : $said->($name);

			if (defined $answer && $answer eq 'open')
			{
				$open{$name} = 1;
				next;
			}
			my @texts = $type eq 'loglikelihood' ? { logprob => $answer // 0, tokens => 1, greedy => undef }
				: map { { logprob => $_ == ($answer // 0) ? -1 : -2, tokens => 1, greedy => JSON::PP::false } } 0 .. $n - 1;
			my $report = $dbh->prepare_cached(q{SELECT FROM gpucredit_eval.report('acme', ?, ?, ?, ?, ?, ?)});

			$report->bind_param($_->[0], $_->[1]) foreach [ 1, $run ], [ 2, $case ], [ 3, $attempt ];
			$report->bind_param(4, !defined $answer ? undef : ref $answer ? $$answer : $json->encode(\@texts), { pg_type => DBD::Pg::PG_BYTEA() });
			$report->bind_param(5, defined $answer ? $json->encode([ { type => $type, pass => JSON::PP::true } ]) : '{"error": "no"}');
			$report->bind_param(6, $usage);
			$report->execute;
			$report->finish;
		}
	}
	return;
}

sub gate { return q_("SELECT task, score, value, passes, reason FROM gpucredit_eval.gate('acme', $_[0])") }
sub verdict { return q_("SELECT gpucredit_eval.verdict('acme', $_[0])") }

# figures that scikit-learn's matthews_corrcoef and f1_score, and lm-eval's formula of a
# perplexity, give: 10 cases of three choices, 10 of two, 4 texts
my @wanted3 = (0, 1, 2, 0, 1, 2, 0, 1, 2, 2);
my @given3 = (0, 1, 2, 0, 2, 2, 1, 1, 0, 2);
my @wanted2 = (1, 0, 1, 1, 0, 0, 1, 0, 1, 0);
my @given2 = (1, 0, 0, 1, 0, 1, 1, 0, 1, 0);
my @texts = (-1, -2, -0.5, -2.5);
my %said = ((map { ("m$_" => $given3[$_]) } 0 .. 9), (map { ("f$_" => $given2[$_]) } 0 .. 9), map { ("p$_" => $texts[$_]) } 0 .. 3);
set('main', 'locked', (map { case_of("m$_", 'mcc', 3, $wanted3[$_]) } 0 .. 9), (map { case_of("f$_", 'f1', 2, $wanted2[$_]) } 0 .. 9),
	map { case_of("p$_", 'perplexity', 1) } 0 .. 3);
my @gates = ({ task => 'mcc', absolute => 0.5 }, { task => 'f1', absolute => 0.75 }, { task => 'perplexity', absolute => 0.2 });
config('main', sets => ['main'], gates => \@gates, max_errors => 9);
my $base = run('main', \%said);
is(gate($base), "f1|0.800000|0.800000|t|passes\nmcc|0.545455|0.545455|t|passes\nperplexity|0.223130|4.481689|t|passes",
	'the scores of tasks are the coefficient, F1, and the reciprocal of the perplexity');
is(q_("SELECT task, metric, stderr FROM gpucredit_eval.gate('acme', $base)"), "f1|f1|\nmcc|mcc|\nperplexity|perplexity|0.101845",
	'a perplexity has a standard error');
is(verdict($base), 'pass', 'gates compare them');
is(q_("SELECT task, score FROM gpucredit_eval.score_history('acme', 'main', 'nlp')"), "f1|0.800000\nmcc|0.545455\nperplexity|0.223130", 'pages show the same');
my $results = $json->decode(q_("SELECT gpucredit_eval.results('acme', $base)"));
is_deeply([ map { [ @$_{qw(task metric)}, sprintf('%.6f', $_->{value}) ] } @{ $results->{tasks} } ],
	[ [ 'f1', 'f1', '0.800000' ], [ 'mcc', 'mcc', '0.545455' ], [ 'perplexity', 'perplexity', '4.481689' ] ], 'and results');
my $xml = q_("SELECT gpucredit_eval.junit('acme', $base)");
like($xml, qr{<testsuite name="gates" tests="3" failures="0"}, 'JUnit has the gates');
like($xml, qr{<testsuite name="perplexity" tests="4" failures="0"}, 'a text that is likely or not is no failure');
like($xml, qr{<testsuite name="mcc" tests="10" failures="3"}, 'a wrong choice is one');

# baselines
my %worse = (%said, m6 => 2, m2 => 0, p0 => -1.05);
my $next = run('main', \%worse, baseline => $base);
is(gate($next), "f1|0.800000|0.800000|t|passes\nmcc|0.400047|0.400047|f|below_threshold\nperplexity|0.220358|4.538062|t|passes", 'a threshold is of the score');
q_("SELECT gpucredit_eval.cancel_run('acme', $next, 'c')");
$gates[$_]{absolute} = 0 foreach 0 .. 2;
config('relative', sets => ['main'], gates => [ @gates[ 0, 1 ], { %{ $gates[2] }, relative => 0.01 } ], max_errors => 9);
is(gate(run('relative', \%worse, baseline => $base)),
	"f1|0.800000|0.800000|t|passes\nmcc|0.400047|0.400047|f|below_baseline\nperplexity|0.220358|4.538062|f|below_baseline", 'and a baseline\'s');
is(gate(run('relative', \%said, baseline => $base)) =~ s/\|passes//gr, "f1|0.800000|0.800000|t\nmcc|0.545455|0.545455|t\nperplexity|0.223130|4.481689|t", 'the same answers pass');
is(q_("SELECT difference FROM gpucredit_eval.compare('acme', $base, $next)"), sprintf('%.6f', -1 / 20), 'a paired difference is of the cases that are right or wrong');

# a coefficient below chance is a score of 0; nothing is divided by zero
is(gate(run('main', sub { $_[0] =~ /^p/ ? -1 : $_[0] =~ /^f/ ? 1 - $wanted2[ substr $_[0], 1 ] : ($wanted3[ substr $_[0], 1 ] + 1) % 3 })),
	"f1|0.000000|0.000000|f|below_threshold\nmcc|0.000000|-0.500000|f|below_threshold\nperplexity|0.367879|2.718282|t|passes", 'worse than chance');
is(gate(run('main', sub { 0 })), "f1|0.000000|0.000000|f|below_threshold\nmcc|0.000000|0.000000|f|below_threshold\nperplexity|1.000000|1.000000|t|passes",
	'one answer to all, and texts that are certain');
like(gate(run('main', sub { $_[0] =~ /^p/ ? \'[{"logprob": -1e400}]' : 0 })), qr/^perplexity\|0\.000000\|\d{305}\.\d{6}\|f\|below_threshold$/m, 'a text that is impossible');
like(gate(run('main', sub { $_[0] =~ /^p/ ? 5 : 0 })), qr/^perplexity\|1\.000000\|1\.000000/m, 'nothing is likelier than certain');

# cases without an answer
my $failed = run('relative', { %said, m0 => undef, f0 => undef, p0 => undef });
is(q_("SELECT task, score, value FROM gpucredit_eval.gate('acme', $failed)"), "f1|0.666667|0.666667\nmcc|0.426655|0.426655\nperplexity|0.000000|",
	'one that failed is a wrong choice, and leaves no perplexity');
is(verdict($failed), 'inconclusive', 'one in twenty of a task may fail, and these are more');
my $garbled = run('relative', { %said, m0 => \'[{"logprob": 0}]', f0 => \'no', p0 => \'{}' });
is(q_("SELECT task, score, value FROM gpucredit_eval.gate('acme', $garbled)"), "f1|0.666667|0.666667\nmcc|0.426655|0.426655\nperplexity|0.000000|",
	'so is an output without likelihoods, whatever its worker says');
my $open = run('main', { %said, m0 => 'open', f0 => 'open', p0 => 'open' });
is(gate($open), "f1|||\|unfinished\nmcc||||unfinished\nperplexity||||unfinished", 'as long as a case is open there is no score');
q_("SELECT gpucredit_eval.cancel_run('acme', $open, 'd')");
is(gate($open), "f1||||cancelled\nmcc||||cancelled\nperplexity||||cancelled", 'nor of a run that ended so');
is(q_("SELECT task, trim_scale(score) FROM gpucredit_eval.metric WHERE run = $open ORDER BY 1"), "f1|0\nmcc|0\nperplexity|0", 'where it counts, it is 0');

# weights, and sets that are not locked
set('weighed', 'locked', case_of('a', 'perplexity', 1, 0, weight => 3), case_of('b', 'perplexity', 1), (map { case_of("m$_", 'mcc', 2, $_ % 2, weight => 1 + $_) } 0 .. 3),
	case_of('z', 'mcc', 2, 1, task => 'idle', weight => 0));
set('live', 'live', case_of('c', 'perplexity', 1), map { case_of("l$_", 'mcc', 2, $_ % 2) } 0 .. 3);
config('weighed', sets => [ 'weighed', 'live' ]);
my $weighed = run('weighed', { a => -1, b => -3, c => -2, m0 => 0, m1 => 1, m2 => 1, m3 => 1, l0 => 1, l1 => 0, l2 => 0, l3 => 1, z => 1 });
is(q_("SELECT task, score, value, reason FROM gpucredit_eval.gate('acme', $weighed)"),
	"idle|||no_weight\nmcc|0.251259|0.251259|below_threshold\nperplexity|0.201897|4.953032|below_threshold", 'weights weigh, and a task without one has no score');
is(q_("SELECT task, round(locked_score, 6) FROM gpucredit_eval.metric WHERE run = $weighed AND task <> 'idle' ORDER BY 1"), "mcc|0.408248\nperplexity|0.223130",
	'a baseline is of locked sets alone');

# a preview decides such a task when all of its sample is asked
set('long', 'locked', map { case_of(sprintf('n%03d', $_), 'mcc', 2, $_ % 2, task => 'long') } 0 .. 199);
config('long', sets => ['long'], gates => [ { task => 'long', absolute => 0.9 } ], serving => { endpoint => 'texts' });
my $preview = run('long', sub { substr($_[0], 1) < 5 ? 'open' : 0 }, purpose => 'preview', model => 'bot@main');
my ($state, $cases, $sets) = split /\|/, q_("SELECT state, cases, set_cases FROM gpucredit_eval.run_state('acme', $preview)");
is("$state|$sets", 'running|200', 'a preview of wrong answers goes on while a case is open') or diag(gate($preview));
cmp_ok($cases, '<', 200, 'it asks a sample');
is(gate($preview), 'long||||unfinished', 'and is not decided');
q_("SELECT gpucredit_eval.cancel_run('acme', $preview, 'e')");
$preview = run('long', sub { substr($_[0], 1) % 2 }, purpose => 'preview', model => 'bot@main');
is(q_("SELECT state FROM gpucredit_eval.run_state('acme', $preview)") . '|' . gate($preview), 'finished|long|1.000000|1.000000|t|passes', 'one with all answers is');

# the registry has the same score
my $production = run('long', sub { substr($_[0], 1) < 20 ? 1 : substr($_[0], 1) % 2 }, purpose => 'production_gate', model => 'bot@main');
is(gate($production), 'long|0.904534|0.904534|t|passes', 'a production gate');
is(q_(q{SELECT s.score, s.detail ->> 'metric', s.detail ->> 'value' FROM gpucredit_registry.scores('acme', (SELECT version FROM
	gpucredit_registry.find_revision('acme', 'bot', 'main'))) s WHERE s.benchmark = 'long@1'}), '0.904534|mcc|0.904534', 'the registry has its score');

# what is no task of one score
my $set = q{SELECT gpucredit_eval.add_cases('acme', 'main', '%s', 'bad %d')};
foreach my $bad ([ case_of('x', 'mcc', 3, 3), 'a choice that is not there' ], [ case_of('x', 'mcc', 3, -1), 'none' ], [ case_of('x', 'mcc', 3, 0.5), 'half a choice' ],
	[ case_of('x', 'f1', 3, 0), 'F1 of three' ], [ case_of('x', 'mcc', 2, [ 0, 1 ]), 'several right ones' ],
	[ case_of('x', 'mcc', 2, 0, checks => [ { type => 'multiple_choice', metric => 'acc', choices => [ 'a', 'b' ], value => 0 } ]), 'two checks that count' ],
	[ case_of('x', 'perplexity', 2), 'a perplexity of two texts' ],
	[ do { my $one = case_of('x', 'acc', 2, 0); $one->{checks}[0]{metric} = 'perplexity'; $one }, 'a perplexity of choices' ])
{
	fails(sprintf($set, $json->encode([ $bad->[0] ]), ++$keys), '22023', "refused: $bad->[1]");
}
q_(sprintf($set, $json->encode([ case_of('both', 'f1', 2, 0, task => 'both', checks => [ { type => 'multiple_choice', metric => 'acc', choices => [ 'a', 'b' ],
	value => 0, weight => 0 } ]) ]), ++$keys));
pass('a check without weight informs');
q_(q{SELECT gpucredit_eval.create_set('acme', 'mixed', 'locked', 'mixed')});
q_(sprintf(q{SELECT gpucredit_eval.add_cases('acme', 'mixed', '%s', 'mixed cases')}, $json->encode([ case_of('a', 'mcc', 2, 0, task => 't'), case_of('b', 'f1', 2, 0, task => 't') ])));
fails(q{SELECT gpucredit_eval.freeze_set('acme', 'mixed', 'mixed freeze')}, 'UC602', 'a task of two metrics is not frozen');
q_(q{SELECT gpucredit_eval.retire_cases('acme', 'mixed', '{a}', 'mixed retire'), gpucredit_eval.freeze_set('acme', 'mixed', 'mixed freeze again')});
set('other', 'locked', { name => 'o', task => 't', input => 'q', checks => [ { type => 'contains', value => 'a' } ] });
fails(q{SELECT gpucredit_eval.set_config('acme', 'mixed', '{"sets": ["mixed", "other"]}', 'mixed config')}, '22023', 'nor is a config of two sets that differ');
is(config('mixed', sets => ['mixed']), '1', 'each alone is');
eval_verify($node);
done_testing();
