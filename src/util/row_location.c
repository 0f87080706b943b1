/*-------------------------------------------------------------------------
 *
 * row_location.c
 *		Locations of rows that this transaction changes again and again.
 *
 * A transaction that submits a hundred thousand jobs leaves as many versions
 * of each budget counter and each quota.  None of them may go before it ends,
 * and an index leads to all.  So after many changes, the code that changes a
 * row notes its last version, and starts there the next time.
 *
 * A noted location may be wrong.  After a rollback to a savepoint, or an
 * unnoted change, that version is invisible, or another row's.  So the lookup
 * also asks for the row's key, and falls back to the key alone.
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

#define KEPT_AFTER	16			/* changes by a transaction */

typedef struct Place
{
	uint64		key;			/* first */
	ItemPointerData place;
} Place;

static HTAB *places = NULL;
static int	changes = 0;
static LocalTransactionId kept_in = InvalidLocalTransactionId;

/*
 * Count a change that is about to happen: has this transaction made many? The
 * count ends with the transaction.
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
 * A row, by hash of table and key.  If two have the same hash, one of them is
 * found by its key only.
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
 * Where a row is; NULL: not noted.  Only if PlacesAreKept().
 */
ItemPointer
PlaceFind(uint64 key)
{
	Place	   *place = hash_search(places, &key, HASH_FIND, NULL);

	return place == NULL ? NULL : &place->place;
}

/*
 * Note where the row is now.
 */
void
PlaceNote(uint64 key, ItemPointer place)
{
	Place	   *noted = hash_search(places, &key, HASH_ENTER, NULL);

	noted->place = *place;
}
