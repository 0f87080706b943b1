package GpuCreditDemo::Money;

# Money.pm - credits as whole micro-credits.
#
# The demo recomputes every bill and balance as the ledger does: in 64-bit
# integers, never in floating point.

use strict;
use warnings;
use Exporter 'import';

our @EXPORT_OK = qw(micro credits bill);

# "12.5" or "-0.000001" as micro-credits; dies on what is no amount.
sub micro
{
    my ($text) = @_;
    my ($sign, $whole, $part) = ($text // '') =~ /^(-?)(\d+)(?:\.(\d{1,6}))?$/
        or die 'not an amount: ' . ($text // 'NULL') . "\n";
    my $value = $whole * 1_000_000 + substr(($part // '') . '000000', 0, 6);
    return $sign ? -$value : $value;
}

# Micro-credits as text with six decimals, the form the ledger prints.
sub credits
{
    my ($micro) = @_;
    my $sign = $micro < 0 ? '-' : '';
    use integer;
    $micro = -$micro if $micro < 0;
    return sprintf '%s%d.%06d', $sign, $micro / 1_000_000, $micro % 1_000_000;
}

# What an attempt owes: price per GPU-hour x GPUs (in thousandths) x seconds,
# rounded half up once.  Split over hours so that no product passes 2^63.
sub bill
{
    my ($price_micro, $milli, $seconds) = @_;
    use integer;
    my $rate  = $price_micro * $milli;          # micro-credits/1000 an hour
    my $whole = $rate * ($seconds / 3600);
    my $rest  = $rate * ($seconds % 3600);      # thousandths x 3600
    my $total = $whole / 1000;
    my $fraction = ($whole % 1000) * 3600 + $rest;
    return $total + ($fraction + 1_800_000) / 3_600_000;
}

1;
