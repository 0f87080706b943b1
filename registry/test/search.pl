# search.pl: finding repositories, what they share, and deleting one
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/lib";
use GpuCreditRegistry;
use GpuCredit;
use Test::More;

my $node = registry_node('search');

sub q_ { return query($node, 'reg', $_[0]) }
sub fails { return query_fails($node, 'reg', @_) }

q_(q{SELECT gpucredit_registry.create_model('acme', 'nlp', 'llama-7b', 'k1', 'public',
		card => 'A small language model for French.'),
	gpucredit_registry.create_model('acme', 'nlp', 'secret-7b', 'k2', card => 'French, too'),
	gpucredit_registry.create_model('rival', '', 'whisper', 'k1', 'public', card => 'Speech'),
	gpucredit_registry.create_model('acme', '', 'corpus', 'k3', 'public', kind => 'dataset')});
q_(q{SELECT gpucredit_registry.set_tag('acme', 1, 'task', 'text'),
	gpucredit_registry.set_tag('acme', 1, 'quant', 'fp16'),
	gpucredit_registry.set_tag('acme', 2, 'task', 'text'),
	gpucredit_registry.set_tag('rival', 3, 'task', 'audio')});

# Names that a search finds, newest first.
sub found
{
	my ($arguments) = @_;

	return q_("SELECT string_agg(name, ' ') FROM gpucredit_registry.search($arguments)");
}

is(found(q{NULL, 'french'}), 'llama-7b', 'words of a card, of what is public');
is(found(q{'account:acme/nlp', 'french'}), 'secret-7b llama-7b', 'and of what the caller may read');
is(found(q{'account:rival/', 'french'}), 'llama-7b', 'not of what it may not');
is(found(q{NULL, '7b -secret'}), 'llama-7b', 'words of a name');
is(found(q{'account:acme/', NULL, '{"task": "text", "quant": "fp16"}'}), 'llama-7b', 'two tags');
is(found(q{'account:acme/', 'llama', '{"task": "text"}'}), 'llama-7b', 'tag and word');
is(found(q{'account:acme/', n => 2}), 'corpus whisper', 'a page');
is(found(q{'account:acme/', after => 3, n => 2}), 'secret-7b llama-7b', 'the next');
is(found(q{'account:acme/', of_kind => 'dataset'}), 'corpus', 'datasets');
is(found(q{NULL, in_org => 'rival'}), 'whisper', 'one organisation');
is(found(q{NULL, '"''; DROP TABLE x; --'}), '', 'words that look like SQL');
fails(q{SELECT gpucredit_registry.search(NULL, n => 0)}, '22023', 'no page');
q_(q{SELECT gpucredit_registry.set_tag('acme', 1, 'quant', 'int8')});
is(found(q{NULL, NULL, '{"quant": "int8"}'}), 'llama-7b', 'a tag has one value');
q_(q{SELECT gpucredit_registry.set_tag('acme', 1, 'quant', NULL)});
is(q_('SELECT tags FROM gpucredit_registry.model WHERE model = 1'), '{task=text}', 'a tag goes');
fails(q{SELECT gpucredit_registry.set_tag('acme', 1, 'a=b', 'x')}, '22023', 'no tag');

# what two versions share
q_(q{SELECT gpucredit_registry.commit('acme', 1, 'main',
		'[{"path": "a", "content": "YWFhYQ=="}, {"path": "b", "content": "YmI="}]', 'c1'),
	gpucredit_registry.commit('acme', 2, 'main',
		'[{"path": "other", "content": "YWFhYQ=="}, {"path": "c", "content": "Y2NjY2Nj"}]', 'c2')});
is(q_(q{SELECT * FROM gpucredit_registry.overlap('acme', 1, 2)}), '4|0.666667',
	'the bytes of one that are in the other');
is(q_(q{SELECT * FROM gpucredit_registry.overlap('acme', 2, 1)}), '4|0.400000', 'and back');
fails(q{SELECT gpucredit_registry.overlap('rival', 1, 2)}, 'UC501', 'not of another organisation');

# scores
my $score = q{SELECT gpucredit_registry.set_score('acme', 1, %s)};
q_(sprintf($score, q{'mmlu/5-shot', 'accuracy', 0.7125, '{"shots": 5}'}));
q_(sprintf($score, q{'mmlu/5-shot', 'accuracy', 0.7125, '{"shots": 5}'}));
q_(sprintf($score, q{'gsm8k', 'exact_match', 0.5}));
is(q_(q{SELECT benchmark, metric, score, detail FROM gpucredit_registry.scores('acme', 1)}),
	qq{gsm8k|exact_match|0.5|\nmmlu/5-shot|accuracy|0.7125|{"shots": 5}}, 'scores of a version');
is(q_(q{SELECT count(*) FROM gpucredit_registry.event WHERE operation = 'set_score'}), '2',
	'the same again changes nothing');
q_(sprintf($score, q{'gsm8k', 'exact_match', NULL}));
is(q_(q{SELECT benchmark, score FROM gpucredit_registry.scores('acme', 1)}), 'mmlu/5-shot|0.7125',
	'a score goes');
is(q_(q{SELECT count(*) FROM gpucredit_registry.scores('acme', 2)}), '0', 'another version has none');
fails(sprintf($score, $_), '22023', "no score: $_")
  foreach q{'', 'm', 1}, q{'b', 'a b', 1}, q{'b', 'm', 'NaN'}, q{'b', 'm', 1e16}, q{'b', 'm', 1e-20},
  q{'b', NULL, 1}, q{'b', 'm', 1, to_jsonb(repeat('x', 65536))};
fails(q{SELECT gpucredit_registry.set_score('rival', 1, 'b', 'm', 1)}, 'UC501',
	'nobody scores another\'s version');
fails(q{SELECT gpucredit_registry.scores('acme', 99)}, 'UC501', 'no such version');
$node->safe_psql('reg', q{
	CREATE ROLE vera LOGIN IN ROLE gpucredit_tenant;
	SELECT gpucredit.bind_tenant('vera', 'acme', 'vision')});
fails(qq{SET ROLE vera; SELECT gpucredit_registry.$_}, 'UC501', "a tenant of another account: $_")
  foreach q{scores('acme', 1)}, q{set_score('acme', 1, 'b', 'm', 1)};
fails(q{SET ROLE vera; SELECT gpucredit_registry.alerts('acme')}, 'UC001',
	'nor does it see the organisation\'s alerts');

# what was downloaded most
q_(q{SELECT gpucredit_registry.close_download('acme', d.download, 4)
	FROM generate_series(1, 2) i, gpucredit_registry.open_download('acme', 1, 'a', NULL, 4, '192.0.2.' || i) d});
is(q_(q{SELECT name, downloads, bytes FROM gpucredit_registry.popular(now() - interval '7 days')}),
	'llama-7b|2|8', 'the most popular');

# deleting
q_(q{SELECT gpucredit_registry.add_parent('acme', 2, 'acme', 1, 'quantized')});
my $delete = q{SELECT * FROM gpucredit_registry.delete_model('acme', 1, 'd1')};
is(q_($delete), '1|f', 'a repository goes');
is(q_($delete), '1|t', 'once');
fails(q{SELECT gpucredit_registry.commit('acme', 1, 'main', '[]', 'c9')}, 'UC501', 'it does not exist');
is(found(q{NULL, 'llama'}), '', 'nor is it found');
is(q_(q{SELECT replayed FROM gpucredit_registry.create_model('acme', '', 'llama-7b', 'k9')}), 'f',
	'its name is free');
is(q_(q{SELECT parent FROM gpucredit_registry.ancestors('acme', 2)}), '1', 'lineage keeps it');
is(q_(q{SELECT "unique" FROM gpucredit_registry.storage('acme')}), '12', 'its bytes are there for a day');
q_(q{SET gpucredit.clock = '2099-01-01 00:00+00'; SELECT gpucredit_registry.collect()});
is(q_(q{SELECT "unique" FROM gpucredit_registry.storage('acme')}), '10',
	'then they go, but for what another repository has');
registry_verify($node);
done_testing();
