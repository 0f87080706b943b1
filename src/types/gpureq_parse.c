/*-------------------------------------------------------------------------
 *
 * gpureq_parse.c
 *		Text form of a GPU request, without a server.
 *
 * The parser descends recursively along the grammar of gpureq_parse.h, with
 * one byte of lookahead and without backtracking.  Numbers saturate instead of
 * wrapping, so that a number with too many digits is reported as too large.
 * The result starts as a zeroed GpuReqFields, so names are padded with zero
 * bytes and equal requests are equal byte by byte.
 *
 *-------------------------------------------------------------------------
 */
#include "types/gpureq_parse.h"

#include <string.h>

/* The text, and the parser's position in it. */
typedef struct GpuReqScan
{
	const char *text;
	size_t		len;
	size_t		pos;
} GpuReqScan;

typedef struct MemoryUnit
{
	const char *name;
	uint64_t	bytes;
} MemoryUnit;

/*
 * From the largest to the smallest unit, as printing tries them in this order.
 */
static const MemoryUnit memory_units[] = {
	{"TiB", UINT64_C(1) << 40},
	{"TB", UINT64_C(1000000000000)},
	{"GiB", UINT64_C(1) << 30},
	{"GB", UINT64_C(1000000000)},
	{"MiB", UINT64_C(1) << 20},
	{"MB", UINT64_C(1000000)},
	{"KiB", UINT64_C(1) << 10},
	{"KB", UINT64_C(1000)},
	{"B", 1},
};

#define N_MEMORY_UNITS (sizeof(memory_units) / sizeof(memory_units[0]))

static GpuReqParseError scan_count(GpuReqScan *scan, GpuReqFields *req);
static GpuReqParseError scan_share(GpuReqScan *scan, uint64_t whole,
								   GpuReqFields *req);
static GpuReqParseError scan_alternative(GpuReqScan *scan, GpuReqFields *req);
static GpuReqParseError scan_type(GpuReqScan *scan, char *name);
static GpuReqParseError scan_memory(GpuReqScan *scan, int64_t *bytes);
static const MemoryUnit *scan_unit(GpuReqScan *scan);
static bool scan_digits(GpuReqScan *scan, uint64_t *value);
static bool scan_char(GpuReqScan *scan, char c);
static bool at_end(const GpuReqScan *scan);
static bool is_space(char c);
static size_t type_char(const char *text, size_t len);
static size_t utf8_decode(const unsigned char *s, size_t len,
						  uint32_t *codepoint);
static bool is_invisible(uint32_t codepoint);
static size_t put_text(char *buf, const char *text);
static size_t put_number(char *buf, uint64_t value);
static size_t put_share(char *buf, int32_t share_milli);
static size_t put_memory(char *buf, int64_t bytes);

/*
 * Parses a request.  On failure *errpos is the offset of the byte where the
 * parser stopped.
 */
GpuReqParseError
GpuReqParseText(const char *text, size_t len, GpuReqFields *result,
				size_t *errpos)
{
	GpuReqScan	scan = {.text = text, .len = len};
	GpuReqParseError error;

	*errpos = GPUREQ_MAX_INPUT;
	if (len > GPUREQ_MAX_INPUT)
		return GPUREQ_PARSE_TOO_LONG;
	while (scan.len > 0 && is_space(text[scan.len - 1]))
		scan.len--;
	while (!at_end(&scan) && is_space(text[scan.pos]))
		scan.pos++;

	memset(result, 0, sizeof(*result));
	result->share_milli = GPUREQ_WHOLE;
	error = scan_count(&scan, result);
	if (error == GPUREQ_PARSE_OK && result->max_gpus > 0)
	{
		if (!scan_char(&scan, 'x'))
			error = GPUREQ_PARSE_X;
		else
		{
			do
			{
				error = scan_alternative(&scan, result);
			} while (error == GPUREQ_PARSE_OK && scan_char(&scan, '|'));
		}
	}
	if (error == GPUREQ_PARSE_OK && !at_end(&scan))
		error = GPUREQ_PARSE_TRAILING;
	*errpos = scan.pos;
	return error;
}

/*
 * Writes the canonical text into buf, which has GPUREQ_TEXT_SIZE bytes, and
 * returns its length.
 */
size_t
GpuReqPrint(int32_t min_gpus, int32_t max_gpus, int32_t share_milli,
			int32_t nalternatives, const GpuReqAlternative *alternatives,
			char *buf)
{
	size_t		len;

	if (share_milli < GPUREQ_WHOLE)
		len = put_share(buf, share_milli);
	else
	{
		len = put_number(buf, (uint64_t) min_gpus);
		if (max_gpus > min_gpus)
		{
			len += put_text(buf + len, "-");
			len += put_number(buf + len, (uint64_t) max_gpus);
		}
	}
	for (int32_t i = 0; i < nalternatives; i++)
	{
		len += put_text(buf + len, i == 0 ? "x" : "|");
		len += put_text(buf + len, alternatives[i].name);
		if (alternatives[i].min_memory > 0)
			len += put_memory(buf + len, alternatives[i].min_memory);
	}
	return len;
}

/* Whether a request could name a GPU type of this name. */
bool
GpuTypeNameValid(const char *name, size_t len)
{
	size_t		pos = 0;

	if (len == 0 || len >= GPUREQ_NAME_SIZE)
		return false;
	while (pos < len)
	{
		size_t		size = type_char(name + pos, len - pos);

		if (size == 0)
			return false;
		pos += size;
	}
	return true;
}

/* Whether a GPU of this type and memory satisfies the alternative. */
bool
GpuReqAlternativeAccepts(const GpuReqAlternative *alternative,
						 const char *type, int64_t memory_bytes)
{
	return memory_bytes >= alternative->min_memory &&
		(strcmp(alternative->name, "*") == 0 ||
		 strcmp(alternative->name, type) == 0);
}

/* Parses the number of GPUs, a range of numbers, or the share of one GPU. */
static GpuReqParseError
scan_count(GpuReqScan *scan, GpuReqFields *req)
{
	uint64_t	first;
	uint64_t	last;

	if (!scan_digits(scan, &first))
		return GPUREQ_PARSE_COUNT;
	if (scan_char(scan, '.'))
		return scan_share(scan, first, req);

	last = first;
	if (scan_char(scan, '-') && !scan_digits(scan, &last))
		return GPUREQ_PARSE_COUNT;
	if (first > GPUREQ_MAX_GPUS || last > GPUREQ_MAX_GPUS)
		return GPUREQ_PARSE_GPUS;
	if (last < first)
		return GPUREQ_PARSE_RANGE;
	if (first == 0 &&
		(last > 0 || (!at_end(scan) && scan->text[scan->pos] == 'x')))
		return GPUREQ_PARSE_ZERO;
	req->min_gpus = (int32_t) first;
	req->max_gpus = (int32_t) last;
	return GPUREQ_PARSE_OK;
}

/* Parses the decimals of a share, after its whole part and the point. */
static GpuReqParseError
scan_share(GpuReqScan *scan, uint64_t whole, GpuReqFields *req)
{
	int32_t		milli = 0;
	int32_t		weight = GPUREQ_WHOLE / 10;
	size_t		start = scan->pos;
	bool		excess = false;

	while (!at_end(scan) &&
		   scan->text[scan->pos] >= '0' && scan->text[scan->pos] <= '9')
	{
		int32_t		digit = scan->text[scan->pos++] - '0';

		milli += digit * weight;
		if (weight == 0 && digit != 0)
			excess = true;
		weight /= 10;
	}
	if (scan->pos == start)
		return GPUREQ_PARSE_COUNT;
	if (whole > 0 || (milli == 0 && !excess))
		return GPUREQ_PARSE_SHARE;
	if (excess)
		return GPUREQ_PARSE_SHARE_STEP;
	req->min_gpus = 1;
	req->max_gpus = 1;
	req->share_milli = milli;
	return GPUREQ_PARSE_OK;
}

/* Parses a type or "*", and its memory floor if it has one. */
static GpuReqParseError
scan_alternative(GpuReqScan *scan, GpuReqFields *req)
{
	GpuReqAlternative *alternative;
	GpuReqParseError error;

	if (req->nalternatives >= GPUREQ_MAX_ALTERNATIVES)
		return GPUREQ_PARSE_ALTERNATIVES;
	alternative = &req->alternatives[req->nalternatives];
	if (scan_char(scan, '*'))
		alternative->name[0] = '*';
	else
	{
		error = scan_type(scan, alternative->name);
		if (error != GPUREQ_PARSE_OK)
			return error;
	}
	for (int32_t i = 0; i < req->nalternatives; i++)
	{
		if (strcmp(req->alternatives[i].name, alternative->name) == 0)
			return GPUREQ_PARSE_DUPLICATE;
	}
	req->nalternatives++;

	if (scan_char(scan, '@'))
	{
		error = scan_memory(scan, &alternative->min_memory);
		if (error != GPUREQ_PARSE_OK)
			return error;
	}
	if (!at_end(scan) && scan->text[scan->pos] != '|')
		return GPUREQ_PARSE_TYPE_CHAR;
	return GPUREQ_PARSE_OK;
}

/* Parses the name of a type, up to "|", "@" or the end. */
static GpuReqParseError
scan_type(GpuReqScan *scan, char *name)
{
	size_t		start = scan->pos;

	while (!at_end(scan) &&
		   scan->text[scan->pos] != '|' && scan->text[scan->pos] != '@')
	{
		size_t		size = type_char(scan->text + scan->pos,
									 scan->len - scan->pos);

		if (size == 0)
			return GPUREQ_PARSE_TYPE_CHAR;
		if (scan->pos + size - start >= GPUREQ_NAME_SIZE)
			return GPUREQ_PARSE_TYPE_LONG;
		scan->pos += size;
	}
	if (scan->pos == start)
		return GPUREQ_PARSE_TYPE;
	memcpy(name, scan->text + start, scan->pos - start);
	return GPUREQ_PARSE_OK;
}

/* Parses a whole number and its unit, and computes the number of bytes. */
static GpuReqParseError
scan_memory(GpuReqScan *scan, int64_t *bytes)
{
	uint64_t	number;
	const MemoryUnit *unit;

	if (!scan_digits(scan, &number))
		return GPUREQ_PARSE_MEMORY;
	unit = scan_unit(scan);
	if (unit == NULL)
		return GPUREQ_PARSE_MEMORY;
	if (number == 0 || number > (uint64_t) INT64_MAX / unit->bytes)
		return GPUREQ_PARSE_MEMORY_RANGE;
	*bytes = (int64_t) (number * unit->bytes);
	return GPUREQ_PARSE_OK;
}

/*
 * Parses a unit, which must fill the rest of the alternative.  Returns NULL if
 * no unit has this name.
 */
static const MemoryUnit *
scan_unit(GpuReqScan *scan)
{
	size_t		size = 0;

	while (scan->pos + size < scan->len &&
		   scan->text[scan->pos + size] != '|')
		size++;
	for (size_t i = 0; i < N_MEMORY_UNITS; i++)
	{
		const MemoryUnit *unit = &memory_units[i];

		if (strlen(unit->name) == size &&
			memcmp(scan->text + scan->pos, unit->name, size) == 0)
		{
			scan->pos += size;
			return unit;
		}
	}
	return NULL;
}

/*
 * Parses a whole number; one that does not fit becomes UINT64_MAX.  Returns
 * false if there is no digit.
 */
static bool
scan_digits(GpuReqScan *scan, uint64_t *value)
{
	size_t		start = scan->pos;

	*value = 0;
	while (!at_end(scan) &&
		   scan->text[scan->pos] >= '0' && scan->text[scan->pos] <= '9')
	{
		uint64_t	digit = (uint64_t) (scan->text[scan->pos++] - '0');

		if (*value > (UINT64_MAX - digit) / 10)
			*value = UINT64_MAX;
		else
			*value = *value * 10 + digit;
	}
	return scan->pos > start;
}

/* Skips the character if it comes next; returns whether it did. */
static bool
scan_char(GpuReqScan *scan, char c)
{
	if (at_end(scan) || scan->text[scan->pos] != c)
		return false;
	scan->pos++;
	return true;
}

static bool
at_end(const GpuReqScan *scan)
{
	return scan->pos >= scan->len;
}

/*
 * Whether PostgreSQL's own input functions regard the character as white
 * space.
 */
static bool
is_space(char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

/*
 * Returns the size in bytes of the next character if a type's name may have
 * it, and otherwise 0.
 */
static size_t
type_char(const char *text, size_t len)
{
	uint32_t	codepoint;
	size_t		size;

	if (len > 0 && (unsigned char) *text < 0x80)
		return *text > ' ' && *text < 0x7F && *text != '|' &&
			*text != '@' && *text != '*' ? 1 : 0;
	size = utf8_decode((const unsigned char *) text, len, &codepoint);
	return size > 0 && !is_invisible(codepoint) ? size : 0;
}

/*
 * Returns the size in bytes of the multibyte character at s if it is
 * well-formed UTF-8, and otherwise 0.
 */
static size_t
utf8_decode(const unsigned char *s, size_t len, uint32_t *codepoint)
{
	static const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
	size_t		size;
	uint32_t	c;

	if (len == 0 || s[0] < 0xC2 || s[0] > 0xF4)
		return 0;
	size = s[0] < 0xE0 ? 2 : s[0] < 0xF0 ? 3 : 4;
	if (len < size)
		return 0;
	c = s[0] & (0x7F >> size);
	for (size_t i = 1; i < size; i++)
	{
		if ((s[i] & 0xC0) != 0x80)
			return 0;
		c = c << 6 | (s[i] & 0x3F);
	}
	if (c < smallest[size] || c > 0x10FFFF || (c >= 0xD800 && c <= 0xDFFF))
		return 0;
	*codepoint = c;
	return size;
}

/* Whether this is a control, format or white space character outside ASCII. */
static bool
is_invisible(uint32_t c)
{
	static const uint32_t ranges[][2] = {
		{0x80, 0xA0}, {0xAD, 0xAD}, {0x61C, 0x61C}, {0x1680, 0x1680},
		{0x180E, 0x180E}, {0x2000, 0x200F}, {0x2028, 0x202F},
		{0x205F, 0x206F}, {0x3000, 0x3000}, {0xFEFF, 0xFEFF},
		{0xFFF9, 0xFFFB}, {0xE0000, 0xE007F},
	};

	for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++)
	{
		if (c >= ranges[i][0] && c <= ranges[i][1])
			return true;
	}
	return false;
}

/* Copies the text with its zero byte, and returns its length. */
static size_t
put_text(char *buf, const char *text)
{
	size_t		len = strlen(text);

	memcpy(buf, text, len + 1);
	return len;
}

static size_t
put_number(char *buf, uint64_t value)
{
	char		digits[24];
	size_t		pos = sizeof(digits);

	digits[--pos] = '\0';
	do
	{
		digits[--pos] = (char) ('0' + value % 10);
		value /= 10;
	} while (value > 0);
	return put_text(buf, digits + pos);
}

/* Writes a share of one GPU without trailing zeros. */
static size_t
put_share(char *buf, int32_t share_milli)
{
	size_t		len = put_text(buf, "0.");

	while (share_milli > 0)
	{
		buf[len++] = (char) ('0' + share_milli / 100);
		share_milli = share_milli % 100 * 10;
	}
	buf[len] = '\0';
	return len;
}

/* Writes a memory floor in the largest unit that expresses it exactly. */
static size_t
put_memory(char *buf, int64_t bytes)
{
	const MemoryUnit *unit = memory_units;
	size_t		len;

	while ((uint64_t) bytes % unit->bytes != 0)
		unit++;
	len = put_text(buf, "@");
	len += put_number(buf + len, (uint64_t) bytes / unit->bytes);
	len += put_text(buf + len, unit->name);
	return len;
}
