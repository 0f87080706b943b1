/*-------------------------------------------------------------------------
 *
 * digest_calls.h
 *		Reports digests of checkpoints to the database.
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_AGENT_DIGEST_CALLS_H
#define GPUCREDIT_AGENT_DIGEST_CALLS_H

#include "attempts.h"

extern LocalAttempt *DigestNext(bool resumes);
extern void DigestResume(LocalAttempt *attempt);
extern void DigestSave(LocalAttempt *attempt);

#endif							/* GPUCREDIT_AGENT_DIGEST_CALLS_H */
