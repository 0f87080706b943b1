# 031_verify.pl: verify, rebuild and maintain while work goes on
#
# Each call of verify reads one snapshot, so it finds nothing wrong under any
# traffic. rebuild waits for concurrent calls, and repairs figures under live
# traffic.  Upkeep waits for nobody, and nobody waits for it.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use GpuCredit;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my $seconds = $ENV{GC_VERIFY_SECONDS} || 8;
my $node    = new_node('main');
my $db      = 'credit';
my $stop    = PostgreSQL::Test::Utils::tempdir() . '/stop';

new_database($node, $db);

# The price is a credit per second and GPU, so that short attempts have bills.
query($node, $db, $_) foreach (
	q{SELECT gpucredit.set_price('H100', 3600), gpucredit.set_price('T4', 36)},
	q{SELECT gpucredit.register_node('default', 'h' || i, 'H100', 8, 81920,
		64000, 65536) FROM generate_series(1, 3) i},
	q{SELECT gpucredit.register_node('default', 't1', 'T4', 2, 16384)});
foreach my $org ('o1', 'o2')
{
	query($node, $db, qq{
		SELECT gpucredit.create_account('$org');
		SELECT gpucredit.create_account('$org', 'a');
		SELECT gpucredit.create_account('$org', 'a/x');
		SELECT gpucredit.issue('$org', '', 'b1', 10000000);
		SELECT gpucredit.issue('$org', 'a', 'b2', 5000, 'promo');
		SELECT gpucredit.issue('$org', 'a/x', 'b3', 500, 'grant')});
}

# Repeats a call that failed with a serialization error; ignores an expired
# hold; any other error ends the test.
sub call
{
	my ($dbh, $sql, @args) = @_;

	while (1)
	{
		my $rows = eval {
			$dbh->selectall_arrayref($sql, { Slice => {} }, @args);
		};

		return $rows if $rows;
		return if $dbh->state eq 'UC003';
		die "$sql: $@" unless $dbh->state =~ /^40(001|P01)$/;
	}
}

# Submits, starts, meters and settles jobs, and takes holds, until it is told
# to stop.
sub traffic
{
	my ($worker) = @_;
	my $dbh      = connect_to($node, $db);
	my @accounts = ('', 'a', 'a/x');
	my @outcomes = ('completed', 'failed', 'preempted', 'node_lost');
	my @requests = ('1xH100', '8xH100', '0.5xT4', '2xH100|T4');

	srand($worker);
	for (my $n = 0; !-e $stop; $n++)
	{
		my $org     = 'o' . (1 + int(rand(2)));
		my $account = $accounts[ rand(@accounts) ];
		my $key     = "$worker-$n";

		call($dbh, q{SELECT * FROM gpucredit.reserve(?, ?, ?, ?, '1 min',
			max_retries => 1)},
			$org, $account, $key, $requests[ rand(@requests) ]);
		call($dbh, 'SELECT * FROM gpucredit.heartbeat(?)', "h$_")
		  foreach (1 .. 3);
		call($dbh, q{SELECT * FROM gpucredit.heartbeat('t1')});
		foreach my $start (
			@{ call($dbh, 'SELECT DISTINCT org, job, attempt, action
				FROM gpucredit.place()') })
		{
			next unless $start->{action} eq 'start';
			my @attempt = @$start{qw(org job attempt)};

			call($dbh, q{SELECT * FROM gpucredit.meter(?, ?, ?, '2 s')},
				@attempt);
			if (rand() < 0.1)
			{
				call($dbh, 'SELECT * FROM gpucredit.cancel(?, ?, ?)',
					@attempt[ 0, 1 ], "$key-x$start->{job}");
			}
			call($dbh, q{SELECT * FROM gpucredit.settle(?, ?, ?, ?, '4 s')},
				@attempt, $outcomes[ rand(@outcomes) ]);
		}
		my ($hold) = @{ call($dbh, q{SELECT * FROM gpucredit.hold(?, ?, ?, ?,
			'2 s')}, $org, $account, "$key-h", 1 + int(rand(100))) };
		if (defined $hold->{hold} && rand() < 0.6)
		{
			call($dbh, q{SELECT * FROM gpucredit.capture(?, ?, ?, ?, ?)},
				$org, $hold->{hold}, "$key-c", rand() < 0.5 ? 1 : 0.000001,
				rand() < 0.5 ? 't' : 'f');
		}
	}
	return;
}

# In how many ways attempts have ended.
sub outcomes
{
	return query($node, $db,
		q{SELECT count(DISTINCT outcome) FROM gpucredit.attempt});
}

my @children = in_parallel(4, \&traffic);
my $dbh      = connect_to($node, $db);
my $end      = time() + $seconds;
my %seen     = (verified => 0, mended => 0, folded => 0, wrong => '',
	missed => '', unasked => '');

# for that long, and until each way has occurred
sleep 0.5;
while (time() < $end
	|| time() < $end + 300 && !($seen{verified} > 2 && $seen{folded} && outcomes() > 3))
{
	my $wrong = call($dbh, 'SELECT * FROM gpucredit.verify()');

	$seen{wrong} .= join(' ', map { $_ // '' } values %$_) . "\n"
	  foreach @$wrong;
	$seen{verified}++;
	$seen{folded} += $_->{affected}
	  foreach @{ call($dbh, q{SELECT * FROM gpucredit.maintain()
		WHERE task = 'fold_spend'}) };

	# nothing to repair, then something
	$seen{unasked} .= "$_->{what}\n"
	  foreach @{ call($dbh, q{SELECT * FROM gpucredit.rebuild('o1')}) };
	$dbh->do(q{UPDATE gpucredit.bucket SET available = available + '5',
		issued = issued + '5'
		WHERE org = 'o2' AND account = ''});
	my $mended = join(' ', map { $_->{what} =~ /(\w+)$/ }
		@{ call($dbh, q{SELECT * FROM gpucredit.rebuild('o2')}) });
	$seen{missed} .= "$mended\n" if $mended ne 'available issued';
	$seen{mended}++;
}
append_to_file($stop, '');
is(wait_for_children(@children), 0, 'the traffic met no error');
is($seen{wrong}, '', "verify found nothing, $seen{verified} times");
is($seen{unasked}, '', 'rebuild found nothing where nothing was wrong');
is($seen{missed}, '', "rebuild mended under traffic, $seen{mended} times");
cmp_ok($seen{verified}, '>', 2, 'verify ran beside the traffic');
cmp_ok($seen{folded}, '>', 0, 'spend was folded beside the traffic');
cmp_ok(outcomes(), '>', 3, 'attempts ended in many ways');
verify_empty($node, $db, 'verify is empty after it all');

# Upkeep in an open transaction blocks nobody.
my $spent = q{SELECT spent FROM gpucredit.balance('o1')};
my $hold  = sub {
	query($node, $db, qq{
		SET statement_timeout = '2min';
		SELECT gpucredit.hold('o1', 'a', '$_[0]', 3, '1 h');
		SELECT captured FROM gpucredit.capture('o1', (SELECT max(hold)
			FROM gpucredit.hold WHERE org = 'o1'), '$_[0]-c', 3)});
};

$hold->('m1');
my $before = query($node, $db, $spent);
$dbh->begin_work;
my $folded = $dbh->selectall_arrayref('SELECT * FROM gpucredit.maintain()');
cmp_ok($folded->[0][1], '>=', 1, 'an open transaction has folded');
is(query($node, $db, $spent), $before, 'unseen, it changes no balance');
$hold->('m2');
is( query($node, $db, q{SET statement_timeout = '2min';
		SELECT affected FROM gpucredit.maintain()
		WHERE task = 'fold_spend'}),
	0, 'another maintain() finds the day being folded, and does not wait');
$dbh->commit;
is( query($node, $db, $spent),
	sprintf('%.6f', $before + 3),
	'what was spent while the day was folded is there');
$dbh->begin_work;
$dbh->selectall_arrayref(q{SELECT * FROM gpucredit.account_delta
	WHERE org = 'o1' FOR UPDATE});
query($node, $db, q{SELECT gpucredit.hold('o2', '', 'm3', 3, '1 h');
	SELECT gpucredit.capture('o2', (SELECT max(hold) FROM gpucredit.hold
		WHERE org = 'o2'), 'm3-c', 3)});
is( query($node, $db, q{SET statement_timeout = '2min';
		SELECT affected FROM gpucredit.maintain()
		WHERE task = 'fold_spend'}),
	2, 'deltas that are locked are left, others folded');
$dbh->rollback;

# An open call makes rebuild of its own organisation wait, but not of others.
$dbh->begin_work;
$dbh->do(q{SELECT gpucredit.hold('o1', '', 'm4', 3, '1 h')});
query_fails($node, $db, q{SET lock_timeout = '200ms';
	SELECT * FROM gpucredit.rebuild('o1')}, '55P03',
	'rebuild waits for a call in flight');
is( query($node, $db, q{SET lock_timeout = '2min';
		SELECT count(*) FROM gpucredit.rebuild('o2')}),
	0, 'rebuild waits for no call of another organisation');
$dbh->commit;
verify_empty($node, $db);

# Each organisation is in one of the ranges, and what is of none in the first.
query($node, $db, q{SELECT count(gpucredit.create_account(o))
	FROM unnest('{O2,o1!,o1-,o10,o 1,\u00f6,\u4e2d}'::text[]) o} =~ s/\\u(\w{4})/chr(hex($1))/ger);
my $wrong = q{
	UPDATE gpucredit.account SET limits = '{}' WHERE account = '';
	UPDATE gpucredit.node SET leaf = 'nobody set that' WHERE node = 'h1'};
my $all = q{SELECT v.* FROM gpucredit.verify() v ORDER BY v};
foreach my $n (2, 100)
{
	$dbh->begin_work;
	$dbh->do($wrong);
	$dbh->do("CREATE TEMP TABLE r AS SELECT * FROM gpucredit.verify_ranges($n)");
	is_deeply(
		$dbh->selectall_arrayref(q{SELECT v.* FROM r CROSS JOIN LATERAL
			gpucredit.verify(after => r.after, upto => r.upto) v ORDER BY v}),
		$dbh->selectall_arrayref($all),
		"at most $n ranges find together what verify() finds in all");
	is($dbh->selectrow_array(q{SELECT count(*) FROM (SELECT v.org
			FROM gpucredit.verify() v) v}), 10,
		'verify() finds something of each organisation and of a node');
	is($dbh->selectrow_array(q{SELECT count(*) FROM r
			CROSS JOIN LATERAL gpucredit.verify(after => r.after, upto => r.upto) v
			WHERE (v.org = '') <> (v.org = '' AND r.range = 1)
				OR v.org COLLATE "C" <= r.after OR v.org COLLATE "C" > r.upto}), 0,
		'each range reports its own organisations, the first one the node');
	is($dbh->selectrow_array(q{SELECT count(*) FROM (SELECT r.*,
				lag(r.upto) OVER w AS before, lead(1) OVER w AS next, row_number() OVER w AS n
			FROM r WINDOW w AS (ORDER BY r.range)) r
			WHERE r.after IS DISTINCT FROM r.before OR r.range <> r.n
				OR (r.upto IS NULL) <> (r.next IS NULL)}), 0,
		'a range begins where the one before ends, and the last has no end');
	cmp_ok($dbh->selectrow_array('SELECT count(*) FROM r'), '<=', $n,
		'there are no more ranges than asked for');
	$dbh->rollback;
}
query_fails($node, $db, "SELECT * FROM gpucredit.verify($_)", '22023',
	"verify($_) is refused")
  foreach ("'o1', after => 'a'", "'o1', upto => 'p'", "after => 'o2', upto => 'o1'",
	"after => 'o1', upto => 'o1'");
verify_empty($node, $db);

done_testing();
