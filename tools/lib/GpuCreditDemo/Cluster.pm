package GpuCreditDemo::Cluster;

# Cluster.pm - which GPUs are given out, and how many each hour.
#
# The demo keeps this from what place() started and settle() ended, in
# thousandths of a GPU, as agents would see it.  So it notices a device that is
# given out twice or wrongly.

use strict;
use warnings;

use constant HOUR  => 3600;
use constant WHOLE => 1000;

sub new
{
    my ($class, $nodes) = @_;
    my (%devices, %left, %type, $total);
    for my $node (@$nodes)
    {
        $devices{ $node->{type} } += $node->{gpus};
        $type{ $node->{name} } = $node->{type};
        $left{ $node->{name} } = [ (WHOLE) x $node->{gpus} ];
        $total += $node->{gpus};
    }
    return bless {
        left => \%left, type => \%type, closed => {}, broken => {},
        devices => \%devices, total => $total, nodes => scalar @$nodes,
        milli => 0, last => 0, hours => [], peak => 0, seconds => {}
    }, $class;
}

# Allocates the devices of an attempt as the rows of place() say.  Returns what is wrong
# with them, a text each.
sub allocate
{
    my ($self, $now, $rows) = @_;
    my @wrong;
    for my $row (@$rows)
    {
        my ($node, $share) = @{$row}{qw(node share)};
        my $left = $self->{left}{$node};
        push @wrong, "node $node is not there"        if !$left;
        push @wrong, "node $node takes no new work"   if $self->{closed}{$node};
        push @wrong, "node $node is no $row->{gpu_type}"
            if defined $row->{gpu_type} && $row->{gpu_type} ne $self->{type}{$node};
        for my $device (devices($row->{gpus}))
        {
            push @wrong, "device $device of node $node is broken"
                if $self->{broken}{$node}{$device};
            $left->[$device] = ($left->[$device] // 0) - $share;
            push @wrong, "device $device of node $node is given out twice"
                if $left->[$device] < 0;
        }
    }
    $self->_change($now, milli($rows));
    return @wrong;
}

# An attempt is over.
sub release_devices
{
    my ($self, $now, $rows) = @_;
    for my $row (@$rows)
    {
        $self->{left}{ $row->{node} }[$_] += $row->{share}
            for devices($row->{gpus});
    }
    $self->_change($now, -milli($rows));
    return;
}

# A node is drained, or takes work again.
sub close_node
{
    my ($self, $node, $closed) = @_;
    $self->{closed}{$node} = $closed;
    return;
}

# The devices of a node that work; undef for all.
sub healthy
{
    my ($self, $node, $set) = @_;
    my %broken;
    if (defined $set)
    {
        @broken{ 0 .. $#{ $self->{left}{$node} } } = (1) x 64;
        delete @broken{ devices($set) };
    }
    $self->{broken}{$node} = \%broken;
    return;
}

# The devices that a gpuset names.
sub devices
{
    my ($set) = @_;
    return map { my ($from, $upto) = split /-/; $from .. $upto // $from }
        split /,/, ($set // '{}') =~ tr/{}//dr;
}

# Thousandths of a GPU that rows of place() give out.
sub milli
{
    my ($rows) = @_;
    my $milli = 0;
    $milli += devices($_->{gpus}) * $_->{share} for @$rows;
    return $milli;
}

# Adds to, or takes from, what is in use from now on.
sub _change
{
    my ($self, $now, $milli) = @_;
    $self->advance($now);
    $self->{milli} += $milli;
    $self->{peak} = $self->{milli} if $self->{milli} > $self->{peak};
    return;
}

# What an attempt used of a type, for GPU-hours by type.
sub used
{
    my ($self, $type, $milli, $seconds) = @_;
    $self->{seconds}{$type} += $milli / 1000 * $seconds;
    return;
}

# Adds what has been given out since the last change to its hours.
sub advance
{
    my ($self, $now) = @_;
    my $from = $self->{last};
    while ($from < $now)
    {
        my $hour = int($from / HOUR);
        my $upto = ($hour + 1) * HOUR;
        $upto = $now if $upto > $now;
        $self->{hours}[$hour] += $self->{milli} / 1000 * ($upto - $from);
        $from = $upto;
    }
    $self->{last} = $now if $now > $self->{last};
    return;
}

# Mean GPUs in use in each of so many equal stretches of the time up to now.
sub profile
{
    my ($self, $columns) = @_;
    my $hours = @{ $self->{hours} } || 1;
    $columns = $hours if $columns > $hours;
    my @profile;
    for my $i (0 .. $columns - 1)
    {
        my $from = int($i * $hours / $columns);
        my $upto = int(($i + 1) * $hours / $columns);
        my $sum  = 0;
        $sum += $self->{hours}[$_] // 0 for $from .. $upto - 1;
        push @profile, $sum / HOUR / ($upto - $from);
    }
    return @profile;
}

1;
