/*-------------------------------------------------------------------------
 *
 * crash_point.h
 *		Points at which tests make the agent or a keeper crash.
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_AGENT_CRASH_POINT_H
#define GPUCREDIT_AGENT_CRASH_POINT_H

extern void CrashPoint(const char *name);

#endif							/* GPUCREDIT_AGENT_CRASH_POINT_H */
