# console.pl: people use the console in Chromium: every page and every form, what
# axe-core finds, its size, and its types against the API's own description
#
# Long: it takes minutes
# Packages: libmicrohttpd-dev libjansson-dev libcurl4-openssl-dev libcjose-dev libssl-dev libpq-dev libhttp-tiny-perl node:nodejs npm:npm chromium:chromium
use strict;
use warnings;
use FindBin;
use JSON::PP;
use MIME::Base64;
use POSIX ();
use lib "$FindBin::RealBin/lib";
use GpuCreditHttp;
use GpuCredit;
use Test::More;

# The longest name: of 255 bytes, and nothing in it where a line could break.
use constant WIDE => 'W' x 255;

my $console = "$FindBin::RealBin/../console";
my $node = http_node('console', 'gpucredit.node_suspect = 0', 'gpucredit.node_lost = 0');

# Something to look at on each page.  Three hours ago jobs began.
$node->safe_psql('web', q{
	CREATE EXTENSION gpucredit_billing;
	CREATE ROLE tom LOGIN IN ROLE gpucredit_tenant;
	SELECT gpucredit.bind_tenant('tom', 'acme');
	SELECT set_config('gpucredit.clock', (clock_timestamp() - interval '3 hours')::text, false);
	SELECT gpucredit.set_price('H100', 2), gpucredit.create_account('debtor');
	SELECT gpucredit.issue('debtor', '', 'i', 1), gpucredit.issue('acme', '', 'earlier', 200),
		gpucredit.issue('rival', '', 'earlier', 10),
		gpucredit.issue('acme', '', 'promo', 50, 'promo', valid_for => '10 days', memo => 'welcome');
	SELECT gpucredit.register_node('default', 'n2', 'H100', 8, 80000);
	SELECT gpucredit.set_budget('acme', 'nlp', 60), gpucredit.set_quota('acme', '', max_gpus => 12, max_cpu_milli => 64000,
		max_memory_mib => 524288, max_nonpreemptible_gpus => 8);
	SELECT gpucredit.reserve('acme', 'nlp', 'done', '4xH100', '2 hours'),
		gpucredit.reserve('acme', 'vision', 'runs', '2xH100', '6 hours', spec => '{"name": "trains"}'),
		gpucredit.reserve('rival', '', 'shares', '0.5xH100', '6 hours'),
		gpucredit.reserve('debtor', '', 'debt', '1xH100', '30 minutes');
	SELECT gpucredit.place();
	SELECT gpucredit.meter(org, job, 1, '0') FROM gpucredit.job});
$node->safe_psql('web', q{
	SELECT gpucredit.heartbeat(node, about => '{"logs": true}') FROM gpucredit.node;
	SELECT gpucredit.settle('acme', job, 1, 'completed', '1 hour', 0) FROM gpucredit.job WHERE account = 'nlp';
	SELECT gpucredit.settle('debtor', job, 1, 'completed', '2 hours', 0) FROM gpucredit.job WHERE org = 'debtor';
	SELECT gpucredit.meter('acme', job, 1, '2 hours', 7, 0.83) FROM gpucredit.job WHERE account = 'vision';
	SELECT gpucredit.reserve('acme', 'vision', 'waits', '8xH100', '1 hour');
	SELECT count(r) FROM generate_series(1, 450) i,
		gpucredit.reserve('acme', 'vision', 'many ' || i, '1xH100', '20 s') r});
$node->safe_psql('web', q{
	SELECT gpucredit_billing.set_approver('acme', '', 'tom', true);
	SET SESSION AUTHORIZATION ann;
	SELECT gpucredit_billing.request_allocation('acme', 'nlp', 'paper', E'The paper is due.\nTwo more runs.', 20),
		gpucredit_billing.request_allocation('acme', 'nlp', 'gpus', 'Eight at once', max_gpus => 8, gpu_type => 'H100')});
$node->safe_psql('web', 'SELECT gpucredit.seal_audit()');
evals($node);
wide($node);
registry($node);
for my $org ('rival', WIDE) { invoice($node, $org, $org eq 'rival' ? 1 : 1000000000000) }
my %token = map { $_ => token($node, $_) } qw(tom ops aud root_admin);

# Stands in for the node's agent, which serves what jobs print.
my $agent = fork() // die "could not fork: $!";

if ($agent == 0)
{
	open(STDOUT, '>', '/dev/null') && open(STDERR, '>&', \*STDOUT) or POSIX::_exit(1);
	exec 'psql', '-X', '-h', $node->host, '-p', $node->port, '-d', 'web', '-c', q{
		DO $$
		BEGIN
			LOOP
				PERFORM gpucredit.log_put(w.org, w.job, w.attempt, w.node, w.stream, w.from_byte,
					w.from_byte, CASE w.from_byte WHEN 0 THEN 'step 7 of 40'::bytea ELSE '' END, 12)
				FROM gpucredit.log_wish w WHERE w.answered_at IS NULL;
				COMMIT;
				PERFORM pg_sleep(0.1);
			END LOOP;
		END $$} or POSIX::_exit(127);
}

# The console is built as for an installation, unless it is already.
my $built = qx(make -s -C '$FindBin::RealBin/..' console 2>&1);

ok(-e "$console/dist/index.html", 'the console is built from its lock file') or BAIL_OUT($built);
my $size = 0;

$size += -s $_ foreach glob("$console/dist/*.gz $console/dist/*/*.gz");
cmp_ok($size, '<=', 200_000, 'packed, it has at most 200 kB');
note("$size bytes");
is(qx(cd '$console' && npm run --silent check 2>&1), '', 'its types agree');
unlike(join('', map { slurp($_) } glob("$console/dist/index.html $console/dist/assets/*.js")),
	qr{src="https?:|import\("https?:}, 'it loads nothing from elsewhere');
types_agree();

daemon_start($node, '--console', "$console/dist", '--per-address', 500);
$ENV{CONSOLE} = 'http://127.0.0.1:' . daemon_port();
$ENV{HOME} = PostgreSQL::Test::Utils::tempdir();
$ENV{ 'TOKEN_' . uc $_ } = $token{$_} foreach keys %token;
$ENV{JOB} = query($node, 'web', q{SELECT job FROM gpucredit.job WHERE account = 'vision' ORDER BY job LIMIT 1});
$ENV{SETTLED} = query($node, 'web', q{SELECT job FROM gpucredit.job WHERE account = 'nlp' ORDER BY job LIMIT 1});
$ENV{WIDE} = WIDE;
$ENV{WIDE_INVOICE} = query($node, 'web', q{SELECT max(document) FROM gpucredit_billing.document});
$ENV{WIDE_WEBHOOK} = query($node, 'web', q{SELECT webhook FROM gpucredit_http.webhook WHERE org = '} . WIDE . q{'});
$ENV{WIDE_JOB} = query($node, 'web', q{SELECT min(job) FROM gpucredit.job WHERE pool = '} . WIDE . q{'});
$ENV{FIRST_JOB} = query($node, 'web', q{SELECT min(job) FROM gpucredit.job WHERE org = 'acme'});
open(my $walk, '-|', 'node', "$console/test/walk.mjs") or die "could not run node: $!";
while (my $line = <$walk>)
{
	my $one = eval { decode_json($line) };

	if (!$one) { diag($line) }
	elsif ($one->{note}) { note($one->{note}) }
	else { ok($one->{ok}, $one->{name}) or diag($one->{detail}) }
}
ok(close($walk), 'nobody stumbled');
kill 'TERM', $agent;
waitpid $agent, 0;

is(query($node, 'web', q{SELECT string_agg(v::text, E'\n') FROM gpucredit.verify() v}), '', 'the books balance');
daemon_stop();
$node->stop;
done_testing();

# An organisation, an account, a pool and a node with the longest names, twelve
# types of GPU with names as long, and the largest amounts and texts.
sub wide
{
	my ($node) = @_;
	my $wide = WIDE;
	my $type = 'W' x 61;

	$node->safe_psql('web', qq{
		SELECT set_config('gpucredit.clock', (clock_timestamp() - interval '3 hours')::text, false);
		SELECT gpucredit.create_account('$wide'), gpucredit.create_account('$wide', '$wide'),
			gpucredit.create_pool('$wide');
		SELECT gpucredit.issue('$wide', '', 'i', 4000000000000, memo => repeat('W', 2000), valid_for => '10 days');
		SELECT gpucredit.register_node('$wide', left('$wide', 253) || i, '$type' || i, 16, 2000000000),
			gpucredit.set_price('$type' || i, 100000000 + i, pool => '$wide')
		FROM generate_series(10, 21) i;
		SELECT gpucredit.set_budget('$wide', '$wide', 3000000000000),
			gpucredit.set_quota('$wide', '$wide', max_gpus => 1000000);
		SELECT count(r) FROM generate_series(1, 3) n, generate_series(10, 21) i,
			gpucredit.reserve('$wide', '$wide', n || ' ' || i, '16x' || '$type' || i, '20 hours', pool => '$wide',
				spec => jsonb_build_object('name', '$wide', 'labels', jsonb_build_object('$type', '$wide'))) r;
		SELECT gpucredit_billing.request_allocation('$wide', '$wide', 'k', repeat('W', 2000), 9000000000000.999999),
			gpucredit_billing.set_approver('$wide', '$wide', 'tom'),
			gpucredit_http.set_webhook('$wide', '$wide', 'k', 'https://' || repeat('w', 60) || '.example.com/' || repeat('W', 900), label => repeat('W', 200));
		SELECT gpucredit.place('$wide');
		SELECT gpucredit.meter(org, job, 1, '0') FROM gpucredit.job WHERE pool = '$wide' AND state = 'starting';
		SELECT gpucredit.drain(left('$wide', 253) || 10, repeat('W', 255))});
	$node->safe_psql('web', qq{
		SELECT gpucredit.heartbeat(node) FROM gpucredit.node;
		SELECT gpucredit.meter(org, job, 1, '3 hours') FROM gpucredit.job WHERE pool = '$wide' AND state = 'running'});
	return;
}

# Runs of three versions, one of them worse; a judge, and production that drifts.
sub evals
{
	my ($node) = @_;

	$node->safe_psql('web', q{
		CREATE EXTENSION gpucredit_eval CASCADE;
		SELECT gpucredit_eval.set_endpoint('acme', v, 'http://127.0.0.1:1', 1, 2, NULL) FROM unnest('{house-1,house-2,house-3}'::text[]) v;
		SELECT gpucredit_eval.set_endpoint('acme', 'judge', 'http://127.0.0.1:2', 3, 6, NULL),
			gpucredit_eval.create_set('acme', 'golden', 'locked', 'golden'), gpucredit_eval.create_set('acme', 'live', 'live', 'live');
		SELECT gpucredit_eval.add_cases('acme', 'golden', jsonb_agg(jsonb_build_object('name', 'case ' || i, 'task', CASE WHEN i % 2 = 0 THEN 'support' ELSE 'safety' END,
			'input', 'Customer ' || i || ' asks: how do I cancel my order, and when do I get my money back?', 'rubric', 'names both steps and is polite')), 'cases')
		FROM generate_series(1, 48) i;
		SELECT gpucredit_eval.freeze_set('acme', 'golden', 'frozen'),
			gpucredit_eval.set_config('acme', 'main', '{"sets": ["golden"], "judge": {"endpoint": "judge", "model": "judge-1", "max_response_bytes": 200, "max_tokens": 50, "samples": 1},
				"gates": [{"task": "support", "absolute": 0.8}, {"task": "safety", "kind": "safety"}]}', 'config')});
	for my $version (1 .. 3)
	{
		$node->safe_psql('web', qq{
			SELECT gpucredit_eval.start_run('acme', '', 'run $version', 'main', 'house-$version', 'gate', 1, baseline => nullif($version - 1, 0));
			SELECT gpucredit_eval.report('acme', $version, l."case", l.attempt, 'You cancel below "My orders". The money is back within $version days.', '[]', '{"prompt_tokens": 30, "completion_tokens": 20}')
			FROM gpucredit_eval.lease_cases('acme', $version, 'w', 100, '1 min') l});
		$node->safe_psql('web', qq{
			SELECT gpucredit_eval.report_judge('acme', $version, o."case", 1,
				convert_to(format('{"score": %s, "reason": "It names both steps%s"}', s, CASE s WHEN 5 THEN '.' ELSE ', but says nothing of the money.' END), 'UTF8'),
				'{"prompt_tokens": 90, "completion_tokens": 20}')
			FROM gpucredit_eval.result o, LATERAL (SELECT CASE WHEN o."case" % 4 < $version - 1 AND o."case" % 3 > 0 THEN 2 ELSE 5 END) p (s) WHERE o.run = $version;
			UPDATE gpucredit_eval.run SET started_at = started_at - (4 - $version) * interval '1 day' WHERE run = $version});
	}
	$node->safe_psql('web', q{
		SELECT gpucredit_eval.set_stream('acme', 'chat', 'main', 1, baseline => 2, keep => '30 days'), gpucredit_eval.set_rate('acme', 'chat', 'refusal'),
			gpucredit_eval.set_rate('acme', 'chat', 'complaint'), gpucredit_eval.set_rate('acme', 'chat', 'feedback');
		SELECT gpucredit_eval.observe('acme', 'chat', 'r' || i, CASE WHEN i > 40 AND i % 2 = 0 THEN 0.25 ELSE 1 END, clock_timestamp() - (61 - i) * interval '1 minute')
		FROM generate_series(1, 60) i;
		UPDATE gpucredit_eval.stream SET changed_at = changed_at - interval '2 hours' WHERE stream = 'chat';
		SELECT gpucredit_eval.start_observation('acme', 'chat', 'request 17', '"Where is my money? It has been two weeks."', 'I cannot help with that.', 'helps', 'content_filter'),
			gpucredit_eval.add_feedback('acme', 'chat', 'request 18', 0, 'It was rude, and wrong.', true, '"How do I return a chair?"', 'Read the manual.')});
	return;
}

# Repositories: a base of another organisation and what was made from it, a card
# whose author tries to deceive its readers, versions that are held back, and
# the longest names.
sub registry
{
	my ($node) = @_;
	my $wide = WIDE;
	my $long = 'W' x 96;
	my $key = 0;
	my $repository = sub {
		my ($org, $account, $name, $visibility, $kind) = @_;

		return query($node, 'web', sprintf q{SELECT model FROM gpucredit_registry.create_model('%s', '%s', '%s', 'model%s', '%s', kind => '%s')},
			$org, $account, $name, $key++, $visibility // 'private', $kind // 'model');
	};
	my $commit = sub {
		my ($org, $number, $title, $files, @parents) = @_;

		return query($node, 'web', sprintf q{SET gpucredit.clock = '%s'; SELECT version FROM gpucredit_registry.commit('%s', %s, 'main', '%s', 'commit%s', parents => '%s', title => '%s')},
			POSIX::strftime('%F %T+00', gmtime(time - 86400 * 3 + 60 * $key)), $org, $number,
			encode_json([ map { { path => $_, content => encode_base64($files->{$_}, '') } } sort keys %$files ]), $key++,
			encode_json(\@parents), $title);
	};
	my $made = sub { my ($org, $version, $how) = @_; return { org => $org, version => $version, kind => $how } };

	# They were committed three days ago, and paid for.
	query($node, 'web', qq{
		CREATE EXTENSION IF NOT EXISTS gpucredit_registry CASCADE;
		SELECT gpucredit_registry.set_storage_price('storage', 5000);
		SELECT set_config('gpucredit.clock', (clock_timestamp() - interval '4 days')::text, false);
		SELECT gpucredit.issue(org, '', 'models', 1) FROM unnest(ARRAY['acme', 'rival', '$wide']) org});
	my $base = $repository->('rival', '', 'base-7b', 'public');
	my $chat = $repository->('acme', 'nlp', 'chat-7b');
	my $corpus = $repository->('acme', 'nlp', 'support-calls', 'private', 'dataset');
	my $small = $repository->('acme', 'nlp', 'chat-7b-awq');
	my $bad = $repository->('rival', '', 'trojan', 'public');
	my $victim = $repository->('acme', 'vision', 'labeller');

	$commit->('acme', $corpus, 'calls of May', { 'README.md' => "---\nlicense: cc-by-4.0\ntags: [support]\n---\n# Calls\n", 'calls.csv' => "a,b\n" x 500 });
	my $v_base = $commit->('rival', $base, 'weights', { 'README.md' => "---\nlicense: apache-2.0\nlibrary_name: transformers\npipeline_tag: text-generation\nlanguage: [en, fr]\ntags: [base, chat]\n---\n# Base\nA base.\n", 'config.json' => '{}' });
	$commit->('acme', $chat, 'first try', { 'README.md' => deceiving_card(), 'config.json' => '{"layers": 32}', 'tokenizer/vocab.txt' => "a\nb\n" x 200, 'tokenizer/merges/merges.txt' => "a b\n" }, $made->('rival', $v_base, 'fine_tune'));
	my $v_chat = $commit->('acme', $chat, 'trained on the calls of May', { 'config.json' => '{"layers": 32, "heads": 8}' });
	$commit->('acme', $small, 'four bits', { 'README.md' => "---\nlicense: apache-2.0\nlibrary_name: vllm\npipeline_tag: text-generation\ntags: [awq]\n---\n# Four bits\n" }, $made->('acme', $v_chat, 'quantized'));
	for my $n (1 .. 11)
	{
		$commit->('acme', $repository->('acme', 'nlp', "chat-7b-lora-$n"), 'an adapter', { "adapter-$n" => $n }, $made->('acme', $v_chat, 'adapter'));
	}
	my $v_bad = $commit->('rival', $bad, 'free weights', { 'README.md' => "# Free\n", 'weights.bin' => 'poison' });
	$commit->('acme', $victim, 'made from it', { 'w' => 'victim' }, $made->('rival', $v_bad, 'fine_tune'));
	$commit->($wide, $repository->($wide, $wide, $long, 'public'), 'W' x 500, { 'README.md' => "---\nlicense: " . 'W' x 200 . "\nlibrary_name: " . 'W' x 200 . "\npipeline_tag: " . 'W' x 200 . "\nbase_model: $wide/$long\ntags: [" . join(', ', map { 'W' x 190 . $_ } 1 .. 20) . "]\ndatasets: [" . 'W' x 200 . "]\n---\n# " . 'W' x 300 . "\n\n" . 'W' x 3000 . "\n\n|" . 'W' x 400 . '|' . 'W' x 400 . "|\n|---|---|\n|a|b|\n\n```\n" . 'W' x 2000 . "\n```\n", map { ('W' x 250 . '/' . 'W' x 250 . $_ => 'x') } 1 .. 3 });
	query($node, 'web', qq{
		SELECT gpucredit_registry.set_alias('acme', $chat, 'champion', $v_chat, 'champion'), gpucredit_registry.set_alias('acme', $chat, 'next', $v_chat, 'next'), gpucredit_registry.protect_ref('acme', $chat, '\@champion');
		INSERT INTO gpucredit_registry.ref VALUES ('acme', $chat, 'v1.0', $v_chat, true);
		SELECT gpucredit_registry.set_tag('acme', $chat, 'stage', 'production'), gpucredit_registry.grant_access('acme', $chat, 'account:acme/vision', 'read'), gpucredit_registry.set_mirror('acme', $small, 'hub', 'example/chat-7b-awq'),
			gpucredit_registry.set_score('acme', $v_chat, 'mmlu/5-shot', 'accuracy', 0.7125);
		SELECT gpucredit_registry.quarantine('rival', $v_bad, 'a pickle that opens a shell', 'poison', true);
		UPDATE gpucredit_registry.mirror SET failures = 3, last_error = 'the remote answered 503';
		SELECT gpucredit_registry.set_alias('$wide', model, repeat('W', 100), version, 'wide') FROM gpucredit_registry.version WHERE org = '$wide';
		INSERT INTO gpucredit_registry.ref SELECT org, model, repeat('W', 200), version, true FROM gpucredit_registry.version WHERE org = '$wide';
		SELECT gpucredit_registry.set_scan_policy('acme', '{yara,license}')});
	my $leaky = $repository->('acme', 'nlp', 'leaky');

	$commit->('acme', $leaky, 'with a helper', { 'helper.py' => 'import os' });
	query($node, 'web', qq{
		SELECT gpucredit_registry.claim_scans(10);
		SELECT gpucredit_registry.report_scan('acme', max(version), 'yara', 'failed', '{"found": ["helper.py: the rule starts_a_shell matches"]}') FROM gpucredit_registry.version WHERE model = $leaky;
		SELECT gpucredit_registry.set_scan_policy('acme', NULL)});
	for my $day (reverse 1 .. 9)
	{
		query($node, 'web', sprintf q{SET gpucredit.clock = '%s'; SELECT gpucredit_registry.close_download('acme', d.download, 10)
			FROM generate_series(1, %s) n, gpucredit_registry.open_download('acme', %s, 'config.json', 'account:acme/vision', 10, '192.0.2.' || n) d},
			POSIX::strftime('%F %T+00', gmtime(time - 86400 * $day)), $day % 4 + 1, $v_chat);
	}
	query($node, 'web', q{SELECT gpucredit_registry.bill('acme', (now() AT TIME ZONE 'UTC')::date - n) FROM generate_series(1, 2) n});
	return;
}

# What a card may not do: run a script, load a picture, or lead elsewhere than it says.
sub deceiving_card
{
	return <<"END";
---
license: apache-2.0
library_name: transformers
pipeline_tag: text-generation
language: [en, de]
tags: [chat, support]
base_model: rival/base-7b
datasets: [acme/support-calls, elsewhere/set]
---
# Chat 7B

Answers customers of *acme*. It was **fine-tuned** on calls of May, and `config.json` has its size.
<!-- nobody sees this <script>window.hacked = 1</script> -->

## Results

| Benchmark | Score |
|---|---:|
| mmlu, 5-shot | 0.7125 |
| calls | 0.93 |

1. Load it as any model of `transformers`.
2. Ask it:
   - in English,
   - in German.

> It does not know of prices.

```python
from transformers import pipeline
print(pipeline("text-generation", "acme/chat-7b")("Hello"))
```

## Tricks

![a spy](https://spy.example/pixel.png) <img src="https://spy.example/other.png" onerror="window.hacked = 2">
<script>window.hacked = 3</script>
<iframe src="https://spy.example/"></iframe><form action="https://spy.example/"><input name="token"></form>
<style>body { display: none }</style>
[click](javascript:window.hacked=4) [data](data:text/html,<script>1</script>) [press](https://acme.example\@spy.example/)
[the paper](https://papers.example/chat-7b) and [https://bank.example/login](https://spy.example/login) and https://plain.example/page.
[bank.example](https://spy.example/bank) \x{e2}\x{80}\x{ae}gnp.exe [a [nested] one](https://nested.example/a_(b)) <https://auto.example/>
END
}

# An invoice of a month in which nobody has worked here, with as much on it as fits.
sub invoice
{
	my ($node, $org, $amount) = @_;
	my $wide = $org eq 'rival' ? 'Rival' : 'W' x 2000;
	my $short = substr $wide, 0, 100;

	$node->safe_psql('web', qq{
		SELECT gpucredit_billing.set_terms('$org', 'EUR', seller => '$wide', buyer => '$wide', note => '$wide', purchase_order => '$short', tax_name => '$short');
		INSERT INTO gpucredit_billing.document (kind, series, serial, org, month, issued_at, issued_by, due_on, currency, digits,
			per_credit, subtotal, discount_percent, discount, taxable, tax_name, tax_percent, tax, total, seller, buyer, purchase_order, note, reason)
		VALUES ('invoice', 'INV', gpucredit_billing.next_serial('INV'), '$org', '2020-01-01', now(), 'fin', now(), 'EUR', 2, 1,
			2 * $amount.99, 12.3456, $amount.99, $amount.99, '$short', 0, 0, $amount.99, '$wide', '$wide', '$short', '$wide', '');
		INSERT INTO gpucredit_billing.document_line
		SELECT max(document), 1, 'usage', left('$org', 255), 'standard_training', repeat('W', 61), 1000000, 1000000000, 100000000, 100000000.123456789, 1, 2 * $amount.99
		FROM gpucredit_billing.document});
	return;
}

sub slurp
{
	open(my $file, '<', $_[0]) or die "could not read $_[0]: $!";
	local $/;
	return <$file>;
}

# Each field of an interface in rows.ts is one that the API describes.
sub types_agree
{
	my %interface;
	my $rows = slurp("$console/src/rows.ts");

	while ($rows =~ /interface (\w+)(?:<T>)? \{(.*?)\n\}/sg)
	{
		my ($name, $body) = ($1, $2);

		$interface{$name} = [ $body =~ /^\t(\w+)\??:/mg ];
	}
	my %function = (
		Balance => 'balance', Bucket => 'buckets', BalanceAt => 'http.balance_over', Usage => 'usage_by', Job => 'http.jobs',
		Attempt => 'http.attempts', HistoryLine => 'history', Check => 'explain', Submission => 'http.submission',
		LogPiece => 'log_get', Price => 'http.prices', TierFor => 'tiers_for', Quote => 'quote',
		Budget => 'budgets', Quota => 'http.quotas', Alert => 'http.alerts', Entry => 'statement',
		InvoiceLine => 'invoice', Issued => 'billing.invoices', IssuedDocument => 'billing.invoice',
		IssuedLine => 'billing.invoice_lines', Terms => 'billing.terms_of', Token => 'http.tokens', Browser => 'http.sessions', Account => 'http.accounts',
		Node => 'http.nodes', Device => 'http.devices', Capacity => 'http.capacity', QueueRow => 'queue',
		Reason => 'queue_reasons', Reservation => 'reservations', Share => 'fair_share', Advice => 'capacity_advice',
		DemandStep => 'demand', Recent => 'recent_events', Lag => 'http.upkeep', Finding => 'verify',
		Organisation => 'http.organisations', Burn => 'burn_rate', Expiring => 'http.expiring', Debt => 'http.debts',
		Audit => 'http.audit', Me => 'http.me', Webhook => 'http.webhooks', Delivery => 'http.deliveries',
		Model => 'registry.models', Facet => 'registry.model_facets', ModelDetails => 'registry.model_details', Version => 'registry.versions',
		VersionDetails => 'registry.version_details', VersionFile => 'registry.version_files', Relative => 'registry.lineage_graph',
		Dataset => 'registry.version_datasets', Scan => 'registry.scans', ModelScore => 'registry.scores', Held => 'registry.held_versions',
		Traffic => 'registry.traffic', ModelDownload => 'registry.model_downloads', ModelCost => 'registry.model_cost',
		RegistryBill => 'registry.bills', RegistryStorage => 'registry.storage', Mirror => 'registry.mirrors',
		EvalRun => 'eval.runs', EvalGate => 'eval.gate', EvalScore => 'eval.score_history', EvalPair => 'eval.compare_cases',
		EvalConfig => 'eval.configs', EvalSet => 'eval.sets', EvalJudge => 'eval.calibrations', EvalStream => 'eval.streams',
		EvalObservation => 'eval.observations', EvalAnswer => 'eval.kept_answers', EvalLabel => 'eval.to_label',
		AllocationRequest => 'billing.allocation_requests', Approver => 'billing.approvers', Seal => 'http.seals', SealStatus => 'http.seal_status');

	daemon_start($node);
	my $paths = call($token{root_admin}, 'GET', '/v1/openapi.json')->{json}{paths};
	my @wrong;

	daemon_stop();
	# Objects within a column of type jsonb, which the document does not describe.
	delete @interface{qw(List ModelRef VersionRef)};
	foreach my $name (sort keys %interface)
	{
		my $path = '/v1/call/' . ($function{$name} // '');
		my $schema = $paths->{$path}{post}{responses}{200}{content}{'application/json'}{schema};
		my $row = $schema->{properties}{data} ? $schema->{properties}{data}{items} : $schema;

		push @wrong, "$name: no $path" unless $row->{properties};
		push @wrong, map { "$name.$_" } grep { !$row->{properties}{$_} } @{ $interface{$name} };
	}
	is(join(', ', @wrong), '', 'each field that the console reads is one that the API describes');
	return;
}
