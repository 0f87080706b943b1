/*-------------------------------------------------------------------------
 *
 * gpuset_fuzz.c
 *		Fuzz target: the text form of a set of devices.
 *
 * What parses must print, parse back and print the same, and have as members
 * the devices it names. Any eight bytes, taken as a set, must survive printing
 * and parsing, also when its devices are written one by one from the last to
 * the first.
 *
 *-------------------------------------------------------------------------
 */
#include "fuzz.h"

#include "types/gpuset_parse.h"

static void check_round_trip(GpuSet set);
static void check_one_by_one(GpuSet set);
static void check_members(const char *text, size_t size, GpuSet set);

/*
 * One input.
 */
int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	GpuSet		set = GPUSET_EMPTY;
	size_t		errpos = SIZE_MAX;
	const char *text = (const char *) data;

	if (GpuSetParse(text, size, &set, &errpos) == GPUSET_PARSE_OK)
	{
		CHECK(errpos == size);
		check_round_trip(set);
		check_one_by_one(set);
		check_members(text, size, set);
	}
	CHECK(errpos <= size);

	if (size >= sizeof(set))
	{
		memcpy(&set, data, sizeof(set));
		check_round_trip(set);
		check_one_by_one(set);
	}
	return 0;
}

/* check_round_trip: a set is what its text says, and nothing else. */
static void
check_round_trip(GpuSet set)
{
	char		text[GPUSET_TEXT_SIZE];
	GpuSet		again = ~set;
	size_t		errpos;
	size_t		len = GpuSetPrint(set, text);

	CHECK(len < sizeof(text) && len == strlen(text));
	CHECK(GpuSetParse(text, len, &again, &errpos) == GPUSET_PARSE_OK);
	CHECK(again == set);
}

/* check_one_by_one: the order in which devices are listed does not matter. */
static void
check_one_by_one(GpuSet set)
{
	char		text[512] = "{";
	size_t		len = 1;
	GpuSet		again = ~set;
	size_t		errpos;
	int			count = 0;

	for (int device = GPUSET_MAX_DEVICES - 1; device >= 0; device--)
	{
		if (set >> device & 1)
			len += (size_t) snprintf(text + len, sizeof(text) - len,
									 "%s %02d", count++ > 0 ? "," : "",
									 device);
	}
	snprintf(text + len, sizeof(text) - len, " }");
	CHECK(GpuSetParse(text, strlen(text), &again, &errpos) == GPUSET_PARSE_OK);
	CHECK(again == set && GpuSetCount(set) == count);
}

/* check_members: each number in the text is a device of the set. */
static void
check_members(const char *text, size_t size, GpuSet set)
{
	for (size_t pos = 0; pos < size; pos++)
	{
		unsigned	device = 0;

		if (text[pos] < '0' || text[pos] > '9')
			continue;
		for (; pos < size && text[pos] >= '0' && text[pos] <= '9'; pos++)
			device = device * 10 + (unsigned) (text[pos] - '0');
		CHECK(device < GPUSET_MAX_DEVICES && (set >> device & 1) == 1);
	}
}
