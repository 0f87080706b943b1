# 112_settings.pl: roles cannot reach settings, files and programs
#
# Each role tries every way to set each of the extension's settings;
# test/hostile/settings.txt has the expected result.  No role of the extension
# reads or writes files, runs programs or becomes another.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl", "$FindBin::RealBin/../hostile";
use Calls;
use GpuCredit;
use IPC::Run;
use Test::More;

my $node = new_node('main', "shared_preload_libraries = 'gpucredit'");
my %code = (yes => '', no => '42501', start => '55P02');

new_database($node, 'credit');
$node->safe_psql('credit', Calls::logins());

# The file lists all settings.
my ($head, @lines) = grep { !/^\s*(#|$)/ } split /\n/,
  slurp_checkout('test/hostile/settings.txt');
my (undef, @roles) = split ' ', $head;
my %expected = map { my ($name, @fate) = split ' '; $name => \@fate } @lines;
my %value = map { split /\|/ } split /\n/, query($node, 'credit', q{
	SELECT name || '|' || coalesce(nullif(setting, ''), CASE
		WHEN name ~ 'trace' THEN '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'
		WHEN name ~ 'key_space' THEN 'gpucredit_other'
		ELSE '2027-01-01' END)
	FROM pg_settings WHERE name LIKE 'gpucredit.%'});

is_deeply([ sort keys %expected ], [ sort keys %value ], 'every setting is in settings.txt');
my $page = reference_page();
is_deeply(
	[ sort { $a cmp $b } $page =~ /^\| `(gpucredit\.\w+)` \|/mg ],
	[ sort keys %value ], 'every setting is in the reference');
my %default = $page =~ /^\| `(gpucredit\.\w+)` \| ([^|]+?) \|/mg;
s/^\(empty\)$// foreach values %default;
is(query($node, 'credit', 'SELECT s.name, s.boot_val, s.unit FROM pg_settings s JOIN (VALUES '
	  . join(', ', map { "('$_', '$default{$_}')" } sort keys %default) . q{)
	AS d (name, value) USING (name)
	WHERE CASE WHEN s.unit IN ('ms', 's', 'min')
		THEN (s.boot_val || s.unit)::interval <> d.value::interval
		WHEN s.unit IN ('kB', 'MB')
		THEN pg_size_bytes(s.boot_val || s.unit) <> pg_size_bytes(d.value)
		ELSE coalesce(s.boot_val, '') <> d.value END ORDER BY 1}), '', 'every setting has in settings.txt its default');
is_deeply(
	[ sort @roles ],
	[ sort 'superuser', split /\n/, query($node, 'credit', q{
		SELECT substr(rolname, 11) FROM pg_roles WHERE rolname LIKE 'gpucredit\_%'}) ],
	'every role is in settings.txt');

foreach my $i (0 .. $#roles)
{
	my $dbh = connect_as($roles[$i]);
	my (@set, @config, @local);

	foreach my $name (sort keys %value)
	{
		my $wanted = $code{ $expected{$name}[$i] };
		my $quoted = "'$value{$name}'";

		push @set, $name unless state_of($dbh, "SET $name = $quoted") eq $wanted;
		push @config, $name
		  unless state_of($dbh, "SELECT set_config('$name', $quoted, false)") eq $wanted;
		push @local, $name
		  unless state_of($dbh, "DO \$\$ BEGIN SET LOCAL $name = $quoted; END \$\$") eq $wanted;
	}
	is("@set", '', "$roles[$i]: SET");
	is("@config", '', "$roles[$i]: set_config()");
	is("@local", '', "$roles[$i]: SET LOCAL in a block");
	$dbh->disconnect;
	next if $i == 0;

	my (@role, @database, @function, @start);

	# other ways to set what a role may not set
	foreach my $name (grep { $expected{$_}[$i] ne 'yes' } sort keys %value)
	{
		my $quoted = "'$value{$name}'";

		$dbh = connect_as($roles[$i]);
		push @role, $name
		  unless state_of($dbh, "ALTER ROLE h_$roles[$i] SET $name = $quoted") =~ /^(42501|55P02)$/;
		push @database, $name
		  unless state_of($dbh, "ALTER DATABASE credit SET $name = $quoted") eq '42501';
		push @function, $name
		  unless state_of($dbh, "CREATE FUNCTION pg_temp.f() RETURNS int LANGUAGE sql SET $name = $quoted AS 'SELECT 1'") =~ /^(42501|55P02)$/;
		$dbh->disconnect;
		# a connection's options are refused, or the connection is
		$dbh = connect_as($roles[$i], "-c $name=" . other($value{$name}));
		push @start, $name
		  if $dbh && $dbh->selectrow_array('SELECT current_setting(?)', undef, $name) =~
		  /^\Q@{[ other($value{$name}) ]}\E/;
	}
	is("@role", '', "$roles[$i]: ALTER ROLE SET");
	is("@database", '', "$roles[$i]: ALTER DATABASE SET");
	is("@function", '', "$roles[$i]: a function's SET clause");
	is("@start", '', "$roles[$i]: options of the connection");
}

# An unknown name with our prefix is refused.
query_fails($node, 'credit', "SELECT gpucredit.now(); SET gpucredit.no_such = 1", '42602',
	'a setting that is not there');

# Files, programs and other people.
foreach my $role (@roles[ 1 .. $#roles ], 'nobody')
{
	my $dbh = connect_as($role);
	my @open;

	foreach my $try (
		q{COPY (SELECT 1) TO '/tmp/gpucredit-out'},
		q{COPY (SELECT 1) TO PROGRAM 'true'},
		q{CREATE TEMP TABLE t (a text); COPY t FROM '/etc/passwd'},
		q{CREATE TEMP TABLE t (a text); COPY t FROM PROGRAM 'id'},
		q{SELECT pg_read_file('postgresql.conf')},
		q{SELECT pg_read_binary_file('PG_VERSION')},
		q{SELECT pg_stat_file('PG_VERSION')},
		q{SELECT pg_ls_dir('.')},
		q{SELECT pg_ls_logdir()},
		q{SELECT lo_import('/etc/passwd')},
		q{SELECT lo_export(1, '/tmp/gpucredit-out')},
		q{LOAD 'gpucredit'},
		q{LOAD '$libdir/../../../../../../tmp/evil'},
		q{CREATE FUNCTION pg_temp.f() RETURNS int LANGUAGE c AS 'gpucredit', 'gpucredit_now'},
		q{SET ROLE postgres},
		q{SET SESSION AUTHORIZATION postgres},
		q{CREATE ROLE h_more},
		q{ALTER ROLE gpucredit_admin SUPERUSER},
		q{GRANT gpucredit_admin TO h_nobody},
		# these only warn if there is nothing to grant
		q<GRANT SELECT ON gpucredit.entry TO PUBLIC; DO $$ BEGIN ASSERT NOT EXISTS (SELECT FROM pg_class WHERE relacl::text ~ '[{,]=' AND relnamespace = 'gpucredit'::regnamespace); RAISE insufficient_privilege; END $$>,
		q<GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA gpucredit TO PUBLIC; DO $$ BEGIN ASSERT NOT EXISTS (SELECT FROM pg_proc WHERE proacl::text ~ '[{,]=' AND pronamespace = 'gpucredit'::regnamespace); RAISE insufficient_privilege; END $$>,
		q{COPY gpucredit.entry FROM STDIN},
		q{CREATE TABLE gpucredit.mine ()},
		q{CREATE FUNCTION gpucredit.mine() RETURNS int LANGUAGE sql AS 'SELECT 1'},
		q{CREATE RULE r AS ON INSERT TO gpucredit.entry DO INSTEAD NOTHING},
		q{CREATE TRIGGER t BEFORE INSERT ON gpucredit.entry FOR EACH ROW EXECUTE FUNCTION gpucredit_internal.refuse_change()},
		q{CREATE POLICY p ON gpucredit.entry USING (true)},
		q{ALTER TABLE gpucredit.entry DISABLE TRIGGER ALL},
		q{ALTER TABLE gpucredit.entry DISABLE ROW LEVEL SECURITY},
		q{CREATE OR REPLACE FUNCTION gpucredit.now() RETURNS timestamptz LANGUAGE sql AS 'SELECT NULL::timestamptz'},
		q{CREATE EVENT TRIGGER e ON ddl_command_end EXECUTE FUNCTION gpucredit_internal.refuse_change()},
		q{CREATE STATISTICS gpucredit.s ON org, account FROM gpucredit.entry},
		q{CREATE INDEX ON gpucredit.entry (amount)},
		q{LOCK TABLE gpucredit.entry IN ACCESS EXCLUSIVE MODE},
		q{SET session_replication_role = replica},
		q{CREATE CAST (text AS gpucredit.credits) WITH INOUT AS IMPLICIT},
		q{CREATE OPERATOR CLASS oc DEFAULT FOR TYPE gpucredit.credits USING hash AS STORAGE bigint})
	{
		push @open, $try unless tried($dbh, $try) =~ /^(42501|42P01|0LP01)$/;
	}
	push @open, 'ALTER SYSTEM'
	  unless state_of($dbh, q{ALTER SYSTEM SET gpucredit.clock = ''}) eq '42501';
	is(join('; ', @open), '', "$role: files, programs, others' rights, our objects");
	$dbh->disconnect;
}
is( query($node, 'credit', q{
		SELECT string_agg(r.rolname, ' ') FROM pg_roles r
		WHERE r.rolname LIKE 'gpucredit\_%' AND (rolsuper OR rolcreaterole
			OR rolcreatedb OR rolcanlogin OR rolreplication OR rolbypassrls
			OR EXISTS (SELECT FROM pg_auth_members m WHERE m.member = r.oid))}),
	'', 'the roles have no attribute and no membership');

# Functions with the owner's rights build no statement from arguments.
is( query($node, 'credit', q{
		SELECT string_agg(p.proname, ' ' ORDER BY p.proname)
		FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang AND l.lanname = 'plpgsql'
		WHERE p.pronamespace IN ('gpucredit'::regnamespace, 'gpucredit_internal'::regnamespace)
			AND regexp_replace(p.prosrc, '--[^\n]*|/\*.*?\*/', '', 'g') ~ '\mEXECUTE\M'}),
	'cron_gauges cron_jobs install_jobs unschedule',
	'statements are made of text only where pg_cron may not be there');
is( query($node, 'credit', q{
		SELECT string_agg(p.proname, ' ' ORDER BY p.proname)
		FROM pg_proc p
		WHERE p.pronamespace IN ('gpucredit'::regnamespace, 'gpucredit_internal'::regnamespace)
			AND p.prosrc ~ '\mEXECUTE\s+(format|[a-z_]+\s*(\|\||;|INTO|USING))'}),
	'', 'dynamic SQL in functions is of constant text');
verify_empty($node, 'credit');
done_testing();

# The page that tools/reference writes.
sub reference_page
{
	my $program = "$FindBin::RealBin/../../tools/lib/reference.pl";
	my @server  = ('env', 'PGHOST=' . $node->host, 'PGPORT=' . $node->port);
	my ($page, $errors);

	IPC::Run::run([ @server, $^X, $program, 'credit' ], '<', \undef, '>', \$page, '2>', \$errors)
	  or die "$program failed:\n$errors";
	return $page;
}

sub connect_as
{
	my ($role, $options) = @_;
	local $ENV{PGOPTIONS} = $options || '';

	return DBI->connect(
		sprintf('dbi:Pg:dbname=credit;host=%s;port=%s', $node->host, $node->port),
		$role eq 'superuser' ? undef : "h_$role", undef,
		{ AutoCommit => 1, RaiseError => 0, PrintError => 0, PrintWarn => 0 });
}

# Another value that is valid as well.
sub other
{
	my ($value) = @_;

	return 'gpucredit_mine' if $value eq 'gpucredit_other';
	return $value =~ /^\d+$/ ? $value + 1 : '2028-01-01';
}

# The SQLSTATE a statement ends with; '' of success.
sub state_of
{
	my ($dbh, $sql) = @_;

	$dbh->{pg_server_prepare} = 0;
	return defined $dbh->do($sql) ? '' : $dbh->state;
}

# The same, and nothing of it stays.
sub tried
{
	my ($dbh, $sql) = @_;

	$dbh->begin_work;
	my $state = state_of($dbh, $sql);
	$dbh->rollback;
	return $state;
}
