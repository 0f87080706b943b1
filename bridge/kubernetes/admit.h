/*-------------------------------------------------------------------------
 *
 * admit.h
 *		Sets the state of the bridge's AdmissionChecks on Kueue's workloads.
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_KUBERNETES_ADMIT_H
#define GPUCREDIT_KUBERNETES_ADMIT_H

extern void AdmitTurn(void);

#endif							/* GPUCREDIT_KUBERNETES_ADMIT_H */
