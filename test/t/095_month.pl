# 095_month.pl: weeks in which everything fails now and then
#
# This plays a few days of a few hundred jobs; tools/month plays a whole month.
# GC_SEED, GC_JOBS, GC_DAYS choose others.  All events follow from the seed.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl", "$FindBin::RealBin/../month";
use GpuCredit;
use Month;
use Test::More;

my $seed = $ENV{GC_SEED} || 1;
my $jobs = $ENV{GC_JOBS} || 400;
my $days = $ENV{GC_DAYS} || 2;
my $node = new_node('main', 'synchronous_commit = off',
	'full_page_writes = off', 'jit = off');

new_database($node, 'month');
my $month = Month->new(connect_to($node, 'month'),
	seed => $seed, jobs => $jobs, days => $days);
my $held = eval { $month->run; 1 };

ok($held, "seed $seed: every promise held over $days days of $jobs jobs")
  or diag($@);
note($_) foreach $month->report;
verify_empty($node, 'month');
done_testing();
