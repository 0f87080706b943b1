/*-------------------------------------------------------------------------
 *
 * db_hosts.c
 *		Connects to the first of several servers that answers.
 *
 * The setting "database" may list several hosts, since a standby can replace
 * the primary. libpq tries the hosts in order, but an asynchronous connection
 * waits without limit for a server that does not answer, and ignores
 * connect_timeout. Therefore each attempt to connect is made to a single host
 * of the list, with a time limit of its own, and the next attempt is made to
 * the next host.
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "db_hosts.h"
#include "memory.h"

#define OPTIONS			64		/* more than the number of libpq's connection
								 * options */
#define LIMIT			10		/* seconds to connect if connect_timeout is
								 * not set */

static unsigned current;		/* the host that is tried, counted round and
								 * round through the list */

static int	count_option(const PQconninfoOption * options, const char *keyword);
static char *member(const char *list, unsigned number);
static int	count_members(const char *list);

/*
 * Returns what is wrong with the lists of a connection string, allocated, or
 * NULL if they fit together.  libpq refuses lists of different lengths, but
 * HostsConnect() passes it only one member of each.
 */
char *
HostsCheck(const char *database)
{
	PQconninfoOption *options = PQconninfoParse(database, NULL);
	int			names = count_option(options, "host");
	int			addresses = count_option(options, "hostaddr");
	int			ports = count_option(options, "port");
	int			hosts = addresses > 0 ? addresses : names > 0 ? names : 1;

	PQconninfoFree(options);
	if (names > 0 && names != hosts)
		return Format("it has %d hosts and %d addresses (hostaddr)", names,
					  addresses);
	if (ports > 1 && ports != hosts)
		return Format("it has %d hosts and %d ports", hosts, ports);
	return NULL;
}

/* Returns how many members an option has, or 0 if it is not set. */
static int
count_option(const PQconninfoOption * options, const char *keyword)
{
	for (const PQconninfoOption * o = options;
		 o != NULL && o->keyword != NULL; o++)
	{
		if (strcmp(o->keyword, keyword) == 0)
			return o->val == NULL || *o->val == '\0' ? 0 :
				count_members(o->val);
	}
	return 0;
}

/*
 * Starts to connect to one host of the list, like PQconnectStart().
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

	if (options == NULL)		/* PQconnectStart() reports what is wrong with
								 * the string */
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
			values[n] = lists[nlists++] = member(o->val, current);
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
 * Returns how long connecting may take, in nanoseconds: connect_timeout if it
 * is set, otherwise LIMIT.
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
 * Returns the number of hosts in the list.
 */
int
HostsCount(const char *database)
{
	PQconninfoOption *options = PQconninfoParse(database, NULL);
	int			names = count_option(options, "host");
	int			addresses = count_option(options, "hostaddr");

	PQconninfoFree(options);
	return addresses > 0 ? addresses : names > 0 ? names : 1;
}

/*
 * Makes the next attempt connect to the next host, because the present one
 * does not answer or takes no writes.
 */
void
HostsNext(void)
{
	current++;
}

static int
count_members(const char *list)
{
	int			n = 1;

	for (const char *at = list; *at != '\0'; at++)
		n += *at == ',';
	return n;
}

/*
 * Returns a member of a comma-separated list, allocated. Numbers start at 0
 * and continue at the start of the list after its end.
 */
static char *
member(const char *list, unsigned number)
{
	for (number %= count_members(list); number > 0; number--)
		list = strchr(list, ',') + 1;
	return Format("%.*s", (int) strcspn(list, ","), list);
}
