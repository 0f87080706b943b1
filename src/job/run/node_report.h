/*-------------------------------------------------------------------------
 *
 * node_report.h
 *		An agent's report about its node and itself.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_NODE_REPORT_H
#define GPUCREDIT_NODE_REPORT_H

#include "fmgr.h"
#include "utils/jsonb.h"

typedef struct About
{
	Jsonb	   *json;			/* the report without its unknown members, or
								 * NULL if there is none */
	char	   *boot_id;		/* NULL if not reported */
	char	   *address;		/* NULL if not reported */
	int64		incarnation;	/* -1 if not reported */
} About;

extern About ParseNodeReport(FunctionCallInfo fcinfo, int n);
extern About AboutOf(Jsonb *json);
extern char *AboutOutOfService(const About *about);
extern bool AboutFollows(const char *node, const About *reported,
						 const About *before, const char *boot_before);

#endif							/* GPUCREDIT_NODE_REPORT_H */
