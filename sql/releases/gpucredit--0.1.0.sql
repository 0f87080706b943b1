\echo Use "CREATE EXTENSION gpucredit" to load this file. \quit

/*
 * 00_common.sql: the schema, the roles, and the clock.
 *
 * Bodies written as BEGIN ATOMIC bind every name and operator here and now,
 * so the path below matters only while this script runs; it holds nothing a
 * user could have put there.
 */
CREATE SCHEMA gpucredit;
COMMENT ON SCHEMA gpucredit IS
'GPU credit ledger and GPU job scheduler';

SET LOCAL search_path = pg_catalog, gpucredit, pg_temp;

/* Roles belong to the cluster, so they may be there already. */
DO $roles$
DECLARE
	name text;
BEGIN
	FOREACH name IN ARRAY ARRAY['gpucredit_admin', 'gpucredit_operator',
		'gpucredit_app', 'gpucredit_agent', 'gpucredit_auditor']
	LOOP
		IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = name)
		THEN
			BEGIN
				EXECUTE format('CREATE ROLE %I NOLOGIN', name);
			EXCEPTION WHEN duplicate_object OR unique_violation THEN
				NULL;			/* another database was faster */
			END;
		END IF;
	END LOOP;
END
$roles$;

CREATE FUNCTION gpucredit.now() RETURNS timestamptz
LANGUAGE c VOLATILE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_now';
COMMENT ON FUNCTION gpucredit.now() IS
'The instant gpucredit works with: the wall clock, or gpucredit.clock where that is set.';

/* What guards every append-only table, also against its owner. */
CREATE FUNCTION gpucredit.refuse_change() RETURNS trigger
LANGUAGE c VOLATILE
AS 'MODULE_PATHNAME', 'gpucredit_refuse_change';
COMMENT ON FUNCTION gpucredit.refuse_change() IS
'Trigger: refuses UPDATE, DELETE and TRUNCATE of an append-only table (UC901).';

/*
 * 10_types.sql: credits, gpureq and gpuset.
 *
 * credits and gpuset are 64-bit values passed by value, so what the server
 * has for bigint (comparison, hash, binary output) serves them too; functions
 * in LANGUAGE internal below are that code under a name and signature of its
 * own.  Everything is immutable, strict and parallel safe, except that the
 * functions of an aggregate's internal state see NULL states.
 */

/*
 * credits: an amount of money, in millionths.
 */
CREATE TYPE gpucredit.credits;

CREATE FUNCTION gpucredit.credits_in(cstring) RETURNS gpucredit.credits
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_credits_in';

CREATE FUNCTION gpucredit.credits_out(gpucredit.credits) RETURNS cstring
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_credits_out';

CREATE FUNCTION gpucredit.credits_recv(internal) RETURNS gpucredit.credits
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_credits_recv';

CREATE FUNCTION gpucredit.credits_send(gpucredit.credits) RETURNS bytea
LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE
AS 'int8send';

CREATE TYPE gpucredit.credits (
	INPUT = gpucredit.credits_in,
	OUTPUT = gpucredit.credits_out,
	RECEIVE = gpucredit.credits_recv,
	SEND = gpucredit.credits_send,
	LIKE = pg_catalog.int8,
	CATEGORY = 'N'
);
COMMENT ON TYPE gpucredit.credits IS
'Amount of credits: fixed point with 6 decimals, -9223372036854.775808 to 9223372036854.775807. Text: a plain decimal number. What does not fit or has more decimals: 22003.';

CREATE FUNCTION gpucredit.credits_eq(gpucredit.credits, gpucredit.credits)
RETURNS boolean
LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE
AS 'int8eq';

CREATE FUNCTION gpucredit.credits_ne(gpucredit.credits, gpucredit.credits)
RETURNS boolean
LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE
AS 'int8ne';

CREATE FUNCTION gpucredit.credits_lt(gpucredit.credits, gpucredit.credits)
RETURNS boolean
LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE
AS 'int8lt';

CREATE FUNCTION gpucredit.credits_le(gpucredit.credits, gpucredit.credits)
RETURNS boolean
LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE
AS 'int8le';

CREATE FUNCTION gpucredit.credits_gt(gpucredit.credits, gpucredit.credits)
RETURNS boolean
LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE
AS 'int8gt';

CREATE FUNCTION gpucredit.credits_ge(gpucredit.credits, gpucredit.credits)
RETURNS boolean
LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE
AS 'int8ge';

CREATE FUNCTION gpucredit.credits_cmp(gpucredit.credits, gpucredit.credits)
RETURNS integer
LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE
AS 'btint8cmp';

CREATE FUNCTION gpucredit.credits_hash(gpucredit.credits) RETURNS integer
LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE
AS 'hashint8';

CREATE FUNCTION gpucredit.credits_hash_extended(gpucredit.credits, bigint)
RETURNS bigint
LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE
AS 'hashint8extended';

CREATE OPERATOR gpucredit.= (
	FUNCTION = gpucredit.credits_eq, LEFTARG = gpucredit.credits, RIGHTARG = gpucredit.credits,
	COMMUTATOR = OPERATOR(gpucredit.=), NEGATOR = OPERATOR(gpucredit.<>),
	RESTRICT = pg_catalog.eqsel, JOIN = pg_catalog.eqjoinsel, HASHES, MERGES
);

CREATE OPERATOR gpucredit.<> (
	FUNCTION = gpucredit.credits_ne, LEFTARG = gpucredit.credits, RIGHTARG = gpucredit.credits,
	COMMUTATOR = OPERATOR(gpucredit.<>), NEGATOR = OPERATOR(gpucredit.=),
	RESTRICT = pg_catalog.neqsel, JOIN = pg_catalog.neqjoinsel
);

CREATE OPERATOR gpucredit.< (
	FUNCTION = gpucredit.credits_lt, LEFTARG = gpucredit.credits, RIGHTARG = gpucredit.credits,
	COMMUTATOR = OPERATOR(gpucredit.>), NEGATOR = OPERATOR(gpucredit.>=),
	RESTRICT = pg_catalog.scalarltsel, JOIN = pg_catalog.scalarltjoinsel
);

CREATE OPERATOR gpucredit.<= (
	FUNCTION = gpucredit.credits_le, LEFTARG = gpucredit.credits, RIGHTARG = gpucredit.credits,
	COMMUTATOR = OPERATOR(gpucredit.>=), NEGATOR = OPERATOR(gpucredit.>),
	RESTRICT = pg_catalog.scalarlesel, JOIN = pg_catalog.scalarlejoinsel
);

CREATE OPERATOR gpucredit.> (
	FUNCTION = gpucredit.credits_gt, LEFTARG = gpucredit.credits, RIGHTARG = gpucredit.credits,
	COMMUTATOR = OPERATOR(gpucredit.<), NEGATOR = OPERATOR(gpucredit.<=),
	RESTRICT = pg_catalog.scalargtsel, JOIN = pg_catalog.scalargtjoinsel
);

CREATE OPERATOR gpucredit.>= (
	FUNCTION = gpucredit.credits_ge, LEFTARG = gpucredit.credits, RIGHTARG = gpucredit.credits,
	COMMUTATOR = OPERATOR(gpucredit.<=), NEGATOR = OPERATOR(gpucredit.<),
	RESTRICT = pg_catalog.scalargesel, JOIN = pg_catalog.scalargejoinsel
);

CREATE OPERATOR CLASS gpucredit.credits_ops DEFAULT FOR TYPE gpucredit.credits USING btree AS
	OPERATOR 1 gpucredit.<, OPERATOR 2 gpucredit.<=, OPERATOR 3 gpucredit.=,
	OPERATOR 4 gpucredit.>=, OPERATOR 5 gpucredit.>,
	FUNCTION 1 gpucredit.credits_cmp(gpucredit.credits, gpucredit.credits),
	FUNCTION 2 pg_catalog.btint8sortsupport(internal),
	FUNCTION 4 pg_catalog.btequalimage(oid);
CREATE OPERATOR CLASS gpucredit.credits_ops DEFAULT FOR TYPE gpucredit.credits USING hash AS
	OPERATOR 1 gpucredit.=,
	FUNCTION 1 gpucredit.credits_hash(gpucredit.credits),
	FUNCTION 2 gpucredit.credits_hash_extended(gpucredit.credits, bigint);

CREATE FUNCTION gpucredit.credits_add(gpucredit.credits, gpucredit.credits)
RETURNS gpucredit.credits
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_credits_add';

CREATE FUNCTION gpucredit.credits_sub(gpucredit.credits, gpucredit.credits)
RETURNS gpucredit.credits
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_credits_sub';

CREATE FUNCTION gpucredit.credits_neg(gpucredit.credits)
RETURNS gpucredit.credits
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_credits_neg';

CREATE FUNCTION gpucredit.credits_mul(gpucredit.credits, bigint)
RETURNS gpucredit.credits
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_credits_mul';

CREATE FUNCTION gpucredit.mul_credits(bigint, gpucredit.credits)
RETURNS gpucredit.credits
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_mul_credits';

CREATE OPERATOR gpucredit.+ (
	FUNCTION = gpucredit.credits_add, LEFTARG = gpucredit.credits, RIGHTARG = gpucredit.credits,
	COMMUTATOR = OPERATOR(gpucredit.+)
);
CREATE OPERATOR gpucredit.- (
	FUNCTION = gpucredit.credits_sub, LEFTARG = gpucredit.credits, RIGHTARG = gpucredit.credits
);
CREATE OPERATOR gpucredit.- (
	FUNCTION = gpucredit.credits_neg, RIGHTARG = gpucredit.credits
);
CREATE OPERATOR gpucredit.* (
	FUNCTION = gpucredit.credits_mul, LEFTARG = gpucredit.credits, RIGHTARG = bigint,
	COMMUTATOR = OPERATOR(gpucredit.*)
);
CREATE OPERATOR gpucredit.* (
	FUNCTION = gpucredit.mul_credits, LEFTARG = bigint, RIGHTARG = gpucredit.credits,
	COMMUTATOR = OPERATOR(gpucredit.*)
);
COMMENT ON OPERATOR gpucredit.+ (gpucredit.credits, gpucredit.credits) IS
'Sum of two amounts; 22003 if it does not fit.';
COMMENT ON OPERATOR gpucredit.- (gpucredit.credits, gpucredit.credits) IS
'Difference of two amounts; 22003 if it does not fit.';
COMMENT ON OPERATOR gpucredit.- (NONE, gpucredit.credits) IS
'Opposite of an amount; 22003 for the smallest.';
COMMENT ON OPERATOR gpucredit.* (gpucredit.credits, bigint) IS
'Multiple of an amount; 22003 if it does not fit.';
COMMENT ON OPERATOR gpucredit.* (bigint, gpucredit.credits) IS
'Multiple of an amount; 22003 if it does not fit.';

CREATE FUNCTION gpucredit.numeric_to_credits(numeric) RETURNS gpucredit.credits
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_numeric_to_credits';

CREATE FUNCTION gpucredit.credits_to_numeric(gpucredit.credits) RETURNS numeric
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_credits_to_numeric';

CREATE FUNCTION gpucredit.int8_to_credits(bigint) RETURNS gpucredit.credits
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_int8_to_credits';

CREATE FUNCTION gpucredit.int4_to_credits(integer) RETURNS gpucredit.credits
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_int4_to_credits';

CREATE CAST (numeric AS gpucredit.credits)
	WITH FUNCTION gpucredit.numeric_to_credits(numeric) AS ASSIGNMENT;
CREATE CAST (gpucredit.credits AS numeric)
	WITH FUNCTION gpucredit.credits_to_numeric(gpucredit.credits) AS IMPLICIT;
CREATE CAST (bigint AS gpucredit.credits)
	WITH FUNCTION gpucredit.int8_to_credits(bigint) AS ASSIGNMENT;
CREATE CAST (integer AS gpucredit.credits)
	WITH FUNCTION gpucredit.int4_to_credits(integer) AS ASSIGNMENT;
COMMENT ON FUNCTION gpucredit.numeric_to_credits(numeric) IS
'The same amount as credits. More than 6 decimals, NaN, infinity, or what does not fit: 22003.';
COMMENT ON FUNCTION gpucredit.credits_to_numeric(gpucredit.credits) IS
'The same amount as numeric, with display scale 6.';
COMMENT ON FUNCTION gpucredit.int8_to_credits(bigint) IS
'So many whole credits; what does not fit: 22003.';
COMMENT ON FUNCTION gpucredit.int4_to_credits(integer) IS
'So many whole credits.';



CREATE FUNCTION gpucredit.credits_smaller(gpucredit.credits, gpucredit.credits)
RETURNS gpucredit.credits
LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE
AS 'int8smaller';

CREATE FUNCTION gpucredit.credits_larger(gpucredit.credits, gpucredit.credits)
RETURNS gpucredit.credits
LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE
AS 'int8larger';

CREATE FUNCTION gpucredit.credits_accum(internal, gpucredit.credits)
RETURNS internal
LANGUAGE c IMMUTABLE PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_credits_accum';

CREATE FUNCTION gpucredit.credits_accum_inv(internal, gpucredit.credits)
RETURNS internal
LANGUAGE c IMMUTABLE PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_credits_accum_inv';

CREATE FUNCTION gpucredit.credits_combine(internal, internal) RETURNS internal
LANGUAGE c IMMUTABLE PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_credits_combine';

CREATE FUNCTION gpucredit.credits_serialize(internal) RETURNS bytea
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_credits_serialize';

CREATE FUNCTION gpucredit.credits_deserialize(bytea, internal) RETURNS internal
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_credits_deserialize';

CREATE FUNCTION gpucredit.credits_sum(internal) RETURNS gpucredit.credits
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_credits_sum';

CREATE FUNCTION gpucredit.credits_avg(internal) RETURNS gpucredit.credits
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_credits_avg';

CREATE AGGREGATE gpucredit.sum(gpucredit.credits) (
	SFUNC = gpucredit.credits_accum, STYPE = internal, SSPACE = 32,
	FINALFUNC = gpucredit.credits_sum,
	COMBINEFUNC = gpucredit.credits_combine,
	SERIALFUNC = gpucredit.credits_serialize,
	DESERIALFUNC = gpucredit.credits_deserialize,
	MSFUNC = gpucredit.credits_accum, MINVFUNC = gpucredit.credits_accum_inv,
	MSTYPE = internal, MSSPACE = 32,
	MFINALFUNC = gpucredit.credits_sum,
	PARALLEL = SAFE
);

CREATE AGGREGATE gpucredit.avg(gpucredit.credits) (
	SFUNC = gpucredit.credits_accum, STYPE = internal, SSPACE = 32,
	FINALFUNC = gpucredit.credits_avg,
	COMBINEFUNC = gpucredit.credits_combine,
	SERIALFUNC = gpucredit.credits_serialize,
	DESERIALFUNC = gpucredit.credits_deserialize,
	MSFUNC = gpucredit.credits_accum, MINVFUNC = gpucredit.credits_accum_inv,
	MSTYPE = internal, MSSPACE = 32,
	MFINALFUNC = gpucredit.credits_avg,
	PARALLEL = SAFE
);

CREATE AGGREGATE gpucredit.min(gpucredit.credits) (
	SFUNC = gpucredit.credits_smaller, STYPE = gpucredit.credits,
	COMBINEFUNC = gpucredit.credits_smaller,
	SORTOP = OPERATOR(gpucredit.<),
	PARALLEL = SAFE
);

CREATE AGGREGATE gpucredit.max(gpucredit.credits) (
	SFUNC = gpucredit.credits_larger, STYPE = gpucredit.credits,
	COMBINEFUNC = gpucredit.credits_larger,
	SORTOP = OPERATOR(gpucredit.>),
	PARALLEL = SAFE
);
COMMENT ON AGGREGATE gpucredit.sum(gpucredit.credits) IS
'Sum of the amounts, NULL over none. Only a sum that does not fit itself: 22003.';
COMMENT ON AGGREGATE gpucredit.avg(gpucredit.credits) IS
'Average of the amounts, rounded half away from zero to 6 decimals, NULL over none.';
COMMENT ON AGGREGATE gpucredit.min(gpucredit.credits) IS
'Smallest amount, NULL over none.';
COMMENT ON AGGREGATE gpucredit.max(gpucredit.credits) IS
'Largest amount, NULL over none.';

CREATE FUNCTION gpucredit.bill(per_gpu_hour gpucredit.credits, gpus integer,
	share integer, elapsed interval) RETURNS gpucredit.credits
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_bill';
COMMENT ON FUNCTION gpucredit.bill(gpucredit.credits, integer, integer, interval) IS
'What GPUs cost for a time: per_gpu_hour x gpus x share (thousandths of each GPU, 1 to 1000) x elapsed (a day is 24 hours), rounded half up once to 6 decimals. Negative arguments, a share out of bounds, months or years in elapsed: 22023. A bill that does not fit: 22003.';

CREATE FUNCTION gpucredit.bill(per_gpu_hour gpucredit.credits, gpus integer,
	share integer, elapsed interval, most gpucredit.credits)
RETURNS gpucredit.credits
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_bill_within';
COMMENT ON FUNCTION gpucredit.bill(gpucredit.credits, integer, integer, interval, gpucredit.credits) IS
'As bill of four arguments, but at most the fifth, also where the bill would not fit.';

/*
 * gpureq: how many GPUs, of which types in order of preference.
 */
CREATE TYPE gpucredit.gpureq;

CREATE FUNCTION gpucredit.gpureq_in(cstring) RETURNS gpucredit.gpureq
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_gpureq_in';

CREATE FUNCTION gpucredit.gpureq_out(gpucredit.gpureq) RETURNS cstring
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_gpureq_out';

CREATE FUNCTION gpucredit.gpureq_recv(internal) RETURNS gpucredit.gpureq
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_gpureq_recv';

CREATE FUNCTION gpucredit.gpureq_send(gpucredit.gpureq) RETURNS bytea
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_gpureq_send';

CREATE TYPE gpucredit.gpureq (
	INPUT = gpucredit.gpureq_in,
	OUTPUT = gpucredit.gpureq_out,
	RECEIVE = gpucredit.gpureq_recv,
	SEND = gpucredit.gpureq_send,
	INTERNALLENGTH = VARIABLE,
	ALIGNMENT = double,
	STORAGE = extended
);
COMMENT ON TYPE gpucredit.gpureq IS
'GPU request: a number of GPUs (at most 100000), a range of them, or a share of one in thousandths, then at most 64 acceptable types in order of preference, * for any, each with a memory floor if it has one: 8xH100|A100@40GB, 4-16xH100, 0.46xT4, 4x*, or 0 for no GPU. Malformed text: 22P02, out of bounds: 22023, malformed binary: 22P03.';

CREATE FUNCTION gpucredit.gpureq_eq(gpucredit.gpureq, gpucredit.gpureq)
RETURNS boolean
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_gpureq_eq';

CREATE FUNCTION gpucredit.gpureq_ne(gpucredit.gpureq, gpucredit.gpureq)
RETURNS boolean
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_gpureq_ne';

CREATE FUNCTION gpucredit.gpureq_lt(gpucredit.gpureq, gpucredit.gpureq)
RETURNS boolean
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_gpureq_lt';

CREATE FUNCTION gpucredit.gpureq_le(gpucredit.gpureq, gpucredit.gpureq)
RETURNS boolean
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_gpureq_le';

CREATE FUNCTION gpucredit.gpureq_gt(gpucredit.gpureq, gpucredit.gpureq)
RETURNS boolean
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_gpureq_gt';

CREATE FUNCTION gpucredit.gpureq_ge(gpucredit.gpureq, gpucredit.gpureq)
RETURNS boolean
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_gpureq_ge';

CREATE FUNCTION gpucredit.gpureq_cmp(gpucredit.gpureq, gpucredit.gpureq)
RETURNS integer
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_gpureq_cmp';

CREATE FUNCTION gpucredit.gpureq_hash(gpucredit.gpureq) RETURNS integer
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_gpureq_hash';

CREATE FUNCTION gpucredit.gpureq_hash_extended(gpucredit.gpureq, bigint)
RETURNS bigint
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_gpureq_hash_extended';

CREATE OPERATOR gpucredit.= (
	FUNCTION = gpucredit.gpureq_eq, LEFTARG = gpucredit.gpureq, RIGHTARG = gpucredit.gpureq,
	COMMUTATOR = OPERATOR(gpucredit.=), NEGATOR = OPERATOR(gpucredit.<>),
	RESTRICT = pg_catalog.eqsel, JOIN = pg_catalog.eqjoinsel, HASHES, MERGES
);

CREATE OPERATOR gpucredit.<> (
	FUNCTION = gpucredit.gpureq_ne, LEFTARG = gpucredit.gpureq, RIGHTARG = gpucredit.gpureq,
	COMMUTATOR = OPERATOR(gpucredit.<>), NEGATOR = OPERATOR(gpucredit.=),
	RESTRICT = pg_catalog.neqsel, JOIN = pg_catalog.neqjoinsel
);

CREATE OPERATOR gpucredit.< (
	FUNCTION = gpucredit.gpureq_lt, LEFTARG = gpucredit.gpureq, RIGHTARG = gpucredit.gpureq,
	COMMUTATOR = OPERATOR(gpucredit.>), NEGATOR = OPERATOR(gpucredit.>=),
	RESTRICT = pg_catalog.scalarltsel, JOIN = pg_catalog.scalarltjoinsel
);

CREATE OPERATOR gpucredit.<= (
	FUNCTION = gpucredit.gpureq_le, LEFTARG = gpucredit.gpureq, RIGHTARG = gpucredit.gpureq,
	COMMUTATOR = OPERATOR(gpucredit.>=), NEGATOR = OPERATOR(gpucredit.>),
	RESTRICT = pg_catalog.scalarlesel, JOIN = pg_catalog.scalarlejoinsel
);

CREATE OPERATOR gpucredit.> (
	FUNCTION = gpucredit.gpureq_gt, LEFTARG = gpucredit.gpureq, RIGHTARG = gpucredit.gpureq,
	COMMUTATOR = OPERATOR(gpucredit.<), NEGATOR = OPERATOR(gpucredit.<=),
	RESTRICT = pg_catalog.scalargtsel, JOIN = pg_catalog.scalargtjoinsel
);

CREATE OPERATOR gpucredit.>= (
	FUNCTION = gpucredit.gpureq_ge, LEFTARG = gpucredit.gpureq, RIGHTARG = gpucredit.gpureq,
	COMMUTATOR = OPERATOR(gpucredit.<=), NEGATOR = OPERATOR(gpucredit.<),
	RESTRICT = pg_catalog.scalargesel, JOIN = pg_catalog.scalargejoinsel
);

CREATE OPERATOR CLASS gpucredit.gpureq_ops DEFAULT FOR TYPE gpucredit.gpureq USING btree AS
	OPERATOR 1 gpucredit.<, OPERATOR 2 gpucredit.<=, OPERATOR 3 gpucredit.=,
	OPERATOR 4 gpucredit.>=, OPERATOR 5 gpucredit.>,
	FUNCTION 1 gpucredit.gpureq_cmp(gpucredit.gpureq, gpucredit.gpureq),
	FUNCTION 4 pg_catalog.btequalimage(oid);
CREATE OPERATOR CLASS gpucredit.gpureq_ops DEFAULT FOR TYPE gpucredit.gpureq USING hash AS
	OPERATOR 1 gpucredit.=,
	FUNCTION 1 gpucredit.gpureq_hash(gpucredit.gpureq),
	FUNCTION 2 gpucredit.gpureq_hash_extended(gpucredit.gpureq, bigint);

CREATE FUNCTION gpucredit.gpureq_min_gpus(gpucredit.gpureq) RETURNS integer
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_gpureq_min_gpus';
COMMENT ON FUNCTION gpucredit.gpureq_min_gpus(gpucredit.gpureq) IS
'The fewest GPUs that satisfy the request; 0 for none.';

CREATE FUNCTION gpucredit.gpureq_max_gpus(gpucredit.gpureq) RETURNS integer
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_gpureq_max_gpus';
COMMENT ON FUNCTION gpucredit.gpureq_max_gpus(gpucredit.gpureq) IS
'The most GPUs that the request can use; equal to min_gpus unless it is a range.';

CREATE FUNCTION gpucredit.gpureq_share(gpucredit.gpureq) RETURNS integer
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_gpureq_share';
COMMENT ON FUNCTION gpucredit.gpureq_share(gpucredit.gpureq) IS
'How much of each GPU, in thousandths; 1000 for whole GPUs.';

CREATE FUNCTION gpucredit.gpureq_types(gpucredit.gpureq) RETURNS text[]
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_gpureq_types';
COMMENT ON FUNCTION gpucredit.gpureq_types(gpucredit.gpureq) IS
'The acceptable types in order of preference, * for any; empty for no GPU.';

CREATE FUNCTION gpucredit.gpureq_min_memory(gpucredit.gpureq) RETURNS bigint[]
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_gpureq_min_memory';
COMMENT ON FUNCTION gpucredit.gpureq_min_memory(gpucredit.gpureq) IS
'The memory floors, in bytes per GPU, in the order of the types; 0 for none.';

/*
 * gpuset: the devices of one node.
 */
CREATE TYPE gpucredit.gpuset;

CREATE FUNCTION gpucredit.gpuset_in(cstring) RETURNS gpucredit.gpuset
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_gpuset_in';

CREATE FUNCTION gpucredit.gpuset_out(gpucredit.gpuset) RETURNS cstring
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_gpuset_out';

CREATE FUNCTION gpucredit.gpuset_recv(internal) RETURNS gpucredit.gpuset
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_gpuset_recv';

CREATE FUNCTION gpucredit.gpuset_send(gpucredit.gpuset) RETURNS bytea
LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE
AS 'int8send';

CREATE TYPE gpucredit.gpuset (
	INPUT = gpucredit.gpuset_in,
	OUTPUT = gpucredit.gpuset_out,
	RECEIVE = gpucredit.gpuset_recv,
	SEND = gpucredit.gpuset_send,
	LIKE = pg_catalog.int8
);
COMMENT ON TYPE gpucredit.gpuset IS
'Set of the devices of one node, 0 to 63: {0-3,6}, or {} for none. Malformed text: 22P02, a device out of range: 22003, malformed binary: 22P03.';

CREATE FUNCTION gpucredit.gpuset_eq(gpucredit.gpuset, gpucredit.gpuset)
RETURNS boolean
LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE
AS 'int8eq';

CREATE FUNCTION gpucredit.gpuset_ne(gpucredit.gpuset, gpucredit.gpuset)
RETURNS boolean
LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE
AS 'int8ne';

CREATE FUNCTION gpucredit.gpuset_lt(gpucredit.gpuset, gpucredit.gpuset)
RETURNS boolean
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_gpuset_lt';

CREATE FUNCTION gpucredit.gpuset_le(gpucredit.gpuset, gpucredit.gpuset)
RETURNS boolean
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_gpuset_le';

CREATE FUNCTION gpucredit.gpuset_gt(gpucredit.gpuset, gpucredit.gpuset)
RETURNS boolean
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_gpuset_gt';

CREATE FUNCTION gpucredit.gpuset_ge(gpucredit.gpuset, gpucredit.gpuset)
RETURNS boolean
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_gpuset_ge';

CREATE FUNCTION gpucredit.gpuset_cmp(gpucredit.gpuset, gpucredit.gpuset)
RETURNS integer
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_gpuset_cmp';

CREATE FUNCTION gpucredit.gpuset_hash(gpucredit.gpuset) RETURNS integer
LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE
AS 'hashint8';

CREATE FUNCTION gpucredit.gpuset_hash_extended(gpucredit.gpuset, bigint)
RETURNS bigint
LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE
AS 'hashint8extended';

CREATE OPERATOR gpucredit.= (
	FUNCTION = gpucredit.gpuset_eq, LEFTARG = gpucredit.gpuset, RIGHTARG = gpucredit.gpuset,
	COMMUTATOR = OPERATOR(gpucredit.=), NEGATOR = OPERATOR(gpucredit.<>),
	RESTRICT = pg_catalog.eqsel, JOIN = pg_catalog.eqjoinsel, HASHES, MERGES
);

CREATE OPERATOR gpucredit.<> (
	FUNCTION = gpucredit.gpuset_ne, LEFTARG = gpucredit.gpuset, RIGHTARG = gpucredit.gpuset,
	COMMUTATOR = OPERATOR(gpucredit.<>), NEGATOR = OPERATOR(gpucredit.=),
	RESTRICT = pg_catalog.neqsel, JOIN = pg_catalog.neqjoinsel
);

CREATE OPERATOR gpucredit.< (
	FUNCTION = gpucredit.gpuset_lt, LEFTARG = gpucredit.gpuset, RIGHTARG = gpucredit.gpuset,
	COMMUTATOR = OPERATOR(gpucredit.>), NEGATOR = OPERATOR(gpucredit.>=),
	RESTRICT = pg_catalog.scalarltsel, JOIN = pg_catalog.scalarltjoinsel
);

CREATE OPERATOR gpucredit.<= (
	FUNCTION = gpucredit.gpuset_le, LEFTARG = gpucredit.gpuset, RIGHTARG = gpucredit.gpuset,
	COMMUTATOR = OPERATOR(gpucredit.>=), NEGATOR = OPERATOR(gpucredit.>),
	RESTRICT = pg_catalog.scalarlesel, JOIN = pg_catalog.scalarlejoinsel
);

CREATE OPERATOR gpucredit.> (
	FUNCTION = gpucredit.gpuset_gt, LEFTARG = gpucredit.gpuset, RIGHTARG = gpucredit.gpuset,
	COMMUTATOR = OPERATOR(gpucredit.<), NEGATOR = OPERATOR(gpucredit.<=),
	RESTRICT = pg_catalog.scalargtsel, JOIN = pg_catalog.scalargtjoinsel
);

CREATE OPERATOR gpucredit.>= (
	FUNCTION = gpucredit.gpuset_ge, LEFTARG = gpucredit.gpuset, RIGHTARG = gpucredit.gpuset,
	COMMUTATOR = OPERATOR(gpucredit.<=), NEGATOR = OPERATOR(gpucredit.<),
	RESTRICT = pg_catalog.scalargesel, JOIN = pg_catalog.scalargejoinsel
);

CREATE OPERATOR CLASS gpucredit.gpuset_ops DEFAULT FOR TYPE gpucredit.gpuset USING btree AS
	OPERATOR 1 gpucredit.<, OPERATOR 2 gpucredit.<=, OPERATOR 3 gpucredit.=,
	OPERATOR 4 gpucredit.>=, OPERATOR 5 gpucredit.>,
	FUNCTION 1 gpucredit.gpuset_cmp(gpucredit.gpuset, gpucredit.gpuset),
	FUNCTION 4 pg_catalog.btequalimage(oid);
CREATE OPERATOR CLASS gpucredit.gpuset_ops DEFAULT FOR TYPE gpucredit.gpuset USING hash AS
	OPERATOR 1 gpucredit.=,
	FUNCTION 1 gpucredit.gpuset_hash(gpucredit.gpuset),
	FUNCTION 2 gpucredit.gpuset_hash_extended(gpucredit.gpuset, bigint);

CREATE FUNCTION gpucredit.gpuset_union(gpucredit.gpuset, gpucredit.gpuset)
RETURNS gpucredit.gpuset
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_gpuset_union';

CREATE FUNCTION gpucredit.gpuset_intersection(gpucredit.gpuset, gpucredit.gpuset)
RETURNS gpucredit.gpuset
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_gpuset_intersection';

CREATE FUNCTION gpucredit.gpuset_difference(gpucredit.gpuset, gpucredit.gpuset)
RETURNS gpucredit.gpuset
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_gpuset_difference';

CREATE FUNCTION gpucredit.gpuset_contains(gpucredit.gpuset, gpucredit.gpuset)
RETURNS boolean
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_gpuset_contains';

CREATE FUNCTION gpucredit.gpuset_contained(gpucredit.gpuset, gpucredit.gpuset)
RETURNS boolean
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_gpuset_contained';

CREATE FUNCTION gpucredit.gpuset_overlaps(gpucredit.gpuset, gpucredit.gpuset)
RETURNS boolean
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_gpuset_overlaps';

CREATE FUNCTION gpucredit.gpuset_contains_device(gpucredit.gpuset, integer)
RETURNS boolean
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_gpuset_contains_device';

CREATE FUNCTION gpucredit.gpuset_device_contained(integer, gpucredit.gpuset)
RETURNS boolean
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_gpuset_device_contained';

CREATE OPERATOR gpucredit.| (
	FUNCTION = gpucredit.gpuset_union, LEFTARG = gpucredit.gpuset, RIGHTARG = gpucredit.gpuset,
	COMMUTATOR = OPERATOR(gpucredit.|)
);
COMMENT ON OPERATOR gpucredit.| (gpucredit.gpuset, gpucredit.gpuset) IS
'Devices in either set.';

CREATE OPERATOR gpucredit.& (
	FUNCTION = gpucredit.gpuset_intersection, LEFTARG = gpucredit.gpuset, RIGHTARG = gpucredit.gpuset,
	COMMUTATOR = OPERATOR(gpucredit.&)
);
COMMENT ON OPERATOR gpucredit.& (gpucredit.gpuset, gpucredit.gpuset) IS
'Devices in both sets.';

CREATE OPERATOR gpucredit.- (
	FUNCTION = gpucredit.gpuset_difference, LEFTARG = gpucredit.gpuset, RIGHTARG = gpucredit.gpuset
);
COMMENT ON OPERATOR gpucredit.- (gpucredit.gpuset, gpucredit.gpuset) IS
'Devices in the first set and not in the second.';

CREATE OPERATOR gpucredit.@> (
	FUNCTION = gpucredit.gpuset_contains, LEFTARG = gpucredit.gpuset, RIGHTARG = gpucredit.gpuset,
	COMMUTATOR = OPERATOR(gpucredit.<@),
	RESTRICT = pg_catalog.contsel, JOIN = pg_catalog.contjoinsel
);
COMMENT ON OPERATOR gpucredit.@> (gpucredit.gpuset, gpucredit.gpuset) IS
'Is every device of the second set in the first?';

CREATE OPERATOR gpucredit.<@ (
	FUNCTION = gpucredit.gpuset_contained, LEFTARG = gpucredit.gpuset, RIGHTARG = gpucredit.gpuset,
	COMMUTATOR = OPERATOR(gpucredit.@>),
	RESTRICT = pg_catalog.contsel, JOIN = pg_catalog.contjoinsel
);
COMMENT ON OPERATOR gpucredit.<@ (gpucredit.gpuset, gpucredit.gpuset) IS
'Is every device of the first set in the second?';

CREATE OPERATOR gpucredit.&& (
	FUNCTION = gpucredit.gpuset_overlaps, LEFTARG = gpucredit.gpuset, RIGHTARG = gpucredit.gpuset,
	COMMUTATOR = OPERATOR(gpucredit.&&),
	RESTRICT = pg_catalog.areasel, JOIN = pg_catalog.areajoinsel
);
COMMENT ON OPERATOR gpucredit.&& (gpucredit.gpuset, gpucredit.gpuset) IS
'Do the sets share a device?';

CREATE OPERATOR gpucredit.@> (
	FUNCTION = gpucredit.gpuset_contains_device, LEFTARG = gpucredit.gpuset, RIGHTARG = integer,
	COMMUTATOR = OPERATOR(gpucredit.<@),
	RESTRICT = pg_catalog.contsel, JOIN = pg_catalog.contjoinsel
);
COMMENT ON OPERATOR gpucredit.@> (gpucredit.gpuset, integer) IS
'Is the device in the set?';

CREATE OPERATOR gpucredit.<@ (
	FUNCTION = gpucredit.gpuset_device_contained, LEFTARG = integer, RIGHTARG = gpucredit.gpuset,
	COMMUTATOR = OPERATOR(gpucredit.@>),
	RESTRICT = pg_catalog.contsel, JOIN = pg_catalog.contjoinsel
);
COMMENT ON OPERATOR gpucredit.<@ (integer, gpucredit.gpuset) IS
'Is the device in the set?';

CREATE FUNCTION gpucredit.gpu_count(gpucredit.gpuset) RETURNS integer
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_gpu_count';
COMMENT ON FUNCTION gpucredit.gpu_count(gpucredit.gpuset) IS
'How many devices the set has.';

CREATE FUNCTION gpucredit.gpuset_from_array(integer[]) RETURNS gpucredit.gpuset
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_gpuset_from_array';
COMMENT ON FUNCTION gpucredit.gpuset_from_array(integer[]) IS
'The set of these devices. Out of 0 to 63: 22003; a null: 22004.';

CREATE FUNCTION gpucredit.gpuset_to_array(gpucredit.gpuset) RETURNS integer[]
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_gpuset_to_array';
COMMENT ON FUNCTION gpucredit.gpuset_to_array(gpucredit.gpuset) IS
'The devices of the set, ascending.';

CREATE AGGREGATE gpucredit.union_agg(gpucredit.gpuset) (
	SFUNC = gpucredit.gpuset_union, STYPE = gpucredit.gpuset,
	COMBINEFUNC = gpucredit.gpuset_union,
	PARALLEL = SAFE
);
COMMENT ON AGGREGATE gpucredit.union_agg(gpucredit.gpuset) IS
'Devices in any of the sets, NULL over none.';

/*
 * 15_audit.sql: who decided what, when and why.
 *
 * One row for every credit and scheduling decision, refusals included, in the
 * transaction of its effect.  An ordinary heartbeat is not a decision.  What
 * concerns no tenant (nodes, pools, prices, tiers) has org ''.
 */
CREATE TABLE gpucredit.audit (
	org text COLLATE "C" NOT NULL,
	audit bigint GENERATED BY DEFAULT AS IDENTITY,
	at timestamptz NOT NULL,
	login text NOT NULL,		/* who connected */
	actor text NOT NULL,		/* whose rights: SET ROLE or the login */
	operation text NOT NULL,
	decision text NOT NULL,
	reason text,
	account text COLLATE "C",
	bucket bigint,
	hold bigint,
	job bigint,
	attempt int,
	detail jsonb,
	CONSTRAINT audit_pkey PRIMARY KEY (org, audit)
);
CREATE INDEX audit_job ON gpucredit.audit (org, job) WHERE job IS NOT NULL;
COMMENT ON TABLE gpucredit.audit IS
'Append-only trail of every credit and scheduling decision';

CREATE TRIGGER audit_append_only BEFORE UPDATE OR DELETE OR TRUNCATE
	ON gpucredit.audit
	FOR EACH STATEMENT EXECUTE FUNCTION gpucredit.refuse_change();
ALTER TABLE gpucredit.audit ENABLE ALWAYS TRIGGER audit_append_only;

SELECT pg_catalog.pg_extension_config_dump('gpucredit.audit', '');
SELECT pg_catalog.pg_extension_config_dump('gpucredit.audit_audit_seq', '');

/*
 * 20_request.sql: idempotency.
 *
 * A call that moves money or makes a job inserts its key here first, in the
 * transaction of its effect: a twin waits on the row, then reads the result.
 * The result is kept as the text of its columns, so that results may grow.
 */
CREATE TABLE gpucredit.request (
	org text COLLATE "C" NOT NULL,
	key text COLLATE "C" NOT NULL,
	operation text NOT NULL,
	fingerprint bytea NOT NULL,
	result text[],				/* NULL only inside the call itself */
	created_at timestamptz NOT NULL,
	CONSTRAINT request_pkey PRIMARY KEY (org, key),
	CONSTRAINT request_fingerprint_size
		CHECK (octet_length(fingerprint) = 16)
) WITH (fillfactor = 70);
COMMENT ON TABLE gpucredit.request IS
'Idempotency keys of the last gpucredit.key_retention, with arguments'' fingerprint and result';

SELECT pg_catalog.pg_extension_config_dump('gpucredit.request', '');

/*
 * 30_ledger.sql: accounts, buckets, holds, entries.
 *
 * An organisation buys credit into buckets.  A bucket belongs to an account
 * and pays for everything at or below it.  Each of its credits is in exactly
 * one compartment: available, held, spent, expired, revoked or moved.  An
 * entry moves an amount from one compartment of one bucket to another; the
 * bucket's columns are the running sums of its entries.  A hold sets credit
 * aside for one job (or one caller's own business); its parts say how much of
 * it came from which bucket, in the order drawn.
 *
 * Only src/ledger/post.c writes bucket, hold_part and entry.
 */
/* What the CHECKs of busy tables call: one function each is parsed fast. */
CREATE FUNCTION gpucredit.bucket_is_sound(kind text,
	effective_at timestamptz, expires_at timestamptz,
	issued gpucredit.credits, available gpucredit.credits,
	held gpucredit.credits, spent gpucredit.credits,
	expired gpucredit.credits, revoked gpucredit.credits,
	moved gpucredit.credits) RETURNS boolean
LANGUAGE c IMMUTABLE PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_bucket_is_sound';
COMMENT ON FUNCTION gpucredit.bucket_is_sound(text, timestamptz, timestamptz,
	gpucredit.credits, gpucredit.credits, gpucredit.credits,
	gpucredit.credits, gpucredit.credits, gpucredit.credits,
	gpucredit.credits) IS
'Internal: a bucket''s kind is known, it ends after it starts, no compartment is negative, and issued is their sum.';

CREATE FUNCTION gpucredit.parts_are_sound(drawn gpucredit.credits,
	held gpucredit.credits, spent gpucredit.credits,
	refunded gpucredit.credits, returned gpucredit.credits,
	lapsed gpucredit.credits) RETURNS boolean
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_parts_are_sound';
COMMENT ON FUNCTION gpucredit.parts_are_sound(gpucredit.credits,
	gpucredit.credits, gpucredit.credits, gpucredit.credits,
	gpucredit.credits, gpucredit.credits) IS
'Internal: what was drawn is the sum of what became of it, none negative.';

CREATE FUNCTION gpucredit.entry_is_sound(source text, target text,
	amount gpucredit.credits) RETURNS boolean
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_entry_is_sound';
COMMENT ON FUNCTION gpucredit.entry_is_sound(text, text, gpucredit.credits)
IS 'Internal: such a move between compartments exists, and its amount is above 0.';

CREATE TABLE gpucredit.account (
	org text COLLATE "C" NOT NULL,
	account text COLLATE "C" NOT NULL,
	weight numeric NOT NULL,
	suspended boolean NOT NULL DEFAULT false,
	created_at timestamptz NOT NULL,
	CONSTRAINT account_pkey PRIMARY KEY (org, account),
	CONSTRAINT account_org CHECK (org <> ''),
	CONSTRAINT account_weight CHECK (weight > 0)
);
COMMENT ON TABLE gpucredit.account IS
'Organisations (account ''''), projects and users, as paths';

CREATE TABLE gpucredit.bucket (
	org text COLLATE "C" NOT NULL,
	bucket bigint GENERATED BY DEFAULT AS IDENTITY,
	account text COLLATE "C" NOT NULL,
	kind text NOT NULL,
	priority int NOT NULL,
	effective_at timestamptz NOT NULL,
	expires_at timestamptz,		/* NULL: never */
	closed_at timestamptz,		/* revoked: what returns is revoked too */
	swept_at timestamptz,		/* what it had at its expiry is booked */
	/* what it pays for; NULL: anything */
	gpu_types text[],
	tiers text[],
	pools text[],
	max_per_job gpucredit.credits,
	max_share numeric,
	policy jsonb NOT NULL,		/* as it was given */
	memo text,
	created_at timestamptz NOT NULL,
	/* the compartments */
	issued gpucredit.credits NOT NULL DEFAULT '0',
	available gpucredit.credits NOT NULL DEFAULT '0',
	held gpucredit.credits NOT NULL DEFAULT '0',
	spent gpucredit.credits NOT NULL DEFAULT '0',
	expired gpucredit.credits NOT NULL DEFAULT '0',
	revoked gpucredit.credits NOT NULL DEFAULT '0',
	moved gpucredit.credits NOT NULL DEFAULT '0',
	CONSTRAINT bucket_pkey PRIMARY KEY (org, bucket),
	CONSTRAINT bucket_sound CHECK (gpucredit.bucket_is_sound(kind,
		effective_at, expires_at, issued, available, held, spent, expired,
		revoked, moved))
) WITH (fillfactor = 50);
/* nothing that a call changes is indexed, so that updates stay HOT */
CREATE INDEX bucket_account ON gpucredit.bucket (org, account);
COMMENT ON TABLE gpucredit.bucket IS
'Credits bought or granted in one go, with their own expiry and policy; each column of an amount is the sum of the entries';

CREATE TABLE gpucredit.hold (
	org text COLLATE "C" NOT NULL,
	hold bigint GENERATED BY DEFAULT AS IDENTITY,
	account text COLLATE "C" NOT NULL,
	job bigint,					/* NULL: a caller's own */
	drawn gpucredit.credits NOT NULL,
	held gpucredit.credits NOT NULL,
	captured gpucredit.credits NOT NULL DEFAULT '0',	/* less refunds */
	refunded gpucredit.credits NOT NULL DEFAULT '0',
	released gpucredit.credits NOT NULL DEFAULT '0',
	lapsed gpucredit.credits NOT NULL DEFAULT '0',
	expires_at timestamptz,		/* of a caller's own */
	created_at timestamptz NOT NULL,
	closed_at timestamptz,
	CONSTRAINT hold_pkey PRIMARY KEY (org, hold),
	CONSTRAINT hold_sound CHECK (gpucredit.parts_are_sound(drawn, held,
		captured, refunded, released, lapsed)),
	CONSTRAINT hold_closed CHECK (closed_at IS NULL OR held = '0'),
	CONSTRAINT hold_mortal CHECK ((job IS NULL) = (expires_at IS NOT NULL))
) WITH (fillfactor = 70);
CREATE INDEX hold_open ON gpucredit.hold (org, account)
	WHERE closed_at IS NULL;
CREATE INDEX hold_mortal ON gpucredit.hold (org, expires_at)
	WHERE closed_at IS NULL AND expires_at IS NOT NULL;
COMMENT ON TABLE gpucredit.hold IS
'Credit set aside: drawn = held + captured + refunded + released + lapsed; refunded was captured once, wherever it went';

CREATE TABLE gpucredit.hold_part (
	org text COLLATE "C" NOT NULL,
	hold bigint NOT NULL,
	part int NOT NULL,			/* in the order drawn */
	bucket bigint NOT NULL,
	drawn gpucredit.credits NOT NULL,
	held gpucredit.credits NOT NULL,
	spent gpucredit.credits NOT NULL DEFAULT '0',
	refunded gpucredit.credits NOT NULL DEFAULT '0',
	returned gpucredit.credits NOT NULL DEFAULT '0',
	lapsed gpucredit.credits NOT NULL DEFAULT '0',
	CONSTRAINT hold_part_pkey PRIMARY KEY (org, hold, part),
	CONSTRAINT hold_part_sound CHECK (gpucredit.parts_are_sound(drawn, held,
		spent, refunded, returned, lapsed))
) WITH (fillfactor = 70);
COMMENT ON TABLE gpucredit.hold_part IS
'How much of a hold came from which bucket, in burn order';

CREATE TABLE gpucredit.entry (
	org text COLLATE "C" NOT NULL,
	entry bigint GENERATED BY DEFAULT AS IDENTITY,
	at timestamptz NOT NULL,
	account text COLLATE "C" NOT NULL,	/* on whose behalf */
	bucket bigint NOT NULL,
	source text NOT NULL,
	target text NOT NULL,
	amount gpucredit.credits NOT NULL,
	operation text NOT NULL,
	hold bigint,
	part int,
	job bigint,
	attempt int,
	CONSTRAINT entry_pkey PRIMARY KEY (org, entry),
	CONSTRAINT entry_sound
		CHECK (gpucredit.entry_is_sound(source, target, amount))
);
CREATE INDEX entry_bucket ON gpucredit.entry (org, bucket);
COMMENT ON TABLE gpucredit.entry IS
'Append-only: each moves an amount of one bucket from one compartment to another';

CREATE TRIGGER entry_append_only BEFORE UPDATE OR DELETE OR TRUNCATE
	ON gpucredit.entry
	FOR EACH STATEMENT EXECUTE FUNCTION gpucredit.refuse_change();
ALTER TABLE gpucredit.entry ENABLE ALWAYS TRIGGER entry_append_only;

/*
 * What an account itself has spent, less refunds: totals, and the deltas that
 * upkeep has not folded into them yet.  So settling has no hot row.
 */
CREATE TABLE gpucredit.spend_total (
	org text COLLATE "C" NOT NULL,
	account text COLLATE "C" NOT NULL,
	spent gpucredit.credits NOT NULL,
	CONSTRAINT spend_total_pkey PRIMARY KEY (org, account)
);
COMMENT ON TABLE gpucredit.spend_total IS
'Settled spend of each account, without what is in spend_delta';

CREATE TABLE gpucredit.spend_delta (
	org text COLLATE "C" NOT NULL,
	account text COLLATE "C" NOT NULL,
	spent gpucredit.credits NOT NULL
);
CREATE INDEX spend_delta_account ON gpucredit.spend_delta (org, account);
COMMENT ON TABLE gpucredit.spend_delta IS
'Settled spend not yet folded into spend_total';

DO $dump$
DECLARE
	name text;
BEGIN
	FOREACH name IN ARRAY ARRAY['account', 'bucket', 'bucket_bucket_seq', 'hold',
	'hold_hold_seq', 'hold_part', 'entry', 'entry_entry_seq', 'spend_total',
	'spend_delta']
	LOOP
		PERFORM pg_catalog.pg_extension_config_dump(
			('gpucredit.' || name)::regclass, '');
	END LOOP;
END
$dump$;

/* Setting up */

CREATE FUNCTION gpucredit.create_account(org text, account text DEFAULT '',
	weight numeric DEFAULT 1) RETURNS void
LANGUAGE c VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'gpucredit_create_account';
COMMENT ON FUNCTION gpucredit.create_account(text, text, numeric) IS
'Creates an account, or sets the weight of one that is there.
org: the organisation. account: '''' for the organisation itself, else a path below it ("vision/alice", at most 8 levels). weight: share among siblings, above 0.
Errors: UC001 where the parent does not exist; 22023 for a malformed name or weight.';

CREATE FUNCTION gpucredit.suspend_account(org text, account text,
	suspended boolean) RETURNS void
LANGUAGE c VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'gpucredit_suspend_account';
COMMENT ON FUNCTION gpucredit.suspend_account(text, text, boolean) IS
'Suspends an account and all below it, or lifts that: no new hold or extension; what runs goes on to the end of its hold.
Errors: UC001 no such account.';

/* Credits */

CREATE TYPE gpucredit.issue_result AS (bucket bigint, replayed boolean);

CREATE FUNCTION gpucredit.issue(org text, account text, key text,
	amount numeric, kind text DEFAULT 'paid',
	expires_at timestamptz DEFAULT NULL, effective_at timestamptz DEFAULT NULL,
	priority int DEFAULT 100, policy jsonb DEFAULT '{}',
	memo text DEFAULT NULL, valid_for interval DEFAULT NULL)
RETURNS gpucredit.issue_result
LANGUAGE c VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'gpucredit_issue';
COMMENT ON FUNCTION gpucredit.issue(text, text, text, numeric, text,
	timestamptz, timestamptz, int, jsonb, text, interval) IS
'Issues credits to an account as a new bucket.
amount: credits, above 0, at most 6 decimals. kind: paid, promo, grant. Active in [effective_at, expires_at); effective_at NULL: now; valid_for: expires that long after effective_at. priority: low burns first. policy: what it pays for, words gpu_types, tiers, pools, max_per_job, max_share.
Result: the bucket, and whether the call was a replay.
Errors: UC001 no such account; UC201 key used with other arguments; 22003 amount; 22023 anything else malformed.';

CREATE TYPE gpucredit.hold_result AS (hold bigint, status text, reason text,
	held numeric, expires_at timestamptz, replayed boolean);
CREATE TYPE gpucredit.capture_result AS (captured numeric, released numeric,
	lapsed numeric, replayed boolean);
CREATE TYPE gpucredit.release_result AS (released numeric, lapsed numeric,
	replayed boolean);

CREATE FUNCTION gpucredit.hold(org text, account text, key text,
	amount numeric, ttl interval) RETURNS gpucredit.hold_result
LANGUAGE c VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'gpucredit_hold';
COMMENT ON FUNCTION gpucredit.hold(text, text, text, numeric, interval) IS
'Sets credit aside for a caller with a scheduler of its own.
amount: credits, above 0. ttl: how long the hold lives, above 0; from then on it is refused to capture and its credit is free.
Result: status granted, or denied with reason insufficient_credits or account_suspended (hold NULL, held 0).
Errors: UC001 no such account; UC201 key used with other arguments; 22003, 22023.';

CREATE FUNCTION gpucredit.capture(org text, hold bigint, key text,
	amount numeric, final boolean DEFAULT true)
RETURNS gpucredit.capture_result
LANGUAGE c VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'gpucredit_capture';
COMMENT ON FUNCTION gpucredit.capture(text, bigint, text, numeric, boolean) IS
'Spends what a hold holds; final: the rest goes back to its buckets and the hold is closed.
amount: credits, 0 or more, at most what is held.
Result: captured; released to buckets; lapsed, since their bucket had expired or was revoked.
Errors: UC003 no such hold, closed, past its ttl, or of a job; UC201; 22003; 22023 more than is held.';

CREATE FUNCTION gpucredit.release(org text, hold bigint, key text)
RETURNS gpucredit.release_result
LANGUAGE c VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'gpucredit_release';
COMMENT ON FUNCTION gpucredit.release(text, bigint, text) IS
'Gives what a hold still holds back to the very buckets it came from.
Result: released, and lapsed, since their bucket had expired or was revoked; of a hold that ran past its ttl and was released already, what was released then.
Errors: UC003 no such hold, captured, or of a job; UC201; 22023.';

/* For reading functions written in SQL. */
CREATE FUNCTION gpucredit.require_account(org text, account text)
RETURNS void
LANGUAGE c STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'gpucredit_require_account';
COMMENT ON FUNCTION gpucredit.require_account(text, text) IS
'Internal: raises UC001 unless the account exists, 22023 where its name is malformed.';

/*
 * 35_credits.sql: credit taken away, moved, given back, expired.
 */

/*
 * What a sweep has to look at, and nothing else: swept_at and closed_at
 * change once in a bucket's life, so that its other updates stay HOT.
 */
CREATE INDEX bucket_due ON gpucredit.bucket (expires_at)
	WHERE expires_at IS NOT NULL AND closed_at IS NULL AND swept_at IS NULL;
/* the holds of a job, one of each attempt */
CREATE INDEX hold_job ON gpucredit.hold (org, job) WHERE job IS NOT NULL;

CREATE TYPE gpucredit.revoke_result AS (revoked numeric, replayed boolean);
CREATE TYPE gpucredit.transfer_result AS (moved numeric, status text,
	reason text, replayed boolean);
CREATE TYPE gpucredit.refund_result AS (refunded numeric, lapsed numeric,
	replayed boolean);
CREATE TYPE gpucredit.expire_credits_result AS (task text, affected bigint);

CREATE FUNCTION gpucredit.revoke(org text, bucket bigint, key text,
	reason text) RETURNS gpucredit.revoke_result
LANGUAGE c VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'gpucredit_revoke';
COMMENT ON FUNCTION gpucredit.revoke(text, bigint, text, text) IS
'Revokes what is available in a bucket and closes it. What is held of it stays good; what returns to it later is revoked too.
reason: for the audit.
Result: revoked, in credits; 0 where the bucket was empty, had expired or was revoked before.
Errors: UC002 no such bucket; UC201 key used with other arguments; 22023.';

CREATE FUNCTION gpucredit.transfer(org text, from_account text,
	to_account text, key text, amount numeric)
RETURNS gpucredit.transfer_result
LANGUAGE c VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'gpucredit_transfer';
COMMENT ON FUNCTION gpucredit.transfer(text, text, text, text, numeric) IS
'Moves credit that is available in an account''s own buckets, not its ancestors'', to another account, in burn order. Each bucket it takes from has its like in the other account: kind, priority, span, policy, memo.
amount: credits, above 0; whole or not at all.
Result: status granted, or denied with reason insufficient_credits or account_suspended (moved 0): credit does not leave a suspended account, it may enter one.
Errors: UC001 no such account; UC201 key used with other arguments; 22003; 22023, also for one account given twice.';

CREATE FUNCTION gpucredit.refund(org text, job bigint, key text,
	amount numeric, reason text) RETURNS gpucredit.refund_result
LANGUAGE c VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'gpucredit_refund';
COMMENT ON FUNCTION gpucredit.refund(text, bigint, text, numeric, text) IS
'Gives credit that a job has spent back to the very buckets it came from, last spent first; the job may be waiting, running or over.
amount: credits, above 0, at most what was spent less earlier refunds. reason: for the audit.
Result: refunded + lapsed = amount; lapsed is what came back to a bucket that had expired or was revoked.
Errors: UC301 no such job; UC201 key used with other arguments; 22003; 22023 more than was spent.';

CREATE FUNCTION gpucredit.refund_hold(org text, hold bigint, key text,
	amount numeric, reason text) RETURNS gpucredit.refund_result
LANGUAGE c VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'gpucredit_refund_hold';
COMMENT ON FUNCTION gpucredit.refund_hold(text, bigint, text, numeric,
	text) IS
'Gives credit that a caller''s own hold has captured back to the very buckets it came from, as refund; the hold may be open or closed.
Result: refunded + lapsed = amount.
Errors: UC003 no such hold, or a job''s; UC201 key used with other arguments; 22003; 22023 more than was captured.';

CREATE FUNCTION gpucredit.expire_credits()
RETURNS gpucredit.expire_credits_result
LANGUAGE c VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'gpucredit_expire_credits';
COMMENT ON FUNCTION gpucredit.expire_credits() IS
'Books what was available in buckets that have expired, at most 10,000 of them a call: call again while affected is 10000. No balance changes by it. Waits for nobody.
Result: how many buckets it took.';

/*
 * 40_budget.sql: how much an account may spend in a period.
 *
 * A budget limits what the holds of an account and of all below it come to:
 * reserved while they are open, spent as they are captured.  Each hold keeps
 * which budgets and periods it was counted in, and only those are credited
 * back.  Periods are of the UTC calendar; the first call that touches one
 * makes its counter.
 */
CREATE TABLE gpucredit.budget (
	org text COLLATE "C" NOT NULL,
	account text COLLATE "C" NOT NULL,
	period text NOT NULL,
	amount gpucredit.credits NOT NULL,
	hard boolean NOT NULL,		/* refuses; else it only alerts */
	alert_at numeric[] NOT NULL,	/* shares of the amount */
	set_at timestamptz NOT NULL,
	CONSTRAINT budget_pkey PRIMARY KEY (org, account, period),
	CONSTRAINT budget_period CHECK (period IN ('none', 'day', 'week', 'month',
		'quarter', 'year')),
	CONSTRAINT budget_not_negative CHECK (amount >= '0')
);
COMMENT ON TABLE gpucredit.budget IS
'Limits on what an account and all below it may reserve and spend in a period';

CREATE TABLE gpucredit.budget_count (
	org text COLLATE "C" NOT NULL,
	account text COLLATE "C" NOT NULL,
	period text NOT NULL,
	period_start timestamptz NOT NULL,	/* -infinity of period none */
	reserved gpucredit.credits NOT NULL DEFAULT '0',
	spent gpucredit.credits NOT NULL DEFAULT '0',
	CONSTRAINT budget_count_pkey
		PRIMARY KEY (org, account, period, period_start),
	CONSTRAINT budget_count_not_negative
		CHECK (reserved >= '0' AND spent >= '0')
) WITH (fillfactor = 50);
COMMENT ON TABLE gpucredit.budget_count IS
'What was reserved and spent against a budget in one period; the sum of hold_budget';

CREATE TABLE gpucredit.hold_budget (
	org text COLLATE "C" NOT NULL,
	hold bigint NOT NULL,
	account text COLLATE "C" NOT NULL,
	period text NOT NULL,
	period_start timestamptz NOT NULL,
	reserved gpucredit.credits NOT NULL,
	spent gpucredit.credits NOT NULL DEFAULT '0',
	CONSTRAINT hold_budget_pkey
		PRIMARY KEY (org, hold, account, period, period_start),
	CONSTRAINT hold_budget_not_negative
		CHECK (reserved >= '0' AND spent >= '0')
) WITH (fillfactor = 70);
COMMENT ON TABLE gpucredit.hold_budget IS
'Which budgets and periods a hold was counted in, and with how much';

CREATE TABLE gpucredit.alert (
	org text COLLATE "C" NOT NULL,
	alert bigint GENERATED BY DEFAULT AS IDENTITY,
	at timestamptz NOT NULL,
	account text COLLATE "C" NOT NULL,
	kind text NOT NULL,
	period text NOT NULL,
	period_start timestamptz NOT NULL,
	threshold numeric NOT NULL,
	detail jsonb NOT NULL,
	CONSTRAINT alert_pkey PRIMARY KEY (org, alert),
	CONSTRAINT alert_once
		UNIQUE (org, account, kind, period, period_start, threshold)
);
COMMENT ON TABLE gpucredit.alert IS
'What an account''s owner should know, once per period and threshold; also sent as NOTIFY gpucredit_alert';

DO $dump$
DECLARE
	name text;
BEGIN
	FOREACH name IN ARRAY ARRAY['budget', 'budget_count', 'hold_budget',
		'alert', 'alert_alert_seq']
	LOOP
		PERFORM pg_catalog.pg_extension_config_dump(
			('gpucredit.' || name)::regclass, '');
	END LOOP;
END
$dump$;

CREATE FUNCTION gpucredit.set_budget(org text, account text, amount numeric,
	period text DEFAULT 'month', hard boolean DEFAULT true,
	alert_at numeric[] DEFAULT '{0.5,0.8,1}') RETURNS void
LANGUAGE c VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'gpucredit_set_budget';
COMMENT ON FUNCTION gpucredit.set_budget(text, text, numeric, text, boolean,
	numeric[]) IS
'Limits what an account and all below it may reserve and spend in a period; one budget per account and period. Counts the holds begun after it was set.
amount: credits, 0 or more; NULL removes the budget. period: none, day, week, month, quarter, year (UTC calendar). hard: refuses (reason budget_exceeded), else it only alerts. alert_at: shares of the amount, above 0 and at most 10, at most 16 of them.
Errors: UC001 no such account; UC101 bad budget; 22003, 22023.';

CREATE TYPE gpucredit.budgets_row AS (account text, period text,
	period_start timestamptz, amount numeric, reserved numeric,
	spent numeric, remaining numeric, hard boolean);

/* The start of the period an instant is in. */
CREATE FUNCTION gpucredit.period_start(period text, at timestamptz)
RETURNS timestamptz
LANGUAGE sql STABLE STRICT PARALLEL SAFE
BEGIN ATOMIC
	SELECT CASE WHEN period = 'none' THEN '-infinity'::timestamptz
		ELSE date_trunc(period, at, 'UTC') END;
END;
COMMENT ON FUNCTION gpucredit.period_start(text, timestamptz) IS
'Internal: when the budget period an instant is in began, by the UTC calendar';

/*
 * 42_quota.sql: how much an account may have at once.
 *
 * A quota limits an account and all below it: devices, running jobs (more
 * wait), queued jobs (more are denied).  What is in use is counted from live
 * attempts and waiting jobs, never stored.  Whoever lets something in under a
 * quota locks its row and counts it up, so that a transaction with an older
 * snapshot gets 40001 at REPEATABLE READ and up.
 */
CREATE TABLE gpucredit.quota (
	org text COLLATE "C" NOT NULL,
	account text COLLATE "C" NOT NULL,
	gpu_type text COLLATE "C" NOT NULL,	/* '': of any type */
	max_gpus int,
	max_running int,
	max_queued int,
	cycle bigint NOT NULL DEFAULT 0,	/* admissions under it so far */
	CONSTRAINT quota_pkey PRIMARY KEY (org, account, gpu_type),
	CONSTRAINT quota_not_negative CHECK (max_gpus >= 0 AND max_running >= 0
		AND max_queued >= 0)
) WITH (fillfactor = 50);
COMMENT ON TABLE gpucredit.quota IS
'Limits on devices, running and queued jobs of an account and all below it; NULL: no limit';

SELECT pg_catalog.pg_extension_config_dump('gpucredit.quota', '');

CREATE FUNCTION gpucredit.set_quota(org text, account text,
	gpu_type text DEFAULT NULL, max_gpus int DEFAULT NULL,
	max_running int DEFAULT NULL, max_queued int DEFAULT NULL) RETURNS void
LANGUAGE c VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'gpucredit_set_quota';
COMMENT ON FUNCTION gpucredit.set_quota(text, text, text, int, int, int) IS
'Limits what an account and all below it may have at once, of a GPU type or (NULL) of any.
max_gpus: devices in use. max_running: jobs started; more wait. max_queued: jobs waiting; more are denied as quota_exceeded, as is a request that alone passes max_gpus. NULL: no limit; all three NULL removes the quota.
Errors: UC001 no such account; 22023.';

/*
 * 50_inventory.sql: prices, tiers, pools, nodes.
 *
 * Small tables shared by all tenants.  What is free on a node is never
 * stored: it is the node's healthy devices less those of live attempts.
 */
CREATE TABLE gpucredit.price (
	gpu_type text COLLATE "C" NOT NULL,
	pool text COLLATE "C" NOT NULL,		/* '': every pool */
	spot boolean NOT NULL,
	effective_at timestamptz NOT NULL,
	per_gpu_hour gpucredit.credits NOT NULL,
	CONSTRAINT price_pkey PRIMARY KEY (gpu_type, pool, spot, effective_at),
	CONSTRAINT price_not_negative CHECK (per_gpu_hour >= '0')
);
COMMENT ON TABLE gpucredit.price IS
'Price history: the row with the latest effective_at not in the future holds';

/* The built-in tiers live apart, so that a dump carries only the user's. */
CREATE TABLE gpucredit.tier_builtin (
	tier text COLLATE "C" NOT NULL,
	rank int NOT NULL,
	preemptible text NOT NULL,
	can_preempt boolean NOT NULL,
	grace interval NOT NULL,
	min_run interval NOT NULL,
	max_wall interval,
	max_wait interval NOT NULL,
	bill_lost_work boolean NOT NULL,
	CONSTRAINT tier_builtin_pkey PRIMARY KEY (tier)
);
COMMENT ON TABLE gpucredit.tier_builtin IS 'The tiers every installation has';

INSERT INTO gpucredit.tier_builtin VALUES
	('production_inference', 0, 'never', true, '2 min', '10 min', NULL, '24 h', true),
	('premium_training', 1, 'reclaim', true, '2 min', '10 min', '24 h', '24 h', true),
	('standard_training', 2, 'capacity', false, '2 min', '10 min', '24 h', '24 h', true),
	('batch_inference', 3, 'capacity', false, '2 min', '10 min', '2 h', '24 h', true),
	('interactive', 4, 'capacity', false, '2 min', '10 min', '12 h', '24 h', true);

CREATE TABLE gpucredit.tier_custom (
	LIKE gpucredit.tier_builtin,
	CONSTRAINT tier_custom_pkey PRIMARY KEY (tier),
	CONSTRAINT tier_custom_preemptible
		CHECK (preemptible IN ('never', 'reclaim', 'capacity'))
);
COMMENT ON TABLE gpucredit.tier_custom IS
'Tiers set by set_tier; one of a built-in''s name replaces it';

CREATE VIEW gpucredit.tier AS
	SELECT * FROM gpucredit.tier_custom
	UNION ALL
	SELECT * FROM gpucredit.tier_builtin b
	WHERE NOT EXISTS (SELECT FROM gpucredit.tier_custom c
		WHERE c.tier = b.tier);
COMMENT ON VIEW gpucredit.tier IS
'The tiers in force; low rank goes first';

/*
 * The pool's row is its lock: a scheduling cycle, and whoever changes the
 * pool's nodes, counts cycle up.  The default pool's row appears with its
 * first node, so that a restored one does not collide.
 */
CREATE TABLE gpucredit.pool (
	pool text COLLATE "C" NOT NULL,
	policy jsonb NOT NULL,
	cycle bigint NOT NULL DEFAULT 0,	/* decisions and changes so far */
	shape bigint NOT NULL DEFAULT 0,	/* names the set of its nodes */
	created_at timestamptz NOT NULL,
	CONSTRAINT pool_pkey PRIMARY KEY (pool)
) WITH (fillfactor = 50);
COMMENT ON TABLE gpucredit.pool IS 'Sets of nodes scheduled together';

CREATE TABLE gpucredit.node (
	node text COLLATE "C" NOT NULL,
	pool text COLLATE "C" NOT NULL,
	gpu_type text COLLATE "C" NOT NULL,
	gpus int NOT NULL,
	gpu_memory_mib bigint NOT NULL,
	cpu_milli bigint NOT NULL,	/* 0: not limited */
	memory_mib bigint NOT NULL,
	nvlink_domain text COLLATE "C",	/* NULL: the node is one */
	leaf text COLLATE "C",			/* NULL: one of its own */
	spot boolean NOT NULL,
	labels jsonb NOT NULL,
	healthy gpucredit.gpuset NOT NULL,
	tells_running boolean NOT NULL DEFAULT false,
	heard_at timestamptz NOT NULL,
	draining text,				/* the reason */
	drain_deadline timestamptz,
	registered_at timestamptz NOT NULL,
	CONSTRAINT node_pkey PRIMARY KEY (node),
	CONSTRAINT node_gpus CHECK (gpus BETWEEN 0 AND 64)
) WITH (fillfactor = 50);
CREATE INDEX node_pool ON gpucredit.node (pool);
COMMENT ON TABLE gpucredit.node IS
'Machines with their devices, as registered and as last heard of';

DO $dump$
DECLARE
	name text;
BEGIN
	FOREACH name IN ARRAY ARRAY['price', 'tier_custom', 'pool', 'node']
	LOOP
		PERFORM pg_catalog.pg_extension_config_dump(
			('gpucredit.' || name)::regclass, '');
	END LOOP;
END
$dump$;

/* Setting up */

CREATE FUNCTION gpucredit.set_price(gpu_type text, per_gpu_hour numeric,
	pool text DEFAULT NULL, effective_at timestamptz DEFAULT NULL,
	spot boolean DEFAULT false) RETURNS void
LANGUAGE c VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'gpucredit_set_price';
COMMENT ON FUNCTION gpucredit.set_price(text, numeric, text, timestamptz,
	boolean) IS
'Sets what a GPU of a type costs; history is kept, and jobs submitted before keep their price.
per_gpu_hour: credits per GPU and hour, 0 or more. pool: NULL for every pool; a pool''s own price wins. effective_at: NULL, at once. spot: the price on spot nodes (none: as on others).
Errors: UC401 no such pool; 22003, 22023.';

CREATE FUNCTION gpucredit.create_pool(pool text, policy jsonb DEFAULT '{}')
RETURNS void
LANGUAGE c VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'gpucredit_create_pool';
COMMENT ON FUNCTION gpucredit.create_pool(text, jsonb) IS
'Creates a pool, or sets the policy of one that is there; pool "default" needs no creating.
policy: has no words yet, so anything but {} is 22023.
Errors: 22023.';

CREATE FUNCTION gpucredit.set_tier(tier text, rank int, preemptible text,
	can_preempt boolean, grace interval DEFAULT '2 min',
	min_run interval DEFAULT '10 min', max_wall interval DEFAULT '24 h',
	max_wait interval DEFAULT '24 h', bill_lost_work boolean DEFAULT true)
RETURNS void
LANGUAGE c VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'gpucredit_set_tier';
COMMENT ON FUNCTION gpucredit.set_tier(text, int, text, boolean, interval,
	interval, interval, interval, boolean) IS
'Creates a tier or replaces one, built-in ones included.
rank: 0 to 1000, low goes first. preemptible: never, reclaim, capacity. grace, min_run, max_wait: 0 or more. max_wall: above 0, NULL for no limit. bill_lost_work: false gives back, at settlement, what was spent since its last checkpoint on an attempt whose job goes back to the queue (preempted, its node lost, resized, failed and tried again).
Errors: 22023.';

/* Nodes */

CREATE FUNCTION gpucredit.register_node(pool text, node text, gpu_type text,
	gpus int, gpu_memory_mib bigint, cpu_milli bigint DEFAULT 0,
	memory_mib bigint DEFAULT 0, nvlink_domain text DEFAULT NULL,
	leaf text DEFAULT NULL, spot boolean DEFAULT false,
	labels jsonb DEFAULT '{}') RETURNS void
LANGUAGE c VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'gpucredit_register_node';
COMMENT ON FUNCTION gpucredit.register_node(text, text, text, int, bigint,
	bigint, bigint, text, text, boolean, jsonb) IS
'Registers a node, or changes one that is there; counts as a heartbeat with all devices healthy.
gpus: 0 to 64 devices, numbered from 0. gpu_memory_mib: of each. cpu_milli (thousandths of a core), memory_mib: of the node, 0 for not limited. nvlink_domain: NULL, the node is one. leaf: NULL, one of its own.
Errors: UC401 no such pool; UC303 moving to another pool, changing type or spot, or shrinking below live attempts; 22023.';

CREATE TYPE gpucredit.heartbeat_result AS (org text, job bigint, attempt int,
	action text, gpus gpucredit.gpuset, share int, deadline timestamptz,
	time_left interval, spec jsonb);

CREATE FUNCTION gpucredit.drain(node text, reason text,
	deadline timestamptz DEFAULT NULL) RETURNS void
LANGUAGE c VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'gpucredit_drain';
COMMENT ON FUNCTION gpucredit.drain(text, text, timestamptz) IS
'Lets nothing new land on a node. deadline: what runs there is told to checkpoint, and to stop from then on; NULL: it may finish.
Errors: UC401 no such node; 22023.';

CREATE FUNCTION gpucredit.resume(node text) RETURNS void
LANGUAGE c VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'gpucredit_resume';
COMMENT ON FUNCTION gpucredit.resume(text) IS
'Ends the draining of a node; attempts told to leave for it, and not for another, may stay.
Errors: UC401 no such node.';

CREATE FUNCTION gpucredit.remove_node(node text) RETURNS void
LANGUAGE c VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'gpucredit_remove_node';
COMMENT ON FUNCTION gpucredit.remove_node(text) IS
'Forgets a node on which nothing runs.
Errors: UC401 no such node; UC303 while attempts live there.';

/*
 * 60_job.sql: jobs and their attempts.
 *
 * A job holds credit from submission, waits in its pool's queue, and runs as
 * one attempt after another.  An attempt has devices, a price fixed by the
 * job's hold, and a cumulative elapsed time; it is settled exactly once, and
 * ending it is what frees its devices.
 */
CREATE FUNCTION gpucredit.job_is_sound(state text, ended_at timestamptz)
RETURNS boolean
LANGUAGE c IMMUTABLE PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_job_is_sound';
COMMENT ON FUNCTION gpucredit.job_is_sound(text, timestamptz) IS
'Internal: the state is known, and it is over exactly when it has ended.';

CREATE TABLE gpucredit.job (
	org text COLLATE "C" NOT NULL,
	job bigint GENERATED BY DEFAULT AS IDENTITY,
	account text COLLATE "C" NOT NULL,
	pool text COLLATE "C" NOT NULL,
	tier text COLLATE "C" NOT NULL,
	request gpucredit.gpureq NOT NULL,
	topology text NOT NULL,
	preemptible text NOT NULL,
	priority int NOT NULL,
	cpu_milli bigint NOT NULL,
	memory_mib bigint NOT NULL,
	wall_limit interval,		/* NULL: none */
	hold_window interval,		/* NULL: all of wall_limit is held */
	max_retries int NOT NULL,
	spec jsonb NOT NULL,
	options jsonb NOT NULL,
	/* what it accepts and was offered, in order of preference */
	offer_types text[] NOT NULL,
	offer_memory bigint[] NOT NULL,		/* bytes of each GPU at least */
	offer_prices gpucredit.credits[] NOT NULL,
	offer_spot_prices gpucredit.credits[] NOT NULL,
	/* where it stands; active: its attempt says how */
	state text NOT NULL,
	hold bigint NOT NULL,		/* the present one, or the last */
	attempt int NOT NULL DEFAULT 0,		/* the last one */
	failures int NOT NULL DEFAULT 0,
	cancelled boolean NOT NULL DEFAULT false,	/* asked for while it ran */
	submitted_at timestamptz NOT NULL,
	not_before timestamptz,		/* backoff */
	ended_at timestamptz,
	CONSTRAINT job_pkey PRIMARY KEY (org, job),
	CONSTRAINT job_sound CHECK (gpucredit.job_is_sound(state, ended_at))
) WITH (fillfactor = 70);
CREATE INDEX job_queue ON gpucredit.job (pool) WHERE state = 'queued';
CREATE INDEX job_unfunded ON gpucredit.job (pool) WHERE state = 'unfunded';
CREATE INDEX job_open ON gpucredit.job (org, account) WHERE ended_at IS NULL;
COMMENT ON TABLE gpucredit.job IS 'What tenants submitted';

/*
 * No CHECKs here: each would be parsed anew at every heartbeat.  verify()
 * knows what they would say.
 */
CREATE TABLE gpucredit.attempt (
	org text COLLATE "C" NOT NULL,
	job bigint NOT NULL,
	attempt int NOT NULL,
	account text COLLATE "C" NOT NULL,
	pool text COLLATE "C" NOT NULL,
	hold bigint NOT NULL,
	gpu_type text,				/* NULL: no GPUs */
	gpus int NOT NULL,
	share int NOT NULL,			/* thousandths of a GPU each */
	per_gpu_hour gpucredit.credits NOT NULL,
	wall_limit interval,		/* as the job's */
	hold_window interval,		/* as the job's */
	started_at timestamptz NOT NULL,
	held gpucredit.credits NOT NULL,	/* the bill never passes it */
	surplus gpucredit.credits NOT NULL,	/* held too much, to give back */
	logged interval NOT NULL DEFAULT '0',	/* elapsed of the last usage row */
	skewed_at timestamptz,		/* elapsed was first cut */
	starved boolean NOT NULL DEFAULT false,	/* an extension was denied */
	/* what a heartbeat changes; none of it is indexed */
	running_at timestamptz,		/* the first heartbeat */
	heard_at timestamptz,
	elapsed interval NOT NULL DEFAULT '0',
	progress bigint,
	utilization real,
	/* the settlement, stored for whoever settles again */
	ended_at timestamptz,
	outcome text,
	billed gpucredit.credits,
	released gpucredit.credits,
	lapsed gpucredit.credits,
	refunded gpucredit.credits,
	job_state text,
	retry_at timestamptz,
	exit_code int,
	message text,
	log_uri text,
	CONSTRAINT attempt_pkey PRIMARY KEY (org, job, attempt)
) WITH (fillfactor = 50);
CREATE INDEX attempt_live ON gpucredit.attempt (org, account)
	WHERE ended_at IS NULL;
CREATE INDEX attempt_surplus ON gpucredit.attempt (pool)
	WHERE surplus > '0' AND ended_at IS NULL;
COMMENT ON TABLE gpucredit.attempt IS
'Runs of jobs: devices, price, cumulative elapsed time, settlement';

CREATE TABLE gpucredit.attempt_gpu (
	org text COLLATE "C" NOT NULL,
	job bigint NOT NULL,
	attempt int NOT NULL,
	node text COLLATE "C" NOT NULL,
	pool text COLLATE "C" NOT NULL,
	gpus gpucredit.gpuset NOT NULL,
	share int NOT NULL,
	cpu_milli bigint NOT NULL,
	memory_mib bigint NOT NULL,
	ended_at timestamptz,		/* over, but not seen gone by its agent */
	free boolean NOT NULL DEFAULT false,	/* may be given out again */
	CONSTRAINT attempt_gpu_pkey PRIMARY KEY (org, job, attempt, node)
);
CREATE INDEX attempt_gpu_taken ON gpucredit.attempt_gpu (pool, node)
	WHERE NOT free;
COMMENT ON TABLE gpucredit.attempt_gpu IS
'Which devices of which nodes an attempt has, or had';

/* A row of its own, so that telling an attempt never waits for its agent. */
CREATE TABLE gpucredit.directive (
	org text COLLATE "C" NOT NULL,
	job bigint NOT NULL,
	attempt int NOT NULL,
	cause text NOT NULL,		/* cancel, or drain/node */
	action text NOT NULL,
	reason text NOT NULL,
	deadline timestamptz,		/* checkpoint turns to stop */
	given_at timestamptz NOT NULL,
	CONSTRAINT directive_pkey PRIMARY KEY (org, job, attempt, cause),
	CONSTRAINT directive_action CHECK (action IN ('checkpoint', 'stop'))
);
COMMENT ON TABLE gpucredit.directive IS
'What a live attempt is told to do, by cause; means nothing once it ended';

/* No key: elapsed only grows, that deduplicates. */
CREATE TABLE gpucredit.usage (
	org text COLLATE "C" NOT NULL,
	job bigint NOT NULL,
	attempt int NOT NULL,
	at timestamptz NOT NULL,
	elapsed interval NOT NULL,
	billed gpucredit.credits NOT NULL,	/* so far, in this attempt */
	progress bigint,
	utilization real
);
CREATE INDEX usage_attempt ON gpucredit.usage (org, job, attempt);
COMMENT ON TABLE gpucredit.usage IS
'Append-only: metered usage, at most every gpucredit.usage_interval per attempt and at settlement';

CREATE TRIGGER usage_append_only BEFORE UPDATE OR DELETE OR TRUNCATE
	ON gpucredit.usage
	FOR EACH STATEMENT EXECUTE FUNCTION gpucredit.refuse_change();
ALTER TABLE gpucredit.usage ENABLE ALWAYS TRIGGER usage_append_only;

DO $dump$
DECLARE
	name text;
BEGIN
	FOREACH name IN ARRAY ARRAY['job', 'job_job_seq', 'attempt', 'attempt_gpu',
	'directive', 'usage']
	LOOP
		PERFORM pg_catalog.pg_extension_config_dump(
			('gpucredit.' || name)::regclass, '');
	END LOOP;
END
$dump$;

CREATE TYPE gpucredit.reserve_result AS (job bigint, status text,
	reason text, held numeric, replayed boolean);
CREATE TYPE gpucredit.meter_result AS (action text, reason text,
	billed numeric, held numeric, deadline timestamptz, time_left interval);
CREATE TYPE gpucredit.meter_batch_result AS (ordinal int, org text,
	job bigint, attempt int, action text, reason text, billed numeric,
	held numeric, deadline timestamptz, time_left interval);
CREATE TYPE gpucredit.settle_result AS (outcome text, billed numeric,
	released numeric, lapsed numeric, refunded numeric, job_state text,
	retry_at timestamptz, replayed boolean);
CREATE TYPE gpucredit.cancel_result AS (job_state text, replayed boolean);

CREATE FUNCTION gpucredit.reserve(org text, account text, key text,
	request text, wall_limit interval DEFAULT NULL,
	tier text DEFAULT 'standard_training', pool text DEFAULT 'default',
	topology text DEFAULT 'any', preemptible text DEFAULT NULL,
	max_retries int DEFAULT 3, cpu_milli bigint DEFAULT 0,
	memory_mib bigint DEFAULT 0, hold_window interval DEFAULT NULL,
	spec jsonb DEFAULT '{}', options jsonb DEFAULT '{}')
RETURNS gpucredit.reserve_result
LANGUAGE c VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'gpucredit_reserve';
COMMENT ON FUNCTION gpucredit.reserve(text, text, text, text, interval, text,
	text, text, text, int, bigint, bigint, interval, jsonb, jsonb) IS
'Submits a job: holds its credit and queues it.
request: a gpureq, as "8xH100|A100@40GB". wall_limit: NULL for the tier''s max_wall, which it may not pass. topology: any, node, nvlink, leaf. preemptible: as the tier (NULL) or more willing. max_retries: 0 to 1000 failures tried again. cpu_milli (thousandths of a core), memory_mib: of the whole job. hold_window: hold for this long at a time. options: {"priority": n, "prefer": "nvlink"|"leaf"|"node"}.
Result: status granted, or denied (job NULL, held 0) with reason insufficient_credits, account_suspended, no_price, impossible_request.
Errors: UC001 no such account; UC201 key used with other arguments; UC401 pool; UC402 tier or GPU type; 22P02 request; 22023.';

CREATE FUNCTION gpucredit.meter(org text, job bigint, attempt int,
	elapsed interval, progress bigint DEFAULT NULL,
	utilization real DEFAULT NULL) RETURNS gpucredit.meter_result
LANGUAGE c VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'gpucredit_meter';
COMMENT ON FUNCTION gpucredit.meter(text, bigint, int, interval, bigint,
	real) IS
'An attempt''s heartbeat.
elapsed: how long the attempt has run, cumulative, by the agent''s monotonic clock; one that is not more than the last changes nothing. progress: any growing count. utilization: 0 to 1.
Result: action continue, checkpoint (save now, gone by deadline) or stop (now), why, billed so far, held for the attempt, when it would have to stop as things are, and how long until then.
Errors: UC301 no such job; UC302 no such attempt; 22023.';

CREATE FUNCTION gpucredit.meter_batch(org text[], job bigint[],
	attempt int[], elapsed interval[], progress bigint[] DEFAULT NULL,
	utilization real[] DEFAULT NULL)
RETURNS SETOF gpucredit.meter_batch_result
LANGUAGE c VOLATILE SECURITY DEFINER ROWS 1000
SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'gpucredit_meter_batch';
COMMENT ON FUNCTION gpucredit.meter_batch(text[], bigint[], int[],
	interval[], bigint[], real[]) IS
'Many heartbeats in one call, as meter; never waits for a row another transaction holds (that heartbeat is answered from what is known, reason busy).
Result: a row per input, in order; one that names nothing real gets action stop, reason unknown.
Errors: 22023 arrays of unequal length, or NULL in one of the first four.';

CREATE FUNCTION gpucredit.settle(org text, job bigint, attempt int,
	outcome text, elapsed interval DEFAULT NULL, exit_code int DEFAULT NULL,
	message text DEFAULT NULL, log_uri text DEFAULT NULL)
RETURNS gpucredit.settle_result
LANGUAGE c VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'gpucredit_settle';
COMMENT ON FUNCTION gpucredit.settle(text, bigint, int, text, interval, int,
	text, text) IS
'Ends an attempt, exactly once: its bill is spent, the rest of the hold goes back to the very buckets it came from, its devices are free.
outcome: completed, failed, out_of_memory, timeout, preempted, cancelled, node_lost, resized. elapsed: final, cumulative; NULL or less than metered: what was metered stands; agents only. exit_code, message: what the retry rules look at (table retry_rule): failed and out_of_memory are tried again, within max_retries, or end the job at once. SIGTERM or SIGKILL (143, 137) of an attempt that was told to leave counts as preempted.
Result: the stored settlement; refunded: what the tier does not bill of work the job must do again; the job''s state, and when it may start again; replayed: it was settled before.
Errors: UC301 no such job; UC302 no such attempt; 22023; 42501 elapsed by one who is not an agent.';

CREATE FUNCTION gpucredit.cancel(org text, job bigint, key text,
	reason text DEFAULT NULL) RETURNS gpucredit.cancel_result
LANGUAGE c VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'gpucredit_cancel';
COMMENT ON FUNCTION gpucredit.cancel(text, bigint, text, text) IS
'Cancels a job: one that waits ends now, one that runs is told to stop and ends when its agent settles it; one that is over stays as it is.
Result: the job''s state after the call.
Errors: UC301 no such job; UC201 key used with other arguments; 22023.';

CREATE FUNCTION gpucredit.heartbeat(node text,
	healthy gpucredit.gpuset DEFAULT NULL, running text[] DEFAULT NULL)
RETURNS SETOF gpucredit.heartbeat_result
LANGUAGE c VOLATILE SECURITY DEFINER ROWS 8
SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'gpucredit_heartbeat';
COMMENT ON FUNCTION gpucredit.heartbeat(text, gpucredit.gpuset, text[]) IS
'A node''s sign of life.
healthy: its devices in order, NULL for all. running: what really runs there, as ''org/job/attempt''; NULL: not told.
Result: what the node should be doing now, a row per attempt: start, continue, checkpoint or stop, with its devices.
Errors: UC401 no such node; 22023 a device the node has not, or a malformed name.';

/*
 * 65_lifecycle.sql: what becomes of a job when an attempt ends badly.
 *
 * Checkpoints say where its next attempt may go on.  Retry rules say whether
 * there is one.  The sweeps end attempts and holds that nobody ends.
 */

/* The built-in rules live apart, so that a dump carries only the user's. */
CREATE TABLE gpucredit.retry_rule_builtin (
	rule text COLLATE "C" NOT NULL,
	priority int NOT NULL,		/* low goes first */
	class text NOT NULL,
	outcome text,				/* NULL: any */
	exit_codes int4range,		/* NULL: any, also none */
	message text COLLATE "C",	/* a regular expression; NULL: any */
	advice text,
	CONSTRAINT retry_rule_builtin_pkey PRIMARY KEY (rule)
);
COMMENT ON TABLE gpucredit.retry_rule_builtin IS
'The retry rules every installation has';

INSERT INTO gpucredit.retry_rule_builtin VALUES
	('out_of_memory', 1000, 'permanent', 'out_of_memory', NULL, NULL,
		'It ran out of memory, and would again: ask for GPUs with more memory (as "A100@80GB"), for more memory_mib, or make the batch smaller.'),
	('gpu_memory', 1100, 'permanent', NULL, NULL,
		'(?i)(cuda|hip)[^\n]{0,40}out of memory|OutOfMemoryError|CUBLAS_STATUS_ALLOC_FAILED',
		'The GPU''s memory was too small: ask for GPUs with more of it (as "A100@80GB"), for more of them, or make the batch smaller.'),
	('host_memory', 1110, 'permanent', NULL, NULL,
		'(?i)out of memory: kill|killed process|oom-?kill|cannot allocate memory|std::bad_alloc|\mMemoryError\M',
		'The host''s memory was too small: ask for more memory_mib, or fewer loader processes.'),
	('hardware', 1200, 'transient', NULL, NULL,
		'(?i)\mxid\M|uncorrectable ecc|\mecc error|double.?bit ecc|nccl[^\n]{0,200}(time.?out|timed out)|nccl (error|failure)|ncclSystemError|ncclInternalError|cuda error|cuda_error_|nvlink|fallen off the bus|gpu is lost',
		'A GPU, its links or its node failed: the job is tried again.'),
	('silent', 1300, 'transient', NULL, NULL, '^not heard from for ',
		'Its agent fell silent: the job is tried again. Should it have finished, look for the late report in its history.'),
	('killed', 1400, 'permanent', NULL, '[137,138)', NULL,
		'It was killed (SIGKILL), most likely for using too much of the host''s memory: ask for more memory_mib.'),
	('usage', 1410, 'permanent', NULL, '[2,3)', NULL,
		'The command refused its arguments (exit code 2): correct them.'),
	('command', 1420, 'permanent', NULL, '[126,128)', NULL,
		'The command could not be run or was not found (exit code 126 or 127): correct its path or the image.'),
	('otherwise', 1000000, 'transient', NULL, NULL, NULL, NULL);

CREATE TABLE gpucredit.retry_rule_custom (
	LIKE gpucredit.retry_rule_builtin,
	CONSTRAINT retry_rule_custom_pkey PRIMARY KEY (rule),
	CONSTRAINT retry_rule_custom_class
		CHECK (class IN ('transient', 'permanent')),
	CONSTRAINT retry_rule_custom_outcome
		CHECK (outcome IN ('failed', 'out_of_memory'))
);
COMMENT ON TABLE gpucredit.retry_rule_custom IS
'Retry rules set by set_retry_rule; one of a built-in''s name replaces it';

CREATE VIEW gpucredit.retry_rule AS
	SELECT * FROM gpucredit.retry_rule_custom
	UNION ALL
	SELECT * FROM gpucredit.retry_rule_builtin b
	WHERE NOT EXISTS (SELECT FROM gpucredit.retry_rule_custom c
		WHERE c.rule = b.rule);
COMMENT ON VIEW gpucredit.retry_rule IS
'The retry rules in force: the first that matches, by priority and name, says whether a failed attempt is tried again';

CREATE TABLE gpucredit.checkpoint (
	org text COLLATE "C" NOT NULL,
	job bigint NOT NULL,
	attempt int NOT NULL,
	step bigint NOT NULL,
	uri text NOT NULL,
	sha256 bytea NOT NULL,
	size_bytes bigint NOT NULL,
	at timestamptz NOT NULL,
	elapsed interval NOT NULL,	/* of the attempt, metered by then */
	CONSTRAINT checkpoint_pkey PRIMARY KEY (org, job, attempt, step),
	CONSTRAINT checkpoint_sha256 CHECK (octet_length(sha256) = 32),
	CONSTRAINT checkpoint_numbers CHECK (step >= 0 AND size_bytes >= 0
		AND elapsed >= '0')
);
COMMENT ON TABLE gpucredit.checkpoint IS
'What attempts saved; a job''s next attempt goes on from the last step of the last attempt that saved any';

SELECT pg_catalog.pg_extension_config_dump('gpucredit.retry_rule_custom', '');
SELECT pg_catalog.pg_extension_config_dump('gpucredit.checkpoint', '');

CREATE FUNCTION gpucredit.set_retry_rule(rule text, class text,
	priority int DEFAULT 100, outcome text DEFAULT NULL,
	exit_codes int4range DEFAULT NULL, message text DEFAULT NULL,
	advice text DEFAULT NULL) RETURNS void
LANGUAGE c VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'gpucredit_set_retry_rule';
COMMENT ON FUNCTION gpucredit.set_retry_rule(text, text, int, text,
	int4range, text, text) IS
'Says whether attempts that end in a certain way are tried again; of the rules that match, the one of the lowest priority holds (built-in ones have 1000 and more).
class: transient (tried again, within the job''s max_retries) or permanent; NULL removes the rule, or gives a built-in one of that name back. outcome: failed, out_of_memory, NULL for both. exit_codes: as ''[137,137]''; message: a regular expression of at most 256 bytes, without back references, that the message''s first 4096 characters match; NULL for either: whatever it is. advice: what the audit row and the job''s history say.
A preemption or the loss of a node needs no rule: it is no failure. Nor is SIGTERM or SIGKILL (exit codes 143, 137) of an attempt that was told to stop or to save.
Errors: 22023.';

CREATE FUNCTION gpucredit.checkpoint(org text, job bigint, attempt int,
	step bigint, uri text, sha256 bytea, size_bytes bigint) RETURNS void
LANGUAGE c VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'gpucredit_checkpoint';
COMMENT ON FUNCTION gpucredit.checkpoint(text, bigint, int, bigint, text,
	bytea, bigint) IS
'An attempt has saved its state, where the job''s next attempt may go on; heartbeat hands the last one out in spec, as "checkpoint".
step: 0 or more, growing within the attempt; the same again with the same values changes nothing. uri: where it is. sha256: of its content, 32 bytes. size_bytes: 0 or more.
What the attempt has metered by then is what it counts for: so meter first.
Errors: UC301 no such job; UC302 no such attempt; UC303 the attempt is over; 22023 anything malformed, or a step that is not above the last.';

/*
 * Sweeps.  Each thing is ended in a subtransaction of its own, so that one
 * that cannot be ended now stops no other.
 */
CREATE TYPE gpucredit.sweep_result AS (task text, affected bigint);

CREATE FUNCTION gpucredit.reap_holds() RETURNS SETOF gpucredit.sweep_result
LANGUAGE c VOLATILE SECURITY DEFINER ROWS 3
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '10ms'
AS 'MODULE_PATHNAME', 'gpucredit_reap_holds';
COMMENT ON FUNCTION gpucredit.reap_holds() IS
'Releases callers'' holds past their ttl, and settles attempts not heard from for gpucredit.meter_lost (counted from the last heartbeat, before the first one from the start, and never from before the server came up) at what was last metered.
Such an attempt has failed with message "not heard from for ...", and its job is requeued or ended by the retry rules (built in: tried again, within max_retries); node_lost where a node of it is silent too, preempted where it had been told to leave: neither counts as a failure. Its devices stay out of use until its agents tell that it is gone, or gpucredit.node_lost has passed. A report that comes later gets the stored settlement, and what it claims more is audited (decision late), never billed.
Does at most 1000 of each a call, in half a second; what other transactions hold is left for the next call.
Result: release_holds, settle_silent, and skipped: how many could not be had now.';

CREATE FUNCTION gpucredit.check_nodes() RETURNS SETOF gpucredit.sweep_result
LANGUAGE c VOLATILE SECURITY DEFINER ROWS 2
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '10ms'
AS 'MODULE_PATHNAME', 'gpucredit_check_nodes';
COMMENT ON FUNCTION gpucredit.check_nodes() IS
'Settles the attempts on nodes not heard from for gpucredit.node_lost as node_lost, at what was last metered; their jobs are requeued, which counts as no failure. Silence counts from the last heartbeat, and never from before the server came up.
Nothing depends on its being called: no work is placed on a silent node, and its devices are not given out while its agent may still be at work.
Does at most 1000 a call, in half a second; what other transactions hold is left for the next call.
Result: settle_node_lost, and skipped: how many could not be had now.';

/* Upkeep by pg_cron */

CREATE FUNCTION gpucredit.cron_tasks()
RETURNS TABLE (task text, schedule text, command text)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT t.name, t.schedule, t.command
	FROM (VALUES
		('maintain', '* * * * *', 'SELECT * FROM gpucredit.maintain()'),
		('expire_credits', '* * * * *',
			'SELECT * FROM gpucredit.expire_credits()'),
		('reap_holds', '* * * * *', 'SELECT * FROM gpucredit.reap_holds()'),
		('check_nodes', '* * * * *', 'SELECT * FROM gpucredit.check_nodes()'),
		('seal_audit', '* * * * *', 'SELECT * FROM gpucredit.seal_audit()'))
		AS t (name, schedule, command)
	WHERE to_regprocedure('gpucredit.' || t.name || '()') IS NOT NULL
	UNION ALL
	SELECT 'prune_log', '17 3 * * *',
		'DELETE FROM cron.job_run_details d'
		' WHERE d.command LIKE ''%gpucredit.%'''
		' AND coalesce(d.end_time, d.start_time)'
		' < pg_catalog.now() - interval ''3 days''';
END;
COMMENT ON FUNCTION gpucredit.cron_tasks() IS
'install_jobs: what runs when.';

/* pg_cron keeps 63 bytes of a name. */
CREATE FUNCTION gpucredit.cron_job_name(task text, database text)
RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT CASE WHEN octet_length(database) <= 36
		THEN format('gpucredit %s %s', task, database)
		ELSE format('gpucredit %s %s', task, md5(database)) END;
END;
COMMENT ON FUNCTION gpucredit.cron_job_name(text, text) IS
'install_jobs: the name of a task''s job in pg_cron.';

/*
 * Refuses where pg_cron cannot be reached from here; the hint is SQL to run
 * as it stands.
 */
CREATE FUNCTION gpucredit.require_cron(removing boolean) RETURNS void
LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
DECLARE
	home text := pg_catalog.current_setting('cron.database_name', true);
	here text := pg_catalog.current_database();
BEGIN
	IF home IS NULL THEN
		RAISE EXCEPTION 'pg_cron is not loaded'
			USING ERRCODE = 'object_not_in_prerequisite_state',
			DETAIL = 'Its background worker is what would run the jobs.',
			HINT = format('Set shared_preload_libraries = ''pg_cron'' and'
				' cron.database_name = ''%s'' in postgresql.conf, restart,'
				' and run: CREATE EXTENSION pg_cron;', here);
	END IF;
	IF home <> here THEN
		RAISE EXCEPTION 'pg_cron lives in database "%"', home
			USING ERRCODE = 'object_not_in_prerequisite_state',
			DETAIL = 'Its jobs can be set up in that database only.',
			HINT = 'Run there, as a superuser: ' || (SELECT string_agg(
				format(CASE
					WHEN removing THEN 'SELECT cron.unschedule(%L);'
					WHEN t.task = 'prune_log'
					THEN 'SELECT cron.schedule(%L, %L, %L);'
					ELSE 'SELECT cron.schedule_in_database(%L, %L, %L, %L);'
					END, gpucredit.cron_job_name(t.task, here), t.schedule,
					t.command, here), ' ') FROM gpucredit.cron_tasks() t);
	END IF;
	IF NOT EXISTS (SELECT FROM pg_catalog.pg_extension e
		WHERE e.extname = 'pg_cron')
	THEN
		RAISE EXCEPTION 'extension pg_cron is not there'
			USING ERRCODE = 'object_not_in_prerequisite_state',
			DETAIL = 'It is loaded, but not created in this database.',
			HINT = 'Run, as a superuser: CREATE EXTENSION pg_cron;';
	END IF;
END
$$;
COMMENT ON FUNCTION gpucredit.require_cron(boolean) IS
'install_jobs: refuses where there is no pg_cron (55000), and says what to run.';

/* Takes away what is not wanted any more, as a task an upgrade dropped. */
CREATE FUNCTION gpucredit.unschedule(keep text[]) RETURNS int
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	n int;
BEGIN
	EXECUTE 'SELECT count(cron.unschedule(j.jobid)) FROM cron.job j'
		' WHERE j.jobname <> ALL ($1)'
		' AND substring(j.jobname::text FROM ''^gpucredit [^ ]+ (.*)$'') = $2'
	INTO n USING keep, substring(gpucredit.cron_job_name('any',
		pg_catalog.current_database()) FROM '^gpucredit [^ ]+ (.*)$');
	RETURN n;
END
$$;
COMMENT ON FUNCTION gpucredit.unschedule(text[]) IS
'install_jobs, remove_jobs: takes this database''s jobs out of pg_cron but for those named; how many.';

CREATE FUNCTION gpucredit.audit_jobs(operation text, decision text, n int)
RETURNS void
LANGUAGE sql VOLATILE PARALLEL UNSAFE
BEGIN ATOMIC
	INSERT INTO gpucredit.audit (org, at, login, actor, operation, decision,
		detail)
	VALUES ('', gpucredit.now(), session_user,
		coalesce(nullif(current_setting('role'), 'none'), session_user),
		audit_jobs.operation, audit_jobs.decision,
		jsonb_build_object('jobs', audit_jobs.n));
END;
COMMENT ON FUNCTION gpucredit.audit_jobs(text, text, int) IS
'install_jobs, remove_jobs: the audit row.';

CREATE FUNCTION gpucredit.install_jobs() RETURNS int
LANGUAGE plpgsql VOLATILE SECURITY DEFINER PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	t record;
	names text[] := '{}';
BEGIN
	PERFORM gpucredit.require_cron(false);
	FOR t IN SELECT gpucredit.cron_job_name(c.task,
			pg_catalog.current_database()) AS name, c.schedule, c.command
		FROM gpucredit.cron_tasks() c
	LOOP
		EXECUTE 'SELECT cron.alter_job(cron.schedule($1, $2, $3),'
			' active => true)'
			USING t.name, t.schedule, t.command;
		names := names || t.name;
	END LOOP;
	PERFORM gpucredit.unschedule(names);
	PERFORM gpucredit.audit_jobs('install_jobs', 'installed',
		cardinality(names));
	RETURN cardinality(names);
END
$$;
COMMENT ON FUNCTION gpucredit.install_jobs() IS
'Has pg_cron do the upkeep, as the owner of the extension: maintain, reap_holds, check_nodes, expire_credits and seal_audit each minute, and once a day the log of their runs older than 3 days deleted. Calling again puts back what was changed. Before DROP EXTENSION gpucredit, call remove_jobs.
Result: the number of jobs; gpucredit.cron_status shows how they fare.
Errors: 55000 where pg_cron is not loaded, not created, or lives in another database; the hint is the SQL to run there.';

CREATE FUNCTION gpucredit.remove_jobs() RETURNS int
LANGUAGE plpgsql VOLATILE SECURITY DEFINER PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	n int;
BEGIN
	PERFORM gpucredit.require_cron(true);
	n := gpucredit.unschedule('{}');
	PERFORM gpucredit.audit_jobs('remove_jobs', 'removed', n);
	RETURN n;
END
$$;
COMMENT ON FUNCTION gpucredit.remove_jobs() IS
'Takes the jobs of install_jobs out of pg_cron.
Result: how many there were. Errors: 55000 as install_jobs.';

CREATE TYPE gpucredit.cron_status_result AS (job text, schedule text,
	active boolean, last_status text, last_message text,
	last_started_at timestamptz, last_ended_at timestamptz,
	failures bigint);

CREATE FUNCTION gpucredit.cron_jobs()
RETURNS SETOF gpucredit.cron_status_result
LANGUAGE plpgsql STABLE SECURITY DEFINER PARALLEL UNSAFE ROWS 10
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF NOT EXISTS (SELECT FROM pg_catalog.pg_extension e
		WHERE e.extname = 'pg_cron')
	THEN
		RETURN;
	END IF;
	RETURN QUERY EXECUTE
		'SELECT j.jobname::text, j.schedule, j.active, r.status,'
		' r.return_message, r.start_time, r.end_time, coalesce(f.n, 0)'
		' FROM cron.job j'
		' LEFT JOIN (SELECT DISTINCT ON (d.jobid) d.*'
		'  FROM cron.job_run_details d ORDER BY d.jobid, d.runid DESC) r'
		'  ON r.jobid = j.jobid'
		' LEFT JOIN (SELECT d.jobid, count(*) AS n'
		'  FROM cron.job_run_details d WHERE d.status = ''failed'''
		'  GROUP BY d.jobid) f ON f.jobid = j.jobid'
		' WHERE j.jobname LIKE ''gpucredit %'' ORDER BY j.jobname';
END
$$;
COMMENT ON FUNCTION gpucredit.cron_jobs() IS
'cron_status: the jobs in pg_cron; none where there is no pg_cron.';

CREATE VIEW gpucredit.cron_status AS
	SELECT * FROM gpucredit.cron_jobs();
COMMENT ON VIEW gpucredit.cron_status IS
'The jobs of install_jobs, with the last run of each and how many of the logged ones failed; also those set up for other databases, where pg_cron lives here';

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

/*
 * 80_observe.sql: what there is, and what became of it.
 *
 * Everything here reads: one call is one snapshot and one instant.  Time
 * alone moves credit, whether or not a sweep has booked it yet: a bucket is
 * active in [effective_at, expires_at) until it is closed, and a caller's own
 * hold is dead from its ttl on, its credit back in its buckets.
 *
 * "Path": an account and its ancestors, whose buckets it may spend.
 * "Below": an account and its descendants.
 */
CREATE FUNCTION gpucredit.account_path(account text) RETURNS text[]
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
BEGIN ATOMIC
	SELECT array_agg(array_to_string(s.segments[1:n.n], '/')
		ORDER BY n.n DESC)
	FROM string_to_array(account_path.account, '/') AS s (segments),
		generate_series(0, cardinality(s.segments)) AS n (n);
END;
COMMENT ON FUNCTION gpucredit.account_path(text) IS
'An account and its ancestors, the account first, the organisation ('''') last.';

/*
 * Each arm is a range of an index on (org, account), empty where it does not
 * apply; '0' is the character after '/'.
 */
CREATE FUNCTION gpucredit.is_below(account text, top text) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT account = top COLLATE "C"
		OR (account > (top || '/') COLLATE "C"
			AND account < (top || '0') COLLATE "C")
		OR account > (CASE WHEN top = '' THEN '' END) COLLATE "C";
END;
COMMENT ON FUNCTION gpucredit.is_below(text, text) IS
'Whether an account is top or below it.';

CREATE FUNCTION gpucredit.kind_rank(kind text) RETURNS int
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT CASE kind WHEN 'promo' THEN 1 WHEN 'grant' THEN 2 ELSE 3 END;
END;
COMMENT ON FUNCTION gpucredit.kind_rank(text) IS
'Which kind of bucket burns first: promo, grant, paid.';

/* Balance */

CREATE TYPE gpucredit.balance_result AS (available numeric,
	spendable numeric, held numeric, used numeric, spent numeric,
	promo numeric, granted numeric, paid numeric,
	next_expiry_at timestamptz, next_expiry_amount numeric);

/* Of each bucket, what dead holds hold: free, but not booked as such yet. */
CREATE FUNCTION gpucredit.dead_held(org text, at timestamptz)
RETURNS TABLE (bucket bigint, held gpucredit.credits)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT p.bucket, sum(p.held)
	FROM gpucredit.hold h
		JOIN gpucredit.hold_part p ON p.org = dead_held.org
			AND p.hold = h.hold
	WHERE h.org = dead_held.org AND h.job IS NULL
		AND h.closed_at IS NULL AND h.expires_at <= dead_held.at
	GROUP BY p.bucket;
END;
COMMENT ON FUNCTION gpucredit.dead_held(text, timestamptz) IS
'What callers'' holds past their ttl still hold, by bucket.';

/* A bucket's availability as a balance. */
CREATE FUNCTION gpucredit.balance_of(room numeric, held numeric,
	used numeric, spent numeric, kinds text[], expiries timestamptz[], amounts numeric[])
RETURNS SETOF gpucredit.balance_result
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
	WITH b AS (
		SELECT * FROM unnest(kinds, expiries, amounts)
			AS b (kind, expires_at, amount)
		WHERE b.amount <> 0),
	total AS (
		SELECT coalesce(sum(b.amount), 0.000000) AS available,
			coalesce(sum(b.amount) FILTER (WHERE b.kind = 'promo'),
				0.000000) AS promo,
			coalesce(sum(b.amount) FILTER (WHERE b.kind = 'grant'),
				0.000000) AS granted,
			coalesce(sum(b.amount) FILTER (WHERE b.kind = 'paid'),
				0.000000) AS paid,
			min(b.expires_at) AS next_expiry_at
		FROM b)
	SELECT t.available,
		greatest(least(t.available, balance_of.room), 0.000000),
		coalesce(balance_of.held, 0.000000),
		coalesce(balance_of.used, 0.000000),
		coalesce(balance_of.spent, 0.000000), t.promo, t.granted, t.paid,
		t.next_expiry_at, (SELECT sum(b.amount) FROM b
			WHERE b.expires_at = t.next_expiry_at)
	FROM total t;
END;
COMMENT ON FUNCTION gpucredit.balance_of(numeric, numeric, numeric, numeric,
	text[], timestamptz[], numeric[]) IS
'A balance from what budgets leave room for (NULL: no budget), its sums, and the active buckets'' kinds, expiries and available amounts.';

/* A dead hold's part counts as free, whether or not it was released. */
CREATE FUNCTION gpucredit.budgets_at(org text, account text, at timestamptz)
RETURNS SETOF gpucredit.budgets_row
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT b.account, b.period, t.start, b.amount::numeric, r.reserved,
		r.spent, b.amount::numeric - r.reserved - r.spent, b.hard
	FROM gpucredit.budget b
		CROSS JOIN LATERAL (SELECT
			gpucredit.period_start(b.period, budgets_at.at) AS start) t
		LEFT JOIN gpucredit.budget_count c ON c.org = budgets_at.org
			AND c.account = b.account AND c.period = b.period
			AND c.period_start = t.start
		CROSS JOIN LATERAL (SELECT coalesce(c.reserved, '0')::numeric
			- coalesce((SELECT sum(hb.reserved)::numeric
				FROM gpucredit.hold h JOIN gpucredit.hold_budget hb
					ON hb.org = h.org AND hb.hold = h.hold
				WHERE h.org = budgets_at.org AND h.closed_at IS NULL
					AND h.expires_at <= budgets_at.at
					AND hb.account = b.account AND hb.period = b.period
					AND hb.period_start = t.start), 0),
			coalesce(c.spent, '0')::numeric) r (reserved, spent)
	WHERE b.org = budgets_at.org
		AND b.account = ANY (gpucredit.account_path(budgets_at.account))
	ORDER BY length(b.account) DESC, b.period;
END;
COMMENT ON FUNCTION gpucredit.budgets_at(text, text, timestamptz) IS
'The budgets on an account''s path in the periods an instant is in.';

CREATE FUNCTION gpucredit.budgets(org text, account text DEFAULT '')
RETURNS SETOF gpucredit.budgets_row
LANGUAGE sql STABLE SECURITY DEFINER PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
	SELECT gpucredit.require_account(budgets.org, budgets.account);
	WITH clock AS MATERIALIZED (SELECT gpucredit.now() AS at)
	SELECT b.* FROM clock c,
		LATERAL gpucredit.budgets_at(budgets.org, budgets.account, c.at) b;
END;
COMMENT ON FUNCTION gpucredit.budgets(text, text) IS
'The budgets on an account''s path, nearest first, with what the present period has left.
Errors: UC001 no such account; 22023.';

CREATE FUNCTION gpucredit.balance_now(org text, account text,
	at timestamptz) RETURNS SETOF gpucredit.balance_result
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	WITH b AS MATERIALIZED (
		SELECT b.bucket, b.kind, b.expires_at, b.available
		FROM gpucredit.bucket b
		WHERE b.org = balance_now.org
			AND b.account = ANY (gpucredit.account_path(balance_now.account))
			AND b.closed_at IS NULL AND b.effective_at <= balance_now.at
			AND coalesce(b.expires_at > balance_now.at, true))
	SELECT r.*
	FROM (SELECT array_agg(p.kind) AS kinds,
			array_agg(p.expires_at) AS expiries,
			array_agg(p.amount::numeric) AS amounts
		FROM (SELECT b.kind, b.expires_at, b.available FROM b
			UNION ALL
			SELECT b.kind, b.expires_at, d.held
			FROM gpucredit.dead_held(balance_now.org, balance_now.at) d
				JOIN b ON b.bucket = d.bucket) p (kind, expires_at, amount)
		) b,
	(SELECT sum(h.held)::numeric AS held FROM gpucredit.hold h
		WHERE h.org = balance_now.org
			AND gpucredit.is_below(h.account, balance_now.account)
			AND h.closed_at IS NULL
			AND coalesce(h.expires_at > balance_now.at, true)) h,
	(SELECT sum(gpucredit.bill(a.per_gpu_hour, a.gpus, a.share,
			a.elapsed, a.held))::numeric AS used
		FROM gpucredit.attempt a
		WHERE a.org = balance_now.org
			AND gpucredit.is_below(a.account, balance_now.account)
			AND a.ended_at IS NULL) a,
	(SELECT sum(s.spent)::numeric AS spent
		FROM (SELECT t.spent FROM gpucredit.spend_total t
			WHERE t.org = balance_now.org
				AND gpucredit.is_below(t.account, balance_now.account)
			UNION ALL
			SELECT d.spent FROM gpucredit.spend_delta d
			WHERE d.org = balance_now.org
				AND gpucredit.is_below(d.account, balance_now.account)) s) s,
	(SELECT min(u.remaining) AS room
		FROM gpucredit.budgets_at(balance_now.org, balance_now.account,
			balance_now.at) u WHERE u.hard) u,
	LATERAL gpucredit.balance_of(u.room, h.held, a.used, s.spent, b.kinds,
		b.expiries, b.amounts) r;
END;
COMMENT ON FUNCTION gpucredit.balance_now(text, text, timestamptz) IS
'The balance from the running figures; at: the present instant.';

/*
 * The past is told by the entries; what was used by the heartbeat, where the
 * last one is old enough, else by the usage that was logged.
 */
CREATE FUNCTION gpucredit.balance_at(org text, account text,
	at timestamptz) RETURNS SETOF gpucredit.balance_result
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	WITH flow AS MATERIALIZED (
		SELECT f.bucket, f.hold, f.account, f.available, f.held, f.spent,
			coalesce(h.expires_at <= balance_at.at, false) AS dead
		FROM (SELECT e.bucket, e.hold, e.account,
				coalesce(sum(CASE 'available' WHEN e.target THEN e.amount
					WHEN e.source THEN - e.amount END), '0') AS available,
				coalesce(sum(CASE 'held' WHEN e.target THEN e.amount
					WHEN e.source THEN - e.amount END), '0') AS held,
				coalesce(sum(CASE 'spent' WHEN e.target THEN e.amount
					WHEN e.source THEN - e.amount END), '0') AS spent
			FROM gpucredit.entry e
			WHERE e.org = balance_at.org AND e.at <= balance_at.at
			GROUP BY e.bucket, e.hold, e.account) f
			LEFT JOIN gpucredit.hold h ON h.org = balance_at.org
				AND h.hold = f.hold)
	SELECT r.*
	FROM (SELECT array_agg(b.kind) AS kinds,
			array_agg(b.expires_at) AS expiries,
			array_agg(f.available) AS amounts
		FROM gpucredit.bucket b
			JOIN (SELECT f.bucket, sum(f.available + CASE WHEN f.dead
					THEN f.held ELSE '0' END)::numeric AS available
				FROM flow f GROUP BY f.bucket) f ON f.bucket = b.bucket
		WHERE b.org = balance_at.org
			AND b.account = ANY (gpucredit.account_path(balance_at.account))
			AND coalesce(b.closed_at > balance_at.at, true)
			AND b.effective_at <= balance_at.at
			AND coalesce(b.expires_at > balance_at.at, true)) b,
	(SELECT sum(f.held) FILTER (WHERE NOT f.dead)::numeric AS held,
			sum(f.spent)::numeric AS spent
		FROM flow f
		WHERE gpucredit.is_below(f.account, balance_at.account)) f,
	(SELECT sum(CASE WHEN a.ended_at IS NULL
			AND coalesce(a.heard_at <= balance_at.at, true)
			THEN gpucredit.bill(a.per_gpu_hour, a.gpus, a.share,
				a.elapsed, a.held)
			ELSE (SELECT u.billed FROM gpucredit.usage u
				WHERE u.org = balance_at.org AND u.job = a.job
					AND u.attempt = a.attempt AND u.at <= balance_at.at
				ORDER BY u.elapsed DESC LIMIT 1)
			END)::numeric AS used
		FROM gpucredit.attempt a
		WHERE a.org = balance_at.org
			AND gpucredit.is_below(a.account, balance_at.account)
			AND a.started_at <= balance_at.at
			AND coalesce(a.ended_at > balance_at.at, true)) a,
	LATERAL gpucredit.balance_of(NULL, f.held, a.used, f.spent, b.kinds,
		b.expiries, b.amounts) r;
END;
COMMENT ON FUNCTION gpucredit.balance_at(text, text, timestamptz) IS
'The balance at a past instant, from the entries.';

/* PL/pgSQL, since it keeps its plans: a balance is asked for often. */
CREATE FUNCTION gpucredit.balance(org text, account text DEFAULT '',
	as_of timestamptz DEFAULT NULL) RETURNS gpucredit.balance_result
LANGUAGE plpgsql STABLE SECURITY DEFINER PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	at timestamptz := gpucredit.now();
	result gpucredit.balance_result;
BEGIN
	PERFORM gpucredit.require_account(balance.org, balance.account);
	IF balance.as_of < at THEN
		SELECT r.* INTO result FROM gpucredit.balance_at(balance.org,
			balance.account, balance.as_of) r;
	ELSE
		SELECT r.* INTO result FROM gpucredit.balance_now(balance.org,
			balance.account, at) r;
	END IF;
	RETURN result;
END
$$;
COMMENT ON FUNCTION gpucredit.balance(text, text, timestamptz) IS
'An account''s credit.
account: '''' for the organisation. as_of: the same figures as they were at a past instant, told by the entries; NULL or not past: now.
Result, in credits: available in active buckets of the account and its ancestors; spendable: that, capped by the tightest hard budget on the path (not of the past); held by the account and all below it, used (metered) of that, spent (settled, less refunds); promo + granted + paid = available; when the next of it expires, and how much then. What only time has done (expiry, a hold past its ttl) counts, booked or not.
Errors: UC001 no such account; 22023.';

/* Buckets */

CREATE TYPE gpucredit.bucket_result AS (bucket bigint, account text,
	kind text, priority int, effective_at timestamptz,
	expires_at timestamptz, issued numeric, available numeric, held numeric,
	spent numeric, expired numeric, revoked numeric, moved numeric,
	policy jsonb, usable boolean, why text);

CREATE FUNCTION gpucredit.buckets(org text, account text DEFAULT '')
RETURNS SETOF gpucredit.bucket_result
LANGUAGE sql STABLE SECURITY DEFINER PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
	SELECT gpucredit.require_account(buckets.org, buckets.account);
	WITH clock AS MATERIALIZED (SELECT gpucredit.now() AS at),
	dead AS MATERIALIZED (
		SELECT d.* FROM clock c,
			LATERAL gpucredit.dead_held(buckets.org, c.at) d),
	b AS (
		SELECT b.*, c.at, coalesce(d.held, '0') AS dead,
			b.available + coalesce(d.held, '0') AS free,
			coalesce(b.expires_at <= c.at, false) AS over
		FROM clock c
			JOIN gpucredit.bucket b ON b.org = buckets.org
				AND b.account = ANY (gpucredit.account_path(buckets.account))
			LEFT JOIN dead d ON d.bucket = b.bucket)
	SELECT b.bucket, b.account, b.kind, b.priority, b.effective_at,
		b.expires_at, b.issued::numeric,
		(CASE WHEN b.closed_at IS NULL AND NOT b.over
			THEN b.free ELSE '0' END)::numeric,
		(b.held - b.dead)::numeric, b.spent::numeric,
		(b.expired + CASE WHEN b.closed_at IS NULL AND b.over
			THEN b.free ELSE '0' END)::numeric,
		(b.revoked + CASE WHEN b.closed_at IS NOT NULL
			THEN b.free ELSE '0' END)::numeric,
		b.moved::numeric, b.policy,
		b.why IS NULL, b.why
	FROM (SELECT b.*, CASE WHEN b.closed_at IS NOT NULL THEN 'revoked'
			WHEN b.over THEN 'expired'
			WHEN b.effective_at > b.at THEN 'not_yet_active'
			WHEN b.free <= '0' THEN 'empty' END AS why
		FROM b) b
	ORDER BY b.priority, b.expires_at, gpucredit.kind_rank(b.kind),
		length(b.account) DESC, b.effective_at, b.bucket;
END;
COMMENT ON FUNCTION gpucredit.buckets(text, text) IS
'The buckets an account may spend, its own and its ancestors'', in burn order.
Result, in credits: issued = available + held + spent + expired + revoked + moved; what only time has done counts, booked or not; usable: active now, with something available; why not: revoked, expired, not_yet_active, empty.
Errors: UC001 no such account; 22023.';

/* Statement */

CREATE TYPE gpucredit.statement_result AS (at timestamptz, entry bigint,
	bucket bigint, kind text, account text, operation text, source text,
	target text, amount numeric, hold bigint, job bigint, attempt int,
	available numeric);

/*
 * All that ever happened to the buckets on a path, each with what it adds to
 * the bucket's free credit (free) were the bucket active.  Beside the entries
 * stand the instants at which time alone acts; rank orders those of one
 * instant: a bucket's span, then a ttl, then entries, then the closing.
 */
CREATE FUNCTION gpucredit.bucket_event(tenant text, leaf text,
	now timestamptz)
RETURNS TABLE (at timestamptz, rank int, entry bigint, bucket bigint,
	kind text, account text, operation text, source text, target text,
	amount gpucredit.credits, hold bigint, job bigint, attempt int,
	free gpucredit.credits, active boolean)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	WITH b AS (
		SELECT b.*, b.account AS owner FROM gpucredit.bucket b
		WHERE b.org = bucket_event.tenant
			AND b.account = ANY (gpucredit.account_path(bucket_event.leaf))),
	line AS MATERIALIZED (
		SELECT e.*, b.kind, h.expires_at AS ttl, e.at >= b.effective_at
			AND coalesce(e.at < b.expires_at, true)
			AND coalesce(e.at <= b.closed_at, true) AS active
		FROM b
			JOIN gpucredit.entry e ON e.org = bucket_event.tenant
				AND e.bucket = b.bucket
			LEFT JOIN gpucredit.hold h ON h.org = bucket_event.tenant
				AND h.hold = e.hold)
	SELECT l.at, 3, l.entry, l.bucket, l.kind, l.account, l.operation,
		l.source, l.target, l.amount, l.hold, l.job, l.attempt,
		CASE 'available' WHEN l.target THEN l.amount
			WHEN l.source THEN - l.amount ELSE '0' END
		- CASE WHEN l.source = 'held' AND l.at >= l.ttl
			THEN l.amount ELSE '0' END, l.active
	FROM line l
	UNION ALL
	SELECT d.ttl, 2, NULL, d.bucket, d.kind, d.account, 'free', 'held',
		'available', d.held, d.hold, NULL, NULL, d.held,
		d.ttl >= b.effective_at AND coalesce(d.ttl < b.expires_at, true)
			AND coalesce(d.ttl <= b.closed_at, true)
	FROM (SELECT l.ttl, l.bucket, l.kind, l.account, l.hold,
			sum(CASE 'held' WHEN l.target THEN l.amount
				WHEN l.source THEN - l.amount END) AS held
		FROM line l
		WHERE l.ttl <= bucket_event.now AND l.at < l.ttl
		GROUP BY l.ttl, l.bucket, l.kind, l.account, l.hold) d
		JOIN b ON b.bucket = d.bucket
	WHERE d.held <> '0'
	UNION ALL
	SELECT t.at, t.rank, NULL, b.bucket, b.kind, b.owner, t.operation,
		t.source, t.target, NULL, NULL, NULL, NULL, '0', true
	FROM b CROSS JOIN LATERAL (VALUES
		(b.effective_at, 1, 'activate', 'issued', 'available'),
		(b.expires_at, 1, 'expire', 'available', 'expired'),
		(b.closed_at, 4, 'close', 'available', 'revoked'))
		AS t (at, rank, operation, source, target)
	WHERE t.at <= bucket_event.now
		AND coalesce(t.at <= b.closed_at, true)
		AND (t.operation <> 'close' OR (t.at >= b.effective_at
			AND coalesce(t.at < b.expires_at, true)));
END;
COMMENT ON FUNCTION gpucredit.bucket_event(text, text, timestamptz) IS
'Everything that changed the buckets on a path: entries, and time itself.';

CREATE FUNCTION gpucredit.statement(org text, account text DEFAULT '',
	since timestamptz DEFAULT NULL, until timestamptz DEFAULT NULL)
RETURNS SETOF gpucredit.statement_result
LANGUAGE sql STABLE SECURITY DEFINER PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
	SELECT gpucredit.require_account(statement.org, statement.account);
	WITH clock AS MATERIALIZED (SELECT gpucredit.now() AS at),
	event AS (
		SELECT e.*, sum(e.free) OVER (PARTITION BY e.bucket
			ORDER BY e.at, e.rank, e.entry, e.hold
			ROWS UNBOUNDED PRECEDING) AS reached
		FROM clock c, LATERAL gpucredit.bucket_event(statement.org,
			statement.account, c.at) e),
	effect AS (
		SELECT e.*, CASE WHEN e.operation = 'activate' AND e.rank = 1
			THEN e.reached WHEN e.amount IS NULL THEN - e.reached
			WHEN e.active THEN e.free ELSE '0' END AS effect
		FROM event e)
	SELECT r.at, r.entry, r.bucket, r.kind, r.account, r.operation, r.source,
		r.target, coalesce(r.amount, r.reached)::numeric, r.hold, r.job,
		r.attempt, r.available
	FROM (SELECT e.*, (sum(e.effect) OVER (
				ORDER BY e.at, e.rank, e.entry, e.bucket, e.hold
				ROWS UNBOUNDED PRECEDING))::numeric AS available
		FROM effect e) r
	WHERE coalesce(r.at >= statement.since, true)
		AND coalesce(r.at < statement.until, true)
		AND (r.entry IS NOT NULL OR r.effect <> '0')
	ORDER BY r.at, r.rank, r.entry, r.bucket, r.hold;
END;
COMMENT ON FUNCTION gpucredit.statement(text, text, timestamptz,
	timestamptz) IS
'What happened to the buckets an account may spend, oldest first.
[since, until): NULL for no bound; the running figure starts from all there was before since.
Result: the entries, amounts in credits, account: on whose behalf; available: what was available to the account just after. A row without an entry is what time alone did: activate and expire of a bucket, free of a hold past its ttl, close of a revoked bucket; the entry that books it later changes available no more.
Errors: UC001 no such account; 22023.';

/* Jobs */

CREATE VIEW gpucredit.jobs AS
	SELECT j.org, j.job, j.account, j.pool, j.tier, j.request::text AS request,
		CASE WHEN j.state <> 'active' THEN j.state
			WHEN j.cancelled OR EXISTS (SELECT FROM gpucredit.directive d
				WHERE d.org = j.org AND d.job = j.job
					AND d.attempt = j.attempt AND d.action = 'stop')
				THEN 'stopping'
			WHEN a.running_at IS NOT NULL THEN 'running'
			ELSE 'starting' END AS state,
		j.attempt, j.failures, a.gpu_type, a.gpus, a.share, a.elapsed,
		h.held::numeric AS held,
		CASE WHEN a.ended_at IS NULL THEN gpucredit.bill(a.per_gpu_hour,
			a.gpus, a.share, a.elapsed, a.held) END::numeric AS used,
		j.submitted_at, j.not_before, a.started_at, j.ended_at
	FROM gpucredit.job j
		LEFT JOIN gpucredit.attempt a ON a.org = j.org AND a.job = j.job
			AND a.attempt = j.attempt
		LEFT JOIN gpucredit.hold h ON h.org = j.org AND h.hold = j.hold;
COMMENT ON VIEW gpucredit.jobs IS
'Jobs: what was asked, where they stand, and their last attempt; held: credit set aside for the job now, used: what the live attempt has metered of it';

CREATE FUNCTION gpucredit.require_job(org text, job bigint) RETURNS void
LANGUAGE c STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'gpucredit_require_job';
COMMENT ON FUNCTION gpucredit.require_job(text, bigint) IS
'Refuses what is no job of the organisation (UC301).';

CREATE TYPE gpucredit.history_result AS (at timestamptz, what text,
	attempt int, detail text);

CREATE FUNCTION gpucredit.history(org text, job bigint)
RETURNS SETOF gpucredit.history_result
LANGUAGE sql STABLE SECURITY DEFINER PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
	SELECT gpucredit.require_job(history.org, history.job);
	WITH line AS (
		SELECT a.at, 1 AS rank, a.audit AS id,
			a.operation || ' ' || a.decision AS what, a.attempt,
			concat_ws(', ', a.reason, (SELECT string_agg(d.key || ' ' ||
					d.value, ', ' ORDER BY d.key)
				FROM jsonb_each_text(a.detail) d)) AS detail
		FROM gpucredit.audit a
		WHERE a.org = history.org AND a.job = history.job
		UNION ALL
		SELECT a.running_at, 2, a.attempt, 'first heartbeat', a.attempt,
			format('%s x %s of %s at %s per hour', a.gpus,
				(a.share / 1000.0)::numeric(6, 3), a.gpu_type,
				a.per_gpu_hour::numeric)
		FROM gpucredit.attempt a
		WHERE a.org = history.org AND a.job = history.job
			AND a.running_at IS NOT NULL
		UNION ALL
		SELECT u.at, 3, u.attempt, u.nth, u.attempt,
			format('elapsed %s, billed %s', u.elapsed, u.billed::numeric)
		FROM (SELECT u.*, CASE 1
				WHEN row_number() OVER (PARTITION BY u.attempt
					ORDER BY u.elapsed DESC, u.at DESC)
				THEN 'last usage'
				WHEN row_number() OVER (PARTITION BY u.attempt
					ORDER BY u.elapsed, u.at)
				THEN 'first usage' END AS nth
			FROM gpucredit.usage u
			WHERE u.org = history.org AND u.job = history.job) u
		WHERE u.nth IS NOT NULL
		UNION ALL
		SELECT e.at, 4, e.entry, e.source || ' to ' || e.target, e.attempt,
			format('%s of bucket %s, hold %s, by %s', e.amount::numeric,
				e.bucket, e.hold, e.operation)
		FROM gpucredit.entry e
		WHERE e.org = history.org AND e.job = history.job)
	SELECT l.at, l.what, l.attempt, l.detail
	FROM line l
	ORDER BY l.at, l.rank, l.id;
END;
COMMENT ON FUNCTION gpucredit.history(text, bigint) IS
'A job''s whole story, oldest first: decisions, the credit moved for it, the first and the last usage of each attempt.
Errors: UC301 no such job; 22023.';

/*
 * 82_books.sql: what the entries say, against what is written elsewhere.
 *
 * The entries are the truth.  entry_by_bucket and entry_by_part say what they
 * come to; verify compares the running sums with that, rebuild makes them so.
 * The entry table is read a few times whole, never bucket by bucket.
 *
 * tenant NULL means every organisation.  Functions that return sets are
 * written so that the planner expands them where they are called.
 */
CREATE FUNCTION gpucredit.entry_by_bucket(tenant text)
RETURNS TABLE (org text, bucket bigint, issued gpucredit.credits,
	available gpucredit.credits, held gpucredit.credits,
	spent gpucredit.credits, expired gpucredit.credits,
	revoked gpucredit.credits, moved gpucredit.credits,
	drawn_first timestamptz, drawn_last timestamptz)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT e.org, e.bucket,
		coalesce(sum(e.amount) FILTER (WHERE e.source = 'issued'), '0'),
		coalesce(sum(CASE 'available' WHEN e.target THEN e.amount
			WHEN e.source THEN - e.amount END), '0'),
		coalesce(sum(CASE 'held' WHEN e.target THEN e.amount
			WHEN e.source THEN - e.amount END), '0'),
		coalesce(sum(CASE 'spent' WHEN e.target THEN e.amount
			WHEN e.source THEN - e.amount END), '0'),
		coalesce(sum(e.amount) FILTER (WHERE e.target = 'expired'), '0'),
		coalesce(sum(e.amount) FILTER (WHERE e.target = 'revoked'), '0'),
		coalesce(sum(e.amount) FILTER (WHERE e.target = 'moved'), '0'),
		min(e.at) FILTER (WHERE e.target = 'held'),
		max(e.at) FILTER (WHERE e.target = 'held')
	FROM gpucredit.entry e
	WHERE entry_by_bucket.tenant IS NULL OR e.org = entry_by_bucket.tenant
	GROUP BY e.org, e.bucket;
END;
COMMENT ON FUNCTION gpucredit.entry_by_bucket(text) IS
'What the entries of each bucket come to.';

CREATE FUNCTION gpucredit.entry_by_part(tenant text)
RETURNS TABLE (org text, hold bigint, part int, bucket bigint,
	drawn gpucredit.credits, held gpucredit.credits,
	spent gpucredit.credits, refunded gpucredit.credits,
	returned gpucredit.credits, lapsed gpucredit.credits)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT e.org, e.hold, e.part, e.bucket,
		coalesce(sum(e.amount) FILTER (WHERE e.target = 'held'), '0'),
		coalesce(sum(CASE 'held' WHEN e.target THEN e.amount
			WHEN e.source THEN - e.amount END), '0'),
		coalesce(sum(CASE 'spent' WHEN e.target THEN e.amount
			WHEN e.source THEN - e.amount END), '0'),
		coalesce(sum(e.amount) FILTER (WHERE e.source = 'spent'), '0'),
		coalesce(sum(e.amount) FILTER (WHERE e.source = 'held'
			AND e.target = 'available'), '0'),
		coalesce(sum(e.amount) FILTER (WHERE e.source = 'held'
			AND e.target IN ('expired', 'revoked')), '0')
	FROM gpucredit.entry e
	WHERE (entry_by_part.tenant IS NULL OR e.org = entry_by_part.tenant)
		AND e.hold IS NOT NULL
	GROUP BY e.org, e.hold, e.part, e.bucket;
END;
COMMENT ON FUNCTION gpucredit.entry_by_part(text) IS
'What the entries of each part of a hold come to.';

/* sound: the entries leave none of the row's figures negative. */
CREATE TYPE gpucredit.difference AS (org text, bucket bigint, hold bigint,
	part int, what text, found gpucredit.credits, expected gpucredit.credits,
	sound boolean);

CREATE FUNCTION gpucredit.bucket_difference(tenant text)
RETURNS SETOF gpucredit.difference
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT coalesce(b.org, e.org), coalesce(b.bucket, e.bucket), NULL::bigint,
		NULL::int, c.name, c.found, coalesce(c.expected, '0'),
		coalesce(least(e.issued, e.available, e.held, e.spent) >= '0', true)
	FROM (SELECT * FROM gpucredit.bucket b
			WHERE bucket_difference.tenant IS NULL
				OR b.org = bucket_difference.tenant) b
		FULL JOIN gpucredit.entry_by_bucket(bucket_difference.tenant) e
			ON e.org = b.org AND e.bucket = b.bucket
		CROSS JOIN LATERAL (VALUES ('issued', b.issued, e.issued),
			('available', b.available, e.available),
			('held', b.held, e.held), ('spent', b.spent, e.spent),
			('expired', b.expired, e.expired),
			('revoked', b.revoked, e.revoked), ('moved', b.moved, e.moved))
			AS c (name, found, expected)
	WHERE CASE WHEN b.bucket IS NULL THEN c.name = 'available'
		ELSE coalesce(c.expected, '0') <> c.found END;
END;
COMMENT ON FUNCTION gpucredit.bucket_difference(text) IS
'Where a bucket''s figures are not what its entries say; found NULL: there is no such bucket.';

CREATE FUNCTION gpucredit.part_difference(tenant text)
RETURNS SETOF gpucredit.difference
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT coalesce(p.org, e.org), coalesce(p.bucket, e.bucket),
		coalesce(p.hold, e.hold), coalesce(p.part, e.part), c.name, c.found,
		c.expected, coalesce(e.drawn > '0'
			AND least(e.held, e.spent, e.refunded, e.returned, e.lapsed)
				>= '0', true)
	FROM (SELECT * FROM gpucredit.hold_part p
			WHERE part_difference.tenant IS NULL
				OR p.org = part_difference.tenant) p
		FULL JOIN gpucredit.entry_by_part(part_difference.tenant) e
			ON e.org = p.org AND e.hold = p.hold AND e.part = p.part
				AND e.bucket = p.bucket
		CROSS JOIN LATERAL (VALUES ('drawn', p.drawn, e.drawn),
			('held', p.held, e.held), ('spent', p.spent, e.spent),
			('refunded', p.refunded, e.refunded),
			('returned', p.returned, e.returned),
			('lapsed', p.lapsed, e.lapsed)) AS c (name, found, expected)
	WHERE (p.drawn, p.held, p.spent, p.refunded, p.returned, p.lapsed)
			IS DISTINCT FROM
			(e.drawn, e.held, e.spent, e.refunded, e.returned, e.lapsed)
		AND c.expected IS DISTINCT FROM c.found;
END;
COMMENT ON FUNCTION gpucredit.part_difference(text) IS
'Where a hold''s part is not what its entries say; found NULL: no such part, expected NULL: no entries.';

CREATE FUNCTION gpucredit.hold_difference(tenant text)
RETURNS SETOF gpucredit.difference
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT coalesce(h.org, e.org), NULL::bigint, coalesce(h.hold, e.hold),
		NULL::int, c.name, c.found, coalesce(c.expected, '0'),
		coalesce(least(e.held, e.spent, e.refunded, e.returned, e.lapsed)
			>= '0', true)
	FROM (SELECT * FROM gpucredit.hold h
			WHERE hold_difference.tenant IS NULL
				OR h.org = hold_difference.tenant) h
		FULL JOIN (SELECT e.org, e.hold, sum(e.drawn) AS drawn,
				sum(e.held) AS held, sum(e.spent) AS spent,
				sum(e.refunded) AS refunded,
				sum(e.returned) AS returned, sum(e.lapsed) AS lapsed
			FROM gpucredit.entry_by_part(hold_difference.tenant) e
			GROUP BY e.org, e.hold) e
			ON e.org = h.org AND e.hold = h.hold
		CROSS JOIN LATERAL (VALUES ('drawn', h.drawn, e.drawn),
			('held', h.held, e.held), ('captured', h.captured, e.spent),
			('refunded', h.refunded, e.refunded),
			('released', h.released, e.returned),
			('lapsed', h.lapsed, e.lapsed)) AS c (name, found, expected)
	WHERE (h.drawn, h.held, h.captured, h.refunded, h.released, h.lapsed)
			IS DISTINCT FROM
			(e.drawn, e.held, e.spent, e.refunded, e.returned, e.lapsed)
		AND CASE WHEN h.hold IS NULL THEN c.name = 'drawn'
			ELSE coalesce(c.expected, '0') <> c.found END;
END;
COMMENT ON FUNCTION gpucredit.hold_difference(text) IS
'Where a hold''s figures are not what its entries say; found NULL: there is no such hold.';

/* What accounts have spent, and the newest entry, with what is recorded. */
CREATE FUNCTION gpucredit.spend_difference(tenant text)
RETURNS TABLE (org text, account text, found gpucredit.credits,
	expected gpucredit.credits)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT coalesce(s.org, e.org), coalesce(s.account, e.account),
		coalesce(s.spent, '0'), coalesce(e.spent, '0')
	FROM (SELECT s.org, s.account, sum(s.spent) AS spent
			FROM (SELECT t.* FROM gpucredit.spend_total t
				UNION ALL SELECT d.* FROM gpucredit.spend_delta d) s
			WHERE spend_difference.tenant IS NULL
				OR s.org = spend_difference.tenant
			GROUP BY s.org, s.account) s
		FULL JOIN (SELECT e.org, e.account, sum(CASE 'spent'
				WHEN e.target THEN e.amount
				WHEN e.source THEN - e.amount END) AS spent
			FROM gpucredit.entry e
			WHERE spend_difference.tenant IS NULL
				OR e.org = spend_difference.tenant
			GROUP BY e.org, e.account) e
			ON e.org = s.org AND e.account = s.account
	WHERE coalesce(s.spent, '0') <> coalesce(e.spent, '0');
END;
COMMENT ON FUNCTION gpucredit.spend_difference(text) IS
'Accounts whose recorded spend is not what the entries say.';

CREATE TYPE gpucredit.verify_result AS (invariant text, org text,
	subject text, detail text);

/* Money: buckets */
CREATE FUNCTION gpucredit.check_buckets(tenant text)
RETURNS SETOF gpucredit.verify_result
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT CASE WHEN d.found IS NULL THEN 'entry_has_bucket'
			ELSE 'bucket_is_its_entries' END, d.org,
		format('bucket %s', d.bucket), format('%s: expected %s, found %s',
			d.what, d.expected, coalesce(d.found::text, 'none'))
	FROM gpucredit.bucket_difference(check_buckets.tenant) d
	UNION ALL
	SELECT CASE WHEN b.least < '0' THEN 'bucket_not_negative'
			ELSE 'bucket_balanced' END, b.org, format('bucket %s', b.bucket),
		format('issued %s, available %s, held %s, spent %s, expired %s, revoked %s, moved %s',
			b.issued, b.available, b.held, b.spent, b.expired, b.revoked,
			b.moved)
	FROM (SELECT b.*, least(b.issued, b.available, b.held, b.spent,
			b.expired, b.revoked, b.moved) AS least,
			b.available + b.held + b.spent + b.expired + b.revoked + b.moved
				AS whole
		FROM gpucredit.bucket b
		WHERE check_buckets.tenant IS NULL OR b.org = check_buckets.tenant) b
	WHERE b.least < '0' OR b.issued <> b.whole
	UNION ALL
	SELECT 'drawn_while_active', b.org, format('bucket %s', b.bucket),
		format('drawn from %s to %s, active from %s to %s', e.drawn_first,
			e.drawn_last, b.effective_at,
			coalesce(least(b.expires_at, b.closed_at)::text, 'ever'))
	FROM gpucredit.bucket b
		JOIN gpucredit.entry_by_bucket(check_buckets.tenant) e
			ON e.org = b.org AND e.bucket = b.bucket
	WHERE (check_buckets.tenant IS NULL OR b.org = check_buckets.tenant)
		AND (e.drawn_first < b.effective_at OR e.drawn_last >= b.expires_at
			OR e.drawn_last > b.closed_at)
	UNION ALL
	SELECT 'spend_is_its_entries', s.org, format('account "%s"', s.account),
		format('expected %s, found %s', s.expected, s.found)
	FROM gpucredit.spend_difference(check_buckets.tenant) s;
END;
COMMENT ON FUNCTION gpucredit.check_buckets(text) IS
'verify: buckets and spend.';

/* Money: holds */
CREATE FUNCTION gpucredit.check_holds(tenant text)
RETURNS SETOF gpucredit.verify_result
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	WITH h AS NOT MATERIALIZED (
		SELECT * FROM gpucredit.hold h
		WHERE check_holds.tenant IS NULL OR h.org = check_holds.tenant),
	p AS NOT MATERIALIZED (
		SELECT * FROM gpucredit.hold_part p
		WHERE check_holds.tenant IS NULL OR p.org = check_holds.tenant)
	SELECT 'part_is_its_entries', d.org,
		format('hold %s part %s', d.hold, d.part),
		format('bucket %s, %s: expected %s, found %s', d.bucket, d.what,
			coalesce(d.expected::text, 'none'),
			coalesce(d.found::text, 'none'))
	FROM gpucredit.part_difference(check_holds.tenant) d
	UNION ALL
	SELECT 'hold_is_its_parts', coalesce(h.org, p.org),
		format('hold %s', coalesce(h.hold, p.hold)),
		format('%s: expected %s, found %s', c.name,
			coalesce(c.expected::text, 'none'),
			coalesce(c.found::text, 'none'))
	FROM h
		FULL JOIN (SELECT p.org, p.hold, sum(p.drawn) AS drawn,
				sum(p.held) AS held, sum(p.spent) AS spent,
				sum(p.refunded) AS refunded,
				sum(p.returned) AS returned, sum(p.lapsed) AS lapsed
			FROM p GROUP BY p.org, p.hold) p
			ON p.org = h.org AND p.hold = h.hold
		CROSS JOIN LATERAL (VALUES ('drawn', h.drawn, p.drawn),
			('held', h.held, p.held), ('captured', h.captured, p.spent),
			('refunded', h.refunded, p.refunded),
			('released', h.released, p.returned),
			('lapsed', h.lapsed, p.lapsed)) AS c (name, found, expected)
	WHERE (h.drawn, h.held, h.captured, h.refunded, h.released, h.lapsed)
			IS DISTINCT FROM
			(p.drawn, p.held, p.spent, p.refunded, p.returned, p.lapsed)
		AND c.found IS DISTINCT FROM coalesce(c.expected, '0')
	UNION ALL
	SELECT w.invariant, h.org, format('hold %s', h.hold),
		format('drawn %s, held %s, captured %s, refunded %s, released %s, lapsed %s, closed %s',
			h.drawn, h.held, h.captured, h.refunded, h.released, h.lapsed,
			coalesce(h.closed_at::text, 'never'))
	FROM h CROSS JOIN LATERAL (VALUES
		('hold_balanced', h.drawn <> h.held + h.captured + h.refunded
			+ h.released + h.lapsed),
		('hold_not_negative', least(h.held, h.captured, h.refunded,
			h.released, h.lapsed) < '0'),
		('closed_hold_is_empty', h.closed_at IS NOT NULL AND h.held <> '0'))
		AS w (invariant, broken)
	WHERE w.broken
	UNION ALL
	SELECT w.invariant, p.org, format('hold %s part %s', p.hold, p.part),
		format('drawn %s, held %s, spent %s, refunded %s, returned %s, lapsed %s',
			p.drawn, p.held, p.spent, p.refunded, p.returned, p.lapsed)
	FROM p CROSS JOIN LATERAL (VALUES
		('part_balanced', p.drawn <> p.held + p.spent + p.refunded
			+ p.returned + p.lapsed),
		('part_not_negative', p.drawn <= '0' OR least(p.held, p.spent,
			p.refunded, p.returned, p.lapsed) < '0'))
		AS w (invariant, broken)
	WHERE w.broken
	UNION ALL
	SELECT 'entry_matches_hold', e.org, format('entry %s', e.entry),
		format('hold %s: expected job %s of "%s", found job %s of "%s"',
			h.hold, coalesce(h.job::text, 'none'), h.account,
			coalesce(e.job::text, 'none'), e.account)
	FROM gpucredit.entry e JOIN h ON h.org = e.org AND h.hold = e.hold
	WHERE (check_holds.tenant IS NULL OR e.org = check_holds.tenant)
		AND (e.job IS DISTINCT FROM h.job OR e.account <> h.account)
	UNION ALL
	SELECT 'bucket_on_path', p.org, format('hold %s part %s', p.hold, p.part),
		format('of account "%s", from a bucket of "%s"', h.account,
			b.account)
	FROM p
		JOIN h ON h.org = p.org AND h.hold = p.hold
		JOIN gpucredit.bucket b ON b.org = p.org AND b.bucket = p.bucket
	WHERE NOT gpucredit.is_below(h.account, b.account);
END;
COMMENT ON FUNCTION gpucredit.check_holds(text) IS
'verify: holds and their parts.';

/*
 * 83_statements.sql: what was spent, on what, and what is to be invoiced.
 *
 * All of it is told by the entries: spent is what was settled or captured in
 * a span of time, refunded what was given back in it (of whatever time), net
 * the difference.  A hold serves one attempt, so an entry's hold says which
 * GPU type it was for; callers' own holds have no job, tier or GPU type.
 */

/* Entries are appended in the order of time: a few pages of index do. */
CREATE INDEX entry_at ON gpucredit.entry USING brin (at)
	WITH (autosummarize = on);

CREATE FUNCTION gpucredit.spend_line(tenant text, top text,
	since timestamptz, until timestamptz)
RETURNS TABLE (account text, job bigint, tier text, gpu_type text, day text,
	spent numeric, refunded numeric, net numeric, gpu_hours numeric)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT e.account, e.job, j.tier, a.gpu_type, e.day, e.spent, e.refunded,
		e.spent - e.refunded, CASE WHEN e.spent > 0
		THEN a.gpus * a.share / 1000.0 * extract(epoch FROM a.elapsed) / 3600
		END
	FROM (SELECT e.account, e.job, e.hold,
			to_char(e.at AT TIME ZONE 'UTC', 'YYYY-MM-DD') AS day,
			coalesce(sum(e.amount) FILTER (WHERE e.target = 'spent'),
				'0')::numeric AS spent,
			coalesce(sum(e.amount) FILTER (WHERE e.source = 'spent'),
				'0')::numeric AS refunded
		FROM gpucredit.entry e
		WHERE e.org = spend_line.tenant
			AND gpucredit.is_below(e.account, spend_line.top)
			AND 'spent' IN (e.source, e.target)
			AND e.at >= coalesce(spend_line.since, '-infinity')
			AND e.at < coalesce(spend_line.until, 'infinity')
		GROUP BY e.account, e.job, e.hold, 4) e
		LEFT JOIN gpucredit.job j ON j.org = spend_line.tenant
			AND j.job = e.job
		LEFT JOIN LATERAL (SELECT a.gpu_type, a.gpus, a.share, a.elapsed
			FROM gpucredit.attempt a
			WHERE a.org = spend_line.tenant AND a.job = e.job
				AND a.hold = e.hold
			ORDER BY a.attempt DESC LIMIT 1) a ON true;
END;
COMMENT ON FUNCTION gpucredit.spend_line(text, text, timestamptz,
	timestamptz) IS
'What an account and all below it spent in [since, until), a line per hold and UTC day.';

/* How arguments are refused in C, for functions written in SQL. */
CREATE FUNCTION gpucredit.require_sense(name text, value text,
	sense boolean, problem text, hint text) RETURNS void
LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
BEGIN
	IF value IS NULL THEN
		RAISE EXCEPTION '"%" must not be null', name
			USING ERRCODE = 'invalid_parameter_value',
			DETAIL = 'NULL has no meaning for this argument.', HINT = hint;
	ELSIF NOT sense THEN
		RAISE EXCEPTION '"%" %', name, problem
			USING ERRCODE = 'invalid_parameter_value',
			DETAIL = format('It is "%s".', left(value, 40)), HINT = hint;
	END IF;
END
$$;
COMMENT ON FUNCTION gpucredit.require_sense(text, text, boolean, text,
	text) IS
'Refuses an argument that is null or makes no sense (22023).';

CREATE TYPE gpucredit.usage_by_result AS (item text, spent numeric,
	refunded numeric, net numeric, gpu_hours numeric, jobs bigint);

CREATE FUNCTION gpucredit.usage_by(org text, account text,
	since timestamptz, until timestamptz, by text)
RETURNS SETOF gpucredit.usage_by_result
LANGUAGE sql STABLE SECURITY DEFINER PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
	SELECT gpucredit.require_account(usage_by.org, usage_by.account);
	SELECT gpucredit.require_sense('by', usage_by.by, usage_by.by
		IN ('account', 'tier', 'gpu_type', 'day', 'job'), 'is unknown',
		'Pass account, tier, gpu_type, day or job.');
	SELECT u.item, sum(u.spent), sum(u.refunded), sum(u.net),
		round(coalesce(sum(u.gpu_hours), 0), 6), count(DISTINCT u.job)
	FROM (SELECT l.*, CASE usage_by.by WHEN 'account' THEN l.account
			WHEN 'tier' THEN l.tier WHEN 'gpu_type' THEN l.gpu_type
			WHEN 'day' THEN l.day WHEN 'job' THEN l.job::text END AS item,
			CASE usage_by.by WHEN 'job' THEN l.job END AS number
		FROM gpucredit.spend_line(usage_by.org, usage_by.account,
			usage_by.since, usage_by.until) l) u
	GROUP BY u.item, u.number
	ORDER BY u.number, u.item COLLATE "C";
END;
COMMENT ON FUNCTION gpucredit.usage_by(text, text, timestamptz, timestamptz,
	text) IS
'What an account and all below it spent in [since, until), NULL for no bound.
by: account, tier, gpu_type, day (UTC), job. What is running counts when it is settled, a refund when it is given.
Result: a row per item (NULL: callers'' own holds, which have no job, tier or GPU type), in credits: spent, refunded, net = spent - refunded; GPU hours of the attempts settled; how many jobs.
Errors: UC001 no such account; 22023.';

CREATE TYPE gpucredit.top_spenders_result AS (rank bigint, account text,
	net numeric, spent numeric, refunded numeric, gpu_hours numeric,
	jobs bigint);

CREATE FUNCTION gpucredit.top_spenders(org text, k int, since timestamptz)
RETURNS SETOF gpucredit.top_spenders_result
LANGUAGE sql STABLE SECURITY DEFINER PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
	SELECT gpucredit.require_account(top_spenders.org, '');
	SELECT gpucredit.require_sense('k', top_spenders.k::text,
		top_spenders.k > 0, 'is out of range', 'Pass 1 or more.');
	SELECT row_number() OVER (ORDER BY u.net DESC, u.account COLLATE "C"),
		u.account, u.net, u.spent, u.refunded, u.gpu_hours, u.jobs
	FROM (SELECT l.account, sum(l.net) AS net, sum(l.spent) AS spent,
			sum(l.refunded) AS refunded,
			round(coalesce(sum(l.gpu_hours), 0), 6) AS gpu_hours,
			count(DISTINCT l.job) AS jobs
		FROM gpucredit.spend_line(top_spenders.org, '', top_spenders.since,
			NULL) l
		GROUP BY l.account) u
	WHERE u.net > 0
	ORDER BY 1 LIMIT top_spenders.k;
END;
COMMENT ON FUNCTION gpucredit.top_spenders(text, int, timestamptz) IS
'The k accounts that spent most since an instant (NULL: ever), each by itself, without those below it.
Result: as usage_by, the most first.
Errors: UC001 no such organisation; 22023.';

CREATE TYPE gpucredit.top_jobs_result AS (rank bigint, job bigint,
	account text, tier text, gpu_types text[], net numeric, spent numeric,
	refunded numeric, gpu_hours numeric);

CREATE FUNCTION gpucredit.top_jobs(org text, k int, since timestamptz)
RETURNS SETOF gpucredit.top_jobs_result
LANGUAGE sql STABLE SECURITY DEFINER PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
	SELECT gpucredit.require_account(top_jobs.org, '');
	SELECT gpucredit.require_sense('k', top_jobs.k::text,
		top_jobs.k > 0, 'is out of range', 'Pass 1 or more.');
	SELECT row_number() OVER (ORDER BY u.net DESC, u.job), u.job, u.account,
		u.tier, u.gpu_types, u.net, u.spent, u.refunded, u.gpu_hours
	FROM (SELECT l.job, l.account, l.tier,
			array_agg(DISTINCT l.gpu_type) AS gpu_types,
			sum(l.net) AS net, sum(l.spent) AS spent,
			sum(l.refunded) AS refunded,
			round(coalesce(sum(l.gpu_hours), 0), 6) AS gpu_hours
		FROM gpucredit.spend_line(top_jobs.org, '', top_jobs.since, NULL) l
		WHERE l.job IS NOT NULL
		GROUP BY l.job, l.account, l.tier) u
	WHERE u.net > 0
	ORDER BY 1 LIMIT top_jobs.k;
END;
COMMENT ON FUNCTION gpucredit.top_jobs(text, int, timestamptz) IS
'The k jobs that spent most since an instant (NULL: ever).
Result: the most first, with the GPU types their attempts ran on; figures as usage_by.
Errors: UC001 no such organisation; 22023.';

CREATE TYPE gpucredit.invoice_result AS (line bigint, account text,
	tier text, gpu_type text, jobs bigint, gpu_hours numeric, spent numeric,
	refunded numeric, amount numeric);

CREATE FUNCTION gpucredit.invoice(org text, month date)
RETURNS SETOF gpucredit.invoice_result
LANGUAGE sql STABLE SECURITY DEFINER PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
	SELECT gpucredit.require_account(invoice.org, '');
	SELECT gpucredit.require_sense('month', invoice.month::text,
		invoice.month BETWEEN '4713-01-01 BC' AND '294275-12-31',
		'is out of range', 'Pass any day of the month.');
	SELECT row_number() OVER (ORDER BY l.account COLLATE "C",
			l.tier COLLATE "C", l.gpu_type COLLATE "C"),
		l.account, l.tier, l.gpu_type, count(DISTINCT l.job),
		round(coalesce(sum(l.gpu_hours), 0), 6), sum(l.spent),
		sum(l.refunded), sum(l.net)
	FROM (VALUES (date_trunc('month', invoice.month::timestamp)))
			AS m (first),
		LATERAL gpucredit.spend_line(invoice.org, '',
			m.first AT TIME ZONE 'UTC',
			(m.first + '1 month'::interval) AT TIME ZONE 'UTC') l
	GROUP BY l.account, l.tier, l.gpu_type
	ORDER BY 1;
END;
COMMENT ON FUNCTION gpucredit.invoice(text, date) IS
'An organisation''s month (UTC): what was settled in it, less what was refunded in it, to the last micro-credit.
month: any day of it.
Result: a line per account, tier and GPU type; the last two are NULL on the line of an account''s own holds without a job. amount = spent - refunded, below 0 where more was refunded than spent.
Errors: UC001 no such organisation; 22023.';

/*
 * 84_verify.sql: every invariant of jobs, bills, devices and guards, and the
 * function that checks all of them.
 *
 * Each check_... is one query over the tables it names; tenant NULL means
 * every organisation.  Each invariant has a short name of its own, which
 * stays.
 */
/* Accounts: whatever names one, names one that exists */
CREATE FUNCTION gpucredit.check_accounts(tenant text)
RETURNS SETOF gpucredit.verify_result
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	WITH named AS (
		SELECT b.org, b.account, 'bucket' AS by_what FROM gpucredit.bucket b
		UNION ALL SELECT h.org, h.account, 'hold' FROM gpucredit.hold h
		UNION ALL SELECT c.org, c.account, 'budget'
			FROM gpucredit.budget_count c
		UNION ALL SELECT e.org, e.account, 'entry' FROM gpucredit.entry e
		UNION ALL SELECT j.org, j.account, 'job' FROM gpucredit.job j
		UNION ALL SELECT a.org, a.account, 'attempt' FROM gpucredit.attempt a
		UNION ALL SELECT t.org, t.account, 'spend_total'
			FROM gpucredit.spend_total t
		UNION ALL SELECT d.org, d.account, 'spend_delta'
			FROM gpucredit.spend_delta d
		UNION ALL
		SELECT a.org, (gpucredit.account_path(a.account))[2], 'account below'
		FROM gpucredit.account a WHERE a.account <> '')
	SELECT 'account_exists', n.org, format('account "%s"', n.account),
		format('named by: %s', string_agg(n.by_what, ', ' ORDER BY n.by_what))
	FROM (SELECT n.org, n.account, n.by_what FROM named n
			WHERE check_accounts.tenant IS NULL
				OR n.org = check_accounts.tenant
			GROUP BY n.org, n.account, n.by_what) n
	WHERE NOT EXISTS (SELECT FROM gpucredit.account a
		WHERE a.org = n.org AND a.account = n.account)
	GROUP BY n.org, n.account;
END;
COMMENT ON FUNCTION gpucredit.check_accounts(text) IS
'verify: accounts named anywhere exist.';

/* Jobs: each state with the attempt and the hold it takes */
CREATE FUNCTION gpucredit.check_jobs(tenant text)
RETURNS SETOF gpucredit.verify_result
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	WITH j AS NOT MATERIALIZED (
		SELECT * FROM gpucredit.job j
		WHERE check_jobs.tenant IS NULL OR j.org = check_jobs.tenant),
	a AS NOT MATERIALIZED (
		SELECT * FROM gpucredit.attempt a
		WHERE check_jobs.tenant IS NULL OR a.org = check_jobs.tenant),
	h AS NOT MATERIALIZED (
		SELECT * FROM gpucredit.hold h
		WHERE check_jobs.tenant IS NULL OR h.org = check_jobs.tenant)
	SELECT w.invariant, j.org, format('job %s', j.job),
		format('%s, attempt %s of %s (%s live), hold %s of job %s, %s',
			j.state, j.attempt, coalesce(n.attempts, 0),
			coalesce(n.live, 0), j.hold, coalesce(h.job::text, 'none'),
			CASE WHEN h.hold IS NULL THEN 'missing'
				WHEN h.closed_at IS NULL THEN 'open' ELSE 'closed' END)
	FROM j
		LEFT JOIN (SELECT a.org, a.job, count(*) AS attempts,
				max(a.attempt) AS last,
				count(*) FILTER (WHERE a.ended_at IS NULL) AS live,
				max(a.attempt) FILTER (WHERE a.ended_at IS NULL) AS live_last
			FROM a GROUP BY a.org, a.job) n
			ON n.org = j.org AND n.job = j.job
		LEFT JOIN h ON h.org = j.org AND h.hold = j.hold
		CROSS JOIN LATERAL (VALUES
		('open_job_has_hold', j.state IN ('queued', 'active')
			AND (h.closed_at IS NULL) IS NOT TRUE),
		('other_job_has_no_hold', j.state NOT IN ('queued', 'active')
			AND h.closed_at IS NULL),
		('hold_is_of_its_job', h.hold IS NULL OR h.job IS DISTINCT FROM j.job
			OR h.account <> j.account),
		('active_job_has_live_attempt', (CASE j.state WHEN 'active' THEN 1
			ELSE 0 END) <> coalesce(n.live, 0)
			OR n.live_last <> j.attempt),
		('attempts_in_sequence', j.attempt <> coalesce(n.attempts, 0)
			OR j.attempt <> coalesce(n.last, 0)))
		AS w (invariant, broken)
	WHERE w.broken
	UNION ALL
	SELECT 'open_hold_has_job', h.org, format('hold %s', h.hold),
		format('%s held for job %s, whose hold is %s', h.held, h.job,
			coalesce(j.hold::text, 'none'))
	FROM h LEFT JOIN j ON j.org = h.org AND j.job = h.job
	WHERE h.closed_at IS NULL AND h.job IS NOT NULL
		AND j.hold IS DISTINCT FROM h.hold
	UNION ALL
	SELECT 'attempt_has_job', a.org, format('job %s attempt %s', a.job,
			a.attempt), format('account "%s", job of "%s"', a.account,
			coalesce(j.account, '(none)'))
	FROM a LEFT JOIN j ON j.org = a.org AND j.job = a.job
	WHERE j.account IS DISTINCT FROM a.account
	UNION ALL
	SELECT 'live_attempt_within_hold', a.org,
		format('job %s attempt %s', a.job, a.attempt),
		format('held %s, surplus %s, of hold %s, which %s', a.held,
			a.surplus, a.hold, CASE WHEN h.closed_at IS NULL
			THEN 'holds ' || coalesce(h.held::text, 'nothing: it is missing')
			ELSE 'is closed' END)
	FROM a
		LEFT JOIN h ON h.org = a.org AND h.hold = a.hold
		LEFT JOIN j ON j.org = a.org AND j.job = a.job
	WHERE a.ended_at IS NULL AND (h.closed_at IS NULL
		AND h.held >= a.held + a.surplus AND a.surplus >= '0'
		AND j.hold = a.hold) IS NOT TRUE
	UNION ALL
	SELECT 'directive_has_attempt', d.org,
		format('job %s attempt %s', d.job, d.attempt),
		format('told to %s by %s', d.action, d.cause)
	FROM gpucredit.directive d
		LEFT JOIN a ON a.org = d.org AND a.job = d.job
			AND a.attempt = d.attempt
	WHERE (check_jobs.tenant IS NULL OR d.org = check_jobs.tenant)
		AND a.attempt IS NULL;
END;
COMMENT ON FUNCTION gpucredit.check_jobs(text) IS
'verify: jobs, their attempts and holds.';

/* Budgets: what they count is what holds were counted with */
CREATE FUNCTION gpucredit.check_budgets(tenant text)
RETURNS SETOF gpucredit.verify_result
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT 'budget_is_its_holds', coalesce(c.org, s.org),
		format('account "%s" %s of %s', coalesce(c.account, s.account),
			coalesce(c.period, s.period),
			coalesce(c.period_start, s.period_start)),
		format('expected reserved %s, spent %s, found %s, %s',
			coalesce(s.reserved, '0'), coalesce(s.spent, '0'),
			coalesce(c.reserved::text, 'no row'), c.spent)
	FROM (SELECT * FROM gpucredit.budget_count b
			WHERE check_budgets.tenant IS NULL
				OR b.org = check_budgets.tenant) c
		FULL JOIN (SELECT h.org, h.account, h.period, h.period_start,
				sum(h.reserved) AS reserved, sum(h.spent) AS spent
			FROM gpucredit.hold_budget h
			WHERE check_budgets.tenant IS NULL
				OR h.org = check_budgets.tenant
			GROUP BY h.org, h.account, h.period, h.period_start) s
			ON s.org = c.org AND s.account = c.account
				AND s.period = c.period AND s.period_start = c.period_start
	WHERE coalesce(c.reserved = coalesce(s.reserved, '0')
		AND c.spent = coalesce(s.spent, '0'), false) IS NOT TRUE
	UNION ALL
	SELECT 'budget_within_hold', b.org, format('hold %s', b.hold),
		format('counted %s reserved and %s spent in account "%s" (%s), '
			'holds %s and captured %s', b.reserved, b.spent, b.account,
			b.period, coalesce(h.held::text, 'nothing: it is missing'),
			h.captured)
	FROM (SELECT b.org, b.hold, b.account, b.period,
				sum(b.reserved) AS reserved, sum(b.spent) AS spent
			FROM gpucredit.hold_budget b
			WHERE check_budgets.tenant IS NULL
				OR b.org = check_budgets.tenant
			GROUP BY b.org, b.hold, b.account, b.period) b
		LEFT JOIN gpucredit.hold h ON h.org = b.org AND h.hold = b.hold
	WHERE (b.reserved <= h.held AND b.spent <= h.captured) IS NOT TRUE;
END;
COMMENT ON FUNCTION gpucredit.check_budgets(text) IS
'verify: budgets count what holds were counted with, and no more.';

/* Bills: what was metered, what it cost, what was paid */
CREATE FUNCTION gpucredit.check_bills(tenant text)
RETURNS SETOF gpucredit.verify_result
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	WITH a AS NOT MATERIALIZED (
		SELECT * FROM gpucredit.attempt a
		WHERE check_bills.tenant IS NULL OR a.org = check_bills.tenant)
	SELECT 'bill_is_its_entries', coalesce(a.org, e.org),
		format('job %s attempt %s', coalesce(a.job, e.job),
			coalesce(a.attempt, e.attempt)),
		format('expected %s, found %s', coalesce(e.spent, '0'),
			coalesce(a.billed::text, CASE WHEN a.attempt IS NULL
				THEN 'no attempt' ELSE 'not settled' END))
	FROM a
		FULL JOIN (SELECT e.org, e.job, e.attempt, sum(e.amount) AS spent
			FROM gpucredit.entry e
			WHERE (check_bills.tenant IS NULL OR e.org = check_bills.tenant)
				AND e.target = 'spent' AND e.job IS NOT NULL
			GROUP BY e.org, e.job, e.attempt) e
			ON e.org = a.org AND e.job = a.job AND e.attempt = a.attempt
	WHERE coalesce(a.billed, '0') <> coalesce(e.spent, '0')
	UNION ALL
	SELECT 'refund_is_its_entries', a.org,
		format('job %s attempt %s', a.job, a.attempt),
		format('expected %s, found %s', coalesce(e.refunded, '0'), a.refunded)
	FROM a
		LEFT JOIN (SELECT e.org, e.job, e.attempt, sum(e.amount) AS refunded
			FROM gpucredit.entry e
			WHERE (check_bills.tenant IS NULL OR e.org = check_bills.tenant)
				AND e.source = 'spent' AND e.target = 'available'
				AND e.attempt IS NOT NULL
			GROUP BY e.org, e.job, e.attempt) e
			ON e.org = a.org AND e.job = a.job AND e.attempt = a.attempt
	WHERE a.refunded <> coalesce(e.refunded, '0')
	UNION ALL
	SELECT 'attempt_is_whole', a.org,
		format('job %s attempt %s', a.job, a.attempt),
		format('ended at %s, outcome %s, billed %s of %s held, elapsed %s',
			coalesce(a.ended_at::text, 'never'), coalesce(a.outcome, 'none'),
			coalesce(a.billed::text, 'nothing'), a.held, a.elapsed)
	FROM a
	WHERE (a.ended_at IS NULL) <> (a.outcome IS NULL)
		OR (a.ended_at IS NULL) <> (a.billed IS NULL)
		OR a.billed > a.held OR a.elapsed < '0'
	UNION ALL
	SELECT 'bill_is_the_metered', a.org,
		format('job %s attempt %s', a.job, a.attempt),
		format('ran %s of held %s: expected %s, found %s', a.elapsed, a.held,
			gpucredit.bill(a.per_gpu_hour, a.gpus, a.share, a.elapsed,
				a.held), a.billed)
	FROM a
	WHERE a.billed <> gpucredit.bill(a.per_gpu_hour, a.gpus, a.share,
		a.elapsed, a.held)
	UNION ALL
	SELECT 'usage_within_attempt', u.org,
		format('job %s attempt %s', u.job, u.attempt),
		format('logged %s, %s; attempt has %s, %s held', u.elapsed,
			u.billed, coalesce(a.elapsed::text, 'no row'),
			coalesce(a.held::text, 'nothing'))
	FROM (SELECT u.org, u.job, u.attempt, max(u.elapsed) AS elapsed,
			max(u.billed) AS billed
		FROM gpucredit.usage u
		WHERE check_bills.tenant IS NULL OR u.org = check_bills.tenant
		GROUP BY u.org, u.job, u.attempt) u
		LEFT JOIN a ON a.org = u.org AND a.job = u.job
			AND a.attempt = u.attempt
	WHERE (u.elapsed <= a.elapsed AND u.billed <= a.held) IS NOT TRUE
	UNION ALL
	SELECT 'checkpoint_within_attempt', c.org,
		format('job %s attempt %s step %s', c.job, c.attempt, c.step),
		format('saved at %s; attempt has %s', c.elapsed,
			coalesce(a.elapsed::text, 'no row'))
	FROM gpucredit.checkpoint c
		LEFT JOIN a ON a.org = c.org AND a.job = c.job
			AND a.attempt = c.attempt
	WHERE (check_bills.tenant IS NULL OR c.org = check_bills.tenant)
		AND (c.elapsed <= a.elapsed) IS NOT TRUE;
END;
COMMENT ON FUNCTION gpucredit.check_bills(text) IS
'verify: settlements, entries, usage and checkpoints agree.';

/*
 * Devices: taken means given to a live attempt, or to one that is over but
 * not seen gone by its agent.  tenant: only what concerns its attempts.
 */
CREATE FUNCTION gpucredit.check_devices(tenant text)
RETURNS SETOF gpucredit.verify_result
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	WITH g AS NOT MATERIALIZED (
		SELECT * FROM gpucredit.attempt_gpu g
		WHERE check_devices.tenant IS NULL OR g.org = check_devices.tenant),
	taken AS NOT MATERIALIZED (
		SELECT * FROM gpucredit.attempt_gpu g WHERE NOT g.free)
	SELECT 'device_given_once', min(d.org),
		format('node "%s" device %s', d.node, d.device),
		format('%s thousandths given, to %s', sum(d.share),
			string_agg(format('%s/%s/%s', d.org, d.job, d.attempt), ', '
				ORDER BY d.org, d.job, d.attempt))
	FROM (SELECT t.*, unnest(gpucredit.gpuset_to_array(t.gpus)) AS device FROM taken t) d
	GROUP BY d.node, d.device
	HAVING sum(d.share) > 1000 AND (check_devices.tenant IS NULL
		OR bool_or(d.org = check_devices.tenant))
	UNION ALL
	SELECT w.invariant, t.org, format('job %s attempt %s node "%s"', t.job,
			t.attempt, t.node),
		format('devices %s of an attempt on %s in pool "%s", the node %s',
			t.gpus, a.gpu_type, a.pool, CASE WHEN n.node IS NULL
				THEN 'is missing' ELSE format('has %s %s in pool "%s"',
				n.gpus, n.gpu_type, n.pool) END)
	FROM taken t
		JOIN gpucredit.attempt a ON a.org = t.org AND a.job = t.job
			AND a.attempt = t.attempt
		LEFT JOIN gpucredit.node n ON n.node = t.node
		CROSS JOIN LATERAL (VALUES
		('device_exists', n.node IS NULL OR EXISTS (SELECT FROM
			unnest(gpucredit.gpuset_to_array(t.gpus)) AS d (device) WHERE d.device >= n.gpus)),
		('node_is_right', t.ended_at IS NULL AND (n.pool <> t.pool
			OR a.pool <> t.pool OR (a.gpus > 0 AND n.gpu_type <> a.gpu_type))))
		AS w (invariant, broken)
	WHERE (check_devices.tenant IS NULL OR t.org = check_devices.tenant)
		AND w.broken
	UNION ALL
	SELECT 'node_not_overdrawn', min(t.org), format('node "%s"', t.node),
		format('cpu %s of %s, memory %s of %s', sum(t.cpu_milli),
			n.cpu_milli, sum(t.memory_mib), n.memory_mib)
	FROM taken t JOIN gpucredit.node n ON n.node = t.node
	GROUP BY t.node, n.cpu_milli, n.memory_mib
	HAVING (check_devices.tenant IS NULL
			OR bool_or(t.org = check_devices.tenant))
		AND ((n.cpu_milli > 0 AND sum(t.cpu_milli) > n.cpu_milli)
			OR (n.memory_mib > 0 AND sum(t.memory_mib) > n.memory_mib))
	UNION ALL
	SELECT 'gang_is_whole', a.org, format('job %s attempt %s', a.job,
			a.attempt), format('%s devices of %s, shares from %s to %s of %s',
			coalesce(g.gpus, 0), a.gpus, coalesce(g.least, 0),
			coalesce(g.most, 0), a.share)
	FROM gpucredit.attempt a
		LEFT JOIN (SELECT g.org, g.job, g.attempt,
				sum(gpucredit.gpu_count(g.gpus)) AS gpus,
				min(g.share) AS least, max(g.share) AS most
			FROM g GROUP BY g.org, g.job, g.attempt) g
			ON g.org = a.org AND g.job = a.job AND g.attempt = a.attempt
	WHERE (check_devices.tenant IS NULL OR a.org = check_devices.tenant)
		AND (g.gpus = a.gpus AND g.least = a.share AND g.most = a.share)
			IS NOT TRUE
	UNION ALL
	SELECT 'devices_follow_attempt', g.org, format('job %s attempt %s node "%s"',
			g.job, g.attempt, g.node),
		format('the attempt %s, its devices are %s, %s',
			CASE WHEN a.attempt IS NULL THEN 'is missing'
				WHEN a.ended_at IS NULL THEN 'is live' ELSE 'is over' END,
			CASE WHEN g.free THEN 'free' ELSE 'taken' END,
			CASE WHEN g.ended_at IS NULL THEN 'in use' ELSE 'over' END)
	FROM g
		LEFT JOIN gpucredit.attempt a ON a.org = g.org AND a.job = g.job
			AND a.attempt = g.attempt
	WHERE CASE WHEN a.attempt IS NULL THEN true
		WHEN a.ended_at IS NULL THEN g.free OR g.ended_at IS NOT NULL
		ELSE NOT g.free AND g.ended_at IS NULL END;
END;
COMMENT ON FUNCTION gpucredit.check_devices(text) IS
'verify: devices, cpu and memory of nodes.';

/* What guards the tables themselves */
CREATE FUNCTION gpucredit.check_guards(tenant text)
RETURNS SETOF gpucredit.verify_result
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT 'request_has_result', r.org, format('key "%s"', r.key),
		format('of %s at %s', r.operation, r.created_at)
	FROM gpucredit.request r
	WHERE (check_guards.tenant IS NULL OR r.org = check_guards.tenant)
		AND r.result IS NULL
	UNION ALL
	SELECT 'no_key_to_account', '', format('table %s', c.conrelid::regclass),
		format('foreign key %s', c.conname)
	FROM pg_catalog.pg_constraint c
	WHERE c.contype = 'f'
		AND c.confrelid = 'gpucredit.account'::regclass
	UNION ALL
	SELECT 'append_only_is_guarded', '', format('table gpucredit.%s', t.name),
		'trigger missing, or not enabled ALWAYS'
	FROM unnest(ARRAY['audit', 'entry', 'usage']) AS t (name)
	WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_trigger g
		WHERE g.tgrelid = ('gpucredit.' || t.name)::regclass
			AND g.tgfoid = 'gpucredit.refuse_change'::regproc
			AND g.tgenabled = 'A' AND g.tgtype & 56 = 56)
	UNION ALL
	SELECT 'sequence_not_behind', '', format('sequence gpucredit.%s', s.name),
		format('at %s, ids go to %s', coalesce(s.at, 0), s.newest)
	FROM (VALUES
		('bucket_bucket_seq', (SELECT max(b.bucket) FROM gpucredit.bucket b)),
		('hold_hold_seq', (SELECT max(h.hold) FROM gpucredit.hold h)),
		('entry_entry_seq', (SELECT max(e.entry) FROM gpucredit.entry e)),
		('job_job_seq', (SELECT max(j.job) FROM gpucredit.job j)))
		AS m (name, newest)
		CROSS JOIN LATERAL (SELECT m.name, m.newest, pg_sequence_last_value(
			('gpucredit.' || m.name)::regclass) AS at) s
	WHERE check_guards.tenant IS NULL AND s.newest > coalesce(s.at, 0);
END;
COMMENT ON FUNCTION gpucredit.check_guards(text) IS
'verify: requests, and what guards the tables.';

/*
 * The plans depend on whether one organisation is asked for or all, hence
 * PL/pgSQL and custom plans; the memory is for the sums over all entries.
 */
CREATE FUNCTION gpucredit.verify(org text DEFAULT NULL)
RETURNS SETOF gpucredit.verify_result
LANGUAGE plpgsql STABLE SECURITY DEFINER PARALLEL UNSAFE ROWS 10
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_custom_plan
SET work_mem = '128MB'
SET jit = off
AS $$
BEGIN
	RETURN QUERY SELECT c.* FROM gpucredit.check_buckets(verify.org) c;
	RETURN QUERY SELECT c.* FROM gpucredit.check_holds(verify.org) c;
	RETURN QUERY SELECT c.* FROM gpucredit.check_budgets(verify.org) c;
	RETURN QUERY SELECT c.* FROM gpucredit.check_accounts(verify.org) c;
	RETURN QUERY SELECT c.* FROM gpucredit.check_jobs(verify.org) c;
	RETURN QUERY SELECT c.* FROM gpucredit.check_bills(verify.org) c;
	RETURN QUERY SELECT c.* FROM gpucredit.check_devices(verify.org) c;
	RETURN QUERY SELECT c.* FROM gpucredit.check_guards(verify.org) c;
END
$$;
COMMENT ON FUNCTION gpucredit.verify(text) IS
'Recomputes every figure from the entries and tells what does not hold; nothing, when all does. One snapshot: safe on a live system.
org: only what concerns one organisation; NULL: everything.
Result: the invariant, the organisation ('''' for none), what breaks it, and the numbers.';

/*
 * 86_upkeep.sql: running sums repaired, and work that is done now and then.
 */

CREATE TYPE gpucredit.rebuild_result AS (what text, was numeric,
	is_now numeric);

/*
 * Makes one organisation's differences good.  The caller has locked the rows.
 * One UPDATE a row, so that no check sees a row half repaired.  A hold that
 * has something after all is open.  Recorded spend is repaired by one more
 * delta, which needs no lock.
 */
CREATE FUNCTION gpucredit.repair(tenant text, parts gpucredit.difference[],
	holds gpucredit.difference[], buckets gpucredit.difference[])
RETURNS void
LANGUAGE sql VOLATILE PARALLEL UNSAFE
BEGIN ATOMIC
	DELETE FROM gpucredit.hold_part p
	USING unnest(repair.parts) AS d
	WHERE p.org = repair.tenant AND d.expected IS NULL
		AND p.hold = d.hold AND p.part = d.part;
	INSERT INTO gpucredit.hold_part AS p (org, hold, part, bucket, drawn,
		held, spent, refunded, returned, lapsed)
	SELECT repair.tenant, d.hold, d.part, d.bucket,
		max(d.expected) FILTER (WHERE d.what = 'drawn'),
		max(d.expected) FILTER (WHERE d.what = 'held'),
		max(d.expected) FILTER (WHERE d.what = 'spent'),
		max(d.expected) FILTER (WHERE d.what = 'refunded'),
		max(d.expected) FILTER (WHERE d.what = 'returned'),
		max(d.expected) FILTER (WHERE d.what = 'lapsed')
	FROM unnest(repair.parts) AS d
	WHERE d.found IS NULL
	GROUP BY d.hold, d.part, d.bucket;
	UPDATE gpucredit.hold_part p
	SET drawn = coalesce(n.drawn, p.drawn), held = coalesce(n.held, p.held),
		spent = coalesce(n.spent, p.spent),
		refunded = coalesce(n.refunded, p.refunded),
		returned = coalesce(n.returned, p.returned),
		lapsed = coalesce(n.lapsed, p.lapsed)
	FROM (SELECT d.hold, d.part,
			max(d.expected) FILTER (WHERE d.what = 'drawn') AS drawn,
			max(d.expected) FILTER (WHERE d.what = 'held') AS held,
			max(d.expected) FILTER (WHERE d.what = 'spent') AS spent,
			max(d.expected) FILTER (WHERE d.what = 'refunded') AS refunded,
			max(d.expected) FILTER (WHERE d.what = 'returned') AS returned,
			max(d.expected) FILTER (WHERE d.what = 'lapsed') AS lapsed
		FROM unnest(repair.parts) AS d
		WHERE d.found IS NOT NULL AND d.expected IS NOT NULL
		GROUP BY d.hold, d.part) n
	WHERE p.org = repair.tenant AND p.hold = n.hold AND p.part = n.part;
	UPDATE gpucredit.hold h
	SET drawn = coalesce(n.drawn, h.drawn), held = coalesce(n.held, h.held),
		captured = coalesce(n.captured, h.captured),
		refunded = coalesce(n.refunded, h.refunded),
		released = coalesce(n.released, h.released),
		lapsed = coalesce(n.lapsed, h.lapsed),
		closed_at = CASE WHEN coalesce(n.held, h.held) > '0' THEN NULL
			ELSE h.closed_at END
	FROM (SELECT d.hold,
			max(d.expected) FILTER (WHERE d.what = 'drawn') AS drawn,
			max(d.expected) FILTER (WHERE d.what = 'held') AS held,
			max(d.expected) FILTER (WHERE d.what = 'captured') AS captured,
			max(d.expected) FILTER (WHERE d.what = 'refunded') AS refunded,
			max(d.expected) FILTER (WHERE d.what = 'released') AS released,
			max(d.expected) FILTER (WHERE d.what = 'lapsed') AS lapsed
		FROM unnest(repair.holds) AS d GROUP BY d.hold) n
	WHERE h.org = repair.tenant AND h.hold = n.hold;
	UPDATE gpucredit.bucket b
	SET issued = coalesce(n.issued, b.issued),
		available = coalesce(n.available, b.available),
		held = coalesce(n.held, b.held), spent = coalesce(n.spent, b.spent),
		expired = coalesce(n.expired, b.expired),
		revoked = coalesce(n.revoked, b.revoked),
		moved = coalesce(n.moved, b.moved)
	FROM (SELECT d.bucket,
			max(d.expected) FILTER (WHERE d.what = 'issued') AS issued,
			max(d.expected) FILTER (WHERE d.what = 'available') AS available,
			max(d.expected) FILTER (WHERE d.what = 'held') AS held,
			max(d.expected) FILTER (WHERE d.what = 'spent') AS spent,
			max(d.expected) FILTER (WHERE d.what = 'expired') AS expired,
			max(d.expected) FILTER (WHERE d.what = 'revoked') AS revoked,
			max(d.expected) FILTER (WHERE d.what = 'moved') AS moved
		FROM unnest(repair.buckets) AS d GROUP BY d.bucket) n
	WHERE b.org = repair.tenant AND b.bucket = n.bucket;
	INSERT INTO gpucredit.spend_delta (org, account, spent)
	SELECT s.org, s.account, s.expected - s.found
	FROM gpucredit.spend_difference(repair.tenant) s;
END;
COMMENT ON FUNCTION gpucredit.repair(text, gpucredit.difference[],
	gpucredit.difference[], gpucredit.difference[]) IS
'rebuild: writes what was found to be right.';

/*
 * Locks: all holds of the organisation, then its buckets in burn order.  What
 * is compared is read after that; a row that appears meanwhile is right from
 * birth.
 */
CREATE FUNCTION gpucredit.rebuild(org text)
RETURNS SETOF gpucredit.rebuild_result
LANGUAGE plpgsql VOLATILE SECURITY DEFINER PARALLEL UNSAFE ROWS 10
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_custom_plan
SET work_mem = '128MB'
AS $$
DECLARE
	parts gpucredit.difference[];
	holds gpucredit.difference[];
	buckets gpucredit.difference[];
	actor text := coalesce(nullif(pg_catalog.current_setting('role'), 'none'),
		session_user);
	r record;
BEGIN
	PERFORM gpucredit.require_account(rebuild.org, '');
	PERFORM FROM gpucredit.hold h WHERE h.org = rebuild.org
		ORDER BY h.hold FOR NO KEY UPDATE;
	PERFORM FROM gpucredit.bucket b WHERE b.org = rebuild.org
		ORDER BY b.priority, b.expires_at, gpucredit.kind_rank(b.kind),
			length(b.account) DESC, b.effective_at, b.bucket
		FOR NO KEY UPDATE;
	parts := ARRAY(SELECT d FROM gpucredit.part_difference(rebuild.org) d
		WHERE d.sound);
	holds := ARRAY(SELECT d FROM gpucredit.hold_difference(rebuild.org) d
		WHERE d.sound AND d.found IS NOT NULL);
	buckets := ARRAY(SELECT d FROM gpucredit.bucket_difference(rebuild.org) d
		WHERE d.sound AND d.found IS NOT NULL);
	FOR r IN
		SELECT d.*, NULL AS account
		FROM unnest(buckets || holds || parts) AS d
		UNION ALL
		SELECT s.org, NULL, NULL, NULL, 'spent', s.found, s.expected, true,
			s.account
		FROM gpucredit.spend_difference(rebuild.org) s
		ORDER BY account, hold NULLS FIRST, part NULLS FIRST, bucket, what
	LOOP
		RETURN NEXT ROW(concat_ws(' ', 'account "' || r.account || '"',
			'hold ' || r.hold, 'part ' || r.part, 'bucket ' || r.bucket,
			r.what), r.found::numeric, r.expected::numeric);
		INSERT INTO gpucredit.audit (org, at, login, actor, operation,
			decision, account, bucket, hold, detail)
		VALUES (rebuild.org, gpucredit.now(), session_user,
			actor, 'rebuild', 'repaired', r.account, r.bucket, r.hold,
			pg_catalog.jsonb_build_object('what', r.what, 'part', r.part,
				'was', r.found::numeric, 'is_now', r.expected::numeric));
	END LOOP;
	PERFORM gpucredit.repair(rebuild.org, parts, holds, buckets);
END
$$;
COMMENT ON FUNCTION gpucredit.rebuild(text) IS
'Recomputes an organisation''s running sums (buckets, holds and their parts, recorded spend) from its entries, repairs what differs, and audits each repair. Its money stands still meanwhile.
Result: each figure that differed, in credits; none where all was right. What the entries themselves make negative is left as it is: verify reports it.
Errors: UC001 no such organisation.';

CREATE TYPE gpucredit.maintain_result AS (task text, affected bigint);

/*
 * One call at a time folds, which a lock on the table says that no reader and
 * no settlement meets; another call finds nothing to do instead of waiting.
 * Deltas and keys that some transaction holds are left for next time.
 */
CREATE FUNCTION gpucredit.fold_spend(most int) RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	tenant text COLLATE "C";
	accounts text[];
	amounts gpucredit.credits[];
	n bigint;
	total bigint := 0;
BEGIN
	BEGIN
		LOCK TABLE gpucredit.spend_total IN SHARE UPDATE EXCLUSIVE MODE NOWAIT;
	EXCEPTION WHEN lock_not_available THEN
		RETURN 0;
	END;
	FOR tenant IN
		SELECT DISTINCT d.org FROM (SELECT s.org FROM gpucredit.spend_delta s
			LIMIT most) d ORDER BY 1
	LOOP
		WITH gone AS (
			DELETE FROM gpucredit.spend_delta d
			WHERE d.org = tenant AND d.ctid = ANY (ARRAY(
				SELECT s.ctid FROM gpucredit.spend_delta s
				WHERE s.org = tenant LIMIT most - total
				FOR UPDATE SKIP LOCKED))
			RETURNING d.account, d.spent)
		SELECT pg_catalog.array_agg(g.account), pg_catalog.array_agg(g.spent),
			coalesce(pg_catalog.sum(g.n), 0)
		INTO accounts, amounts, n
		FROM (SELECT g.account, gpucredit.sum(g.spent) AS spent,
				count(*) AS n
			FROM gone g GROUP BY g.account) g;
		INSERT INTO gpucredit.spend_total AS t (org, account, spent)
		SELECT tenant, a.account, a.spent
		FROM unnest(accounts, amounts) AS a (account, spent)
		ON CONFLICT (org, account)
		DO UPDATE SET spent = t.spent OPERATOR(gpucredit.+) excluded.spent;
		total := total + n;
		EXIT WHEN total >= most;
	END LOOP;
	RETURN total;
END
$$;
COMMENT ON FUNCTION gpucredit.fold_spend(int) IS
'maintain: folds at most so many deltas of spend into the totals; the number folded.';

CREATE FUNCTION gpucredit.forget_requests(most int) RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	oldest timestamptz := gpucredit.now()
		- pg_catalog.current_setting('gpucredit.key_retention')::interval;
	n bigint;
BEGIN
	DELETE FROM gpucredit.request r
	WHERE r.ctid = ANY (ARRAY(SELECT o.ctid FROM gpucredit.request o
		WHERE o.created_at < oldest LIMIT most FOR UPDATE SKIP LOCKED));
	GET DIAGNOSTICS n = ROW_COUNT;
	RETURN n;
END
$$;
COMMENT ON FUNCTION gpucredit.forget_requests(int) IS
'maintain: deletes at most so many keys past gpucredit.key_retention; the number deleted.';

/* A directive given while its attempt was being settled is left behind. */
CREATE FUNCTION gpucredit.forget_directives(most int) RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	n bigint;
BEGIN
	DELETE FROM gpucredit.directive d
	WHERE d.ctid = ANY (ARRAY(SELECT o.ctid FROM gpucredit.directive o
		JOIN gpucredit.attempt a ON a.org = o.org AND a.job = o.job
			AND a.attempt = o.attempt
		WHERE a.ended_at IS NOT NULL LIMIT most FOR UPDATE OF o SKIP LOCKED));
	GET DIAGNOSTICS n = ROW_COUNT;
	RETURN n;
END
$$;
COMMENT ON FUNCTION gpucredit.forget_directives(int) IS
'maintain: deletes at most so many directives of attempts that are over; the number deleted.';

CREATE FUNCTION gpucredit.maintain()
RETURNS SETOF gpucredit.maintain_result
LANGUAGE sql VOLATILE SECURITY DEFINER PARALLEL UNSAFE ROWS 3
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
	SELECT 'fold_spend', gpucredit.fold_spend(10000)
	UNION ALL
	SELECT 'forget_requests', gpucredit.forget_requests(10000)
	UNION ALL
	SELECT 'forget_directives', gpucredit.forget_directives(10000);
END;
COMMENT ON FUNCTION gpucredit.maintain() IS
'Upkeep, to be called now and then: folds recorded spend, forgets keys past gpucredit.key_retention and directives of attempts that are over. At most 10,000 rows of each a call, so call again while any affected is 10000. Waits for nobody.
Result: each task, and how many rows it took.';

/*
 * 99_grants.sql: who may do what.
 *
 * PUBLIC may do nothing.  Tables are written by the functions alone, which
 * run with the rights of the extension's owner; what is not listed below is
 * internal.
 *
 *   gpucredit_admin     everything
 *   gpucredit_operator  nodes, scheduling cycles, upkeep, cancelling
 *   gpucredit_app       holds, jobs, balances
 *   gpucredit_agent     heartbeats, metering, settling, scheduling cycles
 *   gpucredit_auditor   reads everything, changes nothing
 */
REVOKE ALL ON SCHEMA gpucredit FROM PUBLIC;
REVOKE ALL ON ALL TABLES IN SCHEMA gpucredit FROM PUBLIC;
REVOKE ALL ON ALL SEQUENCES IN SCHEMA gpucredit FROM PUBLIC;
REVOKE ALL ON ALL ROUTINES IN SCHEMA gpucredit FROM PUBLIC;

/* The types, and what computes with them, serve every role. */
DO $types$
DECLARE
	name text;
BEGIN
	FOR name IN
		SELECT t.oid::pg_catalog.regtype FROM pg_catalog.pg_type t
			LEFT JOIN pg_catalog.pg_class c ON c.oid = t.typrelid
		WHERE t.typnamespace = 'gpucredit'::pg_catalog.regnamespace
			AND t.typelem = 0 AND coalesce(c.relkind = 'c', true)
	LOOP
		EXECUTE format('REVOKE ALL ON TYPE %s FROM PUBLIC', name);
		EXECUTE format('GRANT USAGE ON TYPE %s TO gpucredit_admin,'
			' gpucredit_operator, gpucredit_app, gpucredit_agent,'
			' gpucredit_auditor', name);
	END LOOP;
	FOR name IN
		SELECT p.oid::pg_catalog.regprocedure FROM pg_catalog.pg_proc p
		WHERE p.pronamespace = 'gpucredit'::pg_catalog.regnamespace
			AND NOT p.prosecdef
			AND p.proargtypes::oid[] || p.prorettype && ARRAY[
				'gpucredit.credits'::pg_catalog.regtype,
				'gpucredit.gpureq'::pg_catalog.regtype,
				'gpucredit.gpuset'::pg_catalog.regtype]::oid[]
	LOOP
		EXECUTE format('GRANT EXECUTE ON ROUTINE %s TO gpucredit_admin,'
			' gpucredit_operator, gpucredit_app, gpucredit_agent,'
			' gpucredit_auditor', name);
	END LOOP;
END
$types$;

GRANT USAGE ON SCHEMA gpucredit
TO gpucredit_admin, gpucredit_operator, gpucredit_app, gpucredit_agent,
	gpucredit_auditor;

/* Functions */

GRANT EXECUTE ON FUNCTION gpucredit.now
TO gpucredit_admin, gpucredit_operator, gpucredit_app, gpucredit_agent,
	gpucredit_auditor;

GRANT EXECUTE ON FUNCTION			/* setting up, credits, repair */
	gpucredit.create_account, gpucredit.suspend_account,
	gpucredit.set_price, gpucredit.create_pool, gpucredit.set_tier,
	gpucredit.set_budget, gpucredit.set_quota,
	gpucredit.issue, gpucredit.revoke, gpucredit.transfer,
	gpucredit.refund, gpucredit.refund_hold, gpucredit.rebuild
TO gpucredit_admin;

GRANT EXECUTE ON FUNCTION			/* balances */
	gpucredit.balance, gpucredit.buckets, gpucredit.budgets,
	gpucredit.statement, gpucredit.usage_by, gpucredit.top_spenders,
	gpucredit.top_jobs, gpucredit.invoice
TO gpucredit_admin, gpucredit_app, gpucredit_auditor;

GRANT EXECUTE ON FUNCTION			/* holds; submitting */
	gpucredit.hold, gpucredit.capture, gpucredit.release,
	gpucredit.reserve
TO gpucredit_admin, gpucredit_app;

GRANT EXECUTE ON FUNCTION gpucredit.cancel
TO gpucredit_admin, gpucredit_operator, gpucredit_app;

GRANT EXECUTE ON FUNCTION gpucredit.settle
TO gpucredit_admin, gpucredit_app, gpucredit_agent;

GRANT EXECUTE ON FUNCTION			/* metering */
	gpucredit.meter, gpucredit.meter_batch, gpucredit.checkpoint
TO gpucredit_admin, gpucredit_agent;

GRANT EXECUTE ON FUNCTION			/* scheduling cycles; signs of life */
	gpucredit.place, gpucredit.plan, gpucredit.heartbeat
TO gpucredit_admin, gpucredit_operator, gpucredit_agent;

GRANT EXECUTE ON FUNCTION			/* nodes, upkeep */
	gpucredit.register_node, gpucredit.drain, gpucredit.resume,
	gpucredit.remove_node, gpucredit.expire_credits, gpucredit.maintain
TO gpucredit_admin, gpucredit_operator;

GRANT EXECUTE ON FUNCTION			/* what ends badly, and who sees to it */
	gpucredit.set_retry_rule, gpucredit.reap_holds, gpucredit.check_nodes,
	gpucredit.install_jobs, gpucredit.remove_jobs
TO gpucredit_admin, gpucredit_operator;

GRANT EXECUTE ON FUNCTION gpucredit.cron_jobs
TO gpucredit_admin, gpucredit_operator, gpucredit_auditor;

GRANT EXECUTE ON FUNCTION gpucredit.verify
TO gpucredit_admin, gpucredit_operator, gpucredit_auditor;

GRANT EXECUTE ON FUNCTION gpucredit.history
TO gpucredit_admin, gpucredit_operator, gpucredit_app, gpucredit_auditor;

/* Tables */

GRANT SELECT ON ALL TABLES IN SCHEMA gpucredit
TO gpucredit_admin, gpucredit_auditor;

GRANT SELECT ON gpucredit.jobs, gpucredit.price, gpucredit.tier
TO gpucredit_operator, gpucredit_app;

GRANT SELECT ON gpucredit.pool, gpucredit.node, gpucredit.attempt,
	gpucredit.attempt_gpu, gpucredit.directive, gpucredit.checkpoint,
	gpucredit.retry_rule, gpucredit.cron_status
TO gpucredit_operator;
