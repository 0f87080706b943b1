# clients.pl: the Hub's own client, git-lfs and curl
#
# Packages: libcurl4-openssl-dev libmicrohttpd-dev libssl-dev libjansson-dev libpq-dev git git-lfs curl npm:npm
use strict;
use warnings;
use Digest::SHA 'sha256_hex';
use FindBin;
use IPC::Run;
use JSON::PP;
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

# Each function of the Hub's client works, or is refused by name.
append_to_file("$dir/all.mjs", <<'JS');
import * as hub from "@huggingface/hub";
import { readdirSync, readFileSync } from "fs";
import { join } from "path";
const [hubUrl, accessToken, cacheDir] = process.argv.slice(2);
const to = { accessToken, hubUrl };
const repo = (name, type = "model") => ({ repo: { type, name }, ...to });
const say = (...words) => console.log(words.join(" "));
const all = async (list, field = "name") => { const got = []; for await (const e of list) got.push(e[field]); return got.join("|"); };
const refused = async (what, call) => { try { await call(); say(what, "accepted"); } catch (e) { say(what, e.statusCode ?? e.message); } };
const card = (fields) => ({ path: "README.md", content: new Blob([`---\n${fields}\n---\n# A model\n`]) });
const upload = (name, fields, files = []) => hub.uploadFiles({ ...repo(name), files: [card(fields), ...files] });

await hub.createRepo(repo("acme/llama-7b"));
await upload("acme/llama-7b", "license: mit\nlibrary_name: transformers\npipeline_tag: text-generation\ntags:\n- pytorch\n- llama # family\nlanguage: [en, \"de\"]\ndatasets:\n- acme/web",
	[{ path: "pkg/__init__.py", content: new Blob([]) }, { path: "w.bin", content: new Blob(["w".repeat(2_000_000)]) }]);
await hub.createRepo(repo("acme/llama-chat"));
await upload("acme/llama-chat", "base_model: acme/llama-7b\nbase_model_relation: adapter\npipeline_tag: text-generation");
await hub.createRepo(repo("acme/whisper"));
await upload("acme/whisper", "pipeline_tag: automatic-speech-recognition");
const search = (search, more = {}) => all(hub.listModels({ ...to, search, ...more }));
say("owner", await search({ owner: "acme", query: "llam" }));
say("part of a name", await search({ query: "hispe" }));
say("tag", await search({ tags: ["pytorch"] }), "two", await search({ tags: ["pytorch", "license:mit"] }), "none", await search({ tags: ["pytorch", "gguf"] }));
say("task", await search({ task: "text-generation" }));
say("sorted", await search({ owner: "acme", query: "llama" }, { sort: "id" }));
say("limited", await search({ owner: "acme", task: "text-generation" }, { limit: 1 }));
await refused("sort by likes", () => search({}, { sort: "likes" }));
await refused("apps", () => search({ apps: ["x"] }));
const info = await hub.modelInfo({ name: "acme/llama-7b", ...to, additionalFields: ["cardData", "tags", "library_name"] });
say("info", info.task, info.library_name, info.cardData.license, info.tags.join("|"));
say("commits", await hub.countCommits(repo("acme/llama-7b")), await all(hub.listCommits({ ...repo("acme/llama-7b"), batchSize: 1 }), "title"));
await hub.createBranch({ ...repo("acme/llama-7b"), branch: "dev" });
await hub.createBranch({ ...repo("acme/llama-7b"), branch: "blank", empty: true });
say("empty branch", "<" + await all(hub.listFiles({ ...repo("acme/llama-7b"), revision: "blank" }), "path") + ">");
await refused("branch that exists", () => hub.createBranch({ ...repo("acme/llama-7b"), branch: "dev", revision: "blank" }));
await hub.uploadFile({ ...repo("acme/llama-7b"), branch: "HEAD", file: { path: "h", content: new Blob(["h"]) } });
say("HEAD is main", await hub.fileExists({ ...repo("acme/llama-7b"), path: "h" }));
await refused("branch with a typo", () => hub.uploadFile({ ...repo("acme/llama-7b"), branch: "devv", file: { path: "x", content: new Blob(["x"]) } }));
await refused("pull request", () => hub.uploadFile({ ...repo("acme/llama-7b"), isPullRequest: true, file: { path: "x", content: new Blob(["x"]) } }));
await hub.deleteBranch({ ...repo("acme/llama-7b"), branch: "blank" });
const call = (method, path, body) => fetch(hubUrl + "/api/" + path, { method, headers: { authorization: "Bearer " + accessToken }, body: body && JSON.stringify(body) });
say("tag", (await call("POST", "models/acme/llama-7b/tag/main", { tag: "v1" })).status, (await call("POST", "models/acme/llama-7b/tag/main", { tag: "dev" })).status);
await hub.deleteFile({ ...repo("acme/llama-7b"), path: "h" });
await refused("commit to a tag", () => hub.uploadFile({ ...repo("acme/llama-7b"), branch: "v1", file: { path: "x", content: new Blob(["x"]) } }));
const refs = await (await call("GET", "models/acme/llama-7b/refs")).json();
say("refs", refs.branches.map((b) => b.name).join("|"), refs.tags.map((t) => t.ref).join("|"));
say("tag stays", await hub.fileExists({ ...repo("acme/llama-7b"), path: "h", revision: "v1" }), await hub.fileExists({ ...repo("acme/llama-7b"), path: "h" }));
say("untag", (await call("DELETE", "models/acme/llama-7b/tag/v1")).status, (await call("DELETE", "models/acme/llama-7b/tag/dev")).status);
const paths = await hub.pathsInfo({ ...repo("acme/llama-7b"), paths: ["pkg/__init__.py", "w.bin", "none"] });
say("paths", paths.map((p) => p.path + ":" + p.size).join("|"));
say("empty file", (await hub.fileDownloadInfo({ ...repo("acme/llama-7b"), path: "pkg/__init__.py" })).size);
const snapshot = await hub.snapshotDownload({ ...repo("acme/llama-7b"), cacheDir });
say("snapshot", readdirSync(snapshot).sort().join("|"), readFileSync(join(snapshot, "pkg/__init__.py")).length, readFileSync(join(snapshot, "w.bin")).length);
await hub.createRepo(repo("acme/web", "dataset"));
say("datasets", await all(hub.listDatasets(to)), (await hub.datasetInfo({ name: "acme/web", ...to })).name);
say("exists", await hub.repoExists(repo("acme/web", "dataset")), await hub.repoExists(repo("acme/none")));
await hub.checkRepoAccess(repo("acme/web", "dataset"));
say("settings", (await call("PUT", "models/acme/whisper/settings", { private: false })).status, (await call("PUT", "models/acme/whisper/settings", { gated: "auto" })).status, (await hub.modelInfo({ name: "acme/whisper", hubUrl })).private);
say("move", (await call("POST", "repos/move", { fromRepo: "acme/whisper", toRepo: "acme/whisper-2", type: "model" })).status, (await call("POST", "repos/move", { fromRepo: "acme/whisper-2", toRepo: "acme/llama-7b" })).status, await hub.repoExists(repo("acme/whisper-2")));
await hub.deleteRepo(repo("acme/web", "dataset"));
say("deleted", await hub.repoExists(repo("acme/web", "dataset")));
await refused("spaces", () => all(hub.listSpaces(to)));
await refused("collections", () => all(hub.listCollections(to)));
await refused("jobs", () => hub.listJobs({ ...to, namespace: "acme" }));
await refused("bucket", () => hub.createRepo({ ...to, repo: { type: "bucket", name: "acme/b" } }));
say("discussions", (await call("GET", "models/acme/llama-7b/discussions")).status);
JS
is(runs('all functions of the Hub\'s client', 'node', "$dir/all.mjs", $url, $token, "$dir/cache")
	  =~ s/^Downloading .*\n//mgr, <<'OUT', 'each does what it says, or is refused');
owner acme/llama-chat|acme/llama-7b
part of a name acme/whisper
tag acme/llama-7b two acme/llama-7b none 
task acme/llama-chat|acme/llama-7b
sorted acme/llama-chat|acme/llama-7b
limited acme/llama-chat
sort by likes 400
apps 400
info text-generation transformers mit dataset:acme/web|de|en|license:mit|llama|pytorch|text-generation|transformers
commits 1 Add 3 files
empty branch <>
branch that exists 409
HEAD is main true
branch with a typo 404
pull request 501
tag 201 409
commit to a tag 400
refs dev|main refs/tags/v1
tag stays true false
untag 200 404
paths pkg/__init__.py:0|w.bin:2000000
empty file 0
snapshot README.md|pkg|w.bin 0 2000000
datasets acme/web acme/web
exists true false
settings 200 501 false
move 200 409 true
deleted false
spaces 501
collections 501
jobs 501
bucket 501
discussions 501
OUT
is(query($node, 'reg', q{SELECT e.kind FROM gpucredit_registry.edge e
	JOIN gpucredit_registry.version v ON v.version = e.child JOIN gpucredit_registry.model m USING (org, model)
	WHERE m.name = 'llama-chat'}), 'adapter', 'a base model that a card states is an edge of lineage');

# Files are cut where Xet cuts them: Hugging Face's own chunker decides.
runs('npm installs Xet\'s chunker', 'npm', 'install', '--prefix', $dir, '--no-audit', '--no-fund',
	'--no-update-notifier', '@huggingface/xetchunk-wasm@0.2.0');
append_to_file("$dir/xet.mjs", <<'JS');
import { getChunks } from "@huggingface/xetchunk-wasm";
import { Hasher } from "gearhash-jit";
import { writeFileSync } from "fs";
const [dir] = process.argv.slice(2);
const MASK = (1n << 64n) - 1n;
// The bytes of SplitMix64, by which Xet's own tests make theirs.
function random(seed, size) {
	const bytes = Buffer.alloc(size + 8);
	for (let at = 0, state = seed; at < size; at += 8) {
		state = (state + 0x9e3779b97f4a7c15n) & MASK;
		let z = ((state ^ (state >> 30n)) * 0xbf58476d1ce4e5b9n) & MASK;
		z = ((z ^ (z >> 27n)) * 0x94d049bb133111ebn) & MASK;
		bytes.writeBigUInt64LE(z ^ (z >> 31n), at);
	}
	return bytes.subarray(0, size);
}
// Xet's rule, by its own hash: a match before 8 KiB does not count.
function chunks(bytes) {
	const sizes = [], hasher = new Hasher(0xffff000000000000n);
	for (let start = 0; start < bytes.length; start += sizes.at(-1)) {
		const limit = Math.min(bytes.length - start, 131072);
		let at = Math.min(8192 - 64 - 1, limit);
		hasher.resetHash();
		while (at < limit) {
			const found = hasher.nextMatch(bytes.subarray(start + at, start + limit));
			at = found < 0 ? limit : at + found;
			if (at >= 8192) break;
		}
		sizes.push(at);
	}
	return sizes;
}
const million = random(0n, 1_000_000);
const files = { million, constant: Buffer.alloc(1_000_000, 59), zeros: Buffer.alloc(300_000) };
for (const size of [0, 1, 63, 8127, 8128, 8191, 8192, 8193, 131071, 131072, 131073]) files["first" + size] = million.subarray(0, size);
for (const seed of [1, 2, 3, 4]) files["random" + seed] = random(BigInt(seed), 700_000 * seed + 1);
// A text at whose end a chunk may end, again and again, with more and more between.
const trigger = million.subarray(84493 - 128, 84493);
for (const pad of [0, 1, 7, 10, 23, 46, 64, 100, 127]) {
	const unit = Buffer.concat([trigger, Buffer.alloc(pad)]);
	files["repeat" + pad] = Buffer.alloc(65536, unit);
}
const ends = (sizes) => { let end = 0; return sizes.map((size) => (end += size)).join(" "); };
for (const [name, bytes] of Object.entries(files)) {
	const expected = ends(chunks(bytes)), packaged = ends(getChunks(bytes).map((c) => c.length));
	writeFileSync(`${dir}/xet.${name}`, bytes);
	console.log([name, packaged === expected ? "same" : "other", expected].join(" "));
}
JS
is(json_request('POST', '/api/repos/create', $token, { name => 'xet', organization => 'acme' })->{status}, 200,
	'a repository for what is cut');

# Sends a file, in several requests of tus if sizes are named; where it is cut.
sub cuts
{
	my ($content, @sizes) = @_;
	my $answer = json_request('POST', '/acme/xet.git/info/lfs/objects/batch', $token,
		{   operation => 'upload', transfers => [ @sizes ? 'tus' : 'basic' ],
			objects => [ { oid => sha256_hex($content), size => length($content) } ] });
	my $href = $answer->{json}{objects}[0]{actions}{upload}{href};
	my $at = 0;

	request('PUT', $href, content => $content) if defined $href && !@sizes;
	foreach my $size (@sizes)
	{
		request('PATCH', $href, content => substr($content, $at, $size), headers => {
				'content-type' => 'application/offset+octet-stream',
				'upload-offset' => $at, 'tus-resumable' => '1.0.0' });
		$at += $size;
	}
	return query($node, 'reg', sprintf(q{SELECT string_agg(c.end_byte::text, ' ' ORDER BY c.end_byte)
		FROM (SELECT sum(k.size) OVER (ORDER BY s.ordinal, u.n) AS end_byte
			FROM gpucredit_registry.segment s, unnest(s.chunks) WITH ORDINALITY u (chunk, n)
				JOIN gpucredit_registry.chunk k USING (chunk)
			WHERE s.object = '\x%s') c}, sha256_hex($content)));
}

# Version 0.2.0 of the package also ends chunks at 8,128 bytes, which Xet's program
# no longer does: the first byte that is hashed decides there.
my @others;
foreach (split /\n/, runs('Xet\'s chunker cuts', 'node', "$dir/xet.mjs", $dir))
{
	my ($name, $package, $expected) = split / /, $_, 3;

	is($expected, '84493 134421 144853 243318 271793 336457 467529 494581 582000 596735 616815 653164 '
		  . '678202 724510 815591 827760 958832 991092 1000000', 'the million bytes of Xet\'s own test')
	  if $name eq 'million';
	is(cuts(slurp_file("$dir/xet.$name")), $name eq 'first0' ? '0' : $expected, "$name is cut where Xet cuts it");
	push @others, $name if $package ne 'same';
}
is("@others", 'random2 random3 random4 repeat10 repeat46', 'the package agrees but where it ends chunks early');

# An object that was cut elsewhere, as by an older daemon, is the same file.
my $other = slurp_file("$dir/xet.random4") . 'x';
like(cuts($other, 300_001, length($other) - 300_001), qr/\b300001\b/, 'a file is cut where its upload was broken off');
is(cuts($other), cuts($other, 1), 'who sends it again finds it as it is');
is(json_request('POST', '/api/models/acme/xet/commit/main', $token, join("\n",
	'{"key": "header", "value": {"summary": "x"}}', encode_json({ key => 'lfsFile',
		value => { path => 'other', oid => sha256_hex($other), size => length($other) } })))->{status}, 200,
	'it is committed');
ok(request('GET', '/acme/xet/resolve/main/other', token => $token)->{content} eq $other, 'and read');

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
