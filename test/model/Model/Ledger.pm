# Ledger.pm: accounts, buckets and holds, as the interface describes them
#
# Written to be read beside the rules, not to be fast.  A bucket has its
# compartments; a hold has parts in the order drawn, each of one bucket.
# Nothing here knows of callers, keys or jobs.
package Model::Ledger;

use strict;
use warnings;

use Model::Budget;
use Model::Value;

my %kind_rank = (promo => 1, grant => 2, paid => 3);

sub new
{
	my ($class) = @_;

	return bless(
		{   now     => 0,
			account => {},
			bucket  => {},
			hold    => {},
			owed    => {},
			owed_max => 0,
			budget  => Model::Budget->new },
		$class);
}

# Accounts

sub require_account
{
	my ($self, $org, $account) = @_;

	refuse('UC001') unless $self->{account}{$org}{$account};
	return;
}

# Is it, or one above it, suspended?
sub suspended
{
	my ($self, $org, $account) = @_;

	$self->require_account($org, $account);
	return scalar grep { $self->{account}{$org}{$_}{suspended} }
	  path($account);
}

sub is_below
{
	my ($account, $top) = @_;

	return $top eq '' || $account eq $top || index($account, "$top/") == 0;
}

# Buckets

sub add_bucket
{
	my ($self, %bucket) = @_;

	die "bucket $bucket{id} is there already\n"
	  if $self->{bucket}{ $bucket{org} }{ $bucket{id} };
	return $self->{bucket}{ $bucket{org} }{ $bucket{id} } = {
		%bucket,
		available => $bucket{issued},
		closed    => 0,
		swept     => 0,
		map { $_ => 0 } qw(held spent expired revoked moved) };
}

sub active
{
	my ($self, $bucket) = @_;

	return
	     !$bucket->{closed}
	  && $bucket->{effective_at} <= $self->{now}
	  && !$self->expired($bucket);
}

sub expired
{
	my ($self, $bucket) = @_;

	return defined $bucket->{expires_at}
	  && $bucket->{expires_at} <= $self->{now};
}

# The buckets of some accounts, in the order they burn.
sub burning
{
	my ($self, $org, @accounts) = @_;
	my %is = map { $_ => 1 } @accounts;

	return sort {
			 $a->{priority} <=> $b->{priority}
		  || ($a->{expires_at} // 9e18) <=> ($b->{expires_at} // 9e18)
		  || $kind_rank{ $a->{kind} } <=> $kind_rank{ $b->{kind} }
		  || length($b->{account}) <=> length($a->{account})
		  || $a->{effective_at} <=> $b->{effective_at}
		  || $a->{id} <=> $b->{id}
	} grep { $is{ $_->{account} } } values %{ $self->{bucket}{$org} };
}

# Where credit goes that returns to a bucket.
sub home
{
	my ($self, $bucket) = @_;

	return
	    $bucket->{closed}        ? 'revoked'
	  : $self->expired($bucket) ? 'expired'
	  :                           'available';
}

# Moves credit from one compartment of a bucket to another.
sub shift_credit
{
	my ($bucket, $from, $to, $amount) = @_;

	$bucket->{$from} -= $amount;
	$bucket->{$to} += $amount;
	die "bucket $bucket->{id} has less than 0 $from\n" if $bucket->{$from} < 0;
	return;
}

# May a bucket pay?  A caller's own hold has no type, tier or pool.
sub may_pay
{
	my ($bucket, $job) = @_;
	my $policy = $bucket->{policy};

	return !grep { $policy->{$_} } qw(gpu_types tiers pools) unless $job;
	foreach my $ask (
		[ 'gpu_types', keys %{ $job->{offers} } ],
		[ 'tiers',     $job->{tier} ],
		[ 'pools',     $job->{pool} ])
	{
		my ($word, @wanted) = @$ask;
		my $names = $policy->{$word} or next;
		my %allowed = map { $_ => 1 } @$names;

		return 0 if grep { !$allowed{$_} } @wanted;
	}
	return 1;
}

# The most a bucket's policy lets it give to a hold that is to grow by an
# amount.  A lease has no max_per_job: the other cell's jobs have it.
sub most_from
{
	my ($self, $bucket, $hold, $job, $amount) = @_;
	my $policy = $bucket->{policy};
	my $most   = $bucket->{available};

	if (defined $policy->{max_per_job} && !($hold && $hold->{leased}))
	{
		my @parts = $job
		  ? map { @{ $_->{parts} } }
		  grep { defined $job->{id} && ($_->{job} || 0) == $job->{id} }
		  values %{ $self->{hold}{ $bucket->{org} } }
		  : $hold ? @{ $hold->{parts} } : ();

		$most = least($most,
			amount($policy->{max_per_job}) - kept_of($bucket, @parts));
	}
	if (defined $policy->{max_share})
	{
		my @parts = $hold ? @{ $hold->{parts} } : ();
		my $whole = $amount;

		$whole += $_->{held} + $_->{spent} foreach @parts;
		my $share = amount($policy->{max_share}) * $whole;

		$most = least($most,
			($share - $share % 1_000_000) / 1_000_000
			  - kept_of($bucket, @parts));
	}
	return most($most, 0);
}

# What parts drew from a bucket and did not give back.
sub kept_of
{
	my ($bucket, @parts) = @_;
	my $sum = 0;

	$sum += $_->{held} + $_->{spent}
	  foreach grep { $_->{bucket} == $bucket } @parts;
	return $sum;
}

# What is owed

# Use of an account that no credit covered; below 0: some of it was collected.
sub owe
{
	my ($self, $org, $account, $amount) = @_;
	my $owed = $self->{owed}{$org}{$account} ||= { owed => 0, written_off => 0 };

	$owed->{owed} += $amount;
	if ($owed->{owed} < 0)
	{
		$owed->{written_off} += $owed->{owed};
		$owed->{owed} = 0;
	}
	die "more was collected than was owed\n" if $owed->{written_off} < 0;
	delete $self->{owed}{$org}{$account}
	  unless $owed->{owed} || $owed->{written_off};
	return;
}

# Does what the organisation owes keep an account from holding an amount?
# Credit that dead holds hold is there, but no policy's cap counts here.
sub debt_denies
{
	my ($self, $org, $account, $amount, $job) = @_;
	my $left = 0;

	$left -= $_->{owed} foreach values %{ $self->{owed}{$org} };
	return 0
	  if $left == 0 || $self->{owed_max} < 0 || -$left <= $self->{owed_max};
	my @pays = grep { $self->active($_) && may_pay($_, $job) }
	  $self->burning($org, path($account));
	my %pays = map { $_->{id} => 1 } @pays;

	$left += $_->{available} foreach @pays;
	$left += $_->{held}
	  foreach grep { $pays{ $_->{bucket}{id} } }
	  map { @{ $_->{parts} } } $self->dead_holds($org);
	return $left < $amount;
}

# Holds

# Finds credit for an account: a list of [bucket, amount], or why not.
sub find_credit
{
	my ($self, $org, $account, $amount, $hold, $job) = @_;
	my @path = path($account);
	my @found;
	my $missing = $amount;

	return 'budget_exceeded'
	  if $self->{budget}->refuses($org, $self->{now}, $amount, @path);
	foreach my $bucket ($self->burning($org, @path))
	{
		next unless $self->active($bucket) && may_pay($bucket, $job);
		my $part = least($missing,
			$self->most_from($bucket, $hold, $job, $amount));

		push @found, [ $bucket, $part ] if $part > 0;
		$missing -= $part;
	}
	return $missing > 0 ? 'insufficient_credits' : \@found;
}

# Draws credit into a hold, a new one of this number or one that is there;
# undef, or why not.  Who is short releases what dead holds hold.
sub draw
{
	my ($self, $hold, $amount, $job) = @_;
	my ($org, $account) = @$hold{qw(org account)};
	my $found = $self->find_credit($org, $account, $amount, $hold, $job);

	if (!ref $found && $self->dead_holds($org))
	{
		$self->reap($_) foreach $self->dead_holds($org);
		$found = $self->find_credit($org, $account, $amount, $hold, $job);
	}
	return $found unless ref $found;
	my @counters = map { $_->{counter} }
	  $self->{budget}->on_path($org, $self->{now}, path($account));

	foreach my $taken (@$found)
	{
		my ($bucket, $part) = @$taken;

		shift_credit($bucket, 'available', 'held', $part);
		Model::Budget::move(\@counters, $part, 0);
		push @{ $hold->{parts} },
		  { bucket   => $bucket,
			drawn    => $part,
			held     => $part,
			counters => \@counters,
			map { $_ => 0 } qw(spent refunded returned lapsed) };
	}
	$self->{hold}{$org}{ $hold->{id} } = $hold;
	return undef;
}

# Draws as much of an amount as there is into a hold; returns how much.  What a
# bucket may give is a share of what is drawn: less of less.
sub draw_most
{
	my ($self, $hold, $amount, $job) = @_;
	my ($org, $account) = @$hold{qw(org account)};

	$self->reap($_) foreach $self->dead_holds($org);
	$amount = least($amount, $_) foreach
	  $self->{budget}->room($org, $self->{now}, path($account));
	while ($amount > 0)
	{
		my $there = 0;

		foreach my $bucket ($self->burning($org, path($account)))
		{
			next unless $self->active($bucket) && may_pay($bucket, $job);
			$there += least($amount - $there,
				$self->most_from($bucket, $hold, $job, $amount));
		}
		last if $there == $amount;
		$amount = $there;
	}
	return 0 unless $amount > 0;
	die "credit that was there is not\n"
	  if $self->draw($hold, $amount, $job);
	return $amount;
}

sub new_hold
{
	my ($self, $org, $account, $id) = @_;

	die "hold $id is there already\n"
	  if defined $id && $self->{hold}{$org}{$id};
	return { org => $org, account => $account, id => $id, parts => [] };
}

sub sum
{
	my ($hold, $what) = @_;
	my $sum = 0;

	$sum += $_->{$what} foreach @{ $hold->{parts} };
	return $sum;
}

# Spends from a hold, first drawn first.
sub capture
{
	my ($hold, $amount) = @_;

	foreach my $part (@{ $hold->{parts} })
	{
		my $now = least($part->{held}, $amount);

		shift_credit($part->{bucket}, 'held', 'spent', $now);
		Model::Budget::move($part->{counters}, -$now, $now);
		$part->{held}  -= $now;
		$part->{spent} += $now;
		$amount -= $now;
	}
	die "hold $hold->{id} holds too little\n" if $amount > 0;
	return;
}

# Gives credit back, last drawn first: what was released, what lapsed.
sub return_credit
{
	my ($self, $hold, $amount) = @_;
	my %back = (available => 0, expired => 0, revoked => 0);

	foreach my $part (reverse @{ $hold->{parts} })
	{
		my $now  = least($part->{held}, $amount);
		my $home = $self->home($part->{bucket});

		shift_credit($part->{bucket}, 'held', $home, $now);
		Model::Budget::move($part->{counters}, -$now, 0);
		$part->{held} -= $now;
		$part->{ $home eq 'available' ? 'returned' : 'lapsed' } += $now;
		$back{$home} += $now;
		$amount -= $now;
	}
	die "hold $hold->{id} holds too little\n" if $amount > 0;
	return ($back{available}, $back{expired} + $back{revoked});
}

# Gives all back that a hold still holds, and closes it.
sub close_hold
{
	my ($self, $hold) = @_;
	my @back = $self->return_credit($hold, sum($hold, 'held'));

	$hold->{closed_at} = $self->{now};
	return @back;
}

# Refunds what holds have spent, the holds as given, in each the last part
# first: what is available again, what lapsed.
sub refund
{
	my ($self, $amount, @holds) = @_;
	my %back = (available => 0, expired => 0, revoked => 0);

	foreach my $part (map { reverse @{ $_->{parts} } } @holds)
	{
		my $now  = least($part->{spent}, $amount);
		my $home = $self->home($part->{bucket});

		shift_credit($part->{bucket}, 'spent', $home, $now);
		Model::Budget::move($part->{counters}, 0, -$now);
		$part->{spent}    -= $now;
		$part->{refunded} += $now;
		$back{$home} += $now;
		$amount -= $now;
	}
	die "less was spent than is refunded\n" if $amount > 0;
	return ($back{available}, $back{expired} + $back{revoked});
}

# Callers' holds past their ttl that nobody has released.
sub dead_holds
{
	my ($self, $org) = @_;

	my @dead = sort { $a->{id} <=> $b->{id} }
	  grep { $self->is_dead($_) } $self->open_holds($org);

	return @dead;
}

sub is_dead
{
	my ($self, $hold) = @_;

	return defined $hold->{expires_at} && $hold->{expires_at} <= $self->{now};
}

sub open_holds
{
	my ($self, $org) = @_;

	return grep { !defined $_->{closed_at} } values %{ $self->{hold}{$org} };
}

# Releases a dead hold.
sub reap
{
	my ($self, $hold) = @_;

	$hold->{reaped} = [ $self->close_hold($hold) ];
	return;
}

1;
