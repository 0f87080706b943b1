# ReferencePage.pm: what the pages share that are made of a catalogue
#
# A page reads a database through psql, whose address is in the environment.
package ReferencePage;

use strict;
use warnings;

use Exporter qw(import);

our @EXPORT = qw(rows names paragraph cell print_error_rows print_function_groups);

# What a query returns: fields and rows are told apart by characters that no
# comment has.
sub rows
{
	my ($query) = @_;

	open(my $psql, '-|', 'psql', '-XqAt', '-v', 'ON_ERROR_STOP=1',
		'-F', "\x1f", '-R', "\x1e", '-c', $query)
	  or die "could not run psql: $!\n";
	local $/;
	my $text = <$psql> // '';
	close($psql) or die "psql failed\n";
	chomp($text);
	$text =~ s/\n\z//;
	return map { [ split /\x1f/, $_, -1 ] } split /\x1e/, $text;
}

# The names of objects as code, each once; an object begins with its name.
sub names
{
	my %seen;

	return map { "`$_`" } grep { !$seen{$_}++ } map { $_->[0] } @_;
}

# A comment's text as Markdown.
sub paragraph
{
	my ($text) = @_;

	return $text =~ s/([*<\\])/\\$1/gr;
}

# The same in a cell of a table.
sub cell
{
	my ($text) = @_;

	return paragraph($text) =~ s/\|/\\|/gr =~ s/\n/ /gr;
}

# Prints a row for each error: its code, its meaning, and the functions whose
# comments name it.  Functions are those of print_function_groups.
sub print_error_rows
{
	my ($errors, @functions) = @_;
	my %meaning = map { $_->[0] => $_->[1] } @$errors;
	my %raised;

	foreach my $f (@functions)
	{
		my ($codes) = $f->[5] =~ /\bErrors: (.*)/s;

		foreach my $code (($codes // '') =~ /\b(UC\d{3}|\d[0-9A-Z]{4}|XX\d{3})\b/g)
		{
			die "$f->[0] raises $code, which reference.pl does not explain\n"
			  unless $meaning{$code};
			$raised{$code}{ $f->[0] } = 1;
		}
	}
	print "| code | meaning | functions that name it in their comment |\n|---|---|---|\n";
	foreach my $error (@$errors)
	{
		my ($code, $meaning) = @$error;
		my @by = sort keys %{ $raised{$code} || {} };

		printf("| %s | %s | %s |\n", $code, $meaning,
			@by > 12 ? scalar(@by) . ' functions' : join(', ', map { "`$_`" } @by));
	}
	print "\n";
	return;
}

# Prints the functions by the first word of their comments: first the names of
# each group, then each function.  A function is its name, arguments, result,
# the oid of the row type that it returns, roles and comment; columns are those
# of a row type.
sub print_function_groups
{
	my ($columns, @functions) = @_;
	my %group;

	foreach my $f (@functions)
	{
		my ($group, $text) = $f->[5] =~ /^(\w+): (.*)/s or die "$f->[0] belongs nowhere\n";

		die "$f->[0] is internal, and granted\n" if $group eq 'Internal';
		push @{ $group{$group} }, [ @$f, ucfirst($text) ];
	}
	printf("- **%s**: %s\n", $_, join(', ', names(@{ $group{$_} }))) foreach sort keys %group;
	print "\n";
	foreach my $f (map { @{ $group{$_} } } sort keys %group)
	{
		my ($name, $arguments, $result, $row, $roles, undef, $comment) = @$f;
		my $list = join(', ', map { "$_->[1] $_->[2]" } @{ $columns->{$row} || [] });

		print "### $name\n", "`$name($arguments)`", "\n\n";
		print map { paragraph($_) . "\n\n" } split /\n/, $comment;
		print "Returns `$result`", ($list ne '' ? ": `$list`" : ''), ". Roles: $roles.\n\n";
	}
	return;
}

1;
