# 082_archive.pl: rows are removed while work goes on, and tables do not grow
#
# Clients work while another session, whose clock is ahead, removes entries and
# usage; verify() finds nothing meanwhile.  Then years pass in rounds: after
# the first few the tables stay the same size.  A kept proof still shows what a
# removed row was.  The rest can be dumped and restored.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use DBD::Pg ':async';
use GpuCredit;
use GpuCreditLoad;
use IPC::Run;
use JSON::PP;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

my $seed = $ENV{GC_SEED} || time % 1000000;
my $dir  = PostgreSQL::Test::Utils::tempdir();
my $checker = "$FindBin::RealBin/../proof/check_proof.pl";
my $node = new_node('main', world_conf(), 'log_statement = none', 'autovacuum = off');

diag("GC_SEED=$seed");
while_clients_work();
while_read();
through_the_years();
as_a_dump();
$node->stop;
done_testing();

# Tests: sealing, archiving and verifying disturb nobody.
sub while_clients_work
{
	my $seconds = 8;

	new_database($node, 'busy');
	setup_world($node, 'busy');
	is( wait_for_children(in_parallel(
				4,
				sub {
					my ($n) = @_;

					return run_client(
						$node, 'busy',
						number  => $n,
						seed    => $seed,
						log     => "$dir/busy-$n.log",
						least   => 100,
						seconds => $seconds) if $n < 2;
					return $n == 2 ? have_leave($seconds) : keep_verifying($seconds);
				})),
		0,
		'work goes on meanwhile, and nothing is ever amiss');
	cmp_ok(
		query($node, 'busy', q{SELECT coalesce(sum(rows), 0)
			FROM gpucredit.archive_batch WHERE kind = 'entry'}),
		'>', 50, 'entries did leave');

	my $account = settle_accounts($node, 'busy', glob("$dir/busy-*.log"));
	is_deeply([ @{ $account->{unexpected} }, @{ $account->{lost} } ],
		[], 'every answer of the busy clients stands');
	verify_empty($node, 'busy', 'verify() is empty');
	is(query($node, 'busy', 'SELECT * FROM gpucredit.verify_audit()'),
		'', 'verify_audit() is empty');
	return;
}

# A child: seals by the real clock, and archives by one far ahead.
sub have_leave
{
	my ($seconds) = @_;
	my $dbh   = connect_to($node, 'busy');
	my $until = time + $seconds;

	$dbh->do(q{SET gpucredit.entry_retention = '1 min'});
	$dbh->do(q{SET gpucredit.usage_retention = '1 min'});
	# until the time is over and enough rows were removed
	while (time < $until
		|| time < $until + 180 && !$dbh->selectrow_array(q{SELECT sum(rows) > 50
			FROM gpucredit.archive_batch WHERE kind = 'entry'}))
	{
		$dbh->do('RESET gpucredit.clock');
		$dbh->do('SELECT * FROM gpucredit.seal_audit()');
		$dbh->do(q{SELECT set_config('gpucredit.clock',
			(now() + '50 days'::interval)::text, false)});
		$dbh->do(q{SELECT gpucredit_internal.archive('entry', 16),
			gpucredit_internal.forget_usage(1000)});
		select undef, undef, undef, 0.2;
	}
	return 0;
}

# A child: verifies, each time with one snapshot; its status is the number of
# findings.
sub keep_verifying
{
	my ($seconds) = @_;
	my $dbh   = connect_to($node, 'busy');
	my $until = time + $seconds;
	my $found = 0;

	while (time < $until)
	{
		$dbh->do('BEGIN ISOLATION LEVEL REPEATABLE READ');
		$found += @{ $dbh->selectall_arrayref($_) }
		  foreach 'SELECT * FROM gpucredit.verify()',
		  'SELECT * FROM gpucredit.verify_audit()';
		$dbh->do('COMMIT');
	}
	return $found > 0 ? 1 : 0;
}

# Tests: a reader with one snapshot after another misses no rows that are
# removed meanwhile.
sub while_read
{
	my $reader = connect_to($node, 'busy');
	my $mover  = connect_to($node, 'busy');
	my $pid    = $reader->{pg_pid};

	$mover->do(q{SELECT gpucredit.create_account('late')});
	$mover->do(q{SET gpucredit.entry_retention = '1 min'});
	$reader->{PrintError} = 0;
	foreach ([ entry => 'SELECT * FROM gpucredit.verify_audit()', '' ],
		[ archive_batch => 'SELECT batch FROM gpucredit.audit_proof(%d)', '22023' ])
	{
		my ($table, $statement, $state) = @$_;

		$mover->do('RESET gpucredit.clock');
		$mover->do(qq{SELECT gpucredit.issue('late', '', '$table', 1)});
		$mover->do('SELECT * FROM gpucredit.seal_audit()');
		$mover->do(q{SELECT set_config('gpucredit.clock',
			(now() + '50 days'::interval)::text, false)});
		$statement = sprintf $statement,
		  $mover->selectrow_array('SELECT max(entry) FROM gpucredit.entry');
		$mover->begin_work;
		$mover->do(q{SELECT gpucredit_internal.archive('entry', 1000)});
		$mover->do(qq{LOCK TABLE gpucredit.$table IN ACCESS EXCLUSIVE MODE});
		$reader->do($statement, { pg_async => PG_ASYNC });
		$node->poll_query_until('busy',
			"SELECT count(*) > 0 FROM pg_locks WHERE pid = $pid AND NOT granted");
		$mover->commit;

		my $rows = eval { $reader->pg_result };
		is_deeply([ $rows ? $rows + 0 : 0, $reader->state ], [ 0, $state ],
			"$table: what leaves meanwhile is not missing");
	}
	$_->disconnect foreach $reader, $mover;
	return;
}

# Tests: a table's size follows what is kept in it.
sub through_the_years
{
	my @tables = qw(entry audit request usage seal_row seal_leaf);
	my $rounds = 9;
	my (@sizes, @kept);

	new_database($node, 'years');
	query($node, 'years', q{
		SELECT gpucredit.create_account('o' || n) FROM generate_series(1, 20) n;
		SELECT gpucredit.issue('o' || n, '', 'paid', 100000)
			FROM generate_series(1, 20) n;
		SELECT gpucredit.set_price('H100', 1);
		SELECT gpucredit.register_node('default', 'n', 'H100', 8, 81559)});
	foreach my $round (1 .. $rounds)
	{
		push @sizes, a_round($round, @tables);
		@kept = proofs() if $round == 1;
	}
	foreach my $i (0 .. $#tables)
	{
		my $early = $sizes[3][$i];
		my $late  = $sizes[-1][$i];

		cmp_ok($late, '<=', $early * 1.2 + 65536,
			"after many rounds the tables are no larger: $tables[$i], "
			  . "$early bytes after 4 rounds, $late after $rounds");
	}
	cmp_ok(
		query($node, 'years', q{SELECT sum(rows) FROM gpucredit.archive_batch
			WHERE kind = 'entry'}),
		'>', query($node, 'years', 'SELECT 3 * count(*) FROM gpucredit.entry'),
		'most entries of years have left for the archive');
	verify_empty($node, 'years', 'verify() is empty after years');
	is(query($node, 'years', 'SELECT * FROM gpucredit.verify_audit()'),
		'', 'verify_audit() is empty after years');
	still_proven(@kept);
	return;
}

# Proofs of entries and audit rows that a user keeps.
sub proofs
{
	my $json = query($node, 'years', q{
		SELECT jsonb_build_object('kind', r.kind, 'id', r.id, 'proof', p)
		FROM (SELECT * FROM (SELECT 'entry' AS kind, entry AS id FROM gpucredit.entry
				UNION ALL SELECT 'audit', audit FROM gpucredit.audit) a
			ORDER BY random() LIMIT 40) r, gpucredit.audit_proof(r.id, r.kind) p});

	return map { decode_json($_) } split /\n/, $json;
}

# Tests: the rows were removed, and the proofs end at seals of the chain.
sub still_proven
{
	my @kept  = @_;
	my %seals = map { split /\|/ }
	  split /\n/, query($node, 'years', 'SELECT batch, seal FROM gpucredit.seals');
	my ($left, $sealed, $forged) = (0, 0, 0);

	foreach my $row (@kept)
	{
		my $proof = $row->{proof};
		my $seal  = $seals{ $proof->{batch} };

		$left++ if query($node, 'years', "SELECT count(*) FROM gpucredit.$row->{kind}
			WHERE $row->{kind} = $row->{id}") eq '0';
		$sealed++ if check_proof($proof, $seal) eq 'sealed';
		$proof->{leaf} =~ s/^(at \d+ .*)\d$/${1}x/m or die "no instant: $proof->{leaf}";
		$forged++ if check_proof($proof, $seal) eq 'sealed';
	}
	is(scalar(@kept), 40, 'proofs were kept');
	is($left,         40, 'the proofs are of rows that have left since');
	is($sealed, 40, 'each kept proof ends at a seal that is in the chain');
	is($forged, 0,  'no proof holds for a row that was changed');
	is( query($node, 'years', "SELECT count(*) FROM gpucredit.verify_audit(
			published => decode('$seals{ $kept[0]{proof}{batch} }', 'hex'))"),
		'0', 'verify_audit() accepts the seal that was published with a kept proof');
	return;
}

# The verdict on a proof of a program without code of the extension.
sub check_proof
{
	my ($proof, $seal) = @_;
	my $json = encode_json($proof);
	my ($out, $error);

	IPC::Run::run([ $^X, $checker, $seal ], '<', \$json, '>', \$out, '2>', \$error);
	return $out =~ s/\n\z//r;
}

# A round: 50 days of work, then upkeep and vacuum; the sizes of the tables.
sub a_round
{
	my ($round, @tables) = @_;
	my $clock = "('2027-01-01'::date + 50 * $round)::text";

	query($node, 'years', qq{
		SELECT set_config('gpucredit.clock', $clock, false);
		SET gpucredit.entry_retention = '80 d';
		SET gpucredit.audit_retention = '80 d';
		SET gpucredit.usage_retention = '80 d';
		SELECT (gpucredit.capture(h.org, h.hold, 'c' || h.key, 0.5)).captured
		FROM (SELECT o.org, 'r${round}h' || n AS key, (gpucredit.hold(o.org, '',
				'r${round}h' || n, 1, '1 h')).hold
			FROM (SELECT 'o' || i AS org FROM generate_series(1, 20) i) o,
				generate_series(1, 60) n) h;
		SELECT gpucredit.reserve('o1', '', 'j$round', '1xH100', '1 h');
		SELECT gpucredit.place();
		SELECT gpucredit.settle('o1', job, 1, 'completed', '0')
			FROM gpucredit.job WHERE ended_at IS NULL;
		INSERT INTO gpucredit.usage (org, job, attempt, at, elapsed, billed)
		SELECT 'o1', max(job), 1, gpucredit.now(), '0', '0'
		FROM gpucredit.job, generate_series(1, 5000) n GROUP BY n;
		SELECT * FROM gpucredit.seal_audit();
		DO \$\$ BEGIN
			WHILE EXISTS (SELECT FROM gpucredit.maintain() WHERE affected > 1000)
			LOOP END LOOP;
		END \$\$});
	query($node, 'years', 'VACUUM ANALYZE ' . join ', ',
		map { "gpucredit.$_" } @tables);
	return [ split /\|/, query($node, 'years', 'SELECT ' . join ', ',
			map { "pg_total_relation_size('gpucredit.$_')" } @tables) ];
}

# Tests: remaining rows and closings survive a dump and restore.
sub as_a_dump
{
	my $told = q{SELECT a.org, a.account, b.* FROM gpucredit.account a,
		LATERAL gpucredit.balance(a.org, a.account) b ORDER BY 1, 2};

	query($node, 'postgres', 'CREATE DATABASE again');
	$node->command_ok(
		[ 'pg_dump', '-Fc', '-f', "$dir/years", 'years' ], 'dumped');
	$node->command_ok(
		[ 'pg_restore', '--exit-on-error', '-d', 'again', "$dir/years" ],
		'the dump of years is restored');
	is(query($node, 'again', $told), query($node, 'years', $told),
		'every balance is there in the copy');
	verify_empty($node, 'again', 'verify() is empty in the copy');
	is(query($node, 'again', 'SELECT * FROM gpucredit.verify_audit()'),
		'', 'verify_audit() is empty in the copy');
	return;
}
