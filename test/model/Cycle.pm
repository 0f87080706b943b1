# Cycle.pm: applies decisions of place() to the model
#
# The scheduler chooses who starts where; the model checks that the rules allow
# it, and computes the credit.
package Cycle;

use strict;
use warnings;

use Dice;
use Exporter 'import';
use Model::Attempt;
use Model::Job;

our @EXPORT = qw(apply_cycle apply_funded apply_sweep);

use constant WHOLE => 1000;

# What a cycle decided: jobs that got credit again, jobs that start.
sub apply_cycle
{
	my ($d, $rows) = @_;

	apply_funded($d, 1);
	apply_starts($d, $rows);
	apply_claims($d, $rows);
	check_waiting($d);
	return;
}

# Jobs that got credit again: all that could, unless the cycle ran out of time.
sub apply_funded
{
	my ($d, $all) = @_;
	my $m = $d->{m};
	my @waiting = Model::Job::waiting($m);
	my $funded = @waiting ? $d->{dbh}->selectall_arrayref(
		"SELECT j.org, j.job, j.hold FROM gpucredit.job j"
		  . " WHERE j.state <> 'unfunded' AND j.ended_at IS NULL"
		  . ' ORDER BY j.hold') : [];

	foreach (@$funded)
	{
		my ($org, $id, $hold) = @$_;
		my $job = $m->{job}{$org}{$id};

		next unless $job->{state} eq 'unfunded';
		$d->fail('the oldest of its account is funded first',
			"job $_->{id} before job $id")
		  foreach grep { Model::Job::affordable($m, $_) && !behind($m, $_) }
		  Model::Job::waiting_before($m, $job);
		$job->{state} =
		  Model::Job::requeue($m, $job, { holds => [$hold] });
		$d->fail('it stays unfunded', "job $id") if $job->{state} ne 'queued';
	}
	foreach ($all ? Model::Job::waiting($m) : ())
	{
		$d->fail("job $_->{id} is funded", 'it still waits')
		  if Model::Job::affordable($m, $_) && !behind($m, $_);
	}
	return;
}

# Does a job wait for credit behind one of its account that asks the same?
sub behind
{
	my ($m, $job) = @_;

	return grep { Model::Job::alike($job, $_) }
	  Model::Job::waiting_before($m, $job);
}

# Attempts that the scheduler told to leave, and those it spared: one already
# told is never told again.
sub apply_claims
{
	my ($d, $rows) = @_;
	my $m = $d->{m};
	my $told = $d->{dbh}->selectall_arrayref(
		'SELECT org, job, attempt, reason, '
		  . '(extract(epoch FROM deadline) * 1000000)::bigint, own::int'
		  . " FROM gpucredit.directive WHERE cause = 'claim'");
	my %stands;

	foreach (@$told)
	{
		my ($org, $job, $number, $reason, $deadline, $own) = @$_;
		my $attempt = $m->{attempt}{$org}{$job}{$number};

		next if !$attempt || $attempt->{outcome};
		$stands{"$org|$job"} = 1;
		eval {
			Model::Node::direct_claim($m, $attempt, $reason, $deadline);
			$attempt->{directives}{claim}{own} = $own;
			1;
		} or $d->fail('it is told to leave as the rules are',
			"job $job of $org, $reason: $@");
	}
	foreach (@{ $d->{dbh}->selectall_arrayref('SELECT org, job FROM gpucredit.claim') })
	{
		my ($org, $id) = @$_;
		my $job = $m->{job}{$org}{$id};

		$d->fail('whom others leave for holds credit', "job $id of $org")
		  if $job->{state} eq 'queued' && Model::Job::is_unpaid($job);
		$d->{calls}{'claims'}++;
	}
	foreach (grep { $_->[0] =~ /^(preempt|resize|move)$/ } @$rows)
	{
		$d->fail("a directive for job $_->[2] of $_->[1]", "action $_->[0]")
		  unless $stands{"$_->[1]|$_->[2]"};
		$d->{calls}{"place $_->[0]"}++;
	}
	foreach my $attempt (Dice::live_attempts($m))
	{
		my $claim = $attempt->{directives}{claim} or next;

		next if $stands{"$attempt->{org}|$attempt->{job}"};
		$d->fail('who was told to leave stays told so',
			"job $attempt->{job} of $attempt->{org}") if $claim->{told};
		delete $attempt->{directives}{claim};
	}
	return;
}

# If exactly one job waits, without backoff or quota, and no device is claimed,
# the job fits on no node.
sub check_waiting
{
	my ($d) = @_;
	my $m = $d->{m};
	my @waiting = grep {
		$_->{state} eq 'queued' && ($_->{not_before} // 0) <= $m->{now}
		  && Model::Job::may_use_tier($m, $_)
	} map { values %$_ } values %{ $m->{job} };
	my @may = grep { keys %{ $_->{may} } }
	  map { { job => $_, may => Model::Job::may_start($m, $_) } } @waiting;

	return if @may != 1 || $d->{dbh}->selectrow_array(
		'SELECT 1 FROM gpucredit.claim LIMIT 1');
	my ($job, $may) = @{ $may[0] }{qw(job may)};

	foreach my $node (grep { !$_->{draining} && !defined $_->{reclaim_at} }
		values %{ $m->{node} })
	{
		my $free = $node->{gpus};

		next if $node->{spot} && !Model::Job::spot_ok($job);
		next unless $may->{ $node->{gpu_type} };
		$free -= $_->{share} < WHOLE ? 1 : devices_in($_->{nodes}{ $node->{name} })
		  foreach Model::Node::attempts_on($m, $node->{name});
		$d->fail("job $job->{id} of $job->{org} starts on $node->{name}",
			'it waits') if $free >= $job->{request}{min};
	}
	$d->{calls}{'waits alone'}++;
	return;
}

# The number of devices in a set's text.
sub devices_in
{
	my ($gpus) = @_;
	my $n = 0;

	$n += /-(\d+)/ ? $1 - $` + 1 : 1 foreach $gpus =~ /[\d-]+/g;
	return $n;
}

# What a sweep ended, in its order.  The model checks that each had to end so,
# and computes the credit.  Nothing else that had to end is left, unless the
# sweep ran out of time.
sub apply_sweep
{
	my ($d, $how, $all) = @_;
	my $m = $d->{m};
	my $ended = $d->{dbh}->selectall_arrayref(
		'SELECT a.org, a.job, a.attempt, a.outcome, j.hold, EXISTS (SELECT'
		  . '  FROM gpucredit.audit f WHERE f.org = j.org AND f.job = j.job'
		  . "  AND f.hold = j.hold AND f.operation = 'fund')"
		  . ' FROM gpucredit.attempt a'
		  . ' JOIN gpucredit.audit u ON u.org = a.org AND u.job = a.job'
		  . " AND u.attempt = a.attempt AND u.operation = 'settle'"
		  . ' JOIN gpucredit.job j ON j.org = a.org AND j.job = a.job'
		  . ' WHERE a.ended_at = gpucredit.now() ORDER BY u.audit');

	foreach (@$ended)
	{
		my ($org, $id, $number, $outcome, $hold, $later) = @$_;
		my $job = $m->{job}{$org}{$id};
		my $attempt = $m->{attempt}{$org}{$id}{$number};

		next if $attempt->{outcome};
		my $expected = $how->($m, $job, $attempt) // 'goes on';

		$d->fail("job $id of $org $expected", "it was ended, $outcome")
		  if $expected ne $outcome;

		# without credit for another hold, the job still names its last one or
		# a later one
		my @new = $later || $hold == $job->{hold}{id} ? () : ($hold);

		Model::Attempt::settle($m,
			{ org => $org, job => $id, attempt => $number, outcome => $outcome,
				by_server => 1, reclaimed => $how == \&Model::Attempt::gone },
			{ holds => \@new });
	}
	foreach my $attempt ($all ? Dice::live_attempts($m) : ())
	{
		my $job = $m->{job}{ $attempt->{org} }{ $attempt->{job} };
		my $expected = $how->($m, $job, $attempt);

		$d->fail("job $job->{id} of $job->{org} is ended, $expected",
			'it goes on')
		  if defined $expected;
	}
	return;
}

# Rows of one job are its nodes; jobs start in the order of their rows.
sub apply_starts
{
	my ($d, $rows) = @_;
	my (%start, @order);

	foreach (@$rows)
	{
		my ($action, $org, $job, $attempt, $node, $gpus, $share, $type, $price) =
		  @$_;

		$d->fail('no more than these actions', $action)
		  if $action !~ /^(start|claim|preempt|resize|move)$/;
		next if $action ne 'start';
		my $name = "$org|$job";

		push @order, $name unless $start{$name};
		$start{$name} ||= {
			org      => $org,
			job      => $job,
			attempt  => $attempt,
			gpus     => 0,
			share    => $share,
			gpu_type => $type,
			price    => $price };
		$start{$name}{gpus} += devices_in($gpus);
		$start{$name}{nodes}{$node} = $gpus;
	}

	# only the scheduler knows which jobs were backfilled
	my $let_in = @order
	  ? $d->{dbh}->selectcol_arrayref(q{SELECT org || '|' || job
		FROM gpucredit.attempt
		WHERE started_at = gpucredit.now() AND ends_by IS NOT NULL})
	  : [];

	foreach (@$let_in)
	{
		$start{$_}{let_in} = 1 if $start{$_};
	}
	foreach (@order)
	{
		eval { Model::Attempt::start($d->{m}, $start{$_}); 1 }
		  or $d->fail('a start as the model allows', "$_: $@");
	}
	return;
}

1;
