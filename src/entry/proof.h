/*-------------------------------------------------------------------------
 *
 * proof.h
 *		Does an agent speak for the node it names?
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_PROOF_H
#define GPUCREDIT_PROOF_H

#include "entry/entry.h"

extern void ProofInit(void);
extern void ProofCheckCall(EntryPoint entry, FunctionCallInfo fcinfo);

#endif							/* GPUCREDIT_PROOF_H */
