# GpuCredit.pm: what the TAP tests share, on top of PostgreSQL::Test::Cluster
#
# A test in test/t starts like this:
#
#   use strict;
#   use warnings;
#   use FindBin;
#   use lib "$FindBin::RealBin/../perl";
#   use GpuCredit;
#   use Test::More;
#
#   my $node = new_node('main');                  # a server, started
#   new_database($node, 'credit');                # with the extension in it
#   is(query($node, 'credit', 'SELECT ...'), '...', 'what a user sees');
#   verify_empty($node, 'credit');
#   done_testing();
#
# tools/test prepares everything and runs them.  Run by hand, as a user who may
# start servers (not root), they use the installed extension:
#   prove test/t
package GpuCredit;

use strict;
use warnings;

# Finds PostgreSQL's test modules and programs.  GC_PG_CONFIG names the
# pg_config to use, GC_BIN the folder of the programs if it differs.
my $pgxs;

BEGIN
{
	my $pg_config = $ENV{GC_PG_CONFIG};

	unless ($pg_config)
	{
		$pg_config = '/usr/lib/postgresql/15/bin/pg_config';
		$pg_config = 'pg_config' unless -x $pg_config;
	}
	chomp($pgxs = `$pg_config --pgxs`);
	chomp(my $bin = $ENV{GC_BIN} || `$pg_config --bindir`);
	$pgxs =~ s{/makefiles/pgxs\.mk$}{}
	  or die "$pg_config does not know where PGXS is\n";
	unshift @INC, "$pgxs/test/perl";
	$ENV{PATH} = "$bin:$ENV{PATH}";
	$ENV{PGCTLTIMEOUT} ||= 300;	# a minute is short for a busy machine
	$ENV{PG_REGRESS} ||= "$pgxs/test/regress/pg_regress";

	# PostgreSQL's modules keep data folders and logs below TESTDIR
	unless ($ENV{TESTDIR} || $^C)
	{
		require File::Temp;
		$ENV{TESTDIR} = File::Temp::tempdir('gpucredit-XXXXXX',
			TMPDIR  => 1,
			CLEANUP => 1);
	}

	# from 16 on they need these two
	if ($ENV{TESTDIR})
	{
		$ENV{TESTDATADIR} ||= "$ENV{TESTDIR}/tmp_check";
		$ENV{TESTLOGDIR}  ||= "$ENV{TESTDIR}/tmp_check/log";
	}
}

use Cwd 'abs_path';
use DBI;
use Exporter 'import';
use Fcntl ':flock';
use File::Basename;
use GpuCreditSession qw(keep_sessions forget_sessions messages_of);
use IPC::Run ();
use POSIX ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

our @EXPORT = qw(
  new_node fresh_node init_node new_database query query_fails sqlstate_of verify_empty
  forget_sessions slurp_checkout connect_to next_notification in_parallel wait_for_children kill_server
);

keep_sessions();

my %has_template;	# names of servers that have the database gpucredit_template

# Starts a server with defaults fit for tests.  Further arguments are lines of
# postgresql.conf, the later ones winning.  Nothing waits for the disk, also
# where a test kills servers: what a killed process wrote is with the kernel.
sub new_node
{
	my ($name, @conf) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);

	init_node($node);
	return started($node, @conf);
}

# The same for a test of what CREATE EXTENSION does first in a cluster, which
# makes roles: nobody has created it there.
sub fresh_node
{
	my ($name, @conf) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);

	$node->init;
	return started($node, @conf);
}

sub started
{
	my ($node, @conf) = @_;

	# processes for a parallel query cost more than a test's queries do
	$node->append_conf('postgresql.conf',
		join("\n", 'max_connections = 100', 'max_parallel_workers_per_gather = 0', @conf, ''));
	$node->start;
	return $node;
}

# $node->init, which costs a second of a processor, as does CREATE EXTENSION: both
# are done once in a run of tools/test, in a data folder that is copied.  It has
# the database gpucredit_template, whose only extension is gpucredit.
sub init_node
{
	my ($node, %params) = @_;
	my $template = template_folder();
	my $run      = \&PostgreSQL::Test::Utils::system_or_bail;

	no warnings 'redefine';
	local *PostgreSQL::Test::Utils::system_or_bail = sub {
		return $run->(@_) if $_[0] ne 'initdb';
		return $run->('cp', '-a', $template, $node->data_dir);
	};
	$node->init(%params);
	$has_template{ $node->name } = 1;
	return;
}

# The folder, which the first test that needs it makes while others wait.
sub template_folder
{
	my $parent = $ENV{GC_TEMPLATE} || "$ENV{TESTDIR}/template";
	my $folder = "$parent/data";

	mkdir $parent;
	open(my $lock, '>', "$parent/lock") or die "could not write $parent/lock: $!";
	flock($lock, LOCK_EX) or die "could not lock $parent/lock: $!";
	return $folder if -d $folder;

	my $making = "$parent/making";
	system('rm', '-rf', $making) == 0 or die "could not remove $making\n";
	# not in single-user mode: its first objects have numbers of system objects,
	# which pg_dump leaves out
	my $socket = PostgreSQL::Test::Utils::tempdir_short();
	my @server = ('pg_ctl', '-D', $making, '-w', '-l', "$parent/log");
	my @psql   = ('psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-h', $socket);
	run_or_die('initdb', '-D', $making, '-A', 'trust', '-N');
	run_or_die(@server, '-o', "-F -c listen_addresses='' -k $socket", 'start');
	run_or_die(@psql, '-d', 'postgres', '-c', 'CREATE DATABASE gpucredit_template');
	run_or_die(@psql, '-d', 'gpucredit_template', '-c', 'CREATE EXTENSION gpucredit');
	run_or_die(@server, 'stop');
	rename($making, $folder) or die "could not rename $making: $!";
	return $folder;
}

sub run_or_die
{
	my (@command) = @_;

	IPC::Run::run(\@command, '<', \undef, '>', '/dev/null', '2>', "$ENV{TESTDIR}/template.err")
	  or die "@command failed:\n" . slurp_file("$ENV{TESTDIR}/template.err");
	return;
}

# Creates a database with the extension in it, and with others named.  At
# wal_level = minimal the strategy wal_log, which is the default, loses the init
# forks of unlogged tables when the server is killed before the next checkpoint.
sub new_database
{
	my ($node, $db, @others) = @_;

	if ($has_template{ $node->name })
	{
		$node->safe_psql('postgres',
			qq{CREATE DATABASE "$db" TEMPLATE gpucredit_template STRATEGY file_copy});
	}
	else
	{
		$node->safe_psql('postgres', qq{CREATE DATABASE "$db"});
		unshift @others, 'gpucredit';
	}
	$node->safe_psql($db, join(';', map { "CREATE EXTENSION $_" } @others)) if @others;
	return;
}

# Returns a statement's result, columns separated by | and rows by newlines; an
# error ends the test.
sub query
{
	my ($node, $db, $sql) = @_;

	return $node->safe_psql($db, $sql);
}

# The SQLSTATE a statement fails with, '' if it does not fail.
sub sqlstate_of
{
	my ($node, $db, $sql) = @_;
	my ($failed, $err) = messages_of($node, $db, $sql);

	return '' unless $failed;
	return $1 if $err =~ /(?:ERROR|FATAL):\s+([0-9A-Z]{5})\b/;
	return $err;
}

# A test: the statement fails with this SQLSTATE.
sub query_fails
{
	my ($node, $db, $sql, $sqlstate, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	return is(sqlstate_of($node, $db, $sql), $sqlstate, $name);
}

# A test: every invariant holds.
sub verify_empty
{
	my ($node, $db, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	return is($node->safe_psql($db, 'SELECT * FROM gpucredit.verify() LIMIT 10'),
		'', $name || 'verify() is empty');
}

# A connection of DBI's, as a login if "user" names one; errors raise.
sub connect_to
{
	my ($node, $db, %options) = @_;
	my $dsn = sprintf('dbi:Pg:dbname=%s;host=%s;port=%s;application_name=%s',
		$db, $node->host, $node->port, $options{name} || 'test');

	return DBI->connect(
		$dsn, $options{user}, undef,
		{   AutoCommit          => 1,
			RaiseError          => 1,
			PrintError          => 0,
			AutoInactiveDestroy => 1,
			pg_enable_utf8      => 0 });
}

# The next notification that a connection of DBI's receives: its channel, the
# sender's process and the payload; nothing if none comes in time.  A committed
# notification arrives a moment after the sender's COMMIT has returned.
sub next_notification
{
	my ($dbh) = @_;
	my $until = time + $PostgreSQL::Test::Utils::timeout_default;

	for (;;)
	{
		my $one   = $dbh->pg_notifies;
		my $ready = '';

		return @$one if $one;
		return if time >= $until;
		vec($ready, $dbh->{pg_socket}, 1) = 1;
		select($ready, undef, undef, 1);
	}
}

# Forks so many processes, each of which calls the function with its number,
# from 0; returns their ids.  A process that dies prints why on standard error.
sub in_parallel
{
	my ($n, $function) = @_;
	my @pids;

	foreach my $i (0 .. $n - 1)
	{
		my $pid = fork();

		die "could not fork: $!" unless defined $pid;
		if ($pid == 0)
		{
			my $done = eval { $function->($i); 1 };

			print STDERR "process $i: $@" unless $done;
			POSIX::_exit($done ? 0 : 1);	# no END blocks: they stop servers
		}
		push @pids, $pid;
	}
	return @pids;
}

# Waits for processes of in_parallel; returns how many did not end well.
sub wait_for_children
{
	my $bad = 0;

	foreach my $pid (@_)
	{
		waitpid($pid, 0);
		$bad++ if $? != 0;
	}
	return $bad;
}

# Ends a server as a failing machine does: SIGKILL to the postmaster and all
# its processes, found by their working folder.  A dead postmaster whose parent
# is slow to reap it looks alive to the next one, so its pid files are removed
# once nothing runs.
sub kill_server
{
	my ($node) = @_;
	my $data = abs_path($node->data_dir);
	my @all  = processes_in($data);

	die "no /proc that tells of the server's processes\n" unless @all;
	$node->kill9;
	kill('KILL', @all);
	foreach my $turn (1 .. 1000)
	{
		last unless @all = processes_in($data);
		kill('KILL', @all);
		select(undef, undef, undef, 0.01);
	}
	die "processes of the server do not end: @all\n" if @all;
	unlink "$data/postmaster.pid",
	  sprintf('%s/.s.PGSQL.%d.lock', $node->host, $node->port);
	return;
}

# The processes with this working folder.
sub processes_in
{
	my ($folder) = @_;

	return grep { (readlink("/proc/$_/cwd") || '') eq $folder }
	  map { m{(\d+)$} } glob('/proc/[0-9]*');
}

# The text of a file of the checkout.
sub slurp_checkout
{
	my ($path) = @_;

	return slurp_file(dirname(abs_path(__FILE__)) . "/../../$path");
}

1;
