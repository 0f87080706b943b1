package GpuCreditDemo::Fleet;

# Fleet.pm - the agents on the nodes: they start what place() starts, meter
# what runs, obey directives, and settle what ends.
#
# An attempt runs as long as the plan says, by the simulated clock.  If it is
# told to stop or leave by a deadline, it ends earlier.  This module computes
# every bill again and compares it with the ledger's.

use strict;
use warnings;
use POSIX qw(floor);
use GpuCreditDemo::Cluster;
use GpuCreditDemo::Money qw(micro bill);

use constant HOUR         => 3600;
use constant CANCEL_DELAY => 30;    # an agent's notice of a cancel

my %EXIT_CODE = (completed => 0, failed => 1, out_of_memory => 137,
    timeout => 124, cancelled => 143, preempted => 143);

# on_over is called with (job, settlement, now) when an attempt has ended.
sub new
{
    my ($class, %opt) = @_;
    return bless {
        db => $opt{db}, agenda => $opt{agenda}, cluster => $opt{cluster},
        mischief => $opt{mischief}, on_over => $opt{on_over},
        running => {}, attempts => 0, ticking => 0, batch_rows => 0,
        spent => {}, wrong_bills => [], late => 0, repeats => 0,
        surprises => [], misplaced => []
    }, $class;
}

# Starts an attempt on the devices that place() gave it.
sub start
{
    my ($self, $job, $rows, $now) = @_;
    my $attempt = {
        job => $job, org => $job->{org}, id => $job->{id},
        attempt => $rows->[0]{attempt}, start => $now, rows => $rows,
        milli => GpuCreditDemo::Cluster::milli($rows),
        type => $rows->[0]{gpu_type} // 'none',
        price => micro($rows->[0]{per_gpu_hour} // '0'), token => 0,
        metered => 0
    };
    $self->{running}{"$job->{org}/$job->{id}"} = $attempt;
    $self->{attempts}++;
    push @{ $self->{misplaced} }, map { "$job->{org} job $job->{id}: $_" }
        $self->{cluster}->allocate($now, $rows);
    $self->_by_plan($attempt);
    my $answer = $self->{db}
        ->call('meter', @{$attempt}{qw(org id attempt)}, '0 s');
    $self->_obey($attempt, $answer->[0], $now) if $answer;
    $self->_schedule_tick($now);
    return;
}

# How many attempts run.
sub running
{
    my ($self) = @_;
    return scalar keys %{ $self->{running} };
}

# Does an attempt of a job run?
sub runs
{
    my ($self, $job) = @_;
    return exists $self->{running}{"$job->{org}/$job->{id}"};
}

# One simulated hour is over: one call meters all running attempts.
sub tick
{
    my ($self, $now) = @_;
    $self->{ticking} = 0;
    my $running = $self->{running};
    my @batch = map { [ $running->{$_}, $now - $running->{$_}{start} ] }
        sort keys %$running;
    return if !@batch;
    for my $attempt ($self->{mischief} ? map { $_->[0] } @batch : ())
    {
        # a heartbeat that was late, or came twice
        next if rand() >= $self->{mischief};
        push @batch, [ $attempt, int($attempt->{metered} * rand() * 2) ];
        $batch[-1][1] = $now - $attempt->{start}
            if $batch[-1][1] > $now - $attempt->{start};
        $self->{late}++;
    }
    my $rows = $self->{db}->call('meter_batch',
        [ map { $_->[0]{org} } @batch ], [ map { $_->[0]{id} } @batch ],
        [ map { $_->[0]{attempt} } @batch ], [ map { "$_->[1] s" } @batch ]);
    $self->{batch_rows} += @batch;
    $self->_schedule_tick($now);
    return if !$rows;
    $self->surprise(scalar(@$rows) . ' rows from meter_batch for ' . @batch)
        if @$rows != @batch;
    for my $row (@$rows)
    {
        my $attempt = $running->{"$row->{org}/$row->{job}"} or next;
        $attempt->{metered} = $now - $attempt->{start};
        $self->_obey($attempt, $row, $now);
    }
    return;
}

# An attempt's planned or forced end has come.  Ends that were overtaken by
# another plan carry an old token.
sub end
{
    my ($self, $attempt, $token, $now) = @_;
    return if $attempt->{over} || $attempt->{token} != $token;
    $self->_settle($attempt, $attempt->{outcome}, $now);
    return;
}

# The job was cancelled while it ran: its agent learns of it shortly after.
sub cancel
{
    my ($self, $job, $now) = @_;
    my $attempt = $self->{running}{"$job->{org}/$job->{id}"} or return;
    $self->_force($attempt, 'cancelled', $now + CANCEL_DELAY);
    return;
}

# Settles an attempt and checks the bill.
sub _settle
{
    my ($self, $attempt, $outcome, $now) = @_;
    my ($job, $elapsed) = ($attempt->{job}, $now - $attempt->{start});
    my @call = (@{$attempt}{qw(org id attempt)}, $outcome, "$elapsed s",
        $EXIT_CODE{$outcome});
    my $rows = $self->{db}->call('settle', @call);
    $attempt->{over} = 1;
    delete $self->{running}{"$job->{org}/$job->{id}"};
    $self->{cluster}->release_devices($now, $attempt->{rows});
    $self->{cluster}->used($attempt->{type}, $attempt->{milli}, $elapsed);
    return if !$rows;

    my $settled = $rows->[0];
    my ($billed, $due) = (micro($settled->{billed}),
        bill($attempt->{price}, $attempt->{milli}, $elapsed));
    push @{ $self->{wrong_bills} }, "$attempt->{org}, job $attempt->{id}, "
        . "attempt $attempt->{attempt}, $elapsed s: billed $billed, due $due "
        . 'micro-credits'
        if $billed != $due;
    $self->{spent}{ $attempt->{org} } += $billed;
    $self->surprise("settle of $job->{key} claims to be a replay")
        if $settled->{replayed};
    $self->_repeat($attempt, $settled, @call) if rand() < $self->{mischief};

    # an interrupted job goes on where it stopped, others as planned
    if ($outcome eq 'preempted')
    {
        $job->{left} = ($attempt->{goal} - $now) || 1;
    }
    else
    {
        delete $job->{left};
        $job->{step}++;
    }
    $job->{outcome} = $outcome;
    $self->{on_over}->($job, $settled, $now);
    return;
}

# Settles again with other arguments, and meters an ended attempt: neither may
# change anything.
sub _repeat
{
    my ($self, $attempt, $settled, @call) = @_;
    $call[3] = $call[3] eq 'failed' ? 'completed' : 'failed';
    my $again = $self->{db}->call('settle', @call) or return;
    $self->{repeats}++;
    $self->surprise("second settle of job $attempt->{id} was not a replay")
        if !$again->[0]{replayed} || $again->[0]{billed} ne $settled->{billed};
    my $late = $self->{db}
        ->call('meter', @{$attempt}{qw(org id attempt)}, '400 days') or return;
    $self->{late}++;
    $self->surprise("heartbeat after the end was told \"$late->[0]{action}\"")
        if $late->[0]{action} ne 'stop';
    return;
}

# Does what the answer to a heartbeat says.
sub _obey
{
    my ($self, $attempt, $row, $now) = @_;
    return if $attempt->{over};
    my $action = $row->{action};
    my $cancelled = $attempt->{job}{cancelled};
    if ($action eq 'stop')
    {
        my $reason = $row->{reason} // '';
        $self->{told}{"stop: $reason"}++;
        $self->_settle($attempt, $cancelled ? 'cancelled'
            : $reason =~ /wall/ ? 'timeout' : 'preempted', $now);
    }
    elsif ($action eq 'checkpoint')
    {
        $self->{told}{ 'checkpoint: ' . ($row->{reason} // '') }++;
        $self->_force($attempt, 'preempted', $now + floor($row->{time_left}))
            if defined $row->{time_left} && !$cancelled;
    }
    elsif ($attempt->{forced} && !$cancelled)
    {
        $self->_by_plan($attempt);      # the danger is over
    }
    return;
}

# Lets an attempt end as the plan of its job says.
sub _by_plan
{
    my ($self, $attempt) = @_;
    my $job  = $attempt->{job};
    my $runs = $job->{runs};
    my $step = $job->{step} // 0;
    my $run  = $runs->[ $step < @$runs ? $step : -1 ];
    $attempt->{forced}  = 0;
    $attempt->{outcome} = $run->[0];
    $attempt->{goal}    = $attempt->{start} + ($job->{left} // $run->[1]);
    $self->{agenda}->add($attempt->{goal}, 'end', $attempt, ++$attempt->{token});
    return;
}

# Lets an attempt end before its plan.
sub _force
{
    my ($self, $attempt, $outcome, $when) = @_;
    return if $when >= $attempt->{goal};
    $attempt->{forced}  = 1;
    $attempt->{outcome} = $outcome;
    $self->{agenda}->add($when, 'end', $attempt, ++$attempt->{token});
    return;
}

# Makes sure that the next full hour is metered.
sub _schedule_tick
{
    my ($self, $now) = @_;
    return if $self->{ticking};
    $self->{ticking} = 1;
    $self->{agenda}->add((int($now / HOUR) + 1) * HOUR, 'tick');
    return;
}

# Remembers an answer that the interface does not allow.
sub surprise
{
    my ($self, $text) = @_;
    push @{ $self->{surprises} }, $text;
    return;
}

1;
