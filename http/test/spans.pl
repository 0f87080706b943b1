# spans.pl: spans of jobs that were submitted with a trace, as a collector of
# OpenTelemetry gets them, from two daemons that take turns; again when the
# collector fails; and without keeping anything else waiting
#
# Packages: libmicrohttpd-dev libjansson-dev libcurl4-openssl-dev libcjose-dev libssl-dev libpq-dev libhttp-tiny-perl
use strict;
use warnings;
use FindBin;
use HTTP::Tiny;
use JSON::PP;
use POSIX ();
use Time::HiRes qw(sleep time);
use lib "$FindBin::RealBin/lib";
use GpuCreditHttp;
use WebhookReceiver;
use GpuCredit;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = http_node('spans');
my %token = map { $_ => token($node, $_) } qw(ann eve root_admin);
my $folder = PostgreSQL::Test::Utils::tempdir();
my $collector = receiver_start($folder, '127.0.0.1');
my $site = "http://127.0.0.1:$collector->{port}";
my @options = ('--otlp-endpoint', "$site/", '--otlp-headers', "$folder/headers", '--webhook-networks', '127.0.0.1/32');
my $twin;			# the process of a second daemon
my $keys = 0;

END
{
	my $status = $?;

	kill 'KILL', $twin if $twin;
	$? = $status;
}

append_to_file("$folder/headers", "# a key\nAuthorization: Bearer collector-key\r\n\nX-Scope: gpus\n");

# A job of a tenant, submitted with a traceparent; its number.
sub submit
{
	my ($who, $traceparent) = @_;
	my $answer = call($token{$who}, 'POST', '/v1/jobs', { request => '1xH100', wall_limit => 'PT1H', key => 'j' . ++$keys },
		defined $traceparent ? (traceparent => $traceparent) : ());

	return $answer->{json}{job} // die "no job: $answer->{content}";
}

# A job from its submission to its bill.
sub run_job
{
	my ($who, $traceparent, $outcome) = @_;
	my $org = $who eq 'ann' ? 'acme' : 'rival';
	my $job = submit($who, $traceparent);

	$node->safe_psql('web', $_) foreach q{SELECT count(*) FROM gpucredit.heartbeat('n1', '{0-7}', '{}')}, 'SELECT count(*) FROM gpucredit.place()',
	  "SELECT gpucredit.meter('$org', $job, 1, '0.01 s')", "SELECT gpucredit.settle('$org', $job, 1, '$outcome')";
	return $job;
}

# The spans that the collector has accepted, in the order in which they came.
sub spans
{
	return map { { %$_, (map { ($_->{key} => (values %{ $_->{value} })[0]) } @{ $_->{attributes} }) } }
	  map { @{ $_->{spans} } } map { @{ $_->{scopeSpans} } } map { @{ $_->{json}{resourceSpans} } }
	  grep { $_->{status} == 200 } received($collector, '/v1/traces');
}

# Waits until the collector has so many different spans of a trace; these.
sub wait_spans
{
	my ($trace, $count) = @_;
	my $until = time + 180;

	while (1)
	{
		my %span = map { $_->{spanId} => $_ } grep { $_->{traceId} eq $trace } spans();
		my @spans = values %span;

		return @spans if @spans >= $count || time >= $until;
		sleep 0.1;
	}
}

sub wait_until
{
	my ($holds) = @_;
	my $until = time + 180;

	sleep 0.1 until $holds->() || time >= $until;
	return $holds->();
}

sub names { return join(' ', sort map { $_->{name} } @_) }
sub trace { return sprintf('%032x', $_[0]) }
sub parent { return '00-' . trace($_[0]) . '-00f067aa0ba902b7-' . ($_[1] // '01') }

sub counter
{
	my ($name) = @_;

	return (HTTP::Tiny->new(timeout => 60)->get('http://127.0.0.1:' . daemon_port() . '/metrics/gpucreditd')->{content}
		  =~ /^\Q$name\E (\d+)$/m)[0];
}

# The lease of a daemon that was killed need not be waited for.
sub end_lease
{
	$node->safe_psql('web', q{UPDATE gpucredit_http.span_feed SET leased_until = gpucredit.now()});
	return;
}

# What happened before there was a collector is not sent.
daemon_start($node);
run_job('ann', parent(1), 'completed');
daemon_stop();
$node->safe_psql('web', 'SELECT gpucredit_http.number_events()');

daemon_start($node, @options);
$twin = fork() // die "could not fork: $!";
if ($twin == 0)
{
	open(STDERR, '>>', "$folder/twin.log") && open(STDOUT, '>&', \*STDERR) or POSIX::_exit(1);
	exec "$FindBin::RealBin/../gpucreditd", '--port', PostgreSQL::Test::Cluster::get_free_port(),
	  '--database', sprintf('host=%s port=%s dbname=web user=gpucredit_gateway', $node->host, $node->port), @options
	  or POSIX::_exit(127);
}
ok(wait_until(sub { $node->safe_psql('web', 'SELECT count(*) FROM gpucredit_http.span_feed') == 1 }), 'daemons look for spans');
call($token{ann}, 'POST', '/v1/webhooks', { url => "$site/ok", key => 'w', kinds => ['job.ended'] });

my $job = run_job('ann', parent(2), 'completed');
my @spans = wait_spans(trace(2), 7);
is(names(@spans), 'place run settle start submit wait webhook', 'a job has a span for each of its parts');
my %span = map { $_->{name} => $_ } @spans;
my ($first) = received($collector, '/v1/traces');
is($first->{method}, 'POST', 'they are posted');
is($first->{header}{'content-type'}, 'application/json', '... as JSON');
is($first->{header}{authorization}, 'Bearer collector-key', '... with the headers of the operator\'s file');
is($first->{header}{'x-scope'}, 'gpus', '... all of them');
is($first->{json}{resourceSpans}[0]{resource}{attributes}[0]{value}{stringValue}, 'gpucredit', '... for the service gpucredit');
is($span{submit}{parentSpanId}, '00f067aa0ba902b7', 'submit is below the caller\'s span');
is(join(' ', sort map { $_->{parentSpanId} } grep { $_->{name} ne 'submit' } @spans), join(' ', ($span{submit}{spanId}) x 6), 'all others are below submit');
is(scalar(grep { $_->{spanId} !~ /^[0-9a-f]{16}$/ } @spans), 0, 'identifiers have eight bytes');
is(scalar(grep { $_->{endTimeUnixNano} !~ /^\d{19}$/ || $_->{startTimeUnixNano} > $_->{endTimeUnixNano} } @spans), 0, 'no span ends before it begins');
my ($submitted, $started, $running, $ended) = split /\|/, $node->safe_psql('web', qq{
	SELECT gpucredit_http.span_instant(j.submitted_at), gpucredit_http.span_instant(a.started_at),
		gpucredit_http.span_instant(a.running_at), gpucredit_http.span_instant(a.ended_at)
	FROM gpucredit.job j JOIN gpucredit.attempt a USING (org, job) WHERE j.org = 'acme' AND j.job = $job});
is("$span{$_->[0]}{startTimeUnixNano} $span{$_->[0]}{endTimeUnixNano}", "$_->[1] $_->[2]", "when $_->[0] was")
  foreach [ submit => $submitted, $submitted ], [ wait => $submitted, $started ], [ place => $started, $started ],
  [ start => $started, $running ], [ run => $running, $ended ], [ settle => $ended, $ended ];
is_deeply([ map { $span{settle}{"gpucredit.$_"} } qw(org account job attempt outcome billed) ],
	[ 'acme', 'acme/nlp' =~ s{.*/}{}r, $job, 1, 'completed', $node->safe_psql('web', "SELECT billed::numeric FROM gpucredit.attempt WHERE org = 'acme' AND job = $job") ],
	'settle has the bill');
is("$span{place}{'gpucredit.nodes'} $span{place}{'gpucredit.gpus'} $span{place}{'gpucredit.gpu_type'}", 'n1 1 H100', 'place has the devices');
is("$span{webhook}{kind} $span{webhook}{'http.response.status_code'} $span{webhook}{'gpucredit.kind'}", '3 200 job.ended', 'webhook has the answer');
is(scalar(grep { exists $_->{status} } @spans), 0, 'what went well has no error');

# Traces that nobody records, and none
my @quiet = (submit('ann', parent(3, '00')), submit('ann'));
call($token{ann}, 'POST', "/v1/jobs/$_/cancel", { key => "x$_" }) foreach @quiet;
my $failed = run_job('eve', parent(4), 'failed');
$node->safe_psql('web', qq{SELECT gpucredit.cancel('rival', $failed, 'enough')});
@spans = wait_spans(trace(4), 6);
is(scalar(grep { $_->{name} eq 'run' && $_->{status}{code} == 2 && $_->{status}{message} eq 'failed' } @spans), 1, 'a run that failed says so');
is((grep { $_->{name} eq 'settle' } @spans)[0]{'gpucredit.outcome'}, 'failed', '... and its settlement');
$job = submit('ann', parent(5));
call($token{ann}, 'POST', "/v1/jobs/$job/cancel", { key => "x$job" });
@spans = wait_spans(trace(5), 3);
is(names(@spans), 'submit wait webhook', 'a job that was cancelled before it started has waited');
is_deeply([ grep { $_->{traceId} eq trace(1) || $_->{traceId} eq trace(3) || $_->{traceId} !~ /^0{31}\d$/ } spans() ], [],
	'nothing is sent of what was before, of traces that are not recorded, and of jobs without one');

is($node->safe_psql('web', q{SELECT string_agg(flags, ' ' ORDER BY flags) FROM unnest('{00,01,02,03,fe,ff,"",0,01-x}'::text[]) flags
	WHERE gpucredit_http.is_sampled('00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-' || flags)}), '01 01-x 03 ff', 'the lowest bit of the flags decides');

# Who may
foreach my $call ([ claim_spans => { lease_time => 'PT1M' } ], [ report_spans => { lease => 1, done => JSON::PP::true } ])
{
	is(call($token{$_}, 'POST', "/v1/call/http.$call->[0]", $call->[1])->{status}, 403, "$_ may not call $call->[0]()")
	  foreach qw(eve root_admin);
}
foreach my $table (qw(span_feed span_delivery))
{
	my (undef, undef, $error) = $node->psql('web', "SELECT * FROM gpucredit_http.$table", extra_params => [ '-U', 'eve' ]);

	like($error, qr/permission denied/, "a tenant does not read table $table");
}

# A collector that fails gets the same again, and nothing else waits for it.
receiver_set($collector, 'traces', 503);
$job = run_job('ann', parent(6), 'completed');
ok(wait_until(sub { grep { $_->{status} == 503 } received($collector, '/v1/traces') }), 'the collector fails');
is(call($token{ann}, 'GET', '/v1/balance')->{status}, 200, '... requests are answered');
wait_received($collector, '/ok', sub { ($_[0]{json}{data}{job} // 0) == $job }, 1, 180);
cmp_ok(scalar(grep { ($_->{json}{data}{job} // 0) == $job } received($collector, '/ok')), '>=', 1, '... and webhooks delivered');
receiver_set($collector, 'traces', 200);
end_lease();
is(names(wait_spans(trace(6), 7)), 'place run settle start submit wait webhook', '... and later it has all spans');

# One that refuses gets what comes after.
receiver_set($collector, 'traces', 400);
$job = submit('eve', parent(7));
ok(wait_until(sub { grep { $_->{status} == 400 } received($collector, '/v1/traces') }), 'the collector refuses spans');
ok(wait_until(sub { $node->safe_psql('web', "SELECT leased_until = '-infinity' FROM gpucredit_http.span_feed") eq 't' }), '... which is final');
receiver_set($collector, 'traces', 200);
submit('eve', parent(8));
wait_spans(trace(8), 1);
is(scalar(grep { $_->{traceId} eq trace(7) } spans()), 0, '... so they are left out, and later ones are sent');

# One daemon from here on: what it counts, and what an answer without end costs
kill 'TERM', $twin;
waitpid $twin, 0;
is($?, 0, 'SIGTERM ends a daemon that sends spans');
$twin = undef;
my $memory = memory_of(daemon_pid());
receiver_set($collector, 'traces', 'huge');
submit('eve', parent(9));
is(names(wait_spans(trace(9), 1)), 'submit', 'of an answer without end the status is enough');
cmp_ok(memory_of(daemon_pid()) - $memory, '<', 30, '... and it is not kept');

# A daemon that is killed while the collector is silent
receiver_set($collector, 'traces', 'hang');
submit('eve', parent(10));
ok(wait_until(sub { grep { $_->{body} =~ /${\ trace(10)}/ } received($collector, '/v1/traces') }), 'a collector that says nothing');
is(call($token{ann}, 'GET', '/v1/balance')->{status}, 200, '... keeps no request waiting');
daemon_stop('KILL');
receiver_set($collector, 'traces', 200);
my $before = scalar received($collector, '/v1/traces');
daemon_start($node, @options);
end_lease();
ok(wait_until(sub { scalar(received($collector, '/v1/traces')) > $before }), 'after the daemon was killed another one sends the spans again');
my @again = map { @{ $_->{json}{resourceSpans}[0]{scopeSpans}[0]{spans} } } received($collector, '/v1/traces');
@again = grep { $_->{traceId} eq trace(10) } @again;
is(scalar(keys %{ { map { $_->{spanId} => 1 } @again } }), 1, '... which are the same ones');
cmp_ok(scalar(@again), '>=', 2, '... twice, because nobody knew what became of the first time');
ok(wait_until(sub { counter('gpucreditd_spans_total{result="accepted"}') > 0 }), '... and counts them');
receiver_set($collector, 'traces', 'hang');
submit('eve', parent(11));
ok(wait_until(sub { grep { $_->{body} =~ /${\ trace(11)}/ } received($collector, '/v1/traces') }), 'a daemon that waits for the collector');
is(daemon_stop(), 0, '... ends at once');

# Several daemons take turns: what one has leased, no other sends.
end_lease();
my $claim = q{SELECT count(*) FROM gpucredit_http.claim_spans('1 hour')};
my $leased = $node->safe_psql('web', $claim);
my $lease = $node->safe_psql('web', 'SELECT lease FROM gpucredit_http.span_feed');
cmp_ok($leased, '>', 0, 'what was not sent is leased to the next daemon');
is($node->safe_psql('web', $claim), 0, '... and to no other one meanwhile');
is($node->safe_psql('web', "SELECT gpucredit_http.report_spans($lease, false)"), 't', 'a failure is reported');
is($node->safe_psql('web', $claim), $leased, '... and the same spans are leased again');
is($node->safe_psql('web', "SELECT gpucredit_http.report_spans($lease, true)"), 'f', 'who reports after the end of his lease ends no other one');
is($node->safe_psql('web', $claim), 0, '... which lasts');
is($node->safe_psql('web', "SELECT gpucredit_http.report_spans($lease + 1, true)"), 't', 'a success is reported');
is($node->safe_psql('web', $claim), 0, '... and what was sent is not leased again');
is($node->safe_psql('web', 'SELECT v FROM gpucredit_http.verify() v'), '', 'nothing waits for ever');
verify_empty($node, 'web');
done_testing();
