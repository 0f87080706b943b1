# console.pl: people use the console in Chromium: every page and every form, what
# axe-core finds, its size, and its types against the API's own description
#
# Packages: libmicrohttpd-dev libjansson-dev libcurl4-openssl-dev libpq-dev libhttp-tiny-perl node:nodejs npm:npm chromium:chromium
use strict;
use warnings;
use FindBin;
use JSON::PP;
use POSIX ();
use lib "$FindBin::RealBin/lib";
use GpuCreditHttp;
use GpuCredit;
use Test::More;

# The longest name: of 255 bytes, and nothing in it where a line could break.
use constant WIDE => 'W' x 255;

my $console = "$FindBin::RealBin/../console";
my $node = http_node('console', 'gpucredit.node_suspect = 0', 'gpucredit.node_lost = 0');

# Something to look at on each page.  Three hours ago jobs began.
$node->safe_psql('web', q{
	CREATE ROLE tom LOGIN IN ROLE gpucredit_tenant;
	SELECT gpucredit.bind_tenant('tom', 'acme');
	SELECT set_config('gpucredit.clock', (clock_timestamp() - interval '3 hours')::text, false);
	SELECT gpucredit.set_price('H100', 2), gpucredit.create_account('debtor');
	SELECT gpucredit.issue('debtor', '', 'i', 1), gpucredit.issue('acme', '', 'earlier', 200),
		gpucredit.issue('rival', '', 'earlier', 10),
		gpucredit.issue('acme', '', 'promo', 50, 'promo', valid_for => '10 days', memo => 'welcome');
	SELECT gpucredit.register_node('default', 'n2', 'H100', 8, 80000);
	SELECT gpucredit.set_budget('acme', 'nlp', 60), gpucredit.set_quota('acme', '', max_gpus => 12);
	SELECT gpucredit.reserve('acme', 'nlp', 'done', '4xH100', '2 hours'),
		gpucredit.reserve('acme', 'vision', 'runs', '2xH100', '6 hours', spec => '{"name": "trains"}'),
		gpucredit.reserve('rival', '', 'shares', '0.5xH100', '6 hours'),
		gpucredit.reserve('debtor', '', 'debt', '1xH100', '30 minutes');
	SELECT gpucredit.place();
	SELECT gpucredit.meter(org, job, 1, '0') FROM gpucredit.job});
$node->safe_psql('web', q{
	SELECT gpucredit.heartbeat(node, about => '{"logs": true}') FROM gpucredit.node;
	SELECT gpucredit.settle('acme', job, 1, 'completed', '1 hour', 0) FROM gpucredit.job WHERE account = 'nlp';
	SELECT gpucredit.settle('debtor', job, 1, 'completed', '2 hours', 0) FROM gpucredit.job WHERE org = 'debtor';
	SELECT gpucredit.meter('acme', job, 1, '2 hours', 7, 0.83) FROM gpucredit.job WHERE account = 'vision';
	SELECT gpucredit.reserve('acme', 'vision', 'waits', '8xH100', '1 hour');
	SELECT count(r) FROM generate_series(1, 450) i,
		gpucredit.reserve('acme', 'vision', 'many ' || i, '1xH100', '20 s') r});
wide($node);
my %token = map { $_ => token($node, $_) } qw(tom ops aud root_admin);

# Stands in for the node's agent, which serves what jobs print.
my $agent = fork() // die "could not fork: $!";

if ($agent == 0)
{
	open(STDOUT, '>', '/dev/null') && open(STDERR, '>&', \*STDOUT) or POSIX::_exit(1);
	exec 'psql', '-X', '-h', $node->host, '-p', $node->port, '-d', 'web', '-c', q{
		DO $$
		BEGIN
			LOOP
				PERFORM gpucredit.log_put(w.org, w.job, w.attempt, w.node, w.stream, w.from_byte,
					w.from_byte, CASE w.from_byte WHEN 0 THEN 'step 7 of 40'::bytea ELSE '' END, 12)
				FROM gpucredit.log_wish w WHERE w.answered_at IS NULL;
				COMMIT;
				PERFORM pg_sleep(0.1);
			END LOOP;
		END $$} or POSIX::_exit(127);
}

# The console is built as for an installation, unless it is already.
my $built = qx(make -s -C '$FindBin::RealBin/..' console 2>&1);

ok(-e "$console/dist/index.html", 'the console is built from its lock file') or BAIL_OUT($built);
my $size = 0;

$size += -s $_ foreach glob("$console/dist/*.gz $console/dist/*/*.gz");
cmp_ok($size, '<=', 200_000, 'packed, it has at most 200 kB');
note("$size bytes");
is(qx(cd '$console' && npm run --silent check 2>&1), '', 'its types agree');
unlike(join('', map { slurp($_) } glob("$console/dist/index.html $console/dist/assets/*.js")),
	qr{src="https?:|import\("https?:}, 'it loads nothing from elsewhere');
types_agree();

daemon_start($node, '--console', "$console/dist", '--per-address', 500);
$ENV{CONSOLE} = 'http://127.0.0.1:' . daemon_port();
$ENV{HOME} = PostgreSQL::Test::Utils::tempdir();
$ENV{ 'TOKEN_' . uc $_ } = $token{$_} foreach keys %token;
$ENV{JOB} = query($node, 'web', q{SELECT job FROM gpucredit.job WHERE account = 'vision' ORDER BY job LIMIT 1});
$ENV{SETTLED} = query($node, 'web', q{SELECT job FROM gpucredit.job WHERE account = 'nlp' ORDER BY job LIMIT 1});
$ENV{WIDE} = WIDE;
$ENV{WIDE_JOB} = query($node, 'web', q{SELECT min(job) FROM gpucredit.job WHERE pool = '} . WIDE . q{'});
$ENV{FIRST_JOB} = query($node, 'web', q{SELECT min(job) FROM gpucredit.job WHERE org = 'acme'});
open(my $walk, '-|', 'node', "$console/test/walk.mjs") or die "could not run node: $!";
while (my $line = <$walk>)
{
	my $one = eval { decode_json($line) };

	if (!$one) { diag($line) }
	elsif ($one->{note}) { note($one->{note}) }
	else { ok($one->{ok}, $one->{name}) or diag($one->{detail}) }
}
ok(close($walk), 'nobody stumbled');
kill 'TERM', $agent;
waitpid $agent, 0;

is(query($node, 'web', q{SELECT string_agg(v::text, E'\n') FROM gpucredit.verify() v}), '', 'the books balance');
daemon_stop();
$node->stop;
done_testing();

# An organisation, an account, a pool and a node with the longest names, twelve
# types of GPU with names as long, and the largest amounts and texts.
sub wide
{
	my ($node) = @_;
	my $wide = WIDE;
	my $type = 'W' x 61;

	$node->safe_psql('web', qq{
		SELECT set_config('gpucredit.clock', (clock_timestamp() - interval '3 hours')::text, false);
		SELECT gpucredit.create_account('$wide'), gpucredit.create_account('$wide', '$wide'),
			gpucredit.create_pool('$wide');
		SELECT gpucredit.issue('$wide', '', 'i', 4000000000000, memo => repeat('W', 2000), valid_for => '10 days');
		SELECT gpucredit.register_node('$wide', left('$wide', 253) || i, '$type' || i, 16, 2000000000),
			gpucredit.set_price('$type' || i, 100000000 + i, pool => '$wide')
		FROM generate_series(10, 21) i;
		SELECT gpucredit.set_budget('$wide', '$wide', 3000000000000),
			gpucredit.set_quota('$wide', '$wide', max_gpus => 1000000);
		SELECT count(r) FROM generate_series(1, 3) n, generate_series(10, 21) i,
			gpucredit.reserve('$wide', '$wide', n || ' ' || i, '16x' || '$type' || i, '20 hours', pool => '$wide',
				spec => jsonb_build_object('name', '$wide', 'labels', jsonb_build_object('$type', '$wide'))) r;
		SELECT gpucredit.place('$wide');
		SELECT gpucredit.meter(org, job, 1, '0') FROM gpucredit.job WHERE pool = '$wide' AND state = 'starting';
		SELECT gpucredit.drain(left('$wide', 253) || 10, repeat('W', 255))});
	$node->safe_psql('web', qq{
		SELECT gpucredit.heartbeat(node) FROM gpucredit.node;
		SELECT gpucredit.meter(org, job, 1, '3 hours') FROM gpucredit.job WHERE pool = '$wide' AND state = 'running'});
	return;
}

sub slurp
{
	open(my $file, '<', $_[0]) or die "could not read $_[0]: $!";
	local $/;
	return <$file>;
}

# Each field of an interface in rows.ts is one that the API describes.
sub types_agree
{
	my %interface;
	my $rows = slurp("$console/src/rows.ts");

	while ($rows =~ /interface (\w+)(?:<T>)? \{(.*?)\n\}/sg)
	{
		my ($name, $body) = ($1, $2);

		$interface{$name} = [ $body =~ /^\t(\w+)\??:/mg ];
	}
	my %function = (
		Balance => 'balance', Bucket => 'buckets', BalanceAt => 'http.balance_over', Usage => 'usage_by', Job => 'http.jobs',
		Attempt => 'http.attempts', HistoryLine => 'history', Check => 'explain', Submission => 'http.submission',
		LogPiece => 'log_get', Price => 'http.prices', TierFor => 'tiers_for', Quote => 'quote',
		Budget => 'budgets', Quota => 'http.quotas', Alert => 'http.alerts', Entry => 'statement',
		InvoiceLine => 'invoice', Token => 'http.tokens', Browser => 'http.sessions', Account => 'http.accounts',
		Node => 'http.nodes', Device => 'http.devices', Capacity => 'http.capacity', QueueRow => 'queue',
		Reason => 'queue_reasons', Reservation => 'reservations', Share => 'fair_share', Advice => 'capacity_advice',
		DemandStep => 'demand', Recent => 'recent_events', Lag => 'http.upkeep', Finding => 'verify',
		Organisation => 'http.organisations', Burn => 'burn_rate', Expiring => 'http.expiring', Debt => 'http.debts',
		Audit => 'http.audit', Me => 'http.me');

	daemon_start($node);
	my $paths = call($token{root_admin}, 'GET', '/v1/openapi.json')->{json}{paths};
	my @wrong;

	daemon_stop();
	delete $interface{List};
	foreach my $name (sort keys %interface)
	{
		my $path = '/v1/call/' . ($function{$name} // '');
		my $schema = $paths->{$path}{post}{responses}{200}{content}{'application/json'}{schema};
		my $row = $schema->{properties}{data} ? $schema->{properties}{data}{items} : $schema;

		push @wrong, "$name: no $path" unless $row->{properties};
		push @wrong, map { "$name.$_" } grep { !$row->{properties}{$_} } @{ $interface{$name} };
	}
	is(join(', ', @wrong), '', 'each field that the console reads is one that the API describes');
	return;
}
