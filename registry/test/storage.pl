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
is(at('2027-06-15 00:00+00', q{SELECT count(*) FROM gpucredit_registry.alerts('acme')}), '3',
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
registry_verify($node);
done_testing();
