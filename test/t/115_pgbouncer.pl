# 115_pgbouncer.pl: tenants behind pgbouncer in transaction mode
#
# One login serves all clients over fewer connections.  The application names
# the tenant at the start of each transaction with SET LOCAL ROLE.  Then no
# tenant sees another's rows: by calls, views, prepared statements or cursors.
# The test also shows what the pooler leaks from one client to the next
# (docs/decisions/tenants.md), and what stops it.
#
# Packages: pgbouncer

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use GpuCredit;
use POSIX ();
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time sleep);

my ($pgbouncer) = grep { -x } '/usr/sbin/pgbouncer', '/usr/bin/pgbouncer';

plan skip_all => 'no pgbouncer here' unless $pgbouncer;

# autovacuum would invalidate plans, and planning reads tables
my $node = new_node('main', "shared_preload_libraries = 'gpucredit'", 'autovacuum = off');
my (%pooler, $dir);

new_database($node, 'credit');
$node->safe_psql('credit', q{
	CREATE ROLE red IN ROLE gpucredit_tenant;
	CREATE ROLE blue IN ROLE gpucredit_tenant;
	CREATE ROLE gateway LOGIN NOINHERIT IN ROLE red, blue, gpucredit_app;
	SELECT gpucredit.create_pool('default');
	SELECT gpucredit.set_price('H100', 1);
	SELECT gpucredit.register_node('default', 'n1', 'H100', 8, 81920);
	SELECT gpucredit.create_account(o) FROM unnest(ARRAY['red', 'blue']) o;
	SELECT gpucredit.create_account(o, 'sub') FROM unnest(ARRAY['red', 'blue']) o;
	SELECT gpucredit.issue('red', '', 'i', 1000);
	SELECT gpucredit.issue('blue', '', 'i', 2000);
	SELECT gpucredit.reserve(o, 'sub', 'j' || n, '1xH100', '1 h')
	FROM unnest(ARRAY['red', 'blue']) o, generate_series(1, 3) n;
	SELECT gpucredit.bind_tenant('red', 'red');
	SELECT gpucredit.bind_tenant('blue', 'blue')});

# Socket paths are short, so not in the test's folder.
$dir = PostgreSQL::Test::Utils::tempdir_short();
start_pooler('one', 'pool_size=1', '');
start_pooler('two', 'pool_size=2', '');
start_pooler('clean', 'pool_size=1', "server_reset_query_always = 1\n");

# Two clients, one connection.
my $red  = client('one');
my $blue = client('one');

is(as($red, 'red', 'SELECT pg_backend_pid()'), as($blue, 'blue', 'SELECT pg_backend_pid()'),
	'two clients share one connection');
foreach my $turn (1 .. 3)
{
	is(as($red, 'red', q{SELECT available FROM gpucredit.balance('red')}), '997.000000',
		"red's balance, turn $turn");
	is(as($blue, 'blue', q{SELECT available FROM gpucredit.balance('blue')}), '1997.000000',
		"blue's balance, turn $turn");
	foreach my $table (qw(account hold entry job jobs))
	{
		is(as($red, 'red', "SELECT string_agg(DISTINCT org, ' ') FROM gpucredit.$table"),
			'red', "red sees its own $table, turn $turn");
		is(as($blue, 'blue', "SELECT string_agg(DISTINCT org, ' ') FROM gpucredit.$table"),
			'blue', "blue sees its own $table, turn $turn");
	}
	is(as($red, 'red', q{SELECT * FROM gpucredit.balance('blue')}), 'UC001',
		"blue is not there for red, turn $turn");
}

# Without SET LOCAL ROLE a client is the gateway, which may do nothing.
is(plain($red, q{SELECT * FROM gpucredit.balance('red')}), '42501', 'the gateway itself sees nothing');
is(plain($red, 'SELECT count(*) FROM gpucredit.job'), '42501', 'the gateway itself reads nothing');

# After errors, rollbacks and clients that vanish.
is(as($red, 'red', 'SELECT 1 / 0'), '22012', 'a statement of red fails');
is(plain($blue, 'SELECT current_user'), 'gateway', 'nobody else is red after red\'s error');
{
	my $gone = client('one');

	$gone->begin_work;
	$gone->do('SET LOCAL ROLE red');
	$gone->do(q{SELECT * FROM gpucredit.hold('red', '', 'gone', 1, '1 h')});
	$gone->disconnect;
}
is(plain($blue, 'SELECT current_user'), 'gateway', 'nobody else is red after a client of red vanished in a transaction');
is(as($red, 'red', q{SELECT held FROM gpucredit.balance('red')}), '3.000000', 'the client that vanished left no hold');

# Prepared statements and cursors use the rights of the role that runs them.
$red->begin_work;
$red->do('SET LOCAL ROLE red');
$red->do(q{PREPARE mine AS SELECT string_agg(DISTINCT org, ' ') FROM gpucredit.job});
is(($red->selectrow_array('EXECUTE mine'))[0], 'red', 'a prepared statement of red');
$red->commit;
is(as($blue, 'blue', 'EXECUTE mine'), 'blue',
	'LEAK: the pooler hands the statement on; it shows blue what is blue\'s');
plain($blue, 'DEALLOCATE mine');
$red->begin_work;
$red->do('SET LOCAL ROLE red');
$red->do('DECLARE c CURSOR FOR SELECT DISTINCT org FROM gpucredit.job');
is(($red->selectrow_array('FETCH 1 FROM c'))[0], 'red', 'a cursor of red has the rows of red');
$red->commit;
is(as($blue, 'blue', 'FETCH 1 FROM c'), '34000', 'a cursor of red is gone with its transaction');
{
	# what a driver prepares by itself is not there in the next transaction
	my $driver = client('one', 1);
	my $query = $driver->prepare('SELECT $1::int', { pg_prepare_now => 1 });
	my $other = client('one', 1);

	$query->execute(1);
	is((eval { plain($other, 'DEALLOCATE ALL'); $query->execute(2); 1 } ? 'ok' : $driver->state), '26000',
		'LEAK: prepared by the driver, taken away by another client: switch that off');
	$_->disconnect foreach $driver, $other;
}

# What leaks, as docs/decisions/tenants.md says.
$red->begin_work;
$red->do('SET LOCAL ROLE red');
$red->do('DECLARE held CURSOR WITH HOLD FOR SELECT DISTINCT org FROM gpucredit.job');
$red->commit;
is(as($blue, 'blue', 'FETCH ALL FROM held'), 'red',
	'LEAK: rows of a cursor WITH HOLD, read while it was declared');
plain($red, 'CLOSE held');
plain($red, 'SET ROLE red');
is(plain($blue, 'SELECT current_user'), 'red',
	'LEAK: SET ROLE outside a transaction is the next client\'s role too');
is(plain($blue, q{SELECT available FROM gpucredit.balance('red')}), '997.000000', 'LEAK: the next client may do all that the role of SET ROLE may do');
plain($red, 'RESET ROLE');
plain($red, q{CREATE TEMP TABLE left_behind AS SELECT 'red'::text AS org});
is(plain($blue, 'SELECT org FROM left_behind'), 'red', 'LEAK: temporary tables');
plain($red, 'DROP TABLE left_behind');

# A pooler that cleans up after each transaction leaks none of it.
{
	my ($one, $two) = (client('clean'), client('clean'));

	plain($one, 'SET ROLE red');
	is(plain($two, 'SELECT current_user'), 'gateway', 'server_reset_query_always: no role is left');
	$one->begin_work;
	$one->do('SET LOCAL ROLE red');
	$one->do('DECLARE held CURSOR WITH HOLD FOR SELECT DISTINCT org FROM gpucredit.job');
	$one->do('PREPARE mine AS SELECT 1');
	$one->do('CREATE TEMP TABLE left_behind ()');
	$one->commit;
	is(plain($two, 'FETCH ALL FROM held'), '34000', 'server_reset_query_always: no cursor is left');
	is(plain($two, 'EXECUTE mine'), '26000', 'server_reset_query_always: no prepared statement is left');
	is(plain($two, 'SELECT * FROM left_behind'), '42P01', 'server_reset_query_always: no temporary table is left');
	is(as($two, 'blue', q{SELECT available FROM gpucredit.balance('blue')}), '1997.000000', 'server_reset_query_always: calls go on');
	$_->disconnect foreach $one, $two;
}

# Many clients on two connections, each with its own role.
is( wait_for_children(in_parallel(
		6,
		sub {
			my ($n)  = @_;
			my $dbh  = client('two');
			my $who  = $n % 2 ? 'red' : 'blue';
			my $them = $n % 2 ? 'blue' : 'red';

			srand($n);
			foreach my $turn (1 .. 60)
			{
				$dbh->begin_work;
				$dbh->do("SET LOCAL ROLE $who");
				foreach (0 .. int(rand(3)))
				{
					my ($orgs) = $dbh->selectrow_array(
						q{SELECT string_agg(DISTINCT org, ' ') FROM gpucredit.entry});
					die "$who sees $orgs\n" if $orgs ne $who;
					my ($status) = $dbh->selectrow_array(
						"SELECT status FROM gpucredit.hold('$who', '', '$n $turn', 0.001, '1 h')");
					die "$who: $status\n" if $status ne 'granted';
				}
				if (rand() < 0.3)
				{
					die "$who reaches $them\n"
					  if eval { $dbh->do("SELECT * FROM gpucredit.hold('$them', '', 'x', 1, '1 h')"); 1 };
				}
				rand() < 0.8 ? $dbh->commit : $dbh->rollback;
			}
			$dbh->disconnect;
		})),
	0,
	'six clients on two connections stay apart');

# Another tenant's object looks like a missing one, and costs the same work:
# each table is read as often.  The time is only printed, because it depends on
# the machine.
my %foreign = map { split /\|/ } split /\n/,
  query($node, 'credit', q{SELECT org || '|' || min(job) FROM gpucredit.job GROUP BY org});
{
	my $owner = connect_to($node, 'credit', name => 'timing');

	$owner->do(q{SELECT gpucredit.unbind_tenant('red', 'red')});
	$owner->do(q{SELECT gpucredit.create_account('red', 'own')});
	$owner->do(q{SELECT gpucredit.bind_tenant('red', 'red', 'own')});
	$owner->disconnect;
}
foreach my $call (q{cancel('red', %s, 'k')}, q{history('red', %s)}, q{explain('red', %s)}, q{settle('red', %s, 1, 'failed')})
{
	my $theirs = sprintf("SELECT * FROM gpucredit.$call", $foreign{red});
	my $nobody = sprintf("SELECT * FROM gpucredit.$call", 987654321);
	my (@theirs, @nobody, %words, %work);

	$red->begin_work;
	$red->do('SET LOCAL ROLE red');
	$red->do('SAVEPOINT s');
	foreach my $turn (1 .. 60)
	{
		foreach my $one ([ $theirs, \@theirs, $foreign{red} ], [ $nobody, \@nobody, 987654321 ])
		{
			my %before = table_reads($red);
			my $start  = time;

			eval { $red->do($one->[0]) };
			push @{ $one->[1] }, time - $start;
			$words{ $red->state . ' ' . ($red->errstr =~ s/\bjob $one->[2]\b/job N/gr) } = 1;
			$red->do('ROLLBACK TO s');
			my %after = table_reads($red);
			# the first turns make plans
			$work{ join(' ', map { "$_ " . ($after{$_} - ($before{$_} || 0)) } sort keys %after) } = 1
			  if $turn > 10;
		}
	}
	$red->commit;
	is(scalar(keys %words), 1, "$call: the same words") or diag(join("\n", keys %words));
	my ($a, $b) = map { (sort { $a <=> $b } @$_)[ @$_ / 4 ] } \@theirs, \@nobody;

	note(sprintf('%s: %.0f and %.0f us', $call, $a * 1e6, $b * 1e6));
	is(scalar(keys %work), 1, "$call: for the same work") or diag(join("\n", keys %work));
	like((keys %work)[0], qr/ [1-9]/, "$call: which is some") unless $call =~ /^settle/;
}
$_->disconnect foreach $red, $blue;
verify_empty($node, 'credit');
stop_poolers();
done_testing();

END { stop_poolers(); }

# How often the transaction has read each table of the extension.
sub table_reads
{
	my ($dbh) = @_;

	return map { @$_ } @{ $dbh->selectall_arrayref(q{
		SELECT relname, coalesce(seq_scan, 0) + coalesce(idx_scan, 0)
		FROM pg_stat_xact_user_tables WHERE schemaname = 'gpucredit'}) };
}

# A pooler of its own port, in the background.
sub start_pooler
{
	my ($name, $pool, $more) = @_;
	my $port = PostgreSQL::Test::Cluster::get_free_port();

	open(my $conf, '>', "$dir/$name.ini") or die "$dir/$name.ini: $!";
	print $conf <<"END";
[databases]
credit = host=@{[ $node->host ]} port=@{[ $node->port ]} dbname=credit user=gateway $pool
[pgbouncer]
pool_mode = transaction
auth_type = any
listen_addr =
listen_port = $port
unix_socket_dir = $dir
pidfile = $dir/$name.pid
logfile = $dir/$name.log
max_client_conn = 100
ignore_startup_parameters = extra_float_digits
$more
END
	close($conf);
	command_ok([ $pgbouncer, '-q', '-d', "$dir/$name.ini" ], "pgbouncer, $name");
	$pooler{$name} = $port;
	foreach (1 .. 600)
	{
		last if -S "$dir/.s.PGSQL.$port";
		sleep 0.1;
	}
	return;
}

sub stop_poolers
{
	my $status = $?;

	foreach my $name (keys %pooler)
	{
		open(my $file, '<', "$dir/$name.pid") or next;
		my ($pid) = <$file> =~ /^(\d+)/;

		close($file);
		kill('TERM', $pid) if $pid;
	}
	%pooler = ();
	$? = $status;
	return;
}

# A client whose driver prepares statements on demand only.
sub client
{
	my ($name, $prepare) = @_;
	my $dbh = DBI->connect("dbi:Pg:dbname=credit;host=$dir;port=$pooler{$name}", 'anybody', undef,
		{ AutoCommit => 1, RaiseError => 1, PrintError => 0, PrintWarn => 0, AutoInactiveDestroy => 1 });

	$dbh->{pg_server_prepare} = $prepare ? 1 : 0;
	return $dbh;
}

# The rows of a statement, or its SQLSTATE, in a transaction of a role.
sub as
{
	my ($dbh, $role, $sql) = @_;

	$dbh->begin_work;
	$dbh->do("SET LOCAL ROLE $role");
	my $answer = plain($dbh, $sql);
	$dbh->rollback if $answer =~ /^[0-9A-Z]{5}$/ && $dbh->err;
	$dbh->commit unless $dbh->{AutoCommit};
	return $answer;
}

# The same by itself.
sub plain
{
	my ($dbh, $sql) = @_;
	my $rows = eval {
		$sql =~ /^(SELECT|FETCH|EXECUTE)/ ? $dbh->selectall_arrayref($sql) : do { $dbh->do($sql); [] };
	};

	return $dbh->state unless $rows;
	return join("\n", map { join('|', map { $_ // '' } @$_) } @$rows);
}
