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
is(q_(q{SELECT count(*) FROM gpucredit_eval.event WHERE operation = 'drift_end'}), '1', 'the end of a signal is recorded');

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

# what an offline run has measured
my $run_of = q{SELECT run FROM gpucredit_eval.start_run('acme', '', '%s', '%s', 'model', 'nightly', 5)};

# Starts a run, and reports what a function answers by a case's ordinal: its score and how long its answer is.
sub measure
{
	my ($config, $key, $answer) = @_;
	my $run = q_(sprintf($run_of, $key, $config));

	foreach my $row (map { [ split /\|/ ] } split /\n/, q_(qq{SELECT l."case", l.attempt, c.ordinal
		FROM gpucredit_eval.lease_cases('acme', $run, 'w', 100, '1 min') l JOIN gpucredit_eval.golden_case c USING ("case")}))
	{
		my ($pass, $tokens) = $answer->($row->[2]);

		q_(sprintf(q{SELECT FROM gpucredit_eval.report('acme', %d, %d, %d, 'x', '[{"type": "regex", "pass": %s}]',
			'{"prompt_tokens": 1, "completion_tokens": %d}')}, $run, @$row[0, 1], $pass ? 'true' : 'false', $tokens));
	}
	return $run;
}
q_(q{SELECT gpucredit_eval.create_set('acme', 'twenty', 'locked', 'k4')});
add_cases($node, 'acme', 'twenty', 'k5', map { { name => "case $_", input => $_, checks => [ { type => 'regex' } ] } } 1 .. 20);
q_(q{SELECT gpucredit_eval.set_config('acme', 'off', '{"sets": ["twenty"], "model": {"max_tokens": 50}}', 'k6')});
fails(q{SELECT gpucredit_eval.set_stream('acme', 'off', 'off')}, 'UC602', 'without an offline run there is nothing to compare with');
my $offline = measure('off', 'r1', sub { return ($_[0] > 4, $_[0] > 18 ? 50 : 10) });
is(q_(q{SELECT * FROM gpucredit_eval.set_stream('acme', 'off', 'off', keep => '30 days')}), "$offline|0.800000|0.410391",
	'mu and sigma are what the newest offline run has measured');
is(q_(q{SELECT every FROM gpucredit_eval.stream WHERE stream = 'off'}), '1000', 'one request in a thousand is judged unless somebody says otherwise');
my $even = measure('off', 'r2', sub { return (1, 10) });
is(q_(q{SELECT * FROM gpucredit_eval.set_stream('acme', 'even', 'off')}), "$even|1.000000|0.05", 'a run whose scores are all alike does not make each other score a signal');
is(q_(qq{SELECT from_run FROM gpucredit_eval.set_stream('acme', 'even', 'off', baseline => $offline)}), $offline, 'another run can be named');
fails(qq{SELECT gpucredit_eval.set_stream('acme', 'even', 'off', mu => 0.5, sigma => 0.1, baseline => $offline)}, '22023', 'not beside given figures');
fails(q{SELECT gpucredit_eval.set_stream('acme', 'even', 'off', mu => 0.5)}, '22023', 'nor one figure without the other');
fails(q{SELECT gpucredit_eval.set_stream('acme', 'even', 'off', keep => '2 years')}, '22023', 'nothing is kept for two years');

# a stream says nothing of held-out cases: those of a run are left out of its figures, and of them alone there are none
q_(q{BEGIN;
	UPDATE gpucredit_eval.golden_set SET kind = 'held_out' WHERE set = 'twenty';
	COMMIT});
fails(qq{SELECT gpucredit_eval.set_stream('acme', 'spy', 'off', baseline => $offline)}, 'UC602', 'mu and sigma tell nothing of held-out cases');
q_(q{UPDATE gpucredit_eval.golden_set SET kind = 'locked' WHERE set = 'twenty'});

# rates beside the scores
sub news
{
	my ($kinds) = @_;

	q_('SELECT gpucredit_internal.number_events(10000)');
	return q_("SELECT kind, detail ->> 'stream' FROM gpucredit.events(0, 10000, 'acme', kinds => '{$kinds}') ORDER BY event DESC LIMIT 1");
}
is(q_(qq{SELECT * FROM gpucredit_eval.set_rate('acme', 'off', '$_->[0]')}), $_->[1], "a rate: $_->[0]")
	foreach [ 'truncation', 'off/truncation|0.100000|0.300000' ], [ 'refusal', 'off/refusal|0.01|0.099499' ],
	[ 'complaint', 'off/complaint|0.01|0.099499' ], [ 'feedback', 'off/feedback|0.800000|0.400000' ];
fails(q{SELECT gpucredit_eval.set_rate('acme', 'off', 'mood')}, '22023', 'no such rate');
fails(q{SELECT gpucredit_eval.set_rate('acme', 'off/refusal', 'refusal')}, '22023', 'no rate of a rate');
fails(q{SELECT gpucredit_eval.set_stream('acme', 'off/refusal', 'off', mu => 0.5, sigma => 0.1)}, 'UC601', 'a rate is no stream of scores');
my $served = q{SELECT status FROM gpucredit_eval.start_observation('acme', 'off', '%s', '"why?"', 'because', 'good', %s)};
is(q_(sprintf($served, 'r1', q{'stop'})), 'skipped', 'a request that nobody judges');
q_(sprintf($served, 'r1', q{'length'}));
is(q_(q{SELECT s.stream, p.t, p.z FROM gpucredit_eval.stream s, LATERAL gpucredit_eval.stream_state(s.org, s.stream) p WHERE s.source = 'off' ORDER BY 1}) =~ s/ //gr,
	"off/complaint|1|0.009900000000\noff/feedback|0|0.800000\noff/refusal|1|0.009900000000\noff/truncation|1|0.099000000000", 'counts in the rates, once');
q_(sprintf($served, 'silent', 'NULL'));
is(q_(q{SELECT t FROM gpucredit_eval.stream_state('acme', 'off/refusal')}), '1', 'who does not say why the model stopped says nothing of refusals');
q_(sprintf($served, 'refused', q{'content_filter'}));
is(q_(q{SELECT signal FROM gpucredit_eval.stream_state('acme', 'off/refusal')}), 'f', 'one refusal is no drift');
q_(sprintf($served, "refused $_", q{'content_filter'})) foreach 1 .. 5;
is(q_(q{SELECT signal FROM gpucredit_eval.stream_state('acme', 'off/refusal')}), 't', 'many are');
is(news('eval_stream.drifted'), 'eval_stream.drifted|off/refusal', 'of which the product\'s feed has an event, for webhooks');
q_(q{SELECT count(gpucredit_eval.observe('acme', 'off/refusal', 'well ' || i, 0)) FROM generate_series(1, 60) i});
is(news('eval_stream.recovered'), 'eval_stream.recovered|off/refusal', 'and of its end');

# what users say
my $says = q{SELECT gpucredit_eval.add_feedback('acme', 'off', '%s', %s)};
is(q_(sprintf($says, 'r1', q{1, 'thanks'})), 'f', 'a user\'s feedback');
is(q_(sprintf($says, 'r1', q{0, 'or not'})), 't', 'the first stands');
is(q_(sprintf($says, 'r7', q{NULL, 'rude', true, '"hello"', 'go away'})), 'f', 'a complaint, with what was said');
is(q_(sprintf($says, 'r7', q{NULL, 'rude', true})), 't', 'which is counted once');
is(q_(q{SELECT string_agg(t::text, ' ' ORDER BY s) FROM unnest('{off/complaint,off/feedback}'::text[]) s, gpucredit_eval.stream_state('acme', s)}),
	'9 1', 'both are in their rates');
fails(sprintf($says, 'r8', $_), '22023', "no feedback: $_") foreach q{NULL}, q{2}, q{'NaN'}, q{1, repeat('x', 9000)};
fails(q{SELECT gpucredit_eval.add_feedback('acme', 'none', 'r', 1)}, 'UC601', 'no such stream');

# what is kept, for how long, and how it becomes a case
is(q_(q{SELECT request, finish_reason, complaint, comment FROM gpucredit_eval.kept_answers('acme', 'off', "limit" => 2)}), "r7||t|rude\nrefused 5|content_filter|f|",
	'failures are kept, the newest first');
is(q_(q{SELECT count(*) FROM gpucredit_eval.kept_answers('acme', 'off') WHERE request = 'silent'}), '0', 'what was neither judged nor failed is not');
q_(q{SELECT gpucredit_eval.create_set('acme', 'grows', 'live', 'k7')});
my $case = q{SELECT * FROM gpucredit_eval.add_case_from('acme', 'off', '%s', '%s', '%s', '%s')};
is(q_(sprintf($case, 'r7', 'grows', 'c1', '{"rubric": "polite", "tags": ["tone"]}')), 'off/r7|t|f', 'a failure becomes a case of the live set by one call');
is(q_(sprintf($case, 'r7', 'grows', 'c1', '{"rubric": "polite", "tags": ["tone"]}')), 'off/r7|t|t', 'once');
q_(sprintf($case, 'refused', 'grows', 'c2', '{"input": "without a name"}'));
q_(q{SELECT gpucredit_eval.freeze_set('acme', 'grows', 'k8')});
is(q_(q{SELECT name, input, rubric, tags, source FROM gpucredit_eval.cases('acme', 'grows')}),
	qq{off/r7|"hello"|polite|{tone}|stream off, request r7\noff/refused|"without a name"|good|{}|stream off, request refused}, 'with its input, or what may stay of it');
fails(sprintf($case, 'r7', 'twenty', 'c3', '{"rubric": "polite"}'), 'UC602', 'a locked set does not grow from production');
fails(sprintf($case, 'silent', 'grows', 'c4', '{}'), 'UC603', 'nor any set from what is not kept');
fails(sprintf($case, 'r7', 'grows', 'c5', '{"source": "me"}'), '22023', 'nobody says that a case comes from elsewhere');
fails(sprintf($case, 'r7', 'grows', 'c6', '{}'), '22023', 'a case needs checks or a rubric');
my $later = q{SELECT set_config('gpucredit.clock', (clock_timestamp() + interval '%s')::text, false); };
is(q_(sprintf($later, '31 days') . q{SELECT count(*) FROM gpucredit_eval.kept_answers('acme', 'off', false)}) =~ s/.*\n//r, '0', 'after its time nothing is read');
fails(sprintf($later, '31 days') . sprintf($case, 'refused 1', 'grows', 'c7', '{}'), 'UC603', 'nor used');
like(q_(sprintf($later, '31 days') . q{SELECT forgotten FROM gpucredit_eval.upkeep('acme')}), qr/^[1-9]$/m, 'and upkeep deletes it');
is(q_(q{SELECT count(*) FROM gpucredit_eval.answer}), '0', 'all of it');
q_(sprintf($served, 'refused again', q{'content_filter'}));
q_(q{SELECT gpucredit_eval.set_stream('acme', 'off', 'off', mu => 0.8, sigma => 0.1)});
is(q_(q{SELECT count(*) FROM gpucredit_eval.kept_answers('acme', 'off')}), '0', 'who keeps nothing any more means what was kept, too');

is(q_(q{SELECT stream, kind, t > 0, signal, keep, kept FROM gpucredit_eval.streams('acme') WHERE 'off' IN (stream, source)}),
	"off|score|f|f||\noff/complaint|complaint|t|f||\noff/feedback|feedback|t|f||\noff/refusal|refusal|t|t||\noff/truncation|truncation|t|f||",
	'a list of streams has each with its rates');
is(q_(q{SELECT t, score, round(z, 3), round(lower, 3), round(upper, 3) FROM gpucredit_eval.observations('acme', 'chat', 2)}) ne '', 1, 'and their scores can be listed');
is(q_(q{SELECT o.lower = round(s.lower, 6), o.upper = round(s.upper, 6), o.z = s.z FROM gpucredit_eval.observations('acme', 'chat', 1) o,
	gpucredit_eval.stream_state('acme', 'chat') s}), 't|t|t', 'with the limits that the stream itself has');

# a judge whose calibration ends
q_(q{SELECT gpucredit_eval.set_config('acme', 'lapses', '{"sets": ["s"], "judge": {"endpoint": "judge", "model": "lapsing"}}', 'k10');
	INSERT INTO gpucredit_eval.calibration (org, judge, calibrated_at, since, n, status, raters)
	SELECT 'acme', gpucredit_eval.judge_of(c), gpucredit.now(), gpucredit.now(), 30, 'calibrated', 2 FROM gpucredit_eval.config c WHERE config = 'lapses'});
is(q_(sprintf($later, $_->[0]) . q{SELECT announced FROM gpucredit_eval.upkeep('acme')}) =~ s/.*\n//r, $_->[1], "after $_->[0]: $_->[1] event")
	foreach [ '70 days', 0 ], [ '80 days', 1 ], [ '81 days', 0 ], [ '93 days', 1 ], [ '94 days', 0 ];
is(news('eval_judge.lapsed') =~ s/\|.*//r, 'eval_judge.lapsed', 'the feed has it');

# requests of production that a judge rates
q_(q{SELECT gpucredit_eval.set_config('acme', 'judged', '{"sets": ["s"], "judge": {"endpoint": "judge", "model": "j",
	"max_response_bytes": 100, "max_tokens": 50}}', 'k9');
	SELECT gpucredit_eval.set_stream('acme', 'online', 'judged', 1, 0.8, 0.1),
		gpucredit_eval.set_stream('acme', 'rare', 'judged', 1000000000, 0.8, 0.1)});
my $hand_in = q{SELECT status, reason, replayed FROM gpucredit_eval.start_observation('acme', '%s', '%s', '"why?"', '%s', 'good')};
my $judged = q{SELECT score, cost, z, signal, replayed FROM gpucredit_eval.finish_observation('acme', 'online', '%s', %s, %s)};
my $answers = q{ARRAY['{"score": 4, "reason": ""}', 'prose', '{"score": 5, "reason": ""}']::bytea[]};
my $usages = q{ARRAY['{"prompt_tokens": 100, "completion_tokens": 10}', NULL, '{"prompt_tokens": 100, "completion_tokens": 10}']::jsonb[]};
my $spent = q_(q{SELECT spent FROM gpucredit.balance('acme')});
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
is(q_(qq{SELECT held, spent - $spent FROM gpucredit.balance('acme')}), '0.000000|0.014406', 'and paid');
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
my $rest = q_(q{SELECT hold FROM gpucredit.hold('acme', '', 'all of it', (SELECT available FROM gpucredit.balance('acme')), '1 hour')});
is(q_(sprintf($hand_in, 'online', 'dear', 'x')), 'denied|insufficient_credits|f', 'what the account cannot pay is denied');
q_("SELECT gpucredit.release('acme', $rest, 'all of it again')");
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

# a stream keeps its newest answers, and some hundred older ones until a call deletes them
q_(q{SELECT gpucredit_eval.set_stream('acme', 'full', 'c', 1, 0.5, 0.5, keep => '1 hour');
	INSERT INTO gpucredit_eval.answer (org, stream, request, kept_at, expires_at)
	SELECT 'acme', 'full', 'old ' || i, gpucredit.now() - interval '30 min', gpucredit.now() + interval '30 min' FROM generate_series(1, 10300) i;
	SELECT count(gpucredit_eval.add_feedback('acme', 'full', 'new ' || i, 0.5)) FROM generate_series(1, 2000) i});
my ($kept, $newest) = split /\|/, q_(q{SELECT count(*), count(*) FILTER (WHERE request LIKE 'new %') FROM gpucredit_eval.answer WHERE stream = 'full'});
cmp_ok($kept, '<', 11_300, 'a stream keeps some ten thousand answers');
is($newest, 2000, 'the newest of them');

# an organisation keeps so many bytes, and who keeps most loses his own oldest answers
q_(q{DELETE FROM gpucredit_eval.answer;
	CREATE OR REPLACE FUNCTION gpucredit_eval.most_kept_bytes() RETURNS bigint LANGUAGE sql IMMUTABLE BEGIN ATOMIC SELECT 100000::bigint; END;
	SELECT gpucredit_eval.set_config('acme', 'flood', '{"sets": ["s"]}', 'k11', 'nlp');
	SELECT gpucredit_eval.set_stream('acme', 'flood', 'flood', 1, 0.5, 0.5, keep => '1 hour');
	SELECT count(gpucredit_eval.add_feedback('acme', 'full', 'small ' || i, 0.5, repeat('x', 1000))) FROM generate_series(1, 20) i});
q_(qq{SELECT gpucredit_eval.add_feedback('acme', 'flood', 'large $_', 0.5, 'much', true, to_jsonb(repeat('x', 5000)), convert_to(repeat('y', 5000), 'UTF8'))})
  foreach 1 .. 30;
is(q_(q{SELECT sum(bytes) BETWEEN 80000 AND 111000 FROM gpucredit_eval.answer WHERE org = 'acme'}), 't', 'an organisation keeps so many bytes of answers, and one answer more');
is(q_(q{SELECT count(*) FROM gpucredit_eval.answer WHERE stream = 'full'}), '20', 'an account that keeps much pushes out nothing of another');
is(q_(q{SELECT min(substr(request, 7)::integer) > 15 AND max(substr(request, 7)::integer) = 30 FROM gpucredit_eval.answer WHERE stream = 'flood'}), 't',
	'but the oldest of its own');
eval_verify($node);
done_testing();
