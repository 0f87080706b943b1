# versions.pl: cells on PostgreSQL 15, 17 and 18 behind one router, and two
# versions of gpucredit
#
# The servers of 17 and 18 are those of other Debians (tools/lib/serve.sh), which
# only root can enter; everything else here runs as postgres.
# Packages: postgresql-N-plproxy
use strict;
use warnings;
use FindBin;
use File::Temp;
use Test::More;

my %server;

# Starts the other servers, and goes on as postgres.
sub start_others
{
	my $tools = "$FindBin::RealBin/../../tools/lib";
	my ($major) = `$ENV{GC_PG_CONFIG} --version` =~ /(\d+)/;

	plan skip_all => 'servers of other versions are started beside 15 only' if $major != 15;
	foreach my $other (17, 18)
	{
		my $pid = open $server{$other}, '-|', "$tools/serve.sh", $other or die "serve.sh: $!\n";
		push @{ $server{pids} }, $pid;
	}

	# root waits for the tests, and then ends what it started
	my $dir = ($ENV{TESTDIR} // File::Temp::tempdir(TMPDIR => 1)) . '/versions';
	my $pid = fork;
	if ($pid)
	{
		waitpid $pid, 0;
		my $status = $?;
		system "tail -n 20 $dir/tmp_check/log/regress_log_* >&2" if $status;
		kill 'TERM', @{ $server{pids} };
		waitpid $_, 0 foreach @{ $server{pids} };
		require POSIX;
		POSIX::_exit($status >> 8 || $status & 127);
	}
	my ($uid, $gid) = (getpwnam 'postgres')[ 2, 3 ];
	mkdir $dir and chown $uid, $gid, $ENV{TESTDIR} = $dir or die "$dir: $!\n";
	($(, $)) = ($gid, "$gid $gid");
	($<, $>) = ($uid, $uid);
	@ENV{qw(USER LOGNAME HOME)} = ('postgres', 'postgres', $ENV{TESTDIR});
	return;
}

BEGIN { start_others() unless $^C }

use lib "$FindBin::RealBin/../../test/perl", "$FindBin::RealBin/../test/lib";
use GpuCredit;
use GpuCreditCells;

# What the servers say is read while this one starts.
my %port   = map {
	my ($port, $other) = ('', $_);
	while (my $line = readline $server{$other})
	{
		last if ($port) = $line =~ /^port (\d+)/;
	}
	die "PostgreSQL $other does not start\n" unless $port;
	($other => $port);
} (17, 18);
my $cells  = GpuCreditCells->new('a', "b:$port{17}", "c:$port{18}", 'conf', 'jit = off');
my $router = $cells->{router};
my %home   = (acme => 'a', beta => 'b', gamma => 'c', delta => 'a');

sub at
{
	my ($cell, $sql) = @_;

	return query($cells->{$cell}, 'credit', $sql);
}

sub carry_all
{
	foreach my $round (1 .. 12)
	{
		my $left = 0;
		$left += at($_, q{SELECT coalesce(sum(sent + waiting), 0) FROM gpucredit_cells.carry(patience => '20 s')})
		  foreach qw(a b c);
		return unless $left;
	}
	return fail('nothing is left to carry');
}

# A lease and back: 10 leased, 4 spent, 6 return.
sub round_trip
{
	my ($org, $from, $to) = @_;
	my $lease = at($from, "SELECT lease FROM gpucredit_cells.lease('$org', '', '$to', 'lease $to', 10, '1 hour')");

	carry_all();
	at($to, "SELECT gpucredit.capture('$org', (gpucredit.hold('$org', '', 'there', 4, '1 hour')).hold, 'spent', 4)");
	at($from, "SELECT gpucredit_cells.recall('$org', '$lease')");
	carry_all();
	return is(at($from, "SELECT trim_scale(spent), trim_scale(given_back), closed_at IS NOT NULL
		FROM gpucredit_cells.lease_out WHERE lease = '$lease'"), '4|6|t', "a lease from $from to $to comes back");
}

is(join(' ', map { int(at($_, 'SHOW server_version_num') / 10000) } qw(a b c)), '15 17 18', 'three versions');

# Each call through the router, with the same answers from each.
my %told;
foreach my $org (sort keys %home)
{
	my $cell = $home{$org};

	$told{$org} = join "\n", map { $cells->at_router($_) } (
		"SELECT gpucredit_cells.set_home('$org', '$cell', 'home $org') > 0",
		"SELECT * FROM gpucredit.create_account('$org')",
		"SELECT trim_scale(available) FROM gpucredit.issue('$org', '', 'bought', 100), LATERAL gpucredit.balance('$org')");
}
$cells->at_router(q{SELECT gpucredit.set_price('H100', 4.5)});
$cells->{$_}->poll_query_until('credit', 'SELECT count(*) = 1 FROM gpucredit.price') foreach qw(b c);
foreach my $org (qw(acme beta gamma))
{
	my $cell = $home{$org};
	my ($job) = $cells->at_router($_->[0]) foreach [ "SELECT gpucredit_cells.set_location('pool', 'p$cell', '$cell', 'pool $cell')" ],
	  ["SELECT gpucredit.create_pool('p$cell')"], ["SELECT gpucredit.register_node('p$cell', 'n$cell', 'H100', 8, 81559)"];
	my $reserve = "SELECT job, status, trim_scale(held), replayed FROM gpucredit.reserve('$org', '', 'runs', '2xH100', '1 hour', pool => 'p$cell')";
	my $number  = (split /\|/, $cells->at_router($reserve))[0];

	$told{$org} .= join "\n", '', map { s/\b$number\b/JOB/gr } map { $cells->at_router($_) } (
		$reserve,
		"SELECT count(*) FROM gpucredit.heartbeat('n$cell')",
		"SELECT action, job, gpus FROM gpucredit.place('p$cell')",
		"SELECT action, job FROM gpucredit.heartbeat('n$cell')",
		"SELECT ordinal, job, action FROM gpucredit.meter_batch('{$org}', '{$number}', '{1}', '{\"1 ms\"}')",
		"SELECT outcome, billed::numeric BETWEEN 0.000001 AND 8, job_state FROM gpucredit.settle('$org', $number, 1, 'completed', '1 ms')",
		# the bill holds the time from place() to the agent's start
		"SELECT operation, source, target, CASE WHEN operation <> 'settle' THEN amount END FROM gpucredit.statement('$org', '')",
		"SELECT trim_scale(sum(amount::numeric)) FROM gpucredit.statement('$org', '') WHERE operation = 'settle'");
	my $dbh = connect_to($router, 'credit');
	eval { $dbh->do("SELECT * FROM gpucredit.settle('$org', 77, 1, 'completed')") };
	$told{$org} .= "\n" . join '|', $dbh->state, map { s/\Q$org\E/ORG/gr }
	  map { $dbh->pg_error_field($_) // '' } qw(message_primary message_detail message_hint);
}
like($told{acme}, qr/granted\|9\|t\n.*\ncompleted\|t\|completed\n.*\n9\nUC301\|/s, 'a cell on 15 answers through the router');
is($told{beta}, $told{acme}, 'one on 17 says the same');
is($told{gamma}, $told{acme}, 'one on 18 says the same');
is($cells->at_router(q{SELECT string_agg(DISTINCT labels ->> 'cell', ',') FROM gpucredit.metric_samples()}), 'a,b,c',
	'all answer together');

# Leases and moves between them
round_trip(@$_) foreach [qw(acme a b)], [qw(beta b c)], [qw(gamma c a)];
my $books = q{SELECT string_agg(concat_ws(' ', h.org, b.available, b.held, b.spent), ', ' ORDER BY h.org)
	FROM gpucredit_cells.home h, LATERAL gpucredit.balance(h.org) b};
my $before = $cells->at_router($books);
$cells->at_router("CALL gpucredit_cells.move_org('$_->[0]', '$_->[1]', 'move $_->[0] $_->[1]')")
  foreach [qw(delta b)], [qw(delta c)], [qw(beta a)], [qw(gamma b)];
is($cells->at_router('SELECT string_agg(org || cell, $$ $$ ORDER BY org) FROM gpucredit_cells.home'),
	'acmea betaa deltac gammab', 'organisations move: 15 to 17, 17 to 18, 17 to 15, 18 to 17');
is($cells->at_router($books), $before, '... with their books');

# One cell has the next version of gpucredit: tables, answers and arguments have grown.
my $version = at('a', q{SELECT extversion FROM pg_extension WHERE extname = 'gpucredit'});
my $share   = `$ENV{GC_BIN}/pg_config --sharedir`;
chomp $share;
open my $script, '>', "$share/extension/gpucredit--$version--$version.1.sql" or die "no script: $!\n";
print {$script} q{
	ALTER TABLE gpucredit.hold ADD COLUMN more text NOT NULL DEFAULT '';
	DO $do$ BEGIN EXECUTE (SELECT format('CREATE TYPE gpucredit.balance_more AS (%s, more text)',
		string_agg(format('%I %s', a.attname, format_type(a.atttypid, a.atttypmod)), ', ' ORDER BY a.attnum))
		FROM pg_attribute a WHERE a.attrelid = 'gpucredit.balance_result'::regclass AND a.attnum > 0); END $do$;
	ALTER FUNCTION gpucredit.balance(text, text, timestamptz) SET SCHEMA gpucredit_internal;
	CREATE FUNCTION gpucredit.balance(org text, account text DEFAULT '', as_of timestamptz DEFAULT NULL,
		more text DEFAULT 'new') RETURNS gpucredit.balance_more LANGUAGE sql STABLE
	SECURITY DEFINER SET search_path = pg_catalog, pg_temp
	AS 'SELECT (gpucredit_internal.balance($1, $2, $3)).*, $4';
	CREATE FUNCTION gpucredit.newest(org text) RETURNS text LANGUAGE sql STABLE AS 'SELECT ''newest ''::text || $1';
};
close $script;
at('a', "ALTER EXTENSION gpucredit UPDATE TO '$version.1'");
unlink "$share/extension/gpucredit--$version--$version.1.sql";
is(at('a', q{SELECT more FROM gpucredit.balance('acme')}), 'new', 'cell a is upgraded first');
is($cells->at_router($books), $before, 'a router that was not calls it as before');
is($cells->at_router(q{SELECT status FROM gpucredit.hold('acme', '', 'after', 1, '1 hour')}), 'granted', '... to change its rows, too');
is($cells->at_router('SELECT * FROM gpucredit.verify()'), '', '... and all cells together');
round_trip('acme', 'a', 'c');
$cells->at_router($_) foreach q{SELECT gpucredit_cells.set_home('omega', 'a', 'home omega')},
  q{SELECT gpucredit.create_account('omega'), gpucredit.issue('omega', '', 'bought', 5)};
my ($status, $out, $error) = $router->psql('credit', q{CALL gpucredit_cells.move_org('omega', 'c', 'between versions')});
like($error, qr/That cell has another version of gpucredit than its home/, 'organisations do not move between them');
is($cells->at_router(q{SELECT status FROM gpucredit.hold('omega', '', 'stays', 1, '1 hour')}), 'granted', '... and go on where they are');

$cells->verify_all;
is(at('c', 'SELECT * FROM gpucredit_cells.verify_cells()'), '', 'verify_cells() is empty');
done_testing();
