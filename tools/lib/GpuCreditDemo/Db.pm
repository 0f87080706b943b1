package GpuCreditDemo::Db;

# Db.pm - the one place that talks to the server.
#
# One autocommit connection.  Every function of the public interface the demo
# uses is one prepared statement in %SQL; call() runs it, times it and counts
# it.  A call that fails is recorded and returns undef: the replay goes on and
# the report ends with exit status 1.

use strict;
use warnings;
use DBI;
use DBD::Pg;
use POSIX qw(strftime);
use Time::HiRes qw(time);

# The public interface as the demo calls it.
my %SQL = (
    create_account => q{SELECT gpucredit.create_account($1, $2)},
    grant_tier => q{SELECT gpucredit.grant_tier($1, '', $2)},
    set_price      => q{SELECT gpucredit.set_price($1, $2)},
    register_node  => q{SELECT gpucredit.register_node('default', $1, $2, $3,
        $4, $5, $6, leaf => $7)},
    drain     => q{SELECT gpucredit.drain($1, $2)},
    resume    => q{SELECT gpucredit.resume($1)},
    heartbeat => q{SELECT job FROM gpucredit.heartbeat($1, $2::gpucredit.gpuset)},
    set_tier  => q{SELECT gpucredit.set_tier($1, $2, $3, $4,
        max_wall => $5::interval)},
    issue => q{SELECT bucket, replayed FROM gpucredit.issue($1, $2, $3, $4,
        kind => $5, expires_at => $6)},
    set_budget => q{SELECT gpucredit.set_budget($1, $2, $3, hard => false)},
    set_alert  => q{SELECT gpucredit.set_alert($1, $2, $3)},
    balance => q{SELECT available, held, used, spent
        FROM gpucredit.balance($1, $2)},
    buckets => q{SELECT bucket, account, kind, issued, available, held, spent,
        expired, revoked, moved FROM gpucredit.buckets($1, $2)},
    hold => q{SELECT hold, status, reason, held
        FROM gpucredit.hold($1, $2, $3, $4, $5::interval)},
    capture => q{SELECT captured, released
        FROM gpucredit.capture($1, $2, $3, $4, $5)},
    release => q{SELECT released FROM gpucredit.release($1, $2, $3)},
    reserve => q{SELECT job, status, reason, held, replayed
        FROM gpucredit.reserve($1, $2, $3, $4, $5::interval, $6,
        topology => $7, max_retries => $8, cpu_milli => $9, memory_mib => $10,
        hold_window => $11::interval)},
    place => q{SELECT action, org, job, attempt, node, gpus, share, gpu_type,
        per_gpu_hour, reason FROM gpucredit.place()},
    meter => q{SELECT action, reason, billed, held,
        extract(epoch FROM time_left) AS time_left
        FROM gpucredit.meter($1, $2, $3, $4::interval)},
    meter_batch => q{SELECT ordinal, org, job, attempt, action, reason, billed,
        held, extract(epoch FROM time_left) AS time_left
        FROM gpucredit.meter_batch($1, $2, $3, $4)},
    settle => q{SELECT outcome, billed, released, job_state,
        extract(epoch FROM retry_at) AS retry_at, replayed
        FROM gpucredit.settle($1, $2, $3, $4, $5::interval, exit_code => $6)},
    cancel => q{SELECT job_state, replayed
        FROM gpucredit.cancel($1, $2, $3, $4)},
    maintain => q{SELECT affected FROM gpucredit.maintain()},
    report_html => q{SELECT gpucredit.report_html(since => $1) AS page},
    verify   => q{SELECT invariant, org, subject, detail
        FROM gpucredit.verify()},
);

# Connects to where the PG* environment points and prepares the session for
# simulated time.
sub new
{
    my ($class) = @_;
    my $dbh = DBI->connect("dbi:Pg:", undef, undef,
        {
            AutoCommit => 1, RaiseError => 1, PrintError => 0, PrintWarn => 0,
            pg_enable_utf8 => 0
        });
    my $self = bless {
        dbh => $dbh, epoch => 0, clock => undef, sth => {}, stats => {},
        failures => [], failed => 0, notices => 0
    }, $class;
    $dbh->do($_)
        for 'SET client_min_messages = warning',
        'SELECT gpucredit.now()';       # loads the library and its settings
    $self->set(@$_)
        for [ 'TimeZone', 'UTC' ], [ 'gpucredit.node_suspect', 0 ],
        [ 'gpucredit.node_lost', 0 ];
    $self->{pid} = $dbh->{pg_pid};
    return $self;
}

# Sets a setting for this session.
sub set
{
    my ($self, $name, $value) = @_;
    $self->{dbh}->do('SELECT set_config(?, ?, false)', undef, $name, $value);
    $self->{settings}{$name} = $value;
    return;
}

# Makes this session's settings, and the present second of simulated time,
# those of the database, so that later sessions see the same.
sub keep_settings
{
    my ($self) = @_;
    my $dbh  = $self->{dbh};
    my %kept = (%{ $self->{settings} },
        'gpucredit.clock' => $self->timestamp($self->{clock}));
    my ($database) = $dbh->selectrow_array('SELECT current_database()');
    $dbh->do(sprintf 'ALTER DATABASE %s SET %s = %s',
        $dbh->quote_identifier($database), $_, $dbh->quote($kept{$_}))
        for sort keys %kept;
    return;
}

# The second of simulated time that offset 0 stands for.
sub set_epoch
{
    my ($self, $epoch) = @_;
    $self->{epoch} = $epoch;
    return;
}

# A second of simulated time as a timestamptz.
sub timestamp
{
    my ($self, $second) = @_;
    return strftime('%Y-%m-%d %H:%M:%S+00', gmtime($self->{epoch} + $second));
}

# Moves the server's clock, as this session sees it, to a simulated second.
sub set_clock
{
    my ($self, $second) = @_;
    return if defined $self->{clock} && $self->{clock} == $second;
    $self->{clock} = $second;
    my $sth = $self->{sth}{' clock'} //= $self->{dbh}
        ->prepare(q{SELECT set_config('gpucredit.clock', $1, false)});
    $sth->execute($self->timestamp($second));
    $sth->finish;
    return;
}

# Calls a function of the public interface.  Returns its rows as hashes, or
# undef when it failed.
sub call
{
    my ($self, $name, @args) = @_;
    my $started = time;
    my $rows    = eval { $self->_run($name, \@args) };
    my $stat    = $self->{stats}{$name} //= { calls => 0, seconds => 0, max => 0 };
    my $took    = time - $started;
    $stat->{calls}++;
    $stat->{seconds} += $took;
    $stat->{max} = $took if $took > $stat->{max};
    if (!$rows)
    {
        my $failure = { function => $name, args => \@args,
            state => $self->{dbh}->state // '', error => $@ };
        $self->{last_failure} = $failure;
        # A lost server does not come back: stop, and say why.
        die "$name: $@" if !$self->{dbh}->ping;
        $self->{failed}++;
        push @{ $self->{failures} }, $failure if @{ $self->{failures} } < 20;
    }
    return $rows;
}

# Calls a function that must be refused with one SQLSTATE; true when it was.
sub refused
{
    my ($self, $state, $name, @args) = @_;
    my $before = $self->{failed};
    my $kept   = @{ $self->{failures} };
    my $rows   = $self->call($name, @args);
    return 0 if $rows || $self->{last_failure}{state} ne $state;
    $self->{failed} = $before;
    splice @{ $self->{failures} }, $kept;
    return 1;
}

# Runs one prepared statement.
sub _run
{
    my ($self, $name, $args) = @_;
    my $sth = $self->{sth}{$name} //= $self->{dbh}->prepare($SQL{$name});
    $sth->execute(@$args);
    return $sth->fetchall_arrayref({});
}

# Memory of the backend in kB: resident, of that its own, and what its memory
# contexts have.  (What it shares is PostgreSQL's buffer cache, counted as it is
# touched.)
sub memory
{
    my ($self) = @_;
    my %kb = (VmRSS => 0, RssAnon => 0);
    if (open my $status, '<', "/proc/$self->{pid}/status")
    {
        while (my $line = <$status>)
        {
            $kb{$1} = $2 if $line =~ /^(VmRSS|RssAnon):\s+(\d+)/;
        }
        close $status;
    }
    my ($contexts) = $self->{dbh}->selectrow_array(
        'SELECT sum(total_bytes) / 1024 FROM pg_backend_memory_contexts');
    return ($kb{VmRSS}, $kb{RssAnon}, $contexts);
}

# Ends the session.
sub disconnect
{
    my ($self) = @_;
    $_->finish for values %{ $self->{sth} };
    $self->{dbh}->disconnect;
    return;
}

1;
