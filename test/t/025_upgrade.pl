# 025_upgrade.pl: an upgraded installation is as good as a new one
#
# For each release, its frozen install script and its upgrade script give
# exactly the catalogue of a new installation.  The test also loads rows of
# clients into the release's tables, because its functions need its own
# library.  After the upgrade every balance is the same, verify() finds
# nothing, and work goes on.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use GpuCredit;
use GpuCreditCatalog;
use GpuCreditLoad;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

my $seed = $ENV{GC_SEED} || time % 1000000;
my $dir  = PostgreSQL::Test::Utils::tempdir();
my $node = new_node('main', world_conf(), 'log_statement = none',
	'gpucredit.denial_window = 0');
my ($version) =
  slurp_checkout('gpucredit.control') =~ /^default_version = '([^']+)'$/m;

diag("GC_SEED=$seed");
new_database($node, 'fresh');
my %fresh = map { $_ => 1 } catalog_of($node, 'fresh');
cmp_ok(scalar(keys %fresh), '>', 1000, 'there is much to compare');

my @releases = split /\n/, query($node, 'fresh', qq{
	SELECT source FROM pg_extension_update_paths('gpucredit')
	WHERE target = '$version' AND path IS NOT NULL ORDER BY 1});
cmp_ok(scalar(@releases), '>', 0, 'there is a release to come from');

# Rows of clients, restricted to what old releases knew.
fill_source();
foreach my $release (@releases)
{
	(my $name = $release) =~ tr/./_/;

	upgraded_catalog($release, "empty_$name");
	upgraded_rows($release, "full_$name");
	overfull_device($release, "shares_$name");
	kept_by_users($release, "used_$name");
}

$node->stop;
done_testing();

# Tests: without rows, the catalogue is that of a new installation, line by
# line.
sub upgraded_catalog
{
	my ($release, $db) = @_;

	install($release, $db);
	query($node, $db, 'ALTER EXTENSION gpucredit UPDATE');
	my %upgraded = map { $_ => 1 } catalog_of($node, $db);
	my @missing = grep { !$upgraded{$_} } sort keys %fresh;
	my @more    = grep { !$fresh{$_} } sort keys %upgraded;

	is("@missing[0 .. ($#missing < 9 ? $#missing : 9)]",
		'', "from $release: nothing of a new installation is missing");
	is("@more[0 .. ($#more < 9 ? $#more : 9)]",
		'', "from $release: and nothing more is there");
	diag("only in a new installation: $_")  foreach @missing;
	diag("only in the upgraded one: $_") foreach @more;
	return;
}

# Tests: with rows, everything readable is kept, and work goes on.
sub upgraded_rows
{
	my ($release, $db) = @_;
	my $clock = query($node, 'source', 'SELECT gpucredit.now()');

	install($release, $db);
	load_rows($db, 'source');
	my @before = balances('source', $clock);
	cmp_ok(scalar(@before), '>', 20, "from $release: there is something to lose");
	query($node, $db, 'ALTER EXTENSION gpucredit UPDATE');
	is_deeply([ balances($db, $clock) ],
		\@before, "from $release: every balance is kept");
	verify_empty($node, $db, "from $release: verify() is empty");
	query($node, $db, 'SELECT * FROM gpucredit.seal_audit()');
	is( query($node, $db, q{SELECT
			(SELECT sum(entries) FROM gpucredit.seals)
				= (SELECT count(*) FROM gpucredit.entry),
			(SELECT count(*) FROM gpucredit.verify_audit())}),
		't|0', "from $release: what was there before can be sealed");

	# every keyed call is still answered as before
	my $account =
	  settle_accounts($node, $db, glob("$dir/source-*.log"));
	is_deeply([ @{ $account->{unexpected} }, @{ $account->{lost} } ],
		[], "from $release: keys replay");
	is( wait_for_children(in_parallel(
				2,
				sub {
					run_client(
						$node, $db,
						number  => $_[0] + 7,
						seed    => $seed + 1,
						log     => "$dir/$db-$_[0].log",
						seconds => 4);
				})),
		0,
		"from $release: clients work");
	query($node, $db, 'SELECT * FROM gpucredit.maintain()');
	verify_empty($node, $db, "from $release: verify() is empty after that");
	return;
}

# Tests: users' views and grants stay.
sub kept_by_users
{
	my ($release, $db) = @_;

	install($release, $db);
	query($node, 'postgres', 'CREATE ROLE user_of_it');
	query($node, $db, q{
		CREATE VIEW public.mine AS SELECT job, state FROM gpucredit.jobs;
		CREATE FUNCTION public.rich() RETURNS boolean LANGUAGE sql
			BEGIN ATOMIC SELECT b.available > 1000
			FROM gpucredit.balance('acme') b; END;
		GRANT EXECUTE ON FUNCTION gpucredit.reserve TO user_of_it});
	query($node, $db, 'ALTER EXTENSION gpucredit UPDATE');
	is( query($node, $db, q{
			SELECT count(*) FROM public.mine;
			SELECT has_function_privilege('user_of_it', p.oid, 'EXECUTE')
			FROM pg_proc p WHERE proname = 'reserve'
				AND pronamespace = 'gpucredit'::regnamespace}),
		"0\nt",
		"from $release: users' views and grants stay");
	query($node, $db, 'ALTER SCHEMA public RENAME TO theirs; DROP SCHEMA theirs CASCADE;
		CREATE SCHEMA public; CREATE VIEW public.mine AS SELECT 1;
		CREATE FUNCTION public.rich() RETURNS int LANGUAGE sql RETURN 1');
	is( query($node, $db, q{
			SELECT extversion, extnamespace::regnamespace
			FROM pg_extension WHERE extname = 'gpucredit'}),
		"$version|pg_catalog",
		"from $release: no schema takes it along, and a dump of it can be restored");
	query($node, $db, 'DROP VIEW public.mine; DROP FUNCTION public.rich();
		DROP EXTENSION gpucredit; DROP ROLE user_of_it');
	return;
}

# Tests: shares placed when memory did not count stay, and no other share joins
# them until their memory floors fit.
sub overfull_device
{
	my ($release, $db) = @_;
	my $register = q{SELECT gpucredit.register_node('default', 's1', 'S', 2, 16384)};
	my $faults = q{SELECT invariant, substring(detail, '^\d+ MiB of \d+')
		FROM gpucredit.verify()};
	my $in = sub {
		my ($where, $hour, $sql) = @_;

		return query($node, $where, "SET gpucredit.clock = '2030-01-01 $hour:00Z'; $sql");
	};

	new_database($node, 'shares');
	$in->('shares', 0, qq{
		SELECT gpucredit.set_price('S', 3600), gpucredit.create_account('o'),
			gpucredit.issue('o', '', 'b', 100000);
		$register;
		SELECT gpucredit.reserve('o', '', 'k' || i, '0.25xS\@15GB', '4 h')
		FROM generate_series(1, 2) i;
		SELECT gpucredit.place();
		UPDATE gpucredit.attempt_gpu SET gpus = '{0}'});
	install($release, $db);
	load_rows($db, 'shares');
	query($node, $db, 'ALTER EXTENSION gpucredit UPDATE');
	$in->($db, 1, $register);
	is($in->($db, 1, $faults), 'gpu_memory_given_once|28612 MiB of 16384',
		"from $release: a device with more shares than memory is told of");
	$in->($db, 1, q{
		SELECT gpucredit.reserve('o', '', 'l' || i, '0.1xS@1GB', '4 h')
		FROM generate_series(1, 11) i;
		SELECT gpucredit.place()});
	is( $in->($db, 1, q{SELECT gpus, count(*) FROM gpucredit.attempt_gpu
			GROUP BY 1 ORDER BY 1}),
		"{0}|2\n{1}|10", "from $release: it gets no further one");
	is( $in->($db, 1, q{SELECT billed FROM gpucredit.settle('o',
			(SELECT min(job) FROM gpucredit.job), 1, 'completed', '1 h')}),
		'900.000000', "from $release: what runs there is billed as ever");
	is( $in->($db, 1, qq{$faults;
			SELECT count(*) FROM gpucredit.place();
			SELECT gpus, count(*) FROM gpucredit.attempt_gpu
			WHERE NOT free GROUP BY 1 ORDER BY 1}),
		"1\n{0}|2\n{1}|10", "from $release: once the floors fit it does");
	return;
}

sub install
{
	my ($release, $db) = @_;

	query($node, 'postgres', "CREATE DATABASE $db");
	query($node, $db, "CREATE EXTENSION gpucredit VERSION '$release'");
	return if $release ne '0.1.0';

	# its control file named no schema, so it was in the first one of the path
	query($node, $db, q{
		UPDATE pg_extension SET extnamespace = 'public'::regnamespace
		WHERE extname = 'gpucredit';
		INSERT INTO pg_depend SELECT 'pg_extension'::regclass, e.oid, 0,
			'pg_namespace'::regclass, e.extnamespace, 0, 'n'
		FROM pg_extension e WHERE e.extname = 'gpucredit'});
	return;
}

sub fill_source
{
	new_database($node, 'source');
	setup_world($node, 'source');
	wait_for_children(in_parallel(
		4,
		sub {
			run_client(
				$node, 'source',
				number  => $_[0],
				seed    => $seed,
				log     => "$dir/source-$_[0].log",
				without => 'slices',	# the release had none
				seconds => 4);
		}));
	verify_empty($node, 'source', 'verify() is empty before');
	return;
}

# Tables and columns of a release that were renamed since.
my %today;

BEGIN
{
	%today = (budget_count => 'budget_counter', starved => 'extension_denied');
}

# Copies the source's rows into a release's tables, for the columns that these
# have, and sets its sequences.
sub load_rows
{
	my ($db, $source) = @_;
	my @tables = split /\n/, query($node, $db, q{
		SELECT relname, string_agg(format('%I', attname), ', ')
		FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
			AND a.attnum > 0 AND NOT a.attisdropped
		WHERE relnamespace = 'gpucredit'::regnamespace AND relkind = 'r'
			AND relname !~ '_builtin$'
		GROUP BY relname ORDER BY relname});

	foreach (@tables)
	{
		my ($table, $columns) = split /\|/;
		my $here = $today{$table} // $table;
		my $read = join ', ', map { $today{$_} // $_ } split /, /, $columns;
		my $rows = $table eq 'alert' ? 'WHERE bucket = 0'
		  : $table eq 'directive' ? q{WHERE cause <> 'claim'}
		  : '';

		query($node, $source, qq{COPY (SELECT $read
			FROM gpucredit."$here" $rows) TO '$dir/$table'});
		query($node, $db,
			qq{COPY gpucredit."$table" ($columns) FROM '$dir/$table'});
	}
	foreach my $sequence (split /\n/, query($node, $db, q{
		SELECT relname FROM pg_class WHERE relkind = 'S'
			AND relnamespace = 'gpucredit'::regnamespace}))
	{
		my $at = query($node, $source,
			qq{SELECT last_value FROM gpucredit."$sequence"});

		query($node, $db, "SELECT setval('gpucredit.$sequence', $at)");
	}
	return;
}

# All balances at an instant.
sub balances
{
	my ($db, $clock) = @_;

	return split /\n/, query($node, $db, qq{
		SET gpucredit.clock = '$clock';
		SELECT 'balance', a.org, a.account, b.* FROM gpucredit.account a,
			LATERAL gpucredit.balance(a.org, a.account) b ORDER BY 2, 3;
		SELECT 'buckets', a.org, a.account, b.* FROM gpucredit.account a,
			LATERAL gpucredit.buckets(a.org, a.account) b ORDER BY 2, 3, 4;
		SELECT 'budgets', a.org, a.account, b.* FROM gpucredit.account a,
			LATERAL gpucredit.budgets(a.org, a.account) b
			ORDER BY 2, 3, 4, 5;
		SELECT 'statement', a.org, a.account, md5(string_agg(s::text, ' '))
			FROM gpucredit.account a,
			LATERAL gpucredit.statement(a.org, a.account) s
			GROUP BY a.org, a.account ORDER BY 2, 3});
}
