# GpuCreditS3.pm: an S3 service, and faults on the way to it
package GpuCreditS3;

use strict;
use warnings;

use Exporter 'import';
use Fcntl ':flock';
use FindBin;
use HTTP::Tiny;
use IO::Socket::INET;
use POSIX ();
use Time::HiRes 'sleep';

use lib "$FindBin::RealBin/../../test/perl";
use GpuCredit;				# finds PostgreSQL's modules
use PostgreSQL::Test::Cluster;

our @EXPORT = qw(s3_start s3_fault s3_requests s3_files s3_head);

my $folder;
my @children;

# Starts a process that is killed at the end.
sub start
{
	my ($function) = @_;
	my $pid = fork() // die "could not fork: $!";

	if ($pid == 0)
	{
		@children = ();
		$function->();
		POSIX::_exit(127);
	}
	push @children, $pid;
	return;
}

# Starts Swift, with an option of s3_server.py, and before it a proxy that makes
# faults; the proxy's URL.
sub s3_start
{
	($folder, my @option) = @_;
	my $port  = PostgreSQL::Test::Cluster::get_free_port();
	my $proxy = PostgreSQL::Test::Cluster::get_free_port();

	mkdir $folder or die "could not make $folder: $!";
	start(sub
		{
			open(STDERR, '>', "$folder/log") && open(STDOUT, '>&', \*STDERR) or return;
			exec '/usr/bin/python3', "$FindBin::RealBin/lib/s3_server.py", "$folder/swift", $port, @option;
		});
	my $listener = IO::Socket::INET->new(LocalAddr => "127.0.0.1:$proxy", Listen => 64, ReuseAddr => 1)
	  or die "could not listen: $!";
	start(sub { run_proxy($listener, $port) });
	close $listener;
	for (1 .. 600)
	{
		return "http://127.0.0.1:$proxy"
		  if HTTP::Tiny->new(timeout => 5)->get("http://127.0.0.1:$port/")->{status} != 599;
		sleep 0.1;
	}
	die "Swift does not answer; see $folder/log\n";
}

# The next requests with this method are answered with a fault:
#   503    at once, by nobody
#   lost   half of what is sent is read, then the connection is closed
#   cut    half of the answer comes, then the connection is closed
#   short  one byte less comes than was asked for
#   etag   the answer has the ETag of other bytes
#   old    what is listed is years old
#   plain  nothing is said of encryption
sub s3_fault
{
	my ($kind, $method, $times) = @_;

	open(my $file, '>', "$folder/fault") or die "$folder/fault: $!";
	print $file "$kind $method $times";
	close $file;
	return;
}

# Is this request to be disturbed?  The fault that is due, or ''.
sub due
{
	my ($method) = @_;

	open(my $file, '+<', "$folder/fault") or return '';
	flock($file, LOCK_EX);
	my ($kind, $of, $times) = split ' ', <$file> // '';
	return '' unless $times && $of eq $method;
	seek $file, 0, 0;
	truncate $file, 0;
	print $file "$kind $of " . ($times - 1);
	close $file;
	return $kind;
}

# How many requests there were, by their method.
sub s3_requests
{
	my ($method) = @_;

	open(my $file, '<', "$folder/requests") or return 0;
	return scalar grep { /^$method / } <$file>;
}

# The files in which Swift keeps objects; in scalar context their number.
sub s3_files
{
	my @files = glob("$folder/swift/device/objects/*/*/*/*.data");

	return @files;
}

# The head of the last request with this method.
sub s3_head
{
	my ($method) = @_;

	open(my $file, '<', "$folder/last.$method") or return '';
	local $/ = undef;
	return <$file>;
}

sub run_proxy
{
	my ($listener, $port) = @_;

	local $SIG{CHLD} = 'IGNORE';
	while (my $client = $listener->accept)
	{
		my $pid = fork();
		if (defined $pid && $pid == 0)
		{
			pass_on($client, $port);
			POSIX::_exit(0);
		}
	}
	return;
}

# One request and its answer.
sub pass_on
{
	my ($client, $port) = @_;
	my $head = '';

	while ($head !~ /\r\n\r\n$/)
	{
		$head .= <$client> // return;
	}
	my ($method, $path) = $head =~ /^(\S+) (\S+)/;
	my $size = $head =~ /^content-length: (\d+)/mi ? $1 : 0;
	my $kind = due($method);
	my $body = '';
	read $client, $body, $kind eq 'lost' ? int($size / 2) : $size;
	open(my $requests, '>>', "$folder/requests") or die;
	syswrite $requests, "$method " . ($path =~ s/\?.*//r) . " $kind\n";
	if (open(my $heads, '>', "$folder/last.$method"))
	{
		syswrite $heads, $head;
	}
	return if $kind eq 'lost';
	my $answer = "HTTP/1.1 503 Slow Down\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
	$answer = ask($port, $head =~ s/\r\n\r\n$/\r\nConnection: close\r\n\r\n/r . $body)
	  unless $kind eq '503';
	if ($kind eq 'cut')
	{
		my $start = index($answer, "\r\n\r\n") + 4;
		$answer = substr($answer, 0, $start + (length($answer) - $start) / 2);
	}
	$answer =~ s/^(content-length: )(\d+)/$1 . ($2 - 1)/mei and chop $answer if $kind eq 'short';
	$answer =~ s/^(etag: ")./$1x/mi if $kind eq 'etag';
	# Swift does not say, as Amazon does, that it has encrypted.
	my ($encryption) = $head =~ /^x-amz-server-side-encryption: (\S+)\r$/mi;
	$answer =~ s/\r\n/\r\nx-amz-server-side-encryption: $encryption\r\n/
	  if defined $encryption && $kind ne 'plain' && $answer =~ m{^HTTP/1.1 200};
	$answer =~ s/<LastModified>20\d\d/<LastModified>2020/g if $kind eq 'old';
	print $client $answer;
	close $client;
	return;
}

# All of the service's answer.
sub ask
{
	my ($port, $request) = @_;
	my $server = IO::Socket::INET->new("127.0.0.1:$port") or return '';

	print $server $request;
	local $/ = undef;
	return <$server> // '';
}

END
{
	my $status = $?;

	kill 'KILL', @children;
	waitpid $_, 0 foreach @children;
	$? = $status;
}

1;
