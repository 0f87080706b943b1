# likelihood.pl: the database decides checks of how likely texts are by the
# likelihoods that a worker reports, as the worker decides them
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/lib";
use GpuCreditEval;
use GpuCredit;
use JSON::PP;
use Test::More;

my $node = eval_node('likelihood');
my $dbh = connect_to($node, 'eval');
my $json = JSON::PP->new->canonical->allow_nonref->utf8;
my $usage = '{"prompt_tokens": 1, "completion_tokens": 1}';
my $made = 0;

sub q_ { return query($node, 'eval', $_[0]) }
q_(q{SELECT gpucredit_eval.set_endpoint('acme', 'model', 'http://127.0.0.1:1', 1, 2, NULL, logprobs => true)});

# A run of cases, each { check, texts }; its number, and of each case the number and the check.
sub begin
{
	my (@cases) = @_;
	my $set = 'set-' . ++$made;

	q_("SELECT gpucredit_eval.create_set('acme', '$set', 'locked', '$set')");
	$dbh->do('SELECT * FROM gpucredit_eval.add_cases(?, ?, ?, ?)', undef, 'acme', $set, $json->encode([ map { { name => "c$_", task => $cases[$_]{check}{metric}, input => { requests => [
		map { { context => 'q', continuation => $_ } } @{ $cases[$_]{texts} } ] }, checks => [ $cases[$_]{check} ] } } 0 .. $#cases ]), "$set cases");
	q_(qq{SELECT gpucredit_eval.freeze_set('acme', '$set', '$set freeze'), gpucredit_eval.set_config('acme', '$set', '{"sets": ["$set"]}', '$set config')});
	my $run = q_(qq{SELECT run FROM gpucredit_eval.start_run('acme', 'nlp', '$set run', '$set', 'model', 'development')});
	my %case = map { split /\|/ } split /\n/, q_(qq{SELECT c.name, c."case" FROM gpucredit_eval.lease_cases('acme', $run, 'w', 1000, '10 min') l
		JOIN gpucredit_eval.golden_case c ON c.org = 'acme' AND c."case" = l."case"});
	return ($run, map { $case{"c$_"} } 0 .. $#cases);
}

# Reports that a check passes or not; returns what stands.
sub report
{
	my ($run, $case, $type, $output, $pass) = @_;
	my $report = $dbh->prepare_cached(q{SELECT score FROM gpucredit_eval.report('acme', ?, ?, 1, ?, ?, ?)});

	$report->bind_param(1, $run);
	$report->bind_param(2, $case);
	$report->bind_param(3, $output, { pg_type => DBD::Pg::PG_BYTEA() });
	$report->bind_param(4, $json->encode([ { type => $type, pass => $pass ? JSON::PP::true : JSON::PP::false, score => $pass ? 1 : 0 } ]));
	$report->bind_param(5, $usage);
	$report->execute;
	my ($score) = $report->fetchrow_array;
	$report->finish;
	return $score > 0 ? 1 : 0;
}

# the worker's own code, of cases that are made up
my $seed = $ENV{GC_SEED} || time;
note("GC_SEED=$seed");
open(my $pipe, '-|', 'node', "$FindBin::RealBin/lib/likelihoods.mjs", $seed, 400) or die "could not run node: $!";
my @lines = <$pipe>;
ok(close($pipe) && @lines == 400, 'cases are made up') or die;
my @cases = map { $json->decode($_) } @lines;
my ($run, @numbers) = begin(@cases);
my @wrong = grep { my $one = $cases[$_]; my $type = $one->{check}{type};
	report($run, $numbers[$_], $type, $one->{output}, !$one->{pass}) != ($one->{pass} ? 1 : 0) } 0 .. $#cases;
is(scalar(@wrong), 0, 'what a worker reports wrongly is decided as its own code decides it') or diag(map { $lines[$_] } @wrong[ 0 .. ($#wrong < 4 ? $#wrong : 4) ]);
my $passing = grep { $_->{pass} } @cases;
cmp_ok($passing, '>', 40, "$passing of them pass");
cmp_ok($passing, '<', 360, 'and others do not');
is(q_(q{SELECT count(*) FROM gpucredit_eval.event WHERE operation = 'checks_differ'}), '400', 'each difference is recorded');
($run, @numbers) = begin(@cases);
@wrong = grep { report($run, $numbers[$_], $cases[$_]{check}{type}, $cases[$_]{output}, $cases[$_]{pass}) != ($cases[$_]{pass} ? 1 : 0) } 0 .. $#cases;
is(scalar(@wrong), 0, 'what it reports rightly stands');
is(q_(q{SELECT count(*) FROM gpucredit_eval.event WHERE operation = 'checks_differ'}), '400', 'and differs from nothing');

# an output that has no likelihoods passes nothing, whatever the worker says
my @bad = ('', 'yes', '[]', '{}', '[1, 2]', '[{}, {}]', '[{"logprob": "0"}, {"logprob": 0}]', '[{"logprob": 0}]', '[{"logprob": 0}, {"logprob": -1}, {"logprob": -2}]',
	'[{"logprob": 0}, {"logprob": -1}', '[[{"logprob": 0}], {"logprob": -1}]', '{"logprob": 0}', ('[' x 10000) . (']' x 10000), "[{\"logprob\": 0}, \"\xff\"]");
($run, @numbers) = begin(map { { check => { type => 'multiple_choice', metric => 'acc', choices => [ 'a', 'b' ], value => 0 }, texts => [ 'a', 'b' ] } } @bad);
is(report($run, $numbers[$_], 'multiple_choice', $bad[$_], 1), 0, 'no likelihoods: ' . substr($bad[$_] =~ s/\xff/\\xff/r, 0, 60)) foreach 0 .. $#bad;
($run, @numbers) = begin(map { { check => { type => 'loglikelihood', metric => 'acc' }, texts => ['a'] } } 1 .. 3);
is(report($run, $numbers[0], 'loglikelihood', '[{"logprob": 0, "greedy": null}]', 1), 0, 'nor does one of which it is not known whether it is the likeliest');
is(report($run, $numbers[1], 'loglikelihood', '[{"logprob": 0, "greedy": false, "greedy": true}]', 0), 1, 'the last of two members counts');
is(report($run, $numbers[2], 'loglikelihood', '[{"logprob": -1e400, "greedy": true}]', 0), 1, 'a number beyond all doubles is none beyond a worker');
eval_verify($node);
done_testing();
