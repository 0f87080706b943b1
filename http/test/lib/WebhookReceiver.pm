# WebhookReceiver.pm: a server to which webhooks are sent; what it answers
# depends on the path
package WebhookReceiver;

use strict;
use warnings;

use Exporter 'import';
use Fcntl ':flock';
use IO::Socket::INET;
use JSON::PP;
use POSIX ();
use Time::HiRes qw(sleep time);

our @EXPORT = qw(receiver_start receiver_stop received wait_received receiver_set);

my @receivers;

# Starts a receiver on an address, whose port is free; its log is in a folder.
# With the files of a key and a certificate it speaks TLS.
sub receiver_start
{
	my ($folder, $address, %tls) = @_;
	my $listener = IO::Socket::INET->new(LocalAddr => $address, LocalPort => 0, Listen => 128,
		ReuseAddr => 1, Timeout => 5) or die "could not listen: $!";
	my $receiver = { log => "$folder/" . scalar(@receivers) . '.log', folder => $folder,
		port => $listener->sockport, pid => fork() // die "could not fork: $!" };

	if ($receiver->{pid} == 0)
	{
		my $parent = getppid();

		local $SIG{CHLD} = 'IGNORE';
		while (getppid() == $parent)
		{
			my $client = $listener->accept or next;

			if (fork() == 0)
			{
				alarm 60;
				eval { serve($receiver, $client, %tls) };
				POSIX::_exit(0);
			}
		}
		POSIX::_exit(0);
	}
	push @receivers, $receiver;
	return $receiver;
}

# Sets a word that receivers of the folder read with each request.
sub receiver_set
{
	my ($receiver, $name, $value) = @_;

	open(my $file, '>', "$receiver->{folder}/$name.new") or die "could not write: $!";
	print $file $value;
	close($file);
	rename "$receiver->{folder}/$name.new", "$receiver->{folder}/$name" or die "could not rename: $!";
	return;
}

sub word_of
{
	my ($receiver, $name) = @_;

	open(my $file, '<', "$receiver->{folder}/$name") or return '';
	local $/;
	return <$file> // '';
}

sub note_request
{
	my ($receiver, %request) = @_;

	open(my $log, '>>', $receiver->{log}) or die "could not write: $!";
	flock($log, LOCK_EX);
	syswrite($log, encode_json({ %request, at => time }) . "\n");
	close($log);
	return;
}

# One connection, with as many requests as its client sends.
sub serve
{
	my ($receiver, $client, %tls) = @_;
	my $bytes = '';

	if (%tls)
	{
		require IO::Socket::SSL;
		IO::Socket::SSL->start_SSL($client, SSL_server => 1, %tls) or return;
	}
	while (1)
	{
		my %header;

		while ($bytes !~ /\r\n\r\n/)
		{
			$client->sysread($bytes, 65536, length $bytes) or return;
		}
		$bytes =~ s/\A(\S+) (\S+) [^\r\n]*\r\n(.*?)\r\n\r\n//s or return;
		my ($method, $path, $lines) = ($1, $2, $3);

		$header{ lc $1 } = $2 while $lines =~ /^([\w-]+):[ \t]*([^\r\n]*)/mg;
		while (length $bytes < ($header{'content-length'} // 0))
		{
			$client->sysread($bytes, 65536, length $bytes) or return;
		}
		my $body = substr($bytes, 0, $header{'content-length'} // 0, '');
		my $json = eval { decode_json($body) };
		my ($status, $more) = answer_of($receiver, $path, $json);

		note_request($receiver, method => $method, path => $path, header => \%header, body => $body,
			json => $json, status => $status);
		if ($path eq '/hang' || word_of($receiver, 'traces') eq 'hang' && $path eq '/v1/traces')
		{
			sleep 20;
			return;
		}
		if ($path eq '/drip')
		{
			foreach my $byte (split //, 'HTTP/1.1 200 OK and so on')
			{
				$client->syswrite($byte) or return;
				sleep 0.4;
			}
			return;
		}
		sleep 0.7 if $path eq '/slow';
		if ($path eq '/huge' || word_of($receiver, 'traces') eq 'huge' && $path eq '/v1/traces')
		{
			$client->syswrite("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n") or return;
			$client->syswrite('x' x 65536) or return for 1 .. 2000;
			return;
		}
		$client->syswrite("HTTP/1.1 $status X\r\n${more}Content-Length: 0\r\n\r\n") or return;
	}
}

# The status that a path answers, and further headers.
sub answer_of
{
	my ($receiver, $path, $json) = @_;

	# a collector of OpenTelemetry: a status, "hang" or "huge"
	return (word_of($receiver, 'traces') =~ /^(\d+)$/ ? $1 : 200, '') if $path eq '/v1/traces';
	return (500, '') if $path eq '/fail';
	return (410, '') if $path eq '/gone';
	return (429, "Retry-After: 600\r\n") if $path eq '/busy';
	return (302, 'Location: ' . word_of($receiver, 'location') . "\r\n") if $path eq '/redirect';
	# jobs whose events it does not want
	return (500, '') if $path eq '/order' && $json
	  && ($json->{data}{job} // '') eq word_of($receiver, 'bad');
	return (word_of($receiver, 'status') || 200, '') if $path eq '/flip';
	return (200, '');
}

# The requests that a receiver has got, at a path (undef: any).
sub received
{
	my ($receiver, $path) = @_;

	my @requests;

	if (open(my $log, '<', $receiver->{log}))
	{
		@requests = grep { !defined $path || $_->{path} eq $path } map { decode_json($_) } grep { /\n\z/ } <$log>;
	}
	return @requests;
}

# Waits until so many requests fit, or so many seconds; those that do.
sub wait_received
{
	my ($receiver, $path, $fits, $count, $seconds) = @_;
	my $until = time + ($seconds // 60);

	while (1)
	{
		my @got = grep { $fits->($_) } received($receiver, $path);

		return @got if @got >= $count || time >= $until;
		sleep 0.1;
	}
}

sub receiver_stop
{
	foreach my $receiver (splice @receivers)
	{
		kill 'KILL', $receiver->{pid};
		waitpid $receiver->{pid}, 0;
	}
	return;
}

END
{
	my $status = $?;

	receiver_stop();
	$? = $status;
}

1;
