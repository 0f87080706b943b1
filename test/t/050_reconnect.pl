# 050_reconnect.pl: the extension is created anew under open sessions
#
# A session caches plans, types and the nodes of pools.  DROP EXTENSION and
# CREATE EXTENSION, in this session or another, change every object's oid, and
# calls still work.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use GpuCredit;
use Test::More;

my $node = new_node('main', 'gpucredit.clock_skew = 1000000',
	'gpucredit.node_suspect = 0');

# Calls every function that runs C; returns the results without times.
my @calls = (
	q{SELECT gpucredit.create_account('acme'), gpucredit.create_account('acme', 'vision')},
	q{SELECT gpucredit.set_price('T4', 1), gpucredit.set_price('A100', 2)},
	q{SELECT gpucredit.register_node('default', 'n1', 'T4', 4, 16384)},
	q{SELECT bucket, replayed FROM gpucredit.issue('acme', '', 'i', 10)},
	q{SELECT bucket, replayed FROM gpucredit.issue('acme', '', 'i', 10.0)},
	q{SELECT hold, status, held FROM gpucredit.hold('acme', 'vision', 'h', 2, '1 h')},
	q{SELECT * FROM gpucredit.capture('acme', 1, 'c', 0.5, false)},
	q{SELECT * FROM gpucredit.release('acme', 1, 'r')},
	q{SELECT * FROM gpucredit.reserve('acme', 'vision', 'j1', '1xT4', '1 h')},
	q{SELECT * FROM gpucredit.reserve('acme', 'vision', 'j2', '0.5xT4', '1 h')},
	q{SELECT * FROM gpucredit.reserve('acme', '', 'j3', '1xA100', '1 h')},
	q{SELECT action, job, node, gpus FROM gpucredit.plan()},
	q{SELECT action, job, node, gpus FROM gpucredit.place()},
	q{SELECT job, action, gpus FROM gpucredit.heartbeat('n1')},
	q{SELECT action, billed, held FROM gpucredit.meter('acme', 1, 1, '10 min')},
	q{SELECT job, action, billed FROM gpucredit.meter_batch('{acme,acme}', '{1,2}', '{1,1}', '{20 min,20 min}')},
	q{SELECT outcome, billed, job_state FROM gpucredit.settle('acme', 1, 1, 'preempted', '30 min')},
	q{SELECT job_state FROM gpucredit.cancel('acme', 1, 'x')},
	q{SELECT gpucredit.drain('n1', 'repair', '2100-01-01'), gpucredit.resume('n1')},
	q{SELECT available, held, used, spent FROM gpucredit.balance('acme')},
	q{SELECT available, held, spent FROM gpucredit.buckets('acme')},
	q{SELECT count(*) > 5 FROM gpucredit.statement('acme')},
	q{SELECT count(*) > 5 FROM gpucredit.history('acme', 1)},
	q{SELECT state, held FROM gpucredit.jobs ORDER BY job},
	q{SELECT '1.5'::gpucredit.credits + '2', '{0-3}'::gpucredit.gpuset, '1xT4'::gpucredit.gpureq},
	q{SELECT * FROM gpucredit.rebuild('acme')},
	q{SELECT * FROM gpucredit.verify()},
	q{SELECT outcome, billed FROM gpucredit.settle('acme', 2, 1, 'completed')},
	q{SELECT gpucredit.remove_node('n1')});

# The results of all calls in a connection, or the error of one.  prepared:
# with statements that stay prepared.
sub run_calls
{
	my ($dbh, $prepared) = @_;
	my @lines;

	foreach my $i (0 .. $#calls)
	{
		my $rows = eval {
			my $sth =
			  $prepared
			  ? ($prepared->[$i] ||= $dbh->prepare($calls[$i],
					{ pg_prepare_now => 1 }))
			  : $calls[$i];

			$dbh->selectall_arrayref($sth);
		};

		push @lines, $rows
		  ? map { join('|', map { $_ // '' } @$_) } @$rows
		  : $dbh->errstr . " in $calls[$i]";
	}
	return \@lines;
}

# Renews, again where it would deadlock.
sub renew_or_not
{
	my ($dbh) = @_;

	foreach my $try (1 .. 20)
	{
		return 1 if eval { renew($dbh); 1 };
		last if $dbh->state ne '40P01';
	}
	return 0;
}

sub renew
{
	my ($dbh) = @_;

	$dbh->do('DROP EXTENSION IF EXISTS gpucredit CASCADE');
	$dbh->do('CREATE EXTENSION gpucredit');
	return;
}

new_database($node, 'credit');
my ($one, $two, $three) = map { connect_to($node, 'credit') } 1 .. 3;
my $prepared = [];
my $first = run_calls($one);

is(scalar(grep { /^ERROR/ } @$first), 0, 'every call works')
  or diag(join("\n", @$first));
like(join("\n", @$first), qr/^\Qpreempted|0.500000|queued\E$/m,
	'a preempted attempt has its outcome, its bill and its job\'s state');

renew($one);
is_deeply(run_calls($one), $first, 'calls have the same results in the session that created the extension anew');
renew($one);
is_deeply(run_calls($two), $first, 'calls have the same results in a session that makes its first calls');
renew($one);
is_deeply(run_calls($two), $first,
	'calls have the same results in a session with plans, after another one created the extension anew');
renew($two);
is_deeply(run_calls($one), $first, 'calls have the same results in the first session, after the second one created the extension anew');

# In a transaction, rolled back: everything is as it was
$one->begin_work;
renew($one);
is_deeply(run_calls($one), $first, 'calls have the same results in the transaction that created the extension anew');
$one->rollback;
is( join(' ', map { @$_ } @{ $one->selectall_arrayref(
				q{SELECT state FROM gpucredit.jobs ORDER BY job})}),
	'cancelled completed', 'a rolled back creation leaves the jobs that were there');
is( join('|', $one->selectrow_array(
			q{SELECT * FROM gpucredit.reserve('acme', 'vision', 'j1', '1xT4', '1 h')})),
	'1|granted||1.000000|1', 'the session that rolled back finds the job of the extension that was there');
is( join('|', $two->selectrow_array(
			q{SELECT status FROM gpucredit.hold('acme', '', 'n', 1, '1 h')})),
	'granted', 'other sessions use the extension that was there');

# Statements prepared by the client
renew($two);
is_deeply(run_calls($three, $prepared), $first, 'prepared statements have the same results');
renew($two);
my $again = run_calls($three, $prepared);
is(scalar(grep { /cache lookup failed|could not open relation|terminated|XX000/ } @$again),
	0, 'prepared statements after it was renewed: no internal error')
  or diag(join("\n", @$again));
renew($two);
is_deeply(run_calls($three), $first, 'statements that are prepared again work');

# The extension is created anew all the time while a session works.
# PostgreSQL's own errors for tables that vanish during planning are ignored.
# The session must survive and use the new extension.
{
	my ($pid) = in_parallel(
		1,
		sub {
			my $dbh = connect_to($node, 'credit');

			# the other session may have locked a table that is dropped
			renew_or_not($dbh) or die $dbh->errstr foreach 1 .. 10;
		});
	my %lost;

	while (waitpid($pid, 1) == 0)
	{
		foreach my $call (@calls)
		{
			next if eval { $one->selectall_arrayref($call) };
			$lost{ $one->errstr }++
			  if !$one->ping || $one->errstr =~ /cache lookup failed/;
		}
	}
	is($?, 0, 'the extension is created anew ten times under a session that works');
	is_deeply(\%lost, {}, 'the session that works lives, and holds on to nothing old');
}
renew($one);
is_deeply(run_calls($one), $first, 'all calls work in the end');

$_->disconnect foreach $one, $two, $three;
$node->stop;
done_testing();
