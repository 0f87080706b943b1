/*-------------------------------------------------------------------------
 *
 * segment.c
 *		The extension's part of the server's shared memory.
 *
 * It exists only if shared_preload_libraries loads the library, so code that
 * needs it calls SegmentReady() first.  Modules add their parts in their
 * XxxInit(); the file of each part says which lock guards it.
 *
 * Several databases of a server may have the extension.  Data that is kept by
 * database is an array of SEGMENT_DATABASES elements.  A database gets its
 * number at its first use, under "lock", and keeps it as long as the database
 * exists, so a backend may remember the number of its own database.  If no
 * number is free, nothing is counted for the database and the background
 * worker schedules nothing in it, which the log reports once.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "shmem/segment.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "utils/syscache.h"

#define PARTS_MAX		8
#define DATABASE_UNKNOWN	(-2)

typedef struct Directory
{
	LWLock	   *lock;			/* guards the assignment of numbers */
	bool		logged_full;	/* guarded by lock */
	pg_atomic_uint32 databases[SEGMENT_DATABASES];	/* their OIDs, or 0 if a
													 * number is free */
} Directory;

static Size directory_size(void);
static void directory_start(void *memory, bool found);
static void request_parts(void);
static void start_parts(void);
static int	allocate_number(void);
static int	find_number(Oid database);
static bool database_gone(Oid database);

static const SegmentPart directory_part = {"gpucredit databases",
directory_size, directory_start, NULL};

static int	n_parts = 0;
static SegmentPart parts[PARTS_MAX];
static shmem_request_hook_type previous_request = NULL;
static shmem_startup_hook_type previous_startup = NULL;
static Directory *directory = NULL;
static int	my_database = DATABASE_UNKNOWN;

/* Called by _PG_init() before the modules that add parts. */
void
SegmentInit(void)
{
	if (!process_shared_preload_libraries_in_progress)
		return;
	previous_request = shmem_request_hook;
	shmem_request_hook = request_parts;
	previous_startup = shmem_startup_hook;
	shmem_startup_hook = start_parts;
	SegmentAdd(&directory_part);
}

void
SegmentAdd(const SegmentPart *part)
{
	Assert(n_parts < PARTS_MAX);
	parts[n_parts++] = *part;
}

/* Whether our shared memory exists. */
bool
SegmentReady(void)
{
	return directory != NULL;
}

static void
request_parts(void)
{
	if (previous_request)
		previous_request();
	for (int i = 0; i < n_parts; i++)
		RequestAddinShmemSpace(MAXALIGN(parts[i].size()));
	RequestNamedLWLockTranche("gpucredit", 1);
}

/* Allocates the memory of each part and initialises it. */
static void
start_parts(void)
{
	if (previous_startup)
		previous_startup();
	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	for (int i = 0; i < n_parts; i++)
	{
		bool		found;
		void	   *memory = ShmemInitStruct(parts[i].name, parts[i].size(),
											 &found);

		parts[i].start(memory, found);
	}
	LWLockRelease(AddinShmemInitLock);
}

static Size
directory_size(void)
{
	return sizeof(Directory);
}

static void
directory_start(void *memory, bool found)
{
	directory = memory;
	if (found)
		return;
	directory->lock = &GetNamedLWLockTranche("gpucredit")->lock;
	directory->logged_full = false;
	for (int i = 0; i < SEGMENT_DATABASES; i++)
		pg_atomic_init_u32(&directory->databases[i], InvalidOid);
}

/*
 * Returns the number of this backend's database, or -1 if it could get none.
 * Must be called inside a transaction, and only if our shared memory exists.
 */
int
SegmentDatabase(void)
{
	if (unlikely(my_database == DATABASE_UNKNOWN))
		my_database = allocate_number();
	return my_database;
}

Oid
SegmentDatabaseOid(int number)
{
	return pg_atomic_read_u32(&directory->databases[number]);
}

/*
 * Finds the number of this database, or assigns one.  Which databases were
 * dropped is looked up before the lock is acquired.
 */
static int
allocate_number(void)
{
	Oid			gone[SEGMENT_DATABASES];
	int			number = find_number(MyDatabaseId);
	bool		known;
	bool		full = false;

	if (number >= 0)
		return number;
	for (int i = 0; i < SEGMENT_DATABASES; i++)
	{
		Oid			database = SegmentDatabaseOid(i);

		gone[i] = OidIsValid(database) && database_gone(database) ?
			database : InvalidOid;
	}

	LWLockAcquire(directory->lock, LW_EXCLUSIVE);
	number = find_number(MyDatabaseId);
	known = number >= 0;
	for (int i = 0; i < SEGMENT_DATABASES && number < 0; i++)
	{
		if (SegmentDatabaseOid(i) == gone[i])
			number = i;			/* free, or assigned to a dropped database */
	}
	for (int i = 0; i < n_parts && number >= 0 && !known; i++)
	{
		if (parts[i].reset)
			parts[i].reset(number);
	}
	if (number >= 0)
		pg_atomic_write_u32(&directory->databases[number], MyDatabaseId);
	else if (!directory->logged_full)
		full = directory->logged_full = true;
	LWLockRelease(directory->lock);

	if (full)
		ereport(LOG,
				(errmsg("gpucredit counts nothing in database with OID %u",
						MyDatabaseId),
				 errdetail("Its shared memory has room for %d databases, and "
						   "all of it is in use.", SEGMENT_DATABASES)));
	return number;
}

static int
find_number(Oid database)
{
	for (int i = 0; i < SEGMENT_DATABASES; i++)
	{
		if (SegmentDatabaseOid(i) == database)
			return i;
	}
	return -1;
}

static bool
database_gone(Oid database)
{
	return !SearchSysCacheExists1(DATABASEOID, ObjectIdGetDatum(database));
}
