package GpuCreditDemo::CellsDb;

# CellsDb.pm - talks to a router, and deals the workload out to its cells.
#
# The statements are those of Db.pm, unchanged.  An organisation or a node that
# appears for the first time is put into the directory, in turn.  Simulated time
# is set in the cells' sessions, and as their databases' default for sessions
# that routers, moves and leases open.

use strict;
use warnings;
use parent -norequire, 'GpuCreditDemo::Db';
use DBI;
use GpuCreditDemo::Db;

# cells: name => [host, port].  on_clock is called with each new second.
sub new
{
    my ($class, %opt) = @_;
    my $self = bless GpuCreditDemo::Db->new, $class;
    $self->{cells} = { map {
        my ($host, $port) = @{ $opt{cells}{$_} };
        $_ => DBI->connect("dbi:Pg:dbname=credit;host=$host;port=$port",
            'postgres', undef,
            { RaiseError => 1, PrintError => 0, pg_enable_utf8 => 0 })
    } keys %{ $opt{cells} } };
    $self->{names}    = [ sort keys %{ $opt{cells} } ];
    $self->{on_clock} = $opt{on_clock};
    $self->_set_in_cells($_, $self->{settings}{$_}) for keys %{ $self->{settings} };
    return $self;
}

# A setting, in this session and in the cells.
sub set
{
    my ($self, $name, $value) = @_;
    $self->SUPER::set($name, $value);
    $self->_set_in_cells($name, $value) if $self->{cells};
    return;
}

sub _set_in_cells
{
    my ($self, $name, $value) = @_;
    for my $dbh (values %{ $self->{cells} })
    {
        $dbh->do("ALTER DATABASE credit SET $name = " . $dbh->quote($value));
        $dbh->do('SELECT set_config(?, ?, false)', undef, $name, $value);

        # the router's connections have the rights of gpucredit_admin
        $dbh->do("GRANT SET ON PARAMETER $name TO gpucredit_admin, gpucredit_router")
            if !$self->{granted}{"$dbh $name"}++;
    }
    $self->{dbh}->do('SELECT demo_everywhere(?, ?)', undef, $name, $value);
    return;
}

sub set_clock
{
    my ($self, $second) = @_;
    return if defined $self->{clock} && $self->{clock} == $second;
    $self->SUPER::set_clock($second);
    $self->_set_in_cells('gpucredit.clock', $self->timestamp($second));
    $self->{on_clock}->($self, $second) if $self->{on_clock};
    return;
}

# The cell in whose turn it is to get one more of a kind.
sub _next_cell
{
    my ($self, $kind) = @_;
    my $names = $self->{names};
    return $names->[ $self->{turn}{$kind}++ % @$names ];
}

sub call
{
    my ($self, $name, @args) = @_;
    if ($name eq 'create_account' && !$self->{home}{ $args[0] })
    {
        my $cell = $self->{home}{ $args[0] } = $self->_next_cell('home');
        $self->{dbh}->do('SELECT gpucredit_cells.set_home(?, ?, ?)', undef,
            $args[0], $cell, "home $args[0]");
    }
    if ($name eq 'register_node' && !$self->{place}{ $args[0] })
    {
        my $cell = $self->{place}{ $args[0] } = $self->_next_cell("node $args[1]");
        $self->{dbh}->do(q{SELECT gpucredit_cells.set_location('node', ?, ?, ?)},
            undef, $args[0], $cell, "node $args[0]");
    }
    my $rows = $self->SUPER::call($name, @args);

    # after an error PL/Proxy has a new connection
    if (!$rows && defined $self->{clock})
    {
        $self->{dbh}->do('SELECT demo_everywhere(?, ?)', undef, $_,
            $self->{settings}{$_}) for keys %{ $self->{settings} };
        $self->{dbh}->do('SELECT demo_everywhere(?, ?)', undef,
            'gpucredit.clock', $self->timestamp($self->{clock}));
    }
    return $rows;
}

# A statement in one cell.
sub at_cell
{
    my ($self, $cell, $sql, @args) = @_;
    return $self->{cells}{$cell}->selectall_arrayref($sql, { Slice => {} }, @args);
}

1;
