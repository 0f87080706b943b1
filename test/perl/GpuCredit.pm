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
use File::Basename;
use POSIX ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

our @EXPORT = qw(
  new_node new_database query query_fails sqlstate_of verify_empty
  slurp_checkout connect_to next_notification in_parallel wait_for_children kill_server
);

# Starts a server with defaults fit for tests.  Further arguments are lines of
# postgresql.conf, the later ones winning.  Its disk writes are real: the
# tests that kill servers need them.
sub new_node
{
	my ($name, @conf) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);

	$node->init;
	$node->append_conf('postgresql.conf',
		join("\n", 'fsync = on', 'max_connections = 100', @conf, ''));
	$node->start;
	return $node;
}

# Creates a database with the extension in it, and with others named.
sub new_database
{
	my ($node, $db, @others) = @_;

	$node->safe_psql('postgres', qq{CREATE DATABASE "$db"});
	$node->safe_psql($db, "CREATE EXTENSION $_") foreach 'gpucredit', @others;
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
	my ($status, $out, $err) =
	  $node->psql($db, "\\set VERBOSITY sqlstate\n$sql");

	return '' if $status == 0;
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
