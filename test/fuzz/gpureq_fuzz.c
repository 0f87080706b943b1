/*-------------------------------------------------------------------------
 *
 * gpureq_fuzz.c
 *		Fuzz target: the text form of a GPU request.
 *
 * A parsed request must be within every bound of gpureq_parse.h, and must
 * print. The text must parse back to the same bytes and print the same, with
 * or without white space around it.
 *
 *-------------------------------------------------------------------------
 */
#include "fuzz.h"

#include "types/gpureq_parse.h"

static void check_bounds(const GpuReqFields *req);
static void check_alternative(const GpuReqFields *req, int index);
static void check_round_trip(const GpuReqFields *req);

/*
 * One input.
 */
int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	GpuReqFields req;
	size_t		errpos = SIZE_MAX;
	const char *text = (const char *) data;

	if (GpuReqParseText(text, size, &req, &errpos) == GPUREQ_PARSE_OK)
	{
		check_bounds(&req);
		check_round_trip(&req);
	}
	CHECK(errpos <= size);
	return 0;
}

/* check_bounds: is the request one that may exist? */
static void
check_bounds(const GpuReqFields *req)
{
	CHECK(req->min_gpus >= 0 && req->max_gpus >= req->min_gpus);
	CHECK(req->max_gpus <= GPUREQ_MAX_GPUS);
	CHECK(req->share_milli >= 1 && req->share_milli <= GPUREQ_WHOLE);
	CHECK(req->share_milli == GPUREQ_WHOLE ||
		  (req->min_gpus == 1 && req->max_gpus == 1));
	CHECK(req->nalternatives <= GPUREQ_MAX_ALTERNATIVES);
	CHECK((req->nalternatives == 0) == (req->max_gpus == 0));
	CHECK((req->min_gpus == 0) == (req->max_gpus == 0));
	for (int i = 0; i < req->nalternatives; i++)
		check_alternative(req, i);
}

/* check_alternative: a name that may exist, zero padded, not there before. */
static void
check_alternative(const GpuReqFields *req, int index)
{
	const GpuReqAlternative *alternative = &req->alternatives[index];
	const char *name = alternative->name;
	size_t		len = strnlen(name, GPUREQ_NAME_SIZE);

	CHECK(alternative->min_memory >= 0);
	CHECK(strcmp(name, "*") == 0 || GpuTypeNameValid(name, len));
	for (size_t i = len; i < GPUREQ_NAME_SIZE; i++)
		CHECK(name[i] == '\0');
	for (int i = 0; i < index; i++)
		CHECK(strcmp(req->alternatives[i].name, name) != 0);
	CHECK(GpuReqAlternativeAccepts(alternative, name, INT64_MAX));
	CHECK(alternative->min_memory == 0 ||
		  !GpuReqAlternativeAccepts(alternative, name,
									alternative->min_memory - 1));
}

/* check_round_trip: a request is what its text says, and nothing else. */
static void
check_round_trip(const GpuReqFields *req)
{
	char		text[GPUREQ_TEXT_SIZE + 2];
	char		text_again[GPUREQ_TEXT_SIZE];
	GpuReqFields again;
	size_t		errpos;
	size_t		len;

	text[0] = '\n';
	len = GpuReqPrint(req->min_gpus, req->max_gpus, req->share_milli,
					  req->nalternatives, req->alternatives, text + 1);
	CHECK(len < GPUREQ_TEXT_SIZE && len == strlen(text + 1));
	CHECK(GpuReqParseText(text + 1, len, &again, &errpos) == GPUREQ_PARSE_OK);
	CHECK(memcmp(req, &again, sizeof(again)) == 0);

	GpuReqPrint(again.min_gpus, again.max_gpus, again.share_milli,
				again.nalternatives, again.alternatives, text_again);
	CHECK(strcmp(text + 1, text_again) == 0);

	text[len + 1] = ' ';
	CHECK(GpuReqParseText(text, len + 2, &again, &errpos) == GPUREQ_PARSE_OK);
	CHECK(memcmp(req, &again, sizeof(again)) == 0);
}
