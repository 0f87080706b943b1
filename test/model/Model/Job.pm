# Job.pm: the calls that make jobs, wait with them, cancel and refund them
#
# Calls are as in Credit.pm.
package Model::Job;

use strict;
use warnings;

use Model::Credit;
use Model::Node;
use Model::Value;

use constant {
	WINDOW_MIN => 60 * 1_000_000,
	HOLD_LEAST => 60 * 1_000_000,
};

my %max_wall = (
	production_inference => 720 * HOUR,
	premium_training  => 24 * HOUR,
	interactive       => 12 * HOUR,
	standard_training => 24 * HOUR,
	batch_inference   => 2 * HOUR,
	scratch           => 24 * HOUR,
	endless           => 10_000 * HOUR);

sub is_tier
{
	my ($tier) = @_;

	return exists $max_wall{$tier};
}

# Tiers that are open only to those they are granted to.
my %closed = map { $_ => 1 } qw(production_inference premium_training);

sub grant_tier
{
	my ($m, $in, undef, $revoke) = @_;
	my $org = name($in->{org});

	path($in->{account});
	my $tier = name($in->{tier});

	$m->require_account($org, $in->{account});
	refuse('UC402') unless is_tier($tier);
	$m->{grant}{$org}{ $in->{account} }{$tier} = !$revoke;
	return [''];
}

sub revoke_tier
{
	my ($m, $in, $new) = @_;

	return grant_tier($m, $in, $new, 1);
}

# May a job's account, or one above it, use its tier?
sub may_use_tier
{
	my ($m, $job) = @_;

	return !$closed{ $job->{tier} }
	  || grep { $m->{grant}{ $job->{org} }{$_}{ $job->{tier} } }
	  path($job->{account});
}

# Does a job hold no credit?
sub is_unpaid
{
	my ($job) = @_;

	return first_hold($job) == 0;
}

# Do as many jobs of the organisation wait whose prices are 0 as may?
sub too_many_unpaid
{
	my ($m, $job) = @_;
	my $n = grep {
		$_->{state} eq 'queued' && !grep { $_->[0] } values %{ $_->{offers} }
	} values %{ $m->{job}{ $job->{org} } };

	return is_unpaid($job) && $n >= $m->{unpaid_max};
}

# Sets the price of a type in the pool.
sub set_price
{
	my ($m, $in) = @_;

	$m->{ $in->{spot} ? 'spot' : 'price' }{ $in->{gpu_type} } =
	  amount($in->{per_gpu_hour}, 1);
	return [''];
}

sub set_quota
{
	my ($m, $in) = @_;
	my $org = name($in->{org});

	path($in->{account});
	$m->require_account($org, $in->{account});
	my $quotas = $m->{quota}{$org}{ $in->{account} } ||= {};
	my $type   = $in->{gpu_type} // '';

	my %quota;

	foreach my $limit (grep { defined $in->{$_} }
		qw(max_gpus max_running max_queued))
	{
		$quota{$limit} = whole($in->{$limit}, 0);
	}
	$quotas->{$type} = \%quota;
	return [''];
}

# Takes a request apart: least and most GPUs, thousandths of each, types.
sub parse
{
	my ($text) = @_;

	refuse('22P02')
	  unless $text =~ /^(?:0|(?:(\d+)(?:-(\d+))?|0\.(\d+))x([A-Z*].*))$/;
	return { min => 0, max => 0, share => 1000, types => [] } if $text eq '0';
	my $share = defined $3 ? substr("${3}00", 0, 3) + 0 : 1000;
	my $min   = $1 // 1;

	refuse('22023') if $share == 0 || $min == 0;
	return {
		min   => $min,
		max   => $2 // $min,
		share => $share,
		types => [ split(/\|/, $4) ] };
}

# May a job be put on a node that its provider may take back?
sub spot_ok
{
	my ($job) = @_;

	return $job->{tier} ne 'production_inference';
}

# What a request is offered: for each type a price, and one on spot nodes; or
# why nothing.
sub offers
{
	my ($m, $request) = @_;
	my %offers;
	my $present = 0;
	my $devices = Model::Node::devices($m, 1);

	foreach my $type (@{ $request->{types} })
	{
		my @types = $type eq '*' ? keys %$devices : ($type);

		foreach (@types)
		{
			refuse('UC402')
			  unless defined $m->{price}{$_} || $devices->{$_};
			next unless $devices->{$_};
			$present = 1;
			$offers{$_} = [ $m->{price}{$_}, $m->{spot}{$_} // $m->{price}{$_} ]
			  if defined $m->{price}{$_};
		}
	}
	return \%offers if %offers || !@{ $request->{types} };
	return $present ? 'no_price' : 'impossible_request';
}

# What is held at once: the dearest offer, for the window or the wall limit.
sub first_hold
{
	my ($job) = @_;
	my ($dearest) = sort { $b <=> $a } 0,
	  map { spot_ok($job) ? @$_ : $_->[0] } values %{ $job->{offers} };

	return cost(per_hour($dearest, @{ $job->{request} }{qw(max share)}),
		1, 1000, held_time($job), 1);
}

# How long a hold covers: the window or the wall limit, and a minute at least.
sub held_time
{
	my ($job) = @_;

	my ($least) = sort { $a <=> $b } grep { defined } @$job{qw(wall window)};

	return most($least, HOLD_LEAST);
}

# The quotas of an account's path that concern a type: where, and which.
sub quotas
{
	my ($m, $org, $account, $type) = @_;

	return map {
		my $at = $_;
		my $quotas = $m->{quota}{$org}{$at} || {};

		map { { %{ $quotas->{$_} }, account => $at, type => $_ } }
		  grep { $_ eq '' || (defined $type && $_ eq $type) }
		  sort keys %$quotas
	} path($account);
}

# Does the request alone, of whatever type, pass what may be used?
sub is_too_large
{
	my ($m, $job) = @_;
	my ($min, $share) = @{ $job->{request} }{qw(min share)};
	my @types = sort keys %{ $job->{offers} };

	return 0 unless @types;
	foreach my $type (@types)
	{
		return 0
		  unless grep { defined $_->{max_gpus}
			  && $min * $share > $_->{max_gpus} * 1000 }
		  quotas($m, @$job{qw(org account)}, $type);
	}
	return 1;
}

# What a start would pass: a quota in words, or undef.  One without devices
# passes no max_gpus, though more may be in use.
sub passed_by
{
	my ($m, $job, $start) = @_;

	foreach my $quota (quotas($m, @$job{qw(org account)}, $start->{gpu_type}))
	{
		my ($n, $used) = (1, $start->{gpus} * ($start->{share} // 1000));

		foreach my $other (grep { $_->{state} eq 'active'
				&& Model::Ledger::is_below($_->{account}, $quota->{account}) }
			values %{ $m->{job}{ $job->{org} } })
		{
			my $attempt =
			  $m->{attempt}{ $job->{org} }{ $other->{id} }{ $other->{attempt} };

			next if $quota->{type} ne ''
			  && $quota->{type} ne ($attempt->{gpu_type} // '');
			$n++;
			$used += $attempt->{gpus} * ($attempt->{share} // 1000);
		}
		return "max_running of '$quota->{account}' ($n)"
		  if defined $quota->{max_running} && $n > $quota->{max_running};
		return "max_gpus of '$quota->{account}' ($used)"
		  if defined $quota->{max_gpus} && $start->{gpus} > 0
		  && $used > $quota->{max_gpus} * 1000;
	}
	return undef;
}

# On which types no quota keeps a job from starting with the least it asks.
sub may_start
{
	my ($m, $job) = @_;
	my %may;

	foreach my $type (sort keys %{ $job->{offers} })
	{
		my %start = (gpu_type => $type, gpus => $job->{request}{min},
			share => $job->{request}{share});

		$may{$type} = 1 unless defined passed_by($m, $job, \%start);
	}
	return \%may;
}

# Does some quota on the path refuse one more job that waits?
sub queue_is_full
{
	my ($m, $job) = @_;
	my @waiting = grep { $_->{state} =~ /^(queued|unfunded)$/ }
	  values %{ $m->{job}{ $job->{org} } };

	foreach my $account (path($job->{account}))
	{
		my $quotas = $m->{quota}{ $job->{org} }{$account} or next;

		foreach my $type (keys %$quotas)
		{
			my $most = $quotas->{$type}{max_queued} // next;

			next if $type ne '' && !exists $job->{offers}{$type};
			my $n = grep {
				Model::Ledger::is_below($_->{account}, $account)
				  && ($type eq '' || exists $_->{offers}{$type})
			} @waiting;

			return 1 if $n >= $most;
		}
	}
	return 0;
}

sub reserve
{
	my ($m, $in, $new) = @_;
	my $org = name($in->{org});

	path($in->{account});
	my $key     = name($in->{key});
	my $request = parse($in->{request});
	my $wall    = duration($in->{wall_limit}, optional => 1);
	my $retries = whole($in->{max_retries}, 0, 1000);
	my $window  = duration($in->{hold_window}, optional => 1);

	return Model::Credit::keyed(
		$m,
		'reserve',
		$org, $key,
		[   $in->{account}, $in->{request}, $wall, @$in{qw(tier pool)},
			$retries, $window
		],
		sub {
			my $suspended = $m->suspended($org, $in->{account});
			my $job       = {
				org         => $org,
				account     => $in->{account},
				id          => $new->{row}[0],
				asks        => $in->{request},
				request     => $request,
				tier        => $in->{tier},
				pool        => $in->{pool},
				wall        => $wall,
				window      => $window,
				max_retries => $retries,
				state       => 'queued',
				attempt     => 0,
				failures    => 0,
				cancelled   => 0,
				submitted   => $m->{now} };
			my $reason = admit($m, $job);

			$reason = 'tier_not_granted' unless may_use_tier($m, $job);
			$reason = 'account_suspended' if $suspended;
			$reason ||= fund($m, $job, $new);
			return [ undef, 'denied', $reason, credits(0) ] if $reason;
			die "job $job->{id} is there already\n"
			  if $m->{job}{$org}{ $job->{id} };
			$m->{job}{$org}{ $job->{id} } = $job;
			return [ $job->{id}, 'granted', undef, credits(first_hold($job)) ];
		});
}

# What is asked before money: undef, or why it is denied.
sub admit
{
	my ($m, $job) = @_;

	refuse('UC402') unless is_tier($job->{tier});
	my $max = $max_wall{ $job->{tier} };

	refuse('22023') if defined $job->{wall} && $job->{wall} > $max;
	$job->{window} //= HOUR if !defined $job->{wall} && $max > 24 * HOUR;
	$job->{wall} //= $max;
	refuse('22023')
	  if defined $job->{window}
	  && $job->{window} < WINDOW_MIN
	  && ($job->{wall} // 9e18) > $job->{window};
	refuse('UC401') unless $job->{pool} eq $m->{pool};
	$job->{offers} = offers($m, $job->{request});
	return $job->{offers} unless ref $job->{offers};
	my $devices = Model::Node::devices($m, spot_ok($job));

	return 'impossible_request'
	  if !grep { $job->{request}{min} <= ($devices->{$_} // 0) }
	  keys %{ $job->{offers} } and $job->{request}{min};
	return is_too_large($m, $job) || queue_is_full($m, $job)
	  || too_many_unpaid($m, $job)
	  ? 'quota_exceeded' : undef;
}

# A new hold for a job: undef, or why not.
sub fund
{
	my ($m, $job, $new) = @_;
	my $hold = $m->new_hold($job->{org}, $job->{account}, $new->{holds}[0]);

	$hold->{job} = $job->{id};
	my @asked = (@$job{qw(org account)}, first_hold($job), $job);
	my $reason = $m->debt_denies(@asked) ? 'uncollected'
	  : $m->draw($hold, first_hold($job), $job);

	return $reason if $reason;
	shift @{ $new->{holds} };
	$job->{hold} = $hold;
	return undef;
}

# A job goes back to the queue under a new hold, at the prices of now, or
# waits without one.
sub requeue
{
	my ($m, $job, $new) = @_;
	my $offers = offers($m, $job->{request});

	return 'unfunded'
	  if $m->suspended($job->{org}, $job->{account}) || !may_use_tier($m, $job);
	my $before = $job->{offers};

	$job->{offers} = $offers if ref $offers;
	return 'queued' unless fund($m, $job, $new);
	$job->{offers} = $before;
	return 'unfunded';
}

sub cancel
{
	my ($m, $in) = @_;
	my $org = name($in->{org});
	my $key = name($in->{key});

	return Model::Credit::keyed(
		$m, 'cancel', $org, $key,
		[ $in->{job}, $in->{reason} ],
		sub {
			my $job = $m->{job}{$org}{ $in->{job} } or refuse('UC301');

			if ($job->{state} eq 'active')
			{
				$job->{cancelled} = 1;
				$job->{cancelled_at} //= $m->{now};
				return ['stopping'];
			}
			if ($job->{state} =~ /^(queued|unfunded)$/)
			{
				$m->close_hold($job->{hold}) if $job->{state} eq 'queued';
				$job->{state} = 'cancelled';
			}
			return [ $job->{state} ];
		});
}

sub refund
{
	my ($m, $in) = @_;
	my $org    = name($in->{org});
	my $key    = name($in->{key});
	my $amount = amount($in->{amount});

	return Model::Credit::keyed(
		$m, 'refund', $org, $key,
		[ $in->{job}, $amount, $in->{reason} ],
		sub {
			refuse('UC301') unless $m->{job}{$org}{ $in->{job} };
			my @holds = sort { $b->{id} <=> $a->{id} }
			  grep { ($_->{job} // 0) == $in->{job} }
			  values %{ $m->{hold}{$org} };
			my $spent = 0;

			$spent += Model::Ledger::sum($_, 'spent') foreach @holds;
			refuse('22023') if $amount > $spent;
			return [ map { credits($_) } $m->refund($amount, @holds) ];
		});
}

# Is there credit for a job that waits, whatever dead holds still hold?
sub affordable
{
	my ($m, $job) = @_;
	my ($org, $account) = @$job{qw(org account)};

	return 0 if $m->suspended($org, $account) || !may_use_tier($m, $job);
	my $offers = offers($m, $job->{request});
	my %probe  = (%$job, offers => ref $offers ? $offers : $job->{offers});

	return 0 if $m->debt_denies($org, $account, first_hold(\%probe), \%probe);

	return ref $m->find_credit($org, $account, first_hold(\%probe), undef,
		\%probe);
}

# Jobs that wait for credit, of each account the oldest first.
sub waiting
{
	my ($m) = @_;

	my @jobs = sort { $a->{submitted} <=> $b->{submitted} || $a->{id} <=> $b->{id} }
	  grep { $_->{state} eq 'unfunded' }
	  map { values %$_ } values %{ $m->{job} };

	return @jobs;
}

# Of these, those of the account of a job that wait longer than it does.
sub waiting_before
{
	my ($m, $job) = @_;
	my @before;

	foreach my $other (grep { $_->{org} eq $job->{org}
			  && $_->{account} eq $job->{account} } waiting($m))
	{
		last if $other == $job;
		push @before, $other;
	}
	return @before;
}

# Do two jobs ask the same, as far as their holds are concerned?
sub alike
{
	my ($one, $other) = @_;

	return 0
	  if grep { ($one->{$_} // '') ne ($other->{$_} // '') } qw(tier wall window);
	return $one->{asks} eq $other->{asks};
}

1;
