# 072_reasons.pl: each reason given for a waiting job is true
#
# Small random pools: types, shares, memory floors, cpu, memory, spot, drained
# and silent nodes, broken devices, fences, quotas, topology, reservations and
# preemption.  For each waiting job, the test checks every row of explain()
# that does not pass.  It compares the numbers with counts over the tables, and
# follows the advice in a transaction that is rolled back. queue() must say the
# same.
#
# GC_SEED chooses the pools (1), or is "random"; GC_WORLDS is their number;
# without it the test ends after 30 s.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use GpuCredit;
use Test::More;
use Time::HiRes qw(time);

my $seed   = $ENV{GC_SEED} || 1;
my $worlds = $ENV{GC_WORLDS};
my $node   = new_node('reasons', 'jit = off',
	'gpucredit.node_suspect = 20s', 'gpucredit.node_lost = 60s');
my $OF_DEVICE = qr/MiB of a device's memory wanted/;
my $begun = time;
my (%said, $dbh, $pool, @wrong);

$seed = time % 1000000 if $seed eq 'random';
diag("GC_SEED=$seed");
new_database($node, 'credit');
$dbh = connect_to($node, 'credit');
$dbh->do(
	q{SET timezone = 'UTC'; SET gpucredit.clock = '2030-01-01 00:00+00';
	SELECT gpucredit.set_price('RA', 1), gpucredit.set_price('RB', 1);
	SELECT gpucredit.set_tier('low', 9, 'capacity', false, min_run => '5 min', max_wait => '10 d');
	SELECT gpucredit.set_tier('high', 1, 'reclaim', true, max_wait => '10 d');
	SELECT gpucredit.set_tier('firm', 9, 'never', false, max_wait => '10 d');
	SELECT gpucredit.set_tier('open', 9, 'capacity', false, min_run => '0', max_wall => '240 h', max_wait => '10 d');
	SELECT gpucredit.create_account(o), gpucredit.issue(o, '', 'i', 1000000)
	FROM unnest('{ra,rb}'::text[]) o;
	SELECT gpucredit.create_account(o, a)
	FROM unnest('{ra,rb}'::text[]) o, unnest('{x,y}'::text[]) a;});

# taken devices, and possible victims, computed from the documented rules
$dbh->do(q{
	CREATE VIEW leaving AS
	SELECT e.for_org, e.for_job, g.* FROM gpucredit.eviction e
		JOIN gpucredit.attempt_gpu g ON g.org = e.org AND g.job = e.job AND g.attempt = e.attempt AND NOT g.free;
	CREATE FUNCTION takes(of_node text, share int, floor bigint) RETURNS bigint	/* MiB of a device */
	LANGUAGE sql STABLE AS $$ SELECT CASE WHEN share = 1000 THEN 0 WHEN floor > 0 THEN floor
		ELSE (SELECT n.gpu_memory_mib * share / 1000 FROM gpucredit.node n WHERE n.node = of_node) END $$;
	CREATE VIEW taken_now AS	/* by what runs or is fenced, or is promised */
	SELECT g.node, g.gpus, g.share, g.cpu_milli, g.memory_mib, takes(g.node, g.share, g.gpu_memory_mib) AS of_device
	FROM gpucredit.attempt_gpu g
	WHERE NOT g.free AND (g.ended_at IS NULL
		OR greatest(g.ended_at, g.seen_at) > gpucredit.now() - interval '60 s')
	UNION ALL	/* less what those who leave for it have still */
	SELECT c.node, gpucredit.gpuset_from_array(ARRAY[d]), greatest(0, m.share - coalesce((SELECT sum(l.share)
			FROM leaving l WHERE l.for_org = c.org AND l.for_job = c.job AND l.node = c.node
				AND l.gpus OPERATOR(gpucredit.@>) d), 0)), 0, 0,
		greatest(0, takes(c.node, m.share, c.gpu_memory_mib) - coalesce((SELECT sum(takes(l.node, l.share, l.gpu_memory_mib))
			FROM leaving l WHERE l.for_org = c.org AND l.for_job = c.job AND l.node = c.node
				AND l.gpus OPERATOR(gpucredit.@>) d), 0))
	FROM gpucredit.claim_gpu c JOIN gpucredit.claim m ON m.pool = c.pool AND m.org = c.org AND m.job = c.job
		CROSS JOIN unnest(gpucredit.gpuset_to_array(c.gpus)) d
	UNION ALL
	SELECT c.node, '{}', 0, greatest(0, c.cpu_milli - coalesce(l.cpu, 0)), greatest(0, c.memory_mib - coalesce(l.memory, 0)), 0
	FROM gpucredit.claim_gpu c
		LEFT JOIN LATERAL (SELECT sum(l.cpu_milli) AS cpu, sum(l.memory_mib) AS memory FROM leaving l
			WHERE l.for_org = c.org AND l.for_job = c.job AND l.node = c.node) l ON true;
	CREATE FUNCTION victims_of(of_org text, of_job bigint)
	RETURNS TABLE (org text, job bigint, attempt int, "is" text) LANGUAGE sql STABLE AS $$
	SELECT DISTINCT a.org, a.job, a.attempt, CASE
		WHEN EXISTS (SELECT FROM gpucredit.directive d WHERE d.org = a.org AND d.job = a.job
			AND d.attempt = a.attempt AND (d.action = 'stop' OR d.deadline IS NOT NULL)) THEN 'leaving'
		WHEN a.started_at + t.min_run <= gpucredit.now() AND a.started_at < gpucredit.now() THEN 'ready'
		ELSE 'young' END
	FROM gpucredit.job j JOIN gpucredit.tier jt ON jt.tier = j.tier
		JOIN gpucredit.pool p ON p.pool = j.pool
		JOIN gpucredit.attempt a ON a.pool = j.pool AND a.ended_at IS NULL
		JOIN gpucredit.tier t ON t.tier = a.tier
		JOIN gpucredit.job v ON v.org = a.org AND v.job = a.job
		JOIN gpucredit.attempt_gpu g ON g.org = a.org AND g.job = a.job AND g.attempt = a.attempt
		JOIN gpucredit.nodes s ON s.node = g.node
		JOIN gpucredit.node n ON n.node = g.node
	WHERE j.org = of_org AND j.job = of_job AND v.preemptible = 'capacity'
		AND s.takes_work AND (NOT n.spot OR j.preemptible <> 'never')
		AND (gpucredit.gpureq_max_gpus(j.request) = 0 OR EXISTS (
			SELECT FROM unnest(j.offer_types, j.offer_memory) o (type, memory)
			WHERE o.type = a.gpu_type AND n.gpu_memory_mib >= ceil(o.memory / 1048576.0)))
		AND ((jt.can_preempt AND jt.rank < t.rank)
			OR (coalesce((p.policy ->> 'reclaim')::boolean, false) AND jt.rank <= t.rank
				AND (a.org, a.account) <> (j.org, j.account))) $$;});

my $n = 0;
while ($worlds ? $n < $worlds : time - $begun < 30 || $n < 4)
{
	srand($seed + $n);
	world($n++);
	last if @wrong;
}
is(join("\n", @wrong), '', "$n pools: every reason is true");
diag(join(', ', map { "$_ $said{$_}" } sort keys %said));
diag(sprintf '%d pools in %.1f s', $n, time - $begun);
verify_empty($node, 'credit');
done_testing();

sub rows  { my $sql = shift; return @{ $dbh->selectall_arrayref($sql, { Slice => {} }, @_) } }
sub value { my $sql = shift; return ($dbh->selectrow_array($sql, undef, @_))[0] }
sub pick  { return $_[ int rand @_ ] }

# Checks one pool: running jobs, waiting jobs, and the reasons given.
sub world
{
	my ($number) = @_;
	my $clock = 0;

	$pool = "p$number";
	at($clock);
	$dbh->do(q{SELECT gpucredit.create_pool(?, ?)}, undef, $pool,
		pick('{}', '{"reclaim": true}', '{"packing": "spread"}'));
	$dbh->do('SET gpucredit.backfill_depth = ' . pick(0, 1, 2, 32, 32));
	my $nodes = pick(1, 2, 3, 4, 6);
	foreach my $i (1 .. $nodes)
	{
		$dbh->do(q{SELECT gpucredit.register_node(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)},
			undef, $pool, "$pool-n$i", pick('RA', 'RA', 'RB'), 1 + int rand 4,
			pick(16384, 40960), pick(0, 0, 4000, 8000), pick(0, 0, 16384),
			pick(undef, "$pool-d1"), pick(undef, "$pool-l1", "$pool-l2"),
			rand() < .2 ? 't' : 'f');
	}
	submit("w$number-a$_") foreach 1 .. 3 + int rand 4;
	place();
	$clock += pick(1, 10, 30);
	at($clock);
	beat();
	end_random_attempts();
	submit("w$number-b$_") foreach 1 .. 2 + int rand 5;
	quota() if rand() < .4;
	disturb();
	place() if rand() < .8;
	if (rand() < .2)	# silent, all but some
	{
		at($clock += 1);
		beat() if rand() < .5;
	}
	place() if rand() < .7;
	judge();
	return if @wrong;	# the pool must stay as it is
	# waiting jobs must not disturb later pools
	$dbh->do(q{SELECT gpucredit.cancel(org, job, 'end ' || job) FROM gpucredit.job
		WHERE pool = ? AND state IN ('queued', 'unfunded', 'active')}, undef, $pool);
	$dbh->do(q{SELECT gpucredit.settle(org, job, attempt, 'cancelled') FROM gpucredit.attempt
		WHERE pool = ? AND ended_at IS NULL}, undef, $pool);
	$dbh->do(q{SELECT gpucredit.set_quota(org, account, NULLIF(gpu_type, '')) FROM gpucredit.quota});
	return;
}

sub at
{
	my ($minutes) = @_;

	$dbh->do(sprintf q{SET gpucredit.clock = '2030-01-%02d %02d:%02d+00'},
		1 + int($minutes / 1440), int($minutes / 60) % 24, $minutes % 60);
	return;
}

# Nodes send heartbeats, except one in ten; some have broken devices.
sub beat
{
	foreach my $row (rows('SELECT node, gpus FROM gpucredit.node WHERE pool = ?', $pool))
	{
		next if rand() < .1;
		my @healthy = grep { rand() < .93 } 0 .. $row->{gpus} - 1;

		$dbh->do('SELECT gpucredit.heartbeat(?, ?::gpucredit.gpuset)', undef,
			$row->{node}, '{' . join(',', @healthy) . '}');
	}
	return;
}

sub submit
{
	my ($key) = @_;
	my $request = pick('0', '0.5xRA', '0.3xRA|RB', '0.1xRA@6GB|RB@15GB', '0.25xRA@15GB', '0.5xRA@1GB', '1xRA', '1xRA', '2xRA', '1xRB',
		'1xRA|RB', '3xRA', '1xRA@30GB', '2xRA|RB', '1-2xRA', '4xRA', '4xRA', '1xRB@30GB', '2xRB');
	my $tier = pick('low', 'low', 'low', 'firm', 'high', 'open', 'standard_training');
	my $org  = pick('ra', 'rb');

	$dbh->do(
		q{SELECT gpucredit.reserve(?, ?, ?, ?, ?, ?, ?, ?, ?, 3, ?, ?, hold_window => '1 h')},
		undef, $org, pick('x', 'y'), $key, $request,
		$tier eq 'open' ? undef : pick('20 min', '1 h', '2 h', '5 h'), $tier, $pool,
		pick('any', 'any', 'any', 'node', 'leaf', 'nvlink'),
		undef,
		$request eq '0' ? 1000 : pick(0, 0, 0, 1000, 4000), pick(0, 0, 4096, 12000));
	return;
}

sub place
{
	$dbh->do('SELECT count(*) FROM gpucredit.place(?)', undef, $pool);
	return;
}

# Some attempts end, reported by their agent, or by the application, which
# fences their devices.
sub end_random_attempts
{
	foreach my $row (rows(q{SELECT org, job, attempt FROM gpucredit.attempt
		WHERE pool = ? AND ended_at IS NULL ORDER BY job}, $pool))
	{
		my $dice = rand();

		$dbh->do('SET ROLE gpucredit_app') if $dice < .1;
		$dbh->do(q{SELECT gpucredit.settle(?, ?, ?, 'completed')}, undef,
			@$row{qw(org job attempt)}) if $dice < .25;
		$dbh->do('RESET ROLE');
	}
	return;
}

sub quota
{
	$dbh->do('SELECT gpucredit.set_quota(?, ?, ?, ?, ?, max_cpu_milli => ?)', undef, pick('ra', 'rb'),
		pick('', 'x', 'y'), pick(undef, 'RA'), pick(undef, 0, 1, 2, 3),
		pick(undef, 1, 2), pick(undef, undef, 1000, 8000));
	return;
}

sub disturb
{
	foreach my $row (rows('SELECT node FROM gpucredit.node WHERE pool = ?', $pool))
	{
		$dbh->do(q{SELECT gpucredit.drain(?, 'x')}, undef, $row->{node})
		  if rand() < .08;
	}
	return;
}

# Checks every waiting job.
sub judge
{
	my %queue = map { ("$_->{org}/$_->{job}" => $_) }
	  rows('SELECT * FROM gpucredit.queue(?, 1000)', $pool);
	my %plan = map { ("$_->{org}/$_->{job}" => $_->{action}) }
	  rows(q{SELECT * FROM gpucredit.plan(?) WHERE action IN ('start', 'claim')}, $pool);

	foreach my $job (rows(q{SELECT j.*, gpucredit.gpureq_min_gpus(request) AS wants,
			gpucredit.gpureq_share(request) AS share, request::text AS asks
		FROM gpucredit.job j WHERE pool = ? AND state = 'queued' ORDER BY job}, $pool))
	{
		my $name = "$job->{org}/$job->{job}";
		my @rows = rows('SELECT * FROM gpucredit.explain(?, ?)', @$job{qw(org job)});
		my ($failed) = grep { !$_->{passes}
			  && $_->{check_name} !~ /^(order|quota|preemption|reservation|kept|guarantee)$/ } @rows;

		$job->{rows} = \@rows;
		judge_row($job, $_) foreach @rows;
		judge_queue($job, $queue{$name}, $plan{$name} || '', $failed);
	}
	return;
}

sub wrong
{
	my ($job, $row, $why) = @_;

	push @wrong, "GC_SEED=$seed, pool $pool, job $job->{job} ($job->{asks}, $job->{topology}): "
	  . ($row ? "$row->{check_name}: $row->{detail}: " : '') . $why
	  unless @wrong > 20;
	return;
}

# Counts a statement that was checked, and tests that it is true.
sub judged
{
	my ($job, $row, $what, $true, $found) = @_;

	$said{$what}++;
	wrong($job, $row, 'found ' . (defined $found ? $found : 'otherwise')) unless $true;
	return;
}

sub judge_queue
{
	my ($job, $told, $planned, $failed) = @_;
	my %words = (
		'type'            => 'no such device in the pool',
		'gpu_memory'      => 'no device with such memory',
		'spot'            => 'only spot nodes would do',
		'topology'        => 'pool too small for it',
		'nodes'           => 'no node takes new work',
		'free'            => 'too few free devices',
		'together'        => 'too few free together',
		'cpu'             => 'too little cpu',
		'host_memory'     => 'too little host memory|cpu and host memory not together',
		'reserved'        => 'devices reserved for jobs ahead',
		'turn'            => 'quota',
		'earlier attempt' => 'an earlier attempt may still run');
	my ($claim) = grep { $_->{check_name} eq 'claim' } @{ $job->{rows} };
	my $blocked = grep { $_->{check_name} eq 'quota' && !$_->{passes} } @{ $job->{rows} };
	my $expected =
		$planned eq 'start' ? 'starts with the next cycle'
	  : $claim            ? 'devices promised, others leave them'
	  : $failed && $failed->{detail} =~ /$OF_DEVICE/ ? 'too little device memory free'
	  : $failed           ? $words{ $failed->{check_name} }
	  : $blocked          ? 'quota'
	  :                     '-';
	my ($reserved) = grep { $_->{check_name} eq 'reservation' } @{ $job->{rows} };
	my $at = $told->{expected_at};
	my $of_turn = $reserved && $reserved->{detail} !~ /quotas leave|nothing ran there|known to end/;

	judged($job, undef, "queue: $told->{reason}", $told->{reason} =~ /^($expected)$/,
		"queue() says \"$told->{reason}\", not \"$expected\"");
	judged($job, undef, 'queue: expected_at', defined $at
			? !$of_turn || $reserved->{detail} =~ /expected start \Q$at\E/
			: !$reserved || $reserved->{detail} !~ /expected start/, 'queue() expects it at ' . ($at || 'no time'));
	return;
}

# Checks one row.
sub judge_row
{
	my ($job, $row) = @_;
	my ($check, $text) = @$row{qw(check_name detail)};

	return judge_reservation($job, $row) if $check eq 'reservation';
	return judge_quota($job, $row) if $check eq 'quota' && $text =~ /account/;
	if ($check eq 'turn')
	{
		judged($job, $row, 'turn: starts', starts($job)) if $row->{passes};
		judged($job, $row, 'turn: quotas', !starts($job)
			  && undone(sub { no_quotas(); !in_queue_by_quota($job) })) unless $row->{passes};
		return;
	}
	return judge_preemption($job, $row) if $check eq 'preemption';
	return judge_guarantee($job, $row) if $check eq 'guarantee';
	return if $row->{passes};
	judge_numbers($job, $row);
	judge_advice($job, $row);
	judge_limit($job, $row) if $check eq 'reserved';
	return;
}

# Nodes computed from the tables: what each has in all, and free.  An offer is
# a type with a memory floor; NULL for a job without GPUs.
sub stock
{
	my ($job, $type, $floor) = @_;

	return rows(q{
		SELECT n.node, n.gpus, n.gpu_memory_mib, n.spot, n.nvlink_domain, n.leaf,
			s.takes_work AND s.state IN ('ready') AS open, n.cpu_milli, n.memory_mib,
			n.cpu_milli - coalesce(t.cpu, 0) AS cpu, n.memory_mib - coalesce(t.memory, 0) AS memory,
			(SELECT count(*) FROM generate_series(0, n.gpus - 1) d
				WHERE n.healthy OPERATOR(gpucredit.@>) d AND NOT EXISTS (SELECT FROM taken_now t
					WHERE t.node = n.node AND t.gpus OPERATOR(gpucredit.@>) d)) AS free,
			(SELECT coalesce(max(1000 - coalesce((SELECT sum(t.share) FROM taken_now t
					WHERE t.node = n.node AND t.gpus OPERATOR(gpucredit.@>) d), 0)), 0)
				FROM generate_series(0, n.gpus - 1) d
				WHERE n.healthy OPERATOR(gpucredit.@>) d) AS best,
			takes(n.node, ?, ?) AS takes,
			(SELECT max(n.gpu_memory_mib - coalesce(o.memory, 0))
				FROM generate_series(0, n.gpus - 1) d
					CROSS JOIN LATERAL (SELECT sum(t.share) AS share, sum(t.of_device) AS memory FROM taken_now t
						WHERE t.node = n.node AND t.gpus OPERATOR(gpucredit.@>) d) o
				WHERE n.healthy OPERATOR(gpucredit.@>) d AND 1000 - coalesce(o.share, 0) >= ?) AS device_memory
		FROM gpucredit.node n JOIN gpucredit.nodes s ON s.node = n.node
			LEFT JOIN (SELECT node, sum(cpu_milli) AS cpu, sum(memory_mib) AS memory
				FROM taken_now GROUP BY node) t ON t.node = n.node
		WHERE n.pool = ? AND (?::text IS NULL OR n.gpu_type = ?)},
		$job->{share}, $floor, $job->{share}, $pool, $type, $type);
}

# The groups of nodes of a topology, each a list of nodes.
sub places
{
	my ($topology, @nodes) = @_;
	my %groups;

	foreach my $node (@nodes)
	{
		my $group =
			$topology eq 'any'    ? 'all'
		  : $topology eq 'nvlink' ? $node->{nvlink_domain}
		  : $topology eq 'leaf'   ? $node->{leaf}
		  :                         undef;

		push @{ $groups{ defined $group ? "g $group" : "n $node->{node}" } }, $node;
	}
	return values %groups;
}

sub sum { my $sum = 0; $sum += $_ foreach @_; return $sum }
sub most { my ($most, @rest) = @_; foreach (@rest) { $most = $_ if $_ > $most } return $most || 0 }
sub least { my ($least, @rest) = @_; foreach (@rest) { $least = $_ if $_ < $least } return $least }

# How many devices of a job a node can take with its cpu, or memory.
sub room
{
	my ($job, $node, $what) = @_;
	my $all  = $job->{ $what eq 'cpu' ? 'cpu_milli' : 'memory_mib' };
	my $has  = $node->{ $what eq 'cpu' ? 'cpu_milli' : 'memory_mib' };
	my $room = least($node->{free}, $job->{wants});

	return $has == 0 || $all == 0 ? $room
	  : least($room, int(most($node->{$what}, 0) * $job->{wants} / $all));
}

# The figure of a row, for each type that the job accepts.
sub counted
{
	my ($job, $row) = @_;
	my ($check, $text) = @$row{qw(check_name detail)};
	my $there = $text =~ /^\d+ .*? wanted, \d+ /;
	my @types   = @{ $job->{offer_types} };
	my @memory  = @{ $job->{offer_memory} };
	my $one     = $job->{wants} == 0 || $job->{share} < 1000;
	my $may_spot = $job->{preemptible} ne 'never';
	my $of_device = $text =~ /$OF_DEVICE/;
	my (@found, @wants);

	foreach my $i ($job->{wants} ? (0 .. $#types) : 0)
	{
		my $floor = $job->{wants} ? int(($memory[$i] + (1 << 20) - 1) / (1 << 20)) : 0;
		my @nodes = stock($job, $job->{wants} ? $types[$i] : undef, $floor);
		my @able  = grep { $_->{gpu_memory_mib} >= $floor } @nodes;
		my @may   = grep { !$_->{spot} || $may_spot } @able;
		my @open  = grep { $_->{open} } @may;
		my $best  = sub {
			my ($of, @of) = @_;
			return most(map { sum(map { $of->($_) } @$_) } places($job->{topology}, @of));
		};
		my @fit = grep { $job->{wants} == 0 || ($job->{share} < 1000
				? defined $_->{device_memory} && $_->{device_memory} >= $_->{takes}
				: $_->{best} >= $job->{share}) } @open;
		my $memory = most(0, map { $_->{device_memory} || 0 } @open);

		push @wants, map { $_->{takes} } @open;
		push @found,
			$check eq 'type' ? (@nodes ? 'nodes' : 'none')
		  : $check eq 'gpu_memory' ? (@nodes && !@able ? most(map { $_->{gpu_memory_mib} } @nodes) : 'some')
		  : $check eq 'spot'     ? (@able && !@may ? 'none' : 'some')
		  : $check eq 'topology' ? $best->(sub { $_[0]{gpus} }, @may)
		  : $check eq 'nodes'    ? (@may && !@open ? 'none' : 'some')
		  : $check eq 'free' && $of_device ? (@fit ? 'enough' : $memory)
		  : $check eq 'free' && $one ? most(0, map { $_->{best} } @open)
		  : $check eq 'free'     ? sum(map { $_->{free} } @open)
		  : $check eq 'together' ? $best->(sub { $_[0]{free} }, @open)
		  : $check eq 'cpu' && $one ? most(0, map { most($_->{cpu}, 0) } @fit)
		  : $check eq 'host_memory' && $one && $there ? most(0, map { most($_->{memory}, 0) } @fit)
		  : $check eq 'cpu'      ? $best->(sub { room($job, $_[0], 'cpu') }, @open)
		  : $check eq 'host_memory' && $there ? $best->(sub { room($job, $_[0], 'memory') }, @open)
		  : 'none';
	}
	return (\@found, \@wants);
}

# The numbers of a row.  If other jobs get devices before its turn, the number
# is between the present figure and that of its turn.
sub judge_numbers
{
	my ($job, $row) = @_;
	my ($check, $text) = @$row{qw(check_name detail)};
	my ($wanted, $there) = $text =~ /^(\d+) .*? wanted, (\d+) /;
	my $one   = $job->{wants} == 0 || $job->{share} < 1000;
	my ($found, $wants) = counted($job, $row);
	my @found = @$found;
	my $true;

	$there = 'none' if $check =~ /^(type|spot|nodes)$/;
	return unless defined $there;
	$true = $check eq 'type' ? !grep { $_ ne 'none' } @found : grep { $_ eq $there } @found;
	if ($text =~ /before its turn/)
	{
		my ($then) = undone(sub { place(); counted($job, $row) });

		$true = grep { $then->[$_] <= $there
			  && ($found[$_] eq 'enough' || $there <= $found[$_]) } 0 .. $#found;
	}
	judged($job, $row, "$check: number", $true, "@found");
	judged($job, $row, "$check: wanted", $wanted == (
			$check eq 'gpu_memory' ? $wanted
			: $check eq 'cpu' && $one ? $job->{cpu_milli}
			: $check eq 'host_memory' && $one ? $job->{memory_mib}
			: $text =~ /$OF_DEVICE/ ? (grep { $_ == $wanted && $wanted > $there } @$wants)[0] // 'another floor'
			: $one ? $job->{share} : $job->{wants})) if defined $wanted;
	return;
}

# Does something in a transaction that is rolled back.
sub undone
{
	my ($do) = @_;

	$dbh->begin_work;
	my @result = $do->();
	$dbh->rollback;
	return wantarray ? @result : $result[0];
}

# Would the next cycle do this for a job?
sub planned
{
	my ($job, $action) = @_;

	return value(q{SELECT count(*) > 0 FROM gpucredit.plan(?)
		WHERE action ~ ? AND org = ? AND job = ?}, $pool, $action, @$job{qw(org job)});
}
sub starts { return planned($_[0], '^start$') }

sub in_queue_by_quota
{
	my ($job) = @_;

	return value(q{SELECT reason FROM gpucredit.queue(?, 1000) WHERE org = ? AND job = ?},
		$pool, @$job{qw(org job)}) eq 'quota';
}

sub no_quotas
{
	$dbh->do(q{DELETE FROM gpucredit.quota});
	return;
}

# Removes other waiting jobs that match.
sub cancel_others
{
	my ($which, $job) = @_;

	$dbh->do(qq{UPDATE gpucredit.job j SET state = 'cancelled', ended_at = gpucredit.now(), waits_from = NULL
		WHERE pool = ? AND state IN ('queued', 'unfunded') AND (org, job) <> (?, ?) AND $which},
		undef, $pool, @$job{qw(org job)});
	return;
}

# No other job waits, and nothing is claimed or reserved.
sub alone
{
	my ($job) = @_;

	no_quotas();
	$dbh->do(q{DELETE FROM gpucredit.claim_gpu WHERE pool = ?}, undef, $pool);
	$dbh->do(q{DELETE FROM gpucredit.claim WHERE pool = ?}, undef, $pool);
	cancel_others('true', $job);
	$dbh->do(q{UPDATE gpucredit.attempt_gpu SET free = true
		WHERE pool = ? AND ended_at IS NOT NULL}, undef, $pool);
	return;
}

# Some running attempts are gone at once.
sub gone
{
	my ($which) = @_;

	$dbh->do(qq{DELETE FROM gpucredit.attempt_gpu g WHERE pool = ? AND NOT free AND $which}, undef, $pool);
	return;
}

sub judge_advice
{
	my ($job, $row) = @_;
	my $says =
		$row->{detail} =~ /some that run must end first/ ? 'end'
	  : $row->{detail} =~ /must come free first/         ? 'free'
	  : $row->{detail} =~ /even if nothing ran there/    ? 'never'
	  :                                                    return;
	my $now  = undone(sub { alone($job); starts($job) });
	my $then = undone(sub { alone($job); gone('true'); starts($job) });

	judged($job, $row, "advice: $says",
		$says eq ($now ? 'free' : $then ? 'end' : 'never'),
		sprintf '%s alone, %s where nothing runs', $now ? 'a start' : 'none', $then ? 'a start' : 'none');
	return;
}

# With so long a wall limit, does it start?
sub starts_with
{
	my ($job, $limit) = @_;

	return undone(sub {
			$dbh->do(q{UPDATE gpucredit.job SET wall_limit = ?, request_class = substr(sha256(random()::text::bytea), 1, 16)
				WHERE org = ? AND job = ?}, undef, $limit, @$job{qw(org job)});
			starts($job);
		});
}

sub judge_limit
{
	my ($job, $row) = @_;

	if ($row->{detail} =~ /wall_limit of at most (\S+(?: \S+)?) it would start now/)
	{
		my $limit = $1;

		judged($job, $row, 'reserved: limit', scalar starts_with($job, $limit), 'no start with it');
		judged($job, $row, 'reserved: no longer one', !starts_with($job,
				value(q{SELECT ?::interval + '1 second'}, $limit)), 'a start with a longer one');
		judged($job, $row, 'reserved: shorter than its own', value(
				q{SELECT coalesce(?::interval > ?::interval, true)}, $job->{wall_limit}, $limit));
	}
	else
	{
		judged($job, $row, 'reserved: no limit', !starts_with($job, $_), "a start with $_")
		  foreach '1 second', '5 min', '30 min';
	}
	return;
}

# Of the other waiting jobs only those stay that start now.
sub only_served
{
	my ($job) = @_;

	$dbh->do(q{CREATE TEMP TABLE had ON COMMIT DROP AS
		SELECT org, job FROM gpucredit.reservations(?)
		UNION SELECT org, job FROM gpucredit.plan(?) WHERE action IN ('start', 'claim')
		UNION SELECT org, job FROM gpucredit.claim}, undef, $pool, $pool);
	cancel_others('(org, job) NOT IN (SELECT b.org, b.job FROM had b)', $job);
	return;
}

sub judge_reservation
{
	my ($job, $row) = @_;
	my $has = sub {
		return value(q{SELECT count(*) > 0 FROM gpucredit.reservations(?) WHERE org = ? AND job = ?},
			$pool, @$job{qw(org job)});
	};
	my $text = $row->{detail};

	if ($row->{passes})
	{
		my ($at) = $text =~ /expected start (\S+ \S+),/;

		judged($job, $row, 'reservation: time', value(q{SELECT expected_at::text FROM gpucredit.reservations(?)
			WHERE org = ? AND job = ? LIMIT 1}, $pool, @$job{qw(org job)}) eq $at);
	}
	elsif ($text =~ /backfill_depth allows, which is (\d+)/)
	{
		my $depth = $1;
		my ($reserved, $guaranteed) = $dbh->selectrow_array(
			q{SELECT count(DISTINCT (org, job)), count(DISTINCT (org, job)) FILTER (WHERE latest_at IS NOT NULL)
			FROM gpucredit.reservations(?)}, undef, $pool);

		# Guaranteed jobs keep what is reserved for them where others come before
		# them.  One more is allowed, and only started jobs come before it.
		my $one_more = undone(sub {
				only_served($job);
				$dbh->do('SET LOCAL gpucredit.backfill_depth = ' . ($reserved + 1));
				$has->() || (no_quotas(), $has->())[-1];
			});

		judged($job, $row, 'reservation: depth', $one_more
			  && value('SHOW gpucredit.backfill_depth') == $depth
			  && ($depth == $reserved || ($depth < $reserved && $guaranteed > 0)));
	}
	elsif ($text =~ /get nothing now are in its way/)
	{
		my $gets = sub { $has->() || planned($job, '^(start|claim)$') };

		judged($job, $row, 'reservation: behind others', !$gets->()
			  && undone(sub { only_served($job); $gets->() }));
	}
	elsif ($text =~ /even if nothing ran there/)
	{
		judged($job, $row, 'reservation: never', !undone(sub { alone($job); gone('true'); starts($job) }));
	}
	elsif ($text =~ /quotas leave it nothing/)
	{
		my $gets = sub { $has->() || planned($job, '^(start|claim)$') };

		judged($job, $row, 'reservation: quotas', undone(sub { no_quotas(); $gets->() })
			  || undone(sub { only_served($job); no_quotas(); $gets->() }));
	}
	else
	{
		judged($job, $row, 'reservation: no end', undone(sub { alone($job); gone('true'); starts($job) })
			  && !undone(sub { $dbh->do('SET LOCAL gpucredit.backfill_depth = 1000'); no_quotas(); $has->() }));
	}
	return;
}

sub judge_quota
{
	my ($job, $row) = @_;
	my ($account, $type) = $row->{detail} =~ /^account "(.*?)", (.*?):/;
	my ($use) = rows(q{SELECT count(*) AS jobs, coalesce(sum(a.gpus * a.billed_share), 0) AS milli,
			coalesce(sum(j.cpu_milli), 0) AS cpu, coalesce(sum(j.memory_mib), 0) AS memory
		FROM gpucredit.attempt a JOIN gpucredit.job j USING (org, job)
		WHERE a.org = ? AND a.ended_at IS NULL AND (? = '' OR a.account = ?)
		AND (? = 'any type' OR a.gpu_type = ?)}, $job->{org}, $account, $account, $type, $type);
	# a share counts as the part of the smallest device that its floor keeps
	my ($one) = rows(q{SELECT coalesce(min(CASE WHEN share = 1000 THEN 1000 ELSE greatest(share, (
			SELECT max(ceil(1000.0 * o.floor / n.gpu_memory_mib)) FROM gpucredit.node n
			WHERE n.pool = ? AND n.gpu_type = o.type AND o.floor BETWEEN 1 AND n.gpu_memory_mib)) END), 1000) AS milli
		FROM gpucredit.job j, LATERAL (SELECT gpucredit.gpureq_share(j.request) AS share) s,
			LATERAL (SELECT t AS type, ceil(m / 1048576.0) AS floor FROM unnest(j.offer_types, j.offer_memory) u (t, m)) o
		WHERE j.org = ? AND j.job = ? AND ? IN ('any type', o.type)}, $pool, @$job{qw(org job)}, $type);

	if ($row->{detail} =~ /(\d+) thousandths of GPUs wanted, (\d+) in use of (\d+)/)
	{
		judged($job, $row, 'quota: gpus', $1 == $job->{wants} * $one->{milli} && $2 == $use->{milli},
			"$one->{milli} a device, $use->{milli} in use");
		judged($job, $row, 'quota: passes', $1 + $2 <= $3) if $row->{passes} && $1 > 0;
	}
	if ($row->{detail} =~ /(\d+) thousandths of cores wanted, (\d+) in use of (\d+)/)
	{
		judged($job, $row, 'quota: cpu', $1 == $job->{cpu_milli} && $2 == $use->{cpu}, "$use->{cpu} in use");
		judged($job, $row, 'quota: cpu passes', $1 + $2 <= $3) if $row->{passes} && $1 > 0;
	}
	judged($job, $row, 'quota: jobs', $1 == $use->{jobs}, "$use->{jobs} run")
	  if $row->{detail} =~ /(\d+) jobs run of/;
	judged($job, $row, 'quota: one must end', $use->{jobs} > 0)
	  if $row->{detail} =~ /one that counts in it must end/;
	return;
}

# What is said to have broken a guarantee may do so.
sub judge_guarantee
{
	my ($job, $row) = @_;
	my ($kind, $true) = ('otherwise', 0);

	if ($row->{detail} =~ /: devices of node (\S+), which were reserved/)
	{
		$kind = 'node';
		$true = value(q{SELECT count(*) > 0 FROM gpucredit.node WHERE node = ? AND pool = ?}, $1, $pool);
	}
	elsif ($row->{detail} =~ /: a job of tier "(\w+)", which may go before it/)
	{
		$kind = 'tier';
		$true = value(q{SELECT b.rank < o.rank FROM gpucredit.tier b, gpucredit.tier o WHERE b.tier = ? AND o.tier = ?},
			$1, $job->{tier});
	}
	elsif ($row->{detail} =~ /: its tenant's quotas leave it nothing/)
	{
		$kind = 'quota';
		$true = value(q{SELECT count(*) > 0 FROM gpucredit.quota WHERE org = ?}, $job->{org});
	}
	elsif ($row->{detail} =~ /runs past its wall limit/)
	{
		$kind = 'overdue';
		$true = value(q{SELECT count(*) > 0 FROM gpucredit.attempt_gpu
			WHERE pool = ? AND limit_end <= gpucredit.now() + interval '1 min'}, $pool);
	}
	elsif ($row->{detail} =~ /: nodes, limits or settings were changed/)
	{
		$kind = 'change';
		$true = value(q{SELECT count(*) > 0 FROM gpucredit.nodes s JOIN gpucredit.node n USING (node)
			WHERE n.pool = ? AND (NOT s.takes_work OR EXISTS (SELECT FROM generate_series(0, n.gpus - 1) d
				WHERE NOT n.healthy OPERATOR(gpucredit.@>) d))}, $pool);
	}
	judged($job, $row, "guarantee: $kind", $true);
	return;
}

# The possible victims of a job, by the documented rules.
sub victims
{
	my ($job, $when) = @_;

	return qq{(g.org, g.job, g.attempt) IN (
		SELECT v.org, v.job, v.attempt FROM victims_of('$job->{org}', $job->{job}) v WHERE v.is = '$when')};
}

sub judge_preemption
{
	my ($job, $row) = @_;
	my $text  = $row->{detail};
	my %count = map { ($_->{is} => $_->{n}) }
	  rows('SELECT v.is, count(*) AS n FROM victims_of(?, ?) v GROUP BY 1', @$job{qw(org job)});

	judged($job, $row, 'preemption: nobody', !%count) if $text =~ /^nothing/;
	judged($job, $row, 'preemption: now', $1 == ($count{ready} || 0), $count{ready} || 0)
	  if $text =~ /(\d+) running jobs might be made to leave now/;
	judged($job, $row, 'preemption: later', $1 == ($count{young} || 0), $count{young} || 0)
	  if $text =~ /(\d+) running jobs might be made to leave, but/;
	judged($job, $row, 'preemption: leaving', $1 == ($count{leaving} || 0), $count{leaving} || 0)
	  if $text =~ /(\d+) running jobs are leaving/;
	return unless $text =~ /leave now: ([^;]*)/;
	my $why    = $1;
	my $enough = undone(sub { alone_but_kept($job); gone(victims($job, 'ready')); starts($job) });

	judged($job, $row, 'preemption: ' . substr($why, 0, 30), ($why =~ /^not enough/ ? !$enough : $enough),
		($enough ? 'enough' : 'not enough') . ' where they are gone');
	judged($job, $row, 'preemption: reserved', scalar undone(sub {
				cancel_others('(org, job) IN (SELECT r.org, r.job FROM gpucredit.reservations(pool) r)', $job);
				planned($job, '^(start|claim)$') }), 'neither start nor claim without')
	  if $why =~ /^what is reserved/;
	return;
}

# No other job waits and nothing is claimed; reservations stay.
sub alone_but_kept
{
	my ($job) = @_;

	no_quotas();
	$dbh->do(q{DELETE FROM gpucredit.claim_gpu WHERE pool = ?}, undef, $pool);
	$dbh->do(q{DELETE FROM gpucredit.claim WHERE pool = ?}, undef, $pool);
	cancel_others('true', $job);
	return;
}
