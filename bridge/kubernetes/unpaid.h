/*-------------------------------------------------------------------------
 *
 * unpaid.h
 *		Handles pods that have devices and no credit.
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_KUBERNETES_UNPAID_H
#define GPUCREDIT_KUBERNETES_UNPAID_H

#include "pod.h"

extern void UnpaidDelete(KubePod *pod, const char *why);
extern bool UnpaidOwes(const KubePod *pod);
extern bool UnpaidCharge(void);

#endif							/* GPUCREDIT_KUBERNETES_UNPAID_H */
