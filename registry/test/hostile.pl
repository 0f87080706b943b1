# hostile.pl: each malformed or hostile request gets a status and writes
# nothing
#
# Packages: libcurl4-openssl-dev libmicrohttpd-dev libssl-dev libjansson-dev libpq-dev libhttp-tiny-perl
use strict;
use warnings;
use Digest::SHA 'sha256_hex';
use FindBin;
use IO::Socket::INET;
use JSON::PP;
use lib "$FindBin::RealBin/lib";
use GpuCreditRegistry;
use GpuCredit;
use Test::More;
use Time::HiRes qw(sleep time);

my $node = registry_node('hostile');
daemon_start($node, '--idle', 5);
my $acme = registry_token($node, 'acme');
my $db = connect_to($node, 'reg');

# Parts of 1 MiB instead of 256, so that a file of several is small.
$node->safe_psql('reg', q{CREATE OR REPLACE FUNCTION gpucredit_registry.part_bytes()
	RETURNS bigint LANGUAGE sql IMMUTABLE RETURN 1048576});

# The number of rows of each table; a pack is a number that was taken, no more.
sub rows
{
	return $db->selectrow_array(q{
		SELECT string_agg(format('%s %s', c.relname, (xpath('/row/c/text()', query_to_xml(
			format('SELECT count(*) AS c FROM %s', c.oid::regclass), false, true, '')))[1]), ', '
			ORDER BY c.relname)
		FROM pg_class c
		WHERE c.relnamespace = 'gpucredit_registry'::regnamespace AND c.relkind = 'r'
			AND c.relname <> 'pack'});
}

# Tests: the call has a status, and changes no table.
sub refused
{
	my ($name, $status, $call) = @_;
	my $before = rows();
	my $answer = $call->();
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	like($answer->{status}, qr/^(?:$status)$/, $name)
	  || diag(substr($answer->{content} // '', 0, 300));
	is(rows(), $before, 'and nothing is written');
	return;
}

sub content
{
	my ($seed, $size) = @_;
	my $text = '';

	srand($seed);
	$text .= pack('L', rand(2**32)) while length($text) < $size;
	return substr($text, 0, $size);
}

sub action
{
	my ($content, $size, @transfers) = @_;

	return json_request('POST', '/acme/m.git/info/lfs/objects/batch', $acme,
		{   operation => 'upload', transfers => [ @transfers, 'basic' ],
			objects => [ { oid => sha256_hex($content), size => $size // length($content) } ] }
	)->{json}{objects}[0]{actions}{upload};
}

sub connection
{
	my ($port) = daemon_url('') =~ /:(\d+)/;

	return IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port) || die "could not connect: $!";
}

# The status that comes on a connection; '' where it is closed without one.
sub answer_of
{
	my ($socket) = @_;
	my $line = <$socket> // '';

	return $line =~ m{^HTTP/1\.1 (\d+)} ? $1 : '';
}

sub slurp
{
	my ($path) = @_;

	open(my $file, '<', $path) or die "could not read $path: $!";
	local $/;
	return scalar <$file>;
}

sub commit
{
	my (@lines) = @_;

	return request('POST', '/api/models/acme/m/commit/main', token => $acme,
		content => join("\n", '{"key": "header", "value": {}}', @lines));
}

# What a socket answers to bytes: its status.
sub raw
{
	my ($socket, @bytes) = @_;

	$socket->print(@bytes);
	my $line = $socket->getline // '';
	return { status => $line =~ m{^HTTP/1.1 (\d+)} ? $1 : 0, content => $line };
}

sub open_socket
{
	my ($port) = daemon_url('') =~ /:(\d+)$/;

	return IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port)
	  || die "no connection: $!";
}

# The head of a PUT to an URL.
sub head
{
	my ($url, $length) = @_;
	my ($target) = $url =~ m{^http://[^/]+(/.*)};

	return "PUT $target HTTP/1.1\r\nHost: x\r\nContent-Length: $length\r\n\r\n";
}

is(json_request('POST', '/api/repos/create', $acme, { name => 'm' })->{status}, 200, 'a repository');

# names, refs, paths
refused("the name \"$_\"", 400,
	sub { json_request('POST', '/api/repos/create', $acme, { name => $_ }) })
  foreach '', '..', 'a/b', 'x.git', "a\0b", 'a' x 97, "a\n", 'ü';
refused("no name", 400, sub { json_request('POST', '/api/repos/create', $acme, {}) });
refused("a name that is an object", 400,
	sub { json_request('POST', '/api/repos/create', $acme, { name => {} }) });
refused('the path ' . substr(encode_json([$_]), 0, 30), 400, sub {
		commit(encode_json({ key => 'file', value => { path => $_, content => 'x', encoding => 'utf-8' } }))
	})
  foreach '', '../x', 'a/../b', '/a', 'a//b', 'a/.git/b', "a\0b", "a\nb", 'a\\b', 'x' x 1025;
is(commit(encode_json({ key => 'file', value => { path => 'x' x 1024, content => 'x' } }))->{status}, 200,
	'a path of 1,024 bytes is one');
refused("the ref \"$_\"", 400,
	sub { request('POST', "/api/models/acme/m/branch/$_", token => $acme, content => '{}') })
  foreach '-x', 'a%00b', 'a..b', 'a' x 201, 'a%20b', '0' x 40, 'a//b', '%ff';
refused('a commit to a bad ref', 400,
	sub { request('POST', '/api/models/acme/m/commit/a..b', token => $acme, content => '{"key": "header", "value": {}}') });

# bodies
refused('a commit that nests 100,000 deep', 400, sub { commit('[' x 100_000) });
refused('objects that nest 100,000 deep', 400, sub { commit('{"a":' x 100_000 . '1' . '}' x 100_000) });
refused('broken base64', 400, sub {
		commit(encode_json({ key => 'file', value => { path => 'x', content => $_, encoding => 'base64' } })) })
  foreach '!', 'YQ', 'YQ==YQ==x';
refused('a million operations', 400,
	sub { commit(('{"key":"deletedFile","value":{"path":"n"}}') x 1_000_000) });
refused('lines that are no objects', 422, sub { commit('1', '"x"', 'null', '[]') });
refused('a zero byte in JSON', 400, sub { commit('{"key": "file", "value": {"path": "a\u0000", "content": ""}}') });
refused('parents that are none', $_->[1], sub {
		request('POST', '/api/models/acme/m/commit/main', token => $acme,
			content => encode_json({ key => 'header', value => { parents => $_->[0] } })) })
  foreach [ 'x', 400 ], [ [ { org => 'acme', version => 'x' } ], 404 ],
  [ [ { org => 'acme', version => '9' x 40 } ], 404 ], [ [ (1) x 1001 ], 400 ];

# byte counts
my $file = content(1, 300_000);
my $put = action($file);
refused('a body that is longer than announced', 400,
	sub { request('PUT', $put->{href}, content => $file . 'x') });
refused('one that is shorter', 422,
	sub { request('PUT', $put->{href}, content => substr($file, 1)) });
refused("a length of \"$_\"", 400, sub { raw(open_socket(), head($put->{href}, $_)) })
  foreach '-1', 'x';
# libmicrohttpd 1 says 400
refused('a length of 30 digits', '400|413', sub { raw(open_socket(), head($put->{href}, '9' x 30)) });
refused('a header that is none', 400, sub { raw(open_socket(), "GET / HTTP/1.1\r\nno colon\r\n\r\n") });
refused('a size of a million terabytes', 422, sub {
		my $o = json_request('POST', '/acme/m.git/info/lfs/objects/batch', $acme,
			{ operation => 'upload', objects => [ { oid => 'a' x 64, size => '1' . '0' x 18 } ] });
		return { status => $o->{json}{objects}[0]{error}{code}, content => $o->{content} } });

# signatures
refused("$_->[0]", 403, sub { request('PUT', $_->[1], content => $file) })
  foreach [ 'no signature', $put->{href} =~ s/\?.*//r ],
  [ 'a forged one', $put->{href} =~ s/signature=(.)/'signature=' . ($1 eq '0' ? '1' : '0')/er ],
  [ 'one of another part', $put->{href} =~ s{/1\?}{/2?}r ],
  [ 'one of another upload', $put->{href} =~ s{/(\d+)/1\?}{'/' . ($1 + 1) . '/1?'}er ],
  [ 'one of another organisation', $put->{href} =~ s{/lfs/acme/}{/lfs/rival/}r ],
  [ 'one that would live longer', $put->{href} =~ s{expires=\d}{expires=9}r ],
  [ 'an unknown key', $put->{href} =~ s{key=\d+}{key=999}r ],
  [ 'a key that is no number', $put->{href} =~ s{key=\d+}{key=x}r ];

# A sender that hangs is cut off after the idle time; what it sent does not count.
{
	my $socket = open_socket();
	my $start = time;

	refused('a sender that hangs', 0, sub { raw($socket, head($put->{href}, 300_000), 'abc') });
	cmp_ok(time - $start, '<', 60, 'is cut off');
	refused('a sender of headers that hangs', 0, sub { raw(open_socket(), "GET / HTTP/1.1\r\nHost:") });
}

# Senders who send a byte now and then are cut off as well, all at once.
{
	my @slow = map { my $socket = open_socket(); $socket->print($_); $socket }
	  "GET / HTTP/1.1\r\nHost:", head($put->{href}, 300_000) . 'abc',
	  "POST /api/models/acme/m/commit/main HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{";
	my $before = rows();
	my $start = time;
	local $SIG{PIPE} = 'IGNORE';

	$_->blocking(0) foreach @slow;
	while (@slow && time - $start < 120)
	{
		@slow = grep { $_->syswrite('x'); my $n = $_->sysread(my $answer, 4096); !defined $n || $n > 0 } @slow;
		sleep 0.3;
	}
	is(scalar(@slow), 0, 'senders of a byte now and then are cut off');
	is(rows(), $before, 'and nothing is kept of what they sent');
}

# Two at one upload: the first gets 409 once the second has begun.
{
	my $first = open_socket();

	$first->print(head($put->{href}, 300_000), substr($file, 0, 299_999));
	$node->poll_query_until('reg', q{SELECT count(writer) = 1 FROM gpucredit_registry.upload_part});
	my $writer = $node->safe_psql('reg', 'SELECT writer FROM gpucredit_registry.upload_part');
	my $second = open_socket();
	$second->print(head($put->{href}, 300_000), substr($file, 0, 1000));
	$node->poll_query_until('reg', qq{SELECT writer <> $writer FROM gpucredit_registry.upload_part});
	refused('of two clients the older', 409, sub { raw($first, substr($file, -1)) });
	is(raw($second, substr($file, 1000))->{status}, 200, 'and the younger goes on');
}

# Parts: out of order, again, too long, too short, missing.
my $large = content(2, 2_500_000);
my $upload = action($large, undef, 'multipart');
my @parts = map { substr($large, $_ * 1048576, 1048576) } 0 .. 2;
my $url = sub { $upload->{header}{ sprintf '%05d', $_[0] } };

is(request('PUT', $url->(3), content => $parts[2])->{status}, 200, 'the last part comes first');
refused('a file with parts missing', 404, sub { request('POST', $upload->{href}, content => '{}') });
refused('a part that runs into the next', 400, sub { request('PUT', $url->(1), content => $parts[0] . 'x') });
refused('a part that is short', 422, sub { request('PUT', $url->(1), content => 'short') });
refused('a part there is not', 403, sub { request('PUT', $url->(3) =~ s{/3\?}{/4?}r, content => 'x') });
is(request('PUT', $url->(1), content => $parts[1])->{status}, 200, 'a part with wrong bytes');
is(request('PUT', $url->(1), content => $parts[0])->{status}, 200, 'is sent again');
is(request('PUT', $url->(2), content => $parts[1])->{status}, 200, 'the rest comes');
is(request('POST', $upload->{href}, content => '{}')->{status}, 200, 'and is the file');
refused('a file that is complete, again', 404, sub { request('POST', $upload->{href}, content => '{}') });
is(commit(encode_json({ key => 'lfsFile', value => { path => 'w', oid => sha256_hex($large), algo => 'sha256',
				size => length($large) } }))->{status}, 200, 'it is committed');
ok(request('GET', '/acme/m/resolve/main/w', token => $acme)->{content} eq $large, 'and comes back');

# Another tenant sends the same bytes whole: they are cut otherwise.
my $rival = registry_token($node, 'rival');
json_request('POST', '/api/repos/create', $rival, { name => 'm' });
my $whole = json_request('POST', '/rival/m.git/info/lfs/objects/batch', $rival,
	{ operation => 'upload', objects => [ { oid => sha256_hex($large), size => length($large) } ] }
)->{json}{objects}[0]{actions}{upload};
is(request('PUT', $whole->{href}, content => $large)->{status}, 200, 'another sends the same file whole');
is($node->safe_psql('reg', q{SELECT "unique" FROM gpucredit_registry.storage('rival')}), length($large),
	'and pays for it as if alone');
# Nobody is kept out by strangers.
{
	my $size = sub { return (split ' ', slurp('/proc/' . daemon_pid() . '/statm'))[1] * 4096 };
	my $before = $size->();
	my @open;

	# without a token, and with a wrong one, a long body is not read
	foreach my $headers ('', "Authorization: Bearer hf_wrong\r\n")
	{
		foreach (1 .. 10)
		{
			my $socket = connection();
			print $socket "POST /api/repos/create HTTP/1.1\r\nHost: x\r\n${headers}Content-Length: 60000000\r\n\r\n";
			push @open, $socket;
		}
	}
	is(answer_of($_), 401, 'a long body without a good token is refused by its headers') foreach @open;
	cmp_ok($size->() - $before, '<', 32_000_000, 'and takes no memory');
	@open = ();

	# a request has one end
	foreach (
		[ "Content-Length: 4\r\nContent-Length: 5\r\n", 'two lengths' ],
		[ "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n", 'a length and an encoding' ],
		[ "Transfer-Encoding: gzip\r\n", 'an unknown encoding' ],
		[ "Content-Length: 4, 4\r\n", 'a list of lengths' ])
	{
		my ($headers, $what) = @$_;
		my $socket = connection();

		print $socket "POST /api/repos/create HTTP/1.1\r\nHost: x\r\n$headers\r\nabcd";
		like(answer_of($socket), qr/^400$|^$/, "$what: the request's end is not certain");
	}
	my $socket = connection();
	print $socket "GET /api/models HTTP/1.1\r\n\r\n";
	is(answer_of($socket), 400, 'a request names its host');

	# an address has so many connections, and no more
	my $refused = 0;
	foreach (1 .. 200)
	{
		my $one = connection();

		print $one 'G';
		push @open, $one;
	}
	sleep(0.5);
	foreach my $one (@open)
	{
		my $ready = '';

		vec($ready, fileno($one), 1) = 1;
		$refused++ if select($ready, undef, undef, 0);
	}
	cmp_ok($refused, '>=', 72, 'the 129th connection of an address is not taken');
	@open = ();
	sleep(0.5);
	is(request('GET', '/api/models')->{status}, 200, 'then there is room again');
}

# A commit ends when its client leaves, also while it waits for another.
{
	is(json_request('POST', '/api/repos/create', $acme, { name => 'left' })->{status}, 200, 'a repository');
	my $other = connect_to($node, 'reg');
	my $waits = q{SELECT count(*) FROM pg_stat_activity WHERE usename = 'registryd' AND state = 'active' AND wait_event_type = 'Lock'};
	my $commit = '{"key": "header", "value": {}}' . "\n" . '{"key": "file", "value": {"path": "a", "content": "x"}}';

	$other->begin_work;
	$other->do(q{SELECT FROM gpucredit_registry.model WHERE name = 'left' FOR UPDATE});
	my ($host) = daemon_url('') =~ m{//(.*)};
	my @clients = map { IO::Socket::INET->new(PeerAddr => $host) } 1 .. 5;
	$_->print("POST /api/models/acme/left/commit/main HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer $acme\r\n"
		  . 'Content-Length: ' . length($commit) . "\r\n\r\n$commit") foreach @clients;
	ok($node->poll_query_until('reg', "SELECT ($waits) = 5"), 'five commits wait');
	close $_ foreach @clients;
	ok($node->poll_query_until('reg', "SELECT ($waits) = 0"), 'and are cancelled when their clients leave');
	$other->rollback;
	is($db->selectrow_array(q{SELECT count(*) FROM gpucredit_registry.version JOIN gpucredit_registry.model USING (org, model) WHERE name = 'left'}),
		0, 'nothing of them is written');
	is(json_request('POST', '/api/models/acme/left/commit/main', $acme, $commit)->{status}, 200, 'the next client commits');
}

registry_verify($node);
done_testing();
