\set n :n + 1
\set key :run * 1000000000 + :client_id * 10000000 + :n
\set org :base + random(0, 99)
\set account random(0, 49)
SELECT * FROM gpucredit.reserve(:org, :account || '/u', :key, '1xH100', '4 hours', 'production_inference')
