# 110_shadows.pl: objects that shadow ours, paths and settings that mislead
#
# The calls of test/hostile/calls.txt cover every public function.  They do the
# same whatever a caller or neighbour has prepared: schemas and temporary
# schemas with a trap for each relation, type, function and operator of the
# catalogue; any search_path; any setting a user may set; types that cast
# themselves.  CREATE EXTENSION adopts no existing object, and makes the same
# whatever its session has set.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl", "$FindBin::RealBin/../hostile";
use Calls;
use GpuCredit;
use GpuCreditCatalog;
use Test::More;

my @calls = Calls::all();
my $node  = new_node('main', "shared_preload_libraries = 'gpucredit'",
	'autovacuum = off', "gpucredit.relay = 'relay:7443'", 'max_parallel_workers = 2', 'max_locks_per_transaction = 512');

# The server's own counters and secrets differ from call to call.
my %own_answer = map { $_ => 1 } qw(metric_samples metrics_text open_session uninstall);

# Tables with a random number that marks a version for backends, or a secret or id.
my %random = map { $_ => 1 } qw(job_session job_signal pool rate_limit);

new_database($node, 'calm', 'gpucredit_report');
$node->safe_psql('postgres', Calls::logins() . 'CREATE ROLE h_squatter LOGIN IN ROLE gpucredit_app');

# In every call of the interface each argument is told.
{
	my (%told, %there);

	foreach my $call (@calls)
	{
		$told{"$call->{fn}.$_->[0]"} = 1 foreach @{ $call->{args} };
		$told{"$call->{fn}."} = 1 unless @{ $call->{args} };
	}
	$there{ ($_ =~ /^(\w+)\|(\w*)/)[0] . '.' . ($_ =~ /^(\w+)\|(\w*)/)[1] } = 1
	  foreach split /\n/, query($node, 'calm', Calls::interface());
	is_deeply([ grep { !$told{$_} } sort keys %there ],
		[], 'every argument of every public function is called');
	is_deeply([ grep { !$there{$_} } sort keys %told ], [], 'no call has an argument that no public function has');
}

# Two undisturbed runs show what differs by itself.
my $peace = play('peace');
my $again = play('again');

is_deeply([ grep { /ERROR/ && !/^(install|remove)_jobs/ } @{ $peace->{said} } ],
	[], 'in peace each call succeeds');
is_deeply($again->{said}, $peace->{said}, 'a second time they say the same');
is_deeply(
	[   grep { $again->{kept}{$_} ne $peace->{kept}{$_} }
		  sort keys %{ $peace->{kept} } ],
	[ sort keys %random ],
	'in peace calls leave the same each time, but for numbers drawn at random');
delete @{ $peace->{kept} }{ keys %random };
verify_empty($node, 'peace', 'in peace');

# A neighbour's schema, with a trap for everything.
$node->safe_psql('postgres', 'CREATE DATABASE trapped TEMPLATE calm');
$node->safe_psql('trapped', 'GRANT CREATE, USAGE ON SCHEMA public TO PUBLIC;'
	  . 'CREATE SCHEMA evil AUTHORIZATION h_squatter; GRANT USAGE ON SCHEMA evil TO PUBLIC;');
my @made = split / /, shadows('trapped', 'h_squatter', 'evil', 'true');
my @meant = split /\|/, query($node, 'trapped', q{
	SELECT (SELECT count(*) FROM pg_class WHERE relkind IN ('r', 'v', 'p')
			AND relnamespace IN ('pg_catalog'::regnamespace, 'gpucredit'::regnamespace)),
		100, 2000, 600});
note("traps: @made of @meant");
is(scalar(grep { $made[$_] < $meant[$_] } 0 .. 3),
	0, 'a trap for every table, and for types, functions and operators');
query_fails($node, 'trapped',
	q{SET search_path = evil, pg_catalog; SELECT 1 + 1}, 'HIJAK',
	'the traps work');

same_as_in_peace('evil_first',
	from => 'trapped',
	with => ['SET search_path = evil, pg_catalog, gpucredit, pg_temp']);
same_as_in_peace('no_path',
	from => 'trapped',
	with => [q{SET search_path = ''}]);

# A caller's temporary schema, which comes before all others.
same_as_in_peace('temporary',
	from    => 'calm',
	shadows => 1,
	with    => ['SET search_path = pg_temp, gpucredit, pg_catalog']);

# Every user setting that changes how a statement is read, planned or run.
# Settings that only change how results look are compared by table contents.
same_as_in_peace('settings', from => 'calm', quiet => 1, with => [ settings() ]);

casts_are_the_callers_own();
extension_takes_nothing_over();
extension_is_what_it_is();
done_testing();

# Runs the shadows' script in the database as a role; what it made.
sub shadows
{
	my ($db, $role, $schema, $everything) = @_;
	my $file = "$FindBin::RealBin/../hostile/shadows.sql";
	my ($status, $out, $err) = $node->psql(
		$db,
		"\\i $file\nSELECT current_setting('hostile.made')",
		connstr => $node->connstr($db) . " user=$role",
		extra_params => [ '-v', "schema=$schema", '-v', "everything=$everything" ]);

	die "no traps: $err" if $status != 0;
	return $out;
}

# The same for an open session, in its temporary schema.
sub shadow_session
{
	my ($dbh) = @_;
	my $sql = slurp_checkout('test/hostile/shadows.sql');

	$sql =~ s/^SELECT set_config.*?\\g [^\n]*\n//ms;
	$dbh->do(q{SELECT set_config('hostile.schema', 'pg_temp', false),
		set_config('hostile.everything', 'false', false)});
	$dbh->do($sql);
	return;
}

# Makes all calls in a new database, each by its role in a session prepared so;
# returns the answers and the tables' rows.
sub play
{
	my ($name, %as) = @_;
	my (%session, @said, %kept);

	$node->safe_psql('postgres', sprintf(
			q{CREATE DATABASE "%s" TEMPLATE %s; ALTER DATABASE "%s" SET gpucredit.clock = '%s'},
			$name, $as{from} || 'calm', $name, Calls::NOW));
	foreach my $call (@calls)
	{
		my $dbh = $session{ $call->{role} } ||= session($name, $call->{role}, %as);
		my $rows = eval {
			$dbh->selectall_arrayref(Calls::sql($call));
		};

		make_counters($name) if $call->{fn} eq 'set_budget';
		next if $own_answer{ $call->{fn} } && $rows;
		push @said,
		  $rows
		  ? join("\n", $call->{fn},
			map { join('|', map { $_ // '' } @$_) } @$rows)
		  : "$call->{fn}: ERROR " . $dbh->state . ' ' . ($dbh->errstr =~ s/'\Q$name\E'/here/gr);
	}
	# who reads: every table and view there is
	my $reader = $session{auditor};
	$reader->do('SET row_security = on');	# off refuses, rightly, whom a policy concerns
	my $owner  = connect_to($node, $name);

	foreach my $table (@{ $owner->selectall_arrayref(q{
		SELECT relname, relkind FROM pg_class
		WHERE relnamespace = 'gpucredit'::regnamespace AND relkind IN ('r', 'v')
			AND relname <> 'step_secret'
		ORDER BY 1}) })
	{
		eval { $reader->do("TABLE gpucredit.$table->[0]"); 1 }
		  or push @said, "reading $table->[0]: ERROR " . $reader->errstr;
		next if $table->[1] eq 'v';
		($kept{ $table->[0] }) = $owner->selectrow_array(
			"SELECT string_agg(t::text, chr(10) ORDER BY t::text COLLATE \"C\") FROM gpucredit.$table->[0] t");
	}
	$owner->disconnect;
	$_->disconnect foreach values %session;
	return { said => \@said, kept => \%kept };
}

# A period's first hold tries to count before it makes the counter, unless it
# was slow since it read its account.  The try takes the number of an entry.  So
# plays make the counter themselves.
sub make_counters
{
	my ($name) = @_;

	$node->safe_psql($name, q{
		INSERT INTO gpucredit.budget_counter (org, account, period, period_start, made_at)
		SELECT b.org, b.account, b.period,
			gpucredit_internal.period_start(b.period, gpucredit.now()), gpucredit.now()
		FROM gpucredit.budget b ON CONFLICT DO NOTHING});
	return;
}

# A session of a role, prepared.
sub session
{
	my ($db, $role, %as) = @_;
	my $dbh = DBI->connect(
		'dbi:Pg:' . ($node->connstr($db) =~ s/\s+/;/gr =~ s/'//gr),
		"h_$role", undef,
		{ AutoCommit => 1, RaiseError => 1, PrintError => 0, PrintWarn => 0 });

	$dbh->{pg_server_prepare} = 0;
	$dbh->{pg_expand_array}   = 0;
	shadow_session($dbh) if $as{shadows};
	$dbh->do($_) foreach @{ $as{with} || [] };
	return $dbh;
}

# A test: the calls answer and write the same as undisturbed.
sub same_as_in_peace
{
	my ($name, %as) = @_;
	my $war = play($name, %as);

	unlike(join("\n", @{ $war->{said} }), qr/hijacked|HIJAK/, "$name: nothing is hijacked");
	is_deeply($war->{said}, $peace->{said}, "$name: each call says the same")
	  unless $as{quiet};
	is_deeply([ grep { /ERROR/ && !/^(install|remove)_jobs/ } @{ $war->{said} } ],
		[], "$name: each call succeeds")
	  if $as{quiet};
	is_deeply([ grep { /^(verify|check_books)\b/ } @{ $war->{said} } ],
		[ grep { /^(verify|check_books)\b/ } @{ $peace->{said} } ],
		"$name: the books are found in order");
	delete @{ $war->{kept} }{ keys %random };
	is_deeply($war->{kept}, $peace->{kept}, "$name: all calls leave the same as in peace");
	verify_empty($node, $name, "$name: verify() is empty");
	return;
}

# Every user setting, set to another value.
sub settings
{
	my $sql = q{
		SELECT format('SET %I = %L', name, CASE vartype
			WHEN 'bool' THEN CASE setting WHEN 'on' THEN 'off' ELSE 'on' END
			ELSE (SELECT max(v) FROM unnest(enumvals) v WHERE v <> setting) END)
		FROM pg_settings
		WHERE context = 'user'
			AND (vartype = 'bool' OR vartype = 'enum' AND cardinality(enumvals) > 1)
			AND name !~ '^(debug_print|transaction_|trace_)'
			AND name NOT IN (
				'exit_on_error',				-- ends the session at refusals
				'default_transaction_read_only',	-- refuses to write, rightly
				'default_transaction_isolation',	-- seal_audit() says that it cannot
				'ignore_checksum_failure', 'client_min_messages')
		ORDER BY name};

	return (
		(split /\n/, query($node, 'postgres', $sql)),
		q{SET TimeZone = 'Pacific/Kiritimati'},
		q{SET DateStyle = 'German'},
		q{SET extra_float_digits = -15},
		q{SET work_mem = '64kB'},
		q{SET default_tablespace = ''},
		q{SET from_collapse_limit = 1},
		q{SET join_collapse_limit = 1},
		q{SET min_parallel_table_scan_size = 0},
		q{SET parallel_setup_cost = 0},
		q{SET parallel_tuple_cost = 0},
		q{SET client_encoding = 'LATIN1'});
}

# A type with a cast to text runs its own code with the caller's rights.
sub casts_are_the_callers_own
{
	$node->safe_psql('trapped', q{
		SET ROLE h_squatter;
		CREATE TABLE evil.seen (who text);
		GRANT INSERT ON evil.seen TO PUBLIC;
		CREATE TYPE evil.lure AS (word text);
		CREATE FUNCTION evil.open(evil.lure) RETURNS text LANGUAGE plpgsql AS
			'BEGIN INSERT INTO evil.seen VALUES (current_user); RETURN $1.word; END';
		CREATE CAST (evil.lure AS text) WITH FUNCTION evil.open AS IMPLICIT;
		CREATE FUNCTION evil.equal(text, evil.lure) RETURNS boolean LANGUAGE plpgsql AS
			'BEGIN INSERT INTO evil.seen VALUES (current_user); RETURN true; END';
		CREATE OPERATOR evil.= (LEFTARG = text, RIGHTARG = evil.lure, FUNCTION = evil.equal);
		RESET ROLE;
		SELECT gpucredit.create_account('acme');
		SELECT gpucredit.create_account('other')});
	is($node->safe_psql('trapped', q{
			SET search_path = pg_catalog, evil;
			SELECT available FROM gpucredit.balance(ROW('acme')::evil.lure)},
			connstr => $node->connstr('trapped') . ' user=h_app'),
		'0.000000', 'a type of their own is cast to what a function wants');
	is(query($node, 'trapped', 'SELECT DISTINCT who FROM evil.seen'),
		'h_app', 'the cast of the caller\'s type runs as the caller, never as the owner');
	# a policy is checked before a tenant's operator sees rows
	$node->safe_psql('trapped', q{SELECT gpucredit.bind_tenant('h_tenant', 'acme');
		CREATE FUNCTION evil.peek(text) RETURNS boolean LANGUAGE plpgsql COST 0.0000001 AS
			'BEGIN INSERT INTO evil.seen VALUES ($1); RETURN true; END'});
	$node->safe_psql('trapped',
		'SELECT count(*) FROM gpucredit.account WHERE evil.peek(org);',
		connstr => $node->connstr('trapped') . ' user=h_tenant');
	is(query($node, 'trapped', q{SELECT string_agg(DISTINCT who, ' ') FROM evil.seen}),
		'acme h_app', 'a cheap function of a tenant sees no row of others');
	return;
}

# The install script means the same in sessions with other settings, such as
# backslash escapes in strings.
sub extension_is_what_it_is
{
	my ($status, undef, $err);

	$node->safe_psql('postgres', 'CREATE DATABASE otherwise');
	($status, undef, $err) =
	  $node->psql('otherwise', join('; ', settings(), 'CREATE EXTENSION gpucredit'));
	is($status, 0, 'installed whatever is set') or diag($err);
	my %calm = map { $_ => 1 } catalog_of($node, 'calm');
	is_deeply([ grep { !$calm{$_} } catalog_of($node, 'otherwise') ],
		[], 'what is installed is the same whatever is set');
	return;
}

# CVE-2022-2625 and similar attacks.
sub extension_takes_nothing_over
{
	my $script = query($node, 'calm',
		q{SELECT pg_read_file(setting || '/extension/gpucredit--' || (SELECT extversion FROM pg_extension WHERE extname = 'gpucredit') || '.sql')
		FROM pg_config WHERE name = 'SHAREDIR'});

	unlike($script, qr/CREATE\s+OR\s+REPLACE|IF\s+NOT\s+EXISTS\s+\w+\.|CREATE\s+\w+\s+IF\s+NOT\s+EXISTS/i,
		'the script replaces and adopts nothing');

	# a role that may create schemas creates ours, with our tables in it
	$node->safe_psql('postgres', 'CREATE DATABASE squat; GRANT CREATE ON DATABASE squat TO h_squatter');
	$node->safe_psql('squat', q{
		CREATE SCHEMA gpucredit; CREATE TABLE gpucredit.account (org text);
		CREATE FUNCTION gpucredit.now() RETURNS timestamptz LANGUAGE sql AS 'SELECT NULL::timestamptz'},
		connstr => $node->connstr('squat') . ' user=h_squatter');
	query_fails($node, 'squat', 'CREATE EXTENSION gpucredit', '42P06',
		'a schema of that name is refused');
	query_fails($node, 'squat', 'CREATE EXTENSION gpucredit SCHEMA gpucredit', '0A000',
		'a schema of that name is refused when it is named');
	query_fails($node, 'squat', 'CREATE EXTENSION gpucredit CASCADE', '42P06', 'a schema of that name is refused with CASCADE');
	is(query($node, 'squat', q{
			SELECT (SELECT count(*) FROM pg_extension WHERE extname = 'gpucredit'),
				count(*), string_agg(DISTINCT relowner::regrole::text, ' ')
			FROM pg_class WHERE relnamespace = 'gpucredit'::regnamespace}),
		'0|1|h_squatter', 'what is in a schema of that name stays its owner\'s');

	# from a session and a database full of traps
	$node->safe_psql('trapped', 'DROP EXTENSION gpucredit CASCADE');
	$node->safe_psql('trapped', q{
		CREATE TEMP TABLE pg_roles (rolname text); CREATE TEMP TABLE account (org text);
		CREATE DOMAIN pg_temp.credits AS text; CREATE DOMAIN pg_temp.numeric AS text;
		SET search_path = evil, pg_temp, pg_catalog;
		CREATE EXTENSION gpucredit});
	is(query($node, 'trapped', q{
			SELECT count(*) FROM pg_depend d
			WHERE d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e'
				AND d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'gpucredit')
				AND d.objid IN (
					SELECT oid FROM pg_class WHERE relowner = 'h_squatter'::regrole
					UNION ALL SELECT oid FROM pg_proc WHERE proowner = 'h_squatter'::regrole
					UNION ALL SELECT oid FROM pg_type WHERE typowner = 'h_squatter'::regrole
					UNION ALL SELECT oid FROM pg_operator WHERE oprowner = 'h_squatter'::regrole)}),
		'0', 'created among traps it has none as a member');
	is(query($node, 'trapped', q{
			SELECT count(*) FROM pg_depend d
			WHERE d.refobjid IN (SELECT oid FROM pg_class WHERE relnamespace = 'evil'::regnamespace
					UNION ALL SELECT oid FROM pg_type WHERE typnamespace = 'evil'::regnamespace
					UNION ALL SELECT oid FROM pg_proc WHERE pronamespace = 'evil'::regnamespace
					UNION ALL SELECT oid FROM pg_operator WHERE oprnamespace = 'evil'::regnamespace)
				AND d.objid IN (SELECT objid FROM pg_depend WHERE deptype = 'e')}),
		'0', 'the extension depends on no object of others');
	# a schema's owner may drop its contents, so the extension is in no user's
	# schema
	query_fails($node, 'trapped', 'DROP EXTENSION gpucredit; CREATE EXTENSION gpucredit SCHEMA evil',
		'0A000', 'the extension lets itself be put into no other schema');
	$node->safe_psql('trapped', 'CREATE EXTENSION IF NOT EXISTS gpucredit; SET ROLE h_squatter; DROP SCHEMA evil CASCADE');
	is(query($node, 'trapped', q{SELECT extnamespace::regnamespace FROM pg_extension WHERE extname = 'gpucredit'}),
		'pg_catalog', 'dropping the schema that was first in the path drops nothing of the extension');
	verify_empty($node, 'trapped', 'created among traps');
	# nobody but its owner changes it
	$node->safe_psql('trapped', 'CREATE TABLE public.mine ()');
	foreach my $change (
		'ALTER EXTENSION gpucredit UPDATE',
		'ALTER EXTENSION gpucredit ADD TABLE public.mine',
		'ALTER EXTENSION gpucredit DROP TABLE gpucredit.account',
		'ALTER EXTENSION gpucredit SET SCHEMA public',
		'DROP EXTENSION gpucredit',
		'COMMENT ON EXTENSION gpucredit IS NULL')
	{
		query_fails($node, 'trapped', "SET SESSION AUTHORIZATION h_admin; $change", '42501', "h_admin: $change");
	}
	query_fails($node, 'trapped', 'ALTER EXTENSION gpucredit SET SCHEMA public',
		'0A000', 'not even a superuser changes the extension\'s schema');
	return;
}
