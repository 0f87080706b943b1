/*-------------------------------------------------------------------------
 *
 * metrics.h
 *		Writes metrics of the node's GPUs and jobs to a file for Prometheus.
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_AGENT_METRICS_H
#define GPUCREDIT_AGENT_METRICS_H

extern void MetricsCheckSettings(const char *path);
extern void MetricsWrite(void);
extern void MetricsEnd(void);

#endif							/* GPUCREDIT_AGENT_METRICS_H */
