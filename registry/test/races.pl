# races.pl: calls at the same time, at each isolation level
#
# Each race is played both ways: one session does its part and waits with the
# commit, another comes.  A session above READ COMMITTED has its snapshot before
# the other's commit, so it may fail with 40001 and be repeated; nothing else.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/lib";
use GpuCreditRegistry;
use GpuCredit;
use Test::More;

my @levels = ('READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE');
my $node = registry_node('races');
my $keys = 0;

sub q_ { return query($node, 'reg', $_[0]) }

# A session with a transaction of a level, whose snapshot is taken.
sub session
{
	my ($level) = @_;
	my $db = connect_to($node, 'reg');

	$db->do("BEGIN ISOLATION LEVEL $level");
	$db->do('SELECT count(*) FROM gpucredit_registry.model');
	return $db;
}

# Runs a statement in a process of its own, repeated while it fails with 40001,
# until it ends in one of the states; '' is success.
sub meanwhile
{
	my ($level, $sql, @states) = @_;

	return in_parallel(1, sub {
			my $db = session($level);

			for my $try (1 .. 5)
			{
				my $state = eval { $db->do($sql); $db->do('COMMIT'); '' } // $db->state;

				exit_with($level, $state, @states) if $state ne '40001';
				die "40001 at $level: $sql" if $level eq $levels[0];
				$db->do('ROLLBACK');
				$db->do("BEGIN ISOLATION LEVEL $level");
			}
			die "it fails again and again: $sql";
		});
}

sub exit_with
{
	my ($level, $state, @states) = @_;

	POSIX::_exit(0) if grep { $_ eq $state } @states;
	die "state \"$state\" at $level";
}

# Waits until the other session has its snapshot and waits for a lock.
sub until_it_waits
{
	$node->poll_query_until('reg', q{SELECT count(*) = 1 FROM pg_stat_activity
		WHERE wait_event_type = 'Lock' AND datname = 'reg'}) or die 'it does not wait';
	return;
}

sub model
{
	my ($org) = @_;
	my $n = ++$keys;

	return q_("SELECT model FROM gpucredit_registry.create_model('$org', '', 'm$n', 'm$n', 'public')");
}

# SQL of a commit: files are path => content; "parents" as commit() takes it.
sub commit_sql
{
	my ($org, $model, $files, $parents) = @_;
	my $n = ++$keys;
	my $operations = join(',', map {
			sprintf(q{jsonb_build_object('path', '%s', 'content', encode('%s', 'base64'))}, @$_)
		} @$files);

	return sprintf(q{SELECT version FROM gpucredit_registry.commit('%s', %s, 'main',
		jsonb_build_array(%s), 'c%s', parents => '%s')}, $org, $model, $operations, $n,
		$parents || '[]');
}

sub parent { return sprintf('[{"org": "%s", "version": %s}]', @_) }

sub verified
{
	my ($name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	return is(q_('SELECT * FROM gpucredit_registry.verify()'), '', $name);
}

foreach my $level (@levels)
{
	# An unused object is committed again while it is collected.
	my $model = model('acme');
	my $late = "SET gpucredit.clock = '2099-01-01 00:00+00'";
	my $collect = "$late; SELECT sum(affected) FROM gpucredit_registry.collect()";
	my $body = lc($level);

	q_(store_body('acme', "$body"));
	my $one = connect_to($node, 'reg');
	$one->do('BEGIN');
	$one->do("SET LOCAL gpucredit.clock = '2099-01-01 00:00+00'");
	is($one->selectrow_array(q{SELECT affected FROM gpucredit_registry.collect() WHERE task = 'chunks'}),
		1, "$level: a file goes");
	my @pids = meanwhile($level, commit_sql('acme', $model, [ [ 'a', $body ] ]), '');
	until_it_waits();
	$one->do('COMMIT');
	is(wait_for_children(@pids), 0, 'and is committed meanwhile');
	verified('its bytes are there');

	# the other way round: nobody waits for it
	my $two = session($level);
	$two->do(commit_sql('acme', $model, [ [ 'b', "two $body" ] ]));
	q_(store_body('rival', "three $body"));
	$two->do(commit_sql('acme', $model, [ [ 'c', "four $body" ] ]));
	is(q_($collect) > 0, 1, 'collect() passes what is being committed');
	$two->do('COMMIT');
	verified('and takes nothing of it');

	# bytes that were sent a day ago, by their digest alone
	q_(store_body('acme', "five $body"));
	$two->do("BEGIN ISOLATION LEVEL $level");
	$two->do(sprintf(q{SELECT gpucredit_registry.commit('acme', %s, 'main', jsonb_build_array(
		jsonb_build_object('path', 'd', 'sha256', encode(sha256('five %s'), 'hex'))), 'd%s')},
		$model, $body, ++$keys));
	q_($collect);
	$two->do('COMMIT');
	verified('also where only their digest is committed');

	# Two organisations commit the same files in opposite order.
	my @models = (model('acme'), model('rival'));
	my @files = map { [ "f$_", "$_ $body" ] } 1 .. 2;
	$two->do("BEGIN ISOLATION LEVEL $level");
	$two->do(commit_sql('acme', $models[0], \@files));
	@pids = meanwhile($level, commit_sql('rival', $models[1], [ reverse @files ]), '');
	until_it_waits();
	$two->do('COMMIT');
	is(wait_for_children(@pids), 0, 'two commit the same files in opposite order');
	verified('each file is stored once');

	# Quarantine of a base while a child, and a child's child, are being
	# committed.
	my $base = q_(commit_sql('acme', $models[0], [ [ 'w', "base $body" ] ]));
	my $child = q_(commit_sql('rival', $models[1], [], parent('acme', $base)));
	my $next = model('rival');
	$two->do("BEGIN ISOLATION LEVEL $level");
	my $third = $two->selectrow_array(commit_sql('rival', $next, [], parent('rival', $child)));
	my $fourth = $two->selectrow_array(commit_sql('rival', $models[1], [ [ 'x', "x $body" ] ]));
	@pids = meanwhile($levels[0], "SELECT gpucredit_registry.quarantine('acme', $base, 'bad', 'q$base', true)", '');
	until_it_waits();
	$two->do('COMMIT');
	is(wait_for_children(@pids), 0, 'a base goes into quarantine while others commit');
	is(q_("SELECT string_agg(child::text, ' ' ORDER BY child) FROM
		gpucredit_registry.descendants('acme', $base) WHERE quarantined"), "$child $third $fourth",
		'and all that is made of it, directly or not');
	is(sqlstate_of($node, 'reg', "BEGIN ISOLATION LEVEL $level;
		SELECT gpucredit_registry.quarantine('acme', $base, 'bad', 'again', true)"),
		$level eq $levels[0] ? '' : '25001', 'it looks below at READ COMMITTED alone');

	# the other way round: the child waits, and is born in quarantine
	$base = q_(commit_sql('acme', model('acme'), [ [ 'w', "other $body" ] ]));
	$next = model('rival');
	$one->do('BEGIN');
	$one->do("SELECT gpucredit_registry.quarantine('acme', $base, 'bad', 'q$base', true)");
	@pids = meanwhile($level, commit_sql('rival', $next, [], parent('acme', $base)), '');
	until_it_waits();
	$one->do('COMMIT');
	is(wait_for_children(@pids), 0, 'a child is committed while its base goes into quarantine');
	is(q_("SELECT quarantined FROM gpucredit_registry.descendants('acme', $base)"), 't',
		'and is born in it');

	# Two edges that would close a cycle together.
	my ($x, $y) = map { q_(commit_sql('acme', model('acme'), [])) } 1, 2;
	$two->do("BEGIN ISOLATION LEVEL $level");
	$two->do("SELECT gpucredit_registry.add_parent('acme', $x, 'acme', $y)");
	@pids = meanwhile($level, "SELECT gpucredit_registry.add_parent('acme', $y, 'acme', $x)", 'UC505');
	until_it_waits();
	$two->do('COMMIT');
	is(wait_for_children(@pids), 0, 'the second of two edges that close a cycle is refused');
	is(q_("SELECT count(*) FROM gpucredit_registry.edge WHERE child IN ($x, $y)"), '1', 'one is there');

	# A repository is deleted while a commit to it waits.
	my $doomed = model('acme');
	$one->do('BEGIN');
	$one->do("SELECT gpucredit_registry.delete_model('acme', $doomed, 'delete $doomed')");
	@pids = meanwhile($level, commit_sql('acme', $doomed, [ [ 'a', 'kept' ] ]), 'UC501');
	until_it_waits();
	$one->do('COMMIT');
	is(wait_for_children(@pids), 0, 'a commit to what is being deleted is refused');
	verified('all books hold');
	$_->disconnect foreach $one, $two;
}
registry_verify($node);
done_testing();
