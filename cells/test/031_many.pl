# 031_many.pl: verify_cells() of many organisations, which it compares in ranges
#
# Two cells and a directory have GC_ORGS organisations (12,000), half of them in
# each cell, with a bucket each. They are copies of one that was made by calls.
# Packages: postgresql-N-plproxy
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../test/perl", "$FindBin::RealBin/lib";
use GpuCredit;
use GpuCreditCells;
use Test::More;
use Time::HiRes qw(time);

my $ORGS  = $ENV{GC_ORGS} || 12000;
my $cells = GpuCreditCells->new(qw(a b), 'conf', 'max_wal_size = 8GB');
my $found = 'SELECT problem, org, subject FROM gpucredit_cells.verify_cells()';
my ($began, $took);

foreach my $name (qw(a b))
{
	$cells->at_router("SELECT gpucredit_cells.set_home('first $name', '$name', 'home $name')");
	$cells->at_router("SELECT gpucredit.create_account('first $name'), gpucredit.issue('first $name', '', 'paid', 100)");
	query($cells->{$name}, 'credit', $_) foreach
	  "INSERT INTO gpucredit_cells.resident
		SELECT format('org %s', to_char(n, 'FM0000000')), 1, 'home' FROM generate_series(1, $ORGS) n
		WHERE n % 2 = " . ($name eq 'a' ? 0 : 1),
	  q{SET session_replication_role = replica;
		INSERT INTO gpucredit.bucket SELECT (c.copy).* FROM (
			SELECT jsonb_populate_record(b, jsonb_build_object('org', r.org,
				'bucket', b.bucket + 1000 * row_number() OVER ())) AS copy
			FROM gpucredit.bucket b, gpucredit_cells.resident r
			WHERE b.org LIKE 'first %' AND r.org LIKE 'org %' OFFSET 0) c};
}
$cells->at_router("INSERT INTO gpucredit_cells.home
	SELECT format('org %s', to_char(n, 'FM0000000')), CASE n % 2 WHEN 0 THEN 'a' ELSE 'b' END, 1
	FROM generate_series(1, $ORGS) n");

$began = time;
is($cells->at_router($found), '', 'nothing is found where nothing is wrong');
$took = time - $began;
note(sprintf '%d organisations in %.1f s', $ORGS, $took);
is($cells->at_router('SELECT sum(organisations), sum(trim_scale(issued)) FROM gpucredit_cells.cell_sums()'),
	join('|', $ORGS + 2, 100 * ($ORGS + 2)), 'cell_sums() counts all of them');

# The first and the last organisation, and those where a range ends and begins.
# A range has 10,000 organisations of a cell, and at most as many of the
# directory, where every second one is the cell's.
foreach my $n (1, 9999 .. 10001, $ORGS)
{
	my $org = sprintf 'org %07d', $n;
	my ($home, $other) = $n % 2 ? qw(b a) : qw(a b);

	query($cells->{$other}, 'credit', "INSERT INTO gpucredit_cells.resident VALUES ('$org', 1, 'home')");
	is($cells->at_router($found), "two_homes|$org|a, b", "two homes of organisation $n are found");
	query($cells->{$home}, 'credit', "DELETE FROM gpucredit_cells.resident WHERE org = '$org'");
	is($cells->at_router($found), "not_at_home|$org|cell $home", 'so is that it is not where the directory says');
	query($cells->{$home}, 'credit', "INSERT INTO gpucredit_cells.resident VALUES ('$org', 1, 'home')");
	query($cells->{$other}, 'credit', "DELETE FROM gpucredit_cells.resident WHERE org = '$org'");
}

# What is above every organisation of the directory and of the other cell.
query($cells->{b}, 'credit', q{INSERT INTO gpucredit_cells.lease_in (org, lease, account, cell, amount, expires_at, made_at)
	VALUES ('zoo', '00000000-0000-0000-0000-000000000001', '', 'a', 5, '2030-01-01', '2029-01-01')});
like($cells->at_router($found), qr/^lease_not_at_home\|zoo\|lease 00000000-0000-0000-0000-000000000001 in cell b$/m,
	'a lease that only one cell knows is found');

# What was settled by hand is acknowledged, row by row.
my $row = q{FROM gpucredit_cells.verify_cells() v WHERE v.problem = 'lease_not_at_home'};

$cells->at_router("SELECT gpucredit_cells.acknowledge(problem, org, subject, detail, 'paid back on invoice 7') $row")
  foreach 1, 2;
is($cells->at_router("SELECT count(*) $row"), '0', 'a row that was acknowledged does not come again');
is($cells->at_router('SELECT org, reason, login = session_user FROM gpucredit_cells.acknowledged'),
	'zoo|paid back on invoice 7|t', 'and who said so, and why, is kept');
query($cells->{b}, 'credit', 'UPDATE gpucredit_cells.lease_in SET spent = 1');
is($cells->at_router("SELECT count(*) $row"), '1', 'it comes again with other figures');
query_fails($cells->{router}, 'credit', "SELECT gpucredit_cells.acknowledge('$_', 'acme', 'x', 'y', 'z')", '22023',
	"$_ is mended, not acknowledged") foreach qw(two_homes not_at_home sum unfit unreachable wrong_cell);
query_fails($cells->{router}, 'credit', "SELECT gpucredit_cells.acknowledge('hold_differs', 'acme', 'x', 'y', $_)", '22023',
	"not for the reason $_") foreach 'NULL', "''";

# A cell that does not answer is named once, and the others are compared.
$cells->{b}->stop('fast');
like($cells->at_router($found), qr/^unreachable\|\|cell b$/, 'a cell that cannot be reached is named once');
$cells->{b}->start;
done_testing();
