/*-------------------------------------------------------------------------
 *
 * node_proof.h
 *		Builds a call of the database that proves this node's identity.
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_AGENT_NODE_PROOF_H
#define GPUCREDIT_AGENT_NODE_PROOF_H

/*
 * Proves this node's identity ($1) and makes the call in one statement, so
 * that it needs no transaction block. The call's first argument depends on the
 * proof, so the proof is evaluated first.
 */
#define FROM_PROVEN(function, first) \
	" FROM (SELECT pg_catalog.set_config('gpucredit.node_key', $1, true)" \
	" AS key OFFSET 0) p CROSS JOIN LATERAL gpucredit." function \
	"(CASE WHEN p.key IS NOT NULL THEN " first " END"

#endif							/* GPUCREDIT_AGENT_NODE_PROOF_H */
