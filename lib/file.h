/*-------------------------------------------------------------------------
 *
 * file.h
 *		Durable files, shared memory maps and file descriptors.
 *-------------------------------------------------------------------------
 */
#ifndef LIB_FILE_H
#define LIB_FILE_H

#include <stdbool.h>
#include <stddef.h>

extern bool FilePut(int dir, const char *name, const void *data, size_t len);
extern char *FileGet(int dir, const char *name, size_t *len);
extern bool FileThere(int dir, const char *name);
extern void *FileMap(int dir, const char *name, size_t size, bool writes);
extern bool WriteAll(int fd, const void *data, size_t len);
extern void CloseInherited(void);

#endif							/* LIB_FILE_H */
