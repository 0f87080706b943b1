# rules.pl: what nobody gets round: digests, quotas, blocked bytes, scores, bills
use strict;
use warnings;
use Digest::SHA 'sha256_hex';
use FindBin;
use MIME::Base64;
use lib "$FindBin::RealBin/lib";
use GpuCreditRegistry;
use GpuCredit;
use Test::More;

my $node = registry_node('rules');
daemon_start($node);

my $owner = registry_token($node, 'acme');
my $nlp   = registry_token($node, 'acme', 'nlp');
my $guest = registry_token($node, 'acme', 'vision');
my $rival = registry_token($node, 'rival');

sub q_ { return query($node, 'reg', $_[0]) }
sub fails { return query_fails($node, 'reg', @_) }

# Asks for the upload or download of one object; the object of the answer.
sub batch
{
	my ($token, $repo, $operation, $body) = @_;
	my $answer = json_request('POST', "/$repo.git/info/lfs/objects/batch", $token,
		{ operation => $operation,
			objects => [ { oid => sha256_hex($body), size => length $body } ] });

	return $answer->{json}{objects}[0];
}

# Sends a file's bytes where the repository takes them.
sub send_bytes
{
	my ($token, $repo, $body) = @_;
	my $object = batch($token, $repo, 'upload', $body);

	return request('PUT', $object->{actions}{upload}{href}, content => $body)->{status};
}

sub commit
{
	my ($token, $repo, @lines) = @_;

	return json_request('POST', "/api/models/$repo/commit/main", $token,
		join "\n", map { JSON::PP::encode_json($_) } { key => 'header', value => {} }, @lines);
}

sub by_digest
{
	my ($path, $body) = @_;

	return { key => 'lfsFile', value => { path => $path, algo => 'sha256', oid => sha256_hex($body) } };
}

sub inline
{
	my ($path, $body) = @_;

	return { key => 'file', value => { path => $path, content => encode_base64($body, ''), encoding => 'base64' } };
}

my %model;
foreach ([ 'secret', 'nlp' ], [ 'shared', 'nlp' ], [ 'own', 'vision' ])
{
	my ($name, $account) = @$_;

	$model{$name} = q_("SELECT model FROM gpucredit_registry.create_model('acme', '$account', '$name', 'm$name')");
}
$model{rival} = q_(q{SELECT model FROM gpucredit_registry.create_model('rival', '', 'r', 'k')});
q_("SELECT gpucredit_registry.grant_access('acme', $model{shared}, 'account:acme/vision', 'write')");

# A digest grants nothing, inside an organisation either.
my $weights = join '', map { chr(33 + ($_ * 7919) % 90) } 1 .. 70_000;
is(send_bytes($nlp, 'acme/secret', $weights), 200, 'a file is sent');
is(commit($nlp, 'acme/secret', by_digest('w', $weights))->{status}, 200, 'and committed by who sent it');
foreach ([ 'acme/shared', 'a repository that a guest may write' ], [ 'acme/own', 'his own repository' ])
{
	my ($repo, $where) = @$_;

	is(commit($guest, $repo, by_digest('w', $weights))->{status}, 422,
		"$where does not take another repository's file by its digest");
	ok(batch($guest, $repo, 'upload', $weights)->{actions}{upload}, "and $where asks for all of its bytes");
	is(batch($guest, $repo, 'upload', 'unknown' x 10000)->{actions}{upload} ? 1 : 0, 1,
		'as it does for what nobody has');
	is_deeply(batch($guest, $repo, 'download', $weights)->{error},
		batch($guest, $repo, 'download', 'unknown' x 10000)->{error},
		"$where does not say that another repository has it");
}
is(batch($guest, 'acme/shared', 'upload', $weights)->{actions}{upload} ? 1 : 0, 1, 'an upload is open');
is(q_(q{SELECT count(DISTINCT caller) FROM gpucredit_registry.upload}), '1', 'which is his alone');
is(send_bytes($guest, 'acme/shared', $weights), 200, 'who has the bytes sends them');
is(commit($guest, 'acme/shared', by_digest('w', $weights))->{status}, 200, 'and commits them');
ok(!batch($guest, 'acme/own', 'upload', $weights)->{actions}, 'what he may read he need not send again');
is(commit($owner, 'acme/own', by_digest('w', $weights))->{status}, 200,
	'nor need the organisation, which may read all');

# What was sent yesterday and never committed must be sent again.
my $late = 'late' x 20000;
is(send_bytes($nlp, 'acme/secret', $late), 200, 'another file is sent');
q_(q{UPDATE gpucredit_registry.sender SET sent_at = sent_at - interval '25 hours'});
is(commit($nlp, 'acme/secret', by_digest('late', $late))->{status}, 422, 'after a day it is too late');

# A signed URL ends with the right to read.
my $href = batch($guest, 'acme/shared', 'download', $weights)->{actions}{download}{href};
is(request('GET', $href)->{status}, 200, 'a signed URL gives the bytes');
q_("SELECT gpucredit_registry.revoke_access('acme', $model{shared}, 'account:acme/vision')");
q_("SELECT gpucredit_registry.grant_access('acme', $model{shared}, 'account:acme/nlp/ann', 'write')");
is(request('GET', $href)->{status}, 401, 'until the right is taken back') or diag explain request('GET', $href);

# Every byte passes quota, credit and suspension.
my $body = join '', map { chr(33 + ($_ * 104729) % 90) } 1 .. 200_000;
q_(q{SELECT gpucredit_registry.set_storage_quota('acme', 400000)});
my $before = q_(q{SELECT count(*) FROM gpucredit_registry.chunk});
is(commit($owner, 'acme/own', inline('big', $body))->{status}, 403, 'a file within a commit passes the quota');
is(q_(q{SELECT count(*) FROM gpucredit_registry.chunk}), $before, 'and a denied commit stores no byte');
my $call = sprintf(q{SELECT status, reason, replayed FROM gpucredit_registry.commit('acme', %s, 'main',
	'[{"path": "big", "content": "%s"}]', 'q1')}, $model{own}, encode_base64($body, ''));
is(q_($call), 'denied|storage_quota|f', 'as by SQL');
is(q_($call), 'denied|storage_quota|t', 'under the same key again the answer is the same');
is(json_request('POST', '/api/repos/create', $owner, { name => 'withfiles', files =>
			[ { path => 'big', content => encode_base64($body, '') } ] })->{status}, 403,
	'nor does a new repository come with files beyond it');
is(q_(q{SELECT count(*) FROM gpucredit_registry.model WHERE name = 'withfiles'}), '0', 'and it is not made');
is(commit($owner, 'acme/own', inline('small', 'x' x 100))->{status}, 200, 'what fits is taken');
q_(q{SELECT gpucredit_registry.set_storage_quota('acme', NULL)});

# A full quota tells nobody what others have.
q_(q{SELECT gpucredit_registry.set_storage_quota('rival', 1000)});
is_deeply([ @{ commit($rival, 'rival/r', by_digest('w', $weights)) }{qw(status)} ],
	[ @{ commit($rival, 'rival/r', by_digest('w', 'nobody has this' x 5000)) }{qw(status)} ],
	'at a full quota a digest that another organisation has is answered like an unknown one');
is(q_(q{SELECT count(*) FROM gpucredit_registry.event WHERE org = 'rival' AND detail ? 'denied'}), '0',
	'and is not denied for its size');
q_("SELECT gpucredit_registry.grant_access('acme', $model{secret}, 'org:rival', 'read')");
q_(q{SELECT gpucredit_registry.set_storage_quota('rival', 1000)});
is(commit($rival, 'rival/r', by_digest('w', $weights))->{status}, 403,
	'bytes that another organisation has stored count like new ones');
is(q_(q{SELECT count(*) FROM gpucredit_registry.alerts('rival') WHERE kind = 'denied' AND detail ->> 'reason' = 'storage_quota'}), '1',
	'of which the owner gets an alert, though nothing else of the request is kept');
q_(q{SELECT gpucredit_registry.set_storage_quota('rival', NULL)});
q_("SELECT gpucredit.suspend_account('rival', '', true)");
is(commit($rival, 'rival/r', inline('a', 'a'))->{status}, 403, 'a suspended organisation commits no byte');
q_("SELECT gpucredit.suspend_account('rival', '', false)");
q_(q{SELECT gpucredit.revoke(org, bucket, 'r', 'refunded') FROM gpucredit.bucket WHERE org = 'rival'});
is(commit($rival, 'rival/r', inline('a', 'a'))->{status}, 402, 'nor one without credit');
q_(q{SELECT gpucredit.issue('rival', '', 'i2', 1000)});
is(commit($rival, 'rival/r', inline('a', 'a'), by_digest('w', $weights))->{status}, 200, 'with credit it does');
q_(q{SELECT gpucredit.revoke('rival', max(bucket), 'r2', 'refunded') FROM gpucredit.bucket WHERE org = 'rival'});
is(commit($rival, 'rival/r', { key => 'deletedFile', value => { path => 'a' } })->{status}, 200,
	'who has none may still delete');
q_(q{SELECT gpucredit.issue('rival', '', 'i3', 1000)});

# Blocked bytes are blocked in whatever version they are.
my $bad = q_(q{SELECT max(v.version) FROM gpucredit_registry.version v JOIN gpucredit_registry.model m USING (org, model)
	WHERE m.name = 'secret'});
my $read = sub { return request('GET', "/$_[1]/resolve/main/$_[2]", token => $_[0])->{status} };
is($read->($rival, 'rival/r', 'w'), 200, 'a copy is read');
is(q_("SELECT quarantined, blocked FROM gpucredit_registry.quarantine('acme', $bad, 'backdoor', 'b1')"),
	'1|1', 'its source is put into quarantine');
is($read->($nlp, 'acme/secret', 'w'), 403, 'so nobody reads it there');
is($read->($rival, 'rival/r', 'w'), 403, 'nor its copy in another organisation');
is($read->($owner, 'acme/own', 'w'), 403, 'nor in another repository');
is($read->($owner, 'acme/own', 'small'), 200, 'whose other files are read');
is(commit($owner, 'acme/own', by_digest('again', $weights))->{status}, 422, 'and no new commit takes it');
is(batch($rival, 'rival/r', 'download', $weights)->{error}{message}, 'quarantined', 'git-lfs is told why');
is(q_("SELECT released FROM gpucredit_registry.release_quarantine('acme', $bad, 'clean', 'b2')"), '1', 'released');
is($read->($rival, 'rival/r', 'w'), 200, 'it is read everywhere again');

# Nobody blocks another's file by a copy of it.
my $copy = q_(q{SELECT max(v.version) FROM gpucredit_registry.version v WHERE v.org = 'rival'});
is(q_("SELECT blocked FROM gpucredit_registry.quarantine('rival', $copy, 'malware', 'b3')"), '0',
	'a file that an older version has is not blocked with its copy');
is($read->($nlp, 'acme/secret', 'w'), 200, 'whose owner goes on reading it');
is(q_("SELECT blocked FROM gpucredit_registry.quarantine('rival', $copy, 'malware', 'b4', files => '{w}')"), '1',
	'unless the operator names it');
is($read->($nlp, 'acme/secret', 'w'), 403, 'then it is blocked');
fails("SELECT gpucredit_registry.quarantine('rival', $copy, 'x', 'b5', files => '{none}')", 'UC501', 'no such file');
is(q_("SELECT gpucredit_registry.unblock_objects('{" . sha256_hex($weights) . "}', 'a mistake')"), '1', 'and unblocked');
is($read->($nlp, 'acme/secret', 'w'), 200, 'it is read again');

# A list of bytes that are known to be bad.
is(q_("SELECT gpucredit_registry.block_objects('{" . sha256_hex($weights) . ',' . ('0' x 64) . "}', 'on a list')"), '2',
	'a list of digests is blocked');
is($read->($nlp, 'acme/secret', 'w'), 403, 'a file on it is not read');
q_("SELECT gpucredit_registry.unblock_objects('{" . sha256_hex($weights) . "}', 'off the list')");
fails("SELECT gpucredit_registry.block_objects('{xyz}', 'r')", '22023', 'no digest');

# A list with a source: what is on it is neither read nor committed, and what is there goes into quarantine.
my $bytes = sha256_hex($weights);
my $tuned = q_(qq{SELECT version FROM gpucredit_registry.commit('acme', (SELECT model FROM
	gpucredit_registry.create_model('acme', 'nlp', 'tuned', 'mt')), 'main', '[]', 'ct',
	parents => '[{"org": "acme", "version": $bad}]')});
my $listing = sub { return sprintf(q{SELECT %s FROM gpucredit_registry.import_fingerprints('feed', E'%s'%s)},
		$_[1] // '*', $_[0] =~ s/\n/\\n/gr =~ s/\r/\\r/gr, $_[2] // '') };
my $list = "# digests\r\n\r\n" . uc($bytes) . "  a backdoor\r\n" . ('1' x 64) . ", seen elsewhere\n$bytes a backdoor, again\n";
my $kept = q_(q{SELECT count(*) FROM gpucredit_registry.version WHERE quarantined_at IS NOT NULL});
my $dry = q_($listing->($list, '*', ', dry_run => true'));
is(q_(q{SELECT count(*) FROM gpucredit_registry.version WHERE quarantined_at IS NOT NULL}), $kept, 'a dry run changes nothing');
is($read->($nlp, 'acme/secret', 'w'), 200, 'and the file is still read');
my $alerts = q_('SELECT coalesce(max(alert), 0) FROM gpucredit_registry.alert');
is(q_($listing->($list)), $dry, 'a list does what its dry run said');
like($dry, qr/^2\|[4-9]$/, 'two digests, and each version that has one');
is(q_($listing->($list)), '0|0', 'the same again changes nothing');
is($read->(@$_, 'w'), 403, "$_->[1] is not read") foreach [ $nlp, 'acme/secret' ], [ $owner, 'acme/own' ], [ $rival, 'rival/r' ];
is(q_("SELECT quarantined_at IS NOT NULL FROM gpucredit_registry.version WHERE version = $tuned"), 't',
	'what was made from it goes into quarantine, too');
is(q_("SELECT string_agg(DISTINCT org || ' ' || account, ', ') FROM gpucredit_registry.alert WHERE alert > $alerts AND kind = 'quarantine'"),
	'acme nlp, acme vision, rival ', 'each owner gets an alert');
my $feed = q{(SELECT kind, org, detail FROM gpucredit.event_pending UNION ALL SELECT kind, org, detail FROM gpucredit.event) e};
is(q_("SELECT count(DISTINCT detail ->> 'name') FROM $feed WHERE kind = 'model.quarantined' AND detail ->> 'reason' LIKE '%list \"feed\"'"),
	q_(q{SELECT count(DISTINCT model) FROM gpucredit_registry.version WHERE quarantine_reason LIKE '%list "feed"'}),
	'and an event for each repository');
is(q_('SELECT string_agg(concat_ws(\' \', left(sha256, 2), of_source, reason), \'; \') FROM gpucredit_registry.fingerprints(\'feed\')'),
	'11 feed seen elsewhere; ' . substr($bytes, 0, 2) . ' feed a backdoor, again', 'the list is read, with the last reason of each');
my $evil = 'evil' x 1000;
q_($listing->(sha256_hex($evil), 'listed', ", reason => 'malware'"));
is(send_bytes($owner, 'acme/own', $evil), 200, 'bytes on a list are sent');
my $answer = commit($owner, 'acme/own', by_digest('evil', $evil));
is($answer->{status}, 403, 'but not committed');
like($answer->{json}{error}, qr/The list "feed" says: malware/, 'with the reason');
is(commit($owner, 'acme/own', inline('evil', $evil))->{status}, 403, 'nor as a small file');
is(commit($owner, 'acme/own', inline('b', 'b'))->{status}, 200, 'its owner commits another file');
is($read->($owner, 'acme/own', 'b'), 403, 'but a version that keeps such a file is in quarantine');
is(commit($owner, 'acme/own', { key => 'deletedFile', value => { path => 'w' } })->{status}, 200, 'its owner deletes the file');
is($read->($owner, 'acme/own', 'b'), 200, 'and the next version is read');
fails("SELECT gpucredit_registry.import_fingerprints('feed', '$_')", '22023', "no list: $_")
  foreach 'xyz bad', ('0' x 63) . ' bad', '0' x 64, ('0' x 65) . ' bad', sha256_hex('') . ' the empty file', ('0' x 64) . ' ' . 'x' x 1001;
fails("SELECT gpucredit_registry.import_fingerprints('', '')", '22023', 'no source');
fails("SELECT gpucredit_registry.fingerprints(after => 'x')", '22023', 'no digest to begin after');
fails("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT gpucredit_registry.import_fingerprints('feed', '')", '25001',
	'a list is not imported by a snapshot that may be old');
is(q_(q{SELECT count(*) FROM gpucredit_registry.fingerprints()}), '3', 'and nothing of them is kept');

# A commit that is on its way while a list comes, and one whose snapshot is older.
my $tardy = 'late' x 1000;
my $commit_late = sub { return sprintf(q{SELECT status FROM gpucredit_registry.commit('acme', %s, 'main',
	'[{"path": "late", "content": "%s"}]', '%s')}, $model{own}, encode_base64($tardy, ''), $_[0]) };
my $one = connect_to($node, 'reg');
$one->begin_work;
$one->do($commit_late->('l1'));
my @pids = in_parallel(1, sub { connect_to($node, 'reg')->do($listing->(sha256_hex($tardy) . ' late')) });
$node->poll_query_until('reg', q{SELECT count(*) = 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%import_fingerprints%'});
$one->commit;
is(wait_for_children(@pids), 0, 'a list waits for a commit that did not see it');
is(q_(q{SELECT count(*) FROM gpucredit_registry.version v JOIN gpucredit_registry.file f USING (org, version)
	WHERE f.path = 'late' AND v.quarantined_at IS NOT NULL}), '1', 'and its version is in quarantine');
$tardy = 'later' x 1000;
$one->do('BEGIN ISOLATION LEVEL REPEATABLE READ');
$one->do('SELECT count(*) FROM gpucredit_registry.model');
q_($listing->(sha256_hex($tardy) . ' later'));
ok(!eval { $one->do($commit_late->('l2')); 1 } && $one->state eq '40001', 'a commit with an older snapshot is to be repeated');
$one->do('ROLLBACK');
fails($commit_late->('l3'), 'UC504', 'and then refused');
q_($listing->("$bytes another list knows it", '*') =~ s/'feed'/'other'/r);
is(q_(qq{SELECT string_agg(of_source, ' ') FROM gpucredit_registry.fingerprints(after => coalesce(
		(SELECT max(sha256) FROM gpucredit_registry.fingerprints() WHERE sha256 < '$bytes'), ''), n => 1)}),
	'feed other', 'a page does not end between two lists that name one digest');
is(q_(qq{SELECT gpucredit_registry.delete_fingerprints('feed', '{$bytes}')}), '1', 'it is taken off the list');
q_(qq{SELECT gpucredit_registry.release_quarantine('acme', $bad, 'clean', 'b6')});
is($read->($nlp, 'acme/secret', 'w'), 403, 'while another list names it, it is not read');
is(q_(q{SELECT gpucredit_registry.delete_fingerprints('other')}), '1', 'nor does that one');
is($read->($nlp, 'acme/secret', 'w'), 200, 'then it is read again');
is($read->($rival, 'rival/r', 'w'), 403, 'but in quarantine until the version is released');
q_(q{SELECT gpucredit_registry.release_quarantine(org, version, 'clean', 'b7' || version) FROM gpucredit_registry.version
	WHERE quarantined_at IS NOT NULL});
q_(q{SELECT gpucredit_registry.delete_fingerprints('feed')});

foreach my $fn ("block_objects('{}', 'r')", "unblock_objects('{}', 'r')", "import_fingerprints('s', '')", "delete_fingerprints('s')", 'fingerprints()', "record_score('acme', 1, 'b', 'm', 1)")
{
	q_("CREATE ROLE t IN ROLE gpucredit_tenant; SELECT gpucredit.bind_tenant('t', 'acme')") if $fn =~ /^block/;
	fails("SET ROLE t; SELECT gpucredit_registry.$fn", '42501', "a tenant may not call $fn");
}

# What was measured stays measured.
q_("SELECT gpucredit_registry.set_score('acme', $bad, 'safety', 'rate', 0.9)");
q_("SELECT gpucredit_registry.record_score('acme', $bad, 'safety', 'rate', 0.4)");
is(q_("SELECT score, measured FROM gpucredit_registry.scores('acme', $bad)"), '0.4|t', 'a measured score replaces a stated one');
fails("SELECT gpucredit_registry.set_score('acme', $bad, 'safety', 'rate', 0.99)", 'UC506', 'and is not replaced by a statement');
fails("SELECT gpucredit_registry.set_score('acme', $bad, 'safety', 'rate', NULL)", 'UC506', 'nor removed');
is(json_request('POST', '/api/models/acme/secret/scores/main', $nlp,
		{ benchmark => 'safety', metric => 'rate', score => 1 })->{status}, 412, 'by HTTP either');
is(json_request('GET', '/api/models/acme/secret/scores/main', $nlp)->{json}[0]{measured}, JSON::PP::true,
	'and a reader sees that it was measured');

# The account of a repository pays.
q_(q{SELECT gpucredit_registry.set_storage_price('storage', 100000)});
my $day = q_(q{SELECT (now() AT TIME ZONE 'UTC')::date});
my $gone = q_(q{SELECT model FROM gpucredit_registry.create_model('acme', 'nlp/ann', 'gone', 'gone1')});
q_(sprintf(q{SELECT gpucredit_registry.commit('acme', %s, 'main', '[{"path": "x", "content": "%s"}]', 'gone3')}, $gone,
	encode_base64('gone' x 50_000, '')));
q_(qq{SET gpucredit.clock = '@{[ q_(qq{SELECT date '$day' + 1}) ]} 01:00+00'; SELECT gpucredit_registry.delete_model('acme', $gone, 'gone2')});
my $at = "SET gpucredit.clock = '@{[ q_(qq{SELECT date '$day' + 2}) ]}'; ";
is(q_($at . "SELECT status FROM gpucredit_registry.bill('acme', '$day')"), 'paid', 'a day is billed');
is(q_(q{SELECT string_agg(account, ' ' ORDER BY account) FROM gpucredit_registry.bill WHERE org = 'acme' AND amount > 0}),
	'nlp nlp/ann vision', 'to the accounts whose repositories kept the bytes, also if they were deleted since');
is(q_(qq{SELECT sum(b.byte_hours + b.cold_byte_hours)::numeric(20, 2) = (u.byte_seconds / 3600)::numeric(20, 2)
	FROM gpucredit_registry.bill b JOIN gpucredit_registry.usage u USING (org, day)
	WHERE org = 'acme' AND day = '$day' GROUP BY u.byte_seconds}), 't', 'together what was stored, once');
is(q_($at . "SELECT amount = (SELECT sum(amount) FROM gpucredit_registry.bill WHERE org = 'acme' AND day = '$day')
	FROM gpucredit_registry.bill('acme', '$day')"), 't', 'billing again changes nothing');

# Paths that a file system takes.
foreach my $path ('.GIT/config', 'a/.Git', 'git~1', 'a/GIT~1/x', '.git./x', 'a:b', "e\x{301}")
{
	(my $shown = $path) =~ s/[^ -~]/?/g;
	utf8::encode(my $bytes = $path);
	is(request('POST', '/api/models/acme/own/commit/main', token => $owner,
			content => qq({"key": "header", "value": {}}\n{"key": "file", "value": {"path": "$bytes", "content": ""}}))->{status},
		400, "\"$shown\" is no path");
}
is(commit($owner, 'acme/own', inline('SMALL', 'x'))->{status}, 400, 'nor one that differs from another by case alone');
is(commit($owner, 'acme/own', inline("\x{e9}", 'x'), inline("\x{c9}", 'x'))->{status}, 400, 'in whatever alphabet');
is(commit($owner, 'acme/own', inline('d/e/f', 'x'))->{status}, 200, 'a file in folders');
is(commit($owner, 'acme/own', inline('d/e', 'x'))->{status}, 400, 'a folder is no file');
is(commit($owner, 'acme/own', inline('d/e/f/g', 'x'))->{status}, 400, 'nor a file a folder');
is(commit($owner, 'acme/own', { key => 'deletedFolder', value => { path => 'd' } }, inline('d', 'x'))->{status}, 200,
	'unless the other goes');

# A token ends when somebody of its account says so.
my ($number) = split /\n/, q_(q{SELECT token FROM gpucredit_registry.tokens('acme', 'vision')});
is(q_(q{SELECT string_agg(of_account || ' ' || scope, ', ' ORDER BY token) FROM gpucredit_registry.tokens('acme')}),
	' write, nlp write, vision write', 'tokens are listed, without secrets');
is(q_("SELECT gpucredit_registry.revoke_token('rival', $number)"), 'f', 'another organisation ends none');
q_("CREATE ROLE ann LOGIN IN ROLE gpucredit_tenant; SELECT gpucredit.bind_tenant('ann', 'acme', 'nlp')");
is(q_("SET ROLE ann; SELECT gpucredit_registry.revoke_token('acme', $number)"), 'f', 'nor another account');
is(json_request('GET', '/api/whoami-v2', $guest)->{status}, 200, 'until then it is good');
is(q_("SELECT gpucredit_registry.revoke_token('acme', $number)"), 't', 'its own does');
is(json_request('GET', '/api/whoami-v2', $guest)->{status}, 401, 'at once');
is(q_("SELECT gpucredit_registry.revoke_token('acme', $number)"), 'f', 'once');

registry_verify($node);
done_testing();
