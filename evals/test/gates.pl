# gates.pl: gates, baselines, judges, held-out sets, protected refs
#
# Packages: libcurl4-openssl-dev libmicrohttpd-dev libssl-dev libjansson-dev libpq-dev
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/lib";
use GpuCreditEval;
use GpuCredit;
use JSON::PP;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = eval_node('gates');
my $usage = '{"prompt_tokens": 10, "completion_tokens": 5}';
my $runs = 0;

sub q_ { return query($node, 'eval', $_[0]) }
sub fails { return query_fails($node, 'eval', @_) }
sub set { q_("SELECT gpucredit_eval.create_set('acme', '$_[0]', '$_[1]', 'set $_[0]')"); return }

sub config
{
	my ($name, $document) = @_;

	return q_(sprintf(q{SELECT version FROM gpucredit_eval.set_config('acme', '%s', '%s', md5('%s'))},
			$name, encode_json($document), $name . encode_json($document)));
}

# Starts a run and answers all its cases: "score" maps a case's name to 0 to 1,
# reached by checks, or by the judge for a case with a rubric.
sub run
{
	my ($config, $model, $score, %options) = @_;
	my $run = q_(sprintf(q{SELECT coalesce(run::text, reason) FROM gpucredit_eval.start_run('acme', 'nlp',
		'run %d', '%s', '%s', '%s', 5, %s, '%s')}, ++$runs, $config, $model, $options{purpose} // 'gate',
			$options{baseline} // 'NULL', $options{options} // '{}'));

	return $run unless $run =~ /^\d+$/;
	answer($run, $score, $options{judge}) unless $options{idle};
	return $run;
}

sub answer
{
	my ($run, $score, $judge) = @_;
	my $dbh = connect_to($node, 'eval');
	my $name = $dbh->prepare('SELECT name FROM gpucredit_eval.golden_case WHERE "case" = ?');

	while (my @rows = @{ $dbh->selectall_arrayref(q{SELECT "case", attempt, parameters -> 'samples',
			parameters -> 'output' IS NOT NULL
			FROM gpucredit_eval.lease_cases('acme', ?, 'w', 100, '1 min')}, undef, $run) })
	{
		foreach my $row (@rows)
		{
			my ($case, $attempt, $samples, $answered) = @$row;
			my $is = $score->($dbh->selectrow_array($name, undef, $case));
			my ($checks, $points) = $samples eq '[]' ? (sprintf('[{"type": "regex", "pass": %s}]', $is ? 'true' : 'false'), 0)
			  : ('[]', $is * 4 + 1);

			$dbh->do(q{SELECT gpucredit_eval.report('acme', ?, ?, ?, ?, ?, ?)}, undef, $run, $case, $attempt,
				"answer $case" . '!' x ($case % 7), $checks, $usage) unless $answered;
			$dbh->do(q{SELECT gpucredit_eval.report_judge('acme', ?, ?, ?, ?, ?)}, undef, $run, $case, $_,
				$judge || qq({"score": $points, "reason": "so"}), $usage) foreach @{ decode_json($samples) };
		}
	}
	$dbh->disconnect;
	return;
}

sub gate { return q_("SELECT task, score, passes, reason FROM gpucredit_eval.gate('acme', $_[0])") }
sub verdict { return q_("SELECT gpucredit_eval.verdict('acme', $_[0])") }

# tasks with 20 cases each; a case's number decides whether it is right
set('json', 'locked');
add_cases($node, 'acme', 'json', 'c1', map { { name => sprintf('json %02d', $_), task => 'json', input => "q$_",
	checks => [ { type => 'regex' } ] } } 1 .. 20);
set('live', 'live');
add_cases($node, 'acme', 'live', 'c2', map { { name => sprintf('safe %02d', $_), task => 'safety', input => "q$_",
	checks => [ { type => 'regex' } ] } } 1 .. 20);
config('main', { sets => [ 'json', 'live' ], gates => [ { task => 'json' },
	{ task => 'safety', kind => 'safety' } ] });
my $right = sub { my ($n) = @_; return sub { my ($of) = $_[0] =~ /(\d+)$/; return $of <= $n ? 1 : 0 } };

my $base = run('main', 'model', sub { 1 });
is(verdict($base), 'pass', 'all is right');
my $next = run('main', 'model', $right->(19), baseline => $base);
is(gate($next), "json|0.950000|f|below_baseline\nsafety|0.950000|t|passes",
	'the locked set compares with the baseline, the live one does not; equal to the threshold passes');
is(verdict($next), 'block', 'and blocks');
is(q_("SELECT n, score_a, score_b, difference, stderr FROM gpucredit_eval.compare('acme', $base, $next)"),
	'40|1.000000|0.950000|-0.050000|0.034899', 'the paired difference, and its error');
is(q_(qq{SELECT stderr FROM gpucredit_eval.gate('acme', $next) WHERE task = 'json'}), '0.050000',
	'a standard error is the deviation by the root of n');
is(gate(run('main', 'model', $right->(18))), "json|0.900000|t|passes\nsafety|0.900000|f|below_threshold",
	'by threshold alone, safety has the higher one');

# ratio or points, advisory or blocking
config('points', { sets => ['json'], gates => [ { task => 'json', mode => 'points', relative => 0.05 } ] });
$base = run('points', 'model', sub { 1 });
is(verdict(run('points', 'model', $right->(19), baseline => $base)), 'pass', '5 points below, of 5 allowed, passes');
is(verdict(run('points', 'model', $right->(18), baseline => $base)), 'block', '10 points do not');
config('advice', { sets => ['json'], gates => [ { task => 'json', blocking => JSON::PP::false },
	{ task => 'none', blocking => JSON::PP::false } ] });
my $advice = run('advice', 'model', sub { 0 });
is(gate($advice), "json|0.000000|f|below_threshold\nnone|||no_cases", 'a gate of a task without cases decides nothing');
is(verdict($advice), 'warn', 'advisory gates warn');
config('blocked', { sets => ['json'], gates => [ { task => 'none' } ] });
is(verdict(run('blocked', 'model', sub { 1 })), 'inconclusive', 'a blocking one fails closed');

# what compares
is(gate(run('main', 'model', sub { 1 }, baseline => $base)) =~ /json\|1.000000\|\|baseline_differs/ ? 1 : 0, 1,
	'a baseline of another measure decides nothing');
my $idle = run('main', 'model', undef, idle => 1);
is(verdict($idle), 'inconclusive', 'a run that is not finished decides nothing');
is(gate(run('main', 'model', sub { 1 }, baseline => $idle)) =~ /json\|1.000000\|\|baseline_unfinished/ ? 1 : 0, 1,
	'nor does one compare with it');
q_("SELECT gpucredit_eval.cancel_run('acme', $idle, 'idle')");
like(gate($idle), qr/^json\|0.000000\|\|cancelled/, 'lost cases count 0');

# weights: 3 of weight 1 right, 1 of weight 2 wrong: 3/5
set('weighed', 'locked');
add_cases($node, 'acme', 'weighed', 'c3', (map { { name => "w$_", input => "q$_", checks => [ { type => 'regex' } ] } } 1 .. 3),
	{ name => 'w9', input => 'q9', weight => 2, checks => [ { type => 'regex' } ] });
config('weighed', { sets => ['weighed'] });
is(gate(run('weighed', 'model', $right->(3))), 'default|0.600000|f|below_threshold', 'weights weigh');

# judges: the median counts, a judge that is not calibrated decides nothing
set('open', 'locked');
add_cases($node, 'acme', 'open', 'c4', map { { name => sprintf('open %02d', $_), task => 'open', input => "q$_",
	rubric => 'good' } } 1 .. 30);
my $judge = { endpoint => 'judge', model => 'j-1', max_response_bytes => 100 };
config('open', { sets => ['open'], judge => $judge, gates => [ { task => 'open', kind => 'creative' } ] });
my $judged = run('open', 'model', sub { $_[0] =~ /[02468]$/ ? 1 : 0.5 });
is(gate($judged), 'open|0.750000||uncalibrated', 'a judge that is not calibrated decides nothing');
is(verdict($judged), 'inconclusive', 'and that blocks');
my $rated = run('open', 'model', sub { $_[0] =~ /[02468]$/ ? 1 : 0.5 }, purpose => 'calibration');
my $name = q_(q{SELECT gpucredit_eval.judge_name(document -> 'judge') FROM gpucredit_eval.config WHERE config = 'open'});
like($name, qr/^judge:j-1#[0-9a-f]{32}$/, 'a judge is its endpoint, model, address, template and limits');
q_("SELECT gpucredit_eval.label('acme', $rated, \"case\", rater, CASE WHEN c.name ~ '[02468]\$' THEN 5 ELSE 3 END)
	FROM gpucredit_eval.result JOIN gpucredit_eval.golden_case c USING (org, \"case\"), unnest('{ann,bob}'::text[]) rater
	WHERE run = $rated AND c.name <> 'open 01'");
is(q_("SELECT n, status FROM gpucredit_eval.calibrate('acme', '$name', '2020-01-01')"), '29|uncalibrated',
	'29 answers are too few');
q_("SELECT gpucredit_eval.label('acme', $rated, \"case\", 'ann', 1) FROM gpucredit_eval.golden_case WHERE name = 'open 01'");
is(q_("SELECT n, raters, status FROM gpucredit_eval.calibrate('acme', '$name', '2020-01-01')"), '29|2|uncalibrated',
	'an answer that one person rated does not count');
q_("SELECT gpucredit_eval.label('acme', $rated, \"case\", 'bob', 1) FROM gpucredit_eval.golden_case WHERE name = 'open 01'");
is(q_("SELECT n, agreement, kappa, kappa_weighted, bias, status FROM gpucredit_eval.calibrate('acme', '$name', '2020-01-01')"),
	'30|0.966667|0.935484|0.941176|0.066667|calibrated', 'agreement with people');
is(verdict($judged), 'pass', 'then its run decides');
is(q_("SELECT gpucredit_eval.label('acme', $rated, \"case\", 'ann', 1) FROM gpucredit_eval.golden_case WHERE name = 'open 01'"),
	't', 'a label is given once');
fails("SELECT gpucredit_eval.label('acme', $judged, 999999, 'ann', 1)", 'UC603', 'no such answer');
fails("SELECT gpucredit_eval.label('acme', $judged, 1, 'ann', 6)", '22023', 'no such score');
q_(q{UPDATE gpucredit_eval.calibration SET calibrated_at = calibrated_at - interval '93 days'});
is(gate($judged), 'open|0.750000||lapsed', 'a calibration lapses');
q_("UPDATE gpucredit_eval.label SET score = 6 - score");
is(q_("SELECT status, kappa_weighted < 0 FROM gpucredit_eval.calibrate('acme', '$name', '2020-01-01')"), 'disagrees|t',
	'a judge that disagrees');
is(gate($judged), 'open|0.750000||disagrees', 'decides nothing either');
q_("UPDATE gpucredit_eval.label SET score = 6 - score; SELECT gpucredit_eval.calibrate('acme', '$name', '2020-01-01')");
is(gate(run('open', 'model', sub { 1 }, judge => 'A clear 5!')), 'open|0.000000|f|below_threshold', 'prose is no pass');

# another judge over stored answers
config('open', { sets => ['open'], judge => { %$judge, model => 'j-2' }, gates => [ { task => 'open', kind => 'creative' } ] });
config('other', { sets => ['json'], judge => $judge });
fails("SELECT gpucredit_eval.rejudge('acme', $judged, 'other', 'j0', 1)", '22023', 'another set is no rejudgement');
my ($again) = split /\|/, q_("SELECT * FROM gpucredit_eval.rejudge('acme', $judged, 'open', 'j1', 1)");
is(q_("SELECT run, replayed FROM gpucredit_eval.rejudge('acme', $judged, 'open', 'j1', 1.0)"), "$again|t", 'once');
answer($again, sub { 1 });
is(gate($again), 'open|1.000000||uncalibrated', 'another judge judges the same answers');
is(q_("SELECT count(*), sum(cost) FROM gpucredit_eval.result WHERE run = $again"), '30|0', 'nobody answers again');

# documents
my $results = decode_json(q_("SELECT gpucredit_eval.results('acme', $next)"));
is(scalar @{ $results->{cases} }, 40, 'all cases are in the results');
is($results->{verdict}, 'block', 'with the verdict');
my $xml = q_("SELECT gpucredit_eval.junit('acme', $next)");
like($xml, qr{<testsuite name="gates" tests="2" failures="1" errors="0" skipped="0">}, 'JUnit has the gates');
like($xml, qr{<testsuite name="json" tests="20" failures="1" errors="0" skipped="0">}, 'and a suite per task');

# models of the registry; held-out sets
$node->safe_psql('eval', q{CREATE EXTENSION gpucredit_registry CASCADE});
q_(q{SELECT gpucredit_registry.create_model('acme', 'nlp', 'bot', 'm1');
	SELECT gpucredit_registry.commit('acme', 1, 'main', '[{"path": "a", "content": "YQ=="}]', 'v1');
	SELECT gpucredit_registry.commit('acme', 1, 'next', '[{"path": "a", "content": "Yg=="}]', 'v2');
	SELECT gpucredit_registry.protect_ref('acme', 1, 'prod');
	SELECT gpucredit_eval.set_endpoint('acme', 'served', 'http://127.0.0.1:3', 1, 1, NULL, serves_registry => true)});
set('secret', 'held_out');
add_cases($node, 'acme', 'secret', 'c5', map { { name => sprintf('secret %02d', $_), task => 'secret', input => "hush $_",
	checks => [ { type => 'regex' } ] } } 1 .. 20);
set('small', 'held_out');
add_cases($node, 'acme', 'small', 'c6', map { { name => "small $_", task => 'few', input => "hush $_",
	checks => [ { type => 'regex' } ] } } 1 .. 19);
config('prod', { sets => [ 'json', 'secret' ], serving => { endpoint => 'served' } });
config('unserved', { sets => [ 'json', 'secret' ], serving => { endpoint => 'model' } });
config('small', { sets => ['small'], serving => { endpoint => 'served' } });
config('points', { sets => ['json'], gates => [ { task => 'json', mode => 'points', relative => 0.05 } ], serving => { endpoint => 'served' } });
my $served = '{"endpoint": "served"}';
my $start = q{SELECT status FROM gpucredit_eval.start_run('acme', 'nlp', 'h%d', '%s', '%s', '%s', 1, NULL, '%s')};
fails(sprintf($start, 1, 'prod', 'bot@main', 'gate', $served), 'UC604', 'a held-out set is for production gates');
config('open_gate', { sets => [ 'json', 'secret' ] });
fails(sprintf($start, 1, 'open_gate', 'model', 'production_gate', '{}'), 'UC604', 'of versions in the registry');
fails(sprintf($start, 1, 'unserved', 'bot@main', 'production_gate', '{}'), '22023',
	'that an endpoint of the registry serves');
fails(sprintf($start, 1, 'prod', 'bot@none', 'production_gate', '{}'), 'UC501', 'that are there');
fails(sprintf($start, 1, 'small', 'bot@main', 'production_gate', '{}'), 'UC604', 'in tasks of 20 cases at least');
my $gated = run('prod', 'bot@main', sub { 1 }, purpose => 'production_gate');
is(verdict($gated), 'pass', 'a production gate');
$results = q_("SELECT gpucredit_eval.results('acme', $gated)");
unlike($results . q_("SELECT gpucredit_eval.junit('acme', $gated)"), qr/hush|secret \d/, 'no held-out case is in any document');
like($results, qr/"task": "secret"/, 'but its task is');
is(q_(q{SELECT count(*) FROM gpucredit_eval.event WHERE detail::text ~ 'hush'}), '0', 'nor in the event log');
q_(q{UPDATE gpucredit_eval.golden_set SET runs_per_month = 1 WHERE set = 'secret'});
is(run('prod', 'bot@main', sub { 1 }, purpose => 'production_gate'), 'quota_exceeded',
	'only so many runs a month');

# a protected ref moves by the verdict on that very version
my $version = q_(q{SELECT version FROM gpucredit_registry.find_revision('acme', 'bot', 'main')});
my $other = q_(q{SELECT version FROM gpucredit_registry.find_revision('acme', 'bot', 'next')});
my $promote = q{SELECT status, reason, replayed FROM gpucredit_eval.promote('acme', 1, 'prod', %d, %d, '%s')};
is(q_(sprintf($promote, $version, $gated, 'p0')), 'denied|no_release_gate|f', 'not before the organisation says what must pass');
q_("SELECT gpucredit_eval.set_release_gate('acme', 1, 'prod', 'prod', 'gate 1', serving => 'endpoint')");
is(q_(sprintf($promote, $other, $gated, 'p1')), 'denied|other_version|f', 'not another version');
is(q_(sprintf($promote, $version, $base, 'p2')), 'denied|not_production_gate|f', 'not by another run');
is(q_(sprintf($promote, $version, $gated, 'p3')), 'promoted||f', 'the version that passed');
is(q_(sprintf($promote, $version, $gated, 'p3')), 'promoted||t', 'once');
is(q_(q{SELECT version FROM gpucredit_registry.find_revision('acme', 'bot', 'prod')}), $version, 'is what "prod" is');
my $failed = run('points', 'bot@next', sub { 0 }, purpose => 'production_gate');
q_("SELECT gpucredit_eval.set_release_gate('acme', 1, 'prod', 'points', 'gate 2', serving => 'endpoint')");
is(q_(sprintf($promote, $other, $failed, 'p4')), 'denied|block|f', 'a version that failed does not ship');
q_("SELECT gpucredit_registry.quarantine('acme', $version, 'poison', 'q1')");
fails(sprintf($start, 2, 'points', 'bot@main', 'gate', $served), 'UC602', 'a version in quarantine is not measured');
q_("SELECT gpucredit_eval.set_release_gate('acme', 1, 'prod', 'prod', 'gate 3', serving => 'endpoint')");
fails(sprintf($promote, $version, $gated, 'p5'), 'UC504', 'nor promoted');

# a judge of the same lineage
q_(qq{SELECT gpucredit_registry.create_model('acme', 'nlp', 'child', 'm2');
	SELECT gpucredit_registry.commit('acme', 2, 'main', '[]', 'v3',
		parents => '[{"org": "acme", "version": $other, "kind": "fine_tune"}]')});
config('kin', { sets => ['open'], judge => { endpoint => 'served', model => 'bot@next' } });
fails(sprintf($start, 3, 'kin', 'child@main', 'gate', $served), '22023', 'a judge does not rate its own kin');
# a pushed version is measured
config('pushed', { sets => ['json'], serving => { endpoint => 'served' } });
q_(qq{SELECT gpucredit_eval.watch_ref('acme', 'bot', 'next', 'nlp', 'pushed', options => '$served');
	SELECT gpucredit_eval.watch_ref('acme', 'none', 'main', 'nlp', 'points')});
is(q_(q{SELECT name, ref, status FROM gpucredit_eval.watched('acme')}), "bot|next|waiting\nnone|main|waiting", 'watches');
my $watched = q_(q{SELECT run FROM gpucredit_eval.start_watched('acme') WHERE run IS NOT NULL});
is(q_(q{SELECT count(*) FROM gpucredit_eval.start_watched('acme')}), '0', 'a version is taken up once');
like(q_(q{SELECT status FROM gpucredit_eval.watched('acme')}), qr/^pending\nrevision "main" of model "acme\/none" does not exist$/,
	'and is pending; what cannot start says why');
answer($watched, sub { 1 });
is(q_(q{SELECT status FROM gpucredit_eval.watched('acme') WHERE name = 'bot'}), 'pass', 'until its run has ended');
is(q_("SELECT benchmark, metric, score, detail ->> 'n' FROM gpucredit_registry.scores('acme', $other) ORDER BY benchmark"),
	"points\@2|json|0.000000|20\npushed\@1|json|1.000000|20", 'its scores are in the registry, beside those of the production gate');
q_(q{SELECT gpucredit_registry.commit('acme', 1, 'next', '[]', 'v4')});
isnt(q_(q{SELECT run FROM gpucredit_eval.start_watched('acme')}), $watched, 'the next push starts another');
q_(q{SELECT gpucredit_eval.watch_ref('acme', n, r, 'nlp', NULL) FROM (VALUES ('bot', 'next'), ('none', 'main')) w (n, r)});
is(q_(q{SELECT count(*) FROM gpucredit_eval.watched('acme')}), '0', 'watches end');

# this server logs all statements, so the curator's own is there
my @leaks = grep { /hush \d/ && !/statement: .*add_cases/ } split /\n/, slurp_file($node->logfile);
is(join("\n", @leaks), '', 'the log has no held-out case but in what its curator sent');

eval_verify($node);
is(q_('SELECT * FROM gpucredit_registry.verify()'), '', 'the registry\'s verify() is empty');
done_testing();
