/*-------------------------------------------------------------------------
 *
 * db_hosts.h
 *		Connects to the first of several servers that answers.
 *-------------------------------------------------------------------------
 */
#ifndef LIB_DB_HOSTS_H
#define LIB_DB_HOSTS_H

#include <libpq-fe.h>
#include <stdint.h>

extern char *HostsCheck(const char *database);
extern PGconn * HostsConnect(const char *database);
extern int64_t HostsLimitNs(const char *database);
extern int	HostsCount(const char *database);
extern void HostsNext(void);

#endif							/* LIB_DB_HOSTS_H */
