#!/usr/bin/perl
# cells.pl: measures a router and two cells for bench_cells.sh
#
#   perl cells.pl QUICK FOLDER    FOLDER has the servers router, cell0, cell1
#
# Prints a name and a number a line.
use strict;
use warnings;
use DBI;
use Time::HiRes qw(time);

my ($quick, $folder) = @ARGV;
my %at = map { my $name = $_; open my $in, '<', "$folder/$name/port" or die "$!\n";
	chomp(my $port = <$in>); $name => [ "$folder/$name/socket", $port ] } qw(router cell0 cell1);
my ($calls, $turns) = $quick ? (100, 3) : (300, 7);

sub dsn { return sprintf 'host=%s port=%s dbname=credit', @{ $at{ $_[0] } } }

sub client
{
	my ($name, $db) = @_;
	return DBI->connect(sprintf('dbi:Pg:host=%s;port=%s;dbname=%s', @{ $at{$name} }, $db || 'credit'),
		'postgres', undef, { RaiseError => 1, PrintError => 0, AutoInactiveDestroy => 1 });
}

# Processor time of processes, in ms.
sub cpu
{
	my $ms = 0;
	foreach my $pid (@_)
	{
		open my $in, '<', "/proc/$pid/schedstat" or die "/proc/$pid: $!\n";
		$ms += (split ' ', <$in>)[0] / 1e6;
	}
	return $ms;
}

sub median { my @s = sort { $a <=> $b } @_; return $s[ @s / 2 ] }

# the servers
foreach my $name (qw(router cell0 cell1))
{
	client($name, 'postgres')->do('CREATE DATABASE credit');
	my $dbh = client($name);
	$dbh->do($_) foreach 'SET client_min_messages = warning', 'CREATE EXTENSION gpucredit_cells CASCADE';
}
my $router = client('router');
$router->do('CREATE EXTENSION plproxy');
$router->do(q{SELECT gpucredit_cells.set_cell(?, 'here', ?, ?)}, undef, $_, dsn($_), $_)
  foreach qw(cell0 cell1);
foreach my $name (qw(cell0 cell1))
{
	my $dbh = client($name);
	foreach my $i (0, 1)
	{
		$dbh->do(q{INSERT INTO gpucredit_cells.cell VALUES (?, ?, 'here', ?)}, undef, "cell$i", $i, dsn("cell$i"));
	}
	$dbh->do('SELECT gpucredit_cells.join_cells(?)', undef, $name);
	$dbh->do($_) foreach 'ALTER ROLE gpucredit_router LOGIN', 'ALTER ROLE gpucredit_mover LOGIN', 'GRANT gpucredit_admin TO gpucredit_router',
	  'GRANT gpucredit_agent TO gpucredit_admin';
	$dbh->do(q{SELECT gpucredit.set_price('T4', 1)});
}
$router->do('SELECT gpucredit_cells.make_router()');
foreach my $i (0, 1)
{
	my $org = "org$i";
	$router->do('SELECT gpucredit_cells.set_home(?, ?, ?)', undef, $org, "cell$i", $org);
	$router->do('SELECT gpucredit.create_account(?)', undef, $org);
	$router->do(q{SELECT gpucredit.issue(?, '', 'all', 1000000000)}, undef, $org);
}

# 1. reserve, meter_batch, settle of the same organisation, in turns
my $straight = client('cell0');
my $setup    = client('cell0');
$setup->do(q{SELECT gpucredit.register_node('default', 'n' || i, 'T4', 64, 16000) FROM generate_series(1, 2000) i});
my %job;
foreach my $side (qw(direct routed))
{
	my $n = $calls * $turns;
	$job{$side} = $setup->selectcol_arrayref(qq{SELECT (gpucredit.reserve('org0', '', '$side ' || i, '1xT4',
		'1 hour')).job FROM generate_series(1, $n) i});
}
1 while $setup->selectrow_array(q{SELECT count(*) FROM gpucredit.place('default')});
$setup->do('ANALYZE');
my %sql = (
	reserve => q{SELECT * FROM gpucredit.reserve('org0', '', $1, '1xT4', '1 hour')},
	meter_batch => q{SELECT * FROM gpucredit.meter_batch($1, $2, $3, $4)},
	settle => q{SELECT * FROM gpucredit.settle('org0', $1, 1, 'completed')});
my $apid = $router->selectrow_array('SELECT pg_backend_pid()');
$router->do(q{SELECT available FROM gpucredit.balance('org0')});
my ($behind) = $setup->selectrow_array(q{SELECT pid FROM pg_stat_activity WHERE datname = 'credit'
	AND pid NOT IN (pg_backend_pid(), ?) AND backend_type = 'client backend' ORDER BY query_start DESC LIMIT 1},
	undef, $straight->{pg_pid});
my %side = (direct => [ $straight, $straight->{pg_pid} ], routed => [ $router, $apid, $behind ]);
foreach my $what (qw(reserve meter_batch settle))
{
	my (%ms, @ratio);
	my %sth = map { $_ => $side{$_}[0]->prepare($sql{$what}) } keys %side;
	foreach my $turn (0 .. $turns - 1)
	{
		my %took;
		foreach my $name (qw(direct routed))
		{
			my (undef, @pids) = @{ $side{$name} };
			my $before = cpu(@pids);
			foreach my $i (1 .. $calls)
			{
				my $nth = $turn * $calls + $i - 1;
				if ($what eq 'reserve') { $sth{$name}->execute("$name new $nth") }
				elsif ($what eq 'settle') { $sth{$name}->execute($job{$name}[$nth]) }
				elsif ($i % 10 == 0)
				{
					# a batch of 1,000, a tenth as often
					my @of = map { $job{$name}[ $_ % @{ $job{$name} } ] } 0 .. 999;
					$sth{$name}->execute([ ('org0') x 1000 ], \@of, [ (1) x 1000 ], [ ("$nth ms") x 1000 ]);
				}
				$sth{$name}->fetchall_arrayref if $sth{$name}->{Active};
			}
			$took{$name} = (cpu(@pids) - $before) / ($what eq 'meter_batch' ? $calls / 10 : $calls);
		}
		push @ratio, $took{routed} / $took{direct} if $turn;    # the first warms up
		push @{ $ms{$_} }, $took{$_} foreach keys %took;
	}
	printf "%s_routed/direct %.3f\n", $what, median(@ratio);
	printf "%s_direct_ms %.3f\n", $what, median(@{ $ms{direct} });
}

# 2. reserve on credit that is leased while carriers top it up, on the same while
# nothing has to be topped up, and on a home's own, in turns in one session; then
# how fast leases are carried
foreach my $name (qw(cell0 cell1))
{
	client($name)->do('ALTER ROLE gpucredit_peer LOGIN');
}
my @carriers = map {
	my $name = $_;
	my $pid  = fork() // die;
	if (!$pid)
	{
		client($name)->do(q{CALL gpucredit_cells.carry_for('1 hour', '0.1 s')});
		exec 'true';
	}
	$pid
} qw(cell0 cell1);
$setup->do(q{SELECT gpucredit_cells.set_lease_policy('org0', '', 'cell1', 99990, 100000)});
my $there = client('cell1');
$there->do(q{SELECT gpucredit.register_node('default', 'elsewhere', 'T4', 8, 16000)});
1 until $there->selectrow_array(q{SELECT count(*) FROM gpucredit_cells.lease_in, pg_sleep(0.1)});
{
	my %side = (topped => [ 'org0', 99990 ], leased => [ 'org0', 1 ], own => [ 'org1', 1 ]);
	my (@topped, @leased);
	foreach my $turn (0 .. 2 * $turns)
	{
		my %took;
		foreach my $name (sort keys %side)
		{
			my ($org, $minimum) = @{ $side{$name} };
			my $sth = $there->prepare_cached(
				qq{SELECT status FROM gpucredit.reserve('$org', '', \$1, '1xT4', '1 hour')});
			$setup->do(qq{SELECT gpucredit_cells.set_lease_policy('org0', '', 'cell1', $minimum, 100000)});
			my $before = cpu($there->{pg_pid});
			foreach my $i (1 .. $calls)
			{
				$sth->execute("$name $turn $i");
				die "a reserve was denied\n" if ($sth->fetchrow_array)[0] ne 'granted';
				$sth->finish;
			}
			$took{$name} = cpu($there->{pg_pid}) - $before;
		}
		next unless $turn;
		push @topped, $took{topped} / $took{leased};
		push @leased, $took{leased} / $took{own};
	}
	printf "reserve_while_leases_are_topped_up/while_not %.3f\n", median(@topped);
	printf "reserve_of_lent/own_credit %.3f\n", median(@leased);
	printf "leases_meanwhile %d\n", scalar $setup->selectrow_array('SELECT count(*) FROM gpucredit_cells.lease_out');
}
kill TERM => @carriers;
waitpid $_, 0 foreach @carriers;
1 while $setup->selectrow_array(q{SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'CALL gpucredit_cells.carry_for%'
	AND pid <> pg_backend_pid() AND pg_terminate_backend(pid, 1000)});
$setup->do(q{SELECT gpucredit_cells.lease('org0', '', 'cell1', 'many ' || i, 1, '1 hour') FROM generate_series(1, 1000) i});
{
	my $began = time;
	my ($sent) = $setup->selectrow_array('SELECT sum(sent) FROM gpucredit_cells.carry(1000)');
	printf "messages_carried %.0f\n", $sent / (time - $began);
}

# 3. one cell, and two, with commits of 2 ms; four clients each
sub rate
{
	my ($seconds, @orgs) = @_;
	my @from;
	my $until = time + 1 + $seconds;
	foreach my $org (map { ($_) x 4 } @orgs)
	{
		pipe my $in, my $out or die;
		if (!(fork() // die))
		{
			my $dbh = client('router');
			my $sth = $dbh->prepare(q{SELECT * FROM gpucredit.hold($1, '', $2, 0.000001, '1 hour')});
			my $n = 0;
			$sth->execute($org, "warm $$ " . time);
			while (time < $until)
			{
				$sth->execute($org, "$$ $n " . time);
				$n++ if time > $until - $seconds;
			}
			syswrite $out, "$n\n";
			exec 'true';
		}
		push @from, $in;
	}
	my $n = 0;
	$n += readline $_ foreach @from;
	1 while wait != -1;
	return $n / $seconds;
}

foreach my $name (qw(cell0 cell1))
{
	my $dbh = client($name);
	$dbh->do("ALTER DATABASE credit SET $_") foreach 'commit_delay = 2000', 'commit_siblings = 0';
}
my @more;
foreach (1 .. ($quick ? 3 : 5))
{
	my $one = rate(3, 'org0');
	push @more, rate(3, 'org0', 'org1') / $one;
}
printf "second_cell,_commits_of_2_ms %.3f\n", median(@more);

# 4. an organisation of 100,000 entries moves
my $entries = $quick ? 20_000 : 100_000;
$router->do(q{SELECT gpucredit_cells.set_home('big', 'cell0', 'big')});
$router->do(q{SELECT gpucredit.create_account('big')});
$router->do(q{SELECT gpucredit.issue('big', '', 'all', 1000000)});
my $big = client('cell0');
foreach my $i (1 .. $entries / 2000)
{
	$big->do(qq{SELECT gpucredit.release('big', (gpucredit.hold('big', '', '$i/' || i, 1, '1 hour')).hold, '$i-' || i)
		FROM generate_series(1, 1000) i});
}
$big->do('ANALYZE');
$router->do(q{CALL gpucredit_cells.move_org('big', 'cell1', 'move')});
printf "move_of_%d_entries,_frozen %.2f\n", $entries, $router->selectrow_array(
	q{SELECT extract(epoch FROM switched_at - frozen_at) FROM gpucredit_cells.move});
foreach my $name (qw(cell0 cell1))
{
	my $wrong = client($name)->selectall_arrayref('SELECT * FROM gpucredit.verify()');
	die "verify() is not empty in $name: @{ $wrong->[0] }\n" if @$wrong;
}
