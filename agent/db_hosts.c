/*-------------------------------------------------------------------------
 *
 * db_hosts.c
 *		Connect to the first of several servers that answers.
 *
 * "database" may list hosts, as a standby takes over from its primary.  libpq
 * tries them in order, but an asynchronous connection waits forever for a
 * server that does not answer, and ignores connect_timeout.  So each time a
 * connection takes too long, the next try begins with the next host.
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>
#include <string.h>

#include "db_hosts.h"
#include "util.h"

#define OPTIONS			64		/* more than libpq has */
#define LIMIT			10		/* seconds */

static int	begins;				/* which host of the list to try first */

static char *turned(const char *list, int by);

/*
 * Begin to connect, as PQconnectStart does.
 */
PGconn *
HostsConnect(const char *database)
{
	PQconninfoOption *options = PQconninfoParse(database, NULL);
	const char *names[OPTIONS + 1];
	const char *values[OPTIONS + 1];
	char	   *lists[OPTIONS];
	int			nlists = 0;
	int			n = 0;
	PGconn	   *conn;

	if (options == NULL)		/* libpq says what is wrong with it */
		return PQconnectStart(database);
	for (PQconninfoOption * o = options; o->keyword != NULL && n < OPTIONS; o++)
	{
		if (o->val == NULL)
			continue;
		names[n] = o->keyword;
		values[n] = o->val;
		if (strcmp(o->keyword, "host") == 0 ||
			strcmp(o->keyword, "hostaddr") == 0 ||
			strcmp(o->keyword, "port") == 0)
			values[n] = lists[nlists++] = turned(o->val, begins);
		n++;
	}
	names[n] = NULL;
	values[n] = NULL;
	conn = PQconnectStartParams(names, values, 0);
	while (nlists > 0)
		free(lists[--nlists]);
	PQconninfoFree(options);
	return conn;
}

/*
 * How long a connection may take: connect_timeout, if it is set.
 */
int64_t
HostsLimitNs(const char *database)
{
	static int64_t limit = 0;
	PQconninfoOption *options;

	if (limit != 0)
		return limit;
	limit = LIMIT * NS_PER_S;
	options = PQconninfoParse(database, NULL);
	for (PQconninfoOption * o = options; o != NULL && o->keyword != NULL; o++)
	{
		if (strcmp(o->keyword, "connect_timeout") == 0 && o->val != NULL &&
			atoi(o->val) > 0)
			limit = atoi(o->val) * NS_PER_S;
	}
	PQconninfoFree(options);
	return limit;
}

/*
 * The host that was tried does not answer.
 */
void
HostsNext(void)
{
	begins++;
}

/* a list with commas, from another of its members on */
static char *
turned(const char *list, int by)
{
	const char *from = list;
	int			members = 1;

	for (const char *at = list; *at != '\0'; at++)
		members += *at == ',';
	for (by %= members; by > 0; by--)
		from = strchr(from, ',') + 1;
	return from == list ? Dup(list) :
		Format("%s,%.*s", from, (int) (from - list - 1), list);
}
