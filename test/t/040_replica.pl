# 040_replica.pl: the primary dies, its standby takes over
#
# A streaming standby confirms every commit (synchronous_commit =
# remote_apply), also of heartbeats (gpucredit.meter_durable).  Clients make
# all kinds of calls at once, the primary is killed, and the standby is
# promoted.  No acknowledged call is missing, and work goes on.
#
# GC_SEED replays the clients' random choices.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use GpuCredit;
use GpuCreditLoad;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my $seed    = $ENV{GC_SEED} || time % 1000000;
my $dir     = PostgreSQL::Test::Utils::tempdir();
my $primary = PostgreSQL::Test::Cluster->new('primary');
my $standby = PostgreSQL::Test::Cluster->new('standby');
my (@pids, $account, @after, $since);

diag("GC_SEED=$seed");
init_node($primary, allows_streaming => 1);
$primary->append_conf('postgresql.conf',
	join("\n", 'log_statement = none', world_conf(), ''));
$primary->start;
$primary->backup('base');
$standby->init_from_backup($primary, 'base', has_streaming => 1);
$standby->start;
$primary->append_conf('postgresql.conf',
	"synchronous_commit = remote_apply\nsynchronous_standby_names = 'standby'\n"
	  . "gpucredit.meter_durable = on\n");
$primary->reload;
$primary->poll_query_until('postgres',
	q{SELECT sync_state = 'sync' FROM pg_stat_replication})
  or die 'the standby confirms no commit';
new_database($primary, 'credit');
setup_world($primary, 'credit');

# A standby reads, and refuses to write
is( query($standby, 'credit', q{SELECT paid FROM gpucredit.balance('acme')}),
	query($primary, 'credit', q{SELECT paid FROM gpucredit.balance('acme')}),
	'a standby tells the balance');
verify_empty($standby, 'credit', 'a standby verifies the books');
like(query($standby, 'credit', 'SELECT gpucredit.metrics_text()'),
	qr/^gpucredit_seal_unsealed\{kind="entry"\} \d/m, 'a standby tells its metrics');
query_fails($standby, 'credit',
	q{SELECT gpucredit.issue('acme', '', 'standby', 1)},
	'25006', 'a standby takes no calls');
query_fails($standby, 'credit', 'SELECT * FROM gpucredit.seal_audit()',
	'25006', 'a standby seals nothing');

@pids = in_parallel(
	5,
	sub {
		run_client(
			$primary, 'credit',
			number  => $_[0],
			seed    => $seed,
			log     => "$dir/$_[0].log",
			seconds => 60);
	});
$since = time;
sleep(6);
sleep(0.05) until answered(glob("$dir/*.log")) > 50 || time - $since > 50;
kill_server($primary);
is(wait_for_children(@pids), 0, 'every client noticed that the primary was killed');
$standby->promote;
$standby->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()')
  or die 'the standby is not promoted';
$standby->safe_psql('postgres',
	q{ALTER SYSTEM SET synchronous_standby_names = ''});
$standby->reload;

verify_empty($standby, 'credit', 'verify() is empty on the new primary');
$account = settle_accounts($standby, 'credit', glob("$dir/*.log"));
note(sprintf('%d keyed calls and settlements acknowledged, %d cut off, '
		  . '%d starts, %d heartbeats',
		@{$account}{qw(acknowledged pending places meters)}));
cmp_ok($account->{acknowledged}, '>', 50, 'work was done');
is_deeply($account->{lost}, [], 'what was acknowledged is there, as answered');
is_deeply($account->{unexpected}, [], 'no client saw an error it should not');

# Work goes on, with new numbers
@pids = in_parallel(
	3,
	sub {
		run_client(
			$standby, 'credit',
			number  => $_[0],
			seed    => $seed + 1,
			log     => "$dir/after-$_[0].log",
			least   => 7,
			seconds => 4);
	});
is(wait_for_children(@pids), 0, 'clients work on the new primary');
@after = glob("$dir/after-*.log");
$account = settle_accounts($standby, 'credit', @after);
is_deeply([ @{ $account->{lost} }, @{ $account->{unexpected} } ],
	[], 'all calls after the promotion go as they should');
cmp_ok($account->{acknowledged}, '>', 20, 'a lot of it');
verify_empty($standby, 'credit', 'verify() is empty in the end');

$standby->stop;
done_testing();
