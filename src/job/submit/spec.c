/*-------------------------------------------------------------------------
 *
 * spec.c
 *		Parses the members of a job's spec that the server reads.
 *
 *	{"checkpoint_every": "10 min"}	how often the job is ordered to save; a
 *									number means seconds, and 0 means never
 *	{"checkpoint_bytes": 1000000}	expected size of one checkpoint
 *	{"checkpoint_to": "s3://..."}	prefix of the folder for checkpoints
 *
 * A spec with the member "checkpoint" is refused. heartbeat adds a member of
 * that name with the attempt's own checkpoint, and agents trust it.
 *
 * All other members of a spec are sent to the agent unchanged.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/int.h"
#include "datatype/timestamp.h"
#include "job/job.h"
#include "types/clip.h"
#include "util/json_value.h"
#include "utils/jsonb.h"

static int64 read_every(const JsonbValue *value);
static bool every_from_number(const JsonbValue *value, int64 *us);
static int64 read_bytes(const JsonbValue *value);
static JsonbValue *find(const Jsonb *spec, const char *word);
static pg_attribute_noreturn() void refuse(const char *word,
										   const char *what);

/*
 * Parse the checkpoint members of a spec, or refuse them.
 */
SaveSpec
SpecRead(const Jsonb *spec)
{
	JsonbValue *every = find(spec, "checkpoint_every");
	JsonbValue *bytes = find(spec, "checkpoint_bytes");
	JsonbValue *to = find(spec, "checkpoint_to");

	if (find(spec, "checkpoint") != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("\"spec\" has a member \"checkpoint\""),
				 errdetail("Agents receive the job's last checkpoint under "
						   "that name."),
				 errhint("Rename the member.")));
	if (to != NULL && !JsonPlace(to))
		refuse("checkpoint_to", "Write a path or URI of 1 to 1024 bytes "
			   "without control characters.");
	return (SaveSpec)
	{
		every ? read_every(every) : -1, bytes ? read_bytes(bytes) : -1
	};
}

static JsonbValue *
find(const Jsonb *spec, const char *word)
{
	return getKeyJsonValueFromContainer((JsonbContainer *) &spec->root, word,
										(int) strlen(word), NULL);
}

static int64
read_every(const JsonbValue *value)
{
	int64		us;

	if (!every_from_number(value, &us) && !JsonDuration(value, &us))
		refuse("checkpoint_every",
			   "Write an interval without months, as \"30 min\", or a whole "
			   "number of seconds; 0 for never.");
	return us;
}

static bool
every_from_number(const JsonbValue *value, int64 *us)
{
	int64		seconds;

	return JsonWhole(value, &seconds) &&
		!pg_mul_s64_overflow(seconds, USECS_PER_SEC, us);
}

static int64
read_bytes(const JsonbValue *value)
{
	int64		bytes;

	if (!JsonWhole(value, &bytes))
		refuse("checkpoint_bytes", "Write a whole number of bytes.");
	return bytes;
}

static void
refuse(const char *word, const char *hint)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("bad value of \"%s\" in \"spec\"", word),
			 errdetail("The word does not accept this value."),
			 errhint("%s", hint)));
}
