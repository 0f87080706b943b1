# EventStream.pm: a client of GET /v1/events, as browsers have one
package EventStream;

use strict;
use warnings;

use Exporter 'import';
use GpuCreditHttp;
use IO::Select;
use IO::Socket::INET;
use JSON::PP;
use Time::HiRes 'time';

our @EXPORT = qw(stream events_of is_ended stream_status);

# A stream with a token or a session's cookie, from an event on (undef: what
# happens from now on).
sub stream
{
	my ($token, $query, $last_event) = @_;
	my $socket = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => daemon_port(), Timeout => 10)
	  or die "could not connect: $!";
	my $stream = { socket => $socket, bytes => '', head => undef, last => $last_event, ended => 0 };

	# 1.0: the answer comes without chunks
	$socket->syswrite(sprintf("GET /v1/events%s HTTP/1.0\r\nHost: x\r\nAccept: text/event-stream\r\n%s%s\r\n",
			defined $query ? "?$query" : '', !defined $token ? '' : $token =~ /=/ ? "Cookie: $token\r\n" : "Authorization: Bearer $token\r\n",
			defined $last_event ? "Last-Event-ID: $last_event\r\n" : ''));
	$socket->blocking(0);
	more($stream, 10) until defined $stream->{head} || $stream->{ended};
	# the first comment
	more($stream, 10) until $stream->{ended} || $stream->{bytes} =~ s/\A: gpucredit\n\n//
	  || stream_status($stream) != 200;
	return $stream;
}

sub stream_status { return ($_[0]{head} // '') =~ m{\AHTTP/1\.[01] (\d+)} ? $1 : 0 }

# Read what has come; false once nothing came for so many seconds.
sub more
{
	my ($stream, $seconds) = @_;

	return 0 unless IO::Select->new($stream->{socket})->can_read($seconds);
	my $n = $stream->{socket}->sysread($stream->{bytes}, 1 << 20, length $stream->{bytes});
	$stream->{ended} = 1 if defined $n && $n == 0 || !defined $n && !$!{EAGAIN};
	if (!defined $stream->{head} && $stream->{bytes} =~ s/\A(.*?\r\n\r\n)//s)
	{
		$stream->{head} = $1;
	}
	return 1;
}

# The events that come, until there are so many or nothing came for so long.
sub events_of
{
	my ($stream, $count, $seconds) = @_;
	my @events;
	my $until = time + ($seconds // 5);

	while (1)
	{
		while ($stream->{bytes} =~ s/\A((?:[^\n]+\n)+)\n//)
		{
			my %field;

			for my $line (split /\n/, $1)
			{
				my ($name, $value) = $line =~ /^([a-z]*): ?(.*)/ or next;
				$field{$name} = $value;
			}
			$stream->{last} = $field{id} if exists $field{id};
			push @events, { kind => $field{event}, %{ decode_json($field{data}) }, came => time } if exists $field{data};
		}
		return @events if @events >= $count || $stream->{ended} || time >= $until;
		more($stream, $until - time);
	}
}

sub is_ended
{
	my ($stream, $seconds) = @_;
	my $until = time + $seconds;

	more($stream, $until - time) while !$stream->{ended} && time < $until;
	return $stream->{ended};
}

1;
