\set job :client_id * :each + random(1, :each)
\set org :job % :orgs
\set elapsed :elapsed + :step
SELECT * FROM gpucredit.meter(:org, :job, 1, :elapsed)
