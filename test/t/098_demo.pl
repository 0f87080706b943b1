# 098_demo.pl: what tools/demo refuses, and that it leaves nothing then
#
# None of it builds or starts anything: a demo that runs takes its minute, and
# checks itself.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use GpuCredit;
use IPC::Run;
use PostgreSQL::Test::Utils;
use Test::More;

my $demo  = "$FindBin::RealBin/../../tools/demo";
my $state = PostgreSQL::Test::Utils::tempdir();
my $files = PostgreSQL::Test::Utils::tempdir();

local $ENV{XDG_RUNTIME_DIR} = $state;
local $ENV{TMPDIR}          = $files;

# Runs it to its end: its status, what it complains of, what files it leaves.
sub refused
{
	my ($status, $says, $name, @options) = @_;
	my ($out, $err) = ('', '');

	IPC::Run::run([ $demo, @options ], '<', \undef, '>', \$out, '2>', \$err);
	is($? >> 8, $status, $name);
	is($out, '', '... with nothing to read');
	like($err, $says, '... and says why');
	is(join(' ', glob("$files/*")), '', '... and leaves no file');
	return;
}

refused(2, qr/unknown option "--trace-all"/, 'an option there is not',
	'--trace-all');
refused(2, qr/--jobs takes a number/, 'a count that is none', '--jobs', '-1');
refused(2, qr/--stop goes with no other/, '--stop and something else',
	'--stop', '--keep');
refused(2, qr/--seed is for the generated/, 'chance in a trace', '--seed',
	'1', '--trace', $files);
refused(1, qr/no demo server is running/, '--stop of nothing', '--stop');

# Beside one that is at work; and its state stays.
my $file = "$state/gpucredit-demo-$>";
append_to_file($file, "busy $$\n");
refused(1, qr/another tools\/demo --keep is at work, process $$/,
	'--keep beside another', '--keep');
refused(1, qr/still at work, process $$/, '--stop of one that is at work',
	'--stop');
is(slurp_file($file), "busy $$\n", 'whose state is as it was');

# A state that names something else than a demo's folder removes nothing.
unlink($file);
append_to_file($file, "$state\n");
refused(1, qr/names no folder of a demo/, '--stop of what is no demo', '--stop');
ok(-d $state, 'which is still there');

done_testing();
