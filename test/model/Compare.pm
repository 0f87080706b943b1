# Compare.pm: the whole state of an organisation, in one query
#
# take() fetches it; compare() says where the model differs.
package Compare;

use strict;
use warnings;

use Model::Figures;

# Microseconds since 1970; infinity is '-'.
sub us
{
	my ($column) = @_;

	return "CASE WHEN pg_catalog.isfinite($column) THEN (extract(epoch"
	  . " FROM $column) * 1000000)::bigint::text"
	  . " WHEN $column IS NOT NULL THEN '-' END";
}

# Lines of something, null columns as '-'.
sub lines
{
	my ($order, $from, @columns) = @_;
	my $line = join(" || ' ' || ", map { "coalesce(($_)::text, '-')" } @columns);

	return "(SELECT string_agg($line, E'\\n' ORDER BY $order) FROM $from)";
}

my @compartments = qw(available held spent expired revoked moved);
my $parts = "coalesce((SELECT string_agg(concat_ws(':', p.bucket, p.drawn,"
  . " p.held, p.spent, p.refunded, p.returned, p.lapsed), ' '"
  . " ORDER BY p.part) FROM gpucredit.hold_part p WHERE p.org = h.org"
  . " AND p.hold = h.hold), '')";
my $query = join(', ',
	lines('b.bucket', 'gpucredit.bucket_whole b WHERE b.org = $1',
		'b.bucket', "'''' || b.account || ''''", 'b.issued',
		map { "b.$_" } @compartments),
	lines('h.hold',
		'gpucredit.hold h WHERE h.org = $1 AND ($3 OR h.closed_at IS NULL)',
		'h.hold', 'h.job', 'h.held', $parts),
	lines('j.job', 'gpucredit.job j WHERE j.org = $1 AND j.ended_at IS NULL',
		qw(j.job j.state j.attempt j.failures j.hold)),
	lines('1',
		"gpucredit.budget_counter_whole c WHERE c.org = \$1"
		  . " AND (c.reserved <> '0' OR c.spent <> '0')",
		"c.account || '|' || c.period || '|' || "
		  . us('c.period_start'),
		'c.reserved', 'c.spent'),
	lines('u.account', 'gpucredit.uncollected u WHERE u.org = $1',
		"'''' || u.account || ''''", 'u.owed', 'u.written_off'),
	'(SELECT max(e.entry) FROM gpucredit.entry e WHERE e.org = $1)',
	lines('a.n',
		'unnest($2::text[]) WITH ORDINALITY a (account, n),'
		  . ' gpucredit.balance($1, a.account) b',
		"'''' || a.account || ''''",
		(map { "b.$_" }
			  qw(available spendable held used spent promo granted paid)),
		us('b.next_expiry_at'), 'b.next_expiry_amount'),
	lines('a.n, b.n',
		'unnest($2::text[]) WITH ORDINALITY a (account, n),'
		  . ' gpucredit.buckets($1, a.account) WITH ORDINALITY'
		  . ' b (bucket, account, kind, priority, effective_at, expires_at,'
		  . ' issued, available, held, spent, expired, revoked, moved,'
		  . ' policy, usable, why, n)',
		'b.bucket', 'b.issued', (map { "b.$_" } @compartments),
		'b.usable::int'),
	lines('a.n',
		'unnest($2::text[]) WITH ORDINALITY a (account, n),'
		  . ' gpucredit.budgets($1, a.account) b',
		"'''' || b.account || ''''", 'b.period', us('b.period_start'),
		'b.amount', 'b.reserved', 'b.spent', 'b.remaining', 'b.hard::int'));

# The state of an organisation, with the figures of these accounts; all holds,
# or only open ones.
sub read_state
{
	my ($dbh, $org, $accounts, $all) = @_;
	my $statement = $dbh->prepare_cached("SELECT $query");

	$statement->execute($org, $accounts, $all ? 1 : 0);
	my ($row) = @{ $statement->fetchall_arrayref };
	my %seen;

	@seen{qw(all_buckets holds jobs counters owed entry balance buckets budgets)} =
	  map { $_ // '' } @$row;
	return { %seen, org => $org, accounts => $accounts, all => $all };
}

# Differences: a list of lines, expected and found.
sub compare
{
	my ($m, $seen) = @_;
	my $org = $seen->{org};
	my @accounts = @{ $seen->{accounts} };
	my %expected = (
		all_buckets => [ Model::Figures::all_buckets($m, $org) ],
		holds    => [ Model::Figures::holds($m, $org, $seen->{all}) ],
		jobs     => [ Model::Figures::jobs($m, $org) ],
		counters => [ Model::Figures::counters($m, $org) ],
		owed     => [ Model::Figures::owed($m, $org) ],
		balance  => [ map { Model::Figures::balance($m, $org, $_) } @accounts ],
		buckets  => [ map { Model::Figures::buckets($m, $org, $_) } @accounts ],
		budgets  => [ map { Model::Figures::budgets($m, $org, $_) } @accounts ]);
	my @differences;

	foreach my $what (sort keys %expected)
	{
		my @found = split(/\n/, $seen->{$what});

		s/ +$// foreach @found;
		@found = sort @found if $what =~ /^(counters|budgets)$/;
		my @wanted = @{ $expected{$what} };

		@wanted = sort @wanted if $what =~ /^(counters|budgets)$/;
		next if "@found" eq "@wanted";
		my %found  = map { $_ => 1 } @found;
		my %wanted = map { $_ => 1 } @wanted;

		push @differences,
		  (map { "$what expected: $_" } grep { !$found{$_} } @wanted),
		  (map { "$what found:    $_" } grep { !$wanted{$_} } @found);
		push @differences, "$what: the order differs"
		  unless @differences;
	}
	return @differences;
}

1;
