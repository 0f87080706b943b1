# 078_rate_limits.pl: rate limits over processes, restarts, crashes and dumps
#
# Token buckets are in shared memory; the limits are rows.  The clock is frozen
# where counts must be exact.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use GpuCredit;
use PostgreSQL::Test::Utils;
use Test::More;

# Superusers are not limited, so the calls are an application's.
my $app    = 'SET ROLE gpucredit_app;';
my $frozen = q{SET gpucredit.clock = '2030-01-01 00:00+00';} . $app;
my $node   = new_node('main');

new_database($node, 'credit');
query(
	$node, 'credit', q{
	SELECT gpucredit.create_account('acme');
	SELECT gpucredit.create_account('acme', 'lab');
	SELECT gpucredit.issue('acme', '', 'paid', 1000000)});

# Without preloading, a limit is refused; everything else works, also removing
# one.
query_fails($node, 'credit',
	q{SELECT gpucredit.set_rate_limit('acme', '', '*', 1, 1)},
	'55000', 'refused where the library is not preloaded');
my ($status, $out, $err) = $node->psql('credit',
	q{SELECT gpucredit.set_rate_limit('acme', '', '*', 1, 1)});
like($err, qr/HINT:.*gpucredit.*shared_preload_libraries/,
	'the hint says how to load the library for rate limits');
query($node, 'credit',
	q{SELECT gpucredit.set_rate_limit('acme', '', '*', NULL, NULL)});
is(hold('before', ''), 'granted', 'calls are not');

$node->append_conf('postgresql.conf',
	"shared_preload_libraries = 'gpucredit'");
$node->restart;

# Of many simultaneous calls, exactly the allowed number is admitted.
query($node, 'credit',
	q{SELECT gpucredit.set_rate_limit('acme', 'lab', 'hold', 0.000001, 250);
	SELECT gpucredit.set_rate_limit('acme', '', '*', 0.000001, 300)});
is( query($node, 'credit',
		q{SELECT count(*) FROM gpucredit.rate_limit}), '2', 'there are two rate limits');
my $children = 8;
my @pids     = in_parallel($children, \&call_a_hundred_times);
is(wait_for_children(@pids), 0, 'all eight clients have called a hundred times');
is( query(
		$node, 'credit',
		q{SELECT count(*) FROM gpucredit.request WHERE key LIKE 'many %'}),
	'250', 'the account got exactly as many holds as its limit allows');
is(fails_with("$frozen SELECT gpucredit.hold('acme', 'lab', 'x', 1, '1 h')"),
	'UC202', 'the account gets no hold beyond its limit');
my @left = map {
	fails_with("$frozen SELECT gpucredit.release('acme', 0, 'r$_')")
} 1 .. 51;
is(scalar(grep { $_ eq 'UC003' } @left),
	50, 'what one limit refused took nothing from the other');
is($left[50], 'UC202', 'the limit of the organisation is reached by what the other one let through');

# A restart fills the token buckets; limits apply from the first call.
$node->restart;
is(hold('restart', 'lab'), 'granted', 'after a restart a call is allowed again');
query($node, 'credit',
	q{SELECT gpucredit.set_rate_limit('acme', 'lab', 'hold', 0.000001, 1)});
is(hold('crash', 'lab'), 'granted', 'one call is allowed by a limit of one');
kill_server($node);
$node->start;
is(hold('crashed', 'lab'), 'granted', 'after a crash one call is allowed again');
is(hold('crashed 2', 'lab'), 'UC202', 'the limit survived the crash');

# Each database has its own limits; a dump has them.
new_database($node, 'empty');
my $dump = $node->basedir . '/credit.dump';
command_ok([ 'pg_dump', '-Fc', '-f', $dump, $node->connstr('credit') ],
	'dump');
$node->safe_psql('postgres', 'CREATE DATABASE copy');
command_ok([ 'pg_restore', '-d', $node->connstr('copy'), $dump ], 'restore');
is( query(
		$node, 'copy',
		"$frozen SELECT status FROM gpucredit.hold('acme', 'lab', 'copy', 1, '1 h')"
	),
	'granted', 'the copy counts for itself');
query_fails(
	$node, 'copy',
	"$frozen SELECT gpucredit.hold('acme', 'lab', 'copy 2', 1, '1 h')",
	'UC202', 'the copy has the same limit');

# Rows restored under an open session apply to it, too.
my $session = connect_to($node, 'empty');
$session->do(
	q{SELECT gpucredit.create_account('acme'),
	gpucredit.create_account('acme', 'lab')});
$session->do(q{SELECT gpucredit.issue('acme', '', 'i', 10)});
$session->do($app);
$session->do(q{SELECT gpucredit.hold('acme', 'lab', 'h1', 1, '1 h')});
command_ok(
	[   'pg_restore', '-a', '-t', 'rate_limit', '-d',
		$node->connstr('empty'), $dump ],
	'restore the limits alone');
ok( !eval {
		$session->do(q{SELECT gpucredit.hold('acme', 'lab', 'h' || n, 1, '1 h')
		FROM generate_series(2, 3) n});
		1;
	},
	'what a restore brings counts in sessions that are there');
is($session->state, 'UC202', 'a restored limit refuses as a rate limit');
$session->disconnect;

# With room for few, the fullest token buckets are dropped, but not that of a
# busy caller.
$node->append_conf('postgresql.conf', 'gpucredit.max_token_buckets = 64');
$node->restart;
query(
	$node, 'credit', qq{
	SELECT gpucredit.create_account('many', CASE n WHEN 0 THEN ''
		ELSE 'u' || n END) FROM generate_series(0, 500) n;
	SELECT gpucredit.set_rate_limit('many', 'u' || n, 'hold', 0.000001, 1000)
	FROM generate_series(2, 500) n;
	SELECT gpucredit.set_rate_limit('many', 'u1', 'hold', 0.000001, 60);
	SELECT gpucredit.issue('many', '', 'i', 100000)});
query(
	$node, 'credit', qq{$frozen
	SELECT count(*) FROM generate_series(1, 50) n,
		gpucredit.hold('many', 'u1', 'a' || n, 1, '1 h')});
query(
	$node, 'credit', qq{$frozen
	SELECT count(*) FROM generate_series(2, 500) n,
		gpucredit.hold('many', 'u' || n, 'b' || n, 1, '1 h')});
query(
	$node, 'credit', qq{$frozen
	SELECT count(*) FROM generate_series(1, 10) n,
		gpucredit.hold('many', 'u1', 'c' || n, 1, '1 h')});
is( fails_with("$frozen SELECT gpucredit.hold('many', 'u1', 'd', 1, '1 h')"),
	'UC202', 'the limit most is taken of is not forgotten');

# The same with the real clock.
query($node, 'credit',
	q{SELECT gpucredit.set_rate_limit('acme', 'lab', 'hold', 1, 1);
	SELECT gpucredit.set_rate_limit('acme', '', '*', NULL, NULL)});
is( fails_with($app, map {
			"SELECT gpucredit.hold('acme', 'lab', 'real $_', 1, '1 h')" } 1 .. 100),
	'UC202',
	'a hundred at once are too many');
my $granted = '';
foreach my $turn (1 .. 600)
{
	last if ($granted = hold('real 101', 'lab', $app)) eq 'granted';
	select(undef, undef, undef, 0.1);
}
is($granted, 'granted', 'a second later one may again');

# Limits go and come back with the extension in one session.
$session = connect_to($node, 'empty');
$session->do(q{DROP EXTENSION gpucredit});
$session->do(q{CREATE EXTENSION gpucredit});
$session->do(q{SELECT gpucredit.create_account('acme')});
$session->do(q{SELECT gpucredit.issue('acme', '', 'i' || n, 10)
	FROM generate_series(1, 5) n});
pass('no limits in a new extension');
$session->disconnect;

verify_empty($node, $_) foreach qw(credit copy empty);
$node->stop;
done_testing();

# Takes a hold; returns the result.
sub hold
{
	my ($key, $account, $clock) = @_;
	my $sql = ($clock // $frozen)
	  . "SELECT status FROM gpucredit.hold('acme', '$account', '$key', 1, '1 h')";
	my $state = fails_with($sql);

	return $state eq '' ? 'granted' : $state;
}

# The SQLSTATE of the first of some statements to fail, in one session.
sub fails_with
{
	return sqlstate_of($node, 'credit', join(';', @_));
}

sub call_a_hundred_times
{
	my ($child) = @_;
	my $dbh = connect_to($node, 'credit');

	$dbh->do($frozen);
	foreach my $n (1 .. 100)
	{
		eval {
			$dbh->do(
				q{SELECT gpucredit.hold('acme', 'lab', ?, 0.5, '1 h')},
				undef, "many $child $n");
			1;
		} or $dbh->state eq 'UC202'
		  or die $dbh->errstr;
	}
	$dbh->disconnect;
	return;
}
