/*-------------------------------------------------------------------------
 *
 * gpuset_parse.c
 *		Text form of a set of devices, without a server.
 *
 *-------------------------------------------------------------------------
 */
#include "types/gpuset_parse.h"

/* The text, and the parser's position in it. */
typedef struct GpuSetScan
{
	const char *text;
	size_t		len;
	size_t		pos;
} GpuSetScan;

static GpuSetParseError scan_list(GpuSetScan *scan, GpuSet *set);
static GpuSetParseError scan_part(GpuSetScan *scan, GpuSet *set);
static GpuSetParseError scan_device(GpuSetScan *scan, int *device);
static bool scan_char(GpuSetScan *scan, char c);
static void scan_spaces(GpuSetScan *scan);
static size_t print_device(int device, char *buf);

/*
 * Parses a set.  On failure *errpos is the offset of the byte where the parser
 * stopped.
 */
GpuSetParseError
GpuSetParse(const char *text, size_t len, GpuSet *result, size_t *errpos)
{
	GpuSetScan	scan = {.text = text, .len = len};
	GpuSet		set = GPUSET_EMPTY;
	GpuSetParseError error = scan_list(&scan, &set);

	*errpos = scan.pos;
	if (error == GPUSET_PARSE_OK)
		*result = set;
	return error;
}

/*
 * Writes the canonical text into buf, which has GPUSET_TEXT_SIZE bytes, and
 * returns its length.
 */
size_t
GpuSetPrint(GpuSet set, char *buf)
{
	size_t		len = 0;

	buf[len++] = '{';
	for (int device = 0; device < GPUSET_MAX_DEVICES; device++)
	{
		int			last = device;

		if (!GpuSetHas(set, device))
			continue;
		while (last + 1 < GPUSET_MAX_DEVICES && GpuSetHas(set, last + 1))
			last++;
		if (len > 1)
			buf[len++] = ',';
		len += print_device(device, buf + len);
		if (last > device)
		{
			buf[len++] = '-';
			len += print_device(last, buf + len);
		}
		device = last;
	}
	buf[len++] = '}';
	buf[len] = '\0';
	return len;
}

/* Parses the braces and their content.  It is an error if anything follows. */
static GpuSetParseError
scan_list(GpuSetScan *scan, GpuSet *set)
{
	if (!scan_char(scan, '{'))
		return GPUSET_PARSE_SYNTAX;
	if (!scan_char(scan, '}'))
	{
		do
		{
			GpuSetParseError error = scan_part(scan, set);

			if (error != GPUSET_PARSE_OK)
				return error;
		} while (scan_char(scan, ','));
		if (!scan_char(scan, '}'))
			return GPUSET_PARSE_SYNTAX;
	}
	scan_spaces(scan);
	return scan->pos == scan->len ? GPUSET_PARSE_OK : GPUSET_PARSE_SYNTAX;
}

/* Parses a device or a range of devices, and adds it to the set. */
static GpuSetParseError
scan_part(GpuSetScan *scan, GpuSet *set)
{
	int			first;
	int			last;
	GpuSetParseError error = scan_device(scan, &first);

	if (error != GPUSET_PARSE_OK)
		return error;
	last = first;
	if (scan_char(scan, '-'))
	{
		error = scan_device(scan, &last);
		if (error != GPUSET_PARSE_OK)
			return error;
		if (last < first)
			return GPUSET_PARSE_RANGE;
	}
	*set |= GpuSetFirstN(last + 1) & ~GpuSetFirstN(first);
	return GPUSET_PARSE_OK;
}

/* Parses a device's number, 0 to 63; leading zeros are allowed. */
static GpuSetParseError
scan_device(GpuSetScan *scan, int *device)
{
	size_t		start;
	int			value = 0;

	scan_spaces(scan);
	start = scan->pos;
	while (scan->pos < scan->len &&
		   scan->text[scan->pos] >= '0' && scan->text[scan->pos] <= '9')
	{
		value = value * 10 + (scan->text[scan->pos] - '0');
		if (value >= GPUSET_MAX_DEVICES)
			return GPUSET_PARSE_DEVICE;
		scan->pos++;
	}
	if (scan->pos == start)
		return GPUSET_PARSE_SYNTAX;
	*device = value;
	return GPUSET_PARSE_OK;
}

/*
 * Skips white space, and then the character if it comes next; returns whether
 * it did.
 */
static bool
scan_char(GpuSetScan *scan, char c)
{
	scan_spaces(scan);
	if (scan->pos >= scan->len || scan->text[scan->pos] != c)
		return false;
	scan->pos++;
	return true;
}

static void
scan_spaces(GpuSetScan *scan)
{
	while (scan->pos < scan->len &&
		   (scan->text[scan->pos] == ' ' ||
			(scan->text[scan->pos] >= '\t' && scan->text[scan->pos] <= '\r')))
		scan->pos++;
}

/* Writes a device's number, of at most two digits, and returns its length. */
static size_t
print_device(int device, char *buf)
{
	size_t		len = 0;

	if (device >= 10)
		buf[len++] = (char) ('0' + device / 10);
	buf[len++] = (char) ('0' + device % 10);
	return len;
}
