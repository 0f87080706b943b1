# Calls.pm: the calls of calls.txt
package Calls;

use strict;
use warnings;

use FindBin;

# The instant at which the clock is frozen.
use constant NOW => '2027-06-01 00:00+00';

# The logins that make calls: members of gpucredit_<role>.
our @ROLES = qw(admin operator app agent auditor tenant);

# Calls in order, each {role, fn, args => [[name, literal], ...]}.
sub all
{
	my $file = "$FindBin::RealBin/../hostile/calls.txt";
	my @calls;

	open(my $in, '<', $file) or die "could not open $file: $!";
	while (my $line = <$in>)
	{
		next if $line =~ /^\s*(#|$)/;
		my ($role, $fn, $rest) = $line =~ /^(\w+)\s+(\w+)\s*(.*?)\s*$/
		  or die "$file, line $.: not a call\n";
		my %call = (role => $role, fn => $fn, args => []);

		while ($rest =~ s/^(\w+) => ('(?:[^']|'')*'|[\w.-]+)(?:, |$)//)
		{
			push @{ $call{args} }, [ $1, $2 ];
		}
		die "$file, line $.: what is \"$rest\"?\n" if $rest ne '';
		push @calls, \%call;
	}
	close($in);
	return @calls;
}

# A call as SQL; some arguments may be replaced by other literals.
sub sql
{
	my ($call, %instead) = @_;

	return sprintf('SELECT * FROM gpucredit.%s(%s)',
		$call->{fn},
		join(', ', map { qq{"$_->[0]" => } . ($instead{ $_->[0] } // $_->[1]) }
			  @{ $call->{args} }));
}

# Logins for every role, once for a server.
sub logins
{
	return join('',
		(map { "CREATE ROLE h_$_ LOGIN IN ROLE gpucredit_$_;\n" } @ROLES),
		"CREATE ROLE h_nobody LOGIN;\n");
}

# The functions of the interface with their arguments: all that any role may
# call, except functions of types.
sub interface
{
	return q{
		SELECT p.proname, a.name, pg_catalog.format_type(a.type, NULL)
		FROM pg_catalog.pg_proc p
			LEFT JOIN ROWS FROM (
				unnest(p.proargnames[1:p.pronargs]),
				unnest(p.proargtypes::oid[])) a (name, type) ON true
		WHERE p.pronamespace = 'gpucredit'::regnamespace
			AND p.proname <> 'sees'
			AND (p.prosecdef OR p.proname IN ('now', 'meter'))
			AND EXISTS (SELECT FROM pg_catalog.pg_roles r
				WHERE r.rolname LIKE 'gpucredit\_%'
					AND has_function_privilege(r.oid, p.oid, 'EXECUTE'))
		ORDER BY 1};
}

1;
