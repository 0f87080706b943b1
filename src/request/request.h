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
	const char *space;			/* the space that the key belongs to
								 * (key_space.h) */
	const char *key;
	StringInfoData arguments;	/* the arguments, from which the fingerprint
								 * is computed */
	bool		first;			/* whether its transaction had locked no row
								 * before */
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
