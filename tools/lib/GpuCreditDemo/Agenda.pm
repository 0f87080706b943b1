package GpuCreditDemo::Agenda;

# Agenda.pm - the events of each second of simulated time.
#
# A hash from second to its events, and a binary heap of the seconds.  All
# events of one second come out together, so the replay can run one scheduling
# cycle for all of them.

use strict;
use warnings;

sub new
{
    my ($class) = @_;
    return bless { at => {}, heap => [] }, $class;
}

# Puts an event on the agenda; events of one second keep their order.
sub add
{
    my ($self, $second, @event) = @_;
    my $at = $self->{at};
    if (!$at->{$second})
    {
        $at->{$second} = [];
        $self->_push($second);
    }
    push @{ $at->{$second} }, \@event;
    return;
}

# The next second and its events, or nothing when the agenda is empty.
# Events added for that same second afterwards form a new entry.
sub next
{
    my ($self) = @_;
    my $second = $self->_pop;
    return if !defined $second;
    return ($second, delete $self->{at}{$second});
}

# How many seconds have events.
sub size
{
    my ($self) = @_;
    return scalar @{ $self->{heap} };
}

# Adds one second to the heap.
sub _push
{
    my ($self, $value) = @_;
    my $heap = $self->{heap};
    my $i    = @$heap;
    while ($i > 0)
    {
        my $parent = ($i - 1) >> 1;
        last if $heap->[$parent] <= $value;
        $heap->[$i] = $heap->[$parent];
        $i = $parent;
    }
    $heap->[$i] = $value;
    return;
}

# Takes the smallest second off the heap.
sub _pop
{
    my ($self) = @_;
    my $heap = $self->{heap};
    return undef if !@$heap;
    my $top  = $heap->[0];
    my $last = pop @$heap;
    my $size = @$heap;
    if ($size)
    {
        my $i = 0;
        while ((my $child = 2 * $i + 1) < $size)
        {
            $child++
                if $child + 1 < $size && $heap->[ $child + 1 ] < $heap->[$child];
            last if $last <= $heap->[$child];
            $heap->[$i] = $heap->[$child];
            $i = $child;
        }
        $heap->[$i] = $last;
    }
    return $top;
}

1;
