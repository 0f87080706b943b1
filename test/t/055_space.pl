# 055_space.pl: the space of rows that left comes back
#
# Keys, usage, events, entries and audit rows leave by their retention.  Their
# tables stay as large as they were until pg_repack writes them anew, by the
# command of docs/operating.md, while callers go on.  The books are right after
# it, keys are remembered, and what guards the tables is in place.  Tables of
# what waits for upkeep are empty again and again, so VACUUM suffices for them.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use GpuCredit;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes 'time';

my ($bindir) = run_command([ 'pg_config', '--bindir' ]);
my $repack = (grep { -x $_ } "$bindir/pg_repack", map { "$_/pg_repack" } split /:/, $ENV{PATH})[0];

plan skip_all => 'there is no pg_repack for this server' if !$repack;

my @tables = qw(request entry audit usage event);
my @queues = qw(denial event_pending account_delta);
my $node = new_node('space', q{gpucredit.usage_interval = '1min'},
	q{gpucredit.usage_retention = '1d'}, q{gpucredit.entry_retention = '40d'},
	q{gpucredit.audit_retention = '40d'}, 'gpucredit.node_lost = 0');
my ($dbh, %before, %after);

new_database($node, 'credit');
query($node, 'credit', 'CREATE EXTENSION pg_repack');
$dbh = connect_to($node, 'credit');
$dbh->do($_) foreach (
	q{SET gpucredit.clock = '2030-01-01 00:00+00'},
	q{SELECT gpucredit.create_account('acme'), gpucredit.issue('acme', '', 'paid', 100000),
		gpucredit.grant_tier('acme', '', 'production_inference'),
		gpucredit.set_price('T4', 1), gpucredit.register_node('default', 'n', 'T4', 1, 16384)},
	(map { qq{SELECT count(gpucredit.capture('acme', h.hold, 'capture $_ ' || i, 0.5))
		FROM generate_series(1, 500) i, gpucredit.hold('acme', '', 'hold $_ ' || i, 1, '1 h') h} } 1 .. 10),
	# what a tenant can make grow: the same denial again and again, events
	q{SELECT count(gpucredit.hold('acme', '', 'denied ' || i, 1000000, '1 h')) FROM generate_series(1, 2000) i},
	q{SELECT gpucredit_internal.write_event('job.queued', 'acme') FROM generate_series(1, 5000)},
	q{SELECT gpucredit.reserve('acme', '', 'long', '1xT4', '3000 min', 'production_inference')},
	q{SELECT count(*) FROM gpucredit.place()},
	(map { qq{SELECT count(gpucredit.meter('acme', 1, 1, (100 * $_ + i) * interval '1 min'))
		FROM generate_series(1, 100) i, LATERAL (SELECT set_config('gpucredit.clock', (timestamptz
			'2030-01-01 00:00+00' + (100 * $_ + i) * interval '1 min')::text, false) OFFSET 0) c} } 0 .. 29),
	q{SELECT gpucredit.settle('acme', 1, 1, 'completed', '3000 min')},
	q{SELECT gpucredit.seal_audit()}, q{SELECT gpucredit.seal_audit()},
	q{SET gpucredit.clock = '2030-06-01 00:00+00'},
	# the newest rows stay, at the end of each table
	q{SELECT gpucredit.heartbeat('n')},
	q{SELECT gpucredit.reserve('acme', '', 'last', '1xT4', '10 min')},
	q{SELECT count(*) FROM gpucredit.place()},
	q{SELECT gpucredit.meter('acme', 2, 1, '0')},
	q{SELECT gpucredit.settle('acme', 2, 1, 'completed', '1 s')});

%before = sizes();
all_of('number_events');
($before{event}) = $dbh->selectrow_array(q{SELECT pg_total_relation_size('gpucredit.event')});
all_of($_) foreach qw(fold_spend fold_denials forget forget_usage forget_events depart_entries depart_audits);
query($node, 'credit', "VACUUM gpucredit.$_") foreach @tables, @queues;
%after = sizes();
cmp_ok($after{$_}, '>', 0.7 * $before{$_}, "$_ stays as large as it was, though most of its rows left")
  foreach @tables;

cmp_ok($after{$_}, '<', 0.3 * $before{$_}, "$_ gives its space back by VACUUM: $before{$_} bytes, then $after{$_}")
  foreach @queues;

# Callers go on meanwhile.
my $stop = PostgreSQL::Test::Utils::tempdir() . '/stop';
my ($caller) = in_parallel(1, sub {
	my $own     = connect_to($node, 'credit');
	my $longest = 0;
	my $n       = 0;

	$own->do(q{SET gpucredit.clock = '2030-06-01 00:00+00'});
	until (-e $stop)
	{
		my $began = time;

		$n++;
		$own->selectrow_array(qq{SELECT gpucredit.capture('acme', h.hold, 'capture beside $n', 0.001)
			FROM gpucredit.hold('acme', '', 'beside $n', 0.001, '1 h') h});
		$longest = time - $began if time - $began > $longest;
	}
	$own->do(q{SELECT gpucredit.seal_audit()});
	die "a call took $longest s\n" if $longest > 10;
	die "only $n calls\n" if $n < 10;
});
command_ok([ $repack, '--host', $node->host, '--port', $node->port, '--dbname', 'credit', '--no-kill-backend',
		(map { ('--table', "gpucredit.$_") } @tables) ],
	'pg_repack writes the tables anew');
append_to_file($stop, '');
waitpid $caller, 0;
is($?, 0, 'callers go on meanwhile, and none waits for long');
%after = sizes();
cmp_ok($after{$_}, '<', 0.3 * $before{$_}, "$_ gives its space back: $before{$_} bytes, then $after{$_}")
  foreach @tables;
is($dbh->selectrow_array(q{SELECT replayed FROM gpucredit.hold('acme', '', 'beside 1', 0.001, '1 h')}), 1,
	'a key that came meanwhile is remembered');

# business as usual
$dbh->do($_) foreach (
	q{SELECT gpucredit.capture('acme', h.hold, 'capture', 0.5) FROM gpucredit.hold('acme', '', 'hold', 1, '1 h') h},
	q{SELECT gpucredit.seal_audit()});
ok(!eval { $dbh->do('DELETE FROM gpucredit.entry'); 1 }, 'entries are still append-only');
is($dbh->state, 'UC901', '... by their trigger');
is($dbh->selectrow_array(q{SELECT gpucredit.issue('acme', '', 'paid', 100000) = gpucredit.issue('acme', '', 'paid', 100000)}),
	1, 'the keys of payments are still there');
is($dbh->selectrow_array('SELECT count(*) FROM gpucredit.verify_audit()'), 0, 'verify_audit() is empty');
is(query($node, 'credit', q{SELECT count(*) FROM pg_trigger WHERE tgname = 'repack_trigger'}), '0', 'pg_repack left no trigger');
$dbh->disconnect;
query($node, 'credit', 'DROP EXTENSION pg_repack');
verify_empty($node, 'credit');
$node->stop;
done_testing();

# Calls a task of upkeep until it finds nothing.
sub all_of
{
	my ($task) = @_;
	my $n;

	do
	{
		($n) = $dbh->selectrow_array(qq{SELECT sum(affected) FROM gpucredit.upkeep('$task')});
	} while ($n > 0);
	return;
}

# The bytes of each table, with its indexes.
sub sizes
{
	return map { $_ => $dbh->selectrow_array("SELECT pg_total_relation_size('gpucredit.$_')") } @tables, @queues;
}
