/*-------------------------------------------------------------------------
 *
 * stored_file.c
 *		SQL function store_file, and the texts that a job's spec names by
 *		their digests.
 *
 * A script or an environment of up to a megabyte is stored once for its
 * account.  The spec names it as script_sha256 or env_sha256.  reserve()
 * records that the job needs the text, and heartbeat() sends it to the agent
 * in its place.  The texts that upkeep removes are those that no unfinished
 * job needs.
 *
 * A text belongs to the account that stored it, and a job finds only texts of
 * its own account.  So the digest of another account's text is an unknown
 * digest, and nobody learns from an answer whether somebody else has a text.
 *
 * Locks: store_file() the row of the text, for a twin; reserve() the rows of
 * its texts, FOR KEY SHARE, after its key and before anything else.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/detoast.h"
#include "account/account.h"
#include "api/api.h"
#include "job/submit/stored_file.h"
#include "types/clip.h"
#include "util/args.h"
#include "util/clock.h"
#include "util/digest.h"
#include "util/errors.h"
#include "util/settings.h"
#include "util/sql.h"
#include "mb/pg_wchar.h"
#include "utils/jsonb.h"

API_FUNCTION(gpucredit_store_file, store_file);

#define FILE_BYTES_MOST	(1024 * 1024)
#define FILE_WORDS		2
#define DIGEST_DIGITS	(2 * DIGEST_SIZE)

/* A member of a spec that names a text, and the member it stands for. */
typedef struct FileWord
{
	const char *member;
	const char *word;
} FileWord;

static const FileWord file_words[FILE_WORDS] = {
	{"script_sha256", "script"}, {"env_sha256", "env"}
};

/* Returns whether the organisation has room for a text of $2 bytes. */
SQL_STATEMENT(room_read, SPI_OK_SELECT, "text, bigint, bigint",
			  "SELECT COALESCE(pg_catalog.sum(GREATEST(f.bytes, 8192)), 0)"
			  " + GREATEST($2, 8192) <= $3"
			  " FROM gpucredit.stored_file f WHERE f.org = $1");
/*
 * Stores a text, or notes that it was stored again.  The age only matters to
 * upkeep, which removes texts after an hour, so it is not updated more often
 * than every ten minutes.
 */
SQL_STATEMENT(file_renew, SPI_OK_SELECT, "text, text, text, timestamptz",
			  "WITH renewed AS (UPDATE gpucredit.stored_file f"
			  "  SET stored_at = $4"
			  "  WHERE f.org = $1 AND f.account = $2"
			  "  AND f.sha256 = pg_catalog.decode($3, 'hex')"
			  "  AND f.stored_at < $4 - '10 min'::interval)"
			  " SELECT FROM gpucredit.stored_file f"
			  " WHERE f.org = $1 AND f.account = $2"
			  " AND f.sha256 = pg_catalog.decode($3, 'hex')");
SQL_STATEMENT(file_insert, SPI_OK_INSERT,
			  "text, text, text, text, int, timestamptz",
			  "INSERT INTO gpucredit.stored_file AS f"
			  " (org, account, sha256, body, bytes, stored_at)"
			  " VALUES ($1, $2, pg_catalog.decode($3, 'hex'), $4, $5, $6)"
			  " ON CONFLICT ON CONSTRAINT stored_file_pkey"
			  " DO UPDATE SET stored_at = excluded.stored_at");
/*
 * Locks a text against its removal.  The environment must be an object of
 * JSON: a text that is not even JSON raises the error of its type.
 */
SQL_STATEMENT(file_lock, SPI_OK_SELECT, "text, text, text, boolean",
			  "SELECT NOT $4 OR pg_catalog.jsonb_typeof("
			  "  CASE WHEN $4 THEN f.body ELSE '{}' END::jsonb) = 'object'"
			  " FROM gpucredit.stored_file f"
			  " WHERE f.org = $1 AND f.account = $2"
			  " AND f.sha256 = pg_catalog.decode($3, 'hex')"
			  " FOR KEY SHARE");
SQL_STATEMENT(file_keep, SPI_OK_INSERT, "text, bigint, text, text, text",
			  "INSERT INTO gpucredit.job_file"
			  " (org, job, account, word, sha256)"
			  " VALUES ($1, $2, $3, $4, pg_catalog.decode($5, 'hex'))");

static void check_room(const char *org, int bytes);
static char *digest_of(const Submission *submission, const FileWord *word);
static void check_members(const Submission *submission,
						  const FileWord *word);

Datum
call_store_file(PG_FUNCTION_ARGS)
{
	char	   *org = ArgName(fcinfo, 0, "org");
	char	   *account = ArgPath(fcinfo, 1, "account");
	AccountPath path = AccountParse(org, account);
	int			bytes;
	StringInfoData data;
	uint8		digest[DIGEST_SIZE];
	char		hex[DIGEST_DIGITS + 1];
	char	   *body;

	ArgNotNull(fcinfo, 2, "body");
	bytes = toast_raw_datum_size(PG_GETARG_DATUM(2)) - VARHDRSZ;
	if (bytes > FILE_BYTES_MOST)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("\"body\" is too long"),
				 errdetail("It has %d bytes, and at most %d are allowed.",
						   bytes, FILE_BYTES_MOST),
				 errhint("Keep data in files that the job reads.")));
	body = TextDatumGetCString(PG_GETARG_DATUM(2));
	initStringInfo(&data);
	appendStringInfoString(&data, pg_server_to_any(body, bytes, PG_UTF8));
	DigestOf(&data, digest);
	for (int i = 0; i < DIGEST_SIZE; i++)
		sprintf(hex + 2 * i, "%02x", digest[i]);

	SqlConnect();
	(void) AccountSuspended(&path); /* raises an error if there is none */
	if (SqlRun(&file_renew, VALUES(TextValue(org), TextValue(account),
								   TextValue(hex),
								   TimeValue(ClockNow()))).n == 0)
	{
		check_room(org, bytes);
		(void) SqlRun(&file_insert,
					  VALUES(TextValue(org), TextValue(account),
							 TextValue(hex), TextValue(body),
							 Int4Value(bytes), TimeValue(ClockNow())));
	}
	SqlFinish();
	PG_RETURN_DATUM(CStringGetTextDatum(hex));
}

/* Refuses a text for which the organisation has no room. */
static void
check_room(const char *org, int bytes)
{
	int64		most = SettingFileOrgMax();

	if (most == 0 ||
		SqlBool(SqlRun(&room_read, VALUES(TextValue(org), Int8Value(bytes),
										  Int8Value(most))), 0, 1))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_GPUCREDIT_STORE_FULL),
			 errmsg("organisation \"%s\" has no room for another text",
					ClipForMessage(org)),
			 errdetail("The scripts and environments of its unfinished jobs "
					   "may have %lld bytes in all "
					   "(gpucredit.file_org_max).", (long long) most),
			 errhint("Wait until jobs have ended, or submit jobs that share "
					 "a script.")));
}

/*
 * Locks the texts that a submission's spec names, and checks them.  Does
 * nothing for most submissions, whose specs name none.
 */
void
StoredFilesLock(const Submission *submission)
{
	for (int i = 0; i < FILE_WORDS; i++)
	{
		const FileWord *word = &file_words[i];
		char	   *digest = digest_of(submission, word);
		SqlResult	row;

		if (digest == NULL)
			continue;
		row = SqlRun(&file_lock, VALUES(TextValue(submission->job.org),
										TextValue(submission->job.account),
										TextValue(digest),
										BoolValue(strcmp(word->word,
														 "env") == 0)));
		if (row.n == 0)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("the account has stored no text with the digest "
							"of \"%s\" in \"spec\"", word->member),
					 errdetail("A text that no job needs is removed an hour "
							   "after it was stored."),
					 errhint("Store it with store_file() for the account of "
							 "the job, then repeat the call.")));
		if (!SqlBool(row, 0, 1))
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("the text of \"%s\" is no JSON object",
							word->member),
					 errdetail("An environment has a member for each "
							   "variable."),
					 errhint("Store an object such as {\"HOME\": "
							 "\"/home/alice\"}.")));
		SqlFree(&row);
	}
}

/* Records which texts a job needs that was just inserted. */
void
StoredFilesKeep(const Submission *submission)
{
	for (int i = 0; i < FILE_WORDS; i++)
	{
		char	   *digest = digest_of(submission, &file_words[i]);

		if (digest != NULL)
			(void) SqlRun(&file_keep,
						  VALUES(TextValue(submission->job.org),
								 Int8Value(submission->job.job),
								 TextValue(submission->job.account),
								 TextValue(file_words[i].word),
								 TextValue(digest)));
	}
}

/*
 * Returns the digest by which a spec names a text, or NULL.  Refuses a member
 * that is no digest.
 */
static char *
digest_of(const Submission *submission, const FileWord *word)
{
	JsonbValue	v;
	char	   *digest;

	if (getKeyJsonValueFromContainer(&submission->spec->root, word->member,
									 (int) strlen(word->member), &v) == NULL)
		return NULL;
	if (v.type != jbvString || v.val.string.len != DIGEST_DIGITS ||
		strspn(digest = pnstrdup(v.val.string.val, v.val.string.len),
			   "0123456789abcdef") != DIGEST_DIGITS)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("bad value of \"%s\" in \"spec\"", word->member),
				 errdetail("It is no digest of 64 hexadecimal digits."),
				 errhint("Write what store_file() returned.")));
	check_members(submission, word);
	return digest;
}

/*
 * Refuses a spec in which the text cannot take the place of its member: a
 * second script, or an "env" that is no object and cannot be added to one.
 */
static void
check_members(const Submission *submission, const FileWord *word)
{
	JsonbValue	v;

	if (getKeyJsonValueFromContainer(&submission->spec->root, word->word,
									 (int) strlen(word->word), &v) == NULL ||
		(strcmp(word->word, "env") == 0 && v.type == jbvBinary &&
		 JsonContainerIsObject(v.val.binary.data)))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("\"spec\" has both \"%s\" and \"%s\"", word->member,
					word->word),
			 errdetail("The text takes the place of the other member."),
			 errhint("Leave one of them out; \"env\" may be an object whose "
					 "members are added.")));
}
