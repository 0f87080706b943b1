\set n :n + 1
\set org random(0, :orgs - 1)
\set account random(0, :projects - 1)
SELECT * FROM gpucredit.reserve(:org, :account, :n, '1xH100', '4 hours', 'production_inference')
