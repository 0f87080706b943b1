package GpuCreditDemo::Trace;

# Trace.pm - reads an openb folder (Alibaba cluster-trace-gpu-v2023).
#
# Makes the plan that Replay plays: nodes, prices, accounts, credit events and
# jobs.  The trace has no tenants, prices or wall limits; this file has the
# rules that supply them, and docs/demo.md explains them.  It uses modules of
# perl-base only, so that a bad folder is refused before anything is installed
# or built.

use strict;
use warnings;

my $NODE_FILE   = 'openb_node_list_gpu_node.csv';
my $DEFAULT_PODS = 'openb_pod_list_default.csv';
my @NODE_COLUMNS = qw(sn cpu_milli memory_mib gpu model);
my @POD_COLUMNS  = qw(name cpu_milli memory_mib num_gpu gpu_milli gpu_spec qos
    pod_phase creation_time deletion_time scheduled_time);

# Second 0 of the trace, which gives no date of its own: 2023-01-01 UTC.
use constant EPOCH => 1_672_531_200;
use constant DAY   => 86_400;

# Memory in MiB and price in credits per GPU-hour of each model.  The trace
# hides what G2 and G3 are; their figures are assumptions.
my %MODEL = (
    T4      => [ 16384, '0.350000' ],
    P100    => [ 16384, '0.600000' ],
    A10     => [ 24576, '0.750000' ],
    G2      => [ 24576, '0.900000' ],
    V100M16 => [ 16384, '1.200000' ],
    V100M32 => [ 32768, '1.500000' ],
    G3      => [ 81920, '2.500000' ],
);

# The accounts that own pods.
my @ORGS = (
    [ 'aurora',  qw(search ads maps) ],
    [ 'borealis', qw(vision speech) ],
    [ 'corvus',  qw(ranking fraud pricing) ],
    [ 'delphi',  qw(assistant research) ],
);
my @USERS = qw(ada bo chen dana eli fay);

# qos of a pod: its tier, and what preempts it.
my %TIER = (
    LS         => 'production_inference',
    Guaranteed => 'premium_training',
    Burstable  => 'standard_training',
    BE         => 'batch_inference',
);

# phase of a pod: how its one attempt ends.  A pod that was never scheduled
# is cancelled by its owner when the trace deletes it.
my %OUTCOME = (
    Running   => 'completed',
    Succeeded => 'completed',
    Failed    => 'failed',
    Pending   => 'cancel',
);

# Reads the folder and returns the plan; dies with a clear message.
sub plan
{
    my (%opt) = @_;
    my $dir = $opt{trace};
    -d $dir or die "trace folder \"$dir\" does not exist\n";
    my $pods = $opt{pods} // $DEFAULT_PODS;
    $pods = "$dir/$pods" if $pods !~ m{/};

    my @nodes = _nodes("$dir/$NODE_FILE", $opt{nodes});
    my %present = map { $_->{type} => 1 } @nodes;
    my @jobs = _jobs($pods, $opt{jobs});
    my @accounts = _accounts();
    my $end = 0;
    for my $job (@jobs)
    {
        my $last = $job->{t} + $job->{run};
        $end = $last if $last > $end;
    }
    (my $file = $pods) =~ s{.*/}{};
    return {
        name     => "openb trace, $file",
        epoch    => EPOCH,
        nodes    => \@nodes,
        prices   => [ map { [ $_, $MODEL{$_}[1] ] } sort keys %MODEL ],
        tiers    => _tiers(),
        accounts => \@accounts,
        events   => [ _credits($end) ],
        jobs     => \@jobs,
        mischief => 0,
    };
}

# The node list; with a limit, that many nodes spread evenly over it.
sub _nodes
{
    my ($file, $limit) = @_;
    my @nodes;
    _each_row($file, \@NODE_COLUMNS, sub {
        my ($row, $where) = @_;
        my $model = $MODEL{ $row->{model} }
            or die "$where: unknown GPU model \"$row->{model}\"\n";
        _whole($row, $where, qw(cpu_milli memory_mib gpu));
        $row->{gpu} >= 1 && $row->{gpu} <= 64
            or die "$where: $row->{gpu} GPUs, where 1 to 64 are possible\n";
        push @nodes, {
            name => $row->{sn}, type => $row->{model}, gpus => $row->{gpu},
            gpu_memory_mib => $model->[0], cpu_milli => $row->{cpu_milli},
            memory_mib => $row->{memory_mib}, leaf => undef
        };
    });
    return @nodes if !$limit || $limit >= @nodes;
    my $total = @nodes;
    return map { $nodes[ int($_ * $total / $limit) ] } 0 .. $limit - 1;
}

# The pods as jobs, by creation time; with a limit, the first so many.
sub _jobs
{
    my ($file, $limit) = @_;
    my @jobs;
    _each_row($file, \@POD_COLUMNS, sub {
        my ($row, $where) = @_;
        _whole($row, $where,
            qw(cpu_milli memory_mib num_gpu gpu_milli creation_time deletion_time));
        _whole($row, $where, 'scheduled_time') if $row->{scheduled_time} ne '';
        push @jobs, _job($row, $where);
    });
    @jobs = sort { $a->{t} <=> $b->{t} || $a->{key} cmp $b->{key} } @jobs;
    splice @jobs, $limit if $limit && $limit < @jobs;
    return @jobs;
}

# One pod as a job.
sub _job
{
    my ($pod, $where) = @_;
    my $tier = $TIER{ $pod->{qos} } or die "$where: unknown qos \"$pod->{qos}\"\n";
    my $outcome = $OUTCOME{ $pod->{pod_phase} }
        or die "$where: unknown pod_phase \"$pod->{pod_phase}\"\n";
    my $from = $pod->{scheduled_time};
    $from = $pod->{creation_time} if $from eq '';
    my $run = $pod->{deletion_time} - $from;
    $run >= 0 or die "$where: deleted before it was scheduled\n";
    my ($org, $account) = _owner($pod);
    my %job = (
        t => $pod->{creation_time}, run => $run, org => $org,
        account => $account, key => $pod->{name}, tier => $tier,
        request => _request($pod, $where), cpu_milli => $pod->{cpu_milli},
        memory_mib => $pod->{memory_mib}, topology => 'any', max_retries => 0
    );
    if ($tier eq 'production_inference')
    {
        $job{hold_window} = 7200;       # a service: funded as it goes
    }
    else
    {
        # a quarter more than it runs, and five minutes, in whole minutes
        $job{wall} = 60 * int(($run * 5 / 4 + 300 + 59) / 60);
    }
    if ($outcome eq 'cancel')
    {
        $job{cancel_after} = $run;
        $job{runs} = [ [ 'completed', $run + 86_400 ] ];
        $job{runs}[0][1] = $run + 60 if $job{wall};
    }
    else
    {
        $job{runs} = [ [ $outcome, $run ] ];
    }
    return \%job;
}

# What a pod asks for, in the text form of gpureq.
sub _request
{
    my ($pod, $where) = @_;
    my ($gpus, $milli) = @{$pod}{qw(num_gpu gpu_milli)};
    return '0' if $gpus == 0;
    $gpus <= 64 or die "$where: $gpus GPUs for one pod\n";
    $gpus == 1 || $milli == 1000
        or die "$where: gpu_milli of $milli with $gpus GPUs\n";
    my %seen;
    my @types = grep { !$seen{$_}++ } split /\|/, $pod->{gpu_spec};
    for my $type (@types)
    {
        $MODEL{$type} or die "$where: unknown GPU model \"$type\" in gpu_spec\n";
    }
    my $count = $gpus;
    if ($gpus == 1 && $milli != 1000)
    {
        $milli >= 1 && $milli < 1000
            or die "$where: gpu_milli of $milli, where 1 to 1000 are possible\n";
        $count = sprintf '%.3f', $milli / 1000;
        $count =~ s/0+$//;
    }
    return $count . 'x' . (@types ? join '|', @types : '*');
}

# The owner of a pod.  The shape of a pod chooses the project, because a team's
# pods look alike; the name chooses the user.
sub _owner
{
    my ($pod) = @_;
    my @projects = map { my ($org, @p) = @$_; map { [ $org, $_ ] } @p } @ORGS;
    my $shape = join '/',
        @{$pod}{qw(cpu_milli memory_mib num_gpu gpu_milli qos)};
    my $project = $projects[ hash($shape) % @projects ];
    my $user    = $USERS[ hash($pod->{name}) % @USERS ];
    return ($project->[0], "$project->[1]/$user");
}

# 32-bit FNV-1a of a text.
sub hash
{
    my ($text) = @_;
    my $hash = 2_166_136_261;
    $hash = (($hash ^ $_) * 16_777_619) & 0xffff_ffff for unpack 'C*', $text;
    return $hash ^ ($hash >> 15);
}

# Every account, parents first.
sub _accounts
{
    my @accounts;
    for my $entry (@ORGS)
    {
        my ($org, @projects) = @$entry;
        push @accounts, [ $org, '' ];
        for my $project (@projects)
        {
            push @accounts, [ $org, $project ],
                map { [ $org, "$project/$_" ] } @USERS;
        }
    }
    return @accounts;
}

# Tiers whose default max_wall of hours is too short for this trace.
sub _tiers
{
    my $max = 200 * DAY;
    return [
        [ 'production_inference', 0, 'never', 'true',  $max ],
        [ 'premium_training',  1, 'reclaim',  'true',  $max ],
        [ 'standard_training', 2, 'capacity', 'false', $max ],
        [ 'batch_inference',   3, 'capacity', 'false', $max ],
    ];
}

# What each organisation buys: every 30 days 5,000 paid credits, on the
# first day of each such month 500 promotional ones that expire 10 days
# later, and once a grant of 1,000 to its first project.
sub _credits
{
    my ($end) = @_;
    my @events;
    for my $entry (@ORGS)
    {
        my ($org, $first) = @$entry;
        my $month = 0;
        for (my $t = 0; $t <= $end; $t += 30 * DAY)
        {
            $month++;
            push @events,
                [ $t, 'issue', { org => $org, account => '',
                    key => "paid-$month", amount => '5000', kind => 'paid' } ],
                [ $t, 'issue', { org => $org, account => '',
                    key => "promo-$month", amount => '500', kind => 'promo',
                    expires => $t + 10 * DAY } ];
        }
        push @events, [ 0, 'issue', { org => $org, account => $first,
            key => 'grant', amount => '1000', kind => 'grant' } ];
    }
    return sort { $a->[0] <=> $b->[0] } @events;
}

# Calls a sub with each row of a CSV file as a hash.  The published files
# quote nothing, so a quote is a malformed line.
sub _each_row
{
    my ($file, $columns, $sub) = @_;
    open my $in, '<', $file or die "cannot read \"$file\": $!\n";
    -d $in and die "\"$file\" is a folder, not a CSV file\n";
    my $header = <$in> // die "\"$file\" is empty\n";
    $header =~ s/^\xef\xbb\xbf//;
    $header =~ s/\r?\n\z//;
    my %at;
    my @names = split /,/, $header, -1;
    @at{@names} = 0 .. $#names;
    for my $column (@$columns)
    {
        defined $at{$column}
            or die "\"$file\" has no column \"$column\": not an openb file?\n";
    }
    my ($rows, %seen) = (0);
    while (my $line = <$in>)
    {
        $line =~ s/\r?\n\z//;
        next if $line eq '';
        my $where = "\"$file\", line $.";
        my @fields = split /,/, $line, -1;
        @fields == @names && $line !~ /"/
            or die "$where: malformed, " . @fields . ' fields where the header has '
            . @names . "\n";
        my %row = map { $_ => $fields[ $at{$_} ] } @$columns;
        my $name = $row{ $columns->[0] };
        $name =~ /^[\x21-\x7e]{1,200}$/
            or die "$where: the name is empty, too long or not plain text\n";
        !$seen{$name}++ or die "$where: \"$name\" is there twice\n";
        $sub->(\%row, $where);
        $rows++;
    }
    $rows or die "\"$file\" has no rows\n";
    return;
}

# Dies unless these columns of a row are whole numbers of a sane size.
sub _whole
{
    my ($row, $where, @columns) = @_;
    for my $column (@columns)
    {
        $row->{$column} =~ /^\d{1,9}$/
            or die "$where: $column is \"$row->{$column}\", not a whole number\n"
            . "(of at most nine digits)\n";
    }
    return;
}

1;
