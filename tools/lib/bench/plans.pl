# plans.pl LOG PLANS TABLES: what auto_explain said of the hot calls
#
# LOG is psql's standard error: a line "## name" before each call, then its
# notices.  Writes each statement with its plan once a call to PLANS, and
# prints a line for every sequential scan of one of TABLES (names, separated
# by spaces).

use strict;
use warnings;

my ($log, $plans, $names) = @ARGV;
my %tenant = map { $_ => 1 } split ' ', $names;
my ($call, @notices);
open my $in, '<', $log or die "$log: $!\n";
while (my $line = <$in>)
{
	if ($line =~ /## (\w+)/)
	{
		$call = $1;
	}
	elsif ($line =~ /NOTICE:  duration: .* plan:/)
	{
		push @notices, { call => $call, text => '' };
	}
	elsif (@notices)
	{
		$notices[-1]{text} .= $line;
	}
}
die "no plan in $log\n" if !@notices;

my (%seen, $last);
open my $out, '>', $plans or die "$plans: $!\n";
for my $notice (@notices)
{
	next if $seen{ $notice->{call} }{ $notice->{text} }++;
	print $out "\n## $notice->{call}\n" if ($last // '') ne $notice->{call};
	$last = $notice->{call};
	print $out "\n$notice->{text}";
	while ($notice->{text} =~ /Seq Scan on (\w+)/g)
	{
		print "sequential scan of $1 in $notice->{call}\n" if $tenant{$1};
	}
}
close $out or die "$plans: $!\n";
