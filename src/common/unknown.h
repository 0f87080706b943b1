/*-------------------------------------------------------------------------
 *
 * unknown.h
 *		The refusals of what is not there.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_UNKNOWN_H
#define GPUCREDIT_UNKNOWN_H

#include "common/compat.h"

extern pg_attribute_noreturn() void RefuseUnknownAccount(const char *org,
														 const char *account);
extern pg_attribute_noreturn() void RefuseUnknownJob(int64 id);
extern pg_attribute_noreturn() void RefuseUnknownHold(int64 id);
extern pg_attribute_noreturn() void RefuseUnknownNode(const char *node);

#endif							/* GPUCREDIT_UNKNOWN_H */
