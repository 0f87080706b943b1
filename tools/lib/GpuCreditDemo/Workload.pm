package GpuCreditDemo::Workload;

# Workload.pm - makes up a small cluster and a few days of work for it.
#
# The same seed gives the same plan.  The simulated time is as long as the jobs
# need, so that any --jobs and --nodes make a cluster that is busy but not
# overloaded.

use strict;
use warnings;
use GpuCreditDemo::Money qw(micro credits);

use constant EPOCH => 1_767_571_200;    # Monday, 2026-01-05 UTC
use constant HOUR  => 3600;

# type: share of the nodes, devices, memory, cpu, host memory, price
my @TYPES = (
    [ H100 => 0.25, 8, 81920, 128_000, 1_048_576, '3.900000' ],
    [ A100 => 0.40, 8, 40960, 96_000,  786_432,   '1.800000' ],
    [ L4   => 0.20, 4, 24576, 48_000,  196_608,   '0.700000' ],
    [ T4   => 0.15, 4, 16384, 48_000,  196_608,   '0.350000' ],
);

# organisation: share of the jobs, how much of what they cost it buys,
# projects.  The last one runs dry and is refused work.
my @ORGS = (
    [ 'northwind', 0.45, 3.0, qw(vision speech forecasting) ],
    [ 'heliolab',  0.35, 3.0, qw(genomics proteins) ],
    [ 'tinybird',  0.20, 0.25, qw(chatbot) ],
);
my @USERS = qw(alice bob carol dave erin);

# weight, request, tier, topology, shortest and longest run in hours,
# thousandths of a GPU asked for, price it is thought to pay
my @CLASSES = (
    [ 12, '0.25xT4|L4', 'production_inference', 'any', 1, 10, 250, 0.35 ],
    [ 6, '1xL4|T4', 'production_inference', 'any', 2, 12, 1000, 0.70 ],
    [ 9, '0.5xL4', 'interactive', 'any', 0.3, 4, 500, 0.70 ],
    [ 5, '0.125xT4', 'interactive', 'any', 0.2, 3, 125, 0.35 ],
    [ 5, '4xL4|T4', 'batch_inference', 'node', 0.3, 1.5, 4000, 0.70 ],
    [ 4, '2x*', 'batch_inference', 'any', 0.2, 1.5, 2000, 0.35 ],
    [ 14, '1xA100|H100', 'standard_training', 'any', 0.5, 8, 1000, 1.80 ],
    [ 8, '1x*@40GB', 'standard_training', 'any', 0.5, 6, 1000, 1.80 ],
    [ 8, '2xH100|A100', 'premium_training', 'node', 1, 8, 2000, 3.90 ],
    [ 8, '4xA100|H100', 'standard_training', 'node', 1, 8, 4000, 1.80 ],
    [ 7, '8xH100|A100', 'premium_training', 'nvlink', 1, 6, 8000, 3.90 ],
    [ 5, '16xA100|H100', 'standard_training', 'leaf', 1, 6, 16000, 1.80 ],
    [ 4, '24xA100', 'standard_training', 'any', 1, 5, 24000, 1.80 ],
    [ 4, '0', 'batch_inference', 'any', 0.1, 1, 0, 0 ],
    [ 1, '64xT4', 'batch_inference', 'node', 0.2, 1, 0, 0 ],
);

# Makes the plan.
sub plan
{
    my (%opt) = @_;
    my $count = $opt{jobs} // 1000;
    srand($opt{seed} // 42);

    my @nodes = _nodes($opt{nodes} // 50);
    my @jobs  = map { _job($_) } 1 .. $count;
    my $span  = _spread(\@jobs, \@nodes);
    return {
        name     => "generated workload, seed " . ($opt{seed} // 42),
        epoch    => EPOCH,
        nodes    => \@nodes,
        prices   => [ map { [ $_->[0], $_->[6] ] } @TYPES ],
        tiers    => [],
        accounts => [ _accounts() ],
        events   => [ _credits(\@jobs, $span), _holds($span),
            _maintenance(\@nodes, $span) ],
        budgets  => [ _budgets(\@jobs) ],
        alerts   => [ [ $ORGS[-1][0], '', '500' ] ],
        jobs     => \@jobs,
        mischief => 0.04,
    };
}

# The nodes: each type its share, largest remainder last; eight to a leaf.
sub _nodes
{
    my ($count) = @_;
    my ($made, $share, @nodes) = (0, 0);
    for my $type (@TYPES)
    {
        my ($name, $part, $gpus, $memory, $cpu, $host) = @$type;
        $share += $part;
        my $upto = int($count * $share + 0.5);
        for my $i (1 .. $upto - $made)
        {
            push @nodes, {
                name => sprintf('%s-%03d', lc $name, $i), type => $name,
                gpus => $gpus, gpu_memory_mib => $memory, cpu_milli => $cpu,
                memory_mib => $host,
                leaf => sprintf('%s-leaf-%d', lc $name, ($i - 1) / 8 + 1)
            };
        }
        $made = $upto;
    }
    return @nodes;
}

# One job: whose it is, what it asks for, how it goes.
sub _job
{
    my ($number) = @_;
    my ($org, undef, undef, @projects) = @{ _pick(map { [ $_->[1], $_ ] } @ORGS) };
    my ($request, $tier, $topology, $low, $high, $milli, $price)
        = @{ _pick(map { [ $_->[0], $_ ] } @CLASSES) }[ 1 .. 7 ];
    my $run = int(HOUR * $low * ($high / $low)**rand());
    my %job = (
        org => $org,
        account => "$projects[rand @projects]/$USERS[rand @USERS]",
        key => sprintf('job-%05d', $number), request => $request, tier => $tier,
        topology => $topology, run => $run, milli => $milli, max_retries => 2,
        cpu_milli => 1000 * (1 + int($milli / 250)),
        memory_mib => 2048 * (1 + int($milli / 250)),
        cost => micro(sprintf '%.6f', $price) * $milli / 1000 * $run / HOUR
    );
    if ($tier eq 'production_inference')
    {
        $job{hold_window} = 2 * HOUR;
    }
    else
    {
        $job{wall} = 60 * int($run * 1.3 / 60 + 1);
    }
    _fate(\%job);
    return \%job;
}

# How its attempts end: most complete, the rest shows what else can happen.
sub _fate
{
    my ($job) = @_;
    my $run  = $job->{run};
    my $dice = rand;
    my @done = ('completed', $run);
    if ($dice < 0.06)
    {
        $job->{runs} = [ [ 'failed', int($run * rand) + 1 ], \@done ];
    }
    elsif ($dice < 0.08)
    {
        $job->{runs} = [ [ 'failed', int($run * rand() / 2) + 1 ] ];
    }
    elsif ($dice < 0.11)
    {
        $job->{runs} = [ [ 'out_of_memory', int($run * rand() / 4) + 1 ] ];
    }
    elsif ($dice < 0.14 && $job->{wall})
    {
        $job->{runs} = [ [ 'timeout', $job->{wall} ] ];
    }
    elsif ($dice < 0.20)
    {
        $job->{runs} = [ \@done ];
        $job->{cancel_after} = int($run * 0.8 * rand()) + 1;
    }
    else
    {
        $job->{runs} = [ \@done ];
    }
    return;
}

# Spreads the arrivals over as long as it takes the GPUs, nine tenths busy,
# to do the work, but a day at least; every fifth job comes in a morning rush.
sub _spread
{
    my ($jobs, $nodes) = @_;
    my ($work, $gpus) = (0, 0);
    $work += $_->{milli} / 1000 * $_->{run} for @$jobs;
    $gpus += $_->{gpus} for @$nodes;
    my $span = int($work / $gpus / 0.9);
    $span = 24 * HOUR if $span < 24 * HOUR;
    for my $job (@$jobs)
    {
        my $t = rand $span;
        if (rand() < 0.2)
        {
            my $day = 24 * HOUR * int($t / (24 * HOUR));
            $t = $day + 9 * HOUR + rand HOUR;
        }
        $job->{t} = int $t;
    }
    @$jobs = sort { $a->{t} <=> $b->{t} || $a->{key} cmp $b->{key} } @$jobs;
    return $span;
}

# Every account, parents first.
sub _accounts
{
    my @accounts;
    for my $entry (@ORGS)
    {
        my ($org, undef, undef, @projects) = @$entry;
        push @accounts, [ $org, '' ];
        push @accounts, [ $org, $_ ] for @projects;
        for my $project (@projects)
        {
            push @accounts, map { [ $org, "$project/$_" ] } @USERS;
        }
    }
    return @accounts;
}

# What is bought: by each organisation its credits in three parts over the
# time, a grant for its first project, and promotional credits of which most
# expire unspent.
sub _credits
{
    my ($jobs, $span) = @_;
    my %cost;
    $cost{ $_->{org} } += $_->{cost} for @$jobs;
    my @events;
    for my $entry (@ORGS)
    {
        my ($org, undef, $factor, $first) = @$entry;
        my $part = credits(int(($cost{$org} // 0) * $factor / 3) + 1_000_000);
        for my $i (0 .. 2)
        {
            push @events, [ int($span * $i / 3), 'issue', { org => $org,
                account => '', key => "paid-$i", amount => $part,
                kind => 'paid' } ];
        }
        push @events,
            [ 0, 'issue', { org => $org, account => $first, key => 'grant',
                amount => '50', kind => 'grant' } ],
            [ 0, 'issue', { org => $org, account => '', key => 'promo-welcome',
                amount => '200', kind => 'promo', expires => 3 * HOUR } ],
            [ int($span / 2), 'issue', { org => $org, account => '',
                key => 'promo-midway', amount => '100.5', kind => 'promo',
                expires => int($span / 2) + 6 * HOUR } ];
    }
    return @events;
}

# The monthly budget of each organisation's first project: a part of what its
# jobs cost, so that half of it is passed on the way.  It refuses no job.
sub _budgets
{
    my ($jobs) = @_;
    my %cost;
    for my $job (@$jobs)
    {
        my ($project) = split m{/}, $job->{account};
        $cost{"$job->{org}/$project"} += $job->{cost};
    }
    return map { my ($org, $project) = @{$_}[ 0, 3 ];
        [ $org, $project,
            credits(int(($cost{"$org/$project"} // 0) * 0.6) + 1_000_000) ] } @ORGS;
}

# A caller with a scheduler of its own: hold a is captured in two parts, b is
# released, c stays open to the end, d outlives its time.
sub _holds
{
    my ($span) = @_;
    my @events = (
        [ 1, 'hold',    'a', amount => '12.345678', ttl => 6 * HOUR ],
        [ 2, 'capture', 'a', amount => '5.000001', final => 'false' ],
        [ 3, 'capture', 'a', amount => '2.5', final => 'true' ],
        [ 1, 'hold',    'b', amount => '8', ttl => 2 * HOUR ],
        [ 2, 'release', 'b' ],
        [ 1, 'hold',    'c', amount => '3.25', ttl => 10 * $span ],
        [ 1, 'hold',    'd', amount => '4', ttl => HOUR ],
        [ 3, 'capture', 'd', amount => '1', final => 'true',
            refused => 'UC003' ],
    );
    my @who = (org => 'heliolab', account => 'genomics/alice');
    return map { my ($hour, $kind, $name, @what) = @$_;
        [ $hour * HOUR, $kind, { @who, name => $name, @what } ] } @events;
}

# Two nodes are drained for a while, and one loses a device.
sub _maintenance
{
    my ($nodes, $span) = @_;
    my @events;
    for my $node (@{$nodes}[ 0, int($#$nodes / 2) ])
    {
        push @events, [ int($span * 0.3), 'drain', { node => $node->{name} } ],
            [ int($span * 0.45), 'resume', { node => $node->{name} } ];
    }
    my ($name, $gpus) = @{ $nodes->[-1] }{qw(name gpus)};
    my $healthy = join ',', 0 .. $gpus - 2;
    return @events,
        [ int($span * 0.5), 'heartbeat', { node => $name,
            healthy => "{$healthy}" } ],
        [ int($span * 0.7), 'heartbeat', { node => $name } ];
}

# Picks one of [weight, value] by weight.
sub _pick
{
    my (@choices) = @_;
    my $sum = 0;
    $sum += $_->[0] for @choices;
    my $dice = rand $sum;
    for my $choice (@choices)
    {
        $dice -= $choice->[0];
        return $choice->[1] if $dice < 0;
    }
    return $choices[-1][1];
}

1;
