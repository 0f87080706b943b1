# 020_dump_restore.pl: a dump can be restored, and work goes on in it
#
# A database with rows in every table is dumped in each usual way, restored
# into a new database and into a new cluster, and compared row by row.  Then
# keys replay, running attempts are metered and settled, and queued jobs are
# placed.
#
# Long: it takes minutes

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use GpuCredit;
use GpuCreditLoad;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

my $seed  = $ENV{GC_SEED} || time % 1000000;
my $dir   = PostgreSQL::Test::Utils::tempdir();
my $node  = fresh_node('old', world_conf(), 'log_statement = none');
my $other = fresh_node('new', world_conf(), 'log_statement = none');
my (@state, @views, $clock);

diag("GC_SEED=$seed");
fill('credit');

# While nobody works, each way to dump gives the same.
$clock = query($node, 'credit', 'SELECT gpucredit.now()');
@state = state_of($node, 'credit');
@views = views_of($node, 'credit');
cmp_ok(scalar(@state), '>', 20, 'there is something to lose');

dump_database('credit', 'plain', '-Fp');
dump_database('credit', 'custom', '-Fc');
dump_database('credit', 'data', '-Fp', '--data-only');

foreach my $cluster ($node, $other)
{
	my $where = 'in the ' . ($cluster == $node ? 'same' : 'new') . ' cluster';

	query($cluster, 'postgres', "CREATE DATABASE $_")
	  foreach qw(from_plain from_custom from_data);
	restored($cluster, 'from_plain', "plain, $where", 'psql', '-X', '-q',
		'-v', 'ON_ERROR_STOP=1', '-f', "$dir/plain");
	restored($cluster, 'from_custom', "custom, $where", 'pg_restore',
		'--exit-on-error', '-j', '2', "$dir/custom");

	# the extension exists, with the rows that every installation has
	query($cluster, 'from_data', 'CREATE EXTENSION gpucredit');
	restored($cluster, 'from_data', "data only, $where", 'psql', '-X', '-q',
		'-v', 'ON_ERROR_STOP=1', '-f', "$dir/data");
}

# Restoring over an existing database
restored($other, 'from_custom', 'custom, a second time with --clean',
	'pg_restore', '--exit-on-error', '--clean', '--if-exists', "$dir/custom");

# Work goes on, twice the same way
work_goes_on($node,  'from_plain',  'plain');
work_goes_on($other, 'from_custom', 'custom in a new cluster');
work_goes_on($other, 'from_data',   'data only in a new cluster');

# A dump taken while clients work shows one moment
{
	my @pids = in_parallel(
		4,
		sub {
			run_client(
				$node, 'credit',
				number  => $_[0],
				seed    => $seed + 1,
				log     => "$dir/busy-$_[0].log",
				seconds => 6);
		});

	sleep 2;
	dump_database('credit', 'busy', '-Fc');
	is(wait_for_children(@pids), 0, 'every client went on to its end');
	query($other, 'postgres', 'CREATE DATABASE from_busy');
	ok( restore($other, 'from_busy', 'pg_restore', '--exit-on-error',
			"$dir/busy"),
		'a dump taken under load is restored');
	verify_empty($other, 'from_busy', 'under load: verify() is empty');

	# and clients go on in what was restored
	@pids = in_parallel(
		2,
		sub {
			run_client(
				$other, 'from_busy',
				number  => $_[0],
				seed    => $seed + 2,
				log     => "$dir/after-$_[0].log",
				seconds => 3);
		});
	is(wait_for_children(@pids), 0, 'clients work in the restored database');
	my $account =
	  settle_accounts($other, 'from_busy', glob("$dir/after-*.log"));
	is_deeply([ @{ $account->{unexpected} }, @{ $account->{lost} } ],
		[], 'all calls after the restore go as they should');
	verify_empty($other, 'from_busy', 'under load: verify() is still empty');
}

$node->stop;
$other->stop;
done_testing();

# Makes rows in every table.
sub fill
{
	my ($db) = @_;
	my @pids;

	new_database($node, $db);
	setup_world($node, $db);
	@pids = in_parallel(
		4,
		sub {
			run_client(
				$node, $db,
				number  => $_[0],
				seed    => $seed,
				log     => "$dir/fill-$_[0].log",
				seconds => 4);
		});
	wait_for_children(@pids);
	query(
		$node, $db, q{
		-- customised: a tier of its own, a built-in one replaced, a pool, prices
		SELECT gpucredit.set_tier('night', 9, 'capacity', false,
			max_wall => '100 h');
		SELECT gpucredit.set_tier('interactive', 1, 'never', false);
		SELECT gpucredit.create_pool('west');
		SELECT gpucredit.set_price('L4', 0.75), gpucredit.set_price('L4', 0.5, 'west'),
			gpucredit.set_price('L4', 0.25, 'west', spot => true);
		SELECT gpucredit.register_node('west', 'w1', 'L4', 4, 24576,
			leaf => 'l1', labels => '{"rack": 7}');
		SELECT gpucredit.set_node_key('w1', sha256('a key'));
		SELECT gpucredit.register_node('west', 'w2', 'L4', 64, 24576,
			nvlink_domain => 'x', spot => true);
		SELECT gpucredit.create_account('Ümläut & "Co"'),
			gpucredit.create_account('Ümläut & "Co"', 'a'),
			gpucredit.create_account('poor'), gpucredit.create_account('shut');
		SELECT gpucredit.suspend_account('shut', '', true);
		SELECT gpucredit.issue('Ümläut & "Co"', 'a', E'key\twith \\ and \n', 50.000001,
			policy => '{"pools": ["west"], "max_share": 0.9}', memo => E'tab\t');
		SELECT gpucredit.issue('Ümläut & "Co"', '', 'i', 100, valid_for => '400 days');
		SELECT gpucredit.issue('poor', '', 'i', 1);
		-- a caller's hold, partly captured
		SELECT gpucredit.hold('Ümläut & "Co"', '', 'h', 7, '100 days');
		SELECT gpucredit.capture('Ümläut & "Co"', (SELECT max(hold)
			FROM gpucredit.hold), 'c', 2.5, false);
		-- running, told to leave; running, told to stop; running; waiting; denied
		SELECT gpucredit.reserve('Ümläut & "Co"', 'a', 'j' || n, '1xL4', '10 h',
			'night', 'west', spec => '{"image": "x"}') FROM generate_series(1, 5) n;
		SELECT count(*) FROM gpucredit.place('west');
		SELECT gpucredit.reserve('Ümläut & "Co"', 'a', 'wait', '64xL4', '10 min',
			'night', 'west', options => '{"priority": 3}');
		SELECT gpucredit.reserve('Ümläut & "Co"', 'a', 'no', '64xL4', '50 h',
			'night', 'west');
		-- a job that waits for credit
		SELECT gpucredit.reserve('poor', '', 'j', '1xL4', '2 h', 'night', 'west');
		SELECT count(*) FROM gpucredit.place('west');
		SELECT gpucredit.settle('poor', result[1]::bigint, 1, 'preempted', '1 h')
			FROM gpucredit.request WHERE org = 'poor' AND key = 'j';
		SELECT gpucredit.drain('w1', 'repair', now() + '10 days'::interval);
		SELECT gpucredit.drain('h3', 'repair', now() + '10 days'::interval);
		SELECT gpucredit.cancel(org, result[1]::bigint, 'stop', 'no need')
			FROM gpucredit.request WHERE key = 'j1' AND operation = 'reserve';
		SELECT gpucredit.meter(org, result[1]::bigint, 1, '1 h 1 us', 7, 0.5),
			gpucredit.checkpoint(org, result[1]::bigint, 1, 3, 's3://x',
				decode(repeat('ab', 32), 'hex'), 12)
			FROM gpucredit.request WHERE key = 'j2' AND operation = 'reserve';
		-- limits, and a rule of the user's own
		SELECT gpucredit.set_budget('acme', 'vision', 1000),
			gpucredit.set_quota('acme', '', 'H100', 20, 100, max_nonpreemptible_gpus => 15),
			gpucredit.set_retry_rule('mine', 'permanent', 1, exit_codes => '[17,18)'),
			gpucredit.set_lost_work('interactive', 'preempted', false),
			gpucredit.set_idle_limit('interactive', '1 h');
		SELECT gpucredit.hold('acme', 'vision', 'counted', 1, '100 days');
	});
	verify_empty($node, $db, 'verify() is empty before');
	is( query(
			$node, $db, q{
			SELECT string_agg(DISTINCT state, ' ' ORDER BY state)
			FROM gpucredit.job WHERE state IN ('queued', 'unfunded', 'active')}),
		'active queued unfunded', 'jobs wait, run, and lack credit');
	is( query($node, $db, q{SELECT string_agg(DISTINCT action, ' ' ORDER BY action)
			FROM gpucredit.directive}),
		'checkpoint stop', 'some attempts are told to save or to stop');
	return;
}

# All durable data as lines: the rows of every logged table, every sequence,
# the results of reading functions, and the catalog rows of the extension's
# objects.
sub state_of
{
	my ($cluster, $db) = @_;
	my @lines;
	my @tables = split /\n/, query($cluster, $db, q{
		SELECT c.relname FROM pg_class c
		WHERE c.relnamespace = 'gpucredit'::regnamespace
			AND c.relkind IN ('r', 'p') AND c.relpersistence = 'p'
			AND c.relname <> 'step_secret'	-- each installation makes its own
		ORDER BY 1});
	my @sequences = split /\n/, query($cluster, $db, q{
		SELECT c.relname FROM pg_class c
		WHERE c.relnamespace = 'gpucredit'::regnamespace AND c.relkind = 'S'
		ORDER BY 1});

	foreach my $table (@tables)
	{
		push @lines, "$table " . query($cluster, $db, qq{
			SELECT count(*), md5(coalesce(string_agg(t::text, chr(10)
				ORDER BY t::text COLLATE "C"), ''))
			FROM gpucredit."$table" t});
	}
	push @lines, "$_ " . query($cluster, $db,
		qq{SELECT last_value, is_called FROM gpucredit."$_"})
	  foreach @sequences;
	push @lines, split /\n/, query(
		$cluster, $db, qq{
		SET gpucredit.clock = '$clock';
		SELECT 'balance', a.org, a.account, b.* FROM gpucredit.account a,
			LATERAL gpucredit.balance(a.org, a.account) b ORDER BY 2, 3;
		SELECT 'buckets', a.org, a.account, b.* FROM gpucredit.account a,
			LATERAL gpucredit.buckets(a.org, a.account) b ORDER BY 2, 3, 4;
		SELECT 'statement', a.org, a.account, md5(string_agg(s::text, ' '))
			FROM gpucredit.account a,
			LATERAL gpucredit.statement(a.org, a.account) s
			GROUP BY a.org, a.account ORDER BY 2, 3;
		SELECT 'jobs', j.* FROM gpucredit.jobs j ORDER BY 2, 3;
		SELECT 'tier', t.* FROM gpucredit.tier t ORDER BY 2;
		SELECT 'verify', v.* FROM gpucredit.verify() v;
		SELECT 'trigger', tgrelid::regclass, tgname, tgenabled FROM pg_trigger
			WHERE tgname ~ 'append_only' ORDER BY 2, 3;
		SELECT 'member', pg_describe_object(classid, objid, objsubid)
			FROM pg_depend WHERE refclassid = 'pg_extension'::regclass
			AND refobjid = (SELECT oid FROM pg_extension
				WHERE extname = 'gpucredit') AND deptype = 'e' ORDER BY 2});
	return @lines;
}

sub dump_database
{
	my ($db, $file, @options) = @_;

	return $node->command_ok(
		[ 'pg_dump', @options, '-f', "$dir/$file", $db ],
		"pg_dump @options");
}

# Runs a restoring command against a database.
sub restore
{
	my ($cluster, $db, @command) = @_;

	local %ENV = $cluster->_get_env();
	splice(@command, 1, 0, '-d', $db);
	return run_log(\@command);
}

# Tests: a command restores everything.
sub restored
{
	my ($cluster, $db, $name, @command) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	ok(restore($cluster, $db, @command), "$name: restored");
	is_deeply([ views_of($cluster, $db) ], \@views, "$name: tools that reflect a schema read the same");
	return is_deeply([ state_of($cluster, $db) ],
		\@state, "$name: all that was there is there");
}

# What the views of gpucredit_views show at the instant of the dumps, a line each
sub views_of
{
	my ($cluster, $db) = @_;
	my @names = split /\n/, query($cluster, $db,
		q{SELECT relname FROM pg_class WHERE relnamespace = 'gpucredit_views'::regnamespace AND relkind = 'v' ORDER BY 1});

	return map { query($cluster, $db, "SET gpucredit.clock = '$clock'; SELECT '$_ ' || count(*) || ' ' || coalesce(md5(string_agg(v::text, ',' ORDER BY v::text)), '')
		FROM gpucredit_views.$_ v") } @names;
}

# Tests: a restored database is as good as the old one.
sub work_goes_on
{
	my ($cluster, $db, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $umlaut = q{'Ümläut & "Co"'};
	my $job    = "(SELECT result[1]::bigint FROM gpucredit.request WHERE org = $umlaut AND key = '%s')";
	my $j      = sub { return sprintf($job, $_[0]) };

	is( query($cluster, $db, qq{
			SELECT held, status, replayed FROM gpucredit.reserve($umlaut, 'a', 'j1',
				'1xL4', '10 h', 'night', 'west', spec => '{"image": "x"}')
			UNION ALL
			SELECT held, status, replayed FROM gpucredit.reserve($umlaut, 'a', 'no',
				'64xL4', '50 h', 'night', 'west')
			UNION ALL
			SELECT captured, released::text, replayed FROM gpucredit.capture($umlaut,
				${\ $j->('h')}, 'c', 2.50, false)}),
		"5.000000|granted|t\n0.000000|denied|t\n2.500000|0.000000|t",
		"$name: keys replay");
	query_fails($cluster, $db, qq{
			SELECT gpucredit.issue($umlaut, '', 'i', 101, valid_for => '400 days')},
		'UC201', "$name: a key with other arguments is refused");
	is( query($cluster, $db, qq{
			BEGIN;
			SET LOCAL gpucredit.clock = '2099-01-01 00:00+00';
			SELECT count(*) > 0 FROM gpucredit.maintain();
			SELECT replayed FROM gpucredit.issue($umlaut, '', 'i', 100, valid_for => '400 days');
			ROLLBACK}),
		"t\nt", "$name: a payment that is repeated years later is not made twice");
	is( query($cluster, $db, qq{
			SELECT action, reason, billed FROM gpucredit.meter($umlaut,
				${\ $j->('j2')}, 1, '2 h');
			SELECT action, reason FROM gpucredit.meter($umlaut,
				${\ $j->('j1')}, 1, '1 min')}),
		"checkpoint|drain|1.000000\nstop|cancelled",
		"$name: running attempts are metered, and told what they were told");
	is( query($cluster, $db, qq{
			SELECT outcome, billed, released, job_state, replayed
			FROM gpucredit.settle($umlaut, ${\ $j->('j2')}, 1, 'completed', '3 h');
			SELECT outcome, job_state FROM gpucredit.settle($umlaut,
				${\ $j->('j1')}, 1, 'failed', '3 h');
			SELECT outcome, billed, replayed FROM gpucredit.settle($umlaut,
				${\ $j->('j2')}, 1, 'failed', '4 h')}),
		"completed|1.500000|3.500000|completed|f\nfailed|cancelled\ncompleted|1.500000|t",
		"$name: and settled, once");
	is( query($cluster, $db, qq{
			SELECT gpucredit.resume('w1');
			SELECT outcome FROM gpucredit.request r, LATERAL gpucredit.settle(r.org,
				r.result[1]::bigint, 1, 'completed', '1 h')
			WHERE org = $umlaut AND key IN ('j3', 'j4', 'j5');
			SELECT count(*) FROM (SELECT FROM gpucredit.issue('poor', '', 'more', 10)) i;
			SELECT r.key, p.attempt, p.node, gpucredit.gpu_count(p.gpus)
			FROM gpucredit.place('west') p JOIN gpucredit.request r
				ON r.org = p.org AND r.result[1]::bigint = p.job
				AND r.operation = 'reserve' ORDER BY 1}),
		"\ncompleted\ncompleted\ncompleted\n1\nj|2|w1|1\nwait|1|w2|64",
		"$name: waiting jobs are placed, also one that waited for credit");
	query($cluster, $db, q{SELECT gpucredit.create_account('newcomer')});
	is( query($cluster, $db, q{
			WITH was AS MATERIALIZED (SELECT (SELECT max(job) FROM gpucredit.job) AS job,
				(SELECT max(hold) FROM gpucredit.hold) AS hold,
				(SELECT max(bucket) FROM gpucredit.bucket) AS bucket,
				(SELECT max(audit) FROM gpucredit.audit) AS audit,
				(SELECT max(entry) FROM gpucredit.entry) AS entry),
			i AS MATERIALIZED (SELECT i.* FROM was,
				LATERAL gpucredit.issue('newcomer', '', 'next', 1000) i),
			r AS MATERIALIZED (SELECT r.* FROM i, LATERAL gpucredit.reserve('newcomer', '', 'after',
				'1xH100', '1 h') r WHERE i.bucket > 0),
			h AS MATERIALIZED (SELECT h.* FROM r, LATERAL gpucredit.hold('newcomer', '', 'last', 1,
				'1 h') h WHERE r.job > 0)
			SELECT i.bucket > was.bucket, r.job > was.job, h.hold > was.hold
			FROM was, i, r, h}),
		't|t|t', "$name: new numbers are new");
	foreach my $table (qw(entry audit usage accrued))
	{
		query_fails($cluster, $db, "UPDATE gpucredit.$table SET org = 'x'",
			'UC901', "$name: $table is still append-only");
		query_fails($cluster, $db, "TRUNCATE gpucredit.$table",
			'UC901', "$name: $table cannot be emptied either");
	}
	query($cluster, $db, 'SELECT * FROM gpucredit.maintain()');
	verify_empty($cluster, $db, "$name: verify() is empty");
	return;
}
