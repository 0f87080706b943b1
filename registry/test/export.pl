# export.pl: versions travel in a signed folder, and what is not as it was signed is refused
#
# Packages: libcurl4-openssl-dev libmicrohttpd-dev libssl-dev libjansson-dev libpq-dev python3-cryptography python3-psycopg openssl
use strict;
use warnings;
use Digest::SHA 'sha256_hex';
use FindBin;
use IPC::Run;
use JSON::PP;
use POSIX ();
use lib "$FindBin::RealBin/lib";
use GpuCreditRegistry;
use GpuCreditFederation;
use GpuCredit;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = registry_node('export');
my $dir = PostgreSQL::Test::Utils::tempdir();

daemon_start($node);
far_start($node);
$node->safe_psql('reg', 'CREATE ROLE ada LOGIN IN ROLE gpucredit_admin');
my $token = registry_token($node, 'acme');
my $far_token = $node->safe_psql('far',
	q{SELECT gpucredit_registry.issue_token('acme', 'lab', 'write')});
write_file("$dir/token", "$far_token\n", 0600);

# The keys: "lab" is trusted here, "other" is not.
mkdir "$dir/trusted";
foreach my $name ('lab', 'other')
{
	system_or_bail('openssl', 'genpkey', '-algorithm', 'ed25519', '-out', "$dir/$name.key");
	chmod 0600, "$dir/$name.key";
	system_or_bail('openssl', 'pkey', '-in', "$dir/$name.key", '-pubout', '-out',
		$name eq 'lab' ? "$dir/trusted/$name.pem" : "$dir/$name.pem");
}

sub export_to
{
	my ($folder, @options) = @_;

	return registry_mirror(far_url(''), 'export', '--key', "$dir/lab.key", '--token-file',
		"$dir/token", @options, "$dir/$folder", 'acme/m');
}

sub import_from
{
	my ($folder, @options) = @_;

	return registry_mirror(daemon_url(''), 'import', '--database', database_of('reg', 'ada'),
		'--trusted', "$dir/trusted", '--org', 'acme', '--account', 'vision', @options, "$dir/$folder");
}

# Tests that an import is refused, and that nothing came of it.
sub refused
{
	my ($folder, $pattern, $name, @options) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $before = state();
	my ($rc, $out) = import_from($folder, @options);

	is($rc, 1, "$name: is refused");
	like($out, $pattern, "$name: says why");
	is(state(), $before, "$name: nothing came of it");
	return;
}

# All that an import changes, but for uploads.
sub state
{
	return here_sql(q{SELECT (SELECT count(*) FROM gpucredit_registry.version),
		(SELECT count(*) FROM gpucredit_registry.origin),
		(SELECT string_agg(model || ref || version, ',' ORDER BY model, ref) FROM gpucredit_registry.ref),
		(SELECT string_agg(exported_at::text, ',' ORDER BY model) FROM gpucredit_registry.import)});
}

# A base and what was made from it, with a tag.
my $weights = content_of(1, 3 << 20);
my $card = "---\nlicense: mit\ntags:\n- test\n---\n# M\n";
my $first = push_version($far_token, 'm', 'main', title => 'first',
	lfs => { 'w/model.safetensors' => $weights }, text => { 'README.md' => $card, 'empty.txt' => '' });
is(json_request('POST', far_url('/api/models/acme/m/tag/main'), $far_token, { tag => 'v1' })->{status},
	201, 'a tag there');

my ($rc, $out) = export_to('one', '--all-refs');
is($rc, 0, 'an export') or diag $out;
is(join(' ', sort map { s{.*/}{}r } glob("$dir/one/*")), 'files manifest.json manifest.sig', 'is a folder');
is(scalar(() = glob("$dir/one/files/*")), 3, 'of each file once');
is(system('openssl', 'pkeyutl', '-verify', '-pubin', '-inkey', "$dir/trusted/lab.pem", '-rawin',
		'-in', "$dir/one/manifest.json", '-sigfile', "$dir/one/manifest.sig"), 0,
	'openssl verifies its signature');
unlike(slurp_file("$dir/one/manifest.json"), qr/\Q$far_token\E/, 'it has no token');
($rc, $out) = export_to('one');
is($rc, 1, 'an export does not overwrite another');

# The import.
($rc, $out) = import_from('one');
is($rc, 0, 'an import') or diag $out;
is(read_here('/acme/m/resolve/main/w/model.safetensors', $token), $weights, 'its bytes are here');
is(read_here("/acme/m/resolve/$first/README.md", $token), $card, 'by the oid that it has there');
is(read_here('/acme/m/resolve/v1/empty.txt', $token), '', 'and by its tag, an empty file, too');
is(read_here('/acme/m/resolve/main/README.md'), 'status 401', 'its rights are this registry\'s');
is(here_sql(q{SELECT account, visibility, fields #>> '{license,0}' FROM gpucredit_registry.model}),
	'vision|private|mit', 'the account that was named pays, and the card is read');
is(here_sql(q{SELECT source, repository, detail ->> 'title', detail ->> 'signed_by', detail ->> 'license'
	FROM gpucredit_registry.origins('acme', 1)}), 'lab|acme/m|first|lab|mit', 'it is known where it comes from');
is(here_sql(q{SELECT count(*) FROM gpucredit_registry.event WHERE operation IN ('receive_version', 'import_refs')}),
	'2', 'the audit log says so');
my $provenance = json_request('GET', "/api/models/acme/m/provenance/$first", $token)->{json};
is($provenance->{origin}{oid}, $first, 'clients may ask for it');
ok($node->poll_query_until('far', sprintf q{SELECT sum(bytes) >= %d FROM gpucredit_registry.egress},
		length($weights) + length $card), 'the far registry billed what it sent');
my $done = state();
($rc, $out) = import_from('one');
is($rc, 0, 'the same again');
like($out, qr/0 refs moved/, 'moves nothing');
is(state(), $done, 'and changes nothing');
is((import_from('one', '--check'))[0], 0, 'a folder may be looked at alone');

# Lineage follows: what was made from an imported version is made from it here.
far_sql(q{SELECT gpucredit_registry.grant_access('acme', 2, 'account:acme/lab', 'write')});
my $tuned = push_version($far_token, 'n', 'main', lfs => { 'w' => content_of(2, 1 << 20) },
	parents => [ { org => 'acme', version => 1, kind => 'adapter' } ]);
($rc, $out) = registry_mirror(far_url(''), 'export', '--key', "$dir/lab.key", '--token-file',
	"$dir/token", "$dir/tuned", 'acme/n');
is($rc, 0, 'an export of a fine-tune') or diag $out;
is((import_from('tuned', '--rename', 'acme/n=tuned'))[0], 0, 'comes under another name');
is(here_sql(q{SELECT p.model, e.kind FROM gpucredit_registry.edge e
	JOIN gpucredit_registry.version p ON p.version = e.parent
	JOIN gpucredit_registry.version c ON c.version = e.child
	JOIN gpucredit_registry.model m ON m.model = c.model AND m.name = 'tuned'}), '1|adapter',
	'its parent here is the version that came before');

# Newer, older, and what others moved.
my $second = push_version($far_token, 'm', 'main', lfs => { 'w/model.safetensors' => content_of(3, 3 << 20) },
	delete => ['empty.txt']);
is((export_to('two'))[0], 0, 'a second export');
is((import_from('two'))[0], 0, 'is imported');
is(read_here('/acme/m/resolve/main/empty.txt', $token), 'status 404', 'what was deleted there is gone');
is(read_here("/acme/m/resolve/v1/w/model.safetensors", $token), $weights, 'the tag stays');
refused('one', qr/older than what was imported/, 'an older export');
is((import_from('one', '--older'))[0], 0, 'unless it is meant');
is(read_here('/acme/m/resolve/main/w/model.safetensors', $token), $weights, 'then it moves back');
is((import_from('two', '--older'))[0], 0, 'and forth');
here_sql(q{SELECT gpucredit_registry.commit('acme', 1, 'main', '[{"path": "ours", "content": "eA=="}]', 'ours')});
is((export_to('three', '--ref', 'main', '--ref', 'v1'))[0], 0, 'a third export');
refused('three', qr/does not come from "lab"/, 'a branch with commits of our own');
is((import_from('three', '--overwrite'))[0], 0, 'unless it is meant, too');
is(read_here('/acme/m/resolve/main/ours', $token), 'status 404', 'the branch is as it is there');
here_sql(q{SELECT gpucredit_registry.protect_ref('acme', 1, 'main')});
push_version($far_token, 'm', 'main', text => { 'a.txt' => 'a' });
is((export_to('four'))[0], 0, 'a fourth export');
refused('four', qr/protected/, 'a protected branch', '--overwrite');
here_sql(q{SELECT gpucredit_registry.protect_ref('acme', 1, 'main', false)});

# What somebody did to the folder on its way.
my $digest = sha256_hex($weights);
sub tampered
{
	my ($name, $pattern, $change, $from) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $copy = $name =~ s/\W+/-/gr;

	$from //= 'four';
	system_or_bail('cp', '-r', "$dir/$from", "$dir/$copy");
	$change->("$dir/$copy");
	refused($copy, $pattern, $name);
	return;
}

# Signs a manifest that was changed, as a source that lies would.
sub signed
{
	my ($folder, $change, $key) = @_;
	my $manifest = decode_json(slurp_file("$folder/manifest.json"));

	$change->($manifest);
	write_file("$folder/manifest.json", ref $manifest eq 'HASH' ? encode_json($manifest) : $manifest);
	sign_folder($folder, $key);
	return;
}

sub sign_folder
{
	my ($folder, $key) = @_;

	system_or_bail('openssl', 'pkeyutl', '-sign', '-inkey', "$dir/" . ($key // 'lab') . '.key',
		'-rawin', '-in', "$folder/manifest.json", '-out', "$folder/manifest.sig");
	return;
}

my ($file) = map { s{.*/}{}r } grep { -s $_ > 1 << 20 } glob("$dir/four/files/*");
my $unsigned = qr/of no key that is trusted/;
tampered('another key', $unsigned, sub { sign_folder($_[0], 'other') });
tampered('a changed manifest', $unsigned, sub {
	my $text = slurp_file("$_[0]/manifest.json");
	write_file("$_[0]/manifest.json", $text =~ s/README/READNE/r) });
tampered('no signature', qr/manifest\.sig/, sub { unlink "$_[0]/manifest.sig" });
tampered('a long signature', qr/more than 64/, sub { write_file("$_[0]/manifest.sig", 'x' x 65) });
tampered('other bytes', qr/has other bytes/, sub {
	write_file("$_[0]/files/$file", content_of(9, 3 << 20)) });
tampered('a truncated file', qr/has \d+ bytes, not/, sub { truncate "$_[0]/files/$file", 1000 });
tampered('a longer file', qr/has \d+ bytes, not/, sub { truncate "$_[0]/files/$file", 1 << 40 });
tampered('a missing file', qr/cannot be read/, sub { unlink "$_[0]/files/$file" });
tampered('an extra file', qr/does not name/, sub { write_file("$_[0]/files/extra", '') });
tampered('an extra folder', qr/does not name/, sub { mkdir "$_[0]/more" });
tampered('a link', qr/cannot be read/, sub {
	rename "$_[0]/files/$file", "$dir/outside";
	symlink "$dir/outside", "$_[0]/files/$file" });
tampered('a hard link', qr/not a file of its own/, sub { link "$_[0]/files/$file", "$dir/twin" });
tampered('a linked folder', qr/cannot be read/, sub {
	rename "$_[0]/files", "$dir/files-outside";
	symlink "$dir/files-outside", "$_[0]/files" });
tampered('a pipe', qr/not a file of its own/, sub {
	unlink "$_[0]/files/$file";
	POSIX::mkfifo("$_[0]/files/$file", 0600) });

# A source that is trusted, and lies.
foreach my $path ('../../etc/passwd', '/etc/passwd', 'a/../../b', 'a//b')
{
	tampered("the path $path", qr/malformed: a path/, sub { signed($_[0], sub {
				$_[0]{repositories}[0]{versions}[0]{files}[0]{path} = $path }) });
}
tampered('a path that the database refuses', qr/malformed/, sub { signed($_[0], sub {
			$_[0]{repositories}[0]{versions}[0]{files}[0]{path} = '.git/config' }) });
tampered('a digest that is a path', qr/malformed: a file/, sub { signed($_[0], sub {
			$_[0]{repositories}[0]{versions}[0]{files}[0]{sha256} = '../../../etc/passwd' }) });
tampered('a size below zero', qr/malformed: a file/, sub { signed($_[0], sub {
			$_[0]{repositories}[0]{versions}[0]{files}[0]{size} = -1 }) });
tampered('a path twice', qr/stands twice/, sub { signed($_[0], sub {
			my $files = $_[0]{repositories}[0]{versions}[0]{files};
			$files->[0]{path} = $files->[1]{path} }) });
tampered('a ref with a bad name', qr/malformed: a ref/, sub { signed($_[0], sub {
			$_[0]{repositories}[0]{refs}[0]{ref} = '@champion' }) });
tampered('a ref to nothing', qr/malformed: a ref/, sub { signed($_[0], sub {
			$_[0]{repositories}[0]{refs}[0]{oid} = '0' x 40 }) });
tampered('another format', qr/another format/, sub { signed($_[0], sub { $_[0]{format} .= '0' }) });
tampered('a time to come', qr/no time to come/, sub { signed($_[0], sub {
			$_[0]{exported_at} = '2999-01-01T00:00:00+00:00' }) });
tampered('a name twice', qr/no JSON/, sub { signed($_[0], sub {
			$_[0] = '{"format": 1, "format": 2}' }) });
tampered('depth', qr/no JSON/, sub { signed($_[0], sub { $_[0] = '[' x 1e6 }) });
tampered('other files by a known oid', qr/has other files/, sub { signed($_[0], sub {
			$_[0]{repositories}[0]{versions}[0]{oid} = $first;
			$_[0]{repositories}[0]{refs}[0]{oid} = $first }) });

# Bytes that nobody may have here, quotas, and rights.
here_sql("SELECT gpucredit_registry.import_fingerprints('feed', '$file bad')");
refused('four', qr/known to be bad/, 'a file on a list of known bad ones');
here_sql("SELECT gpucredit_registry.delete_fingerprints('feed')");
here_sql(q{SELECT gpucredit_registry.set_storage_quota('acme', 0)});
refused('four', qr/storage_quota/, 'a quota that is used');
here_sql(q{SELECT gpucredit_registry.set_storage_quota('acme', NULL)});
$node->safe_psql('reg', q{
	CREATE ROLE vera LOGIN IN ROLE gpucredit_tenant;
	SELECT gpucredit.bind_tenant('vera', 'acme', 'vision');
	CREATE ROLE worker LOGIN IN ROLE gpucredit_registry_mirror});
foreach my $role ('vera', 'worker')
{
	refused('four', qr/permission denied/, "as $role", '--database', database_of('reg', $role));
}
# Bad input writes nothing.
my $untouched = state();
my $zeros = '0' x 40;
here_sql(q{SELECT gpucredit_registry.create_model('acme', 'vision', 'i', 'i', kind => 'image')});
query_fails($node, 'reg', "SELECT gpucredit_registry.$_", '22023', "refused: $_") foreach
  "import_version('acme', 1, 'a b', 'a/b', '$zeros', '[]')",
  "import_version('acme', 1, NULL, 'a/b', '$zeros', '[]')",
  "import_version('acme', 1, 's', '../b', '$zeros', '[]')",
  "import_version('acme', 1, 's', 'a/b', 'main', '[]')",
  "import_version('acme', 1, 's', 'a/b', '$zeros', '{}')",
  "import_version('acme', 1, 's', 'a/b', '$zeros', NULL)",
  "import_version('acme', 1, 's', 'a/b', '$zeros', '[{}]')",
  "import_version('acme', 1, 's', 'a/b', '$zeros', '[]', '[]')",
  "import_version('acme', 1, 's', 'a/b', '$zeros', '[]', jsonb_build_object('a', repeat('x', 262144)))",
  "import_version('acme', 1, 's', 'a/b', '$zeros', '[]', '{}', '\@champion')",
  "import_version('acme', 1, 's', 'a/b', '$zeros', '[{\"path\": 1, \"sha256\": \"$digest\"}]')",
  "import_version('acme', 1, 's', 'a/b', '$zeros', '[{\"path\": \"a\", \"sha256\": \"$digest\", \"content\": \"eA==\"}]')",
  "import_version('acme', 1, 's', 'a/b', '$zeros', '[{\"path\": \"a\", \"sha256\": \"$digest\"}, {\"path\": \"a\", \"sha256\": \"$digest\"}]')",
  "import_version('acme', gpucredit_registry.find_model('acme', 'i', 'image'), 's', 'a/b', '$zeros', '[]')",
  "import_object('acme', 1, 'x', 1)", "import_object('acme', 1, NULL, 1)", "import_object('acme', 1, '$digest', -1)",
  "import_refs('acme', 1, 'lab', now(), '{}')", "import_refs('acme', 1, 'lab', NULL, '[]')",
  "import_refs('acme', 1, 'lab', now(), '[]', NULL)", "origins('acme', 1, 0, 0)";
query_fails($node, 'reg', "SELECT gpucredit_registry.$_", 'UC501', "not there: $_") foreach
  "import_version('acme', 999, 's', 'a/b', '$zeros', '[]')", "import_object('rival', 1, '$digest', 1)",
  "import_refs('acme', 1, 'lab', now(), '[{\"ref\": \"main\", \"oid\": \"$zeros\"}]')",
  "import_refs('acme', 999, 'lab', now(), '[]')", "imports('acme', 999)", "origins('rival', 1)",
  "find_model('acme', 'none')", "find_model('acme', 'm', 'dataset')", "find_model(NULL, NULL)";
is(state(), $untouched, 'and nothing is written');
is(sqlstate_of($node, 'reg', "SET SESSION AUTHORIZATION vera; SELECT gpucredit_registry.$_"), '', "an owner may call $_")
  foreach "origins('acme', 1)", "imports('acme', 1)", "find_model('acme', 'm')";

$node->safe_psql('reg', 'CREATE ROLE audra LOGIN IN ROLE gpucredit_auditor');
is(sqlstate_of($node, 'reg', "SET SESSION AUTHORIZATION audra; SELECT gpucredit_registry.$_"), '', "so may an auditor: $_")
  foreach "origins('acme', 1)", "imports('acme', 1)", "mirrors('acme')";

mkdir "$dir/five.partial";
chmod 0777, "$dir/five.partial";
($rc, $out) = export_to('five');
like($out, qr/you alone may write/, 'a folder that others may write is not written to');
rmdir "$dir/five.partial/files";
rmdir "$dir/five.partial";
chmod 0644, "$dir/lab.key";
($rc, $out) = export_to('five');
like($out, qr/others may read the key/, 'a key that others may read signs nothing');
chmod 0600, "$dir/lab.key";
my $version = far_sql(q{SELECT version FROM gpucredit_registry.ref WHERE model = 1 AND ref = 'main'});
far_sql("SELECT gpucredit_registry.quarantine('acme', $version, 'poisoned', 'q1')");
($rc, $out) = export_to('five');
like($out, qr/in quarantine/, 'a version in quarantine is not exported');
ok(!-e "$dir/five", 'there is no folder then');

# Killed in the middle: the next attempt goes on.
my $large = content_of(5, 24 << 20);
push_version($far_token, 'n', 'main', lfs => { 'large' => $large });
is((registry_mirror(far_url(''), 'export', '--key', "$dir/lab.key", '--token-file',
			"$dir/token", "$dir/large", 'acme/n'))[0], 0, 'an export of a large file');
my @command = (mirror_program(daemon_url(''), 'import', '--database', database_of('reg', 'ada'),
		'--trusted', "$dir/trusted", '--org', 'acme', '--rename', 'acme/n=tuned', "$dir/large"));
my $half = 10 << 20;
my ($status, $received, $url) = split /\|/, here_sql(sprintf(
		q{SELECT status, received, url FROM gpucredit_registry.import_object('acme',
			gpucredit_registry.find_model('acme', 'tuned'), '%s', %d)}, sha256_hex($large), length $large));
is("$status $received", 'open 0', 'an upload of it');
is(request('PATCH', $url, content => substr($large, 0, $half), headers => { 'Upload-Offset' => 0 })->{status},
	204, 'is cut off in the middle');
# A lock keeps the import from making the version, after it has sent all bytes.
my $lock = connect_to($node, 'reg');
$lock->begin_work;
$lock->do(q{SELECT FROM gpucredit_registry.model WHERE name = 'tuned' FOR UPDATE});
my $run = IPC::Run::start(\@command, '>&', '/dev/null');
ok($node->poll_query_until('reg', q{SELECT EXISTS (SELECT FROM pg_stat_activity
	WHERE wait_event_type = 'Lock' AND query LIKE '%import_version%')}), 'an import goes on with it');
is(here_sql('SELECT count(*) FROM gpucredit_registry.upload'), '0', 'and has sent the rest');
$run->kill_kill(grace => 0);
$lock->rollback;
ok($node->poll_query_until('reg', q{SELECT NOT EXISTS (SELECT FROM pg_stat_activity
	WHERE query LIKE '%import_version%' AND pid <> pg_backend_pid() AND state <> 'idle')}), 'it is killed there');
is(read_here('/acme/tuned/resolve/main/large', $token), 'status 404', 'a version comes whole, or not');
is(system(@command), 0, 'the next import');
ok(read_here('/acme/tuned/resolve/main/large', $token) eq $large, 'brings it');
here_sql(q{UPDATE gpucredit_registry.origin SET files = sha256('') WHERE oid = '} . $first . q{'});
is(here_sql('SELECT invariant FROM gpucredit_registry.verify()'), 'origin_is_its_files',
	'verify() compares the lists of files');
here_sql(q{UPDATE gpucredit_registry.origin o SET files = sha256(convert_to((
		SELECT string_agg(f.path || E'\n' || encode(f.object, 'hex'), E'\n' ORDER BY f.path)
		FROM gpucredit_registry.file f WHERE f.version = o.version), 'UTF8')) WHERE oid = '} . $first . q{'});
registry_verify($node);
done_testing();
