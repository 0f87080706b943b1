package GpuCreditDemo::Cells;

# Cells.pm - the demo's workload over three cells in two regions.
#
# Plays the plan through a router.  In the middle an organisation moves while
# another client of it works; at the end a region is cut off for an hour, with
# credit leased to it, and comes back.  Exit status 0: every book balances.

use strict;
use warnings;
use DBI;
use POSIX ();
use Time::HiRes qw(time sleep);
use GpuCreditDemo::CellsDb;
use GpuCreditDemo::Progress;
use GpuCreditDemo::Replay;
use GpuCreditDemo::Report;
use GpuCreditDemo::Workload;

use constant HOUR => 3600;

# cells: "name=host:port" each; jobs, nodes, seed as tools/demo has them.
sub main
{
    my ($cells, %opt) = @_;
    my %cells = map { /^(\w+)=(.+):(\d+)$/ ? ($1 => [ $2, $3 ]) : () }
        split / /, $cells;
    my $plan = GpuCreditDemo::Workload::plan(%opt);
    my $self = bless { plan => $plan, bad => 0, visited => {} };
    my ($end) = sort { $b <=> $a } map { $_->{t} } @{ $plan->{jobs} };
    $self->{move_at} = $end / 2;
    my $db = $self->{db} = GpuCreditDemo::CellsDb->new(cells => \%cells,
        on_clock => sub { $self->_on_clock(@_) });
    $db->set('gpucredit.exhaust_grace', '65min');
    my $replay = $self->{replay} = GpuCreditDemo::Replay->new(plan => $plan,
        db => $db, progress => GpuCreditDemo::Progress->new('replay'));
    printf "Replaying the %s over %d cells: %d nodes, %d jobs.\n",
        $plan->{name}, scalar keys %cells, scalar @{ $plan->{nodes} },
        scalar @{ $plan->{jobs} };
    $replay->set_up;
    $replay->run;
    my $report = GpuCreditDemo::Report->new(plan => $plan, db => $db,
        replay => $replay, unicode => 0);
    $self->_check($report->print_all, 'the replay\'s own checks hold');
    $self->_cut_off;
    $self->_books;
    return $self->{bad} ? 1 : 0;
}

sub _check
{
    my ($self, $good, $what) = @_;
    printf "  %s  %s\n", $good ? 'ok ' : 'BAD', $what;
    $self->{bad}++ if !$good;
    return;
}

# Simulated time goes on: once, half way, an organisation moves first.  Each
# hour, nodes that its attempts have left take work again.
sub _on_clock
{
    my ($self, $db, $second) = @_;
    if (!$self->{moved} && $second >= $self->{move_at})
    {
        $self->{moved} = 1;
        $self->_move;
    }
    return if $second < ($self->{looked} // 0) + HOUR;
    $self->{looked} = $second;
    for my $node (sort keys %{ $self->{visited} })
    {
        my $at = $self->{visited}{$node};
        next if @{ $db->at_cell($at, q{SELECT FROM gpucredit.attempt_gpu
            WHERE node = ? AND ended_at IS NULL}, $node) };
        delete $self->{visited}{$node};
        $db->call('resume', $node);
    }
    return;
}

# The organisation with the most running attempts moves; a client of it works.
sub _move
{
    my ($self) = @_;
    my $db = $self->{db};
    my ($org, $from, $most) = ('', '', -1);
    for my $name (sort keys %{ $db->{home} })
    {
        my $cell = $db->{home}{$name};
        my $runs = $db->at_cell($cell, q{SELECT count(*) AS n FROM gpucredit.attempt
            WHERE org = ? AND ended_at IS NULL}, $name)->[0]{n};
        ($org, $from, $most) = ($name, $cell, $runs) if $runs > $most;
    }
    my ($to) = grep { $_ ne $from } reverse @{ $db->{names} };
    my $client = $self->_client($org);
    sleep 0.3;
    my $mover = _connect();
    my $good  = eval {
        $mover->do('CALL gpucredit_cells.move_org(?, ?, ?)', undef, $org, $to,
            'demo move');
        1;
    };
    print STDERR $@ if !$good;
    kill 'TERM', $client->{pid};
    waitpid $client->{pid}, 0;
    my ($seconds) = $mover->selectrow_array(q{SELECT extract(epoch FROM
        switched_at - frozen_at) FROM gpucredit_cells.move WHERE key = 'demo move'});
    my ($calls, $slowest, $failed) = split ' ', readline($client->{said}) // '0 0 1';
    $self->{visited} = { map { $_->{node} => $to }
        @{ $db->at_cell($to, 'SELECT node FROM gpucredit_cells.guest_node') } };
    $db->{home}{$org} = $to;
    printf "\n\nMoved %s from cell %s to cell %s with %d running attempts: frozen for %.2f s.\n",
        $org, $from, $to, $most, $seconds // -1;
    printf "  a client of it made %d calls meanwhile, the slowest in %.2f s\n",
        $calls, $slowest;
    $self->_check($good, 'it moved');
    $self->_check($calls > 0 && !$failed, 'no call of its client failed');
    return;
}

# A client that holds and releases until it is told to stop, and then says how
# many calls it made, how long the slowest took, and how many failed.
sub _client
{
    my ($self, $org) = @_;
    pipe my $said, my $say or die "pipe: $!\n";
    my $pid = fork() // die "fork: $!\n";
    return { pid => $pid, said => $said } if $pid;
    $_->{AutoInactiveDestroy} = 1
        for $self->{db}{dbh}, values %{ $self->{db}{cells} };
    my ($stop, $calls, $slowest, $failed) = (0, 0, 0, 0);
    local $SIG{TERM} = sub { $stop = 1 };
    my $dbh = _connect();
    while (!$stop)
    {
        my $started = time;
        my $done = eval {
            my ($hold) = $dbh->selectrow_array(q{SELECT hold FROM
                gpucredit.hold(?, '', ?, 0.000001, '1 hour')}, undef, $org,
                "client $calls");
            $dbh->do('SELECT gpucredit.release(?, ?, ?)', undef, $org, $hold,
                "client $calls back") if defined $hold;
            1;
        };
        print STDERR $@ if !$done;
        $failed++ if !$done;
        $calls++;
        $slowest = time - $started if time - $started > $slowest;
        sleep 0.02;
    }
    syswrite $say, "$calls $slowest $failed\n";
    POSIX::_exit(0);
}

sub _connect
{
    return DBI->connect('dbi:Pg:', undef, undef, { RaiseError => 1, PrintError => 0 });
}

# Region us has leased credit; nobody can reach it for an hour.
sub _cut_off
{
    my ($self) = @_;
    my $db  = $self->{db};
    my ($us)  = $db->{names}[-1];
    my ($org) = grep { $db->{home}{$_} ne $us } sort keys %{ $db->{home} };
    my $home  = $db->{home}{$org};
    my $now   = $self->{replay}{now};
    print "\nRegion of cell $us spends credit of $org, whose home is cell $home.\n";
    $db->at_cell($home, q{SELECT gpucredit.issue(?, '', 'for the other region', 100)}, $org);
    my $lease = $db->at_cell($home, q{SELECT status, amount FROM
        gpucredit_cells.lease(?, '', ?, 'demo lease', 40, '30 min')}, $org, $us)->[0];
    $self->_check($lease->{status} eq 'granted', "40 credits are leased for 30 minutes");
    $self->_carry;
    my $spend = sub {
        my ($key, $amount) = @_;
        my $hold = $db->at_cell($us, q{SELECT hold, status FROM
            gpucredit.hold(?, '', ?, ?, '10 min')}, $org, $key, $amount)->[0];
        $db->at_cell($us, 'SELECT gpucredit.capture(?, ?, ?, ?)', $org,
            $hold->{hold}, "$key spent", $amount) if $hold->{status} eq 'granted';
        return $hold->{status};
    };
    $self->_check($spend->('with both', 10) eq 'granted', 'it spends 10 of them');

    $self->_peers('NOLOGIN');
    $db->set_clock($now + 10 * 60);
    $self->_carry;
    $self->_check($spend->('cut off', 25) eq 'granted', 'cut off, it spends 25 more');
    $self->_check($spend->('too much', 10) eq 'denied', '... and not 10 more than it has');
    $db->set_clock($now + HOUR);
    $self->_carry;
    $self->_check($spend->('too late', 1) eq 'denied', 'after the lease it spends nothing');
    my $held = $db->at_cell($home, q{SELECT sum(home.held) AS held FROM
        gpucredit.hold home WHERE org = ? AND closed_at IS NULL AND job IS NULL}, $org)->[0]{held};
    $self->_check(($held // 0) > 0, 'home gives nothing back that may be spent there');

    $self->_peers('LOGIN');
    $self->_carry for 1 .. 4;
    my $row = $db->at_cell($home, q{SELECT spent, given_back, closed_at IS NOT NULL AS closed
        FROM gpucredit_cells.lease_out WHERE org = ?}, $org)->[0];
    $self->_check($row->{spent} == 35 && $row->{closed},
        "it is back: home captured $row->{spent}, and $row->{given_back} came back");
    return;
}

sub _peers
{
    my ($self, $may) = @_;
    for my $dbh (values %{ $self->{db}{cells} })
    {
        $dbh->do("ALTER ROLE gpucredit_peer $may");
        $dbh->do(q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity
            WHERE usename = 'gpucredit_peer'});
    }
    return;
}

# All cells send what they have.
sub _carry
{
    my ($self) = @_;
    for my $round (1, 2)
    {
        $self->{db}->at_cell($_, 'SELECT * FROM gpucredit_cells.carry()')
            for @{ $self->{db}{names} };
    }
    return;
}

# Every cell's books, and those of all together.
sub _books
{
    my ($self) = @_;
    my $db = $self->{db};
    print "\nThe books of all cells\n";
    for my $cell (@{ $db->{names} })
    {
        my $rows = $db->at_cell($cell, 'SELECT * FROM gpucredit.verify()');
        print "    $_->{invariant} $_->{org} $_->{subject}: $_->{detail}\n" for @$rows;
        $self->_check(!@$rows, "verify() is empty in cell $cell");
        $db->at_cell($cell, 'SELECT gpucredit.seal_audit()') for 1, 2;
    }
    my $first = $db->{names}[0];
    my $rows  = $db->at_cell($first, 'SELECT * FROM gpucredit_cells.verify_cells()');
    print "    $_->{problem} $_->{org} $_->{subject}: $_->{detail}\n" for @$rows;
    $self->_check(!@$rows, 'verify_cells() is empty');
    printf "  %-4s %13s %13s %13s %13s %13s  %s\n",
        qw(cell issued available held+leased spent expired root);
    my (%sum, $off);
    for my $row (@{ $db->at_cell($first, 'SELECT *, (issued - available - held - leased'
            . ' - spent - expired - revoked) AS off FROM gpucredit_cells.cell_sums()') })
    {
        $_ //= 0 for @{$row}{qw(issued available held leased spent expired off)};
        printf "  %-4s %13s %13s %13s %13s %13s  %s\n", $row->{cell}, $row->{issued},
            $row->{available}, $row->{held} + $row->{leased}, $row->{spent},
            $row->{expired}, substr $row->{seal_root} // '', 0, 12;
        $off += abs $row->{off};
    }
    $self->_check($off == 0, 'over all cells not a micro-credit is missing');
    return;
}

1;
