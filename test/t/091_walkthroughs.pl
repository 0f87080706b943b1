# 091_walkthroughs.pl: the walkthroughs print what the pages show
#
# Each script of docs/walkthroughs runs in a database of its own and prints the
# file beside it.  The tour of README.md prints what it shows.  The
# job array of docs/jobs.md is submitted twice.  GC_ACCEPT=DIR leaves the
# output in that folder.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use File::Basename;
use GpuCredit;
use PostgreSQL::Test::Utils;
use Test::More;

my $folder = "$FindBin::RealBin/../../docs/walkthroughs";
my @scripts = sort glob("$folder/*.sql");
my $node = new_node('stories', 'autovacuum = off');

cmp_ok(scalar @scripts, '>=', 6, 'there are walkthroughs');
foreach my $script (@scripts)
{
	my $name = basename($script, '.sql');
	my $text = slurp_file($script);
	my ($out, $expected) = ('', '');

	new_database($node, $name);
	IPC::Run::run(
		[ 'psql', '-X', '-a', '-q', '-d', $node->connstr($name), '-f', '-' ],
		'<', \$text, '>&', \$out);
	$out =~ s/^psql:<stdin>:\d+: //mg;
	append_to_file("$ENV{GC_ACCEPT}/$name.out", $out) if $ENV{GC_ACCEPT};
	$expected = slurp_file("$folder/$name.out") if -e "$folder/$name.out";
	is($out, $expected, "$name prints what it says");
	verify_empty($node, $name, "$name: verify() is empty");
}

# The tour, pasted whole: it makes its own database, and says in comments what its
# queries print. test/bare/readme.pl pastes it where a worker schedules, too.
{
	my ($tour) = slurp_checkout('README.md') =~ /^```sql\n(.*?)^```/ms;
	my @shown = map { /^-- ?(.*)/ ? $1 : () } grep { !/^-- \d\. / } split /\n/, $tour;
	my $out;

	IPC::Run::run([ 'psql', '-X', '-q', '-d', $node->connstr('postgres'), '-f', '-' ],
		'<', \$tour, '>&', \$out);
	# the first query returns nothing worth showing
	my ($printed, $shown) = map {
		join("\n", grep { !/^(\(\d+ rows?\))?$/ } map { s/ +$//r } @$_)
	} [ split /\n/, $out ], \@shown;

	cmp_ok(scalar @shown, '>=', 15, 'the tour shows what it prints');
	is(scalar(() = $tour =~ /^-- \d\. /mg), 5, 'the tour has five steps');
	is(substr($printed, -length($shown)), $shown, 'the tour prints what the page shows');
	unlike($out, qr/ERROR/, 'the tour meets no error');

	verify_empty($node, 'tour', 'the tour: verify() is empty');
}
{
	# an array of jobs, submitted twice where the longer tour ended
	my ($array) = slurp_checkout('docs/jobs.md') =~ /^```\n(SELECT i, r\.[^;]*);\n```/m;
	my $counted =
	  "SET gpucredit.clock = '2030-01-01 10:00+00';"
	  . " SELECT count(*), count(DISTINCT job), bool_or(replayed) FROM ($array) a";

	is(query($node, '0_tour', $counted), '100|100|f', 'the array of the tour is a hundred jobs');
	is(query($node, '0_tour', $counted), '100|100|t', 'the array of the tour, submitted again, is the same jobs');
	verify_empty($node, '0_tour', 'with the array: verify() is empty');
}
$node->stop;
done_testing();
