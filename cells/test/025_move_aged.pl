# 025_move_aged.pl: an organisation moves whose older rows were removed by age
#
# What was removed before the move stays provable; so does what is removed
# after it, in either cell.
# Packages: postgresql-N-plproxy
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../test/perl", "$FindBin::RealBin/lib";
use GpuCredit;
use GpuCreditCells;
use Test::More;

my $checker = "$FindBin::RealBin/../../test/proof/check_proof.pl";
my $cells   = GpuCreditCells->new(qw(a b));
my $long_ago = q{SET gpucredit.clock = '2020-01-01 12:00+00';};
my $remove = q{SELECT gpucredit_internal.archive('entry', 1000),
	gpucredit_internal.archive('audit', 1000), gpucredit_internal.forget_usage(1000)};
my $books = q{SELECT available, held, spent, paid, promo FROM gpucredit.balance('acme', 'x')};

sub at
{
	my ($name, $sql) = @_;

	return query($cells->{$name}, 'credit', $sql);
}

sub keep_for
{
	my ($name, $time) = @_;

	at($name, "ALTER DATABASE credit SET gpucredit.$_ = '$time'")
	  foreach qw(entry_retention audit_retention usage_retention);
	return;
}

sub proof_of
{
	my ($name, $entry) = @_;

	return at($name, "SELECT to_json(p) FROM gpucredit.audit_proof(($entry)) p");
}

# A test: the proof ends in one of the seals.
sub proves
{
	my ($proof, $seals, $what) = @_;
	my $good = 0;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	foreach my $seal (split /\n/, $seals)
	{
		my $copy = $proof;

		$good++ if PostgreSQL::Test::Utils::run_log([ 'perl', $checker, $seal ], '<', \$copy);
	}
	return is($good, 1, $what);
}

# An organisation with a past, of which some goes on
$cells->at_router(q{SELECT gpucredit_cells.set_home('acme', 'a', 'home acme')});
at('a', qq{$long_ago
	SELECT gpucredit.create_account('acme'), gpucredit.create_account('acme', 'x'),
		gpucredit.issue('acme', '', 'bought', 1000), gpucredit.set_budget('acme', 'x', 500),
		gpucredit.issue('acme', 'x', 'promo', 10, kind => 'promo', valid_for => '1 day'),
		gpucredit.issue('acme', '', 'wrong', 5);
	SELECT gpucredit.revoke('acme', max(bucket), 'taken back', 'wrong') FROM gpucredit.bucket;
	SELECT gpucredit.capture('acme', (gpucredit.hold('acme', 'x', 'h' || i, 3, '1 h')).hold, 'c' || i, 2)
	FROM generate_series(1, 20) i;
	SELECT gpucredit.hold('acme', 'x', 'long', 8, '9999 days')});
at('a', "$long_ago SELECT * FROM gpucredit.seal_audit()") foreach 1, 2;
my $left = proof_of('a', 'SELECT min(entry) FROM gpucredit.entry');
keep_for('a', '60d');
at('a', $remove);
like(at('a', q{SELECT count(*) FROM gpucredit.closing WHERE org = 'acme'}), qr/^[1-9]/, 'entries have left');
is(at('a', 'SELECT count(*) FROM gpucredit.entry'), '0', '... all of that time');
at('a', q{SELECT gpucredit.capture('acme', hold, 'part of it', 3, final => false) FROM gpucredit.hold WHERE closed_at IS NULL;
	SELECT gpucredit.hold('acme', 'x', 'new', 7, '1 h')});
at('a', 'SELECT * FROM gpucredit.seal_audit()') foreach 1, 2;
my $stays = proof_of('a', 'SELECT min(entry) FROM gpucredit.entry');
my $was   = $cells->at_router($books);

# A cell that keeps everything refuses an organisation with an incomplete past
my $error = '';
$cells->{router}->psql('credit', q{CALL gpucredit_cells.move_org('acme', 'b', 'first')}, stderr => \$error);
like($error, qr/cell "b" keeps what cell "a" has removed.*removed there up to 2020.*kept here for ever/s,
	'it does not go where rows are kept for longer');
is($cells->at_router(q{SELECT status FROM gpucredit.hold('acme', 'x', 'on', 1, '1 h')}), 'granted', 'and works on');
$cells->at_router(q{SELECT gpucredit.release('acme', hold, 'off') FROM gpucredit.hold('acme', 'x', 'on', 1, '1 h')});
keep_for('b', '60d');
$cells->at_router(q{CALL gpucredit_cells.move_org('acme', 'b', 'second')});
is($cells->at_router($books), $was, 'balances are those of before');
is(at('b', 'SELECT sum(entries) FROM gpucredit.closing'), at('a', 'SELECT sum(entries) FROM gpucredit.closing'),
	'the sums of what had left came, too');
is(at('b', q{SELECT detail ->> 'cell' FROM gpucredit.audit WHERE decision = 'arrived' AND reason = 'entry'}), 'a',
	'an audit row says from where');
query_fails($cells->{b}, 'credit', q{SELECT gpucredit.balance('acme', as_of => '2020-01-01 11:00+00')}, '22023',
	'the past is as incomplete as it was');
is($cells->at_router(q{SELECT captured FROM gpucredit.capture('acme', (SELECT (r).hold FROM
	(SELECT gpucredit.hold('acme', 'x', 'new', 7, '1 h') AS r) n), 'after', 7)}), '7.000000', 'what was held is captured');
$cells->verify_all;

# Proofs from before the move
my $seals = at('b', q{SELECT encode(seal, 'hex') FROM gpucredit_cells.foreign_seal WHERE cell = 'a'});
proves($left, $seals, 'a proof of an entry that left before the move stays good');
proves($stays, $seals, 'so does one of an entry that moved');

# The rest leaves, in both cells
at('b', 'SELECT * FROM gpucredit.seal_audit()') foreach 1, 2;
my $then  = $cells->at_router($books);
my $moved = proof_of('b', 'SELECT min(entry) FROM gpucredit.entry');
foreach my $name (qw(a b))
{
	at($name, 'SELECT * FROM gpucredit.seal_audit()') foreach 1, 2;
	at($name, qq{SELECT set_config('gpucredit.clock', (now() + '100 days'::interval)::text, false); $remove});
	is(at($name, 'SELECT count(*) FROM gpucredit.entry'), '0', "every entry has left cell $name");
	is(at($name, 'SELECT * FROM gpucredit.verify_audit()'), '', '... and its seals hold');
}
proves($moved, at('b', 'SELECT seal FROM gpucredit.seals'), 'a proof made in the new cell stays good');
proves($_, $seals, 'and those made in the old one') foreach $left, $stays;
is($cells->at_router($books), $then, 'balances stand');
at('b', q{SELECT gpucredit.issue('acme', '', 'more', 1)});
$cells->verify_all;
is(at('a', 'SELECT * FROM gpucredit_cells.verify_cells()'), '', 'verify_cells() is empty');

# A digest that covers the sums
at('b', q{SET session_replication_role = replica; ALTER TABLE gpucredit.closing DISABLE TRIGGER closing_append_only;
	UPDATE gpucredit.closing SET entries = entries + 1 WHERE ctid = (SELECT min(ctid) FROM gpucredit.closing);
	ALTER TABLE gpucredit.closing ENABLE ALWAYS TRIGGER closing_append_only});
like(at('b', 'SELECT invariant FROM gpucredit.verify()'), qr/closings_are_as_written/, 'a sum that is changed is found');
done_testing();
