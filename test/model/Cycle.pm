# Cycle.pm: what place() decided, taken into the model
#
# Who starts where is the scheduler's matter; whether the rules allow it, and
# what it does to credit, is said by the model.
package Cycle;

use strict;
use warnings;

use Dice;
use Exporter 'import';
use Model::Attempt;
use Model::Job;

our @EXPORT = qw(take_cycle take_sweep);

# What a cycle decided: jobs that got credit again, jobs that start.
sub take_cycle
{
	my ($d, $rows) = @_;
	my $m = $d->{m};
	my %waits = map { ("$_->{org}|$_->{id}" => $_) } Model::Job::waiting($m);
	my $funded = %waits ? $d->{dbh}->selectall_arrayref(
		"SELECT j.org, j.job, j.hold FROM gpucredit.job j"
		  . " WHERE j.state <> 'unfunded' AND j.ended_at IS NULL"
		  . ' ORDER BY j.hold') : [];

	foreach (@$funded)
	{
		my ($org, $id, $hold) = @$_;
		my $job = $m->{job}{$org}{$id};

		next unless $job->{state} eq 'unfunded';
		$d->fail('the oldest of its account is funded first', "job $id")
		  unless delete $waits{"$org|$id"};
		$job->{state} =
		  Model::Job::requeue($m, $job, { holds => [$hold] });
		$d->fail('it stays unfunded', "job $id") if $job->{state} ne 'queued';
	}
	foreach (map { $waits{$_} } sort keys %waits)
	{
		my $probe = Model::Job::affordable($m, $_);

		$d->fail("job $_->{id} is funded", 'it still waits') if $probe;
	}
	take_starts($d, $rows);
	return;
}

# What a sweep ended, in the order it did: that it was to end it so, and what
# that does to credit, is said by the model.  Nothing that was to end goes on,
# but where the sweep ran out of time.
sub take_sweep
{
	my ($d, $all) = @_;
	my $m = $d->{m};
	my $ended = $d->{dbh}->selectall_arrayref(
		'SELECT a.org, a.job, a.attempt, a.outcome, j.hold'
		  . ' FROM gpucredit.attempt a'
		  . ' JOIN gpucredit.audit u ON u.org = a.org AND u.job = a.job'
		  . " AND u.attempt = a.attempt AND u.operation = 'settle'"
		  . ' JOIN gpucredit.job j ON j.org = a.org AND j.job = a.job'
		  . ' WHERE a.ended_at = gpucredit.now() ORDER BY u.audit');

	foreach (@$ended)
	{
		my ($org, $id, $number, $outcome, $hold) = @$_;
		my $job = $m->{job}{$org}{$id};
		my $attempt = $m->{attempt}{$org}{$id}{$number};

		next if $attempt->{outcome};
		my $expected = Model::Attempt::overdue($m, $job, $attempt) // 'goes on';

		$d->fail("job $id of $org $expected", "it was ended, $outcome")
		  if $expected ne $outcome;

		# without credit for another the job still names its last hold
		my @new = $hold == $job->{hold}{id} ? () : ($hold);

		Model::Attempt::settle($m,
			{ org => $org, job => $id, attempt => $number, outcome => $outcome },
			{ holds => \@new });
	}
	foreach my $attempt ($all ? Dice::live_attempts($m) : ())
	{
		my $job = $m->{job}{ $attempt->{org} }{ $attempt->{job} };
		my $expected = Model::Attempt::overdue($m, $job, $attempt);

		$d->fail("job $job->{id} of $job->{org} is ended, $expected",
			'it goes on')
		  if defined $expected;
	}
	return;
}

# Rows of one job are its nodes; jobs start in the order of their rows.
sub take_starts
{
	my ($d, $rows) = @_;
	my (%start, @order);

	foreach (@$rows)
	{
		my ($action, $org, $job, $attempt, $gpus, $share, $type, $price) = @$_;

		$d->fail('start', $action) if $action ne 'start';
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
		$start{$name}{gpus} += /-(\d+)/ ? $1 - $` + 1 : 1
		  foreach $gpus =~ /[\d-]+/g;
	}
	foreach (@order)
	{
		eval { Model::Attempt::start($d->{m}, $start{$_}); 1 }
		  or $d->fail('a start as the model allows', "$_: $@");
	}
	return;
}

1;
