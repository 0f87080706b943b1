# crash.pl: the server dies in the middle of a run; a run in a dump goes on
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/lib";
use GpuCreditEval;
use GpuCredit;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = eval_node('crash');
my $cases = 300;

sub q_ { return query($node, 'eval', $_[0]) }

q_(q{SELECT gpucredit_eval.create_set('acme', 's', 'locked', 'k1')});
add_cases($node, 'acme', 's', 'k2', map { { name => "c$_", input => "q$_", checks => [ { type => 'regex' } ] } } 1 .. $cases);
q_(q{SELECT gpucredit_eval.set_config('acme', 'c', '{"sets": ["s"], "max_attempts": 10,
	"model": {"max_tokens": 100, "max_input_tokens": 100}}', 'k3');
	SELECT gpucredit_eval.start_run('acme', 'nlp', 'k4', 'c', 'model', 'development', 1)});

# Workers that continue after each crash.  Answers are counted outside, so that
# repeated calls show.
my $done = PostgreSQL::Test::Utils::tempdir() . '/reported';
my @workers = in_parallel(4, sub {
	my ($n) = @_;
	my $dbh;

	open(my $log, '>>', $done) or die "$done: $!";
	$log->autoflush;
	for (1 .. 4000)
	{
		my $ok = eval {
			$dbh ||= connect_to($node, 'eval', user => 'worker');
			my $rows = $dbh->selectall_arrayref(q{SELECT "case", attempt
				FROM gpucredit_eval.lease_cases('acme', 1, ?, 2, '2 s')}, undef, "w$n");
			foreach my $row (@$rows)
			{
				$dbh->do(q{SELECT gpucredit_eval.report('acme', 1, ?, ?, convert_to('answer ' || ?, 'UTF8'),
					'[{"type": "regex", "pass": true}]', '{"prompt_tokens": 50, "completion_tokens": 10}')}, undef, @$row, $n);
				print $log "$row->[0]\n";		# the server said that it has it
			}
			return if !@$rows && $dbh->selectrow_array(q{SELECT state FROM gpucredit_eval.run_state('acme', 1)}) eq 'finished';
			select undef, undef, undef, 0.05 unless @$rows;
			1;
		};
		return if !$ok && !$@;
		next if $ok;
		undef $dbh;
		select undef, undef, undef, 0.1;
	}
	die "the run does not end\n";
});
foreach my $kill (1 .. $ENV{GC_KILLS} || 4)
{
	select undef, undef, undef, 0.6 + rand;
	kill_server($node);
	$node->start;
	is(q_(q{SELECT * FROM gpucredit_eval.verify() LIMIT 10}), '', "books are right after crash $kill");
}
is(wait_for_children(@workers), 0, 'the workers end the run');
is(q_(q{SELECT state, finished, errors FROM gpucredit_eval.run_state('acme', 1)}), "finished|$cases|0", 'whole');

# no reported case was leased again
my %times;
$times{$_}++ foreach split /\n/, slurp_file($done);
is(scalar(grep { $times{$_} > 1 } keys %times), 0, 'nothing reported is asked again');
is(q_(q{SELECT count(*) FROM gpucredit_eval.result}), $cases, 'each case has one result');
is(q_(q{SELECT round(spent, 6) = captured, spent <= cap FROM gpucredit_eval.run}), 't|t', 'what it cost is captured');
is(q_(q{SELECT spent, held FROM gpucredit.balance('acme', 'nlp')}), q_(q{SELECT captured, '0.000000' FROM gpucredit_eval.run}),
	'to the micro-credit, in the ledger');
eval_verify($node);

# a dump in the middle of a run
my $next = q_(q{SELECT run FROM gpucredit_eval.start_run('acme', 'nlp', 'k5', 'c', 'model', 'development', 1)});
q_(qq{SELECT gpucredit_eval.report('acme', $next, l."case", 1, 'x', '[{"type": "regex", "pass": true}]', NULL)
	FROM gpucredit_eval.lease_cases('acme', $next, 'w', 100, '1 h') l WHERE l."case" % 2 = 0});
my $dump = PostgreSQL::Test::Utils::tempdir() . '/dump';
$node->command_ok([ 'pg_dump', '-Fc', '-f', $dump, $node->connstr('eval') ], 'a dump');
$node->safe_psql('postgres', q{ALTER DATABASE eval RENAME TO old;
	CREATE DATABASE eval ENCODING 'UTF8' TEMPLATE template0});
$node->command_ok([ 'pg_restore', '--exit-on-error', '-d', $node->connstr('eval'), $dump ], 'is restored');
is(q_(q{SELECT count(*), sum(cost) FROM gpucredit_eval.result}),
	$node->safe_psql('old', 'SELECT count(*), sum(cost) FROM gpucredit_eval.result'), 'with all results');
eval_verify($node);
is(q_(qq{SELECT count(*) FROM gpucredit_eval.lease_cases('acme', $next, 'w', 10, '1 min')}), '10', 'and the run goes on');
is(q_(q{SELECT run, replayed FROM gpucredit_eval.start_run('acme', 'nlp', 'k5', 'c', 'model', 'development', 1)}), "$next|t",
	'keys are known');
is(q_(qq{SELECT run > $next FROM gpucredit_eval.start_run('acme', 'nlp', 'k6', 'c', 'model', 'development', 1)}), 't',
	'numbers are not given out again');
eval_verify($node);
done_testing();
