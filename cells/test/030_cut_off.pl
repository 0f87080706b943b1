# 030_cut_off.pl: either end of a lease dies, hangs, is not there, or never comes back
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../test/perl", "$FindBin::RealBin/lib";
use GpuCredit;
use GpuCreditLeases;
use Test::More;

set_up();

# Either end dies between messages

foreach my $round (1 .. 6)
{
	my ($victim, $other) = $round % 2 ? qw(eu us) : qw(us eu);

	lease(10);
	at('eu', 'SELECT * FROM gpucredit_cells.carry()') foreach 1 .. 1 + $round % 3;
	spend('0.5');
	at('us', 'SELECT * FROM gpucredit_cells.carry()') if $round % 4 < 2;
	kill_server($node{$victim});
	like(at($other, 'SELECT string_agg(error, $$$$) FROM gpucredit_cells.carry()') || '08', qr/^(08|57)/,
		"round $round: $other carries nothing to $victim, and does not fail");
	$node{$victim}->start;
}
carry_all();
books_agree('killed');
my $spent = at('us', "SELECT count(*) FROM gpucredit.entry WHERE target = 'spent' AND amount = '0.5'") / 2;

is((split(/\|/, balance('eu')))[2], $spent, 'all that was spent is captured at home, once');

# Cut off: home hangs, for longer than the lease lasts

sub processes_of
{
	my ($name) = @_;
	my $data = $node{$name}->data_dir;

	return grep { (readlink("/proc/$_/cwd") || '') eq $data } map { m{(\d+)$} } glob('/proc/[0-9]*');
}

at('eu', "SELECT gpucredit_cells.recall('acme', lease) FROM gpucredit_cells.lease_out WHERE closed_at IS NULL");
carry_all();
my $short = lease(20, '6 s');
at('eu', 'SELECT * FROM gpucredit_cells.carry()') foreach 1, 2;
is(balance('us', 'vision') =~ s/\|.*//r, '20', 'the region has 20');
my @stopped = processes_of('eu');

kill('STOP', @stopped);
is(spend(8), 'spent', 'cut off, the region goes on');
my $began = time();

like(at('us', "SELECT string_agg(error, '') FROM gpucredit_cells.carry(patience => '1 s'), generate_series(1, 1)") . at('us', "SELECT string_agg(error, '') FROM gpucredit_cells.carry(patience => '1 s')"),
	qr/08/, 'what it carries gets no answer');
cmp_ok(time() - $began, '<', 60, 'and nobody waits for ever');
$node{us}->poll_query_until('cell', "SELECT bool_and(expires_at <= gpucredit.now()) FROM gpucredit_cells.lease_in WHERE lease = '$short'");
is(spend(1), 'insufficient_credits', 'to the end of the lease, and no further');
kill('CONT', @stopped);
is(at('eu', "SELECT trim_scale(spent), closed_at IS NULL FROM gpucredit_cells.lease_out WHERE lease = '$short'"), '0|t',
	'home gave nothing back before it heard');
carry_all();
is(at('eu', "SELECT trim_scale(spent), trim_scale(given_back), closed_at IS NOT NULL FROM gpucredit_cells.lease_out WHERE lease = '$short'"),
	'8|12|t', 'then what was spent is captured, and the rest is back');
books_agree('hung');

# Cut off: connections are refused, for less time than the lease lasts

my $long = lease(20);
at('eu', 'SELECT * FROM gpucredit_cells.carry()') foreach 1, 2;
$node{eu}->stop;
is(spend(5), 'spent', 'with home down the region goes on');
like(at('us', 'SELECT string_agg(error, $$$$) FROM gpucredit_cells.carry()') . at('us', 'SELECT string_agg(error, $$$$) FROM gpucredit_cells.carry()'),
	qr/^08/, 'nothing is carried');
is(at('us', 'SELECT problem FROM gpucredit_cells.verify_cells()'), 'unreachable', 'verify_cells() says that home is not there');
$node{eu}->start;
carry_all();
is(at('eu', "SELECT trim_scale(spent), trim_scale(available) FROM gpucredit_cells.lease_out WHERE lease = '$long'"), '5|15', 'home knows what was spent');
is(spend(5), 'spent', 'and the lease goes on');
carry_all();
books_agree('refused connections');

# A region that is lost

my $gone = lease(10, '2 s');
at('eu', 'SELECT * FROM gpucredit_cells.carry()') foreach 1, 2;
is(spend(3), 'spent', 'a region that nobody will hear of');
$node{us}->stop;
$node{eu}->poll_query_until('cell', "SELECT expires_at < gpucredit.now() FROM gpucredit_cells.lease_out WHERE lease = '$gone'");
at('eu', "SELECT gpucredit_cells.write_off('acme', '$gone', 1, 'flood')");
is(at('eu', "SELECT trim_scale(captured), trim_scale(given_back) FROM gpucredit_cells.lease_out WHERE lease = '$gone'"), '1|9', 'is written off');
$node{us}->start;
carry_all();
is(at('eu', "SELECT trim_scale(captured), trim_scale(spent) FROM gpucredit_cells.lease_out WHERE lease = '$gone'"), '3|3', 'what it tells after all is captured');
books_agree('written off');
done_testing();
