/*-------------------------------------------------------------------------
 *
 * log.h
 *		Writes the lines of a program's log to standard error.
 *-------------------------------------------------------------------------
 */
#ifndef LIB_LOG_H
#define LIB_LOG_H

extern void LogProgram(const char *name);
extern void LogLine(const char *format,...)
			__attribute__((format(printf, 1, 2)));
extern void Die(const char *format,...)
			__attribute__((format(printf, 1, 2), noreturn));

#endif							/* LIB_LOG_H */
