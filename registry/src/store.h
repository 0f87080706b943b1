/*-------------------------------------------------------------------------
 *
 * store.h
 *		The store of packs.
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
#define STORE_AHEAD (8 * 1024 * 1024)	/* most bytes that are read ahead */

typedef struct StoredPack
{
	int64_t		number;
	int64_t		size;
	time_t		changed;
} StoredPack;

typedef void (*StoredPackCallback) (void *arg, const StoredPack *pack);

typedef struct StoreDriver
{
	/*
	 * If "remote" is true, a pack is complete only once put() has returned,
	 * and reading ahead is worthwhile.
	 */
	bool		remote;
	bool		(*open) (void);

	/*
	 * Opens a file to write a pack into. Returns -1 with errno set on
	 * failure, which is EEXIST if the pack exists.
	 */
	int			(*create) (int64_t number);
	/* Makes the written bytes durable. */
	bool		(*put) (int64_t number, int fd, size_t size);

	/*
	 * Returns how many bytes were read, which are fewer than requested only
	 * at the pack's end. Returns -1 if none could be read, with ENOTCONN in
	 * errno if the store cannot be reached.
	 */
	ssize_t		(*read) (int64_t number, int64_t at, void *buffer, size_t size);
	/* Deletes a pack. A missing pack counts as deleted. */
	bool		(*delete) (int64_t number);
	bool		(*list) (StoredPackCallback callback, void *arg);
} StoreDriver;

/* Bytes that a reader has read ahead. A new one is zeroed. */
typedef struct StoreReader
{
	int64_t		pack;
	int64_t		from;
	size_t		filled;
	unsigned char *ahead;
} StoreReader;

extern const StoreDriver store_file;
extern const StoreDriver store_s3;
extern const StoreDriver *store;	/* the driver that is in use */

extern bool store_open(void) MUST_USE;
extern void store_path(int64_t number, char *path);
extern bool store_number(const char *name, int64_t *number);
extern bool store_read(StoreReader *reader, int64_t pack, int64_t at,
					   void *buffer, size_t size, size_t ahead) MUST_USE;
extern void store_read_end(StoreReader *reader);
extern StoredPack *store_list(size_t *n);

#endif							/* REGISTRYD_STORE_H */
