# api.pl: what clients of the HTTP interface get: results, lists, denials,
# errors, replays; and that it is what the token's role may, and no more
#
# Packages: libmicrohttpd-dev libjansson-dev libcurl4-openssl-dev libcjose-dev libssl-dev libpq-dev libhttp-tiny-perl
use strict;
use warnings;
use FindBin;
use JSON::PP;
use lib "$FindBin::RealBin/lib";
use GpuCreditHttp;
use GpuCredit;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = http_node('api');
my %token = map { $_ => token($node, $_) } qw(ann bob eve ops aud root_admin);

daemon_start($node);

sub status_is
{
	my ($answer, $status, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	return is($answer->{status}, $status, $name) || diag(substr($answer->{content} // '', 0, 500));
}

# Who calls
is(call(undef, 'GET', '/healthz')->{content}, "ok\n", 'the daemon says that it lives, to anybody');
$node->poll_query_until('web', q{SELECT count(*) > 0 FROM pg_stat_activity WHERE usename = 'gpucredit_gateway'});
for (1 .. 600) { last if call(undef, 'GET', '/readyz')->{status} == 200; select(undef, undef, undef, 0.1) }
is(call(undef, 'GET', '/readyz')->{content}, "ok\n", 'and that the database answers');
my $answer = call(undef, 'GET', '/v1/balance');
status_is($answer, 401, 'without a token there is no answer');
is($answer->{headers}{'www-authenticate'}, 'Bearer', 'and the answer says which way to sign in');
status_is(call('gpc_00', 'GET', '/v1/balance'), 401, 'an unknown token is refused');
is_deeply(call($token{ann}, 'GET', '/v1/me')->{json}{accounts},
	[ { org => 'acme', account => 'nlp' } ], 'a tenant learns what it is bound to');

# Submitting
my %job = (request => '2xH100', wall_limit => 'PT1H');
$answer = call($token{ann}, 'POST', '/v1/jobs', \%job, 'idempotency-key' => 'first');
status_is($answer, 200, 'a tenant submits a job without naming its organisation');
my $job = $answer->{json}{job};
is($answer->{json}{held}, '4.000000', 'the amount held is a decimal text');
$answer = call($token{ann}, 'POST', '/v1/jobs', \%job, 'idempotency-key' => 'first');
is($answer->{json}{job}, $job, 'the same key gives the same job');
ok($answer->{json}{replayed}, 'and says that it is a replay');
$answer = call($token{ann}, 'POST', '/v1/jobs', { %job, request => '1xH100' }, 'idempotency-key' => 'first');
status_is($answer, 422, 'the key with other arguments is refused');
is($answer->{json}{sqlstate}, 'UC201', 'by the database\'s error');
like($answer->{headers}{'content-type'}, qr{^application/problem\+json}, 'in a problem document');
status_is(call($token{ann}, 'POST', '/v1/jobs', { %job, key => 'a' }, 'idempotency-key' => 'b'),
	422, 'two keys are refused');
$answer = call($token{ann}, 'POST', '/v1/jobs', { request => '8xH100', wall_limit => 'PT20H', key => 'dear' });
status_is($answer, 402, 'a job that costs more than there is, is denied as a payment is');
is($answer->{json}{result}{reason}, 'insufficient_credits', 'with the reason of the denial');
is(call($token{aud}, 'GET', '/v1/denials?org=acme')->{json}{data}[0]{reason}, 'insufficient_credits',
	'the denial is on record');
status_is(call($token{ann}, 'POST', '/v1/jobs', { request => '9xH100', wall_limit => 'PT1M', key => 'huge' }),
	422, 'what no pool could ever run is unprocessable');

# A quote is an answer, also of what would be denied, and is on no record
my $reader = token($node, 'ann', 'read');
my %counted = (denials => 'SELECT count(*) FROM gpucredit.denial', audit => 'SELECT count(*) FROM gpucredit.audit',
	jobs => 'SELECT count(*) FROM gpucredit.job');
my %before = map { $_ => query($node, 'web', $counted{$_}) } keys %counted;
$answer = call($token{ann}, 'POST', '/v1/quote', \%job);
status_is($answer, 200, 'a tenant asks what a job would cost');
is("$answer->{json}{decision} $answer->{json}{held} $answer->{json}{buckets}[0]{amount} $answer->{json}{offers}[0]{per_gpu_hour}",
	'granted 4.000000 4.000000 2.000000', 'with decimal texts for all amounts');
$answer = call($token{ann}, 'POST', '/v1/quote', { request => '8xH100', wall_limit => 'PT20H', plan => JSON::PP::false });
is("$answer->{status} $answer->{json}{decision} $answer->{json}{reason}", '200 denied insufficient_credits',
	'what would be denied is an answer, too');
status_is(call($reader, 'POST', '/v1/quote', \%job), 200, 'a token that may only read asks as well');
status_is(call($token{$_}, 'POST', '/v1/quote', { %job, org => 'acme', account => 'nlp' }), 404, "$_ does not ask for ann")
	for qw(eve bob);
is_deeply({ map { $_ => query($node, 'web', $counted{$_}) } keys %counted }, \%before, 'nothing is written');

# Lists
call($token{ann}, 'POST', '/v1/jobs', { request => '1xH100', wall_limit => 'PT1M', key => "list $_" }) for 1 .. 7;
$answer = call($token{ann}, 'GET', '/v1/jobs?limit=5');
is(scalar @{ $answer->{json}{data} }, 5, 'a page of a list has as many rows as were asked for');
my $next = call($token{ann}, 'GET', "/v1/jobs?limit=5&after=$answer->{json}{next}");
is(scalar @{ $next->{json}{data} }, 3, 'the next page has the others');
is($next->{json}{next}, undef, 'and is the last');
is(call($token{ann}, 'GET', '/v1/jobs?state=queued&state=running')->{json}{data}[-1]{job}, $job,
	'an argument that is repeated is a list');
my $etag = call($token{ann}, 'GET', "/v1/jobs/$job")->{headers}{etag};
status_is(call($token{ann}, 'GET', "/v1/jobs/$job", undef, 'if-none-match' => $etag), 304,
	'what has not changed is not sent again');
like(call($token{ann}, 'GET', "/v1/jobs/$job")->{json}{submitted_at}, qr/^\d{4}-\d\d-\d\dT[\d:.]+\+00:00$/,
	'times are RFC 3339, in UTC');

# Errors
status_is(call($token{ann}, 'GET', '/v1/nothing'), 404, 'an address that is not there');
$answer = call($token{ann}, 'PUT', '/v1/jobs', {});
status_is($answer, 405, 'a method that the address has not');
is($answer->{headers}{allow}, 'GET, POST', 'and those that it has');
status_is(call($token{ann}, 'POST', '/v1/jobs', '{"request":'), 400, 'a body that is no JSON');
status_is(call($token{ann}, 'POST', '/v1/jobs', '[1]'), 422, 'a body that is no object');
status_is(call($token{ann}, 'POST', '/v1/jobs', { %job, key => 'x', colour => 'red' }), 422,
	'an argument that the function has not');
status_is(call($token{ann}, 'POST', '/v1/jobs', { %job, key => 'x', org => [1] }), 422,
	'a list for a name');
status_is(call($token{ann}, 'POST', "/v1/jobs/$job/cancel", { job => 1, key => 'c' }), 422,
	'one argument in path and body');
status_is(call($token{ann}, 'POST', '/v1/call/pg_sleep', {}), 404, 'a function of PostgreSQL');
status_is(call($token{ann}, 'POST', '/v1/call/internal.lock_name', { name => 'x' }), 404, 'an internal function');
status_is(call($token{ann}, 'POST', '/v1/call/http.enter', { secret => $token{root_admin} }), 403,
	'nobody enters another token\'s role by a call');
status_is(call($token{ann}, 'POST', '/v1/call/http.record', { org => '', operation => 'x', caller => 'x', detail => {} }),
	403, 'nor writes the event log');

# Everything by name
is(call($token{ops}, 'POST', '/v1/call/reclaim', { node => 'n1' })->{json}{sqlstate}, '22023',
	'a call names all arguments that have no default');
status_is(call($token{ops}, 'POST', '/v1/call/drain', { node => 'n1', reason => 'a fan is loud' }), 200, 'an operator drains a node');
status_is(call($token{ops}, 'POST', '/v1/nodes/n1/resume', {}), 200, 'and resumes it by its address');
status_is(call($token{ops}, 'POST', '/v1/call/reclaim', { node => ['n1'], notice => 'PT5M' }), 422,
	'of overloads the one is called whose argument fits');
status_is(call($token{ops}, 'POST', '/v1/call/reclaim', { nodes => ['n1'], notice => 'PT5M' }), 200,
	'a list of nodes is an array');
status_is(call($token{ops}, 'POST', '/v1/nodes/n1/resume', {}), 200, 'resumed again');
status_is(call($token{root_admin}, 'POST', '/v1/call/issue',
		{ org => 'acme', account => '', key => 'more', amount => '0.000001' }), 200,
	'an administrator issues credit; the amount is a text');

# What a tenant may not do, by any address
for my $path (qw(/v1/nodes /v1/plan /v1/fair_share /v1/audit?org=acme))
{
	status_is(call($token{ann}, 'GET', $path), 403, "a tenant is refused $path");
}
for my $path ("/v1/jobs/$job?org=acme", "/v1/jobs/$job/explain?org=acme", "/v1/balance?org=acme&account=nlp")
{
	for my $who (qw(eve bob))
	{
		status_is(call($token{$who}, 'GET', $path), 404, "$who does not learn that $path is there");
	}
}
is_deeply(call($token{eve}, 'GET', '/v1/jobs?org=acme')->{json}{data}, [], 'another organisation\'s jobs are not listed');
is_deeply(call($token{eve}, 'GET', "/v1/jobs/$job/attempts?org=acme")->{json}{data}, [], 'nor their attempts');
is_deeply(call($token{bob}, 'GET', '/v1/jobs')->{json}{data}, [], 'nor a sibling account\'s');
status_is(call($token{eve}, 'POST', "/v1/jobs/$job/cancel", { org => 'acme', key => 'x' }), 404,
	'another organisation\'s job cannot be cancelled');
status_is(call($token{eve}, 'POST', '/v1/jobs', { %job, org => 'acme', account => 'nlp', key => 'steal' }), 404,
	'nor can a job be charged to it');
status_is(call($token{ann}, 'POST', '/v1/call/issue', { org => 'acme', account => '', key => 'gift', amount => 1000 }),
	403, 'a tenant issues no credit');
status_is(call($token{ann}, 'POST', '/v1/call/bind_tenant', { role => 'ann', org => 'rival' }), 403, 'nor binds itself');

# Tokens
my %scoped = map { $_ => token($node, 'ann', $_) } qw(read label submit spend);
status_is(call($scoped{read}, 'GET', '/v1/balance'), 200, 'a token that reads, reads');
status_is(call($scoped{read}, 'POST', '/v1/jobs', { %job, key => 'r' }), 403, 'and submits nothing');
$node->safe_psql('web', 'CREATE EXTENSION gpucredit_eval CASCADE');
my %rating = (org => 'acme', run => 999, case => 1, rater => 'ann', score => 4);
status_is(call($scoped{read}, 'POST', '/v1/call/eval.label', \%rating), 403, 'and rates nothing');
status_is(call($scoped{label}, 'POST', '/v1/call/eval.label', \%rating), 404, 'a rater\'s token rates what is there');
status_is(call($scoped{label}, 'POST', '/v1/call/eval.create_set', { org => 'acme', account => 'nlp', name => 's', kind => 'live', key => 's' }), 403,
	'and does nothing else with sets');
status_is(call($scoped{label}, 'GET', $_), 403, "a rater's token does not see the scores of $_")
	foreach '/v1/evals/runs/999/gate?org=acme', '/v1/evals/compare?org=acme&a=999&b=999', '/v1/evals/scores?org=acme&config=c&account=nlp', '/v1/evals/judges?org=acme';
status_is(call($scoped{label}, 'POST', "/v1/call/eval.$_", { org => 'acme', run => 999 }), 403, "nor by $_()") foreach qw(results junit verdict);
status_is(call($scoped{read}, 'POST', '/v1/call/eval.results', { org => 'acme', run => 999 }), 404, 'which one that reads may ask for');
status_is(call($scoped{label}, 'GET', '/v1/evals/runs?org=acme&account=nlp'), 200, 'it lists runs');
status_is(call($scoped{label}, 'GET', '/v1/evals/runs/999/labels?org=acme'), 404, 'and asks what to rate');
status_is(call($scoped{label}, 'POST', '/v1/jobs', { %job, request => '1xH100', key => 'l' }), 403, 'it submits nothing');
status_is(call($scoped{submit}, 'POST', '/v1/call/eval.label', \%rating), 404, 'what a rater may, one that submits may, too');
status_is(call($scoped{submit}, 'POST', '/v1/jobs', { %job, request => '1xH100', key => 's' }), 200, 'one that submits, submits');
status_is(call($scoped{submit}, 'POST', '/v1/holds', { account => 'nlp', amount => 1, ttl => 'PT1H', key => 'h' }), 403,
	'and holds nothing');
status_is(call($scoped{spend}, 'POST', '/v1/holds', { account => 'nlp', amount => 1, ttl => 'PT1H', key => 'h' }), 200,
	'one that spends, holds');
status_is(call($scoped{$_}, 'POST', '/v1/tokens', { scope => 'admin' }), 403, "scope $_ makes no token") for sort keys %scoped;
$answer = call($token{ann}, 'POST', '/v1/tokens', { scope => 'read', label => 'laptop' });
status_is($answer, 200, 'a tenant makes a token for itself');
status_is(call($answer->{json}{secret}, 'GET', '/v1/me'), 200, 'which is good');
status_is(call($token{ann}, 'POST', '/v1/tokens', { role => 'ops', scope => 'admin' }), 403, 'and none for another role');
status_is(call($token{eve}, 'DELETE', "/v1/tokens/$answer->{json}{token}"), 404, 'another tenant cannot revoke it');
is(scalar(grep { $_->{role} ne 'eve' } @{ call($token{eve}, 'GET', '/v1/tokens')->{json}{data} }), 0,
	'or see it');
unlike(call($token{aud}, 'GET', '/v1/tokens')->{content}, qr/gpc_|sha/, 'an auditor sees all tokens and no secret');
status_is(call($token{ann}, 'DELETE', "/v1/tokens/$answer->{json}{token}"), 200, 'its owner revokes it');
status_is(call($answer->{json}{secret}, 'GET', '/v1/me'), 401, 'and it is good no more');
$node->safe_psql('web', q{SELECT count(gpucredit_http.issue_token('aud')) FROM generate_series(1, 999)});
status_is(call($token{aud}, 'POST', '/v1/tokens', { scope => 'read' }), 422, 'a role cannot fill the table with tokens');
my $short = token($node, 'ann', 'read', '1 s');
sleep 2;
status_is(call($short, 'GET', '/v1/me'), 401, 'a token ends');
for my $role ('postgres', 'gpucredit_gateway', 'nobody_at_all', 'pg_read_server_files', 'pg_execute_server_program', 'pg_monitor')
{
	status_is(call($token{root_admin}, 'POST', '/v1/tokens', { role => $role, scope => 'admin' }), 422,
		"not even an administrator makes a token for $role");
}
$node->safe_psql('web', 'ALTER ROLE bob SUPERUSER');
status_is(call($token{bob}, 'GET', '/v1/me'), 401, 'a role that becomes a superuser is served no more');
$node->safe_psql('web', 'ALTER ROLE bob NOSUPERUSER');
status_is(call($token{bob}, 'GET', '/v1/me'), 200, 'until it is none again');
$node->safe_psql('web', 'GRANT pg_write_server_files TO bob');
status_is(call($token{bob}, 'GET', '/v1/me'), 401, 'nor one that may write the server\'s files');
$node->safe_psql('web', 'REVOKE pg_write_server_files FROM bob; GRANT pg_monitor TO bob');
status_is(call($token{bob}, 'GET', '/v1/me'), 200, 'but one that monitors the server is');
$node->safe_psql('web', 'REVOKE pg_monitor FROM bob');

# The role does not outlive its request: one worker serves them in turn
daemon_stop();
daemon_start($node, '--workers', 1);
for (1 .. 20)
{
	my $who = (qw(ann eve ops bob))[ $_ % 4 ];
	is(call($token{$who}, 'GET', '/v1/me')->{json}{role}, $who, "request $_ acts as its own role");
	status_is(call($token{$who}, 'POST', '/v1/call/hold', { org => 'nobody', account => '', key => 'x', amount => 1, ttl => 'PT1M' }),
		$who eq 'ops' ? 403 : 404, 'also after an error') if $_ % 3 == 0;
}
like(call($token{ops}, 'GET', '/metrics')->{content}, qr/^gpucredit_/m, 'an operator\'s token reads the metrics');
like(call(undef, 'GET', '/metrics/gpucreditd')->{content}, qr/^gpucreditd_requests_total\{status="2xx"\} [1-9]/m,
	'the daemon counts what it answered');

# The document of the interface
my $document = call($token{ann}, 'GET', '/v1/openapi.json')->{json};
ok($document->{paths}{'/v1/jobs'}{post}, 'the OpenAPI document has what a tenant may call');
ok(!$document->{paths}{'/v1/call/issue'}, 'and not what it may not');
like($document->{paths}{'/v1/balance'}{get}{description}, qr/Errors: UC001/, 'with the functions\' comments');
is(query($node, 'web', q{SELECT string_agg(r.function, ' ') FROM gpucredit_http.routes() r
	WHERE NOT EXISTS (SELECT FROM gpucredit_http.callable c WHERE c.short = r.function)
		AND NOT (split_part(r.function, '.', 1) IN ('billing', 'eval', 'registry')
			AND to_regnamespace('gpucredit_' || split_part(r.function, '.', 1)) IS NULL)}), '',
	'each address has its function, if its extension is there');

is(query($node, 'web', q{SELECT string_agg(DISTINCT c.short || '.' || r.name, ' ')
	FROM gpucredit_http.callable c, gpucredit_http.result_columns(c) r WHERE r.name IN ('row', 'row#')}), '',
	'no function has a column of a name that calls use themselves');

# What quotas limit, and what counts
$node->safe_psql('web', q{
	SELECT gpucredit.create_pool('quotas'), gpucredit.set_price('A100', 1),
		gpucredit.register_node('quotas', 'q1', 'A100', 4, 40960, 16000, 65536),
		gpucredit.grant_tier('acme', 'nlp', 'production_inference');
	SELECT gpucredit.reserve('acme', 'nlp', 'q kept', '2xA100', '1 h', tier => 'production_inference',
			pool => 'quotas', cpu_milli => 4000, memory_mib => 8192),
		gpucredit.reserve('acme', 'nlp', 'q share', '0.25xA100@20GB', '1 h', pool => 'quotas');
	SELECT count(*) FROM gpucredit.place('quotas');
	SELECT gpucredit.set_quota('acme', 'nlp', 'A100', 4, 10, 100, 16000, 65536, 3)});
is_deeply([ map { delete $_->{queued}; $_ } grep { ($_->{gpu_type} // '') eq 'A100' } @{ call($token{ann}, 'GET', '/v1/quotas?org=acme&account=nlp')->{json}{data} } ],
	[ { account => 'nlp', gpu_type => 'A100', max_gpus => 4, gpus => '2.466', max_running => 10, running => 2,
		max_queued => 100, max_nonpreemptible_gpus => 3, nonpreemptible_gpus => '2.000',
		max_cpu_milli => 16000, cpu_milli => 4000, max_memory_mib => 65536, memory_mib => 8192 } ],
	'a quota says what it limits and what is in use: a share as the memory that it keeps, and what is not evicted apart');
status_is(call($token{eve}, 'GET', '/v1/quotas?org=acme&account=nlp'), 404, 'and to another organisation not even that there is an account');

# The database goes, and comes back
$node->stop('immediate');
status_is(call($token{ann}, 'GET', '/v1/me'), 503, 'without a database the answer is 503');
is(call(undef, 'GET', '/readyz')->{status}, 503, 'and the daemon is not ready');
$node->start;
status_is(call($token{ann}, 'GET', '/v1/me'), 200, 'it is reached again by itself');
is(daemon_stop(), 0, 'the daemon ends when it is asked to');
is(query($node, 'web', q{SELECT count(*) FROM gpucredit.audit WHERE login = 'gpucredit_gateway' AND actor = 'ann' AND operation = 'reserve'}) > 0,
	1, 'the audit log names the gateway as the login and the tenant as the actor');
verify_empty($node, 'web');

# A dump has the tokens
$node->safe_psql('postgres', 'CREATE DATABASE copy');
command_ok([ 'bash', '-c', sprintf('pg_dump -h %s -p %s web | psql -h %s -p %s -qX -v ON_ERROR_STOP=1 copy',
			($node->host, $node->port) x 2) ], 'a dump is restored');
is(query($node, 'copy', 'SELECT count(*) FROM gpucredit_http.token'),
	query($node, 'web', 'SELECT count(*) FROM gpucredit_http.token'), 'with all tokens');
verify_empty($node, 'copy');
done_testing();
