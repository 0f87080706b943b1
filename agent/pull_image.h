/*-------------------------------------------------------------------------
 *
 * pull_image.h
 *		Pull a job's image, where the node does not have it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_AGENT_PULL_IMAGE_H
#define GPUCREDIT_AGENT_PULL_IMAGE_H

#include "attempts.h"

extern bool PullImage(LocalAttempt *attempt, const char *image);
extern bool PullChildGone(pid_t pid, int status,
						  void (*pulled) (LocalAttempt *));

#endif							/* GPUCREDIT_AGENT_PULL_IMAGE_H */
