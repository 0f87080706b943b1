# 015_cancelled.pl: a call through a router that is cancelled, here or in its
# cell, leaves the session and its transaction as any statement that failed.
# Packages: postgresql-N-plproxy
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../test/perl", "$FindBin::RealBin/lib";
use GpuCredit;
use GpuCreditCells;
use Test::More;

my $ROUNDS = $ENV{GC_CANCELS} || 60;	# of each kind
my $cells  = GpuCreditCells->new(qw(a b));
my $router = $cells->{router};
my $cell   = $cells->{b};

$cells->at_router($_)
  foreach q{SELECT gpucredit_cells.set_home('acme', 'b', 'home')},
  q{SELECT gpucredit.create_account('acme')}, q{SELECT gpucredit.issue('acme', '', 'paid', 1000000)};
foreach my $node ($router, $cells->{a}, $cell)
{
	query($node, 'credit', $_) foreach 'CREATE ROLE app LOGIN', 'GRANT gpucredit_app TO app';
	GpuCreditCells::let_in($node, 'app');
}

# A row lock in the cell that a hold waits for: on the only bucket.
my $blocker = connect_to($cell, 'credit', name => 'blocker');
my $dbh = connect_to($router, 'credit', user => 'app');
my $pid = $dbh->selectrow_array('SELECT pg_backend_pid()');
my $keys = 0;
my %seen;

sub block { $blocker->begin_work; $blocker->do('SELECT FROM gpucredit.bucket FOR UPDATE'); return }
sub unblock { $blocker->rollback; return }

# Runs a statement that may fail; returns its SQLSTATE.
sub try
{
	my ($sql, @values) = @_;

	eval { $dbh->do($sql, undef, @values); 1 } and return '';
	my $state = $dbh->state;
	return $state;
}

my $hold = q{SELECT * FROM gpucredit.hold('acme', '', $1, 1, '1 hour')};

# The session works, as does the same key: one hold in all, with an answer.
sub works
{
	my ($key, $what) = @_;
	my $row = eval { $dbh->selectrow_hashref($hold, undef, $key) };
	my $again = eval { $dbh->selectrow_hashref($hold, undef, $key) };
	my $pids = eval { $dbh->selectrow_array('SELECT pg_backend_pid()') };

	return 1 if $row && $again && $row->{status} eq 'granted' && $again->{replayed}
	  && $row->{hold} == $again->{hold} && $pids == $pid;
	diag("$what: " . ($dbh->errstr // 'another answer'));
	return 0;
}

# Rounds of one kind: the call is cut, in a block or not, then all is well.
sub rounds
{
	my ($what, $n, $states, $cut, $prepare) = @_;
	my ($good, $broken) = (0, 0);

	foreach my $i (1 .. $n)
	{
		my $key = 'key ' . ++$keys;
		my $level = ('', 'READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE')[ $i % 4 ];
		my $ok = 1;

		$prepare->() if $prepare;
		block();
		$dbh->do("BEGIN ISOLATION LEVEL $level") if $level;
		$dbh->do('SAVEPOINT before') if $level && $i % 8 > 3;
		my $state = $cut->($key);
		$seen{"$what $state"}++;
		$ok &&= $state =~ /^(?:$states)$/;
		unblock();
		if ($level && $i % 8 > 3)
		{
			$ok &&= try('ROLLBACK TO before') eq '';
			$ok &&= try('SELECT 1') eq '';
		}
		elsif ($level)
		{
			$ok &&= try('SELECT 1') eq '25P02';
		}
		$ok &&= try('ROLLBACK') eq '' if $level;
		$dbh->do('RESET statement_timeout');	# a slow machine takes longer
		$ok &&= works($key, $what);
		$ok ? $good++ : $broken++;
		last if $broken > 3;
	}
	is($good, $n, "$what: $n times the session goes on, and the key stands for one hold");
	$dbh->do('RESET ALL');
	return;
}

# Calls a function once the hold waits in the cell.
sub when_waiting
{
	my ($key, $act) = @_;
	my ($child) = in_parallel(1, sub {
		my $h = connect_to($cell, 'credit', name => 'watcher');
		my $waiting;

		foreach (1 .. 2000)
		{
			$waiting = $h->selectrow_array(q{SELECT pid FROM pg_stat_activity
				WHERE usename = 'gpucredit_router' AND wait_event_type = 'Lock'});
			last if $waiting;
			select undef, undef, undef, 0.005;
		}
		$act->($h, $waiting);
	});
	my $state = try($hold, $key);

	wait_for_children($child);
	return $state;
}

rounds('statement_timeout', $ROUNDS, '57014', sub { try($hold, $_[0]) },
	sub { $dbh->do(q{SET statement_timeout = '40ms'}) });
rounds('pg_cancel_backend at the router', int($ROUNDS / 3), '57014', sub {
	when_waiting($_[0], sub {
		connect_to($router, 'credit')->do("SELECT pg_cancel_backend($pid)") }) });
rounds('pg_cancel_backend in the cell', int($ROUNDS / 3), '57014', sub {
	when_waiting($_[0], sub { $_[0]->do("SELECT pg_cancel_backend($_[1])") }) });
rounds('pg_terminate_backend in the cell', int($ROUNDS / 3), '57P01|08006', sub {
	when_waiting($_[0], sub { $_[0]->do("SELECT pg_terminate_backend($_[1])") }) });
query($cell, 'credit', q{ALTER ROLE gpucredit_router SET lock_timeout = '100ms'});
$dbh = connect_to($router, 'credit', user => 'app');
$pid = $dbh->selectrow_array('SELECT pg_backend_pid()');
rounds('lock_timeout of the cell', int($ROUNDS / 3), '55P03', sub { try($hold, $_[0]) });
query($cell, 'credit', q{ALTER ROLE gpucredit_router RESET lock_timeout});
query($cell, 'credit', q{ALTER ROLE gpucredit_router SET statement_timeout = '250ms'});
$dbh = connect_to($router, 'credit', user => 'app');
$pid = $dbh->selectrow_array('SELECT pg_backend_pid()');
rounds('statement_timeout of the cell', int($ROUNDS / 3), '57014', sub { try($hold, $_[0]) });
query($cell, 'credit', q{ALTER ROLE gpucredit_router RESET statement_timeout});

# a function that catches the cancel
$dbh = connect_to($router, 'credit', user => 'app');
$pid = $dbh->selectrow_array('SELECT pg_backend_pid()');
query($router, 'credit', q{
	CREATE FUNCTION caught(key text) RETURNS text LANGUAGE plpgsql AS $$
	BEGIN
		PERFORM gpucredit.hold('acme', '', key, 1, '1 hour');
		RETURN 'done';
	EXCEPTION WHEN query_canceled THEN
		RETURN 'cancelled ' || SQLERRM;
	END $$});
block();
$dbh->do(q{SET statement_timeout = '100ms'});
like($dbh->selectrow_array(q{SELECT caught('caught')}), qr/^cancelled canceling statement due to statement timeout/,
	'PL/pgSQL catches a cancel of a routed call');
unblock();
$dbh->do('RESET ALL');
ok(works('caught', 'PL/pgSQL'), '... and the session goes on');

# a function whose route is in PL/pgSQL, and one that goes to all cells
block();
$dbh->do(q{SET statement_timeout = '1ms'});
foreach my $i (1 .. $ROUNDS)
{
	try(q{SELECT * FROM gpucredit.usage_by('acme', 'account', '-infinity', 'infinity')});
	try(q{SELECT * FROM gpucredit.top_spenders()});
}
unblock();
$dbh->do('RESET ALL');
ok(works('routes in PL/pgSQL', 'PL/pgSQL'), 'calls of every route are cut, and the session goes on');

# a session at the router that idles in a transaction ends as any other
$dbh->do(q{SET idle_in_transaction_session_timeout = '50ms'});
$dbh->begin_work;
$dbh->selectrow_hashref($hold, undef, 'idle');
select undef, undef, undef, 0.3;
eval { $dbh->do('SELECT 1') };
like($dbh->state, qr/^(?:25P03|57P01|08)/, 'idle_in_transaction_session_timeout ends the session at the router');
$dbh = connect_to($router, 'credit', user => 'app');
$pid = $dbh->selectrow_array('SELECT pg_backend_pid()');
ok(works('idle', 'idle'), '... its call was made, and the key replays it');

# connections that the cell closed while nothing ran
query($cell, 'credit', q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'gpucredit_router'});
select undef, undef, undef, 2.5;	# PL/Proxy looks at connections that idled for 2 s
ok(works('closed', 'closed'), 'a connection that the cell closed comes back as the caller');
query($cell, 'credit', q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'gpucredit_router'});
try($hold, 'closed again');
ok(works('closed again', 'closed'), '... also at once');

is(query($cell, 'credit', q{SELECT count(*) FROM pg_stat_activity
	WHERE usename = 'gpucredit_router' AND state <> 'idle'}), '0', 'no connection is left in a transaction');
note(join ', ', map { "$_: $seen{$_}" } sort keys %seen);
is(query($cell, 'credit', q{SELECT count(*), count(DISTINCT key) FROM gpucredit.request WHERE operation = 'hold'}),
	query($cell, 'credit', q{SELECT count(*), count(*) FROM gpucredit.hold}), 'each key made one hold');
$cells->verify_all;
done_testing();
