# GpuCreditHarness.pm: TAP::Harness that also counts what passed and failed
#
# prove and pg_prove print their results for people.  With
# --harness=GpuCreditHarness they print the same and append one line "PASSED
# FAILED" to the file named by GC_TOTALS.  A test file that died, broke its
# plan, or ran no test at all without saying why counts as one failure, also
# when all tests it reported were fine.
package GpuCreditHarness;

use strict;
use warnings;

use parent 'TAP::Harness';

sub summary
{
	my ($self, $aggregate) = @_;
	my ($passed, $failed) = (0, 0);

	foreach my $parser ($aggregate->parsers)
	{
		my $bad = scalar($parser->failed);

		$bad = 1
		  if $bad == 0
		  && ( $parser->has_problems
			|| !($parser->tests_run || defined $parser->skip_all));
		$passed += $parser->passed;
		$failed += $bad;
	}

	open(my $totals, '>>', $ENV{GC_TOTALS})
	  or die "could not write $ENV{GC_TOTALS}: $!";
	print $totals "$passed $failed\n";
	close($totals) or die "could not write $ENV{GC_TOTALS}: $!";

	return $self->SUPER::summary($aggregate);
}

1;
