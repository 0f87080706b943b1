# Wire.pm: calls to the server over a network that is none too good
#
# A call of an agent may be lost on its way or on its way back, arrive twice,
# or arrive long after the agent has given it up, out of order.  Heartbeats of
# one node alone stay in order: an agent has one connection for them, and the
# node's row makes them queue.
package Wire;

use strict;
use warnings;

sub new
{
	my ($class, $dbh, $dice) = @_;

	return bless {
		dbh   => $dbh,
		dice  => $dice,
		bad   => 1,			# how bad the network is; 0: it is not
		late  => [],
		calls => 0,
		fates => {},
	}, $class;
}

# A call that arrives: its rows, as hashes.  Errors raise.
sub call
{
	my ($self, $sql, @args) = @_;
	my $statement = $self->{dbh}->prepare_cached($sql);

	$self->{calls}++;
	$statement->execute(@args);
	return $statement->fetchall_arrayref({});
}

# A call of an agent: its rows, or nothing, where no answer came.  An error
# with one of the SQLSTATEs in $fine is an answer without rows.  "arrived" says
# whether the server has seen it.
sub send
{
	my ($self, $now, $ordered, $fine, $sql, @args) = @_;
	my $fate = $self->_fate($ordered);

	$self->{fates}{$fate}++;
	$self->{arrived} = $fate ne 'lost' && $fate ne 'late';
	return if $fate eq 'lost';
	if ($fate eq 'late')
	{
		push @{ $self->{late} },
		  [ $now + $self->{dice}->between(60, 2400), $fine, $sql, @args ];
		return;
	}
	my $rows = $self->_try($fine, $sql, @args);

	$rows = $self->_try($fine, $sql, @args) if $fate eq 'twice';
	return $fate eq 'unanswered' ? undef : $rows;
}

# What was on its way for long arrives now.
sub deliver
{
	my ($self, $now) = @_;
	my @due = grep { $_->[0] <= $now } @{ $self->{late} };

	$self->{late} = [ grep { $_->[0] > $now } @{ $self->{late} } ];
	foreach my $call (@due)
	{
		my (undef, $fine, $sql, @args) = @$call;

		$self->_try($fine, $sql, @args);
	}
	return;
}

sub _try
{
	my ($self, $fine, $sql, @args) = @_;
	my $rows = eval { $self->call($sql, @args) };

	return $rows if $rows;
	my $state = $self->{dbh}->state;

	die $@ unless grep { $_ eq $state } @$fine;
	return [];
}

sub _fate
{
	my ($self, $ordered) = @_;
	my $roll = $self->{dice}->below(1000);

	return 'fine' unless $self->{bad};
	return 'lost' if $roll < 20;
	return 'unanswered' if $roll < 40;
	return 'twice' if $roll < 55;
	return 'late' if $roll < 70 && !$ordered;
	return 'fine';
}

1;
