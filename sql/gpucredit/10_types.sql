/*
 * 10_types.sql: credits, gpureq and gpuset.
 *
 * credits and gpuset are 64-bit values passed by value, so they use the
 * server's code for bigint (hash, binary output).  The functions in LANGUAGE
 * internal below are that code under another name and signature.  C functions
 * compare them, because statements find C functions faster.  All functions are
 * immutable, strict and parallel safe, except those that take an aggregate's
 * internal state, which may be NULL.
 */

/*
 * credits: an amount of money, in millionths.
 */
CREATE TYPE gpucredit.credits;

CREATE FUNCTION gpucredit_internal.credits_in(cstring) RETURNS gpucredit.credits
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_credits_in';

CREATE FUNCTION gpucredit_internal.credits_out(gpucredit.credits) RETURNS cstring
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_credits_out';

CREATE FUNCTION gpucredit_internal.credits_recv(internal) RETURNS gpucredit.credits
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_credits_recv';

CREATE FUNCTION gpucredit_internal.credits_send(gpucredit.credits) RETURNS bytea
LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE
AS 'int8send';

CREATE TYPE gpucredit.credits (
	INPUT = gpucredit_internal.credits_in,
	OUTPUT = gpucredit_internal.credits_out,
	RECEIVE = gpucredit_internal.credits_recv,
	SEND = gpucredit_internal.credits_send,
	LIKE = pg_catalog.int8,
	CATEGORY = 'N'
);
COMMENT ON TYPE gpucredit.credits IS
'Amount of credits: fixed point with 6 decimals, -9223372036854.775808 to 9223372036854.775807. Text: a plain decimal number. An amount that does not fit or has more decimals: 22003.';

CREATE FUNCTION gpucredit_internal.credits_eq(gpucredit.credits, gpucredit.credits)
RETURNS boolean
LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE
AS 'int8eq';

CREATE FUNCTION gpucredit_internal.credits_ne(gpucredit.credits, gpucredit.credits)
RETURNS boolean
LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE
AS 'int8ne';

CREATE FUNCTION gpucredit_internal.credits_lt(gpucredit.credits, gpucredit.credits)
RETURNS boolean
LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE
AS 'int8lt';

CREATE FUNCTION gpucredit_internal.credits_le(gpucredit.credits, gpucredit.credits)
RETURNS boolean
LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE
AS 'int8le';

CREATE FUNCTION gpucredit_internal.credits_gt(gpucredit.credits, gpucredit.credits)
RETURNS boolean
LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE
AS 'int8gt';

CREATE FUNCTION gpucredit_internal.credits_ge(gpucredit.credits, gpucredit.credits)
RETURNS boolean
LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE
AS 'int8ge';

CREATE FUNCTION gpucredit_internal.credits_cmp(gpucredit.credits, gpucredit.credits)
RETURNS integer
LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE
AS 'btint8cmp';

CREATE FUNCTION gpucredit_internal.credits_hash(gpucredit.credits) RETURNS integer
LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE
AS 'hashint8';

CREATE FUNCTION gpucredit_internal.credits_hash_extended(gpucredit.credits, bigint)
RETURNS bigint
LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE
AS 'hashint8extended';

CREATE OPERATOR gpucredit.= (
	FUNCTION = gpucredit_internal.credits_eq, LEFTARG = gpucredit.credits, RIGHTARG = gpucredit.credits,
	COMMUTATOR = OPERATOR(gpucredit.=), NEGATOR = OPERATOR(gpucredit.<>),
	RESTRICT = pg_catalog.eqsel, JOIN = pg_catalog.eqjoinsel, HASHES, MERGES
);

CREATE OPERATOR gpucredit.<> (
	FUNCTION = gpucredit_internal.credits_ne, LEFTARG = gpucredit.credits, RIGHTARG = gpucredit.credits,
	COMMUTATOR = OPERATOR(gpucredit.<>), NEGATOR = OPERATOR(gpucredit.=),
	RESTRICT = pg_catalog.neqsel, JOIN = pg_catalog.neqjoinsel
);

CREATE OPERATOR gpucredit.< (
	FUNCTION = gpucredit_internal.credits_lt, LEFTARG = gpucredit.credits, RIGHTARG = gpucredit.credits,
	COMMUTATOR = OPERATOR(gpucredit.>), NEGATOR = OPERATOR(gpucredit.>=),
	RESTRICT = pg_catalog.scalarltsel, JOIN = pg_catalog.scalarltjoinsel
);

CREATE OPERATOR gpucredit.<= (
	FUNCTION = gpucredit_internal.credits_le, LEFTARG = gpucredit.credits, RIGHTARG = gpucredit.credits,
	COMMUTATOR = OPERATOR(gpucredit.>=), NEGATOR = OPERATOR(gpucredit.>),
	RESTRICT = pg_catalog.scalarlesel, JOIN = pg_catalog.scalarlejoinsel
);

CREATE OPERATOR gpucredit.> (
	FUNCTION = gpucredit_internal.credits_gt, LEFTARG = gpucredit.credits, RIGHTARG = gpucredit.credits,
	COMMUTATOR = OPERATOR(gpucredit.<), NEGATOR = OPERATOR(gpucredit.<=),
	RESTRICT = pg_catalog.scalargtsel, JOIN = pg_catalog.scalargtjoinsel
);

CREATE OPERATOR gpucredit.>= (
	FUNCTION = gpucredit_internal.credits_ge, LEFTARG = gpucredit.credits, RIGHTARG = gpucredit.credits,
	COMMUTATOR = OPERATOR(gpucredit.<=), NEGATOR = OPERATOR(gpucredit.<),
	RESTRICT = pg_catalog.scalargesel, JOIN = pg_catalog.scalargejoinsel
);

COMMENT ON OPERATOR gpucredit.= (gpucredit.credits, gpucredit.credits) IS
'Are the amounts equal?';
COMMENT ON OPERATOR gpucredit.<> (gpucredit.credits, gpucredit.credits) IS
'Do the amounts differ?';
COMMENT ON OPERATOR gpucredit.< (gpucredit.credits, gpucredit.credits) IS
'Is the first amount less?';
COMMENT ON OPERATOR gpucredit.<= (gpucredit.credits, gpucredit.credits) IS
'Is the first amount less, or are they equal?';
COMMENT ON OPERATOR gpucredit.> (gpucredit.credits, gpucredit.credits) IS
'Is the first amount greater?';
COMMENT ON OPERATOR gpucredit.>= (gpucredit.credits, gpucredit.credits) IS
'Is the first amount greater, or are they equal?';

CREATE OPERATOR CLASS gpucredit.credits_ops DEFAULT FOR TYPE gpucredit.credits USING btree AS
	OPERATOR 1 gpucredit.<, OPERATOR 2 gpucredit.<=, OPERATOR 3 gpucredit.=,
	OPERATOR 4 gpucredit.>=, OPERATOR 5 gpucredit.>,
	FUNCTION 1 gpucredit_internal.credits_cmp(gpucredit.credits, gpucredit.credits),
	FUNCTION 2 pg_catalog.btint8sortsupport(internal),
	FUNCTION 4 pg_catalog.btequalimage(oid);
CREATE OPERATOR CLASS gpucredit.credits_ops DEFAULT FOR TYPE gpucredit.credits USING hash AS
	OPERATOR 1 gpucredit.=,
	FUNCTION 1 gpucredit_internal.credits_hash(gpucredit.credits),
	FUNCTION 2 gpucredit_internal.credits_hash_extended(gpucredit.credits, bigint);

CREATE FUNCTION gpucredit_internal.credits_add(gpucredit.credits, gpucredit.credits)
RETURNS gpucredit.credits
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_credits_add';

CREATE FUNCTION gpucredit_internal.credits_sub(gpucredit.credits, gpucredit.credits)
RETURNS gpucredit.credits
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_credits_sub';

CREATE FUNCTION gpucredit_internal.credits_neg(gpucredit.credits)
RETURNS gpucredit.credits
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_credits_neg';

CREATE FUNCTION gpucredit_internal.credits_mul(gpucredit.credits, bigint)
RETURNS gpucredit.credits
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_credits_mul';

CREATE FUNCTION gpucredit_internal.mul_credits(bigint, gpucredit.credits)
RETURNS gpucredit.credits
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_mul_credits';

CREATE OPERATOR gpucredit.+ (
	FUNCTION = gpucredit_internal.credits_add, LEFTARG = gpucredit.credits, RIGHTARG = gpucredit.credits,
	COMMUTATOR = OPERATOR(gpucredit.+)
);
CREATE OPERATOR gpucredit.- (
	FUNCTION = gpucredit_internal.credits_sub, LEFTARG = gpucredit.credits, RIGHTARG = gpucredit.credits
);
CREATE OPERATOR gpucredit.- (
	FUNCTION = gpucredit_internal.credits_neg, RIGHTARG = gpucredit.credits
);
CREATE OPERATOR gpucredit.* (
	FUNCTION = gpucredit_internal.credits_mul, LEFTARG = gpucredit.credits, RIGHTARG = bigint,
	COMMUTATOR = OPERATOR(gpucredit.*)
);
CREATE OPERATOR gpucredit.* (
	FUNCTION = gpucredit_internal.mul_credits, LEFTARG = bigint, RIGHTARG = gpucredit.credits,
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

CREATE FUNCTION gpucredit_internal.numeric_to_credits(numeric) RETURNS gpucredit.credits
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_numeric_to_credits';

CREATE FUNCTION gpucredit_internal.credits_to_numeric(gpucredit.credits) RETURNS numeric
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_credits_to_numeric';

CREATE FUNCTION gpucredit_internal.int8_to_credits(bigint) RETURNS gpucredit.credits
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_int8_to_credits';

CREATE FUNCTION gpucredit_internal.int4_to_credits(integer) RETURNS gpucredit.credits
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_int4_to_credits';

CREATE FUNCTION gpucredit_internal.int2_to_credits(smallint) RETURNS gpucredit.credits
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_int2_to_credits';

/*
 * An integer next to credits, as a literal or from a driver, means whole
 * credits, as in coalesce(billed, 0).  No cast rounds.  A double precision or
 * numeric argument is not converted to credits implicitly, because that would
 * round it silently.
 */
CREATE CAST (numeric AS gpucredit.credits)
	WITH FUNCTION gpucredit_internal.numeric_to_credits(numeric) AS ASSIGNMENT;
CREATE CAST (gpucredit.credits AS numeric)
	WITH FUNCTION gpucredit_internal.credits_to_numeric(gpucredit.credits) AS IMPLICIT;
CREATE CAST (bigint AS gpucredit.credits)
	WITH FUNCTION gpucredit_internal.int8_to_credits(bigint) AS IMPLICIT;
CREATE CAST (integer AS gpucredit.credits)
	WITH FUNCTION gpucredit_internal.int4_to_credits(integer) AS IMPLICIT;
CREATE CAST (smallint AS gpucredit.credits)
	WITH FUNCTION gpucredit_internal.int2_to_credits(smallint) AS IMPLICIT;
COMMENT ON FUNCTION gpucredit_internal.numeric_to_credits(numeric) IS
'The same amount as credits. More than 6 decimals, NaN, infinity, or an amount that does not fit: 22003.';
COMMENT ON FUNCTION gpucredit_internal.credits_to_numeric(gpucredit.credits) IS
'The same amount as numeric, with display scale 6.';
COMMENT ON FUNCTION gpucredit_internal.int8_to_credits(bigint) IS
'The number as whole credits; an amount that does not fit: 22003.';
COMMENT ON FUNCTION gpucredit_internal.int4_to_credits(integer) IS
'The number as whole credits.';
COMMENT ON FUNCTION gpucredit_internal.int2_to_credits(smallint) IS
'The number as whole credits.';

CREATE FUNCTION gpucredit_internal.credits_smaller(gpucredit.credits, gpucredit.credits)
RETURNS gpucredit.credits
LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE
AS 'int8smaller';

CREATE FUNCTION gpucredit_internal.credits_larger(gpucredit.credits, gpucredit.credits)
RETURNS gpucredit.credits
LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE
AS 'int8larger';

CREATE FUNCTION gpucredit_internal.credits_accum(internal, gpucredit.credits)
RETURNS internal
LANGUAGE c IMMUTABLE PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_credits_accum';

CREATE FUNCTION gpucredit_internal.credits_accum_inv(internal, gpucredit.credits)
RETURNS internal
LANGUAGE c IMMUTABLE PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_credits_accum_inv';

CREATE FUNCTION gpucredit_internal.credits_combine(internal, internal) RETURNS internal
LANGUAGE c IMMUTABLE PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_credits_combine';

CREATE FUNCTION gpucredit_internal.credits_serialize(internal) RETURNS bytea
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_credits_serialize';

CREATE FUNCTION gpucredit_internal.credits_deserialize(bytea, internal) RETURNS internal
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_credits_deserialize';

CREATE FUNCTION gpucredit_internal.credits_sum(internal) RETURNS gpucredit.credits
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_credits_sum';

CREATE FUNCTION gpucredit_internal.credits_avg(internal) RETURNS gpucredit.credits
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_credits_avg';

CREATE FUNCTION gpucredit_internal.credits_sum_numeric(internal) RETURNS numeric
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_credits_sum_numeric';

CREATE AGGREGATE gpucredit.sum(gpucredit.credits) (
	SFUNC = gpucredit_internal.credits_accum, STYPE = internal, SSPACE = 32,
	FINALFUNC = gpucredit_internal.credits_sum,
	COMBINEFUNC = gpucredit_internal.credits_combine,
	SERIALFUNC = gpucredit_internal.credits_serialize,
	DESERIALFUNC = gpucredit_internal.credits_deserialize,
	MSFUNC = gpucredit_internal.credits_accum, MINVFUNC = gpucredit_internal.credits_accum_inv,
	MSTYPE = internal, MSSPACE = 32,
	MFINALFUNC = gpucredit_internal.credits_sum,
	PARALLEL = SAFE
);

CREATE AGGREGATE gpucredit.avg(gpucredit.credits) (
	SFUNC = gpucredit_internal.credits_accum, STYPE = internal, SSPACE = 32,
	FINALFUNC = gpucredit_internal.credits_avg,
	COMBINEFUNC = gpucredit_internal.credits_combine,
	SERIALFUNC = gpucredit_internal.credits_serialize,
	DESERIALFUNC = gpucredit_internal.credits_deserialize,
	MSFUNC = gpucredit_internal.credits_accum, MINVFUNC = gpucredit_internal.credits_accum_inv,
	MSTYPE = internal, MSSPACE = 32,
	MFINALFUNC = gpucredit_internal.credits_avg,
	PARALLEL = SAFE
);

/*
 * For sums over many accounts, which may not fit credits. It is faster than the
 * sum of the amounts as numeric, which copies each of them.
 */
CREATE AGGREGATE gpucredit_internal.sum_numeric(gpucredit.credits) (
	SFUNC = gpucredit_internal.credits_accum, STYPE = internal, SSPACE = 32,
	FINALFUNC = gpucredit_internal.credits_sum_numeric,
	COMBINEFUNC = gpucredit_internal.credits_combine,
	SERIALFUNC = gpucredit_internal.credits_serialize,
	DESERIALFUNC = gpucredit_internal.credits_deserialize,
	PARALLEL = SAFE
);
COMMENT ON AGGREGATE gpucredit_internal.sum_numeric(gpucredit.credits) IS
'Internal: sum of the amounts as numeric with display scale 6, NULL over none.';

CREATE AGGREGATE gpucredit.min(gpucredit.credits) (
	SFUNC = gpucredit_internal.credits_smaller, STYPE = gpucredit.credits,
	COMBINEFUNC = gpucredit_internal.credits_smaller,
	SORTOP = OPERATOR(gpucredit.<),
	PARALLEL = SAFE
);

CREATE AGGREGATE gpucredit.max(gpucredit.credits) (
	SFUNC = gpucredit_internal.credits_larger, STYPE = gpucredit.credits,
	COMBINEFUNC = gpucredit_internal.credits_larger,
	SORTOP = OPERATOR(gpucredit.>),
	PARALLEL = SAFE
);
COMMENT ON AGGREGATE gpucredit.sum(gpucredit.credits) IS
'Types: sum of the amounts, NULL over none. A final sum that does not fit: 22003.';
COMMENT ON AGGREGATE gpucredit.avg(gpucredit.credits) IS
'Types: average of the amounts, rounded half away from zero to 6 decimals, NULL over none.';
COMMENT ON AGGREGATE gpucredit.min(gpucredit.credits) IS
'Types: smallest amount, NULL over none.';
COMMENT ON AGGREGATE gpucredit.max(gpucredit.credits) IS
'Types: largest amount, NULL over none.';

CREATE FUNCTION gpucredit_internal.bill(per_gpu_hour gpucredit.credits, gpus integer,
	share integer, elapsed interval) RETURNS gpucredit.credits
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_bill';
COMMENT ON FUNCTION gpucredit_internal.bill(gpucredit.credits, integer, integer, interval) IS
'What GPUs cost for a time: per_gpu_hour x gpus x share x elapsed, rounded half up once to 6 decimals. share: thousandths of each GPU, 1 to 1000. elapsed: a day is 24 hours. Negative arguments, a share out of bounds, months or years in elapsed: 22023. A bill that does not fit: 22003.';

CREATE FUNCTION gpucredit_internal.bill(per_gpu_hour gpucredit.credits, gpus integer,
	share integer, elapsed interval, most gpucredit.credits)
RETURNS gpucredit.credits
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_bill_within';
COMMENT ON FUNCTION gpucredit_internal.bill(gpucredit.credits, integer, integer, interval, gpucredit.credits) IS
'The same bill, but at most the fifth argument, even where the bill itself would not fit.';

/*
 * gpureq: how many GPUs, of which types in order of preference.
 */
CREATE TYPE gpucredit.gpureq;

CREATE FUNCTION gpucredit_internal.gpureq_in(cstring) RETURNS gpucredit.gpureq
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_gpureq_in';

CREATE FUNCTION gpucredit_internal.gpureq_out(gpucredit.gpureq) RETURNS cstring
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_gpureq_out';

CREATE FUNCTION gpucredit_internal.gpureq_recv(internal) RETURNS gpucredit.gpureq
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_gpureq_recv';

CREATE FUNCTION gpucredit_internal.gpureq_send(gpucredit.gpureq) RETURNS bytea
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_gpureq_send';

CREATE TYPE gpucredit.gpureq (
	INPUT = gpucredit_internal.gpureq_in,
	OUTPUT = gpucredit_internal.gpureq_out,
	RECEIVE = gpucredit_internal.gpureq_recv,
	SEND = gpucredit_internal.gpureq_send,
	INTERNALLENGTH = VARIABLE,
	ALIGNMENT = double,
	STORAGE = extended
);
COMMENT ON TYPE gpucredit.gpureq IS
'GPU request: how many GPUs (at most 100000), a range of them, or a share of one in thousandths; then the acceptable types. There are at most 64 types, in order of preference, * for any; each may have a memory floor. Examples: 8xH100|A100@40GB, 4-16xH100, 0.46xT4, 4x*, or 0 for no GPU. Malformed text: 22P02, out of bounds: 22023, malformed binary: 22P03.';

CREATE FUNCTION gpucredit_internal.gpureq_eq(gpucredit.gpureq, gpucredit.gpureq)
RETURNS boolean
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_gpureq_eq';

CREATE FUNCTION gpucredit_internal.gpureq_ne(gpucredit.gpureq, gpucredit.gpureq)
RETURNS boolean
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_gpureq_ne';

CREATE FUNCTION gpucredit_internal.gpureq_lt(gpucredit.gpureq, gpucredit.gpureq)
RETURNS boolean
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_gpureq_lt';

CREATE FUNCTION gpucredit_internal.gpureq_le(gpucredit.gpureq, gpucredit.gpureq)
RETURNS boolean
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_gpureq_le';

CREATE FUNCTION gpucredit_internal.gpureq_gt(gpucredit.gpureq, gpucredit.gpureq)
RETURNS boolean
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_gpureq_gt';

CREATE FUNCTION gpucredit_internal.gpureq_ge(gpucredit.gpureq, gpucredit.gpureq)
RETURNS boolean
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_gpureq_ge';

CREATE FUNCTION gpucredit_internal.gpureq_cmp(gpucredit.gpureq, gpucredit.gpureq)
RETURNS integer
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_gpureq_cmp';

CREATE FUNCTION gpucredit_internal.gpureq_hash(gpucredit.gpureq) RETURNS integer
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_gpureq_hash';

CREATE FUNCTION gpucredit_internal.gpureq_hash_extended(gpucredit.gpureq, bigint)
RETURNS bigint
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_gpureq_hash_extended';

CREATE OPERATOR gpucredit.= (
	FUNCTION = gpucredit_internal.gpureq_eq, LEFTARG = gpucredit.gpureq, RIGHTARG = gpucredit.gpureq,
	COMMUTATOR = OPERATOR(gpucredit.=), NEGATOR = OPERATOR(gpucredit.<>),
	RESTRICT = pg_catalog.eqsel, JOIN = pg_catalog.eqjoinsel, HASHES, MERGES
);

CREATE OPERATOR gpucredit.<> (
	FUNCTION = gpucredit_internal.gpureq_ne, LEFTARG = gpucredit.gpureq, RIGHTARG = gpucredit.gpureq,
	COMMUTATOR = OPERATOR(gpucredit.<>), NEGATOR = OPERATOR(gpucredit.=),
	RESTRICT = pg_catalog.neqsel, JOIN = pg_catalog.neqjoinsel
);

CREATE OPERATOR gpucredit.< (
	FUNCTION = gpucredit_internal.gpureq_lt, LEFTARG = gpucredit.gpureq, RIGHTARG = gpucredit.gpureq,
	COMMUTATOR = OPERATOR(gpucredit.>), NEGATOR = OPERATOR(gpucredit.>=),
	RESTRICT = pg_catalog.scalarltsel, JOIN = pg_catalog.scalarltjoinsel
);

CREATE OPERATOR gpucredit.<= (
	FUNCTION = gpucredit_internal.gpureq_le, LEFTARG = gpucredit.gpureq, RIGHTARG = gpucredit.gpureq,
	COMMUTATOR = OPERATOR(gpucredit.>=), NEGATOR = OPERATOR(gpucredit.>),
	RESTRICT = pg_catalog.scalarlesel, JOIN = pg_catalog.scalarlejoinsel
);

CREATE OPERATOR gpucredit.> (
	FUNCTION = gpucredit_internal.gpureq_gt, LEFTARG = gpucredit.gpureq, RIGHTARG = gpucredit.gpureq,
	COMMUTATOR = OPERATOR(gpucredit.<), NEGATOR = OPERATOR(gpucredit.<=),
	RESTRICT = pg_catalog.scalargtsel, JOIN = pg_catalog.scalargtjoinsel
);

CREATE OPERATOR gpucredit.>= (
	FUNCTION = gpucredit_internal.gpureq_ge, LEFTARG = gpucredit.gpureq, RIGHTARG = gpucredit.gpureq,
	COMMUTATOR = OPERATOR(gpucredit.<=), NEGATOR = OPERATOR(gpucredit.<),
	RESTRICT = pg_catalog.scalargesel, JOIN = pg_catalog.scalargejoinsel
);

COMMENT ON OPERATOR gpucredit.= (gpucredit.gpureq, gpucredit.gpureq) IS
'Are the requests equal in meaning, even if their texts differ?';
COMMENT ON OPERATOR gpucredit.<> (gpucredit.gpureq, gpucredit.gpureq) IS
'Do the requests differ in meaning?';
COMMENT ON OPERATOR gpucredit.< (gpucredit.gpureq, gpucredit.gpureq) IS
'Does the first request sort before the second?';
COMMENT ON OPERATOR gpucredit.<= (gpucredit.gpureq, gpucredit.gpureq) IS
'Does the first request sort before the second, or are they equal?';
COMMENT ON OPERATOR gpucredit.> (gpucredit.gpureq, gpucredit.gpureq) IS
'Does the first request sort after the second?';
COMMENT ON OPERATOR gpucredit.>= (gpucredit.gpureq, gpucredit.gpureq) IS
'Does the first request sort after the second, or are they equal?';

CREATE OPERATOR CLASS gpucredit.gpureq_ops DEFAULT FOR TYPE gpucredit.gpureq USING btree AS
	OPERATOR 1 gpucredit.<, OPERATOR 2 gpucredit.<=, OPERATOR 3 gpucredit.=,
	OPERATOR 4 gpucredit.>=, OPERATOR 5 gpucredit.>,
	FUNCTION 1 gpucredit_internal.gpureq_cmp(gpucredit.gpureq, gpucredit.gpureq),
	FUNCTION 4 pg_catalog.btequalimage(oid);
CREATE OPERATOR CLASS gpucredit.gpureq_ops DEFAULT FOR TYPE gpucredit.gpureq USING hash AS
	OPERATOR 1 gpucredit.=,
	FUNCTION 1 gpucredit_internal.gpureq_hash(gpucredit.gpureq),
	FUNCTION 2 gpucredit_internal.gpureq_hash_extended(gpucredit.gpureq, bigint);

CREATE FUNCTION gpucredit.gpureq_min_gpus(gpucredit.gpureq) RETURNS integer
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_gpureq_min_gpus';
COMMENT ON FUNCTION gpucredit.gpureq_min_gpus(gpucredit.gpureq) IS
'Types: the fewest GPUs that satisfy the request; 0 if it asks for no GPU.';

CREATE FUNCTION gpucredit.gpureq_max_gpus(gpucredit.gpureq) RETURNS integer
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_gpureq_max_gpus';
COMMENT ON FUNCTION gpucredit.gpureq_max_gpus(gpucredit.gpureq) IS
'Types: the most GPUs that the request can use; equal to min_gpus unless it is a range.';

CREATE FUNCTION gpucredit.gpureq_share(gpucredit.gpureq) RETURNS integer
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_gpureq_share';
COMMENT ON FUNCTION gpucredit.gpureq_share(gpucredit.gpureq) IS
'Types: the share of each GPU in thousandths; 1000 for whole GPUs.';

CREATE FUNCTION gpucredit.gpureq_types(gpucredit.gpureq) RETURNS text[]
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_gpureq_types';
COMMENT ON FUNCTION gpucredit.gpureq_types(gpucredit.gpureq) IS
'Types: the acceptable types in order of preference, * for any; empty if it asks for no GPU.';

CREATE FUNCTION gpucredit.gpureq_min_memory(gpucredit.gpureq) RETURNS bigint[]
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_gpureq_min_memory';
COMMENT ON FUNCTION gpucredit.gpureq_min_memory(gpucredit.gpureq) IS
'Types: the memory floor of each type, in bytes per GPU, in the order of the types; 0 for none.';

/*
 * gpuset: the devices of one node.
 */
CREATE TYPE gpucredit.gpuset;

CREATE FUNCTION gpucredit_internal.gpuset_in(cstring) RETURNS gpucredit.gpuset
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_gpuset_in';

CREATE FUNCTION gpucredit_internal.gpuset_out(gpucredit.gpuset) RETURNS cstring
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_gpuset_out';

CREATE FUNCTION gpucredit_internal.gpuset_recv(internal) RETURNS gpucredit.gpuset
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_gpuset_recv';

CREATE FUNCTION gpucredit_internal.gpuset_send(gpucredit.gpuset) RETURNS bytea
LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE
AS 'int8send';

CREATE TYPE gpucredit.gpuset (
	INPUT = gpucredit_internal.gpuset_in,
	OUTPUT = gpucredit_internal.gpuset_out,
	RECEIVE = gpucredit_internal.gpuset_recv,
	SEND = gpucredit_internal.gpuset_send,
	LIKE = pg_catalog.int8
);
COMMENT ON TYPE gpucredit.gpuset IS
'Set of the devices of one node, 0 to 63: {0-3,6}, or {} for none. Malformed text: 22P02, a device out of range: 22003, malformed binary: 22P03.';

CREATE FUNCTION gpucredit_internal.gpuset_eq(gpucredit.gpuset, gpucredit.gpuset)
RETURNS boolean
LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE
AS 'int8eq';

CREATE FUNCTION gpucredit_internal.gpuset_ne(gpucredit.gpuset, gpucredit.gpuset)
RETURNS boolean
LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE
AS 'int8ne';

CREATE FUNCTION gpucredit_internal.gpuset_lt(gpucredit.gpuset, gpucredit.gpuset)
RETURNS boolean
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_gpuset_lt';

CREATE FUNCTION gpucredit_internal.gpuset_le(gpucredit.gpuset, gpucredit.gpuset)
RETURNS boolean
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_gpuset_le';

CREATE FUNCTION gpucredit_internal.gpuset_gt(gpucredit.gpuset, gpucredit.gpuset)
RETURNS boolean
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_gpuset_gt';

CREATE FUNCTION gpucredit_internal.gpuset_ge(gpucredit.gpuset, gpucredit.gpuset)
RETURNS boolean
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_gpuset_ge';

CREATE FUNCTION gpucredit_internal.gpuset_cmp(gpucredit.gpuset, gpucredit.gpuset)
RETURNS integer
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_gpuset_cmp';

CREATE FUNCTION gpucredit_internal.gpuset_hash(gpucredit.gpuset) RETURNS integer
LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE
AS 'hashint8';

CREATE FUNCTION gpucredit_internal.gpuset_hash_extended(gpucredit.gpuset, bigint)
RETURNS bigint
LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE
AS 'hashint8extended';

CREATE OPERATOR gpucredit.= (
	FUNCTION = gpucredit_internal.gpuset_eq, LEFTARG = gpucredit.gpuset, RIGHTARG = gpucredit.gpuset,
	COMMUTATOR = OPERATOR(gpucredit.=), NEGATOR = OPERATOR(gpucredit.<>),
	RESTRICT = pg_catalog.eqsel, JOIN = pg_catalog.eqjoinsel, HASHES, MERGES
);

CREATE OPERATOR gpucredit.<> (
	FUNCTION = gpucredit_internal.gpuset_ne, LEFTARG = gpucredit.gpuset, RIGHTARG = gpucredit.gpuset,
	COMMUTATOR = OPERATOR(gpucredit.<>), NEGATOR = OPERATOR(gpucredit.=),
	RESTRICT = pg_catalog.neqsel, JOIN = pg_catalog.neqjoinsel
);

CREATE OPERATOR gpucredit.< (
	FUNCTION = gpucredit_internal.gpuset_lt, LEFTARG = gpucredit.gpuset, RIGHTARG = gpucredit.gpuset,
	COMMUTATOR = OPERATOR(gpucredit.>), NEGATOR = OPERATOR(gpucredit.>=),
	RESTRICT = pg_catalog.scalarltsel, JOIN = pg_catalog.scalarltjoinsel
);

CREATE OPERATOR gpucredit.<= (
	FUNCTION = gpucredit_internal.gpuset_le, LEFTARG = gpucredit.gpuset, RIGHTARG = gpucredit.gpuset,
	COMMUTATOR = OPERATOR(gpucredit.>=), NEGATOR = OPERATOR(gpucredit.>),
	RESTRICT = pg_catalog.scalarlesel, JOIN = pg_catalog.scalarlejoinsel
);

CREATE OPERATOR gpucredit.> (
	FUNCTION = gpucredit_internal.gpuset_gt, LEFTARG = gpucredit.gpuset, RIGHTARG = gpucredit.gpuset,
	COMMUTATOR = OPERATOR(gpucredit.<), NEGATOR = OPERATOR(gpucredit.<=),
	RESTRICT = pg_catalog.scalargtsel, JOIN = pg_catalog.scalargtjoinsel
);

CREATE OPERATOR gpucredit.>= (
	FUNCTION = gpucredit_internal.gpuset_ge, LEFTARG = gpucredit.gpuset, RIGHTARG = gpucredit.gpuset,
	COMMUTATOR = OPERATOR(gpucredit.<=), NEGATOR = OPERATOR(gpucredit.<),
	RESTRICT = pg_catalog.scalargesel, JOIN = pg_catalog.scalargejoinsel
);

COMMENT ON OPERATOR gpucredit.= (gpucredit.gpuset, gpucredit.gpuset) IS
'Do both sets have the same devices?';
COMMENT ON OPERATOR gpucredit.<> (gpucredit.gpuset, gpucredit.gpuset) IS
'Do the sets differ?';
COMMENT ON OPERATOR gpucredit.< (gpucredit.gpuset, gpucredit.gpuset) IS
'Does the first set sort before the second?';
COMMENT ON OPERATOR gpucredit.<= (gpucredit.gpuset, gpucredit.gpuset) IS
'Does the first set sort before the second, or are they equal?';
COMMENT ON OPERATOR gpucredit.> (gpucredit.gpuset, gpucredit.gpuset) IS
'Does the first set sort after the second?';
COMMENT ON OPERATOR gpucredit.>= (gpucredit.gpuset, gpucredit.gpuset) IS
'Does the first set sort after the second, or are they equal?';

CREATE OPERATOR CLASS gpucredit.gpuset_ops DEFAULT FOR TYPE gpucredit.gpuset USING btree AS
	OPERATOR 1 gpucredit.<, OPERATOR 2 gpucredit.<=, OPERATOR 3 gpucredit.=,
	OPERATOR 4 gpucredit.>=, OPERATOR 5 gpucredit.>,
	FUNCTION 1 gpucredit_internal.gpuset_cmp(gpucredit.gpuset, gpucredit.gpuset),
	FUNCTION 4 pg_catalog.btequalimage(oid);
CREATE OPERATOR CLASS gpucredit.gpuset_ops DEFAULT FOR TYPE gpucredit.gpuset USING hash AS
	OPERATOR 1 gpucredit.=,
	FUNCTION 1 gpucredit_internal.gpuset_hash(gpucredit.gpuset),
	FUNCTION 2 gpucredit_internal.gpuset_hash_extended(gpucredit.gpuset, bigint);

CREATE FUNCTION gpucredit_internal.gpuset_union(gpucredit.gpuset, gpucredit.gpuset)
RETURNS gpucredit.gpuset
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_gpuset_union';

CREATE FUNCTION gpucredit_internal.gpuset_intersection(gpucredit.gpuset, gpucredit.gpuset)
RETURNS gpucredit.gpuset
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_gpuset_intersection';

CREATE FUNCTION gpucredit_internal.gpuset_difference(gpucredit.gpuset, gpucredit.gpuset)
RETURNS gpucredit.gpuset
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_gpuset_difference';

CREATE FUNCTION gpucredit_internal.gpuset_contains(gpucredit.gpuset, gpucredit.gpuset)
RETURNS boolean
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_gpuset_contains';

CREATE FUNCTION gpucredit_internal.gpuset_contained(gpucredit.gpuset, gpucredit.gpuset)
RETURNS boolean
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_gpuset_contained';

CREATE FUNCTION gpucredit_internal.gpuset_overlaps(gpucredit.gpuset, gpucredit.gpuset)
RETURNS boolean
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_gpuset_overlaps';

CREATE FUNCTION gpucredit_internal.gpuset_contains_device(gpucredit.gpuset, integer)
RETURNS boolean
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_gpuset_contains_device';

CREATE FUNCTION gpucredit_internal.gpuset_device_contained(integer, gpucredit.gpuset)
RETURNS boolean
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_gpuset_device_contained';

CREATE OPERATOR gpucredit.| (
	FUNCTION = gpucredit_internal.gpuset_union, LEFTARG = gpucredit.gpuset, RIGHTARG = gpucredit.gpuset,
	COMMUTATOR = OPERATOR(gpucredit.|)
);
COMMENT ON OPERATOR gpucredit.| (gpucredit.gpuset, gpucredit.gpuset) IS
'Devices in either set.';

CREATE OPERATOR gpucredit.& (
	FUNCTION = gpucredit_internal.gpuset_intersection, LEFTARG = gpucredit.gpuset, RIGHTARG = gpucredit.gpuset,
	COMMUTATOR = OPERATOR(gpucredit.&)
);
COMMENT ON OPERATOR gpucredit.& (gpucredit.gpuset, gpucredit.gpuset) IS
'Devices in both sets.';

CREATE OPERATOR gpucredit.- (
	FUNCTION = gpucredit_internal.gpuset_difference, LEFTARG = gpucredit.gpuset, RIGHTARG = gpucredit.gpuset
);
COMMENT ON OPERATOR gpucredit.- (gpucredit.gpuset, gpucredit.gpuset) IS
'Devices of the first set that are not in the second.';

CREATE OPERATOR gpucredit.@> (
	FUNCTION = gpucredit_internal.gpuset_contains, LEFTARG = gpucredit.gpuset, RIGHTARG = gpucredit.gpuset,
	COMMUTATOR = OPERATOR(gpucredit.<@),
	RESTRICT = pg_catalog.contsel, JOIN = pg_catalog.contjoinsel
);
COMMENT ON OPERATOR gpucredit.@> (gpucredit.gpuset, gpucredit.gpuset) IS
'Is every device of the second set in the first?';

CREATE OPERATOR gpucredit.<@ (
	FUNCTION = gpucredit_internal.gpuset_contained, LEFTARG = gpucredit.gpuset, RIGHTARG = gpucredit.gpuset,
	COMMUTATOR = OPERATOR(gpucredit.@>),
	RESTRICT = pg_catalog.contsel, JOIN = pg_catalog.contjoinsel
);
COMMENT ON OPERATOR gpucredit.<@ (gpucredit.gpuset, gpucredit.gpuset) IS
'Is every device of the first set in the second?';

CREATE OPERATOR gpucredit.&& (
	FUNCTION = gpucredit_internal.gpuset_overlaps, LEFTARG = gpucredit.gpuset, RIGHTARG = gpucredit.gpuset,
	COMMUTATOR = OPERATOR(gpucredit.&&),
	RESTRICT = pg_catalog.areasel, JOIN = pg_catalog.areajoinsel
);
COMMENT ON OPERATOR gpucredit.&& (gpucredit.gpuset, gpucredit.gpuset) IS
'Do the sets share a device?';

CREATE OPERATOR gpucredit.@> (
	FUNCTION = gpucredit_internal.gpuset_contains_device, LEFTARG = gpucredit.gpuset, RIGHTARG = integer,
	COMMUTATOR = OPERATOR(gpucredit.<@),
	RESTRICT = pg_catalog.contsel, JOIN = pg_catalog.contjoinsel
);
COMMENT ON OPERATOR gpucredit.@> (gpucredit.gpuset, integer) IS
'Is the device in the set?';

CREATE OPERATOR gpucredit.<@ (
	FUNCTION = gpucredit_internal.gpuset_device_contained, LEFTARG = integer, RIGHTARG = gpucredit.gpuset,
	COMMUTATOR = OPERATOR(gpucredit.@>),
	RESTRICT = pg_catalog.contsel, JOIN = pg_catalog.contjoinsel
);
COMMENT ON OPERATOR gpucredit.<@ (integer, gpucredit.gpuset) IS
'Is the device in the set?';

CREATE FUNCTION gpucredit.gpu_count(gpucredit.gpuset) RETURNS integer
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_gpu_count';
COMMENT ON FUNCTION gpucredit.gpu_count(gpucredit.gpuset) IS
'Types: how many devices the set has.';

CREATE FUNCTION gpucredit.gpuset_from_array(integer[]) RETURNS gpucredit.gpuset
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_gpuset_from_array';
COMMENT ON FUNCTION gpucredit.gpuset_from_array(integer[]) IS
'Types: makes a set of device numbers. A number outside 0 to 63: 22003; a null: 22004.';

CREATE FUNCTION gpucredit.gpuset_to_array(gpucredit.gpuset) RETURNS integer[]
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_gpuset_to_array';
COMMENT ON FUNCTION gpucredit.gpuset_to_array(gpucredit.gpuset) IS
'Types: the devices of the set, ascending.';

CREATE AGGREGATE gpucredit.union_agg(gpucredit.gpuset) (
	SFUNC = gpucredit_internal.gpuset_union, STYPE = gpucredit.gpuset,
	COMBINEFUNC = gpucredit_internal.gpuset_union,
	PARALLEL = SAFE
);
COMMENT ON AGGREGATE gpucredit.union_agg(gpucredit.gpuset) IS
'Types: devices in any of the sets, NULL over none.';
