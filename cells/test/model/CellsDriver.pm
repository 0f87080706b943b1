# CellsDriver.pm: one seed: three cells, whose messages a random number
# delivers
#
# The cells are databases; their clocks are frozen, apart by up to the skew.
# They wander, but never back.  Calls go to a cell and to its model; messages
# of an outbox are sent never, once or twice, and arrive in any order, late or
# not at all; so do answers.  Leased credit is transferred.  Policies top up
# and drain two accounts, and change.  After each step all figures of the cell
# that it touched agree.
package CellsDriver;

use strict;
use warnings;

use Calls;
use Compare;
use Dice;
use JSON::PP ();
use Leases;
use Model::Figures;
use Model::Value;

use constant ORG => 'o';
use constant NO_LEASE => { id => '00000000-0000-0000-0000-000000000000', org => '' };
my @cells    = qw(c0 c1 c2);
my @accounts = ('', 'a', 'a/x', 'b');
my $json     = JSON::PP->new->canonical;
my %weight = (
	issue => 4, lease => 9, recall => 2, set_budget => 1,
	hold => 22, capture => 16, release => 6, refund_hold => 5, revoke => 0.7,
	transfer => 3, set_policy => 1, start_again => 0.5,
	write_messages => 22, send => 34, deliver => 34, answer => 26);

sub new
{
	my ($class, $dbh, $seed) = @_;
	my $self = bless(
		{   dbh => $dbh, seed => $seed, leases => Leases->new(@cells),
			now => (1_893_456_000 + 86_400 * ($seed % 300)) * 1_000_000,
			keys => 0, n => 0, air => [], calls => {}, last => [] },
		$class);

	srand($seed);
	$self->{skew}{$_} = between(0, 4_999_999) foreach @cells;
	$dbh->{$_}->do("SET timezone = UTC; SET client_min_messages = error")
	  foreach @cells;
	$self->tick(0);
	foreach my $account (@accounts)
	{
		$dbh->{c0}->do('SELECT gpucredit.create_account(?, ?)', undef, ORG, $account);
		$self->m('c0')->{account}{ +ORG }{$account} = { suspended => 0 };
	}
	foreach my $cell (@cells)
	{
		$dbh->{$cell}->do('INSERT INTO gpucredit_cells.peer (cell, server)'
			  . ' SELECT cell, gpucredit_cells.server() FROM gpucredit_cells.cell'
			  . ' WHERE cell <> gpucredit_cells.here()');
	}
	$self->set_policy('c1', 40, 150, 2 * HOUR);
	$self->set_policy('c2', 5,  20,  HOUR / 2);
	return $self;
}

# Account a has leases in c1, b in c2; minimum undef: no more.
sub set_policy
{
	my ($self, $there, $minimum, $target, $ttl) = @_;
	my $account = $there eq 'c1' ? 'a' : 'b';

	$self->{dbh}{c0}->do('SELECT gpucredit_cells.set_lease_policy(?, ?, ?, ?, ?, ?)',
		undef, ORG, $account, $there, $minimum, $target,
		defined $ttl ? "$ttl microseconds" : undef);
	$self->{policy}{$there} = defined $minimum
	  ? { home => 'c0', there => $there, account => $account, ttl => $ttl,
		minimum => amount($minimum), target => amount($target) }
	  : undef;
	return if defined $minimum;
	$self->{leases}->post('c0', $there, $_, 'recall')
	  foreach grep { $_->{there} eq $there && $_->{account} eq $account
		  && !defined $_->{out}{closed} } @{ $self->{leases}{lease} };
	return;
}

sub m
{
	my ($self, $cell) = @_;

	return $self->{leases}{cell}{$cell}{m};
}

sub tick
{
	my ($self, $by) = @_;

	$self->{now} += $by;
	foreach my $cell (@cells)
	{
		my $m = $self->m($cell);

		$self->{skew}{$cell} = between(most(0, $self->{skew}{$cell} - $by), 4_999_999)
		  if $by > 0 && chance(0.1);
		$m->{now} = $self->{now} + $self->{skew}{$cell};
		$self->{dbh}{$cell}->do("SET gpucredit.clock = '" . when_text($m->{now}) . "'");
	}
	return;
}

sub run
{
	my ($self, $steps) = @_;

	while ($self->{n}++ < $steps)
	{
		my $dice = rand();

		$self->tick($dice < 0.15 ? between(1, 20_000_000)
			: $dice < 0.21 ? between(1, 300) * 1_000_000
			: $dice < 0.213 ? between(1, 5 * 3600) * 1_000_000 : 0)
		  if $dice < 0.213;
		my $name = weighted();
		my $step = $self->can("do_$name") || \&do_call;

		push @{ $self->{last} }, when_text($self->{now}) . " $name";
		$self->{calls}{$name}++ if $step->($self, $name);
		shift @{ $self->{last} } while @{ $self->{last} } > 12;
	}
	$self->compare_with_model($_, 1) foreach @cells;
	return $self->{calls};
}

sub weighted
{
	my $sum = 0;

	$sum += $_ foreach values %weight;
	my $dice = rand($sum);

	foreach (sort keys %weight)
	{
		return $_ if ($dice -= $weight{$_}) < 0;
	}
	return 'send';
}

# Calls of the ledger

sub do_call
{
	my ($self, $name) = @_;
	my $cell = $name =~ /^(issue|set_budget)$/ || chance(0.25) ? 'c0'
	  : pick(qw(c1 c1 c2));
	my $m = $self->m($cell);
	my $known = $m->{bucket}{ +ORG } || {};
	my $a = $self->arguments($cell, $name) or return 0;

	$a->{org} = ORG;
	$a->{key} //= 'k' . ++$self->{keys};
	$self->{last}[-1] .= ' ' . $self->where($cell, call_text($self->{dbh}{$cell}, $name, $a));
	my ($rows, $state) = $self->ask($cell, $name, $a);
	my $seen = $self->read_state($cell);
	my $row  = $rows && $rows->[0];
	my $ids = new_buckets($seen, $known);
	my %moved = map { $_->{id} => $_->{moved} } values %$known;
	my $expected = eval { $calls{$name}[2]->($m, $a, { row => $row, buckets => [@$ids] }) };
	my $error = $@;

	$error = ref $error ? $error->{state} : $self->fail("no: $error")
	  unless $expected;
	my ($wanted, $found) = map { $_ ? join(', ', map { $_ // '-' } @$_) : $_ }
	  ($expected, $row);

	$self->fail($wanted // $error, $found // $state)
	  if ($wanted // $error) ne ($found // $state);
	Leases::follow_credit($m, $a, \%moved, $ids)
	  if $name eq 'transfer' && $row;
	$self->{leases}->report_refund($cell, $m->{hold}{ +ORG }{ $a->{hold} })
	  if $name eq 'refund_hold' && $row;
	$self->compare($cell, $seen);
	return 1;
}

# Numbers of buckets that the model lacks.
sub new_buckets
{
	my ($seen, $known) = @_;

	return [ sort { $a <=> $b } grep { !$known->{$_} }
		  map { /^(\d+) / } split(/\n/, $seen->{all_buckets}) ];
}

sub arguments
{
	my ($self, $cell, $name) = @_;
	my $m = $self->m($cell);
	my %behind = map { $_->{hold}{id} => 1 } grep { $_->{home} eq $cell }
	  @{ $self->{leases}{lease} };
	my @known = grep { $m->{account}{ +ORG }{$_} } @accounts;
	my @holds = sort { $a->{id} <=> $b->{id} } grep { !$behind{ $_->{id} } }
	  values %{ $m->{hold}{ +ORG } };
	my @open = grep { !defined $_->{closed_at} } @holds;

	if ($name eq 'issue')
	{
		return {
			account  => pick(@accounts),
			amount   => random_amount(900),
			kind     => pick(qw(paid paid promo grant)),
			priority => pick(100, 100, 50),
			policy   => pick('{}', '{}', '{"max_share":0.5}', '{"max_per_job":100}',
				'{"tiers":["x"]}'),
			valid_for => chance(0.5) ? undef
			: between(1, 40_000) * 1_000_000 . ' microseconds' };
	}
	return { account => pick(@accounts), period => pick(qw(none day)), hard => chance(0.5) ? 1 : 0,
		amount => chance(0.3) ? undef : random_amount(3000) }
	  if $name eq 'set_budget';
	return unless @known;
	return { account => pick(@known), amount => random_amount(60),
		ttl => between(1, chance(0.7) ? 6000 : 200_000) * 1_000_000 . ' microseconds' }
	  if $name eq 'hold';
	if ($name eq 'transfer')
	{
		my ($from, $to) = (pick(@known), pick(@known));

		return if $from eq $to || keys %{ $m->{bucket}{ +ORG } } > 400;
		return { from_account => $from, to_account => $to, amount => random_amount(20) };
	}
	if ($name eq 'revoke')
	{
		my @buckets = sort { $a->{id} <=> $b->{id} }
		  grep { !$_->{closed} } values %{ $m->{bucket}{ +ORG } };

		return @buckets ? { bucket => pick(@buckets)->{id}, reason => 'r' } : undef;
	}
	my $hold = pick($name eq 'refund_hold' ? @holds : @open) or return;
	my $held = Model::Ledger::sum($hold, $name eq 'refund_hold' ? 'spent' : 'held');
	my $part = chance(0.3) ? $held : between(0, $held);

	return { hold => $hold->{id}, amount => credits($part), final => chance(0.6) ? 1 : 0,
		reason => 'r' }
	  if $name eq 'capture' || $part > 0 || $name eq 'release';
	return;
}

sub ask
{
	my ($self, $cell, $name, $a) = @_;
	my $dbh  = $self->{dbh}{$cell};
	my $rows = eval {
		my $statement = $dbh->prepare_cached(call_sql($name));

		$statement->execute(call_values($name, $a));
		$statement->fetchall_arrayref;
	};

	return $rows ? ($rows, undef) : (undef, $dbh->state);
}

# Leases

sub do_lease
{
	my ($self) = @_;
	my %a = (org => ORG, home => 'c0', there => pick(qw(c1 c2)),
		account => pick(@accounts), ttl => between(30, 9000) * 1_000_000);
	my $amount = random_amount(chance(0.9) ? 300 : 3000);
	my $dbh = $self->{dbh}{c0};
	my $key = 'k' . ++$self->{keys};
	my ($id, $status, $reason) = $dbh->selectrow_array(
		'SELECT lease, status, reason FROM gpucredit_cells.lease(?, ?, ?, ?, ?, ?)',
		undef, @a{qw(org account there)}, $key, $amount, "$a{ttl} microseconds");
	my $seen = $self->read_state('c0');

	$self->granted(\%a, $id, $key, amount($amount), $status, $reason);
	$self->compare('c0', $seen);
	return 1;
}

# The model's answer to a lease is the server's.
sub granted
{
	my ($self, $a, $id, $key, $amount, $status, $reason) = @_;
	my $dbh = $self->{dbh}{c0};
	my $m   = $self->m('c0');
	my ($number) = $dbh->selectrow_array(
		'SELECT max(hold) FROM gpucredit.hold WHERE org = ? AND NOT hold = ANY (?)',
		undef, ORG, [ keys %{ $m->{hold}{ +ORG } } ]);
	my $said = Model::Credit::hold($m,
		{ org => ORG, account => $a->{account}, key => $key, amount => credits($amount),
			ttl => $a->{ttl} + 36500 * DAY . ' microseconds', leased => 1 },
		{ row => [$number] });
	my ($now, $why) = @$said[ 1, 2 ];

	if ($now eq 'granted'
		&& !$self->{leases}->lease($a, $id, $m->{hold}{ +ORG }{$number}))
	{
		($now, $why) = ('denied', 'expires_too_soon');
	}
	$self->fail("$now " . ($why // ''), "$status " . ($reason // ''))
	  if "$now " . ($why // '') ne "$status " . ($reason // '');
	return;
}

sub do_recall
{
	my ($self) = @_;
	my $lease = pick(grep { !defined $_->{out}{closed} } @{ $self->{leases}{lease} })
	  or return 0;

	$self->{dbh}{c0}->do('SELECT gpucredit_cells.recall(?, ?)', undef, ORG, $lease->{id});
	$self->{leases}->post('c0', $lease->{there}, $lease, 'recall');
	$self->compare_with_model('c0');
	return 1;
}

sub do_set_policy
{
	my ($self) = @_;
	my $there = pick(qw(c1 c2));
	my $minimum = between(1, 60);

	$self->set_policy($there, chance(0.3) ? (undef) x 3
		: ($minimum, $minimum + between(0, 200), between(30, 9000) * 1_000_000));
	$self->compare_with_model('c0');
	return 1;
}

# A server that started again may have been restored: both sides report all.
sub do_start_again
{
	my ($self) = @_;
	my ($cell, $peer) = @{ pick([qw(c0 c1)], [qw(c0 c2)], [qw(c1 c0)], [qw(c2 c0)]) };

	$self->{last}[-1] .= " $cell, which $peer hears of";
	$self->{dbh}{$cell}->do("UPDATE gpucredit_cells.peer SET server = 'before' WHERE cell = ?",
		undef, $peer);
	$self->{leases}{cell}{$cell}{again}{$peer} = 1;
	return $self->do_write_messages('', $cell, $peer);
}

# Messages

sub do_write_messages
{
	my ($self, undef, $cell, $peer) = @_;

	($cell, $peer) = @{ pick([qw(c0 c1)], [qw(c0 c2)], [qw(c1 c0)], [qw(c2 c0)]) }
	  unless defined $cell;
	my $dbh = $self->{dbh}{$cell};

	$self->{last}[-1] .= " $cell to $peer";
	$dbh->do('SELECT gpucredit.expire_credits()');
	$dbh->do('SELECT gpucredit_cells.write_messages(?)', undef, $peer);
	my $seen = $self->read_state($cell);

	$self->{leases}->write_messages($cell, $peer);
	if (my $policy = $self->{policy}{$peer})
	{
		my $m = $self->m('c0');
		my $spendable =
		  amount((split(/ /, Model::Figures::balance($m, ORG, $policy->{account})))[2], 1);
		my ($missing, $idle) = $self->{leases}->missing($policy);
		my $wanted = least($missing, $spendable);
		my ($id, $key, $status, $reason) = $dbh->selectrow_array(
			'SELECT lease, key, status, reason FROM gpucredit_cells.lease_out'
			  . q{ WHERE key LIKE 'lease/%' AND NOT key = ANY (?)},
			undef, [ keys %{ $self->{topped} } ]);

		$self->fail('a policy leases ' . credits($wanted), $id // 'none')
		  if ($wanted > 0) != defined $id;
		if (defined $id)
		{
			$self->{topped}{$key} = 1;
			$self->{calls}{ $idle ? 'topped up when idle' : 'topped up' }++;
			$self->granted({ org => ORG, %$policy },
				$id, $key, $wanted, $status, $reason);
		}
	}
	$self->compare($cell, $seen);
	return 1;
}

# Puts one or two copies of a waiting message under way.
sub do_send
{
	my ($self) = @_;
	my @waiting;

	foreach my $from (@cells)
	{
		my $outbox = $self->{leases}{cell}{$from}{outbox};

		foreach my $to (sort keys %$outbox)
		{
			foreach my $lease (@{ $self->{leases}{lease} }, NO_LEASE)
			{
				push @waiting, map { [ $from, $to, $lease, $_ ] }
				  grep { $outbox->{$to}{"$lease->{id} $_"} } qw(grant recall report resend);
			}
		}
	}
	my ($from, $to, $lease, $kind) = @{ pick(@waiting) || return 0 };
	my ($body) = $self->{dbh}{$from}->selectrow_array(
		'SELECT body FROM gpucredit_cells.outbox WHERE cell = ? AND lease = ? AND kind = ?',
		undef, $to, $lease->{id}, $kind);
	my %copy = (from => $from, to => $to, lease => $lease, kind => $kind, text => $body,
		body => { %{ $self->{leases}{cell}{$from}{outbox}{$to}{"$lease->{id} $kind"} } });

	push @{ $self->{air} }, map { {%copy} } 1 .. (chance(0.2) ? 2 : 1);
	return 1;
}

sub do_deliver
{
	my ($self) = @_;
	my @there = grep { !$_->{answer} } @{ $self->{air} };
	my $copy = pick(@there) or return 0;

	$self->{last}[-1] .= " $copy->{kind} of $copy->{lease}{id} to $copy->{to}";
	if (chance(0.2))			# lost
	{
		$self->{air} = [ grep { $_ != $copy } @{ $self->{air} } ];
		return 1;
	}
	my $lease = $copy->{lease};
	my $cell  = $copy->{to};
	my $known = $self->m($cell)->{bucket}{ +ORG } || {};
	my ($text) = $self->{dbh}{$cell}
	  ->selectrow_array('SELECT gpucredit_cells.receive(?)', undef, $copy->{text});
	my $seen = $self->read_state($cell);
	my $said = $self->{leases}->receive($lease, $copy,
		{   key     => 'k' . ++$self->{keys},
			buckets => new_buckets($seen, $known) });
	my $answer = $json->decode($text);

	foreach my $name (sort keys %$said)
	{
		my $value = $name =~ /^(n|report)$/ ? $answer->{$name}
		  : amount(sprintf('%.6f', $answer->{$name}), 1);

		$self->fail("$name $said->{$name} in an answer", $value)
		  if $said->{$name} != $value;
	}
	$copy->{answer} = { text => $text, said => $said };
	$self->compare($cell, $seen);
	return 1;
}

sub do_answer
{
	my ($self) = @_;
	my $copy = pick(grep { $_->{answer} } @{ $self->{air} }) or return 0;
	my $cell = $copy->{from};

	$self->{last}[-1] .= " of $copy->{kind} of $copy->{lease}{id} to $cell";
	$self->{air} = [ grep { $_ != $copy } @{ $self->{air} } ];
	return 1 if chance(0.2);	# lost
	$self->{dbh}{$cell}->do(
		'SELECT gpucredit_cells.sent(ROW(?, ?, ?, ?, ?, ?, now(), 0, NULL)::gpucredit_cells.outbox, ?)',
		undef, $copy->{to}, $copy->{lease}{org}, $copy->{lease}{id}, $copy->{kind}, $copy->{body}{n},
		$copy->{text}, $copy->{answer}{text});
	my $seen = $self->read_state($cell);

	$self->{leases}->sent($cell, $copy->{to}, $copy->{lease}, $copy->{kind},
		$copy->{body}, $copy->{answer}{said});
	$self->compare($cell, $seen);
	return 1;
}

# Comparing

sub read_state
{
	my ($self, $cell, $all) = @_;
	my $m = $self->m($cell);
	my @known = grep { $m->{account}{ +ORG }{$_} } @accounts;
	my $seen = Compare::read_state($self->{dbh}{$cell}, ORG,
		$all ? \@known : [ @known ? pick(@known) : () ], $all);
	my %open = map { /^(\d+) / ? ($1 => 1) : () } split(/\n/, $seen->{holds});

	foreach my $hold ($all ? () : $m->dead_holds(ORG))
	{
		$m->reap($hold) unless $open{ $hold->{id} };
	}
	$seen->{ends} = join("\n", sort map { @$_ } @{ $self->{dbh}{$cell}->selectcol_arrayref(
		q{SELECT coalesce(array_agg(x), '{}') FROM (
			SELECT concat_ws(' ', 'out', lease, report, spent, returned, captured,
				given_back, available, held, (closed_at IS NOT NULL)::int)
			FROM gpucredit_cells.lease_out WHERE status = 'granted'
			UNION ALL SELECT concat_ws(' ', 'in', lease, report, acked, spent,
				returned, available, held, report_due::int, (closed_at IS NOT NULL)::int)
			FROM gpucredit_cells.lease_in
			UNION ALL SELECT concat_ws(' ', 'outbox', cell, lease, kind, n)
			FROM gpucredit_cells.outbox) AS s (x)}) });
	return $seen;
}

sub ends
{
	my ($self, $cell) = @_;
	my @lines;

	foreach my $lease (@{ $self->{leases}{lease} })
	{
		my ($out, $in) = @$lease{qw(out in)};

		push @lines, join(' ', 'out', $lease->{id}, $out->{report},
			(map { credits($out->{$_}) } qw(spent returned captured given available held)),
			defined $out->{closed} ? 1 : 0)
		  if $lease->{home} eq $cell;
		push @lines, join(' ', 'in', $lease->{id}, @$in{qw(report acked)},
			(map { credits($in->{$_}) } qw(spent returned available held)),
			$in->{report_due}, $in->{closed} ? 1 : 0)
		  if $lease->{there} eq $cell && $in;
	}
	my $outbox = $self->{leases}{cell}{$cell}{outbox};

	foreach my $to (keys %$outbox)
	{
		push @lines, map { "outbox $to $_ $outbox->{$to}{$_}{n}" } keys %{ $outbox->{$to} };
	}
	return join("\n", sort @lines);
}

sub compare
{
	my ($self, $cell, $seen) = @_;
	my @differences = eval { Compare::compare($self->m($cell), $seen) };

	push @differences, "the model is broken: $@" if $@;
	my $ends = $self->ends($cell);

	if ($ends ne $seen->{ends})
	{
		my %found  = map { $_ => 1 } split(/\n/, $seen->{ends});
		my %wanted = map { $_ => 1 } split(/\n/, $ends);

		push @differences, (map { "expected: $_" } grep { !$found{$_} } sort keys %wanted),
		  (map { "found:    $_" } grep { !$wanted{$_} } sort keys %found);
	}
	$self->fail("the same in $cell", @differences) if @differences;
	return;
}

sub compare_with_model
{
	my ($self, $cell, $all) = @_;

	return $self->compare($cell, $self->read_state($cell, $all));
}

sub where
{
	my ($self, $cell, $text) = @_;

	return "in $cell: $text";
}

sub fail
{
	my ($self, $expected, @found) = @_;

	die "seed $self->{seed}, step $self->{n}\n  expected: $expected\n"
	  . join('', map { "  found: $_\n" } @found)
	  . join('', map { "    $_\n" } @{ $self->{last} })
	  . "  replay: GC_SEED=$self->{seed} GC_OPS=$self->{n} prove cells/test/070_model.pl\n";
}

1;
