# GpuCreditCells.pm: a router and cells, each a server of its own
#
#   my $cells = GpuCreditCells->new(qw(a b c));    # cells of these names
#   $cells->{router}, $cells->{a}                  # nodes of GpuCredit.pm
#   query($cells->{router}, 'credit', 'SELECT ...');
#   GpuCreditCells->new('a', "b:$port")            # b runs on that port already
#
# The database is "credit" everywhere.  The first server is copied for the
# others; what a killed process wrote, the machine still has.  Every login of a
# router connects to the cells as itself; the servers of a test trust it.
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
	my $router = new_node('router', 'fsync = off', 'wal_level = logical', 'max_wal_senders = 20',
		'max_replication_slots = 20', @conf);

	new_database($router, 'credit', 'dblink', 'gpucredit_cells', 'plproxy');
	query($router, 'credit', 'ALTER ROLE gpucredit_peer LOGIN');
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
		$self->tell_cells($name);
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

	query($node, 'credit', $_)
	  foreach 'SELECT gpucredit_cells.make_router()',
	  'CREATE USER MAPPING FOR PUBLIC SERVER gpucredit_cells';
	return;
}

sub dsn
{
	my ($self, $name) = @_;

	return sprintf 'host=%s port=%s dbname=credit',
	  $self->{tcp} ? '127.0.0.1' : $self->{$name}->host, $self->{$name}->port;
}

# Gives a cell the router's table of cells.
sub tell_cells
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
	GpuCredit::query($node, 'credit', 'ALTER ROLE gpucredit_peer LOGIN');
	return $node;
}

1;
