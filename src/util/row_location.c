/*-------------------------------------------------------------------------
 *
 * row_location.c
 *		Where the rows are that this transaction changes again and again.
 *
 * A transaction that submits a hundred thousand jobs leaves as many versions of
 * each budget's counter and of each quota.  None of them may be removed before
 * it ends, and an index leads to all of them.  So once a transaction has made
 * many changes, whoever makes them notes where the last version of a row is, and
 * finds it there the next time.
 *
 * A place need not be right: after a rollback to a savepoint, or a change that
 * was not noted, its version is not visible, or is another row's.  Whoever goes
 * by it asks for the row's key as well, and finding none looks by the key.
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
 * A row is about to be changed: has this transaction done so often?  Nothing
 * is kept past it.
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
 * A row, by its table and key.  Should two have the same, one is looked for in
 * vain where the other is.
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
 * Where a row is; NULL: it was not noted.  Only where PlacesAreKept().
 */
ItemPointer
PlaceFind(uint64 key)
{
	Place	   *place = hash_search(places, &key, HASH_FIND, NULL);

	return place == NULL ? NULL : &place->place;
}

/*
 * It is there now.
 */
void
PlaceNote(uint64 key, ItemPointer place)
{
	Place	   *noted = hash_search(places, &key, HASH_ENTER, NULL);

	noted->place = *place;
}
