/*-------------------------------------------------------------------------
 *
 * accrue.h
 *		What a run that goes on over midnight had cost by then.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_ACCRUE_H
#define GPUCREDIT_ACCRUE_H

#include "job/attempt.h"

extern void AccrueOver(const Attempt *const *attempts, int n, TimestampTz at);

#endif							/* GPUCREDIT_ACCRUE_H */
