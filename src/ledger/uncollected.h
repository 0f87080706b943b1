/*-------------------------------------------------------------------------
 *
 * uncollected.h
 *		Use that no credit covered.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_UNCOLLECTED_H
#define GPUCREDIT_UNCOLLECTED_H

#include "ledger/ledger.h"

typedef struct Uncollected
{
	const char *org;
	const char *account;
	int64		job;			/* 0 for a caller's own hold */
	int32		attempt;
	int64		hold;
	const char *reason;
	Credits		amount;
	TimestampTz at;
	Trace		trace;
} Uncollected;

/* the reason for which a hold is denied because of uncollected use */
#define UNCOLLECTED_REASON	"uncollected"

extern bool UncollectedDenies(const AccountPath *path, const Purpose *purpose,
							  Credits amount, TimestampTz at);
extern void UncollectedLess(const char *org, const char *account,
							Credits amount);
extern void UncollectedWriteOff(const char *org, const char *account,
								Credits amount);
extern void UncollectedReport(const Uncollected *owed);

#endif							/* GPUCREDIT_UNCOLLECTED_H */
