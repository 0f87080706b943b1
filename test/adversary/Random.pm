# Random.pm: random choices that a seed repeats on any machine
package Random;

use strict;
use warnings;

sub new
{
	my ($class, $seed) = @_;

	return bless { state => ($seed * 2654435761 + 88172645) % 4294967296 || 1 }, $class;
}

# 0 to n - 1, by a xorshift of 32 bits
sub below
{
	my ($self, $n) = @_;
	my $x = $self->{state};

	$x ^= ($x << 13) & 0xffffffff;
	$x ^= $x >> 17;
	$x ^= ($x << 5) & 0xffffffff;
	$self->{state} = $x;
	return $x % $n;
}

# True with this probability.
sub chance
{
	my ($self, $p) = @_;

	return $self->below(1_000_000) < $p * 1_000_000;
}

sub pick
{
	my ($self, @list) = @_;

	return $list[ $self->below(scalar @list) ];
}

1;
