# 090_kills.pl: any server dies at any moment, and each call takes effect once
#
# In each round an organisation moves while a client of it works through the
# router and another one spends leased credit in the other cell.  Meanwhile one
# server is killed (SIGKILL) and starts again.  Clients, carriers and the mover
# repeat calls without an answer, under their keys.  GC_KILLS rounds (3);
# GC_SEED=n repeats the moments.
#
# Packages: postgresql-N-plproxy
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../test/perl", "$FindBin::RealBin/lib";
use GpuCredit;
use GpuCreditCells;
use Test::More;
use Time::HiRes qw(sleep time);

my $rounds = $ENV{GC_KILLS} || 3;
my $seed   = $ENV{GC_SEED}  || time % 1000000;
my $calls  = 15;
my $cells  = GpuCreditCells->new(qw(a b));
my ($spent, %moments) = (0);

diag("GC_SEED=$seed");
srand($seed);
$cells->at_router($_)
  foreach q{SELECT gpucredit_cells.set_home('acme', 'a', 'home acme')},
  q{SELECT gpucredit.create_account('acme'), gpucredit.issue('acme', '', 'bought', 100000)};
query($cells->{a}, 'credit', q{SELECT gpucredit_cells.set_lease_policy('acme', '', 'b', 20, 40, '1 hour')});

# The answer to a statement, asked until a server gives one.  An error that no
# dying or moving server explains ends the process.
sub insist
{
	my ($name, $sql) = @_;
	my $until = time + 300;
	my $why   = '';

	while (time < $until)
	{
		my $dbh = eval { connect_to($cells->{$name}, 'credit') };
		my ($answer, $state);

		if ($dbh)
		{
			return $answer if eval {
				$answer = $sql =~ /^CALL/ ? $dbh->do($sql) : $dbh->selectrow_array($sql) // '';
				1;
			};
			($state, $why) = ($dbh->state, $dbh->errstr);
			die "$state $why\n" if $state !~ /^(08|57|55P03|UC70[12])/;
		}
		sleep 0.05;
	}
	die "no answer: $why\n";
}

# A client of an organisation that moves.
sub work
{
	my ($org) = @_;

	foreach my $i (1 .. $calls)
	{
		my $hold = insist('router', "SELECT hold FROM gpucredit.hold('$org', '', 'hold $i', 2, '1 hour')");

		insist('router', "SELECT gpucredit.capture('$org', $hold, 'capture $i', 1)");
	}
	return;
}

# A client in the other cell, of credit that is leased to it.
sub spend
{
	my ($round) = @_;

	foreach my $i (1 .. $calls)
	{
		my ($hold, $tries) = ('', 0);

		# denied: another key, as soon as the lease has come
		while ($hold eq '')
		{
			$hold = insist('b', "SELECT hold FROM gpucredit.hold('acme', '', '$round hold $i " . $tries++ . "', 2, '1 hour')");
			sleep 0.1 if $hold eq '';
			die "nothing is leased\n" if $tries > 2000;
		}
		insist('b', "SELECT gpucredit.capture('acme', $hold, '$round capture $i', 1)");
	}
	return;
}

# Moves the organisation; a move that was undone is made again.
sub move
{
	my ($org) = @_;

	foreach my $try (1 .. 20)
	{
		return if eval { insist('router', "CALL gpucredit_cells.move_org('$org', 'b', 'move $org $try')"); 1 };
		die $@ if $@ !~ /^UC704/;
	}
	die "it never moved\n";
}

sub carry
{
	my ($name) = @_;

	return insist($name, q{SELECT coalesce(sum(sent + waiting), 0) FROM gpucredit_cells.carry(patience => '20 s')});
}

# The first lease
carry($_) foreach qw(a b a b);

foreach my $round (1 .. $rounds)
{
	my $victim = (qw(a router b))[ $round % 3 ];
	my $org    = "org$round";
	my $stop   = $cells->{router}->basedir . '/stop';
	my @works;

	unlink $stop;
	$cells->at_router($_) foreach "SELECT gpucredit_cells.set_home('$org', 'a', 'home $org')",
	  "SELECT gpucredit.create_account('$org'), gpucredit.issue('$org', '', 'bought', 1000)";
	my @carriers = in_parallel(2, sub {
		my $name = (qw(a b))[ $_[0] ];

		until (-e $stop) { carry($name); sleep 0.1 }
	});
	push @works, in_parallel(1, $_) foreach sub { work($org) }, sub { spend($round) },
	  sub { move($org) };

	# some moment of one of the move's longer steps
	my $step = (qw(begun copied switched))[ rand 3 ];
	$cells->{router}->poll_query_until('credit', "SELECT count(*) > 0 FROM gpucredit_cells.move
		CROSS JOIN (VALUES ('{begun,copied,taken,switched,done,undone}'::text[])) v (s)
		WHERE org = '$org' AND array_position(s, step) >= array_position(s, '$step')")
	  or die "the move does not begin\n";
	sleep rand 0.5;
	$moments{ $cells->at_router("SELECT step FROM gpucredit_cells.move WHERE org = '$org' ORDER BY epoch DESC LIMIT 1") }++;
	kill_server($cells->{$victim});
	$cells->{$victim}->start;
	is(wait_for_children(@works), 0, "round $round, $victim dies: all get their answers");
	open(my $file, '>', $stop) or die $!;
	close $file;
	is(wait_for_children(@carriers), 0, '... and messages are carried');
	$spent += $calls;
	is($cells->at_router("SELECT trim_scale(available), trim_scale(held), trim_scale(spent) FROM gpucredit.balance('$org')"),
		(1000 - $calls) . "|0|$calls", '... each call of its client happened once');
	is($cells->at_router("SELECT cell FROM gpucredit_cells.home WHERE org = '$org'"), 'b', '... and it moved');
}
note("the move was at: $_, $moments{$_} times") foreach sort keys %moments;

# What was leased and not spent comes home.
query($cells->{a}, 'credit', q{SELECT gpucredit_cells.set_lease_policy('acme', '', 'b', NULL)});
query($cells->{a}, 'credit', q{SELECT gpucredit_cells.recall('acme', lease) FROM gpucredit_cells.lease_out WHERE closed_at IS NULL});
foreach (1 .. 12) { last unless carry('a') + carry('b') }
is($cells->at_router(q{SELECT trim_scale(available), trim_scale(held), trim_scale(spent) FROM gpucredit.balance('acme')}),
	(100000 - $spent) . "|0|$spent", 'what was spent on leases is captured at home, once');
is(query($cells->{a}, 'credit', 'SELECT count(*) FROM gpucredit_cells.finding'), '0', 'no end of a lease forgot anything');
$cells->verify_all;
is($cells->at_router('SELECT * FROM gpucredit_cells.verify_cells()'), '', 'verify_cells() is empty');
done_testing();
