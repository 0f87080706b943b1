# crash.pl: daemon and server killed in the middle; what was promised is there
#
# Packages: libcurl4-openssl-dev libmicrohttpd-dev libssl-dev libjansson-dev libpq-dev libfaketime
use strict;
use warnings;
use Digest::SHA 'sha256_hex';
use FindBin;
use JSON::PP;
use lib "$FindBin::RealBin/lib";
use GpuCreditRegistry;
use GpuCredit;
use Test::More;
use Time::HiRes 'sleep';

my $node = registry_node('crash');
daemon_start($node);
my $token = registry_token($node, 'acme');
my $rounds = $ENV{GC_CRASHES} // 6;
my %committed;

sub put
{
	my ($content) = @_;
	my $o = json_request('POST', '/acme/m.git/info/lfs/objects/batch', $token,
		{ operation => 'upload', objects => [ { oid => sha256_hex($content), size => length($content) } ] }
	)->{json}{objects}[0];

	return { status => 500 } unless $o && !$o->{error};
	return { status => 200 } unless $o->{actions};
	return request('PUT', $o->{actions}{upload}{href}, content => $content);
}

sub commit
{
	my ($path, $content, $key) = @_;

	return request('POST', '/api/models/acme/m/commit/main', token => $token,
		headers => { 'idempotency-key' => $key },
		content => join("\n", map { encode_json($_) } { key => 'header', value => { summary => $key } },
			{ key => 'lfsFile', value => { path => $path, oid => sha256_hex($content),
				size => length($content), algo => 'sha256' } }));
}

is(json_request('POST', '/api/repos/create', $token, { name => 'm' })->{status}, 200, 'a repository');
foreach my $round (1 .. $rounds)
{
	my $content = '';

	srand($round);
	$content .= pack('L', rand(2**32)) for 1 .. 6_000_000;	# 24 MB: two batches
	my @pids = in_parallel(1, sub { put($content); });
	sleep 0.05 + rand(0.4);
	if ($round % 2)
	{
		daemon_kill('KILL');
	}
	else
	{
		kill_server($node);
	}
	wait_for_children(@pids);
	$node->start unless $round % 2;
	$round % 2 ? daemon_start($node) : daemon_kill('KILL');
	daemon_start($node) unless $round % 2;
	is($node->safe_psql('reg', 'SELECT * FROM gpucredit_registry.verify()'), '',
		"killed in the middle, round $round: the books hold");
	is(put($content)->{status}, 200, 'the client sends again');
	my @answers = map { commit("w$round", $content, "c$round") } 1, 2;
	is($answers[1]{content}, $answers[0]{content}, 'and commits, once');
	$committed{"w$round"} = sha256_hex($content);
}
foreach my $path (sort keys %committed)
{
	is(sha256_hex(request('GET', "/acme/m/resolve/main/$path", token => $token)->{content}),
		$committed{$path}, "$path is what was sent");
}
is($node->safe_psql('reg', 'SELECT count(*) FROM gpucredit_registry.version'), $rounds,
	'a version a commit');

# A pack that is mostly unused: what is used moves, and the file goes.
my $half = PostgreSQL::Test::Utils::slurp_file($0) x 200;
my $before = daemon_packs();
is(put($half)->{status}, 200, 'a file');
is(commit('kept', $half, 'kept')->{status}, 200, 'is kept');
$node->safe_psql('reg', drop_paths(q{path LIKE 'w%'}));
daemon_kill();
foreach my $days (2, 4, 6)
{
	upkeep($node, $days);
}
cmp_ok(daemon_packs(), '<', $before, 'packs that nobody needs go');
daemon_start($node);
is(request('GET', '/acme/m/resolve/main/kept', token => $token)->{content}, $half,
	'what is used stays what it is');
daemon_kill();

# The daemon leaves a pack alone that the database may condemn soon.
{
	my $clock = PostgreSQL::Test::Utils::tempdir() . '/clock';

	local @ENV{qw(LD_PRELOAD FAKETIME_TIMESTAMP_FILE FAKETIME_NO_CACHE FAKETIME_DONT_FAKE_MONOTONIC)} =
	  (glob('/usr/lib/*/faketime/libfaketime.so.1'), $clock, 1, 1);
	PostgreSQL::Test::Utils::append_to_file($clock, '+0');
	daemon_start($node);
	my @packs = map
	{
		PostgreSQL::Test::Utils::append_to_file("$clock.new", $_->[1]);
		rename "$clock.new", $clock or die;
		put($_->[0] x 100_000);
		$node->safe_psql('reg', 'SELECT max(pack) FROM gpucredit_registry.chunk');
	} [ 'first', '+0' ], [ 'next', '+11h' ], [ 'late', '+13h' ];
	is($packs[1], $packs[0], 'a pack of this day is appended to');
	is($packs[2], $packs[1] + 1, 'an older one is not');
	daemon_kill();
}
registry_verify($node);
done_testing();
