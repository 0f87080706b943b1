# Node.pm: nodes, and what those who run there are told to do
#
# A directive is of one cause: "cancel", "claim" (the scheduler's), "drain/"
# and the node's name, "reclaim".  Which claims there are is the scheduler's
# matter (Cycle.pm); what each means for whoever is told is said here.  Calls
# are as in Credit.pm.
package Model::Node;

use strict;
use warnings;

use Model::Attempt;
use Model::Value;

sub find_node
{
	my ($m, $name) = @_;

	return $m->{node}{ name($name) } // refuse('UC401');
}

# A node that is new, or as it was; one that is gone is a new one.
sub register_node
{
	my ($m, $in) = @_;
	my $node = $m->{node}{ name($in->{node}) } ||=
	  { name => $in->{node}, gpus => 8, map { $_ => $in->{$_} }
		qw(gpu_type spot) };

	delete $node->{reclaim_at}
	  if ($node->{reclaim_at} // 9e18) <= $m->{now};
	return [''];
}

# How many devices of each type there are, for a job that takes spot nodes or
# not.
sub devices
{
	my ($m, $spot_ok) = @_;
	my %devices;

	$devices{ $_->{gpu_type} } += $_->{gpus}
	  foreach grep { $spot_ok || !$_->{spot} } values %{ $m->{node} };
	return \%devices;
}

# Live attempts with a part on a node: by organisation, then job.
sub attempts_on
{
	my ($m, $name) = @_;
	my @on;

	foreach my $org (sort keys %{ $m->{job} })
	{
		push @on, grep { defined $_->{nodes}{$name} }
		  map { $m->{attempt}{$org}{ $_->{id} }{ $_->{attempt} } }
		  sort { $a->{id} <=> $b->{id} }
		  grep { $_->{state} eq 'active' } values %{ $m->{job}{$org} };
	}
	return @on;
}

sub drain
{
	my ($m, $in) = @_;
	my $node     = find_node($m, $in->{node});
	my $deadline = instant($in->{deadline});
	my $cause    = "drain/$node->{name}";

	$node->{draining} = 1;
	foreach my $attempt (attempts_on($m, $node->{name}))
	{
		delete $attempt->{directives}{$cause};
		$attempt->{directives}{$cause} =
		  { reason => 'drain', deadline => $deadline }
		  if defined $deadline;
	}
	return [''];
}

sub reclaim
{
	my ($m, $in) = @_;
	my $notice = duration($in->{notice}, zero_ok => 1);
	my $node   = find_node($m, $in->{node});

	$node->{reclaim_at} = $m->{now} + $notice;
	direct_reclaim($m);
	return [''];
}

sub resume
{
	my ($m, $in) = @_;
	my $node = find_node($m, $in->{node});

	delete @$node{qw(draining reclaim_at)};
	foreach my $attempt (attempts_on($m, $node->{name}))
	{
		delete $attempt->{directives}{"drain/$node->{name}"};
		delete $attempt->{directives}{reclaim}
		  unless defined leaves_at($m, $attempt);
	}
	direct_reclaim($m);
	return [''];
}

# When the first of an attempt's nodes is taken.
sub leaves_at
{
	my ($m, $attempt) = @_;
	my ($first) = sort { $a <=> $b } grep { defined }
	  map { $m->{node}{$_}{reclaim_at} } keys %{ $attempt->{nodes} };

	return $first;
}

# Who is on a node that is taken leaves by then; who should have left stays
# told so.
sub direct_reclaim
{
	my ($m) = @_;

	foreach my $attempt (map { attempts_on($m, $_) } keys %{ $m->{node} })
	{
		my $deadline = leaves_at($m, $attempt);

		$attempt->{directives}{reclaim} =
		  { reason => 'reclaim', deadline => $deadline }
		  if defined $deadline && $deadline >= $m->{now};
	}
	return;
}

# A directive of the scheduler's, and that it still stands.
sub direct_claim
{
	my ($m, $attempt, $reason, $deadline) = @_;
	my $known = $attempt->{directives}{claim};

	return if $known && $known->{deadline} == $deadline;
	die "a claim's deadline moved\n" if $known && $known->{told};
	die "it is not told by the end of its grace\n"
	  if $deadline != $m->{now} + 120 * 1_000_000;
	die "it may not be preempted\n" if $attempt->{tier} =~ /^p/ && $reason eq 'preempted';
	die "it cannot be resized\n"
	  if $reason eq 'resized' && $attempt->{least} == $attempt->{most};
	$attempt->{directives}{claim} =
	  { reason => $reason, deadline => $deadline };
	return;
}

# What an attempt is to obey now: the reason, and by when; nothing, if it was
# told nothing.
sub obeys
{
	my ($m, $attempt) = @_;
	my $directives = $attempt->{directives};

	$directives->{claim}{told} = 1 if $directives->{claim};
	my ($first) = sort {
		$directives->{$a}{deadline} <=> $directives->{$b}{deadline}
		  || $a cmp $b
	} keys %$directives;

	return defined $first ? @{ $directives->{$first} }{qw(reason deadline)} : ();
}

# Why an attempt was to have left by some time; of several, by cause.
sub was_to_leave
{
	my ($attempt, $by) = @_;
	my $directives = $attempt->{directives};
	my ($first) = grep { $directives->{$_}{deadline} <= $by }
	  sort keys %$directives;

	return defined $first ? $directives->{$first}{reason} : undef;
}

# A node's sign of life: what is to be done there.
sub heartbeat
{
	my ($m, $in) = @_;
	my $node = find_node($m, $in->{node});
	my @lines;

	foreach my $attempt (attempts_on($m, $node->{name}))
	{
		my $job = $m->{job}{ $attempt->{org} }{ $attempt->{job} };
		my $leaves = $job->{cancelled} || %{ $attempt->{directives} };
		my ($action, $reason, undef, undef, $deadline, $left) =
		  @{ Model::Attempt::answer($m, $job, $attempt) };

		$leaves ||= $action ne 'continue';
		$action = 'start'
		  if $action eq 'continue' && !defined $attempt->{running_at};
		push @lines, join(' ', @$attempt{qw(org job attempt)}, $action,
			$attempt->{nodes}{ $node->{name} }, $attempt->{share},
			($leaves ? ($deadline // '-', $left // '-') : ('-', '-')),
			$reason // '-');
	}
	return [ join("\n", @lines) ];
}

1;
