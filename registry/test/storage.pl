# storage.pl: what keeping bytes costs, quotas, what is collected, a dump
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/lib";
use GpuCreditRegistry;
use GpuCredit;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = registry_node('storage');

# At an instant of the database's clock.
sub at
{
	my ($instant, $sql) = @_;

	return query($node, 'reg', "SET gpucredit.clock = '$instant'; $sql");
}

sub fails_at
{
	my ($instant, $sql, $sqlstate, $name) = @_;

	return query_fails($node, 'reg', "SET gpucredit.clock = '$instant'; $sql", $sqlstate, $name);
}

sub commit
{
	my ($org, $model, $key, @bodies) = @_;

	return sprintf(q{SELECT version FROM gpucredit_registry.commit('%s', %s, 'main', (
		SELECT jsonb_agg(jsonb_build_object('path', p, 'content',
			translate(encode(repeat(b, n::int)::bytea, 'base64'), E'\n', '')))
		FROM (VALUES %s) v (p, b, n)), '%s')}, $org, $model,
		join(', ', map { sprintf(q{('%s', '%s', %s)}, @$_) } @bodies), $key);
}

# 900,000 bytes for 18 hours of one day and all of the next; half goes at noon.
at('2027-03-01 06:00+00', q{SELECT gpucredit_registry.create_model('acme', '', 'm', 'k')});
at('2027-03-01 06:00+00', commit('acme', 1, 'c1', [ 'a', 'x', 450000 ], [ 'b', 'y', 450000 ]));
is(at('2027-03-01 07:00+00', q{SELECT * FROM gpucredit_registry.storage('acme')}),
	'900000|900000|0', 'bytes stored');
fails_at('2027-03-01 23:59+00', q{SELECT gpucredit_registry.bill('acme', '2027-03-01')}, '22023',
	'a day is billed when it is over');
at('2027-03-01 23:00+00', q{SELECT gpucredit_registry.set_storage_price('storage', 1000)});

# a tenant that uses the key of the day's bill does not keep it from being paid
query($node, 'reg', q{CREATE ROLE squatter IN ROLE gpucredit_tenant; SELECT gpucredit.bind_tenant('squatter', 'acme')});
is(at('2027-03-02 00:00+00', q{SET ROLE squatter; SELECT status FROM gpucredit.hold('acme', '',
	'registry/storage/2027-03-01', 0.01, '1 hour')}), 'granted', 'a tenant takes the key of a bill');

# 900,000 bytes x 18 h / 720 h / 10^9 x 1,000 credits
is(at('2027-03-03 00:00+00', q{SELECT * FROM gpucredit_registry.bill('acme', '2027-03-01')}),
	'0.022500|paid|', 'a day costs its byte-hours');
is(at('2027-03-03 00:00+00', q{SELECT * FROM gpucredit_registry.bill('acme', '2027-03-01')}),
	'0.022500|paid|', 'once');
is(at('2027-03-03 00:00+00', q{SELECT * FROM gpucredit_registry.bill('acme', '2027-03-02')}),
	'0.030000|paid|', 'and the next day, too');
is(at('2027-03-03 00:00+00', q{SELECT spent FROM gpucredit.balance('acme')}), '0.052500',
	'both are spent in the ledger');
is(at('2027-03-03 00:00+00', q{SELECT * FROM gpucredit_registry.bill('rival', '2027-03-02')}),
	'0.000000|paid|', 'who stores nothing pays nothing');

# Cold after 90 days without a reader: cheaper; a chunk is as warm as its warmest use.
at('2027-03-03 00:00+00', q{SELECT gpucredit_registry.set_storage_price('cold', 100)});
is(at('2027-05-20 00:00+00', q{SELECT d.status FROM gpucredit_registry.version v,
	gpucredit_registry.open_download('acme', v.version, 'a', 'account:acme/', 450000) d}),
	'granted', 'a file is read');
is(at('2027-06-12 00:00+00', q{SELECT amount FROM gpucredit_registry.bill('acme', '2027-06-11')}),
	'0.016500', 'half is cold: 0.015 and 0.0015');

# Egress: what was sent, not what was opened.
at('2027-06-12 01:00+00', q{SELECT gpucredit_registry.set_storage_price('egress', 1000)});
my $open = q{SELECT %s FROM gpucredit_registry.version v,
	gpucredit_registry.open_download('acme', v.version, 'a', 'account:acme/', 450000) d};
my $download = at('2027-06-12 01:00+00', sprintf($open, 'd.download'));
is(at('2027-06-12 01:00+00', "SELECT gpucredit_registry.close_download('acme', $download, 1000)"), 't',
	'a download is over');
is(at('2027-06-12 01:00+00', "SELECT gpucredit_registry.close_download('acme', $download, 1000)"), 'f',
	'once');
at('2027-06-13 00:00+00', q{SELECT gpucredit_registry.bill('acme', '2027-06-12')});
is(query($node, 'reg', q{SELECT egress_bytes FROM gpucredit_registry.bill WHERE day = '2027-06-12'}),
	'1000', 'what was sent is billed');

# Quotas count what is being sent.
at('2027-06-14 00:00+00', q{SELECT gpucredit_registry.set_storage_quota('acme', 1000000, 500000)});
is(at('2027-06-14 00:00+00', sprintf($open, 'd.status')), 'granted', 'below the egress quota');
is(at('2027-06-14 00:00+00', sprintf($open, "d.status || ' ' || d.reason")), 'denied egress_quota',
	'a second download would pass it');
is(at('2027-06-14 00:00+00', q{SELECT status, reason FROM
	gpucredit_registry.start_upload('acme', 1, sha256('p'), 100001)}), 'denied|storage_quota',
	'an upload would pass the storage quota');
is(at('2027-06-14 00:00+00', q{SELECT status, received FROM
	gpucredit_registry.start_upload('acme', 1, sha256('p'), 60000)}), 'open|0', 'a smaller one does not');
is(at('2027-06-14 00:00+00', q{SELECT status, reason FROM
	gpucredit_registry.start_upload('acme', 1, sha256('q'), 60000)}), 'denied|storage_quota',
	'two of them would');

# At 80 % of a quota the owner gets one alert.
my $alerts = q{SELECT string_agg(kind || ' ' || (detail ->> 'used'), ', ' ORDER BY alert)
	FROM gpucredit_registry.alerts('acme')};
is(at('2027-06-14 00:00+00', $alerts), 'storage_quota 900000, egress_quota 451000',
	'the owner gets alerts for quotas that are nearly used');
at('2027-06-14 01:00+00', q{SELECT gpucredit_registry.use_chunks('acme', '{}'),
	gpucredit_registry.change_usage('acme', 0)});
at('2027-06-15 00:00+00', q{SELECT gpucredit_registry.change_usage('acme', 0)});
is(at('2027-06-15 00:00+00', $alerts), 'storage_quota 900000, egress_quota 451000',
	'once, not with each call nor each day');
my $set_quota = q{SELECT gpucredit_registry.set_storage_quota('acme', %s, 500000)};
at('2027-06-15 00:00+00', sprintf($set_quota, 2000000));
at('2027-06-15 00:00+00', q{SELECT gpucredit_registry.change_usage('acme', 700001)});
is(at('2027-06-15 00:00+00', $alerts),
	'storage_quota 900000, egress_quota 451000, storage_quota 1600001',
	'and again for a new quota');
at('2027-06-15 00:00+00', sprintf($set_quota, 1000000));
at('2027-06-15 00:00+00', sprintf($set_quota, 900000));
at('2027-06-15 00:00+00', q{SELECT gpucredit_registry.change_usage('acme', -700001)});
is(at('2027-06-15 00:00+00', q{SELECT count(*) FROM gpucredit_registry.alerts('acme') WHERE kind LIKE '%_quota'}), '3',
	'but not twice on a day');
is(at('2027-06-15 00:00+00', q{SELECT count(*) FROM gpucredit_registry.alerts('rival')}), '0',
	'another organisation has none');
is(at('2027-06-15 00:00+00', q{SELECT count(*) FROM gpucredit_registry.alerts('acme', 'nlp')}), '0',
	'nor has an account that owns no quota');
is(at('2027-06-15 00:00+00', q{SELECT count(*) FROM gpucredit_registry.alerts('acme', after => 1, n => 2)}),
	'2', 'they come by pages');
query_fails($node, 'reg', q{SELECT gpucredit_registry.alerts('acme', n => 0)}, '22023', 'no page');
query_fails($node, 'reg', q{SELECT gpucredit_registry.alerts('none')}, 'UC001', 'nobody');
fails_at('2027-06-14 00:00+00', q{SELECT gpucredit_registry.start_upload('acme', 1, sha256('q'), -1)},
	'22023', 'less than nothing');

# No credit: no upload, no reading after 7 days; nothing is deleted.
at('2027-06-14 00:00+00', q{SELECT gpucredit.revoke('acme', bucket, 'r', 'x') FROM gpucredit.buckets('acme')});
is(at('2027-06-15 00:00+00', q{SELECT status, reason FROM gpucredit_registry.bill('acme', '2027-06-14')}),
	'denied|insufficient_credits', 'a bill that cannot be paid');
is(at('2027-06-15 00:00+00', q{SELECT status, reason FROM
	gpucredit_registry.start_upload('acme', 1, sha256('r'), 1)}), 'denied|insufficient_credits',
	'then nothing is uploaded');
at('2027-06-15 00:00+00', q{SELECT gpucredit_registry.set_storage_quota('acme', NULL, NULL)});
is(at('2027-06-20 00:00+00', sprintf($open, 'd.status')), 'granted', 'reading goes on for a week');
is(at('2027-06-23 00:00+00', sprintf($open, 'd.reason')), 'insufficient_credits', 'not longer');
at('2027-06-23 01:00+00', q{SELECT gpucredit.issue('acme', '', 'more', 10)});
is(at('2027-06-23 01:00+00', q{SELECT status FROM gpucredit_registry.bill('acme', '2027-06-14')}), 'paid',
	'once it is paid');
is(at('2027-06-23 01:00+00', sprintf($open, 'd.status')), 'granted', 'it is read again');

# Uncommitted and unused objects are deleted; those of another organisation
# stay.
query($node, 'reg', q{SELECT gpucredit_registry.create_model('rival', '', 'm', 'k')});
query($node, 'reg', commit('rival', 2, 'c1', [ 'a', 'x', 450000 ]));
at('2028-01-01 00:00+00', store_body('acme', 'orphan'));
my $collect = q{SELECT string_agg(affected::text, ' ' ORDER BY task) FROM gpucredit_registry.collect()};
is(at('2028-01-01 12:00+00', q{SELECT affected FROM gpucredit_registry.collect() WHERE task = 'objects'}),
	'0', 'what was sent may be committed for a day');
is(at('2028-01-03 00:00+00', q{SELECT affected FROM gpucredit_registry.collect() WHERE task = 'objects'}),
	'1', 'then it goes');
at('2028-01-03 00:00+00', $collect);
is(query($node, 'reg', q{SELECT count(*) FROM gpucredit_registry.chunk WHERE body = 'orphan'}), '0',
	'with its bytes');
query_fails($node, 'reg', q{BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT gpucredit_registry.collect()},
	'25001', 'collect looks again after it locks');

# A pack that is condemned stays as long as it has chunks.
my $pack = query($node, 'reg', q{INSERT INTO gpucredit_registry.pack (state, created_at, condemned_at)
	VALUES ('condemned', '2027-01-01', '2027-01-02') RETURNING pack});
query($node, 'reg', qq{INSERT INTO gpucredit_registry.chunk (sha256, size, pack, first_byte)
	VALUES (sha256('late'), 4, $pack, 0)});
my $condemned = q{SELECT gpucredit_registry.condemned_packs('0')};
is(at('2028-01-03 00:00+00', $condemned), '', 'a condemned pack that has chunks stays');
at('2028-01-03 00:00+00', $collect);
is(at('2028-01-03 00:00+00', $condemned), $pack, 'until they are collected');
query($node, 'reg', "SELECT gpucredit_registry.pack_gone($pack)");

# A dump has all of it.
my $dump = PostgreSQL::Test::Utils::tempdir() . '/reg.dump';
$node->command_ok([ 'pg_dump', '-Fc', '-f', $dump, $node->connstr('reg') ], 'a dump');
$node->safe_psql('postgres', 'CREATE DATABASE copy');
$node->command_ok([ 'pg_restore', '-e', '-d', $node->connstr('copy'), $dump ], 'restores');
is($node->safe_psql('copy', 'SELECT * FROM gpucredit_registry.verify()'), '', 'and verifies');
my $rows = q{SELECT (SELECT count(*) FROM gpucredit_registry.file),
	(SELECT sum(size) FROM gpucredit_registry.chunk), (SELECT count(*) FROM gpucredit_registry.event),
	(SELECT sum(amount) FROM gpucredit_registry.bill)};
is($node->safe_psql('copy', $rows), $node->safe_psql('reg', $rows), 'with the same rows');
is($node->safe_psql('copy', q{SELECT model > 2 FROM gpucredit_registry.create_model('acme', '', 'new', 'n')}),
	't', 'and goes on from there');

# A download is a file by a client within an hour; one that is not complete goes
# on as long as no hour passes without a request.
my $read = q{SELECT gpucredit_registry.close_download('rival', d.download, %s)
	FROM (SELECT max(version) AS version FROM gpucredit_registry.version WHERE org = 'rival') v,
		gpucredit_registry.open_download('rival', v.version, 'a', %s, 450000, %s) d};
my $count = q{SELECT sum(e.downloads) FROM gpucredit_registry.egress e};
my $read_model = at('2029-06-13 00:00+00', q{SELECT model FROM gpucredit_registry.create_model('rival', '', 'read', 'read', 'public')});
at('2029-06-13 00:00+00', commit('rival', $read_model, 'readable', [ 'a', 'r', 450000 ]));
my $before = query($node, 'reg', $count);
sub reads_at { my ($instant, $sent, $caller, $address) = @_; return at($instant, sprintf($read, $sent, $caller, $address)); }
foreach (
	[ '01:00', 450000, 'NULL', "'10.0.0.1'",      1, 'a file by an address' ],
	[ '01:59', 450000, 'NULL', "'10.0.0.1'",      1, 'again within an hour' ],
	[ '02:00', 450000, 'NULL', "'10.0.0.1'",      2, 'again after an hour' ],
	[ '02:00', 450000, 'NULL', "'10.0.0.2'",      3, 'by another address' ],
	[ '02:00', 450000, 'NULL', "'2001:db8::1'",   4, 'by one of IPv6' ],
	[ '02:00', 450000, 'NULL', "'2001:db8::2:1'", 4, 'by another of the same network' ],
	[ '02:00', 450000, 'NULL', "'::ffff:10.0.0.2'", 4, 'by an address of IPv4 in the form of IPv6' ],
	[ '02:00', 0,      'NULL', "'10.0.0.3'",      4, 'by one that breaks off before the first byte' ],
	[ '02:00', 450000, 'NULL', 'NULL',            5, 'by nobody known' ],
	[ '02:00', 450000, 'NULL', "'unix:'",         5, 'by no address' ],
	[ '02:00', 450000, "'account:rival/'", "'10.0.0.1'", 6, 'by an account' ],
	[ '02:00', 450000, "'account:rival/'", "'10.0.0.9'", 6, 'by the account from elsewhere' ],
	[ '05:00', 100000, 'NULL', "'10.0.0.4'",      7, 'a part of a file' ],
	[ '05:50', 100000, 'NULL', "'10.0.0.4'",      7, 'more of it' ],
	[ '06:40', 200000, 'NULL', "'10.0.0.4'",      7, 'more of it after an hour, and none was idle' ],
	[ '07:30', 100000, 'NULL', "'10.0.0.4'",      7, 'its end' ],
	[ '07:31', 1,      'NULL', "'10.0.0.4'",      8, 'then another download' ],
	[ '09:00', 1,      'NULL', "'10.0.0.4'",      9, 'and another, after an hour without a request' ])
{
	my ($time, $sent, $caller, $address, $counts, $name) = @$_;

	reads_at("2029-06-13 $time+00", $sent, $caller, $address);
	is(query($node, 'reg', $count) - $before, $counts, "$name: $counts");
}
is(at('2029-06-13 10:00+00', q{SELECT path, bytes, requests FROM gpucredit_registry.downloads('rival')
	WHERE client = 'address:10.0.0.4' ORDER BY download LIMIT 1}), 'a|500000|4', 'the log says what was read');
$node->safe_psql('reg', q{CREATE ROLE auditor LOGIN IN ROLE gpucredit_auditor; CREATE ROLE tenant LOGIN IN ROLE gpucredit_tenant});
is(query($node, 'reg', q{SET ROLE auditor; SELECT count(*) > 5 FROM gpucredit_registry.downloads('rival')}), 't',
	'an auditor reads it');
query_fails($node, 'reg', q{SET ROLE tenant; SELECT gpucredit_registry.downloads('rival')}, '42501', 'a tenant does not');
query_fails($node, 'reg', q{SELECT gpucredit_registry.set_download_retention('acme', '1 hour')}, '22023', 'a retention of an hour');
query_fails($node, 'reg', q{SELECT gpucredit_registry.set_download_retention('none', '2 days')}, 'UC001', 'of no organisation');
my $logged = q{SELECT count(*), min(began_at) >= '2029-06-13 05:00+00' FROM gpucredit_registry.downloads('rival', '', 0, 1000)};
at('2029-06-13 10:00+00', q{SELECT gpucredit_registry.set_download_retention('', '1 day'),
	gpucredit_registry.set_download_retention('rival', '2 days')});
is(at('2029-06-15 01:30+00', q{SELECT affected FROM gpucredit_registry.collect() WHERE task = 'downloads'}), '1',
	'what is past its organisation\'s retention leaves the log');
is(at('2029-06-15 05:00+00', q{SELECT affected FROM gpucredit_registry.collect() WHERE task = 'downloads'}), '5',
	'and the rest in its time');
is(query($node, 'reg', $logged), '3|t', 'the others stay');
is(query($node, 'reg', $count) - $before, 9, 'and so does how many there were');

# Retention: what a rule removes, and what it never does.
my $t = '2030-01-01 00:00+00';
my $kept_model = at($t, q{SELECT model FROM gpucredit_registry.create_model('rival', '', 'kept', 'kept')});
at("2030-01-0$_ 00:00+00", commit('rival', $kept_model, "kept$_", [ 'a', "$_", 1000 ], [ 'same', 's', 10 ])) for 1 .. 9;
my @versions = split /\n/, query($node, 'reg', "SELECT version FROM gpucredit_registry.version WHERE model = $kept_model ORDER BY 1");
my $plan = sub { return at($_[0], "SELECT string_agg(coalesce(kept_by, '-'), ' ' ORDER BY version) FROM gpucredit_registry.retention('rival', $kept_model)"); };
fails_at($t, "SELECT * FROM gpucredit_registry.retention('rival', $kept_model)", 'UC501', 'a repository without a rule');
fails_at($t, "SELECT gpucredit_registry.set_retention('rival', $kept_model)", '22023', 'a rule that keeps nothing by itself');
fails_at($t, "SELECT gpucredit_registry.set_retention('rival', $kept_model, 1, prune_tags => '(x+)+')", '22023', 'a pattern that is none');
my $day = '2030-01-10 00:00+00';
at($day, "SELECT gpucredit_registry.set_retention('rival', $kept_model, keep_last => 1, keep_for => '1 day', keep_read => '3 days', prune_tags => 'rc-*')");
is($plan->($day), '- - - - - - - - branch, newest', 'a dry run shows that all but the newest would go');
at($day, "SELECT gpucredit_registry.set_alias('rival', $kept_model, 'champion', $versions[0], 'a1')");
is(at($day, "SELECT gpucredit_registry.set_alias('rival', $kept_model, 'champion', $versions[0], 'a1')"), 't', 'an alias, twice');
fails_at($day, "SELECT gpucredit_registry.set_alias('rival', $kept_model, '\@x', $versions[0], 'a2')", '22023', 'no alias');
fails_at($day, "SELECT gpucredit_registry.set_alias('rival', $read_model, 'champion', $versions[0], 'a3')", 'UC501', 'an alias of another repository\'s version');
fails_at($day, commit('rival', $kept_model, 'a4', [ 'a', 'x', 1 ]) =~ s/'main'/'\@champion'/r, '22023', 'no commit moves an alias');
is(query($node, 'reg', "SELECT version FROM gpucredit_registry.find_revision('rival', 'kept', '\@champion')"), $versions[0], 'an alias is a revision');
at($day, "SELECT gpucredit_registry.set_immutable_tags('rival', $kept_model, '{v*}')");
my $tag = sub { return qq{INSERT INTO gpucredit_registry.ref VALUES ('rival', $kept_model, '$_[0]', $versions[$_[1]], true)} };
at($day, $tag->('v1.0', 1));
at($day, $tag->('rc-1', 2));
at($day, $tag->('beta', 3));
fails_at($day, "SELECT gpucredit_registry.move_ref('rival', $kept_model, 'v1.0', $versions[4], 'm1')", '42501', 'an immutable tag does not move, by a gate either');
fails_at($day, "SELECT gpucredit_registry.delete_model('rival', $kept_model, 'd1')", '42501', 'nor does its repository go');
at($day, "SELECT gpucredit_registry.set_legal_hold('rival', $versions[4], 'case 1')");
at($day, "SELECT gpucredit_registry.quarantine('rival', $versions[5], 'backdoor', 'q5', false, '{}')");
query($node, 'reg', q{SELECT gpucredit.set_price('H100', 1), gpucredit.register_node('default', 'n1', 'H100', 8, 81559), gpucredit.issue('rival', '', 'retention', 1000), gpucredit.issue('acme', '', 'retention', 1000)});
my $job = query($node, 'reg', q{SELECT job FROM gpucredit.reserve('rival', '', 'j1', '1xH100', wall_limit => '1 hour')});
fails_at($day, "SELECT gpucredit_registry.use_version('rival', $versions[6], 'rival', 999)", 'UC501', 'no such job');
at($day, "SELECT gpucredit_registry.use_version('rival', $versions[6], 'rival', $job)");
query($node, 'reg', q{SET ROLE tenant; SELECT 1});
fails_at($day, "SET ROLE tenant; SELECT gpucredit_registry.set_legal_hold('rival', $versions[7], 'x')", '42501', 'a tenant holds nothing');
my $acme_job = query($node, 'reg', q{SELECT job FROM gpucredit.reserve('acme', 'nlp', 'j2', '1xH100', wall_limit => '1 hour')});
fails_at($day, "SELECT gpucredit_registry.use_version('rival', $versions[7], 'acme', $acme_job)", 'UC501', 'a job whose account may not read it keeps nothing');
at($day, "SELECT gpucredit_registry.grant_access('rival', $kept_model, 'account:acme/nlp', 'read')");
at('2030-01-09 12:00+00', "SELECT gpucredit_registry.use_version('rival', $versions[3], 'acme', $acme_job)");
is($plan->($day), 'alias immutable_tag, tag - read, tag legal_hold quarantine job - branch, newest', 'one of another organisation that may counts as a read on that day');
is($plan->('2030-01-13 00:00+00'), 'alias immutable_tag, tag - tag legal_hold quarantine job - branch, newest', 'however long that job lives: it keeps nothing that the owner would remove');
at('2030-01-13 00:00+00', "SELECT gpucredit_registry.use_version('rival', $versions[3], 'acme', $acme_job)");
is($plan->('2030-01-14 00:00+00'), 'alias immutable_tag, tag - read, tag legal_hold quarantine job - branch, newest', 'unless it says so again');
query($node, 'reg', "UPDATE gpucredit_registry.version SET read_on = NULL WHERE version = $versions[3]");
at('2030-01-09 12:00+00', "SELECT gpucredit_registry.open_download('rival', $versions[7], 'a', 'account:rival/', 10)");
is($plan->($day), 'alias immutable_tag, tag - tag legal_hold quarantine job read branch, newest', 'each of them keeps its version');
is(at($day, q{SELECT affected FROM gpucredit_registry.collect() WHERE task = 'versions'}), '0', 'a rule is applied a day after it was set');
is(at($day, "SELECT count(*) FROM gpucredit_registry.retention('rival', $kept_model)"), '9', 'a dry run removes nothing');
is(at('2030-01-11 00:00+00', q{SELECT affected FROM gpucredit_registry.collect() WHERE task = 'versions'}), '1', 'what nothing keeps is removed');
is(query($node, 'reg', "SELECT string_agg(version::text, ' ') FROM gpucredit_registry.version WHERE model = $kept_model AND dropped_at IS NOT NULL"), $versions[2], 'and nothing else');
is(query($node, 'reg', "SELECT count(*) FROM gpucredit_registry.ref WHERE ref = 'rc-1'"), '0', 'a tag that the rule may remove goes with it');
is(query($node, 'reg', "SELECT count(*) FROM gpucredit_registry.file WHERE version IN ($versions[1], $versions[3])"), '4', 'its neighbours have their files');
fails_at($day, "SELECT gpucredit_registry.set_alias('rival', $kept_model, 'late', $versions[2], 'a5')", 'UC501', 'no alias names what is gone');
at('2030-01-12 00:00+00', "SELECT gpucredit_registry.lift_legal_hold('rival', $versions[4], 'settled'), gpucredit_registry.delete_alias('rival', $kept_model, 'champion'),
	gpucredit_registry.release_quarantine('rival', $versions[5], 'clean', 'r5')");
query($node, 'reg', "SELECT gpucredit.cancel('rival', $job, 'c1')");
is($plan->('2030-01-13 00:00+00'), '- immutable_tag, tag tag - - - - branch, newest', 'what keeps them no longer does not');
is(at('2030-01-13 00:00+00', "SELECT gpucredit_registry.apply_retention('rival', $kept_model)"), '5', 'applied at once');
is(at('2030-01-13 00:00+00', "SELECT gpucredit_registry.apply_retention('rival', $kept_model)"), '0', 'once');
at('2030-01-13 00:00+00', "SELECT gpucredit_registry.set_legal_hold('rival', $versions[8], 'case 2'), gpucredit_registry.set_immutable_tags('rival', $kept_model, '{}')");
fails_at('2030-01-13 00:00+00', "SELECT gpucredit_registry.delete_model('rival', $kept_model, 'd2')", '42501', 'a legal hold keeps a repository');
at('2030-01-13 00:00+00', "SELECT gpucredit_registry.lift_legal_hold('rival', $versions[8], 'settled')");
is(at('2030-01-13 00:00+00', "SELECT versions FROM gpucredit_registry.delete_model('rival', $kept_model, 'd3')"), '9', 'then it goes');
is(query($node, 'reg', 'SELECT count(*) FROM gpucredit_registry.retention_rule'), '0', 'with its rule');
my $events = q{(SELECT kind, org, detail FROM gpucredit.event_pending UNION ALL SELECT kind, org, detail FROM gpucredit.event) e};
is(query($node, 'reg', "SELECT string_agg(DISTINCT kind, ' ' ORDER BY kind) FROM $events WHERE org = 'rival' AND detail ->> 'name' = 'kept'"),
	'model.committed model.created model.deleted model.pruned model.quarantined model.ref_deleted model.ref_moved model.released',
	'all of it was published to those who follow events');
is(query($node, 'reg', "SELECT string_agg(DISTINCT detail ->> 'kind', ' ') FROM $events WHERE org = 'acme' AND kind = 'registry.quota_used'"),
	'egress_quota storage_quota', 'and so were quotas that are nearly used');
is(query($node, 'reg', "SELECT string_agg(DISTINCT detail ->> 'reason', ' ') FROM $events WHERE org = 'acme' AND kind = 'registry.denied'"),
	'egress_quota insufficient_credits storage_quota', 'and what was denied');
is(query($node, 'reg', "SELECT string_agg(detail ->> 'day', ' ') FROM $events WHERE org = 'acme' AND kind = 'registry.unpaid'"),
	'2027-06-14', 'and a day that could not be charged, once');
is(query($node, 'reg', q{SELECT string_agg(DISTINCT kind, ' ') FROM gpucredit_registry.alerts('acme', n => 1000)}),
	'denied egress_quota storage_quota unpaid', 'of all of which there are alerts');
registry_verify($node);
done_testing();
