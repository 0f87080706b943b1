# rights.pl: repositories, keys, rights, tokens, and who may call what, in SQL
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/lib";
use GpuCreditRegistry;
use GpuCredit;
use Test::More;

my $node = registry_node('rights');
my $create = q{SELECT * FROM gpucredit_registry.create_model('acme', 'nlp', 'base', 'k1')};

sub q_ { return query($node, 'reg', $_[0]) }
sub fails { return query_fails($node, 'reg', @_) }

is(q_($create), '1|f', 'a repository is made');
is(q_($create), '1|t', 'the same call again gives the same');
fails(q{SELECT gpucredit_registry.create_model('acme', 'nlp', 'other', 'k1')}, 'UC201',
	'the key with other arguments is refused');
fails(q{SELECT gpucredit_registry.create_model('acme', 'nlp', 'base', 'k2')}, 'UC507',
	'a name stands for one repository');
fails(qq{SELECT gpucredit_registry.create_model('acme', 'nlp', '$_', 'k3')}, '22023',
	"\"$_\" is no name")
  foreach '', '..', 'a/b', 'x.git', '-x', 'a b', 'x' x 97;
fails(q{SELECT gpucredit_registry.create_model('acme', 'nobody', 'x', 'k3')}, 'UC001',
	'no such account');
fails(q{SELECT gpucredit_registry.create_model('acme', 'nlp', 'x', NULL)}, '22023', 'no key');

# commits
my $commit = q{SELECT oid, status, replayed FROM gpucredit_registry.commit('acme', 1, 'main',
	'[{"path": "config.json", "content": "e30="}, {"path": "sub/a", "content": "YQ=="}]', 'c1')};
my ($oid) = split /\|/, q_($commit);
is(q_($commit), "$oid|committed|t", 'a commit is made once');
fails(qq{SELECT gpucredit_registry.commit('acme', 1, 'main', '[{"path": "b", "content": "YQ=="}]',
	'c2', parent => '} . ('0' x 40) . q{')}, 'UC506', 'the ref is elsewhere');
is(q_(qq{SELECT status FROM gpucredit_registry.commit('acme', 1, 'main',
	'[{"path": "sub", "op": "delete_folder"}]', 'c3', parent => '$oid')}), 'committed',
	'a commit on top of what is there');
is(q_(q{SELECT string_agg(path, ',' ORDER BY version, path) FROM gpucredit_registry.file}),
	'config.json,sub/a,config.json', 'each version has its own list of files');
fails(qq{SELECT gpucredit_registry.commit('acme', 1, 'main',
	'[{"path": "$_", "content": "YQ=="}]', 'c4')}, '22023', "\"$_\" is no path")
  foreach '', '../x', 'a/../b', '/a', 'a//b', 'a/.git/b', 'a\\\\\\\\b', 'x' x 1025;
fails(q{SELECT gpucredit_registry.commit('acme', 1, 'main',
	'[{"path": "a", "content": "YQ=="}, {"path": "a/b", "content": "YQ=="}]', 'c4')}, '22023',
	'a file is no folder');
fails(q{SELECT gpucredit_registry.commit('acme', 1, 'main', '[{"path": "x", "content": "!"}]', 'c4')},
	'22023', 'broken base64');
fails(q{SELECT gpucredit_registry.commit('acme', 1, 'main', '{}', 'c4')}, '22023', 'no array');
fails(q{SELECT gpucredit_registry.commit('acme', 1, '../x', '[]', 'c4')}, '22023', 'no ref');
fails(q{SELECT gpucredit_registry.commit('acme', 1, 'main', '[{"path": "x", "op": "delete"}]', 'c4')},
	'UC501', 'nothing to delete');
fails(q{SELECT gpucredit_registry.commit('acme', 9, 'main', '[]', 'c4')}, 'UC501', 'no repository');

# knowing a digest grants nothing
my $sha = q_(q{SELECT encode(object, 'hex') FROM gpucredit_registry.file WHERE path = 'sub/a'});
my $copy = q_(q{SELECT model FROM gpucredit_registry.create_model('rival', '', 'copy', 'k1')});
my $take = qq{SELECT gpucredit_registry.commit('rival', $copy, 'main',
	'[{"path": "a", "sha256": "$sha"}]', 'c1')};
fails($take, 'UC503', 'knowing a digest gives nobody its bytes');
is(q_(q{SELECT count(*) FROM gpucredit_registry.possession WHERE org = 'rival'}), '0',
	'nor does it leave a trace');
q_(q{SELECT gpucredit_registry.grant_access('acme', 1, 'org:rival', 'read')});
is(q_("SELECT (commit).status FROM ($take) c"), 'committed',
	'who may read them may use them');
is(q_(q{SELECT "unique" FROM gpucredit_registry.storage('rival')}), '1', 'and pays for them');
is(q_(q{SELECT gpucredit_registry.revoke_access('acme', 1, 'org:rival')}), 't', 'a right is taken back');
is(q_(q{SELECT gpucredit_registry.revoke_access('acme', 1, 'org:rival')}), 'f', 'once');

# who may do what
my $may = q{SELECT coalesce(gpucredit_registry.permission_of('acme', 1,
	('%s', '%s', '%s')::gpucredit_registry.caller), 'nothing')};
foreach (
	[ 'acme',  '',        'write', 'admin',   'the organisation' ],
	[ 'acme',  'nlp',     'write', 'admin',   'the account' ],
	[ 'acme',  'nlp/ann', 'write', 'nothing', 'a user below it' ],
	[ 'acme',  'nlp',     'read',  'read',    'a token that may only read' ],
	[ 'acme',  'vision',  'write', 'nothing', 'another team' ],
	[ 'acme',  'nlpx',    'write', 'nothing', 'a name that begins alike' ],
	[ 'rival', '',        'write', 'nothing', 'another organisation' ])
{
	my ($org, $account, $scope, $has, $who) = @$_;

	is(q_(sprintf($may, $org, $account, $scope)), $has, "$who: $has");
}
q_(q{SELECT gpucredit_registry.grant_access('acme', 1, 'account:acme/nlp', 'write')});
is(q_(sprintf($may, 'acme', 'nlp/ann', 'write')), 'write', 'a grant to a team is one to its users');
q_(q{SELECT gpucredit_registry.grant_access('acme', 1, '*', 'read')});
is(q_(sprintf($may, 'rival', '', 'write')), 'read', 'everybody may read what is open to all');
is(q_(q{SELECT coalesce(gpucredit_registry.permission_of('acme', 1, NULL), 'nothing')}), 'read',
	'and nobody known, too');
fails(q{SELECT gpucredit_registry.grant_access('acme', 1, '*', 'write')}, '22023',
	'but not write');
fails(qq{SELECT gpucredit_registry.grant_access('acme', 1, '$_', 'read')}, '22023',
	"\"$_\" is no principal")
  foreach '', 'bob', 'org:', 'org:a/b', 'account:';

# tenants see and change their own alone
$node->safe_psql('reg', q{
	CREATE ROLE ann LOGIN IN ROLE gpucredit_tenant;
	SELECT gpucredit.bind_tenant('ann', 'acme', 'nlp/ann');
	CREATE ROLE stranger LOGIN});
my $as = sub { return "SET ROLE $_[0]; $_[1]" };
is(q_($as->('ann', q{SELECT replayed FROM gpucredit_registry.create_model('acme', 'nlp/ann', 'mine', 'k9')})),
	'f', 'a tenant makes a repository of its own');
fails($as->('ann', q{SELECT gpucredit_registry.create_model('acme', 'nlp', 'x', 'k10')}), 'UC001',
	'but none of another account');
fails($as->('ann', q{SELECT gpucredit_registry.commit('acme', 1, 'main', '[]', 'c9')}), 'UC501',
	'nor commits to one, by any argument');
fails($as->('ann', q{SELECT gpucredit_registry.grant_access('acme', 2, 'org:rival', 'read')}), 'UC501',
	'nor opens one');
fails($as->('ann', q{SELECT gpucredit_registry.issue_token('acme', '')}), 'UC001',
	'nor makes a token of another');

# refs that gates protect
q_(q{SELECT gpucredit_registry.protect_ref('acme', 1, 'prod')});
fails(q{SELECT gpucredit_registry.commit('acme', 1, 'prod', '[]', 'p1')}, '42501',
	'no commit moves a protected ref');
fails(q{SELECT gpucredit_registry.delete_model('acme', 1, 'p1')}, '42501', 'nor does deletion');
is(q_(qq{SELECT gpucredit_registry.move_ref('acme', 1, 'prod', version, 'p2')
	FROM gpucredit_registry.version WHERE oid = '$oid'}), 'f', 'move_ref() does');
is(q_(q{SELECT oid FROM gpucredit_registry.find_revision('acme', 'base', 'prod')}), $oid,
	'and a revision is found by it');
fails(q{SELECT gpucredit_registry.move_ref('acme', 1, 'prod', 999, 'p3')}, 'UC501', 'no such version');
my $mine = q_(q{SELECT model FROM gpucredit_registry.model WHERE name = 'mine'});
q_($as->('ann', qq{SELECT gpucredit_registry.protect_ref('acme', $mine, 'prod')}));
fails($as->('ann', qq{SELECT gpucredit_registry.protect_ref('acme', $mine, 'prod', false)}), '42501',
	'its owner does not end the protection');
fails($as->('ann', q{SELECT * FROM gpucredit_registry.find_revision('acme', 'base', 'prod')}),
	'UC501', 'another account finds no revision');
q_(q{SELECT gpucredit_registry.protect_ref('acme', 1, 'prod', false)});
is(q_(q{SELECT status FROM gpucredit_registry.commit('acme', 1, 'prod', '[]', 'p4')}), 'committed',
	'an administrator does');

foreach my $call (
	q{gpucredit_registry.quarantine('acme', 1, 'x', 'k')},
	q{gpucredit_registry.set_storage_quota('acme', 1)},
	q{gpucredit_registry.http('GET', '/', '{}', '')},
	q{gpucredit_registry.resolve('acme', 1, 'main', 'config.json', NULL)},
	q{gpucredit_registry.collect()},
	q{gpucredit_registry.move_ref('acme', 1, 'prod', 1, 'k')},
	q{gpucredit_registry.bill('acme', '2026-01-01')})
{
	fails($as->('ann', "SELECT $call"), '42501', "a tenant may not call $call");
	fails($as->('stranger', "SELECT $call"), '42501', 'nor a stranger');
}
fails($as->('registryd', 'SELECT FROM gpucredit_registry.token'), '42501',
	'the daemon reads no table');
is(q_(q{
	SELECT count(*) FROM pg_proc p
		CROSS JOIN LATERAL aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a
	WHERE p.pronamespace = 'gpucredit_registry'::regnamespace AND a.grantee = 0}),
	'0', 'PUBLIC may call nothing');
is(q_(q{
	SELECT string_agg(p.proname, ' ') FROM pg_proc p
	WHERE p.pronamespace = 'gpucredit_registry'::regnamespace
		AND (obj_description(p.oid, 'pg_proc') IS NULL
			OR p.prosecdef AND NOT p.proconfig @> '{"search_path=pg_catalog, pg_temp"}')}),
	'', 'each function has a comment, and those with rights a search_path');
is(q_(q{
	SELECT string_agg(p.proname, ' ') FROM pg_proc p
	WHERE p.pronamespace = 'gpucredit_registry'::regnamespace
		AND coalesce(nullif(p.prosrc, ''), pg_get_functiondef(p.oid))
			~ '\mgpucredit\.(hold|extend_hold|capture|release|reserve|cancel|issue|revoke|transfer|refund|refund_hold|placed)\('
		AND NOT coalesce(p.proconfig @> '{gpucredit.key_space=gpucredit_registry}', false)}),
	'', 'every function that calls the ledger has the registry\'s keys');
q_(q{CREATE ROLE bob LOGIN IN ROLE gpucredit_tenant; SELECT gpucredit.bind_tenant('bob', 'acme', 'nlp');
	SELECT gpucredit.bind_tenant('ann', 'acme', 'nlp')});
is(q_($as->($_, qq{SELECT replayed FROM gpucredit_registry.create_model('acme', 'nlp', 'of-$_', 'k1')})), 'f',
	"$_ uses a key that others have used")
  foreach 'ann', 'bob';
is(q_($as->('bob', q{SELECT replayed FROM gpucredit_registry.create_model('acme', 'nlp', 'of-bob', 'k1')})), 't',
	'and finds its own answer');
fails(q{DELETE FROM gpucredit_registry.event}, 'UC901', 'events stay');
# Commits store what they change, and each version keeps its own list of files.
my $tree = q_(q{SELECT model FROM gpucredit_registry.create_model('acme', 'nlp', 'tree', 'tree')});
my $keys = 0;
my $commit_sql = sub {
	my ($ref, $operations) = @_;

	return sprintf q{SELECT version FROM gpucredit_registry.commit('acme', %s, '%s', '%s', 'tree%s')},
	  $tree, $ref, $operations, $keys++;
};
my $files = sub {
	return q_(sprintf q{SELECT coalesce(string_agg(path || '=' || size, ' ' ORDER BY path), '')
		FROM gpucredit_registry.file WHERE org = 'acme' AND version = %s}, $_[0]);
};
my $entries = sub { return q_(q{SELECT count(*) FROM gpucredit_registry.entry}) };
my @tree = q_($commit_sql->('main', '[{"path": "a", "content": "YQ=="}, {"path": "d/b", "content": "YQ=="},
	{"path": "d/c", "content": "YQ=="}, {"path": "d0", "content": "YQ=="}]'));
my $before = $entries->();
push @tree, q_($commit_sql->('main', '[{"path": "a", "content": "YWE="}]'));
is($entries->() - $before, 1, 'a commit of one file stores one');
push @tree, q_($commit_sql->('main', '[{"path": "a", "content": "YWE="}]'));
is($entries->() - $before, 1, 'the same file again stores none');
push @tree, q_($commit_sql->('main', '[{"path": "d", "op": "delete_folder"}, {"path": "a", "op": "delete"},
	{"path": "a", "content": "YWFh"}, {"path": "n", "content": "YQ=="}, {"path": "n", "op": "delete"}]'));
is($files->($tree[0]), 'a=1 d/b=1 d/c=1 d0=1', 'the first version keeps its files');
is($files->($tree[1]), 'a=2 d/b=1 d/c=1 d0=1', 'the second has the new one');
is($files->($tree[2]), $files->($tree[1]), 'as has the third');
is($files->($tree[3]), 'a=3 d0=1', 'operations take effect in order, and a folder is no prefix of a name');
q_(qq{INSERT INTO gpucredit_registry.ref VALUES ('acme', $tree, 'old', $tree[1])});
push @tree, q_($commit_sql->('old', '[{"path": "d/c", "op": "delete"}]'));
is($files->($tree[4]), 'a=2 d/b=1 d0=1', 'a branch from an older version has the files of that version');
push @tree, q_($commit_sql->('main', '[{"path": "m", "content": "YQ=="}]'));
is($files->($tree[5]), 'a=3 d0=1 m=1', 'and changes no other branch');
is($files->($tree[4]), 'a=2 d/b=1 d0=1', 'nor does the other change it');
q_(qq{SELECT gpucredit_registry.drop_files('acme', $tree[2])});
is($files->($tree[2]), '', 'files of a version are deleted');
is($files->($tree[1]) . $files->($tree[3]), 'a=2 d/b=1 d/c=1 d0=1a=3 d0=1', 'and those of its neighbours stay');

# File systems that fold case hold no file beside a folder of that name.
fails($commit_sql->('main', $_->[0]), '22023', "$_->[1] is refused")
  foreach [ '[{"path": "A", "content": "YQ=="}]', 'a name in other letters' ],
  [ '[{"path": "A/x", "content": "YQ=="}]', 'a folder named as a file in other letters' ],
  [ '[{"path": "X/y", "content": "YQ=="}, {"path": "x", "content": "YQ=="}]', 'a file named as a folder in other letters' ];
like(q_($commit_sql->('main', '[{"path": "A", "content": "YQ=="}, {"path": "a", "op": "delete"}]')), qr/^\d+$/,
	'a file is renamed to other letters in one commit');

# Of two commits on one version, whose snapshots are equally old, one fails.
{
	my ($one, $other) = map { connect_to($node, 'reg') } 1, 2;

	q_(qq{INSERT INTO gpucredit_registry.ref SELECT org, model, 'twin', version
		FROM gpucredit_registry.ref WHERE model = $tree AND ref = 'main'});
	foreach ($one, $other)
	{
		$_->do('BEGIN ISOLATION LEVEL REPEATABLE READ');
		$_->selectrow_array('SELECT count(*) FROM gpucredit_registry.version');
	}
	$one->do($commit_sql->('main', '[{"path": "one", "content": "YQ=="}]'));
	$one->do('COMMIT');
	$other->{PrintError} = 0;
	ok(!eval { local $other->{RaiseError} = 1; $other->do($commit_sql->('twin', '[{"path": "two", "content": "YQ=="}]')) },
		'a commit whose snapshot is too old fails');
	is($other->state, '40001', 'and may be tried again');
	$other->do('ROLLBACK');
	$_->disconnect foreach $one, $other;
}

registry_verify($node);
done_testing();
