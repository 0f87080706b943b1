# 080_seal.pl: sealing beside writers that commit in any order, proofs checked
# by a separate program, and the chain in a restored database

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use DBD::Pg ':async';
use GpuCredit;
use PostgreSQL::Test::Utils;
use Test::More;

my $checker = "$FindBin::RealBin/../proof/check_proof.pl";
my $dir     = PostgreSQL::Test::Utils::tempdir();
my $node    = new_node('main', 'max_prepared_transactions = 2');
my $sealed  = q{SELECT sum(entries) || ' ' || sum(audits) FROM gpucredit.seals};
my $there   = q{SELECT (SELECT count(*) FROM gpucredit.entry) || ' ' ||
	(SELECT count(*) FROM gpucredit.audit)};

new_database($node, 'credit');
query(
	$node, 'credit', q{
	SELECT gpucredit.create_account('o' || n) FROM generate_series(1, 4) n;
	SELECT gpucredit.issue('o' || n, '', 'paid', 1000)
	FROM generate_series(1, 4) n});

# An open transaction has taken numbers below those of others that committed.
my $open = connect_to($node, 'credit');
$open->begin_work;
$open->do(q{SELECT * FROM gpucredit.hold('o1', '', 'open', 1, '1 h')});
query($node, 'credit', q{SELECT * FROM gpucredit.hold('o2', '', 'later', 1, '1 h')});
query($node, 'credit', 'SELECT * FROM gpucredit.seal_audit()');
is( query(
		$node, 'credit',
		'SELECT cardinality(waiting_for), entries_unsealed > 0 FROM gpucredit.seal_status'),
	'1|t',
	'the open transaction that sealing waits for is named');
query($node, 'credit', q{SELECT * FROM gpucredit.hold('o2', '', 'still later', 1, '1 h')});
is(query($node, 'credit', 'SELECT sum(affected) FROM gpucredit.seal_audit()'),
	'0', 'nothing is sealed past an open transaction that has written');
$open->commit;
query($node, 'credit', 'SELECT * FROM gpucredit.seal_audit()');
is(query($node, 'credit', $sealed), query($node, 'credit', $there),
	'when the open transaction has ended one call seals all');

# Sealing does not wait for maintenance of the tables until it writes.
$open->begin_work;
$open->do('ANALYZE gpucredit.entry, gpucredit.audit');
query($node, 'credit', q{SELECT * FROM gpucredit.hold('o2', '', 'beside ANALYZE', 1, '1 h')});
query($node, 'credit', 'SELECT * FROM gpucredit.seal_audit()');
is(query($node, 'credit', $sealed), query($node, 'credit', $there), 'ANALYZE is not waited for');
$open->do(q{SELECT * FROM gpucredit.hold('o1', '', 'after ANALYZE', 1, '1 h')});
query($node, 'credit', q{SELECT * FROM gpucredit.hold('o2', '', 'later than that', 1, '1 h')});
is(query($node, 'credit', 'SELECT sum(affected) FROM gpucredit.seal_audit()'),
	'0', 'a transaction with ANALYZE that has written is waited for');
$open->commit;
query($node, 'credit', 'SELECT * FROM gpucredit.seal_audit()');

# Sealing does not wait for VACUUM, which here waits for a pinned page.
{
	my $looker = connect_to($node, 'credit');
	my $vacuum = connect_to($node, 'credit');

	$looker->begin_work;
	$looker->do('DECLARE c CURSOR FOR SELECT FROM gpucredit.entry');
	$looker->do('FETCH 1 FROM c');
	$vacuum->do('VACUUM (FREEZE) gpucredit.entry', { pg_async => PG_ASYNC });
	$node->poll_query_until('credit', q{SELECT count(*) = 1 FROM pg_stat_activity
		WHERE wait_event = 'BufferPin'})
	  or die 'nothing waits for the page';
	query($node, 'credit', q{SELECT * FROM gpucredit.hold('o2', '', 'beside it', 1, '1 h')});
	query($node, 'credit', 'SELECT * FROM gpucredit.seal_audit()');
	is(query($node, 'credit', $sealed), query($node, 'credit', $there),
		'VACUUM is not waited for');
	$looker->commit;
	$vacuum->pg_result;
	$_->disconnect foreach $looker, $vacuum;
}

# One call at a time seals.  ANALYZE of the chain's table, whose lock conflicts
# with itself, does not block it.
$open->begin_work;
$open->do('ANALYZE gpucredit.seal');
query($node, 'credit', q{SELECT * FROM gpucredit.hold('o2', '', 'while the chain is looked after', 1, '1 h')});
query($node, 'credit', 'SELECT * FROM gpucredit.seal_audit()');
is(query($node, 'credit', $sealed), query($node, 'credit', $there),
	"who looks after the chain's table keeps nobody from sealing");
$open->commit;
query($node, 'credit', q{SELECT * FROM gpucredit.hold('o2', '', 'sealed by the first', 1, '1 h')});
$open->begin_work;
is($open->selectrow_array('SELECT sum(affected) > 0 FROM gpucredit.seal_audit()'),
	1, 'two calls at once: the first seals');
query($node, 'credit', q{SELECT * FROM gpucredit.hold('o2', '', 'after the first', 1, '1 h')});
is(query($node, 'credit', 'SELECT sum(affected) FROM gpucredit.seal_audit()'),
	'0', 'two calls at once: the second finds nothing to do');
$open->commit;
query($node, 'credit', 'SELECT * FROM gpucredit.seal_audit()');
is(query($node, 'credit', $sealed), query($node, 'credit', $there),
	'two calls at once: the next one seals the rest');

# The same for a prepared transaction, across a restart.
$open->begin_work;
$open->do(q{SELECT * FROM gpucredit.hold('o1', '', 'prepared', 1, '1 h')});
query($node, 'credit', 'SELECT * FROM gpucredit.seal_audit()');
$open->do(q{PREPARE TRANSACTION 'later'});
$open->{AutoCommit} = 1;
query($node, 'credit', q{SELECT * FROM gpucredit.hold('o2', '', 'after it', 1, '1 h')});
is(query($node, 'credit', 'SELECT sum(affected) FROM gpucredit.seal_audit()'),
	'0', 'a prepared transaction is waited for');
$open->disconnect;
$node->restart;
is(query($node, 'credit', 'SELECT sum(affected) FROM gpucredit.seal_audit()'),
	'0', 'a prepared transaction is waited for after a restart');
query($node, 'credit', q{COMMIT PREPARED 'later'});
query($node, 'credit', 'SELECT * FROM gpucredit.seal_audit()');
is(query($node, 'credit', $sealed), query($node, 'credit', $there),
	'a prepared transaction is sealed once it is committed');

# Eight writers, one of four transactions rolled back, and two sealers.
is( wait_for_children(in_parallel(
		10,
		sub {
			my ($n) = @_;
			my $dbh   = connect_to($node, 'credit');
			my $until = time + 8;

			# until the time is over and enough is sealed
			for (my $i = 0; time < $until || !-e "$dir/sealed" && time < $until + 180; $i++)
			{
				if ($n >= 8)
				{
					$dbh->do('SELECT * FROM gpucredit.seal_audit()');
					append_to_file("$dir/sealed", '') if $dbh->selectrow_array(
						'SELECT count(*) > 10 FROM gpucredit.seals');
					next;
				}
				$dbh->begin_work;
				$dbh->do(
					q{SELECT * FROM gpucredit.hold(?, '', ?, 0.01, '1 h')},
					undef, 'o' . (1 + $n % 4), "$n $i");
				select undef, undef, undef, rand 0.01;
				rand(4) < 1 ? $dbh->rollback : $dbh->commit;
			}
		})),
	0,
	'writers and sealers side by side meet no error');
query($node, 'credit', 'SELECT * FROM gpucredit.seal_audit()');
is(query($node, 'credit', $sealed), query($node, 'credit', $there),
	'every row of the writers is sealed once');
is(query($node, 'credit', 'SELECT * FROM gpucredit.verify_audit()'),
	'', 'verify_audit() finds nothing after writers and sealers side by side');
cmp_ok(query($node, 'credit', 'SELECT count(*) FROM gpucredit.seals'),
	'>', 10, 'writers and sealers side by side have made more than ten batches');

# A program without code of the extension agrees.
my @entries = split /\n/, query(
	$node, 'credit', q{
	SELECT entry FROM gpucredit.entry ORDER BY random() LIMIT 20});

is(scalar(grep { check_proof($_) eq 'sealed' } @entries),
	20, 'proofs of 20 entries hold');
unlike(check_proof($entries[0], sub { $_[0] =~ s/amount (\d+) /amount $1 1/r }),
	qr/^sealed/, 'the proof of a changed row does not hold');
unlike(check_proof($entries[0], sub { $_[0] =~ s/"leaf_index":\s*(\d+)/'"leaf_index":' . ($1 ^ 1)/er }),
	qr/^sealed/, 'the proof of a row in another place does not hold');

# The chain is the same after dump and restore, and goes on.
my $head = query($node, 'credit', 'SELECT seal FROM gpucredit.seals ORDER BY batch DESC LIMIT 1');

command_ok([ 'pg_dump', '-Fc', '-f', "$dir/dump", $node->connstr('credit') ],
	'pg_dump');
my $other = fresh_node('other');

query($other, 'postgres', 'CREATE DATABASE credit');
command_ok(
	[ 'pg_restore', '--exit-on-error', '-d', $other->connstr('credit'), "$dir/dump" ],
	'pg_restore into another cluster');
is( query(
		$other, 'credit',
		"SELECT * FROM gpucredit.verify_audit(published => decode('$head', 'hex'))"),
	'', 'the restored rows are those that were sealed');
query($other, 'credit', q{SELECT * FROM gpucredit.hold('o1', '', 'new', 1, '1 h')});
is(query($other, 'credit', 'SELECT string_agg(affected::text, $$ $$) FROM gpucredit.seal_audit()'),
	'1 1', 'in the restored database the chain goes on');
verify_empty($other, 'credit', 'restored');
verify_empty($node,  'credit', 'in the end');
done_testing();

# The checker's verdict on an entry's proof after tampering.
sub check_proof
{
	my ($entry, $tamper) = @_;
	my $proof = query($node, 'credit',
		"SELECT to_json(p) FROM gpucredit.audit_proof($entry) p");
	my $seal = query($node, 'credit',
		"SELECT encode(seal, 'hex') FROM gpucredit.audit_proof($entry)");
	my ($out, $error) = ('', '');

	$proof = $tamper->($proof) if $tamper;
	IPC::Run::run([ $^X, $checker, $seal ], '<', \$proof, '>', \$out, '2>',
		\$error);
	return $out =~ s/\n\z//r;
}
