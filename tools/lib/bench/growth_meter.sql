\set n :n + 1
SELECT org, job FROM bench.live WHERE n = :n \gset
SELECT * FROM gpucredit.meter(:org, :job, 1, '5 minutes')
