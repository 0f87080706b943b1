package GpuCreditSoak::Sample;

# Sample.pm - what the server says of itself at the end of a minute
#
# take() returns figures by name.  Those that the server counts from its start
# are turned into what the minute added.  A figure's name is followed by its unit.

use strict;
use warnings;
use GpuCreditSoak::Db;
use Time::HiRes qw(time);

# Tables whose updates should stay on their page, and whose dead rows matter.
my @tables = qw(job attempt bucket hold budget_counter node account_delta account);

sub new
{
	my ($class) = @_;
	my $self = bless { db => connect_db(), was => {} }, $class;

	# a sample must not be what makes the server slow
	$self->{db}->do(q{SET statement_timeout = '20s'});
	$self->measure;
	return $self;
}

sub measure
{
	my ($self) = @_;
	my %now = (%{ $self->_server }, %{ $self->_lags });
	my $count = $self->_counted;

	foreach my $name (keys %$count)
	{
		$now{$name} = $count->{$name} - ($self->{was}{$name} // $count->{$name});
	}
	$self->{was} = $count;
	foreach my $table (@tables)
	{
		my ($all, $hot) = delete @now{ "updates $table", "hot updates $table" };

		$now{"HOT updates of $table, %"} = 100 * $hot / $all if $all;
	}
	if (my $cycles = $now{'cycles'})
	{
		$now{'mean cycle, ms'} = 1000 * delete($now{'seconds in cycles'}) / $cycles;
	}
	return \%now;
}

# What only grows.
sub _counted
{
	my ($self) = @_;
	my %count;

	my $samples = $self->_rows(q{
		SELECT CASE name WHEN 'gpucredit_scheduler_cycles_total' THEN 'cycles'
				ELSE 'seconds in cycles' END AS name, sum(value) AS value
		FROM gpucredit.metric_samples('{scheduler_cycles_total,call_seconds}')
		WHERE name = 'gpucredit_scheduler_cycles_total'
			OR name = 'gpucredit_call_seconds_sum' AND labels ->> 'operation' = 'place'
		GROUP BY 1});
	$count{ $_->{name} } = $_->{value} foreach @$samples;

	foreach my $row (@{ $self->_rows(q{
		SELECT relname, n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables
		WHERE schemaname = 'gpucredit' AND relname = ANY (?)}, \@tables) })
	{
		$count{"updates $row->{relname}"} = $row->{n_tup_upd};
		$count{"hot updates $row->{relname}"} = $row->{n_tup_hot_upd};
	}
	$count{'WAL, MB'} = $self->_value(q{
		SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0') / 1048576});
	$count{'deadlocks'} = $self->_value(q{
		SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()});
	return \%count;
}

# What is as large as it is.
sub _server
{
	my ($self) = @_;
	my %now = (
		'database, MB' => $self->_value(
			'SELECT pg_database_size(current_database()) / 1048576.0'),
		'running jobs' => $self->_value(
			'SELECT count(*) FROM gpucredit.attempt WHERE ended_at IS NULL'),
		'waiting jobs' => $self->_value(
			q{SELECT count(*) FROM gpucredit.job WHERE state IN ('queued', 'unfunded')}),
		'oldest snapshot, s' => $self->_value(q{
			SELECT coalesce(max(extract(epoch FROM clock_timestamp() - xact_start)), 0)
			FROM pg_stat_activity WHERE backend_xmin IS NOT NULL AND pid <> pg_backend_pid()}));

	foreach my $row (@{ $self->_rows(q{
		SELECT relname, n_dead_tup FROM pg_stat_user_tables
		WHERE schemaname = 'gpucredit' AND relname = ANY (?)}, \@tables) })
	{
		$now{"dead rows of $row->{relname}"} = $row->{n_dead_tup};
	}
	$now{'memory of the worker, MB'} = _memory($self->_value(q{
		SELECT pid FROM pg_stat_activity
		WHERE backend_type = 'gpucredit scheduler' AND datname = current_database()}));
	return \%now;
}

# What upkeep has not done yet.
sub _lags
{
	my ($self) = @_;
	my %lag = (
		'unfolded spend, rows' => $self->_value('SELECT count(*) FROM gpucredit.account_delta'),
		'unsealed rows' => $self->_value(
			'SELECT entries_unsealed + audits_unsealed FROM gpucredit.seal_status'),
		'oldest unsealed row, s' => $self->_value(q{
			SELECT extract(epoch FROM clock_timestamp() - a.at) FROM gpucredit.audit a
			WHERE a.audit > coalesce((SELECT max(audit_to) FROM gpucredit.seal), 0)
			ORDER BY a.audit LIMIT 1}),
		'oldest overdue attempt, s' => $self->_value(q{
			SELECT max(extract(epoch FROM clock_timestamp() - coalesce(heard_at, started_at)
				- current_setting('gpucredit.heartbeat_timeout')::interval))
			FROM gpucredit.attempt WHERE ended_at IS NULL
				AND coalesce(heard_at, started_at) < clock_timestamp()
					- current_setting('gpucredit.heartbeat_timeout')::interval}),
		'oldest dead hold, s' => $self->_value(q{
			SELECT extract(epoch FROM clock_timestamp() - min(expires_at))
			FROM gpucredit.hold WHERE closed_at IS NULL AND expires_at < clock_timestamp()}),
		'oldest expired bucket, s' => $self->_value(q{
			SELECT extract(epoch FROM clock_timestamp() - min(expires_at))
			FROM gpucredit.bucket WHERE closed_at IS NULL AND expires_at < clock_timestamp()
				AND available > '0'}),
		'oldest key past its retention, s' => $self->_value(q{
			SELECT greatest(0, extract(epoch FROM clock_timestamp()
				- current_setting('gpucredit.key_retention')::interval - min(at)))
			FROM gpucredit.request}));

	$_ //= 0 foreach values %lag;
	return \%lag;
}

# MB that a process has for itself.
sub _memory
{
	my ($pid) = @_;

	return 0 unless $pid && open(my $file, '<', "/proc/$pid/status");
	local $/;
	return <$file> =~ /^RssAnon:\s+(\d+) kB/m ? $1 / 1024 : 0;
}

sub _rows
{
	my ($self, $sql, @arguments) = @_;

	return eval { $self->{db}->selectall_arrayref($sql, { Slice => {} }, @arguments) } || [];
}

# One value, or nothing where the query was cut off.
sub _value
{
	my ($self, $sql) = @_;

	my ($value) = eval { $self->{db}->selectrow_array($sql) };

	return $value;
}

1;
