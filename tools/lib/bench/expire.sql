-- expire.sql: :buckets buckets of :orgs organisations, which expired an hour
-- ago with something in them.
SET client_min_messages = warning;
SET synchronous_commit = off;
INSERT INTO gpucredit.bucket (org, account, kind, priority, effective_at,
	expires_at, policy, created_at, issued, available)
SELECT (n % :orgs)::text, (n / :orgs % :projects)::text, 'promo', 100,
	now() - interval '10 days', now() - interval '1 hour'
		- n * interval '1 millisecond', '{}', now() - interval '10 days',
	'5', '5'
FROM generate_series(1, :buckets) n;
INSERT INTO gpucredit.entry (org, at, account, bucket, source, target, amount,
	operation)
SELECT b.org, b.created_at, b.account, b.bucket, 'issued', 'available',
	b.issued, 'issue'
FROM gpucredit.bucket b WHERE b.kind = 'promo' AND b.swept_at IS NULL;
VACUUM ANALYZE;
CHECKPOINT;
