# Budget.pm: how much accounts may spend in a period
#
# Each part of a hold remembers the counters it was counted in when it was
# drawn, and only those are credited back: reserved until it is captured or
# returned, then spent until it is refunded.
package Model::Budget;

use strict;
use warnings;

use Model::Value;

sub new
{
	my ($class) = @_;

	return bless({ budgets => {}, counters => {} }, $class);
}

# Sets a budget; amount undef removes it, and what it counted is forgotten:
# set again, it counts from nothing.
sub set
{
	my ($self, $org, $account, $period, $amount, $hard) = @_;

	if (defined $amount)
	{
		$self->{budgets}{$org}{$account}{$period} =
		  { amount => $amount, hard => $hard };
	}
	else
	{
		my $counters = $self->{counters}{$org};

		delete $self->{budgets}{$org}{$account}{$period};
		delete @$counters{ grep { index($_, "$account|$period|") == 0 }
			  keys %$counters };
	}
	return;
}

# The budgets on a path, each with the counter of the period an instant is
# in, nearest account first.
sub on_path
{
	my ($self, $org, $at, @path) = @_;
	my @found;

	foreach my $account (@path)
	{
		my $budgets = $self->{budgets}{$org}{$account} or next;

		foreach my $period (sort keys %$budgets)
		{
			my $start = period_start($period, $at);

			push @found,
			  { %{ $budgets->{$period} },
				account => $account,
				period  => $period,
				start   => $start,
				counter => $self->counter($org, $account, $period, $start) };
		}
	}
	return @found;
}

sub counter
{
	my ($self, $org, $account, $period, $start) = @_;

	return $self->{counters}{$org}{"$account|$period|$start"} ||=
	  { reserved => 0, spent => 0, name => "$account|$period|$start" };
}

# Does a hard budget on the path refuse an amount?
sub refuses
{
	my ($self, $org, $at, $amount, @path) = @_;

	return 0 if $amount == 0;
	foreach my $budget (grep { $_->{hard} } $self->on_path($org, $at, @path))
	{
		my $counter = $budget->{counter};

		return 1
		  if $counter->{reserved} + $counter->{spent} + $amount >
		  $budget->{amount};
	}
	return 0;
}

# How much each hard budget on the path still takes.
sub room
{
	my ($self, $org, $at, @path) = @_;

	return map {
		my $counter = $_->{counter};

		most($_->{amount} - $counter->{reserved} - $counter->{spent}, 0)
	} grep { $_->{hard} } $self->on_path($org, $at, @path);
}

# What becomes of credit that some counters count.
sub move
{
	my ($counters, $reserved, $spent) = @_;

	foreach my $counter (@$counters)
	{
		$counter->{reserved} += $reserved;
		$counter->{spent}    += $spent;
		die "counter $counter->{name} is negative\n"
		  if $counter->{reserved} < 0 || $counter->{spent} < 0;
	}
	return;
}

# What is left in each budget on a path, as the holds that are dead leave it:
# rows of account, period, start, amount, reserved, spent, remaining, hard.
sub rows
{
	my ($self, $org, $at, $dead, @path) = @_;
	my %free;

	foreach my $part (map { @{ $_->{parts} } } @$dead)
	{
		$free{$_} += $part->{held} foreach @{ $part->{counters} };
	}
	return map {
		my $reserved = $_->{counter}{reserved} - ($free{ $_->{counter} } || 0);

		+{  %$_,
			reserved  => $reserved,
			spent     => $_->{counter}{spent},
			remaining => $_->{amount} - $reserved - $_->{counter}{spent} }
	} $self->on_path($org, $at, @path);
}

1;
