/*-------------------------------------------------------------------------
 *
 * call_repeat.h
 *		Decides whether to repeat a database call that failed.
 *-------------------------------------------------------------------------
 */
#ifndef LIB_CALL_REPEAT_H
#define LIB_CALL_REPEAT_H

#include <libpq-fe.h>

/*
 * Repeating a call is always safe, because every call that changes something
 * has an idempotency key. The value states whether a repeated call can
 * succeed.
 */
typedef enum CallRepeat
{
	REPEAT_NEVER,				/* the call succeeded, or its error is
								 * permanent */
	REPEAT_AT_ONCE,				/* the call conflicted with another
								 * transaction */
	REPEAT_ELSEWHERE,			/* this server accepts no writes: connect
								 * again, perhaps to another server */
	REPEAT_LATER				/* the server could not answer in time, or
								 * asks for a pause */
} CallRepeat;

extern CallRepeat CallMayRepeat(const PGresult * result);

#endif							/* LIB_CALL_REPEAT_H */
