# 017_passwords.pl: the worked example of docs/cells.md: databases that let each
# other in over TCP by passwords only, as the four roles of least rights
#
# The statements of that page's example are run as printed, in the database that
# stands above each block, but for hosts, passwords and TLS.
# Packages: postgresql-N-plproxy
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../test/perl", "$FindBin::RealBin/lib";
use GpuCredit;
use PostgreSQL::Test::Utils;
use Test::More;

my @roles = qw(gpucredit_router gpucredit_mover gpucredit_peer gpucredit_subscriber);
my $page  = PostgreSQL::Test::Utils::slurp_file("$FindBin::RealBin/../../docs/cells.md");
my ($example) = $page =~ /^## A worked example\n(.*?)(?=^## )/ms;
my (%node, %port);

# The password file of every server's own user.
$ENV{PGPASSFILE} = PostgreSQL::Test::Utils::tempdir() . '/pgpass';
PostgreSQL::Test::Utils::append_to_file($ENV{PGPASSFILE}, join '', map { "*:*:*:$_:secret of $_\n" } @roles);
chmod 0600, $ENV{PGPASSFILE};

foreach my $name (qw(router eu1 us1))
{
	$node{$name} = new_node($name, 'wal_level = logical', 'max_wal_senders = 20',
		'max_replication_slots = 20', q{listen_addresses = '127.0.0.1'}, 'jit = off');
	new_database($node{$name}, 'gpu');
	$port{$name} = $node{$name}->port;
	# over TCP only these roles come in, by their passwords
	PostgreSQL::Test::Utils::append_to_file($node{$name}->data_dir . '/pg_hba.conf', '');
	unlink $node{$name}->data_dir . '/pg_hba.conf';
	PostgreSQL::Test::Utils::append_to_file($node{$name}->data_dir . '/pg_hba.conf',
		"local all all trust\nhost gpu " . join(',', @roles) . " 127.0.0.1/32 scram-sha-256\nhost all all all reject\n");
	$node{$name}->reload;
}

my $blocks = 0;
while ($example =~ /^\*\*(.*?)\*\*.*?^```sql\n(.*?)^```/msg)
{
	my ($where, $sql) = ($1, $2);

	$sql =~ s/host=(\w+)\.example port=5432/host=127.0.0.1 port=$port{$1}/g;
	$sql =~ s/ sslmode=verify-full sslrootcert=\S+?(?=')//g;
	$sql =~ s/PASSWORD '\.\.\.'/PASSWORD 'secret of nobody'/g;
	foreach my $name (grep { $where =~ /\b$_\b/ || $where =~ /every database/ } qw(router eu1 us1))
	{
		foreach my $statement (split /;[^\n']*\n/, $sql)
		{
			my $one = $statement =~ s/^(ALTER ROLE (\w+) .*PASSWORD 'secret of )nobody/$1$2/r;
			next if $one !~ /\S/;
			ok($node{$name}->poll_query_until('gpu', 'SELECT count(*) = 2 FROM gpucredit_cells.cell'), "$name has the list of cells")
			  if $one =~ /join_cells/;
			query($node{$name}, 'gpu', $one);
		}
		$blocks++;
	}
}
cmp_ok($blocks, '>=', 7, 'the example was run');
foreach my $name (qw(eu1 us1))
{
	ok($node{$name}->poll_query_until('gpu', q{SELECT NOT EXISTS (SELECT FROM pg_subscription_rel WHERE srsubstate <> 'r')
		AND EXISTS (SELECT FROM pg_subscription_rel)}), "what $name subscribes to has come");
}
is(query($node{router}, 'gpu', q{SELECT trim_scale(available) FROM gpucredit.balance('acme')}), '900', 'a call through the router arrives: the lease is held');
is(query($node{us1}, 'gpu', q{SELECT per_gpu_hour FROM gpucredit.price WHERE gpu_type = 'H100'}), '4.500000', 'a price of the first cell holds in the other one');
foreach my $round (1 .. 50)
{
	last if query($node{us1}, 'gpu', 'SELECT count(*) FROM gpucredit_cells.lease_in') == 1;
	query($node{$_}, 'gpu', 'SELECT * FROM gpucredit_cells.carry()') foreach qw(eu1 us1);
}
is(query($node{us1}, 'gpu', q{SELECT trim_scale(available) FROM gpucredit.balance('acme')}), '100', 'a lease reaches the other cell');
query($node{router}, 'gpu', $_) foreach q{SELECT gpucredit_cells.set_home('beta', 'eu1', 'home beta')},
  q{SELECT gpucredit.create_account('beta'), gpucredit.issue('beta', '', 'invoice 2', 50)},
  q{CALL gpucredit_cells.move_org('beta', 'us1', 'move beta')};
is(query($node{router}, 'gpu', q{SELECT h.cell, trim_scale(b.available) FROM gpucredit_cells.home h, gpucredit.balance('beta') b WHERE h.org = 'beta'}),
	'us1|50', 'an organisation moves');
is(query($node{router}, 'gpu', 'SELECT * FROM gpucredit_cells.verify_cells()'), '', 'the books of all cells agree');
is(query($node{eu1}, 'gpu', q{SELECT string_agg(DISTINCT usename, ' ' ORDER BY usename) FROM pg_stat_activity
	WHERE client_addr IS NOT NULL AND usename NOT LIKE 'gpucredit\_%'}), '', 'nobody else came in over TCP');
foreach my $role (@roles)
{
	my ($out, $err);

	local $ENV{PGPASSFILE} = '/nonexistent';
	IPC::Run::run([ 'psql', '-XAtw', '-d', "host=127.0.0.1 port=$port{eu1} dbname=gpu user=$role", '-c', 'SELECT 1' ], '>', \$out, '2>', \$err);
	like($err, qr/no password supplied/, "$role is not let in without its password");
}
done_testing();
