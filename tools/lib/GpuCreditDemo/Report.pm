package GpuCreditDemo::Report;

# Report.pm - the final report for a platform owner, and whether the books are
# right.
#
# Figures of credit come from the public reading functions (Books).  Figures of
# jobs and time come from the answers to calls during the replay.  A failed
# check makes the exit status 1.

use strict;
use warnings;
use GpuCreditDemo::Books;
use GpuCreditDemo::Chart qw(chart table);
use GpuCreditDemo::Money qw(credits);

use constant COLUMNS => 64;     # of the chart
use constant USERS   => 10;     # that spent most
use constant DETAILS => 10;     # of a check that failed
use constant FLAT    => 8192;   # kB, what memory may grow by

sub new
{
    my ($class, %opt) = @_;
    return bless {
        plan => $opt{plan}, db => $opt{db}, replay => $opt{replay},
        unicode => $opt{unicode}, checks => []
    }, $class;
}

# Prints everything; true when every check held.
sub print_all
{
    my ($self) = @_;
    binmode STDOUT, ':encoding(UTF-8)' if $self->{unicode};
    $self->_jobs;
    $self->_cluster;
    $self->_waits;
    $self->_denials;
    $self->_credits;
    $self->_verify;
    $self->_calls;
    return $self->_checks;
}

# How the jobs ended.
sub _jobs
{
    my ($self) = @_;
    my ($replay, $jobs) = ($self->{replay}, $self->{plan}{jobs});
    my @known = qw(completed failed out_of_memory timeout cancelled denied);
    my %count = map { $_ => 0 } @known;
    $count{ $self->_state_of($_) }++ for @$jobs;
    my %known = map { $_ => 1 } @known;
    my @rows;
    for my $outcome (@known, sort grep { !$known{$_} } keys %count)
    {
        my $count = $count{$outcome};
        push @rows, [ $outcome, $count, _percent($count, scalar @$jobs) ];
    }
    _section('Jobs', table([ 'outcome', 'jobs', 'share' ], @rows));
    printf "  %d attempts started in %d scheduling cycles, %d times a job "
        . "went back to the queue\n", @{$replay}{qw(starts cycles requeued)};
    my $told = $replay->{fleet}{told} || {};
    my @told = map { "$_ ($told->{$_})" } sort keys %$told;
    print '  agents were told: ', join(', ', @told), "\n" if @told;
    return;
}

# How a job ended, or how far it is.
sub _state_of
{
    my ($self, $job) = @_;
    return $job->{final} if defined $job->{final};
    return 'not yet submitted' if !defined $job->{id};
    return $self->{replay}{fleet}->runs($job) ? 'running' : 'still waiting';
}

# GPU-hours by type, and how busy the cluster was over time.
sub _cluster
{
    my ($self) = @_;
    my $cluster = $self->{replay}{cluster};
    my $hours   = $self->{replay}{now} / 3600 || 1;
    my ($total, $sum, @rows) = ($cluster->{total}, 0);
    for my $type (sort keys %{ $cluster->{devices} })
    {
        my $devices = $cluster->{devices}{$type};
        my $used    = ($cluster->{seconds}{$type} // 0) / 3600;
        $sum += $used;
        push @rows, [ $type, $devices, sprintf('%.1f', $used),
            _percent($used, $devices * $hours) ];
    }
    push @rows, [ 'all', $total, sprintf('%.1f', $sum),
        _percent($sum, $total * $hours) ];
    _section(sprintf('Cluster: %d nodes, %d GPUs, %.1f simulated days',
        $cluster->{nodes}, $total, $hours / 24),
        table([ 'type', 'GPUs', 'GPU-hours', 'in use' ], @rows));

    my @profile = map { 100 * $_ / $total } $cluster->profile(COLUMNS);
    _section(sprintf('GPUs in use, %% of all (at most %.1f at once)',
        $cluster->{peak} / 1000),
        chart(\@profile, $hours / 24, $self->{unicode}));
    return;
}

# How long jobs waited for their first start.
sub _waits
{
    my ($self) = @_;
    my (%wait, @rows);
    for my $job (@{ $self->{plan}{jobs} })
    {
        next if !defined $job->{wait};
        push @{ $wait{$_} }, $job->{wait} for $job->{tier}, ' all';
    }
    for my $tier (reverse sort keys %wait)
    {
        my @sorted = sort { $a <=> $b } @{ $wait{$tier} };
        push @rows, [ $tier =~ s/ //r, scalar @sorted,
            map { _duration($sorted[ int($_ * $#sorted + 0.5) ]) }
            0.5, 0.95, 1 ];
    }
    _section('Wait from submission to first start',
        table([ 'tier', 'started', 'p50', 'p95', 'max' ], @rows));
    return;
}

# What was refused, and why.
sub _denials
{
    my ($self) = @_;
    my $denied = $self->{replay}{denied};
    my @rows;
    for my $org (sort keys %$denied)
    {
        my $reasons = $denied->{$org};
        push @rows, map { [ $org, $_, $reasons->{$_} ] } sort keys %$reasons;
    }
    _section('Denials', @rows
        ? table([ 'organisation', 'reason', 'jobs' ], @rows) : '  none');
    return;
}

# The credit of each organisation, and its spenders.
sub _credits
{
    my ($self) = @_;
    my ($db, $replay) = @{$self}{qw(db replay)};
    my @compartments = @GpuCreditDemo::Books::COMPARTMENTS;
    $db->set_clock($replay->{now});
    my $books = GpuCreditDemo::Books->new(db => $db,
        accounts => $self->{plan}{accounts});
    my (@rows, @equations);
    for my $sum ($books->sums)
    {
        my $org = $sum->{org};
        push @rows, [ $org, map { credits($sum->{$_}) } 'issued', @compartments ];
        push @equations, sprintf '  %s: %s %s %s', $org, credits($sum->{issued}),
            $sum->{issued} == $sum->{accounted} ? '=' : 'IS NOT',
            join ' + ', map { credits($sum->{$_}) } @compartments;
        push @{ $self->{checks} }, $books->checks($sum,
            $replay->{bought}{$org} // 0,
            ($replay->{fleet}{spent}{$org} // 0)
            + ($replay->{captured}{$org} // 0));
    }
    _section('Credits', table([ 'organisation', 'issued', @compartments ], @rows));
    _section('issued = ' . join(' + ', @compartments), @equations);

    my @spenders = $books->spenders;
    splice @spenders, USERS if @spenders > USERS;
    _section('Top users by spend', table([ 'user', 'credits' ],
        map { [ $_->[0], credits($_->[1]) ] } @spenders));
    return;
}

# Asks the extension to recompute all its books.
sub _verify
{
    my ($self) = @_;
    my $rows  = $self->{db}->call('verify');
    my @wrong = map { join ' | ', map { $_ // '' }
        @{$_}{qw(invariant org subject detail)} } @{ $rows || [] };
    $self->_check('verify() is empty', $rows && !@wrong, @wrong);
    return;
}

# What the calls cost.
sub _calls
{
    my ($self) = @_;
    my ($replay, $stats) = ($self->{replay}, $self->{db}{stats});
    my ($calls, $busy, @rows) = (0, 0);
    my @names = sort { $stats->{$b}{seconds} <=> $stats->{$a}{seconds}
        || $a cmp $b } keys %$stats;
    for my $name (@names)
    {
        my ($count, $seconds, $max) = @{ $stats->{$name} }{qw(calls seconds max)};
        $calls += $count;
        $busy  += $seconds;
        push @rows, [ $name, $count, sprintf('%.2f s', $seconds),
            sprintf('%.2f ms', 1000 * $seconds / $count),
            sprintf('%.1f ms', 1000 * $max),
            sprintf('%.0f', $count / ($seconds || 1e-9)) ];
    }
    push @rows, [ 'all', $calls, sprintf('%.2f s', $busy), '', '',
        sprintf('%.0f', $calls / ($busy || 1e-9)) ];
    _section('Calls, over one connection', table(
        [ 'function', 'calls', 'total', 'mean', 'max', 'per second' ], @rows));
    printf "  the replay took %.1f s of wall time; meter_batch carried %d "
        . "heartbeats\n", $replay->{seconds}, $replay->{fleet}{batch_rows};
    my $late  = $replay->{memory_late};
    my $half  = $replay->{memory_half} || $late;
    my $early = $replay->{memory_early} || $late;
    printf "  backend's memory: %.1f MB after half, %.1f MB at the end "
        . "(its own, without shared buffers: %.1f MB, %.1f MB)\n",
        map { $_ / 1024 } $half->[0], $late->[0], $half->[1], $late->[1];
    printf "  its memory contexts: %.1f MB after 10 %%, %.1f MB at the end\n",
        map { $_->[2] / 1024 } $early, $late;
    $self->_check("the backend's own memory stayed flat",
        $late->[1] - $half->[1] < FLAT && $late->[2] - $early->[2] < FLAT);
    return;
}

# Prints the checks; true when all held.
sub _checks
{
    my ($self) = @_;
    my ($db, $fleet) = ($self->{db}, $self->{replay}{fleet});
    $self->_check("$fleet->{attempts} attempts billed to the micro-credit "
        . 'as the demo computes it',
        !@{ $fleet->{wrong_bills} }, @{ $fleet->{wrong_bills} });
    $self->_check('no GPU given out twice, broken, or on a drained node',
        !@{ $fleet->{misplaced} }, @{ $fleet->{misplaced} });
    $self->_check("$fleet->{late} late heartbeats and $fleet->{repeats} "
        . 'repeated calls changed nothing',
        !@{ $fleet->{surprises} }, @{ $fleet->{surprises} })
        if $self->{plan}{mischief} || @{ $fleet->{surprises} };
    $self->_check('no call failed unexpectedly', !$db->{failed},
        map { "$_->{function}: $_->{state} $_->{error}" =~ s/\s+/ /gr }
        @{ $db->{failures} });

    my ($bad, @lines) = (0);
    for my $check (@{ $self->{checks} })
    {
        my ($text, $held, @why) = @$check;
        push @lines, ($held ? '  ok      ' : '  FAILED  ') . $text;
        next if $held;
        $bad++;
        splice @why, DETAILS, @why - DETAILS, '...' if @why > DETAILS;
        push @lines, map { "            $_" } @why;
    }
    _section('Checks', @lines);
    my $all = @{ $self->{checks} };
    print $bad ? "\n$bad of $all checks FAILED\n" : "\nall $all checks hold\n";
    return !$bad;
}

# Remembers a check and, where it failed, why.
sub _check
{
    my ($self, $text, $held, @why) = @_;
    push @{ $self->{checks} }, [ $text, $held, @why ];
    return;
}

# Prints a section.
sub _section
{
    my ($heading, @lines) = @_;
    print "\n$heading\n", map { "$_\n" } @lines;
    return;
}

# A part of a whole, for reading.
sub _percent
{
    my ($part, $whole) = @_;
    return sprintf '%.2f %%', $whole ? 100 * $part / $whole : 0;
}

# Seconds, for reading.
sub _duration
{
    my ($seconds) = @_;
    return sprintf '%d s', $seconds if $seconds < 120;
    return sprintf '%d min', $seconds / 60 if $seconds < 7200;
    return sprintf '%.1f h', $seconds / 3600;
}

1;
