/*-------------------------------------------------------------------------
 *
 * leader.h
 *		Leader election: of several bridges, only the holder of a lease acts.
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_KUBERNETES_LEADER_H
#define GPUCREDIT_KUBERNETES_LEADER_H

#include <stdbool.h>
#include <stdint.h>

extern void LeaderWork(void);
extern bool LeaderNow(void);
extern int64_t LeaderHeardNs(void);

#endif							/* GPUCREDIT_KUBERNETES_LEADER_H */
