# clients.pl: the Hub's own client, git-lfs and curl
#
# Packages: libcurl4-openssl-dev libmicrohttpd-dev libssl-dev libjansson-dev libpq-dev git git-lfs curl npm:npm
use strict;
use warnings;
use FindBin;
use IPC::Run;
use lib "$FindBin::RealBin/lib";
use GpuCreditRegistry;
use GpuCredit;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = registry_node('clients');
daemon_start($node);
my $dir = PostgreSQL::Test::Utils::tempdir();
my $token = registry_token($node, 'acme', 'nlp');
my $url = daemon_url('');

# A test: the command succeeds; returns its output.
sub runs
{
	my ($name, @command) = @_;
	my ($out, $err) = ('', '');
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	ok(IPC::Run::run(\@command, '<', \undef, '>', \$out, '2>', \$err, IPC::Run::timeout(180)), $name)
	  || diag("$out$err");
	return $out;
}

# 40 MB of weights; a fine-tune has a longer header and a changed part.
my $weights = '';
srand(1);
$weights .= pack('L', rand(2**32)) for 1 .. 10_000_000;
append_to_file("$dir/base.bin", $weights);
append_to_file("$dir/tuned.bin", 'a longer header' . substr($weights, 0, 20_000_000)
	  . ('x' x 100_000) . substr($weights, 20_100_000));

runs('npm installs the Hub\'s client', 'npm', 'install', '--prefix', $dir, '--no-audit', '--no-fund',
	'--no-update-notifier', '@huggingface/hub@2.17.5');
append_to_file("$dir/hub.mjs", <<'JS');
import { createRepo, uploadFiles, listFiles, downloadFile, modelInfo, listCommits, createBranch, deleteFile, fileExists, whoAmI } from "@huggingface/hub";
import { readFileSync } from "fs";
const [hubUrl, accessToken, name, file] = process.argv.slice(2);
const repo = { type: "model", name }, at = { repo, accessToken, hubUrl };
const data = readFileSync(file);
const say = (...words) => console.log(words.join(" "));
say("who", (await whoAmI({ accessToken, hubUrl })).name);
say("repo", (await createRepo({ ...at, license: "mit" })).repoUrl);
await uploadFiles({ ...at, commitTitle: "first", files: [
	{ path: "model.safetensors", content: new Blob([data]) },
	{ path: "config.json", content: new Blob(['{"a": 1}']) },
	{ path: "README.md", content: new Blob(["# Card\n"]) },
	{ path: "sub dir/ü.txt", content: new Blob(["x"]) },
	{ path: "empty", content: new Blob([]) } ] });
const files = [];
for await (const f of listFiles({ ...at, recursive: true })) files.push(f.path);
say("files", files.join("|"));
const back = Buffer.from(await (await downloadFile({ ...at, path: "model.safetensors" })).arrayBuffer());
say("same", back.equals(data));
say("text", await (await downloadFile({ ...at, path: "sub dir/ü.txt" })).text());
await createBranch({ ...at, branch: "v1.2" });
await deleteFile({ ...at, path: "sub dir/ü.txt" });
say("exists", await fileExists({ ...at, path: "sub dir/ü.txt" }), await fileExists({ ...at, path: "sub dir/ü.txt", revision: "v1.2" }));
let n = 0;
for await (const c of listCommits(at)) n++;
say("commits", n);
say("info", (await modelInfo({ name, accessToken, hubUrl, additionalFields: ["sha"] })).sha.length);
JS
foreach my $model (qw(base tuned))
{
	is(runs("the Hub's client pushes and pulls $model", 'node', "$dir/hub.mjs", $url, $token,
			"acme/$model", "$dir/$model.bin"), <<"OUT", 'all as it was');
who acme
repo $url/acme/$model
files README.md|config.json|empty|model.safetensors|sub dir|sub dir/ü.txt
same true
text x
exists false true
commits 2
info 40
OUT
}
my $unique = query($node, 'reg', q{SELECT "unique" FROM gpucredit_registry.storage('acme')});
cmp_ok($unique, '<', 40_000_000 + 2 * 400_000, 'the fine-tune stores little more than its change');

# git-lfs, with the token in the URL, as git asks for it
my $lfs = "http://x:$token@" . ($url =~ s{http://}{}r) . '/acme/base.git/info/lfs';
runs('a repository of git', 'git', 'init', '-q', "$dir/git");
chdir "$dir/git" or die;
append_to_file('.gitattributes', "*.bin filter=lfs diff=lfs merge=lfs -text\n");
append_to_file('w.bin', substr($weights, 7, 9_000_000));
runs('git-lfs is set up', 'git', 'lfs', 'install', '--local');
runs("git config $_->[0]", 'git', 'config', @$_)
  foreach [ 'lfs.url', $lfs ], [ 'lfs.locksverify', 'false' ], [ 'user.name', 'a' ], [ 'user.email', 'a@b' ];
runs('git commits', 'git', 'add', '.');
runs('git commits', 'git', 'commit', '-q', '-m', 'x');
runs('a remote', 'git', 'remote', 'add', 'origin', $lfs =~ s{/info/lfs}{}r);
runs('git-lfs pushes', 'git', 'lfs', 'push', 'origin', 'HEAD');
runs('the local copy goes', 'rm', '-rf', '.git/lfs/objects', 'w.bin');
runs('git-lfs pulls', 'git', 'lfs', 'fetch', 'origin', 'HEAD');
runs('and checks out', 'git', 'checkout', '-q', '-f', 'HEAD');
ok(slurp_file('w.bin') eq substr($weights, 7, 9_000_000), 'the same bytes come back');

# by tus, which goes on after a cut
append_to_file('t.bin', substr($weights, 11, 5_000_000));
runs('git-lfs speaks tus', 'git', 'config', 'lfs.tustransfers', 'true');
runs('git commits', 'git', 'add', '.');
runs('git commits', 'git', 'commit', '-q', '-m', 'y');
runs('git-lfs pushes by tus', 'git', 'lfs', 'push', 'origin', 'HEAD');
is(query($node, 'reg', q{SELECT count(*) FROM gpucredit_registry.possession p
	JOIN gpucredit_registry.object o ON o.sha256 = p.object WHERE o.size = 5000000}), '1',
	'and all bytes came');

# curl goes on where it stopped
append_to_file("$dir/part", substr($weights, 0, 15_000_000));
runs('curl goes on', 'curl', '-s', '-f', '-C', '-', '-o', "$dir/part", '-H', "Authorization: Bearer $token",
	"$url/acme/base/resolve/main/model.safetensors");
ok(slurp_file("$dir/part") eq $weights, 'where it stopped');
registry_verify($node);
done_testing();
