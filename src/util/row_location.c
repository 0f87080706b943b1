/*-------------------------------------------------------------------------
 *
 * row_location.c
 *		Locations of rows that a transaction changes many times.
 *
 * A transaction that submits a hundred thousand jobs creates as many versions
 * of each budget counter and each quota.  None of the versions can be removed
 * before the transaction ends, and an index scan for the row visits all of
 * them. So after some number of changes, the code that changes such a row
 * notes the location (TID) of its newest version and starts at this location
 * the next time.
 *
 * A noted location may be out of date.  After a rollback to a savepoint, or a
 * change that was not noted, the version there is invisible or belongs to
 * another row.  So the lookup by location also compares the row's key, and if
 * it finds nothing, it is repeated by the key alone.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/compat.h"
#include "common/hashfn.h"
#include "util/row_location.h"
#include "storage/proc.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"

#define KEPT_AFTER	16			/* changes by a transaction before it begins
								 * to note locations */

typedef struct Place
{
	uint64		key;			/* hash of table and key; must be the first
								 * field for dynahash */
	ItemPointerData place;
} Place;

static HTAB *places = NULL;
static int	changes = 0;
static LocalTransactionId kept_in = InvalidLocalTransactionId;

/*
 * Counts a change that is about to be made, and returns whether this
 * transaction has made so many that locations are noted.  The count starts
 * anew with each transaction.
 */
bool
PlacesAreKept(void)
{
	HASHCTL		control = {.keysize = sizeof(uint64),
		.entrysize = sizeof(Place)};

	if (kept_in != MyLocalTransactionId)
	{
		kept_in = MyLocalTransactionId;
		places = NULL;
		changes = 0;
	}
	if (changes < KEPT_AFTER)
	{
		changes++;
		return false;
	}
	if (places == NULL)
	{
		control.hcxt = TopTransactionContext;
		places = hash_create("gpucredit places", 64, &control,
							 HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	}
	return true;
}

/*
 * Returns the hash of a row's table and key.  If two rows have the same hash,
 * the location of only one is noted, and the other is found by its key.
 */
uint64
PlaceKey(const char *const *names, int n, int64 number)
{
	uint64		key = (uint64) number;

	for (int i = 0; i < n; i++)
		key = hash_combine64(key,
							 hash_bytes_extended((const unsigned char *) names[i],
												 strlen(names[i]), 0));
	return key;
}

/*
 * Returns the noted location of a row, or NULL if none is noted.  Must only be
 * called if PlacesAreKept() returned true.
 */
ItemPointer
PlaceFind(uint64 key)
{
	Place	   *place = hash_search(places, &key, HASH_FIND, NULL);

	return place == NULL ? NULL : &place->place;
}

/* Notes the location of the row's newest version. */
void
PlaceNote(uint64 key, ItemPointer place)
{
	Place	   *noted = hash_search(places, &key, HASH_ENTER, NULL);

	noted->place = *place;
}
