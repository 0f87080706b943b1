# identity.pl: people and services sign in by OpenID Connect: with a real provider,
# and with one that forges, is silent, or sends the daemon elsewhere
#
# Packages: libmicrohttpd-dev libjansson-dev libcurl4-openssl-dev libcjose-dev libssl-dev libpq-dev libhttp-tiny-perl curl jq node:nodejs npm:npm
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/lib";
use Browser;
use EventStream;
use GpuCreditHttp;
use GpuCredit;
use JSON::PP;
use MIME::Base64 ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my $folder = PostgreSQL::Test::Utils::tempdir();
my $built = qx(make -s -C '$FindBin::RealBin/..' test/oidc/node_modules/.package-lock.json 2>&1);
my %child;

append_to_file("$folder/index.html", '<!doctype html><title>the page</title>');
my $node = http_node('identity');
daemon_start($node, '--console', $folder, '--identity-networks', '127.0.0.1/32', '--per-address', 500);
my $site = 'http://127.0.0.1:' . daemon_port();
my %port = map { $_ => PostgreSQL::Test::Cluster::get_free_port() } qw(provider forger);
my %issuer = map { $_ => "http://127.0.0.1:$port{$_}" } keys %port;

start('forger');
start('provider', REDIRECT => "$site/v1/sign_in/1/callback");

sub start
{
	my ($name, %more) = @_;

	local %ENV = (%ENV, %more, PORT => $port{$name}, NODE_ENV => 'production');
	$child{$name} = open(my $out, '-|', 'node', "$FindBin::RealBin/oidc/$name.mjs") or die "could not run node: $!";
	while (my $line = <$out>) { last if $line =~ /listens/ }
	$child{"$name out"} = $out;
	return;
}

END
{
	my $status = $?;

	kill 'KILL', grep { /^\d+$/ } values %child;
	$? = $status;
}

sub sql { return $node->safe_psql('web', $_[0]) }

sub status_is
{
	my ($answer, $status, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	return is($answer->{status}, $status, $name) || diag(substr($answer->{content} // '', 0, 500));
}

sub forger
{
	my ($path, $what) = @_;
	my $answer = HTTP::Tiny->new(timeout => 30)->request($what ? 'POST' : 'GET', "$issuer{forger}$path",
		$what ? { content => encode_json($what) } : {});

	return decode_json($answer->{content});
}

# Somebody signs in by the real provider as far as $until: his browser.
sub sign_in_real
{
	my ($name, $until, $browser) = @_;

	$browser //= Browser->new;
	my $page = $browser->follow('GET', "$site/v1/sign_in/1?return=/console/jobs");
	for (1 .. 3)
	{
		last unless $browser->{url} =~ m{/interaction/};
		my ($to) = $page->{content} =~ /action="([^"]+)"/;
		my ($prompt) = $page->{content} =~ /name="prompt" value="(\w+)"/;

		$page = $browser->follow('POST', $to, "prompt=$prompt&login=$name&password=x", $until);
		last if defined $until && $browser->{url} =~ $until;
	}
	return $browser;
}

# A request of a page with the browser's session.
sub session
{
	my ($browser, $method, $path, $body) = @_;
	my $cookie = $browser->cookies_for("$site/v1");
	my $csrf = call(undef, 'GET', '/v1/session', undef, cookie => $cookie)->{json}{csrf} // '';

	return call(undef, $method, $path, $body, cookie => $cookie, origin => $site, 'x-csrf-token' => $csrf);
}

# Nobody is let in before an administrator says so
is_deeply(call(undef, 'GET', '/v1/sign_in')->{json}{data}, [], 'without a provider nobody signs in by one');
my $admin = token($node, 'root_admin');
my %set = (client_id => 'console', client_secret => 'the console: its secret');
is(call($admin, 'POST', '/v1/identity/providers', { issuer => $issuer{provider}, %set, name => 'Acme',
			audiences => [ 'gpucredit', 'cli' ] })->{json}, 1, 'an administrator sets a provider');
is(call($admin, 'POST', '/v1/identity/providers', { issuer => $issuer{forger}, %set, audiences => ['gpucredit'] })->{json}, 2,
	'and another one');
unlike(call($admin, 'GET', '/v1/identity/providers')->{content}, qr/its secret/, 'no list has the secret of a client');
foreach my $who (qw(ann ops aud))
{
	status_is(call(token($node, $who), 'POST', '/v1/identity/rules', { issuer => $issuer{provider}, claim => 'sub', value => 'ann',
				role => 'root_admin' }), 403, "$who lets nobody in");
}
my ($rc, undef, $error) = $node->psql('web', 'SELECT * FROM gpucredit_http.identity_provider', extra_params => [ '-U', 'root_admin' ]);
like($error, qr/permission denied/, 'the table with the secrets is nobody\'s to read');
sub rule { return call($admin, 'POST', '/v1/identity/rules', { issuer => $issuer{ $_[0] }, @_[ 1 .. $#_ ] }) }
status_is(rule('provider', claim => $_, value => 'x', org => 'acme'), 422, "no rule is about $_, which people choose")
	foreach qw(name preferred_username nickname phone_number user_metadata.role);
status_is(rule('provider', claim => 'sub', value => 'x', org => 'acme', role => 'ops'), 422, 'a rule has one target');
status_is(rule('provider', claim => 'sub', value => 'x', role => 'postgres'), 422, 'which is no superuser');
status_is(rule('provider', claim => 'sub', value => 'x', role => 'gpucredit_gateway'), 422, 'nor the gateway');
status_is(rule('provider', claim => 'sub', value => 'x', org => 'nowhere'), 404, 'nor an account that is not there');
is(rule('provider', claim => 'groups', value => 'gpu-admins', role => 'ops')->{json}, 1, 'one rule is about a group');
is(rule('provider', claim => 'email', value => 'olga@acme.example', role => 'root_admin')->{json}, 2, 'one about an address');
my $staff = rule('provider', claim => 'groups', value => 'nlp', org => 'acme', account => 'nlp')->{json};
is(rule('provider', claim => 'groups', value => 'nlp', org => 'acme', account => 'nlp')->{json}, $staff, 'a repeated call changes nothing');
rule('provider', claim => 'sub', value => 'robot', org => 'acme', account => 'vision', scope => 'submit');
sleep 2.5;		# the daemon reads the list of providers each two seconds
is_deeply([ map { $_->{name} } @{ call(undef, 'GET', '/v1/sign_in')->{json}{data} } ], [ 'Acme', "127.0.0.1:$port{forger}" ],
	'the page for signing in shows both');

# A person signs in
my $ann = sign_in_real('ann');
is($ann->{url}, "$site/console/jobs", 'somebody signs in, and is where he wanted to go');
my $me = session($ann, 'GET', '/v1/me')->{json};
like($me->{role}, qr/^sso_[0-9a-f]{40}$/, 'as a tenant\'s role that was made for him');
is_deeply($me->{accounts}, [ { org => 'acme', account => 'nlp' } ], 'bound to the account of the rule');
is(sql("SELECT rolcanlogin::text || rolsuper FROM pg_roles WHERE rolname = '$me->{role}'"), 'falsefalse', 'which cannot log in to the database');
status_is(session($ann, 'GET', '/v1/balance?org=rival'), 404, 'and sees no other organisation');
status_is(session($ann, 'POST', '/v1/jobs', { request => '1xH100', wall_limit => 'PT1H', key => 'signed in' }), 200, 'he submits a job');
is(session(sign_in_real('ann'), 'GET', '/v1/me')->{json}{role}, $me->{role}, 'another time he is the same');
is(session(sign_in_real('olga'), 'GET', '/v1/me')->{json}{role}, 'ops', 'of two rules that fit the first decides');
my $mallory = sign_in_real('mallory');
is($mallory->{url}, "$site/console/?sign_in=no_rule", 'an address that is not verified, and a name like a group\'s, let nobody in');
is(sign_in_real('stranger')->{url}, "$site/console/?sign_in=no_rule", 'nor does being known to the provider');
is(sql("SELECT count(*) FROM gpucredit_http.identity"), 2, 'who is not let in leaves nothing behind');

# What others make a browser do
my $code = sign_in_real('ann', qr{/v1/sign_in/1/callback});
my $callback = $code->{url};
is(Browser->new->visit('GET', $callback)->{headers}{location}, '/console/?sign_in=expired', 'a code that another one obtained signs nobody in');
my $victim = Browser->new;
$victim->visit('GET', "$site/v1/sign_in/1");
is($victim->follow('GET', $callback, undef, qr/console/)->{headers}{location}, '/console/?sign_in=expired', 'also where a sign-in has begun');
is($code->follow('GET', $callback)->{status}, 200, 'the browser that began it is signed in');
is(session($code, 'GET', '/v1/me')->{json}{role}, $me->{role}, 'as its person');
is($code->visit('GET', $callback)->{headers}{location}, '/console/?sign_in=expired', 'the same address once more signs nobody in');
foreach my $to ('https://evil.example/', '//evil.example', '/console/../../evil', '/console//evil.example', '/\\evil.example',
	'/console/%0d%0aX: y', 'javascript:alert(1)', '/console/\\evil', '/v1/me')
{
	my $escaped = $to =~ s/([^\w.-])/sprintf('%%%02X', ord $1)/ger;
	my $browser = Browser->new;
	my $other = $browser->visit('GET', "$site/v1/sign_in/1?return=$escaped");

	unlike($browser->cookies_for($site . '/') =~ /\.([^.]+)$/ ? MIME::Base64::decode_base64url($1) : '', qr/evil|alert|X:|v1/,
		"nobody is sent to $to");
}
my $begun = Browser->new->visit('GET', "$site/v1/sign_in/1");
like($begun->{headers}{location}, qr/^\Q$issuer{provider}\E\/auth\?.*code_challenge_method=S256.*nonce=.*code_challenge=/, 'PKCE and a nonce are asked for');
like($begun->{headers}{'set-cookie'}, qr/^gpucredit_sign_in=.*HttpOnly; SameSite=Lax; Max-Age=600$/, 'what comes back is bound to the browser');
$begun = Browser->new->visit('GET', "$site/v1/sign_in/1", undef, 'x-forwarded-proto' => 'https');
like($begun->{headers}{'set-cookie'}, qr/^__Host-gpucredit_sign_in=.*; Secure$/, 'behind TLS no other host can set it');
like($begun->{headers}{location}, qr/redirect_uri=https%3A/, 'and the provider sends the browser back by TLS');
status_is(call(undef, 'GET', '/v1/sign_in/77'), 404, 'another provider is not known');
status_is(call(undef, 'POST', '/v1/sign_in/1'), 401, 'there is no other method');

# Tokens that the forger signs, as a service sends them
my $now = int time;
my %good = (iss => $issuer{forger}, sub => 'service', aud => 'gpucredit', exp => $now + 600, iat => $now);
rule('forger', claim => 'sub', value => 'service', org => 'rival');
sub forged
{
	my ($header, $claims, $with) = @_;

	return forger('/sign', { header => { alg => 'RS256', kid => 'one', %$header }, claims => { %good, %$claims }, with => $with // 'one' })->{token};
}
my $right = forged({}, {});
is_deeply(call($right, 'GET', '/v1/me')->{json}{accounts}, [ { org => 'rival', account => '' } ], 'a service acts by its provider\'s token');
is(call(forged({ alg => 'ES256', kid => 'curve' }, {}, 'curve'), 'GET', '/v1/me')->{status}, 200, 'also by one of elliptic curves');
status_is(call($right, 'POST', '/v1/jobs', { org => 'rival', account => '', request => '1xH100', wall_limit => 'PT1H', key => 'by JWT' }), 200, 'it submits a job');
status_is(call($right, 'POST', '/v1/jobs', '{"spec": "' . 'x' x 100_000 . '"}'), 422, 'a long body comes after the check of its token');
foreach my $attack (
	[ 'no signature', { alg => 'none' }, {}, 'nothing' ],
	[ 'no signature, another spelling', { alg => 'None' }, {}, 'nothing' ],
	[ 'an empty signature', {}, {}, 'nothing' ],
	[ 'the public key as a secret', { alg => 'HS256' }, {}, 'public key' ],
	[ 'the modulus as a secret', { alg => 'HS256' }, {}, 'modulus' ],
	[ 'a secret that is published', { alg => 'HS256', kid => 'octets' }, {}, 'public key' ],
	[ 'somebody else\'s key', {}, {}, 'theirs' ],
	[ 'its own key in its header', { jwk => { kty => 'RSA' }, kid => 'theirs' }, {}, 'theirs' ],
	[ 'a key at an address in its header', { jku => "$issuer{forger}/jwks", kid => 'theirs' }, {}, 'theirs' ],
	[ 'an algorithm of another kind of key', { alg => 'ES256' }, {}, 'one' ],
	[ 'an extension that must be understood', { crit => ['b64'], b64 => JSON::PP::false }, {} ],
	[ 'another type', { typ => 'logout+jwt' }, {} ],
	[ 'a key that is a number', { kid => 1 }, {} ],
	[ 'another issuer', {}, { iss => $issuer{provider} } ],
	[ 'an unknown issuer', {}, { iss => 'https://evil.example' } ],
	[ 'an issuer with a slash more', {}, { iss => "$issuer{forger}/" } ],
	[ 'another audience', {}, { aud => 'somebody' } ],
	[ 'the console\'s audience', {}, { aud => 'console' } ],
	[ 'no audience', {}, { aud => undef } ],
	[ 'an audience that is an object', {}, { aud => { gpucredit => 1 } } ],
	[ 'an end that is past', {}, { exp => $now - 120 } ],
	[ 'no end', {}, { exp => undef } ],
	[ 'an end that is a text', {}, { exp => '9999999999' } ],
	[ 'a begin in the future', {}, { nbf => $now + 600 } ],
	[ 'no subject', {}, { sub => undef } ],
	[ 'an empty subject', {}, { sub => '' } ],
	[ 'a subject that is a list', {}, { sub => ['service'] } ])
{
	my ($name, $header, $claims, $with) = @$attack;

	status_is(call(forged($header, $claims, $with), 'GET', '/v1/me'), 401, "refused: $name");
}
my @part = split /\./, $right;
status_is(call(join('.', $part[0], MIME::Base64::encode_base64url(encode_json({ %good, sub => 'other' })), $part[2]), 'GET', '/v1/me'), 401,
	'refused: claims that were changed');
status_is(call("$right.x", 'GET', '/v1/me'), 401, 'refused: four parts');
status_is(call('eyJ.eyJ.', 'GET', '/v1/me'), 401, 'refused: no JSON');
status_is(call(forged({}, { sub => 'nobody' }), 'GET', '/v1/me'), 403, 'whom no rule fits is told so');
status_is(call($right, 'GET', '/v1/events', undef, accept => 'text/event-stream'), 403, 'it begins no stream, which would outlive it');
status_is(call($right, 'POST', '/v1/session', undef, origin => $site), 403, 'and no session');
my $issued = call($right, 'POST', '/v1/tokens', { scope => 'read', ttl => 'P3650D', label => 'from JWT' })->{json};
status_is(call($issued->{secret}, 'GET', '/v1/balance?org=rival'), 200, 'it issues a token');
is(sql("SELECT expires_at <= now() + interval '30 days' FROM gpucredit_http.token WHERE token = $issued->{token}"), 't', 'which does not outlive its provider\'s word for long');

# Keys come and go; nobody makes the daemon ask again and again
my $before = forger('/count')->{'/jwks'};
call(forged({ kid => "unknown $_" }, {}), 'GET', '/v1/me') foreach 1 .. 30;
cmp_ok(forger('/count')->{'/jwks'} - $before, '<=', 1, 'thirty tokens with unknown keys have the keys read once');
forger('/control', { rotate => 'two', keys => ['two'] });
status_is(call($right, 'GET', '/v1/me'), 200, 'a key is kept for minutes');

# The forger as a provider that people sign in by
sub sign_in_forged
{
	my ($claims, %more) = @_;
	my $browser = $more{browser} // Browser->new;
	my $sent = $browser->visit('GET', "$site/v1/sign_in/2");
	my %query = ($sent->{headers}{location} // '') =~ /[?&](\w+)=([^&]*)/g;

	forger('/control', { token => { id_token => forged({}, { aud => 'console', nonce => $query{nonce}, %$claims }, $more{with}) } });
	my $back = sprintf('%s/v1/sign_in/%s/callback?code=c&state=%s%s', $site, $more{at} // 2, $more{state} // $query{state}, $more{query} // '');
	return ($browser->visit('GET', $back)->{headers}{location} // '', $browser);
}
is((sign_in_forged({}))[0], '/console/', 'somebody signs in by the other provider');
is((sign_in_forged({ aud => [ 'console', 'x' ], azp => 'console' }))[0], '/console/', 'also with a token for several, which was given to the console');
my $refused = '/console/?sign_in=refused';
is((sign_in_forged({ nonce => 'x' }))[0], $refused, 'refused: another nonce');
is((sign_in_forged({ nonce => undef }))[0], $refused, 'refused: no nonce');
is((sign_in_forged({ aud => 'gpucredit' }))[0], $refused, 'refused: a token for requests');
is((sign_in_forged({ aud => [ 'console', 'x' ] }))[0], $refused, 'refused: a token for several');
is((sign_in_forged({ azp => 'another' }))[0], $refused, 'refused: a token that another client was given');
is((sign_in_forged({ iss => $issuer{provider}, sub => 'ann', groups => ['gpu-admins'] }))[0], $refused, 'refused: one provider in another\'s name');
is((sign_in_forged({}, with => 'theirs'))[0], $refused, 'refused: another key');
is((sign_in_forged({}, state => 'x' x 43))[0], '/console/?sign_in=expired', 'refused: another state');
is((sign_in_forged({}, query => "&iss=$issuer{provider}"))[0], $refused, 'refused: an answer in another provider\'s name');
my $tokens = forger('/count')->{'/token'};
is((sign_in_forged({}, at => 1))[0], '/console/?sign_in=expired', 'refused: one provider\'s answer at another\'s address');
is(forger('/count')->{'/token'}, $tokens, 'and no code goes there');
is((sign_in_forged({}, query => '&error=access_denied'))[0], '/console/?sign_in=denied', 'somebody who declines is not signed in');

# What ends
my (undef, $guest) = sign_in_forged({});
is(session($guest, 'GET', '/v1/me')->{status}, 200, 'a session');
my $stream = stream($guest->cookies_for("$site/v1"));
my $owned = session($guest, 'POST', '/v1/tokens', { scope => 'admin', ttl => 'P10D' })->{json}{secret};
my $chained = call($owned, 'POST', '/v1/tokens', { ttl => 'P3650D' })->{json}{token};
is(sql("SELECT c.expires_at <= o.expires_at FROM gpucredit_http.token c, gpucredit_http.token o WHERE c.token = $chained AND o.sha256 = sha256('$owned')"),
	't', 'a token that a token issues lasts no longer than that one');
status_is(session($guest, 'POST', '/v1/webhooks', { org => 'rival', account => '', key => 'guest', url => 'https://127.0.0.1:9/' }), 200, 'a webhook');
my ($guest_rule) = map { $_->{rule} } grep { $_->{issuer} eq $issuer{forger} } @{ call($admin, 'GET', '/v1/identity/rules')->{json}{data} };
is(call($admin, 'DELETE', "/v1/identity/rules/$guest_rule")->{json}, JSON::PP::true, 'an administrator removes its rule');
status_is(session($guest, 'GET', '/v1/me'), 401, 'the session ends');
status_is(call($owned, 'GET', '/v1/me'), 401, 'and so does a token that was issued in it');
status_is(call($issued->{secret}, 'GET', '/v1/me'), 401, 'or by the service');
status_is(call($right, 'GET', '/v1/me'), 403, 'the provider\'s token lets nobody in');
ok(is_ended($stream, 5), 'an open stream ends');
is((sign_in_forged({}))[0], '/console/?sign_in=no_rule', 'and nobody signs in again');
sql(q{SELECT gpucredit.reserve('rival', '', 'after the guest', '1xH100', '1 hour')});
ok($node->poll_query_until('web', q{SELECT disabled_why = 'rights' FROM gpucredit_http.webhook}), 'a webhook that was set in the session gets nothing more');
rule('forger', claim => 'sub', value => 'service', org => 'rival');
status_is(call($owned, 'GET', '/v1/me'), 401, 'a rule that is set again wakes no old token');
is(rule('provider', claim => 'groups', value => 'nlp', org => 'acme', account => 'vision')->{status}, 200, 'a rule is changed');
status_is(session($ann, 'GET', '/v1/me'), 401, 'which ends what the former one let in');
is_deeply(session(sign_in_real('ann'), 'GET', '/v1/me')->{json}{accounts}, [ { org => 'acme', account => 'vision' } ], 'the other account is another role');
my $out = sign_in_real('ann');
is(session($out, 'DELETE', '/v1/session?everywhere=true')->{json}{ended}, 2, 'one signs out everywhere');
status_is(session($out, 'GET', '/v1/me'), 401, 'and is out');
my $olga = sign_in_real('olga');
my $other = Browser->new;
$other->keep_cookies("$site/v1/session", call(token($node, 'ops'), 'POST', '/v1/session', undef, origin => $site)->{headers});
is(session($olga, 'DELETE', '/v1/session?everywhere=true')->{json}{ended}, 2, 'who shares a role ends the sessions that are his');
is(session($other, 'GET', '/v1/me')->{json}{role}, 'ops', 'and no other\'s of that role');

# A provider is removed by who has not seen a rule that was set meanwhile
my $connection = sprintf 'host=%s port=%s dbname=web', $node->host, $node->port;
$node->psql('web', qq{SELECT gpucredit_http.set_identity_provider('https://gone.example');
	BEGIN ISOLATION LEVEL REPEATABLE READ;
	SELECT * FROM gpucredit_http.identity_rules();
	\\! psql -X -d '$connection' -c "SELECT gpucredit_http.set_identity_rule('https://gone.example', 'sub', 'x', org => 'acme')" >/dev/null
	SELECT gpucredit_http.remove_identity_provider('https://gone.example');
	COMMIT}, stderr => \$error);
like($error, qr/could not serialize/, 'who removes a provider overlooks no rule');

# A service and a command line with the real provider
sub provider_form
{
	my ($path, $form, $user) = @_;

	return decode_json(HTTP::Tiny->new(timeout => 30)->request('POST', "$issuer{provider}$path", {
				content => $form, headers => { 'content-type' => 'application/x-www-form-urlencoded',
					$user ? (authorization => 'Basic ' . MIME::Base64::encode_base64($user, '')) : () } })->{content});
}
my $service = provider_form('/token', 'grant_type=client_credentials&resource=urn:gpucredit&scope=api', 'robot:beep')->{access_token};
is(call($service, 'GET', '/v1/me')->{json}{scope}, 'submit', 'a service acts within its rule\'s scope');
status_is(call($service, 'POST', '/v1/tokens', { scope => 'admin' }), 403, 'and gets no further');

# The command line, by the device flow
my $home = PostgreSQL::Test::Utils::tempdir();
local $ENV{XDG_CONFIG_HOME} = $home;
open(my $login, '-|', "$FindBin::RealBin/../../cli/gpucredit login -s read $site $issuer{provider} cli 2>&1") or die "could not run it: $!";
my ($open) = <$login> =~ /^Open (\S+)/;
my $device = Browser->new;
my $confirm = $device->follow('GET', $open);
for (1 .. 4)
{
	my ($to) = $confirm->{content} =~ /<form[^>]* action="([^"]+)"/ or last;
	my %field = $confirm->{content} =~ /<input type="hidden" name="(\w+)" value="([^"]*)"/g;
	my ($prompt) = $confirm->{content} =~ /name="prompt" value="(\w+)"/;

	$field{confirm} = 'yes' if $to =~ /device/;
	@field{qw(prompt login password)} = ($prompt, 'ann', 'x') if $prompt;
	$confirm = $device->follow('POST', $to, join('&', map { "$_=$field{$_}" } sort keys %field));
}
my $said = do { local $/; <$login> };
ok(close($login), 'somebody signs in at the command line') or diag($said, $confirm->{content});
my $kept = PostgreSQL::Test::Utils::slurp_file("$home/gpucredit/token") =~ s/\n//r;
is((stat "$home/gpucredit/token")[2] & 0777, 0600, 'his token is his alone to read');
like(call($kept, 'GET', '/v1/me')->{json}{role}, qr/^sso_/, 'and acts as the role that he has in the console');
status_is(call($kept, 'POST', '/v1/jobs', { request => '1xH100', wall_limit => 'PT1H', key => 'read' }), 403, 'within the scope that he chose');

# A provider that leads the daemon elsewhere, is huge, or silent
sub other_provider
{
	my ($control) = @_;

	forger('/control', $control);
	daemon_stop();
	daemon_start($node, '--console', $folder, '--identity-networks', '127.0.0.1/32', '--per-address', 500);
	return call($right, 'GET', '/v1/me')->{status};
}
is(other_provider({ issuer => 'https://evil.example' }), 503, 'a document of another issuer is not believed');
is(other_provider({ huge => 1 }), 503, 'nor one of five million bytes');
is(other_provider({ redirect => "$issuer{forger}/jwks" }), 503, 'nor is a redirect followed');
is(other_provider({ jwks_uri => 'file:///etc/passwd' }), 503, 'nor are keys read from a file');
is(other_provider({ jwks_uri => 'http://169.254.169.254/latest/meta-data' }), 503, 'nor from the network\'s own addresses');
is(other_provider({ jwks_uri => "http://localhost:$port{forger}/jwks" }), 200, 'an address that the operator allows is, by any name');
my $log = PostgreSQL::Test::Utils::slurp_file($node->logfile =~ s/\.log$/-gpucreditd.log/r);
like($log, qr/169\.254\.169\.254.* leads to an address that --identity-networks does not allow/, 'the log says what was refused');
unlike($log, qr/its secret|id_token|eyJ/, 'and has no secrets');
forger('/control', { silent => [ '/.well-known/openid-configuration', '/jwks', '/token' ] });
daemon_stop();
daemon_start($node, '--console', $folder, '--identity-networks', '127.0.0.1/32', '--per-address', 500);
# a provider that takes connections and never answers, under as many names as there were threads, and more
my $mute = IO::Socket::INET->new(Listen => 100, LocalAddr => '127.0.0.1') or die;
my @mute = split /\n/, sql(sprintf(q{SELECT gpucredit_http.set_identity_provider(format('http://127.0.0.1:%d/%%s', n), client_id => 'mute', name => 'Mute')
	FROM generate_series(1, 12) n}, $mute->sockport));
my @waiting = map { my $i = $_; IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => daemon_port()) } 1 .. 40;
$_->syswrite("GET /v1/sign_in/2/callback?code=c&state=" . 's' x 43 . " HTTP/1.1\r\nHost: x\r\nCookie: gpucredit_sign_in=2."
		. join('.', ('s' x 43) x 3) . ".L2NvbnNvbGUv\r\n\r\n") foreach @waiting;
push @waiting, map { IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => daemon_port()) } @mute;
$waiting[40 + $_]->syswrite("GET /v1/sign_in/$mute[$_] HTTP/1.1\r\nHost: x\r\n\r\n") foreach 0 .. $#mute;
my $since = time;
is(call($admin, 'GET', '/v1/me')->{status}, 200, 'while a provider is silent, who has a token is answered');
is(session(sign_in_real('ann'), 'GET', '/v1/me')->{status}, 200, 'who signs in by another one is signed in');
is(call($service, 'GET', '/v1/me')->{status}, 200, 'and services of another one are answered');
cmp_ok(time - $since, '<', 8, 'without waiting for the silent ones');
close($_) foreach @waiting;

is(sql('SELECT count(*) FROM gpucredit.verify()'), 0, 'the books balance');
is(sql('SELECT count(*) FROM gpucredit_http.verify()'), 0, 'and so does the interface');
daemon_stop();
$node->stop;
done_testing();
