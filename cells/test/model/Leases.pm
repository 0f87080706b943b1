# Leases.pm: a model of leases, beside the model of the ledger
#
# A cell is a model of a ledger with a clock of its own, an outbox, and its
# ends of leases.  Numbers that only the server can know come in from there.
# Nothing here was ever restored or written off.
package Leases;

use strict;
use warnings;

use Model::Credit;
use Model::Ledger;
use Model::Value;

use constant SKEW => 5_000_000;

sub new
{
	my ($class, @cells) = @_;

	return bless(
		{   lease  => [],
			policy => [],
			cell   => {
				map { $_ => { m => Model::Ledger->new, outbox => {} } } @cells } },
		$class);
}

# The home's end

# A hold that was granted is a lease, unless it ends too soon.
sub lease
{
	my ($self, $asked, $id, $hold) = @_;
	my $m    = $self->{cell}{ $asked->{home} }{m};
	my $ends = $m->{now} + $asked->{ttl};

	forget_soft($m, $hold);

	foreach my $part (@{ $hold->{parts} })
	{
		$ends = least($ends, ($part->{bucket}{expires_at} // 9e18) - SKEW);
	}
	if ($ends <= $m->{now} + 2 * SKEW)
	{
		$m->close_hold($hold);
		return undef;
	}
	my $lease = {
		id => $id, %$asked, expires => $ends, hold => $hold,
		amount => Model::Ledger::sum($hold, 'drawn'),
		parts  => [ map { { amount => $_->{drawn}, bucket => $_->{bucket} } }
			  @{ $hold->{parts} } ] };
	my ($last) = sort { $b <=> $a } map { $_->{out}{used} }
	  grep { $_->{there} eq $asked->{there} && $_->{account} eq $asked->{account}
		  && !defined $_->{out}{closed} } @{ $self->{lease} };

	$lease->{out} = {
		(map { $_ => 0 } qw(report spent returned captured given held)),
		available => $lease->{amount},
		made      => $m->{now},
		used      => $last // $m->{now} };
	push @{ $self->{lease} }, $lease;
	$self->post_grant($lease);
	return $lease;
}

# Soft budgets do not count what is leased,
sub forget_soft
{
	my ($m, $hold) = @_;
	my %soft = map { $_->{counter}{name} => 1 }
	  grep { !$_->{hard} } $m->{budget}
	  ->on_path($hold->{org}, $m->{now}, path($hold->{account}));

	foreach my $part (@{ $hold->{parts} })
	{
		my @counters = @{ $part->{counters} };

		Model::Budget::move([ grep { $soft{ $_->{name} } } @counters ],
			-$part->{held}, 0);
		$part->{counters} = [ grep { !$soft{ $_->{name} } } @counters ];
	}
	return;
}

# but what is spent of it, as does any budget that did not count it as held.
sub count_spent
{
	my ($m, $lease, $amount) = @_;
	my $hold = $lease->{hold};
	my $live = $m->{budget}{counters}{ $hold->{org} };
	my %held = map { budget_of($_) => 1 }
	  grep { ($live->{ $_->{name} } // '') eq $_ }
	  map { @{ $_->{counters} } } grep { $_->{held} > 0 } @{ $hold->{parts} };

	foreach my $counter (grep { !$held{ budget_of($_) } }
		map { $_->{counter} } $m->{budget}
		->on_path($hold->{org}, $m->{now}, path($hold->{account})))
	{
		Model::Budget::move([$counter], 0, $amount);
		unshift @{ $lease->{counted} }, { counter => $counter, spent => $amount };
	}
	return;
}

# The latest spend is refunded first.
sub refund_spent
{
	my ($m, $lease, $amount) = @_;
	my $live = $m->{budget}{counters}{ $lease->{hold}{org} };
	my %left;

	foreach my $spend (grep { ($live->{ $_->{counter}{name} } // '') eq $_->{counter} }
		@{ $lease->{counted} || [] })
	{
		my $left = \($left{ budget_of($spend->{counter}) } //= $amount);
		my $part = least($$left, $spend->{spent});

		Model::Budget::move([ $spend->{counter} ], 0, -$part);
		$spend->{spent} -= $part;
		$$left -= $part;
	}
	return;
}

sub budget_of
{
	return $_[0]{name} =~ s/\|[^|]*$//r;
}

sub post
{
	my ($self, $from, $to, $lease, $kind, %body) = @_;
	my $n = $body{n} //= 0;
	my $known = $self->{cell}{$from}{outbox}{$to}{"$lease->{id} $kind"};

	return if $known && $kind eq 'report' && $known->{n} >= $n;
	$self->{cell}{$from}{outbox}{$to}{"$lease->{id} $kind"} = \%body;
	return;
}

sub post_grant
{
	my ($self, $lease) = @_;

	return $self->post($lease->{home}, $lease->{there}, $lease, 'grant');
}

sub accept_report
{
	my ($self, $lease, $report) = @_;
	my $out = $lease->{out};
	my $m   = $self->{cell}{ $lease->{home} }{m};

	if ($report->{n} > $out->{report})
	{
		$out->{used} = $m->{now}
		  if $report->{spent} + $report->{held} != $out->{spent} + $out->{held};
		@$out{qw(report spent returned available held heard)} =
		  (@$report{qw(n spent returned available held)}, $m->{now});
		$self->apply_report($lease);
	}
	elsif ($report->{n} == $out->{report})
	{
		$out->{heard} = $m->{now};
	}
	return { report => $out->{report}, map { $_ => $out->{$_} } qw(spent returned) };
}

sub apply_report
{
	my ($self, $lease) = @_;
	my $out  = $lease->{out};
	my $hold = $lease->{hold};
	my $m    = $self->{cell}{ $lease->{home} }{m};
	my $more = $out->{spent} - $out->{captured};

	if ($more > 0)
	{
		count_spent($m, $lease, $more);
		Model::Ledger::capture($hold, $more);
		$out->{captured} += $more;
	}
	my $back = least($out->{returned} - $out->{given},
		$out->{captured} - $out->{spent});

	if ($back > 0)
	{
		$m->refund($back, $hold);
		refund_spent($m, $lease, $back);
		$out->{captured} -= $back;
		$out->{given} += $back;
	}
	$back = least($out->{returned} - $out->{given},
		Model::Ledger::sum($hold, 'held'));
	if ($back > 0)
	{
		$m->return_credit($hold, $back);
		$out->{given} += $back;
	}
	if ($out->{spent} + $out->{returned} < $lease->{amount})
	{
		$out->{closed} = undef;
		return;
	}
	$m->close_hold($hold) unless defined $hold->{closed_at};
	$out->{closed} //= $m->{now};
	return;
}

# The other end

# Its buckets, and those that a transfer made of their credit.
sub buckets
{
	my ($self, $lease) = @_;

	return sort { $a->{id} <=> $b->{id} } grep { ($_->{lease} // '') eq $lease->{id} }
	  values %{ $self->{cell}{ $lease->{there} }{m}{bucket}{ $lease->{org} } };
}

# A transfer made these buckets of others, in burn order.
sub follow_credit
{
	my ($m, $in, $moved, $ids) = @_;
	my @from = grep { $_->{moved} != ($moved->{ $_->{id} } // 0) }
	  $m->burning($in->{org}, $in->{from_account});

	foreach my $id (@$ids)
	{
		my $from = shift @from;

		$m->{bucket}{ $in->{org} }{$id}{lease} = $from->{lease};
	}
	return;
}

sub speak
{
	my ($self, $lease) = @_;
	my $in = $lease->{in};

	if ($in->{report} == $in->{acked})
	{
		my %f = map { $_ => 0 } qw(available held spent expired revoked);

		foreach my $bucket ($self->buckets($lease))
		{
			$f{$_} += $bucket->{$_} foreach keys %f;
		}
		my $ended = @{ $in->{buckets} } ? $f{expired} + $f{revoked} : $lease->{amount};
		my @now = ($f{spent}, most($ended, $in->{returned}),
			$f{available}, $f{held});
		my @was = @$in{qw(spent returned available held)};

		if ($in->{report_due} || "@now" ne "@was")
		{
			@$in{qw(spent returned available held report_due)} = (@now, 0);
			$in->{report}++;
		}
	}
	my %body = (n => $in->{report},
		map { $_ => $in->{$_} } qw(spent returned available held));

	$self->post($lease->{there}, $lease->{home}, $lease, 'report', %body)
	  if $in->{report} > $in->{acked};
	return \%body;
}

# ids: of the buckets that the server made of it, if it came in time.
sub accept_lease
{
	my ($self, $lease, $ids) = @_;
	my $m = $self->{cell}{ $lease->{there} }{m};

	if (!$lease->{in})
	{
		$lease->{in} = {
			buckets => [], report_due => 1,
			map { $_ => 0 } qw(report acked spent returned available held) };
		if ($lease->{expires} > $m->{now})
		{
			foreach my $part (@{ $lease->{parts} })
			{
				my $id = shift @$ids // die "the server made too few buckets\n";

				push @{ $lease->{in}{buckets} }, $id;
				$m->add_bucket(
					(map { $_ => $part->{bucket}{$_} } qw(org kind priority policy)),
					id           => $id,
					account      => $lease->{account},
					issued       => $part->{amount},
					effective_at => $m->{now},
					expires_at   => $lease->{expires},
					lease        => $lease->{id});
			}
			foreach my $account (path($lease->{account}))
			{
				$m->{account}{ $lease->{org} }{$account} ||= { suspended => 0 };
			}
		}
	}
	return $self->speak($lease);
}

sub accept_recall
{
	my ($self, $lease, $key) = @_;

	return {} unless $lease->{in};
	foreach my $bucket ($self->buckets($lease))
	{
		next if $bucket->{closed};
		Model::Credit::revoke($self->{cell}{ $lease->{there} }{m},
			{ org => $lease->{org}, bucket => $bucket->{id}, reason => '',
				key => "$key/$bucket->{id}" });
	}
	$lease->{in}{report_due} = 1;
	return {};
}

sub accept_answer
{
	my ($self, $lease, $answer) = @_;
	my $in = $lease->{in};

	return if $answer->{report} < $in->{report};
	die "home knows of more than was said\n"
	  if join(' ', @$answer{qw(report spent returned)}) ne
	  join(' ', @$in{qw(report spent returned)});
	$in->{acked} = $in->{report};
	$in->{closed} = !$in->{report_due}
	  && $in->{spent} + $in->{returned} >= $lease->{amount};
	return;
}

# A refund in a cell: the leases of its credit have a report due.
sub report_refund
{
	my ($self, $cell, $hold) = @_;
	my %of = map { ($_->{bucket}{lease} // '') => 1 } @{ $hold->{parts} };

	foreach my $lease (grep { $_->{there} eq $cell && $_->{in} } @{ $self->{lease} })
	{
		next unless $of{ $lease->{id} };
		@{ $lease->{in} }{qw(report_due closed)} = (1, 0);
	}
	return;
}

# Both ends

sub receive
{
	my ($self, $lease, $copy, $new) = @_;
	my ($kind, $body) = @$copy{qw(kind body)};

	if ($kind eq 'resend')
	{
		$self->resend_all($copy->{to}, $copy->{from});
		return {};
	}
	return $kind eq 'grant' ? $self->accept_lease($lease, $new->{buckets})
	  : $kind eq 'report' ? $self->accept_report($lease, $body)
	  : $self->accept_recall($lease, $new->{key});
}

sub sent
{
	my ($self, $from, $to, $lease, $kind, $body, $answer) = @_;
	my $outbox = $self->{cell}{$from}{outbox}{$to};
	my $waits  = $outbox->{"$lease->{id} $kind"};

	delete $outbox->{"$lease->{id} $kind"}
	  if $waits && $waits->{n} == $body->{n};
	$self->accept_answer($lease, $answer) if $kind eq 'report';
	$self->accept_report($lease, $answer) if $kind eq 'grant' && $answer->{n};
	return;
}

# Sends again all that two cells have with each other.
sub resend_all
{
	my ($self, $cell, $peer) = @_;

	foreach my $lease (@{ $self->{lease} })
	{
		$self->post_grant($lease)
		  if $lease->{home} eq $cell && $lease->{there} eq $peer
		  && !defined $lease->{out}{closed};
		$lease->{in}{report_due} = 1
		  if $lease->{there} eq $cell && $lease->{home} eq $peer
		  && $lease->{in} && !$lease->{in}{closed};
	}
	return;
}

# Makes a cell's messages to another one.  Arguments: what is spendable at
# home, and which leases the server made for policies.
sub write_messages
{
	my ($self, $cell, $peer) = @_;
	my $m = $self->{cell}{$cell}{m};

	Model::Credit::expire_credits($m);
	if (delete $self->{cell}{$cell}{again}{$peer})
	{
		$self->resend_all($cell, $peer);
		$self->{cell}{$cell}{outbox}{$peer}{'00000000-0000-0000-0000-000000000000 resend'} =
		  { n => 0 };
	}
	foreach my $lease (grep { $_->{there} eq $cell && $_->{home} eq $peer && $_->{in} }
		@{ $self->{lease} })
	{
		$self->speak($lease)
		  if !$lease->{in}{closed} && $lease->{in}{report} == $lease->{in}{acked};
	}
	foreach my $lease (grep { $_->{home} eq $cell && $_->{there} eq $peer }
		@{ $self->{lease} })
	{
		$self->post_grant($lease)
		  if !defined $lease->{out}{closed}
		  && $lease->{expires} + SKEW < $m->{now}
		  && defined $lease->{out}{heard}
		  && $lease->{out}{heard} < $m->{now} - 60_000_000;
	}
	return;
}

# What a policy wants more of: credits, or 0; and whether the account is idle.
sub missing
{
	my ($self, $policy) = @_;
	my $m = $self->{cell}{ $policy->{home} }{m};
	my ($there, $used) = (0, undef);

	foreach my $lease (grep { $_->{there} eq $policy->{there}
			&& $_->{account} eq $policy->{account} } @{ $self->{lease} })
	{
		my $out  = $lease->{out};
		my $open = !defined $out->{closed};

		next unless $open || $out->{used} > $m->{now} - $policy->{ttl};
		$used = $out->{used} if !defined $used || $out->{used} > $used;
		$there += $out->{available}
		  if $open && 4 * ($lease->{expires} - $m->{now}) >
		  least($policy->{ttl}, $lease->{expires} - $out->{made});
	}
	my $idle = defined $used && $used <= $m->{now} - $policy->{ttl};

	return 0 if $there >= $policy->{minimum};
	return (($idle ? $policy->{minimum} : $policy->{target}) - $there, $idle);
}

1;
