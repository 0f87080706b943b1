/*-------------------------------------------------------------------------
 *
 * json_value.h
 *		Numbers and intervals in JSON that a caller passes.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_JSON_VALUE_H
#define GPUCREDIT_JSON_VALUE_H

#include "utils/jsonb.h"

extern bool JsonWhole(const JsonbValue *value, int64 *number);
extern bool JsonDuration(const JsonbValue *value, int64 *us);

#endif							/* GPUCREDIT_JSON_VALUE_H */
