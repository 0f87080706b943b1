/*-------------------------------------------------------------------------
 *
 * api_function.c
 *		Properties of each function that is called through ApiCall().
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "api/api.h"

typedef struct EntryKind
{
	const char *name;
	ApiSubject	subject;
	bool		wakes;			/* whether a success wakes the scheduler for
								 * all pools, at the commit */
} EntryKind;

#define API_WAKES	true
#define API_QUIET	false

static const EntryKind kinds[API_COUNT] = {
#define API_KIND(name, subject, wakes) \
	[API_##name] = {#name, API_SUBJECT_##subject, API_##wakes},
	API_FUNCTIONS(API_KIND)
#undef API_KIND
};

const char *
ApiName(ApiFunction entry)
{
	return kinds[entry].name;
}

/* Whether rate limits can apply to the function. */
bool
ApiIsLimited(ApiFunction entry)
{
	return API_LIMITED(entry);
}

/* Returns what kind of thing names the account that a call is about. */
ApiSubject
ApiSubjectOf(ApiFunction entry)
{
	return kinds[entry].subject;
}

/* Whether waiting jobs may be able to start after a call has committed. */
bool
ApiWakes(ApiFunction entry)
{
	return kinds[entry].wakes;
}
