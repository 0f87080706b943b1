#!/usr/bin/perl
# reference.pl: prints docs/reference.md, as the catalogue has it
#
#   perl reference.pl [DATABASE]
#
# Reads a database with gpucredit, on a server that has the library preloaded,
# through psql: roles and their grants, error codes, settings, types, functions
# and views, each with its comment.  This file has what the catalogue does not
# hold: what a role is for, and what an error code means.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use ReferencePage;

$ENV{PGDATABASE} = $ARGV[0] if @ARGV;
$ENV{PGOPTIONS}  = '-c search_path=gpucredit,pg_catalog -c client_min_messages=warning';

my @roles = (
	[ admin    => 'billing' ],
	[ operator => 'cluster operation' ],
	[ app      => 'your API' ],
	[ agent    => 'node agents' ],
	[ auditor  => 'auditors: read everything, change nothing' ],
	[ tenant   => 'tenants who connect themselves, for the accounts `bind_tenant` gives them' ]);

my @errors = (
	[ UC001 => 'no such account' ],
	[ UC002 => 'no such bucket' ],
	[ UC003 => 'no such hold, or the hold is closed, past its ttl, or a job\'s' ],
	[ UC101 => 'a bad budget: amount below 0, unknown period, bad thresholds' ],
	[ UC201 => 'the key was used with other arguments' ],
	[ UC202 => 'over a rate limit; the hint says how long to wait' ],
	[ UC203 => 'the organisation has stored as much as it may' ],
	[ UC301 => 'no such job' ],
	[ UC302 => 'no such attempt' ],
	[ UC303 => 'not possible in this state' ],
	[ UC401 => 'no such pool or node' ],
	[ UC402 => 'unknown tier or GPU type' ],
	[ UC901 => 'the table is append-only' ],
	[ 22003 => 'an amount does not fit, is NaN or infinite, or has more than 6 decimals' ],
	[ 22004 => 'a null in an array of devices' ],
	[ 22007 => 'a text that is no instant' ],
	[ 22008 => 'an instant with a field that is out of range, such as month 99' ],
	[ 22023 => 'an argument has a value it cannot have' ],
	[ '22P02' => 'a malformed request, amount or device set' ],
	[ '22P03' => 'a malformed value in binary form' ],
	[ 25001 => '`seal_audit` runs above READ COMMITTED, where it cannot see what others committed' ],
	[ 25006 => 'a call that writes, on a standby or in a READ ONLY transaction' ],
	[ 40001 => 'another transaction was faster: repeat the transaction' ],
	[ '40P01' => 'deadlock: repeat the transaction' ],
	[ 42501 => 'this role may not do that' ],
	[ 42704 => 'no such role' ],
	[ 53400 => 'the organisation has as many terminals and forwarded ports open as it may' ],
	[ 55000 => 'pg_cron is missing, the library is not preloaded, `gpucredit.relay` is not set, or a row is not sealed yet; the hint says what to do' ],
	[ XX001 => 'stored data is inconsistent; `verify()` says where' ]);

# Who may do what with an object of ours: the short names of roles.
my $granted = q{(SELECT string_agg(regexp_replace(r.rolname, '^gpucredit_', ''), ' ' ORDER BY r.rolname)
	FROM aclexplode(%s) a JOIN pg_roles r ON r.oid = a.grantee
	WHERE a.privilege_type = '%s' AND (r.rolname ~ '^gpucredit_' OR r.rolname = 'pg_monitor'))};

my @functions = rows(sprintf(q{
	SELECT * FROM (
		SELECT p.proname, pg_get_function_arguments(p.oid),
			pg_get_function_result(p.oid),
			coalesce(t.typrelid, 0), %s AS roles, obj_description(p.oid, 'pg_proc')
		FROM pg_proc p JOIN pg_type t ON t.oid = p.prorettype
		WHERE p.pronamespace = 'gpucredit'::regnamespace
			AND obj_description(p.oid, 'pg_proc') <> '') f
	WHERE f.roles <> '' ORDER BY f.proname, f.pg_get_function_arguments COLLATE "C"}, sprintf($granted, 'p.proacl', 'EXECUTE')));
my @relations = rows(sprintf(q{
	SELECT * FROM (
		SELECT c.relname, c.relkind, c.oid, %s AS roles, obj_description(c.oid, 'pg_class')
		FROM pg_class c
		WHERE c.relnamespace = 'gpucredit'::regnamespace AND c.relkind IN ('r', 'v')) f
	WHERE f.roles <> '' AND f.obj_description !~ '^Internal' ORDER BY 1},
	sprintf($granted, 'c.relacl', 'SELECT')));
my @plain_views = rows(sprintf(q{
	SELECT * FROM (
		SELECT c.relname, c.relkind, c.oid, %s AS roles, obj_description(c.oid, 'pg_class')
		FROM pg_class c
		WHERE c.relnamespace = 'gpucredit_views'::regnamespace AND c.relkind = 'v') f
	WHERE f.roles <> '' ORDER BY 1}, sprintf($granted, 'c.relacl', 'SELECT')));
my $everybody = join(' ', sort map { $_->[0] } @roles);
my %columns;

push @{ $columns{ $_->[0] } }, $_ foreach rows(q{
	SELECT a.attrelid, a.attname, format_type(a.atttypid, a.atttypmod),
		col_description(a.attrelid, a.attnum)
	FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
	WHERE c.relnamespace IN ('gpucredit'::regnamespace, 'gpucredit_views'::regnamespace) AND c.relkind IN ('c', 'r', 'v')
		AND a.attnum > 0 AND NOT a.attisdropped
	ORDER BY a.attrelid, a.attnum});

print <<'END';
# Reference

`tools/reference` writes this page from the catalogue; do not edit it.
[Roles](#roles) · [Errors](#errors) · [Settings](#settings) · [Types](#types) ·
[Functions](#functions) · [Views and tables](#views-and-tables) ·
[Views for tools that reflect a schema](#views-for-tools-that-reflect-a-schema)

END
print_roles();
print_errors();
print_settings();
print_types();
print_functions();
print_relations();
print <<'END';
## Views for tools that reflect a schema
They are in schema `gpucredit_views`, have types of PostgreSQL's own alone, and show each role what it may see ([clients](clients.md#tools-that-reflect-a-schema)).

END
print_each('gpucredit_views.', @plain_views);

sub print_roles
{
	my %all  = map { $_->[0] => 1 } grep { $_->[4] eq $everybody } @functions;
	my @some = grep { !$all{ $_->[0] } } @functions;

	print <<"END";
## Roles
PUBLIC may do nothing. Create your own logins and grant each one of these roles. Superusers may call everything.
Every role executes @{[ join(', ', map { "`$_`" } sort keys %all) ]}.

| role | for | may execute | may read |
|---|---|---|---|
END
	foreach my $role (@roles, [ pg_monitor => 'monitoring systems' ])
	{
		my ($name, $purpose) = @$role;

		printf("| `%s` | %s | %s | %s |\n",
			$name =~ /^pg_/ ? $name : "gpucredit_$name", $purpose,
			join(', ', of_role($name, 4, @some)),
			$name =~ /^(admin|auditor)$/ ? 'every table' : join(', ', of_role($name, 3, @relations)));
	}
	print "\n";
	return;
}

# The names of what a role may use, each once; $at is where the roles stand.
sub of_role
{
	my ($role, $at, @objects) = @_;

	return names(grep { " $_->[$at] " =~ / \Q$role\E / } @objects);
}

sub print_errors
{
	print <<'END';
## Errors
An expected refusal is a row with `status = 'denied'` and a reason: `insufficient_credits`, `budget_exceeded`, `quota_exceeded`,
`account_suspended`, `no_price` or `impossible_request`. Everything below is an error: nothing was written, and the hint says what to do.

END
	print_error_rows(\@errors, @functions);
	return;
}

sub print_settings
{
	my %when = (superuser => 'superusers', user => 'any role',
		sighup => 'server file, reload', postmaster => 'server file, restart');

	print <<'END';
## Settings
Times take units (`'90s'`, `'7d'`).

| setting | default | range | who sets it | meaning |
|---|---|---|---|---|
END
	foreach my $s (rows(q{
		SELECT name, boot_val, coalesce(unit, ''),
			CASE WHEN vartype IN ('integer', 'real') THEN min_val || ' ' || max_val END,
			context, short_desc, extra_desc
		FROM pg_settings WHERE name LIKE 'gpucredit.%' ORDER BY name}))
	{
		my ($name, $default, $unit, $range, $context, $short, $long) = @$s;

		printf("| `%s` | %s | %s | %s | %s |\n", $name,
			$default eq '' ? '(empty)' : with_unit($default, $unit),
			join(' to ', map { with_unit($_, $unit) } split / /, $range),
			$when{$context}, cell(join(' ', grep { $_ ne '' } $short, $long)));
	}
	print "\n";
	return;
}

# A number of a setting's unit, in the largest unit that divides it.
sub with_unit
{
	my ($n, $unit) = @_;

	return $n if $n eq '0' || $unit eq '';
	foreach my $step ([ 'ms', 1000, 's' ], [ 's', 60, 'min' ], [ 'min', 60, 'h' ], [ 'h', 24, 'd' ])
	{
		($n, $unit) = ($n / $step->[1], $step->[2])
		  if $unit eq $step->[0] && $n % $step->[1] == 0;
	}
	return $unit eq 'B' ? "$n bytes" : "$n$unit";
}

sub print_types
{
	print "## Types\n| type | |\n|---|---|\n";
	printf("| `%s` | %s |\n", $_->[0], cell($_->[1])) foreach rows(q{
		SELECT typname, obj_description(oid, 'pg_type') FROM pg_type
		WHERE typnamespace = 'gpucredit'::regnamespace AND typtype = 'b' AND typelem = 0
		ORDER BY 1});
	print "\n";
	return;
}

sub print_functions
{
	print "## Functions\n",
	  "By the first word of their comments, as `\\df+ gpucredit.*` shows them. Helpers are in schema `gpucredit_internal`, which no role may use.\n\n";
	print_function_groups(\%columns, @functions);
	return;
}

sub print_relations
{
	print <<'END';
## Views and tables
Programs read the views. Of tables that only administrators and auditors read, the columns are not listed (`\d+` shows them).

END
	print_each('', @relations);
	return;
}

# Prints relations of a schema, each with its columns.
sub print_each
{
	my ($schema, @listed) = @_;

	foreach my $r (@listed)
	{
		my ($name, $kind, $oid, $roles, $comment) = @$r;

		print "### ", ($kind eq 'v' ? 'View' : 'Table'), " $schema$name\n";
		print paragraph($comment =~ s/\.?$/./r), " Roles: $roles.\n\n";
		next if $kind eq 'r' && $roles eq 'admin auditor';
		print "| column | type | |\n|---|---|---|\n";
		printf("| %s | %s | %s |\n", $_->[1], $_->[2], cell($_->[3])) foreach @{ $columns{$oid} };
		print "\n";
	}
	return;
}
