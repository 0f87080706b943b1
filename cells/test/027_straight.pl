# 027_straight.pl: an application that connects to an organisation's cell
# straight, and follows it when it moves
# Packages: postgresql-N-plproxy
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../test/perl", "$FindBin::RealBin/lib";
use DBI;
use GpuCredit;
use GpuCreditCells;
use Test::More;
use Time::HiRes qw(sleep time);

my $cells = GpuCreditCells->new(qw(a b));
my ($dbh, $epoch, $moves);

query($_, 'credit', $_ == $cells->{router} ? 'CREATE ROLE app LOGIN IN ROLE gpucredit_app; CREATE ROLE tess LOGIN IN ROLE gpucredit_tenant'
	: 'CREATE ROLE app LOGIN IN ROLE gpucredit_app') foreach @{$cells}{qw(router a b)};
$cells->at_router($_) foreach
  "SELECT gpucredit_cells.set_home('acme', 'a', 'home acme')",
  "SELECT gpucredit.create_account('acme'), gpucredit.issue('acme', '', 'bought', 1000)";

is($cells->at_router("SELECT cell, region, epoch = (SELECT epoch FROM gpucredit_cells.home) FROM gpucredit_cells.find_home('acme')"),
	'a|region a|t', 'a router says where the home is');
is(query($cells->{a}, 'credit', "SELECT cell FROM gpucredit_cells.find_home('acme')"), 'a', 'so does the home');
query_fails($cells->{b}, 'credit', "SELECT gpucredit_cells.find_home('acme')", 'UC701', 'another cell does not know it');
query_fails($cells->{router}, 'credit', "SELECT gpucredit_cells.find_home($_)", 'UC701', "nobody knows the home of $_")
  foreach "'nobody'", 'NULL', "''";
query_fails($cells->{router}, 'credit', "SET ROLE tess; SELECT gpucredit_cells.find_home('acme')", '42501',
	'a tenant does not learn who else there is, or where');

# Every hold has its own key, so a call that is made again is made once.
my ($client) = in_parallel(1, sub {
	my $until = time + 180;
	my ($made, $after) = (0, 0);

	follow();
	while ($after < 40)
	{
		die 'it has not moved' if time > $until;
		call('SELECT gpucredit.hold(\'acme\', \'\', \'hold ' . ++$made . '\', 1, \'1 day\')');
		$after++ if $moves;
		sleep 0.005;
	}
	connect_to($cells->{b}, "credit")->do("CREATE TABLE client AS SELECT $made AS made, $moves AS moves");
});
$cells->at_router("CALL gpucredit_cells.move_org('acme', 'b', 'move acme')");
is(wait_for_children($client), 0, 'an application that is connected straight sees no error that its rule does not cover');
is(query($cells->{b}, 'credit', 'SELECT moves FROM client'), '1', 'it followed the move');
is(query($cells->{b}, 'credit', q{SELECT h.n = c.made, b.held = c.made, b.available + b.held
	FROM client c, gpucredit.balance('acme') b, LATERAL (SELECT count(*) AS n FROM gpucredit.hold o
		WHERE o.org = 'acme' AND o.closed_at IS NULL) h}),
	't|t|1000.000000', 'each of its holds was made once, in one cell or the other');

# A call that only reads would find the account that was closed in the old cell.
my $old = $cells->at_router("SELECT epoch - 1 FROM gpucredit_cells.find_home('acme')");
query_fails($cells->{a}, 'credit', "SELECT available FROM gpucredit.balance(gpucredit_cells.at_home('acme', $old))", 'UC701',
	'with at_home() the old home refuses to read, too');
is($cells->at_router("SELECT cell FROM gpucredit_cells.find_home('acme')"), 'b', 'the router knows the new home');
$cells->verify_all;
done_testing();

# Connects to where the router says that the organisation is.
sub follow
{
	my $router = connect_to($cells->{router}, 'credit', user => 'app');
	my ($where, $at) = $router->selectrow_array("SELECT dsn, epoch FROM gpucredit_cells.find_home('acme')");

	$router->disconnect;
	$moves++ if $epoch && $at != $epoch;
	$epoch = $at;
	$dbh->disconnect if $dbh;
	$dbh = DBI->connect('dbi:Pg:' . join(';', split(' ', $where)), 'app', undef, { RaiseError => 1, PrintError => 0 });
	return;
}

# Makes a call until its home takes it.
sub call
{
	my ($sql) = @_;

	for (1 .. 2000)
	{
		return if eval { $dbh->do($sql); 1 };
		die "$@ (" . $dbh->state . ")" unless $dbh->state =~ /^UC70[12]$/;
		sleep 0.02 if $dbh->state eq 'UC702';
		follow();
	}
	die 'it is nowhere at home';
}
