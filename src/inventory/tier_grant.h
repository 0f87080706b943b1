/*-------------------------------------------------------------------------
 *
 * tier_grant.h
 *		Which accounts may use a tier.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_TIER_GRANT_H
#define GPUCREDIT_TIER_GRANT_H

#include "inventory/inventory.h"
#include "ledger/ledger.h"

/* The reason of a denial, if the account may not use the tier. */
#define TIER_NOT_GRANTED	"tier_not_granted"

extern bool TierGranted(const AccountPath *path, const char *tier);
extern bool TierAllowed(const AccountPath *path, const char *tier);

#endif							/* GPUCREDIT_TIER_GRANT_H */
