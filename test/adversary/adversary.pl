# adversary.pl: tenants who want GPUs for nothing find no way
#
# Plays GC_STRATEGIES strategies (2000) of the seed GC_SEED (1), or as many as
# GC_ADVERSARY_SECONDS allows, and fails for each that breaks a bound: it prints
# the shortest form of it, with SQL that replays it.  test/adversary/README.md
# says how strategies are drawn and what is measured.
#
# With GC_EXPECT, a bound's name, it succeeds if that bound is broken: so the
# search is tested on an extension with a mend taken back
# (test/adversary/reverts).
#
# Long: it takes minutes

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl", $FindBin::RealBin;
use GpuCredit;
use Search;
use Test::More;

my $plays   = $ENV{GC_STRATEGIES} || 2000;
my $seconds = $ENV{GC_ADVERSARY_SECONDS};
my $seed    = $ENV{GC_SEED} || 1;
my @databases = qw(adversary adversary_committed);
my $node = new_node('main', 'synchronous_commit = off',
	'full_page_writes = off', 'shared_buffers = 128MB', 'jit = off',
	"shared_preload_libraries = 'gpucredit'", World::settings());

new_database($node, $_) foreach @databases;
$node->safe_psql('postgres', World::logins());

my $expect = $ENV{GC_EXPECT};
my $search = Search->new(
	connect  => sub { connect_to($node, $_[0]) },
	seed     => $seed,
	until    => $expect,
	on_found => sub { $expect ? note(Search::text($_[0])) : diag(Search::text($_[0], 1)) });

note("GC_SEED=$seed GC_STRATEGIES=$plays");
$search->run($plays, $seconds);
if (defined $expect)
{
	my ($attack) = grep { $_->{bound} eq $expect } @{ $search->{attacks} };

	ok($attack, "\"$expect\" is found among $search->{played} strategies");
	done_testing();
	exit;
}
fail("no strategy of a tenant breaks the bound: $_->{bound}") || diag(Search::text($_))
  foreach @{ $search->{attacks} };
cmp_ok($search->{played}, '>=', $seconds ? 1 : $plays,
	"$search->{played} strategies over " . int($search->{hours} / 24) . ' simulated days were played');
note($_) foreach $search->account;
note("no call succeeded of: $_") foreach $search->never_reached;
verify_empty($node, $_, "the books of $_ hold") foreach @databases;
done_testing();
