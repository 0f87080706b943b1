# GpuCreditSession.pm: psql that is kept from one statement to the next
#
# A test asks its server hundreds of things, and while it waits for something it
# asks ten times a second.  A psql of its own for each, with a server process of
# its own, costs more than most tests do otherwise.  With this module, safe_psql
# and poll_query_until of PostgreSQL::Test::Cluster send a statement to a psql
# that is already connected to that database.
#
# A statement that could leave something behind in its session is followed by
# what returns the session to its first state, as a connection pool does it
# (cleaning_after).  Where that is not enough, the statement has a psql of its own
# (needs_own_psql).  A test that counts the connections of a server by other means,
# or that tests what a new session finds, must call forget_sessions first, which
# ends the kept ones.
package GpuCreditSession;

use strict;
use warnings;
use Exporter 'import';
use File::Temp ();
use IPC::Open3;
use Test::More;
use Time::HiRes qw(sleep time);

our @EXPORT_OK = qw(keep_sessions forget_sessions messages_of);

my %sessions;	# by process, address, database and what libpq reads
my $mark = 'the answer ends here 9c1f6f0e';

# Words of statements that change what DISCARD ALL resets.
my $changes = join '|', qw(
  SET RESET set_config DISCARD LISTEN UNLISTEN PREPARE EXECUTE DEALLOCATE DECLARE TEMP TEMPORARY
  pg_advisory_lock pg_advisory_lock_shared pg_try_advisory_lock);

# Words of statements that may leave a transaction open.
my $opens = 'BEGIN|START|COMMIT|ROLLBACK|SAVEPOINT';

# Words of statements that change their session otherwise, that tell about it, or
# that read what follows them.
my $own = 'LOAD|COPY|pg_backend_pid|pg_reload_conf';

# Words of statements that fail, or count wrongly, while other sessions of the
# test are open, and of those that only new sessions obey.
my $all = 'DATABASE|EXTENSION|ROLE|USER|SYSTEM|FUNCTION|pg_stat_activity|pg_terminate_backend';

# Replaces the two methods of PostgreSQL::Test::Cluster.  A session does not
# outlive a server that stops or starts, also where it is another one's: it may
# have a connection of its own to that server.
sub keep_sessions
{
	my $safe_psql        = \&PostgreSQL::Test::Cluster::safe_psql;
	my $poll_query_until = \&PostgreSQL::Test::Cluster::poll_query_until;

	no warnings 'redefine';
	*PostgreSQL::Test::Cluster::safe_psql = sub {
		my ($node, $db, $sql, %params) = @_;

		return $safe_psql->(@_) if %params || needs_own_psql($sql);
		return answer($node, $db, $sql);
	};
	*PostgreSQL::Test::Cluster::poll_query_until = sub {
		my ($node, $db, $sql, $expected) = @_;

		return $poll_query_until->(@_) if !defined $sql || needs_own_psql($sql);
		return poll($node, $db, $sql, $expected // 't');
	};
	foreach my $name (qw(start stop restart kill9 promote))
	{
		no strict 'refs';
		my $method = \&{"PostgreSQL::Test::Cluster::$name"};

		*{"PostgreSQL::Test::Cluster::$name"} = sub { forget_sessions(); return $method->(@_) };
	}
	return;
}

# Whether a statement has a psql of its own.  So has a long one: while psql reads
# it, psql may wait for its answers to be read, which happens only later.  A
# backslash outside of quotes is a command to psql.  Ends the kept sessions if they
# could be in the statement's way, which SET ROLE is not.
sub needs_own_psql
{
	my ($sql) = @_;
	my $words  = $sql =~ s/\b(?:SET|RESET)\s+(?:(?:LOCAL|SESSION)\s+)?ROLE\b/SET/gir;
	my $unquoted = $sql =~ s/'[^']*'//gr;

	forget_sessions() if $words =~ /\b(?:$all)\b/i;
	return length $sql > 30_000 || $unquoted =~ /\\/ || $words =~ /\b(?:$own|$all)\b/i;
}

# The statements after which a session is as it was before this one.  What the
# session counted reaches the statistics at once, as if it ended.
sub cleaning_after
{
	my ($sql) = @_;
	my $opened = $sql =~ /\b(?:$opens)\b/i;

	return '' unless $opened || $sql =~ /\b(?:$changes)\b/i;
	return ($opened ? "SET client_min_messages = error;\nROLLBACK;\n" : '')
	  . "DISCARD ALL;\nSELECT pg_stat_force_next_flush() \\g /dev/null\n";
}

# Returns whether a statement fails, and what psql writes about it: of an error
# only the SQLSTATE.
sub messages_of
{
	my ($node, $db, $sql) = @_;

	# A kept psql survives an error only with ON_ERROR_STOP off, and then runs the
	# statements after the one that failed.  So there may be only one, but for SET
	# before it.  The first error is the one that counts.
	my $after_set = $sql =~ s/\A(?:\s*SET\s[^;']*(?:'[^']*')?\s*;)+//ir;

	if (needs_own_psql($sql) || $after_set =~ /;\s*\S/)
	{
		my ($status, undef, $err) = $node->psql($db, "\\set VERBOSITY sqlstate\n$sql");
		return ($status != 0, $err);
	}

	my (undef, $err) = ask($node, $db, $sql,
		"\\set ON_ERROR_STOP 0\n\\set VERBOSITY sqlstate\n",
		"\\set ON_ERROR_STOP 1\n\\set VERBOSITY default\n");
	return ($err =~ /^(?:psql:.*)?(?:ERROR|FATAL):/m, $err);
}

# What a statement answers; an error ends the test, as in safe_psql.
sub answer
{
	my ($node, $db, $sql) = @_;
	my ($out, $err, $failed) = ask($node, $db, $sql);

	die "error running SQL: '$err'\nwith sql '$sql'" if $failed;
	print "#### Begin standard error\n$err\n#### End standard error\n" if $err ne '';
	return $out;
}

# Repeats a statement until it answers what is expected.  Returns false if that
# does not happen within the timeout of PostgreSQL's tests.
sub poll
{
	my ($node, $db, $sql, $expected) = @_;
	my $until = time + $PostgreSQL::Test::Utils::timeout_default;

	for (;;)
	{
		my ($out, $err) = ask($node, $db, $sql);

		return 1 if $out eq $expected && $err eq '';
		if (time > $until)
		{
			diag("poll_query_until timed out executing this query:\n$sql\n"
				  . "expecting this output:\n$expected\n"
				  . "last actual query output:\n$out\nwith stderr:\n$err");
			return 0;
		}
		sleep(0.1);
	}
}

# Sends a statement to the psql of a database, between commands to psql.  Returns
# what it answered, what it wrote on standard error, and whether it ended because of
# an error.
sub ask
{
	my ($node, $db, $sql, $before, $after) = @_;
	my $session = session($node, $db);
	my ($text, $failed) = ('', 0);

	local $SIG{PIPE} = 'IGNORE';
	print { $session->{to} } join '', $before // '', "$sql\n;\n", $after // '',
	  cleaning_after($sql), "\\echo '$mark'\n";
	until ($text =~ s/^\Q$mark\E\n\z//m)
	{
		my $read = sysread($session->{from}, $text, 65536, length $text);

		next if !defined $read && $!{EINTR};
		next if $read;
		$failed = 1;
		last;
	}
	my $err = join '', readline($session->{err});
	seek($session->{err}, 0, 1);	# readline stays at the end of a file without this
	forget($session) if $failed;
	chomp($text, $err);
	return ($text, $err, $failed);
}

# The psql of a database, which is started if there is none, or if its server
# process is gone.
sub session
{
	my ($node, $db) = @_;
	my $key = join "\0", $$, $node->host, $node->port, $db,
	  map { $ENV{$_} // '' } qw(PGOPTIONS PGUSER PGAPPNAME PGTZ PGCLIENTENCODING);
	my $session = $sessions{$key};

	# a process that ended and was not waited for has no folder
	return $session if $session && readlink("/proc/$session->{server}/cwd");
	forget($session) if $session;

	my $file = File::Temp->new;
	open(my $err, '<', $file->filename) or die "could not read $file: $!\n";
	open(my $write_err, '>>', $file->filename) or die "could not write $file: $!\n";
	local %ENV = (%ENV, PGHOST => $node->host, PGPORT => $node->port);
	my $pid = open3(my $to, my $from, '>&' . fileno($write_err),
		'psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-d', connection_string($node, $db));
	$to->autoflush(1);
	$session = { key => $key, pid => $pid, to => $to, from => $from, err => $err, file => $file };
	print $to "SELECT pg_backend_pid();\n";
	my $server = readline($from);
	my $said   = join '', readline($err);
	seek($err, 0, 1);
	if (!defined $server)
	{
		forget($session);
		die "error running SQL: '$said'\n";
	}
	chomp($session->{server} = $server);
	return $sessions{$key} = $session;
}

sub connection_string
{
	my ($node, $db) = @_;

	return $node->connstr($db) if $node->can('connstr');
	return "dbname=$db user=postgres";
}

# Ends a psql.  It would not notice that its input is closed here as long as a
# process that the test has forked since has a copy of it.
sub forget
{
	my ($session) = @_;

	local $? = 0;
	delete $sessions{ $session->{key} };
	kill('TERM', $session->{pid});
	waitpid($session->{pid}, 0);
	close $session->{to};
	close $session->{from};
	return;
}

# Ends this process's sessions.
sub forget_sessions
{
	forget($_) foreach grep { $_->{key} =~ /\A$$\0/ } values %sessions;
	return;
}

END { forget_sessions() }

1;
