/*
 * check.h
 *	  Checks that a result is right, without sharing code with what made it.
 */
#ifndef DECIDE_CHECK_H
#define DECIDE_CHECK_H

#include "decide/core/core.h"


/* check_claims.c */
extern const char *DecideCheckClaims(const DecideInput *input,
									 const DecideResult *result,
									 const DecideArena *arena);

/* check_reserve.c */
extern const char *DecideCheckReserved(const DecideInput *input,
									   const DecideResult *result,
									   const DecideArena *arena);

/* check_entitle.c */
extern int64_t DecideCheckCounted(const DecideRequestClass *request,
								  int32_t type);
extern const char *DecideCheckEntitled(const DecideInput *input,
									   const DecideResult *result,
									   const DecideArena *arena);

/* check_order.c */
extern const char *DecideCheckOrder(const DecideInput *input,
									const DecideResult *result,
									const DecideArena *arena, int32_t *where);

/* check_guarantee.c */
extern const char *DecideCheckGuarantees(const DecideInput *input,
										 const DecideResult *result,
										 const DecideArena *arena);

/* check_quotas.c */
extern const char *DecideCheckQuotas(const DecideInput *input,
									 const DecideResult *result,
									 const DecideArena *arena);

#endif							/* DECIDE_CHECK_H */
