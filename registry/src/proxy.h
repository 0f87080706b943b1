/*-------------------------------------------------------------------------
 *
 * proxy.h
 *		Requests that a caching proxy in front of the daemon makes on its own
 *		behalf.
 *-------------------------------------------------------------------------
 */
#ifndef REGISTRY_PROXY_H
#define REGISTRY_PROXY_H

#include <stdbool.h>
#include <stddef.h>

extern bool proxy_load_secret(const char *path);
extern bool proxy_parse(const char *value, char *action, size_t size);

#endif							/* REGISTRY_PROXY_H */
