# 070_model.pl: the ledger against a model written from the interface
#
# Random calls go to the extension and to a deliberately naive model
# (test/model) under a frozen clock.  After each call, its result and all
# figures of the organisation agree to the micro-credit.  Each seed has a
# database; there are GC_SEEDS seeds (8) of GC_OPS calls (5000).  GC_SEED=n,
# which a failure prints, runs that seed alone.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl", "$FindBin::RealBin/../model";
use Driver;
use GpuCredit;
use PostgreSQL::Test::Utils;
use Test::More;

my $ops   = $ENV{GC_OPS} || 5000;
my @seeds = $ENV{GC_SEED} ? ($ENV{GC_SEED}) : (1 .. $ENV{GC_SEEDS} || 8);
my $node  = new_node('main', 'synchronous_commit = off',
	'full_page_writes = off', 'shared_buffers = 64MB',
	'gpucredit.node_suspect = 0', 'gpucredit.node_lost = 0',
	'gpucredit.heartbeat_timeout = 172800',
	'jit = off');
my $results = "$ENV{TESTDIR}/model";

mkdir $results;
new_database($node, 'pristine');

# Runs one seed; a file keeps what went wrong, if anything.
sub run_seed
{
	my ($seed) = @_;
	my $admin = connect_to($node, 'postgres');
	my %calls;

	$admin->do("CREATE DATABASE seed$seed TEMPLATE pristine");
	my $done = eval {
		my $dbh = connect_to($node, "seed$seed");

		%calls = %{ Driver->new($dbh, $seed)->run($ops) };
		$dbh->disconnect;
		1;
	};
	my $error = $@;

	open(my $file, '>', "$results/$seed") or die "$results/$seed: $!\n";
	print $file $done ? map { "$_: $calls{$_}\n" } sort keys %calls : $error;
	close($file);
	rename("$results/$seed", "$results/$seed." . ($done ? 'ok' : 'failed'));
	$admin->do("DROP DATABASE seed$seed") if $done;
	return $done;
}

my @pids = in_parallel(
	@seeds > 1 ? 2 : 1,
	sub {
		my ($i) = @_;

		foreach my $seed (grep { $_ % 2 == $i || @seeds == 1 } @seeds)
		{
			run_seed($seed) or last;
		}
	});
my $broken = wait_for_children(@pids);
my %calls;

foreach my $seed (@seeds)
{
	if (-e "$results/$seed.ok")
	{
		pass("seed $seed: $ops calls, extension and model agree");
		foreach (split(/\n/, slurp_file("$results/$seed.ok")))
		{
			$calls{$1} += $2 if /^(.*): (\d+)$/;
		}
	}
	elsif (-e "$results/$seed.failed")
	{
		fail("seed $seed: extension and model agree");
		diag(slurp_file("$results/$seed.failed"));
	}
	else
	{
		fail("seed $seed was not reached");
	}
}
is($broken, 0, 'every process came to its end');
my $sum = 0;

$sum += $_ foreach values %calls;
note("$_: $calls{$_}") foreach sort keys %calls;
cmp_ok($sum, '>=', $ops * @seeds, "$sum calls compared");
done_testing();
