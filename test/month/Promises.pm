# Promises.pm: the invariants of every cycle of a pool
#
#   my $promises = Promises->new(wire => $wire, jobs => \%jobs);
#   $promises->check($pool, $now, $rows, \%starts);   # dies where one is broken
#
# check() compares each cycle's answer with the tables afterwards.  Fleet.pm
# knows what really runs, verify() checks the money, and the server itself
# checks decisions that depend on the order of the whole queue.  These are the
# rest:
#
#   - a second cycle at the same instant decides nothing
#   - spot nodes only for jobs that may be preempted
#   - nobody is told to leave but for a claim made at that instant, of a job that
#     may: of a more important tier that can preempt, or, where the pool
#     reclaims, of one as important or more; nobody who may not be preempted for capacity,
#     nor before his tier's min_run
#   - whoever has a claimed device is told to leave it; no two claims share one;
#     none is of a device that is out of service, or past its end
#   - nothing runs without an open hold
package Promises;

use strict;
use warnings;

use constant {
	RANK => {
		production_inference => 0, premium_training => 1,
		standard_training    => 2, batch_inference  => 3 },
	CAN_PREEMPT => { production_inference => 1, premium_training => 1 },
	FOR_SPOT    => {
		premium_training => 1, standard_training => 1, batch_inference => 1 },
	FOR_CAPACITY => { standard_training => 1, batch_inference => 1 },
	MIN_RUN      => 600,
};

sub new
{
	my ($class, %self) = @_;

	return bless {%self}, $class;
}

# rows: what the cycle answered; starts: its starts, by attempt.
sub check
{
	my ($self, $pool, $now, $rows, $starts) = @_;

	$self->_nothing_more($pool);
	$self->_spot($starts);
	$self->_evictions($pool, $now, $rows);
	$self->_claims($pool);
	$self->_holds;
	return;
}

sub _ask
{
	my ($self, $sql, @args) = @_;

	return @{ $self->{wire}->call($sql, @args) };
}

sub _nothing_more
{
	my ($self, $pool) = @_;
	my @rows = $self->_ask('SELECT * FROM gpucredit.place(?)', $pool);

	die "$pool: a second cycle at the same instant decides "
	  . join(', ', map { "$_->{action} $_->{org}/$_->{job}" } @rows) . "\n"
	  if @rows;
	return;
}

sub _spot
{
	my ($self, $starts) = @_;

	foreach my $key (sort keys %$starts)
	{
		my $tier = $self->{jobs}{ $starts->{$key}[0]{job} }{tier};

		next if FOR_SPOT->{$tier};
		foreach my $row (@{ $starts->{$key} })
		{
			die "$key of tier $tier is on $row->{node}, a spot node\n"
			  if $self->{fleet}{nodes}{ $row->{node} }{spot};
		}
	}
	return;
}

sub _evictions
{
	my ($self, $pool, $now, $rows) = @_;
	my %told = map { ("$_->{org}/$_->{job}/$_->{attempt}" => 1) }
	  grep { $_->{action} eq 'preempt' } @$rows;
	my %claims = map { ("$_->{org}/$_->{job}" => 1) }
	  grep { $_->{action} eq 'claim'
		  || $_->{action} eq 'resize' && $_->{reason} eq 'grow' } @$rows;

	return unless %told;
	foreach my $row (
		$self->_ask(
			'SELECT e.*, extract(epoch FROM a.started_at) AS started'
			  . ' FROM gpucredit.eviction e JOIN gpucredit.attempt a'
			  . ' ON a.org = e.org AND a.job = e.job AND a.attempt = e.attempt'
			  . ' WHERE e.pool = ? AND e.at = gpucredit.now()', $pool))
	{
		my $key = "$row->{org}/$row->{job}/$row->{attempt}";

		next unless delete $told{$key};
		$self->_eviction($pool, $now, $key, $row,
			$claims{"$row->{for_org}/$row->{for_job}"});
	}
	die "$pool: @{[ sort keys %told ]} told to leave for nobody\n" if %told;
	return;
}

sub _eviction
{
	my ($self, $pool, $now, $key, $row, $claimed) = @_;
	my $victim = $self->{jobs}{ $row->{job} }{tier};
	my $for    = $self->{jobs}{ $row->{for_job} }{tier};
	my $what   = "$key of tier $victim is to leave for $row->{for_job} of $for";

	$self->{count}{"eviction $row->{why}"}++;
	die "$what, which claims nothing\n" unless $claimed;
	die "$what, and may not be preempted\n" unless FOR_CAPACITY->{$victim};
	die "$what after @{[ $now - $row->{started} ]} s\n"
	  if $now - $row->{started} < MIN_RUN;
	return if CAN_PREEMPT->{$for} && RANK->{$for} < RANK->{$victim};
	die "$what\n"
	  unless RANK->{$for} <= RANK->{$victim} && $self->{reclaims}{$pool}
	  && $row->{why} eq 'entitlement';
	return;
}

sub _claims
{
	my ($self, $pool) = @_;

	foreach my $row (
		$self->_ask(
			'SELECT invariant, org, subject, detail'
			  . ' FROM gpucredit_internal.check_claims(NULL, NULL)'
			  . q{ UNION ALL SELECT 'claim_is_over', c.org, 'job ' || c.job,}
			  . ' c.until::text FROM gpucredit.claim c'
			  . ' WHERE c.pool = ? AND c.until <= gpucredit.now()'
			  . q{ UNION ALL SELECT 'claim_is_in_service', g.org,}
			  . q{ 'job ' || g.job, n.node || ' ' || n.state}
			  . ' FROM gpucredit.claim_gpu g'
			  . ' JOIN gpucredit.nodes n ON n.node = g.node'
			  . ' WHERE g.pool = ? AND (NOT g.gpus OPERATOR(gpucredit.<@) n.healthy'
			  . q{ OR n.state IN ('lost', 'reclaimed', 'gone', 'draining'))}
			  . q{ UNION ALL SELECT 'holder_is_told', t.org, 'job ' || t.job,}
			  . q{ 'has devices of ' || g.job || ' on ' || g.node}
			  . ' FROM gpucredit.claim c JOIN gpucredit.claim_gpu g'
			  . ' USING (pool, org, job) JOIN gpucredit.attempt_gpu t'
			  . ' ON t.pool = g.pool AND t.node = g.node AND NOT t.free'
			  . ' AND t.gpus OPERATOR(gpucredit.&&) g.gpus'
			  . ' WHERE c.pool = ? AND t.ended_at IS NULL'
			  . ' AND t.share + c.share > 1000'
			  . ' AND (t.org, t.job) <> (c.org, c.job)'
			  . ' AND NOT EXISTS (SELECT FROM gpucredit.directive d'
			  . ' WHERE d.org = t.org AND d.job = t.job'
			  . ' AND d.attempt = t.attempt)',
			$pool, $pool, $pool))
	{
		die "$pool: " . join(' | ', @$row{qw(invariant org subject detail)}) . "\n";
	}
	return;
}

sub _holds
{
	my ($self) = @_;

	foreach my $row (
		$self->_ask(
			'SELECT a.org, a.job, a.attempt FROM gpucredit.attempt a'
			  . ' LEFT JOIN gpucredit.hold h ON h.org = a.org'
			  . ' AND h.hold = a.hold AND h.closed_at IS NULL'
			  . ' WHERE a.ended_at IS NULL AND h.hold IS NULL'))
	{
		die "$row->{org}/$row->{job}/$row->{attempt} runs without a hold\n";
	}
	return;
}

1;
