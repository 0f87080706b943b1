/*-------------------------------------------------------------------------
 *
 * job_signals.h
 *		Delivers signals that people send to this node's jobs.
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_AGENT_JOB_SIGNALS_H
#define GPUCREDIT_AGENT_JOB_SIGNALS_H

#include <jansson.h>

#include "attempts.h"

extern int	JobSignalNumber(const char *name);
extern void JobSignalsBegin(void);
extern void JobSignalSend(const Order *order);
extern void JobSignalsEnd(void);
extern json_t * JobSignalsDelivered(void);

#endif							/* GPUCREDIT_AGENT_JOB_SIGNALS_H */
