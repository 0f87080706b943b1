# GpuCreditKubernetes.pm: what the tests of the Kubernetes bridge share
#
#   my $k = kubernetes('pods');            # database, API server, two nodes
#   start_bridge($k);
#   make_pod($k, 'acme', 'train', gpus => 2, sleep => 3);
#   wait_for('it ran', 20, sub { phase($k, 'acme', 'train') eq 'Succeeded' });
#   end_kubernetes($k);                    # bills are what ran; verify() is empty
#
# Namespace acme is organisation acme, at 1 credit a GPU and second.  The API
# server is the play's, or that of $KUBEBUILDER_ASSETS ($k->{assets}).
package GpuCreditKubernetes;

use strict;
use warnings;

use Exporter 'import';
use FindBin;
use GpuCredit;
use GpuCreditAgent 'wait_for';
use GpuCreditAssets;
use HTTP::Tiny;
use JSON::PP;
use POSIX ();
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

# What the tests started; a test that dies leaves none of it.
my %started;

END
{
	my $status = $?;

	kill 'KILL', keys %started;
	$? = $status;
}

our @EXPORT = qw(
  kubernetes make_tenant make_node start_bridge kill_bridge end_bridge kill_apiserver api play
  make_pod make_workload workload check_of pods_of pod phase status_of annotation sql wait_for bill_of ran_of
  bills_are_fair verify_midway end_kubernetes bridge_log start_apiserver
);

my $home   = "$FindBin::RealBin/..";	# of test and test_root
my $bridge = "$home/../gpucredit-bridge";

# A server with a foreign pool, an API server, and nodes n1 and n2 of 4 T4.  With
# the option apart, the API server may be killed.
sub kubernetes
{
	my ($name, %options) = @_;
	# root cannot start a server, and uses that of its environment
	my $server = $> == 0
	  ? bless({}, 'GpuCreditAgent::Server')
	  : new_node($name, @{ $options{conf} || [] });
	my $k = {
		server => $server,
		folder => PostgreSQL::Test::Utils::tempdir_short(),
		token  => $options{token},
		http   => HTTP::Tiny->new(timeout => 20, verify_SSL => 0),
		bridges => {},
		nodes   => $options{nodes} || 2 };

	$server->safe_psql('postgres', 'DROP DATABASE IF EXISTS credit WITH (FORCE)');
	new_database($server, 'credit');
	sql($k, q{
		DO $$ BEGIN
			CREATE ROLE bridge LOGIN IN ROLE gpucredit_app, gpucredit_agent,
				gpucredit_operator, gpucredit_auditor;
		EXCEPTION WHEN duplicate_object THEN NULL; END $$;
		SELECT gpucredit.set_price('T4', 3600),
			gpucredit.create_pool('kubernetes', '{"placed_by": "foreign"}')});
	if ($ENV{KUBEBUILDER_ASSETS})
	{
		start_assets($k, $home);
	}
	elsif ($options{apart})
	{
		start_apiserver($k, '--bare', '--keep', "$k->{folder}/objects");
		start_kubelets($k, $home);
	}
	else
	{
		start_apiserver($k, @{ $options{apiserver} || [] });
	}
	make_node($k, "n$_", $options{gpus} || 4) foreach 1 .. $k->{nodes};
	make_tenant($k, 'acme', 100000);
	return $k;
}

sub start_apiserver
{
	my ($k, @arguments) = @_;
	my $pid = open(my $out, '-|', $^X, "$home/play/apiserver", @arguments)
	  or die "could not start the API server: $!";

	chomp($k->{url} = readline($out) // die "the API server did not start\n");
	@$k{qw(api_pid api_out)} = (ends_with_us($pid), $out);
	return;
}

# Kills the API server; it starts again after a while, with what it kept.
sub kill_apiserver
{
	my ($k, $pause) = @_;

	return play_assets($k, "away?s=$pause") if $k->{assets};
	end_process($k->{api_pid}, 'KILL');
	sleep $pause;
	my ($port) = $k->{url} =~ /:(\d+)$/;

	return start_apiserver($k, '--bare', '--keep', "$k->{folder}/objects", '--port', $port);
}

# Notes a process, which ends with the test at the latest.
sub ends_with_us
{
	my ($pid) = @_;

	$started{$pid} = 1;
	return $pid;
}

sub end_process
{
	my ($pid, $signal) = @_;

	kill($signal || 'TERM', $pid);
	waitpid($pid, 0);
	delete $started{$pid};
	return;
}

# Ends those of the processes that there are.
sub end_all
{
	my ($k, @names) = @_;

	end_process(delete $k->{$_}) foreach grep { $k->{$_} } @names;
	return;
}

sub sql
{
	my ($k, $sql) = @_;

	return query($k->{server}, 'credit', $sql);
}

sub make_tenant
{
	my ($k, $org, $credits) = @_;

	sql($k, "SELECT gpucredit.create_account('$org')");
	sql($k, "SELECT gpucredit.issue('$org', '', 'paid', $credits)") if $credits;
	api($k, 'POST', '/api/v1/namespaces',
		{ metadata => { name => $org, annotations => { 'gpucredit.io/org' => $org } } });
	return;
}

sub make_node
{
	my ($k, $name, $gpus) = @_;

	api($k, 'POST', '/api/v1/nodes', {
		metadata => { name => $name, labels => {
			'nvidia.com/gpu.product' => 'T4', 'nvidia.com/gpu.memory' => '16384' } },
		status => {
			capacity   => { 'nvidia.com/gpu' => "$gpus" },
			conditions => [ { type => 'Ready', status => 'True' } ] } });
	return;
}

# A call of the API server; dies of a refusal, unless a status is asked for.
sub api
{
	my ($k, $method, $path, $body, $type) = @_;
	my $answer = $k->{http}->request($method, "$k->{url}$path", {
		headers => { 'Content-Type' => $type || 'application/json',
			$k->{token} ? (Authorization => "Bearer $k->{token}") : () },
		defined $body ? (content => JSON::PP->new->utf8->encode($body)) : () });

	$k->{status} = $answer->{status};
	return eval { JSON::PP->new->utf8->decode($answer->{content}) };
}

sub play
{
	my ($k, $what) = @_;

	return play_assets($k, $what) if $k->{assets};
	return $k->{play_url} ? ask_kubelets($k, $what) : api($k, 'GET', "/play/$what");
}

# Starts a bridge; further arguments are settings, and env, its environment.
sub start_bridge
{
	my ($k, $name, %settings) = @_;
	my $server = $k->{server};
	my $env = delete $settings{env} || {};

	$name ||= 'bridge';
	my $conf = "$k->{folder}/$name.conf";
	my %all = (
		database => 'dbname=credit user=bridge host='
		  . $server->host . ' port=' . $server->port,
		api       => $k->{url},
		identity  => $name,
		lease_s   => 6,
		meter_ms  => 500,
		retry_ms  => 500,
		stop_grace_s => 1,
		report_late_s => 1,
		%{ $k->{settings} || {} },
		%settings);

	unlink $conf;
	append_to_file($conf, join '', map { "$_ = $all{$_}\n" } sort keys %all);
	append_to_file("$k->{folder}/$name.log", '');	# it may be read at once
	my $pid = fork();

	die "fork: $!" unless defined $pid;
	if ($pid == 0)
	{
		open(STDERR, '>>', "$k->{folder}/$name.log");
		@ENV{ keys %$env } = values %$env;
		exec($bridge, 'kubernetes', $conf) or POSIX::_exit(127);
	}
	$k->{bridges}{$name} = $pid;
	$k->{logs}{$name} = 1;
	ends_with_us($pid);
	return;
}

sub kill_bridge
{
	my ($k, $name) = @_;

	end_bridge($k, $name, 'KILL');
	return;
}

sub end_bridge
{
	my ($k, $name, $signal) = @_;
	my $pid = delete $k->{bridges}{ $name || 'bridge' } or return;

	end_process($pid, $signal);
	return;
}

sub bridge_log
{
	my ($k, $name) = @_;

	return slurp_file("$k->{folder}/" . ($name || 'bridge') . '.log');
}

# A pod with our gate.  Options: gpus, sleep, exit, deaf (to SIGTERM), annotations,
# spec, ungated.
sub make_pod
{
	my ($k, $space, $name, %options) = @_;
	my $command = ($options{deaf} ? "trap '' TERM; " : '')
	  . 'sleep ' . ($options{sleep} // 1) . '; exit ' . ($options{exit} // 0);
	my %annotations = (
		'gpucredit.io/wall-limit' => '60s',
		%{ $options{annotations} || {} });

	delete @annotations{ grep { !defined $annotations{$_} } keys %annotations };
	$_ = "$_" foreach values %annotations;
	return api($k, 'POST', "/api/v1/namespaces/$space/pods", {
		metadata => { name => $name, annotations => \%annotations },
		spec => {
			restartPolicy => 'Never',
			terminationGracePeriodSeconds => 1,
			$options{ungated} ? ()
			: (schedulingGates => [ { name => 'gpucredit.io/credit' } ]),
			containers => [ {
				name => 'main', image => 'play',
				command   => [ 'sh', '-c', $command ],
				resources => { limits => { 'nvidia.com/gpu' => $options{gpus} // 1 } } } ],
			%{ $options{spec} || {} } } });
}

# A workload of Kueue.  Options as of a pod, of its template; count; restarts;
# sets: pod sets of [name, count, gpus]; limit: its maximum execution time.
sub make_workload
{
	my ($k, $space, $name, %options) = @_;
	my $command = 'sleep ' . ($options{sleep} // 1) . '; exit ' . ($options{exit} // 0);
	my @sets = @{ $options{sets} || [ [ 'main', $options{count} // 1, $options{gpus} // 1 ] ] };

	return api($k, 'POST', "/apis/kueue.x-k8s.io/v1beta1/namespaces/$space/workloads", {
		metadata => { name => $name, annotations => { 'play/restarts' => '' . ($options{restarts} // 0) } },
		spec => {
			queueName => 'queue',
			defined $options{limit} ? (maximumExecutionTimeSeconds => $options{limit}) : (),
			podSets => [ map {
				{   name => $_->[0], count => $_->[1],
					template => {
						metadata => { annotations => {
							defined $options{limit} ? () : ('gpucredit.io/wall-limit' => '60s'),
							%{ $options{annotations} || {} } } },
						spec => {
							terminationGracePeriodSeconds => 1,
							containers => [ {
								name => 'main', image => 'play',
								command   => [ 'sh', '-c', $command ],
								resources => $_->[2] ? { limits => { 'nvidia.com/gpu' => $_->[2] } } : {} } ],
							%{ $options{spec} || {} } } } }
			} @sets ] } });
}

sub workload
{
	my ($k, $space, $name) = @_;
	my $one = api($k, 'GET', "/apis/kueue.x-k8s.io/v1beta1/namespaces/$space/workloads/$name");

	return $k->{status} == 200 ? $one : undef;
}

# What our check says of a workload: "STATE: MESSAGE"; '' before it has quota.
sub check_of
{
	my $one = workload(@_) or return 'Gone';
	my ($check) = grep { $_->{name} eq 'credit' } @{ $one->{status}{admissionChecks} || [] };

	return $check ? "$check->{state}: $check->{message}" : '';
}

sub pods_of
{
	my ($k, $space, $name) = @_;

	return grep { (($_->{metadata}{ownerReferences} || [])->[0]{name} // '') eq $name }
	  @{ api($k, 'GET', "/api/v1/namespaces/$space/pods")->{items} };
}

sub pod
{
	my ($k, $space, $name) = @_;
	my $pod = api($k, 'GET', "/api/v1/namespaces/$space/pods/$name");

	return $k->{status} == 200 ? $pod : undef;
}

# Its phase; Gated while it has a gate, Gone once it is not there.
sub phase
{
	my ($k, $space, $name) = @_;
	my $pod = pod($k, $space, $name) or return 'Gone';

	return 'Gated' if @{ $pod->{spec}{schedulingGates} || [] };
	return $pod->{status}{phase};
}

sub annotation
{
	my ($k, $space, $name, $word) = @_;
	my $pod = pod($k, $space, $name) or return '';

	return $pod->{metadata}{annotations}{"gpucredit.io/$word"} // '';
}

sub status_of
{
	return annotation(@_, 'status');
}

# What a pod really ran: {started, finished, gpus, ...}, by its name.
sub ran_of
{
	my ($k, $name) = @_;
	my $ran = play($k, 'ran')->{ran};

	return (grep { ($_->{name} // '') eq $name } values %$ran)[0];
}

sub bill_of
{
	my ($k, $pod) = @_;

	return sql($k, "SELECT sum(a.billed) FROM gpucredit.job j JOIN gpucredit.attempt a USING (org, job) WHERE j.spec->'kubernetes'->'pods' ? '$pod->{metadata}{uid}'");
}

# A test: what each job was billed is what its pods' containers really ran, to a
# second; what ran on a silent node may be unseen.
sub bills_are_fair
{
	my ($k) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $ran = play($k, 'ran')->{ran};
	my (%paid, @wrong);
	my $n = 0;

	foreach my $row (split /\n/, sql($k, q{
		SELECT j.job || ' ' || coalesce(sum(a.billed::numeric + coalesce(a.uncollected::numeric, 0)), 0)
			|| ' ' || coalesce(max(h.held), 0) || ' ' || (j.spec->'kubernetes'->'pods')
		FROM gpucredit.job j LEFT JOIN gpucredit.attempt a USING (org, job)
			LEFT JOIN gpucredit.hold h ON h.org = j.org AND h.hold = a.hold
		WHERE j.attempt > 0 GROUP BY j.job, j.spec}))
	{
		my ($job, $billed, $held, $list) = split / /, $row, 4;
		my %mine = map { $_ => 1 } @{ JSON::PP->new->decode($list) };
		my ($from, $to, $gpus) = (1e18, 0, 0);

		# a workload's job says on its pods who pays
		$mine{$_} = 1
		  foreach grep { !%mine && ($ran->{$_}{paid_by} // '') eq $job } keys %$ran;
		my @pods = grep { $_ && $_->{started} } @$ran{ keys %mine };

		%paid = (%paid, %mine);
		foreach (@pods)
		{
			$from = $_->{started} if $_->{started} < $from;
			$to = $_->{finished} // time() if ($_->{finished} // time()) > $to;
			$gpus += $_->{gpus};
		}
		my $seconds = @pods ? $to - $from : 0;

		$n++ if @pods;
		my $off     = $billed - $seconds * $gpus;
		my $most    = ($gpus || 1) + 0.001;

		push @wrong, sprintf('job %s: billed %.3f for %d x %.3f s', $job, $billed, $gpus, $seconds)
		  if $off > $most || ($off < -$most && !grep { $k->{unseen}{ $_->{name} } } @pods);
	}
	# what ran without an attempt is billed by a hold of its own
	my %charged = map { split / / } split /\n/, sql($k, q{
		SELECT split_part(q.key, '/', 1) || ' ' || h.captured::numeric + coalesce(h.uncollected::numeric, 0)
		FROM gpucredit.request q JOIN gpucredit.hold h ON h.org = q.org AND h.hold = q.result[1]::bigint
		WHERE q.operation = 'hold' AND q.key LIKE '%/unpaid'});

	foreach (grep { $ran->{$_}{started} && $ran->{$_}{gpus} && !$paid{$_} } keys %$ran)
	{
		my ($name, $gpus, $started, $finished) = @{ $ran->{$_} }{qw(name gpus started finished)};
		my $seconds = ($finished // time()) - $started;

		push @wrong, sprintf('%s: %s for %d x %.3f s that it ran unpaid', $name,
			defined $charged{$_} ? "billed $charged{$_}" : 'no bill', $gpus, $seconds)
		  if !$k->{may_run_unpaid}{$name}
		  && abs(($charged{$_} // 0) - $gpus * $seconds) > $gpus + 0.001;
	}
	push @wrong, "$ran->{$_}{name} is billed twice"
	  foreach grep { $charged{$_} && $paid{$_} } keys %$ran;
	return is(join("\n", @wrong), '', "the bills of $n jobs are what ran")
	  || diag(map { bridge_log($k, $_) } sort keys %{ $k->{logs} });
}

# A test: the books are right while something runs.
sub verify_midway
{
	my ($k, $what) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	return verify_empty($k->{server}, 'credit', "verify() is empty while $what");
}

# The end: nothing is held, the bills are right, and so are the books.
sub end_kubernetes
{
	my ($k, %options) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $open = q{SELECT count(*) FROM gpucredit.job WHERE ended_at IS NULL};

	wait_for('every job is over', 60, sub { sql($k, $open) eq '0' })
	  or diag(sql($k, q{SELECT job, state, attempt, spec FROM gpucredit.job WHERE ended_at IS NULL LIMIT 10}));
	is(sql($k, q{SELECT count(*) FROM gpucredit.holds WHERE closed_at IS NULL}),
		'0', 'and nothing is held');
	bills_are_fair($k);
	end_bridge($k, $_) foreach keys %{ $k->{bridges} };
	verify_empty($k->{server}, 'credit');
	$k->{assets} ? stop_assets($k) : end_all($k, qw(play_pid api_pid));
	unlike(join('', map { bridge_log($k, $_) } sort keys %{ $k->{logs} }), qr/event=(?:call_refused|pod_refused|load_refused|meter_refused)/,
		'and nothing was refused that should not be')
	  unless $options{refusals};
	return;
}

1;
