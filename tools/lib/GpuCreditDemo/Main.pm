package GpuCreditDemo::Main;

# Main.pm - from the options of tools/demo to the exit status.
#
# "check" only reads the trace and needs nothing but perl-base: the shell calls
# it before it installs anything.  "run" plays the plan against the server that
# the PG* environment names.

use strict;
use warnings;
use GpuCreditDemo::Trace;
use GpuCreditDemo::Workload;

# How long before its credit runs out a service's hold is extended.  It is more
# than an hour, because the demo's agents report once an hour.
use constant EXTEND_AHEAD => '65min';

# Runs what the shell asks for; returns the exit status.
sub main
{
    my ($mode, %opt) = @_;
    my $plan = eval { $opt{trace} ? GpuCreditDemo::Trace::plan(%opt)
        : GpuCreditDemo::Workload::plan(%opt) };
    if (!$plan)
    {
        print STDERR "demo: $@";
        return 2;
    }
    return 0 if $mode eq 'check';

    my $status = eval { _play($plan, $opt{keep}, $opt{report}) };
    return $status if defined $status;
    print STDERR "\ndemo: $@";
    return 1;
}

# Plays a plan and reports.
sub _play
{
    my ($plan, $keep, $file) = @_;
    require GpuCreditDemo::Db;
    require GpuCreditDemo::Progress;
    require GpuCreditDemo::Replay;
    require GpuCreditDemo::Report;

    my $db = GpuCreditDemo::Db->new;
    $db->set('gpucredit.exhaust_grace', EXTEND_AHEAD);
    my $replay = GpuCreditDemo::Replay->new(plan => $plan, db => $db,
        stop => $keep, progress => GpuCreditDemo::Progress->new('replay'));
    print "Replaying the $plan->{name}: ", scalar @{ $plan->{nodes} },
        ' nodes, ', scalar @{ $plan->{jobs} }, " jobs, in simulated time.\n",
        'Heartbeats of nodes are not simulated: node_suspect and node_lost ',
        "are off.\n";
    $replay->set_up;
    $replay->run;
    my $locale = $ENV{LC_ALL} || $ENV{LC_CTYPE} || $ENV{LANG} || '';
    my $report = GpuCreditDemo::Report->new(plan => $plan, db => $db,
        replay => $replay, unicode => scalar $locale =~ /utf-?8/i);
    my $good = $report->print_all;
    $good = 0 if $file && !_write_page($db, $file);
    _stop_to_browse($plan, $db, $replay) if $keep;
    $db->disconnect;
    return $good ? 0 : 1;
}

# Writes the report as a page for a browser, and says where; false if that
# failed.
sub _write_page
{
    my ($db, $file) = @_;
    my $rows = $db->call('report_html', $db->timestamp(0));
    my $out;
    if (!$rows || !open($out, '>', $file) || !print({$out} $rows->[0]{page})
        || !close($out))
    {
        print STDERR "demo: could not write the report to $file: $!\n";
        return 0;
    }
    print "\nThe report, for a browser: $file\n";
    return 1;
}

# Leaves the cluster as it is at this second, and prints what to look at.
sub _stop_to_browse
{
    my ($plan, $db, $replay) = @_;
    my $org  = $plan->{accounts}[0][0];
    my $runs = $replay->{fleet}->running;
    my $end  = $db->timestamp($replay->{now});
    my $left = $replay->waiting;
    $db->keep_settings;
    print <<"EOF";

The replay stopped at $end: $runs jobs run, $left wait.
There the clock stands, for every session of the database. To look around, in psql:
    SELECT * FROM gpucredit.cluster_map(width => 84);
    SELECT org, job, request, waits, reason FROM gpucredit.queue();
    SELECT * FROM gpucredit.burn_rate();
    SELECT * FROM gpucredit.budgets('$org', '$plan->{accounts}[1][1]');
    SELECT * FROM gpucredit.statement('$org') LIMIT 20;
EOF
    return;
}

1;
