# GpuCreditCells.pm: a router and cells, each a server of its own
#
#   my $cells = GpuCreditCells->new(qw(a b c));    # cells of these names
#   $cells->{router}, $cells->{a}                  # nodes of GpuCredit.pm
#   query($cells->{router}, 'credit', 'SELECT ...');
#   GpuCreditCells->new('a', "b:$port")            # b runs on that port already
#
# The database is "credit" everywhere.  The first server is copied for the
# others; what a killed process wrote, the machine still has.  The cells trust
# the router's machine, as gpucredit_router; its superuser calls as
# gpucredit_admin.
package GpuCreditCells;

use strict;
use warnings;

use GpuCredit;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::RecursiveCopy;
use Test::More;

# Further arguments after "conf" are lines of every postgresql.conf.
sub new
{
	my ($class, @names) = @_;
	my @conf;

	for my $i (0 .. $#names)
	{
		next unless $names[$i] eq 'conf';
		@conf = @names[ $i + 1 .. $#names ];
		@names = @names[ 0 .. $i - 1 ];
		last;
	}
	my %ports = map { /^(.*?):(\d+)$/ } @names;
	s/:.*// foreach @names;
	push @conf, q{listen_addresses = '127.0.0.1'} if %ports;
	my $self = bless { names => \@names, tcp => scalar %ports }, $class;
	my $router = new_node('router', 'wal_level = logical', 'max_wal_senders = 20',
		'max_replication_slots = 20', @conf);

	new_database($router, 'credit', 'dblink', 'gpucredit_cells', 'plproxy');
	let_in($router);
	$router->stop;
	PostgreSQL::Test::RecursiveCopy::copypath($router->data_dir,
		$router->backup_dir . '/new');
	$router->start;
	$self->{router} = $router;
	$self->{$_} = $ports{$_} ? GpuCreditCells::Running->new($ports{$_}) : $self->new_server($_)
	  foreach @names;

	foreach my $name (@names)
	{
		$self->at_router(sprintf q{SELECT gpucredit_cells.set_cell('%s', 'region %s', '%s', 'cell %s')},
			$name, $name, $self->dsn($name), $name);
	}
	foreach my $name (@names)
	{
		$self->send_cell_table($name);
		query($self->{$name}, 'credit', "SELECT gpucredit_cells.join_cells('$name')");
	}
	query($self->{ $names[0] }, 'credit', 'SELECT gpucredit_cells.publish_rules()');
	foreach my $name (@names[ 1 .. $#names ])
	{
		query($self->{$name}, 'credit', sprintf q{CREATE SUBSCRIPTION rules_of_%s
			CONNECTION '%s' PUBLICATION gpucredit_rules}, $name, $self->dsn($names[0]));
	}
	make_router($router);
	return $self;
}

# One more server, as the first was when it was new.
sub new_server
{
	my ($self, $name) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);

	$node->init_from_backup($self->{router}, 'new');
	$node->start;
	return $node;
}

sub make_router
{
	my ($node) = @_;

	query($node, 'credit', 'SELECT gpucredit_cells.make_router()');
	return;
}

# Lets other cells and routers in, and these logins through routers.  The
# superuser of a router, who calls as gpucredit_admin, reports for agents, too.
sub let_in
{
	my ($node, @logins) = @_;

	GpuCredit::query($node, 'credit', $_)
	  foreach 'ALTER ROLE gpucredit_peer LOGIN', 'ALTER ROLE gpucredit_router LOGIN', 'ALTER ROLE gpucredit_mover LOGIN',
	  'GRANT gpucredit_agent TO gpucredit_admin',
	  map { "GRANT $_ TO gpucredit_router" } 'gpucredit_admin', @logins;
	return;
}

sub dsn
{
	my ($self, $name) = @_;

	return sprintf 'host=%s port=%s dbname=credit',
	  $self->{tcp} ? '127.0.0.1' : $self->{$name}->host, $self->{$name}->port;
}

# Gives a cell the router's table of cells.
sub send_cell_table
{
	my ($self, $name) = @_;
	my $rows = $self->at_router(
		q{SELECT format('(%L, %s, %L, %L)', cell, number, region, dsn) FROM gpucredit_cells.cell});

	query($self->{$name}, 'credit',
		'INSERT INTO gpucredit_cells.cell VALUES ' . join(', ', split /\n/, $rows)
		  . ' ON CONFLICT (cell) DO UPDATE SET dsn = excluded.dsn');
	return;
}

sub at_router
{
	my ($self, $sql) = @_;

	return query($self->{router}, 'credit', $sql);
}

# Tests: every cell's books are sound.
sub verify_all
{
	my ($self) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	verify_empty($self->{$_}, 'credit', "verify() is empty in cell $_")
	  foreach @{ $self->{names} };
	return;
}

# A server that somebody else started, on a port of this machine.
package GpuCreditCells::Running;

use parent -norequire, 'PostgreSQL::Test::Cluster';

sub new
{
	my ($class, $port) = @_;
	my $node = bless { _host => '127.0.0.1', _port => $port, _name => "port $port" }, $class;

	GpuCredit::new_database($node, 'credit', 'dblink', 'gpucredit_cells');
	GpuCreditCells::let_in($node);
	return $node;
}

1;
