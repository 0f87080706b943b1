/*-------------------------------------------------------------------------
 *
 * store.h
 *		Where packs are kept.
 *
 *-------------------------------------------------------------------------
 */
#ifndef REGISTRYD_STORE_H
#define REGISTRYD_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "options.h"

#define STORE_PATH	64
#define STORE_AHEAD (8 * 1024 * 1024)	/* bytes that are read ahead, at most */

typedef struct StoredPack
{
	int64_t		number;
	int64_t		size;
	time_t		changed;
} StoredPack;

typedef void (*StoredPackCallback) (void *arg, const StoredPack *pack);

typedef struct StoreDriver
{
	/* remote: a pack is complete once it is put, and reading ahead pays */
	bool		remote;
	bool		(*open) (void);

	/*
	 * a file to write a pack into; -1 and errno, which is EEXIST if it is
	 * there
	 */
	int			(*create) (int64_t number);
	/* make what was written durable */
	bool		(*put) (int64_t number, int fd, size_t size);

	/*
	 * how many bytes were read, fewer only at the pack's end; -1: none, and
	 * ENOTCONN in errno if the store cannot be asked
	 */
	ssize_t		(*read) (int64_t number, int64_t at, void *buffer, size_t size);
	/* a missing pack counts as deleted */
	bool		(*delete) (int64_t number);
	bool		(*list) (StoredPackCallback callback, void *arg);
} StoreDriver;

/* What a reader has read ahead; begins as zeros. */
typedef struct StoreReader
{
	int64_t		pack;
	int64_t		from;
	size_t		filled;
	unsigned char *ahead;
} StoreReader;

extern const StoreDriver store_file;
extern const StoreDriver store_s3;
extern const StoreDriver *store;	/* the one that is used */

extern bool store_open(void) MUST_USE;
extern void store_path(int64_t number, char *path);
extern bool store_number(const char *name, int64_t *number);
extern bool store_read(StoreReader *reader, int64_t pack, int64_t at,
					   void *buffer, size_t size, size_t ahead) MUST_USE;
extern void store_read_end(StoreReader *reader);
extern StoredPack *store_list(size_t *n);

#endif							/* REGISTRYD_STORE_H */
