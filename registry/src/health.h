/*-------------------------------------------------------------------------
 *
 * health.h
 *		What those who watch the daemon ask it.
 *-------------------------------------------------------------------------
 */
#ifndef REGISTRYD_HEALTH_H
#define REGISTRYD_HEALTH_H

#include <stddef.h>

#include <microhttpd.h>

extern void health_count_answer(int status);
extern void health_count_received(size_t bytes);
extern void health_count_sent(size_t bytes);
extern struct MHD_Response *health_response(const char *method,
											const char *target, int *status);

#endif							/* REGISTRYD_HEALTH_H */
