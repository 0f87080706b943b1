# GpuCreditHa/Main.pm: the three machines fail in turn; what follows, and when
package GpuCreditHa::Main;

use strict;
use warnings;

use List::Util qw(max shuffle);
use POSIX ();
use Time::HiRes qw(sleep time);

use GpuCreditHa::Cluster;
use GpuCreditHa::Load;

my $PATIENCE = 180;		# seconds for anything to happen

# What fails, of which machine, and who repairs it.  The first of a kind are the
# first to be played.
my @KILLS = (
	{ name => 'the primary\'s machine is killed', of => 'primary', begin => 'kill_machine', end => 'start_machine' },
	{ name => 'its PostgreSQL is killed', of => 'primary', begin => 'kill_postgres' },
	{ name => 'its Patroni is killed', of => 'primary', begin => 'kill_patroni' },
	{ name => 'the synchronous standby\'s machine is killed', of => 'standby', begin => 'kill_machine', end => 'start_machine' });
my @PARTITIONS = (
	{ name => 'the primary is cut off', of => 'primary', begin => 'leave_network', end => 'join_network', least => 12 },
	{ name => 'the primary is cut off, but not from clients', of => 'primary', begin => 'leave_machines', end => 'join_network', least => 12 },
	{ name => 'the synchronous standby is cut off', of => 'standby', begin => 'leave_network', end => 'join_network', least => 12 });

my (@children, $cluster, @wrong);

# Options: folder, source, bin, kills, partitions, seed, keep, namespaces,
# cgroup.  Returns the exit status.
sub main
{
	my (%o) = @_;
	my $status;

	srand($o{seed});
	$SIG{INT} = $SIG{TERM} = $SIG{HUP} = sub { die "interrupted\n" };
	STDOUT->autoflush(1);
	$status = eval { play(%o) };
	print STDERR "ha: $@" unless defined $status;
	$SIG{INT} = $SIG{TERM} = $SIG{HUP} = 'IGNORE';
	kill('TERM', @children);
	foreach my $pid (@children)
	{
		for (1 .. 100) { last if waitpid($pid, POSIX::WNOHANG()) != 0; sleep(0.1) }
		kill('KILL', $pid);
	}
	$cluster->stop if $cluster;
	return $status // 1;
}

sub play
{
	my (%o) = @_;
	my @faults = shuffle_faults($o{kills}, $o{partitions});
	my %took;

	print "Three machines, each with etcd, Patroni and PostgreSQL, ",
	  $o{namespaces} ? "in network namespaces\n" : "on 127.0.0.1\n";
	$cluster = GpuCreditHa::Cluster->new(%o);
	$cluster->start_machine($_) foreach $cluster->machines;
	set_up($cluster->wait_until_whole($PATIENCE));
	start_agent(%o);
	if ($o{keep})
	{
		keep();
		return 0;
	}

	my ($issues, $jobs, $starts) = map { "$o{folder}/$_" } qw(issues jobs starts);
	my $long = submit_long_job("$o{folder}/long");
	my $began = time();

	mkdir $starts or die "$starts: $!\n";
	chmod 0777, $starts;
	@children = (@children, my $issuing = GpuCreditHa::Load::issues($cluster, $issues),
		my $submitting = GpuCreditHa::Load::jobs($cluster, $jobs, $starts));
	wait_for('a first job', sub { GpuCreditHa::Load::first_start_since($jobs, $starts, $began) });

	my $number = 0;
	foreach my $fault (@faults)
	{
		my $took = play_fault($fault, $jobs, $starts);

		printf "%3d of %d: %-48s next start after %5.1f s\n", ++$number, scalar(@faults), $fault->{name}, $took;
		push @{ $took{ $fault->{name} } }, $took;
	}

	foreach my $pid ($issuing, $submitting)
	{
		kill('TERM', $pid);
		waitpid($pid, 0);
	}
	@children = grep { $_ != $issuing && $_ != $submitting } @children;
	check($issues, $jobs, $starts, $long, "$o{folder}/long");
	report(\%took, $issues, $jobs);
	print "WRONG: $_\n" foreach @wrong;
	print "Nothing that was acknowledged is lost, every job ran once, and the books balance.\n" unless @wrong;
	return @wrong ? 1 : 0;
}

# So many faults of each group, its kinds in turn, the groups mixed.
sub shuffle_faults
{
	my ($kills, $partitions) = @_;
	my @faults = shuffle((map { $KILLS[ $_ % @KILLS ] } 0 .. $kills - 1),
		(map { $PARTITIONS[ $_ % @PARTITIONS ] } 0 .. $partitions - 1));

	return @faults;
}

sub set_up
{
	my ($primary) = @_;
	my $password = $cluster->{password}{clients};
	my $dbh = $cluster->session($primary, 'postgres');

	$dbh->do('CREATE DATABASE credit');
	$dbh->disconnect;
	$dbh = $cluster->session($primary, 'credit');
	$dbh->do($_) foreach 'CREATE EXTENSION gpucredit',
	  "CREATE ROLE agents LOGIN PASSWORD '$password' IN ROLE gpucredit_agent",
	  "CREATE ROLE app LOGIN PASSWORD '$password' IN ROLE gpucredit_app",
	  "CREATE ROLE billing LOGIN PASSWORD '$password' IN ROLE gpucredit_admin",
	  q{SELECT gpucredit.create_account('acme'), gpucredit.issue('acme', '', 'paid', 1000000),
		gpucredit.set_price('T4', 1), gpucredit.register_node('default', 'n1', 'T4', 8, 16384)};
	$dbh->disconnect;
	return;
}

# An agent of eight made-up GPUs.
sub start_agent
{
	my (%o) = @_;
	my $folder = "$o{folder}/n1";

	mkdir $folder or die "$folder: $!\n";
	GpuCreditHa::Cluster::write_text("$folder/devices", join('', map { "GPU-n1-$_ 16384 ok\n" } 0 .. 7));
	GpuCreditHa::Cluster::write_text("$folder/agent.conf", join("\n", 'node = n1',
			'database = ' . $cluster->address('agents', 'credit'), "state = $folder/state",
			"devices = file:$folder/devices", 'cgroup = ' . ($o{cgroup} ? "$o{cgroup}/n1" : ''),
			"keeper = $o{source}/agent/gpucredit-keeper", "steps = $o{source}/agent/steps",
			'listen = yes', 'heartbeat_ms = 1000', 'meter_ms = 5000', ''));
	chmod 0600, "$folder/agent.conf";
	push @children, GpuCreditHa::Cluster::start_process(undef, "$folder/agent.log",
		"$o{source}/agent/gpucredit-agent", "$folder/agent.conf");
	return;
}

sub keep
{
	print "Clients reach it by\n    psql '", $cluster->address('app', 'credit'), "'\nPatroni says\n    patronictl -c ",
	  ($cluster->machines)[0]{folder}, "/patroni.yml list\nEnter ends it.\n";
	readline STDIN;
	return;
}

sub wait_for
{
	my ($what, $code) = @_;
	my $until = time() + $PATIENCE;

	while (time() < $until)
	{
		$cluster->restart_ended($_) foreach $cluster->machines;
		my $value = $code->();

		return $value if $value;
		sleep(0.1);
	}
	die "waited $PATIENCE s in vain for " . substr($what, 0, 200) . "\n";
}

# A statement on whichever machine is the primary.
sub at_primary
{
	my ($sql) = @_;

	return wait_for("an answer to: $sql", sub {
		my ($primary) = $cluster->primaries or return;
		my $value = $cluster->ask($primary, $sql, 'credit');

		return defined $value ? \$value : undef;
	});
}

# A job that counts seconds through all of it.
sub submit_long_job
{
	my ($file) = @_;
	my ($primary) = $cluster->primaries;
	my $job = $cluster->ask($primary, qq{SELECT job FROM gpucredit.reserve('acme', '', 'long', '1xT4', '1 day',
		spec => '{"script": "#!/bin/bash\\necho began >>$file; while sleep 1; do echo \$(date +%s) >>$file; done\\n"}')},
		'credit');

	wait_for('the long job to run', sub { -s $file });
	return $job;
}

# One fault, from a whole cluster to a whole cluster; returns how long nothing
# that was submitted since has started.
sub play_fault
{
	my ($fault, $jobs, $starts) = @_;
	my $primary = $cluster->wait_until_whole($PATIENCE);
	my ($begin, $end) = @$fault{qw(begin end)};
	my $machine = $primary;
	my ($begins, $since, $first);

	if ($fault->{of} eq 'standby')
	{
		my $name = wait_for('a synchronous standby', sub {
			$cluster->ask($primary, q{SELECT application_name FROM pg_stat_replication WHERE sync_state IN ('sync', 'quorum')}) });

		($machine) = grep { $_->{name} eq $name } $cluster->machines;
	}
	# any moment of Patroni's loop
	sleep(rand 3);
	$begins = time();
	if ($begin eq 'kill_patroni')
	{
		$cluster->kill_program($machine, 'patroni');
		sleep(0.1);		# RestartSec of systemd
		$cluster->start_patroni($machine);
	}
	else
	{
		$cluster->$begin($machine);
	}
	$since = time();
	$first = wait_for('the next start', sub { GpuCreditHa::Load::first_start_since($jobs, $starts, $since) });
	my $rest = $begins + ($fault->{least} || 0) - time();

	sleep($rest) if $rest > 0;
	$cluster->$end($machine) if $end;
	$cluster->wait_until_whole($PATIENCE);
	return $first - $begins;
}

sub check
{
	my ($issues, $jobs, $starts, $long, $long_file) = @_;
	my @issued = map { $_->[0] } GpuCreditHa::Load::acknowledged($issues);
	my @jobs = GpuCreditHa::Load::acknowledged($jobs);
	my @refused = grep { $_->[3] !~ /^\d+$/ } @jobs;
	my $lost;

	$cluster->wait_until_whole($PATIENCE);
	# an issue that is lost would be made now
	$lost = 0;
	for (my $i = 0; $i < @issued; $i += 200)
	{
		my $last = $i + 199 < $#issued ? $i + 199 : $#issued;

		$lost += ${ at_primary(sprintf q{SELECT count(*) FROM unnest('{%s}'::int[]) n,
			LATERAL gpucredit.issue('acme', '', 'load ' || n, 1) i WHERE NOT i.replayed},
			join(',', @issued[ $i .. $last ])) };
	}
	push @wrong, "$lost acknowledged issues are lost" if $lost;
	# the last call may not have been answered
	$lost = ${ at_primary(q{SELECT sum(amount::numeric) - 1000000 FROM gpucredit.entry
		WHERE org = 'acme' AND operation = 'issue'}) } - @issued;
	push @wrong, "$lost issues more than were made" unless $lost == 0 || $lost == 1;

	wait_for('all jobs to end', sub { ${ at_primary(
		"SELECT count(*) = 0 FROM gpucredit.jobs WHERE org = 'acme' AND ended_at IS NULL AND job <> $long") } eq '1' });
	push @wrong, "a job was refused: $_->[3]" foreach @refused;
	return if @refused;
	$lost = ${ at_primary(sprintf q{SELECT count(*) FROM unnest('{%s}'::bigint[]) n WHERE NOT EXISTS (
		SELECT FROM gpucredit.jobs j WHERE j.org = 'acme' AND j.job = n AND j.state = 'completed')},
		join(',', map { $_->[3] } @jobs)) };
	push @wrong, "$lost acknowledged jobs are lost, or did not complete" if $lost;
	$lost = ${ at_primary(q{SELECT count(*) FROM gpucredit.attempt WHERE org = 'acme' AND attempt > 1}) };
	push @wrong, "$lost attempts were repeated" if $lost;
	foreach my $n (map { $_->[0] } @jobs)
	{
		my $ran = () = -e "$starts/$n" ? GpuCreditHa::Cluster::read_text("$starts/$n") =~ /\n/g : ();

		push @wrong, "job $n ran $ran times" if $ran != 1;
	}

	my $text = GpuCreditHa::Cluster::read_text($long_file);
	my ($last) = $text =~ /(\d+)\n\z/;

	push @wrong, 'the long job did not go on' unless ($last // 0) > time() - 30 && (() = $text =~ /began/g) == 1;
	at_primary("SELECT gpucredit.cancel('acme', $long, 'the end')::text");
	wait_for('the long job to end', sub { ${ at_primary(
		"SELECT state = 'cancelled' AND attempt = 1 FROM gpucredit.jobs WHERE org = 'acme' AND job = $long") } eq '1' });
	my $findings = ${ at_primary(q{SELECT coalesce(string_agg(v::text, ' '), 'none') FROM gpucredit.verify() v}) };

	push @wrong, "verify(): $findings" if $findings ne 'none';
	return;
}

sub report
{
	my ($took, $issues, $jobs) = @_;
	my @all;

	printf "\n%-50s %6s %8s %8s\n", 'seconds from a fault to the next start', 'faults', 'median', 'most';
	foreach my $name (map { $_->{name} } @KILLS, @PARTITIONS)
	{
		my @of = @{ $took->{$name} || [] } or next;

		push @all, @of;
		report_row($name, @of);
	}
	report_row('all', @all) if @all;
	printf "%d issues and %d jobs were acknowledged; the longest call took %.1f s\n",
	  map({ scalar(GpuCreditHa::Load::acknowledged($_)) } $issues, $jobs),
	  max(0, map { $_->[2] - $_->[1] } map { GpuCreditHa::Load::acknowledged($_) } $issues, $jobs);
	return;
}

sub report_row
{
	my ($name, @seconds) = @_;
	my @sorted = sort { $a <=> $b } @seconds;

	printf "%-50s %6d %8.1f %8.1f\n", $name, scalar(@sorted), $sorted[ $#sorted / 2 ], $sorted[-1];
	return;
}

1;
