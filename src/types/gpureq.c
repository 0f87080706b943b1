/*-------------------------------------------------------------------------
 *
 * gpureq.c
 *		The type gpureq: text and binary form, order, hash, its parts.
 *
 * The binary form is a version byte, 1, and the canonical text in the client's
 * encoding; a malformed one raises 22P03.  Requests are ordered by number of
 * GPUs, then by share, then by the alternatives one by one (name bytes, then
 * memory floor).  A request that is the beginning of another comes first.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "common/hashfn.h"
#include "libpq/pqformat.h"
#include "mb/pg_wchar.h"
#include "utils/array.h"
#include "utils/builtins.h"

#include "types/entry.h"
#include "types/clip.h"
#include "types/gpureq.h"

#define BINARY_VERSION	1

/*
 * Everything after the varlena header.  Equal requests have equal bytes here,
 * so these bytes are hashed.
 */
#define BODY(r)			((const unsigned char *) &(r)->min_gpus)
#define BODY_SIZE(r)	((int) (VARSIZE(r) - offsetof(GpuReq, min_gpus)))

PG_FUNCTION_INFO_V1(gpucredit_gpureq_in);
PG_FUNCTION_INFO_V1(gpucredit_gpureq_out);
PG_FUNCTION_INFO_V1(gpucredit_gpureq_recv);
PG_FUNCTION_INFO_V1(gpucredit_gpureq_send);
PG_FUNCTION_INFO_V1(gpucredit_gpureq_eq);
PG_FUNCTION_INFO_V1(gpucredit_gpureq_ne);
PG_FUNCTION_INFO_V1(gpucredit_gpureq_lt);
PG_FUNCTION_INFO_V1(gpucredit_gpureq_le);
PG_FUNCTION_INFO_V1(gpucredit_gpureq_gt);
PG_FUNCTION_INFO_V1(gpucredit_gpureq_ge);
PG_FUNCTION_INFO_V1(gpucredit_gpureq_cmp);
PG_FUNCTION_INFO_V1(gpucredit_gpureq_hash);
PG_FUNCTION_INFO_V1(gpucredit_gpureq_hash_extended);
PG_FUNCTION_INFO_V1(gpucredit_gpureq_min_gpus);
PG_FUNCTION_INFO_V1(gpucredit_gpureq_max_gpus);
PG_FUNCTION_INFO_V1(gpucredit_gpureq_share);
PG_FUNCTION_INFO_V1(gpucredit_gpureq_types);
PG_FUNCTION_INFO_V1(gpucredit_gpureq_min_memory);

/*
 * The parts of an error message; parse_messages[] has one for each
 * GpuReqParseError.
 */
typedef struct ParseMessage
{
	bool		bounds;			/* whether the text parses but a value is out
								 * of bounds (22023) */
	const char *detail;
	const char *hint;
} ParseMessage;

#define HINT_FORM \
	"Write for example \"8xH100|A100@40GB\", \"4x*\", \"4-16xH100\", " \
	"\"0.46xT4\", or \"0\" for no GPU."
#define HINT_SHARE \
	"Write 0.001 to 0.999 for a share of one GPU, and whole GPUs without " \
	"a decimal point, as in \"1xT4\"."
#define HINT_NO_GPU \
	"Write \"0\" alone to ask for no GPU."
#define HINT_MEMORY \
	"Write a whole number and one of B, KB, MB, GB, TB, KiB, MiB, GiB, " \
	"TiB, as in \"A100@40GB\"."
#define HINT_TYPE \
	"A type is printable text without \"|\", \"@\", \"*\" or white space."

static const ParseMessage parse_messages[] = {
	[GPUREQ_PARSE_TOO_LONG] = {true, "The text is too long",
	"A request has at most 8192 bytes of text."},
	[GPUREQ_PARSE_COUNT] = {false, "A number is missing", HINT_FORM},
	[GPUREQ_PARSE_GPUS] = {true, "The number of GPUs is too large",
	"A request has at most 100000 GPUs."},
	[GPUREQ_PARSE_ZERO] = {true, "Zero GPUs cannot have a type", HINT_NO_GPU},
	[GPUREQ_PARSE_RANGE] = {true, "The range ends below its start",
	"Write the smaller number first, as in \"4-16xH100\"."},
	[GPUREQ_PARSE_SHARE] = {true, "The number is not a share of one GPU",
	HINT_SHARE},
	[GPUREQ_PARSE_SHARE_STEP] = {true, "The share is finer than thousandths",
	HINT_SHARE},
	[GPUREQ_PARSE_X] = {false, "\"x\" and a type are missing", HINT_FORM},
	[GPUREQ_PARSE_TYPE] = {false, "A type is missing", HINT_FORM},
	[GPUREQ_PARSE_TYPE_CHAR] = {false, "A type cannot continue like this",
	HINT_TYPE},
	[GPUREQ_PARSE_TYPE_LONG] = {true, "The type is too long",
	"A type has at most 63 bytes."},
	[GPUREQ_PARSE_DUPLICATE] = {true, "The type was named before",
	"Name each type once, in order of preference."},
	[GPUREQ_PARSE_ALTERNATIVES] = {true, "There are too many alternatives",
	"A request has at most 64 alternatives; \"*\" accepts any type."},
	[GPUREQ_PARSE_MEMORY] = {false, "The memory floor is malformed",
	HINT_MEMORY},
	[GPUREQ_PARSE_MEMORY_RANGE] = {true, "The memory floor is out of range",
	"Write 1B to 9223372036854775807B, or leave the floor out."},
	[GPUREQ_PARSE_TRAILING] = {false, "Nothing can follow here", HINT_FORM},
};

static GpuReq *parse(const char *text, bool binary);
static void report(GpuReqParseError error, const char *text, size_t errpos,
				   bool binary) pg_attribute_noreturn();
static int	compare_arguments(FunctionCallInfo fcinfo);

Datum
gpucredit_gpureq_in(PG_FUNCTION_ARGS)
{
	PG_RETURN_GPUREQ_P(GpuReqParse(PG_GETARG_CSTRING(0)));
}

Datum
gpucredit_gpureq_out(PG_FUNCTION_ARGS)
{
	PG_RETURN_CSTRING(GpuReqToCString(PG_GETARG_GPUREQ_P(0)));
}

Datum
gpucredit_gpureq_recv(PG_FUNCTION_ARGS)
{
	StringInfo	buf = (StringInfo) PG_GETARG_POINTER(0);
	int			len = buf->len - buf->cursor;
	int			version;
	int			text_len;

	/*
	 * The text may need more bytes in a client's encoding than in the
	 * server's, but never more than four times as many.
	 */
	if (len < 2 || len > 4 * GPUREQ_MAX_INPUT)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_BINARY_REPRESENTATION),
				 errmsg("invalid binary value of type gpureq"),
				 errdetail("It has %d bytes: a version and a text are "
						   "2 to %d bytes.", len, 4 * GPUREQ_MAX_INPUT)));
	version = pq_getmsgbyte(buf);
	if (version != BINARY_VERSION)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_BINARY_REPRESENTATION),
				 errmsg("invalid binary value of type gpureq"),
				 errdetail("Its version is %d, not %d.",
						   version, BINARY_VERSION)));
	PG_RETURN_GPUREQ_P(parse(pq_getmsgtext(buf, len - 1, &text_len), true));
}

Datum
gpucredit_gpureq_send(PG_FUNCTION_ARGS)
{
	char	   *text = GpuReqToCString(PG_GETARG_GPUREQ_P(0));
	StringInfoData buf;

	pq_begintypsend(&buf);
	pq_sendbyte(&buf, BINARY_VERSION);
	pq_sendtext(&buf, text, (int) strlen(text));
	PG_RETURN_BYTEA_P(pq_endtypsend(&buf));
}

Datum
gpucredit_gpureq_eq(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(compare_arguments(fcinfo) == 0);
}

Datum
gpucredit_gpureq_ne(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(compare_arguments(fcinfo) != 0);
}

Datum
gpucredit_gpureq_lt(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(compare_arguments(fcinfo) < 0);
}

Datum
gpucredit_gpureq_le(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(compare_arguments(fcinfo) <= 0);
}

Datum
gpucredit_gpureq_gt(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(compare_arguments(fcinfo) > 0);
}

Datum
gpucredit_gpureq_ge(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(compare_arguments(fcinfo) >= 0);
}

/* Compares two requests, for btree indexes. */
Datum
gpucredit_gpureq_cmp(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT32(compare_arguments(fcinfo));
}

/* Returns a 32-bit hash; equal requests have equal hashes. */
Datum
gpucredit_gpureq_hash(PG_FUNCTION_ARGS)
{
	GpuReq	   *req = PG_GETARG_GPUREQ_P(0);
	Datum		result = hash_any(BODY(req), BODY_SIZE(req));

	PG_FREE_IF_COPY(req, 0);
	return result;
}

/* Returns a 64-bit hash with a seed. */
Datum
gpucredit_gpureq_hash_extended(PG_FUNCTION_ARGS)
{
	GpuReq	   *req = PG_GETARG_GPUREQ_P(0);
	Datum		result = hash_any_extended(BODY(req), BODY_SIZE(req),
										   (uint64) PG_GETARG_INT64(1));

	PG_FREE_IF_COPY(req, 0);
	return result;
}

/* Returns the smallest number of GPUs that satisfies the request. */
Datum
gpucredit_gpureq_min_gpus(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT32(PG_GETARG_GPUREQ_P(0)->min_gpus);
}

/* Returns the largest number of GPUs that the request can use. */
Datum
gpucredit_gpureq_max_gpus(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT32(PG_GETARG_GPUREQ_P(0)->max_gpus);
}

/* Returns the share of each GPU in thousandths; 1000 means whole GPUs. */
Datum
gpucredit_gpureq_share(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT32(PG_GETARG_GPUREQ_P(0)->share_milli);
}

/* Returns the acceptable types in order of preference; "*" means any type. */
Datum
gpucredit_gpureq_types(PG_FUNCTION_ARGS)
{
	GpuReq	   *req = PG_GETARG_GPUREQ_P(0);
	Datum		types[GPUREQ_MAX_ALTERNATIVES];

	for (int i = 0; i < req->nalternatives; i++)
		types[i] = CStringGetTextDatum(req->alternatives[i].name);
	PG_RETURN_ARRAYTYPE_P(construct_array(types, req->nalternatives, TEXTOID,
										  -1, false, TYPALIGN_INT));
}

/*
 * Returns the memory floors in bytes, in the order of the types; 0 means no
 * floor.
 */
Datum
gpucredit_gpureq_min_memory(PG_FUNCTION_ARGS)
{
	GpuReq	   *req = PG_GETARG_GPUREQ_P(0);
	Datum		floors[GPUREQ_MAX_ALTERNATIVES];

	for (int i = 0; i < req->nalternatives; i++)
		floors[i] = Int64GetDatum(req->alternatives[i].min_memory);
	PG_RETURN_ARRAYTYPE_P(construct_array(floors, req->nalternatives, INT8OID,
										  sizeof(int64), FLOAT8PASSBYVAL,
										  TYPALIGN_DOUBLE));
}

GpuReq *
GpuReqParse(const char *text)
{
	return parse(text, false);
}

char *
GpuReqToCString(const GpuReq *req)
{
	char		buf[GPUREQ_TEXT_SIZE];

	GpuReqPrint(req->min_gpus, req->max_gpus, req->share_milli,
				req->nalternatives, req->alternatives, buf);
	return pstrdup(buf);
}

/*
 * Returns a negative number, zero or a positive number if a comes before b,
 * equals b or comes after b.
 */
int
GpuReqCompare(const GpuReq *a, const GpuReq *b)
{
	int			common = Min(a->nalternatives, b->nalternatives);

	if (a->min_gpus != b->min_gpus)
		return a->min_gpus < b->min_gpus ? -1 : 1;
	if (a->max_gpus != b->max_gpus)
		return a->max_gpus < b->max_gpus ? -1 : 1;
	if (a->share_milli != b->share_milli)
		return a->share_milli < b->share_milli ? -1 : 1;
	for (int i = 0; i < common; i++)
	{
		const GpuReqAlternative *x = &a->alternatives[i];
		const GpuReqAlternative *y = &b->alternatives[i];
		int			order = strcmp(x->name, y->name);

		if (order != 0)
			return order < 0 ? -1 : 1;
		if (x->min_memory != y->min_memory)
			return x->min_memory < y->min_memory ? -1 : 1;
	}
	if (a->nalternatives != b->nalternatives)
		return a->nalternatives < b->nalternatives ? -1 : 1;
	return 0;
}

/*
 * Parses a text.  `binary` says that it came in the binary form, for errors.
 */
static GpuReq *
parse(const char *text, bool binary)
{
	GpuReqFields fields;
	size_t		errpos;
	size_t		alternatives_size;
	GpuReq	   *result;
	GpuReqParseError error;

	error = GpuReqParseText(text, strlen(text), &fields, &errpos);
	if (error != GPUREQ_PARSE_OK)
		report(error, text, errpos, binary);

	alternatives_size = fields.nalternatives * sizeof(GpuReqAlternative);
	result = palloc0(offsetof(GpuReq, alternatives) + alternatives_size);
	SET_VARSIZE(result, offsetof(GpuReq, alternatives) + alternatives_size);
	result->min_gpus = fields.min_gpus;
	result->max_gpus = fields.max_gpus;
	result->share_milli = fields.share_milli;
	result->nalternatives = fields.nalternatives;
	memcpy(result->alternatives, fields.alternatives, alternatives_size);
	return result;
}

/*
 * Raises an error that says why the text is no request, and where it is wrong.
 */
static void
report(GpuReqParseError error, const char *text, size_t errpos, bool binary)
{
	const ParseMessage *message = &parse_messages[error];
	int			code = ERRCODE_INVALID_TEXT_REPRESENTATION;

	/* The error may lie within a character if the text is too long. */
	int			before = pg_mbcliplen(text, (int) strlen(text), (int) errpos);

	if (binary)
		code = ERRCODE_INVALID_BINARY_REPRESENTATION;
	else if (message->bounds)
		code = ERRCODE_INVALID_PARAMETER_VALUE;
	ereport(ERROR,
			(errcode(code),
			 message->bounds ?
			 errmsg("value out of bounds for type gpureq: \"%s\"",
					ClipForMessage(text)) :
			 errmsg("invalid input syntax for type gpureq: \"%s\"",
					ClipForMessage(text)),
			 errdetail("%s (at character %d).", message->detail,
					   pg_mbstrlen_with_len(text, before) + 1),
			 errhint("%s", message->hint)));
}

/* Compares the first two arguments of an operator. */
static int
compare_arguments(FunctionCallInfo fcinfo)
{
	GpuReq	   *a = PG_GETARG_GPUREQ_P(0);
	GpuReq	   *b = PG_GETARG_GPUREQ_P(1);
	int			result = GpuReqCompare(a, b);

	PG_FREE_IF_COPY(a, 0);
	PG_FREE_IF_COPY(b, 1);
	return result;
}
