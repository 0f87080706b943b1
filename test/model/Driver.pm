# Driver.pm: runs one seed: random calls to the server and to the model
#
# After each call the whole state of its organisation is compared.  The model
# takes from the server what only the server knows: numbers of new rows, the
# scheduler's decisions, and when dead holds were released (the interface
# leaves that open, except for a call short of credit).
package Driver;

use strict;
use warnings;

use Calls;
use Compare;
use Cycle;
use Dice;
use Model::Value qw(HOUR DAY);
use Time::HiRes ();
use Twist;

use constant {
	ORG_LIVES    => 450,	# calls until there is another organisation
	ALL_ACCOUNTS => 10,		# calls between looks at all its accounts
	ALL_ORGS     => 250,
	LOOK_BACK    => 40,		# calls between looks at the past
	SWEEP_TIME   => 0.2,	# seconds in which a sweep finishes
	FUND_TIME    => 0.1,	# or no job without enough credit
};

my %weight = (
	meter        => 12, meter_batch     => 3,  set_lost_work   => 0.2,
	hold         => 8,  reserve         => 11,
	checkpoint   => 5,  settle          => 10, place          => 10,
	capture      => 6,
	issue        => 7,  release         => 3,  cancel         => 2,
	refund       => 3,  transfer        => 3,  set_budget     => 2,
	refund_hold  => 2,  suspend_account => 1,  revoke         => 1,
	set_slices   => 1,  set_quota       => 3,  set_price      => 0.6,
	create_account => 0.5, grant_tier => 0.7, revoke_tier   => 0.4,
	write_off => 1,
	reap_holds   => 0.5, expire_credits => 1,  maintain       => 0.2,
	check_nodes  => 0.5, heartbeat      => 3,  drain          => 0.5,
	reclaim      => 0.5, resume         => 1,  register_node  => 0.2,
	replay       => 5,  spoil           => 4);

# dbh: a connection to a database with nothing but the extension.
sub new
{
	my ($class, $dbh, $seed) = @_;
	my $self = bless(
		{   dbh   => $dbh,
			m     => Model::Ledger->new,
			pool  => 'floor',
			seed  => $seed,
			orgs  => [],
			keys  => 0,
			n     => 0,
			last  => [],
			past  => [],
			calls => {} },
		$class);

	srand($seed);
	$self->{m}{now} = (1_893_456_000 + 86_400 * ($seed % 700)) * 1_000_000;
	$self->{m}{pool} = $self->{pool};
	$self->{m}{debt_limit} = pick(0, 0, 2, 50, -1);
	$self->{m}{owed_max} = $self->{m}{debt_limit} * 1_000_000;
	$self->{m}{unpaid_max} = pick(1, 3, 1000);
	$self->set_up;
	return $self;
}

# The machines and prices there are, and a tier that does not bill lost work.
sub set_up
{
	my ($self) = @_;
	my $dbh = $self->{dbh};
	my $n   = 0;

	$dbh->do("SET $_") foreach
	  "gpucredit.clock = '" . when_text($self->{m}{now}) . "'",
	  'timezone = UTC', 'client_min_messages = warning',
	  "gpucredit.uncollected_max = $self->{m}{debt_limit}",
	  "gpucredit.unpaid_queued_max = $self->{m}{unpaid_max}";
	$dbh->do("SELECT gpucredit.create_pool('floor')");
	foreach my $type (qw(A100 A100 A100 H100 H100 X9 spot))
	{
		$n++;
		my %node = (pool => 'floor', node => "n$n",
			gpu_type => $type eq 'spot' ? 'A100' : $type, gpus => 8,
			gpu_memory_mib => 81920, spot => $type eq 'spot' ? 1 : 0);

		$self->ask('register_node', \%node);
		Model::Node::register_node($self->{m}, \%node);
	}
	foreach my $price ([ A100 => 1_234_567, 0 ], [ H100 => 3_500_001, 0 ],
		[ T4 => 400_000, 0 ], [ A100 => 700_001, 1 ])
	{
		my %price = (gpu_type => $price->[0], pool => 'floor',
			per_gpu_hour => Model::Value::credits($price->[1]),
			spot => $price->[2]);

		$self->ask('set_price', \%price);
		Model::Job::set_price($self->{m}, \%price);
	}
	$dbh->do("SELECT gpucredit.set_tier('scratch', 5, 'capacity', false,"
		  . ' bill_lost_work => false)');
	$dbh->do("SELECT gpucredit.set_tier('endless', 6, 'capacity', false,"
		  . " max_wall => '10000 h')");
	return;
}

# Makes so many calls; dies with what went wrong.
sub run
{
	my ($self, $calls) = @_;

	while ($self->{n} < $calls)
	{
		$self->new_org if $self->{n} % ORG_LIVES == 0;
		$self->pass_time;
		$self->{org} = chance(0.85) ? $self->{orgs}[-1] : pick(@{ $self->{orgs} });
		my ($name, $a) = $self->random_call;

		$self->call($name, $a);
		$self->check_past if $self->{n} % LOOK_BACK == 0;
	}
	$self->compare_all($_, all => 1) foreach @{ $self->{orgs} };
	my $broken = $self->{dbh}
	  ->selectall_arrayref('SELECT * FROM gpucredit.verify() LIMIT 5');

	$self->fail('verify() is empty', map { join(' | ', map { $_ // '' } @$_) }
		@$broken) if @$broken;
	return $self->{calls};
}

sub new_org
{
	my ($self) = @_;
	my $org = 'org' . (1 + @{ $self->{orgs} });

	push @{ $self->{orgs} }, $org;
	$self->{org} = $org;
	$self->call('create_account', { org => $org, account => $_, weight => 1 })
	  foreach '', 'a', 'b', 'a/x', 'a/x/deep';
	$self->call('grant_tier', { org => $org, account => '', tier => $_ })
	  foreach grep { chance(0.5) } qw(production_inference premium_training);
	return;
}

sub new_key
{
	my ($self) = @_;

	return 'k' . ++$self->{keys};
}

# How many buckets the organisation has.
sub buckets
{
	my ($self) = @_;

	return scalar keys %{ $self->{m}{bucket}{ $self->{org} } };
}

# Not at all, seconds, hours, days, or to the very instant of something.
sub pass_time
{
	my ($self) = @_;
	my $m    = $self->{m};
	my $dice = rand();
	my $then = $m->{now};

	return if $dice < 0.45;
	$then += $dice < 0.75 ? between(1, 600_000) * 1000
	  : $dice < 0.80 ? between(1, 10_000_000)
	  : $dice < 0.94 ? between(1, 2 * HOUR / 1000) * 1000
	  : $dice < 0.975 ? between(1, 12 * HOUR / 1000) * 1000
	  : $dice < 0.99 ? between(1, 6 * DAY / 1000) * 1000 : 0;
	if ($dice >= 0.99 && defined $self->{org})
	{
		my ($next) = sort { $a <=> $b } grep { defined && $_ > $m->{now} }
		  (map { @$_{qw(effective_at expires_at)} }
			  values %{ $m->{bucket}{ $self->{org} } }),
		  (map { $_->{expires_at} } $m->open_holds($self->{org}));

		$then = $next if defined $next && $next < $m->{now} + 2 * DAY;
	}
	$self->keep_for_later if $then > $m->{now} && chance(0.1);
	$m->{now} = $then;
	$self->{dbh}->do("SET gpucredit.clock = '" . when_text($then) . "'");
	return;
}

# The figures of an account after an instant, by the model.
sub keep_for_later
{
	my ($self) = @_;
	my $m = $self->{m};
	my $org = $self->{org} // return;
	my $account = pick(sort keys %{ $m->{account}{$org} }) // return;
	my $past = $self->{past};

	push @$past, [ $org, $account, $m->{now}, past_figures($m, $org, $account) ];
	splice(@$past, int(rand(scalar @$past)), 1) if @$past > 30;
	return;
}

# All of a balance except used, which is known only as far as it was logged.
sub past_figures
{
	my @words = split(/ /, Model::Figures::balance(@_));

	return join(' ', @words[ 1 .. 3, 5 .. 8 ]);
}

# A past balance equals the model's at that time; a statement ends with what is
# available now.
sub check_past
{
	my ($self) = @_;
	my ($m, $dbh) = @$self{qw(m dbh)};

	if (@{ $self->{past} })
	{
		my ($org, $account, $at, $expected) = @{ pick(@{ $self->{past} }) };
		my @row = $dbh->selectrow_array(
			'SELECT available, spendable, held, spent, promo, granted, paid'
			  . ' FROM gpucredit.balance(?, ?, ?)',
			undef, $org, $account, when_text($at));

		$self->fail("'$account' of $org had $expected at " . when_text($at),
			"@row")
		  if "@row" ne $expected;
	}
	my $org = $self->{org};
	my $account = pick(sort keys %{ $m->{account}{$org} });
	my ($now) = split(/ /, past_figures($m, $org, $account));
	my ($last) = $dbh->selectrow_array(
		'SELECT available FROM gpucredit.statement(?, ?) WITH ORDINALITY'
		  . ' s (at, entry, bucket, kind, account, operation, source, target,'
		  . ' amount, hold, job, attempt, available, n)'
		  . ' ORDER BY n DESC LIMIT 1',
		undef, $org, $account);

	$self->fail("the statement of '$account' of $org ends with $now",
		$last // 'nothing')
	  if ($last // '0.000000') ne $now;
	$self->{calls}{'looks at the past'}++;
	return;
}

# A call by weight, with arguments.
sub random_call
{
	my ($self) = @_;

	while (1)
	{
		my $name = weighted(\%weight);
		my $a;

		($name, $a) = replayed($self) if $name eq 'replay';
		($name, $a) = spoiled($self) if $name && $name eq 'spoil';
		$a ||= $throw{$name}->($self) if $name;
		return ($name, $a) if $a;
	}
}

sub weighted
{
	my ($weights) = @_;
	my $sum = 0;

	$sum += $_ foreach values %$weights;
	my $dice = rand($sum);

	foreach (sort keys %$weights)
	{
		return $_ if ($dice -= $weights->{$_}) < 0;
	}
	return 'place';
}

# Makes one call to both, and returns the results.
sub call
{
	my ($self, $name, $a) = @_;
	my ($dbh, $m) = @$self{qw(dbh m)};

	$self->{n}++;
	push @{ $self->{last} },
	  [ when_text($m->{now}), call_text($dbh, $name, $a) ];
	shift @{ $self->{last} } if @{ $self->{last} } > 10;
	my $began = Time::HiRes::time();
	my ($rows, $state) = $self->ask($name, $a);
	my $took = Time::HiRes::time() - $began;
	my $org = $a->{org} // '';

	$org = $self->{org} unless $m->{account}{$org} || $name eq 'create_account';
	my @seen = map { $self->read_state($_, $a) } $self->touched($name, $org, $rows);

	$self->{reaped} = 0;
	$self->reap_as($_) foreach $state ? () : @seen;
	my $outcome = $state || 'done';

	if ($name eq 'place')
	{
		$self->fail('place succeeds', $state) if $state;
		apply_cycle($self, $rows);
	}
	else
	{
		if ($name eq 'reap_holds')
		{
			apply_sweep($self, \&Model::Attempt::overdue, $took < SWEEP_TIME);
			apply_funded($self, $took < FUND_TIME);
		}
		apply_sweep($self, \&Model::Attempt::gone, $took < SWEEP_TIME)
		  if $name eq 'check_nodes';
		$outcome = $self->judge($name, $a, $rows, $state, $seen[0]);
	}
	$self->check($_, $outcome) foreach @seen;
	$self->{calls}{"$name $outcome"}++;
	$self->remember($name, $a) if !$state && defined $a->{key};
	return;
}

# The server's answer: rows, or an SQLSTATE.
sub ask
{
	my ($self, $name, $a) = @_;
	my $dbh = $self->{dbh};
	my $rows = eval {
		my $statement = $dbh->prepare_cached(call_sql($name));

		$statement->execute(call_values($name, $a));
		$statement->fetchall_arrayref;
	};

	return ($rows, undef) if $rows;
	$self->fail('an SQLSTATE', "$@") unless $dbh->state =~ /^[0-9A-Z]{5}$/;
	return (undef, $dbh->state);
}

sub remember
{
	my ($self, $name, $a) = @_;
	my $log = $self->{keyed}{ $a->{org} } ||= [];

	push @$log, [ $name, $a ];
	return;
}

# The organisations whose figures a call may have changed.
sub touched
{
	my ($self, $name, $org, $rows) = @_;
	my $m = $self->{m};
	my %touched = $self->{n} % ALL_ORGS == 0
	  ? (map { $_ => 1 } @{ $self->{orgs} }) : ();

	if ($name eq 'meter_batch' && $rows)
	{
		$touched{$_} = 1
		  foreach grep { $m->{account}{$_} }
		  map { /^(\S+)/ } split(/\n/, $rows->[0][0]);
	}
	if ($name eq 'place')
	{
		$touched{$_} = 1 foreach map { $_->[1] } @{ $rows || [] };
		$touched{ $_->{org} } = 1 foreach Model::Job::waiting($m);
	}
	elsif ($name =~ /^(expire_credits|reap_holds|check_nodes)$/)
	{
		$touched{$_} = 1 foreach @{ $self->{orgs} };
	}
	delete $touched{$org};
	return ($org, sort keys %touched);
}

# The state of an organisation, and the figures of the account that a call
# named.
sub read_state
{
	my ($self, $org, $a) = @_;
	my $known = $self->{m}{account}{$org};
	my $account = $a->{account} // $a->{from_account};
	my @accounts = $self->{n} % ALL_ACCOUNTS == 0 ? sort keys %$known
	  : defined $account && $known->{$account} ? ($account)
	  : $known && %$known ? (pick(sort keys %$known)) : ();

	return Compare::read_state($self->{dbh}, $org, \@accounts);
}

# Releases in the model the dead holds that the server has released.
sub reap_as
{
	my ($self, $seen) = @_;
	my $m = $self->{m};
	my %open = map { /^(\d+) / ? ($1 => 1) : () } split(/\n/, $seen->{holds});

	foreach my $hold ($m->dead_holds($seen->{org}))
	{
		next if $open{ $hold->{id} };
		$m->reap($hold);
		$self->{reaped}++;
	}
	return;
}

# Numbers the server gave to what is new, ascending.
sub new_ids
{
	my ($seen, $what, $known) = @_;

	return [ grep { !$known->{$_} }
		  map { /^(\d+) / } split(/\n/, $seen->{$what}) ];
}

# Compares the model's answer to a call with the server's.  Returns how the
# call ended.
sub judge
{
	my ($self, $name, $a, $rows, $state, $seen) = @_;
	my $m   = $self->{m};
	my $row = $rows && $rows->[0];
	my %new = (
		row     => $row,
		holds   => new_ids($seen, 'holds', $m->{hold}{ $seen->{org} } || {}),
		buckets =>
		  new_ids($seen, 'all_buckets', $m->{bucket}{ $seen->{org} } || {}));
	my $expected = eval { $calls{$name}[2]->($m, $a, \%new) };
	my $error    = $@;

	$error = ref $error ? $error->{state} : $self->fail("no: $error")
	  unless $expected;
	my @said = map { $_ ? join(', ', map { $_ // 'NULL' } @$_) : $_ }
	  ($expected, $row);

	$self->fail($said[0] // "error $error", $said[1] // "error $state")
	  if ($said[0] // $error) ne ($said[1] // $state);
	return $state if $state;
	return 'replayed' if defined $a->{key} && $row->[-1];
	return "@said" =~ /denied/ ? 'denied' : 'done';
}

# Compares; a call that was refused left no entry.
sub check
{
	my ($self, $seen, $outcome) = @_;
	my @differences = eval { Compare::compare($self->{m}, $seen) };

	push @differences, "the model is broken: $@" if $@;
	my $before = $self->{entry}{ $seen->{org} } // '';

	push @differences, 'a refused call made an entry'
	  if $outcome !~ /^done/ && !$self->{reaped} && $seen->{entry} ne $before;
	$self->{entry}{ $seen->{org} } = $seen->{entry};
	$self->fail("the same in $seen->{org}", @differences) if @differences;
	return;
}

# All of an organisation, all its holds included.
sub compare_all
{
	my ($self, $org, %options) = @_;
	my @accounts = sort keys %{ $self->{m}{account}{$org} };
	my $seen = Compare::read_state($self->{dbh}, $org, \@accounts, $options{all});
	my @differences = Compare::compare($self->{m}, $seen);

	$self->fail("the same in $org at the end", @differences) if @differences;
	return;
}

# Ends the seed with everything needed to understand why.
sub fail
{
	my ($self, $expected, @found) = @_;
	my $last = join('', map { "    SET gpucredit.clock = '$_->[0]'; $_->[1];\n" }
		  @{ $self->{last} });

	die "seed $self->{seed}, call $self->{n}\n"
	  . "  expected: $expected\n"
	  . join('', map { "  found: $_\n" } @found)
	  . "  the last calls, the failing one last:\n$last"
	  . "  replay: GC_SEED=$self->{seed} GC_OPS=$self->{n} prove"
	  . " test/t/070_model.pl\n";
}

1;
