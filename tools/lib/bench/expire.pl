# expire.pl: calls expire_credits() until nothing is left, each call a
# transaction; prints how long it took in ms
#
#   expire.pl BUCKETS      how many there must have been

use strict;
use warnings;
use DBI;
use Time::HiRes qw(time);

my ($expected) = @ARGV;
my $dbh = DBI->connect('dbi:Pg:', undef, undef,
	{ AutoCommit => 1, RaiseError => 1, PrintError => 0 });
my $expire = $dbh->prepare('SELECT affected FROM gpucredit.expire_credits()');
my ($total, $started) = (0, time);

while (1)
{
	$expire->execute;
	my ($n) = $expire->fetchrow_array;

	$expire->finish;
	last if $n == 0;
	$total += $n;
}
my $ms = (time - $started) * 1000;

die "$total buckets were swept, not $expected\n" if $total != $expected;
printf "%.1f\n", $ms;
