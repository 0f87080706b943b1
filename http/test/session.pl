# session.pl: a browser's session: what it can do, when it ends, and what
# another site, a thief of half of it or a former owner of the token cannot do
#
# Packages: libmicrohttpd-dev libjansson-dev libcurl4-openssl-dev libcjose-dev libssl-dev libpq-dev libhttp-tiny-perl
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/lib";
use GpuCreditHttp;
use EventStream;
use GpuCredit;
use File::Path 'make_path';
use PostgreSQL::Test::Utils;
use Test::More;

# A console of three files, with something beside it that must not be served.
my $folder = PostgreSQL::Test::Utils::tempdir();
make_path("$folder/console/assets");
append_to_file("$folder/secret.html", 'not for the browser');
append_to_file("$folder/console/index.html", '<!doctype html><title>the page</title>');
append_to_file("$folder/console/assets/main-abc.js", 'let one = 1;');
append_to_file("$folder/console/assets/main-abc.js.gz", 'packed');
append_to_file("$folder/console/notes.txt", 'of no known type');
symlink("$folder/secret.html", "$folder/console/linked.html") or die;

my $node = http_node('session');
my %token = map { $_ => token($node, $_) } qw(ann bob aud root_admin);
my $reads = token($node, 'ann', 'read');

daemon_start($node, '--console', "$folder/console");
my $site = 'http://127.0.0.1:' . daemon_port();

# A session begins: the cookie, and the header that goes with it.
sub sign_in
{
	my ($secret, %headers) = @_;
	my $answer = call($secret, 'POST', '/v1/session', undef, origin => $site, %headers);
	my ($cookie) = ($answer->{headers}{'set-cookie'} // '') =~ /^([^;]+)/;

	return { answer => $answer, cookie => $cookie, csrf => $answer->{json}{csrf} };
}

# A request of a page of the console.
sub visit
{
	my ($session, $method, $path, $body, %headers) = @_;

	return call(undef, $method, $path, $body, cookie => $session->{cookie}, origin => $site,
		'x-csrf-token' => $session->{csrf}, %headers);
}

sub status_is
{
	my ($answer, $status, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	return is($answer->{status}, $status, $name) || diag(substr($answer->{content} // '', 0, 500));
}

# Signing in
my $ann = sign_in($token{ann});
status_is($ann->{answer}, 200, 'a token begins a session');
is($ann->{answer}{json}{role}, 'ann', 'which acts as the token\'s role');
like($ann->{answer}{headers}{'set-cookie'}, qr/^gpucredit_session=gps_[0-9a-f]{64}; Path=\/; HttpOnly; SameSite=Strict; Max-Age=\d+$/,
	'its cookie is out of reach of scripts and of other sites');
like(sign_in($token{ann}, 'x-forwarded-proto' => 'https', origin => "https://127.0.0.1:" . daemon_port())->{answer}{headers}{'set-cookie'},
	qr/^__Host-gpucredit=gps_.*; Secure$/, 'behind TLS it is sent by TLS alone, to this host alone');
status_is(call(undef, 'POST', '/v1/session'), 401, 'without a token no session begins');
status_is(sign_in('gpc_00')->{answer}, 401, 'nor with an unknown one');
status_is(visit($ann, 'POST', '/v1/session'), 401, 'nor with a session');
unlike($node->safe_psql('web', 'SELECT s::text FROM gpucredit_http.session s'),
	qr/@{[ substr($ann->{cookie}, -64) ]}/, 'the database has no secret of it');

# What it can do
is(visit($ann, 'GET', '/v1/me')->{json}{role}, 'ann', 'a request with the cookie acts as the role');
is(visit($ann, 'GET', '/v1/session')->{json}{csrf}, $ann->{csrf}, 'a page that is loaded again learns the header\'s value');
status_is(visit($ann, 'POST', '/v1/jobs', { request => '1xH100', wall_limit => 'PT1H', key => 'by session' }), 200,
	'a tenant submits a job from the console');
status_is(visit($ann, 'GET', '/v1/balance?org=rival'), 404, 'and reaches no other\'s rows');
my $reader = sign_in($reads);
status_is($reader->{answer}, 200, 'a token that only reads begins a session, too');
status_is(visit($reader, 'GET', '/v1/balance'), 200, 'which reads');
status_is(visit($reader, 'POST', '/v1/jobs', { request => '1xH100', wall_limit => 'PT1H', key => 'r' }), 403,
	'and changes nothing');
status_is(visit($ann, 'PUT', '/v1/session'), 405, 'a session has no other methods');

# Another site
my $before = query($node, 'web', 'SELECT count(*) FROM gpucredit.job');
my %job = (request => '1xH100', wall_limit => 'PT1H', key => 'forged');
status_is(visit($ann, 'POST', '/v1/jobs', \%job, origin => 'https://evil.example'), 403, 'a page of another site submits nothing');
status_is(visit($ann, 'POST', '/v1/jobs', \%job, origin => 'null'), 403, 'nor one without an origin');
status_is(visit($ann, 'POST', '/v1/jobs', \%job, origin => "$site.evil.example"), 403, 'nor one whose name begins like ours');
status_is(visit($ann, 'POST', '/v1/jobs', \%job, origin => $site . '1'), 403, 'nor one at another port');
status_is(call(undef, 'POST', '/v1/jobs', \%job, cookie => $ann->{cookie}, 'x-csrf-token' => $ann->{csrf}), 403,
	'nor a request that does not say where it comes from');
status_is(visit($ann, 'POST', '/v1/jobs', \%job, 'x-csrf-token' => ''), 403, 'the cookie without its header submits nothing');
status_is(visit($ann, 'POST', '/v1/jobs', \%job, 'x-csrf-token' => sign_in($token{bob})->{csrf}), 403,
	'nor with another session\'s header');
status_is(visit($ann, 'POST', '/v1/jobs', \%job, 'x-forwarded-proto' => 'https',
		cookie => $ann->{cookie} =~ s/^gpucredit_session/__Host-gpucredit/r), 403,
	'behind TLS a page that came without TLS submits nothing');
status_is(visit($ann, 'GET', '/v1/balance', undef, origin => 'https://evil.example'), 403, 'a page of another site reads nothing');
status_is(call($token{ann}, 'POST', '/v1/session', undef, origin => 'https://evil.example'), 403,
	'and signs nobody in');
is(query($node, 'web', 'SELECT count(*) FROM gpucredit.job'), $before, 'none of them left a job behind');
is(call($token{ann}, 'GET', '/v1/me', undef, origin => 'https://evil.example')->{headers}{'access-control-allow-origin'},
	undef, 'no other site is told that it may read answers');

# Secrets in the wrong place
status_is(call(substr($ann->{cookie}, length 'gpucredit_session='), 'GET', '/v1/me'), 401, 'a session\'s secret is no token');
status_is(call(undef, 'GET', '/v1/me', undef, cookie => "gpucredit_session=$token{ann}"), 401, 'a token is no session');
status_is(call(undef, 'GET', '/v1/me', undef, cookie => "gpucredit_session=' OR ''='"), 401, 'nor is anything else');
status_is(call($token{bob}, 'GET', '/v1/me', undef, cookie => $ann->{cookie}), 200, 'a token goes before a cookie');
is(call($token{bob}, 'GET', '/v1/me', undef, cookie => $ann->{cookie})->{json}{role}, 'bob', 'and decides who calls');
foreach my $function (qw(begin_session session_answer enter))
{
	status_is(visit($ann, 'POST', "/v1/call/http.$function", { secret => $ann->{cookie}, csrf => '', method => 'GET',
				$function eq 'session_answer' ? (label => '', query => {}) : () }), 403, "no role may call $function()");
}
my ($rc, undef, $error) = $node->psql('web', 'SELECT * FROM gpucredit_http.session',
	extra_params => [ '-U', 'ann' ]);
like($error, qr/permission denied/, 'a tenant does not read the table of sessions');

# Lists and ends
my $second = sign_in($token{ann}, 'user-agent' => 'Browser of <b>Ann</b>');
my $list = visit($second, 'GET', '/v1/sessions')->{json}{data};
is((grep { $_->{here} } @$list)[0]{session}, $second->{answer}{json}{session}, 'the list marks the browser that asks');
is(scalar(grep { $_->{role} ne 'ann' } @$list), 0, 'and has no other role\'s');
status_is(visit(sign_in($token{bob}), 'DELETE', '/v1/sessions/' . $ann->{answer}{json}{session}), 404,
	'nobody ends another role\'s session');
status_is(visit($second, 'DELETE', '/v1/sessions/' . $ann->{answer}{json}{session}), 200, 'a role ends one of its own');
status_is(visit($ann, 'GET', '/v1/me'), 401, 'which is good no more');
my $out = visit($second, 'DELETE', '/v1/session');
status_is($out, 200, 'somebody signs out');
like($out->{headers}{'set-cookie'}, qr/^gpucredit_session=; .*Max-Age=0/, 'and the browser forgets the cookie');
status_is(visit($second, 'GET', '/v1/me'), 401, 'a copy of the cookie is good no more');
my @many = map { sign_in($_) } $token{ann}, $token{ann}, $reads;
my $other = sign_in($token{bob});
is(visit($many[2], 'DELETE', '/v1/session?everywhere=true')->{status}, 200, 'also with a token that only reads, one signs out everywhere');
status_is(visit($_, 'GET', '/v1/me'), 401, 'all browsers of the role are signed out') foreach @many;
status_is(visit($other, 'GET', '/v1/me'), 200, 'and none of another role');

# Streams that are open when a session ends
my %session = map { $_ => sign_in($token{ann}) } qw(out listed idle kept);
my $revoked = token($node, 'ann');
my %stream = (token => stream($revoked), map { $_ => stream($session{$_}{cookie}) } keys %session);
visit($session{kept}, 'POST', '/v1/jobs', { request => '1xH100', wall_limit => 'PT1H', key => 'streamed' });
is(scalar(grep { events_of($_, 1) > 0 } values %stream), 5, 'a session has a stream, as a token has');
$node->safe_psql('web', "UPDATE gpucredit_http.session SET used_at = used_at - interval '2 hours 1 minute' WHERE session = $session{idle}{answer}{json}{session}");
visit($session{out}, 'DELETE', '/v1/session');
visit($session{kept}, 'DELETE', '/v1/sessions/' . $session{listed}{answer}{json}{session});
$node->safe_psql('web', q{SELECT gpucredit_http.revoke_token((SELECT max(token) FROM gpucredit_http.tokens('ann')))});
ok(is_ended($stream{out}, 20), 'its stream ends soon when somebody signs out');
ok(is_ended($stream{listed}, 20), 'and when somebody signs that browser out');
ok(is_ended($stream{idle}, 20), 'and when the session was not used for two hours');
ok(is_ended($stream{token}, 20), 'a token\'s stream ends when it is revoked');
ok(!is_ended($stream{kept}, 0.1), 'another session\'s stream goes on');
%stream = ();

# Time and tokens
$ann = sign_in($token{ann});
$node->safe_psql('web', "UPDATE gpucredit_http.session SET used_at = used_at - interval '2 hours 1 minute' WHERE session = $ann->{answer}{json}{session}");
status_is(visit($ann, 'GET', '/v1/me'), 401, 'a session that was not used for two hours is over');
$ann = sign_in($token{ann});
$node->safe_psql('web', "UPDATE gpucredit_http.session SET expires_at = now() WHERE session = $ann->{answer}{json}{session}");
status_is(visit($ann, 'GET', '/v1/me'), 401, 'and so is one that has reached its end, however much it is used');
my $short = $node->safe_psql('web', "SELECT secret FROM gpucredit_http.issue_token('ann', 'read', '90 s')");
my ($age) = sign_in($short)->{answer}{headers}{'set-cookie'} =~ /Max-Age=(\d+)/;
cmp_ok($age, '<=', 90, 'a session lasts no longer than its token');
$ann = sign_in($token{ann});
my ($number) = map { $_->{token} } visit($ann, 'GET', '/v1/me')->{json};
$node->safe_psql('web', "SELECT gpucredit_http.revoke_token($number)");
status_is(visit($ann, 'GET', '/v1/me'), 401, 'a session ends when its token is revoked');
my $admin = sign_in($token{root_admin});
$node->safe_psql('web', 'ALTER ROLE root_admin CREATEROLE');
status_is(visit($admin, 'GET', '/v1/me'), 401, 'and when its role is one that no request may act as');
sign_in($token{bob}) foreach 1 .. 105;
is(query($node, 'web', q{SELECT count(*) FROM gpucredit_http.session s JOIN gpucredit_http.token t USING (token)
	WHERE t.role = 'bob' AND s.ended_at IS NULL}), 100, 'a token has at most a hundred sessions, the newest');
status_is(visit($other, 'GET', '/v1/me'), 401, 'the oldest are over');
is(call($token{bob}, 'POST', '/v1/session', 'x' x 100_000, origin => $site)->{status}, 200,
	'a long body, which has the token checked first, begins one session');
is(query($node, 'web', q{SELECT count(*) FROM gpucredit_http.event WHERE operation = 'sign_in' AND caller = 'bob'}),
	query($node, 'web', q{SELECT count(*) FROM gpucredit_http.session s JOIN gpucredit_http.token t USING (token) WHERE t.role = 'bob'}),
	'and each is on record');
my $busy = token($node, 'ann', 'read');
$node->safe_psql('web', q{INSERT INTO gpucredit_http.session (sha256, token, label, created_at, used_at, expires_at, ended_at)
	SELECT sha256(i::text::bytea), (SELECT max(token) FROM gpucredit_http.token), '', now(), now(), now(), now() FROM generate_series(1, 999) i});
status_is(sign_in($busy)->{answer}, 200, 'a token begins a thousand sessions a day');
status_is(sign_in($busy)->{answer}, 422, 'and no more, whatever became of them');
status_is(sign_in(token($node, 'ann'))->{answer}, 200, 'another token of the role does');

# Files
my $page = call(undef, 'GET', '/console/');
status_is($page, 200, 'the console needs no token');
like($page->{content}, qr/the page/, 'it is the index');
is(call(undef, 'GET', '/console/jobs/17')->{content}, $page->{content}, 'each address below it is a page of it');
my $policy = $page->{headers}{'content-security-policy'};
like($policy, qr/default-src 'none'; script-src 'self'/, 'no script but ours runs in it');
unlike($policy, qr/unsafe|\*|http/, 'without exceptions');
like($policy, qr/frame-ancestors 'none'/, 'and nobody shows it in a frame');
is($page->{headers}{'x-content-type-options'}, 'nosniff', 'types are not guessed');
is($page->{headers}{'referrer-policy'}, 'no-referrer', 'other sites learn no address of it');
is($page->{headers}{'cache-control'}, 'no-cache', 'the page is asked for again');
status_is(call(undef, 'GET', '/console/', undef, 'if-none-match' => $page->{headers}{etag}), 304, 'and not sent again');
my $script = call(undef, 'GET', '/console/assets/main-abc.js');
is($script->{content}, 'let one = 1;', 'a script');
like($script->{headers}{'content-type'}, qr{^text/javascript}, 'has a script\'s type');
like($script->{headers}{'cache-control'}, qr/immutable/, 'and is kept, because its name has its digest');
$script = call(undef, 'GET', '/console/assets/main-abc.js', undef, 'accept-encoding' => 'br, gzip');
is($script->{content}, 'packed', 'a client that unpacks gets it packed');
is($script->{headers}{'content-encoding'}, 'gzip', 'and is told so');
is($script->{headers}{vary}, 'Accept-Encoding', 'and so are caches');
status_is(call(undef, 'GET', '/console/assets/gone.js'), 404, 'a script that is gone is no page');
status_is(call(undef, 'POST', '/console/', ''), 405, 'the console is only read');
like(call(undef, 'HEAD', '/console/')->{headers}{etag}, qr/^"/, 'also by HEAD');
foreach my $path ('/console/../secret.html', '/console/%2e%2e/secret.html', '/console/assets/../../secret.html',
	'/console//secret.html', '/console/linked.html', '/console/notes.txt', "/console/..\\secret.html")
{
	my $answer = raw("GET $path HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");

	unlike($answer, qr/not for the browser|of no known type/, "$path leads to no other file");
}
like(raw("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"), qr{^HTTP/1\.1 303 .*^Location: /console/}ms,
	'the address without a path leads there');

is(query($node, 'web', 'SELECT count(*) FROM gpucredit.verify()'), 0, 'the books balance');
daemon_stop();
$node->stop;
done_testing();
