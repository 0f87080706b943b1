/*-------------------------------------------------------------------------
 *
 * xid.h
 *		What to do about an Xid, the driver's number of a GPU's error.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_AGENT_XID_H
#define GPUCREDIT_AGENT_XID_H

#include <stdbool.h>

typedef enum XidAction
{
	XID_LOG,					/* only log it */
	XID_APPLICATION,			/* the job's message has it */
	XID_AFTER_JOB,				/* out of service once its job has ended */
	XID_HARDWARE				/* out of service at once, until a reset */
} XidAction;

extern XidAction XidActionOf(int code);
extern const char *XidActionName(XidAction action);
extern const char *XidMeaning(int code);
extern bool XidConfigure(const char *code, const char *action);

#endif							/* GPUCREDIT_AGENT_XID_H */
