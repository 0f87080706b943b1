# World.pm: a small cluster, its honest tenants, its agents and an observer
#
# A play is some hours of a simulated cluster (gpucredit.clock).  Events follow
# one another: what honest callers do, what the attackers do, then the agents'
# work, one scheduling cycle, and the observer's look.  Nothing takes time in
# between, so that what is not paid was the attackers' doing.
#
# A strategy without a second session is played in a transaction that is rolled
# back, which leaves no traces and costs little.  One with a second session
# commits, in a database and with organisations of its own.
package World;

use strict;
use warnings;

use parent -norequire, 'Agents';

use Agents;
use POSIX qw(strftime);

use constant {
	SECOND     => 1_000_000,
	MINUTE     => 60_000_000,
	HOUR       => 3_600_000_000,
	BASE       => 1_893_456_000,	# 2030-01-01
	LEAST_PLAY => 3 * 3_600_000_000,
	LONGEST    => 14 * 3_600_000_000,
	GPUS       => 8,
	PRICE      => 3.6,				# an hour
	CPU_PRICE    => 0.001,			# a core and hour
	MEMORY_PRICE => 0.0001,			# a GiB and hour
	LEAST_COST => 0.0005,			# half a second of a device
};

# Logins, once for a server.
sub logins
{
	return join('', map { "CREATE ROLE adv_$_->[0] LOGIN IN ROLE gpucredit_$_->[1];" }
		  [qw(m tenant)], [qw(z tenant)], [qw(h tenant)], [qw(app app)],
		[qw(admin admin)], [qw(agent agent)]);
}

# The server's settings: agents report at events, which may be hours apart.
sub settings
{
	return map { "gpucredit.$_" } 'node_suspect = 3h', 'node_lost = 6h', 'heartbeat_timeout = 3h',
	  'startup_max = 3h';
}

# dbh: a superuser's connection to a database of its own; second: another, for
# strategies that commit.
sub new
{
	my ($class, %self) = @_;
	my $self = bless { plays => 0, clock => 0, setup => [], %self }, $class;
	my $sha  = "sha256('" . Agents::KEY . "')";

	$self->{trace} = $self->{setup};
	$self->_run($_) foreach 'SET client_min_messages = error',
	  "SET timezone = 'UTC'", "SET intervalstyle = 'postgres'";
	# A vacuum that truncates a table locks the whole table, for longer than agents'
	# reports and cycles wait for a row; they would come to it the next time, but
	# in a play there is none after the last.
	$self->{dbh}->do("ALTER TABLE gpucredit.$_ SET (vacuum_truncate = off, toast.vacuum_truncate = off)")
	  foreach @{ $self->{dbh}->selectcol_arrayref(
		"SELECT relname FROM pg_catalog.pg_class WHERE relkind = 'r' AND relnamespace = 'gpucredit'::regnamespace") };
	if ($self->{second})
	{
		# Honest callers wait briefly for a row that an attacker has locked.
		$_->do("SET lock_timeout = '30ms'") foreach @$self{qw(dbh second)};
	}
	$self->_clock;
	$self->_run($_) foreach "SELECT gpucredit.set_price('H100', " . PRICE . ')',
	  "SELECT gpucredit.create_pool('default', '{\"reclaim\": true}')",
	  "SELECT gpucredit.set_tier('forgiving', 2, 'capacity', false, bill_lost_work => false)",
	  node('n1'), "SELECT gpucredit.set_node_key('n1', $sha)";
	# what an operator does who has things to lose
	$self->_run("SELECT gpucredit.set_resource_price('$_->[0]', $_->[1])")
	  foreach $self->_has('set_resource_price') ? ([ cpu => CPU_PRICE ], [ memory => MEMORY_PRICE ]) : ();
	$self->{priced} = $self->_has('set_resource_price');
	$self->{block_max} = $self->_ask("SELECT extract(epoch FROM coalesce("
		  . "current_setting('gpucredit.tenant_block_max', true), '1 h')::interval) AS s")->[0]{s};
	$self->_organisations(qw(m z h)) unless $self->{second};
	return $self;
}

# Whether the extension has a function.
sub _has
{
	my ($self, $name) = @_;

	return $self->{dbh}->selectrow_array(
		"SELECT count(*) FROM pg_catalog.pg_proc WHERE proname = \$1 AND pronamespace = 'gpucredit'::regnamespace",
		undef, $name);
}

sub node
{
	my ($name) = @_;

	return "SELECT gpucredit.register_node('default', '$name', 'H100', " . GPUS
	  . ", 81559, 64000, 500000, labels => '{\"rack\": \"$name\"}')";
}

sub _organisations
{
	my ($self, @orgs) = @_;

	$self->{org} = { m => $orgs[0], z => $orgs[1], h => $orgs[2] };
	$self->{who} = { reverse %{ $self->{org} } };
	foreach my $who (qw(m z h))
	{
		my $org = $self->{org}{$who};

		$self->_ask("SELECT gpucredit.create_account(\$1, a) FROM unnest('{\"\",a,b}'::text[]) a", $org);
		$self->_ask('SELECT gpucredit.bind_tenant($1, $2)', "adv_$who", $org);
	}
	$self->_ask('SELECT gpucredit.issue($1, $2, $3, $4)', $self->{org}{h}, '', 'first', 10000);
	return;
}

# Plays a strategy; returns what came of it.  With a trace, the statements are
# collected in it.
sub play
{
	my ($self, $strategy, $trace) = @_;

	$self->{trace} = $trace;
	push @$trace, @{ $self->{setup} } if $trace;
	$self->{plays}++;
	$self->{start} = $self->{now} = $self->{clock};
	$self->{$_} = {} foreach qw(procs nodes programs waits kept cost);
	$self->{$_} = [] foreach qw(jobs holds errors stopped evicted honest);
	$self->{strategy} = $strategy;
	$self->{open} = 0;
	delete $self->{bills};
	$self->{dbh}->begin_work unless $self->{second};
	my $done = eval { $self->_play; 1 };

	die $@ unless $done || ref $@;
	my $result = $self->_result;

	$self->{dbh}->rollback unless $self->{second};
	$self->{clock} = $self->{now} + HOUR;
	return $result;
}

sub _play
{
	my ($self) = @_;
	my ($strategy) = $self->{strategy};

	$self->_clock;
	$self->_prepare($strategy->{world});
	my @genes = @{ $strategy->{genes} };
	my @due   = $self->_honest_plan;
	my $ready = $self->{start};
	my $end   = $self->{start} + LEAST_PLAY;

	while ($self->{now} < $end)
	{
		my $now = $self->{now};

		$self->_clock;
		while (@due && $due[0][0] <= $now)
		{
			(shift @due)->[1]->();
		}
		# the first honest job runs before the attackers come
		$self->_agents if $now == $self->{start};
		while (@genes && $ready <= $now)
		{
			my $gene = shift @genes;

			if ($gene->{op} eq 'wait')
			{
				$ready += $gene->{us};
				$ready = $self->{start} + LONGEST if $ready > $self->{start} + LONGEST;
				$end = $ready + 10 * MINUTE if $end < $ready + 10 * MINUTE;
			}
			else
			{
				$self->_act($gene);
			}
		}
		$self->_session_timeout;
		$self->_agents;
		$self->_charge;
		$self->_pass($end, @genes ? $ready : (), @due ? $due[0][0] : ());
	}
	$self->_finish;
	return;
}

# Until the next event.
sub _pass
{
	my ($self, @instants) = @_;
	my $now  = $self->{now};
	my $next = $now + (%{ $self->{waits} } ? 5 * MINUTE : $now < $self->{start} + LEAST_PLAY ? 45 * MINUTE : 2 * HOUR);

	push @instants, $self->{open_until} if $self->{open};
	foreach my $proc (values %{ $self->{procs} })
	{
		push @instants, grep { defined } @$proc{qw(begins ends kill_at deadline retry)};
	}
	foreach my $instant (@instants)
	{
		$next = $instant if $instant > $now && $instant < $next;
	}

	# A report that waits for the attackers' transaction is tried again here, where
	# an agent's would wait in the server and be billed for it, which a clock that
	# stands still does not show (test/t/036_tenant_locks.pl does).
	my %waits = map { ("$_->{org}/$_->{job}/$_->{attempt}" => 1) }
	  grep { ($_->{retry} // 0) > $now } values %{ $self->{procs} };

	$self->{cost}{$_} += $self->{kept}{$_} * ($next - $now) / HOUR
	  foreach grep { !$waits{$_} } keys %{ $self->{kept} };
	$self->{now} = $next;
	return;
}

# What an hour costs of what the attackers keep from others at this instant: the
# devices whose attempts are not over and freed, each by the larger of its share
# and its part of the memory, and cpu and memory if they have a price.
sub _charge
{
	my ($self) = @_;
	my $rows = $self->_ask(
		q{SELECT org, job, attempt, sum($2::numeric * gpucredit.gpu_count(gpus) * CASE WHEN share >= 1000 THEN 1
			ELSE least(1, greatest(share / 1000.0, gpu_memory_mib / 81559.0)) END
			+ $3::numeric * cpu_milli / 1000 + $4::numeric * memory_mib / 1024) AS an_hour
		FROM gpucredit.attempt_gpu
		WHERE pool = 'default' AND NOT free AND org = ANY($1) GROUP BY 1, 2, 3},
		[ @{ $self->{org} }{qw(m z)} ], PRICE, $self->{priced} ? (CPU_PRICE, MEMORY_PRICE) : (0, 0));

	$self->{kept} = { map { ("$_->{org}/$_->{job}/$_->{attempt}" => $_->{an_hour}) } @$rows };
	return;
}

# Honest callers

sub _prepare
{
	my ($self, $world) = @_;
	my $m = sub { $self->{org}{m} };

	$self->_organisations(map { "$_$self->{plays}" } qw(m z h)) if $self->{second};
	$self->_ask('SELECT gpucredit.issue($1, $2, $3, $4)', $m->(), '', 'first', $world->{credit});
	$self->_ask('SELECT gpucredit.set_rate_limit($1, $2, $3, 5, 5)', $m->(), '', '*') if $world->{limited};
	$self->_ask('SELECT gpucredit.set_rate_limit($1, $2, $3, NULL, NULL)', $m->(), '', '*')
	  if $self->{second} && !$world->{limited};
	$self->{nodes} = { n1 => 1 };
	if ($world->{nodes} == 2)
	{
		$self->_ask(node('n2'));
		$self->_ask("SELECT gpucredit.set_node_key('n2', sha256(\$1))", Agents::KEY);
		$self->{nodes}{n2} = 1;
	}
	return;
}

# Honest jobs, which take a quarter of the devices at most, and what others do
# in the attackers' organisation.
sub _honest_plan
{
	my ($self) = @_;
	my @plan;

	foreach my $i (0 .. 1)
	{
		push @plan, [ $self->{start} + 60 * $i * MINUTE, sub { $self->_submit("job-$i", $i ? 0 : 16000) } ],
		  # others may evict it by now
		  [ $self->{start} + (60 * $i + 11) * MINUTE, sub { } ];
	}
	push @plan, [ $self->{start} + 45 * MINUTE, sub { $self->_others } ];
	return sort { $a->[0] <=> $b->[0] } @plan;
}

sub _submit
{
	my ($self, $key, $cpu) = @_;
	my $row = $self->_honest('h', 'SELECT * FROM gpucredit.reserve($1, $2, $3, $4, $5, cpu_milli => $6)',
		$self->{org}{h}, '', $key, '2xH100', '2 h', $cpu)->[0];

	$self->{programs}{"$self->{org}{h}/$row->{job}"} = \%Agents::honest_program;
	push @{ $self->{honest} }, { job => $row->{job}, at => $self->{now}, waited => 0 };
	$self->{waits}{ $row->{job} } = $self->{now};
	push @{ $self->{errors} }, "reserve $row->{reason}" if $row->{status} ne 'granted';
	return;
}

# An administrator sells credit to the attackers, the registry bills their
# storage, and their own nightly program runs, each under its usual key.
sub _others
{
	my ($self) = @_;
	my $org = $self->{org}{m};
	my $row = $self->_honest('admin', 'SELECT * FROM gpucredit.issue($1, $2, $3, $4)',
		$org, '', 'invoice-4711', 5)->[0];

	push @{ $self->{stopped} }, 'issue' if $row->{replayed};
	$self->_honest('admin', 'SELECT gpucredit.suspend_account($1, $2, $3)', $org, 'b', 'f');
	$row = $self->_honest('admin', 'SELECT * FROM gpucredit.hold($1, $2, $3, $4, $5)',
		$org, '', 'registry/hold/2030-01-01/5', '0.5', '1 h')->[0];
	push @{ $self->{stopped} }, 'hold' if $row->{replayed};
	return if $row->{status} ne 'granted';
	$row = $self->_honest('admin', 'SELECT * FROM gpucredit.capture($1, $2, $3, $4)',
		$org, $row->{hold}, 'registry/storage/2030-01-01', '0.5')->[0];
	push @{ $self->{stopped} }, 'capture' if $row->{replayed} || $row->{captured} != 0.5;
	$row = eval { $self->_honest('app', 'SELECT * FROM gpucredit.reserve($1, $2, $3, $4, $5)',
		$org, 'a', 'nightly-1', '1xH100', '10 min')->[0] } or return $self->_limit_passed;
	push @{ $self->{stopped} }, 'reserve' if $row->{replayed};
	$self->{programs}{"$org/$row->{job}"} = { %Agents::honest_program, run => 5 * MINUTE } if $row->{job};
	return;
}

# An application shares the limit of the organisation for which it acts.
sub _limit_passed
{
	my ($self) = @_;

	die $@ unless $self->{strategy}{world}{limited} && $self->{errors}[-1] =~ /UC202/;
	pop @{ $self->{errors} };
	die { over => 1 } unless $self->{second};
	return;
}

# A call of an honest caller; an error ends the play.
sub _honest
{
	my ($self, $who, $sql, @args) = @_;

	$self->_run("SET SESSION AUTHORIZATION adv_$who");
	my $rows = $self->_ask_honestly($sql, @args);

	$self->_run('RESET SESSION AUTHORIZATION');
	return $rows;
}

sub _ask_honestly
{
	my ($self, $sql, @args) = @_;
	my $rows = eval { $self->_ask($sql, @args) };

	return $rows if $rows;
	my ($error, $state) = ($@, $self->{dbh}->state);
	my ($fn) = $sql =~ /gpucredit\.(\w+)\(/;

	push @{ $self->{errors} }, "$fn $state " . ($error =~ /ERROR:\s*(.*)/)[0];
	$self->_run('RESET SESSION AUTHORIZATION') if $self->{second};
	die { error => $error };
}

# The attackers

sub _act
{
	my ($self, $gene) = @_;

	return $self->_open($gene->{op}) if $gene->{op} ne 'call';
	foreach my $n (1 .. $gene->{times})
	{
		my $rows = $self->_attack($gene->{by}, $self->_sql($gene, $n), $gene->{session});
		my $row  = $rows && $rows->[0] or next;
		my $org  = $gene->{args}{org};

		$org = $self->{org}{ ref $org ? $org->{org} : '' } // '';
		if ($gene->{program} && defined $row->{job})
		{
			$self->{programs}{"$org/$row->{job}"} = $gene->{program};
			push @{ $self->{jobs} }, $row->{job};
		}
		push @{ $self->{holds} }, $row->{hold} if defined $row->{hold};
	}
	return;
}

# A call as SQL; repeated calls have keys of their own.
sub _sql
{
	my ($self, $gene, $n) = @_;
	my @args;

	foreach my $arg (@{ $self->{functions}{ $self->{strategy}{profile} }{ $gene->{fn} }{args} })
	{
		next unless exists $gene->{args}{ $arg->{name} };
		my $value = $self->_value($gene, $gene->{args}{ $arg->{name} });

		if ($arg->{name} eq 'key' && defined $value)
		{
			$value .= "-$n" if $n > 1;
			# an application keeps the keys of its users apart from its own
			$value = "user/$value" if $self->{strategy}{profile} eq 'app' && $value eq 'nightly-1';
		}
		push @args, "$arg->{name} => " . (defined $value ? $self->{dbh}->quote($value) : 'NULL') . "::$arg->{type}";
	}
	return "SELECT * FROM gpucredit.$gene->{fn}(" . join(', ', @args) . ')';
}

sub _value
{
	my ($self, $gene, $value) = @_;

	return $value unless ref $value;
	my ($kind, $n) = %$value;

	if ($kind eq 'org')
	{
		# an application knows for whom it acts
		return $self->{org}{ $self->{strategy}{profile} eq 'app' ? $gene->{by} : $n };
	}
	return $self->{honest}[$n] ? $self->{honest}[$n]{job} : 1 if $kind eq 'victim';
	my $list = $kind eq 'job' ? $self->{jobs} : $self->{holds};

	return @$list ? $list->[ $n % @$list ] : 1;
}

sub _attack
{
	my ($self, $by, $sql, $session) = @_;
	my $who = $self->{strategy}{profile} eq 'app' ? 'app' : $by;
	my $db  = $session == 2 && $self->{open} ? $self->{second} : $self->{dbh};
	my $set = "SET SESSION AUTHORIZATION adv_$who";
	my $save = !$self->{second};

	push @{ $self->{trace} }, ($db == $self->{dbh} ? '' : '-- session 2: ') . "$set; $sql; RESET SESSION AUTHORIZATION"
	  if $self->{trace};
	$self->{open_until} = $self->_open_until if $db != $self->{dbh};
	my $rows = eval {
		$db->do($save ? "SAVEPOINT a; $set" : $set);
		my $list = $db->selectall_arrayref($sql, { Slice => {}, pg_server_prepare => 0 });

		$db->do($save ? 'RESET SESSION AUTHORIZATION; RELEASE a' : 'RESET SESSION AUTHORIZATION');
		$list;
	};

	if ($rows)
	{
		$self->{worked}{"$self->{strategy}{profile} " . ($sql =~ /gpucredit\.(\w+)\(/)[0] }++;
		return $rows;
	}
	my ($error, $state) = ($@, $db->state);

	push @{ $self->{trace} }, '-- ' . ($error =~ /(ERROR:.*)/)[0] if $self->{trace};
	push @{ $self->{errors} }, "attack $state " . ($error =~ /ERROR:\s*(.*)/)[0]
	  if $state =~ /^(?:XX|08|57)/;
	if ($save)
	{
		$db->do('ROLLBACK TO a');
	}
	elsif ($db == $self->{dbh})
	{
		$db->do('RESET SESSION AUTHORIZATION');
	}
	else
	{
		$self->_open('rollback');
	}
	return;
}

# The second session begins, or ends, its transaction.
sub _open
{
	my ($self, $op) = @_;
	my $db = $self->{second} or return;

	return if !$self->{open} == ($op ne 'begin');
	push @{ $self->{trace} }, "-- session 2: $op" if $self->{trace};
	if ($op eq 'begin')
	{
		$db->begin_work;
		$db->do("SET LOCAL gpucredit.clock = '" . $self->_instant . "'");
		$self->{opened} = $self->{now};
		$self->{open} = 1;
		$self->{open_until} = $self->_open_until;
		return;
	}
	$op eq 'commit' ? eval { $db->commit } || $db->rollback : $db->rollback;
	$db->do('RESET SESSION AUTHORIZATION');
	$self->{open} = 0;
	return;
}

# When the server ends the transaction: gpucredit.tenant_idle_timeout and
# gpucredit.tenant_transaction_max.
sub _open_until
{
	my ($self) = @_;
	my ($idle, $all) = ($self->{now} + MINUTE, $self->{opened} + 5 * MINUTE);

	return $idle < $all ? $idle : $all;
}

sub _session_timeout
{
	my ($self) = @_;

	$self->_open('rollback') if $self->{open} && $self->{open_until} <= $self->{now};
	return;
}

# The end: all that the attackers have is cancelled, and paid.
sub _finish
{
	my ($self) = @_;
	my $mine = [ @{ $self->{org} }{qw(m z)} ];

	$self->_open('rollback');
	foreach my $turn (1 .. 8)
	{
		$self->_clock;
		$self->_ask_honestly(
			q{SELECT (gpucredit.cancel(j.org, j.job, 'end ' || j.job)).job_state
			FROM gpucredit.job j WHERE j.org = ANY($1)
				AND state NOT IN ('completed', 'failed', 'cancelled', 'timeout')}, $mine)
		  if $turn == 1;
		$self->_agents;
		$self->_charge;
		last unless %{ $self->{kept} } || grep { !$_->{honest} } values %{ $self->{procs} };
		$self->_pass($self->{now} + 2 * MINUTE);
	}
	push @{ $self->{stopped} }, "the attackers keep devices: @{[ sort keys %{ $self->{kept} } ]}"
	  if %{ $self->{kept} };
	# what no credit covers is recorded as uncollected; what the platform took
	# back may be forgiven
	$self->{bills} = $self->_ask(
		q{SELECT org || '/' || job || '/' || attempt AS key, billed
			+ CASE WHEN (gpucredit.balance(org)).available < uncollected::numeric THEN uncollected ELSE '0' END
			- CASE WHEN outcome IN ('preempted', 'resized') THEN '0' ELSE coalesce(refunded, '0') END AS paid
		FROM gpucredit.attempt WHERE org = ANY($1) ORDER BY org, job, attempt}, $mine);
	# what an attempt keeps, beyond min_run, whose job was evicted before
	($self->{spared}) = map { $_->{seconds} } @{
		$self->_ask(
			q{SELECT coalesce(max(CASE WHEN n >= 3 THEN 86400
				ELSE 600 * (power(4, n) - 1) + 4 * least(3600, redone) END), 0) AS seconds
			FROM (SELECT count(*) AS n, sum(greatest(0, extract(epoch FROM a.ended_at - coalesce(a.saved_at, a.started_at)))) AS redone
				FROM gpucredit.attempt a WHERE a.org = ANY($1) AND a.outcome = 'preempted' AND a.ended_by <> 'app'
					AND EXISTS (SELECT FROM gpucredit.attempt l WHERE l.org = a.org AND l.job = a.job AND l.attempt > a.attempt)
				GROUP BY a.org, a.job) e}, $mine)
	};
	return;
}

# What came of it.
sub _result
{
	my ($self) = @_;
	my $wait = 0;

	foreach my $job (@{ $self->{honest} })
	{
		my $waited = $job->{waited}
		  + (defined $self->{waits}{ $job->{job} } ? $self->{now} - $self->{waits}{ $job->{job} } : 0);

		$wait = $waited if $waited > $wait;
	}
	# the attempt that is furthest from what it should have paid
	my ($cost, $paid, $all) = (0, 0, 0);

	foreach my $bill (@{ $self->{bills} || [] })
	{
		my $should = $self->{cost}{ $bill->{key} } or next;

		$all += $should;
		($cost, $paid) = ($should, $bill->{paid})
		  if $cost == 0 || ($bill->{paid} - $should) / $should < ($paid - $cost) / $cost && $should > LEAST_COST;
	}
	return {
		used    => $all,
		cost    => $cost,
		paid    => $paid,
		wait    => $wait / SECOND,
		spared  => $self->{spared} || 0,
		evicted => $self->{evicted},
		errors  => $self->{errors},
		stopped => $self->{stopped},
		hours   => ($self->{now} - $self->{start}) / HOUR };
}

# The wire

sub _instant
{
	my ($self) = @_;
	my $us = $self->{now} % SECOND;

	return strftime('%Y-%m-%d %H:%M:%S', gmtime(BASE + ($self->{now} - $us) / SECOND)) . sprintf('.%06d+00', $us);
}

sub _clock
{
	my ($self) = @_;

	$self->{now} //= 0;
	$self->_run("SET gpucredit.clock = '" . $self->_instant . "'");
	$self->{second}->do("SET gpucredit.clock = '" . $self->_instant . "'") if $self->{open};
	return;
}

sub _run
{
	my ($self, $sql) = @_;

	push @{ $self->{trace} }, $sql if $self->{trace};
	$self->{dbh}->do($sql);
	return;
}

# A prepared statement's rows, as hashes.
sub _ask
{
	my ($self, $sql, @args) = @_;
	my $statement = $self->{dbh}->prepare_cached($sql);

	push @{ $self->{trace} }, $self->_text($sql, @args) if $self->{trace};
	$statement->execute(@args);
	return $statement->fetchall_arrayref({});
}

# A statement with its arguments, to be replayed.
sub _text
{
	my ($self, $sql, @args) = @_;

	@args = map {
		ref $_ ? $self->{dbh}->quote('{' . join(',', map { $_ // 'NULL' } @$_) . '}')
		  : defined $_ ? $self->{dbh}->quote($_) : 'NULL'
	} @args;
	return $sql =~ s/\s+/ /gr =~ s/\$(\d)/$args[$1 - 1]/gr;
}

1;
