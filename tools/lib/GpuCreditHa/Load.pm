# GpuCreditHa/Load.pm: what applications and an agent do while machines fail
#
# Each client repeats a call under its key until it is answered, and then writes
# the key down: an acknowledged call.
package GpuCreditHa::Load;

use strict;
use warnings;

use DBI;
use JSON::PP;
use POSIX ();
use Time::HiRes qw(sleep time);

use GpuCreditHa::Cluster;

# A process that calls function(dbh, n) for n = 1, 2, ... until it is ended, at
# most once each "pause" seconds.  A line "n since answered" of its file is an
# acknowledged call.  function returns what else the line says.
sub client
{
	my ($cluster, $user, $file, $pause, $function) = @_;
	my $parent = $$;
	my $pid = fork() // die "fork: $!\n";

	return $pid if $pid;
	my $ended = 0;
	my ($dbh, $out);
	my $dsn = 'dbi:Pg:' . $cluster->address($user, 'credit') =~ s/ /;/gr;

	setpgrp(0, 0);
	$SIG{TERM} = sub { $ended = 1 };
	open($out, '>>', $file) or POSIX::_exit(1);
	$out->autoflush(1);
	for (my $n = 1; !$ended && getppid() == $parent; $n++)
	{
		my $since = time();
		my $answer;

		until (defined $answer)
		{
			POSIX::_exit(0) if $ended || getppid() != $parent;
			$answer = eval {
				$dbh ||= DBI->connect($dsn, undef, undef,
					{ RaiseError => 1, PrintError => 0, PrintWarn => 0, AutoInactiveDestroy => 1 });
				$function->($dbh, $n);
			};
			next if defined $answer;
			my $message = $@;

			print STDERR "$user: $message" unless ($DBI::state || '08006') =~ /^(08|57|25006|40|53|S1|HY|22000)/;
			eval { $dbh->disconnect } if $dbh;
			undef $dbh;
			sleep(0.2);
		}
		print $out join(' ', $n, $since, time(), $answer), "\n";
		sleep($pause);
	}
	POSIX::_exit(0);
}

# Credit is issued, a unit a call.
sub issues
{
	my ($cluster, $file) = @_;

	return client($cluster, 'billing', $file, 0.02, sub {
		my ($dbh, $n) = @_;

		$dbh->selectrow_array(q{SELECT gpucredit.issue('acme', '', ?, 1)}, undef, "load $n");
		return 'issued';
	});
}

# Short jobs; each writes the moment of its start.  The line has the job.
sub jobs
{
	my ($cluster, $file, $starts) = @_;

	return client($cluster, 'app', $file, 0.2, sub {
		my ($dbh, $n) = @_;
		my $spec = JSON::PP->new->canonical->encode({
			script => qq{#!/bin/bash\ndate +%s.%N >>$starts/$n\n} });
		my ($status, $job) = $dbh->selectrow_array(q{
			SELECT status, job FROM gpucredit.reserve('acme', '', ?, '1xT4', '10 min', spec => ?)},
			undef, "job $n", $spec);

		return $status eq 'granted' ? $job : $status;
	});
}

# The lines of a client's file: [n, since, answered, what].
sub acknowledged
{
	my ($file) = @_;

	return map { [ split / /, $_, 4 ] } grep { /\S/ } -e $file ? split(/\n/, GpuCreditHa::Cluster::read_text($file)) : ();
}

# When the first job ran that was submitted after an instant, as far as is known
# now; undef if none has run.
sub first_start_since
{
	my ($file, $starts, $instant) = @_;
	my $first;

	foreach my $line (acknowledged($file))
	{
		my ($n, $since) = @$line;

		next if $since < $instant || !-s "$starts/$n";
		my ($at) = GpuCreditHa::Cluster::read_text("$starts/$n") =~ /^([\d.]+)/ or next;

		$first = $at if !defined $first || $at < $first;
	}
	return $first;
}

1;
