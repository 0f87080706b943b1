package GpuCreditDemo::Replay;

# Replay.pm - plays a plan against the server in simulated time.
#
# The agenda has the events of each second.  The replay handles all events of a
# second first.  If they changed anything for the scheduler and jobs wait, one
# scheduling cycle follows.  Simulated time then jumps to the next second with
# events.
#
# With --keep, the replay stops in the middle: once half of the jobs have
# arrived and some wait, or when three quarters have arrived.

use strict;
use warnings;
use POSIX qw(ceil);
use Time::HiRes qw(time);
use GpuCreditDemo::Agenda;
use GpuCreditDemo::Cluster;
use GpuCreditDemo::Fleet;
use GpuCreditDemo::Money qw(micro);

use constant DAY          => 86_400;
use constant WAITING      => 3;         # so many make a queue to look at
use constant UPKEEP_BOUND => 10_000;    # rows of a kind in one call

# What each kind of event does; those marked * may let a job start.
my %ACTION = (
    arrive    => \&_arrive,     # *
    end       => \&_end,        # *
    tick      => \&_tick,       # *
    retry     => \&_retry,      # *
    cancel    => \&_cancel,     # *
    issue     => \&_issue,      # *
    drain     => \&_drain,
    resume    => \&_resume,     # *
    heartbeat => \&_heartbeat,  # *
    hold      => \&_hold,
    capture   => \&_capture,
    release   => \&_release,
);

sub new
{
    my ($class, %opt) = @_;
    my $plan = $opt{plan};
    my $self = bless {
        plan => $plan, db => $opt{db}, progress => $opt{progress},
        agenda => GpuCreditDemo::Agenda->new,
        cluster => GpuCreditDemo::Cluster->new($plan->{nodes}),
        ready => {}, by_id => {}, holds => {}, changed => 0, done => 0,
        now => 0, bought => {}, cycles => 0, starts => 0, denied => {},
        requeued => 0, captured => {}, arrived => 0, stop => $opt{stop}
    }, $class;
    $self->{fleet} = GpuCreditDemo::Fleet->new(
        db => $opt{db}, agenda => $self->{agenda},
        cluster => $self->{cluster}, mischief => $plan->{mischief},
        on_over => sub { $self->_over(@_) });
    return $self;
}

# Sets the cluster up: tenants, prices, tiers, nodes, at simulated second 0.
sub set_up
{
    my ($self) = @_;
    my ($db, $plan) = @{$self}{qw(db plan)};
    $db->set_epoch($plan->{epoch});
    $db->set_clock(0);
    $db->call('create_account', @$_) for @{ $plan->{accounts} };
    my %orgs = map { $_->[0] => 1 } @{ $plan->{accounts} };
    for my $org (sort keys %orgs)
    {
        $db->call('grant_tier', $org, $_)
            for qw(production_inference premium_training);
    }
    $db->call('set_price', @$_) for @{ $plan->{prices} };
    for my $tier (@{ $plan->{tiers} })
    {
        my ($name, $rank, $preemptible, $can_preempt, $max_wall) = @$tier;
        $db->call('set_tier', $name, $rank, $preemptible,
            $can_preempt, "$max_wall s");
    }
    for my $node (@{ $plan->{nodes} })
    {
        $db->call('register_node',
            @{$node}{qw(name type gpus gpu_memory_mib cpu_milli memory_mib leaf)});
    }
    $db->call('set_budget', @$_) for @{ $plan->{budgets} };
    $db->call('set_alert', @$_) for @{ $plan->{alerts} };
    $self->{agenda}->add(@$_) for @{ $plan->{events} };
    $self->{agenda}->add($_->{t}, 'arrive', $_) for @{ $plan->{jobs} };
    return;
}

# Plays everything, or as much as --keep needs.
sub run
{
    my ($self) = @_;
    my ($db, $agenda, $fleet) = @{$self}{qw(db agenda fleet)};
    my $total   = 2 * @{ $self->{plan}{jobs} };
    my $started = time;
    while (my ($second, $events) = $agenda->next)
    {
        for my $event (@$events)
        {
            my ($kind, @what) = @$event;
            next if _overtaken($kind, @what);
            $self->{now} = $second;
            $db->set_clock($second);
            $ACTION{$kind}->($self, @what);
        }
        $self->_place if $self->{changed} && %{ $self->{ready} };
        $self->{changed} = 0;
        my $share = $total ? $self->{done} / $total : 1;
        $self->{memory_early} //= [ $db->memory ] if $share >= 0.1;
        # By half time, nearly all of the session's statements have their
        # plans.
        $self->{memory_half} //= [ $db->memory ] if $share >= 0.5;
        $self->{progress}->show($share, $second);
        last if $self->{stop} && $self->_is_middle;
    }
    $self->_upkeep if $self->{stop};
    $self->{memory_late} = [ $db->memory ];
    $self->{cluster}->advance($self->{now});
    $self->{seconds} = time - $started;
    $self->{progress}->finish;
    return;
}

# Is there enough to see, and more to come?
sub _is_middle
{
    my ($self) = @_;
    my $share = $self->{arrived} / (@{ $self->{plan}{jobs} } || 1);
    return $share >= 0.75 || $share >= 0.5 && $self->waiting >= WAITING;
}

# How many jobs wait.
sub waiting
{
    my ($self) = @_;
    return scalar keys %{ $self->{ready} };
}

# Is an event obsolete because its job or hold has ended?  Then nothing
# happens, and simulated time skips it.
sub _overtaken
{
    my ($kind, $what, $token) = @_;
    return $what->{over} || $what->{token} != $token if $kind eq 'end';
    return ($kind eq 'cancel' || $kind eq 'retry') && $what->{final};
}

# Runs scheduling cycles until one starts nothing more.
sub _place
{
    my ($self) = @_;
    my ($db, $fleet, $now) = @{$self}{qw(db fleet now)};
    while (1)
    {
        $self->{cycles}++;
        my $rows = $db->call('place') or return;
        my (%started, @order);
        for my $row (@$rows)
        {
            $self->{actions}{ $row->{action} }++;
            next if $row->{action} ne 'start';
            my $id = "$row->{org}/$row->{job}";
            push @order, $id if !$started{$id};
            push @{ $started{$id} }, $row;
        }
        for my $id (@order)
        {
            my $job = delete $self->{ready}{$id};
            if (!$job)
            {
                $fleet->surprise("place started $id, which was not waiting");
                next;
            }
            $job->{wait} //= $now - $job->{t};
            $self->{starts}++;
            $fleet->start($job, $started{$id}, $now);
        }
        last if @order < 1000 || !%{ $self->{ready} };
    }
    return;
}

# A job is submitted.
sub _arrive
{
    my ($self, $job) = @_;
    my @call = (@{$job}{qw(org account key request)},
        defined $job->{wall} ? "$job->{wall} s" : undef,
        @{$job}{qw(tier topology max_retries cpu_milli memory_mib)},
        defined $job->{hold_window} ? "$job->{hold_window} s" : undef);
    my $rows = $self->{db}->call('reserve', @call);
    $self->{done}++;
    $self->{arrived}++;
    if (!$rows)
    {
        $self->_final($job, 'not submitted');
        return;
    }
    my $row = $rows->[0];
    if (rand() < $self->{plan}{mischief})
    {
        # the answer got lost on its way, so the caller asks again
        my $again = $self->{db}->call('reserve', @call);
        $self->{fleet}{repeats}++;
        $self->{fleet}->surprise("second reserve of $job->{key} differs")
            if $again && (!$again->[0]{replayed}
            || ($again->[0]{job} // 0) != ($row->{job} // 0));
    }
    if ($row->{status} ne 'granted')
    {
        $self->{denied}{ $job->{org} }{ $row->{reason} }++;
        $self->_final($job, 'denied');
        return;
    }
    $job->{id} = $row->{job};
    $self->{ready}{"$job->{org}/$job->{id}"} = $job;
    $self->{changed} = 1;
    $self->{agenda}->add($self->{now} + $job->{cancel_after}, 'cancel', $job)
        if defined $job->{cancel_after};
    return;
}

# An attempt ends.
sub _end
{
    my ($self, $attempt, $token) = @_;
    $self->{fleet}->end($attempt, $token, $self->{now});
    return;
}

# An attempt has been settled: the job is over or waits again.
sub _over
{
    my ($self, $job, $settled, $now) = @_;
    $self->{changed} = 1;
    my $state = $settled->{job_state};
    if ($state ne 'queued' && $state ne 'unfunded')
    {
        $self->_final($job, $state eq 'failed' ? $job->{outcome} : $state);
        return;
    }
    $self->{requeued}++;
    my $again = defined $settled->{retry_at}
        ? ceil($settled->{retry_at} - $self->{plan}{epoch}) : $now;
    if ($again > $now)
    {
        $self->{agenda}->add($again, 'retry', $job);
    }
    else
    {
        $self->_retry($job);
    }
    return;
}

# The backoff of a job is over.
sub _retry
{
    my ($self, $job) = @_;
    $self->{ready}{"$job->{org}/$job->{id}"} = $job;
    $self->{changed} = 1;
    return;
}

# A full hour.  Waiting jobs get a cycle, so that none waits for an event that
# never comes.
sub _tick
{
    my ($self) = @_;
    $self->{fleet}->tick($self->{now});
    $self->{changed} = 1;
    $self->_upkeep if $self->{now} % DAY == 0;
    return;
}

# The upkeep that pg_cron calls in a real installation, here at midnight.  A
# call does bounded work, so it is repeated until it finds less.
sub _upkeep
{
    my ($self) = @_;
    while (my $rows = $self->{db}->call('maintain'))
    {
        last if !grep { $_->{affected} >= UPKEEP_BOUND } @$rows;
    }
    return;
}

# A tenant cancels a job, wherever it is by now.
sub _cancel
{
    my ($self, $job) = @_;
    my $rows = $self->{db}->call('cancel', $job->{org}, $job->{id},
        "cancel $job->{key}", 'no longer needed') or return;
    $job->{cancelled} = 1;
    if ($rows->[0]{job_state} eq 'cancelled')
    {
        delete $self->{ready}{"$job->{org}/$job->{id}"};
        $self->_final($job, 'cancelled');
        $self->{changed} = 1;
        return;
    }
    $self->{fleet}->cancel($job, $self->{now});
    return;
}

# A job has come to its end.
sub _final
{
    my ($self, $job, $how) = @_;
    $job->{final} = $how;
    $self->{done}++;
    return;
}

# An organisation buys, or is given, credit.
sub _issue
{
    my ($self, $what) = @_;
    my $db = $self->{db};
    my $rows = $db->call('issue', @{$what}{qw(org account key amount kind)},
        defined $what->{expires} ? $db->timestamp($what->{expires}) : undef)
        or return;
    $self->{bought}{ $what->{org} } += micro($what->{amount});
    $self->{changed} = 1;
    return;
}

# Maintenance of a node.
sub _drain
{
    my ($self, $what) = @_;
    $self->{db}->call('drain', $what->{node}, 'maintenance');
    $self->{cluster}->close_node($what->{node}, 1);
    return;
}

# It is over.
sub _resume
{
    my ($self, $what) = @_;
    $self->{db}->call('resume', $what->{node});
    $self->{cluster}->close_node($what->{node}, 0);
    $self->{changed} = 1;
    return;
}

# A node reports which of its devices are healthy.
sub _heartbeat
{
    my ($self, $what) = @_;
    $self->{db}->call('heartbeat', $what->{node}, $what->{healthy});
    $self->{cluster}->healthy($what->{node}, $what->{healthy});
    $self->{changed} = 1;
    return;
}

# A caller with a scheduler of its own takes a hold.
sub _hold
{
    my ($self, $what) = @_;
    my $rows = $self->{db}->call('hold', @{$what}{qw(org account)},
        "hold $what->{name}", $what->{amount}, "$what->{ttl} s") or return;
    $self->{holds}{ $what->{name} } = $rows->[0]{hold};
    return;
}

# It spends from the hold; some captures must be refused.
sub _capture
{
    my ($self, $what) = @_;
    my $hold = $self->{holds}{ $what->{name} } // return;
    my @call = ('capture', $what->{org}, $hold,
        "capture $what->{name} $self->{now}", @{$what}{qw(amount final)});
    if ($what->{refused})
    {
        $self->{db}->refused($what->{refused}, @call)
            or $self->{fleet}->surprise(
            "capture of hold $what->{name} was not refused with $what->{refused}");
        return;
    }
    my $rows = $self->{db}->call(@call) or return;
    $self->{captured}{ $what->{org} } += micro($rows->[0]{captured});
    return;
}

# It gives the hold back.
sub _release
{
    my ($self, $what) = @_;
    my $hold = $self->{holds}{ $what->{name} } // return;
    $self->{db}->call('release', $what->{org}, $hold, "release $what->{name}");
    return;
}

1;
