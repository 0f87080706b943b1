\set job :client_id * :each + random(1, :each)
\set org :job % :orgs
\set elapsed :elapsed + :step
UPDATE bench.plain SET elapsed = :elapsed WHERE org = :org AND job = :job AND attempt = 1
