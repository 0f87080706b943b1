# 116_clients.pl: the programs of docs/clients.md, each in its language
#
# Each program is taken from the page, saved under the page's name for it, and
# started by the page's command, in a database that the page's statements have
# prepared.  Its first reserve is answered with 40001, and the answer to its
# second is lost: a proxy cuts the connection after the commit.  Every program
# must end with the same job, held and billed once.  Started again, when no
# alert comes, it ends as well.
#
# The page's programs that reflect the schema gpucredit_views run as a tenant,
# whom the same database has beside others: SQLAlchemy without a warning, and
# Drizzle and PostGraphile with the packages of test/reflect/package-lock.json.
#
# Packages: python3-psycopg libpostgresql-jdbc-java default-jdk-headless
# Packages: golang-go golang-github-lib-pq-dev npm:npm python3-sqlalchemy python3-psycopg2

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use GpuCredit;
use IO::Select;
use IO::Socket::INET;
use IPC::Run;
use POSIX ();
use PostgreSQL::Test::Utils;
use Test::More;

my @periods = qw(day week month quarter);
my $page    = slurp_checkout('docs/clients.md');
my $dir     = PostgreSQL::Test::Utils::tempdir();
my $node    = new_node('main', "listen_addresses = '127.0.0.1'",
	"shared_preload_libraries = 'gpucredit'", "gpucredit.database = 'mydb'",
	'gpucredit.scheduler_interval = 100');
my ($before) = $page =~ /^## Before you run them\n(.*?)^## /ms;
my ($sql)    = $before =~ /^```sql\n(.*?)^```/ms;
my %url      = $before =~ /^export (\w+)='(.*)'$/mg;

new_database($node, 'mydb');
$node->safe_psql('mydb', $sql);
$node->safe_psql('mydb', q{
	CREATE SEQUENCE tries;
	CREATE FUNCTION once() RETURNS trigger LANGUAGE plpgsql AS $$
	BEGIN
		IF NEW.key LIKE 'order-%' AND nextval('public.tries') = 1 THEN
			RAISE 'not yet' USING ERRCODE = '40001';
		END IF;
		RETURN NEW;
	END $$;
	CREATE TRIGGER once BEFORE INSERT ON gpucredit.request
		FOR EACH ROW EXECUTE FUNCTION once()});

program('Python', 'clients.py');
program('Node',   'clients.js') if npm_install('pg');
program('Java',   'Clients.java');
program('Go',     'clients.go');
reflection();

# What READ COMMITTED is for.
$node->safe_psql('mydb', q{
	SELECT gpucredit.set_budget('acme', 'vision', NULL, period)
	FROM gpucredit.budgets('acme', 'vision')});
my %through = map { $_ => through($_) }
  ('READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE');
note("of 150: $_ $through{$_}") foreach sort keys %through;
is($through{'READ COMMITTED'}, 150, 'every call goes through at READ COMMITTED');
cmp_ok($through{'REPEATABLE READ'}, '<', 150, 'not so at REPEATABLE READ');
cmp_ok($through{SERIALIZABLE}, '<', 150, 'nor at SERIALIZABLE');

verify_empty($node, 'mydb');
done_testing();

# Runs the page's program in that language, and looks at what it did.
sub program
{
	my ($name, $file) = @_;
	my ($section) = $page =~ /^## $name\n(.*?)(?=^## |\z)/ms;
	my ($saved)   = $section =~ /Save the program as `(.*?)`/;
	my ($shell)   = $section =~ /^```sh\n(.*?)^```/ms;
	my ($text)    = $section =~ /^```(?!sh)\w+\n(.*?)^```/ms;
	my ($command, @more) = grep { !/^(?:apt|npm) install / } split /\n/, $shell;
	my ($key)     = $command =~ /(order-\d)$/;
	my ($port, $proxy) = cutting_proxy();
	my $prices = "price of two 7.200000\n";
	my $work   = "start {0-1}\nmeter continue 0.010000\nsettle completed 0.010000\n";

	is($saved, $file, "$name: the page says how to name the program");
	is(scalar(@more), 0, '... and has one command that starts it');
	append_to_file("$dir/$file", $text);

	# each threshold alerts once a period, so each program has its own
	$node->safe_psql('mydb', q{
		ALTER SEQUENCE public.tries RESTART;
		SELECT gpucredit.set_budget('acme', 'vision', NULL, period)
		FROM gpucredit.budgets('acme', 'vision');
		SELECT gpucredit.set_budget('acme', 'vision', 10, '} . shift(@periods) . q{',
			alert_at => '{0.5}')});
	is(output_of($name, $command, $port),
		"${prices}reserve granted 7.200000 true\n${work}alert gpucredit_alert\n",
		"$name: what it was answered");
	kill 'TERM', $proxy;
	waitpid($proxy, 0);
	is($node->safe_psql('mydb', 'SELECT last_value > 1 FROM public.tries'), 't',
		"$name: after 40001 it called again");
	is($node->safe_psql('mydb', qq{
		SELECT count(*), max(j.state), sum(a.billed::numeric)
		FROM gpucredit.request r JOIN gpucredit.jobs j
			ON j.org = r.org AND j.job = r.result[1]::bigint
		JOIN gpucredit.attempt a ON a.org = j.org AND a.job = j.job
		WHERE r.key = '$key'}), '1|completed|0.010000', "$name: one job, billed once");

	is(output_of($name, "$command-again", $node->port),
		"${prices}reserve granted 7.200000 false\n$work",
		"$name: it ends where no alert comes");
	return;
}

# What a command of the page prints, with the page's settings but for the port.
sub output_of
{
	my ($name, $command, $port) = @_;
	my ($out, $err);
	local $ENV{GPUCREDIT_URL}  = $url{GPUCREDIT_URL} =~ s{127\.0\.0\.1}{127.0.0.1:$port}r;
	local $ENV{GPUCREDIT_JDBC} = $url{GPUCREDIT_JDBC} =~ s{127\.0\.0\.1}{127.0.0.1:$port}r;
	local $ENV{GOCACHE} = "$dir/go";
	my $done = eval {
		IPC::Run::run([ 'sh', '-c', "cd '$dir' && $command" ],
			'<', \undef, '>', \$out, '2>', \$err, IPC::Run::timeout(180));
	};

	ok($done, "$name: the program ends well") or diag($err // $@);
	return ($out // '') =~ s/True/true/r =~ s/False/false/r;
}

# How many rows of each view belong to the tenant.
sub own_rows
{
	return split /[|\n]/, $node->safe_psql('mydb', q{
		SELECT 'accounts', count(*) FROM gpucredit.account WHERE (org, account) = ('acme', 'vision')
		UNION ALL SELECT 'balances', count(*) FROM gpucredit.account WHERE (org, account) = ('acme', 'vision')
		UNION ALL SELECT 'alerts', count(*) FROM gpucredit.alert WHERE (org, account) = ('acme', 'vision')
		UNION ALL SELECT 'entries', count(*) FROM gpucredit.entry WHERE (org, account) = ('acme', 'vision')
		UNION ALL SELECT 'holds', count(*) FROM gpucredit.hold WHERE (org, account) = ('acme', 'vision')
		UNION ALL SELECT 'attempts', count(*) FROM gpucredit.attempt WHERE (org, account) = ('acme', 'vision')
		UNION ALL SELECT 'jobs', count(*) FROM gpucredit.job WHERE (org, account) = ('acme', 'vision')
		UNION ALL SELECT 'prices', count(*) FROM gpucredit.price
		UNION ALL SELECT 'tiers', count(*) FROM gpucredit.tier
		UNION ALL SELECT 'available', coalesce((SELECT available FROM gpucredit.balance('acme', 'vision')), -1)});
}

# Runs the page's programs that reflect a schema, as a tenant.  What they must
# find is counted in the tables.
sub reflection
{
	my ($section) = $page =~ /^## Tools that reflect a schema\n(.*?)(?=^## |\z)/ms;
	my ($sql)     = $section =~ /^```sql\n(.*?)^```/ms;
	my ($url)     = $section =~ /^export REFLECT_URL='(.*)'$/m;
	my ($python, $typescript, $graph) =
	  $section =~ /^### SQLAlchemy\n(.*?)^### Drizzle\n(.*?)^### PostGraphile\n(.*)/ms;
	my ($done, $out, $err, %read);
	local $ENV{REFLECT_URL} = $url =~ s{127\.0\.0\.1}{127.0.0.1:${\ $node->port}}r;
	local $ENV{HOME}        = "$dir/reflect";

	# Another account of the organisation and another organisation have rows of
	# every kind as well, and the tenant has an alert without a period.
	$node->safe_psql('mydb', $sql);
	$node->safe_psql('mydb', q{
		SELECT gpucredit.create_account('acme', 'speech'), gpucredit.create_account('rival');
		SELECT gpucredit.issue('rival', '', 'rival', 1000);
		SELECT gpucredit.hold(org, account, 'hold of ' || account, 1, '1 h'),
			gpucredit.set_alert(org, account, 100000),
			gpucredit.reserve(org, account, 'job of ' || account, '1xH100', '1 hour')
		FROM (VALUES ('acme', 'vision'), ('acme', 'speech'), ('rival', '')) AS a (org, account);
		SELECT gpucredit.set_budget('acme', 'vision', 1000, 'none', alert_at => '{0.000001}');
		SELECT gpucredit.hold('acme', 'vision', 'of the budget', 1, '1 h')});
	my %own = own_rows();

	is(scalar(grep { $own{$_} == 0 } keys %own), 0, 'the tenant has something in every view');
	is($node->safe_psql('mydb', q{SELECT count(*) FROM gpucredit.alert WHERE period_start = '-infinity'}),
		1, '... and an alert of a budget without a period');

	mkdir "$dir/reflect" or die "could not make a folder: $!";
	append_to_file("$dir/reflect/reflect.py", $python =~ /^```python\n(.*?)^```/ms);
	my ($command) = $python =~ /^(python3 .*)$/m;
	# Jobs of other sections may start and end meanwhile: then it reads again.
	for my $tries (1 .. 20)
	{
		my %before = %own;

		$done = IPC::Run::run([ 'sh', '-c', "cd '$dir/reflect' && $command" ],
			'<', \undef, '>', \$out, '2>', \$err, IPC::Run::timeout(180));
		%own = own_rows();
		last unless $done && grep { $own{$_} ne $before{$_} } keys %own;
	}
	ok($done, 'SQLAlchemy reads every view that a tenant may read') or diag $err;
	is($err, '', '... and warns of nothing');
	%read = $out =~ /^(\w+) (\d+)$/mg;
	is(join(' ', sort keys %read), 'accounts alerts attempts balances entries events holds jobs prices tiers',
		'... which are these');
	my $available = delete $own{available};
	is_deeply({ map { $_ => $read{$_} } keys %own }, \%own, '... with his own rows and no others');
	is(($out =~ /^(\[.*\])$/m)[0], "[('vision', '$available')]", '... and exact amounts');

	append_to_file("$dir/reflect/drizzle.config.ts", $typescript =~ /^```ts\n(.*?)^```/ms);
	append_to_file("$dir/reflect/reflect.ts", $typescript =~ /^```typescript\n(.*?)^```/ms);
	append_to_file("$dir/reflect/$_", slurp_checkout("test/reflect/$_"))
	  foreach qw(package.json package-lock.json);
	my $commands = join(' && ', grep { /^npx / } split /\n/, $typescript);
	ok(IPC::Run::run([ 'sh', '-c', "cd '$dir/reflect' && npm ci --no-audit --no-fund --no-update-notifier"
				. " --loglevel=error >npm.log && $commands" ],
			'<', \undef, '>', \$out, '2>', \$err, IPC::Run::timeout(300)),
		'Drizzle reads what its introspection of the views has made') or diag "$out$err";
	my $schema = slurp_file("$dir/reflect/drizzle/schema.ts");
	is(scalar(() = $schema =~ /^export const \w+InGpucreditViews = gpucreditViews\.view\(/mg), 12,
		'... which has all views');
	unlike($schema, qr/failed to parse database type|unknown\(/, '... and understood the type of every column');
	like($out, qr/^vision \Q$available\E$/m, '... with exact amounts');
	is(scalar(() = $out =~ /^\d+ (?:queued|unfunded|starting|running|stopping|completed|failed|timeout|cancelled) \S+$/mg),
		$own{jobs}, '... and the jobs of the tenant');

	append_to_file("$dir/reflect/graph.mjs", $graph =~ /^```javascript\n(.*?)^```/ms);
	($command) = $graph =~ /^(node .*)$/m;
	ok(IPC::Run::run([ 'sh', '-c', "cd '$dir/reflect' && $command" ],
			'<', \undef, '>', \$out, '2>', \$err, IPC::Run::timeout(180)),
		'PostGraphile answers a query of the views') or diag "$out$err";
	like($out, qr/^vision \Q$available\E$/m, '... with exact amounts');
	is(scalar(() = $out =~ /^\d+ (?:queued|unfunded|starting|running|stopping|completed|failed|timeout|cancelled) \S+$/mg),
		$own{jobs}, '... and the jobs of the tenant');
	return;
}

# Starts a proxy between client and server; returns its address and process.
# It ends the first connection in which a job is granted, once the answer is
# complete, and passes none of it on.
sub cutting_proxy
{
	my $listener = IO::Socket::INET->new(
		LocalAddr => '127.0.0.1',
		Listen    => 10) or die "no port: $!";
	my $pid = fork() // die "could not fork: $!";

	if ($pid == 0)
	{
		proxy($listener);
		POSIX::_exit(0);
	}
	return ($listener->sockport, $pid);
}

sub proxy
{
	my ($listener) = @_;
	my $select = IO::Select->new($listener);
	my ($cut, %other, %server, %kept);

	while (my @ready = $select->can_read)
	{
		foreach my $socket (@ready)
		{
			if ($socket == $listener)
			{
				my $client = $listener->accept;
				my $server = IO::Socket::INET->new("127.0.0.1:" . $node->port);

				$other{$client} = $server;
				$other{$server} = $client;
				$server{$server} = 1;
				$select->add($client, $server);
				next;
			}
			next unless $other{$socket};	# its other end was closed before

			my $read = $socket->sysread(my $data, 65536);
			my $end  = !$read;

			if ($read && $server{$socket} && !$cut)
			{
				$kept{$socket} = ($kept{$socket} // '') . $data;
				if ($kept{$socket} =~ /granted/)
				{
					# ReadyForQuery, outside of a transaction
					next unless $kept{$socket} =~ /Z\0\0\0\x05I\z/;
					$cut = $end = 1;
				}
				else
				{
					delete $kept{$socket};
				}
			}
			$other{$socket}->syswrite($data) if !$end;
			next if !$end;
			foreach my $one ($socket, delete $other{$socket})
			{
				delete $other{$one};
				$select->remove($one);
				$one->close;
			}
		}
	}
	return;
}

# Installs an npm package beside the program.
sub npm_install
{
	my ($name) = @_;
	my ($out, $err);
	local $ENV{HOME} = $dir;

	return ok(IPC::Run::run([ 'npm', 'install', '--prefix', $dir, '--no-audit',
				'--no-fund', '--no-update-notifier', $name ],
			'<', \undef, '>', \$out, '2>', \$err, IPC::Run::timeout(180)),
		"npm installs $name") || diag($err) && 0;
}

# How many of 150 calls succeed, from five clients on one account that do not
# retry.
sub through
{
	my ($level) = @_;
	my $account = 'vision';

	wait_for_children(in_parallel(5, sub {
		my ($client) = @_;
		my $db = connect_to($node, 'mydb');

		$db->do("SET default_transaction_isolation = '\L$level'");
		foreach my $n (1 .. 30)
		{
			eval {
				$db->do('SELECT gpucredit.reserve(?, ?, ?, ?, ?)', undef,
					'acme', $account, "$level $client $n", '1xH100', '1 min');
			};
		}
		$db->disconnect;
	}));
	return $node->safe_psql('mydb', qq{
		SELECT count(*) FROM gpucredit.request WHERE key LIKE '$level %'});
}
