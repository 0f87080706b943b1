-- credit set aside by one of many clients of one organisation
\set n :n + 1
\set key :run * 1000000000 + :client_id * 10000000 + :n
SELECT * FROM gpucredit.hold('hot', '', :key, 0.01, '10 days')
