# Value.pm: what the model computes with
#
# Credits are integers of millionths, times and durations integers of
# microseconds.  A call the model refuses dies with the SQLSTATE it expects.
package Model::Value;

use strict;
use warnings;

use Exporter 'import';
use Math::BigInt;
use Time::Local 'timegm';

our @EXPORT = qw(
  refuse least most name path amount duration instant whole credits
  cost per_hour funded_for period_start HOUR DAY
);

use constant HOUR => 3_600_000_000;
use constant DAY  => 24 * HOUR;

# Thousandths of a GPU, and microseconds in an hour: what a price is for.
use constant UNIT => 1000 * HOUR;

# Ends a call with an SQLSTATE.
sub refuse
{
	my ($state) = @_;

	die bless({ state => $state }, 'Model::Refusal');
}

sub least
{
	my ($a, $b) = @_;

	return $a < $b ? $a : $b;
}

sub most
{
	my ($a, $b) = @_;

	return $a > $b ? $a : $b;
}

# A name: 1 to 255 bytes.
sub name
{
	my ($text) = @_;

	refuse('22023')
	  if !defined $text || $text eq '' || length($text) > 255;
	return $text;
}

# An account: the list of it and its ancestors, the organisation ('') last.
sub path
{
	my ($account) = @_;

	refuse('22023') if !defined $account || length($account) > 255;
	return ('') if $account eq '';
	my @segments = split(m{/}, $account, -1);

	refuse('22023') if @segments > 8 || grep { $_ eq '' } @segments;
	return ((map { join('/', @segments[ 0 .. $_ ]) } reverse 0 .. $#segments),
		'');
}

# An amount above 0, or 0 where that is allowed.
sub amount
{
	my ($text, $zero_ok) = @_;

	refuse('22023') unless defined $text;
	refuse('22003') unless $text =~ /^(-?)(\d{1,12})(?:\.(\d{1,6})0*)?$/;
	my $value = $2 * 1_000_000 + substr(($3 || '') . '000000', 0, 6);

	refuse('22023') if $1 || ($value == 0 && !$zero_ok);
	return $value;
}

# A duration above 0, or 0 where that is allowed; undef where none is given
# and none need be.
sub duration
{
	my ($text, %options) = @_;

	return undef if !defined $text && $options{optional};
	refuse('22023')
	  unless defined $text && $text =~ /^(-?\d+) microseconds$/;
	refuse('22023') if $1 < 0 || ($1 == 0 && !$options{zero_ok});
	return $1;
}

# An instant, or undef.
sub instant
{
	my ($at) = @_;

	refuse('22023') if defined $at && $at =~ /infinity/;
	return $at;
}

# An integer that has to be given.
sub whole
{
	my ($n, $least, $most) = @_;

	refuse('22023')
	  if !defined $n
	  || (defined $least && $n < $least)
	  || (defined $most && $n > $most);
	return $n;
}

# Millionths as they are printed.
sub credits
{
	my ($n) = @_;

	return ($n < 0 ? '-' : '')
	  . sprintf('%d.%06d', do { use integer; abs($n) / 1_000_000 },
		abs($n) % 1_000_000);
}

# What GPUs (of so many thousandths each) cost for a time: rounded half up,
# or up; what was used costs a millionth at least.
sub cost
{
	my ($price, $gpus, $share, $us, $up) = @_;
	my ($unit, $time) = (UNIT, $us);

	($unit, $time) = (UNIT / 1000, $us / 1000) if $us % 1000 == 0;
	if ($price * 1.0 * $gpus * $share * $time < 4e18)
	{
		use integer;
		my $product = $price * $gpus * $share * $time;

		my $whole = ($product + ($up ? $unit - 1 : $unit / 2)) / $unit;

		return !$whole && $product ? 1 : $whole;
	}
	my $product = Math::BigInt->new($price) * $gpus * $share * $us;

	$product += $up ? UNIT - 1 : UNIT / 2;
	return $product->bdiv(UNIT)->numify;
}

# What an hour of GPUs costs, rounded up: what an attempt's bill is made of.
sub per_hour
{
	my ($price, $gpus, $share) = @_;

	return cost($price, $gpus, $share, HOUR, 1);
}

# The longest time that costs no more than an amount, before rounding; undef:
# any does.
sub funded_for
{
	my ($price, $gpus, $share, $amount) = @_;
	my $rate = $price * $gpus * $share;

	return undef if $rate == 0;
	return (Math::BigInt->new($amount) * UNIT)->bdiv($rate)->numify;
}

# When the period of the UTC calendar began that an instant is in.
sub period_start
{
	my ($period, $at) = @_;

	return '-' if $period eq 'none';
	my $second = do { use integer; $at / 1_000_000 };
	my (undef, undef, undef, $day, $month, $year, $weekday) = gmtime($second);
	my $midnight = timegm(0, 0, 0, $day, $month, $year + 1900);
	my $start =
	    $period eq 'day'     ? $midnight
	  : $period eq 'week'    ? $midnight - (($weekday + 6) % 7) * 86400
	  : $period eq 'month'   ? timegm(0, 0, 0, 1, $month, $year + 1900)
	  : $period eq 'quarter' ? timegm(0, 0, 0, 1, $month - $month % 3,
		$year + 1900)
	  : timegm(0, 0, 0, 1, 0, $year + 1900);

	return $start * 1_000_000;
}

1;
