# 098_demo.pl: what tools/demo refuses, and what a kept demo shows
#
# A refused call builds, starts and leaves nothing.  A small replay with --keep
# stops in the middle, where each screen of docs/screens.md has something to
# show to an ordinary session.

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

# Runs it to its end: its status, its errors, the files that it leaves.
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

# Next to a running demo, whose state stays.
my $file = "$state/gpucredit-demo-$>";
append_to_file($file, "busy $$\n");
refused(1, qr/another tools\/demo --keep is at work, process $$/,
	'--keep beside another', '--keep');
refused(1, qr/still at work, process $$/, '--stop of one that is at work',
	'--stop');
is(slurp_file($file), "busy $$\n", 'the state of a demo at work is as it was');

# A state file that names another folder removes nothing.
unlink($file);
append_to_file($file, "$state\n");
refused(1, qr/names no folder of a demo/, '--stop of what is no demo', '--stop');
ok(-d $state, 'the folder that is no demo\'s is still there');

# The cluster that --keep leaves.
my $lib  = "$FindBin::RealBin/../../tools/lib";
my $node = new_node('demo');
my ($out, $err) = ('', '');

new_database($node, 'demo', 'gpucredit_report');
{
	local $ENV{PGHOST}     = $node->host;
	local $ENV{PGPORT}     = $node->port;
	local $ENV{PGDATABASE} = 'demo';
	local $ENV{PGUSER};
	delete $ENV{PGUSER};
	IPC::Run::run([ $^X, "-I$lib", '-MGpuCreditDemo::Main', '-e',
			'exit GpuCreditDemo::Main::main(@ARGV)', '--', 'run', keep => 1,
			jobs => 160, nodes => 8 ],
		'<', \undef, '>', \$out, '2>', \$err);
}
is($?, 0, 'a replay that is kept holds its checks') or diag($out, $err);
like($out, qr/^The replay stopped at 2026-01-0\S+ \S+: [1-9]\d* jobs run, [1-9]\d* wait\.$/m,
	'the replay stops with jobs running and waiting');

my @orgs   = split /\n/, query($node, 'demo', q{SELECT org FROM gpucredit.account WHERE account = ''});
my $page = slurp_checkout('docs/screens.md');
my ($screens)  = $page =~ /^```\n(.*?)^```$/ms;
my ($watching) = $page =~ /^## Queries\n```\n(.*?)^```$/ms;
my @statements = ($screens =~ /^=> (SELECT .*?)(?:;| \\watch)/mgs,
	$watching =~ /^(SELECT .*?);/mgs);

cmp_ok(scalar(@statements), '>=', 14, 'the page has screens');
foreach my $statement (@statements)
{
	# the demo's calls belong to no trace
	next if $statement =~ /AND trace = /;
	cmp_ok(rows_of($statement), '>', 0, "shows something: $statement");
}
foreach my $more (
	q{SELECT * FROM gpucredit.alert WHERE kind = 'budget'},
	q{SELECT * FROM gpucredit.budgets('northwind', 'vision') WHERE spent > '0'},
	q{SELECT * FROM gpucredit.nodes WHERE takes_work},
	q{SELECT * FROM gpucredit.capacity_advice()},
	q{SELECT * FROM gpucredit.fair_share('default')},
	q{SELECT 1 WHERE strpos(gpucredit.report_html(), 'northwind') > 0})
{
	cmp_ok(rows_of($more), '>', 0, "shows something: $more");
}
cmp_ok(rows_of(q{SELECT * FROM gpucredit.jobs WHERE state = 'running'}), '>', 0, 'jobs run in the kept demo');
is(query($node, 'demo', q{SELECT gpucredit.now() = max(at) FROM gpucredit.audit}), 't',
	'the clock stands where the replay stopped');
verify_empty($node, 'demo');
$node->stop;

done_testing();

# The most rows that a statement of the page returns for any organisation of
# the demo.
sub rows_of
{
	my ($statement) = @_;
	my $most = 0;

	foreach my $org ($statement =~ /'acme'/ ? @orgs : '')
	{
		my $own = $statement =~ s/'acme'/'$org'/gr;
		my $n;

		$own =~ s/'$org', 1\b/'$org', (SELECT min(job) FROM gpucredit.jobs WHERE org = '$org' AND state = 'running')/;
		next if $org && $own =~ /'vision'/ && $org ne 'northwind';
		$n = query($node, 'demo', "SELECT count(*) FROM ($own) s");
		$most = $n if $n > $most;
	}
	return $most;
}
