# drift.pl: do production's scores drift?
use strict;
use warnings;
use DBD::Pg qw(:async);
use FindBin;
use lib "$FindBin::RealBin/lib";
use GpuCreditEval;
use GpuCredit;
use Test::More;

my $node = eval_node('drift', 'max_prepared_transactions = 2');

sub q_ { return query($node, 'eval', $_[0]) }
sub fails { return query_fails($node, 'eval', @_) }

q_(q{SELECT gpucredit_eval.create_set('acme', 's', 'live', 'k1')});
add_cases($node, 'acme', 's', 'k2', { input => 'q', checks => [ { type => 'regex' } ] });
q_(q{SELECT gpucredit_eval.set_config('acme', 'c', '{"sets": ["s"]}', 'k3');
	SELECT gpucredit_eval.set_stream('acme', 'chat', 'c', 1000, 0.8, 0.1)});
my $observe = q{SELECT z, lower, upper, signal FROM gpucredit_eval.observe('acme', '%s', '%s', %s)};

# by hand: lambda 0.1, width 2.7: z = 0.1 * 0.9 + 0.9 * 0.8;
# limits 0.8 -+ 0.27 * sqrt(0.1 / 1.9 * (1 - 0.9^2)) = 0.8 -+ 0.027
is(q_(sprintf($observe, 'chat', 'r1', 0.9)), '0.810000000000|0.773000000000|0.827000000000|f', 'a first score');
is(q_(sprintf($observe, 'chat', 'r1', 0.1)), '0.810000000000|0.773000000000|0.827000000000|f',
	'a repeated request counts once');
is(q_(sprintf($observe, 'chat', 'r2', 0.8)), '0.809000000000|0.763675215073|0.836324784927|f', 'the limits widen');
is(q_(q{SELECT t, z FROM gpucredit_eval.stream_state('acme', 'chat')}), '2|0.809000000000', 'where it stands');
my $listener = connect_to($node, 'eval');
$listener->do('LISTEN gpucredit_eval_drift');
q_(sprintf($observe, 'chat', "bad$_", 0.2)) foreach 1 .. 3;
is(join(' ', (next_notification($listener))[0, 2]),
	'gpucredit_eval_drift ' . q_(q{SELECT event FROM gpucredit_eval.event WHERE operation = 'drift'}),
	'any login may hear of it, and hears the number of the event alone');
is(q_(q{SELECT signal FROM gpucredit_eval.stream_state('acme', 'chat')}), 't', 'bad scores signal');
is(q_(q{SELECT count(*), min(detail ->> 'stream') FROM gpucredit_eval.event WHERE operation = 'drift'}), '1|chat',
	'which is recorded once');
q_(sprintf($observe, 'chat', "good$_", 0.8)) foreach 1 .. 30;
is(q_(q{SELECT signal FROM gpucredit_eval.stream_state('acme', 'chat')}), 'f', 'good ones end it');
q_('SET gpucredit.notify_queue_limit = 0; ' . sprintf($observe, 'chat', "worse$_", 0)) foreach 1 .. 5;
$listener->do('SELECT 1');
is($listener->pg_notifies, undef, 'where gpucredit sends no notification, as with a full queue, a signal is recorded all the same');
q_(q{BEGIN;
	SAVEPOINT a;
	SELECT gpucredit_eval.notify_number('gpucredit_eval_drift', 1);
	ROLLBACK TO a;
	SAVEPOINT b;
	SELECT gpucredit_eval.notify_number('gpucredit_eval_drift', 2);
	RELEASE b;
	COMMIT});
is((next_notification($listener))[2], '2', 'what was rolled back to a savepoint is not notified of, what was released is');
q_(q{BEGIN;
	SELECT gpucredit_eval.notify_number('gpucredit_eval_drift', 3);
	PREPARE TRANSACTION 'drifts';
	COMMIT PREPARED 'drifts';
	SELECT gpucredit_eval.notify_number('gpucredit_eval_drift', 4)});
is((next_notification($listener))[2], '4', 'a transaction with a notification can be prepared, and sends none');
$listener->disconnect;
is(q_(q{SELECT count(*) FROM gpucredit_eval.event WHERE operation = 'drift'}), '2', 'the next signal is another');

# steady scores do not signal, whatever their number
q_(q{SELECT gpucredit_eval.set_stream('acme', 'steady', 'c', 1, 0.5, 0.5)});
q_(q{SELECT count(gpucredit_eval.observe('acme', 'steady', i::text, i % 2)) FROM generate_series(1, 1000) i});
is(q_(q{SELECT t, signal, upper - lower FROM gpucredit_eval.stream_state('acme', 'steady')}), '1000|f|0.619422481450',
	'steady scores stay within');

# which requests are judged
is(q_(q{SELECT count(*) BETWEEN 8 AND 40 FROM generate_series(1, 20000) i
	WHERE gpucredit_eval.sampled('acme', 'chat', 'request ' || i)}), 't', 'one in a thousand is judged');
is(q_(q{SELECT bool_and(gpucredit_eval.sampled('acme', 'chat', 'r' || i) = gpucredit_eval.sampled('acme', 'chat', 'r' || i))
	FROM generate_series(1, 100) i}), 't', 'always the same ones');
is(q_(q{SELECT gpucredit_eval.sampled('acme', 'steady', 'x')}), 't', 'one in one is all');

# bad input
fails(sprintf($observe, 'none', 'r', 0.5), 'UC601', 'no such stream');
fails(sprintf($observe, 'chat', 'r', $_), '22023', "$_ is no score") foreach -0.1, 1.1, "'NaN'", 'NULL', '0.' . '1' x 13;
fails(sprintf($observe, 'chat', $_, 0.5), '22023', 'no request') foreach '', 'x' x 256;
fails("SELECT gpucredit_eval.set_stream('acme', 'x', 'c', $_)", '22023', "no stream: $_")
  foreach '0, 0.5, 0.1', '1, 2, 0.1', '1, 0.5, 0', '1, 0.5, 0.1, 0', '1, 0.5, 0.1, 2', '1, 0.5, 0.1, 0.1, 0',
  'NULL, 0.5, 0.1', "1, 'NaN', 0.1";
fails(q{SELECT gpucredit_eval.set_stream('acme', 'x', 'none', 1, 0.5, 0.1)}, 'UC601', 'no such config');

# requests of production that a judge rates
q_(q{SELECT gpucredit_eval.set_config('acme', 'judged', '{"sets": ["s"], "judge": {"endpoint": "judge", "model": "j",
	"max_response_bytes": 100, "max_tokens": 50}}', 'k9');
	SELECT gpucredit_eval.set_stream('acme', 'online', 'judged', 1, 0.8, 0.1),
		gpucredit_eval.set_stream('acme', 'rare', 'judged', 1000000000, 0.8, 0.1)});
my $hand_in = q{SELECT status, reason, replayed FROM gpucredit_eval.start_observation('acme', '%s', '%s', '"why?"', '%s', 'good')};
my $judged = q{SELECT score, cost, z, signal, replayed FROM gpucredit_eval.finish_observation('acme', 'online', '%s', %s, %s)};
my $answers = q{ARRAY['{"score": 4, "reason": ""}', 'prose', '{"score": 5, "reason": ""}']::bytea[]};
my $usages = q{ARRAY['{"prompt_tokens": 100, "completion_tokens": 10}', NULL, '{"prompt_tokens": 100, "completion_tokens": 10}']::jsonb[]};
is(q_(sprintf($hand_in, 'rare', 'r', 'x')), 'skipped||f', 'most requests are not judged');
is(q_(sprintf($hand_in, 'online', 'r1', 'x')), 'granted||f', 'a request is handed in');
is(q_(sprintf($hand_in, 'online', 'r1', 'x')), 'granted||t', 'once');
fails(sprintf($hand_in, 'online', 'r1', 'y'), 'UC201', 'not with another answer');
# 4,096 bytes of template, 4 of rubric, 6 of input, 100 of output and the frame; three samples
is(q_(q{SELECT held FROM gpucredit.balance('acme')}), q_('SELECT round(3 * ((4096 + 4 + 6 + 100 + 256) * 3 + 50 * 6) / 1000000.0, 6)'),
	'what its judge may cost is held');
fails(sprintf($judged, 'r2', $answers, $usages), 'UC603', 'a request that was not handed in');
fails(sprintf($judged, 'r1', q{'{a}'}, q{'{NULL}'}), '22023', 'three samples are due');
is(q_(sprintf($judged, 'r1', $answers, $usages)) =~ s/(\.\d*?)0+\|/$1|/gr, '0.75|0.014406|0.795|f|f', 'the median is observed, a call without usage counts in full');
is(q_(sprintf($judged, 'r1', 'NULL', 'NULL')) =~ s/(\.\d*?)0+\|/$1|/gr, '0.75|0.014406|0.795|f|t', 'once');
is(q_(sprintf($hand_in, 'online', 'r1', 'x')), 'done||t', 'it is done');
is(q_(q{SELECT held, spent FROM gpucredit.balance('acme')}), '0.000000|0.014406', 'and paid');
q_(sprintf($hand_in, 'online', 'r3', 'x'));
is(q_(sprintf($judged, 'r3', q{'{NULL,NULL,a}'}, q{ARRAY[NULL, NULL, NULL]::jsonb[]})) =~ s/\|.*//r, '', 'a judge that failed observes nothing');
is(q_(q{SELECT t FROM gpucredit_eval.stream_state('acme', 'online')}), '1', 'one score is in the stream');
fails(sprintf($hand_in, 'steady', 'r', 'x'), 'UC602', 'a config without a judge');

# the same request in two transactions at once: the second waits for the first
my ($first, $second) = map { connect_to($node, 'eval') } 1, 2;
my $holds = q{SELECT count(*) FROM gpucredit.holds WHERE org = 'acme' AND closed_at IS NULL};

foreach my $end ('commit', 'rollback')
{
	my $before = q_($holds);
	$first->begin_work;
	$first->do(sprintf($hand_in, 'online', "twin $end", 'x'));
	my $twin = $second->prepare(sprintf($hand_in, 'online', "twin $end", 'x'), { pg_async => PG_ASYNC });
	$twin->execute;
	ok($node->poll_query_until('eval', "SELECT cardinality(pg_blocking_pids($second->{pg_pid})) > 0"),
		'the same request in another transaction waits');
	$first->$end;
	$second->pg_result;
	is($twin->fetchrow_arrayref->[2] ? 'found' : 'new', $end eq 'commit' ? 'found' : 'new', "and after $end it is handed in once");
	is(q_($holds) - $before, 1, 'with one hold');
	$twin->finish;
}
$second->do('BEGIN ISOLATION LEVEL REPEATABLE READ');
$second->do('SELECT count(*) FROM gpucredit_eval.online');
q_(sprintf($hand_in, 'online', 'seen later', 'x'));
is(eval { $second->do(sprintf($hand_in, 'online', 'seen later', 'x')); 'none' } // $second->state, '40001',
	'a transaction that cannot see the other\'s row has to be repeated');
$second->do('ROLLBACK');
my $all = q_(q{SELECT hold FROM gpucredit.hold('acme', '', 'all of it', (SELECT available FROM gpucredit.balance('acme')), '1 hour')});
is(q_(sprintf($hand_in, 'online', 'dear', 'x')), 'denied|insufficient_credits|f', 'what the account cannot pay is denied');
q_("SELECT gpucredit.release('acme', $all, 'all of it again')");
is(q_(sprintf($hand_in, 'online', 'dear', 'x')), 'granted||f', 'and granted when it can');

# eight observers at once: each score counts once, in some order
q_(q{SELECT gpucredit_eval.set_stream('acme', 'busy', 'c', 1, 0.5, 0.5)});
is(wait_for_children(in_parallel(8, sub {
	my ($n) = @_;
	my $dbh = connect_to($node, 'eval');

	$dbh->do(q{SELECT gpucredit_eval.observe('acme', 'busy', ?, 0.5)}, undef, $_ % 2 ? "$n/$_" : "all/$_")
	  foreach 1 .. 50;
})), 0, 'eight observers');
is(q_(q{SELECT t, z FROM gpucredit_eval.stream_state('acme', 'busy')}), '225|0.500000000000', 'count each request once');
is(q_(q{SELECT count(*), count(DISTINCT t), max(t) FROM gpucredit_eval.observation WHERE stream = 'busy'}),
	'225|225|225', 'in one order');
eval_verify($node);
done_testing();
