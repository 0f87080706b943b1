# Catalogue.pm: what a role may call, read from the catalogue
#
# Nothing here names a function, so that a new one is attacked on the day on
# which it is granted.  A function is {name, args => [{name, type, default}],
# changes, gives => {column => 1}, words => {argument => [...]}}; gives are the
# columns of its result, words the values that its comment lists for an argument.
package Catalogue;

use strict;
use warnings;

sub functions
{
	my ($dbh, $role) = @_;
	my $rows = $dbh->selectall_arrayref(
		q{SELECT p.oid, p.proname, p.provolatile = 'v' AS changes,
			pg_catalog.obj_description(p.oid, 'pg_proc') AS comment,
			array(SELECT a.attname::text FROM pg_catalog.pg_type t
				JOIN pg_catalog.pg_attribute a ON a.attrelid = t.typrelid
				WHERE t.oid = p.prorettype AND a.attnum > 0) AS columns,
			p.proargnames[i] AS arg,
			pg_catalog.format_type(p.proargtypes[i - 1], NULL) AS type,
			i > p.pronargs - p.pronargdefaults AS has_default
		FROM pg_catalog.pg_proc p
			LEFT JOIN LATERAL generate_series(1, p.pronargs) i ON true
		WHERE p.pronamespace = 'gpucredit'::pg_catalog.regnamespace
			AND (p.prosecdef OR p.proretset)
			AND pg_catalog.has_function_privilege($1, p.oid, 'EXECUTE')
		ORDER BY p.proname, p.oid, i}, { Slice => {} }, $role);
	my (@functions, %known);

	foreach my $row (@$rows)
	{
		my $function = $known{ $row->{oid} };

		if (!$function)
		{
			$function = $known{ $row->{oid} } = {
				name    => $row->{proname},
				changes => $row->{changes},
				args    => [],
				gives   => { map { $_ => 1 } @{ $row->{columns} } },
				words   => {} };
			push @functions, $function;
		}
		next unless defined $row->{type};
		push @{ $function->{args} },
		  { name => $row->{arg}, type => $row->{type}, default => $row->{has_default} };
		$function->{words}{ $row->{arg} } = listed($row->{comment}, $row->{arg});
	}
	return \@functions;
}

# The words that a comment lists for an argument: "outcome: completed, failed."
sub listed
{
	my ($comment, $arg) = @_;
	my ($text) = ($comment // '') =~ /(?:^|[.:] )\Q$arg\E: ([^.:]*)/m;

	return [] unless defined $text && $text =~ /,/;
	return [ grep { /^[a-z_]+$/ } split /(?:,| or | and )\s*/, $text ];
}

1;
