/*
 * 70_sched.sql: the scheduling cycle of a pool.
 */
CREATE TYPE gpucredit.place_result AS (action text, org text, job bigint,
	attempt int, node text, gpus gpucredit.gpuset, share int, gpu_type text,
	per_gpu_hour numeric, reason text);

CREATE FUNCTION gpucredit.place(pool text DEFAULT 'default',
	max_starts int DEFAULT NULL) RETURNS SETOF gpucredit.place_result
LANGUAGE c VOLATILE SECURITY DEFINER ROWS 100
SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'gpucredit_place';
COMMENT ON FUNCTION gpucredit.place(text, int) IS
'One scheduling cycle of a pool; never waits for a tenant''s rows.
max_starts: at most so many jobs, NULL for gpucredit.max_starts.
Result: action start, a row per node of each job started (share in thousandths of a GPU), in the order decided; or one row busy, where another cycle is running.
Errors: UC401 no such pool; 22023; 40001 at REPEATABLE READ and up where another cycle committed since the snapshot.';

CREATE FUNCTION gpucredit.plan(pool text DEFAULT 'default')
RETURNS SETOF gpucredit.place_result
LANGUAGE c STABLE SECURITY DEFINER ROWS 100
SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'gpucredit_plan';
COMMENT ON FUNCTION gpucredit.plan(text) IS
'What place would do now, changing nothing.
Result: as place. Errors: UC401 no such pool.';
