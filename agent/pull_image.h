/*-------------------------------------------------------------------------
 *
 * pull_image.h
 *		Pulls jobs' images that the node does not have.
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_AGENT_PULL_IMAGE_H
#define GPUCREDIT_AGENT_PULL_IMAGE_H

#include "attempts.h"

extern bool PullImage(LocalAttempt *attempt, const json_t * intent);
extern void PullExpire(void);
extern bool PullChildGone(pid_t pid, int status,
						  void (*pulled) (LocalAttempt *));
extern void PullLeave(LocalAttempt *attempt);

#endif							/* GPUCREDIT_AGENT_PULL_IMAGE_H */
