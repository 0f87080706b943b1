# Agents.pm: the nodes' agents of a play, and the programs that they run
#
# They are honest, and in step with the server: what it says is done at the same
# instant.  They act as members of gpucredit_agent with their nodes' keys, run
# the programs that tenants chose, and kill what ignores TERM after KILL_AFTER.
#
# A process is an attempt's, on all its nodes: {key, org, job, attempt, nodes =>
# {name => 1}, program, honest, since (its devices are taken, and its time
# counts), begins (its image is there), ends, metered, told (the reason why it
# must leave), kill_at, deadline, over => [what to report]}.
package Agents;

use strict;
use warnings;

use constant {
	SECOND     => 1_000_000,
	KILL_AFTER => 20_000_000,
	WORKER_CHECKS => 5_000_000,	# how often the server ends transactions that block
	KEY        => 'the key of the nodes',
};

# What honest tenants run: 40 minutes.
our %honest_program = (run => 2400 * SECOND, exit => 0, trap => 0, pull => 0, pulled => 1,
	message => '', save => 1, progress => 0);

# All nodes beat, and a cycle runs, until nothing changes any more.
sub _agents
{
	my ($self) = @_;
	my $round = 0;
	my %changed = %{ $self->{nodes} };

	$self->_run("SET SESSION AUTHORIZATION adv_agent; SET gpucredit.node_key = '" . KEY . "'");
	while (%changed && $round++ < 6)
	{
		$self->_end_procs;
		$self->_heartbeat($_) foreach sort keys %changed;
		$self->_meter($round > 1);
		# what ended has left its devices, and what begins is there
		next if $self->_end_procs;
		%changed = map { $_->{node} => 1 }
		  grep { $_->{action} eq 'start' || $_->{action} eq 'preempt' }
		  @{ $self->_ask_honestly("SELECT action, node FROM gpucredit.place('default')") };
	}
	$self->_run('RESET SESSION AUTHORIZATION; RESET gpucredit.node_key');
	$self->_ask_honestly('SELECT gpucredit.reap_holds()') if $self->{reap}++ % 4 == 0;
	return;
}

sub _heartbeat
{
	my ($self, $node) = @_;
	my @here = grep { $_->{nodes}{$node} } map { $self->{procs}{$_} } sort keys %{ $self->{procs} };
	my $rows = $self->_ask_honestly(
		'SELECT org, job, attempt, action, reason, save, nodes,'
		  . ' extract(epoch FROM time_left) AS time_left FROM gpucredit.heartbeat($1, NULL, $2)',
		$node, [ sort map { $_->{key} } @here ]);

	foreach my $row (@$rows)
	{
		my $key  = "$row->{org}/$row->{job}/$row->{attempt}";
		my $proc = $self->{procs}{$key};

		$proc = $self->_start($key, $row) if $row->{action} eq 'start' && !$proc;
		next unless $proc;
		$self->_order($proc, $row) if $row->{action} =~ /^(?:stop|checkpoint)$/;
		$self->_save($proc) if $row->{save} && $proc->{program}{save};
	}
	return;
}

sub _start
{
	my ($self, $key, $row) = @_;
	my $program = $self->{programs}{"$row->{org}/$row->{job}"} || \%honest_program;
	my @nodes   = sort @{ $row->{nodes} };

	return $self->{procs}{$key} = {
		key     => $key,
		org     => $row->{org},
		job     => $row->{job},
		attempt => $row->{attempt},
		nodes   => { map { $_ => 1 } @nodes },
		program => $program,
		since   => $self->{now},
		begins  => $self->{now} + $program->{pull},
		ends    => $program->{pulled} ? $self->{now} + $program->{pull} + $program->{run} : undef,
		honest  => $row->{org} eq $self->{org}{h} };
}

# Calls the leaders' meter, for what has begun; or only for what is new.
sub _meter
{
	my ($self, $new) = @_;
	my @all;

	foreach my $proc (map { $self->{procs}{$_} } sort keys %{ $self->{procs} })
	{
		next if $proc->{over} || $new && $proc->{metered};
		$self->_waited($proc) if $proc->{honest} && !$proc->{metered};
		$proc->{metered} = 1;
		push @all, $proc;
	}
	return unless @all;
	my $rows = $self->_ask_honestly(
		'SELECT ordinal, action, reason, save, extract(epoch FROM time_left) AS time_left'
		  . ' FROM gpucredit.meter_batch($1, $2, $3, $4, $5)',
		[ map { $_->{org} } @all ], [ map { $_->{job} } @all ], [ map { $_->{attempt} } @all ],
		[ map { $self->{now} - $_->{since} . ' us' } @all ],
		[ map { $_->{program}{progress} ? 1 : undef } @all ]);

	foreach my $row (@$rows)
	{
		my $proc = $all[ $row->{ordinal} - 1 ];

		$proc->{deadline} = $self->{now} + int($row->{time_left} * SECOND + 0.5)
		  if defined $row->{time_left};
		$self->_order($proc, $row) if $row->{action} =~ /^(?:stop|checkpoint)$/;
	}
	return;
}

# The wait of an honest job is over.
sub _waited
{
	my ($self, $proc) = @_;
	my $since = delete $self->{waits}{ $proc->{job} };
	my ($job) = grep { $_->{job} == $proc->{job} } @{ $self->{honest} };

	$job->{waited} += $self->{now} - $since if $job && defined $since;
	return;
}

# The program is told to save or to leave.
sub _order
{
	my ($self, $proc, $row) = @_;
	my $reason = $row->{reason} // '';

	$proc->{deadline} = $self->{now} + int($row->{time_left} * SECOND + 0.5)
	  if defined $row->{time_left};
	return if $row->{action} eq 'checkpoint' && $reason =~ /^(?:periodic|wall_limit)$/;
	if ($proc->{honest} && !$proc->{told})
	{
		push @{ $self->{evicted} }, "$proc->{key} $reason";
		$self->{waits}{ $proc->{job} } = $self->{now};
	}
	$proc->{told} //= $reason;
	return if $proc->{program}{trap} && $row->{action} eq 'checkpoint';
	$proc->{kill_at} //= $self->{now} + ($proc->{program}{trap} && begun($proc, $self->{now}) ? KILL_AFTER : 0);
	return;
}

# Whether the program itself runs: its image is there.
sub begun
{
	my ($proc, $now) = @_;

	return $proc->{program}{pulled} && $proc->{begins} <= $now;
}

sub _save
{
	my ($self, $proc) = @_;

	return unless begun($proc, $self->{now});
	$self->_ask_honestly('SELECT gpucredit.checkpoint($1, $2, $3, $4, $5, sha256($6), 1000)',
		@$proc{qw(org job attempt)}, $self->{now} - $proc->{begins}, "s3://$proc->{key}", 'x');
	return;
}

my %outcome = (wall_limit => 'timeout', cancelled => 'cancelled', stuck => 'failed',
	resized => 'resized', part_failed => 'cancelled', unknown => 'cancelled');

# Reports what has ended by now; returns how many.
sub _end_procs
{
	my ($self) = @_;
	my $ended = 0;

	foreach my $proc (map { $self->{procs}{$_} } sort keys %{ $self->{procs} })
	{
		my $program = $proc->{program};
		my $now     = $self->{now};
		my $elapsed = $now - $proc->{since} . ' us';
		my $natural = ($proc->{ends} // $proc->{begins}) <= $now;

		next unless $natural || defined $proc->{kill_at} && $proc->{kill_at} <= $now || $proc->{over};
		$proc->{over} //= $natural && !$program->{pulled}
		  ? [ 'not_started', undef, 'image: not found', $elapsed ]
		  : [ $natural && !defined $proc->{told} ? $program->{exit} ? 'failed' : 'completed' : $outcome{ $proc->{told} // '' } // 'preempted',
			$natural ? $program->{exit} : 137, $program->{message}, $elapsed ];
		$ended++ if $self->_report($proc);
	}
	return $ended;
}

# Each node reports that its part is gone.  A row that the owner's transaction
# has locked is tried again.
sub _report
{
	my ($self, $proc) = @_;

	foreach my $node (sort keys %{ $proc->{nodes} })
	{
		my ($outcome, $code, $message, $elapsed) = @{ $proc->{over} };
		my $done = eval {
			$self->_ask_honestly('SELECT over FROM gpucredit.part_ended($1, $2, $3, $4, $5, $6, $7, $8)',
				@$proc{qw(org job attempt)}, $node, $outcome, $code, $message, $elapsed);
			1;
		};

		delete $proc->{nodes}{$node}, next if $done;
		die $@ unless $self->{second} && $self->{errors}[-1] =~ / 55P03 /;
		pop @{ $self->{errors} };
		$self->_run("SET SESSION AUTHORIZATION adv_agent; SET gpucredit.node_key = '" . KEY . "'");
		my $ended = $self->{now} + $self->{block_max} * SECOND + WORKER_CHECKS;

		# the server ends a transaction that blocks an agent
		$self->{open_until} = $ended if $self->{open} && $ended < $self->{open_until};
		$proc->{retry} = $self->{open_until};
		return 0;
	}
	delete $self->{procs}{ $proc->{key} };
	return 1;
}

1;
