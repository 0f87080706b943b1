# Cluster.pm: the scheduler and the kubelets of the play API server
#
# Pods without gates are bound to a node of their selector, and of the labels
# that their affinity wants, with free GPUs.  Their containers run real seconds:
# `sleep N`, and `exit CODE` after it, are read from the command.  What really ran
# is kept apart from what is reported, for tests to compare with the bills.
#
# A container ends as kubelet ends it: SIGTERM, and SIGKILL when the grace period
# is over, which is that of the deletion, or the pod's own for a deadline and a
# forced deletion, and 2 s at least.  Once SIGTERM is sent no grace period becomes
# shorter.  Until the container is gone the pod's phase stays, and a pod that the
# API server no longer has goes on until then.
package Cluster;

use strict;
use warnings;

use Store;
use Time::HiRes 'time';

sub new
{
	my ($class, $store) = @_;

	return bless {
		store => $store,
		ran   => {},		# uid => {started, finished, gpus, ...}
		last  => {},		# uid => the pod, as its kubelet saw it last
		dead  => {},		# nodes whose kubelet says nothing
		quiet_until => 0,	# kubelets' reports do not arrive until then
		skew  => {},		# how many seconds a node's clock is ahead
		start_after => 0,
	}, $class;
}

# What tests do to nodes; false: nothing that is known.
sub play
{
	my ($self, $path, $query) = @_;

	if ($path eq '/play/kubelet')
	{
		$self->{dead}{ $query->{node} } = $query->{dead};
		my $node = Store::copy($self->{store}->get('nodes', '', $query->{node}));

		$node->{status}{conditions} =
		  [ { type => 'Ready', status => $query->{dead} ? 'Unknown' : 'True' } ];
		$self->{store}->put('nodes', $node, 'MODIFIED');
	}
	elsif ($path eq '/play/quiet')
	{
		$self->{quiet_until} = time() + $query->{s};
	}
	elsif ($path eq '/play/start_after')
	{
		$self->{start_after} = $query->{s};
	}
	elsif ($path eq '/play/skew')
	{
		$self->{skew}{ $query->{node} } = $query->{s};
	}
	return $path =~ m{^/play/(?:kubelet|quiet|start_after|skew|ran)$};
}

# What the scheduler reserves for a pod: the containers and the sidecars, or an
# init container and the sidecars before it.
sub gpus_of
{
	my ($self, $pod) = @_;
	my $resource = $self->{store}{resource};
	my $of = sub { $_[0]{resources}{requests}{$resource} // $_[0]{resources}{limits}{$resource} // 0 };
	my ($containers, $sidecars, $most) = (0, 0, 0);

	$containers += $of->($_) foreach @{ $pod->{spec}{containers} };
	foreach my $container (@{ $pod->{spec}{initContainers} || [] })
	{
		my $stays = ($container->{restartPolicy} // '') eq 'Always';
		my $use   = $of->($container) + $sidecars;

		$sidecars = $use if $stays;
		$most     = $use if $use > $most;
	}
	return $containers + $sidecars > $most ? $containers + $sidecars : $most;
}

sub turn
{
	my ($self) = @_;
	my @nodes = map { $_->{object} } $self->{store}->all('nodes');
	my %free  = map {
		$_->{metadata}{name} => $_->{status}{capacity}{ $self->{store}{resource} } // 0
	} @nodes;
	my (@waiting, %there);

	foreach my $entry ($self->{store}->all('pods'))
	{
		my $pod  = $entry->{object};
		my $node = $pod->{spec}{nodeName};

		if (!defined $node)
		{
			push @waiting, $pod
			  unless @{ $pod->{spec}{schedulingGates} || [] }
			  || $pod->{metadata}{deletionTimestamp}
			  || $pod->{status}{phase} ne 'Pending';
			next;
		}
		if (!exists $free{$node})
		{
			$self->collect($pod);
			next;
		}
		my $ran = $self->{ran}{ $pod->{metadata}{uid} };

		$there{ $pod->{metadata}{uid} } = 1;
		# what runs holds its devices, whatever is reported
		$free{$node} -= $self->gpus_of($pod)
		  unless $pod->{status}{phase} =~ /^(?:Succeeded|Failed)$/
		  || ($ran && $ran->{finished});
		$self->kubelet($pod);
	}
	foreach my $uid (grep { !$there{$_} && !$self->{ran}{$_}{gone} } keys %{ $self->{last} })
	{
		$self->end_orphan($uid);
		$free{ $self->{last}{$uid}{spec}{nodeName} } -= $self->gpus_of($self->{last}{$uid})
		  unless $self->{ran}{$uid}{finished};
	}
	$self->bind($_, \%free, @nodes)
	  foreach sort { $a->{metadata}{resourceVersion} <=> $b->{metadata}{resourceVersion} } @waiting;
	return;
}

sub ready
{
	my ($node) = @_;

	return grep { $_->{type} eq 'Ready' && $_->{status} eq 'True' }
	  @{ $node->{status}{conditions} || [] };
}

sub bind
{
	my ($self, $pod, $free, @nodes) = @_;
	my $gpus   = $self->gpus_of($pod);
	my $wanted = $pod->{spec}{nodeSelector} || {};

	foreach my $node (@nodes)
	{
		my $name   = $node->{metadata}{name};
		my $labels = $node->{metadata}{labels} || {};

		next unless ready($node) && !$self->{dead}{$name} && $free->{$name} >= $gpus;
		next if grep { ($labels->{$_} // '') ne $wanted->{$_} } keys %$wanted;
		next unless fits_affinity($pod, $labels);
		my $new = Store::copy($pod);

		$new->{spec}{nodeName} = $name;
		$new->{status}{conditions} =
		  [ { type => 'PodScheduled', status => 'True' } ];
		$self->{store}->put('pods', $new, 'MODIFIED');
		$free->{$name} -= $gpus;
		return;
	}
	return;
}

# Has a node the labels that one of the affinity's terms wants?
sub fits_affinity
{
	my ($pod, $labels) = @_;
	my $required = $pod->{spec}{affinity}{nodeAffinity}{requiredDuringSchedulingIgnoredDuringExecution};

	return 1 unless $required;
	foreach my $term (@{ $required->{nodeSelectorTerms} })
	{
		my @wanted = @{ $term->{matchExpressions} || [] };

		return 1 if @wanted && !grep {
			my ($key, $values) = ($_->{key}, $_->{values} || []);

			!defined $labels->{$key}
			  || ($_->{operator} eq 'In' && !grep { $_ eq $labels->{$key} } @$values)
		} @wanted;
	}
	return 0;
}

# What its containers do, from their command.
sub program
{
	my ($pod) = @_;
	my $words = join ' ', map { @{ $_->{command} || [] }, @{ $_->{args} || [] } }
	  @{ $pod->{spec}{containers} };
	my ($seconds) = $words =~ /sleep\W+([\d.]+)/;
	my ($code)    = $words =~ /exit\W+(\d+)/;

	return ($seconds // 1e9, $code // 0, $words =~ /trap\W+TERM/ ? 1 : 0);
}

# One pod, as its node's kubelet sees it.
sub kubelet
{
	my ($self, $pod) = @_;
	my $uid  = $pod->{metadata}{uid};
	my $meta = $pod->{metadata};
	my $now  = time();
	my $ran  = $self->{ran}{$uid} ||=
	  { seen => $now, gpus => $self->gpus_of($pod), name => key($pod), node => $pod->{spec}{nodeName} };
	my ($seconds, $code, $deaf) = program($pod);

	$ran->{paid_by} = $meta->{annotations}{'gpucredit.io/job'};
	return if $ran->{gone};
	$self->{last}{$uid} = $pod;
	if (!$ran->{started} && !$ran->{finished})
	{
		if ($meta->{deletionTimestamp})
		{
			$ran->{finished} = $now;
			$ran->{reason}   = 'never started';
		}
		elsif ($now - $ran->{seen} >= $self->{start_after})
		{
			$ran->{started} = $now;
		}
	}
	elsif (!$ran->{finished})
	{
		my $limit = $pod->{spec}{activeDeadlineSeconds};

		if ($now - $ran->{started} >= $seconds)
		{
			@$ran{qw(finished code)} = ($ran->{started} + $seconds, $code);
		}
		elsif (defined $limit && $now - $ran->{seen} >= $limit)
		{
			$ran->{reason} ||= 'DeadlineExceeded' unless $ran->{told};
			end_container($pod, $ran, 0, $deaf);
		}
		elsif ($ran->{told} || ($meta->{deletionTimestamp} && !$self->{dead}{ $pod->{spec}{nodeName} }))
		{
			end_container($pod, $ran, $meta->{deletionGracePeriodSeconds}, $deaf);
		}
	}
	return if $self->{dead}{ $pod->{spec}{nodeName} } || $now < $self->{quiet_until};
	$self->report($pod, $ran);
	return;
}

# Sends SIGTERM, and SIGKILL once the grace period is over that it began with; 0:
# the pod's own.
sub end_container
{
	my ($pod, $ran, $grace, $deaf) = @_;
	my $now = time();

	if (!$ran->{told})
	{
		$grace ||= $pod->{spec}{terminationGracePeriodSeconds} // 30;
		@$ran{qw(told grace)} = ($now, $grace < 2 ? 2 : $grace);
	}
	@$ran{qw(finished code)} = ($now, $deaf ? 137 : 143)
	  if !$deaf || $now - $ran->{told} >= $ran->{grace};
	return;
}

# A pod that the API server no longer has.
sub end_orphan
{
	my ($self, $uid) = @_;
	my ($pod, $ran) = ($self->{last}{$uid}, $self->{ran}{$uid});
	my ($seconds, $code, $deaf) = program($pod);

	return if $self->{dead}{ $pod->{spec}{nodeName} };
	if (!$ran->{started} || $ran->{finished})
	{
		$ran->{finished} ||= time();
		$ran->{gone} = 1;
	}
	elsif (time() - $ran->{started} >= $seconds)
	{
		@$ran{qw(finished code)} = ($ran->{started} + $seconds, $code);
	}
	else
	{
		end_container($pod, $ran, 0, $deaf);
	}
	return;
}

sub key
{
	return Store::key($_[0]);
}

# An instant by a pod's node's clock.
sub stamp
{
	my ($self, $ran, $at) = @_;

	return Store::stamp($at + ($self->{skew}{ $ran->{node} } // 0));
}

sub container_state
{
	my ($self, $ran) = @_;

	return { waiting => { reason => 'ContainerCreating' } } unless $ran->{started};
	return { running => { startedAt => $self->stamp($ran, $ran->{started}) } }
	  unless $ran->{finished};
	return {
		terminated => {
			startedAt  => $self->stamp($ran, $ran->{started}),
			finishedAt => $self->stamp($ran, $ran->{finished}),
			exitCode   => $ran->{code} + 0,
			reason     => $ran->{code} ? 'Error' : 'Completed' } };
}

# Reports a pod's state where it has changed, and finishes its deletion.
sub report
{
	my ($self, $pod, $ran) = @_;
	my $phase = !$ran->{started} && !$ran->{finished} ? 'Pending'
	  : !$ran->{finished} ? 'Running'
	  : $ran->{started} && !$ran->{code} ? 'Succeeded' : 'Failed';
	my %status = (
		phase      => $phase,
		qosClass   => 'BestEffort',
		conditions => [
			{ type => 'PodScheduled', status => 'True' },
			{ type => 'Ready', status => $phase eq 'Running' ? 'True' : 'False' } ],
		startTime => $self->stamp($ran, $ran->{seen}),
		containerStatuses => [
			map {
				{   name => $_->{name}, image => $_->{image} // '', imageID => '',
					ready => $phase eq 'Running' ? JSON::XS::true : JSON::XS::false,
					restartCount => 0, state => $self->container_state($ran) }
			} @{ $pod->{spec}{containers} } ]);

	$status{reason} = $ran->{reason} if $ran->{reason} && $ran->{started};
	if (($ran->{said} // '') ne $phase)
	{
		$ran->{said} = $phase;
		my $new = Store::copy($pod);

		$new->{status} = \%status;
		$pod = $self->{store}->put('pods', $new, 'MODIFIED');
	}
	if ($ran->{finished} && $pod->{metadata}{deletionTimestamp})
	{
		$ran->{gone} = 1;
		eval {
			$self->{store}->delete_one('pods', $pod->{metadata}{namespace},
				$pod->{metadata}{name}, { gracePeriodSeconds => 0 });
			1;
		} or warn ref $@ ? $@->[2] : $@;
	}
	return;
}

# A pod of a node that is no more: it failed, and goes.
sub collect
{
	my ($self, $pod) = @_;
	my $ran = $self->{ran}{ $pod->{metadata}{uid} } ||= {};

	return if $ran->{gone};
	$ran->{gone} = 1;
	$ran->{finished} ||= time();
	my $new = Store::copy($pod);

	$new->{status}{phase} = 'Failed'
	  unless $new->{status}{phase} eq 'Succeeded';
	$pod = $self->{store}->put('pods', $new, 'MODIFIED');
	$self->{store}->delete_one('pods', $pod->{metadata}{namespace},
		$pod->{metadata}{name}, { gracePeriodSeconds => 0 });
	return;
}

1;
