-- a job is submitted, then another, which runs, is settled
\set n :n + 1
\set key (:client_id + 1) * 1000000000 + :n
\set org random(0, :orgs - 1)
\set account random(0, :projects - 1)
SELECT * FROM gpucredit.reserve(:org, :account, :key, '1xH100', '4 hours', 'production_inference')
\set job :client_id * :each + :n
\set org :job % :orgs
SELECT * FROM gpucredit.settle(:org, :job, 1, 'completed', '2 hours')
