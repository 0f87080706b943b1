# mirror_turns.pl: the queue of mirrors: its cost, its fairness, and claims beside everything else
use strict;
use warnings;
use FindBin;
use JSON::PP;
use lib "$FindBin::RealBin/lib";
use GpuCreditRegistry;
use GpuCredit;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = registry_node('turns', 'autovacuum = off');

sub q_ { return query($node, 'reg', $_[0]) }

# So many repositories of an organisation that follow one of a remote each.
sub fill
{
	my ($org, $n, $remote, $due) = @_;

	return q_(qq{
		WITH made AS (
			INSERT INTO gpucredit_registry.model (org, name, account, visibility, created_at)
			SELECT '$org', format('%s-%s', '$remote', i), '', 'private', now() FROM generate_series(1, $n) i
			RETURNING org, model)
		INSERT INTO gpucredit_registry.mirror (org, model, remote, repository, refs, every, rewrites, created_at, due_at)
		SELECT org, model, '$remote', 'a/b', '{main}', '1 hour', false, now(), $due FROM made});
}

# A claim by a worker that knows these remotes: whose it is, and how many pages it touched.
sub claim
{
	my ($remotes) = @_;
	my $before = q_(q{SELECT count(*) FROM gpucredit_registry.mirror WHERE claim IS NOT NULL});
	my $plan = decode_json(q_("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON)
		SELECT org FROM gpucredit_registry.claim_mirror('$remotes')"))->[0]{Plan};
	my $org = q_(q{SELECT org FROM gpucredit_registry.mirror ORDER BY claimed_until DESC NULLS LAST LIMIT 1});

	return (q_(q{SELECT count(*) FROM gpucredit_registry.mirror WHERE claim IS NOT NULL}) > $before ? $org : '',
		$plan->{'Shared Hit Blocks'} + $plan->{'Shared Read Blocks'});
}

# 100,000 mirrors, of which none, one or all are due, and those of a tenant who
# fills the queues of remotes that nobody knows.
q_(qq{SELECT gpucredit.create_account('o' || i) FROM generate_series(1, 100) i});
fill("o$_", 500, 'hub', "now() + interval '1 day'") foreach 1 .. 100;
fill('rival', 50_000, 'nobody', "now() - interval '1 day'");
q_('ANALYZE gpucredit_registry.mirror; ANALYZE gpucredit_registry.mirror_turn');
my ($org, $pages) = claim('{hub,lab}');
is($org, '', 'nothing is due');
cmp_ok($pages, '<', 1000, "which costs no pages to speak of: $pages");
q_(q{UPDATE gpucredit_registry.mirror SET due_at = now() WHERE (org, model) =
	(SELECT org, max(model) FROM gpucredit_registry.mirror WHERE org = 'o77' GROUP BY org)});
($org, $pages) = claim('{hub,lab}');
is($org, 'o77', 'one of 100,000 is due, and is claimed');
cmp_ok($pages, '<', 1000, "by $pages pages");
q_(q{UPDATE gpucredit_registry.mirror SET due_at = now() WHERE remote = 'hub'});
($org, $pages) = claim('{hub,lab}');
like($org, qr/^o\d+$/, 'all are due');
cmp_ok($pages, '<', 1000, "and one is claimed by $pages pages");
is(q_(q{SELECT count(DISTINCT c.org) FROM generate_series(1, 99) i, LATERAL (SELECT * FROM
	gpucredit_registry.claim_mirror(ARRAY['hub', i::text])) c}), '99', 'each organisation has its turn before one has a second');
like(join(' ', q_(q{SELECT * FROM gpucredit_registry.verify() WHERE invariant = 'mirror_has_its_turn'})), qr/^$/, 'the queue is whole');

# Who has the mirrors of all remotes gets no more turns than others.
q_(q{TRUNCATE gpucredit_registry.mirror CASCADE; TRUNCATE gpucredit_registry.mirror_turn});
fill('acme', 10, $_, "now() - interval '1 hour'") foreach 'c', 'b', 'a';
fill('rival', 10, 'a', 'now()');
is(join(' ', map { q_(q{SELECT org FROM gpucredit_registry.claim_mirror('{a,b,c}')}) } 1 .. 6),
	'acme rival acme rival acme rival', 'an organisation has one turn, however many remotes it uses');
q_(q{UPDATE gpucredit_registry.mirror SET due_at = due_at - interval '1 hour' WHERE model % 2 = 0 AND org = 'acme'});
is(q_(q{SELECT array_agg(c.due_at ORDER BY c.n) = array_agg(c.due_at ORDER BY c.due_at) AND count(*) > 10
	FROM (SELECT i AS n, m.due_at FROM generate_series(1, 60) i, LATERAL (SELECT * FROM
		gpucredit_registry.claim_mirror(ARRAY['c', 'a', 'b', i::text])) k, gpucredit_registry.mirror m
		WHERE m.org = 'acme' AND m.model = k.model OFFSET 0) c}), 't', 'its own mirrors come as long as they have waited');

# Names of remotes are the tenant's, and leave nothing behind.
q_(q{TRUNCATE gpucredit_registry.mirror CASCADE; TRUNCATE gpucredit_registry.mirror_turn});
my $model = q_(q{SELECT model FROM gpucredit_registry.create_model('acme', '', 'one', 'one')});
q_(qq{SELECT gpucredit_registry.set_mirror('acme', $model, 'r$_', 'a/b')}) foreach 1 .. 20;
is(q_(q{SELECT string_agg(remote, ' ') FROM gpucredit_registry.mirror_turn}), 'r20', 'a queue that nobody is in any more has gone');
q_(qq{SELECT gpucredit_registry.delete_mirror('acme', $model)});
is(q_(q{SELECT count(*) FROM gpucredit_registry.mirror_turn}), '0', 'and so has the last');

# A claim waits for nobody: what others have locked is passed over.
my $two = q_(q{SELECT model FROM gpucredit_registry.create_model('rival', '', 'two', 'two')});
q_(qq{SELECT gpucredit_registry.set_mirror('acme', $model, 'hub', 'a/b')});
q_(qq{SELECT gpucredit_registry.set_mirror('rival', $two, 'hub', 'a/b')});
my $one = connect_to($node, 'reg');
$one->begin_work;
$one->do(qq{SELECT gpucredit_registry.set_mirror('acme', $model, 'hub', 'a/c')});
is(q_(q{SET lock_timeout = '1 ms'; SELECT org FROM gpucredit_registry.claim_mirror('{hub}')}), 'rival', 'a mirror that is being set is passed over');
is(q_(q{SET lock_timeout = '1 ms'; SELECT org FROM gpucredit_registry.claim_mirror('{hub}')}), '', 'nothing else waits');
$one->commit;
is(q_(q{SELECT repository FROM gpucredit_registry.claim_mirror('{hub}')}), 'a/c', 'then it is claimed as it was set');

# A claim that is not committed yet, and a mirror that is set meanwhile, at each level.
foreach my $level ('READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE')
{
	my $lag = connect_to($node, 'reg');

	q_(qq{SELECT gpucredit_registry.set_mirror('acme', $model, 'hub', 'a/b')});
	q_(qq{SELECT gpucredit_registry.delete_mirror('rival', $two)});
	$one->begin_work;
	is($one->selectrow_array(q{SELECT org FROM gpucredit_registry.claim_mirror('{hub}')}), 'acme', "$level: a claim");
	my @pids = in_parallel(1, sub {
			for my $try (1 .. 20)
			{
				$lag = connect_to($node, 'reg');
				$lag->do("BEGIN ISOLATION LEVEL $level");
				$lag->do('SELECT count(*) FROM gpucredit_registry.mirror');
				last if eval { $lag->do(qq{SELECT gpucredit_registry.set_mirror('acme', m.model, 'hub', 'a/d')
						FROM gpucredit_registry.model m WHERE m.org = 'acme' AND m.name = 'one'}); $lag->do('COMMIT'); 1 };
				die $lag->errstr if $lag->state ne '40001' || $try == 20;
			}
		});
	$node->poll_query_until('reg', q{SELECT count(*) = 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = 'reg'})
	  or die 'it does not wait';
	$one->commit;
	is(wait_for_children(@pids), 0, 'a mirror is set while it is claimed');
	is(q_(q{SELECT repository FROM gpucredit_registry.claim_mirror('{hub}')}), 'a/d', 'and waits for its turn');
	q_(qq{SELECT gpucredit_registry.set_mirror('rival', $two, 'hub', 'a/b')});
	is(q_(q{SELECT * FROM gpucredit_registry.verify() WHERE invariant = 'mirror_has_its_turn'}), '', 'the queue is whole');
}

# Everything at once: workers claim, extend, report and die; owners set, delete, change remotes.
q_(q{TRUNCATE gpucredit_registry.mirror CASCADE; TRUNCATE gpucredit_registry.mirror_turn});
fill("o$_", 6, 'r' . $_ % 3, 'now()') foreach 1 .. 12;
my @pids = in_parallel(6, sub {
		my ($i) = @_;
		my $db = connect_to($node, 'reg');

		srand($i);
		for my $n (1 .. 150)
		{
			my $done = eval {
				if ($i < 4)
				{
					my ($claim) = $db->selectrow_array(q{SELECT claim FROM gpucredit_registry.claim_mirror('{r0,r1,r2}', '10 s')});

					next if !defined $claim || $n % 5 == 0;
					$db->do('SELECT gpucredit_registry.extend_mirror(?)', undef, $claim) if $n % 3 == 0;
					$db->do('SELECT gpucredit_registry.report_mirror(?, ?, NULL, ?)', undef, $claim,
						$n % 4 == 0 ? 'it failed' : undef, $n % 2);
				}
				else
				{
					my ($of, $model) = $db->selectrow_array(q{SELECT org, model FROM gpucredit_registry.model
						WHERE org LIKE 'o%' AND deleted_at IS NULL AND name LIKE 'r%' ORDER BY random() LIMIT 1});

					$db->do($n % 4 == 0 ? 'SELECT gpucredit_registry.delete_mirror(?, ?)'
						: sprintf(q{SELECT gpucredit_registry.set_mirror(?, ?, 'r%d', 'a/b')}, rand 4), undef, $of, $model);
				}
				1;
			};
			die $db->errstr if !$done && $db->state !~ /^(40001|UC501)$/;
		}
	});
is(wait_for_children(@pids), 0, 'workers and owners at once: nobody fails, and nothing deadlocks');
is(q_(q{SELECT * FROM gpucredit_registry.verify() WHERE invariant = 'mirror_has_its_turn'}), '', 'the queue is whole');
is(q_(q{SELECT count(*) FROM gpucredit_registry.mirror_turn t WHERE NOT EXISTS (SELECT FROM gpucredit_registry.mirror o
	WHERE o.org = t.org AND o.remote = t.remote)}), '0', 'nobody is in it for nothing');
my $late = q{SET gpucredit.clock = '2099-01-01 00:00+00'; };
my $all = q_(q{SELECT count(*) FROM gpucredit_registry.mirror WHERE remote <> 'r3'});
cmp_ok($all, '>', 10, 'mirrors are left');
is(q_($late . qq{SELECT count(DISTINCT (c.org, c.model)) FROM generate_series(1, $all) i, LATERAL (SELECT * FROM
	gpucredit_registry.claim_mirror(ARRAY['r0', 'r1', 'r2', i::text])) c}), $all, 'and each is claimed in the end');
is(q_($late . q{SELECT count(*) FROM gpucredit_registry.claim_mirror('{r0,r1,r2}') c WHERE c.claim IS NOT NULL}), '0', 'once');

# A dump does not have the queue; its mirrors make it anew.
my $dump = PostgreSQL::Test::Utils::tempdir() . '/reg.dump';
$node->command_ok([ 'pg_dump', '-Fc', '-f', $dump, $node->connstr('reg') ], 'a dump');
$node->safe_psql('postgres', 'CREATE DATABASE copy');
$node->command_ok([ 'pg_restore', '-e', '-d', $node->connstr('copy'), $dump ], 'is restored');
is(query($node, 'copy', q{SELECT (SELECT count(*) FROM gpucredit_registry.mirror), (SELECT count(*) FROM gpucredit_registry.verify())}),
	q_(q{SELECT count(*) FROM gpucredit_registry.mirror}) . '|0', 'with all mirrors, each of which has its turn');

registry_verify($node);
done_testing();
