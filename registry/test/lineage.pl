# lineage.pl: descendants, cycles, and quarantine, also while others commit
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/lib";
use GpuCreditRegistry;
use GpuCredit;
use Test::More;

my $node = registry_node('lineage');
my $keys = 0;

sub q_ { return query($node, 'reg', $_[0]) }
sub fails { return query_fails($node, 'reg', @_) }

# A new repository's first version, made from others; its number.
sub version
{
	my ($org, @parents) = @_;
	my $n = ++$keys;
	my $parents = join(',', map {
			sprintf('{"org": "%s", "version": %s, "kind": "fine_tune"}', @$_)
		} @parents);

	return q_(qq{SELECT version FROM gpucredit_registry.commit('$org',
		(SELECT model FROM gpucredit_registry.create_model('$org', '', 'm$n', 'k$n',
			visibility => 'public')),
		'main', '[{"path": "w", "content": "YQ=="}]', 'c$n', parents => '[$parents]')});
}

# A diamond over two organisations: base, two children, one grandchild.
my $base = version('acme');
my @mid = (version('acme', [ 'acme', $base ]), version('rival', [ 'acme', $base ]));
my $tip = version('rival', [ 'acme', $mid[0] ], [ 'rival', $mid[1] ]);

is(q_("SELECT child_org, child, depth FROM gpucredit_registry.descendants('acme', $base)"),
	"acme|$mid[0]|1\nrival|$mid[1]|1\nrival|$tip|2", 'all descendants, each once');
is(q_("SELECT parent_org, parent, depth FROM gpucredit_registry.ancestors('rival', $tip)"),
	"acme|$mid[0]|1\nrival|$mid[1]|1\nacme|$base|2", 'all ancestors, each once');
fails("SELECT gpucredit_registry.add_parent('acme', $base, 'rival', $tip)", 'UC505',
	'no version is its own ancestor');
fails("SELECT gpucredit_registry.add_parent('acme', $base, 'acme', $base)", 'UC505',
	'nor its own parent');
fails("SELECT gpucredit_registry.add_parent('acme', $base, 'acme', 999)", 'UC501', 'no such parent');
fails("SELECT gpucredit_registry.add_parent('acme', $base, 'acme', $tip, 'cousin')", 'UC501',
	'a version has one organisation');

# Two edges that would close a cycle together: one waits, then is refused.
my ($x, $y) = (version('acme'), version('acme'));
my $one = connect_to($node, 'reg');
$one->begin_work;
$one->do("SELECT gpucredit_registry.add_parent('acme', $x, 'acme', $y)");
my @pids = in_parallel(1, sub {
	my $db = connect_to($node, 'reg');

	eval { $db->do("SELECT gpucredit_registry.add_parent('acme', $y, 'acme', $x)") };
	die unless $db->state eq 'UC505';
});
$node->poll_query_until('reg', q{SELECT count(*) = 1 FROM pg_stat_activity
	WHERE wait_event_type = 'Lock' AND query LIKE '%add_parent%'});
$one->commit;
my $unlucky = wait_for_children(@pids);
is(q_(qq{SELECT count(*) FROM gpucredit_registry.edge
	WHERE (parent, child) IN (($x, $y), ($y, $x))}), 1, 'one of the two edges is there');
is($unlucky, 0, 'the other would close a cycle');

# Quarantine while a child is being committed.
my $poisoned = version('acme');
$one->begin_work;
$one->do(qq{SELECT gpucredit_registry.commit('rival', (SELECT model FROM
	gpucredit_registry.create_model('rival', '', 'child', 'kc')), 'main', '[]', 'cc',
	parents => '[{"org": "acme", "version": $poisoned}]')});
@pids = in_parallel(1, sub {
	connect_to($node, 'reg')->do(qq{SELECT gpucredit_registry.quarantine('acme', $poisoned,
		'backdoor', 'q1', true)});
});
$node->poll_query_until('reg', q{SELECT count(*) = 1 FROM pg_stat_activity
	WHERE wait_event_type = 'Lock' AND query LIKE '%quarantine%'});
$one->commit;
wait_for_children(@pids);
is(q_("SELECT quarantined FROM gpucredit_registry.descendants('acme', $poisoned)"), 't',
	'a child that was being committed is in quarantine, too');
is(q_(sprintf(q{SELECT status FROM gpucredit_registry.commit('rival', (SELECT model FROM
	gpucredit_registry.create_model('rival', '', 'late', 'kl')), 'main', '[]', 'cl',
	parents => '[{"org": "acme", "version": %s}]')}, $poisoned)), 'quarantined',
	'one that is made later is born in quarantine');

# Quarantine of a diamond, once; nobody reads.
my $quarantine = "SELECT * FROM gpucredit_registry.quarantine('acme', $base, 'bad', 'q2', true)";
is(q_($quarantine), '4|f|0', 'base and descendants go');
is(q_($quarantine), '4|t|0', 'once');
fails(qq{SELECT gpucredit_registry.resolve('rival', (SELECT model FROM gpucredit_registry.version
	WHERE version = $tip), 'main', 'w', 'account:rival/')}, 'UC504', 'a descendant is not read');
is(q_("SELECT * FROM gpucredit_registry.release_quarantine('acme', $base, 'false alarm', 'r1', true)"),
	'4|f', 'all come back');
is(q_(qq{SELECT size FROM gpucredit_registry.resolve('rival', (SELECT model FROM
	gpucredit_registry.version WHERE version = $tip), 'main', 'w', 'account:rival/')}), '1',
	'and are read');
fails("SELECT gpucredit_registry.quarantine('acme', 999, 'x', 'q3')", 'UC501', 'no such version');
fails("SELECT gpucredit_registry.quarantine('acme', $base, '', 'q3')", '22023', 'no reason');

# The datasets of a version and of what it was made from, with their licences.
sub card
{
	my ($org, $account, $name, $kind, $card, $parents) = @_;

	return q_(sprintf(q{SELECT version FROM gpucredit_registry.commit('%s', (SELECT model FROM
		gpucredit_registry.create_model('%s', '%s', '%s', 'm%s', kind => '%s')), 'main', jsonb_build_array(
			jsonb_build_object('path', 'README.md', 'content', encode(convert_to(E'%s', 'UTF8'), 'base64'))), 'd%s',
			parents => '%s')}, $org, $org, $account, $name, $name, $kind, $card, $name, $parents // '[]'));
}
my $web = card('acme', '', 'web', 'dataset', '---\nlicense: cc-by-4.0\n---\n');
card('rival', '', 'hidden', 'dataset', '---\nlicense: cc0-1.0\n---\n');
my $trained = card('acme', '', 'trained', 'model', '---\ndatasets: [acme/web, rival/hidden, elsewhere]\n---\n');
my $datasets = sub { return q_(sprintf(q{SELECT string_agg(concat_ws(' ', dataset, dataset_version, license, depth, of_version), ', ')
	FROM gpucredit_registry.datasets('%s', %s)}, @_)) };
is($datasets->('acme', $trained), "acme/web $web cc-by-4.0 0 $trained, elsewhere 0 $trained, rival/hidden 0 $trained",
	'datasets of a card; of one that the author may not read nothing is known');
my $model_of = "(SELECT model FROM gpucredit_registry.version WHERE version = $trained)";
my $follow = q_("SELECT version FROM gpucredit_registry.commit('acme', $model_of, 'main', '[{\"path\": \"w\", \"content\": \"dw==\"}]', 'df')");
is($datasets->('acme', $follow), $datasets->('acme', $trained) =~ s/ $trained\b/ $follow/gr, 'the next version has them, too');
q_(q{UPDATE gpucredit_registry.model SET license = 'other', card = NULL WHERE name = 'web'});
like($datasets->('acme', $follow), qr/acme\/web $web cc-by-4\.0/, 'a licence that changes later changes no record');
q_("SELECT gpucredit_registry.add_dataset('acme', $follow, 'elsewhere', 'odc-by')");
q_("SELECT gpucredit_registry.add_dataset('acme', $follow, 'images', 'cc0-1.0')");
like($datasets->('acme', $follow), qr/elsewhere odc-by 0 $follow, images cc0-1\.0/, 'the owner states others, and licences');
my $made = q_(qq{SELECT version FROM gpucredit_registry.commit('acme', (SELECT model FROM gpucredit_registry.create_model('acme', '', 'made', 'mm')),
	'main', '[]', 'dm', parents => '[{"org": "acme", "version": $follow}]')});
is($datasets->('acme', $made), $datasets->('acme', $follow) =~ s/ 0 / 1 /gr, 'what is made from it was trained on them');
q_(qq{SELECT gpucredit_registry.grant_access('acme', $model_of, 'org:rival', 'read')});
my $theirs = q_(qq{SELECT version FROM gpucredit_registry.commit('rival', (SELECT model FROM gpucredit_registry.create_model('rival', '', 'made', 'mm')),
	'main', '[]', 'dm', parents => '[{"org": "acme", "version": $follow}]')});
is($datasets->('rival', $theirs), $datasets->('acme', $made), 'also in an organisation that may read it');
q_(qq{SELECT gpucredit_registry.revoke_access('acme', $model_of, 'org:rival')});
is($datasets->('rival', $theirs), '', 'as long as it may');
fails("SELECT gpucredit_registry.add_dataset('acme', $follow, '$_')", '22023', 'a name that is none') foreach '', ' x', 'x' x 201;
fails("SELECT gpucredit_registry.datasets('acme', 999)", 'UC501', 'no such version');
q_(q{CREATE ROLE dt IN ROLE gpucredit_tenant; SELECT gpucredit.bind_tenant('dt', 'rival')});
fails("SET ROLE dt; SELECT gpucredit_registry.$_",
	'UC501', "a tenant does not reach another's: $_") foreach "datasets('acme', $trained)", "add_dataset('acme', $trained, 'x')";
registry_verify($node);
done_testing();
