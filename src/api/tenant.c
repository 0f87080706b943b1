/*-------------------------------------------------------------------------
 *
 * tenant.c
 *		What a tenant may see and spend.
 *
 * A tenant is a member of gpucredit_tenant that is no superuser.  The caller
 * is the outer user: the login, or the role it has SET ROLE to, which no
 * function changes.  Rows of gpucredit.tenant bind roles to accounts, and a
 * member of a bound role has the role's bindings.  For a tenant nothing but
 * the bound accounts exists: before any other check, it gets the error for a
 * missing thing.
 *
 * Each backend caches the bindings of the last tenant that called.  It reads
 * them again when the table, a role or a membership changes.
 *
 * SQL functions here: may_read.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/detoast.h"
#include "access/xact.h"
#include "catalog/namespace.h"
#include "util/args.h"
#include "util/compat.h"
#include "util/definer.h"
#include "util/errors.h"
#include "util/path.h"
#include "util/sql.h"
#include "util/not_found.h"
#include "api/tenant.h"
#include "miscadmin.h"
#include "storage/proc.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/syscache.h"

PG_FUNCTION_INFO_V1(gpucredit_may_read);

typedef struct Binding
{
	char	   *org;
	char	   *account;
} Binding;

/*
 * The functions that a tenant may call besides those that only read.  The two
 * functions whose names begin with allocate are granted to nobody: companion
 * extensions call them on behalf of a tenant after they have checked that it
 * is an approver.
 */
#define MAY_CALL \
	(BIT(hold) | BIT(extend_hold) | BIT(capture) | BIT(release) | \
	 BIT(reserve) | BIT(quote) | BIT(store_file) | BIT(settle) | \
	 BIT(cancel) | BIT(requeue_job) | BIT(hold_job) | BIT(release_job) | \
	 BIT(meter) | BIT(checkpoint) | BIT(log_wish) | BIT(open_session) | \
	 BIT(signal_job) | BIT(update_job) | \
	 BIT(allocate) | BIT(allocate_quota))
#define BIT(name)	(UINT64CONST(1) << API_##name)

SQL_STATEMENT(bindings_read, SPI_OK_SELECT, "oid",
			  "SELECT t.org, t.account FROM gpucredit.tenant t"
			  " JOIN pg_catalog.pg_roles r ON r.rolname = t.role"
			  " WHERE pg_catalog.pg_has_role($1, r.oid, 'USAGE')");

/*
 * The last caller, and whether it is a tenant.  InvalidOid once a role has
 * changed.
 */
static Oid	known_user = InvalidOid;
static bool known_tenant;
static uint64 role_changes = 0; /* announced changes of roles */
static bool bindings_known = false;
static bool passing;			/* whether they were read in parallel mode */
static TimestampTz passing_for; /* start of the statement for which they are
								 * then valid */
static int	nbindings;
static Binding *bindings;
static LocalTransactionId tenant_called = InvalidLocalTransactionId;
static MemoryContext kept = NULL;
static Oid	kept_table = InvalidOid;

static void roles_changed(Datum arg, int cacheid, uint32 hashvalue);
static void table_changed(Datum arg, Oid relid);
static void refuse_prepare(XactEvent event, void *arg);
static bool caller_is_tenant(void);
static bool is_bound(const char *org, const char *account);
static bool is_bound_in(const char *org);
static bool is_covered(const char *org, const char *account);
static bool bindings_good(void);
static void read_bindings(void);
static bool covers(const Binding *binding, const char *org,
				   const char *account);
static char *name_arg(FunctionCallInfo fcinfo, int n);
static void check_id(ApiSubject kind, const char *org, int64 id);
static pg_attribute_noreturn() void refuse_call(const char *what);

void
TenantInit(void)
{
	CacheRegisterSyscacheCallback(AUTHOID, roles_changed, (Datum) 0);
	CacheRegisterSyscacheCallback(AUTHMEMROLEMEM, roles_changed, (Datum) 0);
	CacheRegisterRelcacheCallback(table_changed, (Datum) 0);
	RegisterXactCallback(refuse_prepare, NULL);
}

/*
 * Refuses to prepare a transaction in which a tenant called a function of
 * gpucredit.  The call may have locked something that agents wait for, and a
 * prepared transaction has no session that end_tenant_transactions() could
 * terminate.
 */
static void
refuse_prepare(XactEvent event, void *arg)
{
	if (event == XACT_EVENT_PRE_PREPARE &&
		tenant_called == MyLocalTransactionId)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("a tenant may not prepare a transaction"),
				 errdetail("A call of gpucredit in it may have locked what "
						   "others wait for."),
				 errhint("Commit the transaction.")));
}

static void
roles_changed(Datum arg, int cacheid, uint32 hashvalue)
{
	known_user = InvalidOid;
	bindings_known = false;
	role_changes++;
}

static void
table_changed(Datum arg, Oid relid)
{
	if (!OidIsValid(relid) || relid == kept_table)
		bindings_known = false;
}

/*
 * Raises the error for a missing thing if the caller is a tenant and the call
 * is about something that is not its own.  If an argument cannot name
 * anything, the function itself raises the error.
 */
void
TenantCheckCall(ApiFunction entry, ApiSubject kind, FunctionCallInfo fcinfo)
{
	char	   *org;
	char	   *account;
	Definer		definer;

	if (!caller_is_tenant())
		return;
	tenant_called = MyLocalTransactionId;
	if ((MAY_CALL & (UINT64CONST(1) << entry)) == 0)
		refuse_call(ApiName(entry));
	org = name_arg(fcinfo, 0);
	if (org == NULL || PG_ARGISNULL(1))
		return;

	/*
	 * The statements below need the rights of the function's owner, and the
	 * function may be SECURITY INVOKER.
	 */
	definer = DefinerEnter(fcinfo);
	if (kind != API_SUBJECT_ACCOUNT)
		check_id(kind, org, PG_GETARG_INT64(1));
	else if ((account = name_arg(fcinfo, 1)) != NULL &&
			 !is_bound(org, account))
		NotFoundAccount(org, account);
	DefinerLeave(definer);
}

/*
 * As TenantCheckCall(), for reading functions, which pass the account and
 * already run with their owner's rights.
 */
void
TenantCheckAccount(const char *org, const char *account)
{
	if (caller_is_tenant() && !is_bound(org, account))
		NotFoundAccount(org, account);
}

/*
 * As TenantCheckAccount(), for functions about an organisation: a tenant may
 * read its own part of any organisation in which it has an account.
 */
void
TenantCheckOrg(const char *org)
{
	if (caller_is_tenant() && !is_bound(org, "") && !is_bound_in(org))
		NotFoundAccount(org, "");
}

void
TenantCheckJob(const char *org, int64 job)
{
	if (caller_is_tenant())
		check_id(API_SUBJECT_JOB, org, job);
}

/* Whether the caller is a tenant. */
bool
TenantCalls(void)
{
	return caller_is_tenant();
}

/*
 * may_read(): whether the caller may see the rows of an account.  Row security
 * policies and views call it.  Every caller who is no tenant may.
 */
Datum
gpucredit_may_read(PG_FUNCTION_ARGS)
{
	char	   *org;
	char	   *account;
	bool		may_read;

	if (!caller_is_tenant())
		PG_RETURN_BOOL(true);
	if (PG_ARGISNULL(0) || PG_ARGISNULL(1))
		PG_RETURN_BOOL(false);
	if (!bindings_good())
	{
		Definer		definer = DefinerEnter(fcinfo);

		read_bindings();
		DefinerLeave(definer);
	}
	org = text_to_cstring(PG_GETARG_TEXT_PP(0));
	account = text_to_cstring(PG_GETARG_TEXT_PP(1));
	may_read = nbindings > 0 && is_covered(org, account);
	pfree(org);
	pfree(account);
	PG_RETURN_BOOL(may_read);
}

/*
 * Whether the outer user is a tenant.  If the role gpucredit_tenant was
 * renamed, nobody could be recognised as its member, so an error is raised for
 * everybody but superusers.  A user who was dropped during the session gets an
 * error as well, because it is no longer a member of anything.
 */
static bool
caller_is_tenant(void)
{
	Oid			user = GetOuterUserId();

	if (user != known_user)
	{
		uint64		before = role_changes;
		Oid			role = get_role_oid("gpucredit_tenant", true);

		if (!SearchSysCacheExists1(AUTHOID, ObjectIdGetDatum(user)))
			ereport(ERROR,
					(errcode(ERRCODE_UNDEFINED_OBJECT),
					 errmsg("role with OID %u does not exist", user),
					 errdetail("The role was dropped while its session was "
							   "open."),
					 errhint("Connect as an existing role.")));
		if (!OidIsValid(role) && !superuser_arg(user))
			ereport(ERROR,
					(errcode(ERRCODE_UNDEFINED_OBJECT),
					 errmsg("role \"gpucredit_tenant\" does not exist"),
					 errdetail("Without this role gpucredit cannot know "
							   "which logins are tenants."),
					 errhint("Rename the role back, or create it again.")));
		known_tenant = !superuser_arg(user) &&
			is_member_of_role_nosuper(user, role);
		bindings_known = false;
		/* a role that changed during the check makes the result unusable */
		known_user = role_changes == before ? user : InvalidOid;
	}
	return known_tenant;
}

/*
 * Whether an account is one that the calling tenant is bound to, or lies below
 * one.  Raises 42501 if the tenant is bound to no account at all.
 */
static bool
is_bound(const char *org, const char *account)
{
	AcceptInvalidationMessages();
	if (!caller_is_tenant())
		return true;			/* a role changed, and the caller is no tenant
								 * any more */
	if (!bindings_good())
		read_bindings();
	if (nbindings == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("role \"%s\" is bound to no account",
						GetUserNameFromId(GetOuterUserId(), false)),
				 errdetail("Members of gpucredit_tenant see and spend only "
						   "what they are bound to."),
				 errhint("Ask an administrator to call "
						 "gpucredit.bind_tenant().")));
	return is_covered(org, account);
}

/* Whether the tenant is bound to any account of the organisation. */
static bool
is_bound_in(const char *org)
{
	for (int i = 0; i < nbindings; i++)
	{
		if (strcmp(bindings[i].org, org) == 0)
			return true;
	}
	return false;
}

/* Whether any binding covers the account. */
static bool
is_covered(const char *org, const char *account)
{
	for (int i = 0; i < nbindings; i++)
	{
		if (covers(&bindings[i], org, account))
			return true;
	}
	return false;
}

/* Whether the cached bindings are still valid. */
static bool
bindings_good(void)
{
	return bindings_known &&
		(!passing || (IsInParallelMode() &&
					  passing_for == GetCurrentStatementStartTimestamp()));
}

/*
 * Reads the caller's bindings, with a new snapshot.  Parallel mode allows only
 * the statement's own snapshot, which may be old, so bindings that are read in
 * parallel mode are only used for that statement.
 */
static void
read_bindings(void)
{
	SqlResult	rows;

	if (kept == NULL)
		kept = AllocSetContextCreate(CacheMemoryContext, "gpucredit tenant",
									 ALLOCSET_SMALL_SIZES);
	MemoryContextReset(kept);
	nbindings = 0;
	kept_table = get_relname_relid("tenant",
								   get_namespace_oid("gpucredit", false));

	/*
	 * Set this before the read: if the table changes during it, the callback
	 * resets this flag.
	 */
	bindings_known = true;
	passing = IsInParallelMode();
	passing_for = GetCurrentStatementStartTimestamp();
	PG_TRY();
	{
		SqlConnect();
		rows = SqlReadLatest(&bindings_read,
							 VALUES(DatumValue(ObjectIdGetDatum(GetOuterUserId()))));
		bindings = MemoryContextAlloc(kept, sizeof(Binding) * (rows.n + 1));
		for (uint64 i = 0; i < rows.n; i++)
		{
			bindings[i].org = MemoryContextStrdup(kept, SqlText(rows, i, 1));
			bindings[i].account = MemoryContextStrdup(kept,
													  SqlText(rows, i, 2));
			nbindings++;
		}
		SqlFinish();
	}
	PG_CATCH();
	{
		bindings_known = false;
		PG_RE_THROW();
	}
	PG_END_TRY();
}

static bool
covers(const Binding *binding, const char *org, const char *account)
{
	return strcmp(binding->org, org) == 0 &&
		PathIsBelow(account, binding->account);
}

/*
 * Returns the argument if it is short enough to name an organisation or
 * account, else NULL.
 */
static char *
name_arg(FunctionCallInfo fcinfo, int n)
{
	if (PG_ARGISNULL(n) ||
		toast_raw_datum_size(PG_GETARG_DATUM(n)) - VARHDRSZ > ARG_NAME_MAX)
		return NULL;
	return text_to_cstring(PG_GETARG_TEXT_PP(n));
}

/*
 * Raises an error if a job, hold or bucket does not belong to the calling
 * tenant: the error for a missing one or, if the tenant has no account in the
 * organisation, the error for a missing account.
 */
static void
check_id(ApiSubject kind, const char *org, int64 id)
{
	char	   *account;
	bool		bound;

	SqlConnect();
	account = ApiAccountOf(kind, org, id);
	bound = is_bound(org, account != NULL ? account : "");
	if (!bound)
	{
		if (!is_bound_in(org))
			NotFoundAccount(org, "");
		if (kind == API_SUBJECT_JOB)
			NotFoundJob(id);
		NotFoundHold(id);
	}
	SqlFinish();
}

static void
refuse_call(const char *what)
{
	ereport(ERROR,
			(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
			 errmsg("a tenant may not call \"%s\"", what),
			 errdetail("The caller is a member of gpucredit_tenant."),
			 errhint("Call it as a role that is no member.")));
}
