# GpuCreditHa/Cluster.pm: three machines with etcd and Patroni, on this one
#
# A machine is a folder, its processes and its ports.  Where network namespaces
# are to be had, each machine is in one of its own behind a bridge, so that it
# can be cut off; else all listen on 127.0.0.1.  Configuration is that of
# packaging/patroni.
package GpuCreditHa::Cluster;

use strict;
use warnings;

use DBI;
use IO::Socket::INET;
use POSIX ();
use Time::HiRes qw(sleep time);

# folder: where all of it lives; source: the checkout; bin: PostgreSQL's
# programs; namespaces: whether this process may make them
sub new
{
	my ($class, %self) = @_;
	my $self = bless { %self, machines => [] }, $class;

	$self->{password} = { map { $_ => random_word() } qw(superuser replication rest clients) };
	$self->{network} = $self->{namespaces} ? '10.99.0.0/24' : '127.0.0.1/32';
	run('ip', 'link', 'set', 'lo', 'up') if $self->{namespaces};
	if ($self->{namespaces})
	{
		run(qw(ip link add name br0 type bridge));
		run(qw(ip addr add 10.99.0.254/24 dev br0));
		run(qw(ip link set br0 up));
	}
	$self->add_machine($_) foreach 1 .. 3;
	$self->configure($_) foreach $self->machines;
	return $self;
}

sub machines { return @{ $_[0]{machines} } }

sub random_word
{
	open(my $random, '<:raw', '/dev/urandom') or die "/dev/urandom: $!\n";
	read($random, my $bytes, 12) == 12 or die "/dev/urandom: $!\n";
	return unpack('H*', $bytes);
}

sub run
{
	my (@command) = @_;

	system(@command) == 0 or die "failed: @command\n";
	return;
}

sub free_port
{
	my $socket = IO::Socket::INET->new(Listen => 1, LocalAddr => '127.0.0.1', LocalPort => 0)
	  or die "no port: $!\n";

	return $socket->sockport;
}

sub write_text
{
	my ($path, $text) = @_;

	open(my $file, '>', $path) or die "$path: $!\n";
	print $file $text;
	close($file) or die "$path: $!\n";
	return;
}

sub read_text
{
	my ($path) = @_;

	open(my $file, '<', $path) or die "$path: $!\n";
	local $/;
	return scalar <$file>;
}

sub add_machine
{
	my ($self, $number) = @_;
	my $m = { number => $number, name => "m$number", folder => "$self->{folder}/m$number", running => {} };

	mkdir $m->{folder} or die "$m->{folder}: $!\n";
	mkdir "$m->{folder}/socket" or die "$m->{folder}: $!\n";
	if ($self->{namespaces})
	{
		$m->{address} = "10.99.0.$number";
		@$m{qw(port rest_port client_port peer_port)} = (5432, 8008, 2379, 2380);
		# a process that keeps the namespace
		$m->{keeps} = start_process(undef, "$m->{folder}/namespace.log", 'unshare', '--net', 'sleep', 'infinity');
		my $own = readlink '/proc/self/ns/net';
		for (1 .. 200)
		{
			last if (readlink("/proc/$m->{keeps}/ns/net") // $own) ne $own;
			sleep(0.05);
		}
		run('ip', 'link', 'add', 'name', $m->{name}, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', $m->{keeps});
		run('ip', 'link', 'set', $m->{name}, 'master', 'br0', 'up');
		run($self->inside($m), 'ip', @$_) foreach [ 'link', 'set', 'lo', 'up' ],
		  [ 'addr', 'add', "$m->{address}/24", 'dev', 'eth0' ], [ 'link', 'set', 'eth0', 'up' ];
	}
	else
	{
		$m->{address} = '127.0.0.1';
		$m->{$_} = free_port() foreach qw(port rest_port client_port peer_port);
	}
	push @{ $self->{machines} }, $m;
	return;
}

# What a command begins with that runs on the machine.
sub inside
{
	my ($self, $m) = @_;

	return $self->{namespaces} ? ('nsenter', "--net=/proc/$m->{keeps}/ns/net") : ();
}

# Fills in the files of packaging/patroni.
sub configure
{
	my ($self, $m) = @_;
	my %word = (
		NAME => $m->{name}, ADDRESS => $m->{address}, PORT => $m->{port},
		REST_PORT => $m->{rest_port}, CLIENT_PORT => $m->{client_port}, PEER_PORT => $m->{peer_port},
		ETCD_HOSTS => join(',', map { "$_->{address}:$_->{client_port}" } $self->machines),
		ETCD_CLUSTER => join(',', map { "$_->{name}=http://$_->{address}:$_->{peer_port}" } $self->machines),
		ETCD_DATA => "$m->{folder}/etcd-data", DATA => "$m->{folder}/data", STATE => $m->{folder},
		SOCKETS => "$m->{folder}/socket", BIN => $self->{bin}, DATABASE => 'credit',
		NETWORK => $self->{network}, USER => scalar(getpwuid($>)), WATCHDOG => 'off',
		REST_PASSWORD => $self->{password}{rest},
		SUPERUSER_PASSWORD => $self->{password}{superuser},
		REPLICATION_PASSWORD => $self->{password}{replication});

	foreach my $file (qw(patroni.yml etcd))
	{
		my $text = read_text("$self->{source}/packaging/patroni/$file");

		$text =~ s/\@([A-Z_]+)\@/$word{$1} \/\/ die "packaging\/patroni\/$file: what is $1?\n"/ge;
		write_text("$m->{folder}/$file", $text);
		chmod 0600, "$m->{folder}/$file";
	}
	foreach (split /\n/, read_text("$m->{folder}/etcd"))
	{
		$m->{etcd_environment}{$1} = $2 if /^(ETCD_\w+)=(.*)/;
	}
	return;
}

# Starts a program, whose output goes to a file, in a process group of its own.
# It dies with this process, however that ends.
sub start_process
{
	my ($environment, $log, @command) = @_;
	my $pid = fork() // die "fork: $!\n";

	return $pid if $pid;
	setpgrp(0, 0);
	%ENV = (%ENV, %$environment) if $environment;
	open(STDIN, '<', '/dev/null');
	open(STDOUT, '>>', $log) or POSIX::_exit(126);
	open(STDERR, '>&', \*STDOUT);
	exec('setpriv', '--pdeathsig', 'KILL', @command) or POSIX::_exit(127);
}

sub start_etcd
{
	my ($self, $m) = @_;

	$m->{running}{etcd} = start_process($m->{etcd_environment}, "$m->{folder}/etcd.log", $self->inside($m), 'etcd');
	return;
}

sub start_patroni
{
	my ($self, $m) = @_;

	$m->{running}{patroni} = start_process({ PATH => "$self->{bin}:$ENV{PATH}" }, "$m->{folder}/patroni.log",
		$self->inside($m), 'patroni', "$m->{folder}/patroni.yml");
	return;
}

sub start_machine
{
	my ($self, $m) = @_;

	$self->join_network($m);
	$self->start_etcd($m);
	$self->start_patroni($m);
	return;
}

# The processes of a machine's PostgreSQL: the first of them and its children.
sub postgres_pids
{
	my ($self, $m) = @_;
	my ($first) = -e "$m->{folder}/data/postmaster.pid" ? read_text("$m->{folder}/data/postmaster.pid") =~ /^(\d+)/ : ();
	my @pids;

	return unless $first && (readlink("/proc/$first/cwd") // '') eq "$m->{folder}/data";
	foreach my $stat (glob('/proc/[0-9]*/stat'))
	{
		open(my $file, '<', $stat) or next;
		my ($pid, $parent) = (<$file> // '') =~ /^(\d+) \(.*\) \S (\d+)/ or next;

		push @pids, $pid if $parent == $first;
	}
	return ($first, @pids);
}

# SIGKILL, as a machine that loses its power: no process says goodbye.
sub kill_postgres
{
	my ($self, $m) = @_;

	kill('KILL', $self->postgres_pids($m));
	return;
}

sub kill_program
{
	my ($self, $m, $program) = @_;
	my $pid = delete $m->{running}{$program} or return;

	kill('KILL', $pid);
	waitpid($pid, 0);
	return;
}

# With namespaces its last packets reach nobody.
sub kill_machine
{
	my ($self, $m) = @_;

	$self->leave_network($m);
	$self->kill_program($m, 'patroni');
	$self->kill_postgres($m);
	$self->kill_program($m, 'etcd');
	return;
}

# As systemd would: a program that ended starts again.
sub restart_ended
{
	my ($self, $m) = @_;

	foreach my $program (sort keys %{ $m->{running} })
	{
		next if waitpid($m->{running}{$program}, POSIX::WNOHANG()) == 0;
		my $start = "start_$program";

		$self->$start($m);
	}
	return;
}

sub leave_network
{
	my ($self, $m) = @_;

	run('ip', 'link', 'set', $m->{name}, 'down') if $self->{namespaces};
	return;
}

# Cuts a machine off from the two others; clients still reach it.
sub leave_machines
{
	my ($self, $m) = @_;

	foreach my $other (grep { $_ != $m } $self->machines)
	{
		run($self->inside($m), 'ip', 'route', 'add', 'blackhole', "$other->{address}/32");
		run($self->inside($other), 'ip', 'route', 'add', 'blackhole', "$m->{address}/32");
	}
	$m->{blackholes} = 1;
	return;
}

sub join_network
{
	my ($self, $m) = @_;

	return unless $self->{namespaces};
	run('ip', 'link', 'set', $m->{name}, 'up');
	return unless delete $m->{blackholes};
	foreach my $other (grep { $_ != $m } $self->machines)
	{
		run($self->inside($m), 'ip', 'route', 'del', 'blackhole', "$other->{address}/32");
		run($self->inside($other), 'ip', 'route', 'del', 'blackhole', "$m->{address}/32");
	}
	return;
}

# How clients find the primary: docs/ha.md.
sub address
{
	my ($self, $user, $database) = @_;

	return join(' ', 'host=' . join(',', map { $_->{address} } $self->machines),
		'port=' . join(',', map { $_->{port} } $self->machines),
		"dbname=$database", "user=$user", "password=$self->{password}{clients}",
		'target_session_attrs=read-write', 'connect_timeout=2',
		'keepalives_idle=1', 'keepalives_interval=1', 'keepalives_count=3', 'tcp_user_timeout=4000');
}

# A session of the superuser on a machine's socket; nothing if it is down.
sub session
{
	my ($self, $m, $database) = @_;

	return DBI->connect("dbi:Pg:dbname=$database;host=$m->{folder}/socket;port=$m->{port}", 'postgres', undef,
		{ RaiseError => 1, PrintError => 0, PrintWarn => 0, AutoInactiveDestroy => 1 });
}

# The first value of a query on a machine, within three seconds; undef if it
# does not answer.
sub ask
{
	my ($self, $m, $sql, $database) = @_;
	my $value = eval {
		local $SIG{ALRM} = sub { die "no answer\n" };
		my ($dbh, $answer);

		# a handler of perl's own would wait for libpq's read to end
		POSIX::sigaction(POSIX::SIGALRM(), POSIX::SigAction->new(sub { die "no answer\n" }, POSIX::SigSet->new, 0));
		alarm(3);
		$dbh = $self->session($m, $database || 'postgres');
		($answer) = $dbh->selectrow_array($sql);
		$dbh->disconnect;
		alarm(0);
		$answer;
	};

	alarm(0);
	# a server that goes away is what this is about; any other error is a mistake
	die $@ if !defined $value && $@ && ($DBI::state || '') =~ /^(42|22|23|UC|P0|0A|2B)/;
	return $value;
}

# The machines that take writes: one, or none during a failover.
sub primaries
{
	my ($self) = @_;

	return grep { ($self->ask($_, 'SELECT NOT pg_is_in_recovery()') // '') eq '1' } $self->machines;
}

# Waits until there is one primary, which two standbys follow, one of them
# synchronous; returns it.
sub wait_until_whole
{
	my ($self, $seconds, $meanwhile) = @_;
	my $until = time() + $seconds;

	while (time() < $until)
	{
		$self->restart_ended($_) foreach $self->machines;
		$meanwhile->() if $meanwhile;
		my @primaries = $self->primaries;

		return $primaries[0] if @primaries == 1
		  && ($self->ask($primaries[0], q{SELECT count(*) FILTER (WHERE state = 'streaming') || ' ' ||
			count(*) FILTER (WHERE sync_state IN ('sync', 'quorum')) FROM pg_stat_replication
			WHERE application_name LIKE 'm_'}) // '') eq '2 1';
		sleep(0.3);
	}
	die "the three machines did not come together within $seconds s\n";
}

# Ends everything at once.
sub stop
{
	my ($self) = @_;

	foreach my $m ($self->machines)
	{
		eval { $self->join_network($m) };
		$self->kill_program($m, 'patroni');
		$self->kill_postgres($m);
	}
	foreach my $m ($self->machines)
	{
		$self->kill_program($m, 'etcd');
		next unless $m->{keeps};
		kill('KILL', $m->{keeps});
		waitpid($m->{keeps}, 0);
	}
	return;
}

1;
