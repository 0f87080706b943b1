/*-------------------------------------------------------------------------
 *
 * node_proof.h
 *		Checks that an agent speaks for the node it names.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_NODE_PROOF_H
#define GPUCREDIT_NODE_PROOF_H

#include "api/api.h"

extern void ProofInit(void);
extern void ProofCheckCall(ApiFunction entry, FunctionCallInfo fcinfo);

#endif							/* GPUCREDIT_NODE_PROOF_H */
