/*-------------------------------------------------------------------------
 *
 * step_serve.h
 *		Runs a step's tasks on one node.
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_AGENT_STEP_SERVE_H
#define GPUCREDIT_AGENT_STEP_SERVE_H

extern void StepServe(int fd, const char *folder)
			__attribute__((noreturn));
extern void StepServer(const char *address)
			__attribute__((noreturn));

#endif							/* GPUCREDIT_AGENT_STEP_SERVE_H */
