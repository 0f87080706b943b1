# datasets.pl: lm-eval's tasks have their documents from datasets of the registry
#
# Packages: npm:npm
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/lib";
use GpuCreditEval;
use GpuCreditEvalCommand;
use GpuCredit;
use HTTP::Tiny;
use JSON::PP;
use MIME::Base64;
use POSIX ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes 'sleep';

my $node = eval_node('datasets');
my $dir = PostgreSQL::Test::Utils::tempdir();
my ($daemon, $keys) = (0, 0);

sub q_ { return query($node, 'eval', $_[0]) }
END { my $status = $?; kill 'KILL', $daemon if $daemon; waitpid $daemon, 0 if $daemon; $? = $status }

# Commits files to main of a dataset, each a list of documents; returns the oid.
sub commit_dataset
{
	my ($dataset, %files) = @_;
	my $changes = encode_json([ map { { path => $_, content => encode_base64(join('', map { encode_json($_) . "\n" } @{ $files{$_} }), '') } } sort keys %files ]);

	q_(sprintf(q{SELECT gpucredit_registry.commit('acme', %d, 'main', '%s', 'commit %d')}, $dataset, $changes, ++$keys));
	return q_("SELECT v.oid FROM gpucredit_registry.version v WHERE v.model = $dataset ORDER BY v.version DESC LIMIT 1");
}

q_(q{CREATE EXTENSION gpucredit_registry CASCADE; CREATE ROLE registryd LOGIN IN ROLE gpucredit_registry_daemon});
my ($sums, $other) = map { q_("SELECT model FROM gpucredit_registry.create_model('acme', 'nlp', '$_', 'make $_', kind => 'dataset')") } qw(sums other);
my $first = commit_dataset($sums, 'test.jsonl' => [ { q => '1+1', a => '2' }, { q => '2+2', a => '4' } ], 'main/train.jsonl' => [ map { { q => "$_+0", a => "$_" } } 1 .. 5 ],
	'README.md' => []);
commit_dataset($other, 'test.jsonl' => [ { q => 'other', a => 'yes' } ]);

# the registry's daemon
my $port = PostgreSQL::Test::Cluster::get_free_port();
my $url = "http://127.0.0.1:$port";
my $log = $node->logfile =~ s/\.log$/-registryd.log/r;
$daemon = fork() // die "could not fork: $!";
if ($daemon == 0)
{
	open(STDERR, '>>', $log) && open(STDOUT, '>&', \*STDERR) or POSIX::_exit(1);
	exec "$FindBin::RealBin/../../registry/registryd", '--store', "$dir/store", '--port', $port,
	  '--database', sprintf('host=%s port=%s dbname=eval user=registryd', $node->host, $node->port)
	  or POSIX::_exit(127);
}
for (1 .. 600)
{
	last if HTTP::Tiny->new(timeout => 5)->get($url)->{status} != 599;
	sleep 0.1;
}

# A task's YAML; the cases that the command makes of it, or what it says.
sub task
{
	my ($name, $more) = @_;

	append_to_file("$dir/$name.yaml", "task: $name\noutput_type: generate_until\ntest_split: test\ndoc_to_text: 'Q: {{q}}'\ndoc_to_target: a\n$more");
	return "$dir/$name.yaml";
}

sub imported
{
	my ($file, @options) = @_;
	my ($code, $out, $err) = command_result($node, 'import', 'lm-eval', $file, '--print', '--registry', $url, @options);

	return $code == 0 ? decode_json($out) : $err;
}

mkdir "$dir/tmp" or die;
$ENV{TMPDIR} = "$dir/tmp";
my $task = task('sums', "dataset_path: acme/sums\n");
delete $ENV{REGISTRY_TOKEN};
like(imported($task), qr/the registry answers 40[134] to dataset "acme\/sums": REGISTRY_TOKEN/, 'a dataset that is not public takes a token');
$ENV{REGISTRY_TOKEN} = q_(q{SELECT gpucredit_registry.issue_token('rival', '')});
like(imported($task), qr/the registry answers 40[134] to dataset/, 'of somebody who may read it');
$ENV{REGISTRY_TOKEN} = q_(q{SELECT gpucredit_registry.issue_token('acme', 'nlp', 'read')});
my $cases = imported($task);
is_deeply([ map { [ $_->{input}{messages}[0]{content}, $_->{expected}, $_->{source} ] } @$cases ],
	[ map { [ "Q: $_->[0]", $_->[1], 'acme/sums@' . substr($first, 0, 12) . "/test.jsonl: line $_->[2]" ] } [ '1+1', '2', 1 ], [ '2+2', '4', 2 ] ],
	'the documents are those of the dataset, and each case says of which commit');
$cases = imported(task('shots', "dataset_path: acme/sums\ndataset_name: main\nfewshot_split: train\nnum_fewshot: 2\n"));
like($cases->[0]{input}{messages}[0]{content}, qr/^Q: (\d)\+0 \1\n\nQ: (\d)\+0 \2\n\nQ: 1\+1$/, 'examples come from another split, in the folder of a configuration');
append_to_file("$dir/test.jsonl", "{\"q\": \"1+1\", \"a\": \"2\"}\n{\"q\": \"2+2\", \"a\": \"4\"}\n");
append_to_file("$dir/train.jsonl", join('', map { "{\"q\": \"$_+0\", \"a\": \"$_\"}\n" } 1 .. 5));
my $local = decode_json((command_result($node, 'import', 'lm-eval', "$dir/shots.yaml", '--print', '--documents', $dir))[1]);
is_deeply([ map { $_->{input} } @$cases ], [ map { $_->{input} } @$local ], 'as the same files in a folder have them');

# which commit is read
my $second = commit_dataset($sums, 'test.jsonl' => [ { q => '3+3', a => '6' } ]);
is(scalar @{ imported($task) }, 1, 'the newest commit of main is read');
is(scalar @{ imported($task, '--dataset', "acme/sums\@$first") }, 2, 'or the one that is named');
is(imported($task, '--dataset', 'acme/other')->[0]{expected}, 'yes', 'or another dataset than the task names');

# a group of tasks, each with its own dataset
task('others', "dataset_path: acme/other\n");
append_to_file("$dir/both.yaml", "group: both\ntask: [sums, others]\n");
is_deeply([ sort map { $_->{name} } @{ imported("$dir/both.yaml") } ], [ 'others/1', 'sums/1' ], 'each task of a group has its own dataset');

# what is not there, or no name, is refused
like(imported($task, '--dataset', 'acme/none'), qr/the registry answers 404/, 'no such dataset');
like(imported($task, '--dataset', 'acme/sums@none'), qr/the registry answers 404/, 'no such revision');
like(imported($task, '--dataset', $_), qr/is no dataset of the registry/, "no name: $_") foreach 'sums', '../sums', 'acme/..', 'acme/sums/x', 'a b/c';
like(imported(task('noname', "dataset_path: gsm8k\n")), qr/"gsm8k" is no dataset of the registry.*--dataset/, 'a task that names a dataset of elsewhere takes --dataset');
like(imported(task('split', "dataset_path: acme/sums\nfewshot_split: dev\nnum_fewshot: 1\n")), qr/no file of split "dev", dev\.jsonl; it has .*test\.jsonl/, 'no such split');
like(imported($task, '--documents', $dir), qr/--documents and --registry/, 'one of two says where the documents are');
like((command_result($node, 'import', 'lm-eval', $task, '--print', '--dataset', 'acme/sums'))[2], qr/name it with --registry/, 'a dataset is one of a registry');
kill 'TERM', $daemon;
waitpid $daemon, 0;
$daemon = 0;
like(imported($task), qr/the registry does not answer: ECONNREFUSED/, 'a registry that is away');
is_deeply([ glob("$ENV{TMPDIR}/gpucredit-eval-*") ], [], 'nothing that was pulled stays');
eval_verify($node);
done_testing();
