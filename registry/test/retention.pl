# retention.pl: retention, aliases, immutable tags and legal holds: refused, replayed, by whom, and at the same time as everything else
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/lib";
use GpuCreditRegistry;
use GpuCredit;
use Test::More;

my @levels = ('READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE');
my $node = registry_node('retention');
my $keys = 0;

sub q_ { return query($node, 'reg', $_[0]) }

# A repository with so many versions, which a rule keeps for nothing but their branch; its number and the versions.
sub repository
{
	my ($n, $rule) = @_;
	my $key = 'r' . ++$keys;
	my $model = q_("SELECT model FROM gpucredit_registry.create_model('acme', 'vision', '$key', '$key')");
	my @versions = map { q_(sprintf(q{SELECT version FROM gpucredit_registry.commit('acme', %s, 'main', jsonb_build_array(
		jsonb_build_object('path', 'a', 'content', encode('%s', 'base64'))), '%s')}, $model, "$key $_", "$key-$_")) } 1 .. $n;

	q_("SELECT gpucredit_registry.set_retention('acme', $model, 0" . ($rule // '') . ')');
	return ($model, @versions);
}

sub tag_sql { return qq{INSERT INTO gpucredit_registry.ref VALUES ('acme', $_[0], '$_[1]', $_[2], true)} }

# The versions of a repository that have their files.
sub versions_with_files
{
	my ($model) = @_;

	return q_("SELECT string_agg(version::text, ' ' ORDER BY version) FROM gpucredit_registry.version
		WHERE model = $model AND dropped_at IS NULL");
}

# Events of a repository that those who follow them hear of.
sub events
{
	my ($model) = @_;

	return q_("SELECT string_agg(kind, ' ' ORDER BY kind) FROM (SELECT kind, detail FROM gpucredit.event_pending
		UNION ALL SELECT kind, detail FROM gpucredit.event) e WHERE detail ->> 'model' = '$model'");
}

# A session with a transaction of a level, whose snapshot is taken.
sub session
{
	my ($level) = @_;
	my $db = connect_to($node, 'reg');

	$db->do("BEGIN ISOLATION LEVEL $level");
	$db->do('SELECT count(*) FROM gpucredit_registry.model');
	return $db;
}

# What a statement of a session ends with: '' or its SQLSTATE; the transaction is over.
sub ends
{
	my ($db, $sql) = @_;
	my $state = eval { $db->do($sql); $db->do('COMMIT'); '' } // $db->state;

	$db->do('ROLLBACK') if $state;
	return $state;
}

# Runs a statement in a process of its own, which ends with one of the states.
sub meanwhile
{
	my ($sql, @states) = @_;

	return in_parallel(1, sub {
			my $db = connect_to($node, 'reg');
			my $state = eval { $db->do($sql); '' } // $db->state;

			die "$state: $sql" unless grep { $_ eq $state } @states;
		});
}

sub until_it_waits
{
	$node->poll_query_until('reg', q{SELECT count(*) = 1 FROM pg_stat_activity
		WHERE wait_event_type = 'Lock' AND datname = 'reg'}) or die 'it does not wait';
	return;
}

# Who may, what is refused, and what a replay does.
q_(q{CREATE ROLE vera LOGIN IN ROLE gpucredit_tenant; CREATE ROLE nils LOGIN IN ROLE gpucredit_tenant;
	CREATE ROLE rita LOGIN IN ROLE gpucredit_tenant; CREATE ROLE aud LOGIN IN ROLE gpucredit_auditor; CREATE ROLE op LOGIN IN ROLE gpucredit_operator;
	SELECT gpucredit.bind_tenant('vera', 'acme', 'vision'), gpucredit.bind_tenant('nils', 'acme', 'nlp'), gpucredit.bind_tenant('rita', 'rival')});
my ($model, @v) = repository(3);
sub as { return sqlstate_of($node, 'reg', "SET SESSION AUTHORIZATION $_[0]; SELECT * FROM gpucredit_registry.$_[1]") }
my @calls = ("set_alias('acme', $model, 'champion', $v[0], 'p%s')", "aliases('acme', $model)", "delete_alias('acme', $model, 'champion')",
	"set_immutable_tags('acme', $model, '{v*}')", "set_retention('acme', $model, 1)", "retention('acme', $model)",
	"apply_retention('acme', $model)", "delete_retention('acme', $model)");
my $before = versions_with_files($model);
foreach my $call (@calls)
{
	my $said = sprintf $call, ++$keys;

	is(as($_, $said), 'UC501', "$_, who does not own it, may not: $call") foreach 'nils', 'rita';
	is(as($_, $said), '42501', "$_ may not at all") foreach 'aud', 'op', 'registryd';
}
is(as($_, "set_legal_hold('acme', $v[0], 'x')"), '42501', "$_ holds nothing") foreach 'vera', 'aud', 'registryd';
is(as($_, "lift_legal_hold('acme', $v[0], 'x')"), '42501', "$_ lifts nothing") foreach 'vera', 'aud', 'registryd';
is(versions_with_files($model), $before, 'nothing is removed by that');
my $heard = events($model);
is(as('vera', $_), '22023', "bad input: $_") foreach "set_alias('acme', $model, '', $v[0], 'b')", "set_alias('acme', $model, NULL, $v[0], 'b')",
  "set_alias('acme', $model, '\@a', $v[0], 'b')", "set_immutable_tags('acme', $model, NULL)", "set_immutable_tags('acme', $model, '{NULL}')",
  "set_immutable_tags('acme', $model, ARRAY(SELECT i::text FROM generate_series(1, 21) i))", "set_retention('acme', $model, -1)",
  "set_retention('acme', $model, 1, '-1 day')", "set_retention('acme', $model, 1, keep_read => NULL)";
is(as('op', "set_legal_hold('acme', $v[0], '')"), '22023', 'a hold has a reason');
is(events($model), $heard, 'what is refused is not published');
is(as('vera', "set_alias('acme', $model, 'champion', $v[0], 'once')"), '', 'its owner sets an alias');
is(events($model), "$heard model.ref_moved", 'which is published');
is(q_("SET SESSION AUTHORIZATION vera; SELECT gpucredit_registry.set_alias('acme', $model, 'champion', $v[0], 'once')"), 't', 'the same again is replayed');
is(as('vera', "set_alias('acme', $model, 'champion', $v[1], 'once')"), 'UC201', 'the key with other arguments is not');
is(events($model), "$heard model.ref_moved", 'neither is published');
is(q_("SELECT version FROM gpucredit_registry.aliases('acme', $model)"), $v[0], 'nor moves it');
q_("BEGIN; SELECT gpucredit_registry.set_alias('acme', $model, 'next', $v[1], 'back'); ROLLBACK");
is(events($model), "$heard model.ref_moved", 'nor is what was rolled back');
my $seen = q{SET SESSION AUTHORIZATION %s; SELECT count(*) FROM gpucredit.events(0, 1000, 'acme', '%s') WHERE detail ->> 'model' = '%s'};
q_('SELECT gpucredit_internal.number_events(1000)');
cmp_ok(q_(sprintf $seen, 'vera', 'vision', $model), '>', 0, 'its owner hears of it');
is(q_(sprintf $seen, 'nils', 'nlp', $model), '0', 'another account does not');
my $set = q_("SELECT applied_at FROM gpucredit_registry.retention_rule WHERE model = $model");
q_("SELECT gpucredit_registry.set_retention('acme', $model, 0)");
is(q_("SELECT applied_at FROM gpucredit_registry.retention_rule WHERE model = $model"), $set,
	'who sets the same rule each hour does not put off its day');

# Who read within the time of a rule, read until that day ended.
($model, @v) = repository(2, q{, keep_read => '1 hour'});
q_(qq{UPDATE gpucredit_registry.version SET read_on = '2031-05-05' WHERE version = $v[0]});
foreach ([ '2031-05-05 23:59+00', 'read' ], [ '2031-05-06 00:30+00', 'read' ], [ '2031-05-06 01:30+00', '' ])
{
	is(q_("SET gpucredit.clock = '$_->[0]'; SELECT kept_by FROM gpucredit_registry.retention('acme', $model) WHERE version = $v[0]"),
		$_->[1], "at $_->[0]");
}

# Retention beside a pull: what somebody begins to read stays.
($model, @v) = repository(4);
q_("SELECT gpucredit_registry.set_retention('acme', $model, 0, keep_read => '1 day')");
my $reader = session($levels[0]);
is($reader->selectrow_array("SELECT status FROM gpucredit_registry.open_download('acme', $v[0], 'a', 'account:acme/vision', 1)"), 'granted',
	'a client begins to read');
is(q_("SELECT gpucredit_registry.apply_retention('acme', $model)"), '2', 'while a rule is applied');
$reader->do('COMMIT');
is(versions_with_files($model), "$v[0] $v[3]", 'and what he reads stays');
is(q_("SELECT gpucredit_registry.apply_retention('acme', $model)"), '0', 'also afterwards');

# A pull between the look-up and the removal.
($model, @v) = repository(3);
q_("SELECT gpucredit_registry.set_retention('acme', $model, 0, keep_read => '1 day', prune_tags => 'rc*')");
q_(tag_sql($model, 'rc1', $v[0]));
my $blocker = session($levels[0]);
$blocker->do("SELECT FROM gpucredit_registry.ref WHERE model = $model AND ref = 'rc1' FOR UPDATE");
my @pids = meanwhile("SELECT gpucredit_registry.apply_retention('acme', $model)", '');
until_it_waits();
is(q_("SELECT status FROM gpucredit_registry.open_download('acme', $v[1], 'a', 'account:acme/vision', 1)"), 'granted',
	'a client begins to read what is about to be removed');
$blocker->do('COMMIT');
is(wait_for_children(@pids), 0, 'the rule is applied');
is(versions_with_files($model), "$v[1] $v[2]", 'to what nobody reads');

foreach my $level (@levels)
{
	# Retention waits for an alias, and an alias for retention.
	($model, @v) = repository(3);
	my $db = session($level);
	$db->do("SELECT gpucredit_registry.set_alias('acme', $model, 'champion', $v[0], 'k" . ++$keys . q{')});
	@pids = meanwhile("SELECT gpucredit_registry.apply_retention('acme', $model)", '');
	until_it_waits();
	$db->do('COMMIT');
	is(wait_for_children(@pids), 0, "$level: a rule waits for an alias");
	is(versions_with_files($model), "$v[0] $v[2]", 'which keeps its version');
	$db = session($level);
	my $pruner = session($levels[0]);
	q_("SELECT gpucredit_registry.delete_alias('acme', $model, 'champion')");
	is($pruner->selectrow_array("SELECT gpucredit_registry.apply_retention('acme', $model)"), 1, 'without it, the version goes');
	$pruner->do('COMMIT');
	is(ends($db, "SELECT gpucredit_registry.set_alias('acme', $model, 'champion', $v[0], 'k" . ++$keys . q{')}),
		$level eq $levels[0] ? 'UC501' : '40001', 'and no alias of an older snapshot names it');
	is(versions_with_files($model), $v[2], 'it has gone');

	# A legal hold, against retention and against a deletion with an older snapshot.
	($model, @v) = repository(2);
	$db = session($level);
	$db->do("SELECT gpucredit_registry.set_legal_hold('acme', $v[0], 'case')");
	@pids = meanwhile("SELECT gpucredit_registry.apply_retention('acme', $model)", '');
	until_it_waits();
	$db->do('COMMIT');
	is(wait_for_children(@pids), 0, "$level: a rule waits for a hold");
	is(versions_with_files($model), "@v", 'which keeps its version');
	q_("SELECT gpucredit_registry.lift_legal_hold('acme', $v[0], 'settled')");
	$db = session($level);
	q_("SELECT gpucredit_registry.set_legal_hold('acme', $v[0], 'case 2')");
	is(ends($db, "SELECT gpucredit_registry.delete_model('acme', $model, 'd$model')"), $level eq $levels[0] ? '42501' : '40001',
		'a deletion with an older snapshot does not get round a hold');
	is(versions_with_files($model), "@v", 'its version stays');
	q_("SELECT gpucredit_registry.lift_legal_hold('acme', $v[0], 'settled')");
	$db = session($level);
	q_("SELECT gpucredit_registry.apply_retention('acme', $model)");
	is(ends($db, "SELECT gpucredit_registry.set_legal_hold('acme', $v[0], 'too late')"), $level eq $levels[0] ? 'UC501' : '40001',
		'a hold does not pretend to keep what has gone');

	# Tags become immutable while somebody has an older snapshot.
	($model, @v) = repository(2);
	q_(tag_sql($model, 'v1', $v[0]));
	my @late = map { session($level) } 1 .. 2;
	q_("SELECT gpucredit_registry.set_immutable_tags('acme', $model, '{v*}')");
	is(ends($late[0], "SELECT gpucredit_registry.move_ref('acme', $model, 'v1', $v[1], 'm$model')"), $level eq $levels[0] ? '42501' : '40001',
		"$level: a tag that became immutable does not move by an older snapshot");
	is(ends($late[1], "SELECT gpucredit_registry.delete_model('acme', $model, 'i$model')"), $level eq $levels[0] ? '42501' : '40001',
		'nor does its repository go');
	$db = session($level);
	q_("SELECT gpucredit_registry.protect_ref('acme', $model, 'main')");
	is(ends($db, "SELECT gpucredit_registry.commit('acme', $model, 'main', '[]', 'c$model')"), $level eq $levels[0] ? '42501' : '40001',
		'nor does a branch that became protected');

	# Two delete a repository at once: it is deleted once, and what it had is billed.
	($model, @v) = repository(2);
	$db = session($level);
	$db->do("SELECT gpucredit_registry.delete_model('acme', $model, 'one$model')");
	@pids = meanwhile("SELECT gpucredit_registry.delete_model('acme', $model, 'two$model')", 'UC501');
	until_it_waits();
	$db->do('COMMIT');
	is(wait_for_children(@pids), 0, "$level: a repository is deleted once");
	cmp_ok(q_("SELECT deleted_bytes FROM gpucredit_registry.model WHERE model = $model"), '>', 0, 'and keeps how many bytes it had, for its bill');
	is(scalar(grep { $_ eq 'model.deleted' } split / /, events($model)), 1, 'it is published once');

	# A rule that is removed while it is applied.
	($model, @v) = repository(2);
	$db = session($levels[0]);
	$db->do("SELECT gpucredit_registry.apply_retention('acme', $model)");
	@pids = meanwhile("BEGIN ISOLATION LEVEL $level; SELECT gpucredit_registry.delete_retention('acme', $model); COMMIT", '', '40001');
	until_it_waits();
	$db->do('ROLLBACK');
	is(wait_for_children(@pids), 0, 'a rule that is being applied is not removed before it was');
	is(versions_with_files($model), "@v", 'and nothing goes after it was removed');
}

# Clients make one immutable tag at once: one of them does.
daemon_start($node);
my $token = registry_token($node, 'acme', 'vision');
($model, @v) = repository(4);
q_("SELECT gpucredit_registry.set_immutable_tags('acme', $model, '{v*}'), gpucredit_registry.delete_retention('acme', $model)");
my ($name) = q_("SELECT name FROM gpucredit_registry.model WHERE model = $model");
my @oids = map { q_("SELECT oid FROM gpucredit_registry.version WHERE version = $_") } @v;
foreach my $tag (1 .. 5)
{
	my $refused = wait_for_children(in_parallel(4, sub {
			open(STDERR, '>', '/dev/null');
			my $answer = json_request('POST', "/api/models/acme/$name/tag/$oids[$_[0]]", $token, { tag => "v$tag" });

			die "one status or the other\n" if $answer->{status} !~ /^(201|403|409)$/;
			die "refused\n" if $answer->{status} != 201;
		}));

	is($refused, 3, "of four who make the tag v$tag at four versions one does");
}
is(q_("SELECT count(*) FROM gpucredit_registry.ref WHERE model = $model AND tag"), '5', 'each is there');

# What was removed is named by nobody.
q_("SELECT gpucredit_registry.set_retention('acme', $model, 0, prune_tags => 'x*')");
q_("DELETE FROM gpucredit_registry.ref WHERE model = $model AND tag AND version = $v[0]");
is(q_("SELECT gpucredit_registry.apply_retention('acme', $model)") >= 1, 1, 'a version is removed');
my $removed = q_("SELECT version FROM gpucredit_registry.version WHERE model = $model AND dropped_at IS NOT NULL ORDER BY version LIMIT 1");
my $oid = q_("SELECT oid FROM gpucredit_registry.version WHERE version = $removed");
is(json_request('POST', "/api/models/acme/$name/tag/$oid", $token, { tag => 'late' })->{status}, 404, 'no tag names it');
is(json_request('POST', "/api/models/acme/$name/branch/late", $token, { startingPoint => $oid })->{status}, 404, 'nor a branch');
is(json_request('POST', "/api/models/acme/$name/alias/late", $token, { revision => $oid })->{status}, 404, 'nor an alias');
query_fails($node, 'reg', "SELECT gpucredit_registry.move_ref('acme', $model, 'late', $removed, 'late')", 'UC501', 'nor does a ref move there');

# Pulls, aliases, tags and retention all at once: no ref names what has gone.
($model, @v) = repository(12, q{, prune_tags => 'rc*'});
@pids = in_parallel(5, sub {
		my ($i) = @_;
		my $db = connect_to($node, 'reg');

		srand($i);
		for my $n (1 .. 60)
		{
			my $version = $v[rand @v];
			my $sql = $i == 0 ? "SELECT gpucredit_registry.apply_retention('acme', $model)"
				: $i == 1 ? sprintf(q{SELECT gpucredit_registry.set_alias('acme', %s, 'a%d', %s, 'x%d-%d')}, $model, rand 3, $version, $i, $n)
				: $i == 2 ? sprintf(q{SELECT gpucredit_registry.delete_alias('acme', %s, 'a%d')}, $model, rand 3)
				: $i == 3 ? "SELECT gpucredit_registry.open_download('acme', $version, 'a', 'account:acme/vision', 1)"
				: sprintf(q{SELECT gpucredit_registry.move_ref('acme', %s, 'rc%d', %s, 'y%d-%d')}, $model, rand 3, $version, $i, $n);

			eval { $db->do($sql); 1 } || $db->state eq 'UC501' || die $db->errstr;
		}
	});
is(wait_for_children(@pids), 0, 'pulls, aliases, tags and retention at once: nothing fails, and nothing deadlocks');
is(q_("SELECT count(*) FROM gpucredit_registry.ref r JOIN gpucredit_registry.version v USING (org, version)
	WHERE r.model = $model AND v.dropped_at IS NOT NULL"), '0', 'no ref names what has gone');

registry_verify($node);
done_testing();
