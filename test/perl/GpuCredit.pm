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
# tools/test runs them with everything in place.  Run by hand, as a user who
# may start servers (not root), they use the extension that is installed:
#   prove test/t
package GpuCredit;

use strict;
use warnings;

# Finds PostgreSQL's test modules and programs.  GC_PG_CONFIG names the
# pg_config to ask; GC_BIN, the folder of the programs where that differs.
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
	$ENV{PG_REGRESS} ||= "$pgxs/test/regress/pg_regress";

	# PostgreSQL's modules keep data folders and logs below TESTDIR
	unless ($ENV{TESTDIR} || $^C)
	{
		require File::Temp;
		$ENV{TESTDIR} = File::Temp::tempdir('gpucredit-XXXXXX',
			TMPDIR  => 1,
			CLEANUP => 1);
	}
}

use Cwd 'abs_path';
use Exporter 'import';
use File::Basename;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

our @EXPORT = qw(
  new_node new_database query query_fails sqlstate_of verify_empty
  slurp_checkout
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

# Creates a database with the extension in it.
sub new_database
{
	my ($node, $db) = @_;

	$node->safe_psql('postgres', qq{CREATE DATABASE "$db"});
	$node->safe_psql($db, 'CREATE EXTENSION gpucredit');
	return;
}

# What a statement returns, columns separated by | and rows by newlines; an
# error of it ends the test.
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

	return is($node->safe_psql($db, 'SELECT * FROM gpucredit.verify()'),
		'', $name || 'verify() is empty');
}

# The text of a file of the checkout.
sub slurp_checkout
{
	my ($path) = @_;

	return slurp_file(dirname(abs_path(__FILE__)) . "/../../$path");
}

1;
