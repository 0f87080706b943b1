# 086_clock.pl: the server's wall clock is set back
#
# A preloaded library shows every server process an hour less as soon as a file
# exists.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use GpuCredit;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $dir  = PostgreSQL::Test::Utils::tempdir();
my $back = "$dir/back";
my $node = PostgreSQL::Test::Cluster->new('main');

append_to_file("$dir/clock.c", <<'C');
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/time.h>
#include <unistd.h>

int
gettimeofday(struct timeval *tv, void *zone)
{
	static int	(*real) (struct timeval *, void *) = NULL;
	int			result;

	if (real == NULL)
		real = (int (*) (struct timeval *, void *)) dlsym(RTLD_NEXT,
														  "gettimeofday");
	result = real(tv, zone);
	if (access(getenv("CLOCK_BACK"), F_OK) == 0)
		tv->tv_sec -= 3600;
	return result;
}
C
plan skip_all => 'no C compiler makes a library here'
  if system("cc -shared -fPIC -o $dir/clock.so $dir/clock.c -ldl >$dir/cc.log 2>&1") != 0;

init_node($node);
$node->append_conf(
	'postgresql.conf', q{
shared_preload_libraries = 'gpucredit'
gpucredit.database = 'credit'
gpucredit.node_suspect = 0
gpucredit.node_lost = 0
});
{
	local $ENV{LD_PRELOAD} = "$dir/clock.so";
	local $ENV{CLOCK_BACK} = $back;

	$node->start;
}
new_database($node, 'credit');
query(
	$node, 'credit', q{
	SELECT gpucredit.create_account('acme');
	SELECT gpucredit.issue('acme', '', 'paid', 1000);
	SELECT gpucredit.set_price('T4', 1);
	SELECT gpucredit.register_node('default', 'n1', 'T4', 4, 16384)});
submit('before');
ok(starts('before'), 'a job starts');
query($node, 'credit', q{SELECT gpucredit.drain('n1', 'repair')});
submit('after');

my $was = query($node, 'credit', 'SELECT extract(epoch FROM gpucredit.now())');
append_to_file($back, '');
cmp_ok(
	query($node, 'credit', 'SELECT extract(epoch FROM gpucredit.now())'),
	'<', $was - 3000, 'the clock is set back by an hour');
query($node, 'credit', q{SELECT gpucredit.resume('n1')});
ok(starts('after'), 'another starts, before that hour is over once more');
my $cycles = cycles();
ok( $node->poll_query_until(
		'credit', qq{SELECT value > $cycles + 2 FROM gpucredit.metrics
		WHERE name = 'gpucredit_scheduler_cycles_total'}),
	'and the worker looks at each interval');
query($node, 'credit', 'SELECT * FROM gpucredit.seal_audit()');
verify_empty($node, 'credit');
$node->stop;
done_testing();

sub submit
{
	my ($key) = @_;

	query($node, 'credit',
		qq{SELECT * FROM gpucredit.reserve('acme', '', '$key', '1xT4', '1 hour')});
	return;
}

# Does the worker start a job?
sub starts
{
	my ($key) = @_;

	return $node->poll_query_until('credit',
		qq{SELECT j.attempt = 1 FROM gpucredit.job j
		JOIN gpucredit.request r ON r.org = j.org AND r.result[1]::bigint = j.job
		WHERE r.key = '$key'});
}

sub cycles
{
	return query($node, 'credit',
		q{SELECT value FROM gpucredit.metrics WHERE name = 'gpucredit_scheduler_cycles_total'});
}
