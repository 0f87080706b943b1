# 016_identity.pl: at a router each login is in the cells who it is, and nobody
# else, whatever it tries.  The cells trust every user of the router's machine.
# Long: it takes minutes
# Packages: postgresql-N-plproxy
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../test/perl", "$FindBin::RealBin/lib";
use GpuCredit;
use GpuCreditCells;
use Test::More;

my $cells  = GpuCreditCells->new(qw(a b), 'conf', 'log_connections = on');
my $router = $cells->{router};
my ($super) = query($router, 'credit', 'SELECT current_user');
my %role_of = map { $_ => "gpucredit_$_" } qw(admin operator app agent auditor tenant);

foreach my $node ($router, $cells->{a}, $cells->{b})
{
	foreach my $role (sort keys %role_of)
	{
		query($node, 'credit', $_) foreach "CREATE ROLE my_$role LOGIN", "GRANT $role_of{$role} TO my_$role";
	}
	query($node, 'credit', $_) foreach 'CREATE ROLE mallory LOGIN', 'GRANT gpucredit_tenant TO mallory',
	  'CREATE ROLE pool LOGIN', 'GRANT my_tenant, mallory TO pool', 'CREATE ROLE stranger LOGIN', 'GRANT gpucredit_admin TO stranger',
	  'CREATE ROLE mighty LOGIN', 'GRANT gpucredit_app, pg_read_server_files TO mighty', 'CREATE ROLE monitor LOGIN', 'GRANT pg_monitor TO monitor';
	GpuCreditCells::let_in($node, map({ "my_$_" } keys %role_of), qw(mallory pool mighty monitor));
}
# at the router alone, a login is a member of more
query($router, 'credit', 'GRANT my_app TO pool');
$cells->at_router($_)
  foreach q{SELECT gpucredit_cells.set_home('acme', 'b', 'home acme'), gpucredit_cells.set_home('evil', 'a', 'home evil')},
  q{SELECT gpucredit.create_account('acme'), gpucredit.create_account('evil')},
  q{SELECT gpucredit.issue('acme', '', 'paid', 1000), gpucredit.issue('evil', '', 'paid', 1)},
  q{SELECT gpucredit.bind_tenant('my_tenant', 'acme', ''), gpucredit.bind_tenant('mallory', 'evil', '')};

sub state_of
{
	my ($dbh, $sql) = @_;

	return '' if eval { $dbh->do($sql); 1 };
	return $dbh->state;
}

sub log_of
{
	my ($name) = @_;

	return PostgreSQL::Test::Utils::slurp_file($cells->{$name}->logfile);
}

my $dsn = $cells->dsn('b');
my $at = join ', ', map { "p$_->[0] '" . $cells->dsn($_->[1]) . " user=$super'" } [ 0, 'a' ], [ 1, 'b' ];

# what a login could do to reach a cell as somebody else
my @tricks = (
	"CREATE USER MAPPING FOR CURRENT_USER SERVER gpucredit_cells OPTIONS (user '$super')",
	"CREATE USER MAPPING FOR $super SERVER gpucredit_cells OPTIONS (user '$super')",
	"ALTER USER MAPPING FOR PUBLIC SERVER gpucredit_cells OPTIONS (SET user '$super')",
	"ALTER USER MAPPING FOR CURRENT_USER SERVER gpucredit_cells OPTIONS (ADD password 'x')",
	'DROP USER MAPPING FOR PUBLIC SERVER gpucredit_cells',
	"ALTER SERVER gpucredit_cells OPTIONS (SET p0 '$dsn user=$super')",
	'ALTER SERVER gpucredit_cells OWNER TO CURRENT_USER',
	'DROP SERVER gpucredit_cells CASCADE',
	"CREATE SERVER mine FOREIGN DATA WRAPPER plproxy OPTIONS ($at)",
	"CREATE SERVER mine FOREIGN DATA WRAPPER postgres_fdw OPTIONS (dbname 'credit')",
	"CREATE SERVER mine FOREIGN DATA WRAPPER dblink_fdw OPTIONS (dbname 'credit')",
	'CREATE FOREIGN DATA WRAPPER mine', 'CREATE EXTENSION pltcl', 'ALTER FOREIGN DATA WRAPPER plproxy OWNER TO CURRENT_USER',
	'GRANT USAGE ON FOREIGN SERVER gpucredit_cells TO CURRENT_USER',
	'CREATE FOREIGN TABLE pg_temp.t (a int) SERVER gpucredit_cells', 'IMPORT FOREIGN SCHEMA gpucredit FROM SERVER gpucredit_cells INTO public',
	"CREATE FUNCTION pg_temp.f() RETURNS int LANGUAGE plproxy AS \$\$ CLUSTER 'gpucredit_cells'; RUN ON ALL; SELECT 1; \$\$",
	"CREATE FUNCTION pg_temp.f() RETURNS int LANGUAGE plproxy AS \$\$ CONNECT '$dsn user=$super'; SELECT 1; \$\$",
	"SET ROLE $super", "SET SESSION AUTHORIZATION $super", 'SET ROLE gpucredit_router', 'SET ROLE gpucredit_peer',
	"SELECT dblink_connect('$dsn user=$super')", "SELECT dblink_connect_u('$dsn user=$super')",
	"SELECT dblink_connect('$dsn user=$super password=x')", "SELECT dblink_connect('gpucredit_cells')",
	"SELECT * FROM dblink('gpucredit_cells', 'SELECT 1') AS t (a int)", 'SELECT dblink_get_connections()',
	"SELECT dblink_exec('gpucredit_cells b', 'SELECT 1')",
	"SELECT dblink_connect('service=cells')", "SELECT dblink_connect('passfile=/tmp/x password=y $dsn user=$super')",
	'SELECT umoptions FROM pg_user_mapping', 'SELECT 1 / count(umoptions) FROM pg_user_mappings',
	"SELECT gpucredit_cells.act_as('my_admin', 'my_admin')",
	"SELECT gpucredit_proxy.act_as(1, '$super', '$super')", 'SELECT * FROM gpucredit_proxy.verify_all(NULL)',
	"SELECT gpucredit_cells.connect('x', 'b', '$super', '1 s')", "SELECT gpucredit_cells.ask('b', 'SELECT 1')",
	"SELECT gpucredit_cells.connect_peer('b', '1 s')", "SELECT gpucredit_cells.send_query('gpucredit_cells b', 'SELECT 1')",
	'SELECT gpucredit_cells.make_server()', 'SELECT gpucredit_cells.make_router()', 'SELECT gpucredit_cells.fit()',
	"SELECT gpucredit_cells.make_caller('x', '', 'RETURNS int', true)",
	"INSERT INTO gpucredit_cells.cell VALUES ('x', 2, 'x', 'host=x')", "UPDATE gpucredit_cells.cell SET dsn = dsn || ' user=$super'",
	"SELECT gpucredit_cells.set_cell('b', 'x', '$dsn user=$super', 'k1')",
	"SELECT gpucredit_cells.set_cell('b', 'x', '$dsn passfile=/x', 'k2')", "SELECT gpucredit_cells.set_cell('b', 'x', 'service=x', 'k3')",
	"SELECT gpucredit_cells.set_cell('b', 'x', '$dsn options=-crole=$super', 'k4')",
	"SELECT gpucredit_cells.set_cell('b', 'x', '$dsn connect_timeout=user=', 'k5')",
	"SELECT gpucredit_cells.set_cell('b', 'x', 'host=''x'' user=''$super''', 'k6')",
	"SELECT gpucredit_cells.set_cell('b', 'x', 'postgres://$super\@x/credit', 'k7')",
	"SELECT gpucredit_cells.set_cell('b', 'x', '$dsn sslkey=/x', 'k8')",
	"CREATE SUBSCRIPTION s CONNECTION '$dsn user=$super' PUBLICATION p", "ALTER SYSTEM SET primary_conninfo = 'x'",
	"COPY gpucredit_cells.cell TO PROGRAM 'id'", "SELECT pg_read_file('postgresql.conf')", "SELECT lo_import('/etc/passwd')",
	"LOAD 'plproxy'", "SET gpucredit_cells.at = 'b user=$super'; SELECT * FROM gpucredit.balance('acme')",
	"CREATE FUNCTION pg_temp.r(int) RETURNS void LANGUAGE c AS '\$libdir/gpucredit_cells', 'gpucredit_cells_remote'",
	"DO \$\$ BEGIN SET LOCAL ROLE $super; END \$\$", "SET role = '$super'", "SELECT set_config('role', '$super', false)",
	"SELECT set_config('session_authorization', '$super', false)");
query($router, 'credit', 'CREATE EXTENSION postgres_fdw');
my $before = () = log_of('b') =~ /connection authorized: user=\Q$super\E /g;

foreach my $role (sort keys %role_of)
{
	my $dbh = connect_to($router, 'credit', user => "my_$role");
	my @worked = grep { my $state = state_of($dbh, $_); eval { $dbh->do('ROLLBACK; RESET ALL') }; $state eq '' } @tricks;

	is_deeply(\@worked, [], "no trick works for gpucredit_$role");
	isnt(state_of($dbh, q{SELECT * FROM gpucredit.issue('evil', '', 'free', 1000000)}), '', "... nor issues credit")
	  unless $role eq 'admin';
	is($dbh->selectrow_array('SELECT count(umoptions) FROM pg_user_mappings'), 0, '... and it sees no secret');
}
my $after = () = log_of('b') =~ /connection authorized: user=\Q$super\E /g;
is($after, $before, 'no connection as a superuser reached the cell');
like(sprintf('%s', eval { query($router, 'credit', q{SELECT umoptions FROM pg_user_mappings}) }), qr/^\{user=gpucredit_router\}$/, 'there is one mapping');
my ($status) = $router->psql('credit', 'IDENTIFY_SYSTEM', replication => 'database', extra_params => [ '-U', 'my_tenant' ]);
isnt($status, 0, 'no login has a replication connection');

# rights of the objects that lead to the cells
is(query($router, 'credit', q{SELECT count(*) FROM pg_foreign_server s, aclexplode(s.srvacl) a
	WHERE s.srvname = 'gpucredit_cells' AND a.grantee <> s.srvowner}), '0', 'nobody has a right on the server');
is(query($router, 'credit', q{SELECT count(*) FROM pg_proc p, aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a
	WHERE p.pronamespace = 'gpucredit_proxy'::regnamespace AND a.grantee <> p.proowner}), '0', 'nor on a function that PL/Proxy runs');
is(query($router, 'credit', q{SELECT count(*) FROM pg_proc p JOIN pg_depend d ON d.objid = p.oid AND d.classid = 'pg_proc'::regclass
	JOIN pg_extension e ON e.oid = d.refobjid AND d.refclassid = 'pg_extension'::regclass,
	aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a
	WHERE e.extname = 'dblink' AND a.grantee = 0 AND p.proname <> 'dblink_fdw_validator'}), '0', 'nor has PUBLIC on one of dblink');

# a session that changes its role is in the cell who it is, at each call
my $pool = connect_to($router, 'credit', user => 'pool');
my %sees = (my_tenant => [ '', '42501' ], mallory => [ '42501', '' ], pool => [ '', '' ], my_app => [ '42501', '42501' ]);
my $wrong = 0;
foreach my $i (1 .. 60)
{
	my $role = (qw(my_tenant mallory pool my_app))[ ($i * 7 + int($i / 5)) % 4 ];

	$pool->do("SET ROLE $role");
	my @got = map { state_of($pool, "SELECT * FROM gpucredit.balance('$_')") } $i % 2 ? qw(acme evil) : reverse qw(acme evil);
	@got = reverse @got unless $i % 2;
	$wrong++, diag("$role: @got") if "@got" ne "@{ $sees{$role} }";
}
is($wrong, 0, 'whichever role a session sets, it sees what that role may, and one that it may not set in the cell it is not');
$pool->do('SET ROLE my_tenant');
$pool->do(q{SELECT gpucredit.hold('acme', '', 'by tenant', 1, '1 hour')});
is(query($cells->{b}, 'credit', q{SELECT actor, login FROM gpucredit.audit WHERE operation = 'hold'}),
	'my_tenant|gpucredit_router', 'the audit log has the role, and that it came through a router');
is(state_of(connect_to($router, 'credit', user => 'stranger'), q{SELECT * FROM gpucredit.balance('acme')}),
	'42501', 'a login that the cell did not let in comes through no router');
is(state_of(connect_to($router, 'credit', user => 'mighty'), q{SELECT * FROM gpucredit.balance('acme')}),
	'42501', 'nor does one with rights on the server');
is(state_of(connect_to($router, 'credit', user => 'monitor'), 'SELECT gpucredit.metrics_text()'), '', 'monitoring does');

# what each role calls at a router, through helpers of its own
$cells->at_router($_) foreach q{SELECT gpucredit.create_pool('eu')}, q{SELECT gpucredit_cells.set_location('pool', 'eu', 'b', 'pool eu')},
  q{SELECT gpucredit.register_node('eu', 'n1', 'H100', 8, 81559)};
is(state_of(connect_to($router, 'credit', user => "my_$_->[0]"), $_->[1]), $_->[2], "gpucredit_$_->[0]: $_->[1]")
  foreach [ agent => q{SELECT * FROM gpucredit.heartbeat('n1')}, '' ], [ operator => q{SELECT gpucredit.drain('n1', 'why')}, '' ],
  [ agent => q{SELECT * FROM gpucredit.meter_batch('{acme}', '{1}', '{1}', '{"1 s"}')}, '' ], [ auditor => 'SELECT gpucredit.metrics_text()', '' ],
  [ operator => 'SELECT gpucredit.metrics_text()', '' ], [ tenant => q{SELECT * FROM gpucredit.top_spenders('acme')}, '' ],
  [ tenant => q{SELECT * FROM gpucredit.queue('eu')}, '' ], [ app => q{SELECT * FROM gpucredit.balance('acme')}, '' ],
  [ tenant => q{SELECT gpucredit_cells.speaks_for(1, 'evil')}, '42501' ], [ tenant => q{SELECT * FROM gpucredit_cells.visited('n1')}, '42501' ],
  [ app => q{SELECT gpucredit_cells.cell_of_node('n1')}, '42501' ];

# a tenant of the cell keeps no other organisation from moving
my $tenant = connect_to($cells->{b}, 'credit', user => 'mallory');
my $epoch = query($cells->{b}, 'credit', q{SELECT epoch FROM gpucredit_cells.resident WHERE org = 'acme'});
$tenant->begin_work;
$tenant->do(q{SELECT gpucredit_cells.at_home('acme', ?)}, undef, $epoch);
is(query($cells->{b}, 'credit', q{SELECT count(*) FROM pg_locks WHERE objsubid = 26567}), '0',
	'a tenant that asks whether the cell is an organisation\'s home keeps no lock of it');
$tenant->rollback;

# who has a router's connection can be the logins that the cell let in, no more
my $link = connect_to($cells->{b}, 'credit', user => 'gpucredit_router');
is(state_of($link, $_->[0]), $_->[1], "a router's connection: $_->[0]")
  foreach [ q{SELECT * FROM gpucredit.balance('acme')}, '42501' ], [ q{SELECT * FROM gpucredit.account}, '42501' ],
  [ "SELECT gpucredit_cells.act_as('$super', '$super')", '42501' ], [ q{SELECT gpucredit_cells.act_as('stranger', 'stranger')}, '42501' ],
  [ q{SELECT gpucredit_cells.act_as('my_tenant', 'my_app')}, '42501' ], [ q{SELECT gpucredit_cells.act_as('no such', 'no such')}, '42501' ],
  [ q{SELECT gpucredit_cells.act_as(NULL, 'my_app')}, '42501' ], [ q{SELECT gpucredit_cells.act_as('gpucredit_peer', 'gpucredit_peer')}, '42501' ],
  [ q{SELECT gpucredit_cells.act_as('mighty', 'mighty')}, '42501' ], [ 'SET ROLE stranger', '42501' ], [ q{SELECT gpucredit_cells.receive('{}')}, '42501' ],
  [ q{SELECT gpucredit_cells.act_as('my_tenant', 'my_tenant')}, '' ], [ q{SELECT * FROM gpucredit.balance('evil')}, 'UC001' ],
  [ q{SELECT * FROM gpucredit.balance('acme')}, '' ];
query($cells->{b}, 'credit', "GRANT $super TO gpucredit_router");
is(state_of($link, "SELECT gpucredit_cells.act_as('$super', '$super')"), '42501', 'a superuser comes through no router, even if it is granted');
query($cells->{b}, 'credit', "REVOKE $super FROM gpucredit_router");
is(state_of(connect_to($cells->{b}, 'credit', user => 'my_admin'), q{SELECT gpucredit_cells.act_as('my_tenant', 'my_tenant')}),
	'42501', 'a login of the cell cannot act as another');
is(state_of(connect_to($cells->{b}, 'credit'), q{SELECT gpucredit_cells.act_as('my_tenant', 'my_tenant')}),
	'42501', 'nor does a router connect as a superuser');

# a statement that is cut while it asks another cell leaves no connection to use
query($cells->{b}, 'credit', q{SELECT gpucredit_cells.lease('acme', '', 'a', 'lease', 20, '1 hour')});
my $blocker = connect_to($cells->{a}, 'credit');
$blocker->begin_work;
$blocker->do('LOCK TABLE gpucredit_cells.lease_in');
my $carrier = connect_to($cells->{b}, 'credit', user => 'my_app');
query($cells->{b}, 'credit', q{SELECT gpucredit_cells.write_messages('a')});
$carrier->do(q{SET statement_timeout = '2s'});
is(state_of($carrier, q{SELECT gpucredit_cells.carry(patience => '1 min')}), '57014', 'carry() is cut while the other cell works');
is(query($cells->{a}, 'credit', q{SELECT count(*) > 0 FROM pg_stat_activity WHERE usename = 'gpucredit_peer'}), 't', '... and leaves a connection');
$blocker->rollback;
$carrier->do('RESET ALL');
is(state_of($carrier, $_), '42501', "then: $_")
  foreach q{SELECT * FROM dblink('gpucredit_cells a', 'SELECT gpucredit_cells.books()') AS t (a jsonb)},
  q{SELECT dblink_send_query('gpucredit_cells a', 'SELECT 1')}, q{SELECT dblink_get_connections()};
my $admin = connect_to($router, 'credit', user => 'my_admin');
is(state_of($admin, q{SELECT gpucredit_cells.set_home('third', 'b', 'home third')}), '', 'an administrator gives a home');
is(state_of($admin, q{SELECT * FROM dblink('gpucredit_cells.b', 'SELECT current_user') AS t (a text)}),
	'42501', '... and cannot use the connection by which it came to the cell');

query($_, 'credit', q{SELECT count(*) FROM gpucredit_cells.carry(patience => '20 s')}) foreach ($cells->{b}, $cells->{a}) x 3;
$cells->verify_all;
done_testing();
