#!/usr/bin/perl
# reference.pl: prints evals/reference.md, as the catalogue has it
#
#   perl reference.pl [DATABASE]
#
# Reads a database with gpucredit_eval through psql: roles and what they may
# execute, error codes, and functions with their comments.  This file has what
# the catalogue does not hold: what a role is for, and what a code means.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../../tools/lib";
use ReferencePage;

$ENV{PGDATABASE} = $ARGV[0] if @ARGV;
$ENV{PGOPTIONS}  = '-c search_path=gpucredit_eval,pg_catalog -c client_min_messages=warning';

my @roles = (
	[ gpucredit_admin       => 'billing' ],
	[ gpucredit_app         => 'your API; it says neither what must pass nor what an endpoint costs' ],
	[ gpucredit_auditor     => 'auditors: read gates and results, change nothing' ],
	[ gpucredit_eval_worker => 'workers, on machines that curators trust' ],
	[ gpucredit_operator    => 'who says where models answer and what they cost' ],
	[ gpucredit_tenant      => 'curators, raters and CI, for the accounts that `bind_tenant` gives them' ]);

my @errors = (
	[ UC601   => 'no such set, config, endpoint, run or stream, or the caller may not see it' ],
	[ UC602   => 'not possible in this state, which the detail names' ],
	[ UC603   => 'what is reported or rated was never leased, answered or handed in' ],
	[ UC604   => 'it would show something of held-out cases' ],
	[ UC001   => 'no such account, or the caller may not act as it' ],
	[ UC201   => 'the key, or the request of production, was used with other arguments' ],
	[ UC501   => 'no such model of the registry' ],
	[ UC504   => 'the registry refuses to move the ref' ],
	[ UC901   => 'the table is append-only' ],
	[ '0A000' => 'the database\'s encoding is not UTF8' ],
	[ 22023   => 'an argument has a value it cannot have' ],
	[ 42501   => 'this role may not do that' ]);

my @functions = rows(q{
	SELECT * FROM (
		SELECT p.proname, pg_get_function_arguments(p.oid), pg_get_function_result(p.oid),
			coalesce(t.typrelid, 0),
			(SELECT string_agg(r.rolname, ' ' ORDER BY r.rolname) FROM aclexplode(p.proacl) a
				JOIN pg_roles r ON r.oid = a.grantee
				WHERE a.privilege_type = 'EXECUTE' AND a.grantee <> p.proowner) AS roles,
			obj_description(p.oid, 'pg_proc')
		FROM pg_proc p JOIN pg_type t ON t.oid = p.prorettype
		WHERE p.pronamespace = 'gpucredit_eval'::regnamespace) f
	WHERE f.roles <> '' ORDER BY f.proname, f.pg_get_function_arguments COLLATE "C"});
my %columns;

push @{ $columns{ $_->[0] } }, $_ foreach rows(q{
	SELECT a.attrelid, a.attname, format_type(a.atttypid, a.atttypmod)
	FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
	WHERE c.relnamespace = 'gpucredit_eval'::regnamespace AND c.relkind = 'c'
		AND a.attnum > 0 AND NOT a.attisdropped
	ORDER BY a.attrelid, a.attnum});

print <<'END';
# Reference of gpucredit_eval

`evals/tools/reference` writes this page from the catalogue; do not edit it. [README](README.md) says how the parts work together.
[Roles](#roles) · [Errors](#errors) · [Functions](#functions)

END
print_roles();
print_errors();
print_functions();

sub print_roles
{
	print "## Roles\nPUBLIC may do nothing. Superusers may call everything.\n\n| role | for | may execute |\n|---|---|---|\n";
	foreach my $role (@roles)
	{
		my ($name, $purpose) = @$role;

		printf("| `%s` | %s | %s |\n", $name, $purpose,
			join(', ', names(grep { " $_->[4] " =~ / \Q$name\E / } @functions)));
	}
	my %known = map { $_->[0] => 1 } @roles;
	my @unknown = grep { !$known{$_} } map { split / /, $_->[4] } @functions;
	die "reference.pl does not say what role $unknown[0] is for\n" if @unknown;
	print "\n";
	return;
}

sub print_errors
{
	print <<'END';
## Errors
An expected refusal is a row with `status = 'denied'` and a reason. Everything below is an error: nothing was written, and the hint says what to do. Errors of gpucredit and of the registry pass through.

END
	print_error_rows(\@errors, @functions);
	return;
}

sub print_functions
{
	print "## Functions\n",
	  "By the first word of their comments, as `\\df+ gpucredit_eval.*` shows them.\n\n";
	print_function_groups(\%columns,
		map { [ @$_[ 0 .. 3 ], join(', ', map { s/^gpucredit_//r } split / /, $_->[4]), $_->[5] ] }
		  @functions);
	return;
}
