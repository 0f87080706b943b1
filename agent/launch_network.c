/*-------------------------------------------------------------------------
 *
 * launch_network.c
 *		Decides which network an attempt has.
 *
 * An attempt on one node has its own network namespace, which its keeper
 * creates (network.c), unless the node's configuration sets "network = node".
 * Nothing outside can connect to it. With "outbound", the job can connect to
 * addresses that the configuration does not deny, but never to the hosts of
 * the database.
 *
 * An attempt on several nodes uses the nodes' network, because its processes
 * must reach each other, also by InfiniBand.
 *-------------------------------------------------------------------------
 */
#include <fcntl.h>
#include <libpq-fe.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config.h"
#include "file.h"
#include "launch_network.h"
#include "memory.h"
#include "network.h"

static void put_list(Writer *writer, const char *key, const char *list,
					 const char *between);
static void put_database(Writer *writer);
static char *resolver(void);

/*
 * Whether the attempt has its own network namespace.
 */
bool
NetworkIsOwn(const LocalAttempt *attempt)
{
	return attempt->nodes <= 1 && strcmp(config.network, "node") != 0;
}

/*
 * Writes what the keeper has to know about the attempt's network.
 */
void
NetworkPut(Writer *writer, const Launch *launch)
{
	char	   *file;

	if (!NetworkIsOwn(launch->attempt))
		return;
	StartPut(writer, "network", "own");
	if (strcmp(config.network, "outbound") != 0)
		return;
	StartPut(writer, "slirp", "%s", config.slirp4netns);
	put_database(writer);
	put_list(writer, "deny", config.network_deny, " \t");
	put_list(writer, "allow", config.network_allow, " \t");
	file = resolver();
	if (file == NULL)
		StartRefuse(writer, EXIT_NOT_STARTED, 0,
					"its resolv.conf could not be written");
	else if (launch->image == NULL && strcmp(config.isolation, "bwrap") != 0)
		StartPut(writer, "resolver", "%s", file);
	free(file);
}

/*
 * Makes bubblewrap mount the configuration for slirp4netns's resolver in place
 * of the node's.
 */
void
NetworkPutBwrap(Writer *writer, const Launch *launch)
{
	char	   *file;
	char	   *real;

	if (!NetworkIsOwn(launch->attempt) ||
		strcmp(config.network, "outbound") != 0)
		return;
	file = resolver();
	real = realpath("/etc/resolv.conf", NULL);
	if (file != NULL && real != NULL)
	{
		StartPut(writer, "arg", "--ro-bind");
		StartPut(writer, "arg", "%s", file);
		StartPut(writer, "arg", "%s", real);
	}
	free(file);
	free(real);
}

static void
put_list(Writer *writer, const char *key, const char *list,
		 const char *between)
{
	char	   *copy = Dup(list);
	char	   *rest = copy;
	char	   *one;

	while ((one = strsep(&rest, between)) != NULL)
	{
		if (*one != '\0' && *one != '/' && *one != '@')
			StartPut(writer, key, "%s", one);
	}
	free(copy);
}

/*
 * Denies every host of the database. If a host is the folder of a socket,
 * there is no address to deny.
 */
static void
put_database(Writer *writer)
{
	PQconninfoOption *options = PQconninfoParse(config.database, NULL);

	for (PQconninfoOption * o = options; o != NULL && o->keyword != NULL; o++)
	{
		if ((strcmp(o->keyword, "host") == 0 ||
			 strcmp(o->keyword, "hostaddr") == 0) && o->val != NULL)
			put_list(writer, "deny", o->val, ",");
	}
	PQconninfoFree(options);
}

/*
 * Returns the path of the file that names the resolver of slirp4netns, or NULL
 * if it cannot be written.
 */
static char *
resolver(void)
{
	static const char text[] = "nameserver " NETWORK_RESOLVER "\n";
	int			state = open(config.state, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char	   *name = Format("%s/resolv.conf", config.state);
	struct stat st;
	bool		good = state >= 0 &&
		((fstatat(state, "resolv.conf", &st, 0) == 0 &&
		  st.st_size == sizeof(text) - 1 && (st.st_mode & 0777) == 0644) ||
		 (FilePut(state, "resolv.conf", text, sizeof(text) - 1) &&
		  fchmodat(state, "resolv.conf", 0644, 0) == 0));

	if (state >= 0)
		close(state);
	if (good)
		return name;
	free(name);
	return NULL;
}
