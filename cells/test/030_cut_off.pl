# 030_cut_off.pl: either end of a lease dies, hangs, is not there, or never comes back
#
# Long: it takes minutes
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

# Cut off: home hangs, or refuses connections, for longer or shorter than the
# lease lasts

sub processes_of
{
	my ($name) = @_;
	my $data = $node{$name}->data_dir;

	return grep { (readlink("/proc/$_/cwd") || '') eq $data } map { m{(\d+)$} } glob('/proc/[0-9]*');
}

my @stopped;
my %cut_off = (
	hangs   => [ sub { kill('STOP', @stopped = processes_of('eu')) }, sub { kill('CONT', @stopped) } ],
	refuses => [ sub { $node{eu}->stop }, sub { $node{eu}->start } ]);

foreach my $how (sort keys %cut_off)
{
	foreach my $longer (1, 0)
	{
		my $what = "home $how, " . ($longer ? 'longer' : 'shorter') . ' than the lease';
		my ($cut, $mend) = @{ $cut_off{$how} };

		at('eu', "SELECT gpucredit_cells.recall('acme', lease) FROM gpucredit_cells.lease_out WHERE closed_at IS NULL");
		carry_all();
		my $lease = lease(20, $longer ? '8 s' : '1 hour');
		at('eu', 'SELECT * FROM gpucredit_cells.carry()') foreach 1, 2;
		is(balance('us', 'vision') =~ s/\|.*//r, '20', "$what: the region has 20");
		$cut->();
		is(spend(8), 'spent', '... and goes on, cut off');
		my $began = time();

		like(join('', map { at('us', "SELECT string_agg(error, '') FROM gpucredit_cells.carry(patience => '1 s')") } 1, 2),
			qr/08/, '... what it carries gets no answer');
		cmp_ok(time() - $began, '<', 60, '... nobody waits for ever');
		is(at('us', 'SELECT problem FROM gpucredit_cells.verify_cells()'), 'unreachable', '... verify_cells() says so')
		  if $how eq 'refuses' && !$longer;
		if ($longer)
		{
			$node{us}->poll_query_until('cell', "SELECT bool_and(expires_at <= gpucredit.now()) FROM gpucredit_cells.lease_in WHERE lease = '$lease'");
			is(spend(1), 'insufficient_credits', '... to the end of the lease, and no further');
		}
		$mend->();
		is(at('eu', "SELECT trim_scale(spent), closed_at IS NULL FROM gpucredit_cells.lease_out WHERE lease = '$lease'"), '0|t',
			'... home gave nothing back before it heard');
		is(spend(5), 'spent', '... the lease goes on') unless $longer;
		carry_all();
		is(at('eu', "SELECT trim_scale(spent), trim_scale(available), trim_scale(given_back), closed_at IS NOT NULL FROM gpucredit_cells.lease_out WHERE lease = '$lease'"),
			$longer ? '8|0|12|t' : '13|7|0|f', '... then what was spent is captured, and what has lapsed is back');
		books_agree($what);
	}
}

# A region that is lost

my $gone = lease(10, '8 s');
at('eu', 'SELECT * FROM gpucredit_cells.carry()') foreach 1, 2;
is(spend(3), 'spent', 'a region that nobody will hear of');
$node{us}->stop;
$node{eu}->poll_query_until('cell', "SELECT expires_at < gpucredit.now() FROM gpucredit_cells.lease_out WHERE lease = '$gone'");
at('eu', "SELECT gpucredit_cells.write_off('acme', '$gone', 1, 'flood')");
is(at('eu', "SELECT trim_scale(captured), trim_scale(given_back) FROM gpucredit_cells.lease_out WHERE lease = '$gone'"), '1|9', 'is written off');
$node{us}->start;
carry_all();
is(at('eu', "SELECT trim_scale(captured), trim_scale(spent) FROM gpucredit_cells.lease_out WHERE lease = '$gone'"), '3|3', 'what it reports after all is captured');
books_agree('written off');
done_testing();
