/*-------------------------------------------------------------------------
 *
 * log.h
 *		The daemon's log.
 *
 *-------------------------------------------------------------------------
 */
#ifndef REGISTRYD_LOG_H
#define REGISTRYD_LOG_H

extern void log_message(const char *format,...) __attribute__((format(printf, 1, 2)));

#endif							/* REGISTRYD_LOG_H */
