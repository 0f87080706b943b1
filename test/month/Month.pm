# Month.pm: weeks of a cluster in which everything fails now and then
#
#   my $month = Month->new($dbh, seed => 1, jobs => 10000, days => 30);
#   $month->run;                  # dies where a promise is broken
#   $month->report;               # lines of what happened
#
# Time is simulated (gpucredit.clock) in steps of five minutes, with the
# settings that count seconds stretched to fit.  Two pools share the quotas of
# four organisations.  Machines, devices, agents and networks fail, spot nodes
# are taken back one by one and in storms, nodes are drained, jobs cancelled.
# After every cycle the harness compares the decisions with what really runs
# (Fleet.pm), with what the server was told, and with the invariants of every
# cycle (Promises.pm).  At the end nothing fails any more, credit is bought,
# and every job must end.
package Month;

use strict;
use warnings;

use Dice;
use Fleet;
use Promises;
use Wire;
use POSIX qw(strftime);

use constant {
	STEP  => 300,
	START => 1_830_297_600,		# 2028-01-01
	DAY   => 86_400,
	QUOTA => 60,
};

my %policy = (
	east => '{}',
	west => '{"reclaim": true, "consolidate": true}');

my %settings = (
	node_suspect  => '11min', node_lost   => '40min', heartbeat_timeout => '90min',
	stop_grace    => '15min', progress_timeout => '0',     clock_skew => '10min',
	exhaust_grace => '20min', checkpoint_bandwidth => '2000000000');

sub new
{
	my ($class, $dbh, %option) = @_;
	my $dice  = Dice->new($option{seed});
	my $wire  = Wire->new($dbh, $dice);
	my $fleet = Fleet->new(
		dice      => $dice, wire => $wire, now => START,
		node_lost => 2400,  count => {});

	my %jobs;

	return bless {
		dbh      => $dbh,
		dice     => $dice,
		wire     => $wire,
		fleet    => $fleet,
		promises => Promises->new(
			wire => $wire, fleet => $fleet, jobs => \%jobs,
			reclaims => { west => 1 }, count => $fleet->{count}),
		count => $fleet->{count},
		now   => START,
		nodes => 18,
		%option,
		jobs_by => \%jobs,
		later   => [],
		keys    => 0,
		started => {},
	}, $class;
}

sub run
{
	my ($self) = @_;
	my $end = START + $self->{days} * DAY;

	$self->_set_up;
	while ($self->{now} < $end)
	{
		$self->_tick($self->_arrivals($end));
		$self->_verify if ($self->{now} - START) % DAY == 0;
	}
	$self->_recover;
	foreach my $n (1 .. 40 * DAY / STEP)
	{
		$self->_tick(0);
		next if $n % 12;
		last unless $self->_open_jobs;
	}
	$self->_judge_end;
	return;
}

sub _tick
{
	my ($self, $arrivals) = @_;

	$self->{fleet}{now} = $self->{now} += STEP;
	$self->_clock;
	$self->_submit foreach 1 .. $arrivals;
	$self->_faults if $self->{wire}{bad};
	$self->{fleet}->step;
	$self->_sweep;
	$self->_cycle($_) foreach qw(east west);
	return;
}

sub _clock
{
	my ($self) = @_;

	$self->{wire}->call("SELECT set_config('gpucredit.clock', ?, false)",
		strftime('%Y-%m-%d %H:%M:%S+00', gmtime($self->{now})));
	return;
}

sub _set_up
{
	my ($self) = @_;
	my $wire = $self->{wire};

	$wire->call("SELECT set_config('gpucredit.$_', ?, false)", $settings{$_})
	  foreach sort keys %settings;
	$self->_clock;
	$wire->call('SELECT gpucredit.create_pool(?, ?)', $_, $policy{$_})
	  foreach sort keys %policy;
	$wire->call('SELECT gpucredit.set_price(?, ?)', @$_)
	  foreach [ 'A', 2 ], [ 'B', 1 ];
	$wire->call("SELECT gpucredit.set_price('A', 1, spot => true)");
	foreach my $org (qw(alpha beta gamma delta))
	{
		$wire->call('SELECT gpucredit.create_account(?)', $org);
		$wire->call('SELECT gpucredit.grant_tier(?, ?, ?)', $org, '', $_)
		  foreach qw(production_inference premium_training);
		$wire->call('SELECT gpucredit.create_account(?, ?)', $org, $_)
		  foreach qw(one two);
		$wire->call('SELECT gpucredit.issue(?, ?, ?, ?)',
			$org, '', 'first', $org eq 'delta' ? 200 : 100_000);
		$wire->call('SELECT gpucredit.set_quota(?, ?, max_gpus => ?)',
			$org, '', QUOTA);
	}
	foreach my $n (1 .. $self->{nodes})
	{
		$self->{fleet}->add_node(
			name => sprintf('n%02d', $n),
			pool => $n % 3 ? 'east' : 'west',
			type => $n % 3 && $n % 2 ? 'A' : 'B',
			gpus => 8,
			leaf => 'l' . ($n % 4),
			mute => $n % 6 == 2,
			spot => $n % 5 == 0);
	}
	return;
}

sub _arrivals
{
	my ($self, $end) = @_;
	my $left  = $self->{jobs} - $self->{keys};
	my $steps = ($end - $self->{now}) / STEP;

	return $left if $steps <= 1;
	my $mean = int(1000 * $left / $steps);

	# in bursts, as people submit
	return $self->{dice}->once_in(4)
	  ? int(4 * $mean / 1000) + ($self->{dice}->below(1000) < 4 * $mean % 1000)
	  : 0;
}

sub _submit
{
	my ($self) = @_;
	my $dice = $self->{dice};
	my $pool = $dice->pick(qw(east west));
	my $gpus = $dice->pick(1, 1, 1, 2, 2, 4, 8, 16, '2-8');
	my $work = STEP * $dice->pick(2, 3, 6, 12, 24, 60);
	my $tier = $dice->pick(qw(standard_training standard_training
		  batch_inference production_inference));
	my $wall = $dice->once_in(12) ? int($work / 2) : 3 * $work + 1800;
	my $org  = $dice->pick(qw(alpha beta gamma delta));
	my $key  = 'job ' . ++$self->{keys};

	$wall = 7200 if $tier eq 'batch_inference' && $wall > 7200;
	$wall = 82_800 if $wall > 82_800;
	my @call = (
		'SELECT * FROM gpucredit.reserve(?, ?, ?, ?, make_interval(secs => ?),'
		  . ' tier => ?, pool => ?, max_retries => 20, hold_window => ?::interval,'
		  . ' spec => ?)',
		$org, $dice->pick('', 'one', 'two'), $key,
		"${gpus}x" . $dice->pick('A|B', 'B', '*'), $wall, $tier, $pool,
		$dice->once_in(4) ? '1 h' : undef,
		$dice->pick('{}', '{"checkpoint_every": "20 min"}',
			'{"checkpoint_bytes": 50000000000}'));
	my $row = $self->{wire}->call(@call)->[0];

	# a client without an answer repeats the call
	if ($dice->once_in(20))
	{
		my $again = $self->{wire}->call(@call)->[0];

		die "$key: another answer to the same question\n"
		  if ($again->{job} // 0) != ($row->{job} // 0) || !$again->{replayed};
	}
	$self->{count}{"reserve $row->{status} " . ($row->{reason} // '')}++;
	return unless $row->{status} eq 'granted';
	$self->{jobs_by}{ $row->{job} } = {
		org => $org, job => $row->{job}, gpus => $gpus, work => $work,
		tier => $tier, pool => $pool, attempt => 0,
		submitted => $self->{now} };
	push @{ $self->{later} },
	  [ $self->{now} + $dice->between(STEP, 20 * STEP), 'cancel',
		$org, $row->{job} ]
	  if $dice->once_in(40);
	return;
}

# Starts failures, and ends some
sub _faults
{
	my ($self) = @_;
	my ($dice, $now) = @$self{qw(dice now)};
	my @due = grep { $_->[0] <= $now } @{ $self->{later} };

	$self->{later} = [ grep { $_->[0] > $now } @{ $self->{later} } ];
	$self->_due(@$_[ 1 .. $#$_ ]) foreach @due;
	foreach my $name (sort keys %{ $self->{fleet}{nodes} })
	{
		my $node = $self->{fleet}{nodes}{$name};

		$self->_break($node, 'machine') if $node->{up} && $dice->once_in(700);
		$self->_break($node, 'agent') if $node->{agent} && $dice->once_in(500);
		$self->_break($node, 'network')
		  if $node->{reachable} && $dice->once_in(300);
		$self->_break($node, 'device') if $dice->once_in(500);
		$self->_break($node, 'drain')
		  if !$node->{drained} && $dice->once_in(1500);
		$self->_break($node, 'reclaim')
		  if $node->{spot} && !$node->{reclaimed} && $dice->once_in(700);
	}
	if ($dice->once_in(300))
	{
		$self->{count}{'storm'}++;
		foreach my $name (sort keys %{ $self->{fleet}{nodes} })
		{
			my $node = $self->{fleet}{nodes}{$name};

			$self->_break($node, 'reclaim')
			  if $node->{spot} && !$node->{reclaimed};
		}
	}
	return;
}

sub _break
{
	my ($self, $node, $what) = @_;
	my ($dice, $now) = @$self{qw(dice now)};
	my $until  = $now + $dice->between(1, 40) * STEP;
	my $device = $dice->below($node->{gpus});

	$self->{count}{"fault $what"}++;
	if ($what eq 'machine')
	{
		$node->{up} = 0;
		$self->{fleet}->kill_all($node);
	}
	elsif ($what eq 'agent')   { $node->{agent}     = 0; }
	elsif ($what eq 'network') { $node->{reachable} = 0; }
	elsif ($what eq 'device')  { $node->{broken}{$device} = 1; }
	elsif ($what eq 'drain')
	{
		$node->{drained} = 1;
		$self->{wire}->call(
			'SELECT gpucredit.drain(?, ?, gpucredit.now() + make_interval(secs => ?))',
			$node->{name}, 'repair', $dice->pick(undef, 1800));
	}
	elsif ($what eq 'reclaim')
	{
		my $notice = $dice->pick(0, STEP, 2 * STEP, 6 * STEP);

		$self->{wire}->call(
			'SELECT gpucredit.reclaim(?, make_interval(secs => ?))',
			$node->{name}, $notice);
		$node->{reclaimed} = $now + $notice;
		$self->_due('take', $node->{name}) if $notice == 0;
		push @{ $self->{later} }, [ $now + $notice, 'take', $node->{name} ];
		$until += $notice;
	}
	push @{ $self->{later} }, [ $until, "mend $what", $node->{name}, $device ];
	return;
}

sub _due
{
	my ($self, $what, @args) = @_;
	my $node = $self->{fleet}{nodes}{ $args[0] };

	if ($what eq 'cancel')
	{
		$self->{wire}->call('SELECT * FROM gpucredit.cancel(?, ?, ?)',
			@args, "cancel $args[1]");
		$self->{count}{cancelled}++;
	}
	elsif ($what eq 'take')
	{
		$node->{up} = 0;
		$self->{fleet}->kill_all($node);
	}
	elsif ($what eq 'mend device') { delete $node->{broken}{ $args[1] }; }
	elsif ($what eq 'mend agent')
	{
		$node->{agent} = 1;
	}
	elsif ($what eq 'mend network') { $node->{reachable} = 1; }
	elsif ($what eq 'mend drain')
	{
		$self->{wire}->call('SELECT gpucredit.resume(?)', $node->{name});
		delete @$node{qw(drained reclaimed)} if $node->{up};
		delete $node->{drained};
	}
	elsif ($node->{reclaimed} && $what eq 'mend machine')
	{
		# its provider has taken it back, which also ends the failure
	}
	else
	{
		$node->{up} = $node->{agent} = 1;
		$self->{fleet}->register($node);
	}
	return;
}

# Sweeps run at irregular times, sometimes not for an hour.
sub _sweep
{
	my ($self) = @_;
	my $dice = $self->{dice};

	foreach my $sweep (qw(check_nodes reap_holds expire_credits maintain))
	{
		next unless $dice->once_in(3);
		foreach my $row (
			@{ $self->{wire}->call("SELECT * FROM gpucredit.$sweep()") })
		{
			$self->{count}{"sweep $row->{task}"} += $row->{affected};
		}
	}
	return;
}

# One cycle of a pool, and the check of its invariants
sub _cycle
{
	my ($self, $pool) = @_;
	my $rows = $self->{wire}->call(
		'SELECT *, gpucredit.gpuset_to_array(gpus) AS devices'
		  . ' FROM gpucredit.place(?)', $pool);
	my %starts;

	$self->{count}{cycles}++;
	foreach my $row (@$rows)
	{
		$self->{count}{"place $row->{action}"}++;
		push @{ $starts{"$row->{org}/$row->{job}/$row->{attempt}"} }, $row
		  if $row->{action} eq 'start';
	}
	die "$pool: somebody was told to leave for no claim and no growth\n"
	  if (grep { $_->{action} eq 'preempt' } @$rows)
	  && !grep { $_->{action} eq 'claim'
		  || $_->{action} eq 'resize' && $_->{reason} eq 'grow' } @$rows;
	$self->_check_start($_, @{ $starts{$_} }) foreach sort keys %starts;
	$self->_check_quotas if %starts;
	$self->{promises}->check($pool, $self->{now}, $rows, \%starts);
	return;
}

sub _check_start
{
	my ($self, $key, @rows) = @_;
	my ($org, $id, $number) = $key =~ m{^(.*)/(\d+)/(\d+)$};
	my $job   = $self->{jobs_by}{$id} or die "$key: no such job\n";
	my ($least, $most) = split /-/, $job->{gpus};
	my $total = 0;

	die "$key comes after attempt $job->{attempt}\n"
	  if $number != $job->{attempt} + 1;
	die "$key runs already: @{[ $self->{fleet}->where_runs($org, $id) ]}",
	  $self->_story("$org/$id/@{[ $number - 1 ]}")
	  if $self->{fleet}->where_runs($org, $id);
	foreach my $row (@rows)
	{
		$self->_check_part($key, $row);
		$total += @{ $row->{devices} };
	}
	die "$key got $total devices of $job->{gpus}\n"
	  if $total < $least || $total > ($most // $least);
	die "$key got devices of several types\n"
	  if grep { $_->{gpu_type} ne $rows[0]{gpu_type} } @rows;
	$job->{attempt} = $number;
	$job->{started} //= $self->{now};
	$self->{fleet}{attempts}{$key} = {
		key    => $key, org => $org, job => $id, attempt => $number,
		gpus   => $total, job_ref => $job, leader => $rows[0]{node},
		parts  => { map { $_->{node} => $_->{devices} } @rows } };
	$self->{count}{starts}++;
	return;
}

# A part is placed only where the server may believe its devices free, and
# where really nothing runs on them.
sub _check_part
{
	my ($self, $key, $row) = @_;
	my $node = $self->{fleet}{nodes}{ $row->{node} };
	my $what = "$key on $row->{node}";

	die "$what, which is drained\n"   if $node->{drained};
	die "$what, which is reclaimed\n" if $node->{reclaimed};
	die "$what, which is silent\n" if $self->{now} - $node->{heard} > 660;
	foreach my $device (@{ $row->{devices} })
	{
		die "$what, whose device $device is told broken\n"
		  unless $node->{told}{$device};
		foreach my $proc (values %{ $node->{procs} })
		{
			die "$what, where $proc->{key} runs on device $device",
			  $self->_story($proc->{key})
			  if grep { $_ == $device } @{ $proc->{devices} };
		}
	}
	return;
}

# What the server knows of an attempt and its job, for the failure report
sub _story
{
	my ($self, $key) = @_;
	my ($org, $id, $number) = $key =~ m{^(.*)/(\d+)/(\d+)$};
	my @rows = (
		@{  $self->{wire}->call(
				'SELECT node, gpus, started_at, ended_at, seen_at, free'
				  . ' FROM gpucredit.attempt_gpu'
				  . ' WHERE org = ? AND job = ? AND attempt = ?',
				$org, $id, $number) },
		@{  $self->{wire}->call('SELECT * FROM gpucredit.history(?, ?)',
				$org, $id) },
		@{  $self->{wire}->call(
				"SELECT * FROM gpucredit.nodes WHERE state <> 'ready'") });

	return join(
		"\n",
		'',
		map {
			my $row = $_;

			join(' ', map { "$_=" . ($row->{$_} // '') } sort keys %$row)
		} @rows) . "\n";
}

sub _check_quotas
{
	my ($self) = @_;

	foreach my $row (
		@{  $self->{wire}->call(
				'SELECT org, sum(gpus * share) / 1000 AS gpus FROM gpucredit.attempt'
				  . ' WHERE ended_at IS NULL GROUP BY org') })
	{
		die "$row->{org} uses $row->{gpus} devices of " . QUOTA . "\n"
		  if $row->{gpus} > QUOTA;
	}
	return;
}

sub _verify
{
	my ($self) = @_;
	my $rows = $self->{wire}->call('SELECT * FROM gpucredit.verify() LIMIT 5');

	die join("\n", 'verify:',
		map { join(' | ', map { $_ // '' } @$_{qw(invariant org subject detail)}) } @$rows)
	  . "\n"
	  if @$rows;
	return;
}

# Nothing fails any more.
sub _recover
{
	my ($self) = @_;

	$self->_due(@$_[ 1 .. $#$_ ])
	  foreach grep { $_->[1] eq 'cancel' } @{ $self->{later} };
	$self->{later}    = [];
	$self->{wire}{bad} = 0;
	foreach my $name (sort keys %{ $self->{fleet}{nodes} })
	{
		my $node = $self->{fleet}{nodes}{$name};

		@$node{qw(up agent reachable)} = (1, 1, 1);
		$node->{broken} = {};
		$self->{wire}->call('SELECT gpucredit.resume(?)', $name);
		delete @$node{qw(drained reclaimed)};
		$self->{fleet}->register($node);
	}
	$self->{wire}->call('SELECT gpucredit.issue(?, ?, ?, 1000000)',
		$_, '', 'last')
	  foreach qw(alpha beta gamma delta);
	return;
}

sub _open_jobs
{
	my ($self) = @_;

	return $self->{wire}->call(
		'SELECT count(*) AS n FROM gpucredit.job WHERE ended_at IS NULL')->[0]{n};
}

# No job is lost, no credit is held, and completed work was really done.
sub _judge_end
{
	my ($self) = @_;
	my $rows = $self->{wire}->call(
		'SELECT org, job, state, attempt FROM gpucredit.jobs ORDER BY job');
	my %done;

	$done{"$_->{org}/$_->{job}"} = 1
	  foreach grep { $_->{done} } values %{ $self->{fleet}{attempts} };
	die scalar(@$rows) . ' jobs of ' . keys(%{ $self->{jobs_by} }) . "\n"
	  if @$rows != keys %{ $self->{jobs_by} };
	foreach my $row (@$rows)
	{
		$self->{count}{"job $row->{state}"}++;
		die "job $row->{job} of $row->{org} is still $row->{state}\n"
		  if $row->{state} !~ /^(completed|failed|cancelled|timeout)$/;
		die "job $row->{job} of $row->{org} completed without having run\n"
		  if $row->{state} eq 'completed' && !$done{"$row->{org}/$row->{job}"};
	}
	foreach my $org (qw(alpha beta gamma delta))
	{
		my $row =
		  $self->{wire}->call('SELECT * FROM gpucredit.balance(?)', $org)->[0];

		die "$org: $row->{held} held for nothing\n" if $row->{held} != 0;
	}
	$self->_verify;
	return;
}

sub report
{
	my ($self) = @_;
	my %count = (
		%{ $self->{count} },
		(map { ("message $_" => $self->{wire}{fates}{$_}) } keys %{ $self->{wire}{fates} }),
		calls => $self->{wire}{calls});
	my ($longest) = sort { $b <=> $a }
	  map { $_->{started} - $_->{submitted} }
	  grep { $_->{started} } values %{ $self->{jobs_by} };

	return (sprintf('longest wait: %.1f h', ($longest // 0) / 3600),
		map { "$_: $count{$_}" } sort keys %count);
}

1;
