# Fuzz.pm: random calls of all functions
#
# The functions and their arguments come from the catalogue, so a new function
# is fuzzed at once.  A value is chosen by the argument's name if that is known
# (Calls.pm), else by its type; one in four is nonsense of that type.  A
# client's calls depend on its seed alone, never on an answer.
package Fuzz;

use strict;
use warnings;

use Calls;

# Values for arguments of a name.
my %meant = (
	org     => [qw(acme other none), ''],
	account => [ '', qw(vision vision/alice vision/bob speech) ],
	pool    => [qw(default spare nowhere)],
	node    => [qw(n1 n2 n3 n4 n5 n6), ('n9') x 6],
	tier    => [qw(standard_training interactive fast best_effort)],
	request => [ '1xH100', '2xA100', '1-4x*', '8xH100|A100', '0.5xH100', '0', '1xX9' ],
	topology    => [qw(any node nvlink leaf)],
	preemptible => [qw(never capacity spot)],
	period      => [qw(day week month quarter year total)],
	by          => [qw(account tier gpu_type day job)],
	kind        => [qw(paid promo grant entry audit)],
	outcome     => [qw(completed failed out_of_memory timeout preempted cancelled node_lost resized)],
	class       => [qw(transient permanent)],
	operation   => [qw(reserve hold meter settle)],
	role        => [qw(h_tenant h_nobody h_gone)],
	running     => [ '{}', '{acme/1/1,other/3/1}', '{acme/2/1}', '{x}', '{acme/99999999999999999999/1}' ],
	options     => [ '{}', '{"priority": 5}', '{"prefer": "nvlink"}', '{"priority": "x"}' ],
	policy      => [ '{}', '{"packing": "spread"}', '{"reclaim": true}', '{"max_share": 0.5}',
		'{"gpu_types": ["H100"]}', '{"tier_share": {"best_effort": 0.2}}' ],
	what => [ '{"jobs": [{"org": "acme", "request": "2xH100"}]}', '{"nodes": [{"node": "x", "gpu_type": "H100", "gpus": 8}]}' ],
	spec => [ '{}', '{"cache": "c1"}', '{"checkpoint_every": "10 min"}' ],
	elapsed   => [ '0 s', '1 s', '20 s', '10 min', '2 h' ],
	per_second => [ 1000, 100000 ],
	burst      => [ 1000, 100000 ],
	gpu_type   => [qw(H100 A100 X9 B*), '' ],
	gpus       => [ 0 .. 8, 64, 65 ],
	n          => [ 1, 2, 4, 64 ],
	weight     => [ 1, 2, 0.5 ],
	sha256     => ['0123456789abcdef0123456789abcdef']);
my %same = (
	from_account => 'account', to_account => 'account', key => undef,
	tenant => 'org', leaf => 'account');

# Nonsense and edge cases by type; other types are texts.
my %edge = (
	bigint   => [ 0, -1, 1, 2, 3, '9223372036854775807', '-9223372036854775808' ],
	integer  => [ 0, -1, 1, 2, 3, 100, 2147483647, -2147483648 ],
	smallint => [ 0, -1, 32767 ],
	numeric  => [ 0, 1, 5, 0.000001, 100, -1, "'NaN'", "'Infinity'", "'-Infinity'",
		'0.0000001', '9223372036854.775807', '9223372036854.775808', '1e30', '1e131071', '1e-16000' ],
	'numeric[]' => [ '{}', '{0.5,1}', '{NULL}', '{{1},{2}}', '[5:6]={1,2}', '{NaN}', '{1e300,-1}',
		'{' . join(',', (0.1) x 2000) . '}' ],
	interval => [ '1 h', '10 min', '0', '-1 s', '1 mon', '178000000 years', '1 us', '2147483647 days',
		'-2147483648 days -9223372036854775808 us', '100000 h' ],
	'interval[]' => [ '{1 s}', '{NULL}', '{}', '{{1 s},{2 s}}' ],
	'timestamp with time zone' => [ '2027-06-01 00:00+00', 'infinity', '-infinity', '294276-12-31 23:59:59+00',
		'4714-11-24 00:00:00+00 BC', 'now', '2000-01-01 00:00+00' ],
	'timestamp without time zone' => [ '2027-06-01', 'infinity' ],
	date    => [ '2027-06-01', 'infinity', '-infinity', '5874897-12-31', '4713-01-01 BC', 'today' ],
	boolean => [qw(true false)],
	jsonb   => [ '{}', '[]', 'null', '1', '"x"', '{"a": null}', '{"": ""}', '{"a": {"b": [1, {"c": 1e400}]}}',
		'{"x": "' . 'y' x 9000 . '"}', '[' x 500 . ']' x 500, '{"jobs": [[]], "nodes": {}}',
		'{"jobs": [{}]}', '{"priority": 99999999999999999999}' ],
	'double precision' => [ 0, 0.5, 1, -1, "'NaN'", "'Infinity'", '1e308', '-1e-308' ],
	bytea      => [ '', 'x', '\x00', '0123456789abcdef0123456789abcdef', '0123456789abcdef0123456789abcdefg' ],
	'text[]'   => [ '{}', '{a}', '{NULL}', '{"",""}', '{{a},{b}}', '[3:4]={a,b}', '{acme,acme,other}',
		'{' . join(',', ('acme') x 3000) . '}' ],
	'bigint[]'  => [ '{}', '{1}', '{1,2,3}', '{NULL}', '{{1},{2}}', '[0:1]={1,2}', '{9223372036854775807}',
		'{' . join(',', 1 .. 3000) . '}' ],
	'integer[]' => [ '{}', '{1}', '{1,1,1}', '{NULL,1}', '{{1}}', '{2147483647}', '{' . join(',', (1) x 3000) . '}' ],
	'double precision[]' => [ '{}', '{0.5}', '{NaN}', '{NULL}', '{1e308}' ],
	int4range   => [ '[1,2)', 'empty', '(,)', '[-2147483648,2147483647)' ],
	name        => [ 'h_tenant', 'x', 'y' x 63, 'postgres' ],
	oid         => [ 0, 1, 4294967295 ],
	'gpucredit.credits' => [ 0, 1, -1, "'9223372036854.775807'", "'-9223372036854.775808'", "'0.000001'" ],
	'gpucredit.gpureq'  => [ '1xH100', '1-4x*', '0', '8xH100|A100' ],
	'gpucredit.gpuset'  => [ '{}', '{0-7}', '{0,2,63}', '{0-63}' ],
	'gpucredit.credits[]' => [ '{}', '{1,2}', '{NULL}' ]);
my @text = (
	'', 'x', 'acme', '%s%n%d', q{a'b"c\d}, "\e[2J", "\n\r\t", "\x{1F4A9}", "\x{202E}x", 'y' x 255, 'y' x 256,
	'z' x 8192, 'z' x 100000, '(((((', '\\', '[[:alpha:]]+$', '(a+)+$', '1xH100', '{0-7}', '{}', 'NaN', '1e5',
	'acme/1/1', '9' x 40, '/', 'a//b', 'a/b/c/d/e/f/g/h/i/j', 'null', 'default');

# Allowed errors: of the interface, of malformed values, of rights, of
# concurrency; no internal error, and no table constraint.
our $REFUSAL = qr/^(?:UC\d\d\d|22...|42501|40001|40P01|25001|42704|55000|54000|54001|25P02|2201B)$/;
our $INTERNAL = qr/cache lookup|unexpected |SPI_|could not find|unrecognized|failed to find|invalid memory alloc|gpucredit found|does not hold|plan should not|cannot-happen|assert/i;

# functions: rows of name, argument, type, has a default, from the catalogue
sub new
{
	my ($class, $role, $seed, $rows) = @_;
	my (%args, @names);

	foreach my $row (@$rows)
	{
		push @names, $row->[0] unless $args{ $row->[0] };
		push @{ $args{ $row->[0] } }, $row;
	}
	my (%types, @known);

	$types{ $_->[0] =~ s/^gpucredit\.|#.*//gr }{ $_->[1] } = $_->[2] foreach @$rows;
	@known = grep { $types{ $_->{fn} } && $_->{fn} !~ /^(?:verify|metric|rebuild)/ } Calls::all();
	srand($seed);
	return bless(
		{   role  => $role,
			args  => \%args,
			names => \@names,
			types => \%types,
			known => \@known,
			key   => 0 },
		$class);
}

# The functions that a role may call, one row per argument.
sub functions
{
	my ($role) = @_;

	return qq{
		SELECT p.oid::regproc::text || '#' || p.oid, coalesce(p.proargnames[i], ''),
			pg_catalog.format_type(p.proargtypes[i - 1], NULL),
			i > p.pronargs - p.pronargdefaults, p.prosecdef OR p.proretset
		FROM pg_catalog.pg_proc p
			LEFT JOIN LATERAL generate_series(1, p.pronargs) i ON true
		WHERE p.pronamespace = 'gpucredit'::regnamespace
			AND has_function_privilege('$role', p.oid, 'EXECUTE')
			AND NOT p.proargtypes::oid[] || p.prorettype
				&& '{internal,trigger}'::regtype[]::oid[]
		ORDER BY p.proname, p.oid, i};
}

sub pick { return $_[ int(rand(@_)) ]; }

sub chance { return rand() < $_[0]; }

# The next statement: mostly a call that is known to work, with about one
# argument changed.
sub next_call
{
	my ($self) = @_;

	return $self->changed_call if @{ $self->{known} } && chance(0.6);
	my $id = pick(@{ $self->{names} });
	my @args;

	# these read everything, and are slow
	$id = pick(@{ $self->{names} })
	  if $id =~ /verify|metric|rebuild|capacity|demand/ && chance(0.8);
	my ($fn) = $id =~ /^(.*)#/;
	my $named = $self->{args}{$id}[0][4];

	foreach my $row (@{ $self->{args}{$id} })
	{
		my (undef, $name, $type, $has_default) = @$row;

		next unless defined $type && $type ne '' && $type ne '-' && $type ne '???';
		next if $named && $has_default && chance(0.4);
		my $value = $self->value($name, $type);

		# a name may be a keyword
		push @args, $named && $name ne '' ? qq{"$name" => $value} : $value;
	}
	return $named
	  ? "SELECT * FROM $fn(" . join(', ', @args) . ')'
	  : "SELECT $fn(" . join(', ', @args) . ')';
}

sub changed_call
{
	my ($self) = @_;
	my $call = pick(@{ $self->{known} });
	my %type = %{ $self->{types}{ $call->{fn} } };
	my $most = 1.2 / (@{ $call->{args} } || 1);
	my %instead;

	foreach my $arg (map { $_->[0] } @{ $call->{args} })
	{
		$instead{$arg} = $self->value($arg, $type{$arg})
		  if $arg eq 'key'
		  || $arg =~ /^(?:job|hold|bucket|attempt|node)$/ && chance(0.8)
		  || chance($most);
	}
	return Calls::sql($call, %instead);
}

# A literal of a type.
sub value
{
	my ($self, $name, $type) = @_;
	my $value;

	return "NULL::$type" if chance(0.04);
	$name = $same{$name} if defined $same{$name};
	if ($name eq 'key' && chance(0.9))
	{
		# a fourth are keys that were used before
		$value = chance(0.75) ? "$self->{role}" . ++$self->{key} : 'k' . int(rand(20));
	}
	elsif ($meant{$name} && chance(0.8))
	{
		$value = pick(@{ $meant{$name} });
	}
	elsif ($type =~ /^(?:bigint|integer)$/ && $name =~ /^(?:job|hold|bucket|entry|attempt|from_attempt)$/ && chance(0.85))
	{
		$value = 1 + int(rand($name =~ /attempt/ ? pick(1, 3) : pick(10, 60, 300)));
	}
	elsif ($edge{$type} && chance(0.95))
	{
		# most are the first, which make sense
		$value = chance(0.5) ? $edge{$type}[ int(rand(2)) ] : pick(@{ $edge{$type} });
	}
	else
	{
		$value = pick(@text);
	}
	$value = '' unless defined $value;
	$value =~ s/^'(.*)'$/$1/s;
	utf8::encode($value) if utf8::is_utf8($value);
	$value =~ s/'/''/g;
	$value =~ s/\\/\\\\/g;
	return "E'$value'" . ($type eq '"any"' ? '' : "::$type");
}

1;
