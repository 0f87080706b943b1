/*-------------------------------------------------------------------------
 *
 * util.h
 *		Clocks, durable files and log lines, for the agent and its keepers.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_AGENT_UTIL_H
#define GPUCREDIT_AGENT_UTIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NS_PER_S	INT64_C(1000000000)
#define NS_PER_MS	INT64_C(1000000)

extern int64_t MonotonicNs(void);
extern int64_t BoottimeNs(void);

extern void LogLine(const char *format,...)
			__attribute__((format(printf, 1, 2)));
extern void Die(const char *format,...)
			__attribute__((format(printf, 1, 2), noreturn));
extern void *Alloc(size_t size);
extern char *Dup(const char *text);
extern char *Format(const char *format,...)
			__attribute__((format(printf, 1, 2)));

extern bool FilePut(int dir, const char *name, const void *data, size_t len);
extern char *FileGet(int dir, const char *name, size_t *len);
extern bool FileThere(int dir, const char *name);
extern void *FileMap(int dir, const char *name, size_t size, bool writes);
extern bool WriteAll(int fd, const void *data, size_t len);
extern void CloseInherited(void);
extern void Utf8Mend(char *text);
extern void CrashPoint(const char *name);

#endif							/* GPUCREDIT_AGENT_UTIL_H */
