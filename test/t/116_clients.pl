# 116_clients.pl: the programs of docs/clients.md, each in its language
#
# Each program is taken from the page.  Its first reserve is answered with
# 40001, and the answer to its second is lost: a proxy cuts the connection
# after the commit.  Every program must end with the same job, held and billed
# once.
#
# Packages: python3-psycopg libpostgresql-jdbc-java default-jdk-headless
# Packages: golang-go golang-github-lib-pq-dev npm:npm

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
	"shared_preload_libraries = 'gpucredit'", "gpucredit.database = 'credit'",
	'gpucredit.scheduler_interval = 100');

new_database($node, 'credit');
$node->safe_psql('credit', q{
	CREATE ROLE shop LOGIN IN ROLE gpucredit_app, gpucredit_agent;
	SELECT gpucredit.set_price('H100', 3.60);
	SELECT gpucredit.register_node('default', 'n1', 'H100', 8, 81559);
	SELECT gpucredit.create_account('acme'), gpucredit.create_account('acme', 'vision');
	SELECT gpucredit.issue('acme', '', 'i', 1000);
	CREATE SEQUENCE tries;
	CREATE FUNCTION once() RETURNS trigger LANGUAGE plpgsql AS $$
	BEGIN
		IF NEW.key LIKE 'client-%' AND nextval('public.tries') = 1 THEN
			RAISE 'not yet' USING ERRCODE = '40001';
		END IF;
		RETURN NEW;
	END $$;
	CREATE TRIGGER once BEFORE INSERT ON gpucredit.request
		FOR EACH ROW EXECUTE FUNCTION once()});

program('python', 'python', 'py', 'python3', 'FILE');
program('node', 'javascript', 'js', 'node', 'FILE')
  if npm_install('pg');
program('java', 'java', 'java', 'java', '-cp', '/usr/share/java/postgresql.jar',
	'FILE');
{
	local @ENV{qw(GO111MODULE GOPATH GOCACHE GOFLAGS)} =
	  ('off', '/usr/share/gocode', "$dir/go", '-p=1');
	program('go', 'go', 'go', 'go', 'run', 'FILE');
}

# What READ COMMITTED is for.
$node->safe_psql('credit', q{
	SELECT gpucredit.set_budget('acme', 'vision', NULL, period)
	FROM gpucredit.budgets('acme', 'vision')});
my %through = map { $_ => through($_) }
  ('READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE');
note("of 150: $_ $through{$_}") foreach sort keys %through;
is($through{'READ COMMITTED'}, 150, 'every call goes through at READ COMMITTED');
cmp_ok($through{'REPEATABLE READ'}, '<', 150, 'not so at REPEATABLE READ');
cmp_ok($through{SERIALIZABLE}, '<', 150, 'nor at SERIALIZABLE');

verify_empty($node, 'credit');
done_testing();

# Runs the page's program in that language, and looks at what it did.
sub program
{
	my ($name, $language, $ending, @command) = @_;
	my ($text) = $page =~ /^```$language\n(.*?)^```/ms;
	my $file  = "$dir/Clients.$ending";
	my $key   = "client-$name";
	my ($port, $proxy) = cutting_proxy();
	my ($out, $err);

	# each threshold alerts once a period, so each program has its own
	append_to_file($file, $text);
	$node->safe_psql('credit', q{
		ALTER SEQUENCE public.tries RESTART;
		SELECT gpucredit.set_budget('acme', 'vision', NULL, period)
		FROM gpucredit.budgets('acme', 'vision');
		SELECT gpucredit.set_budget('acme', 'vision', 10, '} . shift(@periods) . q{',
			alert_at => '{0.5}')});
	local $ENV{GPUCREDIT_URL} =
	  "postgres://shop\@127.0.0.1:$port/credit?sslmode=disable";
	local $ENV{GPUCREDIT_JDBC} =
	  "jdbc:postgresql://127.0.0.1:$port/credit?user=shop&sslmode=disable";
	my $done = eval {
		IPC::Run::run([ map { $_ eq 'FILE' ? $file : $_ } @command, $key ],
			'<', \undef, '>', \$out, '2>', \$err, IPC::Run::timeout(180));
	};

	ok($done, "$name: the program ends well") or diag($err // $@);
	is(($out // '') =~ s/True/true/r, <<'END', "$name: what it was answered");
price of two 7.200000
reserve granted 7.200000 true
start {0-1}
meter continue 0.010000
settle completed 0.010000
alert gpucredit_alert
END
	kill 'TERM', $proxy;
	waitpid($proxy, 0);
	is($node->safe_psql('credit', 'SELECT last_value > 1 FROM public.tries'), 't',
		"$name: after 40001 it called again");
	is($node->safe_psql('credit', qq{
		SELECT count(*), max(j.state), sum(a.billed::numeric)
		FROM gpucredit.request r JOIN gpucredit.jobs j
			ON j.org = r.org AND j.job = r.result[1]::bigint
		JOIN gpucredit.attempt a ON a.org = j.org AND a.job = j.job
		WHERE r.key = '$key'}), '1|completed|0.010000', "$name: one job, billed once");
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
		my $db = connect_to($node, 'credit');

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
	return $node->safe_psql('credit', qq{
		SELECT count(*) FROM gpucredit.request WHERE key LIKE '$level %'});
}
