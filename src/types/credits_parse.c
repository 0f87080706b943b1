/*-------------------------------------------------------------------------
 *
 * credits_parse.c
 *		Text form of credits, without a server.
 *
 * The parser reads the text once and keeps the value as an unsigned magnitude,
 * so that the smallest int64 parses as well.  An overflow only sets a flag and
 * the parser reads on, so that a text that is no number is reported as such,
 * however long it is.
 *
 *-------------------------------------------------------------------------
 */
#include "types/credits_parse.h"

#include <string.h>

/* State of the parser.  `magnitude` has micro-credits, without the sign. */
typedef struct CreditsScan
{
	const char *text;
	size_t		len;
	size_t		pos;
	uint64_t	magnitude;
	bool		negative;
	bool		overflow;
	bool		excess;			/* a non-zero digit past the sixth decimal */
} CreditsScan;

static void scan_spaces(CreditsScan *scan);
static bool scan_not_finite(const CreditsScan *scan);
static bool scan_number(CreditsScan *scan);
static void push_digit(CreditsScan *scan, unsigned digit);
static bool word_at(const CreditsScan *scan, const char *word);
static bool is_space(char c);
static bool is_digit(char c);

/*
 * Parses an amount.  On failure *errpos is the offset of the byte where the
 * parser stopped.
 */
CreditsParseError
CreditsParse(const char *text, size_t len, Credits *result, size_t *errpos)
{
	CreditsScan scan = {.text = text, .len = len};
	uint64_t	limit;

	scan_spaces(&scan);
	if (scan.pos < len && (text[scan.pos] == '+' || text[scan.pos] == '-'))
		scan.negative = text[scan.pos++] == '-';
	if (scan_not_finite(&scan))
	{
		*errpos = scan.pos;
		return CREDITS_PARSE_NOT_FINITE;
	}
	if (!scan_number(&scan))
	{
		*errpos = scan.pos;
		return CREDITS_PARSE_SYNTAX;
	}
	scan_spaces(&scan);
	*errpos = scan.pos;
	if (scan.pos < len)
		return CREDITS_PARSE_SYNTAX;

	limit = (uint64_t) CREDITS_MAX + (scan.negative ? 1 : 0);
	if (scan.overflow || scan.magnitude > limit)
		return CREDITS_PARSE_RANGE;
	if (scan.excess)
		return CREDITS_PARSE_DECIMALS;

	/*
	 * The negation is done unsigned, so that the smallest amount is in range.
	 */
	*result = (Credits) (scan.negative ? -scan.magnitude : scan.magnitude);
	return CREDITS_PARSE_OK;
}

/*
 * Writes the canonical text into buf, which has CREDITS_TEXT_SIZE bytes, and
 * returns its length.
 */
size_t
CreditsPrint(Credits amount, char *buf)
{
	char		digits[CREDITS_TEXT_SIZE];
	size_t		n = 0;
	size_t		len = 0;
	uint64_t	rest = amount < 0 ? -(uint64_t) amount : (uint64_t) amount;

	/*
	 * Collect the digits from the last to the first, with at least one before
	 * the point.
	 */
	while (rest > 0 || n <= CREDITS_DECIMALS)
	{
		digits[n++] = (char) ('0' + rest % 10);
		rest /= 10;
	}

	if (amount < 0)
		buf[len++] = '-';
	while (n > 0)
	{
		if (n == CREDITS_DECIMALS)
			buf[len++] = '.';
		buf[len++] = digits[--n];
	}
	buf[len] = '\0';
	return len;
}

static void
scan_spaces(CreditsScan *scan)
{
	while (scan->pos < scan->len && is_space(scan->text[scan->pos]))
		scan->pos++;
}

/*
 * Whether the rest of the text is a word for infinity or for "not a number".
 */
static bool
scan_not_finite(const CreditsScan *scan)
{
	return word_at(scan, "nan") || word_at(scan, "inf") ||
		word_at(scan, "infinity");
}

/* Parses digits around a point.  Returns false if there is no digit. */
static bool
scan_number(CreditsScan *scan)
{
	size_t		start = scan->pos;
	size_t		ndigits;
	size_t		ndecimals = 0;

	while (scan->pos < scan->len && is_digit(scan->text[scan->pos]))
		push_digit(scan, (unsigned) (scan->text[scan->pos++] - '0'));
	ndigits = scan->pos - start;

	if (scan->pos < scan->len && scan->text[scan->pos] == '.')
	{
		scan->pos++;
		while (scan->pos < scan->len && is_digit(scan->text[scan->pos]))
		{
			unsigned	digit = (unsigned) (scan->text[scan->pos++] - '0');

			if (ndecimals++ < CREDITS_DECIMALS)
				push_digit(scan, digit);
			else if (digit != 0)
				scan->excess = true;
		}
	}

	for (size_t i = ndecimals; i < CREDITS_DECIMALS; i++)
		push_digit(scan, 0);
	return ndigits + ndecimals > 0;
}

static void
push_digit(CreditsScan *scan, unsigned digit)
{
	if (scan->magnitude > (UINT64_MAX - digit) / 10)
		scan->overflow = true;
	else
		scan->magnitude = scan->magnitude * 10 + digit;
}

/*
 * Whether the rest of the text is this word, in upper or lower case, with
 * nothing but white space after it.
 */
static bool
word_at(const CreditsScan *scan, const char *word)
{
	size_t		pos = scan->pos;

	for (; *word != '\0'; word++, pos++)
	{
		if (pos >= scan->len || (scan->text[pos] | 0x20) != *word)
			return false;
	}
	while (pos < scan->len && is_space(scan->text[pos]))
		pos++;
	return pos == scan->len;
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

static bool
is_digit(char c)
{
	return c >= '0' && c <= '9';
}
