package GpuCreditSoak::Main;

# Main.pm - from the options of tools/soak to the exit status
#
# The parent starts a process for each part of the load, reads a line from it
# for each call that ended, and prints what a minute brought.  All processes end
# with it: each stops where its pipe to the parent is closed.

use strict;
use warnings;
use GpuCreditSoak::Agents;
use GpuCreditSoak::Db;
use GpuCreditSoak::Load;
use GpuCreditSoak::Minutes;
use GpuCreditSoak::Sample;
use GpuCreditSoak::World;
use IO::Handle;
use IO::Select;
use POSIX ();
use Time::HiRes qw(time sleep);

my $AGENTS    = 4;				# processes
my $SUBMITTER = 10;				# submissions a second of one process

# Options: minutes, rate, scale, disturb, file; returns the exit status.
sub main
{
	my (%option) = @_;
	my $world = world($option{scale});
	my $self  = bless {
		rate           => $option{rate},
		disturb        => $option{disturb},
		scale          => $option{scale},
		minutes_wanted => $option{minutes},
		minutes        => GpuCreditSoak::Minutes->new($option{file}),
		world          => $world,
		children       => [],
		select         => IO::Select->new }, __PACKAGE__;

	STDOUT->autoflush(1);
	local $SIG{PIPE} = 'IGNORE';
	my $status = eval { $self->_play };
	my $error  = $@;

	$self->_stop;
	print STDERR "soak: $error" unless defined $status;
	return $status // 1;
}

sub _play
{
	my ($self) = @_;
	my $world = $self->{world};

	$self->_fill;
	my $sample  = GpuCreditSoak::Sample->new;
	my $seconds = $self->_start_load;

	printf "%s submissions a second for %d minutes; a job runs for %.1f s.\n",
	  $self->{rate}, $self->{minutes_wanted}, $seconds;
	foreach my $minute (1 .. $self->{minutes_wanted})
	{
		my $began = time;

		$self->_read_until($began + 60);
		$self->{minutes}->end_minute($self->{minutes_wanted}, time - $began, $sample->measure);
	}
	$self->{minutes}->print_table;
	$self->{minutes}->print_drift;
	$self->_stop;
	my $failed = $self->{minutes}->print_results;

	return _verify() && !$failed ? 0 : 1;
}

# Fills the database and has the jobs run that run all the time.
sub _fill
{
	my ($self) = @_;
	my ($world, $began) = ($self->{world}, time);
	my $db;

	printf "Filling a database: %d organisations, %d accounts, %d nodes in %d pools.\n",
	  $world->{big} + $world->{small},
	  ($world->{big} * $world->{big_users} + $world->{small} * $world->{small_users}),
	  @$world{qw(nodes pools)};
	build_world($world);
	printf "%d s: accounts, buckets, budgets and nodes are there.\n", time - $began;
	$self->_child("agents $_", sub { GpuCreditSoak::Agents::run(@_[ 0, 1 ], $world, $_[2], $AGENTS) }, $_)
	  foreach 0 .. $AGENTS - 1;
	submit_background($world);
	printf "%d s: %d jobs are to run and %d to wait all the time.\n", time - $began,
	  @$world{qw(running waiting)};
	$db = connect_db();
	while (1)
	{
		my ($running) = $db->selectrow_array(q{
			SELECT count(*) FROM gpucredit.attempt
			WHERE ended_at IS NULL AND running_at IS NOT NULL});

		last if $running >= $world->{running};
		die "of $world->{running} jobs only $running run after 10 minutes\n"
		  if time - $began > 600 + 6 * $self->{scale};
		$self->_read_until(time + 1);
	}
	$db->do('VACUUM ANALYZE');
	$db->disconnect;
	printf "%d s: they run.\n", time - $began;
	$self->{minutes}->forget;
	return;
}

# Starts all of the load; returns how long a job runs.
sub _start_load
{
	my ($self) = @_;
	my ($world, $rate) = @$self{qw(world rate)};
	# so that half of the free devices are used
	my $seconds = 0.5 * $world->{free} / $rate;
	my %part = (hot => 0.25, big => 0.25, small => 0.5);

	$seconds = 30 if $seconds > 30;
	foreach my $kind (sort keys %part)
	{
		my $n = POSIX::ceil($rate * $part{$kind} / $SUBMITTER);

		$self->_child("submitter $kind", sub {
				submitter(@_[ 0, 1 ], $world, $kind, $rate * $part{$kind} / $n, $seconds);
			}) foreach 1 .. $n;
		$self->_child("reader $kind", sub { reader(@_[ 0, 1 ], $world, $kind, 1 + $rate / 20) });
	}
	$self->_child('holds', sub { callers_holds(@_[ 0, 1 ], $world, $rate / 10) });
	$self->_child("upkeep $_->[0]", sub { upkeep_task(@_[ 0, 1 ], @{ $_[2] }) }, $_)
	  foreach _tasks();
	$self->_child('reports', \&reporter);
	$self->_child('metrics', \&scraper);
	$self->_child('disturber', sub { disturber(@_[ 0, 1 ], $self->{disturb}) })
	  if $self->{disturb};
	return $seconds;
}

# The tasks that install_jobs() has pg_cron call each minute.
sub _tasks
{
	my $db = connect_db();
	my $tasks = $db->selectall_arrayref(q{
		SELECT task, command FROM gpucredit_internal.cron_tasks()
		WHERE schedule = '* * * * *'});

	$db->disconnect;
	return @$tasks;
}

# Starts a process that calls a function with its pipe, a reference to whether it
# is to stop, and further arguments.
sub _child
{
	my ($self, $name, $function, @arguments) = @_;

	pipe(my $read, my $write) or die "could not make a pipe: $!\n";
	my $pid = fork() // die "could not fork: $!\n";

	if ($pid == 0)
	{
		my $stop = 0;

		close($read);
		close($_->{pipe}) foreach @{ $self->{children} };
		$SIG{TERM} = sub { $stop = 1 };
		$SIG{PIPE} = sub { POSIX::_exit(0) };
		srand($$);
		my $done = eval { $function->($write, \$stop, @arguments); 1 };
		print STDERR "soak: $name ended: $@" unless $done || $stop;
		POSIX::_exit($done || $stop ? 0 : 1);
	}
	close($write);
	push @{ $self->{children} }, { name => $name, pid => $pid, pipe => $read, rest => '' };
	$self->{select}->add($read);
	return;
}

# Reads what the processes report, until an instant.
sub _read_until
{
	my ($self, $until) = @_;
	my %of = map { $_->{pipe} => $_ } @{ $self->{children} };

	while ((my $wait = $until - time) > 0)
	{
		foreach my $pipe ($self->{select}->can_read($wait))
		{
			my $child = $of{$pipe};

			if (!sysread($pipe, $child->{rest}, 65536, length $child->{rest}))
			{
				$self->{select}->remove($pipe);
				die "the process \"$child->{name}\" has ended\n" unless $self->{stopping};
				next;
			}
			while ($child->{rest} =~ s/^(.*)\n//)
			{
				my ($what, @fields) = split /\t/, $1, -1;

				$what eq 'call' ? $self->{minutes}->add_call(@fields)
				  : $self->{minutes}->add_error(@fields);
			}
		}
	}
	return;
}

# Ends the load.
sub _stop
{
	my ($self) = @_;
	my @children = @{ $self->{children} };
	my $until = time + 30;

	$self->{stopping} = 1;
	kill 'TERM', $_->{pid} foreach @children;
	while (@children && time < $until)
	{
		@children = grep { waitpid($_->{pid}, POSIX::WNOHANG()) == 0 } @children;
		eval { $self->_read_until(time + 0.1) };
	}
	foreach my $child (@children)
	{
		kill 'KILL', $child->{pid};
		waitpid($child->{pid}, 0);
	}
	$self->{children} = [];
	return;
}

# Whether the books hold.
sub _verify
{
	my $db    = connect_db();
	my $began = time;
	my $wrong = $db->selectall_arrayref('SELECT * FROM gpucredit.verify() LIMIT 20');
	my ($entries) = $db->selectrow_array('SELECT count(*) FROM gpucredit.entry');

	printf "\nverify() took %.1f s for %d entries: %s\n", time - $began, $entries,
	  @$wrong ? 'the books do not hold' : 'the books hold';
	print '  ', join(' | ', map { $_ // '' } @$_), "\n" foreach @$wrong;
	$db->disconnect;
	return !@$wrong;
}

1;
