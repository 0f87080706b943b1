# Twist.pm: calls that a careful client would not make
#
# Keyed calls repeated unchanged or changed; calls with one bad argument.
package Twist;

use strict;
use warnings;

use Dice;
use Exporter 'import';

our @EXPORT = qw(replayed spoiled);

# An earlier keyed call: repeated, written differently with the same meaning,
# with a changed argument, or another function under its key.
sub replayed
{
	my ($d) = @_;
	my $log = $d->{keyed}{ $d->{org} } or return;
	my ($name, $a) = @{ chance(0.5) && @$log > 30 ? $log->[ -between(1, 30) ]
		: pick(@$log) };
	my %changed = %$a;
	my $dice    = rand();

	if ($dice < 0.1)
	{
		my $b = $throw{hold}->($d);

		return ('hold', { %$b, key => $a->{key} });
	}
	if ($dice < 0.4)
	{
		my @others = grep { $_ ne 'key' && $_ ne 'org' && defined $a->{$_} }
		  sort keys %$a;
		my $what = pick(@others);
		my $value = $changed{$what};

		$changed{$what} =
		    $what =~ /account/        ? pick(grep { $_ ne $value } '', 'a', 'b')
		  : $what eq 'policy'         ? '{"max_share": 0.25}'
		  : $what =~ /final|hard/     ? 1 - $value
		  : $value =~ /^(\d+)( .*)$/  ? ($1 + 1) . $2
		  : $value =~ /^\d+$/         ? $value + 1
		  : $what eq 'amount'         ? 77
		  : $what eq 'kind'           ? ($value eq 'paid' ? 'promo' : 'paid')
		  : $what eq 'request'        ? ($value eq '0' ? '1xA100' : '0')
		  : $what =~ /reason|memo/    ? 'another'
		  :                             $value;
	}
	elsif ($dice < 0.6 && defined $a->{amount} && $a->{amount} =~ /^\d+$/)
	{
		$changed{amount} = "$a->{amount}.0";
	}
	return ($name, \%changed);
}

my %spoiled = (
	amount  => [ '-1', '0', 'NaN', '1.0000001', '10000000000000', undef ],
	org     => [ '', 'nobody', undef ],
	account => [ 'no/such', 'a//b', '/a', undef ],
	key     => [ '', undef, 'x' x 256 ],
	ttl     => [ '1 month', '0 microseconds', '-5 microseconds', undef ],
	elapsed => [ '1 month', '-5 microseconds' ],
	outcome => ['exploded'],
	tier    => ['nope'],
	pool    => ['nope'],
	request => [ '1xFooGPU', 'x', '', '0xA100', 'A100', '1xA100|FooGPU' ],
	period  => ['fortnight'],
	kind    => ['gift'],
	policy  => [ '[]', '{"word": 1}', '{"max_share": 1.5}',
		'{"max_per_job": 0}', '{"tiers": "all"}' ],
	expires_at => ['infinity'],
	to_account => [ 'no/such', undef ],
	max_gpus    => [-1],
	max_running => [-1],
	max_queued => [-1],
	node   => [ 'nowhere', '', undef ],
	notice => [ '1 month', '-5 microseconds', undef ],
	uri => [ '', undef ],
	sha256 => [ '\\xab', undef ],
	step => [ -1, undef ],
	size_bytes => [ -1, undef ],
	n => [ 0, 65, undef ],
	map { $_ => [ 987_654_321, 0, -1 ] } qw(job hold bucket attempt));

# A call with one bad argument.
sub spoiled
{
	my ($d) = @_;
	my $name = pick(grep {
		!/^(place|expire_credits|reap_holds|check_nodes|maintain
			|meter_batch|register_node|set_price)$/x } sort keys %throw);
	my $a = $throw{$name}->($d) or return;
	my @bad = grep { $spoiled{$_} } sort keys %$a;
	my $what = pick(@bad);
	my $bad = pick(@{ $spoiled{$what} });

	return if $name eq 'set_budget' && $what eq 'amount' && !defined $bad;
	return if $name eq 'set_budget' && $what eq 'amount' && $bad eq '0';
	return if $name eq 'capture' && $what eq 'amount' && ($bad // 1) eq '0';
	return ($name, { %$a, $what => $bad });
}

1;
