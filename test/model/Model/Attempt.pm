# Attempt.pm: a job's run: started, metered, extended, settled
#
# What the scheduler decides is an input: which job starts on what.  What
# that means for the job's credit is said here.  Calls are as in Credit.pm.
package Model::Attempt;

use strict;
use warnings;

use List::Util 'max';
use Model::Job;
use Model::Node;
use Model::Value;
use POSIX ();

use constant {
	EXHAUST_GRACE => 300 * 1_000_000,
	SAVE_AHEAD    => 90 * 1_000_000,
	CLOCK_SKEW    => 5 * 1_000_000,
	STARTUP_MAX   => 300 * 1_000_000,
	STOP_GRACE    => 60 * 1_000_000,
	METER_LOST    => 172_800 * 1_000_000,
	BACKOFF       => 30 * 1_000_000,
	BACKOFF_MAX   => HOUR,
	PLATFORM_RETRIES => 3,
};

my %last_state = (
	completed     => 'completed',
	failed        => 'failed',
	out_of_memory => 'failed',
	timeout       => 'timeout',
	cancelled     => 'cancelled',
	map { $_ => undef } qw(preempted node_lost resized));

# The scheduler started a job: its attempt, and what the hold has too much
# goes back at once.
sub start
{
	my ($m, $start) = @_;
	my $job = $m->{job}{ $start->{org} }{ $start->{job} }
	  or die "a job starts that is not there\n";
	my $attempt = {
		%$start,
		price   => price_there($m, $job, $start),
		tier    => $job->{tier},
		least   => $job->{request}{min},
		most    => $job->{request}{max},
		directives => {},
		hold    => $job->{hold},
		started => $m->{now},
		elapsed => 0,
		overhead => 0,
		extension_denied => 0 };
	my ($min, $max, $share) = @{ $job->{request} }{qw(min max share)};

	die "a job starts that is $job->{state}\n" unless $job->{state} eq 'queued';
	die "a job starts in its backoff\n"
	  if ($job->{not_before} // 0) > $m->{now};
	die "attempt $start->{attempt} follows $job->{attempt}\n"
	  if $start->{attempt} != ++$job->{attempt};
	die "it got what it did not ask for\n"
	  if $start->{gpus} < $min
	  || $start->{gpus} > $max
	  || ($max && $start->{share} != $share)
	  || ($max && !defined $job->{offers}{ $start->{gpu_type} });
	die "its account may not use tier $job->{tier}\n"
	  unless Model::Job::may_use_tier($m, $job);
	my $passed = Model::Job::passed_by($m, $job, $start);

	die "it passes $passed\n" if defined $passed;
	foreach my $node (map { $m->{node}{$_} } sort keys %{ $start->{nodes} })
	{
		die "it is on node $node->{name}, which takes nothing\n"
		  if $node->{draining} || defined $node->{reclaim_at};
		die "it is on spot node $node->{name}\n"
		  if $node->{spot} && !Model::Job::spot_ok($job);
		die "node $node->{name} is of another type\n"
		  if $max && $node->{gpu_type} ne $start->{gpu_type};
	}
	die "it costs $start->{price}, not " . credits($attempt->{price}) . "\n"
	  if $start->{price} ne credits($attempt->{price});
	$attempt->{rate} = per_hour($attempt->{price}, $start->{gpus}, $share);
	$attempt->{held} = cost($attempt->{rate}, 1, 1000,
		Model::Job::held_time($job), 1);
	$m->return_credit($job->{hold},
		Model::Ledger::sum($job->{hold}, 'held') - $attempt->{held});
	$job->{state} = 'active';
	delete $job->{not_before};
	$m->{attempt}{ $start->{org} }{ $start->{job} }{ $start->{attempt} } =
	  $attempt;
	return;
}

# The dearer of what its nodes cost: spot nodes have a price of their own.
sub price_there
{
	my ($m, $job, $start) = @_;
	my $offer = $job->{offers}{ $start->{gpu_type} // '' } or return 0;

	return max(map { $offer->[ $m->{node}{$_}{spot} ? 1 : 0 ] }
		keys %{ $start->{nodes} });
}

sub find_attempt
{
	my ($m, $org, $job, $attempt) = @_;

	$job = $m->{job}{$org}{$job} or refuse('UC301');
	$attempt = $m->{attempt}{$org}{ $job->{id} }{$attempt}
	  or refuse('UC302');
	return ($job, $attempt);
}

sub bill
{
	my ($attempt) = @_;

	return least(
		cost($attempt->{rate}, 1, 1000, $attempt->{elapsed}),
		$attempt->{held});
}

# How long its processes ran: elapsed counts from when it had its devices.
sub ran
{
	my ($attempt) = @_;

	return $attempt->{elapsed} - $attempt->{overhead};
}

# How long they may run on what is held; a hold for the whole wall limit is not
# shortened by the wait for them.
sub funded
{
	my ($job, $attempt) = @_;
	my $funded = funded_for($attempt->{rate}, 1, 1000, $attempt->{held});

	return $funded unless defined $funded && defined $job->{window};
	return most($funded - $attempt->{overhead}, 0);
}

# The agent's first word: its devices have waited for it until now.
sub first_word
{
	my ($m, $attempt, $ran) = @_;

	$attempt->{overhead} = least(STARTUP_MAX,
		most($m->{now} - $attempt->{started} - $ran, 0));
	return;
}

# The longest an attempt can have run, by the server's clock.
sub longest
{
	my ($m, $attempt) = @_;

	return $m->{now} - $attempt->{started} + CLOCK_SKEW;
}

# When its wall limit is reached whatever its agent says: by the server's
# clock, from the first heartbeat, or by when it was to be over; undef: never.
sub wall_end
{
	my ($job, $attempt) = @_;

	return $attempt->{started} + $job->{wall} if $attempt->{let_in};
	return undef unless defined $job->{wall} && defined $attempt->{running_at};
	return $attempt->{running_at} + $job->{wall} + CLOCK_SKEW;
}

# By how much the hold is to grow now, by a window or several; 0: it is not.
sub extension
{
	my ($job, $attempt, $windows) = @_;

	return 0 unless defined $job->{window};
	my @rate = ($attempt->{rate}, 1, 1000);

	return 0
	  if $attempt->{held} - bill($attempt) >= cost(@rate, EXHAUST_GRACE, 1);
	my $amount = cost(@rate, $job->{window} * ($windows // 1), 1);

	$amount = least($amount,
		cost(@rate, $job->{wall} + $attempt->{overhead}, 1) - $attempt->{held})
	  if defined $job->{wall};
	return most($amount, 0);
}

# Extends by a window.  A late heartbeat takes the windows that passed as
# well, or else just one, or, where an unlocked look saw credit that a policy
# or a budget then refuses, none; which it was is known by what is held.
sub extend
{
	my ($m, $job, $attempt, $held) = @_;
	my $funded = funded($job, $attempt);
	my $late   = 0;

	return unless extension($job, $attempt);
	$late = POSIX::ceil((ran($attempt) - $funded) / $job->{window})
	  if defined $funded && ran($attempt) > $funded;
	$attempt->{extension_denied} = 1;
	return if $m->suspended($job->{org}, $job->{account});
	foreach my $windows ($late ? $late + 1 : (), 1)
	{
		my $amount = extension($job, $attempt, $windows);

		next
		  if $m->debt_denies(@$job{qw(org account)}, $amount, $job);
		next if $late && credits($attempt->{held} + $amount) ne $held;
		next if $m->draw($attempt->{hold}, $amount, $job);
		$attempt->{extension_denied} = 0;
		$attempt->{held} += $amount;
		return;
	}
	die "there is credit for all windows that passed\n"
	  if $late
	  && !$m->debt_denies(@$job{qw(org account)},
		extension($job, $attempt, $late + 1), $job)
	  && ref $m->find_credit(@$job{qw(org account)},
		extension($job, $attempt, $late + 1), $attempt->{hold}, $job);
	return;
}

sub meter
{
	my ($m, $in, $new) = @_;
	my $org     = name($in->{org});
	my $elapsed = duration($in->{elapsed}, zero_ok => 1);
	my ($job, $attempt) = find_attempt($m, $org, @$in{qw(job attempt)});
	my $told;

	return [
		'stop', $attempt->{outcome}, credits($attempt->{billed}),
		credits(0), $m->{now}, 0
	] if $attempt->{outcome};
	first_word($m, $attempt, $elapsed) unless defined $attempt->{running_at};
	$elapsed += $attempt->{overhead};
	$told    = $elapsed;
	$elapsed = least($elapsed, longest($m, $attempt));
	if ($elapsed > $attempt->{elapsed} || !defined $attempt->{running_at})
	{
		$attempt->{elapsed} = most($attempt->{elapsed}, $elapsed);
		$attempt->{running_at} //= $m->{now};
		$attempt->{heard_at} = $m->{now};
		extend($m, $job, $attempt, $new->{row}[3]);
	}
	elsif ($attempt->{extension_denied} && $told >= $attempt->{elapsed})
	{
		extend($m, $job, $attempt, $new->{row}[3]);
	}
	return answer($m, $job, $attempt);
}

# Many heartbeats: of one attempt's the longest counts, and all of them are
# answered alike; what names nothing real is told to stop.
sub meter_batch
{
	my ($m, $in, $new) = @_;
	my @said = split(/\n/, $new->{row}[0]);
	my (%longest, %answer, @lines);

	foreach my $beat (@{ $in->{beats} })
	{
		my $name = join(' ', @$beat[ 0 .. 2 ]);
		my $held = (split(/ /, shift @said))[6];

		$longest{$name} = [ @$beat, $held ]
		  if !$longest{$name} || duration($beat->[3], zero_ok => 1)
		  > duration($longest{$name}[3], zero_ok => 1);
	}
	foreach my $name (sort keys %longest)
	{
		my %call;

		@call{qw(org job attempt elapsed)} = @{ $longest{$name} };
		$answer{$name} = eval {
			meter($m, \%call, { row => [ (undef) x 3, $longest{$name}[4] ] });
		};
		next if $answer{$name};
		die $@ unless ref $@;
		$answer{$name} = [ 'stop', 'unknown', credits(0), credits(0) ];
	}
	foreach my $beat (@{ $in->{beats} })
	{
		my $name = join(' ', @$beat[ 0 .. 2 ]);

		push @lines,
		  join(' ', $name, map { $_ // '-' } @{ $answer{$name} }[ 0 .. 5 ]);
	}
	return [ join("\n", @lines) ];
}

# May a live attempt go on, and how long?
sub answer
{
	my ($m, $job, $attempt) = @_;
	my @known  = (credits(bill($attempt)), credits($attempt->{held}));
	my $funded = funded($job, $attempt);
	my $wall   = $job->{wall};
	my $late   = wall_end($job, $attempt);
	my $why    = 'low_funds';
	my $end    = $funded;

	my ($told, $leave_by) = Model::Node::obeys($m, $attempt);

	return [ 'stop', 'cancelled', @known, $m->{now}, 0 ] if $job->{cancelled};
	return [ 'stop', $told, @known, $m->{now}, 0 ]
	  if defined $told && $leave_by <= $m->{now};
	if (defined $wall && (!defined $funded || $wall <= $funded))
	{
		$why = 'wall_limit';
		$end = $wall;
	}
	return [ 'stop', $why, @known, $m->{now}, 0 ]
	  if defined $end && ran($attempt) >= $end;
	return [ 'stop', 'wall_limit', @known, $m->{now}, 0 ]
	  if ($late // 9e18) <= $m->{now};
	my @left = sort { $a <=> $b } defined $end ? $end - ran($attempt) : (),
	  defined $told ? $leave_by - $m->{now} : (),
	  $attempt->{let_in} ? $late - $m->{now} : ();
	my $short = defined $end
	  && $why eq 'low_funds'
	  && $attempt->{extension_denied}
	  && extension($job, $attempt) > 0;

	return [
		(defined $told ? ('checkpoint', $told)
			: $short ? ('checkpoint', 'low_funds')
			: limit_is_near($m, $job, $attempt) ? ('checkpoint', 'wall_limit')
			: ('continue', undef)),
		@known, @left ? ($m->{now} + $left[0], $left[0]) : (undef, undef)
	];
}

# Does an attempt that saves have a last time to, before its wall limit, and has
# not done so since?
sub limit_is_near
{
	my ($m, $job, $attempt) = @_;
	my @ends;

	return 0 unless defined $attempt->{running_at} && defined $attempt->{saved_at};
	push @ends, $attempt->{started} + $job->{wall} if $attempt->{let_in};
	push @ends, $attempt->{heard_at} + $job->{wall} - ran($attempt)
	  if defined $job->{wall} && $job->{wall} > SAVE_AHEAD;
	my ($end) = sort { $a <=> $b } @ends;

	return defined $end && $m->{now} >= $end - SAVE_AHEAD
	  && $attempt->{saved_at} < $end - SAVE_AHEAD;
}

# How a sweep ends a live attempt that was not heard from for METER_LOST, or
# was to stop STOP_GRACE ago or longer; undef: it does not.
sub overdue
{
	my ($m, $job, $attempt) = @_;
	my $heard    = $attempt->{heard_at} // $attempt->{started};
	my $wall_end = wall_end($job, $attempt) // 9e18;
	my $outcome =
	    $heard + METER_LOST > $m->{now} ? stopped($m, $job, $attempt, STOP_GRACE)
	  : $heard + METER_LOST >= $wall_end ? 'timeout'
	  : %{ $attempt->{directives} } ? 'preempted'
	  : 'failed';

	return defined $outcome && $job->{cancelled} ? 'cancelled' : $outcome;
}

# What a live attempt was to stop for so long ago; undef: it was not.
sub stopped
{
	my ($m, $job, $attempt, $ago) = @_;
	my $told     = $m->{now} - $ago;
	my $elapsed  = ran($attempt) - $ago;
	my $funded   = funded($job, $attempt);
	my $left_for = Model::Node::was_to_leave($attempt, $told);

	return 'cancelled'
	  if defined $job->{cancelled_at} && $job->{cancelled_at} <= $told;
	return $left_for eq 'resized' ? 'resized' : 'preempted' if defined $left_for;
	return 'timeout'
	  if (wall_end($job, $attempt) // 9e18) <= $told
	  || (defined $job->{wall} && $elapsed >= $job->{wall});
	return 'preempted'
	  if $attempt->{extension_denied} && defined $funded && $elapsed >= $funded;
	return undef;
}

# How a look at the nodes ends a live attempt: one of its nodes is gone.
sub gone
{
	my ($m, $job, $attempt) = @_;
	my $leaves_at = Model::Node::leaves_at($m, $attempt);

	return defined $leaves_at && $leaves_at <= $m->{now}
	  ? 'preempted' : undef;
}

# Is a failure of this kind tried again?
sub transient
{
	my ($outcome, $code, $message) = @_;

	return 0 if $outcome eq 'out_of_memory';
	return 0 if ($message // '') =~ /CUDA out of memory/;
	return 1 if ($message // '') =~ /NCCL timeout/;
	return !grep { defined $code && $code == $_ } 2, 126, 127, 137;
}

# What an attempt has saved: by the last checkpoint told, what was metered by
# then.
sub checkpoint
{
	my ($m, $in) = @_;
	my $org = name($in->{org});
	my $step = whole($in->{step}, 0);

	refuse('22023') if ($in->{uri} // '') eq '' || length($in->{sha256} // '') != 66;
	my $size = whole($in->{size_bytes}, 0);
	my (undef, $attempt) = find_attempt($m, $org, @$in{qw(job attempt)});
	my $what = join('|', $in->{uri}, $in->{sha256}, $size);

	return [''] if ($attempt->{steps}{$step} // '') eq $what;
	refuse('UC303') if $attempt->{outcome};
	refuse('22023') if ($attempt->{saved_step} // -1) >= $step;
	$attempt->{steps}{$step} = $what;
	@$attempt{qw(saved_step saved_elapsed saved_at)} =
	  ($step, $attempt->{elapsed}, $m->{now});
	return [''];
}

# Who pays, in a tier and after an outcome, for what must be done again.
sub set_lost_work
{
	my ($m, $in) = @_;

	refuse('22023')
	  unless ($in->{outcome} // '') =~
	  /^(failed|preempted|node_lost|resized)$/;
	refuse('UC402') unless Model::Job::is_tier(name($in->{tier}));
	$m->{lost_work}{ $in->{tier} }{ $in->{outcome} } = $in->{billed};
	return [''];
}

sub lost_is_billed
{
	my ($m, $tier, $outcome) = @_;

	return $m->{lost_work}{$tier}{$outcome} // $tier ne 'scratch';
}

sub settle
{
	my ($m, $in, $new) = @_;
	my $org     = name($in->{org});
	my $outcome = $in->{outcome};

	refuse('22023') unless exists $last_state{$outcome};
	my $elapsed =
	  duration($in->{elapsed}, zero_ok => 1, optional => 1) // 0;
	my ($job, $attempt) = find_attempt($m, $org, @$in{qw(job attempt)});

	return late_word($m, $job, $attempt, $outcome, $elapsed)
	  if $attempt->{settled};
	first_word($m, $attempt, $elapsed)
	  unless defined $attempt->{running_at} || $in->{by_server}
	  || $outcome eq 'node_lost';
	$attempt->{overhead} = least($attempt->{overhead},
		most($m->{now} - $attempt->{started} - $elapsed, 0))
	  if defined $attempt->{running_at};
	$attempt->{elapsed} = most($attempt->{elapsed},
		least($elapsed + $attempt->{overhead}, longest($m, $attempt)));
	my $code = $in->{exit_code} // 0;

	if ($outcome eq 'failed' && ($code == 143 || $code == 137))
	{
		my $why = stopped($m, $job, $attempt, 0);

		$why //= 'preempted' if $code == 143
		  && ($job->{cancelled} || $attempt->{extension_denied} || %{ $attempt->{directives} });
		$outcome = $job->{cancelled} ? 'cancelled' : $why if defined $why;
	}
	my $state   = $last_state{$outcome};
	my $retry   = !defined $state;
	my $backoff = 0;

	if ($outcome =~ /^(failed|out_of_memory)$/)
	{
		# that its agent fell silent is not the program's failure
		my $most = $in->{by_server} ? most($job->{max_retries}, PLATFORM_RETRIES) : $job->{max_retries};

		$retry = transient($outcome, @$in{qw(exit_code message)}) && $job->{failures} < $most;
		$backoff = $retry;
		$job->{failures}++ if $retry || $outcome eq 'failed';
	}
	if ($job->{cancelled} && $outcome ne 'completed')
	{
		$retry = 0;
		$state = 'cancelled';
	}
	my $cost = cost($attempt->{rate}, 1, 1000, $attempt->{elapsed});
	my $held = Model::Ledger::sum($attempt->{hold}, 'held');

	$held += collect($m, $job, $attempt, $cost - $held) if $cost > $held;
	my $billed = $attempt->{billed} = least($cost, $held);

	$attempt->{held} = most($attempt->{held}, $billed);
	Model::Ledger::capture($attempt->{hold}, $billed);
	my ($released, $lapsed) = $m->close_hold($attempt->{hold});
	my $refunded = 0;

	$attempt->{uncollected} = $cost - $billed;
	$m->owe(@$job{qw(org account)}, $attempt->{uncollected});
	if ($retry && $billed && platform_lost($in, $attempt, $outcome)
		&& !lost_is_billed($m, $job->{tier}, $outcome))
	{
		my $kept = least($attempt->{saved_elapsed} // 0, $attempt->{elapsed});
		my $lost = $billed - bill({ %$attempt, elapsed => $kept });

		($refunded, my $more) = $m->refund($lost, $attempt->{hold});
		$lapsed += $more;
	}
	if ($retry)
	{
		$job->{not_before} = $m->{now};
		$job->{not_before} += least(BACKOFF_MAX,
			BACKOFF * 2**($job->{failures} - 1)) if $backoff;
		$state = Model::Job::requeue($m, $job, $new);
	}
	$job->{state}       = $state;
	$attempt->{outcome} = $outcome;
	$attempt->{refunded} = $refunded;
	$attempt->{by_agent} = !$in->{by_server};
	$attempt->{ended} = $m->{now};
	$attempt->{settled} = [
		$outcome, (map { credits($_) } $billed, $released, $lapsed, $refunded),
		$state, $retry ? $job->{not_before} : undef, credits($cost - $billed)
	];
	return [ @{ $attempt->{settled} }, 0 ];
}

# Did the platform lose what the attempt did?  An outcome that is only claimed
# does not say so.
sub platform_lost
{
	my ($in, $attempt, $outcome) = @_;
	my $directives = $attempt->{directives};

	return 1 if $outcome eq 'node_lost' || $in->{reclaimed};
	return $in->{by_server} if $outcome eq 'failed';
	return 0 unless $outcome =~ /^(preempted|resized)$/;
	return scalar grep { !$directives->{$_}{own} } keys %$directives;
}

# Draws what there is of what is missing; returns how much.
sub collect
{
	my ($m, $job, $attempt, $missing) = @_;

	return 0 if $m->suspended($job->{org}, $job->{account});
	return $m->draw_most($attempt->{hold}, $missing, $job);
}

# An agent's word on an attempt that is over: its first one on one that the
# server ended counts, if it completed and its job has not started again, or if
# it ran on though the server heard of it.
sub late_word
{
	my ($m, $job, $attempt, $outcome, $elapsed) = @_;
	my $finishes = $outcome eq 'completed'
	  && !$job->{cancelled}
	  && $job->{attempt} == $attempt->{attempt}
	  && $job->{state} =~ /^(queued|unfunded)$/;
	my $ran_on = defined $attempt->{running_at}
	  && $attempt->{outcome} ne 'node_lost'
	  && $attempt->{heard_at} > $attempt->{ended} - METER_LOST;
	my $had = most($attempt->{elapsed},
		least($elapsed + $attempt->{overhead}, longest($m, $attempt)));

	return [ @{ $attempt->{settled} }, 1 ]
	  if $attempt->{by_agent}
	  || !($finishes || ($ran_on && $had > $attempt->{elapsed}));
	$m->close_hold($job->{hold}) if $finishes && $job->{state} eq 'queued';
	$attempt->{elapsed} = $had;
	my $cost  = cost($attempt->{rate}, 1, 1000, $attempt->{elapsed});
	my $paid  = $attempt->{billed} - ($finishes ? $attempt->{refunded} : 0);
	my $drawn = 0;

	$drawn = collect($m, $job, $attempt, $cost - $paid) if $cost > $paid;
	Model::Ledger::capture($attempt->{hold}, $drawn);
	$attempt->{billed} += $drawn;
	$attempt->{by_agent} = 1;
	@{ $attempt->{settled} }[ 1, 7 ] =
	  (credits($attempt->{billed}), credits($cost - $paid - $drawn));
	$m->owe(@$job{qw(org account)}, $cost - $paid - $drawn - $attempt->{uncollected});
	$attempt->{uncollected} = $cost - $paid - $drawn;
	return [ @{ $attempt->{settled} }, 0 ] unless $finishes;
	$job->{state} = $attempt->{outcome} = 'completed';
	delete $job->{not_before};
	@{ $attempt->{settled} }[ 0, 5, 6 ] = ('completed', 'completed', undef);
	return [ @{ $attempt->{settled} }, 0 ];
}

1;
