/*-------------------------------------------------------------------------
 *
 * settings.h
 *		The settings that several modules read.
 *
 * A function that returns int64 returns microseconds unless settings.c says
 * otherwise at its definition.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_SETTINGS_H
#define GPUCREDIT_SETTINGS_H

extern void SettingsInit(void);

extern int64 SettingKeyRetention(void);
extern int64 SettingClockSkew(void);
extern int64 SettingUsageInterval(void);
extern int64 SettingExhaustGrace(void);
extern int64 SettingHoldWindowMin(void);
extern int64 SettingHoldLeast(void);
extern int64 SettingStartupMax(void);
extern int64 SettingNodeSuspect(void);
extern int64 SettingNodeLost(void);
extern int64 SettingHeartbeatTimeout(void);
extern int64 SettingStopGrace(void);
extern int64 SettingProgressTimeout(void);
extern int64 SettingCheckpointEvery(void);
extern int64 SettingSaveAhead(void);
extern int64 SettingCheckpointBandwidth(void);
extern int64 SettingTenantTransactionMax(void);
extern int64 SettingTenantBlockMax(void);
extern int32 SettingUnpaidQueuedMax(void);
extern int64 SettingUncollectedMax(void);
extern int64 SettingRetryBackoff(void);
extern int64 SettingRetryBackoffMax(void);
extern int64 SettingDenialWindow(void);
extern int64 SettingClaimTimeout(void);
extern int64 SettingElasticIdleDelay(void);
extern int64 SettingRestartCost(void);
extern int	SettingMaxStarts(void);
extern int	SettingJobAlerts(void);
extern int64 SettingUsageHalflife(void);
extern int64 SettingFairHorizon(void);
extern int64 SettingEventRetention(void);
extern int64 SettingUsageRetention(void);
extern int64 SettingEntryRetention(void);
extern int64 SettingAuditRetention(void);
extern int64 SettingLogHead(void);
extern int64 SettingLogTail(void);
extern int64 SettingFileOrgMax(void);
extern bool SettingMeterDurable(void);
extern int	SettingBackfillDepth(void); /* number of jobs */
extern int	SettingUpkeepTime(void);

#endif							/* GPUCREDIT_SETTINGS_H */
