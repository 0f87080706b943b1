# 020_move.pl: an organisation moves while it works, whatever dies meanwhile.
# Long: it takes minutes
# Packages: postgresql-N-plproxy
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../test/perl", "$FindBin::RealBin/lib";
use GpuCredit;
use GpuCreditCells;
use Test::More;
use Time::HiRes qw(sleep time);

my $cells  = GpuCreditCells->new(qw(a b));
my $router = $cells->{router};
my $n      = 0;

# Every table with a column org moves, or is listed here with the reason.
is( query(
		$cells->{a}, 'credit', q{
	SELECT string_agg(c.relname, ' ' ORDER BY c.relname) FROM pg_class c
		JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'org'
	WHERE c.relnamespace = 'gpucredit'::regnamespace AND c.relkind = 'r'
		AND c.relname NOT IN (SELECT name FROM gpucredit_cells.moved_tables())}),
	'claim claim_gpu eviction job_session job_signal log_wish node_cache node_strike reservation',
	'every other table of organisations moves');
query($cells->{a}, 'credit', $_)
  foreach 'BEGIN; CREATE TABLE gpucredit.new_one (org text, what text);
	SELECT 1 / count(*) FROM gpucredit_cells.moved_tables() WHERE name = \'new_one\'; ROLLBACK';

# A script that is stored apart from the spec.
my $spec = q{jsonb_build_object('script_sha256', encode(sha256('true # moves'), 'hex'))};

# An organisation with entries, holds, a queued and a running job, and a tenant.
sub new_organisation
{
	my $org = 'org' . ++$n;

	$cells->at_router($_) foreach "SELECT gpucredit_cells.set_home('$org', 'a', 'home $org')",
	  "SELECT gpucredit.create_account('$org'), gpucredit.create_account('$org', 'x'),
		gpucredit.issue('$org', '', 'bought', 1000),
		gpucredit.issue('$org', 'x', 'promo', 10, kind => 'promo', valid_for => '1 day'),
		gpucredit.set_budget('$org', 'x', 500), gpucredit.set_quota('$org', 'x', NULL, 64),
		gpucredit.hold('$org', 'x', 'hold', 5, '1 hour')",
	  "SELECT gpucredit.heartbeat('n1')",
	  "SELECT gpucredit.store_file('$org', 'x', 'true # moves')",
	  "SELECT gpucredit.reserve('$org', 'x', 'runs', '1xH100', '1 hour', pool => 'eu', spec => $spec)",
	  "SELECT gpucredit.place('eu')",
	  "SELECT gpucredit.reserve('$org', 'x', 'waits', '8xH100', '1 hour', pool => 'eu')";
	return $org;
}

my $books = q{SELECT available, held, spent, paid, promo FROM gpucredit.balance('%s', 'x')};
$cells->at_router($_)
  foreach q{SELECT gpucredit_cells.set_location('pool', 'eu', 'a', 'pool eu')},
  q{SELECT gpucredit.create_pool('eu')}, q{SELECT gpucredit.set_price('H100', 4.5)},
  q{SELECT gpucredit.register_node('eu', 'n1', 'H100', 8, 81559)};

# 1. Under load: a client that retries nothing sees no error.
my $org = new_organisation();
query($cells->{a}, 'credit', 'SELECT gpucredit.seal_audit()') for 1, 2;
my $proof = query($cells->{a}, 'credit',
	"SELECT to_json(p) FROM gpucredit.audit_proof((SELECT min(entry) FROM gpucredit.entry WHERE org = '$org')) p");
my $was  = $cells->at_router(sprintf $books, $org);
my ($client) = in_parallel(1, sub {
	my $dbh = connect_to($router, 'credit');
	foreach my $i (1 .. 150)
	{
		my ($hold) = $dbh->selectrow_array(
			"SELECT hold FROM gpucredit.hold('$org', 'x', 'client $i', 0.5, '1 hour')");
		$dbh->do("SELECT gpucredit.release('$org', $hold, 'client $i back')");
		sleep 0.01;
	}
});
$cells->at_router("CALL gpucredit_cells.move_org('$org', 'b', 'move $org')");
is(wait_for_children($client), 0, 'a client that works meanwhile sees no error');
is($cells->at_router(sprintf $books, $org), $was, 'balances are those of before');
is($cells->at_router("SELECT cell FROM gpucredit_cells.home WHERE org = '$org'"), 'b',
	'the directory knows the new home');
$cells->at_router("CALL gpucredit_cells.move_org('$org', 'b', 'move $org')");
is(query($cells->{b}, 'credit', "SET gpucredit.clock = '2100-01-01 00:00+00';
	SELECT replayed FROM gpucredit.issue('$org', '', 'bought', 1000)"),
	't', 'a payment that is repeated years later in the new cell is not made twice');
is($cells->at_router("SELECT replayed FROM gpucredit.issue('$org', '', 'bought', 1000)"),
	't', 'keys go with it');
my $job = $cells->at_router("SELECT job FROM gpucredit.reserve('$org', 'x', 'runs', '1xH100', '1 hour', pool => 'eu', spec => $spec)");
is($cells->at_router("SELECT spec ->> 'script' FROM gpucredit.heartbeat('n1') WHERE org = '$org'"),
	'true # moves', 'its script moved with the job');
is($cells->at_router("SELECT action FROM gpucredit.heartbeat('n1') WHERE org = '$org'"),
	'start', 'the node hears the new home through the router');
is($cells->at_router("SELECT action FROM gpucredit.meter('$org', $job, 1, '1 ms')"), 'continue',
	'what runs goes on');
is($cells->at_router("SELECT job_state FROM gpucredit.settle('$org', $job, 1, 'completed', '1 ms')"),
	'completed', '... to its end');
query_fails($cells->{a}, 'credit', "SELECT gpucredit.issue('$org', '', 'again', 1)", 'UC701',
	'straight at the old cell nothing changes');
query_fails($router, 'credit', "CALL gpucredit_cells.move_org('$org', 'a', 'back')", 'UC703',
	'an organisation comes to a cell once');
query_fails($router, 'credit', "CALL gpucredit_cells.move_org('org0', 'b', 'none')", 'UC703',
	'one without a home does not move');
my $seal = query($cells->{b}, 'credit',
	q{SELECT encode(seal, 'hex') FROM gpucredit_cells.foreign_seal ORDER BY batch LIMIT 1});
my $checker = "$FindBin::RealBin/../../test/proof/check_proof.pl";
PostgreSQL::Test::Utils::run_log([ 'perl', $checker, $seal ], '<', \$proof);
is($?, 0, 'a proof made before ends in a seal that came along');
like($cells->at_router('SELECT * FROM gpucredit.place(\'eu\') LIMIT 1'), qr/^$|start/,
	'the old cell schedules on');

# 2. A server dies at each step: the same call finishes the move.
sub state_of
{
	return $cells->at_router(
		"SELECT (SELECT cell FROM gpucredit_cells.home WHERE org = '$_[0]') || ' '
			|| (SELECT step FROM gpucredit_cells.move WHERE org = '$_[0]')");
}

foreach my $victim (qw(router a b))
{
	foreach my $at (qw(begun copied taken switched))
	{
		my $moving = new_organisation();
		my $before = $cells->at_router(sprintf $books, $moving);

		# a move that waits before it records the step, so that it dies there
		query($router, 'credit', qq{
			CREATE FUNCTION wait_for_death() RETURNS trigger LANGUAGE plpgsql AS \$\$
			BEGIN PERFORM pg_sleep(600); RETURN NEW; END \$\$;
			CREATE TRIGGER dies BEFORE UPDATE ON gpucredit_cells.move FOR EACH ROW
			WHEN (NEW.step = '@{[ { begun => 'copied', copied => 'taken', taken => 'switched',
				switched => 'done' }->{$at} ]}') EXECUTE FUNCTION wait_for_death()});
		my ($mover) = in_parallel(1, sub {
			eval { connect_to($router, 'credit')->do(
				"CALL gpucredit_cells.move_org('$moving', 'b', 'move $moving')") };
		});
		$router->poll_query_until('credit', q{SELECT count(*) = 1 FROM pg_stat_activity
			WHERE wait_event = 'PgSleep' AND query LIKE 'CALL%'});
		kill_server($cells->{$victim});
		query($router, 'credit', q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity
			WHERE query LIKE 'CALL%' AND pid <> pg_backend_pid()}) if $victim ne 'router';
		wait_for_children($mover);
		$cells->{$victim}->start;
		query($router, 'credit', 'DROP FUNCTION wait_for_death() CASCADE');
		$cells->at_router("CALL gpucredit_cells.move_org('$moving', 'b', 'move $moving')");
		is(state_of($moving), 'b done', "$victim dies after step $at: the move ends");
		is($cells->at_router(sprintf $books, $moving), $before, '... with the same balances');
		is(query($cells->{a}, 'credit', "SELECT sum(available + held) FROM gpucredit.bucket WHERE org = '$moving'"),
			'0.000000', '... and nothing is left in the old cell');
	}
}

# 3. Rows that change or go during the copy arrive so, and nothing else does.
my $spoils = q{CREATE FUNCTION spoil() RETURNS trigger LANGUAGE plpgsql AS $$
	BEGIN NEW.expires_at := NEW.expires_at + '1 s'::interval; RETURN NEW; END $$;
	CREATE TRIGGER spoils BEFORE INSERT ON gpucredit.hold FOR EACH ROW EXECUTE FUNCTION spoil();
	ALTER TABLE gpucredit.hold ENABLE ALWAYS TRIGGER spoils};
my $changes = new_organisation();
$cells->at_router("SELECT gpucredit.set_quota('$changes', '', NULL, 8)");
my $taker = connect_to($cells->{b}, 'credit');
$taker->begin_work;
my ($horizon) = $taker->selectrow_array("SELECT gpucredit_cells.receive_ahead('$changes', 'a', 1000)");
$cells->at_router($_) foreach "SELECT gpucredit.set_quota('$changes', 'x', NULL, 32, max_nonpreemptible_gpus => 5)",
  "SELECT gpucredit.issue('$changes', '', 'later', 1), gpucredit.hold('$changes', 'x', 'later hold', 2, '1 hour')";
$cells->at_router("SELECT gpucredit.set_quota('$changes', '', NULL, NULL)");
$taker->do($_) foreach 'SAVEPOINT before', $spoils;
eval { $taker->do("SELECT gpucredit_cells.receive_changes('$changes', 'a', 1000, '$horizon')") };
is($taker->state, 'XX001', 'a row that is stored otherwise is found in the freeze');
$taker->do($_) foreach 'ROLLBACK TO before', q{SELECT gpucredit_cells.hang_up('a')};
is($taker->selectrow_array("SELECT gpucredit_cells.receive_changes('$changes', 'a', 1000, '$horizon')"),
	'taken', 'rows that are new, changed and gone are compared');
is($taker->selectrow_array("SELECT count(*) FROM gpucredit.verify('$changes')"), 0, 'they are sound');
is(join(' ', @{ $taker->selectcol_arrayref(
	"SELECT concat_ws(' ', account, max_gpus, max_nonpreemptible_gpus) FROM gpucredit.quota WHERE org = '$changes'") }), 'x 32 5',
	'they are as in the old cell');
$taker->rollback;
$taker->disconnect;

# 4. The new cell refuses: the organisation never left.
my $stays = new_organisation();

# Why it does not move.
sub refusal
{
	my ($key) = @_;
	my $error = '';

	$router->psql('credit', "CALL gpucredit_cells.move_org('$stays', 'b', '$key $stays')", stderr => \$error);
	return $error;
}

query($cells->{b}, 'credit', q{
	CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
	BEGIN RAISE EXCEPTION 'no room'; END $$;
	CREATE TRIGGER full_up BEFORE INSERT ON gpucredit.hold FOR EACH ROW EXECUTE FUNCTION refuse();
	ALTER TABLE gpucredit.hold ENABLE ALWAYS TRIGGER full_up});
query_fails($router, 'credit', "CALL gpucredit_cells.move_org('$stays', 'b', 'move $stays')",
	'UC704', 'a move that the new cell refuses is undone');
query($cells->{b}, 'credit', "DROP FUNCTION refuse() CASCADE; $spoils");
like(refusal('again'), qr/rows of table "hold" differ between the cells/, 'one that stores other rows, too');
query($cells->{b}, 'credit', 'DROP FUNCTION spoil() CASCADE');
my $unsound = "UPDATE gpucredit.bucket SET spent = spent %s '1', available = available %s '1' WHERE org = '$stays' AND kind = 'paid'";
query($cells->{a}, 'credit', sprintf $unsound, '+', '-');
like(refusal('unsound'), qr/bucket_is_its_entries/, 'and books that are not sound do not move');
query($cells->{a}, 'credit', sprintf $unsound, '-', '+');
is($cells->at_router("SELECT count(frozen_at) FROM gpucredit_cells.move WHERE org = '$stays'"), '0', 'nothing was frozen for that');
is($cells->at_router("SELECT DISTINCT step FROM gpucredit_cells.move WHERE org = '$stays'"), 'undone', 'it is where it was');
is($cells->at_router("SELECT status FROM gpucredit.hold('$stays', 'x', 'on', 1, '1 hour')"),
	'granted', 'and works');

$cells->verify_all;
is(query($cells->{a}, 'credit', 'SELECT * FROM gpucredit_cells.verify_cells()'), '',
	'verify_cells() is empty');
query($_, 'credit', 'SELECT gpucredit.seal_audit()') for $cells->{a}, $cells->{b};
is(query($cells->{$_}, 'credit', 'SELECT * FROM gpucredit.verify_audit()'), '',
	"the seals of cell $_ hold") for qw(a b);
done_testing();
