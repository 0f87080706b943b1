/*-------------------------------------------------------------------------
 *
 * xid.h
 *		What an Xid, the driver's word for a GPU's error, leads to.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_AGENT_XID_H
#define GPUCREDIT_AGENT_XID_H

#include <stdbool.h>

typedef enum XidAction
{
	XID_LOG,					/* nothing but a line of the log */
	XID_APPLICATION,			/* the job's message has it */
	XID_AFTER_JOB,				/* out of service once its job has ended */
	XID_HARDWARE				/* out of service at once, until a reset */
} XidAction;

extern XidAction XidActionOf(int code);
extern const char *XidActionName(XidAction action);
extern const char *XidMeaning(int code);
extern bool XidConfigure(const char *code, const char *action);

#endif							/* GPUCREDIT_AGENT_XID_H */
