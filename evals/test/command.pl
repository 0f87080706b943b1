# command.pl: checks, formats and the endpoint client, without a database
#
# Long: it runs all tests of the command
# Packages: npm:npm json-schema-test-suite python3
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/lib", "$FindBin::RealBin/../../test/perl";
use GpuCredit;
use GpuCreditEvalCommand;
use Test::More;

# node's own test runner prints TAP, a line a test
chdir command_folder() or die;
foreach my $file (sort glob 'test/lib/*.test.mjs')
{
	open(my $pipe, '-|', 'node', '--test-reporter=tap', $file) or die "could not run node: $!";
	my @lines = <$pipe>;
	my $ended = close($pipe);
	my @tests = map { /^((?:not )?)ok \d+ - (.*?)(?: # SKIP.*)?$/ ? [ !$1, $2 ] : () } @lines;
	ok($_->[0], $_->[1]) foreach @tests;
	ok($ended && @tests > 0, "$file ends well") or diag(@lines);
}

# the lock file names no registry
open(my $lock, '<', "$FindBin::RealBin/../cli/package-lock.json") or die;
is_deeply([ grep { /"resolved"/ } <$lock> ], [], 'the lock file names no host');
done_testing();
