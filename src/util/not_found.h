/*-------------------------------------------------------------------------
 *
 * not_found.h
 *		Errors for things that do not exist.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_NOT_FOUND_H
#define GPUCREDIT_NOT_FOUND_H

#include "util/compat.h"

extern pg_attribute_noreturn() void NotFoundAccount(const char *org,
													const char *account);
extern pg_attribute_noreturn() void NotFoundJob(int64 id);
extern pg_attribute_noreturn() void NotFoundHold(int64 id);
extern pg_attribute_noreturn() void NotFoundNode(const char *node);

#endif							/* GPUCREDIT_NOT_FOUND_H */
