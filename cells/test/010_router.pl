# 010_router.pl: a router's functions are gpucredit's, whoever calls them.
# Packages: postgresql-N-plproxy
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../test/perl", "$FindBin::RealBin/lib";
use GpuCredit;
use GpuCreditCells;
use Test::More;

my $cells  = GpuCreditCells->new(qw(a b));
my $router = $cells->{router};

# Each public function, with all that callers see of it.
my $signatures = q{
	SELECT format('%s(%s) %s %s %s', p.proname, pg_get_function_arguments(p.oid),
		pg_get_function_result(p.oid), p.provolatile, obj_description(p.oid))
	FROM pg_proc p
	WHERE p.pronamespace = 'gpucredit'::regnamespace ORDER BY 1};
is($cells->at_router($signatures), query($cells->{a}, 'credit', $signatures),
	'a router has the functions of a cell, no more and no fewer');
is( $cells->at_router(q{
	SELECT count(*) FROM gpucredit_cells.routes() r JOIN pg_proc p ON p.oid = r.function
		JOIN pg_language l ON l.oid = p.prolang
	WHERE l.lanname <> 'plpgsql' AND p.prosrc <> 'gpucredit_cells_route'}),
	'0', 'every function that reads or writes goes to a cell');

# the directory
my $epoch = $cells->at_router(q{SELECT gpucredit_cells.set_home('acme', 'b', 'home acme')});
is($cells->at_router(q{SELECT gpucredit_cells.set_home('acme', 'b', 'home acme')}),
	$epoch, 'the same change again is the same');
query_fails($router, 'credit', q{SELECT gpucredit_cells.set_home('acme', 'a', 'home acme')},
	'UC201', 'its key stands for one change');
query_fails($router, 'credit', q{SELECT gpucredit_cells.set_home('acme', 'a', 'home 2')},
	'UC703', 'an organisation has one home');
query_fails($router, 'credit', q{SELECT gpucredit_cells.set_home('acme', 'x', 'home 3')},
	'UC703', 'and that is a cell');
$cells->at_router($_)
  foreach q{SELECT gpucredit_cells.set_home('zeta', 'a', 'home zeta')},
  q{SELECT gpucredit_cells.set_location('pool', 'eu', 'b', 'pool eu')},
  q{SELECT gpucredit.create_pool('eu')},
  q{SELECT gpucredit.register_node('eu', 'n1', 'H100', 8, 81559)},
  q{SELECT gpucredit.create_account('acme'), gpucredit.create_account('acme', 'alice'),
	gpucredit.create_account('zeta')},
  q{SELECT gpucredit.issue('acme', '', 'invoice', 1000), gpucredit.issue('zeta', '', 'invoice', 7)},
  q{SELECT gpucredit.set_price('H100', 4.5)};
$cells->{b}->poll_query_until('credit', q{SELECT count(*) = 1 FROM gpucredit.price});
is(query($cells->{b}, 'credit', 'SELECT rules, holds_from IS NOT NULL FROM gpucredit_cells.rule_change'),
	'price|t', 'a price comes to the other cell, and since when it holds');
query_fails($router, 'credit', q{SELECT gpucredit.create_account('nobody')},
	'UC701', 'an account needs a home first');

# drivers: prepared statements, names, defaults, types
my $dbh = connect_to($router, 'credit');
my $reserve = $dbh->prepare(
	q{SELECT * FROM gpucredit.reserve(?, ?, ?, request => ?, pool => 'eu', wall_limit => ?)});
foreach my $i (1 .. 7)
{
	$reserve->execute('acme', 'alice', "job $i", '1xH100', '2 hours');
}
my $job = $reserve->fetchrow_hashref;
is("$job->{status} $job->{held}", 'granted 9.000000', 'a prepared statement reserves');
$reserve->execute('acme', 'alice', 'job 7', '1xH100', '2 hours');
my $again = $reserve->fetchrow_hashref;
is("$again->{job} $again->{replayed}", "$job->{job} 1", 'the same key is the same job');
is($job->{job} % 1000, 1, 'a job has the number of its cell');
$dbh->do(q{SELECT * FROM gpucredit.heartbeat('n1')});
is(scalar(@{ $dbh->selectall_arrayref(q{SELECT * FROM gpucredit.place('eu')}) }), 7,
	'a pool is scheduled in its cell');
is_deeply(
	$dbh->selectall_arrayref(q{SELECT ordinal, org, job, action
		FROM gpucredit.meter_batch($1, $2, '{1,1,1}', '{"1 s","2 s","3 s"}')}, undef,
		[ 'acme', 'zeta', 'acme' ], [ $job->{job}, 5, 5 ]),
	[ [ 1, 'acme', $job->{job}, 'continue' ], [ 2, 'zeta', 5, 'stop' ], [ 3, 'acme', 5, 'stop' ] ],
	'a batch is divided, and its answers are in order') or diag explain $dbh->errstr;
is(scalar(@{ $dbh->selectall_arrayref(q{SELECT * FROM gpucredit.heartbeat('n1')}) }), 7,
	'a node is found in its cell');

# errors as the cell raises them
my $bad = q{SELECT * FROM gpucredit.settle('acme', 77, 1, 'completed')};
my @told = map {
	my $h = connect_to($_, 'credit');
	eval { $h->do($bad) };
	join '|', $h->state, map { $h->pg_error_field($_) // '' } qw(message_primary message_detail message_hint);
} $router, $cells->{b};
is($told[0], $told[1], 'message, detail, hint and SQLSTATE arrive unchanged');
like($told[0], qr/^UC301/, '... those of the function');

# over all cells
is($cells->at_router(q{SELECT string_agg(DISTINCT labels ->> 'cell', ',') FROM gpucredit.metric_samples()}),
	'a,b', 'metrics name their cell');
like($cells->at_router('SELECT gpucredit.metrics_text()'), qr/cell="b"/, '... as text, too');
is($cells->at_router('SELECT count(*) FROM gpucredit.verify()'), '0', 'verify() asks all');

# logins
foreach my $node ($router, $cells->{a}, $cells->{b})
{
	query($node, 'credit', $_)
	  foreach 'CREATE ROLE alice LOGIN', 'GRANT gpucredit_tenant TO alice',
	  'CREATE ROLE app LOGIN', 'GRANT gpucredit_app TO app', 'CREATE ROLE nothing LOGIN';
	GpuCreditCells::let_in($node, 'alice', 'app');
}
$cells->at_router(q{SELECT gpucredit.bind_tenant('alice', 'acme', 'alice')});
my $alice = connect_to($router, 'credit', user => 'alice');
is($alice->selectrow_array(q{SELECT spendable FROM gpucredit.balance('acme', 'alice')}),
	'937.000000', 'a tenant sees its own');

sub refused
{
	my ($h, $sql) = @_;
	eval { $h->do($sql) } or note $h->errstr;
	return $h->state;
}
is(refused($alice, $_->[0]), $_->[1], "a tenant at the router: $_->[0]")
  foreach [ q{SELECT * FROM gpucredit.balance('zeta')}, '42501' ],
  [ q{SELECT * FROM gpucredit.balance('no such')}, '42501' ],
  [ q{SELECT gpucredit.issue('acme', 'alice', 'mine', 5)}, '42501' ],
  [ q{SELECT * FROM gpucredit_cells.home}, '42501' ],
  [ q{SELECT * FROM gpucredit_cells.cell}, '42501' ],
  [ q{SELECT * FROM gpucredit.account}, '42501' ],
  [ q{SELECT * FROM gpucredit_proxy.issue(1, NULL, 'acme', '', 'k', 5, 'paid', NULL, NULL, 1, '{}', NULL, NULL)}, '42501' ],
  [ q{SELECT * FROM gpucredit_proxy.balance(0, NULL, 'zeta', '', NULL)}, '42501' ],
  [ q{SELECT gpucredit_proxy.act_as(0, 'app', 'app')}, '42501' ],
  [ q{SELECT * FROM gpucredit_remote.verify(0, NULL, 'zeta', NULL, NULL)}, '42501' ],
  [ q{SELECT gpucredit_cells.act_as('app', 'app')}, '42501' ],
  [ q{SELECT gpucredit_cells.set_home('acme', 'a', 'mine')}, '42501' ],
  [ q{CALL gpucredit_cells.move_org('acme', 'a', 'mine')}, '42501' ];
my $straight = connect_to($cells->{b}, 'credit', user => 'alice');
is(refused($straight, $_->[0]), $_->[1], "a tenant straight at a cell: $_->[0]")
  foreach [ q{SELECT gpucredit_cells.lock_moving('acme')}, '42501' ],
  [ q{SELECT gpucredit_cells.set_moving('acme', 99, true)}, '42501' ],
  [ q{SELECT gpucredit_cells.admit('acme', 99)}, '42501' ],
  [ q{SELECT gpucredit_cells.close_out('acme', 'a')}, '42501' ],
  [ q{SELECT * FROM gpucredit_cells.resident}, '42501' ],
  [ q{SELECT * FROM gpucredit.hold('zeta', '', 'mine', 1, '1 min')}, 'UC001' ];
is(refused(connect_to($router, 'credit', user => 'nothing'), q{SELECT gpucredit.balance('acme')}),
	'42501', 'a login without a role can do nothing');

# a function of the application's that runs as another does not lend its rights
query($router, 'credit', q{
	CREATE FUNCTION peek() RETURNS numeric LANGUAGE sql SECURITY DEFINER
	AS $$ SELECT available FROM gpucredit.balance('zeta') $$});
is(refused($alice, 'SELECT peek()'), '42501', 'a SECURITY DEFINER function is refused');

# the cell checks who connects: a router that does not know the password is nobody
query($cells->{b}, 'credit', $_)
  foreach q{SET password_encryption = 'scram-sha-256'; ALTER ROLE gpucredit_router PASSWORD 'right'};
my $hba = $cells->{b}->data_dir . '/pg_hba.conf';
my $old = PostgreSQL::Test::Utils::slurp_file($hba);
open my $out, '>', $hba or die $!;
print $out "local all gpucredit_router scram-sha-256\n$old";
close $out;
$cells->{b}->reload;
sub app { return refused(connect_to($router, 'credit', user => 'app'), q{SELECT gpucredit.balance('acme')}) }
is(app(), '08006', 'no password, no call');
query($router, 'credit', q{ALTER USER MAPPING FOR PUBLIC SERVER gpucredit_cells OPTIONS (ADD password 'wrong')});
is(app(), '08006', 'a wrong password, no call');
query($router, 'credit', q{ALTER USER MAPPING FOR PUBLIC SERVER gpucredit_cells OPTIONS (SET password 'right')});
is(app(), '', 'the right one, and the cell answers');

# notices, and another cell than home
query($cells->{b}, 'credit', q{SELECT gpucredit_cells.lease('acme', 'alice', 'a', 'lease', 20, '1 hour')});
query($cells->{b}, 'credit', q{SELECT gpucredit_cells.carry()}) foreach 1, 2;
sub answer_and_notices
{
	my ($cell, $sql) = @_;
	my ($status, $answer, $words) = $router->psql('credit', "SET gpucredit_cells.at = '$cell'; $sql");

	return "$answer $words";
}
like(answer_and_notices('a', q{SELECT status FROM gpucredit.hold('acme', 'alice', 'there', 15, '1 hour')}), qr/^granted/,
	'a session spends what is leased to another cell');
like(answer_and_notices('a', q{SELECT reason FROM gpucredit.hold('acme', 'alice', 'more', 500, '1 hour')}),
	qr/^insufficient_credits .*NOTICE:  account "alice" had \d+\.000000 credits at home\nDETAIL:  Cell "b" said so at .*\nHINT:  Call gpucredit_cells\.lease\(\) there\./s,
	'a notice of the cell arrives unchanged');
like(answer_and_notices('a', q{SELECT gpucredit.create_account('zork')}), qr/this cell is not the home of organisation "zork"/,
	'a cell where the organisation is not refuses');
like(answer_and_notices('x', q{SELECT gpucredit.balance('acme')}), qr/cell "x" is not in this router's directory/, 'there must be such a cell');
like(answer_and_notices('', q{SELECT status FROM gpucredit.hold('acme', 'alice', 'home', 100, '1 hour')}), qr/^granted/, 'without the setting it is home again');
query($cells->{b}, 'credit', q{SELECT gpucredit_cells.recall('acme', lease) FROM gpucredit_cells.lease_out});

# a second router follows the first
query($router, 'credit', q{CREATE PUBLICATION gpucredit_directory FOR TABLE
	gpucredit_cells.cell, gpucredit_cells.home, gpucredit_cells.location,
	gpucredit_cells.visit, gpucredit_cells.change});
my $second = $cells->new_server('second');
query($second, 'credit', sprintf q{CREATE SUBSCRIPTION directory CONNECTION '%s'
	PUBLICATION gpucredit_directory}, $cells->dsn('router'));
$second->poll_query_until('credit', q{SELECT count(*) = 2 FROM gpucredit_cells.home});
GpuCreditCells::make_router($second);
query($second, 'credit', q{ALTER USER MAPPING FOR PUBLIC SERVER gpucredit_cells OPTIONS (ADD password 'right')});
is(query($second, 'credit', q{SELECT available FROM gpucredit.balance('zeta')}),
	'7.000000', 'another router answers the same');
kill_server($router);
is(query($second, 'credit', q{SELECT status, replayed FROM gpucredit.reserve('acme', 'alice',
	'job 7', '1xH100', '2 hours', pool => 'eu')}),
	'granted|t', 'a lost router is replaced by another, and a key stands for one job');
$router->start;
is($cells->at_router(q{SELECT available FROM gpucredit.balance('zeta')}), '7.000000',
	'and works again when it is back');

is($cells->at_router('SELECT gpucredit.key_space()'), 'admin', 'whose keys a call uses, the cells say');

# What the first cell sets stands in the audit log of each, whatever it is
$cells->at_router($_) foreach
  q{SELECT gpucredit.set_tier('night', 9, 'capacity', false, max_wall => '30 h', grace => '90 s', price_factor => 0.5)},
  q{SELECT gpucredit.set_tier('night', 8, 'capacity', false, grace => '1 day 2 h')},
  q{SELECT gpucredit.set_retry_rule('flaky', 'transient', exit_codes => '[7,9)', message => repeat('long', 60), advice => 'again')},
  q{SELECT gpucredit.set_retry_rule('gone', 'permanent', advice => 'none')},
  q{SELECT gpucredit.set_retry_rule('gone', NULL)},
  q{SELECT gpucredit.set_lost_work('night', 'node_lost', false), gpucredit.set_lost_work('night', 'failed', true)},
  q{SELECT gpucredit.set_lost_work('night', 'failed', NULL)},
  q{SELECT gpucredit.set_idle_limit('night', '1 h')},
  q{SELECT gpucredit.set_resource_price('cpu', 0.01)}, q{SELECT gpucredit.set_resource_price('memory', 0.002)};
$cells->{b}->poll_query_until('credit', q{SELECT count(*) = 2 FROM gpucredit.price WHERE gpu_type IN ('cpu core', 'memory GiB')});
is(query($cells->{b}, 'credit', q{SELECT string_agg(operation || ' ' || decision, ', ' ORDER BY audit)
	FROM gpucredit.audit WHERE decision IN ('arrived', 'removed') AND org = '' AND operation LIKE 'set%'}),
	join(', ', 'set_price arrived', ('set_tier arrived') x 2, ('set_retry_rule arrived') x 2, 'set_retry_rule removed',
		('set_lost_work arrived') x 2, 'set_lost_work removed', 'set_idle_limit arrived', ('set_price arrived') x 2),
	'the other cell audits each price, tier and rule that comes, and each that goes');
$cells->verify_all;
query($cells->{b}, 'credit', q{SET session_replication_role = replica;
	UPDATE gpucredit.price SET per_gpu_hour = '0' WHERE gpu_type = 'H100'});
like(query($cells->{b}, 'credit', 'SELECT * FROM gpucredit.verify()'), qr/^setting_is_as_audited\|\|price "H100"[^\n]*$/,
	'who changes one there by hand, with triggers off, is found');
query($cells->{b}, 'credit', q{SET session_replication_role = replica;
	UPDATE gpucredit.price SET per_gpu_hour = '4.5' WHERE gpu_type = 'H100'});

$cells->verify_all;
is(query($second, 'credit', 'SELECT * FROM gpucredit_cells.verify_cells()'), '', 'verify_cells() is empty');
done_testing();
