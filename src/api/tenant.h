/*-------------------------------------------------------------------------
 *
 * tenant.h
 *		What a caller who is a tenant may see and spend.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_TENANT_H
#define GPUCREDIT_TENANT_H

#include "api/api.h"

extern void TenantInit(void);
extern void TenantCheckCall(ApiFunction entry, ApiSubject kind,
							FunctionCallInfo fcinfo);
extern void TenantCheckAccount(const char *org, const char *account);
extern void TenantCheckOrg(const char *org);
extern void TenantCheckJob(const char *org, int64 job);
extern bool TenantCalls(void);

#endif							/* GPUCREDIT_TENANT_H */
