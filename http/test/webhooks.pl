# webhooks.pl: events that are sent to a real receiver: signed, again when it
# fails, in the order of each job, once more when the daemon is killed; to no
# address that is not public; and with nothing that another tenant may not read
#
# Long: it takes minutes
# Packages: libmicrohttpd-dev libjansson-dev libcurl4-openssl-dev libcjose-dev libssl-dev libpq-dev libhttp-tiny-perl libio-socket-ssl-perl openssl
use strict;
use warnings;
use Digest::SHA 'hmac_sha256';
use FindBin;
use JSON::PP;
use MIME::Base64;
use POSIX ();
use Time::HiRes qw(sleep time);
use lib "$FindBin::RealBin/lib";
use GpuCreditHttp;
use WebhookReceiver;
use GpuCredit;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = http_node('webhooks', "log_statement = 'all'", 'log_parameter_max_length_on_error = -1');
my %token = map { $_ => token($node, $_) } qw(ann bob eve ops aud root_admin);
my $reads = token($node, 'ann', 'read');
my $folder = PostgreSQL::Test::Utils::tempdir();
my $receiver = receiver_start($folder, '127.0.0.1');
my $inside = receiver_start($folder, '0.0.0.0');	# what only the daemon's machine reaches
my $site = "http://127.0.0.1:$receiver->{port}";
my @options = ('--webhook-networks', '127.0.0.1/32', '--webhook-timeout', 2, '--statement', 5);
my $keys = 0;
my $twin;			# the process of a second daemon
my @secrets;

# no job starts, so a cancelled one ends at once
$node->safe_psql('web', q{SELECT gpucredit.drain('n1', 'fan')});
daemon_start($node, @options);

END
{
	my $status = $?;

	kill 'KILL', $twin if $twin;
	$? = $status;
}

sub status_is
{
	my ($answer, $status, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	return is($answer->{status}, $status, $name) || diag(substr($answer->{content} // '', 0, 500));
}

# A webhook of a tenant; its number and its secret.
sub set_webhook
{
	my ($who, $url, %more) = @_;
	my $answer = call($token{$who}, 'POST', '/v1/webhooks', { url => $url, key => 'w' . ++$keys, %more });

	die "no webhook: $answer->{content}" if $answer->{status} != 200;
	push @secrets, $answer->{json}{secret};
	return @{ $answer->{json} }{qw(webhook secret)};
}

sub change
{
	my ($who, $webhook, $what, %arguments) = @_;
	my $method = $what eq 'remove' ? 'DELETE' : 'POST';

	return call($token{$who}, 'DELETE', "/v1/webhooks/$webhook?key=c" . ++$keys .
		(exists $arguments{org} ? "&org=$arguments{org}" : '')) if $method eq 'DELETE';
	return call($token{$who}, 'POST', "/v1/webhooks/$webhook" . ($what ? "/$what" : ''), { key => 'c' . ++$keys, %arguments });
}

# A job of a tenant; its number.
sub submit
{
	my ($who) = @_;

	return call($token{$who}, 'POST', '/v1/jobs', { request => '1xH100', wall_limit => 'PT1M', key => 'j' . ++$keys })->{json}{job};
}

sub cancel { return call($token{ $_[0] }, 'POST', "/v1/jobs/$_[1]/cancel", { key => 'x' . ++$keys }) }

# What is known of a delivery, as SQL has it.
sub delivery
{
	my ($webhook, $columns, $where) = @_;

	return query($node, 'web', "SELECT $columns FROM gpucredit_http.delivery WHERE webhook = $webhook" . ($where ? " AND $where" : ''));
}

# Waits until a query answers a value; what it answers in the end.
sub wait_for
{
	my ($sql, $value, $seconds) = @_;
	my $until = time + ($seconds // 60);

	while (1)
	{
		my $got = query($node, 'web', $sql);

		return $got if $got eq $value || time >= $until;
		sleep 0.2;
	}
}

sub signature_of
{
	my ($request, $secret) = @_;
	my $bytes = decode_base64($secret =~ s/^whsec_//r);

	return 'v1,' . encode_base64(hmac_sha256(join('.', @{ $request->{header} }{qw(webhook-id webhook-timestamp)},
				$request->{body}), $bytes), '');
}

sub all_holds
{
	my ($name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	return is(query($node, 'web', 'SELECT v FROM gpucredit_http.verify() v'), '', "$name: nothing waits for ever, and all is counted");
}

# The first webhooks of a database, in transactions that stay open
{
	my %open = map { $_ => connect_to($node, 'web', user => $_) } qw(ann eve);

	$_->do('BEGIN') for values %open;
	$open{ann}->do("SELECT gpucredit_http.set_webhook('acme', 'nlp', 'open', '$site/open')");
	$open{eve}->do("SET LOCAL statement_timeout = '5s'");
	is(eval { $open{eve}->do("SELECT gpucredit_http.set_webhook('rival', '', 'open', '$site/open')") }, 1,
		'the first webhook of a database, uncommitted, keeps no other organisation waiting') || diag($@);
	$_->do('ROLLBACK'), $_->disconnect for values %open;
}

# Making one
my $answer = call($token{ann}, 'POST', '/v1/webhooks', { url => "$site/ok", key => 'first', label => 'mine' });
status_is($answer, 200, 'a tenant makes a webhook without naming its organisation');
my ($ann, $secret) = @{ $answer->{json} }{qw(webhook secret)};
push @secrets, $secret;
like($secret, qr{^whsec_[A-Za-z0-9+/]{43}=$}, 'and gets its secret');
$answer = call($token{ann}, 'POST', '/v1/webhooks', { url => "$site/ok", key => 'first', label => 'mine' });
is($answer->{json}{webhook}, $ann, 'the same key gives the same webhook');
is($answer->{json}{secret}, undef, 'but its secret no more');
ok($answer->{json}{replayed}, 'and says why');
$answer = call($token{ann}, 'POST', '/v1/webhooks', { url => "$site/other", key => 'first', label => 'mine' });
status_is($answer, 422, 'the key with another address is refused');
is($answer->{json}{sqlstate}, 'UC201', 'by the error of keys');

# What is sent
my ($bob, $bobs) = set_webhook('bob', "$site/bob");
my $job = submit('ann');
my ($got) = wait_received($receiver, '/ok', sub { ($_[0]{json}{data}{job} // 0) == $job }, 1);
is($got->{json}{type}, 'job.queued', 'an event is sent, with its kind');
is($got->{method}, 'POST', 'by POST');
is($got->{header}{'content-type'}, 'application/json', 'as JSON');
is($got->{header}{'webhook-signature'}, signature_of($got, $secret), 'signed as standardwebhooks does');
isnt(signature_of($got, $bobs), signature_of($got, $secret), 'with its own secret');
cmp_ok(abs($got->{header}{'webhook-timestamp'} - $got->{at}), '<', 60, 'with the time of the attempt');
my $event = $got->{json}{data}{event};
is($event, query($node, 'web', "SELECT max(event) FROM gpucredit.event WHERE job = $job AND kind = 'job.queued'"),
	'with the number of the event');
like($got->{header}{'webhook-id'}, qr/^evt_${event}_\d+$/, 'which is in its id, too');
unlike($got->{body}, qr/": ?-?\d+\.\d/, 'amounts are texts, no floats');
is(wait_for("SELECT state || ' ' || status FROM gpucredit_http.delivery WHERE webhook = $ann AND event = $event", 'delivered 200'),
	'delivered 200', 'the delivery is known as such');
is($got->{json}{data}{account}, 'nlp', 'it is of the tenant\'s account');
my $other = submit('bob');
wait_received($receiver, '/bob', sub { ($_[0]{json}{data}{job} // 0) == $other }, 1);
is(scalar(grep { $_->{json}{data}{account} ne 'nlp' } received($receiver, '/ok')), 0, 'nothing of another account is sent');
is(scalar(grep { $_->{json}{data}{account} ne 'vision' } received($receiver, '/bob')), 0, 'nor to the other one');
my ($ended) = set_webhook('ann', "$site/ended", kinds => ['job.ended']);
cancel('ann', $job);
wait_received($receiver, '/ended', sub { ($_[0]{json}{data}{job} // 0) == $job }, 1);
is_deeply([ map { $_->{json}{type} } received($receiver, '/ended') ], ['job.ended'], 'a webhook of one kind gets that alone');
my ($slack) = set_webhook('ann', "$site/slack", template => 'slack', kinds => ['job.queued']);
my ($page) = set_webhook('ann', "$site/page", kinds => ['job.queued'], template => {
		routing_key => 'R1', event_action => 'trigger',
		payload => { summary => '{summary}', source => '{org}/{account}', custom_details => '{detail}', n => 1 } });
$job = submit('ann');
($got) = wait_received($receiver, '/slack', sub { 1 }, 1);
is_deeply($got->{json}, { text => "job.queued acme/nlp job $job: granted" }, 'Slack gets a line of text')
  || diag($got->{body});
($got) = wait_received($receiver, '/page', sub { 1 }, 1);
is($got->{json}{routing_key}, 'R1', 'a template of one\'s own has one\'s own words');
is($got->{json}{payload}{source}, 'acme/nlp', 'names are replaced by what the event has');
is(ref $got->{json}{payload}{custom_details}, 'HASH', 'the details are an object');
is(query($node, 'web', q{SELECT gpucredit_http.fill_template('{"a": "{reason} {x}", "b": ["{kind}"]}',
		'{"reason": "{kind} <&\" {detail}", "kind": "k", "detail": {}}')}), '{"a": "{kind} <&\" {detail} {x}", "b": ["k"]}',
	'what an event says is not read as a name');
is(query($node, 'web', q{SELECT gpucredit_http.message_body('"slack"', jsonb_populate_record(NULL::gpucredit.event,
		'{"org": "a", "event": 1, "at": "2030-01-01", "kind": "k.k", "account": "", "reason": "<!channel> &", "detail": {}}'))}),
	'{"text": "k.k a: &lt;!channel&gt; &amp;"}', 'nobody calls a whole channel by a reason');
foreach my $template ('x', [], { a => '{secret}' }, { a => 'x' x 9000 }, { a => '{summary}' x 17 })
{
	status_is(call($token{ann}, 'POST', '/v1/webhooks', { url => "$site/ok", key => 't' . ++$keys, template => $template }), 422,
		'no template: ' . substr(encode_json([$template]), 0, 40));
}
status_is(call($token{ann}, 'POST', '/v1/webhooks', { url => "$site/ok", key => 't', template => '{"a":' x 20 . '1' . '}' x 20 }), 422,
	'a template as text is none');
query_fails($node, 'web', q{SELECT gpucredit_http.check_template((repeat('{"a":', 20) || '1' || repeat('}', 20))::jsonb)}, '22023',
	'nor a deep one');
change('ann', $_, 'remove') for $ended, $slack, $page;
all_holds('after the first ones');

# Who may
status_is(call($token{aud}, 'POST', '/v1/webhooks', { org => 'acme', account => '', url => "$site/aud", key => 'a' }), 403,
	'an auditor makes none');
status_is(call($token{eve}, 'POST', '/v1/webhooks', { org => 'acme', account => 'nlp', url => "$site/eve", key => 'a' }), 404,
	'a tenant makes none of another organisation');
status_is(call($token{bob}, 'POST', '/v1/webhooks', { org => 'acme', account => 'nlp', url => "$site/eve", key => 'a' }), 404,
	'nor of another account');
status_is(call($token{bob}, 'POST', '/v1/webhooks', { org => 'acme', account => '', url => "$site/eve", key => 'a' }), 404,
	'nor of the account above');
status_is(call($token{eve}, 'POST', '/v1/webhooks', { org => '', account => '', url => "$site/eve", key => 'a' }), 403,
	'nor of the events of nodes');
status_is(call($reads, 'POST', '/v1/webhooks', { url => "$site/eve", key => 'a' }), 403, 'nor with a token that only reads');
foreach my $what ('', qw(disable enable secret redeliver remove))
{
	status_is(change('bob', $ann, $what, org => 'acme', $what ? () : (url => "$site/bob")), 404,
		'nobody changes another account\'s webhook: ' . ($what || 'change'));
}
is_deeply(call($token{bob}, 'GET', "/v1/webhooks/$ann/deliveries?org=acme")->{json}{data}, [], 'or reads what it was sent');
is_deeply([ map { $_->{webhook} } @{ call($token{bob}, 'GET', '/v1/webhooks')->{json}{data} } ], [$bob], 'or lists it');
is_deeply(call($token{eve}, 'GET', '/v1/webhooks?org=acme&account=')->{json}{data}, [], 'also by its organisation');
foreach my $call (
	[ claim_deliveries => { most => 10, per_org => 10, lease => 'PT1M' } ], [ report_deliveries => { results => [] } ],
	[ notice_events => { most => 10 } ], [ forget_deliveries => { most => 10 } ],
	[ sign_message => { org => 'acme', webhook => $ann, message => 'x' } ],
	[ new_webhook_secret => { org => 'acme', webhook => $ann } ], [ may_follow => { role => 'ann', org => 'acme', account => '' } ])
{
	status_is(call($token{$_}, 'POST', "/v1/call/http.$call->[0]", $call->[1]), 403, "$_ may not call $call->[0]()")
	  for qw(eve root_admin aud);
}
my ($nodes) = set_webhook('ops', "$site/nodes", org => '', account => '');
call($token{ops}, 'POST', '/v1/nodes/n1/resume', {});
call($token{ops}, 'POST', '/v1/nodes/n1/drain', { reason => 'fan' });
($got) = wait_received($receiver, '/nodes', sub { $_[0]{json}{type} eq 'node.draining' }, 1);
is($got->{json}{data}{org}, '', 'an operator gets the events of nodes');
change('ops', $nodes, 'remove', org => '');

# The secret
my $whole = call($token{ann}, 'GET', '/v1/webhooks')->{json}{data}[0];
is($whole->{url}, "$site/ok", 'who may change a webhook reads its address');
is(call($_, 'GET', '/v1/webhooks?org=acme&account=nlp')->{json}{data}[0]{url}, "$site/...", 'others without its path') for $token{aud}, $reads;
unlike(encode_json($whole), qr/whsec|secret/, 'the list has no secret');
foreach my $table (qw(webhook webhook_secret webhook_feed))
{
	foreach my $role (qw(root_admin aud ops ann gpucredit_gateway))
	{
		my ($rc, undef, $error) = $node->psql('web', "SELECT * FROM gpucredit_http.$table", extra_params => [ '-U', $role ]);

		like($error, qr/permission denied/, "$role does not read table $table");
	}
}

# Changing over to another secret
$answer = change('ann', $ann, 'secret');
my $second = $answer->{json}{secret};
push @secrets, $second;
$job = submit('ann');
($got) = wait_received($receiver, '/ok', sub { ($_[0]{json}{data}{job} // 0) == $job }, 1);
is($got->{header}{'webhook-signature'}, signature_of($got, $second) . ' ' . signature_of($got, $secret),
	'after a renewal both secrets sign');
my $third = change('ann', $ann, 'secret', keep => 'PT0S')->{json}{secret};
push @secrets, $third;
$job = submit('ann');
($got) = wait_received($receiver, '/ok', sub { ($_[0]{json}{data}{job} // 0) == $job }, 1);
is($got->{header}{'webhook-signature'}, signature_of($got, $third), 'or the new one alone at once');

# Addresses that are none
foreach my $url ('', 'x', 'file:///etc/passwd', 'gopher://127.0.0.1/', 'ftp://x/', 'HTTPS://x/', 'https:/x', 'https:///x', 'https://',
	'https://a b/', "https://x/\nHost: y", "https://x/\r\n", 'https://user:pw@x/', 'https://x@127.0.0.1/', 'https://x\\@y/', 'https://x/#f',
	'https://x:0/', 'https://x:70000/', 'https://x:1:2/', 'https://[::1', 'https://[fe80::1%25eth0]/', "https://ex\x{e4}mple/", 'https://x/{a}',
	'https://x/' . 'a' x 2000, 'dict://x/', 'javascript:alert(1)')
{
	status_is(call($token{ann}, 'POST', '/v1/webhooks', { url => $url, key => 'u' . ++$keys }), 422,
		'no address: ' . (substr($url, 0, 40) =~ s/[^ -~]/?/gr));
}
status_is(call($token{ann}, 'POST', '/v1/webhooks', { url => "$site/ok", key => 'u' . ++$keys, kinds => $_ }), 422, 'no kinds: ' . encode_json($_))
  for [], ['job'], ['job.ended; DROP'], [ ('job.ended') x 101 ];

# Addresses that lead to where only the daemon can go
my $port = $inside->{port};
my @private = ("http://127.0.0.2:$port/", "https://127.0.0.2:$port/", "http://2130706434:$port/", "http://0x7f000002:$port/", "http://127.2:$port/",
	"http://0177.0.0.2:$port/", "http://0.0.0.0:$port/", "http://0:$port/", "http://[::1]:$port/", "http://[::]:$port/",
	"http://[::ffff:127.0.0.2]:$port/", "http://[64:ff9b::7f00:2]:$port/", "http://[fe80::1]:$port/", "http://[fd00::1]:$port/",
	'http://169.254.169.254/latest/meta-data/', 'http://10.0.0.1/', 'https://192.168.1.1/', 'http://[2002:7f00:2::1]/', 'http://100.64.0.1/');
my %leads = map { (set_webhook('eve', $_))[0] => $_ } @private;
my $plain = (set_webhook('root_admin', 'http://1.1.1.1/', org => 'rival', account => ''))[0];
submit('eve');
is(wait_for('SELECT count(DISTINCT webhook) FROM gpucredit_http.delivery WHERE webhook IN (' . join(',', $plain, keys %leads) . ') AND problem IS NOT NULL', 20, 60),
	20, 'each of them has failed');
foreach my $webhook (sort { $a <=> $b } keys %leads)
{
	my ($status, $problem) = split /\|/, delivery($webhook, "coalesce(status::text, ''), problem", 'problem IS NOT NULL LIMIT 1'), 2;

	is($status, '', "nothing answered at $leads{$webhook}");
	# without IPv6 such addresses fail before
	like($problem, $leads{$webhook} =~ /\[/ ? qr/./ : qr/private, link-local or reserved/, 'because it was not tried');
}
is(delivery($plain, 'problem', 'problem IS NOT NULL LIMIT 1'), 'http:// is for networks that the operator allows; use https://',
	'http:// goes to networks that the operator allows alone');
is(scalar(received($inside)), 0, 'not one of them reached the machine behind the daemon');
like(delivery((grep { $leads{$_} eq $private[0] } keys %leads)[0], 'problem', 'problem IS NOT NULL LIMIT 1'), qr/private, link-local or reserved/,
	'and the delivery says why');
status_is(call($token{eve}, 'POST', '/v1/webhooks', { url => 'https://x/', key => 'many' }), 422, 'an account has twenty webhooks at most');
change('eve', $_, 'remove') for $plain, keys %leads;
all_holds('after hostile addresses');

# Receivers that fail
receiver_set($receiver, 'location', "http://127.0.0.2:$port/inside");
my %bad = map { $_ => (set_webhook('eve', "$site/$_"))[0] } qw(fail hang redirect huge drip gone busy);
my $memory = memory_of(daemon_pid());
submit('eve');
is(wait_for("SELECT count(DISTINCT webhook) FROM gpucredit_http.delivery WHERE webhook IN ($bad{hang}, $bad{redirect}, $bad{drip}, $bad{busy}) AND problem IS NOT NULL", 4), 4,
	'those that do not answer well have failed');
is(delivery($bad{hang}, 'DISTINCT problem', 'problem IS NOT NULL'), 'it did not answer in time', 'who does not answer is cut off');
is(delivery($bad{drip}, 'DISTINCT problem', 'problem IS NOT NULL'), 'it did not answer in time', 'also who answers byte by byte');
like(delivery($bad{redirect}, 'DISTINCT problem', 'problem IS NOT NULL'), qr/redirects, which is not followed/, 'a redirect is a failure');
is(scalar(received($inside)), 0, 'and is not followed');
is(wait_for("SELECT state FROM gpucredit_http.delivery WHERE webhook = $bad{huge} AND kind = 'job.queued'", 'delivered'), 'delivered',
	'of an endless answer the status is enough');
cmp_ok(memory_of(daemon_pid()) - $memory, '<', 30, 'and it is not kept');
is(wait_for("SELECT count(*) FROM gpucredit_http.delivery WHERE webhook = $bad{fail} AND kind = 'job.queued' AND attempts >= 3 AND status = 500", 1, 60), 1,
	'what fails is sent again');
my @tries;

# an attempt is counted when it begins
for (1 .. 100)
{
	@tries = grep { $_->{json}{type} eq 'job.queued' } received($receiver, '/fail');
	last if @tries > 2;
	sleep 0.1;
}
cmp_ok($tries[1]{at} - $tries[0]{at}, '>', 4.5, 'after a pause');
cmp_ok($tries[2]{at} - $tries[1]{at}, '>=', $tries[1]{at} - $tries[0]{at} - 2, 'which does not shrink');
is($tries[2]{header}{'webhook-id'}, $tries[0]{header}{'webhook-id'}, 'with the same id');
cmp_ok($tries[2]{header}{'webhook-timestamp'}, '>', $tries[0]{header}{'webhook-timestamp'}, 'and its own time');
# another event may be on its way when the first is answered
my @busy = received($receiver, '/busy');
is(scalar(grep { $_->{at} > $busy[0]{at} + 3 } @busy), 0, 'who asks for a pause gets it');
cmp_ok(time - $busy[0]{at}, '>', 6, 'which is longer than a repetition would have waited');
is(query($node, 'web', "SELECT disabled_why FROM gpucredit_http.webhook WHERE webhook = $bad{gone}"), 'gone', 'who is gone is disabled');
is((grep { $_->{kind} eq 'webhook' } @{ call($token{eve}, 'GET', '/v1/alerts')->{json}{data} })[0]{detail}{why}, 'gone', 'with an alert');
is(query($node, 'web', "SELECT count(*) FROM gpucredit.event WHERE kind = 'webhook.disabled' AND org = 'rival'"), 1, 'which is an event, too');
unlike(encode_json(call($token{eve}, 'GET', '/v1/alerts')->{json}), qr{/gone}, 'without the path of its address');
change('eve', $_, 'remove') for values %bad;
all_holds('after failures');

# In order per job
my ($order) = set_webhook('ann', "$site/order");
$job = submit('ann');
receiver_set($receiver, 'bad', $job);
cancel('ann', $job);
my $fine = submit('ann');
cancel('ann', $fine);
is(join(' ', map { $_->{json}{type} } wait_received($receiver, '/order', sub { ($_[0]{json}{data}{job} // 0) == $fine }, 2)),
	'job.queued job.ended', 'a job\'s events come in their order');
wait_received($receiver, '/order', sub { ($_[0]{json}{data}{job} // 0) == $job && $_[0]{status} == 500 }, 1);
sleep 3;
is(join(' ', keys %{ { map { $_->{json}{type} => 1 } grep { ($_->{json}{data}{job} // 0) == $job && $_->{status} == 500 } received($receiver, '/order') } }),
	'job.queued', 'while a job\'s event fails its later ones wait, and other jobs do not');
receiver_set($receiver, 'bad', 0);
is(join(' ', map { $_->{json}{type} } wait_received($receiver, '/order', sub { ($_[0]{json}{data}{job} // 0) == $job && $_[0]{status} == 200 }, 2, 60)),
	'job.queued job.ended', 'when it succeeds they follow');
receiver_set($receiver, 'bad', $job);
$node->safe_psql('web', qq{INSERT INTO gpucredit.event_pending (org, at, kind, account, job, detail)
	SELECT 'acme', clock_timestamp(), 'load.made', 'nlp', $job, '{}' FROM generate_series(1, 3000)});
is(wait_for("SELECT count(*) FROM gpucredit_http.delivery WHERE webhook = $order AND job = $job AND state = 'waiting'", 3000), 3000,
	'three thousand events of a job wait behind one that fails');
$fine = submit('ann');
is(scalar(wait_received($receiver, '/order', sub { ($_[0]{json}{data}{job} // 0) == $fine }, 1)), 1, 'and keep no other job waiting');
change('ann', $order, 'remove');
all_holds('after a job that fails');

# By hand
change('ann', $ann, 'disable');
$job = submit('ann');
sleep 1;
is(scalar(grep { ($_->{json}{data}{job} // 0) == $job } received($receiver, '/ok')), 0, 'a webhook that is disabled gets nothing');
status_is(change('ann', $ann, 'redeliver', event => $event), 409, 'and can be sent nothing by hand');
change('ann', $ann, 'enable', after => $event);
is(scalar(wait_received($receiver, '/ok', sub { ($_[0]{json}{data}{job} // 0) == $job }, 1)), 1,
	'enabled from an event on it gets what it has missed');
my $before = received($receiver, '/ok');
is(change('ann', $ann, 'redeliver', event => $event)->{json}, 1, 'an event is sent again by hand');
my @same = wait_received($receiver, '/ok', sub { $_[0]{json}{data}{event} == $event }, 2);
is(scalar(@same), 2, 'and comes again');
is($same[0]{header}{'webhook-id'}, $same[1]{header}{'webhook-id'}, 'under the same id');
status_is(change('ann', $ann, 'redeliver', event => query($node, 'web', "SELECT max(event) FROM gpucredit.event WHERE account = 'vision'")), 404,
	'an event of another account is not');
# what is still on its way is not sent twice
wait_for("SELECT state FROM gpucredit_http.delivery WHERE webhook = $ann AND event = $event", 'delivered');
$answer = call($token{ann}, 'POST', "/v1/webhooks/$ann/redeliver", { key => 'again', event => $event });
my $answer2 = call($token{ann}, 'POST', "/v1/webhooks/$ann/redeliver", { key => 'again', event => $event });
is($answer2->{json}, $answer->{json}, 'a repeated call answers the same');
wait_received($receiver, '/ok', sub { $_[0]{json}{data}{event} == $event }, 3);
sleep 2;
is(scalar(grep { $_->{json}{data}{event} == $event } received($receiver, '/ok')), 3, 'and has no second effect');

# At each level of isolation, and twice at once
foreach my $level ('READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE')
{
	my $short = lc($level) =~ s/ .*//r;

	is($node->safe_psql('web', qq{
			BEGIN ISOLATION LEVEL $level;
			CREATE TEMPORARY TABLE made AS SELECT * FROM gpucredit_http.set_webhook('acme', 'vision', '$short 1', '$site/ok');
			SELECT gpucredit_http.change_webhook('acme', webhook, '$short 2', '$site/ok', '{job.ended}') FROM made;
			SELECT gpucredit_http.redeliver_webhook('acme', webhook, '$short 3') FROM made;
			SELECT gpucredit_http.disable_webhook('acme', webhook, '$short 4') FROM made;
			SELECT gpucredit_http.enable_webhook('acme', webhook, '$short 5') FROM made;
			SELECT gpucredit_http.remove_webhook('acme', webhook, '$short 6') FROM made;
			COMMIT}), "t\n0\nt\nt\nt", "every call works at $level");
}
my @both = map { connect_to($node, 'web', user => 'ann') } 1, 2;
my $make = "SELECT webhook, secret FROM gpucredit_http.set_webhook('acme', 'nlp', 'twin', '$site/ok')";
$_->do('BEGIN') for @both;
my ($made) = $both[0]->selectrow_array($make);
$both[1]->do($make, { pg_async => 1 });
sleep 0.3;
ok(!$both[1]->pg_ready, 'a twin of a call waits for it');
$both[0]->do('COMMIT');
$both[1]->pg_result;
$both[1]->do('COMMIT');
is(query($node, 'web', "SELECT count(*) FROM gpucredit_http.webhook WHERE account = 'nlp' AND webhook >= $made"), 1, 'and makes no second webhook');
my $remove = "SELECT gpucredit_http.remove_webhook('acme', $made, 'gone')";
$_->do('BEGIN') for @both;
is(($both[0]->selectrow_array($remove))[0], 1, 'a webhook is removed');
my $twice = $both[1]->prepare($remove, { pg_async => 1 });
$twice->execute;
sleep 0.3;
$both[0]->do('COMMIT');
is(eval { $both[1]->pg_result && ($twice->fetchrow_array)[0] }, 0, 'a twin of the call finds it removed') || diag($@);
$twice->finish;
$both[1]->do('ROLLBACK');

# Two calls that make the twentieth and the twenty-first webhook of an account
$node->safe_psql('web', q{SELECT gpucredit_http.set_webhook('acme', 'nlp', 'limit' || n, 'https://example.com/', '{load.made}')
	FROM generate_series((SELECT count(*) FROM gpucredit_http.webhook WHERE account = 'nlp' AND removed_at IS NULL), 18) n});
foreach my $level ('READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE')
{
	$_->do("BEGIN ISOLATION LEVEL $level"), $_->selectrow_array('SELECT count(*) FROM gpucredit_http.callable') for @both;
	my ($last) = $both[0]->selectrow_array("SELECT webhook FROM gpucredit_http.set_webhook('acme', 'nlp', 'a $level', '$site/many')");
	$both[1]->do("SELECT webhook FROM gpucredit_http.set_webhook('acme', 'nlp', 'b $level', '$site/many')", { pg_async => 1 });
	sleep 0.3;
	$both[0]->do('COMMIT');
	ok(!eval { $both[1]->pg_result }, "of two webhooks at once only one is the account's twentieth at $level");
	is($both[1]->state, $level eq 'READ COMMITTED' ? '22023' : '40001', 'and the other is refused');
	$both[1]->do('ROLLBACK');
	change('ann', $last, 'remove');
}
$_->disconnect for @both;
$node->safe_psql('web', q{SELECT gpucredit_http.remove_webhook(org, webhook, 'unlimit' || webhook) FROM gpucredit_http.webhook
	WHERE account = 'nlp' AND url = 'https://example.com/' AND removed_at IS NULL});

# Whoever keeps his webhook locked keeps nobody else waiting
my $locker = connect_to($node, 'web', user => 'ann');
$locker->do('BEGIN');
$locker->do("SELECT gpucredit_http.disable_webhook('acme', $ann, 'locks')");
my $locked = submit('ann');
$other = submit('bob');
is(scalar(wait_received($receiver, '/bob', sub { ($_[0]{json}{data}{job} // 0) == $other }, 1)), 1,
	'while a tenant keeps its webhook locked, others get their events');
$locker->do('ROLLBACK');
is(scalar(wait_received($receiver, '/ok', sub { ($_[0]{json}{data}{job} // 0) == $locked }, 1)), 1, 'and afterwards it gets its own');

# Slow receivers of one organisation
my @slow = map { (set_webhook('eve', "$site/hang"))[0] } 1 .. 20;
submit('eve') for 1 .. 3;
sleep 1;
my $begun = time;
$other = submit('bob');
wait_received($receiver, '/bob', sub { ($_[0]{json}{data}{job} // 0) == $other }, 1);
cmp_ok(time - $begun, '<', 8, 'twenty receivers of one organisation that hang keep no other one waiting');
my ($most_sending, $until) = (0, time + 4);
while (time < $until)
{
	change('eve', $_, 'enable', after => 0) for @slow;
	my ($sending) = HTTP::Tiny->new->get('http://127.0.0.1:' . daemon_port() . '/metrics/gpucreditd')->{content} =~ /^gpucreditd_webhooks_underway (\d+)/m;
	$most_sending = $sending if $sending > $most_sending;
}
cmp_ok($most_sending, '>', 0, 'an organisation that has its events sent again and again is sent some');
my $others = query($node, 'web', q{SELECT count(*) FROM gpucredit_http.delivery WHERE org <> 'rival' AND last_at > clock_timestamp() - interval '8 s'});
cmp_ok($most_sending, '<=', 8 + $others, 'and has no more than a quarter of the daemon\'s connections');
change('eve', $_, 'remove') for @slow;
all_holds('after slow ones');

# Names, as a resolver answers that the owner of a name can have chosen
daemon_stop();
open(my $source, '>', "$folder/resolver.c") or die;
print $source <<'EOT';
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <string.h>
#include <unistd.h>

int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **res)
{
	int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **) = dlsym(RTLD_NEXT, "getaddrinfo");

	if (node != NULL && strstr(node, ".slow") != NULL)
		sleep(12);
	if (node != NULL && strcmp(node, "inside.example") == 0)
		node = "127.0.0.2";
	return real(node, service, hints, res);
}

int getifaddrs(struct ifaddrs **list)
{
	int (*real)(struct ifaddrs **) = dlsym(RTLD_NEXT, "getifaddrs");
	int rc = real(list);

	for (struct ifaddrs *one = rc == 0 ? *list : NULL; one != NULL; one = one->ifa_next)
		if (one->ifa_addr != NULL && one->ifa_addr->sa_family == AF_INET)
			((struct sockaddr_in *) one->ifa_addr)->sin_addr.s_addr = inet_addr("8.8.4.4");
	return rc;
}
EOT
close($source);
system('cc', '-shared', '-fPIC', '-o', "$folder/resolver.so", "$folder/resolver.c") == 0 or die 'cc failed';
{
	local $ENV{LD_PRELOAD} = "$folder/resolver.so";

	daemon_start($node, @options);
}
my %named = map { $_ => (set_webhook('eve', $_))[0] } "http://inside.example:$port/", 'https://8.8.4.4/', map { "https://a$_.slow/" } 1 .. 12;
submit('eve');
sleep 2.5;
$begun = time;
$other = submit('bob');
wait_received($receiver, '/bob', sub { ($_[0]{json}{data}{job} // 0) == $other }, 1);
cmp_ok(time - $begun, '<', 10, 'names whose servers do not answer keep no other organisation waiting');
foreach my $url ("http://inside.example:$port/", 'https://8.8.4.4/')
{
	my $sql = "SELECT count(*) FROM gpucredit_http.delivery WHERE webhook = $named{$url} AND problem LIKE '%private, link-local%'";

	is(wait_for($sql, 1, 30), 1, $url =~ /inside/ ? 'a name that leads to a private address is refused'
		: 'so is a public address of the daemon\'s own machine');
}
is(scalar(received($inside)), 0, 'and nothing was sent there');
change('eve', $_, 'remove') for values %named;
$begun = time;
is(daemon_stop(), 0, 'a daemon that waits for names ends when it is asked to');
cmp_ok(time - $begun, '<', 8, 'in time');
daemon_start($node, @options);
all_holds('after names');

# Killed in the middle
my ($kill) = set_webhook('ann', "$site/slow");
my @jobs;
my $waiting = 0;
for (1 .. 10)	# on a busy machine all messages may have arrived before
{
	daemon_start($node, @options) if @jobs;
	push @jobs, map { submit('ann') } 1 .. 6;
	wait_received($receiver, '/slow', sub { 1 }, @jobs - 4);
	daemon_stop('KILL');
	last if $waiting = delivery($kill, 'count(*)', "state = 'waiting'");
}
cmp_ok($waiting, '>', 0, 'the daemon is killed while messages are on their way');
daemon_start($node, @options);
push @jobs, map { submit('ann') } 1 .. 3;
kill_server($node);
sleep 0.5;
$node->start;
call($token{ann}, 'GET', '/v1/me') for 1 .. 40;	# each worker connects again
my %wanted = map { $_ => 1 } split /\n/, query($node, 'web', "SELECT event FROM gpucredit.event WHERE kind = 'job.queued' AND job IN (" . join(',', @jobs) . ')');
is(wait_for("SELECT count(*) FROM gpucredit_http.delivery WHERE webhook = $kill AND state = 'delivered' AND kind = 'job.queued'", scalar(@jobs), 60), scalar(@jobs),
	'daemon and database killed: each event is delivered in the end');
my %came;
push @{ $came{ $_->{json}{data}{event} } }, $_->{header}{'webhook-id'} for grep { $_->{json}{type} eq 'job.queued' } received($receiver, '/slow');
is(scalar(grep { !$came{$_} } keys %wanted), 0, 'none is lost');
is(scalar(grep { my %id = map { $_ => 1 } @$_; keys %id > 1 } values %came), 0, 'one that came twice has the same id');
note(scalar(grep { @$_ > 1 } values %came) . ' came twice');
change('ann', $kill, 'remove');
all_holds('after the kills');

# Two daemons share the work
my $port2 = PostgreSQL::Test::Cluster::get_free_port();
$twin = fork() // die "could not fork: $!";
if ($twin == 0)
{
	open(STDERR, '>>', "$folder/twin.log") && open(STDOUT, '>&', \*STDERR) or POSIX::_exit(1);
	exec "$FindBin::RealBin/../gpucreditd", '--port', $port2, '--database',
	  sprintf('host=%s port=%s dbname=web user=gpucredit_gateway', $node->host, $node->port), @options or POSIX::_exit(127);
}
my ($two) = set_webhook('ann', "$site/two", kinds => ['load.made']);
$node->safe_psql('web', q{SELECT gpucredit_internal.write_event('load.made', 'acme', 'nlp') FROM generate_series(1, 300)});
$begun = time;
is(wait_for("SELECT count(*) FROM gpucredit_http.delivery WHERE webhook = $two AND state = 'delivered'", 300, 60), 300, 'two daemons deliver 300 events');
diag(sprintf('300 events to one webhook, by two daemons: %.1f s', time - $begun));
my %times;
$times{ $_->{json}{data}{event} }++ for received($receiver, '/two');
is(scalar(grep { $_ > 1 } values %times), 0, 'each of them once');
my $metrics = HTTP::Tiny->new->get("http://127.0.0.1:$port2/metrics/gpucreditd")->{content};
note($metrics =~ /(gpucreditd_webhook_attempts_total\{result="succeeded"\} \d+)/);
kill 'TERM', $twin;
waitpid $twin, 0;
is($?, 0, 'a daemon ends when it is asked to');
undef $twin;
change('ann', $two, 'remove');

# Rights that are gone
$node->safe_psql('web', q{SELECT gpucredit.unbind_tenant('bob', 'acme', 'vision')});
my $count = received($receiver, '/bob');
$node->safe_psql('web', q{SELECT gpucredit_internal.write_event('load.made', 'acme', 'vision')});
is(wait_for("SELECT disabled_why FROM gpucredit_http.webhook WHERE webhook = $bob", 'rights'), 'rights',
	'a webhook whose role may read the events no more is disabled');
my $count2 = received($receiver, '/bob');
is($count2, $count, 'and was sent nothing more');
is(query($node, 'web', "SELECT count(*) FROM gpucredit.alert WHERE org = 'acme' AND kind = 'webhook' AND detail ->> 'why' = 'rights'"), 1, 'with an alert');

# Organisations that want much at once, without a daemon
daemon_stop();
is($node->safe_psql('web', q{
		BEGIN;
		DO $$
		DECLARE
			w bigint;
		BEGIN
			PERFORM gpucredit_internal.write_event('load.made', 'rival', '') FROM generate_series(1, 6000);
			WHILE EXISTS (SELECT FROM gpucredit.event_pending) LOOP
				PERFORM gpucredit_http.number_events();
			END LOOP;
			FOR i IN 1 .. 15 LOOP
				w := (gpucredit_http.set_webhook('rival', '', 'far' || i, 'https://example.com/')).webhook;
				PERFORM gpucredit_http.enable_webhook('rival', w, 'far off' || i, 0);
			END LOOP;
		END $$;
		SELECT count(*) FROM gpucredit_http.claim_deliveries(32, 8, '1 minute') WHERE org = 'rival';
		SELECT count(*) <= 5000, max(webhook) - min(webhook) FROM gpucredit_http.delivery WHERE org = 'rival' AND state = 'waiting';
		ROLLBACK}), "4\nt|0", 'fifteen webhooks that begin far behind have one page read at once');
is($node->safe_psql('web', q{
		BEGIN;
		DO $$
		BEGIN
			FOR i IN 1 .. 4 LOOP
				PERFORM gpucredit.create_account('hog' || i);
				PERFORM gpucredit_http.set_webhook('hog' || i, '', 'hog' || n, 'https://example.com/') FROM generate_series(1, 4) n;
				PERFORM gpucredit_internal.write_event('load.made', 'hog' || i, '') FROM generate_series(1, 20);
			END LOOP;
			WHILE EXISTS (SELECT FROM gpucredit.event_pending) LOOP
				PERFORM gpucredit_http.number_events();
			END LOOP;
			PERFORM gpucredit_http.notice_events(1000);
		END $$;
		SELECT max(n), min(n) > 0, sum(n) <= 26 FROM (SELECT org, count(*) AS n
			FROM gpucredit_http.claim_deliveries(32, 8, '1 minute') WHERE org LIKE 'hog%' GROUP BY org) c;
		ROLLBACK}), '8|t|t', 'four organisations with slow receivers leave room for others');
is($node->safe_psql('web', q{
		BEGIN;
		CREATE TEMPORARY TABLE claimed AS SELECT NULL::bigint AS n, NULL::text AS org, NULL::bigint AS webhook, NULL::bigint AS event LIMIT 0;
		DO $$
		BEGIN
			PERFORM gpucredit.create_account('patient'), gpucredit_http.set_webhook('patient', '', 'waits', 'https://example.com/');
			PERFORM gpucredit_internal.write_event('load.made', 'patient', '') FROM generate_series(1, 4);
			WHILE EXISTS (SELECT FROM gpucredit.event_pending) LOOP
				PERFORM gpucredit_http.number_events();
			END LOOP;
			PERFORM gpucredit_http.notice_events(1000);
			INSERT INTO claimed SELECT row_number() OVER (), c.org, c.webhook, c.event
			FROM gpucredit_http.claim_deliveries(32, 8, '1 minute') c WHERE c.org = 'patient';
			PERFORM gpucredit_http.report_deliveries(jsonb_build_array(jsonb_build_object('org', c.org, 'webhook', c.webhook,
				'event', c.event, 'attempt', 1, 'status', s.status, 'retry_after', s.retry_after, 'problem', nullif(s.status, 200))))
			FROM claimed c JOIN (VALUES (1, 429, 600), (2, 500, NULL), (3, 200, NULL)) s (n, status, retry_after) USING (n);
		END $$;
		SELECT count(*) FROM claimed;
		SELECT paused_until > now() + interval '9 minutes', due_at >= paused_until FROM gpucredit_http.webhook WHERE org = 'patient';
		SELECT count(*) FROM gpucredit_http.verify();
		ROLLBACK}), "4\nt|t\n0", 'a pause that a receiver asks for is kept, however attempts end that began before it');
is($node->safe_psql('web', q{
		BEGIN;
		CREATE OR REPLACE FUNCTION gpucredit_http.message_id(e gpucredit.event) RETURNS text LANGUAGE plpgsql AS $$
		BEGIN
			RETURN CASE WHEN (e).org = 'poison' THEN 1 / 0 ELSE 1 END;
		END $$;
		DO $$
		BEGIN
			PERFORM gpucredit.create_account(o), gpucredit_http.set_webhook(o, '', 'made ' || o, 'https://example.com/'),
				gpucredit_internal.write_event('load.made', o, '') FROM unnest('{poison,sound}'::text[]) o;
			WHILE EXISTS (SELECT FROM gpucredit.event_pending) LOOP
				PERFORM gpucredit_http.number_events();
			END LOOP;
			PERFORM gpucredit_http.notice_events(1000);
		END $$;
		SELECT org, count(*) FROM gpucredit_http.claim_deliveries(32, 8, '1 minute') WHERE org IN ('poison', 'sound') GROUP BY org;
		SELECT DISTINCT state, attempts, underway, problem FROM gpucredit_http.delivery WHERE org = 'poison' AND attempts > 0;
		SELECT count(*) FROM gpucredit_http.verify();
		ROLLBACK}), "sound|1\nwaiting|1|f|the message could not be made (22012)\n0", 'a message that cannot be made keeps no others from being sent');
all_holds('after much at once');

# A day, and a week, by the clock of the database
foreach my $days (0, 9)
{
	my $simulated = $node->safe_psql('web', sprintf(q{
		CREATE TEMPORARY TABLE attempt (at timestamptz, event bigint);
		DO $$
		DECLARE
			t timestamptz := clock_timestamp() - interval '20 days';
			made timestamptz := t;
			ends CONSTANT timestamptz := t + interval '%d days';
			w bigint;
			c record;
		BEGIN
			PERFORM set_config('gpucredit.clock', t::text, false);
			w := (gpucredit_http.set_webhook('rival', '', 'simulated%d', 'https://example.com/')).webhook;
			FOR i IN 1 .. 2000 LOOP
				PERFORM set_config('gpucredit.clock', t::text, false);
				IF made <= t THEN
					PERFORM gpucredit_internal.write_event('load.made', 'rival', '');
					made := CASE WHEN t < ends THEN t + interval '12 hours' ELSE 'infinity' END;
				END IF;
				WHILE EXISTS (SELECT FROM gpucredit.event_pending) LOOP
					PERFORM gpucredit_http.number_events();	/* the worker may be at it */
				END LOOP;
				PERFORM gpucredit_http.notice_events(1000);
				FOR c IN SELECT * FROM gpucredit_http.claim_deliveries(100, 100, '1 minute') LOOP
					CONTINUE WHEN c.webhook <> w;
					INSERT INTO attempt VALUES (t, c.event);
					PERFORM gpucredit_http.report_deliveries(jsonb_build_array(jsonb_build_object(
						'org', c.org, 'webhook', c.webhook, 'event', c.event, 'attempt', c.attempt,
						'status', 500, 'problem', 'status 500')));
				END LOOP;
				SELECT least(o.due_at, made) INTO t FROM gpucredit_http.webhook o WHERE o.webhook = w;
				EXIT WHEN t = 'infinity';
			END LOOP;
		END $$;
		SELECT w.disabled_why, extract(epoch FROM w.disabled_at - w.created_at) / 86400 BETWEEN 7 AND 7.6, d.n
		FROM gpucredit_http.webhook w, LATERAL (SELECT count(*) AS n FROM gpucredit_http.delivery d
			WHERE d.webhook = w.webhook AND d.state = 'failed') d
		ORDER BY w.webhook DESC LIMIT 1;
		SELECT count(*) BETWEEN 12 AND 30, max(a.at) - min(a.at) BETWEEN '24 hours' AND '24 hours 6 minutes',
			bool_and(a.pause >= a.earlier * 0.8 OR a.last)
		FROM (SELECT a.at, a.at - lag(a.at) OVER w AS pause, lead(a.at) OVER w IS NULL AS last,
				lag(a.at) OVER w - lag(a.at, 2) OVER w AS earlier
			FROM attempt a WHERE a.event = (SELECT min(event) FROM attempt) WINDOW w AS (ORDER BY a.at)) a;
		SELECT gpucredit_http.remove_webhook('rival', max(webhook), 'removes%d') FROM gpucredit_http.webhook}, $days, $days, $days));

	note($simulated);
	if ($days == 0)
	{
		like($simulated, qr/^\|\|1\n/m, 'after a day the event is given up, and the webhook goes on');
		like($simulated, qr/^t\|t\|t$/m, 'it was sent again for a day, after pauses that grow');
	}
	else
	{
		like($simulated, qr/^failures\|t\|\d+$/m, 'after a week of failures the webhook is disabled');
	}
}
is(query($node, 'web', "SELECT count(*) FROM gpucredit.alert WHERE org = 'rival' AND kind = 'webhook' AND detail ->> 'why' = 'failures'"), 1,
	'its owner gets an alert');

# A receiver with TLS
system(qq{openssl req -x509 -newkey rsa:2048 -nodes -keyout $folder/ca.key -out $folder/ca.pem -days 2 -subj /CN=ca >/dev/null 2>&1
	for name in 127.0.0.1 127.0.0.9; do
		openssl req -newkey rsa:2048 -nodes -keyout $folder/\$name.key -out $folder/\$name.csr -subj /CN=\$name >/dev/null 2>&1
		echo subjectAltName=IP:\$name >$folder/\$name.ext
		openssl x509 -req -in $folder/\$name.csr -CA $folder/ca.pem -CAkey $folder/ca.key -CAcreateserial -days 2 \\
			-extfile $folder/\$name.ext -out $folder/\$name.pem >/dev/null 2>&1
	done}) == 0 or die "openssl failed";
my ($tls, $foreign) = map { receiver_start($folder, '127.0.0.1', SSL_cert_file => "$folder/$_.pem", SSL_key_file => "$folder/$_.key") } qw(127.0.0.1 127.0.0.9);
# a handshake takes a busy machine some seconds
daemon_start($node, @options, '--webhook-timeout', 30, '--webhook-ca', "$folder/ca.pem");
my ($good) = set_webhook('ann', "https://127.0.0.1:$tls->{port}/tls");
my ($wrong) = set_webhook('ann', "https://127.0.0.1:$foreign->{port}/tls");
$job = submit('ann');
is(scalar(wait_received($tls, '/tls', sub { ($_[0]{json}{data}{job} // 0) == $job }, 1)), 1, 'a receiver with a certificate gets the event by TLS');
is(wait_for("SELECT count(*) FROM gpucredit_http.delivery WHERE webhook = $wrong AND problem IS NOT NULL AND status IS NULL AND job = $job", 1), 1,
	'one with another\'s certificate is not sent it');
is(scalar(received($foreign)), 0, 'not even its headers');
change('ann', $wrong, 'remove');
wait_for("SELECT count(*) FROM gpucredit_http.delivery WHERE state = 'waiting'", 0);
daemon_stop();

# A dump
$node->safe_psql('postgres', 'CREATE DATABASE copy');
my $dump = "$folder/web.dump";
$node->command_ok([ 'pg_dump', '-Fc', '-f', $dump, '-d', $node->connstr('web') ], 'the database is dumped');
$node->command_ok([ 'pg_restore', '-d', $node->connstr('copy'), $dump ], 'and restored');
foreach my $table (qw(webhook webhook_secret webhook_feed delivery))
{
	my $sql = "SELECT count(*) || md5(string_agg(t::text, '' ORDER BY t::text)) FROM gpucredit_http.$table t";

	is(query($node, 'copy', $sql), query($node, 'web', $sql), "table $table is in it, so receivers keep their secrets and nothing is sent twice");
}
is(query($node, 'copy', 'SELECT v FROM gpucredit_http.verify() v'), '', 'the copy holds together');
cmp_ok(query($node, 'copy', q{SELECT (gpucredit_http.set_webhook('acme', '', 'new', 'https://example.com/')).webhook}), '>', $wrong,
	'and goes on with new numbers');

# No secret is in a log, nor in what is kept of calls
foreach my $log ($node->logfile, $node->logfile =~ s/\.log$/-gpucreditd.log/r)
{
	my $text = slurp_file($log);

	is(scalar(grep { index($text, $_) >= 0 || index($text, substr($_, 6)) >= 0 } grep { defined } @secrets), 0, "no secret is in $log");
}
is(query($node, 'web', q{SELECT count(*) FROM gpucredit_http.event e WHERE e.detail::text LIKE '%whsec%' OR e.detail::text LIKE '%/ok%'}), 0,
	'nor in the audit log, nor a path');
is(query($node, 'web', q{SELECT count(*) FROM gpucredit_http.request r WHERE r.result::text LIKE '%whsec%'}), 0, 'nor with a key');
all_holds('in the end');
verify_empty($node, 'web');
$node->stop;
done_testing();
