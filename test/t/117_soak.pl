# 117_soak.pl: two minutes of tools/soak at its smallest size
#
# Agents, submitters, tenants, upkeep, sealing and reports work at once.  No call
# may fail, every table is printed, and the books hold.  How fast it is, and
# what a hundred times the size does, is for tools/soak to tell.
#
# Long: it takes minutes

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use GpuCredit;
use IPC::Run;
use PostgreSQL::Test::Utils;
use Test::More;

my $lib  = "$FindBin::RealBin/../../tools/lib";
my $node = new_node('main', 'max_connections = 300',
	"shared_preload_libraries = 'gpucredit'", "gpucredit.database = 'soak'",
	"gpucredit.node_suspect = '2min'", "gpucredit.node_lost = '5min'",
	"gpucredit.heartbeat_timeout = '1min'");
my $file = PostgreSQL::Test::Utils::tempdir() . '/minutes.tsv';
my ($out, $err) = ('', '');

new_database($node, 'soak', 'gpucredit_report');
{
	local $ENV{PGHOST}     = $node->host;
	local $ENV{PGPORT}     = $node->port;
	local $ENV{PGDATABASE} = 'soak';
	local $ENV{PGUSER} = query($node, 'soak', 'SELECT current_user');

	IPC::Run::run([ $^X, "-I$lib", '-MGpuCreditSoak::Main', '-e',
			'exit GpuCreditSoak::Main::main(@ARGV)', '--', minutes => 2, rate => 20,
			scale => 1, disturb => '', file => $file ],
		'<', \undef, '>', \$out, '2>', \$err, IPC::Run::timeout(600));
}
is($?, 0, 'no call fails, and the books hold') or diag($out, $err);
is($err, '', 'nothing is complained about');
is(scalar(() = $out =~ /^Minute \d of 2: \d+\.\d submissions/mg), 2, 'each minute is printed');
foreach my $call ('reserve, hot', 'reserve, big', 'reserve, small', 'settle, hot',
	'start, small', 'heartbeat', 'meter_batch', 'balance of an organisation, hot',
	'upkeep: fold_spend', 'upkeep: raise_alerts', 'upkeep: reap_holds', 'upkeep: seal_audit', 'report: burn_rate\(\)', 'scrape of metrics')
{
	like($out, qr/^  $call +[1-9]\d* +\d/m, "calls are measured: $call");
}
like($out, qr/^All minutes/m, 'the minutes are printed beside each other');
like($out, qr/^verify\(\) took \d+\.\d s for [1-9]\d* entries: the books hold$/m, 'verify() is reported');

# The figures that later work compares.
my %minutes;
{
	my $text = slurp_file($file);

	$minutes{$1}{$2} = $3 while $text =~ /^(\d+)\t([^\t]+)\t(\S+)$/mg;
}
foreach my $figure ('start, small: p50, ms', 'reserve, hot: p99, ms', 'cycles',
	'WAL, MB', 'database, MB', 'memory of the worker, MB', 'HOT updates of job, %',
	'dead rows of bucket', 'oldest expired bucket, s', 'oldest dead hold, s',
	'oldest overdue attempt, s', 'oldest unsealed row, s', 'unfolded spend, rows')
{
	ok(exists $minutes{2}{$figure}, "the file has: $figure");
}
cmp_ok($minutes{2}{'cycles'}, '>', 0, 'the worker has scheduled');
cmp_ok($minutes{2}{'reserve, a second'}, '>', 10, 'most of the submissions were made in time');
verify_empty($node, 'soak');
$node->stop;
done_testing();
