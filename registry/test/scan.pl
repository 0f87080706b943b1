# scan.pl: versions that wait for scanners, what these find, and what follows
#
# Packages: libcurl4-openssl-dev libmicrohttpd-dev libssl-dev libjansson-dev libpq-dev python3-yara python3-psycopg
use strict;
use warnings;
use Digest::SHA 'sha256_hex';
use FindBin;
use IPC::Run;
use JSON::PP;
use MIME::Base64;
use lib "$FindBin::RealBin/lib";
use GpuCreditRegistry;
use GpuCredit;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = registry_node('scan');
my $dir = PostgreSQL::Test::Utils::tempdir();
my $keys = 0;

sub q_ { return query($node, 'reg', $_[0]) }
sub fails { return query_fails($node, 'reg', @_) }

$node->safe_psql('reg', q{
	CREATE ROLE scanner LOGIN IN ROLE gpucredit_agent;
	CREATE ROLE vera LOGIN IN ROLE gpucredit_tenant;
	SELECT gpucredit.bind_tenant('vera', 'acme', 'vision')});

# A version of files [path, body]; its number.
sub version
{
	my ($model, @files) = @_;
	my $n = ++$keys;

	return q_(sprintf(q{SELECT version FROM gpucredit_registry.commit('acme', %s, 'main', '%s', 'c%s')},
			$model, encode_json([ map {
						{ path => $_->[0], content => encode_base64($_->[1], '') } } @files ]), $n));
}

sub report
{
	my ($version, $scanner, $verdict, $detail) = @_;

	return q_(sprintf(q{SELECT * FROM gpucredit_registry.report_scan('acme', %s, '%s', '%s', '%s')},
			$version, $scanner, $verdict, $detail // '{}'));
}

sub scans
{
	my ($version) = @_;

	return q_("SELECT string_agg(scanner || ' ' || verdict, ', ') FROM gpucredit_registry.scans('acme', $version)");
}

# The protocol, in SQL: claims, reports, doubled, late and lost ones.
q_(q{SELECT gpucredit_registry.create_model('acme', 'nlp', 'm', 'k1', 'public')});
is(scans(version(1, [ 'a', 'x' ])), '', 'without a policy nothing is scanned');
q_(q{SELECT gpucredit_registry.set_scan_policy('', '{one,two}')});
my $v = version(1, [ 'a', 'x' ], [ 'b', 'y' ]);
is(scans($v), 'one waiting, two waiting', 'a version waits for its scanners');
my $claim = q{SELECT version, scanner, jsonb_array_length(files) FROM gpucredit_registry.claim_scans(%s)};
is(q_(sprintf($claim, 1)), "$v|one|2", 'a worker claims one');
is(q_(sprintf($claim, 5)), "$v|two|2", 'another does not get it again');
is(q_(sprintf($claim, 5)), '', 'then there is nothing');
is(report($v, 'one', 'passed'), 'passed|f', 'a report');
is(report($v, 'one', 'passed'), 'passed|t', 'the same again');
is(report($v, 'one', 'noted'), 'passed|t', 'the first verdict stands');
is(report($v, 'two', 'failed', '{"found": ["a"]}'), 'failed|f', 'a scan fails');
is(report($v, 'two', 'failed', '{"found": ["a"]}'), 'failed|t', 'once');
is(report($v, 'two', 'passed'), 'failed|t', 'nobody passes it after that');
is(q_(q{SELECT of_account, kind, detail ->> 'scanner', detail #>> '{found,found,0}'
	FROM gpucredit_registry.alerts('acme')}), 'nlp|scan|two|a', 'the owner gets one alert');
is(q_(q{SELECT count(*) FROM gpucredit_registry.alerts('rival')}), '0', 'and nobody else');
is(report($v, 'one', 'failed'), 'failed|f', 'a failure that comes late counts');
is(q_(qq{SELECT released, replayed FROM gpucredit_registry.release_quarantine('acme', $v, 'a mistake', 'r1')}),
	'1|f', 'the operator releases it');
is(scans($v), 'one released, two released', 'both are seen to');
is(report($v, 'one', 'failed'), 'released|t', 'a report that is sent again does not restrict it again');
is(q_(qq{SELECT restricted_at IS NULL FROM gpucredit_registry.version WHERE version = $v}), 't', 'it is read');

my $next = version(1, [ 'c', 'z' ]);
is(q_(sprintf($claim, q{1, '{one}'})), "$next|one|3", 'a parent that did not pass is looked at again');
report($next, 'one', 'passed');
my $third = version(1, [ 'b', 'other' ], [ 'd', 'x' ]);
is(q_(sprintf($claim, q{1, '{one}'})), "$third|one|2", 'files that the parent passed with are not');
is(q_("SELECT gpucredit_registry.rescan('acme', $third, '{one}')"), '1', 'an operator has it scanned again');
is(q_(sprintf($claim, q{1, '{one}'})), "$third|one|4", 'whole');
is(q_("SELECT gpucredit_registry.rescan('acme', 1)"), '2', 'or an old one for the first time');
q_("DELETE FROM gpucredit_registry.scan WHERE version <> $third OR scanner <> 'one'");

# Workers that die, and calls that come late.
sub later { return "SET gpucredit.clock = '" . q_("SELECT now() + interval '$_[0] minutes'") . "'; " }
is(q_(later(9) . sprintf($claim, 1)), '', 'a claim holds for its lease');
is(q_(later(11) . sprintf($claim, 1)), "$third|one|4", 'then another worker gets it');
is(q_(later(12) . 'SELECT * FROM ' . "gpucredit_registry.report_scan('acme', $third, 'one', 'error')"),
	'waiting|f', 'a worker that could not look gives it back');
is(q_(later(12) . sprintf($claim, 1)), '', 'for a minute nobody gets it');
is(q_(later(20) . sprintf($claim, 1)), "$third|one|4", 'a second claim that counts');
is(q_(later(20) . "SELECT * FROM gpucredit_registry.report_scan('acme', $third, 'one', 'crashed')"),
	'waiting|f', 'the scanner died');
is(q_(later(20) . sprintf($claim, 1)), "$third|one|4", 'at once another tries');
is(q_(later(31) . sprintf($claim, 1)), '', 'after three nobody does');
is(scans($third), 'one failed', 'the scan has failed');
is(report($third, 'one', 'passed'), 'passed|f', 'a worker that was slow reports after all');
is(q_(qq{SELECT restricted_at IS NULL FROM gpucredit_registry.version WHERE version = $third}), 't',
	'and lifts the restriction');

# Workers side by side: no scan is claimed twice.
version(1, [ "f$_", $_ ]) foreach 1 .. 10;
my @pids = in_parallel(4, sub {
	my ($i) = @_;
	my $db = connect_to($node, 'reg');

	for (1 .. 5)
	{
		my $rows;

		for (1 .. 50)
		{
			$db->do('BEGIN ISOLATION LEVEL REPEATABLE READ') if $i % 2;
			$rows = eval { $db->selectall_arrayref('SELECT * FROM gpucredit_registry.claim_scans(1)') };
			my $state = $db->state;
			$db->do($rows ? 'COMMIT' : 'ROLLBACK') if $i % 2;
			last if $rows;
			die $state if $state ne '40001';
		}
		die 'nothing to claim' unless @$rows == 1;
	}
});
is(wait_for_children(@pids), 0, 'four workers claim twenty scans');
is(q_(q{SELECT max(claims), count(*) FROM gpucredit_registry.scan WHERE claims > 0 AND verdict IS NULL}),
	'1|20', 'each once');
q_(q{DELETE FROM gpucredit_registry.scan});

# Bad input, and who may do what.
fails("SELECT gpucredit_registry.$_", '22023', "refused: $_")
  foreach q{claim_scans(0)}, q{claim_scans(NULL)}, q{claim_scans(1, NULL, '0 s')}, q{set_scan_policy('', '{A}')},
  q{set_scan_policy('', '{""}')}, q{set_scan_policy(NULL, '{a}')}, q{set_scan_policy('', '{a}', '{NULL}')},
  q{report_scan('acme', 1, 'one', 'good')}, q{report_scan('acme', 1, 'one', 'passed', '[]')},
  q{report_scan('acme', 1, 'one', 'passed', jsonb_build_object('a', repeat('x', 65536)))};
fails("SELECT gpucredit_registry.$_", 'UC501', "no such scan: $_")
  foreach q{report_scan('acme', 1, 'none', 'passed')}, q{report_scan('rival', 1, 'one', 'passed')},
  q{rescan('acme', 999)}, q{scan_evidence('rival', 1)}, q{scans('rival', 1)};
fails(q{SELECT gpucredit_registry.set_scan_policy('none', '{a}')}, 'UC001', 'no such organisation');
fails("SET ROLE vera; SELECT gpucredit_registry.$_", '42501', "a tenant may not call $_")
  foreach q{claim_scans(1)}, q{report_scan('acme', 1, 'one', 'passed')}, q{rescan('acme', 1)},
  q{set_scan_policy('acme', '{}')}, q{scan_evidence('acme', 1)};
fails(q{SET ROLE vera; SELECT gpucredit_registry.scans('acme', 1)}, 'UC501',
	'nor sees what was found in another account\'s');
fails(q{SET ROLE scanner; SELECT FROM gpucredit_registry.file}, '42501', 'a scanner reads no table');

# Real files, and the scanner itself.
daemon_start($node);
my $token = registry_token($node, 'acme', 'nlp');
my $friend = registry_token($node, 'rival', '', 'read');

# Uploads and commits files [path, content] to a repository; the version.
sub push_files
{
	my ($name, $parents, @files) = @_;
	my $batch = json_request('POST', "/acme/$name.git/info/lfs/objects/batch", $token,
		{ operation => 'upload', objects => [ map {
				{ oid => sha256_hex($_->[1]), size => length($_->[1]) } } @files ] })->{json};

	foreach my $i (0 .. $#files)
	{
		my $actions = $batch->{objects}[$i]{actions} or next;

		is(request('PUT', $actions->{upload}{href}, content => $files[$i][1])->{status}, 200,
			"$name/$files[$i][0] is sent");
	}
	return json_request('POST', "/api/models/acme/$name/commit/main", $token, join("\n",
			encode_json({ key => 'header', value => { summary => 'x', parents => $parents } }),
			map { encode_json({ key => 'lfsFile', value => { path => $_->[0],
						oid => sha256_hex($_->[1]), size => length($_->[1]), algo => 'sha256' } })
			} @files))->{json}{version};
}

sub make_model
{
	my ($name, $license) = @_;

	return q_(sprintf(q{SELECT model FROM gpucredit_registry.create_model('acme', 'nlp', '%s', 'm%s',
		'public', '%s')}, $name, ++$keys, $license // 'mit'));
}

# The scanner's command.
sub scanner
{
	return ('/usr/bin/python3', "$FindBin::RealBin/../scan/registry-scan", '--hub', daemon_url(''), '--database',
		sprintf('host=%s port=%s dbname=reg user=scanner', $node->host, $node->port));
}

# Runs the scanner until nothing waits.
sub scan
{
	my (@options) = @_;
	my $out = '';

	ok(IPC::Run::run([ scanner(), '--once', @options ], '>&', \$out, IPC::Run::timeout(300)), 'scanned')
	  || diag($out);
	return $out;
}

sub content
{
	my ($seed, $size) = @_;
	my $text = '';

	srand($seed);
	$text .= pack('L', rand(2**32)) while length($text) < $size;
	return $text;
}

# A Python program's output.
sub python
{
	my ($program) = @_;
	my $out = '';

	IPC::Run::run([ '/usr/bin/python3', '-c', $program ], '>', \$out) or die 'python failed';
	return $out;
}

# A file that a Python program makes of archives, in "out".
sub archived
{
	my ($program) = @_;

	return python('import bz2, gzip, io, lzma, os, pickle, sys, tarfile, zipfile
class E:
	def __reduce__(self): return (os.system, ("id",))
call = pickle.dumps(E())
eicar = rb"X5O!P%@AP[4\PZX54(P^)7CC)7}" + b"$EICAR-STANDARD-ANTIVIRUS-TEST-FILE!$H+H*"
def zipped(name, data):
	b = io.BytesIO()
	with zipfile.ZipFile(b, "w", zipfile.ZIP_DEFLATED) as z: z.writestr(name, data)
	return b.getvalue()
def add(t, name, data):
	i = tarfile.TarInfo(name); i.size = len(data); t.addfile(i, io.BytesIO(data))
torch = zipped("archive/data.pkl", call)
' . $program . '
sys.stdout.buffer.write(out)');
}

q_(q{SELECT gpucredit_registry.set_scan_policy('acme', '{yara,pickle,license,fingerprint}', '{mit,apache-2.0}')});
my $weights = content(1, 2_000_000);
my %bad = (
	'call.pkl' => python('import os, pickle, sys
class E:
	def __reduce__(self): return (os.system, ("id",))
sys.stdout.buffer.write(pickle.dumps(E()))'),
	'torch.bin' => python('import io, os, pickle, sys, zipfile
class E:
	def __reduce__(self): return (eval, ("1",))
b = io.BytesIO()
with zipfile.ZipFile(b, "w") as z: z.writestr("archive/data.pkl", pickle.dumps(E(), 2))
sys.stdout.buffer.write(b.getvalue())'),
	'bomb.pt' => python('import io, sys, zipfile
b = io.BytesIO()
with zipfile.ZipFile(b, "w", zipfile.ZIP_DEFLATED) as z:
	with z.open("archive/data.pkl", "w", force_zip64=True) as f:
		for _ in range(130): f.write(bytes(1 << 20))
sys.stdout.buffer.write(b.getvalue())'),
	'weights.nemo' => archived('tar = io.BytesIO()
with tarfile.open(fileobj=tar, mode="w") as t: add(t, "model_config.yaml", b"a: 1"); add(t, "model_weights.ckpt", torch)
out = tar.getvalue()'),
	'packed.tar.gz' => archived('tar = io.BytesIO()
with tarfile.open(fileobj=tar, mode="w:gz") as t: add(t, "a/b.pkl", call)
out = tar.getvalue()'),
	'nested.zip' => archived('out = zipped("inner", zipped("x/data.pkl", call))'),
	'prefix.png' => archived('out = b"\x89PNG" + bytes(5000) + zipped("data.pkl", call)'),
	'renamed.pt' => archived('out = zipped("archive/data/0", call)'),
	'pickle.pkl.xz' => archived('out = lzma.compress(call)'),
	'deep.zip' => archived('out = call
for _ in range(7): out = zipped("data.pkl", out)'),
	'secret.zip' => archived('out = bytearray(zipped("data.pkl", call)); out[6] |= 1; out[out.rfind(b"PK\x01\x02") + 8] |= 1'),
	'virus.zip' => archived('out = zipped("in/readme.txt", zipped("y", b"x" * 500 + eicar))'),
	'escape.tar' => archived('tar = io.BytesIO()
with tarfile.open(fileobj=tar, mode="w") as t: add(t, "\\\\u0000.pkl", call)
out = tar.getvalue()'),
	'computed.pkl' => "\x80\x04N\x8c\x06system\x93.",
	'early.pkl' => "cos\nsystem\n\xff",
	'huge.pkl' => "\x80\x04\x8e" . pack('Q<', 1 << 62),
	'window.bin' => ('x' x 8_388_600) . 'X5O!P%@AP[4\PZX54(P^)7CC)7}$EICAR-STANDARD-ANTIVIRUS-TEST-FILE!$H+H*' . 'x' x 100);
my %good = (
	'fine.nemo' => archived('tar = io.BytesIO()
with tarfile.open(fileobj=tar, mode="w") as t: add(t, "model_weights.ckpt", zipped("archive/data.pkl", pickle.dumps({"a": 1}))); add(t, "tokens.txt", b"a")
out = tar.getvalue()'),
	'logs.tar.gz' => archived('tar = io.BytesIO()
with tarfile.open(fileobj=tar, mode="w:gz") as t: add(t, "log.txt", b"line\n" * 1000)
out = tar.getvalue()'),
	'deep.pkl' => '(' x 100_000 . '0' x 100_000 . 'N.',
	'many.pkl' => "\x80\x04" . 'N0' x 500_000 . 'N.',
	'raw.bin' => $weights,
	'text.md' => "cos\nsystem\n");
my %version;
foreach my $name (sort keys %bad)
{
	make_model("bad-$name");
	$version{$name} = push_files("bad-$name", [], [ $name, $bad{$name} ]);
}
make_model('good');
my $good = push_files('good', [], map { [ $_, $good{$_} ] } sort keys %good);
make_model('gpl', 'gpl-3.0');
my $gpl = push_files('gpl', [], [ 'w.bin', $weights ]);
my $egress = q_(q{SELECT count(*) FROM gpucredit_registry.egress});
is(archived(sprintf('sys.path.insert(0, "%s")
import registry_archive, registry_pickle
registry_archive.MAX_MEMBERS, registry_archive.MAX_UNPACKED = 10, 1 << 20
many = io.BytesIO()
with zipfile.ZipFile(many, "w") as z:
	for i in range(11): z.writestr(str(i), b"")
tar = io.BytesIO()
with tarfile.open(fileobj=tar, mode="w") as t: add(t, "a", bytes(2 << 20)); add(t, "b.pkl", call)
sparse = tarfile.TarInfo("s"); sparse.size = 1 << 40
out = b""
for data in many.getvalue(), gzip.compress(tar.getvalue()), zipped("a.tar.xz", lzma.compress(tar.getvalue())), tar.getvalue(), gzip.compress(sparse.tobuf()):
	look = registry_pickle.Look()
	look.look("f", io.BytesIO(data), len(data))
	out += "".join(look.findings + look.notes).encode() + b"\n"', "$FindBin::RealBin/../scan")), <<'OUT', 'an archive has bounds, whose bytes are not unpacked beyond them');
f: is too much to look at: more than 10 members
f: is too much to look at: archives that unpack to 50 times their size
f/a.tar.xz: is too much to look at: archives that unpack to 50 times their size
f/b.pkl: calls posix.system
f: cannot be looked into: unexpected end of data
OUT
scan();
like(scans($version{$_}), /^(window|virus)/ ? qr/yara failed/ : qr/pickle failed/, "$_ fails")
  foreach sort keys %bad;
is(scans($good), 'fingerprint passed, license passed, pickle passed, yara passed',
	'what is harmless passes, however deep and long');
is(scans($gpl), 'fingerprint passed, license failed, pickle passed, yara passed', 'a licence is not allowed');
is(q_(q{SELECT count(*) FROM gpucredit_registry.egress}), $egress, 'what a scanner reads nobody pays');
like(q_(q{SELECT detail ->> 'found' FROM gpucredit_registry.alerts('acme') WHERE detail ->> 'scanner' = 'pickle'}),
	qr/call\.pkl: calls posix\.system/, 'the alert names what it calls');

# Fingerprints: what was made from a version in quarantine, and does not say so.
make_model($_) foreach qw(base poison hidden kin claims);
my $base = push_files('base', [], [ 'w', $weights ]);
my $poison = push_files('poison', [ { org => 'acme', version => $base } ],
	[ 'w', substr($weights, 0, 1_000_000) . content(2, 1_000_000) ]);
q_("SELECT gpucredit_registry.quarantine('acme', $poison, 'backdoor', 'q1')");
my $hidden = push_files('hidden', [], [ 'w', 'new header' . content(2, 1_000_000) ]);
my $kin = push_files('kin', [ { org => 'acme', version => $base } ], [ 'w', $weights . 'more' ]);
my $claims = push_files('claims', [ { org => 'acme', version => $base } ], [ 'w', content(3, 500_000) ]);
scan();
like(scans($hidden), qr/fingerprint failed/, 'what hides its poisoned parent is found by its chunks');
like(scans($kin), qr/fingerprint passed/, 'a kin of the poisoned one, by a clean base, is not blamed');
like(scans($claims), qr/fingerprint noted/, 'a parent that shares nothing is noted');
is(q_("SELECT restricted_at IS NULL FROM gpucredit_registry.version WHERE version = $claims"), 't',
	'which restricts nothing');

# Restricted: an account with an explicit grant that downloaded it before still
# reads it.
my $model = make_model('shared');
my $shared = push_files('shared', [], [ 'w', $weights ], [ 'x', 'unread' x 100 ]);
scan();
my $url = '/acme/shared/resolve/main/w';
my $batch = sub {
	return json_request('POST', '/acme/shared.git/info/lfs/objects/batch', $_[0], { operation => 'download',
			objects => [ { oid => sha256_hex($weights), size => length $weights } ] })->{json}{objects}[0] };
q_("SELECT gpucredit_registry.grant_access('acme', $model, 'org:rival', 'read')");
is(request('GET', $url, token => $friend)->{status}, 200, 'a friend downloads it');
my $stranger = registry_token($node, 'acme', 'vision');
is(request('GET', $url, token => $stranger)->{status}, 200, 'as anybody may');
my $signed = $batch->($stranger)->{actions}{download}{href};
q_("SELECT gpucredit_registry.rescan('acme', $shared, '{yara}')");
report($shared, 'yara', 'failed', '{"found": ["bad"]}');
is(request('GET', $url, token => $friend)->{status}, 200, 'restricted: the friend goes on');
is($batch->($friend)->{error}, undef, 'by git-lfs, too');
my $refused = request('GET', $url, token => $stranger);
is($refused->{status}, 403, 'who has no explicit grant does not, though it has downloaded it');
is($refused->{headers}{'x-error-code'}, 'Restricted', 'with the reason');
is(request('GET', $url)->{status}, 403, 'nor anybody else');
is(request('GET', $signed)->{status}, 403, 'nor by a URL that was signed before');
is($batch->($stranger)->{error}{code}, 403, 'nor by a new one');
is(json_request('POST', '/acme/base.git/info/lfs/objects/batch', $token, { operation => 'download',
		objects => [ { oid => sha256_hex('unread' x 100), size => 600 } ] })->{json}{objects}[0]{error}{code}, 403,
	'nor by way of another repository');
is(request('GET', '/acme/shared/resolve/main/x', token => $friend)->{status}, 403,
	'nor does the friend get what it has not downloaded yet');
is(request('GET', $url, token => $token)->{status}, 403, 'the owner, who never downloaded it, is protected, too');
is(q_(sprintf(q{SELECT status, reason FROM gpucredit_registry.open_download('acme', %s, 'w',
	'account:acme/vision', 10)}, $shared)), 'denied|restricted', 'the application gets the same answer');
q_("SELECT gpucredit_registry.revoke_access('acme', $model, 'org:rival')");
is(request('GET', $url, token => $friend)->{status}, 403, 'once the grant is gone the friend stops');
is(q_(qq{SELECT count(*) FROM gpucredit_registry.file WHERE version = $shared}), '2', 'nothing is deleted');

# A policy may make readers wait.
q_(q{SELECT gpucredit_registry.set_scan_policy('acme', '{yara}', hold => true)});
make_model('held');
push_files('held', [], [ 'w', $weights ]);
is(request('GET', '/acme/held/resolve/main/w')->{headers}{'x-error-code'}, 'ScanPending',
	'until it is scanned nobody reads it');
is(request('GET', '/acme/held/resolve/main/w', token => $token)->{status}, 200, 'but who may write');
daemon_kill();
scan();
is(q_(q{SELECT claims FROM gpucredit_registry.scan WHERE verdict IS NULL}), '0',
	'without registryd a scanner waits, which does not count');
daemon_start($node);
q_(q{UPDATE gpucredit_registry.scan SET claimed_until = NULL WHERE verdict IS NULL});
scan('--memory', 1 << 20);
is(q_(q{SELECT verdict FROM gpucredit_registry.scans('acme', (SELECT max(version) FROM gpucredit_registry.scan))}),
	'failed', 'a scan that kills three scanners has failed');
my $newest = '(SELECT max(version) FROM gpucredit_registry.scan)';
q_("SELECT gpucredit_registry.rescan('acme', $newest)");
my $worker = IPC::Run::start([ scanner() ], '>', '/dev/null', '2>&1');
$node->poll_query_until('reg', "SELECT claims = 1 FROM gpucredit_registry.scan WHERE version = $newest");
$worker->kill_kill(grace => 0);
q_('UPDATE gpucredit_registry.scan SET claimed_until = gpucredit.now() WHERE verdict IS NULL');
scan();
is(scans($newest), 'yara passed', 'a worker is killed, and another does its work');
q_(q{SELECT gpucredit_registry.rescan('acme', (SELECT max(version) FROM gpucredit_registry.scan))});
scan();
is(request('GET', '/acme/held/resolve/main/w')->{status}, 200, 'then everybody does');
cmp_ok(q_(q{SELECT count(*) FROM (SELECT kind FROM gpucredit.event_pending UNION ALL SELECT kind FROM gpucredit.event) e
	WHERE kind = 'model.restricted'}), '>', 0, 'those who follow events hear of versions that failed');
registry_verify($node);
done_testing();
