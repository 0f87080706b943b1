/*-------------------------------------------------------------------------
 *
 * db_hosts.h
 *		Connect to the first of several servers that answers.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_AGENT_DB_HOSTS_H
#define GPUCREDIT_AGENT_DB_HOSTS_H

#include <libpq-fe.h>
#include <stdint.h>

extern PGconn * HostsConnect(const char *database);
extern int64_t HostsLimitNs(const char *database);
extern void HostsNext(void);

#endif							/* GPUCREDIT_AGENT_DB_HOSTS_H */
