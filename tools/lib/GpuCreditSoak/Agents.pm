package GpuCreditSoak::Agents;

# Agents.pm - one process that plays the agents of some nodes
#
# A node calls heartbeat each 30 seconds, and at once when a notification names
# it.  What heartbeat says to start is metered at once, then in batches each 30
# seconds, and settled as completed after the seconds that its spec names; a job
# without them runs on for ever.  One job in 500 falls silent: its agent never
# mentions it again, so that the server has to find it.

use strict;
use warnings;
use GpuCreditSoak::Db;
use GpuCreditSoak::World;
use JSON::PP;
use Time::HiRes qw(time);

my $BEAT   = 30;				# seconds between two heartbeats of a node
my $METER  = 30;				# and between two of an attempt
my $BATCH  = 500;
my $SILENT = 500;				# one job in so many

# Plays the nodes whose number modulo $of is $number, until $$stop.
sub run
{
	my ($out, $stop, $world, $number, $of) = @_;
	my $calls = GpuCreditSoak::Db->new($out);
	my $self  = bless {
		calls    => $calls,
		beats    => [],			# [ when, node ], the next one first
		beat_at  => {},			# node => when
		told     => {},			# nodes that a notification named
		ends     => [],			# [ when, org/job/attempt ], the next one first
		attempts => {},			# org/job/attempt => what runs
		on       => {},			# node => { org/job/attempt => 1 }
		meter_at => time + $METER }, __PACKAGE__;
	my @mine = grep { $_ % $of == $number } 0 .. $world->{nodes} - 1;

	# heartbeats are spread over the interval
	$self->_plan_beat("n$mine[$_]", time + $BEAT * $_ / @mine) foreach 0 .. $#mine;
	$calls->handle->do('LISTEN gpucredit_node');
	until ($$stop)
	{
		$self->_read_notifications;
		$self->_heartbeats;
		$self->_settlements;
		$self->_meter if time >= $self->{meter_at};
		select(undef, undef, undef, 0.01);
	}
	return;
}

sub _plan_beat
{
	my ($self, $node, $when) = @_;

	$self->{beat_at}{$node} = $when;
	push @{ $self->{beats} }, [ $when, $node ];
	return;
}

sub _read_notifications
{
	my ($self) = @_;

	while (my $told = $self->{calls}->handle->pg_notifies)
	{
		my $node = $told->[2];

		$self->{told}{$node} = 1 if exists $self->{beat_at}{$node};
	}
	return;
}

sub _heartbeats
{
	my ($self) = @_;
	my @nodes = keys %{ $self->{told} };
	my $beats = $self->{beats};

	$self->{told} = {};
	$self->{beat_at}{$_} = time + $BEAT foreach @nodes;
	while (@$beats && $beats->[0][0] <= time && @nodes < 50)
	{
		my (undef, $node) = @{ shift @$beats };

		# it has called since, because it was told to
		if ($self->{beat_at}{$node} > time)
		{
			push @$beats, [ $self->{beat_at}{$node}, $node ];
			next;
		}
		push @nodes, $node;
		push @$beats, [ time + $BEAT, $node ];
	}
	$self->_heartbeat($_) foreach @nodes;
	return;
}

sub _heartbeat
{
	my ($self, $node) = @_;
	my @running = keys %{ $self->{on}{$node} || {} };

	$self->{beat_at}{$node} = time + $BEAT;
	my $rows = $self->{calls}->call('heartbeat', '', q{
		SELECT org, job, attempt, action, spec, reason,
			extract(epoch FROM started_at) AS started
		FROM gpucredit.heartbeat(?, NULL, ?)}, $node, \@running) or return;

	$self->_obey($node, $_) foreach @$rows;
	return;
}

# Does what heartbeat said of an attempt.
sub _obey
{
	my ($self, $node, $row) = @_;
	my $name = join('/', @$row{qw(org job attempt)});
	my $runs = $self->{attempts}{$name};

	if ($row->{action} eq 'start' && !$runs)
	{
		my $spec = decode_json($row->{spec} // '{}');
		my $silent = $spec->{seconds} && rand($SILENT) < 1;

		# a job that went back to the queue did not wait since its submission
		if ($spec->{at} && $row->{attempt} == 1)
		{
			$self->{calls}->report('start', $spec->{kind}, $row->{started} - $spec->{at}, 'ok');
			$self->{calls}->report('start at agent', $spec->{kind}, time - $spec->{at}, 'ok');
		}
		push @{ $self->{ends} }, [ time + $spec->{seconds}, $name ]
		  if $spec->{seconds} && !$silent;
		$self->{attempts}{$name} = { node => $node, began => time, kind => $spec->{kind},
			args => [ @$row{qw(org job attempt)} ], silent => $silent };
		$self->{on}{$node}{$name} = 1;
		$self->{calls}->call('meter', $spec->{kind} // '',
			q{SELECT action FROM gpucredit.meter(?, ?, ?, '0 s')}, @$row{qw(org job attempt)});
	}
	elsif ($row->{action} eq 'stop')
	{
		# what is not ours, or is over, has nothing to settle
		$runs && !$runs->{silent} ? $self->_settle($name, 'cancelled')
		  : $self->_forget($name, $node);
	}
	return;
}

# All jobs that end run equally long, so the first to begin is the first to end.
sub _settlements
{
	my ($self) = @_;
	my $ends = $self->{ends};

	while (@$ends && $ends->[0][0] <= time)
	{
		my (undef, $name) = @{ shift @$ends };

		$self->_settle($name, 'completed') if $self->{attempts}{$name};
	}
	return;
}

sub _settle
{
	my ($self, $name, $outcome) = @_;
	my $runs = $self->{attempts}{$name};
	my $node = $runs->{node};

	$self->{calls}->call('settle', $runs->{kind} // '',
		q{SELECT outcome FROM gpucredit.settle(?, ?, ?, ?, ?::interval)},
		@{ $runs->{args} }, $outcome, sprintf('%.3f s', time - $runs->{began}));
	$self->_forget($name, $node);
	return;
}

sub _forget
{
	my ($self, $name, $node) = @_;

	delete $self->{attempts}{$name};
	delete $self->{on}{$node}{$name};
	return;
}

# Meters all that runs, in batches.
sub _meter
{
	my ($self) = @_;
	my $now = time;
	my @all = grep { !$self->{attempts}{$_}{silent} } keys %{ $self->{attempts} };

	while (my @some = splice(@all, 0, $BATCH))
	{
		my @runs = map { $self->{attempts}{$_} } @some;

		$self->{calls}->call('meter_batch', '', q{
			SELECT count(*) FROM gpucredit.meter_batch(?, ?, ?, ?::interval[])},
			(map { my $i = $_; [ map { $_->{args}[$i] } @runs ] } 0 .. 2),
			[ map { sprintf('%.3f s', $now - $_->{began}) } @runs ]);
	}
	$self->{meter_at} = $now + $METER;
	return;
}

1;
