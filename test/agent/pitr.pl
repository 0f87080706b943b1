# pitr.pl: pgBackRest brings the server back to an instant, while agents go on
# with what happened since
# Packages: pgbackrest

use strict;
use warnings;
use File::Path 'make_path';
use FindBin;
use lib "$FindBin::RealBin/../perl";
use GpuCredit;
use GpuCreditAgent;
use PostgreSQL::Test::Utils;
use Test::More;

if ($> == 0 || system('pgbackrest version >/dev/null 2>&1') != 0)
{
	plan skip_all => 'pgBackRest is not installed';
}

my $folder = PostgreSQL::Test::Utils::tempdir_short();
my $tool   = "pgbackrest --config=$folder/pgbackrest.conf --stanza=main --log-level-console=warn";
my $cluster = cluster('pitr', 'wal_level = replica', 'archive_mode = on', "archive_command = '$tool archive-push %p'",
	"gpucredit.node_lost = '900s'", "gpucredit.heartbeat_timeout = '900s'");
my $server = $cluster->{server};
my $n1     = add_node($cluster, 'n1', 6);
my $waits  = 'echo x >> $OUT/runs; while [ ! -e $OUT/go ]; do sleep 0.1; done';

# A backup, with a job that is over by then.
make_path(map { "$folder/$_" } qw(repo log lock));
append_to_file("$folder/pgbackrest.conf", "[global]\nrepo1-path=$folder/repo\nlog-path=$folder/log\nlock-path=$folder/lock\nstart-fast=y\n"
		. sprintf("[main]\npg1-path=%s\npg1-port=%s\npg1-socket-path=%s\n", $server->data_dir, $server->port, $server->host));
my $early = submit($cluster, '1xT4', 'echo x >> $OUT/runs');
wait_for_state($cluster, $early, 'completed');
is(system("$tool stanza-create"), 0, 'pgBackRest knows the server');
is(system("$tool backup --type=full"), 0, 'and makes a backup');
sleep(2);    # pgBackRest restores only to a later second than that of the backup's end

# What goes on until the instant, to which the server will come back.
my ($long, $ends) = map { submit($cluster, '1xT4', $waits, no_lock => 1) } 1, 2;
my $held = submit($cluster, '1xT4', 'echo x >> $OUT/runs', args => q{, options => '{"hold": true}'});
wait_for_state($cluster, $_, 'running') foreach $long, $ends;
wait_for('both run', 30, sub { 2 == grep { -s "$cluster->{submitted}{$_}/runs" } $long, $ends });
query($server, 'credit', q{SELECT gpucredit.issue('acme', '', 'before', 7)});
my $sealed  = seal();
my $instant = query($server, 'credit', q{SELECT clock_timestamp()});

# What is lost with the rest: credit, two jobs, the end of one, the start of one.
query($server, 'credit', q{SELECT gpucredit.issue('acme', '', 'after', 1000)});
my $late  = submit($cluster, '1xT4', $waits, no_lock => 1);
my $brief = submit($cluster, '1xT4', 'echo x >> $OUT/runs');
query($server, 'credit', "SELECT gpucredit.release_job('acme', $held, 'release')");
append_to_file("$cluster->{submitted}{$ends}/go", '');
wait_for_state($cluster, $_, 'completed') foreach $ends, $brief, $held;
wait_for_state($cluster, $late, 'running');
wait_for('the late one runs', 30, sub { -s "$cluster->{submitted}{$late}/runs" });
my $paid     = job_row($cluster, $ends, 'billed');
my $unproven = seal();
my $wal = query($server, 'credit', 'SELECT pg_walfile_name(pg_switch_wal())');
wait_for('all of it is archived', 30, sub { query($server, 'credit', "SELECT last_archived_wal >= '$wal' FROM pg_stat_archiver") eq 't' });

# The server is lost.
$server->stop('immediate');
rename($server->data_dir, "$folder/lost") or die "could not move the data: $!\n";
mkdir($server->data_dir, 0700) or die "could not make a folder: $!\n";
is(system("$tool restore --type=time '--target=$instant' --target-action=promote"), 0, 'pgBackRest restores the server');
$server->start;
wait_for('it takes writes', 60, sub { query($server, 'credit', 'SELECT pg_is_in_recovery()') eq 'f' });

# The database is as it was, and can prove it.
verify_empty($server, 'credit');
is(query($server, 'credit', q{SELECT string_agg(key, ' ' ORDER BY key) FROM gpucredit.request WHERE operation = 'issue'}),
	'before paid', 'credit that was issued since is not there');
is(query($server, 'credit', "SELECT count(*) FROM gpucredit.verify_audit(published => '\\x$sealed')"), '0',
	'the audit goes on from the seal that was published before');
isnt(query($server, 'credit', "SELECT count(*) FROM gpucredit.verify_audit(published => '\\x$unproven')"), '0',
	'one that was published since shows that rows are missing');

# Agents find it, and say what it does not know.
wait_for_state($cluster, $ends, 'completed', 60);
is(job_row($cluster, $ends, "attempt || ' ' || (abs(billed - $paid) < 1)"), '1 true', 'a job that ended since ends again with the same bill, to the second');
is(slurp_file("$cluster->{submitted}{$ends}/runs"), "x\n", '... and did not run again');
wait_for('a job that was submitted since is stopped', 60, sub { !processes_of($cluster->{submitted}{$late}, 'environ') });
is(query($server, 'credit', "SELECT count(*) FROM gpucredit.job WHERE job IN ($late, $brief)"), '0', '... and is unknown, as another one is');
is(job_state($cluster, $long), 'running', 'a job that ran at the instant runs on');
is(job_state($cluster, $held), 'queued', 'a job that was released since is held');

# Applications repeat their calls.
query($server, 'credit', q{SELECT gpucredit.issue('acme', '', 'before', 7), gpucredit.issue('acme', '', 'after', 1000)});
is(query($server, 'credit', q{SELECT sum(amount) FROM gpucredit.entry WHERE org = 'acme' AND operation = 'issue'}), '101007.000000',
	'a repeated call has its effect once, whether it is there or was lost');
query($server, 'credit', "SELECT gpucredit.release_job('acme', $held, 'release')");
wait_for_state($cluster, $held, 'completed', 60);
is(job_row($cluster, $held, 'attempt'), '1', 'a start that was lost is made again, under its number');
is(slurp_file("$cluster->{submitted}{$held}/runs"), "x\nx\n", '... and the program runs once more');
bill_is_fair($cluster, $held, 1);
my $again = submit($cluster, '5xT4', 'echo x >> $OUT/runs');
wait_for_state($cluster, $again, 'completed', 60);
pass('devices of what was stopped are given out again');
append_to_file("$cluster->{submitted}{$long}/go", '');
wait_for_state($cluster, $long, 'completed', 60);
is(slurp_file("$cluster->{submitted}{$long}/runs"), "x\n", 'the job that ran on ran once');
bill_is_fair($cluster, $long, 1);

# It is backed up anew, on its new timeline.
is(system("$tool backup --type=incr"), 0, 'the next backup is made');
is(system("$tool check"), 0, 'and its WAL is archived');
end_cluster($cluster);
done_testing();

# Seals the audit, and returns the seal as it would be published.
sub seal
{
	my $last = 'SELECT coalesce(max(batch), 0) FROM gpucredit.seals';
	my $before = query($server, 'credit', $last);

	wait_for('the audit is sealed', 30,
		sub { query($server, 'credit', 'SELECT gpucredit.seal_audit()'); query($server, 'credit', $last) > $before });
	return query($server, 'credit', 'SELECT seal FROM gpucredit.seals ORDER BY batch DESC LIMIT 1');
}
