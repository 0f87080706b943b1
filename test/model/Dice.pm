# Dice.pm: random arguments for each call
#
# The same seed gives the same calls: nothing depends on the order of hash
# keys.  A function returns a call's arguments, or nothing if the call is not
# possible.
package Dice;

use strict;
use warnings;

use Exporter 'import';
use List::Util 'sum0';
use Model::Value qw(credits HOUR DAY);

our @EXPORT = qw(%throw pick chance between random_amount live_attempts);

sub pick
{
	return $_[ int(rand(scalar @_)) ];
}

sub chance
{
	my ($share) = @_;

	return rand() < $share;
}

sub between
{
	my ($least, $most) = @_;

	return $least + int(rand($most - $least + 1));
}

# An amount as callers write it.
sub random_amount
{
	my ($most) = @_;

	return between(1, $most) if chance(0.4);
	return credits(between(1, $most * 1_000_000));
}

# Part of an amount in millionths; a little more than that, now and then.
sub part_of
{
	my ($n) = @_;

	return credits($n) if chance(0.3) && $n > 0;
	return credits($n + between(1, 3)) if chance(0.1);
	return credits(between($n > 0 ? 1 : 0, $n > 0 ? $n : 1));
}

sub random_span
{
	my ($most) = @_;

	return between(1, int($most / 60_000_000)) * 60_000_000 . ' microseconds'
	  if chance(0.7);
	return between(1, $most) . ' microseconds';
}

sub account
{
	my ($d) = @_;

	return pick(sort keys %{ $d->{m}{account}{ $d->{org} } });
}

sub base
{
	my ($d) = @_;

	return (org => $d->{org}, account => account($d), key => $d->new_key);
}

# Sorted by number, so that a seed finds them in the same order.
sub by_id
{
	return sort { $a->{id} <=> $b->{id} } @_;
}

# The existing nodes.
sub by_name
{
	my ($d) = @_;
	my $nodes = $d->{m}{node};

	return map { $nodes->{$_} } sort keys %$nodes;
}

sub own_hold
{
	my ($d, $open) = @_;
	my @holds = by_id(grep { !$_->{job} } values %{ $d->{m}{hold}{ $d->{org} } });
	my @open = grep { !defined $_->{closed_at} } @holds;

	return @open && chance($open) ? pick(@open) : @holds ? pick(@holds) : undef;
}

sub job
{
	my ($d, $state) = @_;
	my @jobs = by_id(values %{ $d->{m}{job}{ $d->{org} } });
	my @in_state = grep { $_->{state} =~ $state } @jobs;

	return @in_state && chance(0.85) ? pick(@in_state)
	  : @jobs ? pick(@jobs) : undef;
}

# Running attempts of all organisations.
sub live_attempts
{
	my ($m) = @_;

	return map {
		my $org = $_;

		map { $m->{attempt}{$org}{ $_->{id} }{ $_->{attempt} } }
		  by_id(grep { $_->{state} eq 'active' } values %{ $m->{job}{$org} })
	} sort keys %{ $m->{job} };
}

sub attempt
{
	my ($d) = @_;
	my $m    = $d->{m};
	my @live = live_attempts($m);

	return pick(@live) if @live && chance(0.95);
	my $job = job($d, qr/./) or return undef;

	return undef unless $job->{attempt};
	return $m->{attempt}{ $d->{org} }{ $job->{id} }
	  { between(1, $job->{attempt}) };
}

# How long an attempt has run, as its agent may report it: the true time, the
# last report, less, more, far too much.
sub elapsed
{
	my ($d, $attempt) = @_;
	my $now  = $d->{m}{now} - $attempt->{started};
	my $dice = rand();

	return ($dice < 0.55 ? $now
		: $dice < 0.7  ? between(0, $now)
		: $dice < 0.8  ? $attempt->{elapsed}
		: $dice < 0.85 ? between(0, $attempt->{elapsed})
		: $dice < 0.95 ? $now + between(0, 20_000_000)
		: 1_000_000_000_000_000) . ' microseconds';
}

# A column of some rows as an array's text.
sub array
{
	my ($rows, $name, $column) = @_;

	return ($name => '{' . join(',', map { qq("$_->[$column]") } @$rows) . '}');
}

our %throw = (
	create_account => sub {
		my ($d) = @_;

		return { org => $d->{org}, weight => pick(1, '2.5'),
			account => pick(account($d), 'b/c', 'a/y', 'c') };
	},
	suspend_account => sub {
		my ($d) = @_;
		my $accounts = $d->{m}{account}{ $d->{org} };
		my @suspended =
		  grep { $accounts->{$_}{suspended} } sort keys %$accounts;

		return { org => $d->{org}, @suspended
			? (account => pick(@suspended), suspended => 0)
			: (account => account($d), suspended => chance(0.6) ? 1 : 0) };
	},
	grant_tier => sub {
		my ($d) = @_;

		return { org => $d->{org}, account => account($d),
			tier => pick(qw(production_inference production_inference
				premium_training standard_training)) };
	},
	revoke_tier => sub {
		my ($d) = @_;
		my $grants = $d->{m}{grant}{ $d->{org} };
		my @granted = map {
			my $account = $_;

			map { [ $account, $_ ] }
			  grep { $grants->{$account}{$_} } sort keys %{ $grants->{$account} }
		} sort keys %$grants;
		my ($account, $tier) = @{ @granted && chance(0.8) ? pick(@granted)
			: [ account($d), 'premium_training' ] };

		return { org => $d->{org}, account => $account, tier => $tier };
	},
	write_off => sub {
		my ($d) = @_;
		my $owed = $d->{m}{owed}{ $d->{org} };
		my @owing = grep { $owed->{$_}{owed} } sort keys %$owed;
		my $account = @owing && chance(0.9) ? pick(@owing) : account($d);

		return undef unless @owing || chance(0.2);
		return { org => $d->{org}, account => $account, key => $d->new_key,
			reason => pick('goodwill', 'disputed'),
			amount => chance(0.4) ? undef
			: part_of($owed->{$account} ? $owed->{$account}{owed} : 0) };
	},
	set_budget => sub {
		my ($d) = @_;

		return { org => $d->{org}, account => account($d),
			amount => chance(0.3) ? undef : random_amount(2500),
			period => pick(qw(none day week month quarter year)),
			hard => chance(0.7) ? 1 : 0 };
	},
	set_quota => sub {
		my ($d) = @_;

		return { org => $d->{org}, account => account($d),
			gpu_type => pick(undef, undef, qw(A100 A100 H100)),
			max_gpus => chance(0.6) ? undef : between(1, 6),
			max_running => chance(0.6) ? undef : between(1, 3),
			max_queued => chance(0.6) ? undef : between(0, 5) };
	},
	set_slices => sub {
		my ($d) = @_;

		return { org => $d->{org}, account => account($d),
			n => pick(1, 2, 2, 3, 16, 64) };
	},
	set_price => sub {
		my ($d) = @_;

		return { gpu_type => pick(qw(A100 A100 H100)), pool => $d->{pool},
			per_gpu_hour => chance(0.05) ? 0 : random_amount(5),
			spot => chance(0.4) ? 1 : 0 };
	},
	register_node => sub {
		my ($d) = @_;
		my $node = pick(by_name($d));

		return { pool => $d->{pool}, node => $node->{name}, gpus => 8,
			gpu_memory_mib => 81920, map { $_ => $node->{$_} }
			  qw(gpu_type spot) };
	},
	drain => sub {
		my ($d) = @_;

		return { node => pick(by_name($d))->{name}, reason => 'repair',
			deadline => chance(0.2) ? undef
			: $d->{m}{now} + between(-10, 90) * 60_000_000 };
	},
	reclaim => sub {
		my ($d) = @_;

		return { node => pick(by_name($d))->{name},
			notice => chance(0.1) ? '0 microseconds' : random_span(HOUR) };
	},
	resume => sub {
		my ($d) = @_;
		my @away = grep { $_->{draining} || defined $_->{reclaim_at} }
		  by_name($d);

		return @away ? { node => pick(@away)->{name} } : undef;
	},
	heartbeat => sub {
		my ($d) = @_;

		return { node => pick(by_name($d))->{name} };
	},
	issue => sub {
		my ($d) = @_;
		my $now = $d->{m}{now};
		my %a = (base($d), amount => random_amount(pick(100, 1500)),
			kind => pick(qw(paid promo grant)), priority => pick(10, 100, 100),
			policy => pick('{}', '{}', '{}', '{"gpu_types": ["A100"]}',
				'{"gpu_types": ["H100", "A100"]}', '{"max_share": 0.5}',
				'{"tiers": ["standard_training", "scratch"]}',
				'{"pools": ["floor"]}', '{"pools": ["elsewhere"]}',
				'{"max_per_job": 12.5}', '{"max_share": 0.333333}',
				'{"max_per_job": 40, "max_share": 0.9}'),
			memo => pick(undef, 'welcome'));

		return undef if $d->buckets > 45;
		$a{effective_at} = $now + between(-1, 2) * HOUR if chance(0.2);
		$a{expires_at} = $now + between(-4, 1500) * HOUR / 4 if chance(0.4);
		$a{valid_for} = random_span(9 * DAY)
		  if chance($a{expires_at} ? 0.03 : 0.3);
		return \%a;
	},
	transfer => sub {
		my ($d) = @_;

		return undef if $d->buckets > 55;
		return { org => $d->{org}, from_account => account($d),
			to_account => account($d), key => $d->new_key,
			amount => random_amount(pick(20, 200)) };
	},
	revoke => sub {
		my ($d) = @_;
		my @buckets = by_id(values %{ $d->{m}{bucket}{ $d->{org} } })
		  or return undef;

		return { org => $d->{org}, bucket => pick(@buckets)->{id},
			key => $d->new_key, reason => pick(undef, 'fraud') };
	},
	hold => sub {
		my ($d) = @_;

		return { base($d), amount => random_amount(pick(5, 50, 400)),
			ttl => random_span(pick(3 * HOUR, 2 * DAY, 20 * DAY)) };
	},
	capture => sub {
		my ($d) = @_;
		my $hold = own_hold($d, 0.9) or return undef;
		my $held = Model::Ledger::sum($hold, 'held');

		return { org => $d->{org}, hold => $hold->{id}, key => $d->new_key,
			amount => chance(0.1) ? 0 : part_of($held),
			final => chance(0.6) ? 1 : 0 };
	},
	release => sub {
		my ($d) = @_;
		my $hold = own_hold($d, 0.8) or return undef;

		return { org => $d->{org}, hold => $hold->{id}, key => $d->new_key };
	},
	refund_hold => sub {
		my ($d) = @_;
		my $hold = own_hold($d, 0.3) or return undef;

		return { org => $d->{org}, hold => $hold->{id}, key => $d->new_key,
			amount => part_of(Model::Ledger::sum($hold, 'spent')),
			reason => 'goodwill' };
	},
	refund => sub {
		my ($d) = @_;
		my $job = job($d, qr/completed|queued|failed|active/) or return undef;

		return { org => $d->{org}, job => $job->{id}, key => $d->new_key,
			amount => part_of(sum0(map { Model::Ledger::sum($_, 'spent') }
				grep { ($_->{job} || 0) == $job->{id} }
				values %{ $d->{m}{hold}{ $d->{org} } })),
			reason => pick(undef, 'bad node') };
	},
	reserve => sub {
		my ($d) = @_;

		return { base($d), pool => $d->{pool},
			request => pick(qw(1xH100 1xA100 2xA100 1xH100|A100 3xA100|H100
				2-4xA100 1-6xH100 2-8xA100 0.46xA100 0 2x* 1xT4|A100 1xT4 1xX9 1xX9|H100 99xA100)),
			wall_limit => chance(0.2) ? undef : random_span(20 * HOUR),
			tier => pick(qw(standard_training standard_training
				batch_inference interactive scratch scratch scratch endless
				premium_training production_inference)),
			max_retries => between(0, 3),
			hold_window => chance(0.5) ? undef : random_span(3 * HOUR) };
	},
	cancel => sub {
		my ($d) = @_;
		my $job = job($d, qr/queued|unfunded|active/) or return undef;

		return { org => $d->{org}, job => $job->{id}, key => $d->new_key,
			reason => pick(undef, 'not needed') };
	},
	meter => sub {
		my ($d) = @_;
		my $attempt = attempt($d) or return undef;

		return { (map { $_ => $attempt->{$_} } qw(org job attempt)),
			elapsed => elapsed($d, $attempt) };
	},
	meter_batch => sub {
		my ($d) = @_;
		my %of_org;

		# which job gets the organisation's last credit is not defined
		foreach my $attempt (live_attempts($d->{m}))
		{
			push @{ $of_org{ $attempt->{org} } }, $attempt;
		}
		my @beats = map {
			my $attempt = pick(@{ $of_org{$_} });

			[ @$attempt{qw(org job attempt)}, elapsed($d, $attempt) ]
		} sort keys %of_org;

		return undef unless @beats;
		push @beats, [ @{ pick(@beats) }[ 0 .. 2 ], '1000 microseconds' ]
		  if chance(0.3);
		push @beats, [ $d->{org}, 987_654_321, 1, '5 microseconds' ]
		  if chance(0.2);
		push @beats, [ 'nobody', 1, 1, '5 microseconds' ] if chance(0.1);
		@beats = reverse @beats if chance(0.5);
		return { beats => \@beats, array(\@beats, org => 0),
			array(\@beats, job => 1), array(\@beats, attempt => 2),
			array(\@beats, elapsed => 3) };
	},
	checkpoint => sub {
		my ($d) = @_;
		my $attempt = attempt($d) or return undef;
		my $step = $attempt->{saved_step} // 0;

		return { (map { $_ => $attempt->{$_} } qw(org job attempt)),
			step => $step + pick(-1, 0, 1, 1, 1, 10), uri => 's3://saved/' .
			pick(qw(a a a b)), sha256 => '\\x' . 'ab' x 32,
			size_bytes => 4096 };
	},
	set_lost_work => sub {
		return { tier => pick(qw(scratch scratch interactive)),
			outcome => pick(qw(failed preempted node_lost resized
				out_of_memory)),
			billed => pick(undef, undef, 0, 0, 1) };
	},
	settle => sub {
		my ($d) = @_;
		my $attempt = attempt($d) or return undef;

		return { (map { $_ => $attempt->{$_} } qw(org job attempt)),
			elapsed => chance(0.3) ? undef : elapsed($d, $attempt),
			outcome => pick(qw(completed completed failed failed failed
				out_of_memory timeout preempted preempted cancelled
				node_lost resized)),
			exit_code => pick(undef, undef, 0, 1, 2, 126, 127, 137, 143, 143),
			message => pick(undef, undef, undef, 'NCCL timeout',
				'CUDA out of memory') };
	},
	map { $_ => sub { return {} } }
	  qw(place expire_credits reap_holds check_nodes maintain));

$throw{place} = sub { return { pool => $_[0]->{pool} } };

1;
