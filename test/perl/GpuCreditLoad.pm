# GpuCreditLoad.pm: clients that make all kinds of calls at once, and the check
# of the results
#
#   setup_world($node, $db);
#   my @pids = in_parallel(4, sub { run_client($node, $db, number => $_[0],
#       seed => $seed, log => "$dir/$_[0].log", seconds => 5) });
#   wait_for_children(@pids);
#   my $account = settle_accounts($node, $db, glob("$dir/*.log"));
#
# A client logs each call before it sends it, and the result after the answer:
# a call with a result in the log was acknowledged. settle_accounts() sends
# every call again.  An acknowledged call must return exactly that result as a
# replay; any other must take effect now, or have taken effect once.
package GpuCreditLoad;

use strict;
use warnings;

use DBI;
use Exporter 'import';
use GpuCredit;
use JSON::PP;
use PostgreSQL::Test::Utils;
use Time::HiRes qw(time);

our @EXPORT = qw(setup_world run_client answered settle_accounts settle_crash
	world_conf);

# Seconds: a heartbeat is on disk three times wal_writer_delay (0.2 s) after
# its answer; on a busy machine the WAL writer sleeps longer.
my $LOSABLE  = 1;
my @orgs     = qw(acme bell core);
my @accounts = ('', 'vision', 'vision/alice', 'speech');
my $json     = JSON::PP->new->canonical->allow_nonref;

# Errors that other clients may cause.
my %expected = (
	capture     => { UC003   => 1 },
	release     => { UC003   => 1 },
	refund      => { '22023' => 1 },
	refund_hold => { '22023' => 1 },
	checkpoint  => { UC302   => 1, UC303 => 1, '22023' => 1 });

# Calls that have a key, or settle, so that a repeat gets the same answer.
my $keyed = qr/^(?:issue|hold|capture|release|reserve|cancel|settle|revoke
	|transfer|refund|refund_hold)$/x;

# How often a client makes each call.
my %weights = (
	issue       => 4,
	hold        => 10,
	capture     => 7,
	release     => 4,
	reserve     => 18,
	cancel      => 4,
	place       => 10,
	meter       => 14,
	meter_batch => 4,
	settle      => 14,
	heartbeat   => 5,
	drain       => 1,
	reclaim     => 1,
	revoke      => 2,
	transfer    => 3,
	refund      => 3,
	refund_hold => 2,
	budget      => 2,
	slices      => 1,
	rebuild     => 1,
	maintain    => 1,
	seal        => 1,
	verify      => 1,
	plan        => 1,
	expire      => 1,
	reap        => 1,
	check_nodes => 1,
	checkpoint  => 2,
	suspend     => 1,
	quota       => 2,
	alert       => 1,
	balance     => 2,
	read        => 2);

# Lines of postgresql.conf: agents here claim any elapsed time, and nodes need
# no heartbeat.
sub world_conf
{
	return (
		'gpucredit.clock_skew = 1000000',
		'gpucredit.node_suspect = 0',
		'gpucredit.retry_backoff = 0',
		'gpucredit.usage_interval = 60');
}

# Three organisations with overlapping accounts and buckets of every kind, and
# a small pool.
sub setup_world
{
	my ($node, $db) = @_;
	my $sql = q{
		SELECT gpucredit.set_price('H100', 2.5), gpucredit.set_price('A100', 1.2);
		SELECT gpucredit.register_node('default', 'h' || n, 'H100', 8, 81920,
			64000, 524288) FROM generate_series(1, 3) n;
		SELECT gpucredit.register_node('default', 'a' || n, 'A100', 4, 40960)
			FROM generate_series(1, 2) n;
	};

	foreach my $org (@orgs)
	{
		$sql .= "SELECT gpucredit.create_account('$org', '$_');\n"
		  foreach @accounts;
		$sql .= qq{
			SELECT gpucredit.grant_tier('$org', '', 'premium_training');
			SELECT gpucredit.issue('$org', '', 'start', 200);
			SELECT gpucredit.issue('$org', 'vision', 'start promo', 20, 'promo',
				valid_for => '10 days');
			SELECT gpucredit.issue('$org', 'vision/alice', 'start grant', 10,
				'grant', priority => 200);
			SELECT gpucredit.issue('$org', 'speech', 'start short', 15, 'grant',
				valid_for => '5 s', policy => '{"max_share": 0.5}');
			SELECT gpucredit.set_budget('$org', '', 5000);
			SELECT gpucredit.set_budget('$org', 'vision', 1000, 'day');
			SELECT gpucredit.set_quota('$org', 'vision', 'H100', 12, 10, 200);
			SELECT gpucredit.set_quota('$org', '', NULL, 30, 30);
		};
	}
	query($node, $db, $sql);
	return;
}

# Makes random calls for so many seconds, or until the server is gone.
# Options: number, seed, log, seconds, isolation. least: go on until so many
# keyed calls were answered, however slow the machine is. without: calls that
# it does not make. reconnect => 1: the connection may be cut while the server
# lives, so connect again and repeat the call.
sub run_client
{
	my ($node, $db, %options) = @_;
	my $client = { %options, node => $node, db => $db, sent => 0, answered => 0,
		least => $options{least} || 0, holds => [], jobs => [], buckets => [], captured => [] };
	my $until = time + $options{seconds};
	my @bag;

	srand($options{seed} * 1000 + $options{number});
	open($client->{fh}, '>>', $options{log}) or die "$options{log}: $!";
	$client->{fh}->autoflush(1);
	push @bag, ($_) x $weights{$_}
	  foreach grep { $_ ne ($options{without} // '') } sort keys %weights;
	return unless open_connection($client);
	while (time < $until
		|| $client->{answered} < $client->{least} && time < $until + 180)
	{
		my $do = __PACKAGE__->can('do_' . $bag[ rand @bag ]);

		last unless $do->($client);
	}
	close($client->{fh}) or die "$options{log}: $!";
	return;
}

sub open_connection
{
	my ($client) = @_;

	foreach my $try (1 .. 100)
	{
		$client->{dbh} = eval {
			connect_to($client->{node}, $client->{db}, name => 'load');
		};
		last if $client->{dbh} || !$client->{reconnect};
		select(undef, undef, undef, 0.05);
	}
	return 0 unless $client->{dbh};
	return 1 unless $client->{isolation};
	return 1
	  if eval {
		$client->{dbh}->do('SET default_transaction_isolation = '
			  . $client->{dbh}->quote($client->{isolation}));
	  };
	return $client->{reconnect} && open_connection($client);
}

sub note_line
{
	my ($client, $what, $value) = @_;

	print { $client->{fh} } "$what " . $json->encode($value) . "\n";
	return;
}

# Calls a function of gpucredit; returns whether to go on, and its rows.
# Forbidden results go to the log.
sub call
{
	my ($client, $function, @args) = @_;
	my $id = ++$client->{sent};
	my $sql = "SELECT * FROM gpucredit.$function("
	  . join(', ', ('?') x @args) . ')';

	note_line($client, 'sent', { id => $id, function => $function,
			args => \@args });
	while (1)
	{
		my $rows = eval {
			$client->{dbh}->selectall_arrayref($sql, { Slice => {} }, @args);
		};
		my $state = $client->{dbh}->state;

		if ($rows)
		{
			note_line($client, 'got', { id => $id, rows => $rows, when => time });
			$client->{answered}++ if $function =~ $keyed;
			return (1, $rows);
		}
		if ($state =~ /^(?:08|57P0|22000$)/ || !$client->{dbh}->ping)
		{
			return (0) unless $client->{reconnect};
			return (0) unless open_connection($client);
			note_line($client, 'again', { id => $id, state => $state });
		}
		elsif ($state eq '40001' && $client->{isolation})
		{
			note_line($client, 'again', { id => $id, state => $state });
		}
		else
		{
			note_line($client, 'refused', { id => $id, state => $state });
			note_line($client, 'unexpected', { id => $id, state => $state,
					function => $function, args => \@args,
					message => $client->{dbh}->errstr })
			  unless $expected{$function}{$state};
			return (1, undef);
		}
	}
}

# Rows of a query; none if the connection is gone.
sub rows_or_none
{
	my ($client, $sql, @args) = @_;

	my $rows = eval { $client->{dbh}->selectall_arrayref($sql, undef, @args) };

	return @{ $rows || [] };
}

sub pick { return $_[ rand @_ ]; }

# A key no other client uses.
sub new_key
{
	my ($client) = @_;

	return join('-', 'k', $client->{seed}, $client->{number},
		++$client->{keys});
}

sub amount { return sprintf('%.6f', 0.000001 + rand($_[0])); }

sub do_issue
{
	my ($client) = @_;
	my $org = pick(@orgs);
	my $key = new_key($client);
	my ($on, $rows) = call($client, 'issue', $org, pick(@accounts), $key,
		amount(30), pick(qw(paid promo grant)), undef, undef,
		pick(100, 100, 50), '{}', $key, pick(undef, '1 hour', '2 s'));

	push @{ $client->{buckets} }, [ $org, $rows->[0]{bucket} ] if $rows;
	return $on;
}

sub do_hold
{
	my ($client) = @_;
	my $org = pick(@orgs);
	my ($on, $rows) = call($client, 'hold', $org, pick(@accounts),
		new_key($client), amount(15), pick('1 hour', '1 hour', '1 s'));

	push @{ $client->{holds} }, [ $org, $rows->[0]{hold}, $rows->[0]{held} ]
	  if $rows && $rows->[0]{status} eq 'granted';
	return $on;
}

sub do_capture
{
	my ($client) = @_;
	my $hold = splice(@{ $client->{holds} },
		rand @{ $client->{holds} }, 1) or return 1;
	my $amount = sprintf('%.6f', rand($hold->[2]));
	my $final  = pick('true', 'true', 'false');
	my ($on, $rows) = call($client, 'capture', $hold->[0], $hold->[1],
		new_key($client), $amount, $final);

	push @{ $client->{captured} }, [ $hold->[0], $hold->[1], $amount ]
	  if $rows && $amount > 0;
	push @{ $client->{holds} },
	  [ $hold->[0], $hold->[1], $hold->[2] - $amount - 0.000001 ]
	  if $rows && $final eq 'false' && $hold->[2] - $amount > 0.000002;
	return $on;
}

sub do_release
{
	my ($client) = @_;
	my $hold = splice(@{ $client->{holds} },
		rand @{ $client->{holds} }, 1) or return 1;

	return (call($client, 'release', $hold->[0], $hold->[1],
			new_key($client)))[0];
}

sub do_reserve
{
	my ($client) = @_;
	my $org = pick(@orgs);
	my $key = new_key($client);
	my ($on, $rows) = call($client, 'reserve', $org, pick(@accounts), $key,
		pick(qw(1xH100 1xH100 2xH100|A100 4xA100|H100 0.25xA100 12xH100 1-4xH100 1x* 0)),
		pick('1 hour', '2 hours', '20 min'),
		pick(qw(standard_training interactive premium_training)),
		'default', 'any', undef, 3, 1000, 1024, pick(undef, undef, '10 min'),
		$json->encode({ key => $key }), '{}');

	push @{ $client->{jobs} }, [ $org, $rows->[0]{job} ]
	  if $rows && $rows->[0]{status} eq 'granted';
	return $on;
}

sub do_cancel
{
	my ($client) = @_;
	my $job = splice(@{ $client->{jobs} }, rand @{ $client->{jobs} }, 1)
	  or return 1;

	return (call($client, 'cancel', @$job, new_key($client), 'no need'))[0];
}

sub do_place { return (call($_[0], 'place', 'default'))[0]; }

# Live attempts, and how far each may be metered on.
sub live
{
	my ($client, $most) = @_;

	return rows_or_none($client, q{
		SELECT org, job, attempt, elapsed + random() * '15 min'::interval
		FROM gpucredit.attempt WHERE ended_at IS NULL
		ORDER BY random() LIMIT ?}, $most);
}

sub do_meter
{
	my ($client) = @_;
	my ($attempt) = live($client, 1) or return 1;

	return (call($client, 'meter', @$attempt))[0];
}

sub do_meter_batch
{
	my ($client) = @_;
	my @attempts = live($client, 8) or return 1;

	return (call($client, 'meter_batch', map {
				my $column = $_;
				[ map { $_->[$column] } @attempts ]
			} 0 .. 3))[0];
}

sub do_settle
{
	my ($client) = @_;
	my ($attempt) = live($client, 1) or return 1;
	my ($org, $job, $number, $elapsed) = @$attempt;

	return (call($client, 'settle', $org, $job, $number,
			pick(qw(completed completed failed preempted node_lost timeout)),
			pick($elapsed, undef), pick(0, 1), 'done'))[0];
}

sub do_heartbeat
{
	my ($client) = @_;

	return (call($client, 'heartbeat', pick(qw(h1 h2 h3 a1 a2))))[0];
}

sub do_drain
{
	my ($client) = @_;
	my $node = pick(qw(h1 h2 a1));
	my ($on) = call($client, 'drain', $node, 'repair',
		pick(undef, '2100-01-01'));

	return $on && (call($client, 'resume', $node))[0];
}

# Its machine is taken back, with notice or at once, and returns.
sub do_reclaim
{
	my ($client) = @_;
	my $node = pick(qw(h3 a2));
	my ($on) = call($client, 'reclaim', $node, pick('1 hour', '0 s'));

	return $on && (call($client, 'resume', $node))[0];
}

# One of its own buckets, or one that open holds draw on, whoever owns it.
# Buckets of the start stay, so that there is something to do.
sub do_revoke
{
	my ($client) = @_;
	my ($used) = rows_or_none($client, q{
		SELECT org, bucket FROM gpucredit.bucket
		WHERE held > '0' AND closed_at IS NULL AND memo IS NOT NULL
		ORDER BY random() LIMIT 1});
	my $bucket = rand(2) < 1 && $used
	  || splice(@{ $client->{buckets} }, rand @{ $client->{buckets} }, 1)
	  or return 1;

	return (call($client, 'revoke', @$bucket, new_key($client), 'a mistake'))[0];
}

sub do_transfer
{
	my ($client) = @_;
	my $pair = pick([ '', 'speech' ], [ 'vision', '' ], [ 'speech', 'vision' ],
		[ 'vision', 'speech' ]);

	return (call($client, 'transfer', pick(@orgs), @$pair, new_key($client),
			amount(5)))[0];
}

# Part of what a job has spent, its own or another client's.
sub do_refund
{
	my ($client) = @_;
	my ($job) = rows_or_none($client, q{
		SELECT org, job, (sum(billed)::numeric / 3)::numeric(20, 6)
		FROM gpucredit.attempt WHERE billed > '0.000010'
		GROUP BY org, job ORDER BY random() LIMIT 1}) or return 1;

	return (call($client, 'refund', @{$job}[ 0, 1 ], new_key($client),
			$job->[2], 'an outage'))[0];
}

sub do_refund_hold
{
	my ($client) = @_;
	my $hold = pick(@{ $client->{captured} }) or return 1;

	return (call($client, 'refund_hold', @{$hold}[ 0, 1 ], new_key($client),
			amount($hold->[2]), 'an outage'))[0];
}

# Set, changed or removed.
sub do_budget
{
	my ($client) = @_;

	return (call($client, 'set_budget', pick(@orgs), pick(@accounts),
			pick(150, 1000, 5000, undef), pick(qw(month day none))))[0];
}

# Changes the number of slices.
sub do_slices
{
	my ($client) = @_;

	return (call($client, 'set_slices', pick(@orgs), pick(@accounts),
			pick(1, 2, 5)))[0];
}

# verify() finds nothing, whatever others do meanwhile.
sub do_rebuild { return find_nothing($_[0], 'rebuild', pick(@orgs)); }

sub do_verify { return find_nothing($_[0], 'verify', pick(@orgs)); }

sub find_nothing
{
	my ($client, $function, @args) = @_;
	my ($on, $rows) = call($client, $function, @args);

	note_line($client, 'unexpected', { function => $function, rows => $rows })
	  if @{ $rows || [] };
	return $on;
}

# Which needs READ COMMITTED.
sub do_seal
{
	my ($client) = @_;

	return 1 if $client->{isolation};
	return (call($client, 'seal_audit'))[0];
}

sub do_plan { return (call($_[0], 'plan', 'default'))[0]; }

sub do_expire { return (call($_[0], 'expire_credits'))[0]; }

sub do_reap { return (call($_[0], 'reap_holds'))[0]; }

sub do_check_nodes { return (call($_[0], 'check_nodes'))[0]; }

sub do_checkpoint
{
	my ($client) = @_;
	my ($attempt) = live($client, 1) or return 1;

	return (call($client, 'checkpoint', @{$attempt}[ 0 .. 2 ],
			++$client->{steps}, 's3://ckpt', '\\x' . '00' x 32, 1024))[0];
}

# Suspends an account, and ends the suspension.
sub do_suspend
{
	my ($client) = @_;
	my @account = (pick(@orgs), pick(@accounts));
	my ($on) = call($client, 'suspend_account', @account, 'true');

	return $on && (call($client, 'suspend_account', @account, 'false'))[0];
}

# Set, changed or removed.
sub do_quota
{
	my ($client) = @_;

	return (call($client, 'set_quota', pick(@orgs), pick('', 'vision'),
			pick(undef, 'H100'),
			@{ pick([ 12, 10, 200 ], [ 30, 30, 30 ], [ 30, 10, 200 ],
					[ undef, undef, undef ]) }))[0];
}

sub do_alert
{
	my ($client) = @_;

	return (call($client, 'set_alert', pick(@orgs), pick(@accounts),
			pick(undef, 1000, 100)))[0];
}

# What people look at while others work.
sub do_read
{
	my ($client) = @_;
	my @account = (pick(@orgs), pick(@accounts));

	return (call($client, 'buckets_for', @account, '1xH100'))[0]
	  && (call($client, 'denials', @account))[0];
}

sub do_maintain { return (call($_[0], 'maintain'))[0]; }

sub do_balance
{
	return (call($_[0], 'balance', pick(@orgs), pick(@accounts)))[0];
}

# Reads a log: the calls in order, each with its result if it was
# acknowledged.
sub read_log
{
	my ($file) = @_;
	my (@calls, %by_id, @unexpected, %states);

	open(my $fh, '<', $file) or die "$file: $!";
	while (my $line = <$fh>)
	{
		my ($what, $text) = $line =~ /^(\w+) (.*)$/ or die "$file: $line";
		my $value = $json->decode($text);

		$states{ $value->{state} }++ if $value->{state};
		if ($what eq 'sent')
		{
			push @calls, $value;
			$by_id{ $value->{id} } = $value;
		}
		elsif ($what eq 'got')
		{
			@{ $by_id{ $value->{id} } }{qw(rows when)} = @$value{qw(rows when)};
		}
		elsif ($what eq 'refused')
		{
			$by_id{ $value->{id} }{refused} = 1;
		}
		elsif ($what eq 'again')
		{
			$by_id{ $value->{id} }{again}++;
		}
		else
		{
			push @unexpected, $text;
		}
	}
	close($fh);
	return (\@calls, \@unexpected, \%states);
}

# How many keyed calls of running clients were answered.
sub answered
{
	my $n = 0;

	foreach my $file (grep { -e } @_)
	{
		my $text = slurp_file($file);
		my %sent;

		while ($text =~ /^sent .*"function":"(\w+)","id":(\d+)\}$/mg)
		{
			my ($function, $id) = ($1, $2);

			$sent{$id} = 1 if $function =~ $keyed;
		}
		$n += grep { $sent{$_} } $text =~ /^got \{"id":(\d+),/mg;	# keys are sorted
	}
	return $n;
}

# A result as text, without the column replayed.
sub result_text
{
	my ($row) = @_;
	my %copy = %$row;

	delete $copy{replayed};
	return $json->encode(\%copy);
}

# Sends every call of the logs again and compares.  Returns counts
# (acknowledged, pending, places, meters; forgotten: heartbeats that a crash
# lost as it may), and lists of lost effects (lost) and forbidden errors
# (unexpected).
sub settle_accounts
{
	my ($node, $db, @files) = @_;

	return settle_crash($node, $db, undef, @files);
}

# The same after the server was killed at that time: heartbeats answered within
# the second before may be lost.  They are sent again, as by an agent.
sub settle_crash
{
	my ($node, $db, $killed, @files) = @_;
	my $account = { acknowledged => 0, pending => 0, places => 0, meters => 0,
		forgotten => 0, lost => [], unexpected => [], states => {}, keys => {},
		killed => $killed };
	my $dbh = connect_to($node, $db, name => 'account');

	foreach my $file (@files)
	{
		my ($calls, $unexpected, $states) = read_log($file);

		push @{ $account->{unexpected} }, @$unexpected;
		$account->{states}{$_} += $states->{$_} foreach keys %$states;
		$dbh->begin_work;
		foreach my $call (grep { !$_->{refused} } @$calls)
		{
			my $wrong = check_call($dbh, $account, $call);

			push @{ $account->{lost} }, $json->encode($call) . ": $wrong"
			  if $wrong;
		}
		$dbh->commit;
	}
	$dbh->disconnect;
	return $account;
}

# What is wrong with a call; '' for nothing.
sub check_call
{
	my ($dbh, $account, $call) = @_;
	my $function = $call->{function};

	return check_places($dbh, $account, $call) if $function eq 'place';
	return check_meter($dbh, $account, $call) if $function eq 'meter';
	return '' unless $function =~ $keyed;
	return check_keyed($dbh, $account, $call);
}

sub check_keyed
{
	my ($dbh, $account, $call) = @_;
	my $sql = "SELECT * FROM gpucredit.$call->{function}("
	  . join(', ', ('?') x @{ $call->{args} }) . ')';
	my $was = $call->{rows} && $call->{rows}[0];
	my $now;

	$account->{ $was ? 'acknowledged' : 'pending' }++;
	$dbh->do('SAVEPOINT again');
	$now = eval {
		$dbh->selectall_arrayref($sql, { Slice => {} },
			@{ $call->{args} })->[0];
	};
	if (!$now)
	{
		my ($state, $message) = ($dbh->state, $dbh->errstr);

		$dbh->do('ROLLBACK TO again');
		return "$state $message"
		  unless !$was && $expected{ $call->{function} }{$state};
		return '';
	}
	$dbh->do('RELEASE again');
	$account->{keys}{ $call->{function} }++
	  unless $call->{function} eq 'settle';
	return '' unless $was;
	return 'not a replay' unless $now->{replayed};
	return 'another result: ' . result_text($now)
	  if result_text($now) ne result_text($was);
	return '';
}

# A placement has taken effect: those devices of that node.
sub check_places
{
	my ($dbh, $account, $call) = @_;

	foreach my $row (grep { $_->{action} eq 'start' } @{ $call->{rows} || [] })
	{
		my ($n) = $dbh->selectrow_array(
			q{SELECT count(*) FROM gpucredit.attempt_gpu g
				JOIN gpucredit.attempt a USING (org, job, attempt)
				WHERE (g.org, g.job, g.attempt, g.node) = (?, ?, ?, ?)
				AND g.gpus::text = ? AND g.share = ?
				AND a.per_gpu_hour::numeric = ?},
			undef, @$row{qw(org job attempt node gpus share per_gpu_hour)});

		$account->{places}++;
		return 'no such attempt: ' . $json->encode($row) unless $n == 1;
	}
	return '';
}

# A heartbeat has taken effect; that an attempt runs is never lost.
sub check_meter
{
	my ($dbh, $account, $call) = @_;
	my $row = $call->{rows} && $call->{rows}[0] or return '';
	my ($runs, $told) = $dbh->selectrow_array(
		q{SELECT running_at IS NOT NULL,
			COALESCE(billed, least(gpucredit_internal.bill(per_gpu_hour, gpus,
				share, elapsed), held))::numeric >= ?
			AND (elapsed >= ? OR ended_at IS NOT NULL)
			FROM gpucredit.attempt WHERE (org, job, attempt) = (?, ?, ?)},
		undef, $row->{billed}, $call->{args}[3],
		@{ $call->{args} }[ 0 .. 2 ]);

	$account->{meters}++;
	return '' if $row->{action} eq 'stop' || $runs && $told;
	return 'forgotten' unless $runs && $account->{killed}
	  && $call->{when} > $account->{killed} - $LOSABLE;
	$account->{forgotten}++;
	$dbh->do('SELECT FROM gpucredit.meter(?, ?, ?, ?)', undef, @{ $call->{args} });
	return '';
}

1;
