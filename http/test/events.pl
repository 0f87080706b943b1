# events.pl: the feed of events by HTTP: who gets which, how soon, that nothing
# is lost when a daemon or the database is killed, and what clients that read
# slowly, or not at all, cost
#
# Long: it takes minutes
# Packages: libmicrohttpd-dev libjansson-dev libcurl4-openssl-dev libcjose-dev libssl-dev libpq-dev libhttp-tiny-perl
use strict;
use warnings;
use FindBin;
use JSON::PP;
use List::Util qw(max sum);
use Time::HiRes qw(sleep time);
use lib "$FindBin::RealBin/lib";
use GpuCreditHttp;
use EventStream;
use GpuCredit;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = http_node('events');
my %token = map { $_ => token($node, $_) } qw(ann bob eve ops aud root_admin);
my $job = 0;

daemon_start($node, '--streams', 40, '--per-address', 1000);

# A job of a tenant; its number.
sub submit
{
	my ($who, $key) = @_;

	return call($token{$who}, 'POST', '/v1/jobs', { request => '1xH100', wall_limit => 'PT1M', key => $key // 'j' . ++$job })->{json}{job};
}

# Has a stream got a job's submission?  Comments may come first.
sub has_queued
{
	my ($stream) = @_;

	# comments come, too
	while ($stream->{bytes} !~ /^event: job\.queued$/m)
	{
		EventStream::more($stream, 10) && !$stream->{ended} or return 0;
	}
	return 1;
}

# As a page
my $first = submit('ann');
submit('bob');
submit('eve');
$node->safe_psql('web', q{SELECT gpucredit.upkeep('number_events')});
my $page = call($token{ann}, 'GET', '/v1/events?kinds=job.queued')->{json};
is_deeply([ map { $_->{job} } @{ $page->{data} } ], [$first], 'a tenant reads its own events as a page');
is(call($token{aud}, 'GET', '/v1/events?limit=1')->{json}{next},
	call($token{aud}, 'GET', '/v1/events?limit=1')->{json}{data}[0]{event}, 'and goes on after the last one');

# As a stream
my $ann = stream($token{ann});
my $second = submit('ann');
my ($event) = events_of($ann, 1);
is($event->{kind}, 'job.queued', 'an open stream gets what happens');
is($event->{job}, $second, 'about the job');
like($ann->{head}, qr{content-type: text/event-stream}i, 'as server-sent events');
ok(%{ $event->{detail} } > 0, 'with its details');
unlike(encode_json($event->{detail}), qr/:\d+\.\d/, 'amounts are texts, no floats');
is(events_of(stream($token{ann}, undef, $ann->{last}), 1, 1), 0, 'Last-Event-ID: nothing that the client had comes again');
submit('ann');
is(events_of(stream($token{ann}, undef, $ann->{last}), 2, 1), 1, 'and what came since does');
is(scalar(grep { $_->{kind} eq 'job.queued' } events_of(stream($token{ann}, 'after=0'), 99, 1)), 3, 'after=0: all that is kept');
is(stream_status(stream($token{ann}, "after=0&job=$first")), 200, 'a stream of one job');
is_deeply([ map { $_->{job} } events_of(stream($token{ann}, "after=0&job=$first&kinds=job.queued&kinds=job.ended"), 9, 1) ],
	[$first], 'has the events of that job, of the kinds asked for');
is(stream_status(stream(undef)), 401, 'without a token there is no stream');
is(stream_status(stream('gpc_00')), 401, 'nor with an unknown one');
is(stream_status(stream($token{ann}, 'after=x')), 400, 'a number that is none');
is(stream_status(stream($token{ann}, 'colour=red')), 422, 'an argument that streams have not');
is(stream_status(stream($token{ann}, 'org=a&org=b')), 422, 'one that is given twice');
is(stream_status(stream(token($node, 'ann', 'read'))), 200, 'scope read is enough');

# How soon
my @took;
events_of($ann, 1, 1);
for (1 .. 20)
{
	my $sent = time;
	submit('ann');
	my $done = time;
	my ($came) = events_of($ann, 1);

	push @took, $came->{came} - $done;
}
@took = sort { $a <=> $b } @took;
diag(sprintf('from the answer to the event: median %.0f ms, most %.0f ms', 1000 * $took[9], 1000 * $took[-1]));
cmp_ok($took[9], '<', 0.3, 'an event reaches a client within 300 ms of its commit');

# Whose: as a stream that is live, as one that begins earlier, and as a page
my %live = map { $_ => stream($token{$_}) } qw(bob eve ops aud);
my @tried = ('org=acme', 'org=acme&account=nlp', "org=acme&job=$first", 'org=acme&kinds=job.queued',
	'account=nlp', "job=$first", 'org=', 'kinds=job.queued', '');
my %other = map { my $who = $_; map { ("$who $_" => stream($token{$who}, $_)) } @tried[0 .. 3, 5] } qw(bob eve);
submit('ann');
$node->safe_psql('web', q{SELECT gpucredit.drain('n1', 'fan'), gpucredit.resume('n1')});
is(scalar(grep { ($_->{account} // '') eq 'nlp' } events_of($live{aud}, 3)), 1, 'an auditor gets everything');
is(scalar(events_of($live{ops}, 3)), 3, 'so does an operator');
is(scalar(events_of($live{$_}, 1, 0.5)), 0, "$_ gets nothing of ann, nor of nodes") for qw(bob eve);
is(scalar(events_of($other{$_}, 1, 0.05)), 0, "nor with another argument: $_") for sort keys %other;
delete @live{qw(ops aud)};
%other = ();
sleep 0.3;
for my $who (qw(bob eve))
{
	for my $query (@tried)
	{
		my $since = stream($token{$who}, join('&', 'after=0', $query || ()));
		my @got = events_of($since, 99, 0.3);

		is(scalar(grep { $_->{account} eq 'nlp' || ($who eq 'eve' && $_->{org} ne 'rival') || $_->{org} eq '' } @got), 0,
			"$who gets no event of others from the past by '$query'");
		my $list = call($token{$who}, 'GET', '/v1/events?after=0&limit=1000' . ($query ? "&$query" : ''))->{json}{data} // [];
		is(scalar(grep { $_->{account} eq 'nlp' || ($who eq 'eve' && $_->{org} ne 'rival') || $_->{org} eq '' } @$list), 0,
			"nor in a list");
	}
}
for my $function (qw(http.feed http.number_events http.feed_end http.good_tokens))
{
	is(call($token{eve}, 'POST', "/v1/call/$function", $function eq 'http.feed' ? { after => 0, most => 10 }
			: $function eq 'http.good_tokens' ? { tokens => [1], sessions => [0] } : {})->{status}, 403, "a tenant may not call $function");
}
is(scalar(grep { $_->{org} ne 'rival' } grep { defined $_->{content} } map { { %$_, org => $_->{content} && decode_json($_->{content})->{org} } }
			@{ call($token{eve}, 'POST', '/v1/call/http.stream_page', { after => 0, org => 'acme', account => '', kinds => undef, job => undef })->{json}{data} }), 0,
	'a page of a stream, called by name, has its own events alone');

# Clients that read nothing
my @mine = map { stream($token{eve}) } 1 .. 9;
is(stream_status(stream($token{eve})), 429, 'a role has a quarter of the streams');
is(stream_status(stream($token{ann})), 200, 'others still have theirs');
@mine = ();

# Nothing is lost when a daemon or the database is killed.  Load runs all the
# time; a client comes again with its last number, as browsers do.
sub receive_for
{
	my ($stream, $seconds, $seen, $query) = @_;
	my $until = time + $seconds;

	while (time < $until)
	{
		push @$seen, events_of($$stream, 1, 0.2);
		if ($$stream->{ended})
		{
			my $last = $$stream->{last};

			sleep 0.05;
			$$stream = eval { stream($token{aud}, $query, $last) } // { %{$$stream}, bytes => '' };
			$$stream->{last} = $last if !defined $$stream->{last} || stream_status($$stream) != 200;
		}
	}
	return;
}
my $load = fork() // die;
if ($load == 0)
{
	my $test = getppid();

	for my $n (1 .. 100000)
	{
		last if getppid() != $test;	# it died
		system('psql', '-qAtX', '-h', $node->host, '-p', $node->port, '-d', 'web', '-o', '/dev/null', '-c',
			"SELECT gpucredit.issue('acme', 'vision', 'load$n', 0.000001)");
		sleep 0.01;
	}
	POSIX::_exit(0);
}
my @seen;
my $stream = stream($token{aud}, 'kinds=credit.issued');
my $from = $node->safe_psql('web', 'SELECT coalesce(max(event), 0) FROM gpucredit.event');
$stream->{last} //= $from;
receive_for(\$stream, 2, \@seen, 'kinds=credit.issued');
for my $round (1 .. 3)
{
	daemon_stop('KILL');
	daemon_start($node, '--streams', 40);
	receive_for(\$stream, 1.5, \@seen, 'kinds=credit.issued');
}
kill_server($node);
sleep 0.5;
$node->start;
receive_for(\$stream, 4, \@seen, 'kinds=credit.issued');
kill 'KILL', $load;
waitpid $load, 0;
sleep 0.5;
receive_for(\$stream, 3, \@seen, 'kinds=credit.issued');
my $all = $node->safe_psql('web', "SELECT string_agg(event::text, ',' ORDER BY event) FROM gpucredit.event WHERE kind = 'credit.issued' AND event > $from");
is(join(',', map { $_->{event} } grep { $_->{event} > $from } @seen), $all,
	'daemon and database killed under load: each event came once, in order');
cmp_ok(scalar(@seen), '>', 20, 'and there were many');
is($node->safe_psql('web', q{SELECT count(*) FROM gpucredit.event WHERE kind = 'credit.issued' AND org = 'acme' AND account = 'vision'}),
	$node->safe_psql('web', q{SELECT count(*) FROM gpucredit.bucket WHERE org = 'acme' AND account = 'vision'}),
	'each issue that committed is an event, and no other');
is($node->safe_psql('web', 'SELECT count(*) FROM gpucredit.event_pending'), 0, 'none is left without a number');

# Authorisation is checked again
call($token{aud}, 'GET', '/v1/me') for 1 .. 40;		# each worker connects again
my %until = (
	revoked => stream(my $secret = token($node, 'ann')),
	unbound => stream($token{bob}),
	locked => stream($token{ops}),
	kept => stream($token{aud}));
my $begun = time;
$node->safe_psql('web', sprintf(q{SELECT gpucredit_http.revoke_token((SELECT max(token) FROM gpucredit_http.tokens('ann')));
	SELECT gpucredit.unbind_tenant('bob', 'acme', 'vision'); ALTER ROLE ops CREATEROLE}));
ok(is_ended($until{$_}, 60 - (time - $begun)), "a stream ends within a minute: $_") for qw(revoked unbound locked);
ok(!is_ended($until{kept}, 0.1), 'others go on') || diag(stream_status($until{kept}), $until{kept}{bytes});
diag(sprintf('they ended after %.0f s', time - $begun));
verify_empty($node, 'web');

# A client that reads slowly costs its buffer, and is ended
daemon_stop();
daemon_start($node, '--receive', 3);
my $slow = stream($token{aud}, 'after=0');
my $before = memory_of(daemon_pid());
$node->safe_psql('web', q{SELECT gpucredit_internal.write_event('load.made', 'rival', '', jsonb_build_object('x', repeat('x', 4000)))
	FROM generate_series(1, 20000)});
sleep 8;
cmp_ok(memory_of(daemon_pid()) - $before, '<', 30, 'a client that reads nothing costs no memory');
1 while $slow->{socket}->sysread(my $bytes, 1 << 20);
ok(is_ended($slow, 1), 'and is ended');
my $fast = stream($token{aud}, 'after=0&kinds=load.made');
my ($came, $rest, $since) = (0, $fast->{bytes}, time);
while ($came < 20000 && time - $since < 60)
{
	$came++ while $rest =~ /^event: load\.made$/mg;
	$rest = substr($rest, -20);
	last unless IO::Select->new($fast->{socket})->can_read(10) && $fast->{socket}->sysread($rest, 65536, length $rest);
}
is($came, 20000, 'one that reads gets all of it');
diag(sprintf('20,000 events of 4 kB from the past: %.1f s', time - $since));

# A role with many streams that are behind keeps no other waiting
sub past_s
{
	my $begin = time;
	my $events = events_of(stream($token{aud}, 'after=0&kinds=load.made'), 300, 60);

	cmp_ok($events, '>=', 300, "the past is read $_[0]");
	return time - $begin;
}
my $alone_s = past_s('by a stream alone');
my @behind = map { stream($token{eve}, 'after=0&kinds=none') } 1 .. 90;
my $beside_s = past_s('beside 90 streams of another role');
diag(sprintf('300 events of 4 kB: %.2f s, beside 90 streams of another role %.2f s', $alone_s, $beside_s));
cmp_ok($beside_s, '<', 2 + 4 * $alone_s, 'in turns with all of them together');
@behind = ();

# Many
SKIP: {
	my $many = 5000;
	my ($limit) = qx(sh -c 'ulimit -n') =~ /(\d+)/;

	skip "the limit of open files is $limit", 2 if $limit < $many + 200;
	daemon_stop();
	daemon_start($node, '--streams', 4 * $many, '--connections', $many + 500, '--per-address', $many + 500);
	my $empty = memory_of(daemon_pid());
	my @streams = map { stream($token{ann}) } 1 .. $many;
	my $memory = memory_of(daemon_pid());
	my $start = time;

	diag(sprintf('%d streams: %.0f MB', $many, $memory - $empty));
	cmp_ok($memory, '<', 200, '5,000 open streams take under 200 MB');
	submit('ann');
	my @without = grep { !has_queued($_) } @streams;
	is(scalar(@without), 0, 'and each gets an event')
	  || diag(map { sprintf("%s, %s: %s\n", stream_status($_), $_->{ended} ? 'ended' : 'open', $_->{bytes}) } @without);
	diag(sprintf('the last of them %.1f s after it', time - $start));
	is(query($node, 'web', q{SELECT count(*) FROM pg_stat_activity WHERE usename = 'gpucredit_gateway'}), 11,
		'with as many connections to the database as before');
}
verify_empty($node, 'web');
done_testing();
