/*-------------------------------------------------------------------------
 *
 * rate.c
 *		Rate limits on calls.
 *
 * The limits are rows of gpucredit.rate_limit.  Shared memory has a token
 * bucket for each (shmem/token_bucket.c), under a digest of the row, so that a
 * limit that is set again starts with a full bucket.  A call needs one token
 * of each limit that applies to it: the limits of its account and of all
 * accounts above it, for its function and for '*'.
 *
 * Agents, operators and administrators are not limited, whichever function
 * they call, so that they can settle an attempt or cancel a job of an account
 * that has used up its calls.  A login that is also a member of gpucredit_app
 * or gpucredit_tenant is limited.
 *
 * Each backend caches the limits of the organisations it has served, so that a
 * call reads no table; most organisations have no limits.  A trigger on the
 * table announces every change (util/cache_invalidate.c).  Then the backend
 * reads the limits again, with a new snapshot even if the transaction's
 * snapshot is older.
 *
 * The account of a job, hold or bucket never changes, so it is cached as well.
 * It is only looked up if a limit below the organisation might apply to the
 * call.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/namespace.h"
#include "util/args.h"
#include "util/clock.h"
#include "util/compat.h"
#include "util/definer.h"
#include "util/digest.h"
#include "util/sql.h"
#include "api/rate.h"
#include "miscadmin.h"
#include "shmem/token_bucket.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/uuid.h"

#define ANY_OPERATION	"*"
#define MOST_ORGS		4096	/* most organisations that a backend caches */
#define MOST_SUBJECTS	65536
#define MOST_LEVELS		9		/* most levels of an account's path, including
								 * '' */

StaticAssertDecl(API_COUNT <= 64, "a set of entry points is a 64-bit mask");
StaticAssertDecl(TOKEN_BUCKET_KEY_SIZE <= DIGEST_SIZE,
				 "a key is part of a digest");

typedef struct RateLimit
{
	char	   *account;
	char	   *operation;
	int32		burst;
	TokenBucket level;
} RateLimit;

typedef struct OrgLimits
{
	char		org[ARG_NAME_MAX + 1];	/* the organisation's name, as hash
										 * key */
	int			n;
	RateLimit  *limits;			/* sorted by account, then operation */
	uint64		limited;		/* bit mask of the functions that have any
								 * limit */
	uint64		below;			/* bit mask of those with a limit below the
								 * organisation */
} OrgLimits;

typedef struct SubjectKey
{
	const OrgLimits *org;
	int64		id;
	int64		kind;
} SubjectKey;

typedef struct Subject
{
	SubjectKey	key;
	char	   *account;
} Subject;

SQL_STATEMENT(limits_read, SPI_OK_SELECT, "text",
			  "SELECT r.account, r.operation, r.per_second, r.burst, r.setting"
			  " FROM gpucredit.rate_limit r WHERE r.org = $1"
			  " ORDER BY r.account, r.operation");
/* This backend's cache, in one memory context. */
static MemoryContext kept = NULL;
static HTAB *kept_orgs = NULL;
static HTAB *kept_subjects = NULL;
static Oid	kept_table = InvalidOid;	/* OID of the table that the cache was
										 * read from */
static bool stale = true;

static void table_changed(Datum arg, Oid relid);
static void forget_all(void);
static OrgLimits *limits_of(const char *org, const RateSubject *subject);
static Definer enter(const RateSubject *subject);
static void leave(const RateSubject *subject, Definer definer);
static void read_limits(OrgLimits *org);
static void read_limit(SqlResult rows, uint64 i, OrgLimits *org);
static const char *account_of(const OrgLimits *org,
							  const RateSubject *subject);
static char *read_account(const char *org, const RateSubject *subject);
static bool caller_is_exempt(void);
static int	find_limits(const OrgLimits *org, ApiFunction entry,
						const char *account, const RateLimit **found);
static const RateLimit *find_limit(const OrgLimits *org, const char *account,
								   const char *operation);

void
RateInit(void)
{
	CacheRegisterRelcacheCallback(table_changed, (Datum) 0);
}

static void
table_changed(Datum arg, Oid relid)
{
	if (!OidIsValid(relid) || relid == kept_table)
		stale = true;
}

/*
 * Takes a token from each limit that applies to the call.  Returns false if
 * one of them has none; then no token is taken from any.
 */
bool
RateAdmits(ApiFunction entry, const char *org, const RateSubject *subject,
		   RateRefusal *refusal)
{
	uint64		mask = UINT64CONST(1) << entry;
	const RateLimit *found[MOST_LEVELS * 2];
	TokenBucket levels[MOST_LEVELS * 2];
	const OrgLimits *limits;
	int			n;
	int			refused;

	AcceptInvalidationMessages();
	limits = limits_of(org, subject);
	if ((limits->limited & mask) == 0 || caller_is_exempt())
		return true;
	n = find_limits(limits, entry, (limits->below & mask) == 0 ? "" :
					account_of(limits, subject), found);
	for (int i = 0; i < n; i++)
		levels[i] = found[i]->level;
	refused = TokenBucketDebit(levels, n, ClockNow(), &refusal->wait);
	if (refused < 0)
		return true;
	refusal->account = found[refused]->account;
	refusal->operation = found[refused]->operation;
	refusal->per_second = found[refused]->level.per_second;
	refusal->burst = found[refused]->burst;
	return false;
}

/*
 * Whether the caller measures or administers (agent, operator or
 * administrator) and is no application or tenant.
 */
static bool
caller_is_exempt(void)
{
	return CallerIsSuperuser() ||
		((CallerHasRole("gpucredit_agent") ||
		  CallerHasRole("gpucredit_operator") ||
		  CallerHasRole("gpucredit_admin")) &&
		 !CallerHasRole("gpucredit_app") &&
		 !CallerHasRole("gpucredit_tenant"));
}

/*
 * Returns the number of the function with this name, API_COUNT for '*', or -1
 * if no such function can be limited.
 */
int
RateOperation(const char *name)
{
	if (strcmp(name, ANY_OPERATION) == 0)
		return API_COUNT;
	for (int entry = 0; entry < API_COUNT; entry++)
	{
		if (ApiIsLimited(entry) && strcmp(name, ApiName(entry)) == 0)
			return entry;
	}
	return -1;
}

/* Empties the cache. */
static void
forget_all(void)
{
	HASHCTL		orgs = {.keysize = ARG_NAME_MAX + 1,
		.entrysize = sizeof(OrgLimits)};
	HASHCTL		subjects = {.keysize = sizeof(SubjectKey),
		.entrysize = sizeof(Subject)};

	kept_orgs = kept_subjects = NULL;
	if (kept == NULL)
		kept = AllocSetContextCreate(CacheMemoryContext,
									 "gpucredit rate limits",
									 ALLOCSET_DEFAULT_SIZES);
	else
		MemoryContextReset(kept);
	orgs.hcxt = subjects.hcxt = kept;
	kept_subjects = hash_create("gpucredit rate subjects", 256, &subjects,
								HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	kept_orgs = hash_create("gpucredit rate limits", 64, &orgs,
							HASH_ELEM | HASH_STRINGS | HASH_CONTEXT);
}

/*
 * The rate limits of an organisation: those that this session has kept in
 * memory, or else those that are now read from the table and kept.
 */
static OrgLimits *
limits_of(const char *org, const RateSubject *subject)
{
	OrgLimits  *limits;
	bool		found;

	if (stale || kept_orgs == NULL ||
		hash_get_num_entries(kept_orgs) >= MOST_ORGS ||
		hash_get_num_entries(kept_subjects) >= MOST_SUBJECTS)
	{
		/*
		 * Set this before the read: if the table changes during it, the
		 * callback sets `stale` again.
		 */
		stale = false;
		forget_all();
	}
	limits = hash_search(kept_orgs, org, HASH_FIND, NULL);
	if (limits == NULL)
	{
		OrgLimits	read = {.n = 0};
		Definer		definer = enter(subject);

		strlcpy(read.org, org, sizeof(read.org));
		read_limits(&read);
		leave(subject, definer);
		limits = hash_search(kept_orgs, org, HASH_ENTER, &found);
		*limits = read;
	}
	return limits;
}

/*
 * Switches to the rights of the function's owner for reading tables, as the
 * function may be SECURITY INVOKER.
 */
static Definer
enter(const RateSubject *subject)
{
	return subject->call ? DefinerEnter(subject->call) : (Definer){0};
}

static void
leave(const RateSubject *subject, Definer definer)
{
	if (subject->call)
		DefinerLeave(definer);
}

/* Reads an organisation's limits from the table. */
static void
read_limits(OrgLimits *org)
{
	SqlResult	rows;

	kept_table = get_relname_relid("rate_limit",
								   get_namespace_oid("gpucredit", false));
	SqlConnect();
	rows = SqlReadLatest(&limits_read, VALUES(TextValue(org->org)));
	org->limits = MemoryContextAllocHuge(kept, sizeof(RateLimit) * (rows.n +
																	1));
	for (uint64 i = 0; i < rows.n; i++)
	{
		CHECK_FOR_INTERRUPTS();
		read_limit(rows, i, org);
	}
	SqlFinish();
}

/*
 * Adds one limit to the cache.  A limit of an unknown function is cached, but
 * applies to no call.
 */
static void
read_limit(SqlResult rows, uint64 i, OrgLimits *org)
{
	RateLimit  *limit = &org->limits[org->n];
	char	   *operation = SqlText(rows, i, 2);
	int			entry = RateOperation(operation);
	pg_uuid_t  *setting;
	uint64		mask;
	uint8		digest[DIGEST_SIZE];
	StringInfoData name;
	bool		isnull;

	if (entry < 0)
		return;
	mask = entry == API_COUNT ? PG_UINT64_MAX : UINT64CONST(1) << entry;
	limit->account = MemoryContextStrdup(kept, SqlText(rows, i, 1));
	limit->operation = MemoryContextStrdup(kept, operation);
	limit->level.per_second = DatumGetFloat8(SqlDatum(rows, i, 3, &isnull));
	limit->level.burst = limit->burst = SqlInt4(rows, i, 4);
	org->n++;
	org->limited |= mask;
	if (*limit->account != '\0')
		org->below |= mask;

	/*
	 * Each text is appended with its zero byte, so that two different rows
	 * never give the same bytes.
	 */
	initStringInfo(&name);
	appendBinaryStringInfo(&name, (char *) &MyDatabaseId, sizeof(Oid));
	appendBinaryStringInfo(&name, org->org, strlen(org->org) + 1);
	appendBinaryStringInfo(&name, limit->account, strlen(limit->account) + 1);
	appendBinaryStringInfo(&name, operation, strlen(operation) + 1);
	appendBinaryStringInfo(&name, (char *) &limit->level.per_second,
						   sizeof(double));
	appendBinaryStringInfo(&name, (char *) &limit->burst, sizeof(int32));
	setting = DatumGetUUIDP(SqlDatum(rows, i, 5, &isnull));
	appendBinaryStringInfo(&name, (char *) setting->data, UUID_LEN);
	DigestOf(&name, digest);
	memcpy(limit->level.key, digest, TOKEN_BUCKET_KEY_SIZE);
}

/*
 * Returns the account of a call, or '' if its argument names nothing that
 * exists.
 */
static const char *
account_of(const OrgLimits *org, const RateSubject *subject)
{
	SubjectKey	key = {org, subject->id, subject->kind};
	Subject    *known;
	char	   *account;

	if (subject->kind == API_SUBJECT_ACCOUNT)
		return subject->account;
	known = hash_search(kept_subjects, &key, HASH_FIND, NULL);
	if (known != NULL)
		return known->account;
	account = read_account(org->org, subject);
	if (account == NULL)
		return "";
	known = hash_search(kept_subjects, &key, HASH_ENTER, NULL);
	known->account = account;
	return account;
}

/*
 * Reads the account of a job, hold or bucket; returns NULL if it does not
 * exist.
 */
static char *
read_account(const char *org, const RateSubject *subject)
{
	Definer		definer = enter(subject);
	char	   *account;

	SqlConnect();
	account = ApiAccountOf(subject->kind, org, subject->id);
	if (account != NULL)
		account = MemoryContextStrdup(kept, account);
	SqlFinish();
	leave(subject, definer);
	return account;
}

/*
 * Finds the limits that apply to an account, those of the organisation last,
 * and returns their number.
 */
static int
find_limits(const OrgLimits *org, ApiFunction entry, const char *account,
			const RateLimit **found)
{
	char		path[ARG_NAME_MAX + 1];
	int			n = 0;

	strlcpy(path, account, sizeof(path));
	for (int level = 0; level < MOST_LEVELS; level++)
	{
		const char *operations[] = {ApiName(entry), ANY_OPERATION};
		char	   *slash = strrchr(path, '/');

		if (level == MOST_LEVELS - 1)
			*path = '\0';		/* deeper than any account is */
		for (int i = 0; i < 2; i++)
		{
			const RateLimit *limit = find_limit(org, path, operations[i]);

			if (limit != NULL)
				found[n++] = limit;
		}
		if (*path == '\0')
			break;
		*(slash != NULL ? slash : path) = '\0';
	}
	return n;
}

/* Returns the limit of exactly this account and operation, or NULL. */
static const RateLimit *
find_limit(const OrgLimits *org, const char *account, const char *operation)
{
	int			low = 0;
	int			high = org->n;

	while (low < high)
	{
		int			middle = low + (high - low) / 2;
		const RateLimit *limit = &org->limits[middle];
		int			order = strcmp(account, limit->account);

		if (order == 0)
			order = strcmp(operation, limit->operation);
		if (order == 0)
			return limit;
		if (order < 0)
			high = middle;
		else
			low = middle + 1;
	}
	return NULL;
}
