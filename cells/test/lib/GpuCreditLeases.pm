# GpuCreditLeases.pm: two cells, "eu" and "us", and the leases between them
#
# Organisation acme has its home in eu, with an account vision, 30 promotional
# credits and 1,000 paid ones.  No skew is allowed, so that a lease may last
# seconds.  The database is "cell" in both servers, %node.
package GpuCreditLeases;

use strict;
use warnings;

use Exporter 'import';
use GpuCredit;
use Test::More;

our @EXPORT = qw(%node at key lease carry_all spend balance books_agree fails
  set_up keep restore);
our %node;
my $keys = 0;

# Arguments are lines of both postgresql.conf.
sub set_up
{
	my @conf = @_;

	%node = map { $_ => new_node($_, 'gpucredit.clock_skew = 0', 'jit = off', @conf) } qw(eu us);
	my @places = map {
		sprintf("('%s', %d, '%s', 'host=%s port=%s dbname=cell')", $_, $_ eq 'us', $_,
			$node{$_}->host, $node{$_}->port)
	} qw(eu us);

	foreach my $name (qw(eu us))
	{
		new_database($node{$name}, 'cell', 'dblink', 'gpucredit_cells');
		at($name, 'INSERT INTO gpucredit_cells.cell VALUES ' . join(', ', @places)
			  . "; SELECT gpucredit_cells.join_cells('$name'); ALTER ROLE gpucredit_peer LOGIN");
	}
	at('eu', q{SELECT gpucredit_cells.admit('acme', 1); SELECT gpucredit.create_account('acme');
		SELECT gpucredit.create_account('acme', 'vision');
		SELECT gpucredit.issue('acme', '', 'promo', 30, 'promo', valid_for => '1 day');
		SELECT gpucredit.issue('acme', '', 'paid', 1000, policy => '{"max_per_job": 900}')});
	return;
}

sub at
{
	my ($name, $sql) = @_;

	return query($node{$name}, 'cell', $sql);
}

sub key
{
	return 'key' . ++$keys;
}

sub lease
{
	my ($amount, $ttl, $account) = @_;

	return at('eu', sprintf("SELECT lease FROM gpucredit_cells.lease('acme', '%s', 'us', '%s', %s, '%s')",
			$account // 'vision', key(), $amount, $ttl || '1 hour'));
}

# Carries until nothing is left to carry.
sub carry_all
{
	my $waiting = 1;

	foreach my $round (1 .. 12)
	{
		$waiting = 0;
		$waiting += at($_, "SELECT coalesce(sum(sent + waiting), 0) FROM gpucredit_cells.carry(patience => '20 s')")
		  foreach qw(eu us);
		last unless $waiting;
	}
	diag(map { at($_, "SELECT string_agg(concat_ws(' ', kind, error), ', ') FROM gpucredit_cells.outbox") } qw(eu us))
	  if $waiting;
	return is($waiting, 0, 'nothing is left to carry');
}

# Spends some of the credit in the other region; returns the server's answer.
sub spend
{
	my ($amount, $account) = @_;
	my ($hold, $reason) = split(/\|/, at('us', sprintf(
		"SELECT hold, reason FROM gpucredit.hold('acme', '%s', '%s', %s, '1 hour')",
		$account // 'vision', key(), $amount)));

	return $reason unless $hold;
	at('us', sprintf("SELECT gpucredit.capture('acme', %d, '%s', %s)", $hold, key(), $amount));
	return 'spent';
}

sub balance
{
	my ($name, $account) = @_;

	return at($name, "SELECT trim_scale(available), trim_scale(held), trim_scale(spent)"
		  . " FROM gpucredit.balance('acme', '" . ($account // '') . "')");
}

sub books_agree
{
	my ($what) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	is(at($_, 'SELECT * FROM gpucredit.verify()'), '', "$what: verify() is empty in $_")
	  foreach qw(eu us);
	is(at('us', 'SELECT * FROM gpucredit_cells.verify_cells()'), '', "$what: the books of all cells agree");
	return;
}

sub fails
{
	my ($name, $sql, $state, $why) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	return query_fails($node{$name}, 'cell', $sql, $state, $why);
}

# Keeps a cell as it is, and brings it back as it was.
sub keep
{
	my ($name) = @_;
	my $data = $node{$name}->data_dir;

	$node{$name}->stop;
	system('cp', '-a', $data, "$data.kept") == 0 or die "cp: $?\n";
	$node{$name}->start;
	return;
}

sub restore
{
	my ($name) = @_;
	my $data = $node{$name}->data_dir;

	$node{$name}->stop('immediate');
	system('rm', '-rf', $data) == 0 && rename("$data.kept", $data) or die "could not restore $name\n";
	$node{$name}->start;
	return;
}

1;
