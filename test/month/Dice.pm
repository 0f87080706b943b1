# Dice.pm: random numbers that a seed repeats on any machine
package Dice;

use strict;
use warnings;

sub new
{
	my ($class, $seed) = @_;

	return bless { state => ($seed * 2654435761 + 1) % 4294967296 }, $class;
}

# 0 to n - 1
sub below
{
	my ($self, $n) = @_;

	# xorshift, of 32 bits
	my $x = $self->{state} || 88172645;

	$x ^= ($x << 13) & 0xffffffff;
	$x ^= $x >> 17;
	$x ^= ($x << 5) & 0xffffffff;
	$self->{state} = $x;
	return $x % $n;
}

sub between
{
	my ($self, $least, $most) = @_;

	return $least + $self->below($most - $least + 1);
}

# True once in so many calls.
sub once_in
{
	my ($self, $n) = @_;

	return $self->below($n) == 0;
}

sub pick
{
	my ($self, @list) = @_;

	return $list[ $self->below(scalar @list) ];
}

1;
