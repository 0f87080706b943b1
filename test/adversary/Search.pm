# Search.pm: looks for strategies that pay, and keeps what it learns
#
#   my $search = Search->new(connect => sub { my ($db) = @_; ... }, seed => 1);
#   $search->run(2000);
#   print $search->report;		# each attack found, with SQL that replays it
#
# A third of the strategies are drawn anew, the others change or combine the
# best so far.  A strategy that breaks a bound is an attack: it is shrunk to the
# shortest one that breaks the same bound.  What has the marks of a known attack
# is counted and earns nothing, so that the search goes on to others.
package Search;

use strict;
use warnings;

use Catalogue;
use Random;
use Strategy;
use World;

use constant {
	ELITE      => 40,
	RATIO      => 0.98,
	WAIT       => 20 * 60,		# seconds: min_run, grace and two cycles
	SHRINKS    => 300,			# plays to shrink one attack
};

sub new
{
	my ($class, %self) = @_;
	my $self  = bless { attacks => [], elite => [], played => 0, %self }, $class;
	my $dbh   = $self->{connect}->('adversary');
	my $other = $self->{connect}->('adversary_committed');
	my %functions = (
		tenant => Catalogue::functions($dbh, 'gpucredit_tenant'),
		app    => Catalogue::functions($dbh, 'gpucredit_app'));
	my %by_name;

	foreach my $profile (keys %functions)
	{
		$by_name{$profile} = { map { $_->{name} => $_ } @{ $functions{$profile} } };
	}
	$self->{world} = World->new(dbh => $dbh, functions => \%by_name);
	$self->{committed} = World->new(
		dbh       => $other,
		second    => $self->{connect}->('adversary_committed'),
		functions => \%by_name);
	$self->{dice} = Random->new($self->{seed} // 1);
	$self->{strategies} = Strategy->new(
		dice      => $self->{dice},
		functions => \%functions,
		tiers     => $dbh->selectcol_arrayref('SELECT tier FROM gpucredit.tier ORDER BY rank, tier'));
	return $self;
}

# Plays so many strategies, or for so many seconds.
sub run
{
	my ($self, $plays, $seconds) = @_;
	my $until = $seconds ? time + $seconds : undef;

	while ($until ? time < $until : $self->{played} < $plays)
	{
		last if defined $self->{until} && grep { $_->{bound} eq $self->{until} } @{ $self->{attacks} };
		$self->{played}++;
		$self->_one($self->_next);
	}
	return;
}

sub play
{
	my ($self, $strategy, $trace) = @_;
	my $world = (grep { $_->{op} eq 'begin' } @{ $strategy->{genes} }) ? 'committed' : 'world';

	return $self->{$world}->play($strategy, $trace);
}

sub _next
{
	my ($self) = @_;
	my ($dice, $elite) = @$self{qw(dice elite)};
	my $what = $dice->below(100);

	return $self->{strategies}->draw if $what < 45 || @$elite < 4;
	my $one = $dice->pick(@$elite)->{strategy};

	return $self->{strategies}->mutate($one) if $what < 80;
	return $self->{strategies}->combine($one, $dice->pick(@$elite)->{strategy});
}

sub _one
{
	my ($self, $strategy) = @_;
	my $result = $self->play($strategy);
	my @broken = broken($result);
	my $fitness = fitness($result);

	$self->{hours} += $result->{hours};
	$self->{count}{'used GPUs'}++ if $result->{used} > World::LEAST_COST;
	$self->{count}{'made honest jobs wait'}++ if $result->{wait} > 60;
	$self->{count}{'had a second session'}++ if grep { $_->{op} eq 'begin' } @{ $strategy->{genes} };
	if (@broken)
	{
		my ($new) = grep { !$self->_known($strategy, $_) } @broken;

		if (!$new)
		{
			$self->{strategies}->learn($strategy, -0.2);
			return;
		}
		$self->_found($strategy, $result, $new);
		return;
	}
	$self->{strategies}->learn($strategy, $fitness);
	my $elite = $self->{elite};

	push @$elite, { strategy => $strategy, fitness => $fitness };
	@$elite = sort { $b->{fitness} <=> $a->{fitness} } @$elite;
	splice(@$elite, ELITE) if @$elite > ELITE;
	return;
}

# The bounds that a play broke.
sub broken
{
	my ($result) = @_;
	my @all;

	push @all, 'paid too little'
	  if $result->{cost} > World::LEAST_COST && $result->{paid} < RATIO * $result->{cost};
	push @all, 'honest jobs wait' if $result->{wait} > WAIT + $result->{spared};
	push @all, 'honest jobs evicted' if @{ $result->{evicted} };
	push @all, map { 'call failed: ' . join(' ', (split ' ')[ 0, 1 ]) } @{ $result->{errors} };
	push @all, map { "stopped: $_" } @{ $result->{stopped} };
	return @all;
}

# How near a play came to a bound.
sub fitness
{
	my ($result) = @_;
	my $sum = $result->{wait} / (WAIT + $result->{spared});

	$sum += 1 - $result->{paid} / $result->{cost} if $result->{cost} > 0 && $result->{paid} < $result->{cost};
	$sum += 0.2 if $result->{cost} > 0;
	return $sum;
}

# Whether a strategy has the marks of an attack that broke the same bound.
sub _known
{
	my ($self, $strategy, $bound) = @_;
	my $marks = marks($strategy, $bound);

	foreach my $attack (grep { $_->{bound} eq $bound } @{ $self->{attacks} })
	{
		next if grep { !$marks->{$_} } keys %{ $attack->{marks} };
		$attack->{again}++;
		return 1;
	}
	return 0;
}

# What is out of the ordinary in a strategy.
sub marks
{
	my ($strategy, $bound) = @_;
	my %marks;
	my $by_key = $bound =~ /^(?:call|stop)/;

	$marks{limited} = 1 if $strategy->{world}{limited};
	foreach my $gene (@{ $strategy->{genes} })
	{
		$marks{'session 2'} = 1 if $gene->{op} eq 'begin';
		next unless $gene->{op} eq 'call';
		$marks{"fn $gene->{fn}"} = 1 unless $by_key;
		$marks{'share and floor'} = 1 if ($gene->{args}{request} // '') =~ /^0\..*\@/;
		$marks{"tier $gene->{args}{tier}"} = 1
		  if defined $gene->{args}{tier} && $gene->{args}{tier} ne 'standard_training';
		$marks{"key $gene->{args}{key}"} = 1
		  if $by_key && grep { $_ eq ($gene->{args}{key} // '') } @Strategy::HONEST_KEYS;
		my $program = $gene->{program} or next;

		$marks{traps} = 1 if $program->{trap};
		$marks{pulls} = 1 if $program->{pull};
		$marks{fails} = 1 if $program->{exit};
	}
	return \%marks;
}

sub _found
{
	my ($self, $strategy, $first, $bound) = @_;
	my $at = $self->{played};
	my ($short, $result) = $self->_shrink($strategy, $first, $bound);
	my @trace;

	$self->play($short, \@trace);
	push @{ $self->{attacks} }, {
		bound    => $bound,
		at       => $at,
		strategy => $short,
		marks    => marks($short, $bound),
		result   => $result,
		again    => 0,
		sql      => \@trace };
	$self->{strategies}->learn($short, -1);
	$self->{on_found}->($self->{attacks}[-1]) if $self->{on_found};
	return;
}

# The simplest strategy found that breaks the bound, too, and what came of it.
sub _shrink
{
	my ($self, $strategy, $result, $bound) = @_;
	my $left   = SHRINKS;

  again:
	foreach my $new (Strategy::simpler($strategy))
	{
		last if $left-- <= 0;
		my $try = $self->play($new);

		next unless grep { $_ eq $bound } broken($try);
		($strategy, $result) = ($new, $try);
		goto again;
	}
	return ($strategy, $result);
}

# What the plays were like, in lines.
sub account
{
	my ($self) = @_;
	my $count = $self->{count};

	return map { "$count->{$_} strategies $_" } sort keys %$count;
}

# Functions of which no call succeeded.
sub never_reached
{
	my ($self) = @_;
	my @never;

	foreach my $profile (sort keys %{ $self->{strategies}{functions} })
	{
		push @never, map { "$profile $_->{name}" }
		  grep { !$self->{world}{worked}{"$profile $_->{name}"} && !$self->{committed}{worked}{"$profile $_->{name}"} }
		  @{ $self->{strategies}{functions}{$profile} };
	}
	return @never;
}

# An attack in words.
sub text
{
	my ($attack, $with_sql) = @_;
	my $result = $attack->{result};
	my @lines = (
		"$attack->{bound}, found by strategy $attack->{at}, as $attack->{strategy}{profile}"
		  . ', again in ' . $attack->{again},
		sprintf('  an attempt should cost %.6f, paid %.6f; honest jobs waited %.0f s; evicted: %s; failed: %s; stopped: %s',
			@$result{qw(cost paid wait)},
			map { join('; ', @{ $result->{$_} }) || 'none' } qw(evicted errors stopped)),
		'  world: ' . join(', ', map { "$_ $attack->{strategy}{world}{$_}" } sort keys %{ $attack->{strategy}{world} }));

	foreach my $gene (@{ $attack->{strategy}{genes} })
	{
		push @lines, '  ' . gene_text($gene);
	}
	push @lines, '  replay:', map { "    $_;" } @{ $attack->{sql} } if $with_sql;
	return join("\n", @lines) . "\n";
}

sub gene_text
{
	my ($gene) = @_;

	return "wait $gene->{us} us" if $gene->{op} eq 'wait';
	return "session 2: $gene->{op}" if $gene->{op} ne 'call';
	my $text = "$gene->{by}: $gene->{fn}("
	  . join(', ', map { "$_ => " . Strategy::shown($gene->{args}{$_}) } sort keys %{ $gene->{args} }) . ')';

	$text .= " x $gene->{times}" if $gene->{times} > 1;
	$text .= ' in session 2' if $gene->{session} == 2;
	$text .= '; program: ' . join(', ', map { "$_ $gene->{program}{$_}" } sort keys %{ $gene->{program} })
	  if $gene->{program};
	return $text;
}

1;
