# spot.pl: a cloud says that it takes a machine back, and its jobs save in time

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use GpuCredit;
use GpuCreditAgent;
use IO::Socket::INET;
use POSIX qw(strftime);
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

# The service's clock is a day behind the machines': only its own counts.
my $SKEW = -86400;

my $metadata = PostgreSQL::Test::Utils::tempdir_short();
my ($service, $port) = start_service();
my $cluster = cluster('spot');
my $server  = $cluster->{server};
my @often   = ("spot_url = http://127.0.0.1:$port", 'spot_poll_ms = 100');
my $saves   = q{
save() { date +%s.%N > $OUT/signal; echo weights > $OUT/save; echo "checkpoint 1 $OUT/save" >&3; }
trap 'save; exit 0' USR1
echo "from ${RESUME_STEP:-0}" >> $OUT/began
[ "${RESUME_STEP:-0}" = 1 ] && exit 0
while :; do sleep 0.1; done
};

# Heartbeats are rare, so that the note below measures the notice alone.
my %slow = (heartbeat_ms => 20000);
my $aws = add_node($cluster, 'aws', 1, %slow, conf => [ @often, 'listen = yes', 'spot = aws' ]);
my $job = submit($cluster, '1xT4', $saves, checkpoint_signal => 'USR1');
my $out = $cluster->{submitted}{$job};
wait_for('a job runs on a spot node', 60, sub { -s "$out/began" });

# What is no notice changes nothing, and the agent's loop goes on.
my %nonsense = (
	'a status of its own'      => '500 x||{"action": "stop", "time": "SOON"}',
	'no object'                => '200 x||{"action"',
	'a list'                   => '200 x||[1]',
	'an action of a number'    => '200 x||{"action": 1, "time": "SOON"}',
	'no time'                  => '200 x||{"action": "stop"}',
	'a time with a tail'       => '200 x||{"action": "stop", "time": "SOONx"}',
	'the year 9999'            => '200 x||{"action": "stop", "time": "9999-01-01T00:00:00Z"}',
	'the year 1970'            => '200 x||{"action": "stop", "time": "1970-01-01T00:00:00Z"}',
	'a key twice'              => '200 x||{"action": "stop", "time": "SOON", "time": "SOON"}',
	'another place'            => '302 x|Location: /elsewhere|',
	'no token any more'        => '401 x||',
	'more than anybody says'   => 'HUGE',
	'a header without an end'  => 'HEADER',
	'a body that drips'        => 'DRIP',
	'not HTTP'                 => 'NOISE');
foreach my $what (sort keys %nonsense)
{
	set_answer('/latest/meta-data/spot/instance-action', $nonsense{$what});
	wait_for_requests('instance-action');
	is(state_of('aws'), 'ready', "$what is no notice");
}
set_answer('/latest/meta-data/spot/instance-action', 'SILENT');
wait_for_requests('instance-action');
my $brief = submit($cluster, '0', 'true', no_lock => 1);
wait_for_state($cluster, $brief, 'completed', 15);
is(job_state($cluster, $job), 'running', 'a service that does not answer keeps no job from starting, and ends none');
ok(!-e "$metadata/refused", 'every request has its token');
like(agent_log($aws), qr/event=spot_failed cloud=aws error="the notice's instant is more than an hour from now"/, 'the log says what is wrong');

# The notice: the job saves at once, and leaves by the deadline.
set_answer('/latest/meta-data/spot/instance-action', '200 x||{"action": "terminate", "time": "SOON"}');
wait_for_leave($job, 'preempted');
my $told = first_answer('instance-action');
my $took = slurp_file("$out/signal") - $told;
note(sprintf('from the notice to the signal: %.3f s', $took));
is(state_of('aws'), 'reclaimed', 'the node is reclaimed');
my $left = query($server, 'credit', "SELECT date_part('epoch', deadline) FROM gpucredit.nodes WHERE node = 'aws'") - $told;
ok($left > 55 && $left < 300, 'the node leaves by the deadline of the notice, whatever the clock of the machine says') or diag($left);
my $notices = () = agent_log($aws) =~ /event=spot_reclaimed/g;
is($notices, 1, 'a notice that is seen again is passed on once');

# A restarted agent sees it again.
end_agent($aws);
start_agent($aws);
wait_for('a restarted agent reclaims its node again', 60,
	sub { 2 == (() = agent_log($aws) =~ /event=spot_reclaimed/g) });

# The machine stays after all.
set_answer('/latest/meta-data/spot/instance-action', '404 x||');
wait_for_requests('instance-action');
query($server, 'credit', q{SELECT gpucredit.resume('aws')});
wait_for_state($cluster, $job, 'completed', 60);
is(slurp_file("$out/began"), "from 0\nfrom 1\n", 'the job went on from what it saved');

# The database refuses the call: the job leaves nevertheless.
$job = submit($cluster, '1xT4', $saves, checkpoint_signal => 'USR1');
$out = $cluster->{submitted}{$job};
wait_for('the next one runs', 60, sub { -s "$out/began" });
query($server, 'credit', 'ALTER FUNCTION gpucredit.reclaim(text, interval) RENAME TO not_now');
set_answer('/latest/meta-data/spot/instance-action', '200 x||{"action": "hibernate", "time": "SOON"}');
wait_for('the job saves although the database does not take the notice', 60, sub { -s "$out/signal" });
like(agent_log($aws), qr/event=reclaim_refused state=42883/, 'the refusal is logged');
query($server, 'credit', 'ALTER FUNCTION gpucredit.not_now(text, interval) RENAME TO reclaim');
wait_for('the database has it once it can', 60, sub { state_of('aws') eq 'reclaimed' });
wait_for_leave($job, 'preempted');
end_agent($aws);
query($server, 'credit', "SELECT gpucredit.cancel('acme', $job, 'enough')");

# Other clouds
my $gcp = add_node($cluster, 'gcp', 1, conf => [ @often, 'spot = gcp' ]);
my $azure = add_node($cluster, 'azure', 1, conf => [ @often, 'spot = azure' ]);
for my $answer ('200 x||MAYBE', '200 x||', '503 x||TRUE', '200 x||FALSE')
{
	set_answer('/computeMetadata/v1/instance/preempted', $answer);
	wait_for_requests('preempted');
}
is(state_of('gcp'), 'ready', 'Google: FALSE and nonsense are no notice');
set_answer('/computeMetadata/v1/instance/preempted', '200 x||TRUE');
wait_for('Google: TRUE is one', 60, sub { state_of('gcp') eq 'reclaimed' });
$left = query($server, 'credit', "SELECT date_part('epoch', deadline) FROM gpucredit.nodes WHERE node = 'gcp'") - first_answer('preempted');
ok($left > 20 && $left < 300, 'of 30 seconds, from when the agent saw it') or diag($left);

my $event = q({"EventType": "%s", "Resources": ["%s"], "NotBefore": "%s"});
for my $events ('{}', '{"Events": 1}', '{"Events": [1, null, {}, {"EventType": "Preempt"}, {"EventType": "Preempt", "Resources": [1]}]}',
	'{"Events": [' . join(', ', sprintf($event, 'Reboot', 'gpu_7', 'RFC'), sprintf($event, 'Preempt', 'gpu_8', 'RFC'), sprintf($event, 'Preempt', 'gpu_7', 'soon')) . ']}')
{
	set_answer('/metadata/scheduledevents', "200 x||$events");
	wait_for_requests('scheduledevents');
}
is(state_of('azure'), 'ready', 'Azure: events of other machines and other kinds are no notice');
set_answer('/metadata/scheduledevents', '200 x||{"Events": [' . join(', ', sprintf($event, 'Preempt', 'gpu_8', 'RFC'), sprintf($event, 'Preempt', 'GPU_7', 'RFC')) . ']}');
wait_for('Azure: an event of this machine is one', 60, sub { state_of('azure') eq 'reclaimed' });

# Settings that cannot be meant
for my $wrong ('spot = alibaba', 'spot_url = file:///etc/passwd')
{
	my $n = add_node($cluster, 'wrong', 1, stopped => 1, conf => [$wrong]);
	start_agent($n);
	waitpid(delete $n->{pid}, 0);
	is($? >> 8, 1, "\"$wrong\" ends the agent");
}

# What is left must not wait for nodes that are gone.
query($server, 'credit', "SELECT gpucredit.resume(node) FROM gpucredit.node");
end_cluster($cluster);
kill('TERM', $service);
waitpid($service, 0);
done_testing();

sub state_of
{
	my ($node) = @_;

	return query($server, 'credit', "SELECT state FROM gpucredit.nodes WHERE node = '$node'");
}

sub wait_for_leave
{
	my ($of, $outcome) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	wait_for("it leaves as $outcome", 60,
		sub { query($server, 'credit', "SELECT count(*) FROM gpucredit.attempt WHERE job = $of AND outcome = '$outcome'") eq '1' });
	return;
}

# What the service answers for a path from now on: STATUS|HEADER|BODY, or a
# word for a service that misbehaves.
sub set_answer
{
	my ($path, $answer) = @_;
	my $name = $path =~ s{.*/}{}r;

	unlink("$metadata/$name.answered");
	append_to_file("$metadata/$name.new", $answer);
	rename("$metadata/$name.new", "$metadata/$name") or die;
	return;
}

# Waits until a machine has asked twice since, so that it knows the answer.
sub wait_for_requests
{
	my ($name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	wait_for("$name is asked", 60, sub { -e "$metadata/$name.answered" && 2 <= (() = slurp_file("$metadata/$name.answered") =~ /\n/g) });
	return;
}

# When the present answer was first sent.
sub first_answer
{
	my ($name) = @_;

	return (split /\n/, slurp_file("$metadata/$name.answered"))[0];
}

sub start_service
{
	my $listener = IO::Socket::INET->new(LocalAddr => '127.0.0.1', Listen => 20, ReuseAddr => 1, Timeout => 1) or die $!;
	my $parent = $$;
	my $pid = fork() // die;

	if ($pid == 0)
	{
		$SIG{PIPE} = $SIG{CHLD} = 'IGNORE';
		POSIX::close($_) foreach grep { $_ != fileno($listener) } 0 .. 255;
		# it ends with the test, however that ends
		while (getppid() == $parent)
		{
			my $client = $listener->accept or next;

			next if fork();
			$SIG{ALRM} = sub { POSIX::_exit(0) };
			alarm(30);
			serve($client);
			POSIX::_exit(0);
		}
		POSIX::_exit(0);
	}
	return ($pid, $listener->sockport);
}

sub serve
{
	my ($client) = @_;
	my $request = '';
	my ($answer, $name);

	$request .= <$client> // return until $request =~ /\r\n\r\n$/;
	my ($method, $path) = $request =~ m{^(\S+) ([^ ?]*)} or return;

	$name = $path =~ s{.*/}{}r;
	if ($path eq '/latest/api/token')
	{
		$answer = $method eq 'PUT' && $request =~ /^X-aws-ec2-metadata-token-ttl-seconds: 21600\r$/m ? '200 x||AQAEAtoken==' : '400 x||';
	}
	elsif ($path eq '/metadata/instance/compute/name')
	{
		$answer = '200 x||gpu_7';
	}
	elsif ($path =~ m{^/latest/} && $request !~ /^X-aws-ec2-metadata-token: AQAEAtoken==\r$/m
		|| $path =~ m{^/computeMetadata/} && $request !~ /^Metadata-Flavor: Google\r$/m
		|| $path =~ m{^/metadata/} && $request !~ /^Metadata: true\r$/m)
	{
		$answer = '401 x||';
		append_to_file("$metadata/refused", $request);
	}
	else
	{
		$answer = -e "$metadata/$name" ? slurp_file("$metadata/$name") : '404 x||';
		append_to_file("$metadata/$name.answered", time() . "\n");
	}
	misbehave($client, $answer);
	my ($status, $header, $body) = split /\|/, $answer, 3;
	my $iso = strftime('%Y-%m-%dT%H:%M:%SZ', gmtime(time() + $SKEW + 60));
	my $rfc = strftime('%a, %d %b %Y %H:%M:%S GMT', gmtime(time() + $SKEW + 60));

	$body =~ s/SOON/$iso/g;
	$body =~ s/RFC/$rfc/g;
	print $client "HTTP/1.1 $status\r\nDate: " . strftime('%a, %d %b %Y %H:%M:%S GMT', gmtime(time() + $SKEW)) . "\r\n"
	  . ($header ? "$header\r\n" : '') . 'Content-Length: ' . length($body) . "\r\nConnection: close\r\n\r\n$body";
	close($client);
	return;
}

sub misbehave
{
	my ($client, $answer) = @_;
	my $ok = "HTTP/1.1 200 x\r\nDate: x\r\n";

	$client->autoflush(1);
	if ($answer eq 'HUGE')
	{
		print $client "$ok\r\n{\"action\": \"stop\", \"pad\": \"" or return;
		while (print $client 'x' x 65536) { }
	}
	elsif ($answer eq 'HEADER')
	{
		print $client $ok;
		while (print $client 'X-Pad: ' . ('x' x 1000) . "\r\n") { }
	}
	elsif ($answer eq 'DRIP')
	{
		print $client "$ok\r\n";
		while (print $client ' ') { sleep(0.1) }
	}
	elsif ($answer eq 'SILENT')
	{
		sleep(25);
	}
	elsif ($answer eq 'NOISE')
	{
		print $client join('', map { chr(($_ * 7919) % 256) } 1 .. 5000);
	}
	else
	{
		return;
	}
	POSIX::_exit(0);
}
