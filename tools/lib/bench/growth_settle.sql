\set n :n + 1
SELECT org, job FROM bench.live WHERE n = :n \gset
SELECT * FROM gpucredit.settle(:org, :job, 1, 'completed', '10 minutes')
