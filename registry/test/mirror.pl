# mirror.pl: repositories that follow those of another registry, and remotes that lie
#
# Packages: libcurl4-openssl-dev libmicrohttpd-dev libssl-dev libjansson-dev libpq-dev python3-cryptography python3-psycopg
use strict;
use warnings;
use Digest::SHA 'sha256_hex';
use FindBin;
use HTTP::Tiny;
use IPC::Run;
use JSON::PP;
use MIME::Base64;
use lib "$FindBin::RealBin/lib";
use GpuCreditRegistry;
use GpuCreditFederation;
use GpuCredit;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes 'sleep';

my $node = registry_node('mirror');
my $dir = PostgreSQL::Test::Utils::tempdir();

daemon_start($node);
far_start($node);
$node->safe_psql('reg', q{
	CREATE ROLE worker LOGIN IN ROLE gpucredit_registry_mirror;
	CREATE ROLE vera LOGIN IN ROLE gpucredit_tenant;
	CREATE ROLE nils LOGIN IN ROLE gpucredit_tenant;
	SELECT gpucredit.bind_tenant('vera', 'acme', 'vision'), gpucredit.bind_tenant('nils', 'acme', 'nlp');
	SELECT gpucredit_registry.create_model('acme', 'vision', 'm', 'k1'),
		gpucredit_registry.create_model('acme', 'vision', 'hub', 'k2'),
		gpucredit_registry.create_model('rival', '', 'r', 'k3')});
my $token = registry_token($node, 'acme', 'vision');
my $far_token = $node->safe_psql('far', q{SELECT gpucredit_registry.issue_token('acme', 'lab', 'write')});
my $far_reader = $node->safe_psql('far', q{SELECT gpucredit_registry.issue_token('acme', 'lab', 'read')});

# A stub of the Hub, and the operator's file of remotes.
my $port = PostgreSQL::Test::Cluster::get_free_port();
my $secret = 'hf_secretOfTheHub';
my %hub = (token => $secret, refs => { branches => {}, tags => {} }, commits => {}, faults => {});
write_file("$dir/far.token", "$far_reader\n", 0600);
write_file("$dir/hub.token", "$secret\n", 0600);
save_hub();
write_file("$dir/log", '');
my $stub = IPC::Run::start([ '/usr/bin/python3', "$FindBin::RealBin/lib/hub_stub.py", $port,
		"$dir/state", "$dir/log" ], '>&', "$dir/stub.log");

END
{
	my $status = $?;

	$stub->kill_kill(grace => 0) if $stub;
	stop_worker();
	$? = $status;
}
for (1 .. 600)
{
	last if HTTP::Tiny->new(timeout => 5)->get("http://127.0.0.1:$port/")->{status} != 599;
	sleep 0.1;
}
my @here = ('127.0.0.0/8', '::1/128');
my %remotes = (
	far => { url => far_url(''), token_file => "$dir/far.token", organisations => ['acme'], networks => \@here },
	hub => { url => "http://127.0.0.1:$port", token_file => "$dir/hub.token", organisations => ['acme'],
		networks => \@here },
	strict => { url => "http://127.0.0.1:$port", organisations => ['*'] });
write_file("$dir/remotes", encode_json(\%remotes));

sub save_hub
{
	write_file("$dir/state.new", encode_json(\%hub));
	rename "$dir/state.new", "$dir/state" or die $!;
	return;
}

sub text { return { data => encode_base64($_[0], '') } }

# A commit of the stub: its parent and files; its oid. It is on main.
my $commits = 0;
sub hub_commit
{
	my ($parent, %files) = @_;
	my $oid = sprintf '%040x', 0xabc0000 + ++$commits;

	$hub{commits}{$oid} = { parent => $parent, files => \%files };
	$hub{refs}{branches}{main} = $oid;
	save_hub();
	return $oid;
}

sub worker
{
	my (@options) = @_;

	return mirror_program(daemon_url(''), 'work', '--database', database_of('reg', 'worker'),
		'--remotes', "$dir/remotes", @options);
}

# A worker that goes on, and what it printed.
my ($running, $printed);

sub stop_worker
{
	$running->kill_kill(grace => 0) if $running;
	undef $running;
	return;
}

# The mirror of a repository that is due has its turn; what the worker printed.
sub mirror_now
{
	my ($name) = @_;
	my $end = qr/^\w+\/$name: (synced|failing|waiting|the claim)/m;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	$printed = '';
	$running //= IPC::Run::start([ worker('--poll', '0.1') ], '>', \$printed, '2>', "$dir/worker.err");
	for (1 .. 2400)
	{
		$running->pump_nb;
		last if $printed =~ $end;
		sleep 0.05;
	}
	like($printed, $end, 'it has its turn') or diag slurp_file("$dir/worker.err");
	return $printed;
}

# What a worker prints that ends when nothing waits.
sub once
{
	my $out = '';

	stop_worker();
	IPC::Run::run([ worker('--once') ], '>&', \$out, IPC::Run::timeout(300));
	is($?, 0, 'the worker ends well') or diag $out;
	return $out;
}

sub hub_mirror
{
	my ($arguments) = @_;

	return here_sql("SELECT gpucredit_registry.set_mirror('acme', 2, 'hub', 'org/model'" . ($arguments // '') . ')');
}

sub mirror_state
{
	my ($model) = @_;

	return here_sql("SELECT state FROM gpucredit_registry.mirrors('acme') WHERE model = $model");
}

# All that a mirror changes.
sub everything
{
	return here_sql(q{SELECT (SELECT count(*) FROM gpucredit_registry.version),
		(SELECT count(*) FROM gpucredit_registry.origin), (SELECT count(*) FROM gpucredit_registry.object),
		(SELECT string_agg(model || ref || version || tag, ',' ORDER BY model, ref) FROM gpucredit_registry.ref),
		(SELECT string_agg(model || ref || oid || gone, ',' ORDER BY model, ref) FROM gpucredit_registry.mirror_ref)});
}

# Another registry of our own kind.
my $weights = content_of(1, 3 << 20);
my $card = "---\nlicense: mit\n---\n# M\n";
my $first = push_version($far_token, 'm', 'main', title => 'first',
	lfs => { 'w/model.safetensors' => $weights }, text => { 'README.md' => $card, 'empty.txt' => '' });
json_request('POST', far_url('/api/models/acme/m/tag/main'), $far_token, { tag => 'v1' });
json_request('POST', far_url('/api/models/acme/m/branch/other'), $far_token, {});
$node->safe_psql('reg', q{SELECT gpucredit_registry.set_mirror('acme', 1, 'far', 'acme/m', '{main,v*}')},
	connstr => database_of('reg', 'vera'));
is(mirror_state(1), 'new', 'an owner has his repository follow another');
like(mirror_now('m'), qr/m: synced/, 'a worker brings it');
is(mirror_state(1), 'synced', 'it is as there');
ok(read_here('/acme/m/resolve/main/w/model.safetensors', $token) eq $weights, 'its bytes are here');
is(read_here("/acme/m/resolve/$first/README.md", $token), $card, 'by the oid that it has there');
is(read_here('/acme/m/resolve/v1/empty.txt', $token), '', 'by its tag, an empty file, too');
is(read_here('/acme/m/resolve/other/README.md', $token), 'status 404', 'other branches stay there');
is(read_here('/acme/m/resolve/main/README.md'), 'status 401', 'its rights are this registry\'s');
is(here_sql(q{SELECT source, repository, detail ->> 'title', detail ->> 'license'
	FROM gpucredit_registry.origins('acme', 1)}), 'far|acme/m|first|mit', 'it is known where it comes from');
is(here_sql(q{SELECT caller, detail ->> 'source' FROM gpucredit_registry.event WHERE operation = 'receive_version'}),
	'mirror:far|far', 'the audit log says so');
is(here_sql(q{SELECT count(DISTINCT caller) FROM gpucredit_registry.sender WHERE caller = 'account:acme/vision'}),
	'1', 'its account sent the bytes');
ok($node->poll_query_until('far', q{SELECT count(*) = 3 AND bool_and(client = 'account:acme/lab')
	FROM gpucredit_registry.download}), 'and the far registry knows who read them');

my $before = everything();
is(once(), '', 'before its time nobody looks');
here_sql(q{SELECT gpucredit_registry.set_mirror('acme', 1, 'far', 'acme/m', '{main,v*}')});
like(mirror_now('m'), qr/m: synced/, 'the same again has it look');
is(everything(), $before, 'and changes nothing');

# What follows is the mirror's alone.
query_fails($node, 'reg', q{SELECT gpucredit_registry.commit('acme', 1, 'main', '[{"path": "x", "content": "eA=="}]', 'c1')},
	'42501', 'nobody commits to a branch that follows');
is(json_request('DELETE', '/api/models/acme/m/tag/v1', $token)->{status}, 403, 'nor deletes such a tag');
is(here_sql(q{SELECT status FROM gpucredit_registry.commit('acme', 1, 'ours', '[{"path": "x", "content": "eA=="}]', 'c2')}),
	'committed', 'but other branches are ours');
my $second = push_version($far_token, 'm', 'main', lfs => { 'w/model.safetensors' => content_of(2, 3 << 20) },
	delete => ['empty.txt'], title => 'second');
json_request('DELETE', far_url('/api/models/acme/m/tag/v1'), $far_token);
here_sql(q{UPDATE gpucredit_registry.mirror SET due_at = now()});
mirror_now('m');
is(read_here('/acme/m/resolve/main/empty.txt', $token), 'status 404', 'what was deleted there is gone');
is(read_here("/acme/m/resolve/$second/README.md", $token), $card, 'what stayed is here');
is(here_sql(q{SELECT refs #>> '{v1,gone}', refs #>> '{main,gone}' FROM gpucredit_registry.mirrors('acme') WHERE model = 1}),
	'true|false', 'a tag that the remote removed is known to be gone');
is(read_here('/acme/m/resolve/v1/README.md', $token), $card, 'and stays');
my $version = far_sql(q{SELECT version FROM gpucredit_registry.ref WHERE model = 1 AND ref = 'main'});
far_sql("SELECT gpucredit_registry.quarantine('acme', $version, 'poisoned', 'q1')");
here_sql(q{UPDATE gpucredit_registry.mirror SET due_at = now()});
like(mirror_now('m'), qr/quarantine/, 'a version that the remote puts into quarantine');
is(mirror_state(1), 'failing', 'makes the mirror fail');
is(here_sql(q{SELECT kind, of_account, detail ->> 'name' FROM gpucredit_registry.alerts('acme') WHERE kind = 'mirror'}),
	'mirror|vision|m', 'and its owner gets an alert');
ok(here_sql('SELECT gpucredit_registry.delete_mirror(\'acme\', 1)') eq 't', 'a mirror is ended');
is(here_sql(q{SELECT status FROM gpucredit_registry.commit('acme', 1, 'main', '[{"path": "x", "content": "eA=="}]', 'c3')}),
	'committed', 'then its branches are ours');
query_fails($node, 'reg', q{SELECT gpucredit_registry.set_mirror('acme', 99, 'far', 'acme/m')}, 'UC501', 'no such repository');

# The Hub's API.
my %model = ('README.md' => text($card), 'config.json' => text('{}'), 'notes.txt' => text("n\n" x 600000),
	'empty' => text(''), 'model.bin' => { seed => 'one', size => 5 << 20, lfs => JSON::PP::true },
	'sub/tokenizer.json' => { seed => 'two', size => 100000, lfs => JSON::PP::true });
my $hub_first = hub_commit(undef, %model);
$hub{refs}{tags}{'v1.0'} = $hub_first;
save_hub();
# A pattern that regular expressions of many kinds would need years for.
hub_mirror(q{, ARRAY['main', 'v*', repeat('*', 99) || 'b']});
$hub{refs}{tags}{'a' x 200} = $hub_first;
save_hub();
like(mirror_now('hub'), qr/hub: synced/, 'a repository of the Hub');
delete $hub{refs}{tags}{'a' x 200};
save_hub();
is(sha256_hex(read_here("/acme/hub/resolve/$hub_first/notes.txt", $token)), sha256_hex("n\n" x 600000),
	'its text is here, also if it is long');
is(length read_here('/acme/hub/resolve/main/model.bin', $token), 5 << 20, 'and what LFS keeps there');
is(read_here('/acme/hub/resolve/v1.0/README.md', $token), $card, 'by its tag');
is(read_here('/acme/hub/resolve/main/empty', $token), '', 'and an empty file');
is(here_sql(q{SELECT detail ->> 'title', detail ->> 'author', repository FROM gpucredit_registry.origins('acme', 2)}),
	'of the hub|ada|org/model', 'with its commit\'s title and author');
is(here_sql(q{SELECT fields #>> '{license,0}' FROM gpucredit_registry.model WHERE model = 2}), 'mit', 'its card is read');
my @log = map { decode_json($_) } split /\n/, slurp_file("$dir/log");
is(scalar(grep { $_->{path} =~ m{^/cdn/} && defined $_->{token} } @log), 0, 'the CDN got no token');
cmp_ok(scalar(grep { $_->{path} =~ m{^/cdn/} && $_->{host} =~ /^localhost/ } @log), '>', 1, 'but requests');
is(here_sql(sprintf(q{SELECT count(*) FROM gpucredit_registry.mirror m, gpucredit_registry.event e
	WHERE m::text || e::text LIKE '%%%s%%'}, $secret)), '0', 'the database has no token');

# A version costs what it changes.
my $lines = @log;
my $hub_second = hub_commit($hub_first, %model, 'more.txt' => text('more'));
hub_mirror();
mirror_now('hub');
@log = map { decode_json($_) } split /\n/, slurp_file("$dir/log");
is(scalar(grep { $_->{path} =~ m{^/cdn/} } @log[$lines .. $#log]), 0, 'what is here does not come again');
is(read_here('/acme/hub/resolve/main/more.txt', $token), 'more', 'what is new does');

# Rewritten history.
my $rewritten = hub_commit(undef, 'README.md' => text('other'));
hub_mirror();
like(mirror_now('hub'), qr/main was rewritten/, 'a branch whose history was replaced');
is(read_here('/acme/hub/resolve/main/more.txt', $token), 'more', 'is not followed');
delete $hub{refs}{branches}{main};
save_hub();
hub_mirror();
like(mirror_now('hub'), qr/no such ref/, 'nor where it was deleted before');
$hub{refs}{branches}{main} = $rewritten;
save_hub();
hub_mirror();
like(mirror_now('hub'), qr/main was rewritten/, 'and made anew');
hub_mirror(q{, '{main}', '1 hour', true});
like(mirror_now('hub'), qr/hub: synced/, 'unless its owner says so');
is(read_here('/acme/hub/resolve/main/README.md', $token), 'other', 'then it is as there');
is(read_here("/acme/hub/resolve/$hub_second/more.txt", $token), 'more', 'the earlier version stays');
$hub{refs}{branches}{main} = $hub_second;
save_hub();
hub_mirror(q{, '{main}', '1 hour', true});
mirror_now('hub');
is(read_here('/acme/hub/resolve/main/more.txt', $token), 'more', 'a version that came before comes back');

# Remotes that lie. Nothing of it is seen.
my $lie = 0;
sub lies
{
	my ($name, $pattern, %faults) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $files = delete $faults{files} // { 'big.bin' => { seed => "lie $name", size => 300000,
			lfs => JSON::PP::true }, 'a.txt' => text('a') };

	delete $hub{refs}{branches};
	hub_commit($hub_second, %$files);
	$hub{faults} = \%faults;
	save_hub();
	$before = here_sql('SELECT count(*), max(version) FROM gpucredit_registry.version')
	  . here_sql('SELECT * FROM gpucredit_registry.ref WHERE model = 2');
	hub_mirror();
	like(mirror_now('hub'), $pattern, "$name: is said");
	is(here_sql('SELECT count(*), max(version) FROM gpucredit_registry.version')
		  . here_sql('SELECT * FROM gpucredit_registry.ref WHERE model = 2'), $before, "$name: nothing came");
	is(mirror_state(2), 'failing', "$name: it will be tried again");
	$hub{faults} = {};
	save_hub();
	return;
}

my $oid40 = '1' x 40;
my $none = qr/no address that may be connected to/;
lies('other bytes', qr/registryd answers \d+/, cdn => 'wrong');
lies('fewer bytes', qr/299999|another range|bytes came/, cdn => 'short');
lies('more bytes', qr/more than the announced|another range/, cdn => 'long');
lies('an encoding', qr/encoding/, cdn => 'gzip');
lies('bytes without end', qr/more than the announced/, cdn => 'endless');
lies('other text', qr/not the digest/, text => 'b');
lies('another commit', qr/sends a file of commit/, commit => $oid40);
lies('the metadata service', $none, redirect => 'http://169.254.169.254/latest/meta-data');
lies('a private address', $none, redirect => 'http://10.0.0.1/');
lies('a mapped address', $none, redirect => 'http://[::ffff:192.168.1.1]/');
lies('no address', $none, redirect => 'http://0.0.0.0/');
lies('a file', qr/not HTTP's/, redirect => 'file:///etc/passwd');
lies('itself', qr/redirects without end/, redirect => "http://127.0.0.1:$port/org/model/resolve/"
	  . sprintf('%040x', 0xabc0000 + $commits + 1) . '/big.bin');
lies('a next page elsewhere', qr/elsewhere/, next => 'http://localhost:1/');
lies('pages without end', qr/malformed way/, tree => [], next => "http://127.0.0.1:$port/api/models/org/model/tree/$hub_first");
lies('malformed entries', qr/malformed file/, tree => [ { type => 'file', path => 'a', size => '1', oid => $oid40 } ]);
lies('no digest', qr/without a digest/, tree => [ { type => 'file', path => 'a', size => 1 } ]);
lies('a huge text', qr/no SHA-256/, tree => [ { type => 'file', path => 'a', size => 1 << 30, oid => $oid40 } ]);
lies('no list', qr/malformed way/, tree => [], next => "http://127.0.0.1:$port/api/models/org/model/refs");
lies('a long answer', qr/too long/, refs => { branches => [ { name => 'x' x (17 << 20) } ] });
lies('a malformed ref', qr/malformed ref/, refs => { branches => [ { name => 'main', targetCommit => '../..' } ] });
foreach my $path ('../up', '/root', '.git/config', 'a//b', "line\nbreak", 'nul\u0000')
{
	lies("the path " . ($path =~ s/\n/ /r), qr/malformed/,
		files => { 'a.txt' => text('a'), ($path eq 'nul\u0000' ? "nul\0" : $path) => text('x') });
}
lies('twins of case', qr/case of letters/, files => { 'A.txt' => text('a'), 'a.txt' => text('b') });
lies('a file that is a folder', qr/file and a folder/, files => { 'a' => text('a'), 'a/b' => text('b') });
{
	my $bad = sha256_hex('bad');

	here_sql("SELECT gpucredit_registry.import_fingerprints('feed', '$bad bad')");
	lies('a known bad file', qr/known to be bad/, files => { 'x.txt' => text('bad') });
	here_sql("SELECT gpucredit_registry.delete_fingerprints('feed')");
}
here_sql(q{SELECT gpucredit_registry.set_storage_quota('acme', 0)});
lies('a quota that is used', qr/storage_quota/);
here_sql(q{SELECT gpucredit_registry.set_storage_quota('acme', NULL)});
$hub{commits}{$hub_second}{files}{'more.txt'} = text('changed');
here_sql(q{SELECT gpucredit_registry.set_mirror('acme', 2, 'hub', 'org/model', '{again}')});
$hub{refs}{branches} = { again => $hub_second };
save_hub();
like(mirror_now('hub'), qr/has other files/, 'a commit that has other files now');
is(read_here("/acme/hub/resolve/$hub_second/more.txt", $token), 'more', 'what is here stays');
delete $hub{refs}{branches}{again};
$hub{commits}{$hub_second}{files}{'more.txt'} = text('more');
save_hub();

# Who may use a remote, and where it may lead.
here_sql(q{SELECT gpucredit_registry.set_mirror('rival', 3, 'hub', 'org/model')});
like(mirror_now('r'), qr/does not let the organisation/, 'another organisation does not use the token');
here_sql(q{SELECT gpucredit_registry.set_mirror('rival', 3, 'strict', 'org/model')});
like(mirror_now('r'), $none, 'private addresses are for the operator to name');
here_sql(q{SELECT gpucredit_registry.set_mirror('rival', 3, 'nobody', 'org/model')});
is(once(), '', 'a remote that the operator does not name is left alone');
here_sql(q{SELECT gpucredit_registry.delete_mirror('rival', 3)});
stop_worker();
chmod 0644, "$dir/hub.token";
IPC::Run::run([ worker('--once') ], '>&', \my $told);
like($told, qr/others may read .*hub\.token/, 'a token that others may read is not used');
chmod 0600, "$dir/hub.token";

# Rights.
sub as { return sqlstate_of($node, 'reg', "SET SESSION AUTHORIZATION $_[0]; $_[1]") }
my $set = q{SELECT gpucredit_registry.set_mirror('acme', 2, 'hub', 'org/model'%s)};
is(as('vera', sprintf($set, q{, '{none}'})), '', 'an owner may');
is(as('nils', sprintf $set, ''), 'UC501', 'another account may not');
is(as('nils', q{SELECT gpucredit_registry.delete_mirror('acme', 2)}), 'UC501', 'nor end it');
is(as('nils', q{SELECT * FROM gpucredit_registry.origins('acme', 2)}), 'UC501', 'nor see where it comes from');
is(as('nils', q{SELECT * FROM gpucredit_registry.mirrors('acme')}), 'UC001', 'nor whom it follows');
foreach my $call (q{SELECT gpucredit_registry.claim_mirror('{hub}')},
	q{SELECT gpucredit_registry.import_version('acme', 2, 's', 'a/b', repeat('0', 40), '[]')},
	q{SELECT gpucredit_registry.import_object('acme', 2, repeat('0', 64), 1)},
	q{SELECT gpucredit_registry.import_refs('acme', 2, 's', now(), '[]')})
{
	is(as('vera', $call), '42501', 'a tenant does not say where his versions come from');
}
is(as('worker', $_), '42501', 'a worker does what claims allow, and nothing else')
  foreach sprintf($set, ''), q{SELECT gpucredit_registry.import_object('acme', 2, repeat('0', 64), 1)},
  q{SELECT * FROM gpucredit_registry.mirror}, q{SELECT gpucredit_registry.issue_token('acme', '')};
is(as('worker', $_), 'UC501', 'a claim is not guessed') foreach
  q{SELECT gpucredit_registry.mirror_object(gen_random_uuid(), repeat('0', 64), 1)},
  q{SELECT gpucredit_registry.extend_mirror(NULL)},
  q{SELECT gpucredit_registry.mirror_version(gen_random_uuid(), 'main', false, repeat('0', 40), '[]', '{}', false)},
  q{SELECT gpucredit_registry.report_mirror(gen_random_uuid())};
my $claim = sub { return here_sql(q{SELECT claim FROM gpucredit_registry.claim_mirror('{hub}')}) };
here_sql(sprintf $set, '');
my $mine = $claim->();
isnt($mine, '', 'a worker claims a mirror');
is($claim->(), '', 'another does not get it');
is(as('worker', "SELECT gpucredit_registry.mirror_version('$mine', $_)"), '22023', 'bad input')
  foreach q{'other', false, repeat('0', 40), '[]', '{}', false}, q{'main', false, 'x', '[]', '{}', false},
  q{'main', NULL, repeat('0', 40), '[]', '{}', false}, q{'main', false, repeat('0', 40), '{}', '{}', false},
  q{'main', false, repeat('0', 40), '[{}]', '{}', false}, q{'main', false, repeat('0', 40), '[]', '[]', false},
  sprintf(q{'main', false, repeat('0', 40), '[{"path": "a", "sha256": "%s", "content": "eA=="}]', '{}', false}, '0' x 64);
is(as('worker', sprintf(q{SELECT gpucredit_registry.mirror_version('%s', 'main', false, repeat('0', 40),
	'[{"path": "a", "sha256": "%s"}]', '{}', false)}, $mine, sha256_hex('never sent'))), 'UC503',
	'no claim brings bytes that were not sent');
here_sql(sprintf $set, '');
is(as('worker', "SELECT gpucredit_registry.report_mirror('$mine')"), 'UC501', 'a mirror that was set again has another claim');
query_fails($node, 'reg', $_, '22023', 'bad input') foreach
  q{SELECT gpucredit_registry.set_mirror('acme', 2, 'a b', 'org/model')},
  q{SELECT gpucredit_registry.set_mirror('acme', 2, 'hub', '../x')},
  q{SELECT gpucredit_registry.set_mirror('acme', 2, 'hub', NULL)},
  q{SELECT gpucredit_registry.set_mirror('acme', 2, 'hub', 'a/b', '{}')},
  q{SELECT gpucredit_registry.set_mirror('acme', 2, 'hub', 'a/b', '{"[a"}')},
  q{SELECT gpucredit_registry.set_mirror('acme', 2, 'hub', 'a/b', '{main}', '1 s')},
  q{SELECT gpucredit_registry.claim_mirror(NULL)};

# Organisations have turns: five mirrors that have waited longer keep nobody waiting.
here_sql(qq{SELECT gpucredit_registry.create_model('acme', 'vision', 'turn$_', 'turn$_')}) foreach 1 .. 5;
here_sql(qq{SELECT gpucredit_registry.set_mirror('acme', gpucredit_registry.find_model('acme', 'turn$_'), 'turns', 'org/model')})
  foreach 1 .. 5;
here_sql(q{SELECT gpucredit_registry.create_model('rival', '', 'turn', 'turn')});
here_sql(qq{SELECT gpucredit_registry.set_mirror('rival', gpucredit_registry.find_model('rival', '$_'), 'turns', 'org/model')})
  foreach 'r', 'turn';
is(join(' ', map { here_sql(q{SELECT org FROM gpucredit_registry.claim_mirror('{turns}')}) } 1 .. 5), 'acme rival acme rival acme',
	'organisations have turns, however many mirrors one has');
here_sql(q{SELECT gpucredit_registry.delete_mirror(org, model) FROM gpucredit_registry.mirror WHERE remote = 'turns'});

stop_worker();

# Killed in the middle: another goes on where it ended.
my $large = hub_commit($hub_second, 'large' => { seed => 'large', size => 40 << 20, lfs => JSON::PP::true });
$hub{faults} = { cdn => 'stall', bytes => 36 << 20 };
save_hub();
hub_mirror();
my $run = IPC::Run::start([ worker('--once') ], '>&', '/dev/null');
ok($node->poll_query_until('reg', q{SELECT coalesce(max(received), 0) > 1 << 20 FROM gpucredit_registry.upload_part}),
	'a worker has brought a part of a file');
$run->kill_kill(grace => 0);
is(mirror_state(2), 'running', 'it is killed');
is(read_here("/acme/hub/resolve/$large/large", $token), 'status 404', 'nothing of the version is seen');
is(once(), '', 'until its claim ends nobody goes on');
$hub{faults} = {};
save_hub();
write_file("$dir/log", '');
here_sql(q{UPDATE gpucredit_registry.mirror SET claimed_until = now(), due_at = now()});
like(mirror_now('hub'), qr/hub: synced/, 'then another does');
is(length read_here('/acme/hub/resolve/main/large', $token), 40 << 20, 'and the file is whole');
@log = grep { $_->{path} =~ m{^/cdn/} } map { decode_json($_) } split /\n/, slurp_file("$dir/log");
like($log[0]{range} // '', qr/^bytes=[1-9][0-9]{6,}-$/, 'what was here did not come again');

# A remote that sends a byte now and then has its turn, and no more.
stop_worker();
hub_commit($large, 'slow' => { seed => 'slow', size => 1 << 20, lfs => JSON::PP::true });
$hub{faults} = { cdn => 'trickle' };
save_hub();
hub_mirror();
my $out = '';
$run = IPC::Run::start([ worker('--turn', '2') ], '>', \$out, '2>', '/dev/null');
for (1 .. 1200)
{
	$run->pump_nb;
	last if $out =~ /hub: waiting/;
	sleep 0.1;
}
like($out, qr/hub: waiting/, 'a slow remote waits for its next turn');
$run->kill_kill(grace => 0);
$hub{faults} = { cdn => 'no ranges' };
save_hub();
hub_mirror();
like(mirror_now('hub'), qr/hub: synced/, 'and comes, also from a remote that knows no ranges');

# Many workers, many mirrors: each version comes once.
stop_worker();
here_sql(qq{SELECT gpucredit_registry.create_model('acme', 'vision', 'p$_', 'p$_')}) foreach 1 .. 6;
here_sql(qq{SELECT gpucredit_registry.set_mirror('acme', gpucredit_registry.find_model('acme', 'p$_'), 'far', 'acme/n')})
  foreach 1 .. 6;
push_version($far_token, 'n', 'main', lfs => { 'w' => content_of(7, 2 << 20) }, text => { 'a' => 'a' });
my @runs = map { IPC::Run::start([ worker('--once') ], '>&', "$dir/worker$_") } 1 .. 4;
$_->finish foreach @runs;
is(here_sql(q{SELECT count(*), count(DISTINCT model) FROM gpucredit_registry.origin WHERE repository = 'acme/n'}),
	'6|6', 'workers side by side bring each version once');
is(here_sql(q{SELECT string_agg(DISTINCT state, ',') FROM gpucredit_registry.mirrors('acme', 'vision') WHERE name LIKE 'p%'}),
	'synced', 'to all');
here_sql(q{SELECT gpucredit_registry.delete_model('acme', gpucredit_registry.find_model('acme', 'p1'), 'd1')});
is(here_sql(q{SELECT count(*) FROM gpucredit_registry.mirrors('acme') WHERE name = 'p1'}), '0',
	'a repository that is deleted follows nobody');
registry_verify($node);
done_testing();
