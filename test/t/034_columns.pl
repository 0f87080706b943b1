# 034_columns.pl: what verify() does not find, column by column
#
# In a database that has something of everything, each column of each durable
# table is changed, one at a time, in several ways, by a superuser who has turned
# the triggers off.  Rows are deleted and copied as well.  verify() or
# verify_audit() must find each change, except of what is listed here: it
# carries no money, no right and no state that something relies on.
#
# A change that is neither found nor listed fails the test, and so does an entry
# of the list of which every change is found.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use GpuCredit;
use Test::More;

# table, columns ("(row)": deleting or copying a row), kinds of changes, reason;
# which rows, if not all
my @listed = (
	[ 'alert', '.*', '.*', 'tells somebody; nothing is decided by it' ],
	[ 'event', '.*', '.*', 'tells somebody what the audit log has; nothing is decided by it' ],
	[ 'event_pending', '.*', '.*', 'the same, before it is numbered' ],
	[ 'denial', '.*', '.*', 'counts refusals, which change nothing' ],
	[ 'kept_log', '.*', '.*', 'output for people to read; nothing is decided by it' ],
	[ 'stored_file', 'stored_at|\(row\)', '.*', 'texts that no job needs; when they are removed' ],
	[ 'step_secret', '.*', '.*', 'keys are derived from it; those of later attempts from another one as well' ],
	[ 'workload_mix', '.*', '.*', 'statistics that packing prefers by' ],
	[ 'node_cache', '.*', '.*', 'a preference among equally good nodes' ],
	[ 'node_strike', '.*', '.*', 'how often a node lately could not start something; the drain that follows is audited' ],
	[ 'reservation', '\(row\)', '.*', 'the next cycle makes it again' ],
	[ 'fair_usage', 'usage|at', '.*', 'decays by the clock; fair_usage_is_charged bounds it by what attempts used' ],
	[ 'spend_day', '\(row\)|day', '.*', 'averages of recent days for forecasts' ],
	[ 'usage', 'usage', '.*', 'keeps apart rows of one attempt and one instant' ],
	[ 'usage_horizon', 'until|\(row\)', 'later|earlier|copy', 'which instants reports refuse; a horizon before what was removed is found by usage_digest' ],
	[ 'pool', 'cycle|shape|created_at', '.*', 'counters that conflict with older snapshots, and an instant to show' ],
	[ 'quota', 'cycle', '.*', 'a counter that conflicts with older snapshots' ],
	[ 'quota', 'spare', 'up', 'how many submissions need no count; spare_is_spare bounds it' ],
	[ 'quota_lock', 'turn', '.*', 'a counter that conflicts with older snapshots' ],
	[ 'rate_limit', 'setting', '.*', 'a random number that makes a limit start full' ],
	[ 'node', 'heard_at|about|tells_running|boot_before', '.*', 'its agent\'s last report, replaced by the next' ],
	[ 'node', 'topology|topology_at', '.*', 'its agent\'s last report, which it repeats with each connection' ],
	[ 'node', 'registered_at', '.*', 'an instant to show' ],
	[ 'budget_log', 'entry|is_new', '.*', 'where reports of the past begin to count' ],
	[ 'budget_counter', 'made_at', '.*', 'only calls that began before their budget look at it' ],
	[ 'budget_slice', 'most', '.*', 'how the limit is divided; slices_within_budget checks the sum' ],
	[ 'job', 'waited|waits_from', '.*', 'ageing, which orders jobs of one tier' ],
	[ 'job', 'spec|save_every', '.*', 'a document for its agent' ],
	[ 'job', 'not_before', 'another', 'of a job that is over' ],
	[ 'job', 'eligible', 'not|another', 'of a job that waits for nothing: the next cycle notes that; of a job that is over' ],
	[ 'request', '\(row\)', 'delete', 'the oldest key of its organisation: keys leave by age, the oldest first; a payment\'s key that is older than all of those; the key of placed(), which is not audited', qr/\b(cx-10|for-3|paid-1|pl-3)\b/ ],
	[ 'job', 'failures', '.*', 'how often it may yet be retried' ],
	[ 'job', 'cancelled', '.*', 'of a job that is over' ],
	[ 'attempt', 'heard_at|running_at|progress|progress_at|utilization|idle_since|idle_for|idle_at|idle_warned_at', '.*', 'its agent\'s last report, replaced by the next' ],
	[ 'attempt', 'idle_limit|idle_warning', '.*', 'when its agent is told that it is idle' ],
	[ 'attempt', 'save_asked|save_every', '.*', 'when its agent is told to save' ],
	[ 'attempt', 'skewed_at|extension_denied', '.*', 'keeps a notice from being repeated' ],
	[ 'attempt', 'is_foreign', '.*', 'whether its pool was another scheduler\'s when it began' ],
	[ 'attempt', 'logged', '.*', 'when the next usage row is due' ],
	[ 'attempt', 'trace', '.*', 'names the caller\'s trace; trace_is_of_job checks those of jobs that have one' ],
	[ 'attempt', 'ends_by', 'another|later|null', 'of an attempt that is over, or not before its wall limit; terms_are_attempts checks the others' ],
	[ 'attempt', 'usage_charged', '.*', 'its use for fair share; fair_usage_is_charged bounds what counts of it' ],
	[ 'hold', 'sliced', '.*', 'where released credit goes first; no figure depends on it' ],
	[ 'hold', 'trace', 'another', 'names the caller\'s trace' ],
	[ 'budget_log', 'hard', '.*', 'of a budget that was removed', qr/^\(bell,r,/ ],
	[ 'bucket', 'credited_total', 'up|another', 'a mark that only grows; one that is too high makes a call look again' ],
	[ 'attempt', 'usage_digest', '.*', 'of an attempt whose usage rows were removed by age' ],
	[ 'attempt_gpu', 'expected_end|seen_at|ended_at|free', '.*', 'what an agent reports of processes, and an estimate' ],
	[ 'attempt_gpu', 'evictions|redone', '.*', 'of an attempt that is over: spared_as_evicted checks the others' ],
	[ 'attempt_gpu', 'cpu_milli|memory_mib|gpu_memory_mib|limit_end|saved_at|preemptible|min_gpus|max_gpus', '.*', 'of an attempt that is over: terms_are_attempts checks the others' ],
	[ 'attempt_part', 'turn', '.*', 'in which order parts were reported' ],
	[ 'attempt_watch', '\(row\)|.*', '.*', 'when a sweep checks an attempt; live_attempt_is_watched says that each live one has a row' ],
	[ 'account_delta', 'at', '.*', 'how late folding is' ],
	[ 'account_delta', 'day', 'another', 'of a change that spent nothing', qr/,0\.000000,,/ ],
	[ 'claim', 'turn|until|gpu_type', '.*', 'the order of claims, and when the next cycle looks again' ],
	[ 'claim_gpu', 'cpu_milli|memory_mib|gpu_memory_mib', '.*', 'kept free until the job starts; the cycle that starts it counts anew' ],
	[ 'directive', '\(row\)|.*', '.*', 'what an agent is told; cycles and upkeep tell it again' ],
	[ 'eviction', '\(row\)|at|why', '.*', 'which victims leave for which claim, until the next cycle' ],
	[ 'uncollected', 'since', '.*', 'an instant to show' ],
	[ 'seal_row', 'entries', 'flip', 'the number of an entry that was removed by age' ],
);

my $root = "$FindBin::RealBin/../columns";
my $node = new_node('main', q{shared_preload_libraries = 'gpucredit'},
	q{gpucredit.scheduler_interval = 0}, 'autovacuum = off');
my $db = 'columns';

new_database($node, $db);
my $state = slurp_checkout('test/columns/state.sql');
my $found = query($node, $db, "\\o /dev/null\n" . $state
	  =~ s/^(SELECT \* FROM verify\(\);)$/\\o\n$1\n\\o \/dev\/null/gmr);
is($found, '', 'verify() is empty at every step towards that state');
is(query($node, $db, 'SELECT count(*) FROM gpucredit.verify_audit()'),
	'0', 'verify_audit() is empty');
is( query($node, $db, q{SELECT string_agg(relname, ' ' ORDER BY relname)
		FROM pg_class c WHERE relnamespace = 'gpucredit'::regnamespace
		AND relkind = 'r' AND relpersistence = 'p'
		AND query_to_xml('SELECT 1 FROM gpucredit.' || quote_ident(relname)
			|| ' LIMIT 1', false, true, '')::text !~ 'column'}),
	'', 'every durable table has a row');

my $dbh = connect_to($node, $db);
$dbh->do(slurp_checkout('test/columns/changes.sql'));
my $insert = $dbh->prepare('INSERT INTO columns.listed VALUES (?, ?, ?)');
$insert->execute(@$_[ 0 .. 2 ]) foreach grep { !$_->[4] } @listed;
my $start = time;
$dbh->selectall_arrayref(q{SELECT columns.run(?)}, undef, $ENV{GC_TABLES} // '');
my $changes = $dbh->selectall_arrayref('SELECT * FROM columns.result',
	{ Slice => {} });
diag(sprintf('%d changes in %d seconds', scalar @$changes, time - $start));

my (%unlisted, %used);
foreach my $change (@$changes)
{
	my ($entry) = grep {
		my ($rel, $columns, $kinds) = @{ $listed[$_] };
		$change->{rel} eq $rel && $change->{col} =~ /^($columns)$/
		  && $change->{kind} =~ /^($kinds)$/
		  && $change->{key} =~ ($listed[$_][4] // qr//)
	} 0 .. $#listed;

	if ($change->{found} =~ /^error/)
	{
		$unlisted{"$change->{rel}.$change->{col} $change->{kind}: $change->{found}"} = 1;
	}
	next if $change->{found} ne '';
	if (defined $entry)
	{
		$used{$entry} = 1;
	}
	else
	{
		$unlisted{"$change->{rel}.$change->{col} $change->{kind} of $change->{key}"} = 1;
	}
}
is(join("\n", sort keys %unlisted),
	'', 'each change of what carries something is found');
is( join("\n", map { "$listed[$_][0]: $listed[$_][1]" }
		  grep { !$used{$_} } $ENV{GC_TABLES} ? () : 0 .. $#listed),
	'', 'of each entry of the list something is not found');
cmp_ok(scalar @$changes, '>', 1000, 'there were many changes');
is(query($node, $db, q{SET gpucredit.clock = '2030-03-05 00:50+00';
		SELECT * FROM gpucredit.verify()
		WHERE invariant !~ '_is_(guarded|watched)$'}),
	'', 'verify() is empty but for the triggers that are off');
is( query($node, $db, q{SELECT count(*) > 10 FROM gpucredit.verify()
		WHERE invariant ~ '_is_(guarded|watched)$'}),
	't', 'and it names those');
$dbh->disconnect;
$node->stop;
done_testing();
