/*-------------------------------------------------------------------------
 *
 * xid.h
 *		Decides what to do about an Xid, the driver's number of a GPU's error.
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_AGENT_XID_H
#define GPUCREDIT_AGENT_XID_H

#include <stdbool.h>

typedef enum XidAction
{
	XID_LOG,					/* only log it */
	XID_APPLICATION,			/* add it to the message of the job's end */
	XID_AFTER_JOB,				/* take the device out of service once its job
								 * has ended */
	XID_HARDWARE				/* take the device out of service at once,
								 * until a reset */
} XidAction;

extern XidAction XidActionOf(int code);
extern const char *XidActionName(XidAction action);
extern const char *XidMeaning(int code);
extern bool XidConfigure(const char *code, const char *action);

#endif							/* GPUCREDIT_AGENT_XID_H */
