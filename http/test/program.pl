# program.pl: gpucreditd as its package has it: the man page has each option with
# its default, the unit is one that systemd understands, and the command that it
# runs with the configuration that is there to copy answers requests
#
# Packages: libmicrohttpd-dev libjansson-dev libcurl4-openssl-dev libcjose-dev libssl-dev libpq-dev libhttp-tiny-perl systemd-analyze:systemd
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/lib";
use GpuCreditHttp;
use GpuCredit;
use PostgreSQL::Test::Utils;
use Test::More;

my $http = "$FindBin::RealBin/..";
my $dir  = PostgreSQL::Test::Utils::tempdir();
my $man  = slurp_checkout('packaging/man/gpucreditd.8') =~ s/\\-/-/gr;
my $unit = slurp_checkout('packaging/systemd/gpucreditd.service');

# Options: those that the program accepts, its help, and its man page.
my ($table) = slurp_checkout('http/src/options.c') =~ /\blongopts\[\] = \{(.*?)\n\t\};/s;
my @accepted = sort $table =~ /\{"([\w-]+)"/g;
my $help = qx{$http/gpucreditd --help};
my $config = $ENV{GC_PG_CONFIG} // 'pg_config';
my %paragraph;

$paragraph{$1} = $2 while $man =~ /^\.TP\n\.BR [^\n]*--([\w-]+)[^\n]*\n(.*?)(?=^\.TP|^\.SH)/gms;
cmp_ok(scalar(@accepted), '>', 10, 'gpucreditd has options');
is(join(' ', sort keys %paragraph), join(' ', @accepted), 'its man page has each of them, and no other one');
is(join(' ', sort 'help', $help =~ /^ .*?--([\w-]+)/mg), join(' ', @accepted), 'and so has --help');
while ($help =~ /^ +(?:(-\w), )? *--([\w-]+)=\S+(.*?)(?=^ [^\n]*--|\z)/gms)
{
	my ($short, $option, $about) = ($1, $2, $3);
	my ($default) = $about =~ /\((\S+)\)/;

	like($man, qr/^\.BR $short ", " --\Q$option\E /m, "the man page has $short for --$option") if $short;
	like($paragraph{$option} // '', qr/\bDefault\s+\Q$default\E\.$/m, "--$option has its default, $default")
	  if defined $default;
}

# What "make install-program" installs is where the unit expects it.
my $root = "$dir/root";
is(system("make -s -C $http install-program DESTDIR=$root PG_CONFIG='$config' >$dir/make.log 2>&1"), 0,
	'make installs the program') || diag(slurp_file("$dir/make.log"));
ok(-f "$root/usr/share/man/man8/gpucreditd.8", 'with its man page');
my @command = command_of($unit, slurp_checkout('packaging/gpucreditd.conf'));
my $program = shift @command;
ok(-x "$root$program", 'the unit starts what is installed');
my ($console) = map { /^--console=(.*)/ } @command;
is($console, '/usr/share/gpucredit/console', 'with the console, where it is installed');
like(slurp_checkout('http/Makefile'), qr{\(DESTDIR\)\Q$console\E/}, 'by make');

# The command of the unit.  Only where the database and the console are differs.
my $node = http_node('program');
my $token = token($node, 'ann');
my %value = map { /^--([a-z]+)=(.*)/ } @command;
like($value{database}, qr/^host=\S+ dbname=\S+ user=gpucredit_gateway$/, 'it logs in as the gateway');
like($unit, qr/^User=gpucredit_gateway$/m, 'whose name its user has, so the socket lets it in');
like(slurp_checkout('debian/gpucreditd.postinst'), qr/^\s*adduser --system (?:.*\\\n)*.* gpucredit_gateway$/m,
	'and the package makes that user');
is("$value{address}:$value{port}", '127.0.0.1:8086', 'it listens on the loopback address');
mkdir "$dir/console";
append_to_file("$dir/console/index.html", "<!doctype html>\n");
daemon_start($node, map { s/^--console=\K.*/$dir\/console/r } grep { !/^--(?:database|port)=/ } @command);
is(call($token, 'GET', '/v1/balance')->{status}, 200, 'the command of the unit answers requests');
is(call(undef, 'GET', '/readyz')->{content}, "ok\n", 'and says that it has the database');
is(call(undef, 'GET', '/console/')->{content}, "<!doctype html>\n", 'and serves the console');
is(daemon_stop(), 0, 'SIGTERM ends it with status 0, which starts it no more');
is(system("$http/gpucreditd --no-such-option 2>/dev/null") >> 8, 2, 'an option that it does not know is status 2');
$ENV{HOSTILE} = "/no\e[2J\ngpucreditd: listens\r\xc2\x9b\x7f/folder";
isnt(system("$http/gpucreditd --console=\"\$HOSTILE\" 2>$dir/log"), 0, 'without its console the daemon does not begin');
like(slurp_file("$dir/log"), qr{^[^\n]*"/no\\x1b\[2J\\x0agpucreditd: listens\\x0d\xc2\\x9b\\x7f/folder" has no index\.html[^\n]*\n\z},
	'and what it logs of a stranger\'s text is one line without control characters');
foreach my $networks ('10.0.0.0', '10.0.0.0/', '10.0.0.0/33', '10.0.0.0/-1', '10.0.0.0/8,', ',10.0.0.0/8', '10.0.0.0/8,x/8', 'fd00::/129',
	'10.0.0.0/9223372036854775807', '10.0.0.0/18446744073709551616')
{
	is(system("$http/gpucreditd --webhook-networks=$networks --no-such-option >$dir/usage 2>&1") >> 8, 2, "nor are networks understood: $networks");
	unlike(slurp_file("$dir/usage"), qr/no-such-option/, 'and they are what is wrong');
}
like($unit, qr/^RestartPreventExitStatus=2$/m, 'and starts it no more either');

# A password is in the environment, and in no command line.
$node->safe_psql('web', q{ALTER ROLE gpucredit_gateway PASSWORD 'a secret'});
append_to_file($node->data_dir . '/pg_hba.conf.new', "local web gpucredit_gateway scram-sha-256\n"
	  . slurp_file($node->data_dir . '/pg_hba.conf'));
rename $node->data_dir . '/pg_hba.conf.new', $node->data_dir . '/pg_hba.conf' or die;
$node->reload;
daemon_start($node);
is(call($token, 'GET', '/v1/balance')->{status}, 503, 'without its password it has no database');
daemon_stop();
{
	local $ENV{PGPASSWORD} = 'a secret';
	daemon_start($node);
}
is(call($token, 'GET', '/v1/balance')->{status}, 200, 'PGPASSWORD is how it logs in');
like($unit, qr/^EnvironmentFile=-\/etc\/gpucredit\/gpucreditd\.password$/m, 'from a file of the unit that may be missing');
daemon_stop();

# systemd reads the unit without complaint, and what it allows.
SKIP:
{
	skip 'there is no systemd-analyze', 2 if system('command -v systemd-analyze >/dev/null 2>&1') != 0;
	my $here = $unit =~ s/^ExecStart=\K\S+/$root$program/mr;
	is(complaints($here), '', 'systemd understands all of the unit');
	like(complaints($here =~ s/^NoNewPrivileges/NoNewPrivilege/mr), qr/NoNewPrivilege\b/, 'and says what it does not understand');
}
like($unit, qr/^RestrictAddressFamilies=.*\bAF_NETLINK\b/m,
	'it may ask for the machine\'s own addresses, without which it would send no webhook');
like($unit, qr/^$_$/m, "the unit has $_")
  foreach qw(NoNewPrivileges=yes ProtectSystem=strict ProtectHome=yes CapabilityBoundingSet= Restart=on-failure);
verify_empty($node, 'web');
done_testing();

# What systemd says of a unit, and not of those that it wants.
sub complaints
{
	my ($text) = @_;

	mkdir "$dir/units";
	unlink "$dir/units/gpucreditd.service";
	append_to_file("$dir/units/gpucreditd.service", $text);
	return join '', grep { /gpucreditd\.service/ } qx{systemd-analyze verify --man=no $dir/units/gpucreditd.service 2>&1};
}

# The command of a unit with a configuration, split as systemd splits it: ${NAME}
# within a word is the value, and $NAME alone is as many words as it has.
sub command_of
{
	my ($service, $conf) = @_;
	my ($line) = $service =~ /^ExecStart=(.*)$/m;
	my %of;

	$of{$1} = $2 while $conf =~ /^([A-Z]+)="?(.*?)"?$/mg;
	return map {
		/^\$([A-Z]+)$/ ? split(' ', $of{$1} // die "$1 is not in the configuration\n")
		  : s/\$\{([A-Z]+)\}/$of{$1} \/\/ die "$1 is not in the configuration\n"/ger
	} split ' ', $line;
}
