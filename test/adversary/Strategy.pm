# Strategy.pm: what an attacker does: draw one, change it, combine two
#
# A strategy is {profile, world => {...}, genes => [...]}.  A gene is one of
#
#   {op => 'call', by => 'm'|'z', fn, args => {...}, program => {...},
#    times => n, session => 1|2}
#   {op => 'wait', us => n}
#   {op => 'begin'}, {op => 'commit'}, {op => 'rollback'}      of session 2
#
# A value of an argument is a text that becomes a literal, or a reference that
# the play resolves: {org => 'm'}, {job => n} (the n-th that was granted),
# {victim => n} (a job of an honest tenant), {hold => n}, {tier => n}.
#
# All choices go through choose(), which prefers the ones that paid (a bandit).
package Strategy;

use strict;
use warnings;

use constant { SECOND => 1_000_000, HOUR => 3_600_000_000 };

# Keys that honest callers are about to use in the attackers' organisation.
our @HONEST_KEYS = ('invoice-4711', 'registry/storage/2030-01-01', 'nightly-1');


# Values by an argument's name.  What no list knows is drawn by its type.
my %meant = (
	account     => [ '', 'a', 'b' ],
	wall_limit  => [ '1 us', '1 s', '90 s', '10 min', '1 h', '2 h', '12 h', '24 h', '10 years' ],
	hold_window => [ '1 us', '1 min', '10 min', '1 h', '10 years' ],
	ttl         => [ '1 us', '1 min', '1 h', '1 day', '10 years' ],
	topology    => [qw(any node nvlink leaf)],
	preemptible => [qw(never reclaim capacity)],
	max_retries => [ 0, 1, 3, 1000 ],
	cpu_milli   => [ 0, 1, 1000, 16000, 64000 ],
	memory_mib  => [ 0, 1, 1024, 500000 ],
	amount      => [ '0.000001', '0.5', 1, 50, 1000 ],
	attempt     => [ 1, 1, 1, 2, 3, 0 ],
	final       => [qw(true false)],
	outcome     => [qw(completed failed out_of_memory timeout preempted
		  cancelled node_lost resized not_started)],
	pool    => [ 'default', 'default', 'default', 'none' ],
	spec    => [ '{}', '{"checkpoint_every": "1 s"}', '{"checkpoint_bytes": 9000000000000}', '{"cache": "c"}' ],
	options => [ '{}', '{"priority": 1000000}', '{"prefer": "nvlink"}',
		map { qq({"placement": $_}) } '{"nodes": ["n1"]}', '{"exclude": ["n1"]}', '{"nodes": ["n1", "n2"], "gpus_per_node": 8}',
		'{"labels": ["rack=n1"]}', '{"gpus_per_node": 1}', '{"gpus_per_node": 8, "whole_nodes": true}' ],
	reason  => [ '', 'because' ]);
my %same = (ttl_more => 'ttl', tenant => 'org');
my %extreme = (
	bigint   => [ 0, 1, -1, '9223372036854775807', '-9223372036854775808' ],
	integer  => [ 0, 1, -1, 2, 2147483647, -2147483648 ],
	smallint => [ 0, 1, -1, 32767 ],
	numeric  => [ 0, 1, '0.000001', -1, '9223372036854.775807', 'NaN', 'Infinity' ],
	interval => [ '0', '1 us', '1 s', '1 min', '1 h', '1 day', '1 mon', '-1 s', '10 years', '178000000 years' ],
	'timestamp with time zone' => [ '2030-01-01 00:00+00', 'infinity', '-infinity', '1970-01-01 00:00+00' ],
	date    => [ '2030-01-01', 'infinity', '1970-01-01' ],
	boolean => [qw(true false)],
	jsonb   => [ '{}', '[]', 'null', '{"priority": -1}', '{"wait": true}' ],
	'double precision' => [ 0, 1, -1, 'NaN', 'Infinity' ],
	real      => [ 0, 1, -1, 'NaN' ],
	bytea     => [ '', 'x', '0123456789abcdef0123456789abcdef' ],
	'text[]'  => [ '{}', '{default}', '{NULL}' ],
	'bigint[]' => [ '{}', '{1}', '{NULL}' ],
	'integer[]' => [ '{}', '{1}' ],
	text      => [ '', 'x', 'stdout', 'stderr', 'H100', 'default', 'n1' ]);

# What the tenant's program does on the node.
my %program = (
	run  => [ 0, SECOND, 30 * SECOND, 600 * SECOND, HOUR, 8 * HOUR, 200 * HOUR ],
	exit => [ 0, 0, 1, 2, 127, 137, 143 ],
	trap => [ 0, 1 ],			# ignores TERM, so ends only when killed
	pull => [ 0, 0, 0, 0, 30 * SECOND, 400 * SECOND, 4 * HOUR ],	# its image
	pulled  => [ 1, 1, 1, 1, 0 ],		# 0: the image does not exist
	message => [ '', '', 'NCCL timeout', 'CUDA out of memory', 'image: gone' ],
	save    => [ 0, 0, 1 ],		# reports a checkpoint when told to save
	progress => [ 0, 1 ]);
my %world = (
	limited => [ 0, 0, 1 ],		# the operator set a rate limit
	nodes   => [ 1, 1, 2 ],
	credit  => [ 1000, 1000, '0.01' ]);

sub new
{
	my ($class, %self) = @_;

	# functions of a profile, weighted: what only reads does less harm
	foreach my $profile (keys %{ $self{functions} })
	{
		my @all = @{ $self{functions}{$profile} };

		$self{submits}{$profile} = [ map { $_->{name} } grep { starts_jobs($_) } @all ];

		$self{by_name}{$profile} = { map { $_->{name} => $_ } @all };
		$self{weighted}{$profile} =
		  [ map { ($_->{name}) x ($_->{changes} ? 6 : 1) } @all ];
	}
	return bless { %self, worth => {}, tries => {} }, $class;
}

# One of the options of a place; the ones that paid are preferred.
sub choose
{
	my ($self, $place, @options) = @_;
	my $dice = $self->{dice};
	my $i    = $dice->below(scalar @options);

	if ($dice->chance(0.5))
	{
		my $other = $dice->below(scalar @options);

		$i = $other
		  if $self->worth("$place=$options[$other]") > $self->worth("$place=$options[$i]");
	}
	return $options[$i];
}

sub worth
{
	my ($self, $choice) = @_;

	return ($self->{worth}{$choice} // 0) / (3 + ($self->{tries}{$choice} // 0));
}

# A strategy was played: its choices share the reward.
sub learn
{
	my ($self, $strategy, $reward) = @_;

	foreach my $choice (choices($strategy))
	{
		$self->{tries}{$choice}++;
		$self->{worth}{$choice} += $reward;
	}
	return;
}

# The choices of a strategy, as "place=option".
sub choices
{
	my ($strategy) = @_;
	my %all = map { ("world.$_=$strategy->{world}{$_}" => 1) } keys %{ $strategy->{world} };

	foreach my $gene (@{ $strategy->{genes} })
	{
		if ($gene->{op} ne 'call')
		{
			$all{ "op=$gene->{op}" . ($gene->{us} ? " $gene->{us}" : '') } = 1;
			next;
		}
		$all{"fn=$gene->{fn}"} = 1;
		$all{"times=$gene->{times}"} = 1 if $gene->{times} > 1;
		$all{"session=2"} = 1 if $gene->{session} == 2;
		foreach my $arg (keys %{ $gene->{args} })
		{
			$all{"$gene->{fn}.$arg=" . shown($gene->{args}{$arg})} = 1;
		}
		$all{"program.$_=$gene->{program}{$_}"} = 1 foreach keys %{ $gene->{program} || {} };
	}
	return sort keys %all;
}

sub shown
{
	my ($value) = @_;

	return 'NULL' unless defined $value;
	return ref $value ? join(' ', %$value) : $value;
}

# A new strategy of 1 to 12 genes.
sub draw
{
	my ($self) = @_;
	my $dice    = $self->{dice};
	my $profile = $dice->chance(0.8) ? 'tenant' : 'app';
	my @genes;

	push @genes, $self->gene($profile) foreach 0 .. $dice->below(7);
	splice(@genes, $dice->below(@genes + 1), 0, $self->call($profile, $dice->pick(@{ $self->{submits}{$profile} })))
	  unless $dice->chance(0.2) || grep { $_->{program} } @genes;
	@genes = map { ($self->needed($profile, \@genes, $_), $_) } @genes;
	@genes = opened($dice, @genes) if $dice->chance(0.06);
	return {
		profile => $profile,
		world   => { map { $_ => $self->choose("world.$_", @{ $world{$_} }) } sort keys %world },
		genes   => \@genes };
}

# Calls without which another one names nothing: one that gives a hold before
# one that takes a hold.
sub needed
{
	my ($self, $profile, $genes, $gene) = @_;
	my $functions = $self->{by_name}{$profile};

	return if $gene->{op} ne 'call' || $self->{dice}->chance(0.2);
	foreach my $arg (grep { !$_->{default} && $_->{type} eq 'bigint' } @{ $functions->{ $gene->{fn} }{args} })
	{
		my $name = $arg->{name};

		next if ($arg->{given} //= [ grep { $functions->{$_}{gives}{$name} && !has_argument($functions->{$_}, $name) }
			  sort keys %$functions ]) && !@{ $arg->{given} };
		foreach my $earlier (@$genes)
		{
			last if $earlier == $gene;
			return if $earlier->{op} eq 'call' && grep { $_ eq $earlier->{fn} } @{ $arg->{given} };
		}
		return $self->call($profile, $self->{dice}->pick(@{ $arg->{given} }));
	}
	return;
}

sub has_argument
{
	my ($function, $name) = @_;

	return scalar grep { $_->{name} eq $name } @{ $function->{args} };
}

# Some genes of a strategy run in a transaction that stays open.
sub opened
{
	my ($dice, @genes) = @_;
	my $from = $dice->below(scalar @genes);
	my @last = map { $_->{op} eq 'call' ? { %$_, session => 2 } : $_ } @genes[ $from .. $#genes ];

	return (@genes[ 0 .. $from - 1 ], { op => 'begin' }, @last,
		{ op => 'wait', us => $dice->pick(30, 55, 200) * SECOND },
		{ op => $dice->pick('commit', 'rollback') });
}

sub gene
{
	my ($self, $profile) = @_;
	my $dice = $self->{dice};

	return { op => 'wait', us => $self->choose('op', map { $_ * SECOND } 0.000001, 0.5, 1, 10, 60, 300, 1800, 7200, 28800) }
	  if $dice->chance(0.2);
	return $self->call($profile);
}

sub call
{
	my ($self, $profile, $name) = @_;
	my $dice = $self->{dice};

	$name //= $self->choose('fn', $dice->chance(0.3) ? @{ $self->{submits}{$profile} }
		: @{ $self->{weighted}{$profile} });
	my $function = $self->{by_name}{$profile}{$name};
	my %gene     = (
		op      => 'call',
		fn      => $name,
		by      => $dice->chance(0.75) ? 'm' : 'z',
		session => 1,
		times   => $dice->chance(0.9) ? 1 : $self->choose('times', 2, 6, 20),
		args    => {});

	foreach my $arg (@{ $function->{args} })
	{
		next if $arg->{default} && $dice->chance(0.8);
		$gene{args}{ $arg->{name} } = $self->value(\%gene, $function, $arg);
	}
	$gene{program} = { map { $_ => $self->choose("program.$_", @{ $program{$_} }) } sort keys %program }
	  if starts_jobs($function);
	return \%gene;
}

# Whether the function submits a job, whose program the attacker writes.
sub starts_jobs
{
	my ($function) = @_;

	return scalar grep { $_->{name} eq 'request' } @{ $function->{args} }
	  if $function->{changes};
	return 0;
}

sub value
{
	my ($self, $gene, $function, $arg) = @_;
	my $dice = $self->{dice};
	my ($name, $type) = ($same{ $arg->{name} } // $arg->{name}, $arg->{type});
	my $place = "$function->{name}.$arg->{name}";

	return undef if $dice->chance($arg->{default} ? 0.03 : 0.005);
	return { org => $dice->chance(0.94) ? $gene->{by} : $dice->pick('m', 'z', 'h') } if $name eq 'org';
	return $dice->chance(0.9) ? { job => $dice->below(4) } : { victim => 0 } if $name eq 'job';
	return { hold => $dice->below(4) } if $name eq 'hold' && $dice->chance(0.95);
	return $self->choose($place, @HONEST_KEYS, 'k1', 'k2', 'k3', 'k4', 'k5', 'k6') if $name eq 'key';
	return $self->request if $name eq 'request' && $dice->chance(0.97);
	return $self->choose($place, @{ $self->{tiers} }) if $name eq 'tier' && $dice->chance(0.97);
	my @options = (@{ $meant{$name} || [] }, @{ $function->{words}{ $arg->{name} } || [] });

	return $self->choose($place, @options) if @options && $dice->chance(0.9);
	@options = @{ $extreme{$type} || $extreme{text} };
	return $self->choose($place, @options);
}

# A request: a number, types, and a memory floor.
sub request
{
	my ($self) = @_;
	my $many = $self->choose('request.many', 0, 1, 2, 8, 8, 16, '1-8', '4-16', '0.001', '0.25', '0.5', '0.999');

	return $many if $many eq '0';
	return "${many}x" . $self->choose('request.type', 'H100', 'H100', '*', 'H100|A100')
	  . $self->choose('request.floor', '', '', '@1GB', '@40GB', '@80GB', '@81559MiB');
}

# A changed copy.
sub mutate
{
	my ($self, $old) = @_;
	my $dice = $self->{dice};
	my $new  = copy($old);
	my $genes = $new->{genes};

	foreach (0 .. $dice->below(2))
	{
		my $what = $dice->below(10);
		my $at   = $dice->below(@$genes || 1);
		my $gene = $genes->[$at];

		if ($what < 2 || !$gene)
		{
			splice(@$genes, $dice->below(@$genes + 1), 0, $self->gene($new->{profile}));
		}
		elsif ($what == 2 && @$genes > 1)
		{
			splice(@$genes, $at, 1);
		}
		elsif ($what == 3)
		{
			my $other = $dice->below(scalar @$genes);

			@$genes[ $at, $other ] = @$genes[ $other, $at ];
		}
		elsif ($what == 4)
		{
			my $key = $dice->pick(sort keys %world);

			$new->{world}{$key} = $self->choose("world.$key", @{ $world{$key} });
		}
		elsif ($gene->{op} eq 'call')
		{
			$self->mutate_call($new->{profile}, $gene);
		}
		elsif ($gene->{op} eq 'wait')
		{
			$gene->{us} = int($gene->{us} * $dice->pick(0.1, 0.5, 2, 10)) || 1;
		}
	}
	return $new;
}

sub mutate_call
{
	my ($self, $profile, $gene) = @_;
	my $dice     = $self->{dice};
	my $function = $self->{by_name}{$profile}{ $gene->{fn} } or return;
	my $arg      = $dice->pick(@{ $function->{args} }) or return;

	if ($gene->{program} && $dice->chance(0.4))
	{
		my $key = $dice->pick(sort keys %program);

		$gene->{program}{$key} = $self->choose("program.$key", @{ $program{$key} });
	}
	elsif ($arg->{default} && $dice->chance(0.3))
	{
		delete $gene->{args}{ $arg->{name} };
	}
	elsif ($dice->chance(0.1))
	{
		$gene->{times} = $dice->pick(1, 6, 20);
	}
	else
	{
		$gene->{args}{ $arg->{name} } = $self->value($gene, $function, $arg);
	}
	return;
}

# The beginning of one and the end of another of the same profile.
sub combine
{
	my ($self, $one, $two) = @_;
	my $dice = $self->{dice};

	return $self->mutate($one) if $one->{profile} ne $two->{profile};
	my ($new, $other) = (copy($one), copy($two));
	my $from  = $dice->below(@{ $new->{genes} } + 1);
	my $until = $dice->below(@{ $other->{genes} } + 1);

	splice(@{ $new->{genes} }, $from, @{ $new->{genes} } - $from,
		@{ $other->{genes} }[ $until .. $#{ $other->{genes} } ]);
	splice(@{ $new->{genes} }, 14) if @{ $new->{genes} } > 14;
	push @{ $new->{genes} }, $self->gene($new->{profile}) unless @{ $new->{genes} };
	return $new;
}

sub copy
{
	my ($value) = @_;

	return [ map { copy($_) } @$value ] if ref $value eq 'ARRAY';
	return { map { $_ => copy($value->{$_}) } keys %$value } if ref $value eq 'HASH';
	return $value;
}

# Simpler strategies that may do the same, in the order in which to try them.
sub simpler
{
	my ($strategy) = @_;
	my @all;
	my $n = @{ $strategy->{genes} };

	foreach my $size ($n > 3 ? int($n / 2) : (), 1)
	{
		for (my $at = $n - $size; $at >= 0; $at -= $size)
		{
			my $new = copy($strategy);

			splice(@{ $new->{genes} }, $at, $size);
			push @all, $new;
		}
	}
	foreach my $key (sort keys %world)
	{
		next if $strategy->{world}{$key} eq $world{$key}[0];
		my $new = copy($strategy);

		$new->{world}{$key} = $world{$key}[0];
		push @all, $new;
	}
	foreach my $at (0 .. $n - 1)
	{
		push @all, simpler_gene($strategy, $at);
	}
	return @all;
}

my %plain = (run => HOUR, exit => 0, trap => 0, pull => 0, pulled => 1, message => '', save => 0, progress => 0);

sub simpler_gene
{
	my ($strategy, $at) = @_;
	my $gene = $strategy->{genes}[$at];
	my @all;

	my $with = sub {
		my $new = copy($strategy);

		$_[0]->($new->{genes}[$at]);
		push @all, $new;
	};

	return unless $gene->{op} eq 'call';
	$with->(sub { $_[0]{times} = 1 }) if $gene->{times} > 1;
	$with->(sub { $_[0]{by} = 'm'; $_[0]{args}{org} = { org => 'm' } })
	  if $gene->{by} eq 'z' && ref($gene->{args}{org});
	foreach my $arg (sort keys %{ $gene->{args} })
	{
		$with->(sub { delete $_[0]{args}{$arg} });
	}
	foreach my $key (sort keys %{ $gene->{program} || {} })
	{
		next if $gene->{program}{$key} eq $plain{$key};
		$with->(sub { $_[0]{program}{$key} = $plain{$key} });
	}
	return @all;
}

1;
