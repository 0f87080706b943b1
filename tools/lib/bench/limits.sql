-- limits.sql: a budget and a quota at every account, before any job.
SET synchronous_commit = off;
SELECT count(gpucredit.set_budget(a.org, a.account, 100000000, 'month'))
FROM gpucredit.account a;
SELECT count(gpucredit.set_quota(a.org, a.account, max_gpus => 100000))
FROM gpucredit.account a;
