# 061_silence.pl: while a server is down nobody can be heard, so its coming
# up, restarted or promoted, is what silence counts from

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use GpuCredit;
use PostgreSQL::Test::Utils;
use Test::More;

my $lost = 6;					# seconds
my @conf = (
	"gpucredit.meter_lost = '${lost}s'", "gpucredit.node_lost = '${lost}s'",
	'gpucredit.node_suspect = 0');
my $primary = PostgreSQL::Test::Cluster->new('primary');

$primary->init(allows_streaming => 1);
$primary->append_conf('postgresql.conf', join("\n", @conf, ''));
$primary->start;
new_database($primary, 'credit');
query(
	$primary, 'credit', q{
	SELECT gpucredit.create_account('acme');
	SELECT gpucredit.issue('acme', '', 'paid', 100);
	SELECT gpucredit.set_price('T4', 1);
	SELECT gpucredit.register_node('default', 'n1', 'T4', 4, 16384);
	SELECT gpucredit.register_node('default', 'n2', 'T4', 4, 16384);
	SELECT gpucredit.reserve('acme', '', n::text, '4xT4', '1 h')
	FROM generate_series(1, 2) n;
	SELECT count(*) FROM gpucredit.place();
	SELECT gpucredit.meter('acme', job, 1, '1 s') FROM gpucredit.job});
is(query($primary, 'credit', 'SELECT count(*) FROM gpucredit.attempt'),
	'2', 'two jobs run');

my $standby = PostgreSQL::Test::Cluster->new('standby');

$primary->backup('backup');
$standby->init_from_backup($primary, 'backup', has_streaming => 1);
$standby->start;

# Restarted after longer than that
$primary->stop;
sleep($lost + 1);
$primary->start;
like(swept($primary), qr{^0( 0)*$}, 'a restart makes nothing silent at once');
sleep(3);
is(heartbeat($primary, 'n1'), '1', 'one node comes back');
ok($primary->poll_query_until('credit',
		'SELECT sum(affected) > 0 FROM gpucredit.check_nodes()'),
	'the other does not');
is( query(
		$primary, 'credit', q{
	SELECT a.outcome, g.node, a.billed FROM gpucredit.attempt a
	JOIN gpucredit.attempt_gpu g USING (org, job, attempt)
	WHERE a.outcome IS NOT NULL}),
	'node_lost|n2|0.001111', 'its job is settled at what was metered');

# Promoted after longer than that
$primary->wait_for_catchup($standby);
$primary->stop('immediate');
sleep($lost + 1);
$standby->promote;
like(swept($standby), qr{^0( 0)*$}, 'a promotion makes nothing silent at once');
sleep($lost);
ok($standby->poll_query_until('credit',
		'SELECT sum(affected) > 0 FROM gpucredit.check_nodes()'),
	'what nobody hears of then is lost');
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

sub heartbeat
{
	my ($node, $name) = @_;

	return query($node, 'credit',
		"SELECT count(*) FROM gpucredit.heartbeat('$name')");
}
