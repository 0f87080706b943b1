# Fleet.pm: simulated machines, their agents, and what really runs on them
#
# This is the truth that the server cannot see.  A process is a part of an
# attempt on a node.  It ends when its agent ends it, its machine fails, or the
# agent's watchdog has waited half of node_lost for an answer.  Some agents are
# mute: they do not report what runs.
package Fleet;

use strict;
use warnings;

use Digest::SHA qw(sha256_hex);

use constant SUPERSEDED => [qw(UC302 UC303 22023)];

sub new
{
	my ($class, %self) = @_;

	return bless {
		%self,
		nodes    => {},
		attempts => {},			# by key: the true state of attempts
		pending  => {},			# settlements without an answer
		content  => {},			# the content of a checkpoint's uri
	}, $class;
}

sub add_node
{
	my ($self, %node) = @_;

	$self->{nodes}{ $node{name} } = {
		%node,
		broken    => {},
		procs     => {},
		up        => 1,			# the machine
		agent     => 1,
		reachable => 1,
		last_ok   => $self->{now},
		heard     => $self->{now},	# the node as the server knows it
		told      => { map { $_ => 1 } 0 .. $node{gpus} - 1 },
	};
	$self->register($self->{nodes}{ $node{name} });
	return;
}

sub register
{
	my ($self, $node) = @_;

	$self->{wire}->call(
		'SELECT gpucredit.register_node(?, ?, ?, ?, 81920,'
		  . ' nvlink_domain => ?, leaf => ?, spot => ?)',
		@$node{qw(pool name type gpus name leaf)}, $node->{spot} ? 't' : 'f');
	$node->{heard} = $node->{last_ok} = $self->{now};
	$node->{told} = { map { $_ => 1 } 0 .. $node->{gpus} - 1 };
	delete $node->{reclaimed} if ($node->{reclaimed} // 1e99) <= $self->{now};
	return;
}

# All agents act in turn.
sub step
{
	my ($self) = @_;

	$self->{wire}->deliver($self->{now});
	foreach my $name (sort keys %{ $self->{nodes} })
	{
		$self->_agent($self->{nodes}{$name});
	}
	$self->_settle_pending;
	return;
}

sub _agent
{
	my ($self, $node) = @_;

	return unless $node->{up};
	if ($node->{agent} && $node->{reachable})
	{
		$self->_beat($node);
	}
	$self->kill_all($node)
	  if $self->{now} - $node->{last_ok} >= $self->{node_lost} / 2;
	return unless $node->{agent} && $node->{reachable};
	foreach my $key (sort keys %{ $node->{procs} })
	{
		my $attempt = $self->{attempts}{$key};

		$self->_lead($node, $attempt) if $attempt->{leader} eq $node->{name};
	}
	return;
}

sub kill_all
{
	my ($self, $node) = @_;

	$self->_end($node, $_) foreach keys %{ $node->{procs} };
	return;
}

sub _end
{
	my ($self, $node, $key) = @_;

	delete $node->{procs}{$key};
	$node->{ended}{$key} = 1;
	return;
}

# The node's heartbeat, and carrying out its answer.
sub _beat
{
	my ($self, $node) = @_;
	my @healthy = grep { !$node->{broken}{$_} } 0 .. $node->{gpus} - 1;
	my %ran     = %{ $node->{procs} };
	my $rows    = $self->{wire}->send(
		$self->{now}, 1, [],
		'SELECT *, gpucredit.gpuset_to_array(gpus) AS devices,'
		  . " spec -> 'checkpoint' ->> 'attempt' AS from_attempt,"
		  . " spec -> 'checkpoint' ->> 'step' AS from_step,"
		  . " spec -> 'checkpoint' ->> 'uri' AS from_uri"
		  . ' FROM gpucredit.heartbeat(?, ?, ?)',
		$node->{name},
		'{' . join(',', @healthy) . '}',
		$node->{mute} ? undef : [ sort keys %ran ]);

	if ($self->{wire}{arrived})
	{
		$node->{heard} = $self->{now};
		$node->{told}  = { map { $_ => 1 } @healthy };
	}
	return unless $rows;
	$node->{last_ok} = $self->{now};
	$self->_end_others($node, $rows) if $node->{mute};
	# stop before starting, because devices must be empty
	foreach my $row (sort { ($a->{action} eq 'start') <=> ($b->{action} eq 'start') } @$rows)
	{
		my $key = join('/', @$row{qw(org job attempt)});

		die "$key is on @{ $row->{nodes} }, said $node->{name}\n"
		  if $row->{nodes} && "@{ $row->{nodes} }" ne
		  join(' ', sort keys %{ $self->{attempts}{$key}{parts} });
		$self->_obey($node, $key, $row);
	}
	return;
}

# A mute agent is not told what to stop, only what should run.
sub _end_others
{
	my ($self, $node, $rows) = @_;
	my %should = map { join('/', @$_{qw(org job attempt)}) => 1 } @$rows;

	$self->_end($node, $_)
	  foreach grep { !$should{$_} } keys %{ $node->{procs} };
	return;
}

sub _obey
{
	my ($self, $node, $key, $row) = @_;
	my $attempt = $self->{attempts}{$key};
	my $runs    = exists $node->{procs}{$key};

	if ($row->{action} eq 'start')
	{
		# it does not start again what it saw end
		$self->_start($node, $key, $row)
		  unless $runs || $node->{ended}{$key};
	}
	elsif ($row->{action} eq 'stop')
	{
		$self->_end($node, $key);
		$self->_leave($attempt, $row->{reason})
		  if $attempt && $attempt->{leader} eq $node->{name}
		  && !$self->{dice}->once_in(4);
	}
	elsif (!$runs)
	{
		# it should run and does not: the machine was restarted
		$self->_leave($attempt, 'restarted')
		  if $attempt && $attempt->{leader} eq $node->{name};
	}
	elsif ($row->{action} eq 'checkpoint' || $row->{save})
	{
		return unless $attempt->{leader} eq $node->{name} && $self->_whole($attempt);
		$self->_save($attempt);
		$self->_leave($attempt, $row->{reason})
		  if $row->{action} eq 'checkpoint'
		  && ($row->{reason} // '') ne 'periodic'
		  && !$self->{dice}->once_in(5);
	}
	return;
}

# A part begins; the leader's part handles the checkpoint.
sub _start
{
	my ($self, $node, $key, $row) = @_;
	my $attempt = $self->{attempts}{$key};

	foreach my $other (values %{ $node->{procs} })
	{
		next if $row->{share} < 1000;
		foreach my $device (@{ $row->{devices} })
		{
			die "$key was to start on $node->{name}/$device, where"
			  . " $other->{key} runs\n"
			  if grep { $_ == $device } @{ $other->{devices} };
		}
	}
	$node->{procs}{$key} =
	  { key => $key, devices => $row->{devices}, since => $self->{now} };
	return unless $attempt->{leader} eq $node->{name};
	$attempt->{from} = undef;
	$attempt->{from} = $self->_resume($attempt, $row) if $row->{from_uri};
	return;
}

# Reads the checkpoint, reports it, and goes on from where the server says.
sub _resume
{
	my ($self, $attempt, $row) = @_;
	my ($number, $step, $uri) = @$row{qw(from_attempt from_step from_uri)};

	for (;;)
	{
		my $content = $self->{content}{$uri};
		my $rows    = $self->{wire}->send(
			$self->{now}, 0, SUPERSEDED,
			"SELECT * FROM gpucredit.checkpoint_loaded(?, ?, ?, ?, ?, decode(?, 'hex'))",
			@$attempt{qw(org job attempt)},
			$number, $step, sha256_hex($content));

		# no answer: it begins anew rather than from an unchecked state
		return unless $rows && @$rows;
		return $uri if $rows->[0]{good};
		$self->{count}{bad_checkpoints}++;
		return unless defined $rows->[0]{uri};
		($number, $step, $uri) = @{ $rows->[0] }{qw(from_attempt from_step uri)};
	}
}

# Does every part run, here and elsewhere?
sub _whole
{
	my ($self, $attempt) = @_;

	foreach my $name (keys %{ $attempt->{parts} })
	{
		return 0 unless exists $self->{nodes}{$name}{procs}{ $attempt->{key} };
	}
	return 1;
}

# The leader of an attempt: work, metering, the end.
sub _lead
{
	my ($self, $node, $attempt) = @_;

	if (!$self->_whole($attempt))
	{
		# a part never began, or is gone
		$self->_leave($attempt, 'broken')
		  if $attempt->{begun} && $self->{dice}->once_in(3);
		return;
	}
	if (!$attempt->{begun})
	{
		$attempt->{begun} = $self->{now};
		$attempt->{base} =
		  defined $attempt->{from} ? ($attempt->{from} =~ /:(\d+)$/)[0] : 0;
	}
	my $ran  = $self->{now} - $attempt->{begun};
	my $work = $attempt->{base} + $ran;

	if ($work >= $attempt->{job_ref}{work})
	{
		$self->_leave($attempt, 'completed');
		return;
	}
	my $rows = $self->{wire}->send(
		$self->{now}, 0, SUPERSEDED,
		'SELECT * FROM gpucredit.meter(?, ?, ?, make_interval(secs => ?), ?, 0.9)',
		@$attempt{qw(org job attempt)},
		$self->{dice}->once_in(50) ? $ran * 3 : $ran, $work);

	return unless $rows && @$rows;
	my $answer = $rows->[0];

	# an ended attempt holds nothing
	my $over = $answer->{action} eq 'stop' && $answer->{held} == 0;

	die "$attempt->{key} is billed $answer->{billed}, of $answer->{held}\n"
	  if $answer->{billed} > $answer->{held} && !$over;
	$self->_leave($attempt, $answer->{reason})
	  if $answer->{action} eq 'stop' && !$self->{dice}->once_in(4);
	return;
}

# Saves the work so far; some checkpoints go bad.
sub _save
{
	my ($self, $attempt) = @_;
	my $work = $attempt->{base} + $self->{now} - $attempt->{begun};
	my $uri  = "s3://$attempt->{key}:$work";

	return if $work <= ($attempt->{saved} // 0);
	$self->{content}{$uri} = $uri;
	my $rows = $self->{wire}->send(
		$self->{now}, 0, SUPERSEDED,
		"SELECT gpucredit.checkpoint(?, ?, ?, ?, ?, decode(?, 'hex'), ?)",
		@$attempt{qw(org job attempt)},
		$work, $uri, sha256_hex($uri),
		$attempt->{gpus} * 20_000_000_000);

	$attempt->{saved} = $work if $rows;
	$self->{content}{$uri} .= ' rotten' if $self->{dice}->once_in(20);
	return;
}

my %outcome = (
	completed  => 'completed', wall_limit => 'timeout',
	cancelled  => 'cancelled', stuck      => 'failed',
	broken     => 'failed',    restarted  => 'failed',
	resized    => 'resized');

# Ends all parts, and settles when they are gone.
sub _leave
{
	my ($self, $attempt, $why) = @_;
	my $key = $attempt->{key};

	foreach my $name (keys %{ $attempt->{parts} })
	{
		my $node = $self->{nodes}{$name};

		# out of reach: its processes run on, and the attempt is not over
		return if $node->{up} && exists $node->{procs}{$key}
		  && !($node->{agent} && $node->{reachable});
	}
	$self->_end($self->{nodes}{$_}, $key) foreach keys %{ $attempt->{parts} };
	my $ran = $attempt->{begun} ? $self->{now} - $attempt->{begun} : undef;

	$attempt->{done} = 1 if $why && $why eq 'completed';
	$self->{pending}{$key} //= [
		@$attempt{qw(org job attempt)},
		$outcome{ $why // '' } // 'preempted', $ran
	];
	return;
}

# Settlements are sent until one is answered.
sub _settle_pending
{
	my ($self) = @_;

	foreach my $key (sort keys %{ $self->{pending} })
	{
		my $leader = $self->{nodes}{ $self->{attempts}{$key}{leader} };

		next unless $leader->{up} && $leader->{agent} && $leader->{reachable};
		my $rows = $self->{wire}->send(
			$self->{now}, 0, [],
			'SELECT * FROM gpucredit.settle(?, ?, ?, ?,'
			  . ' make_interval(secs => ?), message => ?)',
			@{ $self->{pending}{$key} },
			$self->{pending}{$key}[3] eq 'failed' ? 'NCCL timeout' : undef);

		next unless $rows;
		$self->{count}{"settled $rows->[0]{outcome}"}++
		  unless $rows->[0]{replayed};
		delete $self->{pending}{$key};
	}
	return;
}

# The nodes on which a job still runs, of those that report.
sub where_runs
{
	my ($self, $org, $job) = @_;
	my @found;

	foreach my $name (sort keys %{ $self->{nodes} })
	{
		next if $self->{nodes}{$name}{mute};
		push @found, map { "$_ on $name" }
		  grep { m{^\Q$org/$job/\E} } keys %{ $self->{nodes}{$name}{procs} };
	}
	return @found;
}

1;
