# place.pl: times scheduling cycles, as tools/bench asks
#
#   fill STARTS     calls place() until nothing starts; prints starts/s
#   idle CYCLES     times cycles that start nothing; prints ms of each but
#                   the first, which prepares its statements
#   reclaim GPUS    one cycle of the pool "reclaim" promises so many devices to
#                   one job and makes as many others leave; prints its seconds
#
# Every call is a transaction of its own whose rows are fetched.

use strict;
use warnings;
use DBI;
use Time::HiRes qw(time);

my ($mode, $count) = @ARGV;
my $dbh = DBI->connect('dbi:Pg:', undef, undef,
	{ AutoCommit => 1, RaiseError => 1, PrintError => 0 });
my $place = $dbh->prepare('SELECT * FROM gpucredit.place(?)');
my $pool  = $mode eq 'reclaim' ? 'reclaim' : 'default';

# One cycle: how many rows, and how long it took.
sub cycle
{
	my $started = time;
	$place->execute($pool);
	my $rows = @{ $place->fetchall_arrayref };
	return ($rows, time - $started);
}

if ($mode eq 'fill')
{
	my ($starts, $seconds) = (0, 0);
	while (1)
	{
		my ($rows, $took) = cycle();
		last if $rows == 0;
		$starts  += $rows;
		$seconds += $took;
	}
	die "$starts jobs were started, not $count\n" if $starts != $count;
	printf "%.1f\n", $starts / $seconds;
}
elsif ($mode eq 'reclaim')
{
	# nobody waits for evictions that cost nothing
	$dbh->do('SET gpucredit.restart_cost = 0');
	$place->execute('default');		# prepares statements
	$place->fetchall_arrayref;
	my ($rows, $took) = cycle();
	my ($promised, $victims) = $dbh->selectrow_array(q{
		SELECT (SELECT sum(gpucredit.gpu_count(gpus)) FROM gpucredit.claim_gpu),
			(SELECT count(*) FROM gpucredit.eviction)});
	die "$promised devices were promised, $victims jobs leave; not $count\n"
	  if $promised != $count || $victims != $count;
	printf "%.3f\n", $took;
}
else
{
	for my $i (0 .. $count - 1)
	{
		my ($rows, $took) = cycle();
		die "a cycle that was to be idle started something\n" if $rows != 0;
		printf "%.2f\n", $took * 1000 if $i > 0;
	}
}
