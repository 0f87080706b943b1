# money.pl: a run never costs more than its cap, whatever its workers do
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/lib";
use GpuCreditEval;
use GpuCredit;
use Test::More;

my $node = eval_node('money');
my $usage = '{"prompt_tokens": 100, "completion_tokens": 50}';

sub q_ { return query($node, 'eval', $_[0]) }
sub fails { return query_fails($node, 'eval', @_) }

# Each call costs at most 0.001: prices 1 and 2, 500 tokens in, 250 out.
q_(q{SELECT gpucredit_eval.create_set('acme', 'plain', 'locked', 'k1'),
	gpucredit_eval.create_set('acme', 'judged', 'locked', 'k2')});
add_cases($node, 'acme', 'plain', 'k3',
	map { { name => "p$_", input => "question $_", checks => [ { type => 'contains' } ] } } 1 .. 40);
add_cases($node, 'acme', 'judged', 'k4',
	map { { name => "j$_", input => "question $_", rubric => 'good' } } 1 .. 4);
q_(q{SELECT gpucredit_eval.set_config('acme', 'plain', '{"sets": ["plain"], "model":
	{"max_tokens": 250, "max_input_tokens": 500}}', 'k5'),
	gpucredit_eval.set_config('acme', 'judged', '{"sets": ["judged"], "model":
	{"max_tokens": 250, "max_input_tokens": 500}, "judge": {"endpoint": "judge", "model": "j",
	"max_input_tokens": 100, "max_response_bytes": 100, "max_tokens": 50}}', 'k6')});

sub run
{
	my ($key, $config, $cap, $options) = @_;
	my ($run) = split /\|/, q_(sprintf(q{SELECT * FROM gpucredit_eval.start_run('acme', 'nlp', '%s',
		'%s', 'model', 'development', %s, options => '%s')}, $key, $config, $cap, $options // '{}'));

	return $run;
}

sub lease
{
	my ($run, $n, $ttl) = @_;

	return map { [ split /\|/ ] } split /\n/, q_(sprintf(q{SELECT "case", attempt,
		parameters -> 'samples', parameters ? 'output' FROM gpucredit_eval.lease_cases('acme', %d, 'w', %d, '%s')},
			$run, $n, $ttl // '1 min'));
}

sub report
{
	my ($run, $case, $attempt, $output, $reported) = @_;
	my $checks = $case <= 40 ? '[{"type": "contains", "pass": true}]' : '[]';		# those of "plain", and of "judged"

	return q_(sprintf(q{SELECT action, trim_scale(cost), replayed FROM gpucredit_eval.report('acme', %d, %d, %d,
		%s, '%s', %s)}, $run, $case, $attempt, defined $output ? "'$output'" : 'NULL',
			defined $output ? $checks : '{"error": "503"}',
			$reported ? "'$reported'" : 'NULL'));
}

sub judge
{
	my ($run, $case, $sample, $raw, $reported) = @_;

	return q_(sprintf(q{SELECT score, parsed, replayed FROM gpucredit_eval.report_judge('acme', %d, %d, %d,
		%s, %s)}, $run, $case, $sample, defined $raw ? "'$raw'" : 'NULL',
			$reported ? "'$reported'" : 'NULL'));
}

# set at a later time
sub later
{
	my ($seconds) = @_;

	$node->safe_psql('postgres', $seconds
		? sprintf(q{ALTER DATABASE eval SET gpucredit.clock = '%s'},
			$node->safe_psql('postgres', "SELECT now() + interval '$seconds s'"))
		: 'ALTER DATABASE eval RESET gpucredit.clock');
	return;
}

sub state
{
	my ($run) = @_;

	return q_("SELECT state, trim_scale(spent), trim_scale(set_aside), trim_scale(captured)
		FROM gpucredit_eval.run_state('acme', $run)");
}

# the cap: three of forty fit; what a report frees lets a fourth in
my $run = run('r1', 'plain', '0.0035');
my @cases = lease($run, 10);
is(scalar @cases, 3, 'as many cases are leased as the cap allows');
is(scalar lease($run, 10), 0, 'no more');
is(state($run), 'running|0|0.003|0', 'the run waits for those under way');
is(report($run, $cases[0][0], 1, 'x', $usage), 'done|0.0002|f', 'a report costs less than was set aside');
is(scalar lease($run, 10), 1, 'so that another fits');
is(report($run, $cases[1][0], 1, 'x', undef), 'done|0.001|f', 'an unknown usage counts in full');
is(report($run, $cases[2][0], 1, 'x', undef), 'done|0.001|f', 'each time');
is(scalar lease($run, 10), 0, 'what is left does not suffice');
is(report($run, $cases[2][0] + 1, 1, 'x', $usage), 'done|0.0002|f', 'the last case under way');
is(scalar lease($run, 1), 1, 'a last one fits');
is(report($run, $cases[2][0] + 2, 1, 'x', undef), 'done|0.001|f', 'and takes nearly all');
my $listener = connect_to($node, 'eval');
$listener->do('LISTEN gpucredit_eval_paused');
is(scalar lease($run, 1), 0, 'nothing fits');
is(join(' ', (next_notification($listener))[0, 2]), 'gpucredit_eval_paused '
	  . q_(q{SELECT event FROM gpucredit_eval.event WHERE operation = 'pause_run' AND org = 'acme'}),
	'with a notification, which any login may hear: only the number of the event');
$listener->disconnect;
is(state($run), 'paused|0.0034|0|0.0034', 'the run is paused');
is(q_(q{SELECT count(*) FROM gpucredit_eval.event WHERE operation = 'pause_run'}), '1', 'once');
is(q_(q{SELECT gpucredit_eval.verdict('acme', 1)}), 'inconclusive', 'and decides nothing');
fails(q{SELECT gpucredit_eval.raise_cap('acme', 1, 'c0', 0.001)}, '22023', 'a lower cap');
is(q_(q{SELECT status, reason FROM gpucredit_eval.raise_cap('acme', 1, 'c0', 100000)}),
	'denied|insufficient_credits', 'a cap without credit');
is(q_(q{SELECT status, replayed FROM gpucredit_eval.raise_cap('acme', 1, 'c1', 0.0100)}), 'granted|f',
	'the cap is raised');
is(q_(q{SELECT status, replayed FROM gpucredit_eval.raise_cap('acme', 1, 'c1', 0.01)}), 'granted|t', 'once');
is(scalar lease($run, 100), 6, 'and the run goes on');
is(q_(q{SELECT state, replayed FROM gpucredit_eval.cancel_run('acme', 1, 'x1')}), 'cancelled|f', 'a run is cancelled');
is(q_(q{SELECT state, replayed FROM gpucredit_eval.cancel_run('acme', 1, 'x1')}), 'cancelled|t', 'once');
is(state($run), 'cancelled|0.0094|0|0.0094', 'calls under way count as spent');
is(report($run, $cases[2][0] + 3, 1, 'x', $usage), 'done|0|t' =~ s/0/0.001/r, 'a late report changes nothing');
is(q_(q{SELECT count(*) FROM gpucredit_eval.event WHERE operation = 'late_report'}), '1', 'and is recorded');
fails(q{SELECT gpucredit_eval.raise_cap('acme', 1, 'c2', 1)}, 'UC602', 'a run that has ended');
is(q_(q{SELECT held FROM gpucredit.balance('acme', 'nlp')}), '0.000000', 'nothing is held any more');

# a worker dies: its lease counts as spent, its cases are leased again
$run = run('r2', 'plain', '0.0035');
@cases = lease($run, 2, '30 s');
later(40);
is(join(' ', map { "$$_[0]/$$_[1]" } lease($run, 10)), "$cases[0][0]/2", 'a lost case is leased again, if it fits');
is(state($run), 'running|0|0.003|0', 'for a further set-aside');
is(report($run, $cases[0][0], 2, 'x', $usage), 'done|0.0002|f', 'its second worker reports');
is(report($run, $cases[0][0], 1, 'y', $usage), 'done|0.0002|t', 'the first one, late: the first report stands');
is(state($run), 'running|0.0004|0.001|0.0004', 'what its calls cost counts');
is(report($run, $cases[1][0], 1, 'x', $usage), 'done|0.0002|f', 'a late report that is the first stands');
later(0);
is(q_(qq{SELECT state FROM gpucredit_eval.cancel_run('acme', $run, 'x2')}), 'cancelled', 'cancelled');
is(state($run), 'cancelled|0.0006|0|0.0006', 'each call counts once');

# a usage beyond what a call can cost: the run is stopped, and its owner learns why
$run = run('over', 'plain', '0.01');
@cases = lease($run, 3);
is(report($run, $cases[0][0], 1, 'x', '{"prompt_tokens": 9000000, "completion_tokens": 9}'), 'done|0.001|f',
	'a usage that is larger than can be counts in full');
is(q_(q{SELECT detail ->> 'bound' FROM gpucredit_eval.event WHERE operation = 'cost_over_bound'}) + 0, 0.001, 'is recorded');
is(q_("SELECT state, problem, trim_scale(captured) FROM gpucredit_eval.run_state('acme', $run)"), 'cancelled|over_bound|0.003',
	'and stops the run; calls under way count in full');
is(q_("SELECT \"case\", endpoint, usage ->> 'prompt_tokens', trim_scale(cost), trim_scale(bound) FROM gpucredit_eval.overruns('acme', $run)"),
	"$cases[0][0]|model|9000000|9.000018|0.001", 'its owner sees which call it was');
is(q_("SELECT DISTINCT reason FROM gpucredit_eval.gate('acme', $run)"), 'over_bound', 'and why nothing is decided');
is(scalar lease($run, 10), 0, 'no more cases are leased');

# what is declared of a prompt is no less than a token of 16 bytes, and what is sent beside it counts
q_(q{SELECT gpucredit_eval.create_set('acme', 'long', 'locked', 'k7')});
add_cases($node, 'acme', 'long', 'k8', { name => 'l', input => 'x' x 158, checks => [ { type => 'regex' } ] });
my @configs = ('{"max_tokens": 1, "max_input_tokens": 1}', '{"max_tokens": 1, "response_format": {"type": "json_object"}}',
	'{"max_tokens": 1, "parameters": {"logit_bias": {"50256": -100}}}',
	'{"max_tokens": 1, "parameters": {"tools": [{"type": "function", "function": {"name": "f"}}]}}');
foreach my $n (0 .. 3)
{
	q_(qq{SELECT gpucredit_eval.set_config('acme', 'long$n', '{"sets": ["long"], "model": $configs[$n]}', 'long$n')});
	$run = run("run long$n", "long$n", 1);
	is(q_("SELECT trim_scale(max_cost * 1000000) FROM gpucredit_eval.lease_cases('acme', $run, 'w', 1, '1 min')"),
		(12, 160 + 256 + 23 + 2, 160 + 256 + 31 + 2, 160 + 256 + 60 + 2)[$n], "what a call may cost: $configs[$n]");
	q_("SELECT gpucredit_eval.cancel_run('acme', $run, 'x long$n')");
}

# parameters that multiply what a call costs
q_('CREATE ROLE boss LOGIN IN ROLE gpucredit_admin; CREATE ROLE app LOGIN IN ROLE gpucredit_app');
foreach my $parameters ('{"n": 100}', '{"N": 100}', '{"best_of": 5}', '{"max_completion_tokens": 100000}', '{"max_tokens": 9}', '{"stream": true}',
	'{"messages": []}', '{"model": "gpt-9"}', '{"tools": []}', '[]', '"n"',
	'{"functions": [{"name": "f"}]}', '{"tools": [{"type": "web_search"}]}', '{"tools": {"type": "function", "function": {"name": "f"}}}',
	'{"tools": [{"type": "function", "function": {"name": "f"}}, {"type": "code_interpreter", "function": {"name": "f"}}]}',
	'{"tools": [{"type": "function", "function": {}}]}', '{"tools": [{"type": "function", "function": {"name": "f"}, "container": "auto"}]}')
{
	fails(qq{SET ROLE $_; SELECT gpucredit_eval.set_config('acme', 'n', '{"sets": ["long"], "model": {"parameters": $parameters}}', 'n')},
		'22023', "$_ may not send $parameters") foreach qw(app boss);
}
my $unknown = q{SET ROLE %s; SELECT version FROM gpucredit_eval.set_config('acme', 'n', '{"sets": ["long"], "model": {"parameters": {"turbo": true}}}', 'n')};
fails(sprintf($unknown, 'app'), '42501', 'what an unknown parameter costs nobody knows');
is(q_(sprintf($unknown, 'boss')), '1', 'an administrator may send it');

# failures: three attempts, then the case has an error
$run = run('r3', 'judged', '1');
@cases = lease($run, 1);
is(report($run, $cases[0][0], 1, undef, '{"prompt_tokens": 0, "completion_tokens": 0}'), 'retry|0|f',
	'a failed call is to be done again');
is(report($run, $cases[0][0], 1, undef, '{"prompt_tokens": 0, "completion_tokens": 0}'), 'retry|0|t', 'once');
is(report($run, $cases[0][0], 1, 'x', $usage), 'retry|0|t', 'a success of the same attempt comes too late');
is(join(' ', map { "$$_[0]/$$_[1]" } lease($run, 1)), "$cases[0][0]/2", 'it is leased at once');
is(report($run, $cases[0][0], 2, 'answer', $usage), 'judge|0.0002|f', 'and answered');
is(judge($run, $cases[0][0], 1, '{"score": 5, "reason": ""}', $usage), '5|t|f', 'the judge answers');
is(judge($run, $cases[0][0], 2, undef, undef), '|f|f', 'then fails');
my @again = lease($run, 1);
is("@{$again[0]}", "$cases[0][0] 3 [2, 3] t", 'only the samples that are missing are leased');
is(judge($run, $cases[0][0], 2, undef, undef), '|f|f', 'the judge fails again');
is((lease($run, 1))[0][0], $cases[0][0] + 1, 'and the case is given up: the next is leased');
is(q_(qq{SELECT score, error FROM gpucredit_eval.result WHERE run = $run AND "case" = $cases[0][0]}),
	'0|the judge failed', 'with an error');
is(q_(qq{SELECT errors FROM gpucredit_eval.run_state('acme', $run)}), '1', 'that is counted');
foreach my $n (1 .. 3)
{
	my ($case) = $n == 1 ? $cases[0][0] + 1 : (lease($run, 1))[0][0];

	report($run, $case, 1, 'x', $usage);
	judge($run, $case, $_, '{"score": 5, "reason": ""}', $usage) foreach 3, 1, 2;
}
like(state($run), qr/^finished\|/, 'the run ends');
is(q_(qq{SELECT reason, passes FROM gpucredit_eval.gate('acme', $run)}), 'errors|', 'but decides nothing');

# the hold has ended before the costs were taken over
$run = run('r4', 'plain', '1', '{"ttl": "5 min"}');
@cases = lease($run, 3, '10 min');
is(q_("SELECT deadline > now() + interval '10 min' FROM gpucredit_eval.run WHERE run = $run"), 't',
	'a hold outlives its leases');
later(3 * 86400);
is(report($run, $cases[0][0], 1, 'x', $usage), 'done|0.0002|f', 'a report after the hold has ended');
is(state($run), 'running|0.0002|0.002|0.0002', 'is paid by a new hold');
is(scalar lease($run, 5), 0, 'but nothing more is leased');
like(state($run), qr/^paused/, 'the run is paused');
is(q_("SELECT status FROM gpucredit_eval.raise_cap('acme', $run, 'c4', 2)"), 'granted', 'until it gets a new hold');
is(scalar lease($run, 5), 5, 'and goes on');
later(0);
q_("SELECT gpucredit_eval.cancel_run('acme', $run, 'x4')");

# own replicas: their job's hold is within the cap
q_(q{SELECT gpucredit.create_pool('eval-gate'), gpucredit.create_pool('eval-nightly'),
	gpucredit.set_price('A100', 2);
	SELECT gpucredit.register_node('eval-nightly', 'n1', 'A100', 4, 40960)});
is(q_(q{SELECT status, reason FROM gpucredit_eval.start_run('acme', 'nlp', 'g0', 'plain', 'model', 'development',
	2, options => '{"gpu": {"request": "1xA100", "wall_limit": "1 hour"}}')}), 'denied|cap_exceeded',
	'a GPU job that takes the whole cap');
is(q_(q{SELECT status, held FROM gpucredit_eval.start_run('acme', 'nlp', 'g1', 'plain', 'model', 'development',
	5, options => '{"gpu": {"request": "1xA100", "wall_limit": "1 hour"}}')}), 'granted|5.000000',
	'a run with a GPU job holds its cap');
is(q_(q{SELECT held FROM gpucredit.balance('acme', 'nlp')}), '5.000000', 'and no more');
my ($with_gpu, $job) = split /\|/, q_(q{SELECT run, gpu_job FROM gpucredit_eval.run ORDER BY run DESC LIMIT 1});
is(q_(q{SELECT count(*) FROM gpucredit.place('eval-nightly')}), '1', 'the job is placed');
q_("SELECT gpucredit_eval.cancel_run('acme', $with_gpu, 'x5')");
q_("SELECT gpucredit.settle('acme', $job, 1, 'cancelled', '0')");
is(q_("SELECT state FROM gpucredit.job WHERE org = 'acme' AND job = $job"), 'cancelled',
	'and cancelled with the run');
is(q_(q{SELECT held FROM gpucredit.balance('acme', 'nlp')}), '0.000000', 'nothing is held any more');
eval_verify($node);

# A slow worker's case is leased to another, then both report: the first answer
# is judged, and both calls are paid.
my $verdict = '{"score": 5, "reason": ""}';
foreach my $late (1, 3)
{
	$run = run("two $late", 'judged', 1);
	my ($case) = map { $_->[0] } lease($run, 1, '1 s');
	later(10);
	is(join(' ', map { "@$_[0, 1]" } lease($run, 1, '1 h')), "$case 2", 'the case has a second worker');
	is(report($run, $case, 1, 'x', $usage), 'judge|0.0002|f', 'the first reports');
	is(judge($run, $case, $_, $verdict, $usage), '5|t|f', "sample $_") foreach 1 .. $late;
	is(report($run, $case, 2, 'y', $usage), $late == 3 ? 'done|0.0002|t' : 'judge|0.0002|t', 'the second, too');
	is(judge($run, $case, $_, $verdict, $usage), '5|t|f', "sample $_") foreach $late + 1 .. 3;
	is(q_("SELECT score = 1, output FROM gpucredit_eval.result WHERE run = $run"), 't|\\x78', 'the first answer is judged');
	# a call that nobody reported before the case was done counts in full
	is(q_("SELECT string_agg(state || ' ' || trim_scale(cost), ', ' ORDER BY attempt) FROM gpucredit_eval.lease
		WHERE run = $run"), 'lost 0.0002, closed ' . ($late == 3 ? '0.0028' : '0.002'), 'both calls are paid');
	later(0);
	q_("SELECT gpucredit_eval.cancel_run('acme', $run, 'end two $late')");
	eval_verify($node);
}

# eight reports of one case at once, of both its leases
$run = run('race', 'judged', 1);
my ($raced) = map { $_->[0] } lease($run, 1, '1 s');
later(10);
lease($run, 1, '1 h');
later(0);
is(wait_for_children(in_parallel(8, sub {
	my ($n) = @_;

	again(connect_to($node, 'eval'), q{SELECT gpucredit_eval.report('acme', ?, ?, ?, 'x', '[]',
		'{"prompt_tokens": 100, "completion_tokens": 50}')}, $run, $raced, 1 + $n % 2);
})), 0, 'eight reports of one case');
is(q_("SELECT count(*), min(trim_scale(cost)), max(trim_scale(cost)) FROM gpucredit_eval.lease WHERE run = $run"),
	'2|0.0002|0.0002', 'each lease is charged once');
is(judge($run, $raced, $_, $verdict, $usage), '5|t|f', "and the judge is asked, sample $_") foreach 1 .. 3;
q_("SELECT gpucredit_eval.cancel_run('acme', $run, 'end race')");

# a judge that costs nothing is asked all the same
q_(q{SELECT gpucredit_eval.set_endpoint('acme', 'free', 'http://127.0.0.1:3', 0, 0, NULL),
	gpucredit_eval.set_config('acme', 'free', '{"sets": ["judged"], "model": {"max_tokens": 250,
	"max_input_tokens": 500}, "judge": {"endpoint": "free", "model": "j"}}', 'free')});
$run = run('free run', 'free', 1);
@cases = lease($run, 1);
is(report($run, $cases[0][0], 1, 'x', $usage), 'judge|0.0002|f', 'a judge without a price is to be asked');
is(judge($run, $cases[0][0], 1, $verdict, $usage), '5|t|f', 'and answers');
q_("SELECT gpucredit_eval.cancel_run('acme', $run, 'end free')");
eval_verify($node);

# Eight workers, which lose three leases in ten, at each isolation level
foreach my $level ('read committed', 'repeatable read', 'serializable')
{
	$run = run("w $level", 'plain', '0.0205');
	my $bad = wait_for_children(in_parallel(8, sub {
		my ($n) = @_;
		my $dbh = connect_to($node, 'eval', user => 'worker');
		my $idle = 0;

		srand($n);
		$dbh->do("SET default_transaction_isolation = '$level'");
		while ($idle < 25)
		{
			my $rows = again($dbh, q{SELECT "case", attempt FROM
				gpucredit_eval.lease_cases('acme', ?, 'w', 2, '1 s')}, $run);

			foreach my $row (@$rows)
			{
				next if rand() < 0.3;
				again($dbh, q{SELECT gpucredit_eval.report('acme', ?, ?, ?, 'x', '[{"type": "contains", "pass": true}]',
					'{"prompt_tokens": 100, "completion_tokens": 50}')}, $run, @$row);
			}
			$idle = @$rows ? 0 : $idle + 1;
			select undef, undef, undef, 0.1 unless @$rows;
		}
	}));

	is($bad, 0, "eight workers at $level");
	like(state($run), qr/^(finished|paused)\|/, 'end with the run, or with its cap');
	is(q_("SELECT spent + set_aside <= cap AND captured = round(spent, 6)
		FROM gpucredit_eval.run WHERE run = $run"), 't', 'within its cap, all captured');
	is(q_(qq{SELECT count(*) FROM (SELECT "case" FROM gpucredit_eval.result WHERE run = $run AND error IS NULL
		EXCEPT SELECT "case" FROM gpucredit_eval.lease WHERE run = $run AND finishes) x}), '0',
		'each result is of a lease');
	q_("SELECT gpucredit_eval.cancel_run('acme', $run, 'xw $level')");
	eval_verify($node);
}
done_testing();

# A statement's rows; after a serialization failure it is repeated.
sub again
{
	my ($dbh, $sql, @arguments) = @_;

	for (1 .. 200)
	{
		my $rows = eval { $dbh->selectall_arrayref($sql, undef, @arguments) };

		return $rows if $rows;
		die $@ unless $dbh->state =~ /^40(001|P01)$/;
	}
	die "a statement was not carried out in 200 tries\n";
}
