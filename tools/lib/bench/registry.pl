# registry.pl: clients of the model registry, docker-registry and nginx
#
#   registry.pl push|pull registryd|docker|nginx URL TOKEN CLIENTS FILES SIZE SEED
#
# Each client is a process that pushes or pulls its share of the files, one after
# the other, over one connection, to a repository of its own.  The bytes are made
# from the seed before the clock starts.  Prints the seconds until all clients
# have ended.
#
#   registry.pl variants URL TOKEN COUNT SIZE CHANGED
#
# Pushes a file, then variants of it, in each of which CHANGED bytes at one place
# are new.  Prints a line between the two, and waits until a line is read.
use strict;
use warnings;
use Digest::SHA 'sha256_hex';
use HTTP::Tiny;
use JSON::PP;
use Socket qw(IPPROTO_TCP TCP_NODELAY);
use Time::HiRes 'time';

# HTTP::Tiny writes headers and body apart. Without this the kernel keeps the
# body back until the server's kernel acknowledges the headers, which takes it
# 40 ms: ten times as long as any of the servers needs for a small file.
{
	no warnings 'redefine';
	my $connect = \&HTTP::Tiny::Handle::connect;

	*HTTP::Tiny::Handle::connect = sub {
		my $handle = $connect->(@_);

		setsockopt($handle->{fh}, IPPROTO_TCP, TCP_NODELAY, 1) or die "could not set TCP_NODELAY: $!\n";
		return $handle;
	};
}

# Bytes that do not repeat: the digests of a counter would be slow for large
# files, so they are read, and a file begins with its name.
sub bytes
{
	my ($name, $size) = @_;

	open(my $random, '<:raw', '/dev/urandom') or die "could not open /dev/urandom: $!\n";
	read($random, my $bytes, $size) == $size or die "could not read /dev/urandom\n";
	return substr($name . $bytes, 0, $size);
}

sub must
{
	my ($http, $method, $url, $options) = @_;
	my $answer = $http->request($method, $url, $options // {});

	die "$method $url: $answer->{status} " . substr($answer->{content} // '', 0, 300) . "\n"
	  unless $answer->{success};
	return $answer;
}

# Sends files to a repository of the model registry, and commits them.
sub push_registryd
{
	my ($http, $url, $token, $repo, $files) = @_;
	my %auth = (authorization => "Bearer $token", 'content-type' => 'application/json');
	my $batch = decode_json(must($http, 'POST', "$url/0/$repo.git/info/lfs/objects/batch",
			{ headers => \%auth, content => encode_json({ operation => 'upload', objects => [
						map { { oid => $_->{oid}, size => length $_->{bytes} } } @$files ] }) })->{content});

	must($http, 'PUT', $batch->{objects}[$_]{actions}{upload}{href}, { content => $files->[$_]{bytes} })
	  foreach 0 .. $#$files;
	must($http, 'POST', "$url/api/models/0/$repo/commit/main", { headers => \%auth, content => join("\n",
				encode_json({ key => 'header', value => { summary => 'x' } }),
				map { encode_json({ key => 'lfsFile', value => { path => $_->{path}, oid => $_->{oid},
							size => length $_->{bytes} } }) } @$files) });
	return;
}

# Sends files to docker-registry, each in two requests.
sub push_docker
{
	my ($http, $url, $repo, $files) = @_;

	foreach my $file (@$files)
	{
		my $place = must($http, 'POST', "$url/v2/$repo/blobs/uploads/")->{headers}{location};

		must($http, 'PUT', "$place&digest=sha256:$file->{oid}",
			{ headers => { 'content-type' => 'application/octet-stream' }, content => $file->{bytes} });
	}
	return;
}

if ($ARGV[0] eq 'variants')
{
	my (undef, $url, $token, $count, $size, $changed) = @ARGV;
	my $http = HTTP::Tiny->new(timeout => 600);
	my $base = bytes('base', $size);

	push_registryd($http, $url, $token, 'm', [ { path => 'base', oid => sha256_hex($base), bytes => $base } ]);
	$| = 1;
	print "base\n";
	<STDIN>;
	foreach my $n (1 .. $count)
	{
		my $variant = $base;

		substr($variant, int(rand($size - $changed)), $changed, bytes("v$n", $changed));
		push_registryd($http, $url, $token, 'm',
			[ { path => "v$n", oid => sha256_hex($variant), bytes => $variant } ]);
	}
	exit 0;
}

my ($what, $whose, $url, $token, $clients, $files, $size, $folder) = @ARGV;
my @pids;

pipe(my $wait, my $start) or die "could not make a pipe: $!\n";
pipe(my $ready, my $tell) or die "could not make a pipe: $!\n";
foreach my $client (0 .. $clients - 1)
{
	my $pid = fork() // die "could not fork: $!\n";

	push @pids, $pid;
	next if $pid;
	my $http = HTTP::Tiny->new(timeout => 600, keep_alive => 1);
	my $share = int($files / $clients);
	my $list = "$folder.$client";
	my @files;

	close $start;
	if ($what eq 'push')
	{
		@files = map { { path => "f$_", bytes => bytes("$client $_", $size) } } 1 .. $share;
		$_->{oid} = sha256_hex($_->{bytes}) foreach @files;
		open(my $out, '>', "$list.$whose") or die "could not write \"$list\": $!\n";
		print $out "$_->{path} $_->{oid}\n" foreach @files;
		close $out;
	}
	else
	{
		open(my $in, '<', "$list.$whose") or die "could not read \"$list\": $!\n";
		@files = map { my ($path, $oid) = split; { path => $path, oid => $oid } } <$in>;
	}
	syswrite($tell, 'x');
	sysread($wait, my $byte, 1);	# until the parent closes its end
	if ($what eq 'push')
	{
		$whose eq 'docker' ? push_docker($http, $url, "r$client", \@files)
		  : push_registryd($http, $url, $token, "r$client", \@files);
	}
	else
	{
		must($http, 'GET', $whose eq 'docker' ? "$url/v2/r$client/blobs/sha256:$_->{oid}"
			: $whose eq 'nginx' ? "$url/small" : "$url/0/r$client/resolve/main/$_->{path}",
			$whose eq 'registryd' ? { headers => { authorization => "Bearer $token" } } : {})
		  foreach @files;
	}
	exit 0;
}
close $wait;
for (my $n = 0; $n < $clients;)
{
	$n += sysread($ready, my $byte, $clients) || die "a client ended early\n";
}
my $began = time;
close $start;
foreach my $pid (@pids)
{
	waitpid($pid, 0);
	die "a client failed\n" if $? != 0;
}
printf "%.4f\n", time - $began;
