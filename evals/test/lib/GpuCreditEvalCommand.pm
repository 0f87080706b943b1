# GpuCreditEvalCommand.pm: the command gpucredit-eval, and a stub of a model
package GpuCreditEvalCommand;

use strict;
use warnings;

use Exporter 'import';
use FindBin;
use HTTP::Tiny;
use IPC::Run;
use JSON::PP;
use POSIX ();
use Test::More;

use lib "$FindBin::RealBin/../../test/perl";
use GpuCredit;				# finds PostgreSQL's modules
use PostgreSQL::Test::Utils;

our @EXPORT = qw(
  command_folder command_result start_command ends_with stub_start stub_stop stub_stats stub_url
);

my $folder;
my %stubs;

# Where the command and its tests are, with the libraries of its lock file.
# The checkout stays as it is.
sub command_folder
{
	return $folder if $folder;
	my $dir = PostgreSQL::Test::Utils::tempdir();
	my $said;

	system('cp', '-r', "$FindBin::RealBin/../cli", "$FindBin::RealBin/../test", $dir) == 0
	  or die "could not copy the command\n";
	IPC::Run::run([ 'npm', 'ci', '--prefix', "$dir/cli", '--ignore-scripts', '--no-audit', '--no-fund',
			'--no-update-notifier' ], '<', \undef, '>&', \$said, IPC::Run::timeout(180))
	  or die "npm ci failed: $said\n";
	return $folder = $dir;
}

sub invocation
{
	my ($node, @arguments) = @_;

	return [ 'env', 'PGHOST=' . $node->host, 'PGPORT=' . $node->port, 'PGDATABASE=eval', 'PGUSER=worker',
		'GPUCREDIT_ORG=acme', 'node', command_folder() . '/cli/gpucredit-eval.mjs', @arguments ];
}

# Runs the command; returns its exit code, output and errors.
sub command_result
{
	my ($node, @arguments) = @_;
	my ($out, $err);

	IPC::Run::run(invocation($node, @arguments), '<', \undef, '>', \$out, '2>', \$err,
		IPC::Run::timeout(180));
	return ($? >> 8, $out, $err);
}

# Starts it; wait with ends_with().
sub start_command
{
	my ($node, @arguments) = @_;
	my $command = invocation($node, @arguments);
	my $pid = fork() // die "could not fork: $!";

	if ($pid == 0)
	{
		open(STDOUT, '>', '/dev/null') or POSIX::_exit(1);
		exec @$command or POSIX::_exit(127);
	}
	return $pid;
}

# A test: the process ends with this exit code.
sub ends_with
{
	my ($pid, $code, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	waitpid $pid, 0;
	return is($? >> 8, $code, $name);
}

# Starts test/lib/stub.mjs, which says what it does.
sub stub_start
{
	my ($name, %options) = @_;
	my $pid = open(my $pipe, '-|', 'node', "$FindBin::RealBin/lib/stub.mjs", encode_json(\%options))
	  // die "could not start a stub: $!";

	chomp(my $port = readline($pipe) // die "the stub does not start\n");
	$stubs{$name} = { pid => $pid, port => $port, pipe => $pipe };
	return;
}

sub stub_stop
{
	my ($name) = @_;
	my $stub = delete $stubs{$name} or return;

	kill 'KILL', $stub->{pid};
	close $stub->{pipe};
	return;
}

sub stub_url { return "http://127.0.0.1:$stubs{$_[0]}{port}" }

sub stub_stats
{
	return decode_json(HTTP::Tiny->new->get(stub_url($_[0]) . '/stats')->{content});
}

END
{
	my $status = $?;

	stub_stop($_) foreach keys %stubs;
	$? = $status;
}

1;
