/*-------------------------------------------------------------------------
 *
 * node_report.h
 *		What an agent tells about its node and itself.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_ABOUT_H
#define GPUCREDIT_ABOUT_H

#include "fmgr.h"
#include "utils/jsonb.h"

typedef struct About
{
	Jsonb	   *json;			/* the words that are known; NULL: not told */
	char	   *boot_id;		/* NULL: not told */
	char	   *address;		/* NULL: not told */
	int64		incarnation;	/* -1: not told */
} About;

extern About AboutTake(FunctionCallInfo fcinfo, int n);
extern About AboutOf(Jsonb *json);
extern bool AboutFollows(const char *node, const About *reported,
						 const About *before, const char *boot_before);

#endif							/* GPUCREDIT_ABOUT_H */
