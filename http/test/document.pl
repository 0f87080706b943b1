# document.pl: the examples of docs/http.md, run as they are printed, one after
# the other in one shell; what each prints is what the page says
#
# Packages: libmicrohttpd-dev libjansson-dev libcurl4-openssl-dev libcjose-dev libssl-dev libpq-dev libhttp-tiny-perl curl jq python3 node:nodejs npm:npm
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/lib";
use GpuCreditHttp;
use GpuCredit;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $page = slurp_checkout('docs/http.md');
my $folder = PostgreSQL::Test::Utils::tempdir();
my $node = http_node('document');
my $token = token($node, 'ann');
my $receiver = PostgreSQL::Test::Cluster::get_free_port();
my (@wanted, @shell);

# nothing starts, so that what waits is the same each time
$node->safe_psql('web', q{SELECT gpucredit.drain('n1', 'maintenance')});
daemon_start($node, '--webhook-networks', '127.0.0.1/32');

foreach my $program (qw(receiver.py client.ts))
{
	my ($text) = $page =~ /ave (?:it|this) as `\Q$program\E`:\n```\w+\n(.*?)^```/ms;

	append_to_file("$folder/$program", $text);
}
while ($page =~ /^```sh\n(.*?)^```\n```text\n(.*?)^```/gms)
{
	push @shell, $1;
	push @wanted, $2;
}
cmp_ok(scalar(@shell), '>', 10, 'the page has examples');
is(scalar(@shell), scalar(() = $page =~ /^```sh$/mg), 'each with what it prints');

# the worker that numbers events is there; on a busy machine it takes longer than
# the page allows for, so a pause of the page's ends when they have numbers
$node->poll_query_until('web', 'SELECT NOT EXISTS (SELECT FROM gpucredit.event_pending)');
my $psql  = join(' ', 'psql -XAtq -d web -h', $node->host, '-p', $node->port);
my $pause = <<"END";
sleep ()
{
	command sleep \$((\$1 * 2))
	until [ "\$($psql -c 'SELECT count(*) FROM gpucredit.event_pending')" = 0 ]; do command sleep 0.2; done
}
END

my $text = join("echo '<end>'\n", "set -eu\n$pause", @shell, '');
my $port = daemon_port();
$text =~ s/127\.0\.0\.1:8086/127.0.0.1:$port/;
$text =~ s/PORT=8099/PORT=$receiver/;
$text =~ s/TOKEN=gpc_\.\.\./TOKEN=$token/;
append_to_file("$folder/page.sh", $text);
local $ENV{HOME} = $folder;			# npm's own files
local $ENV{npm_config_update_notifier} = 'false';
my $output = qx{cd $folder && timeout 400 bash page.sh 2>&1};
is($?, 0, 'all of them succeed') || diag($output);
my (undef, @got) = split /^<end>\n/m, $output, -1;
foreach my $i (0 .. $#wanted)
{
	my $pattern = join('.*', map { quotemeta } split /\.\.\./, $wanted[$i], -1);
	my ($first) = $shell[$i] =~ /^(?:api|body=|[a-z]+=)?(.*)/m;

	like($got[$i] // '', qr/\A$pattern\z/s, 'as printed: ' . substr($first, 0, 70));
}
is(query($node, 'web', q{SELECT v FROM gpucredit_http.verify() v}), '', 'webhooks hold together');
verify_empty($node, 'web');
done_testing();
