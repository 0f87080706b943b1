# 113_fuzz.pl: random calls of every function, by every role, many at a time
#
# There is no crash, no internal error, and only errors of the interface; at
# the end verify() is empty.  It runs for GC_CALLS_SECONDS (25).  GC_SEED=n
# makes other calls than seed 1.  A client's calls depend on the seed alone,
# and are in the folder "fuzz" of the test's output.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl", "$FindBin::RealBin/../hostile";
use Calls;
use Fuzz;
use GpuCredit;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes 'sleep';

my $seconds = $ENV{GC_CALLS_SECONDS} || 25;
my $seed    = $ENV{GC_SEED} || 1;
my $results = "$ENV{TESTDIR}/fuzz";
my @roles   = (@Calls::ROLES, 'admin', 'app', 'agent', 'nobody');
my $node    = new_node('main', "shared_preload_libraries = 'gpucredit'",
	'gpucredit.clock_skew = 1d', 'gpucredit.heartbeat_timeout = 3',
	'gpucredit.node_suspect = 5', 'gpucredit.node_lost = 8',
	'gpucredit.stop_grace = 2', 'gpucredit.claim_timeout = 5',
	'gpucredit.elastic_idle_delay = 1', 'gpucredit.retry_backoff = 1',
	'gpucredit.denial_window = 2', 'statement_timeout = 10min',
	'log_min_messages = warning', 'log_error_verbosity = verbose');

mkdir $results;
note("GC_SEED=$seed GC_CALLS_SECONDS=$seconds");
new_database($node, 'credit', 'gpucredit_report');
$node->safe_psql('credit', Calls::logins());
{
	my $dbh = connect_to($node, 'credit');

	$dbh->{pg_placeholder_dollaronly} = 1;
	$dbh->{pg_server_prepare} = 0;
	foreach my $call (Calls::all())
	{
		eval { $dbh->do(Calls::sql($call)) };
	}
	# Calls about running attempts find some.
	$dbh->do(q{SELECT gpucredit.issue('acme', '', 'fuzz', 1000000),
		gpucredit.register_node('default', 'n9', 'H100', 64, 81920)});
	$dbh->do("SELECT gpucredit.reserve('acme', '', 'long $_', '1xH100', '20 h')") foreach 1 .. 40;
}

my $bad = wait_for_children(
	in_parallel(
		scalar(@roles) + 1,
		sub {
			my ($i) = @_;

			return $i < @roles ? client($i) : honest_agent('n9');
		}));
is($bad, 0, 'no client lost its connection');

my (%codes, %called, $calls);

foreach my $i (0 .. $#roles)
{
	foreach my $line (split /\n/, slurp_file("$results/$i.count"))
	{
		my ($fn, $code, $n) = split ' ', $line;

		$codes{$code} += $n;
		$called{$fn}{$code} += $n;
		$calls += $n;
	}
	is(slurp_file("$results/$i.bad"), '', "h_$roles[$i]: nothing an interface would not say");
}
note(join(', ', map { "$_: $codes{$_}" } sort keys %codes));
cmp_ok($calls, '>', 1000, "$calls calls");
my @never = grep { !$called{$_}{ok} } sort keys %called;
note("never succeeded: @never");
# Some cannot succeed here, as there is no pg_cron, and others need a chance
# that seldom comes, such as the number of an attempt that has just ended.
cmp_ok(scalar(@never), '<', keys(%called) / 6, 'most functions have succeeded, too')
  if $calls >= 30000;
unlike(slurp_file($node->logfile), qr/PANIC|TRAP:|terminated by signal|server process|\bXX00\d\b/,
	'the log has no crash, no assertion and no internal error');
verify_empty($node, 'credit');

done_testing();

# A node's agent, which runs what it is told to run until the clients end.
sub honest_agent
{
	my ($name) = @_;
	my $dbh = connect_to($node, 'credit');
	my $until = time + $seconds;
	my %runs;

	while (time < $until)
	{
		my $rows = eval {
			$dbh->do('SELECT gpucredit.place(pool) FROM (VALUES ($1)) v (pool)', undef, 'default');
			$dbh->selectall_arrayref(
				'SELECT org, job, attempt, action FROM gpucredit.heartbeat($1, NULL, $2)',
				undef, $name, [ sort keys %runs ]);
		};

		foreach my $row (@{ $rows || [] })
		{
			my $key = join('/', @$row[ 0 .. 2 ]);

			$runs{$key} = 1 if $row->[3] eq 'start';
			next unless $row->[3] eq 'stop' && delete $runs{$key};
			eval {
				$dbh->do('SELECT gpucredit.part_ended($1, $2, $3, $4, $5, 137, NULL, $6)',
					undef, @$row[ 0 .. 2 ], $name, 'cancelled', '1 s');
			};
		}
		sleep(0.5);
	}
	$dbh->disconnect;
	return;
}

# One client's calls.
sub client
{
	my ($i) = @_;
	my $role = $roles[$i];
	my $dbh = DBI->connect(
		sprintf('dbi:Pg:dbname=credit;host=%s;port=%s', $node->host, $node->port),
		"h_$role", undef,
		{ AutoCommit => 1, RaiseError => 0, PrintError => 0, PrintWarn => 0, pg_enable_utf8 => 0 });
	my $list = connect_to($node, 'credit');
	# a role without rights tries everything
	my $rows = $list->selectall_arrayref(
		Fuzz::functions($role eq 'nobody' ? 'gpucredit_admin' : "h_$role"));
	my $fuzz = Fuzz->new($role, $seed * 100 + $i, $rows);
	my $until = time + $seconds;
	my $least = 1 + int(1000 / @roles);
	my $n     = 0;
	my %count;

	$list->disconnect;
	$dbh->{pg_server_prepare} = 0;
	$dbh->{pg_placeholder_dollaronly} = 1;
	open(my $calls, '>', "$results/$i.sql") or die;
	open(my $wrong, '>', "$results/$i.bad") or die;
	while (time < $until || $n < $least)
	{
		my $together = Fuzz::chance(0.7) ? 0 : 1 + int(rand(4));
		my $level = Fuzz::pick('READ COMMITTED', 'READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE');
		my $ending = Fuzz::chance(0.8) ? 'COMMIT' : 'ROLLBACK';
		my $back   = Fuzz::chance(0.5);
		my @todo = (
			$together ? ("BEGIN ISOLATION LEVEL $level") : (),
			(map { ($together && Fuzz::chance(0.2) ? 'SAVEPOINT s' : (), $fuzz->next_call) } 1 .. ($together || 1)),
			$together ? ($ending) : ());

		foreach my $sql (@todo)
		{
			print $calls "$sql;\n";
			my $done = defined $dbh->do($sql);
			my $code = $done ? 'ok' : $dbh->state;

			if ($sql =~ /^SELECT.*?(gpucredit\.\w+)\(/)
			{
				$count{"$1 $code"}++;
				$n++;
			}
			next if $done;
			die "lost: $sql\n" if $dbh->ping <= 0;
			print $wrong "$code $sql\n" . $dbh->errstr . "\n"
			  if $code !~ $Fuzz::REFUSAL || ($dbh->errstr =~ /^(.*)/)[0] =~ $Fuzz::INTERNAL;
			$dbh->do('ROLLBACK TO s') if $together && $back;
		}
		$dbh->do('ROLLBACK') if $together;
	}
	close($calls);
	close($wrong);
	open(my $counts, '>', "$results/$i.count") or die;
	print $counts "$_ $count{$_}\n" foreach sort keys %count;
	close($counts);
	$dbh->disconnect;
	return;
}
