# browse.pl: what somebody who looks through the registry is shown, and what not
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/lib";
use GpuCreditRegistry;
use GpuCredit;
use MIME::Base64;
use Test::More;

my $node = registry_node('browse');

sub q_ { return query($node, 'reg', $_[0]) }
sub fails { return query_fails($node, 'reg', @_) }

$node->safe_psql('reg', q{
	CREATE ROLE ann LOGIN IN ROLE gpucredit_tenant;
	CREATE ROLE vera LOGIN IN ROLE gpucredit_tenant;
	CREATE ROLE eve LOGIN IN ROLE gpucredit_tenant;
	CREATE ROLE ops LOGIN IN ROLE gpucredit_operator;
	CREATE ROLE aud LOGIN IN ROLE gpucredit_auditor;
	CREATE ROLE fin LOGIN IN ROLE gpucredit_admin;
	CREATE ROLE stranger LOGIN;
	SELECT gpucredit.bind_tenant('ann', 'acme', 'nlp'), gpucredit.bind_tenant('vera', 'acme', 'vision'),
		gpucredit.bind_tenant('eve', 'rival')});

my %call = map { $_->[0] => $_->[1] } (
	[ ann => q{'acme', 'nlp'} ], [ vera => q{'acme', 'vision'} ], [ eve => q{'rival', ''} ],
	[ ops => q{'acme', ''} ], [ aud => q{'acme', ''} ], [ fin => q{'acme', ''} ]);

# What a role reads by a call with its account as the reader.
sub as
{
	my ($role, $what, $function, $arguments, $end) = @_;

	return q_(sprintf q{SET ROLE %s; SELECT %s FROM gpucredit_registry.%s(%s) t %s}, $role, $what,
		$function, join(', ', $call{$role}, $arguments // ()), $end // '');
}

sub as_fails
{
	my ($role, $function, $arguments, $state, $name) = @_;

	return fails(sprintf(q{SET ROLE %s; SELECT * FROM gpucredit_registry.%s(%s)}, $role, $function,
			join(', ', $call{$role}, $arguments // ())), $state, $name);
}

my $key = 0;

# A repository; its number.
sub model
{
	my ($org, $account, $name, $visibility, $kind) = @_;

	return q_(sprintf q{SELECT model FROM gpucredit_registry.create_model('%s', '%s', '%s', 'k%s', '%s', kind => '%s')},
		$org, $account, $name, $key++, $visibility // 'private', $kind // 'model');
}

# Commits files; the version's number.
sub commit
{
	my ($org, $model, $files, $more) = @_;
	my $operations = join ', ', map { sprintf '{"path": "%s", "content": "%s"}', $_, encode_base64($files->{$_}, '') } sort keys %$files;

	return q_(sprintf q{SELECT version FROM gpucredit_registry.commit('%s', %s, 'main', '[%s]', 'k%s'%s)},
		$org, $model, $operations, $key++, $more // '');
}

my $base = model('rival', '', 'base', 'public');
my $hidden = model('rival', '', 'hidden');
my $tuned = model('acme', 'nlp', 'tuned');
my $eyes = model('acme', 'vision', 'eyes');
my $offspring = model('rival', '', 'offspring', 'public');
my $corpus = model('acme', 'nlp', 'corpus', 'private', 'dataset');

commit('acme', $corpus, { 'README.md' => "---\nlicense: cc0-1.0\n---\n", 'a.csv' => '1' });
my $v_base = commit('rival', $base, { 'README.md' => "---\ntags: [chat, small]\nlicense: mit\nlibrary_name: transformers\npipeline_tag: text-generation\n---\n# Base\n" });
my $v_hidden = commit('rival', $hidden, { 'w' => 'h' }, qq{, parents => '[{"org": "rival", "version": $v_base}]'});
my $v_offspring = commit('rival', $offspring, { 'w' => 'o' }, qq{, parents => '[{"org": "rival", "version": $v_hidden}]'});
my $v_first = commit('acme', $tuned, { 'README.md' => "---\nlicense: mit\ntags: [chat]\ndatasets: [acme/corpus, other/set]\n---\nOurs\n",
	'a' => 'x', 'd/b' => 'yy', 'd/e/c' => 'zzz' }, qq{, parents => '[{"org": "rival", "version": $v_base}]'});
my $v_tuned = commit('acme', $tuned, { 'a' => 'xx' });
my $v_eyes = commit('acme', $eyes, { 'w' => 'e' }, q{, title => 'first'});

# Lists
is(as('ann', q{string_agg(name, ' ' ORDER BY name)}, 'models'), 'base corpus offspring tuned', 'a tenant finds its own and what is public');
is(as('vera', q{string_agg(name, ' ' ORDER BY name)}, 'models'), 'base eyes offspring', 'a tenant of another account other ones');
is(as('eve', q{string_agg(name, ' ' ORDER BY name)}, 'models'), 'base hidden offspring', 'as does another organisation');
is(as('ann', q{string_agg(name, ' ')}, 'models', q{facets => '{chat,license:mit}', sort => 'name', ascending => true}), 'base tuned', 'facets narrow a list, which is sorted');
is(as('ann', q{string_agg(name, ' ')}, 'models', q{query => 'tun', "limit" => 1}), 'tuned', 'a part of a name finds it');
is(as('ann', q{string_agg(name, ' ')}, 'models', q{sort => 'name', ascending => true, skip => 1, "limit" => 2}), 'corpus offspring', 'a second page');
is(as('ann', 'license, library, task, tags, versions, files, state', 'models', q{query => 'base'}), 'mit|transformers|text-generation|{chat,small}|1|1|ready', 'a row says what the card states');
is(as('ann', q{string_agg(kind || ' ' || value || ' ' || models, ',' ORDER BY kind, value)}, 'model_facets', q{facets => '{chat}'}),
	'library transformers 1,license mit 2,tag chat 2,tag small 1,task text-generation 1', 'facets are counted among what the caller may read');
q_(qq{SELECT gpucredit_registry.set_tag('acme', $tuned, 'stage', 'production')});
is(as('ann', q{string_agg(name, ' ')}, 'models', q{labels => '{stage=production}'}), 'tuned', 'a tag of set_tag() is one, too');
is(as('ann', 'value, facet', 'model_facets', q{labels => '{stage=production}'}, q{WHERE kind = 'label'}), 'stage=production|', 'and counted');
q_(q{SELECT gpucredit_registry.create_model('acme', 'nlp', 'stated', 'stated', license => 'odd')});
is(as('ann', q{string_agg(name, ' ')}, 'models', q{facets => '{license:odd}'}), 'stated', 'a licence without a card is found, too');
is(as('ann', 'state IS NULL, versions, files', 'models', q{query => 'stated'}), 't|0|', 'an empty repository has no state');
as_fails('ann', 'models', q{"limit" => 0}, '22023', 'no page');
as_fails('ann', 'models', q{skip => -1}, '22023', 'nor one before the first');
as_fails('ann', 'models', q{facets => NULL}, '22023', 'nor no facets');
as_fails('ann', 'models', q{sort => 'x'}, '22023', 'nor another order');

# The reader is an account of the session, whatever it says of itself.
foreach my $call (qw(models model_facets held_versions), q{model_details|'acme', 'eyes'}, "versions|$eyes", "version_details|$eyes", "version_files|$eyes", "lineage_graph|$v_eyes", "version_datasets|$v_eyes")
{
	my ($function, $arguments) = split /\|/, $call;
	my $list = sub { return join(', ', @_, $arguments // ()) };

	fails(qq{SET ROLE ann; SELECT * FROM gpucredit_registry.$function(} . $list->(q{'acme', 'vision'}) . ')', 'UC001', "$function: a tenant is no other account");
	fails(qq{SET ROLE ann; SELECT * FROM gpucredit_registry.$function(} . $list->(q{'acme', ''}) . ')', 'UC001', "$function: nor its organisation");
	fails(qq{SET ROLE eve; SELECT * FROM gpucredit_registry.$function(} . $list->(q{'acme', 'nlp'}) . ')', 'UC001', "$function: nor another organisation");
	fails(qq{SET ROLE stranger; SELECT * FROM gpucredit_registry.$function(} . $list->(q{'acme', 'nlp'}) . ')', '42501', "$function: a stranger calls nothing");
	next if !defined $arguments;
	as_fails('ann', $function, $arguments, 'UC501', "$function: what it may not read does not exist");
	fails(qq{SET ROLE ann; SELECT * FROM gpucredit_registry.$function(} . $list->('NULL', q{''}) . ')', '22023', "$function: nobody is no reader");
}

# A repository
is(as('ann', 'permission, paid_by, visibility, license, versions, state', 'model_details', q{'acme', 'tuned'}), 'admin|nlp|private|mit|2|ready', 'an owner sees who pays');
is(as('ann', 'permission, paid_by IS NULL, card', 'model_details', q{'rival', 'base'}),
	"read|t|---\ntags: [chat, small]\nlicense: mit\nlibrary_name: transformers\npipeline_tag: text-generation\n---\n# Base\n", 'a reader sees the card, and not who pays');
as_fails('ann', 'model_details', q{'rival', 'hidden'}, 'UC501', 'what is hidden does not exist');
as_fails('ann', 'model_details', q{'rival', 'nothing'}, 'UC501', 'as what does not exist');
is(as('ann', 'kind', 'models', q{of_kind => 'dataset'}), 'dataset', 'datasets are found by their kind');
is(as('ann', 'license', 'model_details', q{'acme', 'corpus', 'dataset'}), 'cc0-1.0', 'and read by it');
q_(qq{SELECT gpucredit_registry.set_alias('acme', $tuned, 'champion', $v_first, 'alias'), gpucredit_registry.protect_ref('acme', $tuned, '\@champion')});
is(as('ann', q{string_agg(version || ' ' || files || ' ' || (SELECT string_agg(concat_ws(' ', r ->> 'ref', r ->> 'kind', r ->> 'protected'), ',') FROM jsonb_array_elements(refs) r), ';')}, 'versions', $tuned),
	"$v_tuned 4 main branch false;$v_first 4 \@champion alias true", 'versions with the refs that name them, newest first');
is(as('ann', 'version', 'versions', "$tuned, $v_tuned, 1"), $v_first, 'page by page');
is(as('ann', 'version, files, bytes', 'version_details', qq{$tuned, '\@champion'}), "$v_first|4|" . (6 + length("---\nlicense: mit\ntags: [chat]\ndatasets: [acme/corpus, other/set]\n---\nOurs\n")), 'an alias is a revision');
as_fails('ann', 'version_details', qq{$tuned, 'nothing'}, 'UC501', 'no such revision');
is(as('ann', q{string_agg(name || ' ' || is_folder || ' ' || files || ' ' || bytes, ',')}, 'version_files', $tuned), 'README.md false 1 74,a false 1 2,d true 2 5', 'a folder has files and folders');
is(as('ann', q{string_agg(name || ' ' || is_folder || ' ' || bytes, ',')}, 'version_files', qq{$tuned, 'main', 'd'}), 'b false 2,e true 3', 'and so has one in it');
is(as('ann', 'name', 'version_files', qq{$tuned, 'main', '', 'README.md', 1}), 'a', 'page by page');
is(as('ann', 'count(*)', 'version_files', qq{$tuned, 'main', '../rival'}), '0', 'a folder that is none is empty');
as_fails('ann', 'version_files', qq{$tuned, 'main', NULL}, '22023', 'no folder');

# Lineage shows what the reader may read, and what leads there by it.
my $graph = q{string_agg(name || ' ' || depth || ' ' || array_to_string(made, '+'), ',' ORDER BY depth, name)};
is(as('ann', $graph, 'lineage_graph', $v_tuned), 'base -1 ,tuned 0 fine_tune', 'what it was made from');
is(as('ann', $graph, 'lineage_graph', $v_base), 'base 0 ,tuned 1 fine_tune,tuned 1 fine_tune', 'what was made from it, but for what others made');
is(as('eve', $graph, 'lineage_graph', $v_base), 'base 0 ,hidden 1 fine_tune,offspring 2 fine_tune', 'each sees its own');
is(as('vera', $graph, 'lineage_graph', $v_offspring), 'offspring 0 ', 'nothing is seen through what is hidden');
is(as('ann', 'bool_or(more), count(*)', 'lineage_graph', "$v_base, 1"), 't|2', 'a bound, which says that there is more');
is(as('ann', 'bool_or(more)', 'lineage_graph', "$v_base, 2"), 'f', 'or that there is not');
as_fails('ann', 'lineage_graph', "$v_base, 0", '22023', 'no bound');
is(q_(qq{SET ROLE ops; SELECT $graph FROM gpucredit_registry.all_lineage_graph($v_base)}), 'base 0 ,hidden 1 fine_tune,tuned 1 fine_tune,tuned 1 fine_tune,offspring 2 fine_tune', 'an operator sees what a quarantine would reach');
fails(q{SET ROLE aud; SELECT gpucredit_registry.all_lineage_graph(99999)}, 'UC501', 'of a version that is there');
fails(qq{SET ROLE $_; SELECT gpucredit_registry.all_lineage_graph($v_base)}, '42501', "but not $_") foreach qw(ann stranger registryd);
is(as('ann', q{string_agg(concat_ws(' ', dataset, license, depth, in_registry), ',')}, 'version_datasets', $v_tuned), 'acme/corpus cc0-1.0 0 t,other/set 0 f', 'datasets with their licences');
q_(qq{SELECT gpucredit_registry.grant_access('acme', $tuned, 'org:rival', 'read')});
is(as('eve', q{string_agg(concat_ws(' ', dataset, in_registry), ',')}, 'version_datasets', $v_tuned), 'acme/corpus f,other/set f', 'whether a dataset is there, is told to who may read it');
is(as('eve', 'permission, paid_by IS NULL', 'model_details', q{'acme', 'tuned'}), 'read|t', 'a guest reads');
q_(qq{SELECT gpucredit_registry.revoke_access('acme', $tuned, 'org:rival')});
as_fails('eve', 'versions', $tuned, 'UC501', 'and does so no more');

# A long line and many children are bounded.
q_(qq{INSERT INTO gpucredit_registry.version (org, model, oid, title, author, created_at)
	SELECT 'rival', $base, lpad(to_hex(n), 40, '0'), '', 'x', now() FROM generate_series(1, 5000) n;
	INSERT INTO gpucredit_registry.edge SELECT 'rival', $v_base, 'rival', version, 'adapter'
	FROM gpucredit_registry.version WHERE org = 'rival' AND oid < lpad('f', 24, '0');
	ANALYZE gpucredit_registry.edge, gpucredit_registry.version});
is(as('ann', 'count(*), bool_and(more)', 'lineage_graph', "$v_base, 100"), '101|t', 'of 5,000 descendants a page');
is(as('ann', 'count(*)', 'versions', "$base, NULL, 25"), '25', 'and of 5,000 versions');
q_(qq{DELETE FROM gpucredit_registry.edge WHERE kind = 'adapter'; DELETE FROM gpucredit_registry.version WHERE org = 'rival' AND author = 'x'});

# Quarantine and scans
is(as('ann', 'count(*)', 'held_versions'), '0', 'nothing is held back');
q_(qq{SELECT gpucredit_registry.quarantine('rival', $v_base, 'poison', 'q', true)});
is(as('ann', q{string_agg(version || ' ' || state || ' ' || reason, ',')}, 'held_versions'), "$v_tuned quarantined poison,$v_first quarantined poison", 'an owner sees what is in quarantine, and why');
is(as('vera', 'count(*)', 'held_versions'), '0', 'of its own alone');
is(as('ann', 'state, reason, card IS NULL, card_refused', 'model_details', q{'rival', 'base'}), 'quarantined|poison|t|quarantined', 'the card of what nobody may read is withheld');
is(as('ann', 'state', 'models', q{query => 'base'}), 'quarantined', 'the list says so');
is(as('ann', q{DISTINCT state}, 'lineage_graph', $v_base), 'quarantined', 'as does lineage');
is(q_(q{SET ROLE ops; SELECT count(*) FROM gpucredit_registry.all_held_versions()}), '5', 'an operator sees all of them');
is(q_(qq{SET ROLE ops; SELECT version FROM gpucredit_registry.all_held_versions($v_tuned, 1)}), $v_first, 'page by page');
fails(qq{SET ROLE $_->[0]; SELECT * FROM gpucredit_registry.$_->[1]()}, '42501', "$_->[0] may not call $_->[1]")
  foreach map { my $role = $_; map { [ $role, $_ ] } qw(all_models all_model_facets all_held_versions) } qw(ann stranger registryd);
is(q_(q{SET ROLE aud; SELECT string_agg(name, ' ' ORDER BY name) FROM gpucredit_registry.all_models()}), 'base corpus eyes hidden offspring stated tuned', 'an auditor finds all');
is(q_(q{SET ROLE ops; SELECT string_agg(name, ' ' ORDER BY name) FROM gpucredit_registry.all_models(of_org => 'rival', query => 'hid')}), 'hidden', 'an operator, too');
is(q_(q{SET ROLE ops; SELECT sum(models) FROM gpucredit_registry.all_model_facets() WHERE kind = 'license' AND value = 'mit'}), '2', 'and counts');
is(as('ops', 'state', 'model_details', q{'acme', 'tuned'}), 'quarantined', 'and reads what stands there as its owner does');
q_(qq{SELECT gpucredit_registry.release_quarantine('rival', $v_base, 'no poison', 'r', true)});
is(as('ann', 'card_refused IS NULL, state', 'model_details', q{'rival', 'base'}), 't|ready', 'what is released is shown again');
q_(qq{SELECT gpucredit_registry.set_scan_policy('acme', '{yara}', hold => true)});
my $v_waits = commit('acme', $tuned, { 'README.md' => 'new' });
is(as('ann', 'state, card', 'model_details', q{'acme', 'tuned'}), 'held|new', 'who may write reads what waits for its scans');
q_(qq{SELECT gpucredit_registry.grant_access('acme', $tuned, 'org:rival', 'read')});
is(as('eve', 'state, card IS NULL, card_refused', 'model_details', q{'acme', 'tuned'}), 'held|t|scan_pending', 'a guest does not yet');
q_(q{SELECT gpucredit_registry.claim_scans(10)});
q_(qq{SELECT gpucredit_registry.report_scan('acme', $v_waits, 'yara', 'failed', '{"reason": "a rule matches"}')});
is(as('eve', 'state, reason, card_refused', 'model_details', q{'acme', 'tuned'}), 'restricted|It failed the scan "yara".|restricted', 'nor what failed one');
is(as('ann', 'state', 'versions', "$tuned, NULL, 1"), 'restricted', 'its owner sees it among the versions');
q_(qq{SELECT gpucredit_registry.block_objects(ARRAY[encode(object, 'hex')], 'listed') FROM gpucredit_registry.file WHERE version = $v_tuned AND path = 'd/b'});
is(as('ann', 'blocked', 'version_details', $tuned), '1', 'how many files are blocked');
is(as('ann', q{string_agg(name, ' ')}, 'version_files', $tuned, 'WHERE blocked'), 'd', 'in which folder they are');
is(as('ann', q{string_agg(name, ' ')}, 'version_files', "$tuned, 'main', 'd'", 'WHERE blocked'), 'b', 'and which');

# What was read and what it costs: for owners; by whom: for auditors.
q_(qq{SELECT gpucredit_registry.close_download('acme', d.download, 1)
	FROM gpucredit_registry.open_download('acme', $v_first, 'a', 'account:rival/', 1) d});
is(as_owner('ann', 'count(*), sum(downloads), sum(bytes)', 'traffic', "$tuned, 7"), '7|1|1', 'an owner sees how much was read');
is(q_(qq{SET ROLE aud; SELECT client, path, bytes FROM gpucredit_registry.model_downloads('acme', $tuned)}), 'account:rival/|a|1', 'an auditor by whom');
fails(qq{SET ROLE ann; SELECT gpucredit_registry.model_downloads('acme', $tuned)}, '42501', 'an owner does not');
fails(qq{SET ROLE ops; SELECT gpucredit_registry.model_downloads('acme', $tuned)}, '42501', 'nor an operator');
fails(qq{SET ROLE $_->[0]; SELECT gpucredit_registry.$_->[1]}, 'UC501', "$_->[0] sees no $_->[1]")
  foreach map { my $role = $_; map { [ $role, $_ ] } "traffic('acme', $tuned)", "model_cost('acme', $tuned)" } qw(vera eve);
fails(qq{SET ROLE ann; SELECT gpucredit_registry.traffic('acme', $tuned, $_)}, '22023', "no span of $_ days") foreach 0, 367, 'NULL';
is(as_owner('ann', 'bytes, sent_bytes, storage_price, egress_price, unpaid', 'model_cost', $tuned), '85|1|0.023|0.09|f', 'each content is paid once, whatever versions have it');
q_(q{SELECT gpucredit_registry.set_storage_price('storage', 500000)});
is(as_owner('ann', 'storage_month', 'model_cost', $tuned), '0.042500', 'the price of a month, exactly');
q_(q{SET gpucredit.clock = '2099-01-02 00:00+00'; SELECT gpucredit_registry.bill('acme', '2099-01-01')});
is(as('ann', q{string_agg(of_account, ' ')}, 'bills'), 'nlp', 'an account sees its bills');
is(as('fin', q{string_agg(of_account, ' ')}, 'bills'), ' nlp vision', 'finance all of the organisation');
fails(q{SET ROLE ann; SELECT * FROM gpucredit_registry.bills('acme', 'vision')}, 'UC001', 'nobody those of others');
fails(q{SET ROLE ops; SELECT * FROM gpucredit_registry.bills('acme')}, '42501', 'nor an operator');

# Deleted repositories
q_(qq{SELECT gpucredit_registry.delete_model('rival', $base, 'gone')});
as_fails('ann', $_->[0], $_->[1], 'UC501', "$_->[0] of a repository that was deleted")
  foreach [ 'versions', $base ], [ 'lineage_graph', $v_base ], [ 'model_details', q{'rival', 'base'} ];
is(as('ann', $graph, 'lineage_graph', $v_first), 'tuned 0 ', 'nor is it in the lineage of others');
is(as('eve', q{string_agg(name || ' ' || deleted, ',' ORDER BY depth)}, 'lineage_graph', $v_hidden), 'base true,hidden false,offspring false', 'its owner goes on seeing it');
registry_verify($node);
done_testing();

# What a tenant reads of its organisation's repository by a call without a reader.
sub as_owner
{
	my ($role, $what, $function, $arguments) = @_;

	return q_(sprintf q{SET ROLE %s; SELECT %s FROM gpucredit_registry.%s('acme', %s)}, $role, $what, $function, $arguments);
}
