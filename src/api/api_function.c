/*-------------------------------------------------------------------------
 *
 * api_function.c
 *		What is known of each function that is called through ApiCall().
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "api/api.h"

typedef struct EntryKind
{
	const char *name;
	ApiSubject	subject;
	bool		wakes;			/* all pools, at the commit */
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

/*
 * Can it have a rate limit?
 */
bool
ApiIsLimited(ApiFunction entry)
{
	return API_LIMITED(entry);
}

/*
 * Whose account is a call about?
 */
ApiSubject
ApiSubjectOf(ApiFunction entry)
{
	return kinds[entry].subject;
}

/*
 * May what waits start, once a call of it has committed?
 */
bool
ApiWakes(ApiFunction entry)
{
	return kinds[entry].wakes;
}
