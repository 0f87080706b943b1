# calls.pl WHAT ROUNDS JOBS DIR DIR: the time of calls in two servers
#
# A session in each server makes a hundred calls in turns: what disturbs the
# machine disturbs both alike.  meter, reserve: by one statement; submit: of
# reserve, each a transaction.  Prints for each server the median of a call in
# microseconds.
use strict;
use warnings;

use DBI;
use Time::HiRes qw(time);

my ($what, $rounds, $jobs, @dirs) = @ARGV;
my @sessions = map { session($_) } @dirs;
my $made = 0;

foreach my $round (-10 .. $rounds - 1)
{
	$made++;
	foreach my $session ($round % 2 ? @sessions : reverse @sessions)
	{
		my $took = make_calls($session);

		push @{ $session->{took} }, $took if $round >= 0;
	}
}
foreach my $session (@sessions)
{
	my @sorted = sort { $a <=> $b } @{ $session->{took} };

	printf "%.3f ", 1e4 * $sorted[ @sorted / 2 ];
}
print "\n";

sub session
{
	my ($dir) = @_;

	open(my $file, '<', "$dir/port") or die "could not read $dir/port: $!\n";
	chomp(my $port = <$file>);
	my $dbh = DBI->connect("dbi:Pg:dbname=calls;host=$dir/socket;port=$port",
		undef, undef, { RaiseError => 1, PrintError => 0 });
	my ($from) = $dbh->selectrow_array(
		$what eq 'meter'
		? 'SELECT 1 + ceil(extract(epoch FROM max(elapsed))) FROM gpucredit.attempt'
		: 'SELECT count(*) FROM gpucredit.request');
	return {
		dbh => $dbh,
		submit => $dbh->prepare(
			q{SELECT * FROM gpucredit.reserve($1, $2, $3, '1xH100', '4 hours',
				'production_inference')}),
		from => $from,
		took => []
	};
}

# Every heartbeat is news: of other attempts each time, and later.
sub make_calls
{
	my ($session) = @_;
	my $since = time;

	if ($what eq 'meter')
	{
		my $first = 1 + $made * 100 % $jobs;

		$session->{dbh}->do(
			q{SELECT count(m.action) FROM generate_series($1::int, $1 + 99) n,
				gpucredit.meter((n % 100)::text, n, 1, $2::interval) m},
			undef, $first, ($session->{from} + $made) . ' s');
	}
	elsif ($what eq 'submit')
	{
		foreach my $n (1 .. 100)
		{
			my $call = $session->{from} + $made * 100 + $n;

			$session->{submit}->execute($call % 100, $call % 10, "call $call");
			$session->{submit}->finish;
		}
	}
	else
	{
		$session->{dbh}->do(
			q{SELECT count(r.status) FROM generate_series($1::int, $1 + 99) n,
				gpucredit.reserve((n % 100)::text, (n % 10)::text, 'calls ' || n,
					'1xH100', '4 hours', 'production_inference') r},
			undef, $session->{from} + $made * 100);
	}
	return time - $since;
}
