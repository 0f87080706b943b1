# cli.pl: a script with #SBATCH lines becomes a job, once, whatever happens to
# the answer; the commands that people type

use strict;
use warnings;
use Cwd 'realpath';
use FindBin;
use lib "$FindBin::RealBin/../perl";
use GpuCredit;
use GpuCreditAgent;
use IPC::Run 'run';
use JSON::PP;
use POSIX ();
use PostgreSQL::Test::Utils;
use Test::More;

my $cluster = cluster('cli');
my $server  = $cluster->{server};
my $folder  = PostgreSQL::Test::Utils::tempdir_short();
my ($release) = slurp_file("$FindBin::RealBin/../../gpucredit.control") =~ /^default_version = '(.*)'/m;
my $n1      = add_node($cluster, 'n1', 4);

query(
	$server, 'credit', q{
	CREATE ROLE alice LOGIN IN ROLE gpucredit_tenant;
	SELECT gpucredit.create_account('acme', 'vision'),
		gpucredit.create_account('acme', 'vision/alice'),
		gpucredit.create_account('rival');
	SELECT gpucredit.bind_tenant('alice', 'acme', 'vision/alice')});

$ENV{XDG_STATE_HOME}     = "$folder/state";
$ENV{GPUCREDIT_ORG}      = 'acme';
$ENV{GPUCREDIT_ACCOUNT}  = 'vision/alice';
$ENV{GPUCREDIT_DATABASE} = connection('alice');

# A script is submitted and runs, and its output is where the script wants it.
my $script = write_script('train.sh', <<"SCRIPT");
#!/bin/bash
# what it needs
#SBATCH --job-name=train --gres=gpu:T4:2
#SBATCH -t 10 -o "$folder/%x-%j.out"   # its output
#SBATCH --export=DEPTH=3,WIDTH

echo "depth \$DEPTH width \$WIDTH of \$1 on \$SLURM_GPUS_ON_NODE"
#SBATCH --unknown after the first command is no option
SCRIPT
$ENV{WIDTH} = '8';
my ($status, $out, $err) = gpucredit('submit', '--parsable', $script, 'run 7');
is($status, 0,            'a script with options is submitted');
like($out, qr/^\d+\n$/, 'submit --parsable prints the job\'s number alone') or diag($err);
chomp(my $job = $out);
wait_for_state($cluster, $job, 'completed');
is(slurp_file("$folder/train-$job.out"),
	"depth 3 width 8 of run 7 on 2\n", 'the script ran with its argument, its environment and its devices');
is(query($server, 'credit',
		"SELECT request || ' ' || account || ' ' || wall_limit FROM gpucredit.job WHERE job = $job"),
	'2xT4 vision/alice 00:10:00', 'the job asks for what the script\'s #SBATCH lines say');

# A script of a megabyte runs, each job of an array has its own variables beside the
# environment, which is the caller's but for his secrets.
{
	local @ENV{qw(PGPASSFILE GPUCREDIT_TOKEN SLURM_JOB_ID LONG)} = ("$folder/secret", 'secret', '999999', 'x' x 20000);
	my $large = write_script('large.sh', "#!/bin/bash\n#SBATCH -t 5 -o $folder/large-%a.out --array=1-2\n"
		. "echo \"\${PGPASSFILE-none} \${GPUCREDIT_TOKEN-none} \${#LONG} \$WIDTH \$SLURM_ARRAY_TASK_ID of \$((SLURM_JOB_ID < 999999))\"\nexit\n" . ('#' x 1_000_000) . "\n");

	($status, $out, $err) = gpucredit('submit', '--dry-run', $large);
	is("$status$err", '0', 'a quote for a script of a megabyte');
	is(query($server, 'credit', 'SELECT count(*) FROM gpucredit.stored_file'), '0', 'a quote for a script of a megabyte stores nothing');
	($status, $out, $err) = slurm('sbatch', '--parsable', $large);
	is("$status$err", '0', 'a script of a megabyte is submitted');
	is(query($server, 'credit', 'SELECT count(*) FROM gpucredit.stored_file'), '2', 'a script of a megabyte and its environment are stored once for all tasks');
	chomp($job = $out);
	wait_for_state($cluster, $_, 'completed') foreach $job, $job + 1;
	is(slurp_file("$folder/large-$_.out"), "none none 20000 8 $_ of 1\n", 'the tasks of a script of a megabyte have the caller\'s environment without its secrets') foreach 1, 2;
	($status, $out, $err) = gpucredit('submit', write_script('large.sh', "#!/bin/sh\n" . ('#' x 1_048_570) . "\n"));
	is($status, 2, 'a script of more than a megabyte is refused') or diag($err);
	($status, $out) = gpucredit('submit', '--parsable', '-t', '5', '-o', "$folder/bare.out", '--export=NONE', '--wrap', 'echo ${WIDTH-none} ${LONG-none} $SLURM_JOB_ID');
	chomp($job = $out);
	wait_for_state($cluster, $job, 'completed');
	is(slurp_file("$folder/bare.out"), "none none $job\n", '--export=NONE copies nothing of the environment');
}

# A signal some time before the limit: to the script, or to the tasks of its steps.
{
	my $trap = "trap 'echo \$0 got it; kill \$!; exit 3' USR1; echo ready; sleep 300 & wait";
	my %signalled = (
		batch => write_script('batch.sh', "#!/bin/bash\n#SBATCH -t 1 --signal=B:USR1\@53 -o $folder/%x.out\n(trap '' USR1; exec sleep 300) &\n$trap\n"),
		step  => write_script('step.sh', "#!/bin/bash\n#SBATCH -t 1 --signal=SIGUSR1\@53 -o $folder/%x.out\nsrun -n 1 $folder/task.sh\necho then \$?\n"),
		limit => write_script('limit.sh', "#!/bin/bash\n#SBATCH -t 1 --signal=B:10\@65535 -o $folder/%x.out\nsleep 300\n"));
	my %of;

	chmod(0755, write_script('task.sh', "#!/bin/bash\n$trap\n"));
	foreach my $kind (sort keys %signalled)
	{
		($status, $out, $err) = gpucredit('submit', '--parsable', $signalled{$kind});
		chomp($of{$kind} = $out);
	}
	wait_for_state($cluster, $of{batch}, 'failed');
	like(slurp_file("$folder/batch.sh.out"), qr/^ready\n\S+ got it\n$/, 'B: the script gets the signal before its limit');
	is(job_row($cluster, $of{batch}, 'exit_code'), '3', 'a script that gets a signal before its limit ends with its own exit code');
	wait_for_state($cluster, $of{step}, 'completed');
	like(slurp_file("$folder/step.sh.out"), qr/^ready\n\S+ got it\n.*then 3\n$/s, 'without B: the task of a step gets the signal, and the script does not');
	wait_for_state($cluster, $of{limit}, 'failed');
	is(job_row($cluster, $of{limit}, 'exit_code'), '138', 'a signal earlier than the start comes at once');
}

# The command line overrides the script.
($status, $out) = gpucredit('submit', '--parsable', '-G', 'T4:1', '-t', '1-0', '--gres=gpu:1', $script);
chomp($job = $out);
is(query($server, 'credit',
		"SELECT request || ' ' || wall_limit FROM gpucredit.job WHERE job = $job"),
	'1xT4 24:00:00', 'the command line wins');
gpucredit('cancel', $job);
wait_for_state($cluster, $job, 'cancelled');

# Counts mean what they mean in Slurm, and the last of an option that is repeated
# counts. A job of one node stays on one.
query($server, 'credit', q{SELECT gpucredit.create_pool('wide'), gpucredit.set_price('T4', 0.0001, 'wide'),
	gpucredit.register_node('wide', 'w1', 'T4', 8, 16384, 64000, 512000),
	gpucredit.register_node('wide', 'w2', 'T4', 8, 16384, 64000, 512000)});
foreach my $case (
	[ '--gres=gpu:4',                                       '4x*', 0,  0,     'node', 'default' ],
	[ '--gpus=4',                                           '4x*', 0,  0,     'any',  'default' ],
	[ '-N 2 --gres=gpu:T4:3',                               '6xT4', 0, 0,     'any',  'default' ],
	[ '-N 2 --ntasks-per-node=1 --gpus-per-task=2',         '4x*', 2,  0,     'any',  'default' ],
	[ '-n 8 --ntasks-per-node=4 --gres=gpu:2 -c 3',         '4x*', 24, 0,     'any',  'default' ],
	[ '-n 15 --mem-per-cpu=2048',                           '0',   15, 30720, 'any',  'default' ],
	[ '-G 1 --mem=32GB --mem=1G --mem=32gb',                '1x*', 0,  32768, 'any',  'default' ],
	[ '-G 1 --time=5 --time=0',                             '1x*', 0,  0,     'any',  'default' ],
	[ '-G 1 -t UNLIMITED',                                  '1x*', 0,  0,     'any',  'default' ],
	[ '-t 5 -G 1 -t 10 --no-requeue --requeue',             '1x*', 0,  0,     'any',  '00:10:00' ],
	[ '-N 3 -n 2 --gres=gpu:2',                             '4x*', 2,  0,     'any',  'default' ],
	[ '-N 2-2 --gres=gpu:1 --mem=1G',                       '2x*', 0,  2048,  'any',  'default' ],
	[ '--gpus=8 --gpus-per-node=4 --mem=1G',                '8x*', 0,  2048,  'any',  'default' ],
	[ '--gpus=4 --gpus-per-task=2 -c 3',                    '4x*', 6,  0,     'any',  'default' ],
	[ '--gpus=4 --ntasks-per-gpu=2 -c 2',                   '4x*', 16, 0,     'any',  'default' ],
	[ '--gres=gpu:2 -C t4',                                 '2xT4', 0, 0,     'node', 'default' ],
	[ '-G 2 --constraint=[t4]',                             '2xT4', 0, 0,     'any',  'default' ],
	[ '--gpus=T4:2 --constraint=T4|t4',                     '2xT4', 0, 0,     'any',  'default' ],
	[ '--gres=none -c 2',                                   '0',   2,  0,     'any',  'default' ],
	[ '-G 1 --comment=x --nice --nice=5 --open-mode=append --mail-type=END', '1x*', 0, 0, 'any', 'default' ])
{
	my ($options, @expected) = @$case;

	($status, $out, $err) = gpucredit('submit', '--parsable', '-p', 'wide', '--key', "case $options",
		write_script('case.sh', "#!/bin/sh\n#SBATCH $options\ntrue\n"));
	chomp($job = $out);
	is(query($server, 'credit', "SELECT concat_ws(' ', request, cpu_milli / 1000, memory_mib, topology,
			CASE WHEN wall_limit = (SELECT max_wall FROM gpucredit.tier t WHERE t.tier = j.tier) THEN 'default' ELSE wall_limit::text END)
			FROM gpucredit.job j WHERE job = '0$job'"), "@expected", "asks as in Slurm: $options") or diag($err);
	is($err, join('', map { qq{gpucredit: $folder/case.sh:2: option "--$_" has no effect\n} } $options =~ /--(open-mode|mail-type)/g),
		'submit says which options have no effect');
	gpucredit('cancel', $job);
}

# Nodes that a job names, excludes or needs features of, and --nodes, mean what they
# mean in Slurm.
query($server, 'credit', q{SELECT gpucredit.register_node('wide', 'w2', 'T4', 8, 16384, 64000, 512000, labels => '{"nvme": true, "rack": 7}')});
write_script('nodes', "w2\nw1,w2\n");
foreach my $case (
	[ '-N 2 --gres=gpu:3',                 '{"gpus_per_node": 3}' ],
	[ '-N 2 -G 4',                         '{"gpus_per_node": 2}' ],
	[ '-n 4 --ntasks-per-node=2 -G 4',     '{"gpus_per_node": 2}' ],
	[ '-N 2 -G 3',                         undef ],
	[ '-N 1 --gres=gpu:3',                 undef ],
	[ '-G 4',                              undef ],
	[ '-w w[1-2] --gpus-per-node=2',       '{"nodes": ["w1", "w2"], "gpus_per_node": 2}' ],
	[ '-F nodes -G 2',                     '{"nodes": ["w2", "w1"], "gpus_per_node": 1}' ],
	[ '--nodelist=./nodes -N 2 -G 2',      '{"nodes": ["w2", "w1"], "gpus_per_node": 1}' ],
	[ '-w w1 -w w[2,02-03,2],w2 --nodelist=w2 -G 2', '{"nodes": ["w2"]}' ],
	[ '--nodelist=w2 -c 2',                '{"nodes": ["w2"]}' ],
	[ '-x w[1,09-10],r[1-2]n[3] -G 1',     '{"exclude": ["w1", "w09", "w10", "r1n3", "r2n3"]}' ],
	[ '-G 1 -C t4&nvme',                   '{"labels": ["nvme"]}' ],
	[ '-c 1 -C nvme,rack=7',               '{"labels": ["nvme", "rack=7"]}' ],
	[ '-G 2 -C nvme|ib&rack',              '{"labels": [["nvme", "ib"], "rack"]}' ],
	[ '-G 2 -C "(t4&nvme)"',               '{"labels": ["nvme"]}' ],
	[ '-G 2 -C rack=7&(nvme&ib|rack)',     '{"labels": ["rack=7", ["nvme", "rack"], ["ib", "rack"]]}' ],
	[ '--gres=gpu:2 -C [nvme|ib]',         '{"labels": [["nvme", "ib"]]}' ])
{
	my ($options, $expected) = @$case;
	my $dir = Cwd::getcwd();

	chdir($folder);
	($status, $out, $err) = gpucredit('submit', '--parsable', '-p', 'wide', '--key', "place $options",
		write_script('place.sh', "#!/bin/sh\n#SBATCH $options\ntrue\n"));
	chdir($dir);
	chomp($job = $out);
	is(query($server, 'credit', "SELECT coalesce((j.options -> 'placement')::text, 'any') FROM gpucredit.job j WHERE j.job = '0$job'"),
		defined $expected ? query($server, 'credit', "SELECT '$expected'::jsonb") : 'any', "its nodes are those of Slurm: $options") or diag($err);
	gpucredit('cancel', $job);
}
($status, $out, $err) = gpucredit('submit', '-p', 'wide', '-G', '1', '-C', 'tape', '--wrap', 'true');
is("$status$out", '1', 'what no node has is denied');
like($err, qr/^gpucredit: denied: impossible_request: the nodes that .*--constraint allow could never run it$/, 'a denied --constraint is named');

# --exclusive: all of the smallest nodes that have what the job asks for.
query($server, 'credit', q{SELECT gpucredit.create_pool('sizes'), gpucredit.set_price('T4', 0.0001, 'sizes'), gpucredit.set_price('A10', 0.0001, 'sizes'),
	gpucredit.register_node('sizes', 'z1', 'T4', 4, 16384, 32000, 256000),
	gpucredit.register_node('sizes', 'z2', 'T4', 8, 16384, 64000, 512000, labels => '{"ib": true}'),
	gpucredit.register_node('sizes', 'z3', 'T4', 8, 16384, 64000, 512000),
	gpucredit.register_node('sizes', 'z4', 'A10', 2, 24576, 0, 0),
	gpucredit.register_node('sizes', 'z5', 'T4', 0, 0, 16000, 64000)});
foreach my $case (
	[ '-G T4:1',                  '4xT4 32 256000 node {"whole_nodes": true, "gpus_per_node": 4}' ],
	[ '-G T4:4 -c 32 --mem=250G', '4xT4 32 256000 node {"whole_nodes": true, "gpus_per_node": 4}' ],
	[ '-G T4:5',                  '8xT4 64 512000 node {"whole_nodes": true, "gpus_per_node": 8}' ],
	[ '-G T4:1 -c 33',            '8xT4 64 512000 node {"whole_nodes": true, "gpus_per_node": 8}' ],
	[ '-N 2 --gres=gpu:T4:1',     '16xT4 128 1024000 any {"whole_nodes": true, "gpus_per_node": 8}' ],
	[ '-G T4:1 -C ib',            '8xT4 64 512000 node {"labels": ["ib"], "whole_nodes": true, "gpus_per_node": 8}' ],
	[ '-w z3 -G 2 -C t4',         '8xT4 64 512000 node {"nodes": ["z3"], "whole_nodes": true, "gpus_per_node": 8}' ],
	[ '-G 1',                     '2x* 0 0 node {"whole_nodes": true, "gpus_per_node": 2}' ],
	[ '-n 4 --gpus-per-task=1 -c 2 -C t4', '4xT4 32 256000 node {"whole_nodes": true, "gpus_per_node": 4}' ],
	[ '-N 2 -n 4 --gpus-per-task=1 -C t4|a10', '16xT4|A10 128 1024000 any {"whole_nodes": true, "gpus_per_node": 8}' ])
{
	my ($options, $expected) = @$case;

	($status, $out, $err) = gpucredit('submit', '--parsable', '-p', 'sizes', '--key', "whole $options",
		write_script('whole.sh', "#!/bin/sh\n#SBATCH --exclusive $options\ntrue\n"));
	chomp($job = $out);
	is(query($server, 'credit', "SELECT concat_ws(' ', request, cpu_milli / 1000, memory_mib, topology, options -> 'placement') FROM gpucredit.job j WHERE job = '0$job'"),
		$expected, "whole nodes: $options") or diag($err);
	gpucredit('cancel', $job);
}
foreach my $case ([ '-N 3 -G T4:3', 1, 'denied: impossible_request: the pool has too few whole nodes of one size' ],
	[ '-G T4:1 -c 65', 1, 'no node of pool "sizes" has the GPUs, cpus and memory' ],
	[ '-G H100:1', 1, 'no node of pool "sizes" has' ], [ '-c 1', 2, 'whole.sh:2: --exclusive is for jobs with GPUs; use' ])
{
	my ($options, @expected) = @$case;

	($status, $out, $err) = gpucredit('submit', '-p', 'sizes', write_script('whole.sh', "#!/bin/sh\n#SBATCH $options --exclusive\ntrue\n"));
	is("$status$out", $expected[0], "no whole nodes: $options");
	like($err, qr/\Q$expected[1]\E/, '... which says why');
}
is(query($server, 'credit', q{SELECT options ->> 'priority' FROM gpucredit.job WHERE options ? 'priority'}), '-5', 'nice jobs go behind their account\'s others');

# An unknown option is refused with its line number, and no job is made.
my $before = jobs();
foreach my $line ('--signal=KILL@60', '--signal=R:USR1', '--signal=USR1@x', '-G 1 --constraint=t4*2', '-c 1 -C T4',
	'-G 1 -C nvme|t4', '-G 1 -C [nvme&ib]', '-G 2 -C [nvme|ib]', '-C (nvme', '-C nvme)', '-C nvme||ib', '-C ()', '-C &', '-w w1,w2 -G 1', '-w w1,w2 -n 2', '-N 1 -w w[1-2] -G 2',
	'-w w[1-2] -n 1 -G 2', '-w w[1-', '-w w[3-1]', '-w w[1-65] -G 65', '-w w[a]', '-w w]', '-w w[]', '-w w[1-2-3]', '-w ,', '-w ./none', '-F none', '-x w[1-1000000]', '-G a100:1 -C t4', '--nice=x', '--gres=fpga:1', '--gres=gpu:1,gpu:2', '-N 1-3', '--mem=1G --mem-per-cpu=1G', '--hold=1', '--exclusive=user', '--nonsense', '--time=soon',
	'--mem=lots', '--mem=32BG', '--array=5-1', '--array=1-3%0', '--array=1%', '--dependency=afterok', '-d afterok:x',
	'-d afterok:1,afterany:2?afterok:3', '--begin=soon', '--begin=2030-0116:00', '--begin=13/0116:00', '--begin=2030-01-201', '--begin=01/20/123', '--begin=now+9223372036854775807weeks', '--begin=now-1day', '--array=1-2:9223372036854775807', qq{--label=x=\xff}, qq{-J \xff}, '--begin=2030-02-30', '--deadline=25:00', '--label=x', '--kill-on-invalid-dep=maybe', '-N 0', 'train', '--gpus', '"--mem=1G', '--launch=per_hour')
{
	my $bad = write_script('bad.sh', "#!/bin/sh\n#SBATCH $line\ntrue\n");

	($status, $out, $err) = gpucredit('submit', $bad);
	is($status, 2, "refused: $line");
	like($err, $line =~ /\xff/ ? qr/not UTF-8/ : qr/bad\.sh:2: /, 'a refused option is named by its line, or why it is refused') or diag($err);
}
foreach my $pair ('--gres=gpu:1 --gpus-per-node=1', '-G 1 --cpus-per-gpu=2 -c 2', '-G 2 --ntasks-per-gpu=1 --gpus-per-task=1', '--mem-per-gpu=1G',
	'--ntasks-per-gpu=2', '-G 3 --gpus-per-node=2', '-N 3 -G 4 --gpus-per-node=2')
{
	($status, $out, $err) = gpucredit('submit', write_script('bad.sh', "#!/bin/sh\n#SBATCH $pair\ntrue\n"));
	like("$status$out $err", qr/^2 gpucredit: --\S+ .*(?:exclude each other|needs|contradicts|is no multiple of).*; (?:keep|add|remove|change) /, "refused: $pair");
}
foreach my $text ("true\n", "#!/bin/sh\n\0\n", '', "#!\n", "#!/bin/sh\r\ntrue\r\n")
{
	($status) = gpucredit('submit', write_script('bad.sh', $text));
	is($status, 2, 'a text that is no script is refused');
}
foreach my $case ([ '#!python3', '#!/usr/bin/env python3' ], [ '#!/usr/bin/env python3 -u', '#!/usr/bin/env -S python3 -u' ],
	[ "\xef\xbb\xbf#!/bin/sh", q{sed -i '1s/^\xef\xbb\xbf//'} ])
{
	($status, $out, $err) = gpucredit('submit', write_script('bad.sh', "$case->[0]\ntrue\n"));
	is("$status$out", '2', 'a script whose first line runs nowhere is refused');
	like($err, qr/bad\.sh.*\Q$case->[1]\E/, 'the refusal of a first line says what is to be written or run');
}
is(jobs(), $before, 'none of the refused submissions became a job');

# An interpreter that this machine lacks may be on the nodes: a warning names it,
# and where it is not, the job fails as in a shell.
foreach my $case ([ '#! /no/such/python -u', '/no/such/python' ], [ '#!/usr/bin/env no-such-python', 'no-such-python' ],
	[ '#!/usr/bin/env -S DEPTH=3 no-such-python -u', 'no-such-python' ])
{
	local $ENV{PATH} = '/usr/bin:/bin';
	($status, $out, $err) = gpucredit('submit', '--parsable', '-t', '5', write_script('lost.py', "$case->[0]\n"));
	chomp($job = $out);
	is($status, 0, "submitted: $case->[0]");
	like($err, qr/^gpucredit: \Q$folder\E\/lost\.py:1: .*"\Q$case->[1]\E".* on a node like it the job fails.*\n$/, 'an interpreter that this machine lacks is named in a warning');
	wait_for_state($cluster, $job, 'failed');
	is(job_row($cluster, $job, 'exit_code'), '127', 'a job whose interpreter its node lacks fails with exit code 127');
}
chmod(0644, write_script('no-program', ''));
($status, $out, $err) = gpucredit('submit', '--dry-run', '-t', '5', write_script('lost.py', "#!$folder/no-program\n"));
like($err, qr/no-program": Permission denied; .* exit code 126\n$/, 'an interpreter that is no program is named in a warning');
foreach my $quiet ([ '#!/usr/bin/env -S sh -e' ], [ '#!/usr/bin/env sh' ], [ '#!./sh' ], [ '#!/no/such/python', '--image', 'registry/image' ])
{
	my ($line, @options) = @$quiet;

	($status, $out, $err) = gpucredit('submit', '--dry-run', '-t', '5', @options, write_script('found.py', "$line\n"));
	is($err, '', "no warning: @$quiet");
}

# A process for each GPU.
($status, $out, $err) = gpucredit('submit', '--parsable', '--launch=per_gpu', '-t', '10', '--gpus=T4:2', '--output', "$folder/ranks", '--wrap', 'echo rank $RANK');
chomp($job = $out) or diag($err);
wait_for_state($cluster, $job, 'completed');
is(join('', sort(split(/^/, slurp_file("$folder/ranks")))), "rank 0\nrank 1\n", 'each GPU has its process');

# An array is one call: all or none.
($status, $out) = gpucredit('submit', '--parsable', '--array=1-3,7', '--wrap',
	'exit $SLURM_ARRAY_TASK_ID');
my @array = split /\n/, $out;
is(scalar(@array), 4, 'an array of four tasks is four jobs');
wait_for_state($cluster, $_, 'failed') foreach @array;
is(join(' ', map { job_row($cluster, $_, 'exit_code') } @array),
	'1 2 3 7', 'each task of the array ran with its index');

# sbatch prints the number of the array; its tasks know it, and its limit holds.
($status, $out, $err) = slurm('sbatch', '--parsable', '-J', 'sweep', '-t', '1', '-G', '1', '--array=2-6:2%1', '-o', "$folder/%x-%A-%a", '--wrap',
	'env | grep ^SLURM_ARRAY | sort; sleep 0.3');
like($out, qr/^\d+\n$/, 'sbatch prints one number for the array') or diag($err);
chomp(my $sweep = $out);
my @tasks = split /\n/, query($server, 'credit', "SELECT job FROM gpucredit.job WHERE name = 'sweep' ORDER BY job");
is($tasks[0], $sweep, 'the number of an array is that of its first job');
is(query($server, 'credit', "SELECT string_agg(concat_ws('/', task, at_most), ' ' ORDER BY job) FROM gpucredit.job WHERE name = 'sweep'"),
	'2/1 4/1 6/1', 'the tasks of the array keep its limit of one at a time');
my ($after) = (slurm('sbatch', '--parsable', '-d', "afterok:$sweep", '--wrap', 'true'))[1] =~ /(\d+)/;
is(query($server, 'credit', "SELECT after FROM gpucredit.job WHERE job = $after"), "afterok:${sweep}_*", 'a job that waits for an array waits for all of its tasks');
my ($second) = (slurm('sbatch', '--parsable', '-d', "afterok:${sweep}_4", '--wrap', 'true'))[1] =~ /(\d+)/;
is(query($server, 'credit', "SELECT after FROM gpucredit.job WHERE job = $second"), "afterok:$tasks[1]", 'a job that waits for one task of an array waits for that task');
wait_for_state($cluster, $after, 'completed');
is(query($server, 'credit', "SELECT count(*) FROM gpucredit.attempt a, gpucredit.attempt b WHERE a.job = ANY ('{@{[join ',', @tasks]}}') AND b.job = ANY ('{@{[join ',', @tasks]}}')
		AND a.job < b.job AND a.ended_at > b.started_at"), '0', 'no two tasks of an array with the limit of one ran at once');
is(query($server, 'credit', "SELECT a.started_at >= max(b.ended_at) FROM gpucredit.attempt a, gpucredit.attempt b WHERE a.job = $after AND b.job = ANY ('{@{[join ',', @tasks]}}') GROUP BY a.started_at"),
	't', 'the job that waited for the array began after all of its tasks');
foreach my $task (2, 4, 6)
{
	is(slurp_file("$folder/sweep-$sweep-$task"), "SLURM_ARRAY_JOB_ID=$sweep\nSLURM_ARRAY_TASK_COUNT=3\nSLURM_ARRAY_TASK_ID=$task\n"
		  . "SLURM_ARRAY_TASK_MAX=6\nSLURM_ARRAY_TASK_MIN=2\nSLURM_ARRAY_TASK_STEP=2\n", "what task $task knows");
}

# A dry run says what it would cost and when it would start, and submits nothing.
my $submitted = jobs();
($status, $out, $err) = gpucredit('submit', '--dry-run', '-t', '30', '-G', 'T4:2', '--wrap', 'true');
is($status, 0, 'a dry run submits without an error') or diag($err);
like($out, qr/^$_$/m, "it says: $_")
  foreach 'decision +granted', 'asks +GPUs 2', 'held +\d+\.\d{6} for 00:30:00', 'cost +\d+\.\d{6} at most, in 00:30:00', 'per hour +\d+\.\d{6}',
  'offer +T4 at \d+\.\d{6} per GPU and hour', 'pays +\d+\.\d{6} of bucket \d+ .*', 'can pay +\d+\.\d{6}', 'starts +now';
($status, $out, $err) = gpucredit('submit', '--dry-run', '-t', '30', '-G', 'T4:1', '--array=1-3%2', '--wrap', 'true');
like($out, qr/^held .*, \d+\.\d{6} for all 3 jobs$/m, 'a dry run of an array says what all of its jobs would hold') or diag($err);
($status, $out, $err) = gpucredit('submit', '--dry-run', '--json', '-t', '30', '-G', 'T4:1', '--array=1-3', '--wrap', 'true');
my $quote = JSON::PP->new->decode($out);
is("$quote->{decision} $quote->{jobs} $quote->{offers}[0]{gpu_type}", 'granted 3 T4', 'a dry run of an array as JSON has decision, jobs and offer');
is_deeply($quote->{asks}, { nodes => undef, tasks => undef, gpus => 1, cpus => undef, memory_mib => undef, wall_seconds => 1800 }, 'a dry run as JSON has how the options were understood');
($status, $out, $err) = gpucredit('submit', '--dry-run', '--gpus=T4:4000', '--wrap', 'true');
is($status, 1, 'a dry run that would be denied has an exit status');
like($out, qr/^decision +denied: impossible_request$/m, 'a dry run that would be denied has the reason');
($status, $out, $err) = slurm('sbatch', '--test-only', '-t', '30', '-G', 'T4:1', '-c', '1', '--wrap', 'true');
is("$status$out", '0', 'sbatch --test-only ends without an error and prints nothing to standard output');
like($err, qr{^sbatch: Job 0 to start at \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d using 1 processors on nodes n/a in partition default$}, 'sbatch --test-only prints the start as Slurm does');
($status, $out, $err) = slurm('sbatch', '--test-only', '--gpus=T4:4000', '--wrap', 'true');
is("$status $err", "1 sbatch: error: allocation failure: impossible_request\n", 'sbatch --test-only prints why a job could never start');
is(jobs(), $submitted, 'no dry run became a job');
is(scalar(my @none = glob("$folder/state/gpucredit/pending/*")), 0, 'no dry run left a key');

# A job waits for others, for its begin or for its release; it has labels.
my $parent = (gpucredit('submit', '--parsable', '--hold', '-J', 'parent', '--label', 'model=llama', '--comment', 'a try', '--wrap', 'exit 3'))[1] + 0;
my $child = (gpucredit('submit', '--parsable', '-d', "afternotok:$parent", '--wrap', 'true'))[1] + 0;
my $never_ok = (gpucredit('submit', '--parsable', '-d', "afterok:$parent", '--kill-on-invalid-dep=yes', '--wrap', 'true'))[1] + 0;
my $tomorrow = (gpucredit('submit', '--parsable', '--begin=now+1day', '--deadline=now+3days', '-t', '1', '--wrap', 'true'))[1] + 0;
place($cluster);
is(query($server, 'credit', "SELECT string_agg(state, ' ' ORDER BY job) FROM gpucredit.job WHERE job IN ($parent, $child, $never_ok, $tomorrow)"),
	'queued queued queued queued', 'no job that waits for others, its begin or its release starts');
is(query($server, 'credit', "SELECT options ->> 'labels' FROM gpucredit.job WHERE job = $parent"), '{"model": "llama", "comment": "a try"}', 'a job has its labels and its comment');
is(query($server, 'credit', "SELECT not_before - submitted_at BETWEEN '23:59:50' AND '24:00:10' AND deadline - not_before = '2 days' FROM gpucredit.job WHERE job = $tomorrow"),
	't', 'a job with --begin and --deadline may start a day after its submission and ends two days later');
($status, $out) = gpucredit('release', $parent);
like($out, qr/^job $parent: queued$/, 'release puts a held job into the queue');
($status, $out) = while_placing(sub { gpucredit('wait', $parent, $child) });
is($status, 3, 'wait returns the exit code of a job');
is($out, "job $parent: failed, exit code 3\njob $child: completed\n", 'wait says how each job ended');
wait_for_state($cluster, $never_ok, 'cancelled');
($status, $out) = gpucredit('hold', $tomorrow);
is($out, "job $tomorrow: queued, held by its owner\n", 'hold keeps a job from its start');
($status, $out, $err) = gpucredit('hold', $parent);
is("$status$out", '1', 'a job that is over is not held');
like($err, qr/job $parent: job $parent does not wait/, 'hold says that a job which is over does not wait');
gpucredit('cancel', $tomorrow);
($status, $out) = while_placing(sub { slurm('sbatch', '-W', '--parsable', '--wrap', 'exit 7') });
is($status, 7, 'sbatch -W waits and returns the exit code');
($status, $out) = while_placing(sub { gpucredit('submit', '--wait', '--wrap', 'kill -9 $$') });
is($status, 137, 'submit --wait returns 128 and the signal');
($status, $out, $err) = gpucredit('submit', '-d', 'afterok:999999', '--wrap', 'true');
like("$status $err", qr/^1 .*UC301/s, 'submit refuses to wait for a job that does not exist');

# One command says what became of a job: its end, the cause, its cost and its use.
my $oom = (gpucredit('submit', '--parsable', '-t', '5', '-G', '2', '-J', 'big', '--wrap', 'echo "CUDA out of memory. Tried to allocate 2 GiB" >&2; exit 1'))[1] + 0;
wait_for_state($cluster, $oom, 'failed');
($status, $out, $err) = gpucredit('job', '--history', $oom);
is($status, 0, 'job shows a failed job') or diag($err);
like($out, qr/^$_$/m, "it says: $_")
  foreach "job             $oom", 'name            big', 'state           failed', 'exit_code       1', 'nodes           n1\{0-1\}', 'request         2x\*',
  'message         (.*\n +)*CUDA out of memory.*', 'billed          \d+\.\d*[1-9]\d*', 'gpu_hours       0\.\d+';
like($out, qr/^advice +f +The GPU's memory was too small/m, 'job says what to do about the failure');
like($out, qr/^last attempt +f +attempt 1 on n1\{0-1\} ended as \w+ after .*, exit code 1, billed \d/m, 'job says how the last attempt ended');
like($out, qr/^History\n.* reserve granted .*\n(.*\n)*.* settle /m, 'job --history says all that happened');
my $document = JSON::PP->new->decode((gpucredit('job', '--json', $oom))[1]);
is("$document->{job} $document->{exit_code} $document->{nodes}", "$oom 1 n1{0-1}", 'job --json has the number, the exit code and the nodes');
is($document->{explain}[0]{check}, 'state', 'job --json has the checks of explain');
like((gpucredit('explain', $oom))[1], qr/advice .*memory was too small/, 'explain says what to do about the failure');
is(JSON::PP->new->decode((gpucredit('queue', '--json', $oom))[1])->[0]{state}, 'failed', 'the queue as JSON');
like(JSON::PP->new->decode((gpucredit('balance', '--json'))[1])->[0]{available}, qr/^\d+\.\d{6}$/, 'the balance as JSON, to the last digit');
($status, $out, $err) = gpucredit('job', 999999);
is("$status$err", "1gpucredit: job 999999 does not exist\n", 'job says that a job does not exist');

# The same commands for programs.
sub documents
{
	my @answer = gpucredit(@_);

	return ($answer[0], JSON::PP->new->canonical->decode($answer[1]));
}
($status, $document) = documents('submit', '--json', '-t', '5', '-G', '1', '--hold', '--array=3-4', '--wrap', 'true');
my @pair = map { $_->{job} } @$document;
is(join(' ', map { "$_->{task} $_->{status}" . ($_->{held} > 0 && !$_->{replayed}) } @$document), '3 granted1 4 granted1', 'each task of an array as JSON');
($status, $document) = documents('submit', '--json', '--gpus=T4:4000', '--wrap', 'true');
is("$status $document->[0]{status} $document->[0]{reason} " . (defined $document->[0]{job} ? 'a job' : 'none'), '1 denied impossible_request none', 'a denial as JSON has the reason and no job');
foreach my $case ([ 'release', 'queued/' ], [ 'hold', 'queued/owner' ], [ 'cancel', 'cancelled/' ])
{
	my ($command, $becomes) = @$case;

	($status, $document) = documents($command, '--json', @pair, 999999);
	is(join(' ', $status, map { join('/', $_->{job}, $_->{state}, $_->{held_by} // '') } @$document[0, 1]), "1 $pair[0]/$becomes $pair[1]/$becomes", "$command --json");
	is(join(' ', map { $document->[2]{$_} // '-' } qw(job state sqlstate)), '999999 - UC301', 'a command as JSON has the job that was refused, and the SQLSTATE');
	like($document->[2]{error}, qr/999999/, 'a command as JSON has the message of the refusal');
}
($status, $document) = documents('wait', '--json', $pair[0], $oom);
is(join(' ', $status, map { join('/', $_->{job}, $_->{state}, $_->{exit_code} // '-', exists $_->{over}) } sort { $b->{job} <=> $a->{job} } @$document),
	"1 $pair[0]/cancelled/-/ $oom/failed/1/", 'wait --json');
foreach my $command (qw(submit job queue cancel hold release wait logs explain balance nodes drain resume top verify))
{
	($status, $out, $err) = gpucredit($command, '--help');
	is("$status$err", '0', "$command --help");
	like($out, qr/^usage: gpucredit $command\b.*\n.+/, '--help says what a command does');
}

# An instant that counts from now stays the same where the answer was lost.
# The answer is lost: the same submission again is the same job.
my $blocker = connect_to($server, 'credit');
$blocker->begin_work;
$blocker->do('LOCK TABLE gpucredit.request IN EXCLUSIVE MODE');
my $pid = fork();
if ($pid == 0)
{
	exec(cli(), 'submit', '--begin=now+1', '--wrap', 'sleep 0.1 # lost') or POSIX::_exit(127);
}
wait_for('the call is under way', 10,
	sub {
		query($server, 'credit',
			q{SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'gpucredit.request'::regclass}) > 0;
	});
kill('KILL', $pid);
waitpid($pid, 0);
$blocker->commit;
$blocker->disconnect;
sleep(2);
($status, $out, $err) = gpucredit('submit', '--parsable', '--begin=now+1', '--wrap', 'sleep 0.1 # lost');
is($status, 0, 'a submission whose answer was lost is submitted again');
is(query($server, 'credit',
		"SELECT count(*) FROM gpucredit.job WHERE spec ->> 'script' LIKE '%# lost%'"),
	'1', 'a submission whose answer was lost, repeated, is one job');
like($err, qr/answer .* was lost/, 'submit says that an answer was lost');
is(scalar(my @left = glob("$folder/state/gpucredit/pending/*")), 0, 'no submission is pending after the repeated one');

# Two intended submissions of one script are two jobs.
gpucredit('submit', '--wrap', 'true # twice') foreach 1 .. 2;
is(query($server, 'credit',
		"SELECT count(*) FROM gpucredit.job WHERE spec ->> 'script' LIKE '%# twice%'"),
	'2', 'two intended submissions of one script are two jobs');

# The database is away for a moment.
$server->stop('immediate');
$pid = fork();
if ($pid == 0)
{
	sleep(2);
	POSIX::_exit(system($server->{pg_ctl} || 'pg_ctl', '-D', $server->data_dir, '-l', $server->logfile, '-w', 'start') ? 1 : 0);
}
($status, $out) = gpucredit('submit', '--parsable', '--wrap', 'true # patient');
waitpid($pid, 0);
is($status, 0, 'a submission waits until the database is back');
$server->_update_pid(1);

# Refusals say why; another's job does not exist.
($status, $out, $err) = gpucredit('submit', '--gpus=T4:4000', '--wrap', 'true');
is($status, 1, 'what the database denies has an exit status');
like($err, qr/denied: impossible_request/, 'what the database denies has the reason');
($status, $out, $err) = gpucredit('-O', 'rival', 'balance');
is($status, 1, 'the balance of another organisation is refused');
like($err, qr/UC001/, 'another organisation does not exist for a tenant');

# Slurm's commands, as tools call them.
($status, $out, $err) = slurm('sbatch', '--parsable', write_script('job.sh', "#!/bin/sh\n#SBATCH -J tool --gpus=1\nsleep 30\n"));
is($status, 0, 'sbatch submits a script');
like($out, qr/^\d+\n$/, 'sbatch --parsable prints the job\'s number alone') or diag($err);
chomp($job = $out);
($status, $out) = slurm('squeue', '-h', '-j', $job, '-o', '%T');
is($out, "PENDING\n", 'squeue shows the job as waiting');
wait_for_state($cluster, $job, 'running');
($status, $out) = slurm('squeue', '--noheader', '-o', '%i %t', '-u', 'alice');
like($out, qr/^$job R$/m, 'squeue shows the job as running');
($status, $out) = slurm('squeue', '--jobs', $job);
like($out, qr/^ *JOBID PARTITION .*\n *$job   default     tool    alice  R /, 'squeue without a format has its columns');
($status, $out, $err) = slurm('scancel', $job);
is("$status$out$err", '0', 'scancel says nothing');
wait_for_state($cluster, $job, 'cancelled');
($status, $out, $err) = slurm('scancel', '-s', 'USR1', $job);
like("$status$out$err", qr/^1scancel: error: .*no signal can be sent to job $job: /, 'a job that is over gets no signal');

# scancel --signal: the script gets a signal, its child does not; by a filter.
($status, $out, $err) = slurm('sbatch', '--parsable', '-J', 'signalled', '-t', '5', '-o', "$folder/signalled.out", write_script('signalled.sh', <<'EOT'));
#!/bin/bash
n=0
trap 'n=$((n + 1)); echo script $n' USR1
trap 'echo script USR2' USR2
bash -c 'trap "echo child" USR1; trap "echo child USR2" USR2; echo ready; while :; do sleep 0.05; done' &
until [ $n = 2 ]; do wait; done
kill $!
EOT
chomp(my $signalled = $out);
my $signalled_out = sub { return -e "$folder/signalled.out" ? join(' ', sort split /\n/, slurp_file("$folder/signalled.out")) : '' };
wait_for_state($cluster, $signalled, 'running');
wait_for('the script waits for signals', 30, sub { $signalled_out->() eq 'ready' });
($status, $out, $err) = slurm('scancel', '-bs', '10', $signalled);
is("$status$out$err", '0', 'scancel --batch --signal says nothing');
wait_for('the script has it', 30, sub { $signalled_out->() eq 'ready script 1' });
($status, $out, $err) = slurm('scancel', '--full', '--signal=SIGUSR2', '-v', '-n', 'signalled,later');
is("$status$out$err", "0scancel: Signal USR2 to job $signalled\n", 'with a filter, jobs that run are meant');
wait_for('script and child have it', 30, sub { $signalled_out->() =~ /^child USR2 ready script 1 script USR2/ });
is((slurm('scancel', '--signal', 'usr1', $signalled))[0], 0, 'without steps nobody gets a signal for steps');
{
	local $ENV{SCANCEL_BATCH} = '';
	is((slurm('scancel', '-s', 'SigUsr1', $signalled))[0], 0, 'SCANCEL_BATCH is --batch');
}
wait_for_state($cluster, $signalled, 'completed');
is($signalled_out->(), 'child USR2 ready script 1 script 2 script USR2', 'each signal came once, to whom it was meant for');
($status, $out) = slurm('squeue', '-h', '-j', $job, '-o', '%T');
is("$status$out", '0', 'a cancelled job is in the queue no more');
($status, $out) = slurm('squeue', '-h', '-t', 'all', '-j', "$job,$array[0]", '-o', '%i|%.3t|%5t|%r');
is($out, join('', map { "$array[0]_$_|  F|F    |None\n" } 1, 2, 3, 7) . "$job| CA|CA   |None\n", 'squeue -t all knows jobs that are over');
is((slurm('squeue', '-h', '-t', 'all', '-j', $array[0], '-o', '%D'))[1], "1\n" x 4, 'squeue has how many nodes each task had');
is((slurm('scancel', $job))[0], 0, 'scancel of a job that is over is no error');
($status, $out, $err) = slurm('scancel', 999999);
is($status, 1, 'scancel of a job that does not exist is an error');
like($err, qr/^scancel: error: .*999999/, 'scancel says which job does not exist');
($status, $out, $err) = slurm_from("#!/bin/sh\ntrue # piped\n", 'sbatch');
like($out, qr/^Submitted batch job (\d+)$/, 'sbatch reads a script from standard input') or diag($err);
foreach my $bad ([ 'sbatch', '--signal=KILL@60', '--wrap', 'true' ], [ 'sbatch', '--dependency=aftercorr:1', '--wrap', 'true' ],
	[ 'squeue', '-o', '%W' ], [ 'squeue', '-O', 'Priority' ], [ 'squeue', '-O', 'JobID:-3' ], [ 'squeue', '--clusters=x' ], [ 'squeue', '-j', 'x' ], [ 'squeue', '-j', '1_[3' ], [ 'squeue', '-S', 'x' ], [ 'squeue', $job ],
	[ 'scancel', '-s', 'STOP', $job ], [ 'scancel', 'x' ], ['scancel'], [ 'sacct', '-o', 'MaxRSS' ], [ 'sacct', '-S', 'soon' ],
	[ 'scancel', '-b', $job ], [ 'scancel', '-b', '--signal=KILL', $job ], [ 'scancel', '-bf', '-s', 'USR1', $job ], [ 'scancel', '-t', 'PENDNG' ], [ 'scancel', '-w', 'n[1-2]' ], [ 'scancel', '-u' ],
	[ 'squeue', '-t', 'PD,RUNING' ], [ 'squeue', '-w', 'n[1-2]' ], [ 'sacct', '-s', 'OK' ], [ 'sprio', '-w' ], [ 'sprio', '-o', '%Y' ], [ 'sprio', '-j', 'x' ], [ 'sprio', $job ],
	[ 'sshare', '-o', 'LevelFS' ], [ 'sshare', '-U' ], [ 'sshare', 'vision' ],
	[ 'scontrol', 'update' ], [ 'scontrol', 'update', 'JobId=1' ], [ 'scontrol', 'update', 'JobName=x' ], [ 'scontrol', 'update', 'JobId=1', 'JobId=2', 'JobName=x' ], [ 'scontrol', 'update', 'JobId=1', 'JobName=' ],
	[ 'scontrol', 'update', 'JobId=1', 'JobName' ], [ 'scontrol', 'update', 'JobId=1', 'Nice=x' ], [ 'scontrol', 'update', 'JobId=1', 'Nice=2147483646' ], [ 'scontrol', 'update', 'JobId=', 'Nice' ], ['scontrol'], ['seff'], [ 'sinfo', '-o', '%Z' ], [ 'sinfo', '--clusters=x' ], [ 'sinfo', 'n1' ], [ 'sinfo', '-t', 'idel' ],
	[ 'squeue', '-t', '' ], [ 'sacct', '-s', ',' ], [ 'scancel', '-t', '' ], [ 'sinfo', '-t', '' ])
{
	($status, $out, $err) = slurm(@$bad);
	is("$status$out", '2', "refused: @$bad");
	like($err, qr/^$bad->[0]: /, 'a refusal begins with the name of the command');
}
like((slurm(@$_))[2], qr/^scancel: option "-z" is not supported$/, 'scancel names the letter of an unknown option') foreach [ 'scancel', '-z', $job ], [ 'scancel', '-Qz', $job ];
like((slurm('squeue', '--all', $_))[2], qr/^squeue: option "-z" is not supported$/, "of $_ behind an option with a name, too") foreach '-zh', '-hz', '-z';
like((slurm('squeue', $_))[2], qr/^squeue: option "$_" is not supported$/, "and $_") foreach '--all=x', '--zzz';
like((slurm('squeue', $_))[2], qr/^squeue: option "$_" needs a value$/, "$_ alone") foreach '--user', '--us';
like((slurm('scancel', '--quiet', '-sSTOP', $job))[2], qr/^scancel: --signal=STOP is not supported; use one of HUP, /, 'a signal that jobs cannot get');
like((slurm('scancel', '-u'))[2], qr/^scancel: option "-u" needs a value$/, 'scancel says which option needs a value');

# What Slurm's users ask of an array and of jobs that wait or are over.
my $base = (slurm('sbatch', '--parsable', '-J', 'arr', '--array=1-4', '--hold', '-t', '5', '--comment', 'mine', '--wrap', 'true'))[1] + 0;
is((slurm('squeue', '-h', '-j', $base, '-o', '%i %F %K %r %l %k'))[1],
	join('', map { "${base}_$_ $base $_ JobHeldUser 00:05:00 mine\n" } 1 .. 4), 'squeue shows an array by its number, each task with its own');
is((slurm('squeue', '-j', "${base}_1", '-O', 'NumNodes'))[1], "NODES               \nN/A                 \n", 'how many nodes a job gets is not known before its start');
my @numbers = split /\n/, (slurm('squeue', '-h', '-j', $base, '-o', '%A'))[1];
is(join(' ', @numbers), query($server, 'credit', "SELECT string_agg(job::text, ' ' ORDER BY job) FROM gpucredit.job WHERE name = 'arr'"), '%A is a number of its own for each task');
is((slurm('squeue', '-j', "${base}_3", '-O', 'JobID:.12|,JobArrayID:8,ArrayTaskID:3,State,TimeLimit:.9,UserName:4'))[1],
	sprintf("%12s|%-8s%-3s%-20s%9s%-4s\n", 'JOBID', 'ARRAY_JO', 'ARR', 'STATE', 'TIME_LIMI', 'USER')
	  . sprintf("%12s|%-8s%-3s%-20s%9s%-4s\n", $numbers[2], $base, 3, 'PENDING', '00:05:00', 'alic'), '-O: names with widths');
is((slurm('squeue', '-h', '-n', 'arr', '-S', '-i', '-o', '%K'))[1], "4\n3\n2\n1\n", 'squeue selects by name, in another order');
is(scalar @{ JSON::PP->new->decode((slurm('squeue', '--json', '-j', "${base}_[2,4]"))[1]) }, 2, 'squeue shows two tasks of an array as JSON');
like((slurm('squeue', '-l', '-j', "${base}_2"))[1], qr/JOBID .* TIME_LIMI .*\n *${base}_2 .* PENDING .*\(JobHeldUser\)\n/, 'squeue -l has the time limit and the reason');
is((slurm('scancel', "${base}_2"))[0], 0, 'a task is cancelled');
is((slurm('squeue', '-h', '-j', $base, '-o', '%K'))[1], "1\n3\n4\n", 'the other tasks stay when a task is cancelled');
like((slurm('scontrol', 'show', 'job', "${base}_3"))[1], qr/^JobId=\d+ ArrayJobId=$base ArrayTaskId=3 JobName=arr\n.*\n   JobState=PENDING Reason=JobHeldUser Dependency=\(null\)\n/, 'scontrol show job');
like((slurm('scontrol', 'release', $base))[1], qr/^(job \d+: queued\n){3}/, 'the array is released');
is((slurm('squeue', '-h', '-j', "${base}_3", '-o', '%r'))[1], "Resources\n", 'a released array waits for resources');
like((slurm('scontrol', 'requeue', "${base}_[1,3]"))[1], qr/^(job \d+: queued\n){2}$/, 'requeue leaves tasks that wait queued');
like((slurm('scontrol', 'hold', "${base}_[1,3]"))[1], qr/^(job \d+: queued, held by its owner\n){2}$/, 'two tasks of an array are held again');
is(join(' ', slurm('scontrol', 'update', "JobId=${base}_[3,4]", 'jobname=renamed', 'Comment=ours', 'WCKEY=w', 'Nice=7')), '0  ', 'scontrol update says nothing, as Slurm\'s');
is((slurm('squeue', '-h', '-j', $base, '-o', '%K %j %k'))[1], "1 arr mine\n3 renamed ours\n4 renamed ours\n", 'scontrol update changes two tasks of an array');
is(query($server, 'credit', qq{SELECT string_agg(priority || ' ' || (options #>> '{labels,wckey}'), ', ') FROM gpucredit.job WHERE name = 'renamed'}), '-7 w, -7 w', 'and their priority and labels');
is(join(' ', slurm('scontrol', 'update', "job=${base}_[3,4]", 'Name=arr', 'Comment=mine', 'WCKey=', 'nice')), '0  ', 'an empty key is removed');
is(query($server, 'credit', qq{SELECT string_agg(DISTINCT priority || ' ' || (options -> 'labels')::text, ', ') FROM gpucredit.job WHERE name = 'arr' AND task > 2}), '-100 {"comment": "mine"}', 'Nice alone is 100');
unlike((slurm('squeue', '-h', '-j', "${base}_4", '-o', '%r'))[1], qr/Held/, 'nobody holds the fourth task');
is(join(' ', slurm('scontrol', 'update', "JobId=${base}_4", 'Priority=0', 'Nice=0')), '0  ', 'Priority=0');
is((slurm('squeue', '-h', '-j', "${base}_4", '-o', '%r'))[1], "JobHeldUser\n", 'holds it');
foreach my $refusal ([ 'timelimit=5', 'TimeLimit cannot be changed: the credit of a job is held, ' ], [ 'Partition=x', 'Partition cannot be changed: what a job gets was checked, priced and paid for ' ],
	[ 'Dependency=', 'Dependency cannot be changed: what a job waits for was decided ' ], [ 'Priority=5', 'Priority=5 is not supported: the order of jobs follows from tier, ' ],
	[ 'Requeue=1', 'Requeue cannot be changed: how often ' ], [ 'Colour=red', '"Colour" is no key of scontrol update; what can change is JobName, ' ])
{
	($status, $out, $err) = slurm('scontrol', 'update', "JobId=${base}_4", 'JobName=changed', $refusal->[0]);
	is("$status$out", '2', "scontrol update does not change $refusal->[0]");
	like($err, qr/^scontrol: \Q$refusal->[1]/, 'and says why');
}
like((slurm('scontrol', 'update', 'NodeName=n1', 'State=DRAIN'))[2], qr/^scontrol: NodeName cannot be changed: nodes are changed by operators in SQL/, 'nor nodes');
is(query($server, 'credit', q{SELECT count(*) FROM gpucredit.job WHERE name = 'changed'}), '0', 'a command that is refused has changed nothing');
($status, $out, $err) = slurm('scontrol', 'update', "JobId=$job,${base}_3", 'Comment=both');
is("$status$out", '1', 'scontrol update of a job that is over fails');
is($err, "scontrol: job $job: job $job is over\n", 'and says so');
is((slurm('squeue', '-h', '-j', "${base}_3", '-o', '%k'))[1], "both\n", 'the other job is changed nevertheless');
is((slurm('scontrol', 'update', 'JobId=999999', 'Comment=x'))[0], 1, 'nor is there a job that does not exist');
is((slurm('scontrol', 'update', "JobId=${base}_3", 'Comment=mine'))[0], 0, 'the comment is set again');
is((slurm('scancel', '-n', 'arr', '-t', 'PD', '-u', 'alice'))[0], 0, 'scancel selects by name, state and user');
is((slurm('squeue', '-h', '-j', $base))[1], '', 'scancel by name has cancelled all of the array');
is((slurm('sacct', '-n', '-P', '-X', '-j', "$oom,${base}_2", '-o', 'JobIDRaw,JobName%20,AllocGPUS,State,ExitCode,NodeList,Comment'))[1] =~ s/^\d+\|arr/N|arr/mr,
	"$oom|big|2|FAILED|1:0|n1|\nN|arr|0|CANCELLED|0:0||mine\n", 'sacct');
like((slurm('sacct'))[1], qr/^JobID +JobName .* Cost\n(.*\n)*$oom +big .* FAILED +1:0 +[\d.]+\n/, 'sacct of today');
is(scalar(() = (slurm('sacct', '-n', '-S', $_))[1] =~ /^$oom /mg), 1, "sacct of the past: $_") foreach '00:00', 'midnight', 'now-1hour', POSIX::strftime('%m/%d', localtime);
is((slurm('sacct', '-n', '-E', 'now-1day'))[1], '', 'sacct -E shows nothing that began later');
is(JSON::PP->new->decode((slurm('sacct', '--json', '-j', $oom, '-o', 'State'))[1])->[0]{State}, 'FAILED', 'sacct as JSON');
is((slurm('sacct', '-n', '-p', '-j', $oom, '-o', 'JobID,State'))[1], "$oom|FAILED|\n", 'sacct -p has a bar at the end');
is((slurm('sacct', '--helpformat'))[1] =~ s/\n/ /gr, 'Account AllocGPUS Comment Cost Elapsed ElapsedRaw End ExitCode GPUEff GPUHours JobID JobIDRaw JobName '
	  . 'NodeList Partition QOS Reason Reserved Start State Submit Timelimit User WCKey ', 'sacct --helpformat lists its fields');
like((slurm('seff', $oom))[1], qr/^Job ID: $oom\n.*\nState: FAILED \(exit code 1\)\nNodes: n1\nGPUs: 2\nWall-clock time: 00:00:0\d of 00:05:00\nGPU-hours: 0\.\d+\n.*\nCost: [\d.]+\n/, 'seff');
{
	# The first job of an array is searched once for the array, not for each task.
	query($server, 'credit', q{SELECT gpucredit.issue('acme', '', 'paid for many', 10000000)});
	my $large = (slurm('sbatch', '--parsable', '-J', 'large', '-G', '1', '--array=1-2000', '--hold', '-t', '0:01', '--wrap', 'true'))[1] + 0;
	local $ENV{PGOPTIONS} = '-c statement_timeout=5s';

	foreach my $list ([ 'squeue', '-h', '-j', $large, '-o', '%i' ], [ 'sacct', '-n', '-P', '-j', $large, '-o', 'JobID' ])
	{
		my @lines = split /\n/, (slurm(@$list))[1];

		is(join(' ', @lines[0, -1]), "${large}_1 ${large}_2000", "$list->[0] of 2,000 tasks");
	}
	is(() = (slurm('scontrol', 'show', 'job', $large))[1] =~ /^JobId=\d+ ArrayJobId=$large /mg, 2000, 'scontrol of 2,000 tasks');
}
is((slurm('scancel', '-n', 'large'))[0], 0, 'scancel cancels an array of 2,000 tasks');
foreach my $command (qw(sbatch squeue scancel sacct salloc scontrol seff sinfo sprio srun sshare))
{
	like((slurm($command, '--help'))[1], qr/^usage: $command/, "$command --help");
}
foreach my $case ([ 'sbatch', '  -a, --array=VALUE' ], [ 'sbatch', '      --nice[=VALUE]' ], [ 'squeue', '      --json' ], [ 'scancel', '  -t, --state=VALUE' ])
{
	like((slurm($case->[0], '--help'))[1], qr/^\Q$case->[1]\E$/m, "$case->[0] --help lists $case->[1]");
}
foreach my $command (qw(sacct salloc sbatch scancel scontrol seff sinfo sprio squeue srun sshare))
{
	is(join('', slurm($command, $_)), "0gpucredit $release (for users of slurm 22.05)\n", "$command $_") foreach '--version', '-V';
}

# What people look at.
($status, $out) = gpucredit('balance');
like($out, qr/^ *available +spendable/, 'a balance with its heading');
($status, $out) = gpucredit('queue', $array[0]);
like($out, qr/\b$array[0]\b.*failed/, 'a job by its number');
my $never = (gpucredit('submit', '--parsable', '-t', '5', '--gpus=T4:4', '--wrap', 'sleep 250'))[1] + 0;
my $waits = (gpucredit('submit', '--parsable', '-t', '5', '--gpus=T4:4', '--wrap', 'true'))[1] + 0;
wait_for_state($cluster, $never, 'running');
($status, $out) = gpucredit('explain', $waits);
like($out, qr/^ *check +passes +detail.*\bno\b/s, 'why a job waits');
($status, $out) = gpucredit('queue');
like($out, qr/^ *$never .*running.*^ *$waits .*queued/ms, 'the queue');
like((slurm('squeue', '--start', '-j', $waits))[1], qr/START_TIME.*\n *$waits .* \d{4}-\d\d-\d\dT/, 'when a job would start');
{
	my ($bulk) = (slurm('sbatch', '--parsable', '-J', 'bulk', '-G', '4', '-t', '1', '--array=1-30', '--wrap', 'true'))[1] =~ /(\d+)/;
	my @starts = split /\n/, (slurm('squeue', '-h', '--start', '-j', $bulk, '-o', '%S'))[1];

	is(scalar(grep { /^\d{4}-/ } @starts), 30, 'squeue --start tells of more jobs than a screen shows');
	is((slurm('scancel', '-n', 'bulk'))[0], 0, 'scancel cancels an array of 30 tasks');
}

# What decides when jobs wait: the tier goes first, and a tenant does not see its
# place among others.
my $sooner = (slurm('sbatch', '--parsable', '-q', 'standard_training', '-t', '2', '-G', '4', '-J', 'sooner', '--wckey', 'w1', '--wrap', 'true'))[1] + 0;
my $later = (slurm('sbatch', '--parsable', '-q', 'interactive', '-t', '2', '-G', '4', '-J', 'later', '--wrap', 'true'))[1] + 0;
my $day = (slurm('sbatch', '--parsable', '-t', '1-00:00:00', '-G', '4', '-J', 'day', '--hold', '--wrap', 'true'))[1] + 0;
is((slurm('squeue', '-h', '-j', $day, '-o', '%l %L'))[1], "1-00:00:00 1-00:00:00\n", 'a day as Slurm writes it');
($status, $out, $err) = slurm('sprio');
is($status, 0, 'sprio') or diag($err);
like($out, qr/^JOBID +PARTITION +USER +QOS +RANK +AGE +EXPECTED +REASON *\n/, 'sprio shows a tenant nothing of what others use');
is(join(' ', map { (split)[0] } (split /\n/, $out)[1 .. 4]), "$waits $sooner $later $day", 'sprio has jobs in the order of their starts');
like($out, qr/^$later +default +alice +interactive +4 +00:00:\d\d +\d{4}-\d\d-\d\dT[\d:]+ +\S.*\n$day .* N\/A +held by its owner *$/m, 'sprio has what decides the order');
is(scalar(split /\n/, (slurm('sprio', '-h', '-u', 'alice', '-p', 'default', '-j', "$later,$sooner"))[1]), 2, 'sprio selects by user, pool and job');
$document = JSON::PP->new->decode((slurm('sprio', '-l', '--json'))[1]);
is(join(' ', map { "$_->{JOBID}/$_->{QOS}/$_->{TURN}" } @$document[0 .. 2]), "$waits/standard_training/1 $sooner/standard_training/2 $later/interactive/3", 'sprio -l has the turns of jobs');
like($document->[2]{ORDER}, qr/^tier "interactive" of rank 4, .*priority 0 within its account$/, 'sprio -l has what gives a job its turn');
($status, $out, $err) = slurm('sprio', '-j', $oom);
is("$status$out$err", "1sprio: Unable to find jobs matching user/id(s) specified\n", 'sprio finds no job that is over');

# Another's jobs: no option of a tenant finds them, and his number alone does not
# help.
{
	local $ENV{GPUCREDIT_DATABASE} = connection((getpwuid($>))[0]);

	query($server, 'credit', q{SELECT gpucredit.create_account('acme', 'vision/bob')});
	gpucredit('-A', 'vision/bob', 'submit', '--key', 'bob', '-t', '2', '-G', '4', '-J', 'secret', '--wrap', 'true');
}
my $bobs = query($server, 'credit', q{SELECT job FROM gpucredit.job WHERE name = 'secret'});
foreach my $account ('', 'vision', 'vision/bob')
{
	local $ENV{GPUCREDIT_ACCOUNT} = $account;

	foreach my $list ([ 'squeue', '-h', '-u', 'bob' ], [ 'squeue', '-h', '-A', 'vision/bob' ], [ 'squeue', '-h', '--start', '-j', $bobs ],
		[ 'sprio', '-h', '-u', 'bob' ], [ 'sprio', '-h', '-A', 'vision/bob' ], [ 'sacct', '-n', '-u', 'bob' ], [ 'sprio', '-h', '-l', '-j', $bobs ], [ 'sshare', '-n', '-u', 'bob' ], [ 'sshare', '-a' ])
	{
		is((slurm(@$list))[1], '', "for '$account' nothing of it: @$list");
	}
	unlike((slurm('sprio', '-l'))[1], qr/bob|secret|\b$bobs\b/, 'sprio -l shows nothing of another\'s job');
	foreach my $attempt ([ 'scancel', '-u', 'bob' ], [ 'scancel', '-A', 'vision/bob' ], [ 'scancel', '-n', 'secret' ], [ 'scancel', '-u', 'bob', $bobs ], [ 'scancel', $bobs ])
	{
		slurm(@$attempt);
		is(query($server, 'credit', "SELECT state FROM gpucredit.job WHERE job = $bobs"), 'queued', "another's job stays: @$attempt");
	}
}
isnt((slurm('scancel', $bobs))[0], 0, 'scancel of another\'s job by its number is an error');

# Filters of scancel, and its questions.
is((slurm_from("perhaps\nn\n", 'scancel', '-i', '-n', 'sooner'))[1], "Cancel job_id=$sooner name=sooner partition=default [y/n]? " x 2, 'scancel -i asks until there is an answer');
{
	local $ENV{SCANCEL_INTERACTIVE} = '1';

	is((slurm_from('', 'scancel', $sooner, $later))[0], 0, 'SCANCEL_INTERACTIVE makes scancel ask');
}
slurm('scancel', '-q', 'interactive', '-t', 'RUNNING', $later);
slurm('scancel', '--wckey', 'w2');
slurm('scancel', '-w', 'n2');
slurm('scancel', '--me', '-q', 'premium_training');
{
	local $ENV{SCANCEL_QOS} = 'interactive';

	slurm('scancel', '-n', 'sooner');
}
is(query($server, 'credit', "SELECT string_agg(state, ' ' ORDER BY job) FROM gpucredit.jobs WHERE job IN ($never, $waits, $sooner, $later, $day)"),
	'running queued queued queued queued', 'filters of scancel that match no job cancel none');
{
	local $ENV{GPUCREDIT_ACCOUNT} = 'vision';

	slurm('scancel', '--me');
	is((slurm('squeue', '-h', '-j', $later, '-o', '%t'))[1], "PD\n", '--me is no account below mine');
	local $ENV{GPUCREDIT_ACCOUNT} = '';
	($status, $out, $err) = slurm('scancel', '--me');
	is("$status$out", '2', 'scancel --me without an account is refused');
}
is((slurm_from("y\n", 'scancel', '-i', '-q', 'interactive'))[0], 0, 'scancel -i goes on after yes');
is((slurm('squeue', '-h', '-j', $later))[1], '', 'scancel -q cancels by the tier');
($status, $out, $err) = slurm('scancel', '-v', '--wckey', 'w1');
is("$status$out$err", "0scancel: Terminating job $sooner\n", 'scancel --wckey cancels by the wckey, and -v says what was done');
gpucredit('hold', $waits);
slurm('scancel', '-w', 'n1');
wait_for_state($cluster, $never, 'cancelled');
is((slurm('squeue', '-h', '-j', "$waits,$day", '-t', 'PD,R,CG,CF', '-o', '%j'))[1], "wrap\nday\n", 'scancel -w cancels the job of a node, and no other');
is((slurm('scancel', '--me'))[0], 0, 'scancel --me cancels all jobs of the account');
wait_for('none of them is left', 30, sub { (slurm('squeue', '-h'))[1] eq '' });
query($server, 'credit', "SELECT gpucredit.cancel('acme', $bobs, 'no longer')");

# Shells complete commands, options and the numbers of jobs.
my $one = (slurm('sbatch', '--parsable', '--hold', '--wrap', 'true'))[1] + 0;
my $completion = "$FindBin::RealBin/../../cli/completion";
# without "..", as zsh searches folders with it last
my $tools = realpath(cli() =~ s{/gpucredit$}{}r);
foreach my $case (
	[ 'gpucredit', 'ca', 'cancel' ], [ 'gpucredit', '-O', 'acme', 'expl', 'explain' ], [ 'gpucredit', 'submit', '--check', '--checkpoint-every --checkpoint-signal' ],
	[ 'gpucredit', 'cancel', '--j', '--json' ], [ 'gpucredit', 'logs', '--t', '--tail' ], [ 'gpucredit', 'cancel', '', $one ], [ 'gpucredit', '-O', '', '' ],
	[ 'gpucredit', '-O', 'rival', 'cancel', '', '' ], [ 'scancel', '--q', '--qos --quiet' ], [ 'scancel', '', $one ], [ 'squeue', '-j', '', $one ], [ 'scontrol', 'show', 'j', 'job' ],
	[ 'sshare', '--parsable', '--parsable --parsable2' ])
{
	my ($command, @words) = @$case;
	my $expected = pop @words;
	my $file = $command eq 'gpucredit' ? "$completion/gpucredit.bash" : "$folder/$command";

	symlink("$completion/gpucredit.bash", $file) unless -e $file;
	run [ 'bash', '--norc', '-c', '. "$1"; f=$(complete -p "$2" | sed "s/.*-F \([^ ]*\) .*/\1/"); shift 2; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); "$f" "$1"; echo "${COMPREPLY[*]}"',
		'bash', $file, $command, "$tools/$command", @words ], '>', \$out, '2>', \$err;
	is("$out$err", "$expected\n", "bash completes $command @words");
}
SKIP:
{
	skip('there is no zsh', 3) if system('command -v zsh >/dev/null') != 0;
	mkdir("$folder/zsh");
	symlink("$completion/gpucredit.zsh", "$folder/zsh/_gpucredit");
	symlink("$completion/slurm.zsh", "$folder/zsh/_gpucredit_slurm");
	foreach my $case ([ 'gpucredit canc', 'gpucredit cancel ' ], [ 'scancel --qu', 'scancel --quiet' ], [ 'gpucredit hold ', "gpucredit hold $one" ])
	{
		local $ENV{PATH} = "$tools:$ENV{PATH}";

		run [ 'zsh', '-f', '-c', <<'ZSH', 'zsh', "$folder/zsh", $case->[0] ], '>', \$out, '2>', \$err;
zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell "PS1='at''once> '; fpath=($1 \$fpath); autoload -U compinit; compinit -u -D; show() { print -r -- \"<\$BUFFER>\"; zle kill-buffer; zle accept-line }; zle -N show; bindkey '^X' show"
zpty -r shell text '*atonce> *'
zpty -n -w shell "$2"$'\t\x18'
zpty -r shell text '*<*>*'
print -r -- "${text[(r)<,(r)>]}"
zpty -d shell
ZSH
		like($out, qr/<\Q$case->[1]\E *>/, "zsh completes $case->[0]") or diag($err);
	}
}
slurm('scancel', $one);
($status, $out, $err) = gpucredit('cancel', '999999');
is($status, 1, 'cancel of a job that does not exist is an error');
($status, $out, $err) = gpucredit('nodes');
is($status, 1, 'nodes are not a tenant\'s');
foreach my $command ([ 'sinfo' ], [ 'scontrol', 'show', 'node' ], [ 'sshare' ], [ 'sshare', '-A', 'vision/alice' ])
{
	($status, $out, $err) = slurm(@$command);
	is("$status$out", '1', "operators' figures are not a tenant's by @$command");
}

$ENV{GPUCREDIT_DATABASE} = connection((getpwuid($>))[0]);
($status, $out) = gpucredit('nodes');
like($out, qr/n1 .*ready/, 'an operator sees the nodes');
is((slurm('sinfo', '-h', '-p', 'default', '-o', '%P %a %D %N %G'))[1], "default* up 1 n1 gpu:T4:4\n", 'sinfo');
# Both were heard of at the same instant.
query($server, 'credit', q{SELECT count(*) FROM unnest('{w1,w2}'::text[]) n, gpucredit.heartbeat(n)});
like((slurm('sinfo'))[1], qr/^PARTITION +AVAIL +TIMELIMIT +NODES +STATE NODELIST\n(.*\n)*wide +up +infinite +2 +\S+ w1,w2\n/, 'nodes that are alike stand in one line');
is(scalar(split /\n/, (slurm('sinfo', '-h', '-N', '-p', 'wide'))[1]), 2, 'a line for each node');
is((slurm('sinfo', '-h', '-p', 'none'))[1], '', 'no such pool');
is(join(' ', map { my $line = $_; map { "$_=$line->{$_}" } sort keys %$line } @{ JSON::PP->new->decode((slurm('sinfo', '--json', '-n', 'n1', '-o', '%D %R'))[1]) }),
	'NODES=1 PARTITION=default', 'sinfo as JSON, with the fields of the format');
is((slurm('sinfo', '-h', '-n', 'n1', '-o', 'a node'))[1], "a node\n", 'sinfo prints a format without fields');
my $stays = (gpucredit('-A', 'vision/alice', 'submit', '--parsable', '-t', '5', '-G', '1', '--wrap', 'sleep 250'))[1] + 0;
wait_for_state($cluster, $stays, 'running');
($status) = gpucredit('drain', 'n1', 'a new fan');
like((slurm('sinfo', '-R'))[1], qr/^REASON .*\na new fan +1 +dr\w+ n1\n$/, 'sinfo -R has which nodes drain, and why');
is((slurm('sinfo', '-h', '-t', $_, '-o', '%N'))[1], "n1\n", "sinfo -t $_") foreach 'drain', 'drng', 'MAINT,DRAINING';
is((slurm('sinfo', '-h', '-t', 'drained', '-o', '%N'))[1], '', 'a node with a job is not drained yet');
gpucredit('cancel', $stays);
wait_for_state($cluster, $stays, 'cancelled');
like((slurm('scontrol', 'show', 'node', 'n1'))[1], qr/^NodeName=n1 CPUAlloc=\d+ CPUTot=\d+\n(.*\n)* +Gres=gpu:T4:4\n(.*\n)* +State=DRAIN\w+ Partitions=default\n(.*\n)* +Reason=a new fan LastHeard=\d/, 'scontrol show node');
($status, $out, $err) = slurm('scontrol', 'show', 'node', 'none');
is("$status$out$err", "1scontrol: Node none not found\n", 'scontrol says that a node does not exist');
($status, $out) = gpucredit('top');
like($out, qr/T4: 1 node/, 'the map');
($status, $document) = documents('top', '--json');
like(join("\n", @{ $document->{map} }, ref($document->{queue})), qr/T4: 1 node.*ARRAY$/s, 'top --json has the map and the queue once');
($status, $document) = documents('drain', '--json', 'n1', 'another fan');
is("$document->[0]{node} $document->[0]{reason}", 'n1 another fan', 'drain --json');
($status, $document) = documents('resume', '--json', 'n1');
is("$document->[0]{node} $document->[0]{state} $document->[0]{reason}", 'n1 ready ', 'resume --json');

# Shares and turns, for operators.
($status, $out, $err) = slurm('sshare', '-a');
like($out, qr/^Partition +Org +Account +User +RawShares +NormShares +RawUsage +EffectvUsage +FairShare\n(.*\n)*default +acme +vision\/alice +alice +1 +[01]\.\d{6} +\d+ +[01]\.\d{6} +[01]\.\d{6}\n/, 'sshare') or diag($err);
my @shares = map { [ split /\|/ ] } split /\n/, (slurm('sshare', '-a', '-n', '-P', '--pool=default', '-o', 'Org,Account,RawShares,NormShares,FairShare,Rank,RawUsage,NormUsage'))[1];
my ($alice) = grep { "$_->[0] $_->[1]" eq 'acme vision/alice' } @shares;
is($alice->[2], '1', 'sshare has the weight of the account');
cmp_ok($alice->[6], '>', 0, 'sshare has that the account has used the pool');
is(join(' ', map { $_->[4] } grep { $_->[5] == 1 } @shares) =~ s/ 1\.000000//gr, '1.000000', 'in sshare accounts that go first have the share 1');
is(join(' ', sort { $a->[5] <=> $b->[5] } @shares), join(' ', sort { $b->[4] <=> $a->[4] || $a->[5] <=> $b->[5] } @shares), 'in sshare accounts that go later have less, in their order');
is(eval(join('+', map { $_->[7] } grep { $_->[1] eq '' } @shares)), 1, 'organisations used all of it together');
is(query($server, 'credit', "SELECT round(share, 6) || ' ' || rank || ' ' || round(decayed * 3600) FROM gpucredit.fair_share() WHERE org = 'acme' AND account = 'vision/alice'"),
	"$alice->[3] $alice->[5] $alice->[6]", 'sshare has the share, the rank and the usage that fair_share() has');
{
	local $ENV{GPUCREDIT_ACCOUNT} = '';

	is((slurm('sshare', '-n', '-p', '-u', 'alice', '--pool=default', '-o', 'Account,User'))[1], "vision/alice|alice|\n", 'sshare -u shows a user, with -p a bar at the end');
	is((slurm('sshare', '-n', '-P', '-A', 'vision', '--pool=default', '-o', 'account%30'))[1], "vision\nvision/alice\nvision/bob\n", 'sshare -A shows an account and those below it');
	is(JSON::PP->new->decode((slurm('sshare', '--json', '-A', 'vision/bob', '--pool=default'))[1])->[0]{User}, 'bob', 'sshare as JSON');
}
is((slurm('sshare', '-n', '--pool=none'))[1], '', 'no such pool');
my $held = (slurm('sbatch', '--parsable', '--hold', '--wrap', 'true'))[1] + 0;
$document = JSON::PP->new->decode((slurm('sprio', '--json', '-j', $held))[1]);
like("$document->[0]{RANK} $document->[0]{FAIRSHARE} $document->[0]{REASON}", qr/^2 [01]\.\d{6} held by its owner$/, 'an operator sees the fair share in sprio');
gpucredit('cancel', $held);
# A cluster's accounts, users, shares and limits come from a file of sacctmgr's.
{
	my $dump = "$folder/cluster.cfg";
	my $text = <<'DUMP';
# To edit this file start with a cluster line for the new cluster
# Cluster - 'cluster_name':MaxTRESPerJob=node=50
Cluster - 'linux':Fairshare=1:QOS='normal'
Parent - 'root'
User - 'root':DefaultAccount='root':AdminLevel='Administrator':Fairshare=1:GrpTRES=cpu=1
Account - 'physics':Description='physics: all of it':Organization='science':Fairshare=30:GrpTRES=cpu=64,mem=4194304,gres/gpu=8,gres/gpu:t4=4:GrpJobs=10:MaxJobs=3:GrpTRESMins=gres/gpu=6000
Account - 'biology':Description='biology':Organization='science':Fairshare=10
Parent - 'physics'
Account - 'astro':Description='astro':Organization='science':Fairshare=2147483647
User - 'ann':DefaultAccount='physics':Fairshare=5:MaxJobs=2:MaxSubmitJobs=40
User - 'ben':Coordinator='physics,astro':DefaultAccount='physics':Fairshare=0
User - 'ann':Partition='gpu':DefaultAccount='physics':Fairshare=9:GrpTRES=gres/gpu=9
Parent - 'astro'
User - 'cleo':DefaultAccount='astro':AdminLevel='None':Fairshare=1
DUMP
	my $accounts = q{SELECT string_agg(account || '=' || trim_scale(weight), ' ' ORDER BY account) FROM gpucredit.accounts WHERE org = 'lab'};
	my $quotas = q{SELECT string_agg(concat_ws(' ', account, nullif(gpu_type, ''), max_gpus, max_running, max_queued, max_cpu_milli, max_memory_mib), '; '
		ORDER BY account, gpu_type) FROM gpucredit.quota WHERE org = 'lab'};

	append_to_file($dump, $text);
	($status, $out, $err) = gpucredit('-O', 'lab', 'import', 'slurm', $dump);
	is($status, 0, 'import slurm') or diag($err);
	like($out, qr/create account +physics\/ann .* 5\n/, 'import says which accounts it would create');
	like($out, qr/set quota +physics .*gpus 8 running 10 cpu_milli 64000 memory_mib 4194304/, 'import says which limits it would set');
	like($err, qr/nothing is written; with --apply it is/, 'import without --apply says that nothing is written');
	is(query($server, 'credit', "SELECT count(*) FROM gpucredit.accounts WHERE org = 'lab'"), '0', 'import without --apply has written nothing');
	($status, $document) = documents('-O', 'lab', 'import', '--apply', '--json', 'slurm', $dump);
	is($status, 0, 'import --apply');
	is(query($server, 'credit', $accounts), '=1 biology=10 physics=30 physics/ann=5 physics/astro=1 physics/astro/cleo=1 physics/ben=0.001', 'import --apply makes accounts, users and shares');
	is(query($server, 'credit', $quotas), 'physics 8 10 64000 4194304; physics T4 4; physics/ann 2 40; physics/astro/cleo 3; physics/ben 3',
		q{limits of groups, of users, and of users by their account's});
	my @left = map { "$_->{line} $_->{was}" } grep { $_->{action} eq 'decide' } @$document;
	is(join('; ', @left), q{3 QOS=normal; 5 AdminLevel=Administrator; 6 GrpTRESMins=gres/gpu=6000; 9 Fairshare=parent; 11 Coordinator=physics,astro; 11 Fairshare=0; 12 Partition=gpu; 12 a second line of the user},
		'what somebody must decide is listed, with its line');
	is(scalar(grep { $_->{becomes} eq '' } @$document), 0, 'each line that somebody must decide says what to do');
	($status, $document) = documents('-O', 'lab', 'import', '--json', 'slurm', $dump);
	is(scalar(grep { $_->{action} ne 'decide' } @$document), 0, 'import of the same file again changes nothing');
	query($server, 'credit', q{SELECT gpucredit.set_quota('lab', 'physics', NULL, 16, max_queued => 7, max_nonpreemptible_gpus => 3)});
	($status, $document) = documents('-O', 'lab', 'import', '--json', '--apply', 'slurm', $dump);
	is(join('; ', map { "$_->{account}: $_->{was} -> $_->{becomes}" } grep { $_->{action} ne 'decide' } @$document),
		'physics: gpus 16 queued 7 -> gpus 8 running 10 queued 7 cpu_milli 64000 memory_mib 4194304', 'what differs is set, and what the file does not name stays');
	is(query($server, 'credit', q{SELECT max_nonpreemptible_gpus FROM gpucredit.quota WHERE org = 'lab' AND account = 'physics' AND gpu_type = ''}), '3',
		'... also a limit for which the file has no word');
	foreach my $case (
		[ "Account - 'a':Fairshare=1", qr/line 1: there is no line of a cluster before it/ ],
		[ "Cluster - 'c'\nParent - 'b'", qr/line 2: the file has no account "b" above it/ ],
		[ "Cluster - 'c'\nAccount - 'a/b'", qr/line 2: the name "a\/b" has a slash/ ],
		[ "Cluster - 'c'\nAccount - 'a'\nAccount - 'a'", qr/line 3: there are two accounts "a"/ ],
		[ "Cluster - 'c'\nAccount - 'a':GrpJobs=-1", qr/line 2: GrpJobs=-1 is no number/ ],
		[ "Cluster - 'c'\nAccount - 'caf\xe9'", qr/line 2: it is not UTF-8/ ],
		[ "Cluster - 'c'\nAccount - 'a':QOS='caf\xe9'", qr/line 2: it is not UTF-8/ ],
		[ "Cluster - 'c'\nAccount - 'a':GrpTRES=mem=1e99", qr/line 2: mem=1e99 is no size/ ],
		[ "Cluster - 'c'\nAccount - 'a':Description='x", qr/line 2: a quote has no end/ ],
		[ "Cluster - 'c'\nCluster - 'd'", qr/line 2: there are two clusters/ ],
		[ 'hello', qr/line 1: it is no "KIND - 'NAME'"/ ],
		[ '# nothing', qr/has no account: it is not what sacctmgr dump writes/ ])
	{
		unlink "$folder/bad.cfg";
		append_to_file("$folder/bad.cfg", "$case->[0]\n");
		($status, $out, $err) = gpucredit('-O', 'bad', 'import', '--apply', 'slurm', "$folder/bad.cfg");
		like("$status$out $err", qr/^2 .*$case->[1]/, 'refused: ' . $case->[0] =~ s/\n/ /gr);
	}
	my $deep = "Cluster - 'c'\nAccount - 'l1'\n" . join('', map { "Parent - 'l$_'\nAccount - 'l" . ($_ + 1) . "'\n" } 1 .. 8);
	append_to_file("$folder/deep.cfg", $deep);
	($status, $out, $err) = gpucredit('-O', 'deep', 'import', '--apply', 'slurm', "$folder/deep.cfg");
	is("$status$out", '1', 'what the database refuses');
	is(query($server, 'credit', "SELECT count(*) FROM gpucredit.accounts WHERE org IN ('deep', 'bad')"), '0', '... leaves nothing half done');
	local $ENV{GPUCREDIT_DATABASE} = connection('alice');
	($status, $out, $err) = gpucredit('-O', 'lab', 'import', '--apply', 'slurm', $dump);
	is("$status$out", '1', 'a tenant imports nothing');
}
($status, $document) = documents('verify', '--json');
is($status . @$document, '00', 'nothing is found, as JSON');
($status, $out) = gpucredit('verify');
is("$status$out", '0', 'the books are right, and nothing is said');

wait_for(
	'all are over', 30,
	sub {
		place($cluster);
		query($server, 'credit', 'SELECT count(*) FROM gpucredit.jobs WHERE ended_at IS NULL') eq '0';
	});
end_cluster($cluster);
done_testing();

sub connection
{
	my ($user) = @_;

	return sprintf('host=%s port=%s dbname=credit user=%s',
		$server->host, $server->port, $user);
}

sub cli
{
	return ($ENV{GC_AGENT_BIN} || "$FindBin::RealBin/../../agent")
	  . '/../cli/gpucredit';
}

sub gpucredit
{
	my (@arguments) = @_;
	my ($out, $err) = ('', '');

	run [ cli(), @arguments ], '<', \'', '>', \$out, '2>', \$err;
	return ($? >> 8, $out, $err);
}

sub slurm
{
	return slurm_from('', @_);
}

sub slurm_from
{
	my ($in, $command, @arguments) = @_;
	my ($out, $err) = ('', '');

	run [ cli() =~ s/gpucredit$/$command/r, @arguments ], '<', \$in, '>', \$out, '2>', \$err;
	return ($? >> 8, $out, $err);
}

# Calls a function while another process runs cycles.
sub while_placing
{
	my ($call) = @_;
	my $pid = fork();

	if ($pid == 0)
	{
		setpgrp();
		while (1)
		{
			system('psql', '-Xqd', connection((getpwuid($>))[0]), '-o', '/dev/null', '-c', 'SELECT * FROM gpucredit.place()');
			select(undef, undef, undef, 0.2);
		}
	}
	local $SIG{ALRM} = sub { kill('KILL', -$pid); die "it did not end" };
	alarm(60);
	my @result = $call->();
	alarm(0);
	kill('KILL', -$pid);
	waitpid($pid, 0);
	return @result;
}

sub write_script
{
	my ($name, $text) = @_;

	unlink "$folder/$name";
	append_to_file("$folder/$name", $text);
	return "$folder/$name";
}

sub jobs
{
	return query($server, 'credit', 'SELECT count(*) FROM gpucredit.job');
}
