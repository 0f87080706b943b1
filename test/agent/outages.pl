# outages.pl: the database is restored from an hour ago, the network is cut in
# one direction, the wall clock jumps: nothing runs or is billed twice

use strict;
use warnings;
use File::Path 'remove_tree';
use FindBin;
use IO::Select;
use IO::Socket::UNIX;
use lib "$FindBin::RealBin/../perl";
use GpuCredit;
use GpuCreditAgent;
use POSIX 'strftime';
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);

my ($library) = glob('/usr/lib/*/faketime/libfaketime.so.1');
my $cluster = cluster('outages', "gpucredit.node_lost = '4s'",
	"gpucredit.node_suspect = '3s'", "gpucredit.heartbeat_timeout = '60s'",
	# until the backup
	'gpucredit.clock = ' . strftime("'%Y-%m-%d %H:%M:%S+00'", gmtime(time() - 3600)));
my $server = $cluster->{server};
my %relay  = (n1 => start_relay(), n2 => start_relay());
my ($n1, $n2) = map {
	add_node($cluster, $_, 1, database =>
		  "dbname=credit user=" . getpwuid($>) . " host=$relay{$_}{folder} port=1")
} qw(n1 n2);
my $n3 = add_node($cluster, 'n3', 2);
my $count = q{date +%s.%N > $OUT/span; echo $CUDA_VISIBLE_DEVICES >> $OUT/on
for i in $(seq 1 35); do echo $i >> $OUT/ticks; sleep 0.1; done; date +%s.%N >> $OUT/span};

# The database is away for longer than node_lost, and returns without what it
# learned since its backup, which is an hour old.
my $ends = submit($cluster, '1xT4', $count, wall => '3 hours');
my $runs = submit($cluster, '1xT4',
	q{for i in $(seq 1 80); do date +%s.%N >> $OUT/ticks; sleep 0.1; done}, wall => '3 hours');
wait_for('both run', 20,
	sub { 2 == grep { -e "$cluster->{submitted}{$_}/ticks" } $ends, $runs });
$server->stop;
my $data   = $server->data_dir;
my $backup = PostgreSQL::Test::Utils::tempdir() . '/backup';
system('cp', '-a', $data, $backup) == 0 or die 'cp';
append_to_file("$_/postgresql.conf", "gpucredit.clock = ''\n") foreach $data, $backup;
$server->start;
my $endless = submit($cluster, '1xT4', q{echo up > $OUT/up; trap '' TERM; while :; do sleep 1; done});
my $quick   = submit($cluster, '1xT4', q{echo up > $OUT/up; sleep 0.5});
wait_for_state($cluster, $_, 'completed') foreach $ends, $quick;
wait_for('one more runs', 20, sub { -e "$cluster->{submitted}{$endless}/up" });
my $lost = $cluster->{submitted}{$endless};
$server->stop('immediate');
wait_for('what runs is stopped', 20, sub { agent_log($n1) . agent_log($n2) . agent_log($n3) =~ m{fenced attempt=acme/$runs/1} });
sleep(2.5);
remove_tree($data);
rename($backup, $data) or die "rename: $!";
$server->start;

# jobs with the same numbers as before
my @again = map { submit($cluster, '1xT4', q{echo up > $OUT/up; sleep 1}) } 1 .. 2;
is("@again", "$endless $quick", 'numbers are given out again');
wait_for_state($cluster, $_, 'completed', 60) foreach $ends, $runs, @again;
ok(-e "$cluster->{submitted}{$_}/up", "job $_ ran, whatever its number was before")
  foreach @again;
bill_is_fair($cluster, $_, 1, 1) foreach @again;
bill_is_fair($cluster, $ends, 1, 3.5, 1.5);
is(slurp_file("$cluster->{submitted}{$ends}/on") =~ tr/\n//,
	1, 'what ended meanwhile did not run again');
is(job_row($cluster, $runs, 'attempt'), 1, 'what ran goes on');
bill_is_fair($cluster, $runs, 1, went_on_for($runs), 1.5);
wait_for('what the database forgot is ended', 20,
	sub { !processes_of("OUT=$lost", 'environ') });

# n1's messages do not arrive, and n2 gets no answers: both stop in time, and
# their jobs run elsewhere.
end_agent($n3);
query($server, 'credit', q{SELECT gpucredit.drain('n3', 'test')});
my @jobs = map { submit($cluster, '1xT4', $count) } 1 .. 2;
wait_for('both run', 20,
	sub { 2 == grep { -e "$cluster->{submitted}{$_}/ticks" } @jobs });
relay_cuts($relay{n1}, 'up');
relay_cuts($relay{n2}, 'down');
wait_for("cut off, $_->{name} stops what it runs",
	20, sub { agent_log($_) =~ m{event=fenced attempt=acme/(?:$jobs[0]|$jobs[1])/1} })
  foreach $n1, $n2;
my @stood = map { -s "$cluster->{submitted}{$_}/ticks" } @jobs;
sleep(0.5);
is_deeply([ map { -s "$cluster->{submitted}{$_}/ticks" } @jobs ],
	\@stood, 'they stand still');
query($server, 'credit', q{SELECT gpucredit.resume('n3')});
start_agent($n3);
wait_for(
	'their nodes are given up', 20,
	sub {
		query($server, 'credit', 'SELECT count(*) FROM gpucredit.check_nodes()');
		return 2 == grep { job_state($cluster, $_) eq 'queued'
			  || job_row($cluster, $_, 'attempt') > 1 } @jobs;
	});
wait_for_state($cluster, $_, 'completed', 30) foreach @jobs;
like(slurp_file("$cluster->{submitted}{$_}/on"),
	qr/^GPU-n[12]-0\nGPU-n3-[01]\n$/, 'it ran elsewhere')
  foreach @jobs;
relay_heals($_) foreach values %relay;
wait_for('with the network back, what was left is ended', 20,
	sub { !grep { processes_of_attempt($_, 1) } @jobs });

# run time on a lost node is not billed
bill_is_fair($cluster, $_, 1, ran($_)) foreach @jobs;

# The wall clock of a node jumps by an hour, forth and back.
SKIP:
{
	skip 'no libfaketime', 3 unless $library;
	end_agent($n3);
	query($server, 'credit', "SELECT gpucredit.drain('$_', 'test')")
	  foreach qw(n1 n2);
	my $clock = "$n3->{folder}/clock";
	set_clock($clock, '+0');
	start_agent($n3, LD_PRELOAD => $library, FAKETIME_NO_CACHE => 1,
		FAKETIME_TIMESTAMP_FILE => $clock, FAKETIME_DONT_FAKE_MONOTONIC => 1);
	my $job = submit($cluster, '1xT4',
		q{for i in $(seq 1 30); do echo $i >> $OUT/ticks; sleep 0.1; done});
	wait_for('it runs', 20, sub { -e "$cluster->{submitted}{$job}/ticks" });
	sleep(0.8);
	set_clock($clock, '+3600');
	sleep(0.8);
	set_clock($clock, '-3600');
	wait_for_state($cluster, $job, 'completed');
	bill_is_fair($cluster, $job, 1, 3);
}
end_cluster($cluster);
kill('KILL', map { $_->{pid} } values %relay);
done_testing();

# How long a program says that it ran, on a machine that may be busy.
sub ran
{
	my ($began, $ended) = split /\n/, slurp_file("$cluster->{submitted}{$_[0]}/span");

	return $ended - $began;
}

# the file that libfaketime reads at each look at the clock
sub set_clock
{
	my ($file, $offset) = @_;

	append_to_file("$file.new", "$offset\n");
	rename("$file.new", $file) or die "$file: $!";
	return;
}

# A proxy between an agent and the server, which can stop bytes: SIGUSR1 stops
# those to the server, SIGUSR2 those from it, SIGHUP none.
sub start_relay
{
	my $folder = PostgreSQL::Test::Utils::tempdir_short();
	my $listen = IO::Socket::UNIX->new(
		Local => "$folder/.s.PGSQL.1", Listen => 16) or die "$folder: $!";
	my $pid = fork();

	die "fork: $!" unless defined $pid;
	if ($pid == 0)
	{
		eval { relay($listen); 1 } or warn $@;
		POSIX::_exit(1);
	}
	return { folder => $folder, pid => $pid };
}

sub relay
{
	my ($listen) = @_;
	my %held = (up => 0, down => 0);
	my %peer;		# of a socket: the other one, and which way its bytes go

	local $SIG{USR1} = sub { $held{up}   = 1 };
	local $SIG{USR2} = sub { $held{down} = 1 };
	local $SIG{HUP}  = sub { %held = (up => 0, down => 0) };
	local $SIG{PIPE} = 'IGNORE';
	while (getppid() != 1)
	{
		my @ready = IO::Select->new($listen,
			map { $_->{from} } grep { !$held{ $_->{way} } } values %peer)
		  ->can_read(0.05);

		foreach my $from (@ready)
		{
			if ($from == $listen)
			{
				my $client = $listen->accept or next;
				my $up = IO::Socket::UNIX->new(
					Peer => $server->host . '/.s.PGSQL.' . $server->port) or next;

				$peer{$client} = { from => $client, to => $up, way => 'up' };
				$peer{$up} = { from => $up, to => $client, way => 'down' };
				next;
			}
			my $one = $peer{$from} or next;
			my $bytes;
			next if sysread($from, $bytes, 65536) && syswrite($one->{to}, $bytes);
			delete @peer{ $from, $one->{to} };
			close($_) foreach $from, $one->{to};
		}
	}
	return;
}

sub relay_cuts
{
	my ($relay, $way) = @_;

	kill($way eq 'up' ? 'USR1' : 'USR2', $relay->{pid});
	return;
}

sub relay_heals
{
	my ($relay) = @_;

	kill('HUP', $relay->{pid});
	return;
}

# How long a job whose ticks are instants was not stopped: a tick is due each
# 0.1 s, so a second without one is a time in which it stood.
sub went_on_for
{
	my @ticks = split /\n/, slurp_file("$cluster->{submitted}{$_[0]}/ticks");
	my $went_on = 0;

	foreach my $i (1 .. $#ticks)
	{
		my $gap = $ticks[$i] - $ticks[ $i - 1 ];

		$went_on += $gap if $gap < 1;
	}
	return $went_on;
}
