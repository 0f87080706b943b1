# 096_operating.pl: the commands of docs/operating.md work, what it and
# docs/consistency.md name exists, and the reference has every error code
#
# Blocks marked sh, sql and conf run unchanged, in their order.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use GpuCredit;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $root = "$FindBin::RealBin/../..";
my $text = slurp_file("$root/docs/operating.md");
my @blocks;

push @blocks, [ $1, $2 ] while $text =~ /^```(\w+)\n(.*?)^```$/msg;
cmp_ok(scalar(@blocks), '>=', 12, 'there are commands');

my $node = PostgreSQL::Test::Cluster->new('primary');

init_node($node, allows_streaming => 1);
$node->append_conf('postgresql.conf',
	join('', "max_connections = 50\n",
		map { $_->[0] eq 'conf' ? $_->[1] =~ s{/run/postgresql}{$node->host}er : () } @blocks));
$node->start;
{
	my $folder = PostgreSQL::Test::Utils::tempdir();

	local $ENV{PGHOST}     = $node->host;
	local $ENV{PGPORT}     = $node->port;
	local $ENV{PGDATABASE} = 'mydb';
	local $ENV{PATH} = slow_dump($folder) . ":$ENV{PATH}";

	chdir $folder or die "$folder: $!\n";
	foreach my $block (@blocks)
	{
		my ($kind, $commands) = @$block;
		my ($name) = $commands =~ /^\s*(.*)/;
		my ($out, $err) = ('', '');

		next unless $kind =~ /^(sh|sql)$/;
		my $ran = IPC::Run::run(
			$kind eq 'sh' ? [ 'bash', '-eu', '-o', 'pipefail', '-' ] :
			[ 'psql', '-X', '-q', '-At', '-v', 'ON_ERROR_STOP=1', '-f', '-' ],
			'<', \$commands, '>', \$out, '2>', \$err);

		ok($ran, "runs: $name") or diag($out, $err);
		is(join('', grep { $_ ne 't' } split /\n/, $out), '', 'says nothing but t')
		  if $commands =~ /'gpucredit_preloaded'/;
	}
	chdir $root;
}
verify_empty($node, 'mydb',     'the database');
query($node, 'postgres', 'ALTER DATABASE mydb_before ALLOW_CONNECTIONS true');
verify_empty($node, 'mydb_before', 'the one before it');
is(query($node, $_->[0], q{SELECT count(*) FROM gpucredit.accounts WHERE account = 'late'}), $_->[1],
	"an account that was made after the dump is $_->[2]")
  foreach [ 'mydb_before', 1, 'in the database from before' ], [ 'mydb', 0, 'not in the restored one' ];
is(query($node, 'mydb_before', 'SELECT audits_unsealed FROM gpucredit.seal_status'), 0,
	'the audit row of the account that was made after the dump is sealed');

# The queries of docs/slo.md: those in SQL run, and those for Prometheus name metrics that there are.
my $slo = slurp_file("$root/docs/slo.md");
my @sql = $slo =~ /^```sql\n(.*?)^```/msg;
my ($daemon) = slurp_file("$root/http/src/counters.c");
my @unknown = grep { my $name = s/_(?:bucket|count|sum)$//r; $daemon !~ /# TYPE $name / &&
	!query($node, 'mydb', "SELECT count(*) FROM gpucredit_internal.metric_families() f WHERE 'gpucredit_' || f.family = '$name'") }
	join('', $slo =~ /^```promql\n(.*?)^```/msg) =~ /\b(gpucreditd?_\w+)/g;

cmp_ok(scalar(@sql), '>=', 3, 'objectives have queries');
like(query($node, 'mydb', "SET ROLE gpucredit_auditor;\n$_"), qr/^[\d.|{},\w]*$/, 'an auditor measures: ' . s/\n.*//sr) foreach @sql;
is(join(' ', @unknown), '', 'the objectives for Prometheus name only metrics that there are');
$node->stop;

# The page explains each alert and each event of the log, and no others.
my %alerts  = map { $_ => 1 } slurp_file("$root/monitoring/alerts.yml") =~ /alert: (\w+)/g;
my %told    = map { $_ => 1 } $text =~ /^\| (Gpucredit\w+) \|/mg;
my %events;

foreach my $file (glob("$root/src/*/*.c $root/src/*/*/*.c"))
{
	my $code = slurp_file($file);

	$events{$_} = 1 foreach map { /"([a-z]+_[a-z_]+)"/g } $code =~ /(?:LogBegin|log_life)\(([^;]*?)\);/gs;
	$events{$_} = 1 foreach $code =~ /LogBegin\(audit\.decision\)/ ? ('device_failed', 'device_back') : ();
}
my %explained = map { map { $_ => 1 } /`(\w+)`/g } $text =~ /^\| (`\w+`(?:, `\w+`)*) \|/mg;

is_deeply([ sort keys %told ], [ sort keys %alerts ], 'every alert is explained');
my $rules = slurp_file("$root/monitoring/alerts.yml");
my %runbook = map { $_ => 1 } $rules =~ m{runbook_url: '\{\{ or \$externalLabels\.gpucredit_docs "[^"]+" \}\}/operating\.md#(\w+)'}g;
is_deeply([ sort keys %runbook ], [ sort map { lc } keys %alerts ], 'every alert has the address of its runbook');
is(join(' ', grep { $text !~ /^\| \w+ \| <a id="$_"><\/a>/m } sort keys %runbook), '', 'the address of each runbook leads to its line');
is_deeply([ sort keys %explained ], [ sort keys %events ], 'every event of the log is explained');

# What the pages name exists, with the quoted words.
foreach my $page (qw(docs/operating.md docs/consistency.md),
	map { s{^\Q$root/}{}r } glob("$root/docs/decisions/*.md"))
{
	my $page_text = slurp_file("$root/$page") =~ s/\s+/ /gr;
	my @missing;

	while ($page_text =~ m{`((?:test|sql|docs|monitoring|tools)/[\w./-]+)`((?:,?(?: and| there)? "[^"]+")*)}g)
	{
		my ($path, $quotes) = ($1, $2);

		push @missing, $path unless -e "$root/$path";
		push @missing, map { "$path: $_" } grep { !is_in($path, $_) } $quotes =~ /"([^"]+)"/g
		  if -f "$root/$path";
	}
	is(join(', ', @missing), '', "$page names what is there");
}

# Each code that a function's comment names is explained by the reference.
my %code = map { $_ => 1 }
  slurp_file("$root/tools/lib/reference.pl") =~ /^\t\[ '?(\w{5})'? => /mg;
my %thrown;

foreach my $file (glob("$root/sql/gpucredit/*.sql"))
{
	$thrown{$_} = 1 foreach map { /\b(?:UC\d{3}|\d[0-9A-Z]{4})\b/g }
	  slurp_file($file) =~ /\bErrors: (.*?)';$/msg;
}
cmp_ok(scalar(keys %thrown), '>=', 18, 'there are error codes');
is_deeply([ grep { !$code{$_} } sort keys %thrown ], [], 'the reference has all of them');
done_testing();

# Is a text in a file, in what it is expected to print, or over lines of a comment?
sub is_in
{
	my ($path, $quoted) = @_;
	my $file = slurp_file("$root/$path");

	$file .= slurp_file("$root/expected/$1.out") if $path =~ m{^sql/(\w+)\.sql$};
	return $file =~ s/\n\s*(?:--|#|\*)\s*/ /gr =~ s/\s+/ /gr =~ /\Q$quoted\E/i;
}

# A pg_dump for the front of the PATH, during which upkeep goes on.
sub slow_dump
{
	my ($folder) = @_;
	my ($dump) = grep { -x } map { "$_/pg_dump" } split /:/, $ENV{PATH};

	mkdir "$folder/bin" or die "$folder/bin: $!\n";
	append_to_file("$folder/bin/pg_dump", <<"END");
#!/bin/sh
set -e
'$dump' "\$@"
psql -XqAt -d mydb -c "SELECT gpucredit.create_account('acme', 'late')" >/dev/null
psql -XqAt -d mydb -c 'SELECT gpucredit.seal_audit()' >/dev/null
END
	chmod 0755, "$folder/bin/pg_dump";
	return "$folder/bin";
}
