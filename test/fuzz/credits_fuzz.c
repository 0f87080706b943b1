/*-------------------------------------------------------------------------
 *
 * credits_fuzz.c
 *		Fuzz target: the text form of credits.
 *
 * What parses must print, parse back and print the same; and what it prints
 * must be the text itself brought to canonical form by editing characters,
 * which knows nothing of numbers. Any eight bytes, taken as an amount, must
 * survive printing and parsing.
 *
 *-------------------------------------------------------------------------
 */
#include "fuzz.h"

#include "types/credits_parse.h"

static void check_round_trip(Credits amount);
static void check_by_editing(const char *text, size_t size, Credits amount);

/*
 * One input.
 */
int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = (const char *) data;
	Credits		amount = 0;
	size_t		errpos = SIZE_MAX;

	if (CreditsParse(text, size, &amount, &errpos) == CREDITS_PARSE_OK)
	{
		check_round_trip(amount);
		check_by_editing(text, size, amount);
	}
	CHECK(errpos <= size);

	if (size >= sizeof(amount))
	{
		memcpy(&amount, data, sizeof(amount));
		check_round_trip(amount);
	}
	return 0;
}

/* check_round_trip: an amount is what its text says, and nothing else. */
static void
check_round_trip(Credits amount)
{
	char		text[CREDITS_TEXT_SIZE];
	Credits		again = 0;
	size_t		errpos;
	size_t		len = CreditsPrint(amount, text);

	CHECK(len < sizeof(text) && len == strlen(text));
	CHECK(CreditsParse(text, len, &again, &errpos) == CREDITS_PARSE_OK);
	CHECK(again == amount);
}

/* check_by_editing: the canonical text, made by moving characters. */
static void
check_by_editing(const char *text, size_t size, Credits amount)
{
	char		printed[CREDITS_TEXT_SIZE];
	char		edited[CREDITS_TEXT_SIZE + 2] = "-";
	size_t		len = 1;
	size_t		pos = 0;
	int			decimals = 0;
	int			negative;

	while (strchr(" \t\n\v\f\r", text[pos]) != NULL)
		pos++;
	negative = text[pos] == '-';
	if (text[pos] == '-' || text[pos] == '+')
		pos++;
	while (pos < size && text[pos] == '0')
		pos++;
	while (pos < size && text[pos] >= '0' && text[pos] <= '9')
	{
		CHECK(len < CREDITS_TEXT_SIZE);
		edited[len++] = text[pos++];
	}
	if (len == 1)
		edited[len++] = '0';
	CHECK(len + 7 < sizeof(edited));
	edited[len++] = '.';
	if (pos < size && text[pos] == '.')
		pos++;
	for (; decimals < CREDITS_DECIMALS; decimals++)
	{
		if (pos < size && text[pos] >= '0' && text[pos] <= '9')
			edited[len++] = text[pos++];
		else
			edited[len++] = '0';
	}
	edited[len] = '\0';

	CreditsPrint(amount, printed);
	CHECK(strcmp(printed, negative && amount != 0 ? edited : edited + 1) == 0);
}
