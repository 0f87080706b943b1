/*-------------------------------------------------------------------------
 *
 * request.h
 *		Idempotency: a keyed call takes effect once.
 *
 * Usage, in an entry point:
 *		RequestInit(&request, fcinfo, "hold", org, key);
 *		RequestText(&request, account); ... every other argument, parsed
 *		if (RequestBegin(&request, &result)) return the replay
 *		... do it ...
 *		return RequestFinish(&request, &row);
 *
 * RequestBegin() inserts the key, and so comes first in the lock order.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_REQUEST_H
#define GPUCREDIT_REQUEST_H

#include "util/args.h"
#include "lib/stringinfo.h"

typedef struct Request
{
	FunctionCallInfo fcinfo;
	const char *operation;
	const char *org;
	const char *space;			/* whose key it is: key_space.h */
	const char *key;
	StringInfoData arguments;	/* what the fingerprint covers */
	bool		first;			/* to lock rows in its transaction */
} Request;

extern void RequestInit(Request *request, FunctionCallInfo fcinfo,
						const char *operation, const char *org,
						const char *key);
extern void RequestText(Request *request, const char *value);
extern void RequestInt8(Request *request, int64 value);
extern void RequestJson(Request *request, Jsonb *value);
extern bool RequestBegin(Request *request, Datum *result);
extern void RequestStore(Request *request, const Values *row);
extern Datum RequestFinish(Request *request, Values *row);

#endif							/* GPUCREDIT_REQUEST_H */
