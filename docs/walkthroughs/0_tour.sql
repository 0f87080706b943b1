-- The longer tour: what a caller, the scheduler and an agent do.
SET client_min_messages = warning;
SET search_path = gpucredit, public;
SET gpucredit.clock = '2030-01-01 09:00+00';

-- An organisation, a project and a user; a price per GPU-hour; two nodes.
SELECT create_account('acme'), create_account('acme', 'vision'), create_account('acme', 'vision/alice') \g /dev/null
SELECT set_price('H100', 4.50), set_price('A100', 2.00) \g /dev/null
SELECT register_node('default', 'n1', 'H100', 8, 81559), register_node('default', 'n2', 'A100', 8, 40960) \g /dev/null

-- acme buys 1,000 credits; its vision project gets 20 that expire in a week.
SELECT * FROM issue('acme', '', 'invoice-4711', 1000);

SELECT * FROM issue('acme', 'vision', 'welcome', 20, kind => 'promo', valid_for => '7 days');

-- Four GPUs, H100 or else A100 with 40 GB, for at most two hours: 4 x 4.50 x 2 is held.
SELECT * FROM reserve('acme', 'vision/alice', 'train-1', '4xH100|A100@40GB', wall_limit => '2 hours');

-- The answer was lost, so the client repeats the call under its key: the same job, nothing held twice.
SELECT * FROM reserve('acme', 'vision/alice', 'train-1', '4xH100|A100@40GB', wall_limit => '120 minutes');

-- A quarter of a GPU; and a job that this pool could never run.
SELECT * FROM reserve('acme', 'vision/alice', 'infer-1', '0.25xA100|H100', wall_limit => '2 hours');

SELECT * FROM reserve('acme', 'vision/alice', 'dream-1', '900xA100', wall_limit => '2 hours');

-- One scheduling cycle: which GPUs of which node.
SELECT action, job, attempt, node, gpus, share, gpu_type, per_gpu_hour FROM place();

-- 45 minutes later the agent of n1 reports.
SET gpucredit.clock = '2030-01-01 09:45+00';
SELECT action, billed, held, time_left FROM meter('acme', 1, 1, '45 minutes');

SELECT available, held, used, spent, promo, paid FROM balance('acme', 'vision/alice');

-- After 50 minutes the job completes: 15 of 36 are spent, 21 return. A second settlement changes nothing.
SET gpucredit.clock = '2030-01-01 09:50+00';
SELECT outcome, billed, released, job_state, replayed FROM settle('acme', 1, 1, 'completed', '50 minutes');

SELECT outcome, billed, released, job_state, replayed FROM settle('acme', 1, 1, 'failed');

-- The promotion burnt first, and unused credit returned to the buckets it came from.
SELECT entry, bucket, kind, operation, source, target, amount, job, available FROM statement('acme', 'vision/alice');

-- Recompute everything from the entries; then try to change one, as superuser.
SELECT * FROM verify();

UPDATE entry SET amount = 1;
