package GpuCreditDemo::Cluster;

# Cluster.pm - how many GPUs are given out, hour by hour.
#
# Kept by the demo from what place() started and settle() ended, in
# thousandths of a GPU, so that the report's utilisation is what an agent on
# the machines would have seen.

use strict;
use warnings;

use constant HOUR => 3600;

sub new
{
    my ($class, $nodes) = @_;
    my (%devices, $total);
    for my $node (@$nodes)
    {
        $devices{ $node->{type} } += $node->{gpus};
        $total += $node->{gpus};
    }
    return bless {
        devices => \%devices, total => $total, nodes => scalar @$nodes,
        milli => 0, last => 0, hours => [], peak => 0, seconds => {}
    }, $class;
}

# Devices of a type were given out (milli > 0) or came back (milli < 0).
sub change
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
