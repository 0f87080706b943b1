# Wire.pm: calls to the server over a bad network
#
# A call of an agent, or its answer, may be lost.  A call may arrive twice, or
# out of order long after the agent has given up.  Only heartbeats of one node
# stay in order: an agent has one connection for them, and they queue for the
# node's row.
package Wire;

use strict;
use warnings;

sub new
{
	my ($class, $dbh, $dice) = @_;

	return bless {
		dbh   => $dbh,
		dice  => $dice,
		bad   => 1,			# how bad the network is; 0: perfect
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

# A call of an agent: its rows, or nothing if no answer came.  An error with
# one of the SQLSTATEs in $fine is an answer without rows.  "arrived" says
# whether the server got it.
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

# Delayed calls arrive now.
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
