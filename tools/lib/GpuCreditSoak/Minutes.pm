package GpuCreditSoak::Minutes;

# Minutes.pm - the figures of each minute: collected, printed, compared
#
# A series is a figure over the minutes.  It drifts if the median of its last
# quarter differs from that of its first quarter, without the first minute, by
# more than a factor and by more than what is noise for its unit.  Few calls a
# minute have no median that means much, so a second is noise for those.

use strict;
use warnings;

my $FACTOR = 1.5;
my $FEW    = 10;
# Smaller changes of these are noise.
my %noise = (ms => 10, MB => 64, s => 90, '%' => 20, rows => 20000, '' => 1000);

sub new
{
	my ($class, $file) = @_;

	open(my $out, '>', $file) or die "could not write $file: $!\n" if $file;
	print $out "minute\tfigure\tvalue\n" if $file;
	return bless { file => $out, minutes => [], calls => {}, results => {}, errors => {} },
	  $class;
}

# A call that has ended.
sub add_call
{
	my ($self, $name, $kind, $seconds, $result) = @_;

	push @{ $self->{calls}{$name}{$kind} }, 1000 * $seconds;
	$self->{results}{ $result =~ /^(?:ok|denied)$/ ? $result : 'failed' }++;
	$self->{total}{ $result =~ /^(?:ok|denied)$/ ? $result : "failed with $result" }{$name}++;
	return;
}

sub add_error
{
	my ($self, $text) = @_;

	print STDERR "soak: $text\n" if ++$self->{errors}{$text} == 1 && keys %{ $self->{errors} } <= 20;
	return;
}

# Forgets all calls so far: those that filled the database.
sub forget
{
	my ($self) = @_;

	@$self{qw(calls results total)} = ({}, {}, {});
	return;
}

# Ends a minute that lasted so many seconds: prints it, and begins the next.
sub end_minute
{
	my ($self, $of, $seconds, $sample) = @_;
	my $number  = @{ $self->{minutes} } + 1;
	my %figures = %$sample;
	my @rows;

	foreach my $name (sort keys %{ $self->{calls} })
	{
		foreach my $kind (sort keys %{ $self->{calls}{$name} })
		{
			my @took = sort { $a <=> $b } @{ $self->{calls}{$name}{$kind} };
			my $label = $kind eq '' ? $name : "$name, $kind";

			push @rows, [ $label, scalar(@took), map { $took[ $_ * $#took ] } 0.5, 0.99, 1 ];
			$figures{"$label: p50, ms"}   = $rows[-1][2];
			$figures{"$label: p99, ms"}   = $rows[-1][3];
			$figures{"$label: calls"}     = scalar(@took);
		}
	}
	foreach my $name (qw(reserve settle))
	{
		$figures{"$name, a second"} = $self->_count($name) / $seconds;
	}
	$figures{failed} = $self->{results}{failed} // 0;
	$figures{denied} = $self->{results}{denied} // 0;

	printf "\nMinute %d of %d: %.1f submissions and %.1f settlements a second, %d calls failed, %d denied\n",
	  $number, $of, @figures{ 'reserve, a second', 'settle, a second', 'failed', 'denied' };
	printf "  %-34s %7s %10s %10s %10s\n", 'call, organisation', 'calls', 'p50 ms', 'p99 ms', 'max ms';
	printf "  %-34s %7d %10.1f %10.1f %10.1f\n", @$_ foreach @rows;
	foreach my $group (
		[ 'scheduling', 'cycles', 'mean cycle, ms', 'memory of the worker, MB', 'running jobs', 'waiting jobs' ],
		[ 'upkeep lags by', grep { /unfolded|unsealed|oldest/ } sort keys %$sample ],
		[ 'server', 'WAL, MB', 'database, MB', 'deadlocks' ],
		[ 'updates', grep { /^HOT/ } sort keys %$sample ],
		[ 'garbage', grep { /^dead rows/ } sort keys %$sample ])
	{
		my ($title, @names) = @$group;

		print "  $title: ", join('; ', map {
				my ($what, $unit) = /^(.*?)(?:, (\S+))?$/;

				sprintf('%s %s%s', $what, _short($sample->{$_}), $unit ? " $unit" : '')
			} grep { defined $sample->{$_} } @names), "\n";
	}
	if ($self->{file})
	{
		printf { $self->{file} } "%d\t%s\t%.3f\n", $number, $_, $figures{$_}
		  foreach grep { defined $figures{$_} } sort keys %figures;
	}
	push @{ $self->{minutes} }, \%figures;
	@$self{qw(calls results)} = ({}, {});
	return;
}

sub _count
{
	my ($self, $name) = @_;
	my $n = 0;

	$n += @$_ foreach values %{ $self->{calls}{$name} || {} };
	return $n;
}

# The minutes beside each other.
sub print_table
{
	my ($self) = @_;
	my @columns = (
		[ 'sub/s',   'reserve, a second' ],
		[ 'set/s',   'settle, a second' ],
		[ 'failed',  'failed' ],
		[ 'start50', 'start, small: p50, ms' ],
		[ 'start99', 'start, small: p99, ms' ],
		[ 'hot50',   'reserve, hot: p50, ms' ],
		[ 'hot99',   'reserve, hot: p99, ms' ],
		[ 'small50', 'reserve, small: p50, ms' ],
		[ 'small99', 'reserve, small: p99, ms' ],
		[ 'settl99', 'settle, small: p99, ms' ],
		[ 'upkeep',  sub { _longest($_[0], qr/^upkeep.*: p99, ms$/) } ],
		[ 'cycles',  'cycles' ],
		[ 'cyc ms',  'mean cycle, ms' ],
		[ 'WAL MB',  'WAL, MB' ],
		[ 'size MB', 'database, MB' ],
		[ 'work MB', 'memory of the worker, MB' ]);
	my $n = 0;

	print "\nAll minutes (times in ms; start: from reserve to the placement; upkeep: its longest call)\n";
	print join(' ', 'min', map { sprintf('%7s', $_->[0]) } @columns), "\n";
	foreach my $minute (@{ $self->{minutes} })
	{
		print join(' ', sprintf('%3d', ++$n), map {
				sprintf('%7s', _short(ref $_->[1] ? $_->[1]->($minute) : $minute->{ $_->[1] }))
			} @columns), "\n";
	}
	return;
}

# Says which series drift; returns how many.
sub print_drift
{
	my ($self) = @_;
	my @minutes = @{ $self->{minutes} };
	my @lines;

	shift @minutes;				# caches and plans are made in it
	if (@minutes < 4)
	{
		print "\nDrift is not looked for in fewer than 5 minutes.\n";
		return 0;
	}
	my $quarter = int((@minutes + 3) / 4);
	my %names = map { %$_ } @minutes;

	foreach my $name (sort keys %names)
	{
		next if $name =~ /calls$|p99|max|a second$|^(?:failed|denied)$/;
		my ($first, $last) = map { _median(map { $_->{$name} // () } @$_) }
		  [ @minutes[ 0 .. $quarter - 1 ] ], [ @minutes[ -$quarter .. -1 ] ];
		my ($unit) = $name =~ /, (ms|MB|s|%|rows)$/;
		my $calls  = $minutes[-1]{ $name =~ s/: p50, ms$/: calls/r } // $FEW;

		next unless defined $first && defined $last;
		next if abs($last - $first) <= ($calls < $FEW ? 1000 : $noise{ $unit // '' });
		next if $first > 0 && $last > 0 && $last / $first < $FACTOR && $first / $last < $FACTOR;
		push @lines, sprintf('  %-44s %s -> %s', $name, _short($first), _short($last));
	}
	print @lines
	  ? "\nThese drift (medians of the first and the last quarter):\n" . join("\n", @lines) . "\n"
	  : "\nNothing drifts.\n";
	return scalar @lines;
}

# What came of all calls: how many failed, after saying which.
sub print_results
{
	my ($self) = @_;
	my $failed = 0;

	print "\n";
	foreach my $result (sort keys %{ $self->{total} })
	{
		my $of = $self->{total}{$result};
		my $n  = 0;

		$n += $_ foreach values %$of;
		$failed += $n if $result =~ /^failed/;
		printf "%9d calls %s%s\n", $n, $result, $result eq 'ok' ? ''
		  : ': ' . join(', ', map { "$of->{$_} $_" } sort keys %$of);
	}
	return $failed;
}

sub _longest
{
	my ($minute, $match) = @_;
	my ($longest) = sort { $b <=> $a } map { $minute->{$_} } grep { $_ =~ $match } keys %$minute;

	return $longest;
}

sub _median
{
	my @sorted = sort { $a <=> $b } @_;

	return $sorted[ $#sorted / 2 ];
}

# A number in few characters.
sub _short
{
	my ($x) = @_;

	return '-' unless defined $x;
	return abs($x) < 100 && $x != int($x) ? sprintf('%.1f', $x) : sprintf('%.0f', $x);
}

1;
