# pooler.pl: agents behind pgbouncer in transaction mode, by TLS: many of them
# share two connections, and each speaks for its own node only

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use Digest::SHA 'sha256_hex';
use GpuCredit;
use GpuCreditAgent;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my ($pgbouncer) = grep { -x } '/usr/sbin/pgbouncer', '/usr/bin/pgbouncer';

plan skip_all => 'no pgbouncer here' unless $pgbouncer;

my $cluster = cluster('pooler');
my $server  = $cluster->{server};
my $dir     = PostgreSQL::Test::Utils::tempdir_short();
my $port    = PostgreSQL::Test::Cluster::get_free_port();

query($server, 'credit', 'CREATE ROLE agents LOGIN IN ROLE gpucredit_agent');
start_pooler();
my @nodes = map { node("n$_") } 1 .. 6;
wait_for('all are heard of', 20,
	sub { query($server, 'credit', 'SELECT bool_and(about IS NOT NULL) FROM gpucredit.node') eq 't' });
my @jobs = map { submit($cluster, '1xT4', 'sleep 1') } 1 .. 8;
push @jobs, my $gang = submit($cluster, '4xT4', 'sleep 1');
wait_for_state($cluster, $_, 'completed') foreach @jobs;
bill_is_fair($cluster, $_, 1, 1) foreach @jobs[ 0 .. 7 ];
bill_is_fair($cluster, $gang, 4, 1);
my $sessions = q{SELECT count(*) FROM pg_stat_activity WHERE usename = 'agents'};
cmp_ok(query($server, 'credit', $sessions), '<=', 2, 'six agents have two sessions');
unlike(join('', map { agent_log($_) } @nodes), qr/_refused|connection_lost/, 'no call of the six agents failed');

# The key of another node is none.
my ($n1, $n2) = @nodes;
end_agent($n1);
my $conf = $n1->{conf};
$n1->{conf} = [ @$conf[ 0 .. 0 ], "node_key = $n2->{folder}/key" ];
start_agent($n1);
wait_for('with the key of another node it is refused', 20,
	sub { agent_log($n1) =~ /event=heartbeat_refused state=42501/ });
end_agent($n1);

# Nothing goes in the clear.
my $encrypted = $n1->{database};
$n1->{database} =~ s/verify-full/disable/;
$n1->{conf} = $conf;
start_agent($n1);
wait_for('without TLS it gets no connection', 20,
	sub { agent_log($n1) =~ /event=connect_failed.*(?:SSL|TLS) required/ });
end_agent($n1);
$n1->{database} = $encrypted;
start_agent($n1);
query($server, 'credit', q{SELECT count(gpucredit.drain(node, 'test')) FROM gpucredit.node WHERE node <> 'n1'});
my $job = submit($cluster, '1xT4', 'sleep 1');
wait_for_state($cluster, $job, 'completed');
bill_is_fair($cluster, $job, 1, 1);
end_cluster($cluster);
stop_pooler();
done_testing();

END { stop_pooler() }

# A node with a key of its own, and an agent that checks the pooler's
# certificate.
sub node
{
	my ($name) = @_;
	my $n = add_node($cluster, $name, 2, stopped => 1,
		database => "host=localhost port=$port dbname=credit user=agents sslmode=verify-full sslrootcert=$dir/crt");
	my $sha = sha256_hex("key of $name");

	append_to_file("$n->{folder}/key", "key of $name");
	chmod 0600, "$n->{folder}/key";
	$n->{conf} = [ 'address = 127.0.0.1', "node_key = $n->{folder}/key" ];
	query($server, 'credit', "SELECT gpucredit.set_node_key('$name', decode('$sha', 'hex'))");
	start_agent($n);
	return $n;
}

sub start_pooler
{
	system("openssl req -new -x509 -nodes -newkey rsa:2048 -days 30 -subj /CN=localhost -keyout $dir/key -out $dir/crt 2>/dev/null") == 0
	  or die 'openssl';
	append_to_file("$dir/ini", <<"END");
[databases]
credit = host=@{[ $server->host ]} port=@{[ $server->port ]} dbname=credit user=agents pool_size=2
[pgbouncer]
pool_mode = transaction
auth_type = any
listen_addr = 127.0.0.1
listen_port = $port
unix_socket_dir =
client_tls_sslmode = require
client_tls_key_file = $dir/key
client_tls_cert_file = $dir/crt
pidfile = $dir/pid
logfile = $dir/log
END
	is(system($pgbouncer, '-q', '-d', "$dir/ini"), 0, 'pgbouncer runs');
	wait_for('it listens', 20, sub { -e "$dir/log" && slurp_file("$dir/log") =~ /listening on 127/ });
	return;
}

sub stop_pooler
{
	my $status = $?;

	if (defined $dir && open(my $file, '<', "$dir/pid"))
	{
		my ($pid) = <$file> =~ /^(\d+)/;

		kill('TERM', $pid) if $pid;
	}
	$? = $status;
	return;
}
