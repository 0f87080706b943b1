# 111_texts.pl: hostile texts in every textual argument
#
# Each call of test/hostile/calls.txt is made with each of its texts, names,
# documents and arrays replaced by hostile ones: quotes, NUL, 10 MB, broken
# UTF-8, formats, terminal sequences, marks of writing direction.  A name with
# a control character is refused.  Any other text is stored unchanged, and
# shown so that it spoils no terminal.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl", "$FindBin::RealBin/../hostile";
use Calls;
use GpuCredit;
use PostgreSQL::Test::Utils;
use Test::More;

# Each text as SQL, with the allowed result for a name and for another text:
# "-" any error of the interface, "ok" accepted, or only these codes.
my @texts = (
	[ 'quotes',       q{'a''b"c\d$$e;--'},                 '-',     'ok' ],
	[ 'comment',      q{'*/ DROP TABLE x; /*'},            '-',     'ok' ],
	[ 'format',       q{'%s%n%d%x%99999999d%1$s%%'},       '-',     'ok' ],
	[ 'long format',  q{repeat('%n', 100)},                '-',     'ok' ],
	[ 'escape',       q{E'\x1b[2J\x1b]0;x\x07'},           '22023', 'ok' ],
	[ 'newline',      q{E'a\r\nERROR:  forged\t\x08'},     '22023', 'ok' ],
	[ 'delete',       q{E'a\x7f'},                         '22023', 'ok' ],
	[ 'C1',           q{E'\u009b2J'},                      '22023', 'ok' ],
	[ 'right to left', q{E'a\u202Eb\u2066'},               '22023', 'ok' ],
	[ 'line separator', q{E'a\u2028b'},                    '22023', 'ok' ],
	[ 'no width',     q{E'\uFEFFa\u200Bb\u2060'},          '22023', 'ok' ],
	[ 'astral',       q{E'\U0001F4A9\U0010FFFF'},          '-',     'ok' ],
	[ 'cut at 255',   q{repeat('x', 254) || E'\u00e9'},    '22023', 'ok' ],
	[ 'cut at 64',    q{repeat('x', 63) || E'\u00e9\x1b'}, '22023', 'ok' ],
	[ 'empty',        q{''},                               '-',     '-' ],
	[ '10 MB',        q{repeat(E'\u00e9', 5000000)},       '22023', '22023' ],
	[ '10 MB squeezed', q{repeat('x', 10000000)},          '22023', '22023' ],
	[ 'NUL',          q{E'a\x00b'},                        '22021', '22021' ],
	[ 'broken UTF-8', q{E'a\xc3'},                         '22021', '22021' ],
	[ 'surrogate',    q{E'\xed\xa0\x80'},                  '22021', '22021' ],
	[ 'overlong',     q{E'\xc0\xaf'},                      '22021', '22021' ]);

# What an argument is: a name unless it is here.
my %text = map { $_ => 1 } qw(
  cancel.reason requeue_job.reason signal_job.reason update_job.reason hold_job.reason release_job.reason checkpoint.uri drain.reason issue.memo refund.reason
  part_ended.log_uri part_ended.message refund_hold.reason revoke.reason
  set_retry_rule.advice settle.log_uri log_put.message
  settle.message store_file.body write_off.reason);
# Keys are the caller's own, and as long as names.
my %key = map { ($_ => 1) } qw(empty), '10 MB', '10 MB squeezed', 'cut at 255';
# Texts with a grammar of their own.
my %grammar = map { $_ => 1 } qw(
  audit_proof.kind buckets_for.request buckets_for.tier buckets_for.pool
  reserve.request quote.request set_retry_rule.message usage_by.by waste_by.by heartbeat.running
  meter_batch.org metric_samples.families demand.pool capacity_advice.pool
  verify.org rebuild.org events.org events.account set_budget.period bind_tenant.role unbind_tenant.role
  fair_share.pool cluster_map.pool node_sizes.pool queue.pool queue_reasons.pool pool_placed_by.pool
  report_html.org);

my $node = new_node('main', "shared_preload_libraries = 'gpucredit'",
	'log_statement = none', "log_min_error_statement = panic");

new_database($node, 'credit', 'gpucredit_report');
$node->safe_psql('credit', Calls::logins());
$node->safe_psql('postgres',
	sprintf(q{ALTER DATABASE credit SET gpucredit.clock = '%s'}, Calls::NOW));

my $dbh = connect_to($node, 'credit');
my %type;

$dbh->{pg_server_prepare} = 0;
$dbh->{pg_placeholder_dollaronly} = 1;
$type{"$_->[0]." . ($_->[1] // '')} = $_->[2] // ''
  foreach @{ $dbh->selectall_arrayref(Calls::interface()) };

# Each call is attacked, then made unchanged, because later calls need it.
my (%bad, $tried, %seen);

foreach my $call (Calls::all())
{
	foreach my $arg (map { $_->[0] } @{ $call->{args} })
	{
		my $name = "$call->{fn}.$arg";

		next if $seen{$name}++ || $type{$name} !~ /^(text|text\[\]|jsonb|name)$/;
		attack($call, $arg, $name, $_) foreach @texts;
	}
	# rolled back calls have used up numbers
	$dbh->do("SELECT setval(pg_get_serial_sequence('gpucredit.$_', '$_'),
			coalesce(max($_), 0) + 1, false) FROM gpucredit.$_")
	  foreach qw(bucket hold job);
	eval { $dbh->do(Calls::sql($call)) };
}
cmp_ok($tried, '>', 1500, 'hostile texts were tried');
is(join("\n", @{ $bad{$_} || [] }), '', $_)
  foreach 'what may become of a text does', 'a refusal has the words of the interface',
  'no message repeats what a terminal obeys',
  'no format is followed';

# Texts are stored unchanged.
my $nasty = "\e[2J\\x\r\n'\"\x7f\xc2\x9b%s%n";
my %nasty = (quoted => $dbh->quote($nasty));

foreach my $keep (
	[ "issue('acme', '', 'nasty issue', 1000, memo => $nasty{quoted})",
		q{SELECT memo FROM gpucredit.bucket ORDER BY bucket DESC LIMIT 1} ],
	[ "drain('n1', $nasty{quoted})", q{SELECT draining FROM gpucredit.node WHERE node = 'n1'} ],
	[ "reserve('acme', '', 'nasty job', '1xH100', spec => jsonb_build_object('c', $nasty{quoted}::text))",
		q{SELECT spec ->> 'c' FROM gpucredit.job ORDER BY job DESC LIMIT 1} ],
	[ "settle('acme', 1, 2, 'failed', message => $nasty{quoted}, log_uri => $nasty{quoted})",
		q{SELECT message FROM gpucredit.attempt WHERE org = 'acme' AND job = 1 AND attempt = 2} ],
	[ "cancel('acme', 1, 'nasty cancel', $nasty{quoted})",
		q{SELECT reason FROM gpucredit.audit WHERE operation = 'cancel' ORDER BY audit DESC LIMIT 1} ])
{
	my ($fn) = $keep->[0] =~ /^(\w+)/;

	$dbh->do("SELECT * FROM gpucredit.$keep->[0]");
	is(($dbh->selectrow_array($keep->[1]))[0] // '', $nasty, "$fn keeps a text as it is");
}

# psql shows all of it, and nothing reaches the terminal raw.
foreach my $look (
	q{SELECT * FROM gpucredit.history('acme', 1)},
	q{SELECT * FROM gpucredit.buckets('acme')},
	q{SELECT * FROM gpucredit.statement('acme')},
	'TABLE gpucredit.jobs', 'TABLE gpucredit.nodes', 'TABLE gpucredit.audit',
	'TABLE gpucredit.bucket', 'TABLE gpucredit.attempt', 'TABLE gpucredit.node',
	'SELECT gpucredit.metrics_text()',
	q{SELECT * FROM gpucredit.cancel('acme', 1, E'\x1b[2J')},
	q{SELECT * FROM gpucredit.reserve('acme', '', 'k', E'\x1b[2J')},
	q{SELECT * FROM gpucredit.buckets_for('acme', '', tier => E'\x1b[2J')},
	q{SELECT * FROM gpucredit.heartbeat('n1', running => ARRAY[E'\x1b[2J'])},
	q{SELECT * FROM gpucredit.usage_by('acme', '', NULL, NULL, E'\x1b[2J')},
	q{SELECT gpucredit.bind_tenant(E'\x1b[2J', 'acme', '')},
	q{SELECT gpucredit.set_retry_rule('r', 'transient', message => E'\x1b[2J(')},
	q{SELECT E'\x1b[2J'::gpucredit.gpureq},
	q{SELECT E'\x1b[2J'::gpucredit.gpuset},
	q{SELECT E'\x1b[2J'::gpucredit.credits},
	q{SELECT * FROM gpucredit.plan_with('default', jsonb_build_object(E'\x1b[2J', 1))},
	q{SELECT * FROM gpucredit.set_tier('t', 1, E'\x1b[2J', true)})
{
	my ($out, $err) = ('', '');

	IPC::Run::run(
		[ 'psql', '-X', '-P', 'pager=off', '-d', $node->connstr('credit'), '-c', $look ],
		'>', \$out, '2>', \$err);
	unlike($out . $err, qr/[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]/, "psql: $look");
}

# No text can forge a line of the log.
unlike($node->logfile && PostgreSQL::Test::Utils::slurp_file($node->logfile),
	qr/[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]/, 'the server log is plain');
verify_empty($node, 'credit');

# In a database that is not UTF-8.
$node->safe_psql('postgres',
	q{CREATE DATABASE latin TEMPLATE template0 ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C'});
$node->safe_psql('latin', 'CREATE EXTENSION gpucredit');
query_fails($node, 'latin', q{SET client_encoding = 'UTF8';
	SELECT gpucredit.create_account(E'\u009b2J')}, '22023', 'in LATIN1: C1');
is(query($node, 'latin', q{SET client_encoding = 'UTF8';
	SELECT gpucredit_internal.clip_for_message(E'\u00e9\u009b2J') = E'\u00e9' || '\u009b2J'}),
	't', 'and letters are letters');
verify_empty($node, 'latin');
done_testing();

# One hostile text in one argument.
sub attack
{
	my ($call, $arg, $name, $text) = @_;
	my ($what, $sql, $as_name, $as_text) = @$text;
	my $document = $type{$name} eq 'jsonb';
	my $expected =
	    $text{$name} || ($arg eq 'key' && !$key{$what}) ? $as_text
	  : $grammar{$name} || $document || $type{$name} =~ /\[\]/ ? '-'
	  : $as_name;
	my $value =
	    $document ? "jsonb_build_object('c', ($sql)::text)"
	  : $type{$name} eq 'text[]' ? "ARRAY[$sql]"
	  : $type{$name} eq 'name'   ? "left($sql, 63)::name"
	  : $sql;

	$expected = $as_name if $as_name eq '22021';
	$tried++;
	$dbh->begin_work;
	$dbh->do("SET LOCAL statement_timeout = '10min'");
	my $done = eval { $dbh->do(Calls::sql($call, $arg => $value)); 1 };
	my $code = $done ? 'ok' : $dbh->state;
	my $said = $done ? '' : $dbh->errstr;

	$dbh->rollback;
	push @{ $bad{'what may become of a text does'} }, "$name: $what: $code $said"
	  unless $expected eq $code || $expected eq '-' && $code =~ /^(ok|UC\d\d\d|22023|22P02|22021|2201B|42704|55000|42501)$/;
	push @{ $bad{'a refusal has the words of the interface'} }, "$name: $what: $said"
	  if !$done && $code =~ /^UC/ && $said !~ /DETAIL: .*HINT: /s;
	push @{ $bad{'no message repeats what a terminal obeys'} }, "$name: $what: $said"
	  if $said =~ /[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]|\xe2\x80[\x8b\x8e\x8f\xa8-\xae]|\xe2\x81[\xa0\xa6-\xa9]|\xef\xbb\xbf/;
	push @{ $bad{'no format is followed'} }, "$name: $what: $said"
	  if $what eq 'format' && $said =~ /"([^"]*)"/ && $said =~ /% {5}| {50}/;
	return;
}
