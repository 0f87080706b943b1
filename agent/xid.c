/*-------------------------------------------------------------------------
 *
 * xid.c
 *		Decides what to do about an Xid, the driver's number of a GPU's error.
 *
 * The configuration may change the action: xid.74 = log.
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>
#include <string.h>

#include "xid.h"

#define MOST_CONFIGURED	256
#define MOST_CODE		100000

static const struct
{
	int			code;
	XidAction	action;
	const char *meaning;
}			known[] = {
	{13, XID_APPLICATION, "graphics engine exception"},
	{31, XID_APPLICATION, "GPU memory page fault"},
	{43, XID_APPLICATION, "GPU stopped processing"},
	{45, XID_APPLICATION, "cleanup after earlier errors"},
	{48, XID_HARDWARE, "double bit ECC error"},
	{63, XID_AFTER_JOB, "row remapping or page retirement"},
	{64, XID_HARDWARE, "row remapping or page retirement failed"},
	{74, XID_HARDWARE, "NVLink error"},
	{79, XID_HARDWARE, "GPU has fallen off the bus"},
	{94, XID_AFTER_JOB, "contained memory error"},
	{95, XID_HARDWARE, "uncontained memory error"},
	{119, XID_HARDWARE, "GSP firmware does not answer"},
};

static struct
{
	int			code;
	XidAction	action;
}			configured[MOST_CONFIGURED];
static int	nconfigured;

static const char *const names[] = {
	[XID_LOG] = "log",
	[XID_APPLICATION] = "application",
	[XID_AFTER_JOB] = "after_job",
	[XID_HARDWARE] = "hardware",
};

#define KNOWN	(sizeof(known) / sizeof(known[0]))

XidAction
XidActionOf(int code)
{
	for (int i = nconfigured - 1; i >= 0; i--)
	{
		if (configured[i].code == code)
			return configured[i].action;
	}
	for (size_t i = 0; i < KNOWN; i++)
	{
		if (known[i].code == code)
			return known[i].action;
	}
	return XID_LOG;
}

const char *
XidActionName(XidAction action)
{
	return names[action];
}

/* Returns the meaning of an Xid, or an empty string if it is not known. */
const char *
XidMeaning(int code)
{
	for (size_t i = 0; i < KNOWN; i++)
	{
		if (known[i].code == code)
			return known[i].meaning;
	}
	return "";
}

/*
 * Sets an action by the configuration. Returns false if the setting is
 * malformed.
 */
bool
XidConfigure(const char *code, const char *action)
{
	char	   *end;
	long		number = strtol(code, &end, 10);

	if (end == code || *end != '\0' || number < 0 || number > MOST_CODE ||
		nconfigured == MOST_CONFIGURED)
		return false;
	for (int i = XID_LOG; i <= XID_HARDWARE; i++)
	{
		if (strcmp(action, names[i]) != 0)
			continue;
		configured[nconfigured].code = (int) number;
		configured[nconfigured++].action = (XidAction) i;
		return true;
	}
	return false;
}
