# Figures.pm: what the model says everything comes to, as text
#
# Each function returns lines as Compare's query does, so that a difference
# is seen by comparing strings.
package Model::Figures;

use strict;
use warnings;

use Model::Attempt;
use Model::Value;

sub line
{
	return join(' ', map { $_ // '-' } @_);
}

# Every bucket of an organisation with its compartments, as booked.
sub all_buckets
{
	my ($m, $org) = @_;

	return map {
		my $bucket = $_;
		my $sum    = 0;

		$sum += $bucket->{$_}
		  foreach qw(available held spent expired revoked moved);
		die "bucket $bucket->{id} is out of balance\n"
		  if $sum != $bucket->{issued};
		line($bucket->{id}, "'$bucket->{account}'",
			map { credits($bucket->{$_}) }
			  qw(issued available held spent expired revoked moved))
	} sort { $a->{id} <=> $b->{id} } values %{ $m->{bucket}{$org} };
}

# Open holds (or all) with their parts in order.
sub holds
{
	my ($m, $org, $all) = @_;
	my @holds = $all ? values %{ $m->{hold}{$org} } : $m->open_holds($org);

	return map {
		my $hold = $_;
		my $held = Model::Ledger::sum($hold, 'held');

		line($hold->{id}, $hold->{job}, credits($held),
			map {
				my $part = $_;

				join(':', $part->{bucket}{id},
					map { credits($part->{$_}) }
					  qw(drawn held spent refunded returned lapsed))
			} @{ $hold->{parts} })
	} sort { $a->{id} <=> $b->{id} } @holds;
}

# What accounts owe, and what was written off.
sub owed
{
	my ($m, $org) = @_;
	my $owed = $m->{owed}{$org};

	return map { line("'$_'", map { credits($_) } @{ $owed->{$_} }{qw(owed written_off)}) }
	  sort keys %$owed;
}

# Jobs that are not over.
sub jobs
{
	my ($m, $org) = @_;

	return map {
		line(@$_{qw(id state attempt failures)}, $_->{hold}{id})
	} sort { $a->{id} <=> $b->{id} }
	  grep { $_->{state} =~ /^(queued|unfunded|active)$/ }
	  values %{ $m->{job}{$org} };
}

# Budget counters that count something.
sub counters
{
	my ($m, $org) = @_;

	return sort map { line($_->{name}, map { credits($_) }
				@$_{qw(reserved spent)}) }
	  grep { $_->{reserved} || $_->{spent} }
	  values %{ $m->{budget}{counters}{$org} };
}

# Of each bucket, what dead holds hold that nobody has released.
sub dead_held
{
	my ($m, $org) = @_;
	my %dead;

	$dead{ $_->{bucket}{id} } += $_->{held}
	  foreach map { @{ $_->{parts} } } $m->dead_holds($org);
	return \%dead;
}

# balance(): what time alone did counts.
sub balance
{
	my ($m, $org, $account) = @_;
	my $dead = dead_held($m, $org);
	my %sum  = map { $_ => 0 } qw(all promo grant paid held used spent);
	my ($next, $then);

	foreach my $bucket (grep { $m->active($_) }
		$m->burning($org, path($account)))
	{
		my $free = $bucket->{available} + ($dead->{ $bucket->{id} } // 0);

		$sum{all} += $free;
		$sum{ $bucket->{kind} } += $free;
		next unless $free && defined $bucket->{expires_at};
		if (!defined $next || $bucket->{expires_at} < $next)
		{
			($next, $then) = ($bucket->{expires_at}, 0);
		}
		$then += $free if $bucket->{expires_at} == $next;
	}
	foreach my $hold (grep { Model::Ledger::is_below($_->{account}, $account) }
		values %{ $m->{hold}{$org} })
	{
		$sum{spent} += Model::Ledger::sum($hold, 'spent');
		$sum{held} += Model::Ledger::sum($hold, 'held')
		  unless defined $hold->{closed_at} || $m->is_dead($hold);
	}
	foreach my $job (grep { $_->{state} eq 'active' }
		values %{ $m->{job}{$org} })
	{
		$sum{used} += Model::Attempt::bill(
			$m->{attempt}{$org}{ $job->{id} }{ $job->{attempt} })
		  if Model::Ledger::is_below($job->{account}, $account);
	}
	my $room = $sum{all};

	$room = least($room, $_->{remaining})
	  foreach grep { $_->{hard} } $m->{budget}
	  ->rows($org, $m->{now}, [ $m->dead_holds($org) ], path($account));
	return line("'$account'", (map { credits($_) } $sum{all}, most($room, 0),
			@sum{qw(held used spent promo grant paid)}),
		$next, defined $then ? credits($then) : undef);
}

# buckets(): in burn order.
sub buckets
{
	my ($m, $org, $account) = @_;
	my $dead = dead_held($m, $org);

	return map {
		my $bucket = $_;
		my $moot   = $dead->{ $bucket->{id} } // 0;
		my $free   = $bucket->{available} + $moot;
		my %is     = %$bucket;

		$is{available} = 0;
		$is{held} -= $moot;
		$is{ $m->home($bucket) } += $free;
		line($bucket->{id},
			(map { credits($is{$_}) }
				qw(issued available held spent expired revoked moved)),
			$m->active($bucket) && $free > 0 ? 1 : 0)
	} $m->burning($org, path($account));
}

# budgets(), in some order.
sub budgets
{
	my ($m, $org, $account) = @_;

	return sort map {
		line("'$_->{account}'", $_->{period}, $_->{start},
			(map { credits($_) } @$_{qw(amount reserved spent remaining)}),
			$_->{hard} ? 1 : 0)
	} $m->{budget}
	  ->rows($org, $m->{now}, [ $m->dead_holds($org) ], path($account));
}

1;
