/*-------------------------------------------------------------------------
 *
 * digest_calls.h
 *		Telling the database what was digested.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_AGENT_DIGEST_CALLS_H
#define GPUCREDIT_AGENT_DIGEST_CALLS_H

#include "attempts.h"

extern Attempt *DigestNext(bool resumes);
extern void DigestResume(Attempt *attempt);
extern void DigestSave(Attempt *attempt);

#endif							/* GPUCREDIT_AGENT_DIGEST_CALLS_H */
