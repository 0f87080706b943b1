# 026_move_hangs.pl: a move waits for a cell that hangs, but not for ever
#
# All processes of a cell are stopped (SIGSTOP): it takes connections and
# statements, and answers nothing.
# Alone: it measures how long a cell is silent
# Packages: postgresql-N-plproxy
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../test/perl", "$FindBin::RealBin/lib";
use Cwd 'abs_path';
use GpuCredit;
use GpuCreditCells;
use Test::More;

my $cells  = GpuCreditCells->new(qw(a b));
my $router = $cells->{router};
my $b      = connect_to($cells->{b}, 'credit');
my (@stopped, %answers);

foreach my $org (qw(acme beta gamma delta))
{
	$cells->at_router($_) foreach "SELECT gpucredit_cells.set_home('$org', 'a', 'home $org')",
	  "SELECT gpucredit.create_account('$org'), gpucredit.issue('$org', '', 'bought', 1000)";
}

sub hang
{
	@stopped = GpuCredit::processes_in(abs_path($cells->{ $_[0] }->data_dir));
	kill('STOP', @stopped);
	return;
}

sub go_on
{
	kill('CONT', @stopped);
	return;
}

# The SQLSTATE of a move.
sub move
{
	my ($org, $patience) = @_;
	my $dbh = connect_to($router, 'credit');

	$dbh->do("SET gpucredit_cells.patience = '$patience'");
	eval { $dbh->do("CALL gpucredit_cells.move_org('$org', 'b', 'move $org')") };
	note($dbh->errstr) if $dbh->err;
	return $dbh->state;
}

# The same in a process of its own.
sub begin_move
{
	my ($org, $patience) = @_;

	pipe $answers{$org}, my $tell or die;
	in_parallel(1, sub { syswrite $tell, move($org, $patience) . "\n" });
	return;
}

sub answer_of
{
	my $pipe = $answers{ $_[0] };

	chomp(my $state = <$pipe>);
	return $state;
}

# Rows of an organisation that come into a table of cell b wait for $b.
sub halt
{
	my ($org, $table, $when) = @_;

	$b->do($_) foreach qq{CREATE CONSTRAINT TRIGGER halts_$org AFTER INSERT ON gpucredit_cells.$table
		DEFERRABLE INITIALLY $when FOR EACH ROW WHEN (NEW.org = '$org') EXECUTE FUNCTION halt()},
	  "ALTER TABLE gpucredit_cells.$table ENABLE ALWAYS TRIGGER halts_$org";
	return;
}

sub wait_for_halt
{
	$cells->{b}->poll_query_until('credit',
		"SELECT count(*) = 1 FROM pg_stat_activity WHERE wait_event = 'advisory' AND query LIKE '$_[0]'")
	  or die "no move waits at $_[0]\n";
	return;
}

sub hold
{
	my ($org, $key) = @_;

	return $cells->at_router("SELECT status FROM gpucredit.hold('$org', '', '$key', 1, '1 hour')");
}

$b->do($_) foreach q{CREATE FUNCTION halt() RETURNS trigger LANGUAGE plpgsql AS $$
	BEGIN PERFORM pg_advisory_xact_lock_shared(7); RETURN NEW; END $$},
  'SELECT pg_advisory_lock(7)';
halt('acme',  'incoming_entry', 'IMMEDIATE');
halt('beta',  'resident',       'IMMEDIATE');
halt('gamma', 'resident',       'DEFERRED');

# The new cell hangs before a move begins, in the freeze, and as it commits.
# One begins after the other, because a move that commits may keep another from
# getting as far as its freeze.
begin_move('beta', '60 s');
wait_for_halt('%receive_changes%');
begin_move('gamma', '60 s');
wait_for_halt('COMMIT');
hang('b');
begin_move('delta', '5 s');
like(answer_of('delta'), qr/^08...$/, 'the new cell hangs before a move: told in time');
is(hold('delta', 'meanwhile'), 'granted', '... the organisation works meanwhile');
is(answer_of('beta'), 'UC704', 'it hangs in the freeze: undone in time');
is(hold('beta', 'meanwhile'), 'granted', '... the organisation works meanwhile');
like(answer_of('gamma'), qr/^08...$/, 'it hangs as it commits: told in time');
query_fails($cells->{a}, 'credit', q{SELECT gpucredit.issue('gamma', '', 'more', 1)}, 'UC702',
	'... nobody knows whose home it is, so nobody changes anything');
go_on();

# The old cell hangs while it is copied.
begin_move('acme', '5 s');
wait_for_halt('%copy_ahead%');
hang('a');
$b->do('SELECT pg_advisory_unlock(7)');
like(answer_of('acme'), qr/^08...$/, 'the old cell hangs while it is copied: told in time');
go_on();
is(hold('acme', 'again'), 'granted', '... the organisation works with its cell');

# Called again, all end; what was undone needs a new key.
$b->do('DROP FUNCTION halt() CASCADE');
is(query($cells->{b}, 'credit', q{SELECT count(*) FROM gpucredit_cells.resident WHERE org <> 'gamma'}), '0',
	'the new cell has nothing of what did not move');
is(move($_, '10 min'), '', "$_ moves") foreach qw(acme gamma delta);
is(move('beta', '10 min'), 'UC704', 'a move that was undone stays so');
is($cells->at_router(q{SELECT string_agg(concat_ws(' ', org, cell, (SELECT trim_scale(b.available)
	FROM gpucredit.balance(h.org) b)), ', ' ORDER BY org) FROM gpucredit_cells.home h}),
	'acme b 999, beta a 999, delta b 999, gamma b 1000', 'each is where the directory says, with its books');
$cells->verify_all;
is($cells->at_router('SELECT * FROM gpucredit_cells.verify_cells()'), '', 'verify_cells() is empty');
done_testing();
