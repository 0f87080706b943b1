/*-------------------------------------------------------------------------
 *
 * checkpoint.h
 *		What an attempt has saved.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_CHECKPOINT_H
#define GPUCREDIT_CHECKPOINT_H

#include "job/attempt.h"

extern int64 CheckpointElapsed(const Attempt *attempt);

#endif							/* GPUCREDIT_CHECKPOINT_H */
