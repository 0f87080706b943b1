# 061_silence.pl: silence counts from when a server comes up, restarted or
# promoted
#
# The last heartbeats are ten hours old.  Each check uses its own limit: an
# hour, or the time the server has been up.  Agents could not report ends
# meanwhile either: an attempt past its time gets stop_grace to report.
#
# Alone: it counts the seconds since a server came up

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use GpuCredit;
use PostgreSQL::Test::Utils;
use Test::More;

my @conf = (
	"gpucredit.heartbeat_timeout = '1h'", "gpucredit.node_lost = '1h'",
	'gpucredit.node_suspect = 0', "gpucredit.stop_grace = '1h'");
my $primary = PostgreSQL::Test::Cluster->new('primary');

init_node($primary, allows_streaming => 1);
$primary->append_conf('postgresql.conf', join("\n", @conf, ''));
$primary->start;
new_database($primary, 'credit');
query(
	$primary, 'credit', q{
	SELECT set_config('gpucredit.clock', (now() - interval '10 hours')::text, false);
	SELECT gpucredit.create_account('acme');
	SELECT gpucredit.issue('acme', '', 'paid', 1000);
	SELECT gpucredit.set_price('T4', 1);
	SELECT gpucredit.register_node('default', 'n1', 'T4', 4, 16384);
	SELECT gpucredit.register_node('default', 'n2', 'T4', 4, 16384);
	SELECT gpucredit.reserve('acme', '', n::text, '3xT4', '20 h')
	FROM generate_series(1, 2) n;
	SELECT gpucredit.reserve('acme', '', 'short', '1xT4', '8 h');
	SELECT count(*) FROM gpucredit.place();
	SELECT gpucredit.meter('acme', job, 1, '1 s') FROM gpucredit.job});
is(query($primary, 'credit', 'SELECT count(*) FROM gpucredit.attempt'),
	'3', 'three jobs run');

my $standby = PostgreSQL::Test::Cluster->new('standby');

$primary->backup('backup');
$standby->init_from_backup($primary, 'backup', has_streaming => 1);
$standby->start;

# Restarted after longer than that
$primary->restart;
like(swept($primary), qr{^0( 0)*$}, 'a restart makes nothing silent at once');
is(placed($primary), '', 'new work waits until a node is heard of');
sleep(2);
is(query($primary, 'credit', q{SELECT count(*) FROM gpucredit.heartbeat('n1')}),
	'2', 'a node that comes back is told of its two attempts');
is(placed($primary), 'n1', 'the node that comes back gets new work');
is( query(
		$primary, 'credit', q{
	SET gpucredit.stop_grace = '1s';
	SELECT affected FROM gpucredit.reap_holds() WHERE task = 'settle_overdue'}),
	'1', 'the attempt past its wall limit is settled when its agent has had time to report');
cmp_ok(lost($primary), '>', 0, 'the attempt on the node that does not come back is lost');
is( query(
		$primary, 'credit', q{
	SELECT a.outcome, g.node, a.billed FROM gpucredit.attempt a
	JOIN gpucredit.attempt_gpu g USING (org, job, attempt)
	WHERE a.outcome IS NOT NULL ORDER BY 1}),
	"node_lost|n2|0.000833\ntimeout|n1|0.000278", 'the lost and the overdue attempt are settled at what was metered');

# Promoted after longer than that
$primary->wait_for_catchup($standby);
$primary->stop('immediate');
$standby->promote;
like(swept($standby), qr{^0( 0)*$}, 'a promotion makes nothing silent at once');
sleep(2);
cmp_ok(lost($standby), '>', 0, 'what nobody hears of after a promotion is lost');
verify_empty($standby, 'credit');
$standby->stop;
done_testing();

sub swept
{
	my ($node) = @_;

	return query(
		$node, 'credit', q{
		SELECT string_agg(affected::text, ' ') FROM (
			SELECT * FROM gpucredit.reap_holds()
			UNION ALL SELECT * FROM gpucredit.check_nodes()) s});
}

# The node on which a job would start, while silent nodes get no new work.
sub placed
{
	my ($node) = @_;

	return query(
		$node, 'credit', q{
		SET gpucredit.node_suspect = '20s';
		SELECT node FROM gpucredit.plan_with('default', '{"jobs": [
			{"org": "acme", "request": "0", "wall_limit": "1 h"}]}')
		WHERE action = 'start'});
}

# How many attempts are lost with node_lost set to the server's uptime in whole
# seconds.  A node last heard two seconds after the start has been silent for
# less.
sub lost
{
	my ($node) = @_;

	return query(
		$node, 'credit', q{
		SELECT set_config('gpucredit.node_lost', floor(EXTRACT(epoch
			FROM clock_timestamp() - backend_start))::text || 's', false)
		FROM pg_stat_activity WHERE backend_type = 'walwriter'
		\g /dev/null
		SELECT sum(affected) FROM gpucredit.check_nodes()});
}
