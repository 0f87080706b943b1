/*-------------------------------------------------------------------------
 *
 * credits_parse.h
 *		Text form of credits, without a server.
 *
 * An amount is an int64 count of micro-credits. Its text is a plain decimal,
 * "[+-]digits[.digits]", with white space around it allowed; a digit must
 * stand on at least one side of the point. There is no exponent. Digits past
 * the sixth decimal must be zero. The canonical text always has six decimals.
 *
 * Pure functions: no allocation, no server, no locale.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_CREDITS_PARSE_H
#define GPUCREDIT_CREDITS_PARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Micro-credits: 1,000,000 of them are one credit. */
typedef int64_t Credits;

#define CREDITS_DECIMALS	6
#define CREDITS_ONE			INT64_C(1000000)
#define CREDITS_MAX			INT64_MAX
#define CREDITS_MIN			INT64_MIN

/* Room for the longest canonical text and its terminating zero byte. */
#define CREDITS_TEXT_SIZE	24

typedef enum CreditsParseError
{
	CREDITS_PARSE_OK = 0,
	CREDITS_PARSE_SYNTAX,		/* not a plain decimal number */
	CREDITS_PARSE_RANGE,		/* does not fit an int64 */
	CREDITS_PARSE_DECIMALS,		/* a non-zero digit past the sixth decimal */
	CREDITS_PARSE_NOT_FINITE	/* NaN or infinity */
} CreditsParseError;

extern CreditsParseError CreditsParse(const char *text, size_t len,
									  Credits *result, size_t *errpos);
extern size_t CreditsPrint(Credits amount, char *buf);

#endif							/* GPUCREDIT_CREDITS_PARSE_H */
