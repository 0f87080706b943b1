#!/usr/bin/perl
# scale.pl: what breaks first in a fleet of cells.
#
#   perl cells/tools/scale.pl [CELLS ACCOUNTS GPUS [FACTOR]]
#
# Deals organisations of very unequal size to cells, adds up what each cell has
# to do, and divides by what one cell was measured to do (docs/benchmarks.md).
# A use above 1 is more than the thing can do.
use strict;
use warnings;

my ($cells, $accounts, $gpus, $factor) = ($ARGV[0] // 100,
	$ARGV[1] // 10_000_000, $ARGV[2] // 1_000_000, $ARGV[3]);

# What one cell of two cores was measured to do.
my %can = (
	'heartbeats, single, durable'   => 5_000,      # a second
	'heartbeats in batches'         => 81_456,     # a second, one client
	'reserve and settle'            => 1_810,      # pairs a second
	'starts of jobs'                => 10_521,     # a second
	'entries in verify()'           => 478_500,    # a second
	'entries sealed'                => 342_556,    # a second
	'nodes seen by cycles'          => 38_000,     # a second, a cycle each second
	'messages of leases'            => 25,         # a second, one carrier, load 20
	'connections'                   => 1_000,      # backends of one cell
);

# What is assumed of the load; each GPU runs jobs of an hour, agents report all
# they run each 10 s, a tenth of the organisations spends in one other region.
my $per_org     = 100;               # accounts
my $gpus_a_node = 8;
my $gpus_a_job  = 4;
my $job_seconds = 3_600;
my $beat        = 10;
my $remote      = 0.1;
my $top_up      = 60;                # seconds between two reports of a lease
my $router_share = 1.35;             # processor time through a router
my $sessions    = 50;                # logins that a router keeps to each cell

sub loads
{
	my ($accounts, $gpus) = @_;
	my $orgs  = int($accounts / $per_org) || 1;
	my @cell  = (0) x $cells;
	my $total = 0;
	my @size;

	# sizes as one over the rank; the largest first, each to the emptiest cell
	for my $rank (1 .. ($orgs < 20_000 ? $orgs : 20_000))
	{
		push @size, 1 / $rank;
		$total += 1 / $rank;
	}
	my $rest = $orgs > @size ? log($orgs / @size) : 0;
	for my $size (@size)
	{
		my $least = 0;
		$cell[$_] < $cell[$least] and $least = $_ for 1 .. $#cell;
		$cell[$least] += $size / ($total + $rest);
	}
	my ($most) = sort { $b <=> $a } map { $_ + $rest / ($total + $rest) / $cells } @cell;
	my $busiest = $most * $gpus;     # GPUs of the cell that has most to do
	my $jobs    = $busiest / $gpus_a_job;
	my $pairs   = $jobs / $job_seconds;
	my $routers = 1 + int($gpus / $gpus_a_job / $job_seconds * 2 * 0.0006 * $router_share);

	return (
		[ 'heartbeats, single, durable', $jobs / $beat ],
		[ 'heartbeats in batches', $jobs / $beat ],
		[ 'reserve and settle', $pairs ],
		[ 'starts of jobs', $pairs ],
		[ 'entries in verify()', $pairs * 3 * 86_400 / 3_600 ],    # a day's in an hour
		[ 'entries sealed', $pairs * 3 ],
		[ 'nodes seen by cycles', $busiest / $gpus_a_node ],
		[ 'messages of leases', $orgs * $remote / $cells / $top_up * 2 ],
		[ 'connections', $routers * $sessions ],
	), $most * $cells, $routers;
}

for my $times ($factor ? $factor : (1, 10, 100))
{
	my @rows   = loads($accounts * $times, $gpus * $times);
	my $router = pop @rows;
	my $skew   = pop @rows;

	printf "%d cells, %.0f accounts, %.0f GPUs; %d routers; the busiest cell has %.1f times its share\n",
	  $cells, $accounts * $times, $gpus * $times, $router, $skew;
	printf "  %-32s %12.0f of %8d  use %8.3f\n", @$_
	  for sort { $b->[3] <=> $a->[3] } map { [ $_->[0], $_->[1], $can{ $_->[0] }, $_->[1] / $can{ $_->[0] } ] } @rows;
}
