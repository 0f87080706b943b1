package GpuCreditSoak::Db;

# Db.pm - a connection of one of the soak's processes, and the measuring of calls
#
# Every measured call becomes a line for the parent process: the call's name, the
# kind of organisation, seconds, and what came of it ("ok", "denied", "busy" or an
# SQLSTATE).

use strict;
use warnings;
use DBI;
use Exporter 'import';
use Time::HiRes qw(time);

our @EXPORT = qw(connect_db);

# A connection to the database that PG* names.  Options: user, dbname.
sub connect_db
{
	my (%options) = @_;
	my $dsn = 'dbi:Pg:application_name=soak';

	$dsn .= ";dbname=$options{dbname}" if $options{dbname};
	return DBI->connect($dsn, $options{user} // $ENV{PGUSER}, undef,
		{   AutoCommit          => 1,
			RaiseError          => 1,
			PrintError          => 0,
			PrintWarn           => 0,
			AutoInactiveDestroy => 1 });
}

# Measures calls over a connection; $out is where the lines go.
sub new
{
	my ($class, $out, %options) = @_;

	$out->autoflush(1);
	return bless { out => $out, db => connect_db(%options) }, $class;
}

sub handle { return $_[0]{db}; }

# Runs a statement and reports it; returns its rows, or nothing if it failed.
# 40001 and 40P01 are repeated, as a client does, and count as one call.
sub call
{
	my ($self, $name, $kind, $sql, @arguments) = @_;
	my $began = time;
	my $rows;
	my $result = 'ok';

	foreach my $try (1 .. 20)
	{
		$rows = eval {
			my $statement = $self->{db}->prepare_cached($sql);
			$statement->execute(@arguments);
			$statement->{NUM_OF_FIELDS} ? $statement->fetchall_arrayref({}) : [];
		};
		last if $rows;
		$result = $self->{db}->state || 'lost';
		last unless $result =~ /^40(?:001|P01)$/;
	}
	$result = 'ok' if $rows;
	$result = 'denied' if $rows && @$rows == 1 && ($rows->[0]{status} // '') eq 'denied';
	$self->report($name, $kind, time - $began, $result);
	$self->complain("$name: " . ($self->{db}->errstr // 'the connection was lost'))
	  unless $rows;
	return $rows;
}

# Reports a duration that the caller has measured.
sub report
{
	my ($self, $name, $kind, $seconds, $result) = @_;

	print { $self->{out} } join("\t", 'call', $name, $kind, sprintf('%.6f', $seconds),
		$result), "\n";
	return;
}

# Reports the text of an error, of which the parent prints the first ones.
sub complain
{
	my ($self, $text) = @_;

	$text =~ s/\s+/ /g;
	print { $self->{out} } "error\t$text\n";
	return;
}

1;
