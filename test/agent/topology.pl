# topology.pl: an agent finds its node in a fabric, whatever the file has

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use GpuCredit;
use GpuCreditAgent;
use PostgreSQL::Test::Utils;
use Test::More;

my $folder = PostgreSQL::Test::Utils::tempdir_short();
my $bin    = $ENV{GC_AGENT_BIN} || "$FindBin::RealBin/../../agent";
my $saved  = "$FindBin::RealBin/fabrics";

mkdir "$folder/no_adapters" or die;

# Slurm's two forms of one cluster
for my $form ('conf', 'yaml')
{
	my $file = "$form:$saved/tree.$form";

	is(located('gpu03', $file), 'place leaf1 spine1 rack1 0 0', "$form: a node, its leaf, spine and block");
	is(located('gpu17', $file), 'place leaf2 spine1 rack1 0 0', "$form: the first of a range");
	is(located('gpu40', $file), 'place leaf3 spine2 - 0 0', "$form: a node in no block");
	is(located('login1', $file), 'place leaf4 - - 0 0', "$form: a leaf below no switch");
	is(located($_, $file), 'absent', "$form: $_ is no node") for 'gpu3', 'gpu003', 'gpu33', 'gpu', 'GPU03', 'leaf1';
}

# What Slurm would refuse, or what was not written to its end
my %conf = (
	'no end'             => "SwitchName=a Nodes=gpu[01-04]\nSwitchName=b Swit",
	'a cut list'         => "SwitchName=a Nodes=gpu[01-\n",
	'a word of no value' => "SwitchName=a Nodes\n",
	'a word too many'    => "SwitchName=a Nodes=gpu01 Color=red\n",
	'another beginning'  => "Nodes=gpu01 SwitchName=a\n",
	'two leaves'         => "SwitchName=a Nodes=gpu01\nSwitchName=b Nodes=gpu[01-02]\n",
	'two parents'        => "SwitchName=a Nodes=gpu01\nSwitchName=b Switches=a\nSwitchName=c Switches=a\n",
	'one name twice'     => "SwitchName=a Nodes=gpu01\nSwitchName=a Nodes=gpu02\n",
	'a missing switch'   => "SwitchName=a Nodes=gpu01\nSwitchName=b Switches=a,c\n",
	'itself below'       => "SwitchName=a Nodes=gpu01\nSwitchName=b Switches=b\n",
	'nodes and switches' => "SwitchName=a Nodes=gpu01\nSwitchName=b Nodes=gpu02 Switches=a\n",
	'a range down'       => "SwitchName=a Nodes=gpu[04-01]\n",
	'a huge range'       => "SwitchName=a Nodes=gpu01\nSwitchName=b Switches=a,s[0-999999999]\n",
	'five brackets'      => 'SwitchName=a Nodes=' . ('[0-9]' x 5) . "\n",
	'a name of brackets' => "SwitchName=a[1-2] Nodes=gpu01\n",
	'a long name'        => 'SwitchName=' . ('a' x 256) . " Nodes=gpu01\n",
	'a NUL'              => "SwitchName=a Nodes=gpu01\0\n",
	'an escape'          => "SwitchName=\e[2J Nodes=gpu01\n",
	'a quotation'        => qq(SwitchName="a Nodes=gpu01\n),
	'XML'                => "<switch>\n");
my %yaml = (
	'no end'           => "- topology: t\n  tree:\n    switches:\n      - switch: a\n        nodes: gpu01",
	'a tab'            => "- topology: t\n\ttree:\n",
	'an anchor'        => "- topology: &t t\n",
	'an alias'         => "- topology: t\n  tree:\n    switches:\n      - switch: *t\n",
	'a list in a line' => "- topology: t\n  tree: {switches: [{switch: a, nodes: gpu01}]}\n",
	'a key twice'      => tree("      - switch: a\n        nodes: gpu01\n        nodes: gpu02\n"),
	'an unknown key'   => tree("      - switch: a\n        color: red\n"),
	'no name'          => tree("      - nodes: gpu01\n"),
	'too far left'     => tree("      - switch: a\n       nodes: gpu01\n"),
	'two documents'    => "- topology: t\n  flat: true\n---\n- topology: u\n",
	'two defaults'     => "- topology: t\n  cluster_default: true\n- topology: u\n  cluster_default: true\n",
	'a mapping'        => "topology: t\n",
	'a missing switch' => tree("      - switch: a\n        children: b\n"));

refused("conf: $_", "conf:$folder/hostile", $conf{$_}) for sort keys %conf;
refused("yaml: $_", "yaml:$folder/hostile", $yaml{$_}) for sort keys %yaml;
is(located('gpu01', "conf:$folder/nowhere"), 'failed No such file or directory', 'no file');
is(located('gpu01', "conf:$folder"), 'failed it is no regular file', 'a folder');
is(system('mkfifo', "$folder/pipe"), 0, 'a pipe is made');
is(located('gpu01', "conf:$folder/pipe"), 'failed it is no regular file', 'a pipe that nobody writes');
write_file('empty', '');
is(located('gpu01', "$_:$folder/empty"), 'absent', "$_: an empty file names no node") for 'conf', 'yaml', 'ibnetdiscover';
is(located('n7', 'conf:' . write_file('joined', "# two\nswitchname=a \\\n  nodes=n[1-9]\r\n")), 'place a - - 0 0', 'lines that are joined');
is(located('r2n05', 'conf:' . write_file('racks', "SwitchName=a Nodes=r[1-4]n[01-08,12]\n")), 'place a - - 0 0', 'several brackets');
is(located('n10', 'conf:' . write_file('width', "SwitchName=a Nodes=n[8-11]\n")), 'place a - - 0 0', 'a range over a digit more');

# Saved outputs of ibnetdiscover
my $ib = "ibnetdiscover:$saved";

is(located('gpu1', "$ib/two_level.ib"), 'place S-0000000000000101 S-0000000000000201 - 400000 400000', 'a fat tree of two levels');
is(located('gpu3', "$ib/two_level.ib"), 'place S-0000000000000102 S-0000000000000201 - 400000 400000', 'its other leaf has the same spine');
is(located('gpu3.example.org', "$ib/two_level.ib"), 'place S-0000000000000102 S-0000000000000201 - 400000 400000', 'a node with its domain');
is(located('gpu9', "$ib/two_level.ib"), 'absent', 'a node that is not there');
is(located('MT4129', "$ib/two_level.ib"), 'absent', 'an adapter without a name is nobody\'s');

# Larger ones are generated: pods of leaves, each leaf with hosts.
my $three = fabric(pods => 2, leaves => 2, spines => 2, cores => 2, hosts => 4);
is(located('h0', ib($three)), 'place S-0000000000010000 S-0000000000020000 - 400000 200000', 'three levels: the first pod');
is(located('h7', ib($three)), 'place S-0000000000010001 S-0000000000020000 - 400000 200000', 'its second leaf');
is(located('h8', ib($three)), 'place S-0000000000010002 S-0000000000020002 - 400000 200000', 'the second pod has a spine of its own');

# A manager's host at a core, and computing adapters in switches
my $managed = fabric(pods => 2, leaves => 8, spines => 8, cores => 2, hosts => 4, manager => 1, sharp => 1);
is(located('h0', ib($managed)), 'place S-0000000000010000 S-0000000000020000 - 400000 400000', 'a manager at a core joins no pods');
is(located('h63', ib($managed)), 'place S-000000000001000f S-0000000000020008 - 400000 400000', 'and computing adapters in spines are no hosts');

# Rails: each of a host's adapters has a leaf of its own.
my $rails = fabric(pods => 2, leaves => 4, spines => 4, cores => 2, hosts => 8, rails => 4);
is(located('h0', ib($rails)), 'place S-0000000000010000 S-0000000000020000 - 1600000 800000', 'rails: the leaves of a group are one');
is(located('h7', ib($rails)), 'place S-0000000000010000 S-0000000000020000 - 1600000 800000', 'for each of its hosts');
is(located('h8', ib($rails)), 'place S-0000000000010004 S-0000000000020004 - 1600000 800000', 'the next group is another');
my $broken = fabric(pods => 2, leaves => 4, spines => 4, cores => 2, hosts => 8, rails => 4, without => { 'h1/0' => 1 });
like(located('h1', ib($broken)), qr/^place S-0000000000010000 S-0000000000020000 - 1200000 /, 'a host without its first cable stays in its group');
my $storage = fabric(pods => 2, leaves => 4, spines => 4, cores => 2, hosts => 8, rails => 4, storage => 1);
like(located('h8', ib($storage)), qr/^place S-0000000000010004 S-0000000000020004 /, 'a file server in both groups does not join them');

# Asymmetric: fewer uplinks, and a switch that is gone
my $thin = fabric(pods => 1, leaves => 2, spines => 4, cores => 0, hosts => 8, uplinks => { 1 => 1 });
is(located('h0', ib($thin)), 'place S-0000000000010000 S-0000000000020000 - 400000 200000', 'half of the bandwidth leads up');
is(located('h8', ib($thin)), 'place S-0000000000010001 S-0000000000020000 - 400000 50000', 'of the other leaf an eighth');
my $dead = fabric(pods => 1, leaves => 2, spines => 4, cores => 0, hosts => 8, dead => { 0 => 1 });
is(located('h0', ib($dead)), 'place S-0000000000010000 S-0000000000020001 - 400000 150000', 'without its first spine switch');
my $lonely = fabric(pods => 1, leaves => 1, spines => 0, cores => 0, hosts => 3);
is(located('h2', ib($lonely)), 'place S-0000000000010000 - - 400000 0', 'one switch alone has no spine');

# Names that lie: GUIDs of the machine's own adapters go first.
my $liar = fabric(pods => 2, leaves => 2, spines => 2, cores => 2, hosts => 4, called => { 8 => 'h0' });
mkdir "$folder/adapters" or die;
mkdir "$folder/adapters/mlx5_0" or die;
append_to_file("$folder/adapters/mlx5_0/node_guid", "0000:0000:0003:0000\n");
is(located('h0', ib($liar), "$folder/adapters"), 'place S-0000000000010000 S-0000000000020000 - 400000 200000', 'another host with this name is another host');
is(located('renamed', ib($liar), "$folder/adapters"), 'place S-0000000000010000 S-0000000000020000 - 400000 200000', 'whatever the node is called');
is(located('h0', ib($lonely), "$folder/no_adapters"), 'place S-0000000000010000 - - 400000 0', 'by name where it has none');
my $many = fabric(pods => 1, leaves => 1, spines => 0, cores => 0, hosts => 100, called => { map { $_ => 'h0' } 0 .. 99 });
is(located('h0', ib($many)), 'failed more adapters have this node\'s name than a node has', 'a hundred hosts of one name');

# Truncated anywhere, a file is refused or names nothing wrong.
my $whole = $three;
my $wrong = 0;
my $right = located('h0', ib($three));
for my $part (1 .. 40)
{
	my $said = located('h0', ib(substr($whole, 0, int(length($whole) * $part / 41))));

	$wrong++ unless $said =~ /^failed / || $said eq 'absent' || $said eq $right;
}
is($wrong, 0, 'cut off at 40 places, none is taken for another fabric');
refused("ibnetdiscover: $_->[0]", "ibnetdiscover:$folder/hostile", $_->[1])
  for [ 'not its output', "hello\n" ], [ 'a port of nothing', qq([1]\t"S-1"[1]\n) ], [ 'a GUID too long', qq(Switch\t1 "S-12345678901234567"\n) ],
  [ 'twice', qq(Switch\t1 "S-1"\nSwitch\t1 "S-1"\n) ], [ 'a kind that differs', qq(Switch\t1 "H-1"\n) ],
  [ 'a dangling cable', qq(Switch\t1 "S-1"\n[1]\t"H-2"[1]\n) ], [ 'a NUL', qq(Switch\t1 "S-1" # "\0"\n) ];

# A fabric of 10,240 hosts, and a file of 40 MB that is one line
my $huge = fabric(pods => 20, leaves => 16, spines => 16, cores => 32, hosts => 32);
is(located('h10239', ib($huge)), 'place S-000000000001013f S-0000000000020130 - 400000 200000', 'a fabric of 10,240 hosts');
refused('conf: 40 MB in one line', "conf:$folder/hostile", 'SwitchName=a Nodes=' . ('gpu01,' x 7_000_000) . "gpu01\n");
is(located('gpu01', 'conf:' . write_file('wide', "SwitchName=a Nodes=gpu[0-999999999]\n")), 'absent', 'a range of a billion nodes is not expanded');

# The agent reports it once, and what an operator registers goes before it.
my $cluster = cluster('topology');
my $server  = $cluster->{server};
my $file    = "$folder/now";
my $reports = q{SELECT count(*) FROM gpucredit.audit WHERE operation = 'report_topology' AND detail ->> 'node' = 'n1'};
write_now("SwitchName=l1 Nodes=n[1-4]\nSwitchName=s1 Switches=l1\n");
my $n1 = add_node($cluster, 'n1', 1, conf => [ "topology = conf:$file", 'topology_poll_ms = 100', "infiniband = $folder/no_adapters" ]);
wait_for('its place is reported', 60, sub { shown() eq 'l1 s1' });
query($server, 'credit', "SELECT gpucredit.register_node('default', 'n1', 'T4', 1, 16384, leaf => 'mine')");
is(shown(), 'mine s1', 'the operator\'s leaf, and the spine that was found');
is(query($server, 'credit', "SELECT registered || ' ' || (discovered ->> 'leaf') FROM gpucredit_views.nodes WHERE node = 'n1'"), 'leaf l1', 'both are shown');
my $calls = query($server, 'credit', $reports);

# What is half-written, refused, or of other nodes alone moves nothing.
for my $what ([ 'topology_refused', "SwitchName=l2 Nodes=n[1-" ], [ 'topology_absent', "SwitchName=l2 Nodes=m[1-4]\n" ], [ 'topology_refused', "SwitchName=l2 Nodes=n1\nSwitchName=l3 Nodes=n1\n" ])
{
	my ($event, $text) = @$what;
	my $before = () = agent_log($n1) =~ /event=$event/g;

	write_now($text);
	wait_for("$event is logged", 60, sub { $before < (() = agent_log($n1) =~ /event=$event/g) });
	write_now("SwitchName=l1 Nodes=n[1-4]\nSwitchName=s1 Switches=l1\n");
	my $read = () = agent_log($n1) =~ /event=topology_read/g;
	wait_for('and that the file is read again', 60, sub { agent_log($n1) =~ /event=\Q$event\E.*event=topology_read[^\n]*\n\z/s || $read < (() = agent_log($n1) =~ /event=topology_read/g) });
	is(shown(), 'mine s1', 'the last report stays');
}
is(query($server, 'credit', $reports), $calls, 'and nothing was reported again');

# A restarted agent repeats it, which changes nothing; a change is applied.
end_agent($n1);
start_agent($n1);
wait_for('it is told again', 60, sub { agent_log($n1) =~ /event=topology_reported.*event=agent_start.*event=topology_reported/s });
is(query($server, 'credit', $reports), $calls, 'and audited once');
query($server, 'credit', "UPDATE gpucredit.node SET topology_at = topology_at - '2 min'::interval WHERE node = 'n1'");
write_now("SwitchName=l2 Nodes=n1\nSwitchName=s2 Switches=l2\n");
wait_for('the node is elsewhere', 60, sub { shown() eq 'mine s2' });
is(query($server, 'credit', $reports), $calls + 1, 'which is audited once');

# With topology = none it takes back what it reported.
query($server, 'credit', "UPDATE gpucredit.node SET topology_at = topology_at - '2 min'::interval WHERE node = 'n1'");
end_agent($n1);
$n1->{conf} = [ 'topology = none', 'topology_poll_ms = 100' ];
start_agent($n1);
wait_for('nothing is known any more', 60, sub { shown() eq 'mine ' });
end_agent($n1);

# What NVML says: NVLink, its fabric of several machines, PCIe host bridges.
is(system("gcc -shared -fPIC -o $folder/libnvidia-ml.so.1 $FindBin::RealBin/nvml_fake.c"), 0, 'a library is compiled');
$ENV{GPUCREDIT_FAKE_NVML} = "$folder/gpus";
write_file('gpus', join('', "init 0\n", (map { "gpu $_ GPU-n2-$_ 16384 1 0 0 0 ok\n" } 0 .. 3), (map { "place $_ 18 7 171 5 " . int($_ / 2) . "\n" } 0 .. 3)));
my @nvml = ('devices = nvml', "nvml_library = $folder/libnvidia-ml.so.1", 'device_poll_ms = 300', 'topology_poll_ms = 100', "infiniband = $folder/no_adapters");
my $n2 = add_node($cluster, 'n2', 4, conf => [@nvml]);
my $of = q{SELECT concat_ws(' ', nvlink_domain, nvlink_mbps, discovered -> 'pcie') FROM gpucredit.nodes WHERE node = };
wait_for('an NVLink domain of several machines, bandwidth and PCIe', 60,
	sub { query($server, 'credit', "${of}'n2'") eq ('ab' x 16) . '.5 7200000 ["{0-1}", "{2-3}"]' });
end_agent($n2);
write_file('gpus', join('', "init 0\n", (map { "gpu $_ GPU-n3-$_ 16384 1 0 0 0 ok\n" } 0 .. 1), "place 0 18 6 171 5 0\n", "place 1 17 6 171 6 1\n"));
my $n3 = add_node($cluster, 'n3', 2, conf => [@nvml]);
wait_for('two cliques are no domain, the slowest GPU counts', 60,
	sub { query($server, 'credit', "${of}'n3'") eq '3400000 ["{0}", "{1}"]' });
end_agent($n3);
for my $wrong ('topology = guess:/f', 'topology = conf:')
{
	my $n = add_node($cluster, 'wrong', 1, stopped => 1, conf => [$wrong]);

	start_agent($n);
	waitpid(delete $n->{pid}, 0);
	is($? >> 8, 1, "\"$wrong\" ends the agent");
}
end_cluster($cluster);
done_testing();

# What an agent of this node would make of a file.
sub located
{
	my ($node, $topology, $adapters) = @_;
	my ($out, $err);

	unlink("$folder/conf");
	append_to_file("$folder/conf", "node = $node\ndatabase = dbname=none\ntopology = $topology\ninfiniband = " . ($adapters // "$folder/no_adapters") . "\n");
	IPC::Run::run([ "$bin/gpucredit-agent", 'topology', "$folder/conf" ], '>', \$out, '2>', \$err);
	chomp($out);
	return $out;
}

sub refused
{
	my ($what, $topology, $text) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	write_file('hostile', $text);
	like(located('gpu01', $topology), qr/^failed \w/, "$what is refused");
	return;
}

sub write_file
{
	my ($name, $text) = @_;

	unlink("$folder/$name");
	open(my $to, '>:raw', "$folder/$name") or die $!;
	print $to $text;
	close($to) or die $!;
	return "$folder/$name";
}

sub write_now
{
	my ($text) = @_;

	write_file('now.new', $text);
	rename("$folder/now.new", $file) or die $!;
	return;
}

sub ib { return 'ibnetdiscover:' . write_file('fabric', $_[0]) }

sub tree { return "- topology: t\n  tree:\n    switches:\n$_[0]" }

sub shown
{
	return query($server, 'credit', q{SELECT concat(leaf, ' ', spine) FROM gpucredit.nodes WHERE node = 'n1'});
}

# The output of ibnetdiscover for pods of leaves, spine switches and cores. A
# leaf has as many uplinks as hosts / 2 together, unless "uplinks" says how many
# spine switches it reaches by one cable each.
sub fabric
{
	my %f = @_;
	my $rails  = $f{rails} || 1;
	my $groups = $f{leaves} / $rails;
	my (%part, %ports, $host);
	my $cable = sub {
		my ($a, $b, $speed) = @_;
		my ($pa, $pb) = (++$ports{$a}, ++$ports{$b});

		push @{ $part{$a} }, qq([$pa]\t"$b"[$pb]\t\t# "x" lid 1 $speed);
		push @{ $part{$b} }, qq([$pb]\t"$a"[$pa]\t\t# "x" lid 1 $speed);
	};
	my $name = sub { sprintf('%s-%016x', @_) };
	my %text;
	my $adapter = 0;

	for my $pod (0 .. $f{pods} - 1)
	{
		for my $leaf (map { $pod * $f{leaves} + $_ } 0 .. $f{leaves} - 1)
		{
			my $up = $f{uplinks} && $f{uplinks}{$leaf} ? $f{uplinks}{$leaf} : $f{spines};

			$part{ $name->('S', 0x10000 + $leaf) } ||= [];
			for my $spine (map { $pod * $f{spines} + $_ } 0 .. $up - 1)
			{
				next if $f{dead} && $f{dead}{$spine};
				my $cables = $f{uplinks} ? 1 : $f{hosts} / 2 / $f{spines} || 1;

				$cable->($name->('S', 0x10000 + $leaf), $name->('S', 0x20000 + $spine), '4xNDR') for 1 .. ($cables < 1 ? 1 : $cables);
			}
		}
		for my $spine (map { $pod * $f{spines} + $_ } 0 .. $f{spines} - 1)
		{
			$cable->($name->('S', 0x20000 + $spine), $name->('S', 0x40000 + $_), '4xNDR') for 0 .. $f{cores} - 1;
			next unless $f{sharp};
			my $inside = $name->('H', 0x60000 + $spine);

			$text{$inside} = 'Mellanox Technologies Aggregation Node';
			$cable->($name->('S', 0x20000 + $spine), $inside, '4xNDR');
		}
		for my $group (map { $pod * $groups + $_ } 0 .. $groups - 1)
		{
			for my $in (0 .. $f{hosts} - 1)
			{
				my $h = $group * $f{hosts} + $in;

				for my $rail (0 .. $rails - 1)
				{
					my $hca = $name->('H', 0x30000 + $adapter++);

					$text{$hca} = ($f{called}{$h} // "h$h") . " mlx5_$rail";
					$part{$hca} ||= [];
					$cable->($name->('S', 0x10000 + $group * $rails + $rail), $hca, '4xNDR') unless $f{without} && $f{without}{"h$h/$rail"};
				}
			}
		}
	}
	for my $extra ($f{manager} ? [ 0x40000, 'ufm' ] : (), $f{storage} ? ([ 0x10000, 'nas' ], [ 0x10000 + $f{leaves}, 'nas' ]) : ())
	{
		my $hca = $name->('H', 0x70000 + $adapter++);

		$text{$hca} = "$extra->[1] mlx5_0";
		$cable->($name->('S', $extra->[0]), $hca, '4xNDR');
	}
	return "#\n# Topology file: generated by hand\n#\n" . join('', map {
		my $guid = substr($_, 2);
		my $what = /^S/ ? "switchguid=0x$guid($guid)\nSwitch\t65 " : "caguid=0x$guid\nCa\t1 ";

		"\nvendid=0x2c9\n$what\"$_\"\t\t# \"" . ($text{$_} // "MF0;$_:MQM9700/U1") . "\"\n" . join('', map { "$_\n" } @{ $part{$_} })
	} sort keys %part);
}
