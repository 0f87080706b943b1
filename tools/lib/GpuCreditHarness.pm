# GpuCreditHarness.pm: TAP::Harness that also counts what passed and failed
#
# prove and pg_prove print their results for people.  With
# --harness=GpuCreditHarness they print the same and append a line "PASSED
# FAILED SUITE SECONDS" for each test file to the file named by GC_TOTALS.  A
# test file that died, broke its plan, or ran no test at all without saying why
# counts as one failure, also when all tests it reported were fine.  Each failure
# is a line of the file named by GC_FAILURES.
package GpuCreditHarness;

use strict;
use warnings;

use Cwd 'getcwd';
use File::Spec;
use File::Temp;

use parent 'TAP::Harness';

# The lines of standard error that are kept of a test file that failed.
use constant REASONS => 12;

# What a program writes to its standard error goes to a file, too.
sub new
{
	my ($class, @arguments) = @_;
	my $self = $class->SUPER::new(@arguments);

	$self->callback(
		parser_args => sub {
			my ($args, $job) = @_;
			my $file = File::Temp->new;
			my $command = $args->{exec};

			$command = [ $^X, $args->{source} ]
			  if !$command && ($args->{source} // '') =~ /\.pl\z/;
			return unless $command;
			$self->{gc_stderr}{ $job->[1] } = $file;
			$args->{exec} =
			  [ 'bash', '-c', 'exec "$@" 2> >(trap "" INT TERM; exec tee "$0" >&2)', $file->filename, @$command ];
			delete $args->{source};
		});
	return $self;
}

# A parser keeps only the numbers of tests that failed, so their names are kept
# here.
sub make_parser
{
	my ($self, @arguments) = @_;
	my ($parser, $session) = $self->SUPER::make_parser(@arguments);

	$parser->callback(
		test => sub {
			my ($test) = @_;

			push @{ $parser->{gc_failed} }, 'not ok ' . $test->number . ' ' . $test->description
			  unless $test->is_ok;
		});
	return ($parser, $session);
}

sub summary
{
	my ($self, $aggregate) = @_;
	my @failures;

	open(my $totals, '>>', $ENV{GC_TOTALS})
	  or die "could not write $ENV{GC_TOTALS}: $!";
	foreach my $name ($aggregate->descriptions)
	{
		my ($parser) = $aggregate->parsers($name);
		my $bad = scalar($parser->failed);

		$bad = 1
		  if $bad == 0
		  && ( $parser->has_problems
			|| !($parser->tests_run || defined $parser->skip_all));
		push @failures,
		  (map { File::Spec->abs2rel($name, $ENV{GC_SOURCE} || getcwd()) . ": $_\n" }
			@{ $parser->{gc_failed} || [] }, $parser->parse_errors,
			$parser->exit && !$parser->{gc_failed} ? 'exit status ' . $parser->exit : ()),
		  $self->reasons($name)
		  if $bad;
		printf $totals "%d %d %s %.0f\n", scalar($parser->passed), $bad,
		  suite_of($name),
		  # one that ended all testing has no end
		  ($parser->end_time // time) - $parser->start_time;
	}
	close($totals) or die "could not write $ENV{GC_TOTALS}: $!";
	if (@failures && $ENV{GC_FAILURES})
	{
		open(my $file, '>>', $ENV{GC_FAILURES})
		  or die "could not write $ENV{GC_FAILURES}: $!";
		print $file @failures;
		close($file) or die "could not write $ENV{GC_FAILURES}: $!";
	}

	return $self->SUPER::summary($aggregate);
}

# The first lines that a test file wrote to its standard error once it failed;
# those before tell of tests that passed.
sub reasons
{
	my ($self, $name) = @_;
	my $file = $self->{gc_stderr}{$name} or return;
	my (@lines, $failed);

	seek($file, 0, 0);
	while (my $line = <$file>)
	{
		$failed ||= $line !~ /^#/ || $line =~ /Failed test/;
		next if !$failed || $line =~ /^\s*$/;
		push @lines, '    ' . substr($line =~ s/\s+\z//r, 0, 300) . "\n";
		last if @lines == REASONS;
	}
	return @lines;
}

# The suite of tools/test that a test file belongs to; "-" for what is not a
# file of a suite of programs.
sub suite_of
{
	my ($file) = @_;
	my $name = File::Spec->abs2rel($file, $ENV{GC_SOURCE} || getcwd());

	return 'tap'   if $name =~ m{^test/(?:t|adversary)/};
	return 'agent' if $name =~ m{^test/agent};
	return $1      if $name =~ m{^(\w+)/.*test};
	return '-';
}

1;
