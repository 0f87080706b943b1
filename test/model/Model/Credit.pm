# Credit.pm: the calls that set up accounts and move credit
#
# Each takes the model, the arguments by name, and what only the server can
# know: numbers it gave to new things.  It returns the row expected, without
# "replayed" where the call has a key (keyed() adds it), or dies with an
# SQLSTATE (Model::Value::refuse).
package Model::Credit;

use strict;
use warnings;

use JSON::PP ();
use Model::Value;

use constant KEY_RETENTION => 7 * DAY;

# Keys of these calls are new after the retention; those of payments never are.
my %expires = map { $_ => 1 } qw(hold extend_hold capture release reserve cancel placed);

my %is_kind = map { $_ => 1 } qw(paid promo grant);
my %is_period = map { $_ => 1 } qw(none day week month quarter year);
my $json = JSON::PP->new->canonical->allow_nonref;

# Carries out a call under its key: once, and the same row again for the
# same arguments.
sub keyed
{
	my ($m, $operation, $org, $key, $arguments, $work) = @_;
	my $keys = $m->{key}{$org} ||= {};
	my $print = join('|', $operation, map { $_ // 'NULL' } @$arguments);
	my $known = $keys->{$key};

	if ($known && (!$expires{ $known->{operation} } || $known->{at} > $m->{now} - KEY_RETENTION))
	{
		refuse('UC201') if $known->{print} ne $print;
		return [ @{ $known->{row} }, 1 ];
	}
	my $row = $work->();

	$keys->{$key} = { print => $print, row => $row, at => $m->{now}, operation => $operation };
	return [ @$row, 0 ];
}

sub create_account
{
	my ($m, $in) = @_;
	my $org  = name($in->{org});
	my @path = path($in->{account});

	amount($in->{weight});
	$m->require_account($org, $path[1]) if @path > 1;
	$m->{account}{$org}{ $path[0] } ||= { suspended => 0 };
	return [''];
}

sub suspend_account
{
	my ($m, $in) = @_;
	my $org = name($in->{org});

	whole($in->{suspended});
	path($in->{account});
	$m->require_account($org, $in->{account});
	$m->{account}{$org}{ $in->{account} }{suspended} = $in->{suspended};
	return [''];
}

# Slices change no figure.
sub set_slices
{
	my ($m, $in) = @_;
	my $org = name($in->{org});

	whole($in->{n}, 1, 64);
	path($in->{account});
	$m->require_account($org, $in->{account});
	return [''];
}

sub set_budget
{
	my ($m, $in) = @_;
	my $org = name($in->{org});

	path($in->{account});
	refuse('UC101')
	  if !$is_period{ $in->{period} } || ($in->{amount} // '') =~ /^-/;
	my $amount = defined $in->{amount} ? amount($in->{amount}, 1) : undef;

	$m->require_account($org, $in->{account});
	$m->{budget}->set($org, $in->{account}, $in->{period}, $amount,
		whole($in->{hard}));
	return [''];
}

sub policy
{
	my ($text) = @_;
	my $policy = $json->decode($text);

	refuse('22023') unless ref $policy eq 'HASH';
	foreach my $word (keys %$policy)
	{
		my $value = $policy->{$word};

		if ($word =~ /^(gpu_types|tiers|pools)$/)
		{
			refuse('22023') unless ref $value eq 'ARRAY';
		}
		elsif ($word =~ /^max_(per_job|share)$/)
		{
			refuse('22023') if ref $value;
			my $n = amount($value);

			refuse('22023') if $1 eq 'share' && $n > 1_000_000;
		}
		else
		{
			refuse('22023');
		}
	}
	return $policy;
}

sub issue
{
	my ($m, $in, $new) = @_;
	my $org = name($in->{org});
	my $key = name($in->{key});

	path($in->{account});
	my $amount = amount($in->{amount});

	refuse('22023') unless $is_kind{ $in->{kind} };
	my $expires   = instant($in->{expires_at});
	my $effective = instant($in->{effective_at});
	my $policy    = policy($in->{policy});
	my $valid     = duration($in->{valid_for}, optional => 1);

	return keyed(
		$m, 'issue', $org, $key,
		[   $in->{account}, $amount, $in->{kind}, $expires, $effective,
			whole($in->{priority}), $json->encode($policy), $in->{memo}, $valid
		],
		sub {
			$m->require_account($org, $in->{account});
			my $from = $effective // $m->{now};
			my $to   = $expires;

			refuse('22023') if defined $expires && defined $valid;
			$to = $from + $valid if defined $valid;
			refuse('22023')
			  if defined $to && ($to <= $m->{now} || $to <= $from);
			$m->add_bucket(
				org          => $org,
				id           => $new->{row}[0],
				account      => $in->{account},
				kind         => $in->{kind},
				priority     => $in->{priority},
				effective_at => $from,
				expires_at   => $to,
				policy       => $policy,
				issued       => $amount);
			return [ $new->{row}[0] ];
		});
}

sub transfer
{
	my ($m, $in, $new) = @_;
	my $org = name($in->{org});
	my ($from, $to) = @$in{qw(from_account to_account)};

	path($_) foreach $from, $to;
	refuse('22023') if $from eq $to;
	my $key    = name($in->{key});
	my $amount = amount($in->{amount});

	return keyed(
		$m,
		'transfer',
		$org, $key,
		[ $from, $to, $amount ],
		sub {
			my $suspended = $m->suspended($org, $from);

			$m->require_account($org, $to);
			return [ credits(0), 'denied', 'account_suspended' ]
			  if $suspended;
			my @taken = own_credit($m, $org, $from, $amount);

			if (!@taken && $m->dead_holds($org))
			{
				$m->reap($_) foreach $m->dead_holds($org);
				@taken = own_credit($m, $org, $from, $amount);
			}
			return [ credits(0), 'denied', 'insufficient_credits' ]
			  unless @taken;
			my @ids = @{ $new->{buckets} };

			foreach (@taken)
			{
				my ($bucket, $part) = @$_;

				Model::Ledger::shift_credit($bucket, 'available', 'moved',
					$part);
				$m->add_bucket(
					(   map { $_ => $bucket->{$_} }
						  qw(org kind priority effective_at expires_at policy)
					),
					id      => shift @ids,
					account => $to,
					issued  => $part);
			}
			return [ credits($amount), 'granted', undef ];
		});
}

# An amount from an account's own active buckets: [bucket, amount] ..., or
# nothing.
sub own_credit
{
	my ($m, $org, $account, $amount) = @_;
	my @taken;

	foreach my $bucket ($m->burning($org, $account))
	{
		next unless $m->active($bucket);
		my $part = least($bucket->{available}, $amount);

		push @taken, [ $bucket, $part ] if $part > 0;
		$amount -= $part;
	}
	return $amount > 0 ? () : @taken;
}

sub revoke
{
	my ($m, $in) = @_;
	my $org = name($in->{org});
	my $key = name($in->{key});

	return keyed(
		$m, 'revoke', $org, $key,
		[ $in->{bucket}, $in->{reason} ],
		sub {
			my $bucket = $m->{bucket}{$org}{ $in->{bucket} }
			  or refuse('UC002');

			foreach my $hold ($m->dead_holds($org))
			{
				$m->reap($hold)
				  if grep { $_->{bucket} == $bucket && $_->{held} }
				  @{ $hold->{parts} };
			}
			my $amount  = $bucket->{available};
			my $expired = $m->expired($bucket);

			Model::Ledger::shift_credit($bucket, 'available',
				$expired ? 'expired' : 'revoked', $amount);
			$bucket->{closed} = 1;
			return [ credits($expired ? 0 : $amount) ];
		});
}

# Books what expired buckets still had.
sub expire_credits
{
	my ($m) = @_;
	my $n = 0;

	foreach my $bucket (map { values %$_ } values %{ $m->{bucket} })
	{
		next
		  if $bucket->{closed} || $bucket->{swept} || !$m->expired($bucket);
		Model::Ledger::shift_credit($bucket, 'available', 'expired',
			$bucket->{available});
		$bucket->{swept} = 1;
		$n++;
	}
	return [ 'expire_credits', $n ];
}

sub hold
{
	my ($m, $in, $new) = @_;
	my $org = name($in->{org});
	my $key = name($in->{key});

	path($in->{account});
	my $amount = amount($in->{amount}, !$in->{leased});
	my $ttl    = duration($in->{ttl});

	return keyed(
		$m, 'hold', $org, $key,
		[ $in->{account}, $amount, $ttl ],
		sub {
			my $hold = $m->new_hold($org, $in->{account}, $new->{row}[0]);

			$hold->{leased} = $in->{leased};
			my $suspended = $m->suspended($org, $in->{account});

			# a hold of nothing draws nothing, and is for every account
			my $reason =
			    $amount == 0 ? undef
			  : $suspended ? 'account_suspended'
			  : $m->debt_denies($org, $in->{account}, $amount) ? 'uncollected'
			  : $m->draw($hold, $amount);

			$m->{hold}{$org}{ $hold->{id} } = $hold if $amount == 0;

			return [ undef, 'denied', $reason, credits(0), undef ]
			  if $reason;
			$hold->{expires_at} = $m->{now} + $ttl;
			return [
				$hold->{id}, 'granted', undef, credits($amount),
				$hold->{expires_at}
			];
		});
}

sub write_off
{
	my ($m, $in) = @_;
	my $org = name($in->{org});
	my $key = name($in->{key});

	path($in->{account});
	my $amount = defined $in->{amount} ? amount($in->{amount}) : undef;

	return keyed(
		$m,
		'write_off',
		$org, $key,
		[ $in->{account}, $in->{reason}, $amount ],
		sub {
			$m->require_account($org, $in->{account});
			my $owed = $m->{owed}{$org}{ $in->{account} };
			my $all  = $owed ? $owed->{owed} : 0;

			$amount //= $all;
			refuse('22023') if $amount > $all;
			$owed->{owed} -= $amount if $owed;
			$owed->{written_off} += $amount if $owed;
			return [ credits($amount), credits($all - $amount) ];
		});
}

# A caller's own hold.
sub own_hold
{
	my ($m, $org, $id) = @_;
	my $hold = $m->{hold}{$org}{$id};

	refuse('UC003') if !$hold || $hold->{job};
	return $hold;
}

sub capture
{
	my ($m, $in) = @_;
	my $org    = name($in->{org});
	my $key    = name($in->{key});
	my $amount = amount($in->{amount}, 1);

	return keyed(
		$m,
		'capture',
		$org, $key,
		[ $in->{hold}, $amount, whole($in->{final}) ],
		sub {
			my $hold = own_hold($m, $org, $in->{hold});

			refuse('UC003')
			  if defined $hold->{closed_at} || $m->is_dead($hold);
			refuse('22023') if $amount > Model::Ledger::sum($hold, 'held');
			Model::Ledger::capture($hold, $amount);
			my @back = $in->{final} ? $m->close_hold($hold) : (0, 0);

			return [ map { credits($_) } $amount, @back ];
		});
}

sub release
{
	my ($m, $in) = @_;
	my $org = name($in->{org});
	my $key = name($in->{key});

	return keyed(
		$m,
		'release',
		$org, $key,
		[ $in->{hold} ],
		sub {
			my $hold = own_hold($m, $org, $in->{hold});

			refuse('UC003')
			  if defined $hold->{closed_at} && !$hold->{reaped};
			return [ map { credits($_) } $m->close_hold($hold) ]
			  unless $hold->{reaped} || $m->is_dead($hold);
			$m->reap($hold) unless $hold->{reaped};
			return [ map { credits($_) } @{ $hold->{reaped} } ];
		});
}

sub refund_hold
{
	my ($m, $in) = @_;
	my $org    = name($in->{org});
	my $key    = name($in->{key});
	my $amount = amount($in->{amount});

	return keyed(
		$m,
		'refund_hold',
		$org, $key,
		[ $in->{hold}, $amount, $in->{reason} ],
		sub {
			my $hold = own_hold($m, $org, $in->{hold});

			refuse('22023') if $amount > Model::Ledger::sum($hold, 'spent');
			return [ map { credits($_) } $m->refund($amount, $hold) ];
		});
}

1;
