-- budgets_setup.sql: organisations "0" to "99" have no budgets and quotas,
-- "100" to "199" one of each at all three levels of every user's path.
SET client_min_messages = warning;
SET synchronous_commit = off;
SELECT gpucredit.set_price('H100', 2.5);
SELECT gpucredit.register_node('default', 'node', 'H100', 64, 81920);
SELECT count(gpucredit.create_account(a.org, a.account || '/u'))
FROM gpucredit.account a WHERE a.account <> '';
SELECT count(gpucredit.set_budget(a.org, a.account, 100000000)),
	count(gpucredit.set_quota(a.org, a.account, max_gpus => 1000,
		max_running => 100000, max_queued => 1000000))
FROM gpucredit.account a WHERE a.org::int >= 100;
-- a budget's counter is made by the first call in a period; that is once a
-- month here, and not what is measured
SELECT count(*) FROM gpucredit.account a, LATERAL gpucredit.reserve(a.org,
	a.account, 'first ' || a.account, '1xH100', '4 hours', 'production_inference') r
WHERE a.account LIKE '%/u' AND r.status = 'granted';
VACUUM ANALYZE;
