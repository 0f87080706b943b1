-- Every argument of every public function, given what has no meaning there:
-- an error code of the interface, with detail and hint, and nothing written.
--
-- "good" has one call of each function that works; "bad" puts one bad value
-- into it at a time.  Only what is not as expected is printed.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS gpucredit CASCADE;
SET timezone = 'UTC';
SET datestyle = 'ISO';
SET intervalstyle = 'postgres';
SET search_path = public;
SET gpucredit.clock = '2027-01-01 00:00+00';

-- A running job, a waiting one, one that is over, a hold; another tenant
-- that has nothing but a job.
SELECT gpucredit.create_account('bi');
SELECT gpucredit.create_account('bi', 'a');
SELECT gpucredit.create_account('bi-other');
SELECT gpucredit.create_pool('bi');
SELECT gpucredit.create_pool('bi-empty');
SELECT gpucredit.set_price('BI-A', 1, 'bi');
SELECT gpucredit.register_node('bi', 'bi-1', 'BI-A', 4, 40960);
SELECT gpucredit.register_node('bi-empty', 'bi-2', 'BI-A', 0, 0);
SELECT replayed FROM gpucredit.issue('bi', '', 'issue', 1000);
SELECT replayed FROM gpucredit.issue('bi-other', '', 'issue', 1000);
CREATE TEMP TABLE given AS
	SELECT 'over' AS name, job AS id
	FROM gpucredit.reserve('bi', 'a', 'over', '1xBI-A', '1 h', pool => 'bi');
SELECT action FROM gpucredit.place('bi');
SELECT s.job_state FROM given, gpucredit.settle('bi', id, 1, 'completed') s;
INSERT INTO given SELECT 'running', job
	FROM gpucredit.reserve('bi', 'a', 'run', '1xBI-A', '1 h', pool => 'bi');
SELECT action FROM gpucredit.place('bi');
INSERT INTO given SELECT 'waiting', job
	FROM gpucredit.reserve('bi', 'a', 'wait', '1xBI-A', '1 h', pool => 'bi');
INSERT INTO given SELECT 'foreign', job
	FROM gpucredit.reserve('bi-other', '', 'job', '1xBI-A', '1 h',
		pool => 'bi');
INSERT INTO given SELECT 'hold', hold
	FROM gpucredit.hold('bi', 'a', 'hold', 10, '1 h');

-- Calls that work.  {name} stands for an id of the above.
CREATE TEMP TABLE good (n serial, fn text, arg text, value text);
INSERT INTO good (fn, arg, value) VALUES
	('create_account', 'org', $$'bi'$$),
	('create_account', 'account', $$'a/b'$$),
	('create_account', 'weight', $$1$$),
	('suspend_account', 'org', $$'bi'$$),
	('suspend_account', 'account', $$'a'$$),
	('suspend_account', 'suspended', $$true$$),
	('set_price', 'gpu_type', $$'BI-A'$$),
	('set_price', 'per_gpu_hour', $$2$$),
	('set_price', 'pool', $$'bi'$$),
	('set_price', 'effective_at', $$'2027-02-01 00:00+00'$$),
	('set_price', 'spot', $$false$$),
	('create_pool', 'pool', $$'bi-new'$$),
	('create_pool', 'policy', $$'{}'$$),
	('set_tier', 'tier', $$'bi-tier'$$),
	('set_tier', 'rank', $$5$$),
	('set_tier', 'preemptible', $$'capacity'$$),
	('set_tier', 'can_preempt', $$false$$),
	('set_tier', 'grace', $$'2 min'$$),
	('set_tier', 'min_run', $$'10 min'$$),
	('set_tier', 'max_wall', $$'24 h'$$),
	('set_tier', 'max_wait', $$'24 h'$$),
	('set_tier', 'bill_lost_work', $$true$$),
	('issue', 'org', $$'bi'$$),
	('issue', 'account', $$'a'$$),
	('issue', 'key', $$'k'$$),
	('issue', 'amount', $$1.5$$),
	('issue', 'kind', $$'paid'$$),
	('issue', 'expires_at', $$'2028-01-01 00:00+00'$$),
	('issue', 'effective_at', $$'2027-01-02 00:00+00'$$),
	('issue', 'priority', $$100$$),
	('issue', 'policy', $${"max_share": 0.5}$$),
	('issue', 'memo', $$'memo'$$),
	('issue', 'valid_for', $$NULL$$),
	('balance', 'org', $$'bi'$$),
	('balance', 'account', $$'a'$$),
	('balance', 'as_of', $$NULL$$),
	('buckets', 'org', $$'bi'$$),
	('buckets', 'account', $$'a'$$),
	('statement', 'org', $$'bi'$$),
	('statement', 'account', $$'a'$$),
	('statement', 'since', $$NULL$$),
	('statement', 'until', $$NULL$$),
	('hold', 'org', $$'bi'$$),
	('hold', 'account', $$'a'$$),
	('hold', 'key', $$'k'$$),
	('hold', 'amount', $$1$$),
	('hold', 'ttl', $$'1 h'$$),
	('capture', 'org', $$'bi'$$),
	('capture', 'hold', $${hold}$$),
	('capture', 'key', $$'k'$$),
	('capture', 'amount', $$1$$),
	('capture', 'final', $$true$$),
	('release', 'org', $$'bi'$$),
	('release', 'hold', $${hold}$$),
	('release', 'key', $$'k'$$),
	('reserve', 'org', $$'bi'$$),
	('reserve', 'account', $$'a'$$),
	('reserve', 'key', $$'k'$$),
	('reserve', 'request', $$'1xBI-A'$$),
	('reserve', 'wall_limit', $$'1 h'$$),
	('reserve', 'tier', $$'standard_training'$$),
	('reserve', 'pool', $$'bi'$$),
	('reserve', 'topology', $$'any'$$),
	('reserve', 'preemptible', $$NULL$$),
	('reserve', 'max_retries', $$3$$),
	('reserve', 'cpu_milli', $$0$$),
	('reserve', 'memory_mib', $$0$$),
	('reserve', 'hold_window', $$NULL$$),
	('reserve', 'spec', $$'{}'$$),
	('reserve', 'options', $$'{}'$$),
	('place', 'pool', $$'bi'$$),
	('place', 'max_starts', $$NULL$$),
	('plan', 'pool', $$'bi'$$),
	('meter', 'org', $$'bi'$$),
	('meter', 'job', $${running}$$),
	('meter', 'attempt', $$1$$),
	('meter', 'elapsed', $$'1 s'$$),
	('meter', 'progress', $$1$$),
	('meter', 'utilization', $$0.5$$),
	('meter_batch', 'org', $$'{bi}'$$),
	('meter_batch', 'job', $$ARRAY[{running}]$$),
	('meter_batch', 'attempt', $$'{1}'$$),
	('meter_batch', 'elapsed', $$'{1 s}'$$),
	('meter_batch', 'progress', $$'{1}'$$),
	('meter_batch', 'utilization', $$'{0.5}'$$),
	('settle', 'org', $$'bi'$$),
	('settle', 'job', $${running}$$),
	('settle', 'attempt', $$1$$),
	('settle', 'outcome', $$'completed'$$),
	('settle', 'elapsed', $$'1 s'$$),
	('settle', 'exit_code', $$0$$),
	('settle', 'message', $$'message'$$),
	('settle', 'log_uri', $$'uri'$$),
	('cancel', 'org', $$'bi'$$),
	('cancel', 'job', $${waiting}$$),
	('cancel', 'key', $$'k'$$),
	('cancel', 'reason', $$'reason'$$),
	('history', 'org', $$'bi'$$),
	('history', 'job', $${running}$$),
	('register_node', 'pool', $$'bi'$$),
	('register_node', 'node', $$'bi-3'$$),
	('register_node', 'gpu_type', $$'BI-A'$$),
	('register_node', 'gpus', $$4$$),
	('register_node', 'gpu_memory_mib', $$40960$$),
	('register_node', 'cpu_milli', $$0$$),
	('register_node', 'memory_mib', $$0$$),
	('register_node', 'nvlink_domain', $$NULL$$),
	('register_node', 'leaf', $$NULL$$),
	('register_node', 'spot', $$false$$),
	('register_node', 'labels', $$'{}'$$),
	('heartbeat', 'node', $$'bi-1'$$),
	('heartbeat', 'healthy', $$'{0-3}'$$),
	('heartbeat', 'running', $$ARRAY['bi/{running}/1']$$),
	('drain', 'node', $$'bi-1'$$),
	('drain', 'reason', $$'reason'$$),
	('drain', 'deadline', $$NULL$$),
	('resume', 'node', $$'bi-1'$$),
	('remove_node', 'node', $$'bi-2'$$),
	('verify', 'org', $$'bi'$$),
	('rebuild', 'org', $$'bi'$$);
UPDATE good SET value = quote_literal(value) WHERE value LIKE '{"%';

-- What is bad in each kind of argument.
CREATE TEMP TABLE kind (kind text, value text, expected text);
INSERT INTO kind VALUES
	('org', 'NULL', '22023'),
	('org', $$''$$, '22023'),
	('org', $$repeat('x', 256)$$, '22023'),
	('org', $$repeat('x', 10000000)$$, '22023'),
	('known org', $$'no such'$$, 'UC001'),
	('known org', $$'BI'$$, 'UC001'),
	('known org', $$'bi '$$, 'UC001'),
	('known org', $$repeat('x', 255)$$, 'UC001'),
	('account', 'NULL', '22023'),
	('account', $$'/'$$, '22023'),
	('account', $$'/a'$$, '22023'),
	('account', $$'a/'$$, '22023'),
	('account', $$'a//b'$$, '22023'),
	('account', $$'a/b/c/d/e/f/g/h/i'$$, '22023'),
	('account', $$repeat('x', 256)$$, '22023'),
	('account', $$repeat('x/', 5000000)$$, '22023'),
	('account', $$'no such/a'$$, 'UC001'),
	('account', $$repeat('x', 127) || '/' || repeat('x', 127)$$, 'UC001'),
	('known account', $$'no such'$$, 'UC001'),
	('known account', $$'A'$$, 'UC001'),
	('known account', $$'%'$$, 'UC001'),
	('known account', $$repeat('x', 255)$$, 'UC001'),
	('name', 'NULL', '22023'),			-- and keys
	('name', $$''$$, '22023'),
	('name', $$repeat('x', 256)$$, '22023'),
	('name', $$repeat('x', 10000000)$$, '22023'),
	('optional name', $$''$$, '22023'),
	('optional name', $$repeat('x', 256)$$, '22023'),
	('optional name', $$repeat('x', 10000000)$$, '22023'),
	('word', 'NULL', '22023'),
	('word', $$''$$, '22023'),
	('word', $$'no such'$$, '22023'),
	('word', $$'ANY'$$, '22023'),
	('word', $$repeat('x', 255)$$, '22023'),
	('word', $$repeat('x', 10000000)$$, '22023'),
	('text', $$repeat('x', 8193)$$, '22023'),
	('text', $$repeat('x', 10000000)$$, '22023'),
	('pool', $$'no such'$$, 'UC401'),
	('pool', $$'BI'$$, 'UC401'),
	('pool', $$repeat('x', 255)$$, 'UC401'),
	('node', $$'no such'$$, 'UC401'),
	('node', $$'BI-1'$$, 'UC401'),
	('node', $$repeat('x', 255)$$, 'UC401'),
	('gpu type', $$'a b'$$, '22023'),
	('gpu type', $$'a|b'$$, '22023'),
	('gpu type', $$'a@b'$$, '22023'),
	('gpu type', $$'*'$$, '22023'),
	('gpu type', $$repeat('x', 64)$$, '22023'),
	('amount', 'NULL', '22023'),
	('amount', '-1', '22023'),
	('amount', '-0.000001', '22023'),
	('amount', $$'NaN'$$, '22003'),
	('amount', $$'Infinity'$$, '22003'),
	('amount', $$'-Infinity'$$, '22003'),
	('amount', '0.0000001', '22003'),
	('amount', '1.0000005', '22003'),
	('amount', '9223372036854.775808', '22003'),
	('amount', '-9223372036854.775809', '22003'),
	('amount', '1e30', '22003'),
	('amount', '1e100000', '22003'),
	('amount', '1e-16000', '22003'),
	('positive amount', '0', '22023'),
	('positive amount', '0.000000', '22023'),
	('interval', $$'-1 us'$$, '22023'),
	('interval', $$'-1 day'$$, '22023'),
	('interval', $$'1 mon'$$, '22023'),
	('interval', $$'1 year'$$, '22023'),
	('interval', $$'1 century'$$, '22023'),
	('interval', $$'1 mon -30 days'$$, '22023'),
	('interval', $$'178000000 years'$$, '22023'),
	('interval', $$'2147483647 days'$$, '22023'),
	('interval', $$'-2147483648 days'$$, '22023'),
	('positive interval', $$'0'$$, '22023'),
	('positive interval', $$'1 day -24 h'$$, '22023'),
	('present', 'NULL', '22023'),
	('instant', $$'infinity'$$, '22023'),
	('instant', $$'-infinity'$$, '22023'),
	('object', 'NULL', '22023'),
	('object', $$'null'$$, '22023'),
	('object', $$'[]'$$, '22023'),
	('object', $$'1'$$, '22023'),
	('object', $$'"text"'$$, '22023'),
	('object', $$jsonb_build_object('a', repeat('x', 10000000))$$, '22023'),
	('object', $$(SELECT jsonb_object_agg('a' || n, n)
		FROM generate_series(1, 5000) n)$$, '22023'),
	('closed object', $$'{"no such": 1}'$$, '22023'),
	('closed object', $$jsonb_build_object(repeat('x', 8000), 1)$$, '22023'),
	('job', 'NULL', '22023'),
	('job', '0', 'UC301'),
	('job', '-1', 'UC301'),
	('job', '9223372036854775807', 'UC301'),
	('job', '-9223372036854775808', 'UC301'),
	('job', '{foreign}', 'UC301'),
	('attempt', 'NULL', '22023'),
	('attempt', '0', 'UC302'),
	('attempt', '-1', 'UC302'),
	('attempt', '2', 'UC302'),
	('attempt', '2147483647', 'UC302'),
	('attempt', '-2147483648', 'UC302'),
	('hold', 'NULL', '22023'),
	('hold', '0', 'UC003'),
	('hold', '-1', 'UC003'),
	('hold', '9223372036854775807', 'UC003'),
	('hold', '-9223372036854775808', 'UC003'),
	('hold', $$(SELECT hold FROM gpucredit.job
		WHERE org = 'bi' AND job = {waiting})$$, 'UC003'),
	('size', 'NULL', '22023'),
	('size', '-1', '22023'),
	('size', '9223372036854775807', '22023'),
	('size', '-9223372036854775808', '22023');

CREATE TEMP TABLE arg_kind (fn text, arg text, kinds text[]);
INSERT INTO arg_kind VALUES
	('create_account', 'org', '{org}'),
	('create_account', 'account', '{account}'),
	('create_account', 'weight', '{amount, positive amount}'),
	('suspend_account', 'org', '{org, known org}'),
	('suspend_account', 'account', '{account, known account}'),
	('suspend_account', 'suspended', '{present}'),
	('set_price', 'gpu_type', '{name, gpu type}'),
	('set_price', 'per_gpu_hour', '{amount}'),
	('set_price', 'pool', '{optional name, pool}'),
	('set_price', 'effective_at', '{instant}'),
	('set_price', 'spot', '{present}'),
	('create_pool', 'pool', '{name}'),
	('create_pool', 'policy', '{object, closed object}'),
	('set_tier', 'tier', '{name}'),
	('set_tier', 'rank', '{present}'),
	('set_tier', 'preemptible', '{word}'),
	('set_tier', 'can_preempt', '{present}'),
	('set_tier', 'grace', '{present, interval}'),
	('set_tier', 'min_run', '{present, interval}'),
	('set_tier', 'max_wall', '{interval, positive interval}'),
	('set_tier', 'max_wait', '{present, interval}'),
	('set_tier', 'bill_lost_work', '{present}'),
	('issue', 'org', '{org, known org}'),
	('issue', 'account', '{account, known account}'),
	('issue', 'key', '{name}'),
	('issue', 'amount', '{amount, positive amount}'),
	('issue', 'kind', '{word}'),
	('issue', 'expires_at', '{instant}'),
	('issue', 'effective_at', '{instant}'),
	('issue', 'priority', '{present}'),
	('issue', 'policy', '{object, closed object}'),
	('issue', 'memo', '{text}'),
	('issue', 'valid_for', '{interval, positive interval}'),
	('balance', 'org', '{org, known org}'),
	('balance', 'account', '{account, known account}'),
	('balance', 'as_of', '{}'),
	('buckets', 'org', '{org, known org}'),
	('buckets', 'account', '{account, known account}'),
	('statement', 'org', '{org, known org}'),
	('statement', 'account', '{account, known account}'),
	('statement', 'since', '{}'),
	('statement', 'until', '{}'),
	('hold', 'org', '{org, known org}'),
	('hold', 'account', '{account, known account}'),
	('hold', 'key', '{name}'),
	('hold', 'amount', '{amount, positive amount}'),
	('hold', 'ttl', '{present, interval, positive interval}'),
	('capture', 'org', '{org}'),
	('capture', 'hold', '{hold}'),
	('capture', 'key', '{name}'),
	('capture', 'amount', '{amount}'),
	('capture', 'final', '{present}'),
	('release', 'org', '{org}'),
	('release', 'hold', '{hold}'),
	('release', 'key', '{name}'),
	('reserve', 'org', '{org, known org}'),
	('reserve', 'account', '{account, known account}'),
	('reserve', 'key', '{name}'),
	('reserve', 'request', '{present, text}'),
	('reserve', 'wall_limit', '{interval, positive interval}'),
	('reserve', 'tier', '{name}'),
	('reserve', 'pool', '{name, pool}'),
	('reserve', 'topology', '{word}'),
	('reserve', 'preemptible', '{optional name}'),
	('reserve', 'max_retries', '{present}'),
	('reserve', 'cpu_milli', '{size}'),
	('reserve', 'memory_mib', '{size}'),
	('reserve', 'hold_window', '{interval, positive interval}'),
	('reserve', 'spec', '{object}'),
	('reserve', 'options', '{object, closed object}'),
	('place', 'pool', '{name, pool}'),
	('place', 'max_starts', '{}'),
	('plan', 'pool', '{name, pool}'),
	('meter', 'org', '{org}'),
	('meter', 'job', '{job}'),
	('meter', 'attempt', '{attempt}'),
	('meter', 'elapsed', '{present, interval}'),
	('meter', 'progress', '{}'),
	('meter', 'utilization', '{}'),
	('meter_batch', 'org', '{present}'),
	('meter_batch', 'job', '{present}'),
	('meter_batch', 'attempt', '{present}'),
	('meter_batch', 'elapsed', '{present}'),
	('meter_batch', 'progress', '{}'),
	('meter_batch', 'utilization', '{}'),
	('settle', 'org', '{org}'),
	('settle', 'job', '{job}'),
	('settle', 'attempt', '{attempt}'),
	('settle', 'outcome', '{word}'),
	('settle', 'elapsed', '{interval}'),
	('settle', 'exit_code', '{}'),
	('settle', 'message', '{text}'),
	('settle', 'log_uri', '{text}'),
	('cancel', 'org', '{org}'),
	('cancel', 'job', '{job}'),
	('cancel', 'key', '{name}'),
	('cancel', 'reason', '{text}'),
	('history', 'org', '{org}'),
	('history', 'job', '{job}'),
	('register_node', 'pool', '{name, pool}'),
	('register_node', 'node', '{name}'),
	('register_node', 'gpu_type', '{name, gpu type}'),
	('register_node', 'gpus', '{present}'),
	('register_node', 'gpu_memory_mib', '{size}'),
	('register_node', 'cpu_milli', '{size}'),
	('register_node', 'memory_mib', '{size}'),
	('register_node', 'nvlink_domain', '{optional name}'),
	('register_node', 'leaf', '{optional name}'),
	('register_node', 'spot', '{present}'),
	('register_node', 'labels', '{object}'),
	('heartbeat', 'node', '{name, node}'),
	('heartbeat', 'healthy', '{}'),
	('heartbeat', 'running', '{}'),
	('drain', 'node', '{name, node}'),
	('drain', 'reason', '{present, text}'),
	('drain', 'deadline', '{instant}'),
	('resume', 'node', '{name, node}'),
	('remove_node', 'node', '{name, node}'),
	('verify', 'org', '{}'),
	('rebuild', 'org', '{org, known org}');

CREATE TEMP TABLE bad (n serial, fn text, arg text, value text,
	expected text);
INSERT INTO bad (fn, arg, value, expected)
	SELECT a.fn, a.arg, k.value, k.expected
	FROM arg_kind a JOIN kind k ON k.kind = ANY (a.kinds);

-- What is bad in one argument only; 00000: odd, but meaningful.
INSERT INTO bad (fn, arg, value, expected) VALUES
	('create_account', 'account', $$'no such/parent'$$, 'UC001'),
	('create_account', 'account', $$'é/中'$$, 'UC001'),
	('set_price', 'effective_at', $$'4713-01-01 BC'$$, '00000'),
	('set_price', 'effective_at', $$'294276-12-31 23:59:59+00'$$, '00000'),
	('set_tier', 'rank', '-1', '22023'),
	('set_tier', 'rank', '1001', '22023'),
	('set_tier', 'rank', '2147483647', '22023'),
	('issue', 'expires_at', $$'2027-01-01 00:00+00'$$, '22023'),
	('issue', 'expires_at', $$'2027-01-02 00:00+00'$$, '22023'),
	('issue', 'expires_at', $$'4713-01-01 BC'$$, '22023'),
	('issue', 'expires_at', $$'294276-12-31 23:59:59+00'$$, '00000'),
	('issue', 'effective_at', $$'4713-01-01 BC'$$, '00000'),
	('issue', 'effective_at', $$'2028-01-01 00:00+00'$$, '22023'),
	('issue', 'effective_at', $$'294276-12-31 23:59:59+00'$$, '22023'),
	('issue', 'valid_for', $$'1 day'$$, '22023'),
	('issue', 'policy', $$'{"gpu_types": "BI-A"}'$$, '22023'),
	('issue', 'policy', $$'{"gpu_types": [1]}'$$, '22023'),
	('issue', 'policy', $$'{"gpu_types": [["BI-A"]]}'$$, '22023'),
	('issue', 'policy', $$'{"tiers": {}}'$$, '22023'),
	('issue', 'policy', $$'{"tiers": [""]}'$$, '22023'),
	('issue', 'policy', $$'{"pools": null}'$$, '22023'),
	('issue', 'policy', $$jsonb_build_object('pools',
		(SELECT array_agg('p' || n) FROM generate_series(1, 65) n))$$, '22023'),
	('issue', 'policy', $$'{"max_per_job": "1"}'$$, '22023'),
	('issue', 'policy', $$'{"max_per_job": 0}'$$, '22023'),
	('issue', 'policy', $$'{"max_per_job": -1}'$$, '22023'),
	('issue', 'policy', $$'{"max_per_job": 1e30}'$$, '22003'),
	('issue', 'policy', $$'{"max_per_job": 0.0000001}'$$, '22003'),
	('issue', 'policy', $$'{"max_share": 0}'$$, '22023'),
	('issue', 'policy', $$'{"max_share": 1.000001}'$$, '22023'),
	('issue', 'policy', $$'{"max_share": -0.5}'$$, '22023'),
	('issue', 'policy', $$'{"max_share": true}'$$, '22023'),
	('balance', 'as_of', $$'infinity'$$, '00000'),
	('balance', 'as_of', $$'-infinity'$$, '00000'),
	('balance', 'as_of', $$'4713-01-01 BC'$$, '00000'),
	('balance', 'as_of', $$'294276-12-31 23:59:59+00'$$, '00000'),
	('statement', 'since', $$'-infinity'$$, '00000'),
	('statement', 'since', $$'294276-12-31 23:59:59+00'$$, '00000'),
	('statement', 'until', $$'infinity'$$, '00000'),
	('statement', 'until', $$'4713-01-01 BC'$$, '00000'),
	('hold', 'ttl', $$'36500 days'$$, '00000'),
	('hold', 'ttl', $$'106751991 days'$$, '00000'),
	('capture', 'org', $$'no such'$$, 'UC003'),
	('capture', 'org', $$'bi-other'$$, 'UC003'),
	('capture', 'amount', '10.000001', '22023'),
	('capture', 'amount', '9223372036854.775807', '22023'),
	('capture', 'amount', '0', '00000'),
	('release', 'org', $$'no such'$$, 'UC003'),
	('release', 'org', $$'bi-other'$$, 'UC003'),
	('reserve', 'request', $$''$$, '22P02'),
	('reserve', 'request', $$'x'$$, '22P02'),
	('reserve', 'request', $$'1x'$$, '22P02'),
	('reserve', 'request', $$'-1xBI-A'$$, '22P02'),
	('reserve', 'request', $$'1xBI-A|'$$, '22P02'),
	('reserve', 'request', $$'1xBI-A@'$$, '22P02'),
	('reserve', 'request', $$'99999999999xBI-A'$$, '22023'),
	('reserve', 'request', $$'0.5'$$, '22P02'),
	('reserve', 'request', $$'NaNxBI-A'$$, '22P02'),
	('reserve', 'request', $$repeat('x', 8192)$$, '22P02'),
	('reserve', 'request', $$'1x' || repeat('T|', 4000)$$, '22023'),
	('reserve', 'request', $$'1xBI-NONE'$$, 'UC402'),
	('reserve', 'request', $$'1xbi-a'$$, 'UC402'),
	('reserve', 'request', $$'1xBI-A|BI-NONE'$$, 'UC402'),
	('reserve', 'wall_limit', $$'24 h 1 us'$$, '22023'),
	('reserve', 'wall_limit', $$'36500 days'$$, '22023'),
	('reserve', 'tier', $$'no such'$$, 'UC402'),
	('reserve', 'tier', $$'Standard_Training'$$, 'UC402'),
	('reserve', 'tier', $$repeat('x', 255)$$, 'UC402'),
	('reserve', 'preemptible', $$'no such'$$, '22023'),
	('reserve', 'preemptible', $$'never'$$, '22023'),
	('reserve', 'preemptible', $$'reclaim'$$, '22023'),
	('reserve', 'max_retries', '-1', '22023'),
	('reserve', 'max_retries', '1001', '22023'),
	('reserve', 'max_retries', '2147483647', '22023'),
	('reserve', 'options', $$'{"priority": "1"}'$$, '22023'),
	('reserve', 'options', $$'{"priority": 2147483648}'$$, '22023'),
	('reserve', 'options', $$'{"priority": 1e1000}'$$, '22023'),
	('reserve', 'options', $$'{"priority": null}'$$, '22023'),
	('reserve', 'options', $$'{"prefer": "no such"}'$$, '22023'),
	('reserve', 'options', $$'{"prefer": ["nvlink"]}'$$, '22023'),
	('place', 'max_starts', '-1', '22023'),
	('place', 'max_starts', '2147483647', '22023'),
	('meter', 'org', $$'no such'$$, 'UC301'),
	('meter', 'org', $$'bi-other'$$, 'UC301'),
	('meter', 'job', '{waiting}', 'UC302'),
	('meter', 'elapsed', $$'36500 days'$$, '00000'),
	('meter', 'progress', '-9223372036854775808', '00000'),
	('meter', 'utilization', $$'NaN'$$, '22023'),
	('meter', 'utilization', $$'Infinity'$$, '22023'),
	('meter', 'utilization', $$'-Infinity'$$, '22023'),
	('meter', 'utilization', '-0.1', '22023'),
	('meter', 'utilization', '1e30', '22023'),
	('meter_batch', 'org', $$'{}'$$, '22023'),
	('meter_batch', 'org', $$'{bi,bi}'$$, '22023'),
	('meter_batch', 'org', $$'{NULL}'$$, '22023'),
	('meter_batch', 'org', $$'{{bi},{bi}}'$$, '22023'),
	('meter_batch', 'org', $$ARRAY[repeat('x', 10000000)]$$, '00000'),
	('meter_batch', 'job', $$'{}'$$, '22023'),
	('meter_batch', 'job', $$'{1,2}'$$, '22023'),
	('meter_batch', 'job', $$'{NULL}'$$, '22023'),
	('meter_batch', 'job', $$'{9223372036854775807}'$$, '00000'),
	('meter_batch', 'attempt', $$'{}'$$, '22023'),
	('meter_batch', 'attempt', $$'{1,1}'$$, '22023'),
	('meter_batch', 'attempt', $$'{NULL}'$$, '22023'),
	('meter_batch', 'attempt', $$'{-2147483648}'$$, '00000'),
	('meter_batch', 'elapsed', $$'{}'$$, '22023'),
	('meter_batch', 'elapsed', $$'{1 s,2 s}'$$, '22023'),
	('meter_batch', 'elapsed', $$'{NULL}'$$, '22023'),
	('meter_batch', 'elapsed', $$'{-1 us}'$$, '22023'),
	('meter_batch', 'elapsed', $$'{1 mon}'$$, '22023'),
	('meter_batch', 'elapsed', $$'{1 century}'$$, '22023'),
	('meter_batch', 'elapsed', $$'{2147483647 days}'$$, '22023'),
	('meter_batch', 'progress', $$'{}'$$, '22023'),
	('meter_batch', 'progress', $$'{1,2}'$$, '22023'),
	('meter_batch', 'progress', $$'{NULL}'$$, '00000'),
	('meter_batch', 'progress', $$'{{1}}'$$, '22023'),
	('meter_batch', 'utilization', $$'{}'$$, '22023'),
	('meter_batch', 'utilization', $$'{0.1,0.2}'$$, '22023'),
	('meter_batch', 'utilization', $$'{NULL}'$$, '00000'),
	('meter_batch', 'utilization', $$'{NaN}'$$, '22023'),
	('meter_batch', 'utilization', $$'{Infinity}'$$, '22023'),
	('meter_batch', 'utilization', $$'{-1}'$$, '22023'),
	('settle', 'org', $$'no such'$$, 'UC301'),
	('settle', 'org', $$'bi-other'$$, 'UC301'),
	('settle', 'job', '{waiting}', 'UC302'),
	('settle', 'elapsed', $$'36500 days'$$, '00000'),
	('settle', 'exit_code', '-2147483648', '00000'),
	('cancel', 'org', $$'no such'$$, 'UC301'),
	('cancel', 'org', $$'bi-other'$$, 'UC301'),
	('history', 'org', $$'no such'$$, 'UC301'),
	('history', 'org', $$'bi-other'$$, 'UC301'),
	('register_node', 'node', $$'bi-2'$$, 'UC303'),
	('register_node', 'gpus', '-1', '22023'),
	('register_node', 'gpus', '65', '22023'),
	('register_node', 'gpus', '2147483647', '22023'),
	('heartbeat', 'healthy', $$'{4}'$$, '22023'),
	('heartbeat', 'healthy', $$'{0-63}'$$, '22023'),
	('heartbeat', 'healthy', $$'{64}'$$, '22003'),
	('heartbeat', 'healthy', $$'{3-1}'$$, '22P02'),
	('heartbeat', 'healthy', $$'0-3'$$, '22P02'),
	('heartbeat', 'healthy', $$repeat('x', 10000000)::gpucredit.gpuset$$, '22P02'),
	('heartbeat', 'running', $$ARRAY[NULL]::text[]$$, '22023'),
	('heartbeat', 'running', $$ARRAY['']$$, '22023'),
	('heartbeat', 'running', $$ARRAY['bi']$$, '22023'),
	('heartbeat', 'running', $$ARRAY['bi/1']$$, '22023'),
	('heartbeat', 'running', $$ARRAY['/1/1']$$, '22023'),
	('heartbeat', 'running', $$ARRAY['bi//1']$$, '22023'),
	('heartbeat', 'running', $$ARRAY['bi/1/']$$, '22023'),
	('heartbeat', 'running', $$ARRAY['bi/1/0']$$, '22023'),
	('heartbeat', 'running', $$ARRAY['bi/1/x']$$, '22023'),
	('heartbeat', 'running', $$ARRAY['bi/x/1']$$, '22023'),
	('heartbeat', 'running', $$ARRAY['bi/1/1x']$$, '22023'),
	('heartbeat', 'running', $$ARRAY['bi/1/2147483648']$$, '22023'),
	('heartbeat', 'running', $$ARRAY['bi/9223372036854775808/1']$$, '22023'),
	('heartbeat', 'running', $$ARRAY[repeat('x', 10000000)]$$, '22023'),
	('heartbeat', 'running', $$ARRAY[repeat('x', 10000000) || '/1/1']$$, '00000'),
	('heartbeat', 'running', $$ARRAY['no such/1/1']$$, '00000'),
	('drain', 'deadline', $$'4713-01-01 BC'$$, '00000'),
	('drain', 'deadline', $$'294276-12-31 23:59:59+00'$$, '00000'),
	('remove_node', 'node', $$'bi-1'$$, 'UC303'),
	('verify', 'org', $$'no such'$$, '00000'),
	('verify', 'org', $$repeat('x', 10000000)$$, '00000');

-- Every argument of every public function is above.
SELECT p.proname, arg
FROM pg_proc p, unnest(p.proargnames[1:p.pronargs]) arg
WHERE p.pronamespace = 'gpucredit'::regnamespace AND p.prosecdef
	AND p.proname <> 'require_account'
	AND NOT (EXISTS (SELECT FROM good g
			WHERE g.fn = p.proname AND g.arg = arg::text)
		AND EXISTS (SELECT FROM bad b
			WHERE b.fn = p.proname AND b.arg = arg::text));

-- How many rows there are in all tables of gpucredit.
CREATE FUNCTION pg_temp.row_counts() RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
	name text;
	n bigint;
	counts text := '';
BEGIN
	FOR name IN SELECT c.oid::regclass FROM pg_class c
		WHERE c.relnamespace = 'gpucredit'::regnamespace
			AND c.relkind IN ('r', 'p')
		ORDER BY 1
	LOOP
		EXECUTE 'SELECT count(*) FROM ' || name INTO n;
		counts := counts || ' ' || n;
	END LOOP;
	RETURN counts;
END $$;

-- One call, with one value put into it; what it does is undone.
CREATE FUNCTION pg_temp.call(fn text, bad_arg text, bad_value text,
	OUT state text, OUT message text, OUT detail text, OUT hint text)
LANGUAGE plpgsql AS $$
DECLARE
	call text;
	id record;
BEGIN
	SELECT format('SELECT * FROM gpucredit.%I(%s)', call.fn, string_agg(format(
			'%I => %s', g.arg, CASE WHEN g.arg = bad_arg THEN bad_value
			ELSE g.value END), ', ' ORDER BY g.n))
	INTO call FROM good g WHERE g.fn = call.fn;
	FOR id IN SELECT * FROM given LOOP
		call := replace(call, '{' || id.name || '}', id.id::text);
	END LOOP;
	BEGIN
		EXECUTE call;
		RAISE 'undone' USING ERRCODE = '00ZZZ';
	EXCEPTION WHEN others THEN
		GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE,
			message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL,
			hint = PG_EXCEPTION_HINT;
	END;
	IF state = '00ZZZ' THEN
		state := '00000';
	END IF;
END $$;

-- Each good call works.
SELECT g.fn, c.state, c.message
FROM (SELECT fn, min(n) FROM good GROUP BY fn ORDER BY 2) g,
	pg_temp.call(g.fn, NULL, NULL) c
WHERE c.state <> '00000';

-- No bad one does; each says what is wrong in few words, and what to do.
CREATE TEMP TABLE result AS
	SELECT b.*, c.*, pg_temp.row_counts() AS rows
	FROM bad b, pg_temp.call(b.fn, b.arg, b.value) c;
SELECT fn, arg, value, expected, state, left(message, 60) AS message
FROM result WHERE state <> expected ORDER BY n;
SELECT fn, arg, value, state, left(message, 60) AS message,
	detail <> '' AS has_detail, hint <> '' AS has_hint
FROM result
WHERE (state LIKE 'UC%' OR state = '22023')
	AND (message = '' OR detail = '' OR hint = '')
ORDER BY n;
SELECT fn, arg, value, octet_length(message), octet_length(detail),
	octet_length(hint)
FROM result
WHERE greatest(octet_length(message), octet_length(detail),
	octet_length(hint)) > 200
ORDER BY n;
SELECT count(*) AS calls, count(DISTINCT rows) AS row_counts,
	min(rows) = pg_temp.row_counts() AS unchanged
FROM result;

-- No key of a refused call is taken, and the fixture still stands.
SELECT job_state FROM given, gpucredit.cancel('bi', id, 'k')
WHERE name = 'waiting';
SELECT released, lapsed FROM given, gpucredit.release('bi', id, 'k2')
WHERE name = 'hold';
SELECT action, billed FROM given, gpucredit.meter('bi', id, 1, '0')
WHERE name = 'running';
SELECT available, held, used, spent FROM gpucredit.balance('bi');

SELECT * FROM gpucredit.verify();
