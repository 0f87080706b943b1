package GpuCreditDemo::Chart;

# Chart.pm - a small column chart and plain tables for a terminal.

use strict;
use warnings;
use Exporter 'import';

our @EXPORT_OK = qw(chart table);

use constant HEIGHT => 8;

my @EIGHTHS = map { chr } 0x20, 0x2581 .. 0x2588;

# Draws a series of percentages, one column each, over so many days.  The axis
# ends at a round figure above the highest, so that a nearly idle cluster
# still shows its days and nights.
sub chart
{
    my ($series, $days, $unicode) = @_;
    my $top = _round_up((sort { $b <=> $a } @$series)[0] // 0);
    my @lines;
    for my $row (reverse 0 .. HEIGHT - 1)
    {
        my $line = '';
        for my $value (@$series)
        {
            my $level = $value / $top * HEIGHT - $row;
            $level = 0 if $level < 0;
            $level = 1 if $level > 1;
            $line .= $unicode ? $EIGHTHS[ int($level * 8 + 0.5) ]
                : $level >= 0.5 ? '#' : ' ';
        }
        my $label = ($row + 1) % 4
            ? '' : sprintf '%.4g %%', $top * ($row + 1) / HEIGHT;
        push @lines, sprintf '  %8s |%s', $label, $line;
    }
    my $width = @$series;
    push @lines, sprintf '  %8s +%s', '0 %', '-' x $width;
    my $end = sprintf 'day %.1f', $days;
    push @lines, sprintf '  %8s  %-*s%s', '',
        $width > length($end) ? $width - length $end : 1, 'day 0', $end;
    s{ +\z}{} for @lines;
    return @lines;
}

# Lines up rows of cells: the first column to the left, the others right.
sub table
{
    my ($head, @rows) = @_;
    my @width;
    for my $row ($head, @rows)
    {
        for my $i (0 .. $#$row)
        {
            my $length = length $row->[$i];
            $width[$i] = $length if $length > ($width[$i] // 0);
        }
    }
    my @lines;
    for my $row ($head, @rows)
    {
        my $line = sprintf '  %-*s', $width[0], $row->[0];
        $line .= sprintf '  %*s', $width[$_], $row->[$_] for 1 .. $#$row;
        push @lines, $line;
    }
    return @lines;
}

# The first of 1, 2, 5, 10, 20, ... that is not below a value; 100 at most.
sub _round_up
{
    my ($value) = @_;
    my $scale = 0.01;
    while (1)
    {
        for my $step (1, 2, 5)
        {
            my $top = $step * $scale;
            return $top if $top >= $value || $top >= 100;
        }
        $scale *= 10;
    }
    return 100;
}

1;
