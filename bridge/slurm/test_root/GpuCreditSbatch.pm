# GpuCreditSbatch.pm: sbatch of Slurm and ours understand a script in the same way
#
# compare() gives random combinations of sbatch's options to both: in a script, on
# the command line, repeated, in both spellings, after the script's name.  Slurm
# allocates what it understood on nodes that never start (cluster.sh's
# slurm_cloud); ours says what it understood by --dry-run, so nothing runs.  Where
# both accept a combination, nodes, tasks, GPUs, cpus, memory and time limit have
# to agree; where ours refuses one, its message has to name the place, the option
# and what to do.
#
# Before them come the scripts of the folder corpus, which are in the manner of what
# people have.  One that ours refuses ends with "# refused: OPTION".
#
# After them come combinations that the two once understood differently, or that
# ours refused without saying what to do.
#
# GC_SBATCH_CASES says how many combinations, and GC_SEED which ones.

package GpuCreditSbatch;

use strict;
use warnings;
use Exporter 'import';
use FindBin;
use GpuCreditSlurm;
use JSON ();
use Test::More;

our @EXPORT = qw(compare);

# What a refusal says besides the place and the option.
my $advice = qr/;\s\S|,\sas\s|: use |: choose |: remove |: there (?:is|are) |; use |takes a value|not supported: |; (?:add|keep|remove) /;

my @sizes = ('', 'K', 'M', 'G', 'k', 'm', 'g', 'KB', 'MB', 'GB', 'gb');

# Names of an option, and its values.
my @grammar = (
	[ [ '-N', '--nodes' ],     sub { one(1 .. 4, '2-2', '1-3') } ],
	[ [ '-n', '--ntasks' ],    sub { one(1 .. 16) } ],
	[ ['--ntasks-per-node'],   sub { one(1 .. 8) } ],
	[ ['--gres'],              sub { one('gpu', 'none', (map { ("gpu:$_", "gpu:a100:$_") } 1 .. 8) x 3) } ],
	[ ['--gres'],              sub { one('gpu:a100', 'gpu:0', 'gpu:tesla:1', 'craynetwork:1', 'gpu:1,gpu:2', 'gpu:x') } ],
	[ [ '-G', '--gpus' ],      sub { one('a100', map { ($_, "a100:$_") } 1 .. 16) } ],
	[ ['--gpus-per-node'],     sub { one('a100', map { ($_, "a100:$_") } 1 .. 8) } ],
	[ ['--gpus-per-task'],     sub { one(1 .. 4, 'a100:1', 'a100:2') } ],
	[ ['--gpus-per-socket'],   sub { one(1, 2) } ],
	[ ['--ntasks-per-gpu'],    sub { one(1, 2) } ],
	[ [ '-c', '--cpus-per-task' ], sub { one(1 .. 8) } ],
	[ ['--cpus-per-gpu'],      sub { one(1 .. 8) } ],
	[ ['--mem'],               \&memory ],
	[ ['--mem-per-cpu'],       \&memory ],
	[ ['--mem-per-gpu'],       \&memory ],
	[ [ '-t', '--time' ],      \&limit ],
	[ [ '-a', '--array' ],     sub { one('1-3', '0-6:2', '1,3', '5', '0-9%2', '1-', '3-1') } ],
	[ [ '-b', '--begin' ],     sub { one('now', 'now+1hour', '16:00', 'tomorrow', 'soon') } ],
	[ [ '-d', '--dependency' ], sub { one('singleton', 'afterok:x') } ],
	[ ['--signal'],            sub { one('USR1@60', 'B:TERM@120', '10', 'B:SIGUSR2', 'b:usr1@5', 'HUP@0') } ],
	[ ['--nice'],              sub { one(0, 10, 1000) } ],
	[ ['--export'],            sub { one('ALL', 'NONE', 'ALL,A=1', 'PATH') } ],
	[ [ '-o', '--output' ],    sub { one('%x-%j.out', '/dev/null', 'a-%A_%3a') } ],
	[ [ '-e', '--error' ],     sub { one('%x-%j.err', '/dev/null') } ],
	[ [ '-J', '--job-name' ],  sub { one('train', 'a-b') } ],
	[ ['--comment'],           sub { one('x', 'two') } ],
	[ ['--mail-type'],         sub { one('END', 'ALL', 'BEGIN,FAIL') } ],
	[ ['--open-mode'],         sub { one('append', 'truncate') } ],
	[ ['--requeue', '--no-requeue', '--exclusive', '--contiguous', '--hold', '--parsable'] ],
	[ [ '-C', '--constraint' ], sub { one('a100', 'nvme', 'a100&nvme', 'nvme|a100-80', '[nvme|a100-80]', '(nvme|ib)&a100', 'nvme*2') } ],
	[ [ '-w', '--nodelist' ],  sub { one('c1', 'c[1-2]', 'c3,c[5-6]', 'c[2-') } ],
	[ [ '-x', '--exclude' ],   sub { one('c1', 'c[3-4]', 'c2,c[5,7]') } ],
);
my $sizing = 15;    # so many of these say how large a job is
my $batch  = 100;   # that many fit on the nodes

my $node_memory_mib = 10_000_000;    # RealMemory of slurm_cloud's nodes

# What the two once understood differently: words of the command line.
my @found = (
	'-n 7 --gpus-per-task=2 --cpus-per-gpu=2 --gres=none SCRIPT',
	'-N 1 --gpus-per-task=4 --cpus-per-gpu=5 --gres=gpu:0 SCRIPT',
	'-n 1 --gpus-per-task=a100:2 --cpus-per-gpu=5 SCRIPT',
	'-N 2-2 --gpus-per-task=a100:2 --cpus-per-gpu=3 SCRIPT',
	'-N 2 --ntasks-per-node=6 --cpus-per-gpu=8 -G a100:3 SCRIPT',
	'-N 2 -n 3 --ntasks-per-node=7 SCRIPT',
	'-N 4 -n 4 --ntasks-per-node=3 -G 8 SCRIPT',
	'-n 11 --ntasks-per-node=2 --gpus-per-task=2 --mem-per-gpu=64K SCRIPT',
	'-n 6 --ntasks-per-node=6 -G 8 -c 7 --mem-per-cpu=1000m SCRIPT',
	'-n 4 --gpus-per-node=6 --mem-per-cpu=4096G SCRIPT',
	'--time -1 --gpus=2 SCRIPT', '--time=-1 SCRIPT', '-t -1 SCRIPT', '--time=-2 SCRIPT', '--time=a-1 SCRIPT',
	'--nice 10 SCRIPT', '--nice 0 SCRIPT', '--exclusive 1 SCRIPT');

my $state;

sub compare
{
	done('slurm_cloud', 'Slurm has nodes that never start');
	my $folder = sh('echo $SLURM_DIR/cloud');

	compare_corpus($folder);
	compare_found($folder);
	compare_options($folder, $ENV{GC_SBATCH_CASES} || 100, $ENV{GC_SEED} || 1);
	return;
}

sub compare_corpus
{
	my ($folder) = @_;
	my @corpus = map { corpus_case($_) } sort glob("$FindBin::RealBin/corpus/*.sh");
	my $seen = judge($folder, \@corpus);

	cmp_ok($seen->{agree}, '>=', 45, "$seen->{agree} scripts are understood as Slurm does");
	is(join("\n", @{ $seen->{differ} }, @{ $seen->{alone} }), '', 'none otherwise');
	is(join("\n", @{ $seen->{unpromised} }, @{ $seen->{unclear} }), '', 'some are refused, with the reason that they name');
	return;
}

sub compare_found
{
	my ($folder) = @_;
	my $script = "$folder/found.sh";
	my $number = 0;

	open(my $file, '>', $script) or die "$script: $!\n";
	print $file "#!/bin/sh\ntrue\n";
	close($file) or die "$script: $!\n";
	my $seen = judge($folder, [ map { { number => 'found-' . ++$number, script => $script, words => s/SCRIPT/$script/r, shown => $_ } } @found ]);

	is(join("\n", @{ $seen->{differ} }, @{ $seen->{unclear} }), '', 'what was once understood differently is understood as Slurm does');
	cmp_ok($seen->{agree}, '>=', 8, "$seen->{agree} of these combinations were compared");
	return;
}

sub compare_options
{
	my ($folder, $cases, $seed) = @_;
	my %all = (agree => 0, differ => [], unclear => [], alone => []);

	$state = $seed;
	for (my $from = 1; $from <= $cases; $from += $batch)
	{
		my $to = $from + $batch - 1 < $cases ? $from + $batch - 1 : $cases;
		sh('slurm_cloud_empty');
		my $seen = judge($folder, [ map { write_case($folder, $_) } $from .. $to ]);
		$all{agree} += $seen->{agree};
		push @{ $all{$_} }, @{ $seen->{$_} } foreach qw(differ unclear alone);
		note("after $to of $cases combinations: ", scalar(@{ $all{differ} }), ' differ, ', scalar(@{ $all{unclear} }), ' unclear refusals');
	}
	is(join("\n", @{ $all{differ} }), '', "of sbatch's options ours understands what Slurm does");
	is(join("\n", @{ $all{unclear} }), '', 'and a refusal names the line, the option and what to do');
	cmp_ok($all{agree}, '>', $cases / 5, "$all{agree} of $cases combinations were compared");
	note("ours alone accepts:\n" . join("\n", @{ $all{alone} }));
	return;
}

# A random number below the argument: the same on each machine.
sub below
{
	$state = ($state * 1103515245 + 12345) % 2147483648;
	return int($state / 65536) % $_[0];
}
sub one { return $_[ below(scalar @_) ] }

sub memory { return one(0, 1, 1000, 2048, 4096, 64, 100) . one(@sizes) }

sub limit
{
	return one(
		1 + below(600), '0', 'UNLIMITED', 'infinite', '0:30', '90:00', '1:30:00', '1-0', '2-12',
		'0-1:30', '1-2:3:4', '00:10:00', '1:61', '1:2:3:4', '-1', 'soon', '1-', '10:');
}

# A combination: options in a script, and words of the command line.
sub write_case
{
	my ($folder, $number) = @_;
	my (@lines, @words, @after);
	my $line = 1;
	my %case = (number => $number, script => "$folder/$number.sh");

	for my $i (1 .. 1 + below(5))
	{
		my $kind = below(4) > 0 ? $grammar[ below($sizing) ] : $grammar[ below(scalar @grammar) ];
		for my $repeat (1 .. (below(8) == 0 ? 2 : 1))
		{
			my ($where, @option) = (below(8), spelling($kind));
			if ($where == 0) { push @after, @option }
			elsif ($where < 4) { push @words, @option }
			elsif ($where == 4 && @lines) { $lines[-1] .= " @option" }
			else { push @lines, "#SBATCH @option" . one('', '', "  # why") }
		}
	}
	open(my $script, '>', $case{script}) or die "$case{script}: $!\n";
	print $script join("\n", '#!/bin/sh', @lines, 'true', '#SBATCH --nodes=7 --nonsense'), "\n";
	close($script) or die "$case{script}: $!\n";
	$case{words} = join(' ', map { "'$_'" } @words, $case{script}, @after);
	$case{shown} = join('; ', @lines, "sbatch @words SCRIPT @after");
	return \%case;
}

# A script of the corpus.
sub corpus_case
{
	my ($script) = @_;
	my ($name) = $script =~ m{([^/]+)\.sh$};
	my ($refused) = slurp($script) =~ /^# refused: (\S+)$/m;

	return { number => $name, script => $script, words => "'$script'", shown => $name, promise => $refused // 'accepted' };
}

# An option with its value, in one of its spellings.
sub spelling
{
	my ($kind) = @_;
	my ($names, $values) = @$kind;
	my $name = one(@$names);

	return $name unless defined $values;
	my $value = $values->();
	return one([ $name, $value ], [ "$name=$value" ])->@* if $name =~ /^--/;
	return one([ $name, $value ], [ $name . $value ])->@*;
}

# Gives each combination to both, side by side.
sub run_cases
{
	my ($folder, $cases) = @_;

	foreach my $who ([ real => 'sbatch --parsable' ], [ ours => '$GC_SOURCE/cli/sbatch --dry-run --json' ])
	{
		open(my $file, '>', "$folder/$who->[0]") or die "$folder/$who->[0]: $!\n";
		print $file "$who->[1] $_->{words} >$folder/$_->{number}.$who->[0] 2>$folder/$_->{number}.$who->[0].err </dev/null; echo \$? >$folder/$_->{number}.$who->[0].rc\n" foreach @$cases;
		close($file) or die "$folder/$who->[0]: $!\n";
	}
	sh("export GC_SOURCE; export GPUCREDIT_DATABASE=\"dbname=slurm user=\$GC_USER\" GPUCREDIT_ORG=cloud; (cd $folder; SLURM_CONF=\$SLURM_CLOUD sh real & sh ours; wait)");
	return;
}

# What Slurm allocated to its jobs, by their numbers.  Its scheduler looks at jobs
# for some seconds; what it starts nothing of by then asks for more than there is.
sub allocations
{
	my (%jobs, $waiting);
	my $since = time;

	while (time - $since < 5)
	{
		%jobs = ();
		foreach my $line (split /\n/, sh('SLURM_CONF=$SLURM_CLOUD scontrol show job -d -o'))
		{
			my %job;
			$job{$1} //= $2 while $line =~ m{([\w/:]+)=(\S*)}g;
			my $id = $job{ArrayJobId} // $job{JobId};
			$jobs{$id} = \%job if !$jobs{$id} || $job{JobState} eq 'CONFIGURING';
		}
		my $now = grep { $_->{JobState} eq 'PENDING' && $_->{Reason} =~ /^(?:None|Priority|Resources)$/ } values %jobs;
		last unless $now;
		($waiting, $since) = ($now, time) if !defined $waiting || $now != $waiting;
		select(undef, undef, undef, 0.5);
	}
	return \%jobs;
}

# Gives cases to both, and sorts what came of them.
sub judge
{
	my ($folder, $cases) = @_;
	my %seen = (agree => 0, differ => [], unclear => [], alone => [], unpromised => []);

	run_cases($folder, $cases);
	my $jobs = allocations();
	foreach my $case (@$cases)
	{
		my %said = map { my $name = $_; $name => slurp("$folder/$case->{number}.$name") } qw(real real.rc real.err ours ours.err);
		my $job = $said{'real.rc'} == 0 && $said{real} =~ /^(\d+)/ ? $jobs->{$1} : undef;
		undef $job if $job && $job->{JobState} eq 'FAILED';
		my $ours = $said{ours} =~ /^\{/ ? JSON::decode_json($said{ours}) : undef;

		push @{ $seen{unpromised} }, "$case->{shown}: $said{'ours.err'}" unless as_promised($case, $ours, $said{'ours.err'});
		if (!$ours)
		{
			push @{ $seen{unclear} }, "$case->{shown}\n    $said{'ours.err'}" unless is_clear($case, $said{'ours.err'});
		}
		# Slurm adds nodes to those that are named, if a job needs more
		elsif ($case->{shown} =~ /(?:-w|--nodelist)/ && ($ours->{decision} eq 'denied' || $job && $job->{NumNodes} =~ /^\d+$/ && $job->{NumNodes} > ($ours->{asks}{nodes} // 1))) { $seen{denied}++ }
		elsif (!$job) { push @{ $seen{alone} }, "$case->{shown}\n    $said{'real.err'}" }
		elsif (my $difference = difference($job, $ours->{asks}, $case->{shown} =~ s/ SCRIPT .*//r =~ /--exclusive/ || slurp($case->{script}) =~ /^#SBATCH.*--exclusive/m))
		{
			push @{ $seen{differ} }, "$case->{shown}\n    $difference";
		}
		else { $seen{agree}++ }
	}
	return \%seen;
}

# Whether ours accepts or refuses a script of the corpus as the script says.
sub as_promised
{
	my ($case, $ours, $message) = @_;
	my $promise = $case->{promise} // return 1;

	return $promise eq 'accepted' ? $ours : !$ours && $message =~ /\Q$promise\E/;
}

# How the two differ, or ''.  Slurm counts limits in minutes.  What no option says
# follows from the site's nodes and defaults; ours says nothing of it.  Of whole
# nodes Slurm gives all cpus, and memory by them; those of this pool have no limits.
sub difference
{
	my ($job, $asks, $whole) = @_;
	my $allocated = $job->{JobState} eq 'CONFIGURING';
	my %slurm = (minutes => minutes($job->{TimeLimit}), tasks => $job->{NumTasks});
	my %ours  = (minutes => defined $asks->{wall_seconds} ? int(($asks->{wall_seconds} + 59) / 60) : 'UNLIMITED');

	if ($allocated)
	{
		my %tres = map { split /=/, $_, 2 } split /,/, $job->{TRES};
		my ($wanted) = ($job->{TresPerJob} // '') =~ /:(\d+)$/;

		@slurm{qw(gpus nodes cpus memory_mib)} = ($job->{JOB_GRES} =~ /:(\d+)$/ ? $1 : 0,
			$job->{NumNodes}, $job->{NumCPUs}, mebibytes($tres{mem}));
		# Slurm 22.05 gives some jobs with --gpus, --gpus-per-task and -c less than
		# they want, for want of cpus; its own record of what they want counts
		@slurm{qw(cpus memory_mib)} = @$asks{qw(cpus memory_mib)} if $whole;
		@slurm{qw(gpus cpus memory_mib)} = ($wanted, @$asks{qw(cpus memory_mib)}) if defined $wanted && $wanted > $slurm{gpus};
		# and some with --cpus-per-gpu fewer cpus than its record wants for their
		# GPUs, or all GPUs of their nodes instead of those of their tasks
		my ($for_gpu)  = ($job->{CpusPerTres} // '') =~ /:(\d+)$/;
		my ($for_task) = ($job->{TresPerTask} // '') =~ /:(\d+)$/;
		if (defined $for_gpu && defined $for_task && $slurm{gpus} > $for_task * $slurm{tasks})
		{
			@slurm{qw(gpus cpus memory_mib)} = ($for_task * $slurm{tasks}, @$asks{qw(cpus memory_mib)});
		}
		@slurm{qw(cpus memory_mib)} = @$asks{qw(cpus memory_mib)} if defined $for_gpu && $for_gpu * $slurm{gpus} > $slurm{cpus};
		# a node of its own for what does not fit on one: our pool's nodes have no
		# limits, and with those of Slurm's nodes ours denies such a job
		@slurm{qw(gpus nodes cpus memory_mib)} = @$asks{qw(gpus nodes cpus memory_mib)}
		  if ($asks->{nodes} // 0) == 1 && $slurm{nodes} > 1 && ($asks->{memory_mib} // 0) > $node_memory_mib;
		# of tasks that do not fill all nodes it sets aside as if they did
		my ($per_node) = ($job->{'NtasksPerN:B:S:C'} // '') =~ /^([1-9]\d*)/;
		if ($per_node && defined $asks->{tasks} && $slurm{tasks} == $per_node * $slurm{nodes} && $asks->{tasks} < $slurm{tasks})
		{
			$slurm{gpus} = $for_task * $asks->{tasks} if defined $for_task && $slurm{gpus} == $for_task * $slurm{tasks};
			@slurm{qw(tasks cpus memory_mib)} = @$asks{qw(tasks cpus memory_mib)};
		}
	}
	foreach my $count (keys %slurm)
	{
		my $asked = $asks->{$count};

		# what is counted per node, of nodes that no option counts
		next if $count =~ /^(?:cpus|memory_mib)$/ && !defined $asks->{nodes} && $slurm{nodes} > 1;
		$ours{$count} = $asked if defined $asked;
	}
	return join(', ', map { $slurm{$_} eq $ours{$_} ? () : "$_: Slurm $slurm{$_}, ours $ours{$_}" } sort keys %ours);
}

sub minutes
{
	my ($days, $hours, $minutes) = $_[0] =~ /^(?:(\d+)-)?(\d+):(\d+):\d+$/ or return 'UNLIMITED';
	my $limit = (($days // 0) * 24 + $hours) * 60 + $minutes;

	# Slurm's default for a job that runs
	return $limit == 365 * 24 * 60 ? 'UNLIMITED' : $limit;
}

sub mebibytes
{
	my ($number, $unit) = $_[0] =~ /^([\d.]+)([MGT])$/ or return $_[0];
	return int($number * { M => 1, G => 1024, T => 1024 * 1024 }->{$unit} + 0.5);
}

# The message names the place, an option or its value, and what to do.
sub is_clear
{
	my ($case, $message) = @_;

	# the database knows types and tiers, and its hint says what to do
	return 1 if $message =~ /^sbatch: \w{5}: .*\n.*\n/m;
	return $message =~ /^sbatch: (?:sbatch: |\Q$case->{script}\E:\d+: |--\S+ (?:contradicts|is no multiple|and|needs) ).*(?:--\w|").*$/m && $& =~ $advice;
}

sub slurp
{
	my ($path) = @_;
	local (@ARGV, $/) = ($path);
	my $text = <> // '';
	chomp $text;
	return $text;
}

1;
